/* calls.c: calls of the driver for a device: error checks, the current context, and declarations of what work will touch. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"

#include <stdlib.h>
#include <string.h>

/* Errors of an operation issued earlier, or of the GPU in the meantime: those for which cuda.h says that the process cannot
 * continue, that the context is unusable, that an error was uncorrectable, or nothing (tests/declarations.test). */
static const CUresult ASYNC_ERRORS[] = {CUDA_ERROR_ECC_UNCORRECTABLE,
                                        CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                        CUDA_ERROR_CONTAINED,
                                        CUDA_ERROR_ILLEGAL_ADDRESS,
                                        CUDA_ERROR_LAUNCH_TIMEOUT,
                                        CUDA_ERROR_ASSERT,
                                        CUDA_ERROR_HARDWARE_STACK_ERROR,
                                        CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                        CUDA_ERROR_MISALIGNED_ADDRESS,
                                        CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                        CUDA_ERROR_INVALID_PC,
                                        CUDA_ERROR_LAUNCH_FAILED,
                                        CUDA_ERROR_TENSOR_MEMORY_LEAK,
                                        CUDA_ERROR_MPS_CLIENT_TERMINATED,
                                        CUDA_ERROR_EXTERNAL_DEVICE,
                                        CUDA_ERROR_UNKNOWN};

static bool is_async_error(CUresult r)
{
    for (int i = 0; i < MGPU_COUNT(ASYNC_ERRORS); i++)
        if (ASYNC_ERRORS[i] == r)
            return true;
    return false;
}

static bool waits_for_each(void)
{
    const char *graphs = getenv("MGPU_GRAPHS");
    return graphs && strcmp(graphs, "wait") == 0;
}

/* If each operation is waited for, a device executes one at a time, and only the thread that issued it reports its failure. Other
 * threads get the error, too; they wait until that operation is over, which never happens. (Devices that share a GPU fail
 * together.) */
static _Thread_local const CudaDevice *serialized_on;

void mgpu_cuda_serialize_on(const CudaDevice *d) { serialized_on = d; }

const char *mgpu_cuda_error_text(const CudaDevice *d, CUresult r, const char *call, char text[400])
{
    char error[200];
    bool late = is_async_error(r), each = waits_for_each(), own = serialized_on == d;
    mgpu_cuda_error(d->cuda, r, error);
    if (late && !each)
        d->fail_async(d->owner, error, call);
    if (late && each && !own)
        pthread_mutex_lock(d->serial_lock);
    if (late && each && own)
        snprintf(text, 400, "it failed: %s", error);
    else
        snprintf(text, 400, "%s%s: %s", call, d->tries_transfer ? " of a transfer that is tried" : "", error);
    return text;
}

void mgpu_cuda_check(const CudaDevice *d, int lane, CUresult r, const char *call)
{
    char text[400];
    atomic_fetch_add_explicit(d->returned, 1, memory_order_relaxed);
    if (r != CUDA_SUCCESS)
        d->fail(d->owner, lane, mgpu_cuda_error_text(d, r, call, text));
}

void mgpu_cuda_library_failed(const CudaDevice *d, int lane, const char *call, const char *status, const char *variable)
{
    char text[300];
    size_t free_bytes, all_bytes;
    mgpu_cuda_check(d, lane, d->cuda->mem_get_info(&free_bytes, &all_bytes), call); /* fails first if the device has failed */
    snprintf(text, sizeof text, "%s: %s; %s=off goes without it", call, status, variable);
    d->fail(d->owner, lane, text);
}

void mgpu_cuda_enter(const CudaDevice *d, int lane)
{
    mgpu_cuda_check(d, lane, d->cuda->ctx_set_current(d->context), "cuCtxSetCurrent");
}

void mgpu_cuda_declare(const CudaDevice *d, int lane, const char *operation, const CudaRange *ranges, int count)
{
    if (d->cuda->declare)
        d->cuda->declare(d->stream[lane], operation, ranges, count);
}

void *mgpu_cuda_argument(const CudaDevice *d, const mgpu_device_phase *p, const mgpu_op *op, int argument)
{
    int i = 0;
    for (; p->buffers[mgpu_access_of(op, i)->buffer].kind == MGPU_STEP || argument > 0; i++)
        argument -= p->buffers[mgpu_access_of(op, i)->buffer].kind != MGPU_STEP;
    const mgpu_access *a = mgpu_access_of(op, i);
    return (void *)(uintptr_t)(d->arena + (CUdeviceptr)(p->buffers[a->buffer].offset + a->begin));
}

int64_t mgpu_cuda_workspace(const mgpu_op *op)
{
    const mgpu_access *work = mgpu_access_of(op, op->read_count + op->write_count - 1);
    return work->end - work->begin;
}
