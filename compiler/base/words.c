/* words.c: writes names of dumps. */
#include "compiler/base/words.h"
#include "runtime/base/records.h"
#include "runtime/base/terminal.h"

void text_put(void *text, const char *bytes, size_t count) { text_bytes(text, bytes, count); }

bool is_bare_word(const char *name) { return mgpu_is_bare_word(name); }

void write_quoted(const char *name, Text *t) { mgpu_write_quoted(name, &(mgpu_writer){text_put, t}); }

const char *without_controls(const char *name)
{
    Text t = {0};
    for (;;) {
        size_t plain = 0;
        while (name[plain] >= ' ' && name[plain] < 0x7f) /* true for whole names, mostly */
            plain++;
        text_bytes(&t, name, plain);
        name += plain;
        if (!*name)
            return text_take(&t);
        uint32_t code;
        int control = mgpu_control(name, &code), bytes = control ? control : mgpu_utf8(name, &code);
        text_bytes(&t, control ? "_" : name, control ? 1 : (size_t)bytes);
        name += bytes;
    }
}
