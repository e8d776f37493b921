/* schedule.h: schedules: operations on lanes, buffers, waits, collectives. The compiler plans a schedule, the verifier proves it,
 * programs run it, and views print it. The tables of records.c describe its text, which write.c writes and read.c reads. */
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
/* CALL, on lane comp: runs a kernel. READ, on host: fills staging buffers with the samples of this step. UPLOAD, on copy: copies
 * staging buffers or the step block to the device. TRANSFER, on comm or sync: this device's member of a collective; in the text
 * its verb is that of the transfer. REPORT and FETCH, on host: read the report or outputs. */

typedef enum BufferKind {
    BUFFER_STAGING, /* host memory that READ fills; slots; in an arena of its own */
    BUFFER_STEP,    /* the step block; slots */
    BUFFER_INPUT,   /* slots */
    BUFFER_VARIABLE,
    BUFFER_REPORT /* slots */,
    BUFFER_OUTPUT /* slots */,
    BUFFER_TEMPORARY,
    BUFFER_BUCKET,
    BUFFER_WORKSPACE, /* one for each worker of the device */
    BUFFER_LOCAL,     /* one for each worker: values of one chunk of a region's samples, unused after the region */
    BUFFER_KINDS
} BufferKind;
extern const char *const BUFFER_KIND_NAME[BUFFER_KINDS];

typedef mgpu_buffer Buffer;
typedef mgpu_access Access;
static inline Access whole_buffer(int buffer, int64_t bytes) { return (Access){.buffer = buffer, .end = bytes}; }
double accessed_bytes(const Access *, int count);
typedef mgpu_wait Wait;
typedef mgpu_nan_source NanSource;
typedef mgpu_op ScheduledOp;
typedef mgpu_collective CollectiveRecord;
typedef mgpu_device_phase DeviceSchedule;
typedef mgpu_phase PhaseSchedule;
static inline const char *verb_word(const PhaseSchedule *p, const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER ? mgpu_transfer_row(p->collectives[op->target].participants.transfer)->verb
                                     : VERB_NAME[op->verb];
}
typedef struct Parameter {
    unsigned dtype;
    int64_t bytes, each;
    int over;
} Parameter;               /* bytes: of the whole; each: bytes per sample, or 0; over: 1 + the input that it overwrites, or 0 */
typedef struct Signature { /* the parameters of a kernel, which may have several signatures */
    int kernel;
    const char *label; /* name of the kernel */
    Parameter *in, *out;
    int in_count, out_count;
    int64_t elements;   /* of a value that devices compute in parts, as in its calls; 0: none */
    const char *extent; /* its iteration space: "[n, 10] f32"; NULL: unknown */
    int text_line;
    int64_t work, work_each; /* bytes of its workspace, fixed and per sample of the device */
} Signature;
typedef struct PhaseDigest {
    const char *phase;
    uint32_t digest;
} PhaseDigest; /* of the phase's name and the digests of its calls */

/* ---- predictions for a step of a long run: comments at the beginning of the text */
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
} LaneRecord; /* of devices first to last */
typedef struct LinkRecord {
    const char *name;
    double bytes, share;
} LinkRecord; /* bytes in one direction; share of the link's bandwidth */
typedef struct StepRecord {
    const char *machine, *bound; /* machine NULL: nothing is predicted */
    double step_us;
    double bandwidth, plain, matrix; /* of device 0, per second: bytes of memory, operations, those of matrix units; 0: none */
    LaneRecord *lanes;
    int lane_count;
    LinkRecord *links;
    int link_count;
} StepRecord;

typedef struct Schedule {
    const char *model, *precision;
    int64_t batch;
    int64_t exact, group;           /* virtual shards of an exact program's step, whose borders are multiples of group; 0: none */
    int accumulate, nodes, devices; /* devices: of all nodes; each node has equally many */
    bool predicts;                  /* the program has no training phase */
    int model_line, plan_line, phases_line; /* line numbers in the text */
    const Policy *policy;                   /* NULL: auto */
    PhaseDigest *phase_digests;
    int phase_digest_count; /* all phases of the program, in order; none in texts of earlier versions */
    PhaseSchedule *phases;
    int phase_count; /* parallel to program->phases */
    Signature *signatures;
    int signature_count; /* ascending by kernel */
    StepRecord step;
    int64_t outside_arena_bytes; /* what transfers allocate outside of each GPU's arena; on hosts sums of virtual shards */
    double reused_gather_share, early_gather_share; /* the program's values when this was planned; not in the text */
    bool in_order;                                  /* no call was moved into idle time (fill.c); not in the text */
} Schedule;

/* ---- records.c: the tables */
enum {                                   /* kinds of fields that only schedules have */
       FIELD_SAMPLES = MGPU_FIELD_KINDS, /* of a device: first..end of its samples */
       FIELD_VERB,                       /* of an operation, with its label */
       FIELD_OWN,                        /* of an operation: own begin..end of elements */
       FIELD_READS,
       FIELD_WRITES,
       FIELD_WAITS,
       FIELD_CALL_DIGEST,  /* every call has one */
       FIELD_NAN_SOURCES,  /* of a call; not in the text */
       FIELD_MEMBERS,      /* of a collective */
       FIELD_PARTICIPANTS, /* of a collective: kind, the devices from and to, parts */
       FIELD_COUNT,        /* of a collective: bytes and type of its whole value */
       FIELD_KERNEL,       /* the label, and number, of a kernel */
       FIELD_PARAMETERS,   /* a list; `more`: offset of its length */
       FIELD_LABEL         /* of a policy */
};
extern const mgpu_record MODEL_RECORD, PLAN_RECORD, KERNEL_RECORD, PHASE_RECORD, DEVICE_RECORD, BUFFER_RECORD, OP_RECORD,
    COLLECTIVE_RECORD;
enum { REMARKS = 5 };
extern const mgpu_record REMARK[REMARKS]; /* comments about a Schedule and its lists */
enum { POLICY_WORDS = 6 };
extern const mgpu_field *const POLICY_WORD; /* of a plan: a policy each, with its values by number */
const char *policy_label(const Policy *);   /* printed with the policy's name: "one step stale"; NULL: none */

/* ---- read.c: parses a schedule. The reader has the text, the allocator and the error handler. A device that shares another
 * device's records has no lists itself. */
Schedule *mgpu_schedule_read(mgpu_reader *);

/* ---- write.c */
void mgpu_schedule_write(const Schedule *, mgpu_writer *);
void mgpu_write_signature(const Signature *, mgpu_writer *); /* as a line of the text */

/* ---- image.c: converts a schedule to and from the bytes that a program contains. The reader has the allocator and the error
 * handler. Devices with equal lists share them. */
const uint64_t *mgpu_schedule_pack(mgpu_reader *, const Schedule *);
const uint64_t *mgpu_image_of(mgpu_reader *, const void *body, size_t bytes); /* for tests: makes an image of any body */
Schedule *mgpu_schedule_unpack(mgpu_reader *, const uint64_t *image);
_Noreturn void mgpu_wrong_image(const mgpu_reader *, const char *message); /* an error handler for programs: ends the program */
int64_t mgpu_image_words(const uint64_t *image);
const char *mgpu_image_digest(const uint64_t *image, int bytes, char text[65]); /* the first `bytes` bytes, in hexadecimal */
/* Returns the next image in a file's words, from *from on, and sets *from to the word after its first; NULL: there is none. */
const uint64_t *mgpu_find_image(const uint64_t *words, int64_t count, int64_t *from);

/* ---- reasons.c: why an operation waits for another one */
enum { REASON_NAMES = 3 };
typedef struct Reason {
    const char *word, *names[REASON_NAMES];
    int count;
} Reason; /* a verb, "makes", and names of buffers; word NULL: no reason was found */
Reason mgpu_wait_reason(const DeviceSchedule *, const ScheduledOp *, const Wait *);
#endif
