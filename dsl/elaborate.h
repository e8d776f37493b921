/* elaborate.h: what the files of the elaborator share. Nothing outside dsl/ includes it.
 *
 * The elaborator runs the program text: numbers, lists, choices and loops are computed here and now, what is computed
 * for each sample becomes nodes of a graph. A Frame is one call of a layer (or the model, data or train block) with
 * its scope; an Instance is one call's identity, which names weights and is found again in the evaluation pass. */
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
typedef struct ScanBody ScanBody; /* loop.c: the body of a scan that runs */
typedef struct Samples Samples; /* data.c: a reader, its columns, what follows it */

/* ---- values */
typedef enum ValueKind {
    VALUE_NUMBER,   /* whole: i; else d */
    VALUE_BOOL,     /* i */
    VALUE_NONE,
    VALUE_STRING,   /* text */
    VALUE_LIST,     /* items */
    VALUE_TYPE,     /* i = Dtype; text = name */
    VALUE_QUANTITY, /* d of a unit; text = the unit's name */
    VALUE_LAYER,    /* layer */
    VALUE_TENSOR,   /* node */
    VALUE_WEIGHTED, /* node, weight: of the same shape; weight is a float */
    VALUE_RESULTS,  /* items: of a call with several results; the first is taken where one is wanted */
    VALUE_SOURCE,   /* samples: of a data block */
    VALUE_BROKEN,   /* of a name whose statement had an error: whoever asks for it gives up */
} ValueKind;
struct Value {
    ValueKind kind;
    bool whole;
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

void values_lie_in(Memory *);
Value *value_new(void);
Value *value_whole(int64_t);
Value *value_number(double);         /* whole if it is a whole number that fits */
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
double number_of(const Value *);     /* of a VALUE_NUMBER */
double exact_number(const Place *, const Value *); /* of a VALUE_NUMBER or VALUE_BOOL, as a constant; an error if no double is it */
bool has_tensor(const Value *);      /* in the value or, if it is a list, anywhere below */
const char *value_describe(const Value *); /* "the number 3", "a list", "a tensor [3, 4]": for messages */
const char *value_print(const Value *);    /* as joined to a string and shown in messages: 3, 0.5, abc, [1, 2] */
Value *first_of(Value *);            /* one value of several results */

/* arithmetic of numbers, strings, lists, quantities; NULL where a tensor takes part or no rule fits */
Value *compute_binary(Elaborator *, const Place *, const char *op, Value *a, Value *b);

/* ---- layers as values */
typedef enum LayerKind {
    LAYER_TEXT,     /* written in the language */
    LAYER_BUILTIN,  /* a primitive or compile-time function */
    LAYER_TYPE,     /* a cast */
    LAYER_PIPELINE, /* steps whose arguments are evaluated */
    LAYER_SHARED,   /* one instance */
    LAYER_READER,   /* a reader or stage of data */
} LayerKind;
typedef struct Argument { const char *name; Value *value; const Place *at; } Argument;
typedef struct Arguments { Argument *list; int count; } Arguments;
typedef struct Step { Layer *layer; Arguments arguments; const Place *at; } Step;
typedef struct Builtin Builtin;
struct Layer {
    LayerKind kind;
    const char *name;
    const Tree *tree;       /* TEXT: the layer's; NULL: of the library, and not parsed yet */
    const Source *source;   /* of a library's layer: its part of the file */
    const Builtin *builtin;
    Dtype dtype;            /* TYPE */
    Step *steps;            /* PIPELINE */
    int step_count;
    Layer *inner;           /* SHARED */
    Instance *instance;
    Value *(*read)(Elaborator *, const Layer *, const Place *, Arguments, Value *piped); /* READER */
};

Value *value_step(Step);             /* a pipeline of this step alone */

/* a builtin's parameters: text such as "x, axes = none, keep = false"; `result` gets one Value per parameter */
struct Builtin {
    const char *name, *parameters;
    Value *(*run)(Elaborator *, const Place *, Value **arguments);
};
extern const Builtin COMPILE_TIME[], PRIMITIVES[]; /* function.c, primitive.c; each ends with a row of NULL */
const Builtin *elementwise_primitives(void);       /* elementwise.c; likewise. PRIMITIVES has others of some names */

/* ---- instances: names of weights */
struct Instance {
    const char *path;        /* "layer1.0.conv1"; "" at the top */
    const Place *at;
    Instance *names;         /* whose path and numbers are used: itself, or an outer one after name = none */
    Map children;            /* place of a call -> Instance */
    Map numbers;             /* names only: layer -> (intptr) how many calls */
    Map variables;           /* declared name and loop -> (intptr) index + 1 of the model's variable */
    int row;                 /* in the layer table; -1: none */
    bool owns;               /* declares a weight or state */
    bool shown;              /* called in the model's own text: a row even without weights */
};

/* ---- frames */
typedef enum FrameKind { FRAME_LAYER, FRAME_MODEL, FRAME_DATA, FRAME_TRAIN, FRAME_RULE, FRAME_PARAM } FrameKind;
struct Frame {
    FrameKind kind;
    const Tree *block;       /* its text */
    bool broken;             /* a statement of it had an error: names that are not there may be its */
    const Layer *layer;      /* FRAME_LAYER */
    const Place *call;       /* the call that led here */
    bool library;            /* its text is in the library */
    bool training;
    Map locals;              /* name -> Value */
    Map declared;            /* names declared by weight, state, input -> Tree */
    Map updated;             /* full names of states -> Place of their `update` */
    Instance *instance;
    const char *loops;       /* "" or the iteration of each enclosing for: ".0.3" */
    void (*assign)(Elaborator *, const Tree *); /* what NAME = value does; NULL: it sets a local name */
    int scans;               /* how many scans' bodies it is in */
    bool returned;
    Value *result;           /* once returned */
    Frame *outer;            /* FRAME_RULE: the train block; else NULL */
};

typedef struct Param { const char *name; const Tree *tree; const char *set; Value *value; int state; } Param;
typedef struct Deferred { int variable; Node *value; const Place *at; } Deferred; /* an update inside a body */
typedef struct Staged { Role role; const char *name; int variable; Value *value; const Place *at; } Staged;
typedef struct Staging Staging;
struct Staging { Staged *list; int count; const Staging *outer; }; /* results and updates in a scan's body */
typedef struct BatchSum { Node *node; const Place *at; } BatchSum;
typedef struct Rule {
    const Tree *tree;
    Node *lr, *decay;        /* NULL where the rule sets none */
    const Place *decay_at;
    const Value *optimizer;
    int clip;                /* number in model->clips, from 1 */
    int frozen;              /* -1: not set */
    const char *init;        /* init_at NULL: not set */
    const Place *init_at;
    const char *rules;       /* for names of its file; NULL: none are given */
    bool *matched;           /* per pattern: it reached a weight */
} Rule;
typedef struct FlatDense { const char *path, *shape; const Place *at; } FlatDense; /* a dense layer of flattened pictures: of this shape */
typedef struct Act { const Node *node; const char *name; } Act; /* a result of softmax or sigmoid */
typedef struct TrainSetting { const char *name; Value *value; const Place *at; const Tree *tree; } TrainSetting; /* tree: its text, or NULL */
/* a statement that the core does not run itself: the frames that it may be in (1 << FrameKind), and their words */
typedef struct Statement { TreeKind kind; unsigned frames; const char *where; void (*run)(Elaborator *, const Tree *); } Statement;
typedef struct LibraryFile { const char *name, *text; } LibraryFile;
extern const LibraryFile LIBRARY_FILES[]; /* written by embed.sh; ends with a row of NULL */

struct Elaborator {
    Model *model;
    Memory *brief;           /* of frames and arguments: given back when the model is there */
    const Settings *settings;
    const Statement *statements; /* ends with a row without `run` */
    bool *set_used;          /* per --set: it was found */
    Map params;              /* name -> Param */
    Map layers, library;     /* name -> Layer */
    Map builtins;            /* name -> Layer */
    Map readers;             /* name -> Layer */
    bool broken;             /* so had an item, or an import: layers and params that are not there may be its */
    const Tree *model_tree, *data_tree, *train_tree;

    Graph *graph;            /* where nodes go: the pass's, a body of it, or init */
    Graph *top;              /* the pass's graph */
    ScanBody *scan;          /* the innermost scan whose body runs; NULL: none */
    Staging *staging;        /* its results; NULL likewise */
    bool training_pass;      /* first pass: names are given */
    bool in_model;           /* the model block runs */
    bool in_init;            /* an initialiser runs */
    bool in_optimizer;       /* an optimizer's layer runs for variable `owner` */
    int owner;
    bool quiet;              /* no warnings: a trial run of the train block */
    Map warned;              /* what was said not to be there yet: once for each place */
    Act *acts;               /* of this pass */
    int act_count;
    FlatDense *flat_denses;  /* of the training pass */
    int flat_dense_count;
    const char *data_later;  /* what the reader or stage that is called needs and is not there yet; NULL: nothing */
    bool valid_later;        /* so does the data set valid */
    Frame *frame;
    int calls, depth;        /* of layers; of eval */
    int steps;               /* of all `for`, of all passes */
    const char *key;         /* of the call of the builtin that runs */
    const Tree *argument;    /* the argument that is being evaluated; NULL outside of calls */
    const char *shared_name; /* the variable to which a shared(...) is being assigned */
    int statement;           /* inside a loss, metric or output statement: no rows in the layer table */

    Instance *root;
    Map variable_names;      /* name -> Place, for uniqueness */
    Map random_paths;        /* of this pass: path -> (intptr) uses */
    const char *init_name;   /* the variable whose initialiser runs */
    Map result_names;        /* of this pass: "loss name" -> Place, and numbers of those in loops */
    Map updates;             /* variable -> number of its ROLE_UPDATE among the results of train */
    Deferred *deferred;      /* updates of the body being built */
    int deferred_count;
    BatchSum *batch_sums;    /* over the whole batch, in the training pass */
    int batch_sum_count;
    bool has_total;
    struct NotedCall *noted; /* calls of layers of the library by the user's text, of evaluation: outline.c */
    int noted_count;
    Instance **rows;         /* instance of each row of the layer table */

    Map train_settings;      /* name -> TrainSetting, of the train block */
    Rule *rules;
    int rule_count;
    Value *file_value;       /* of the file(...) that the initialiser under way has called; NULL: none */
    const char *file_path;
    int64_t batch;           /* 0: not known yet */
    double text_batch;       /* that of the file, where --set has given another; 0: it has not */
    bool scales_rate;        /* the train block calls scaled(), whose result follows the batch */
};

/* ---- What follows goes from the bottom up: each file calls those above it, and itself. Only the four of the core, which run the
 * text, call each other. They know no statement, primitive, reader or setting that needs them: they find these in Elaborator.statements,
 * Layer.builtin, Layer.read and Frame.assign. */

/* ---- value.c: numbers for sizes */
int64_t whole_of(const Place *, const Value *, const char *what);           /* error unless it is a whole number */
Shape shape_from(const Place *, Value *const *dims, int count);
Shape shape_from_value(const Place *, const Value *, const char *what);     /* a list of whole numbers */

/* ---- tensor.c: values as nodes */
Graph *graph_at(Elaborator *, const Place *); /* the graph, told where the next nodes come from */
Value *weighted_value(Elaborator *, const Place *, Node *value, Node *weight); /* the weight is broadcast to the value */
Node *node_of(Elaborator *, const Place *, const Value *, const char *what); /* numbers, bools, lists become constants */
Node *float_node(Elaborator *, Node *);                                       /* whole numbers and bool as f32 */
const Node *seen_through(const Node *);                                       /* what it is a view of: itself, if it is none */
const Input *class_input(const Node *);      /* the class input that it is a view of, or NULL */
int64_t ignored_label(const Node *);         /* of the class input that it is a view of, or that where(...) chooses from, or NO_LABEL */
Shape broadcast_shapes(const Place *, const Shape *a, const Shape *b, const char *what);
Value *apply_unary(Elaborator *, const Place *, Op, const Value *);
Value *apply_binary(Elaborator *, const Place *, Op, bool swap, bool negate, Value *a, Value *b, const char *shown);
Value *matmul(Elaborator *, const Place *, Value *a, Value *b);
Value *cast_value(Elaborator *, const Place *, Dtype, Value *);
Node *select_valid_samples(Elaborator *, Node *);         /* where(valid, x, 0) */

/* ---- frame.c */
Frame *push_frame(Elaborator *, FrameKind, const Tree *block);
void pop_frame(Elaborator *, Frame *before);
void set_local(Elaborator *, const char *name, Value *);
void set_name(Elaborator *, const Tree *name, Value *);                  /* likewise, of a name in the text */
void note_value(const Elaborator *, const Tree *at, const Value *);      /* for Settings.note */
Value *find_local(const Elaborator *, const char *name);
Layer *find_layer(const Elaborator *, const char *name); /* user's layers, library, builtins; or NULL */
const char *call_key(const Elaborator *, const Tree *);
const Place *place_of(const Elaborator *, const Tree *);
_Noreturn void error_tree(const Elaborator *, const Tree *, const char *pattern, ...) PRINTF(3, 4);
bool is_news(Elaborator *, const Place *, const char *what); /* the first time that this is said of this place */
void not_yet(Elaborator *, const Place *, const char *what);
void no_data_yet(Elaborator *, const Place *, const char *what); /* likewise, of a data block: the program lacks that set */

/* ---- instance.c */
Instance *child_instance(Elaborator *, const char *key, const char *layer, const Argument *name, const Place *at);
const char *random_path(Elaborator *, const char *key);
int declare_variable(Elaborator *, const Tree *, VariableKind, Dtype, Shape);
int find_variable(Elaborator *, const Tree *);

/* ---- unknown.c */
const Tree *maker(const Tree *block, const char *name); /* where the block's text makes the name; NULL: nowhere */
/* what is wrong with a call of v: a string that is the name of a layer, the result of a call; "" if nothing is known */
const char *call_hint(const Elaborator *, const Value *v, const char *name);
_Noreturn void unknown_type(const Elaborator *, const Tree *type);
_Noreturn void unknown_name(Elaborator *, const Tree *, const char *name, bool callable);

/* ---- warnings.c */
/* by_place: how many of the first parameters have no name in the call */
void warn_of_call(Elaborator *, const Layer *, Value *const *values, int by_place, const Place *);
void warn_of_log(Elaborator *, const Layer *, Value *const *values, const Place *);
void warn_of_picture(Elaborator *, const Value *result, const Place *);
void note_act(Elaborator *, const Layer *, const Value *result);
void warn_of_lost_weights(Elaborator *);
void warn_of_channel_order(Elaborator *); /* files of initial values, as far as they are there */

/* ---- patterns.c */
typedef struct Reached {     /* what all rules together say of a weight */
    Node *lr, *decay;        /* NULL where no rule sets them */
    const Place *decay_at;   /* of the rule that sets it; NULL: none does */
    const Value *optimizer;  /* NULL: no rule sets it */
    int clip;                /* as Variable.clip */
    bool frozen;
    const Rule *init;        /* whose `init` holds; NULL: no rule's */
    int below;               /* characters of the name up to the end of what the rule's pattern matches */
    const char *pattern;     /* that one */
} Reached;
Reached rules_of(Elaborator *, const char *name);
bool is_frozen(const Elaborator *, const char *path); /* the instance */

/* ---- results.c */
Node *fit_variable(Graph *, Node *, const Variable *); /* in its type and shape; NULL: its shape does not fit */
Node *updated_state(const Elaborator *, int variable); /* NULL: not yet in this step */
void set_update(Elaborator *, int variable, Node *value, const Place *);
void add_update(Elaborator *, int variable, Node *, const Place *);
bool reaches_total(const Elaborator *, const Node *); /* does it depend on a TOTAL of the pass's graph? */
void add_result(Elaborator *, Role, const char *name, const Value *, const Place *);

/* ---- subscript.c */
typedef enum SubKind { SUB_INDEX, SUB_SLICE, SUB_DOTS, SUB_NEW } SubKind;                        /* i, a:b:c, ..., none */
typedef struct Sub { SubKind kind; Value *value, *end, *step; const Place *at; } Sub;            /* value: the index, or the start */
typedef struct Subs { Sub *list; int count; const Place *at; } Subs;
Value *subscript(Elaborator *, const Place *, Value *of, const Subs *);
Value *field(Elaborator *, const Place *, Value *of, const char *name);
Value *slice_axis(Elaborator *, const Place *, Node *, int axis, const Value *start, const Value *end, const Value *step);
Value *take(Elaborator *, const Place *, Node *, int axis, int64_t at); /* x[at] along an axis, which goes */
void unpack(Elaborator *, const Tree *names, Value *value);

/* ---- recover.c */
/* run(e, t), which is a statement or an item of the user's; where that ends with an error, e is again where it was, and the names that the
 * statement would have made are broken */
void run_recovering(Elaborator *, const Tree *, void (*run)(Elaborator *, const Tree *));

/* ---- the core: statement.c, expression.c, lookup.c, call.c */
void run_block(Elaborator *, const Tree *block);
Value *eval(Elaborator *, const Tree *);         /* one value */
Value *eval_results(Elaborator *, const Tree *); /* may be VALUE_RESULTS */
Value *eval_applied(Elaborator *, const Tree *, Value *to); /* an initialiser, or the optimizer: applied to `to` */
bool eval_condition(Elaborator *, const Tree *, const char *what);
Value *eval_binary(Elaborator *, const Place *, const char *op, Value *a, Value *b);
Value *eval_word(Elaborator *, const Tree *);                  /* of --set: a lone unknown word is a string */
const char *take_set(Elaborator *, const char *key);           /* VALUE of the --set KEY that holds, which is used; NULL: none */
Value *find_name(Elaborator *, const char *name);              /* any name, or NULL */
Value *eval_callee(Elaborator *, const Tree *);                /* what is before '(' or after |> */
Arguments eval_arguments(Elaborator *, const Tree *args);
/* arguments to parameters; names are parameter names; result[i] is NULL where none was given */
void bind_arguments(const char *layer, const char *const *names, int count, Arguments, Value *piped, const Place *at, Value **result,
                    const Place **places);
/* a call; `key` is the place of the call in the instance: tree id and loops; may return VALUE_RESULTS */
Value *call_layer(Elaborator *, Layer *, const Place *at, Arguments, Value *piped, const char *key);

/* ---- loop.c */
void run_scan(Elaborator *, const Tree *);
Node *random_in_scan(ScanBody *, Shape, const char *path); /* the step's part of the random numbers of all steps */

/* ---- initials.c */
void build_initials(Elaborator *);
void initial_from_array(Elaborator *, int variable, const char *path, const Place *);

/* ---- declare.c */
void declare_input(Elaborator *, const Tree *);
void declare_weight(Elaborator *, const Tree *);
void run_update(Elaborator *, const Tree *);
void run_result(Elaborator *, const Tree *);   /* loss, metric, output */

/* ---- rules.c, optimizer.c, train.c, data.c, layers.c, load.c */
void train_rule(Elaborator *, const Tree *);
void build_updates(Elaborator *, bool trains);
void read_averages(Elaborator *);                /* in the evaluation graph */
void run_train(Elaborator *, bool trial);
void warn_of_rate(Elaborator *);
void warn_of_training(Elaborator *);            /* settings without effect, in a model without a loss */
void tell(Elaborator *);                         /* what settings and params are, for the log of a run */
void run_data(Elaborator *);
void load_readers(Elaborator *);
void finish_layers(Elaborator *);
void load_files(Elaborator *, const Tree *file); /* library, builtins, the file and its imports */

/* ---- outline.c: names of the layer's parameters, which are in the frame */
struct NotedCall *begin_note(Elaborator *, const Layer *, const char *const *names, int count, const Place *);
void end_note(Elaborator *, struct NotedCall *, const Value *result);
void outline(Elaborator *);                      /* the model's, when its evaluation graph is there */

/* ---- require.c */
Value *run_require(Elaborator *, const Place *, Value **arguments);
void require_of_inputs(Elaborator *, const Node *value); /* of a result, none of whose elements has weight 0 */

/* ---- library.c */
void load_library(Elaborator *);
Layer *library_layer(const Elaborator *, const char *name); /* NULL: there is none */
#endif
