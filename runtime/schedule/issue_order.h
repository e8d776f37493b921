/* issue_order.h: the operations of a phase on one device: by lane, and in the order in which they are issued to an asynchronous
 * device. Both follow from the schedule alone. The engine goes by them, and compiler/verify/issue.c proves them. */
#ifndef MGPU_SCHEDULE_ISSUE_ORDER_H
#define MGPU_SCHEDULE_ISSUE_ORDER_H

#include "runtime/abi/mgpu.h"

typedef struct LaneTable {
    int *order;                /* operations, sorted by lane */
    int *place;                /* [operation]: its position in its lane */
    int begin[MGPU_LANES + 1]; /* where each lane begins in `order` */
} LaneTable;
typedef struct Segment { /* calls of the lane comp of an asynchronous device that are issued without waiting between them */
    int begin, end;      /* range of positions in the lane */
    mgpu_wait *waits;    /* what its calls wait for in other lanes */
    int wait_count;
} Segment;
/* part of the list that is captured as one graph: one segment, or several with the transfers between them */
typedef struct CapturedRun {
    int begin, end; /* range of positions in the list */
    mgpu_wait *waits;
    int wait_count; /* what it waits for outside of the run, in lanes other than comp */
    bool transfers; /* it contains transfers */
} CapturedRun;
typedef struct IssueOrder {
    Segment *segments;
    int count;
    int *segment; /* [position in the lane comp]: its segment */
    int *list;
    int length; /* operations in order of issue; a segment is represented by its first operation */
    CapturedRun *runs;
    int run_count;
    int *run;        /* [position in the list]: its run; -1: none */
    int *list_place; /* [operation]: its position in the list, or that of its segment; undefined for the lane host */
} IssueOrder;

void mgpu_make_lanes(LaneTable *, const mgpu_device_phase *);
void mgpu_free_lanes(LaneTable *);
/* Fills in an order that is zeroed. transfers: runs may contain transfers of the lane comm. */
void mgpu_make_issue_order(IssueOrder *, const mgpu_device_phase *, const LaneTable *, bool transfers);
void mgpu_free_issue_order(IssueOrder *);
/* the same transfers in runs */
bool mgpu_runs_agree(const IssueOrder *, const mgpu_device_phase *, const IssueOrder *, const mgpu_device_phase *);
/* Returns true if an operation of the list waits for one of its own run. */
static inline bool mgpu_is_in_run(const IssueOrder *a, const mgpu_device_phase *p, int op, const mgpu_wait *wait)
{
    bool may = wait->back == 0 && p->ops[op].lane != MGPU_HOST && p->ops[wait->op].lane != MGPU_HOST;
    return may && a->run[a->list_place[op]] >= 0 && a->run[a->list_place[op]] == a->run[a->list_place[wait->op]];
}
static inline Segment *mgpu_segment_of(const IssueOrder *a, int place) { return &a->segments[a->segment[place]]; }
#endif
