/* reach.c: what a gradient reaches, and what stops it: for warnings of weights that nothing trains, and for grad(y, x). */
#include "dsl/elaborate.h"

bool passes_gradient(const Node *n)
{
    return dtype_is_float(n->dtype) && n->op != OP_STOP_GRADIENT && n->op != OP_FLOOR && n->op != OP_TOTAL;
}

void reach_back(const Graph *g, bool *seen, bool gradient)
{
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; seen[i] && (!gradient || passes_gradient(g->nodes[i])) && k < g->nodes[i]->inputs; k++)
            seen[g->nodes[i]->in[k]->id] = true;
}

const Node *gradient_stop(const Graph *g, const bool *from, const bool *depended)
{
    bool *after = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        after[i] = from[i];
        for (int k = 0; k < n->inputs && !after[i]; k++)
            after[i] = after[n->in[k]->id];
        if (after[i] && depended[i] && !passes_gradient(n))
            return n;
    }
    return NULL;
}

const char *stop_word(const Node *n)
{
    return n->op == OP_CAST                                     ? format("the cast to %s", dtype_name(n->dtype))
           : n->op == OP_EQ || n->op == OP_LT || n->op == OP_LE ? "the comparison"
                                                                : OP_INFO[n->op].name;
}
