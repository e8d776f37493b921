/* fuse.h: what the files of the fuser share. fuse.c calls them in this order:
 *
 *   fuse/channels.c       convolutions of few channels become ones of more, where the target gains by it
 *   fuse/roots.c          which values get kernels of their own (roots) and which are computed where they are used
 *   fuse/merge.c          groups of roots that become one kernel
 *   fuse/rematerialize.c  values that are better recomputed than stored; the first two stages are repeated without them
 *   fuse/order.c          in which order the groups run; which variables are updated in place
 *   fuse/build.c          a group as a Kernel
 *   fuse/pack.c           small consecutive kernels become one
 *   fuse/epilogue.c       kernels that a target may fuse with the contraction before them
 *
 * fuse/tensors.c and fuse/tasks.c make the tensors and the tasks of all stages. fuse/scan.c makes a kernel of a SCAN: its body is
 * a graph of its own that goes through all stages. */
#ifndef MGPU_FUSE_H
#define MGPU_FUSE_H

#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/target.h"

typedef struct FusionGroup FusionGroup;
typedef struct FusionRoot FusionRoot;

typedef struct Read { /* a stored node, read at an index in the reader's own axes */
    const Node *node;
    const int64_t *steps; /* factors of the reader's axes in its offset; NULL: the offset is not a sum of axes */
    FusionRoot *copy;     /* the sink whose result is read in place of the node's own tensor; NULL: none */
} Read;

/* ROOT_CONCAT: a large one, with a nest per part. Small ones are loops with conditions, which can be merged. */
typedef enum RootKind { ROOT_LOOPS, ROOT_CONTRACTION, ROOT_REDUCE, ROOT_SCATTER, ROOT_CONCAT, ROOT_SCAN /* a RESULT */ } RootKind;
struct FusionRoot {
    RootKind kind;
    int order;        /* index in fusion->roots; operands come before users */
    const Node *node; /* what is computed; of a sink (a result of the graph): the value that is written to `target` */
    Tensor *target;   /* of a sink: the tensor that is written; else NULL */
    int slot;         /* sinks of the report: index of the element */
    const Place *at;
    bool early, update, backward;
    const Shape *shape;  /* of the value, or of the row that is replaced (Info.replaced) */
    Axis axes[MAX_AXES]; /* axes of its loops */
    int axis_count;
    bool reduces, reduces_samples, samples /* the loops run over samples */, grouped /* GROUP_SUM: never merged */;
    bool not_merged; /* never merged, because the scheduler moves it (plan/gather_starts.c) */
    bool parallel_samples;
    int64_t elements;       /* > 0: the loops run over the device's own range of a Split value of so many elements */
    int64_t full, parallel; /* iterations per sample: of all axes, and of the parallel axes */
    /* ROOT_REDUCE: the sink that copies the value, because others read it, too; NULL: the transfer is in place */
    FusionRoot *copy;
    FusionRoot *copy_reader; /* of such a sink: its transfer */
    FusionRoot *copied;      /* of the sink that copies a new value into its variable: the root that computes the value */
    FusionRoot **before;
    int before_count; /* of a sink that writes a variable: the roots that read the old value */
    FusionRoot **result_writers;
    int result_writer_count; /* of a reader: the sinks that write what it reads */
    bool after_report;       /* a sink that runs after the report, some of whose numbers are not known yet: never merged */
    /* set by fuse_evaluate_root */
    Read *reads;
    int read_count;
    double flops; /* per iteration */
    int weight;   /* number of expressions */
    FusionGroup *group;
    /* set while its kernel is built */
    /* outer: at the parallel iterations; in_place: the sink may write its variable while others are read */
    bool outer, in_place;
    bool over_rows; /* a sum over the kernel's rows, or what is computed only from such sums */
    Expr *sample, *index[MAX_RANK], *value;
    int reduction;
};

struct FusionGroup {
    FusionRoot **members;
    int count;
    FusionGroup *into; /* NULL, or the group that it was merged into */
    FusionRoot *shape; /* the member whose axes are the kernel's axes */
    int level, stamp, order, weight;
    int row_sum_count; /* number of members that are sums across rows */
    bool early, update, queued;
    /* set by fuse_order */
    FusionGroup **after;
    int after_count; /* groups that must run after it */
    int waiting;
    bool small; /* its kernel is small; known of updates only */
    Kernel *kernel;
    Memory *memory; /* owner of its kernel; NULL: in a scan's body, whose kernels belong to the scan's kernel */
};

typedef struct Info {         /* about a node */
    bool needed, root, store; /* store: others need it in memory */
    /* stored once and loaded by all readers, because a comparison relies on equal bits (passes/compute_once.c) */
    bool computed_once;
    bool in_parts;      /* used where a device computes its own range of a Split value */
    bool operand;       /* a contraction reads it through a reshape, so it is stored in its own order */
    bool matrix, dense; /* matrix: a matmul reads or makes it; dense: a user requires rows without gaps */
    int uses;
    bool expanded; /* an element is used for several elements of its users */
    double around; /* elements, of all samples, that its users compute */
    int weight;
    double flops, bytes; /* estimates for computing one element where it is used */
    FusionRoot *maker;
    Tensor *tensor;
    Tensor *gathered;              /* ALL_GATHER: the variable that it is gathered into; NULL: none */
    Tensor *replaced;              /* INDEX_COPY: the variable in which it replaces a row; NULL: none */
    Tensor *result;                /* of a value of a body: the caller's tensor that it is computed into */
    const bool *contraction_reads; /* SCAN, by input: a contraction of the body reads it */
    FusionRoot *scan_results[8];   /* SCAN: the first root of the results that are computed together: by samples, early, update */
    FusionRoot **readers;
    int reader_count;
} Info;

typedef struct Fusion Fusion;
struct Fusion {
    Program *program;
    Phase *phase;
    Graph *graph;
    bool separate;            /* every node has its own kernel */
    Fusion *around;           /* of a scan's body: the Fusion of the graph that contains the scan; NULL: of a phase */
    Memory *program_memory;   /* of a phase: memory for what lives as long as the program: tensors, tasks */
    void (*stages)(Fusion *); /* runs all stages, so that groups with their kernels are in order; a scan's body uses it, too */
    void (*done)(Fusion *, FusionGroup *); /* of a phase: takes each group when its kernel is complete */
    Tensor **arguments, **results;         /* of a body: by index of ARG, by index of ROLE_RESULT */
    Info *info;
    bool *computed; /* by node: it is rematerialized where it is used (fuse/rematerialize.c) */
    FusionRoot **roots;
    int root_count;
    FusionGroup **groups;
    int group_count;
    int stamps; /* searches for paths so far, by which each marks the groups that it has seen (FusionGroup.stamp) */
    Tensor **inputs, **variables, *report; /* by index */
    Tensor **tensors;
    int tensor_count;    /* all tensors; phase->tensors are those that tasks use */
    FusionRoot **writer; /* by variable: the sink that writes it; NULL: none */
    FusionGroup **queue; /* has room for every group */
};

enum { MAX_CHAIN = 8 };            /* most views between a contraction's operand and the stored value */
bool fuse_contracts(const Node *); /* Returns true if it becomes a Contraction, an Attention or Rows. */
KernelKind fuse_kind(Op);          /* Returns the kind of its kernel, if it is not part of a nest. */
bool is_attention(Op);
/* Returns the stored node that a contraction reads in place of an operand, through reshapes, and transposes of an EINSUM's
 * operand or of a CONVOLVE's weight. */
const Node *fuse_operand(const Fusion *, const Node *contraction, int operand);
void fuse_find_roots(Fusion *);
void fuse_merge(Fusion *);
bool fuse_rematerialize(Fusion *);                            /* Adds nodes to f->computed; false: none were found. */
FusionGroup *fuse_group(const FusionRoot *);                  /* the group that contains it */
bool fuse_read_elsewhere(const Fusion *, const FusionRoot *); /* by another group, or it is a result */
FusionRoot *fuse_maker(const Fusion *, const Read *);         /* NULL: it is an input or a variable */
FusionGroup *fuse_new_group(Fusion *, FusionRoot *);
void fuse_order(Fusion *); /* puts fusion->groups in order */

/* Evaluates a root as an expression of its own axes; sets `reads`, `flops` and `weight`. */
void fuse_evaluate_root(Fusion *, FusionRoot *);
void fuse_build(Fusion *, FusionGroup *);
void fuse_forget(FusionGroup *);         /* frees the kernel, which can be built again */
void fuse_describe(FusionGroup *);       /* sets what follows from the nests of its kernel */
bool fuse_is_small(const FusionGroup *); /* Returns true if its kernel is small. */
void fuse_pack(Fusion *);                /* builds what is not built yet */
/* tensors.c: allocate() uses memory of the program's lifetime; returns the one before */
Memory *fuse_use_program_memory(const Fusion *);
Task *fuse_task(const Fusion *, const FusionGroup *); /* tasks.c: what its kernel reads, writes and costs */
/* Returns the value in memory that a SCAN reads for its input, through views that the body can compute; NULL: none is in
 * memory. */
const Node *fuse_scan_operand(const Fusion *, const Node *scan, int input);
/* the first root of the results that are computed with this one */
FusionRoot **fuse_scan_results(const Fusion *, const FusionRoot *);
void fuse_build_scan(Fusion *, FusionGroup *);
void fuse_epilogues(Phase *, const Target *, const char *archs); /* archs: of --arch */
Graph *fuse_fold_channels(const Program *, Graph *);             /* Returns the graph itself if nothing is gained. */
/* Returns the graph in which scans read row-major copies of variables that have another order. */
Graph *fuse_copy_reordered(const Fusion *);
FusionRoot *fuse_add_root(Fusion *, const Node *, Tensor *target);
void fuse_add_leaves(Fusion *);     /* makes the tensors of inputs, variables, and the report */
void fuse_number_tensors(Fusion *); /* sets phase->tensors: those that its tasks use */
Tensor *fuse_add_tensor(Fusion *, TensorKind, const char *name, int index, Dtype, const Shape *, bool has_samples, Node *);
#endif
