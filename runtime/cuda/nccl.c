/* nccl.c: transfers by NCCL. Each device has a communicator and a thread, and uses its stream comm. Each process creates the
 * communicators of its own devices; rank 0 creates the id by which they connect.
 *
 * Arenas are registered if the library can do that. What a collective transfers has the same offset in all arenas, so NCCL can
 * read and write it in place, without copying it to its own buffers. Few versions support two members on one GPU, so that is used
 * only with MGPU_COLLECTIVE=nccl. */
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/nccl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NCCL_FIELD(result, symbol, field, parameters) result(*field) parameters;
typedef struct Nccl {
    NCCL_FUNCTIONS(NCCL_FIELD)
    NCCL_LATER(NCCL_FIELD)
    ncclComm_t *comms; /* [member of this process] */
    void **registered; /* [member]: handle of its arena; NULL: none is registered */
    char *trial;       /* buffer for the error of a transfer that is tried; NULL: errors end the program */
    char version_text[64];
    int version;   /* 22005 for 2.20.5 */
    bool switches; /* NCCL may use NVLink's switches (NVLS) */
} Nccl;
#define NCCL_SYMBOL(result, symbol, field, parameters) {#symbol, offsetof(Nccl, field), false},
#define NCCL_OPTIONAL(result, symbol, field, parameters) {#symbol, offsetof(Nccl, field), true},
static const CudaSymbol SYMBOLS[] = {NCCL_FUNCTIONS(NCCL_SYMBOL) NCCL_LATER(NCCL_OPTIONAL)};

/* "Using NCCL with CUDA Graphs": since NCCL 2.9, with CUDA 11.3. NCCL_NVLS_ENABLE: "since 2.17", for compute capability 9.0. */
enum { OLDEST_CAPTURED = 20900, OLDEST_CAPTURING = 11030, OLDEST_SWITCHES = 21700, OLDEST_SWITCHED = 9 };
/* "Using MIG instances": since NCCL 2.31, with CUDA 13.0, experimental. */
enum { OLDEST_SLICES = 23100, OLDEST_SLICING = 13000 };
static const char SWITCHES[] = "NCCL_NVLS_ENABLE";

static int type_of(uint8_t dtype) /* -1: NCCL cannot add this type */
{
    switch (dtype) {
    case MGPU_I8: return ncclInt8;
    case MGPU_U8: return ncclUint8;
    case MGPU_I32: return ncclInt32;
    case MGPU_U32: return ncclUint32;
    case MGPU_I64: return ncclInt64;
    case MGPU_F16: return ncclFloat16;
    case MGPU_BF16: return ncclBfloat16;
    case MGPU_F32: return ncclFloat32;
    case MGPU_F64: return ncclFloat64;
    default: return -1;
    }
}

bool mgpu_nccl_adds(uint8_t dtype) { return type_of(dtype) >= 0; }

enum { TEXT_BYTES = 400 };

/* Returns a text like "unhandled system error (NCCL's message of its last error)". */
static const char *words_of(const Nccl *n, ncclResult_t r, char text[TEXT_BYTES])
{
    const char *last = n->get_last_error ? n->get_last_error(NULL) : NULL;
    bool more = last && *last;
    snprintf(text, TEXT_BYTES, "%s%s%.*s%s", n->get_error_string(r), more ? " (" : "", more ? (int)strcspn(last, "\n") : 0,
             more ? last : "", more ? ")" : "");
    return text;
}

static void check(const Nccl *n, const CudaDevice *d, int lane, ncclResult_t r, const char *call)
{
    char text[TEXT_BYTES + 60], words[TEXT_BYTES];
    size_t available, total;
    if (r == ncclSuccess)
        return;
    if (r == ncclUnhandledCudaError) /* if an earlier operation has failed, this reports the driver's error */
        mgpu_cuda_check(d, lane, d->cuda->mem_get_info(&available, &total), call);
    snprintf(text, sizeof text, "%s: %s", call, words_of(n, r, words));
    if (!n->trial)
        d->fail(d->owner, lane, text);
    if (!*n->trial)
        snprintf(n->trial, TEXT_BYTES, "%.*s", TEXT_BYTES - 1, text);
}

/* ---- memory. NCCL can register memory for NVLink's switches only if NCCL's allocator or a similar one allocated it, so arenas
 * are allocated by NCCL. */
static CudaLibrary library_of(const mgpu_program *p, const CudaSymbol *symbols, int count)
{
    return (CudaLibrary){"libnccl.so.2",  "the package libnccl2, or pip's nvidia-nccl-cu13",
                         symbols,         count,
                         .toolkit = true, .folders = p->library_folders};
}

void mgpu_nccl_find_memory(DeviceSet *m, const mgpu_program *p)
{
    static const CudaSymbol MEMORY[] = {{"ncclMemAlloc", offsetof(DeviceSet, nccl_allocate), true},
                                        {"ncclMemFree", offsetof(DeviceSet, nccl_free), true}};
    CudaLibrary library = library_of(p, MEMORY, MGPU_COUNT(MEMORY));
    free(mgpu_cuda_open(&library, m)); /* an error is reported when devices are connected */
}

CUdeviceptr mgpu_nccl_allocate(const CudaDevice *d, int64_t bytes)
{
    void *memory = NULL;
    bool has = d->machine->nccl_allocate && d->machine->nccl_free;
    return has && d->machine->nccl_allocate(&memory, (size_t)bytes) == ncclSuccess ? (CUdeviceptr)(uintptr_t)memory : 0;
}

static bool by_all(Processes *p, bool here)
{
    bool each[p ? p->count : 1], all = here;
    if (!p)
        return here;
    each[p->rank] = here;
    mgpu_gather_each(p, each, sizeof *each);
    for (int r = 0; r < p->count; r++)
        all = all && each[r];
    return all;
}

char *mgpu_nccl_of_any(Processes *p, char *why)
{
    typedef struct ErrorText {
        char text[400];
    } ErrorText;
    if (!p)
        return why;
    ErrorText *cards = mgpu_allocate((size_t)p->count, sizeof *cards);
    snprintf(cards[p->rank].text, sizeof cards->text, "%s", why ? why : "");
    mgpu_gather_each(p, cards, sizeof *cards);
    for (int r = 0; r < p->count && !why; r++)
        why = cards[r].text[0] ? mgpu_format("rank %d: %s", r, cards[r].text) : NULL;
    free(cards);
    return why;
}

/* Registers all arenas or none, since a mixture is undefined. A library without registration is used as it is. With
 * NCCL_LOCAL_REGISTER=0, registration succeeds without a handle, which some versions cannot deregister. */
static void register_arenas(const CudaCollective *c, Nccl *n)
{
    bool here = n->comm_register && n->comm_deregister;
    if (!by_all(c->processes, here) || !here)
        return;
    int end = c->local.first;
    n->registered = mgpu_allocate((size_t)c->members, sizeof *n->registered);
    for (; end < c->local.end; end++) {
        const CudaDevice *d = c->devices[end];
        mgpu_cuda_enter(d, -1);
        if (n->comm_register(n->comms[end], (void *)(uintptr_t)d->arena, (size_t)d->arena_bytes, &n->registered[end]) ||
            !n->registered[end])
            break;
    }
    if (by_all(c->processes, end == c->local.end))
        return;
    while (end-- > c->local.first)
        check(n, c->devices[end], -1, n->comm_deregister(n->comms[end], n->registered[end]), "ncclCommDeregister");
    free(n->registered);
    n->registered = NULL;
}

/* ---- communicators */
static ncclResult_t connect_part(const Nccl *n, const CudaCollective *c)
{
    int *gpus = mgpu_allocate((size_t)c->members, sizeof *gpus);
    for (int d = 0; d < c->members; d++)
        gpus[d] = c->devices[d]->gpu->device;
    ncclResult_t r = n->comm_init_all(n->comms, c->members, gpus);
    free(gpus);
    return r;
}

/* "Example 3: Multiple Devices per Thread": each process groups the calls for its own members. If rank 0 gets no id, all fail. */
static ncclResult_t connect_processes(const Nccl *n, const CudaCollective *c)
{
    Processes *p = c->processes;
    struct {
        ncclResult_t result;
        ncclUniqueId id;
    } check_call = {.result = ncclSuccess};
    if (p->rank == 0)
        check_call.result = n->get_unique_id(&check_call.id);
    int64_t at[p->count + 1]; /* rank 0 gives all bytes */
    for (int k = 0; k <= p->count; k++)
        at[k] = k ? (int64_t)sizeof check_call : 0;
    p->gather(p, &check_call, at);
    if (check_call.result != ncclSuccess)
        return check_call.result;
    ncclResult_t r = n->group_start();
    for (int d = c->local.first; d < c->local.end && r == ncclSuccess; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        r = n->comm_init_rank(&n->comms[d], c->members, check_call.id, d);
    }
    ncclResult_t end = n->group_end();
    return r != ncclSuccess ? r : end;
}

/* Ends the run if ranks have different versions of NCCL, which need not work together. Different drivers are a warning. */
static void compare_versions(Processes *p, const Nccl *n, int driver)
{
    int drivers[p->count];
    char *cure = mgpu_format("rank 0 has %s; install the same on all hosts", n->version_text);
    p->compare(p, "another version of NCCL", cure, (uint64_t)n->version);
    free(cure);
    drivers[p->rank] = driver;
    mgpu_gather_each(p, drivers, sizeof *drivers);
    for (int r = 1; r < p->count && p->rank == 0; r++)
        if (drivers[r] != drivers[0]) {
            mgpu_say("%s: warning: rank %d has a driver of CUDA %d.%d, rank 0 of %d.%d: install the same on all hosts",
                     program_invocation_short_name, r, drivers[r] / 1000, drivers[r] % 1000 / 10, drivers[0] / 1000,
                     drivers[0] % 1000 / 10);
            break;
        }
}

/* Returns a cure, chosen by words in NCCL's message. */
const char *mgpu_nccl_cure(const char *why)
{
    static const char ROOM[] = "it needs room in /dev/shm: docker run --shm-size=1g --ulimit memlock=-1";
    static const char SWITCHED[] = "NVLink's switches need NVIDIA's Fabric Manager: systemctl status nvidia-fabricmanager";
    static const struct {
        const char *words, *cure;
    } CURES[] = {
        {"shared memory", ROOM},
        {"/dev/shm", ROOM},
        {"multicast", SWITCHED},
        {"NVLS", SWITCHED},
        {"system not yet initialized", SWITCHED},
        {"memlock", "it locks memory: ulimit -l unlimited, docker run --ulimit memlock=-1"},
        {"is right", "numbers that arrive changed come of an IOMMU or of PCIe's access control (ACS) between GPUs: "
                     "NCCL_P2P_DISABLE=1 goes around them"},
    };
    for (int i = 0; i < MGPU_COUNT(CURES); i++)
        if (strcasestr(why, CURES[i].words))
            return CURES[i].cure;
    return "NCCL_DEBUG=WARN says more";
}

void mgpu_nccl_explain(const CudaCollective *c, const char *why)
{
    if (mgpu_rank(c->processes) == 0)
        mgpu_warn_of_this("%s; NCCL is tried again without NVLink's switches (NCCL_NVLS_ENABLE=0); %s", why, mgpu_nccl_cure(why));
}

/* All processes get the same answer. */
static bool may_use_switches(const CudaCollective *c, const Nccl *n)
{
    const char *value = getenv(SWITCHES);
    bool may = !c->no_switches && !c->machine->shared && n->version >= OLDEST_SWITCHES && !(value && strcmp(value, "0") == 0);
    for (int d = c->local.first; d < c->local.end; d++)
        may = may && c->devices[d]->gpu->major >= OLDEST_SWITCHED && !c->devices[d]->gpu->slice;
    return by_all(c->processes, may);
}

bool mgpu_nccl_has_switches(const CudaCollective *c) { return ((const Nccl *)c->nccl)->switches; }

/* NCCL reads the variable only once, so a second copy of the library has to be opened. */
static void forgo_switches(CudaLibrary *library)
{
    library->anew = true;
    setenv(SWITCHES, "0", 1);
}

/* Returns NULL, or why slices of GPUs cannot be used. */
static char *refuse_slices(const CudaCollective *c, const Nccl *n)
{
    if (!c->links.apart)
        return NULL;
    setenv("NCCL_MNNVL_ENABLE", "0", 0); /* "needs to be disabled when using NCCL with MIG" */
    return n->version >= OLDEST_SLICES && c->machine->version >= OLDEST_SLICING
               ? NULL
               : mgpu_format("%s joins no slices of GPUs (MIG); 2.31 does, with a driver of CUDA 13.0", n->version_text);
}

/* Returns NULL, or why NCCL cannot be used. *again: it may start without NVLink's switches. All processes agree on *again. */
static char *connect(CudaCollective *c, bool shared, bool *again)
{
    Nccl *n = mgpu_allocate(1, sizeof *n);
    const CudaDevice *first = c->devices[c->local.first];
    CudaLibrary library = library_of(first->program, SYMBOLS, MGPU_COUNT(SYMBOLS));
    first->stage(first->owner, c->no_switches ? "NCCL is being started without NVLink's switches" : "NCCL is being started");
    if (c->no_switches)
        forgo_switches(&library);
    char *why = mgpu_cuda_open(&library, n);
    *again = false;
    if (why) {
        free(n);
        return why;
    }
    n->comms = mgpu_allocate((size_t)c->members, sizeof *n->comms);
    check(n, first, -1, n->get_version(&n->version), "ncclGetVersion");
    snprintf(n->version_text, sizeof n->version_text, "NCCL %d.%d.%d%s", n->version / 10000, n->version / 100 % 100,
             n->version % 100, c->no_switches ? " without NVLink's switches" : "");
    if (c->processes)
        compare_versions(c->processes, n, c->machine->version);
    if ((why = refuse_slices(c, n))) {
        free(n->comms);
        free(n);
        return why;
    }
    if (shared)
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    *again = n->switches = may_use_switches(c, n);
    ncclResult_t r = (c->processes ? connect_processes : connect_part)(n, c);
    char words[TEXT_BYTES];
    if (r != ncclSuccess)
        why = mgpu_format("%s does not start%s: %s", n->version_text,
                          shared ? " with devices that share a GPU, which newer ones can do" : "", words_of(n, r, words));
    if (why && *again && c->processes)
        first->stage(first->owner, why); /* shown while this process waits for the others */
    if (*again)
        why = mgpu_nccl_of_any(c->processes, why);
    else if (why)
        why = mgpu_format("%s; %s", why, mgpu_nccl_cure(why));
    if (why) {
        free(n->comms);
        free(n);
        return why;
    }
    register_arenas(c, n);
    first->stage(first->owner, "all-reduces are being prepared");
    c->collective.trouble = mgpu_nccl_trouble;
    c->nccl = n;
    return NULL;
}

char *mgpu_nccl_open(CudaCollective *c, bool shared)
{
    bool again;
    char *why = connect(c, shared, &again);
    if (!why || !again)
        return why;
    mgpu_nccl_explain(c, why);
    free(why);
    c->no_switches = true;
    return connect(c, shared, &again);
}

const char *mgpu_nccl_name(const CudaCollective *c) { return ((const Nccl *)c->nccl)->version_text; }

bool mgpu_nccl_is_captured(const CudaCollective *c)
{
    return ((const Nccl *)c->nccl)->version >= OLDEST_CAPTURED && c->machine->version >= OLDEST_CAPTURING;
}

void mgpu_nccl_close(CudaCollective *c)
{
    Nccl *n = c->nccl;
    if (!n)
        return;
    for (int d = c->local.first; d < c->local.end; d++) {
        if (n->registered)
            check(n, c->devices[d], -1, n->comm_deregister(n->comms[d], n->registered[d]), "ncclCommDeregister");
        check(n, c->devices[d], -1, n->comm_destroy(n->comms[d]), "ncclCommDestroy");
    }
    free(n->registered);
    free(n->comms);
    free(n);
}

/* The communicators may still wait for each other, so they are leaked if the library cannot abort them. */
void mgpu_nccl_drop(CudaCollective *c)
{
    Nccl *n = c->nccl;
    for (int d = c->local.first; d < c->local.end && n->comm_abort; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        if (n->registered)
            n->comm_deregister(n->comms[d], n->registered[d]);
        n->comm_abort(n->comms[d]);
    }
    free(n->registered);
    free(n->comms);
    free(n);
    c->nccl = NULL;
    c->collective.trouble = NULL;
}

/* ---- transfers */
typedef struct NcclCall {
    Nccl *n;
    CudaDevice *device;
    int lane;
    ncclComm_t comm;
    CUstream stream;
    const Operand *o;
    int members, member, type;
    int64_t each;
} NcclCall;

static void *at(const NcclCall *c, int64_t element) { return (char *)c->o->data + element * mgpu_dtype_bytes(c->o->dtype); }
/* converts a count to elements of NCCL's type */
static size_t numbers(const NcclCall *c, int64_t count) { return (size_t)(count * c->each); }

static void check_call(const NcclCall *c, ncclResult_t r, const char *call) { check(c->n, c->device, c->lane, r, call); }

/* NCCL's reduce-scatter and all-gather take parts of equal size. For other parts, a group has one call for each nonempty part. */
static bool parts_are_equal(const NcclCall *c)
{
    const int64_t *parts = c->o->participants.parts;
    for (int d = 1; d < c->members; d++)
        if (parts[d + 1] - parts[d] != parts[1])
            return false;
    return true;
}

static void all_reduce(const NcclCall *c)
{
    const Operand *o = c->o;
    check_call(c, c->n->all_reduce(o->data, o->data, numbers(c, o->count), c->type, ncclSum, c->comm, c->stream),
               "ncclAllReduce");
}

static void reduce_scatter(const NcclCall *c)
{
    const int64_t *parts = c->o->participants.parts;
    if (parts_are_equal(c)) {
        check_call(
            c,
            c->n->reduce_scatter(c->o->data, at(c, parts[c->member]), numbers(c, parts[1]), c->type, ncclSum, c->comm, c->stream),
            "ncclReduceScatter");
        return;
    }
    check_call(c, c->n->group_start(), "ncclGroupStart");
    for (int d = 0; d < c->members; d++)
        if (parts[d + 1] > parts[d])
            check_call(c,
                       c->n->reduce(at(c, parts[d]), at(c, parts[d]), numbers(c, parts[d + 1] - parts[d]), c->type, ncclSum, d,
                                    c->comm, c->stream),
                       "ncclReduce");
    check_call(c, c->n->group_end(), "ncclGroupEnd");
}

static void all_gather(const NcclCall *c)
{
    const int64_t *parts = c->o->participants.parts;
    if (parts_are_equal(c)) {
        check_call(c, c->n->all_gather(at(c, parts[c->member]), c->o->data, numbers(c, parts[1]), c->type, c->comm, c->stream),
                   "ncclAllGather");
        return;
    }
    check_call(c, c->n->group_start(), "ncclGroupStart");
    for (int d = 0; d < c->members; d++)
        if (parts[d + 1] > parts[d])
            check_call(c,
                       c->n->broadcast(at(c, parts[d]), at(c, parts[d]), numbers(c, parts[d + 1] - parts[d]), c->type, d, c->comm,
                                       c->stream),
                       "ncclBroadcast");
    check_call(c, c->n->group_end(), "ncclGroupEnd");
}

static void broadcast(const NcclCall *c)
{
    const Operand *o = c->o;
    check_call(c, c->n->broadcast(o->data, o->data, numbers(c, o->count), c->type, o->participants.from, c->comm, c->stream),
               "ncclBroadcast");
}

static void send(const NcclCall *c)
{
    const Operand *o = c->o;
    if (c->member == o->participants.from)
        check_call(c, c->n->send(o->data, numbers(c, o->count), c->type, o->participants.to, c->comm, c->stream), "ncclSend");
    if (c->member == o->participants.to)
        check_call(c, c->n->receive(o->data, numbers(c, o->count), c->type, o->participants.from, c->comm, c->stream),
                   "ncclRecv");
}

/* Issues a transfer. Types that NCCL lacks are transferred as bytes, but cannot be added. lane: of the operation, or -1. */
static void make(CudaCollective *c, int member, int lane, const Operand *o)
{
    static void (*const MAKE[MGPU_TRANSFERS])(const NcclCall *) = {
        [MGPU_TRANSFER_REDUCE] = all_reduce,
        [MGPU_TRANSFER_REDUCE_SCATTER] = reduce_scatter,
        [MGPU_TRANSFER_ALL_GATHER] = all_gather,
        [MGPU_TRANSFER_BROADCAST_FROM] = broadcast,
        [MGPU_TRANSFER_SEND] = send,
    };
    CudaDevice *d = c->devices[member];
    int type = type_of(o->dtype);
    Nccl *n = c->nccl;
    NcclCall call = {n,
                     d,
                     lane,
                     n->comms[member],
                     d->stream[MGPU_COMM],
                     o,
                     c->members,
                     member,
                     type < 0 ? ncclUint8 : type,
                     type < 0 ? mgpu_dtype_bytes(o->dtype) : 1};
    if (o->count > 0)
        MAKE[o->participants.transfer](&call);
}

bool mgpu_nccl_exchange(CudaCollective *c, int member, const Operand *o)
{
    mgpu_cuda_enter(c->devices[member], MGPU_COMM);
    mgpu_cuda_declare_ranges(c, member, o);
    make(c, member, MGPU_COMM, o);
    return true;
}

/* One thread issues the calls of all devices, so they are a group ("Management Of Multiple GPUs From One Thread"). */
char *mgpu_nccl_try(CudaCollective *c, const Operand *operands)
{
    Nccl *n = c->nccl;
    char failed[TEXT_BYTES] = "", text[400];
    n->trial = failed;
    check(n, c->devices[c->local.first], -1, n->group_start(), "ncclGroupStart");
    for (int d = c->local.first; d < c->local.end && !*failed; d++) {
        mgpu_cuda_enter(c->devices[d], -1);
        mgpu_cuda_declare(c->devices[d], MGPU_COMM, "a transfer that is tried", NULL, -1);
        make(c, d, -1, &operands[d]);
    }
    if (!*failed)
        check(n, c->devices[c->local.first], -1, n->group_end(), "ncclGroupEnd");
    for (int d = c->local.first; d < c->local.end && !*failed; d++)
        if (mgpu_nccl_trouble(&c->collective, d, text))
            snprintf(failed, TEXT_BYTES, "%s", text);
    n->trial = NULL;
    return *failed ? mgpu_format("%s", failed) : NULL;
}

/* Returns true and the text of an asynchronous error of NCCL. If a GPU has failed, the threads that wait for it get the driver's
 * error, so this returns false. */
bool mgpu_nccl_trouble(Collective *base, int member, char text[400])
{
    const CudaCollective *c = (const CudaCollective *)base;
    const Nccl *n = c->nccl;
    const CudaDevice *d = c->devices[member];
    ncclResult_t error = ncclSuccess;
    size_t available, total;
    bool current = d->cuda->ctx_set_current(d->context) == CUDA_SUCCESS;
    ncclResult_t r = n->comm_get_async_error(n->comms[member], &error);
    r = r == ncclSuccess ? error : r;
    if (r == ncclSuccess || r == ncclInProgress)
        return false;
    if (r == ncclUnhandledCudaError && (!current || d->cuda->mem_get_info(&available, &total) != CUDA_SUCCESS))
        return false;
    snprintf(text, 400, "ncclCommGetAsyncError: %s", n->get_error_string(r));
    return true;
}
