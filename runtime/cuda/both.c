/* both.c: kernels that fuse a contraction with the statistics of its result (MGPU_EPILOGUE_STATISTICS). In: the schedule, in
 * which calls of statistics directly follow their contraction and have its operands; kernels that do both (mgpu_gpu_kernel.both).
 * Out: the calls for which these are launched; the contraction's own call then launches nothing.
 *
 * Not fused are contractions with split-K at this number of samples; those that a library computes, unless the compiler expects
 * the fused kernel to be faster; and, with --tune, those that are measured to be faster separately. */
#include "runtime/base/base.h"
#include "runtime/cuda/ways.h"
#include "runtime/engine/engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct Trial { const mgpu_device_phase *phase; const mgpu_op *op; int row; } Trial; /* row: -1: the call's own kernel */

static bool run_alone(const CudaDevice *d, const void *context, int way)
{
    const Trial *t = context;
    (void)way;
    mgpu_cuda_launch_first(d, t->phase, t->op, -1);
    return true;
}

static bool run_way(const CudaDevice *d, const void *context, int way)
{
    const Trial *t = context;
    mgpu_cuda_launch_first(d, t->phase, t->op, way ? t->row : -1);
    return true;
}

/* Returns the fused kernel, or -1 if there is none that this GPU can run. */
static int find_row(const CudaDevice *d, const mgpu_op *before, const mgpu_op *op)
{
    for (int i = 0; i < d->kernel_count; i++)
        if (d->kernels[i].both[0] == before->target + 1 && d->kernels[i].both[1] == op->target + 1)
            return d->function[i][0] && d->function[i][1] ? i : -1;
    return -1;
}

static int64_t samples_of(const CudaDevice *d, const mgpu_op *op) { return op->elements ? mgpu_own_elements(op) : d->samples; }

/* Decides without --tune. */
static bool is_usual(const CudaDevice *d, const mgpu_op *before, int row)
{
    if (d->cudnn && mgpu_cudnn_does(d->cudnn, before->target))
        return false;
    return d->kernels[row].preferred || !d->library || !mgpu_cublaslt_does(d->library, before);
}

static double time_alone(const CudaDevice *d, Tuning *tuning, const mgpu_device_phase *p, const mgpu_op *op)
{
    char *key = mgpu_format("kernel %016" PRIx64 "/%lld", d->program->kernel_digests[op->target], (long long)samples_of(d, op));
    Times t = mgpu_time_ways(d, tuning, &(Ways){.key = key, .count = 1, .usual = 0, .run = run_alone, .context = &(Trial){p, op, -1}});
    free(key);
    return t.own_us;
}

/* Returns true if the fused kernel is faster than two calls, and sets the operation's times. */
static bool is_faster(const CudaDevice *d, Tuning *tuning, const mgpu_device_phase *p, const mgpu_op *before, const mgpu_op *op, int row)
{
    char *key = mgpu_format("both %016" PRIx64 " %016" PRIx64 "/%lld: %s", d->program->kernel_digests[before->target],
                            d->program->kernel_digests[op->target], (long long)samples_of(d, op), d->kernels[row].launch[0].function);
    Times t = mgpu_time_ways(d, tuning, &(Ways){.key = key, .count = 2, .usual = 1, .run = run_way, .context = &(Trial){p, op, row}});
    free(key);
    double first = mgpu_tuning_us(tuning, before);
    if (isinf(first))
        first = time_alone(d, tuning, p, before);
    double apart = first + t.own_us, usual = mgpu_tuning_usual_us(tuning, before, first) + t.own_us;
    bool faster = t.best_us < apart;
    mgpu_tuning_set(tuning, before, d->kernels[row].preferred || !d->kernels[before->target].matmul ? t.best_us : usual, faster ? t.best_us : apart);
    return faster;
}

static void add(CudaDevice *d, const mgpu_op *op, int row)
{
    MGPU_PUSH(d->both, d->both_count, (BothCall){op, row});
}

static void join_calls(CudaDevice *d, Tuning *tuning, const mgpu_device_phase *p)
{
    for (const mgpu_op *op = p->ops; op < p->ops + p->op_count; op++) {
        const mgpu_gpu_kernel *k = op->verb == MGPU_CALL ? &d->kernels[op->target] : NULL;
        if (!k || k->epilogue.kind != MGPU_EPILOGUE_STATISTICS || !mgpu_is_joined(k, op))
            continue;
        const mgpu_op *before = mgpu_comp_before(p, op);
        int row = find_row(d, before, op);
        if (row < 0 || mgpu_launch_has_work(&d->kernels[before->target].launch[1], samples_of(d, before)))
            continue;
        if (tuning ? is_faster(d, tuning, p, before, op, row) : is_usual(d, before, row)) {
            add(d, before, -1);
            add(d, op, row);
        }
    }
}

static int by_operation(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const BothCall *)a)->op, y = (uintptr_t)((const BothCall *)b)->op;
    return (x > y) - (x < y);
}

void mgpu_cuda_join_calls(CudaDevice *d, Tuning *tuning)
{
    for (int k = 0; k < d->plan->phase_count; k++)
        join_calls(d, tuning, &d->plan->phases[k].devices[d->number]);
    if (d->both_count)
        qsort(d->both, (size_t)d->both_count, sizeof *d->both, by_operation);
}

const BothCall *mgpu_cuda_find_both(const CudaDevice *d, const mgpu_op *op)
{
    const BothCall key = {op, 0};
    return d->both_count ? bsearch(&key, d->both, (size_t)d->both_count, sizeof key, by_operation) : NULL;
}
