/* subset.c: the stage part(from, to): the samples whose hash is in [from, to) of the unit interval, in their order.
 *
 * The hash is that of a sample's identity: its number, or what the reader defines, such as a path. So adjoining parts are
 * disjoint, and a part is the same in every run. Streams with an order whose samples overlap or belong together (windows of text)
 * are split by position instead. */
#include "runtime/abi/mgpu_random.h"
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>

typedef struct Part {
    int64_t *sample;
} Part; /* for each sample: its number in the previous stream */

static double share_of(uint64_t identity)
{
    uint32_t words[4];
    mgpu_random_words(mgpu_random_key(0, mgpu_hash_text("part")), (uint32_t)identity, identity >> 32, 0, words);
    return (double)((words[0] | (uint64_t)words[1] << 32) >> 11) * 0x1p-53;
}

static void read_part(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    const Part *p = s->state;
    s->from->read(s->from, p->sample[sample], r, items);
}

static void describe_part(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Part *p = s->state;
    mgpu_describe(s->from, p->sample[sample], column, text, capacity);
}

static const char *name_in_part(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    const Part *p = s->state;
    return mgpu_name_sample(s->from, p->sample[sample], text, capacity);
}

static uint64_t identity_of(const Stream *s, int64_t sample) { return s->identity ? s->identity(s, sample) : (uint64_t)sample; }

static uint64_t part_identity(const Stream *s, int64_t sample)
{
    const Part *p = s->state;
    return identity_of(s->from, p->sample[sample]);
}

static void close_part(Stream *s)
{
    Part *p = s->state;
    free(p->sample);
    free(p);
}

Stream *mgpu_open_part(const Opening *o)
{
    double from = mgpu_option_number(o->call, "from", 0), to = mgpu_option_number(o->call, "to", 1);
    if (o->from->narrow) {
        o->from->narrow(o->from, from, to);
        return o->from;
    }
    Stream *s = mgpu_new_stream(o, o->from->column_count);
    Part *p = s->state = mgpu_allocate(1, sizeof *p);
    p->sample = mgpu_allocate((size_t)o->from->samples, sizeof *p->sample);
    s->samples = 0;
    for (int64_t i = 0; i < o->from->samples; i++) {
        double share = share_of(identity_of(o->from, i));
        if (share >= from && share < to)
            p->sample[s->samples++] = i;
    }
    s->read = read_part;
    s->describe = describe_part;
    s->name = name_in_part;
    s->identity = part_identity;
    s->close = close_part;
    return s;
}
