/* graph.h: the IR between text and kernels, and the model that the elaborator hands to the compiler.
 *
 * A Graph is a list of Nodes in topological order. Shapes are those of ONE SAMPLE; `sharded` says that a node has a
 * value for every sample (an implicit leading axis, split over devices), else it is the same for all samples.
 * A node that is not sharded although an input is, sums over the samples (SUM, EINSUM, CONVOLVE_WEIGHT, SCATTER_ADD):
 * the stage `distribute` types its value Partial.
 *
 * Conventions
 *   - element-wise operations: all inputs have the node's shape exactly (BROADCAST is explicit) and one dtype
 *     (CAST is explicit), except the condition of WHERE (bool); an input may be the same for all samples.
 *   - reductions drop their axes (keep = true is a RESHAPE after them).
 *   - F32 in a graph means "the model's float"; the stage `precision` rewrites it.
 *   - `weak` marks numbers computed of literals and run scalars (step, progress, rates): rank 0, F64 until they meet a
 *     tensor, whose dtype they take (graph_binary does this).
 */
#ifndef MGPU_GRAPH_H
#define MGPU_GRAPH_H

#include "compiler/base/base.h"
#include "runtime/abi/mgpu.h"

enum { MAX_RANK = 8 };

typedef enum Dtype { BOOL, U8, I8, U16, I16, U32, I32, I64, F16, BF16, F32, F64, DTYPES } Dtype;
const char *dtype_name(Dtype);          /* "f32" */
int dtype_bytes(Dtype);
bool dtype_is_half(Dtype);                 /* BF16, F16: how values are in memory; kernels calculate in F32 */
bool dtype_is_float(Dtype);
bool dtype_by_name(const char *, Dtype *);
Dtype dtype_promote(Dtype, Dtype);      /* language reference, section 6 */
Dtype dtype_summed(Dtype);              /* of what is added up: narrow whole numbers and bools are i32 */

typedef struct Shape { int rank; int64_t extent[MAX_RANK]; } Shape;
int64_t shape_count(const Shape *);     /* elements; 1 for rank 0; checked against overflow where shapes are made */
bool shape_equal(const Shape *, const Shape *);
const char *shape_text(const Shape *);  /* "[28, 28]" */
Shape shape_of(int rank, const int64_t *extents);
#define SHAPE(...) shape_of(COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})
#define SCALAR shape_of(0, NULL)

typedef enum OpClass { LEAF, ELEMENTWISE, REDUCTION, CONTRACTION, WINDOW, VIEW, INDEXING, MARK, REGION } OpClass;
typedef enum Op {
#define OP(name, ...) OP_##name,
#include "compiler/ir/ops.def"
    OPS
} Op;

/* Sharded: by sample. Replicated: the same on every device. Partial: a sum over devices is pending. Split: by element range, each
 * device has its own range and others may be anything. Local: each device has a value of its own. Transfers lead from one to
 * another: mgpu_transfers.h. */
typedef enum Distribution { UNTYPED, REPLICATED, SHARDED, PARTIAL, SPLIT, LOCAL } Distribution;

typedef struct Graph Graph;
typedef struct Model Model;
typedef struct Node Node;
struct Node {
    Op op;
    int id;                 /* place in graph->nodes */
    Dtype dtype;
    bool sharded, weak;
    Distribution distribution; /* filled by `distribute` */
    Shape shape;            /* of one sample */
    int inputs;
    Node **in;
    int64_t *ints;          /* attributes; their meaning is said in the op's row of ops.def */
    int int_count;
    double *data;           /* CONSTANT: row-major elements, or one for all; PAD: the value */
    int64_t data_count;
    const char *text;       /* EINSUM: "ab,bc->ac"; RANDOM: the operation's path; COMPOSITE: the layer's name; WHERE: what is
                             * required, where it makes NaN of what is not so; NULL: a choice */
    Graph *body;            /* COMPOSITE, SCAN; a body is never changed once its node is there */
    const char *name;       /* the variable of the program that it was assigned to, or NULL; for readers */
    const char *path;       /* the instance it belongs to: "layer1.0.conv1"; "" at the top */
    const Place *at;        /* the line that made it; kept to the end */
    bool backward;          /* made by differentiate */
    Graph *graph;
    Node *mapped;             /* scratch of graph_copy and of passes: what this node became */
};

/* What a graph is for. Roles of its results: */
typedef enum Role {
    ROLE_LOSS,    /* value, weight (NULL: 1 each): one term; name */
    ROLE_METRIC,  /* value, weight; value may contain TOTAL */
    ROLE_OUTPUT,  /* value: a column of predict */
    ROLE_UPDATE,  /* index = variable: its value after the step */
    ROLE_INIT,    /* index = variable: its initial value (in model->init only) */
    ROLE_REPORT,  /* name: a scalar for the host after the step: loss, loss.NAME, lr, grad_norm, metric names */
    ROLE_GRADIENT,/* index = variable: after differentiate; dropped by update */
    ROLE_RESULT,  /* results of a body (COMPOSITE, SCAN bodies), in order */
    ROLES
} Role;
typedef struct Result {
    Role role;
    const char *name;
    int index;
    Node *value, *weight;
    const Place *at;
} Result;

/* what an ARG of a body is: the input as it is; in a SCAN also the carry that begins as the input, and the
 * step's slice of the input along axis 0 */
typedef enum CaptureKind { AS_IT_IS, AS_CARRY, AS_SEQUENCE } CaptureKind;

struct Graph {
    Model *model;
    Graph *parent;          /* a body's enclosing graph; NULL at the top */
    const char *name;       /* "train" */
    Node **nodes;
    int node_count;
    Result *results;
    int result_count;
    Node **captured;        /* body: the parent's nodes that ARG 0, 1, ... are, and how */
    int captured_count;
    CaptureKind *kinds;
    int kind_count;
    /* what new nodes get */
    const Place *at;
    const char *path;
    bool backward;
    /* for sharing; owned by graph.c */
    struct Slot { uint32_t hash; int node; /* + 1 */ } *slots;
    int slot_count, slots_used;
    Map args;               /* id of the parent's node -> its ARG */
    Memory *memory;         /* of nodes and results */
};

/* ---- leaves that read the step block */
typedef enum RunScalar {
    RUN_STEP,         /* applied steps + 1: 1, 2, ... */
    RUN_EPOCH,        /* fractional */
    RUN_PROGRESS,     /* 0 .. 1 */
    RUN_TOTAL_STEPS,
    RUN_TOTAL_EPOCHS,
    RUN_SAMPLES,      /* real samples of the whole step, all devices and micro-batches */
    RUN_MICRO,        /* number of the micro-batch in the step: 0, 1, ... */
    RUN_SETTING,      /* ints[1]: index in model->settings; NaN where the user gave none */
    RUN_SCALARS
} RunScalar;

/* ---- the model */
enum { NO_LABEL = INT32_MIN };
typedef struct Input {
    const char *name;
    Dtype dtype;                 /* as it is in memory: u8, f32 ...; class(n): the smallest type that holds n and ignore */
    Shape shape;
    int64_t classes;             /* class(n): n, else 0 */
    int64_t ignore, other;       /* class(..., ignore =, other =); NO_LABEL: none */
    const char *required;        /* what losses and metrics require of it, in words; NULL: nothing */
    int64_t least, most;         /* required: of its elements, which are whole numbers */
    bool hidden;                 /* not the model's: the runtime gives it */
    const Place *at;
} Input;

/* CACHE: what `decode` keeps from place to place, for no other phase: decode.c. ROUNDED: the copy of another variable that
 * products read: precision.c. AVERAGE: of another variable over the steps, which evaluation reads in its place: update.c.
 * OBSERVED: a copy of a gradient, for the host alone: update.c */
typedef enum VariableKind { WEIGHT, STATE, OPTIMIZER_STATE, ACCUMULATOR, ROUNDED, AVERAGE, OBSERVED, CACHE } VariableKind;
typedef struct Variable {
    const char *name;            /* "layer1.0.conv1.weight"; unique; the name in safetensors */
    VariableKind kind;
    Dtype dtype;
    Shape shape;                 /* as declared, as saved */
    int order[MAX_RANK];         /* order of the axes in memory, outermost first; identity unless `layout` changes it */
    bool trained;                /* gets a gradient */
    bool partial;                /* ACCUMULATOR: each device holds a part of the sum */
    bool split;                  /* each device holds its own part of the elements: passes/shard.c */
    bool sharded;                /* CACHE: it has a value for every sample, on the device that has the sample */
    int owner;                   /* OPTIMIZER_STATE, OBSERVED: the weight; ROUNDED, AVERAGE: the variable that it replaces; else -1 */
    int clip;                    /* trained: 0: the model's bound of gradients; else number in model->clips, from 1 */
    const char *flattened;       /* of a dense layer of flattened pictures, channels last: their shape in words; NULL: of no such layer */
    const Place *at;
} Variable;

typedef enum ClipKind { CLIP_NONE, CLIP_GLOBAL_NORM, CLIP_NORM, CLIP_VALUE } ClipKind;
typedef struct Clip { ClipKind kind; double limit; } Clip; /* of a rule: the norm is that of its own weights */

/* NONE: not given; NEVER: none was written; TIMES: validations; SHARE: of the run */
typedef enum QuantityUnit {
    UNIT_NONE, UNIT_NEVER, UNIT_STEPS, UNIT_EPOCHS, UNIT_SAMPLES, UNIT_SECONDS, UNIT_TIMES, UNIT_SHARE
} QuantityUnit;
typedef struct Quantity { double amount; QuantityUnit unit; } Quantity;

/* a number of the data set valid that the run looks at; metric NULL: none */
typedef struct Watch { const char *metric; bool highest; const Place *at; } Watch;
/* a rate's factor, settings[setting], that the runtime multiplies by `factor` when the number got no better */
typedef struct Plateau { int setting; Watch watch; double factor; Quantity patience; } Plateau;

/* initial values from a file. pattern NULL: of the train block: all names are the model's. path NULL: `init = none` of a rule.
 * array: file("w.npy") */
typedef struct Initial {
    const char *path, *pattern;
    bool array;
    const Place *at;
    int *variables; int variable_count;
    const char **names;          /* parallel: in the file */
    const char *rules;           /* for names and shapes: a name of the library, a path, or their text; NULL: the file's own */
} Initial;

/* A data set: calls[0] is a reader, the others are stages; columns are the reader's. runtime/abi/mgpu.h says more. */
typedef mgpu_item DataItem;
typedef struct DataOption { const char *name; DataItem *items; int count; } DataOption;
typedef struct DataCall { const char *name; DataOption *options; int option_count; const Place *at; } DataCall;
typedef struct DataColumn {
    const char *name;
    int input;                   /* that takes it, or one made of it; -1: only a stage needs it */
    const char **texts;          /* paths, columns of a table */
    int count;
    const Place *at;
} DataColumn;
typedef struct DataSet {
    const char *name;            /* train, valid, test */
    DataColumn *columns;  int column_count;
    DataCall *calls;      int call_count;
} DataSet;

typedef mgpu_told Told;
/* hidden: not for --set: the runtime gives it, or nothing reads it */
typedef struct Setting { const char *name; double value; const char *text; const Place *at; bool given, hidden; } Setting;

typedef mgpu_later_set LaterSet;

struct Model {
    const char *name, *file;
    const char *identity;        /* of what the training graph computes: graph_identity */
    Source *source;
    const char **files;   int file_count;      /* that were read: the program's text and what it imports */
    Input *inputs;        int input_count;
    Variable *variables;  int variable_count;
    DataSet *sets;        int set_count;
    LaterSet *later;
    int later_count;
    Setting *settings;    int setting_count;   /* those a program takes at run time: lr, decay, ...: RUN_SETTING's index */
    const char **fixed;   int fixed_count;     /* params and settings that only mgpuc --set reaches */
    Told *told;           int told_count;
    Graph *init;          /* ROLE_INIT for every WEIGHT, STATE, OPTIMIZER_STATE and AVERAGE */
    Graph *train;         /* LOSS, METRIC, UPDATE of states; UPDATE of weights and optimizer states in terms of GRADIENT
                             leaves; REPORT "lr". NULL: the model has no loss, and only predicts */
    Graph *eval;          /* LOSS (reported like metrics), METRIC, OUTPUT; `training` was false */
    int64_t batch, accumulate, epochs, steps; /* steps 0: epochs decide */
    const Place *batch_at; /* where the batch is set; else the train block, else the model. NULL: of a dump */
    int64_t group;        /* least common multiple of all batchnorm groups; shards begin at multiples of it; 1 if none */
    ClipKind clip_kind;
    double clip;
    Clip *clips;          int clip_count;      /* of rules */
    enum { AVERAGE_NONE, AVERAGE_EMA, AVERAGE_SWA } average;
    double average_decay;                      /* EMA */
    Quantity average_start, average_every;     /* SWA */
    enum { NAN_STOP, NAN_SKIP, NAN_IGNORE } on_nan;
    enum { OBSERVE_NOTHING, OBSERVE_METRICS, OBSERVE_GRADIENTS, OBSERVE_ALL } observe; /* what each step reports, or keeps */
    int skipped;          /* the variable that counts the steps without an update; -1: every step has one */
    int loss_scale, scaled_steps; /* F16: the variables that gradients are multiplied by, and of the good steps since it changed; -1 */
    bool fit_accumulate;  /* accumulate = "auto": the fewest micro-batches that fit */
    bool one_batch;       /* fit_accumulate: the text refuses micro-batches, as samples depend on sums over the whole batch */
    bool recompute;       /* "auto": what does not fit into memory is recomputed in the backward pass */
    Quantity validate, save, patience;
    int64_t keep;         /* 0: not given */
    Watch best;
    Plateau *plateaus;    int plateau_count;
    Initial *initials;    int initial_count;
    uint64_t seed;
    Dtype precision;      /* F32, F64, BF16, F16 */
    bool tf32;            /* products of F32 may round their operands to 10 bits of fraction: on GPUs they do */
    bool shard_statistics;/* a batchnorm with stats = "shard": results depend on the devices */
    /* the layer table of `mgpuc check`: instances in order of their calls */
    struct LayerRow { const char *name; const Place *at; Shape shape; int64_t parameters; double flops; } *layers;
    int layer_count;
    DataCall *outline;    int outline_count;   /* of evaluation: dsl/outline.c */
    int not_yet;          /* how many located "not yet" warnings elaboration gave; mgpuc refuses to compile if any */
};

/* ---- ops.def as a table */
typedef enum Linear { NOT_LINEAR, LINEAR, LINEAR_IN_EACH, LINEAR_BUT_FIRST, LINEAR_BUT_SECOND } Linear;
typedef struct OpInfo {
    const char *name;        /* "einsum": in dumps */
    OpClass op_class;
    int inputs;              /* -1: any number */
    const char *attributes;  /* how dumps write them: "text [*]" */
    Linear linear;           /* for linear.c */
    const char *meaning;     /* ELEMENTWISE: a C expression of a, b, c; else NULL */
    double flops;            /* ELEMENTWISE: per element */
    const char *signature, *equation; /* for docs/language.md; signature NULL: internal */
} OpInfo;
extern const OpInfo OP_INFO[OPS];

/* ---- transfer.c: nodes that are rows of mgpu_transfers.h */
int transfer_of(Op);                                       /* MGPU_TRANSFER_...; -1: it is none */
const char *transfer_word(int transfer);                   /* "reduce": the name of its node, and of the schedule's verb */
static inline bool op_is_transfer(Op op) { return transfer_of(op) >= 0; }
static inline bool op_reduces(Op op) { return op == OP_REDUCE || op == OP_REDUCE_MOMENTS; } /* what `distribute` inserts */
enum { MOMENT_COUNT, MOMENT_MEAN, MOMENT_SQUARES, MOMENTS }; /* the first axis of MOMENTS */
mgpu_parties transfer_parties(const Node *);               /* of a transfer; parts NULL: as the plan splits it */
const char *transfer_wrong_parts(const Node *);            /* NULL: what is given of a split is one, and the inputs are split alike */
/* Of a node some of whose inputs are Split or Local, or that is a transfer, given the distribution of its inputs: its own; or what
 * is wrong, and UNTYPED. */
bool transfer_types(const Node *, const Distribution *in);
bool node_is_split(const Node *);                          /* Split, and of more than one element: kernels compute a device's own part */
bool node_sums_all(const Node *);                          /* SUM over all axes */
bool node_sums_split(const Node *);                        /* over all elements of a Split value: a device adds up its own part */
bool node_keeps_elements(const Node *);                    /* element-wise, or a reshape */
void graph_mark_split(Graph *);                            /* what follows from transfers and split variables, in a graph made anew */
const int64_t *node_parts(const Node *, int *count);       /* of a Split value: where its parts begin; NULL: as the plan splits it */
Distribution transfer_type(const Node *, const Distribution *in, const char **wrong);

/* summed.c: by node: name of the weight whose gradient it is, before or after a transfer sums it; NULL: of none */
const char **graph_summed_weights(const Graph *);
const bool *graph_summed_gradients(const Graph *);        /* by id: whether a node is a REDUCE or REDUCE_SCATTER of a gradient */

/* graph.c, for body.c: a node from its op, inputs and attributes: captures the inputs, infers the rest, shares it; over: a
 * sum over samples. The body's ARG of an enclosing graph's node. An ARG of its own, of the type and shape of `like`. */
Node *graph_make(Graph *, const Node *prototype, bool over);
Node *graph_append(Graph *, const Node *);                 /* for ir/read.c: as it is, even if the graph has an equal one */
Node *graph_capture(Graph *, Node *);
Node *graph_argument(Graph *, Node *, const Node *like, CaptureKind);

/* ---- building. Every builder checks shapes with the op's rule (a user's mistake: error_at(graph->at, ...)), computes
 * dtype, shape and sharded, shares equal nodes, and captures inputs that belong to an enclosing graph (ARG). */
Graph *graph_new(Model *, const char *name, Graph *parent);
void graph_free(Graph *);                                  /* its nodes and results; another graph has taken its place */
void graph_lies_here(Graph *);                             /* they go with the Memory in use; no more nodes */
Node *graph_node(Graph *, Op, Node **in, int inputs, const int64_t *ints, int int_count, const char *text);
#define NODE(graph, op, ints, count, text, ...)                                                                       \
    graph_node(graph, op, (Node *[]){__VA_ARGS__}, COUNT(((Node *[]){__VA_ARGS__})), ints, count, text)
Result *graph_result(Graph *, Role, const char *name, int index, Node *value, Node *weight);
Result *graph_add_result(Graph *, Result);                 /* whose nodes are the graph's own */
Result *graph_find_result(Graph *, Role, int index);

/* leaves */
Node *graph_input(Graph *, int input);
Node *graph_variable(Graph *, int variable);
Node *graph_gradient(Graph *, int variable);               /* a placeholder that `update` replaces */
Node *graph_number(Graph *, double value, Dtype);          /* rank 0 */
Node *graph_weak(Graph *, double value);                   /* rank 0, F64, weak: takes the dtype it meets */
Node *graph_constant(Graph *, const double *data, Shape, Dtype);
Node *graph_fill(Graph *, double value, Shape, Dtype);     /* one value for all elements */
Node *graph_run(Graph *, RunScalar, int setting);          /* rank 0, F64, weak */
Node *graph_valid(Graph *);                                /* bool [], sharded: false for the missing samples of a partial step */
Node *graph_random(Graph *, Shape, const char *path, bool sharded); /* F32, uniform [0, 1) */
Node *graph_arange(Graph *, int64_t n);                    /* i32 [n] */

/* with NumPy broadcasting and dtype promotion; for the elaborator and for gradient rules */
Node *graph_unary(Graph *, Op, Node *a);                   /* whole numbers become F32 where the op needs a float */
Node *graph_binary(Graph *, Op, Node *a, Node *b);
Node *graph_where(Graph *, Node *condition, Node *a, Node *b);
Node *graph_negate(Graph *, Node *);
Node *graph_cast(Graph *, Node *, Dtype);                  /* the node itself if it has the dtype */
Node *graph_strong(Graph *, Node *, Dtype);                /* a weak node as an ordinary one of that dtype */
/* views and reductions; axes are non-negative and in range */
Node *graph_reshape(Graph *, Node *, Shape);
Node *graph_broadcast(Graph *, Node *, Shape);             /* aligned at the right */
Node *graph_transpose(Graph *, Node *, const int *order);
Node *graph_slice(Graph *, Node *, const int64_t *start, const int64_t *count, const int64_t *step);
Node *graph_sum(Graph *, Node *, const int *axes, int axis_count);            /* within a sample */
Node *graph_max(Graph *, Node *, const int *axes, int axis_count);
Node *graph_sum_samples(Graph *, Node *, const int *axes, int axis_count);    /* over axes and all samples */
Node *graph_einsum(Graph *, const char *spec, Node **in, int inputs, bool over_samples);
Node *graph_group_sum(Graph *, Node *, int64_t group);     /* y[i] = sum over the samples of i's group; 0: the shard */
Node *graph_concat(Graph *, Node **in, int inputs, int axis);
Node *graph_reduce(Graph *, Node *partial);                /* an explicit all-reduce; of MOMENTS, REDUCE_MOMENTS */
Node *graph_moments(Graph *, Node *x, const int *axes, int axis_count); /* [..., 3] F64, of the valid samples; the axes are ascending */
Node *graph_moment(Graph *, Node *moments, int which);     /* [...] */
Node *graph_merge_moments(Graph *, Node *a, Node *b);      /* the moments of all elements of both */

/* x with constants around it; low, high >= 0 */
Node *graph_pad(Graph *, Node *, const int64_t *low, const int64_t *high, double value);
/* x[i] += v along `axis`. over_samples: v of all samples goes into the one table x; else each sample has its own. */
Node *graph_scatter_add(Graph *, Node *x, Node *i, Node *v, int axis, bool over_samples);
/* the weight gradient of CONVOLVE; ints: CONVOLVE's, then the kernel sizes */
Node *graph_convolve_weight(Graph *, Node *x, Node *g, const int64_t *ints, int int_count, bool over_samples);

/* ATTENTION; window 0: none. Needs s >= t if causal, at least one key, one dtype */
Node *graph_attention(Graph *, Node *q, Node *k, Node *v, bool causal, int64_t window, double scale);
Node *graph_attention_sums(Graph *, const Node *y);  /* what y divides by */
Node *graph_attention_gradient(Graph *, Node *y, Node *logarithms, Node *g, int64_t which);
double node_attention_scale(const Node *);   /* of ATTENTION and its gradient */

/* ---- bodies (body.c)
 * a composite: open a body, build the body in it, close it with its results; the elaborator's way */
Graph *graph_open_body(Graph *parent, const char *name);
Graph *graph_in_place_of(const Graph *); /* a new graph; if it is a body, its ARGs will be those of the old one */
/* -> RESULT nodes in `parent`, one per result of the body; ints: attributes of the composite */
void graph_close_body(Graph *inner, Op, const char *name, const int64_t *ints, int int_count, const double *numbers,
                        int number_count, Node **results, int result_count, Node **out);

/* SCAN: a loop. Its inputs are the initial values of the carries, the sequences, what else the body uses (captured). In the
 * body, whose first nodes are the ARGs of the carries, ARG i is input i: the carry; step t's slice of the
 * sequence along axis 0; for the input as it is. ints = [carries c, sequences s, steps T >= 1, reverse, stacks k]; reverse:
 * t runs T - 1 .. 0, slices are read and stacks written at their own t. The body's results are the c next carries, then k
 * values to be stacked. RESULT j of the node: the last carry j, or the stack j - c, whose element t along axis 0 is the
 * body's value at step t. A carry has a value for every sample in the body if its ARG says so; its initial value and what
 * it becomes may still be the same for all. */
Node *graph_scan_carry(Graph *inner, Node *initial, bool sharded);  /* -> its ARG; sharded anyway if initial is */
Node *graph_scan_sequence(Graph *inner, Node *sequence);            /* -> ARG: the slice of the step */
/* next: what each carry becomes, in the order in which they were made. ARGs that nothing uses go; a carry whose next value
 * is sharded becomes sharded; none is if nothing that the loop takes is. -> the node; its results by graph_scan_result */
Node *graph_close_scan(Graph *inner, int64_t steps, bool reverse, Node **next, Node **stacks, int stack_count);
Node *graph_scan_result(Graph *parent, Node *scan, int result);
typedef struct Loop {       /* a SCAN, taken apart; arg: the body's ARG of each input, NULL where it uses none */
    Graph *body;
    Node **in, **arg, **next, **stack;
    int inputs, carries, sequences, stacks;
    int64_t steps;
    bool reverse;
} Loop;
Loop loop_of(const Node *scan);
CaptureKind loop_kind(const Loop *, int input);
/* the other way round, for passes that rebuild a body: a body in target whose ARGs are the mapped nodes of the old ones;
 * inputs: what the node's inputs became. It is closed with the mapped nodes of the old next values and stacks. */
Graph *loop_open(Graph *target, const Loop *, Node **inputs);
Node *loop_close(Graph *inner, const Loop *);

/* passes rebuild graphs: for each node in order, new = graph_copy_node(target, node) after setting mapped nodes; inputs are
 * taken from their mapped nodes, attributes are copied, at / path / name / backward kept. */
Node *graph_copy_node(Graph *target, Node *);
void graph_copy_results(Graph *target, const Graph *source); /* through mapped nodes; drops results whose value has no mapped */

/* a node like `like` (op, attributes; a leaf's dtype, shape and sharded), with other inputs: at, path, name and backward
 * are the target's own. What summed over samples still does: an input gets where(valid, x, 0) if none is sharded now. */
Node *graph_rebuild(Graph *target, const Node *like, Node **in);
/* the body of a COMPOSITE as ordinary nodes of target: inputs replace its ARGs; results: one per ROLE_RESULT */
void graph_inline(Graph *target, Node *composite, Node **inputs, Node **results);
bool node_sums_samples(const Node *); /* not sharded although an input is */
uint64_t node_random_hash(const Node *); /* RANDOM: the hash of its path that mgpu_random_key takes */
bool node_is_constant(const Node *, double *value); /* CONSTANT with one value for all elements */
/* the shape rule of the node's row: fills dtype, shape, sharded and weak of a node that has op, inputs and attributes */
void node_infer(Node *, bool over_samples);

/* one line per node, without constants of many numbers; docs/dumps.md says the syntax. dump.h: what `--emit` prints */
void graph_print(const Graph *, Text *);
const char *graph_identity(const Graph *); /* of what it computes, whatever the places and names of its layers and its precision */
double node_flops(const Node *);  /* of one sample if sharded */
enum { SOME_SAMPLES = 64 };        /* of a device, where it is not known how many: to weigh what is there for each against what is there once */
/* Operations that take as long as a byte from or to memory, to weigh computing anew against keeping. By the cost model 1.5 on a core of
 * the 2-core host and 8.5 on an H100, element by element; all targets get one graph, but each its own kernels (Target). */
enum { FLOPS_OF_BYTE = 4 };
double node_elements(const Node *);/* of SOME_SAMPLES samples if sharded */
int64_t model_samples(const Model *); /* of a micro-batch; SOME_SAMPLES, if the model does not say it */

/* linear.c: sum f(x) = f(sum x), where the inputs that are `summed`, one or more, vary from term to term and the others do not;
 * f: the node with inputs `in`, which are its own or what became of them.
 * 0 everywhere: a constant, or a view of one. */
bool node_is_linear(const Node *, Node *const *in, const bool *summed);
bool node_is_zero(const Node *);

/* meaning.c: of an element-wise operation, but of CAST. Whole numbers are not brought into the range of their type. */
double op_value(Op, double a, double b, double c);
double wrap_number(Dtype, int64_t v);  /* the lowest bits of v as a number of the type; not 0 as true */
double fit_number(Dtype, double v);    /* what an operation on numbers of the type has given, as one of them */
double cast_number(Dtype from, Dtype to, double v); /* whole numbers wrap; floats go towards zero, to the limits, NaN to 0 */

/* interpret.c: the slow, clear meaning of every operation, in double; the reference of tests.
 * values[node id] = NULL or an array [samples or 1][elements]; leaves are asked of `leaf`. BF16 and F16 are rounded. */
typedef struct Interpretation {
    bool exact;            /* not even halves are rounded */
    bool f32_range;        /* what is too large for f32 is infinite in values of that type; they are not rounded */
    int64_t samples;
    int64_t first_sample, step;
    uint64_t seed;
    double noise;          /* relative: what calculates is off by up to so much, each number in its own way; 0: not at all */
    uint64_t noise_seed;
    double **values;
    /* fills out[count]; called for INPUT, VARIABLE, GRADIENT, RUN, VALID, ARG (and RANDOM if it returns true for it) */
    bool (*leaf)(void *context, const Node *, double *out, int64_t count);
    void *context;
} Interpretation;
void interpret(const Graph *, Interpretation *);
#endif
