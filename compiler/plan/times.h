/* times.h: which machine a program is planned for, and what the cost model calls a transfer of the schedule. */
#ifndef MGPU_PLAN_TIMES_H
#define MGPU_PLAN_TIMES_H

#include "compiler/ir/program.h"
#include "compiler/machine/cost.h"

Processor processor_of(const Program *);
const Machine *machine_of(const Program *);
Collect collect_of(int transfer); /* MGPU_TRANSFER_... */
const TransferFactors *measured_factors(const Program *, int nodes, int devices); /* of the transfers in the file of --measured; NULL: it has none of so many devices */
#endif
