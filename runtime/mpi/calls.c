/* calls.c: the calls of MPI for processes.c and spanning.c; the only file that is compiled with mpicc. Operations are nonblocking
 * and polled: no call blocks while it holds the lock, so that lanes do not block each other. */
#include "mgpu_mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm comm[MGPU_MPI_CHANNELS];
static MPI_Request request[MGPU_MPI_CHANNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { LISTENERS = 2 };
static MPI_Comm cards;
static MPI_Request sending[LISTENERS] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, receiving = MPI_REQUEST_NULL;
/* [ranks]; in use until a gather has completed */
static int own_rank, ranks, *to_each[MGPU_MPI_CHANNELS], *from_each[MGPU_MPI_CHANNELS], *own_at[MGPU_MPI_CHANNELS];
static char sent[LISTENERS][MGPU_MPI_CARD], received[MGPU_MPI_CARD];

/* Called if the program ends early, as after --help. */
static void end_at_exit(void)
{
    int over;
    MPI_Finalized(&over);
    if (!over)
        MPI_Finalize();
}

static const char *start(int *rank, int *count, char host[MGPU_MPI_HOST])
{
    int provided, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (provided < MPI_THREAD_SERIALIZED)
        return "it takes calls of one thread only (MPI_THREAD_SERIALIZED is needed)";
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, count);
    MPI_Get_processor_name(name, &length);
    for (int i = 0; i < MGPU_MPI_HOST; i++)
        host[i] = i < length && i < MGPU_MPI_HOST - 1 ? name[i] : 0;
    own_rank = *rank;
    ranks = *count;
    for (int i = 0; i < MGPU_MPI_CHANNELS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        to_each[i] = calloc((size_t)ranks, sizeof *to_each[i]);
        from_each[i] = calloc((size_t)ranks, sizeof *from_each[i]);
        own_at[i] = calloc((size_t)ranks, sizeof *own_at[i]);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &cards);
    atexit(end_at_exit);
    return NULL;
}

static void exchange(int channel, const void *from, const int *sent, const int *from_at, void *to, const int *received,
                     const int *to_at)
{
    pthread_mutex_lock(&lock);
    MPI_Ialltoallv(from, sent, from_at, MPI_BYTE, to, received, to_at, MPI_BYTE, comm[channel], &request[channel]);
    pthread_mutex_unlock(&lock);
}

/* Uses an all-to-all in which each process sends the same to all others: over TCP, Open MPI's MPI_Iallgatherv (4.1) transfers
 * large parts in one direction after the other (61 to 69 MB/s each on a link of 125 MB/s), this call in both at once (109 to
 * 120). The send buffer is passed as its second byte with offsets lowered by one, since equal addresses mean MPI_IN_PLACE to Open
 * MPI. */
static void gather(int channel, void *all, const int *bytes, const int *at)
{
    int *to = to_each[channel], *from = from_each[channel], *own = own_at[channel];
    pthread_mutex_lock(&lock);
    for (int r = 0; r < ranks; r++) {
        to[r] = r == own_rank ? 0 : bytes[own_rank];
        from[r] = r == own_rank ? 0 : bytes[r];
        own[r] = at[own_rank] - 1;
    }
    MPI_Ialltoallv((char *)all + 1, to, own, MPI_BYTE, all, from, at, MPI_BYTE, comm[channel], &request[channel]);
    pthread_mutex_unlock(&lock);
}

static void broadcast(int channel, void *data, int bytes)
{
    pthread_mutex_lock(&lock);
    MPI_Ibcast(data, bytes, MPI_BYTE, 0, comm[channel], &request[channel]);
    pthread_mutex_unlock(&lock);
}

static int done(int channel)
{
    int flag;
    pthread_mutex_lock(&lock);
    MPI_Test(&request[channel], &flag, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    return flag;
}

static int send(int to, const void *card, int bytes)
{
    int free;
    pthread_mutex_lock(&lock);
    MPI_Test(&sending[to], &free, MPI_STATUS_IGNORE);
    if (free) {
        memcpy(sent[to], card, (size_t)bytes);
        MPI_Isend(sent[to], bytes, MPI_BYTE, to, 0, cards, &sending[to]);
    }
    pthread_mutex_unlock(&lock);
    return free;
}

static int receive(void *card, int bytes)
{
    int any;
    MPI_Status status;
    pthread_mutex_lock(&lock);
    if (receiving == MPI_REQUEST_NULL)
        MPI_Irecv(received, MGPU_MPI_CARD, MPI_BYTE, MPI_ANY_SOURCE, 0, cards, &receiving);
    MPI_Test(&receiving, &any, &status);
    if (any)
        memcpy(card, received, (size_t)bytes);
    pthread_mutex_unlock(&lock);
    return any ? status.MPI_SOURCE : -1;
}

static void end(void)
{
    pthread_mutex_lock(&lock);
    if (receiving != MPI_REQUEST_NULL) {
        MPI_Cancel(&receiving);
        MPI_Wait(&receiving, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    pthread_mutex_unlock(&lock);
}

/* May be called by any thread at any time: the process ends here. */
static void stop(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const mgpu_mpi_calls mgpu_mpi = {start, exchange, gather, broadcast, done, send, receive, end, stop};
