/* pool.c: a pool of threads, and its barrier.
 *
 * A run is announced by the number of the round; each thread says where it is in a line of its own, and thread 0 is the
 * one that looks at all of them, so a barrier costs two cache lines a thread. Who waits spins first: rounds follow each
 * other within microseconds. Only then does it sleep (counter.c). */
#include "runtime/base/base.h"
#include "runtime/engine/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS_ALONE = 5000, SPINS_SHARED = 50 };

typedef struct Member {
    Counter arrived;          /* barriers and rounds that this thread has reached */
    ThreadPool *pool;
    int number, core;         /* core: -1: any */
    int64_t count;            /* the same, its own copy */
    pthread_t thread;
} Member;

struct ThreadPool {
    Counter round, released;  /* announced runs; barriers that all have reached */
    PoolPlan plan;
    void (*work)(void *context, int thread);
    void *context;
    bool closing;
    int64_t rounds;           /* that have been run */
    Member *members;
};

static void wait_for(const ThreadPool *t, Counter *c, int64_t at_least)
{
    mgpu_counter_wait_spinning(c, at_least, t->plan.spin ? SPINS_ALONE : SPINS_SHARED);
}

static void stay_on(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* a wish: nothing is wrong without it */
}

static void *serve(void *argument)
{
    Member *m = argument;
    ThreadPool *t = m->pool;
    if (m->core >= 0)
        stay_on(m->core);
    if (t->plan.enter)
        t->plan.enter(t->plan.context, m->number);
    for (int64_t round = 1;; round++) {
        wait_for(t, &t->round, round);
        if (t->closing)
            break;
        t->work(t->context, m->number);
        mgpu_counter_set(&m->arrived, ++m->count); /* the next round is what it waits for */
    }
    if (t->plan.leave)
        t->plan.leave(t->plan.context, m->number);
    return NULL;
}

ThreadPool *mgpu_pool_open(const PoolPlan *plan)
{
    ThreadPool *t = mgpu_allocate_aligned(_Alignof(ThreadPool), sizeof *t);
    Member *members = mgpu_allocate_aligned(_Alignof(Member), (size_t)plan->threads * sizeof *members);
    t->plan = *plan;
    t->plan.cores = NULL; /* the caller's */
    t->members = members;
    for (int i = 0; i < plan->threads; i++) {
        members[i].pool = t;
        members[i].number = i;
        members[i].core = plan->cores ? plan->cores[i] : -1;
    }
    for (int i = 1; i < plan->threads; i++)
        mgpu_start_thread(&members[i].thread, serve, &members[i]);
    return t;
}

void mgpu_pool_close(ThreadPool *t)
{
    t->closing = true;
    mgpu_counter_set(&t->round, t->rounds + 1);
    for (int i = 1; i < t->plan.threads; i++)
        pthread_join(t->members[i].thread, NULL);
    free(t->members);
    free(t);
}

int mgpu_pool_threads(const ThreadPool *t)
{
    return t->plan.threads;
}

/* thread 0 waits until all others are where it is */
static void gather(ThreadPool *t)
{
    int64_t count = ++t->members[0].count;
    for (int i = 1; i < t->plan.threads; i++)
        wait_for(t, &t->members[i].arrived, count);
}

void mgpu_pool_barrier(ThreadPool *t, int thread)
{
    Member *m = &t->members[thread];
    if (thread == 0) {
        gather(t);
        if (t->plan.threads > 1)
            mgpu_counter_set(&t->released, m->count);
    } else {
        mgpu_counter_set(&m->arrived, ++m->count);
        wait_for(t, &t->released, m->count);
    }
}

void mgpu_pool_run(ThreadPool *t, void (*work)(void *context, int thread), void *context)
{
    t->work = work;
    t->context = context;
    if (t->rounds++ == 0 && t->members[0].core >= 0)
        stay_on(t->members[0].core);
    if (t->plan.threads > 1)
        mgpu_counter_set(&t->round, t->rounds);
    work(context, 0);
    gather(t);
}
