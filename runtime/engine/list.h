/* list.h: the operations of a phase on a device: by lane, and as they are issued to a device that runs ahead. */
#ifndef MGPU_ENGINE_LIST_H
#define MGPU_ENGINE_LIST_H

#include "runtime/abi/mgpu.h"

typedef struct LaneTable {
    int *order;                  /* operations, by lane */
    int *place;                  /* operation -> its place in its lane */
    int begin[MGPU_LANES + 1];   /* of each lane in `order` */
} LaneTable;
typedef struct Segment {         /* of the lane comp of a device that runs ahead: issued whole */
    int begin, end;              /* operations, by place in the lane */
    mgpu_wait *waits; int wait_count;
    int mark;                    /* the first of MGPU_RING at its end, by step; -1: nobody needs it */
} Segment;
typedef struct Run {             /* of the list: a segment, or several with the transfers between them; kept as one graph */
    int begin, end;              /* places in the list */
    mgpu_wait *waits; int wait_count; /* for what is not in it */
    bool transfers;              /* it has some */
    void **kept;                 /* [variant]; NULL: not yet */
} Run;
typedef struct AheadPhase {
    Segment *segments; int count;
    int *segment;                /* [place of the lane comp]: which one it is in */
    int *list; int length;       /* operations as they are issued; of comp the first of each segment */
    Run *runs; int run_count;
    int *run;                    /* [place in the list]: which one it is in; -1: none */
    int *turn;                   /* [operation]: its place in the list, or its segment's; nothing of the lane host */
    int *mark;                   /* [operation]: the first of MGPU_RING marks after it (of comp: after its segment); -1: none */
    int *inside;                 /* [operation]: the first of `variants` marks after it inside its segment; -1: none */
    int *within;                 /* [operation]: a mark after it that its own run alone follows; -1: none */
    int *begun;                  /* [operation]: of sums: the first of MGPU_RING marks before it, for look.c; -1: none */
} AheadPhase;

void mgpu_make_lanes(LaneTable *, const mgpu_device_phase *);
void mgpu_free_lanes(LaneTable *);
/* all but marks; transfers: runs have those of the lane comm */
void mgpu_make_list(AheadPhase *, const mgpu_device_phase *, const LaneTable *, int variants, bool transfers);
void mgpu_free_list(AheadPhase *);
bool mgpu_runs_agree(const AheadPhase *, const mgpu_device_phase *, const AheadPhase *, const mgpu_device_phase *); /* have the same transfers, one by one */
/* what an operation of the list waits for is in its run */
static inline bool mgpu_is_within(const AheadPhase *a, const mgpu_device_phase *p, int op, const mgpu_wait *wait)
{
    bool may = wait->back == 0 && p->ops[op].lane != MGPU_HOST && p->ops[wait->op].lane != MGPU_HOST;
    return may && a->run[a->turn[op]] >= 0 && a->run[a->turn[op]] == a->run[a->turn[wait->op]];
}
static inline Segment *mgpu_segment_of(const AheadPhase *a, int place) { return &a->segments[a->segment[place]]; }
#endif
