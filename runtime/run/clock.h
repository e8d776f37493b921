/* clock.h: measures what the steps of a run take on each device, finds what bounds them, and notices what is too slow. */
#ifndef MGPU_RUN_CLOCK_H
#define MGPU_RUN_CLOCK_H

#include "runtime/engine/engine.h"

typedef struct StepClock StepClock;
typedef struct EpochTimes { /* medians over the last steps of an epoch in milliseconds; NaN if unknown */
    double step, computing; /* times of the device that computes longest */
    double input;           /* wait of the device that waits longest for its samples */
    double communication;   /* wait in transfers of the device that waits least, since the others wait for it */
    char bound[24];         /* what most of the step is spent on, in the words of `mgpuc plan`; "" if unknown */
} EpochTimes;
typedef struct Notice {
    const char *kind;
    char *text;
} Notice; /* "device", "reader", "link"; the caller frees the text */

/* For `devices` of the plan's devices from `first` on. turns: they take turns on the same cores. */
StepClock *mgpu_clock_open(const mgpu_plan *, int first, int devices, bool ahead, bool turns);
void mgpu_clock_close(StepClock *);
void mgpu_clock_add(StepClock *, const Work *); /* a micro-batch of the step */
/* Ends a step. Returns true if something is slow that has not been reported. With several processes it does not report links,
 * since one process cannot tell a slow link from a late peer. */
bool mgpu_clock_step(StepClock *, double seconds, Notice *);
bool mgpu_clock_links(StepClock *, Notice *); /* reports slow links once, if no process is slow */
EpochTimes mgpu_clock_epoch(StepClock *);     /* medians of the steps since the last call */
#endif
