/* one_shot.c: small all-reduces, also of moments, by a single kernel on each GPU that waits for those of the others
 * (mgpu_device_one_shot.h). In: a plan that asks for them, GPUs with peer access; out: a mailbox on each GPU, and launches.
 *
 * Why this cannot deadlock. These kernels of a lane, and NCCL's, are in one stream of each GPU, in the order of the plan, which
 * is the same on all GPUs. So of all incomplete ones, one is the first on all GPUs. What precedes it on its GPU (kernels of the
 * model, copies) depends on other GPUs only through earlier ones, which are complete. So it starts on each GPU as soon as there
 * is room: its blocks have fewer threads than two SMs, and everything else on the GPU ends by itself. It needs no later call of
 * the host, and the issuing threads wait for no GPU. Two devices on one GPU would have to run at the same time, which is not
 * guaranteed, so they use another implementation. So does the lane sync, whose kernels would wait concurrently with those of the
 * lane comm. */
#include "runtime/abi/mgpu_one_shot.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <stdlib.h>

enum { MOMENTS = ADD_FUNCTIONS };
struct OneShot {
    CUfunction (*exchange)[ADD_FUNCTIONS + 1]; /* [member]: by type, and for moments */
    CUdeviceptr *box;                          /* [member]: the mailbox */
    int64_t bytes;                             /* of the largest value */
};
static const char *const NAME[ADD_FUNCTIONS + 1] = {"mgpu_one_shot_f32",  "mgpu_one_shot_f64", "mgpu_one_shot_u8",
                                                    "mgpu_one_shot_u16",  "mgpu_one_shot_u32", "mgpu_one_shot_u64",
                                                    "mgpu_one_shot_bf16", "mgpu_one_shot_f16", "mgpu_one_shot_moments"};

bool mgpu_one_shot_takes(uint8_t transfer, uint8_t dtype, int64_t count)
{
    return mgpu_may_be_one_shot(transfer, count, mgpu_dtype_bytes(dtype)) && mgpu_cuda_adds(dtype);
}

void mgpu_one_shot_open(CudaCollective *c, int64_t bytes)
{
    if (!bytes)
        return;
    OneShot *s = c->one_shot = mgpu_allocate(1, sizeof *s);
    int64_t all = mgpu_one_shot_bytes(bytes, c->members);
    *s = (OneShot){.exchange = mgpu_allocate((size_t)c->members, sizeof *s->exchange),
                   .box = mgpu_allocate((size_t)c->members, sizeof *s->box),
                   .bytes = bytes};
    for (int d = 0; d < c->members; d++) {
        CudaDevice *own = c->devices[d];
        mgpu_cuda_enter(own, -1);
        s->box[d] = mgpu_cuda_allocate(own, all, all, "besides its arena, what devices exchange by single kernels takes");
        own->outside_arena_bytes += all;
        mgpu_cuda_declare(own, c->lane, "mailboxes are cleared", NULL, -1);
        mgpu_cuda_check(own, -1, own->cuda->memset_d8_async(s->box[d], 0, (size_t)all, own->stream[c->lane]), "cuMemsetD8Async");
        mgpu_cuda_check(own, -1, own->cuda->stream_synchronize(own->stream[c->lane]), "cuStreamSynchronize of mailboxes");
        for (int i = 0; i <= MOMENTS; i++)
            s->exchange[d][i] = mgpu_cuda_function(own, NAME[i]);
    }
}

void mgpu_one_shot_close(CudaCollective *c)
{
    OneShot *s = c->one_shot;
    for (int d = 0; d < c->members && s; d++) {
        CudaDevice *own = c->devices[d];
        mgpu_cuda_enter(own, -1);
        mgpu_cuda_check(own, -1, own->cuda->mem_free(s->box[d]), "cuMemFree");
        own->outside_arena_bytes -= mgpu_one_shot_bytes(s->bytes, c->members);
    }
    if (s) {
        free(s->exchange);
        free(s->box);
    }
    free(s);
    c->one_shot = NULL;
}

bool mgpu_one_shot_exchange(CudaCollective *c, int member, const Operand *o)
{
    OneShot *s = c->one_shot;
    CudaDevice *d = c->devices[member];
    CUdeviceptr value = (CUdeviceptr)(uintptr_t)o->data, end = value + (CUdeviceptr)(o->count * mgpu_dtype_bytes(o->dtype));
    mgpu_mailboxes m = {.words = mgpu_one_shot_words(s->bytes), .members = c->members, .member = member};
    CudaRange range[MGPU_MOST_MEMBERS + 4] = {{value, end, CUDA_READS, o->buffer}, {value, end, CUDA_WRITES, o->buffer}};
    CUdeviceptr exchanges = s->box[member] + (CUdeviceptr)mgpu_mailbox_bytes(s->bytes, c->members),
                last = exchanges + MGPU_ONE_SHOT_BLOCKS * sizeof(uint64_t);
    int ranges = 2, function = o->participants.transfer == MGPU_TRANSFER_REDUCE_MOMENTS ? MOMENTS : mgpu_add_function(o->dtype);
    range[ranges++] = (CudaRange){exchanges, last, CUDA_READS, "exchanges"};
    range[ranges++] = (CudaRange){exchanges, last, CUDA_WRITES, "exchanges"};
    for (int k = 0; k < c->members; k++) {
        m.box[k] = (uint64_t *)(uintptr_t)s->box[k];
        range[ranges++] =
            (CudaRange){s->box[k], s->box[k] + (CUdeviceptr)mgpu_mailbox_bytes(s->bytes, c->members), CUDA_EXCHANGES, "mailbox"};
    }
    m.exchanges = (uint64_t *)(uintptr_t)exchanges;
    int64_t count = o->count;
    void *parameters[] = {&m, &value, &count};
    if (count == 0)
        return true;
    mgpu_cuda_enter(d, c->lane);
    mgpu_cuda_declare(d, c->lane, o->name, range, ranges);
    mgpu_cuda_check(d, c->lane,
                    d->cuda->launch_kernel(s->exchange[member][function], MGPU_ONE_SHOT_BLOCKS, 1, 1, MGPU_ONE_SHOT_THREADS, 1, 1,
                                           0, d->stream[c->lane], parameters, NULL),
                    "cuLaunchKernel of an exchange");
    return true;
}
