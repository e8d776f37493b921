/* driver_streams.c: the functions of libcuda.so.1 that runtime/cuda/driver.h lists, for work, streams, graphs and events. */
#include "tests/vgpu/driver.h"
#include "tests/vgpu/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- work for streams */

static CUresult check_stream(CUstream s)
{
    return !vgpu_is_handle(s)                    ? CUDA_ERROR_INVALID_HANDLE
           : s->device != vgpu_current()->device ? CUDA_ERROR_INVALID_CONTEXT
                                                 : CUDA_SUCCESS;
}

CUresult vgpu_issue_or_capture(CUstream s, Work w)
{
    w.label = vgpu_share_label(s->label);
    w.device = s->device;
    if (s->capture)
        return vgpu_capture_work(s, w);
    if (w.kind == OP_COPY)
        vgpu_issue_copy(&w.copy);
    vgpu_issue(s, w, NULL, 0);
    return vgpu_failure(s->device);
}

static bool inside(uintptr_t address, size_t bytes, bool device)
{
    const Allocation *a = vgpu_find(address);
    return a ? (a->device != NULL) == device && !a->freed && address + bytes <= a->base + a->bytes
             : !device && !vgpu_device_of(address);
}

static CUresult issue_copy(const char *what, uintptr_t to, bool to_device, uintptr_t from, bool from_device, size_t bytes,
                           CUstream s)
{
    CUresult r = check_stream(s);
    if (r != CUDA_SUCCESS || bytes == 0)
        return r;
    if (!inside(to, bytes, to_device) || !inside(from, bytes, from_device))
        return CUDA_ERROR_INVALID_VALUE;
    return vgpu_issue_or_capture(s, (Work){.kind = OP_COPY, .what = what, .copy = {.to = to, .from = from, .bytes = bytes}});
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    CUresult r = vgpu_enter("cuMemcpyHtoDAsync");
    return vgpu_leave(r ? r : issue_copy("cuMemcpyHtoDAsync", (uintptr_t)to, true, (uintptr_t)from, false, bytes, stream));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult r = vgpu_enter("cuMemcpyDtoHAsync");
    r = r ? r : issue_copy("cuMemcpyDtoHAsync", (uintptr_t)to, false, (uintptr_t)from, true, bytes, stream);
    if (r == CUDA_SUCCESS && !vgpu_find((uintptr_t)to) && !stream->capture && !vgpu_finish(stream->last))
        r = vgpu_failure(stream->device); /* to memory that can be swapped out the driver copies before it returns */
    return vgpu_leave(r);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult r = vgpu_enter("cuMemcpyDtoDAsync");
    return vgpu_leave(r ? r : issue_copy("cuMemcpyDtoDAsync", (uintptr_t)to, true, (uintptr_t)from, true, bytes, stream));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    CUresult r = vgpu_enter("cuMemcpyPeerAsync");
    bool right = to_context && from_context && vgpu_device_of((uintptr_t)to) == to_context->device &&
                 vgpu_device_of((uintptr_t)from) == from_context->device;
    r = r ? r : right ? vgpu_failure(to_context->device) : CUDA_ERROR_INVALID_CONTEXT;
    r = r ? r : vgpu_failure(from_context->device);
    if (!r && to_context != from_context && (to_context->device->slice || from_context->device->slice))
        r = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return vgpu_leave(r ? r : issue_copy("cuMemcpyPeerAsync", (uintptr_t)to, true, (uintptr_t)from, true, bytes, stream));
}

static CUresult issue_set(const char *what, uintptr_t to, unsigned value, int width, size_t count, CUstream s)
{
    CUresult r = check_stream(s);
    if (r != CUDA_SUCCESS || count == 0)
        return r;
    if (!inside(to, count * (size_t)width, true) || to % (uintptr_t)width)
        return CUDA_ERROR_INVALID_VALUE;
    return vgpu_issue_or_capture(s, (Work){.kind = OP_SET, .what = what, .set = {to, value, width, count}});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    CUresult r = vgpu_enter("cuMemsetD8Async");
    return vgpu_leave(r ? r : issue_set("cuMemsetD8Async", (uintptr_t)to, value, 1, count, stream));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    CUresult r = vgpu_enter("cuMemsetD32Async");
    return vgpu_leave(r ? r : issue_set("cuMemsetD32Async", (uintptr_t)to, value, 4, count, stream));
}

/* into page-locked memory, too; not while the stream is captured, which takes newer drivers */
static CUresult write_value(CUstream s, CUdeviceptr to, uint32_t value, unsigned flags)
{
    CUresult r = check_stream(s);
    if (r != CUDA_SUCCESS)
        return r;
    const Allocation *a = vgpu_find((uintptr_t)to);
    if (!a || !inside((uintptr_t)to, 4, a->device != NULL) || to % 4 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return CUDA_ERROR_NOT_SUPPORTED;
    return vgpu_issue_or_capture(s, (Work){.kind = OP_SET, .what = "cuStreamWriteValue32", .set = {(uintptr_t)to, value, 4, 1}});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, uint32_t value, unsigned flags)
{
    CUresult r = vgpu_enter("cuStreamWriteValue32");
    return vgpu_leave(r ? r : write_value(stream, to, value, flags));
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *context)
{
    CUresult r = vgpu_enter("cuLaunchHostFunc");
    r = r ? r : check_stream(stream);
    return vgpu_leave(
        r ? r : vgpu_issue_or_capture(stream, (Work){.kind = OP_HOST, .what = "cuLaunchHostFunc", .host = {function, context}}));
}

size_t vgpu_parameter_bytes(CUfunction f)
{
    size_t bytes = 0;
    for (int k = 0; k < f->parameters; k++)
        bytes += (f->bytes[k] + 7u) / 8 * 8;
    return bytes;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, bool dependent,
                       CUstream s, void **parameters)
{
    CUresult r = check_stream(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!f || f->module->context->device != s->device)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads == 0 || threads > f->most_threads || block[2] > 64 || shared_bytes > f->most_shared || !grid[0] || !grid[1] ||
        !grid[2] || grid[0] > 0x7FFFFFFF || grid[1] > 65535 || grid[2] > 65535 || (f->parameters && !parameters))
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > (uint64_t)vgpu_most_threads(f))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (dependent && !vgpu_follows_kernel(s))
        return CUDA_ERROR_INVALID_VALUE;
    Work w = {.kind = OP_LAUNCH,
              .what = f->name,
              .call = {.function = f, .shared_bytes = shared_bytes, .dependent = dependent && s->device->major >= 9}};
    memcpy(w.call.grid, grid, sizeof w.call.grid);
    memcpy(w.call.block, block, sizeof w.call.block);
    unsigned char *at = w.call.values = calloc(1, vgpu_parameter_bytes(f) + 1);
    for (int k = 0; k < f->parameters; k++) {
        memcpy(at, parameters[k], f->bytes[k]);
        at += (f->bytes[k] + 7u) / 8 * 8;
    }
    return vgpu_issue_or_capture(s, w);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    CUresult r = vgpu_enter("cuLaunchKernel");
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    return vgpu_leave(r       ? r
                      : extra ? CUDA_ERROR_NOT_SUPPORTED
                              : launch(function, grid, block, shared_bytes, false, stream, parameters));
}

static CUresult launch_with_attributes(const CUlaunchConfig *c, CUfunction f, void **parameters)
{
    bool dependent = false;
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (const CUlaunchAttribute *a = c->attrs; a < c->attrs + c->numAttrs; a++) {
        if (a->id != CU_LAUNCH_ATTRIBUTE_IGNORE && a->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return CUDA_ERROR_INVALID_VALUE;
        dependent |=
            a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && a->value.programmaticStreamSerializationAllowed;
    }
    const unsigned grid[] = {c->gridDimX, c->gridDimY, c->gridDimZ}, block[] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    return launch(f, grid, block, c->sharedMemBytes, dependent, c->hStream, parameters);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    CUresult r = vgpu_enter("cuLaunchKernelEx");
    return vgpu_leave(r ? r : extra ? CUDA_ERROR_NOT_SUPPORTED : launch_with_attributes(config, function, parameters));
}

/* see runtime/cuda/driver.h */
VGPU_API void vgpuDeclare(void *stream, const char *operation, const CudaRange *ranges, int count)
{
    CUstream s = stream;
    pthread_mutex_lock(&vgpu_lock);
    size_t bytes = count > 0 ? (size_t)count * sizeof *ranges : 0;
    Label *l = malloc(sizeof *l);
    *l = (Label){1, operation ? vgpu_keep(operation) : NULL, bytes ? memcpy(malloc(bytes), ranges, bytes) : NULL, count};
    for (int k = 0; k < count; k++) {
        l->ranges[k].name = ranges[k].name ? vgpu_keep(ranges[k].name) : NULL;
        const Allocation *a = vgpu_find((uintptr_t)ranges[k].begin);
        if (ranges[k].begin < ranges[k].end && (!a || ranges[k].end > a->base + a->bytes))
            vgpu_violation(s->device, CUDA_ERROR_INVALID_VALUE, "declaration",
                           "%s: %s, %zu bytes, is not inside memory of a device", operation ? operation : "an operation",
                           ranges[k].name ? ranges[k].name : "an access", (size_t)(ranges[k].end - ranges[k].begin));
    }
    vgpu_drop_label(s->label);
    s->label = l;
    pthread_mutex_unlock(&vgpu_lock);
}

/* ---- streams */

static CUresult create_stream(CUstream *stream)
{
    static int number;
    CUstream s = *stream = calloc(1, sizeof *s);
    s->device = vgpu_current()->device;
    s->number = number++;
    s->chain = vgpu_new_chain();
    vgpu_add_stream(s);
    vgpu_add_handle(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUresult r = vgpu_enter("cuStreamCreateWithPriority");
    (void)priority;
    return vgpu_leave(r                                ? r
                      : flags > CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE
                      : !flags                         ? CUDA_ERROR_NOT_SUPPORTED
                                                       : create_stream(stream));
}

/* the driver goes on with what was issued; here it is done first */
static CUresult destroy_stream(CUstream s)
{
    if (!vgpu_is_handle(s) || s->capture)
        return CUDA_ERROR_INVALID_HANDLE;
    vgpu_drop_handle(s);
    vgpu_finish(s->last);
    vgpu_follow(s, NULL);
    vgpu_drop_label(s->label);
    vgpu_free_chain(s->chain);
    vgpu_remove_stream(s);
    free(s->tips);
    CUresult r = vgpu_failure(s->device);
    free(s);
    return r;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUresult r = vgpu_enter("cuStreamDestroy");
    return vgpu_leave(r ? r : destroy_stream(stream));
}

static CUresult finish_stream(CUstream s)
{
    CUresult r = check_stream(s);
    if (r == CUDA_SUCCESS && s->capture) {
        s->capture->spoiled = true;
        return VGPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (r == CUDA_SUCCESS)
        vgpu_finish(s->last);
    return r ? r : vgpu_failure(s->device);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult r = vgpu_enter("cuStreamSynchronize");
    return vgpu_leave(r ? r : finish_stream(stream));
}

static CUresult wait_event(CUstream s, CUevent e, unsigned flags)
{
    if (!vgpu_is_handle(s) || !vgpu_is_handle(e) || flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture || e->capture || flags)
        return vgpu_capture_wait(s, e, flags);
    if (e->op)
        vgpu_issue(s, (Work){.kind = OP_JOIN, .what = "cuStreamWaitEvent"}, &e->op, 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUresult r = vgpu_enter("cuStreamWaitEvent");
    return vgpu_leave(r ? r : wait_event(stream, event, flags));
}

/* ---- graphs */

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    CUresult r = vgpu_enter("cuStreamBeginCapture");
    r = r ? r : check_stream(stream);
    return vgpu_leave(r ? r : vgpu_begin_capture(stream, mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult r = vgpu_enter("cuStreamEndCapture");
    r = r ? r : check_stream(stream);
    return vgpu_leave(r ? r : vgpu_end_capture(stream, graph));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUresult r = vgpu_enter("cuGraphInstantiateWithFlags");
    return vgpu_leave(r ? r : !vgpu_is_handle(graph) || flags ? CUDA_ERROR_INVALID_VALUE : vgpu_instantiate(graph, exec));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    CUresult r = vgpu_enter("cuGraphUpload");
    return vgpu_leave(r ? r : !vgpu_is_handle(exec) ? CUDA_ERROR_INVALID_VALUE : check_stream(stream));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult r = vgpu_enter("cuGraphLaunch");
    r = r ? r : !vgpu_is_handle(exec) ? CUDA_ERROR_INVALID_VALUE : check_stream(stream);
    r = r ? r : stream->capture ? CUDA_ERROR_NOT_SUPPORTED : vgpu_launch_graph(exec, stream);
    return vgpu_leave(r ? r : vgpu_failure(stream->device));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult r = vgpu_enter("cuGraphExecDestroy");
    r = r ? r : vgpu_is_handle(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        vgpu_drop_handle(exec);
        vgpu_free_exec(exec);
    }
    return vgpu_leave(r);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult r = vgpu_enter("cuGraphDestroy");
    r = r ? r : vgpu_is_handle(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        vgpu_drop_handle(graph);
        vgpu_free_graph(graph);
    }
    return vgpu_leave(r);
}

/* ---- events */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult r = vgpu_enter("cuEventCreate");
    r = r ? r : flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS) {
        *event = calloc(1, sizeof **event);
        (*event)->device = vgpu_current()->device;
        (*event)->flags = flags;
        vgpu_add_handle(*event);
    }
    return vgpu_leave(r);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult r = vgpu_enter("cuEventDestroy");
    r = r ? r : vgpu_is_handle(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS) {
        vgpu_drop_handle(event);
        vgpu_let_go(event->op);
        free(event->tips);
        free(event);
    }
    return vgpu_leave(r);
}

static CUresult record(CUevent e, CUstream s, unsigned flags)
{
    if (!vgpu_is_handle(e) || !vgpu_is_handle(s) || e->device != s->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture)
        return vgpu_capture_record(s, e, flags);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    e->capture = 0;
    vgpu_let_go(e->op);
    e->op = NULL;
    e->op = vgpu_hold(vgpu_issue(s, (Work){.kind = OP_JOIN, .what = "cuEventRecord"}, NULL, 0));
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult r = vgpu_enter("cuEventRecord");
    return vgpu_leave(r ? r : record(event, stream, CU_EVENT_RECORD_DEFAULT));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    CUresult r = vgpu_enter("cuEventRecordWithFlags");
    return vgpu_leave(r ? r : record(event, stream, flags));
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult r = vgpu_enter("cuEventSynchronize");
    r = r ? r : !vgpu_is_handle(event) ? CUDA_ERROR_INVALID_HANDLE : event->capture ? vgpu_captured_event(event) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        vgpu_finish(event->op);
    return vgpu_leave(r ? r : vgpu_failure(event->device));
}

static CUresult elapsed(float *milliseconds, CUevent begin, CUevent end)
{
    if (!vgpu_is_handle(begin) || !vgpu_is_handle(end) || !begin->op || !end->op ||
        (begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING || begin->device != end->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->op->done || !end->op->done)
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(1e-3 * (end->op->end_us - begin->op->end_us));
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    CUresult r = vgpu_enter("cuEventElapsedTime");
    return vgpu_leave(r ? r : elapsed(milliseconds, begin, end));
}
