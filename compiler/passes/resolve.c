/* resolve.c: gradients that the model's text asks for, grad(y, x), become the nodes that compute them; so do substitutions.
 *
 * In: any graph as the elaborator made it, with GRAD and SUBSTITUTE nodes. Out: the same without them. It runs before any other
 * pass, while each value that the text names is still one that others are computed from.
 *
 * GRAD is a sweep of gradients.c from y back to x. Its nodes are ordinary ones of the forward pass, so the gradient of a loss of
 * them needs nothing more, and neither do several devices: a gradient by what is the same for all samples is a sum over samples.
 * A composite between x and y is replaced by its library body first, since its own gradient may have none (attention). In the
 * body of a scan, what a step is given is held constant, x excepted.
 *
 * SUBSTITUTE copies what lies between x and y, with z in place of x. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/gradients.h"
#include "compiler/passes/stages.h"

static bool asks(const Node *n) { return n->op == OP_GRAD || n->op == OP_SUBSTITUTE; }

static bool has(const Graph *g, bool (*wanted)(const Node *))
{
    for (int i = 0; i < g->node_count; i++)
        if (wanted(g->nodes[i]) || (g->nodes[i]->op == OP_SCAN && has(g->nodes[i]->body, wanted)))
            return true;
    return false;
}

/* ---- composites */

/* Marks the composites that y is computed from, between x and y; all of them, if a copy of them may depend on x. */
static void mark_composites(const Graph *g, const Node *grad, bool *marked)
{
    const Node *y = grad->in[0], *x = grad->in[1];
    bool *needed = NEW_ARRAY(bool, g->node_count), *depends = NEW_ARRAY(bool, g->node_count), copies = false;
    needed[y->id] = depends[x->id] = true;
    for (int i = y->id; i >= 0; i--) {
        copies = copies || (needed[i] && g->nodes[i]->op == OP_SUBSTITUTE);
        for (int k = 0; needed[i] && k < g->nodes[i]->inputs; k++)
            needed[g->nodes[i]->in[k]->id] = true;
    }
    for (int i = 0; i <= y->id; i++) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->inputs; k++)
            depends[i] = depends[i] || depends[n->in[k]->id];
        marked[i] = marked[i] || (n->op == OP_COMPOSITE && needed[i] && (copies || depends[i]));
    }
}

/* Replaces them level by level, as bodies may have composites in them. */
static Graph *without_composites(Graph *g)
{
    for (;;) {
        bool *marked = NEW_ARRAY(bool, g->node_count), any = false;
        for (int i = 0; i < g->node_count; i++)
            if (g->nodes[i]->op == OP_GRAD)
                mark_composites(g, g->nodes[i], marked);
        for (int i = 0; i < g->node_count; i++)
            any = any || marked[i];
        if (!any)
            return g;
        g = inline_marked(g, marked);
    }
}

/* ---- the nodes */

typedef struct Resolver {
    Graph *g, *target; /* nodes of g are mapped to nodes of target */
} Resolver;

static Node *gradient(Resolver *r, int at, Node *y, Node *x)
{
    Sweep s = sweep_begin_at(r->target, x);
    if (!sweep_needs(&s, y))
        return graph_fill(r->target, 0, x->shape, x->dtype);
    sweep_contribute(&s, y, graph_fill(r->target, 1, y->shape, y->dtype));
    for (int i = y->id; i > x->id; i--)
        sweep_node(&s, s.g->nodes[i]);
    set_position(r->target, r->g->nodes[at]);
    Node *total = sweep_take(&s, x);
    if (!total)
        return graph_fill(r->target, 0, x->shape, x->dtype);
    Graph *merged = sweep_merge(&s);
    if (merged == r->target)
        return total;
    for (int i = 0; i < at; i++)
        if (r->g->nodes[i]->mapped)
            r->g->nodes[i]->mapped = r->g->nodes[i]->mapped->mapped;
    r->target = merged;
    return total->mapped;
}

static Node *substituted(Graph *g, Node *y, Node **x, Node **z, int count)
{
    int nodes = y->id + 1;
    bool *needed = NEW_ARRAY(bool, nodes);
    Node **now = NEW_ARRAY(Node *, nodes);
    needed[y->id] = true;
    for (int i = y->id; i >= 0; i--)
        for (int k = 0; needed[i] && k < g->nodes[i]->inputs; k++)
            needed[g->nodes[i]->in[k]->id] = true;
    for (int i = 0; i < nodes; i++) {
        Node *n = g->nodes[i], **in = NEW_ARRAY(Node *, n->inputs);
        bool changed = false, replaced = false;
        now[i] = n;
        for (int k = 0; k < count; k++)
            if (x[k] == n) {
                now[i] = z[k];
                replaced = true;
            }
        for (int k = 0; k < n->inputs; k++) {
            in[k] = now[n->in[k]->id];
            changed = changed || in[k] != n->in[k];
        }
        if (!needed[i] || replaced || !changed)
            continue;
        set_position(g, n);
        now[i] = graph_rebuild(g, n, in);
    }
    return now[y->id];
}

static Node *copied_scan(Graph *target, Node *scan)
{
    Node like = *scan;
    like.body = resolve(scan->body);
    return graph_rebuild(target, &like, mapped_inputs(scan));
}

/* What the elaborator took for a value of each sample may be linear in the sample's values. */
static void check_outputs(const Graph *g)
{
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role == ROLE_OUTPUT && r->value->has_samples && !r->value->mapped->has_samples)
            error_at(r->at,
                     "the output '%s' is the same for all samples, since what its gradient is taken of is linear: it is no "
                     "column of predict",
                     r->name);
    }
}

Graph *resolve(Graph *g)
{
    if (!has(g, asks))
        return g;
    Graph *inner = graph_in_place_of(g); /* bodies first: then a loop is like any other */
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        set_position(inner, n);
        if (n->op == OP_SCAN)
            n->mapped = copied_scan(inner, n);
        else
            graph_copy_node(inner, n);
    }
    graph_copy_results(inner, g);
    g = hoist_loops(without_composites(inner)); /* the rule of SCAN requires all carries to be of one kind */
    Resolver r = {g, graph_in_place_of(g)};
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i], **in = asks(n) ? mapped_inputs(n) : NULL;
        int count = n->inputs / 2;
        n->mapped = NULL;
        set_position(r.target, n);
        if (n->op == OP_GRAD)
            map_node(n, gradient(&r, i, in[0], in[1]));
        else if (n->op == OP_SUBSTITUTE)
            map_node(n, substituted(r.target, in[0], in + 1, in + 1 + count, count));
        else
            graph_copy_node(r.target, n);
    }
    check_outputs(g);
    graph_copy_results(r.target, g);
    return r.target;
}
