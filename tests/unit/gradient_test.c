/* gradient_test.c: the gradient rule of every row of ops.def against central finite differences in double.
 *
 * A case is an operation with operand shapes and attributes. It runs with every operand once the same for all samples (a
 * weight) and once of its own for each (a weight times an input), the result's coefficients likewise, and with all
 * samples valid or some missing. A row with a gradient and no case fails. After the rows: whole graphs, where losses,
 * weights of losses, missing samples, sharing and composites meet. All of it twice: as differentiate gives it, and after
 * the stages that follow, which must not change a value. */
#include "compiler/passes/composite.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 3, OPERANDS = 3, MOST = 8 };

typedef struct Case {
    Op op;
    const char *name;
    int inputs; /* differentiable operands */
    Shape shape[OPERANDS];
    double low, high; /* of the weights; both 0: -1 .. 1 */
    bool over;        /* sums over samples */
    const char *text;
    Shape index;   /* GATHER, SCATTER_ADD; WHERE: the condition; WINDOW_MAX_GRADIENT: places in windows */
    double number; /* POW: a constant exponent; CAST: the type */
    int int_count;
    int64_t ints[32];
} Case;

/* clang-format off */
#define S(...) {.rank = COUNT(((int64_t[]){__VA_ARGS__})), .extent = {__VA_ARGS__}}
#define S0 {.rank = 0}
/* clang-format on */
#define RANGE(from, to) .low = from, .high = to
#define INTS(...) .int_count = COUNT(((int64_t[]){__VA_ARGS__})), .ints = {__VA_ARGS__}

static const Case CASES[] = {
/* element-wise: equal shapes, size 1, broadcast, scalars, empty */
#define PAIRS(op, from, to)                                                                                                      \
    {op, "equal shapes", 2, {S(3, 2), S(3, 2)}, RANGE(from, to)}, {op, "size 1", 2, {S(1), S(1)}, RANGE(from, to)},              \
        {op, "broadcast", 2, {S(3, 1, 2), S(5, 1)}, RANGE(from, to)}, {op, "a number", 2, {S0, S(2, 3)}, RANGE(from, to)},       \
    {                                                                                                                            \
        op, "empty", 2, {S(0, 2), S(1, 2)}, RANGE(from, to)                                                                      \
    }
    PAIRS(OP_ADD, 0, 0),
    PAIRS(OP_SUB, 0, 0),
    PAIRS(OP_MUL, 0, 0),
    PAIRS(OP_DIV, 0.5, 2),
    PAIRS(OP_POW, 0.3, 2),
    PAIRS(OP_MINIMUM, 0, 0),
    PAIRS(OP_MAXIMUM, 0, 0),
    PAIRS(OP_WHERE, 0, 0),
    PAIRS(OP_MOD, 0.5, 2),
    PAIRS(OP_ATAN2, 0.1, 1),
    {OP_ATAN2, "of negative numbers", 2, {S(3), S(3)}, RANGE(-1, -0.1)},
    {OP_DIV, "by a negative", 2, {S(3), S(3)}, RANGE(-2, -0.5)},
    {OP_WHERE, "a condition of one axis", 2, {S(2, 3), S(2, 3)}, .index = S(3)},
    {OP_POW, "to 2", 1, {S(3)}, .number = 2},
    {OP_POW, "to 3", 1, {S(3)}, .number = 3},
    {OP_POW, "to 0", 1, {S(3)}, .number = 0},
    {OP_POW, "to 1", 1, {S(3)}, .number = 1},
    {OP_POW, "to 0.5", 1, {S(3)}, RANGE(0.2, 2), .number = 0.5},
    {OP_POW, "to -1", 1, {S(3)}, RANGE(0.2, 2), .number = -1},
    {OP_POW, "to -0.5", 1, {S(3)}, RANGE(0.2, 2), .number = -0.5},
    {OP_POW, "to 1.5", 1, {S(3)}, RANGE(0.2, 2), .number = 1.5},
#define SINGLES(op, from, to)                                                                                                    \
    {op, "a matrix", 1, {S(3, 5)}, RANGE(from, to)}, {op, "size 1", 1, {S(1)}, RANGE(from, to)},                                 \
        {op, "a number", 1, {S0}, RANGE(from, to)},                                                                              \
    {                                                                                                                            \
        op, "empty", 1, {S(2, 0)}, RANGE(from, to)                                                                               \
    }
    SINGLES(OP_ABS, 0, 0),
    SINGLES(OP_SQRT, 0.1, 2),
    SINGLES(OP_EXP, 0, 0),
    SINGLES(OP_LOG, 0.1, 2),
    SINGLES(OP_EXPM1, 0, 0),
    SINGLES(OP_LOG1P, -0.5, 2),
    SINGLES(OP_LOGISTIC, -3, 3),
    SINGLES(OP_SIN, 0, 0),
    SINGLES(OP_COS, 0, 0),
    SINGLES(OP_TANH, 0, 0),
    SINGLES(OP_ERF, 0, 0),
    {OP_CAST, "to f64", 1, {S(3)}, .number = F64},
    {OP_CAST, "to f16", 1, {S(1)}, .number = F16},
    {OP_CAST, "to i32, which stops it", 1, {S(3)}, RANGE(1.1, 1.9), .number = I32},
    /* reductions */
    {OP_SUM, "of all", 1, {S(3, 5)}, INTS(0, 1)},
    {OP_SUM, "of one axis", 1, {S(2, 3, 4)}, INTS(1)},
    {OP_SUM, "of two axes", 1, {S(2, 3, 4)}, INTS(0, 2)},
    {OP_SUM, "of size 1", 1, {S(1, 1)}, INTS(0)},
    {OP_SUM, "of nothing", 1, {S(0, 3)}, INTS(0)},
    {OP_SUM, "of samples", 1, {S(2, 3)}, .over = true, INTS(0)},
    {OP_SUM, "of samples alone", 1, {S(3)}, .over = true},
    {OP_SUM, "of samples of a number", 1, {S0}, .over = true},
    {OP_MAX, "of all", 1, {S(3, 5)}, INTS(0, 1)},
    {OP_MAX, "of an inner axis", 1, {S(2, 3, 4)}, INTS(1)},
    {OP_MAX, "of two axes", 1, {S(2, 3, 4)}, INTS(0, 2)},
    {OP_MAX, "of size 1", 1, {S(1, 3)}, INTS(0)},
    {OP_MAX, "empty", 1, {S(0, 3)}, INTS(1)},
    /* axis, backwards */
    {OP_CUMSUM, "a row", 1, {S(5)}, INTS(0, 0)},
    {OP_CUMSUM, "a row from its end", 1, {S(5)}, INTS(0, 1)},
    {OP_CUMSUM, "an axis in the middle", 1, {S(2, 4, 3)}, INTS(1, 0)},
    {OP_CUMSUM, "the last axis, from its end", 1, {S(2, 3)}, INTS(1, 1)},
    {OP_CUMSUM, "size 1", 1, {S(1, 1)}, INTS(0, 0)},
    {OP_CUMSUM, "of nothing", 1, {S(2, 0)}, INTS(1, 0)},
    {OP_CUMSUM, "no rows", 1, {S(0, 3)}, INTS(1, 0)},
/* contractions */
#define EINSUM(name, count, spec, ...)                                                                                           \
    {OP_EINSUM, name, count, {__VA_ARGS__}, .text = spec},                                                                       \
    {                                                                                                                            \
        OP_EINSUM, name ", of samples", count, {__VA_ARGS__}, .text = spec, .over = true                                         \
    }
    EINSUM("a matrix and a vector", 2, "oi,i->o", S(3, 5), S(5)),
    EINSUM("matrices", 2, "ab,bc->ac", S(3, 4), S(4, 5)),
    EINSUM("batched", 2, "hab,hcb->hac", S(2, 3, 4), S(2, 5, 4)),
    EINSUM("inner product", 2, "a,a->", S(4), S(4)),
    EINSUM("outer product", 2, "a,b->ba", S(2), S(3)),
    EINSUM("element-wise", 2, "ab,ba->ab", S(2, 3), S(3, 2)),
    EINSUM("of three", 3, "ab,bc,cd->ad", S(2, 3), S(3, 4), S(4, 2)),
    EINSUM("a letter of one operand", 2, "ab,c->a", S(2, 3), S(4)),
    EINSUM("a sum", 1, "abc->ca", S(2, 3, 4)),
    EINSUM("a trace", 1, "aa->", S(3, 3)),
    EINSUM("a diagonal", 1, "aba->ba", S(3, 2, 3)),
    EINSUM("a diagonal and a vector", 2, "aa,a->a", S(3, 3), S(3)),
    EINSUM("a number", 2, ",ab->b", S0, S(2, 3)),
    EINSUM("numbers", 2, ",->", S0, S0),
    EINSUM("size 1", 2, "ab,bc->ac", S(1, 1), S(1, 1)),
    EINSUM("empty", 2, "ab,bc->ac", S(2, 0), S(0, 3)),
    EINSUM("no rows", 2, "ab,bc->ac", S(0, 2), S(2, 3)),
    EINSUM("three times a letter", 1, "aaa->a", S(2, 2, 2)),
    /* ints: n, stride, before, after, dilation, input_dilation, groups */
    {OP_CONVOLVE, "no axes", 2, {S(3), S(2, 3)}, INTS(0, 1)},
    {OP_CONVOLVE, "1 d", 2, {S(7, 2), S(3, 2, 3)}, INTS(1, 1, 0, 0, 1, 1, 1)},
    {OP_CONVOLVE, "stride with a remainder", 2, {S(8, 2), S(3, 2, 3)}, INTS(1, 2, 0, 0, 1, 1, 1)},
    {OP_CONVOLVE, "stride beyond the kernel", 2, {S(9, 1), S(2, 1, 2)}, INTS(1, 4, 1, 0, 1, 1, 1)},
    {OP_CONVOLVE, "more padding than kernel", 2, {S(3, 1), S(1, 1, 2)}, INTS(1, 1, 4, 3, 1, 1, 1)},
    {OP_CONVOLVE, "negative padding", 2, {S(9, 1), S(2, 1, 2)}, INTS(1, 2, -2, -1, 1, 1, 1)},
    {OP_CONVOLVE, "dilation", 2, {S(9, 2), S(2, 2, 3)}, INTS(1, 2, 2, 1, 3, 1, 1)},
    {OP_CONVOLVE, "input_dilation", 2, {S(4, 2), S(3, 2, 3)}, INTS(1, 1, 2, 2, 1, 2, 1)},
    {OP_CONVOLVE, "stride, dilation and input_dilation", 2, {S(5, 2), S(2, 2, 3)}, INTS(1, 2, 3, 1, 2, 3, 1)},
    {OP_CONVOLVE, "size 1", 2, {S(1, 1), S(1, 1, 1)}, INTS(1, 1, 0, 0, 1, 1, 1)},
    {OP_CONVOLVE, "2 d", 2, {S(5, 4, 2), S(3, 2, 3, 2)}, INTS(2, 2, 1, 1, 0, 1, 1, 1, 2, 1, 1, 1)},
    {OP_CONVOLVE, "groups", 2, {S(4, 5, 6), S(4, 3, 3, 3)}, INTS(2, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2)},
    {OP_CONVOLVE, "depthwise", 2, {S(5, 3), S(6, 1, 3)}, INTS(1, 2, 1, 1, 1, 1, 3)},
    {OP_CONVOLVE, "groups and input_dilation", 2, {S(3, 4), S(6, 2, 2)}, INTS(1, 1, 1, 1, 1, 2, 2)},
    {OP_CONVOLVE, "3 d", 2, {S(3, 4, 2, 1), S(2, 1, 2, 3, 1)}, INTS(3, 1, 2, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)},
    {OP_CONVOLVE, "no channels", 2, {S(4, 0), S(2, 0, 2)}, INTS(1, 1, 0, 0, 1, 1, 1)},
    {OP_CONVOLVE, "no outputs", 2, {S(4, 2), S(0, 2, 2)}, INTS(1, 1, 0, 0, 1, 1, 1)},
    /* causal, window */
    {OP_ATTENTION, "every key", 3, {S(3, 2, 4), S(5, 2, 4), S(5, 2, 3)}, .number = 0.7, INTS(0, 0)},
    {OP_ATTENTION, "causal", 3, {S(4, 2, 3), S(4, 2, 3), S(4, 2, 3)}, .number = 0.5, INTS(1, 0)},
    {OP_ATTENTION, "causal, more keys", 3, {S(3, 1, 2), S(5, 1, 2), S(5, 1, 4)}, .number = 1, INTS(1, 0)},
    {OP_ATTENTION, "a window", 3, {S(5, 2, 2), S(5, 1, 2), S(5, 1, 2)}, .number = -1, INTS(1, 2)},
    {OP_ATTENTION, "a window, not causal", 3, {S(5, 1, 2), S(4, 1, 2), S(4, 1, 1)}, .number = 1, INTS(0, 3)},
    {OP_ATTENTION, "causal, fewer keys", 3, {S(5, 2, 2), S(3, 1, 2), S(3, 1, 2)}, .number = 1, INTS(1, 0)},
    {OP_ATTENTION, "a window, fewer keys", 3, {S(5, 1, 2), S(3, 1, 2), S(3, 1, 1)}, .number = 1, INTS(1, 2)},
    {OP_ATTENTION, "shared keys", 3, {S(3, 4, 2), S(3, 2, 2), S(3, 2, 2)}, .number = 1, INTS(1, 0)},
    {OP_ATTENTION, "one of each", 3, {S(1, 1, 1), S(1, 1, 1), S(1, 1, 1)}, .number = 1, INTS(1, 1)},
/* windows: size, stride, before, after */
#define WINDOWS(op)                                                                                                              \
    {op, "1 d", 1, {S(7)}, INTS(3, 2, 0, 0)}, {op, "padding", 1, {S(5, 2)}, INTS(3, 1, 2, 1, 1, 0, 1, 0)},                       \
        {op, "an image", 1, {S(5, 6, 2)}, INTS(2, 3, 1, 2, 1, 1, 0, 1, 0, 0, 1, 0)},                                             \
        {op, "size 1", 1, {S(1)}, INTS(1, 1, 0, 0)},                                                                             \
    {                                                                                                                            \
        op, "gaps", 1, {S(8)}, INTS(2, 3, 0, 0)                                                                                  \
    }
    WINDOWS(OP_WINDOW_MAX),
    WINDOWS(OP_WINDOW_SUM),
    {OP_WINDOW_SUM, "of padding alone", 1, {S(3)}, INTS(2, 1, 3, 3)},
    {OP_WINDOW_SUM, "empty", 1, {S(0)}, INTS(2, 1, 1, 1)},
    {OP_CONVOLVE_WEIGHT, "1 d", 2, {S(7, 2), S(5, 3)}, INTS(1, 1, 0, 0, 1, 1, 1, 3)},
    {OP_CONVOLVE_WEIGHT, "1 d, of samples", 2, {S(7, 2), S(5, 3)}, .over = true, INTS(1, 1, 0, 0, 1, 1, 1, 3)},
    {OP_CONVOLVE_WEIGHT, "2 d", 2, {S(5, 4, 2), S(3, 3, 3)}, INTS(2, 2, 1, 1, 0, 1, 1, 1, 2, 1, 1, 1, 3, 2)},
    {OP_CONVOLVE_WEIGHT, "groups and input_dilation", 2, {S(3, 4), S(6, 6)}, .over = true, INTS(1, 1, 1, 1, 1, 2, 2, 2)},
    {OP_WINDOW_MAX_GRADIENT, "1 d", 1, {S(3)}, .index = S(3), INTS(3, 2, 0, 0, 7)},
    {OP_WINDOW_MAX_GRADIENT, "2 d, padding", 1, {S(3, 5)}, .index = S(3, 5), INTS(3, 2, 2, 1, 1, 0, 1, 0, 5, 6)},
    {OP_WINDOW_SUM_GRADIENT, "1 d", 1, {S(3)}, INTS(3, 2, 0, 0, 7)},
    {OP_WINDOW_SUM_GRADIENT, "2 d", 1, {S(5, 1)}, INTS(3, 1, 1, 2, 1, 0, 1, 0, 5, 2)},
    /* views */
    {OP_RESHAPE, "of a matrix", 1, {S(3, 4)}, INTS(2, 6)},
    {OP_RESHAPE, "to a number", 1, {S(1, 1)}, .int_count = 0},
    {OP_RESHAPE, "empty", 1, {S(0, 4)}, INTS(2, 0)},
    {OP_TRANSPOSE, "of three axes", 1, {S(2, 3, 4)}, INTS(2, 0, 1)},
    {OP_TRANSPOSE, "size 1", 1, {S(1, 3)}, INTS(1, 0)},
    {OP_SLICE, "a part", 1, {S(5, 3)}, INTS(1, 0, 3, 2, 1, 1)},
    {OP_SLICE, "steps", 1, {S(7)}, INTS(1, 3, 2)},
    {OP_SLICE, "backwards", 1, {S(5)}, INTS(4, 3, -2)},
    {OP_SLICE, "size 1", 1, {S(4)}, INTS(2, 1, 1)},
    {OP_SLICE, "flip of the second axis", 1, {S(3, 4)}, INTS(0, 3, 3, 4, 1, -1)},
    {OP_SLICE, "nothing", 1, {S(4)}, INTS(0, 0, 1)},
    {OP_UNSLICE, "steps", 1, {S(3)}, INTS(1, 2, 7)},
    {OP_UNSLICE, "backwards", 1, {S(3, 1)}, INTS(4, 1, -2, 1, 5, 3)},
    {OP_CONCAT, "of two", 2, {S(2, 3), S(2, 1)}, INTS(1)},
    {OP_CONCAT, "of three", 3, {S(1, 2), S(3, 2), S(0, 2)}, INTS(0)},
    {OP_PAD, "both sides", 1, {S(2, 3)}, .number = 7, INTS(1, 0, 2, 3)},
    {OP_PAD, "empty", 1, {S(0)}, INTS(1, 1)},
    {OP_BROADCAST, "a new axis", 1, {S(3)}, INTS(2, 3)},
    {OP_BROADCAST, "stretched", 1, {S(2, 1, 3)}, INTS(4, 2, 5, 3)},
    {OP_BROADCAST, "a number", 1, {S0}, INTS(2)},
    {OP_BROADCAST, "to nothing", 1, {S(1, 2)}, INTS(0, 2)},
    /* by index; some are outside */
    {OP_GATHER, "rows", 1, {S(4, 3)}, .index = S(5), INTS(0)},
    {OP_GATHER, "one row", 1, {S(4, 3)}, .index = S0, INTS(0)},
    {OP_GATHER, "an inner axis by a matrix", 1, {S(2, 4, 3)}, .index = S(2, 2), INTS(1)},
    {OP_GATHER, "nothing", 1, {S(4)}, .index = S(0), INTS(0)},
    {OP_GATHER, "of nothing", 1, {S(0, 2)}, .index = S(2), INTS(0)},
    {OP_SCATTER_ADD, "rows", 2, {S(4, 3), S(5, 3)}, .index = S(5), INTS(0)},
    {OP_SCATTER_ADD, "rows, of samples", 2, {S(4, 3), S(5, 3)}, .over = true, .index = S(5), INTS(0)},
    {OP_SCATTER_ADD, "an inner axis", 2, {S(2, 3), S(2, 2)}, .index = S(2), INTS(1)},
    {OP_SCATTER_ADD, "one place, of samples", 2, {S(3), S0}, .over = true, .index = S0, INTS(0)},
    {OP_INDEX_COPY, "a row", 2, {S(4, 3), S(1, 3)}, .index = S(1), INTS(0)},
    {OP_INDEX_COPY, "a column", 2, {S(2, 3), S(2)}, .index = S0, INTS(1)},
    /* axis, k, values */
    {OP_TOP_K, "three of seven", 1, {S(7)}, INTS(0, 3, 0)},
    {OP_TOP_K, "the largest", 1, {S(3, 4)}, INTS(1, 1, 0)},
    {OP_TOP_K, "an axis in the middle", 1, {S(2, 5, 3)}, INTS(1, 2, 0)},
    {OP_TOP_K, "the first axis", 1, {S(4, 3)}, INTS(0, 2, 0)},
    {OP_TOP_K, "all", 1, {S(2, 5)}, INTS(1, 5, 0)},
    {OP_TOP_K, "size 1", 1, {S(1, 1)}, INTS(0, 1, 0)},
    {OP_TOP_K, "no rows", 1, {S(0, 3)}, INTS(1, 2, 0)},
    /* across samples */
    {OP_GROUP_SUM, "of two", 1, {S(3)}, INTS(2)},
    {OP_GROUP_SUM, "of the shard", 1, {S(2, 1)}, INTS(0)},
    {OP_GROUP_SUM, "of one", 1, {S0}, INTS(1)},
    {OP_GROUP_SUM, "empty", 1, {S(0)}, INTS(2)},
    {OP_REDUCE, "of samples", 1, {S(3)}, .over = true},
    {OP_MOMENTS, "of samples", 1, {S(3)}, .over = true},
    {OP_MOMENTS, "of samples and places", 1, {S(2, 3)}, INTS(0)},
    {OP_MOMENTS, "a number", 1, {S0}, .over = true},
};

/* ---- one run: a model with weights w0 .. and inputs that make them per sample */

typedef struct Setup {
    Model model;
    Input input_list[MOST];
    Variable variable_list[MOST];
    double *weights[MOST], *inputs[MOST]; /* inputs: per sample */
    int valid;
} Setup;

static uint64_t random_state = 1;
static double draw(double low, double high)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(random_state >> 11) * 0x1p-53;
}

static bool give_leaf(void *context, const Node *n, double *out, int64_t count)
{
    const Setup *s = context;
    switch (n->op) {
    case OP_VARIABLE: memcpy(out, s->weights[n->ints[0]], (size_t)count * sizeof *out); return true;
    case OP_INPUT: memcpy(out, s->inputs[n->ints[0]], (size_t)count * sizeof *out); return true;
    case OP_VALID:
        for (int64_t i = 0; i < count; i++)
            out[i] = i < s->valid;
        return true;
    case OP_RUN: out[0] = s->valid; return n->ints[0] == RUN_SAMPLES;
    default: return false;
    }
}

static Node *make_input(Graph *g, Setup *s, Shape shape, Dtype dtype, double low, double high)
{
    int k = s->model.input_count++;
    s->model.inputs[k] = (Input){.name = format("x%d", k), .dtype = dtype, .shape = shape};
    int64_t count = SAMPLES * shape_count(&shape);
    s->inputs[k] = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++)
        s->inputs[k][i] = dtype == I32 ? floor(draw(low, high)) : draw(low, high);
    return graph_input(g, k);
}

static Node *build(Graph *g, Setup *s, const Case *c, Node **v, bool own_index)
{
    int axes[MAX_RANK];
    for (int i = 0; i < c->int_count && i < MAX_RANK; i++)
        axes[i] = (int)c->ints[i];
    Node *index = NULL;
    bool places = c->op == OP_WINDOW_MAX_GRADIENT;
    if (c->op == OP_GATHER || c->op == OP_SCATTER_ADD || c->op == OP_INDEX_COPY || c->op == OP_WHERE || places) {
        Dtype t = c->op == OP_WHERE ? F32 : I32;
        double low = places ? 0 : -1, high = t == F32 ? 1 : (double)c->shape[0].extent[places ? 0 : c->ints[0]] + 1;
        for (int i = 0; i < c->index.rank && places; i++)
            high = (i ? high : 1) * (double)c->ints[i];
        index = make_input(g, s, c->index, t, low, high);
        if (!own_index)
            index = graph_constant(g, s->inputs[s->model.input_count - 1], c->index, t);
    }
    switch (c->op) {
    case OP_POW: return graph_binary(g, OP_POW, v[0], c->inputs == 1 ? graph_weak(g, c->number) : v[1]);
    case OP_WHERE: return graph_where(g, graph_binary(g, OP_LT, index, graph_weak(g, 0)), v[0], v[1]);
    case OP_CAST: return graph_cast(g, graph_cast(g, v[0], (Dtype)c->number), F32);
    case OP_SUM: return (c->over ? graph_sum_samples : graph_sum)(g, c->over ? select_valid(g, v[0]) : v[0], axes, c->int_count);
    case OP_MAX: return graph_max(g, v[0], axes, c->int_count);
    case OP_EINSUM: v[0] = c->over ? select_valid(g, v[0]) : v[0]; return graph_einsum(g, c->text, v, c->inputs, c->over);
    case OP_ATTENTION: return graph_attention(g, v[0], v[1], v[2], c->ints[0], c->ints[1], c->number);
    case OP_PAD: return graph_pad(g, v[0], c->ints, c->ints + c->int_count / 2, c->number);
    case OP_GATHER: return NODE(g, OP_GATHER, c->ints, 1, NULL, v[0], index);
    case OP_INDEX_COPY: return NODE(g, OP_INDEX_COPY, c->ints, 1, NULL, v[0], index, v[1]);
    case OP_WINDOW_MAX_GRADIENT: return NODE(g, c->op, c->ints, c->int_count, NULL, index, v[0]);
    case OP_CONVOLVE_WEIGHT:
        v[1] = c->over ? select_valid(g, v[1]) : v[1];
        return graph_convolve_weight(g, v[0], v[1], c->ints, c->int_count, c->over);
    case OP_SCATTER_ADD:
        v[1] = c->over ? select_valid(g, v[1]) : v[1];
        return graph_scatter_add(g, v[0], index, v[1], (int)c->ints[0], c->over && !v[0]->has_samples);
    case OP_GROUP_SUM: return graph_group_sum(g, select_valid(g, v[0]), c->ints[0]);
    case OP_MOMENTS: return graph_moments(g, v[0], axes, c->int_count);
    case OP_REDUCE: return graph_reduce(g, graph_sum_samples(g, select_valid(g, v[0]), NULL, 0));
    default:
        if (OP_INFO[c->op].op_class == ELEMENTWISE)
            return c->inputs == 1 ? graph_unary(g, c->op, v[0]) : graph_binary(g, c->op, v[0], v[1]);
        return graph_node(g, c->op, v, c->inputs, c->ints, c->int_count, NULL);
    }
}

static Node *make_weight(Graph *g, Setup *s, Shape shape, double low, double high)
{
    int k = s->model.variable_count++;
    int64_t count = shape_count(&shape);
    s->model.variables[k] = (Variable){.name = format("w%d", k), .dtype = F32, .shape = shape, .trained = true};
    s->weights[k] = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++)
        s->weights[k][i] = draw(low, high);
    return graph_variable(g, k);
}

static Graph *begin(Setup *s, int valid)
{
    s->model.inputs = s->input_list;
    s->model.variables = s->variable_list;
    s->model.precision = F32;
    s->valid = valid;
    return graph_new(&s->model, "train", NULL);
}

static bool through_stages; /* or differentiate alone */

static Graph *gradients_of(Graph *train)
{
    if (!through_stages)
        return differentiate(train);
    Graph *g = distribute(simplify(differentiate(simplify(train))));
    return simplify(specialise(choose_precision(g), true));
}

static double value_of(const Graph *d, Interpretation *run, Role role, int index)
{
    return run->values[graph_find_result((Graph *)(uintptr_t)d, role, index)->value->id][0];
}

static double loss_of(const Graph *d, Interpretation *run)
{
    interpret(d, run);
    return value_of(d, run, ROLE_REPORT, 0);
}

/* NULL, or where the gradients of the train graph are not those that finite differences of its loss give */
static const char *compare(Graph *train, Setup *s)
{
    Graph *d = gradients_of(train);
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    loss_of(d, &run);
    const char *wrong = NULL;
    double *gradients[MOST], largest = 1;
    int trained = 0; /* the first ones are */
    while (trained < s->model.variable_count && s->model.variables[trained].trained)
        trained++;
    for (int k = 0; k < trained; k++) {
        const Node *n = graph_find_result(d, ROLE_GRADIENT, k)->value;
        int64_t count = shape_count(&n->shape);
        if (n->has_samples || !shape_equal(&n->shape, &s->model.variables[k].shape))
            wrong = format("the gradient of weight %d is %s%s", k, shape_text(&n->shape), n->has_samples ? " sharded" : "");
        gradients[k] = NEW_ARRAY(double, count);
        memcpy(gradients[k], run.values[n->id], (size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++)
            largest = fmax(largest, fabs(gradients[k][i]));
    }
    for (int k = 0; k < trained && !wrong; k++)
        for (int64_t i = 0; i < shape_count(&s->model.variables[k].shape) && !wrong; i++) {
            double old = s->weights[k][i], h = 1e-5;
            s->weights[k][i] = old + h;
            double above = loss_of(d, &run);
            s->weights[k][i] = old - h;
            double below = loss_of(d, &run), difference = (above - below) / (2 * h);
            s->weights[k][i] = old;
            if (!(fabs(difference - gradients[k][i]) <= 1e-7 * largest))
                wrong = format("weight %d, element %lld: gradient %.10g, finite difference %.10g", k, (long long)i,
                               gradients[k][i], difference);
        }
    for (int k = 0; k < d->node_count; k++)
        free(run.values[k]);
    free(run.values);
    return wrong;
}

static Node *sum_all(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_sum(g, x, axes, x->shape.rank);
}

/* Bits of mode: operand k per sample; index, coefficients per sample; samples missing */
static const char *check(const Case *c, int mode)
{
    static Setup s;
    s = (Setup){.valid = 0};
    Graph *g = begin(&s, mode >> (c->inputs + 2) & 1 ? SAMPLES - 1 : SAMPLES);
    Node *v[OPERANDS];
    random_state = hash_bytes((uint64_t)mode, c->name, strlen(c->name)) + (uint64_t)c->op;
    bool any = c->low == 0 && c->high == 0;
    for (int k = 0; k < c->inputs; k++) {
        v[k] = make_weight(g, &s, c->shape[k], any ? -1 : c->low, any ? 1 : c->high);
        if (mode >> k & 1)
            v[k] = graph_binary(g, OP_MUL, v[k], make_input(g, &s, c->shape[k], F32, 0.8, 1.2));
    }
    Node *y = build(g, &s, c, v, mode >> c->inputs & 1);
    Node *coefficient = make_input(g, &s, y->shape, F32, -1, 1);
    if (!(mode >> (c->inputs + 1) & 1))
        coefficient = graph_constant(g, s.inputs[s.model.input_count - 1], y->shape, F32);
    /* curved, so that the gradient at the result depends on the result */
    Node *e = graph_binary(g, OP_MUL, graph_binary(g, OP_MUL, y, graph_binary(g, OP_ADD, y, graph_weak(g, 1))), coefficient);
    graph_result(g, ROLE_LOSS, "loss", 0, sum_all(g, e), NULL);
    return compare(g, &s);
}

/* without MGPU_FULL half of the modes are checked as differentiate gives them, the others after all stages */
static bool every_mode;
static bool odd_bits(int mode) { return __builtin_parity((unsigned)mode); }

static const char *behind(void) { return through_stages ? ", after all stages" : ""; }

static int check_rows(void)
{
    static const char *const GRADIENT[OPS] = {
#define OP(op, name, class, inputs, attributes, linear, flops, meaning, shape, gradient, ...) [OP_##op] = #gradient,
#include "compiler/ir/ops.def"
    };
    int failed = 0;
    for (int op = 0; op < OPS; op++) {
        bool has_rule = strcmp(GRADIENT[op], "gradient_none") != 0 && strcmp(GRADIENT[op], "gradient_twice") != 0 &&
                        strcmp(GRADIENT[op], "gradient_composite") != 0 && OP_INFO[op].op_class != REGION; /* scan_test.c */
        int cases = 0, bad = 0;
        for (int i = 0; i < COUNT(CASES); i++) {
            const Case *c = &CASES[i];
            const char *wrong = NULL;
            if ((int)c->op != op)
                continue;
            cases++;
            int mode = 0;
            for (; mode < 1 << (c->inputs + 3) && !wrong; mode++)
                wrong = every_mode || odd_bits(mode) == through_stages ? check(c, mode) : NULL;
            if (wrong)
                printf("not ok gradient of %s: %s%s: mode %d: %s\n", OP_INFO[op].name, c->name, behind(), mode - 1, wrong);
            bad += wrong != NULL;
        }
        if (has_rule && cases == 0)
            printf("not ok gradient of %s%s: there is a rule, but no case\n", OP_INFO[op].name, behind());
        else if (has_rule && !bad)
            printf("ok gradient of %s%s, %d cases\n", OP_INFO[op].name, behind(), cases);
        failed += bad + (has_rule && cases == 0);
    }
    return failed;
}

/* ---- what is not selected: NaN and infinity there reach no gradient */

/* an element-wise operation of one operand, or of the operand and a number */
static Node *apply(Graph *g, Op op, Node *x)
{
    Node *number = graph_fill(g, 0.7, x->shape, x->dtype);
    return OP_INFO[op].inputs == 1 ? graph_unary(g, op, x) : OP_INFO[op].inputs == 2 ? graph_binary(g, op, x, number) : NULL;
}

static bool has_element_rule(int op)
{
    static const bool NONE[OPS] = {[OP_EQ] = true, [OP_LT] = true,  [OP_LE] = true,    [OP_AND] = true,
                                   [OP_OR] = true, [OP_NOT] = true, [OP_FLOOR] = true, [OP_CAST] = true};
    return OP_INFO[op].op_class == ELEMENTWISE && op < OP_BIT_AND && !NONE[op] && OP_INFO[op].inputs < 3;
}

/* [2, 3], every row of which is like `rows`: between the operations, and between them and the choice */
typedef enum Between { NOTHING, CONTRACTED, NORMALISED, SUMMED, MOVED, SLICED, DEVIATION, WAYS } Between;

static Node *between(Graph *g, Node *x, Between way)
{
    static const char *const EACH = "tc,cd->td";
    double square[9] = {0.5, 0.3, 0.2, 0.1, 0.4, 0.6, 0.7, 0.3, 0.9};
    Node *part[2], *sum;
    switch (way) {
    case CONTRACTED: return graph_einsum(g, EACH, (Node *[]){x, graph_constant(g, square, SHAPE(3, 3), F32)}, 2, false);
    case NORMALISED:
        sum = graph_reshape(g, graph_sum(g, graph_binary(g, OP_MUL, x, x), (int[]){1}, 1), SHAPE(2, 1));
        return graph_binary(g, OP_DIV, x, graph_unary(g, OP_SQRT, sum));
    case SUMMED: return graph_binary(g, OP_ADD, x, NODE(g, OP_CUMSUM, ((int64_t[]){1, 0}), 2, NULL, x));
    case MOVED:
        x = graph_reshape(g, graph_transpose(g, x, (int[]){1, 0}), SHAPE(3, 1, 2));
        return graph_transpose(g, graph_reshape(g, x, SHAPE(3, 2)), (int[]){1, 0});
    case SLICED:
        for (int i = 0; i < 2; i++)
            part[i] = graph_slice(g, x, (int64_t[]){1 - i, 0}, (int64_t[]){1, 3}, (int64_t[]){1, 1});
        return graph_concat(g, (Node *[]){part[1], part[0]}, 2, 0);
    case DEVIATION:
        sum = graph_reshape(g, graph_sum(g, x, (int[]){1}, 1), SHAPE(2, 1));
        return graph_binary(g, OP_SUB, x, graph_binary(g, OP_MUL, sum, graph_weak(g, 0.1)));
    default: return x;
    }
}

static double *gradient_at(Graph *d, Setup *s, int variable, int64_t count)
{
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    interpret(d, &run);
    double *copy = NEW_ARRAY(double, count);
    memcpy(copy, run.values[graph_find_result(d, ROLE_GRADIENT, variable)->value->id], (size_t)count * sizeof *copy);
    for (int k = 0; k < d->node_count; k++)
        free(run.values[k]);
    free(run.values);
    return copy;
}

/* Row 1 of each sample, and all of sample 2, are not selected. Gradients are the same whether there are NaN, infinities and 0 or
 * ordinary numbers. by_weight: the loss has weights; else a choice. */
static const char *check_unselected(Op first, Between way, Op second, bool by_weight)
{
    static Setup s;
    s = (Setup){.valid = 0};
    Graph *g = begin(&s, SAMPLES);
    random_state = (uint64_t)(first * 64 + second);
    Shape shape = SHAPE(2, 3);
    Node *w = make_weight(g, &s, shape, 0.5, 1), *v = make_weight(g, &s, shape, 0.5, 1),
         *x = make_input(g, &s, shape, F32, 0.3, 0.9);
    Node *mask = make_input(g, &s, SHAPE(2, 1), F32, 0.5, 1), *y = apply(g, first, graph_binary(g, OP_MUL, w, x));
    /* of a NaN that stays one, but else between 0.4 and 0.6, which every operation takes */
    y = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, graph_unary(g, OP_LOGISTIC, y), graph_weak(g, 0.2)), graph_weak(g, 0.4));
    y = apply(g, second, graph_binary(g, OP_MUL, between(g, y, way), v));
    Node *counts = graph_binary(g, OP_LT, graph_weak(g, 0), mask), *zero = graph_weak(g, 0);
    Node *e = graph_binary(g, OP_MUL, y, graph_binary(g, OP_ADD, y, graph_weak(g, 1)));
    if (by_weight)
        graph_result(g, ROLE_LOSS, "loss", 0, e, counts);
    else
        graph_result(g, ROLE_LOSS, "loss", 0, sum_all(g, graph_where(g, graph_broadcast(g, counts, shape), e, zero)), NULL);
    for (int i = 0; i < 2 * SAMPLES; i++)
        s.inputs[1][i] = i % 2 == 0 && i / 2 != 2;
    Graph *d = gradients_of(g);
    const double *right[2], bad[] = {NAN, INFINITY, -INFINITY, 0};
    for (int k = 0; k < 2; k++)
        right[k] = gradient_at(d, &s, k, 6);
    for (int b = 0; b < COUNT(bad); b++) {
        for (int i = 0; i < 6 * SAMPLES; i++)
            s.inputs[0][i] = i % 6 >= 3 || i / 6 == 2 ? bad[b] : s.inputs[0][i];
        for (int k = 0; k < 2; k++) {
            const double *now = gradient_at(d, &s, k, 6);
            for (int i = 0; i < 6; i++)
                if (!(now[i] == right[k][i]))
                    return format("%s, %d, %s, %s: %g: gradient %d of weight %d is %.17g, %.17g expected", OP_INFO[first].name,
                                  way, OP_INFO[second].name, by_weight ? "weights" : "where", bad[b], i, k, now[i], right[k][i]);
        }
    }
    return NULL;
}

static int check_selection(void)
{
    int failed = 0;
    for (int op = 0; op < OPS; op++) {
        const char *wrong = NULL;
        if (!has_element_rule(op))
            continue;
        for (int other = 0; other < OPS && !wrong; other++)
            for (int way = 0; way < WAYS && !wrong && has_element_rule(other); way++)
                if (every_mode || way == NOTHING || (op + other + way) % WAYS == 0)
                    wrong = check_unselected((Op)op, (Between)way, (Op)other, (op + other) % 2 != 0);
        printf(wrong ? "not ok not selected: %s%s: %s\n" : "ok not selected: %s%s\n", OP_INFO[op].name, behind(), wrong);
        failed += wrong != NULL;
    }
    return failed;
}

/* ---- gradients of gradients */

/* the sum of all gradients of the loss, as a loss */
static Graph *gradients_as_loss(Graph *train)
{
    Graph *d = simplify(differentiate(simplify(train))), *g = graph_new(train->model, "train", NULL);
    Node *sum = NULL;
    for (int i = 0; i < d->node_count; i++)
        graph_copy_node(g, d->nodes[i])->backward = false;
    for (int i = 0; i < d->result_count; i++)
        if (d->results[i].role == ROLE_GRADIENT) {
            Node *part = sum_all(g, d->results[i].value->mapped);
            sum = sum ? graph_binary(g, OP_ADD, sum, part) : part;
        }
    graph_result(g, ROLE_LOSS, "loss", 0, sum, NULL);
    return g;
}

/* of a choice, whose gradient is one of selected products */
static const char *check_twice(Op op)
{
    static Setup s;
    s = (Setup){.valid = 0};
    Graph *g = begin(&s, SAMPLES);
    random_state = (uint64_t)op;
    Node *w = make_weight(g, &s, SHAPE(3), 0.3, 0.6), *v = make_weight(g, &s, SHAPE(3), 0.3, 0.6);
    Node *y = OP_INFO[op].inputs == 1 ? graph_unary(g, op, w) : graph_binary(g, op, w, v);
    y = graph_binary(g, OP_MUL, graph_binary(g, OP_MUL, y, y), v);
    Node *third = graph_binary(g, OP_LT, graph_arange(g, 3), graph_weak(g, 2));
    graph_result(g, ROLE_LOSS, "loss", 0, sum_all(g, graph_where(g, third, y, graph_weak(g, 0))), NULL);
    return compare(gradients_as_loss(g), &s);
}

/* log(x)^2 at its minimum x = 1, where its gradient is 0 and the second derivative 2 */
static const char *check_minimum(bool choice)
{
    static Setup s;
    s = (Setup){.valid = 0};
    Graph *g = begin(&s, SAMPLES);
    Node *w = make_weight(g, &s, SCALAR, 1, 1), *y = graph_binary(g, OP_POW, graph_unary(g, OP_LOG, w), graph_weak(g, 2));
    if (choice)
        y = graph_where(g, graph_binary(g, OP_LT, graph_weak(g, 0), w), y, graph_weak(g, 0));
    graph_result(g, ROLE_LOSS, "loss", 0, y, NULL);
    double second = *gradient_at(gradients_of(gradients_as_loss(g)), &s, 0, 1);
    return second == 2 ? NULL : format("the second derivative of log(x)^2 at 1 is %.17g, 2 expected", second);
}

static int check_gradients_of_gradients(void)
{
    int failed = 0;
    for (int op = 0; op < OPS; op++) {
        const char *wrong = has_element_rule(op) ? check_twice((Op)op) : NULL;
        if (has_element_rule(op))
            printf(wrong ? "not ok second derivative: %s%s: %s\n" : "ok second derivative: %s%s\n", OP_INFO[op].name, behind(),
                   wrong);
        failed += wrong != NULL;
    }
    for (int choice = 0; choice < 2; choice++) {
        const char *wrong = check_minimum(choice);
        printf(wrong ? "not ok second derivative at a minimum%s: %s\n" : "ok second derivative at a minimum%s\n", behind(),
               wrong);
        failed += wrong != NULL;
    }
    return failed;
}

/* ---- whole graphs */

enum { CLASSES = 4, IGNORE = 255 };

static Node *dense(Graph *g, Setup *s, Node *x, int64_t width)
{
    Node *w = make_weight(g, s, SHAPE(width, x->shape.extent[0]), -1, 1), *b = make_weight(g, s, SHAPE(width), -1, 1);
    return graph_binary(g, OP_ADD, graph_einsum(g, "oi,i->o", (Node *[]){w, x}, 2, false), b);
}

static Node *relu(Graph *g, Node *x) { return graph_where(g, graph_binary(g, OP_LE, x, graph_weak(g, 0)), graph_weak(g, 0), x); }

static Node *cross_entropy(Graph *g, Node *logits, Node *label)
{
    Node *most = graph_max(g, logits, (int[]){0}, 1), *centred = graph_binary(g, OP_SUB, logits, most);
    Node *sum = sum_all(g, graph_unary(g, OP_EXP, centred));
    Node *hot = graph_binary(g, OP_EQ, label, graph_arange(g, logits->shape.extent[0]));
    return graph_binary(g, OP_SUB, graph_unary(g, OP_LOG, sum), sum_all(g, graph_where(g, hot, centred, graph_weak(g, 0))));
}

/* labels: per sample; those that are IGNORE have weight 0 */
static Graph *classifier(Setup *s, int valid, const double *labels)
{
    Graph *g = begin(s, valid);
    Node *logits = dense(g, s, make_input(g, s, SHAPE(5), F32, -1, 1), CLASSES);
    Node *label = make_input(g, s, SCALAR, I32, 0, CLASSES);
    memcpy(s->inputs[1], labels, SAMPLES * sizeof *labels);
    Node *counts = graph_unary(g, OP_NOT, graph_binary(g, OP_EQ, label, graph_weak(g, IGNORE)));
    graph_result(g, ROLE_LOSS, "loss", 0, cross_entropy(g, logits, label), counts);
    return g;
}

static const char *net_ignored_label(Setup *s) { return compare(classifier(s, SAMPLES, (double[]){2, IGNORE, 0}), s); }
static const char *net_missing_sample(Setup *s) { return compare(classifier(s, 2, (double[]){1, 3, 2}), s); }

static const char *net_nothing_counts(Setup *s)
{
    Graph *d = differentiate(classifier(s, 2, (double[]){IGNORE, IGNORE, 1}));
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    double loss = loss_of(d, &run), gradient = value_of(d, &run, ROLE_GRADIENT, 1);
    return loss == 0 && gradient == 0 ? NULL : format("loss %g, gradient %g, 0 and 0 expected", loss, gradient);
}

static const char *net_convolution(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *x = make_input(g, s, SHAPE(6, 5, 2), F32, -1, 1), *w = make_weight(g, s, SHAPE(3, 2, 3, 3), -1, 1);
    int64_t ints[] = {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, pool[] = {2, 2, 1, 2, 2, 1, 0, 1, 0, 0, 0, 0};
    Node *y = relu(g, NODE(g, OP_CONVOLVE, ints, 12, NULL, x, w));
    y = graph_binary(g, OP_ADD, y, make_weight(g, s, SHAPE(3), -1, 1));
    y = NODE(g, OP_WINDOW_MAX, pool, 12, NULL, y);
    y = dense(g, s, graph_reshape(g, y, SHAPE(shape_count(&y->shape))), 3);
    graph_result(g, ROLE_LOSS, "loss", 0, graph_binary(g, OP_POW, y, graph_weak(g, 2)), NULL);
    return compare(g, s);
}

static const char *net_two_losses(Setup *s)
{
    Graph *g = begin(s, 2);
    Node *h = relu(g, dense(g, s, make_input(g, s, SHAPE(3), F32, -1, 1), 5)), *shared = graph_variable(g, 0);
    Node *weights = make_input(g, s, SHAPE(2), F32, 0, 1), *y = dense(g, s, h, 2);
    graph_result(g, ROLE_LOSS, "squares", 0, graph_binary(g, OP_MUL, y, y), weights);
    graph_result(g, ROLE_LOSS, "regular", 0, graph_binary(g, OP_MUL, graph_weak(g, 0.1), graph_unary(g, OP_ABS, shared)), NULL);
    graph_result(g, ROLE_LOSS, "weighted_regular", 0, graph_binary(g, OP_MUL, shared, shared), graph_weak(g, 0.5));
    graph_result(g, ROLE_LOSS, "one_for_all", 0, sum_all(g, shared), make_input(g, s, SCALAR, F32, 0.5, 1));
    Graph *d = differentiate(g);
    if (d->result_count != 5 + s->model.variable_count || strcmp(d->results[1].name, "loss.squares") != 0)
        return "the reports loss, loss.squares, ... are not there";
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    double loss = loss_of(d, &run), sum = 0;
    for (int i = 1; i <= 4; i++)
        sum += run.values[d->results[i].value->id][0];
    return fabs(loss - sum) < 1e-12 ? compare(g, s) : format("loss %.17g, its terms sum to %.17g", loss, sum);
}

/* the loss does not look where its weight is 0: log(0) there gives no NaN */
static const char *net_masked_infinity(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *w = make_weight(g, s, SHAPE(3), 0.5, 1);
    Node *y = graph_unary(g, OP_SQRT, graph_binary(g, OP_MUL, w, make_input(g, s, SHAPE(3), F32, 0.5, 1)));
    Node *mask = make_input(g, s, SHAPE(3), F32, 0.5, 1);
    s->inputs[0][1] = s->inputs[1][1] = 0;
    graph_result(g, ROLE_LOSS, "loss", 0, graph_unary(g, OP_LOG, y), mask);
    return compare(g, s);
}

/* a mean over the batch, used by every sample; missing samples are not part of it */
static const char *net_batch_mean(Setup *s)
{
    Graph *g = begin(s, 2);
    Node *x = dense(g, s, make_input(g, s, SHAPE(3), F32, -1, 1), 4);
    Node *count = graph_run(g, RUN_SAMPLES, 0), *valid = select_valid(g, x);
    Node *mean = graph_binary(g, OP_DIV, graph_sum_samples(g, valid, NULL, 0), count);
    Node *centred = graph_binary(g, OP_SUB, x, mean), *squares = graph_binary(g, OP_MUL, centred, centred);
    Node *variance = graph_binary(g, OP_DIV, graph_sum_samples(g, select_valid(g, squares), NULL, 0), count);
    Node *y = graph_binary(g, OP_DIV, centred, graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, variance, graph_weak(g, 0.1))));
    graph_result(g, ROLE_LOSS, "loss", 0, graph_binary(g, OP_MUL, y, make_input(g, s, SHAPE(4), F32, -1, 1)), NULL);
    return compare(g, s);
}

/* each sample is compared with all others of the batch, which are summed into their rows; missing ones are not part of it */
static const char *net_gathered(Setup *s)
{
    Graph *g = begin(s, 2);
    Node *x = dense(g, s, make_input(g, s, SHAPE(3), F32, -1, 1), 4), *place = graph_batch_place(g);
    Node *all = graph_scatter_add(g, graph_fill(g, 0, SHAPE(SAMPLES, 4), F32), place, select_valid(g, x), 0, true);
    Node *y = graph_unary(g, OP_EXP, graph_einsum(g, "nc,c->n", (Node *[]){all, x}, 2, false));
    y = graph_where(g, graph_binary(g, OP_EQ, graph_arange(g, SAMPLES), place), graph_weak(g, 0), y);
    graph_result(g, ROLE_LOSS, "loss", 0, graph_unary(g, OP_LOG, sum_all(g, y)), NULL);
    return compare(g, s);
}

/* one table as embedding and, normalised, as output weight */
static const char *net_tied_weights(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *table = make_weight(g, s, SHAPE(CLASSES, 3), -1, 1), *token = make_input(g, s, SHAPE(5), I32, 0, CLASSES);
    Node *rows = graph_unary(g, OP_TANH, NODE(g, OP_GATHER, ((int64_t[]){0}), 1, NULL, table, token));
    Node *norm = graph_unary(g, OP_SQRT, sum_all(g, graph_binary(g, OP_MUL, table, table)));
    Node *logits = graph_einsum(g, "tc,vc->tv", (Node *[]){rows, graph_binary(g, OP_DIV, table, norm)}, 2, false);
    graph_result(g, ROLE_LOSS, "loss", 0, graph_unary(g, OP_EXP, logits), NULL);
    return compare(g, s);
}

static const char *net_stopped(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *a = make_weight(g, s, SHAPE(3), -1, 1), *b = make_weight(g, s, SHAPE(2), -1, 1);
    s->model.variables[1].trained = false;
    graph_result(g, ROLE_LOSS, "loss", 0, NODE(g, OP_STOP_GRADIENT, NULL, 0, NULL, a), NULL);
    graph_result(g, ROLE_LOSS, "other", 0, b, NULL);
    graph_result(g, ROLE_UPDATE, NULL, 1, graph_negate(g, b), NULL);
    Graph *d = differentiate(g);
    double value;
    if (graph_find_result(d, ROLE_GRADIENT, 1) || !graph_find_result(d, ROLE_UPDATE, 1))
        return "a variable that is not trained has a gradient, or its update is gone";
    return node_is_constant(graph_find_result(d, ROLE_GRADIENT, 0)->value, &value) && value == 0 ? NULL : "not 0";
}

/* y = tanh(a b), z = a + b in a composite inside another; z is for an update alone */
static const char *net_composites(Setup *s)
{
    Graph *g = begin(s, SAMPLES), *outer = graph_open_body(g, "outer");
    Node *a = dense(g, s, make_input(g, s, SHAPE(3), F32, -1, 1), 2), *b = make_weight(g, s, SHAPE(2), -1, 1), *out[2];
    Graph *inner = graph_open_body(outer, "inner");
    Node *results[] = {graph_unary(inner, OP_TANH, graph_binary(inner, OP_MUL, a, b)), graph_binary(inner, OP_ADD, b, b)};
    graph_close_body(inner, OP_COMPOSITE, "inner", NULL, 0, NULL, 0, results, 2, out);
    results[0] = graph_binary(outer, OP_MUL, out[0], b);
    results[1] = out[1];
    graph_close_body(outer, OP_COMPOSITE, "outer", NULL, 0, NULL, 0, results, 2, out);
    graph_result(g, ROLE_LOSS, "loss", 0, graph_binary(g, OP_MUL, out[0], out[0]), NULL);
    graph_result(g, ROLE_UPDATE, NULL, 2, out[1], NULL);
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    interpret(g, &run); /* the composite, by its bodies, and the expansion are the same */
    double whole = run.values[out[1]->id][1], once = 2 * s->weights[2][1];
    return whole == once ? compare(g, s) : format("the composite's second result is %g, %g expected", whole, once);
}

/* The table's batchnorm with its own gradient; its y is used twice, once beside the composite. The body is not the
 * library's: where the table's forward is used, nobody looks into it. */
static const char *batchnorm(Setup *s, int valid, double group)
{
    static const char *const NAMES[] = {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"};
    Graph *g = begin(s, valid), *inner;
    Node *x = dense(g, s, make_input(g, s, SHAPE(4), F32, -1, 1), 6), *part[4], *out[3];
    for (int i = 0; i < 4; i++) {
        part[i] = make_weight(g, s, SHAPE(3), 0.5, 1);
        s->model.variables[2 + i].name = NAMES[i];
        s->model.variables[2 + i].trained = i < 2;
    }
    x = graph_reshape(g, x, SHAPE(2, 3));
    inner = graph_open_body(g, "batchnorm");
    Node *y = graph_binary(inner, OP_MUL, x, part[0]);
    y = graph_binary(inner, OP_ADD, y, part[1]);
    Node *results[] = {y, graph_binary(inner, OP_ADD, part[2], part[3]), graph_binary(inner, OP_MUL, part[2], part[3])};
    graph_close_body(inner, OP_COMPOSITE, "batchnorm", NULL, 0, (double[]){0.1, 1e-5, group}, 3, results, 3, out);
    graph_result(g, ROLE_UPDATE, NULL, 4, out[1], NULL);
    graph_result(g, ROLE_UPDATE, NULL, 5, out[2], NULL);
    Node *both = graph_binary(g, OP_ADD, relu(g, out[0]), graph_binary(g, OP_MUL, out[0], x));
    graph_result(g, ROLE_LOSS, "loss", 0, graph_binary(g, OP_MUL, both, make_input(g, s, SHAPE(2, 3), F32, -1, 1)), NULL);
    return compare(g, s);
}

static const char *net_batchnorm(Setup *s) { return batchnorm(s, SAMPLES, 0); }
static const char *net_batchnorm_missing(Setup *s) { return batchnorm(s, 2, 0); }
static const char *net_batchnorm_groups(Setup *s) { return batchnorm(s, SAMPLES, 2); }

/* A row of the table whose body is its definition: both mean the same, and the gradient is that of the body. The result
 * is used twice, once beside the composite. */
typedef Node *Definition(Graph *inner, Node *x, Node *weight, Node *bias);

static Node *mean_along(Graph *g, Node *x, int axis)
{
    Shape kept = x->shape;
    kept.extent[axis] = 1;
    Node *sum = graph_reshape(g, graph_sum(g, x, &axis, 1), kept);
    return graph_binary(g, OP_DIV, sum, graph_weak(g, (double)x->shape.extent[axis]));
}

static Node *define_norm(Graph *g, Node *x, Node *weight, Node *bias, bool centred)
{
    int last = x->shape.rank - 1;
    Node *distance = centred ? graph_binary(g, OP_SUB, x, mean_along(g, x, last)) : x;
    Node *square = mean_along(g, graph_binary(g, OP_MUL, distance, distance), last);
    Node *y = graph_binary(g, OP_DIV, distance, graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, square, graph_weak(g, 1e-3))));
    y = graph_binary(g, OP_MUL, y, weight);
    return bias ? graph_binary(g, OP_ADD, y, bias) : y;
}

static Node *define_layernorm(Graph *g, Node *x, Node *weight, Node *bias) { return define_norm(g, x, weight, bias, true); }
static Node *define_rmsnorm(Graph *g, Node *x, Node *weight, Node *bias) { return define_norm(g, x, weight, bias, false); }

static Node *define_softmax(Graph *g, Node *x, int axis)
{
    Shape kept = x->shape;
    kept.extent[axis] = 1;
    Node *e = graph_unary(g, OP_EXP, x);
    return graph_binary(g, OP_DIV, e, graph_reshape(g, graph_sum(g, e, &axis, 1), kept));
}

static Node *define_softmax_rows(Graph *g, Node *x, Node *weight, Node *bias)
{
    (void)weight, (void)bias;
    return define_softmax(g, x, 1);
}

static Node *define_softmax_columns(Graph *g, Node *x, Node *weight, Node *bias)
{
    (void)weight, (void)bias;
    return define_softmax(g, x, 0);
}

static const char *table_row(Setup *s, const char *layer, Definition *define, int parts, const double *numbers, int number_count,
                             bool has_samples)
{
    static const char *const NAMES[] = {"norm.weight", "norm.bias"};
    Graph *g = begin(s, 2);
    Node *x = has_samples ? dense(g, s, make_input(g, s, SHAPE(4), F32, -1, 1), 6) : make_weight(g, s, SHAPE(6), -1, 1),
         *part[2] = {0};
    Node *sample = make_input(g, s, SHAPE(2, 3), F32, -1, 1), *y;
    x = graph_reshape(g, x, SHAPE(2, 3));
    for (int i = 0; i < parts; i++) {
        part[i] = make_weight(g, s, SHAPE(3), 0.5, 1);
        s->model.variables[s->model.variable_count - 1].name = NAMES[i];
    }
    Graph *inner = graph_open_body(g, layer);
    Node *result = define(inner, x, part[0], part[1]);
    graph_close_body(inner, OP_COMPOSITE, layer, NULL, 0, numbers, number_count, &result, 1, &y);
    Node *both = graph_binary(g, OP_ADD, relu(g, y), graph_binary(g, OP_MUL, y, x));
    graph_result(g, ROLE_LOSS, "loss", 0, graph_binary(g, OP_MUL, both, sample), NULL);
    Graph *row = expand_composites(g), *body = inline_bodies(g);
    double value[2][32], count = 0;
    for (int k = 0; k < 2; k++) {
        Graph *h = k ? body : row;
        Interpretation run = {
            .samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s, .values = NEW_ARRAY(double *, h->node_count)};
        interpret(h, &run);
        for (int i = 0; i < 6 * SAMPLES; i++)
            value[k][i] = run.values[graph_find_result(h, ROLE_LOSS, 0)->value->id][i];
    }
    for (int i = 0; i < 6 * SAMPLES; i++)
        count += fabs(value[0][i] - value[1][i]) > 1e-12;
    return count > 0 ? "the table's forward is not the body" : compare(g, s);
}

static const char *net_layernorm(Setup *s)
{
    return table_row(s, "layernorm", define_layernorm, 2, (double[]){1e-3, 1}, 2, true);
}

static const char *net_layernorm_plain(Setup *s)
{
    return table_row(s, "layernorm", define_layernorm, 1, (double[]){1e-3, 0}, 2, true);
}

static const char *net_layernorm_of_weights(Setup *s)
{
    return table_row(s, "layernorm", define_layernorm, 2, (double[]){1e-3, 1}, 2, false);
}

static const char *net_layernorm_of_tensors(Setup *s) /* eps is not among the numbers, but in the body: bias is the first */
{
    return table_row(s, "layernorm", define_layernorm, 2, (double[]){1}, 1, true);
}

static const char *net_rmsnorm(Setup *s) { return table_row(s, "rmsnorm", define_rmsnorm, 1, (double[]){1e-3}, 1, true); }

static const char *net_softmax(Setup *s) { return table_row(s, "softmax", define_softmax_rows, 0, (double[]){-1}, 1, true); }

static const char *net_softmax_columns(Setup *s)
{
    return table_row(s, "softmax", define_softmax_columns, 0, (double[]){0}, 1, true);
}

/* halves at a tie, equal parts to all maxima, 0 at |0|, the first maximum of a window */
static const char *net_ties(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *w = make_weight(g, s, SHAPE(4), 0, 0), *zero = graph_fill(g, 0, w->shape, F32);
    Node *parts[] = {graph_binary(g, OP_MAXIMUM, w, zero),
                     graph_unary(g, OP_ABS, w),
                     graph_broadcast(g, graph_max(g, w, (int[]){0}, 1), SHAPE(4)),
                     NODE(g, OP_WINDOW_MAX, ((int64_t[]){4, 1, 0, 0}), 4, NULL, w),
                     graph_binary(g, OP_MINIMUM, zero, w),
                     relu(g, w)};
    for (int i = 0; i < COUNT(parts); i++)
        graph_result(g, ROLE_LOSS, format("part%d", i), 0, sum_all(g, parts[i]), NULL);
    Graph *d = differentiate(g);
    Interpretation run = {.samples = SAMPLES, .exact = true, .leaf = give_leaf, .context = s};
    interpret(d, &run);
    const double *gradient = run.values[graph_find_result(d, ROLE_GRADIENT, 0)->value->id];
    return gradient[0] == 0.5 + 0 + 1 + 1 + 0.5 && gradient[3] == 0.5 + 0 + 1 + 0 + 0.5
               ? NULL
               : format("gradients %g and %g, 3 and 2 expected", gradient[0], gradient[3]);
}

/* no gradient of a weight is made per sample, and each is one sum over the samples */
static const char *net_one_sum(Setup *s)
{
    Graph *g = begin(s, SAMPLES);
    Node *h = make_input(g, s, SHAPE(8), F32, -1, 1);
    for (int i = 0; i < 3; i++)
        h = relu(g, dense(g, s, h, 8));
    graph_result(g, ROLE_LOSS, "loss", 0, h, NULL);
    Graph *d = differentiate(g);
    for (int i = 0; i < d->node_count; i++)
        if (d->nodes[i]->has_samples && shape_count(&d->nodes[i]->shape) == 64)
            return format("node %d has the size of a weight for every sample", i);
    for (int v = 0; v < s->model.variable_count; v++)
        if (!node_sums_samples(graph_find_result(d, ROLE_GRADIENT, v)->value))
            return format("the gradient of variable %d is not a sum over the samples", v);
    return NULL;
}

static int check_nets(void)
{
    static const struct {
        const char *name;
        const char *(*run)(Setup *);
    } NETS[] = {
        {"cross entropy with an ignored label", net_ignored_label},
        {"a missing sample", net_missing_sample},
        {"nothing counts", net_nothing_counts},
        {"convolution and pool", net_convolution},
        {"weighted losses", net_two_losses},
        {"masked infinity", net_masked_infinity},
        {"batch mean", net_batch_mean},
        {"gathered", net_gathered},
        {"tied weights", net_tied_weights},
        {"batchnorm", net_batchnorm},
        {"batchnorm, a missing sample", net_batchnorm_missing},
        {"batchnorm of groups", net_batchnorm_groups},
        {"layernorm", net_layernorm},
        {"layernorm without a bias", net_layernorm_plain},
        {"layernorm of a weight", net_layernorm_of_weights},
        {"layernorm of tensors", net_layernorm_of_tensors},
        {"rmsnorm", net_rmsnorm},
        {"softmax", net_softmax},
        {"softmax along the first axis", net_softmax_columns},
        {"stop_gradient", net_stopped},
        {"nested composites", net_composites},
        {"ties", net_ties},
        {"one sum for each weight", net_one_sum},
    };
    int failed = 0;
    for (int i = 0; i < COUNT(NETS); i++) {
        static Setup s;
        s = (Setup){.valid = 0};
        random_state = (uint64_t)i;
        const char *wrong = NETS[i].run(&s);
        if (wrong)
            printf("not ok net: %s%s: %s\n", NETS[i].name, behind(), wrong);
        else
            printf("ok net: %s%s\n", NETS[i].name, behind());
        failed += wrong != NULL;
    }
    return failed;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *full = getenv("MGPU_FULL");
    every_mode = full && *full;
    int failed = check_rows() + check_nets() + check_selection() + check_gradients_of_gradients();
    through_stages = true;
    failed += check_rows() + check_nets() + check_selection() + check_gradients_of_gradients();
    return failed > 0;
}
