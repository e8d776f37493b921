/* device_host.c: a device with a part of the host's memory that runs kernels on its cores.
 *
 * A region of calls runs on the device's thread pool: thread t of T takes samples [n t / T, n (t + 1) / T) through all calls of
 * the region, a chunk at a time, so that what one kernel stores is still in the cache when the next one reads it. */
#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/processes.h"
#include "runtime/host/device_host.h"
#include "runtime/host/library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, PAGE = 4096, HUGE_PAGE = 2 << 20 };

struct Device {
    int64_t arena_bytes, staging_bytes, work_bytes, samples;
    uint8_t *arena, *staging;
    ThreadPool *pool;
    int threads;
    DeviceRegion *region; /* the one that runs */
    const mgpu_op **now;
    bool finishes;          /* the region has kernels with `finish`, or partial sums of the library */
    Library *library;       /* NULL: none */
    char library_text[200]; /* its name, or the reason */
    double *worked;         /* [thread]: seconds of work in the current region, if they are timed */
    void ***argument;       /* [thread]: room for the arguments of a call */
    int most_arguments;
};

/* Unused memory costs nothing: pages of a fresh mapping are zeroed when a thread first writes to them, while kernels run. Large
 * mappings are aligned to huge pages, so that the system can use these later (host_settled). */
static uint8_t *zeroed(int64_t bytes)
{
    size_t size = (size_t)(bytes > 0 ? bytes : ALIGNMENT), all = size >= HUGE_PAGE ? size + HUGE_PAGE : size;
    uint8_t *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (all == size)
        return p;
    size_t before = (size_t)(-(uintptr_t)p & (HUGE_PAGE - 1)), after = (before + size + PAGE - 1) / PAGE * PAGE;
    if (before)
        munmap(p, before);
    if (all > after)
        munmap(p + after, all - after);
    return p + before;
}

static void unmap(uint8_t *p, int64_t bytes)
{
    if (p)
        munmap(p, (size_t)(bytes > 0 ? bytes : ALIGNMENT));
}

static void host_close(Device *d)
{
    if (d->pool)
        mgpu_pool_close(d->pool);
    if (d->library)
        mgpu_library_close(d->library);
    for (int i = 0; d->argument && i < d->threads; i++)
        free(d->argument[i]);
    free(d->argument);
    free(d->worked);
    unmap(d->arena, d->arena_bytes);
    unmap(d->staging, d->staging_bytes);
    free(d);
}

static DeviceSet *host_find(const char *wanted, const mgpu_program *p, const mgpu_plan *plan, Processes *processes)
{
    (void)wanted, (void)p, (void)plan, (void)processes;
    return NULL;
}

static void host_leave(DeviceSet *machine) { (void)machine; }

static Device *host_open(const DevicePlan *p)
{
    const mgpu_device *plan = p->device;
    const PoolPlan *pool = p->pool;
    Device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->threads = pool->threads;
    d->samples = plan->shard.capacity;
    d->work_bytes = plan->work_bytes;
    d->arena_bytes = plan->arena_bytes + (pool->threads - 1) * plan->work_bytes;
    d->arena = zeroed(d->arena_bytes);
    d->staging_bytes = plan->staging_bytes;
    d->staging = zeroed(d->staging_bytes);
    d->argument = calloc((size_t)pool->threads, sizeof *d->argument);
    d->worked = calloc((size_t)pool->threads, sizeof *d->worked);
    if (!d->arena || !d->staging || !d->argument || !d->worked) {
        host_close(d);
        return NULL;
    }
    d->library = mgpu_library_open(d->samples, d->threads, d->library_text, sizeof d->library_text);
    d->pool = mgpu_pool_open(pool);
    return d;
}

static int64_t host_arena_bytes(const Device *d) { return d->arena_bytes; }

static uint8_t *host_arena(Device *d) { return d->arena; }

static uint8_t *host_staging(Device *d) { return d->staging; }

static void host_copy_in(Device *d, int64_t offset, const void *from, int64_t bytes)
{
    memcpy(d->arena + offset, from, (size_t)bytes);
}

static void host_copy_out(Device *d, int lane, void *to, int64_t offset, int64_t bytes)
{
    (void)lane;
    memcpy(to, d->arena + offset, (size_t)bytes);
}

static Collective *host_connect(DeviceSet *machine, Device **devices, const mgpu_plan *plan, Processes *processes,
                                Collective *beside)
{
    (void)machine, (void)devices;
    if (processes)
        return processes->connect(processes, plan, beside ? MGPU_SYNC : MGPU_COMM);
    return mgpu_collective_in_memory(plan->devices, beside);
}

/* ---- running: one thread's work in a region */
/* Kernels index samples from the device's first one. A thread's memory for a chunk begins at `sample`, so the kernel gets the
 * address where the first sample would be. */
static void *const *arguments_of(Device *d, const DeviceCall *c, int thread, int64_t sample)
{
    if (!c->per_thread)
        return c->argument;
    void **own = d->argument[thread];
    for (int i = 0; i < c->arguments; i++) {
        intptr_t move = c->each[i] == 0 ? 0 : thread * d->work_bytes - (c->each[i] > 0 ? sample * c->each[i] : 0);
        own[i] = (void *)((intptr_t)c->argument[i] + move);
    }
    return own;
}

/* Returns the samples, or elements of split values, that the region's calls process. */
static int64_t samples_of(const Device *d)
{
    return d->region->split_elements ? d->region->split_elements - 1 : d->region->samples ? d->region->samples : d->samples;
}

/* Returns how many threads share the region. */
static int threads_of(const Device *d) { return d->region->one_thread ? 1 : d->threads; }

/* Returns true if the library computes these samples of the call. */
static bool is_by_library(const Device *d, const DeviceCall *c, int64_t samples)
{
    return c->library && mgpu_library_takes(d->library, c->library, samples_of(d), samples, threads_of(d));
}

/* Returns true if the threads have partial sums of the library. A call that our own kernel computes would add older ones. */
static bool has_partial_sums(const Device *d, const DeviceCall *c)
{
    return is_by_library(d, c, 0) && mgpu_library_partial(c->library);
}

/* Calls a kernel for samples [begin, end). What is not divided by samples is done in the thread's first call. */
static void call_part(Device *d, int number, int thread, int64_t begin, int64_t end, bool first)
{
    DeviceCall *c = &d->region->calls[number];
    const mgpu_kernel *k = c->kernel;
    mgpu_part part = {samples_of(d), 0, 1, thread, threads_of(d), first, d->work_bytes};
    d->now[thread] = c->op;
    switch (k->split) {
    case MGPU_SPLIT_NONE:
        if (!first || number % threads_of(d) != thread)
            return;
        break;
    case MGPU_SPLIT_SAMPLES:
        if (begin == end && !(first && k->finish))
            return;
        part.begin = begin;
        part.end = end;
        break;
    case MGPU_SPLIT_RANGE: {
        int64_t grains = (k->extent + k->grain - 1) / k->grain;
        part.begin = grains * thread / threads_of(d) * k->grain;
        part.end = grains * (thread + 1) / threads_of(d) * k->grain;
        part.end = part.end < k->extent ? part.end : k->extent;
        if (!first || (part.begin >= part.end && !k->finish))
            return;
        break;
    }
    default:
        if (!first)
            return;
    }
    double began = d->region->observe ? mgpu_seconds() : 0;
    if (is_by_library(d, c, part.end - part.begin))
        mgpu_library_run(d->library, c->library, arguments_of(d, c, thread, begin), thread, part.begin, part.end, first);
    else
        k->run(arguments_of(d, c, thread, begin), d->region->step, &part);
    if (d->region->audit && k->split == MGPU_SPLIT_SAMPLES)
        d->region->audit(d->region->context, c->op, arguments_of(d, c, thread, begin), begin, end);
    if (!d->region->observe)
        return;
    double ended = mgpu_seconds();
    if (thread == 0 || k->split == MGPU_SPLIT_NONE)
        c->seconds += ended - began;
    d->region->observe(d->region->context, thread, c->op, began, ended);
}

static void finish_calls(Device *d, int thread)
{
    if (!d->region->one_thread)
        mgpu_pool_barrier(d->pool, thread);
    for (int i = 0, number = 0; i < d->region->count; i++) {
        const DeviceCall *c = &d->region->calls[i];
        if (has_partial_sums(d, c)) {
            d->now[thread] = c->op;
            mgpu_library_finish(d->library, c->library, c->argument, thread);
        }
        if (!c->kernel->finish || number++ % threads_of(d) != thread)
            continue;
        mgpu_part part = {samples_of(d), 0, 1, thread, threads_of(d), true, d->work_bytes};
        d->now[thread] = c->op;
        double began = d->region->observe ? mgpu_seconds() : 0;
        c->kernel->finish(c->argument, d->region->step, &part);
        if (d->region->observe)
            d->region->observe(d->region->context, thread, c->op, began, mgpu_seconds());
    }
}

static void run_share(void *context, int thread)
{
    Device *d = context;
    int64_t n = samples_of(d), at = n * thread / threads_of(d), end = n * (thread + 1) / threads_of(d);
    int64_t chunk = d->region->chunk > 0 ? d->region->chunk : n;
    bool first = true;
    double began = d->region->launch_timed ? mgpu_seconds() : 0;
    do {
        int64_t next = end - at < chunk ? end : at + chunk;
        for (int i = 0; i < d->region->count; i++)
            call_part(d, i, thread, at, next, first);
        first = false;
        at = next;
    } while (at < end);
    if (d->finishes)
        finish_calls(d, thread);
    if (d->region->launch_timed)
        d->worked[thread] = mgpu_seconds() - began;
}

static void host_run(Device *d, DeviceRegion *region, const mgpu_op **now)
{
    d->region = region;
    d->now = now;
    d->finishes = false;
    int most = 0;
    for (int i = 0; i < region->count; i++) {
        const DeviceCall *c = &region->calls[i];
        d->finishes = d->finishes || c->kernel->finish || has_partial_sums(d, c);
        most = region->calls[i].arguments > most ? region->calls[i].arguments : most;
    }
    if (most > d->most_arguments) {
        for (int t = 0; t < d->threads; t++)
            d->argument[t] = mgpu_resize(d->argument[t], sizeof(void *) * (size_t)most);
        d->most_arguments = most;
    }
    double began = region->launch_timed ? mgpu_seconds() : 0, longest = 0;
    if (region->one_thread)
        run_share(d, 0);
    else
        mgpu_pool_run(d->pool, run_share, d);
    if (!region->launch_timed)
        return;
    for (int t = 0; t < threads_of(d); t++)
        longest = d->worked[t] > longest ? d->worked[t] : longest;
    region->launch_s = mgpu_seconds() - began - longest;
}

/* ---- libraries */
static void host_prepare(Device *d, const mgpu_kernel *kernels, const mgpu_op *const *ops, int count, void **library)
{
    if (!d->library)
        return;
    mgpu_library_begin_region(d->library, ops[0]->chunk);
    for (int i = 0; i < count; i++) {
        const mgpu_access *result = mgpu_access_of(ops[i], ops[i]->read_count);
        if (ops[i]->write_count > 0)
            library[i] = mgpu_library_prepare(d->library, &kernels[ops[i]->target], result->end - result->begin);
    }
    mgpu_library_end_region(d->library);
}

static void host_ready(Device *d)
{
    if (d->library)
        mgpu_library_ready(d->library);
}

/* Huge pages make steps 2 to 3 % faster. Using them from the start can take seconds, if a virtual machine has to get large blocks
 * of memory from its host. So the system is asked to join pages in the background, once training is in progress. */
static void host_settled(Device *d)
{
    if (d->arena_bytes >= HUGE_PAGE)
        madvise(d->arena, (size_t)d->arena_bytes, MADV_HUGEPAGE);
}

static const char *host_library_name(const Device *d) { return d->library_text; }

static int64_t host_library_bytes(const Device *d) { return d->library ? mgpu_library_bytes(d->library) : 0; }

const DeviceKind mgpu_device_host = {
    .name = "host",
    .find = host_find,
    .leave = host_leave,
    .open = host_open,
    .close = host_close,
    .arena_bytes = host_arena_bytes,
    .arena = host_arena,
    .staging = host_staging,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .connect = host_connect,
    .prepare = host_prepare,
    .ready = host_ready,
    .settled = host_settled,
    .library_name = host_library_name,
    .library_bytes = host_library_bytes,
    .run = host_run,
};
