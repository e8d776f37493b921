/* clock.h: what the steps of a run take on each device, what they are bound by, and what is slower than it should be. */
#ifndef MGPU_RUN_CLOCK_H
#define MGPU_RUN_CLOCK_H

#include "runtime/engine/engine.h"

typedef struct StepClock StepClock;
typedef struct EpochTimes {    /* medians over the last steps of an epoch, in milliseconds; NaN: not known */
    double step, computing;    /* of the device that computes longest */
    double input;              /* the device that waits longest for its samples */
    double communication;      /* waits in transfers, of the device that waits least: the others wait for it, too */
    char bound[24];            /* what most of the step goes to, in the words of `mgpuc plan`; "" : not known */
} EpochTimes;
typedef struct Notice { const char *kind; char *text; } Notice; /* "device", "reader", "link"; the caller frees the text */

/* of so many of the plan's devices from the first on; turns: these share cores, one after the other */
StepClock *mgpu_clock_open(const mgpu_plan *, int first, int devices, bool ahead, bool turns);
void mgpu_clock_close(StepClock *);
void mgpu_clock_add(StepClock *, const Work *);        /* a micro-batch of the step */
/* the step is over, which took so long. True: something is slow that was not spoken of before; of several processes not links, which one of
 * them alone cannot tell from another that comes late */
bool mgpu_clock_step(StepClock *, double seconds, Notice *);
bool mgpu_clock_links(StepClock *, Notice *);          /* links are slow, if no process is; once */
EpochTimes mgpu_clock_epoch(StepClock *);              /* of the steps since the last call */
#endif
