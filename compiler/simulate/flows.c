/* flows.c: flows over shared resources: the rate of each, and which ends next. Rates are found by progressive filling: the rates
 * of all flows grow together until a resource is used up, or a flow has its highest rate. These flows are then fixed, and the
 * others continue. */
#include "compiler/simulate/simulate.h"

#include <math.h>

Flows *flows_new(const double *rate, int count)
{
    Flows *f = NEW(Flows);
    *f = (Flows){.rate = NEW_ARRAY(double, count), .rate_count = count, .peak = NEW_ARRAY(double, count)};
    for (int i = 0; i < count; i++)
        f->rate[i] = rate[i];
    return f;
}

/* Returns a flow's use of its most used resource: "equal rates" means rates of that. */
static double weight_of(const Flow *f)
{
    double most = 0;
    for (int i = 0; i < f->load_count; i++)
        most = f->loads[i].amount > most ? f->loads[i].amount : most;
    return most > 0 ? most : 1;
}

/* Returns the level at which the flows that are not fixed use up a resource, or one of them is as fast as alone. */
static double lowest_level(const Flows *f, const bool *open, const double *left, double *used)
{
    double level = INFINITY;
    for (int r = 0; r < f->rate_count; r++)
        used[r] = 0;
    for (int i = 0; i < f->active_count; i++) {
        const Flow *x = &f->active[i];
        double weight = weight_of(x), own = weight / x->least_us;
        if (!open[i])
            continue;
        level = own < level ? own : level;
        for (int k = 0; k < x->load_count; k++)
            used[x->loads[k].resource] += x->loads[k].amount / weight;
    }
    for (int r = 0; r < f->rate_count; r++)
        if (used[r] > 0 && left[r] / used[r] < level)
            level = left[r] / used[r];
    return level;
}

static bool is_bound(const Flow *x, double level, const double *left, const double *used)
{
    if (weight_of(x) / x->least_us <= level)
        return true;
    for (int k = 0; k < x->load_count; k++)
        if (left[x->loads[k].resource] <= used[x->loads[k].resource] * level)
            return true;
    return false;
}

static void find_speeds(Flows *f)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    bool *open = NEW_ARRAY(bool, f->active_count), *bound = NEW_ARRAY(bool, f->active_count);
    double *left = NEW_ARRAY(double, f->rate_count), *used = NEW_ARRAY(double, f->rate_count);
    int count = f->active_count;
    for (int i = 0; i < count; i++)
        open[i] = true;
    for (int r = 0; r < f->rate_count; r++)
        left[r] = f->rate[r];
    for (int more = count; more > 0;) {
        double level = lowest_level(f, open, left, used);
        for (int i = 0; i < count; i++)
            bound[i] = open[i] && is_bound(&f->active[i], level * (1 + 1e-12), left, used);
        for (int i = 0; i < count; i++) {
            Flow *x = &f->active[i];
            if (!bound[i])
                continue;
            x->speed = level / weight_of(x);
            for (int k = 0; k < x->load_count; k++)
                left[x->loads[k].resource] -= x->loads[k].amount * x->speed;
            open[i] = false;
            more--;
        }
        for (int r = 0; r < f->rate_count; r++)
            left[r] = left[r] > 0 ? left[r] : 0;
    }
    for (int r = 0; r < f->rate_count; r++) {
        double share = f->rate[r] > 0 ? 1 - left[r] / f->rate[r] : 0;
        f->peak[r] = share > f->peak[r] ? share : f->peak[r];
    }
    memory_use(outer);
    memory_free(own);
}

static void go_on(Flows *f, double now_us)
{
    for (int i = 0; i < f->active_count; i++) {
        Flow *x = &f->active[i];
        x->left -= x->speed * (now_us - f->now_us);
        x->left = x->left > 0 ? x->left : 0;
    }
    f->now_us = now_us;
}

/* New flows have no speed yet, so that all flows that begin at one time are considered together. */
void flows_start(Flows *f, double now_us, const Load *loads, int load_count, double alone_us, int owner)
{
    go_on(f, now_us);
    if (f->active_count == f->capacity) {
        f->active = grow(f->active, sizeof *f->active * (size_t)f->capacity, sizeof *f->active * (size_t)(2 * f->capacity + 8));
        f->capacity = 2 * f->capacity + 8;
    }
    f->active[f->active_count++] =
        (Flow){.loads = loads, .load_count = load_count, .least_us = alone_us, .owner = owner, .left = 1, .end_us = INFINITY};
    f->stale = true;
}

double flows_next(Flows *f)
{
    double next = INFINITY;
    if (f->stale) {
        find_speeds(f);
        for (int i = 0; i < f->active_count; i++)
            f->active[i].end_us = f->now_us + f->active[i].left / f->active[i].speed;
        f->stale = false;
    }
    for (int i = 0; i < f->active_count; i++)
        next = f->active[i].end_us < next ? f->active[i].end_us : next;
    return next;
}

int flows_end(Flows *f, double now_us)
{
    for (int i = 0; i < f->active_count; i++) {
        if (f->active[i].end_us > now_us)
            continue;
        int owner = f->active[i].owner;
        go_on(f, now_us);
        for (int k = i; k + 1 < f->active_count; k++)
            f->active[k] = f->active[k + 1];
        f->active_count--;
        f->stale = true;
        return owner;
    }
    return -1;
}
