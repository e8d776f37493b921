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
    PHASE_PROLOGUE,     /* accumulate > 1 only: sums of loss weights of one micro-batch, before the step */
    PHASE_ACCUMULATE,   /* forward and backward of a micro-batch that is not the step's last */
    PHASE_TRAIN,        /* forward, backward, reduction, update */
    PHASE_EVAL,         /* forward, accumulation of the report's sums */
    PHASE_PREDICT,      /* forward, outputs to the host */
    PHASE_REPORT_TRAIN, /* metrics from the accumulators of PHASE_TRAIN, which are set to 0 */
    PHASE_REPORT_EVAL,
    PHASE_DECODE, /* of a model that reads a text, one per sample: the output's row at one place, given the places before it */
    PHASE_TRAIN_MORE, /* as PHASE_TRAIN, of the second objective; the next kinds are those of further ones */
    PHASE_KINDS = MGPU_PHASE_KINDS
} PhaseKind;
static inline PhaseKind step_kind(bool predicts) { return predicts ? PHASE_PREDICT : PHASE_TRAIN; } /* whose time is a step's */
/* Returns which part of the steps runs the phase: 1, or of several objectives the part of a round that is its updates. */
double share_of_steps(const Model *, bool predicts, PhaseKind);
/* "train.full", "train.partial", of the second objective "train2.full"; "init" and reports have no suffix */
const char *phase_name(PhaseKind, bool partial_batch);

typedef enum TensorKind { TENSOR_INPUT, TENSOR_VARIABLE, TENSOR_TEMPORARY, TENSOR_OUTPUT, TENSOR_REPORT } TensorKind;
typedef struct Tensor { /* what kernels read and write */
    int id;             /* index in phase->tensors */
    TensorKind kind;
    const char *name; /* unique in the phase: "in.image", "w.fc.weight", "t12", "report" */
    int index;        /* of the input, variable or output */
    Dtype dtype;
    Shape shape;      /* of one sample, axes in memory order */
    bool has_samples; /* one value per sample: its bytes are samples x bytes per sample */
    /* moved by a TASK_TRANSFER, which completes before others read it; its address in a bucket of gradients is aligned as
     * tensor_is_aligned says */
    bool partial;
    Node *node; /* what it holds; NULL for report */
    /* the node's axes in memory, outermost first; NULL: the node's own order (of a variable: the variable's) */
    const int *order;
    bool replaced;     /* variable: a part of it is replaced, and its readers see it as it is afterwards */
    unsigned reversed; /* bit set of the axes in memory that this view has in reverse order */
    int64_t pitch;     /* elements from a sample to the next, for one step's slice of a scan's sequence; 0: no gaps */
} Tensor;
int64_t tensor_bytes(const Tensor *, int64_t samples);
/* Returns true if a task of so many Split elements touches only the device's own range of the tensor. */
static inline bool tensor_is_divided(const Tensor *t, int64_t elements)
{
    return elements > 1 && !t->has_samples && shape_count(&t->shape) == elements;
}
enum { LINE_BYTES = 64 };   /* bytes of a cache line, which threads should not share; parts of a workspace begin at one */
enum { VECTOR_BYTES = 16 }; /* widest access of a GPU thread */
static inline int64_t whole_lines(int64_t bytes) { return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES; }
/* Returns true if the widest accesses may be used. A tensor of any other size may begin at any element of a bucket of
 * gradients. */
static inline bool tensor_is_aligned(const Tensor *t) { return !t->partial || tensor_bytes(t, 1) % VECTOR_BYTES == 0; }
uint8_t half_of(Dtype); /* Returns MGPU_HALF_... of the runtime; half_text returns its name. */
const char *half_text(uint8_t half);
const char *kernel_argument_name(const Tensor *); /* "weight" for "w.fc.weight" */
static inline int64_t tensor_pitch(const Tensor *t) { return t->pitch ? t->pitch : shape_count(&t->shape); }

/* An operation of a kernel that may make NaN or infinity of finite numbers, for messages of runs: "log", "head.fc", line. word
 * "": the kernel has only operations whose results may overflow. */
typedef mgpu_nan_source NanSource;

typedef enum TaskKind { TASK_KERNEL, TASK_TRANSFER /* mgpu_transfers.h */ } TaskKind;
typedef struct Task { /* in phase->tasks, which is a legal order of execution */
    TaskKind kind;
    Kernel *kernel; /* TASK_KERNEL; its arguments are reads, writes and the workspace, in this order */
    /* TASK_TRANSFER, and a kernel of `elements`; parts NULL: the plan's split */
    mgpu_participants participants;
    int part_count;
    /* TASK_KERNEL: > 0: it computes the device's own range of Split values of so many elements. Of tensors of that size it
     * touches only that range, and its samples are the range's elements. 0: no value is Split */
    int64_t elements;
    Tensor **reads;
    int read_count;
    Tensor **writes;
    int write_count; /* a tensor in both is updated in place. TASK_TRANSFER: the same one in both */
    int64_t workspace_bytes, workspace_bytes_per_sample;
    double flops, flops_per_sample, bytes, bytes_per_sample; /* cost */
    double functions, functions_per_sample;                  /* part of the flops: exp, sin, pow and the like */
    double row_sums, row_sums_per_sample;                    /* part of the flops: additions of row sums */
    WorkKind work;                                           /* what kind of work, for the cost model */
    /* The pass of a step that it belongs to; neither is set of the forward pass. backward: the first of its values in memory was
     * made by differentiate, or is recomputed for such a value. update: it runs after the reductions. */
    bool backward, update;
    const struct Task *own_pass; /* the same task with the cost of its pass's members alone; NULL: it has no others */
    bool rematerialized;         /* recomputes values that were dropped */
    bool gathered_once;          /* TASK_TRANSFER of a weight: its result is kept for several uses (plan/gather.c) */
    const Place *at;
    const char *layer; /* the instance that most of the work belongs to: "layer1.0.conv1"; "" at the top */
    NanSource *nan_sources;
    int nan_source_count;
} Task;
/* Return the cost of a call with so many samples, or elements of Split values. */
static inline double task_flops(const Task *t, double units) { return t->flops + t->flops_per_sample * units; }
static inline double task_functions(const Task *t, double units) { return t->functions + t->functions_per_sample * units; }
static inline double task_row_sums(const Task *t, double units) { return t->row_sums + t->row_sums_per_sample * units; }
static inline double task_bytes(const Task *t, double units) { return t->bytes + t->bytes_per_sample * units; }

typedef struct Phase {
    PhaseKind kind;
    bool partial_batch; /* some samples may be padding: sums over samples select the valid ones */
    Graph *graph;
    Tensor **tensors;
    int tensor_count;
    Task **tasks;
    int task_count;
    const char **reports;
    int report_count; /* names of the doubles in the tensor "report" */
} Phase;

int tensor_place(const Tensor *const *list, int count, const Tensor *); /* Returns the index in the list; -1: not in it. */
/* Returns how many samples a call should compute, at least, because of the weights that it reads. */
double task_least_samples(const Task *);
Task *copy_task(const Task *); /* Copies the lists of reads and writes; the tensors stay the same. */
Phase *copy_phase(const Phase *);
const char *tensor_text(const Tensor *); /* for comments: "x f32 n x [28, 28]" */
bool task_is_joined(const Task *);       /* Returns true for a kernel that is the epilogue of the task before it. */

/* fuse.c: Makes a phase of a graph: tensors, kernels, tasks. Equal kernels are shared within the program. */
Phase *fuse(Program *, Graph *, PhaseKind, bool partial_batch);
#endif
