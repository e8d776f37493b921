/* fill.c: which calls run while others wait for transfers.
 *
 * In: the calls of a phase, in an order in which they may run, and what each must come after. Out: another such order, in which
 * the comp lane is idle for less time.
 *
 * Few of the remaining calls depend on a transfer that computing waits for, such as that of batch statistics. Gradients of
 * weights lead to no such transfer, so they are free: they are held until a call waits. Then those that were held first run, then
 * later calls that are ready, such as the convolution of a residual block's other branch.
 *
 *   in      comp | input 9 | weight 9 | sums 8 |     | input 8 | weight 8 | sums 7 |     | input 7 ...
 *           comm                               | r 8 |                             | r 7 |
 *   out     comp | input 9 | sums 8 | weight 9 | input 8 | sums 7 | weight 8 | input 7 ...
 *           comm                    | r 8 |                       | r 7 |
 *
 * A held call keeps what it reads in memory. So held calls take at most AHEAD times as long as the next transfer: predictions are
 * not exact. */
#include "compiler/plan/fill.h"

#include <math.h>
#include <string.h>

static const double MEMORY_RESERVE = 2;
enum { WINDOW = 32 }; /* calls that are searched for one that is ready */

typedef struct CallUnit { /* calls that must directly follow each other */
    int first, count;
    /* waits_us: the longest transfer that it waits for; wanted_us: time of calls to hold for the next transfer */
    double us, waits_us, wanted_us;
    double taken; /* fraction of the SMs that the transfer occupies for which it waits */
    bool free, stays, placed;
} CallUnit;

typedef struct Fill {
    const FillTask *tasks;
    int task_count;
    const int *calls;
    int call_count;
    CallUnit *units;
    int unit_count;
    int *unit_of;                      /* by task; -1: not a call */
    double *over_us;                   /* by task: when it ends; infinite: not known yet */
    int *held, held_first, held_count; /* a queue of units */
    double held_us, now_us;
    int *out, out_count;
} Fill;

static void cut_units(Fill *f)
{
    for (int i = 0; i < f->call_count; i++) {
        if (!f->tasks[f->calls[i]].joined)
            f->units[f->unit_count++] = (CallUnit){.first = i, .free = true};
        CallUnit *u = &f->units[f->unit_count - 1];
        f->unit_of[f->calls[i]] = f->unit_count - 1;
        u->us += f->tasks[f->calls[i]].us;
        u->stays |= f->tasks[f->calls[i]].stays;
        u->count++;
    }
}

/* Finds, for each unit, the longest transfer that it waits for and no unit before it does. */
static void find_waits(Fill *f)
{
    bool *waited = NEW_ARRAY(bool, f->task_count);
    for (int i = 0; i < f->call_count; i++) {
        const FillTask *t = &f->tasks[f->calls[i]];
        CallUnit *u = &f->units[f->unit_of[f->calls[i]]];
        for (int k = 0; k < t->before_count; k++) {
            int before = t->before[k];
            if (!f->tasks[before].stops || waited[before])
                continue;
            waited[before] = true;
            u->taken = f->tasks[before].us > u->waits_us ? f->tasks[before].taken : u->taken;
            u->waits_us = fmax(u->waits_us, f->tasks[before].us);
        }
    }
}

static void need_before(const Fill *f, int task, bool *needed)
{
    for (int i = 0; i < f->tasks[task].before_count; i++)
        needed[f->tasks[task].before[i]] = true;
}

/* Finds the free units, which wait for no transfer, and which neither a transfer nor a unit needs that is not free; and, for each
 * unit, the time to fill during the next transfer. */
static void find_free(Fill *f)
{
    bool *needed = NEW_ARRAY(bool, f->task_count);
    for (int t = f->task_count - 1; t >= 0; t--) {
        CallUnit *u = f->unit_of[t] < 0 ? NULL : &f->units[f->unit_of[t]];
        if (u && (needed[t] || u->waits_us > 0) && u->free) {
            u->free = false;
            for (int k = u->first; k < u->first + u->count; k++)
                need_before(f, f->calls[k], needed);
        } else if (!u && (needed[t] || f->tasks[t].stops)) {
            need_before(f, t, needed);
        }
    }
    double next_us = 0; /* in which calls run during the transfer */
    for (int i = f->unit_count - 1; i >= 0; i--) {
        next_us = f->units[i].waits_us > 0 ? f->units[i].waits_us * (1 - f->units[i].taken) : next_us;
        f->units[i].wanted_us = MEMORY_RESERVE * next_us;
    }
}

/* A task that is not a call ends its own time after all before it. */
static double over_us(Fill *f, int task)
{
    if (f->unit_of[task] >= 0 || isfinite(f->over_us[task]))
        return f->over_us[task];
    double us = 0;
    for (int i = 0; i < f->tasks[task].before_count; i++)
        us = fmax(us, over_us(f, f->tasks[task].before[i]));
    return f->over_us[task] = us + f->tasks[task].us;
}

static double ready_us(Fill *f, int unit)
{
    const CallUnit *u = &f->units[unit];
    double us = 0;
    for (int k = u->first; k < u->first + u->count; k++)
        for (int i = 0; i < f->tasks[f->calls[k]].before_count; i++) {
            int before = f->tasks[f->calls[k]].before[i];
            us = f->unit_of[before] == unit ? us : fmax(us, over_us(f, before));
        }
    return us;
}

/* taken: the fraction of the SMs that it lacks */
static void place(Fill *f, int unit, double taken)
{
    CallUnit *u = &f->units[unit];
    f->now_us = fmax(f->now_us, ready_us(f, unit)) + u->us / (1 - taken);
    u->placed = true;
    for (int k = u->first; k < u->first + u->count; k++) {
        f->over_us[f->calls[k]] = f->now_us;
        f->out[f->out_count++] = f->calls[k];
    }
}

static int take_held(Fill *f)
{
    int unit = f->held[f->held_first++];
    f->held_us -= f->units[unit].us;
    return unit;
}

/* Returns a unit to run while `waiting` waits; -1: none is ready. */
static int find_ready(Fill *f, int waiting)
{
    if (f->held_first < f->held_count && ready_us(f, f->held[f->held_first]) <= f->now_us)
        return take_held(f);
    for (int i = waiting + 1; i < f->unit_count && i <= waiting + WINDOW; i++)
        if (!f->units[i].placed && !f->units[i].stays && ready_us(f, i) <= f->now_us)
            return i;
    return -1;
}

static void hold(Fill *f, int unit)
{
    f->held[f->held_count++] = unit;
    f->held_us += f->units[unit].us;
    while (f->held_first < f->held_count && f->held_us - f->units[f->held[f->held_first]].us >= f->units[unit].wanted_us)
        place(f, take_held(f), 0);
}

bool fill_waits(const FillTask *tasks, int task_count, int *calls, int call_count)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Fill f = {.tasks = tasks, .task_count = task_count, .calls = calls, .call_count = call_count};
    f.units = NEW_ARRAY(CallUnit, call_count);
    f.held = NEW_ARRAY(int, call_count);
    f.out = NEW_ARRAY(int, call_count);
    f.unit_of = NEW_ARRAY(int, task_count);
    f.over_us = NEW_ARRAY(double, task_count);
    for (int t = 0; t < task_count; t++) {
        f.unit_of[t] = -1;
        f.over_us[t] = INFINITY;
    }
    cut_units(&f);
    find_waits(&f);
    find_free(&f);
    for (int i = 0; i < f.unit_count; i++) {
        if (f.units[i].placed)
            continue;
        if (f.units[i].free) {
            hold(&f, i);
            continue;
        }
        for (int unit; f.now_us < ready_us(&f, i) && (unit = find_ready(&f, i)) >= 0;)
            place(&f, unit, f.units[i].taken);
        place(&f, i, 0);
    }
    while (f.held_first < f.held_count)
        place(&f, take_held(&f), 0);
    memory_use(outer);
    bool moved = call_count && memcmp(calls, f.out, sizeof *calls * (size_t)call_count) != 0;
    for (int i = 0; i < call_count; i++)
        calls[i] = f.out[i];
    memory_free(own);
    return moved;
}
