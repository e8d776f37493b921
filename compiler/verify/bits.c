/* bits.c: what is sent as bits has two values in each segment of MGPU_SEGMENT elements; moments have three numbers each.
 *
 * Kernels compute such values segment by segment, from the first element of their result on; that they do is trusted, as all that
 * kernels compute. In: a phase whose collectives match (verify.c). Out: NULL, or the first operation that writes a part of a
 * segment before it is sent: two such writes could make four values in one segment. The last segment ends with the values. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

static bool sends_bits(const CollectiveRecord *c) { return c->participants.transfer == MGPU_TRANSFER_REDUCE_BITS; }

static bool ends_segment(int64_t at, const Access *all, int64_t segment)
{
    return at == all->end || (at - all->begin) % segment == 0;
}

static const char *check_write(const PhaseSchedule *p, int device, const ScheduledOp *op, const Access *w,
                               const CollectiveRecord *c, const Access *all)
{
    int64_t segment = MGPU_SEGMENT * (int64_t)dtype_bytes(c->dtype);
    bool touches = w->begin < all->end && all->begin < w->end;
    bool whole = w->begin >= all->begin && w->end <= all->end && (w->begin - all->begin) % segment == 0 &&
                 ends_segment(w->end, all, segment);
    if (!touches || whole)
        return NULL;
    return format(
        "phase %s: d%d.%s writes bytes [%lld, %lld) of %s, which %s %s sends as bits: whole segments of %lld bytes from %lld on are expected",
        p->name, device, op->id, (long long)w->begin, (long long)w->end, p->devices[device].buffers[w->buffer].name,
        mgpu_transfer_row(c->participants.transfer)->kind, c->name, (long long)segment, (long long)all->begin);
}

/* Returns, by buffer, the operation that sends it as bits; -1: none does. */
static int *find_senders(const PhaseSchedule *p, const DeviceSchedule *d)
{
    int *sender = NEW_ARRAY(int, d->buffer_count);
    for (int b = 0; b < d->buffer_count; b++)
        sender[b] = -1;
    for (int o = 0; o < d->op_count; o++)
        if (d->ops[o].verb == VERB_TRANSFER && sends_bits(&p->collectives[d->ops[o].target]))
            sender[d->ops[o].reads[0].buffer] = o;
    return sender;
}

static const char *check_transfer(const PhaseSchedule *p, const CollectiveRecord *c)
{
    if (sends_bits(c) && c->dtype != F32 && c->dtype != F64)
        return format("phase %s: %s %s is of %s; f32 and f64 can be sent as bits", p->name,
                      mgpu_transfer_row(c->participants.transfer)->kind, c->name, dtype_name(c->dtype));
    if (c->participants.transfer == MGPU_TRANSFER_REDUCE_MOMENTS && (c->dtype != F64 || c->count % 3 != 0))
        return format("phase %s: %s %s is of %lld %s; moments are three f64 each", p->name,
                      mgpu_transfer_row(c->participants.transfer)->kind, c->name, (long long)c->count, dtype_name(c->dtype));
    return NULL;
}

const char *verify_bits(const Schedule *s, int phase, int device)
{
    const PhaseSchedule *p = &s->phases[phase];
    const DeviceSchedule *d = &p->devices[device];
    const int *sender = find_senders(p, d);
    for (int o = 0; o < d->op_count; o++) {
        const ScheduledOp *op = &d->ops[o];
        look_at(op->text_line);
        const char *why = op->verb == VERB_TRANSFER ? check_transfer(p, &p->collectives[op->target]) : NULL;
        if (why)
            return why;
        for (int i = 0; i < op->write_count; i++) {
            int by = sender[op->writes[i].buffer];
            why = by > o ? check_write(p, device, op, &op->writes[i], &p->collectives[d->ops[by].target], &d->ops[by].reads[0])
                         : NULL;
            if (why)
                return why;
        }
    }
    return NULL;
}
