/* shards.c: Program, Plan with a number of devices -> the plan's shards: which samples of a micro-batch each device has.
 *
 * A micro-batch is the batch divided by the number of micro-batches, rounded up to whole groups (samples that batchnorm needs on
 * one device). Groups are divided
 *
 *   evenly               the first devices get the remainder, one each: a partial batch, which fills devices from the first,
 *                        then leaves the fewest of them idle
 *   by --split 10,10,3   in these proportions; the rest goes to the largest remainders (Hamilton's method)
 *   in virtual shards    of an exact model: each device has a subtree of them (mgpu_exact.h)
 *   by predicted times   if the devices of the machine differ: so that the slowest one ends as early as possible
 *
 * A device without a share has room for one sample, a copy of a real one. Whether a step fills its shards is only known at run
 * time. */
#include "compiler/plan/plan.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/schedule_internal.h"
#include "runtime/abi/mgpu_exact.h"

#include <math.h>

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* ---- in proportion to weights */
static void deal_out(int64_t groups, int devices, const double *weights, int64_t *shares)
{
    double all = 0, *left = NEW_ARRAY(double, devices);
    int64_t dealt = 0;
    for (int d = 0; d < devices; d++)
        all += weights[d];
    for (int d = 0; d < devices; d++) {
        double exact = (double)groups * weights[d] / all;
        shares[d] = (int64_t)exact;
        left[d] = exact - (double)shares[d];
        dealt += shares[d];
    }
    for (; dealt < groups; dealt++) {
        int most = 0;
        for (int d = 1; d < devices; d++)
            most = left[d] > left[most] ? d : most;
        shares[most]++;
        left[most] = -1;
    }
}

/* ---- by times */
typedef struct Runner {
    Device device;
    int of;
} Runner; /* of: the first device like it */

static const Phase *step_phase(const Program *p)
{
    for (int i = 0; i < p->phase_count; i++)
        if (p->phases[i]->kind == step_kind(p->predicts) && !p->phases[i]->partial_batch)
            return p->phases[i];
    return NULL;
}

static double time_of_samples(const Program *p, const Phase *phase, const Device *d, int64_t samples)
{
    double us = 0;
    for (int t = 0; t < phase->task_count; t++)
        if (phase->tasks[t]->kind == TASK_KERNEL && !phase->tasks[t]->elements) /* parts of Split values are equal */
            us += time_of_launch(p, d, phase->tasks[t], (double)samples);
    return us;
}

/* Returns the most groups that the device can compute in this time. */
static int64_t groups_within(const Program *p, const Phase *phase, const Device *d, double us, int64_t group, int64_t groups)
{
    int64_t low = 0, high = groups;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (time_of_samples(p, phase, d, middle * group) <= us)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int64_t share_within(const Program *p, const Phase *phase, const Runner *runners, int devices, double us, int64_t group,
                            int64_t groups, int64_t *shares)
{
    int64_t all = 0;
    for (int d = 0; d < devices; d++) {
        shares[d] = runners[d].of < d ? shares[runners[d].of] : groups_within(p, phase, &runners[d].device, us, group, groups);
        all += shares[d];
    }
    return all;
}

/* Takes the excess from the largest shares, so that shares are as even as the time allows. */
static void level(int64_t groups, int devices, int64_t *shares)
{
    int64_t low = 0, high = groups, all = 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, sum = 0;
        for (int d = 0; d < devices; d++)
            sum += shares[d] < middle ? shares[d] : middle;
        if (sum >= groups)
            high = middle;
        else
            low = middle + 1;
    }
    for (int d = 0; d < devices; d++)
        all += shares[d] < high ? shares[d] : high;
    for (int d = devices - 1; d >= 0; d--) {
        bool more = shares[d] >= high && all > groups;
        shares[d] = (shares[d] < high ? shares[d] : high) - more;
        all -= more;
    }
}

/* Finds, by bisection, shares that take at most 1.002 times the shortest possible time; a device without a share computes one
 * sample, too. */
static void balance(const Program *p, const Phase *phase, const Runner *runners, int devices, int64_t group, int64_t groups,
                    int64_t *shares)
{
    double low = 0, high = 0;
    for (int d = 0; d < devices; d++) {
        low = fmax(low, time_of_samples(p, phase, &runners[d].device, 1));
        high = fmax(high, time_of_samples(p, phase, &runners[d].device, divide_up(groups, devices) * group));
    }
    while (high - low > 1e-3 * high) {
        double middle = low + (high - low) / 2;
        if (share_within(p, phase, runners, devices, middle, group, groups, shares) >= groups)
            high = middle;
        else
            low = middle;
    }
    share_within(p, phase, runners, devices, 1.002 * high, group, groups, shares);
    level(groups, devices, shares);
}

/* false: the devices are all alike, or there is no training */
static bool find_runners(const Program *p, int devices, int each, Runner *runners)
{
    const Machine *m = machine_of(p);
    bool unlike = false;
    for (int d = 0; d < devices; d++) {
        runners[d] = (Runner){machine_device(m, processor_of(p), d % each, each), 0};
        while (runners[d].of < d && processor_of(p) == PROCESSOR_CUDA && !machine_alike(m, runners[d].of % each, d % each))
            runners[d].of++;
        unlike |= runners[d].of > 0;
    }
    return unlike && step_phase(p);
}

static int64_t groups_of(const Model *m)
{
    return divide_up(divide_up(m->batch, m->accumulate > 0 ? m->accumulate : 1), m->group > 0 ? m->group : 1);
}

int64_t micro_shards(const Model *m) { return m->exact / (m->accumulate > 1 ? m->accumulate : 1); }

int64_t largest_shard(const Model *m)
{
    return m->exact ? divide_up(groups_of(m), micro_shards(m)) * (m->group > 0 ? m->group : 1) : 0;
}

static void share_shards(int64_t exact, int devices, int64_t groups, int64_t *shares)
{
    for (int d = 0; d < devices; d++)
        shares[d] = mgpu_shard_groups(groups, exact, mgpu_first_shard(exact, devices, d + 1)) -
                    mgpu_shard_groups(groups, exact, mgpu_first_shard(exact, devices, d));
}

static void share_groups(const Program *p, int devices, int each, int64_t group, int64_t groups, int64_t *shares)
{
    Runner *runners = NEW_ARRAY(Runner, devices);
    double *even = NEW_ARRAY(double, devices);
    for (int d = 0; d < devices; d++)
        even[d] = 1;
    if (p->options && p->options->weights)
        deal_out(groups, devices, p->options->weights, shares);
    else if (devices > 1 && p->options && find_runners(p, devices, each, runners))
        balance(p, step_phase(p), runners, devices, group, groups, shares);
    else
        deal_out(groups, devices, even, shares);
}

void split(const Program *p, Plan *plan)
{
    const Model *m = p->model;
    int64_t group = m->group > 0 ? m->group : 1, groups = groups_of(m), first = 0;
    if (plan->devices < 1)
        die("a plan for %d devices", plan->devices);
    if (__builtin_mul_overflow(groups, group, &plan->micro))
        die("a batch of %lld in groups of %lld samples", (long long)m->batch, (long long)group);
    int64_t *shares = NEW_ARRAY(int64_t, plan->devices);
    if (m->exact)
        share_shards(micro_shards(m), plan->devices, groups, shares);
    else
        share_groups(p, plan->devices, plan_each(plan), group, groups, shares);
    plan->shards = NEW_ARRAY(Shard, plan->devices);
    /* where some devices may have no samples, the kernels of partial batches are used by all, so that all round alike */
    plan->always_partial = micro_shards(m) > groups;
    for (int d = 0; d < plan->devices; d++) {
        int64_t share = group * shares[d];
        plan->shards[d] = (Shard){first, share, share > 0 ? share : 1};
        plan->always_partial |= share == 0;
        first += share;
    }
}

int64_t plan_capacity(const Plan *plan)
{
    int64_t most = 0;
    for (int d = 0; d < plan->devices; d++)
        most = plan->shards[d].capacity > most ? plan->shards[d].capacity : most;
    return most;
}

double accessed_bytes(const Access *accesses, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)(accesses[i].end - accesses[i].begin);
    return bytes;
}
