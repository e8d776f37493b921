/* device_host.c: a device with a part of the host's memory that runs kernels on its cores.
 *
 * A region of calls runs on the device's thread pool: thread t of T takes samples [n t / T, n (t + 1) / T) through all calls of
 * the region, a chunk at a time, so that what one kernel stores is still in the cache when the next one reads it.
 *
 * Exact programs (mgpu_exact.h): a chunk is a part of a virtual shard. Partial sums have a place for each shard, not for each
 * thread, and kernels that sum samples by themselves are called for each shard, with a result for each; when all are done,
 * these are added by the tree. Sums that have nothing to do with samples are divided into RANGE_PARTS in place of threads. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/base/base.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/processes.h"
#include "runtime/host/device_host.h"
#include "runtime/host/library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, PAGE = 4096, HUGE_PAGE = 2 << 20, RANGE_PARTS = 16 };

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
    int64_t shards, *shard; /* of exact programs: the device's virtual shards, and their first samples [shards + 1]; else 0 */
    uint8_t *partial;       /* `places` workspaces for partial sums; pages that no kernel touches cost nothing */
    int places;
    uint8_t *first_work; /* the workspace of thread 0 */
    int64_t partial_bytes;
    uint8_t *terms; /* results of kernels that sum samples, for each shard: */
    int64_t term_bytes;
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
    free(d->shard);
    unmap(d->terms, d->term_bytes);
    unmap(d->partial, d->partial_bytes);
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

/* Sets the device's virtual shards. */
static void find_shards(Device *d, const DevicePlan *p)
{
    d->shard = mgpu_allocate((size_t)p->program->exact + 1, sizeof *d->shard);
    d->shards = mgpu_device_shards(p->program, p->plan, p->number, d->shard);
    d->places = d->shards > RANGE_PARTS ? (int)d->shards : RANGE_PARTS;
    d->partial_bytes = d->places * d->work_bytes;
    d->partial = zeroed(d->partial_bytes);
    d->first_work = d->arena + p->device->arena_bytes - d->work_bytes;
}

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
    if (p->program && p->program->exact)
        find_shards(d, p);
    if (!d->arena || !d->staging || !d->argument || !d->worked || (d->shards && !d->partial)) {
        host_close(d);
        return NULL;
    }
    d->library = mgpu_library_open(d->samples, d->threads, d->shard, d->shards, d->library_text, sizeof d->library_text);
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
 * address where the first sample would be. place: the workspace: of a thread, or, `threads` more, for partial sums. */
static void *const *arguments_of(Device *d, const DeviceCall *c, int thread, int64_t sample, int place)
{
    if (!c->per_thread)
        return c->argument;
    void **own = d->argument[thread];
    intptr_t workspace =
        place < d->threads ? place * d->work_bytes : d->partial + (place - d->threads) * d->work_bytes - d->first_work;
    for (int i = 0; i < c->arguments; i++) {
        int64_t each = c->each[i];
        intptr_t move = each < -1    ? (-1 - each) * sample
                        : each == -1 ? workspace
                        : each > 0   ? thread * d->work_bytes - sample * each
                                     : 0;
        own[i] = (void *)((intptr_t)c->argument[i] + move);
    }
    return own;
}

/* Returns true if the region's calls work on virtual shards, not on elements of split values. */
static bool by_shard(const Device *d) { return d->shards && !d->region->split_elements; }

/* Returns the place of a thread's partial sums; of exact programs that of a shard or part. */
static int place_of(const Device *d, const DeviceCall *c, int thread, int64_t part)
{
    return by_shard(d) && c->kernel->finish ? d->threads + (int)part : thread;
}

/* Returns how many threads share the region. */
static int threads_of(const Device *d) { return d->region->one_thread ? 1 : d->threads; }

/* Returns how many of so many samples are computed: those of whole virtual shards, where the library's bits depend on the size of
 * a shard. */
static int64_t whole_shards(const Device *d, int64_t samples)
{
    int64_t k = 0;
    while (k < d->shards && d->shard[k] < samples)
        k++;
    return d->library && d->shards ? d->shard[k] : samples;
}

/* Returns the samples, or elements of split values, that the region's calls process. */
static int64_t samples_of(const Device *d)
{
    return d->region->split_elements ? d->region->split_elements - 1
           : d->region->samples      ? whole_shards(d, d->region->samples)
                                     : d->samples;
}

/* Returns true if the library computes these samples of the call. */
static bool is_by_library(const Device *d, const DeviceCall *c, int64_t samples)
{
    return c->library && mgpu_library_takes(d->library, c->library, samples_of(d), samples, threads_of(d));
}

/* ---- kernels that sum samples: a term for each shard */

/* Returns where a thread's share of so many elements begins: at a cache line. */
static int64_t share_begin(int64_t count, int64_t thread, int64_t threads)
{
    enum { GRAIN = 64 };
    int64_t begin = (count + GRAIN - 1) / GRAIN * thread / threads * GRAIN;
    return begin < count ? begin : count;
}

/* Returns the place of the first write among the arguments: the step block is none. */
static int first_result(const DeviceCall *c) { return c->arguments - c->op->write_count; }

/* Returns the bytes of the terms of one shard; workspaces, and results with samples, need none. */
static int64_t bytes_of_terms(const DeviceCall *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->op->write_count; i++)
        if (c->each[first_result(c) + i] == 0)
            bytes += mgpu_slot_bytes(c->op->writes[i].end - c->op->writes[i].begin);
    return bytes;
}

/* Returns the first of the device's virtual shards that a thread has. */
static int64_t first_shard(const Device *d, int thread) { return d->shards * thread / threads_of(d); }

/* Calls the kernel for each shard of the device: all threads share it, but a shard that the library computes is its thread's. */
static void sum_shards(Device *d, const DeviceCall *c, int thread, const mgpu_part *whole)
{
    int64_t samples = whole->samples, bytes = bytes_of_terms(c);
    mgpu_step step = *d->region->step;
    for (int64_t k = 0; k < d->shards; k++) {
        int64_t begin = d->shard[k] < samples ? d->shard[k] : samples,
                end = d->shard[k + 1] < samples ? d->shard[k + 1] : samples;
        bool by_library = begin < end && is_by_library(d, c, end - begin);
        if (by_library && (k < first_shard(d, thread) || k >= first_shard(d, thread + 1)))
            continue;
        void *const *given = arguments_of(d, c, thread, begin, thread);
        void **own = d->argument[thread];
        if (given != own)
            memcpy(own, given, sizeof *own * (size_t)c->arguments);
        uint8_t *to = c->terms + k * bytes;
        for (int i = 0; i < c->op->write_count; i++)
            if (c->each[first_result(c) + i] == 0) {
                own[first_result(c) + i] = to;
                to += mgpu_slot_bytes(c->op->writes[i].end - c->op->writes[i].begin);
            }
        if (by_library) {
            mgpu_library_run(d->library, c->library, own, thread, 0, end - begin, true);
            continue;
        }
        mgpu_part part = *whole;
        part.samples = end - begin;
        step.sample = d->region->step->sample + begin;
        step.valid = d->region->step->valid - begin;
        c->kernel->run(own, &step, &part);
    }
}

/* Adds the terms of all shards: this thread's share of the elements. */
static void add_terms(Device *d, const DeviceCall *c, int thread)
{
    int64_t bytes = bytes_of_terms(c), at = 0;
    for (int i = 0; i < c->op->write_count; i++) {
        if (c->each[first_result(c) + i] != 0)
            continue;
        const mgpu_access *a = &c->op->writes[i];
        uint8_t type = c->kernel->sums[i];
        int64_t count = (a->end - a->begin) / mgpu_dtype_bytes(type), threads = threads_of(d);
        const void *from[d->shards];
        for (int64_t k = 0; k < d->shards; k++)
            from[k] = c->terms + k * bytes + at;
        mgpu_add_tree(c->argument[first_result(c) + i], from, d->shards, type, share_begin(count, thread, threads),
                      share_begin(count, thread + 1, threads));
        at += mgpu_slot_bytes(a->end - a->begin);
    }
}

/* Returns true if the threads have partial sums of the library. A call that our own kernel computes would add older ones. */
static bool has_partial_sums(const Device *d, const DeviceCall *c)
{
    return is_by_library(d, c, 0) && mgpu_library_partial(c->library);
}

/* Calls a kernel for the thread's parts of a sum over something else than samples. */
static void sum_range(Device *d, const DeviceCall *c, int thread, const mgpu_part *whole)
{
    const mgpu_kernel *k = c->kernel;
    int64_t threads = threads_of(d), grains = (k->extent + k->grain - 1) / k->grain;
    for (int64_t p = RANGE_PARTS * thread / threads; p < RANGE_PARTS * (thread + 1) / threads; p++) {
        mgpu_part part = *whole;
        part.begin = grains * p / RANGE_PARTS * k->grain;
        part.end = grains * (p + 1) / RANGE_PARTS * k->grain;
        part.end = part.end < k->extent ? part.end : k->extent;
        k->run(arguments_of(d, c, thread, 0, place_of(d, c, thread, p)), d->region->step, &part);
    }
}

/* Computes a part of a call: by units, if its bits depend on how many samples are computed at once. first: it is the first
 * part of the call in which the thread has samples. */
static void compute(Device *d, const DeviceCall *c, int thread, void *const *argument, mgpu_part *part, bool first)
{
    int64_t end = part->end, unit = by_shard(d) && c->kernel->unit > 0 ? c->kernel->unit : end - part->begin;
    if (first && c->library)
        mgpu_library_begin(d->library, c->library, argument, thread);
    do {
        part->end = end - part->begin < unit ? end : part->begin + unit;
        if (is_by_library(d, c, part->end - part->begin))
            mgpu_library_run(d->library, c->library, argument, thread, part->begin, part->end, first);
        else
            c->kernel->run(argument, d->region->step, part);
        first = part->first = false;
        part->begin = part->end;
    } while (part->begin < end);
}

/* Calls a kernel for samples [begin, end), of exact programs a part of a shard. What is not divided by samples is done in the
 * thread's first call. none: the thread has had no samples before; shard_first: of exact programs: it is the shard's first
 * part. */
static void call_part(Device *d, int number, int thread, int64_t begin, int64_t end, bool first, bool none, bool shard_first,
                      int64_t shard)
{
    DeviceCall *c = &d->region->calls[number];
    const mgpu_kernel *k = c->kernel;
    mgpu_part part = {samples_of(d), 0, 1, thread, threads_of(d), first, d->work_bytes, d->shards > 0};
    d->now[thread] = c->op;
    switch (k->split) {
    case MGPU_SPLIT_NONE:
        if (!first || number % threads_of(d) != thread)
            return;
        break;
    case MGPU_SPLIT_SAMPLES:
        part.first = by_shard(d) && k->finish ? shard_first : none;
        if (begin == end && !(part.first && k->finish))
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
    if (by_shard(d) && k->sums)
        sum_shards(d, c, thread, &part);
    else if (by_shard(d) && k->finish && k->split == MGPU_SPLIT_RANGE)
        sum_range(d, c, thread, &part);
    else
        compute(d, c, thread, arguments_of(d, c, thread, begin, place_of(d, c, thread, shard)), &part, none);
    if (d->region->audit && k->split == MGPU_SPLIT_SAMPLES)
        d->region->audit(d->region->context, c->op, arguments_of(d, c, thread, begin, thread), begin, end);
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
        if (by_shard(d) && c->kernel->sums)
            add_terms(d, c, thread);
        if (!c->kernel->finish || number++ % threads_of(d) != thread)
            continue;
        int64_t parts = !by_shard(d) ? threads_of(d) : c->kernel->split == MGPU_SPLIT_RANGE ? RANGE_PARTS : d->shards;
        mgpu_part part = {samples_of(d), 0, 1, thread, (int)parts, true, d->work_bytes, d->shards > 0};
        d->now[thread] = c->op;
        double began = d->region->observe ? mgpu_seconds() : 0;
        c->kernel->finish(arguments_of(d, c, thread, 0, place_of(d, c, 0, 0)), d->region->step, &part);
        if (d->region->observe)
            d->region->observe(d->region->context, thread, c->op, began, mgpu_seconds());
    }
}

/* A thread takes its samples through all calls, a chunk at a time. */
static void run_chunks(Device *d, int thread)
{
    int64_t n = samples_of(d), at = n * thread / threads_of(d), end = n * (thread + 1) / threads_of(d);
    int64_t chunk = d->region->chunk > 0 ? d->region->chunk : n;
    bool first = true;
    do {
        int64_t next = end - at < chunk ? end : at + chunk;
        for (int i = 0; i < d->region->count; i++)
            call_part(d, i, thread, at, next, first, first, false, 0);
        first = false;
        at = next;
    } while (at < end);
}

/* A thread takes its virtual shards through all calls, a chunk of a shard at a time. */
static void run_shards(Device *d, int thread)
{
    int64_t n = samples_of(d), shard = first_shard(d, thread), end = first_shard(d, thread + 1);
    bool first = true, none = true;
    do {
        bool any = shard < end, shard_first = true;
        int64_t at = !any || d->shard[shard] > n ? n : d->shard[shard],
                to = !any || d->shard[shard + 1] > n ? n : d->shard[shard + 1];
        do {
            int64_t next = d->region->chunk > 0 && to - at > d->region->chunk ? at + d->region->chunk : to;
            for (int i = 0; i < d->region->count; i++)
                if (any || d->region->calls[i].kernel->split != MGPU_SPLIT_SAMPLES)
                    call_part(d, i, thread, at, next, first, none, shard_first, shard);
            first = shard_first = false;
            none = none && at == next;
            at = next;
        } while (at < to);
    } while (++shard < end);
}

static void run_share(void *context, int thread)
{
    Device *d = context;
    double began = d->region->launch_timed ? mgpu_seconds() : 0;
    (by_shard(d) ? run_shards : run_chunks)(d, thread);
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
    int64_t terms = 0;
    for (int i = 0; i < region->count; i++) {
        const DeviceCall *c = &region->calls[i];
        d->finishes = d->finishes || c->kernel->finish || has_partial_sums(d, c) || (d->shards && c->kernel->sums);
        terms += d->shards && c->kernel->sums ? bytes_of_terms(c) * d->shards : 0;
        most = region->calls[i].arguments > most ? region->calls[i].arguments : most;
    }
    if (most > d->most_arguments) {
        for (int t = 0; t < d->threads; t++)
            d->argument[t] = mgpu_resize(d->argument[t], sizeof(void *) * (size_t)most);
        d->most_arguments = most;
    }
    if (terms > d->term_bytes) {
        unmap(d->terms, d->term_bytes);
        d->terms = zeroed(terms);
        d->term_bytes = terms;
        if (!d->terms)
            mgpu_die("there is no memory for %lld bytes: the sums of %lld virtual shards", (long long)terms,
                     (long long)d->shards);
    }
    terms = 0;
    for (int i = 0; i < region->count; i++)
        if (d->shards && region->calls[i].kernel->sums) {
            region->calls[i].terms = d->terms + terms;
            terms += bytes_of_terms(&region->calls[i]) * d->shards;
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
