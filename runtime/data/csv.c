/* csv.c: the reader csv: a table of text -> columns of numbers and words, in memory; columns that no input needs are not
 * kept.
 *
 * Lines as in RFC 4180: fields between delimiters, a line ends with LF or CRLF; a field in quotes may hold delimiters, line
 * ends and, doubled, quotes. Lines without text are left out. `strip` takes characters from both ends of a field that is not
 * quoted. A field that is empty or one of `missing` is missing: a word without text, or, of a number, NaN. Which column is
 * a number says the input that takes it: class(n) takes words, everything else numbers. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Field {
    const char *text;
    size_t length;
} Field;

typedef struct Column {
    const char *name;    /* of the stream */
    int *from;           /* columns of the table */
    const char **titles; /* their names */
    char **made;         /* the same, if they are no names of the data block; else NULL */
    int width;           /* how many; 1: the sample is a scalar unless the input has an axis */
    bool words;
    uint8_t dtype;
    int64_t element; /* bytes */
    uint8_t *data;   /* [rows, width] */
    WordTable table;
    int64_t missing, first_missing; /* numbers; the line of the first */
    int64_t infinite, first_infinite; /* likewise */
} Column;

typedef struct Csv {
    char *path;
    Column *columns;
    int column_count;
    uint32_t *lines; /* by row */
    int64_t *number; /* by row: 1, 2, ... in the file, where bad ones count, too */
    int64_t rows, room;
} Csv;

typedef struct Parser {
    Csv *csv;
    const char *where;
    const char *at, *end;
    char delimiter;
    const char *strip;
    const mgpu_option *missing;
    bool skip;              /* bad rows */
    int64_t line, row_line; /* of `at`; where the row begins */
    Field *fields;
    int field_count, field_room;
    int expected; /* fields of a row; 0: not known */
    char *text;
    size_t text_length, text_room; /* unquoted fields of the row, one after the other */
    bool bad;                      /* the row */
    int64_t bad_rows;
    char first_bad[400];
} Parser;

static void bad_row(Parser *p, const char *pattern, ...) MGPU_PRINTF(2, 3);
static void bad_row(Parser *p, const char *pattern, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    if (!p->skip)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s:%lld: %s; on_bad = \"skip\" leaves such lines out", p->where, p->csv->path,
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

static void add_field(Parser *p, const char *text, size_t length)
{
    if (p->field_count == p->field_room) {
        p->field_room = p->field_room ? 2 * p->field_room : 32;
        p->fields = mgpu_resize(p->fields, (size_t)p->field_room * sizeof *p->fields);
    }
    p->fields[p->field_count++] = (Field){text, length};
}

static bool is_stripped(const Parser *p, char c)
{
    return c && strchr(p->strip, c);
}

/* after the opening quote; the text without doubled quotes is kept until the row is done */
static void read_quoted(Parser *p)
{
    const char *from = p->at, *close = from;
    size_t length = 0;
    while (close < p->end && (*close != '"' || (close + 1 < p->end && close[1] == '"')))
        close += *close == '"' ? 2 : 1;
    if (close >= p->end) {
        p->row_line = p->line;
        mgpu_fail(MGPU_BAD_INPUT, "%s%s:%lld: the quote that opens here is never closed", p->where, p->csv->path,
                  (long long)p->line);
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
        bad_row(p, "field %d: text follows the closing quote; a quote within quotes is doubled", p->field_count + 1);
        while (!at_line_end(p) && *p->at != p->delimiter)
            p->at++;
    }
    /* fields of a row are few: the offset replaces the text until all of it has its place */
    if (p->text_length + length + 1 > p->text_room) {
        size_t room = 2 * (p->text_length + length + 1);
        char *larger = mgpu_allocate(room, 1);
        memcpy(larger, p->text ? p->text : "", p->text_length);
        for (int i = 0; i < p->field_count; i++) /* fields of this row that are in the old place */
            if (p->text && p->fields[i].text >= p->text && p->fields[i].text < p->text + p->text_room)
                p->fields[i].text = larger + (p->fields[i].text - p->text);
        free(p->text);
        p->text = larger;
        p->text_room = room;
    }
    memcpy(p->text + p->text_length, text, length);
    add_field(p, p->text + p->text_length, length);
    p->text_length += length + 1;
    free(text);
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
    add_field(p, from, (size_t)(to - from));
}

/* the next line with text -> fields; false: there is none */
static bool read_row(Parser *p)
{
    for (;;) {
        const char *c = p->at;
        while (c < p->end && (is_stripped(p, *c) || *c == '\r' || *c == ' ' || (*c == '\t' && p->delimiter != '\t')))
            c++;
        if (c == p->end)
            return false;
        if (*c != '\n')
            break;
        p->at = c + 1;
        p->line++;
    }
    p->field_count = 0;
    p->text_length = 0;
    p->bad = false;
    p->row_line = p->line;
    for (;;) {
        const char *from = p->at;
        while (p->at < p->end && *p->at != p->delimiter && is_stripped(p, *p->at))
            p->at++;
        if (p->at < p->end && *p->at == '"') {
            p->at++;
            read_quoted(p);
        } else {
            p->at = from;
            read_plain(p, from);
        }
        if (at_line_end(p))
            break;
        p->at++; /* the delimiter */
    }
    pass_line_end(p);
    return true;
}

/* ---- fields to values */
static bool is_missing(const Parser *p, const Field *f)
{
    if (f->length == 0)
        return true;
    for (int i = 0; p->missing && i < p->missing->count; i++)
        if (strlen(p->missing->items[i].text) == f->length && memcmp(p->missing->items[i].text, f->text, f->length) == 0)
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

/* text that is the number v -> all its digits, which a double may not have; false: it is beyond the range of i64 */
static bool put_long(const char *text, double v, int64_t *to)
{
    const double beyond = 9223372036854775808.0; /* 2^63 */
    char *end;
    errno = 0;
    *to = strtoll(text, &end, 10);
    bool fits = errno == 0;
    if (*end == '.')
        end += 1 + strspn(end + 1, "0");
    if (*end == 0)
        return fits;
    *to = v < beyond ? (int64_t)v : 0; /* 1e3 */
    return v < beyond;
}

static Field without_blanks(const Field *f)
{
    Field inner = *f;
    while (inner.length && (*inner.text == ' ' || *inner.text == '\t'))
        inner.text++, inner.length--;
    while (inner.length && (inner.text[inner.length - 1] == ' ' || inner.text[inner.length - 1] == '\t'))
        inner.length--;
    return inner;
}

static bool read_number(const char *text, size_t length, uint8_t dtype, double *v)
{
    char *end;
    *v = strtod(text, &end);
    bool good = length && end == text + length && !memchr(text, 'x', length) && !memchr(text, 'X', length);
    return good || (dtype == MGPU_BOOL && truth(text, v));
}

static void put_number(Parser *p, Column *c, int which, int64_t place)
{
    const Field *f = &p->fields[c->from[which]], trimmed = without_blanks(f);
    size_t length = trimmed.length;
    if (is_missing(p, f) || is_missing(p, &trimmed)) {
        if (!mgpu_dtype_is_float(c->dtype)) {
            bad_row(p, "column '%s' has no value, and %s has none for that", c->titles[which], mgpu_dtype_name(c->dtype));
            return;
        }
        c->first_missing = c->missing++ ? c->first_missing : p->row_line;
        mgpu_from_double(c->data, c->dtype, place, NAN);
        return;
    }
    char small[64], *copy = length < sizeof small ? small : mgpu_allocate(length + 1, 1);
    memcpy(copy, trimmed.text, length);
    copy[length] = 0;
    double v;
    bool good = read_number(copy, length, c->dtype, &v);
    int64_t bad;
    if (!good)
        bad_row(p, "column '%s' is '%.60s', a number is expected", c->titles[which], copy);
    else if (!mgpu_values_fit(&v, MGPU_F64, 1, c->dtype, &bad) ||
             (c->dtype == MGPU_I64 && !put_long(copy, v, (int64_t *)(void *)c->data + place)))
        bad_row(p, "column '%s' is %s, which is no value of %s", c->titles[which], copy, mgpu_dtype_name(c->dtype));
    if (good && isinf(v))
        c->first_infinite = c->infinite++ ? c->first_infinite : p->row_line;
    if (good && isnan(v))
        c->first_missing = c->missing++ ? c->first_missing : p->row_line;
    if (good && c->dtype != MGPU_I64)
        mgpu_from_double(c->data, c->dtype, place, v);
    if (copy != small)
        free(copy);
}

/* words are saved with the weights, as JSON */
static bool is_text(const Field *f)
{
    uint32_t code;
    for (int64_t i = 0, length = (int64_t)f->length, step; i < length; i += step) {
        step = mgpu_decode_utf8((const uint8_t *)f->text, length, i, &code);
        if (!step || !code)
            return false;
    }
    return true;
}

static void check_word(Parser *p, Column *c, int which, int64_t place)
{
    (void)place;
    if (!is_text(&p->fields[c->from[which]]))
        bad_row(p, "column '%s' is no UTF-8; iconv -f LATIN1 -t UTF-8 converts a file", c->titles[which]);
}

static void put_word(Parser *p, Column *c, int which, int64_t place)
{
    const Field *f = &p->fields[c->from[which]];
    int64_t id = mgpu_intern(&c->table, is_missing(p, f) ? NULL : f->text, f->length);
    ((uint32_t *)(void *)c->data)[place] = (uint32_t)id;
}

static void add_row(Parser *p)
{
    Csv *csv = p->csv;
    if (p->field_count != p->expected)
        bad_row(p, "%d field%s, %d expected", p->field_count, p->field_count == 1 ? "" : "s", p->expected);
    if (csv->rows == csv->room && !p->bad) {
        csv->room = csv->room ? 2 * csv->room : 1024;
        csv->lines = mgpu_resize(csv->lines, (size_t)csv->room * sizeof *csv->lines);
        csv->number = mgpu_resize(csv->number, (size_t)csv->room * sizeof *csv->number);
        for (int c = 0; c < csv->column_count; c++)
            csv->columns[c].data =
                mgpu_resize(csv->columns[c].data, (size_t)(csv->room * csv->columns[c].width * csv->columns[c].element));
    }
    for (int c = 0; c < csv->column_count; c++)
        for (int k = 0; k < csv->columns[c].width && !p->bad; k++)
            (csv->columns[c].words ? check_word : put_number)(p, &csv->columns[c], k, csv->rows * csv->columns[c].width + k);
    for (int c = 0; c < csv->column_count && !p->bad; c++) /* only now: a bad row leaves no words */
        for (int k = 0; csv->columns[c].words && k < csv->columns[c].width; k++)
            put_word(p, &csv->columns[c], k, csv->rows * csv->columns[c].width + k);
    if (p->bad) {
        p->bad_rows++;
        return;
    }
    csv->number[csv->rows] = csv->rows + p->bad_rows + 1;
    csv->lines[csv->rows++] = (uint32_t)p->row_line;
}

/* ---- which columns */
/* how much of a title a message says */
static int shown(const Field *f)
{
    enum { MOST = 60 };
    return f->length < MOST ? (int)f->length : MOST;
}

static void list_titles(const Parser *p, char *text, size_t room)
{
    enum { SHOWN = 12 };
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < p->field_count && i < SHOWN && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%.*s", i ? ", " : "", shown(&p->fields[i]), p->fields[i].text);
    if (p->field_count > SHOWN && at < room)
        snprintf(text + at, room - at, " and %d more", p->field_count - SHOWN);
}

/* the titles are the fields of the row that was read last */
static int find_title(const Parser *p, const char *name)
{
    int found = -1;
    for (int i = 0; i < p->field_count; i++)
        if (p->fields[i].length == strlen(name) && memcmp(p->fields[i].text, name, p->fields[i].length) == 0) {
            if (found >= 0)
                mgpu_fail(MGPU_BAD_INPUT, "%s%s: two columns are called '%s'; names = [...] tells them apart", p->where,
                          p->csv->path, name);
            found = i;
        }
    if (found >= 0)
        return found;
    char titles[400], hint[160] = "";
    const char **names = mgpu_allocate((size_t)p->field_count, sizeof *names);
    for (int i = 0; i < p->field_count; i++)
        names[i] = mgpu_format("%.*s", shown(&p->fields[i]), p->fields[i].text);
    mgpu_near_miss(name, names, p->field_count, hint);
    static const struct { char byte; const char *text; } OTHERS[] = {{';', ";"}, {'\t', "\\t"}, {'|', "|"}};
    for (int i = 0; i < 3 && p->field_count == 1; i++)
        if (memchr(p->fields[0].text, OTHERS[i].byte, p->fields[0].length))
            snprintf(hint, sizeof hint, "; the titles are one field: csv(..., delimiter = \"%s\")", OTHERS[i].text);
    list_titles(p, titles, sizeof titles);
    mgpu_fail(MGPU_BAD_INPUT, "%s%s: there is no column '%s'%s; it has: %s", p->where, p->csv->path, name, hint, titles);
}

static bool has_title(const Parser *p, const char *name)
{
    for (int i = 0; i < p->field_count; i++)
        if (p->fields[i].length == strlen(name) && memcmp(p->fields[i].text, name, p->fields[i].length) == 0)
            return true;
    return false;
}

static bool needs_title(const Opening *o, const char *name)
{
    for (int c = 0; c < o->column_count; c++)
        for (int k = 0; k < o->columns[c].count; k++)
            if (strcmp(o->columns[c].texts[k], name) == 0)
                return true;
    return false;
}

/* a column of an input that nothing needs here, such as labels */
static bool is_label(const Opening *o, const char *name)
{
    for (int c = 0; c < o->set->column_count; c++)
        for (int k = 0; k < o->set->columns[c].count; k++)
            if (strcmp(o->set->columns[c].texts[k], name) == 0)
                return !needs_title(o, name);
    return false;
}

static bool all_titles(const Parser *p, const Opening *o)
{
    for (int c = 0; c < o->column_count; c++)
        for (int k = 0; k < o->columns[c].count; k++)
            if (!has_title(p, o->columns[c].texts[k]))
                return false;
    return true;
}

typedef enum WhichNames { ALL_NAMES, WITHOUT_LABELS, NEEDED_NAMES, NAME_CHOICES } WhichNames;

static void take_names(Parser *p, const mgpu_option *names, const Opening *o, WhichNames which)
{
    p->field_count = 0;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->items[i].text;
        if (which == ALL_NAMES || (which == WITHOUT_LABELS ? !is_label(o, name) : needs_title(o, name)))
            add_field(p, name, strlen(name));
    }
}

static bool is_decoded(const mgpu_set *set, const char *column)
{
    for (int k = 0; k < set->call_count; k++) {
        const mgpu_option *o = strcmp(set->calls[k].name, "decode") == 0 ? mgpu_find_option(&set->calls[k], "columns") : NULL;
        for (int i = 0; o && i < o->count; i++)
            if (strcmp(o->items[i].text, column) == 0)
                return true;
    }
    return false;
}

/* whether a line cannot be one of titles: numbers are where numbers have to be, or are words. Titles: of its fields */
static bool is_sample(const Parser *titles, const Field *line, const Opening *o)
{
    bool numbers = false;
    for (int c = 0; c < o->column_count; c++) {
        const mgpu_input *in = mgpu_column_input(o, &o->columns[c]);
        bool words = !in || in->classes || is_decoded(o->set, o->columns[c].name);
        for (int k = 0; k < o->columns[c].count; k++) {
            const Field *f = &line[find_title(titles, o->columns[c].texts[k])], inner = without_blanks(f);
            char *text = mgpu_format("%.*s", (int)inner.length, inner.text);
            double v;
            bool number = read_number(text, inner.length, words ? MGPU_F64 : in->tensor.dtype, &v) ||
                          (!words && (is_missing(titles, f) || is_missing(titles, &inner)));
            free(text);
            if (!number && !words)
                return false;
            numbers = numbers || number;
        }
    }
    return numbers;
}

/* A table beside those of the data block, which have `names`: its first line may have titles; else its columns are those of
 * `names`: all, all but labels, or those that are needed. With `header` a line of other titles is one, too. */
static void read_new_titles(Parser *p, const mgpu_option *names, const Opening *o)
{
    const char *at = p->at;
    int64_t line = p->line;
    if (!read_row(p))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file is empty", p->where, p->csv->path);
    if (all_titles(p, o))
        return;
    int fields = p->field_count;
    Field *first = mgpu_allocate((size_t)fields, sizeof *first);
    memcpy(first, p->fields, (size_t)fields * sizeof *first);
    for (int which = 0; which < NAME_CHOICES; which++) {
        take_names(p, names, o, (WhichNames)which);
        if (fields != p->field_count)
            continue;
        if (mgpu_option_number(o->call, "header", 0) == 0 || is_sample(p, first, o)) {
            p->at = at;
            p->line = line;
        }
        free(first);
        return;
    }
    int needed = p->field_count;
    char titles[400];
    take_names(p, names, o, ALL_NAMES);
    list_titles(p, titles, sizeof titles);
    mgpu_fail(MGPU_BAD_INPUT,
              "%s%s: its first line has %d fields, which are no titles; without a line of titles there are %d columns, %d of which are "
              "needed here: %s",
              p->where, p->csv->path, fields, names->count, needed, titles);
}

/* of `names`, or of the first line; the line is passed */
static void read_titles(Parser *p, const Opening *o)
{
    const mgpu_option *names = mgpu_find_option(o->call, "names");
    if (names && o->fresh) {
        read_new_titles(p, names, o);
    } else {
        if (mgpu_option_number(o->call, "header", names == NULL) != 0 && !read_row(p))
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file is empty", p->where, p->csv->path);
        if (names)
            take_names(p, names, o, ALL_NAMES);
    }
    p->expected = p->field_count;
}

/* x_0, x_1, ... of a vector x, for which the data block names no columns */
static char **made_titles(const Parser *p, const Opening *o, const mgpu_column *column, const mgpu_input *in, int *width)
{
    if (!o->fresh || !in || in->classes || in->tensor.rank != 1 || column->count != 1 || has_title(p, column->texts[0]))
        return NULL;
    char **made = mgpu_allocate((size_t)in->tensor.extent[0], sizeof *made), titles[400];
    *width = (int)in->tensor.extent[0];
    for (int k = 0; k < *width; k++)
        made[k] = mgpu_format("%s_%d", column->texts[0], k);
    list_titles(p, titles, sizeof titles);
    if (!has_title(p, made[0]))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: there is no column '%s', nor '%s' to '%s'; it has: %s; csv(\"table.csv\", %s = [\"column\", ...]) "
                  "in the data block names the columns of an input",
                  p->where, p->csv->path, column->texts[0], made[0], made[*width - 1], titles, column->texts[0]);
    return made;
}

static void open_column(const Parser *p, Column *c, const Opening *o, const mgpu_column *column)
{
    const mgpu_input *in = mgpu_column_input(o, column);
    *c = (Column){.name = column->name, .width = column->count};
    c->made = made_titles(p, o, column, in, &c->width);
    c->words = !in || in->classes || is_decoded(o->set, column->name);
    c->dtype = c->words ? MGPU_U32 : in->tensor.dtype;
    c->element = mgpu_dtype_bytes(c->dtype);
    c->from = mgpu_allocate((size_t)c->width, sizeof *c->from);
    c->titles = mgpu_allocate((size_t)c->width, sizeof *c->titles);
    for (int k = 0; k < c->width; k++) {
        c->titles[k] = c->made ? c->made[k] : column->texts[k];
        c->from[k] = find_title(p, c->titles[k]);
    }
}

/* ---- the stream */
static void read_csv(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    (void)r;
    const Csv *csv = s->state;
    for (int c = 0; c < s->column_count; c++) {
        const Column *column = &csv->columns[c];
        items[c].dtype = column->dtype;
        items[c].rank = s->columns[c].rank;
        items[c].extent[0] = column->width;
        items[c].data = column->data + sample * column->width * column->element;
    }
}

static void describe_csv(const Stream *s, int64_t sample, int column, char *text, size_t room)
{
    const Csv *csv = s->state;
    const Column *c = &csv->columns[column];
    snprintf(text, room, "%s:%lld: %s", csv->path, (long long)csv->lines[sample], c->width == 1 ? "column '" : "'");
    size_t at = strlen(text);
    if (at < room)
        snprintf(text + at, room - at, "%s'", c->width == 1 ? c->titles[0] : c->name);
}

static const char *name_row(const Stream *s, int64_t sample, char *text, size_t room)
{
    const Csv *csv = s->state;
    snprintf(text, room, "%lld", (long long)csv->number[sample]);
    return "row";
}

static void close_csv(Stream *s)
{
    Csv *csv = s->state;
    for (int c = 0; c < csv->column_count; c++) {
        free(csv->columns[c].from);
        free(csv->columns[c].titles);
        for (int k = 0; csv->columns[c].made && k < csv->columns[c].width; k++)
            free(csv->columns[c].made[k]);
        free(csv->columns[c].made);
        free(csv->columns[c].data);
        mgpu_free_words(&csv->columns[c].table);
    }
    free(csv->columns);
    free(csv->lines);
    free(csv->number);
    free(csv->path);
    free(csv);
}

static void say_numbers(const Csv *csv, int column, int64_t count, const char *what, int64_t line, const char *more)
{
    if (count == 1)
        mgpu_say_once("%s: a number of '%s' is %s, in line %lld%s", csv->path, csv->columns[column].name, what, (long long)line, more);
    else
        mgpu_say_once("%s: %lld numbers of '%s' are %s, the first in line %lld%s", csv->path, (long long)count, csv->columns[column].name, what,
                      (long long)line, more);
}

/* once, although several data sets may be made of one file */
static void say_notes(const Parser *p)
{
    const Csv *csv = p->csv;
    if (p->bad_rows)
        mgpu_say_once("%s: %lld lines are left out, the first is %s", csv->path, (long long)p->bad_rows, p->first_bad);
    for (int c = 0; c < csv->column_count; c++)
        if (csv->columns[c].infinite)
            say_numbers(csv, c, csv->columns[c].infinite, "infinite", csv->columns[c].first_infinite, "");
    for (int c = 0; c < csv->column_count; c++)
        if (csv->columns[c].missing) {
            const char *name = csv->columns[c].name;
            char *cure = mgpu_format("; what is missing is NaN: where(%s == %s, %s, 0)", name, name, name);
            say_numbers(csv, c, csv->columns[c].missing, "missing", csv->columns[c].first_missing, cure);
            free(cure);
        }
}

/* by its byte order mark, or by the zero that the first character has where it is of ASCII */
static bool is_utf16(const uint8_t *data, int64_t bytes)
{
    if (bytes < 2)
        return false;
    return memcmp(data, "\xFF\xFE", 2) == 0 || memcmp(data, "\xFE\xFF", 2) == 0 || !data[0] != !data[1];
}

static void read_table(Csv *csv, const Opening *o)
{
    const char *delimiter = mgpu_option_text(o->call, "delimiter", ",");
    FileBytes file;
    mgpu_load_file(&file, csv->path, o->where, false);
    Parser p = {.csv = csv,
                .where = o->where,
                .at = (const char *)file.data,
                .end = (const char *)file.data + file.bytes,
                .delimiter = delimiter[0],
                .strip = mgpu_option_text(o->call, "strip", ""),
                .missing = mgpu_find_option(o->call, "missing"),
                .skip = strcmp(mgpu_option_text(o->call, "on_bad", "stop"), "skip") == 0,
                .line = 1};
    if (is_utf16(file.data, file.bytes))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the text is UTF-16 and has to be UTF-8; iconv -f UTF-16 -t UTF-8 converts a file", o->where,
                  csv->path);
    if (file.bytes >= 3 && memcmp(p.at, "\xEF\xBB\xBF", 3) == 0) /* a byte order mark */
        p.at += 3;
    read_titles(&p, o);
    for (int c = 0; c < csv->column_count; c++)
        open_column(&p, &csv->columns[c], o, &o->columns[c]);
    while (read_row(&p))
        add_row(&p);
    if (csv->rows == 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file holds no %s", o->where, csv->path,
                  p.bad_rows ? "line that can be read" : "rows");
    say_notes(&p);
    free(p.fields);
    free(p.text);
    mgpu_close_file(&file);
}

Stream *mgpu_open_csv(const Opening *o)
{
    Stream *s = mgpu_new_stream(o, o->column_count);
    Csv *csv = s->state = mgpu_allocate(1, sizeof *csv);
    csv->path = mgpu_find_file(mgpu_option_text(o->call, "file", ""), o->folder, o->where);
    csv->column_count = o->column_count;
    csv->columns = mgpu_allocate((size_t)csv->column_count, sizeof *csv->columns);
    read_table(csv, o);
    s->samples = csv->rows;
    for (int c = 0; c < csv->column_count; c++) {
        const Column *column = &csv->columns[c];
        const mgpu_input *in = mgpu_column_input(o, &o->columns[c]);
        int rank = column->width > 1 || (in && in->tensor.rank > 0 && !is_decoded(o->set, column->name));
        s->columns[c] = (StreamColumn){.name = column->name,
                                       .uniform = true,
                                       .dtype = column->dtype,
                                       .rank = rank,
                                       .extent = {column->width},
                                       .words = column->words ? &column->table.words : NULL,
                                       .input = in};
    }
    s->read = read_csv;
    s->describe = describe_csv;
    s->name = name_row;
    s->close = close_csv;
    return s;
}
