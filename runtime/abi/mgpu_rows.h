/* mgpu_rows.h: running operations and the k largest elements along an axis, for generated kernels.
 *
 * In: a constant table (mgpu_rows). A row is the elements along the axis. One thread processes it from one end to the other, so
 * results do not depend on threads. Adjacent rows are summed together.
 *
 * The code is in the runtime library: runtime/host/rows.c. */
#ifndef MGPU_ROWS_H
#define MGPU_ROWS_H

#include "mgpu.h"
#include "mgpu_tables.h"

/* mgpu_cumsum: y[i] = sum_{j <= i} x[j], or j >= i. Types: f32, f64, i32, u32, i64. */
#define MGPU_RUNNING(NAME, name, ...) void mgpu_##name(const mgpu_rows *, void *const *argument, const mgpu_part *);
MGPU_RUNNING_TABLE(MGPU_RUNNING)
#undef MGPU_RUNNING

/* Writes the k largest in descending order, equal ones in order of their index, NaN above all numbers; any type (values of f16
 * and bf16 are f32). Uses a heap of the best k so far: at most n log k operations, about n for a small k in random order. Uses a
 * radix sort if most of a long row is wanted. */
void mgpu_top_k(const mgpu_rows *, void *const *argument, const mgpu_part *);

static inline bool mgpu_top_k_sorts(int64_t extent, int64_t k) { return extent >= 512 && 8 * k > extent; }

/* Returns the bytes of a thread's workspace for mgpu_top_k. */
static inline int64_t mgpu_top_k_workspace(uint8_t type, int64_t extent, int64_t k)
{
    return (mgpu_top_k_sorts(extent, k) ? 2 * extent : k) * (type == MGPU_F64 || type == MGPU_I64 ? 16 : 8);
}
#endif
