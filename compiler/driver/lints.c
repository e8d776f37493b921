/* lints.c: warnings of `mgpuc check` that need plans: what makes a step slower than necessary. One function for each;
 * docs/warnings.md. */
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "runtime/base/cores.h"

#include <string.h>

enum { MOST_SIMULATED = 16 }; /* devices: check must be quick */

/* ---- batches that the devices do not divide evenly */
typedef struct Imbalance {
    int64_t most;
    int idle;
    double lost;
} Imbalance; /* lost: share of device time spent waiting */

static Imbalance imbalance_of(const Plan *plan)
{
    Imbalance s = {0};
    for (int d = 0; d < plan->devices; d++) {
        s.most = plan->shards[d].share > s.most ? plan->shards[d].share : s.most;
        s.idle += plan->shards[d].share == 0;
    }
    s.lost = 1 - (double)plan->micro / ((double)s.most * plan->devices);
    return s;
}

/* Host devices that share a core alternate, so uneven work does not matter. */
static bool work_at_once(const Program *p, const Plan *plan)
{
    const Machine *named = p->options->planned;
    return p->target->own_memory || plan->devices <= (named ? (int)named->host.cores.value : mgpu_default_threads("mgpuc"));
}

static int64_t micro_batches(const Model *m) { return m->accumulate > 1 ? m->accumulate : 1; }

/* Returns "65", "130 in 2 micro-batches", "in groups of 32". */
static const char *batch_text(const Model *m)
{
    return format("%lld%s%s", (long long)m->batch,
                  m->accumulate > 1 ? format(" in %lld micro-batches", (long long)m->accumulate) : "",
                  m->group > 1 ? format(" in groups of %lld", (long long)m->group) : "");
}

static const char *samples_text(const Plan *plan)
{
    enum { FEW = 8 };
    Text t = {0};
    for (int d = 0; d < plan->devices && plan->devices <= FEW; d++)
        text_add(&t, "%s%lld", d ? "+" : "", (long long)plan->shards[d].share);
    if (plan->devices > FEW)
        text_add(&t, "between %lld and %lld", (long long)plan->shards[plan->devices - 1].share, (long long)plan->shards[0].share);
    return text_take(&t);
}

/* Returns the smallest batch of which all devices have as many samples: a group each, in each micro-batch. */
static int64_t least_even_batch(const Model *m, int devices)
{
    return devices * (m->group > 1 ? m->group : 1) * micro_batches(m);
}

/* Returns the nearest even batches: "--set batch=64 or --set batch=68". */
static const char *even_batches(const Model *m, int devices)
{
    int64_t unit = least_even_batch(m, devices), below = m->batch / unit * unit;
    return below ? format("--set batch=%lld or --set batch=%lld", (long long)below, (long long)(below + unit))
                 : format("--set batch=%lld", (long long)unit);
}

/* Returns the other plans with the same property: " (and on 3, 5, 6)". */
static const char *others_text(const Program *p, const Plan *said, bool (*holds)(const Program *, const Plan *))
{
    enum { MOST = 6 };
    Text t = {0};
    for (int i = 0, count = 0; i < p->plan_count; i++)
        if (&p->plans[i] != said && holds(p, &p->plans[i]) && count++ <= MOST)
            text_add(&t, count > MOST ? ", ..." : "%s%d", t.length ? ", " : " (and on ", p->plans[i].devices);
    if (t.length)
        text_add(&t, ")");
    return text_of(&t);
}

static bool has_idle(const Program *p, const Plan *plan)
{
    (void)p;
    return imbalance_of(plan).idle > 0;
}

static bool is_uneven(const Program *p, const Plan *plan)
{
    Imbalance s = imbalance_of(plan);
    return !s.idle && s.lost > PLAN_WORTH && work_at_once(p, plan);
}

/* Returns the plan with this property that loses most. */
static const Plan *worst_plan(const Program *p, bool (*holds)(const Program *, const Plan *))
{
    const Plan *worst = NULL;
    for (int i = 0; i < p->plan_count; i++)
        if (holds(p, &p->plans[i]) && (!worst || imbalance_of(&p->plans[i]).lost > imbalance_of(worst).lost))
            worst = &p->plans[i];
    return worst;
}

static void idle_devices(const Program *p)
{
    const Plan *plan = worst_plan(p, has_idle);
    if (!plan)
        return;
    int idle = imbalance_of(plan).idle, busy = plan->devices - idle;
    lint_at(p->options->silenced, LINT_IDLE_DEVICES, p->model->batch_at,
            "a batch of %s on %s%s: %d %s no samples; --devices %d is as fast, --set batch=%lld keeps all busy",
            batch_text(p->model), devices_text(plan->devices), others_text(p, plan, has_idle), idle, idle == 1 ? "has" : "have",
            busy, (long long)least_even_batch(p->model, plan->devices));
}

static void uneven_batch(const Program *p)
{
    const Plan *plan = worst_plan(p, is_uneven);
    if (!plan)
        return;
    Imbalance s = imbalance_of(plan);
    lint_at(
        p->options->silenced, LINT_UNEVEN_BATCH, p->model->batch_at,
        "a batch of %s on %s%s is %s samples%s: a step takes as long as one of %lld, so %.0f%% of the devices' time is lost; %s is divided evenly",
        batch_text(p->model), devices_text(plan->devices), others_text(p, plan, is_uneven), samples_text(plan),
        micro_batches(p->model) > 1 ? " each" : "", (long long)(s.most * plan->devices * micro_batches(p->model)), 100 * s.lost,
        even_batches(p->model, plan->devices));
}

/* ---- warnings that need a simulation: of the plan with the most devices, which wait most */
typedef struct Predicted {
    const Plan *plan;
    StepUse use;
    MidStep stops;
    const char *input; /* what input would need for steps not to wait */
} Predicted;

static Predicted predict(const Program *p, const Plan *plan)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    SimulationInput in = simulation_input(p, plan);
    const Simulation *s = simulate_step(&in);
    Predicted found = {.plan = plan, .use = step_use(&in, s)};
    found.stops = transfers_in_midstep(p, plan, imbalance_of(plan).idle > 0, &s->devices[found.use.device], found.use.device);
    memory_use(outer);
    found.input = input_needs(&in, &found.use, p->model->batch);
    memory_free(own);
    return found;
}

static const char *planned_text(const Program *p) { return planned_name(p->options, !p->target->own_memory); }

static void batch_statistics(const Program *p, const Predicted *found)
{
    const MidStep *stops = &found->stops;
    if (stops->us <= PLAN_WORTH * found->use.step_us)
        return;
    int devices = found->plan->devices;
    const Shard *shards = found->plan->shards;
    StatisticsSamples own = statistics_samples(devices, shards[devices - 1].share, shards[0].share);
    lint_at(
        p->options->silenced, LINT_BATCH_STATISTICS, stops->at,
        "%d all-reduce%s in the middle of a step, of statistics of the whole batch, stop%s %s for %.3g ms of %.3g (%.0f%%, predicted for %s); "
        "%sstatistics of groups need none: batchnorm(stats = %lld), batch_sum(x, group = %lld)",
        stops->count, stops->count == 1 ? "" : "s", stops->count == 1 ? "s" : "", devices_text(devices), stops->us / 1e3,
        found->use.step_us / 1e3, 100 * stops->us / found->use.step_us, planned_text(p),
        own.batch ? format("with a batch of %lld, ", (long long)own.batch) : "", (long long)own.samples, (long long)own.samples);
}

/* Returns the place of the training data. */
static const Place *place_of_data(const Program *p)
{
    for (int i = 0; i < p->model->set_count; i++)
        if (strcmp(p->model->sets[i].name, "train") == 0 && p->model->sets[i].call_count)
            return p->model->sets[i].calls[0].at;
    return p->model->batch_at;
}

static void slow_input(const Program *p, const Predicted *found)
{
    const StepUse *use = &found->use;
    if (use->input_us <= PLAN_WORTH * use->step_us)
        return;
    lint_at(p->options->silenced, LINT_SLOW_INPUT, place_of_data(p),
            "%s wait%s for input: %.3g ms of a step of %.3g (%.0f%%, predicted for %s); %s", devices_text(found->plan->devices),
            found->plan->devices == 1 ? "s" : "", use->input_us / 1e3, use->step_us / 1e3, 100 * use->input_us / use->step_us,
            planned_text(p), found->input);
}

/* ---- all warnings */
static void (*const OF_PLANS[])(const Program *) = {idle_devices, uneven_batch};
static void (*const OF_STEPS[])(const Program *, const Predicted *) = {batch_statistics, slow_input};

void warn_of_plans(const Program *p)
{
    for (int i = 0; i < COUNT(OF_PLANS); i++)
        OF_PLANS[i](p);
    const Plan *most = NULL;
    for (int i = 0; i < p->plan_count; i++)
        if ((!most || p->plans[i].devices <= MOST_SIMULATED) && work_at_once(p, &p->plans[i]) &&
            schedule_has_step(p->plans[i].schedule))
            most = &p->plans[i];
    if (!most)
        return;
    Predicted found = predict(p, most);
    for (int i = 0; i < COUNT(OF_STEPS); i++)
        OF_STEPS[i](p, &found);
}
