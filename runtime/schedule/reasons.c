/* reasons.c: why an operation of a schedule waits for another one: the buffers that both access and at least one of them writes.
 *
 * Reasons are looked for in this order: it makes what the other reads; it has read, or written, what the other writes; it has
 * used memory that the other uses for something else. Slots count: the previous step may have used the same one. */
#include "runtime/schedule/schedule.h"

#include <string.h>

enum { MAKES, HAS_READ, HAS_WRITTEN, HAS_USED, REASONS };

static int64_t address_of(const DeviceSchedule *d, const Access *a, int step)
{
    const Buffer *b = &d->buffers[a->buffer];
    int64_t slot = (((int64_t)step + a->slot) % b->slots + b->slots) % b->slots, pitch = mgpu_slot_bytes(b->bytes);
    return b->offset + slot * pitch + a->begin;
}

static bool overlap(const DeviceSchedule *d, const Access *a, const Access *earlier, int back)
{
    const Buffer *x = &d->buffers[a->buffer], *y = &d->buffers[earlier->buffer];
    if ((x->kind == BUFFER_STAGING) != (y->kind == BUFFER_STAGING))
        return false;
    int64_t begin = address_of(d, a, back), other = address_of(d, earlier, 0);
    return begin < other + earlier->end - earlier->begin && other < begin + a->end - a->begin;
}

static void add(Reason *found, const char *name) /* each name once */
{
    for (int i = 0; i < found->count && i < REASON_NAMES; i++)
        if (strcmp(found->names[i], name) == 0)
            return;
    if (found->count < REASON_NAMES)
        found->names[found->count] = name;
    found->count++;
}

static void add_reason(const DeviceSchedule *d, const ScheduledOp *op, const ScheduledOp *before, int back, Reason found[REASONS])
{
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        bool writes = i >= op->read_count;
        const Access *a = mgpu_access_of(op, i);
        for (int k = 0; k < before->read_count + before->write_count; k++) {
            bool wrote = k >= before->read_count;
            const Access *earlier = mgpu_access_of(before, k);
            if ((!writes && !wrote) || !overlap(d, a, earlier, back))
                continue;
            int why = a->buffer != earlier->buffer ? HAS_USED : !writes ? MAKES : wrote ? HAS_WRITTEN : HAS_READ;
            add(&found[why], d->buffers[why == HAS_USED ? earlier->buffer : a->buffer].name);
        }
    }
}

Reason mgpu_wait_reason(const DeviceSchedule *d, const ScheduledOp *op, const Wait *w)
{
    Reason found[REASONS] = {
        {.word = "makes"}, {.word = "has read"}, {.word = "has written"}, {.word = "has used the memory of"}};
    add_reason(d, op, &d->ops[w->op], w->back, found);
    for (int why = 0; why < REASONS; why++)
        if (found[why].count)
            return found[why];
    return (Reason){0};
}
