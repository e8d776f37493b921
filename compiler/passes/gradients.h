/* gradients.h: the interface between differentiate.c (losses, order of the sweep) and gradients.c (rules, contributions). */
#ifndef MGPU_GRADIENTS_H
#define MGPU_GRADIENTS_H

#include "compiler/ir/graph.h"

/* Conditions that are all true wherever a gradient may be other than an exact zero; without conditions: anywhere. */
typedef struct Selection {
    Node **conditions; /* BOOL, of a shape that broadcasts to the gradient's */
    int count;
} Selection;

typedef struct Sweep {
    Graph *g;
    int forward_count; /* nodes [0, forward_count) of g are the forward graph */
    /* The gradient is a value of the forward pass (resolve.c): padding samples have one like the sample that they are a copy of,
     * and what adds up samples selects the valid ones. Otherwise the seeds have done that: padding samples have an exact 0. */
    bool is_value;
    bool *needs;   /* of a forward node: it depends on a source through differentiable operations */
    Node ***parts; /* contributions to its gradient so far */
    int *part_count;
    bool *pending; /* by node: a sum over samples, whose all-reduce is pending */
    int pending_count;
    Node **variables;       /* by index: its node */
    Selection **selections; /* by node, if already computed; else NULL */
    int selection_count;
    Node ***of_results; /* of a forward SCAN: the gradients of its results */
    struct Replaced {
        Node *old, *now;
    } * replaced; /* SCANs that were rebuilt with more results */
    int replaced_count;
} Sweep;

Sweep sweep_begin(Graph *forward, const bool *trained);                   /* the sources are these variables */
Sweep sweep_begin_at(Graph *forward, const Node *x);                      /* the source is x, and the gradient a value */
Sweep sweep_begin_body(const Sweep *, Graph *forward, const bool *needs); /* for a body of s->g; sources by ARG */
bool sweep_needs(const Sweep *, const Node *);
void sweep_contribute(Sweep *, Node *, Node *gradient); /* has the node's shape and dtype; ignored if nothing needs it */
Node *sweep_take(Sweep *, Node *);                      /* returns and removes the sum of the contributions; NULL: none */
void gradient_name(Node *gradient, const char *name);   /* for readers, unless it has a name or is no node of the backward pass */
Node *sweep_term(Sweep *, Node *gradient);              /* as a term of a sum over samples */
Node *sweep_find_variable(const Sweep *, int variable); /* NULL: the graph does not use it */

/* Takes the gradient at n, and lets the rule of n's row contribute to n's inputs. */
void sweep_node(Sweep *, Node *n);
void sweep_replace(Sweep *, Node *old, Node *now); /* now: has the same inputs; its first results are those of old */
Graph *sweep_merge(const Sweep *);                 /* Returns the graph with replacements in the places of replaced nodes. */

/* ---- selection.c: where a gradient may be other than an exact zero */
const Selection *selection_of(Sweep *, const Node *gradient);
const Selection *selection_record(Sweep *, const Node *gradient, const Selection *); /* beside what follows from the node */
/* Records the conditions of `from` that still hold for a contraction of it, and returns the contraction. Axes that both have
 * share a letter; letters NULL: only conditions that are the same for all elements hold. */
Node *selection_of_contraction(Sweep *, Node *gradient, const Node *from, const char *from_letters, const char *letters);
/* Returns gradient x derivative where the gradient is selected, and an exact 0 elsewhere, for any derivative there. */
Node *selected_product(Sweep *, Node *gradient, Node *derivative);
/* The same for any other product of the gradient before its selection and a derivative. */
Node *selected(Sweep *, const Node *gradient, Node *product);
Node *before_selection(Node *gradient);
Node *graph_times(Graph *, Node *a, Node *b); /* a b; multiplications by the numbers 0 and 1 are folded */

/* scan_gradient.c: the rule of SCAN; given: by result, or NULL */
void scan_gradient(Sweep *, Node *scan, Node **given);

/* Sums over the axes that broadcasting to the gradient's shape has repeated, and over the samples. */
Node *gradient_shrink(Graph *, Node *gradient, Shape to, bool over_samples);
#endif
