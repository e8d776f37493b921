/* mpi.h: for the files here. processes.c: who is there, and what they agree on; spanning.c: transfers between them; calls.c: MPI's own. */
#ifndef MGPU_RUNTIME_MPI_H
#define MGPU_RUNTIME_MPI_H

#include "runtime/abi/mgpu_mpi.h"
#include "runtime/engine/processes.h"

void mgpu_mpi_wait(int channel); /* until its operation is done */
Collective *mgpu_collective_spanning(const Processes *, const mgpu_plan *, int channel);
#endif
