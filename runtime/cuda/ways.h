/* ways.h: --tune: the ways to do an operation, timed where they will run: the program's own kernels, and what a library offers. */
#ifndef MGPU_WAYS_H
#define MGPU_WAYS_H

#include "runtime/cuda/device_cuda.h"

typedef struct Ways {   /* to do an operation */
    const char *key;    /* all that their times depend on, besides the card, the driver and the program's version; no tabs */
    int count, usual;   /* 0: the program's kernels, then those of a library, the same ones whenever the key is; usual: without --tune */
    bool (*run)(const CudaDevice *, const void *context, int way); /* false: it does not run */
    const void *context;
} Ways;
typedef struct Times { int best; double own_us, usual_us, best_us; } Times; /* best: the library's fastest, 0: none of them runs */

Tuning *mgpu_tuning_open(const CudaDevice *);
Times mgpu_time_ways(const CudaDevice *, Tuning *, const Ways *); /* as they were measured before, or are now */
/* how long the operation takes without --tune, and as it was chosen; a later call holds */
void mgpu_tuning_set(Tuning *, const mgpu_op *, double usual_us, double us);
double mgpu_tuning_usual_us(const Tuning *, const mgpu_op *, double otherwise); /* as was set; `otherwise`: nobody has */
double mgpu_tuning_us(const Tuning *, const mgpu_op *); /* as chosen; infinity: nobody has set it */
/* keeps what was measured; says what it changes, after what is in `said` */
void mgpu_tuning_close(const CudaDevice *, Tuning *, char *said, size_t room);
#endif
