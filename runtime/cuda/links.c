/* links.c: tests once whether data that one GPU sends to another arrives unchanged. Some links flip bits occasionally, and on
 * some machines address translation makes peers read zeros. Each GPU's link to the host is tested first, since all other results
 * are read over it. */
#include "runtime/base/base.h"
#include "runtime/cuda/collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1 << 16, MOST_NAMED = 4 /* bad links that are named */ };

typedef struct LinkTrial {
    const CudaCollective *c;
    CUdeviceptr *source, *target; /* [member], WORDS each */
    uint32_t *sent, *arrived;     /* page-locked */
} LinkTrial;

static void synchronize(const CudaDevice *d)
{
    mgpu_cuda_check(d, -1, d->cuda->stream_synchronize(d->stream[MGPU_COMM]), "cuStreamSynchronize");
}

static bool arrived(const LinkTrial *t, int to)
{
    const CudaDevice *d = t->c->devices[to];
    memset(t->arrived, 0, WORDS * sizeof *t->arrived);
    mgpu_cuda_check(d, -1, d->cuda->memcpy_dtoh_async(t->arrived, t->target[to], WORDS * sizeof(uint32_t), d->stream[MGPU_COMM]),
                    "cuMemcpyDtoHAsync");
    synchronize(d);
    return memcmp(t->sent, t->arrived, WORDS * sizeof *t->sent) == 0;
}

static void clear(const LinkTrial *t, int to)
{
    const CudaDevice *d = t->c->devices[to];
    mgpu_cuda_check(d, -1, d->cuda->memset_d8_async(t->target[to], 0, WORDS * sizeof(uint32_t), d->stream[MGPU_COMM]),
                    "cuMemsetD8Async");
}

static void fill_pattern(const LinkTrial *t, int from, int to)
{
    uint32_t word = (uint32_t)(from * MGPU_MOST_MEMBERS + to + 1);
    for (int i = 0; i < WORDS; i++)
        t->sent[i] = word = word * 1664525u + 1013904223u;
}

static void send(const LinkTrial *t, CUdeviceptr to, int member)
{
    const CudaDevice *d = t->c->devices[member];
    mgpu_cuda_check(d, -1, d->cuda->memcpy_htod_async(to, t->sent, WORDS * sizeof(uint32_t), d->stream[MGPU_COMM]),
                    "cuMemcpyHtoDAsync");
}

static void try_host(const LinkTrial *t, int member)
{
    const CudaDevice *d = t->c->devices[member];
    char text[400];
    fill_pattern(t, member, member);
    mgpu_cuda_enter(d, -1);
    send(t, t->target[member], member);
    if (arrived(t, member))
        return;
    snprintf(
        text, sizeof text,
        "%s, %s: what the host copies to it and back arrives changed, so nothing that it computes can be trusted; check the card and its "
        "slot (nvidia-smi -q -i %s, dmesg), or leave it out with --devices",
        d->gpu->name, d->gpu->place, d->gpu->bus);
    d->fail(d->owner, -1, text);
}

static void say_trial(const CudaDevice *a, const CudaDevice *b)
{
    char what[160];
    snprintf(what, sizeof what, "what GPU %s sends to GPU %s is tried", a->gpu->place, b->gpu->place);
    b->stage(b->owner, what);
}

/* Tests the copy engine and, with peer access, a kernel that reads the other GPU's memory. */
static bool try_link(const LinkTrial *t, int from, int to, bool access)
{
    const CudaDevice *a = t->c->devices[from], *b = t->c->devices[to];
    say_trial(a, b);
    fill_pattern(t, from, to);
    mgpu_cuda_enter(a, -1);
    send(t, t->source[from], from);
    synchronize(a);
    mgpu_cuda_enter(b, -1);
    clear(t, to);
    mgpu_cuda_check(b, -1,
                    b->cuda->memcpy_peer_async(t->target[to], b->context, t->source[from], a->context, WORDS * sizeof(uint32_t),
                                               b->stream[MGPU_COMM]),
                    "cuMemcpyPeerAsync");
    if (!arrived(t, to))
        return false;
    if (!access)
        return true;
    mgpu_members m = {.from = {(const void *)(uintptr_t)t->source[from]},
                      .to = {(void *)(uintptr_t)t->target[to]},
                      .from_count = 1,
                      .to_count = 1};
    clear(t, to);
    mgpu_cuda_launch_add(t->c, to, MGPU_U32, &m, 0, WORDS);
    return arrived(t, to);
}

static int first_of_gpu(const CudaCollective *c, int member)
{
    int d = c->local.first;
    while (c->devices[d]->gpu != c->devices[member]->gpu)
        d++;
    return d;
}

static bool enable_access(const CudaDevice *d, const CudaDevice *peer)
{
    int can = 0;
    mgpu_cuda_enter(d, -1);
    mgpu_cuda_check(d, -1, d->cuda->device_can_access_peer(&can, d->gpu->device, peer->gpu->device), "cuDeviceCanAccessPeer");
    if (!can)
        return false;
    CUresult r = d->cuda->ctx_enable_peer_access(peer->context, 0);
    return r == CUDA_SUCCESS || r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

/* Without a switch, a GPU may have at most eight peers. So unused access is disabled again, for others that need it. */
static void give_up_access(const CudaCollective *c)
{
    for (int to = c->local.first; to < c->local.end; to++)
        for (int from = c->local.first; from < c->local.end; from++) {
            if (first_of_gpu(c, from) != from || first_of_gpu(c, to) != to || from == to)
                continue;
            mgpu_cuda_enter(c->devices[to], -1);
            /* fails if it was not enabled, which is harmless */
            c->devices[to]->cuda->ctx_disable_peer_access(c->devices[from]->context);
        }
}

/* The arenas are unused so far, and other memory may be scarce. */
static bool borrows(const CudaDevice *d) { return d->arena_bytes >= 2 * WORDS * (int64_t)sizeof(uint32_t); }

static CUdeviceptr take_memory(const CudaDevice *d, int part)
{
    int64_t bytes = WORDS * (int64_t)sizeof(uint32_t);
    return borrows(d) ? d->arena + (CUdeviceptr)(part * bytes)
                      : mgpu_cuda_allocate(d, bytes, 2 * bytes, "trying the links between GPUs takes");
}

static void give_back(const CudaDevice *d, CUdeviceptr memory)
{
    if (borrows(d))
        mgpu_cuda_check(d, -1, d->cuda->memset_d8_async(memory, 0, WORDS * sizeof(uint32_t), d->stream[MGPU_COMM]),
                        "cuMemsetD8Async");
    else
        mgpu_cuda_check(d, -1, d->cuda->mem_free(memory), "cuMemFree");
}

static void allocate(LinkTrial *t, const CudaCollective *c)
{
    *t = (LinkTrial){.c = c,
                     .source = mgpu_allocate((size_t)c->members, sizeof *t->source),
                     .target = mgpu_allocate((size_t)c->members, sizeof *t->target),
                     .sent = mgpu_device_cuda.async->locked(c->machine, WORDS * (int64_t)sizeof(uint32_t)),
                     .arrived = mgpu_device_cuda.async->locked(c->machine, WORDS * (int64_t)sizeof(uint32_t))};
    for (int d = c->local.first; d < c->local.end; d++) {
        const CudaDevice *device = c->devices[d];
        if (first_of_gpu(c, d) != d)
            continue;
        mgpu_cuda_enter(device, -1);
        t->source[d] = take_memory(device, 0);
        t->target[d] = take_memory(device, 1);
    }
}

static void release(LinkTrial *t)
{
    for (int d = t->c->local.first; d < t->c->local.end; d++) {
        const CudaDevice *device = t->c->devices[d];
        if (first_of_gpu(t->c, d) != d)
            continue;
        mgpu_cuda_enter(device, -1);
        give_back(device, t->source[d]);
        give_back(device, t->target[d]);
        synchronize(device);
    }
    mgpu_device_cuda.async->unlock(t->c->machine, t->sent);
    mgpu_device_cuda.async->unlock(t->c->machine, t->arrived);
    free(t->source);
    free(t->target);
}

static void say_bad(const CudaCollective *c, int from, int to)
{
    mgpu_say(
        "%s: warning: what GPU %s sends to GPU %s arrives changed: the link is bad (nvidia-smi topo -m shows which it is), or an "
        "IOMMU is on between GPUs; transfers go through the host",
        program_invocation_short_name, c->devices[from]->gpu->place, c->devices[to]->gpu->place);
}

/* Members on one GPU share its links, so only the first one tests them. */
static void try_peers(const LinkTrial *t, const CudaCollective *c, CudaLinks *links)
{
    for (int to = c->local.first; to < c->local.end; to++)
        for (int from = c->local.first; from < c->local.end; from++) {
            if (first_of_gpu(c, from) != from || first_of_gpu(c, to) != to || from == to)
                continue;
            bool access = enable_access(c->devices[to], c->devices[from]);
            links->peer_access = links->peer_access && access;
            links->count++;
            if (try_link(t, from, to, access))
                continue;
            links->bad++;
            if (links->bad <= MOST_NAMED)
                say_bad(c, from, to);
        }
    if (links->bad > MOST_NAMED)
        mgpu_say("%s: warning: and so does what %d more of the %d links between GPUs carry", program_invocation_short_name,
                 links->bad - MOST_NAMED, links->count);
}

CudaLinks mgpu_cuda_links(const CudaCollective *c, bool peers)
{
    LinkTrial t;
    CudaLinks links = {.peer_access = true};
    for (int d = c->local.first; d < c->local.end; d++)
        links.apart = links.apart || c->devices[d]->gpu->slice;
    links.peer_access = !links.apart;
    allocate(&t, c);
    for (int d = c->local.first; d < c->local.end; d++)
        if (first_of_gpu(c, d) == d)
            try_host(&t, d);
    if (peers && !links.apart)
        try_peers(&t, c, &links);
    if (peers && !links.apart && !links.peer_access)
        give_up_access(c);
    release(&t);
    const CudaDevice *first = c->devices[c->local.first];
    first->stage(first->owner, "all-reduces are being prepared");
    return links;
}
