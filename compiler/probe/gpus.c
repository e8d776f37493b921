/* gpus.c: measure the GPUs of this machine; each number is a line of the machine file.
 *
 *   bandwidth   y = a x + b over memory that no cache holds, divided by the share of the bandwidth that the cost model assumes
 *               for such kernels (compiler/machine/cost.h)
 *   arithmetic  multiply-adds in registers; `matrix`: multiply-adds of small matrices by warps
 *   launch      a graph of kernels that do nothing
 *   event       kernels of two streams that wait for each other in turn, less their launches
 *   links       links.c; large matmuls: matmuls.c
 *
 * Times come from events on the GPU. GPUs of the same name get one number, the median of all, so that plans share work evenly
 * among them. The lowest and the highest follow each number. Numbers of virtual GPUs (docs/vgpu.md) are nominal, and are labelled
 * so. */
#include "compiler/link/translation_units.h"
#include "compiler/machine/cost.h"
#include "compiler/probe/gpu.h"

#include <string.h>

enum {
    ROUNDS = 9,
    THREADS = 256,
    BLOCKS = 8 /* of a multiprocessor */,
    LAUNCHES = 128,
    TURNS = 32,
    WARP = 32,
    CHAINS = 8 /* as MGPU_PROBE_CHAINS */
};
/* operations of a thread in a step; for matrices, per K */
enum { OF_PLAIN = 2 * CHAINS, OF_MATRIX = 2 * 16 * 8 * CHAINS / WARP };
/* of memory; streamed; on the host; in a chain */
typedef struct Amounts {
    int64_t bytes, streamed, locked;
    int steps;
} Amounts;
static const Amounts REAL = {256 << 20, 256 << 20, 64 << 20, 4096}, VIRTUAL = {16 << 20, 1 << 20, 4 << 20, 2};

/* ---- calls */
void probe_check(const ProbedGpu *g, CUresult r, const char *call)
{
    char text[200];
    if (r != CUDA_SUCCESS)
        fail(3, "mgpuc probe: %s, %s: %s: %s", g->gpu->name, g->gpu->place, call, mgpu_cuda_error(g->cuda, r, text));
}

void probe_enter(const ProbedGpu *g) { PROBE_CALL(g, ctx_set_current, cuCtxSetCurrent, g->context); }

double probe_time_us(const ProbedGpu *g, Issue *issue, void *context, bool all_streams)
{
    float ms = 0;
    int streams = all_streams ? g->stream_count : 1;
    probe_enter(g);
    PROBE_CALL(g, event_record, cuEventRecord, g->begin, g->streams[0]);
    for (int k = 1; k < streams; k++)
        PROBE_CALL(g, stream_wait_event, cuStreamWaitEvent, g->streams[k], g->begin, CU_EVENT_WAIT_DEFAULT);
    issue(g, context);
    for (int k = 1; k < streams; k++) {
        PROBE_CALL(g, event_record, cuEventRecord, g->over[k], g->streams[k]);
        PROBE_CALL(g, stream_wait_event, cuStreamWaitEvent, g->streams[0], g->over[k], CU_EVENT_WAIT_DEFAULT);
    }
    PROBE_CALL(g, event_record, cuEventRecord, g->end, g->streams[0]);
    PROBE_CALL(g, event_synchronize, cuEventSynchronize, g->end);
    PROBE_CALL(g, event_elapsed_time, cuEventElapsedTime, &ms, g->begin, g->end);
    return 1e3 * ms;
}

/* ---- kernels */
typedef struct Launch {
    CUfunction function;
    unsigned blocks, threads;
    void *first, *second;
    int64_t third;
    int arguments;
} Launch;

static void declare(const ProbedGpu *g, CUstream s, const CudaRange *ranges, int count)
{
    if (g->cuda->declare)
        g->cuda->declare(s, "probe", ranges, count);
}

static void launch(const ProbedGpu *g, CUstream s, const Launch *l)
{
    void *given[] = {(void *)&l->first, l->arguments == 3 ? (void *)&l->second : (void *)&l->third, (void *)&l->third};
    PROBE_CALL(g, launch_kernel, cuLaunchKernel, l->function, l->blocks, 1, 1, l->threads, 1, 1, 0, s,
               l->arguments ? given : NULL, NULL);
}

static CUfunction function_of(const ProbedGpu *g, const char *name)
{
    CUfunction f = NULL;
    PROBE_CALL(g, module_get_function, cuModuleGetFunction, &f, g->module, format("mgpu_probe_%s", name));
    return f;
}

typedef struct StreamOf {
    Launch launch;
    int64_t bytes;
} StreamOf;

static void issue_stream(const ProbedGpu *g, void *context)
{
    const StreamOf *s = context;
    const CudaRange ranges[] = {{g->memory, g->memory + (uint64_t)s->bytes, 0, "from"},
                                {g->other, g->other + (uint64_t)s->bytes, 1, "to"}};
    declare(g, g->streams[0], ranges, COUNT(ranges));
    launch(g, g->streams[0], &s->launch);
}

static void issue_one(const ProbedGpu *g, void *context)
{
    declare(g, g->streams[0], NULL, -1);
    launch(g, g->streams[0], context);
}

static void issue_graph(const ProbedGpu *g, void *context) { PROBE_CALL(g, graph_launch, cuGraphLaunch, context, g->streams[0]); }

static void issue_turns(const ProbedGpu *g, void *context)
{
    for (int k = 0; k < 2 * TURNS; k++) {
        CUstream s = g->streams[k % 2];
        declare(g, s, NULL, -1);
        launch(g, s, context);
        PROBE_CALL(g, event_record, cuEventRecord, g->over[k % 2], s);
        PROBE_CALL(g, stream_wait_event, cuStreamWaitEvent, g->streams[1 - k % 2], g->over[k % 2], CU_EVENT_WAIT_DEFAULT);
    }
}

/* ---- numbers of one GPU. The first measurement of each is dropped, as the clock may still be slow */
static double stream_us(const ProbedGpu *g, CUfunction f, int64_t bytes)
{
    Launch l = {f,
                (unsigned)(g->virtual ? 1 : BLOCKS * g->multiprocessors),
                THREADS,
                (void *)(uintptr_t)g->other,
                (void *)(uintptr_t)g->memory,
                bytes / 4,
                3};
    return probe_time_us(g, issue_stream, &(StreamOf){l, bytes}, false);
}

/* Takes the difference of two lengths, which leaves out the launch. */
static void measure_bandwidth(const ProbedGpu *g, Measurements *m)
{
    CUfunction f = function_of(g, "stream");
    int64_t most = g->virtual ? VIRTUAL.streamed : REAL.streamed, bytes = most < g->bytes ? most : g->bytes;
    for (int k = -1; k < ROUNDS; k++) {
        double less = stream_us(g, f, bytes / 4), all = stream_us(g, f, bytes);
        if (k >= 0 && all > less)
            add_measurement(m, 2e6 * .75 * (double)bytes / (all - less) / cost_stream_share(PROCESSOR_CUDA));
    }
}

/* Returns a launch of a kernel whose factor is the 0 at the start of memory. */
static Launch chain_of(const ProbedGpu *g, const char *name, int times)
{
    int steps = g->virtual ? VIRTUAL.steps : REAL.steps;
    declare(g, g->streams[0], NULL, -1);
    PROBE_CALL(g, memset_d8_async, cuMemsetD8Async, g->memory, 0, 8 * (1 + THREADS), g->streams[0]);
    return (Launch){function_of(g, name),
                    (unsigned)(g->virtual ? 1 : BLOCKS * g->multiprocessors),
                    g->virtual ? WARP : THREADS,
                    (void *)(uintptr_t)g->memory,
                    NULL,
                    times * steps,
                    2};
}

/* each: the operations of a thread in a step, in all chains together */
static void measure_chain(const ProbedGpu *g, const char *name, double each, Measurements *m)
{
    Launch l = chain_of(g, name, 1);
    for (int k = -1; k < ROUNDS; k++) {
        double us = probe_time_us(g, issue_one, &l, false);
        if (k >= 0)
            add_measurement(m, 1e6 * each * (double)l.third * l.blocks * l.threads / us);
    }
}

/* Measures both; events are what is left after subtracting the launch. */
static void measure_launches(const ProbedGpu *g, Measurements *launches, Measurements *events)
{
    Launch nothing = {.function = function_of(g, "nothing"), .blocks = 1, .threads = WARP};
    Launch delay = chain_of(g, "plain_f32", 4); /* keeps the GPU busy while the host issues all turns */
    CUgraph graph;
    CUgraphExec exec;
    PROBE_CALL(g, stream_begin_capture, cuStreamBeginCapture, g->streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int k = 0; k < LAUNCHES; k++) {
        declare(g, g->streams[0], NULL, -1);
        launch(g, g->streams[0], &nothing);
    }
    PROBE_CALL(g, stream_end_capture, cuStreamEndCapture, g->streams[0], &graph);
    PROBE_CALL(g, graph_instantiate, cuGraphInstantiate, &exec, graph, 0);
    PROBE_CALL(g, graph_upload, cuGraphUpload, exec, g->streams[0]);
    for (int k = -1; k < ROUNDS; k++) {
        double launch_us = probe_time_us(g, issue_graph, exec, false) / LAUNCHES;
        issue_one(g, &delay);
        double turn_us = probe_time_us(g, issue_turns, &nothing, true) / (2 * TURNS);
        if (k < 0)
            continue;
        add_measurement(launches, launch_us);
        add_measurement(events, turn_us - launch_us);
    }
    PROBE_CALL(g, graph_exec_destroy, cuGraphExecDestroy, exec);
    PROBE_CALL(g, graph_destroy, cuGraphDestroy, graph);
}

/* ---- all GPUs */
int next_name(const ProbedGpus *all, int first)
{
    int next = first + 1;
    while (next < all->count && strcmp(all->gpus[next].gpu->name, all->gpus[first].gpu->name) == 0)
        next++;
    return next;
}

const char *gpus_text(int first, int next) { return next - first == 1 ? format("%d", first) : format("%d-%d", first, next - 1); }

void write_of_gpus(Text *t, const ProbedGpus *all, const char *before, const char *after, const Measurements *of, double unit,
                   const char *unit_name)
{
    static const double NEAR = .1;
    const char *emulated = all->virtual ? "emulation" : NULL;
    for (int first = 0, next; first < all->count; first = next) {
        Measurements group = {0};
        next = next_name(all, first);
        for (int d = first; d < next; d++)
            add_measurement(&group, median_of(&of[d]));
        if (next - first == 1)
            group = of[first];
        double middle = median_of(&group);
        write_measured(t, format("%s %s%s", before, gpus_text(first, next), after), &group, CHOOSE_MEDIAN, unit, unit_name,
                       emulated);
        for (int d = first; d < next && next - first > 1; d++) {
            double own = median_of(&of[d]);
            Measurements its = of[d];
            if (own < (1 - NEAR) * middle || own > (1 + NEAR) * middle)
                write_measured(t, format("%s %d%s", before, d, after), &its, CHOOSE_MEDIAN, unit, unit_name, emulated);
        }
    }
}

static const struct {
    const char *before, *after, *kernel;
    double each;
} CHAIN[] = {
    {"arithmetic", " f32", "plain_f32", OF_PLAIN},    {"arithmetic", " f64", "plain_f64", OF_PLAIN},
    {"matrix", " f32", "matrix_f32", 8 * OF_MATRIX},  {"matrix", " bf16", "matrix_bf16", 16 * OF_MATRIX},
    {"matrix", " f16", "matrix_f16", 16 * OF_MATRIX},
};

static void probe_rates(Text *t, const ProbedGpus *all)
{
    Measurements *bandwidth = NEW_ARRAY(Measurements, all->count), *launches = NEW_ARRAY(Measurements, all->count),
                 *events = NEW_ARRAY(Measurements, all->count);
    for (int d = 0; d < all->count; d++) {
        probe_enter(&all->gpus[d]);
        measure_bandwidth(&all->gpus[d], &bandwidth[d]);
        measure_launches(&all->gpus[d], &launches[d], &events[d]);
    }
    write_of_gpus(t, all, "bandwidth", "", bandwidth, 1e9, "GB/s");
    for (int k = 0; k < COUNT(CHAIN); k++) {
        Measurements *of = NEW_ARRAY(Measurements, all->count);
        for (int d = 0; d < all->count; d++) {
            probe_enter(&all->gpus[d]);
            measure_chain(&all->gpus[d], CHAIN[k].kernel, CHAIN[k].each, &of[d]);
        }
        write_of_gpus(t, all, CHAIN[k].before, CHAIN[k].after, of, 1e12, "TFLOP/s");
    }
    write_of_gpus(t, all, "launch", "", launches, 1, "us");
    write_of_gpus(t, all, "event", "", events, 1, "us");
}

static void open_gpu(ProbedGpu *g, int gpus)
{
    size_t free_bytes, all_bytes, length;
    char log[2000] = "", error[200];
    int option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    PROBE_CALL(g, device_primary_ctx_retain, cuDevicePrimaryCtxRetain, &g->context, g->gpu->device);
    probe_enter(g);
    CUresult r = g->cuda->module_load_data(&g->module, read_file(g->image, &length), COUNT(option), option, value);
    if (r != CUDA_SUCCESS)
        fail(3, "mgpuc probe: %s, %s: its kernels cannot be loaded: %s%s%s", g->gpu->name, g->gpu->place,
             mgpu_cuda_error(g->cuda, r, error), *log ? ": " : "", log);
    PROBE_CALL(g, device_get_attribute, cuDeviceGetAttribute, &g->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
               g->gpu->device);
    PROBE_CALL(g, mem_get_info, cuMemGetInfo, &free_bytes, &all_bytes);
    g->bytes = g->virtual ? VIRTUAL.bytes : REAL.bytes;
    while (g->bytes > (int64_t)(free_bytes / 4) && g->bytes > VIRTUAL.bytes) /* others may use it */
        g->bytes /= 2;
    PROBE_CALL(g, mem_alloc, cuMemAlloc, &g->memory, (size_t)g->bytes);
    PROBE_CALL(g, mem_alloc, cuMemAlloc, &g->other, (size_t)g->bytes);
    g->locked = g->virtual ? VIRTUAL.locked : REAL.locked;
    g->locked = g->locked < g->bytes ? g->locked : g->bytes;
    PROBE_CALL(g, mem_host_alloc, cuMemHostAlloc, &g->host, (size_t)g->locked, CU_MEMHOSTALLOC_PORTABLE);
    g->stream_count = gpus > 2 ? gpus : 2;
    g->streams = NEW_ARRAY(CUstream, g->stream_count);
    g->over = NEW_ARRAY(CUevent, g->stream_count);
    PROBE_CALL(g, event_create, cuEventCreate, &g->begin, CU_EVENT_DEFAULT);
    PROBE_CALL(g, event_create, cuEventCreate, &g->end, CU_EVENT_DEFAULT);
    for (int k = 0; k < g->stream_count; k++) {
        PROBE_CALL(g, stream_create_with_priority, cuStreamCreate, &g->streams[k], CU_STREAM_NON_BLOCKING, 0);
        PROBE_CALL(g, event_create, cuEventCreate, &g->over[k], CU_EVENT_DISABLE_TIMING);
    }
    memset(g->host, 0, (size_t)g->locked);
    PROBE_CALL(g, memset_d8_async, cuMemsetD8Async, g->memory, 0, (size_t)g->bytes, g->streams[0]);
    PROBE_CALL(g, memset_d8_async, cuMemsetD8Async, g->other, 0, (size_t)g->bytes, g->streams[0]);
    PROBE_CALL(g, stream_synchronize, cuStreamSynchronize, g->streams[0]);
}

static void close_gpu(ProbedGpu *g)
{
    probe_enter(g);
    for (int k = 0; k < g->stream_count; k++) {
        PROBE_CALL(g, stream_destroy, cuStreamDestroy, g->streams[k]);
        PROBE_CALL(g, event_destroy, cuEventDestroy, g->over[k]);
    }
    PROBE_CALL(g, event_destroy, cuEventDestroy, g->begin);
    PROBE_CALL(g, event_destroy, cuEventDestroy, g->end);
    PROBE_CALL(g, mem_free, cuMemFree, g->memory);
    PROBE_CALL(g, mem_free, cuMemFree, g->other);
    PROBE_CALL(g, mem_free_host, cuMemFreeHost, g->host);
    PROBE_CALL(g, module_unload, cuModuleUnload, g->module);
    PROBE_CALL(g, device_primary_ctx_release, cuDevicePrimaryCtxRelease, g->gpu->device);
}

/* Returns the file of the kernels for a GPU; GPUs of the same architecture share it. */
static const char *image_of(const ProbedGpus *all, int number)
{
    static const char TEXT[] = "#include \"mgpu_device_probe.h\"\n";
    const Gpu *g = all->gpus[number].gpu;
    for (int k = 0; k < number; k++)
        if (all->virtual || (all->gpus[k].gpu->major == g->major && all->gpus[k].gpu->minor == g->minor))
            return all->gpus[k].image;
    const char *arch = all->virtual ? "vgpu" : format("sm_%d%d", g->major, g->minor), *image = make_image(TEXT, arch);
    if (!image)
        fail(3, "mgpuc probe: the kernels that measure GPUs do not compile for %s", arch);
    return image;
}

/* Writes what the driver reports about the GPUs. */
static void write_facts(Text *t, const ProbedGpus *all)
{
    for (int d = 0; d < all->count; d++) {
        const ProbedGpu *g = &all->gpus[d];
        text_add(t, "name %d %s\ncapability %d %d.%d\nmultiprocessors %d %d\nmemory %d %lldMiB\n", d, g->gpu->name, d,
                 g->gpu->major, g->gpu->minor, d, g->multiprocessors, d, (long long)(g->gpu->memory >> 20));
    }
}

ProbedKind probe_gpus(Text *t, int *count)
{
    ProbedGpus all = {0};
    GpuList list;
    *count = 0;
    if (mgpu_find_gpus(&list, &all.cuda))
        return PROBED_NONE;
    all.virtual = all.cuda->declare != NULL;
    all.gpus = NEW_ARRAY(ProbedGpu, list.count);
    for (int i = 0; i < list.count; i++) {
        ProbedGpu *g = &all.gpus[i];
        *g = (ProbedGpu){.cuda = all.cuda, .gpu = &list.gpus[i], .number = i, .virtual = all.virtual};
        if (g->gpu->major < MGPU_OLDEST_GPU || g->gpu->slice)
            return PROBED_OTHERS;
    }
    all.count = *count = list.count;
    for (int i = 0; i < all.count; i++) {
        all.gpus[i].image = image_of(&all, i);
        open_gpu(&all.gpus[i], all.count);
    }
    if (all.virtual)
        text_add(t, "# The GPUs are emulated: their numbers are those of a virtual machine, and of no GPU.\n");
    write_facts(t, &all);
    probe_rates(t, &all);
    probe_links(t, &all);
    for (int i = 0; i < all.count; i++)
        close_gpu(&all.gpus[i]);
    probe_matmuls(t, &all);
    mgpu_free_gpus(&list);
    return all.virtual ? PROBED_VIRTUAL : PROBED_REAL;
}
