/* scan_test.c: a loop against the same steps written out one after the other, in double.
 *
 * A case says what is carried, gone over and captured, and how a step computes. Its graph is built twice: with a SCAN, and
 * with a copy of the step for each t. Both must give the same results, and the same gradients of every weight, whatever
 * stages have gone over the graph with the SCAN: the parts that leave the loop, the reverse rule, simplification,
 * distribution, precision; with all samples valid or some missing, forwards and backwards, for one step and for many.
 *
 * After the cases: in the language, a scan against a for. What stays in loops and what reverse loops go over:
 * tests/passes/loops_*. */
#include "compiler/passes/composite.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"
#include "dsl/dsl.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 3, PARTS = 4, MOST = 24 };

/* one part of a loop: 0: none; a weight; a value of every sample; a whole number of every sample; a constant of zeros */
typedef enum From { NOTHING, WEIGHT_, SAMPLE_, INDEX_, ZEROS_ } From;
typedef struct Part {
    From source;
    Shape shape;
} Part;

typedef struct Step {
    Node *carry[PARTS], *slice[PARTS], *captured[PARTS]; /* of this step */
    Node *next[PARTS], *stack[PARTS];                    /* what the step makes; next NULL: the carry as it is */
    int stacks;
} Step;

typedef struct Case {
    const char *name;
    void (*step)(Graph *, Step *);
    unsigned unused; /* bits: results that no loss sees */
    Part carry[PARTS], sequence[PARTS], captured[PARTS];
    bool own; /* a carry that begins the same for all has a value for every sample in the loop */
} Case;

/* clang-format off */
#define S(...) {.rank = COUNT(((int64_t[]){__VA_ARGS__})), .extent = {__VA_ARGS__}}
#define S0 {.rank = 0}
/* clang-format on */

static Node *add(Graph *g, Node *a, Node *b) { return graph_binary(g, OP_ADD, a, b); }
static Node *mul(Graph *g, Node *a, Node *b) { return graph_binary(g, OP_MUL, a, b); }
static Node *sub(Graph *g, Node *a, Node *b) { return graph_binary(g, OP_SUB, a, b); }
static Node *number(Graph *g, double v) { return graph_weak(g, v); }
static Node *tanh_(Graph *g, Node *a) { return graph_unary(g, OP_TANH, a); }
static Node *einsum(Graph *g, const char *spec, Node *a, Node *b) { return graph_einsum(g, spec, (Node *[]){a, b}, 2, false); }
static Node *sigmoid(Graph *g, Node *a)
{
    Node *e = graph_unary(g, OP_EXP, graph_negate(g, a));
    return graph_binary(g, OP_DIV, number(g, 1), add(g, number(g, 1), e));
}
static Node *part_of(Graph *g, Node *a, int64_t from, int64_t count) { return graph_slice(g, a, &from, &count, (int64_t[]){1}); }
static void stack(Step *s, Node *n) { s->stack[s->stacks++] = n; }

/* ---- steps */

static void step_decay(Graph *g, Step *s)
{
    s->next[0] = add(g, mul(g, s->carry[0], number(g, 0.5)), s->slice[0]);
    stack(s, mul(g, s->next[0], s->next[0]));
}

static void step_rnn(Graph *g, Step *s) /* x @ u + h @ w + b */
{
    Node *z = add(g, einsum(g, "i,io->o", s->slice[0], s->captured[0]), einsum(g, "i,io->o", s->carry[0], s->captured[1]));
    s->next[0] = tanh_(g, add(g, z, s->captured[2]));
    stack(s, s->next[0]);
}

static void step_lstm(Graph *g, Step *s)
{
    Node *z = add(g, s->slice[0], einsum(g, "i,oi->o", s->carry[0], s->captured[0]));
    int64_t w = s->carry[0]->shape.extent[0];
    Node *i = sigmoid(g, part_of(g, z, 0, w)), *f = sigmoid(g, part_of(g, z, w, w));
    Node *c = tanh_(g, part_of(g, z, 2 * w, w)), *o = sigmoid(g, part_of(g, z, 3 * w, w));
    s->next[1] = add(g, mul(g, f, s->carry[1]), mul(g, i, c));
    s->next[0] = mul(g, o, tanh_(g, s->next[1]));
    stack(s, s->next[0]);
}

static void step_two(Graph *g, Step *s) /* two carries that swap, two sequences, a projection after */
{
    s->next[0] = tanh_(g, add(g, s->carry[1], s->slice[0]));
    s->next[1] = mul(g, s->carry[0], s->slice[1]);
    stack(s, einsum(g, "i,io->o", s->next[0], s->captured[0]));
    stack(s, s->carry[1]);
    stack(s, mul(g, s->slice[0], number(g, 3)));
}

static void step_counter(Graph *g, Step *s) /* a carry that is the same for all samples beside one that is not */
{
    s->next[0] = add(g, mul(g, s->carry[0], s->captured[0]), number(g, 1));
    s->next[1] = tanh_(g, add(g, mul(g, s->carry[1], s->carry[0]), s->slice[0]));
    stack(s, mul(g, s->next[0], s->next[0]));
    stack(s, mul(g, s->next[1], s->carry[0]));
}

static void step_embedding(Graph *g, Step *s) /* rows of a table by the step's index; layernorm */
{
    Node *row = NODE(g, OP_GATHER, ((int64_t[]){0}), 1, NULL, s->captured[0], s->slice[0]);
    Node *x = add(g, row, einsum(g, "i,io->o", s->carry[0], s->captured[1]));
    Node *mean = mul(g, graph_sum(g, x, (int[]){0}, 1), number(g, 1 / (double)x->shape.extent[0]));
    Node *distance = sub(g, x, mean);
    Node *variance = mul(g, graph_sum(g, mul(g, distance, distance), (int[]){0}, 1), number(g, 1 / (double)x->shape.extent[0]));
    s->next[0] = graph_binary(g, OP_DIV, distance, graph_unary(g, OP_SQRT, add(g, variance, number(g, 0.1))));
}

static void step_ctc(Graph *g, Step *s) /* logsumexp of a shifted carry, frozen after a length */
{
    int64_t n = s->carry[0]->shape.extent[0];
    Node *a = s->carry[0];
    Node *shifted = graph_pad(g, part_of(g, a, 0, n - 1), (int64_t[]){1}, (int64_t[]){0}, -5);
    Node *both = graph_concat(g, (Node *[]){graph_reshape(g, a, SHAPE(n, 1)), graph_reshape(g, shifted, SHAPE(n, 1))}, 2, 1);
    Node *most = graph_max(g, both, (int[]){1}, 1);
    Node *e = graph_unary(g, OP_EXP, sub(g, both, graph_reshape(g, most, SHAPE(n, 1))));
    Node *lse = add(g, most, graph_unary(g, OP_LOG, graph_sum(g, e, (int[]){1}, 1)));
    Node *next = add(g, lse, s->slice[0]);
    s->next[0] = graph_where(g, graph_binary(g, OP_LT, s->slice[1], s->captured[0]), next, a);
}

static void step_attention(Graph *g, Step *s) /* scores over a memory of every sample, softmax, context */
{
    Node *scores = einsum(g, "mi,i->m", s->captured[0], s->carry[0]);
    Node *e = graph_unary(g, OP_EXP, sub(g, scores, graph_max(g, scores, (int[]){0}, 1)));
    Node *p = graph_binary(g, OP_DIV, e, graph_sum(g, e, (int[]){0}, 1));
    Node *context = einsum(g, "m,mi->i", p, s->captured[0]);
    s->next[0] = tanh_(g, add(g, context, add(g, s->slice[0], s->captured[1])));
    stack(s, p);
}

static void step_where(Graph *g, Step *s) /* bool and whole carries; a mask */
{
    Node *big = graph_binary(g, OP_LT, number(g, 0.2), s->slice[0]);
    s->next[0] = graph_where(g, big, s->slice[0], s->carry[0]);
    s->next[1] = graph_cast(g, add(g, graph_cast(g, s->carry[1], F32), graph_cast(g, big, F32)), F32);
    stack(s, mul(g, s->carry[0], s->next[1]));
}

/* a loop in the loop, over the axes of the step's matrix, beginning with the carry */
static void step_nested(Graph *g, Step *s)
{
    Node *x = s->slice[0];
    Graph *r = graph_open_body(g, "inner");
    Node *h = graph_scan_carry(r, s->carry[0], true), *row = graph_scan_sequence(r, x);
    Node *next = tanh_(r, add(r, einsum(r, "i,io->o", h, s->captured[0]), row));
    Node *scan = graph_close_scan(r, x->shape.extent[0], true, &next, (Node *[]){mul(r, next, s->captured[1])}, 1);
    s->next[0] = graph_scan_result(g, scan, 0);
    stack(s, graph_scan_result(g, scan, 1));
}

static void step_nested_ahead(Graph *g, Step *s) /* an inner loop that depends on the step, not on what is carried */
{
    Graph *r = graph_open_body(g, "inner");
    Node *h = graph_scan_carry(r, graph_fill(g, 0, SHAPE(2), F32), true), *row = graph_scan_sequence(r, s->slice[0]);
    Node *next = tanh_(r, add(r, einsum(r, "i,io->o", h, s->captured[0]), row));
    Node *scan = graph_close_scan(r, s->slice[0]->shape.extent[0], false, &next, &next, 1);
    Node *all = graph_sum(g, graph_scan_result(g, scan, 1), (int[]){0}, 1);
    s->next[0] = tanh_(g, add(g, mul(g, s->carry[0], graph_scan_result(g, scan, 0)), all));
}

static void step_invariant(Graph *g, Step *s) /* w w' is the same in every step; a sum of captured values of samples */
{
    Node *w = einsum(g, "ij,kj->ik", s->captured[0], s->captured[0]), *c = mul(g, s->captured[1], s->captured[1]);
    s->next[0] = tanh_(g, add(g, einsum(g, "i,io->o", s->carry[0], w), mul(g, c, s->slice[0])));
}

static void step_plain(Graph *g, Step *s) /* nothing is carried: a map */
{
    Node *y = tanh_(g, einsum(g, "i,io->o", s->slice[0], s->captured[0]));
    stack(s, y);
    stack(s, graph_max(g, y, (int[]){0}, 1));
    stack(s, graph_fill(g, 3, SHAPE(2), F32));
}

static void step_no_sequence(Graph *g, Step *s) { s->next[0] = tanh_(g, einsum(g, "i,io->o", s->carry[0], s->captured[0])); }

static void step_views(Graph *g, Step *s) /* what must keep its axes apart when all steps are computed at once */
{
    Node *x = s->slice[0]; /* [2, 3] */
    Node *t = graph_transpose(g, x, (int[]){1, 0});
    Node *flat = graph_reshape(g, t, SHAPE(6)), *spread = graph_broadcast(g, graph_reshape(g, x, SHAPE(2, 1, 3)), SHAPE(2, 2, 3));
    Node *odd = graph_slice(g, flat, (int64_t[]){5}, (int64_t[]){3}, (int64_t[]){-2});
    Node *window = NODE(g, OP_WINDOW_MAX, ((int64_t[]){1, 2, 1, 1, 0, 0, 0, 1}), 8, NULL, x);
    Node *sums = NODE(g, OP_WINDOW_SUM, ((int64_t[]){2, 2, 1, 1, 0, 1, 0, 0}), 8, NULL, x);
    Node *hull = graph_pad(g, graph_concat(g, (Node *[]){odd, s->captured[0]}, 2, 0), (int64_t[]){1}, (int64_t[]){0}, 2);
    Node *index = graph_constant(g, (double[]){1, 0, 7, 1}, SHAPE(4), I32);
    Node *rows = NODE(g, OP_GATHER, ((int64_t[]){1}), 1, NULL, x, index);
    Node *put = graph_scatter_add(g, graph_fill(g, 0, SHAPE(2, 4), F32), index, rows, 1, false);
    Node *wide = graph_sum(g, mul(g, spread, spread), (int[]){0, 2}, 2); /* [2] */
    Node *all = add(g, graph_sum(g, window, (int[]){1}, 1), wide);       /* [2] */
    all = add(g, all, graph_sum(g, mul(g, put, put), (int[]){1}, 1));
    all = add(g, mul(g, all, number(g, 0.1)), graph_sum(g, hull, (int[]){0}, 1));
    s->next[0] = tanh_(g, add(g, mul(g, s->carry[0], number(g, 0.5)), add(g, all, graph_sum(g, sums, (int[]){0, 1}, 2))));
}

static void step_gather(Graph *g, Step *s) /* tables and indices of every step */
{
    Node *x = s->slice[0], *i = s->slice[1], *axis = s->captured[0]; /* [4, 3], i32 [2], [2, 4] */
    Node *a = NODE(g, OP_GATHER, ((int64_t[]){0}), 1, NULL, x, i), *b = NODE(g, OP_GATHER, ((int64_t[]){1}), 1, NULL, x, i);
    Node *c = NODE(g, OP_GATHER, ((int64_t[]){1}), 1, NULL, axis, i);
    Node *y = add(g, graph_sum(g, mul(g, a, a), (int[]){0}, 1), graph_sum(g, b, (int[]){0, 1}, 2));
    s->next[0] = tanh_(g, add(g, mul(g, s->carry[0], y), graph_sum(g, mul(g, c, c), (int[]){0, 1}, 2)));
    stack(s, graph_scatter_add(g, x, i, a, 0, false));
}

static void step_convolve(Graph *g, Step *s) /* a convolution before the recurrence, one in it, one after it */
{
    int64_t ints[] = {1, 1, 1, 1, 1, 1, 1};
    Node *x = NODE(g, OP_CONVOLVE, ints, 7, NULL, s->slice[0], s->captured[0]);
    Node *h = NODE(g, OP_CONVOLVE, ints, 7, NULL, s->carry[0], s->captured[0]);
    s->next[0] = tanh_(g, add(g, x, h));
    stack(s, NODE(g, OP_CONVOLVE, ints, 7, NULL, s->next[0], s->captured[0]));
}

static void step_attend(Graph *g, Step *s) /* ATTENTION before the recurrence and in it */
{
    Node *q = graph_reshape(g, s->slice[0], SHAPE(2, 2, 2)), *k = s->captured[0], *v = s->captured[1];
    Node *ahead = graph_reshape(g, graph_attention(g, q, q, q, true, 0, 0.7), SHAPE(8));
    Node *there = graph_attention(g, graph_reshape(g, s->carry[0], SHAPE(2, 2, 2)), k, v, false, 0, 0.5);
    s->next[0] = tanh_(g, add(g, ahead, graph_reshape(g, there, SHAPE(8))));
}

static void step_masked(Graph *g, Step *s) /* log of what may be 0, where it is not looked at */
{
    Node *x = graph_binary(g, OP_MAXIMUM, s->slice[0], number(g, 0));
    Node *zero = graph_binary(g, OP_EQ, x, number(g, 0));
    Node *log = graph_where(g, zero, number(g, 0), graph_unary(g, OP_LOG, x));
    s->next[0] = add(g, mul(g, s->carry[0], number(g, 0.3)), log);
}

static void step_matrix(Graph *g, Step *s) /* a carry that is a matrix: linear attention */
{
    Node *outer = einsum(g, "i,j->ij", s->slice[0], s->slice[1]);
    s->next[0] = add(g, mul(g, s->carry[0], s->captured[0]), outer);
    stack(s, einsum(g, "i,ij->j", s->slice[0], s->next[0]));
}

static void step_rows(Graph *g, Step *s) /* running sums and the largest, before the recurrence, in it and after it */
{
    int64_t sum[2] = {1, 0}, back[2] = {0, 1}, values[3] = {1, 2, 0}, places[3] = {1, 2, 1};
    Node *ahead = NODE(g, OP_CUMSUM, sum, 2, NULL, s->slice[0]), *best = NODE(g, OP_TOP_K, values, 3, NULL, s->slice[0]);
    Node *own = NODE(g, OP_CUMSUM, back, 2, NULL, s->carry[0]), *top = NODE(g, OP_TOP_K, values, 3, NULL, s->carry[0]);
    Node *all = add(g, graph_sum(g, best, (int[]){1}, 1), graph_sum(g, top, (int[]){1}, 1));
    s->next[0] = tanh_(g, add(g, add(g, ahead, own), graph_reshape(g, all, SHAPE(2, 1))));
    stack(s, NODE(g, OP_CUMSUM, sum, 2, NULL, s->next[0]));
    stack(s, graph_cast(g, NODE(g, OP_TOP_K, places, 3, NULL, s->next[0]), F32));
}

/* Indices of 64 bits, of which the lowest 32 are a row. */
static void step_far(Graph *g, Step *s)
{
    Node *x = s->slice[0], *i = graph_cast(g, s->slice[1], I64); /* [4, 3], [2] */
    i = mul(g, i, graph_number(g, 4294967297.0, I64));
    Node *rows = NODE(g, OP_GATHER, ((int64_t[]){0}), 1, NULL, x, i);
    s->next[0] = tanh_(g, add(g, s->carry[0], graph_sum(g, mul(g, rows, rows), (int[]){0}, 1)));
    stack(s, graph_scatter_add(g, x, i, rows, 0, false));
}

static void step_chosen(Graph *g, Step *s) /* a choice by a carry, before a contraction */
{
    Node *high = graph_binary(g, OP_LT, number(g, 0.1), part_of(g, s->carry[0], 0, 3));
    Node *q = graph_where(g, high, s->slice[0], number(g, 0));
    s->next[0] = tanh_(g, add(g, mul(g, s->carry[0], s->captured[1]), einsum(g, "oi,i->o", s->captured[0], q)));
}

static void step_last(Graph *g, Step *s) /* carries that no step reads */
{
    s->next[0] = mul(g, s->slice[0], s->captured[0]);
    s->next[1] = tanh_(g, add(g, s->slice[0], s->carry[2]));
    s->next[2] = s->next[1];
}

/* clang-format off */
#define W(...) {WEIGHT_, S(__VA_ARGS__)}
#define X(...) {SAMPLE_, S(__VA_ARGS__)}
#define I(...) {INDEX_, S(__VA_ARGS__)}
#define Z(...) {ZEROS_, S(__VA_ARGS__)}
#define W0 {WEIGHT_, S0}
#define X0 {SAMPLE_, S0}
#define I0 {INDEX_, S0}
#define Z0 {ZEROS_, S0}
#define NONE_ {{NOTHING, S0}}
/* clang-format on */

static const Case CASES[] = {
    {"running sums and the largest", step_rows, 0, {X(2, 3)}, {X(2, 3)}, NONE_, false},
    {"the last of all", step_last, 0, {Z(2), X(2), W(2)}, {X(2)}, {W(2)}, false},
    {"decay", step_decay, 0, {X(2)}, {X(2)}, NONE_, false},
    {"decay, the carry unused", step_decay, 1, {X(2)}, {X(2)}, NONE_, false},
    {"decay, the stack unused", step_decay, 2, {X(2)}, {X(2)}, NONE_, false},
    {"decay of weights", step_decay, 0, {W(2)}, {W(2)}, NONE_, false},
    {"decay that begins with a weight", step_decay, 0, {W(2)}, {X(2)}, NONE_, false},
    {"decay over weights", step_decay, 0, {X(2)}, {W(2)}, NONE_, false},
    {"decay of numbers", step_decay, 0, {Z0}, {X0}, NONE_, false},
    {"rnn", step_rnn, 0, {Z(4)}, {X(3)}, {W(3, 4), W(4, 4), W(4)}, false},
    {"rnn from a weight", step_rnn, 2, {W(4)}, {X(3)}, {W(3, 4), W(4, 4), W(4)}, false},
    {"rnn over a weight", step_rnn, 1, {X(4)}, {W(3)}, {W(3, 4), W(4, 4), X(4)}, false},
    {"rnn of weights alone", step_rnn, 0, {W(4)}, {W(3)}, {W(3, 4), W(4, 4), W(4)}, false},
    {"rnn, matrices of samples", step_rnn, 0, {Z(4)}, {X(3)}, {X(3, 4), X(4, 4), W(4)}, false},
    {"lstm", step_lstm, 0, {Z(3), Z(3)}, {X(12)}, {W(12, 3)}, false},
    {"lstm, the last alone", step_lstm, 2 | 4, {Z(3), Z(3)}, {X(12)}, {W(12, 3)}, false},
    {"lstm, the stack alone", step_lstm, 1 | 2, {Z(3), W(3)}, {X(12)}, {W(12, 3)}, false},
    {"lstm, nothing", step_lstm, 7, {Z(3), W(3)}, {X(12)}, {W(12, 3)}, false},
    {"two carries", step_two, 0, {X(2), W(2)}, {X(2), X(2)}, {W(2, 5)}, false},
    {"two carries, one sequence a weight", step_two, 1, {X(2), Z(2)}, {X(2), W(2)}, {X(2, 5)}, false},
    {"a counter", step_counter, 0, {W0, X(2)}, {X(2)}, {W0}, false},
    {"a counter of every sample", step_counter, 0, {W0, X(2)}, {X(2)}, {W0}, .own = true},
    {"a choice by a carry", step_chosen, 0, {X(4)}, {X(3)}, {W(4, 3), W(4)}, false},
    {"indices of 64 bits", step_far, 0, {X(3)}, {X(4, 3), I(2)}, NONE_, false},
    {"embedding, layernorm", step_embedding, 0, {Z(3)}, {I0}, {W(4, 3), W(3, 3)}, false},
    {"ctc", step_ctc, 0, {X(5)}, {X(5), I0}, {I0}, false},
    {"attention", step_attention, 0, {Z(3)}, {X(3)}, {X(4, 3), X(3)}, false},
    {"attention over weights", step_attention, 0, {Z(3)}, {X(3)}, {W(4, 3), W(3)}, false},
    {"where", step_where, 0, {W(2), Z(2)}, {X(2)}, NONE_, false},
    {"nested", step_nested, 0, {Z(2)}, {X(3, 2)}, {W(2, 2), W(2)}, false},
    {"nested, of samples", step_nested, 0, {X(2)}, {X(3, 2)}, {X(2, 2), X(2)}, false},
    {"nested, ahead", step_nested_ahead, 0, {X(2)}, {X(3, 2)}, {W(2, 2)}, false},
    {"invariant", step_invariant, 0, {X(3)}, {X(3)}, {W(3, 2), X(3)}, false},
    {"a map", step_plain, 0, NONE_, {X(3)}, {W(3, 2)}, false},
    {"no sequence", step_no_sequence, 0, {X(3)}, NONE_, {W(3, 3)}, false},
    {"no sequence, a weight", step_no_sequence, 0, {W(3)}, NONE_, {W(3, 3)}, false},
    {"views and windows", step_views, 0, {X(2)}, {X(2, 3)}, {W(3)}, false},
    {"views and windows of weights", step_views, 0, {X(2)}, {W(2, 3)}, {X(3)}, false},
    {"gathers", step_gather, 0, {X(3)}, {X(4, 3), I(2)}, {W(2, 4)}, false},
    {"gathers in weights", step_gather, 0, {Z(3)}, {W(4, 3), I(2)}, {X(2, 4)}, false},
    {"convolutions", step_convolve, 0, {Z(4, 2)}, {X(4, 2)}, {W(2, 2, 3)}, false},
    {"the primitive attention", step_attend, 0, {X(8)}, {X(8)}, {X(3, 2, 2), W(3, 2, 2)}, false},
    {"masked", step_masked, 0, {X(3)}, {X(3)}, NONE_, false},
    {"a carry that is a matrix", step_matrix, 0, {Z(2, 3)}, {X(2), X(3)}, {W0}, false},
};

/* ---- a model with weights w0 .. and inputs that make them per sample */

typedef struct Setup {
    Model model;
    Input input_list[MOST];
    Variable variable_list[MOST];
    double *weights[MOST], *inputs[MOST];
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
    case OP_VARIABLE:
    case OP_INPUT:
        memcpy(out, (n->op == OP_INPUT ? s->inputs : s->weights)[n->ints[0]], (size_t)count * sizeof *out);
        return true;
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

static Node *make_part(Graph *g, Setup *s, const Part *p, int64_t steps)
{
    Shape shape = p->shape;
    if (steps) {
        shape = (Shape){.rank = p->shape.rank + 1, .extent = {steps}};
        for (int i = 0; i < p->shape.rank; i++)
            shape.extent[i + 1] = p->shape.extent[i];
    }
    if (p->source == ZEROS_)
        return graph_fill(g, 0, shape, F32);
    if (p->source == INDEX_)
        return make_input(g, s, shape, I32, -0.5, 4.5);
    int k = s->model.variable_count++;
    int64_t count = shape_count(&shape);
    s->model.variables[k] = (Variable){.name = format("w%d", k), .dtype = F32, .shape = shape, .trained = true};
    s->weights[k] = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++)
        s->weights[k][i] = draw(-0.8, 0.8);
    Node *w = graph_variable(g, k);
    return p->source == WEIGHT_ ? w : graph_binary(g, OP_MUL, w, make_input(g, s, shape, F32, 0.6, 1.4));
}

static int count_parts(const Part *p)
{
    int n = 0;
    while (n < PARTS && p[n].source != NOTHING)
        n++;
    return n;
}

/* step t's slice */
static Node *slice_of(Graph *g, Node *x, int64_t t)
{
    int64_t start[MAX_RANK] = {t}, count[MAX_RANK], by[MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        count[i] = i ? x->shape.extent[i] : 1;
        by[i] = 1;
    }
    return graph_reshape(g, graph_slice(g, x, start, count, by), shape_of(x->shape.rank - 1, x->shape.extent + 1));
}

static Node *as_slice(Graph *g, Node *x)
{
    Shape s = {.rank = x->shape.rank + 1, .extent = {1}};
    for (int i = 0; i < x->shape.rank; i++)
        s.extent[i + 1] = x->shape.extent[i];
    return graph_reshape(g, x, s);
}

typedef struct Parts {
    Node *carry[PARTS], *sequence[PARTS], *captured[PARTS];
    int carries, sequences;
} Parts;

static int write_out(Graph *g, const Case *c, const Parts *p, int64_t steps, bool reverse, Node **results)
{
    Node *now[PARTS], **stacks[PARTS];
    int count = 0;
    for (int i = 0; i < PARTS; i++) {
        now[i] = p->carry[i];
        stacks[i] = NEW_ARRAY(Node *, steps);
    }
    for (int64_t step = 0; step < steps; step++) {
        int64_t t = reverse ? steps - 1 - step : step;
        Step s = {.stacks = 0};
        for (int i = 0; i < PARTS; i++) {
            s.carry[i] = now[i];
            s.slice[i] = i < p->sequences ? slice_of(g, p->sequence[i], t) : NULL;
            s.captured[i] = p->captured[i];
        }
        c->step(g, &s);
        for (int i = 0; i < p->carries; i++)
            now[i] = s.next[i] ? s.next[i] : now[i];
        for (int i = 0; i < s.stacks; i++)
            stacks[i][t] = as_slice(g, s.stack[i]);
        count = s.stacks;
    }
    for (int i = 0; i < p->carries; i++)
        results[i] = now[i];
    for (int i = 0; i < count; i++)
        results[p->carries + i] = graph_concat(g, stacks[i], (int)steps, 0);
    return p->carries + count;
}

static int loop(Graph *g, const Case *c, const Parts *p, int64_t steps, bool reverse, Node **results)
{
    Graph *r = graph_open_body(g, c->name);
    Step s = {.stacks = 0};
    /* ARGs in no particular order, on purpose */
    for (int i = 0; i < p->sequences; i++)
        s.slice[i] = graph_scan_sequence(r, p->sequence[i]);
    for (int i = 0; i < PARTS; i++) {
        s.carry[i] = i < p->carries ? graph_scan_carry(r, p->carry[i], c->own) : NULL;
        s.captured[i] = p->captured[i];
    }
    c->step(r, &s);
    for (int i = 0; i < p->carries; i++)
        s.next[i] = s.next[i] ? s.next[i] : s.carry[i];
    Node *scan = graph_close_scan(r, steps, reverse, s.next, s.stack, s.stacks);
    for (int i = 0; i < p->carries + s.stacks; i++)
        results[i] = graph_scan_result(g, scan, i);
    return p->carries + s.stacks;
}

static Node *sum_all(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_sum(g, x, axes, x->shape.rank);
}

/* chosen: some samples have no loss */
static Graph *build(Setup *s, const Case *c, int64_t steps, bool reverse, bool chosen, bool written_out)
{
    *s = (Setup){.valid = s->valid};
    s->model.inputs = s->input_list;
    s->model.variables = s->variable_list;
    s->model.precision = F64;
    random_state = hash_bytes((uint64_t)steps, c->name, strlen(c->name));
    Graph *g = graph_new(&s->model, "train", NULL);
    Parts p = {.carries = count_parts(c->carry), .sequences = count_parts(c->sequence)};
    for (int i = 0; i < PARTS; i++) {
        p.carry[i] = c->carry[i].source ? make_part(g, s, &c->carry[i], 0) : NULL;
        p.sequence[i] = c->sequence[i].source ? make_part(g, s, &c->sequence[i], steps) : NULL;
        p.captured[i] = c->captured[i].source ? make_part(g, s, &c->captured[i], 0) : NULL;
    }
    Node *results[2 * PARTS], *choice = graph_binary(g, OP_LT, make_input(g, s, (Shape){0}, F32, -1, 1), number(g, 0.2));
    int count = (written_out ? write_out : loop)(g, c, &p, steps, reverse, results);
    for (int i = 0; i < count; i++) {
        Node *r = results[i];
        graph_result(g, ROLE_METRIC, format("result %d", i), i, r, NULL);
        Node *coefficient = make_input(g, s, r->shape, F32, -1, 1);
        if (c->unused >> i & 1)
            continue;
        Node *e = graph_cast(g, r, F32); /* curved, so that the gradient depends on the result */
        e = mul(g, mul(g, e, add(g, e, number(g, 1))), coefficient);
        e = sum_all(g, e);
        e = chosen ? graph_where(g, choice, e, number(g, 0)) : e;
        graph_result(g, ROLE_LOSS, format("loss %d", i), 0, e, NULL);
    }
    return g;
}

/* ---- what stages make of it */

static Graph *as_it_is(Graph *g) { return g; }

static Graph *apart_twice(Graph *g) { return hoist_loops(simplify(hoist_loops(simplify(g)))); }

static Graph *after_apart(Graph *g) { return simplify(differentiate(apart_twice(g))); }

static bool partial_batch; /* some samples are missing */

static Graph *after_all(Graph *g) /* as main.c has them */
{
    g = simplify(differentiate(simplify(hoist_loops(simplify(g)))));
    return distribute(specialise(choose_precision(distribute(simplify(g))), partial_batch));
}

static const struct Variant {
    const char *name;
    Graph *(*stage)(Graph *);
    Role role;
} VARIANTS[] = {
    {"as it is", as_it_is, ROLE_METRIC},
    {"simplified", simplify, ROLE_METRIC},
    {"apart", hoist_loops, ROLE_METRIC},
    {"apart twice, simplified", apart_twice, ROLE_METRIC},
    {"gradients", differentiate, ROLE_GRADIENT},
    {"gradients after loops", after_apart, ROLE_GRADIENT},
    {"gradients, all stages", after_all, ROLE_GRADIENT},
};

typedef struct Numbers {
    const char *name;
    int64_t count;
    double *value;
} Numbers;

/* the graph's results of a role, computed */
static int run(Graph *g, Setup *s, Role role, Numbers *out)
{
    Interpretation run = {.samples = SAMPLES, .leaf = give_leaf, .context = s};
    interpret(g, &run);
    int count = 0;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role != role)
            continue;
        int64_t each = shape_count(&r->value->shape);
        Numbers n = {r->name, SAMPLES * each, NEW_ARRAY(double, SAMPLES *each)};
        for (int64_t k = 0; k < n.count; k++)
            n.value[k] = run.values[r->value->id][r->value->has_samples ? k : k % each];
        out[count++] = n;
    }
    for (int i = 0; i < g->node_count; i++)
        free(run.values[i]);
    free(run.values);
    return count;
}

static const char *compare(const Numbers *a, int a_count, const Numbers *b, int b_count)
{
    if (a_count != b_count)
        return format("%d results, %d expected", b_count, a_count);
    for (int i = 0; i < a_count; i++) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].count != b[i].count)
            return format("'%s' of %lld numbers, '%s' of %lld expected", b[i].name, (long long)b[i].count, a[i].name,
                          (long long)a[i].count);
        double largest = 1;
        for (int64_t k = 0; k < a[i].count; k++)
            largest = fmax(largest, fabs(a[i].value[k]));
        for (int64_t k = 0; k < a[i].count; k++)
            if (!(fabs(a[i].value[k] - b[i].value[k]) <= 1e-10 * largest))
                return format("%s, element %lld: %.15g, %.15g expected", a[i].name, (long long)k, b[i].value[k], a[i].value[k]);
    }
    return NULL;
}

/* ---- what kernels are made of */

/* NULL, or what is wrong with a loop after all stages */
static const char *form_of(const Graph *g)
{
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool leaf = OP_INFO[n->op].op_class == LEAF && n->op != OP_ARG && n->op != OP_CONSTANT && n->op != OP_ARANGE;
        if (g->parent && leaf)
            return format("a body has %s", OP_INFO[n->op].name);
        if (g->parent && (node_sums_samples(n) || n->op == OP_GROUP_SUM || n->op == OP_STOP_GRADIENT))
            return format("a body has %s of samples", OP_INFO[n->op].name);
        if (n->op == OP_RESULT && n->has_samples != n->in[0]->has_samples)
            return "a loop has results of both kinds";
        const char *wrong = n->op == OP_SCAN ? form_of(n->body) : NULL;
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check(const Case *c, const struct Variant *v, int64_t steps, bool reverse, bool chosen, int valid)
{
    static Setup s;
    s.valid = valid;
    partial_batch = valid < SAMPLES;
    Numbers right[MOST], made[MOST];
    Graph *g = build(&s, c, steps, reverse, chosen, true);
    int right_count = run(v->role == ROLE_GRADIENT ? differentiate(g) : g, &s, v->role, right);
    g = v->stage(build(&s, c, steps, reverse, chosen, false));
    const char *wrong = v->stage == after_all ? form_of(g) : NULL;
    if (wrong)
        return wrong;
    return compare(right, right_count, made, run(g, &s, v->role, made));
}

/* ---- the language: the same text around a scan and around a for, which writes the steps out */

static const char *const BEFORE_LOOP = "model m {\n"
                                       "    input x: f32[4, 3]\n"
                                       "    input n: class(9)[4]\n"
                                       "    pair = [zeros([3]), x[0]]\n"
                                       "    count = 0\n    last = 0\n    any = false\n    h = ones([3])\n    k = 7\n";
static const char *const STEP = "        pair = [tanh(pair[1] + a), pair[0] * 2]\n"
                                "        for i in range(2) { h = sin(h + a * (i + 1)) }\n"
                                "        count = count + 1\n"
                                "        last = c\n"
                                "        any = any or sum(a) > 0.5\n"
                                "        seen = pair[0] * count\n"
                                "        both = [a, sum(h)]\n"
                                "        k = 5\n"
                                "        a = a * 3\n";
static const char *const BEHIND_LOOP = "    assert k == 5\n"
                                       "    output o1 = pair[0] + 10 * pair[1]\n"
                                       "    output o2 = h * count\n"
                                       "    output o3 = f32(last)\n"
                                       "    output o4 = f32(any)\n"
                                       "    output o5 = seens\n"
                                       "    output o6 = firsts\n"
                                       "    output o7 = seconds + a[1]\n"
                                       "    loss sum(h)\n"
                                       "}\n";

static int outputs_of(const char *text, Numbers *out)
{
    static Setup s;
    Source *source = NEW(Source);
    source->file = "a scan and a for";
    source->text = text;
    source->length = strlen(text);
    Model *m = elaborate(parse(source), &(Settings){0});
    random_state = 5;
    for (int k = 0; k < m->input_count; k++) {
        int64_t count = SAMPLES * shape_count(&m->inputs[k].shape);
        s.inputs[k] = NEW_ARRAY(double, count);
        for (int64_t i = 0; i < count; i++)
            s.inputs[k][i] = m->inputs[k].classes ? floor(draw(0, 9)) : draw(-1, 1);
    }
    s.valid = SAMPLES;
    return run(simplify(hoist_loops(simplify(m->eval))), &s, ROLE_OUTPUT, out);
}

static const char *with_texts(const char *pattern)
{
    const char *part[] = {BEFORE_LOOP, STEP, BEHIND_LOOP};
    Text t = {0};
    for (int k = 0; *pattern; pattern++)
        if (pattern[0] == '%' && pattern[1] == 's') {
            text_add(&t, "%s", part[k++]);
            pattern++;
        } else {
            text_add(&t, "%c", *pattern);
        }
    return copy_text(text_of(&t), t.length);
}

static int check_language(void)
{
    Numbers scan[MOST], written[MOST];
    const char *with_scan = "%s    scan a, c in x, n {\n%s    }\n"
                            "    seens = seen\n    firsts = both[0]\n    seconds = both[1]\n%s";
    const char *with_for = "%s    s = []\n    f = []\n    g = []\n"
                           "    for t in range(4) {\n        a = x[t]\n        c = n[t]\n%s"
                           "        s = s + [seen]\n        f = f + [both[0]]\n        g = g + [both[1]]\n    }\n"
                           "    seens = stack(s)\n    firsts = stack(f)\n    seconds = stack(g)\n%s";
    int count = outputs_of(with_texts(with_scan), scan), expected = outputs_of(with_texts(with_for), written);
    const char *wrong = compare(written, expected, scan, count);
    printf(wrong ? "not ok a scan in the language: %s\n" : "ok a scan in the language\n", wrong);
    return wrong != NULL;
}

int main(int argc, char **argv)
{
    int failed = check_language();
    for (int i = 0; i < COUNT(CASES); i++)
        for (int v = 0; v < COUNT(VARIANTS); v++) {
            const char *wrong = NULL;
            if (argc > 1 && strcmp(argv[1], CASES[i].name) != 0)
                continue;
            static const int64_t STEPS[] = {1, 2, 5};
            int mode = 0;
            for (; mode < 12 && !wrong; mode++)
                wrong = check(&CASES[i], &VARIANTS[v], STEPS[mode % 3], mode / 3 % 2, (mode + mode / 6) % 2,
                              mode / 6 ? SAMPLES - 1 : SAMPLES);
            if (wrong)
                printf("not ok %s, %s: mode %d: %s\n", CASES[i].name, VARIANTS[v].name, mode - 1, wrong);
            else
                printf("ok %s, %s\n", CASES[i].name, VARIANTS[v].name);
            failed += wrong != NULL;
        }
    return failed != 0;
}
