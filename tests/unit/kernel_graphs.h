/* kernel_graphs.h: the graphs whose kernels are compared with the interpreter: chosen ones, and random ones
 * (compiler/selftest). */
#ifndef KERNEL_GRAPHS_H
#define KERNEL_GRAPHS_H

#include "kernel_machine.h"

static int64_t model_batch; /* that the next model says; 0: none */
static bool in_brief;       /* without what takes long on virtual GPUs, and what the host runs there: cuda_emit_test */

/* ---- chosen graphs */

static Node *bounded(Graph *g, Node *n) { return graph_unary(g, OP_TANH, n); }

/* dense layers, cross-entropy and its gradient, momentum: what a training step looks like */
static Graph *perceptron(int depth, int64_t width, Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = graph_cast(g, new_input(g, U8, SHAPE(width), 0), t);
    Node *label = new_input(g, U8, SCALAR, 10), *scale = graph_number(g, 1.0 / 255, t);
    Node *w[1100], *b[1100], *h[1100], *z[1100];
    h[0] = graph_binary(g, OP_MUL, x, scale);
    for (int i = 0; i < depth; i++) {
        int64_t out = i == depth - 1 ? 10 : width;
        w[i] = new_variable(g, t, SHAPE(out, width));
        b[i] = new_variable(g, t, SHAPE(out));
        Node *in[2] = {h[i], w[i]};
        z[i] = graph_binary(g, OP_ADD, graph_einsum(g, "i,oi->o", in, 2, false), b[i]);
        Node *zero = graph_number(g, 0, t);
        h[i + 1] = i == depth - 1 ? z[i] : graph_where(g, graph_binary(g, OP_LE, z[i], zero), zero, z[i]);
    }
    Node *logits = h[depth], *most = graph_broadcast(g, graph_max(g, logits, (int[]){0}, 1), SHAPE(10));
    Node *e = graph_unary(g, OP_EXP, graph_binary(g, OP_SUB, logits, most));
    Node *sum = graph_sum(g, e, (int[]){0}, 1);
    Node *hot = graph_binary(g, OP_EQ, graph_cast(g, label, I32), graph_arange(g, 10));
    Node *log_p = graph_binary(g, OP_SUB, graph_binary(g, OP_SUB, logits, most), graph_unary(g, OP_LOG, sum));
    Node *loss = graph_negate(g, graph_sum(g, graph_where(g, hot, log_p, graph_number(g, 0, t)), (int[]){0}, 1));
    Node *total = graph_reduce(g, sum_everything(g, select_valid(g, loss)));
    graph_result(g, ROLE_REPORT, "loss", 0, graph_cast(g, total, F64), NULL);
    g->backward = true;
    Node *d = graph_binary(g, OP_SUB, graph_binary(g, OP_DIV, e, graph_broadcast(g, sum, SHAPE(10))), graph_cast(g, hot, t));
    d = graph_binary(g, OP_MUL, graph_where(g, graph_valid(g), d, graph_number(g, 0, t)), graph_number(g, 0.01, t));
    for (int i = depth - 1; i >= 0; i--) {
        Node *pair[2] = {d, h[i]}, *back[2] = {d, w[i]};
        Node *dw = graph_einsum(g, "o,i->oi", pair, 2, true), *db = graph_sum_samples(g, d, NULL, 0);
        if (i > 0) {
            Node *dh = graph_einsum(g, "o,oi->i", back, 2, false), *zero = graph_number(g, 0, t);
            d = graph_where(g, graph_binary(g, OP_LE, z[i - 1], zero), zero, dh);
        }
        g->backward = false;
        Node *gradients[2] = {graph_reduce(g, dw), graph_reduce(g, db)}, *weights[2] = {w[i], b[i]};
        for (int k = 0; k < 2; k++) {
            Node *v = new_variable(g, t, weights[k]->shape);
            Node *next = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, v, graph_number(g, 0.9, t)), gradients[k]);
            Node *rate = graph_strong(g, graph_binary(g, OP_MUL, graph_weak(g, 0.1), graph_run(g, RUN_PROGRESS, 0)), t);
            Node *step = graph_binary(g, OP_MUL, next, rate);
            graph_result(g, ROLE_UPDATE, NULL, (int)v->ints[0], next, NULL);
            graph_result(g, ROLE_UPDATE, NULL, (int)weights[k]->ints[0], graph_binary(g, OP_SUB, weights[k], step), NULL);
        }
        g->backward = true;
    }
    g->backward = false;
    return g;
}

/* two variables swap their values; a third is shifted by one: no update may spoil what another still reads */
static Graph *swaps(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *a = new_variable(g, F64, SHAPE(3, 4)), *b = new_variable(g, F64, SHAPE(3, 4)), *c = new_variable(g, F64, SHAPE(7));
    graph_result(g, ROLE_UPDATE, NULL, 0, b, NULL);
    graph_result(g, ROLE_UPDATE, NULL, 1, a, NULL);
    int64_t one = 1, six = 6, zero = 0;
    Node *parts[2] = {graph_slice(g, c, &one, &six, &one), graph_slice(g, c, &zero, &one, &one)};
    graph_result(g, ROLE_UPDATE, NULL, 2, graph_concat(g, parts, 2, 0), NULL);
    Node *s = graph_sum(g, graph_binary(g, OP_MUL, a, b), (int[]){0, 1}, 2);
    graph_result(g, ROLE_REPORT, "s", 0, s, NULL);
    return g;
}

/* empty tensors, numbers, one element */
static Graph *edges(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(0, 3), 0), *y = new_input(g, F64, SCALAR, 0);
    Node *s = graph_sum(g, x, (int[]){0}, 1);
    graph_result(g, ROLE_OUTPUT, "a", 0, graph_binary(g, OP_ADD, s, y), NULL);
    graph_result(g, ROLE_OUTPUT, "b", 0, graph_unary(g, OP_EXP, x), NULL);
    graph_result(g, ROLE_REPORT, "total", 0, sum_everything(g, select_valid(g, y)), NULL);
    graph_result(g, ROLE_REPORT, "constant", 0, graph_number(g, 0.1, F64), NULL);
    return g;
}

/* whole numbers of every width */
static Graph *whole_numbers(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(11), 0);
    Node *big = graph_binary(g, OP_MUL, x, graph_number(g, 300, F64));
    for (int t = U8; t <= I64; t++) {
        Node *i = graph_cast(g, big, (Dtype)t), *j = graph_cast(g, graph_binary(g, OP_MUL, x, graph_number(g, 7, F64)), (Dtype)t);
        Node *sum = graph_binary(g, OP_SUB, graph_binary(g, OP_MUL, i, j), j);
        graph_result(g, ROLE_OUTPUT, format("a%d", t), 0, graph_cast(g, sum, F64), NULL);
        graph_result(g, ROLE_OUTPUT, format("b%d", t), 0, graph_cast(g, graph_binary(g, OP_MOD, i, j), F64), NULL);
        graph_result(g, ROLE_OUTPUT, format("q%d", t), 0, graph_binary(g, OP_QUOTIENT, i, j), NULL);
        graph_result(g, ROLE_OUTPUT, format("e%d", t), 0, graph_binary(g, OP_QUOTIENT, i, graph_weak(g, 3)), NULL);
        graph_result(g, ROLE_OUTPUT, format("c%d", t), 0, graph_binary(g, OP_MAXIMUM, i, j), NULL);
        static const Op BITS[] = {OP_BIT_AND, OP_BIT_OR, OP_BIT_XOR, OP_SHIFT_LEFT, OP_SHIFT_RIGHT};
        for (int k = 0; k < COUNT(BITS); k++) { /* and in the middle of an expression, in 64 bits */
            Node *b = graph_binary(g, BITS[k], i, j), *wide = graph_cast(g, graph_unary(g, OP_BIT_NOT, b), I64);
            graph_result(g, ROLE_OUTPUT, format("%s%d", OP_INFO[BITS[k]].name, t), 0, b, NULL);
            graph_result(g, ROLE_OUTPUT, format("not_%s%d", OP_INFO[BITS[k]].name, t), 0,
                         graph_binary(g, OP_BIT_XOR, wide, graph_cast(g, j, I64)), NULL);
        }
        graph_result(g, ROLE_OUTPUT, format("d%d", t), 0, graph_sum(g, graph_unary(g, OP_ABS, i), (int[]){0}, 1), NULL);
    }
    graph_result(g, ROLE_OUTPUT, "bool", 0, graph_cast(g, graph_cast(g, graph_unary(g, OP_FLOOR, x), BOOL), F64), NULL);
    Node *a = new_input(g, I32, SHAPE(64), 50), *b = new_input(g, I32, SHAPE(64), 50), *c = new_input(g, I32, SHAPE(64), 50);
    for (int k = 0; k < 18; k++) { /* operations on bits, each inside each, on both sides */
        static const Op BITS[] = {OP_BIT_AND, OP_BIT_OR, OP_BIT_XOR};
        Node *inner = graph_binary(g, BITS[k % 3], graph_binary(g, OP_ADD, a, graph_weak(g, k)), b);
        graph_result(g, ROLE_OUTPUT, format("bits_%d", k), 0,
                     k < 9 ? graph_binary(g, BITS[k / 3], inner, c) : graph_binary(g, BITS[k / 3 - 3], c, inner), NULL);
    }
    return g;
}

/* what workers share in each of the ways: large enough to be worth it */
static Graph *shared_work(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(30, 24), 0), *i = new_input(g, I32, SHAPE(6), 50);
    Node *w = new_variable(g, F64, SHAPE(90, 100)), *v = new_variable(g, F64, SHAPE(3, 4096)),
         *table = new_variable(g, F64, SHAPE(50, 24));
    Node *wide = new_variable(g, F64, SHAPE(70000)), *y = graph_cast(g, new_input(g, U8, SHAPE(70000), 0), F64);
    /* range: element-wise, transposed, rows, a norm */
    graph_result(g, ROLE_UPDATE, NULL, (int)w->ints[0], graph_binary(g, OP_ADD, w, graph_number(g, 1, F64)), NULL);
    Node *turned = graph_transpose(g, bounded(g, w), (int[]){1, 0}), *square = graph_binary(g, OP_MUL, w, w);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(100, 90))->ints[0], turned, NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(90))->ints[0], graph_sum(g, square, (int[]){1}, 1), NULL);
    graph_result(g, ROLE_REPORT, "norm", 0, graph_unary(g, OP_SQRT, graph_sum(g, square, (int[]){0, 1}, 2)), NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(3))->ints[0], graph_sum(g, bounded(g, v), (int[]){1}, 1),
                 NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(3))->ints[0], graph_max(g, v, (int[]){1}, 1), NULL);
    Node *draws = graph_cast(g, graph_random(g, SHAPE(5, 4096), "draws", false), F64);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(5, 4096))->ints[0], draws, NULL);
    Node *parts[2] = {w, graph_transpose(g, turned, (int[]){1, 0})};
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(90, 200))->ints[0], graph_concat(g, parts, 2, 1), NULL);
    /* samples: sums in a pass with a store, with few and with very many results */
    Node *valid = select_valid(g, bounded(g, x));
    graph_result(g, ROLE_OUTPUT, "valid", 0, valid, NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(24))->ints[0], graph_sum_samples(g, valid, (int[]){0}, 1),
                 NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(30))->ints[0], graph_sum_samples(g, valid, (int[]){1}, 1),
                 NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)wide->ints[0],
                 graph_binary(g, OP_ADD, wide, graph_sum_samples(g, select_valid(g, y), NULL, 0)), NULL);
    /* groups of samples, and all of them; a table that samples add to */
    graph_result(g, ROLE_OUTPUT, "pairs", 0, graph_group_sum(g, valid, 2), NULL);
    graph_result(g, ROLE_OUTPUT, "all", 0, graph_group_sum(g, valid, 0), NULL);
    int64_t zero = 0;
    Node *rows = NODE(g, OP_GATHER, &zero, 1, NULL, table, i), *grown = graph_binary(g, OP_MUL, rows, graph_number(g, 3, F64));
    Node *scattered = graph_scatter_add(g, table, i, select_valid(g, grown), 0, true);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(50, 24))->ints[0], scattered, NULL);
    Node *columns = new_variable(g, F64, SHAPE(24, 50));
    Node *sideways = graph_scatter_add(g, columns, i, graph_transpose(g, select_valid(g, grown), (int[]){1, 0}), 1, true);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(24, 50))->ints[0], sideways, NULL);
    return g;
}

/* as the gradient of pooling with few channels: what is loaded in one piece is stored in runs of six, and summed */
static Graph *spread_lanes(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(7, 6), 0), *factor = new_variable(g, F64, SHAPE(2));
    Node *wide = graph_broadcast(g, graph_reshape(g, x, SHAPE(7, 1, 6)), SHAPE(7, 2, 6));
    Node *factors = graph_broadcast(g, graph_reshape(g, factor, SHAPE(1, 2, 1)), SHAPE(7, 2, 6));
    Node *spread = select_valid(g, graph_binary(g, OP_MUL, wide, factors));
    graph_result(g, ROLE_OUTPUT, "spread", 0, spread, NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(6))->ints[0],
                 graph_sum_samples(g, spread, (int[]){0, 1}, 2), NULL);
    return g;
}

static Node *plain_variable(Graph *g, Shape shape)
{
    Node *v = new_variable(g, F64, shape);
    for (int i = 0; i < shape.rank; i++)
        g->model->variables[v->ints[0]].order[i] = i;
    return v;
}

static Node *index_copy(Graph *g, int64_t axis, Node *x, Node *i, Node *v)
{
    return NODE(g, OP_INDEX_COPY, &axis, 1, NULL, x, i, v);
}

/* Rows that are replaced in variables: where they are, if only the new value is read, else in a copy. One of the indices j and i
 * is usually outside. What reads the value of `old` before the step needs the new one, too, so that it runs after the
 * replacement. */
static Graph *replaced_rows(int64_t rows)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(24), 0), *w = new_variable(g, F64, SHAPE(24)), *place = new_variable(g, F64, SHAPE(1));
    Node *table = plain_variable(g, SHAPE(rows, 24)), *sideways = plain_variable(g, SHAPE(24, 5)),
         *old = plain_variable(g, SHAPE(rows, 24));
    Node *number = graph_unary(g, OP_FLOOR, graph_binary(g, OP_MUL, bounded(g, place), graph_number(g, 6, F64)));
    Node *i = graph_cast(g, number, I32), *j = graph_negate(g, i), *row = graph_reshape(g, bounded(g, w), SHAPE(1, 24));
    Node *most = NULL;
    for (int k = 0; k < 2; k++) {
        Node *after = index_copy(g, 0, k ? old : table, k ? graph_unary(g, OP_ABS, i) : j, row), *pair[2] = {x, after};
        graph_result(g, ROLE_UPDATE, NULL, (int)(k ? old : table)->ints[0], after, NULL);
        graph_result(g, ROLE_OUTPUT, format("row%d", k), 0, graph_einsum(g, "c,rc->r", pair, 2, false), NULL);
        most = graph_max(g, after, (int[]){0}, 1);
        graph_result(g, ROLE_OUTPUT, format("most%d", k), 0, graph_binary(g, OP_MUL, x, most), NULL);
    }
    Node *change = graph_binary(g, OP_SUB, old, graph_broadcast(g, graph_reshape(g, most, SHAPE(1, 24)), SHAPE(rows, 24)));
    graph_result(g, ROLE_OUTPUT, "old", 0, graph_binary(g, OP_MUL, x, graph_sum(g, change, (int[]){0}, 1)), NULL);
    Node *column = index_copy(g, 1, sideways, graph_reshape(g, i, SCALAR), bounded(g, w));
    graph_result(g, ROLE_UPDATE, NULL, (int)sideways->ints[0], column, NULL);
    graph_result(g, ROLE_OUTPUT, "column", 0, graph_binary(g, OP_MUL, x, graph_sum(g, column, (int[]){1}, 1)), NULL);
    Node *own = new_input(g, I32, SHAPE(1), 9), *parts = graph_reshape(g, x, SHAPE(6, 4));
    Node *first = graph_slice(g, parts, (int64_t[]){0, 0}, (int64_t[]){1, 4}, (int64_t[]){1, 1});
    graph_result(g, ROLE_OUTPUT, "samples", 0, index_copy(g, 0, parts, own, bounded(g, first)), NULL);
    return g;
}

/* values between 1 and 2 in bf16: they are rounded once, where they are stored */
static Graph *halves(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, BF16, SHAPE(40, 33), 0), *w = new_variable(g, BF16, SHAPE(33)),
         *table = new_variable(g, BF16, SHAPE(9, 33));
    Node *y = graph_unary(g, OP_COS, graph_binary(g, OP_ADD, x, graph_broadcast(g, w, SHAPE(40, 33))));
    graph_result(g, ROLE_OUTPUT, "y", 0, y, NULL);
    graph_result(g, ROLE_OUTPUT, "exact", 0, x, NULL);
    graph_result(g, ROLE_OUTPUT, "wide", 0, graph_cast(g, graph_max(g, y, (int[]){0}, 1), F64), NULL);
    Node *mean = graph_binary(g, OP_MUL, graph_sum_samples(g, select_valid(g, graph_cast(g, y, F32)), (int[]){0}, 1),
                              graph_number(g, 0.005, F32));
    graph_result(g, ROLE_UPDATE, NULL, (int)w->ints[0], graph_cast(g, mean, BF16), NULL);
    Node *few = graph_sum(g, y, (int[]){1}, 1);
    graph_result(g, ROLE_OUTPUT, "few", 0, graph_binary(g, OP_MUL, few, graph_number(g, 0.03125, BF16)), NULL);
    Node *i = new_input(g, I32, SHAPE(1), 9);
    int64_t zero = 0, one[2] = {1, 33}, start[2] = {0, 0}, step[2] = {1, 1};
    Node *row = graph_slice(g, x, start, one, step);
    graph_result(g, ROLE_OUTPUT, "rows", 0, graph_scatter_add(g, table, i, row, (int)zero, false), NULL);
    return g;
}

#include "kernel_rows.h"

/* returns how many are chosen; they come before the random ones */
static int add_cases(int random_graphs)
{
    int before = case_count;
    seed_random(1);
    add_case("swapped variables", swaps());
    add_case("empty tensors", edges());
    add_case("whole numbers", whole_numbers());
    add_case("a perceptron's step", perceptron(3, 12, F64));
    add_case("work that workers share", shared_work());
    add_case("stores in runs", spread_lanes());
    add_case("replaced rows", replaced_rows(7));
    add_case("bf16", halves());
    cases[case_count - 1].tolerance = 0x1p-8;
    if (!in_brief) /* kernels of the host */
        add_case("rows of all shapes", row_shapes());
    add_case("rows of all types", row_types());
    cases[case_count - 1].tolerance = 0x1p-22;
    add_case("sums into rows", row_sums());
    cases[case_count - 1].tolerance = 1e-5;
    cases[case_count - 1].same_bits = true;
    int chosen = case_count - before;
    for (int i = 0; i < random_graphs; i++)
        add_random_case(format("random graph %d", i), random_graph(i, in_brief || i % 4 ? F64 : F32),
                        in_brief || i % 4 ? F64 : F32);
    return chosen;
}
#endif
