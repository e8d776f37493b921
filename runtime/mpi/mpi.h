/* mpi.h: for the files of this folder. processes.c: the processes and what they agree on; presence.c: finds a process that hangs;
 * spanning.c: collectives between processes; calls.c: calls of MPI. */
#ifndef MGPU_RUNTIME_MPI_H
#define MGPU_RUNTIME_MPI_H

#include "runtime/abi/mgpu_mpi.h"
#include "runtime/engine/processes.h"

/* Waits until the channel's operation has completed, which needs the other processes. what: its purpose, for messages. */
void mgpu_mpi_wait(const Processes *, int channel, const char *what);
Collective *mgpu_collective_spanning(const Processes *, const mgpu_plan *, int channel);

/* ---- presence.c */
typedef struct Presence Presence;
Presence *mgpu_presence_open(const Processes *, double patience);          /* seconds; 0: unlimited */
void mgpu_presence_close(Presence *, Processes *);                         /* collective */
void mgpu_presence_set_wait(Presence *, int channel, const char *what);    /* what: the purpose; NULL: does not wait */
bool mgpu_presence_describe_wait(Presence *, char *text, size_t capacity); /* see Processes.waits */
void mgpu_presence_watch(Presence *, Where *, const void *engine);
/* Called after a wait that exceeded the patience: finds the culprit; mgpu_presence_end_if_hung may end the program. */
bool mgpu_presence_find_culprit(Presence *, bool busy, char *text, size_t capacity); /* see Processes.find_culprit */
void mgpu_presence_end_if_hung(Presence *, const char *what, double waited);
#endif
