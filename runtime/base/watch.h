/* watch.h: intervals of a run, the best number of validation so far, patience. */
#ifndef MGPU_RUNTIME_BASE_WATCH_H
#define MGPU_RUNTIME_BASE_WATCH_H

#include "runtime/base/base.h"

/* ---- watch.c: intervals, the best number so far, patience */
typedef struct Pace { double steps_per_epoch, batch; } Pace;
typedef struct Watched {               /* a number of validation */
    bool any;
    double best, scale;                /* scale: of a plateau's rate */
    int64_t best_step, since, bad;     /* since: the step of the last better value, or when the rate was lowered; bad:
                                          validations from then on */
} Watched;
mgpu_quantity mgpu_read_quantity(const char *name, const char *text, bool validations); /* of --set NAME=TEXT */
const char *mgpu_quantity_text(mgpu_quantity, char text[48]);
bool mgpu_interval_over(mgpu_quantity, const Pace *, int64_t before, int64_t now); /* between these steps; not for times */
bool mgpu_watch_value(Watched *, const mgpu_watch *, double value, int64_t step); /* true: it is the best so far */
bool mgpu_out_of_patience(const Watched *, mgpu_quantity, const Pace *, int64_t step);
void mgpu_lower(Watched *, double factor, int64_t step);
#endif
