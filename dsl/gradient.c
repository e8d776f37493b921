/* gradient.c: grad(y, x), substitute(y, x, z) and weights(y): which values depend on which, and the nodes that stand for a
 * gradient until compiler/passes/resolve.c computes it. */
#include "dsl/elaborate.h"
#include "runtime/base/spelling.h"

#include <string.h>

/* ---- which values depend on which */

/* Returns, for each node of y's graph, whether y depends on it. */
static bool *sources_of(const Node *y, bool gradient)
{
    bool *seen = NEW_ARRAY(bool, y->graph->node_count);
    seen[y->id] = true;
    reach_back(y->graph, seen, gradient);
    return seen;
}

static bool is_within(const Graph *g, const Graph *outer)
{
    while (g && g != outer)
        g = g->parent;
    return g != NULL;
}

/* Returns whether y depends on x, of the same graph or an enclosing one. */
static bool depends_on(const Node *y, const Node *x)
{
    const Graph *g = y->graph;
    const bool *seen = sources_of(y, false);
    if (g == x->graph)
        return seen[x->id];
    for (int i = 0; i < g->node_count; i++)
        if (seen[i] && g->nodes[i]->op == OP_ARG && is_within(g->parent, x->graph) &&
            depends_on(g->captured[g->nodes[i]->ints[0]], x))
            return true;
    return false;
}

/* In a scan: what enters the body is given, x excepted; it must not be computed from x, or a part of the gradient would be
 * lost. */
static void check_given(const Place *at, const char *name, const Node *y, const Node *own, const Node *x)
{
    const Graph *g = y->graph;
    const bool *seen = sources_of(y, true);
    for (int i = 0; g->parent && i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (!seen[i] || n == own || n->op != OP_ARG || g->kinds[n->ints[0]] == AS_CARRY)
            continue;
        const Node *outer = g->captured[n->ints[0]];
        if (is_within(outer->graph, x->graph) && depends_on(outer, x))
            error_at(at,
                     "%s in a scan: what is asked for also depends on %s by way of line %d, outside of the scan; compute that in "
                     "the body too, or ask after the scan",
                     name, x->name ? format("'%s'", x->name) : "the second value", users_line(outer->at));
    }
}

/* Returns x as a value of y's graph; an error if y does not depend on it in a way that has a gradient. */
static Node *source(const Place *at, const char *name, Node *y, Node *x, bool gradient)
{
    Graph *g = y->graph;
    bool reaches = is_within(g, x->graph);
    Node *own = reaches ? graph_capture(g, x) : NULL;
    if (reaches && sources_of(y, gradient)[own->id]) {
        check_given(at, name, y, own, x);
        return own;
    }
    const char *to = x->name ? format("'%s'", x->name) : "the second value";
    const char *of = y->name ? format("'%s'", y->name) : "the first value";
    const Node *stop = NULL;
    if (reaches) {
        bool *from = NEW_ARRAY(bool, g->node_count);
        from[own->id] = true;
        stop = gradient_stop(g, from, sources_of(y, false));
    }
    if (stop)
        error_at(at, "no gradient of %s reaches %s: %s in line %d lets none through, and there is no other way", of, to,
                 stop_word(stop), users_line(stop->at));
    error_at(at, "%s: %s is not computed from %s", name, of, to);
}

/* ---- grad */

static Node *float_tensor(Elaborator *e, const Place *at, const Value *v, const char *what)
{
    if (v->kind == VALUE_WEIGHTED)
        error_at(at, "%s is a weighted value; .value and .weight take it apart", what);
    if (v->kind != VALUE_TENSOR)
        error_at(at, "%s must be a tensor, not %s", what, value_describe(v));
    Node *n = node_of(e, at, v, what);
    if (!dtype_is_float(n->dtype) || n->weak)
        error_at(at, "%s is %s: only tensors of floats have gradients; f32(...) makes one%s", what, value_describe(v),
                 strstr(what, "by which") ? ", from which the rest must be computed" : "");
    return n;
}

static Value *one_gradient(Elaborator *e, const Place *at, Node *y, const Value *by)
{
    if (by->kind == VALUE_LIST) {
        Value **items = NEW_ARRAY(Value *, by->count);
        for (int k = 0; k < by->count; k++)
            items[k] = one_gradient(e, at, y, by->items[k]);
        return value_list(items, by->count);
    }
    Node *x = source(at, "grad", y, float_tensor(e, at, by, "that by which the gradient is taken"), true);
    if (!x->has_samples && y->has_samples)
        check_batch(e, at, "a gradient by what is the same for all samples");
    Graph *g = y->graph;
    graph_at(e, at);
    g->at = at;
    g->path = e->graph->path;
    Node *n = NODE(g, OP_GRAD, NULL, 0, NULL, y, x);
    if (!x->has_samples && y->has_samples)
        return value_tensor(of_batch(e, at, n, false));
    return value_tensor(n);
}

Value *run_grad(Elaborator *e, const Place *at, Value **a)
{
    return one_gradient(e, at, float_tensor(e, at, a[0], "that of which the gradient is taken"), a[1]);
}

/* ---- substitute */

static const Value *element(const Value *list, int k) { return list->kind == VALUE_LIST ? list->items[k] : list; }

static Node *fitting(Elaborator *e, const Place *at, const Value *v, const Node *x)
{
    Node *z = node_of(e, at, v, "what takes the place of a value");
    z = z->weak ? graph_strong(graph_at(e, at), z, x->dtype) : graph_cast(graph_at(e, at), z, x->dtype);
    if (!shape_equal(&z->shape, &x->shape))
        error_at(at, "substitute: %s takes the place of %s; their shapes must be equal", shape_text(&z->shape),
                 shape_text(&x->shape));
    if (z->has_samples && !x->has_samples)
        error_at(at, "substitute: what takes the place of a value that is the same for all samples must be so too");
    return z;
}

static Node *substituted(Elaborator *e, const Place *at, Node *y, const Value *xs, const Value *zs)
{
    int count = xs->kind == VALUE_LIST ? xs->count : 1;
    Node **in = NEW_ARRAY(Node *, 2 * count + 1);
    in[0] = y;
    for (int k = 0; k < count; k++) {
        Node *x = node_of(e, at, element(xs, k), "what is replaced");
        if (x->weak)
            error_at(at, "substitute: %s is no tensor that could be replaced", value_describe(element(xs, k)));
        Node *z = fitting(e, at, element(zs, k), x);
        in[1 + k] = source(at, "substitute", y, x, false);
        if (!is_within(y->graph, z->graph))
            error_at(at, "substitute: the first value is computed outside of the scan, what is to be put into it within it");
        in[1 + count + k] = graph_capture(y->graph, z);
    }
    y->graph->at = at;
    y->graph->path = graph_at(e, at)->path;
    return graph_node(y->graph, OP_SUBSTITUTE, in, 2 * count + 1, NULL, 0, NULL);
}

Value *run_substitute(Elaborator *e, const Place *at, Value **a)
{
    bool lists = a[1]->kind == VALUE_LIST;
    if (lists != (a[2]->kind == VALUE_LIST) || (lists && a[1]->count != a[2]->count))
        error_at(at, "substitute: %s takes the place of %s; both must be lists of equal lengths, or neither",
                 value_describe(a[2]), value_describe(a[1]));
    if (lists && !a[1]->count)
        return a[0];
    if (a[0]->kind != VALUE_WEIGHTED)
        return value_tensor(substituted(e, at, node_of(e, at, a[0], "what is computed once more"), a[1], a[2]));
    return weighted_value(e, at, substituted(e, at, a[0]->node, a[1], a[2]), a[0]->weight);
}

/* ---- weights */

/* Marks the variables that y depends on. */
static void find_variables(const Node *y, bool *found)
{
    const Graph *g = y->graph;
    const bool *seen = sources_of(y, true);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (seen[i] && n->op == OP_VARIABLE)
            found[n->ints[0]] = true;
        else if (seen[i] && n->op == OP_ARG)
            find_variables(g->captured[n->ints[0]], found);
    }
}

Value *run_weights(Elaborator *e, const Place *at, Value **a)
{
    const Model *m = e->model;
    const Node *y = a[0]->kind == VALUE_WEIGHTED ? a[0]->node : node_of(e, at, a[0], "what depends on weights");
    bool *found = NEW_ARRAY(bool, m->variable_count);
    Value **items = NULL;
    int count = 0;
    if (a[1]->kind != VALUE_STRING)
        error_at(at, "weights: names are matched by a pattern such as \"critic.*\", not by %s", value_describe(a[1]));
    find_variables(y, found);
    for (int k = 0; k < m->variable_count; k++) {
        const Variable *v = &m->variables[k];
        const char *pattern = a[1]->text;
        if (found[k] && v->kind == WEIGHT && !rules_of(e, v->name).frozen &&
            mgpu_pattern_match(pattern, (ptrdiff_t)strlen(pattern), v->name) >= 0)
            APPEND(items, count, value_tensor(graph_variable(e->top, k)));
    }
    if (!count)
        error_at(at, "weights: %s depends on no trained weight whose name matches \"%s\"",
                 y->name ? format("'%s'", y->name) : "the value", a[1]->text);
    return value_list(items, count);
}
