/* results.c: the model's results: losses, metrics, outputs and updates of variables. In a scan's body they are staged, and loop.c
 * adds them when the scan is closed. */
#include "dsl/elaborate.h"

#include <string.h>

static void stage(Elaborator *e, Role role, const char *name, int variable, Value *value, const Place *at)
{
    Staged t = {role, name, variable, value, at};
    APPEND(e->staging->list, e->staging->count, t);
}

/* ---- variables */

/* Returns whether `from` can be broadcast to exactly `to`. */
static bool broadcasts_to(const Shape *from, const Shape *to)
{
    for (int k = 1; k <= from->rank && k <= to->rank; k++)
        if (from->extent[from->rank - k] != 1 && from->extent[from->rank - k] != to->extent[to->rank - k])
            return false;
    return from->rank <= to->rank;
}

Node *fit_variable(Graph *g, Node *n, const Variable *v)
{
    n = n->weak ? graph_strong(g, n, v->dtype) : graph_cast(g, n, v->dtype);
    if (!broadcasts_to(&n->shape, &v->shape))
        return NULL;
    return shape_equal(&n->shape, &v->shape) ? n : graph_broadcast(g, n, v->shape);
}

/* Returns the state's value as earlier calls of a shared layer have updated it in this step, which the next call reads. */
Node *updated_state(const Elaborator *e, int variable)
{
    for (const Staging *s = e->staging; s; s = s->outer)
        for (int k = s->count - 1; k >= 0; k--)
            if (s->list[k].role == ROLE_UPDATE && s->list[k].variable == variable)
                return s->list[k].value->node;
    for (int k = e->deferred_count - 1; k >= 0; k--)
        if (e->deferred[k].variable == variable)
            return e->deferred[k].value;
    intptr_t known = (intptr_t)map_get(&e->updates, e->model->variables[variable].name);
    return known ? e->top->results[known - 1].value : NULL;
}

void set_update(Elaborator *e, int variable, Node *value, const Place *at)
{
    const char *name = e->model->variables[variable].name;
    intptr_t known = (intptr_t)map_get(&e->updates, name);
    Result *r = known ? &e->top->results[known - 1] : graph_result(e->top, ROLE_UPDATE, name, variable, value, NULL);
    if (!known) {
        map_set(&e->updates, name, (void *)(intptr_t)e->top->result_count);
    } else {
        EarlierUpdate earlier = {.variable = variable, .value = r->value};
        APPEND(e->earlier, e->earlier_count, earlier);
    }
    r->value = value;
    r->at = at;
}

void add_update(Elaborator *e, int index, Node *n, const Place *at)
{
    const Variable *v = &e->model->variables[index];
    if (e->staging) {
        stage(e, ROLE_UPDATE, NULL, index, value_tensor(n), at);
        return;
    }
    const char *name = last_word(v->name);
    if (n->has_samples)
        error_at(at, "the update of '%s' depends on one sample; batch_sum(...) makes one value of all samples", name);
    Graph *g = graph_at(e, at);
    Node *fit = fit_variable(g, n, v);
    if (!fit)
        error_at(at, "the state '%s' has the shape %s, its update has %s", name, shape_text(&v->shape), shape_text(&n->shape));
    if (e->graph != e->top) { /* in a body: the update becomes a result of the composite */
        Deferred d = {.variable = index, .value = fit, .at = at};
        APPEND(e->deferred, e->deferred_count, d);
        return;
    }
    set_update(e, index, fit, at);
}

/* ---- losses, metrics, outputs */

bool depends_on_total(const Elaborator *e, const Node *n)
{
    if (!e->has_total || !n)
        return false;
    bool *seen = NEW_ARRAY(bool, e->top->node_count);
    const Node **stack = NEW_ARRAY(const Node *, e->top->node_count);
    int count = 0;
    stack[count++] = n;
    seen[n->id] = true;
    while (count > 0) {
        const Node *at = stack[--count];
        if (at->op == OP_TOTAL)
            return true;
        for (int k = 0; k < at->inputs; k++)
            if (!seen[at->in[k]->id]) {
                seen[at->in[k]->id] = true;
                stack[count++] = at->in[k];
            }
    }
    return false;
}

static void add_output(Elaborator *e, const Place *at, const Value *v, const char *name)
{
    if (v->kind == VALUE_WEIGHTED)
        error_at(at, "a weighted value cannot be an output; .value is its plain value");
    Node *n = node_of(e, at, v, "an output");
    if (n->weak)
        n = graph_strong(graph_at(e, at), n, F32);
    if (depends_on_total(e, n))
        error_at(at, "total belongs in metrics, not in an output");
    if (!n->has_samples)
        error_at(at, "this value is the same for all samples: it is no column of predict");
    if (e->training_pass)
        return;
    int index = 0;
    for (int k = 0; k < e->top->result_count; k++)
        index += e->top->results[k].role == ROLE_OUTPUT;
    Result *r = graph_result(e->top, ROLE_OUTPUT, name, index, n, NULL);
    r->at = at;
}

void add_result(Elaborator *e, Role role, const char *name, const Value *v, const Place *at)
{
    const char *what = role == ROLE_LOSS ? "loss" : role == ROLE_METRIC ? "metric" : "output";
    if (e->staging) {
        bool plain = v->kind == VALUE_WEIGHTED || v->kind == VALUE_TENSOR;
        Value *own = plain ? value_new() : value_tensor(node_of(e, at, v, format("a %s", what)));
        if (plain)
            *own = *v;
        stage(e, role, name, -1, own, at);
        return;
    }
    if (e->graph != e->top)
        die("a %s in a layer that the compiler keeps whole", what);
    if (role == ROLE_OUTPUT) {
        add_output(e, at, v, name);
        return;
    }
    Node *value = v->kind == VALUE_WEIGHTED ? v->node : node_of(e, at, v, format("a %s", what));
    value = float_node(e, value);
    Node *weight = v->kind == VALUE_WEIGHTED ? v->weight : NULL;
    bool total = depends_on_total(e, value) || depends_on_total(e, weight);
    if (role == ROLE_LOSS && total)
        error_at(at, "total belongs in metrics: a loss is a mean already, and has a gradient");
    if (total && (value->has_samples || weight))
        error_at(at, "a metric with total is computed from totals alone; this one also depends on one sample");
    require_of_inputs(e, weight ? weight : value);
    Result *r = graph_result(e->top, role, name, 0, value, weight);
    r->at = at;
}
