/* dump_words.c: the characters and words of a dump: names, numbers, lists, types and places, written and read.
 *
 * A name is bare if it consists only of letters, digits and . _ - /, else in quotes; in quotes \" \\ and \xHH are characters. `#`
 * begins a comment at the beginning of a line. Errors name the file, line and column of the dump. */
#include "compiler/ir/dump.h"

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

/* Writes places innermost first: the layer of the library, the user's file that calls it, the model's file that calls that. */
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

/* ---- reading: lists, shapes and numbers */
int64_t *read_list(mgpu_reader *d, const char *what, int *count)
{
    int64_t *list = NULL;
    *count = 0;
    mgpu_need(d, "[");
    mgpu_skip_blanks(d);
    while (!mgpu_take(d, "]")) {
        if (*count)
            mgpu_need(d, ",");
        int64_t n = mgpu_read_integer(d, what, INT64_MIN, INT64_MAX);
        APPEND(list, *count, n);
        mgpu_skip_blanks(d);
    }
    return list;
}

Shape read_shape(mgpu_reader *d)
{
    mgpu_skip_blanks(d);
    mgpu_reader start = *d;
    Shape s = {0};
    int count;
    int64_t *extents = read_list(d, "an extent", &count), elements = 8;
    if (count > MAX_RANK)
        mgpu_wrong(&start, "a shape has at most %d axes", MAX_RANK);
    for (int i = 0; i < count; i++)
        if (extents[i] < 0 || (extents[i] && __builtin_mul_overflow(elements, extents[i], &elements)))
            mgpu_wrong(&start, "axis %d of the shape cannot be %lld", i, (long long)extents[i]);
    if (count)
        s = shape_of(count, extents);
    return s;
}

Numbers read_numbers(mgpu_reader *d)
{
    Numbers n = {0};
    for (mgpu_next_record(d); !mgpu_take(d, "}"); mgpu_next_record(d)) { /* long lists continue in the next line */
        if (n.count)
            mgpu_need(d, ",");
        mgpu_next_record(d);
        double v = mgpu_read_number(d, "an element");
        APPEND(n.data, n.count, v);
        if (n.count == 1 && mgpu_take_word(d, "numbers")) { /* the number of elements; they are at the end of the dump */
            mgpu_reader start = *d;
            const Numbers *far = map_get(&dump_state(d)->numbers, mgpu_read_name(d, "the hash of numbers"));
            if (!far || (double)far->count != v)
                mgpu_wrong(&start, "the dump has no such numbers; a line 'numbers' at its end gives them");
            n = *far;
        }
    }
    return n;
}

/* ---- reading: places */
static const Source *source_named(mgpu_reader *d, const char *file)
{
    Source *s = map_get(&dump_state(d)->sources, file);
    if (!s) {
        s = NEW(Source);
        *s = (Source){.file = file, .library = strncmp(file, "stdlib/", 7) == 0, .setting = strncmp(file, "--set ", 6) == 0};
        map_set(&dump_state(d)->sources, file, s);
    }
    return s;
}

static void read_position(mgpu_reader *d, Place *at)
{
    at->line = (int)mgpu_read_integer(d, "a line", 0, INT32_MAX);
    at->column = mgpu_take(d, ":") ? (int)mgpu_read_integer(d, "a column", 0, INT32_MAX) : 1;
}

static Place *new_place(Place like)
{
    Place *at = NEW(Place);
    *at = like;
    return at;
}

const Place *read_place(mgpu_reader *d)
{
    mgpu_skip_blanks(d);
    const char *begin = d->at;
    if (!mgpu_take_word(d, "line"))
        return NULL;
    Place *at = NEW(Place);
    read_position(d, at);
    at->source = source_named(d, mgpu_take_word(d, "of")      ? mgpu_read_name(d, "a file")
                                 : dump_state(d)->model->file ? dump_state(d)->model->file
                                                              : "");
    if (mgpu_take_word(d, "from")) {
        at = new_place((Place){.source = source_named(d, mgpu_read_name(d, "a file")), .caller = at});
        read_position(d, at);
    }
    if (mgpu_take_word(d, "by"))
        at = new_place((Place){.source = source_named(d, "stdlib/"), .caller = at, .layer = mgpu_read_name(d, "a layer")});
    const char *text = copy_text(begin, (size_t)(d->at - begin));
    const Place *known = map_get(&dump_state(d)->places, text);
    if (!known)
        map_set(&dump_state(d)->places, text, at);
    return known ? known : at;
}
