/* vgpu_streams_test: what the virtual GPU (docs/vgpu.md) says of streams, events, graphs, copies and all-reduces: for each
 * thing that it checks a program that is right and one with the planted bug, in a process of its own, with several seeds: a bug
 * is found whatever order is drawn. And the failures that a machine file asks for. */
#include <pthread.h>

#include "runtime/cuda/nccl.h"
#include "runtime/cuda/nvml.h"
#include "vgpu_machine.h"

/* ---- order of operations */

static void declared_twice(int s, const char *operation, CUdeviceptr from, CUdeviceptr to)
{
    int64_t n = 100;
    declare_two(s, operation, range_of(from, 0, n, 0, "d0.x"), range_of(to, 0, n, 1, "d0.x"));
    LAUNCH(0, s, "twice", 1, 32, 0, &from, &to, &n);
}

static void undeclared_twice(int s, const char *operation, CUdeviceptr from, CUdeviceptr to)
{
    int64_t n = 100;
    (void)operation;
    LAUNCH(0, s, "twice", 1, 32, 0, &from, &to, &n);
}

static void (*twice)(int s, const char *operation, CUdeviceptr from, CUdeviceptr to) = declared_twice;

static void wait_of(int s, int other, bool waits)
{
    CUevent e = new_event();
    MUST(cu->event_record(e, gpu[0].stream[other]));
    if (waits)
        MUST(cu->stream_wait_event(gpu[0].stream[s], e, 0));
}

static void read_after_write(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    twice(1, "c2", gpu[0].b, gpu[0].w);
}

static void write_after_read(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    twice(1, "c2", gpu[0].w, gpu[0].a);
}

static void write_after_write(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    twice(1, "c2", gpu[0].w, gpu[0].b);
}

/* the wait is for an event that was recorded too early */
static void early_record(int wrong)
{
    CUevent e = new_event();
    if (wrong)
        MUST(cu->event_record(e, gpu[0].stream[0]));
    twice(0, "c1", gpu[0].a, gpu[0].b);
    if (!wrong)
        MUST(cu->event_record(e, gpu[0].stream[0]));
    MUST(cu->stream_wait_event(gpu[0].stream[1], e, 0));
    twice(1, "c2", gpu[0].b, gpu[0].w);
}

static void through_host(int wrong)
{
    CUevent e = new_event();
    twice(0, "c1", gpu[0].a, gpu[0].b);
    MUST(cu->event_record(e, gpu[0].stream[0]));
    if (!wrong)
        MUST(cu->event_synchronize(e));
    twice(1, "c2", gpu[0].b, gpu[0].w);
}

/* one thread waits, another issues what needs that, and has been told or not */
static CUevent awaited;
static int64_t counter;

static void *wait_in_thread(void *unused)
{
    use(0);
    MUST(cu->event_synchronize(awaited));
    cu->publish(&counter, 1);
    return unused;
}

static void through_threads(int wrong)
{
    pthread_t thread;
    awaited = new_event();
    cu->publish(&counter, 0);
    twice(0, "c1", gpu[0].a, gpu[0].b);
    MUST(cu->event_record(awaited, gpu[0].stream[0]));
    pthread_create(&thread, NULL, wait_in_thread, NULL);
    pthread_join(thread, NULL);
    cu->waited_for(&counter, wrong ? 0 : 1);
    twice(1, "c2", gpu[0].b, gpu[0].w);
}

static void upload_too_early(int wrong)
{
    float *staging = new_locked(100);
    memset(staging, 0, 400);
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    declare(gpu[0].stream[1], NULL, NULL, -1);
    MUST(cu->memcpy_htod_async(gpu[0].a, staging, 400, gpu[0].stream[1]));
}

static void peer_copy(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    CUevent e = new_event();
    MUST(cu->event_record(e, gpu[0].stream[0]));
    use(1);
    if (!wrong)
        MUST(cu->stream_wait_event(gpu[1].stream[2], e, 0));
    MUST(cu->memcpy_peer_async(gpu[1].b, gpu[1].context, gpu[0].b, gpu[0].context, 400, gpu[1].stream[2]));
}

static void fill_too_early(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    declare(gpu[0].stream[1], NULL, NULL, -1);
    MUST(cu->memset_d8_async(gpu[0].b, 0, 400, gpu[0].stream[1]));
}

static void copy_too_early(int wrong)
{
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    declare(gpu[0].stream[1], NULL, NULL, -1);
    MUST(cu->memcpy_dtod_async(gpu[0].w, gpu[0].b, 400, gpu[0].stream[1]));
}

static void add_one(void *number) { *(float *)number += 1; }

static void host_function_too_early(int wrong)
{
    float *at = new_locked(100);
    CudaRange ranges[] = {{(CUdeviceptr)(uintptr_t)at, (CUdeviceptr)(uintptr_t)(at + 1), 0, NULL},
                          {(CUdeviceptr)(uintptr_t)at, (CUdeviceptr)(uintptr_t)(at + 1), 1, NULL}};
    MUST(cu->memcpy_dtoh_async(at, gpu[0].a, 400, gpu[0].stream[0]));
    wait_of(1, 0, !wrong);
    declare(gpu[0].stream[1], "f1", ranges, 2);
    MUST(cu->launch_host_func(gpu[0].stream[1], add_one, at));
}

static void download_too_early(int wrong)
{
    float *to = new_locked(100);
    twice(0, "c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    declare(gpu[0].stream[1], NULL, NULL, -1);
    MUST(cu->memcpy_dtoh_async(to, gpu[0].b, 400, gpu[0].stream[1]));
}

/* what was downloaded goes up again in another stream */
static void through_locked_memory(int wrong)
{
    float *between = new_locked(100);
    MUST(cu->memcpy_dtoh_async(between, gpu[0].a, 400, gpu[0].stream[0]));
    wait_of(1, 0, !wrong);
    MUST(cu->memcpy_htod_async(gpu[0].b, between, 400, gpu[0].stream[1]));
}

/* a wait that comes after what needs it */
static void late_wait(int wrong)
{
    CUevent e = new_event();
    twice(0, "c1", gpu[0].a, gpu[0].b);
    MUST(cu->event_record(e, gpu[0].stream[0]));
    if (!wrong)
        MUST(cu->stream_wait_event(gpu[0].stream[1], e, 0));
    twice(1, "c2", gpu[0].b, gpu[0].w);
    if (wrong)
        MUST(cu->stream_wait_event(gpu[0].stream[1], e, 0));
}

/* the right event, and another stream that waits */
static void other_stream_waits(int wrong)
{
    CUevent e = new_event();
    twice(0, "c1", gpu[0].a, gpu[0].b);
    MUST(cu->event_record(e, gpu[0].stream[0]));
    MUST(cu->stream_wait_event(gpu[0].stream[wrong ? 2 : 1], e, 0));
    twice(1, "c2", gpu[0].b, gpu[0].w);
}

/* one of two slots is written again while it is still read */
static void slot_too_early(int wrong)
{
    CUevent read[2] = {new_event(), new_event()}, written = new_event();
    for (int step = 0; step < 4; step++) {
        CUdeviceptr slot = gpu[0].w + 400 * (CUdeviceptr)(step % 2);
        if (step >= (wrong ? 3 : 2))
            MUST(cu->stream_wait_event(gpu[0].stream[0], read[step % 2], 0));
        twice(0, "c1", gpu[0].a, slot);
        MUST(cu->event_record(written, gpu[0].stream[0]));
        MUST(cu->stream_wait_event(gpu[0].stream[1], written, 0));
        twice(1, "c2", slot, gpu[0].b);
        MUST(cu->event_record(read[step % 2], gpu[0].stream[1]));
    }
}

/* ---- graphs */

static CUgraphExec end_capture(int s)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    MUST(cu->stream_end_capture(gpu[0].stream[s], &graph));
    MUST(cu->graph_instantiate(&exec, graph, 0));
    MUST(cu->graph_destroy(graph));
    return exec;
}

/* a fork and a join; the wrong one joins before it has done its part */
static void fork_in_graph(int wrong)
{
    CUevent fork = new_event(), join = new_event();
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu->event_record(fork, gpu[0].stream[0]));
    MUST(cu->stream_wait_event(gpu[0].stream[1], fork, 0));
    twice(0, "c1", gpu[0].a, gpu[0].b);
    if (wrong) {
        twice(1, "c2", gpu[0].b, gpu[0].w);
    } else {
        CUevent e = new_event();
        MUST(cu->event_record(e, gpu[0].stream[0]));
        MUST(cu->stream_wait_event(gpu[0].stream[1], e, 0));
        twice(1, "c2", gpu[0].b, gpu[0].w);
    }
    MUST(cu->event_record(join, gpu[0].stream[1]));
    MUST(cu->stream_wait_event(gpu[0].stream[0], join, 0));
    CUgraphExec exec = end_capture(0);
    for (int k = 0; k < 3; k++)
        MUST(cu->graph_launch(exec, gpu[0].stream[0]));
    finish(0);
    MUST(cu->graph_exec_destroy(exec));
}

/* another stream waits for an event that the graph records in its middle */
static void external_event(int wrong)
{
    CUevent done = new_event(), back = new_event();
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    if (wrong)
        MUST(cu->event_record_with_flags(done, gpu[0].stream[0], CU_EVENT_RECORD_EXTERNAL));
    twice(0, "c1", gpu[0].a, gpu[0].b);
    if (!wrong)
        MUST(cu->event_record_with_flags(done, gpu[0].stream[0], CU_EVENT_RECORD_EXTERNAL));
    declare(gpu[0].stream[0], NULL, NULL, -1);
    LAUNCH(0, 0, "slow", 1, 1, 0, &gpu[0].a, &(int64_t){0}, &(int64_t){0});
    CUgraphExec exec = end_capture(0);
    for (int k = 0; k < 3; k++) {
        MUST(cu->graph_launch(exec, gpu[0].stream[0]));
        MUST(cu->stream_wait_event(gpu[0].stream[1], done, 0));
        twice(1, "c2", gpu[0].b, gpu[0].w);
        MUST(cu->event_record(back, gpu[0].stream[1]));
        MUST(cu->stream_wait_event(gpu[0].stream[0], back, 0));
    }
}

/* the next launch of a graph does not wait for what read the last one's result */
static void next_launch(int wrong)
{
    CUevent done = new_event(), back = new_event();
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    twice(0, "c1", gpu[0].a, gpu[0].b);
    CUgraphExec exec = end_capture(0);
    for (int k = 0; k < 2; k++) {
        MUST(cu->graph_launch(exec, gpu[0].stream[0]));
        MUST(cu->event_record(done, gpu[0].stream[0]));
        MUST(cu->stream_wait_event(gpu[0].stream[1], done, 0));
        twice(1, "c2", gpu[0].b, gpu[0].w);
        MUST(cu->event_record(back, gpu[0].stream[1]));
        if (!wrong)
            MUST(cu->stream_wait_event(gpu[0].stream[0], back, 0));
    }
}

/* what must not be done while a stream is captured */
static void capture_errors(int wrong)
{
    CUgraph graph = NULL;
    CUevent fork = new_event();
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu->event_record(fork, gpu[0].stream[0]));
    MUST(cu->stream_wait_event(gpu[0].stream[1], fork, 0));
    twice(1, "c1", gpu[0].a, gpu[0].b);
    if (!wrong) {
        MUST(cu->event_record(fork, gpu[0].stream[1]));
        MUST(cu->stream_wait_event(gpu[0].stream[0], fork, 0));
    }
    CUresult r = cu->stream_end_capture(gpu[0].stream[0], &graph);
    if (r != (wrong ? 904 : CUDA_SUCCESS))
        printf("end of capture: %d\n", r);
    MUST(cu->stream_begin_capture(gpu[0].stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    r = wrong ? cu->stream_synchronize(gpu[0].stream[0]) : CUDA_SUCCESS;
    CUresult end = cu->stream_end_capture(gpu[0].stream[0], &graph);
    if (r != (wrong ? 900 : CUDA_SUCCESS) || end != (wrong ? 901 : CUDA_SUCCESS))
        printf("a wait while a stream is captured: %d, %d\n", r, end);
}

/* ---- memory of the host */

static void staging_too_early(int wrong)
{
    float *staging = new_locked(100);
    memset(staging, 0, 400);
    MUST(cu->memcpy_htod_async(gpu[0].b, staging, 400, gpu[0].stream[0]));
    if (!wrong)
        MUST(cu->stream_synchronize(gpu[0].stream[0]));
    staging[7] = 3;
    finish(0);
}

static void result_too_early(int wrong)
{
    float *to = new_locked(100);
    memset(to, 0, 400);
    MUST(cu->memcpy_dtoh_async(to, gpu[0].a, 400, gpu[0].stream[0]));
    if (!wrong)
        MUST(cu->stream_synchronize(gpu[0].stream[0]));
    if (!(to[9] == 9))
        printf("host: not there yet\n");
}

static void test_order(void)
{
    /* alone: with declarations only */
    static const struct {
        const char *name;
        Scenario *scenario;
        const char *text;
        bool alone;
    } CASES[] = {
        {"read without a wait for the write", read_after_write,
         "c2 (twice) reads d0.x, bytes [0, 400) of device memory, which c1 (twice) writes", false},
        {"write without a wait for the read", write_after_read, "which c1 (twice) reads", false},
        {"write without a wait for the write", write_after_write, "which c1 (twice) writes", false},
        {"event that is recorded too early", early_record, "c2 (twice) reads", false},
        {"operation issued without the host's wait", through_host, "c2 (twice) reads", false},
        {"what another thread has waited for", through_threads, "c2 (twice) reads", false},
        {"upload into what is still read", upload_too_early, "cuMemcpyHtoDAsync", true},
        {"copy between devices without a wait", peer_copy, "cuMemcpyPeerAsync", true},
        {"fill without a wait", fill_too_early, "cuMemsetD8Async", true},
        {"copy within a device without a wait", copy_too_early, "cuMemcpyDtoDAsync", true},
        {"download without a wait", download_too_early, "cuMemcpyDtoHAsync", true},
        {"function of the host without a wait", host_function_too_early, "f1 (cuLaunchHostFunc) reads", true},
        {"page-locked memory that two streams use", through_locked_memory, "page-locked memory", true},
        {"wait that comes too late", late_wait, "c2 (twice) reads", false},
        {"wait of another stream", other_stream_waits, "c2 (twice) reads", false},
        {"slot that is written again too early", slot_too_early, "c1 (twice) writes", false},
        {"branches of a graph", fork_in_graph, "c2 (twice) reads", false},
        {"event recorded inside a graph", external_event, "c2 (twice) reads", false},
        {"next launch of a graph", next_launch, "which c2 (twice) reads", false},
    };
    for (int k = 0; k < COUNT(CASES); k++)
        both(CASES[k].name, NULL, "vgpu", CASES[k].scenario, "race", "race: ");
    for (int k = 0; k < COUNT(CASES); k++)
        if (!CASES[k].alone) {
            twice = undeclared_twice;
            both(CASES[k].name, NULL, "vgpu-check", CASES[k].scenario, "race", "twice");
            twice = declared_twice;
        }
    both("staging memory filled too early", NULL, "vgpu", staging_too_early, "host", "the host changed the 400 bytes");
    both("result read too early", NULL, "vgpu", result_too_early, "host", "not there yet");
    char report[REPORT];
    int status = in_process(NULL, 1, "vgpu", capture_errors, 1, report) +
                 in_process(NULL, 1, "vgpu", capture_errors, 0, report + strlen(report));
    result(!status && !*report, "what must not be done while a stream is captured", report);
}

/* ---- all-reduces */

static ncclComm_t comms[2][DEVICES];
#define NCCL_FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    NCCL_FUNCTIONS(NCCL_FIELD) NCCL_LATER(NCCL_FIELD)
} nccl;
#undef NCCL_FIELD

static void open_nccl(int communicators)
{
    void *library = dlopen(MGPU_BINARY "/vgpu/libnccl.so.2", RTLD_NOW), *at;
#define NCCL_LOOK_UP(result, symbol, field, parameters)                                                                          \
    memcpy(&nccl.field, (at = dlsym(library, #symbol), &at), sizeof nccl.field);
    NCCL_FUNCTIONS(NCCL_LOOK_UP)
    NCCL_LATER(NCCL_LOOK_UP)
#undef NCCL_LOOK_UP
    for (int k = 0; k < communicators; k++)
        nccl.comm_init_all(comms[k], DEVICES, NULL);
}

static int sum_type = ncclFloat32;

static ncclResult_t sum(int comm, int d, int stream, CUdeviceptr at, int64_t count, const char *buffer)
{
    CudaRange ranges[2];
    char operation[40], name[40];
    snprintf(operation, sizeof operation, "d%d.m1", d);
    snprintf(name, sizeof name, "d%d.%s", d, buffer);
    for (int writes = 0; writes < 2; writes++)
        ranges[writes] = range_of(at, 0, count, writes, name);
    use(d);
    declare(gpu[d].stream[stream], operation, ranges, 2);
    ncclResult_t r = nccl.all_reduce((void *)(uintptr_t)at, (void *)(uintptr_t)at, (size_t)count, sum_type, ncclSum,
                                     comms[comm][d], gpu[d].stream[stream]);
    declare(gpu[d].stream[stream], NULL, NULL, -1);
    return r;
}

static void swapped_sums(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        for (int k = 0; k < 2; k++) {
            bool second = (k != 0) != (wrong && d == 1);
            sum(0, d, 0, second ? gpu[d].b : gpu[d].a, 100, second ? "bucket2" : "bucket1");
        }
    nccl.group_end();
}

static void unequal_sums(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, 0, gpu[d].a, wrong && d == 1 ? 99 : 100, "bucket1");
    nccl.group_end();
}

static void registered_sums(int wrong)
{
    open_nccl(1);
    void *handle;
    for (int d = 0; d < DEVICES; d++) {
        use(d);
        nccl.comm_register(comms[0][d], (void *)(uintptr_t)gpu[d].a, 400, &handle);
    }
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, 0, gpu[d].a + (wrong && d == 1 ? 16 : 0), 96, "bucket1");
    nccl.group_end();
}

/* a member issues all of its sums before the next one begins */
static void many_sums(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        for (int k = 0; k < 300; k++)
            if (sum(0, d, 0, gpu[d].a, wrong && d == 1 && k == 299 ? 99 : 100, "bucket1") && !wrong)
                printf("device %d, sum %d was refused\n", d, k);
    nccl.group_end();
}

static void sums_of_two_types(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++) {
        sum_type = wrong && d == 2 ? ncclInt32 : ncclFloat32;
        sum(0, d, 0, gpu[d].a, 100, "bucket1");
    }
    nccl.group_end();
}

/* one member leaves a sum out, and comes with the next */
static void skipped_sum(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        for (int k = wrong && d == 1; k < 2; k++)
            sum(0, d, 0, k ? gpu[d].b : gpu[d].a, 100, k ? "bucket2" : "bucket1");
    nccl.group_end();
}

/* what a sum writes is read by another stream */
static void result_of_sum_too_early(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, 1, gpu[d].b, 100, "x");
    nccl.group_end();
    use(0);
    wait_of(0, 1, !wrong);
    twice(0, "d0.c1", gpu[0].b, gpu[0].w);
}

/* ---- sums in graphs: captured and launched by a thread for each device, as the runtime does */
typedef struct Captured {
    int device;
    bool captures;
    CUgraphExec exec[2];
    int first, launches;
} Captured;

static void *capture_sums(void *context)
{
    Captured *c = context;
    CUgraph graph;
    use(c->device);
    for (int k = 0; k < 2; k++) {
        MUST(cu->stream_begin_capture(gpu[c->device].stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        if (sum(0, c->device, 0, gpu[c->device].a, 100, "bucket1"))
            _exit(9);
        MUST(cu->stream_end_capture(gpu[c->device].stream[0], &graph));
        MUST(cu->graph_instantiate(&c->exec[k], graph, 0));
        MUST(cu->graph_destroy(graph));
    }
    return NULL;
}

static void *launch_sums(void *context)
{
    Captured *c = context;
    use(c->device);
    if (!c->captures)
        sum(0, c->device, 0, gpu[c->device].a, 100, "bucket1");
    for (int k = 0; k < c->launches && c->captures; k++)
        cu->graph_launch(c->exec[(c->first + k) % 2], gpu[c->device].stream[0]);
    return NULL;
}

static void on_threads(void *(*function)(void *), Captured *c)
{
    for (int d = 0; d < DEVICES; d++) {
        pthread_t thread;
        pthread_create(&thread, NULL, function, &c[d]);
        pthread_join(thread, NULL);
    }
}

static void captured_sums(int which, int launches, bool one_thread)
{
    Captured c[DEVICES];
    open_nccl(1);
    for (int d = 0; d < DEVICES; d++)
        c[d] = (Captured){.device = d,
                          .captures = which != 1 || d != 1,
                          .first = which == 2 && d == 1,
                          .launches = which == 3 && d == 2 ? launches - 1 : launches};
    on_threads(capture_sums, c);
    if (one_thread)
        for (int d = 0; d < DEVICES; d++)
            launch_sums(&c[d]);
    else
        on_threads(launch_sums, c);
    use(0);
    finish(0);
}

/* a member calls the sum that the others have in graphs */
static void captured_by_some(int wrong) { captured_sums(wrong ? 1 : 0, 2, false); }
/* a member launches its graph of another sum first; both have the same size */
static void graphs_of_two_sums(int wrong) { captured_sums(wrong ? 2 : 0, 2, false); }
static void graph_that_is_left_out(int wrong) { captured_sums(wrong ? 3 : 0, 4, false); }
static void graphs_of_one_thread(int wrong) { captured_sums(0, 1, wrong); }

/* a sum in a branch of a graph that nothing makes wait for what it sums */
static void captured_sum_without_wait(int wrong)
{
    CUgraph graph;
    Captured c[DEVICES];
    open_nccl(1);
    for (int d = 0; d < DEVICES; d++) {
        CUevent event[2];
        CUstream *s = gpu[d].stream;
        c[d] = (Captured){.device = d, .captures = true, .launches = 1};
        use(d);
        for (int k = 0; k < 2; k++)
            MUST(cu->event_create(&event[k], 0));
        MUST(cu->stream_begin_capture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        if (wrong)
            MUST(cu->event_record(event[0], s[0]));
        if (d == 0)
            twice(0, "c1", gpu[0].a, gpu[0].b);
        if (!wrong)
            MUST(cu->event_record(event[0], s[0]));
        MUST(cu->stream_wait_event(s[1], event[0], 0));
        if (sum(0, d, 1, gpu[d].b, 100, "x"))
            _exit(9);
        MUST(cu->event_record(event[1], s[1]));
        MUST(cu->stream_wait_event(s[0], event[1], 0));
        MUST(cu->stream_end_capture(s[0], &graph));
        MUST(cu->graph_instantiate(&c[d].exec[0], graph, 0));
    }
    on_threads(launch_sums, c);
    use(0);
    finish(0);
}

static void missing_member(int wrong)
{
    open_nccl(1);
    nccl.group_start();
    for (int d = 0; d < DEVICES - wrong; d++)
        sum(0, d, 0, gpu[d].a, 100, "bucket1");
    nccl.group_end();
}

/* two communicators on one stream of each device, in two orders */
static void crossed_sums(int wrong)
{
    open_nccl(2);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        for (int k = 0; k < 2; k++) {
            int comm = k != (wrong && d == 1);
            sum(comm, d, 0, comm ? gpu[d].b : gpu[d].a, 100, comm ? "bucket2" : "bucket1");
        }
    nccl.group_end();
}

static void sum_without_wait(int wrong)
{
    open_nccl(1);
    twice(0, "d0.c1", gpu[0].a, gpu[0].b);
    wait_of(1, 0, !wrong);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, 1, gpu[d].b, 100, "x");
    nccl.group_end();
}

/* what one device did before a sum comes before what another does after it */
static void ordered_by_sum(int wrong)
{
    float b[100];
    open_nccl(1);
    twice(0, "d0.c1", gpu[0].a, gpu[0].b);
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, d == 0 ? wrong : 0, gpu[d].w, 100, "w");
    nccl.group_end();
    use(1);
    MUST(cu->memcpy_peer_async(gpu[1].b, gpu[1].context, gpu[0].b, gpu[0].context, 400, gpu[1].stream[0]));
    if (wrong)
        return;
    nccl.group_start();
    for (int d = 0; d < DEVICES; d++)
        sum(0, d, 0, gpu[d].a, 100, "a");
    nccl.group_end();
    for (int d = 0; d < DEVICES; d++) {
        download(d, b, gpu[d].a, 100);
        for (int i = 0; i < 100; i++)
            if (b[i] != (float)(3 * i))
                printf("device %d, sum[%d] = %g\n", d, i, (double)b[i]);
    }
}

static void test_collectives(void)
{
    both("sums in another order", NULL, "vgpu", swapped_sums, "collective",
         "d1.m1 of member 1 sums bucket2, d0.m1 before it bucket1");
    both("sums of unequal size", NULL, "vgpu", unequal_sums, "collective", "sums 99 elements of type 7, d0.m1 before it 100");
    both("sums of one device long before those of the others", NULL, "vgpu", many_sums, "collective",
         "sums 99 elements of type 7, d0.m1 before it 100");
    both("sums at two places of registered memory", NULL, "vgpu", registered_sums, "collective",
         "d1.m1 of member 1 sums byte 16 of registered memory, d0.m1 before it byte 0 of registered memory");
    both("sums of two types", NULL, "vgpu", sums_of_two_types, "collective",
         "sums 100 elements of type 2, d0.m1 before it 100 of type 7");
    both("sum that a device leaves out", NULL, "vgpu", skipped_sum, "collective",
         "d1.m1 of member 1 sums bucket2, d0.m1 before it bucket1");
    both("result of a sum without a wait", NULL, "vgpu", result_of_sum_too_early, "race", "d0.m1 (ncclAllReduce)");
    both("sum that a device does not begin", NULL, "vgpu", missing_member, "deadlock",
         "member 2 of ncclAllReduce, which has not begun it");
    both("sums of two communicators that wait for each other", NULL, "vgpu", crossed_sums, "deadlock", "again");
    both("sum without a wait for its operand", NULL, "vgpu", sum_without_wait, "race", "d0.m1 (ncclAllReduce)");
    both("sum that one device captures and another does not", NULL, "vgpu", captured_by_some, "collective",
         "d1.m1 of member 1 is not captured, d0.m1 before it is number 1 of a capture");
    both("graphs of two sums", NULL, "vgpu", graphs_of_two_sums, "collective",
         "is number 2 of a capture, d0.m1 before it is number 1 of a capture");
    both("graph that a device does not launch", NULL, "vgpu", graph_that_is_left_out, "deadlock",
         "member 2 of ncclAllReduce, which has not begun it");
    both("graphs with sums that one thread launches", NULL, "vgpu", graphs_of_one_thread, "collective",
         "is called by the thread that called it for another member");
    both("sum in a graph without a wait for its operand", NULL, "vgpu", captured_sum_without_wait, "race",
         "d0.m1 (ncclAllReduce)");
    both("copy that only a sum orders", NULL, "vgpu", ordered_by_sum, "race", "cuMemcpyPeerAsync");
}

/* ---- failures that the machine file asks for */

static void say(const char *what, CUresult r)
{
    const char *name = "a number";
    cu->get_error_name(r, &name);
    printf("%s %s\n", what, name);
}

static void failing_call(int wrong)
{
    CUevent e = NULL;
    (void)wrong;
    use(0);
    for (int k = 1; k <= 3; k++)
        say("event", cu->event_create(&e, 0));
}

static void failing_kernel(int wrong)
{
    int64_t n = 10;
    (void)wrong;
    for (int k = 1; k <= 3; k++) {
        say("launch", try_launch(0, gpu[0].stream[0], "twice", 1, 32, 0, PARAMETERS(&gpu[0].a, &gpu[0].b, &n)));
        say("wait", cu->stream_synchronize(gpu[0].stream[0]));
    }
    exit(0);
}

static void lost_device(int wrong)
{
    int64_t n = 10;
    (void)wrong;
    for (int k = 1; k <= 3; k++) {
        say("launch", try_launch(1, gpu[1].stream[0], "twice", 1, 32, 0, PARAMETERS(&gpu[1].a, &gpu[1].b, &n)));
        say("wait", cu->stream_synchronize(gpu[1].stream[0]));
    }
    use(0);
    say("the other", cu->stream_synchronize(gpu[0].stream[0]));
    exit(0);
}

static void too_much_memory(int wrong)
{
    size_t left = 0, all = 0;
    CUdeviceptr p = 0;
    (void)wrong;
    use(2);
    cu->mem_get_info(&left, &all);
    printf("%zu of %zu\n", left, all);
    say("all but a byte", cu->mem_alloc(&p, left + 1));
    say("all", cu->mem_alloc(&p, left));
}

static void corrupt_link(int wrong)
{
    float b[100];
    (void)wrong;
    for (int k = 1; k <= 3; k++) {
        int different = 0;
        use(1);
        MUST(cu->memcpy_peer_async(gpu[1].b, gpu[1].context, gpu[0].a, gpu[0].context, 400, gpu[1].stream[0]));
        download(1, b, gpu[1].b, 100);
        for (int i = 0; i < 100; i++)
            different += b[i] != (float)i;
        printf("%d different\n", different);
    }
}

/* of copies to a buffer that is named and to one that is not, in turn, the second to the named one */
static void corrupt_buffer(int wrong)
{
    float b[100];
    (void)wrong;
    for (int k = 0; k < 3; k++) {
        int negative = 0;
        use(1);
        CudaRange ranges[] = {range_of(gpu[0].a, 0, 100, 0, "d0.x"),
                              range_of(gpu[1].b, 0, 100, 1, k % 2 ? "scratch" : "d1.sums")};
        declare(gpu[1].stream[0], "m1", ranges, 2);
        MUST(cu->memcpy_peer_async(gpu[1].b, gpu[1].context, gpu[0].a, gpu[0].context, 400, gpu[1].stream[0]));
        declare(gpu[1].stream[0], NULL, NULL, -1);
        download(1, b, gpu[1].b, 100);
        for (int i = 0; i < 100; i++)
            negative += b[i] < 0;
        printf("%d negative\n", negative);
    }
}

static void carry_on(int wrong)
{
    (void)wrong;
    failing_call(0);
    fflush(stdout);
    sleep(60);
}

static void speeds(int wrong)
{
    CUevent begin = new_event(), end = new_event();
    CUdeviceptr large = (use(1), new_memory(64 << 20)), there = (use(0), new_memory(64 << 20));
    float ms = 0;
    (void)wrong;
    MUST(cu->event_record(begin, gpu[0].stream[0]));
    MUST(cu->memcpy_peer_async(large, gpu[1].context, there, gpu[0].context, 64 << 20, gpu[0].stream[0]));
    MUST(cu->event_record(end, gpu[0].stream[0]));
    MUST(cu->event_synchronize(end));
    MUST(cu->event_elapsed_time(&ms, begin, end));
    printf("%.1f GB/s\n", 64 * 1048576 / (double)ms / 1e6);
    for (int d = 0; d < DEVICES; d++)
        for (int e = 0; e < DEVICES; e++) {
            int can = 0;
            if (d != e)
                cu->device_can_access_peer(&can, d, e);
            printf("%d", can);
        }
    printf("\n");
}

/* CUDA's order is the file's; NVML has all devices, by bus */
static void devices(int wrong)
{
    void *library = dlopen(MGPU_BINARY "/vgpu/libnvidia-ml.so.1", RTLD_NOW), *at;
    nvmlReturn_t (*init)(void), (*count_of)(unsigned *), (*handle)(unsigned, nvmlDevice_t *),
        (*name)(nvmlDevice_t, char *, unsigned);
    unsigned count = 0;
    int shown = 0;
    (void)wrong;
    memcpy(&init, (at = dlsym(library, "nvmlInit_v2"), &at), sizeof init);
    memcpy(&count_of, (at = dlsym(library, "nvmlDeviceGetCount_v2"), &at), sizeof count_of);
    memcpy(&handle, (at = dlsym(library, "nvmlDeviceGetHandleByIndex_v2"), &at), sizeof handle);
    memcpy(&name, (at = dlsym(library, "nvmlDeviceGetName"), &at), sizeof name);
    cu->device_get_count(&shown);
    for (int d = 0; d < shown; d++) {
        char text[64], bus[32];
        cu->device_get_name(text, sizeof text, d);
        cu->device_get_pci_bus_id(bus, sizeof bus, d);
        printf("%s %s, ", text, bus);
    }
    printf("NVML %d ", init());
    printf("%d", count_of(&count));
    for (unsigned d = 0; d < count; d++) {
        nvmlDevice_t device;
        char text[64];
        handle(d, &device);
        name(device, text, sizeof text);
        printf(", %s", text);
    }
}

static void test_devices(void)
{
    static const char MACHINE[] = "name 0 a\nname 1 b\nname 2 c\nbus 0 0000:65:00.0\nbus 1 0000:07:00.0\nbus 2 0001:01:00.0\n";
    static const struct {
        const char *visible, *says;
    } CASES[] = {
        {NULL,
         "Virtual a 0000:65:00.0, Virtual b 0000:07:00.0, Virtual c 0001:01:00.0, NVML 0 0, Virtual b, Virtual a, Virtual c"},
        {"2,0", "Virtual c 0001:01:00.0, Virtual a 0000:65:00.0, NVML 0 0, Virtual b, Virtual a, Virtual c"},
        {"1,7,0", "Virtual b 0000:07:00.0, NVML 0 0, Virtual b, Virtual a, Virtual c"},
        {"GPU-00112233-4455-6677-8899-aabbccddee01", "Virtual b 0000:07:00.0, NVML 0 0, Virtual b, Virtual a, Virtual c"},
    };
    for (int k = 0; k < COUNT(CASES); k++) {
        char report[REPORT], title[100];
        unsetenv("CUDA_VISIBLE_DEVICES");
        if (CASES[k].visible)
            setenv("CUDA_VISIBLE_DEVICES", CASES[k].visible, 1);
        int status = in_process(MACHINE, 1, "vgpu", devices, 0, report);
        snprintf(title, sizeof title, "devices shown: %s", CASES[k].visible ? CASES[k].visible : "all");
        result(!status && strcmp(report, CASES[k].says) == 0, title, report);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_machine(void)
{
    static const struct {
        const char *name, *machine;
        Scenario *scenario;
        const char *says;
    } CASES[] = {
        {"a call that fails", "fail cuEventCreate 2 CUDA_ERROR_OUT_OF_MEMORY", failing_call,
         "event CUDA_SUCCESS\nevent CUDA_ERROR_OUT_OF_MEMORY\nevent CUDA_SUCCESS\n"},
        {"a kernel that fails", "fail kernel twice 2 CUDA_ERROR_LAUNCH_FAILED", failing_kernel,
         "launch CUDA_SUCCESS\nwait CUDA_SUCCESS\nlaunch CUDA_SUCCESS\nwait CUDA_ERROR_LAUNCH_FAILED\n"
         "launch CUDA_ERROR_LAUNCH_FAILED\nwait CUDA_ERROR_LAUNCH_FAILED\n"},
        {"a device that is lost", "lost 1 after 4 CUDA_ERROR_ECC_UNCORRECTABLE", lost_device,
         "launch CUDA_SUCCESS\nwait CUDA_SUCCESS\nlaunch CUDA_SUCCESS\nwait CUDA_ERROR_ECC_UNCORRECTABLE\n"
         "launch CUDA_ERROR_ECC_UNCORRECTABLE\nwait CUDA_ERROR_ECC_UNCORRECTABLE\nthe other CUDA_SUCCESS\n"},
        {"memory that is too small", "memory 2 1MiB", too_much_memory,
         "999424 of 1048576\nall but a byte CUDA_ERROR_OUT_OF_MEMORY\nall CUDA_SUCCESS\n"},
        {"a link that corrupts", "corrupt link 0 1 2", corrupt_link, "0 different\n1 different\n0 different\n"},
        {"a link that corrupts what ends in a buffer", "corrupt link 0 1 2 sums", corrupt_buffer,
         "0 negative\n0 negative\n99 negative\n"},
        {"links", "link 0 1 10GB/s\nlink 1 2 none", speeds, "10.0 GB/s\n011100100\n"},
    };
    for (int k = 0; k < COUNT(CASES); k++) {
        char report[REPORT];
        int status = in_process(CASES[k].machine, 1, "vgpu", CASES[k].scenario, 0, report);
        result(!status && strcmp(report, CASES[k].says) == 0, CASES[k].name, report);
    }
    char report[REPORT];
    int status = in_process("fail cuEventCreate 2 CUDA_ERROR_OUT_OF_MEMORY\ndeadline 0.3", 1, "vgpu", carry_on, 0, report);
    result(status == 98, "a program that goes on when something has failed", report);
}

int main(void)
{
    open_scratch();
    test_order();
    test_collectives();
    test_machine();
    test_devices();
    count_planted(25, "of streams, graphs and sums");
    return failures != 0;
}
