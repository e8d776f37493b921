/* words.c: see words.h. */
#include "compiler/base/words.h"

#include <ctype.h>
#include <string.h>

bool is_bare(char c) { return isalnum((unsigned char)c) || (c && strchr("._-/", c)); }

bool is_bare_word(const char *name)
{
    const char *end = name;
    while (is_bare(*end))
        end++;
    return *name && !*end;
}

void write_quoted(const char *name, Text *t)
{
    text_add(t, "\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            text_add(t, "\\%c", *name);
        else if ((unsigned char)*name < 32 || *name == 127)
            text_add(t, "\\x%02x", (unsigned char)*name);
        else
            text_bytes(t, name, 1);
    }
    text_add(t, "\"");
}

int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
