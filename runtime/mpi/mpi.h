/* mpi.h: for the files of this folder. processes.c: the processes and what they agree on; roll.c: finds a process that hangs;
 * spanning.c: collectives between processes; calls.c: calls of MPI. */
#ifndef MGPU_RUNTIME_MPI_H
#define MGPU_RUNTIME_MPI_H

#include "runtime/abi/mgpu_mpi.h"
#include "runtime/engine/processes.h"

/* Waits until the channel's operation has completed, which needs the other processes. what: its purpose, for messages. */
void mgpu_mpi_wait(const Processes *, int channel, const char *what);
Collective *mgpu_collective_spanning(const Processes *, const mgpu_plan *, int channel);

/* ---- roll.c */
typedef struct Roll Roll;
Roll *mgpu_roll_open(const Processes *, double patience); /* seconds; 0: unlimited */
void mgpu_roll_close(Roll *, Processes *);  /* collective */
void mgpu_roll_wait(Roll *, int channel, const char *what); /* what: the purpose; NULL: does not wait */
bool mgpu_roll_waits(Roll *, char *text, size_t room); /* see Processes.waits */
void mgpu_roll_watch(Roll *, Where *, const void *engine);
/* Called after a wait that exceeded the patience: finds the culprit; mgpu_roll_judge may end the program. */
bool mgpu_roll_suspect(Roll *, bool busy, char *text, size_t room); /* see Processes.suspect */
void mgpu_roll_judge(Roll *, const char *what, double waited);
#endif
