/* rules.h: what the files of the stage `simplify` share. A rule gets a node of the new graph, whose inputs are simple already,
 * and returns a cheaper node with the same value, or NULL. */
#ifndef MGPU_SIMPLIFY_RULES_H
#define MGPU_SIMPLIFY_RULES_H

#include "compiler/ir/rebuild.h"

enum { FOLD_ELEMENTS = 65536 }; /* larger constants are not folded, except uniform ones */

typedef struct Simplifier Simplifier;
typedef Node *Rule(Simplifier *, Node *);

struct Simplifier {
    Rule *const *rules; /* by class of operation; NULL: none */
    Graph *target;
    Memory *tables;       /* memory of a round */
    int *uses, capacity;  /* by id in target: uses, in the old graph, of what became this node */
    bool one_step;        /* the samples of this graph are all those of the step: their number is RUN_SAMPLES */
    bool differentiated;  /* the graph will not be differentiated any more */
    bool all_valid;       /* VALID is true */
    int64_t samples;      /* RUN_SAMPLES; 0: only known at run time */
    int changes;          /* nodes that a rule replaced in this round */
    bool *backward_needs; /* by id in the old graph: backward needs it, other than to test the sign of a relu's input */
};

/* rewrite.c: Applies the rules until none applies. */
Node *simplify_node(Simplifier *, Node *);
int node_uses(const Simplifier *, const Node *);

/* simplify/elementwise.c */
Node *rule_elementwise(Simplifier *, Node *);
/* simplify/views.c */
Node *rule_view(Simplifier *, Node *);
Node *join_slices(Simplifier *, Node *sum);
Node *rule_sum(Simplifier *, Node *);
Node *rule_window_sum(Simplifier *, Node *);
Node *rule_window_max(Simplifier *, Node *);
bool is_relu(const Node *); /* where(z <= 0, 0, z) */
/* simplify/einsum.c */
Node *rule_einsum(Simplifier *, Node *);

/* simplify/scan.c: Returns, by number, the new results of the SCAN; NULL: it is not used. in: its new inputs. */
Node **simplify_scan(Simplifier *, const Node *scan, Node **in, const bool *used);
/* simplify.c: Simplifies the body of a SCAN of s->target. */
Graph *simplify_body(const Simplifier *, Graph *body);

/* rewrite.c: Makes a node of these inputs and attributes, and applies the rules to it. */
Node *simple_node(Simplifier *, Op, Node **in, int inputs, const int64_t *ints, int int_count);
#define SIMPLE(s, op, ...) simple_node(s, op, (Node *[]){__VA_ARGS__}, COUNT(((Node *[]){__VA_ARGS__})), NULL, 0)

/* Returns one value for all elements, with the shape and dtype of n. */
Node *fill_like(Simplifier *, const Node *n, double value);
/* Returns n as a constant, if all its inputs are constants with few elements; else NULL. */
Node *fold_by_interpreter(Simplifier *, Node *);
/* Returns true if v is a number of type t, and double arithmetic was exact: larger integers are left to run time, where they
 * wrap. */
bool is_exact(Dtype t, double v);
#endif
