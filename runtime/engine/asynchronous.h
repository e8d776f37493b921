/* asynchronous.h: the state of an asynchronous device, for asynchronous.c, issue.c and lane_clocks.c. */
#ifndef MGPU_ENGINE_AHEAD_H
#define MGPU_ENGINE_AHEAD_H

#include "runtime/engine/internal.h"

typedef enum Graphs { GRAPHS_ON, GRAPHS_OFF, GRAPHS_WAIT, GRAPHS_NCCL } Graphs;

/* a phase on an asynchronous device */
typedef struct AsyncPhase {
    IssueOrder order;
    void **graph;   /* [run][variant]: the captured graph; NULL until it is captured */
    int *end_event; /* [segment]: the first of MGPU_RING events at its end, one per step in flight; -1: nothing waits for it */
    int *event;     /* [operation]: the first of MGPU_RING events after it (lane comp: after its segment); -1: none */
    int *segment_event; /* [operation]: the first of `variants` events after it inside its segment; -1: none */
    int *run_event;     /* [operation]: an event after it that only operations of its run wait for; -1: none */
    int *begin_event;   /* [operation]: the first of MGPU_RING events before a transfer, for stream_progress.c; -1: none */
} AsyncPhase;

struct AsyncDevice {
    Counter done;   /* steps completed */
    Counter issued; /* (step << PLACE_BITS) + positions of the list that have been issued */
    Counter ready;  /* 1 once the graphs that are captured before the first step exist */
    Engine *engine;
    int device;
    pthread_t issuer, watcher;
    LaneThread *at; /* the lane that the issuing thread works for; used by that thread only */
    AsyncPhase *phases;
    int variants;               /* combinations of slots: a common multiple of all slot counts */
    int event_count;            /* events created so far */
    int step_event[MGPU_LANES]; /* [lane]: the first of MGPU_RING events at the end of a step */
    Graphs graphs;
    GraphsMade made;         /* captured before the first step */
    bool captures_transfers; /* the issuing thread is capturing a run that has transfers; used by that thread only */
    int clocks[MGPU_LANES];  /* [lane]: timing events per timed step */
};

/* issue.c */
void *mgpu_issue(void *ahead); /* the thread that issues */

/* lane_clocks.c */
void mgpu_timed_open(AsyncDevice *); /* creates timing events; called once, before anything is issued */
/* the lane's first timing event; -1: the step is not timed */
int mgpu_timed_first(const AsyncDevice *, int lane, int64_t number);
void mgpu_timed_read(AsyncDevice *, int64_t number); /* reads the times of a step that the device has completed */
/* Creates the timing events of steps that are traced or profiled, unless they exist. The engine must be drained. */
void mgpu_timed_trace(AsyncDevice *);
/* Records a timing event before (number 0) or after (number 1) an operation of a traced or profiled step. */
void mgpu_timed_operation(LaneThread *, int op, int number);
#endif
