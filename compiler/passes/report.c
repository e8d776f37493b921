/* report.c: metrics, and the loss in evaluation, are sums over the samples of a report.
 *
 * In: the train and eval graphs with ROLE_METRIC (and, in eval, ROLE_LOSS). Out: the same graphs without these; instead
 * accumulators, variables in double to which every step adds, and two small graphs that turn them into numbers: the accumulators
 * that are parts of a sum over devices are concatenated and reduced by one collective, ROLE_REPORT gets the numbers, and the
 * accumulators become zero. A model without metrics gets a report graph without results.
 *
 * observe = "metrics": the train graph has ROLE_REPORT metric.NAME, too: the same numbers, of one step only.
 *
 *   plain      mean over all elements of all samples: num += sum(where(w != 0, w e, 0)), den += sum(w) over the valid samples;
 *              num / den, 0 where den is 0
 *   TOTAL(x)   total += sum(x) over the valid samples, element by element; what the metric computes from its totals is moved to
 *              the report graph, in double. Of MOMENTS: the accumulator is merged with those of the step, which every device
 *              has
 *
 * A sum of a value that is the same for all samples counts it once per sample. If a step has all its samples at once (accumulate
 * = 1) that is a multiple of RUN_SAMPLES, which every device has: its accumulator is not part of a sum over devices. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

enum { REPORTED_ELEMENTS = 4096 };

typedef struct ReportSum { /* over the samples of a report */
    int variable;          /* its accumulator */
    Node *added;           /* in the step graph: what a step adds to it */
    Node *total;           /* in the report graph, F64, of the variable's shape */
} ReportSum;

typedef struct Reporter {
    Model *model;
    const char *prefix; /* of the names of accumulators */
    const Graph *source;
    Graph *step;   /* the new train or eval graph */
    Graph *report; /* where sums become numbers: the report graph, or the step's for what is observed */
    ReportSum *sums;
    int sum_count;
    /* by id in source */
    bool *after_total;   /* is or depends on a TOTAL */
    bool *of_step;       /* depends on what a step brings, other than through a TOTAL */
    int *sum_of_total;   /* of a TOTAL: its sum */
    Node **report_nodes; /* in the report graph: F64 or bool */
    bool *needed;        /* metrics of totals need it in the report graph */
    int *first;          /* by result: the sums of its mean */
} Reporter;

/* ---- accumulators */

const char *new_variable_name(const Model *m, const char *like)
{
    for (int v = 0; v < m->variable_count; v++)
        if (strcmp(m->variables[v].name, like) == 0)
            return new_variable_name(m, format("%s_", like));
    return like;
}

/* If samples scatter into zeros of their own, which are then added up, all scatter into one table: then a histogram costs a
 * sample only what it adds, not all bins. NULL: x is another value. */
static Node *one_table(Graph *g, const Node *x)
{
    const Node *n = x->op == OP_CAST ? x->in[0] : x;
    if (n->op == OP_WHERE && is_constant(n->in[2], 0)) { /* where(valid, n, 0) */
        const Node *c = n->in[0]->op == OP_BROADCAST ? n->in[0]->in[0] : n->in[0];
        n = c->op == OP_VALID ? n->in[1] : n;
    }
    if (n->op != OP_SCATTER_ADD || !n->has_samples || !is_constant(n->in[0], 0))
        return NULL;
    Node *v = select_valid(g, graph_cast(g, n->in[2], F64));
    return graph_scatter_add(g, graph_fill(g, 0, n->shape, F64), n->in[1], v, (int)n->ints[0], true);
}

/* known: to every device */
static int add_accumulator(Reporter *r, const char *name, int number, Node *added, bool known)
{
    Graph *g = r->step;
    Model *m = r->model;
    Variable v = {.kind = ACCUMULATOR,
                  .dtype = F64,
                  .shape = added->shape,
                  .placement = {{known || m->exact ? IS_REPLICATED : IS_PARTIAL}},
                  .owner = -1,
                  .at = g->at};
    v.name = new_variable_name(m, format("%s%s.%d", r->prefix, name, number));
    for (int i = 0; i < MAX_RANK; i++)
        v.order[i] = i;
    ReportSum sum = {.variable = m->variable_count, .added = added};
    APPEND(m->variables, m->variable_count, v);
    Node *before = graph_variable(g, sum.variable);
    Node *value = added->op == OP_MOMENTS ? graph_merge_moments(g, before, added) : graph_binary(g, OP_ADD, before, added);
    graph_result(g, ROLE_UPDATE, v.name, sum.variable, value, NULL);
    APPEND(r->sums, r->sum_count, sum);
    return r->sum_count - 1;
}

/* Adds the sum of x, in F64, over the valid samples of all steps. */
static int add_sum(Reporter *r, const char *name, int number, Node *x)
{
    Graph *g = r->step;
    bool known = !x->has_samples && r->model->accumulate <= 1;
    Node *added = known ? graph_binary(g, OP_MUL, x, graph_run(g, RUN_SAMPLES, 0)) : one_table(g, x);
    return add_accumulator(r, name, number, added ? added : graph_sum_samples(g, select_valid(g, x), NULL, 0), known);
}

static Node *sum_elements(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_cast(g, graph_sum(g, x, axes, x->shape.rank), F64);
}

/* Adds the sums of a mean, numerator and denominator; returns the first. */
static int add_mean(Reporter *r, const Result *x, const char *name)
{
    Graph *g = r->step;
    Node *e = graph_strong(g, x->value->mapped, F64);
    if (!x->weight) {
        int first = add_sum(r, name, 0, sum_elements(g, e));
        add_sum(r, name, 1, graph_number(g, (double)shape_count(&e->shape), F64));
        return first;
    }
    Dtype t = dtype_promote(e->dtype, F32);
    e = graph_cast(g, e, t);
    Node *w = graph_cast(g, graph_strong(g, x->weight->mapped, t), t), *zero = graph_number(g, 0, t);
    Node *product = graph_binary(g, OP_MUL, w, e);
    w = graph_broadcast(g, w, product->shape);
    product = graph_where(g, graph_binary(g, OP_EQ, w, zero), zero, product);
    int first = add_sum(r, name, 0, sum_elements(g, product));
    add_sum(r, name, 1, sum_elements(g, w));
    return first;
}

/* ---- which nodes come before or after a TOTAL */

static void find_sides(Reporter *r)
{
    const Graph *g = r->source;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool after = false, of_step = n->has_samples || n->op == OP_INPUT || n->op == OP_VALID || n->op == OP_RANDOM ||
                                      (n->op == OP_RUN && (n->ints[0] == RUN_SAMPLES || n->ints[0] == RUN_MICRO));
        for (int k = 0; k < n->inputs; k++) {
            after = after || r->after_total[n->in[k]->id];
            of_step = of_step || r->of_step[n->in[k]->id];
        }
        if (n->op == OP_TOTAL && after)
            die("a total of what is computed of totals");
        if (n->op != OP_TOTAL && after && of_step)
            error_at(n->at, "this metric mixes totals over the samples of a report with values of a sample or a step; "
                            "put those into total(...) too");
        r->after_total[i] = after || n->op == OP_TOTAL;
        r->of_step[i] = of_step && n->op != OP_TOTAL;
    }
}

static void copy_step(Reporter *r, const char *name)
{
    const Graph *g = r->source;
    r->step = graph_new(r->model, name, NULL);
    for (int i = 0; i < g->node_count; i++)
        if (!r->after_total[i])
            graph_copy_node(r->step, g->nodes[i]);
    for (int i = 0; i < g->result_count; i++) {
        Result x = g->results[i];
        if (x.role == ROLE_METRIC || x.role == ROLE_LOSS)
            continue;
        if (r->after_total[x.value->id])
            error_at(x.at, "total is for metrics: here every step has its own value");
        x.value = x.value->mapped;
        x.weight = x.weight ? x.weight->mapped : NULL;
        graph_add_result(r->step, x);
    }
}

/* Returns the nodes that metrics of totals need in the report graph. */
static bool *find_in_report(const Reporter *r)
{
    const Graph *g = r->source;
    bool *needed = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->result_count; i++) {
        const Result *x = &g->results[i];
        if ((x->role == ROLE_METRIC || x->role == ROLE_LOSS) && r->after_total[x->value->id])
            needed[x->value->id] = true;
    }
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && g->nodes[i]->op != OP_TOTAL && k < g->nodes[i]->inputs; k++)
            needed[g->nodes[i]->in[k]->id] = true;
    return needed;
}

static void add_totals(Reporter *r, const bool *needed)
{
    int count = 0;
    for (int i = 0; i < r->source->node_count; i++) {
        const Node *n = r->source->nodes[i];
        if (!needed[i] || n->op != OP_TOTAL)
            continue;
        set_position(r->step, n);
        Node *x = n->in[0]->mapped;
        if (x->op == OP_MOMENTS)
            r->sum_of_total[i] = add_accumulator(r, "total", count++, x, true);
        else
            r->sum_of_total[i] = add_sum(r, "total", count++, graph_cast(r->step, graph_strong(r->step, x, F64), F64));
    }
}

/* ---- the report graph */

/* Reads the totals, either of what a step adds, or of the accumulators, which then become zero. All parts of devices are in one
 * vector, reduced at once; rs: of all graphs whose numbers are in one report. */
static void read_sums(Reporter *rs, int reporter_count, Graph *g, bool of_step)
{
    Node **parts = NULL;
    int count = 0;
    for (int k = 0; k < reporter_count; k++)
        for (int i = 0; i < rs[k].sum_count; i++) {
            const Variable *v = &g->model->variables[rs[k].sums[i].variable];
            Node *x = rs[k].sums[i].total = of_step ? rs[k].sums[i].added : graph_variable(g, rs[k].sums[i].variable);
            if (variable_is_placed(v, IS_PARTIAL)) {
                x = graph_reshape(g, x, SHAPE(shape_count(&v->shape)));
                APPEND(parts, count, x);
            }
            if (!of_step)
                graph_result(g, ROLE_UPDATE, v->name, rs[k].sums[i].variable, graph_fill(g, 0, v->shape, F64), NULL);
        }
    if (!count)
        return;
    Node *all = graph_concat(g, parts, count, 0);
    all->name = of_step ? "metrics" : NULL;
    all = graph_reduce(g, all);
    int64_t start = 0;
    for (int k = 0; k < reporter_count; k++)
        for (int i = 0; i < rs[k].sum_count; i++) {
            const Variable *v = &g->model->variables[rs[k].sums[i].variable];
            if (!variable_is_placed(v, IS_PARTIAL))
                continue;
            int64_t elements = shape_count(&v->shape);
            Node *x = graph_slice(g, all, &start, &elements, (int64_t[]){1});
            rs[k].sums[i].total = graph_reshape(g, x, v->shape);
            start += elements;
        }
}

static bool is_whole(const Node *n) { return n->dtype != BOOL && !dtype_is_float(n->dtype); }

static Node *as_whole(Graph *g, Node *x, Dtype t) { return graph_cast(g, graph_cast(g, x, I64), t); }

/* Returns input k of n, in double but where n needs another type. */
static Node *report_input(Reporter *r, const Node *n, int k)
{
    Graph *g = r->report;
    const Node *from = n->in[k];
    Node *x = r->report_nodes[from->id];
    switch (n->op) {
    case OP_SCAN: return graph_cast(g, x, from->dtype); /* its body is unchanged */
    case OP_GATHER:
    case OP_SCATTER_ADD: return k == 1 ? graph_cast(g, x, I64) : x;
    case OP_QUOTIENT:
    case OP_MOD: return is_whole(from) ? graph_cast(g, x, I64) : x;
    case OP_BIT_AND:
    case OP_BIT_OR:
    case OP_BIT_XOR:
    case OP_BIT_NOT:
    case OP_SHIFT_LEFT:
    case OP_SHIFT_RIGHT: return as_whole(g, x, from->dtype); /* they ask how many bits there are */
    default: return x;
    }
}

/* Only narrower types change a number. */
static Node *report_cast(Graph *g, Node *x, Dtype from, Dtype to)
{
    if (to == BOOL || (dtype_is_float(from) && !dtype_is_float(to)))
        return graph_cast(g, x, to);
    return dtype_is_float(to) || dtype_promote(from, to) == to ? x : as_whole(g, x, to);
}

/* Computes n in double; integers, too, which a double holds up to 2^53. */
static Node *report_node(Reporter *r, const Node *n)
{
    Graph *g = r->report;
    Node **in = NEW_ARRAY(Node *, n->inputs), *y;
    for (int k = 0; k < n->inputs; k++)
        in[k] = report_input(r, n, k);
    if (n->op == OP_CONSTANT && n->dtype != BOOL) {
        Node like = *n;
        like.dtype = F64;
        y = graph_rebuild(g, &like, in);
    } else if (n->op == OP_CAST) {
        y = report_cast(g, in[0], n->in[0]->dtype, n->dtype);
    } else {
        y = graph_rebuild(g, n, in);
    }
    if (n->op == OP_SCAN)
        return y;
    return y->dtype == BOOL && n->dtype == BOOL ? y : y->weak ? y : graph_cast(g, y, F64);
}

static void compute_in_report(Reporter *r, const bool *needed)
{
    for (int i = 0; i < r->source->node_count; i++) {
        const Node *n = r->source->nodes[i];
        if (!needed[i])
            continue;
        set_position(r->report, n);
        r->report_nodes[i] = n->op == OP_TOTAL ? r->sums[r->sum_of_total[i]].total : report_node(r, n);
    }
}

static Node *mean_of(Reporter *r, int first)
{
    Graph *g = r->report;
    Node *num = r->sums[first].total, *den = r->sums[first + 1].total;
    Node *zero = graph_number(g, 0, F64), *one = graph_number(g, 1, F64), *none = graph_binary(g, OP_EQ, den, zero);
    return graph_where(g, none, zero, graph_binary(g, OP_DIV, num, graph_where(g, none, one, den)));
}

static void report_value(Reporter *r, const Result *x, const char *name, Node *value)
{
    Graph *g = r->report;
    value = graph_cast(g, value, F64);
    int64_t count = shape_count(&value->shape), one[MAX_RANK], at[MAX_RANK] = {0};
    if (count == 1) {
        graph_result(g, ROLE_REPORT, name, 0, graph_reshape(g, value, SCALAR), NULL);
        return;
    }
    if (count > REPORTED_ELEMENTS)
        error_at(x->at, "the metric %s has shape %s: more than %d numbers; a metric is a number or a small table", name,
                 shape_text(&value->shape), REPORTED_ELEMENTS);
    for (int k = 0; k < value->shape.rank; k++)
        one[k] = 1;
    for (int64_t i = 0; i < count; i++) {
        Text element = {0};
        int64_t rest = i;
        for (int k = value->shape.rank - 1; k >= 0; k--) {
            at[k] = rest % value->shape.extent[k];
            rest /= value->shape.extent[k];
        }
        for (int k = 0; k < value->shape.rank; k++)
            text_add(&element, "%s%lld", k ? "," : "", (long long)at[k]);
        graph_result(g, ROLE_REPORT, format("%s[%s]", name, text_of(&element)), 0,
                     graph_reshape(g, graph_slice(g, value, at, one, one), SCALAR), NULL);
    }
}

static void report_losses(Reporter *rs, int reporter_count, Graph *g)
{
    const Result **losses = NULL;
    Node **means = NULL, *sum = NULL;
    int count = 0, of = 0;
    for (int k = 0; k < reporter_count; k++)
        for (int i = 0; i < rs[k].source->result_count; i++) {
            const Result *x = &rs[k].source->results[i];
            bool again = false; /* several objectives may have it; the first one's mean counts */
            for (int n = 0; n < count; n++)
                again = again || (k > 0 && x->name && losses[n]->name && strcmp(losses[n]->name, x->name) == 0);
            if (x->role != ROLE_LOSS || again)
                continue;
            Node *mean = mean_of(&rs[k], rs[k].first[i]);
            sum = sum ? graph_binary(g, OP_ADD, sum, mean) : mean;
            APPEND(losses, of, x);
            APPEND(means, count, mean);
        }
    if (!sum)
        return;
    graph_result(g, ROLE_REPORT, "loss", 0, sum, NULL);
    for (int n = 0; n < count && count > 1; n++)
        graph_result(g, ROLE_REPORT, format("loss.%s", losses[n]->name ? losses[n]->name : "?"), 0, means[n], NULL);
}

/* Reports metrics in the graph g, as PREFIX NAME. */
static void report_metrics(Reporter *rs, int count, Graph *g, const char *prefix)
{
    bool of_step = g == rs->step;
    read_sums(rs, count, g, of_step);
    for (int k = 0; k < count; k++) {
        rs[k].report = g;
        compute_in_report(&rs[k], rs[k].needed);
    }
    g->at = NULL;
    if (!of_step)
        report_losses(rs, count, g);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < rs[k].source->result_count; i++) {
            const Result *x = &rs[k].source->results[i];
            if (x->role != ROLE_METRIC)
                continue;
            g->at = x->at;
            report_value(&rs[k], x, format("%s%s", prefix, x->name ? x->name : "?"),
                         rs[k].after_total[x->value->id] ? rs[k].report_nodes[x->value->id] : mean_of(&rs[k], rs[k].first[i]));
        }
}

static Reporter reporter_of(Model *m, const Graph *source, const char *prefix)
{
    Reporter r = {.model = m, .prefix = prefix, .source = source};
    r.after_total = NEW_ARRAY(bool, source->node_count);
    r.of_step = NEW_ARRAY(bool, source->node_count);
    r.sum_of_total = NEW_ARRAY(int, source->node_count);
    r.report_nodes = NEW_ARRAY(Node *, source->node_count);
    find_sides(&r);
    copy_step(&r, source->name);
    r.needed = find_in_report(&r);
    add_totals(&r, r.needed);
    r.first = NEW_ARRAY(int, source->result_count);
    for (int i = 0; i < source->result_count; i++) {
        const Result *x = &source->results[i];
        if (x->role != ROLE_METRIC && x->role != ROLE_LOSS)
            continue;
        const char *metric = x->name ? x->name : "?";
        r.step->at = x->at;
        r.step->path = "";
        r.step->backward = false;
        if (x->role == ROLE_LOSS || !r.after_total[x->value->id]) /* no loss is computed of totals */
            r.first[i] = add_mean(&r, x, x->role == ROLE_LOSS ? format("loss.%s", metric) : metric);
        else if (x->weight)
            die("the metric %s is computed of totals and has weights", metric);
    }
    return r;
}

/* observed: the first graph reports its metrics of each step, too. */
static Graph *make_report(Model *m, Graph **steps, int count, const char *prefix, const char *name, bool observed)
{
    Reporter *rs = NEW_ARRAY(Reporter, count);
    Graph *report = graph_new(m, name, NULL);
    for (int k = 0; k < count; k++)
        rs[k] = reporter_of(m, steps[k], prefix);
    if (observed)
        report_metrics(rs, 1, rs->step, "metric.");
    report_metrics(rs, count, report, "");
    for (int k = 0; k < count; k++)
        steps[k] = rs[k].step;
    return report;
}

void make_reports(Model *m, Graph **trains, int train_count, Graph **eval, Graph **report_train, Graph **report_eval)
{
    bool observed = m->observe & OBSERVE_METRICS;
    *report_train = train_count ? make_report(m, trains, train_count, "metric.", "report_train", observed) : NULL;
    *report_eval = *eval ? make_report(m, eval, 1, "eval.", "report_eval", false) : NULL;
}

/* simplify drops what a graph's results do not need */
static Graph *part_of(Graph *eval, const char *name, bool outputs)
{
    Graph *g = graph_new(eval->model, name, NULL);
    for (int i = 0; i < eval->node_count; i++)
        eval->nodes[i]->mapped = graph_copy_node(g, eval->nodes[i]);
    graph_copy_results(g, eval);
    int kept = 0;
    for (int i = 0; i < g->result_count; i++)
        if ((g->results[i].role == ROLE_OUTPUT) == outputs)
            g->results[kept++] = g->results[i];
    g->result_count = kept;
    return g;
}

void split_outputs(Graph *eval, Graph **predict, Graph **rest)
{
    Graph *outputs = part_of(eval, "predict", true);
    *predict = outputs->result_count ? outputs : NULL;
    *rest = part_of(eval, "eval", false);
}
