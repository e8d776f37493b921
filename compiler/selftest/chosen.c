/* chosen.c: graphs that compilers have computed wrongly (compiler/link/compiler_bugs.c), so that they are tested whatever the
 * seed. */
#include "compiler/selftest/cases.h"

static Node *number(Graph *g, double v, Dtype t) { return graph_number(g, v, t); }

static void update(Graph *g, Node *n)
{
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, n->dtype, n->shape)->ints[0], n, NULL);
}

/* Makes constants of every type that begin with ones and go on with zeros: stored unchanged, as the start of a loop, and as its
 * gradient. */
static Graph *constants(Dtype real)
{
    static const Dtype TYPES[] = {F64, F32, I64, I32, U16, U8};
    static const int64_t LENGTH[] = {6, 12, 7, 9, 19, 33}, ONES[] = {2, 4, 3, 5, 4, 9};
    Graph *g = new_graph(new_model(0));
    Node *x = new_input(g, real, SHAPE(12), 0);
    double data[33];
    for (int t = 0; t < COUNT(TYPES); t++)
        for (int k = 0; k < COUNT(LENGTH); k++) {
            for (int64_t i = 0; i < LENGTH[k]; i++)
                data[i] = i < ONES[k];
            update(g, graph_constant(g, data, SHAPE(LENGTH[k]), TYPES[t]));
        }
    for (int i = 0; i < 12; i++)
        data[i] = i < 4;
    Node *mask = graph_constant(g, data, SHAPE(12), real);
    Graph *b = graph_open_body(g, "steps");
    Node *h = graph_scan_carry(b, mask, true), *inside = graph_capture(b, mask), *xt = graph_capture(b, x);
    Node *next = graph_binary(b, OP_ADD, graph_binary(b, OP_MUL, h, number(b, 0.5, real)), graph_binary(b, OP_MUL, xt, inside));
    Node *stack[] = {next, inside};
    Node *scan = graph_close_scan(b, 3, true, &next, stack, 2);
    for (int i = 0; i < 3; i++)
        graph_result(g, ROLE_OUTPUT, format("y%d", i), 0, graph_scan_result(g, scan, i), NULL);
    graph_result(g, ROLE_OUTPUT, "masked", 0,
                 graph_where(g, graph_binary(g, OP_LT, number(g, 0, real), mask), x, number(g, 0, real)), NULL);
    return g;
}

/* Makes the gradients of concat([a exp(b), b]) for a and b, which are halves of a dense layer's result, and of the layer's bias:
 * each half is 0 in the other one. */
static Graph *multiply_adds(Dtype real)
{
    enum { D_LOW, D_HIGH, Y, BIAS, E, LEAVES };
    Graph *g = new_graph(new_model(0));
    for (int64_t half = 3; half <= 11; half += 4) {
        int64_t zero = 0, one = 1;
        Node *d = new_input(g, real, SHAPE(2 * half), 0), *y = new_input(g, real, SHAPE(2 * half), 0),
             *bias = new_variable(g, real, SHAPE(2 * half));
        Node *leaf[LEAVES] = {[E] = new_input(g, real, SHAPE(half), 0)}, *high[LEAVES];
        leaf[D_LOW] = graph_slice(g, d, &zero, &half, &one);
        leaf[D_HIGH] = graph_slice(g, d, &half, &half, &one);
        leaf[Y] = graph_slice(g, y, &zero, &half, &one);
        leaf[BIAS] = graph_slice(g, bias, &zero, &half, &one);
        for (int i = 0; i < LEAVES; i++)
            high[i] = graph_pad(g, leaf[i], &half, &zero, 0);
        Node *a = graph_binary(g, OP_MUL, graph_pad(g, leaf[D_LOW], &zero, &half, 0), graph_pad(g, leaf[E], &zero, &half, 0));
        Node *product = graph_binary(g, OP_MUL, high[D_LOW], graph_binary(g, OP_ADD, high[Y], high[BIAS]));
        Node *b = graph_binary(g, OP_ADD, high[D_HIGH], graph_binary(g, OP_MUL, product, high[E]));
        Node *inside = graph_binary(g, OP_LT, graph_arange(g, 2 * half), graph_number(g, (double)half, I32));
        Node *joined = graph_where(g, inside, a, b);
        graph_result(g, ROLE_OUTPUT, format("joined%d", (int)half), 0, joined, NULL);
        update(g, graph_sum_samples(g, joined, NULL, 0));
    }
    return g;
}

/* Makes maxima, sums and conditional sums of the same rows, of several lengths, and sums in a type of another size. */
static Graph *several_reductions(Dtype real)
{
    static const int64_t LENGTH[] = {2, 7, 10, 17, 24, 33, 70};
    const Dtype other = real == F64 ? F32 : F64;
    Graph *g = new_graph(new_model(0));
    for (int i = 0; i < COUNT(LENGTH); i++) {
        int64_t n = LENGTH[i];
        Node *z = new_input(g, real, SHAPE(n), 0), *label = new_input(g, U8, SCALAR, n), *zero = number(g, 0, real);
        Node *hot = graph_binary(g, OP_EQ, graph_cast(g, label, I32), graph_arange(g, n));
        Node *above = graph_binary(g, OP_LT, zero, z), *tripled = graph_binary(g, OP_MUL, z, number(g, 3, real));
        Node *sums[] = {graph_binary(g, OP_MUL, z, z), graph_where(g, above, tripled, zero), graph_where(g, above, zero, z),
                        graph_where(g, hot, z, zero)};
        Node *most[] = {graph_where(g, above, z, zero), graph_where(g, hot, z, number(g, -1, real))};
        for (int k = 0; k < COUNT(sums); k++)
            graph_result(g, ROLE_OUTPUT, format("sum%d_%d", i, k), 0, graph_sum(g, graph_cast(g, sums[k], other), (int[]){0}, 1),
                         NULL);
        for (int k = 0; k < COUNT(most); k++)
            graph_result(g, ROLE_OUTPUT, format("most%d_%d", i, k), 0, graph_max(g, most[k], (int[]){0}, 1), NULL);
        z = new_input(g, real, SHAPE(n), 0);
        Node *highest = graph_max(g, z, (int[]){0}, 1);
        Node *below = graph_binary(g, OP_SUB, z, graph_broadcast(g, highest, SHAPE(n)));
        Node *sum = graph_sum(g, graph_unary(g, OP_EXP, below), (int[]){0}, 1);
        Node *chosen = graph_sum(g, graph_where(g, hot, below, zero), (int[]){0}, 1);
        graph_result(g, ROLE_OUTPUT, format("loss%d", i), 0, graph_binary(g, OP_SUB, graph_unary(g, OP_LOG, sum), chosen), NULL);
    }
    return g;
}

/* Adds rows at the places 0 .. n + 1 of n: those beyond the end are left out, and nothing beyond it may be read. */
static Graph *places_beyond(Dtype real)
{
    Graph *g = new_graph(new_model(0));
    for (int64_t n = 5; n <= 17; n += 6) {
        Node *x = new_input(g, real, SHAPE(n), 0), *at = graph_arange(g, n + 2);
        Node *row = graph_unary(g, OP_TANH, graph_node(g, OP_GATHER, (Node *[]){x, at}, 2, (int64_t[]){0}, 1, NULL));
        Node *sum = graph_node(g, OP_SCATTER_ADD, (Node *[]){x, at, row}, 3, (int64_t[]){0}, 1, NULL);
        graph_result(g, ROLE_OUTPUT, format("sum%d", (int)n), 0, sum, NULL);
    }
    return g;
}

const ChosenGraph CHOSEN_GRAPHS[] = {{"constants", constants},
                                     {"multiply-adds under conditions", multiply_adds},
                                     {"several reductions of a row", several_reductions},
                                     {"places beyond the end", places_beyond}};
const int CHOSEN_GRAPH_COUNT = COUNT(CHOSEN_GRAPHS);
