/* vgpu_rules_test: what NVIDIA's manuals forbid (docs/rules.md), breached on the virtual GPU, each in a process of its own: the
 * breach has the status that the manual names, its right twin has none. */
#include <pthread.h>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/nccl.h"
#include "runtime/cuda/nvml.h"
#include "vgpu_machine.h"

#define IS(status) #status, status
enum { /* CUresult, that the runtime never compares with */
       CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
       CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
       CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
       CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
       CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
       CUDA_ERROR_CAPTURED_EVENT = 907,
       CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908
};
enum { ncclSystemError = 2, ncclInvalidArgument = 4, ncclInvalidUsage = 5 };
enum { NVML_ERROR_UNINITIALIZED = 1, NVML_ERROR_INVALID_ARGUMENT = 2 };

typedef CUresult Rule(bool wrong); /* what the call answers that the rule is of */

static CUstream stream(int s) { return gpu[0].stream[s]; }

/* ---- devices and contexts */
static CUresult init_flags(bool wrong) { return cu->init(wrong ? 1 : 0); }

static CUresult error_name(bool wrong)
{
    const char *text;
    return cu->get_error_name(wrong ? 12345 : CUDA_ERROR_NOT_READY, &text);
}

static CUresult error_text(bool wrong)
{
    const char *text;
    return cu->get_error_string(wrong ? 12345 : CUDA_ERROR_NOT_READY, &text);
}

static CUresult device_ordinal(bool wrong)
{
    CUdevice device;
    return cu->device_get(&device, wrong ? DEVICES : DEVICES - 1);
}

static CUresult device_handle(bool wrong)
{
    size_t bytes;
    return cu->device_total_mem(&bytes, wrong ? DEVICES : 0);
}

static CUresult device_attribute(bool wrong)
{
    int value;
    return cu->device_get_attribute(&value, wrong ? 100000 : CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
}

static CUresult no_context(bool wrong)
{
    CUdeviceptr memory;
    MUST(cu->ctx_set_current(wrong ? NULL : gpu[0].context));
    return cu->mem_alloc(&memory, 256);
}

static CUresult released_context(bool wrong)
{
    CUdeviceptr memory;
    if (wrong)
        MUST(cu->device_primary_ctx_release(0));
    return cu->mem_alloc(&memory, 256);
}

static CUresult released_too_often(bool wrong)
{
    MUST(cu->device_primary_ctx_release(0));
    CUresult r = wrong ? cu->device_primary_ctx_release(0) : CUDA_SUCCESS;
    CUcontext again;
    MUST(cu->device_primary_ctx_retain(&again, 0));
    return r;
}

static CUresult peer_flags(bool wrong) { return cu->ctx_enable_peer_access(gpu[1].context, wrong ? 1 : 0); }
static CUresult peer_of_itself(bool wrong) { return cu->ctx_enable_peer_access(gpu[wrong ? 0 : 1].context, 0); }
static CUresult peer_without_link(bool wrong) { return cu->ctx_enable_peer_access(gpu[wrong ? 2 : 1].context, 0); }

static CUresult peer_twice(bool wrong)
{
    MUST(cu->ctx_enable_peer_access(gpu[1].context, 0));
    return wrong ? cu->ctx_enable_peer_access(gpu[1].context, 0) : CUDA_SUCCESS;
}

/* ---- memory */
static CUresult no_bytes(bool wrong)
{
    CUdeviceptr memory;
    return cu->mem_alloc(&memory, wrong ? 0 : 1);
}

static CUresult too_many_bytes(bool wrong)
{
    CUdeviceptr memory;
    return cu->mem_alloc(&memory, (size_t)1 << (wrong ? 40 : 10));
}

static CUresult freed_twice(bool wrong)
{
    CUdeviceptr memory = new_memory(256);
    MUST(cu->mem_free(memory));
    return wrong ? cu->mem_free(memory) : CUDA_SUCCESS;
}

static CUresult freed_inside(bool wrong) { return cu->mem_free(new_memory(512) + (wrong ? 256 : 0)); }

static CUresult host_no_bytes(bool wrong)
{
    void *memory;
    return cu->mem_host_alloc(&memory, wrong ? 0 : 1, CU_MEMHOSTALLOC_PORTABLE);
}

static CUresult host_flags(bool wrong)
{
    void *memory;
    return cu->mem_host_alloc(&memory, 64, wrong ? 64 : CU_MEMHOSTALLOC_PORTABLE);
}

static CUresult host_freed_as_device(bool wrong)
{
    void *memory = new_locked(16);
    return wrong ? cu->mem_free((CUdeviceptr)(uintptr_t)memory) : cu->mem_free_host(memory);
}

static CUresult upload_past_end(bool wrong)
{
    return cu->memcpy_htod_async(gpu[0].b + (wrong ? 4 * FLOATS - 8 : 0), new_locked(4), 16, stream(0));
}
static CUresult download_past_end(bool wrong)
{
    return cu->memcpy_dtoh_async(new_locked(4), gpu[0].b + (wrong ? 4 * FLOATS - 8 : 0), 16, stream(0));
}
static CUresult copy_past_end(bool wrong)
{
    return cu->memcpy_dtod_async(gpu[0].b, gpu[0].a + (wrong ? 8 : 0), 4 * FLOATS, stream(0));
}
static CUresult fill_past_end(bool wrong) { return cu->memset_d8_async(gpu[0].b, 0, 4 * FLOATS + (wrong ? 1 : 0), stream(0)); }

static CUresult peer_context(bool wrong)
{
    return cu->memcpy_peer_async(gpu[0].b, gpu[0].context, gpu[1].a, gpu[wrong ? 2 : 1].context, 64, stream(0));
}

static CUresult write_value_alignment(bool wrong)
{
    return cu->stream_write_value(stream(0), gpu[0].b + (wrong ? 2 : 4), 1, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static CUresult write_value_pageable(bool wrong)
{
    static uint32_t pageable;
    return cu->stream_write_value(stream(0), wrong ? (CUdeviceptr)(uintptr_t)&pageable : gpu[0].b, 1,
                                  CU_STREAM_WRITE_VALUE_DEFAULT);
}

/* ---- modules and launches */
static CUresult no_image(bool wrong)
{
    CUmodule module;
    char path[300];
    snprintf(path, sizeof path, "%s/vgpu.so", scratch);
    return cu->module_load_data(&module, wrong ? "neither a cubin nor PTX" : read_file(path), 0, NULL, NULL);
}

static CUresult no_function(bool wrong)
{
    CUfunction function;
    return cu->module_get_function(&function, gpu[0].module, wrong ? "none" : "twice");
}

static CUresult parameter_bytes(bool wrong)
{
    CUfunction function;
    return cu->module_get_function(&function, gpu[0].module, wrong ? "too_many" : "many");
}

static CUresult static_shared(bool wrong)
{
    CUfunction function;
    return cu->module_get_function(&function, gpu[0].module, wrong ? "too_much" : "beside");
}

static CUfunction function_of(int d, const char *name)
{
    CUfunction function = NULL;
    MUST(cu->module_get_function(&function, gpu[d].module, name));
    return function;
}

static CUresult function_attribute(bool wrong)
{
    int value;
    return cu->func_get_attribute(&value, wrong ? 1000 : CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_of(0, "twice"));
}

static int most_shared(void)
{
    int bytes = 0;
    MUST(cu->device_get_attribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    return bytes;
}

static CUresult shared_asked(bool wrong)
{
    return cu->func_set_attribute(function_of(0, "twice"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  most_shared() + (wrong ? 1 : 0));
}

typedef struct Shape {
    unsigned grid[3], block[3], shared;
} Shape;
static CUresult launch(const char *name, Shape s)
{
    static int64_t n = 1;
    return cu->launch_kernel(function_of(0, name), s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2], s.shared,
                             stream(0), PARAMETERS(&gpu[0].a, &gpu[0].b, &n), NULL);
}

static CUresult empty_grid(bool wrong) { return launch("twice", (Shape){{wrong ? 0 : 1, 1, 1}, {32, 1, 1}, 0}); }
static CUresult empty_block(bool wrong) { return launch("twice", (Shape){{1, 1, 1}, {wrong ? 0 : 32, 1, 1}, 0}); }
static CUresult grid_x(bool wrong) { return wrong ? launch("twice", (Shape){{0x80000000u, 1, 1}, {32, 1, 1}, 0}) : CUDA_SUCCESS; }
static CUresult grid_y(bool wrong) { return launch("twice", (Shape){{1, wrong ? 65536 : 2, 1}, {1, 1, 1}, 0}); }
static CUresult grid_z(bool wrong) { return launch("twice", (Shape){{1, 1, wrong ? 65536 : 2}, {1, 1, 1}, 0}); }
static CUresult block_threads(bool wrong) { return launch("twice", (Shape){{1, 1, 1}, {wrong ? 1025 : 1024, 1, 1}, 0}); }
static CUresult block_product(bool wrong) { return launch("twice", (Shape){{1, 1, 1}, {32, wrong ? 33 : 32, 1}, 0}); }
static CUresult block_z(bool wrong) { return launch("twice", (Shape){{1, 1, 1}, {1, 1, wrong ? 65 : 64}, 0}); }
static CUresult shared_unasked(bool wrong)
{
    return launch("twice", (Shape){{1, 1, 1}, {32, 1, 1}, wrong ? (48 << 10) + 1 : 48 << 10});
}

static CUresult shared_as_asked(bool wrong)
{
    MUST(cu->func_set_attribute(function_of(0, "twice"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    return launch("twice", (Shape){{1, 1, 1}, {32, 1, 1}, wrong ? (64 << 10) + 1 : 64 << 10});
}

/* 168 registers: 5,376 of a warp, so 12 warps */
static CUresult registers(bool wrong) { return launch("twice", (Shape){{1, 1, 1}, {wrong ? 385 : 384, 1, 1}, 0}); }

static CUresult bounds(bool wrong)
{
    static const char PTX[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry bound()\n.maxntid 64, 1, 1\n{\nret;\n}\n";
    CUmodule module = NULL;
    CUfunction function = NULL;
    int most = 0;
    MUST(cu->module_load_data(&module, PTX, 0, NULL, NULL));
    MUST(cu->module_get_function(&function, module, "bound"));
    MUST(cu->func_get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CUresult r = cu->launch_kernel(function, 1, 1, 1, wrong ? 65 : 64, 1, 1, 0, stream(0), NULL, NULL);
    return most == 64 ? r : CUDA_ERROR_UNKNOWN;
}

static CUresult function_of_another_context(bool wrong)
{
    int64_t n = 1;
    return cu->launch_kernel(function_of(wrong ? 1 : 0, "twice"), 1, 1, 1, 32, 1, 1, 0, stream(0),
                             PARAMETERS(&gpu[0].a, &gpu[0].b, &n), NULL);
}

static CUresult no_parameters(bool wrong)
{
    int64_t n = 1;
    return cu->launch_kernel(function_of(0, "twice"), 1, 1, 1, 32, 1, 1, 0, stream(0),
                             wrong ? NULL : PARAMETERS(&gpu[0].a, &gpu[0].b, &n), NULL);
}

/* ---- launches with attributes: programmatic dependent launch */
static CUresult launch_twice(bool early)
{
    int64_t n = 1;
    void **parameters = PARAMETERS(&gpu[0].a, &gpu[0].b, &n);
    return early ? try_launch_early(stream(0), "twice", 1, 32, parameters)
                 : try_launch(0, stream(0), "twice", 1, 32, 0, parameters);
}

static CUresult early_after_nothing(bool wrong)
{
    if (wrong)
        MUST(cu->memset_d8_async(gpu[0].w, 0, 4, stream(0)));
    else
        MUST(launch_twice(false));
    return launch_twice(true);
}

static CUresult early_captured(bool wrong)
{
    MUST(cu->stream_begin_capture(stream(0), CU_STREAM_CAPTURE_MODE_RELAXED));
    return early_after_nothing(wrong);
}

static CUresult early_after_event(bool wrong)
{
    CUevent event = new_event();
    MUST(launch_twice(false));
    if (wrong)
        MUST(cu->event_record(event, stream(0)));
    return launch_twice(true);
}

/* what differs: the list, an attribute, the grid */
static CUresult launch_extended(CUlaunchAttribute *list, int attribute, unsigned blocks)
{
    int64_t n = 1;
    CUlaunchAttribute one = {.id = attribute};
    CUlaunchConfig config = {blocks, 1, 1, 32, 1, 1, 0, stream(0), list ? &one : NULL, 1};
    return cu->launch_kernel_ex(&config, function_of(0, "twice"), PARAMETERS(&gpu[0].a, &gpu[0].b, &n), NULL);
}

static CUresult no_attributes(bool wrong)
{
    CUlaunchAttribute some;
    return launch_extended(wrong ? NULL : &some, CU_LAUNCH_ATTRIBUTE_IGNORE, 1);
}

static CUresult no_such_attribute(bool wrong)
{
    CUlaunchAttribute some;
    return launch_extended(&some, wrong ? 1000 : CU_LAUNCH_ATTRIBUTE_IGNORE, 1);
}

static CUresult empty_grid_extended(bool wrong)
{
    CUlaunchAttribute some;
    return launch_extended(&some, CU_LAUNCH_ATTRIBUTE_IGNORE, wrong ? 0 : 1);
}

/* ---- streams and events */
static CUresult stream_flags(bool wrong)
{
    CUstream s;
    return cu->stream_create_with_priority(&s, wrong ? 2 : CU_STREAM_NON_BLOCKING, 0);
}

static CUresult event_flags(bool wrong)
{
    CUevent e;
    return cu->event_create(&e, wrong ? 64 : CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING);
}

static CUresult event_of_another_context(bool wrong)
{
    CUevent e = NULL;
    use(wrong ? 1 : 0);
    MUST(cu->event_create(&e, CU_EVENT_DEFAULT));
    use(0);
    return cu->event_record(e, stream(0));
}

static CUresult record_external(bool wrong)
{
    return cu->event_record_with_flags(new_event(), stream(0), wrong ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT);
}

static CUresult wait_external(bool wrong)
{
    CUevent e = new_event();
    MUST(cu->event_record(e, stream(0)));
    return cu->stream_wait_event(stream(1), e, wrong ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT);
}

static CUresult not_complete(bool wrong)
{
    CUevent e = new_event();
    LAUNCH(0, 0, "slow", 1, 1, 0, &gpu[0].a, &(int64_t){0}, &(int64_t){0});
    MUST(cu->event_record(e, stream(0)));
    MUST(wrong ? CUDA_SUCCESS : cu->event_synchronize(e));
    float ms;
    return cu->event_elapsed_time(&ms, e, e);
}

static CUresult time_of(bool recorded, unsigned flags, int device)
{
    CUevent begin = new_event(), end = NULL;
    float ms;
    MUST(cu->event_record(begin, stream(0)));
    MUST(cu->event_synchronize(begin));
    use(device);
    MUST(cu->event_create(&end, flags));
    if (recorded)
        MUST(cu->event_record(end, gpu[device].stream[0]));
    if (recorded)
        MUST(cu->event_synchronize(end));
    return cu->event_elapsed_time(&ms, begin, end);
}

static CUresult time_unrecorded(bool wrong) { return time_of(!wrong, CU_EVENT_DEFAULT, 0); }
static CUresult time_disabled(bool wrong) { return time_of(true, wrong ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT, 0); }
static CUresult time_between_devices(bool wrong) { return time_of(true, CU_EVENT_DEFAULT, wrong ? 1 : 0); }

/* ---- captures */
static void begin(int s, int mode) { MUST(cu->stream_begin_capture(stream(s), mode)); }

static CUresult end(int s)
{
    CUgraph graph = NULL;
    return cu->stream_end_capture(stream(s), &graph);
}

static CUresult capture_mode(bool wrong)
{
    return cu->stream_begin_capture(stream(0), wrong ? 3 : CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult capture_twice(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return cu->stream_begin_capture(stream(wrong ? 0 : 1), CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult end_uncaptured(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return end(wrong ? 1 : 0);
}

static void fork_to(int s)
{
    CUevent e = new_event();
    MUST(cu->event_record(e, stream(0)));
    MUST(cu->stream_wait_event(stream(s), e, 0));
}

static CUresult end_of_branch(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (wrong)
        fork_to(1);
    return end(wrong ? 1 : 0);
}

static CUresult unjoined(bool wrong)
{
    CUevent join = new_event();
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    fork_to(1);
    MUST(cu->memset_d8_async(gpu[0].b, 0, 64, stream(1)));
    MUST(cu->event_record(join, stream(1)));
    if (!wrong)
        MUST(cu->stream_wait_event(stream(0), join, 0));
    return end(0);
}

static CUresult ended;
static void *end_in_thread(void *unused)
{
    use(0);
    ended = end(0);
    return unused;
}

static CUresult end_elsewhere(bool wrong)
{
    pthread_t thread;
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    pthread_create(&thread, NULL, end_in_thread, NULL);
    pthread_join(thread, NULL);
    return ended;
}

static CUresult wait_while_captured(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return cu->stream_synchronize(stream(wrong ? 0 : 1));
}

static CUresult invalidated(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (wrong)
        cu->stream_synchronize(stream(0));
    return end(0);
}

static CUresult work_when_invalidated(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (wrong)
        cu->stream_synchronize(stream(0));
    return cu->memset_d8_async(gpu[0].b, 0, 64, stream(0));
}

static CUresult wait_from_outside(bool wrong)
{
    CUevent e = new_event();
    MUST(cu->event_record(e, stream(1)));
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return cu->stream_wait_event(stream(0), e, wrong ? CU_EVENT_WAIT_DEFAULT : CU_EVENT_WAIT_EXTERNAL);
}

static CUresult invalidated_by_wait(bool wrong)
{
    wait_from_outside(wrong);
    return end(0);
}

static CUresult two_captures(bool wrong)
{
    CUevent e = new_event();
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    begin(1, CU_STREAM_CAPTURE_MODE_RELAXED);
    MUST(cu->event_record(e, stream(wrong ? 0 : 1)));
    return cu->stream_wait_event(stream(1), e, 0);
}

/* what the runtime would do that recorded the end of an operation in a graph like outside of one */
static CUresult synchronize_captured(bool wrong)
{
    CUevent e = new_event();
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    MUST(cu->event_record_with_flags(e, stream(0), wrong ? CU_EVENT_RECORD_DEFAULT : CU_EVENT_RECORD_EXTERNAL));
    return cu->event_synchronize(e);
}

static CUresult follow_captured(bool wrong)
{
    CUevent e = new_event();
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    MUST(cu->event_record_with_flags(e, stream(0), wrong ? CU_EVENT_RECORD_DEFAULT : CU_EVENT_RECORD_EXTERNAL));
    MUST(end(0));
    return cu->stream_wait_event(stream(1), e, 0);
}

static CUresult note_while_captured(bool wrong)
{
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return cu->stream_write_value(stream(wrong ? 0 : 1), gpu[0].b, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static CUresult allocate_here(bool wrong)
{
    CUdeviceptr memory;
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return cu->mem_alloc(&memory, 256);
}

static void *allocate_in_thread(void *unused)
{
    CUdeviceptr memory;
    use(0);
    ended = cu->mem_alloc(&memory, 256);
    return unused;
}

static CUresult allocate_elsewhere(bool wrong)
{
    pthread_t thread;
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    pthread_create(&thread, NULL, allocate_in_thread, NULL);
    pthread_join(thread, NULL);
    return ended;
}

static CUresult captured_stream_destroyed(bool wrong)
{
    begin(wrong ? 0 : 1, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult r = cu->stream_destroy(stream(0));
    if (r == CUDA_SUCCESS)
        gpu[0].stream[0] = stream(2);
    return r;
}

/* ---- handles */
static CUresult stream_gone(bool wrong)
{
    CUstream s;
    MUST(cu->stream_create_with_priority(&s, CU_STREAM_NON_BLOCKING, 0));
    if (wrong)
        MUST(cu->stream_destroy(s));
    return cu->stream_synchronize(s);
}

static CUresult stream_destroyed_twice(bool wrong)
{
    CUstream s;
    MUST(cu->stream_create_with_priority(&s, CU_STREAM_NON_BLOCKING, 0));
    MUST(cu->stream_destroy(s));
    return wrong ? cu->stream_destroy(s) : CUDA_SUCCESS;
}

static CUresult event_gone(bool wrong)
{
    CUevent e = new_event();
    MUST(cu->event_record(e, stream(0)));
    if (wrong)
        MUST(cu->event_destroy(e));
    return cu->stream_wait_event(stream(1), e, 0);
}

static CUresult event_destroyed_twice(bool wrong)
{
    CUevent e = new_event();
    MUST(cu->event_destroy(e));
    return wrong ? cu->event_destroy(e) : CUDA_SUCCESS;
}

static CUgraph captured(void)
{
    CUgraph graph = NULL;
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    MUST(cu->stream_end_capture(stream(0), &graph));
    return graph;
}

static CUresult graph_gone(bool wrong)
{
    CUgraph graph = captured();
    CUgraphExec exec;
    if (wrong)
        MUST(cu->graph_destroy(graph));
    return cu->graph_instantiate(&exec, graph, 0);
}

static CUresult exec_gone(bool wrong)
{
    CUgraph graph = captured();
    CUgraphExec exec = NULL;
    MUST(cu->graph_instantiate(&exec, graph, 0));
    MUST(cu->graph_destroy(graph)); /* which the executable one outlives */
    if (wrong)
        MUST(cu->graph_exec_destroy(exec));
    return cu->graph_launch(exec, stream(0));
}

/* ---- graphs */
static CUresult graph_flags(bool wrong)
{
    CUgraph graph = NULL;
    CUgraphExec exec;
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    MUST(cu->stream_end_capture(stream(0), &graph));
    return cu->graph_instantiate(&exec, graph, wrong ? 1u << 20 : 0);
}

static CUresult no_graph(bool wrong) { return wrong ? cu->graph_launch(NULL, stream(0)) : CUDA_SUCCESS; }
static CUresult no_graph_to_upload(bool wrong) { return wrong ? cu->graph_upload(NULL, stream(0)) : CUDA_SUCCESS; }
static CUresult no_graph_to_destroy(bool wrong) { return wrong ? cu->graph_destroy(NULL) : CUDA_SUCCESS; }
static CUresult no_exec_to_destroy(bool wrong) { return wrong ? cu->graph_exec_destroy(NULL) : CUDA_SUCCESS; }
static CUresult no_event(bool wrong) { return cu->event_record(wrong ? NULL : new_event(), stream(0)); }
static CUresult no_stream(bool wrong) { return cu->stream_synchronize(wrong ? NULL : stream(0)); }

static void do_nothing(void *answer) { *(CUresult *)answer = CUDA_SUCCESS; }
static void ask_for_memory(void *answer)
{
    size_t available, total;
    *(CUresult *)answer = cu->mem_get_info(&available, &total);
}
static CUresult host_function_calls(bool wrong)
{
    static CUresult answer;
    MUST(cu->launch_host_func(stream(0), wrong ? ask_for_memory : do_nothing, &answer));
    MUST(cu->stream_synchronize(stream(0)));
    return answer;
}
static CUresult host_function_nowhere(bool wrong)
{
    static CUresult answer;
    return cu->launch_host_func(wrong ? NULL : stream(0), do_nothing, &answer);
}

/* ---- NCCL */
#define FIELD(result, symbol, field, parameters) result(*field) parameters;
static struct {
    NCCL_FUNCTIONS(FIELD) NCCL_LATER(FIELD)
} nccl;
static ncclComm_t comms[DEVICES];

static void look_up(const char *file, const char *symbol, void *field)
{
    void *library = dlopen(file, RTLD_NOW), *at = library ? dlsym(library, symbol) : NULL;
    if (!at)
        _exit(9);
    memcpy(field, &at, sizeof at);
}

static void open_nccl(void)
{
#define LOOK_UP(result, symbol, field, parameters) look_up(MGPU_BINARY "/vgpu/libnccl.so.2", #symbol, &nccl.field);
    NCCL_FUNCTIONS(LOOK_UP)
    NCCL_LATER(LOOK_UP)
#undef LOOK_UP
    if (nccl.comm_init_all(comms, DEVICES, NULL))
        _exit(9);
}

static void *at(CUdeviceptr memory) { return (void *)(uintptr_t)memory; }
static ncclResult_t reduce_of(CUdeviceptr memory, size_t count, int type, int root, CUstream s)
{
    return nccl.reduce(at(memory), at(memory), count, type, ncclSum, root, comms[0], s);
}

static CUresult nccl_same_gpu(bool wrong)
{
    open_nccl();
    return nccl.comm_init_all(comms, 2, wrong ? (int[]){0, 0} : (int[]){0, 1});
}

/* two members of one process, as two processes would */
static CUresult init_ranks(int count, int first, int second)
{
    ncclUniqueId id;
    open_nccl();
    ncclResult_t r = nccl.get_unique_id(&id);
    nccl.group_start();
    for (int d = 0; d < 2 && !r; d++) {
        use(d);
        r = nccl.comm_init_rank(&comms[d], count, id, d ? second : first);
    }
    ncclResult_t end = nccl.group_end();
    return r ? r : end;
}

static CUresult nccl_ranks(bool wrong) { return init_ranks(2, 0, wrong ? 0 : 1); }
static CUresult nccl_rank_of(bool wrong) { return init_ranks(2, 0, wrong ? 2 : 1); }

static CUresult nccl_id(bool wrong)
{
    ncclUniqueId id;
    open_nccl();
    return nccl.get_unique_id(wrong ? NULL : &id);
}

static CUresult nccl_id_of_nobody(bool wrong)
{
    ncclUniqueId id = {"nobody"};
    open_nccl();
    if (!wrong)
        nccl.get_unique_id(&id);
    use(0);
    return nccl.comm_init_rank(&comms[0], 1, id, 0);
}

static CUresult nccl_no_gpu(bool wrong)
{
    open_nccl();
    return nccl.comm_init_all(comms, 1, (int[]){wrong ? DEVICES : 0});
}

static CUresult nccl_root(bool wrong)
{
    open_nccl();
    return reduce_of(gpu[0].a, 16, ncclFloat32, wrong ? DEVICES : 0, stream(0));
}

static CUresult nccl_type(bool wrong)
{
    open_nccl();
    return reduce_of(gpu[0].a, 16, wrong ? 100 : ncclFloat32, 0, stream(0));
}

static CUresult nccl_stream(bool wrong)
{
    open_nccl();
    return reduce_of(gpu[0].a, 16, ncclFloat32, 0, gpu[wrong ? 1 : 0].stream[0]);
}

static CUresult nccl_memory(bool wrong)
{
    open_nccl();
    return reduce_of(gpu[wrong ? 1 : 0].a, 16, ncclFloat32, 0, stream(0));
}

static CUresult nccl_past_end(bool wrong)
{
    open_nccl();
    return reduce_of(gpu[0].a, FLOATS + (wrong ? 1 : 0), ncclFloat32, 0, stream(0));
}

static CUresult nccl_to_itself(bool wrong)
{
    open_nccl();
    return nccl.send(at(gpu[0].a), 16, ncclFloat32, wrong ? 0 : 1, comms[0], stream(0));
}

static CUresult nccl_group(bool wrong)
{
    open_nccl();
    if (!wrong)
        nccl.group_start();
    return nccl.group_end();
}

static CUresult nccl_one_thread(bool wrong)
{
    ncclResult_t r = ncclSuccess;
    open_nccl();
    if (!wrong)
        nccl.group_start();
    for (int d = 0; d < DEVICES && !r; d++) {
        use(d);
        r = nccl.all_reduce(at(gpu[d].a), at(gpu[d].a), 16, ncclFloat32, ncclSum, comms[d], gpu[d].stream[0]);
    }
    return wrong ? r : nccl.group_end();
}

static CUresult nccl_register(bool wrong)
{
    void *handle;
    open_nccl();
    return nccl.comm_register(comms[0], at(gpu[wrong ? 1 : 0].a), 4 * FLOATS, &handle);
}

static CUresult nccl_memory_without_context(bool wrong)
{
    void *memory;
    open_nccl();
    MUST(cu->ctx_set_current(wrong ? NULL : gpu[0].context));
    return nccl.mem_alloc(&memory, 256);
}

static void *nccl_memory_of(void)
{
    void *memory = NULL;
    open_nccl();
    return nccl.mem_alloc(&memory, 256) ? NULL : memory;
}

static CUresult nccl_frees_others(bool wrong)
{
    void *memory = nccl_memory_of();
    return nccl.mem_free(wrong ? at(gpu[0].a) : memory);
}

static CUresult nccl_freed_by_driver(bool wrong)
{
    CUdeviceptr memory = (CUdeviceptr)(uintptr_t)nccl_memory_of();
    return cu->mem_free(wrong ? memory : gpu[0].w);
}

static CUresult nccl_deregister(bool wrong)
{
    void *handle = NULL;
    open_nccl();
    if (nccl.comm_register(comms[0], at(gpu[0].a), 4 * FLOATS, &handle))
        _exit(9);
    return nccl.comm_deregister(comms[0], wrong ? at(gpu[0].b) : handle);
}

static CUresult nccl_no_communicator(bool wrong)
{
    ncclResult_t error;
    open_nccl();
    return nccl.comm_get_async_error(wrong ? NULL : comms[0], &error);
}

static CUresult nccl_destroy(bool wrong)
{
    open_nccl();
    return nccl.comm_destroy(wrong ? NULL : comms[0]);
}

/* while a thread captures: NCCL makes a communicator, destroys one, allocates, frees */
static CUresult nccl_init_captured(bool wrong)
{
    ncclUniqueId id;
    open_nccl();
    if (nccl.get_unique_id(&id))
        _exit(9);
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return nccl.comm_init_rank(&comms[0], 1, id, 0);
}

static CUresult nccl_init_all_captured(bool wrong)
{
    open_nccl();
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return nccl.comm_init_all(comms, DEVICES, NULL);
}

static CUresult nccl_destroy_captured(bool wrong)
{
    open_nccl();
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return nccl.comm_destroy(comms[0]);
}

static CUresult nccl_memory_captured(bool wrong)
{
    void *memory;
    open_nccl();
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return nccl.mem_alloc(&memory, 256);
}

static CUresult nccl_freed_captured(bool wrong)
{
    void *memory = nccl_memory_of();
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED);
    return nccl.mem_free(memory);
}

static ncclResult_t sum_of(void)
{
    return nccl.all_reduce(at(gpu[0].a), at(gpu[0].a), 16, ncclFloat32, ncclSum, comms[0], stream(0));
}

static CUresult nccl_captured_globally(bool wrong)
{
    open_nccl();
    begin(0, wrong ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return sum_of();
}

/* on a machine on which neither may be captured */
static CUresult nccl_too_old(bool wrong)
{
    open_nccl();
    if (wrong)
        begin(0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return sum_of();
}

static CUresult nccl_graph_left(bool wrong)
{
    CUgraph graph;
    open_nccl();
    begin(0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (sum_of())
        _exit(9);
    MUST(cu->stream_end_capture(stream(0), &graph));
    if (!wrong)
        MUST(cu->graph_destroy(graph));
    return nccl.comm_destroy(comms[0]);
}

/* ---- cuBLASLt: A [8, 8] of f32 by B, to D */
static struct {
    CUBLASLT_FUNCTIONS(FIELD)
} lt;
static cublasLtHandle_t handle;
static cublasLtMatmulDesc_t desc;
static cublasLtMatrixLayout_t matrix[3];
static cublasLtMatmulPreference_t preference;
static cublasLtMatmulHeuristicResult_t chosen;

static void well(cublasStatus_t status)
{
    if (status)
        _exit(9);
}

static void open_cublaslt(void)
{
#define LOOK_UP(result, symbol, field, parameters) look_up(MGPU_BINARY "/vgpu/libcublasLt.so.13", #symbol, &lt.field);
    CUBLASLT_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    well(lt.create(&handle));
    well(lt.desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    for (int i = 0; i < 3; i++)
        well(lt.layout_create(&matrix[i], CUDA_R_32F, 8, 8, 8));
    well(lt.preference_create(&preference));
}

static cublasStatus_t look(cublasLtMatrixLayout_t d, int wanted)
{
    int count;
    return lt.get_heuristic(handle, desc, matrix[0], matrix[1], d, d, preference, wanted, &chosen, &count);
}

static cublasStatus_t multiply(int device)
{
    static const float ONE = 1, ZERO = 0;
    return lt.matmul(handle, desc, &ONE, at(gpu[0].a), matrix[0], at(gpu[0].b), matrix[1], &ZERO, at(gpu[0].w), matrix[2],
                     at(gpu[0].w), matrix[2], &chosen.algo, NULL, 0, gpu[device].stream[0]);
}

static CUresult lt_no_context(bool wrong)
{
    open_cublaslt();
    MUST(cu->ctx_set_current(wrong ? NULL : gpu[0].context));
    return lt.create(&handle);
}

static CUresult lt_wanted(bool wrong)
{
    open_cublaslt();
    return look(matrix[2], wrong ? 0 : 1);
}

static CUresult lt_pitch(bool wrong)
{
    cublasLtMatrixLayout_t d;
    open_cublaslt();
    well(lt.layout_create(&d, CUDA_R_32F, 8, 8, wrong ? 7 : 9));
    return look(d, 1);
}

static CUresult lt_extent(bool wrong)
{
    cublasLtMatrixLayout_t d;
    open_cublaslt();
    well(lt.layout_create(&d, CUDA_R_32F, 8, wrong ? 9 : 8, 8));
    return look(d, 1);
}

static CUresult lt_types(bool wrong)
{
    cublasLtMatrixLayout_t d;
    open_cublaslt();
    well(lt.layout_create(&d, wrong ? CUDA_R_64F : CUDA_R_32F, 8, 8, 8));
    return look(d, 1);
}

static CUresult lt_bf16(bool wrong)
{
    open_cublaslt();
    for (int i = 0; i < 3; i++)
        well(lt.layout_create(&matrix[i], wrong ? CUDA_R_16BF : CUDA_R_16F, 8, 8, 8));
    return look(matrix[2], 1);
}

static CUresult lt_tf32(bool wrong)
{
    open_cublaslt();
    well(lt.desc_create(&desc, wrong ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    return look(matrix[2], 1);
}

static CUresult lt_epilogue(bool wrong)
{
    uint32_t epilogue = wrong ? 3 : CUBLASLT_EPILOGUE_RELU;
    open_cublaslt();
    well(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return look(matrix[2], 1);
}

static CUresult lt_bias_type(bool wrong)
{
    int32_t type = wrong ? CUDA_R_64F : CUDA_R_32F;
    uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    open_cublaslt();
    well(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    well(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &gpu[0].b, sizeof(void *)));
    well(lt.desc_set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
    return look(matrix[2], 1);
}

static CUresult lt_attribute(bool wrong)
{
    int32_t type = CUBLAS_OP_T;
    open_cublaslt();
    return lt.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &type, wrong ? 2 : 4);
}

static CUresult lt_layout_attribute(bool wrong)
{
    int32_t count = 1;
    open_cublaslt();
    return lt.layout_set(matrix[0], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, wrong ? 8 : 4);
}

static CUresult lt_preference(bool wrong)
{
    uint64_t bytes = 0;
    open_cublaslt();
    return lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, wrong ? 4 : 8);
}

static CUresult lt_stream(bool wrong)
{
    open_cublaslt();
    well(look(matrix[2], 1));
    return multiply(wrong ? 1 : 0);
}

static CUresult lt_captured(bool wrong)
{
    open_cublaslt();
    well(look(matrix[2], 1));
    if (!wrong)
        well(multiply(0));
    begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
    return multiply(0);
}

/* ---- NVML */
static struct {
    NVML_FUNCTIONS(FIELD)
} nvml;

static void open_nvml(bool start)
{
#define LOOK_UP(result, symbol, field, parameters) look_up(MGPU_BINARY "/vgpu/libnvidia-ml.so.1", #symbol, &nvml.field);
    NVML_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (start && nvml.init())
        _exit(9);
}

static CUresult nvml_before_init(bool wrong)
{
    unsigned count;
    open_nvml(!wrong);
    return nvml.device_get_count(&count);
}

static CUresult nvml_shut_twice(bool wrong)
{
    open_nvml(true);
    nvmlReturn_t r = nvml.shutdown();
    return wrong ? nvml.shutdown() : r;
}

static CUresult nvml_index(bool wrong)
{
    nvmlDevice_t device;
    open_nvml(true);
    return nvml.device_get_handle(wrong ? DEVICES : 0, &device);
}

/* ---- all of them */
/* clang-format off */
static const struct { const char *name, *machine; Rule *rule; const char *word; CUresult status; } RULES[] = {
    {"flags of cuInit", NULL, init_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"the name of no error", NULL, error_name, IS(CUDA_ERROR_INVALID_VALUE)},
    {"the words of no error", NULL, error_text, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a device that there is not", NULL, device_ordinal, IS(CUDA_ERROR_INVALID_DEVICE)},
    {"a handle of no device", NULL, device_handle, IS(CUDA_ERROR_INVALID_DEVICE)},
    {"an attribute that there is not", NULL, device_attribute, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a call without a context", NULL, no_context, IS(CUDA_ERROR_INVALID_CONTEXT)},
    {"a context that was released", NULL, released_context, IS(CUDA_ERROR_CONTEXT_IS_DESTROYED)},
    {"a context released too often", NULL, released_too_often, IS(CUDA_ERROR_INVALID_CONTEXT)},
    {"flags of peer access", NULL, peer_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"peer access to itself", NULL, peer_of_itself, IS(CUDA_ERROR_INVALID_CONTEXT)},
    {"peer access without a link", "link 0 2 none", peer_without_link, IS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)},
    {"peer access twice", NULL, peer_twice, IS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)},
    {"memory of no bytes", NULL, no_bytes, IS(CUDA_ERROR_INVALID_VALUE)},
    {"more memory than there is", NULL, too_many_bytes, IS(CUDA_ERROR_OUT_OF_MEMORY)},
    {"memory freed twice", NULL, freed_twice, IS(CUDA_ERROR_INVALID_VALUE)},
    {"memory freed from its middle on", NULL, freed_inside, IS(CUDA_ERROR_INVALID_VALUE)},
    {"page-locked memory of no bytes", NULL, host_no_bytes, IS(CUDA_ERROR_INVALID_VALUE)},
    {"flags of page-locked memory", NULL, host_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"page-locked memory freed as a device's", NULL, host_freed_as_device, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an upload past the end", NULL, upload_past_end, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a download past the end", NULL, download_past_end, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a copy past the end", NULL, copy_past_end, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a fill past the end", NULL, fill_past_end, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a copy from another context's memory", NULL, peer_context, IS(CUDA_ERROR_INVALID_CONTEXT)},
    {"a note at an odd address", NULL, write_value_alignment, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a note in pageable memory", NULL, write_value_pageable, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an image of nothing", NULL, no_image, IS(CUDA_ERROR_NO_BINARY_FOR_GPU)},
    {"a function that there is not", NULL, no_function, IS(CUDA_ERROR_NOT_FOUND)},
    {"more than 4096 bytes of parameters", NULL, parameter_bytes, IS(CUDA_ERROR_INVALID_IMAGE)},
    {"more than 48 KiB of static shared memory", NULL, static_shared, IS(CUDA_ERROR_INVALID_IMAGE)},
    {"an attribute of no function", NULL, function_attribute, IS(CUDA_ERROR_INVALID_VALUE)},
    {"more shared memory asked for than a block can have", NULL, shared_asked, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an empty grid", NULL, empty_grid, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an empty block", NULL, empty_block, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a grid wider than 2^31 - 1", NULL, grid_x, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a grid higher than 65535", NULL, grid_y, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a grid deeper than 65535", NULL, grid_z, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a block of more than 1024 threads", NULL, block_threads, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a block of more than 1024 threads in two dimensions", NULL, block_product, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a block deeper than 64", NULL, block_z, IS(CUDA_ERROR_INVALID_VALUE)},
    {"more than 48 KiB of shared memory unasked", NULL, shared_unasked, IS(CUDA_ERROR_INVALID_VALUE)},
    {"more shared memory than was asked for", NULL, shared_as_asked, IS(CUDA_ERROR_INVALID_VALUE)},
    {"blocks of more threads than registers allow", "registers twice 168", registers, IS(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)},
    {"blocks of more threads than a kernel's text says", NULL, bounds, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a function of another context", NULL, function_of_another_context, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a launch without parameters", NULL, no_parameters, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a list of attributes that is not there", NULL, no_attributes, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an attribute of launches that there is not", NULL, no_such_attribute, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an empty grid, with attributes", NULL, empty_grid_extended, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a kernel that begins early after a fill", NULL, early_after_nothing, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a kernel that begins early after a fill, captured", NULL, early_captured, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a kernel that begins early after an event", NULL, early_after_event, IS(CUDA_ERROR_INVALID_VALUE)},
    {"flags of a stream", NULL, stream_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"flags of an event", NULL, event_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an event of another context", NULL, event_of_another_context, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"no event", NULL, no_event, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"no stream", NULL, no_stream, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a call of the driver by a function of the host", NULL, host_function_calls, IS(CUDA_ERROR_NOT_PERMITTED)},
    {"a function of the host for no stream", NULL, host_function_nowhere, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"an external record outside of a capture", NULL, record_external, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an external wait outside of a capture", NULL, wait_external, IS(CUDA_ERROR_INVALID_VALUE)},
    {"the time of what is not done", NULL, not_complete, IS(CUDA_ERROR_NOT_READY)},
    {"the time of what was not recorded", NULL, time_unrecorded, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"the time of an event without one", NULL, time_disabled, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"the time between two devices", NULL, time_between_devices, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a mode of capture that there is not", NULL, capture_mode, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a stream captured twice", NULL, capture_twice, IS(CUDA_ERROR_INVALID_VALUE)},
    {"the end of no capture", NULL, end_uncaptured, IS(CUDA_ERROR_INVALID_VALUE)},
    {"the end of a capture in its branch", NULL, end_of_branch, IS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)},
    {"a branch that is not joined", NULL, unjoined, IS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)},
    {"the end of a capture by another thread", NULL, end_elsewhere, IS(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)},
    {"a wait of the host for a captured stream", NULL, wait_while_captured, IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)},
    {"the end of an invalidated capture", NULL, invalidated, IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)},
    {"work for an invalidated capture", NULL, work_when_invalidated, IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)},
    {"a captured wait for an event from outside", NULL, wait_from_outside, IS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)},
    {"a capture invalidated by a wait", NULL, invalidated_by_wait, IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)},
    {"two captures that become one", NULL, two_captures, IS(CUDA_ERROR_STREAM_CAPTURE_MERGE)},
    {"a wait of the host for a captured event", NULL, synchronize_captured, IS(CUDA_ERROR_CAPTURED_EVENT)},
    {"a wait outside for an event captured without the external flag", NULL, follow_captured, IS(CUDA_ERROR_CAPTURED_EVENT)},
    {"a note while the stream is captured", NULL, note_while_captured, IS(CUDA_ERROR_NOT_SUPPORTED)},
    {"memory allocated by a thread that captures", NULL, allocate_here, IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)},
    {"memory allocated while another thread captures globally", NULL, allocate_elsewhere, IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)},
    {"a stream destroyed while it is captured", NULL, captured_stream_destroyed, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a wait for a stream that was destroyed", NULL, stream_gone, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a stream destroyed twice", NULL, stream_destroyed_twice, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a wait for an event that was destroyed", NULL, event_gone, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"an event destroyed twice", NULL, event_destroyed_twice, IS(CUDA_ERROR_INVALID_HANDLE)},
    {"a graph that was destroyed", NULL, graph_gone, IS(CUDA_ERROR_INVALID_VALUE)},
    {"a launch of an executable graph that was destroyed", NULL, exec_gone, IS(CUDA_ERROR_INVALID_VALUE)},
    {"flags of a graph", NULL, graph_flags, IS(CUDA_ERROR_INVALID_VALUE)},
    {"no graph to launch", NULL, no_graph, IS(CUDA_ERROR_INVALID_VALUE)},
    {"no graph to upload", NULL, no_graph_to_upload, IS(CUDA_ERROR_INVALID_VALUE)},
    {"no graph to destroy", NULL, no_graph_to_destroy, IS(CUDA_ERROR_INVALID_VALUE)},
    {"no executable graph to destroy", NULL, no_exec_to_destroy, IS(CUDA_ERROR_INVALID_VALUE)},
    {"an id of NCCL to nowhere", NULL, nccl_id, IS(ncclInvalidArgument)},
    {"an id that NCCL has not made", NULL, nccl_id_of_nobody, IS(ncclSystemError)},
    {"a rank that is none", NULL, nccl_rank_of, IS(ncclInvalidArgument)},
    {"two members of one rank", NULL, nccl_ranks, IS(ncclInvalidArgument)},
    {"members of NCCL that share a GPU", NULL, nccl_same_gpu, IS(ncclInvalidUsage)},
    {"a member of NCCL without a GPU", NULL, nccl_no_gpu, IS(ncclInvalidArgument)},
    {"a root that is no member", NULL, nccl_root, IS(ncclInvalidArgument)},
    {"a type that NCCL does not have", NULL, nccl_type, IS(ncclInvalidArgument)},
    {"a transfer on another device's stream", NULL, nccl_stream, IS(ncclInvalidArgument)},
    {"a transfer of another device's memory", NULL, nccl_memory, IS(ncclInvalidArgument)},
    {"a transfer past the end", NULL, nccl_past_end, IS(ncclInvalidArgument)},
    {"a member that sends to itself", NULL, nccl_to_itself, IS(ncclInvalidArgument)},
    {"the end of no group", NULL, nccl_group, IS(ncclInvalidUsage)},
    {"a thread that issues for several members, not in a group", NULL, nccl_one_thread, IS(ncclInvalidUsage)},
    {"another device's memory registered", NULL, nccl_register, IS(ncclInvalidArgument)},
    {"memory of NCCL without a context", NULL, nccl_memory_without_context, IS(ncclUnhandledCudaError)},
    {"memory freed by NCCL that is not its own", NULL, nccl_frees_others, IS(ncclInvalidArgument)},
    {"NCCL's memory freed by the driver", NULL, nccl_freed_by_driver, IS(CUDA_ERROR_INVALID_VALUE)},
    {"memory deregistered that was not registered", NULL, nccl_deregister, IS(ncclInvalidArgument)},
    {"no communicator to ask", NULL, nccl_no_communicator, IS(ncclInvalidArgument)},
    {"no communicator to destroy", NULL, nccl_destroy, IS(ncclInvalidArgument)},
    {"a handle of cuBLASLt without a context", NULL, lt_no_context, IS(CUBLAS_STATUS_NOT_INITIALIZED)},
    {"no algorithm asked for", NULL, lt_wanted, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"a pitch less than the rows", NULL, lt_pitch, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"matrices that do not fit", NULL, lt_extent, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"types that cuBLASLt does not list", NULL, lt_types, IS(CUBLAS_STATUS_NOT_SUPPORTED)},
    {"bf16 on a GPU older than 8.0", "card * T4", lt_bf16, IS(CUBLAS_STATUS_NOT_SUPPORTED)},
    {"tf32 on a GPU older than 8.0", "card * T4", lt_tf32, IS(CUBLAS_STATUS_NOT_SUPPORTED)},
    {"an epilogue that there is not", NULL, lt_epilogue, IS(CUBLAS_STATUS_NOT_SUPPORTED)},
    {"a bias of another type", NULL, lt_bias_type, IS(CUBLAS_STATUS_NOT_SUPPORTED)},
    {"a size that is not the attribute's", NULL, lt_attribute, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"a size that is not the layout's attribute's", NULL, lt_layout_attribute, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"a size that is not the preference's", NULL, lt_preference, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"a matmul on another device's stream", NULL, lt_stream, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"a communicator made by a thread that captures", NULL, nccl_init_captured, IS(ncclUnhandledCudaError)},
    {"communicators made by a thread that captures", NULL, nccl_init_all_captured, IS(ncclUnhandledCudaError)},
    {"a communicator destroyed by a thread that captures", NULL, nccl_destroy_captured, IS(ncclUnhandledCudaError)},
    {"memory of NCCL allocated by a thread that captures", NULL, nccl_memory_captured, IS(ncclUnhandledCudaError)},
    {"memory of NCCL freed by a thread that captures", NULL, nccl_freed_captured, IS(ncclUnhandledCudaError)},
    {"a transfer of one of several threads, captured globally", NULL, nccl_captured_globally, IS(ncclUnhandledCudaError)},
    {"a transfer captured by an NCCL before 2.9", "nccl 2803", nccl_too_old, IS(ncclInvalidUsage)},
    {"a transfer captured with a driver before CUDA 11.3", "driver 11.2", nccl_too_old, IS(ncclInvalidUsage)},
    {"a communicator that ends before a graph that has its transfers", NULL, nccl_graph_left, IS(ncclInvalidUsage)},
    {"a matmul captured before it ran once", NULL, lt_captured, IS(CUBLAS_STATUS_INVALID_VALUE)},
    {"NVML asked before it is started", NULL, nvml_before_init, IS(NVML_ERROR_UNINITIALIZED)},
    {"NVML ended twice", NULL, nvml_shut_twice, IS(NVML_ERROR_UNINITIALIZED)},
    {"an index of no GPU", NULL, nvml_index, IS(NVML_ERROR_INVALID_ARGUMENT)},
};
/* clang-format on */

static Rule *rule_of_now;

/* nothing is waited for behind it: a stream may be captured, a context gone */
static void ask(int wrong)
{
    use(0);
    printf("%d", rule_of_now(wrong));
    fflush(stdout);
    _exit(0);
}

static void test_rule(int k)
{
    char report[2][REPORT], expected[2][20] = {"0"}, why[200];
    rule_of_now = RULES[k].rule;
    snprintf(expected[1], sizeof expected[1], "%d", RULES[k].status);
    bool good = true;
    for (int wrong = 0; wrong < 2; wrong++)
        good = !in_process(RULES[k].machine, 1, "vgpu", ask, wrong, report[wrong]) &&
               strcmp(report[wrong], expected[wrong]) == 0 && good;
    snprintf(why, sizeof why, "the right call answers '%.40s', the breach '%.40s', not %s (%s)", report[0], report[1],
             RULES[k].word, expected[1]);
    result(good, RULES[k].name, why);
}

/* ---- cards: what they can, and a byte more */
static const struct {
    const char *word, *name;
    int capability, shared;
} CARDS[] = {
    {"A100", "Virtual NVIDIA A100-SXM4-80GB", 80, 166912},
    {"H100", "Virtual NVIDIA H100 80GB HBM3", 90, 232448},
    {"H200", "Virtual NVIDIA H200", 90, 232448},
    {"B200", "Virtual NVIDIA B200", 100, 232448},
    {"RTX4090", "Virtual NVIDIA GeForce RTX 4090", 89, 101376},
    {"L4", "Virtual NVIDIA L4", 89, 101376},
    {"T4", "Virtual Tesla T4", 75, 65536},
};

static void look_at_card(int k)
{
    int major = 0, minor = 0, most = 0;
    char name[96];
    MUST(cu->device_get_name(name, sizeof name, 0));
    MUST(cu->device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    MUST(cu->device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    if (strcmp(name, CARDS[k].name) != 0 || 10 * major + minor != CARDS[k].capability || most_shared() != CARDS[k].shared)
        printf("%s, capability %d.%d, %d bytes of shared memory; ", name, major, minor, most_shared());
    for (int more = 0; more < 2; more++)
        if ((most = cu->func_set_attribute(function_of(0, "twice"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           CARDS[k].shared + more)) != more * CUDA_ERROR_INVALID_VALUE)
            printf("%d more than it has: %d; ", more, most);
    if (launch("twice", (Shape){{1, 1, 1}, {32, 1, 1}, (unsigned)CARDS[k].shared}))
        printf("what it has cannot be launched");
    fflush(stdout);
    _exit(0);
}

static void test_cards(void)
{
    for (int k = 0; k < COUNT(CARDS); k++) {
        char report[REPORT], machine[40], title[40];
        snprintf(machine, sizeof machine, "card * %s", CARDS[k].word);
        snprintf(title, sizeof title, "the limits of %s", CARDS[k].word);
        int status = in_process(machine, 1, "vgpu", look_at_card, k, report);
        result(!status && !*report, title, report);
    }
}

/* before cuInit; mgpu_cuda_driver would call it */
static void test_before_init(void)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CUresult (*count_of)(int *);
        int count;
        unsetenv("MGPU_VGPU");
        look_up(MGPU_BINARY "/vgpu/libcuda.so.1", "cuDeviceGetCount", &count_of);
        _exit(count_of(&count));
    }
    waitpid(child, &status, 0);
    result(WIFEXITED(status) && WEXITSTATUS(status) == CUDA_ERROR_NOT_INITIALIZED, "a call before cuInit",
           "it is not CUDA_ERROR_NOT_INITIALIZED");
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/vgpu_test.XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(scratch) || !build("vgpu", ""))
        return 3;
    test_before_init();
    test_cards();
    for (int k = 0; k < COUNT(RULES); k++)
        test_rule(k);
    return failures != 0;
}
