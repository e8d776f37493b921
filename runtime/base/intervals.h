/* intervals.h: intervals of a run, the best validation result so far, patience. */
#ifndef MGPU_RUNTIME_BASE_WATCH_H
#define MGPU_RUNTIME_BASE_WATCH_H

#include "runtime/base/base.h"

typedef struct Pace {
    double steps_per_epoch, batch;
} Pace;
typedef struct Watched { /* a validation result */
    bool any;
    double best, scale;            /* scale: of the rate that a plateau lowers */
    int64_t best_step, since, bad; /* since: step of the last improvement or lowered rate; bad: validations since then */
} Watched;
mgpu_quantity mgpu_read_quantity(const char *name, const char *text, bool validations); /* of --set NAME=TEXT */
const char *mgpu_quantity_text(mgpu_quantity, char text[48]);
/* one ends in (before, now]; not for TIMES */
bool mgpu_interval_over(mgpu_quantity, const Pace *, int64_t before, int64_t now);
bool mgpu_watch_value(Watched *, const mgpu_watch *, double value, int64_t step); /* true: it is the best so far */
bool mgpu_out_of_patience(const Watched *, mgpu_quantity, const Pace *, int64_t step);
void mgpu_lower(Watched *, double factor, int64_t step);
#endif
