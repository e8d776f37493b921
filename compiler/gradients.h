/* gradients.h: between differentiate.c (losses, order of the sweep) and gradients.c (rules, contributions). */
#ifndef MGPU_GRADIENTS_H
#define MGPU_GRADIENTS_H

#include "compiler/graph.h"

typedef struct Sweep {
    Graph *g;
    int forward_count;    /* nodes [0, forward_count) of g are the forward graph */
    bool *needs;          /* of a forward node: a trained variable reaches it through differentiable operations */
    Node ***parts;        /* contributions to its gradient so far */
    int *part_count;
    bool *owed;           /* of all nodes: a sum over samples, which devices still owe each other */
    int owed_count;
    Node **variables;     /* by index: its node */
} Sweep;

Sweep sweep_begin(Graph *forward);
bool sweep_needs(const Sweep *, const Node *);
void sweep_contribute(Sweep *, Node *, Node *gradient); /* of the node's shape and dtype; ignored where nothing needs it */
Node *sweep_take(Sweep *, Node *);                      /* the sum of the contributions, which are then gone; NULL: none */
Node *sweep_find_variable(const Sweep *, int variable); /* NULL: the graph does not use it */

/* the rule of n's row: contributes to n's inputs what the gradient at n gives them */
void gradient_of_inputs(Sweep *, Node *n, Node *gradient);

/* sums over what broadcasting to gradient's shape has repeated; and over the samples */
Node *gradient_shrink(Graph *, Node *gradient, Shape to, bool over_samples);
#endif
