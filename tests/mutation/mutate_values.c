/* mutate_values.c: changes to what is computed: kernels, their arguments, number types, the numbers of inputs and variables,
 * parts of split values. */
#include "tests/mutation/change.h"

#include <string.h>

static int access_count(const ScheduledOp *op) { return op->read_count + op->write_count; }

static bool calls_kernel(const Change *c, const ScheduledOp *op)
{
    (void)c;
    return op->verb == VERB_CALL;
}

bool swap_arguments(Change *c)
{
    int o;
    if (!pick_op(c, calls_kernel, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    bool write = random_below(c->random, 2);
    int count = write ? op->write_count : op->read_count;
    Access *list = write ? op->writes : op->reads;
    int a = count ? random_below(c->random, count) : 0, b = count ? random_below(c->random, count) : 0;
    if (count < 2 || (list[a].buffer == list[b].buffer && list[a].begin == list[b].begin))
        return false;
    c->what = format("%s has arguments %d and %d exchanged", changed_op(c, o), a, b);
    Access kept = list[a];
    list[a] = list[b];
    list[b] = kept;
    return true;
}

bool change_kernel(Change *c)
{
    int o, other;
    if (!pick_op(c, calls_kernel, &o) || !pick_op(c, calls_kernel, &other) ||
        strcmp(c->d->ops[o].label, c->d->ops[other].label) == 0)
        return false;
    c->what = format("%s calls %s, not %s", changed_op(c, o), c->d->ops[other].label, c->d->ops[o].label);
    c->d->ops[o].label = c->d->ops[other].label;
    c->d->ops[o].target = c->d->ops[other].target;
    return true;
}

/* it does nothing any more, and whoever waits for it still does */
bool drop_call(Change *c)
{
    int o;
    if (!pick_op(c, calls_kernel, &o))
        return false;
    c->what = format("%s reads and writes nothing", changed_op(c, o));
    c->d->ops[o].read_count = c->d->ops[o].write_count = 0;
    return true;
}

bool drop_operation(Change *c)
{
    if (!c->d->op_count)
        return false;
    int o = random_below(c->random, c->d->op_count);
    c->what = format("%s is not there", changed_op(c, o));
    remove_op(c, o);
    return true;
}

bool drop_argument(Change *c)
{
    int o;
    if (!pick_op(c, calls_kernel, &o) || c->d->ops[o].read_count < 2)
        return false;
    ScheduledOp *op = &c->d->ops[o];
    int k = random_below(c->random, op->read_count);
    c->what = format("%s does not read %s", changed_op(c, o), c->d->buffers[op->reads[k].buffer].name);
    for (op->read_count--; k < op->read_count; k++)
        op->reads[k] = op->reads[k + 1];
    return true;
}

static Access *pick_argument(Change *c, int *op)
{
    if (!pick_op(c, calls_kernel, op) || !access_count(&c->d->ops[*op]))
        return NULL;
    ScheduledOp *o = &c->d->ops[*op];
    int k = random_below(c->random, access_count(o));
    return k < o->read_count ? &o->reads[k] : &o->writes[k - o->read_count];
}

bool wrong_argument(Change *c)
{
    int o;
    Access *a = pick_argument(c, &o);
    if (!a)
        return false;
    const Buffer *b = &c->d->buffers[a->buffer];
    int count = 0, to = -1;
    for (int i = 0; i < c->d->buffer_count; i++) {
        const Buffer *x = &c->d->buffers[i];
        if (i != a->buffer && is_own(x) == is_own(b) && x->bytes == b->bytes && x->each == b->each && x->slots == b->slots &&
            random_below(c->random, ++count) == 0)
            to = i;
    }
    if (to < 0)
        return false;
    c->what = format("%s touches %s, not %s", changed_op(c, o), c->d->buffers[to].name, b->name);
    a->buffer = to;
    return true;
}

bool shrink_argument(Change *c)
{
    int o;
    Access *a = pick_argument(c, &o);
    if (!a || a->end - a->begin < 8)
        return false;
    int64_t bytes = a->end - a->begin, by = 4 * (1 + random_below(c->random, (int)(bytes < 4096 ? bytes / 4 - 1 : 1023)));
    c->what = format("%s is given %lld bytes less of %s", changed_op(c, o), (long long)by, c->d->buffers[a->buffer].name);
    a->end -= by;
    return true;
}

bool change_dtype(Change *c)
{
    PhaseSchedule *p = &c->s->phases[c->phase];
    if (!p->collective_count)
        return false;
    CollectiveRecord *k = &p->collectives[random_below(c->random, p->collective_count)];
    Dtype to;
    do
        to = (Dtype)random_below(c->random, DTYPES);
    while (to == k->dtype || dtype_bytes(to) != dtype_bytes(k->dtype));
    c->what = format("%s sums %s, not %s", k->name, dtype_name(to), dtype_name(k->dtype));
    k->dtype = (uint8_t)to;
    return true;
}

bool exchange_index(Change *c)
{
    if (!c->d->buffer_count)
        return false;
    const Buffer *a = &c->d->buffers[random_below(c->random, c->d->buffer_count)];
    const Buffer *b = &c->d->buffers[random_below(c->random, c->d->buffer_count)];
    if (a->index < 0 || b->index < 0 || a->index == b->index || a->kind != b->kind)
        return false;
    int first = a->index, second = b->index;
    const char *one = a->name, *other = b->name;
    c->what = format("%s and %s have each other's index", one, other);
    for (int p = 0; p < c->s->phase_count; p++) {
        DeviceSchedule *d = p == c->phase ? c->d : own_device(c->s, p, c->device);
        for (int i = 0; i < d->buffer_count; i++)
            if (strcmp(d->buffers[i].name, one) == 0)
                d->buffers[i].index = second;
            else if (strcmp(d->buffers[i].name, other) == 0)
                d->buffers[i].index = first;
    }
    return true;
}

/* ---- parts of split values */
static bool computes_part(const Change *c, const ScheduledOp *op)
{
    (void)c;
    return op->verb == VERB_CALL && op->elements > 0;
}

/* on all devices: another cut between them */
bool change_part(Change *c)
{
    int o;
    if (!pick_op(c, computes_part, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    bool moves = random_below(c->random, 2), begin = random_below(c->random, 2), end = !begin || random_below(c->random, 2);
    int by = random_below(c->random, 9) - 4;
    mgpu_range before = op->own;
    op->own.begin += begin && c->device > 0 ? by : 0;
    op->own.end += end && c->device < c->s->devices - 1 ? by : 0;
    for (int i = 0; i < op->read_count + op->write_count && moves; i++) {
        Access *a = i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
        a->begin += (op->own.begin - before.begin) * (a->of / op->elements);
        a->end += (op->own.end - before.end) * (a->of / op->elements);
    }
    c->what = format("%s computes elements [%lld, %lld), not [%lld, %lld)%s", changed_op(c, o), (long long)op->own.begin,
                     (long long)op->own.end, (long long)before.begin, (long long)before.end, moves ? ", and touches them" : "");
    return by && (begin || end);
}

static bool gathers(const Change *c, const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER &&
           c->s->phases[c->phase].collectives[op->target].participants.transfer == MGPU_TRANSFER_ALL_GATHER;
}

bool drop_gather(Change *c)
{
    int o;
    if (!pick_op(c, gathers, &o))
        return false;
    c->what = format("%s is not there", changed_op(c, o));
    remove_op(c, o);
    return true;
}

/* the first or last operation from `from` on that touches the buffer; -1: none does */
static int find_use(const DeviceSchedule *d, int buffer, int from, bool last)
{
    int found = -1;
    for (int o = from; o < d->op_count && (last || found < 0); o++)
        for (int i = 0; i < d->ops[o].read_count + d->ops[o].write_count; i++) {
            const Access *a = i < d->ops[o].read_count ? &d->ops[o].reads[i] : &d->ops[o].writes[i - d->ops[o].read_count];
            found = a->buffer == buffer ? o : found;
        }
    return found;
}

bool late_gather(Change *c)
{
    int o;
    if (!pick_op(c, gathers, &o))
        return false;
    ScheduledOp *gather = &c->d->ops[o];
    int r = find_use(c->d, gather->writes[0].buffer, o + 1, false);
    if (r < 0 || c->d->ops[r].verb != VERB_CALL)
        return false;
    ScheduledOp *reader = &c->d->ops[r];
    for (int w = reader->wait_count - 1; w >= 0; w--)
        if (reader->waits[w].op == o && reader->waits[w].back == 0)
            reader->waits[w] = reader->waits[--reader->wait_count];
    Wait *waits = allocate(sizeof *waits * (size_t)(gather->wait_count + 1));
    memcpy(waits, gather->waits, sizeof *waits * (size_t)gather->wait_count);
    waits[gather->wait_count++] = (Wait){r, 0};
    gather->waits = waits;
    c->what = format("%s comes after %s, which reads it", changed_op(c, o), changed_op(c, r));
    return true;
}

static bool is_transient(const Buffer *b) { return b->kind == BUFFER_TEMPORARY || b->kind == BUFFER_BUCKET; }

/* another one is first used while it is in use */
static bool outlives(const Change *c, int freed, int taken)
{
    const Buffer *from = &c->d->buffers[freed], *to = &c->d->buffers[taken];
    if (freed == taken || !is_transient(from) || !is_transient(to) || !from->bytes || !to->bytes)
        return false;
    int first = find_use(c->d, taken, 0, false);
    return first > find_use(c->d, freed, 0, false) && first <= find_use(c->d, freed, 0, true);
}

bool free_early(Change *c)
{
    int count = c->d->buffer_count, freed = random_below(c->random, count), taken = random_below(c->random, count),
        tries = count * count;
    while (tries-- > 0 && !outlives(c, freed, taken)) {
        taken = (taken + 1) % count;
        freed = taken ? freed : (freed + 1) % count;
    }
    if (tries < 0)
        return false;
    Buffer *from = &c->d->buffers[freed], *to = &c->d->buffers[taken];
    c->what =
        format("%s gets the bytes of %s, which %s needs", to->name, from->name, changed_op(c, find_use(c->d, freed, 0, true)));
    to->offset = from->offset;
    return true;
}

static bool sends_bits(const Change *c, const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER &&
           c->s->phases[c->phase].collectives[op->target].participants.transfer == MGPU_TRANSFER_REDUCE_BITS;
}

static void move_accesses(const Change *c, int buffer, int64_t from, int64_t by)
{
    for (int o = 0; o < c->d->op_count; o++)
        for (int i = 0; i < c->d->ops[o].read_count + c->d->ops[o].write_count && !sends_bits(c, &c->d->ops[o]); i++) {
            Access *a = i < c->d->ops[o].read_count ? &c->d->ops[o].reads[i] : &c->d->ops[o].writes[i - c->d->ops[o].read_count];
            bool moves = a->buffer == buffer && a->begin >= from;
            a->begin += moves ? by : 0;
            a->end += moves ? by : 0;
        }
}

/* where a value in the buffer begins */
static int64_t pick_begin(const Change *c, int buffer)
{
    int64_t begin = 0;
    for (int o = 0, seen = 0; o < c->d->op_count; o++)
        for (int w = 0; w < c->d->ops[o].write_count && c->d->ops[o].verb == VERB_CALL; w++)
            if (c->d->ops[o].writes[w].buffer == buffer && random_below(c->random, ++seen) == 0)
                begin = c->d->ops[o].writes[w].begin;
    return begin;
}

bool cut_segment(Change *c)
{
    enum { LINE = 64 };
    int o;
    if (!pick_op(c, sends_bits, &o))
        return false;
    ScheduledOp *send = &c->d->ops[o];
    CollectiveRecord *x = &c->s->phases[c->phase].collectives[send->target];
    Buffer *bucket = &c->d->buffers[send->reads[0].buffer];
    int64_t from = pick_begin(c, send->reads[0].buffer);
    move_accesses(c, send->reads[0].buffer, from, LINE);
    send->reads[0].end += LINE;
    send->writes[0].end += LINE;
    bucket->bytes += LINE;
    x->count = (send->reads[0].end - send->reads[0].begin) / (int64_t)dtype_bytes(x->dtype);
    c->what = format("%s is %d bytes longer, before what it had at %lld", bucket->name, LINE, (long long)from);
    return true;
}
