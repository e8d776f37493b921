/* gather.h: weights that devices hold in parts, gathered for each of their uses. */
#ifndef MGPU_PLAN_GATHER_H
#define MGPU_PLAN_GATHER_H

#include "compiler/kernel/phase.h"

/* the phase, with as many gathers of each weight as it has uses */
Phase *gather_weights(Phase *);
#endif
