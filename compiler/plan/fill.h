/* fill.h: which calls run while others wait for transfers. */
#ifndef MGPU_PLAN_FILL_H
#define MGPU_PLAN_FILL_H

#include "compiler/base/base.h"

typedef struct FillTask {
    const int *before;
    int before_count; /* numbers of the tasks that must precede it, which are less than its own */
    double us, taken; /* taken: the fraction of the SMs that a transfer occupies */
    bool joined;      /* a call that must directly follow the call before it */
    bool stays;       /* a call that must not move forward: of an update, which shares a launch with later ones */
    bool stops;       /* a transfer that calls wait for */
} FillTask;
/* Reorders the calls, which are numbers of tasks; returns true if any call has moved. */
bool fill_waits(const FillTask *, int task_count, int *calls, int call_count);
#endif
