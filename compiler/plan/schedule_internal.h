/* schedule_internal.h: what bucket.c, region.c, place.c, signature.c and schedule.c share on the way from a Phase to its
 * schedule. */
#ifndef MGPU_SCHEDULE_INTERNAL_H
#define MGPU_SCHEDULE_INTERNAL_H

#include "compiler/kernel/phase.h"
#include "compiler/machine/cost.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/durations.h"

/* ---- bucket.c: the order of a phase, and the members of its collectives */
typedef struct Group { /* one collective and its tensors */
    Tensor **members;
    int member_count;
    int64_t *begin; /* by member: offset in the bucket, in bytes */
    int64_t bytes;
    Dtype dtype;
    mgpu_participants participants; /* MGPU_TRANSFER_REDUCE may have several members, other transfers one */
    bool bucket;                    /* members are in a bucket; false: one tensor that is reduced in place */
    bool final;                     /* no other collective depends on it: gradients, reports */
    bool gathered_once;             /* of a weight, kept for several uses */
    bool in_sync_lane;              /* in the lane sync */
    bool engines;                   /* copy engines transfer these gradients, since they occupy no SMs */
    double saved_us;                /* time of a step that `in_sync_lane` or `engines` saves; 0: the plan requires them */
    int after;                      /* the call after which it runs, its last producer; -1: before all calls */
    const Place *at;
} Group;
typedef struct Order {
    Task **calls;
    int call_count; /* the kernels in the order of the comp lane */
    int *region;
    int64_t *chunk; /* by call; set by cut_regions */
    Group *groups;
    int group_count; /* the collectives in the order of their lanes; ascending in `after` */
    bool filled;     /* calls have moved to where others wait for transfers */
    int *group_of;   /* by tensor id; -1: in no bucket */
} Order;
/* Orders a phase for a device with so many samples. Buckets hold options->bucket_bytes; 0: those with which a step is predicted
 * to end first on the members' machine. */
Order *order_phase(const Program *, const Phase *, const Members *, double samples);

/* schedule.c: Orders a phase and cuts its calls into regions. */
Order *order_calls(const Program *, const Phase *, const Members *, int64_t samples);

/* ---- gather.c: true if `copy` copies a device's own part of a variable to where `transfer` gathers the whole */
bool gathers_variable(const Task *copy, const Task *transfer);

/* ---- gather_starts.c: when gathers begin */
/* task: copies the own part; reader: the first call that reads the whole */
typedef struct GatherCopy {
    int task, reader;
    int64_t bytes;
    double us;
    int place;
} GatherCopy;
/* begin_us: by call, and the end of the last call; leads ascend by reader */
void place_gather_copies(GatherCopy *, int count, const double *begin_us, double share);

/* ---- signature.c: the table of kernels; the digests of a phase's tasks */
void find_times(ScheduledOp *const *ops, int classes, int count); /* schedule.c: when each operation begins */
Signature *list_signatures(const Program *, int *count);
typedef struct TaskDigest TaskDigest;
TaskDigest *digest_tasks(const Phase *, int devices);
uint32_t digest_of(const TaskDigest *, int task_count, const Task *);
/* Checks that every task of `after` has the digest of a task of `before`. */
void check_same_values(const Phase *before, const Phase *after, int devices);

/* ---- names.c: names of what a phase does and keeps */
typedef struct TaskName {
    const Task *task;
    const char *op, *layer, *role;
} TaskName; /* layer NULL: none */
typedef struct Names {
    TaskName *tasks;
    int task_count;                 /* of kernels, sorted by address */
    const char **tensor, **weight;  /* by tensor id; weight: the weight whose gradient the tensor is; NULL: none */
    const char **group, **transfer; /* by group: names of collectives, and of their operations */
} Names;
Names *name_phase(const Phase *, const Order *);
const TaskName *name_of_task(const Names *, const Task *);
const char *name_of_fetch(const Tensor *);                 /* of the operation that copies an output to the host */
const char **names_of_group(const Names *, const Group *); /* of its members, in new memory: weights or values */

/* ---- durations.c: microseconds on the program's machine */
/* its samples; or the elements of the largest part, if it is Split */
double units_of_task(const Task *, int devices, double samples);
double time_of_task(const Program *, const Device *, const Task *, double samples); /* without its launch or barrier */
/* with its launch, or its share of a launch of several calls */
double time_of_launch(const Program *, const Device *, const Task *, double samples);
/* without a launch, which it shares with calls before it */
double time_in_joint_launch(const Program *, const Device *, const Task *, double samples);
Cost cost_of_call(const Program *, const Members *, const Order *, int call, int device, double samples);
/* Returns the part of a call's predicted time that members of the other pass take, rounded to a thousandth (Task.own_pass). */
double time_of_other_pass(const Program *, const Members *, int device, const Task *, double samples);
Members members_of_plan(const Program *, const Plan *); /* with the methods that the plan's transfers may use */
Cost cost_of_transfer(const Members *, const Group *, double bytes);
bool reduces_gradients(const Group *);
/* Returns the methods by which copy engines transfer gradients, if the plan allows that; 0: none. */
unsigned engine_methods(const Program *, const Members *);
bool names_machine(const Program *); /* true with --machine */
const char *reason_of_transfer(const Members *, const Group *);
int implementation_of_transfer(const Program *, const Members *, const Group *); /* MGPU_IMPLEMENTATION_... */

/* ---- region.c: calls that the workers of a device run without a barrier between them */
void cut_regions(const Phase *, int64_t shard, Order *); /* shard: largest_shard() */

/* ---- update_launches.c: on devices without workers, every call is a region of its own, except updates that share a launch */
void join_update_launches(const Program *, const Phase *, const Members *, double samples, Order *);
/* NULL: such a call needs its own launch; else calls with an equal result may share one */
const Kernel *function_of_launch(const Program *, const Task *);

/* ---- device_parts.c: return the class's array, or a copy with the device's own parts */
void *copy_array(const void *, size_t bytes);
/* first: the first of its samples in a batch that it has whole */
ScheduledOp *ops_of_device(ScheduledOp *of_class, int count, const Order *, const Buffer *buffers, int devices, int device,
                           int64_t first);
Buffer *buffers_of_device(Buffer *of_class, int count, int devices, int device);

/* ---- offsets.c */
typedef struct Block { /* bytes that are needed from position `first` to position `last` */
    int64_t bytes, offset;
    int first, last;
} Block;
/* Rounds the blocks' bytes up to multiples of the alignment, and sets their offsets; returns the bytes of all. *bound: a lower
 * bound. reuse false: blocks are placed one after the other. */
int64_t place_blocks(Block *, int count, bool reuse, int alignment, int64_t *bound);
int64_t add_bytes(int64_t, int64_t); /* Returns the sum of two sizes; fails if it is greater than 2^62. */
int64_t align_to(int64_t bytes, int alignment);
_Noreturn void fail_too_large(void);

/* ---- place.c: the offsets of buffers */
enum { ALIGNMENT = 64, SLOTS = 2 };
int64_t align_bytes(int64_t);
int workspace_alignment(const Program *);
/* Sets, by tensor, if its values never leave the region that computes them, so that each worker has them for one chunk only. */
void find_locals(const Phase *, const Order *, bool *local, int64_t *chunk);
/* Returns, by tensor, if it is a temporary that is computed in parts and never whole, so that a device has room for its own part
 * only. */
bool *find_divided(const Phase *, const Order *);

/* of the device; of the devices with most and with least in the plan */
typedef struct Samples {
    int64_t used, reserved, least;
} Samples;
typedef struct Persistent { /* the buffers that have the same offsets in all phases */
    Buffer *buffers;
    int buffer_count;
    int common_count;
    int64_t common_bytes;                     /* the first buffers and their bytes: every phase has these */
    int step, report;                         /* indices of buffers; -1: none */
    int *staging, *input, *variable, *output; /* by index; -1: none */
    int64_t arena_bytes, staging_bytes;
    int devices;
    Samples samples;
    int64_t group; /* samples that are never split over devices */
} Persistent;
/* batch: samples that inputs have room for; 0: those of a device */
Persistent *place_persistent(const Program *, Samples, int64_t batch, int devices);

typedef struct MemoryLayout { /* the buffers of one phase on a device of some capacity */
    Buffer *buffers;
    int buffer_count;                /* the persistent ones first */
    Access *tensor;                  /* by tensor id; buffer -1: not used */
    Access *work;                    /* by call; buffer -1: no workspace */
    Access *group;                   /* by group */
    int64_t arena_bytes;             /* without the workspaces */
    int64_t work_bytes;              /* of the workspaces, which follow */
    int64_t least_arena, least_work; /* lower bounds for any offsets */
} MemoryLayout;
/* micro: workspaces are those of kernels for micro-batches of so many samples; 0: those of the kernels as they are */
void name_buffers(const Names *, const Phase *, const Order *, MemoryLayout *); /* names.c */
MemoryLayout *place_phase(const Program *, const Phase *, const Order *, const Persistent *, int64_t micro);
#endif
