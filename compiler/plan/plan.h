/* plan.h: a plan: how a program is split over a number of devices. */
#ifndef MGPU_PLAN_PLAN_H
#define MGPU_PLAN_PLAN_H

#include "compiler/ir/graph.h"
#include "compiler/plan/schedule.h"

typedef struct Schedule Schedule;

/* ---- the program */
typedef struct Shard { int64_t first, share, capacity; } Shard; /* samples of a micro-batch; capacity = max(share, 1) */
typedef struct Plan {
    int devices;
    const char *kind;       /* "host", "cuda": of all plans of a program */
    int64_t micro;          /* samples of a full micro-batch, all devices */
    Shard *shards;
    bool always_partial;     /* a device has no share: sums must select in every step */
    Schedule *schedule;
} Plan;
#endif
