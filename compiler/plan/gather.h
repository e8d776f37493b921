/* gather.h: weights that devices hold in parts, gathered for each of their uses. */
#ifndef MGPU_PLAN_GATHER_H
#define MGPU_PLAN_GATHER_H

#include "compiler/kernel/phase.h"

/* the phase, with as many gathers of each weight as it has uses */
Phase *gather_weights(Phase *);
/* the phase that that has made, in which weights stay whole from one use to the next, where they are used again soonest: as many as have
 * at most this share of the bytes that are gathered anew */
Phase *keep_gathered(Phase *, double share);
/* by tensor: the variable that it is gathered from; NULL: none */
const Tensor **gathered_variables(const Phase *);
#endif
