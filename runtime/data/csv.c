/* csv.c: the reader csv: a table of text -> columns of numbers and words in memory, without columns that no input needs.
 *
 * csv_lines.c splits rows. A missing field is a word without text, or NaN. The input that takes a column decides whether it has
 * words or numbers: class(n) takes words, all others numbers.
 *
 * If rows arrive one by one, only those read since the last `forget` are in memory. */
#include "runtime/base/base.h"
#include "runtime/data/csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Column {
    const char *name;    /* name in the stream */
    int *from;           /* indices of the table's columns */
    const char **titles; /* their names */
    char **made;         /* the same if they are generated, else NULL */
    int width;           /* number of columns; if 1, a sample is a scalar unless the input has an axis */
    bool words;
    uint8_t dtype;
    int64_t element; /* bytes */
    uint8_t *data;   /* [rows, width] */
    WordTable table;
    int64_t missing, first_missing;   /* count of missing numbers, and line of the first */
    int64_t infinite, first_infinite; /* the same for infinite numbers */
} Column;

typedef struct Csv {
    char *path;
    Parser parser;
    Column *columns;
    int column_count;
    int64_t *lines;         /* line of each row */
    int64_t *number;        /* number of each row in the file, counting bad ones, from 1 */
    int64_t rows, capacity; /* rows in memory */
    int64_t first;          /* rows that have been forgotten */
} Csv;

/* ---- fields to values */
/* Converts text that is the number v with all digits, more than a double has. Returns false beyond the range of i64. */
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
    *to = v < beyond ? (int64_t)v : 0; /* such as 1e3 */
    return v < beyond;
}

static void put_number(Parser *p, Column *c, int which, int64_t place)
{
    const Field *f = &p->fields[c->from[which]], trimmed = mgpu_csv_without_blanks(f);
    size_t length = trimmed.length;
    if (mgpu_csv_is_missing(p, f) || mgpu_csv_is_missing(p, &trimmed)) {
        if (!mgpu_dtype_is_float(c->dtype)) {
            mgpu_csv_bad_row(p, "column '%s' has no value, and %s has none for that", c->titles[which],
                             mgpu_dtype_name(c->dtype));
            return;
        }
        mgpu_from_double(c->data, c->dtype, place, NAN);
        return;
    }
    char small[64], *copy = length < sizeof small ? small : mgpu_allocate(length + 1, 1);
    memcpy(copy, trimmed.text, length);
    copy[length] = 0;
    double v;
    bool good = mgpu_csv_read_number(copy, length, c->dtype, &v);
    int64_t bad;
    if (!good)
        mgpu_csv_bad_row(p, "column '%s' is '%.60s', a number is expected", c->titles[which], copy);
    else if (!mgpu_values_fit(&v, MGPU_F64, 1, c->dtype, &bad) ||
             (c->dtype == MGPU_I64 && !put_long(copy, v, (int64_t *)(void *)c->data + place)))
        mgpu_csv_bad_row(p, "column '%s' is %s, which is no value of %s", c->titles[which], copy, mgpu_dtype_name(c->dtype));
    if (good && c->dtype != MGPU_I64)
        mgpu_from_double(c->data, c->dtype, place, v);
    if (copy != small)
        free(copy);
}

/* Words must be UTF-8, because they are saved with the weights as JSON. */
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
        mgpu_csv_bad_row(p, "column '%s' is no UTF-8; iconv -f LATIN1 -t UTF-8 converts a file", c->titles[which]);
}

static void put_word(Parser *p, Column *c, int which, int64_t place)
{
    const Field *f = &p->fields[c->from[which]];
    int64_t id = mgpu_intern(&c->table, mgpu_csv_is_missing(p, f) ? NULL : f->text, f->length);
    ((uint32_t *)(void *)c->data)[place] = (uint32_t)id;
}

/* Counts what notes tell of, in a row that is kept. */
static void count_number(const Parser *p, Column *c, int64_t place)
{
    double v = mgpu_to_double(c->data, c->dtype, place);
    if (isinf(v))
        c->first_infinite = c->infinite++ ? c->first_infinite : p->row_line;
    if (isnan(v))
        c->first_missing = c->missing++ ? c->first_missing : p->row_line;
}

static void add_row(Csv *csv, Parser *p)
{
    if (p->field_count != p->expected)
        mgpu_csv_bad_row(p, "%d field%s, %d expected", p->field_count, p->field_count == 1 ? "" : "s", p->expected);
    if (csv->rows == csv->capacity && !p->bad) {
        csv->capacity = csv->capacity ? 2 * csv->capacity : 1024;
        csv->lines = mgpu_resize(csv->lines, (size_t)csv->capacity * sizeof *csv->lines);
        csv->number = mgpu_resize(csv->number, (size_t)csv->capacity * sizeof *csv->number);
        for (int c = 0; c < csv->column_count; c++)
            csv->columns[c].data =
                mgpu_resize(csv->columns[c].data, (size_t)(csv->capacity * csv->columns[c].width * csv->columns[c].element));
    }
    for (int c = 0; c < csv->column_count; c++)
        for (int k = 0; k < csv->columns[c].width && !p->bad; k++)
            (csv->columns[c].words ? check_word : put_number)(p, &csv->columns[c], k, csv->rows * csv->columns[c].width + k);
    if (p->bad) { /* so that it adds neither words nor notes */
        p->bad_rows++;
        return;
    }
    for (int c = 0; c < csv->column_count; c++)
        for (int64_t k = 0, first = csv->rows * csv->columns[c].width; k < csv->columns[c].width; k++) {
            if (csv->columns[c].words)
                put_word(p, &csv->columns[c], (int)k, first + k);
            else
                count_number(p, &csv->columns[c], first + k);
        }
    csv->number[csv->rows] = csv->first + csv->rows + p->bad_rows + 1;
    csv->lines[csv->rows++] = p->row_line;
}

static void open_column(const Parser *p, Column *c, const Opening *o, const mgpu_column *column)
{
    const mgpu_input *in = mgpu_column_input(o, column);
    *c = (Column){.name = column->name, .width = column->count};
    c->made = mgpu_csv_made_titles(p, o, column, in, &c->width);
    c->words = !in || in->classes || mgpu_csv_is_decoded(o->set, column->name);
    c->dtype = c->words ? MGPU_U32 : in->tensor.dtype;
    c->element = mgpu_dtype_bytes(c->dtype);
    c->from = mgpu_allocate((size_t)c->width, sizeof *c->from);
    c->titles = mgpu_allocate((size_t)c->width, sizeof *c->titles);
    for (int k = 0; k < c->width; k++) {
        c->titles[k] = c->made ? c->made[k] : column->texts[k];
        c->from[k] = mgpu_csv_find_title(p, c->titles[k]);
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
        items[c].data = column->data + (sample - csv->first) * column->width * column->element;
    }
}

static bool in_memory(const Csv *csv, int64_t sample) { return sample >= csv->first && sample - csv->first < csv->rows; }

static void describe_csv(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Csv *csv = s->state;
    const Column *c = &csv->columns[column];
    int64_t line = in_memory(csv, sample) ? csv->lines[sample - csv->first] : csv->parser.line; /* or that of the next */
    snprintf(text, capacity, "%s:%lld: %s", csv->path, (long long)line, c->width == 1 ? "column '" : "'");
    size_t at = strlen(text);
    if (at < capacity)
        snprintf(text + at, capacity - at, "%s'", c->width == 1 ? c->titles[0] : c->name);
}

static const char *name_row(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    const Csv *csv = s->state;
    if (in_memory(csv, sample))
        snprintf(text, capacity, "%lld", (long long)csv->number[sample - csv->first]);
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
    mgpu_close_inflow(csv->parser.inflow);
    free(csv->parser.fields);
    free(csv->parser.text);
    free(csv->columns);
    free(csv->lines);
    free(csv->number);
    free(csv->path);
    free(csv);
}

static void say_numbers(const Csv *csv, int column, int64_t count, const char *what, int64_t line, const char *more)
{
    if (count == 1)
        mgpu_say_once("%s: a number of '%s' is %s, in line %lld%s", csv->path, csv->columns[column].name, what, (long long)line,
                      more);
    else
        mgpu_say_once("%s: %lld numbers of '%s' are %s, the first in line %lld%s", csv->path, (long long)count,
                      csv->columns[column].name, what, (long long)line, more);
}

/* Reports once, even if several data sets use the file. */
static void warn_of_table(const Csv *csv)
{
    const Parser *p = &csv->parser;
    if (p->bad_rows == 1)
        mgpu_say_once("%s: a line is left out, %s", csv->path, p->first_bad);
    else if (p->bad_rows)
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

/* Called when all rows have been read. */
static void end_rows(const Csv *csv)
{
    const Parser *p = &csv->parser;
    if (csv->first + csv->rows == 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file holds no %s", p->where, csv->path,
                  p->bad_rows ? "line that can be read" : "rows");
    warn_of_table(csv);
}

static bool next_row(Stream *s, bool wait, char **complaint)
{
    Csv *csv = s->state;
    Parser *p = &csv->parser;
    int64_t before = csv->rows;
    p->complaint = complaint;
    while (csv->rows == before && !*complaint && mgpu_csv_read_row(p, wait))
        add_row(csv, p);
    s->samples += csv->rows - before;
    if (csv->rows == before && !*complaint && !p->more)
        end_rows(csv);
    return csv->rows > before;
}

static void forget_rows(Stream *s)
{
    Csv *csv = s->state;
    csv->first += csv->rows;
    csv->rows = 0;
    for (int c = 0; c < csv->column_count; c++)
        mgpu_free_words(&csv->columns[c].table);
}

/* Detects a byte order mark, or the zero byte of a first character in ASCII. */
static bool is_utf16(const uint8_t *data, int64_t bytes)
{
    if (bytes < 2)
        return false;
    return memcmp(data, "\xFF\xFE", 2) == 0 || memcmp(data, "\xFE\xFF", 2) == 0 || !data[0] != !data[1];
}

static void begin_table(Csv *csv, const Opening *o, const char *where, const char *text, size_t length)
{
    const mgpu_option *missing = mgpu_find_option(o->call, "missing");
    Parser *p = &csv->parser;
    *p = (Parser){.where = where,
                  .path = csv->path,
                  .at = text,
                  .end = text + length,
                  .inflow = o->inflow,
                  .more = o->inflow && !o->inflow->ended,
                  .delimiter = mgpu_option_text(o->call, "delimiter", ",")[0],
                  .strip = mgpu_option_text(o->call, "strip", ""),
                  .missing = missing ? *missing : (mgpu_option){0},
                  .skip = strcmp(mgpu_option_text(o->call, "on_bad", "stop"), "skip") == 0,
                  .line = 1};
    if (is_utf16((const uint8_t *)text, (int64_t)length))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the text is UTF-16 and has to be UTF-8; iconv -f UTF-16 -t UTF-8 converts a file", where,
                  csv->path);
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) /* skips a byte order mark */
        p->at += 3;
    mgpu_csv_read_titles(p, o);
    for (int c = 0; c < csv->column_count; c++)
        open_column(p, &csv->columns[c], o, &o->columns[c]);
}

static void read_table(Csv *csv, const Opening *o, const char *where)
{
    FileBytes file;
    mgpu_load_file(&file, csv->path, where, false);
    begin_table(csv, o, where, (const char *)file.data, (size_t)file.bytes);
    while (mgpu_csv_read_row(&csv->parser, true))
        add_row(csv, &csv->parser);
    end_rows(csv);
    mgpu_close_file(&file);
}

Stream *mgpu_open_csv(const Opening *o)
{
    Stream *s = mgpu_new_stream(o, o->column_count);
    Csv *csv = s->state = mgpu_allocate(1, sizeof *csv);
    csv->path =
        o->inflow ? mgpu_format("standard input") : mgpu_find_file(mgpu_option_text(o->call, "file", ""), o->folder, o->where);
    csv->column_count = o->column_count;
    csv->columns = mgpu_allocate((size_t)csv->column_count, sizeof *csv->columns);
    if (o->inflow)
        begin_table(csv, o, s->where, o->inflow->text, o->inflow->length);
    else
        read_table(csv, o, s->where);
    s->samples = csv->rows;
    for (int c = 0; c < csv->column_count; c++) {
        const Column *column = &csv->columns[c];
        const mgpu_input *in = mgpu_column_input(o, &o->columns[c]);
        int rank = column->width > 1 || (in && in->tensor.rank > 0 && !mgpu_csv_is_decoded(o->set, column->name));
        s->columns[c] = (StreamColumn){.name = column->name,
                                       .uniform = true,
                                       .dtype = column->dtype,
                                       .rank = rank,
                                       .extent = {column->width},
                                       .words = column->words ? &column->table.words : NULL,
                                       .input = in};
    }
    s->read = read_csv;
    s->next = o->inflow ? next_row : NULL;
    s->forget = o->inflow ? forget_rows : NULL;
    s->describe = describe_csv;
    s->name = name_row;
    s->close = close_csv;
    return s;
}
