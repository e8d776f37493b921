/* phase.h: a graph made into tasks: tensors, kernels, what each task reads and writes. */
#ifndef MGPU_KERNEL_PHASE_H
#define MGPU_KERNEL_PHASE_H

#include "compiler/ir/graph.h"
#include "compiler/machine/work.h"
#include "runtime/abi/mgpu.h"

typedef struct Kernel Kernel;
typedef struct Program Program;

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
    PHASE_DECODE,       /* of a model that reads a text, of which each sample is one: the output's row at one place, after those before */
    PHASE_KINDS
} PhaseKind;
static inline PhaseKind step_kind(bool predicts) { return predicts ? PHASE_PREDICT : PHASE_TRAIN; } /* whose time is a step's */
const char *phase_name(PhaseKind, bool partial_batch); /* "train.full", "train.partial"; "init" and reports have no suffix */

typedef enum TensorKind { TENSOR_INPUT, TENSOR_VARIABLE, TENSOR_TEMPORARY, TENSOR_OUTPUT, TENSOR_REPORT } TensorKind;
typedef struct Tensor {     /* what kernels read and write */
    int id;                 /* place in phase->tensors */
    TensorKind kind;
    const char *name;       /* unique in the phase: "in.image", "w.fc.weight", "t12", "report" */
    int index;              /* of the input, variable or output */
    Dtype dtype;
    Shape shape;            /* of one sample, axes in memory order */
    bool sharded;           /* bytes = samples x per sample */
    bool partial;           /* a TASK_TRANSFER's, which is done before others may read it; then its bytes, in a bucket, are
                               aligned as tensor_is_aligned says */
    Node *node;             /* what it holds; NULL for report */
    const int *order;       /* order of the node's axes in memory, outermost first; NULL: as they are (a variable: its own) */
    unsigned reversed;      /* bits: axes in memory that a view of it has from their last element to the first */
    int64_t pitch;          /* elements from a sample to the next, of what a scan's step sees of its sequences; 0: no gaps */
} Tensor;
int64_t tensor_bytes(const Tensor *, int64_t samples);
/* a task of so many split elements touches the device's own part of it */
static inline bool tensor_is_own(const Tensor *t, int64_t elements) { return elements > 1 && !t->sharded && shape_count(&t->shape) == elements; }
enum { LINE_BYTES = 64 };                /* of a cache: what threads should not share; parts of a workspace begin at one */
enum { VECTOR_BYTES = 16 };              /* that a thread of a GPU accesses at once, at most */
static inline int64_t whole_lines(int64_t bytes) { return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES; }
/* for the widest accesses: what is no multiple of them may begin at any element of a bucket of gradients */
static inline bool tensor_is_aligned(const Tensor *t) { return !t->partial || tensor_bytes(t, 1) % VECTOR_BYTES == 0; }
uint8_t half_of(Dtype);                  /* MGPU_HALF_... of the runtime, and its name */
const char *half_text(uint8_t half);
const char *kernel_argument_name(const Tensor *); /* "weight" for "w.fc.weight" */
static inline int64_t tensor_pitch(const Tensor *t) { return t->pitch ? t->pitch : shape_count(&t->shape); }

/* an operation of a kernel that may make NaN or infinity of finite numbers, for messages of runs: "log", "head.fc", line. word "":
 * it has none but those whose results may be too large */
typedef mgpu_suspect Suspect;

typedef enum TaskKind { TASK_KERNEL, TASK_TRANSFER /* a transfer: mgpu_transfers.h */ } TaskKind;
typedef struct Task {       /* in phase->tasks, whose order is a legal order of execution */
    TaskKind kind;
    Kernel *kernel;         /* TASK_KERNEL; its arguments are reads, then writes, then the workspace */
    mgpu_parties parties; int part_count; /* TASK_TRANSFER, and a kernel of `elements`; parts NULL: as the plan splits it */
    int64_t elements;       /* TASK_KERNEL: it computes a device's own part of split values of so many elements: of tensors of that
                               size it touches the own part alone, and its samples are the part's elements; 0: none of them is split */
    Tensor **reads;  int read_count;
    Tensor **writes; int write_count; /* a tensor may be in both: updated in place. TASK_TRANSFER: the same one in both */
    int64_t workspace_bytes, workspace_bytes_per_sample;
    double flops, flops_per_sample, bytes, bytes_per_sample; /* cost */
    double functions, functions_per_sample; /* of the flops: exp, sin, pow and the like */
    double row_sums, row_sums_per_sample; /* of the flops: additions of sums of rows */
    WorkKind work;          /* what kind of work, for the cost model */
    bool backward, update;  /* made by differentiate; after the reductions */
    bool again;             /* of what was dropped: it computes its values again */
    bool kept;              /* TASK_TRANSFER of a weight: what it makes is there for more than one use (plan/gather.c) */
    const Place *at;
    const char *layer;      /* the instance that most of it belongs to: "layer1.0.conv1"; "" at the top */
    Suspect *suspects; int suspect_count;
} Task;
/* of a call with so many samples, or elements of split values */
static inline double task_flops(const Task *t, double units) { return t->flops + t->flops_per_sample * units; }
static inline double task_functions(const Task *t, double units) { return t->functions + t->functions_per_sample * units; }
static inline double task_row_sums(const Task *t, double units) { return t->row_sums + t->row_sums_per_sample * units; }
static inline double task_bytes(const Task *t, double units) { return t->bytes + t->bytes_per_sample * units; }

typedef struct Phase {
    PhaseKind kind;
    bool partial_batch;            /* some samples may be missing: sums over samples select the valid samples */
    Graph *graph;
    Tensor **tensors; int tensor_count;
    Task **tasks;     int task_count;
    const char **reports; int report_count; /* names of the doubles in the tensor "report" */
} Phase;

int tensor_place(const Tensor *const *list, int count, const Tensor *); /* -1: it is not there */
Task *copy_task(const Task *);   /* with reads and writes of its own; the tensors are the same */
Phase *copy_phase(const Phase *);
const char *tensor_text(const Tensor *); /* for comments: "x f32 n x [28, 28]" */
bool task_is_joined(const Task *);       /* a kernel that is the epilogue of the task before it */

/* fuse.c           Graph -> Phase: tensors, kernels, tasks; equal kernels are shared through the program */
Phase *fuse(Program *, Graph *, PhaseKind, bool partial_batch);
#endif
