/* measured_times.h: measured times of kernels and transfers, which `./train bench --measure FILE` writes and `mgpuc --measured
 * FILE` reads. */
#ifndef MGPU_PLAN_MEASURED_H
#define MGPU_PLAN_MEASURED_H

#include "compiler/base/base.h"

typedef struct Measured Measured;
typedef struct MeasuredKernel {
    uint64_t kernel; /* Kernel.digest */
    int64_t samples; /* samples of the device that ran it */
    double us;
} MeasuredKernel;
typedef struct MeasuredTransfer {
    const char *kind; /* such as "all-reduce" */
    int64_t bytes;
    double us;
} MeasuredTransfer;
/* Reads a file. Exits with 1 if its format is wrong, 2 if it does not exist, 3 if it cannot be read. */
const Measured *measured_read(const char *file);
/* Returns the measurement of a kernel with the nearest number of samples; NULL: it was not measured. */
const MeasuredKernel *measured_kernel(const Measured *, uint64_t kernel, double samples);
const MeasuredTransfer *measured_transfers(const Measured *, int *count); /* one per kind and size: the median */
int measured_devices(const Measured *);                                   /* devices that ran at the same time */
const char *measured_kind(const Measured *);                              /* "host" or "cuda" */
#endif
