/* recompute.h: which temporaries are rematerialized in the backward pass rather than kept. */
#ifndef MGPU_PLAN_RECOMPUTE_H
#define MGPU_PLAN_RECOMPUTE_H

#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/plan.h"

typedef struct Recomputed {
    int tensors; /* dropped tensors; one that is dropped twice counts twice */
    /* bytes of temporaries that are alive at once on a device: before, after, and the least that one task needs */
    int64_t peak_before, peak, least;
    double flops_before, flops, us_before, us; /* of the phase, by the cost model */
    DroppedLayer *layers;
    int layer_count; /* in the order of Dropped */
} Recomputed;

/* What is known of a phase before any limit is tried: mainly the order of its schedule, which takes longest to find, on a device
 * with so many samples. */
typedef struct Recomputable Recomputable;
Recomputable *recomputable(const Program *, const Plan *, const Phase *, int64_t samples);

/* Returns the phase with at most `limit` bytes of temporaries alive, or as near to that as possible. Weights that are gathered
 * for each use are not counted: gather_weights is applied to the returned phase, and gathers for recomputed values, too. */
Phase *recompute(const Recomputable *, int64_t limit, Recomputed *);
#endif
