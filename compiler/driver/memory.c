/* memory.c: the bytes that a run needs on each device, and whether they are available: on this machine or, for GPUs that are not
 * here, on a typical one. In: the schedule of a plan. */
#include "compiler/base/progress.h"
#include "compiler/driver/command.h"
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "compiler/ir/placement.h"
#include "compiler/ir/program.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/durations.h"
#include "runtime/base/cores.h"
#include "runtime/cuda/gpus.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t arena_bytes(const Schedule *s, int device)
{
    int64_t most = 0;
    for (int i = 0; i < s->phase_count; i++)
        if (s->phases[i].devices[device].arena_bytes > most)
            most = s->phases[i].devices[device].arena_bytes;
    return most;
}

/* Returns the bytes of its arena, and of the workspaces of further threads. */
static int64_t bytes_of_device(const Program *p, const Plan *plan, int device)
{
    const Schedule *s = plan->schedule;
    int64_t work = 0, bytes = arena_bytes(s, device);
    for (int i = 0; i < s->phase_count; i++)
        if (s->phases[i].devices[device].work_bytes > work)
            work = s->phases[i].devices[device].work_bytes;
    const Machine *named = p->options->planned;
    int cores = named ? (int)named->host.cores.value : mgpu_default_threads("mgpuc");
    int64_t threads = !p->target->own_memory ? mgpu_device_threads(cores, plan_each(plan), plan_place(plan, device)) : 1;
    return bytes + (threads - 1) * work;
}

int64_t device_bytes(const Program *p, const Plan *plan, int device)
{
    return bytes_of_device(p, plan, device) + plan->schedule->outside_arena_bytes;
}

static double number_in(const char *path)
{
    double n = 0;
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%lf", &n) != 1) /* "max": no limit */
        n = 0;
    if (f)
        fclose(f);
    return n;
}

double host_memory(void)
{
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    static const char *const LIMITS[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (int i = 0; i < COUNT(LIMITS); i++) {
        double limit = number_in(LIMITS[i]);
        bytes = limit > 0 && limit < bytes ? limit : bytes;
    }
    return bytes;
}

/* Returns the memory of the smallest GPU here; 0: there is none. */
static double gpu_memory(void)
{
    GpuList list;
    double least = 0;
    if (mgpu_list_gpus(&list))
        return 0;
    for (int i = 0; i < list.count; i++)
        if (least == 0 || (double)list.gpus[i].memory < least)
            least = (double)list.gpus[i].memory;
    return least;
}

/* Returns the largest batch for which GPUs need at most `bytes` each; 0: not even the smallest fits. */
static int64_t batch_of_arena_sizes(const Model *m, const Schedule *s, const ArenaSize *rooms, int count, double bytes)
{
    int64_t group = m->group > 0 ? m->group : 1, parts = m->accumulate > 0 ? m->accumulate : 1, samples = 0;
    bytes -= (double)s->outside_arena_bytes;
    for (int i = 0; i < count; i++) {
        const ArenaSize *r = &rooms[i], *less = i ? r - 1 : NULL;
        double all = (double)r->bytes + (double)r->work;
        if (all <= bytes) {
            samples = r->samples;
            continue;
        }
        if (!less)
            break;
        double left = bytes - (double)(r->work > less->work ? r->work : less->work) - (double)less->bytes;
        if (left > 0)
            samples = less->samples + (int64_t)(left / (double)(r->bytes - less->bytes) * (double)(r->samples - less->samples));
        break;
    }
    return samples / group * group * s->devices * parts;
}

static int64_t batch_in(const Program *p, const Plan *plan, double bytes)
{
    int count;
    const ArenaSize *rooms = find_arena_sizes(p, plan, &count);
    return batch_of_arena_sizes(p->model, plan->schedule, rooms, count, bytes);
}

static double arena_size_bytes(const ArenaSize *r) { return (double)r->bytes + (double)r->work; }

/* Returns the samples at which a line through two rooms has so many bytes, at most `most`. */
static int64_t samples_on_line(const ArenaSize *a, const ArenaSize *b, double bytes, int64_t most)
{
    double each = (arena_size_bytes(b) - arena_size_bytes(a)) / (double)(b->samples - a->samples);
    double samples = each > 0 ? (double)a->samples + (bytes - arena_size_bytes(a)) / each : (double)most;
    return samples < (double)most ? (int64_t)samples : most;
}

/* For one device. With more samples another tensor may be the largest, so an extrapolated number is planned, too. Rooms are
 * nearly convex. */
static int64_t samples_that_fit(const Program *p, const Plan *plan, ArenaSize before, ArenaSize fits, double bytes, int64_t most)
{
    enum { TRIES = 8 };
    const double NEAR = 1.0005;
    int64_t tried = samples_on_line(&before, &fits, bytes, most);
    for (int k = 0; k < TRIES && (double)tried > NEAR * (double)fits.samples; k++) {
        ArenaSize r = find_arena_size(p, plan, tried);
        bool more = arena_size_bytes(&r) <= bytes;
        tried = more && tried == most ? most : samples_on_line(&fits, &r, bytes, most);
        fits = more ? r : fits;
    }
    return fits.samples;
}

/* As batch_in, but may return more samples than the plan has. */
int64_t batch_that_fits(const Program *p, const Plan *plan, double bytes)
{
    const Model *m = p->model;
    const Schedule *s = plan->schedule;
    int count;
    const ArenaSize *rooms = find_arena_sizes(p, plan, &count);
    double left = bytes - (double)s->outside_arena_bytes;
    if (count < 2 || arena_size_bytes(&rooms[count - 1]) > left)
        return batch_of_arena_sizes(m, s, rooms, count, bytes);
    int64_t group = m->group > 0 ? m->group : 1, parts = m->accumulate > 0 ? m->accumulate : 1, each = s->devices * parts;
    return samples_that_fit(p, plan, rooms[count - 2], rooms[count - 1], left, INT32_MAX / each) / group * group * each;
}

/* Returns the memory of the named machine's host, or of the smallest of its GPUs that the plan uses. */
double planned_memory(const Machine *m, bool host, int devices)
{
    double least = host ? m->host.memory.value : m->devices[0].memory.value;
    for (int d = 1; d < devices && !host; d++) {
        double bytes = machine_device(m, PROCESSOR_CUDA, d, devices).memory.value;
        least = bytes < least ? bytes : least;
    }
    return least;
}

static bool has_parts(const Model *m)
{
    bool any = false;
    for (int v = 0; v < m->variable_count; v++)
        any = any || variable_is_placed(&m->variables[v], OVER_ELEMENTS);
    return any;
}

/* Returns true if weights themselves are split, not only optimizer states and rounded copies: each use gathers them. Decided from
 * the model, which may come from a dump. */
static bool has_weights_in_parts(const Model *m)
{
    bool any = false, *rounded = NEW_ARRAY(bool, m->variable_count);
    for (int v = 0; v < m->variable_count; v++)
        if (m->variables[v].kind == ROUNDED)
            rounded[m->variables[v].owner] = true;
    for (int v = 0; v < m->variable_count; v++)
        any = any || (variable_is_placed(&m->variables[v], OVER_ELEMENTS) &&
                      (m->variables[v].kind == ROUNDED || (m->variables[v].kind == WEIGHT && !rounded[v])));
    return any;
}

/* ---- split weights: spare memory makes steps shorter if gathers are exposed */
typedef struct Tried {
    double us, exposed_us;
} Tried;

static Tried try_step(const Program *p, const Plan *plan)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    SimulationInput in = simulation_input(p, plan);
    StepUse use = step_use(&in, simulate_step(&in));
    memory_use(outer);
    memory_free(own);
    return (Tried){use.step_us, use.exposed_us};
}

double predicted_step_us(const Program *p)
{
    double us = 0;
    for (int i = 0; i < p->plan_count; i++)
        us += try_step(p, &p->plans[i]).us;
    return us;
}

/* Gathers weights before their use as far as memory allows: that of the machine that is planned for, so that plans are the same
 * wherever they are made. */
static void gather_early(Program *p, Plan *plan, double there)
{
    static const double EARLY[] = {1, 1.0 / 8, 0};
    for (int k = 0; k < COUNT(EARLY); k++) {
        p->early_gather_share = EARLY[k];
        plan->schedule = schedule(p, plan);
        if (needed_bytes(p, plan, NULL) <= there)
            return;
    }
}

/* Keeps gathered weights from one use to the next, as many as fit, if each increase is predicted to shorten the step. */
static void reuse_gathers(Program *p, Plan *plan, double there)
{
    static const double REUSED[] = {1.0 / 8, 1.0 / 4, 1.0 / 2, 1}, GAIN = .01; /* of a step; less is not worth the memory */
    Tried best = try_step(p, plan);
    for (int k = 0; k < COUNT(REUSED) && best.exposed_us > GAIN * best.us; k++) {
        Plan more = *plan;
        p->reused_gather_share = REUSED[k];
        more.schedule = schedule(p, &more);
        if (needed_bytes(p, &more, NULL) > there)
            break;
        Tried tried = try_step(p, &more);
        if (tried.us > (1 - GAIN) * best.us)
            continue;
        best = tried;
        plan->schedule = more.schedule;
    }
    p->reused_gather_share = 0;
}

void schedule_in_memory(Program *p, Plan *plan)
{
    double there =
        p->options->memory ? p->options->memory_bytes : planned_memory(machine_of(p), !p->target->own_memory, plan_each(plan));
    p->early_gather_share = 0;
    if (plan->devices < 2 || !has_parts(p->model)) {
        plan->schedule = schedule(p, plan);
        return;
    }
    gather_early(p, plan, there);
    if (has_weights_in_parts(p->model) && schedule_has_step(plan->schedule))
        reuse_gathers(p, plan, there);
}

bool memory_is_limited(const Options *o) { return o->memory || (o->machine && o->command == COMMAND_COMPILE && !o->emit); }

const char *cure_of_none(const Program *p, const Plan *plan)
{
    const char *devices = p->options->shard == SHARD_WEIGHTS ? "more devices"
                          : plan->devices > 1                ? "--shard weights"
                                                             : "several devices with --shard weights";
    return format("not even one sample a device fits: %s, a smaller model or shorter samples%s", devices,
                  dtype_bytes(p->model->precision) > 2 ? ", or precision = bf16" : "");
}

/* Suggests what would fit: a smaller batch, micro-batches, more devices, as far as the plan was tried for other numbers of
 * samples. */
static void add_cures(const Program *p, const Plan *plan, double limit, Text *t)
{
    const Model *m = p->model;
    const Schedule *s = plan->schedule;
    int64_t group = m->group > 0 ? m->group : 1, parts = m->accumulate > 0 ? m->accumulate : 1, batch = batch_in(p, plan, limit),
            each = batch / parts / s->devices;
    if (!batch) {
        text_add(t, "  %s\n", cure_of_none(p, plan));
        return;
    }
    text_add(t, "  a batch of %lld fits: --set batch=%lld\n", (long long)batch, (long long)batch);
    int64_t devices = (m->batch / parts + each - 1) / each, micro = (m->batch + s->devices * each - 1) / (s->devices * each);
    text_add(t, "  %lld devices have %lld samples each, which fit\n", (long long)devices, (long long)each);
    text_add(t, "  accumulate = %lld computes %lld samples of a device at a time, and takes room for sums of the gradients\n",
             (long long)micro, (long long)((m->batch / micro / s->devices + group - 1) / group * group));
}

static _Noreturn void fail_of_memory(const Model *m, Program *p, const Plan *plan, int fullest, double needed, double limit)
{
    bool host = !p->target->own_memory;
    Text t = {0};
    text_add(&t, "%s:%d with a batch of %lld takes %s bytes%s, and %s %s\n", plan->kind, plan->devices, (long long)m->batch,
             grouped((int64_t)needed), host ? "" : " on a device",
             p->options->memory ? "--memory allows" : format("the machine '%s' has", p->options->planned->name),
             grouped((int64_t)limit));
    peak_print(plan->schedule, fullest, 8, &t);
    if (host)
        text_add(
            &t,
            "  mgpuc plan %s --devices %s:%d --memory %lldB --fit finds the largest batch that fits; accumulate computes fewer samples at a time\n",
            m->file, plan->kind, plan->devices, (long long)limit);
    else
        add_cures(p, plan, limit, &t);
    t.data[t.length - 1] = 0;
    show_error_at(m->batch_at, "%s", t.data);
    const char *recomputed = recompute_cure(p, plan);
    if (recomputed)
        fprintf(stderr, "  %s\n", recomputed);
    exit(1);
}

typedef int64_t BytesOf(const Program *, const Plan *, int device);

/* Returns the bytes of the fullest device; for host devices, of all of a node together. */
static double fullest_bytes(const Program *p, const Plan *plan, BytesOf *bytes_of, int *fullest)
{
    double most = 0, all = 0;
    for (int d = 0; d < plan->devices; d++) {
        double bytes = (double)bytes_of(p, plan, d);
        if (fullest && (bytes > most || d == 0))
            *fullest = d;
        most = bytes > most ? bytes : most;
        all += d < plan_each(plan) ? bytes : 0; /* the first node has at least as many samples as others */
    }
    return p->target->own_memory ? most : all;
}

static int64_t variables_of(const Program *p, const Plan *plan, int device)
{
    (void)p;
    return variable_bytes(plan->schedule, device);
}

double needed_bytes(const Program *p, const Plan *plan, int *fullest) { return fullest_bytes(p, plan, device_bytes, fullest); }
double variables_needed(const Program *p, const Plan *plan) { return fullest_bytes(p, plan, variables_of, NULL); }

/* Returns the memory of this machine; 0: it has no GPU. */
static double memory_here(bool host) { return host ? host_memory() : gpu_memory(); }

double memory_there(const Program *p, const Plan *plan)
{
    bool host = !p->target->own_memory;
    const Machine *named = p->options->planned;
    double there = p->options->memory ? p->options->memory_bytes
                   : named            ? planned_memory(named, host, plan_each(plan))
                                      : memory_here(host);
    return there > 0 ? there : planned_memory(machine_of(p), host, plan_each(plan)); /* the default machine's, without a GPU */
}

void warn_of_memory(const Model *m, Program *p, const Plan *plan)
{
    bool host = !p->target->own_memory;
    const Machine *named = p->options->planned;
    int fullest = 0;
    double needed = needed_bytes(p, plan, &fullest), limit = memory_there(p, plan);
    if (needed <= limit)
        return;
    if (memory_is_limited(p->options))
        fail_of_memory(m, p, plan, fullest, needed, limit);
    int64_t batch = batch_in(p, plan, limit);
    const char *cure = host    ? "mgpuc plan --fit finds the largest batch that fits; accumulate computes fewer samples at a time"
                       : batch ? format("a batch of %lld fits: --set batch=%lld, or accumulate, or more devices",
                                        (long long)batch, (long long)batch)
                               : cure_of_none(p, plan);
    lint_at(p->options->silenced, LINT_MEMORY, m->batch_at, "%s:%d with a batch of %lld takes %s%s, %s %s; %s", plan->kind,
            plan->devices, (long long)m->batch, bytes_text(needed), host ? "" : " on a device",
            named  ? format("the machine '%s' has", named->name)
            : host ? "this machine has"
            : memory_here(host) > 0
                ? "the GPU here has"
                : format("a device of %s, which is planned for where there are no GPUs, has", machine_of(p)->name),
            bytes_text(limit), cure);
}
