/* durations.h: the machine that a program is planned for, and the cost model's names for transfers of a schedule. */
#ifndef MGPU_PLAN_TIMES_H
#define MGPU_PLAN_TIMES_H

#include "compiler/ir/program.h"
#include "compiler/machine/cost.h"

Processor processor_of(const Program *);
const Machine *machine_of(const Program *);
Collect collect_of(int transfer);                                        /* MGPU_TRANSFER_... */
double kernels_us(const Program *, const Plan *, int64_t micro_batches); /* of a step in so many, without what is recomputed */
/* of the transfers in the file of --measured; NULL: it has none of so many devices */
const TransferFactors *measured_factors(const Program *, int nodes, int devices);
#endif
