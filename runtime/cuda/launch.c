/* launch.c: launches the functions of a call's kernel on the lane comp. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/cuda/table.h"
#include "runtime/engine/engine.h"

#include <string.h>

static unsigned blocks_of(const mgpu_launch *l, int64_t samples)
{
    int64_t each = l->group > 0 ? (samples + l->group - 1) / l->group : samples;
    int64_t iterations = l->iterations + l->iterations_per_sample * each, blocks = (iterations + l->per_block - 1) / l->per_block;
    blocks = blocks < l->most ? blocks : l->most;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

/* follows: the preceding work in the stream is a kernel of the program. If this kernel waits for it by itself (mgpu_device.h),
 * the GPU may start it before that one has ended (CUDA Programming Guide, Programmatic Dependent Launch). */
static void launch_function(const CudaDevice *d, CUfunction function, unsigned blocks, const mgpu_launch *l, void **parameter,
                            bool follows)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {blocks, 1, 1, (unsigned)l->threads, 1, 1, (unsigned)l->shared_bytes, d->stream[MGPU_COMP],
                             &early, 1};
    if (d->overlaps && follows && l->waits)
        mgpu_cuda_check(d, MGPU_COMP, d->cuda->launch_kernel_ex(&config, function, parameter, NULL), "cuLaunchKernelEx");
    else
        mgpu_cuda_check(d, MGPU_COMP,
                        d->cuda->launch_kernel(function, blocks, 1, 1, (unsigned)l->threads, 1, 1, (unsigned)l->shared_bytes,
                                               d->stream[MGPU_COMP], parameter, NULL),
                        "cuLaunchKernel");
}

/* parameter: the addresses of the first `count` parameters, with room for the rest */
static int launch(const CudaDevice *d, int row, void **parameter, int count, int64_t samples, const mgpu_step *step, bool follows)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[row];
    void *nothing = NULL;
    int launches = 0;
    if (kernel->unused_workspace)
        parameter[count++] = &nothing;
    parameter[count] = &step;
    parameter[count + 1] = &samples;
    parameter[count + 2] = (void *)(uintptr_t)kernel->parameters;
    for (int i = 0; i < 2; i++) {
        const mgpu_launch *l = &kernel->launch[i];
        if (!mgpu_launch_has_work(l, samples))
            continue;
        launch_function(d, d->function[row][i], blocks_of(l, samples), l, parameter, follows || launches > 0);
        launches++;
    }
    return launches;
}

/* ---- several calls of one function */

static void add_call(const CudaDevice *d, CallTable *t, const DeviceCall *call, const mgpu_gpu_kernel *first)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[call->op->target];
    int64_t samples = mgpu_cuda_samples(d, call->op);
    if (strcmp(kernel->launch[0].function, first->launch[0].function) != 0 || call->arguments != t->arguments)
        mgpu_die("a launch of kernel %s has a call of another function, %s", first->name, kernel->name);
    mgpu_add_call(t, call->argument, samples, kernel->words > 0 ? kernel->parameters : NULL,
                  blocks_of(&kernel->launch[0], samples));
}

int mgpu_cuda_launch_table(const CudaDevice *d, const DeviceCall *call, int count, const mgpu_step *step, bool follows)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[call->op->target];
    const mgpu_launch *l = &kernel->launch[0];
    CallTable table;
    void *parameters[] = {table.bytes, &step};
    if (!mgpu_begin_table(&table, kernel->calls_per_launch, call->arguments, kernel->words) || count > kernel->calls_per_launch)
        mgpu_die("a launch of kernel %s has %d calls, of at most %d", kernel->name, count, kernel->calls_per_launch);
    for (int i = 0; i < count; i++)
        add_call(d, &table, &call[i], kernel);
    launch_function(d, d->function[call->op->target][0], table.blocks, l, parameters, follows);
    return 1;
}

/* ---- one call */

int mgpu_cuda_launch(const CudaDevice *d, const mgpu_op *op, void *const *argument, int arguments, int64_t samples,
                     const mgpu_step *step, bool follows)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[op->target];
    const mgpu_epilogue *e = &kernel->epilogue;
    bool joined = mgpu_is_joined(kernel, op);
    /* a matmul's operands, which are between the kernel's own arguments */
    int more = joined ? op->read_count - 1 - e->reads : 0;
    int count = joined ? e->reads + e->writes + e->workspace : arguments - kernel->library_work;
    for (int i = 0; i < count; i++)
        d->parameters[i] = (void *)(uintptr_t)&argument[!joined || i < e->reads    ? i
                                                        : i < e->reads + e->writes ? i + more
                                                                                   : arguments - 1];
    return launch(d, mgpu_cuda_row(d, op->target), d->parameters, count, samples, step, follows);
}

void mgpu_cuda_launch_first(const CudaDevice *d, const mgpu_device_phase *p, const mgpu_op *op)
{
    int arguments = 0;
    void *argument[op->read_count + op->write_count];
    const mgpu_step *step = NULL;
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        const mgpu_access *a = mgpu_access_of(op, i);
        const mgpu_buffer *buffer = &p->buffers[a->buffer];
        void *at = (void *)(uintptr_t)(d->arena + (CUdeviceptr)(buffer->offset + a->begin));
        if (buffer->kind == MGPU_STEP)
            step = at;
        else
            argument[arguments++] = at;
    }
    mgpu_cuda_launch(d, op, argument, arguments, mgpu_cuda_samples(d, op), step, false);
}
