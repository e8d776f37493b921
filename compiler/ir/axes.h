/* axes.h: how the axes of an operation's operands correspond to those of its result: by factors, as in Shardy
 * (openxla.org/shardy), which are like the letters of an einsum.
 *
 * A factor is an index that several axes share. All of them may be cut in the same places. Each part of the result is then the
 * operation, with the attributes of axes_part_ints(), on parts of the operands that have the factor, and on the other operands
 * whole.
 *   parallel   the result has the factor: its parts are concatenated along that axis
 *   summed     the result lacks the factor: its parts are added up. If an operand is `added`, one part has it, and the others
 *              have zeros in its place
 *   neither    the result, of a loop, is the same whatever part of the operand there is
 * An axis of an operand without a factor is needed whole; an axis of the result without one cannot be computed in parts: windows,
 * running sums, sorting, maxima. The samples are one more axis. So are all elements together, row-major: element-wise operations
 * and reshapes keep them. Parts of them are operations on flat values.
 *
 * Placements (ir/placement.c), the selections of gradients (passes/selection.c) and decoding (passes/decode_rows.c) use this
 * rule, and the batching of loops (passes/loops_batch.c) uses the attributes with one more axis. */
#ifndef MGPU_AXES_H
#define MGPU_AXES_H

#include "compiler/ir/graph.h"

enum { MOST_FACTORS = 64 };

/* For each axis of a value: its factor, numbered from 1, or 0; and the unit, the number of the axis's elements per element of the
 * factor, which are contiguous. An axis of 768 that is reshaped to 12 x 64 has the factor of the 12, with a unit of 64. The unit
 * of GROUP_SUM's samples is a group; 0: all samples of a device. */
typedef struct AxisFactors {
    uint8_t factor[VALUE_AXES];
    int64_t unit[VALUE_AXES];
} AxisFactors;

typedef struct Factors {
    int count;
    int64_t extent[MOST_FACTORS + 1]; /* of factor 1, 2, ...; 0: the samples */
    bool summed[MOST_FACTORS + 1];    /* of MOMENTS: merged */
    int added;                        /* the operand that is added once, whatever is summed; -1: none */
    AxisFactors result, *operand;     /* operand: one for each input, in the compiler's memory */
} Factors;

Factors node_factors(const Node *);
bool node_keeps_elements(const Node *); /* its operands and its result have one factor of their elements */
bool node_sums_all(const Node *);       /* SUM over all axes: the elements of its operand are a factor that is summed */
/* Returns the axis of operand k that has the same elements, in the same order, as `axis` of the result; -1: none. */
int axis_of_operand(const Node *, int k, int axis);
/* Computes the attributes of the node if `factor` is cut into so many equal parts; ints has room for n->int_count. */
void axes_part_ints(const Node *, const Factors *, int factor, int64_t parts, int64_t *ints);
/* Computes the attributes of the node if its operands and its result have one more axis, the first, with so many elements.
 * Returns their number. Not for EINSUM, GATHER, SCATTER_ADD, INDEX_COPY and ATTENTION; the operand of BROADCAST must have the
 * result's rank. ints has room for n->int_count + MAX_RANK. */
int axes_more_ints(const Node *, int64_t extent, int64_t *ints);
/* Sets the attributes of a window or view that concern `axis`, which has so many elements, so that the axis is not changed. */
void axes_keep(const Node *, int axis, int64_t extent, int64_t *ints);
#endif
