/* precision.c: F32 means "the model's float"; here it becomes one.
 *
 * In: any graph without composites. Out: the graph itself for precision f32; for f64 a graph in which F64 stands wherever
 * F32 stood, and variables of F32 are F64 (in the model, for all graphs alike). What lies in memory as the user's data
 * says (inputs) and draws of random numbers, which have 24 bits, are F32 and cast behind the leaf. F64 that was F64 before
 * (rates, sums of reports) stays, so casts between the two vanish. */
#include "compiler/passes.h"

static Dtype wide(Dtype t) { return t == F32 ? F64 : t; }

static Node *widen(Graph *g, Node *n)
{
    Node **in = twins_of_inputs(n);
    switch (n->op) {
    case OP_VARIABLE:
        return graph_variable(g, (int)n->ints[0]);
    case OP_INPUT:
    case OP_RANDOM:
        return graph_cast(g, graph_rebuild(g, n, in), wide(n->dtype));
    case OP_CONSTANT: {
        Node like = *n;
        like.dtype = wide(n->dtype);
        return graph_rebuild(g, &like, in);
    }
    case OP_CAST:
        return graph_cast(g, in[0], wide(n->dtype));
    default:
        return graph_rebuild(g, n, in);
    }
}

Graph *choose_precision(Graph *g)
{
    Model *m = g->model;
    if (m->precision == F32)
        return g;
    if (m->precision != F64)
        die("precision %s", dtype_name(m->precision));
    for (int v = 0; v < m->variable_count; v++)
        m->variables[v].dtype = wide(m->variables[v].dtype);
    Graph *target = graph_new(m, g->name, g->parent);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        stand_at(target, n);
        become(n, widen(target, n));
        if (n->twin->dtype != wide(n->dtype))
            die("%s became %s", dtype_name(n->dtype), dtype_name(n->twin->dtype));
        if (n->twin->distribution == UNTYPED)
            n->twin->distribution = n->distribution;
    }
    graph_copy_results(target, g);
    return target;
}
