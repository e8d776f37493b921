/* gradients.h: between differentiate.c (losses, order of the sweep) and gradients.c (rules, contributions). */
#ifndef MGPU_GRADIENTS_H
#define MGPU_GRADIENTS_H

#include "compiler/ir/graph.h"

typedef struct Sweep {
    Graph *g;
    int forward_count;    /* nodes [0, forward_count) of g are the forward graph */
    bool *needs;          /* of a forward node: a trained variable reaches it through differentiable operations */
    Node ***parts;        /* contributions to its gradient so far */
    int *part_count;
    bool *pending;           /* of all nodes: a sum over samples, which is pending between devices */
    int pending_count;
    Node **variables;     /* by index: its node */
    Node ***of_results;   /* of a forward SCAN: the gradients of its results */
    struct Replaced { Node *old, *now; } *replaced; /* SCANs that were made again with more results */
    int replaced_count;
} Sweep;

Sweep sweep_begin(Graph *forward);
Sweep sweep_begin_body(Graph *forward, const bool *needs); /* needs: by ARG */
bool sweep_needs(const Sweep *, const Node *);
void sweep_contribute(Sweep *, Node *, Node *gradient); /* of the node's shape and dtype; ignored where nothing needs it */
Node *sweep_take(Sweep *, Node *);                      /* the sum of the contributions, which are then gone; NULL: none */
Node *sweep_find_variable(const Sweep *, int variable); /* NULL: the graph does not use it */

/* takes the gradient at n; the rule of n's row contributes to n's inputs what it gives them */
void sweep_node(Sweep *, Node *n);
void sweep_replace(Sweep *, Node *old, Node *now); /* now: made of the same inputs; its first results are those of old */
Graph *sweep_merge(const Sweep *);                 /* the graph, with what has been replaced in the places of the old */

/* scan_gradient.c: the rule of SCAN; given: by result, or NULL */
void scan_gradient(Sweep *, Node *scan, Node **given);

/* sums over what broadcasting to gradient's shape has repeated; and over the samples */
Node *gradient_shrink(Graph *, Node *gradient, Shape to, bool over_samples);
#endif
