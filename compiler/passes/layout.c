/* layout.c: the order in which the axes of a variable are in memory.
 *
 * In: the graphs of all phases. Out: Variable.order; nothing else changes: declared shapes, names and files keep PyTorch's order,
 * and code that accesses memory reads `order`.
 *
 *   weight of a convolution [o, c, k...]   [k..., c, o]: output channels innermost, so that a vector of outputs is loaded
 *                                          whole for every tap
 *   what is computed in parts (shard.c)    as declared: a part is a range of elements
 *   anything else                          as declared: contractions pack panels of any order
 *   state of an optimizer, accumulator,    like the weight or gradient that it belongs to, if it has its shape: an
 *   rounded copy                           update then reads all of them in one order */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

/* Returns the node from which n comes through casts and reductions. */
static const Node *source_of(const Node *n)
{
    while (n->op == OP_CAST || op_is_transfer(n->op) || n->op == OP_STOP_GRADIENT)
        n = n->in[0];
    return n;
}

static void channels_innermost(Variable *v)
{
    int rank = v->shape.rank;
    for (int i = 0; i + 2 < rank; i++)
        v->order[i] = i + 2;
    v->order[rank - 2] = 1;
    v->order[rank - 1] = 0;
}

/* Returns true for the gradient of a convolution's weight, for sums of several, and for what accumulate.c adds or stores. */
static bool is_weight_gradient(const Node *n)
{
    for (;;) {
        n = source_of(n);
        if (n->op == OP_CONVOLVE_WEIGHT)
            return true;
        if (n->op == OP_WHERE) {
            n = n->in[1];
            continue;
        }
        if (n->op != OP_ADD)
            return false;
        const Node *b = source_of(n->in[1]);
        n = b->op == OP_CONVOLVE_WEIGHT || n->in[0]->op == OP_VARIABLE ? b : n->in[0];
    }
}

/* Parts of Split values are ranges of elements, and a variable's part must have the range of what it is combined with: all of
 * them have the declared order. parts[v]: the variable is computed in parts. */
static void find_parts(const Graph *g, bool *parts)
{
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->inputs && node_is_sharded(n, ELEMENTS_AXIS); k++)
            if (n->in[k]->op == OP_VARIABLE)
                parts[n->in[k]->ints[0]] = true;
    }
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role == ROLE_UPDATE && (r->value->op == OP_ALL_GATHER || node_is_sharded(r->value, ELEMENTS_AXIS)))
            parts[r->index] = true;
    }
}

void choose_layout(Model *m, Graph **graphs, int graph_count)
{
    bool *parts = NEW_ARRAY(bool, m->variable_count);
    for (int k = 0; k < graph_count; k++)
        find_parts(graphs[k], parts);
    for (int v = 0; v < m->variable_count; v++)
        if (parts[v] && m->variables[v].owner >= 0)
            parts[m->variables[v].owner] = true;
    for (int v = 0; v < m->variable_count; v++)
        for (int i = 0; i < MAX_RANK; i++)
            m->variables[v].order[i] = i;
    for (int k = 0; k < graph_count; k++)
        for (int i = 0; i < graphs[k]->node_count; i++) {
            const Node *n = graphs[k]->nodes[i], *w = n->op == OP_CONVOLVE ? source_of(n->in[1]) : NULL;
            if (!w || w->op != OP_VARIABLE || n->in[1]->shape.rank < 2)
                continue;
            Variable *v = &m->variables[w->ints[0]];
            v = v->kind == ROUNDED ? &m->variables[v->owner] : v;
            if (!parts[v - m->variables])
                channels_innermost(v);
        }
    for (int v = 0; v < m->variable_count; v++) {
        Variable *x = &m->variables[v];
        if (x->owner >= 0 && shape_equal(&x->shape, &m->variables[x->owner].shape))
            memcpy(x->order, m->variables[x->owner].order, sizeof x->order);
    }
    for (int k = 0; k < graph_count; k++)
        for (int i = 0; i < graphs[k]->result_count; i++) {
            const Result *r = &graphs[k]->results[i];
            if (r->role == ROLE_UPDATE && m->variables[r->index].kind == ACCUMULATOR && !parts[r->index] &&
                r->value->shape.rank >= 2 && is_weight_gradient(r->value))
                channels_innermost(&m->variables[r->index]);
        }
}
