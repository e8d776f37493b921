/* fake_cuda.c: a libcuda.so.1 of nothing but streams, and a libnccl.so.2 and libnvidia-ml.so.1 for it: for tests of the runtime
 * without a GPU.
 *
 * A stream is a thread that executes its commands in their order, after pauses of random length. Events, graphs and captures
 * behave as the driver API says; kernels are functions of the test (fake_cuda.h). Every stream and every event has a lock of
 * its own, so a sanitizer for threads sees two commands ordered only if a stream or an event orders them.
 *
 * FAKE_CUDA is a list of NAME=VALUE: gpus=N, memory=BYTES of each, seed=N, pause=MICROSECONDS at most, fail=FUNCTION:N (the
 * N-th call fails), bad_kernel=NAME:N (its N-th run fails, and all that follows), bad_link=A-B (copies from A arrive at B
 * changed), no_peers=1, capability=XY, divided=N (nvidia-smi's GPU N is in parts), nccl=0. */
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nccl.h"
#include "runtime/cuda/nvml.h"
#include "tests/unit/fake_cuda/fake_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DECLARE(symbol, field, parameters) CUresult symbol parameters;
CUDA_FUNCTIONS(DECLARE)
#define DECLARE_TOO(result, symbol, field, parameters) result symbol parameters;
NVML_FUNCTIONS(DECLARE_TOO)
NCCL_FUNCTIONS(DECLARE_TOO)

enum { GPUS = 8, PARAMETER_BYTES = 2048, MOST_SHARED = 200 << 10 };
enum { STREAM_CAPTURE_UNSUPPORTED = 900 };

struct CUctx_st {
    _Atomic int device;
};
struct CUmod_st {
    const FakeImage *image;
};
struct CUfunc_st {
    FakeKernel kernel;
    int runs;
};
struct CUevent_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t recorded, reached; /* recorded: by who issues; reached: by streams */
    double seconds;
    unsigned flags;
};
typedef enum Verb { COPY, SET, RUN, CALL, RECORD, WAIT, SUM, STOP } Verb;
typedef struct Command Command;
struct Command {
    Verb verb;
    void *to;
    const void *from;
    size_t bytes;
    unsigned value;
    bool changed; /* COPY over a bad link */
    CUevent event;
    int64_t generation;
    CUfunction function;
    void (*call)(void *); /* CALL: of the host, with `to` */
    ncclComm_t comm;
    int dtype;
    unsigned blocks;
    unsigned char parameters[PARAMETER_BYTES];
    Command *next;
};
struct CUgraph_st {
    Command *first, *last;
};
struct CUgraphExec_st {
    Command *first;
};
struct CUstream_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Command *first, *last;
    bool busy;
    CUgraph capture;
    uint64_t random;
    pthread_t thread;
    int device;
};

static struct CUctx_st contexts[GPUS];
static _Thread_local CUcontext current;
static _Atomic int broken; /* the error that all calls return from now on */
static _Atomic int streams;
static _Atomic int64_t used[GPUS];

/* ---- settings */
static const char *setting(const char *name)
{
    const char *at = getenv("FAKE_CUDA");
    size_t length = strlen(name);
    while (at && *at) {
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

static int64_t number(const char *name, int64_t otherwise)
{
    const char *text = setting(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* NAME:N, the N-th of them */
static bool is_turn(const char *name, const char *what, _Atomic int *count)
{
    const char *text = setting(name);
    size_t length = strlen(what);
    if (!text || strncmp(text, what, length) != 0 || text[length] != ':')
        return false;
    return atomic_fetch_add(count, 1) + 1 == atoi(text + length + 1);
}

static CUresult enter(const char *function)
{
    static _Atomic int calls;
    if (atomic_load(&broken))
        return atomic_load(&broken);
    return is_turn("fail", function, &calls) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}
#define ENTER()                                                                                                                  \
    CUresult entered = enter(__func__);                                                                                          \
    if (entered != CUDA_SUCCESS)                                                                                                 \
    return entered

/* ---- streams */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_randomly(CUstream s)
{
    int64_t most = number("pause", 0);
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    if (most > 0 && (s->random >> 60) < 6)
        usleep((useconds_t)((s->random >> 33) % (uint64_t)most));
}

static void run_kernel(Command *c)
{
    static _Atomic int runs;
    if (is_turn("bad_kernel", c->function->kernel.name, &runs)) {
        atomic_store(&broken, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    void *parameters[FAKE_PARAMETERS];
    size_t at = 0;
    for (int i = 0; i < FAKE_PARAMETERS && c->function->kernel.bytes[i]; i++) {
        parameters[i] = c->parameters + at;
        at += (size_t)(c->function->kernel.bytes[i] + 7) / 8 * 8;
    }
    c->function->kernel.call(parameters, c->blocks);
}

/* all members' streams meet; the last one adds for all */
typedef struct Group {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int members, arrived;
    int64_t sums;
    void *data[GPUS];
} Group;
struct ncclComm {
    Group *group;
    int member;
};

static void sum_all(const Group *g, size_t count, int dtype)
{
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int m = 0; m < g->members; m++)
            sum += dtype == ncclFloat64 ? ((double *)g->data[m])[i] : (double)((float *)g->data[m])[i];
        for (int m = 0; m < g->members; m++)
            if (dtype == ncclFloat64)
                ((double *)g->data[m])[i] = sum;
            else
                ((float *)g->data[m])[i] = (float)sum;
    }
}

static void meet_and_sum(const Command *c)
{
    Group *g = c->comm->group;
    pthread_mutex_lock(&g->lock);
    g->data[c->comm->member] = c->to;
    int64_t sum = g->sums;
    if (++g->arrived == g->members) {
        sum_all(g, c->bytes, c->dtype);
        g->arrived = 0;
        g->sums++;
        pthread_cond_broadcast(&g->changed);
    }
    while (g->sums == sum)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void execute(Command *c)
{
    if (atomic_load(&broken) && c->verb != RECORD && c->verb != WAIT)
        return;
    switch (c->verb) {
    case COPY:
        memmove(c->to, c->from, c->bytes);
        if (c->changed && c->bytes)
            ((unsigned char *)c->to)[c->bytes / 2] ^= 4;
        break;
    case SET:
        for (size_t i = 0; i < c->bytes; i++)
            ((unsigned char *)c->to)[i] = (unsigned char)(c->value >> i % 4 * 8);
        break;
    case RUN: run_kernel(c); break;
    case CALL: c->call(c->to); break;
    case RECORD:
        pthread_mutex_lock(&c->event->lock);
        if (c->generation > c->event->reached)
            c->event->reached = c->generation;
        c->event->seconds = seconds();
        pthread_cond_broadcast(&c->event->changed);
        pthread_mutex_unlock(&c->event->lock);
        break;
    case WAIT:
        pthread_mutex_lock(&c->event->lock);
        while (c->event->reached < c->generation)
            pthread_cond_wait(&c->event->changed, &c->event->lock);
        pthread_mutex_unlock(&c->event->lock);
        break;
    case SUM: meet_and_sum(c); break;
    case STOP: break;
    }
}

static void *serve(void *argument)
{
    CUstream s = argument;
    for (bool stop = false; !stop;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first)
            pthread_cond_wait(&s->changed, &s->lock);
        Command *c = s->first;
        s->first = c->next;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        pause_randomly(s);
        execute(c);
        stop = c->verb == STOP;
        free(c);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static void enqueue(CUstream s, Command *c)
{
    c->next = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->first)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static CUresult issue(CUstream s, const Command *given)
{
    Command *c = malloc(sizeof *c);
    *c = *given;
    c->next = NULL;
    if (!s->capture) {
        enqueue(s, c);
        return CUDA_SUCCESS;
    }
    if (s->capture->first)
        s->capture->last->next = c;
    else
        s->capture->first = c;
    s->capture->last = c;
    return CUDA_SUCCESS;
}

static CUresult drain(CUstream s)
{
    pthread_mutex_lock(&s->lock);
    while (s->first || s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return atomic_load(&broken);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    ENTER();
    (void)flags, (void)priority;
    CUstream s = calloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->random = (uint64_t)number("seed", 1) * 1000 + (uint64_t)atomic_fetch_add(&streams, 1);
    s->device = current->device;
    *stream = s;
    return pthread_create(&s->thread, NULL, serve, s) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream s)
{
    ENTER();
    Command *stop = calloc(1, sizeof *stop);
    stop->verb = STOP;
    enqueue(s, stop);
    pthread_join(s->thread, NULL);
    free(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream s)
{
    ENTER();
    return s->capture ? STREAM_CAPTURE_UNSUPPORTED : drain(s);
}

/* ---- events */
CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER();
    CUevent e = calloc(1, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->flags = flags;
    *event = e;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent e)
{
    ENTER();
    free(e);
    return CUDA_SUCCESS;
}

static int64_t next_generation(CUevent e)
{
    pthread_mutex_lock(&e->lock);
    int64_t generation = ++e->recorded;
    pthread_mutex_unlock(&e->lock);
    return generation;
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags)
{
    ENTER();
    if ((s->capture != NULL) != (flags == CU_EVENT_RECORD_EXTERNAL))
        return STREAM_CAPTURE_UNSUPPORTED;
    return issue(s, &(Command){.verb = RECORD, .event = e, .generation = s->capture ? 0 : next_generation(e)});
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    ENTER();
    return cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    ENTER();
    if (s->capture || flags)
        return STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&e->lock);
    int64_t generation = e->recorded;
    pthread_mutex_unlock(&e->lock);
    return issue(s, &(Command){.verb = WAIT, .event = e, .generation = generation});
}

CUresult cuEventSynchronize(CUevent e)
{
    ENTER();
    pthread_mutex_lock(&e->lock);
    int64_t generation = e->recorded;
    while (e->reached < generation)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return atomic_load(&broken);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    ENTER();
    if ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)(1e3 * (end->seconds - begin->seconds));
    return CUDA_SUCCESS;
}

/* ---- graphs */
CUresult cuStreamBeginCapture_v2(CUstream s, int mode)
{
    ENTER();
    (void)mode;
    s->capture = calloc(1, sizeof *s->capture);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
    ENTER();
    *graph = s->capture;
    s->capture = NULL;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    ENTER();
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    (*exec)->first = graph->first;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER();
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream s)
{
    ENTER();
    (void)exec, (void)s;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream s)
{
    ENTER();
    for (const Command *c = exec->first; c; c = c->next) {
        Command now = *c;
        if (now.verb == RECORD)
            now.generation = next_generation(now.event);
        issue(s, &now);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER();
    for (Command *c = exec->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(exec);
    return CUDA_SUCCESS;
}

/* ---- modules and kernels */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count, int *options, void **values)
{
    ENTER();
    (void)option_count, (void)options, (void)values;
    const FakeImage *f = image;
    if (f->magic != FAKE_MAGIC)
        return CUDA_ERROR_INVALID_IMAGE;
    *module = calloc(1, sizeof **module);
    (*module)->image = f;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER();
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER();
    for (int i = 0; i < module->image->count; i++)
        if (strcmp(module->image->kernels[i].name, name) == 0) {
            *function = calloc(1, sizeof **function);
            (*function)->kernel = module->image->kernels[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    ENTER();
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    ENTER();
    (void)function, (void)attribute;
    return value > MOST_SHARED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    ENTER();
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 || block_z != 1 || extra ||
        shared_bytes > MOST_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    Command c = {.verb = RUN, .function = function, .blocks = grid_x};
    size_t at = 0;
    for (int i = 0; i < FAKE_PARAMETERS && function->kernel.bytes[i]; i++) {
        memcpy(c.parameters + at, parameters[i], (size_t)function->kernel.bytes[i]);
        at += (size_t)(function->kernel.bytes[i] + 7) / 8 * 8;
    }
    return issue(stream, &c);
}

/* ---- memory: an allocation knows its device and size before it */
typedef struct Header {
    int64_t bytes;
    int device;
    char fill[64 - 12];
} Header;

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    ENTER();
    if (atomic_fetch_add(&used[current->device], (int64_t)bytes) + (int64_t)bytes > number("memory", 1 << 30)) {
        atomic_fetch_sub(&used[current->device], (int64_t)bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Header *h = aligned_alloc(64, (sizeof *h + bytes + 63) / 64 * 64);
    *h = (Header){(int64_t)bytes, current->device, {0}};
    memset(h + 1, 0xa5, bytes);
    *memory = (CUdeviceptr)(uintptr_t)(h + 1);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
    ENTER();
    Header *h = (Header *)(uintptr_t)memory - 1;
    atomic_fetch_sub(&used[h->device], h->bytes);
    free(h);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    ENTER();
    *total_bytes = (size_t)number("memory", 1 << 30);
    *free_bytes = *total_bytes - (size_t)atomic_load(&used[current->device]);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER();
    (void)flags;
    *memory = malloc(bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory)
{
    ENTER();
    free(memory);
    return CUDA_SUCCESS;
}

static void *pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER();
    return issue(stream, &(Command){.verb = COPY, .to = pointer(to), .from = from, .bytes = bytes});
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    return issue(stream, &(Command){.verb = COPY, .to = to, .from = pointer(from), .bytes = bytes});
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    return issue(stream, &(Command){.verb = COPY, .to = pointer(to), .from = pointer(from), .bytes = bytes});
}

static bool is_bad_link(int from, int to)
{
    const char *text = setting("bad_link");
    return text && atoi(text) == from && strchr(text, '-') && atoi(strchr(text, '-') + 1) == to;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    ENTER();
    return issue(stream, &(Command){.verb = COPY,
                                    .to = pointer(to),
                                    .from = pointer(from),
                                    .bytes = bytes,
                                    .changed = is_bad_link(from_context->device, to_context->device)});
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *context)
{
    ENTER();
    return issue(stream, &(Command){.verb = CALL, .call = function, .to = context});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    ENTER();
    return issue(stream, &(Command){.verb = SET, .to = pointer(to), .bytes = count, .value = value * 0x01010101u});
}

/* ---- devices: the one with the highest place on the bus is the driver's first */
CUresult cuInit(unsigned flags)
{
    ENTER();
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER();
    *version = 12040;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER();
    *count = (int)number("gpus", 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER();
    *device = ordinal;
    return ordinal < number("gpus", 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device)
{
    ENTER();
    snprintf(name, (size_t)room, "Fake GPU %c", 'A' + device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER();
    memset(uuid, 0x10 + device, sizeof *uuid);
    uuid->bytes[15] = 7;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int room, CUdevice device)
{
    ENTER();
    snprintf(text, (size_t)room, "0000:%02X:00.0", 0xf0 - device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER();
    (void)device;
    int capability = (int)number("capability", 90);
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? capability / 10
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR          ? capability % 10
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? MOST_SHARED
                                                                                  : 8;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER();
    (void)device;
    *bytes = (size_t)number("memory", 1 << 30);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER();
    contexts[device].device = device;
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER();
    (void)device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER();
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER();
    *can = device != peer && !number("no_peers", 0);
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    (void)peer;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    ENTER();
    (void)flags;
    return peer == current ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS                 ? "CUDA_SUCCESS"
            : error == CUDA_ERROR_OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == CUDA_ERROR_LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
                                                  : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY     ? "out of memory"
            : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                                  : "as the fake was told";
    return CUDA_SUCCESS;
}

/* ---- NCCL */
ncclResult_t ncclGetVersion(int *version)
{
    if (enter(__func__) != CUDA_SUCCESS)
        return 1;
    *version = 22003;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "unhandled cuda error"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    (void)id;
    return 1; /* one process */
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int count, ncclUniqueId id, int rank)
{
    (void)comm, (void)count, (void)id, (void)rank;
    return 1;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    if (!number("nccl", 1) || enter(__func__) != CUDA_SUCCESS)
        return 1;
    Group *g = calloc(1, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->members = count;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i; k++)
            if (devices[i] == devices[k])
                return 5;
        comms[i] = calloc(1, sizeof **comms);
        *comms[i] = (struct ncclComm){g, i};
    }
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (enter(__func__) != CUDA_SUCCESS)
        return 1;
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = broken ? ncclUnhandledCudaError : ncclSuccess;
    return ncclSuccess;
}

/* what no test asks this library for: tests/vgpu/nccl.c has it */
enum { INVALID_USAGE = 5 };
ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)receive, (void)count, (void)dtype, (void)op, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, int dtype, int op, int root, ncclComm_t comm,
                        CUstream stream)
{
    (void)send, (void)receive, (void)count, (void)dtype, (void)op, (void)root, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, int dtype, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)receive, (void)count, (void)dtype, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, int dtype, int root, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)receive, (void)count, (void)dtype, (void)root, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclSend(const void *send, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)count, (void)dtype, (void)peer, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclRecv(void *receive, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)
{
    (void)receive, (void)count, (void)dtype, (void)peer, (void)comm, (void)stream;
    return INVALID_USAGE;
}

ncclResult_t ncclGroupStart(void) { return ncclSuccess; } /* sums are begun by streams, which wait for each other */
ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream)
{
    if (enter(__func__) != CUDA_SUCCESS || send != receive || op != ncclSum || (dtype != ncclFloat64 && dtype != ncclFloat32))
        return 1;
    issue(stream, &(Command){.verb = SUM, .to = receive, .bytes = count, .comm = comm, .dtype = dtype});
    return ncclSuccess;
}

/* ---- NVML: by place on the bus */
struct nvmlDevice_st {
    CUdevice device;
};
static struct nvmlDevice_st nvml_devices[GPUS];

nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }

nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t result) { return result == NVML_SUCCESS ? "Success" : "Unknown Error"; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)number("gpus", 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    nvml_devices[index].device = (int)number("gpus", 1) - 1 - (int)index;
    *device = &nvml_devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned room)
{
    return cuDeviceGetName(name, (int)room, device->device);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned room)
{
    snprintf(uuid, room, "GPU-%d", device->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", 0xf0u - (unsigned)device->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    (void)device;
    *memory = (nvmlMemory_t){(unsigned long long)number("memory", 1 << 30), 0, 0};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    (void)device;
    *major = (int)number("capability", 90) / 10;
    *minor = (int)number("capability", 90) % 10;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current_mode, unsigned *pending)
{
    *current_mode = *pending = device - nvml_devices == number("divided", -1);
    return NVML_SUCCESS;
}
