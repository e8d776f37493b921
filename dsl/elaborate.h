/* elaborate.h: shared by the files of the elaborator. Nothing outside dsl/ includes it.
 *
 * The elaborator executes the program text. It computes numbers, lists, choices and loops at compile time; what depends on
 * samples becomes nodes of a graph. A Frame is one call of a layer (or the model, data or train block) with its scope. An
 * Instance is the identity of a call: it names the weights, and the evaluation pass finds it again. */
#ifndef MGPU_ELABORATE_H
#define MGPU_ELABORATE_H

#include "compiler/ir/graph.h"
#include "dsl/dsl.h"
#include "dsl/tree.h"

typedef struct Value Value;
typedef struct Layer Layer;
typedef struct Frame Frame;
typedef struct Instance Instance;
typedef struct Elaborator Elaborator;
typedef struct ScanBody ScanBody; /* loop.c: the scan body that is being run */
typedef struct Samples Samples;   /* data.c: a reader, its columns and stages */

/* ---- values */
typedef enum ValueKind {
    VALUE_NUMBER, /* i if `whole` is set, else d; `cast`: as a tensor it has the type `dtype`, not that of its other operand */
    VALUE_BOOL,   /* i */
    VALUE_NONE,
    VALUE_STRING,   /* text */
    VALUE_LIST,     /* items */
    VALUE_TYPE,     /* i = Dtype; text = its name */
    VALUE_QUANTITY, /* d = amount; text = name of the unit */
    VALUE_LAYER,    /* layer */
    VALUE_TENSOR,   /* node */
    VALUE_WEIGHTED, /* node and its weight, a float of the same shape */
    VALUE_RESULTS,  /* items = several results of a call; where one value is needed, it is the first */
    VALUE_SOURCE,   /* samples of a data block */
    VALUE_BROKEN,   /* a name whose statement has failed: reading it gives up silently */
} ValueKind;
struct Value {
    ValueKind kind;
    bool whole, cast;
    Dtype dtype;
    int64_t i;
    double d;
    const char *text;
    Value **items;
    int count;
    Layer *layer;
    Node *node, *weight;
    Samples *samples;
};

enum { LONGEST_LIST = 1000000 };

void values_use_memory(Memory *);
Value *value_new(void);
Value *value_whole(int64_t);
Value *value_number(double); /* whole if the number is an integer that fits */
Value *value_double(double);
Value *value_bool(bool);
Value *value_none(void);
Value *value_broken(void);
Value *value_text(const char *);
Value *value_list(Value **items, int count);
Value *value_tensor(Node *);
Value *value_of_shape(const Shape *);
Value *value_type(Dtype);
Value *value_layer(Layer *);
double number_of(const Value *);                   /* expects a VALUE_NUMBER */
double exact_number(const Place *, const Value *); /* takes a VALUE_NUMBER or VALUE_BOOL; an error if no double represents it */
bool has_tensor(const Value *);                    /* true if the value or a list below it has a tensor */
const char *value_describe(const Value *);         /* for messages: "the number 3", "a list", "a tensor [3, 4]" */
const char *value_print(const Value *);            /* text for strings and messages: 3, 0.5, abc, [1, 2] */
Value *first_of(Value *);                          /* the first of several results, else the value itself */

/* Computes on numbers, strings, lists and quantities. Returns NULL if an operand is a tensor or no rule applies. */
Value *compute_binary(Elaborator *, const Place *, const char *op, Value *a, Value *b);

/* ---- layers as values */
typedef enum LayerKind {
    LAYER_TEXT,     /* written in the language */
    LAYER_BUILTIN,  /* a primitive or compile-time function */
    LAYER_TYPE,     /* a cast */
    LAYER_PIPELINE, /* steps with evaluated arguments */
    LAYER_SHARED,   /* a layer bound to one instance */
    LAYER_READER,   /* a reader or stage of the data block */
} LayerKind;
typedef struct Argument {
    const char *name;
    Value *value;
    const Place *at;
} Argument;
typedef struct Arguments {
    Argument *list;
    int count;
} Arguments;
typedef struct Step {
    Layer *layer;
    Arguments arguments;
    const Place *at;
} Step;
typedef struct Builtin Builtin;
struct Layer {
    LayerKind kind;
    const char *name;
    const Tree *tree;     /* TEXT: the layer; NULL for a layer of the library that is not parsed yet */
    const Source *source; /* the part of the library file that declares the layer */
    const Builtin *builtin;
    Dtype dtype; /* TYPE: the type to cast to */
    Step *steps; /* PIPELINE */
    int step_count;
    Layer *inner; /* SHARED */
    Instance *instance;
    Value *(*read)(Elaborator *, const Layer *, const Place *, Arguments, Value *piped); /* READER */
};

Value *value_step(Step); /* a pipeline of one step */

enum { BUILTIN_PARAMETERS = 16 }; /* at most */
/* The parameters are a text such as "x, axes = none, keep = false". `run` gets one Value for each. */
struct Builtin {
    const char *name, *parameters;
    Value *(*run)(Elaborator *, const Place *, Value **arguments);
};
extern const Builtin COMPILE_TIME[], PRIMITIVES[]; /* function.c, primitive.c; the last row is NULL */
const Builtin *elementwise_primitives(void);       /* elementwise.c; the last row is NULL, and rows of PRIMITIVES override it */

/* ---- instances: they name the weights */
struct Instance {
    const char *path; /* such as "layer1.0.conv1"; "" for the model */
    const Place *at;
    Instance *names; /* the instance whose path and numbers are used: itself, or an outer one if name = none */
    Map children;    /* place of a call -> Instance */
    Map numbers;     /* layer -> (intptr) number of calls; used if `names` is the instance itself */
    Map variables;   /* declared name and loop iterations -> (intptr) 1 + index of the model's variable */
    int row;         /* in the layer table; -1 if it has no row */
    bool owns;       /* declares a weight or state itself */
    bool shown;      /* called in the model's own text: has a row even without weights */
};

/* ---- frames */
typedef enum FrameKind { FRAME_LAYER, FRAME_MODEL, FRAME_DATA, FRAME_TRAIN, FRAME_RULE, FRAME_PARAM } FrameKind;
struct Frame {
    FrameKind kind;
    const Tree *block;  /* the statements */
    bool broken;        /* a statement has failed: a missing name may be one that it would have made */
    const Layer *layer; /* only FRAME_LAYER */
    const Place *call;  /* where the layer is called */
    bool library;       /* the text belongs to the library */
    bool training;
    Map locals;   /* name -> Value */
    Map declared; /* name declared by weight, state or input -> Tree */
    Map updated;  /* full name of a state -> Place of its `update` */
    Instance *instance;
    const char *loops;                          /* the iteration of each enclosing for, such as ".0.3"; "" outside of loops */
    void (*assign)(Elaborator *, const Tree *); /* executes NAME = value; NULL sets a local name */
    int scans;                                  /* number of enclosing scan bodies */
    bool returned;
    Value *result; /* valid if `returned` is set */
    Frame *outer;  /* the train block of a FRAME_RULE; else NULL */
};

typedef struct Param {
    const char *name;
    const Tree *tree;
    const char *set;
    Value *value;
    int state;
} Param;
typedef struct Deferred {
    int variable;
    Node *value;
    const Place *at;
} Deferred; /* an `update` inside a body */
typedef struct Staged {
    Role role;
    const char *name;
    int variable;
    Value *value;
    const Place *at;
} Staged;
typedef struct Staging Staging;
struct Staging {
    Staged *list;
    int count;
    const Staging *outer;
}; /* results and updates in a scan's body */
typedef struct BatchSum {
    Node *node;
    const Place *at;
    bool gathers; /* by batch_gather */
} BatchSum;
typedef struct Rule {
    const Tree *tree;
    Node *lr, *decay; /* NULL if the rule does not set it */
    const Place *decay_at;
    const Value *optimizer;
    int clip;         /* 1 + index in model->clips; 0 if not set */
    int frozen;       /* -1 if not set */
    const char *init; /* path; valid if init_at is not NULL */
    const Place *init_at;
    const char *rules;   /* rules for the names in the file; NULL if not set */
    const char **losses; /* patterns of the losses that train its weights: objectives.c */
    int loss_count;      /* 0: it sets no `loss` */
    const Place *loss_at;
    int64_t times; /* updates in a round */
    const Place *times_at;
    int objective; /* number of its objective, from 1; 0: none, or not known yet */
    bool *matched; /* for each pattern: it has matched a weight */
} Rule;
/* of a state that a later call of the same shared layer updates again; in the order of the calls */
typedef struct EarlierUpdate {
    int variable;
    Node *value;
} EarlierUpdate;
typedef struct FlatDense {
    const char *path, *shape;
    const Place *at;
} FlatDense; /* dense layer of flattened pictures */
typedef struct Act {
    const Node *node;
    const char *name;
} Act; /* a result of softmax or sigmoid */
/* tree: its text, or NULL */
typedef struct TrainSetting {
    const char *name;
    Value *value;
    const Place *at;
    const Tree *tree;
} TrainSetting;
/* A statement that a table executes instead of the core. `frames` is a set of 1 << FrameKind; `where` describes it. */
typedef struct Statement {
    TreeKind kind;
    unsigned frames;
    const char *where;
    void (*run)(Elaborator *, const Tree *);
} Statement;
typedef struct LibraryFile {
    const char *name, *text;
} LibraryFile;
extern const LibraryFile LIBRARY_FILES[]; /* generated by embed.sh; the last row is NULL */

struct Elaborator {
    Model *model;
    Memory *brief; /* arena of frames and arguments, freed when the model is complete */
    const Settings *settings;
    const Statement *statements; /* the last row has no `run` */
    bool *set_used;              /* for each --set: its key was used */
    Map params;                  /* name -> Param */
    Map layers, library;         /* name -> Layer */
    Map builtins;                /* name -> Layer */
    Map readers;                 /* name -> Layer */
    bool broken;                 /* an item or import has failed: a missing layer or param may be one of it */
    const Tree *model_tree, *data_tree, *train_tree;

    Graph *graph;       /* gets new nodes: the pass's graph, a body in it, or init */
    Graph *top;         /* the graph of the pass */
    ScanBody *scan;     /* the innermost scan whose body is being run, or NULL */
    Staging *staging;   /* results of that body, or NULL */
    bool training_pass; /* the first pass, which creates names */
    bool in_model;      /* the model block is being run */
    bool in_init;       /* an initializer is being run */
    bool in_optimizer;  /* an optimizer's layer is being run for variable `owner` */
    int owner;
    bool quiet; /* no warnings: the train block's trial run */
    Map warned; /* reported warnings, with their places; each is reported once */
    Act *acts;  /* results of softmax or sigmoid in the current pass */
    int act_count;
    FlatDense *flat_denses; /* dense layers of flattened pictures, in the training pass */
    int flat_dense_count;
    const char *data_later; /* set if the current reader or stage needs something that is not implemented yet; else NULL */
    bool valid_later;       /* the data set `valid` needs something that is not implemented yet */
    Frame *frame;
    int calls, depth;        /* nesting of layer calls and of eval */
    int steps;               /* iterations of all `for`, in all passes */
    const char *key;         /* call_key of the builtin's call that is being run */
    const Tree *argument;    /* the argument being evaluated; NULL outside of calls */
    const char *shared_name; /* the name to which a shared(...) is being assigned */
    int statement;           /* nonzero inside a loss, metric or output statement: calls get no rows in the layer table */

    Instance *root;
    Map variable_names;    /* name -> Place; checks that names are unique */
    Map random_paths;      /* path -> (intptr) uses in the current pass */
    const char *init_name; /* the variable whose initializer is being run */
    Map result_names;      /* "loss name" -> Place in the current pass; also counts results in loops */
    Map updates;           /* variable -> index of its ROLE_UPDATE among the results of train */
    EarlierUpdate *earlier;
    int earlier_count;
    Deferred *deferred; /* updates of the body that is being built */
    int deferred_count;
    BatchSum *batch_sums; /* sums over the whole batch */
    int batch_sum_count;
    const Place *gathers; /* the first batch_gather; NULL: none */
    bool has_total;
    struct RecordedCall *recorded_calls; /* calls of library layers in the user's text, of the evaluation pass (outline.c) */
    int recorded_call_count;
    Instance **rows; /* the instance of each row of the layer table */

    Map train_settings; /* name -> TrainSetting */
    Rule *rules;
    int rule_count;
    Value *file_value; /* value of the file(...) call in the current initializer, or NULL */
    const char *file_path;
    int64_t batch;     /* 0 if it is not known yet */
    double text_batch; /* the file's batch if --set overrides it; else 0 */
    bool scales_rate;  /* the train block calls scaled(), whose result depends on the batch */
};

/* ---- The functions are listed from the bottom up: each file calls itself and those above it. Only the four files of the core,
 * which execute the text, call each other. They find statements, primitives, readers and settings in tables:
 * Elaborator.statements, Layer.builtin, Layer.read and Frame.assign. */

/* ---- value.c: numbers as sizes */
int64_t whole_of(const Place *, const Value *, const char *what); /* an error unless it is a whole number */
Shape shape_from(const Place *, Value *const *dims, int count);
Shape shape_from_value(const Place *, const Value *, const char *what); /* expects a list of whole numbers */

/* ---- tensor.c: values as nodes */
/* Returns the current graph and sets the place of the nodes that it makes next. */
Graph *graph_at(Elaborator *, const Place *);
Value *weighted_value(Elaborator *, const Place *, Node *value, Node *weight); /* broadcasts the weight to the value */
/* converts numbers, bools and lists to constants */
Node *node_of(Elaborator *, const Place *, const Value *, const char *what);
Node *float_node(Elaborator *, Node *); /* casts whole numbers and bools to f32 */
const Node *seen_through(const Node *); /* the tensor that the node is a view of, or the node itself */
const Input *class_input(const Node *); /* the class input that the node is a view of, or NULL */
int64_t ignored_label(const Node *);    /* of class_input, or of the one that where(...) selects from; else NO_LABEL */
Shape broadcast_shapes(const Place *, const Shape *a, const Shape *b, const char *what);
Value *apply_unary(Elaborator *, const Place *, Op, const Value *);
Value *apply_running(Elaborator *, const Place *, Op, Value **arguments); /* primitive.c */
Value *apply_binary(Elaborator *, const Place *, Op, bool swap, bool negate, Value *a, Value *b, const char *shown);
Value *matmul(Elaborator *, const Place *, Value *a, Value *b);
Value *cast_value(Elaborator *, const Place *, Dtype, Value *);
Node *select_valid_samples(Elaborator *, Node *); /* where(valid, x, 0) */

/* ---- frame.c */
Frame *push_frame(Elaborator *, FrameKind, const Tree *block);
void pop_frame(Elaborator *, Frame *before);
void set_local(Elaborator *, const char *name, Value *);
void set_name(Elaborator *, const Tree *name, Value *);               /* sets a local name that is in the text */
void report_value(const Elaborator *, const Tree *at, const Value *); /* calls Settings.note */
Value *find_local(const Elaborator *, const char *name);
Layer *find_layer(const Elaborator *, const char *name); /* of the user, library or builtins; or NULL */
const char *call_key(const Elaborator *, const Tree *);
const Place *place_of(const Elaborator *, const Tree *);
_Noreturn void error_tree(const Elaborator *, const Tree *, const char *pattern, ...) PRINTF(3, 4);
bool is_news(Elaborator *, const Place *, const char *what); /* true the first time that `what` is reported of a place */
void not_yet(Elaborator *, const Place *, const char *what);
void no_data_yet(Elaborator *, const Place *, const char *what); /* also records that the program lacks this data set */

/* ---- instance.c */
Instance *child_instance(Elaborator *, const char *key, const char *layer, const Argument *name, const Place *at);
const char *random_path(Elaborator *, const char *key);
int declare_variable(Elaborator *, const Tree *, VariableKind, Dtype, Shape);
int find_variable(Elaborator *, const Tree *);

/* ---- primitive.c: sums over the samples of a step */
void check_batch(const Elaborator *, const Place *, const char *name); /* an error unless the step has samples, and trains */
Node *of_batch(Elaborator *, const Place *, Node *, bool gathers);     /* records the sum, and returns it */

/* ---- gradient.c */
Value *run_grad(Elaborator *, const Place *, Value **arguments);
Value *run_substitute(Elaborator *, const Place *, Value **arguments);
Value *run_weights(Elaborator *, const Place *, Value **arguments);

/* ---- reach.c */
bool passes_gradient(const Node *); /* whole numbers and comparisons have no gradient */
/* Marks what the marked nodes depend on; with `gradient`, what a gradient reaches. */
void reach_back(const Graph *, bool *seen, bool gradient);
/* Returns the first node that depends on one in `from`, is in `depended`, and stops the gradient; or NULL. */
const Node *gradient_stop(const Graph *, const bool *from, const bool *depended);
const char *stop_word(const Node *);

/* ---- unknown_names.c */
const Tree *maker(const Tree *block, const char *name); /* Returns the statement of the block that makes the name, or NULL. */
/* Returns a hint on a failed call of v, such as a string that names a layer; "" if there is none. */
const char *call_hint(const Elaborator *, const Value *v, const char *name);
_Noreturn void unknown_type(const Elaborator *, const Tree *type);
_Noreturn void unknown_name(Elaborator *, const Tree *, const char *name, bool callable);

/* ---- warnings.c */
/* The first `by_place` arguments have been given by position. */
void warn_of_call(Elaborator *, const Layer *, Value *const *values, int by_place, const Place *);
void warn_of_log(Elaborator *, const Layer *, Value *const *values, const Place *);
void warn_of_picture(Elaborator *, const Value *result, const Place *);
void record_activation(Elaborator *, const Layer *, const Value *result);
void warn_of_lost_weights(Elaborator *);
void warn_of_channel_order(Elaborator *); /* checks the files of initial values that exist */

/* ---- patterns.c */
typedef struct Reached {    /* the combined rules for one weight */
    Node *lr, *decay;       /* NULL if no rule sets it */
    const Place *decay_at;  /* place of the rule that sets it, or NULL */
    const Value *optimizer; /* NULL if no rule sets it */
    int clip;               /* see Variable.clip */
    bool frozen;
    int objective;       /* see Variable.objective */
    const Rule *init;    /* the rule that sets `init`, or NULL */
    int below;           /* length of the name up to the end of what `pattern` matches */
    const char *pattern; /* the pattern of that rule */
} Reached;
Reached rules_of(Elaborator *, const char *name);
bool is_frozen(const Elaborator *, const char *path); /* `path` is that of an instance */

/* ---- results.c */
Node *fit_variable(Graph *, Node *, const Variable *); /* cast and broadcast to the variable, or NULL if impossible */
Node *updated_state(const Elaborator *, int variable); /* NULL if this step has not updated it yet */
void set_update(Elaborator *, int variable, Node *value, const Place *);
void add_update(Elaborator *, int variable, Node *, const Place *);
bool depends_on_total(const Elaborator *, const Node *); /* true if the node depends on a TOTAL */
void add_result(Elaborator *, Role, const char *name, const Value *, const Place *);

/* ---- subscript.c */
typedef enum SubKind { SUB_INDEX, SUB_SLICE, SUB_DOTS, SUB_NEW } SubKind; /* i, a:b:c, ..., none */
typedef struct Sub {
    SubKind kind;
    Value *value, *end, *step;
    const Place *at;
} Sub; /* value: the index or the start */
typedef struct Subs {
    Sub *list;
    int count;
    const Place *at;
} Subs;
Value *subscript(Elaborator *, const Place *, Value *of, const Subs *);
Value *field(Elaborator *, const Place *, Value *of, const char *name);
Value *slice_axis(Elaborator *, const Place *, Node *, int axis, const Value *start, const Value *end, const Value *step);
Value *take(Elaborator *, const Place *, Node *, int axis, int64_t at); /* returns x[at] along the axis, without the axis */
void unpack(Elaborator *, const Tree *names, Value *value);

/* ---- recover.c */
/* Runs run(e, t) on a statement or item of the user. After an error it restores the state of e, and the names that the statement
 * would have made are broken. */
void run_recovering(Elaborator *, const Tree *, void (*run)(Elaborator *, const Tree *));

/* ---- the core: statement.c, expression.c, lookup.c, call.c */
void run_block(Elaborator *, const Tree *block);
Value *eval(Elaborator *, const Tree *);                    /* one value */
Value *eval_results(Elaborator *, const Tree *);            /* may return VALUE_RESULTS */
Value *eval_applied(Elaborator *, const Tree *, Value *to); /* calls an initializer or optimizer with the argument `to` */
bool eval_condition(Elaborator *, const Tree *, const char *what);
Value *eval_binary(Elaborator *, const Place *, const char *op, Value *a, Value *b);
Value *eval_word(Elaborator *, const Tree *);        /* evaluates --set text, where an unknown word is a string */
const char *take_set(Elaborator *, const char *key); /* uses up --set KEY; NULL if it is not given */
Value *find_name(Elaborator *, const char *name);    /* resolves any name; NULL if it is unknown */
Value *eval_callee(Elaborator *, const Tree *);      /* evaluates what stands before '(' or after |> */
Arguments eval_arguments(Elaborator *, const Tree *args);
/* Maps arguments to parameters by position and name. result[i] is NULL if parameter i was not given. */
void bind_arguments(const char *layer, const char *const *names, int count, Arguments, Value *piped, const Place *at,
                    Value **result, const Place **places);
/* Calls a layer. `key` identifies the call in its instance (call_key). May return VALUE_RESULTS. */
Value *call_layer(Elaborator *, Layer *, const Place *at, Arguments, Value *piped, const char *key);

/* ---- reachable.c */
typedef struct Reachable {
    bool **seen;
    const Graph **graphs;
    int graph_count;
} Reachable;
bool *reached_in(Reachable *, const Graph *); /* by node: it has been reached */
void reach_from(Reachable *, const Node *);   /* reaches the node and all that it depends on, in the bodies on the way, too */

/* ---- loop.c */
void run_scan(Elaborator *, const Tree *);
Node *random_in_scan(ScanBody *, Shape, const char *path); /* this step's slice of all steps' random numbers */

/* ---- initials.c */
void build_initials(Elaborator *);
void initial_from_array(Elaborator *, int variable, const char *path, const Place *);

/* ---- declare.c */
void declare_input(Elaborator *, const Tree *);
void declare_weight(Elaborator *, const Tree *);
void run_update(Elaborator *, const Tree *);
void run_result(Elaborator *, const Tree *); /* runs loss, metric and output */

/* ---- rules.c, optimizer.c, train.c, data.c, layers.c, load.c */
void train_rule(Elaborator *, const Tree *);
/* objectives.c: objectives of the rules, when the model's losses are known; checks that each weight has one; their graphs */
void make_objectives(Elaborator *);
void check_objectives(Elaborator *);
void split_objectives(Elaborator *);
void build_updates(Elaborator *, bool trains);
void read_averages(Elaborator *); /* replaces averaged weights in the evaluation graph */
void run_train(Elaborator *, bool trial);
void warn_of_rate(Elaborator *);
void warn_of_training(Elaborator *); /* warns of settings that have no effect in a model without a loss */
void record_settings(Elaborator *);  /* records settings and params for the log of a run */
void run_data(Elaborator *);
void load_readers(Elaborator *);
void finish_layers(Elaborator *);
void load_files(Elaborator *, const Tree *file); /* loads the library, builtins, the file and its imports */

/* ---- outline.c: `names` are the layer's parameters, whose values are in the frame */
struct RecordedCall *begin_record(Elaborator *, const Layer *, const char *const *names, int count, const Place *);
void end_record(Elaborator *, struct RecordedCall *, const Value *result);
void outline(Elaborator *); /* makes the model's outline from its evaluation graph */

/* ---- require.c */
Value *run_require(Elaborator *, const Place *, Value **arguments);
void require_of_inputs(Elaborator *, const Node *value); /* Reads conditions from a result of which no element has weight 0. */

/* ---- library.c */
void load_library(Elaborator *);
Layer *library_layer(const Elaborator *, const char *name); /* NULL if there is none */
#endif
