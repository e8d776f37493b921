/* compiler.h: the objects behind the graph (phases, tasks, plans, schedules) and every stage, grouped by file in the
 * order in which main.c calls them. The graph itself is in graph.h, kernels are in kernel.h. */
#ifndef MGPU_COMPILER_H
#define MGPU_COMPILER_H

#include "compiler/graph.h"

typedef struct Kernel Kernel; /* kernel.h */

/* ---- a phase: one graph made into tasks. The same for every device count. */
typedef enum PhaseKind {
    PHASE_INIT,         /* initial values of the variables; once, on every device alike */
    PHASE_PROLOGUE,     /* accumulate > 1 only: sums of loss weights of one micro-batch, ahead of the step */
    PHASE_ACCUMULATE,   /* forward and backward of a micro-batch that is not the step's last */
    PHASE_TRAIN,        /* forward, backward, reduction, update */
    PHASE_EVAL,         /* forward, adding to the report's accumulators */
    PHASE_PREDICT,      /* forward, outputs to the host */
    PHASE_REPORT_TRAIN, /* metrics from the accumulators of PHASE_TRAIN, which become 0 */
    PHASE_REPORT_EVAL,
    PHASE_KINDS
} PhaseKind;
const char *phase_name(PhaseKind, bool ragged); /* "train.full", "train.ragged"; "init" and reports have no suffix */

typedef enum TensorKind { TENSOR_INPUT, TENSOR_VARIABLE, TENSOR_TEMPORARY, TENSOR_OUTPUT, TENSOR_REPORT } TensorKind;
typedef struct Tensor {     /* what kernels read and write */
    int id;                 /* place in phase->tensors */
    TensorKind kind;
    const char *name;       /* unique in the phase: "in.image", "w.fc.weight", "t12", "report" */
    int index;              /* of the input, variable or output */
    Dtype dtype;
    Shape shape;            /* of one sample, axes in memory order */
    bool sharded;           /* bytes = samples x per sample */
    bool partial;           /* summed over devices by a TASK_REDUCE before others may read it; then its bytes, in a bucket,
                               are aligned to its elements only */
    Node *node;             /* what it holds; NULL for report */
    const int *order;       /* order of the node's axes in memory, outermost first; NULL: as they are (a variable: its own) */
    int64_t pitch;          /* elements from a sample to the next, of what a scan's step sees of its sequences; 0: no gaps */
} Tensor;
int64_t tensor_bytes(const Tensor *, int64_t samples);
uint8_t half_of(Dtype);                  /* MGPU_HALF_... of the runtime, and its name */
const char *half_text(uint8_t half);
static inline int64_t tensor_pitch(const Tensor *t) { return t->pitch ? t->pitch : shape_count(&t->shape); }

/* an operation of a kernel that may make NaN or infinity of finite numbers, for messages of runs: "log", "head.fc", line. word "":
 * it has none but those whose results may be too large */
typedef struct Suspect { const char *word, *layer; int line; } Suspect;

typedef enum TaskKind { TASK_KERNEL, TASK_REDUCE } TaskKind;
typedef struct Task {       /* in phase->tasks, whose order is a legal order of execution */
    TaskKind kind;
    Kernel *kernel;         /* TASK_KERNEL; its arguments are reads, then writes, then the workspace */
    Tensor **reads;  int read_count;
    Tensor **writes; int write_count; /* a tensor may be in both: updated in place. TASK_REDUCE: the same one in both */
    int64_t workspace_bytes, workspace_bytes_per_sample;
    double flops, flops_per_sample, bytes, bytes_per_sample; /* cost */
    bool backward, update;  /* made by differentiate; behind the reductions */
    const Place *at;
    Suspect *suspects; int suspect_count;
} Task;

typedef struct Phase {
    PhaseKind kind;
    bool ragged;            /* some samples may be missing: sums over samples select the living */
    Graph *graph;
    Tensor **tensors; int tensor_count;
    Task **tasks;     int task_count;
    const char **reports; int report_count; /* names of the doubles in the tensor "report" */
} Phase;

/* ---- the program */
typedef struct Shard { int64_t first, share, capacity; } Shard; /* samples of a micro-batch; capacity = max(share, 1) */
typedef struct Schedule Schedule;
typedef struct Plan {
    int devices;
    const char *kind;       /* "host", "cuda": of all plans of a program */
    int64_t micro;          /* samples of a full micro-batch, all devices */
    Shard *shards;
    bool always_ragged;     /* a device has no share: sums must select in every step */
    Schedule *schedule;
} Plan;

typedef enum Command { COMMAND_COMPILE, COMMAND_CHECK, COMMAND_VERIFY } Command;
typedef struct Options {
    Command command;
    const char *file, *output, *emit, *from, *devices, *arch, *cc, *cxx, *bucket, *model, *command_line /* for messages: "mgpuc model.net --set width=8" */;
    const char **set_keys, **set_values; int set_count;
    bool keep, verbose, json, exact_bodies /* composites by their library bodies */, no_fuse, no_reuse;
    int64_t bucket_bytes;   /* a gradient bucket is closed when it holds this much */
} Options;

typedef enum Target { TARGET_HOST, TARGET_CUDA } Target; /* what kernels are printed for */
typedef struct Program {
    Model *model;
    const Options *options;
    Target target;
    Phase **phases; int phase_count;
    Kernel **kernels; int kernel_count;  /* each text once */
    Map kernel_texts;       /* text -> Kernel: fuse.c */
    Plan *plans; int plan_count;
    const char *gpus;       /* of --devices, if it names some: those of a run that names none; else NULL */
    const char *library_folders; /* where CUDA's libraries are besides the usual places, for the program; NULL: nowhere */
} Program;

/* ---- the schedule: what is printed, parsed, verified and emitted (schedule_text.c documents the format) */
typedef enum Lane { LANE_COMP, LANE_COPY, LANE_COMM, LANE_HOST, LANES } Lane;
typedef enum Verb { VERB_CALL, VERB_READ, VERB_UPLOAD, VERB_REDUCE, VERB_REPORT, VERB_FETCH, VERBS } Verb;
extern const char *const LANE_NAME[LANES], *const VERB_NAME[VERBS];
/* READ: host lane, fills staging with the samples of this step; UPLOAD: copy lane, staging -> device slots (and the
 * step block); CALL: comp lane; REDUCE: comm lane, this device's part of a collective; REPORT, FETCH: host lane, reads
 * the report / predict's outputs. */

typedef enum BufferKind {
    BUFFER_STAGING,     /* host memory that READ fills; slots; its own arena */
    BUFFER_STEP,        /* the step block; slots */
    BUFFER_INPUT,       /* slots */
    BUFFER_VARIABLE, BUFFER_REPORT /* slots */, BUFFER_OUTPUT /* slots */, BUFFER_TEMPORARY, BUFFER_BUCKET,
    BUFFER_WORKSPACE,   /* every thread of the device's team has its own */
    BUFFER_LOCAL,       /* likewise: values of a strip's samples that nothing reads behind it, room for one chunk */
    BUFFER_KINDS
} BufferKind;
extern const char *const BUFFER_KIND_NAME[BUFFER_KINDS];

typedef struct Buffer {
    const char *name;       /* without the device: "in.image", "w.fc.weight", "t12", "bucket0", "work" */
    BufferKind kind;
    int64_t offset, bytes;  /* bytes of one slot; the slots follow each other, each aligned to 64 */
    int slots;              /* 1: not slotted */
    int index;              /* of the input, variable or output; -1 */
    int64_t each;           /* bytes of one sample; 0: the same for all samples */
    int type;               /* + 1: Dtype of its elements; 0: they are of several, or no numbers. Not in the text */
} Buffer;
typedef struct Access { int buffer; int64_t begin, end; int slot; } Access; /* bytes [begin, end) of slot (step + slot) mod slots */
typedef struct Wait { int op, back; } Wait; /* op of the same device in the same phase, `back` steps ago */
typedef struct ScheduledOp {
    const char *id;         /* without the device: "c17" */
    Lane lane;
    Verb verb;
    int target;             /* CALL: number of the kernel in program->kernels; REDUCE: of the collective; FETCH: of the output */
    const char *label;      /* "k12", "r2", "probability"; "-" where there is none */
    Access *reads, *writes; int read_count, write_count; /* CALL: in the order of the kernel's arguments; the
                               workspace is the last write; the last read is the step block, which is no argument */
    Wait *waits; int wait_count;
    double begin_us, time_us;
    int line;               /* in the model; 0 if none */
    int strip;              /* CALL: calls of one strip follow each other, and no barrier of the device's team of threads
                               stands between them; strips are numbered from 0. Else -1 */
    int64_t chunk;          /* CALL: samples that a thread takes through the strip at a time; the same in the whole strip */
    const Suspect *suspects; int suspect_count; /* CALL; not in the text */
    bool by_sample;         /* CALL: may be called for any samples; touches those alone in buffers that have samples */
} ScheduledOp;
typedef struct Collective {
    const char *name;       /* "r2" */
    int *ops;               /* per device: its member */
    int64_t count; Dtype dtype;
    const char *via;        /* "host" */
} Collective;
typedef struct DeviceSchedule {
    const char *name;
    int64_t arena_bytes, staging_bytes, first, share, capacity;
    int64_t work_bytes;     /* the last of the arena, where workspaces lie: every thread of the team has so much of its own */
    Buffer *buffers; int buffer_count;
    ScheduledOp *ops; int op_count;       /* lane by lane order is the order in this list */
} DeviceSchedule;
typedef struct PhaseSchedule {
    const char *name;
    DeviceSchedule *devices;
    Collective *collectives; int collective_count;
} PhaseSchedule;
typedef struct Room { int64_t samples, bytes, work; } Room; /* the arena of a device with so many samples; work: the workspaces, besides */
struct Schedule {
    const char *model, *precision;
    int64_t batch;
    int accumulate, devices;
    PhaseSchedule *phases; int phase_count;  /* parallel to program->phases */
    Room *rooms; int room_count;             /* ascending; not in the text */
};

/* ---- the stages, by file. A stage that takes a Graph returns a new one and leaves the old as it was. */
/* simplify.c       fold, share, drop; composites become better graphs only in differentiate */
Graph *simplify(Graph *);
/* scan.c           loops: what does not depend on what is carried is computed outside, for all steps at once */
Graph *hoist_loops(Graph *);
/* composite.c      COMPOSITE nodes -> primitives: the table's forward (with its own gradient in differentiate), or the body */
bool composite_known(const char *layer, bool training);      /* the elaborator asks which library layers to keep whole */
Graph *inline_bodies(Graph *);                               /* every composite by its library body */
/* differentiate.c  ROLE_LOSS -> ROLE_GRADIENT per trained variable, and ROLE_REPORT loss; composites are expanded */
Graph *differentiate(Graph *train);
/* report.c         metrics and losses -> accumulators, and the graphs that turn them into numbers */
void make_reports(Model *, Graph **train, Graph **eval, Graph **report_train, Graph **report_eval);
/* update.c         GRADIENT leaves -> gradients; clipping; ROLE_REPORT grad_norm; steps that are skipped; averages */
Graph *update(Graph *train);
Graph *count_applied(Graph *);                               /* `step` of other graphs, where steps may be skipped */
/* distribute.c     every node's distribution; REDUCE where Partial must become Replicated */
Graph *distribute(Graph *);
/* accumulate.c     accumulate > 1: cuts at the reductions; adds accumulators to the model */
void split_micro_batches(Model *, Graph *train, Graph **train_last, Graph **accumulate, Graph **prologue);
/* precision.c      F32 -> the model's precision; for bf16, variables that products read get rounded copies first */
void find_rounded_variables(Model *, Graph **graphs, int graph_count);
Graph *choose_precision(Graph *);
/* layout.c         order of variables in memory */
void choose_layout(Model *, Graph **graphs, int graph_count);
/* ragged.c         full: ALIVE is true and the number of samples known; ragged: as it is */
Graph *specialise(Graph *, bool ragged);
/* fuse.c           Graph -> Phase: tensors, kernels, tasks; equal kernels are shared through the program */
Phase *fuse(Program *, Graph *, PhaseKind, bool ragged);
void fuse_twins(Program *); /* for GPUs, when all phases are there: kernels that other kernels' functions do as well */
/* split.c */
void split(const Program *, Plan *);
/* place.c, bucket.c, schedule.c: Phases x Plan -> Schedule; the persistent part has the same offsets in all phases */
Schedule *schedule(const Program *, const Plan *);
/* schedule_text.c */
void schedule_write(const Schedule *, Text *);
Schedule *schedule_read(const char *file, const char *text); /* error_at for what it cannot read; used by verify and tests */
/* verify.c         NULL: proved; else what is wrong, naming both operations and the missing edge */
const char *verify(const Schedule *);
/* emit_kernels.c   host C of all kernels; emit_cuda.c: CUDA C; emit_program.c: tables */
void emit_kernels(const Program *, Text *);
void emit_cuda(const Program *, Text *);
void emit_program(const Program *, Text *);
/* link.c           pieces.h, command.h: runs the C compiler; exit 3 if it is missing or fails */
#endif
