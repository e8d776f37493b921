/* lowering.h: what the files that lower operations share. */
#ifndef MGPU_COMPILER_EXPORT_LOWERING_H
#define MGPU_COMPILER_EXPORT_LOWERING_H

#include "compiler/export/export.h"

#include <setjmp.h>

typedef ExportedTensor Value;
typedef struct Extents {
    int rank;
    int64_t extent[EXPORTED_RANK];
} Extents;

/* What a node has become. `first`: channels first, of what is sharded; `raw`: an input as it is given */
typedef struct Lowered {
    const Value *last, *first, *raw;
} Lowered;

typedef struct Lowering Lowering;
struct Lowering {
    const Graph *graph;
    bool torch;
    Exported *out;
    Lowering *outer;     /* of a body; NULL at the top */
    Lowered *values;     /* by node */
    int *uses;           /* by node: how many that are lowered read it */
    const Node *at;      /* that is being lowered */
    Map *names;          /* that are taken */
    Map *constants;      /* whole numbers in lists, and the masks of attention, by what they are */
    const Value *sample; /* what has the batch as its first axis, of the graph at the top */
    jmp_buf stop;        /* of the graph at the top: where it goes on once something cannot be exported */
};

/* ---- values.c: operations */
Extents extents_of(const Value *);
Extents extents(bool sharded, const Shape *);
Dtype carried(const Lowering *, Dtype); /* whole numbers are I32 or I64, halves floats */
const Value *emit(Lowering *, const char *kind, Dtype, Extents, int inputs, const Value *const *);
#define EMIT(l, kind, dtype, extents, ...)                                                                                       \
    emit(l, kind, dtype, extents, COUNT(((const Value *[]){__VA_ARGS__})), (const Value *[]){__VA_ARGS__})
const Value *second_result(Lowering *, Dtype, Extents);      /* of the operation that was emitted last */
void attribute(Lowering *, const char *name, int64_t value); /* of the operation that was emitted last */
void attribute_list(Lowering *, const char *name, const int64_t *, int count);
void attribute_number(Lowering *, const char *name, double);
void attribute_text(Lowering *, const char *name, const char *);
void attribute_graph(Lowering *, const char *name, const Exported *);
const Value *constant_of(Lowering *, const double *, Dtype, Extents);
const Value *scalar_of(Lowering *, double, Dtype);                  /* a scalar */
const Value *whole_numbers(Lowering *, const int64_t *, int count); /* an input of ONNX's operations, I64 */
const Value *variable_of(Lowering *, int variable);
const char *unique_name(Lowering *, const char *);
_Noreturn void cannot_export(Lowering *, const char *what); /* ends lower(), whose result says where and what */
const Value *unary(Lowering *, const char *kind, const Value *);
const Value *binary(Lowering *, const char *kind, const Value *, const Value *); /* broadcasts; the type of the first */
const Value *binary_of(Lowering *, const char *kind, Dtype, const Value *, const Value *);
const Value *compare(Lowering *, const char *kind, const Value *, double);
const Value *from_0_to(Lowering *, const Value *, double last); /* whether it is one of 0, 1, ..., last */
const Value *where_of(Lowering *, const Value *condition, const Value *, const Value *);
const Value *cast(Lowering *, const Value *, Dtype);
const Value *reshape(Lowering *, const Value *, Extents);
const Value *transpose(Lowering *, const Value *, const int64_t *order);
const Value *expand(Lowering *, const Value *, Extents);
const Value *slice(Lowering *, const Value *, int count, const int64_t *axes, const int64_t *start, const int64_t *counts,
                   const int64_t *step);
const Value *pad(Lowering *, const Value *, const int64_t *low, const int64_t *high, double); /* by axis; negative ones cut off */
const Value *of_all_samples(Lowering *, const Value *); /* what is the same for all, once for each */
const Value *wrapped(Lowering *, const Value *, Dtype); /* as numbers of this type are, which are carried in a wider one */
const Value *whole_number_of(Lowering *, const Value *, Dtype); /* of floats */

/* ---- nodes.c: what nodes have become */
Lowered *lowered(Lowering *, const Node *);
const Value *reordered(Lowering *, const Value *, bool first); /* channels to the front, or back */
const Value *value_of(Lowering *, const Node *);               /* axes as in the model; loose: an extent may be 1 */
const Value *whole_value(Lowering *, const Node *);            /* likewise, with all elements */
const Value *channels_first(Lowering *, const Node *);         /* of a sharded node of rank 1 or more; with all elements */
bool is_first(Lowering *, const Node *);                       /* it is there channels first alone */
const Value *index_value(Lowering *, const Node *);            /* of whole numbers, I32 or I64 */
int axis_of(const Node *, int axis, bool first);               /* of the value */
void set_lowered(Lowering *, const Node *, const Value *, bool first);

/* ---- lower.c */
Lowering *lowering_of(const Graph *, bool torch, Exported *, Lowering *outer);
void lower_nodes(Lowering *);

/* ---- patterns.c: what several nodes are together; in: the nodes that it reads */
typedef enum PatternKind {
    NO_PATTERN,
    PATTERN_RELU,
    PATTERN_GELU,
    PATTERN_SOFTMAX,
    PATTERN_BATCHNORM,
    PATTERN_LAYERNORM,
    PATTERN_CONVOLUTION, /* with a bias; in[3]: the product */
    PATTERN_LINEAR       /* likewise */
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
