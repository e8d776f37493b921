/* reduce.h: all-reduce in shared memory. */
#ifndef MGPU_RUNTIME_HOST_REDUCE_H
#define MGPU_RUNTIME_HOST_REDUCE_H

#include "runtime/base/base.h"

/* ---- reduce.c: sums over the devices in the order of the devices: the same bits on every device */
typedef struct Reduction Reduction;
Reduction *mgpu_reduction_open(int members);
void mgpu_reduction_close(Reduction *);
/* Every member calls it with its own data and the same count, dtype and tag; returns when all have their sums.
 * false: the members disagree about what they reduce. */
bool mgpu_reduce(Reduction *, int member, void *data, int64_t count, uint8_t dtype, int64_t tag);
void mgpu_meet(Reduction *);           /* every member calls it; returns when all have */
#endif
