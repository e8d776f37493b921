/* cuda_graphs.h: graphs for every way in which threads of a GPU share a nest, large enough that they do. */
#ifndef CUDA_GRAPHS_H
#define CUDA_GRAPHS_H

#include "kernel_graphs.h"

static void add_output(Graph *g, Node *n)
{
    if (n->has_samples)
        graph_result(g, ROLE_OUTPUT, format("y%d", g->result_count), 0, n, NULL);
    else
        graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, n->dtype, n->shape)->ints[0], n, NULL);
}

/* softmax, its logarithm's sum, the first maximum along an axis, and the term at a place that may be far beyond its end */
static void add_softmax(Graph *g, Node *x, int axis)
{
    Shape kept = x->shape;
    kept.extent[axis] = 1;
    Node *most = graph_broadcast(g, graph_reshape(g, graph_max(g, x, &axis, 1), kept), x->shape);
    Node *e = graph_unary(g, OP_EXP, graph_binary(g, OP_SUB, x, most)), *sum = graph_sum(g, e, &axis, 1);
    add_output(g, graph_binary(g, OP_DIV, e, graph_broadcast(g, graph_reshape(g, sum, kept), x->shape)));
    add_output(g, graph_unary(g, OP_LOG, sum));
    int64_t along = axis;
    add_output(g, NODE(g, OP_ARGMAX, &along, 1, NULL, x));
    int64_t extent = x->shape.extent[axis];
    Shape row = {.rank = x->shape.rank};
    for (int i = 0; i < row.rank; i++)
        row.extent[i] = i == axis ? extent : 1;
    Node *drawn = graph_cast(g, new_input(g, U16, kept, extent + 2), I32), *far = graph_number(g, 2e9, I32);
    Node *place = graph_broadcast(
        g, graph_where(g, graph_binary(g, OP_LT, drawn, graph_number(g, (double)extent, I32)), drawn, far), x->shape);
    Node *number = graph_broadcast(g, graph_reshape(g, graph_arange(g, extent), row), x->shape),
         *less = graph_binary(g, OP_SUB, x, most);
    add_output(g,
               graph_sum(g, graph_where(g, graph_binary(g, OP_EQ, place, number), less, graph_number(g, 0, x->dtype)), &axis, 1));
}

static Graph *long_rows(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t LENGTHS[] = {3, 10, 33, 96, 190, 384, 1000, 5002};
    for (int i = 0; i < COUNT(LENGTHS); i++) {
        add_softmax(g, new_input(g, t, SHAPE(3, LENGTHS[i]), 0), 1);
        if (LENGTHS[i] % 2 == 0)
            add_softmax(g, new_variable(g, t, SHAPE(LENGTHS[i] > 1000 ? 2 : 70, LENGTHS[i])), 1);
    }
    /* elements that are -infinity: some, all that most threads have, all of a row */
    enum { MASKED = 8208, SEEN = 300 };
    Node *x = new_input(g, t, SHAPE(1, MASKED), 0), *none = graph_number(g, -INFINITY, t);
    Node *late =
        graph_reshape(g, graph_binary(g, OP_LT, graph_number(g, MASKED - SEEN, I32), graph_arange(g, MASKED)), SHAPE(1, MASKED));
    for (int i = 0; i < 2; i++) {
        Node *seen = graph_binary(g, OP_LT, graph_number(g, i ? 0.2 : 1.2, t), x);
        add_softmax(g, graph_where(g, late, graph_where(g, seen, x, none), none), 1);
    }
    return g;
}

static Graph *long_columns(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t SIDES[][2] = {{5, 3}, {40, 7}, {33, 130}, {600, 5}, {18, 1000}, {3000, 1}};
    for (int i = 0; i < COUNT(SIDES); i++) {
        Node *x = new_input(g, t, SHAPE(SIDES[i][0], SIDES[i][1]), 0);
        add_softmax(g, x, 0);
        add_softmax(g, new_variable(g, t, SHAPE(SIDES[i][0], SIDES[i][1])), 0);
        /* sums over samples, with what they are made of */
        Node *valid = select_valid(g, bounded(g, x));
        add_output(g, valid);
        add_output(g, graph_sum_samples(g, valid, (int[]){0}, 1));
        add_output(g, graph_sum_samples(g, graph_binary(g, OP_MUL, valid, valid), (int[]){0}, 1));
        add_output(g, graph_sum_samples(g, valid, (int[]){0, 1}, 2));
        add_output(g, graph_sum_samples(g, valid, NULL, 0));
        add_output(g, graph_max(g, x, (int[]){0}, 1));
        add_output(g, graph_group_sum(g, valid, 2));
        add_output(g, graph_group_sum(g, graph_sum(g, valid, (int[]){0}, 1), 3));
    }
    return g;
}

/* the gradient of a layer's normalization, and a softmax's: rows, and sums over all of them, which the same kernel makes */
static Graph *rows_across(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t SIDES[][2] = {{6600, 65}, {4, 64}, {37, 96}, {9, 190}, {70, 768}, {3, 1025}, {1, 8192}};
    for (int i = t != F64; i < COUNT(SIDES); i++) { /* the first: more rows than all blocks have room for sums of at once */
        const int64_t rows = i == 0 && is_brief() ? 2500 : SIDES[i][0];
        Shape s = SHAPE(rows, SIDES[i][1]), row = SHAPE(rows, 1);
        Node *x = new_input(g, t, s, 0), *d = new_input(g, t, s, 0), *scale = new_variable(g, t, SHAPE(s.extent[1]));
        Node *each = graph_number(g, 1.0 / (double)s.extent[1], t), *valid = select_valid(g, d);
        Node *square = graph_binary(g, OP_MUL, graph_sum(g, graph_binary(g, OP_MUL, x, x), (int[]){1}, 1), each);
        Node *inverse = graph_binary(g, OP_DIV, graph_number(g, 1, t),
                                     graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, square, graph_number(g, 0.01, t))));
        Node *unit = graph_binary(g, OP_MUL, x, graph_broadcast(g, graph_reshape(g, inverse, row), s));
        Node *u = graph_binary(g, OP_MUL, valid, graph_broadcast(g, scale, s)),
             *along = graph_sum(g, graph_binary(g, OP_MUL, u, unit), (int[]){1}, 1);
        Node *part = graph_broadcast(g, graph_reshape(g, graph_binary(g, OP_MUL, along, each), row), s);
        add_output(g, graph_binary(g, OP_SUB, u, graph_binary(g, OP_MUL, unit, part)));
        add_output(g, graph_sum_samples(g, graph_binary(g, OP_MUL, valid, unit), (int[]){0}, 1));
        Node *sum = graph_sum_samples(g, valid, (int[]){0}, 1),
             *moved = graph_binary(g, OP_SUB, scale, graph_binary(g, OP_MUL, sum, each));
        /* what is made of a sum across, in place of what rows read */
        graph_result(g, ROLE_UPDATE, NULL, (int)scale->ints[0], moved, NULL);
        if (i == 0 && in_brief)
            continue;
        Node *y = new_input(g, t, s, 0), *most = graph_broadcast(g, graph_reshape(g, graph_max(g, y, (int[]){1}, 1), row), s);
        Node *e = graph_unary(g, OP_EXP, graph_binary(g, OP_SUB, y, most)),
             *all = graph_broadcast(g, graph_reshape(g, graph_sum(g, e, (int[]){1}, 1), row), s);
        Node *soft = select_valid(g, graph_binary(g, OP_DIV, e, all));
        add_output(g, soft);
        add_output(g, graph_sum_samples(g, soft, (int[]){0}, 1)); /* of results of other passes */
    }
    return g;
}

/* few results of many numbers */
static Graph *large_sums(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t SIZES[] = {3000, 40001, 100352};
    for (int i = 0; i < COUNT(SIZES); i++) {
        Node *w = new_variable(g, t, SHAPE(SIZES[i])), *x = new_input(g, t, SHAPE(SIZES[i]), 0);
        add_output(g, graph_sum(g, graph_binary(g, OP_MUL, w, w), (int[]){0}, 1));
        add_output(g, graph_max(g, w, (int[]){0}, 1));
        add_output(g, graph_sum(g, x, (int[]){0}, 1));
        add_output(g, graph_sum_samples(g, select_valid(g, x), (int[]){0}, 1));
        int64_t along = 0;
        add_output(g, NODE(g, OP_ARGMAX, &along, 1, NULL, x));
    }
    Node *few = new_variable(g, t, SHAPE(3, 20000)), *many = new_variable(g, t, SHAPE(20000, 3));
    add_output(g, graph_sum(g, few, (int[]){1}, 1));
    add_output(g, graph_max(g, many, (int[]){0}, 1));
    add_output(g, graph_sum(g, many, (int[]){0}, 1));
    return g;
}

/* element-wise: vectors of every width, in place, with draws, turned, joined, cut */
static Graph *large_points(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const Shape SHAPES[] = {{2, {64, 96}}, {2, {70, 50}}, {3, {9, 64, 32}}, {2, {77, 77}}};
    for (int i = 0; i < COUNT(SHAPES); i++) {
        Shape s = SHAPES[i];
        Node *w = new_variable(g, t, s), *x = new_input(g, t, s, 0), *image = graph_cast(g, new_input(g, U8, s, 0), t);
        Node *b = new_variable(g, t, SHAPE(s.extent[s.rank - 1]));
        Node *y = graph_unary(g, OP_TANH, graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, x, image), graph_broadcast(g, b, s)));
        add_output(g, y);
        add_output(g, graph_binary(g, OP_LE, x, image));
        add_output(g, graph_cast(g, graph_binary(g, OP_MUL, x, graph_number(g, 9, t)), I32));
        graph_result(g, ROLE_UPDATE, NULL, (int)w->ints[0],
                     graph_binary(g, OP_SUB, w, graph_binary(g, OP_MUL, w, graph_number(g, 0.1, t))), NULL);
        Node *drawn = graph_random(g, s, format("draw%d", i), true), *once = graph_random(g, s, "once", false);
        add_output(g, graph_where(g, graph_binary(g, OP_LT, drawn, graph_number(g, 0.5, F32)), x, graph_number(g, 0, t)));
        add_output(g, graph_cast(g, once, F64));
        int order[MAX_RANK];
        for (int k = 0; k < s.rank; k++)
            order[k] = s.rank - 1 - k;
        add_output(g, graph_transpose(g, y, order));
        add_output(g, graph_transpose(g, w, order));
        Node *parts[2] = {x, y};
        add_output(g, graph_concat(g, parts, 2, s.rank - 1));
        add_output(g, graph_concat(g, parts, 2, 0));
        int64_t start[MAX_RANK] = {0}, count[MAX_RANK], step[MAX_RANK];
        for (int k = 0; k < s.rank; k++)
            count[k] = s.extent[k], step[k] = 1;
        start[s.rank - 1] = 3;
        count[s.rank - 1] -= 3;
        add_output(g, graph_slice(g, y, start, count, step));
        int64_t before[MAX_RANK] = {1, 2}, after[MAX_RANK] = {0, 2};
        add_output(g, graph_pad(g, x, before, after, 0.5));
    }
    return g;
}

static Graph *pictures(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t CHANNELS[] = {3, 8, 64};
    for (int i = 0; i < COUNT(CHANNELS); i++) {
        Shape s = SHAPE(21, 20, CHANNELS[i]);
        Node *x = new_input(g, t, s, 0);
        int64_t ints[] = {3, 3, 1, 2, 2, 1, 1, 0, 0, 0, 1, 0, 21, 20, CHANNELS[i]};
        Node *at = NODE(g, OP_WINDOW_ARGMAX, ints, 12, NULL, x), *most = NODE(g, OP_WINDOW_MAX, ints, 12, NULL, x);
        add_output(g, most);
        add_output(g, NODE(g, OP_WINDOW_MAX_GRADIENT, ints, 15, NULL, at, graph_unary(g, OP_SIN, most)));
        int64_t whole[] = {21, 20, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0};
        add_output(g, NODE(g, OP_WINDOW_SUM, whole, 12, NULL, x));
        add_output(g, NODE(g, OP_WINDOW_MAX, whole, 12, NULL, x));
        /* statistics of a batchnorm, and what follows from them */
        Node *valid = select_valid(g, x), *mean = graph_variable(g, (int)new_variable(g, t, SHAPE(CHANNELS[i]))->ints[0]);
        Node *sub = select_valid(g, graph_binary(g, OP_SUB, x, graph_broadcast(g, mean, s)));
        Node *sums[2] = {graph_sum_samples(g, sub, (int[]){0, 1}, 2),
                         graph_sum_samples(g, graph_binary(g, OP_MUL, sub, sub), (int[]){0, 1}, 2)};
        add_output(g, graph_binary(g, OP_MUL, valid, graph_broadcast(g, sums[1], s)));
        graph_result(g, ROLE_UPDATE, NULL, (int)mean->ints[0], graph_binary(g, OP_ADD, mean, sums[0]), NULL);
    }
    return g;
}

/* tables that samples add to, of few rows and of many, and tables of samples */
static Graph *tables(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t SIDES[][2] = {{65, 64}, {3000, 4}, {3000, 96}, {10, 1}, {7, 1000}};
    for (int i = 0; i < COUNT(SIDES); i++) {
        int64_t columns = SIDES[i][1], rows = is_brief() && i == 2 ? 700 : SIDES[i][0], zero = 0;
        Node *table = new_variable(g, t, SHAPE(rows, columns)),
             *index = new_input(g, i % 2 ? I32 : U16, SHAPE(in_brief ? 12 : 30), rows);
        Node *far = graph_binary(g, OP_SUB, graph_cast(g, index, I32), graph_number(g, 3, I32)); /* some are outside */
        Node *seen = NODE(g, OP_GATHER, &zero, 1, NULL, table, far);
        add_output(g, seen);
        Node *grown = select_valid(g, graph_binary(g, OP_MUL, seen, graph_number(g, 3, t)));
        add_output(g, graph_scatter_add(g, table, far, grown, 0, true));
        add_output(g, graph_scatter_add(g, graph_transpose(g, table, (int[]){1, 0}), far,
                                        graph_transpose(g, grown, (int[]){1, 0}), 1, true));
        add_output(g, graph_scatter_add(g, table, far, grown, 0, false));
        add_output(g, graph_scatter_add(g, graph_fill(g, 0, SHAPE(rows, columns), t), index, grown, 0, true));
    }
    return g;
}

/* Each at several widths, from an input of its own, so that kernels differ in numbers: in those that may become parameters,
 * in tables, sizes of arrays, what they read of the step. */
static Graph *other_numbers(Dtype t)
{
    Graph *g = new_graph(new_model(model_batch));
    static const int64_t WIDTHS[] = {4, 6, 9, 14, 40, 65};
    static const RunScalar RUN[] = {RUN_PROGRESS, RUN_EPOCH, RUN_STEP};
    for (int i = 0; i < COUNT(WIDTHS); i++) {
        double table[3] = {0.5 + i, 0.25 - i, 3 + 0.125 * i};
        Shape s = SHAPE(WIDTHS[i], 3);
        Node *x[8];
        for (int k = 0; k < COUNT(x); k++)
            x[k] = new_input(g, t, s, 0);
        Node *moved = graph_binary(g, OP_SUB, x[0], graph_broadcast(g, graph_constant(g, table, SHAPE(3), t), s));
        add_output(g, graph_binary(g, OP_MUL, moved, graph_number(g, 1.5 + i, t)));
        Node *run = graph_strong(g, graph_run(g, RUN[i % COUNT(RUN)], 0), t);
        add_output(g, graph_binary(g, OP_MUL, graph_binary(g, OP_SUB, x[1], graph_number(g, -3 - i, t)), run));
        add_output(g, graph_binary(g, OP_MUL, graph_sum(g, x[2], (int[]){1}, 1), graph_number(g, 1.0 / (double)WIDTHS[i], t)));
        add_output(g, graph_transpose(g, x[3], (int[]){1, 0}));
        add_output(g,
                   graph_binary(g, OP_ADD, x[4], graph_transpose(g, graph_reshape(g, x[5], SHAPE(3, WIDTHS[i])), (int[]){1, 0})));
        int64_t before[2] = {i, 2}, after[2] = {1 + i, 3};
        add_output(g, graph_pad(g, x[6], before, after, -0.5 - i));
        add_output(g, graph_slice(g, x[7], (int64_t[]){1, 0}, (int64_t[]){WIDTHS[i] - 2, 2}, (int64_t[]){1, 2}));
        Node *whole = new_input(g, I32, s, 0), *least = new_input(g, i % 2 ? I8 : I16, SHAPE(3, WIDTHS[i]), 0);
        add_output(g, graph_max(g, least, (int[]){1}, 1));
        add_output(g, graph_binary(g, OP_MUL, graph_binary(g, OP_ADD, whole, graph_number(g, -2 - i, I32)),
                                   graph_number(g, 3 + i, I32)));
        Node *wide = graph_binary(g, OP_ADD, graph_cast(g, whole, I64), graph_number(g, 5000000000.0 + i, I64));
        add_output(g, graph_cast(g, wide, F64));
    }
    return g;
}

static void add_large_case(const char *name, Graph *graph(Dtype), Dtype t, double tolerance)
{
    seed_random(77);
    model_batch = t == F32 ? SAMPLES : 0; /* indices of 32 bits, and of 64 */
    add_fused_case(format("%s, %s", name, dtype_name(t)), graph(t));
    cases[case_count - 1].tolerance = tolerance;
    cases[case_count - 1].fewer = is_brief();
}

static void add_large_cases(void)
{
    static const struct {
        const char *name;
        Graph *(*graph)(Dtype);
        bool bf16;
    } LARGE[] = {{"long rows", long_rows, true},    {"rows across", rows_across, false},    {"long columns", long_columns, false},
                 {"large sums", large_sums, false}, {"many points", large_points, true},    {"pictures", pictures, false},
                 {"tables", tables, false},         {"other numbers", other_numbers, false}};
    for (int i = 0; i < COUNT(LARGE); i++) {
        add_large_case(LARGE[i].name, LARGE[i].graph, F64, 1e-12);
        if (!in_brief || i % (is_brief() ? 6 : 2) == 0)
            add_large_case(LARGE[i].name, LARGE[i].graph, F32, 2e-5);
        if (LARGE[i].bf16)
            add_large_case(LARGE[i].name, LARGE[i].graph, BF16, 0x1p-6);
    }
    model_batch = 0;
}
#endif
