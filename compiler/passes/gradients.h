/* gradients.h: between differentiate.c (losses, order of the sweep) and gradients.c (rules, contributions). */
#ifndef MGPU_GRADIENTS_H
#define MGPU_GRADIENTS_H

#include "compiler/ir/graph.h"

/* Where a gradient may be other than an exact zero: all conditions are true. None: anywhere. */
typedef struct Selection {
    Node **conditions; /* BOOL, of a shape that broadcasts to the gradient's */
    int count;
} Selection;

typedef struct Sweep {
    Graph *g;
    int forward_count;    /* nodes [0, forward_count) of g are the forward graph */
    bool *needs;          /* of a forward node: a trained variable reaches it through differentiable operations */
    Node ***parts;        /* contributions to its gradient so far */
    int *part_count;
    bool *pending;           /* of all nodes: a sum over samples, which is pending between devices */
    int pending_count;
    Node **variables;     /* by index: its node */
    Selection **selections; /* by node, as far as it was asked for; else NULL */
    int selection_count;
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

/* selection.c: where a gradient may be other than an exact zero */
const Selection *selection_of(Sweep *, const Node *gradient);
const Selection *selection_note(Sweep *, const Node *gradient, const Selection *); /* of a node that does not show it */
/* Notes what is left of it in a contraction of `from`, and returns the contraction. Axes that the two share have one letter;
 * letters NULL: only what is the same for all elements is left. */
Node *selection_of_contraction(Sweep *, Node *gradient, const Node *from, const char *from_letters, const char *letters);
/* gradient x derivative where the gradient is selected, an exact 0 elsewhere, whatever the derivative is there */
Node *selected_product(Sweep *, Node *gradient, Node *derivative);
/* likewise of any other product, of what the gradient was before it was selected and a derivative */
Node *selected(Sweep *, const Node *gradient, Node *product);
Node *before_selection(Node *gradient);
Node *graph_times(Graph *, Node *a, Node *b); /* a b; numbers 0 and 1 give what they give */

/* scan_gradient.c: the rule of SCAN; given: by result, or NULL */
void scan_gradient(Sweep *, Node *scan, Node **given);

/* sums over what broadcasting to gradient's shape has repeated; and over the samples */
Node *gradient_shrink(Graph *, Node *gradient, Shape to, bool over_samples);
#endif
