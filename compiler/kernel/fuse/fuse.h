/* fuse.h: what the files of the fuser share. fuse.c calls them in this order:
 *
 *   fuse/channels.c  convolutions of few channels as ones of more, where the target gains by it
 *   fuse/roots.c  which values get kernels of their own (roots) and which are computed where they are used
 *   fuse/merge.c  groups of roots that become one kernel
 *   fuse/rematerialize.c  values that are better computed again than stored; the first two start anew without them
 *   fuse/order.c  in which order the groups run; which updates may happen in place
 *   fuse/build.c  a group as a Kernel
 *   fuse/pack.c   small kernels that follow each other become one
 *   fuse/epilogue.c   kernels that a target may do with a contraction before them
 *
 * fuse/tensors.c and fuse/tasks.c make the tensors and the tasks of all stages.
 *
 * fuse/scan.c makes a kernel of a SCAN: its body is a graph of its own that goes through all of them.
 */
#ifndef MGPU_FUSE_H
#define MGPU_FUSE_H

#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/target.h"

typedef struct FusionGroup FusionGroup;
typedef struct Root Root;

typedef struct Read {       /* of a stored node, at a place in the reader's own axes */
    const Node *node;
    const int64_t *steps;   /* of its offset along each of these axes; NULL: the offset is no such sum */
    Root *copy;             /* not of the node's own tensor, but of what this sink makes of it */
} Read;

/* ROOT_CONCAT: a large one, a nest for each part; small ones are loops with conditions, which can be merged */
typedef enum RootKind { ROOT_LOOPS, ROOT_CONTRACTION, ROOT_REDUCE, ROOT_SCATTER, ROOT_CONCAT, ROOT_SCAN /* a RESULT */ } RootKind;
struct Root {
    RootKind kind;
    int order;              /* place in fusion->roots; operands before users */
    const Node *node;       /* what is made; of a sink, what is written elsewhere */
    Tensor *target;         /* of a sink: where to; else NULL */
    int slot;               /* sinks of the report: which element */
    const Place *at;
    bool early, update, backward;
    Axis axes[MAX_AXES];    /* of its loops */
    int axis_count;
    bool reduces, reduces_samples, samples /* the loops run over samples */, grouped /* GROUP_SUM: never merged */;
    bool alone;             /* never merged: what the scheduler moves by itself (plan/ahead.c) */
    bool parallel_samples;
    int64_t elements;       /* of a split value: the loops run over the device's own part of so many; 0: it is none */
    int64_t full, parallel;     /* iterations of one sample: of all axes, of those that are no reduction axes */
    Root *copy;             /* ROOT_REDUCE: the sink that copies a value which others read too; NULL: in place */
    Root *copy_reader;      /* of such a sink */
    Root *copied;           /* of the sink that copies a new value into its variable: who made it */
    Root **before; int before_count; /* of a sink that writes a variable: who reads the old value */
    Root **sinks; int sink_count;    /* of a reader: those that write what it reads */
    bool behind_report;     /* a sink that runs after the report, whose numbers are not all known yet: never merged */
    /* evaluated alone */
    Read *reads; int read_count;
    double flops;           /* at an iteration */
    int weight;             /* expressions */
    FusionGroup *group;
    /* within its kernel */
    bool outer, in_place;   /* in_place: a sink that may write its variable while others are read */
    bool across;            /* a sum over the kernel's rows, or what is made of such sums alone */
    Expr *sample, *index[MAX_RANK], *value;
    int reduction;
};

struct FusionGroup {
    Root **members; int count;
    FusionGroup *into;      /* merged into that one */
    Root *shape;            /* the member whose axes the kernel has */
    int level, stamp, order, weight;
    int across;             /* sums across its rows */
    bool early, update, queued;
    /* order */
    FusionGroup **after; int after_count; /* those that must run later */
    int waiting;
    bool little;            /* its kernel is one of little work; known of updates only */
    Kernel *kernel;
    Memory *memory;         /* of its kernel; NULL: in a scan's body, whose kernels are part of another one */
};

typedef struct Info {       /* of a node */
    bool needed, root, store; /* store: others need it in memory */
    bool same;              /* stored once and loaded by all readers, for a comparison counts on its bits (same.c) */
    bool in_parts;          /* used where a device computes its own part of a split value */
    bool operand;           /* of a contraction that reads it through a reshape, so in its own order */
    bool matrix, dense;     /* a matmul reads or makes it; something else does that knows no gaps between rows */
    int uses;
    bool expanded;          /* an element is used for more than one element of its users, */
    double around;          /* of so many elements, of all samples */
    int weight;
    double flops, bytes;    /* of computing one element where it is used: estimates */
    Root *maker;
    Tensor *tensor;
    Tensor *gathered;       /* ALL_GATHER: the variable that it is made in; NULL: none */
    Tensor *result;         /* in a body: the value is made there, for whoever called it */
    const bool *hard;       /* SCAN, by input: a contraction of its body reads it */
    Root *part[8];          /* SCAN: the first of its results that are one computation: by samples, early, update */
    Root **readers; int reader_count;
} Info;

typedef struct Fusion Fusion;
struct Fusion {
    Program *program;
    Phase *phase;
    Graph *graph;
    bool separate;          /* every node its own kernel */
    Fusion *around;         /* of a scan's body: what the scan is in; NULL: a phase */
    Memory *kept;           /* of a phase: of what lives as long as the program: tensors, tasks */
    void (*stages)(Fusion *); /* all of them, as fuse.c calls them: groups with their kernels, in order. A scan's body goes through them, too */
    void (*done)(Fusion *, FusionGroup *); /* of a phase: takes the groups, one by one, when their kernels are complete */
    Tensor **arguments, **results; /* of a body: by ARG, by ROLE_RESULT */
    Info *info;
    bool *computed;         /* by node: computed where it is used, though it is used often (fuse/rematerialize.c) */
    Root **roots; int root_count;
    FusionGroup **groups; int group_count;
    Tensor **inputs, **variables, *report; /* by index */
    Tensor **tensors; int tensor_count;    /* all that were made; phase->tensors are those that tasks use */
    Root **writer;          /* of every variable; NULL: none */
    FusionGroup **queue;    /* room for every group */
};

enum { MAX_CHAIN = 8 };                            /* views between a contraction's operand and what is stored */
bool fuse_contracts(const Node *);                 /* it becomes a Contraction, an Attention or Rows */
KernelKind fuse_kind(Op);                          /* of the kernel that makes it, if it is not a part of a nest */
bool is_attention(Op);
/* the stored node after reshapes (and transposes, of an EINSUM's operand; after transposes, of a CONVOLVE's weight) that
 * a contraction can read */
const Node *fuse_operand(const Fusion *, const Node *contraction, int operand);
void fuse_find_roots(Fusion *);
void fuse_merge(Fusion *);
bool fuse_rematerialize(Fusion *);                         /* false: nothing more to be had; else f->computed has changed */
FusionGroup *fuse_group(const Root *);                   /* that it is in */
bool fuse_read_elsewhere(const Fusion *, const Root *);    /* by a group that it is not in, or it is a result */
Root *fuse_maker(const Fusion *, const Read *);    /* NULL: an input or a variable */
FusionGroup *fuse_new_group(Fusion *, Root *);
void fuse_order(Fusion *);                         /* fusion->groups in order */

/* the value of a root as an expression of its own axes; fills exprs and reads */
void fuse_evaluate_alone(Fusion *, Root *);
void fuse_build(Fusion *, FusionGroup *);
void fuse_forget(FusionGroup *);                         /* its kernel; it can be built again */
void fuse_describe(FusionGroup *);                       /* what follows from the nests of its kernel */
bool fuse_little(const FusionGroup *);                   /* a kernel of little work */
void fuse_pack(Fusion *);                          /* builds what is not built yet */
Memory *fuse_keep(const Fusion *);                 /* tensors.c: allocate() is for what lives as long as the program; -> as before */
Task *fuse_task(const Fusion *, const FusionGroup *);    /* tasks.c: what its kernel reads, writes and costs */
/* what SCAN reads for its input: after views that the body can make itself; NULL: nothing that is in memory */
const Node *fuse_scan_operand(const Fusion *, const Node *scan, int input);
Root **fuse_scan_part(const Fusion *, const Root *); /* the first of the results that are one computation with this one */
void fuse_build_scan(Fusion *, FusionGroup *);
void fuse_epilogues(Phase *, const Target *, const char *archs); /* of --arch */
Graph *fuse_fold_channels(const Program *, Graph *); /* the graph itself, if nothing is gained */
/* the graph, where scans read copies of variables that are in an order of their own */
Graph *fuse_straighten(const Fusion *);
Root *fuse_add_root(Fusion *, const Node *, Tensor *target);
void fuse_add_leaves(Fusion *);                    /* inputs, variables, the report */
void fuse_number_tensors(Fusion *);                /* phase->tensors: those that its tasks use */
Tensor *fuse_add_tensor(Fusion *, TensorKind, const char *name, int index, Dtype, const Shape *, bool sharded, Node *);
#endif
