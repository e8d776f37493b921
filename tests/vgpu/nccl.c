/* nccl.c: libnccl.so.2 for virtual GPUs: collectives of the members of a communicator, sums in their order, and what one sends to
 * another. Members that do not agree on what they do, and operands that overlap but are not in place, are reported, which NCCL
 * leaves to chance. Calls in a group are issued at its end, one after the other, so what a member
 * sends and receives in one group does not go both ways at once, as it would.
 *
 * Members may be of several processes. When all of a process's members have come to a collective, it sends the others what they
 * read, and goes on when theirs has come.
 *
 * A call in a stream that is captured becomes a node of the graph ("Using NCCL with CUDA Graphs"): each launch begins its
 * collective, at the member's turn among its others. All members must have captured the same one, so captured ones are
 * numbered. */
#include "runtime/cuda/nccl.h"
#include "tests/vgpu/driver.h"
#include "tests/vgpu/graph.h"
#include "tests/vgpu/half.h"
#include "tests/vgpu/nccl_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOTYPE(result, symbol, field, parameters) VGPU_API result symbol parameters;
NCCL_FUNCTIONS(PROTOTYPE)
NCCL_LATER(PROTOTYPE)
#undef PROTOTYPE

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { MULTI_RANK_VERSION = 23100, CAPTURE_VERSION = 20900, CAPTURE_CUDA = 11030 };

typedef struct Group Group;
/* clang-format off */
/* SEND: and its ncclRecv */
typedef enum Function { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER, BROADCAST, SEND, FUNCTIONS } Function;
/* clang-format on */
static const char *const FUNCTION[FUNCTIONS] = {"ncclAllReduce", "ncclReduceScatter", "ncclReduce",
                                                "ncclAllGather", "ncclBroadcast",     "ncclSend"};

/* one call of a member; root: its peer, of what one sends to another; send or receive NULL: it is the other side */
typedef struct Request {
    Function function;
    const void *send;
    void *receive;
    size_t count;
    int dtype, root;
    ncclComm_t comm;
    CUstream stream;
    Label *label; /* of the stream when it was called; in a group that is earlier than when it is issued */
} Request;
/* what processes tell each other */
typedef enum Kind { HELLO, PART, BYE } Kind; /* PART: of a collective, with what its member reads */
typedef struct Head {
    Kind kind;
    int process; /* pid */
    int rank, members;
    char uuid[16]; /* of a hello */
    Function function;
    int role, dtype, root, from, to;
    int64_t registered;
    uint64_t number, kept;
    size_t count;
    char operation[96], buffer[64];
} Head;
typedef struct Part {
    struct Part *next;
    Head head;
    unsigned char data[];
} Part;

/* one collective, as the member that came first asked for it */
typedef struct Sum {
    Gathering gathering;
    Group *all;
    int role[VGPU_DEVICES], roles; /* of each Op, of all: the members, or 0 who sends and 1 who receives */
    uint64_t number;               /* of the communicator's collectives, or of what its ends have sent */
    uint64_t kept;                 /* of those that are captured: which one; 0: it is not */
    Part *away;                    /* of other processes */
    struct Sum *next_begun;
    Function function;
    size_t count;
    int dtype, root;
    int64_t registered; /* as registered_at */
    pid_t thread;
    uint64_t group; /* that the last member's call was made by, and in; 0: in none */
    const char *buffer, *operation;
    int from, to;
    struct Sum *next; /* of what one sends to another: in the group's list until both have come */
} Sum;
struct Group {
    int members, left;                   /* left: communicators of this process that are not destroyed */
    VirtualDevice *device[VGPU_DEVICES]; /* NULL: another process's */
    int own, slot[VGPU_DEVICES];         /* members of this process, one after the other */
    Sum **sums;
    uint64_t first, last;
    size_t room; /* sums[n - first], first <= n < last: begun; NULL: all members have come */
    Sum *sends;
    /* where there are other processes */
    Link *link;           /* NULL: there are none */
    Part *hellos, *parts; /* of the others; parts: of collectives that are not complete here */
    Sum *begun;           /* that wait for parts */
    uint64_t sent[VGPU_DEVICES][VGPU_DEVICES];
    int byes;
    bool lost;    /* a process is gone */
    bool aborted; /* its sums end without a result */
};
typedef struct Registered {
    uintptr_t begin, end;
} Registered;
struct ncclComm {
    Group *group;
    int member;
    uint64_t next;        /* number of its next sum */
    uint64_t captured;    /* collectives so far */
    int kept;             /* calls that graphs have */
    ncclResult_t trouble; /* that a sum has met; 0: none */
    Registered memory[4];
    int memories;
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

/* of a call that allocates, frees or waits: not while the thread captures */
static ncclResult_t enter_unsafe(const char *call)
{
    ncclResult_t r = enter(call);
    return r ? r : vgpu_check_capture(call) ? ncclUnhandledCudaError : ncclSuccess;
}

static char last_error[200];

static ncclResult_t leave(ncclResult_t r)
{
    pthread_mutex_unlock(&vgpu_lock);
    return r == VGPU_FORGOTTEN ? ncclSuccess : r;
}

/* NVLink's, unless the variable says 0 when it is first asked, as NCCL keeps what it has read */
static int switches(void)
{
    static int kept = -1;
    const char *value = getenv("NCCL_NVLS_ENABLE");
    if (kept < 0)
        kept = value && strcmp(value, "0") == 0 ? SWITCHES_WORK : (int)vgpu_machine.switches;
    return kept;
}

/* ---- the sums */

#define SUM_OF(type)                                                                                                             \
    {                                                                                                                            \
        type sum = 0;                                                                                                            \
        for (int m = 0; m < members; m++)                                                                                        \
            sum = (type)(sum + ((const type *)from[m])[i]);                                                                      \
        ((type *)to)[i] = sum;                                                                                                   \
        break;                                                                                                                   \
    }

static void add_up(void *to, const void *const *from, int members, int dtype, size_t i)
{
    switch (dtype) {
    case ncclInt8:
    case ncclUint8: SUM_OF(uint8_t)
    case ncclInt32:
    case ncclUint32: SUM_OF(uint32_t)
    case ncclInt64:
    case ncclUint64: SUM_OF(uint64_t)
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
    return f == ALL_GATHER ? bytes * (size_t)members
           : f == REDUCE   ? (member == root ? bytes : 0)
           : f == SEND     ? (member == root ? 0 : bytes)
                           : bytes;
}

/* what the members get, one after the other where each gets another part */
static void make_result(const Sum *s, int members, unsigned char *result, const unsigned char *const *from)
{
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    switch (s->function) {
    case ALL_REDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
        for (size_t i = 0; i < s->count * (s->function == REDUCE_SCATTER ? (size_t)members : 1); i++)
            add_up(result, (const void *const *)from, members, s->dtype, i);
        break;
    case ALL_GATHER:
        for (int m = 0; m < members; m++)
            memcpy(result + bytes * (size_t)m, from[m], bytes);
        break;
    default: memcpy(result, from[s->root], bytes);
    }
    result[0] ^= bytes && s->function == ALL_REDUCE && switches() == SWITCHES_CHANGE;
}

static void free_parts(Part *p)
{
    for (Part *next; p; p = next) {
        next = p->next;
        free(p);
    }
}

static void run(Gathering *g)
{
    Sum *s = (Sum *)g;
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    const unsigned char *from[VGPU_DEVICES];
    unsigned char *result = malloc(bytes * (size_t)s->roles + 1);
    bool failed = false;
    for (const Part *p = s->away; p; p = p->next)
        from[p->head.role] = p->data;
    for (int m = 0; m < g->members; m++) {
        size_t reads = read_bytes(s->function, bytes, s->roles, s->role[m], s->root);
        from[s->role[m]] = (const unsigned char *)g->op[m]->work.part.from;
        failed |= s->all->aborted || g->op[m]->work.device->failed != 0;
        if (reads)
            vgpu_touch(g->op[m], g->op[m]->work.part.from, reads, false);
    }
    if (!failed)
        make_result(s, s->roles, result, from);
    for (int m = 0; m < g->members && !failed; m++) {
        Op *op = g->op[m];
        int role = s->role[m];
        size_t writes = written_bytes(s->function, bytes, s->roles, role, s->root);
        bool there = s->function == BROADCAST && role == s->root && op->work.part.from == op->work.part.to; /* already */
        int device = op->work.device->number, previous = g->op[(m + g->members - 1) % g->members]->work.device->number;
        writes = there ? 0 : writes;
        if (writes) {
            vgpu_touch(op, op->work.part.to, writes, true);
            memcpy((void *)op->work.part.to, result + (s->function == REDUCE_SCATTER ? bytes * (size_t)role : 0), writes);
        }
        vgpu_carry(op, previous, device, op->work.part.to, writes);
        double speed = previous == device ? op->work.device->bandwidth : op->work.device->link[previous];
        op->end_us +=
            10 + (s->function == ALL_REDUCE ? 2e6 : 1e6) * (double)bytes / (speed > 0 ? speed : op->work.device->host_link);
    }
    free(result);
    free_parts(s->away);
    free(s);
}

/* ---- agreement */

/* where it is in memory that the communicator has registered; -1: in none */
static int64_t find_registered(const ncclComm_t c, uintptr_t at, size_t bytes)
{
    for (int i = 0; i < c->memories; i++)
        if (at >= c->memory[i].begin && at + bytes <= c->memory[i].end)
            return (int64_t)(at - c->memory[i].begin);
    return -1;
}

/* "keep the offset to the head address of the buffer same for each rank": of what each member has whole. -1: not registered */
static int64_t registered_at(const Request *r, size_t reads, size_t writes)
{
    int64_t from = find_registered(r->comm, (uintptr_t)r->send, reads),
            to = find_registered(r->comm, (uintptr_t)r->receive, writes);
    if ((reads && from < 0) || (writes && to < 0))
        return -1;
    return r->function == ALL_REDUCE || r->function == REDUCE_SCATTER ? from : r->function == ALL_GATHER ? to : 0;
}

static const char *name_registered(int64_t at, char text[60])
{
    snprintf(text, 60, at < 0 ? "memory that is not registered" : "byte %lld of registered memory", (long long)at);
    return text;
}

/* "a collective property of that operation": of what one sends to another, both ends are captured, or none */
static bool is_same_kept(const Sum *s, uint64_t kept) { return s->function == SEND ? !s->kept == !kept : s->kept == kept; }

static const char *name_kept(uint64_t kept, char text[40])
{
    snprintf(text, 40, kept ? "number %llu of a capture" : "not captured", (unsigned long long)kept);
    return text;
}

static bool agrees(const Sum *s, const Request *r, int64_t registered, const char *buffer, const Label *l, uint64_t kept)
{
    const char *me = l && l->name ? l->name : FUNCTION[r->function], *first = s->operation ? s->operation : FUNCTION[s->function];
    VirtualDevice *d = r->comm->group->device[r->comm->member];
    int member = r->comm->member;
    if (s->function != r->function || (s->function != SEND && s->root != r->root)) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d calls %s, root %d, %s before it %s, root %d",
                       me, member, FUNCTION[r->function], r->root, first, FUNCTION[s->function], s->root);
        return false;
    }
    if (s->count != r->count || s->dtype != r->dtype) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s of member %d sums %zu elements of type %d, %s before it %zu of type %d", me, member, r->count,
                       r->dtype, first, s->count, s->dtype);
        return false;
    }
    if (s->buffer && buffer && strcmp(s->buffer, buffer) != 0) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s of member %d sums %s, %s before it %s: the order is not the same", me, member, buffer, first,
                       s->buffer);
        return false;
    }
    char own[60], other[60];
    if (!is_same_kept(s, kept)) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d is %s, %s before it is %s", me, member,
                       name_kept(kept, own), first, name_kept(s->kept, other));
        return false;
    }
    if (s->registered != registered) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s of member %d sums %s, %s before it %s", me, member,
                       name_registered(registered, own), first, name_registered(s->registered, other));
        return false;
    }
    return true;
}

/* ---- other processes */
static bool is_of(const Part *p, const Sum *s)
{
    bool sends = s->function == SEND;
    return p->head.number == s->number && sends == (p->head.function == SEND) &&
           (!sends || (p->head.from == s->from && p->head.to == s->to));
}

/* what a member of another process asks for: as `agrees` */
static void compare(const Sum *s, const Head *h)
{
    VirtualDevice *d = s->gathering.op[0]->work.device;
    const char *here = s->operation ? s->operation : FUNCTION[s->function],
               *there = *h->operation ? h->operation : FUNCTION[h->function];
    char own[60], other[60];
    if (s->function != h->function || (s->function != SEND && s->root != h->root))
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s calls %s, root %d, %s of another process %s, root %d", here,
                       FUNCTION[s->function], s->root, there, FUNCTION[h->function], h->root);
    else if (s->count != h->count || s->dtype != h->dtype)
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s sums %zu elements of type %d, %s of another process %zu of type %d", here, s->count, s->dtype, there,
                       h->count, h->dtype);
    else if (s->buffer && *h->buffer && strncmp(s->buffer, h->buffer, sizeof h->buffer - 1) != 0)
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s sums %s, %s of another process %s: the order is not the same", here, s->buffer, there, h->buffer);
    else if (!is_same_kept(s, h->kept))
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s is %s, %s of another process is %s", here,
                       name_kept(s->kept, own), there, name_kept(h->kept, other));
    else if (s->registered != h->registered)
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective", "%s sums %s, %s of another process %s", here,
                       name_registered(s->registered, own), there, name_registered(h->registered, other));
}

/* once all parts are there they are the sum's */
static bool is_complete(Sum *s)
{
    int count = 0;
    for (const Part *p = s->all->parts; p; p = p->next)
        count += is_of(p, s);
    if (count < s->roles - s->gathering.members)
        return false;
    for (Part **at = &s->all->parts, *p; (p = *at);) {
        if (!is_of(p, s)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = s->away;
        s->away = p;
        compare(s, &p->head);
    }
    return true;
}

static void set_text(char *to, size_t room, const char *from) { snprintf(to, room, "%s", from ? from : ""); }

/* all members of this process can: the others get what they read */
static bool begin(Gathering *g)
{
    Sum *s = (Sum *)g;
    if (s->all->aborted)
        return true;
    size_t bytes = s->count * (size_t)bytes_of(s->dtype);
    Head head = {.kind = PART,
                 .process = getpid(),
                 .function = s->function,
                 .dtype = s->dtype,
                 .root = s->root,
                 .from = s->from,
                 .to = s->to,
                 .registered = s->registered,
                 .number = s->number,
                 .kept = s->kept,
                 .count = s->count};
    set_text(head.operation, sizeof head.operation, s->operation);
    set_text(head.buffer, sizeof head.buffer, s->buffer);
    for (int m = 0; m < g->members; m++) {
        head.role = s->role[m];
        vgpu_link_send(s->all->link, &head, sizeof head, (const void *)g->op[m]->work.part.from,
                       read_bytes(s->function, bytes, s->roles, s->role[m], s->root), LINK_ONCE);
    }
    if (is_complete(s))
        return true;
    s->next_begun = s->all->begun;
    s->all->begun = s;
    return false;
}

static pthread_cond_t news = PTHREAD_COND_INITIALIZER; /* from other processes */

static void arrived(void *context, const void *data, size_t bytes)
{
    Group *g = context;
    Part *part = malloc(offsetof(Part, head) + bytes);
    memcpy(&part->head, data, bytes);
    pthread_mutex_lock(&vgpu_lock);
    Part **list = part->head.kind == PART ? &g->parts : &g->hellos;
    g->byes += part->head.kind == BYE;
    part->next = *list;
    *list = part;
    for (Sum **at = &g->begun, *s; (s = *at);) {
        if (!is_complete(s)) {
            at = &s->next_begun;
            continue;
        }
        *at = s->next_begun;
        vgpu_gather_on(&s->gathering);
    }
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&vgpu_lock);
}

static void lost(void *context)
{
    Group *g = context;
    pthread_mutex_lock(&vgpu_lock);
    g->lost = true;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&vgpu_lock);
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
    return r->function == REDUCE_SCATTER ? receive == send + own
           : r->function == ALL_GATHER   ? send == receive + own
                                         : send == receive;
}

/* "Management Of Multiple GPUs From One Thread": a call may wait for those of the other members, so a thread that makes them for
 * several makes one group of them */
static bool may_issue(Sum *s, const Request *r, uint64_t group)
{
    bool alone = s->gathering.came == 0 || s->function == SEND || s->thread != gettid() || (group && s->group == group);
    if (!alone)
        vgpu_violation(r->comm->group->device[r->comm->member], CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s of member %d is called by the thread that called it for another member, and not in one group",
                       FUNCTION[r->function], r->comm->member);
    s->thread = gettid();
    s->group = group;
    return alone;
}

static size_t bytes_of_request(const Request *r) { return r->count * (size_t)bytes_of(r->dtype); }

/* what the member's call reads and writes */
static void measure(const Request *r, size_t *reads, size_t *writes)
{
    bool sends = r->function == SEND;
    int members = sends ? 2 : r->comm->group->members, me = sends ? !r->send : r->comm->member, root = sends ? 0 : r->root;
    *reads = read_bytes(r->function, bytes_of_request(r), members, me, root);
    *writes = written_bytes(r->function, bytes_of_request(r), members, me, root);
}

/* the collective that the member's call is a part of, now that it is its turn; NULL: it is not what the others do */
static Gathering *take_part(const Request *r, uint64_t kept, bool hangs, uint64_t group, const Label *label, int *at)
{
    ncclComm_t c = r->comm;
    Group *g = c->group;
    bool sends = r->function == SEND, sender = sends && r->send;
    int members = sends ? 2 : g->members, me = sends ? !sender : c->member, from = sender ? c->member : r->root,
        to = sender ? r->root : c->member;
    bool apart = sends && !g->device[r->root];
    Sum *none = NULL, **place = apart ? &none : sends ? send_place(g, from, to, sender) : place_of(g, c->next), *s = *place;
    int own = apart ? 1 : sends ? 2 : g->own, slot = apart ? 0 : sends ? me : g->slot[c->member];
    size_t reads, writes;
    measure(r, &reads, &writes);
    Op probe = {.work = {.label = (Label *)label}};
    const char *buffer = vgpu_buffer_name(&probe, (uintptr_t)r->receive);
    int64_t registered = registered_at(r, reads, writes);
    if (!s) {
        *place = s = calloc(1, sizeof *s);
        *s = (Sum){.gathering = {.members = own,
                                 .run = run,
                                 .begin = apart || g->own < members ? begin : NULL,
                                 .name = FUNCTION[r->function]},
                   .all = g,
                   .roles = members,
                   .number = apart ? g->sent[from][to]++ : c->next,
                   .kept = kept,
                   .function = r->function,
                   .count = r->count,
                   .dtype = r->dtype,
                   .root = sends ? 0 : r->root,
                   .registered = registered,
                   .buffer = buffer,
                   .operation = label ? label->name : NULL,
                   .from = from,
                   .to = to};
    }
    if (!agrees(s, r, registered, buffer, label, kept) || !may_issue(s, r, group))
        return NULL;
    s->role[slot] = me;
    c->next += !sends;
    s->gathering.members += hangs; /* one that nobody is */
    if (++s->gathering.came == own)
        *place = s->next;
    *at = slot;
    return &s->gathering;
}

/* ---- graphs */
typedef struct Kept {
    KeptPart part;
    Request request;
    uint64_t number;
    bool hangs;
    ncclResult_t trouble;
} Kept;

static Gathering *launch_kept(KeptPart *part, int *member)
{
    const Kept *k = (const Kept *)part;
    ncclComm_t c = k->request.comm;
    c->trouble = k->trouble ? k->trouble : c->trouble;
    return take_part(&k->request, k->number, k->hangs, 0, k->request.label, member);
}

static void drop_kept(KeptPart *part)
{
    Kept *k = (Kept *)part;
    k->request.comm->kept--;
    vgpu_drop_label(k->request.label);
    free(k);
}

/* "if you are using NCCL in multi-thread mode ... you would need to add the cudaStreamCaptureModeThreadLocal flag" */
static ncclResult_t capture(const Request *r, Work w, bool hangs, ncclResult_t trouble)
{
    ncclComm_t c = r->comm;
    struct CUgraph_st *graph = r->stream->capture;
    if (vgpu_machine.nccl < CAPTURE_VERSION || vgpu_machine.version < CAPTURE_CUDA)
        return INVALID_USAGE;
    if (graph->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->group->own > 1) {
        graph->spoiled = true;
        return ncclUnhandledCudaError;
    }
    Kept *k = malloc(sizeof *k);
    *k = (Kept){{launch_kept, drop_kept}, *r, r->function == SEND ? 1 : ++c->captured, hangs, trouble};
    k->request.label = vgpu_share_label(r->label ? r->label : r->stream->label);
    c->kept++;
    w.part.kept = &k->part;
    return vgpu_issue_or_capture(r->stream, w) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t issue(const Request *r, bool hangs, ncclResult_t trouble, uint64_t group)
{
    ncclComm_t c = r->comm;
    if (!c || !r->stream || !bytes_of(r->dtype))
        return INVALID_ARGUMENT;
    Group *g = c->group;
    VirtualDevice *d = g->device[c->member];
    if (r->root < 0 || r->root >= g->members || (r->function == SEND && r->root == c->member))
        return INVALID_ARGUMENT;
    size_t reads, writes;
    measure(r, &reads, &writes);
    if (r->stream->device != d || !is_own(d, (uintptr_t)r->send, reads) || !is_own(d, (uintptr_t)r->receive, writes))
        return INVALID_ARGUMENT;
    if (d->failed)
        return ncclUnhandledCudaError;
    if (g->lost)
        return REMOTE_ERROR;
    Work w = {.kind = OP_COLLECTIVE,
              .device = d,
              .what = r->function == SEND && !r->send ? "ncclRecv" : FUNCTION[r->function],
              .part = {.from = (uintptr_t)r->send, .to = (uintptr_t)r->receive, .bytes = bytes_of_request(r)}};
    Label *label = r->label ? r->label : r->stream->label;
    if (!is_in_place(r, w.part.bytes, reads, writes)) {
        vgpu_violation(d, CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "%s of member %d: the operands of %s overlap, but are not in place",
                       label && label->name ? label->name : w.what, c->member, w.what);
        return INVALID_USAGE;
    }
    if (r->stream->capture)
        return capture(r, w, hangs, trouble);
    c->trouble = trouble ? trouble : c->trouble;
    w.part.gathering = take_part(r, 0, hangs, group, label, &w.part.member);
    if (!w.part.gathering)
        return INVALID_USAGE;
    w.label = vgpu_share_label(label);
    vgpu_issue(r->stream, w, NULL, 0);
    return ncclSuccess;
}

/* ---- groups, of the calling thread */
enum { MOST_IN_A_GROUP = 1024 };
typedef struct Init {
    ncclComm_t *comm;
    int members, rank;
    ncclUniqueId id;
    VirtualDevice *device;
} Init;
static _Thread_local struct {
    int depth, count, init_count;
    Request request[MOST_IN_A_GROUP];
    Init init[VGPU_DEVICES];
} group;
static ncclResult_t init_ranks(const Init *, int count);

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
    if (r && !hangs)
        return leave(r);
    return leave(issue(request, hangs, r <= VGPU_LATER ? VGPU_LATER - r : ncclSuccess, 0));
}

static ncclResult_t end_group(void)
{
    ncclResult_t r = ncclSuccess;
    if (group.depth == 0)
        return INVALID_USAGE;
    if (--group.depth > 0)
        return ncclSuccess;
    if (group.init_count) {
        int count = group.init_count;
        group.init_count = 0;
        return init_ranks(group.init, count);
    }
    static uint64_t number; /* of groups */
    number++;
    for (int i = 0; i < group.count && !r; i++)
        r = issue(&group.request[i], false, ncclSuccess, number);
    for (int i = 0; i < group.count; i++)
        vgpu_drop_label(group.request[i].label);
    group.count = 0;
    return r;
}

/* ---- what the library exports */

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    return op == ncclSum ? ask("ncclAllReduce", &(Request){ALL_REDUCE, send, receive, count, dtype, 0, comm, stream, NULL})
                         : INVALID_ARGUMENT;
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    return op == ncclSum
               ? ask("ncclReduceScatter", &(Request){REDUCE_SCATTER, send, receive, count, dtype, 0, comm, stream, NULL})
               : INVALID_ARGUMENT;
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, int dtype, int op, int root, ncclComm_t comm,
                        CUstream stream)
{
    return op == ncclSum ? ask("ncclReduce", &(Request){REDUCE, send, receive, count, dtype, root, comm, stream, NULL})
                         : INVALID_ARGUMENT;
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
    if (r == SYSTEM_ERROR) /* as a container with too little of it makes NCCL say */
        snprintf(last_error, sizeof last_error,
                 "Error while creating shared memory segment /dev/shm/nccl-virtual (size 9637888)\n");
    return leave(r ? r : end_group());
}

/* two members on one GPU: newer versions, if they are told to */
static bool takes_shared(void)
{
    const char *enabled = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return vgpu_machine.nccl >= MULTI_RANK_VERSION && enabled && strcmp(enabled, "1") == 0;
}

/* as NCCL says it without NVIDIA's Fabric Manager */
static bool switches_fail(void)
{
    if (switches() != SWITCHES_FAIL)
        return false;
    snprintf(
        last_error, sizeof last_error,
        "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 802 'system not yet initialized'\n");
    return true;
}

/* "Using MIG instances" */
static bool takes(const VirtualDevice *d)
{
    const char *value = getenv("NCCL_MNNVL_ENABLE");
    if (d->slice && (vgpu_machine.nccl < 23100 || vgpu_machine.version < 13000))
        snprintf(last_error, sizeof last_error, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device %.20s\n", d->bus);
    return !d->slice || (vgpu_machine.nccl >= 23100 && vgpu_machine.version >= 13000 && value && strcmp(value, "0") == 0);
}

static ncclResult_t init_all(ncclComm_t *comms, int count, const int *devices)
{
    if (count < 1 || count > VGPU_DEVICES)
        return INVALID_ARGUMENT;
    if (switches_fail())
        return ncclUnhandledCudaError;
    Group *g = calloc(1, sizeof *g);
    g->members = g->left = g->own = count;
    for (int m = 0; m < count; m++) {
        int ordinal = devices ? devices[m] : m;
        if (ordinal < 0 || ordinal >= vgpu_machine.visible_count)
            return INVALID_ARGUMENT;
        g->device[m] = &vgpu_machine.device[vgpu_machine.visible[ordinal]];
        if (!takes(g->device[m]))
            return INVALID_USAGE;
        for (int other = 0; other < m; other++)
            if (g->device[other] == g->device[m] && !takes_shared())
                return INVALID_USAGE;
        g->slot[m] = m;
        comms[m] = calloc(1, sizeof *comms[m]);
        *comms[m] = (struct ncclComm){.group = g, .member = m};
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    ncclResult_t r = enter_unsafe("ncclCommInitAll");
    return leave(r ? r : init_all(comms, count, devices));
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    ncclResult_t r = enter("ncclGetUniqueId");
    return leave(r ? r : !id ? INVALID_ARGUMENT : vgpu_link_id(id->internal) ? ncclSuccess : SYSTEM_ERROR);
}

/* whether what processes say of their members goes together */
static bool is_whole(const Group *g, int rank)
{
    int count = 0;
    const Head *first = NULL;
    for (const Part *p = g->hellos; p; p = p->next)
        if (p->head.kind == HELLO && p->head.rank == rank) {
            first = first ? first : &p->head;
            count++;
        }
    for (const Part *p = g->hellos; p && first; p = p->next)
        if (p->head.kind == HELLO && p->head.rank != rank && memcmp(p->head.uuid, first->uuid, sizeof first->uuid) == 0 &&
            !takes_shared())
            return false;
    return count == 1 && first->members == g->members;
}

static int count_hellos(const Group *g)
{
    int count = 0;
    for (const Part *p = g->hellos; p; p = p->next)
        count += p->head.kind == HELLO;
    return count;
}

static void say_hello(Group *g, const Init *i)
{
    Head hello = {.kind = HELLO, .process = getpid(), .rank = i->rank, .members = i->members};
    memcpy(hello.uuid, i->device->uuid.bytes, sizeof hello.uuid);
    vgpu_link_send(g->link, &hello, sizeof hello, NULL, 0, LINK_KEEP);
    Part *own = calloc(1, sizeof *own);
    own->head = hello;
    own->next = g->hellos;
    g->hellos = own;
}

/* of one thread, all of this process: waits for the other ranks */
static ncclResult_t init_ranks(const Init *init, int count)
{
    Group *g = calloc(1, sizeof *g);
    g->members = init->members;
    g->left = count;
    for (int i = 0; i < count; i++)
        if (init[i].members != g->members || init[i].rank < 0 || init[i].rank >= g->members || g->device[init[i].rank])
            return INVALID_ARGUMENT;
        else
            g->device[init[i].rank] = init[i].device;
    for (int m = 0; m < g->members; m++)
        g->slot[m] = g->device[m] ? g->own++ : -1;
    g->link = vgpu_link_open(init->id.internal, arrived, lost, g);
    if (!g->link)
        return SYSTEM_ERROR;
    for (int i = 0; i < count; i++)
        say_hello(g, &init[i]);
    while (count_hellos(g) < g->members && !g->lost)
        pthread_cond_wait(&news, &vgpu_lock);
    if (g->lost)
        return REMOTE_ERROR;
    for (int m = 0; m < g->members; m++)
        if (!is_whole(g, m) || (g->device[m] && !takes(g->device[m])))
            return INVALID_USAGE;
    if (switches_fail())
        return ncclUnhandledCudaError;
    for (int i = 0; i < count; i++) {
        *init[i].comm = calloc(1, sizeof **init[i].comm);
        **init[i].comm = (struct ncclComm){.group = g, .member = init[i].rank};
    }
    return ncclSuccess;
}

static ncclResult_t init_rank(const Init *init)
{
    if (!init->comm || init->members < 1 || init->members > VGPU_DEVICES)
        return INVALID_ARGUMENT;
    if (!init->device)
        return ncclUnhandledCudaError;
    if (!group.depth)
        return init_ranks(init, 1);
    if (group.init_count == VGPU_DEVICES)
        return INVALID_USAGE;
    group.init[group.init_count++] = *init;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int count, ncclUniqueId id, int rank)
{
    ncclResult_t r = enter_unsafe("ncclCommInitRank");
    return leave(r ? r : init_rank(&(Init){comm, count, rank, id, vgpu_current() ? vgpu_current()->device : NULL}));
}

/* waits for the others, as whoever goes first may have what they still need */
static void leave_others(Group *g)
{
    int processes = 0;
    for (const Part *p = g->hellos; p; p = p->next) {
        bool again = p->head.kind != HELLO;
        for (const Part *q = p->next; q && !again; q = q->next)
            again = q->head.kind == HELLO && q->head.process == p->head.process;
        processes += !again;
    }
    vgpu_link_send(g->link, &(Head){.kind = BYE}, sizeof(Head), NULL, 0, LINK_LAST);
    while (g->byes < processes - 1 && !g->lost)
        pthread_cond_wait(&news, &vgpu_lock);
    pthread_mutex_unlock(&vgpu_lock);
    vgpu_link_close(g->link);
    pthread_mutex_lock(&vgpu_lock);
    free_parts(g->hellos);
    free_parts(g->parts);
}

static ncclResult_t destroy(ncclComm_t c)
{
    if (!c)
        return INVALID_ARGUMENT;
    if (c->kept > 0) { /* it would wait for their end */
        vgpu_violation(c->group->device[c->member], CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "the communicator of member %d ends before a graph that has its calls", c->member);
        return INVALID_USAGE;
    }
    if (c->memories > 0)
        vgpu_violation(c->group->device[c->member], CUDA_ERROR_LAUNCH_FAILED, "collective",
                       "the communicator of member %d ends with memory registered", c->member);
    if (--c->group->left == 0) {
        if (c->group->link)
            leave_others(c->group);
        free(c->group->sums);
        if (!c->group->aborted) /* else sums may be under way */
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
    if (!a || a->device != c->group->device[c->member] || at + bytes > a->base + a->bytes ||
        c->memories == (int)(sizeof c->memory / sizeof *c->memory))
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
    ncclResult_t r = enter_unsafe("ncclMemAlloc");
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
    ncclResult_t r = enter_unsafe("ncclMemFree");
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
    ncclResult_t r = enter_unsafe("ncclCommDestroy");
    return leave(r ? r : destroy(comm));
}

/* "will abort any uncompleted operations": those that wait for other processes */
static ncclResult_t stop(ncclComm_t c)
{
    Sum *begun = c ? c->group->begun : NULL;
    if (c) {
        c->group->aborted = true;
        c->group->begun = NULL;
    }
    for (Sum *next; begun; begun = next) {
        next = begun->next_begun;
        vgpu_gather_on(&begun->gathering);
    }
    return destroy(c);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t r = enter_unsafe("ncclCommAbort");
    return leave(r ? r : stop(comm));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t r = enter("ncclCommGetAsyncError");
    *error = comm && comm->group->device[comm->member]->failed ? ncclUnhandledCudaError
             : comm && comm->group->lost                       ? REMOTE_ERROR
             : comm                                            ? comm->trouble
                                                               : ncclSuccess;
    return leave(r ? r : comm ? ncclSuccess : INVALID_ARGUMENT);
}

ncclResult_t ncclGetVersion(int *version)
{
    ncclResult_t r = enter("ncclGetVersion");
    *version = vgpu_machine.nccl;
    return leave(r);
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const TEXTS[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result < (int)(sizeof TEXTS / sizeof *TEXTS) ? TEXTS[result] : "unknown result code";
}
