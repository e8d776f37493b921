/* scan.c: text of PTX -> tokens; memory and messages of a translation. PTX ISA 4.1 to 4.5. */
#include "tests/vgpu/ptx/ptx.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory, messages */

struct PtxRoom {
    PtxRoom *next;
    size_t used, bytes;
    max_align_t data[];
};

void *ptx_allocate(Ptx *p, size_t bytes)
{
    enum { BLOCK = 1 << 20 };
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!p->room || p->room->used + bytes > p->room->bytes) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        PtxRoom *r = calloc(1, sizeof *r + room);
        if (!r)
            abort();
        *r = (PtxRoom){.next = p->room, .bytes = room};
        p->room = r;
    }
    char *at = (char *)p->room->data + p->room->used;
    p->room->used += bytes;
    return at;
}

void ptx_free(Ptx *p)
{
    for (PtxRoom *next, *r = p->room; r; r = next) {
        next = r->next;
        free(r);
    }
    p->room = NULL;
}

char *ptx_format(Ptx *p, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    char *text = ptx_allocate(p, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(list);
    return text;
}

void ptx_fail(Ptx *p, int line, const char *format, ...)
{
    va_list list;
    int length = snprintf(p->wrong, sizeof p->wrong, "line %d of the PTX: ", line);
    va_start(list, format);
    vsnprintf(p->wrong + length, sizeof p->wrong - (size_t)length, format, list);
    va_end(list);
    longjmp(p->end, 1);
}

void ptx_add(PtxText *t, const char *format, ...)
{
    va_list list;
    for (;;) {
        va_start(list, format);
        int length = vsnprintf(t->data ? t->data + t->length : NULL, t->room - t->length, format, list);
        va_end(list);
        if (t->length + (size_t)length < t->room) {
            t->length += (size_t)length;
            return;
        }
        t->room = 2 * t->room + (size_t)length + 4096;
        t->data = realloc(t->data, t->room);
        if (!t->data)
            abort();
    }
}

/* ---- tokens */

typedef struct Scanner {
    Ptx *ptx;
    const char *at, *end;
    int line;
} Scanner;

static char *copy(Scanner *s, const char *begin, const char *end)
{
    char *text = ptx_allocate(s->ptx, (size_t)(end - begin) + 1);
    memcpy(text, begin, (size_t)(end - begin));
    return text;
}

static void skip_space(Scanner *s)
{
    while (s->at < s->end) {
        const char *comment = s->at + 1 < s->end && s->at[0] == '/' ? s->at + 1 : "";
        if (*comment == '/') {
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        } else if (*comment == '*') {
            for (s->at += 2; s->at + 1 < s->end && !(s->at[0] == '*' && s->at[1] == '/'); s->at++)
                s->line += *s->at == '\n';
            s->at += s->at + 1 < s->end ? 2 : 1;
        } else if (isspace((unsigned char)*s->at) || *s->at == 0)
            s->line += *s->at++ == '\n';
        else
            return;
    }
}

static bool is_prefix(const char *text, const char *letters) { return text[0] == '0' && text[1] && strchr(letters, text[1]); }
static bool in_word(const char *c) { return isalnum((unsigned char)*c) || *c == '_' || *c == '$' || *c == '.'; }

static void scan_word(Scanner *s, Token *t)
{
    const char *begin = s->at++;
    while (s->at < s->end && (in_word(s->at) || (s->at + 1 < s->end && s->at[0] == ':' && s->at[1] == ':')))
        s->at += *s->at == ':' ? 2 : 1;
    t->kind = TOKEN_WORD;
    t->text = copy(s, begin, s->at);
}

static void scan_number(Scanner *s, Token *t)
{
    const char *begin = s->at;
    while (s->at < s->end && in_word(s->at))
        s->at++;
    char *text = copy(s, begin, s->at), *end;
    t->kind = TOKEN_NUMBER;
    t->text = text;
    if (is_prefix(text, "fFdD")) {
        t->digits = tolower((unsigned char)text[1]) == 'f' ? 8 : 16;
        t->bits = strtoull(text + 2, &end, 16);
        if (end != text + 2 + t->digits)
            ptx_fail(s->ptx, s->line, "'%s' is no number", text);
        return;
    }
    if (strpbrk(text, ".eE") && !is_prefix(text, "xX")) { /* also a version */
        double value = strtod(text, &end);
        memcpy(&t->bits, &value, sizeof value);
        t->digits = 16;
    } else
        t->bits = is_prefix(text, "bB") ? strtoull(text + 2, &end, 2) : strtoull(text, &end, 0);
    end += *end == 'U';
    if (*end)
        ptx_fail(s->ptx, s->line, "'%s' is no number", text);
}

static void scan_string(Scanner *s, Token *t)
{
    const char *begin = ++s->at;
    while (s->at < s->end && *s->at != '"' && *s->at != '\n')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    t->kind = TOKEN_STRING;
    t->text = copy(s, begin, s->at);
    if (s->at < s->end)
        s->at++;
}

Token *ptx_scan(Ptx *p, const char *text, size_t length)
{
    Scanner s = {p, text, text + length, 1};
    Token *list = NULL;
    for (size_t count = 0, room = 0;; count++) {
        if (count == room) {
            Token *longer = ptx_allocate(p, (2 * room + 4096) * sizeof *list);
            if (room)
                memcpy(longer, list, room * sizeof *list);
            list = longer;
            room = 2 * room + 4096;
        }
        skip_space(&s);
        Token *t = &list[count];
        *t = (Token){.line = s.line, .text = "the end"};
        if (s.at >= s.end)
            return list;
        if (isdigit((unsigned char)*s.at))
            scan_number(&s, t);
        else if (*s.at == '"')
            scan_string(&s, t);
        else if (in_word(s.at) || *s.at == '%')
            scan_word(&s, t);
        else {
            t->kind = TOKEN_SIGN;
            t->sign = *s.at;
            t->text = copy(&s, s.at, s.at + 1);
            s.at++;
        }
    }
}
