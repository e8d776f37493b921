/* pool.c: a thread pool and its barrier.
 *
 * A run is announced by the number of the round. Each thread publishes its progress in a cache line of its own, and thread 0 is
 * the only one that reads all of them, so a barrier costs two cache lines per thread. Waiting threads spin first, since rounds
 * follow within microseconds, and then sleep (counter.c).
 *
 * Threads with a core each stay there, where their data is. If another program uses the core, too, a thread loses it for
 * milliseconds in the middle of its work, and all others wait. So a waiting thread reads the CPU time of the thread that it waits
 * for. If that stands still, the thread is moved to the core of the waiting one, which sleeps. After some time it goes back.
 * Results do not depend on where a thread runs. bn_cnn on one device with two threads, two cores, ms per step, pinned and moved:
 * with one busy program of another session 112 and 79, with two 158 and 106; with one of the same session 96 and 79, with two 105
 * and 85; on an otherwise idle machine both are equal. */
#include "runtime/base/base.h"
#include "runtime/engine/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SPINS_EXCLUSIVE = 5000,
    SPINS_SHARED = 50,
    CHECK_SPINS = 1000 /* spins between two looks at the CPU time: 50 to 100 us */
};
/* How long a thread stays on another's core: twice as long as before if it is moved again soon after its return. So a program
 * that runs only for a moment costs little, and the scheduler has time to arrange programs that go on. */
static const double FIRST_STAY_S = 2e-3, LONGEST_STAY_S = 0.2, SOON = 10 /* times the last stay */;

typedef struct PoolMember {
    Counter arrived; /* barriers and rounds that this thread has reached */
    ThreadPool *pool;
    int number, core;        /* core: -1: not pinned */
    int64_t count;           /* the thread's own copy of `arrived` */
    pthread_t started, self; /* the same thread, written by the thread that opens the pool and by the thread itself */
    clockid_t clock;         /* of its CPU time; thread 0 sets it and `self` in the first run */
    double moved, returned;  /* seconds: when it noticed that it was moved (0: it is on its own core); when it returned */
    double stay;             /* seconds to stay away */
    _Atomic(struct PoolMember *) on_core_of; /* the thread whose core it was moved to; NULL: it is on its own */
    _Atomic int moved_here;                  /* threads that were moved to its core */
    _Atomic bool busy;                       /* it executes a part of a run */
} PoolMember;

struct ThreadPool {
    Counter round, released; /* runs announced; barriers that all threads have reached */
    PoolPlan plan;
    void (*work)(void *context, int thread);
    void *context;
    bool closing;
    int64_t rounds; /* runs executed */
    PoolMember *members;
};

static void pin_to(pthread_t thread, int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    pthread_setaffinity_np(thread, sizeof set, &set); /* may fail without harm */
}

static double cpu_seconds(const PoolMember *m)
{
    struct timespec time = {0, 0};
    clock_gettime(m->clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Moves `late` to the core of `waiting`, which is about to sleep. */
static void move_to_core_of(PoolMember *waiting, PoolMember *late)
{
    PoolMember *nobody = NULL;
    if (atomic_load(&waiting->on_core_of) || !atomic_compare_exchange_strong(&late->on_core_of, &nobody, waiting))
        return;
    atomic_fetch_add(&waiting->moved_here, 1);
    pin_to(late->self, waiting->core);
}

/* Called between two parts of work: a moved thread returns to its own core after its stay. */
static void return_to_own_core(PoolMember *m)
{
    PoolMember *other = atomic_load(&m->on_core_of);
    if (!other)
        return;
    double now = mgpu_seconds();
    if (m->moved == 0) {
        bool soon = now - m->returned < SOON * m->stay;
        m->stay = !soon ? FIRST_STAY_S : 2 * m->stay < LONGEST_STAY_S ? 2 * m->stay : LONGEST_STAY_S;
        m->moved = now;
    }
    if (now - m->moved < m->stay)
        return;
    m->moved = 0;
    m->returned = now;
    pin_to(m->self, m->core);
    atomic_fetch_sub(&other->moved_here, 1);
    atomic_store(&m->on_core_of, NULL);
}

static bool has_guest(const PoolMember *m) { return atomic_load(&m->moved_here) > 0 || atomic_load(&m->on_core_of); }

/* late: the thread that is waited for; worker threads wait for thread 0 */
static void wait_for(PoolMember *m, Counter *c, int64_t at_least, PoolMember *late)
{
    bool spins = m->pool->plan.spin, looks = spins && m->core >= 0;
    double before = -1;
    for (int i = 0; looks && i < SPINS_EXCLUSIVE / CHECK_SPINS && !has_guest(m); i++) {
        if (mgpu_counter_spin(c, at_least, CHECK_SPINS))
            return;
        double now = atomic_load(&late->busy) ? cpu_seconds(late) : -1;
        if (now >= 0 && now <= before)
            move_to_core_of(m, late);
        before = now;
    }
    mgpu_counter_wait_spinning(c, at_least, looks || has_guest(m) ? 0 : spins ? SPINS_EXCLUSIVE : SPINS_SHARED);
}

/* Called by the thread itself. */
static void begin(PoolMember *m)
{
    m->self = pthread_self();
    if (pthread_getcpuclockid(m->self, &m->clock) != 0)
        m->clock = CLOCK_THREAD_CPUTIME_ID; /* the CPU time of the caller, which never stands still */
    if (m->core >= 0)
        pin_to(m->self, m->core);
}

static void run_part(PoolMember *m)
{
    ThreadPool *t = m->pool;
    return_to_own_core(m);
    atomic_store(&m->busy, true);
    t->work(t->context, m->number);
    atomic_store(&m->busy, false);
}

static void *serve(void *argument)
{
    PoolMember *m = argument;
    ThreadPool *t = m->pool;
    begin(m);
    if (t->plan.enter)
        t->plan.enter(t->plan.context, m->number);
    for (int64_t round = 1;; round++) {
        wait_for(m, &t->round, round, &t->members[0]);
        if (t->closing)
            break;
        run_part(m);
        mgpu_counter_set(&m->arrived, ++m->count); /* before the next round there is nothing to wait for */
    }
    if (t->plan.leave)
        t->plan.leave(t->plan.context, m->number);
    return NULL;
}

ThreadPool *mgpu_pool_open(const PoolPlan *plan)
{
    ThreadPool *t = mgpu_allocate_aligned(_Alignof(ThreadPool), sizeof *t);
    PoolMember *members = mgpu_allocate_aligned(_Alignof(PoolMember), (size_t)plan->threads * sizeof *members);
    t->plan = *plan;
    t->plan.cores = NULL; /* belongs to the caller */
    t->members = members;
    for (int i = 0; i < plan->threads; i++) {
        members[i].pool = t;
        members[i].number = i;
        members[i].core = plan->cores ? plan->cores[i] : -1;
    }
    for (int i = 1; i < plan->threads; i++)
        mgpu_start_thread(&members[i].started, serve, &members[i]);
    return t;
}

void mgpu_pool_close(ThreadPool *t)
{
    t->closing = true;
    mgpu_counter_set(&t->round, t->rounds + 1);
    for (int i = 1; i < t->plan.threads; i++)
        pthread_join(t->members[i].started, NULL);
    free(t->members);
    free(t);
}

int mgpu_pool_threads(const ThreadPool *t) { return t->plan.threads; }

/* Thread 0 waits until all others have reached the same count. */
static void gather(ThreadPool *t)
{
    int64_t count = ++t->members[0].count;
    for (int i = 1; i < t->plan.threads; i++)
        wait_for(&t->members[0], &t->members[i].arrived, count, &t->members[i]);
}

void mgpu_pool_barrier(ThreadPool *t, int thread)
{
    PoolMember *m = &t->members[thread];
    atomic_store(&m->busy, false);
    if (thread == 0) {
        gather(t);
        if (t->plan.threads > 1)
            mgpu_counter_set(&t->released, m->count);
    } else {
        mgpu_counter_set(&m->arrived, ++m->count);
        wait_for(m, &t->released, m->count, &t->members[0]);
    }
    atomic_store(&m->busy, true);
}

void mgpu_pool_run(ThreadPool *t, void (*work)(void *context, int thread), void *context)
{
    t->work = work;
    t->context = context;
    if (t->rounds++ == 0)
        begin(&t->members[0]);
    if (t->plan.threads > 1)
        mgpu_counter_set(&t->round, t->rounds);
    run_part(&t->members[0]);
    gather(t);
}
