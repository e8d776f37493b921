/* loops.h: what the files about loops share. loops.c: what is moved out of a loop; loops_batch.c: an operation of a step for all
 * steps at once; loops_cut.c: the least data that must cross between two places; scan_gradient.c: the reverse rule. */
#ifndef MGPU_SCAN_H
#define MGPU_SCAN_H

#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"

/* a value of a body, computed outside of the loop: `along`: of all steps, stacked along a first axis; else the same in each
 * step */
typedef struct Outside {
    Node *node;
    bool along;
} Outside;

/* Returns n's result from those of its inputs. If no input is along the steps, that is n itself in g. */
Outside batch_node(Graph *g, int64_t steps, const Node *n, const Outside *in);
bool batch_has_rule(const Node *n, const bool *along); /* true if batch_node can compute it */
Node *batch_stack(Graph *g, int64_t steps, Outside);   /* with the axis, even if it is the same in each step */

/* If n is one operation of its inputs, a contraction, the sum of n over the steps is one, too; batch_is_contraction: is it? */
bool batch_is_contraction(const Node *n, const bool *along);
Node *batch_contraction_total(Graph *g, int64_t steps, const Node *n, const Outside *in);

/* The same for an element-wise product whose operands (before they are broadcast) are smaller than the result. */
bool batch_is_spread(const Node *n);
Node *batch_operand(const Node *n, int k);
Node *batch_spread_total(Graph *g, int64_t steps, const Node *n, const Outside *operands);

/* passes/loops_cut.c. Values are computed on the near side; the far side needs some of them. A FREE value may cross, or be
 * recomputed on the far side; FIXED: computed on the near side only; FAR: on the far side only; GIVEN: known on both. */
typedef enum Side { SIDE_FREE, SIDE_FIXED, SIDE_FAR, SIDE_GIVEN } Side;
/* Sets crosses[i] if node i of the body crosses. The bytes of all of these are minimal, and each crosses as late as possible. */
void least_cut(const Graph *body, const Side *side, const double *bytes, const bool *needed, bool *crosses);

/* loops.c: Makes a loop of scan, whose inputs became `in`, and what is moved out of it, in target. Returns, by number, the new
 * results; NULL where `used` is false. summed (or NULL): the sum over the steps is needed in place of the stack. */
Node **hoist_loop(Graph *target, const Node *scan, Node **in, const bool *used, const bool *summed);
#endif
