/* processes.c: the processes of mpirun or srun: who they are, what rank 0 decides, and whether all run the same program.
 *
 * Only rank 0 prints; the others print errors, with their rank and host. Whatever depends on time, signals or rank 0's files is
 * decided by rank 0 and followed by all, so that all post the same steps. */
#include "runtime/engine/engine.h"
#include "runtime/mpi/mpi.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Mpi {
    Processes processes;
    char host[MGPU_MPI_HOST], speaker[MGPU_MPI_HOST + 40];
    double patience; /* in seconds; 0: unlimited */
    Presence *presence;
} Mpi;

/* The first tests follow each other directly, since most operations complete soon. Later ones sleep in between, for a fraction of
 * the time waited so far, to leave the core to workers. A nap that took too long does not count: all processes were stopped. */
void mgpu_mpi_wait(const Processes *p, int channel, const char *what)
{
    enum { AT_ONCE = 200, PART = 16 };
    const double shortest = 20e-6, longest = 150e-6, pause = .01;
    const Mpi *m = (const Mpi *)p;
    double waited = 0, judged = m->patience;
    for (int i = 0; !mgpu_mpi.done(channel); i++) {
        if (i < AT_ONCE)
            continue;
        if (i == AT_ONCE)
            mgpu_presence_set_wait(m->presence, channel, what);
        double began = mgpu_seconds();
        double nap = fmin(fmax(waited / PART, shortest), longest);
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * nap)}, NULL);
        waited += fmin(mgpu_seconds() - began, pause);
        if (m->patience > 0 && waited > judged) {
            mgpu_presence_end_if_hung(m->presence, what, waited);
            judged = waited + pause;
        }
    }
    mgpu_presence_set_wait(m->presence, channel, NULL);
}

static int follow(Processes *p, int value)
{
    mgpu_mpi.broadcast(MGPU_MPI_RUN, &value, sizeof value);
    mgpu_mpi_wait(p, MGPU_MPI_RUN, "what rank 0 decides");
    return value;
}

/* Brings each process's data, `own`, to all or to rank 0, in rounds whose bytes fit an int. all: NULL if nothing is received. */
static void bring(Processes *p, const uint8_t *own, uint8_t *all, const int64_t *at, bool to_all)
{
    enum { MOST = 1 << 28 };
    int64_t most = MOST / p->count, rounds = 0;
    int *bytes = mgpu_allocate((size_t)p->count, sizeof *bytes), *place = mgpu_allocate((size_t)p->count, sizeof *place);
    for (int r = 0; r < p->count; r++)
        rounds = (at[r + 1] - at[r] + most - 1) / most > rounds ? (at[r + 1] - at[r] + most - 1) / most : rounds;
    uint8_t *capacity = mgpu_allocate(1, (size_t)(!all ? 1 : rounds > 1 ? most * p->count : at[p->count] + 1));
    int *none = mgpu_allocate((size_t)p->count, sizeof *none), *sent = mgpu_allocate((size_t)p->count, sizeof *sent);
    for (int64_t k = 0; k < rounds; k++) {
        int sum = 0;
        for (int r = 0; r < p->count; r++, sum += bytes[r - 1]) {
            int64_t left = at[r + 1] - at[r] - k * most;
            bytes[r] = (int)(left < 0 ? 0 : left < most ? left : most);
            place[r] = sum;
        }
        sent[0] = bytes[p->rank];
        if (to_all)
            memcpy(capacity + place[p->rank], own + k * most, (size_t)bytes[p->rank]);
        if (to_all)
            mgpu_mpi.gather(MGPU_MPI_RUN, capacity, bytes, place);
        else
            mgpu_mpi.exchange(MGPU_MPI_RUN, own + k * most, sent, none, capacity, all ? bytes : none, place);
        mgpu_mpi_wait(p, MGPU_MPI_RUN, "what each process has");
        for (int r = 0; r < p->count && all; r++)
            memcpy(all + at[r] + k * most, capacity + place[r], (size_t)bytes[r]);
    }
    free(sent);
    free(none);
    free(capacity);
    free(place);
    free(bytes);
}

static void gather(Processes *p, void *all, const int64_t *at) { bring(p, (uint8_t *)all + at[p->rank], all, at, true); }
static void collect(Processes *p, const void *own, void *all, const int64_t *at)
{
    bring(p, own, p->rank ? NULL : all, at, false);
}

static void exchange(Processes *p, const void *from, const int *sent, const int *from_at, void *to, const int *received,
                     const int *to_at)
{
    mgpu_mpi.exchange(MGPU_MPI_SAVE, from, sent, from_at, to, received, to_at);
    mgpu_mpi_wait(p, MGPU_MPI_SAVE, "parts of a save");
}

/* Rank 0 reports the first rank that differs, which ends the others. */
static void compare(Processes *p, const char *what, const char *cure, uint64_t digest)
{
    typedef struct RankIdentity {
        uint64_t digest;
        char host[MGPU_MPI_HOST];
    } RankIdentity;
    RankIdentity *cards = mgpu_allocate((size_t)p->count, sizeof *cards);
    cards[p->rank].digest = digest;
    snprintf(cards[p->rank].host, sizeof cards->host, "%s", p->host);
    mgpu_gather_each(p, cards, sizeof *cards);
    for (int r = 1; r < p->count; r++) {
        while (cards[r].digest != cards[0].digest && p->rank)
            pause();
        if (cards[r].digest != cards[0].digest)
            mgpu_fail(MGPU_MACHINE_FAILED, "rank %d on %s has %s than rank 0 on %s; %s", r, cards[r].host, what, cards[0].host,
                      cure);
    }
    free(cards);
}

/* ---- checks of the plan */
/* Returns the smallest number of devices of a plan that has one for each process, or 0. */
static int devices_for(const Processes *p, const mgpu_program *program)
{
    int least = 0;
    for (int i = 0; i < program->plan_count; i++) {
        int devices = program->plans[i].devices;
        if (devices >= p->count && (!least || devices < least))
            least = devices;
    }
    return least;
}

static void check(const Processes *p, const mgpu_program *program, const mgpu_plan *plan)
{
    if (p->count > plan->devices) {
        int enough = devices_for(p, program);
        char *cure = enough ? mgpu_format("run with --devices %d", enough)
                            : mgpu_format("compile with --devices %s:%d", plan->kind, p->count);
        mgpu_fail(MGPU_BAD_USAGE, "%d processes share %d device%s, and each needs one; %s, or start with mpirun -n %d", p->count,
                  plan->devices, plan->devices == 1 ? "" : "s", cure, plan->devices);
    }
    if (program->unsaved)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "several processes train one model, and by --plan %s each device has its own (%s); leave it out, or start one process",
            program->policy, program->policy_label);
}

static Collective *connect(Processes *p, const mgpu_plan *plan, int lane)
{
    return mgpu_collective_spanning(p, plan, lane == MGPU_SYNC ? MGPU_MPI_SYNC : MGPU_MPI_COMM);
}

static bool find_culprit(const Processes *p, bool busy, char *text, size_t capacity)
{
    return mgpu_presence_find_culprit(((const Mpi *)p)->presence, busy, text, capacity);
}
static bool waits(const Processes *p, char *text, size_t capacity)
{
    return mgpu_presence_describe_wait(((const Mpi *)p)->presence, text, capacity);
}
static void watch(Processes *p, Where *where, const void *engine) { mgpu_presence_watch(((Mpi *)p)->presence, where, engine); }

static void close_processes(Processes *p)
{
    Presence *roll = ((Mpi *)p)->presence;
    if (roll)
        mgpu_presence_close(roll, p);
    mgpu_mpi.end();
    mgpu_speak_as(NULL, true, NULL);
    free(p);
}

/* ---- the start */
/* Returns how many processes the launcher has started, or 0 without a launcher, which MPI would take long to find out. Some
 * schedulers' launchers only set ranks. */
static int launched(void)
{
    static const char *const COUNTS[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, *const RANKS[] = {
                                                                                                          "PMIX_RANK", "PMI_RANK",
                                                                                                          "PMI_FD"};
    int most = 0;
    for (int i = 0; i < MGPU_COUNT(COUNTS); i++) {
        const char *count = getenv(COUNTS[i]);
        if (count && atoi(count) > most)
            most = atoi(count);
    }
    for (int i = 0; i < MGPU_COUNT(RANKS); i++)
        if (getenv(RANKS[i]) && !most)
            most = 1;
    return most;
}

/* Starts MPI with signals blocked, so that its threads leave them to the run's own (runtime/run/signals.c). */
static const char *start(Mpi *m)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const char *lacks = mgpu_mpi.start(&m->processes.rank, &m->processes.count, m->host);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return lacks;
}

static void silence(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "/dev/null cannot be opened");
    close(nowhere);
}

Processes *mgpu_mpi_processes(void)
{
    int started = launched();
    if (!started)
        return NULL;
    Mpi *m = mgpu_allocate(1, sizeof *m);
    const char *lacks = start(m);
    if (lacks)
        mgpu_fail(MGPU_MACHINE_FAILED, "this MPI cannot be used: %s", lacks);
    Processes *p = &m->processes;
    if (p->count == 1 && started > 1)
        mgpu_fail(
            MGPU_MACHINE_FAILED,
            "%d processes were started, and none sees the others: they were started by another MPI than the one that the program is linked with; use its mpirun, "
            "or what srun --mpi=list says, or compile again with MPICC",
            started);
    if (p->count == 1) {
        close_processes(p);
        return NULL;
    }
    *p = (Processes){.rank = p->rank,
                     .count = p->count,
                     .host = m->host,
                     .check = check,
                     .connect = connect,
                     .follow = follow,
                     .compare = compare,
                     .gather = gather,
                     .collect = collect,
                     .exchange = exchange,
                     .watch = watch,
                     .find_culprit = find_culprit,
                     .waits = waits,
                     .close = close_processes};
    snprintf(m->speaker, sizeof m->speaker, "rank %d on %s: ", p->rank, m->host);
    mgpu_speak_as(m->speaker, p->rank == 0, mgpu_mpi.abort);
    m->patience = mgpu_patience();
    m->presence = mgpu_presence_open(p, m->patience);
    if (p->rank)
        silence();
    return p;
}
