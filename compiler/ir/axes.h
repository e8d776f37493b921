/* axes.h: how the axes of an operation's operands relate to those of its result: its named factors, as in Shardy
 * (openxla.org/shardy), and as the letters of an einsum.
 *
 * A factor is an index that several axes have in common. All of them may be cut at the same places: each part of the result is
 * then the operation, with the attributes of axes_part_ints(), on the parts of the operands that have the factor and on the
 * others whole.
 *   parallel   the result has the factor: its parts follow each other along that axis
 *   summed     the result lacks it: its parts are added up. Where an operand is `added`, one part has it, and the others have
 *              zeros in its place
 * An axis without a factor is needed whole, or, of the result, is not made in parts: windows, running sums, sorting, maxima.
 * The selections of gradients (passes/selection.c) and decoding (passes/decode_rows.c) ask this rule, and the batching of
 * loops (passes/loops_batch.c) the attributes with an axis more. */
#ifndef MGPU_AXES_H
#define MGPU_AXES_H

#include "compiler/ir/graph.h"

enum { MOST_FACTORS = 64, SAMPLES_AXIS = MAX_RANK /* the place of the axis of samples in an AxisFactors */ };

/* for each axis of a value: the factor, from 1 on, or 0; and the elements of the axis for one of the factor, which are the
 * axis's innermost: 768 that is reshaped to 12 x 64 has the factor of the 12, and 64 elements for each */
typedef struct AxisFactors {
    uint8_t factor[MAX_RANK + 1];
    int64_t unit[MAX_RANK + 1];
} AxisFactors;

typedef struct Factors {
    int count;
    int64_t extent[MOST_FACTORS + 1]; /* of factor 1, 2, ...; 0: the samples */
    bool summed[MOST_FACTORS + 1];
    int added;                    /* the operand that is added once, whatever is summed; -1: none */
    AxisFactors result, *operand; /* operand: one for each input, from the compiler's memory */
} Factors;

Factors node_factors(const Node *);
/* the axis of operand k that has the same elements, in the same order, as `axis` of the result; -1: there is none. Samples are
 * SAMPLES_AXIS */
int axis_of_operand(const Node *, int k, int axis);
/* the attributes of the node where `factor` is cut into so many equal parts; ints: room for n->int_count */
void axes_part_ints(const Node *, const Factors *, int factor, int64_t parts, int64_t *ints);
/* the attributes of the node where its operands and its result have one more axis, the first, of so many elements, and their
 * number. Not of EINSUM, GATHER, SCATTER_ADD and ATTENTION; operands of BROADCAST have the result's rank then. ints: room for
 * n->int_count + MAX_RANK */
int axes_more_ints(const Node *, int64_t extent, int64_t *ints);
#endif
