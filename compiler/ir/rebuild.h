/* rebuild.h: helpers for passes that rebuild graphs. A pass makes a new graph and sets node->mapped of every node of the old one,
 * in order, to the corresponding node of the new one. */
#ifndef MGPU_REBUILD_H
#define MGPU_REBUILD_H

#include "compiler/ir/placement.h"

#include <string.h>

/* New nodes of target get the place, path and `backward` of n. */
static inline void set_position(Graph *target, const Node *n)
{
    target->at = n->at;
    target->path = n->path;
    target->backward = n->backward;
}

/* Returns the inputs of n in the new graph. */
static inline Node **mapped_inputs(const Node *n)
{
    Node **in = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = n->in[k]->mapped;
    return in;
}

/* Maps n to `mapped`, which gets the name of n if it has none. */
static inline void map_node(Node *n, Node *mapped)
{
    if (!mapped->name)
        mapped->name = n->name;
    n->mapped = mapped;
}

static inline bool is_constant(const Node *n, double value)
{
    double v;
    return node_is_constant(n, &v) && v == value;
}

/* Returns where(valid, x, 0): the terms of a sum over samples of x. */
static inline Node *select_valid(Graph *g, Node *x)
{
    Node *none = graph_fill(g, 0, x->shape, x->dtype);
    return graph_where(g, graph_valid(g), x, none);
}

/* Returns the sum of all elements of all samples; x has samples. */
static inline Node *sum_everything(Graph *g, Node *x)
{
    int axes[MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++)
        axes[i] = i;
    return graph_sum_samples(g, x, axes, x->shape.rank);
}
#endif
