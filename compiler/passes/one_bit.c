/* one_bit.c: a device sends one bit of each element of a gradient, and two numbers for each segment.
 *
 * In: the distributed train graph, in the precision of the model. Out: the same graph, in which a gradient's REDUCE is
 *
 *     c        = gradient + residual                       what this device has to send, of its own samples (OWN: Local)
 *     q        = where(c > 0, mean of the segment's such elements, mean of its others)
 *     residual = c - q                                     kept, on this device, for the next step
 *     total    = REDUCE_BITS(q)                            the sum over the devices, of which bits are sent
 *
 * Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent and its application to data-parallel distributed training of
 * speech DNNs", Interspeech 2014; there a segment is a column, and aggregated gradients are quantised again. Here it is
 * MGPU_SEGMENT elements of the gradient in declared order, and the total is not quantised. A gradient of fewer elements is
 * reduced as it is. So the sum over devices of what has been sent, and of the residuals, is that of the gradients: nothing is
 * lost, it comes later.
 *
 * Where c is not finite, neither is what is sent (a step may be skipped because of it: update.c), and the residual is 0. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

#include <math.h>

static Node *filled(Node *like, double value, Dtype dtype) { return graph_fill(like->graph, value, like->shape, dtype); }

/* Returns x in rows of one segment each; padding elements of the last one are 0. */
static Node *in_segments(Node *x)
{
    Graph *g = x->graph;
    int64_t count = shape_count(&x->shape), rows = mgpu_segments(count), low = 0, high = rows * MGPU_SEGMENT - count;
    x = graph_reshape(g, x, (Shape){1, {count}});
    x = high ? graph_pad(g, x, &low, &high, 0) : x;
    return graph_reshape(g, x, (Shape){2, {rows, MGPU_SEGMENT}});
}

static Node *out_of_segments(Node *rows, Shape shape)
{
    Graph *g = rows->graph;
    int64_t none = 0, one = 1, count = shape_count(&shape);
    Node *x = graph_reshape(g, rows, (Shape){1, {shape_count(&rows->shape)}});
    return graph_reshape(g, graph_slice(g, x, &none, &count, &one), shape);
}

/* Returns the mean of the marked elements of each row; 0 if none are marked. counted: 1 for each element, 0 for padding. */
static Node *mean_of(Node *marked, Node *rows, Node *counted)
{
    Graph *g = rows->graph;
    int axis = 1;
    Node *sum = graph_sum(g, graph_where(g, marked, rows, filled(rows, 0, rows->dtype)), &axis, 1);
    Node *count = graph_sum(g, graph_where(g, marked, counted, filled(rows, 0, rows->dtype)), &axis, 1);
    Node *mean = graph_binary(g, OP_DIV, sum, graph_binary(g, OP_MAXIMUM, count, filled(count, 1, rows->dtype)));
    return graph_broadcast(g, graph_reshape(g, mean, (Shape){2, {rows->shape.extent[0], 1}}), rows->shape);
}

static Node *quantised(Node *c)
{
    Graph *g = c->graph;
    Node *rows = in_segments(c), *above = graph_binary(g, OP_LT, filled(rows, 0, rows->dtype), rows);
    Node *counted = in_segments(filled(c, 1, c->dtype));
    Node *low = mean_of(graph_unary(g, OP_NOT, above), rows, counted);
    return graph_where(g, above, mean_of(above, rows, counted), low);
}

static int add_residual(Model *m, const Node *sum, const char *weight)
{
    Variable v = {
        .kind = ACCUMULATOR, .dtype = sum->dtype, .shape = sum->shape, .placement = {{IS_PARTIAL}}, .owner = -1, .at = sum->at};
    v.name = format("%s.residual", weight ? weight : format("sum.%d", sum->id));
    for (int axis = 0; axis < MAX_RANK; axis++)
        v.order[axis] = axis;
    APPEND(m->variables, m->variable_count, v);
    return m->variable_count - 1;
}

static Node *sum_of_bits(Graph *g, const Node *reduce, int residual)
{
    set_position(g, reduce);
    Node *before = graph_variable(g, residual);
    Node *c = NODE(g, OP_OWN, NULL, 0, NULL, graph_binary(g, OP_ADD, reduce->in[0]->mapped, before));
    c->name = "with_residual";
    Node *q = quantised(c), *rest = graph_binary(g, OP_SUB, c, out_of_segments(q, c->shape));
    Node *infinite = filled(rest, INFINITY, rest->dtype),
         *finite = graph_binary(g, OP_LT, graph_unary(g, OP_ABS, rest), infinite);
    rest = graph_where(g, finite, rest, filled(rest, 0, rest->dtype));
    graph_result(g, ROLE_UPDATE, g->model->variables[residual].name, residual, rest, NULL);
    return out_of_segments(NODE(g, OP_REDUCE_BITS, NULL, 0, NULL, q), c->shape);
}

Graph *send_one_bit(Graph *train)
{
    Model *m = train->model;
    Graph *g = graph_new(m, train->name, train->parent);
    const bool *gradient = graph_summed_gradients(train);
    if (m->precision == F16)
        fail(
            1,
            "one-bit gradients do not go with precision = f16, whose loss scale changes from step to step, but not what is left of the steps before; bf16 has none");
    const char **weight = graph_summed_weights(train);
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        if (gradient[i] && shape_count(&n->shape) >= MGPU_SEGMENT)
            map_node(n, sum_of_bits(g, n, add_residual(m, n, weight[i])));
        else
            graph_copy_node(g, n);
    }
    graph_copy_results(g, train);
    Graph *typed = distribute(g);
    graph_free(g);
    return typed;
}
