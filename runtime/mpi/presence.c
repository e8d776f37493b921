/* presence.c: exchanges what each process is doing, so that a waiting process can report which one it waits for.
 *
 * Each process has a thread that periodically tells ranks 0 and 1 whether it waits for the others, computes, or does something
 * between steps. With two listeners, one can report the other. A process that has waited longer than MGPU_PATIENCE looks for one
 * that has been silent (it is stopped or unreachable), or else for one that does not wait. Rank 0 names it and ends the program;
 * if it is rank 0, rank 1 does. If neither does, the others end themselves. */
#include "runtime/engine/ticker.h"
#include "runtime/mpi/mpi.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LISTENERS = 2, TEXT = 320, SILENT_TICKS = 4 };
static const double LONGEST_TICK_S = 5, TICKS = 16;

typedef struct RankState {
    int waits;
    char host[96], at[TEXT];
} RankState;
_Static_assert(sizeof(RankState) <= MGPU_MPI_CARD, "a message holds a card");

struct Presence {
    const Processes *processes;
    double patience; /* in seconds */
    Ticker *ticker;
    pthread_mutex_t lock;                 /* protects the members below */
    const char *waits[MGPU_MPI_CHANNELS]; /* purpose of the wait, or NULL */
    Where *where;
    const void *engine;
    RankState *states;                 /* of listeners, by rank */
    int64_t sent[LISTENERS], received; /* numbers of messages */
    int64_t *last_tick, ticks;         /* last_tick: tick of each rank's last card; ticks: counted while this process runs */
};

/* Prints what some thread does before there is an engine. */
static void say_doing(char text[TEXT])
{
    bool any;
    char *all;
    size_t length;
    FILE *to = mgpu_begin_text(&all, &length);
    mgpu_doings(to, "", &any);
    mgpu_end_text(to);
    const char *first = all + strspn(all, " ");
    if (any)
        snprintf(text, TEXT, "%.*s", (int)strcspn(first, "\n"), first);
    free(all);
}

/* Describes what this process does: the operations of its lanes, or what its main thread waits for. */
static RankState own_state(const Presence *r)
{
    RankState c = {0};
    char at[TEXT] = "before the first step";
    if (!r->where)
        say_doing(at);
    Whereabouts lanes = r->where ? r->where(r->engine, at, sizeof at) : WHERE_AFTER;
    const char *what = NULL;
    for (int i = 0; i < MGPU_MPI_CHANNELS; i++)
        what = r->waits[i] ? r->waits[i] : what;
    c.waits = what && lanes != WHERE_WORKS;
    snprintf(c.host, sizeof c.host, "%s", r->processes->host);
    snprintf(c.at, sizeof c.at, "%s%s%s", lanes == WHERE_AFTER && what ? what : "", lanes == WHERE_AFTER && what ? ", " : "", at);
    return c;
}

static void tick(void *context)
{
    Presence *r = context;
    RankState card;
    int from;
    pthread_mutex_lock(&r->lock);
    r->ticks++;
    for (int to = 0; to < LISTENERS && to < r->processes->count; to++)
        if (to != r->processes->rank) {
            card = own_state(r);
            r->sent[to] += mgpu_mpi.send(to, &card, sizeof card);
        }
    for (; r->states && (from = mgpu_mpi.receive(&card, sizeof card)) >= 0; r->received++) {
        card.host[sizeof card.host - 1] = card.at[sizeof card.at - 1] = 0;
        r->states[from] = card;
        r->last_tick[from] = r->ticks;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Returns the first other process that is silent, else the first that does not wait, or -1. */
static int culprit(const Presence *r, bool *silent)
{
    int busy = -1;
    for (int k = 0; k < r->processes->count; k++) {
        if (k == r->processes->rank)
            continue;
        *silent = r->ticks - r->last_tick[k] >= SILENT_TICKS;
        if (*silent)
            return k;
        busy = busy < 0 && !r->states[k].waits ? k : busy;
    }
    return busy;
}

static _Noreturn void name(const Presence *r, int rank, bool silent, double waited)
{
    RankState own = own_state(r), *its = &r->states[rank];
    if (silent)
        mgpu_fail(
            MGPU_MACHINE_FAILED,
            "%s: rank %d on %s has said nothing for %g s, so it hangs or cannot be reached; when it last did it was at: %s. MGPU_PATIENCE=%g waits twice as long, off for ever",
            own.at, rank, its->host, waited, its->at, 2 * r->patience);
    mgpu_fail(MGPU_MACHINE_FAILED,
              "%s: rank %d on %s has not come to it for %g s: it is at: %s. MGPU_PATIENCE=%g waits twice as long, off for ever",
              own.at, rank, its->host, waited, its->at, 2 * r->patience);
}

bool mgpu_presence_find_culprit(Presence *r, bool busy, char *text, size_t capacity)
{
    bool silent = false;
    pthread_mutex_lock(&r->lock);
    int who = r->states ? culprit(r, &silent) : -1;
    busy = busy && who >= 0 && !silent && own_state(r).waits;
    if (busy)
        snprintf(text, capacity, "rank %d on %s has not come to it: it is at: %s", who, r->states[who].host, r->states[who].at);
    if (silent)
        snprintf(text, capacity,
                 "rank %d on %s has said nothing for a while, so it hangs or cannot be reached; when it last did it was at: %s",
                 who, r->states[who].host, r->states[who].at);
    pthread_mutex_unlock(&r->lock);
    return silent || busy;
}

void mgpu_presence_end_if_hung(Presence *r, const char *what, double waited)
{
    bool silent = false, listens = r->states != NULL, last = waited > 2 * r->patience;
    pthread_mutex_lock(&r->lock); /* not released by a process that ends the program */
    int who = listens ? culprit(r, &silent) : -1;
    if (who >= 0 && (r->processes->rank == 0 || who == 0 || last))
        name(r, who, silent, waited);
    if (who < 0 && (last || (listens && r->processes->rank == 0)))
        mgpu_fail(
            MGPU_MACHINE_FAILED,
            "%s: nothing has come from the other processes for %g s, and all of them wait; MGPU_PATIENCE=%g waits twice as long, off for ever",
            what, waited, 2 * r->patience);
    pthread_mutex_unlock(&r->lock);
}

void mgpu_presence_set_wait(Presence *r, int channel, const char *what)
{
    pthread_mutex_lock(&r->lock);
    r->waits[channel] = what;
    pthread_mutex_unlock(&r->lock);
}

bool mgpu_presence_describe_wait(Presence *r, char *text, size_t capacity)
{
    pthread_mutex_lock(&r->lock);
    const char *what = r->waits[MGPU_MPI_RUN] ? r->waits[MGPU_MPI_RUN] : r->waits[MGPU_MPI_SAVE];
    if (what)
        snprintf(text, capacity, "the other processes are waited for: %s", what);
    pthread_mutex_unlock(&r->lock);
    return what != NULL;
}

void mgpu_presence_watch(Presence *r, Where *where, const void *engine)
{
    pthread_mutex_lock(&r->lock);
    r->where = where;
    r->engine = engine;
    pthread_mutex_unlock(&r->lock);
}

/* Blocks signals in the new thread: the run has a thread for them (runtime/run/signals.c). */
Presence *mgpu_presence_open(const Processes *p, double patience)
{
    Presence *r = mgpu_allocate(1, sizeof *r);
    sigset_t all, before;
    *r = (Presence){.processes = p, .patience = patience};
    pthread_mutex_init(&r->lock, NULL);
    if (p->rank < LISTENERS) {
        r->states = mgpu_allocate((size_t)p->count, sizeof *r->states);
        r->last_tick = mgpu_allocate((size_t)p->count, sizeof *r->last_tick);
        for (int k = 0; k < p->count; k++) {
            strcpy(r->states[k].host, "an unknown host");
            strcpy(r->states[k].at, "its start");
        }
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (patience > 0)
        tick(r); /* so that its host is known from the start */
    if (patience > 0)
        r->ticker = mgpu_ticker_open("roll", patience / TICKS < LONGEST_TICK_S ? patience / TICKS : LONGEST_TICK_S, tick, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* Receives the remaining messages, because some MPIs warn of them at the end. */
static void receive_rest(Presence *r, Processes *p)
{
    typedef int64_t Sent[LISTENERS];
    Sent *all = mgpu_allocate((size_t)p->count, sizeof *all);
    int64_t sum = 0;
    RankState card;
    memcpy(all[p->rank], r->sent, sizeof r->sent);
    mgpu_gather_each(p, all, sizeof *all);
    for (int k = 0; k < p->count && r->states; k++)
        sum += all[k][p->rank];
    while (r->received < sum)
        r->received += mgpu_mpi.receive(&card, sizeof card) >= 0;
    free(all);
}

void mgpu_presence_close(Presence *r, Processes *p)
{
    mgpu_ticker_close(r->ticker);
    receive_rest(r, p);
    pthread_mutex_destroy(&r->lock);
    free(r->states);
    free(r->last_tick);
    free(r);
}
