/* recompute.c: recompute = "auto": recomputes as much as is necessary for the program to fit into memory.
 *
 * In: the phases, and each plan's samples. Out: phases that fit, if possible. The plan that lacks most bytes decides, since all
 * plans have the same phases. plan/recompute/ counts temporaries only; buckets, fragmentation and workspaces are known only of a
 * schedule. So limits are tried by bisection until the schedule fits, and what is reported is what was tried. */
#include "compiler/base/progress.h"
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/gather.h"
#include "compiler/plan/recompute/recompute.h"

enum { TRIALS = 10 };
static const double CLOSE = 0.01;   /* of the memory: the search ends if less than this is unused */
static const double FINE = 0.0025;  /* of the memory: smallest difference of limits that are tried */
static const double HINT_MS = 4000; /* longest search for a hint */

static bool has_backward(const Phase *p) { return mgpu_is_train_kind((int)p->kind) || p->kind == PHASE_ACCUMULATE; }

typedef struct MemoryTrial {
    int64_t limit, peak, least;
    double needed, variables;
    bool moves;      /* calls were moved into idle time (plan/fill.c) */
    bool exceeds;    /* a phase has more temporaries than the limit: nothing is left to drop that pays */
    Recomputed full; /* of full steps */
} MemoryTrial;

/* Returns [phase]; NULL: nothing of it is recomputed. */
static Recomputable **recomputables(const Program *p, const Plan *plan)
{
    Recomputable **known = NEW_ARRAY(Recomputable *, p->phase_count);
    for (int i = 0; i < p->phase_count; i++)
        known[i] = has_backward(p->phases[i]) ? recomputable(p, plan, p->phases[i], plan_capacity(plan)) : NULL;
    return known;
}

/* Recomputes the program's phases with at most t->limit bytes of temporaries. */
static void recompute_phases(const Program *p, Recomputable *const *known, Phase *const *before, Phase **after, MemoryTrial *t)
{
    for (int i = 0; i < p->phase_count; i++) {
        Recomputed made;
        after[i] = before[i];
        if (!known[i])
            continue;
        after[i] = recompute(known[i], t->limit, &made);
        after[i] = made.tensors == 0 ? before[i] : gather_weights(after[i]);
        if (before[i]->kind == PHASE_TRAIN && !before[i]->partial_batch)
            t->full = made;
        t->peak = made.peak_before > t->peak ? made.peak_before : t->peak;
        t->exceeds |= made.peak > t->limit;
        t->least = made.least > t->least ? made.least : t->least;
    }
}

/* Computes the bytes of the program's phases as they are. */
static void find_bytes(const Program *p, const Plan *plan, MemoryTrial *t)
{
    Plan with = *plan;
    with.schedule = schedule_sizes(p, &with);
    t->needed = needed_bytes(p, &with, NULL);
    t->variables = variables_needed(p, &with);
    t->moves = !with.schedule->in_order;
}

static MemoryTrial try_limit(Program *p, const Plan *plan, Recomputable *const *known, int64_t limit)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Phase **before = p->phases;
    MemoryTrial t = {.limit = limit};
    p->phases = NEW_ARRAY(Phase *, p->phase_count);
    recompute_phases(p, known, before, p->phases, &t);
    find_bytes(p, plan, &t);
    p->phases = before;
    memory_use(outer);
    memory_free(own);
    return t;
}

/* Returns the bytes of the plan if nothing is recomputed. */
static MemoryTrial bytes_without_limit(const Program *p, const Plan *plan)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    MemoryTrial t = {.limit = INT64_MAX};
    find_bytes(p, plan, &t);
    memory_use(outer);
    memory_free(own);
    return t;
}

/* Sets peak and least, in bytes of temporaries. */
static void find_peak(const Program *p, Recomputable *const *known, MemoryTrial *without_limit)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    recompute_phases(p, known, p->phases, NEW_ARRAY(Phase *, p->phase_count), without_limit);
    memory_use(outer);
    memory_free(own);
}

/* Returns the number of devices whose temporaries share one memory. */
static int counted_devices(const Program *p, const Plan *plan) { return p->target->own_memory ? 1 : plan_each(plan); }

/* A lower bound for any recomputing: variables, and what one kernel reads or writes. */
static double least_bytes(const Program *p, const Plan *plan, const MemoryTrial *t)
{
    return t->variables + (double)t->least * counted_devices(p, plan);
}

/* Returns the next limit to try. Until one fits: lower by the missing bytes, and by twice as many if that did not help. A lower
 * limit may help where a higher one did not, since tensors that must be dropped together are dropped once each of them pays, so
 * the least step doubles. Then higher ones: three quarters of the way to full memory, as bytes mostly follow the limit. */
static int64_t next_limit(const MemoryTrial *best, const MemoryTrial *last, bool fits, int64_t failing, double there, int devices,
                          int trial)
{
    int64_t fine = (int64_t)(FINE * there / devices), over = (int64_t)((last->needed - there) / devices);
    if (!fits)
        return failing - (trial == 0 ? over : 2 * over > fine << trial ? 2 * over : fine << trial) - 1;
    int64_t middle = best->limit + (failing - best->limit) / 2;
    int64_t near = best->limit + (int64_t)(.75 * (there - best->needed) / devices);
    return middle < near ? middle : near;
}

/* Returns whether the search may end: what fits takes nearly all memory, or the last limit was exceeded, so that lower ones gain
 * little, and too many bytes are missing for that. */
static bool is_enough(const MemoryTrial *best, const MemoryTrial *last, bool fits, int64_t failing, double there, int devices)
{
    double fine = FINE * there / devices;
    if (fits)
        return there - best->needed < CLOSE * there || (double)(failing - best->limit) < fine;
    return last->exceeds && (last->needed > best->needed || last->needed - there > CLOSE * there);
}

/* Finds the highest limit under which the plan fits, or the one with the fewest bytes. until_ms: when to stop, by now_ms();
 * 0: never. */
static MemoryTrial find_limit(Program *p, const Plan *plan, Recomputable *const *known, MemoryTrial first, double there,
                              double until_ms)
{
    int64_t failing = first.peak;
    int devices = counted_devices(p, plan);
    MemoryTrial best = first, last = first;
    bool fits = false, enough = false;
    for (int k = 0; k < TRIALS && failing > 0 && !enough && !(until_ms > 0 && now_ms() > until_ms); k++) {
        int64_t limit = next_limit(&best, &last, fits, failing, there, devices, k);
        last = try_limit(p, plan, known, limit > 0 ? limit : 0);
        bool now = last.needed <= there;
        if (now || (!fits && last.needed < best.needed))
            best = last;
        fits = fits || now;
        if (!now)
            failing = last.limit;
        enough = is_enough(&best, &last, fits, failing, there, devices);
    }
    return best;
}

/* Returns the plan that lacks most bytes, and the bytes that it needs without a limit. */
static const Plan *neediest(const Program *p, MemoryTrial *without_limit)
{
    const Plan *most = NULL;
    double lack = 0;
    for (int i = 0; i < p->plan_count; i++) {
        MemoryTrial t = bytes_without_limit(p, &p->plans[i]);
        double more = t.needed - memory_there(p, &p->plans[i]);
        if (most && more <= lack)
            continue;
        lack = more;
        *without_limit = t;
        most = &p->plans[i];
    }
    return most;
}

/* Returns advice if weights and states, or one kernel in addition, do not fit; recomputing does not help. */
static const char *cure_without_recomputing(const Program *p, const Plan *plan, double variables, double there)
{
    if (variables <= there)
        return p->model->fit_accumulate || p->model->batch <= plan->devices
                   ? ""
                   : "; accumulate = \"auto\" computes fewer samples at a time";
    if (p->options->shard == SHARD_WEIGHTS)
        return "; on more devices the parts are smaller";
    return plan->devices > 1 ? "; with --shard weights each device has a part of them"
                             : "; on several devices with --shard weights each has a part of them";
}

const char *recompute_cure(Program *p, const Plan *plan)
{
    double there = memory_there(p, plan), until_ms = now_ms() + HINT_MS;
    bool asked = p->model->recompute;
    Stage stage;
    if (p->dropped.tensors)
        return NULL;
    stage_begin(&stage, "would recompute = \"auto\" make it fit?", "a hint");
    p->in_order = true;
    Recomputable **known = recomputables(p, plan);
    MemoryTrial first = bytes_without_limit(p, plan);
    find_peak(p, known, &first);
    double least = least_bytes(p, plan, &first);
    MemoryTrial found = least > there || asked ? first : find_limit(p, plan, known, first, there, until_ms);
    p->in_order = false;
    stage_end(&stage);
    if (least > there)
        return format("recompute = \"auto\" does not make it fit: weights and states take %s bytes, and one kernel %s more%s",
                      grouped((int64_t)found.variables), grouped((int64_t)(least - found.variables)),
                      cure_without_recomputing(p, plan, found.variables, there));
    if (!found.full.tensors)
        return NULL;
    return format("recompute = \"auto\" takes %s bytes%s: it drops %d tensor%s, for +%.1f %% computing time",
                  grouped((int64_t)found.needed), found.needed > there ? " at least" : "", found.full.tensors,
                  found.full.tensors == 1 ? "" : "s", 100 * (found.full.us / found.full.us_before - 1));
}

/* Moves calls into idle time. Returns the phases, or NULL if they do not fit into memory or take more than 2 % longer. */
static Phase **fill_too(Program *p, const Plan *plan, const MemoryTrial *found, double there, MemoryTrial *made)
{
    static const double NEAR = 1.02;
    p->in_order = false;
    Recomputable **known = recomputables(p, plan);
    MemoryTrial filled = try_limit(p, plan, known, found->limit);
    Phase **phases = NEW_ARRAY(Phase *, p->phase_count);
    p->in_order = filled.needed > there || filled.full.us > NEAR * found->full.us;
    if (!p->in_order)
        recompute_phases(p, known, p->phases, phases, made);
    return p->in_order ? NULL : phases;
}

void pass_recompute(Compilation *c)
{
    Program *p = c->program;
    MemoryTrial first;
    if (!p->model->recompute)
        return;
    const Plan *plan = neediest(p, &first);
    bool moves = plan && first.moves;
    if (moves && first.needed > memory_there(p, plan)) { /* moved calls use memory */
        p->in_order = true;
        plan = neediest(p, &first);
    }
    double there = plan ? memory_there(p, plan) : 0;
    if (!plan || first.needed <= there) {
        c->remark = "nothing: all of it fits";
        return;
    }
    Recomputable **known = recomputables(p, plan);
    find_peak(p, known, &first);
    if (least_bytes(p, plan, &first) > there) {
        c->remark = format("nothing: variables and what one kernel needs take %s bytes, more than there are",
                           grouped((int64_t)least_bytes(p, plan, &first)));
        return;
    }
    MemoryTrial found = find_limit(p, plan, known, first, there, 0), made = {.limit = found.limit};
    Phase **phases = moves ? fill_too(p, plan, &found, there, &made) : NULL;
    if (!phases) {
        phases = NEW_ARRAY(Phase *, p->phase_count);
        recompute_phases(p, known, p->phases, phases, &made);
    }
    p->phases = phases;
    p->dropped = (Dropped){made.full.tensors,
                           first.needed - found.needed,
                           made.full.flops / made.full.flops_before - 1,
                           made.full.us / made.full.us_before - 1,
                           made.full.layers,
                           made.full.layer_count};
    c->remark = dropped_text(&p->dropped);
}

const char *dropped_text(const Dropped *d)
{
    return format("recompute drops %d tensor%s: -%.1f MiB, +%.1f %% FLOPs, +%.1f %% computing time", d->tensors,
                  d->tensors == 1 ? "" : "s", d->bytes / (1 << 20), 100 * d->flops, 100 * d->time);
}
