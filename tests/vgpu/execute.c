/* execute.c: what Ops do when they run: copies, fills, kernels. */
#include "tests/vgpu/vgpu.h"

#include <stdlib.h>
#include <string.h>

enum { LAUNCH_US = 4, COPY_US = 8 };
static const double HOST_BANDWIDTH = 1e10; /* bytes a second */

/* an operation may read what an earlier launch of it has written */
static bool is_own(const Op *op, const Allocation *a, uintptr_t begin, size_t bytes)
{
    const Label *l = op->work.label;
    bool writes = false;
    for (int k = 0; k < l->count; k++)
        writes = writes || (l->ranges[k].writes && begin >= l->ranges[k].begin && begin + bytes <= l->ranges[k].end);
    return writes && vgpu_written_by(a, vgpu_actor(op).operation, begin, begin + bytes);
}

/* bytes that a copy, a fill or a library touches */
void vgpu_touch(Op *op, uintptr_t begin, size_t bytes, bool writes)
{
    Allocation *a = vgpu_find(begin);
    const Label *l = op->work.label;
    const char *name = NULL;
    bool declared = !l || l->count < 0;
    if (!a || bytes == 0)
        return; /* pageable memory of the host */
    for (int k = 0; l && k < l->count; k++)
        if ((l->ranges[k].writes != 0) == writes && begin >= l->ranges[k].begin && begin + bytes <= l->ranges[k].end) {
            name = l->ranges[k].name;
            declared = true;
        }
    if (a->device && !declared && (writes || !is_own(op, a, begin, bytes))) {
        Actor me = vgpu_actor(op);
        char by[160];
        vgpu_violation(op->work.device, CUDA_ERROR_LAUNCH_FAILED, "undeclared",
                       "%s %s bytes [%zu, %zu) of device memory: it does not declare them", vgpu_name(&me, by, sizeof by),
                       writes ? "writes" : "reads", (size_t)(begin - a->base), (size_t)(begin - a->base) + bytes);
    }
    vgpu_access_bytes(a, op, begin, begin + bytes, writes, name);
    vgpu_mark(op, begin, bytes, writes);
}

static uint64_t hash_of(uintptr_t begin, size_t bytes)
{
    uint64_t hash = 14695981039346656037u, word;
    const unsigned char *at = (const void *)begin;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; bytes--, at++)
        hash = (hash ^ *at) * 1099511628211u;
    return hash;
}

/* Of page-locked memory: the host must leave it alone until the copy is done. What is copied from has to stay; what is
 * copied to is spoiled at once. Memory that can be swapped out is read before the call returns. */
void vgpu_issue_copy(Copy *c)
{
    Allocation *from = vgpu_find(c->from), *to = vgpu_find(c->to);
    if (!from && to) {
        c->kept = malloc(c->bytes);
        if (!c->kept)
            abort();
        memcpy(c->kept, (const void *)c->from, c->bytes);
    } else if (from && !from->device && !vgpu_pending_write(c->from, c->bytes)) {
        c->hash = hash_of(c->from, c->bytes);
        c->hashed = true;
    }
    if (to && !to->device && !vgpu_pending_read(c->to, c->bytes) && !vgpu_pending_write(c->to, c->bytes))
        memset((void *)c->to, 255, c->bytes);
}

static int place_of(uintptr_t address) /* a device's number, or -1 for the host */
{
    const Allocation *a = vgpu_find(address);
    return a && a->device ? a->device->number : -1;
}

static double speed(int from, int to)
{
    const VirtualDevice *d = &vgpu_machine.device[from >= 0 ? from : to >= 0 ? to : 0];
    if (from == to)
        return from >= 0 ? d->bandwidth / 2 : 1e10;
    return from < 0 || to < 0 ? d->host_link : d->link[to] > 0 ? d->link[to] : d->host_link / 2;
}

/* when what the copy shares with others is free; NULL: it shares nothing */
static double *turns(int from, int to)
{
    bool host = from < 0 || to < 0;
    if (from == to || !(host ? vgpu_machine.bridge : vgpu_machine.ports))
        return NULL;
    return host ? &vgpu_machine.bridge_us : &vgpu_machine.device[from].port_us;
}

/* the buffer's name in the plan, without the device: "d1.bucket2" and "d0.bucket2" are one */
const char *vgpu_buffer_name(const Op *op, uintptr_t at)
{
    const Label *l = op->work.label;
    for (int k = 0; l && k < l->count; k++)
        if (l->ranges[k].name && l->ranges[k].writes && at >= l->ranges[k].begin && at < l->ranges[k].end) {
            const char *name = l->ranges[k].name, *number = name + (name[0] == 'd');
            size_t digits = strspn(number, "0123456789");
            return name[0] == 'd' && digits && number[digits] == '.' ? number + digits + 1 : name;
        }
    return NULL;
}

/* What has gone over a link has arrived as it is on the machine: as it was, with a bit flipped or, of a buffer that is named,
 * with the sign of each number flipped, whatever its type, so that nothing that is computed from it stays what it was. */
void vgpu_carry(const Op *op, int from, int to, uintptr_t at, size_t bytes)
{
    const Corruption *c = from == to || bytes == 0 ? NULL : vgpu_corruption(from, to, vgpu_buffer_name(op, at));
    unsigned char *byte = (unsigned char *)at;
    if (c && c->buffer[0])
        for (size_t i = bytes; i > 0; i -= i < 4 ? i : 4)
            byte[i - 1] ^= 0x80;
    else if (c)
        byte[vgpu_random() % bytes] ^= (unsigned char)(1u << (vgpu_random() & 7));
}

static void copy(Op *op)
{
    Copy *c = &op->work.copy;
    int from = place_of(c->from), to = place_of(c->to);
    Actor me = vgpu_actor(op);
    char by[160];
    if (c->hashed && hash_of(c->from, c->bytes) != c->hash)
        vgpu_violation(op->work.device, CUDA_ERROR_LAUNCH_FAILED, "host",
                       "%s: the host changed the %zu bytes that are copied before the copy was done",
                       vgpu_name(&me, by, sizeof by), c->bytes);
    vgpu_touch(op, c->from, c->kept ? 0 : c->bytes, false);
    vgpu_touch(op, c->to, c->bytes, true);
    memmove((void *)c->to, c->kept ? c->kept : (const void *)c->from, c->bytes);
    vgpu_carry(op, from, to, c->to, c->bytes);
    double *free_us = turns(from, to);
    if (free_us && op->end_us < *free_us)
        op->end_us = *free_us;
    op->end_us += COPY_US + 1e6 * (double)c->bytes / speed(from, to);
    if (free_us)
        *free_us = op->end_us;
}

static void set(Op *op)
{
    const Set *s = &op->work.set;
    vgpu_touch(op, s->to, s->count * (size_t)s->width, true);
    if (s->width == 1)
        memset((void *)s->to, (int)s->value, s->count);
    for (size_t i = 0; s->width == 4 && i < s->count; i++)
        __atomic_store_n((uint32_t *)s->to + i, s->value, __ATOMIC_RELEASE); /* the host may look at its memory at any time */
    if (place_of(s->to) < 0)
        return;
    op->end_us += LAUNCH_US + 1e6 * (double)(s->count * (size_t)s->width) / op->work.device->bandwidth;
}

/* MGPU_SLOW=2:1.5: the kernels of GPU 2 take 1.5 times as long. The program says what is wrong with it */
static double slowness(int device)
{
    const char *at = getenv("MGPU_SLOW");
    for (char *end; at && *at; at = *end == ',' ? end + 1 : end) {
        long number = strtol(at, &end, 10);
        bool its = end > at && *end == ':' && number == device;
        if (its)
            return strtod(end + 1, NULL);
        end += strcspn(end, ",");
    }
    return 1;
}

/* what the operation says of itself; when a kernel that is checked runs, it is held to that. Bytes */
static double touch_declared(Op *op)
{
    const Label *l = op->work.label;
    double bytes = 0;
    for (int writes = 0; writes < 2; writes++)
        for (int k = 0; l && k < l->count; k++) {
            Allocation *a = vgpu_find(l->ranges[k].begin);
            if (a && l->ranges[k].writes == writes)
                vgpu_access_bytes(a, op, l->ranges[k].begin, l->ranges[k].end, writes, l->ranges[k].name);
            bytes += (l->ranges[k].writes != 0) == writes ? (double)(l->ranges[k].end - l->ranges[k].begin) : 0;
        }
    return bytes;
}

/* of a kernel that is only timed, as nothing else is said of it, with its arguments; 0: it is not. Launched again it would do the
 * same, and nobody may ever read what it writes */
static uint64_t timed(const Op *op)
{
    const KernelCall *c = &op->work.call;
    bool is = op->work.label && op->work.label->count < 0;
    return is ? hash_of((uintptr_t)c->values, vgpu_parameter_bytes(c->function)) ^ (uintptr_t)c->function : 0;
}

static bool launch(Op *op)
{
    double bytes = touch_declared(op);
    uint64_t now = timed(op);
    bool again = now && now == op->work.device->timed;
    if (!op->work.device->failed && !again && !vgpu_run_kernel(op))
        return false;
    if (op->again)
        return true;
    op->work.device->timed = now;
    if (op->end_us < op->work.device->time_us)
        op->end_us = op->work.device->time_us;
    bool models = strncmp(op->work.call.function->name, "mgpu_", 5) != 0; /* not the runtime's */
    op->end_us += (models ? vgpu_slowness(SLOW_KERNELS) : 1) * vgpu_slowness_of(op->work.call.function->name) *
                  slowness(op->work.device->number) * (LAUNCH_US + 1e6 * bytes / op->work.device->bandwidth);
    op->work.device->time_us = op->end_us;
    return true;
}

_Thread_local bool vgpu_in_host_function;

static void call_host(Op *op)
{
    op->end_us += LAUNCH_US + 1e6 * touch_declared(op) / HOST_BANDWIDTH;
    vgpu_in_host_function = true;
    op->work.host.function(op->work.host.context);
    vgpu_in_host_function = false;
}

/* what touches memory of a device that has failed fails, too, and its own device with it */
static bool meets_failure(Op *op)
{
    const Label *l = op->work.label;
    uintptr_t ends[] = {op->work.kind == OP_COPY ? op->work.copy.from : 0, op->work.kind == OP_COPY ? op->work.copy.to : 0};
    CUresult failed = CUDA_SUCCESS;
    for (int k = 0; k < 2 && !failed; k++)
        failed = place_of(ends[k]) < 0 ? CUDA_SUCCESS : vgpu_machine.device[place_of(ends[k])].failed;
    for (int k = 0; l && k < l->count && !failed; k++)
        failed = place_of(l->ranges[k].begin) < 0 ? CUDA_SUCCESS : vgpu_machine.device[place_of(l->ranges[k].begin)].failed;
    if (failed)
        op->work.device->failed = failed;
    return failed;
}

bool vgpu_execute(Op *op)
{
    VirtualDevice *d = op->work.device;
    if (op->work.kind == OP_JOIN)
        return true;
    if (d->lost_after >= 0 && d->executed++ >= d->lost_after && !d->failed) {
        vgpu_begin_deadline("a device");
        d->failed = d->lost;
    }
    if (d->failed || meets_failure(op))
        return true;
    switch (op->work.kind) {
    case OP_LAUNCH: return launch(op);
    case OP_COPY: copy(op); break;
    case OP_SET: set(op); break;
    case OP_LIBRARY:
        if (!vgpu_leaves_out())
            op->work.library.run(op);
        break;
    case OP_HOST: call_host(op); break;
    case OP_JOIN:
    case OP_COLLECTIVE: break;
    }
    return true;
}
