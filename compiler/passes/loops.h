/* loops.h: what the files about loops share. scan.c: what leaves a loop; passes/loops_batch.c: a step's operation for all steps at
 * once; passes/loops_cut.c: the least that has to cross between two places; scan_gradient.c: the reverse rule. */
#ifndef MGPU_SCAN_H
#define MGPU_SCAN_H

#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"

/* a value of a body, computed outside of the loop: `along`: of all steps, stacked along a first axis; else the same in each */
typedef struct Outside { Node *node; bool along; } Outside;

/* n's result, from those of its inputs. Where no input is along the steps, that is n itself in g. */
Outside batch_node(Graph *g, int64_t steps, const Node *n, const Outside *in);
bool batch_has_rule(const Node *n, const bool *along); /* can batch_node do it? */
Node *batch_stack(Graph *g, int64_t steps, Outside);   /* with the axis, even if it is the same in each step */

/* The sum over the steps of what n gives, where that is one operation of its inputs (a contraction): NULL: it is not. */
bool batch_is_contraction(const Node *n, const bool *along);
Node *batch_contraction_total(Graph *g, int64_t steps, const Node *n, const Outside *in);

/* likewise of a contraction of elements whose operands (what they are before they are repeated) are smaller than the result */
bool batch_is_spread(const Node *n);
Node *batch_operand(const Node *n, int k);
Node *batch_spread_total(Graph *g, int64_t steps, const Node *n, const Outside *operands);

/* passes/loops_cut.c. Values are made on the near side; the far side needs some of them. What is FREE may cross, or be made again on
 * the far side of what is there; FIXED: made on the near side alone; FAR: on the far side alone; GIVEN: known on both. */
typedef enum Side { SIDE_FREE, SIDE_FIXED, SIDE_FAR, SIDE_GIVEN } Side;
/* crosses[i]: node i of the body goes over. The bytes of all that do are the least, and each as late as can be */
void least_cut(const Graph *body, const Side *side, const double *bytes, const bool *needed, bool *crosses);

/* scan.c. A loop made of scan whose inputs became `in`, and what has left it, in target: by number what its results became;
 * NULL where used says so. summed (or NULL): the sum over the steps is wanted instead of the stack. */
Node **hoist_loop(Graph *target, const Node *scan, Node **in, const bool *used, const bool *summed);
#endif
