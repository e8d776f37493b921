/* mgpu_step.h: the step block: everything that changes from step to step. It is uploaded with the batch and read by kernels of
 * hosts and GPUs. */
#ifndef MGPU_STEP_H
#define MGPU_STEP_H

#ifndef MGPU_DEVICE_H /* it declares what is needed of it */
#include <stdint.h>
#endif

enum { MGPU_MAX_SETTINGS = 32 };

typedef struct mgpu_step {
    int64_t step;        /* applied steps + 1 */
    int64_t sample;      /* index of this device's first sample in the epoch's permutation */
    int64_t batch;       /* index of the first sample of the whole step in it */
    int64_t valid;       /* real samples on this device in this micro-batch: samples [0, valid) */
    int64_t samples;     /* real samples of the whole step: all devices, all micro-batches */
    int64_t micro;       /* number of the micro-batch in the step */
    int64_t total_steps; /* of the run */
    double epoch, progress, total_epochs;
    uint64_t seed;
    double setting[MGPU_MAX_SETTINGS]; /* by the program's table of settings; NaN: not given */
} mgpu_step;
#endif
