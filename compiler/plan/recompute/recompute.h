/* recompute.h: which temporaries are computed again in the backward pass rather than kept. */
#ifndef MGPU_PLAN_RECOMPUTE_H
#define MGPU_PLAN_RECOMPUTE_H

#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/plan.h"

typedef struct Recomputed {
    int tensors;                        /* that are dropped; one that is dropped twice counts twice */
    int64_t peak_before, peak, least;   /* bytes of temporaries that are alive at once, of a device; that one task needs at least */
    double flops_before, flops, us_before, us; /* of the phase, by the cost model */
    DroppedLayer *layers; int layer_count;     /* as Dropped has them */
} Recomputed;

/* what is known of a phase before any limit is tried: its order by the schedule, which takes longest to find. Of a device with so many samples */
typedef struct Recomputable Recomputable;
Recomputable *recomputable(const Program *, const Plan *, const Phase *, int64_t samples);

/* the phase with at most `limit` bytes of temporaries alive, or as near to that as it gets. Weights that are gathered for each use are not
 * counted: gather_weights makes of the phase that comes out one that gathers what is recomputed, too */
Phase *recompute(const Recomputable *, int64_t limit, Recomputed *);
#endif
