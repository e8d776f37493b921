/* graph.h: the IR between text and kernels, and the model that the elaborator makes.
 *
 * A Graph is a list of Nodes in topological order. Shapes are those of ONE SAMPLE. A node with `has_samples` has a value for
 * every sample (an implicit leading axis, which is sharded over the devices: placement.h); any other node has one value for all
 * samples. A node without samples of which an input has samples sums over them (SUM, EINSUM, CONVOLVE_WEIGHT, SCATTER_ADD): the
 * stage `distribute` types its value Partial.
 *
 * Conventions
 *   - element-wise operations: all inputs have exactly the node's shape (BROADCAST is explicit) and one dtype
 *     (CAST is explicit), except the condition of WHERE (bool); an input may have one value for all samples.
 *   - reductions drop their axes (keep = true is a RESHAPE after them).
 *   - F32 in a graph means "the model's float"; the stage `precision` rewrites it.
 *   - `weak` nodes are numbers computed from literals and run scalars (step, progress, rates): rank 0, F64 until an operation
 *     combines them with a tensor, whose dtype they take (graph_binary does this). */
#ifndef MGPU_GRAPH_H
#define MGPU_GRAPH_H

#include "compiler/base/base.h"
#include "runtime/abi/mgpu.h"

enum { MAX_RANK = 8 };

typedef enum Dtype { BOOL, U8, I8, U16, I16, U32, I32, I64, F16, BF16, F32, F64, DTYPES } Dtype;
const char *dtype_name(Dtype); /* "f32" */
int dtype_bytes(Dtype);
bool dtype_is_half(Dtype); /* BF16, F16: types in memory; kernels calculate in F32 */
bool dtype_is_float(Dtype);
bool dtype_by_name(const char *, Dtype *);
Dtype dtype_promote(Dtype, Dtype); /* language reference, section 6 */
Dtype dtype_summed(Dtype);         /* type of a sum: narrow integers and bools become i32 */

typedef struct Shape {
    int rank;
    int64_t extent[MAX_RANK];
} Shape;
int64_t shape_count(const Shape *); /* elements; 1 for rank 0; checked against overflow where shapes are made */
bool shape_equal(const Shape *, const Shape *);
const char *shape_text(const Shape *); /* "[28, 28]" */
Shape shape_of(int rank, const int64_t *extents);
#define SHAPE(...) shape_of(COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})
#define SCALAR shape_of(0, NULL)

typedef enum OpClass { LEAF, ELEMENTWISE, REDUCTION, RUNNING, CONTRACTION, WINDOW, VIEW, INDEXING, MARK, REGION } OpClass;
typedef enum Op {
#define OP(name, ...) OP_##name,
#include "compiler/ir/ops.def"
    OPS
} Op;

/* What a placement names of a value, beside its axes 0 .. rank - 1: its samples, and all elements of a sample as one axis,
 * row-major. */
enum { SAMPLES_AXIS = MAX_RANK, ELEMENTS_AXIS, VALUE_AXES };

/* Devices are a mesh; placement.h has the table of its axes. Where a value is along one of them:
 *   REPLICATED   the same on every device
 *   SHARDED      each device has a range of the value's `axis`; a dump calls it "sharded" along the samples, and "split" along
 *                the elements
 *   PARTIAL      each device has a term, and the value is their sum: an all-reduce is pending
 *   LOCAL        each device has a value of its own
 * Transfers change placements (mgpu_transfers.h), and operations keep them by the rules of placement.c. */
typedef enum MeshAxis { MESH_DATA, MESH_AXES } MeshAxis;
typedef enum PlacementKind { UNPLACED, REPLICATED, SHARDED, PARTIAL, LOCAL } PlacementKind;
typedef struct AxisPlacement {
    PlacementKind kind;
    int axis; /* SHARDED: of the value */
} AxisPlacement;
typedef struct Placement {
    AxisPlacement on[MESH_AXES];
} Placement;

typedef struct Graph Graph;
typedef struct Model Model;
typedef struct Node Node;
struct Node {
    Op op;
    int id; /* index in graph->nodes */
    Dtype dtype;
    bool has_samples, weak;
    Placement placement; /* set by `distribute` */
    Shape shape;         /* of one sample */
    int inputs;
    Node **in;
    int64_t *ints; /* attributes; the op's row of ops.def explains them */
    int int_count;
    double *data; /* CONSTANT: row-major elements, or one for all; PAD: the value */
    int64_t data_count;
    /* EINSUM: "ab,bc->ac"; RANDOM: the operation's path; COMPOSITE: the layer's name; WHERE: the requirement that it checks,
     * where it gives NaN if it is violated; NULL: an ordinary choice */
    const char *text;
    Graph *body;      /* COMPOSITE, SCAN; never changed once its node exists */
    const char *name; /* the variable of the program that it was assigned to, for readers; NULL: none */
    const char *path; /* the layer instance that it belongs to: "layer1.0.conv1"; "" at the top */
    const Place *at;  /* the line that made it; kept by all passes */
    bool backward;    /* made by differentiate */
    Graph *graph;
    Node *mapped; /* scratch of graph_copy and of passes: the corresponding node of the new graph */
};

/* The role of a graph's result: */
typedef enum Role {
    ROLE_LOSS,     /* value, weight (NULL: 1 each): one term; name */
    ROLE_METRIC,   /* value, weight; value may contain TOTAL */
    ROLE_OUTPUT,   /* value: a column of predict */
    ROLE_UPDATE,   /* index = variable: its value after the step */
    ROLE_INIT,     /* index = variable: its initial value (in model->init only) */
    ROLE_REPORT,   /* name: a scalar that the host reads after the step: loss, loss.NAME, lr, grad_norm, metric names */
    ROLE_GRADIENT, /* index = variable: between differentiate and update */
    ROLE_RESULT,   /* results of a body (COMPOSITE, SCAN bodies), in order */
    ROLES
} Role;
typedef struct Result {
    Role role;
    const char *name;
    int index;
    Node *value, *weight;
    const Place *at;
} Result;

/* What an ARG of a body is: the input itself; in a SCAN also the carry whose initial value the input is, or the step's slice of
 * the input along axis 0. */
typedef enum CaptureKind { AS_IT_IS, AS_CARRY, AS_SEQUENCE } CaptureKind;

struct Graph {
    Model *model;
    Graph *parent;    /* a body's enclosing graph; NULL at the top */
    const char *name; /* "train" */
    Node **nodes;
    int node_count;
    Result *results;
    int result_count;
    Node **captured; /* body: the parent's nodes of ARG 0, 1, ...; `kinds`: how */
    int captured_count;
    CaptureKind *kinds;
    int kind_count;
    /* attributes of new nodes */
    const Place *at;
    const char *path;
    bool backward;
    /* table for sharing; owned by graph.c */
    struct Slot {
        uint32_t hash;
        int node; /* node index + 1 */
    } * slots;
    int slot_count, slots_used;
    Map args;       /* id of the parent's node -> its ARG */
    Memory *memory; /* memory of nodes and results */
};

/* ---- leaves that read the step block */
typedef enum RunScalar {
    RUN_STEP,     /* applied steps + 1: 1, 2, ... */
    RUN_EPOCH,    /* fractional */
    RUN_PROGRESS, /* 0 .. 1 */
    RUN_TOTAL_STEPS,
    RUN_TOTAL_EPOCHS,
    RUN_SAMPLES, /* valid samples of the whole step, on all devices and in all micro-batches */
    RUN_MICRO,   /* index of the micro-batch in the step: 0, 1, ... */
    RUN_SETTING, /* ints[1]: index in model->settings; NaN if the user gave no value */
    RUN_SCALARS
} RunScalar;

/* ---- the model */
enum { NO_LABEL = INT32_MIN };
typedef struct Input {
    const char *name;
    Dtype dtype; /* type in memory: u8, f32 ...; class(n): the smallest type that holds n and ignore */
    Shape shape;
    int64_t classes;       /* class(n): n, else 0 */
    int64_t ignore, other; /* class(..., ignore =, other =); NO_LABEL: none */
    const char *required;  /* what losses and metrics require of it, in words; NULL: nothing */
    int64_t least, most;   /* required: the range of its elements, which are integers */
    bool hidden;           /* not in the model's text: the runtime provides it */
    const Place *at;
} Input;

/* CACHE: values that `decode` keeps from place to place; other phases have none: decode.c. ROUNDED: a copy of another variable,
 * which contractions read: precision.c. AVERAGE: of another variable over the steps, which evaluation reads in its place:
 * update.c. OBSERVED: a copy of a gradient, for the host only: update.c */
typedef enum VariableKind { WEIGHT, STATE, OPTIMIZER_STATE, ACCUMULATOR, ROUNDED, AVERAGE, OBSERVED, CACHE } VariableKind;
typedef struct Variable {
    const char *name; /* "layer1.0.conv1.weight"; unique; the name in safetensors */
    VariableKind kind;
    Dtype dtype;
    Shape shape;         /* as declared and as saved */
    int order[MAX_RANK]; /* order of the axes in memory, outermost first; identity unless `layout` changes it */
    bool trained;        /* gets a gradient */
    /* UNPLACED: as REPLICATED. ACCUMULATOR: maybe PARTIAL; sharded along its elements by passes/shard.c. CACHE: along samples, of
     * which each has a value */
    Placement placement;
    int owner;     /* OPTIMIZER_STATE, OBSERVED: the weight; ROUNDED, AVERAGE: the variable that it replaces; else -1 */
    int clip;      /* trained: 0: the model's clipping; else index in model->clips, from 1 */
    int objective; /* trained: number of its objective, from 1; 0: the model has only one */
    /* of a dense layer whose input is flattened channels-last pictures: their shape in words; NULL: of no such layer */
    const char *flattened;
    const Place *at;
} Variable;

typedef enum ClipKind { CLIP_NONE, CLIP_GLOBAL_NORM, CLIP_NORM, CLIP_VALUE, CLIP_GLOBAL_MAX, CLIP_ADAPTIVE } ClipKind;
typedef struct Clip {
    ClipKind kind;
    double limit;
} Clip; /* of a rule: the norm is that of the rule's weights */

/* NONE: not given; NEVER: explicitly never; TIMES: validations; SHARE: of the run */
/* clang-format off */
typedef enum QuantityUnit {
    UNIT_NONE, UNIT_NEVER, UNIT_STEPS, UNIT_EPOCHS, UNIT_SAMPLES, UNIT_SECONDS, UNIT_TIMES, UNIT_SHARE
} QuantityUnit;
/* clang-format on */
typedef struct Quantity {
    double amount;
    QuantityUnit unit;
} Quantity;

/* a number of the data set valid that the run monitors; metric NULL: none */
typedef struct Watch {
    const char *metric;
    bool highest;
    const Place *at;
} Watch;
/* a factor of a rate, settings[setting], that the runtime multiplies by `factor` when the number has not improved */
typedef struct Plateau {
    int setting;
    Watch watch;
    double factor;
    Quantity patience;
} Plateau;

/* Losses with weights of their own, which change in the updates of this objective alone: dsl/objectives.c. A round of the run is
 * `times` updates of each objective. */
typedef struct Objective {
    const char *name; /* the pattern of its rule */
    int64_t times;
    const char **losses;
    int loss_count;
    const Place *at;
    Graph *train; /* as Model.train, but only what is of this objective; not in dumps */
} Objective;

/* Initial values from a file. pattern NULL: of the train block, for all names of the model. path NULL: `init = none` of a rule.
 * array: file("w.npy") */
typedef struct Initial {
    const char *path, *pattern;
    bool array;
    const Place *at;
    int *variables;
    int variable_count;
    const char **names; /* parallel to variables: names in the file */
    const char *rules;  /* for names and shapes: a name of the library, a path, or their text; NULL: the file's own names */
} Initial;

/* A data set: calls[0] is a reader, the others are stages; columns are the reader's. See runtime/abi/mgpu.h. */
typedef mgpu_item DataItem;
typedef struct DataOption {
    const char *name;
    DataItem *items;
    int count;
} DataOption;
typedef struct DataCall {
    const char *name;
    DataOption *options;
    int option_count;
    const Place *at;
} DataCall;
typedef struct DataColumn {
    const char *name;
    int input;          /* the input that gets it, or one made from it; -1: only a stage needs it */
    const char **texts; /* paths, columns of a table */
    int count;
    const Place *at;
} DataColumn;
typedef struct DataSet {
    const char *name; /* train, valid, test */
    DataColumn *columns;
    int column_count;
    DataCall *calls;
    int call_count;
} DataSet;

typedef mgpu_setting_text SettingText;
/* hidden: not for --set, because the runtime gives it, or nothing reads it */
typedef struct Setting {
    const char *name;
    double value;
    const char *text;
    const Place *at;
    bool given, hidden;
} Setting;

typedef mgpu_later_set LaterSet;

enum { MOST_VIRTUAL_SHARDS = 256 };
struct Model {
    const char *name, *file;
    const char *identity; /* graph_identity of the training graph */
    Source *source;
    const char **files;
    int file_count; /* files that were read: the program's text and its imports */
    Input *inputs;
    int input_count;
    Variable *variables;
    int variable_count;
    DataSet *sets;
    int set_count;
    LaterSet *later;
    int later_count;
    Setting *settings;
    int setting_count; /* settings of a program at run time: lr, decay, ...: RUN_SETTING's index */
    const char **fixed;
    int fixed_count; /* params and settings that can only be set by mgpuc --set */
    SettingText *told;
    int told_count;
    Graph *init; /* ROLE_INIT for every WEIGHT, STATE, OPTIMIZER_STATE and AVERAGE */
    /* LOSS, METRIC, UPDATE of states; UPDATE of weights and optimizer states from GRADIENT leaves; REPORT "lr". NULL: the model
     * has no loss, and only predicts */
    Graph *train;
    Graph *eval;                              /* LOSS (reported like metrics), METRIC, OUTPUT; elaborated with `training` false */
    int64_t batch, accumulate, epochs, steps; /* steps 0: epochs decide */
    const Place *batch_at;                    /* where the batch is set; else the train block, else the model. NULL: in a dump */
    int64_t exact; /* virtual shards of a batch, a power of two: sums over samples are a fixed binary tree of them. 0: none */
    int64_t group; /* least common multiple of all batchnorm groups; shards begin at its multiples; 1 if there are none */
    ClipKind clip_kind;
    double clip;
    Clip *clips;
    int clip_count; /* of rules */
    enum { AVERAGE_NONE, AVERAGE_EMA, AVERAGE_SWA } average;
    double average_decay;                  /* EMA */
    Quantity average_start, average_every; /* SWA */
    enum { NAN_STOP, NAN_SKIP, NAN_IGNORE } on_nan;
    enum { OBSERVE_NOTHING, OBSERVE_METRICS, OBSERVE_GRADIENTS, OBSERVE_ALL } observe; /* what each step reports, or keeps */
    int skipped;                  /* the variable that counts steps without an update; -1: every step has one */
    int loss_scale, scaled_steps; /* F16: variables: the factor of gradients, and the good steps since it changed; -1: none */
    bool fit_accumulate;          /* accumulate = "auto": the fewest micro-batches that fit */
    bool one_batch; /* fit_accumulate: the text rules out micro-batches, since samples depend on sums over the whole batch */
    bool recompute; /* "auto": what does not fit into memory is recomputed in the backward pass */
    Quantity validate, save, patience;
    int64_t keep; /* 0: not given */
    Watch best;
    Objective *objectives;
    int objective_count; /* 0: one, of all losses and weights */
    Plateau *plateaus;
    int plateau_count;
    Initial *initials;
    int initial_count;
    uint64_t seed;
    Dtype precision;       /* F32, F64, BF16, F16 */
    bool tf32;             /* contractions of F32 may round their operands to 10 bits of fraction, as GPUs do */
    bool shard_statistics; /* a batchnorm has stats = "shard": results depend on the devices */
    /* the layer table of `mgpuc check`: instances in the order of their calls */
    struct LayerRow {
        const char *name;
        const Place *at;
        Shape shape;
        int64_t parameters;
        double flops;
    } * layers;
    int layer_count;
    DataCall *outline;
    int outline_count; /* of evaluation: dsl/outline.c */
    int not_yet;       /* located "not yet" warnings of elaboration; mgpuc refuses to compile if there are any */
};

/* ---- ops.def as a table */
typedef enum Linear { NOT_LINEAR, LINEAR, LINEAR_IN_EACH, LINEAR_BUT_FIRST, LINEAR_BUT_SECOND } Linear;
typedef struct OpInfo {
    const char *name; /* "einsum": in dumps */
    OpClass op_class;
    int inputs;                       /* -1: any number */
    const char *attributes;           /* their form in dumps: "text [*]" */
    Linear linear;                    /* for linear.c */
    const char *meaning;              /* ELEMENTWISE: a C expression of a, b, c; else NULL */
    double flops;                     /* ELEMENTWISE: per element */
    const char *signature, *equation; /* for docs/language.md; signature NULL: internal */
} OpInfo;
extern const OpInfo OP_INFO[OPS];

/* Running operations: MGPU_RUNNING_TABLE of mgpu_tables.h. */
static inline bool op_is_running(Op op) { return OP_INFO[op].op_class == RUNNING; }
Op running_combines(Op);        /* the element-wise operation that combines two elements */
double running_start(Op);       /* what it begins with */
const char *running_plural(Op); /* such as "running sums" */

/* ---- transfer.c: nodes that are rows of mgpu_transfers.h */
int transfer_of(Op);                     /* MGPU_TRANSFER_...; -1: no transfer */
const char *transfer_word(int transfer); /* "reduce": the name of its node, and the schedule's verb */
static inline bool op_is_transfer(Op op) { return transfer_of(op) >= 0; }
static inline bool op_reduces(Op op) { return op == OP_REDUCE || op == OP_REDUCE_MOMENTS; } /* inserted by `distribute` */
enum { MOMENT_COUNT, MOMENT_MEAN, MOMENT_SQUARES, MOMENTS };                                /* the first axis of MOMENTS */
mgpu_participants transfer_participants(const Node *); /* of a transfer; parts NULL: equal parts */
const char *transfer_wrong_parts(const Node *);        /* NULL: given parts are valid, inputs are split alike; else the error */
bool node_is_split(const Node *);   /* Split, and of more than one element: kernels compute a device's own part */
bool node_sums_split(const Node *); /* sums all elements of a Split value: a device adds up its own part */
const int64_t *node_parts(const Node *, int *count); /* of a Split value: where its parts begin; NULL: equal parts */

/* transfer_gradient.c: Returns, by node, the name of the weight whose gradient it is, before or after a transfer reduces it;
 * NULL: none. */
const char **graph_summed_weights(const Graph *);
const bool *graph_summed_gradients(const Graph *); /* by id: true for a REDUCE or REDUCE_SCATTER of a gradient */

/* graph.c, for body.c. graph_make: makes a node from its op, inputs and attributes: captures inputs, infers the rest, shares
 * equal nodes; over: it sums over samples. graph_capture: returns the body's ARG of an enclosing graph's node. graph_argument:
 * makes a new ARG, of the type and shape of `like`. */
Node *graph_make(Graph *, const Node *prototype, bool over);
Node *graph_append(Graph *, const Node *); /* for ir/read.c: exactly this node, even if the graph has an equal one */
Node *graph_capture(Graph *, Node *);
Node *graph_argument(Graph *, Node *, const Node *like, CaptureKind);

/* ---- building. Every builder checks shapes with the op's rule (a user's mistake: error_at(graph->at, ...)), computes dtype,
 * shape and has_samples, shares equal nodes, and captures inputs of enclosing graphs (ARG). */
Graph *graph_new(Model *, const char *name, Graph *parent);
void graph_free(Graph *);       /* frees its nodes and results, when another graph has replaced it */
void graph_use_memory(Graph *); /* its memory is freed with the Memory in use; no more nodes may be added */
Node *graph_node(Graph *, Op, Node **in, int inputs, const int64_t *ints, int int_count, const char *text);
#define NODE(graph, op, ints, count, text, ...)                                                                                  \
    graph_node(graph, op, (Node *[]){__VA_ARGS__}, COUNT(((Node *[]){__VA_ARGS__})), ints, count, text)
Result *graph_result(Graph *, Role, const char *name, int index, Node *value, Node *weight);
Result *graph_add_result(Graph *, Result); /* a result whose nodes are in the graph */
Result *graph_find_result(Graph *, Role, int index);

/* leaves */
Node *graph_input(Graph *, int input);
Node *graph_variable(Graph *, int variable);
Node *graph_gradient(Graph *, int variable);      /* a placeholder that `update` replaces */
Node *graph_number(Graph *, double value, Dtype); /* rank 0 */
Node *graph_weak(Graph *, double value);          /* rank 0, F64, weak: takes the dtype of the other operand */
Node *graph_constant(Graph *, const double *data, Shape, Dtype);
Node *graph_fill(Graph *, double value, Shape, Dtype); /* one value for all elements */
Node *graph_run(Graph *, RunScalar, int setting);      /* rank 0, F64, weak */
/* Returns the number of an update among those of its objective: 1, 2, ...; objective: from 1, 0: RUN_STEP */
Node *graph_own_step(Graph *, int objective);
Node *graph_valid(Graph *);       /* bool [], sharded: false for the padding samples of a partial step */
Node *graph_batch_place(Graph *); /* i32 [], has samples */
Node *graph_random(Graph *, Shape, const char *path, bool has_samples); /* F32, uniform [0, 1) */
Node *graph_arange(Graph *, int64_t n);                                 /* i32 [n] */

/* with NumPy broadcasting and dtype promotion; for the elaborator and for gradient rules */
Node *graph_unary(Graph *, Op, Node *a); /* integers become F32 if the op needs a float */
Node *graph_binary(Graph *, Op, Node *a, Node *b);
Node *graph_where(Graph *, Node *condition, Node *a, Node *b);
Node *graph_negate(Graph *, Node *);
Node *graph_cast(Graph *, Node *, Dtype);   /* returns the node itself if it has the dtype */
Node *graph_strong(Graph *, Node *, Dtype); /* returns a weak node as an ordinary one of that dtype */
/* Returns the type of a weak number that is combined with a tensor of type t: t, if that is a float or holds the number. */
Dtype graph_literal_type(Dtype t, const Node *weak);
/* views and reductions; axes are non-negative and in range */
Node *graph_reshape(Graph *, Node *, Shape);
Node *graph_broadcast(Graph *, Node *, Shape); /* axes are aligned at the right */
Node *graph_transpose(Graph *, Node *, const int *order);
Node *graph_slice(Graph *, Node *, const int64_t *start, const int64_t *count, const int64_t *step);
Node *graph_sum(Graph *, Node *, const int *axes, int axis_count); /* within a sample */
Node *graph_max(Graph *, Node *, const int *axes, int axis_count);
Node *graph_sum_samples(Graph *, Node *, const int *axes, int axis_count); /* over axes and all samples */
Node *graph_einsum(Graph *, const char *spec, Node **in, int inputs, bool over_samples);
Node *graph_group_sum(Graph *, Node *, int64_t group); /* y[i] = sum over the samples of i's group; 0: the shard */
Node *graph_concat(Graph *, Node **in, int inputs, int axis);
Node *graph_reduce(Graph *, Node *partial);                             /* an explicit all-reduce; of MOMENTS: REDUCE_MOMENTS */
Node *graph_moments(Graph *, Node *x, const int *axes, int axis_count); /* [..., 3] F64, of valid samples; ascending axes */
Node *graph_moment(Graph *, Node *moments, int which);                  /* [...] */
Node *graph_merge_moments(Graph *, Node *a, Node *b);                   /* the moments of all elements of both */

/* x with constants around it; low, high >= 0 */
Node *graph_pad(Graph *, Node *, const int64_t *low, const int64_t *high, double value);
/* x[i] += v along `axis`. over_samples: v of all samples is added to one table x; else each sample has its own. */
Node *graph_scatter_add(Graph *, Node *x, Node *i, Node *v, int axis, bool over_samples);
/* the weight gradient of CONVOLVE; ints: CONVOLVE's, then the kernel sizes */
Node *graph_convolve_weight(Graph *, Node *x, Node *g, const int64_t *ints, int int_count, bool over_samples);

/* ATTENTION; window 0: none. Requires s >= t if causal, at least one key, one dtype. */
Node *graph_attention(Graph *, Node *q, Node *k, Node *v, bool causal, int64_t window, double scale);
Node *graph_attention_sums(Graph *, const Node *y); /* m and the logarithm of the sum, which y's gradient needs (ops.def) */
Node *graph_attention_gradient(Graph *, Node *y, Node *logarithms, Node *g, int64_t which);
double node_attention_scale(const Node *); /* of ATTENTION and its gradient */

/* ---- bodies (body.c). A composite: open a body, build the body in it, close it with its results; as the elaborator does. */
Graph *graph_open_body(Graph *parent, const char *name);
Graph *graph_in_place_of(const Graph *); /* a new graph; if g is a body, with the ARGs of g */
/* Writes RESULT nodes of `parent` to out, one per result of the body; ints: attributes of the composite. */
void graph_close_body(Graph *inner, Op, const char *name, const int64_t *ints, int int_count, const double *numbers,
                      int number_count, Node **results, int result_count, Node **out);

/* SCAN: a loop. Its inputs are the initial values of the carries, the sequences, and what else the body uses (captured). In the
 * body, whose first nodes are the ARGs of the carries, ARG i is input i: the carry; step t's slice of the sequence along axis 0;
 * or the input itself. ints = [carries c, sequences s, steps T >= 1, reverse, stacks k]; reverse: t runs T - 1 .. 0, slices are
 * read and stacks written at their own t. The body's results are the c next carries, then k values to be stacked. RESULT j of the
 * node: the last carry j, or the stack j - c, whose element t along axis 0 is the body's value at step t. A carry has a value for
 * every sample in the body if its ARG has samples; its initial and its next value may still be the same for all samples. */
Node *graph_scan_carry(Graph *inner, Node *initial,
                       bool has_samples);                /* returns its ARG, which has samples anyway if initial has */
Node *graph_scan_sequence(Graph *inner, Node *sequence); /* returns the ARG: the step's slice */
/* next: the next value of each carry, in the order in which they were made. Unused ARGs are removed; a carry whose next value is
 * has samples gets samples; no carry has if no input of the loop has. Returns the node; graph_scan_result returns its results. */
Node *graph_close_scan(Graph *inner, int64_t steps, bool reverse, Node **next, Node **stacks, int stack_count);
Node *graph_scan_result(Graph *parent, Node *scan, int result);
typedef struct Loop { /* the parts of a SCAN; arg: the body's ARG of each input, NULL if it uses none */
    Graph *body;
    Node **in, **arg, **next, **stack;
    int inputs, carries, sequences, stacks;
    int64_t steps;
    bool reverse;
} Loop;
Loop loop_of(const Node *scan);
CaptureKind loop_kind(const Loop *, int input);
/* For passes that rebuild a body: opens a body in target whose ARGs are the mapped nodes of the old ones; inputs: the new inputs
 * of the node. loop_close closes it with the mapped nodes of the old next values and stacks. */
Graph *loop_open(Graph *target, const Loop *, Node **inputs);
Node *loop_close(Graph *inner, const Loop *);

/* Passes rebuild graphs: for each node in order, graph_copy_node(target, node) copies a node, with the mapped nodes of its
 * inputs, its attributes, and at / path / name / backward. */
Node *graph_copy_node(Graph *target, Node *);
void graph_copy_results(Graph *target, const Graph *source); /* through mapped nodes; drops results without one */

/* Makes a node like `like` (op, attributes; a leaf's dtype, shape and has_samples) with other inputs; at, path, name and backward
 * are the target's. A sum over samples stays one: an input becomes where(valid, x, 0) if none has samples now. */
Node *graph_rebuild(Graph *target, const Node *like, Node **in);
/* Copies the body of a COMPOSITE as ordinary nodes of target: inputs replace its ARGs; results: one per ROLE_RESULT. */
void graph_inline(Graph *target, Node *composite, Node **inputs, Node **results);
bool node_sums_samples(const Node *);               /* it has no samples, although an input has */
uint64_t node_random_hash(const Node *);            /* RANDOM: the hash of its path, for mgpu_random_key */
bool node_is_constant(const Node *, double *value); /* CONSTANT with one value for all elements */
/* Applies the shape rule of the node's row: sets dtype, shape, has_samples and weak of a node that has op, inputs and
 * attributes. */
void node_infer(Node *, bool over_samples);

/* Prints one line per node, without the numbers of long constants; docs/dumps.md has the syntax. `--emit` uses dump.h. */
void graph_print(const Graph *, Text *);
/* digest of what it computes, independent of places and names of its layers and of its precision */
const char *graph_identity(const Graph *);
double node_flops(const Node *); /* per sample if it has samples */
/* of a device, if the number is unknown: to weigh what exists per sample against what exists once */
enum { SOME_SAMPLES = 64 };
/* Operations that take as long as moving a byte, to weigh recomputing against storing. By the cost model 1.5 on a core of the
 * 2-core host and 8.5 on an H100, element by element; all targets get one graph, but each its own kernels (Target). */
enum { FLOPS_OF_BYTE = 4 };
double node_elements(const Node *);   /* of SOME_SAMPLES samples if it has samples */
int64_t model_samples(const Model *); /* of a micro-batch; SOME_SAMPLES if the model does not say */

/* linear.c: node_is_linear: true if sum f(x) = f(sum x), where the inputs marked in `summed` vary from term to term and the
 * others do not; f: the node with inputs `in`, its own or their replacements. node_is_zero: 0 everywhere: a constant, or a view
 * of one. */
bool node_is_linear(const Node *, Node *const *in, const bool *summed);
bool node_is_zero(const Node *);

/* fold.c: the value of an element-wise operation except CAST; integers may be out of the range of their type. */
double op_value(Op, double a, double b, double c);
double wrap_number(Dtype, int64_t v);               /* the lowest bits of v as a number of the type; of bool v != 0 */
double fit_number(Dtype, double v);                 /* converts the result of an operation on numbers of the type to the type */
double cast_number(Dtype from, Dtype to, double v); /* integers wrap; floats are truncated and saturate, NaN gives 0 */

/* interpret.c: the slow, clear meaning of every operation, in double; the reference of tests. values[node id] = NULL or an array
 * [samples or 1][elements]; `leaf` gives the values of leaves. BF16 and F16 are rounded. */
typedef struct Interpretation {
    bool exact;     /* 16-bit types are not rounded either */
    bool f32_range; /* F32 values that are too large for f32 become infinite; they are not rounded */
    int64_t samples;
    int64_t first_sample, step;
    int64_t first_place; /* of the first sample in the batch */
    uint64_t seed;
    double noise; /* relative error of every operation that rounds, at most, different for each number; 0: none */
    uint64_t noise_seed;
    double **values;
    /* Fills out[count]; called for INPUT, VARIABLE, GRADIENT, RUN, VALID, ARG (and for RANDOM, if it returns true). */
    bool (*leaf)(void *context, const Node *, double *out, int64_t count);
    void *context;
} Interpretation;
void interpret(const Graph *, Interpretation *);
#endif
