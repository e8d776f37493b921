/* ahead.h: what ahead.c knows of a device that runs ahead, also for timed.c. */
#ifndef MGPU_ENGINE_AHEAD_H
#define MGPU_ENGINE_AHEAD_H

#include "runtime/engine/internal.h"

typedef enum Graphs { GRAPHS_ON, GRAPHS_OFF, GRAPHS_WAIT, GRAPHS_NCCL } Graphs;

struct Ahead {
    Counter done;                /* steps */
    Counter issued;              /* (step << PLACE_BITS) + how much of the list */
    Counter ready;               /* 1: it has made what it makes before the first step */
    Engine *engine;
    int device;
    pthread_t issuer, watcher;
    Lane *at;                    /* whose operation the issuer is at; its own */
    AheadPhase *phases;
    int variants;                /* combinations of slots: all slots divide it */
    int marks;                   /* made so far */
    int step_mark[MGPU_LANES];   /* the first of MGPU_RING, at the end of a step */
    Graphs graphs;
    GraphsMade made;             /* before the first step */
    bool keeps;                  /* the issuer keeps a run that has transfers; its own */
    int clocks[MGPU_LANES];      /* of a step that is timed */
};

/* issue.c */
void *mgpu_issue(void *ahead);               /* the thread that issues */

/* timed.c */
void mgpu_timed_open(Ahead *);               /* of a device with phases, before anything is issued */
int mgpu_timed_first(const Ahead *, int lane, int64_t number); /* the step's first clock of the lane; -1: it has none */
void mgpu_timed_note(Ahead *, int64_t number); /* of a step that the device has done: its times */
/* of a drained engine: the clocks of steps that are traced or profiled are made, where that was not done before */
void mgpu_timed_trace(Ahead *);
/* of such a step, before (0) and after (1) an operation of a lane that runs ahead is issued */
void mgpu_timed_operation(Lane *, int op, int number);
#endif
