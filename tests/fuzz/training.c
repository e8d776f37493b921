/* training.c: a model, trained by the reference interpreter on made-up data: the stages as main.c has them, or the plainest
 * way; then what runtime/run/loop.c and steps.c do. */
#include "compiler/ir/program.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "tests/fuzz/training.h"

#include "dsl/dsl.h"
#include "tests/fuzz/unroll.h"

/* ---- data */
int64_t first_of_set;
int shaken;
double shaken_by = 1e-15;

static double shake(double value, uint64_t a, uint64_t b)
{
    return shaken ? value + shaken_by * (1 + fabs(value)) * number_of((uint64_t)shaken, a, b) : value;
}

/* small numbers, and now and then the least or the largest of the type */
static double whole_value(Dtype t, uint64_t h)
{
    bool has_sign = t == I8 || t == I16 || t == I32 || t == I64;
    int bits = t == I8 ? 8 : t == I16 || t == U16 ? 16 : t == I64 ? 41 : 32; /* a double has no room for all of 64 */
    if (t == BOOL)
        return (double)(h & 1);
    if (h % 9)
        return (double)(h / 16 % 19) - (has_sign ? 9 : 0);
    bool high = h >> 20 & 1;
    return has_sign ? high ? ldexp(1, bits - 1) - 1 : -ldexp(1, bits - 1) : high ? ldexp(1, bits) - 1 : 0;
}

double data_value(const Model *m, int input, int64_t sample, int64_t element)
{
    const Input *in = &m->inputs[input];
    uint64_t key[3] = {(uint64_t)input, (uint64_t)(first_of_set + sample), (uint64_t)element};
    uint64_t h = hash_bytes(3, key, sizeof key);
    bool whole = !in->classes && !dtype_is_float(in->dtype) && in->dtype != U8;
    if (whole)
        return whole_value(in->dtype, h);
    if (in->classes)
        return in->ignore >= 0 && h % 5 == 0 ? (double)in->ignore : (double)(h / 8 % (uint64_t)in->classes);
    return in->dtype == U8 ? (double)(h % 256) : shake(((double)(h % 4097) - 2048) / 1024, h, (uint64_t)element);
}

/* ---- the graphs of a model, one way or the other */
const Way REFERENCE = {"the reference", true, true, true, 1};

Model *elaborated(const char *text)
{
    Source *s = NEW(Source);
    *s = (Source){.file = "grown.net", .text = text, .length = strlen(text)};
    Settings none = {0};
    Model *m = elaborate(parse(s), &none);
    if (m->not_yet)
        die("the model has what is not yet compiled");
    return m;
}

static Graph *simplified(const Way *w, Graph *g) { return g && !w->raw ? simplify(g) : g; }

/* the stages before the gradients */
static Graph *prepared(const Way *w, Graph *g)
{
    if (w->raw)
        return inline_bodies(unroll_loops(inline_bodies(unroll_loops(g))));
    return simplify(hoist_loops(simplify(w->bodies ? inline_bodies(g) : g)));
}

static void variants(Graph *g, bool samples, Graph **out)
{
    g = g ? choose_precision(g) : NULL;
    for (int r = 0; g && r < (samples ? 2 : 1); r++)
        out[r] = distribute(specialise(g, r));
}

Net build(const char *text, const Way *w)
{
    Net n = {.m = elaborated(text), .plan = {.devices = w->devices, .kind = "host"}};
    Model *m = n.m;
    if (w->whole)
        m->accumulate = 1;
    n.init = prepared(w, m->init);
    n.plain = count_applied(prepared(w, m->eval));
    Graph *train = simplified(w, differentiate(prepared(w, m->train))), *eval = prepared(w, m->eval);
    Graph *accumulate = NULL, *prologue = NULL;
    make_reports(m, &train, 1, &eval, &n.report_train, &n.report_eval);
    train = update(train, 0, NULL);
    eval = count_applied(eval);
    Graph **all[] = {&train, &eval, &n.report_train, &n.report_eval};
    for (int i = 0; i < COUNT(all); i++)
        *all[i] = distribute(simplified(w, *all[i]));
    if (m->accumulate > 1)
        split_micro_batches(m, train, &train, &accumulate, &prologue);
    Program p = {.model = m};
    split(&p, &n.plan);
    if (w->raw) {
        n.train[0] = n.train[1] = train;
        n.eval[0] = n.eval[1] = eval;
        return n;
    }
    Graph *every[] = {train, eval, accumulate, prologue, n.report_train, n.report_eval, n.init}, **typed = NULL;
    int count = 0;
    for (int i = 0; i < COUNT(every); i++)
        if (every[i])
            APPEND(typed, count, i == COUNT(every) - 1 ? distribute(every[i]) : every[i]);
    find_rounded_variables(m, typed, count);
    choose_layout(m, typed, count);
    variants(train, true, n.train);
    variants(eval, true, n.eval);
    variants(accumulate, true, n.accumulate);
    variants(prologue, true, n.prologue);
    variants(n.report_train, false, &n.report_train);
    variants(n.report_eval, false, &n.report_eval);
    variants(typed[count - 1], false, &n.init); /* the rounded copies, too, begin with the weights */
    return n;
}

/* ---- running: what runtime/run/loop.c and steps.c do */
void begin(Trainer *t, const Net *n, Trace *trace)
{
    const Model *m = n->m;
    *t = (Trainer){.net = n, .trace = trace};
    t->machine = machine_of(m, 1, 1);
    t->machine.input = data_value;
    t->machine.noise = shaken ? shaken_by / 2 : 0;
    t->machine.noise_seed = (uint64_t)shaken;
    t->machine.f32_range = shaken && shaken_by >= 0x1p-23; /* f32 and less: what would be infinite there cannot be compared */
    t->machine.run = t->run;
    t->settings = NEW_ARRAY(double, m->setting_count);
    for (int i = 0; i < m->setting_count; i++)
        t->settings[i] = NAN;
    for (int i = 0; i < m->plateau_count; i++)
        t->settings[m->plateaus[i].setting] = 1;
    t->plateaus = NEW_ARRAY(struct Plateaued, m->plateau_count);
    t->machine.settings = t->settings;
    t->machine.devices = n->plan.devices;
    set_variables(&t->machine);
    t->machine.step = 0;
    for (int d = 0; d < n->plan.devices; d++)
        t->machine.capacity[d] = 1;
    Outcome y = machine_run(&t->machine, n->init, false);
    for (int d = 0; d < n->plan.devices; d++)
        for (int i = 0; i < n->init->result_count; i++) {
            const Result *r = &n->init->results[i];
            double *v = y.values[d * n->init->result_count + i];
            if (r->role == ROLE_INIT)
                t->machine.variables[d][r->index] = v;
            for (int64_t k = 0; r->role == ROLE_INIT && m->variables[r->index].trained && k < shape_count(&r->value->shape); k++)
                v[k] = shake(v[k], (uint64_t)r->index, (uint64_t)k);
        }
}

/* samples [place, place + samples) of the set, of which a micro-batch is run */
static Outcome run_part(Trainer *t, Graph *const *graphs, int64_t place, int64_t samples, int64_t micro)
{
    Machine *m = &t->machine;
    int64_t start = micro * t->net->plan.micro, left = samples - start,
            count = left < 0                    ? 0
                    : left < t->net->plan.micro ? left
                                                : t->net->plan.micro;
    bool partial_batch = t->net->plan.always_partial;
    for (int d = 0; d < m->devices; d++) {
        const Shard *s = &t->net->plan.shards[d];
        int64_t valid = count - s->first;
        m->valid[d] = valid < 0 ? 0 : valid < s->share ? valid : s->share;
        m->first[d] = place + (m->valid[d] ? start + s->first : count > 0 ? start : 0); /* whom the missing are copies of */
        m->capacity[d] = s->capacity;
        partial_batch = partial_batch || m->valid[d] < s->capacity;
        if (graphs == t->net->train && graphs[0] == graphs[1]) /* the reference has no missing samples */
            m->capacity[d] = m->valid[d];
    }
    m->begin = place;
    m->samples = samples;
    m->micro = micro;
    return machine_run(m, graphs[partial_batch], true);
}

static void report(const Trainer *t, const Graph *g, Outcome y, const char *what, int64_t number)
{
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == ROLE_REPORT)
            trace_add(t->trace, y.values[i][0], "%s %lld %s", what, (long long)number, g->results[i].name);
}

static void run_step(Trainer *t, int64_t place, int64_t samples)
{
    const Net *n = t->net;
    int64_t last = n->m->accumulate - 1;
    for (int64_t k = 0; n->prologue[0] && k <= last; k++)
        run_part(t, n->prologue, place, samples, k);
    for (int64_t k = 0; k < last; k++)
        run_part(t, n->accumulate, place, samples, k);
    Outcome y = run_part(t, n->train, place, samples, last);
    report(t, n->train[0], y, "step", t->machine.step);
}

static Outcome run_report(Trainer *t, Graph *g, const char *what, int64_t number)
{
    Outcome y = machine_run(&t->machine, g, true);
    report(t, g, y, what, number);
    return y;
}

int64_t train_samples(const Model *m) { return 2 * m->batch + (m->batch + 1) / 2; }
int64_t valid_samples(const Model *m) { return m->batch + 1; }
static int64_t steps_of_epoch(const Model *m) { return (train_samples(m) + m->batch - 1) / m->batch; }

static void run_outputs(Trainer *t)
{
    Machine m = t->machine;
    int64_t samples = m.samples = m.valid[0] = m.capacity[0] = valid_samples(m.model);
    m.devices = 1;
    m.first[0] = 0;
    first_of_set = VALID;
    Outcome y = machine_run(&m, t->net->plain, false);
    first_of_set = 0;
    for (int i = 0; i < t->net->plain->result_count; i++) {
        const Result *r = &t->net->plain->results[i];
        int64_t count = shape_count(&r->value->shape) * (r->value->has_samples ? samples : 1);
        for (int64_t k = 0; r->role == ROLE_OUTPUT && k < count; k++)
            trace_add(t->trace, y.values[i][k], "output %s %lld", r->name, (long long)k);
    }
}

/* plateaus of models: patience is a number of validations */
static void lower_rates(Trainer *t, const Graph *g, Outcome y)
{
    for (int i = 0; i < t->net->m->plateau_count; i++) {
        const Plateau *p = &t->net->m->plateaus[i];
        struct Plateaued *seen = &t->plateaus[i];
        double value = y.values[find_result(g, ROLE_REPORT, p->watch.metric, 0)][0];
        bool better = value == value && (!seen->any || (p->watch.highest ? value > seen->best : value < seen->best));
        seen->bad = better ? 0 : seen->bad + 1;
        if (better)
            seen->any = true, seen->best = value;
        if (seen->bad >= p->patience.amount)
            t->settings[p->setting] *= p->factor, seen->bad = 0;
    }
}

/* the numbers of the run after so many updates */
static void set_run(Trainer *t, int64_t applied)
{
    double per_epoch = (double)steps_of_epoch(t->net->m);
    t->machine.step = applied + 1;
    t->run[RUN_EPOCH] = (double)applied / per_epoch;
    t->run[RUN_PROGRESS] = (double)applied / STEPS;
    t->run[RUN_TOTAL_STEPS] = STEPS;
    t->run[RUN_TOTAL_EPOCHS] = STEPS / per_epoch;
}

static void validate(Trainer *t, int64_t applied)
{
    const Net *n = t->net;
    int64_t samples = valid_samples(n->m);
    first_of_set = VALID;
    for (int64_t at = 0; at < samples; at += n->plan.micro)
        run_part(t, n->eval, at, samples - at < n->plan.micro ? samples - at : n->plan.micro, 0);
    first_of_set = 0;
    lower_rates(t, n->report_eval, run_report(t, n->report_eval, "eval", applied));
}

/* weights and states as training leaves them, and as the averages have them */
static void trace_variables(const Trainer *t)
{
    const Model *m = t->net->m;
    for (int v = 0; v < m->variable_count; v++) {
        const Variable *x = &m->variables[v];
        const double *value = t->machine.variables[0][v];
        for (int64_t i = 0; i < shape_count(&x->shape); i++)
            if (x->kind == WEIGHT || x->kind == STATE)
                trace_add(t->trace, value[i], "weight %s %lld", x->name, (long long)i);
            else if (x->kind == AVERAGE)
                trace_add(t->trace, value[i], "average %s %lld", m->variables[x->owner].name, (long long)i);
    }
}

void first_variables(const Net *n, Trace *trace)
{
    Trainer trainer;
    begin(&trainer, n, trace);
    trace_variables(&trainer);
}

void run_training(const Net *n, Trace *trace)
{
    Trainer trainer, *t = &trainer;
    const Model *m = n->m;
    begin(t, n, trace);
    int64_t total = train_samples(m), place = 0, epoch = 0;
    int64_t every = m->validate.unit == UNIT_STEPS ? (int64_t)m->validate.amount : steps_of_epoch(m);
    for (int64_t applied = 0; applied < STEPS;) {
        set_run(t, applied++);
        int64_t samples = total - place < m->batch ? total - place : m->batch;
        run_step(t, place, samples);
        place += samples;
        set_run(t, applied);
        bool last = applied == STEPS;
        if (last || applied % every == 0)
            validate(t, applied);
        if (place < total && !last)
            continue;
        run_report(t, n->report_train, "train", ++epoch);
        place = 0;
    }
    trace_variables(t);
    run_outputs(t);
}
