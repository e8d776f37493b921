/* program.c: all devices run one program.
 *
 * In: a schedule whose accesses are known to be in their buffers. Out: NULL, or the first operation of a device that differs from
 * device 0's. Every device has the same operations, with the same verb, label and arguments in the same order, and the same range
 * of each argument, unless it has samples or is a workspace (verify.c checks the ranges of collectives). So no argument is
 * exchanged, no kernel changed and no call dropped on one device.
 *
 * verify/calls.c and verify/values.c find mistakes that are the same on all devices, or on a single one. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <string.h>

static const Access *access_of(const ScheduledOp *op, int i)
{
    return i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
}

static const char *place(const Schedule *s, int p, int d, const ScheduledOp *op)
{
    return format("phase %s: d%d.%s", s->phases[p].name, d, op->id);
}

/* ---- devices */
static const char *same_access(const Schedule *s, int p, int d, const ScheduledOp *op, const ScheduledOp *other, int i)
{
    const PhaseSchedule *phase = &s->phases[p];
    const Access *a = access_of(op, i), *b = access_of(other, i);
    const Buffer *x = &phase->devices[d].buffers[a->buffer], *y = &phase->devices[0].buffers[b->buffer];
    const char *does = i < op->read_count ? "reads" : "writes";
    if (strcmp(x->name, y->name) != 0 || a->slot != b->slot)
        return format("%s %s %s@%+d where d0.%s %s %s@%+d: all devices run one program", place(s, p, d, op), does, x->name,
                      a->slot, other->id, does, y->name, b->slot);
    if (a->of != b->of || x->elements != y->elements)
        return format("%s %s a part of %s, but d0.%s another one: all devices run one program", place(s, p, d, op), does, x->name,
                      other->id);
    /* distance between the parts of the two devices */
    int64_t part = a->of ? (op->own.begin - other->own.begin) * (a->of / op->elements) : 0;
    if (a->of ? a->begin - b->begin == part : x->elements > 0)
        return NULL;
    if (op->verb != VERB_TRANSFER && x->each == 0 && y->each == 0 && x->kind != BUFFER_STAGING && x->kind != BUFFER_LOCAL &&
        x->kind != BUFFER_WORKSPACE && (a->begin != b->begin || a->end != b->end))
        return format("%s %s %s [%lld, %lld), but d0.%s [%lld, %lld): all devices run one program", place(s, p, d, op), does,
                      x->name, (long long)a->begin, (long long)a->end, other->id, (long long)b->begin, (long long)b->end);
    return NULL;
}

/* Returns true if the parts of Split values are consecutive. before: the operation of the previous device; NULL: none. */
static bool part_follows(const Schedule *s, int d, const ScheduledOp *op, const ScheduledOp *other, const ScheduledOp *before)
{
    return op->elements == other->elements &&
           (!op->elements || (before && other->own.begin == 0 && op->own.begin == before->own.end &&
                              (d < s->devices - 1 || op->own.end == op->elements)));
}

static const char *same_op(const Schedule *s, int p, int d, const ScheduledOp *op, const ScheduledOp *other,
                           const ScheduledOp *before)
{
    if (op->verb != other->verb || strcmp(op->label, other->label) != 0)
        return format("%s is %s %s, but d0.%s %s %s: all devices run one program", place(s, p, d, op), VERB_NAME[op->verb],
                      op->label, other->id, VERB_NAME[other->verb], other->label);
    if (op->read_count != other->read_count || op->write_count != other->write_count)
        return format("%s reads %d ranges and writes %d, but d0.%s %d and %d: all devices run one program", place(s, p, d, op),
                      op->read_count, op->write_count, other->id, other->read_count, other->write_count);
    if (!part_follows(s, d, op, other, before))
        return format("%s computes elements [%lld, %lld) of %lld, which are not what the devices before it leave",
                      place(s, p, d, op), (long long)op->own.begin, (long long)op->own.end, (long long)op->elements);
    const char *why = NULL;
    for (int i = 0; i < op->read_count + op->write_count && !why; i++)
        why = same_access(s, p, d, op, other, i);
    return why;
}

static const char *same_ops(const Schedule *s, int p, int d)
{
    const DeviceSchedule *own = &s->phases[p].devices[d], *zero = &s->phases[p].devices[0];
    const DeviceSchedule *last = &s->phases[p].devices[d - 1];
    Map ops = {0}, here = {0}, before = {0};
    for (int o = 0; o < last->op_count && d > 1; o++)
        map_set(&before, last->ops[o].id, last->ops + o);
    for (int o = 0; o < zero->op_count; o++)
        map_set(&ops, zero->ops[o].id, zero->ops + o);
    for (int o = 0; o < own->op_count; o++) {
        const ScheduledOp *op = &own->ops[o], *other = map_get(&ops, op->id);
        look_at(op->text_line);
        map_set(&here, op->id, own->ops + o);
        if (!other)
            return format("%s has no counterpart on device 0: all devices run one program", place(s, p, d, op));
        const char *why = same_op(s, p, d, op, other, map_get(d > 1 ? &before : &ops, op->id));
        if (why)
            return why;
    }
    for (int o = 0; o < zero->op_count; o++)
        if (!map_get(&here, zero->ops[o].id))
            return look_at(zero->ops[o].text_line),
                   format("%s has no counterpart on device %d: all devices run one program", place(s, p, 0, &zero->ops[o]), d);
    return NULL;
}

const char *verify_program(const Schedule *s, int p, int d) { return d > 0 ? same_ops(s, p, d) : NULL; }
