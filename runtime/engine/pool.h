/* pool.h: the threads that share the work of one device. Thread 0 is the calling thread. */
#ifndef MGPU_POOL_H
#define MGPU_POOL_H

#include <stdbool.h>

typedef struct ThreadPool ThreadPool;
typedef struct PoolPlan {
    int threads;      /* at least 1 */
    const int *cores; /* [thread]: the core that it is pinned to; NULL: threads are not pinned */
    bool spin;        /* every thread has a core to itself: waiting threads spin longer before they sleep */
    /* called by threads 1, 2, ... at their start and end; or NULL */
    void (*enter)(void *context, int thread), (*leave)(void *context, int thread);
    void *context;
} PoolPlan;

ThreadPool *mgpu_pool_open(const PoolPlan *); /* ends the program if a thread cannot be started */
void mgpu_pool_close(ThreadPool *);
int mgpu_pool_threads(const ThreadPool *);
/* Calls work(context, thread) on every thread, and returns when all have returned. */
void mgpu_pool_run(ThreadPool *, void (*work)(void *context, int thread), void *context);
/* Called inside `work`: returns when all threads have called it. */
void mgpu_pool_barrier(ThreadPool *, int thread);
#endif
