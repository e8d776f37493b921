/* events.h: event files of TensorBoard: a scalar is a name, a step and a number. */
#ifndef MGPU_RUN_EVENTS_H
#define MGPU_RUN_EVENTS_H

#include "runtime/base/base.h"

#include "runtime/run/commands.h"

typedef struct Events Events;
Events *mgpu_events_open(const char *folder);  /* made if it is not there; ends the program if it cannot be written */
/* at a step; wall: seconds since 1970. Numbers that are NaN are left out */
void mgpu_events_scalar(Events *, const char *group, const char *name, int64_t step, double wall, double value);
/* of floats: 30 equal intervals from the least to the largest value; values that are not finite are left out */
void mgpu_events_histogram(Events *, const char *group, const char *name, int64_t step, const void *values, uint8_t dtype, int64_t count);
void mgpu_events_step(Events *, const StepReport *, double rate, double wall);
void mgpu_events_values(Events *, const Evaluation *, int64_t step, double wall); /* under its split */
void mgpu_events_times(Events *, const EpochTimes *, int64_t step, double wall);
const char *mgpu_events_flush(Events *);       /* NULL, or why what was added cannot be written */
const char *mgpu_events_path(const Events *);
void mgpu_events_close(Events *);
#endif
