/* device_cuda.c: a device that is a GPU, or one of several logical devices on a GPU, through NVIDIA's driver API.
 *
 * Kernels and collectives use the arena at its address on the GPU; staging is page-locked host memory. Every lane has a stream.
 * That of the lane host has copies to the host, so that they do not delay other lanes. Calls come from several threads of the
 * engine, so each one first makes the device's context current, which costs nothing if it already is. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/cuda/numa.h"
#include "runtime/cuda/nvtx.h"
#include "runtime/cuda/tuning.h"
#include "runtime/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 4 << 20 };

/* ---- the machine */
/* Checks calls before devices are opened and after they are closed; device -1: none. */
static void check_machine(const DeviceSet *m, int device, CUresult r, const char *call)
{
    char text[200];
    if (r == CUDA_SUCCESS)
        return;
    mgpu_cuda_error(m->cuda, r, text);
    if (device < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s: %s", call, text);
    mgpu_fail(MGPU_MACHINE_FAILED, "device %d (%s, %s): %s: %s%s%s", device, m->gpu[device]->name, m->gpu[device]->place, call,
              text, m->achieved ? "; " : "", m->achieved ? m->achieved : "");
}

static bool is_for_virtual(const mgpu_program *p)
{
    bool all = p->images && p->images->arch;
    for (const mgpu_image *i = p->images; all && i->arch; i++)
        all = strncmp(i->arch, "vgpu", 4) == 0;
    return all;
}

static DeviceSet *cuda_find(const char *wanted, const mgpu_program *p, const mgpu_plan *plan, Processes *processes)
{
    DeviceSet *m = mgpu_allocate(1, sizeof *m);
    DeviceList list = {0};
    const char *usual = p->gpus;
    char *why = mgpu_find_gpus(&m->list, &m->cuda);
    if (is_for_virtual(p) && !mgpu_cuda_is_virtual())
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "the program is made for virtual GPUs (--arch %s): MGPU_CUDA_LIBRARIES=build/vgpu names their libraries, in "
                  "the folder where mgpuc was built; "
                  "mgpuc without --arch compiles for GPUs that are here%s%s",
                  p->images->arch, why ? ": " : "", why ? why : "");
    if (why)
        mgpu_fail(MGPU_MACHINE_FAILED, "the program is made for NVIDIA GPUs: %s", why);
    if (m->list.remark)
        mgpu_say("%s: warning: %s", program_invocation_short_name, m->list.remark);
    if (wanted || usual)
        free(mgpu_read_devices(wanted ? wanted : usual, &list)); /* it was checked when the plan was chosen */
    list.compiled = !wanted;
    m->count = plan->devices;
    m->gpu = mgpu_allocate((size_t)m->count, sizeof *m->gpu);
    m->context = mgpu_allocate((size_t)m->count, sizeof *m->context);
    mgpu_choose_gpus(m, &list, processes);
    mgpu_free_devices(&list);
    check_machine(m, -1, m->cuda->driver_get_version(&m->version), "cuDriverGetVersion");
    return m;
}

static void cuda_leave(DeviceSet *m)
{
    for (int d = m->local.first; d < m->local.end; d++)
        check_machine(m, d, m->cuda->device_primary_ctx_release(m->gpu[d]->device), "cuDevicePrimaryCtxRelease");
    mgpu_free_gpus(&m->list);
    free(m->gpu);
    free(m->context);
    free(m);
}

/* ---- opening */
static void *allocate_on_node(const CudaDevice *d, size_t bytes, const char *call)
{
    cpu_set_t before;
    void *memory;
    bool near = mgpu_bind_to_node(MGPU_PCI_DEVICES, d->gpu->bus, &before);
    mgpu_cuda_check(d, -1, d->cuda->mem_host_alloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE), call);
    memset(memory, 0, bytes);
    if (near)
        mgpu_go_back(&before);
    return memory;
}

static void clear_arena(CudaDevice *d)
{
    size_t bytes = (size_t)(d->arena_bytes > 0 ? d->arena_bytes : 1);
    mgpu_cuda_check(d, -1, d->cuda->memset_d8_async(d->arena, 0, bytes, d->stream[MGPU_COMP]), "cuMemsetD8Async");
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[MGPU_COMP]), "cuMemsetD8Async");
}

static void open_memory(CudaDevice *d, const DevicePlan *p)
{
    size_t bytes = (size_t)(p->device->arena_bytes > 0 ? p->device->arena_bytes : 1);
    size_t staging = (size_t)(p->device->staging_bytes > 0 ? p->device->staging_bytes : 1);
    d->arena = mgpu_nccl_allocate(d, (int64_t)bytes);
    d->nccl_arena = d->arena;
    if (!d->nccl_arena)
        d->arena = mgpu_cuda_allocate(d, (int64_t)bytes, mgpu_cuda_scratch(p->plan), "its arena takes");
    d->arena_bytes = p->device->arena_bytes;
    clear_arena(d);
    d->staging = allocate_on_node(d, staging, "cuMemHostAlloc of staging memory");
    d->bounce = allocate_on_node(d, BOUNCE_BYTES, "cuMemHostAlloc");
}

static void open_streams(CudaDevice *d)
{
    /* All-reduces of gradients have priority: the sooner they end, the more of them overlaps with the backward pass. */
    static const int PRIORITY[MGPU_LANES] = {[MGPU_COMM] = -1, [MGPU_SYNC] = -2, [MGPU_HOST] = -1};
    for (int lane = 0; lane < MGPU_LANES; lane++)
        mgpu_cuda_check(d, -1, d->cuda->stream_create_with_priority(&d->stream[lane], CU_STREAM_NON_BLOCKING, PRIORITY[lane]),
                        "cuStreamCreateWithPriority");
}

/* Allocates the pointers for cuLaunchKernel: to the arguments, a workspace, the step block's address, the samples and the
 * kernel's parameters. */
static void make_parameters(CudaDevice *d, const mgpu_plan *plan)
{
    for (int k = 0; k < plan->phase_count; k++)
        for (int i = 0; i < plan->phases[k].devices[d->number].op_count; i++) {
            const mgpu_op *op = &plan->phases[k].devices[d->number].ops[i];
            int count = op->read_count + op->write_count + 4;
            d->most_parameters = count > d->most_parameters ? count : d->most_parameters;
        }
    d->parameters = mgpu_allocate((size_t)d->most_parameters, sizeof *d->parameters);
}

/* Returns where to append what a library says of itself. */
static char *say_more(CudaDevice *d, size_t *capacity)
{
    size_t used = strlen(d->description);
    snprintf(d->description + used, sizeof d->description - used, ", ");
    used = strlen(d->description);
    *capacity = sizeof d->description - used;
    return d->description + used;
}

static void open_libraries(CudaDevice *d, const DevicePlan *p)
{
    bool multiplies = false, convolves = false;
    Tuning *tuning = p->tune ? mgpu_tuning_open(d) : NULL;
    size_t capacity;
    for (int k = 0; k < d->kernel_count; k++) {
        multiplies = multiplies || d->kernels[k].matmul;
        convolves = convolves || d->kernels[k].convolution;
    }
    if (tuning)
        mgpu_cuda_tune_tiles(d, tuning);
    if (multiplies) {
        char *description = say_more(d, &capacity);
        d->library = mgpu_cublaslt_open(d, d->kernel_count, description, capacity);
    }
    if (d->library)
        mgpu_cublaslt_prepare(d, d->library, tuning, d->description, sizeof d->description);
    if (convolves && mgpu_cudnn_wanted(d, p->tune)) {
        char *description = say_more(d, &capacity);
        d->cudnn = mgpu_cudnn_open(d, d->kernel_count, mgpu_cuda_scratch(p->plan), description, capacity);
    }
    if (d->cudnn)
        mgpu_cudnn_prepare(d, d->cudnn, tuning, d->description, sizeof d->description);
    if (tuning)
        mgpu_tuning_close(d, tuning, d->description, sizeof d->description);
}

/* Creates the context and loads the kernels, which the driver may have to compile. */
static Device *cuda_begin(const DevicePlan *p)
{
    CudaDevice *d = mgpu_allocate(1, sizeof *d);
    DeviceSet *m = p->machine;
    check_machine(m, p->number, m->cuda->device_primary_ctx_retain(&m->context[p->number], m->gpu[p->number]->device),
                  "cuDevicePrimaryCtxRetain");
    d->cuda = m->cuda;
    d->number = p->number;
    d->gpu = m->gpu[p->number];
    d->context = m->context[p->number];
    d->fail = p->fail;
    d->fail_async = p->fail_async;
    d->stage = p->stage;
    d->owner = p->context;
    d->returned = p->returned;
    d->program = p->program;
    d->plan = p->plan;
    d->machine = m;
    d->samples = p->device->shard.capacity;
    d->kernels = p->program->gpu_kernels;
    d->kernel_count = p->program->kernel_count;
    d->serial_lock = mgpu_allocate(1, sizeof *d->serial_lock);
    pthread_mutex_init(d->serial_lock, NULL);
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_load(d, p->program, p->tune);
    return (Device *)d;
}

static Device *cuda_open(const DevicePlan *p)
{
    CudaDevice *d = cuda_device(p->begun);
    DeviceSet *m = p->machine;
    mgpu_cuda_enter(d, -1);
    if (d->number == m->local.first && !d->program->exact && mgpu_cuda_may_use_nccl(m, p->plan))
        mgpu_nccl_find_memory(m, p->program);
    open_streams(d);
    open_memory(d, p);
    make_parameters(d, p->plan);
    if (d->program->exact)
        mgpu_cuda_open_shards(d);
    snprintf(d->description, sizeof d->description, "%s, driver %d.%d", d->gpu->name, m->version / 1000, m->version % 1000 / 10);
    open_libraries(d, p);
    if (p->tune || d->library || d->cudnn)
        clear_arena(d); /* trials have left data there */
    return (Device *)d;
}

static void cuda_close(Device *device)
{
    CudaDevice *d = cuda_device(device);
    const CudaDriver *cuda = d->cuda;
    mgpu_cuda_enter(d, -1);
    for (int i = 0; i < d->event_count; i++)
        mgpu_cuda_check(d, -1, cuda->event_destroy(d->events[i]), "cuEventDestroy");
    for (int lane = 0; lane < MGPU_LANES; lane++) {
        for (int i = 0; i < d->clocks[lane].count; i++)
            mgpu_cuda_check(d, -1, cuda->event_destroy(d->clocks[lane].events[i]), "cuEventDestroy");
        free(d->clocks[lane].events);
        mgpu_cuda_check(d, -1, cuda->stream_destroy(d->stream[lane]), "cuStreamDestroy");
    }
    mgpu_cublaslt_close(d, d->library);
    mgpu_cudnn_close(d, d->cudnn);
    mgpu_cuda_close_shards(d);
    if (!d->nccl_arena)
        mgpu_cuda_check(d, -1, cuda->mem_free(d->arena), "cuMemFree");
    else if (d->machine->nccl_free((void *)(uintptr_t)d->arena))
        d->fail(d->owner, -1, "ncclMemFree of its arena failed");
    mgpu_cuda_check(d, -1, cuda->mem_free_host(d->staging), "cuMemFreeHost");
    mgpu_cuda_check(d, -1, cuda->mem_free_host(d->bounce), "cuMemFreeHost");
    if (d->written_step)
        mgpu_cuda_check(d, -1, cuda->mem_free_host((void *)d->written_step), "cuMemFreeHost");
    if (d->launched)
        mgpu_cuda_check(d, -1, cuda->mem_free(d->launched), "cuMemFree");
    for (int i = 0; i < MGPU_COUNT(d->fork_events) && d->fork_events[i]; i++)
        mgpu_cuda_check(d, -1, cuda->event_destroy(d->fork_events[i]), "cuEventDestroy");
    for (int i = 0; i < d->module_count; i++)
        mgpu_cuda_check(d, -1, cuda->module_unload(d->modules[i]), "cuModuleUnload");
    free(d->modules);
    free(d->images);
    free(d->function);
    free(d->instead);
    free(d->events);
    free(d->parameters);
    pthread_mutex_destroy(d->serial_lock);
    free(d->serial_lock);
    free(d);
}

static int64_t cuda_arena_bytes(const Device *d) { return ((const CudaDevice *)d)->arena_bytes; }

static uint8_t *cuda_arena(Device *d) { return (uint8_t *)(uintptr_t)cuda_device(d)->arena; }

static uint8_t *cuda_staging(Device *d) { return cuda_device(d)->staging; }

static void cuda_copy_in(Device *device, int64_t offset, const void *from, int64_t bytes)
{
    CudaDevice *d = cuda_device(device);
    CUstream stream = d->stream[MGPU_HOST];
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_declare(d, MGPU_HOST, "a copy from the host", NULL, -1);
    for (int64_t at = 0, part; at < bytes; at += part) {
        part = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
        memcpy(d->bounce, (const uint8_t *)from + at, (size_t)part);
        mgpu_cuda_check(d, -1, d->cuda->memcpy_htod_async(d->arena + (CUdeviceptr)(offset + at), d->bounce, (size_t)part, stream),
                        "cuMemcpyHtoDAsync");
        mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(stream), "cuMemcpyHtoDAsync");
    }
}

static void cuda_copy_out(Device *device, int lane, void *to, int64_t offset, int64_t bytes)
{
    CudaDevice *d = cuda_device(device);
    CUstream stream = d->stream[MGPU_HOST];
    mgpu_cuda_enter(d, lane);
    if (lane < 0)
        mgpu_cuda_declare(d, MGPU_HOST, "a copy to the host", NULL, -1);
    for (int64_t at = 0, part; at < bytes; at += part) {
        part = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
        mgpu_cuda_check(d, lane,
                        d->cuda->memcpy_dtoh_async(d->bounce, d->arena + (CUdeviceptr)(offset + at), (size_t)part, stream),
                        "cuMemcpyDtoHAsync");
        mgpu_cuda_check(d, lane, d->cuda->stream_synchronize(stream), "cuMemcpyDtoHAsync");
        memcpy((uint8_t *)to + at, d->bounce, (size_t)part);
    }
}

static void cuda_settled(Device *d) { (void)d; }

static const char *cuda_library_name(const Device *d) { return ((const CudaDevice *)d)->description; }

static int64_t cuda_library_bytes(const Device *d) { return ((const CudaDevice *)d)->outside_arena_bytes; }

/* ---- asynchronous execution */
static void open_step_memory(CudaDevice *d, int count)
{
    void *memory = NULL;
    size_t bytes = (size_t)count * sizeof *d->written_step;
    if (!d->cuda->stream_write_value)
        return;
    mgpu_cuda_check(d, -1, d->cuda->mem_host_alloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    memset(memory, 0, bytes);
    CUresult r =
        d->cuda->stream_write_value(d->stream[MGPU_COMP], (CUdeviceptr)(uintptr_t)memory, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (r == CUDA_SUCCESS)
        r = d->cuda->stream_synchronize(d->stream[MGPU_COMP]);
    /* written numbers are not essential */
    if (r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_NOT_PERMITTED || r == CUDA_ERROR_INVALID_VALUE) {
        mgpu_cuda_check(d, -1, d->cuda->mem_free_host(memory), "cuMemFreeHost");
        return;
    }
    mgpu_cuda_check(d, -1, r, "cuStreamWriteValue32");
    d->written_step = memory;
}

static void cuda_create_events(Device *device, int count)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, -1);
    d->events = mgpu_allocate((size_t)count, sizeof *d->events);
    for (; d->event_count < count; d->event_count++)
        mgpu_cuda_check(d, -1,
                        d->cuda->event_create(&d->events[d->event_count], CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING),
                        "cuEventCreate");
    open_step_memory(d, count);
}

/* Some drivers cannot capture a write of a value, and a graph would write the same one in all its launches. So the launch writes
 * the value to device memory, and the graph copies it from there. */
static void capture_step_write(CudaDevice *d, int lane, int event_number)
{
    mgpu_cuda_declare(d, lane, "a note", NULL, -1);
    mgpu_cuda_check(
        d, lane,
        d->cuda->memcpy_dtoh_async((void *)&d->written_step[event_number], d->launched, sizeof *d->written_step, d->stream[lane]),
        "cuMemcpyDtoHAsync");
}

static void write_value(CudaDevice *d, int lane, CUdeviceptr to, uint32_t value)
{
    mgpu_cuda_check(d, lane, d->cuda->stream_write_value(d->stream[lane], to, value, CU_STREAM_WRITE_VALUE_DEFAULT),
                    "cuStreamWriteValue32");
}

static void cuda_write_step(Device *device, int lane, int event_number, uint32_t value)
{
    CudaDevice *d = cuda_device(device);
    if (!d->written_step)
        return;
    mgpu_cuda_enter(d, lane);
    if (d->captures)
        capture_step_write(d, lane, event_number);
    else
        write_value(d, lane, (CUdeviceptr)(uintptr_t)&d->written_step[event_number], value);
}

static uint32_t cuda_written_step(const Device *device, int event_number)
{
    const CudaDevice *d = (const CudaDevice *)device;
    return d->written_step ? atomic_load_explicit(&d->written_step[event_number], memory_order_acquire) : 0;
}

static bool cuda_writes_steps(const Device *device) { return ((const CudaDevice *)device)->written_step != NULL; }

static int64_t cuda_available(Device *device)
{
    const CudaDevice *d = cuda_device(device);
    size_t available = 0, total = 0;
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_check(d, -1, d->cuda->mem_get_info(&available, &total), "cuMemGetInfo");
    return (int64_t)available;
}

static bool cuda_failed(Device *device)
{
    const CudaDevice *d = cuda_device(device);
    size_t available, total;
    return d->cuda->ctx_set_current(d->context) != CUDA_SUCCESS || d->cuda->mem_get_info(&available, &total) != CUDA_SUCCESS;
}

/* In a capture, events are waited for from outside of the graph, unless they are `within`. */
static unsigned recorded(const CudaDevice *d) { return d->captures ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT; }

static void cuda_record_event(Device *device, int lane, int event_number, bool within)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, lane);
    mgpu_cuda_check(d, lane,
                    d->cuda->event_record_with_flags(d->events[event_number], d->stream[lane],
                                                     within ? CU_EVENT_RECORD_DEFAULT : recorded(d)),
                    "cuEventRecord");
}

static void cuda_wait_event(Device *device, int lane, int event_number)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, lane);
    mgpu_cuda_check(d, lane, d->cuda->stream_wait_event(d->stream[lane], d->events[event_number], CU_EVENT_WAIT_DEFAULT),
                    "cuStreamWaitEvent");
}

static const char *cuda_wait_on_host(Device *device, int event_number, char text[400])
{
    CudaDevice *d = cuda_device(device);
    CUresult r = d->cuda->ctx_set_current(d->context);
    if (r == CUDA_SUCCESS)
        r = d->cuda->event_synchronize(d->events[event_number]);
    return r == CUDA_SUCCESS ? NULL : mgpu_cuda_error_text(d, r, "cuEventSynchronize", text);
}

static void cuda_begin_serialized(Device *device)
{
    CudaDevice *d = cuda_device(device);
    pthread_mutex_lock(d->serial_lock);
    mgpu_cuda_serialize_on(d);
}

static void cuda_finish(Device *device, int lane)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, lane);
    mgpu_cuda_check(d, lane, d->cuda->stream_synchronize(d->stream[lane]), "cuStreamSynchronize");
    mgpu_cuda_serialize_on(NULL);
    pthread_mutex_unlock(d->serial_lock);
}

static void cuda_upload(Device *device, int64_t offset, const void *from, int64_t bytes)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, MGPU_COPY);
    mgpu_cuda_check(d, MGPU_COPY,
                    d->cuda->memcpy_htod_async(d->arena + (CUdeviceptr)offset, from, (size_t)bytes, d->stream[MGPU_COPY]),
                    "cuMemcpyHtoDAsync");
}

/* A captured call is launched with its graph, which is counted. */
static void count_launch(CudaDevice *d, int count, double began)
{
    if (d->captures)
        return;
    d->launches += count;
    d->launch_ns += (int64_t)(1e9 * (mgpu_seconds() - began));
}

static int64_t cuda_launches(const Device *device, double *seconds)
{
    const CudaDevice *d = (const CudaDevice *)device;
    *seconds = 1e-9 * (double)d->launch_ns;
    return d->launches;
}

static bool cuda_call(Device *device, const DeviceCall *call, int count, const mgpu_step *step, bool follows)
{
    CudaDevice *d = cuda_device(device);
    const mgpu_gpu_kernel *kernel = &d->kernels[call->op->target];
    double began = mgpu_seconds();
    mgpu_cuda_enter(d, MGPU_COMP);
    d->after_kernel = d->after_kernel && follows;
    if (kernel->calls_per_launch || count > 1) {
        count_launch(d, mgpu_cuda_launch_table(d, call, count, step, d->after_kernel), began);
        d->after_kernel = true;
        return true;
    }
    int issued = d->library && (kernel->matmul || mgpu_is_joined(kernel, call->op)) ? mgpu_cublaslt_run(d, d->library, call) : -1;
    int convolved = d->cudnn && kernel->convolution ? mgpu_cudnn_run(d, d->cudnn, call) : 0;
    issued = convolved ? convolved : issued;
    if (issued >= 0) {
        count_launch(d, issued, began);
        d->after_kernel = d->after_kernel && issued == 0;
        return issued > 0;
    }
    if (mgpu_cuda_sums(d, call->op)) {
        count_launch(d, mgpu_cuda_sum_shards(d, call, step), began);
        d->after_kernel = false;
        return true;
    }
    int launches =
        mgpu_cuda_launch(d, call->op, call->argument, call->arguments, mgpu_cuda_samples(d, call->op), step, d->after_kernel);
    count_launch(d, launches, began);
    d->after_kernel = d->after_kernel || launches > 0;
    return true;
}

static bool cuda_checks(const Device *d) { return ((const CudaDevice *)d)->cuda->declare != NULL; }

static void cuda_declare(Device *device, const mgpu_op *op, const char *operation, const DeviceRange *ranges, int count)
{
    const CudaDevice *d = cuda_device(device);
    CudaRange *there = mgpu_allocate((size_t)count + 1, sizeof *there);
    int all = 0;
    for (int i = 0; i < count; i++)
        there[all++] = (CudaRange){d->arena + (CUdeviceptr)ranges[i].begin, d->arena + (CUdeviceptr)ranges[i].end,
                                   ranges[i].writes, ranges[i].name};
    if (d->cudnn && op->verb == MGPU_CALL && d->kernels[op->target].convolution)
        there[all++] = mgpu_cudnn_workspace(d->cudnn);
    if (mgpu_cuda_sums(d, op))
        there[all++] = mgpu_cuda_terms(d);
    mgpu_cuda_declare(d, op->lane, operation, there, all);
    free(there);
}

static void cuda_publish(DeviceSet *m, const void *counter, int64_t value)
{
    if (m->cuda->publish)
        m->cuda->publish(counter, value);
}

static void cuda_waited_for(DeviceSet *m, const void *counter, int64_t at_least)
{
    if (m->cuda->waited_for)
        m->cuda->waited_for(counter, at_least);
}

/* Makes later work of a lane wait for what another lane has been issued. */
static void follow_lane(CudaDevice *d, int lane, int other)
{
    CUevent event = d->fork_events[other == MGPU_COMM];
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->event_record(event, d->stream[other]), "cuEventRecord");
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->stream_wait_event(d->stream[lane], event, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
}

static void create_fork_events(CudaDevice *d)
{
    for (int i = 0; i < MGPU_COUNT(d->fork_events); i++)
        mgpu_cuda_check(d, -1, d->cuda->event_create(&d->fork_events[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (d->written_step)
        d->launched =
            mgpu_cuda_allocate(d, sizeof *d->written_step, sizeof *d->written_step, "besides its arena, notes in graphs take");
}

/* NCCL asks for a thread-local capture ("Using NCCL with CUDA Graphs", Capture modes), as threads of other devices allocate
 * meanwhile. What NCCL itself calls is allowed in this mode. */
static void cuda_begin_segment(Device *device, bool transfers)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, MGPU_COMP);
    if (transfers && !d->fork_events[0])
        create_fork_events(d);
    mgpu_cuda_check(d, MGPU_COMP,
                    d->cuda->stream_begin_capture(d->stream[MGPU_COMP], transfers ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                                                  : CU_STREAM_CAPTURE_MODE_RELAXED),
                    "cuStreamBeginCapture");
    d->captures = true;
    d->captures_transfers = transfers;
    if (transfers)
        follow_lane(d, MGPU_COMM, MGPU_COMP);
}

typedef struct Graph {
    CUgraphExec exec;
    bool transfers;
} Graph;

static void *cuda_end_segment(Device *device)
{
    CudaDevice *d = cuda_device(device);
    CUgraph graph = NULL;
    Graph *kept = mgpu_allocate(1, sizeof *kept);
    *kept = (Graph){.transfers = d->captures_transfers};
    if (kept->transfers)
        follow_lane(d, MGPU_COMP, MGPU_COMM);
    d->captures = false;
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->stream_end_capture(d->stream[MGPU_COMP], &graph), "cuStreamEndCapture");
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->graph_instantiate(&kept->exec, graph, 0), "cuGraphInstantiateWithFlags");
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->graph_destroy(graph), "cuGraphDestroy");
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->graph_upload(kept->exec, d->stream[MGPU_COMP]), "cuGraphUpload");
    return kept;
}

/* Transfers of a graph and those that are issued singly must not run at the same time. */
static void cuda_launch(Device *device, void *segment, uint32_t value)
{
    CudaDevice *d = cuda_device(device);
    const Graph *g = segment;
    mgpu_cuda_enter(d, MGPU_COMP);
    double began = mgpu_seconds();
    if (g->transfers)
        follow_lane(d, MGPU_COMP, MGPU_COMM);
    if (g->transfers && d->launched) {
        mgpu_cuda_declare(d, MGPU_COMP, "a note", NULL, -1);
        write_value(d, MGPU_COMP, d->launched, value);
    }
    mgpu_cuda_check(d, MGPU_COMP, d->cuda->graph_launch(g->exec, d->stream[MGPU_COMP]), "cuGraphLaunch");
    if (g->transfers)
        follow_lane(d, MGPU_COMM, MGPU_COMP);
    count_launch(d, 1, began);
}

static void cuda_free_segment(Device *device, void *segment)
{
    CudaDevice *d = cuda_device(device);
    Graph *g = segment;
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_check(d, -1, d->cuda->graph_exec_destroy(g->exec), "cuGraphExecDestroy");
    free(g);
}

static void cuda_clock(Device *device, int lane, int number)
{
    CudaDevice *d = cuda_device(device);
    mgpu_cuda_enter(d, lane);
    if (number >= d->clocks[lane].count)
        d->clocks[lane].events = mgpu_resize(d->clocks[lane].events, (size_t)(number + 1) * sizeof(CUevent));
    for (; d->clocks[lane].count <= number; d->clocks[lane].count++)
        mgpu_cuda_check(d, lane, d->cuda->event_create(&d->clocks[lane].events[d->clocks[lane].count], CU_EVENT_DEFAULT),
                        "cuEventCreate");
    mgpu_cuda_check(d, lane, d->cuda->event_record_with_flags(d->clocks[lane].events[number], d->stream[lane], recorded(d)),
                    "cuEventRecord");
}

static double cuda_seconds(Device *device, int lane, int from, int to)
{
    CudaDevice *d = cuda_device(device);
    CUevent begin = d->clocks[lane].events[from], end = d->clocks[lane].events[to];
    float ms = 0;
    mgpu_cuda_enter(d, lane);
    mgpu_cuda_check(d, lane, d->cuda->event_synchronize(end), "cuEventSynchronize");
    mgpu_cuda_check(d, lane, d->cuda->event_elapsed_time(&ms, begin, end), "cuEventElapsedTime");
    return 1e-3 * (double)ms;
}

static void *cuda_locked(DeviceSet *m, int64_t bytes)
{
    void *memory = NULL;
    char call[60];
    snprintf(call, sizeof call, "cuMemHostAlloc of %lld bytes", (long long)bytes);
    check_machine(m, m->local.first, m->cuda->ctx_set_current(m->context[m->local.first]), "cuCtxSetCurrent");
    check_machine(m, m->local.first, m->cuda->mem_host_alloc(&memory, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE), call);
    return memset(memory, 0, (size_t)bytes);
}

static void cuda_unlock(DeviceSet *m, void *memory)
{
    check_machine(m, m->local.first, m->cuda->ctx_set_current(m->context[m->local.first]), "cuCtxSetCurrent");
    check_machine(m, m->local.first, m->cuda->mem_free_host(memory), "cuMemFreeHost");
}

static void cuda_achieved(DeviceSet *m, const char *what) { m->achieved = what; }

static void cuda_range(Device *d, const char *name)
{
    (void)d;
    if (name)
        mgpu_nvtx_push(name);
    else
        mgpu_nvtx_pop();
}

static const AsyncKind ASYNC = {
    .create_events = cuda_create_events,
    .record_event = cuda_record_event,
    .wait_event = cuda_wait_event,
    .write_step = cuda_write_step,
    .written_step = cuda_written_step,
    .writes_steps = cuda_writes_steps,
    .available = cuda_available,
    .failed = cuda_failed,
    .wait_on_host = cuda_wait_on_host,
    .begin = cuda_begin_serialized,
    .finish = cuda_finish,
    .upload = cuda_upload,
    .call = cuda_call,
    .checks = cuda_checks,
    .declare = cuda_declare,
    .publish = cuda_publish,
    .waited_for = cuda_waited_for,
    .begin_segment = cuda_begin_segment,
    .end_segment = cuda_end_segment,
    .launch = cuda_launch,
    .free_segment = cuda_free_segment,
    .clock = cuda_clock,
    .range = cuda_range,
    .seconds = cuda_seconds,
    .launches = cuda_launches,
    .locked = cuda_locked,
    .unlock = cuda_unlock,
    .achieved = cuda_achieved,
};

const DeviceKind mgpu_device_cuda = {
    .name = "cuda",
    .async = &ASYNC,
    .find = cuda_find,
    .leave = cuda_leave,
    .begin = cuda_begin,
    .open = cuda_open,
    .close = cuda_close,
    .arena_bytes = cuda_arena_bytes,
    .arena = cuda_arena,
    .staging = cuda_staging,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .connect = mgpu_cuda_connect,
    .settled = cuda_settled,
    .library_name = cuda_library_name,
    .library_bytes = cuda_library_bytes,
};
