/* mgpu_mpi.h: what a program uses of MPI. mgpuc --mpi compiles runtime/mpi/calls.c by the mpicc that it finds; each MPI has its
 * own types, so none of them appears here. One thread at a time is inside MPI. */
#ifndef MGPU_MPI_H
#define MGPU_MPI_H

/* Each channel has its own communicator, and one operation at a time, which `done` ends. */
enum { MGPU_MPI_SAVE, MGPU_MPI_COMM, MGPU_MPI_SYNC, MGPU_MPI_RUN, MGPU_MPI_CHANNELS };
enum { MGPU_MPI_HOST = 256, MGPU_MPI_CARD = 1024 /* most bytes of a message of `send` */ };
typedef struct mgpu_mpi_calls {
    const char *(*start)(int *rank, int *count, char host[MGPU_MPI_HOST]); /* NULL, or what MPI lacks */
    /* Sizes and offsets in bytes, by rank. exchange: all-to-all; gather: all-gather; broadcast: from rank 0. */
    void (*exchange)(int channel, const void *from, const int *sent, const int *from_at, void *to, const int *received,
                     const int *to_at);
    void (*gather)(int channel, void *all, const int *bytes, const int *at); /* a rank's own part is in place */
    void (*broadcast)(int channel, void *data, int bytes);
    int (*done)(int channel);
    /* Small messages that need not be received: one is not sent while an earlier one to the same rank is in flight. tell returns
     * 0 or 1: */
    int (*send)(int to, const void *card, int bytes); /* the number of messages sent */
    int (*receive)(void *card, int bytes);            /* the sender, or -1 if there is none; `bytes` is always the same */
    void (*end)(void);
    void (*abort)(int status);
} mgpu_mpi_calls;
extern const mgpu_mpi_calls mgpu_mpi;
#endif
