/* verify.h: what the files of the verifier share. It shares no code with the scheduler.
 *
 *   verify.c         rules that one look at the schedule decides: arenas, shards, collectives, verbs, inputs
 *   verify/region.c   no two calls of a region need a barrier between them
 *   verify/order.c   one phase on one device -> Events in a possible order, with what each is ordered after (or a cycle)
 *   verify/split.c   what is gathered is cut as it was scattered
 *   verify/bits.c    what is sent as bits is written in whole segments
 *   verify/program.c all devices have the same operations with the same arguments
 *   verify/calls.c   every call is one of a kernel in the table, with what that takes
 *   verify/values.c  every call reads the values that the program has it read
 *   verify/memory.c  walks over many steps: every access against the last ones to the same bytes */
#ifndef MGPU_VERIFY_H
#define MGPU_VERIFY_H

#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"

enum {
    ALIGNMENT = 64,  /* of the slots of a buffer */
    BACK_LIMIT = 64, /* a wait further back is taken as none: it can only order less than we know */
};

/* each device gets the batch of all, and takes its own samples of it */
static inline bool takes_whole_batch(const Schedule *s) { return s->policy && s->policy->input == INPUT_WHOLE; }
int64_t slot_stride(const Buffer *);               /* bytes from one slot to the next */
int slot_of(const Buffer *, int64_t step, int slot);
/* which step's data a read of a slot can mean: 0 (this one), -1, ... -(slots - 1) */
int slot_back(const Buffer *, int slot);
bool buffer_is_persistent(const Buffer *);         /* same place in all phases */
bool buffer_is_slotted_kind(const Buffer *);

/* ---- verify/region.c */
bool same_region(const ScheduledOp *, const ScheduledOp *); /* of two operations that follow each other in a lane */
const char *verify_regions(const Schedule *, int phase, int device); /* NULL, or what is wrong */

/* ---- verify/order.c */
typedef struct Touch {      /* one access of an operation */
    const Buffer *buffer;
    bool write;
    int slot;
    int64_t begin, end;     /* bytes in the slot */
    int first;              /* of Places: [first + 2 s], [first + 2 s + 1] = begin and end in slot s; filled by the walk */
} Touch;
typedef struct BackWait { int event, back; } BackWait;
typedef struct Event {
    int op;                 /* -1: the begin or the end of the step in this lane */
    Lane lane;
    int position;           /* in its lane: 0 is the begin */
    int before[LANES];      /* of the same step: the last event of each lane that is over before this one begins; -1 none */
    bool pending;              /* belongs to the step before: REPORT and FETCH of slot -1 */
    int first_wait, wait_count;
    int first_touch, touch_count; /* reads, then writes */
} Event;
typedef struct StepGraph {  /* one phase on one device */
    int phase;
    const DeviceSchedule *device;
    Event *events; int event_count;         /* in an order in which they may run */
    int *at[LANES], length[LANES];          /* (lane, position) -> event */
    BackWait *waits; int wait_count;        /* of earlier steps */
    Touch *touches; int touch_count;
} StepGraph;
/* an order in which the operations may run, those of a region together, as [op_count]; else NULL and *why names the cycle */
int *order_operations(const PhaseSchedule *, int device, const char **why);
const char *verify_issue(const Schedule *, int phase, int device); /* NULL, or what is wrong */
/* Events of the operations in `kept` (NULL: all), which must hold every operation that waits for an earlier step or is
 * waited for by a later one; touches of buffers in `wanted` (NULL: all). */
StepGraph *step_graph(const Schedule *, int phase, int device, const int *order, const bool *kept, const bool *wanted);

/* ---- verify/program.c: NULL, or what is wrong */
const char *verify_program(const Schedule *, int phase, int device);

/* ---- verify/split.c: NULL, or what is wrong; of device 0, as all run one program */
const char *verify_split(const Schedule *, int phase, int device);
/* ---- verify/bits.c: NULL, or what is wrong */
const char *verify_bits(const Schedule *, int phase, int device);
/* ---- verify/calls.c, verify/values.c: NULL, or what is wrong */
const char *verify_calls(const Schedule *, int phase, int device);
const char *verify_values(const Schedule *, int phase, int device);

/* ---- verify/memory.c: NULL, or what is wrong */
const char *verify_memory(const Schedule *, int device);
#endif
