/* mpi.h: for the files here. processes.c: who is there, and what they agree on; spanning.c: transfers between them; calls.c: MPI's own. */
#ifndef MGPU_RUNTIME_MPI_H
#define MGPU_RUNTIME_MPI_H

#include "runtime/abi/mgpu_mpi.h"
#include "runtime/engine/processes.h"

/* until its operation is done, for which the others are needed; what: it is for, in a message */
void mgpu_mpi_wait(const Processes *, int channel, const char *what);
Collective *mgpu_collective_spanning(const Processes *, const mgpu_plan *, int channel);
#endif
