/* device_parts.c: what devices of a class do not share: their own parts, of transfers and of Split values.
 *
 * In: the operations and buffers of a class, in which a transfer, and a call that computes parts, accesses the whole value. Out:
 * those of a device, with its own part of the value, and its own samples of a batch that it has whole: the class's, if nothing
 * differs; else copies. Parts are those of the transfer's group, those that the graph gives, or equal ones (mgpu_even_part). */
#include "compiler/kernel/phase.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/schedule_internal.h"

#include <string.h>

void *copy_array(const void *from, size_t bytes)
{
    void *copy = allocate(bytes);
    if (bytes)
        memcpy(copy, from, bytes);
    return copy;
}

/* Sets what a member sends and receives of the whole value; false: all of it. */
static bool set_ranges(const ScheduledOp *op, const Group *g, int device, Access *read, Access *write)
{
    int64_t bytes = dtype_bytes(g->dtype), begin = op->reads[0].begin;
    mgpu_range sent = mgpu_sent_by(&g->participants, g->bytes / bytes, device),
               received = mgpu_received_by(&g->participants, g->bytes / bytes, device);
    *read = op->reads[0];
    *write = op->writes[0];
    read->begin = begin + sent.begin * bytes;
    read->end = begin + sent.end * bytes;
    write->begin = begin + received.begin * bytes;
    write->end = begin + received.end * bytes;
    return read->begin != op->reads[0].begin || read->end != op->reads[0].end || write->begin != op->writes[0].begin ||
           write->end != op->writes[0].end;
}

/* Returns the accesses of a call to Split values: in the device's own buffer, or at its range of the whole value. */
static Access *accesses_of_part(const ScheduledOp *op, const Access *accesses, int count, const Buffer *buffers)
{
    Access *own = copy_array(accesses, sizeof *own * (size_t)count);
    for (int i = 0; i < count; i++) {
        int64_t each = own[i].of / op->elements, begin = own[i].begin;
        if (buffers[own[i].buffer].elements) {
            own[i].end = buffers[own[i].buffer].bytes;
        } else if (own[i].of) {
            own[i].begin = begin + op->own.begin * each;
            own[i].end = begin + op->own.end * each;
        }
    }
    return own;
}

/* parts NULL: equal parts */
static void set_part(ScheduledOp *op, const int64_t *parts, const Buffer *buffers, int devices, int device)
{
    op->own.begin = parts ? parts[device] : mgpu_even_part(op->elements, devices, device);
    op->own.end = parts ? parts[device + 1] : mgpu_even_part(op->elements, devices, device + 1);
    op->reads = accesses_of_part(op, op->reads, op->read_count, buffers);
    op->writes = accesses_of_part(op, op->writes, op->write_count, buffers);
}

/* Returns the reads of a call, moved to the device's first sample in a batch that it has whole; NULL: nothing changes. */
static Access *reads_of_samples(const ScheduledOp *op, const Buffer *buffers, int64_t first)
{
    Access *own = NULL;
    for (int i = 0; i < op->read_count; i++) {
        const Buffer *b = &buffers[op->reads[i].buffer];
        if (b->kind != BUFFER_INPUT || first == 0)
            continue;
        own = own ? own : copy_array(op->reads, sizeof *own * (size_t)op->read_count);
        own[i].begin += first * b->each;
        own[i].end += first * b->each;
    }
    return own;
}

ScheduledOp *ops_of_device(ScheduledOp *of_class, int count, const Order *order, const Buffer *buffers, int devices, int device,
                           int64_t first)
{
    ScheduledOp *own = NULL;
    for (int i = 0, call = 0; i < count; i++) {
        const ScheduledOp *op = &of_class[i];
        const Task *task = op->verb == VERB_CALL ? order->calls[call++] : NULL;
        Access both[2], *samples = task ? reads_of_samples(op, buffers, first) : NULL;
        if (!samples && !op->elements &&
            (op->verb != VERB_TRANSFER || !set_ranges(op, &order->groups[op->target], device, &both[0], &both[1])))
            continue;
        own = own ? own : copy_array(of_class, sizeof *own * (size_t)count);
        if (samples)
            own[i].reads = samples;
        if (task && op->elements) {
            set_part(&own[i], task->participants.parts, buffers, devices, device);
        } else if (!task) {
            own[i].reads = copy_array(&both[0], sizeof both[0]);
            own[i].writes = copy_array(&both[1], sizeof both[1]);
        }
    }
    return own ? own : of_class;
}

/* A variable that is Split has the bytes of the device's own part. */
Buffer *buffers_of_device(Buffer *of_class, int count, int devices, int device)
{
    Buffer *own = NULL;
    for (int i = 0; i < count; i++) {
        int64_t all = of_class[i].elements,
                part = mgpu_even_part(all, devices, device + 1) - mgpu_even_part(all, devices, device);
        if (!all)
            continue;
        own = own ? own : copy_array(of_class, sizeof *own * (size_t)count);
        own[i].bytes = part * dtype_bytes((Dtype)(own[i].type - 1));
    }
    return own ? own : of_class;
}
