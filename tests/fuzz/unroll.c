/* unroll.c: loops written out, one step after the other: what a SCAN means, with no rule of its own; see models.c. */
#include "tests/fuzz/unroll.h"

#include "compiler/ir/rebuild.h"

static Node *slice_of(Graph *g, Node *x, int64_t t)
{
    int64_t start[MAX_RANK] = {t}, count[MAX_RANK] = {1}, step[MAX_RANK] = {1};
    Shape s = {.rank = x->shape.rank - 1};
    for (int i = 1; i < x->shape.rank; i++) {
        s.extent[i - 1] = count[i] = x->shape.extent[i];
        step[i] = 1;
    }
    return graph_reshape(g, graph_slice(g, x, start, count, step), s);
}

static Node *as_slice(Graph *g, Node *x)
{
    Shape s = {.rank = x->shape.rank + 1, .extent = {1}};
    memcpy(s.extent + 1, x->shape.extent, (size_t)x->shape.rank * sizeof *s.extent);
    return graph_reshape(g, x, s);
}

/* -> the last carries, then the stacks */
static Node **write_out(Graph *g, const Node *scan)
{
    Loop l = loop_of(scan);
    int results = l.carries + l.stacks;
    Node **in = mapped_inputs(scan), **result = NEW_ARRAY(Node *, results), ***stack = NEW_ARRAY(Node **, l.stacks);
    for (int i = 0; i < l.stacks; i++)
        stack[i] = NEW_ARRAY(Node *, l.steps);
    for (int64_t step = 0; step < l.steps; step++) {
        int64_t t = l.reverse ? l.steps - 1 - step : step;
        set_position(g, scan);
        for (int i = 0; i < l.inputs; i++)
            if (l.arg[i])
                l.arg[i]->mapped = loop_kind(&l, i) == AS_SEQUENCE ? slice_of(g, in[i], t) : in[i];
        for (int i = 0; i < l.body->node_count; i++)
            if (l.body->nodes[i]->op != OP_ARG)
                graph_copy_node(g, l.body->nodes[i]);
        for (int i = 0; i < l.carries; i++)
            result[i] = l.next[i]->mapped;
        set_position(g, scan);
        for (int i = 0; i < l.stacks; i++)
            stack[i][t] = as_slice(g, l.stack[i]->mapped);
        memcpy(in, result, (size_t)l.carries * sizeof *in);
    }
    for (int i = 0; i < l.stacks; i++)
        result[l.carries + i] = graph_concat(g, stack[i], (int)l.steps, 0);
    return result;
}

static bool has_loop(const Graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_SCAN)
            return true;
    return false;
}

Graph *unroll_loops(Graph *g)
{
    if (!has_loop(g))
        return g;
    Graph *target = graph_new(g->model, g->name, g->parent);
    Node ***results = NEW_ARRAY(Node **, g->node_count); /* of each loop, by its id */
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (n->op == OP_SCAN)
            results[i] = write_out(target, n);
        else if (n->op == OP_RESULT && n->in[0]->op == OP_SCAN)
            map_node(n, results[n->in[0]->id][n->ints[0]]);
        else
            graph_copy_node(target, n);
    }
    graph_copy_results(target, g);
    return unroll_loops(target); /* loops in loops */
}
