/* mgpu_rows.h: running sums and the k largest along an axis, for generated kernels.
 *
 * In: a constant table (mgpu_rows). A row is the elements along the axis; each is worked on by one thread, from one end to
 * the other, so results do not depend on threads. Rows that are next to each other are summed side by side.
 *
 * The code is in the runtime library: runtime/host/rows.c. */
#ifndef MGPU_ROWS_H
#define MGPU_ROWS_H

#include "mgpu.h"
#include "mgpu_tables.h"

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
