/* pool.h: the threads that share the work of one device. Thread 0 is the caller's own. */
#ifndef MGPU_POOL_H
#define MGPU_POOL_H

#include <stdbool.h>

typedef struct ThreadPool ThreadPool;
typedef struct PoolPlan {
    int threads;               /* at least 1 */
    const int *cores;          /* one for each thread, which it stays on; NULL: anywhere */
    bool spin;                 /* every thread has a core to itself: waiting threads look for long before they sleep */
    void (*enter)(void *context, int thread), (*leave)(void *context, int thread); /* called by threads 1, 2, ...; or NULL */
    void *context;
} PoolPlan;

ThreadPool *mgpu_pool_open(const PoolPlan *); /* ends the program if a thread cannot be started */
void mgpu_pool_close(ThreadPool *);
int mgpu_pool_threads(const ThreadPool *);
/* work(context, thread) on every thread; returns when all have returned */
void mgpu_pool_run(ThreadPool *, void (*work)(void *context, int thread), void *context);
/* inside work: returns when all threads have come here */
void mgpu_pool_barrier(ThreadPool *, int thread);
#endif
