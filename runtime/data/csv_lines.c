/* csv_lines.c: splits text into rows of fields, and reads the value of a field.
 *
 * Lines as in RFC 4180: fields between delimiters, a line ends with LF or CRLF. A field in quotes may contain delimiters, line
 * ends and doubled quotes. Empty lines are skipped. `strip` removes characters from both ends of fields without quotes. A field
 * that is empty or one of `missing` is missing.
 *
 * A row of text that arrives is read when its line end has arrived. An incomplete row is split again when there is more text. */
#include "runtime/base/base.h"
#include "runtime/data/csv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const size_t LONGEST_ROW = (size_t)64 << 20; /* limit for text that arrives, since a quote may never be closed */

void mgpu_csv_bad_row(Parser *p, const char *pattern, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    if (!p->skip)
        mgpu_complain(p->complaint, "%s%s:%lld: %s; on_bad = \"skip\" leaves such lines out", p->where, p->path,
                      (long long)p->row_line, text);
    if (p->bad_rows == 0 && !p->bad)
        snprintf(p->first_bad, sizeof p->first_bad, "line %lld: %.360s", (long long)p->row_line, text);
    p->bad = true;
}

/* ---- lines to fields */
static bool at_line_end(const Parser *p)
{
    return p->at == p->end || *p->at == '\n' || (*p->at == '\r' && (p->at + 1 == p->end || p->at[1] == '\n'));
}

static void pass_line_end(Parser *p)
{
    if (p->at < p->end && *p->at == '\r')
        p->at++;
    if (p->at < p->end)
        p->at++;
    p->line++;
}

void mgpu_csv_add_field(Parser *p, const char *text, size_t length)
{
    MGPU_PUSH(p->fields, p->field_count, (Field){text, length});
}

static bool is_stripped(const Parser *p, char c) { return c && strchr(p->strip, c); }

/* Reads after the opening quote. The text is unescaped and valid until the next row. Returns false if the quote is not closed. */
static bool read_quoted(Parser *p)
{
    const char *from = p->at, *close = from;
    size_t length = 0;
    while (close < p->end && (*close != '"' || (close + 1 < p->end && close[1] == '"')))
        close += *close == '"' ? 2 : 1;
    if (close >= p->end) {
        p->awaited = '"';
        if (!p->more)
            mgpu_complain(p->complaint, "%s%s:%lld: the quote that opens here is never closed", p->where, p->path,
                          (long long)p->line);
        return false;
    }
    char *text = mgpu_allocate((size_t)(close - from) + 1, 1);
    for (const char *c = from; c < close; c++) {
        text[length++] = *c;
        p->line += *c == '\n';
        c += *c == '"';
    }
    p->at = close + 1;
    while (p->at < p->end && is_stripped(p, *p->at))
        p->at++;
    if (!at_line_end(p) && *p->at != p->delimiter) {
        mgpu_csv_bad_row(p, "field %d: text follows the closing quote; a quote within quotes is doubled", p->field_count + 1);
        while (!at_line_end(p) && *p->at != p->delimiter)
            p->at++;
    }
    /* a row has few fields; the offsets in the text are fixed when it is moved */
    if (p->text_length + length + 1 > p->text_capacity) {
        size_t capacity = 2 * (p->text_length + length + 1);
        char *larger = mgpu_allocate(capacity, 1);
        memcpy(larger, p->text ? p->text : "", p->text_length);
        for (int i = 0; i < p->field_count; i++) /* fields of this row that are in the old text */
            if (p->text && p->fields[i].text >= p->text && p->fields[i].text < p->text + p->text_capacity)
                p->fields[i].text = larger + (p->fields[i].text - p->text);
        free(p->text);
        p->text = larger;
        p->text_capacity = capacity;
    }
    memcpy(p->text + p->text_length, text, length);
    mgpu_csv_add_field(p, p->text + p->text_length, length);
    p->text_length += length + 1;
    free(text);
    return true;
}

static void read_plain(Parser *p, const char *from)
{
    while (!at_line_end(p) && *p->at != p->delimiter)
        p->at++;
    const char *to = p->at;
    while (from < to && is_stripped(p, *from))
        from++;
    while (to > from && is_stripped(p, to[-1]))
        to--;
    mgpu_csv_add_field(p, from, (size_t)(to - from));
}

/* Skips empty lines. */
static void pass_empty_lines(Parser *p)
{
    for (const char *c = p->at;; c++) {
        while (c < p->end && (is_stripped(p, *c) || *c == '\r' || *c == ' ' || (*c == '\t' && p->delimiter != '\t')))
            c++;
        if (c == p->end || *c != '\n') {
            p->at = c == p->end && !p->more ? c : p->at;
            return;
        }
        p->at = c + 1;
        p->line++;
    }
}

/* Returns false if a quote is not closed. */
static bool split_fields(Parser *p)
{
    for (;;) {
        const char *from = p->at;
        while (p->at < p->end && *p->at != p->delimiter && is_stripped(p, *p->at))
            p->at++;
        if (p->at < p->end && *p->at == '"') {
            p->at++;
            if (!read_quoted(p))
                return false;
        } else {
            p->at = from;
            read_plain(p, from);
        }
        if (at_line_end(p))
            return true;
        p->at++; /* the delimiter */
    }
}

/* Splits the next line that is not empty. Returns false if there is none or it is incomplete, with `at` at or before its
 * start. */
static bool split_row(Parser *p)
{
    pass_empty_lines(p);
    p->awaited = '\n';
    if (p->at == p->end)
        return false;
    p->row = p->at;
    p->field_count = 0;
    p->text_length = 0;
    p->bad = false;
    p->row_line = p->line;
    bool whole = split_fields(p) && !(p->more && (p->at == p->end || (*p->at == '\r' && p->at + 1 == p->end)));
    if (!whole) {
        p->at = p->row;
        p->line = p->row_line;
        return false;
    }
    pass_line_end(p);
    return true;
}

/* Reads text until a row may be complete or the input ends. Returns false if there is none (yet) or the row is too long. */
static bool take_more(Parser *p, bool wait)
{
    Inflow *in = p->inflow;
    bool any = false;
    in->begin = (size_t)(p->at - in->text);
    while (!any && in->length - in->begin < LONGEST_ROW) {
        size_t had = in->length - in->begin;
        if (!mgpu_read_inflow(in, wait))
            break;
        any = in->ended || memchr(in->text + had, p->awaited, in->length - had);
    }
    if (!any && in->length - in->begin >= LONGEST_ROW)
        mgpu_complain(p->complaint, "%s%s:%lld: this row has no end in %zu MiB; a quote may never be closed", p->where, p->path,
                      (long long)p->line, LONGEST_ROW >> 20);
    p->at = in->text + in->begin;
    p->end = in->text + in->length;
    p->more = !in->ended;
    return any;
}

bool mgpu_csv_read_row(Parser *p, bool wait)
{
    while (!split_row(p))
        if (!p->more || !take_more(p, wait))
            return false;
    return true;
}

/* ---- values of fields */
bool mgpu_csv_is_missing(const Parser *p, const Field *f)
{
    if (f->length == 0)
        return true;
    for (int i = 0; i < p->missing.count; i++)
        if (strlen(p->missing.items[i].text) == f->length && memcmp(p->missing.items[i].text, f->text, f->length) == 0)
            return true;
    return false;
}

static bool truth(const char *text, double *v)
{
    static const char *const NAMES[] = {"false", "true"};
    for (int i = 0; i < 2; i++)
        if (strcasecmp(text, NAMES[i]) == 0) {
            *v = i;
            return true;
        }
    return false;
}

Field mgpu_csv_without_blanks(const Field *f)
{
    Field inner = *f;
    while (inner.length && (*inner.text == ' ' || *inner.text == '\t'))
        inner.text++, inner.length--;
    while (inner.length && (inner.text[inner.length - 1] == ' ' || inner.text[inner.length - 1] == '\t'))
        inner.length--;
    return inner;
}

bool mgpu_csv_read_number(const char *text, size_t length, uint8_t dtype, double *v)
{
    char *end;
    *v = strtod(text, &end);
    bool good = length && end == text + length && !memchr(text, 'x', length) && !memchr(text, 'X', length);
    return good || (dtype == MGPU_BOOL && truth(text, v));
}
