/* linear_test.c: node_is_linear against the interpreter: f(x) + f(y) = f(x + y), in every set of inputs that may be summed, and
 * in no other. An input that is not summed is the same in all three, a number or zero. A row of ops.def that is linear and has no
 * case fails. */
#include "compiler/ir/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 3, ROOM = 64 };

typedef struct Case {
    Op op;
    const char *name;
    int inputs;
    Shape shape[MOST];
    int int_count;
    int64_t ints[16];
    const char *text;
    double number;
    int zero;  /* bits: inputs that are zero unless they are summed */
    int index; /* bits: inputs that are no floats, and are never summed */
} Case;

/* clang-format off */
#define S(...) {.rank = COUNT(((int64_t[]){__VA_ARGS__})), .extent = {__VA_ARGS__}}
/* clang-format on */
#define INTS(...) .int_count = COUNT(((int64_t[]){__VA_ARGS__})), .ints = {__VA_ARGS__}
#define TWO .shape = {S(2, 3), S(2, 3)}

/* clang-format off */
static const Case CASES[] = {
    {OP_ADD, "a number", 2, TWO}, {OP_ADD, "zero", 2, TWO, .zero = 3}, {OP_SUB, "a number", 2, TWO}, {OP_SUB, "zero", 2, TWO, .zero = 2},
    {OP_MUL, "two", 2, TWO}, {OP_DIV, "two", 2, TWO}, {OP_POW, "two", 2, TWO}, {OP_MAXIMUM, "two", 2, TWO}, {OP_EXP, "one", 1, TWO},
    {OP_ABS, "one", 1, TWO}, {OP_CAST, "to f64", 1, TWO, INTS(F64)}, {OP_CAST, "to i32", 1, TWO, INTS(I32)},
    {OP_WHERE, "a number", 3, .shape = {S(2, 3), S(2, 3), S(2, 3)}, .index = 1},
    {OP_WHERE, "or zero", 3, .shape = {S(2, 3), S(2, 3), S(2, 3)}, .index = 1, .zero = 4},
    {OP_SUM, "an axis", 1, TWO, INTS(1)}, {OP_MAX, "an axis", 1, TWO, INTS(1)}, {OP_CUMSUM, "an axis", 1, TWO, INTS(1, 1)},
    {OP_EINSUM, "two", 2, .shape = {S(2, 3), S(3, 4)}, .text = "ab,bc->ac"},
    {OP_EINSUM, "three", 3, .shape = {S(2), S(3), S(2, 3)}, .text = "a,b,ab->ab"},
    {OP_CONVOLVE, "two", 2, .shape = {S(7, 2), S(3, 2, 3)}, INTS(1, 1, 0, 0, 1, 1, 1)},
    {OP_CONVOLVE_WEIGHT, "two", 2, .shape = {S(7, 2), S(5, 3)}, INTS(1, 1, 0, 0, 1, 1, 1, 3)},
    {OP_WINDOW_SUM, "an axis", 1, .shape = {S(7)}, INTS(3, 2, 0, 0)}, {OP_WINDOW_MAX, "an axis", 1, .shape = {S(7)}, INTS(3, 2, 0, 0)},
    {OP_WINDOW_SUM_GRADIENT, "an axis", 1, .shape = {S(3)}, INTS(3, 2, 0, 0, 7)},
    {OP_RESHAPE, "a matrix", 1, TWO, INTS(3, 2)}, {OP_TRANSPOSE, "a matrix", 1, TWO, INTS(1, 0)},
    {OP_SLICE, "backwards", 1, .shape = {S(5)}, INTS(4, 3, -2)}, {OP_UNSLICE, "steps", 1, .shape = {S(3)}, INTS(1, 2, 7)},
    {OP_CONCAT, "a number", 2, TWO, INTS(1)}, {OP_CONCAT, "zero", 2, TWO, INTS(1), .zero = 1},
    {OP_PAD, "by 0", 1, .shape = {S(4)}, INTS(1, 2)}, {OP_PAD, "by 1", 1, .shape = {S(4)}, INTS(1, 2), .number = 1},
    {OP_BROADCAST, "an axis", 1, .shape = {S(1, 3)}, INTS(2, 3)}, {OP_STOP_GRADIENT, "one", 1, TWO}, {OP_OWN, "one", 1, TWO},
    {OP_SCATTER_ADD, "into numbers", 3, .shape = {S(4, 2), S(3), S(3, 2)}, INTS(0), .index = 2},
    {OP_SCATTER_ADD, "into zeros", 3, .shape = {S(4, 2), S(3), S(3, 2)}, INTS(0), .index = 2, .zero = 1},
    {OP_INDEX_COPY, "into numbers", 3, .shape = {S(4, 2), S(1), S(1, 2)}, INTS(0), .index = 2},
    {OP_INDEX_COPY, "into zeros", 3, .shape = {S(4, 2), S(1), S(1, 2)}, INTS(0), .index = 2, .zero = 1},
};
/* clang-format on */

static double values[MOST][ROOM]; /* of the variables: x, then y, then their sum */

static bool give_leaf(void *context, const Node *n, double *out, int64_t count)
{
    (void)context;
    if (n->op == OP_VARIABLE)
        memcpy(out, values[n->ints[0]], (size_t)count * sizeof *out);
    return n->op == OP_VARIABLE;
}

static uint64_t random_state = 1;
static double random_number(void) /* far from 0: there are divisions */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    double size = 0.5 + (double)(random_state >> 11) * 0x1p-53;
    return random_state >> 10 & 1 ? -size : size;
}

static Node *build(Graph *g, const Case *c, Node **in)
{
    Node like = {.op = c->op,
                 .in = in,
                 .inputs = c->inputs,
                 .ints = (int64_t *)(uintptr_t)c->ints,
                 .int_count = c->int_count,
                 .text = c->text};
    if (c->op == OP_PAD)
        like.data = (double *)(uintptr_t)&c->number, like.data_count = 1;
    return graph_make(g, &like, false);
}

/* the node as a function: its largest difference from linear in the inputs `summed`; node_is_linear's word in *says */
static double difference(const Case *c, int summed, bool *says)
{
    Variable variables[MOST] = {{0}};
    Model model = {.variables = variables, .variable_count = c->inputs, .precision = F64};
    Graph *g = graph_new(&model, "train", NULL);
    Node *in[MOST];
    bool along[MOST];
    for (int k = 0; k < c->inputs; k++) {
        along[k] = summed >> k & 1;
        bool whole = (c->op == OP_SCATTER_ADD || c->op == OP_INDEX_COPY) && (c->index >> k & 1),
             chosen = c->op == OP_WHERE && k == 0;
        variables[k] = (Variable){.name = format("v%d", k), .dtype = whole ? I32 : chosen ? BOOL : F64, .shape = c->shape[k]};
        in[k] = (c->zero & ~summed) >> k & 1 ? graph_fill(g, 0, c->shape[k], F64) : graph_variable(g, k);
    }
    Node *n = build(g, c, in);
    *says = node_is_linear(n, n->in, along);
    double x[MOST][ROOM], results[3][ROOM], worst = 0;
    int64_t count = shape_count(&n->shape);
    for (int run = 0; run < 3; run++) {
        for (int k = 0; k < c->inputs; k++)
            for (int64_t i = 0; i < shape_count(&c->shape[k]); i++) {
                double number = variables[k].dtype == F64 ? random_number() : (double)(i % 2);
                if (run == 0)
                    values[k][i] = number;
                else if (run == 1 && along[k])
                    x[k][i] = values[k][i], values[k][i] = number;
                else if (along[k])
                    values[k][i] += x[k][i];
            }
        Interpretation once = {.samples = 1, .exact = true, .leaf = give_leaf};
        interpret(g, &once);
        memcpy(results[run], once.values[n->id], (size_t)count * sizeof(double));
    }
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(results[0][i] + results[1][i] - results[2][i]));
    return worst;
}

int main(void)
{
    int failed = 0;
    for (int op = 0; op < OPS; op++) {
        bool ever = false, wrong = false;
        int cases = 0;
        for (int i = 0; i < COUNT(CASES); i++)
            for (int summed = 1; summed < 1 << CASES[i].inputs && (int)CASES[i].op == op; summed++) {
                const Case *c = &CASES[i];
                bool says;
                if (summed & c->index)
                    continue;
                double off = difference(c, summed, &says);
                cases++;
                ever = ever || says;
                if (says != (off < 1e-12)) {
                    printf("not ok linear: %s, %s, inputs %d: it is off by %g and is said %sto be linear\n", OP_INFO[op].name,
                           c->name, summed, off, says ? "" : "not ");
                    wrong = true;
                }
            }
        if (OP_INFO[op].linear != NOT_LINEAR && !ever) {
            printf("not ok linear: %s: its row says so, and no case shows it\n", OP_INFO[op].name);
            wrong = true;
        }
        if (cases && !wrong)
            printf("ok linear: %s, %d ways\n", OP_INFO[op].name, cases);
        failed += wrong;
    }
    return failed > 0;
}
