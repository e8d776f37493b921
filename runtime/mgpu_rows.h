/* mgpu_rows.h: running sums and the k largest along an axis, for generated kernels.
 *
 * In: a constant table (mgpu_rows). A row is the elements along the axis; each is worked on by one thread, from one end to
 * the other, so results do not depend on threads. Rows that lie next to each other are summed side by side.
 *
 * The code is in the runtime library: runtime/rows.c. */
#ifndef MGPU_ROWS_H
#define MGPU_ROWS_H

#include "mgpu.h"

enum { MGPU_ROW_AXES = MGPU_MAX_RANK - 1 };

/* extent and strides of the operand and of the results, in elements */
typedef struct mgpu_row_axis { int64_t extent, operand, result; } mgpu_row_axis;

typedef struct mgpu_rows {
    uint8_t type;              /* of the operand and of sums and values */
    bool bf16;                 /* the operand is MGPU_BF16, `type` MGPU_F32 */
    bool backwards;            /* sums begin at the last element */
    mgpu_row_axis along;       /* the axis; its extent is the operand's */
    int64_t k;                 /* of mgpu_top_k */
    int axes;                  /* the others, outermost first: they count the rows of a sample */
    mgpu_row_axis axis[MGPU_ROW_AXES];
    int64_t rows;              /* of a sample */
    int64_t operand_sample, result_sample; /* strides; 0: the same for all samples */
    bool by_row;               /* parts are of the rows, else of the samples */
    int operand, values, places, workspace; /* arguments; -1: none. mgpu_cumsum: values. places: MGPU_I32 */
} mgpu_rows;

/* y[i] = sum_{j <= i} x[j], or j >= i; f32 sums in double. Types: f32, f64, i32, u32, i64, which wrap. */
void mgpu_cumsum(const mgpu_rows *, void *const *argument, const mgpu_part *);

/* the k largest in descending order, equals in the order of their places, NaN above all numbers; any type but f16 and bf16.
 * A heap of the k best so far: n log k at most, n for a small k in an order at random; of a long row most of which is
 * wanted, a sort by digits. */
void mgpu_top_k(const mgpu_rows *, void *const *argument, const mgpu_part *);

static inline bool mgpu_top_k_sorts(int64_t extent, int64_t k) { return extent >= 512 && 8 * k > extent; }

/* bytes of a thread's workspace for mgpu_top_k */
static inline int64_t mgpu_top_k_workspace(uint8_t type, int64_t extent, int64_t k)
{
    return (mgpu_top_k_sorts(extent, k) ? 2 * extent : k) * (type == MGPU_F64 || type == MGPU_I64 ? 16 : 8);
}
#endif
