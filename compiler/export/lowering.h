/* lowering.h: declarations shared by the files that lower operations. */
#ifndef MGPU_COMPILER_EXPORT_LOWERING_H
#define MGPU_COMPILER_EXPORT_LOWERING_H

#include "compiler/export/export.h"

#include <setjmp.h>

typedef ExportedTensor Value;
typedef struct Extents {
    int rank;
    int64_t extent[EXPORTED_RANK];
} Extents;

/* A node's values: `last`: axes as in the model; `first`: channels first, if it has samples; `raw`: an input before conversion */
typedef struct Lowered {
    const Value *last, *first, *raw;
} Lowered;

typedef struct Lowering Lowering;
struct Lowering {
    const Graph *graph;
    bool torch;
    Exported *out;
    Lowering *outer;     /* of a loop's body: the graph around it; NULL at the top */
    Lowered *values;     /* by node */
    int *uses;           /* by node: how many nodes and results of the graph read it */
    const Node *at;      /* the node being lowered */
    Map *names;          /* names in use */
    Map *constants;      /* whole numbers in lists, attention masks and the like, by key */
    const Value *sample; /* at the top: a value whose first axis is the samples */
    jmp_buf stop;        /* at the top: cannot_export() jumps here */
};

/* ---- values.c: emits operations */
Extents extents_of(const Value *);
Extents extents(bool has_samples, const Shape *);
Dtype carried(const Lowering *, Dtype); /* the type used instead: I32, I64 for whole numbers, floats for halves */
const Value *emit(Lowering *, const char *kind, Dtype, Extents, int inputs, const Value *const *);
#define EMIT(l, kind, dtype, extents, ...)                                                                                       \
    emit(l, kind, dtype, extents, COUNT(((const Value *[]){__VA_ARGS__})), (const Value *[]){__VA_ARGS__})
const Value *second_result(Lowering *, Dtype, Extents);      /* adds a result to the last operation emitted */
void attribute(Lowering *, const char *name, int64_t value); /* of the last operation emitted, as the next four */
void attribute_list(Lowering *, const char *name, const int64_t *, int count);
void attribute_number(Lowering *, const char *name, double);
void attribute_text(Lowering *, const char *name, const char *);
void attribute_graph(Lowering *, const char *name, const Exported *);
const Value *constant_of(Lowering *, const double *, Dtype, Extents);
const Value *scalar_of(Lowering *, double, Dtype);                  /* a constant of rank 0 */
const Value *whole_numbers(Lowering *, const int64_t *, int count); /* a constant of type I64, as ONNX's operations take it */
const Value *variable_of(Lowering *, int variable);
const char *unique_name(Lowering *, const char *);
_Noreturn void cannot_export(Lowering *, const char *what); /* Ends lower(); the result's `refused` says where and why. */
const Value *unary(Lowering *, const char *kind, const Value *);
const Value *binary(Lowering *, const char *kind, const Value *, const Value *); /* broadcasts; of the type of the first */
const Value *binary_of(Lowering *, const char *kind, Dtype, const Value *, const Value *);
const Value *compare(Lowering *, const char *kind, const Value *, double);
const Value *from_0_to(Lowering *, const Value *, double last); /* Returns whether it is from 0 to `last`. */
const Value *where_of(Lowering *, const Value *condition, const Value *, const Value *);
const Value *cast(Lowering *, const Value *, Dtype);
const Value *reshape(Lowering *, const Value *, Extents);
const Value *transpose(Lowering *, const Value *, const int64_t *order);
const Value *expand(Lowering *, const Value *, Extents);
const Value *slice(Lowering *, const Value *, int count, const int64_t *axes, const int64_t *start, const int64_t *counts,
                   const int64_t *step);
const Value *pad(Lowering *, const Value *, const int64_t *low, const int64_t *high, double); /* by axis; negative ones crop */
const Value *of_all_samples(Lowering *, const Value *);         /* Repeats a value for each sample. */
const Value *wrapped(Lowering *, const Value *, Dtype);         /* Wraps around as numbers of this type do. */
const Value *whole_number_of(Lowering *, const Value *, Dtype); /* Converts from floats. */

/* ---- nodes.c: the values of lowered nodes */
Lowered *lowered(Lowering *, const Node *);
const Value *reordered(Lowering *, const Value *, bool first); /* Moves channels to the front, or to the end. */
const Value *value_of(Lowering *, const Node *);               /* in the model's order of axes; may be unbroadcast */
const Value *whole_value(Lowering *, const Node *);            /* the same with all elements */
const Value *channels_first(Lowering *, const Node *);         /* of a node with samples, of rank 1 or more, with all elements */
bool is_first(Lowering *, const Node *);                       /* Returns whether only `first` exists. */
const Value *index_value(Lowering *, const Node *);            /* as I32 or I64, without conversion if possible */
int axis_of(const Node *, int axis, bool first);               /* Returns the axis of the value. */
void set_lowered(Lowering *, const Node *, const Value *, bool first);

/* ---- lower.c */
Lowering *lowering_of(const Graph *, bool torch, Exported *, Lowering *outer);
void lower_nodes(Lowering *);

/* ---- patterns.c: groups of nodes that are one operation; in: the nodes that it reads */
typedef enum PatternKind {
    NO_PATTERN,
    PATTERN_RELU,
    PATTERN_GELU,
    PATTERN_SOFTMAX,
    PATTERN_BATCHNORM,
    PATTERN_LAYERNORM,
    PATTERN_CONVOLUTION, /* with a bias; in[3]: the product */
    PATTERN_LINEAR       /* with a bias; in[3]: the product */
} PatternKind;
typedef struct Pattern {
    PatternKind kind;
    const Node *in[5];
    double number;
    int axis;
} Pattern;
bool find_pattern(const Lowering *, const Node *, Pattern *);

typedef void Lower(Lowering *, const Node *);
void lower_pattern(Lowering *, const Node *, const Pattern *);
/* products.c */
Lower lower_einsum, lower_convolve, lower_attention, lower_window_max, lower_window_sum;
void lower_linear(Lowering *, const Node *product, const Node *bias, const Node *result);
void lower_convolution(Lowering *, const Node *product, const Node *bias, const Node *result);
bool is_linear_product(const Node *, const Node **x, const Node **w, bool *transposed);
/* views.c */
Lower lower_reshape, lower_transpose, lower_slice, lower_concat, lower_pad, lower_broadcast, lower_gather, lower_scatter_add,
    lower_top_k, lower_unslice;
/* loops.c */
Lower lower_scan, lower_result;
#endif
