/* rules.h: what the files of the stage `simplify` share. A rule looks at a node of the new graph, whose inputs are
 * simple already, and returns a node that means the same and costs less, or NULL. */
#ifndef MGPU_SIMPLIFY_RULES_H
#define MGPU_SIMPLIFY_RULES_H

#include "compiler/ir/rebuild.h"

enum { FOLD_ELEMENTS = 65536 }; /* constants larger than this are not made, splats apart */

typedef struct Simplifier Simplifier;
typedef Node *Rule(Simplifier *, Node *);

struct Simplifier {
    Rule *const *rules;     /* by class of operation; NULL: none */
    Graph *target;
    Memory *tables;         /* of a round */
    int *uses, room;        /* by id in target: how often the old graph used what became this node */
    bool one_step;          /* the samples of this graph are all of the step's: their count is RUN_SAMPLES */
    bool differentiated;    /* nothing of this graph will be differentiated any more */
    bool all_valid;         /* VALID is true */
    int64_t samples;        /* RUN_SAMPLES; 0: known at run time only */
    int changes;            /* nodes that a rule replaced in this round */
    bool *backward_needs;   /* by id in the old graph; not counting where a relu asks for the sign of its input */
};

/* rewrite.c: the rules until none applies */
Node *simplify_node(Simplifier *, Node *);
int node_uses(const Simplifier *, const Node *);

/* simplify/elementwise.c */
Node *rule_elementwise(Simplifier *, Node *);
/* simplify/views.c */
Node *rule_view(Simplifier *, Node *);
Node *concat_of_parts(Simplifier *, Node *sum);
Node *rule_sum(Simplifier *, Node *);
Node *rule_window_sum(Simplifier *, Node *);
Node *rule_window_max(Simplifier *, Node *);
bool is_relu(const Node *);      /* where(z <= 0, 0, z) */
/* simplify/einsum.c */
Node *rule_einsum(Simplifier *, Node *);

/* simplify/scan.c: by number, what the results of the SCAN became; NULL: it is not used. in: what its inputs became */
Node **simplify_scan(Simplifier *, const Node *scan, Node **in, const bool *used);
/* simplify.c: the body of a SCAN of s->target */
Graph *simplify_body(const Simplifier *, Graph *body);

/* rewrite.c: makes a node of n's inputs and attributes with another first input */
Node *simple_node(Simplifier *, Op, Node **in, int inputs, const int64_t *ints, int int_count);
#define SIMPLE(s, op, ...)                                                                                             \
    simple_node(s, op, (Node *[]){__VA_ARGS__}, COUNT(((Node *[]){__VA_ARGS__})), NULL, 0)

/* one value in all elements of something like n */
Node *fill_like(Simplifier *, const Node *n, double value);
/* n's numbers, if all its inputs are constants and there are few of them; else NULL */
Node *fold_by_interpreter(Simplifier *, Node *);
/* whether v is a number of type t, and doubles have counted right so far: whole numbers beyond are left to run time, where they wrap */
bool is_exact(Dtype t, double v);
#endif
