/* mgpu_mpi.h: what a program needs of MPI. mgpuc --mpi compiles runtime/mpi/calls.c by the mpicc that it finds: each MPI has types of its
 * own, so none of them is seen here. One thread at a time is inside MPI. */
#ifndef MGPU_MPI_H
#define MGPU_MPI_H

/* each has a communicator of its own, and one operation at a time, which `done` ends */
enum { MGPU_MPI_SAVE, MGPU_MPI_COMM, MGPU_MPI_SYNC, MGPU_MPI_RUN, MGPU_MPI_CHANNELS };
enum { MGPU_MPI_HOST = 256, MGPU_MPI_CARD = 1024 /* bytes of a message of `tell`, at most */ };
typedef struct mgpu_mpi_calls {
    const char *(*start)(int *rank, int *count, char host[MGPU_MPI_HOST]); /* NULL, or what MPI lacks */
    /* sizes and places in bytes, by rank: a part for each, and one from each; what each has, to all; what rank 0 has, to all */
    void (*exchange)(int channel, const void *from, const int *sent, const int *from_at, void *to, const int *received, const int *to_at);
    void (*gather)(int channel, void *all, const int *bytes, const int *at); /* a rank's own part is in place */
    void (*broadcast)(int channel, void *data, int bytes);
    int (*done)(int channel);
    /* small messages that nobody has to take: a later one is not sent while an earlier one to the same rank, 0 or 1, is under way */
    int (*tell)(int to, const void *card, int bytes); /* how many were sent: 0 or 1 */
    int (*hear)(void *card, int bytes); /* whose; -1: there is none. Always of as many bytes */
    void (*end)(void);
    void (*abort)(int status);
} mgpu_mpi_calls;
extern const mgpu_mpi_calls mgpu_mpi;
#endif
