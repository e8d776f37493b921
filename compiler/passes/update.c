/* update.c: applies the optimizer to the gradients; also clipping, skipped steps, averages.
 *
 * In: a train graph with ROLE_GRADIENT results and, in the updates, GRADIENT leaves. Out: a graph in which every such leaf is the
 * gradient itself, clipped if the model says so, without ROLE_GRADIENT; with clipping by the global norm it has ROLE_REPORT
 * grad_norm: the norm of all gradients, before they are clipped.
 *
 * GRADIENT leaves may precede the gradients in the old graph. So the new one is built in two sweeps: first what does not depend
 * on a leaf, then, after the clipping, what does.
 *
 * The norm is computed in double from the sum over all devices and samples: a square is not linear, so `distribute` reduces a
 * gradient before it is squared. A rule's clip by norm has a norm of its own, that of the rule's weights.
 *
 * on_nan = "skip". A step is good if the loss and every element of every gradient are finite. Gradients are reduced by then, so
 * every device knows it without another collective. Weights, states and states of the optimizer become where(good, new, old); one
 * variable counts the other steps, and `step` is RUN_STEP less that number: optimizers count applied steps. Sums of the report
 * are not covered: micro-batches have been added to them already.
 *
 * f16. Its numbers end at 65504 and lose digits below 2^-14, so gradients are computed from seeds multiplied by a scale
 * (differentiate.c), and divided by it here (Micikevicius et al., Mixed Precision Training, 2018). A step whose gradients
 * overflow is skipped and halves the scale; after GROWTH_STEPS good ones it is doubled. The scale is a power of two.
 *
 * observe = "gradients": a variable for each gradient, before it is clipped, which is written with its weight's update; the norm
 * of all is reported, too.
 *
 * Averages: a = d a + (1 - d) w after every update (ema; the first one takes w), or the mean of the weights after certain steps
 * (swa; before the first of them w). w is the value after the step. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

#include <math.h>

enum { GROWTH_STEPS = 2000 };
static const double LARGEST_SCALE = 0x1p32;

/* Returns true if some steps may have no update. */
static bool skips(const Model *m) { return m->on_nan == NAN_SKIP || m->precision == F16; }

typedef struct Updater {
    Graph *target;
    Node **gradients; /* by variable; NULL: none */
    Node **observed;  /* the same before clipping */
    Node **squares;   /* by group of clipping: the sum of their squares before clipping; NULL: not computed yet, or no gradient */
    Node *good;       /* true if the step counts; NULL: every step does */
    int objective;    /* from 1; 0: the model has only one */
    bool *begun;      /* by variable: a graph of an earlier objective begins its average; NULL: there is none */
} Updater;

/* Adds pairwise, so that depth and rounding stay small. */
static Node *add_all(Graph *g, Node **terms, int count)
{
    while (count > 1) {
        int half = 0;
        for (int i = 0; i < count; i += 2)
            terms[half++] = i + 1 < count ? graph_binary(g, OP_ADD, terms[i], terms[i + 1]) : terms[i];
        count = half;
    }
    return count ? terms[0] : graph_number(g, 0, F64);
}

static Node *square_sum(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    x = graph_cast(g, x, F64);
    return graph_sum(g, graph_binary(g, OP_MUL, x, x), axes, x->shape.rank);
}

/* Returns min(1, limit / (norm + 1e-6)), as in PyTorch. */
static Node *shrink_factor(Graph *g, Node *norm, double limit)
{
    Node *some = graph_binary(g, OP_ADD, norm, graph_number(g, 1e-6, F64));
    Node *ratio = graph_binary(g, OP_DIV, graph_number(g, limit, F64), some);
    Node *one = graph_number(g, 1, F64);
    return graph_where(g, graph_binary(g, OP_LT, one, ratio), one, ratio);
}

static Node *scale(Graph *g, Node *x, Node *factor) { return graph_binary(g, OP_MUL, x, graph_cast(g, factor, x->dtype)); }

/* Clips to [-limit, limit]; NaN stays NaN. */
static Node *limit_elements(Graph *g, Node *x, double limit)
{
    Node *most = graph_fill(g, limit, x->shape, x->dtype), *least = graph_fill(g, -limit, x->shape, x->dtype);
    Node *above = graph_where(g, graph_binary(g, OP_LT, most, x), most, x);
    return graph_where(g, graph_binary(g, OP_LT, x, least), least, above);
}

static Clip clip_of(const Model *m, int group) { return group ? m->clips[group - 1] : (Clip){m->clip_kind, m->clip}; }

/* Returns the sum of squares of all gradients of a group, before they are clipped; NULL: it has none. */
static Node *group_squares(Updater *u, const Model *m, int group)
{
    Graph *g = u->target;
    Node **squares = NULL;
    int count = 0;
    if (u->squares[group])
        return u->squares[group];
    for (int v = 0; v < m->variable_count; v++)
        if (u->observed[v] && m->variables[v].clip == group) {
            g->at = m->variables[v].at;
            g->path = format("%s.norm", m->variables[v].name); /* the name in schedules */
            Node *square = square_sum(g, u->observed[v]);
            APPEND(squares, count, square);
        }
    g->path = "";
    return u->squares[group] = count ? add_all(g, squares, count) : NULL;
}

static Node *group_norm(Updater *u, const Model *m, int group)
{
    Node *squares = group_squares(u, m, group);
    return graph_unary(u->target, OP_SQRT, squares ? squares : graph_number(u->target, 0, F64));
}

/* Returns the largest absolute value of a group's gradients. */
static Node *group_maximum(Updater *u, const Model *m, int group)
{
    Graph *g = u->target;
    Node *most = graph_number(g, 0, F64);
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int v = 0; v < m->variable_count; v++)
        if (u->observed[v] && m->variables[v].clip == group) {
            g->at = m->variables[v].at;
            Node *x = graph_unary(g, OP_ABS, u->observed[v]);
            most = graph_binary(g, OP_MAXIMUM, most, graph_cast(g, graph_max(g, x, axes, x->shape.rank), F64));
        }
    return most;
}

/* Returns the norm of each row of axis 0, the unit of which all weights are an output's; of a vector the norm of all. */
static Node *unit_norms(Graph *g, Node *x)
{
    Shape kept = {.rank = x->shape.rank};
    int axes[MAX_RANK], count = 0;
    bool rows = x->shape.rank > 1;
    for (int i = 0; i < x->shape.rank; i++) {
        kept.extent[i] = rows && i == 0 ? x->shape.extent[0] : 1;
        if (!rows || i > 0)
            axes[count++] = i;
    }
    Node *squares = graph_sum(g, graph_binary(g, OP_MUL, x, x), axes, count);
    return graph_reshape(g, graph_unary(g, OP_SQRT, squares), kept);
}

/* Brock et al. 2021: each unit's gradient is at most `limit` times as long as its weights, which count as 1e-3 at least. */
static Node *clip_units(Graph *g, Node *x, Node *weight, double limit)
{
    Node *size = unit_norms(g, graph_cast(g, weight, F64)), *slope = unit_norms(g, graph_cast(g, x, F64));
    Node *most =
        graph_binary(g, OP_MUL, graph_binary(g, OP_MAXIMUM, size, graph_number(g, 1e-3, F64)), graph_number(g, limit, F64));
    Node *ratio = graph_binary(g, OP_DIV, most, graph_binary(g, OP_MAXIMUM, slope, graph_number(g, 1e-6, F64)));
    Node *factor = graph_where(g, graph_binary(g, OP_LT, slope, most), graph_number(g, 1, F64), ratio);
    return scale(g, x, factor);
}

/* Reports the norm of all gradients, also of weights with a clipping of their own; `norm`: the norm of the model's clipping, or
 * NULL. */
static void report_norm(Updater *u, const Model *m, Node *norm)
{
    Graph *g = u->target;
    Node **terms = NULL;
    int count = 0;
    for (int group = 0; group <= m->clip_count; group++) {
        Node *squares = group_squares(u, m, group);
        if (squares)
            APPEND(terms, count, squares);
    }
    bool other = !norm || count > (u->squares[0] ? 1 : 0);
    graph_result(g, ROLE_REPORT, "grad_norm", 0, other ? graph_unary(g, OP_SQRT, add_all(g, terms, count)) : norm, NULL);
}

static void clip(Updater *u, const Model *m)
{
    Graph *g = u->target;
    g->backward = false;
    g->path = "";
    for (int group = 0; group <= m->clip_count; group++) {
        Clip c = clip_of(m, group);
        Node *norm = c.kind == CLIP_GLOBAL_NORM ? group_norm(u, m, group) : NULL;
        Node *maximum = c.kind == CLIP_GLOBAL_MAX ? group_maximum(u, m, group) : NULL;
        if (!group && (norm || m->observe & OBSERVE_GRADIENTS))
            report_norm(u, m, norm);
        for (int v = 0; v < m->variable_count; v++) {
            Node *x = u->gradients[v];
            if (!x || m->variables[v].clip != group)
                continue;
            g->at = m->variables[v].at;
            switch (c.kind) {
            case CLIP_NONE: break;
            case CLIP_GLOBAL_NORM: x = scale(g, x, shrink_factor(g, norm, c.limit)); break;
            case CLIP_NORM: x = scale(g, x, shrink_factor(g, graph_unary(g, OP_SQRT, square_sum(g, x)), c.limit)); break;
            case CLIP_VALUE: x = limit_elements(g, x, c.limit); break;
            case CLIP_GLOBAL_MAX: x = scale(g, x, shrink_factor(g, maximum, c.limit)); break;
            case CLIP_ADAPTIVE: x = clip_units(g, x, graph_variable(g, v), c.limit); break;
            }
            u->gradients[v] = x;
        }
    }
}

/* ---- skipped steps */

/* Returns how many elements are NaN or infinite, in F64. */
static Node *count_bad(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    Node *infinite = graph_fill(g, INFINITY, x->shape, x->dtype),
         *finite = graph_binary(g, OP_LT, graph_unary(g, OP_ABS, x), infinite);
    Node *one = graph_fill(g, 1, x->shape, F64), *bad = graph_where(g, finite, graph_fill(g, 0, x->shape, F64), one);
    return graph_sum(g, bad, axes, x->shape.rank);
}

/* Updates the scale for the next step; this step's scale is reported. */
static void adjust_scale(Updater *u, const Model *m)
{
    Graph *g = u->target;
    Node *scale = graph_variable(g, m->loss_scale), *steps = graph_variable(g, m->scaled_steps), *one = graph_number(g, 1, F64);
    Node *next = graph_binary(g, OP_ADD, steps, one), *zero = graph_number(g, 0, F64), *two = graph_number(g, 2, F64);
    Node *most = graph_number(g, LARGEST_SCALE, F64);
    Node *grows = graph_binary(g, OP_LE, graph_number(g, GROWTH_STEPS, F64), next);
    Node *twice = graph_binary(g, OP_MUL, scale, two), *grown = graph_where(g, graph_binary(g, OP_LT, scale, most), twice, scale);
    Node *half = graph_binary(g, OP_DIV, scale, two), *shrunk = graph_where(g, graph_binary(g, OP_LT, one, scale), half, scale);
    graph_result(g, ROLE_REPORT, "loss_scale", 0, scale, NULL);
    graph_result(g, ROLE_UPDATE, m->variables[m->loss_scale].name, m->loss_scale,
                 graph_where(g, u->good, graph_where(g, grows, grown, scale), shrunk), NULL);
    graph_result(g, ROLE_UPDATE, m->variables[m->scaled_steps].name, m->scaled_steps,
                 graph_where(g, u->good, graph_where(g, grows, zero, next), zero), NULL);
}

static void judge(Updater *u, const Graph *train)
{
    const Model *m = train->model;
    Graph *g = u->target;
    Node **bad = NULL;
    int count = 0;
    if (!skips(m))
        return;
    g->backward = false;
    g->path = "";
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role != ROLE_REPORT || strcmp(r->name, "loss") != 0)
            continue;
        g->at = r->value->at;
        Node *n = count_bad(g, graph_cast(g, r->value->mapped, F64));
        APPEND(bad, count, n);
    }
    for (int v = 0; v < m->variable_count; v++)
        if (u->gradients[v]) {
            g->at = m->variables[v].at;
            g->path = format("%s.finite", m->variables[v].name);
            Node *n = count_bad(g, u->gradients[v]);
            APPEND(bad, count, n);
        }
    g->at = m->variables[m->skipped].at;
    g->path = "";
    Node *zero = graph_number(g, 0, F64), *one = graph_number(g, 1, F64);
    u->good = graph_binary(g, OP_EQ, add_all(g, bad, count), zero);
    Node *skipped = graph_where(g, u->good, zero, one);
    graph_result(g, ROLE_REPORT, "skipped", 0, skipped, NULL);
    graph_result(g, ROLE_UPDATE, m->variables[m->skipped].name, m->skipped,
                 graph_binary(g, OP_ADD, graph_variable(g, m->skipped), skipped), NULL);
    if (m->precision == F16)
        adjust_scale(u, m);
}

static Node *if_good(Updater *u, Node *value, int variable)
{
    return u->good ? graph_where(u->target, u->good, value, graph_variable(u->target, variable)) : value;
}

static bool is_guarded(const Model *m, const Result *r)
{
    VariableKind kind = r->role == ROLE_UPDATE ? m->variables[r->index].kind : ACCUMULATOR;
    return kind == WEIGHT || kind == STATE || kind == OPTIMIZER_STATE;
}

/* Returns `step`: 1 + the updates so far. */
static Node *applied_step(Graph *g, int objective)
{
    Node *step = graph_own_step(g, objective);
    return skips(g->model) ? graph_binary(g, OP_SUB, step, graph_variable(g, g->model->skipped)) : step;
}

static bool is_step(const Node *n) { return n->op == OP_RUN && n->ints[0] == RUN_STEP; }

static void copy_node(Graph *g, Node *n)
{
    if (is_step(n) && skips(g->model)) {
        set_position(g, n);
        map_node(n, applied_step(g, 0));
    } else {
        graph_copy_node(g, n);
    }
}

Graph *count_applied(Graph *from)
{
    if (!skips(from->model))
        return from;
    Graph *g = graph_new(from->model, from->name, NULL);
    for (int i = 0; i < from->node_count; i++)
        copy_node(g, from->nodes[i]);
    graph_copy_results(g, from);
    return g;
}

/* ---- averages */

static Node *in_steps(Graph *g, Quantity q)
{
    Node *amount = graph_weak(g, q.amount), *all = graph_run(g, RUN_TOTAL_STEPS, 0);
    switch (q.unit) {
    case UNIT_EPOCHS: return graph_binary(g, OP_MUL, amount, graph_binary(g, OP_DIV, all, graph_run(g, RUN_TOTAL_EPOCHS, 0)));
    case UNIT_SAMPLES: return graph_weak(g, q.amount / (double)g->model->batch);
    case UNIT_SHARE: return graph_binary(g, OP_MUL, amount, all);
    default: return amount;
    }
}

/* Returns how many intervals of the average have passed after `step` steps; -1 before it begins. */
static Node *intervals(Graph *g, Node *step)
{
    const Model *m = g->model;
    Node *from = graph_binary(g, OP_SUB, step, in_steps(g, m->average_start));
    Node *past = graph_binary(g, OP_DIV, from, in_steps(g, m->average_every));
    Node *whole = graph_unary(g, OP_FLOOR, graph_binary(g, OP_ADD, past, graph_weak(g, 1e-9)));
    Node *none = graph_weak(g, -1);
    return graph_where(g, graph_binary(g, OP_LT, whole, none), none, whole);
}

/* Returns the fraction of w in the new mean: 1 up to its first member, 1 / n if w is its n-th, else 0. The n-th member is w after
 * start + (n - 1) intervals; the weights after 0 steps do not count. */
static Node *share_of_member(Graph *g)
{
    Node *step = graph_run(g, RUN_STEP, 0), *zero = graph_weak(g, 0), *one = graph_weak(g, 1);
    Node *now = intervals(g, step), *before = intervals(g, graph_binary(g, OP_SUB, step, one));
    Node *count = g->model->average_start.amount > 0 ? graph_binary(g, OP_ADD, now, one) : now;
    Node *joins = graph_where(g, graph_binary(g, OP_LT, before, now),
                              graph_binary(g, OP_DIV, one, graph_where(g, graph_binary(g, OP_LT, count, one), one, count)), zero);
    return graph_where(g, graph_binary(g, OP_LT, count, one), one, joins);
}

static void add_averages(Updater *u, const Model *m)
{
    Graph *g = u->target;
    if (m->average == AVERAGE_NONE)
        return;
    g->at = NULL;
    g->path = "";
    g->backward = false;
    Node *one = graph_weak(g, 1), *usual = graph_weak(g, 1 - m->average_decay), *first,
         **after = NEW_ARRAY(Node *, m->variable_count);
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == ROLE_UPDATE)
            after[g->results[i].index] = g->results[i].value;
    bool swa = m->average == AVERAGE_SWA;
    if (swa)
        first = usual = share_of_member(g);
    else
        first = graph_where(g, graph_binary(g, OP_LE, applied_step(g, u->objective), one), one, usual);
    for (int v = 0; v < m->variable_count; v++) {
        const Variable *x = &m->variables[v];
        if (x->kind != AVERAGE || (!after[x->owner] && !swa)) /* a member of swa may fall on another objective's update */
            continue;
        g->at = x->at;
        Node *w = after[x->owner] ? after[x->owner] : graph_variable(g, x->owner), *a = graph_variable(g, v);
        Node *share = u->begun && u->begun[v] ? usual : first;
        if (u->begun)
            u->begun[v] = true;
        Node *strong = graph_strong(g, share, x->dtype), *whole = graph_fill(g, 1, SCALAR, x->dtype);
        Node *moved = graph_binary(g, OP_ADD, a, graph_binary(g, OP_MUL, strong, graph_binary(g, OP_SUB, w, a)));
        Node *value = graph_where(g, graph_binary(g, OP_EQ, strong, whole), w, moved);
        graph_result(g, ROLE_UPDATE, x->name, v, swa ? value : if_good(u, value, v), NULL);
    }
}

static void observe(const Updater *u, Model *m)
{
    int count = m->observe & OBSERVE_GRADIENTS ? m->variable_count : 0;
    for (int v = 0; v < count; v++) {
        Node *x = u->observed[v];
        if (!x)
            continue;
        Variable copy = {.kind = OBSERVED, .dtype = x->dtype, .shape = x->shape, .owner = v, .at = m->variables[v].at};
        copy.name = new_variable_name(m, format("%s.gradient", m->variables[v].name));
        for (int i = 0; i < MAX_RANK; i++)
            copy.order[i] = i;
        graph_result(u->target, ROLE_UPDATE, copy.name, m->variable_count, x, NULL);
        APPEND(m->variables, m->variable_count, copy);
    }
}

static Node *unscaled(Graph *g, Node *gradient)
{
    if (g->model->precision != F16)
        return gradient;
    set_position(g, gradient);
    Node *by = graph_variable(g, g->model->loss_scale);
    return scale(g, gradient, graph_binary(g, OP_DIV, graph_number(g, 1, F64), by));
}

Graph *update(Graph *train, int objective, bool *begun)
{
    const Model *m = train->model;
    Graph *g = graph_new(train->model, train->name, NULL);
    Updater u = {.target = g,
                 .gradients = NEW_ARRAY(Node *, m->variable_count),
                 .observed = NEW_ARRAY(Node *, m->variable_count),
                 .squares = NEW_ARRAY(Node *, m->clip_count + 1),
                 .objective = objective,
                 .begun = begun};
    bool *late = NEW_ARRAY(bool, train->node_count); /* depends on a GRADIENT leaf */
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        late[i] = n->op == OP_GRADIENT;
        for (int k = 0; k < n->inputs; k++)
            late[i] = late[i] || late[n->in[k]->id];
        if (!late[i])
            copy_node(g, n);
    }
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role != ROLE_GRADIENT)
            continue;
        if (late[r->value->id])
            die("the gradient of %s depends on gradients", m->variables[r->index].name);
        u.gradients[r->index] = u.observed[r->index] = unscaled(g, r->value->mapped);
    }
    judge(&u, train);
    clip(&u, m);
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        if (!late[i])
            continue;
        if (n->op != OP_GRADIENT) {
            copy_node(g, n);
            continue;
        }
        int64_t v = n->ints[0];
        set_position(g, n);
        n->mapped = u.gradients[v] ? u.gradients[v] : graph_fill(g, 0, n->shape, n->dtype);
    }
    observe(&u, train->model);
    /* results in their old order, then those that were made here */
    Result *made = g->results;
    int made_count = g->result_count;
    g->results = NULL;
    g->result_count = 0;
    for (int i = 0; i < train->result_count; i++) {
        Result r = train->results[i];
        if (r.role == ROLE_GRADIENT)
            continue;
        r.value = r.value->mapped;
        r.weight = r.weight ? r.weight->mapped : NULL;
        if (is_guarded(m, &r)) {
            set_position(g, r.value);
            r.value = if_good(&u, r.value, r.index);
        }
        graph_add_result(g, r);
    }
    for (int i = 0; i < made_count; i++)
        graph_add_result(g, made[i]);
    add_averages(&u, m);
    return g;
}
