/* values.c: every call reads the values that it reads in the program.
 *
 * In: one device of one phase, for which verify/memory.c has proved that a read finds what a write of this step put there through
 * the same buffer, once, in any order of execution. So one possible order shows what every call reads. Out: NULL, or the first
 * call whose digest is not that of its kernel, of what it reads and of the variables and outputs that it writes (schedule.h
 * defines digests; the scheduler computes them from the program's tasks, before any of them has a place). So no argument is
 * exchanged, no kernel changed, no sum left out and no call dropped whose result another call reads, even if it is so on all
 * devices or on a single one.
 *
 * Of a Split value the device has its own part: a call reads that part and no other, and the value is gathered in those parts
 * before a call reads all of it.
 *
 * A piece is a range of a buffer that a call has written; a collective reduces or transfers all pieces of its value. Pieces are
 * found by buffer and first byte in a hash table: linear time. A mistake escapes if 32 bits of a hash agree by chance. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/verify.h"

#include <string.h>

typedef struct ValueRange {
    int buffer;
    int64_t begin, end;
    uint64_t digest;
    int next;   /* next piece of the buffer, + 1 */
    bool split; /* the device has only its own part of it: elements `own` */
    mgpu_range own;
} ValueRange;

typedef struct Values {
    const Schedule *schedule;
    const DeviceSchedule *device;
    ValueRange *ranges;
    int range_count;
    int *first;             /* by buffer, + 1 */
    int *slots, slot_count; /* a power of two; indices of pieces, + 1 */
} Values;

static Values new_values(const Schedule *s, const DeviceSchedule *d)
{
    int most = 1;
    for (int o = 0; o < d->op_count; o++)
        most += d->ops[o].read_count + d->ops[o].write_count;
    Values v = {.schedule = s,
                .device = d,
                .ranges = NEW_ARRAY(ValueRange, most),
                .first = NEW_ARRAY(int, d->buffer_count),
                .slot_count = 1};
    while (v.slot_count < 2 * most)
        v.slot_count *= 2;
    v.slots = NEW_ARRAY(int, v.slot_count);
    return v;
}

/* Returns the piece that begins there; if there is none, a new one, and sets *fresh. */
static ValueRange *range_of(Values *v, const Access *a, bool *fresh)
{
    uint64_t hash = hash_bytes((uint64_t)a->buffer, &a->begin, sizeof a->begin);
    int at = (int)(hash & (uint64_t)(v->slot_count - 1));
    *fresh = false;
    for (; v->slots[at]; at = (at + 1) & (v->slot_count - 1)) {
        ValueRange *p = &v->ranges[v->slots[at] - 1];
        if (p->buffer == a->buffer && p->begin == a->begin)
            return p;
    }
    ValueRange *p = &v->ranges[v->range_count++];
    const Buffer *b = &v->device->buffers[a->buffer];
    *p = (ValueRange){.buffer = a->buffer,
                      .begin = a->begin,
                      .end = a->end,
                      .digest = digest_leaf(b->name, b->index),
                      .next = v->first[a->buffer]};
    v->slots[at] = v->first[a->buffer] = v->range_count;
    *fresh = true;
    return p;
}

static bool same_range(mgpu_range a, mgpu_range b) { return a.begin == b.begin && a.end == b.end; }

/* Handles a collective. What is gathered was computed, or received, in these parts; values of one element are computed whole on
 * all devices. */
static const char *move_ranges(Values *v, const ScheduledOp *op, const CollectiveRecord *c, const char *phase, int device)
{
    const mgpu_transfer *row = mgpu_transfer_row(c->participants.transfer);
    int64_t each = dtype_bytes(c->dtype);
    mgpu_range own = mgpu_transfer_splits(c->participants.transfer)
                         ? mgpu_share_of(&c->participants, MGPU_SHARE_OWN, c->count, device)
                         : (mgpu_range){0, 0};
    Access whole = op->reads[0]; /* the value of all devices; this one reads its share */
    bool fresh;
    whole.begin -= mgpu_sent_by(&c->participants, c->count, device).begin * each;
    whole.end = whole.begin + c->count * each;
    if (v->device->buffers[whole.buffer].kind != BUFFER_BUCKET)
        range_of(v, &whole, &fresh);
    for (int i = v->first[whole.buffer]; i; i = v->ranges[i - 1].next) {
        ValueRange *p = &v->ranges[i - 1];
        if (p->begin < whole.begin || p->begin >= whole.end)
            continue;
        bool gathers = row->sends == MGPU_SHARE_OWN, splits = row->receives == MGPU_SHARE_OWN;
        if (p->split != gathers || (gathers && !same_range(p->own, own)))
            if (c->count > 1)
                return format("phase %s: d%d.%s takes part in %s %s of %s, which is %s", phase, device, op->id, row->kind,
                              c->name, v->device->buffers[whole.buffer].name,
                              gathers ? "not in these parts" : "split over the devices");
        p->split = splits && c->count > 1;
        p->own = own;
        p->digest = digest_transfer(p->digest, &c->participants);
    }
    return NULL;
}

/* Returns a call's access to a value, extended to the whole if it is to a part. */
static Access value_access(const ScheduledOp *op, const Access *a)
{
    Access whole = *a;
    if (a->of) {
        whole.begin -= op->own.begin * (a->of / op->elements);
        whole.end = whole.begin + a->of;
    }
    return whole;
}

static const char *run_call(Values *v, const ScheduledOp *op, const char *phase, int d)
{
    uint64_t digest = digest_call(op->label);
    bool fresh;
    for (int i = 0; i < op->read_count - 1; i++) { /* the last is the step block: verify/calls.c */
        const Buffer *b = &v->device->buffers[op->reads[i].buffer];
        Access a = value_access(op, &op->reads[i]);
        const ValueRange *p = range_of(v, &a, &fresh);
        if ((fresh && !buffer_is_persistent(b)) || p->end != a.end)
            return format("phase %s: d%d.%s reads bytes of %s that no call has written as one value", phase, d, op->id, b->name);
        if (p->split && !(a.of && same_range(p->own, op->own)))
            return format("phase %s: d%d.%s reads %s of %s, of which the device has elements [%lld, %lld)", phase, d, op->id,
                          a.of ? "another part" : "all", b->name, (long long)p->own.begin, (long long)p->own.end);
        digest = digest_argument(digest, p->digest);
    }
    for (int i = 0; i < op->write_count; i++) {
        const Buffer *b = &v->device->buffers[op->writes[i].buffer];
        if (buffer_is_persistent(b))
            digest = digest_argument(digest, digest_leaf(b->name, b->index));
    }
    if ((uint32_t)digest != op->digest)
        return format(
            "phase %s: d%d.%s computes another value than the program: the digest of %s and its arguments is %08x, not %08x",
            phase, d, op->id, op->label, (unsigned)(uint32_t)digest, (unsigned)op->digest);
    for (int i = 0; i < op->write_count; i++) {
        Access a = value_access(op, &op->writes[i]);
        ValueRange *p = range_of(v, &a, &fresh);
        p->end = a.end;
        p->digest = digest_result(digest, i);
        p->split = a.of && v->schedule->devices > 1;
        p->own = op->own;
    }
    return NULL;
}

const char *verify_values(const Schedule *s, int p, int d)
{
    const PhaseSchedule *phase = &s->phases[p];
    const char *why = NULL;
    const int *order = order_operations(phase, d, &why);
    Values v = new_values(s, &phase->devices[d]);
    for (int i = 0; i < v.device->op_count && !why; i++) {
        const ScheduledOp *op = &v.device->ops[order[i]];
        look_at(op->text_line);
        if (op->verb == VERB_CALL)
            why = run_call(&v, op, phase->name, d);
        else if (op->verb == VERB_TRANSFER)
            why = move_ranges(&v, op, &phase->collectives[op->target], phase->name, d);
    }
    return why;
}
