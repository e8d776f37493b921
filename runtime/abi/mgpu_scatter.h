/* mgpu_scatter.h: which part of a table a worker adds to (runtime/host/scatter.c).
 *
 * A table [rows, columns] is cleared, and values are added to the rows that an index names. Each thread owns a rectangle of the
 * table: it clears that and takes all indices in their order, so every element is one thread's and is summed in one order:
 * no atomics, no barrier between the two, and the same bits for any number of threads. */
#ifndef MGPU_SCATTER_H
#define MGPU_SCATTER_H

#include "mgpu.h"

typedef struct mgpu_own { int64_t row, row_end, column, column_end; } mgpu_own;

/* index: `count` numbers of the type, by whose frequency rows are shared out (any that are none of a row do not count);
 * NULL: equally many rows. Columns are divided at multiples of `grain`; 1: they are not. The same for all threads of the part. */
mgpu_own mgpu_own_part(int64_t rows, int64_t columns, int64_t grain, const void *index, uint8_t type, int64_t count,
                       const mgpu_part *part);
#endif
