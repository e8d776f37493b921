/* exact.c: sums over samples of exact programs (mgpu_exact.h) on a GPU.
 *
 * The order of the sums of a kernel depends on the number of samples. So a kernel with `sums` is launched once for each virtual
 * shard, as if its samples were all: what has samples begins at the shard's first sample, as does a copy of the step block; each
 * sum goes to a term, and when all terms are there, a kernel adds them by the tree (mgpu_device_exact.h). The terms of a shard
 * without samples are 0. All this is work of the lane comp, so one room for terms is enough for all calls. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_members.h"
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, BLOCKS = 64 };
static const char *const TREE_NAME[TREE_FUNCTIONS] = {"mgpu_tree_f32",  "mgpu_tree_f64", "mgpu_tree_u8",
                                                      "mgpu_tree_u16",  "mgpu_tree_u32", "mgpu_tree_u64",
                                                      "mgpu_tree_bf16", "mgpu_tree_f16", "mgpu_tree_moments"};

struct CudaShards {
    int count;                /* of the device */
    mgpu_shard_begins begins; /* their first samples, of the device's */
    int64_t end;              /* of the last one */
    CUdeviceptr steps;        /* [count]: step blocks, then the terms */
    int64_t bytes;            /* of both */
    CUfunction shift, tree[TREE_FUNCTIONS];
    void **argument; /* room for those of a call */
};

const char *mgpu_tree_name(int function) { return TREE_NAME[function]; }

int mgpu_tree_function(uint8_t type) { return type == MGPU_MOMENTS ? TREE_FUNCTIONS - 1 : mgpu_add_function(type); }

static int64_t bytes_of_steps(const CudaShards *s) { return mgpu_slot_bytes(s->count * (int64_t)sizeof(mgpu_step)); }

/* Returns the bytes of the terms of one shard. */
static int64_t bytes_of_terms(const mgpu_device_phase *p, const mgpu_op *op)
{
    int64_t bytes = 0;
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_buffer *b = &p->buffers[op->writes[i].buffer];
        if (b->kind != MGPU_WORKSPACE && b->each == 0)
            bytes += mgpu_slot_bytes(op->writes[i].end - op->writes[i].begin);
    }
    return bytes;
}

static void find_shards(CudaShards *s, const CudaDevice *d)
{
    int64_t first[MGPU_MOST_MEMBERS + 1];
    if (d->program->exact > MGPU_MOST_MEMBERS)
        mgpu_die("a GPU with %lld virtual shards", (long long)d->program->exact);
    s->count = (int)mgpu_device_shards(d->program, d->plan, d->number, first);
    memcpy(s->begins.begin, first, (size_t)s->count * sizeof *first);
    s->end = first[s->count];
}

void mgpu_cuda_open_shards(CudaDevice *d)
{
    CudaShards *s = d->exact = mgpu_allocate(1, sizeof *s);
    int64_t most = 0;
    find_shards(s, d);
    for (int k = 0; k < d->plan->phase_count; k++) {
        const mgpu_device_phase *p = &d->plan->phases[k].devices[d->number];
        for (int i = 0; i < p->op_count; i++) {
            int64_t bytes = mgpu_cuda_sums(d, &p->ops[i]) ? bytes_of_terms(p, &p->ops[i]) : 0;
            most = bytes > most ? bytes : most;
        }
    }
    s->bytes = bytes_of_steps(s) + most * s->count;
    s->steps = mgpu_cuda_allocate(d, s->bytes, s->bytes, "besides its arena, the sums of virtual shards take");
    d->outside_arena_bytes += s->bytes;
    s->shift = mgpu_cuda_function(d, "mgpu_shard_steps");
    for (int i = 0; i < TREE_FUNCTIONS; i++)
        s->tree[i] = mgpu_cuda_function(d, TREE_NAME[i]);
    s->argument = mgpu_allocate((size_t)d->most_parameters, sizeof *s->argument);
}

void mgpu_cuda_close_shards(CudaDevice *d)
{
    if (!d->exact)
        return;
    mgpu_cuda_check(d, -1, d->cuda->mem_free(d->exact->steps), "cuMemFree");
    free(d->exact->argument);
    free(d->exact);
}

CudaRange mgpu_cuda_terms(const CudaDevice *d)
{
    return (CudaRange){d->exact->steps, d->exact->steps + (CUdeviceptr)d->exact->bytes, true, "terms"};
}

/* ---- a call */
static void launch(const CudaDevice *d, CUfunction function, int64_t blocks, void **parameters)
{
    blocks = blocks < 1 ? 1 : blocks < BLOCKS ? blocks : BLOCKS;
    mgpu_cuda_check(
        d, MGPU_COMP,
        d->cuda->launch_kernel(function, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, d->stream[MGPU_COMP], parameters, NULL),
        "cuLaunchKernel of a sum over virtual shards");
}

static bool is_sum(const DeviceCall *c, int write) { return c->each[c->arguments - c->op->write_count + write] == 0; }

/* Adds the terms of one result. from: that of the first shard; apart: bytes from one shard's to the next one's */
static void add_terms(const CudaDevice *d, const DeviceCall *c, int write, CUdeviceptr from, int64_t apart)
{
    const mgpu_access *a = &c->op->writes[write];
    uint8_t type = d->kernels[c->op->target].sums[write];
    int64_t begin = 0, end = (a->end - a->begin) / (type == MGPU_MOMENTS ? 3 * (int64_t)sizeof(double) : mgpu_dtype_bytes(type));
    mgpu_members m = {.from_count = d->exact->count, .to_count = 1};
    for (int k = 0; k < m.from_count; k++)
        m.from[k] = (const void *)(uintptr_t)(from + (CUdeviceptr)(apart * k));
    m.to[0] = c->argument[c->arguments - c->op->write_count + write];
    void *parameters[] = {&m, &begin, &end};
    launch(d, d->exact->tree[mgpu_tree_function(type)], (end + THREADS - 1) / THREADS, parameters);
}

/* Sets the arguments of shard k, whose terms begin at `terms`. */
static void set_arguments(const CudaDevice *d, const DeviceCall *c, int64_t first_sample, CUdeviceptr terms)
{
    void **own = d->exact->argument;
    for (int i = 0; i < c->arguments; i++)
        own[i] = (char *)c->argument[i] + (c->each[i] < -1 ? (-1 - c->each[i]) * first_sample : 0);
    for (int i = 0; i < c->op->write_count && d->exact->count > 1; i++)
        if (is_sum(c, i)) {
            own[c->arguments - c->op->write_count + i] = (void *)(uintptr_t)terms;
            terms += (CUdeviceptr)mgpu_slot_bytes(c->op->writes[i].end - c->op->writes[i].begin);
        }
}

static void clear_sums(const CudaDevice *d, const DeviceCall *c)
{
    for (int i = 0; i < c->op->write_count; i++)
        if (is_sum(c, i))
            mgpu_cuda_check(
                d, MGPU_COMP,
                d->cuda->memset_d8_async((CUdeviceptr)(uintptr_t)d->exact->argument[c->arguments - c->op->write_count + i], 0,
                                         (size_t)(c->op->writes[i].end - c->op->writes[i].begin), d->stream[MGPU_COMP]),
                "cuMemsetD8Async");
}

int mgpu_cuda_sum_shards(const CudaDevice *d, const DeviceCall *c, const mgpu_step *step)
{
    const CudaShards *s = d->exact;
    int64_t samples = d->samples < s->end ? d->samples : s->end, apart = 0, at = 0;
    CUdeviceptr terms = s->steps + (CUdeviceptr)bytes_of_steps(s);
    const mgpu_step *steps = (const mgpu_step *)(uintptr_t)s->steps;
    int launches = 0;
    for (int i = 0; i < c->op->write_count; i++)
        apart += is_sum(c, i) ? mgpu_slot_bytes(c->op->writes[i].end - c->op->writes[i].begin) : 0;
    if (step) {
        void *parameters[] = {(void *)(uintptr_t)&s->steps, &step, (void *)(uintptr_t)&s->begins, (void *)(uintptr_t)&s->count};
        launch(d, s->shift, 1, parameters);
        launches++;
    }
    for (int k = 0; k < s->count; k++) {
        int64_t begin = s->begins.begin[k], end = k + 1 < s->count ? s->begins.begin[k + 1] : samples;
        set_arguments(d, c, begin, terms + (CUdeviceptr)(apart * k));
        if (begin < end)
            launches += mgpu_cuda_launch(d, c->op, s->argument, c->arguments, end - begin, step ? steps + k : NULL, false);
        else
            clear_sums(d, c);
    }
    for (int i = 0; i < c->op->write_count && s->count > 1; i++)
        if (is_sum(c, i)) {
            add_terms(d, c, i, terms + (CUdeviceptr)at, apart);
            at += mgpu_slot_bytes(c->op->writes[i].end - c->op->writes[i].begin);
            launches++;
        }
    return launches;
}
