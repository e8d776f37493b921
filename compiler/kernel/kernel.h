/* kernel.h: kernels: loop nests with stages over an expression graph. Targets make functions of them (code/code.h), which are
 * printed as host C and CUDA C.
 *
 *   evaluate.c      (node, index of an element) -> Expr: views are index maps, element-wise operations are trees
 *   expr.c          Exprs: hash-consed; whole-number index arithmetic in canonical form
 *   fuse.c          which values are stored, which kernels are merged, in which order they run
 *   nest.c          a merged kernel's loops: unrolled, split, joined and ordered; which passes it needs
 *   code/           functions as trees, and their printer
 *   loops/, target/ a kernel as such functions, for hosts and for GPUs
 *
 * A Nest loops over the iterations of its axes. Some axes are reduction axes. Its stages are
 *   reductions   of a value at every iteration, over the reduction axes: one result per iteration of the parallel axes
 *   stores       of a value at every iteration (FULL), or at every iteration of the parallel axes (OUTER)
 * in passes over the reduction axes: what needs the result of a reduction of pass p is computed in pass p + 1 (softmax:
 * maximum; sum of exponentials; quotient). Without reduction axes a nest is element-wise and has one pass.
 * If the innermost axis is a reduction axis the nest prints as rows (an accumulator per reduction); if it is parallel it prints
 * as columns (accumulators for a tile of the innermost axis, the reduction loops around it). Rows may also be summed `across`:
 * over the parallel axes, with a result per iteration of the reduction axes. Such sums are there when all rows are done, at the
 * kernel's end, and only stores that are `across`, too, use them. */
#ifndef MGPU_KERNEL_H
#define MGPU_KERNEL_H

#include "compiler/ir/program.h"
#include "compiler/kernel/attention.h"
#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/rows.h"

enum { MAX_AXES = 24, NARROWEST_LANE = 16 /* elements of a row that are worth a vector loop */, LONGEST_RANDOM = 2048 /* random numbers in one array */ };

typedef enum AxisKind {
    AXIS_PLAIN,
    AXIS_GROUPS,   /* groups of `group` consecutive samples: ceil(n / group) of them */
    AXIS_IN_GROUP, /* the samples of the group of the AXIS_GROUPS before it; its value is the sample */
} AxisKind;
typedef struct Axis {
    AxisKind kind;
    int64_t extent;    /* times n, the samples of the device, if `samples` */
    bool samples, reduction;
    int64_t group;
    int64_t elements;  /* > 0, with `samples`: not the samples, but the device's own part of the elements of a split value of so many */
} Axis;

typedef enum ExprKind {
    /* whole numbers of 64 bits: indices */
    X_SUM,      /* constant + sum of factor[i] * in[i]; the operands are no sums, ascending by id */
    X_AXIS,     /* the loop variable of axis `constant` */
    X_FIRST,    /* the first sample that the call computes; where one call computes all, 0 */
    X_DIV,      /* in[0] / constant, rounded down; in[0] is never negative */
    X_MOD,      /* in[0] mod constant, likewise */
    X_INDEX_OF, /* the value in[0] as an index */
    X_SAFE,     /* in[0] where the condition in[1] is true, else `constant`: an offset that may be loaded from anyway */
    /* bool, of indices */
    X_RANGE,    /* other <= in[0] < constant */
    X_BOTH,     /* in[0] and in[1] */
    X_VALID,    /* sample in[0] is real */
    /* values */
    X_NUMBER,   /* number */
    X_COUNT,    /* samples that the call sums: all that it computes or, if `other`, the valid ones among them */
    X_VALUE_OF, /* the index in[0] as a value */
    X_LOAD,     /* element in[0] of `tensor`; where in[1], if there is one, is false: `number` if `other`, else anything */
    X_TABLE,    /* element in[0] of the constant `node`; likewise */
    X_RESULT,   /* of the reduction `constant`; other: across */
    X_RUN,      /* RunScalar `constant`, setting `other` */
    X_RANDOM,   /* of path hash `hash`: element in[0]; if other & 1, sample in[1], else the same for all samples; if
                 * other & 2, the last operand is the element at the start of the innermost loop, along which they follow */
    X_OP,       /* `op` of the operands; DIV of one: its inverse */
} ExprKind;

typedef struct Expr Expr;
struct Expr {
    ExprKind kind;
    Dtype dtype;            /* I64 for indices */
    Op op;                  /* X_OP */
    int id;                 /* order of creation: operands come before their users */
    uint32_t axes;          /* the axes that it changes with: a bit each */
    int pass;               /* passes that must be over before it can be computed */
    int count;
    Expr **in;
    int64_t *factor;        /* X_SUM */
    int64_t constant, other;
    int64_t low, high;      /* indices: the values it can have; an X_INDEX_OF is only used where it is in its range */
    double number;
    uint64_t hash;          /* X_RANDOM: of the path */
    bool initial;           /* X_RANDOM: step and sample are 0: phase init */
    const Tensor *tensor;
    const Node *node;       /* X_TABLE; else a hint for names, not part of the identity */
};

/* the expressions of one nest */
typedef struct Exprs {
    Expr **all;
    int count;
    int *slots, slot_count;
    Axis axis[MAX_AXES];
    int axis_count;
    int innermost;      /* + 1; loads whose guard does not change with that axis become loads from a safe offset; 0: none do */
} Exprs;

/* ---- expr.c */
Expr *expr_index(Exprs *, int64_t);
Expr *expr_axis(Exprs *, int axis);              /* 0 for an axis of extent 1 */
Expr *expr_first(Exprs *);
Expr *expr_add(Exprs *, Expr *, Expr *);
Expr *expr_scale(Exprs *, Expr *, int64_t factor);
Expr *expr_plus(Exprs *, Expr *, int64_t);
Expr *expr_div(Exprs *, Expr *, int64_t divisor); /* rounds down; divisor > 0 */
Expr *expr_mod(Exprs *, Expr *, int64_t divisor); /* 0 .. divisor - 1 */
/* extent > 0: it is only used under a guard that it is in 0 .. extent - 1; 0: anywhere */
Expr *expr_index_of(Exprs *, Expr *value, int64_t extent);
Expr *expr_range(Exprs *, Expr *index, int64_t low, int64_t high); /* NULL: always true */
Expr *expr_both(Exprs *, Expr *, Expr *);        /* NULL: true */
Expr *expr_valid(Exprs *, Expr *sample);
Expr *expr_number(Exprs *, double, Dtype);
Expr *expr_count(Exprs *, bool valid, Dtype);    /* X_COUNT, in a store that is OUTER */
Expr *expr_value_of(Exprs *, Expr *index, Dtype);
Expr *expr_load(Exprs *, const Tensor *, Expr *offset, Expr *guard);
Expr *expr_table(Exprs *, const Node *, Expr *offset, Expr *guard);
Expr *expr_select(Exprs *, Expr *condition, Expr *value, double otherwise); /* condition NULL: value */
Expr *expr_result(Exprs *, int reduction, bool across, Dtype, int pass, const Node *hint);
Expr *expr_run(Exprs *, int64_t scalar, int64_t setting);
Expr *expr_random(Exprs *, uint64_t path_hash, Expr *element, Expr *sample, bool initial, Dtype);
Expr *expr_op(Exprs *, Op, Dtype, Expr **in, int count, const Node *hint);
bool expr_is_number(const Expr *, double *value);
bool expr_is_index(const Expr *);
int64_t expr_factor(const Expr *index, int axis); /* of the axis alone; 0 if absent */
/* e in another set: axis k becomes axes[k]; memo[e->id] remembers */
Expr *expr_rewrite(Exprs *to, Expr *e, Expr *const *axes, Expr **memo);
/* the index of an element as one number, and back; strides are row-major */
Expr *expr_flatten(Exprs *, const Shape *, Expr *const *index);
void expr_unflatten(Exprs *, const Shape *, Expr *flat, Expr **index);

/* ---- evaluate.c: node -> Expr */
typedef struct Evaluation Evaluation;
struct Evaluation {
    Exprs *exprs;
    bool initial;           /* phase init */
    bool divided;           /* several calls may compute some of the samples each */
    /* what a stored element is (X_LOAD, X_RESULT, or what this nest makes of it); NULL: compute it from its inputs */
    Expr *(*stored)(void *context, Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard);
    void *context;
    struct Known *known;    /* (node, sample, index, guard) -> Expr */
    int known_count, *known_slots, known_slot_count;
};
/* sample: NULL for nodes that are the same for all samples; guard: the element exists where it is true; NULL: always */
Expr *evaluate(Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard);
Expr *evaluate_own(Evaluation *, const Node *, Expr *sample, Expr *const *index, Expr *guard); /* `stored` is not asked */
enum { MOST_UNROLLED = 4 }; /* longer chains of maxima are more than gcc makes vectors of */
bool node_is_loop_reduction(const Node *);      /* sums over axes of a nest: all others are element-wise */
/* the axes of the nest that makes the node: samples first, then for a reduction what it runs over, else its shape. The
 * axes that are no reduction axes are in the order of the node's own. */
int node_axes(const Node *, Axis *axes);
Axis axis_of_split(const Shape *);              /* of values that are split: a device's own part of the elements */
/* the value at one iteration of these axes; index[k] belongs to axes[k] */
Expr *evaluate_point(Evaluation *, const Node *, Expr *const *index);
/* Of MOMENTS, whose value at an iteration is the distance from it: an element of the call's first sample, in the middle of the axes that are summed. So
 * the sums of distances and of their squares lose nothing, however far the values are from 0. */
Expr *evaluate_pivot(Evaluation *, const Node *, Expr *const *index);

/* ---- nests */
typedef enum ReductionKind { REDUCE_SUM, REDUCE_MAX, REDUCE_ARGMAX } ReductionKind;
typedef struct Reduction {
    ReductionKind kind;
    Expr *value;            /* at every iteration */
    Expr *place;            /* ARGMAX: what the result is at that iteration */
    Dtype dtype;            /* of the result */
    bool in_double;         /* a long sum of F32 is accumulated in double; its result is rounded unless `dtype` is F64 */
    bool across;            /* a sum over the parallel axes, of rows */
    int64_t partial;        /* bytes from the start of the workspace to its partial sums: nest->partial, or across */
    const Node *node;
} Reduction;

typedef struct Store {
    const Tensor *tensor;
    Expr *offset, *value, *guard;
    bool outer;             /* at the parallel axes only, after all passes; */
    bool across;            /* or, if it is across, too, at the reduction axes only, at the kernel's end */
    bool add;               /* += ; one iteration after the other */
    int moment;             /* > 0: MOMENT_... + 1: of the iterations of a call; those of several calls are merged (nest_has_moments) */
    int64_t run, apart;     /* run > 0: the lanes are in runs of so many elements, whose beginnings are so many apart; the */
                            /* offset is that of the first lane */
    const Node *node;
} Store;

/* how threads of a GPU share a nest (cuda/share.c) */
typedef enum Sharing {
    SHARE_ITERATIONS,   /* a thread for each parallel iteration, or for each vector of them; it alone takes the reduction iterations */
    SHARE_GROUPS,    /* a group of threads for each parallel iteration; they take the reduction iterations in turn */
    SHARE_COLUMNS,  /* a block for parallel iterations that are neighbours: threads side by side for these, the others take the reduction
                     * iterations in turn */
    SHARE_ROWS,     /* of a table that is added to: a warp owns some of the rows, for some of the parallel iterations; it looks at all
                     * reduction iterations in their order */
} Sharing;
typedef struct Share {
    Sharing sharing;
    int lanes;              /* GROUPS: threads of a group; COLUMNS: threads side by side */
    int unrolled; /* GROUPS: steps of a thread through its row, which it keeps from pass to pass; 0: not known, or too many */
    int owners, parts;      /* ROWS: how many warps divide the rows, a power of two, and how many the parallel iterations */
    int vector;             /* > 1: extent of the innermost axis, all of which one thread takes at once; else 1 */
    int ragged;             /* GROUPS: lanes of a row's last vector; 0: all */
    int64_t slice;          /* partial results: of a part of the reduction iterations, so many (or vectors of them) or more, */
    int slices;             /* at most so many parts; 0: no partial results */
    int blocks_before, finish_before; /* of other nests of the kernel, of its end */
    bool narrow;            /* all indices fit into 31 bits */
    Expr **base; int bases; /* by the id of an index that is contiguous along the vector: where the vector begins */
} Share;

typedef struct Nest {
    Exprs *exprs;           /* axes: outermost first */
    Reduction *reductions; int reduction_count;
    Store *stores;         int store_count;
    int passes;
    bool columns;           /* the innermost axis is parallel, others are reduction axes */
    bool serial;            /* stores may meet: no vector loop over the innermost axis */
    int divided;            /* + 1: the axis that the workers divides; 0: none */
    int64_t grain;          /* MGPU_SPLIT_WORKERS: of that axis */
    bool partial;           /* that axis is a reduction axis: results are partial, and OUTER stores belong to the kernel's end */
    bool merges;            /* host: likewise, of a nest of moments: those of calls, and of threads, are merged */
    int across;             /* sums across its rows */
    int owned;              /* + 1: the axis of the kernel's owned rows; 0: none */
    int64_t owned_iterations;   /* of that axis, of each row */
    const Expr *row;        /* of a scatter: the row that an iteration adds to, if threads own rows */
    int64_t fold;           /* columns with partial sums: results are those of lanes mod `fold`; 0: each lane has its own */
    Share share;
} Nest;

/* ---- scans: a loop over steps that calls kernels (fuse/scan.c), for a chunk of samples at a time. What the loop works
 * on is in the workspace: buffers for one chunk, or, of values without samples, the thread's own. */
typedef struct ScanBuffer { const Tensor *tensor; int64_t offset; } ScanBuffer; /* in the workspace */
typedef struct ScanCarry {
    const Tensor *now, *next;   /* change places after each step */
    int64_t at[2];
    const Tensor *initial;      /* NULL: all elements begin as `fill` */
    double fill;
    const Tensor *last;         /* where its value goes after the last step; NULL: nowhere */
} ScanCarry;
typedef struct ScanSlice { const Tensor *slice, *whole; bool stack; } ScanSlice; /* what one step sees of a sequence or a stack */
typedef struct ScanCall {
    Kernel *kernel;
    int64_t work;               /* offset of its workspace; -1: it has none */
    bool fresh;                 /* what it reads that is the same for all samples is not so for all steps */
} ScanCall;
typedef struct Scan {
    const Node *node;
    int64_t steps, chunk, work_bytes;
    bool reverse, samples;
    ScanCarry *carries; int carry_count;
    ScanSlice *slices; int slice_count;
    ScanBuffer *buffers; int buffer_count;
    ScanCall *calls; int call_count;
    double flops, flops_per_sample; /* of all steps */
    double contraction_flops;       /* of its contractions, for a sample */
} Scan;

/* What a kernel is made of. Rows of a kind: what it is and costs in kinds.c, which operations it makes and how in fuse/roots.c and
 * fuse/build.c, its text in host/target.c and cuda/kinds.c */
typedef enum KernelKind { KERNEL_NESTS, KERNEL_CONTRACTION, KERNEL_ATTENTION, KERNEL_ROWS, KERNEL_SCAN, KERNEL_KINDS } KernelKind;

struct Kernel {
    KernelKind kind;
    int number;
    uint64_t digest;        /* the first bits of its identity: the same in every program, whatever the paths of its random numbers */
    const char *name;       /* "k12" */
    const char *label;      /* "k3f07aa": of its digest, the same whatever else is in the program; schedules call it so. NULL: the name */
    const char *title;      /* "relu(conv_1 + bias)" */
    const char *extent_text; /* "[n, 14, 14, 256] f32": of what it makes; NULL: it is not known */
    const struct Code *code;        /* of nests and scans: the function, after its name (code/code.h) */
    const struct Code *finish_code; /* its end, likewise; NULL: it has none */
    const char *text;       /* pseudo-code of a scan: target/trace */
    /* Kernels that differ only in the paths of their random numbers share one body: */
    uint64_t *paths; int path_count; /* hashes of the paths, in the order of the text */
    Kernel *body;           /* the first of them; NULL: no random numbers */
    int body_users;
    /* On GPUs kernels that differ in what launches hand over (numbers, paths) are one, of the first of them; those of
     * contractions with split-K do what is not split, too: */
    const Kernel *canonical;     /* that one; NULL: the kernel has functions of its own */
    uint32_t *parameters; int parameter_count; /* of nests: what cuda/parameters.c has a launch hand over, */
    const char *parameter_words;          /* "at[0] 64, f32(1) 0.5f" */
    const char **parameter_at;            /* of a canonical one, by number of its text: "given.at[0]"; NULL: it stays */
    int together;           /* of a canonical one: calls that one launch does at most; 0: one */
    const Kernel *in_tiles_of;            /* a contraction that this one does in other tiles, for who times both; NULL: it is none */
    const Kernel *both[2];      /* a contraction and its epilogue that this one does in one call; NULL: it is none; */
    bool preferred;             /* rather than a library the contraction */
    const Place *at;
    Nest *nests; int nest_count; /* nests NULL: the program has its text and needs them no more */
    uint8_t split;          /* MGPU_SPLIT_...: how the workers of a thread pool share the work (mgpu.h) */
    int64_t extent, grain;  /* MGPU_SPLIT_RANGE */
    int64_t partial_bytes;  /* of the partial sums in a thread's workspace; 0: no function `finish` */
    /* MGPU_SPLIT_WORKERS, a scatter: threads own parts of a table (mgpu_scatter.h) */
    int64_t owned_rows, owned_columns, column_grain; /* rows 0: it is none; columns 1: not divided */
    const Tensor *index;    /* that rows are shared out by; NULL: equally many */
    bool small;             /* so little work that vector code is not worth the C compiler's time */
    Contraction *contraction;   /* instead of nests, */
    Attention *attention;       /* likewise, */
    Rows *rows;                 /* likewise, */
    Scan *scan;                 /* likewise */
    const struct Epilogue *epilogue; /* what it is to a contraction, in tasks that follow one; NULL: nothing */
    const Tensor **reads;  int read_count;   /* arguments in this order; of the task that made the kernel */
    const Tensor **writes; int write_count;
};

static inline const Kernel *kernel_function(const Kernel *k) { return k->canonical ? k->canonical : k; } /* whose functions it has */
static inline const char *kernel_label(const Kernel *k) { return k->label ? k->label : format("k%d", k->number); }
const char *node_word(const Node *); /* fuse/roots.c: "relu": what readers call it */
bool *nest_needed(const Nest *); /* nest.c: by expression: its stores and reductions need it; rewriting leaves others over */
/* nest.c: splits, joins and orders the axes; sets passes, columns, in_double */
void nest_finish(Nest *, const Target *);
void nest_split_axis(Nest *, int axis, int64_t by); /* axis -> (axis / by, axis mod by) */
void nest_widen(Nest *);                            /* columns of few lanes, with partial sums: more lanes, which fold */
/* fuse/scan.c: that part of a kernel's operations for a sample that are contractions' */
double kernel_contraction_flops(const Kernel *, double flops_per_sample);
int64_t nest_result_iterations(const Nest *);             /* of the parallel axes, or, across, of the reduction axes; those without samples */
/* an OUTER store of this function of the kernel */
static inline bool store_is_outer(const Nest *nest, const Store *s, bool finish) { return s->outer && finish == (nest->partial || s->across); }
/* the axis, or `term`, is one digit of the offset: iterations that differ in it have different offsets, whatever the others are */
bool offset_is_digit(const Expr *offset, int axis, const Expr *term, int64_t factor, int64_t extent);
/* the term of a scatter's offset that the index makes, and its factor; NULL: there is none, or it is outside of all loops */
const Expr *offset_row_term(const Expr *offset, int64_t *factor);
Dtype reduction_type(const Reduction *);            /* of its accumulator */
static inline bool nest_has_moments(const Nest *nest) { return nest->store_count > 0 && nest->stores[0].moment > 0; } /* and nothing else */
bool scan_keeps(const Scan *);                        /* its workspace must not be used by others between two steps around it */
#endif
