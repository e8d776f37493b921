/* attention_cases.h: attention to test: shapes, how operands are in memory, values. */
#ifndef ATTENTION_CASES_H
#define ATTENTION_CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/kernel/attention.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

/* runtime/base/dtype.c: the slow way, which shares nothing with the kernels' */
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);

typedef struct Case {
    const char *name;
    int64_t samples, queries, keys, heads, groups, d, e;
    bool causal;
    int64_t window;
    double scale;
    enum { APART, ONE /* q, k and v are parts of one value */, TURNED /* heads before queries, in memory */ } lie;
    unsigned shared; /* bits: which of q, k, v and g are the same for all samples */
    double low;      /* added to q, taken from k: scores are about -scale d low^2 */
    double large;    /* not 0: q and k are small whole numbers, but for the first of each of their rows, which is `large` (less in
                      * types of few exponents) and 4: scores are about 4 scale large, and exact in all types */
} Case;

static const Case CASES[] = {
    {"small", 3, 5, 7, 2, 2, 3, 4, false, 0, 0.5, APART, 0, 0, 0},
    {"causal", 2, 37, 37, 2, 2, 16, 16, true, 0, 0.25, APART, 0, 0, 0},
    {"causal, parts of one", 2, 100, 100, 3, 3, 64, 64, true, 0, 0.125, ONE, 0, 0, 0},
    {"several blocks", 2, 150, 333, 2, 1, 20, 17, false, 0, 0.2, APART, 0, 0, 0},
    {"causal, more keys", 1, 70, 131, 2, 2, 8, 24, true, 0, 0.3, TURNED, 0, 0, 0},
    {"shared keys", 2, 33, 40, 6, 2, 12, 5, false, 0, -0.4, TURNED, 0, 0, 0},
    {"a window", 2, 90, 90, 2, 2, 8, 8, true, 17, 0.4, APART, 0, 0, 0},
    {"a window of one", 1, 20, 20, 1, 1, 4, 4, true, 1, 1, APART, 0, 0, 0},
    {"a window without an end", 1, 40, 60, 2, 2, 8, 8, false, 9, 0.4, ONE, 0, 0, 0},
    {"a window of low scores", 2, 90, 90, 2, 2, 8, 8, true, 5, 1, APART, 0, 4, 0},
    {"a window of low scores, not causal", 1, 70, 200, 2, 1, 8, 8, false, 70, 1, TURNED, 0, 4, 0},
    {"low scores, more keys", 1, 70, 171, 2, 2, 8, 8, true, 0, 1, APART, 0, 4, 0},
    {"causal, fewer keys", 2, 70, 30, 2, 2, 8, 12, true, 0, 0.5, APART, 0, 0, 0},
    {"causal, fewer keys, by blocks that see nothing", 1, 150, 9, 2, 1, 8, 24, true, 0, 0.5, TURNED, 0, 0, 0},
    {"a window, fewer keys", 2, 75, 40, 2, 2, 8, 8, true, 3, 1, ONE, 0, 0, 0},
    {"large scores", 1, 30, 30, 1, 1, 16, 16, false, 0, 40, APART, 0, 0, 0},
    {"no scale", 1, 30, 30, 1, 1, 16, 16, true, 0, 0, APART, 0, 0, 0},
    {"one of each", 2, 1, 1, 1, 1, 1, 1, true, 0, 1, APART, 0, 0, 0},
    {"many keys, few rows of scores", 1, 40, 3000, 1, 1, 8, 4, false, 0, 0.5, APART, 0, 0, 0},
    {"long heads", 1, 20, 18, 1, 1, 1300, 40, false, 0, 0.02, APART, 0, 0, 0},
    {"keys for all samples", 3, 10, 12, 2, 2, 8, 8, false, 0, 0.3, APART, 6, 0, 0},
    {"queries for all samples", 3, 10, 12, 2, 2, 8, 8, false, 0, 0.3, APART, 9, 0, 0},
    {"the same for all samples", 3, 10, 12, 2, 2, 8, 8, false, 0, 0.3, APART, 15, 0, 0},
    {"scores of 2e4", 2, 70, 90, 2, 1, 6, 8, false, 0, 1, APART, 0, 0, 4608},
    {"scores of 2e6", 2, 70, 90, 2, 2, 6, 8, true, 0, 1, TURNED, 0, 0, 524288},
    {"scores of -2e6", 1, 40, 70, 2, 1, 16, 16, true, 9, -1, APART, 0, 0, 524288},
    {"scores of 2e6, a scale that is no power of 2", 1, 40, 70, 2, 1, 16, 16, false, 0, 0.7, APART, 0, 0, 524288},
    {"scores of 3e12", 2, 70, 90, 2, 1, 6, 8, false, 0, 1.43e6, APART, 0, 0, 524288},
    {"scores of -3e12", 1, 40, 70, 2, 2, 16, 16, true, 0, -1.43e6, TURNED, 0, 0, 524288},
};

/* gradients of f16 are not beyond its largest number */
static bool has_range(const Case *c, Dtype type) { return type != F16 || fabs(c->scale) < 1e3; }

static uint64_t random_state = 88172645463325252u;

static double draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-52 - 1;
}

/* ---- a case as a graph */

enum { OPERANDS = ATTENTION_OPERANDS };

typedef struct Setup {
    Model model;
    Graph *graph;
    Node *leaf[OPERANDS], *in[OPERANDS]; /* what is in memory; q, k, v, g, y and sums */
    double *value[OPERANDS];             /* of the leaves */
    Interpretation run;
} Setup;

static double rounded(double v, Dtype type)
{
    union {
        float value;
        uint32_t bits;
    } f = {.value = (float)v};
    if (type == F64)
        return v;
    if (type == BF16) {
        f.bits += 0x7fff + (f.bits >> 16 & 1);
        f.bits &= 0xffff0000u;
    } else if (type == F16) {
        uint16_t bits;
        mgpu_from_double(&bits, MGPU_F16, 0, v);
        return mgpu_to_double(&bits, MGPU_F16, 0);
    }
    return (double)f.value;
}

static bool give_leaf(void *context, const Node *n, double *out, int64_t count)
{
    const Setup *s = context;
    for (int k = 0; k < OPERANDS; k++)
        if (s->leaf[k] && s->leaf[k]->op == n->op && s->leaf[k]->ints[0] == n->ints[0]) {
            memcpy(out, s->value[k], sizeof *out * (size_t)count);
            return true;
        }
    return false;
}

static double whole_number(const Case *c, int k, int64_t place, Dtype type, bool tf32)
{
    if (place > 0)
        return rint(2 * draw());
    return k == 1 ? 4 : type == F16 && c->large > 4096 ? 4096 : tf32 && c->large > 32768 ? 32768 : c->large;
}

static void make_leaf(Setup *s, const Case *c, int k, Shape shape, Dtype type, bool shared, double offset)
{
    int index = shared ? s->model.variable_count++ : s->model.input_count++;
    if (shared) {
        s->model.variables[index] = (Variable){.name = "v", .dtype = type, .shape = shape, .owner = -1};
        for (int i = 0; i < shape.rank; i++)
            s->model.variables[index].order[i] = i;
        s->leaf[k] = graph_variable(s->graph, index);
    } else {
        s->model.inputs[index] = (Input){.name = "i", .dtype = type, .shape = shape, .ignore = -1, .other = -1};
        s->leaf[k] = graph_input(s->graph, index);
    }
    int64_t count = shape_count(&shape) * (shared ? 1 : c->samples);
    bool whole = c->large != 0 && k < 2;
    s->value[k] = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++)
        s->value[k][i] = whole ? whole_number(c, k, i % c->d, type, s->model.tf32)
                               : rounded(draw() + offset, s->model.tf32 ? F16 : type); /* as many bits of fraction */
}

static void set_up(Setup *s, const Case *c, Dtype type, bool tf32)
{
    static const Source source = {.file = "test.net", .text = "", .length = 0};
    memset(s, 0, sizeof *s);
    s->model.name = "test";
    s->model.tf32 = tf32;
    s->model.source = NEW(Source);
    *s->model.source = source;
    s->model.inputs = NEW_ARRAY(Input, OPERANDS);
    s->model.variables = NEW_ARRAY(Variable, OPERANDS);
    s->graph = graph_new(&s->model, "train", NULL);
    const Shape shape[4] = {SHAPE(c->queries, c->heads, c->d), SHAPE(c->keys, c->groups, c->d), SHAPE(c->keys, c->groups, c->e),
                            SHAPE(c->queries, c->heads, c->e)};
    for (int k = 0; k < 4; k++) {
        bool part = c->lie == ONE && k < 3;
        int64_t rows = c->queries > c->keys ? c->queries : c->keys;
        Shape lies = part ? SHAPE(rows, 3, c->heads, c->d) : shape[k];
        if (c->lie == TURNED)
            lies = SHAPE(shape[k].extent[1], shape[k].extent[0], shape[k].extent[2]);
        if (!part || k == 0)
            make_leaf(s, c, k, lies, type, c->shared >> k & 1, part ? 0 : k == 0 ? c->low : k == 1 ? -c->low : 0);
        s->in[k] = part ? s->leaf[0] : s->leaf[k];
        if (part) {
            Shape count = SHAPE(shape[k].extent[0], 1, c->heads, c->d);
            s->in[k] = graph_slice(s->graph, s->in[k], (int64_t[]){rows - count.extent[0], k, 0, 0}, count.extent,
                                   (int64_t[]){1, 1, 1, 1});
            s->in[k] = graph_reshape(s->graph, s->in[k], shape[k]);
        } else if (c->lie == TURNED) {
            s->in[k] = graph_transpose(s->graph, s->in[k], (int[]){1, 0, 2});
        }
    }
    s->run = (Interpretation){.exact = true, .samples = c->samples, .leaf = give_leaf, .context = s};
}

/* ---- values in memory */

static void *as_type(const double *value, int64_t count, Dtype type)
{
    int64_t bytes = dtype_bytes(type);
    void *to = aligned_alloc(64, (size_t)((count * bytes + 63) / 64 * 64 + 64));
    for (int64_t i = 0; i < count; i++) {
        float narrow = value ? (float)value[i] : NAN;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        if (type == F64)
            ((double *)to)[i] = value ? value[i] : (double)NAN;
        else if (type == F32)
            ((float *)to)[i] = narrow;
        else if (type == F16)
            mgpu_from_double(to, MGPU_F16, i, (double)narrow);
        else
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    }
    return to;
}

static double element(const void *from, int64_t i, Dtype type)
{
    if (type == F64)
        return ((const double *)from)[i];
    if (type == F32)
        return (double)((const float *)from)[i];
    if (type == F16)
        return mgpu_to_double(from, MGPU_F16, i);
    union {
        uint32_t bits;
        float value;
    } f = {.bits = (uint32_t)((const uint16_t *)from)[i] << 16};
    return (double)f.value;
}

static bool is_stored(const Node *n) { return n->op == OP_INPUT || n->op == OP_VARIABLE; }

static Tensor tensor_of(const Node *n)
{
    return (Tensor){.kind = TENSOR_TEMPORARY, .name = "t", .dtype = n->dtype, .shape = n->shape, .has_samples = n->has_samples};
}

/* of results that are `type`, relative to the largest */
static double limit_of(const Case *c, Dtype type, bool tf32)
{
    static const double LIMIT[DTYPES] = {[F64] = 1e-13, [F32] = 2e-5, [BF16] = 2e-2, [F16] = 3e-3};
    return LIMIT[tf32 ? F16 : type] * ((c->scale > 1 || c->low > 0) && type != F64 ? 20 : 1);
}

/* how far results are off: NULL: not too far */
static const char *compare_results(const Setup *s, const Case *c, Node *const *nodes, int count, void *const *results)
{
    const char *wrong = NULL;
    for (int i = 0; i < count; i++) {
        const double *expected = s->run.values[nodes[i]->id];
        const Dtype own = nodes[i]->dtype;
        int64_t elements = shape_count(&nodes[i]->shape) * (nodes[i]->has_samples ? c->samples : 1);
        double most = 1e-30, worst = 0;
        for (int64_t k = 0; k < elements; k++)
            most = fabs(expected[k]) > most && isfinite(expected[k]) ? fabs(expected[k]) : most;
        for (int64_t k = 0; k < elements; k++) {
            double made = element(results[i], k, own),
                   off = isinf(expected[k]) && made == expected[k] ? 0 : fabs(made - expected[k]);
            worst = off <= worst ? worst : off; /* or no number */
        }
        if (!(worst <= limit_of(c, own, s->model.tf32) * (most > 1e-6 ? most : 1)))
            wrong = format("result %d is %g off, its most is %g", i, worst, most);
    }
    return wrong;
}

enum { FORWARD_RESULTS = 2, ALL_RESULTS = 6 };

static void interpret_all(Setup *s)
{
    s->run.values = NEW_ARRAY(double *, s->graph->node_count);
    interpret(s->graph, &s->run);
}

/* y and its sums, then gradients: of q, k, v, and if they have one shape of all three in one value; computed by the interpreter.
 * rounds_y: the gradients' kernels read y as it is stored, and so does the interpreter */
static void compute_all(Setup *s, const Case *c, bool rounds_y, Node *all[ALL_RESULTS])
{
    Node **in = s->in;
    bool one = shape_equal(&in[0]->shape, &in[1]->shape) && shape_equal(&in[0]->shape, &in[2]->shape);
    all[0] = graph_attention(s->graph, in[0], in[1], in[2], c->causal, c->window, c->scale);
    all[1] = graph_attention_sums(s->graph, all[0]);
    interpret_all(s);
    for (int k = 4; k < OPERANDS; k++) { /* the gradients' operands: as they are stored */
        Node *made = all[k - 4];
        make_leaf(s, c, k, made->shape, made->dtype, !made->has_samples, 0);
        for (int64_t i = 0, count = shape_count(&made->shape) * (made->has_samples ? c->samples : 1); i < count; i++)
            s->value[k][i] = rounded(s->run.values[made->id][i], k == 4 && !rounds_y ? F64 : made->dtype);
        in[k] = s->leaf[k];
    }
    for (int which = 0; which < 4; which++) {
        int64_t ints[4] = {all[0]->ints[0], all[0]->ints[1], all[0]->ints[2], which};
        all[FORWARD_RESULTS + which] =
            which < 3 || one ? graph_node(s->graph, OP_ATTENTION_GRADIENT, in, OPERANDS, ints, 4, NULL) : NULL;
    }
    interpret_all(s);
}

/* The kernel's own results are what its gradients read, so that what scores lose by rounding is the same in both. Not in halves:
 * interpreter and kernel read the same rounded values there. */
static void keep_forward(Setup *s, const Case *c, Node *const *nodes, int count, void *const *results)
{
    for (int i = 0; i < count; i++)
        if (nodes[i]->op == OP_ATTENTION && !dtype_is_half(nodes[i]->in[0]->dtype))
            for (int64_t k = 0, all = shape_count(&nodes[i]->shape) * (nodes[i]->has_samples ? c->samples : 1); k < all; k++)
                s->value[4 + nodes[i]->ints[3]][k] = element(results[i], k, nodes[i]->dtype);
}
#endif
