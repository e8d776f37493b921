/* schedule.h: a schedule: operations on lanes, buffers, waits, collectives, as the compiler plans it, the verifier proves it
 * and views show it. Its text is described by the tables of records.c, which compiler/plan/schedule_text.c writes by and
 * read.c reads by. */
#ifndef MGPU_SCHEDULE_H
#define MGPU_SCHEDULE_H

#include "runtime/base/records.h"
#include "runtime/schedule/policy.h"

typedef enum Lane {
    LANE_COMP = MGPU_COMP,
    LANE_COPY = MGPU_COPY,
    LANE_COMM = MGPU_COMM,
    LANE_SYNC = MGPU_SYNC,
    LANE_HOST = MGPU_HOST,
    LANES = MGPU_LANES
} Lane;
typedef enum Verb { VERB_CALL, VERB_READ, VERB_UPLOAD, VERB_TRANSFER, VERB_REPORT, VERB_FETCH, VERBS } Verb; /* MGPU_CALL ... */
extern const char *const LANE_NAME[LANES], *const VERB_NAME[VERBS];
/* READ: host lane, fills staging with the samples of this step; UPLOAD: copy lane, staging -> device slots (and the
 * step block); CALL: comp lane; REDUCE: comm or sync lane, this device's part of a collective, whose transfer is its word in
 * the text; REPORT, FETCH: host lane, reads the report / predict's outputs. */

typedef enum BufferKind {
    BUFFER_STAGING, /* host memory that READ fills; slots; its own arena */
    BUFFER_STEP,    /* the step block; slots */
    BUFFER_INPUT,   /* slots */
    BUFFER_VARIABLE,
    BUFFER_REPORT /* slots */,
    BUFFER_OUTPUT /* slots */,
    BUFFER_TEMPORARY,
    BUFFER_BUCKET,
    BUFFER_WORKSPACE, /* every worker of the device has its own */
    BUFFER_LOCAL,     /* likewise: values of a region's samples that nothing reads after it, room for one chunk */
    BUFFER_KINDS
} BufferKind;
extern const char *const BUFFER_KIND_NAME[BUFFER_KINDS];

typedef mgpu_buffer Buffer;
typedef mgpu_access Access;
static inline Access whole_buffer(int buffer, int64_t bytes)
{
    return (Access){.buffer = buffer, .end = bytes};
}
double accessed_bytes(const Access *, int count);
typedef mgpu_wait Wait;
typedef mgpu_suspect Suspect;
typedef mgpu_op ScheduledOp;
typedef mgpu_collective CollectiveRecord;
typedef struct DeviceSchedule {
    const char *name;
    int64_t arena_bytes, staging_bytes, first, share, capacity;
    int64_t work_bytes;  /* the last of the arena, where workspaces are: every worker has so much of its own */
    int64_t least_bytes; /* of the arena: no offsets take less; not in the text */
    int as;              /* of what was read: the device whose buffers and operations it has; its own number: it has its own */
    Buffer *buffers;
    int buffer_count;
    ScheduledOp *ops;
    int op_count;                      /* lane by lane order is the order in this list */
    mgpu_names buffer_names, op_names; /* of what was read: numbers of buffers and operations */
} DeviceSchedule;
typedef struct PhaseSchedule {
    const char *name;
    DeviceSchedule *devices;
    CollectiveRecord *collectives;
    int collective_count;
} PhaseSchedule;
static inline const char *verb_word(const PhaseSchedule *p, const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER ? mgpu_transfer_row(p->collectives[op->target].parties.transfer)->verb : VERB_NAME[op->verb];
}
typedef struct Parameter {
    unsigned dtype;
    int64_t bytes, each;
    int over;
} Parameter;               /* bytes, or of each sample `each`; over: + 1:
                               the parameter that is read in whose place it is written */
typedef struct Signature { /* of a kernel: its parameters. A kernel may have several */
    int kernel;
    const char *label; /* of the kernel */
    Parameter *in, *out;
    int in_count, out_count;
    int64_t elements;        /* of split values, as those of its calls; 0: none */
    const char *extent;      /* what its threads run over: "[n, 10] f32"; NULL: nothing is said */
    int64_t work, work_each; /* bytes of its workspace, and those for each sample of the device besides */
} Signature;
typedef struct PhaseDigest {
    const char *phase;
    uint32_t digest;
} PhaseDigest; /* of a phase of the program, by its name: of all its calls */

/* ---- what is predicted of a step of a long run: comments in the head of the text */
typedef enum Cause {
    CAUSE_COMPUTATION,
    CAUSE_UPLOAD,
    CAUSE_COMMUNICATION,
    CAUSE_INPUT,
    CAUSE_DEVICE,
    CAUSE_NOTHING,
    CAUSES
} Cause;
extern const char *const CAUSE_NAME[CAUSES]; /* "computation" ... "nothing to do" */
typedef struct LaneUse {
    double busy_us, idle_us[CAUSES];
} LaneUse;
typedef struct LaneRecord {
    int first, last;
    Lane lane;
    LaneUse use;
} LaneRecord; /* of these devices */
typedef struct LinkRecord {
    const char *name;
    double bytes, share;
} LinkRecord; /* what it carries, in one direction; of what it could */
typedef struct StepRecord {
    const char *machine, *bound; /* NULL: nothing is predicted */
    double step_us;
    double bandwidth, plain, matrix; /* of device 0, a second: bytes of memory, operations, those of matrix units; 0: none */
    LaneRecord *lanes;
    int lane_count;
    LinkRecord *links;
    int link_count;
} StepRecord;

typedef struct Schedule {
    const char *model, *precision;
    int64_t batch;
    int accumulate, nodes, devices; /* devices: of all nodes, equally many each */
    bool predicts;                  /* the program has no phase that trains */
    const Policy *policy;           /* NULL: auto */
    PhaseDigest *phase_digests;
    int phase_digest_count; /* all that the program has, in its order; 0: a text of an earlier version */
    PhaseSchedule *phases;
    int phase_count; /* parallel to program->phases */
    Signature *signatures;
    int signature_count; /* ascending by kernel */
    StepRecord step;
    int64_t besides_bytes;                /* that transfers take of each GPU besides its arena; of host devices 0 */
    double gathered_kept, gathered_ahead; /* of the program, when this was planned; not in the text */
    bool in_order;                        /* no call has moved to where others wait (fill.c); not in the text */
} Schedule;

/* ---- records.c: the tables */
enum {                                   /* kinds of fields that schedules alone have */
       FIELD_SAMPLES = MGPU_FIELD_KINDS, /* of a device: first..end */
       FIELD_VERB,                       /* of an operation, with its label */
       FIELD_OWN,                        /* of an operation: own begin..end of elements */
       FIELD_READS,
       FIELD_WRITES,
       FIELD_WAITS,
       FIELD_CALL_DIGEST, /* every call has one */
       FIELD_MEMBERS,     /* of a collective */
       FIELD_PARTIES,     /* kind, ends and parts of it */
       FIELD_COUNT,       /* bytes and type of its whole value */
       FIELD_KERNEL,      /* the label, and number, of a kernel */
       FIELD_PARAMETERS,  /* a list; `more`: its length */
       FIELD_LABEL        /* what has to be said of a policy */
};
extern const mgpu_record MODEL_RECORD, PLAN_RECORD, KERNEL_RECORD, DEVICE_RECORD, BUFFER_RECORD, OP_RECORD, COLLECTIVE_RECORD;
enum { REMARKS = 5 };
extern const mgpu_record REMARK[REMARKS]; /* comments: of a Schedule and its lists */
enum { POLICY_WORDS = 6 };
extern const mgpu_field *const POLICY_WORD; /* of a plan: each a policy and what it may be, by its number */
const char *policy_label(const Policy *);   /* what has to be said wherever it is named: "one step stale"; NULL: nothing */

/* ---- read.c: text -> Schedule. The reader has the text, where to take memory, and what becomes of a mistake. A device that
 * is as another one has no lists */
Schedule *mgpu_schedule_read(mgpu_reader *);

/* ---- reasons.c: why an operation waits for another one */
enum { REASON_NAMES = 3 };
typedef struct Reason {
    const char *word, *names[REASON_NAMES];
    int count;
} Reason; /* "makes" of so many buffers; word NULL: none is seen */
Reason mgpu_wait_reason(const DeviceSchedule *, const ScheduledOp *, const Wait *);
#endif
