/* recompute.c: recompute = "auto": as much is recomputed as it takes for the program to fit into memory.
 *
 * In: the phases, and each plan's samples. Out: phases that fit, if that can be. The plan that lacks most bytes decides, for the
 * phases are those of all plans. plan/recompute.c counts temporaries; buckets, gaps between offsets and workspaces are known of a
 * schedule only. So limits are tried until the schedule fits, by bisection: what is printed is what was tried. */
#include "compiler/driver/command.h"
#include "compiler/driver/passes.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/gather.h"
#include "compiler/plan/recompute.h"

enum { TRIALS = 10 };
static const double CLOSE = 0.01; /* of the memory: no more is given back */

static bool keeps_much(const Phase *p) { return p->kind == PHASE_TRAIN || p->kind == PHASE_ACCUMULATE; }

/* the program's phases with so many bytes of temporaries; all: what is said of its full steps */
static void recompute_phases(const Program *p, const Plan *plan, Phase *const *before, int64_t limit, Phase **after, Recomputed *full, int64_t *peak)
{
    *full = (Recomputed){0};
    *peak = 0;
    for (int i = 0; i < p->phase_count; i++) {
        Recomputed made;
        after[i] = before[i];
        if (!keeps_much(before[i]))
            continue;
        after[i] = recompute(p, plan, before[i], plan_capacity(plan), limit, &made);
        after[i] = made.tensors == 0 ? before[i] : gather_weights(after[i]);
        if (before[i]->kind == PHASE_TRAIN && !before[i]->partial_batch)
            *full = made;
        *peak = made.peak_before > *peak ? made.peak_before : *peak;
    }
}

static double bytes_needed(const Program *p, const Plan *plan)
{
    Plan with = *plan;
    with.schedule = schedule(p, &with);
    return needed_bytes(p, &with, NULL);
}

typedef struct Trial { int64_t limit, peak; double needed; Recomputed full; } Trial;

static Trial try_limit(Program *p, const Plan *plan, int64_t limit)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Phase **before = p->phases;
    Trial t = {.limit = limit};
    p->phases = NEW_ARRAY(Phase *, p->phase_count);
    recompute_phases(p, plan, before, limit, p->phases, &t.full, &t.peak);
    t.needed = bytes_needed(p, plan);
    p->phases = before;
    memory_use(outer);
    memory_free(own);
    return t;
}

/* the highest limit under which the plan fits; if there is none, the one with the fewest bytes. A lower limit may help where one above it did
 * not: what has to be dropped together is dropped once each of it pays. So until one fits, steps down are twice as long each time. */
static Trial find_limit(Program *p, const Plan *plan, Trial first, double there)
{
    int64_t failing = first.peak;
    int devices = p->target->own_memory ? 1 : plan->devices;
    Trial best = first, last = first;
    bool fits = false;
    for (int k = 0; k < TRIALS && failing > 0; k++) {
        int64_t over = (int64_t)((last.needed - there) / devices), step = (over > failing / 64 ? over : failing / 64) << k;
        int64_t limit = fits ? best.limit + (failing - best.limit) / 2 : failing - step - 1;
        last = try_limit(p, plan, limit > 0 ? limit : 0);
        bool now = last.needed <= there;
        if (now || (!fits && last.needed < best.needed))
            best = last;
        fits = fits || now;
        if (!now)
            failing = last.limit;
        if (now && there - last.needed < CLOSE * there)
            break;
    }
    return best;
}

static const Plan *neediest(const Program *p, double *needed, double *there)
{
    const Plan *most = NULL;
    double lack = 0;
    for (int i = 0; i < p->plan_count; i++) {
        Memory *own = memory_new(), *outer = memory_use(own);
        double bytes = bytes_needed(p, &p->plans[i]), memory = memory_there(p, &p->plans[i]);
        memory_use(outer);
        memory_free(own);
        if (bytes - memory <= lack && most)
            continue;
        lack = bytes - memory;
        most = &p->plans[i];
        *needed = bytes;
        *there = memory;
    }
    return most;
}

const char *recompute_cure(Program *p, const Plan *plan, double needed)
{
    double there = memory_there(p, plan);
    Trial found = find_limit(p, plan, try_limit(p, plan, INT64_MAX), there);
    Dropped d = {.tensors = found.full.tensors, .bytes = needed - found.needed, .flops = found.full.flops / found.full.flops_before - 1, .time = found.full.us / found.full.us_before - 1};
    if (p->model->recompute || !d.tensors)
        return NULL;
    return format("recompute = \"auto\" takes %s bytes%s: it drops %d tensor%s, for +%.1f %% computing time", grouped((int64_t)found.needed),
                  found.needed > there ? " at least" : "", d.tensors, d.tensors == 1 ? "" : "s", 100 * d.time);
}

void pass_recompute(Compilation *c)
{
    Program *p = c->program;
    double needed = 0, there = 0;
    if (!p->model->recompute)
        return;
    const Plan *plan = neediest(p, &needed, &there);
    if (!plan || needed <= there) {
        c->said = "nothing: all of it fits";
        return;
    }
    Trial first = try_limit(p, plan, INT64_MAX), found = find_limit(p, plan, first, there);
    Phase **phases = NEW_ARRAY(Phase *, p->phase_count);
    int64_t peak;
    Recomputed full;
    recompute_phases(p, plan, p->phases, found.limit, phases, &full, &peak);
    p->phases = phases;
    p->dropped = (Dropped){full.tensors, needed - found.needed, full.flops / full.flops_before - 1, full.us / full.us_before - 1, full.layers, full.layer_count};
    c->said = dropped_text(&p->dropped);
}

const char *dropped_text(const Dropped *d)
{
    return format("recompute drops %d tensor%s: -%.1f MiB, +%.1f %% FLOPs, +%.1f %% computing time", d->tensors, d->tensors == 1 ? "" : "s",
                  d->bytes / (1 << 20), 100 * d->flops, 100 * d->time);
}
