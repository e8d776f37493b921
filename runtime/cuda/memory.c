/* memory.c: allocates memory of GPUs. If it does not suffice, computes the largest batch whose arenas would fit.
 *
 * The plan has the arena's size for some numbers of samples (mgpu_room); in between, it is interpolated linearly. An arena is the
 * maximum over time of sums of buffers that grow linearly, so this never underestimates. Workspaces depend on the kernels of
 * either number of samples: the larger one counts. The driver rounds allocations up, hence a margin. Logical devices share the
 * memory of their GPU. */
#include "runtime/base/base.h"
#include "runtime/cuda/device_cuda.h"

#include <string.h>

/* Returns the bytes that the arena of each device on the GPU of device `number` may have, if all have equally many and allocate
 * `outside_arena` outside. Devices first allocate their arenas, one after the other, and then the rest. Device `number` is of
 * this process. */
static int64_t share_of(const CudaDevice *d, int number, int64_t outside_arena)
{
    const DeviceSet *m = d->machine;
    size_t available = 0, total = 0;
    int64_t devices = 0, taken = 0;
    mgpu_cuda_check(d, -1, d->cuda->ctx_set_current(m->context[number]), "cuCtxSetCurrent");
    mgpu_cuda_check(d, -1, d->cuda->mem_get_info(&available, &total), "cuMemGetInfo");
    for (int i = m->local.first; i < m->local.end; i++)
        if (m->gpu[i] == m->gpu[number]) {
            devices++;
            taken += d->arena || i < d->number ? d->plan->device[i].arena_bytes : 0;
            taken += d->arena && i < d->number ? outside_arena : 0;
        }
    int64_t bytes = (int64_t)available + taken;
    return (bytes - bytes / 4096) / devices - outside_arena;
}

/* Returns the most samples of a device whose arena has at most so many bytes; 0: not even one group fits. */
static int64_t samples_in(const mgpu_device *device, int64_t bytes)
{
    for (int i = device->room_count - 1; i >= 0; i--) {
        const mgpu_room *capacity = &device->rooms[i], *less = i ? capacity - 1 : capacity;
        if (capacity->bytes + capacity->work <= bytes)
            return capacity->samples;
        int64_t left = i ? bytes - (capacity->work > less->work ? capacity->work : less->work) - less->bytes : -1;
        if (left >= 0)
            return less->samples + (int64_t)((double)left / (double)(capacity->bytes - less->bytes) *
                                             (double)(capacity->samples - less->samples));
    }
    return 0;
}

/* Considers the GPUs of this process. Those of others cannot be queried, and are assumed to have as much memory. */
static int64_t batch_that_fits(const CudaDevice *d, int64_t outside_arena)
{
    const mgpu_program *p = d->program;
    int64_t samples = INT64_MAX, group = p->group > 0 ? p->group : 1, parts = p->accumulate > 0 ? p->accumulate : 1;
    for (int i = d->machine->local.first; i < d->machine->local.end; i++) {
        int64_t fit = samples_in(&d->plan->device[i], share_of(d, i, outside_arena));
        samples = fit < samples ? fit : samples;
    }
    return samples / group * group * d->plan->devices * parts;
}

static void find_cure(const CudaDevice *d, int64_t outside_arena, char *cure, size_t capacity)
{
    const mgpu_program *p = d->program;
    int64_t batch = batch_that_fits(d, outside_arena), least = d->plan->devices * (p->group > 0 ? p->group : 1);
    bool shared = false, half = strcmp(p->precision, "bf16") == 0 || strcmp(p->precision, "f16") == 0;
    for (int i = d->machine->local.first; i < d->machine->local.end; i++)
        shared = shared || (i != d->number && d->machine->gpu[i] == d->gpu);
    if (batch >= p->batch)
        snprintf(cure, capacity, "; it would fit: others who use the GPU (nvidia-smi lists them) may have taken it meanwhile");
    else if (batch > 0)
        snprintf(cure, capacity, "; a batch of %lld would fit (mgpuc --set batch=%lld), or more %s, or accumulate",
                 (long long)batch, (long long)batch, shared ? "GPUs" : "devices");
    else
        snprintf(cure, capacity, "; not even a batch of %lld would fit: a smaller model%s%s may", (long long)least,
                 half ? "" : ", a lower precision", shared ? ", fewer devices on one GPU" : "");
}

CUdeviceptr mgpu_cuda_allocate(const CudaDevice *d, int64_t bytes, int64_t outside_arena, const char *what)
{
    char text[600], cure[200] = "", wanted[32], left[32], all[32], error[200];
    size_t available = 0, total = 0;
    CUdeviceptr memory = 0;
    mgpu_cuda_check(d, -1, d->cuda->mem_get_info(&available, &total), "cuMemGetInfo");
    CUresult r = d->cuda->mem_alloc(&memory, (size_t)bytes);
    if (r == CUDA_SUCCESS)
        return memory;
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        find_cure(d, outside_arena, cure, sizeof cure);
    snprintf(text, sizeof text, "%s, %s: %s %s bytes, %s of %s are free (%s)%s", d->gpu->name, d->gpu->place, what,
             mgpu_grouped(bytes, wanted), mgpu_grouped((int64_t)available, left), mgpu_grouped((int64_t)total, all),
             mgpu_cuda_error(d->cuda, r, error), cure);
    d->fail(d->owner, -1, text);
}
