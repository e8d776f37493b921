/* gather.h: weights that devices hold in parts, all-gathered for each of their uses. */
#ifndef MGPU_PLAN_GATHER_H
#define MGPU_PLAN_GATHER_H

#include "compiler/kernel/phase.h"

/* Returns the phase with one all-gather of a weight per use. */
Phase *gather_weights(Phase *);
/* Returns that phase with some weights kept whole from one use to the next: those that are used again soonest, up to this share
 * of the bytes that would be gathered again. */
Phase *reuse_gathered(Phase *, double share);
/* Returns, by tensor, the variable that it is gathered from; NULL: none. */
const Tensor **gathered_variables(const Phase *);
#endif
