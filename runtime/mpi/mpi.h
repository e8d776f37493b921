/* mpi.h: for the files here. processes.c: who is there, and what they agree on; roll.c: who does not come; spanning.c: transfers between them; calls.c:
 * MPI's own. */
#ifndef MGPU_RUNTIME_MPI_H
#define MGPU_RUNTIME_MPI_H

#include "runtime/abi/mgpu_mpi.h"
#include "runtime/engine/processes.h"

/* until its operation is done, for which the others are needed; what: it is for, in a message */
void mgpu_mpi_wait(const Processes *, int channel, const char *what);
Collective *mgpu_collective_spanning(const Processes *, const mgpu_plan *, int channel);

/* ---- roll.c */
typedef struct Roll Roll;
Roll *mgpu_roll_open(const Processes *, double patience); /* seconds; 0: nobody ever loses patience */
void mgpu_roll_close(Roll *, Processes *);  /* of all processes */
void mgpu_roll_wait(Roll *, int channel, const char *what); /* NULL: it does not wait any more */
bool mgpu_roll_waits(Roll *, char *text, size_t room); /* as Processes.waits */
void mgpu_roll_watch(Roll *, Where *, const void *engine);
/* of who has waited longer than the patience; ends the program if it is this process's to say why */
bool mgpu_roll_suspect(Roll *, bool busy, char *text, size_t room); /* as Processes.suspect */
void mgpu_roll_judge(Roll *, const char *what, double waited);
#endif
