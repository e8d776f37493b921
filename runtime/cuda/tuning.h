/* tuning.h: --tune: times the alternative implementations of an operation on this machine: the program's own kernels, and what a
 * library offers. */
#ifndef MGPU_WAYS_H
#define MGPU_WAYS_H

#include "runtime/cuda/device_cuda.h"

typedef struct Alternatives { /* alternatives for one operation */
    const char *key;  /* everything that their times depend on, except the GPU and the versions of driver and program; no tabs */
    int count, usual; /* 0: our kernels, then the library's alternatives; usual: without --tune */
    bool (*run)(const CudaDevice *, const void *context, int alternative); /* false: it cannot run */
    const void *context;
} Alternatives;
/* best: of the library; 0: none runs */
typedef struct AlternativeTimes {
    int best;
    double kernel_us, usual_us, best_us;
} AlternativeTimes;

Tuning *mgpu_tuning_open(const CudaDevice *);
/* from an earlier run, or measured now */
AlternativeTimes mgpu_time_alternatives(const CudaDevice *, Tuning *, const Alternatives *);
/* Sets the time of an operation without --tune, and that of the chosen alternative; a later call overrides it. */
void mgpu_tuning_set(Tuning *, const mgpu_op *, double usual_us, double us);
double mgpu_tuning_usual_us(const Tuning *, const mgpu_op *, double otherwise); /* `otherwise` if it was not set */
double mgpu_tuning_us(const Tuning *, const mgpu_op *);                         /* as chosen; infinity if it was not set */
/* Saves what was measured, and appends to `description` what it changes. */
void mgpu_tuning_close(const CudaDevice *, Tuning *, char *description, size_t capacity);
#endif
