/* team.h: the threads that share the work of one device. Thread 0 is the caller's own. */
#ifndef MGPU_TEAM_H
#define MGPU_TEAM_H

#include <stdbool.h>

typedef struct Team Team;
typedef struct TeamPlan {
    int threads;               /* at least 1 */
    const int *cores;          /* one for each thread, which it stays on; NULL: anywhere */
    bool spin;                 /* every thread has a core to itself: waiting threads look for long before they sleep */
    void (*enter)(void *context, int thread), (*leave)(void *context, int thread); /* called by threads 1, 2, ...; or NULL */
    void *context;
} TeamPlan;

Team *mgpu_team_open(const TeamPlan *); /* ends the program if a thread cannot be started */
void mgpu_team_close(Team *);
int mgpu_team_threads(const Team *);
/* work(context, thread) on every thread; returns when all have returned */
void mgpu_team_run(Team *, void (*work)(void *context, int thread), void *context);
/* inside work: returns when all threads have come here */
void mgpu_team_barrier(Team *, int thread);
#endif
