/* words.c: writes names of dumps. */
#include "compiler/base/words.h"
#include "runtime/base/records.h"
#include "runtime/base/terminal.h"

#include <string.h>

bool is_bare_word(const char *name)
{
    const char *end = name;
    while (mgpu_is_bare(*end))
        end++;
    return *name && !*end;
}

void write_quoted(const char *name, Text *t)
{
    text_add(t, "\"");
    while (*name) {
        uint32_t code;
        const char *end = name + mgpu_control(name, &code);
        for (; name < end; name++)
            text_add(t, "\\x%02x", (unsigned char)*name);
        if (!*name || mgpu_control(name, &code))
            continue;
        text_add(t, *name == '"' || *name == '\\' ? "\\" : "");
        end += mgpu_utf8(name, &code);
        text_bytes(t, name, (size_t)(end - name));
        name = end;
    }
    text_add(t, "\"");
}

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
