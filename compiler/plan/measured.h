/* measured.h: what kernels and transfers took in `./train bench --measure FILE`, for `mgpuc --measured FILE`. */
#ifndef MGPU_PLAN_MEASURED_H
#define MGPU_PLAN_MEASURED_H

#include "compiler/base/base.h"

typedef struct Measured Measured;
typedef struct MeasuredKernel {
    uint64_t kernel;            /* Kernel.digest */
    int64_t samples;            /* of the device that ran it */
    double us;
} MeasuredKernel;
typedef struct MeasuredTransfer {
    const char *kind;           /* "all-reduce" */
    int64_t bytes;
    double us;
} MeasuredTransfer;
const Measured *measured_read(const char *file); /* exit 2 or 3 if it is no such file, or cannot be read */
/* of the kernel, with so many samples if that was measured, else with the number that is nearest; NULL: it was not measured */
const MeasuredKernel *measured_kernel(const Measured *, uint64_t kernel, double samples);
const MeasuredTransfer *measured_transfers(const Measured *, int *count); /* of each kind and size one: the median */
int measured_devices(const Measured *);     /* that were at work at the same time */
const char *measured_kind(const Measured *); /* "host", "cuda" */
#endif
