/* dump_words.c: the characters and words of a dump: names, numbers, lists, types and places, written and read.
 *
 * A name is bare if it consists of letters, digits and . _ - / only, else in quotes; in quotes \" \\ and \xHH are
 * characters. `#` begins a comment where a line begins. What is wrong with a dump is said with its file, line and column. */
#include "compiler/ir/dump.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing */
void write_word(const char *name, Text *t)
{
    static const char *const TAKEN[] = {"in", "line"}; /* words that may follow a name */
    bool bare = is_bare_word(name);
    for (int i = 0; i < COUNT(TAKEN); i++)
        bare = bare && strcmp(name, TAKEN[i]) != 0;
    if (bare)
        text_add(t, "%s", name);
    else
        write_quoted(name, t);
}

/* innermost first: the layer of the library, the user's file that calls it, the model's file that calls that */
void write_place(const Model *m, const Place *at, Text *t)
{
    if (!at || !at->source)
        return;
    const Place *user = users_place(at), *outermost = at, *own = at;
    while (outermost->caller)
        outermost = outermost->caller;
    while (own->source != outermost->source)
        own = own->caller;
    text_add(t, " line %d:%d", own->line, own->column);
    if (!m->file || strcmp(own->source->file, m->file) != 0) {
        text_add(t, " of ");
        write_quoted(own->source->file, t);
    }
    if (user->source != own->source) {
        text_add(t, " from ");
        write_quoted(user->source->file, t);
        text_add(t, " %d:%d", user->line, user->column);
    }
    if (at->source->library && at->layer) {
        text_add(t, " by ");
        write_word(at->layer, t);
    }
}

/* ---- reading: characters and words */
Place dump_here(const Dump *d)
{
    return (Place){.source = d->source, .line = d->line, .column = (int)(d->at - d->line_start) + 1};
}

void wrong(const Dump *d, const char *pattern, ...)
{
    Place at = dump_here(d);
    va_list arguments;
    va_start(arguments, pattern);
    verror_at(&at, pattern, arguments);
}

static void skip_blanks(Dump *d)
{
    while (*d->at == ' ' || *d->at == '\t' || *d->at == '\r')
        d->at++;
}

bool next_record(Dump *d)
{
    for (;;) {
        skip_blanks(d);
        if (*d->at == '#')
            while (*d->at && *d->at != '\n')
                d->at++;
        if (*d->at != '\n')
            return *d->at != 0;
        d->line++;
        d->line_start = ++d->at;
    }
}

void end_record(Dump *d)
{
    skip_blanks(d);
    if (*d->at && *d->at != '\n')
        wrong(d, "the record ends here, but the line goes on; remove the rest, or begin a new line");
}

bool at_end(Dump *d)
{
    skip_blanks(d);
    return !*d->at || *d->at == '\n' || *d->at == ';';
}

bool take_text(Dump *d, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(d->at, text, length) != 0)
        return false;
    d->at += length;
    return true;
}

bool take_word(Dump *d, const char *word)
{
    skip_blanks(d);
    size_t length = strlen(word);
    return strncmp(d->at, word, length) == 0 && !is_bare(d->at[length]) && take_text(d, word);
}

void need(Dump *d, const char *text)
{
    skip_blanks(d);
    if (!take_text(d, text))
        wrong(d, "expected '%s'", text);
}

static const char *read_quoted(Dump *d)
{
    Text t = {0};
    for (d->at++; *d->at != '"'; d->at++) {
        char c = *d->at;
        if (!c || c == '\n')
            wrong(d, "the text is not closed; add '\"'");
        if (c == '\\' && (d->at[1] == '"' || d->at[1] == '\\')) {
            c = *++d->at;
        } else if (c == '\\') {
            bool coded = d->at[1] == 'x' && hex_digit(d->at[2]) >= 0 && hex_digit(d->at[3]) >= 0;
            int code = coded ? 16 * hex_digit(d->at[2]) + hex_digit(d->at[3]) : 0;
            if (!code)
                wrong(d, "after '\\' comes '\"', '\\' or x and two hexadecimal digits, not 00");
            c = (char)code;
            d->at += 3;
        }
        text_bytes(&t, &c, 1);
    }
    d->at++;
    return text_take(&t);
}

const char *read_word(Dump *d, const char *what)
{
    skip_blanks(d);
    if (*d->at == '"')
        return read_quoted(d);
    const char *begin = d->at, *end = begin;
    while (is_bare(*end))
        end++;
    if (end == begin)
        wrong(d, "expected %s", what);
    d->at = end;
    return copy_text(begin, (size_t)(end - begin));
}

int64_t read_whole(Dump *d, const char *what, int64_t least, int64_t most)
{
    skip_blanks(d);
    const char *digits = d->at + (*d->at == '-');
    bool negative = digits > d->at, fits = true;
    int64_t n = 0;
    if (!isdigit((unsigned char)*digits))
        wrong(d, "expected %s: a whole number", what);
    for (; isdigit((unsigned char)*digits); digits++)
        fits = fits && !__builtin_mul_overflow(n, 10, &n) &&
               !(negative ? __builtin_sub_overflow(n, *digits - '0', &n) : __builtin_add_overflow(n, *digits - '0', &n));
    if (!fits || n < least || n > most)
        wrong(d, "%s is out of range: %lld to %lld are possible", what, (long long)least, (long long)most);
    d->at = digits;
    return n;
}

double read_number(Dump *d, const char *what)
{
    skip_blanks(d);
    char *end;
    double value = isspace((unsigned char)*d->at) ? 0 : strtod(d->at, &end);
    if (isspace((unsigned char)*d->at) || end == d->at || is_bare(*end))
        wrong(d, "expected %s: a number", what);
    d->at = end;
    return value != value ? (double)NAN : value;
}

int read_choice(Dump *d, const char *what, const char *const *names, int count)
{
    skip_blanks(d);
    Dump start = *d;
    const char *word = read_word(d, what);
    for (int i = 0; i < count; i++)
        if (*names[i] && strcmp(word, names[i]) == 0)
            return i;
    wrong(&start, "'%s' is not %s%s", word, what, did_you_mean(word, names, count));
}

Dtype read_dtype(Dump *d)
{
    const char *names[DTYPES];
    for (int i = 0; i < DTYPES; i++)
        names[i] = dtype_name((Dtype)i);
    return (Dtype)read_choice(d, "an element type", names, DTYPES);
}

int64_t *read_list(Dump *d, const char *what, int *count)
{
    int64_t *list = NULL;
    *count = 0;
    need(d, "[");
    skip_blanks(d);
    while (!take_text(d, "]")) {
        if (*count)
            need(d, ",");
        int64_t n = read_whole(d, what, INT64_MIN, INT64_MAX);
        APPEND(list, *count, n);
        skip_blanks(d);
    }
    return list;
}

Shape read_shape(Dump *d)
{
    skip_blanks(d);
    Dump start = *d;
    Shape s = {0};
    int count;
    int64_t *extents = read_list(d, "an extent", &count), elements = 8;
    if (count > MAX_RANK)
        wrong(&start, "a shape has at most %d axes", MAX_RANK);
    for (int i = 0; i < count; i++)
        if (extents[i] < 0 || (extents[i] && __builtin_mul_overflow(elements, extents[i], &elements)))
            wrong(&start, "axis %d of the shape cannot be %lld", i, (long long)extents[i]);
    if (count)
        s = shape_of(count, extents);
    return s;
}

Numbers read_numbers(Dump *d)
{
    Numbers n = {0};
    for (next_record(d); !take_text(d, "}"); next_record(d)) { /* long ones go on in the next line */
        if (n.count)
            need(d, ",");
        next_record(d);
        double v = read_number(d, "an element");
        APPEND(n.data, n.count, v);
        if (n.count == 1 && take_word(d, "numbers")) { /* so many, which are at the end */
            Dump start = *d;
            const Numbers *far = map_get(&d->numbers, read_word(d, "the hash of numbers"));
            if (!far || (double)far->count != v)
                wrong(&start, "the dump has no such numbers; a line 'numbers' at its end gives them");
            n = *far;
        }
    }
    return n;
}

/* ---- reading: places */
static const Source *source_named(Dump *d, const char *file)
{
    Source *s = map_get(&d->sources, file);
    if (!s) {
        s = NEW(Source);
        *s = (Source){.file = file, .library = strncmp(file, "stdlib/", 7) == 0, .setting = strncmp(file, "--set ", 6) == 0};
        map_set(&d->sources, file, s);
    }
    return s;
}

static void read_position(Dump *d, Place *at)
{
    at->line = (int)read_whole(d, "a line", 0, INT32_MAX);
    at->column = take_text(d, ":") ? (int)read_whole(d, "a column", 0, INT32_MAX) : 1;
}

static Place *new_place(Place like)
{
    Place *at = NEW(Place);
    *at = like;
    return at;
}

const Place *read_place(Dump *d)
{
    skip_blanks(d);
    const char *begin = d->at;
    if (!take_word(d, "line"))
        return NULL;
    Place *at = NEW(Place);
    read_position(d, at);
    at->source = source_named(d, take_word(d, "of") ? read_word(d, "a file") : d->model->file ? d->model->file : "");
    if (take_word(d, "from")) {
        at = new_place((Place){.source = source_named(d, read_word(d, "a file")), .caller = at});
        read_position(d, at);
    }
    if (take_word(d, "by"))
        at = new_place((Place){.source = source_named(d, "stdlib/"), .caller = at, .layer = read_word(d, "a layer")});
    const char *text = copy_text(begin, (size_t)(d->at - begin));
    const Place *known = map_get(&d->places, text);
    if (!known)
        map_set(&d->places, text, at);
    return known ? known : at;
}
