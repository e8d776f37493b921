/* events.h: event files of TensorBoard; a scalar is a name, a step and a number. */
#ifndef MGPU_RUN_EVENTS_H
#define MGPU_RUN_EVENTS_H

#include "runtime/base/base.h"

#include "runtime/run/commands.h"

typedef struct Events Events;
Events *mgpu_events_open(const char *folder); /* creates it; exits if it cannot be written */
/* wall: seconds since 1970. NaN is skipped. */
void mgpu_events_scalar(Events *, const char *group, const char *name, int64_t step, double wall, double value);
/* Writes 30 equal intervals from the smallest to the largest value; values that are not finite are skipped. */
void mgpu_events_histogram(Events *, const char *group, const char *name, int64_t step, const void *values, uint8_t dtype,
                           int64_t count);
void mgpu_events_step(Events *, const StepReport *, double rate, double wall);
void mgpu_events_values(Events *, const Evaluation *, int64_t step, double wall); /* grouped by split */
void mgpu_events_times(Events *, const EpochTimes *, int64_t step, double wall);
const char *mgpu_events_flush(Events *); /* NULL or an error */
const char *mgpu_events_path(const Events *);
void mgpu_events_close(Events *);
#endif
