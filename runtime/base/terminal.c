/* terminal.c: standard descriptors, UTF-8, and text for terminals. */
#include "runtime/base/terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void mgpu_hold_descriptors(void)
{
    enum { MACHINE_FAILED = 3 };
    for (int f = STDIN_FILENO; f <= STDERR_FILENO; f++)
        if (fcntl(f, F_GETFD) < 0 && open("/dev/null", f == STDIN_FILENO ? O_WRONLY : O_RDONLY) != f)
            _exit(MACHINE_FAILED);
}

int mgpu_terminal_columns(FILE *f)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    bool known = isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col;
    int own = known ? size.ws_col : columns ? atoi(columns) : 0;
    return own > 0 ? own : 0;
}

int mgpu_utf8(const char *text, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)text;
    int bytes = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    *code = bytes < 2 ? *p : *p & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80) /* also true for the NUL */
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    bool longer_than_need = (bytes == 3 && *code < 0x800) || (bytes == 4 && *code < 0x10000);
    return longer_than_need || (*code >= 0xd800 && *code < 0xe000) || *code > 0x10ffff ? 0 : bytes;
}

int mgpu_control(const char *text, uint32_t *code)
{
    int bytes = mgpu_utf8(text, code);
    if (!bytes)
        return 1;
    uint32_t c = *code;
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool order = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    bool none = (c & 0xfffe) == 0xfffe; /* a noncharacter, which XML excludes */
    return control || order || none ? bytes : 0;
}

char *mgpu_plain_text(const char *text, bool lines)
{
    enum { LONGEST = 6 }; /* bytes that one byte may become */
    char *plain = malloc(LONGEST * strlen(text) + 1), *to = plain;
    while (plain && *text) {
        uint32_t code;
        bool stays = lines && (*text == '\n' || *text == '\t');
        int bytes = stays ? 0 : mgpu_control(text, &code);
        if (bytes) {
            unsigned shown = bytes == 1 ? (unsigned char)*text : code;
            to += sprintf(to, shown < 0x100 ? "\\x%02x" : "\\u%04x", shown);
        } else {
            bytes = mgpu_utf8(text, &code);
            memcpy(to, text, (size_t)bytes);
            to += bytes;
        }
        text += bytes;
    }
    if (plain)
        *to = 0;
    return plain;
}

void mgpu_print_message(FILE *to, const char *pattern, va_list arguments)
{
    char *text = NULL, *plain = NULL;
    va_list again;
    va_copy(again, arguments);
    if (vasprintf(&text, pattern, arguments) < 0)
        text = NULL;
    else
        plain = mgpu_plain_text(text, strchr(pattern, '\n') || strcmp(pattern, "%s") == 0);
    if (plain)
        fputs(plain, to);
    else /* out of memory */
        vfprintf(to, pattern, again);
    va_end(again);
    free(plain);
    free(text);
}

void mgpu_print_wrapped(FILE *f, const char *text, const char *margin, int width)
{
    int column = 0;
    bool first = true;
    for (const char *at = text + strspn(text, " "); *at;) {
        int n = (int)strcspn(at, " \n");
        bool broken = column && column + 1 + n > width;
        if (broken) {
            fputc('\n', f);
            column = 0;
        }
        column += fprintf(f, "%s%s%.*s", column ? " " : margin, broken && !first ? "    " : "", n, at);
        at += n + (int)strspn(at + n, " ");
        if (*at == '\n') {
            fputc('\n', f);
            column = 0;
            first = false;
            at++;
        }
    }
    fputc('\n', f);
}
