/* library.c: the contractions of a host device that a library computes.
 *
 * A contraction that is divided by samples is prepared for every number of samples that a thread calls it with: a chunk, and the
 * rest of a thread's share. Others are prepared for every thread's share. If that is a partial sum (weight gradients of
 * convolutions), thread 0 stores it in the result, the others in memory of their own, and in the end each thread adds up a part
 * of all of them.
 *
 * Of exact programs (mgpu_exact.h), all that has samples is prepared for the sizes of the device's virtual shards: one thread
 * computes a shard by itself, with a primitive that depends on its size alone, and the sums of shards are added by others. What
 * threads would share otherwise is left to our own code.
 *
 * Memory of each thread: scratch, which any run may use; packed weights and partial sums of the operations of a region. */
#include "runtime/host/library.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/host/onednn.h"

enum { MOST_SIZES = 4, ALIGNMENT = 64 };

typedef struct Sized {
    int64_t samples;
    MgpuLibraryMatmul *matmul;
} Sized;

struct LibraryCall {
    LibraryCall *next;
    int sizes; /* if divided by samples */
    Sized sized[MOST_SIZES];
    MgpuLibraryMatmul **per_thread; /* otherwise: [thread] */
    bool partial;
    uint8_t type; /* of a partial sum */
    int64_t result_bytes;
    int64_t packed_at, partial_at; /* offsets in a thread's memory; packed_at -1: weights are not packed */
};

struct Library {
    Release release; /* frees it if an error leaks it */
    int64_t samples, chunk;
    int threads;
    const int64_t *shard; /* of exact programs */
    int64_t shards;
    LibraryCall *calls;
    int64_t scratch_bytes, region_bytes, most_region_bytes; /* per thread */
    int64_t allocated;                                      /* per thread */
    uint8_t **memory;                                       /* [thread]: the region's memory, then scratch */
};

static void release(void *library) { mgpu_library_close(library); }

Library *mgpu_library_open(int64_t samples, int threads, const int64_t *shard, int64_t shards, char *description, size_t capacity)
{
    if (!mgpu_onednn_open(description, capacity))
        return NULL;
    Library *l = mgpu_allocate(1, sizeof *l);
    *l = (Library){.samples = samples, .threads = threads, .shard = shard, .shards = shards};
    l->memory = mgpu_allocate((size_t)threads, sizeof *l->memory);
    mgpu_context_add(&l->release, release, l);
    return l;
}

static void free_parts(LibraryCall *c, int threads)
{
    for (int t = 0; t < threads && c->per_thread; t++)
        if (c->per_thread[t])
            mgpu_onednn_free(c->per_thread[t]);
    free(c->per_thread);
    c->per_thread = NULL;
}

static void free_call(LibraryCall *c, int threads)
{
    for (int i = 0; i < c->sizes; i++)
        mgpu_onednn_free(c->sized[i].matmul);
    free_parts(c, threads);
    free(c);
}

void mgpu_library_close(Library *l)
{
    mgpu_context_disown(&l->release);
    for (LibraryCall *c = l->calls, *next; c; c = next) {
        next = c->next;
        free_call(c, l->threads);
    }
    for (int t = 0; t < l->threads; t++)
        free(l->memory[t]);
    free(l->memory);
    free(l);
}

void mgpu_library_begin_region(Library *l, int64_t chunk)
{
    l->chunk = chunk > 0 ? chunk : l->samples;
    l->region_bytes = 0;
}

void mgpu_library_end_region(Library *l)
{
    if (l->region_bytes > l->most_region_bytes)
        l->most_region_bytes = l->region_bytes;
}

static int64_t reserve(Library *l, int64_t bytes)
{
    int64_t at = l->region_bytes;
    l->region_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static void need_scratch(Library *l, const MgpuLibraryMatmul *p)
{
    int64_t bytes = mgpu_onednn_scratch(p);
    l->scratch_bytes = bytes > l->scratch_bytes ? bytes : l->scratch_bytes;
}

/* ---- preparing */
static bool prepare_size(Library *l, LibraryCall *c, const mgpu_kernel *k, int64_t samples)
{
    for (int i = 0; i < c->sizes; i++)
        if (c->sized[i].samples == samples)
            return true;
    if (samples == 0)
        return true;
    MgpuLibraryMatmul *p =
        c->sizes == MOST_SIZES ? NULL : mgpu_onednn_prepare(k->contraction, &(MgpuPart){samples, 0, 1, l->threads, false, false});
    if (!p)
        return false;
    c->sized[c->sizes++] = (Sized){samples, p};
    need_scratch(l, p);
    return true;
}

/* Prepares all numbers of samples that a thread may process: whole chunks, and the rests of shares, which differ by at most
 * one. */
static bool prepare_by_samples(Library *l, LibraryCall *c, const mgpu_kernel *k)
{
    int64_t least = l->samples / l->threads, most = (l->samples + l->threads - 1) / l->threads;
    bool good = least < l->chunk || prepare_size(l, c, k, l->chunk);
    for (int64_t share = least; share <= most && good; share++)
        good = (share < l->chunk || prepare_size(l, c, k, l->chunk)) && prepare_size(l, c, k, share % l->chunk);
    if (!good || !c->sizes)
        return false;
    c->packed_at = -1;
    int64_t packed = mgpu_onednn_packed(c->sized[0].matmul);
    if (packed > 0 && least > l->chunk)
        c->packed_at = reserve(l, packed);
    return true;
}

/* Of an exact program: prepares units of virtual shards, and what is left of shards; without units, whole shards. Our own code
 * computes the sizes that the library is not faster with. */
static bool prepare_by_shard(Library *l, LibraryCall *c, const mgpu_kernel *k)
{
    for (int64_t i = 0; i < l->shards; i++) {
        int64_t samples = l->shard[i + 1] - l->shard[i], unit = k->unit > 0 && k->unit < samples ? k->unit : samples;
        prepare_size(l, c, k, unit);
        prepare_size(l, c, k, unit > 0 ? samples % unit : 0);
    }
    if (!c->sizes)
        return false;
    int64_t packed = mgpu_onednn_packed(c->sized[0].matmul);
    c->packed_at = packed > 0 ? reserve(l, packed) : -1;
    return true;
}

/* Prepares the shares of all threads; returns how many are partial sums, or -1 if the library does not compute all of them. */
static int prepare_parts(Library *l, LibraryCall *c, const mgpu_kernel *k, bool convolution)
{
    int parts = 0;
    c->per_thread = mgpu_allocate((size_t)l->threads, sizeof(MgpuLibraryMatmul *));
    for (int t = 0; t < l->threads; t++) {
        c->per_thread[t] =
            mgpu_onednn_prepare(k->contraction, &(MgpuPart){l->samples, t, l->threads, l->threads, false, convolution});
        if (!c->per_thread[t])
            return -1;
        parts += mgpu_onednn_partial(c->per_thread[t]);
    }
    return parts;
}

/* The gradient of a 1x1 convolution can be a matmul whose result is divided, or a convolution whose samples are. A small share
 * may prefer the other one: then all are convolutions. */
static bool prepare_by_thread(Library *l, LibraryCall *c, const mgpu_kernel *k, int64_t result_bytes)
{
    int parts = prepare_parts(l, c, k, false);
    if (parts > 0 && parts < l->threads) {
        free_parts(c, l->threads);
        parts = prepare_parts(l, c, k, true);
    }
    if (parts < 0)
        return false;
    c->partial = parts > 0 && l->threads > 1;
    for (int t = 0; t < l->threads; t++)
        need_scratch(l, c->per_thread[t]);
    c->type = k->contraction->type == MGPU_F64 ? MGPU_F64 : MGPU_F32;
    c->result_bytes = result_bytes;
    if (c->partial)
        c->partial_at = reserve(l, c->result_bytes);
    return true;
}

LibraryCall *mgpu_library_prepare(Library *l, const mgpu_kernel *k, int64_t result_bytes)
{
    if (!k->contraction)
        return NULL;
    LibraryCall *c = mgpu_allocate(1, sizeof *c);
    bool good = l->shards                        ? (k->split == MGPU_SPLIT_SAMPLES || k->sums) && prepare_by_shard(l, c, k)
                : k->split == MGPU_SPLIT_SAMPLES ? prepare_by_samples(l, c, k)
                                                 : prepare_by_thread(l, c, k, result_bytes);
    if (!good) {
        free_call(c, l->threads);
        return NULL;
    }
    c->next = l->calls;
    l->calls = c;
    return c;
}

void mgpu_library_ready(Library *l)
{
    int64_t bytes = l->most_region_bytes + l->scratch_bytes;
    if (bytes <= l->allocated)
        return;
    for (int t = 0; t < l->threads; t++) {
        free(l->memory[t]);
        void *p = NULL;
        if (posix_memalign(&p, ALIGNMENT, (size_t)bytes) != 0)
            mgpu_fail(MGPU_MACHINE_FAILED,
                      "no memory for the workspaces of oneDNN: %lld bytes for each of %d threads; "
                      "MGPU_ONEDNN=off does without",
                      (long long)bytes, l->threads);
        l->memory[t] = p;
    }
    l->allocated = bytes;
}

int64_t mgpu_library_bytes(const Library *l) { return l->allocated * l->threads; }

/* ---- running */
bool mgpu_library_partial(const LibraryCall *c) { return c->partial; }

static MgpuLibraryMatmul *find_size(const LibraryCall *c, int64_t samples)
{
    for (int i = 0; i < c->sizes; i++)
        if (c->sized[i].samples == samples)
            return c->sized[i].matmul;
    return NULL;
}

bool mgpu_library_takes(const Library *l, const LibraryCall *c, int64_t all, int64_t samples, int threads)
{
    return c->per_thread ? all == l->samples && threads == l->threads : samples == 0 || find_size(c, samples);
}

static MgpuLibraryMatmul *of_size(const LibraryCall *c, int64_t samples)
{
    MgpuLibraryMatmul *found = find_size(c, samples);
    if (!found)
        mgpu_die("a matmul is called for %lld samples, which nobody prepared", (long long)samples);
    return found;
}

void mgpu_library_begin(Library *l, LibraryCall *c, void *const *argument, int thread)
{
    uint8_t *memory = l->memory[thread], *scratch = memory + l->most_region_bytes;
    if (!c->per_thread && c->packed_at >= 0)
        mgpu_onednn_pack(c->sized[0].matmul, argument[1], memory + c->packed_at, scratch, thread);
}

void mgpu_library_run(Library *l, LibraryCall *c, void *const *argument, int thread, int64_t begin, int64_t end, bool first)
{
    uint8_t *memory = l->memory[thread], *scratch = memory + l->most_region_bytes;
    if (c->per_thread) {
        void *result = c->partial && thread > 0 ? memory + c->partial_at : argument[2];
        if (first)
            mgpu_onednn_run(c->per_thread[thread], argument[0], argument[1], result, NULL, 0, scratch, thread);
        return;
    }
    if (begin == end)
        return;
    MgpuLibraryMatmul *p = of_size(c, end - begin);
    uint8_t *packed = c->packed_at >= 0 && p == c->sized[0].matmul ? memory + c->packed_at : NULL;
    mgpu_onednn_run(p, argument[0], argument[1], argument[2], packed, begin, scratch, thread);
}

#define ADD_PARTS(type)                                                                                                          \
    for (int t = 1; t < l->threads; t++) {                                                                                       \
        const type *part = (const type *)(l->memory[t] + c->partial_at);                                                         \
        for (int64_t i = begin; i < end; i++)                                                                                    \
            ((type *)argument[2])[i] += part[i];                                                                                 \
    }

void mgpu_library_finish(Library *l, LibraryCall *c, void *const *argument, int thread)
{
    int64_t count = c->result_bytes / (c->type == MGPU_F64 ? 8 : 4), lines = (count + 15) / 16;
    int64_t begin = lines * thread / l->threads * 16, end = lines * (thread + 1) / l->threads * 16;
    end = end < count ? end : count;
    if (c->type == MGPU_F64) {
        ADD_PARTS(double)
    } else {
        ADD_PARTS(float)
    }
}
