/* launch.c: a call of the schedule -> launches of its kernel's functions on the lane comp. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"

static unsigned blocks_of(const mgpu_launch *l, int64_t samples)
{
    int64_t each = l->group > 0 ? (samples + l->group - 1) / l->group : samples;
    int64_t iterations = l->iterations + l->iterations_per_sample * each, blocks = (iterations + l->per_block - 1) / l->per_block;
    blocks = blocks < l->most ? blocks : l->most;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

int mgpu_cuda_launch(const CudaDevice *d, const mgpu_op *op, void **parameter, int count, const mgpu_step *step)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[op->target];
    void *nothing = NULL;
    int64_t samples = op->elements ? op->elements - 1 : d->samples;
    int launches = 0;
    if (kernel->spare)
        parameter[count++] = &nothing;
    parameter[count] = &step;
    parameter[count + 1] = &samples;
    parameter[count + 2] = (void *)(uintptr_t)kernel->parameters;
    for (int i = 0; i < 2; i++) {
        const mgpu_launch *l = &kernel->launch[i];
        if (!mgpu_launch_has_work(l, samples))
            continue;
        mgpu_cuda_check(d, MGPU_COMP,
                        d->cuda->launch_kernel(d->function[op->target][i], blocks_of(l, samples), 1, 1, (unsigned)l->threads, 1, 1,
                                               (unsigned)l->shared_bytes, d->stream[MGPU_COMP], parameter, NULL),
                        "cuLaunchKernel");
        launches++;
    }
    return launches;
}

void mgpu_cuda_launch_contraction(const CudaDevice *d, const mgpu_op *op, void *const argument[4])
{
    void *parameter[8];
    int count = 4 - d->kernels[op->target].library_work;
    for (int i = 0; i < count; i++)
        parameter[i] = (void *)(uintptr_t)&argument[i];
    mgpu_cuda_launch(d, op, parameter, count, NULL);
}
