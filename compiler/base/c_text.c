/* c_text.c: writes comments, strings and identifiers of emitted C and CUDA C for any text.
 *
 * Readable characters stay as they are, including letters beyond ASCII. What could end a comment or a string, continue a line,
 * begin a trigraph, or look different from what is compiled (control characters, characters that change the direction of text:
 * Boucher and Anderson, Trojan Source, 2021) becomes an escape of ASCII characters. */
#include "compiler/base/c_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* Returns true for characters without a visible shape, or that change the direction of their surroundings. */
static bool is_hidden(unsigned code)
{
    return code < 0xA0 || code == 0xAD || code == 0x61C || (code >= 0x200B && code <= 0x200F) ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
           (code >= 0xFFF0 && code <= 0xFFFB) || (code >= 0xD800 && code <= 0xF8FF) || (code & 0xFFFE) == 0xFFFE ||
           code >= 0xE0000;
}

/* Returns the bytes of a valid and visible UTF-8 character beyond ASCII, else 0. */
static int letter_length(const unsigned char *at)
{
    static const unsigned LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = at[0] >= 0xF0 && at[0] < 0xF5 ? 4 : at[0] >= 0xE0 && at[0] < 0xF0 ? 3 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : 0;
    unsigned code = length ? at[0] & (0xFFu >> (length + 1)) : 0;
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3Fu);
    }
    return length && code >= LEAST[length] && !is_hidden(code) ? length : 0;
}

/* Returns the bytes of a character that needs no escape, else 0. */
static int plain_length(const char *at, const char *special)
{
    return (unsigned char)*at >= 128 ? letter_length((const unsigned char *)at) : *at >= 32 && *at < 127 && !strchr(special, *at);
}

/* Escapes the second character of pairs with a meaning: the end and the beginning of a comment, trigraphs. */
static void add_comment(Text *t, const char *line)
{
    char before = 0;
    for (int length; *line; line += length) {
        bool pair = (before == '*' && *line == '/') || (before == '/' && *line == '*') || (before == '?' && *line == '?');
        before = pair ? 0 : *line;
        length = pair ? 0 : plain_length(line, "\\");
        text_bytes(t, line, (size_t)length);
        if (length)
            continue;
        text_add(t, "\\x%02x", (unsigned char)*line);
        length = 1;
    }
}

const char *c_comment_lines(const char *const *lines, int count)
{
    Text t = {0};
    for (int i = 0; i < count; i++) {
        text_add(&t, i ? "\n * " : "/* ");
        add_comment(&t, lines[i]);
    }
    text_add(&t, " */");
    return text_take(&t);
}

const char *c_comment(const char *pattern, ...)
{
    va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, pattern, again);
    char *line = allocate((size_t)length + 1);
    vsnprintf(line, (size_t)length + 1, pattern, arguments);
    va_end(again);
    va_end(arguments);
    return c_comment_lines((const char *const[]){line}, 1);
}

const char *c_string(const char *text)
{
    Text t = {0};
    text_add(&t, "\"");
    for (const char *end; *text; text = end) {
        int length = 0;
        for (end = text; (length = plain_length(end, "\"\\?")) > 0;) /* ? might begin a trigraph */
            end += length;
        text_bytes(&t, text, (size_t)(end - text));
        if (*end == '\n')
            text_add(&t, "\\n");
        else if (*end)
            text_add(&t, *end == '"' || *end == '\\' ? "\\%c" : "\\%03o", (unsigned char)*end);
        end += *end != 0;
    }
    text_add(&t, "\"");
    return text_take(&t);
}

const char *c_letters(const char *text, size_t length)
{
    char *letters = allocate(length + 1);
    for (size_t i = 0; i < length; i++)
        letters[i] = is_letter(text[i]) ? text[i] : '_';
    return letters;
}

const char *c_name(const char *text)
{
    size_t length = strnlen(text, C_NAME_LENGTH);
    const char *letters = c_letters(text, length);
    return strspn(letters, "_") < length ? format("%s%s", C_OWN, letters) : NULL;
}

const char *c_row(const CMember *members, int count)
{
    Text t = {0};
    for (int i = 0; i < count; i++)
        if (members[i].text)
            text_add(&t, "%s.%s = %s", t.length ? ", " : "{", members[i].name, members[i].text);
        else if (members[i].number)
            text_add(&t, "%s.%s = %lld", t.length ? ", " : "{", members[i].name, (long long)members[i].number);
    text_add(&t, t.length ? "}" : "{0}");
    return text_take(&t);
}

enum { ROW_WIDTH = 120 }; /* columns, from which on a row goes on in another line */

const char *c_ordered_row(const CMember *members, int count)
{
    Text t = {0};
    size_t line = 0; /* where the last one begins */
    while (count > 0 && !members[count - 1].text && !members[count - 1].number)
        count--;
    for (int i = 0; i < count; i++) {
        const char *value = members[i].text ? members[i].text : format("%lld", (long long)members[i].number);
        const char *member = format("/* %s */ %s", members[i].name, value);
        text_add(&t, i > 0 ? "," : "{");
        if (i > 0 && t.length - line + strlen(member) > ROW_WIDTH) {
            line = t.length;
            text_add(&t, "\n    ");
        }
        text_add(&t, i > 0 ? " %s" : "%s", member);
    }
    text_add(&t, count > 0 ? "}" : "{}");
    return text_take(&t);
}

const char *c_constant(const char *prefix, const char *word)
{
    char *text = NEW_ARRAY(char, (int)(strlen(prefix) + strlen(word)) + 1), *to = text;
    to += sprintf(to, "%s", prefix);
    for (; *word; word++)
        *to++ = isalnum((unsigned char)*word) ? (char)toupper((unsigned char)*word) : '_';
    return text;
}
