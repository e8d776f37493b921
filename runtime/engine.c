/* engine.c: execution of a plan. In: posted steps (Work); out: collected reports, outputs, new values in the arenas.
 *
 * A thread drives one lane of one device. It executes its operations of step q, then those of q + 1. As a lane keeps
 * its order, one number per lane stands for the events of all its operations: `progress` is (q << PLACE_BITS) + the
 * operations of step q that are done; the end of the step makes it (q + 1) << PLACE_BITS. So "x of step q has
 * happened" is progress > (q << PLACE_BITS) + place of x, and "the lane has finished step q whole" is
 * progress >= (q + 1) << PLACE_BITS. The rules (docs/design.md, Execution of a schedule):
 *
 *   - a wait for x@-k in step q holds when q - k < 1; or step q - k was of the same phase and x has happened in it; or it
 *     was of another phase and the lane of x has finished it whole
 *   - at a change of phase the lanes comp and comm of a device wait for each other to finish the step before
 *   - a REPORT or FETCH of slot -1 belongs to the step before. It runs if that was of the same phase; what a step of
 *     another phase is owed is done by the host lane before its own first REPORT or FETCH, behind its reads
 *
 * Posting: at most `ahead` steps are under way beyond the last one that all lanes have finished, so a record of the ring
 * is free when its turn comes, and a wait further back than that always holds. */
#include "runtime/device.h"
#include "runtime/internal.h"
#include "runtime/profile.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLED = 64 };    /* steps, of any phase */
enum { PLACE_BITS = 24 }; /* operations of a lane in a phase: check.c holds plans to it */

/* the operations of a phase on a device, lane by lane */
typedef struct LaneTable {
    int *order;                  /* operations, by lane */
    int *place;                  /* operation -> its place in its lane */
    int begin[MGPU_LANES + 1];   /* of each lane in `order` */
} LaneTable;
typedef struct PhaseTable {
    LaneTable *device;
    void ***library;             /* [device][operation], once the device has prepared the phase; else NULL */
    int reporter;                /* the device whose report is collected; -1: the phase reports nothing */
} PhaseTable;

typedef struct Lane Lane;
typedef struct Worker { const Lane *lane; int thread; CrashGuard *guard; } Worker;
struct Lane {
    Counter progress;
    Engine *engine;
    int device, lane;
    bool idle;                   /* it has no operation in any phase: no thread, and all its steps are over */
    pthread_t thread;
    DeviceCall *calls;           /* of the strip that runs, */
    void **argument;             /* and their arguments */
    int64_t *each;               /* parallel */
    const mgpu_op *op;           /* being executed, of this step and phase: for messages */
    Worker *workers;             /* of a lane comp: the other threads of the device's team */
    const mgpu_op **now;         /* [thread]: what each is at */
    const mgpu_phase *phase;
    int64_t number;
    int64_t input_wait_ns;       /* in this step */
};

struct Engine {
    const mgpu_program *program;
    const mgpu_plan *plan;
    const DeviceKind *kind;
    Device **devices;
    Lane *lanes;                 /* [device][lane] */
    PhaseTable *phases;
    Reduction *reduction;
    Work ring[MGPU_RING];
    Counter posted;
    _Atomic bool closing;
    Collect *collect;
    void *context;
    int64_t collected, done;     /* done: steps that all lanes are known to have finished */
    Profile *profile;            /* NULL: nobody asks */
    int busy_lanes;              /* comp and comm, of all devices, but for the idle ones */
    int ahead, threads;          /* threads: that compute, of all devices */
};

static Work *work_of(Engine *e, int64_t number)
{
    return &e->ring[number % MGPU_RING];
}

static const mgpu_phase *phase_of(Engine *e, int64_t number)
{
    return number < 1 ? NULL : work_of(e, number)->phase;
}

static Lane *lane_of(const Engine *e, int device, int lane)
{
    return &e->lanes[device * MGPU_LANES + lane];
}

/* how many of a lane's next operations run together */
static int strip_length(const mgpu_device_phase *p, const int *order, int left)
{
    const mgpu_op *op = &p->ops[order[0]];
    int count = 1;
    while (op->verb == MGPU_CALL && count < left && p->ops[order[count]].verb == MGPU_CALL &&
           p->ops[order[count]].strip == op->strip)
        count++;
    return count;
}

static int64_t finished(int64_t number)
{
    return (number + 1) << PLACE_BITS;
}

/* ---- failures */
static void describe(const Lane *l, const mgpu_op *op, char *text, size_t room)
{
    Engine *e = l->engine;
    const mgpu_step *step = &work_of(e, l->number)->block[l->device];
    const char *kernel = op->verb == MGPU_CALL ? e->program->kernels[op->target].name : "";
    snprintf(text, room, "device %d, step %lld, phase %s, operation %s%s%s (%s, line %d)", l->device,
             (long long)step->step, l->phase->name, op->id, *kernel ? " " : "", kernel, e->program->model_file, op->line);
}

static _Noreturn void fail_at(const Lane *l, const char *what)
{
    char place[400];
    describe(l, l->op, place, sizeof place);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: %s", place, what);
}

static _Noreturn void say_crash_at(const Lane *l, const mgpu_op *op, int signal)
{
    if (!op)
        mgpu_fail(MGPU_MACHINE_FAILED, "device %d: the runtime itself failed: %s", l->device, strsignal(signal));
    char place[400];
    describe(l, op, place, sizeof place);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s failed: %s", place, strsignal(signal));
}

static void say_crash(void *context, int signal)
{
    const Lane *l = context;
    say_crash_at(l, l->op && l->op->verb == MGPU_CALL ? l->now[0] : l->op, signal);
}

static void say_crash_of_worker(void *context, int signal)
{
    const Worker *w = context;
    say_crash_at(w->lane, w->lane->now[w->thread], signal);
}

/* ---- one operation */
static int64_t access_offset(const mgpu_device_phase *p, const mgpu_access *a, int64_t number)
{
    const mgpu_buffer *b = &p->buffers[a->buffer];
    int64_t slot = b->slots > 1 ? (number + a->slot + b->slots) % b->slots : 0;
    return b->offset + slot * b->slot_bytes + a->begin;
}

/* true: the operation looks at the step before */
static bool is_delayed(const mgpu_op *op)
{
    return (op->verb == MGPU_REPORT || op->verb == MGPU_FETCH) && op->access[0].slot < 0;
}

/* a call's arguments, the next ones in `argument` */
static DeviceCall call_of(Lane *l, const mgpu_device_phase *p, const mgpu_op *op, void **argument, int64_t *each,
                          const mgpu_step **step)
{
    Engine *e = l->engine;
    uint8_t *arena = e->kind->arena(e->devices[l->device]);
    DeviceCall call = {.kernel = &e->program->kernels[op->target], .op = op, .argument = argument, .each = each};
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        uint8_t *at = arena + access_offset(p, &op->access[i], l->number);
        uint8_t kind = p->buffers[op->access[i].buffer].kind;
        if (kind == MGPU_STEP) {
            *step = (const void *)at;
            continue;
        }
        each[call.arguments] = kind == MGPU_WORKSPACE ? -1 : kind == MGPU_LOCAL ? p->buffers[op->access[i].buffer].each : 0;
        call.own = call.own || each[call.arguments] != 0;
        argument[call.arguments++] = at;
    }
    return call;
}

/* the calls of a strip: operations order[0 .. count) */
static void run_strip(Lane *l, const mgpu_device_phase *p, const int *order, int count, const Work *work)
{
    Engine *e = l->engine;
    DeviceStrip strip = {l->calls, count, &work->block[l->device], e->profile != NULL, p->ops[order[0]].chunk};
    int64_t *each = l->each;
    void **argument = l->argument, **library = e->phases[l->phase - e->plan->phases].library[l->device];
    for (int i = 0; i < count; i++) {
        l->calls[i] = call_of(l, p, &p->ops[order[i]], argument, each, &strip.step);
        l->calls[i].library = library[order[i]];
        argument += l->calls[i].arguments;
        each += l->calls[i].arguments;
    }
    e->kind->run(e->devices[l->device], &strip, l->now);
    for (int i = 0; i < count && e->profile; i++)
        mgpu_profile_add(e->profile, l->phase, l->device, order[i], l->calls[i].seconds);
}

/* evaluation and prediction see the same samples whenever they are run */
static bool is_training(const mgpu_phase *phase)
{
    return phase->kind == MGPU_PHASE_PROLOGUE || phase->kind == MGPU_PHASE_ACCUMULATE || phase->kind == MGPU_PHASE_TRAIN;
}

/* samples of this device -> staging; the missing ones of a short step are copies of a real one */
static void read_batch(Lane *l, const mgpu_device_phase *p, const mgpu_op *op, Work *work)
{
    Engine *e = l->engine;
    uint8_t *staging = e->kind->staging(e->devices[l->device]);
    const mgpu_shard *shard = &e->plan->device[l->device].shard;
    const mgpu_step *block = &work->block[l->device];
    uint8_t *to[e->program->input_count + 1];
    memset(to, 0, sizeof to);
    bool any = false;
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_access *a = &op->access[op->read_count + i];
        int index = p->buffers[a->buffer].index;
        uint8_t *place = staging + access_offset(p, a, l->number);
        if (index < 0)
            memcpy(place, block, sizeof *block);
        else
            to[index] = place;
        any = any || index >= 0;
    }
    if (!work->set || !any)
        return;
    bool training = is_training(l->phase);
    mgpu_read_samples(work->set, to, block->alive ? work->index + shard->first : work->index, block->alive ? block->alive : 1,
                      training ? block->seed : 0, training ? work->epoch : 0);
    for (int i = 0; i < e->program->input_count; i++) {
        int64_t bytes = mgpu_tensor_bytes(&e->program->inputs[i].tensor);
        for (int64_t s = block->alive ? block->alive : 1; to[i] && s < shard->capacity; s++)
            memcpy(to[i] + s * bytes, to[i], (size_t)bytes);
    }
}

/* every write takes the staged buffer of its input; the step block, where it is not staged, comes from the record */
static void upload(Lane *l, const mgpu_device_phase *p, const mgpu_op *op, Work *work)
{
    Engine *e = l->engine;
    Device *device = e->devices[l->device];
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_access *a = &op->access[op->read_count + i];
        const void *from = NULL;
        int64_t bytes = a->end - a->begin;
        for (int k = 0; k < op->read_count && !from; k++)
            if (p->buffers[op->access[k].buffer].index == p->buffers[a->buffer].index)
                from = e->kind->staging(device) + access_offset(p, &op->access[k], l->number);
        if (!from) {
            from = &work->block[l->device];
            bytes = sizeof work->block[0];
        }
        e->kind->copy_in(device, access_offset(p, a, l->number), from, bytes);
    }
}

static void reduce(Lane *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    const mgpu_collective *c = &l->phase->collectives[op->target];
    uint8_t *data = e->kind->arena(e->devices[l->device]) + access_offset(p, &op->access[op->read_count], l->number);
    if (!mgpu_reduce(e->reduction, l->device, data, c->count, c->dtype, l->number << PLACE_BITS | op->target))
        fail_at(l, "the devices disagree about what they reduce: the program's tables are wrong");
}

static void report(Lane *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    if (e->phases[l->phase - e->plan->phases].reporter != l->device)
        return;
    Work *work = work_of(e, is_delayed(op) ? l->number - 1 : l->number);
    e->kind->copy_out(e->devices[l->device], work->report, access_offset(p, &op->access[0], l->number),
                      l->phase->report_count * (int64_t)sizeof(double));
    atomic_store(&work->reported, true);
}

static void fetch(Lane *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    Work *work = work_of(e, is_delayed(op) ? l->number - 1 : l->number);
    if (!work->fetch || !work->fetch[op->target])
        return;
    int64_t bytes = mgpu_tensor_bytes(&e->program->outputs[op->target]);
    e->kind->copy_out(e->devices[l->device], work->fetch[op->target] + e->plan->device[l->device].shard.first * bytes,
                      access_offset(p, &op->access[0], l->number), work->block[l->device].alive * bytes);
}

/* ---- one step of one lane */
static void wait_for(Lane *l, const mgpu_wait *wait, const mgpu_device_phase *p, const LaneTable *table)
{
    Engine *e = l->engine;
    int64_t number = l->number - wait->back;
    if (number < 1 || wait->back > MGPU_AHEAD)
        return;
    const mgpu_op *op = &p->ops[wait->op];
    Counter *progress = &lane_of(e, l->device, op->lane)->progress;
    int64_t target = phase_of(e, number) == l->phase ? (number << PLACE_BITS) + table->place[wait->op] + 1 : finished(number);
    if (l->lane == MGPU_COMP && op->lane == MGPU_COPY && atomic_load(&progress->value) < target) {
        double began = mgpu_seconds();
        mgpu_counter_wait(progress, target);
        l->input_wait_ns += (int64_t)(1e9 * (mgpu_seconds() - began));
    } else {
        mgpu_counter_wait(progress, target);
    }
}

/* operations order[0 .. count): one, or the calls of a strip */
static void execute(Lane *l, const mgpu_phase *phase, const int *order, int count)
{
    Engine *e = l->engine;
    const mgpu_device_phase *p = &phase->devices[l->device];
    const mgpu_op *op = &p->ops[order[0]];
    Work *work = work_of(e, l->number);
    l->phase = phase;
    l->op = op;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < p->ops[order[k]].wait_count; i++)
            wait_for(l, &p->ops[order[k]].waits[i], p, &e->phases[phase - e->plan->phases].device[l->device]);
    switch (op->verb) {
    case MGPU_CALL: run_strip(l, p, order, count, work); break;
    case MGPU_READ: read_batch(l, p, op, work); break;
    case MGPU_UPLOAD: upload(l, p, op, work); break;
    case MGPU_REDUCE: reduce(l, p, op); break;
    case MGPU_REPORT: report(l, p, op); break;
    case MGPU_FETCH: fetch(l, p, op); break;
    default: fail_at(l, "the program's tables are wrong: there is no such operation");
    }
    l->op = NULL;
}

/* what the step before, of another phase, is owed */
static void settle(Lane *l, const mgpu_phase *before)
{
    const LaneTable *t = &l->engine->phases[before - l->engine->plan->phases].device[l->device];
    for (int i = t->begin[l->lane]; i < t->begin[l->lane + 1]; i++)
        if (is_delayed(&before->devices[l->device].ops[t->order[i]]))
            execute(l, before, &t->order[i], 1);
}

/* ahead of a device's first step of a phase: what a library will compute there */
static void prepare(Lane *l, const mgpu_phase *phase)
{
    Engine *e = l->engine;
    const mgpu_device_phase *p = &phase->devices[l->device];
    PhaseTable *t = &e->phases[phase - e->plan->phases];
    const LaneTable *lanes = &t->device[l->device];
    void **library = mgpu_allocate((size_t)p->op_count + 1, sizeof *library);
    int begin = lanes->begin[MGPU_COMP], end = lanes->begin[MGPU_COMP + 1];
    const mgpu_op **ops = mgpu_allocate((size_t)(end - begin) + 1, sizeof *ops);
    void **found = mgpu_allocate((size_t)(end - begin) + 1, sizeof *found);
    for (int i = begin, count; i < end; i += count) {
        count = strip_length(p, lanes->order + i, end - i);
        for (int k = 0; k < count; k++)
            ops[k] = &p->ops[lanes->order[i + k]];
        memset(found, 0, (size_t)count * sizeof *found);
        if (ops[0]->verb == MGPU_CALL)
            e->kind->prepare(e->devices[l->device], e->program->kernels, ops, count, found);
        for (int k = 0; k < count; k++)
            library[lanes->order[i + k]] = found[k];
    }
    e->kind->ready(e->devices[l->device]);
    free(ops);
    free(found);
    t->library[l->device] = library;
}

static void run_step(Lane *l)
{
    Engine *e = l->engine;
    int64_t number = l->number;
    Work *work = work_of(e, number);
    const mgpu_phase *phase = work->phase, *before = phase_of(e, number - 1);
    bool changed = phase != before, owed = changed && before && l->lane == MGPU_HOST;
    if (changed && l->lane == MGPU_COMP)
        mgpu_counter_wait(&lane_of(e, l->device, MGPU_COMM)->progress, finished(number - 1));
    if (changed && l->lane == MGPU_COMM)
        mgpu_counter_wait(&lane_of(e, l->device, MGPU_COMP)->progress, finished(number - 1));
    if (phase && l->lane == MGPU_COMP && !e->phases[phase - e->plan->phases].library[l->device])
        prepare(l, phase);
    if (phase) {
        const LaneTable *t = &e->phases[phase - e->plan->phases].device[l->device];
        for (int i = t->begin[l->lane], count; i < t->begin[l->lane + 1]; i += count) {
            count = strip_length(&phase->devices[l->device], t->order + i, t->begin[l->lane + 1] - i);
            if (!is_delayed(&phase->devices[l->device].ops[t->order[i]]) || !changed) {
                execute(l, phase, &t->order[i], count);
            } else if (owed) {
                settle(l, before);
                owed = false;
            }
            mgpu_counter_set(&l->progress, (number << PLACE_BITS) + (i + count - t->begin[l->lane]));
        }
    }
    if (owed)
        settle(l, before);
}

static void finish_step(Lane *l)
{
    Work *work = work_of(l->engine, l->number);
    if (l->lane == MGPU_COMP) {
        int64_t longest = atomic_load(&work->input_wait_ns);
        while (l->input_wait_ns > longest && !atomic_compare_exchange_weak(&work->input_wait_ns, &longest, l->input_wait_ns))
            ;
        l->input_wait_ns = 0;
    }
    if (l->lane == MGPU_COMP || l->lane == MGPU_COMM) {
        atomic_store(&work->finished_at, mgpu_seconds());
        atomic_fetch_sub(&work->unfinished, 1);
    }
    if (l->lane == MGPU_COMP && l->number == SETTLED)
        l->engine->kind->settled(l->engine->devices[l->device]);
    mgpu_counter_set(&l->progress, finished(l->number));
}

static void *drive(void *argument)
{
    Lane *l = argument;
    static const char *const NAME[MGPU_LANES] = {"comp", "copy", "comm", "host"};
    char name[16];
    snprintf(name, sizeof name, "d%d.%s", l->device % 100000, NAME[l->lane]);
    pthread_setname_np(pthread_self(), name);
    CrashGuard *guard = mgpu_guard_begin(say_crash, l);
    for (l->number = 1;; l->number++) {
        mgpu_counter_wait(&l->engine->posted, l->number);
        if (atomic_load(&l->engine->closing))
            break;
        run_step(l);
        finish_step(l);
    }
    mgpu_guard_end(guard);
    return NULL;
}

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
            LaneTable *lanes = &t->device[d];
            lanes->order = mgpu_allocate((size_t)p->op_count, sizeof(int));
            lanes->place = mgpu_allocate((size_t)p->op_count, sizeof(int));
            int count = 0;
            for (int lane = 0; lane < MGPU_LANES; lane++) {
                lanes->begin[lane] = count;
                for (int i = 0; i < p->op_count; i++)
                    if (p->ops[i].lane == lane) {
                        lanes->place[i] = count - lanes->begin[lane];
                        lanes->order[count++] = i;
                        if (p->ops[i].verb == MGPU_REPORT)
                            t->reporter = d;
                    }
            }
            lanes->begin[MGPU_LANES] = count;
        }
    }
}

static void enter_worker(void *context, int thread)
{
    Lane *l = context;
    Worker *w = &l->workers[thread];
    char name[16];
    snprintf(name, sizeof name, "d%d.comp%d", l->device % 10000, thread % 1000);
    pthread_setname_np(pthread_self(), name);
    *w = (Worker){.lane = l, .thread = thread};
    w->guard = mgpu_guard_begin(say_crash_of_worker, w);
}

static void leave_worker(void *context, int thread)
{
    const Lane *l = context;
    mgpu_guard_end(l->workers[thread].guard);
}

/* Device d's share of the threads. They stay on cores of their own if there is one for each and none is left over. */
static TeamPlan team_of(const Engine *e, int d, int *cores)
{
    int devices = e->plan->devices, count = 0;
    int64_t threads = e->threads > devices ? e->threads : devices;
    int64_t first = threads * d / devices, end = threads * (d + 1) / devices;
    cpu_set_t set;
    CPU_ZERO(&set);
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    for (int core = 0; known && core < CPU_SETSIZE; core++)
        if (CPU_ISSET((size_t)core, &set)) {
            if (count >= first && count < end)
                cores[count - first] = core;
            count++;
        }
    return (TeamPlan){.threads = (int)(end - first), .cores = threads == count ? cores : NULL, .spin = threads <= count,
                      .enter = enter_worker, .leave = leave_worker, .context = lane_of(e, d, MGPU_COMP)};
}

static void open_devices(Engine *e)
{
    e->kind = mgpu_device_kind(e->plan->kind);
    if (!e->kind)
        mgpu_fail(MGPU_MACHINE_FAILED, "this program's runtime drives no devices of the kind '%s'", e->plan->kind);
    e->devices = mgpu_allocate((size_t)e->plan->devices, sizeof(Device *));
    int *cores = mgpu_allocate((size_t)(e->threads > e->plan->devices ? e->threads : e->plan->devices), sizeof *cores);
    for (int d = 0; d < e->plan->devices; d++) {
        const mgpu_device *device = &e->plan->device[d];
        TeamPlan team = team_of(e, d, cores);
        Lane *comp = lane_of(e, d, MGPU_COMP);
        comp->workers = mgpu_allocate((size_t)team.threads, sizeof *comp->workers);
        comp->now = mgpu_allocate((size_t)team.threads, sizeof *comp->now);
        int64_t bytes = device->arena_bytes + (team.threads - 1) * device->work_bytes;
        e->devices[d] = e->kind->open(device, &team);
        if (!e->devices[d])
            mgpu_fail(MGPU_MACHINE_FAILED, "no memory for device %d: %lld bytes of arena and %lld of staging; a smaller batch, "
                      "or more devices with the same batch, need less", d, (long long)bytes, (long long)device->staging_bytes);
        if (e->kind->arena_bytes(e->devices[d]) != bytes)
            mgpu_fail(MGPU_MACHINE_FAILED, "device %d: %lld bytes were predicted, %lld allocated", d, (long long)bytes,
                      (long long)e->kind->arena_bytes(e->devices[d]));
    }
    free(cores);
}

static void make_records(Engine *e)
{
    int reports = 0;
    for (int k = 0; k < e->plan->phase_count; k++)
        reports = e->plan->phases[k].report_count > reports ? e->plan->phases[k].report_count : reports;
    for (int i = 0; i < MGPU_RING; i++) {
        e->ring[i].index = mgpu_allocate((size_t)e->plan->micro + 1, sizeof(int64_t));
        e->ring[i].block = mgpu_allocate((size_t)e->plan->devices, sizeof(mgpu_step));
        e->ring[i].fetch = mgpu_allocate((size_t)e->program->output_count, sizeof(uint8_t *));
        e->ring[i].report = mgpu_allocate((size_t)reports, sizeof(double));
    }
}

/* the most calls in a strip, and the most arguments of one */
static void measure_strips(const Engine *e, int *calls, int *arguments)
{
    *calls = *arguments = 1;
    for (int k = 0; k < e->plan->phase_count; k++)
        for (int d = 0; d < e->plan->devices; d++) {
            const mgpu_device_phase *p = &e->plan->phases[k].devices[d];
            const LaneTable *t = &e->phases[k].device[d];
            for (int i = t->begin[MGPU_COMP], count; i < t->begin[MGPU_COMP + 1]; i += count) {
                int sum = 0;
                count = strip_length(p, t->order + i, t->begin[MGPU_COMP + 1] - i);
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
    measure_strips(e, &calls, &arguments);
    size_t count = (size_t)e->plan->devices * MGPU_LANES;
    e->lanes = aligned_alloc(_Alignof(Lane), count * sizeof(Lane));
    if (!e->lanes)
        mgpu_fail(MGPU_MACHINE_FAILED, "no memory for %zu lanes", count);
    memset(e->lanes, 0, count * sizeof(Lane));
    for (size_t i = 0; i < count; i++) {
        Lane *l = &e->lanes[i];
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

static bool is_idle(const Engine *e, const Lane *l)
{
    for (int k = 0; k < e->plan->phase_count; k++) {
        const int *begin = e->phases[k].device[l->device].begin;
        if (begin[l->lane] < begin[l->lane + 1])
            return false;
    }
    return l->lane != MGPU_COMP;
}

static void start_lanes(Engine *e)
{
    size_t count = (size_t)e->plan->devices * MGPU_LANES;
    for (size_t i = 0; i < count; i++) {
        Lane *l = &e->lanes[i];
        l->idle = is_idle(e, l);
        if (l->idle)
            atomic_store(&l->progress.value, INT64_MAX);
        else if (l->lane == MGPU_COMP || l->lane == MGPU_COMM)
            e->busy_lanes++;
    }
    for (size_t i = 0; i < count; i++)
        if (!e->lanes[i].idle && pthread_create(&e->lanes[i].thread, NULL, drive, &e->lanes[i]) != 0)
            mgpu_fail(MGPU_MACHINE_FAILED, "thread %zu of %zu cannot be started", i + 1, count);
}

Engine *mgpu_engine_open(const mgpu_program *program, const mgpu_plan *plan, int threads, Collect *collect, void *context)
{
    mgpu_check_plan(program, plan);
    Engine *e = aligned_alloc(_Alignof(Engine), sizeof *e);
    if (!e)
        mgpu_fail(MGPU_MACHINE_FAILED, "no memory for the engine");
    memset(e, 0, sizeof *e);
    e->program = program;
    e->plan = plan;
    e->collect = collect;
    e->context = context;
    e->threads = threads;
    e->ahead = MGPU_AHEAD;
    make_tables(e);
    make_lanes(e);
    open_devices(e);
    make_records(e);
    e->reduction = mgpu_reduction_open(plan->devices);
    start_lanes(e);
    return e;
}

void mgpu_engine_close(Engine *e)
{
    atomic_store(&e->closing, true);
    mgpu_counter_set(&e->posted, atomic_load(&e->posted.value) + 1);
    for (int i = 0; i < e->plan->devices * MGPU_LANES; i++) {
        if (!e->lanes[i].idle)
            pthread_join(e->lanes[i].thread, NULL);
        free(e->lanes[i].argument);
        free(e->lanes[i].each);
        free(e->lanes[i].calls);
    }
    for (int d = 0; d < e->plan->devices; d++) {
        e->kind->close(e->devices[d]);
        free(lane_of(e, d, MGPU_COMP)->workers);
        free(lane_of(e, d, MGPU_COMP)->now);
    }
    for (int k = 0; k < e->plan->phase_count; k++) {
        for (int d = 0; d < e->plan->devices; d++) {
            free(e->phases[k].device[d].order);
            free(e->phases[k].device[d].place);
            free(e->phases[k].library[d]);
        }
        free(e->phases[k].device);
        free(e->phases[k].library);
    }
    for (int i = 0; i < MGPU_RING; i++) {
        free(e->ring[i].index);
        free(e->ring[i].block);
        free(e->ring[i].fetch);
        free(e->ring[i].report);
    }
    mgpu_reduction_close(e->reduction);
    free(e->phases);
    free(e->devices);
    free(e->lanes);
    free(e);
}

const mgpu_phase *mgpu_engine_phase(const Engine *e, int kind, bool ragged)
{
    const mgpu_phase *other = NULL;
    for (int k = 0; k < e->plan->phase_count; k++) {
        const mgpu_phase *p = &e->plan->phases[k];
        if (p->kind == kind && p->ragged == ragged)
            return p;
        if (p->kind == kind && p->ragged)
            other = p; /* a ragged phase does for full steps too */
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
        mgpu_counter_wait(&e->lanes[i].progress, finished(number));
    collect_ready(e);
}

/* Who posts as many steps as may be under way sleeps until half of them are done: it wakes less often, on cores that compute. */
Work *mgpu_engine_next(Engine *e)
{
    int64_t number = atomic_load(&e->posted.value) + 1;
    if (number - e->ahead > e->done) {
        e->done = number - e->ahead / 2 - 1;
        wait_for_all(e, e->done);
    }
    Work *work = work_of(e, number);
    work->number = number;
    work->phase = NULL;
    work->set = NULL;
    work->sample_count = 0;
    work->applied = work->epoch = work->samples = 0;
    memset(work->fetch, 0, (size_t)e->program->output_count * sizeof *work->fetch);
    atomic_store(&work->reported, false);
    atomic_store(&work->input_wait_ns, 0);
    atomic_store(&work->unfinished, e->busy_lanes);
    return work;
}

void mgpu_engine_post(Engine *e)
{
    mgpu_counter_set(&e->posted, atomic_load(&e->posted.value) + 1);
}

void mgpu_engine_drain(Engine *e)
{
    if (!atomic_load(&e->posted.value))
        return;
    mgpu_engine_next(e); /* a step without a phase: what is owed of the step before is done in it */
    mgpu_engine_post(e);
    wait_for_all(e, atomic_load(&e->posted.value));
}

void mgpu_engine_set_ahead(Engine *e, int steps)
{
    e->ahead = steps < 2 ? 2 : steps > MGPU_AHEAD ? MGPU_AHEAD : steps;
}

void mgpu_engine_set_profile(Engine *e, Profile *profile)
{
    e->profile = profile;
}

const char *mgpu_engine_library(const Engine *e)
{
    return e->kind->library_name(e->devices[0]);
}

int64_t mgpu_engine_arena_bytes(const Engine *e, int device)
{
    return e->kind->arena_bytes(e->devices[device]);
}

void mgpu_engine_read_variable(const Engine *e, int device, int variable, void *to)
{
    e->kind->copy_out(e->devices[device], to, e->plan->device[device].variable_offset[variable],
                      mgpu_tensor_bytes(&e->program->variables[variable].tensor));
}

void mgpu_engine_write_variable(Engine *e, int device, int variable, const void *from)
{
    e->kind->copy_in(e->devices[device], e->plan->device[device].variable_offset[variable], from,
                     mgpu_tensor_bytes(&e->program->variables[variable].tensor));
}

/* all phases have the same staging buffers at the same offsets */
void mgpu_engine_fill_staging(Engine *e, uint64_t seed)
{
    const mgpu_phase *phase = mgpu_engine_phase(e, MGPU_PHASE_TRAIN, false);
    for (int d = 0; phase && d < e->plan->devices; d++)
        for (int b = 0; b < phase->devices[d].buffer_count; b++) {
            const mgpu_buffer *buffer = &phase->devices[d].buffers[b];
            if (buffer->kind != MGPU_STAGING || buffer->index < 0)
                continue;
            for (int slot = 0; slot < buffer->slots; slot++)
                mgpu_fill_random(e->kind->staging(e->devices[d]) + buffer->offset + slot * buffer->slot_bytes,
                                 &e->program->inputs[buffer->index], e->plan->device[d].shard.capacity,
                                 seed + (uint64_t)(d * 16 + slot));
        }
}
