/* schedule_internal.h: what bucket.c, region.c, place.c, signature.c and schedule.c tell each other on the way from a Phase to
 * its schedule. */
#ifndef MGPU_SCHEDULE_INTERNAL_H
#define MGPU_SCHEDULE_INTERNAL_H

#include "compiler/kernel/phase.h"
#include "compiler/machine/cost.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/times.h"

/* ---- bucket.c: in which order a phase runs, and what its collectives sum */
typedef struct Group {      /* the tensors of one collective */
    Tensor **members; int member_count;
    int64_t *begin;         /* of each member, in bytes from the begin of the bucket */
    int64_t bytes;
    Dtype dtype;
    mgpu_parties parties;   /* MGPU_TRANSFER_REDUCE may have several members, others one */
    bool bucket;            /* members are in a bucket; false: one tensor that is summed where it is */
    bool final;             /* no other collective depends on it: gradients, reports */
    bool kept;              /* of a weight, for more than one use */
    bool beside;            /* in the lane sync */
    bool engines;           /* gradients that copy engines move, as these take no SMs */
    double saved_us;        /* of a step, by these two; 0: the plan asks for it */
    int after;              /* it is after this call, its last producer; -1: ahead of all */
    const Place *at;
} Group;
typedef struct Order {
    Task **calls; int call_count;     /* the kernels, as the comp lane runs them */
    int *region; int64_t *chunk;       /* by call; cut_regions fills them in */
    Group *groups; int group_count;   /* the collectives, as their lanes run them; ascending in `after` */
    bool filled;                      /* calls have moved to where others wait */
    int *group_of, *member_of;        /* by tensor id; -1: in no bucket */
} Order;
/* samples: of a device. Buckets hold options->bucket_bytes; 0: those that end a step first, as the machine of the members is predicted */
Order *order_phase(const Program *, const Phase *, const Members *, double samples);

/* schedule.c: the same, with regions */
Order *order_calls(const Program *, const Phase *, const Members *, int64_t samples);

/* ---- gather.c: the task copies a device's own part of a variable to where the transfer gathers all of it */
bool gathers_variable(const Task *copy, const Task *transfer);

/* ---- ahead.c: which call comes after the begin of a gather */
typedef struct Lead { int task, reader; int64_t bytes; double us; int place; } Lead; /* task: that copies the own part; reader: the first call that reads all */
void place_leads(Lead *, int count, const double *begin_us, double share); /* begin_us: of each call, and the end of the last; leads ascend by reader */

/* ---- signature.c: the table of kernels; the digests of a phase's tasks */
Signature *list_signatures(const Program *, int *count);
int results_of(const Task *); /* that are values of its own: statistics, which may be made in one with their contraction, store its result as it is */
typedef struct TaskDigest TaskDigest;
TaskDigest *digest_tasks(const Phase *, int devices);
uint32_t digest_of(const TaskDigest *, int task_count, const Task *);
void check_same_values(const Phase *before, const Phase *after, int devices); /* every task after it has the digest of one before */

/* ---- names.c: of what a phase does and keeps */
typedef struct TaskName { const Task *task; const char *op, *layer, *role; } TaskName; /* layer NULL: none */
typedef struct Names {
    TaskName *tasks; int task_count;     /* of kernels, by address */
    const char **tensor, **weight;       /* by tensor id; weight: whose gradient it is; NULL: none's */
    const char **group, **transfer;      /* by group: of the collective, and of its operations */
} Names;
Names *name_phase(const Phase *, const Order *);
const TaskName *name_of_task(const Names *, const Task *);
const char *name_of_fetch(const Tensor *);               /* of the operation that brings an output to the host */
const char **names_of_group(const Names *, const Group *); /* of its members, as copies: the weights, or values */

/* ---- times.c: microseconds, by the program's machine */
double units_of_task(const Task *, int devices, double samples); /* its samples; or the elements of the largest part, where it is split */
double time_of_task(const Program *, const Device *, const Task *, double samples); /* without its launch, or barrier */
double time_of_launch(const Program *, const Device *, const Task *, double samples); /* with it, or its share of one that does several calls */
double time_of_joined(const Program *, const Device *, const Task *, double samples); /* without it, of one that shares it with calls before it */
Cost cost_of_call(const Program *, const Members *, const Order *, int call, int device, double samples);
Members members_of_plan(const Program *, const Plan *); /* with the methods that the plan's transfers may be made by */
Cost cost_of_transfer(const Members *, const Group *, double bytes);
bool sums_gradients(const Group *);
/* by which copy engines move gradients, where a plan may choose that; 0: by none */
unsigned engine_methods(const Program *, const Members *);
bool names_machine(const Program *); /* --machine */
const char *reason_of_transfer(const Members *, const Group *);
int way_of_transfer(const Program *, const Members *, const Group *); /* MGPU_WAY_... */

/* ---- region.c: calls that the threads of a device run without a barrier between them */
void cut_regions(const Phase *, Order *);

/* ---- together.c: of a device without threads: every call a region of its own, but for updates that one launch does */
void join_updates(const Program *, const Phase *, const Members *, double samples, Order *);
const Kernel *function_of_launch(const Program *, const Task *); /* NULL: a launch does one such call; else those of one function may share one */

/* ---- own.c: of_class, or a copy with the device's own parts */
void *copy_array(const void *, size_t bytes);
ScheduledOp *ops_of_device(ScheduledOp *of_class, int count, const Order *, const Buffer *buffers, int devices, int device, int64_t first); /* first: of its samples in the batch that it has whole */
Buffer *buffers_of_device(Buffer *of_class, int count, int devices, int device);

/* ---- offsets.c */
typedef struct Block { /* bytes that are needed from position `first` to position `last` */
    int64_t bytes, offset;
    int first, last;
} Block;
/* bytes of the blocks become multiples of the alignment, and have offsets; the bytes that they take in all. *bound: no offsets take
 * less. reuse false: one block after the other */
int64_t place_blocks(Block *, int count, bool reuse, int alignment, int64_t *bound);
int64_t add_bytes(int64_t, int64_t); /* the sum of two sizes; fails if it is beyond 2^62 */
int64_t align_to(int64_t bytes, int alignment);
_Noreturn void fail_too_large(void);

/* ---- place.c: where a byte is */
enum { ALIGNMENT = 64, SLOTS = 2 };
int64_t align_bytes(int64_t);
int workspace_alignment(const Program *);
/* By tensor: whether its values never leave the region that makes them, so that each thread has them for the chunk that it works on. */
void find_locals(const Phase *, const Order *, bool *local, int64_t *chunk);
/* By tensor: whether it is a temporary that is computed in parts and never whole, so that a device has room for its own part alone. */
bool *find_own(const Phase *, const Order *);

typedef struct Samples { int64_t own, room, least; } Samples; /* of a device; of those with most and with least in the plan */
typedef struct Persistent {  /* the buffers that keep their places from phase to phase */
    Buffer *buffers; int buffer_count;
    int common_count; int64_t common_bytes;  /* the first of them and their bytes: all phases have these */
    int step, report;                        /* numbers of buffers; -1: none */
    int *staging, *input, *variable, *output;/* by index; -1: none */
    int64_t arena_bytes, staging_bytes;
    int devices;
    Samples samples;
    int64_t group;                           /* of samples, that no device shares with another */
} Persistent;
Persistent *place_persistent(const Program *, Samples, int64_t batch, int devices); /* batch: samples that inputs have room for; 0: those of a device */

typedef struct Placement {      /* the buffers of one phase on a device of some capacity */
    Buffer *buffers; int buffer_count; /* the persistent ones first */
    Access *tensor;          /* by tensor id; buffer -1: not used */
    Access *work;            /* by call; buffer -1: no workspace */
    Access *group;           /* by group */
    int64_t arena_bytes;     /* without the workspaces */
    int64_t work_bytes;      /* of the workspaces, which are after it */
    int64_t least_arena, least_work; /* no offsets take less */
} Placement;
/* micro: workspaces are those of kernels made for micro-batches of so many samples; 0: of the kernels as they are */
void name_buffers(const Names *, const Phase *, const Order *, Placement *); /* names.c */
Placement *place_phase(const Program *, const Phase *, const Order *, const Persistent *, int64_t micro);
#endif
