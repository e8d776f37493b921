/* verify.h: what the files of the verifier share. The verifier shares no code with the scheduler.
 *
 *   verify.c          local rules: arenas, shards, collectives, verbs, inputs
 *   verify/region.c   no two calls of a region need a barrier between them
 *   verify/order.c    one phase on one device -> Events in a possible order, with what each is ordered after (or a cycle)
 *   verify/issue.c    the order in which a GPU's operations are issued, and what is captured as graphs
 *   verify/split.c    values are gathered in the parts in which they were scattered
 *   verify/bits.c     what is sent as bits is written in whole segments
 *   verify/program.c  all devices have the same operations with the same arguments
 *   verify/calls.c    every call uses a kernel of the table, with the kernel's parameters
 *   verify/values.c   every call reads the values that it reads in the program
 *   verify/memory.c   walks over many steps: compares every access with the last ones to the same bytes */
#ifndef MGPU_VERIFY_H
#define MGPU_VERIFY_H

#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "runtime/schedule/issue_order.h"

enum {
    ALIGNMENT = 64,  /* of the slots of a buffer */
    BACK_LIMIT = 64, /* older waits are ignored, which only removes order */
};

/* Returns true if each device gets the batch of all devices, and selects its own samples. */
static inline bool takes_whole_batch(const Schedule *s) { return s->policy && s->policy->input == INPUT_WHOLE; }
int64_t slot_stride(const Buffer *); /* bytes from one slot to the next */
int slot_of(const Buffer *, int64_t step, int slot);
/* Returns which step's data a read of a slot means: 0 (this one), -1, ... -(slots - 1). */
int slot_back(const Buffer *, int slot);
bool buffer_is_persistent(const Buffer *); /* has the same offset in all phases */
bool buffer_is_slotted_kind(const Buffer *);

/* ---- verify/line.c: the record that is checked now, for whoever asks verify_line */
void look_at(int text_line);

/* ---- verify/region.c */
bool same_region(const ScheduledOp *, const ScheduledOp *);          /* of two consecutive operations of a lane */
const char *verify_regions(const Schedule *, int phase, int device); /* Returns NULL, or what is wrong. */

/* ---- verify/order.c */
typedef struct Touch { /* one access of an operation */
    const Buffer *buffer;
    bool write;
    int slot;
    int64_t begin, end; /* bytes in the slot */
    int first;          /* in Walk.places, set by the walk: [first + 2 s] and [first + 2 s + 1] are begin and end in slot s */
} Touch;
typedef struct BackWait {
    int event, back;
} BackWait;
typedef struct Event {
    int op; /* -1: begin or end of the step in this lane */
    Lane lane;
    int position;      /* in its lane: 0 is the begin */
    int before[LANES]; /* in the same step: the last event of each lane that completes before this one begins; -1: none */
    bool pending;      /* REPORT or FETCH of slot -1: belongs to the previous step */
    int first_wait, wait_count;
    int first_touch, touch_count; /* reads, then writes */
} Event;
typedef struct StepGraph { /* one phase on one device */
    int phase;
    const DeviceSchedule *device;
    Event *events;
    int event_count;               /* in a possible order of execution */
    int *at[LANES], length[LANES]; /* (lane, position) -> event */
    BackWait *waits;
    int wait_count; /* for earlier steps */
    Touch *touches;
    int touch_count;
} StepGraph;
/* Returns an order in which the operations may run, those of a region together, as [op_count]; else NULL, and *why names the
 * cycle. */
int *order_operations(const PhaseSchedule *, int device, const char **why);
/* Makes events of the operations in `kept` (NULL: all), which must contain every operation that waits for an earlier step or is
 * waited for by a later one; and touches of buffers in `wanted` (NULL: all). */
StepGraph *step_graph(const Schedule *, int phase, int device, const int *order, const bool *kept, const bool *wanted);

/* ---- verify/issue.c */
const char *verify_issue(const Schedule *, int phase, int device); /* Returns NULL, or what is wrong. */
/* Returns NULL, or what is wrong with operation *op in an order of issue, and with *other, if that is not negative. */
const char *check_issue_order(const DeviceSchedule *, const LaneTable *, const IssueOrder *, int *op, int *other);

/* ---- verify/program.c: return NULL, or what is wrong */
const char *verify_program(const Schedule *, int phase, int device);

/* ---- verify/split.c: for device 0 only, as all run one program */
const char *verify_split(const Schedule *, int phase, int device);
/* ---- verify/bits.c */
const char *verify_bits(const Schedule *, int phase, int device);
/* ---- verify/exact.c */
const char *verify_exact(const Schedule *, int phase, int device);
/* ---- verify/calls.c, verify/values.c */
const char *verify_calls(const Schedule *, int phase, int device);
const char *verify_values(const Schedule *, int phase, int device);

/* ---- verify/memory.c */
const char *verify_memory(const Schedule *, int device);
#endif
