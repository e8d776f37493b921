/* plan.h: a plan: how a program is split over a number of devices. */
#ifndef MGPU_PLAN_PLAN_H
#define MGPU_PLAN_PLAN_H

#include "compiler/ir/graph.h"
#include "compiler/plan/schedule.h"

typedef struct Schedule Schedule;

/* ---- the program */
typedef mgpu_shard Shard; /* capacity = max(share, 1) */
/* of a training step; computing, in transfers: the device that computes longest; from: how sure it is (grounds_text) */
typedef mgpu_prediction Prediction;
typedef struct Plan {
    int nodes, devices;     /* devices: of all nodes, equally many each */
    const char *kind;       /* "host", "cuda": of all plans of a program */
    int64_t micro;          /* samples of a full micro-batch, all devices */
    Shard *shards;
    bool always_partial;     /* a device has no share: sums must select in every step */
    Schedule *schedule;
    Prediction predicted;    /* for the program; step_us 0: nothing is */
} Plan;
static inline int plan_each(const Plan *p) { return p->devices / p->nodes; }                /* devices of a node */
static inline int plan_place(const Plan *p, int device) { return device % plan_each(p); } /* its number in its node */
#endif
