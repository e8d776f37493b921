/* nccl.c: libnccl.so.2 for virtual GPUs: sums over the members of a communicator, in their order. Members that do not agree on
 * what they sum are reported, which NCCL leaves to chance. */
#include "runtime/cuda/nccl.h"
#include "tests/vgpu/half.h"
#include "tests/vgpu/vgpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
NCCL_FUNCTIONS(PROTOTYPE)
NCCL_LATER(PROTOTYPE)
#undef PROTOTYPE

enum { INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { MULTI_RANK_VERSION = 23100 };

/* one sum, as the member that came first asked for it */
typedef struct Sum { Gathering gathering; size_t count; int dtype; bool registered; const char *buffer, *operation; } Sum;
typedef struct Group {
    int members, left;               /* left: communicators that are not destroyed */
    VirtualDevice *device[VGPU_DEVICES];
    Sum **sums; uint64_t first, last; size_t room; /* sums[n - first], first <= n < last: begun; NULL: all members have come */
} Group;
typedef struct Registered { uintptr_t begin, end; } Registered;
struct ncclComm {
    Group *group;
    int member;
    uint64_t next;                   /* number of its next sum */
    ncclResult_t trouble;            /* that a sum has met; 0: none */
    Registered memory[4]; int memories;
};

static int bytes_of(int dtype)
{
    static const int BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return dtype >= 0 && dtype < (int)(sizeof BYTES / sizeof *BYTES) ? BYTES[dtype] : 0;
}

static ncclResult_t enter(const char *call)
{
    pthread_mutex_lock(&vgpu_lock);
    return vgpu_fault(call);
}

static ncclResult_t leave(ncclResult_t r)
{
    pthread_mutex_unlock(&vgpu_lock);
    return r == VGPU_FORGOTTEN ? ncclSuccess : r;
}

/* ---- the sums */

#define SUM_OF(type)                                                                                                        \
    {                                                                                                                       \
        type sum = 0;                                                                                                       \
        for (int m = 0; m < members; m++)                                                                                   \
            sum = (type)(sum + ((const type *)from[m])[i]);                                                                 \
        ((type *)to)[i] = sum;                                                                                              \
        break;                                                                                                              \
    }

static void add_up(void *to, const void *const *from, int members, int dtype, size_t i)
{
    switch (dtype) {
    case ncclInt8: case ncclUint8: SUM_OF(uint8_t)
    case ncclInt32: case ncclUint32: SUM_OF(uint32_t)
    case ncclInt64: case ncclUint64: SUM_OF(uint64_t)
    case ncclFloat32: SUM_OF(float)
    case ncclFloat64: SUM_OF(double)
    default: {
        float sum = 0;
        for (int m = 0; m < members; m++)
            sum += vgpu_widen(dtype == ncclFloat16, ((const uint16_t *)from[m])[i]);
        ((uint16_t *)to)[i] = vgpu_narrow(dtype == ncclFloat16, sum);
    }
    }
}

static void run(Gathering *g)
{
    Sum *s = (Sum *)g;
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    const void *from[VGPU_DEVICES];
    unsigned char *result = malloc(bytes + 1);
    bool failed = false;
    for (int m = 0; m < g->members; m++) {
        from[m] = (const void *)g->op[m]->work.part.from;
        failed |= g->op[m]->work.device->failed != 0;
        vgpu_touch(g->op[m], g->op[m]->work.part.from, bytes, false);
    }
    for (size_t i = 0; i < s->count && !failed; i++)
        add_up(result, from, g->members, s->dtype, i);
    for (int m = 0; m < g->members && !failed; m++) {
        Op *op = g->op[m];
        int device = op->work.device->number, previous = g->op[(m + g->members - 1) % g->members]->work.device->number;
        vgpu_touch(op, op->work.part.to, bytes, true);
        memcpy((void *)op->work.part.to, result, bytes);
        if (previous != device && vgpu_corrupts(previous, device) && bytes > 0)
            ((unsigned char *)op->work.part.to)[vgpu_random() % bytes] ^= 4;
        double speed = previous == device ? op->work.device->bandwidth : op->work.device->link[previous];
        op->end_us += 10 + 2e6 * (double)bytes / (speed > 0 ? speed : op->work.device->host_link);
    }
    free(result);
    free(s);
}

/* ---- agreement */

/* the buffer's name in the plan, without the device: "d1.bucket2" and "d0.bucket2" are one */
static const char *buffer_name(const Op *op)
{
    const Label *l = op->work.label;
    uintptr_t to = op->work.part.to;
    for (int k = 0; l && k < l->count; k++)
        if (l->ranges[k].name && l->ranges[k].writes && to >= l->ranges[k].begin && to < l->ranges[k].end) {
            const char *name = l->ranges[k].name, *at = name + (name[0] == 'd');
            size_t digits = strspn(at, "0123456789");
            return name[0] == 'd' && digits && at[digits] == '.' ? at + digits + 1 : name;
        }
    return NULL;
}

static bool is_registered(const ncclComm_t c, uintptr_t at, size_t bytes)
{
    for (int i = 0; i < c->memories; i++)
        if (at >= c->memory[i].begin && at + bytes <= c->memory[i].end)
            return true;
    return false;
}

static bool agrees(const Sum *s, const ncclComm_t c, size_t count, int dtype, bool registered, const char *buffer, const Label *l)
{
    const char *me = l && l->name ? l->name : "ncclAllReduce", *first = s->operation ? s->operation : "ncclAllReduce";
    VirtualDevice *d = c->group->device[c->member];
    if (s->count != count || s->dtype != dtype) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums %zu elements of type %d, %s before it %zu of type %d", me,
                       c->member, count, dtype, first, s->count, s->dtype);
        return false;
    }
    if (s->buffer && buffer && strcmp(s->buffer, buffer) != 0) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums %s, %s before it %s: the order is not the same", me,
                       c->member, buffer, first, s->buffer);
        return false;
    }
    if (s->registered != registered) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums memory that is%s registered, %s before it memory that is%s", me,
                       c->member, registered ? "" : " not", first, registered ? " not" : "");
        return false;
    }
    return true;
}

/* the place of the group's sum of this number; a member may be any number of sums ahead of the others */
static Sum **place_of(Group *g, uint64_t number)
{
    size_t done = 0;
    while (g->first + done < g->last && !g->sums[done])
        done++;
    if (done) {
        g->first += done;
        memmove(g->sums, g->sums + done, (size_t)(g->last - g->first) * sizeof *g->sums);
    }
    if (number >= g->last) {
        g->last = number + 1;
        if (g->last - g->first > g->room) {
            g->room = 2 * (size_t)(g->last - g->first);
            g->sums = realloc(g->sums, g->room * sizeof(Sum *));
        }
        g->sums[number - g->first] = NULL;
    }
    return &g->sums[number - g->first];
}

static ncclResult_t all_reduce(const void *send, void *receive, size_t count, int dtype, int operation, ncclComm_t c, CUstream stream, bool hangs)
{
    int each = bytes_of(dtype);
    if (!c || !stream || !each || operation != ncclSum)
        return INVALID_ARGUMENT;
    Group *g = c->group;
    VirtualDevice *d = g->device[c->member];
    size_t bytes = count * (size_t)each;
    const Allocation *from = vgpu_find((uintptr_t)send), *to = vgpu_find((uintptr_t)receive);
    if (stream->device != d || !from || !to || from->device != d || to->device != d || (uintptr_t)send + bytes > from->base + from->bytes ||
        (uintptr_t)receive + bytes > to->base + to->bytes)
        return INVALID_ARGUMENT;
    if (stream->capture)
        return INVALID_USAGE;
    if (d->failed)
        return ncclUnhandledCudaError;
    Work w = {.kind = OP_COLLECTIVE, .device = d, .what = "ncclAllReduce", .label = vgpu_share_label(stream->label)};
    Sum **place = place_of(g, c->next), *s = *place;
    w.part.from = (uintptr_t)send, w.part.to = (uintptr_t)receive, w.part.bytes = bytes, w.part.member = c->member;
    Op probe = {.work = w};
    const char *buffer = buffer_name(&probe);
    bool registered = is_registered(c, (uintptr_t)send, bytes) && is_registered(c, (uintptr_t)receive, bytes);
    if (!s) {
        *place = s = calloc(1, sizeof *s);
        *s = (Sum){.gathering = {.members = g->members, .run = run, .name = "ncclAllReduce"}, .count = count, .dtype = dtype, .registered = registered, .buffer = buffer,
                   .operation = w.label ? w.label->name : NULL};
    }
    if (!agrees(s, c, count, dtype, registered, buffer, w.label))
        return INVALID_USAGE;
    c->next++;
    s->gathering.members += hangs; /* one that nobody is */
    if (++s->gathering.came == g->members)
        *place = NULL;
    w.part.gathering = &s->gathering;
    vgpu_issue(stream, w, NULL, 0);
    return ncclSuccess;
}

/* ---- what the library exports */

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    ncclResult_t r = enter("ncclAllReduce");
    bool hangs = r == VGPU_HANGS || r <= VGPU_LATER;
    if (r <= VGPU_LATER && comm)
        comm->trouble = VGPU_LATER - r;
    return leave(r && !hangs ? r : all_reduce(send, receive, count, dtype, op, comm, stream, hangs));
}

/* two members on one GPU: newer versions, if they are told to */
static bool takes_shared(void)
{
    const char *enabled = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return vgpu_machine.nccl >= MULTI_RANK_VERSION && enabled && strcmp(enabled, "1") == 0;
}

static ncclResult_t init_all(ncclComm_t *comms, int count, const int *devices)
{
    if (count < 1 || count > VGPU_DEVICES)
        return INVALID_ARGUMENT;
    Group *g = calloc(1, sizeof *g);
    g->members = g->left = count;
    for (int m = 0; m < count; m++) {
        int ordinal = devices ? devices[m] : m;
        if (ordinal < 0 || ordinal >= vgpu_machine.visible_count)
            return INVALID_ARGUMENT;
        g->device[m] = &vgpu_machine.device[vgpu_machine.visible[ordinal]];
        for (int other = 0; other < m; other++)
            if (g->device[other] == g->device[m] && !takes_shared())
                return INVALID_USAGE;
        comms[m] = calloc(1, sizeof *comms[m]);
        *comms[m] = (struct ncclComm){.group = g, .member = m};
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    ncclResult_t r = enter("ncclCommInitAll");
    return leave(r ? r : init_all(comms, count, devices));
}

static ncclResult_t destroy(ncclComm_t c)
{
    if (!c)
        return INVALID_ARGUMENT;
    if (c->memories > 0)
        vgpu_violation(c->group->device[c->member], CUDA_ERROR_LAUNCH_FAILED, "collective", "the communicator of member %d ends with memory registered", c->member);
    if (--c->group->left == 0) {
        free(c->group->sums);
        free(c->group);
    }
    free(c);
    return ncclSuccess;
}

static ncclResult_t take(ncclComm_t c, uintptr_t at, size_t bytes, void **handle)
{
    const char *local = getenv("NCCL_LOCAL_REGISTER");
    if (local && strcmp(local, "0") == 0)
        return ncclSuccess; /* and no handle: 2.20 does not touch it */
    const Allocation *a = c ? vgpu_find(at) : NULL;
    if (!a || a->device != c->group->device[c->member] || at + bytes > a->base + a->bytes || c->memories == (int)(sizeof c->memory / sizeof *c->memory))
        return INVALID_ARGUMENT;
    c->memory[c->memories++] = (Registered){at, at + bytes};
    *handle = (void *)at;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    ncclResult_t r = enter("ncclCommRegister");
    return leave(r ? r : take(comm, (uintptr_t)memory, bytes, handle));
}

static ncclResult_t give_back(ncclComm_t c, uintptr_t at)
{
    for (int i = 0; c && i < c->memories; i++)
        if (c->memory[i].begin == at) {
            c->memory[i] = c->memory[--c->memories];
            return ncclSuccess;
        }
    return INVALID_ARGUMENT;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    ncclResult_t r = enter("ncclCommDeregister");
    return leave(r ? r : give_back(comm, (uintptr_t)handle));
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t r = enter("ncclCommDestroy");
    return leave(r ? r : destroy(comm));
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t r = enter("ncclCommAbort");
    return leave(r ? r : destroy(comm));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t r = enter("ncclCommGetAsyncError");
    *error = comm && comm->group->device[comm->member]->failed ? ncclUnhandledCudaError : comm ? comm->trouble : ncclSuccess;
    return leave(r ? r : comm ? ncclSuccess : INVALID_ARGUMENT);
}

ncclResult_t ncclGetVersion(int *version)
{
    ncclResult_t r = enter("ncclGetVersion");
    *version = vgpu_machine.nccl;
    return leave(r);
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const TEXTS[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument",
                                        "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"};
    return result >= 0 && result < (int)(sizeof TEXTS / sizeof *TEXTS) ? TEXTS[result] : "unknown result code";
}
