/* engine.c: execution of a plan. In: posted steps (Work); out: collected reports, outputs, new values in the arenas.
 *
 * A thread drives one lane of one device, or, for an asynchronous device, all lanes but the host's (issue.c). It executes the
 * lane's operations of step q, then those of q + 1. Since a lane keeps its order, one number per lane replaces the events of
 * all its operations: `progress` is (q << PLACE_BITS) + the number of completed operations of step q. The end of the step sets
 * it to (q + 1) << PLACE_BITS. So "x of step q has completed" is progress > (q << PLACE_BITS) + place of x, and "the lane has
 * finished step q" is progress >= (q + 1) << PLACE_BITS. The rules (docs/schedule.md, Execution of a schedule):
 *
 *   - A wait for x@-k in step q holds if q - k < 1; or if step q - k was of the same phase and x has completed in it; or if it
 *     was of another phase and the lane of x has finished it.
 *   - At a change of phase, the lanes comp, comm and sync of a device wait for each other to finish the previous step.
 *   - A REPORT or FETCH of slot -1 belongs to the previous step. It runs if that was of the same phase. If the previous step was
 *     of another phase, the host lane executes that step's outstanding REPORT and FETCH operations before its own first one of
 *     slot -1, after its reads.
 *
 * Posting: at most `steps_in_flight` steps are in flight beyond the last one that all lanes have finished. So a record of the
 * ring is free when it is used again, and a wait further back than that always holds. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/cores.h"
#include "runtime/engine/asynchronous.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening */
static void make_tables(Engine *e)
{
    e->phases = mgpu_allocate((size_t)e->plan->phase_count, sizeof *e->phases);
    for (int k = 0; k < e->plan->phase_count; k++) {
        PhaseTable *t = &e->phases[k];
        t->device = mgpu_allocate((size_t)e->plan->devices, sizeof *t->device);
        t->library = mgpu_allocate((size_t)e->plan->devices, sizeof *t->library);
        t->reporter = -1;
        for (int d = e->plan->devices - 1; d >= 0; d--) {
            const mgpu_device_phase *p = &e->plan->phases[k].devices[d];
            mgpu_make_lanes(&t->device[d], p);
            for (int i = 0; i < p->op_count; i++)
                t->reporter = p->ops[i].verb == MGPU_REPORT && is_local(e, d) ? d : t->reporter;
        }
    }
}

/* Divides the process's threads among its devices. They are pinned to cores if every core gets equally many, at least one. */
static PoolPlan pool_of(const Engine *e, int d, int *cores)
{
    int devices = e->end - e->first, place = d - e->first, count = 0;
    int64_t threads = e->threads, first = threads * place / devices, end = threads * (place + 1) / devices;
    cpu_set_t set;
    CPU_ZERO(&set);
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    int all = known ? CPU_COUNT(&set) : 0;
    for (int core = 0; known && core < CPU_SETSIZE; core++)
        if (CPU_ISSET((size_t)core, &set)) {
            for (int64_t i = first; i < end; i++)
                if (i * all / threads == count)
                    cores[i - first] = core;
            count++;
        }
    bool fixed = all && !e->single_threaded && threads % all == 0;
    return (PoolPlan){.threads = (int)(end - first),
                      .cores = fixed ? cores : NULL,
                      .spin = threads <= all,
                      .enter = mgpu_enter_worker,
                      .leave = mgpu_leave_worker,
                      .context = lane_of(e, d, MGPU_COMP)};
}

/* Pins the lanes to the cores of the device's threads, except the lane host, which may read on any free core. Otherwise the
 * scheduler may put a transferring lane on the core of another device, behind its computation, and devices that wait for each
 * other compute one after the other (digits on two devices: 9.2 ms per step, pinned 6.2). */
static void pin_lanes(const Engine *e, int d, const PoolPlan *pool)
{
    for (int lane = 0; lane < MGPU_LANES; lane++)
        for (int i = 0; pool->cores && lane != MGPU_HOST && !e->kind->async && i < (lane == MGPU_COMP ? 1 : pool->threads); i++)
            CPU_SET((size_t)pool->cores[i], &lane_of(e, d, lane)->cores);
}

/* context: the lane comp, which is the first of its device */
static __attribute__((noreturn)) void fail(void *context, int lane, const char *what)
{
    const LaneThread *l = context;
    if (lane >= 0)
        mgpu_fail_at(l + lane, what);
    const char *achieved = l->engine->achieved;
    mgpu_fail(MGPU_MACHINE_FAILED, "device %d: %s%s%s", l->device, what, achieved ? "; " : "", achieved ? achieved : "");
}

static void fail_async(void *context, const char *error, const char *call)
{
    const LaneThread *l = context;
    mgpu_fail_async(l->engine, l->device, error, call);
}

static void stage(void *context, const char *what)
{
    const LaneThread *l = context;
    mgpu_hang_stage(l->engine, what, -1);
}

static DevicePlan plan_of(Engine *e, const RunOptions *o, int d, const PoolPlan *pool)
{
    LaneThread *comp = lane_of(e, d, MGPU_COMP);
    return (DevicePlan){.program = e->program,
                        .plan = e->plan,
                        .device = &e->plan->device[d],
                        .pool = pool,
                        .machine = e->machine,
                        .number = d,
                        .tune = o->tune,
                        .fail = fail,
                        .fail_async = fail_async,
                        .stage = stage,
                        .context = comp,
                        .returned = &comp->returned};
}

typedef struct Begin {
    Engine *engine;
    DevicePlan *plan;
    pthread_t thread;
} Begin;

static void *begin_device(void *argument)
{
    const Begin *b = argument;
    b->plan->begun = b->engine->kind->begin(b->plan);
    atomic_store(&b->engine->begun[b->plan->number], true);
    return NULL;
}

/* Each on its own thread: creating a context and compiling kernels in the driver take seconds for each of eight GPUs. */
static void begin_devices(Engine *e, DevicePlan *plans)
{
    Begin *begin = mgpu_allocate((size_t)e->plan->devices, sizeof *begin);
    _Atomic bool *begun = mgpu_allocate((size_t)e->plan->devices, sizeof *begun);
    mgpu_hang_begun(e, begun);
    for (int d = e->first; d < e->end; d++) {
        begin[d] = (Begin){.engine = e, .plan = &plans[d]};
        mgpu_start_thread(&begin[d].thread, begin_device, &begin[d]);
    }
    for (int d = e->first; d < e->end; d++)
        pthread_join(begin[d].thread, NULL);
    mgpu_hang_begun(e, NULL);
    free((void *)begun);
    free(begin);
}

static void open_device(Engine *e, const DevicePlan *p)
{
    const mgpu_device *device = p->device;
    int64_t bytes = mgpu_device_bytes(device, p->pool->threads);
    mgpu_hang_stage(e, "it is being opened", p->number);
    e->devices[p->number] = e->kind->open(p);
    char arena[32], staging[32];
    if (!e->devices[p->number])
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "no memory for device %d: its arena takes %s bytes and its staging memory %s; a smaller batch needs less "
                  "(mgpuc --set batch=N)",
                  p->number, mgpu_grouped(bytes, arena), mgpu_grouped(device->staging_bytes, staging));
    if (e->kind->arena_bytes(e->devices[p->number]) != bytes)
        mgpu_die("device %d: %lld bytes were predicted, %lld allocated", p->number, (long long)bytes,
                 (long long)e->kind->arena_bytes(e->devices[p->number]));
}

static void open_devices(Engine *e, const RunOptions *o)
{
    if (o->tune && !e->kind->async)
        mgpu_fail(MGPU_BAD_USAGE, "--tune times what a library for GPUs offers; this run is on %s devices: leave it out",
                  e->kind->name);
    mgpu_hang_open(e, o->hang);
    mgpu_hang_stage(e, "the GPUs are looked for", -1);
    e->machine = e->kind->find(o->devices, e->program, e->plan, e->processes);
    e->threads =
        (e->end - e->first) * (e->kind->async ? 1 /* none compute */ : mgpu_threads_each(e->processes, e->plan, o->threads));
    e->devices = mgpu_allocate((size_t)e->plan->devices, sizeof(Device *));
    int *cores = mgpu_allocate((size_t)e->threads * (size_t)e->plan->devices, sizeof *cores);
    DevicePlan *plans = mgpu_allocate((size_t)e->plan->devices, sizeof *plans);
    PoolPlan *pools = mgpu_allocate((size_t)e->plan->devices, sizeof *pools);
    for (int d = e->first; d < e->end; d++) {
        pools[d] = pool_of(e, d, cores + (ptrdiff_t)d * e->threads);
        pin_lanes(e, d, &pools[d]);
        LaneThread *comp = lane_of(e, d, MGPU_COMP);
        comp->worker_count = pools[d].threads;
        comp->workers = mgpu_allocate((size_t)pools[d].threads, sizeof *comp->workers);
        comp->now = mgpu_allocate((size_t)pools[d].threads, sizeof *comp->now);
        plans[d] = plan_of(e, o, d, &pools[d]);
    }
    if (e->kind->begin)
        begin_devices(e, plans);
    for (int d = e->first; d < e->end; d++)
        open_device(e, &plans[d]);
    free(pools);
    free(plans);
    free(cores);
}

static void make_records(Engine *e)
{
    int reports = 0;
    for (int k = 0; k < e->plan->phase_count; k++)
        reports = e->plan->phases[k].report_count > reports ? e->plan->phases[k].report_count : reports;
    for (int i = 0; i < MGPU_RING; i++) {
        e->ring[i].index = mgpu_allocate((size_t)e->plan->micro + 1, sizeof(int64_t));
        int64_t blocks = e->plan->devices * (int64_t)sizeof(mgpu_step);
        e->ring[i].block = e->kind->async ? e->kind->async->locked(e->machine, blocks) : mgpu_allocate(1, (size_t)blocks);
        e->ring[i].times = mgpu_allocate((size_t)e->plan->devices, sizeof(StepTimes));
        e->ring[i].fetch = mgpu_allocate((size_t)e->program->output_count, sizeof(uint8_t *));
        e->ring[i].report = mgpu_allocate((size_t)reports, sizeof(double));
    }
}

/* Finds the most calls and the most arguments of any region. */
static void measure_regions(const Engine *e, int *calls, int *arguments)
{
    *calls = *arguments = 1;
    for (int k = 0; k < e->plan->phase_count; k++)
        for (int d = 0; d < e->plan->devices; d++) {
            const mgpu_device_phase *p = &e->plan->phases[k].devices[d];
            const LaneTable *t = &e->phases[k].device[d];
            for (int i = t->begin[MGPU_COMP], count; i < t->begin[MGPU_COMP + 1]; i += count) {
                int sum = 0;
                count = mgpu_region_length(p, t->order + i, t->begin[MGPU_COMP + 1] - i);
                for (int c = i; c < i + count; c++)
                    sum += p->ops[t->order[c]].read_count + p->ops[t->order[c]].write_count;
                *calls = count > *calls ? count : *calls;
                *arguments = sum > *arguments ? sum : *arguments;
            }
        }
}

static void make_lanes(Engine *e)
{
    int calls, arguments;
    measure_regions(e, &calls, &arguments);
    size_t count = (size_t)e->plan->devices * MGPU_LANES;
    e->lanes = mgpu_allocate_aligned(_Alignof(LaneThread), count * sizeof(LaneThread));
    for (size_t i = 0; i < count; i++) {
        LaneThread *l = &e->lanes[i];
        l->engine = e;
        l->device = (int)i / MGPU_LANES;
        l->lane = (int)i % MGPU_LANES;
        if (l->lane == MGPU_COMP) {
            l->argument = mgpu_allocate((size_t)arguments, sizeof(void *));
            l->each = mgpu_allocate((size_t)arguments, sizeof *l->each);
            l->calls = mgpu_allocate((size_t)calls, sizeof *l->calls);
        }
        atomic_init(&l->progress.value, finished(0));
    }
}

/* Reads the slowdowns of tests. GPUs are not slowed down. */
static void slow_down(Engine *e)
{
    double *factor = mgpu_allocate((size_t)e->plan->devices, sizeof *factor), reading = 0;
    mgpu_slow_read(factor, e->plan->devices, &reading);
    for (int d = 0; d < e->plan->devices; d++) {
        lane_of(e, d, MGPU_COMP)->slow.factor = e->kind->async ? 0 : factor[d];
        lane_of(e, d, MGPU_HOST)->slow.factor = reading;
    }
    e->link_rate = e->kind->async ? 0 : mgpu_link_rate();
    free(factor);
}

static bool is_idle(const Engine *e, const LaneThread *l)
{
    if (!is_local(e, l->device))
        return true;
    for (int k = 0; k < e->plan->phase_count; k++) {
        const int *begin = e->phases[k].device[l->device].begin;
        if (begin[l->lane] < begin[l->lane + 1])
            return false;
    }
    return l->lane != MGPU_COMP;
}

static void find_idle_lanes(Engine *e)
{
    size_t count = (size_t)e->plan->devices * MGPU_LANES;
    for (size_t i = 0; i < count; i++) {
        LaneThread *l = &e->lanes[i];
        l->idle = is_idle(e, l);
        if (!has_thread(e, l))
            atomic_store(&l->progress.value, INT64_MAX);
        if (!l->idle && mgpu_lane_synchronizes(l->lane))
            e->busy_lanes++;
    }
}

static void start_lanes(Engine *e)
{
    size_t count = (size_t)e->plan->devices * MGPU_LANES;
    for (size_t i = 0; i < count; i++)
        if (has_thread(e, &e->lanes[i]))
            mgpu_start_thread(&e->lanes[i].thread, mgpu_drive_lane, &e->lanes[i]);
}

/* Returns "NVIDIA H200, driver 12.4"; if GPUs differ, each kind is named. */
static char *name_devices(const Engine *e)
{
    char *text = mgpu_format("%s", e->kind->library_name(e->devices[e->first]));
    for (int d = e->first + 1; d < e->end && e->kind->async; d++) {
        const char *name = e->kind->library_name(e->devices[d]);
        if (strcmp(name, e->kind->library_name(e->devices[d - 1])) == 0)
            continue;
        char *longer = mgpu_format("%s + %s", text, name);
        free(text);
        text = longer;
    }
    return text;
}

static const char *in_graphs(const Engine *e) { return e->captured_transfers ? " in graphs" : ""; }

/* Returns "; all-reduces over 4 devices: peer", or "" if there are none. */
static char *name_collectives(const Engine *e)
{
    if (e->processes)
        return mgpu_format("; all-reduces over %d devices of %d processes by %s%s", e->plan->devices, e->processes->count,
                           e->collective[MGPU_COMM]->name, in_graphs(e));
    if (!e->kind->async || e->plan->devices == 1)
        return mgpu_format("%s", "");
    const Collective *c = e->collective[MGPU_COMM], *sync = e->collective[MGPU_SYNC];
    return mgpu_format("; all-reduces over %d devices: %s%s%s%s%s%s", e->plan->devices, c->name, in_graphs(e),
                       c->remark ? ", " : "", c->remark ? c->remark : "", sync ? ", on the lane sync: " : "",
                       sync ? sync->name : "");
}

static char *describe_devices(const Engine *e)
{
    char *devices = name_devices(e), *collectives = name_collectives(e);
    char *text = mgpu_format("%s%s%s", devices, collectives, mgpu_engine_checks(e) ? "; virtual GPUs: times are emulation" : "");
    free(devices);
    free(collectives);
    return text;
}

Engine *mgpu_engine_open(const DeviceKind *kind, const mgpu_program *program, const mgpu_plan *plan, const RunOptions *o,
                         Collect *collect, void *context)
{
    mgpu_check_plan(kind, program, plan);
    Engine *e = mgpu_allocate_aligned(_Alignof(Engine), sizeof *e);
    e->kind = kind;
    e->program = program;
    e->plan = plan;
    e->collect = collect;
    e->context = context;
    e->processes = o->processes;
    e->first = mgpu_local_devices(o->processes, plan->devices).first;
    e->end = mgpu_local_devices(o->processes, plan->devices).end;
    e->single_threaded = o->here && plan->devices == 1 && !kind->async;
    e->steps_in_flight = MGPU_STEPS_IN_FLIGHT;
    make_tables(e);
    make_lanes(e);
    slow_down(e);
    if (e->processes)
        e->processes->watch(e->processes, mgpu_hang_where, e);
    open_devices(e, o);
    make_records(e);
    mgpu_hang_connects(e, true);
    mgpu_hang_stage(e, "all-reduces are being prepared", -1);
    find_idle_lanes(e);
    e->collective[MGPU_COMM] = kind->connect(e->machine, e->devices, plan, e->processes, NULL);
    if (!lane_of(e, e->first, MGPU_SYNC)->idle)
        e->collective[MGPU_SYNC] = kind->connect(e->machine, e->devices, plan, e->processes, e->collective[MGPU_COMM]);
    mgpu_hang_connects(e, false);
    mgpu_hang_stage(e, "graphs are being made", -1);
    if (e->kind->async)
        mgpu_async_open(e);
    e->description = describe_devices(e);
    start_lanes(e);
    if (e->processes)
        e->processes->watch(e->processes, mgpu_engine_where, e);
    mgpu_hang_lanes(e, true);
    mgpu_listen_open(e);
    mgpu_hang_stage(e, NULL, -1);
    return e;
}

void mgpu_engine_close(Engine *e, const char *achieved)
{
    e->achieved = achieved;
    if (e->kind->async)
        e->kind->async->achieved(e->machine, achieved);
    mgpu_hang_stage(e, "the devices are being closed", -1);
    if (e->processes)
        e->processes->watch(e->processes, NULL, NULL);
    atomic_store(&e->closing, true);
    publish(e, &e->posted, atomic_load(&e->posted.value) + 1);
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++) {
        if (has_thread(e, &e->lanes[i]))
            pthread_join(e->lanes[i].thread, NULL);
        free(e->lanes[i].argument);
        free(e->lanes[i].each);
        free(e->lanes[i].calls);
        free(e->lanes[i].spans);
    }
    mgpu_ticker_close(e->listener);
    mgpu_hang_lanes(e, false);
    if (e->kind->async)
        mgpu_async_close(e);
    for (int lane = MGPU_LANES - 1; lane >= 0; lane--)
        if (e->collective[lane])
            e->collective[lane]->close(e->collective[lane]);
    for (int d = e->first; d < e->end; d++) {
        e->kind->close(e->devices[d]);
        free(lane_of(e, d, MGPU_COMP)->workers);
        free(lane_of(e, d, MGPU_COMP)->now);
    }
    for (int k = 0; k < e->plan->phase_count; k++) {
        for (int d = 0; d < e->plan->devices; d++) {
            mgpu_free_lanes(&e->phases[k].device[d]);
            free(e->phases[k].library[d]);
        }
        free(e->phases[k].device);
        free(e->phases[k].library);
    }
    for (int i = 0; i < MGPU_RING; i++) {
        free(e->ring[i].index);
        if (e->kind->async)
            e->kind->async->unlock(e->machine, e->ring[i].block);
        else
            free(e->ring[i].block);
        free(e->ring[i].times);
        free(e->ring[i].fetch);
        free(e->ring[i].report);
    }
    e->kind->leave(e->machine);
    mgpu_hang_close(e);
    free(e->description);
    free(e->phases);
    free(e->devices);
    free(e->lanes);
    free(e);
}

void mgpu_engine_enter(Engine *e) { wait_for_counter(e, &e->left_threads, atomic_load(&e->left_threads.value)); }
void mgpu_engine_leave(Engine *e) { publish(e, &e->left_threads, atomic_load(&e->left_threads.value) + 1); }

const mgpu_phase *mgpu_engine_phase(const Engine *e, int kind, bool partial_batch)
{
    const mgpu_phase *other = NULL;
    for (int k = 0; k < e->plan->phase_count; k++) {
        const mgpu_phase *p = &e->plan->phases[k];
        if (p->kind == kind && p->partial_batch == partial_batch)
            return p;
        if (p->kind == kind && (p->partial_batch || kind == MGPU_PHASE_DECODE))
            other = p; /* A phase for partial batches can also run full ones. The decode phase has no two variants. */
    }
    return other;
}

/* ---- posting and collecting */
static void collect_ready(Engine *e)
{
    while (e->collected < atomic_load(&e->posted.value)) {
        Work *work = work_of(e, e->collected + 1);
        if (atomic_load(&work->unfinished))
            return;
        if (work->phase && e->phases[work->phase - e->plan->phases].reporter >= 0 && !atomic_load(&work->reported))
            return;
        e->collected++;
        if (work->phase)
            e->collect(e->context, work);
    }
}

static void wait_for_all(Engine *e, int64_t number)
{
    for (int i = 0; number > 0 && i < e->plan->devices * MGPU_LANES; i++)
        wait_for_counter(e, &e->lanes[i].progress, finished(number));
    if (number > 0 && e->kind->async)
        mgpu_async_wait_done(e, number);
    collect_ready(e);
}

/* A poster that has as many steps in flight as allowed sleeps until half of them have completed, so that it wakes up less
 * often. */
Work *mgpu_engine_next(Engine *e)
{
    int64_t number = atomic_load(&e->posted.value) + 1;
    if (number - e->steps_in_flight > e->done) {
        e->done = number - e->steps_in_flight / 2 - 1;
        double began = mgpu_seconds();
        wait_for_all(e, e->done);
        mgpu_trace_text(e->trace, TRACK_LOOP, "wait for devices", began, mgpu_seconds());
    }
    Work *work = work_of(e, number);
    work->number = number;
    work->phase = NULL;
    work->set = NULL;
    work->sample_count = 0;
    work->valid_only = false;
    work->applied = work->epoch = work->samples = 0;
    memset(work->fetch, 0, (size_t)e->program->output_count * sizeof *work->fetch);
    atomic_store(&work->reported, false);
    memset(work->times, 0, (size_t)e->plan->devices * sizeof *work->times);
    atomic_store(&work->unfinished, e->busy_lanes);
    return work;
}

void mgpu_engine_post(Engine *e)
{
    Work *work = work_of(e, atomic_load(&e->posted.value) + 1);
    work->timed = work->applied % MGPU_TIMED == 0;
    work->traced = mgpu_trace_post(e->trace, work->applied + 1);
    publish(e, &e->posted, atomic_load(&e->posted.value) + 1);
    if (e->single_threaded)
        mgpu_execute_on_caller(e);
}

void mgpu_engine_drain(Engine *e)
{
    if (!atomic_load(&e->posted.value))
        return;
    mgpu_engine_next(e); /* A step without a phase: it completes the delayed operations of the previous step. */
    mgpu_engine_post(e);
    wait_for_all(e, atomic_load(&e->posted.value));
}

void mgpu_engine_change_kind(Engine *e, int kind)
{
    bool predicts = kind == MGPU_PHASE_PREDICT || kind == MGPU_PHASE_DECODE;
    if (predicts != e->predicts)
        mgpu_engine_drain(e);
    e->predicts = predicts;
}

void mgpu_engine_set_steps_in_flight(Engine *e, int steps)
{
    e->steps_in_flight = steps < 2 ? 2 : steps > MGPU_STEPS_IN_FLIGHT ? MGPU_STEPS_IN_FLIGHT : steps;
}

/* Creates the timing events of asynchronous devices if operations are to be timed. */
static void make_clocks(const Engine *e, const void *asks)
{
    for (int d = e->first; asks && e->kind->async && d < e->end; d++)
        mgpu_timed_trace(e->async_device[d]);
}

void mgpu_engine_set_profile(Engine *e, Profile *profile)
{
    e->profile = profile;
    make_clocks(e, profile);
}

void mgpu_engine_set_trace(Engine *e, Trace *trace)
{
    e->trace = trace;
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++) {
        LaneThread *l = &e->lanes[i];
        int threads = trace && l->lane == MGPU_COMP && !e->kind->async ? l->worker_count : 1;
        free(l->spans);
        l->spans = trace ? mgpu_allocate((size_t)threads, sizeof *l->spans) : NULL;
        for (int t = 0; trace && t < threads; t++)
            l->spans[t] = mgpu_trace_log(trace, l->device, t ? TRACK_WORKERS + t : mgpu_trace_lane_track(l->lane));
    }
    make_clocks(e, trace);
}

const char *mgpu_engine_library(const Engine *e) { return e->description; }

int64_t mgpu_engine_library_bytes(const Engine *e, int device)
{
    return is_local(e, device) ? e->kind->library_bytes(e->devices[device]) : 0;
}

int64_t mgpu_engine_launches(const Engine *e, double *seconds)
{
    int64_t launches = 0;
    *seconds = 0;
    for (int d = e->first; d < e->end && e->kind->async; d++) {
        double own;
        launches += e->kind->async->launches(e->devices[d], &own);
        *seconds += own;
    }
    return launches;
}

GraphsMade mgpu_engine_graphs(const Engine *e) { return e->kind->async ? mgpu_async_graphs(e) : (GraphsMade){0}; }

bool mgpu_engine_checks(const Engine *e) { return e->kind->async && e->kind->async->checks(e->devices[e->first]); }

int64_t mgpu_engine_arena_bytes(const Engine *e, int device)
{
    return is_local(e, device) ? e->kind->arena_bytes(e->devices[device]) : 0;
}

bool mgpu_engine_has(const Engine *e, int device) { return is_local(e, device); }

static mgpu_range in_bytes(const mgpu_variable *v, mgpu_range elements)
{
    int64_t each = mgpu_dtype_bytes(v->tensor.dtype);
    return (mgpu_range){elements.begin * each, elements.end * each};
}

/* Returns the bytes of a variable that a device has, as a range of the whole variable. */
static mgpu_range held(const Engine *e, int device, int variable)
{
    const mgpu_variable *v = &e->program->variables[variable];
    int64_t count = mgpu_elements(&v->tensor);
    if (!v->split)
        return in_bytes(v, (mgpu_range){0, v->sharded ? count * e->plan->device[device].shard.capacity : count});
    return in_bytes(
        v, (mgpu_range){mgpu_even_part(count, e->plan->devices, device), mgpu_even_part(count, e->plan->devices, device + 1)});
}

/* part: as a range of the whole variable */
static void copy_part(const Engine *e, int device, int variable, mgpu_range part, void *to)
{
    mgpu_hang_stage(e, "a variable is being copied from it", device);
    if (part.end > part.begin)
        e->kind->copy_out(e->devices[device], -1, to,
                          e->plan->device[device].variable_offset[variable] + part.begin - held(e, device, variable).begin,
                          part.end - part.begin);
    mgpu_hang_stage(e, NULL, -1);
}

void mgpu_engine_read_part(const Engine *e, int device, int variable, mgpu_range bytes, void *to)
{
    uint8_t *at = to;
    if (!e->program->variables[variable].split) { /* replicated variables are equal on all devices */
        copy_part(e, is_local(e, device) ? device : e->first, variable, bytes, to);
        return;
    }
    for (int d = e->first; d < e->end; d++) {
        mgpu_range part = mgpu_overlap(held(e, d, variable), bytes);
        copy_part(e, d, variable, part, at);
        at += part.end - part.begin;
    }
}

void mgpu_engine_read_variable(const Engine *e, int device, int variable, void *to)
{
    const mgpu_variable *v = &e->program->variables[variable];
    mgpu_range all = {0, mgpu_tensor_bytes(&v->tensor)};
    if (v->split && e->processes)
        memset(to, 0, (size_t)all.end);
    mgpu_engine_read_part(e, device, variable, all, (uint8_t *)to + (v->split ? held(e, e->first, variable).begin : 0));
}

void mgpu_engine_read_whole(const Engine *e, int variable, void *to)
{
    const mgpu_variable *v = &e->program->variables[variable];
    Processes *p = e->processes;
    mgpu_engine_read_variable(e, 0, variable, to);
    if (!p || !v->split)
        return;
    int64_t at[p->count + 1];
    for (int r = 0; r <= p->count; r++)
        at[r] = in_bytes(v, mgpu_part_of_rank(p, e->plan->devices, mgpu_elements(&v->tensor), r)).begin;
    p->gather(p, to, at);
}

mgpu_range mgpu_engine_held(const Engine *e, int variable)
{
    const mgpu_variable *v = &e->program->variables[variable];
    int64_t count = mgpu_elements(&v->tensor);
    return v->split ? mgpu_part_of_rank(e->processes, e->plan->devices, count, mgpu_rank(e->processes)) : (mgpu_range){0, count};
}

void mgpu_engine_write_part(Engine *e, int device, int variable, int64_t begin, const void *from)
{
    if (!is_local(e, device))
        return;
    mgpu_range part = held(e, device, variable);
    mgpu_hang_stage(e, "a variable is being copied to it", device);
    if (part.end > part.begin)
        e->kind->copy_in(e->devices[device], e->plan->device[device].variable_offset[variable],
                         (const uint8_t *)from + part.begin - begin, part.end - part.begin);
    mgpu_hang_stage(e, NULL, -1);
}

void mgpu_engine_write_variable(Engine *e, int device, int variable, const void *from)
{
    mgpu_engine_write_part(e, device, variable, 0, from);
}

/* All phases have the same staging buffers at the same offsets, so any phase with them will do. */
void mgpu_engine_fill_staging(Engine *e, uint64_t seed)
{
    const mgpu_phase *phase = mgpu_engine_phase(e, MGPU_PHASE_TRAIN, false);
    for (int d = e->first; phase && d < e->end; d++)
        for (int b = 0; b < phase->devices[d].buffer_count; b++) {
            const mgpu_buffer *buffer = &phase->devices[d].buffers[b];
            if (buffer->kind != MGPU_STAGING || buffer->index < 0)
                continue;
            for (int slot = 0; slot < buffer->slots; slot++)
                mgpu_fill_random(e->kind->staging(e->devices[d]) + buffer->offset + slot * mgpu_slot_bytes(buffer->bytes),
                                 &e->program->inputs[buffer->index], e->plan->device[d].shard.capacity,
                                 seed + (uint64_t)(d * 16 + slot));
        }
}
