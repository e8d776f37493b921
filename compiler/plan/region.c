/* region.c: Order -> regions: runs of calls without thread-pool barriers between them.
 *
 * In a region every worker takes its own samples, a chunk at a time, through all calls that work sample by sample
 * (region-mining). So what one kernel stores is still in the core's cache when the next one reads it. Calls that are divided
 * otherwise (weights, sums over samples) may be in a region, too, if nothing in it depends on them.
 *
 * A call joins the region of the calls before it unless
 *   - one of them computes a part of Split values, whose elements are divided in place of samples;
 *   - both access a tensor, one of them writes it, and it is not one of samples that both access by sample;
 *   - the region completes a sum over the devices: its all-reduce may now start, and a reader would wait for its own region;
 *   - it needs a later all-reduce than they do: they would wait for it. So the updates of a bucket of gradients are a region;
 *   - it begins a chain that rematerializes values: all of these would be in memory together with those of the calls before it;
 *   - no chunk is both small enough for the cache and large enough for the weights that the call reads again for each chunk.
 * The chunk is as large as the cache allows. In exact programs it is a part of a virtual shard, of whole units
 * (mgpu_kernel.unit). */
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/schedule_internal.h"

#include "compiler/kernel/kernel.h"
#include "runtime/abi/mgpu.h"

typedef struct Region {
    int first;        /* first call */
    double footprint; /* the most bytes that one of its calls accesses, per sample */
    double least;     /* least samples of a chunk, because of the weights */
    bool by_sample;   /* some call works by sample */
    int64_t unit;     /* exact programs: the most samples that one of its calls takes at once, a power of two */
    int group;        /* the last collective that one of its calls needs + 1; 0: none */
} Region;

typedef struct Cutting {
    const Phase *phase;
    Order *order;
    int *touched, *written; /* by tensor: the last region that accesses, writes it + 1 */
    bool *whole;            /* by tensor: the region accesses it other than by sample */
    int *after;             /* by call: a collective follows it */
    int number;             /* index of the region + 1 */
    int64_t shard;          /* exact programs: samples of the largest virtual shard; else 0 */
    Region region;
} Cutting;

static bool by_sample(const Task *t) { return t->kernel->split == MGPU_SPLIT_SAMPLES && !t->elements; }

static double sample_bytes(const Task *t)
{
    double bytes = 0;
    for (int i = 0; i < t->read_count; i++)
        bytes += t->reads[i]->has_samples ? (double)tensor_bytes(t->reads[i], 1) : 0;
    for (int i = 0; i < t->write_count; i++)
        bytes += t->writes[i]->has_samples ? (double)tensor_bytes(t->writes[i], 1) : 0;
    return bytes;
}

static bool tensor_conflicts(const Cutting *c, const Task *t, const Tensor *x, bool write)
{
    if ((write ? c->touched : c->written)[x->id] != c->number)
        return false;
    return !x->has_samples || !by_sample(t) || c->whole[x->id];
}

static bool conflicts(const Cutting *c, const Task *t)
{
    for (int i = 0; i < t->read_count; i++)
        if (tensor_conflicts(c, t, t->reads[i], false))
            return true;
    for (int i = 0; i < t->write_count; i++)
        if (tensor_conflicts(c, t, t->writes[i], true))
            return true;
    return false;
}

static void with(Region *s, const Task *t)
{
    if (!by_sample(t))
        return;
    double footprint = sample_bytes(t), least = task_least_samples(t);
    s->footprint = footprint > s->footprint ? footprint : s->footprint;
    s->least = least > s->least ? least : s->least;
    s->by_sample = true;
    s->unit = t->kernel->unit > s->unit ? t->kernel->unit : s->unit;
}

static bool fits(const Cutting *c, const Task *t)
{
    Region s = c->region;
    with(&s, t);
    return !s.by_sample || s.least <= 1 || s.least * s.footprint <= (double)CHIP[PROCESSOR_HOST].cache_bytes;
}

/* Returns the last collective whose result the call reads + 1. */
static int needed_group(const Cutting *c, const Task *t, int call)
{
    int last = 0;
    for (int i = 0; i < t->read_count; i++) {
        int g = c->order->group_of[t->reads[i]->id];
        if (g >= last && c->order->groups[g].after < call)
            last = g + 1;
    }
    return last;
}

static void record_access(Cutting *c, const Tensor *x, const Task *t, bool write)
{
    if (c->touched[x->id] != c->number)
        c->whole[x->id] = false;
    c->touched[x->id] = c->number;
    if (write)
        c->written[x->id] = c->number;
    c->whole[x->id] |= !by_sample(t);
}

/* Exact programs: returns a chunk of whole units, which begin at the first sample of a virtual shard, wherever chunks begin. */
static int64_t whole_units(const Cutting *c, int64_t chunk, int64_t unit)
{
    int64_t whole = unit > 1 ? unit : 1;
    while (2 * whole <= chunk)
        whole *= 2;
    return whole < c->shard ? whole : c->shard;
}

static void close_region(Cutting *c, int end)
{
    const Region *s = &c->region;
    int64_t chunk = s->by_sample && s->footprint > 0 ? (int64_t)((double)CHIP[PROCESSOR_HOST].cache_bytes / s->footprint) : 0;
    if (s->by_sample && chunk < 1)
        chunk = 1;
    int calls = 0; /* calls that work by sample: a single one gains nothing from chunks */
    for (int i = s->first; i < end; i++)
        calls += by_sample(c->order->calls[i]);
    if (c->shard && chunk)
        chunk = whole_units(c, chunk, s->unit);
    for (int i = s->first; i < end; i++) {
        c->order->region[i] = c->number - 1;
        c->order->chunk[i] = calls > 1 ? chunk : c->shard && s->by_sample ? c->shard : 0;
    }
}

void cut_regions(const Phase *p, int64_t shard, Order *o)
{
    Cutting c = {.phase = p, .order = o, .shard = shard};
    c.touched = NEW_ARRAY(int, p->tensor_count);
    c.written = NEW_ARRAY(int, p->tensor_count);
    c.whole = NEW_ARRAY(bool, p->tensor_count);
    c.after = NEW_ARRAY(int, o->call_count + 1);
    for (int g = 0; g < o->group_count; g++)
        c.after[o->groups[g].after + 1] = 1;
    o->region = NEW_ARRAY(int, o->call_count);
    o->chunk = NEW_ARRAY(int64_t, o->call_count);
    for (int i = 0; i < o->call_count; i++) {
        const Task *t = o->calls[i];
        int group = needed_group(&c, t, i);
        const Task *before = i > 0 ? o->calls[i - 1] : NULL;
        bool apart = t->elements || (before && (before->elements || (t->rematerialized && !before->rematerialized)));
        if (!before || apart || c.after[i] || group > c.region.group || conflicts(&c, t) || !fits(&c, t)) {
            if (i > 0)
                close_region(&c, i);
            c.number++;
            c.region = (Region){.first = i, .group = group};
        }
        with(&c.region, t);
        for (int k = 0; k < t->read_count; k++)
            record_access(&c, t->reads[k], t, false);
        for (int k = 0; k < t->write_count; k++)
            record_access(&c, t->writes[k], t, true);
    }
    if (o->call_count)
        close_region(&c, o->call_count);
}
