/* stream.c: shared by readers and stages: memory and random numbers of a sample, options, opening and closing streams. */
#include "runtime/abi/mgpu_random.h"
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory of a sample: blocks are reused for other samples, and freed when none has used them for a while */
struct ReadingBlock {
    struct ReadingBlock *next;
    int64_t capacity, used;
    int idle; /* samples since the last that used it */
    _Alignas(64) uint8_t bytes[];
};

void *mgpu_reading_allocate(Reading *r, int64_t bytes)
{
    enum { SMALLEST = 1 << 16 };
    bytes = (bytes + 63) / 64 * 64;
    struct ReadingBlock *best = NULL; /* the smallest fits best: large blocks become idle and are freed */
    for (struct ReadingBlock *b = r->blocks; b; b = b->next)
        if (b->capacity - b->used >= bytes && (!best || b->capacity < best->capacity))
            best = b;
    if (!best) {
        int64_t capacity = bytes > SMALLEST ? bytes : SMALLEST;
        best = aligned_alloc(64, sizeof *best + (size_t)capacity);
        if (!best)
            mgpu_no_memory((size_t)capacity);
        *best = (struct ReadingBlock){.next = r->blocks, .capacity = capacity};
        r->blocks = best;
    }
    best->used += bytes;
    return best->bytes + best->used - bytes;
}

void mgpu_reading_reset(Reading *r)
{
    enum { MOST_IDLE = 64 };
    for (struct ReadingBlock **at = &r->blocks, *b; (b = *at);) {
        b->idle = b->used ? 0 : b->idle + 1;
        b->used = 0;
        if (b->idle < MOST_IDLE) {
            at = &b->next;
        } else {
            *at = b->next;
            free(b);
        }
    }
}

void mgpu_reading_close(Reading *r)
{
    for (struct ReadingBlock *b = r->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    r->blocks = NULL;
}

/* ---- random numbers */
uint64_t mgpu_stage_key(const Reading *r, const char *stage) { return mgpu_random_key(r->seed, mgpu_hash_text(stage)); }

double mgpu_stage_random(const Reading *r, uint64_t key, int64_t sample, int number)
{
    uint32_t words[4];
    mgpu_random_words(key, (uint32_t)number, (uint64_t)sample, (uint64_t)r->epoch, words);
    return (double)((words[0] | (uint64_t)words[1] << 32) >> 11) * 0x1p-53;
}

/* ---- options */
const mgpu_set *mgpu_find_set(const mgpu_program *p, const char *name)
{
    for (int i = 0; i < p->set_count; i++)
        if (strcmp(p->sets[i].name, name) == 0)
            return &p->sets[i];
    return NULL;
}

const mgpu_option *mgpu_find_option(const mgpu_call *call, const char *name)
{
    for (int i = 0; i < call->option_count; i++)
        if (strcmp(call->options[i].name, name) == 0)
            return &call->options[i];
    return NULL;
}

double mgpu_option_number(const mgpu_call *call, const char *name, double otherwise)
{
    const mgpu_option *o = mgpu_find_option(call, name);
    return o && o->count ? o->items[0].number : otherwise;
}

const char *mgpu_option_text(const mgpu_call *call, const char *name, const char *otherwise)
{
    const mgpu_option *o = mgpu_find_option(call, name);
    return o && o->count ? o->items[0].text : otherwise;
}

const mgpu_input *mgpu_column_input(const Opening *o, const mgpu_column *column)
{
    return column->input < 0 ? NULL : &o->program->inputs[column->input];
}

/* ---- streams */
static void describe_before(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    if (s->from)
        mgpu_describe(s->from, sample, column, text, capacity);
    else
        snprintf(text, capacity, "sample %lld", (long long)sample);
}

void mgpu_describe(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    (s->describe ? s->describe : describe_before)(s, sample, column, text, capacity);
}

const char *mgpu_name_sample(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    if (s->name)
        return s->name(s, sample, text, capacity);
    if (s->from)
        return mgpu_name_sample(s->from, sample, text, capacity);
    snprintf(text, capacity, "%lld", (long long)sample);
    return "sample";
}

Stream *mgpu_new_stream(const Opening *o, int columns)
{
    Stream *s = mgpu_allocate(1, sizeof *s);
    if (o->from)
        *s = *o->from;
    s->what = o->call ? o->call->name : "";
    s->where = mgpu_format("%s", o->where);
    s->from = o->from;
    s->read = NULL;
    s->describe = NULL;
    s->name = NULL;
    s->next = NULL;
    s->forget = NULL;
    s->identity = NULL;
    s->narrow = NULL;
    s->close = NULL;
    s->state = NULL;
    s->columns = mgpu_allocate((size_t)columns, sizeof *s->columns);
    s->column_count = columns;
    if (o->from && columns == o->from->column_count)
        memcpy(s->columns, o->from->columns, (size_t)columns * sizeof *s->columns);
    if (!o->from) {
        const mgpu_option *shuffle = o->call ? mgpu_find_option(o->call, "shuffle") : NULL;
        s->shuffle = shuffle ? (int64_t)shuffle->items[0].number : 1;
    }
    return s;
}

void mgpu_close_stream(Stream *s)
{
    for (Stream *before; s; s = before) {
        before = s->from;
        if (s->close)
            s->close(s);
        else
            free(s->state);
        free(s->columns);
        free(s->where);
        free(s);
    }
}

int mgpu_find_column(const Stream *s, const char *name)
{
    for (int c = 0; c < s->column_count; c++)
        if (strcmp(s->columns[c].name, name) == 0)
            return c;
    return -1;
}
