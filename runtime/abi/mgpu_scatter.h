/* mgpu_scatter.h: the part of a table that a worker adds to (runtime/host/scatter.c).
 *
 * A table [rows, columns] is cleared, and values are added to the rows that an index names. Each thread has a rectangle of the
 * table: it clears that and goes through all indices in order. So each element belongs to one thread and is summed in one order:
 * without atomics or a barrier between the two, and with the same bits for any number of threads. */
#ifndef MGPU_SCATTER_H
#define MGPU_SCATTER_H

#include "mgpu.h"

typedef struct mgpu_own {
    int64_t row, row_end, column, column_end;
} mgpu_own;

/* index: `count` numbers of this type, by whose frequency rows are divided (numbers that are no row do not count); NULL: equally
 * many rows. Columns are divided at multiples of `grain`; 1: they are not divided. Equal for all threads of the part. */
mgpu_own mgpu_own_part(int64_t rows, int64_t columns, int64_t grain, const void *index, uint8_t type, int64_t count,
                       const mgpu_part *part);
#endif
