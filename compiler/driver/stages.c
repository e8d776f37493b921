/* stages.c: the passes of the driver's table: each on the graphs of all phases, or on all plans. */
#include "compiler/driver/passes.h"
#include "compiler/driver/plan.h"
#include "compiler/export/export.h"
#include "compiler/kernel/target.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/gather.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/selftest/selftest.h"
#include "compiler/verify/proof.h"
#include "runtime/abi/mgpu_members.h"

typedef Graph *GraphPass(Graph *);

/* The graph `eval` is kept, since its nodes describe the model's outputs. */
static void replace(Graph **at, Graph *by)
{
    Graph *old = *at;
    *at = by;
    if (old && old != by && old != old->model->eval)
        graph_free(old);
}

static void each_graph(Compilation *c, GraphPass *pass)
{
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k])
            replace(&c->graphs[k], pass(c->graphs[k]));
}

static void each_variant(Compilation *c, GraphPass *pass)
{
    for (int k = 0; k < PHASE_KINDS; k++)
        for (int r = 0; r < 2; r++)
            if (c->variants[k][r])
                replace(&c->variants[k][r], pass(c->variants[k][r]));
}

/* Libraries, and plans of predictions, only predict. */
static bool may_train(const Options *o) { return !o->shared && !policy_of(o)->forward; }

void pass_parse(Compilation *c) { c->tree = parse(c->source); }

void pass_elaborate(Compilation *c)
{
    Settings settings = {c->options->set_keys,
                         c->options->set_values,
                         c->options->set_count,
                         c->options->model,
                         c->options->elaborated ? ~(LintSet)0 : c->options->silenced,
                         NULL,
                         false};
    Model *m = elaborate(c->tree, &settings);
    c->program->model = m;
    m->identity = graph_identity(m->train ? m->train : m->eval);
    if (!m->train || !may_train(c->options)) {
        m->accumulate = 1;
        m->fit_accumulate = false;
    }
    c->graphs[PHASE_INIT] = m->init;
    c->graphs[PHASE_TRAIN] = m->train;
    for (int k = 0; k < m->objective_count; k++)
        c->graphs[mgpu_train_kind(k)] = m->objectives[k].train;
    c->graphs[PHASE_EVAL] = m->eval;
}

void pass_resolve(Compilation *c) { each_graph(c, resolve); }

void pass_simplify(Compilation *c)
{
    if (c->options->exact_bodies)
        each_graph(c, inline_bodies);
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k])
            replace(&c->graphs[k], inline_groups(c->graphs[k], c->program->target->least_group));
    each_graph(c, simplify);
}

void pass_loops(Compilation *c)
{
    each_graph(c, hoist_loops);
    each_graph(c, simplify);
}

/* Returns how many training graphs there are: one for each objective. */
static int train_count(const Compilation *c)
{
    int objectives = c->program->model->objective_count;
    return !c->graphs[PHASE_TRAIN] ? 0 : objectives ? objectives : 1;
}

void pass_differentiate(Compilation *c)
{
    for (int k = train_count(c) - 1; k >= 0; k--) {
        Graph **train = &c->graphs[mgpu_train_kind(k)];
        replace(train, may_train(c->options) ? differentiate(*train) : NULL);
        replace(train, *train ? simplify(*train) : NULL);
    }
}

/* Programs that predict a window of text also get a phase for one place of it. */
static Graph *decoding(Graph *predict)
{
    Graph *bodies = inline_bodies(predict), *simple = simplify(bodies), *decode = derive_decode(simple), *made = decode;
    if (bodies != predict)
        graph_free(bodies);
    graph_free(simple);
    replace(&made, decode ? simplify(decode) : NULL);
    return made;
}

void pass_update(Compilation *c)
{
    Graph *trains[MGPU_MOST_OBJECTIVES], *eval = NULL;
    int count = train_count(c);
    bool *begun = NEW_ARRAY(bool, c->program->model->variable_count);
    if (c->graphs[PHASE_EVAL])
        split_outputs(c->graphs[PHASE_EVAL], &c->graphs[PHASE_PREDICT], &eval);
    replace(&c->graphs[PHASE_EVAL], eval);
    if (c->options->shared && !c->graphs[PHASE_PREDICT])
        fail(1, "%s has no outputs, which are what a library computes: write `output e` in the model", c->options->file);
    if (c->options->shared || (!count && eval && !eval->result_count))
        replace(&c->graphs[PHASE_EVAL], eval = NULL);
    for (int k = 0; k < count; k++)
        trains[k] = c->graphs[mgpu_train_kind(k)];
    make_reports(c->program->model, trains, count, &eval, &c->graphs[PHASE_REPORT_TRAIN], &c->graphs[PHASE_REPORT_EVAL]);
    replace(&c->graphs[PHASE_EVAL], eval);
    for (int k = 0; k < count; k++) {
        Graph **train = &c->graphs[mgpu_train_kind(k)];
        replace(train, trains[k]);
        if (policy_of(c->options)->order == ORDER_STALE)
            replace(train, delay_gradients(*train));
        replace(train, update(*train, count > 1 ? k + 1 : 0, begun));
    }
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k] && !mgpu_is_train_kind(k) && k != PHASE_INIT)
            replace(&c->graphs[k], count_applied(c->graphs[k]));
    each_graph(c, simplify);
    if (c->graphs[PHASE_PREDICT] && !c->options->shared)
        c->graphs[PHASE_DECODE] = decoding(c->graphs[PHASE_PREDICT]);
}

static const char *not_exact_on_gpus(const Model *m, const Options *o)
{
    if (o->mpi)
        return "--mpi on GPUs: several processes transfer by NCCL, whose sums have an order of their own; leave one of them out";
    if (o->tune)
        return "--tune on GPUs: what is faster would decide in which order sums are formed; leave one of them out";
    if (m->group > 1)
        return "statistics of groups of samples (stats = N) on GPUs yet; use host devices, or leave one of them out";
    if (m->exact > MGPU_MOST_MEMBERS)
        return format("GPUs: on these it is at most %d", MGPU_MOST_MEMBERS);
    return NULL;
}

/* Returns what of the model or the command line has no sums of one order, for a message; NULL: nothing. */
static const char *not_exact(const Compilation *c)
{
    const Model *m = c->program->model;
    const Options *o = c->options;
    const Policy *policy = policy_of(o);
    const char *on_gpus = c->program->target->own_memory ? not_exact_on_gpus(m, o) : NULL;
    if (on_gpus)
        return on_gpus;
    if (m->fit_accumulate)
        return "accumulate = \"auto\": what fits would decide how many virtual shards a micro-batch has; give the number";
    if (m->accumulate > m->exact || (m->accumulate & (m->accumulate - 1)))
        return format(
            "accumulate = %lld: each micro-batch has equally many virtual shards, so accumulate is a power of two, at most %lld",
            (long long)m->accumulate, (long long)m->exact);
    if (m->shard_statistics)
        return "stats = \"shard\": such statistics are those of a device; leave it out, for statistics of the whole batch";
    if (policy->order != ORDER_SYNCHRONOUS || policy->gradients != GRADIENTS_EXACT || policy->variables != VARIABLES_REPLICATED)
        return format("--plan %s: its gradients or variables are not those of all samples of a step; leave it out", o->plan);
    if (policy->reduce > REDUCE_PEER)
        return format("--plan %s, whose sums have another order; leave it out", o->plan);
    if (o->split)
        return "--split or --plan weights=...: the virtual shards decide how many samples a device has; leave it out";
    return NULL;
}

static void check_exact(const Compilation *c)
{
    const Model *m = c->program->model;
    long long exact = m->exact, parts = m->accumulate > 1 ? m->accumulate : 1;
    const char *with = not_exact(c);
    if (with)
        fail(2, "exact = %lld does not go with %s", exact, with);
    for (int i = 0; i < c->program->plan_count; i++)
        if (c->program->plans[i].devices > exact / parts)
            fail(
                2,
                "exact = %lld%s has no virtual shard for each of %d devices; use at most %lld, or a larger power of two: --set exact=%lld",
                exact, parts > 1 ? format(" with accumulate = %lld", parts) : "", c->program->plans[i].devices, exact / parts,
                parts << (32 - __builtin_clz((unsigned)c->program->plans[i].devices - 1)));
}

void pass_distribute(Compilation *c)
{
    Graph *train;
    if (c->program->model->exact)
        check_exact(c);
    each_graph(c, distribute);
    train = c->graphs[PHASE_TRAIN];
    c->program->one_batch = c->program->model->one_batch || policy_of(c->options)->order == ORDER_STALE ||
                            (train && !has_micro_batches(c->program->model, train));
    if (train && c->program->model->accumulate > 1) {
        split_micro_batches(c->program->model, train, &train, &c->graphs[PHASE_ACCUMULATE], &c->graphs[PHASE_PROLOGUE]);
        replace(&c->graphs[PHASE_TRAIN], train);
        if (c->program->model->exact && c->graphs[PHASE_EVAL])
            replace(&c->graphs[PHASE_EVAL], evaluate_micro_batches(c->program->model, c->graphs[PHASE_EVAL]));
    }
}

static int all_graphs(const Compilation *c, Graph **all)
{
    int count = 0;
    for (int k = 0; k < PHASE_KINDS; k++)
        if (c->graphs[k])
            all[count++] = c->graphs[k];
    return count;
}

void pass_precision(Compilation *c)
{
    Graph *all[PHASE_KINDS];
    find_rounded_variables(c->program->model, all, all_graphs(c, all));
    each_graph(c, choose_precision);
}

static void shard_graphs(Compilation *c)
{
    Graph *all[PHASE_KINDS], *sharded[PHASE_KINDS];
    int count = train_count(c);
    if (count > 1 && c->options->shard == SHARD_WEIGHTS)
        fail(2, "--shard weights does not go with rules that have a loss yet; --shard gradients does");
    for (int o = 0; o < count; o++) {
        shard(c->program->model, c->options->shard, c->graphs[mgpu_train_kind(o)], all, all_graphs(c, all), sharded);
        for (int k = 0, i = 0; k < PHASE_KINDS; k++)
            if (c->graphs[k])
                replace(&c->graphs[k], sharded[i++]);
    }
}

void pass_shard(Compilation *c)
{
    for (int k = 0; k < train_count(c) && policy_of(c->options)->gradients == GRADIENTS_ONE_BIT; k++)
        replace(&c->graphs[mgpu_train_kind(k)], send_one_bit(c->graphs[mgpu_train_kind(k)]));
    if (c->options->shard != SHARD_NOTHING && c->graphs[PHASE_TRAIN])
        shard_graphs(c);
    if (policy_of(c->options)->gradients == GRADIENTS_BF16)
        each_graph(c, round_gradients);
}

void pass_layout(Compilation *c)
{
    Graph *all[PHASE_KINDS];
    choose_layout(c->program->model, all, all_graphs(c, all));
}

static bool has_samples(PhaseKind kind)
{
    return (kind >= PHASE_PROLOGUE && kind <= PHASE_PREDICT) || mgpu_is_train_kind((int)kind);
}

void pass_phases(Compilation *c)
{
    for (int k = 0; k < PHASE_KINDS; k++) {
        if (!c->graphs[k])
            continue;
        c->variants[k][0] = specialise(c->graphs[k], false);
        if (has_samples((PhaseKind)k))
            c->variants[k][1] = specialise(c->graphs[k], true);
        replace(&c->graphs[k], NULL);
    }
    each_variant(c, distribute);
}

void pass_fuse(Compilation *c)
{
    Program *p = c->program;
    const Options *o = c->options;
    if (o->command == COMMAND_COMPILE && !o->emit && !o->shared)
        p->exports = export_texts(c->variants[PHASE_PREDICT][0], &p->export_count);
    p->predicts = !c->variants[PHASE_TRAIN][0] && !c->variants[PHASE_TRAIN][1];
    for (int k = 0; k < PHASE_KINDS; k++)
        for (int r = 0; r < 2; r++)
            if (c->variants[k][r]) {
                Phase *phase = gather_weights(fuse(p, c->variants[k][r], (PhaseKind)k, r == 1));
                APPEND(p->phases, p->phase_count, phase);
            }
    if (p->target->end_kernels)
        p->target->end_kernels(p);
}

void pass_split(Compilation *c)
{
    Program *p = c->program;
    for (int i = 0; i < p->plan_count; i++)
        split(p, &p->plans[i]);
}

void check_memory(const Compilation *c)
{
    const Options *o = c->options;
    bool asks = o->command == COMMAND_PLAN || o->command == COMMAND_BENCH || o->command == COMMAND_REPORT || c->program->tries;
    for (int i = 0; i < c->program->plan_count && !asks && memory_is_limited(o); i++)
        warn_of_memory(c->program->model, c->program, &c->program->plans[i]);
}

void pass_schedule(Compilation *c)
{
    for (int i = 0; i < c->program->plan_count; i++)
        schedule_in_memory(c->program, &c->program->plans[i]);
    if (c->options->edited)
        take_schedules(c->program);
    check_memory(c);
}

void pass_verify(Compilation *c)
{
    for (int i = 0; i < c->program->plan_count; i++) {
        const char *wrong = verify(c->program->plans[i].schedule);
        if (wrong)
            die("the schedule for %d devices is wrong: %s", c->program->plans[i].devices, wrong);
    }
}

/* ---- the program */
void pass_emit(Compilation *c)
{
    predict_plans(c->program);
    c->build = build_begin(c->program, test_compiler);
    c->remark = build_texts(c->build);
}

void pass_images(Compilation *c) { c->remark = build_images(c->build); }
void pass_compile(Compilation *c) { c->remark = build_objects(c->build); }
void pass_link(Compilation *c) { c->remark = build_link(c->build); }
