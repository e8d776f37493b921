/* tiles.c: --tune: chooses the fastest tiles for contractions by our own kernels on this GPU. In: a program of mgpuc --tune,
 * which has a contraction's kernel in several tiles, each as a kernel; out: the kernel that is launched in place of each one.
 * Libraries are compared with the result (cublaslt.c, cudnn.c). */
#include "runtime/base/base.h"
#include "runtime/cuda/tuning.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct TileTrial {
    const mgpu_device_phase *phase;
    const mgpu_op *op;
    const int *row;
} TileTrial;

static bool run_alternative(const CudaDevice *d, const void *context, int alternative)
{
    const TileTrial *t = context;
    d->instead[t->op->target] = t->row[alternative];
    mgpu_cuda_launch_first(d, t->phase, t->op);
    return true;
}

/* Writes to `row` the kernel itself and its alternatives that this GPU can run, at most kernel_count. */
static int find_rows(const CudaDevice *d, int kernel, int *row)
{
    int count = 0;
    row[count++] = kernel;
    for (int i = 0; i < d->kernel_count; i++)
        if (d->kernels[i].in_tiles_of == kernel + 1 && d->function[i][0])
            row[count++] = i;
    return count;
}

/* Returns a key of everything that times depend on. The names of functions include what they are compiled for. */
static char *key_of(const CudaDevice *d, const mgpu_op *op, const int *row, int count)
{
    char *key = mgpu_format("tiles %016" PRIx64 "/%lld, work %lld:", d->program->kernel_digests[op->target],
                            (long long)(op->elements ? mgpu_own_elements(op) : d->samples), (long long)mgpu_cuda_workspace(op));
    for (int i = 0; i < count; i++) {
        char *longer = mgpu_format("%s %s", key, d->kernels[row[i]].launch[0].function);
        free(key);
        key = longer;
    }
    return key;
}

static AlternativeTimes time_kernel(const CudaDevice *d, Tuning *tuning, const mgpu_device_phase *p, const mgpu_op *op,
                                    const int *row, int count)
{
    char *key = key_of(d, op, row, count);
    AlternativeTimes t = mgpu_time_alternatives(
        d, tuning,
        &(Alternatives){.key = key, .count = count, .usual = 0, .run = run_alternative, .context = &(TileTrial){p, op, row}});
    free(key);
    if (t.best_us >= t.kernel_us)
        t = (AlternativeTimes){0, t.kernel_us, t.kernel_us, t.kernel_us};
    d->instead[op->target] = row[t.best];
    return t;
}

static void tune_phase(const CudaDevice *d, Tuning *tuning, const mgpu_device_phase *p, AlternativeTimes *times)
{
    int *row = mgpu_allocate((size_t)d->kernel_count, sizeof *row);
    for (const mgpu_op *op = p->ops; op < p->ops + p->op_count; op++) {
        int count = op->verb == MGPU_CALL ? find_rows(d, op->target, row) : 0;
        if (count <= 1)
            continue;
        AlternativeTimes *t = &times[op->target];
        if (t->kernel_us <= 0)
            *t = time_kernel(d, tuning, p, op, row, count);
        mgpu_tuning_set(tuning, op, t->kernel_us, t->best_us);
    }
    free(row);
}

void mgpu_cuda_tune_tiles(CudaDevice *d, Tuning *tuning)
{
    AlternativeTimes *times = mgpu_allocate((size_t)d->kernel_count, sizeof *times);
    d->instead = mgpu_allocate((size_t)d->kernel_count, sizeof *d->instead);
    for (int k = 0; k < d->kernel_count; k++)
        d->instead[k] = k;
    for (int k = 0; k < d->plan->phase_count; k++)
        tune_phase(d, tuning, &d->plan->phases[k].devices[d->number], times);
    free(times);
}
