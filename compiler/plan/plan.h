/* plan.h: a plan: how a program is split over a number of devices. */
#ifndef MGPU_PLAN_PLAN_H
#define MGPU_PLAN_PLAN_H

#include "compiler/ir/graph.h"
#include "compiler/plan/schedule.h"

typedef struct Schedule Schedule;

/* ---- the program */
typedef mgpu_shard Shard; /* capacity = max(share, 1) */
/* predicted time of a training step; computing, in transfers: of the device that computes longest; from: the basis of the
 * prediction (grounds_text) */
typedef mgpu_prediction Prediction;
typedef struct Plan {
    int nodes, devices; /* devices: of all nodes, which have equal numbers */
    const char *kind;   /* "host", "cuda": the same for all plans of a program */
    int64_t micro;      /* samples of a full micro-batch, of all devices */
    Shard *shards;
    bool always_partial; /* some device has no valid sample, so sums select valid samples in every step */
    Schedule *schedule;
    bool edited;          /* its schedule was read of --schedule */
    Prediction predicted; /* for the program; step_us 0: there is no prediction */
} Plan;
static inline int plan_each(const Plan *p) { return p->devices / p->nodes; }              /* devices of a node */
static inline int plan_place(const Plan *p, int device) { return device % plan_each(p); } /* number of the device in its node */
#endif
