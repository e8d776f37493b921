/* plan.c: `mgpuc plan`: a row for each number of devices and batch. Each is compiled up to its schedule, which is simulated.
 * Where the model has `exact`, the same rows without it follow. */
#include "compiler/driver/plan.h"
#include "compiler/base/progress.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/machine.h"
#include "compiler/plan/durations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HOST_DEVICES = 8 };

/* ---- Plans of one batch. Their memory is freed, since a table has many. */
typedef struct Made {
    Memory *own, *outer;
    Program *program;
} Made;

static const Count ONE = {1, 1};

/* Returns the value of --devices. GPUs of several nodes need no kind: they are those of the machine. */
static const char *list_text(const Count *counts, int count, const char *kind)
{
    Text list = {0};
    bool said = strcmp(kind, "host") != 0 && counts[count - 1].nodes > 1;
    for (int i = 0; i < count; i++) {
        Count c = counts[i];
        text_add(&list, "%s%s", i ? "," : "", said ? "" : format("%s:", kind));
        text_add(&list, "%s%d", c.nodes > 1 ? format("%dx", c.nodes) : "", c.devices / c.nodes);
    }
    return text_take(&list);
}

static const char *counts_text(const Count *counts, int count)
{
    Text list = {0};
    for (int i = 0; i < count; i++)
        text_add(&list, "%s%d", i ? "," : "", counts[i].devices);
    return format("%s device%s", text_of(&list), counts[count - 1].devices == 1 ? "" : "s");
}

/* counts: ascending */
static Made make(Planning *p, const Count *counts, int count, int64_t batch)
{
    Made m = {.own = memory_new()};
    m.outer = memory_use(m.own);
    Options *o = NEW(Options);
    *o = *p->options;
    o->set_keys = NULL;
    o->set_values = NULL;
    o->set_count = 0;
    int values = 0;
    for (int i = 0; i < p->options->set_count; i++) {
        APPEND(o->set_keys, o->set_count, p->options->set_keys[i]);
        APPEND(o->set_values, values, p->options->set_values[i]);
    }
    if (batch > 0) {
        APPEND(o->set_keys, o->set_count, "batch");
        APPEND(o->set_values, values, format("%lld", (long long)batch));
    }
    if (p->inexact) {
        APPEND(o->set_keys, o->set_count, "exact");
        APPEND(o->set_values, values, "none");
    }
    o->devices = list_text(counts, count, p->kind);
    if (p->warned)
        o->silenced = ~0u;
    p->warned = true;
    lint_silence(&o->silenced, lint_name(LINT_LEARNING_RATE)); /* the batches of a table are not those of training */
    Stage stage;
    stage_begin(&stage, NULL, "the plan of %s%s%s", counts_text(counts, count),
                batch > 0 ? format(" with a batch of %lld", (long long)batch) : "",
                o->shard != SHARD_NOTHING ? ", variables in parts" : "");
    m.program = make_schedules(o, p->kernels);
    stage_end(&stage);
    return m;
}

static void give_back(Made *m)
{
    memory_use(m->outer);
    memory_free(m->own);
}

/* --measured: returns how much longer than predicted kernels take, if one device trains so many samples per second. */
static double compute_factor(Planning *p, int64_t batch)
{
    if (p->measured <= 0)
        return 1;
    if (p->factor_batch == batch)
        return p->factor;
    KernelCache *kernels = p->kernels;
    bool inexact = p->inexact;
    p->kernels = NULL; /* those of another batch */
    p->inexact = false;
    Made one = make(p, &ONE, 1, batch);
    p->kernels = kernels;
    p->inexact = inexact;
    SimulationInput in = simulation_input(one.program, one.program->plans);
    double wanted = (double)batch / p->measured * 1e6, factor = 1;
    for (int round = 0; round < 4; round++) { /* other parts of the step do not change */
        in.compute = factor;
        Simulation *s = simulate_step(&in);
        double computing = s->devices[0].lanes[LANE_COMP].busy_us, rest = s->step_us - computing;
        double enough = wanted > rest ? (wanted - rest) / computing : wanted / s->step_us;
        factor *= enough;
    }
    give_back(&one);
    p->factor_batch = batch;
    p->factor = factor;
    return factor;
}

/* ---- the contents of a row */
static void find_link(PlanRow *row, const Machine *m, const Simulation *s)
{
    for (int i = 0; i < 2 * m->link_count; i++) {
        const Link *l = &m->links[i / 2];
        double rate = l->rate[i % 2].value, share = rate > 0 && s->step_us > 0 ? s->link_bytes[i] / (rate / 1e6 * s->step_us) : 0;
        if (share <= row->link_share)
            continue;
        row->link_share = share;
        row->link_bytes = s->link_bytes[i];
        row->link = format("%s to %s", machine_end_name(m, l->end[i % 2]), machine_end_name(m, l->end[1 - i % 2]));
    }
}

static void find_memory(PlanRow *row, const Program *program, const Plan *plan, const Machine *m, bool searched)
{
    bool host = !program->target->own_memory;
    row->bytes = needed_bytes(program, plan, NULL);
    row->variables = variables_needed(program, plan);
    row->memory = program->options->memory ? program->options->memory_bytes : planned_memory(m, host, plan_each(plan));
    row->fits = searched || host || row->memory <= 0 ? -1 : batch_that_fits(program, plan, row->memory);
}

static double sample_bytes(const Model *m)
{
    double bytes = 0;
    for (int i = 0; i < m->input_count; i++)
        bytes += m->inputs[i].hidden ? 0 : (double)(shape_count(&m->inputs[i].shape) * dtype_bytes(m->inputs[i].dtype));
    return bytes;
}

/* Returns the peak FLOPs of devices in the model's precision. */
static double peak_flops(const Model *m, const Machine *machine, Processor processor, int devices)
{
    bool matrix = dtype_bytes(m->precision) == 2 || m->tf32;
    double flops = 0;
    for (int d = 0; d < devices; d++) {
        Device device = machine_device(machine, processor, d, devices);
        const Fact *rates = matrix && device.matrix[m->precision].value > 0 ? device.matrix : device.plain;
        flops += rates[m->precision].value > 0 ? rates[m->precision].value : rates[F32].value;
    }
    return flops;
}

static double sample_tokens(const Model *m)
{
    for (int i = 0; i < m->input_count; i++)
        if (m->inputs[i].classes && m->inputs[i].shape.rank == 1 && m->inputs[i].shape.extent[0] > 1)
            return (double)m->inputs[i].shape.extent[0];
    return 0;
}

/* Returns how the baseline's program differs, which makes it slower or faster. */
static const char *unlike_of(const PlanRow *row, const PlanRow *one)
{
    if (!one)
        return NULL;
    double more = one->recomputed - row->recomputed;
    if (more > .005)
        return format("recomputes, which takes %.1f%% of its computing time more", 100 * more);
    if (more < -.005)
        return format("recomputes less, as if it had %s, which saves it %.1f%% of computing time", bytes_text(one->bytes),
                      -100 * more);
    if (one->micro != row->micro)
        return format("has %lld micro-batch%s in place of %lld", (long long)one->micro, one->micro == 1 ? "" : "es",
                      (long long)row->micro);
    return NULL;
}

/* factor: of compute_factor */
static PlanRow row_of(const Planning *p, const Made *made, const Plan *plan, double factor, bool weak, const PlanRow *one)
{
    int devices = plan->devices;
    SimulationInput in = simulation_input(made->program, plan);
    in.compute = factor;
    Simulation *s = simulate_step(&in);
    PlanRow row = {.exact = made->program->model->exact,
                   .weak = weak,
                   .nodes = plan->nodes,
                   .devices = devices,
                   .batch = made->program->model->batch,
                   .least = INT64_MAX,
                   .step_us = s->step_us,
                   .steady = s->steady};
    for (int d = 0; d < devices; d++) {
        int64_t share = plan->shards[d].share;
        row.least = share < row.least ? share : row.least;
        row.most = share > row.most ? share : row.most;
        row.idle += share == 0;
    }
    StepUse use = step_use(&in, s);
    row.computing_us = use.computing_us;
    row.longer_us = use.longer_us;
    row.exposed_us = use.exposed_us;
    row.between_us = use.between_us;
    row.upload_us = use.upload_us;
    row.input_us = use.input_us;
    row.devices_us = use.devices_us;
    row.bound = use.bound;
    MidStep stops = transfers_in_midstep(made->program, plan, row.idle > 0, &s->devices[use.device], use.device);
    row.sums = stops.count;
    row.sums_us = stops.us;
    row.from = grounds_of(made->program, plan, &use, &s->devices[use.device]);
    row.updates_us = updates_us(plan, use.device) * factor;
    row.samples_per_s = (double)row.batch / s->step_us * 1e6;
    row.speed_up = one ? row.samples_per_s / one->samples_per_s : 1;
    row.efficiency = row.speed_up / devices;
    row.recomputed = made->program->dropped.time;
    row.micro = made->program->model->accumulate > 0 ? made->program->model->accumulate : 1;
    row.tokens = sample_tokens(made->program->model);
    double peak = plan->nodes * peak_flops(made->program->model, p->machine, processor_of(made->program), plan_each(plan));
    row.mfu = peak > 0 ? step_flops(made->program) * row.samples_per_s / peak : 0;
    row.input_per_s = row.samples_per_s * sample_bytes(made->program->model);
    row.decode_cores = row.samples_per_s / plan->nodes * in.decode_us / 1e6;
    find_memory(&row, made->program, plan, p->machine, p->searched);
    memory_use(made->outer); /* the link's name outlives the program */
    row.unlike = unlike_of(&row, one);
    row.cure = row.fits == 0 ? cure_of_none(made->program, plan) : NULL;
    row.recompute = row.memory > 0 && row.bytes > row.memory ? recompute_cure(made->program, plan) : NULL;
    find_link(&row, p->machine, s);
    row.input = input_needs(&in, &use, row.batch);
    memory_use(made->own);
    return row;
}

PlanRow plan_row(Planning *p, Count devices, int64_t batch, bool weak, const PlanRow *one)
{
    double factor = compute_factor(p, weak ? batch / devices.devices : batch);
    Made made = make(p, &devices, 1, batch);
    PlanRow row = row_of(p, &made, made.program->plans, factor, weak, one);
    give_back(&made);
    return row;
}

PlanRow plan_row_sharded(Planning *p, Sharding shard, Count devices, int64_t batch)
{
    Options o = *p->options;
    Planning other = *p;
    o.shard = shard;
    other.options = &o;
    PlanRow row = plan_row(&other, devices, batch, false, NULL);
    p->warned = other.warned;
    return row;
}

/* The baseline: one device needs no shards. */
static PlanRow row_of_one(Planning *p, int64_t batch) { return plan_row_sharded(p, SHARD_NOTHING, ONE, batch); }

/* Each row with a program of its own. */
static void rows_apart(Planning *p, const Count *counts, int count, int64_t batch, PlanRow *rows)
{
    KernelCache *kernels = kernel_cache_new();
    p->kernels = p->options->shard == SHARD_NOTHING ? kernels : NULL;
    rows[0] = row_of_one(p, batch);
    p->kernels = kernels;
    for (int i = 0; i < count; i++)
        rows[1 + i] = counts[i].devices == 1 && p->options->shard == SHARD_NOTHING
                          ? rows[0]
                          : plan_row(p, counts[i], batch, false, &rows[0]);
    p->kernels = NULL;
    kernel_cache_free(kernels);
}

/* What is recomputed, or the number of micro-batches, depends on what fits into one device; several need less of that. */
void plan_rows(Planning *p, const Count *counts, int count, int64_t batch, PlanRow *rows)
{
    if (p->apart) {
        rows_apart(p, counts, count, batch, rows);
        return;
    }
    int first = counts[0].devices > 1;
    Count *with_one = NEW_ARRAY(Count, count + 1);
    with_one[0] = ONE;
    for (int i = 0; i < count; i++)
        with_one[first + i] = counts[i];
    double factor = compute_factor(p, batch);
    Made made = make(p, with_one, first + count, batch);
    rows[0] = row_of(p, &made, made.program->plans, factor, false, NULL);
    for (int i = 0; i < count; i++)
        rows[1 + i] = first + i == 0 ? rows[0] : row_of(p, &made, &made.program->plans[first + i], factor, false, &rows[0]);
    give_back(&made);
}

static void add_strong(Planning *p, const Count *counts, int count, int64_t batch)
{
    PlanRow *rows = NEW_ARRAY(PlanRow, count + 1);
    plan_rows(p, counts, count, batch, rows);
    for (int i = 1; i <= count; i++)
        APPEND(p->rows, p->row_count, rows[i]);
}

/* ---- the command */
int read_batches(const char *list, int64_t *batches)
{
    int count = 0;
    for (const char *at = list; at && *at;) {
        char *end;
        long long n = strtoll(at, &end, 10);
        if (end == at || n < 1 || n > INT32_MAX || (*end && *end != ',') || (*end == ',' && !end[1]))
            fail(2, "--batch %s: numbers of samples are expected, as in --batch 32,64", list);
        if (count == MOST_BATCHES)
            fail(2, "--batch %s: at most %d batches at a time", list, MOST_BATCHES);
        batches[count++] = n;
        at = *end ? end + 1 : end;
    }
    return count;
}

/* Returns the counts of --devices; else 1, 2, 4 ... and all. */
static Count *list_counts(const Planning *p, const Plan *plans, int plan_count, int *count)
{
    Count *counts = NULL;
    int n = 0, most = p->machine->device_count ? p->machine->device_count : (int)p->machine->host.cores.value;
    if (p->options->devices) {
        for (int i = 0; i < plan_count; i++)
            APPEND(counts, n, ((Count){plans[i].nodes, plans[i].devices}));
        *count = n;
        return counts;
    }
    most = !p->machine->device_count && most > MOST_HOST_DEVICES ? MOST_HOST_DEVICES : most;
    for (int k = 1; k < most; k *= 2)
        APPEND(counts, n, ((Count){1, k}));
    APPEND(counts, n, ((Count){1, most}));
    *count = n;
    return counts;
}

/* Each device of a weak row computes the same as the one device, so it needs as much memory, except for variables. */
static bool weak_cannot_fit(Planning *p, const PlanRow *one)
{
    bool parts = p->options->shard != SHARD_NOTHING;
    double needed = one->bytes - (parts ? one->variables : 0);
    if (one->memory <= 0 || needed <= one->memory || (p->searched && parts)) /* with split variables more may be recomputed */
        return false;
    APPEND(p->advice, p->advice_count,
           format("weak scaling is left out: with a batch of %lld for each, a device takes %s%s, there are %s; --batch names "
                  "another one",
                  (long long)one->batch, bytes_text(needed), parts ? " beside its variables" : "", bytes_text(one->memory)));
    return true;
}

static int64_t weak_batch(int64_t each, int devices)
{
    int64_t all;
    if (__builtin_mul_overflow(each, devices, &all) || all > INT32_MAX)
        fail(2, "--weak: %lld samples on each of %d devices are more than a batch may have", (long long)each, devices);
    return all;
}

static void add_weak(Planning *p, const Count *counts, int count, int64_t batch)
{
    PlanRow one = row_of_one(p, batch);
    weak_batch(batch, counts[count - 1].devices);
    if (weak_cannot_fit(p, &one))
        return;
    one.weak = true;
    for (int i = 0; i < count; i++) {
        int64_t all = weak_batch(batch, counts[i].devices);
        PlanRow row =
            counts[i].devices == 1 && p->options->shard == SHARD_NOTHING ? one : plan_row(p, counts[i], all, true, &one);
        APPEND(p->rows, p->row_count, row);
    }
}

/* ---- --fit */
static bool fits(Planning *p, Count devices, int64_t batch)
{
    Made made = make(p, &devices, 1, batch);
    const Plan *plan = made.program->plans;
    bool enough = needed_bytes(made.program, plan, NULL) <= memory_there(made.program, plan);
    give_back(&made);
    return enough;
}

/* Returns the largest global batch that fits, or 0, by compiling, from a guess on. */
static int64_t largest_batch(Planning *p, Count devices, int64_t guess)
{
    int64_t low = 0, high = 0, step = 1;
    for (int64_t batch = guess > 0 ? guess : 1; !high && low < INT32_MAX; batch += step, step *= 2) {
        int64_t tried = batch < INT32_MAX ? batch : INT32_MAX; /* the limit of a batch */
        if (fits(p, devices, tried))
            low = tried;
        else
            high = tried;
    }
    for (step = 1; !low && high > 1; step *= 2) { /* the guess was too high */
        int64_t batch = high > step ? high - step : 1;
        if (fits(p, devices, batch))
            low = batch;
        else
            high = batch;
    }
    while (low && high - low > 1) { /* high is 0 if all fit */
        int64_t middle = low + (high - low) / 2;
        if (fits(p, devices, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int64_t guessed_batch(Planning *p, Count devices, int64_t batch)
{
    Made made = make(p, &devices, 1, batch);
    const Plan *plan = made.program->plans;
    double memory = memory_there(made.program, plan);
    int64_t guess = made.program->target->own_memory ? batch_that_fits(made.program, plan, memory)
                                                     : (int64_t)((double)batch * memory / needed_bytes(made.program, plan, NULL));
    give_back(&made);
    return guess < INT32_MAX / 2 ? guess : INT32_MAX / 2;
}

/* Adds a row for each count with the largest batch that fits. The baseline is one device with the largest batch that it fits. */
static void add_fitting(Planning *p, const Count *counts, int count, int64_t batch)
{
    PlanRow one;
    for (int i = 0; i < count; i++) {
        int64_t most = largest_batch(p, counts[i], guessed_batch(p, counts[i], batch));
        if (!most)
            fail(1, "--fit: not even one sample fits on %d %s device%s", counts[i].devices, p->kind,
                 counts[i].devices == 1 ? "" : "s");
        if (i == 0)
            one =
                plan_row(p, ONE, counts[0].devices == 1 ? most : largest_batch(p, ONE, guessed_batch(p, ONE, batch)), true, NULL);
        PlanRow row = counts[i].devices == 1 ? one : plan_row(p, counts[i], most, true, &one);
        row.fits = most;
        APPEND(p->rows, p->row_count, row);
    }
}

/* Compares the counts of --devices, else all devices. */
static void compare_counts(Planning *p, const Count *counts, int count, int64_t batch, bool weak)
{
    if (counts[count - 1].devices < 2)
        fail(2, "plan --compare: how one device trains is the same by every plan; name more, as in --devices 4");
    for (int i = p->options->devices ? 0 : count - 1; i < count; i++) {
        int64_t all = weak ? weak_batch(batch, counts[i].devices) : batch;
        if (counts[i].devices > 1)
            plan_compare(p, counts[i], all, weak);
    }
}

Planning plan_begin(const Options *options)
{
    Plan *plans;
    int plan_count;
    Planning p = {.options = options, .machine = options->planned};
    p.kind = parse_devices(options->devices, options->planned, &plans, &plan_count)->name;
    p.measured = options->measured_rate;
    p.machine_name = planned_name(options, strcmp(p.kind, "host") == 0);
    return p;
}

void plan_fill(Planning *p)
{
    const Options *options = p->options;
    Plan *plans;
    int plan_count, count;
    int64_t batches[MOST_BATCHES];
    parse_devices(options->devices, options->planned, &plans, &plan_count);
    const Count *counts = list_counts(p, plans, plan_count, &count);
    int batch_count = read_batches(options->batches, batches);
    const Model *m = read_model(options);
    p->model = m->name;
    p->precision = dtype_name(m->precision);
    p->predicts = !m->train;
    p->may_be_stale = m->train && m->accumulate <= 1 && !m->fit_accumulate && m->precision != F16;
    p->searched = m->fit_accumulate || m->recompute;
    p->apart = p->searched || options->shard != SHARD_NOTHING;
    if (!batch_count)
        batches[batch_count++] = m->batch;
    bool both =
        counts[count - 1].nodes > 1 && !options->weak && !options->strong && !p->searched; /* each row is a search of its own */
    if (options->fit)
        add_fitting(p, counts, count, batches[0]);
    bool pairs = m->exact && !options->fit && !options->compare;
    for (int pass = 0; pass <= pairs; pass++) {
        p->inexact = pass > 0;
        for (int weak = 0; weak < 2 && !options->fit; weak++)
            for (int i = 0; i < batch_count && (weak ? options->weak || both : options->strong || !options->weak || both); i++)
                if (options->compare)
                    compare_counts(p, counts, count, batches[i], weak);
                else
                    (weak ? add_weak : add_strong)(p, counts, count, batches[i]);
    }
    p->inexact = false;
    if (!options->compare)
        plan_advise(p);
}

int command_plan(const Options *options)
{
    Planning p = plan_begin(options);
    Text text = {0};
    plan_fill(&p);
    (options->compare ? compare_print : plan_print)(&p, options->json, &text);
    fputs(options->json ? text_of(&text) : plain_text(text_of(&text), true), stdout);
    return 0;
}
