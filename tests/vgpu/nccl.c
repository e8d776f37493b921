/* nccl.c: libnccl.so.2 for virtual GPUs: collectives of the members of a communicator, sums in their order, and what one sends to
 * another. Members that do not agree on what they do, and operands that overlap but are not in place, are reported, which NCCL
 * leaves to chance. Calls in a group are issued at its end, one after the other, so what a member
 * sends and receives in one group does not go both ways at once, as it would. */
#include "runtime/cuda/nccl.h"
#include "tests/vgpu/driver.h"
#include "tests/vgpu/half.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
NCCL_FUNCTIONS(PROTOTYPE)
NCCL_LATER(PROTOTYPE)
#undef PROTOTYPE

enum { INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { MULTI_RANK_VERSION = 23100 };

typedef enum Function { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER, BROADCAST, SEND, FUNCTIONS } Function; /* SEND: and its ncclRecv */
static const char *const FUNCTION[FUNCTIONS] = {"ncclAllReduce", "ncclReduceScatter", "ncclReduce", "ncclAllGather", "ncclBroadcast", "ncclSend"};

/* one call of a member; root: its peer, of what one sends to another; send or receive NULL: it is the other side */
typedef struct Request {
    Function function;
    const void *send;
    void *receive;
    size_t count;
    int dtype, root;
    ncclComm_t comm;
    CUstream stream;
    Label *label;                    /* of the stream when it was called; in a group that is earlier than when it is issued */
} Request;
/* one collective, as the member that came first asked for it */
typedef struct Sum {
    Gathering gathering;
    Function function;
    size_t count;
    int dtype, root;
    bool registered;
    pid_t thread; uint64_t group;    /* that the last member's call was made by, and in; 0: in none */
    const char *buffer, *operation;
    int from, to; struct Sum *next;  /* of what one sends to another: in the group's list until both have come */
} Sum;
typedef struct Group {
    int members, left;               /* left: communicators that are not destroyed */
    VirtualDevice *device[VGPU_DEVICES];
    Sum **sums; uint64_t first, last; size_t room; /* sums[n - first], first <= n < last: begun; NULL: all members have come */
    Sum *sends;
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

/* bytes of what the call of a member reads and writes; 0: it does not */
static size_t read_bytes(Function f, size_t bytes, int members, int member, int root)
{
    return f == REDUCE_SCATTER ? bytes * (size_t)members : f == BROADCAST || f == SEND ? (member == root ? bytes : 0) : bytes;
}

static size_t written_bytes(Function f, size_t bytes, int members, int member, int root)
{
    return f == ALL_GATHER ? bytes * (size_t)members : f == REDUCE ? (member == root ? bytes : 0) : f == SEND ? (member == root ? 0 : bytes) : bytes;
}

/* what the members get, one after the other where each gets another part */
static void make_result(const Sum *s, int members, unsigned char *result, const unsigned char *const *from)
{
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    switch (s->function) {
    case ALL_REDUCE: case REDUCE: case REDUCE_SCATTER:
        for (size_t i = 0; i < s->count * (s->function == REDUCE_SCATTER ? (size_t)members : 1); i++)
            add_up(result, (const void *const *)from, members, s->dtype, i);
        break;
    case ALL_GATHER:
        for (int m = 0; m < members; m++)
            memcpy(result + bytes * (size_t)m, from[m], bytes);
        break;
    default: memcpy(result, from[s->root], bytes);
    }
}

static void run(Gathering *g)
{
    Sum *s = (Sum *)g;
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    const unsigned char *from[VGPU_DEVICES];
    unsigned char *result = malloc(bytes * (size_t)g->members + 1);
    bool failed = false;
    for (int m = 0; m < g->members; m++) {
        size_t reads = read_bytes(s->function, bytes, g->members, m, s->root);
        from[m] = (const unsigned char *)g->op[m]->work.part.from;
        failed |= g->op[m]->work.device->failed != 0;
        if (reads)
            vgpu_touch(g->op[m], g->op[m]->work.part.from, reads, false);
    }
    if (!failed)
        make_result(s, g->members, result, from);
    for (int m = 0; m < g->members && !failed; m++) {
        Op *op = g->op[m];
        size_t writes = written_bytes(s->function, bytes, g->members, m, s->root);
        bool there = s->function == BROADCAST && m == s->root && op->work.part.from == op->work.part.to; /* already */
        int device = op->work.device->number, previous = g->op[(m + g->members - 1) % g->members]->work.device->number;
        writes = there ? 0 : writes;
        if (writes) {
            vgpu_touch(op, op->work.part.to, writes, true);
            memcpy((void *)op->work.part.to, result + (s->function == REDUCE_SCATTER ? bytes * (size_t)m : 0), writes);
        }
        vgpu_carry(op, previous, device, op->work.part.to, writes);
        double speed = previous == device ? op->work.device->bandwidth : op->work.device->link[previous];
        op->end_us += 10 + (s->function == ALL_REDUCE ? 2e6 : 1e6) * (double)bytes / (speed > 0 ? speed : op->work.device->host_link);
    }
    free(result);
    free(s);
}

/* ---- agreement */

static bool is_registered(const ncclComm_t c, uintptr_t at, size_t bytes)
{
    for (int i = 0; i < c->memories; i++)
        if (at >= c->memory[i].begin && at + bytes <= c->memory[i].end)
            return true;
    return false;
}

static bool agrees(const Sum *s, const Request *r, bool registered, const char *buffer, const Label *l)
{
    const char *me = l && l->name ? l->name : FUNCTION[r->function], *first = s->operation ? s->operation : FUNCTION[s->function];
    VirtualDevice *d = r->comm->group->device[r->comm->member];
    int member = r->comm->member;
    if (s->function != r->function || (s->function != SEND && s->root != r->root)) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d calls %s, root %d, %s before it %s, root %d", me, member,
                       FUNCTION[r->function], r->root, first, FUNCTION[s->function], s->root);
        return false;
    }
    if (s->count != r->count || s->dtype != r->dtype) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums %zu elements of type %d, %s before it %zu of type %d", me,
                       member, r->count, r->dtype, first, s->count, s->dtype);
        return false;
    }
    if (s->buffer && buffer && strcmp(s->buffer, buffer) != 0) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums %s, %s before it %s: the order is not the same", me,
                       member, buffer, first, s->buffer);
        return false;
    }
    if (s->registered != registered) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums memory that is%s registered, %s before it memory that is%s", me,
                       member, registered ? "" : " not", first, registered ? " not" : "");
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

/* of what one sends to another: the oldest that waits for this side, else a new one */
static Sum **send_place(Group *g, int from, int to, bool sender)
{
    Sum **at = &g->sends;
    for (; *at; at = &(*at)->next)
        if ((*at)->from == from && (*at)->to == to && !(*at)->gathering.op[sender ? 0 : 1])
            return at;
    return at;
}

static bool is_own(const VirtualDevice *d, uintptr_t begin, size_t bytes)
{
    const Allocation *a = bytes ? vgpu_find(begin) : NULL;
    return !bytes || (a && a->device == d && begin + bytes <= a->base + a->bytes);
}

/* operands that overlap must be in place: the same one, or the member's own part of what all have */
static bool is_in_place(const Request *r, size_t bytes, size_t reads, size_t writes)
{
    uintptr_t send = (uintptr_t)r->send, receive = (uintptr_t)r->receive, own = bytes * (size_t)r->comm->member;
    if (!reads || !writes || send + reads <= receive || receive + writes <= send)
        return true;
    return r->function == REDUCE_SCATTER ? receive == send + own : r->function == ALL_GATHER ? send == receive + own : send == receive;
}

/* "Management Of Multiple GPUs From One Thread": a call may wait for those of the other members, so a thread that makes them for several
 * makes one group of them */
static bool may_issue(Sum *s, const Request *r, uint64_t group)
{
    bool alone = s->gathering.came == 0 || s->function == SEND || s->thread != gettid() || (group && s->group == group);
    if (!alone)
        vgpu_violation(r->comm->group->device[r->comm->member], CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s of member %d is called by the thread that called it for another member, and not in one group", FUNCTION[r->function], r->comm->member);
    s->thread = gettid();
    s->group = group;
    return alone;
}

static ncclResult_t issue(const Request *r, bool hangs, uint64_t group)
{
    ncclComm_t c = r->comm;
    int each = bytes_of(r->dtype);
    if (!c || !r->stream || !each)
        return INVALID_ARGUMENT;
    Group *g = c->group;
    VirtualDevice *d = g->device[c->member];
    bool sends = r->function == SEND, sender = sends && r->send;
    size_t bytes = r->count * (size_t)each;
    int members = sends ? 2 : g->members, me = sends ? !sender : c->member, root = sends ? 0 : r->root;
    if (r->root < 0 || r->root >= g->members || (sends && r->root == c->member))
        return INVALID_ARGUMENT;
    size_t reads = read_bytes(r->function, bytes, members, me, root), writes = written_bytes(r->function, bytes, members, me, root);
    if (r->stream->device != d || !is_own(d, (uintptr_t)r->send, reads) || !is_own(d, (uintptr_t)r->receive, writes))
        return INVALID_ARGUMENT;
    if (r->stream->capture)
        return INVALID_USAGE;
    if (d->failed)
        return ncclUnhandledCudaError;
    Work w = {.kind = OP_COLLECTIVE, .device = d, .what = sends && !sender ? "ncclRecv" : FUNCTION[r->function], .label = vgpu_share_label(r->label ? r->label : r->stream->label)};
    if (!is_in_place(r, bytes, reads, writes)) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d: the operands of %s overlap, but are not in place",
                       w.label && w.label->name ? w.label->name : w.what, c->member, w.what);
        return INVALID_USAGE;
    }
    int from = sender ? c->member : r->root, to = sender ? r->root : c->member;
    Sum **place = sends ? send_place(g, from, to, sender) : place_of(g, c->next), *s = *place;
    w.part.from = (uintptr_t)r->send, w.part.to = (uintptr_t)r->receive, w.part.bytes = bytes, w.part.member = me;
    Op probe = {.work = w};
    const char *buffer = vgpu_buffer_name(&probe, probe.work.part.to);
    bool registered = (!reads || is_registered(c, (uintptr_t)r->send, reads)) && (!writes || is_registered(c, (uintptr_t)r->receive, writes));
    if (!s) {
        *place = s = calloc(1, sizeof *s);
        *s = (Sum){.gathering = {.members = members, .run = run, .name = FUNCTION[r->function]}, .function = r->function, .count = r->count,
                   .dtype = r->dtype, .root = root, .registered = registered, .buffer = buffer,
                   .operation = w.label ? w.label->name : NULL, .from = from, .to = to};
    }
    if (!agrees(s, r, registered, buffer, w.label) || !may_issue(s, r, group))
        return INVALID_USAGE;
    c->next += !sends;
    s->gathering.members += hangs; /* one that nobody is */
    if (++s->gathering.came == members)
        *place = s->next;
    w.part.gathering = &s->gathering;
    vgpu_issue(r->stream, w, NULL, 0);
    return ncclSuccess;
}

/* ---- groups, of the calling thread */
enum { MOST_IN_A_GROUP = 1024 };
static _Thread_local struct { int depth, count; Request request[MOST_IN_A_GROUP]; } group;

/* In a group nothing is done before its end, which has its own faults. */
static ncclResult_t ask(const char *call, const Request *request)
{
    if (group.depth) {
        bool full = group.count == MOST_IN_A_GROUP;
        pthread_mutex_lock(&vgpu_lock);
        if (!full) {
            group.request[group.count] = *request;
            group.request[group.count++].label = request->stream ? vgpu_share_label(request->stream->label) : NULL;
        }
        return leave(full ? INVALID_USAGE : ncclSuccess);
    }
    ncclResult_t r = enter(call);
    bool hangs = request->function == ALL_REDUCE && (r == VGPU_HANGS || r <= VGPU_LATER);
    if (request->function == ALL_REDUCE && r <= VGPU_LATER && request->comm)
        request->comm->trouble = VGPU_LATER - r;
    if (r && !hangs)
        return leave(r);
    return leave(issue(request, hangs, 0));
}

static ncclResult_t end_group(void)
{
    ncclResult_t r = ncclSuccess;
    if (group.depth == 0)
        return INVALID_USAGE;
    if (--group.depth > 0)
        return ncclSuccess;
    static uint64_t number; /* of groups */
    number++;
    for (int i = 0; i < group.count && !r; i++)
        r = issue(&group.request[i], false, number);
    for (int i = 0; i < group.count; i++)
        vgpu_drop_label(group.request[i].label);
    group.count = 0;
    return r;
}

/* ---- what the library exports */

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    return op == ncclSum ? ask("ncclAllReduce", &(Request){ALL_REDUCE, send, receive, count, dtype, 0, comm, stream, NULL}) : INVALID_ARGUMENT;
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    return op == ncclSum ? ask("ncclReduceScatter", &(Request){REDUCE_SCATTER, send, receive, count, dtype, 0, comm, stream, NULL}) : INVALID_ARGUMENT;
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, int dtype, int op, int root, ncclComm_t comm, CUstream stream)
{
    return op == ncclSum ? ask("ncclReduce", &(Request){REDUCE, send, receive, count, dtype, root, comm, stream, NULL}) : INVALID_ARGUMENT;
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, int dtype, ncclComm_t comm, CUstream stream)
{
    return ask("ncclAllGather", &(Request){ALL_GATHER, send, receive, count, dtype, 0, comm, stream, NULL});
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, int dtype, int root, ncclComm_t comm, CUstream stream)
{
    return ask("ncclBroadcast", &(Request){BROADCAST, send, receive, count, dtype, root, comm, stream, NULL});
}

ncclResult_t ncclSend(const void *send, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)
{
    return send ? ask("ncclSend", &(Request){SEND, send, NULL, count, dtype, peer, comm, stream, NULL}) : INVALID_ARGUMENT;
}

ncclResult_t ncclRecv(void *receive, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)
{
    return receive ? ask("ncclRecv", &(Request){SEND, NULL, receive, count, dtype, peer, comm, stream, NULL}) : INVALID_ARGUMENT;
}

ncclResult_t ncclGroupStart(void)
{
    ncclResult_t r = enter("ncclGroupStart");
    group.depth += r == ncclSuccess;
    return leave(r);
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t r = enter("ncclGroupEnd");
    return leave(r ? r : end_group());
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

static ncclResult_t allocate(void **memory, size_t bytes)
{
    uintptr_t address = 0;
    if (!vgpu_current() || vgpu_allocate(vgpu_current()->device, bytes, &address))
        return ncclUnhandledCudaError;
    vgpu_find(address)->mapped_apart = true;
    *memory = (void *)address;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    ncclResult_t r = enter("ncclMemAlloc");
    return leave(r ? r : allocate(memory, bytes));
}

static ncclResult_t free_memory(uintptr_t address)
{
    const Allocation *a = vgpu_find(address);
    if (!a || !a->mapped_apart || !vgpu_finish_device(a->device))
        return INVALID_ARGUMENT;
    return vgpu_free(address, false) ? INVALID_ARGUMENT : ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    ncclResult_t r = enter("ncclMemFree");
    return leave(r ? r : free_memory((uintptr_t)memory));
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
