/* launch.c: a call of the schedule -> launches of its kernel's functions on the lane comp. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/engine/engine.h"

#include <string.h>

static unsigned blocks_of(const mgpu_launch *l, int64_t samples)
{
    int64_t each = l->group > 0 ? (samples + l->group - 1) / l->group : samples;
    int64_t iterations = l->iterations + l->iterations_per_sample * each, blocks = (iterations + l->per_block - 1) / l->per_block;
    blocks = blocks < l->most ? blocks : l->most;
    return (unsigned)(blocks > 0 ? blocks : 1);
}

/* parameter: addresses of the first `count`, with room for the others */
static int launch(const CudaDevice *d, const mgpu_op *op, void **parameter, int count, const mgpu_step *step)
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

/* ---- several calls of one function: a row of its table each (mgpu_calls in mgpu_device.h) */

enum { TABLE_BYTES = 4096 };
typedef struct CallTable {
    int64_t *n;
    void **argument;
    uint32_t *first, *given;
    int words, arguments;
} CallTable;

static CallTable table_in(uint64_t room[TABLE_BYTES / 8], const mgpu_gpu_kernel *kernel, int arguments)
{
    CallTable t = {.n = (int64_t *)room, .words = kernel->words > 0 ? kernel->words : 1, .arguments = arguments};
    t.argument = (void **)(t.n + kernel->together);
    t.first = (uint32_t *)(t.argument + (ptrdiff_t)kernel->together * arguments);
    t.given = t.first + kernel->together;
    if ((uint8_t *)(t.given + (ptrdiff_t)kernel->together * t.words) > (uint8_t *)(room + TABLE_BYTES / 8))
        mgpu_die("kernel %s: the table of %d calls is larger than %d bytes", kernel->name, kernel->together, (int)TABLE_BYTES);
    for (int i = 0; i < kernel->together; i++)
        t.first[i] = UINT32_MAX;
    return t;
}

/* -> its blocks */
static unsigned fill_row(const CallTable *t, int row, const mgpu_gpu_kernel *kernel, const DeviceCall *call, int64_t samples, unsigned first)
{
    t->n[row] = samples;
    t->first[row] = first;
    memcpy(t->argument + (ptrdiff_t)row * t->arguments, call->argument, (size_t)t->arguments * sizeof *t->argument);
    if (kernel->words > 0)
        memcpy(t->given + (ptrdiff_t)row * t->words, kernel->parameters, (size_t)kernel->words * sizeof *t->given);
    return blocks_of(&kernel->launch[0], samples);
}

int mgpu_cuda_launch_together(const CudaDevice *d, const DeviceCall *call, int count, const mgpu_step *step)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[call->op->target];
    uint64_t room[TABLE_BYTES / 8] = {0};
    CallTable table = table_in(room, kernel, call->arguments);
    void *parameters[] = {room, &step};
    unsigned blocks = 0;
    if (count > kernel->together)
        mgpu_die("kernel %s: %d calls in a launch of at most %d", kernel->name, count, kernel->together);
    for (int i = 0; i < count; i++) {
        int64_t samples = call[i].op->elements ? call[i].op->elements - 1 : d->samples;
        const mgpu_gpu_kernel *own = &d->kernels[call[i].op->target];
        if (strcmp(own->launch[0].function, kernel->launch[0].function) != 0 || call[i].arguments != call->arguments)
            mgpu_die("kernel %s: a launch with calls of another function, %s", kernel->name, own->name);
        blocks += fill_row(&table, i, own, &call[i], samples, blocks);
    }
    mgpu_cuda_check(d, MGPU_COMP,
                    d->cuda->launch_kernel(d->function[call->op->target][0], blocks, 1, 1, (unsigned)kernel->launch[0].threads, 1, 1, 0,
                                           d->stream[MGPU_COMP], parameters, NULL),
                    "cuLaunchKernel");
    return 1;
}

/* ---- a call */

int mgpu_cuda_launch(const CudaDevice *d, const mgpu_op *op, void *const *argument, int arguments, const mgpu_step *step)
{
    const mgpu_gpu_kernel *kernel = &d->kernels[op->target];
    const mgpu_epilogue *e = &kernel->epilogue;
    bool joined = mgpu_is_joined(kernel, op);
    int more = joined ? op->read_count - 1 - e->reads : 0; /* a matmul's operands, in the midst of the kernel's arguments */
    int count = joined ? e->reads + e->writes + e->workspace : arguments - kernel->library_work;
    for (int i = 0; i < count; i++)
        d->parameters[i] = (void *)(uintptr_t)&argument[!joined || i < e->reads ? i : i < e->reads + e->writes ? i + more : arguments - 1];
    return launch(d, op, d->parameters, count, step);
}

void mgpu_cuda_launch_first(const CudaDevice *d, const mgpu_device_phase *p, const mgpu_op *op)
{
    int arguments = 0;
    void *argument[op->read_count + op->write_count];
    const mgpu_step *step = NULL;
    for (const mgpu_access *a = op->access; a < op->access + op->read_count + op->write_count; a++) {
        const mgpu_buffer *buffer = &p->buffers[a->buffer];
        void *at = (void *)(uintptr_t)(d->arena + (CUdeviceptr)(buffer->offset + a->begin));
        if (buffer->kind == MGPU_STEP)
            step = at;
        else
            argument[arguments++] = at;
    }
    mgpu_cuda_launch(d, op, argument, arguments, step);
}
