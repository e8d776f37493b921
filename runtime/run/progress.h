/* progress.h: formats the progress of a run, for the run itself and for `watch`. */
#ifndef MGPU_RUN_PROGRESS_H
#define MGPU_RUN_PROGRESS_H

#include "runtime/base/base.h"

typedef struct RunPlace {
    int64_t epoch, epochs, step, steps; /* from 1; step: within the epoch, which has `steps` steps of the run */
    double loss, lr, rate;              /* rate: samples/s */
    double waiting;                     /* fraction of the step in which devices wait for input and transfers; NaN if unknown */
    double seconds_left;                /* NaN if unknown */
} RunPlace;
int64_t mgpu_steps_of_epoch(int64_t step, int64_t steps_per_epoch, int64_t total_steps); /* of this epoch, or until the end */
char *mgpu_place_text(const RunPlace *);                                                 /* the caller frees */
const char *mgpu_duration(double seconds, char text[32]);                                /* "1:02:03", "2:03" */
#endif
