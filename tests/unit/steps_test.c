/* steps_test.c: whole training steps through all passes, by the interpreter: a batchnorm against its library body; several
 * devices, missing samples, short batches and micro-batches against one device; clipping and reports against sums by
 * hand. */
#include "compiler/passes/stages.h"
#include "tests/unit/machine.h"

/* ---- a model that trains: batchnorm, dropout, two losses, a shared weight, metrics */

enum { W_IN, W_OUT, NORM_WEIGHT, NORM_BIAS, RUNNING_MEAN, RUNNING_VAR, VELOCITY, NET_VARIABLES };

static Node *sum_batch(Graph *g, Node *x, int64_t group)
{
    x = select_valid(g, graph_strong(g, x, F32));
    return group ? graph_group_sum(g, x, group < 0 ? 0 : group) : graph_sum_samples(g, x, NULL, 0);
}

static Node *lerp(Graph *g, Node *a, Node *b, double t)
{
    return graph_binary(g, OP_ADD, a, graph_binary(g, OP_MUL, graph_weak(g, t), graph_binary(g, OP_SUB, b, a)));
}

static Node *batch_mean(Graph *g, Node *x)
{
    return graph_binary(g, OP_DIV, sum_batch(g, x, 0), sum_batch(g, graph_number(g, 1, F32), 0));
}

/* as the library says it; out: y, running_mean, running_var */
static void batchnorm(Graph *top, Node *x, int64_t group, Node **out)
{
    Graph *g = graph_open_body(top, "batchnorm");
    Node *weight = graph_variable(top, NORM_WEIGHT), *bias = graph_variable(top, NORM_BIAS);
    Node *mean = graph_variable(top, RUNNING_MEAN), *var = graph_variable(top, RUNNING_VAR);
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, count = x->shape.rank - 1;
    double elements = (double)(shape_count(&x->shape) / x->shape.extent[count]);
    Node *n = sum_batch(g, graph_number(g, elements, F32), group);
    n = graph_binary(g, OP_MAXIMUM, n, graph_weak(g, 1));               /* a group of missing samples only */
    Node *inside = graph_binary(g, OP_SUB, x, graph_number(g, 0, F32)); /* a node of the body */
    Node *m = graph_binary(g, OP_DIV, sum_batch(g, graph_sum(g, inside, axes, count), group), n);
    Node *d = graph_binary(g, OP_SUB, x, m), *square = graph_binary(g, OP_POW, d, graph_weak(g, 2));
    Node *v = graph_binary(g, OP_DIV, sum_batch(g, graph_sum(g, square, axes, count), group), n);
    Node *less = graph_binary(g, OP_MAXIMUM, graph_binary(g, OP_SUB, n, graph_weak(g, 1)), graph_weak(g, 1));
    Node *unbiased = graph_binary(g, OP_DIV, graph_binary(g, OP_MUL, v, n), less);
    Node *deviation = graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, v, graph_weak(g, 1e-5)));
    Node *y = graph_binary(g, OP_MUL, graph_binary(g, OP_DIV, d, deviation), weight);
    Node *results[] = {graph_binary(g, OP_ADD, y, bias), lerp(g, mean, batch_mean(g, m), 0.1),
                       lerp(g, var, batch_mean(g, unbiased), 0.1)};
    graph_close_body(g, OP_COMPOSITE, "batchnorm", NULL, 0, (double[]){0.1, 1e-5, (double)group}, 3, results, 3, out);
}

static Node *log_softmax(Graph *g, Node *x)
{
    int axis = x->shape.rank - 1;
    Shape keep = x->shape;
    keep.extent[axis] = 1;
    Node *most = graph_reshape(g, graph_max(g, x, &axis, 1), keep);
    Node *shifted = graph_binary(g, OP_SUB, x, NODE(g, OP_STOP_GRADIENT, NULL, 0, NULL, most));
    Node *sum = graph_reshape(g, graph_sum(g, graph_unary(g, OP_EXP, shifted), &axis, 1), keep);
    return graph_binary(g, OP_SUB, shifted, graph_unary(g, OP_LOG, sum));
}

static Model *net_model(int64_t batch, int64_t group)
{
    Model *m = toy_model();
    m->batch = batch;
    m->group = group > 0 ? group : 1;
    add_variable(m, "in.weight", WEIGHT, SHAPE(5, 4));
    add_variable(m, "out.weight", WEIGHT, SHAPE(4, 5));
    add_variable(m, "norm.weight", WEIGHT, SHAPE(5));
    add_variable(m, "norm.bias", WEIGHT, SHAPE(5));
    add_variable(m, "norm.running_mean", STATE, SHAPE(5));
    add_variable(m, "norm.running_var", STATE, SHAPE(5));
    add_variable(m, "in.weight.velocity", OPTIMIZER_STATE, SHAPE(5, 4));
    m->variables[VELOCITY].owner = W_IN;
    return m;
}

static Node *one_hot(Graph *g, Node *label, int64_t n)
{
    return graph_binary(g, OP_EQ, graph_reshape(g, label, SHAPE(1)), graph_arange(g, n));
}

static Graph *net_graph(Model *m, int64_t group, bool training)
{
    Graph *g = graph_new(m, training ? "train" : "eval", NULL);
    Node *x = graph_input(g, 0), *v = graph_input(g, 1), *label = graph_input(g, 2), *zero = graph_weak(g, 0);
    Node *w_out = graph_variable(g, W_OUT), *norm[3];
    Node *w_in = graph_transpose(g, graph_variable(g, W_IN), (int[]){1, 0});
    Node *h = graph_einsum(g, "tc,co->to", (Node *[]){x, w_in}, 2, false);
    if (training)
        batchnorm(g, h, group, norm);
    else
        norm[0] = graph_binary(g, OP_SUB, h, graph_variable(g, RUNNING_MEAN));
    h = graph_where(g, graph_binary(g, OP_LE, norm[0], zero), zero, norm[0]);
    if (training)
        h = graph_where(g, graph_binary(g, OP_LT, graph_random(g, h->shape, "drop", true), graph_weak(g, 0.3)), zero, h);
    Node *features = graph_binary(g, OP_DIV, graph_sum(g, h, (int[]){0}, 1), graph_weak(g, 3));
    Node *logits = graph_einsum(g, "c,oc->o", (Node *[]){features, w_out}, 2, false);
    Node *logp = log_softmax(g, logits), *right = one_hot(g, label, 4);
    Node *entropy = graph_negate(g, graph_sum(g, graph_where(g, right, logp, zero), (int[]){0}, 1));
    graph_result(g, ROLE_LOSS, "entropy", 0, entropy,
                 graph_cast(g, graph_unary(g, OP_NOT, graph_binary(g, OP_EQ, label, graph_weak(g, 3))), F32));
    /* the weight of the output a second time */
    Node *again = tamed(g, graph_einsum(g, "tc,oc->to", (Node *[]){h, w_out}, 2, false));
    Node *error = graph_binary(g, OP_POW, graph_binary(g, OP_SUB, again, v), graph_weak(g, 2));
    graph_result(g, ROLE_LOSS, "error", 0, graph_binary(g, OP_MUL, error, graph_weak(g, 0.5)), NULL);
    Node *size = graph_binary(g, OP_MUL, graph_unary(g, OP_ABS, w_out), graph_weak(g, 1e-2));
    graph_result(g, ROLE_LOSS, "size", 0, all_of(g, size), NULL);

    Node *hit = graph_binary(g, OP_EQ, NODE(g, OP_ARGMAX, &(int64_t){0}, 1, NULL, logits), graph_cast(g, label, I32));
    graph_result(g, ROLE_METRIC, "accuracy", 0, graph_cast(g, hit, F32), NULL);
    graph_result(g, ROLE_METRIC, "weighted", 1, error, graph_binary(g, OP_MAXIMUM, v, zero));
    graph_result(g, ROLE_METRIC, "constant", 2, graph_number(g, 3, F32), NULL);
    Node *picked = graph_cast(g, graph_binary(g, OP_LT, zero, logits), F32);
    Node *pair[] = {graph_cast(g, right, F32), picked};
    Node *table = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_einsum(g, "i,j->ij", pair, 2, false));
    Node *every = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_sum(g, picked, (int[]){0}, 1));
    Node *number = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_number(g, 1, F32));
    graph_result(g, ROLE_METRIC, "table", 3, table, NULL);
    number = graph_binary(g, OP_MAXIMUM, graph_weak(g, 1), number);
    graph_result(g, ROLE_METRIC, "share", 4, graph_binary(g, OP_DIV, every, number), NULL);
    if (!training) {
        graph_result(g, ROLE_OUTPUT, "logits", 0, logits, NULL);
        return g;
    }
    Node *power = graph_binary(g, OP_POW, graph_weak(g, 0.9), graph_run(g, RUN_STEP, 0));
    Node *lr = graph_binary(g, OP_MUL, graph_weak(g, 0.1), power);
    graph_result(g, ROLE_UPDATE, NULL, RUNNING_MEAN, norm[1], NULL);
    graph_result(g, ROLE_UPDATE, NULL, RUNNING_VAR, norm[2], NULL);
    for (int k = 0; k < 4; k++) {
        Node *w = graph_variable(g, k), *step = graph_gradient(g, k);
        if (k == W_IN) {
            step = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, graph_variable(g, VELOCITY), graph_weak(g, 0.9)), step);
            graph_result(g, ROLE_UPDATE, NULL, VELOCITY, step, NULL);
        }
        graph_result(g, ROLE_UPDATE, NULL, k, graph_binary(g, OP_SUB, w, graph_binary(g, OP_MUL, lr, step)), NULL);
    }
    graph_result(g, ROLE_REPORT, "lr", 0, lr, NULL);
    return g;
}

/* ---- batchnorm: the table against the library body */

static void test_batchnorm(void)
{
    static const int64_t GROUPS[] = {0, 4, -1, 1};
    for (int k = 0; k < COUNT(GROUPS); k++) {
        Model *m = net_model(11, GROUPS[k]);
        Graph *g = net_graph(m, GROUPS[k], true);
        const char *why = NULL;
        Graph *body = differentiate(inline_bodies(g)), *table = differentiate(g);
        if (count_op(table, OP_COMPOSITE) || count_op(body, OP_COMPOSITE))
            why = "a composite is left";
        Graph *graphs[] = {table, simplify(table), simplify(body)};
        for (int which = 0; which < 3 && !why; which++)
            for (int64_t valid = 11; valid > 2 && !why; valid -= 3) {
                Machine machine = machine_of(m, valid, 11);
                set_variables(&machine);
                Graph *other = graphs[which];
                Outcome x = machine_run(&machine, body, false), y = machine_run(&machine, other, false);
                for (int i = 0; i < body->result_count && !why; i++) {
                    const Result *r = &body->results[i];
                    if (r->role == ROLE_METRIC)
                        continue;
                    for (int64_t e = 0; e < shape_count(&r->value->shape) && !why; e++)
                        if (!near(x.values[i][e], y.values[i][e], 1e-12))
                            why = format("graph %d, %lld of 11 valid, %s %s %d [%lld]: %.17g, %.17g expected", which,
                                         (long long)valid, r->role == ROLE_GRADIENT ? "gradient" : "result",
                                         r->name ? r->name : "", r->index, (long long)e, y.values[i][e], x.values[i][e]);
                }
            }
        check(!why, format("batchnorm.group_%lld", (long long)GROUPS[k]), why);
    }
}

/* ---- whole steps */

typedef struct Net {
    Model *m;
    Graph *train, *eval, *report_train, *report_eval, *accumulate, *prologue;
} Net;

static void set_clip(Model *m, int kind) { m->clip_kind = (ClipKind)kind; }

static Net compile_net(int64_t batch, int64_t group, int64_t micro_batches, int clip_kind)
{
    Net n = {.m = net_model(batch, group)};
    n.m->accumulate = micro_batches;
    set_clip(n.m, clip_kind);
    n.m->clip = clip_kind == CLIP_VALUE ? 0.01 : 0.05;
    n.train = simplify(differentiate(simplify(net_graph(n.m, group, true))));
    n.eval = simplify(net_graph(n.m, group, false));
    make_reports(n.m, &n.train, 1, &n.eval, &n.report_train, &n.report_eval);
    Graph **all[] = {&n.train, &n.eval, &n.report_train, &n.report_eval};
    n.train = update(n.train, 0, NULL);
    for (int i = 0; i < COUNT(all); i++)
        *all[i] = distribute(simplify(*all[i]));
    split_micro_batches(n.m, n.train, &n.train, &n.accumulate, &n.prologue);
    return n;
}

static void finish(Graph **g, bool partial_batch)
{
    if (*g)
        *g = distribute(specialise(*g, partial_batch));
}

static void finish_net(Net *n, bool partial_batch)
{
    finish(&n->train, partial_batch);
    finish(&n->accumulate, partial_batch);
    finish(&n->prologue, partial_batch);
    finish(&n->eval, partial_batch);
    finish(&n->report_train, false);
    finish(&n->report_eval, false);
}

/* shares of samples [from, to), multiples of the group; missing samples if it is partial */
static void share(Machine *m, const Model *model, int devices, int64_t from, int64_t to, bool partial_batch)
{
    share_samples(m, devices, from, to);
    int64_t at = from, groups = (to - from + model->group - 1) / model->group;
    for (int d = 0; d < devices; d++) {
        int64_t mine = (groups / devices + (d < groups % devices)) * model->group;
        m->first[d] = at;
        m->valid[d] = at + mine < to ? mine : to - at;
        m->capacity[d] = m->valid[d] + (partial_batch ? d % 3 * model->group : 0);
        if (m->capacity[d] < 1)
            m->capacity[d] = 1;
        at += m->valid[d];
    }
}

/* three steps; values after them, and the reports, go into `out` */
static void train_net(Net *n, Machine *m, int devices, int64_t samples, bool partial_batch, double *out, int *count)
{
    const Model *model = n->m;
    set_variables(m);
    *count = 0;
    int64_t a = model->accumulate, micro = (samples + a - 1) / a;
    micro = (micro + model->group - 1) / model->group * model->group;
    int last = (int)((samples + micro - 1) / micro) - 1;
    for (m->step = 1; m->step <= 3; m->step++) {
        m->samples = samples;
        for (int phase = n->prologue ? 0 : 1; phase < 2; phase++)
            for (int k = 0; k <= last; k++) {
                int64_t from = k * micro, to = from + micro < samples ? from + micro : samples;
                m->micro = k;
                share(m, model, devices, from, to, partial_batch);
                Graph *g = phase == 0 ? n->prologue : k < last ? n->accumulate : n->train;
                Outcome y = machine_run(m, g, true);
                if (g == n->train)
                    for (int i = 0; i < g->result_count; i++)
                        if (g->results[i].role == ROLE_REPORT)
                            out[(*count)++] = y.values[i][0];
            }
    }
    for (int v = 0; v < NET_VARIABLES; v++)
        for (int64_t i = 0; i < shape_count(&model->variables[v].shape); i++)
            out[(*count)++] = m->variables[0][v][i];
    Graph *reports[] = {n->report_train, n->report_eval};
    share(m, model, devices, 0, samples, partial_batch);
    m->samples = samples;
    if (model->accumulate == 1)
        machine_run(m, n->eval, true);
    for (int k = 0; k < (model->accumulate == 1 ? 2 : 1); k++) {
        Outcome y = machine_run(m, reports[k], true);
        for (int i = 0; i < reports[k]->result_count; i++)
            if (reports[k]->results[i].role == ROLE_REPORT)
                out[(*count)++] = y.values[i][0];
    }
}

static const char *compare_numbers(const double *a, int count_a, const double *b, int count_b, double tolerance)
{
    if (count_a > count_b)
        return format("%d numbers and %d", count_a, count_b);
    for (int i = 0; i < count_a; i++)
        if (!near(a[i], b[i], tolerance) || a[i] != a[i])
            return format("number %d is %.17g, %.17g expected", i, a[i], b[i]);
    return NULL;
}

static void test_steps(void)
{
    static double expected[4096], found[4096];
    static const int64_t GROUPS[] = {0, 4};
    int count, other;
    for (int k = 0; k < COUNT(GROUPS); k++)
        for (int clip = 0; clip < 4; clip++) {
            Machine m = {.model = NULL};
            Net one = compile_net(11, GROUPS[k], 1, clip);
            m.model = one.m;
            train_net(&one, &m, 1, 11, false, expected, &count);
            const char *why = NULL;
            for (int devices = 1; devices <= MOST_DEVICES && !why; devices++)
                for (int partial_batch = 0; partial_batch < 2 && !why; partial_batch++) {
                    Net n = compile_net(11, GROUPS[k], 1, clip);
                    finish_net(&n, partial_batch);
                    m.model = n.m;
                    if (!partial_batch && devices > 2 && GROUPS[k])
                        continue; /* a device without samples always runs partial phases */
                    train_net(&n, &m, devices, 11, partial_batch, found, &other);
                    why = compare_numbers(expected, count, found, other, 1e-10);
                    if (why || count != other)
                        why = format("%d devices, %s: %s", devices, partial_batch ? "partial" : "full",
                                     why ? why : "another count");
                }
            check(!why, format("steps.devices.group_%lld.clip_%d", (long long)GROUPS[k], clip), why);
        }
    /* a short last batch: the number of samples is known at run time only */
    Machine m = {.model = NULL};
    Net short_one = compile_net(11, 0, 1, 0), short_two = compile_net(11, 0, 1, 0);
    m.model = short_one.m;
    train_net(&short_one, &m, 1, 7, false, expected, &count);
    finish_net(&short_two, true);
    m.model = short_two.m;
    train_net(&short_two, &m, 3, 7, true, found, &other);
    const char *why = compare_numbers(expected, count, found, other, 1e-10);
    check(!why, "steps.short_batch", why);
    /* micro-batches */
    for (int64_t a = 2; a <= 4; a++)
        for (int partial_batch = 0; partial_batch < 2; partial_batch++) {
            Net whole = compile_net(12, 2, 1, 1), parts = compile_net(12, 2, a, 1);
            m.model = whole.m;
            train_net(&whole, &m, 1, partial_batch ? 11 : 12, false, expected, &count);
            finish_net(&parts, partial_batch);
            m.model = parts.m;
            train_net(&parts, &m, partial_batch ? 2 : 1, partial_batch ? 11 : 12, partial_batch, found, &other);
            why = compare_numbers(found, other, expected, count, 1e-10);
            check(!why, format("steps.accumulate_%lld.%s", (long long)a, partial_batch ? "partial" : "full"), why);
        }
}

/* ---- what reports say, by hand */

static void test_reports(void)
{
    Net n = compile_net(11, 0, 1, 0);
    finish_net(&n, false);
    Machine m = machine_of(n.m, 11, 11);
    set_variables(&m);
    Outcome y[3];
    for (int k = 0; k < 3; k++) { /* eval over samples 0 .. 10, 11 .. 21, and the first 4 of the next */
        m.first[0] = 11 * k;
        m.samples = m.valid[0] = m.capacity[0] = 11;
        Graph *plain = simplify(net_graph(n.m, 0, false));
        Machine raw = m;
        y[k] = machine_run(&raw, plain, false);
        machine_run(&m, n.eval, true);
    }
    Graph *plain = simplify(net_graph(n.m, 0, false));
    Outcome report = machine_run(&m, n.report_eval, true);
    double hits = 0, table[16] = {0}, num = 0, den = 0;
    int accuracy = -1, weighted = -1;
    for (int i = 0; i < plain->result_count; i++)
        if (plain->results[i].role == ROLE_METRIC) {
            accuracy = plain->results[i].index == 0 ? i : accuracy;
            weighted = plain->results[i].index == 1 ? i : weighted;
        }
    int logits = find_result(plain, ROLE_OUTPUT, "logits", 0);
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 11; s++) {
            hits += y[k].values[accuracy][s];
            double label = floor((number_of(2, (uint64_t)(11 * k + s), 0) + 1) / 2 * 4);
            for (int j = 0; j < 4; j++)
                table[(int)label * 4 + j] += y[k].values[logits][s * 4 + j] > 0;
            for (int e = 0; e < 12; e++) {
                double w = number_of(1, (uint64_t)(11 * k + s), (uint64_t)(e % 4));
                num += w > 0 ? w * y[k].values[weighted][s * 12 + e] : 0;
                den += w > 0 ? w : 0;
            }
        }
    Graph *g = n.report_eval;
    double a = report.values[find_result(g, ROLE_REPORT, "accuracy", 0)][0];
    check(near(a, hits / 33, 1e-12), "report.mean", format("%g, %g expected", a, hits / 33));
    double w = report.values[find_result(g, ROLE_REPORT, "weighted", 0)][0];
    check(near(w, num / den, 1e-12), "report.weighted", format("%g, %g expected", w, num / den));
    const char *why = NULL;
    double all = 0;
    for (int i = 0; i < 16; i++) {
        const char *name = format("table[%d,%d]", i / 4, i % 4);
        int at = find_result(g, ROLE_REPORT, name, 0);
        all += table[i];
        if (at < 0 || report.values[at][0] != table[i])
            why = format("%s is not %g", name, table[i]);
    }
    check(!why, "report.table", why);
    double share_of = report.values[find_result(g, ROLE_REPORT, "share", 0)][0];
    check(near(share_of, all / 33, 1e-12), "report.totals", format("%g, %g expected", share_of, all / 33));
    check(near(report.values[find_result(g, ROLE_REPORT, "constant", 0)][0], 3, 1e-12), "report.constant", "not 3");
    double after = 0;
    for (int v = NET_VARIABLES; v < n.m->variable_count; v++)
        for (int64_t i = 0; i < shape_count(&n.m->variables[v].shape); i++)
            after += fabs(m.variables[0][v][i]);
    check(after == 0, "report.reset", "accumulators are not zero");
}

/* ---- clipping, by hand */

static void test_clipping(void)
{
    double norm = 0, most = 0;
    Model *m = toy_model();
    for (int v = 0; v < 3; v++)
        add_variable(m, format("w%d", v), WEIGHT, SHAPE(4, v + 1));
    Machine machine = machine_of(m, 3, 3);
    set_variables(&machine);
    for (int v = 0; v < 3; v++)
        for (int i = 0; i < 4 * (v + 1); i++) {
            norm += pow(machine.variables[0][v][i], 2);
            most = fmax(most, fabs(machine.variables[0][v][i]));
        }
    norm = sqrt(norm);
    m->clip = 0.7 * norm;
    for (int kind = CLIP_NONE; kind <= CLIP_ADAPTIVE; kind++) {
        set_clip(m, kind);
        double limit = kind == CLIP_VALUE        ? 0.1
                       : kind == CLIP_NORM       ? 0.3
                       : kind == CLIP_GLOBAL_MAX ? 0.6 * most
                       : kind == CLIP_ADAPTIVE   ? 0.4
                                                 : 0.7 * norm;
        m->clip = limit;
        Graph *g = graph_new(m, "train", NULL);
        for (int v = 0; v < 3; v++) { /* the gradient is the weight; the update is the gradient */
            graph_result(g, ROLE_UPDATE, NULL, v, graph_gradient(g, v), NULL);
            graph_result(g, ROLE_GRADIENT, NULL, v, graph_variable(g, v), NULL);
        }
        g = distribute(simplify(update(simplify(g), 0, NULL)));
        Outcome y = machine_run(&machine, g, false);
        const char *why = count_op(g, OP_GRADIENT) || find_result(g, ROLE_GRADIENT, NULL, 0) >= 0 ? "gradients are left" : NULL;
        for (int v = 0; v < 3; v++) {
            double own = 0;
            for (int i = 0; i < 4 * (v + 1); i++)
                own += pow(machine.variables[0][v][i], 2);
            own = sqrt(own);
            for (int i = 0; i < 4 * (v + 1) && !why; i++) {
                double x = machine.variables[0][v][i];
                double expected = kind == CLIP_GLOBAL_NORM  ? x * fmin(1, limit / (norm + 1e-6))
                                  : kind == CLIP_NORM       ? x * fmin(1, limit / (own + 1e-6))
                                  : kind == CLIP_VALUE      ? fmax(-limit, fmin(limit, x))
                                  : kind == CLIP_GLOBAL_MAX ? x * fmin(1, limit / (most + 1e-6))
                                  : kind == CLIP_ADAPTIVE   ? x * limit /* a unit's gradient is as long as the unit */
                                                            : x;
                double found = y.values[find_result(g, ROLE_UPDATE, NULL, v)][i];
                if (!near(expected, found, 1e-13))
                    why = format("%.17g, %.17g expected", found, expected);
            }
        }
        int report = find_result(g, ROLE_REPORT, "grad_norm", 0);
        if ((report >= 0) != (kind == CLIP_GLOBAL_NORM) || (report >= 0 && !near(y.values[report][0], norm, 1e-13)))
            why = "grad_norm is wrong";
        check(!why, format("clip.%d", kind), why);
    }
}

int main(void)
{
    test_batchnorm();
    test_steps();
    test_reports();
    test_clipping();
    return failures > 0;
}
