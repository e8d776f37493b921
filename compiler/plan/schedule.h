/* schedule.h: a schedule: operations on lanes, buffers, waits, collectives; and its text. */
#ifndef MGPU_PLAN_SCHEDULE_H
#define MGPU_PLAN_SCHEDULE_H

#include "compiler/ir/graph.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

typedef struct Program Program;
typedef struct Plan Plan;
typedef struct Schedule Schedule;
typedef struct Policy Policy;

/* ---- the schedule: what is printed, parsed, verified and emitted (schedule_text.c documents the format) */
typedef enum Lane { LANE_COMP = MGPU_COMP, LANE_COPY = MGPU_COPY, LANE_COMM = MGPU_COMM, LANE_SYNC = MGPU_SYNC, LANE_HOST = MGPU_HOST, LANES = MGPU_LANES } Lane;
typedef enum Verb { VERB_CALL, VERB_READ, VERB_UPLOAD, VERB_TRANSFER, VERB_REPORT, VERB_FETCH, VERBS } Verb;
extern const char *const LANE_NAME[LANES], *const VERB_NAME[VERBS];
/* READ: host lane, fills staging with the samples of this step; UPLOAD: copy lane, staging -> device slots (and the
 * step block); CALL: comp lane; REDUCE: comm or sync lane, this device's part of a collective, whose transfer is its word in the text;
 * REPORT, FETCH: host lane, reads the report / predict's outputs. */

typedef enum BufferKind {
    BUFFER_STAGING,     /* host memory that READ fills; slots; its own arena */
    BUFFER_STEP,        /* the step block; slots */
    BUFFER_INPUT,       /* slots */
    BUFFER_VARIABLE, BUFFER_REPORT /* slots */, BUFFER_OUTPUT /* slots */, BUFFER_TEMPORARY, BUFFER_BUCKET,
    BUFFER_WORKSPACE,   /* every worker of the device has its own */
    BUFFER_LOCAL,       /* likewise: values of a region's samples that nothing reads after it, room for one chunk */
    BUFFER_KINDS
} BufferKind;
extern const char *const BUFFER_KIND_NAME[BUFFER_KINDS];

typedef struct Buffer {
    const char *name;       /* without the device: "in.image", "w.fc.weight", "conv_1.y", "bucket.fc.weight", "work.conv_1.forward" */
    BufferKind kind;
    int64_t offset, bytes;  /* bytes of one slot; the slots follow each other, each aligned to 64 */
    int slots;              /* 1: not slotted */
    int index;              /* of the input, variable or output; -1 */
    int64_t each;           /* bytes of one sample; 0: the same for all samples */
    int type;               /* + 1: Dtype of its elements; 0: no numbers (the step block, a workspace) */
    int64_t elements;       /* VARIABLE, TEMPORARY: it is split, and has room for the device's own part of so many elements alone; 0: it is not */
    bool updated;           /* VARIABLE: calls of this phase write all of it, once a step */
} Buffer;
/* bytes [begin, end) of slot (step + slot) mod slots; of > 0: they are the own part of a split value of so many bytes, at its place there */
typedef struct Access { int buffer; int64_t begin, end; int slot; int64_t of; } Access;
static inline Access whole_buffer(int buffer, int64_t bytes) { return (Access){.buffer = buffer, .end = bytes}; }
double accessed_bytes(const Access *, int count);
typedef struct Wait { int op, back; } Wait; /* op of the same device in the same phase, `back` steps ago */
typedef struct ScheduledOp {
    const char *id;         /* without the device: "conv_1.backward.weight" */
    Lane lane;
    Verb verb;
    int target;             /* CALL: number of the kernel in program->kernels; REDUCE: of the collective; FETCH: of the output */
    const char *label;      /* "k3f07aa", "conv_1.weight", "probability"; "-" where there is none */
    Access *reads, *writes; int read_count, write_count; /* CALL: in the order of the kernel's arguments; the
                               workspace is the last write; the last read is the step block, which is no argument */
    Wait *waits; int wait_count;
    double begin_us, time_us;
    int ground;             /* CALL, TRANSFER: what time_us rests on, of machine/cost.h; not in the text */
    int line;               /* in the model; 0 if none */
    const char *layer, *role; /* "layer3.2.conv2", "backward weight": names.c; NULL: nothing is said */
    double flops;           /* CALL: operations of one call */
    double bytes;           /* CALL: that it moves, as the cost model counts them: an epilogue's without its contraction's operands */
    int region;              /* CALL: calls of one region follow each other, and no barrier of the device's thread pool
                               is between them; regions are numbered from 0. Else -1 */
    int64_t chunk;          /* CALL: samples that a thread takes through the region at a time; the same in the whole region */
    const Suspect *suspects; int suspect_count; /* CALL; not in the text */
    uint32_t digest;        /* CALL: of what it computes from what; the same for any number of devices but one */
    int64_t elements;       /* CALL: of split values of so many elements it computes `own`, and touches no others; 0: of none */
    mgpu_stretch own;
    bool by_sample;         /* CALL: may be called for any samples; touches those alone in buffers that have samples */
} ScheduledOp;
typedef struct Collective {
    const char *name;       /* "conv_1.weight": its first tensor */
    int *ops;               /* per device: its member */
    int64_t count; Dtype dtype; /* of the whole value */
    mgpu_parties parties;   /* which transfer, and what each member has of it */
    uint8_t way;            /* MGPU_WAY_...: how it is made */
    Lane lane;              /* of its members; not in the text, which has theirs */
    const char *why;        /* for people; NULL: nothing is said */
    const char **of; int of_count; /* likewise: the weights whose gradients it sums, or values */
} Collective;
typedef struct DeviceSchedule {
    const char *name;
    int64_t arena_bytes, staging_bytes, first, share, capacity;
    int64_t work_bytes;     /* the last of the arena, where workspaces are: every worker has so much of its own */
    int64_t least_bytes;    /* of the arena: no offsets take less; not in the text */
    Buffer *buffers; int buffer_count;
    ScheduledOp *ops; int op_count;       /* lane by lane order is the order in this list */
} DeviceSchedule;
typedef struct PhaseSchedule {
    const char *name;
    DeviceSchedule *devices;
    Collective *collectives; int collective_count;
} PhaseSchedule;
typedef struct Parameter { Dtype dtype; int64_t bytes, each; int over; } Parameter; /* bytes, or of each sample `each`; over: + 1:
                               the parameter that is read in whose place it is written */
typedef struct Signature {  /* of a kernel: its parameters. A kernel may have several */
    int kernel;
    const char *label;      /* of the kernel */
    Parameter *in, *out; int in_count, out_count;
    int64_t elements;       /* of split values, as those of its calls; 0: none */
    const char *extent;     /* what its threads run over: "[n, 10] f32"; NULL: nothing is said */
    int64_t work, work_each; /* bytes of its workspace, and those for each sample of the device besides */
} Signature;
typedef struct Room { int64_t samples, bytes, work; } Room; /* the arena of a device with so many samples; work: the workspaces, besides */
typedef struct PhaseDigest { const char *phase; uint32_t digest; } PhaseDigest; /* of a phase of the program, by its name: of all its calls */
struct Schedule {
    const char *model, *precision;
    int64_t batch;
    int accumulate, nodes, devices;          /* devices: of all nodes, equally many each */
    bool predicts;                           /* the program has no phase that trains */
    const Policy *policy;                    /* NULL: auto */
    PhaseDigest *phase_digests; int phase_digest_count; /* all that the program has, in its order; 0: a text of an earlier version */
    PhaseSchedule *phases; int phase_count;  /* parallel to program->phases */
    Signature *signatures; int signature_count; /* ascending by kernel */
    const char *notes;                       /* comments of the head: what is predicted; NULL: none */
    int64_t besides_bytes;                   /* that transfers take of each GPU besides its arena; of host devices 0 */
    double gathered_kept, gathered_ahead; /* of the program, when this was planned; not in the text */
    bool in_order;                           /* no call has moved to where others wait (fill.c); not in the text */
};

/* the phases that have a place for outputs and for what `decode` keeps: between them and others the engine drains
 * (mgpu_engine_turn_to) */
bool phase_predicts(const char *phase);
static inline const char *schedule_step(const Schedule *s, bool partial) { return phase_name(step_kind(s->predicts), partial); }
static inline int schedule_each(const Schedule *s) { return s->devices / s->nodes; } /* devices of a node */

/* ---- digests: a call's is a hash of its kernel, of the values that it reads and of the names of variables, outputs and the report
 * that it writes; a value's, of the call that has made it, or its name.
 * Stated by the scheduler from the program's tasks, and computed by the verifier from what the schedule's calls read. */
static inline uint64_t digest_leaf(const char *name, int index) { return hash_bytes((uint64_t)index + 1, name, strlen(name)); }
static inline uint64_t digest_call(const char *kernel) { return hash_bytes(0, kernel, strlen(kernel)); }
static inline uint64_t digest_argument(uint64_t call, uint64_t value) { return hash_bytes(call, &value, sizeof value); }
static inline uint64_t digest_result(uint64_t call, int number) { return hash_bytes(call, &number, sizeof number); }
static inline uint64_t digest_transfer(uint64_t value, const mgpu_parties *p) /* the same on all devices, whatever they receive */
{
    uint64_t words[] = {p->transfer, (uint64_t)p->from, (uint64_t)p->to};
    return hash_bytes(value, words, sizeof words);
}

/* a phase's begins with its name and takes in the digest of each call, in any order */
static inline uint32_t digest_phase(const char *name) { return (uint32_t)hash_bytes(0, name, strlen(name)); }
static inline uint32_t digest_of_phase(uint32_t phase, uint32_t call) { return phase + (uint32_t)hash_bytes(1, &call, sizeof call); }

/* split.c */
void split(const Program *, Plan *);
int64_t plan_capacity(const Plan *); /* samples of a device, at most */
/* place.c, bucket.c, schedule.c: Phases x Plan -> Schedule; the persistent part has the same offsets in all phases */
Schedule *schedule(const Program *, const Plan *);
Schedule *schedule_sizes(const Program *, const Plan *); /* the memory of one: no operations, digests or names of temporaries */
Room *find_rooms(const Program *, const Plan *, int *count); /* of the plan's schedule; ascending; none on devices without memory of their own */
Room find_room(const Program *, const Plan *, int64_t samples); /* of a device with so many */
int64_t bytes_besides(const Schedule *); /* besides.c */
/* schedule_text.c, schedule_read.c */
void schedule_write(const Schedule *, Text *);
const char *wait_reason(const DeviceSchedule *, const ScheduledOp *, const Wait *); /* reasons.c: "makes in.image"; NULL: none is seen */
Schedule *schedule_read(const char *file, const char *text); /* error_at for what it cannot read; used by verify and tests */
#endif
