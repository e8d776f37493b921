/* progress.h: the line that says how far a run is: of a run itself, and of `watch`, which follows one. */
#ifndef MGPU_RUN_PROGRESS_H
#define MGPU_RUN_PROGRESS_H

#include "runtime/base/base.h"

typedef struct RunPlace {
    int64_t epoch, epochs, step, steps; /* from 1; step: of the epoch, which has so many steps of the run */
    double loss, lr, rate;      /* rate: samples/s */
    double waiting;             /* share of the step in which devices waited for input and for transfers; NaN: not known */
    double seconds_left;        /* NaN: not known */
} RunPlace;
int64_t mgpu_steps_of_epoch(int64_t step, int64_t steps_per_epoch, int64_t total_steps); /* the epoch of that step: its steps, or those up to the end of the run */
char *mgpu_place_text(const RunPlace *);               /* the caller frees */
const char *mgpu_duration(double seconds, char text[32]); /* "1:02:03", "2:03" */
#endif
