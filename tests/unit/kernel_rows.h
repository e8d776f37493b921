/* kernel_rows.h: graphs of running operations, of the k largest, and of sums into rows, for kernel_test.c. */
#include "runtime/abi/mgpu_tables.h"

#define RUNNING_OP(NAME, ...) OP_##NAME,
static const Op RUNNING_OPS[] = {MGPU_RUNNING_TABLE(RUNNING_OP)};

static Node *largest(Graph *g, Node *x, int64_t axis, int64_t k, bool places)
{
    return NODE(g, OP_TOP_K, ((int64_t[]){axis, k, places}), 3, NULL, x);
}

/* along every axis of x, both ways; one, some and all */
static void add_rows(Graph *g, const char *name, Node *x)
{
    for (int axis = 0; axis < x->shape.rank; axis++) {
        int64_t extent = x->shape.extent[axis], k[3] = {1, extent / 2 + 1, extent};
        bool sums = x->dtype == I32 || x->dtype == U32 || x->dtype == I64 || dtype_is_float(x->dtype);
        for (int i = 0; i < 2 * COUNT(RUNNING_OPS) && sums; i++) {
            Node *y = NODE(g, RUNNING_OPS[i / 2], ((int64_t[]){axis, i % 2}), 2, NULL, x);
            if (x->has_samples)
                graph_result(g, ROLE_OUTPUT, format("%s%d_sum%d", name, axis, i), 0, y, NULL);
            else
                graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, y->dtype, y->shape)->ints[0], y, NULL);
        }
        for (int i = 0; i < 3 && extent > 0; i++)
            for (int places = 0; places < 2; places++) {
                if (i == 0 && places == axis % 2) /* one of both alone */
                    continue;
                Node *y = largest(g, x, axis, k[i], places);
                if (x->has_samples)
                    graph_result(g, ROLE_OUTPUT, format("%s%d_top%d_%d", name, axis, i, places), 0, y, NULL);
                else
                    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, y->dtype, y->shape)->ints[0], y, NULL);
            }
    }
}

/* odd and empty shapes; ties, zeros of both signs, NaN and infinities; weights in an order of their own; through reshapes */
static Graph *row_shapes(void)
{
    Graph *g = new_graph(new_model(model_batch));
    static const Shape SHAPES[] = {{1, {7}},    {3, {3, 5, 4}}, {3, {2, 70, 3}}, {2, {33, 130}},
                                   {2, {1, 1}}, {2, {0, 3}},    {2, {3, 0}},     {3, {9, 1, 2}}};
    for (int i = 0; i < COUNT(SHAPES); i++) {
        Node *x = new_input(g, F64, SHAPES[i], 0);
        add_rows(g, format("x%d_", i), x);
        Node *few = graph_unary(g, OP_FLOOR, graph_binary(g, OP_MUL, x, graph_number(g, 3, F64)));
        Node *signs = graph_binary(g, OP_MUL, few, graph_number(g, -0.5, F64)); /* 0, -0, halves */
        add_rows(g, format("ties%d_", i), signs);
        add_rows(g, format("odd%d_", i), graph_unary(g, OP_LOG, few)); /* NaN, -infinity, numbers */
    }
    Node *w = new_variable(g, F64, SHAPE(3, 4, 6)), *x = new_input(g, F64, SHAPE(6, 4), 0);
    add_rows(g, "w", w);
    add_rows(g, "reshaped", graph_reshape(g, graph_unary(g, OP_EXP, x), SHAPE(2, 3, 4)));
    add_rows(g, "turned", graph_transpose(g, x, (int[]){1, 0}));
    add_rows(g, "large", new_variable(g, F64, SHAPE(300, 200)));
    add_rows(g, "long", new_variable(g, F64, SHAPE(3, 9000)));
    return g;
}

static Graph *row_types(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *x = new_input(g, F64, SHAPE(5, 37), 0), *half = new_input(g, BF16, SHAPE(70, 6), 0);
    Node *big = graph_binary(g, OP_MUL, x, graph_number(g, 300, F64));
    for (int t = BOOL; t <= I64; t++)
        add_rows(g, format("%s_", dtype_name((Dtype)t)), graph_cast(g, big, (Dtype)t));
    add_rows(g, "f32_", graph_cast(g, x, F32));
    Node *long_rows = new_input(g, F64, SHAPE(2, 700), 0); /* sorted by digits, many of them equal */
    add_rows(g, "long_", graph_cast(g, long_rows, F32));
    for (int t = U8; t <= I64; t++)
        add_rows(g, format("long_%s_", dtype_name((Dtype)t)),
                 graph_cast(g, graph_binary(g, OP_MUL, long_rows, graph_number(g, 50, F64)), (Dtype)t));
    add_rows(g, "scalars_", graph_reshape(g, x, SHAPE(185)));
    add_rows(g, "bf16_", graph_cast(g, half, F32));
    add_rows(g, "flat_", graph_reshape(g, graph_cast(g, half, F32), SHAPE(420)));
    return g;
}

/* tables of all shapes that many samples add to: by input, computed and constant indices, some outside; one sums to a table */
static Graph *row_sums(void)
{
    Graph *g = new_graph(new_model(model_batch));
    Node *i = new_input(g, U16, SHAPE(9), 60), *x = new_input(g, F32, SHAPE(9, 33), 0), *one = new_input(g, I32, SCALAR, 60);
    Node *far = graph_cast(g, graph_binary(g, OP_MUL, x, graph_number(g, 70, F32)), I32); /* some below 0 */
    Node *grown = select_valid(g, graph_unary(g, OP_EXP, graph_binary(g, OP_MUL, x, graph_number(g, 9, F32))));
    const Shape tables[] = {{2, {50, 33}}, {2, {300, 33}}, {2, {2000, 33}}, {2, {9000, 33}}};
    for (int k = 0; k < COUNT(tables) - in_brief; k++) {
        Node *w = new_variable(g, F32, tables[k]);
        graph_result(g, ROLE_UPDATE, NULL, (int)w->ints[0], graph_scatter_add(g, w, i, grown, 0, true), NULL);
    }
    Node *sideways = new_variable(g, F32, SHAPE(33, 50)), *turned = graph_transpose(g, grown, (int[]){1, 0});
    graph_result(g, ROLE_UPDATE, NULL, (int)sideways->ints[0], graph_scatter_add(g, sideways, i, turned, 1, true), NULL);
    Node *counts = new_variable(g, F32, SHAPE(41)), *all = graph_reshape(g, grown, SHAPE(9, 33));
    graph_result(g, ROLE_UPDATE, NULL, (int)counts->ints[0], graph_scatter_add(g, counts, far, all, 0, true), NULL);
    Node *middle = new_variable(g, F32, SHAPE(3, 70, 11)), *cube = graph_reshape(g, grown, SHAPE(3, 9, 11));
    graph_result(g, ROLE_UPDATE, NULL, (int)middle->ints[0], graph_scatter_add(g, middle, i, cube, 1, true), NULL);
    Node *rows = new_variable(g, F32, SHAPE(70, 9, 33));
    graph_result(g, ROLE_UPDATE, NULL, (int)rows->ints[0], graph_scatter_add(g, rows, one, grown, 0, true), NULL);
    graph_result(g, ROLE_OUTPUT, "own", 0, graph_scatter_add(g, new_variable(g, F32, SHAPE(50, 33)), i, x, 0, false), NULL);
    return g;
}
