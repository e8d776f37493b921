/* kernel.h: kernels, which are loop nests over expression graphs. Targets lower them to functions (code/code.h), which are
 * printed as host C and CUDA C.
 *
 *   evaluate.c      (node, index of an element) -> Expr: views are index maps, element-wise operations are trees
 *   expr.c          Exprs: hash-consed; integer index arithmetic in canonical form
 *   fuse/           which values are stored, which kernels are merged, in which order they run
 *   nest.c          a merged kernel's loops: unrolled, split, joined and ordered; the number of passes
 *   code/           functions as trees, and their printer
 *   loops/, target/ kernels lowered to such functions, for hosts and for GPUs
 *
 * A Nest loops over the iterations of its axes. Some axes are reduction axes. The nest computes
 *   reductions   of a value at every iteration, over the reduction axes: one result per iteration of the parallel axes
 *   stores       of a value at every iteration (FULL), or at every iteration of the parallel axes (OUTER)
 * in passes over the reduction axes: what needs the result of a reduction of pass p is computed in pass p + 1 (softmax: maximum;
 * sum of exponentials; quotient). Without reduction axes a nest is element-wise and has one pass. If the innermost axis is a
 * reduction axis, the nest prints as rows (an accumulator per reduction). If it is parallel, the nest prints as columns
 * (accumulators for a tile of the innermost axis, the reduction loops around it). Rows may also be summed `across`: over the
 * parallel axes, with a result per iteration of the reduction axes. Such a sum is complete after the last row, at the kernel's
 * end, and only stores that are `across` may use it. */
#ifndef MGPU_KERNEL_H
#define MGPU_KERNEL_H

#include "compiler/ir/program.h"
#include "compiler/kernel/attention.h"
#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/rows.h"

enum {
    MAX_AXES = 24,
    NARROWEST_LANE = 16,  /* shortest row that is worth a vector loop */
    LONGEST_RANDOM = 2048 /* random numbers in one array */
};

typedef enum AxisKind {
    AXIS_PLAIN,
    AXIS_GROUPS,   /* groups of `group` consecutive samples: ceil(n / group) of them */
    AXIS_IN_GROUP, /* the samples of the group in the AXIS_GROUPS before it; the loop variable is the sample */
} AxisKind;
typedef struct Axis {
    AxisKind kind;
    int64_t extent; /* if `samples`, multiplied by n, the samples of the device */
    bool samples, reduction;
    int64_t group;
    int64_t elements; /* > 0: the axis is the device's own range of a Split value of so many elements; `samples` is set, too */
} Axis;

typedef enum ExprKind {
    /* 64-bit integers: indices */
    X_SUM,      /* constant + sum of factor[i] * in[i]; no operand is an X_SUM; in ascending order of id */
    X_AXIS,     /* the loop variable of axis `constant` */
    X_FIRST,    /* the first sample that the call computes; 0 if one call computes all */
    X_PLACE,    /* the place in the batch of the sample 0 of the call: the place of sample s is s more */
    X_DIV,      /* in[0] / constant, rounded down; in[0] is never negative */
    X_MOD,      /* in[0] mod constant, likewise */
    X_INDEX_OF, /* the value in[0] as an index */
    X_SAFE,     /* in[0] if the condition in[1] is true, else `constant`: an offset that is always safe to load from */
    /* bool, of indices */
    X_RANGE, /* other <= in[0] < constant */
    X_AND,   /* in[0] and in[1] */
    X_VALID, /* sample in[0] is valid */
    /* values */
    X_NUMBER,   /* number */
    X_COUNT,    /* number of samples that the call computes or, if `other`, of the valid ones among them */
    X_VALUE_OF, /* the index in[0] as a value */
    X_LOAD,     /* element in[0] of `tensor`; if in[1] exists and is false: `number` if `other`, else any value */
    X_TABLE,    /* element in[0] of the constant `node`; the rest as of X_LOAD */
    X_RESULT,   /* result of the reduction `constant`; other: the reduction is `across` */
    X_RUN,      /* RunScalar `constant`, setting `other` */
    /* random number of path hash `hash` and element in[0]; if other & 1, of sample in[1], else the same for all samples; if other
     * & 2, the last operand is the element at the start of the innermost loop, along which elements are consecutive */
    X_RANDOM,
    X_OP, /* `op` of the operands; DIV of one operand: its reciprocal */
} ExprKind;

typedef struct Expr Expr;
struct Expr {
    ExprKind kind;
    Dtype dtype;   /* I64 for indices */
    Op op;         /* X_OP */
    int id;        /* order of creation: operands come before their users */
    uint32_t axes; /* bit set of the axes that its value depends on */
    int pass;      /* number of passes that must be complete before it can be computed */
    int count;
    Expr **in;
    int64_t *factor; /* X_SUM */
    int64_t constant, other;
    int64_t low, high; /* indices: range of its values; an X_INDEX_OF is only used where it is in its range */
    double number;
    uint64_t hash; /* X_RANDOM: hash of the path */
    bool initial;  /* X_RANDOM: true in phase init, where step and sample are 0 */
    const Tensor *tensor;
    const Node *node; /* X_TABLE: the constant; else a hint for names, not part of the identity */
};

/* the expressions of one nest */
typedef struct Exprs {
    Expr **all;
    int count;
    int *slots, slot_count;
    Axis axis[MAX_AXES];
    int axis_count;
    int innermost; /* axis + 1; loads whose guard does not depend on that axis become loads from a safe offset; 0: none do */
} Exprs;

/* ---- expr.c */
Expr *expr_index(Exprs *, int64_t);
Expr *expr_axis(Exprs *, int axis); /* Returns index 0 for an axis of extent 1. */
Expr *expr_first(Exprs *);
Expr *expr_place(Exprs *);
Expr *expr_add(Exprs *, Expr *, Expr *);
Expr *expr_scale(Exprs *, Expr *, int64_t factor);
Expr *expr_plus(Exprs *, Expr *, int64_t);
Expr *expr_div(Exprs *, Expr *, int64_t divisor); /* Rounds down; divisor > 0. */
Expr *expr_mod(Exprs *, Expr *, int64_t divisor); /* Returns a value in 0 .. divisor - 1. */
/* Returns the value as an index. extent > 0: it is only used under a guard that it is in 0 .. extent - 1; 0: anywhere. */
Expr *expr_index_of(Exprs *, Expr *value, int64_t extent);
Expr *expr_range(Exprs *, Expr *index, int64_t low, int64_t high); /* Returns NULL if always true. */
Expr *expr_and(Exprs *, Expr *, Expr *);                           /* NULL stands for true, as operand and as result. */
Expr *expr_valid(Exprs *, Expr *sample);
Expr *expr_number(Exprs *, double, Dtype);
Expr *expr_count(Exprs *, bool valid, Dtype); /* X_COUNT, for a store that is OUTER */
Expr *expr_value_of(Exprs *, Expr *index, Dtype);
Expr *expr_load(Exprs *, const Tensor *, Expr *offset, Expr *guard);
Expr *expr_table(Exprs *, const Node *, Expr *offset, Expr *guard);
Expr *expr_select(Exprs *, Expr *condition, Expr *value, double otherwise); /* condition NULL: returns value */
Expr *expr_result(Exprs *, int reduction, bool across, Dtype, int pass, const Node *hint);
Expr *expr_run(Exprs *, int64_t scalar, int64_t setting);
Expr *expr_random(Exprs *, uint64_t path_hash, Expr *element, Expr *sample, bool initial, Dtype);
Expr *expr_op(Exprs *, Op, Dtype, Expr **in, int count, const Node *hint);
bool expr_is_number(const Expr *, double *value);
bool expr_is_index(const Expr *);
int64_t expr_factor(const Expr *index, int axis); /* Returns the factor of the axis as a term of its own; 0 if there is none. */
/* Copies e into another set, where axis k becomes axes[k]; memo[e->id] caches the copies. */
Expr *expr_rewrite(Exprs *to, Expr *e, Expr *const *axes, Expr **memo);
/* Convert the index of an element to one integer and back; strides are row-major. */
Expr *expr_flatten(Exprs *, const Shape *, Expr *const *index);
void expr_unflatten(Exprs *, const Shape *, Expr *flat, Expr **index);

/* ---- evaluate.c: node -> Expr */
typedef struct Evaluation Evaluation;
struct Evaluation {
    Exprs *exprs;
    bool initial; /* phase init */
    bool divided; /* true if the samples may be divided among several calls */
    /* Returns a stored element (X_LOAD, X_RESULT, or the value that this nest computes for it), or NULL: compute it from its
     * inputs. */
    Expr *(*stored)(void *context, Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard);
    void *context;
    struct Known *known; /* (node, sample, index, guard) -> Expr */
    int known_count, *known_slots, known_slot_count;
};
/* Returns an element of a node. sample: NULL for nodes that have one value for all samples; guard: condition under which the
 * element exists; NULL: always. */
Expr *evaluate(Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard);
/* does not call `stored` for n */
Expr *evaluate_computed(Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard);
enum { MOST_UNROLLED = 4 };                /* gcc does not vectorize longer chains of maxima */
bool node_is_loop_reduction(const Node *); /* true if the node reduces over axes of a nest; all others are element-wise */
/* Writes the axes of the node's nest and returns their number: samples first, then for a reduction the axes of its input, else
 * those of its shape. Parallel axes have the order of the node's axes. */
int node_axes(const Node *, Axis *axes);
Axis axis_of_split(const Shape *); /* Returns the axis of a nest that computes the device's own range of a Split value. */
/* Returns the value at one iteration of these axes; index[k] belongs to axes[k]. */
Expr *evaluate_point(Evaluation *, const Node *, Expr *const *index);
/* Returns the pivot of MOMENTS: the element of the call's first sample in the middle of the summed axes. The nest sums distances
 * from the pivot and their squares, which lose no precision, however far the values are from 0. */
Expr *evaluate_pivot(Evaluation *, const Node *, Expr *const *index);

/* ---- nests */
typedef enum ReductionKind { REDUCE_SUM, REDUCE_MAX, REDUCE_ARGMAX } ReductionKind;
typedef struct Reduction {
    ReductionKind kind;
    Expr *value;     /* value at every iteration */
    Expr *place;     /* ARGMAX: index that is the result if that iteration has the maximum */
    Dtype dtype;     /* of the result */
    bool in_double;  /* a sum of many F32 is accumulated in double; its result is rounded unless `dtype` is F64 */
    bool over_rows;  /* sums rows over the parallel axes */
    int64_t partial; /* offset of its partial sums in the workspace, in bytes: nest->partial, or across */
    const Node *node;
} Reduction;

typedef struct Store {
    const Tensor *tensor;
    Expr *offset, *value, *guard;
    bool outer;     /* stored once per iteration of the parallel axes, after all passes */
    bool over_rows; /* stored once per iteration of the reduction axes, at the kernel's end, if `outer`, too */
    bool add;       /* adds to the element (+=), in the order of iterations */
    bool part;      /* it replaces a part of the tensor; the rest keeps its values, so that the kernel also reads the tensor */
    int moment;     /* > 0: MOMENT_... + 1 of the call's iterations; moments of several calls are merged (nest_has_moments) */
    /* run > 0: the lanes are in runs of so many elements, whose beginnings are `apart` elements apart; the offset is that of the
     * first lane */
    int64_t run, apart;
    const Node *node;
} Store;

/* how the threads of a GPU divide a nest (cuda/map_threads.c) */
typedef enum MappingKind {
    MAP_ITERATIONS, /* a thread per parallel iteration, or per vector of them; it executes all reduction iterations */
    MAP_GROUPS,     /* a group of threads per parallel iteration, which divide the reduction iterations */
    /* a block per tile of neighbouring parallel iterations: a row of threads has one thread for each of them, and the block's
     * rows divide the reduction iterations */
    MAP_COLUMNS,
    /* of a table that is added to: a warp owns some of the rows, for some of the parallel iterations; it scans all reduction
     * iterations in order */
    MAP_ROWS,
} MappingKind;
typedef struct ThreadMapping {
    MappingKind kind;
    int lanes;    /* GROUPS: threads of a group; COLUMNS: threads of a row of the block */
    int unrolled; /* GROUPS: vectors of a row that a thread keeps in registers between passes; 0: unknown, or too many */
    /* ROWS: number of warps, a power of two, that divide the rows; number of ranges of parallel iterations */
    int owners, parts;
    int vector;     /* > 1: extent of the innermost axis, which one thread computes at once; else 1 */
    int tail_lanes; /* GROUPS: lanes of a row's last vector; 0: all */
    /* partial results are of slices of at least `slice` reduction iterations (or vectors of them); there are at most `slices`; 0:
     * no partial results */
    int64_t slice;
    int slices;
    int blocks_before, finish_before; /* blocks before its own, of other nests of the kernel and of its finishing function */
    bool narrow;                      /* all indices fit into 31 bits */
    Expr **base;
    int bases; /* by id of an index that is contiguous along the vector: the index of the vector's first element */
} ThreadMapping;

typedef struct Nest {
    Exprs *exprs; /* axes: outermost first */
    Reduction *reductions;
    int reduction_count;
    Store *stores;
    int store_count;
    int passes;
    bool columns;      /* the innermost axis is parallel, others are reduction axes */
    bool serial;       /* several iterations may store to one element: no vector loop over the innermost axis */
    int divided;       /* the axis that workers divide + 1; 0: none */
    int64_t grain;     /* MGPU_SPLIT_WORKERS: iterations of that axis */
    bool partial;      /* that axis is a reduction axis: results are partial, and OUTER stores are executed at the kernel's end */
    bool merges;       /* host: likewise, for a nest of moments: those of calls and of workers are merged */
    int row_sum_count; /* number of reductions that are `across` */
    int owned;         /* the axis along which rows are owned (kernel->owned_rows) + 1; 0: none */
    int64_t owned_iterations; /* iterations of that axis per row */
    const Expr *row;          /* scatter: the row that an iteration adds to, if threads own rows */
    int64_t fold;             /* columns with partial sums: lane i adds to result i mod `fold`; 0: each lane has its own result */
    ThreadMapping mapping;
} Nest;

/* ---- scans: a loop over steps that calls kernels (fuse/scan.c), for a chunk of samples at a time. Its buffers are in the
 * workspace: they hold one chunk or, for values without samples, are per thread. */
typedef struct ScanBuffer {
    const Tensor *tensor;
    int64_t offset;
} ScanBuffer; /* offset in the workspace, in bytes */
typedef struct ScanCarry {
    const Tensor *now, *next; /* exchanged after each step */
    int64_t at[2];
    const Tensor *initial; /* NULL: all elements begin as `fill` */
    double fill;
    const Tensor *last; /* tensor that gets the value after the last step; NULL: none */
} ScanCarry;
typedef struct ScanSlice {
    const Tensor *slice, *whole;
    bool stack;
} ScanSlice; /* one step's part of a sequence or a stack */
typedef struct ScanCall {
    Kernel *kernel;
    int64_t work; /* offset of its workspace, in bytes; -1: it has none */
    bool fresh;   /* an input that is the same for all samples changes from step to step */
} ScanCall;
typedef struct Scan {
    const Node *node;
    int64_t steps, chunk, work_bytes;
    bool reverse, samples;
    ScanCarry *carries;
    int carry_count;
    ScanSlice *slices;
    int slice_count;
    ScanBuffer *buffers;
    int buffer_count;
    ScanCall *calls;
    int call_count;
    double flops, flops_per_sample; /* of all steps */
    double contraction_flops;       /* of its contractions, per sample */
} Scan;

/* The kind of a kernel. kinds.c has each kind's identity and cost, fuse/roots.c and fuse/build.c the operations and how they are
 * built, host/target.c and cuda/kinds.c the printers. */
typedef enum KernelKind { KERNEL_NESTS, KERNEL_CONTRACTION, KERNEL_ATTENTION, KERNEL_ROWS, KERNEL_SCAN, KERNEL_KINDS } KernelKind;

struct Kernel {
    KernelKind kind;
    int number;
    uint64_t digest;         /* first bits of the identity: equal in every program and for all paths of random numbers */
    const char *name;        /* "k12" */
    const char *label;       /* "k3f07aa": made of its digest, the same in every program; schedules print it. NULL: the name */
    const char *title;       /* "relu(conv_1 + bias)" */
    const char *extent_text; /* "[n, 14, 14, 256] f32": type and shape of the result; NULL: unknown */
    const struct Code *code; /* nests and scans: the function without its name (code/code.h) */
    const struct Code *finish_code; /* the finishing function, likewise; NULL: none */
    const char *text;               /* pseudo-code, by target/trace */
    /* Kernels that differ only in the paths of their random numbers share one body: */
    uint64_t *paths;
    int path_count; /* hashes of the paths, in the order of the text */
    Kernel *body;   /* the first of them; NULL: no random numbers */
    int body_users;
    /* On GPUs, kernels that differ only in launch parameters (numbers, paths) share the functions of the first of them. Functions
     * of contractions with split-K also execute contractions that are not split: */
    const Kernel *canonical; /* the kernel whose functions are used; NULL: this one has its own */
    uint32_t *parameters;
    int parameter_count;         /* of nests: the words that a launch passes (cuda/parameters.c) */
    const char *parameter_words; /* "at[0] 64, f32(1) 0.5f" */
    const char **parameter_at;   /* canonical kernels, by number in the text: "given.at[0]"; NULL: a constant of the code */
    int calls_per_launch;        /* canonical kernels: the most calls in one launch; 0: one */
    /* the contraction that this kernel computes in other tiles, to be timed against it; NULL: none */
    const Kernel *in_tiles_of;
    const Place *at;
    Nest *nests;
    int nest_count;        /* nests NULL: the program has the text and no longer needs them */
    uint8_t split;         /* MGPU_SPLIT_...: how the workers of a thread pool divide the work (mgpu.h) */
    int64_t extent, grain; /* MGPU_SPLIT_RANGE */
    int64_t partial_bytes; /* bytes of partial sums in a worker's workspace; 0: no function `finish` */
    /* MGPU_SPLIT_WORKERS, a scatter: workers own rectangles of a table (mgpu_scatter.h) */
    int64_t owned_rows, owned_columns, column_grain; /* rows 0: no scatter; columns 1: not divided */
    const Tensor *index;                             /* the index by which rows are divided; NULL: equal numbers of rows */
    bool exact;                                      /* sums over samples are a tree of virtual shards (Model.exact) */
    int64_t unit;                                    /* see mgpu_kernel.unit; 0: any */
    bool small;                                      /* so little work that vector code is not worth the compilation time */
    Contraction *contraction;                        /* set in place of nests, as one of the next three may be */
    Attention *attention;
    Rows *rows;
    Scan *scan;
    const struct Epilogue *epilogue; /* its role, if it is fused with a contraction's task before it; NULL: none */
    const Tensor **reads;
    int read_count; /* arguments in this order, of the task that made the kernel */
    const Tensor **writes;
    int write_count;
};

/* phase.c: Returns the types of the results of an exact program's kernel as C, if some of them are sums over samples; else
 * NULL. */
const char *kernel_types_of_sums(const Kernel *);
/* Returns the kernel whose functions k uses. */
static inline const Kernel *kernel_function(const Kernel *k) { return k->canonical ? k->canonical : k; }
static inline const char *kernel_label(const Kernel *k) { return k->label ? k->label : format("k%d", k->number); }
const char *node_word(const Node *); /* Returns the word for titles (fuse/roots.c): "relu". */
bool *nest_needed(const Nest *);     /* nest.c: by expression: a store or reduction needs it; rewriting leaves unused ones */
/* nest.c: Splits, joins and orders the axes; sets passes, columns and in_double. */
void nest_finish(Nest *, const Target *);
void nest_split_axis(Nest *, int axis, int64_t by); /* axis -> (axis / by, axis mod by) */
void nest_widen(Nest *);                            /* Widens columns of few lanes with partial sums to more lanes, which fold. */
/* fuse/scan.c: Returns the operations per sample that are those of contractions. */
double kernel_contraction_flops(const Kernel *, double flops_per_sample);
/* Returns the number of results without samples: iterations of the parallel axes or, across, of the reduction axes. */
int64_t nest_result_iterations(const Nest *);
/* Returns true if the store is an OUTER store of this function of the kernel. */
static inline bool store_is_outer(const Nest *nest, const Store *s, bool finish)
{
    return s->outer && finish == (nest->partial || s->over_rows);
}
/* Returns true if the axis, or `term`, is one digit of the offset: iterations that differ in it have different offsets, whatever
 * the other axes are. */
bool offset_is_digit(const Expr *offset, int axis, const Expr *term, int64_t factor, int64_t extent);
/* Returns the term of a scatter's offset that comes from the index, and its factor; NULL: none, or it is outside of all loops. */
const Expr *offset_row_term(const Expr *offset, int64_t *factor);
/* Returns true if the results are sums over samples of an exact program: the kernel is called for each virtual shard, and has a
 * term for each. On hosts those with `finish` have these in their workspaces. */
bool kernel_sums_shards(const Kernel *);
Dtype reduction_type(const Reduction *); /* Returns the type of the accumulator. */
/* Returns true if the nest computes moments, and nothing else. */
static inline bool nest_has_moments(const Nest *nest) { return nest->store_count > 0 && nest->stores[0].moment > 0; }
/* Returns true if its workspace must keep its contents between two calls in an enclosing scan. */
bool scan_keeps(const Scan *);
#endif
