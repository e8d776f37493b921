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
    void **kept;                 /* [variant]; NULL: not yet */
} Segment;
typedef struct AheadPhase {
    Segment *segments; int count;
    int *segment;                /* [place of the lane comp]: which one it is in */
    int *list; int length;       /* operations as they are issued; of comp the first of each segment */
    int *turn;                   /* [operation]: its place in the list, or its segment's; nothing of the lane host */
    int *mark;                   /* [operation]: the first of MGPU_RING marks after it (of comp: after its segment); -1: none */
    int *inside;                 /* [operation]: the first of `variants` marks after it inside its segment; -1: none */
    int *begun;                  /* [operation]: of sums: the first of MGPU_RING marks before it, for look.c; -1: none */
} AheadPhase;

void mgpu_make_lanes(LaneTable *, const mgpu_device_phase *);
void mgpu_free_lanes(LaneTable *);
void mgpu_make_list(AheadPhase *, const mgpu_device_phase *, const LaneTable *, int variants); /* all but marks */
void mgpu_free_list(AheadPhase *);
static inline Segment *mgpu_segment_of(const AheadPhase *a, int place) { return &a->segments[a->segment[place]]; }
#endif
