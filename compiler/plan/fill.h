/* fill.h: which calls run while others wait for transfers. */
#ifndef MGPU_PLAN_FILL_H
#define MGPU_PLAN_FILL_H

#include "compiler/base/base.h"

typedef struct FillTask {
    const int *before; int before_count; /* the tasks that it must come after, by number; each has a smaller one */
    double us, taken;           /* taken: of a transfer, the share of the SMs that it has meanwhile */
    bool joined;                /* a call that follows the one before it at once */
    bool stays;                 /* a call that comes no earlier: of an update, which shares a launch with later ones */
    bool stops;                 /* a transfer that calls wait for */
} FillTask;
/* changes the order of the calls, which are numbers of tasks; whether any has moved */
bool fill_waits(const FillTask *, int task_count, int *calls, int call_count);
#endif
