/* scans.c: make random loops. Their carries begin with inputs, variables or constants; they have sequences, captured values, and
 * a body of element-wise operations, matmuls, reductions, views and conditions. */
#include "compiler/selftest/cases.h"

enum { MOST = 64 };
typedef struct RandomLoop {
    Graph *g, *body;
    Dtype real;
    int64_t extent; /* of all values */
    Node *pool[MOST], *outside[4];
    int count;
} RandomLoop;

static Node *pick(const RandomLoop *l) { return l->pool[draw(l->count)]; }

static void add_node(RandomLoop *l, Node *n) { l->pool[l->count++] = n; }

static Node *row_major_variable(const RandomLoop *l, Shape s) /* Makes a variable whose axes are in order. */
{
    Node *n = new_variable(l->g, l->real, s);
    for (int i = 0; i < s.rank; i++)
        l->g->model->variables[n->ints[0]].order[i] = i;
    return n;
}

/* Makes a constant of one value, or of ones followed by zeros. */
static Node *constant(const RandomLoop *l)
{
    double *data = NEW_ARRAY(double, l->extent);
    int64_t head = draw(2) ? draw(l->extent) : l->extent;
    for (int64_t i = 0; i < head; i++)
        data[i] = 1;
    return draw(3) ? graph_constant(l->g, data, SHAPE(l->extent), l->real)
                   : graph_fill(l->g, (double)draw(2), SHAPE(l->extent), l->real);
}

static Node *any_step(const RandomLoop *l)
{
    static const Op ELEMENTWISE_OF[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAXIMUM, OP_ADD};
    Graph *b = l->body;
    Node *a = pick(l), *other = pick(l);
    switch (draw(9)) {
    case 0: return graph_unary(b, draw(2) ? OP_TANH : OP_SIN, a);
    case 1:
        other = graph_capture(b, l->outside[draw(2) ? 2 : 3]);
        return graph_einsum(b, draw(2) ? "a,ab->b" : "a,ba->b", (Node *[]){a, other}, 2, false);
    case 2: return graph_broadcast(b, graph_reshape(b, graph_max(b, a, (int[]){0}, 1), SHAPE(1)), SHAPE(l->extent));
    case 3: return graph_slice(b, a, &(int64_t){l->extent - 1}, &(int64_t){l->extent}, &(int64_t){-1});
    case 4:
        return graph_where(b, graph_binary(b, OP_LT, a, other), graph_binary(b, OP_MUL, a, pick(l)),
                           draw(2) ? other : graph_number(b, 0, l->real));
    case 5: { /* shifts by one */
        Node *most = graph_slice(b, a, &(int64_t){0}, &(int64_t){l->extent - 1}, &(int64_t){1});
        return graph_pad(b, most, &(int64_t){1}, &(int64_t){0}, 0);
    }
    default: return graph_binary(b, ELEMENTWISE_OF[draw(COUNT(ELEMENTWISE_OF))], a, other);
    }
}

Graph *random_loop(int number, Dtype real)
{
    seed_random(0xD1B54A32D192ED03u * (uint64_t)(number + 1));
    Model *m = new_model(draw(2) ? 0 : 1 + draw(3));
    m->precision = real;
    RandomLoop l = {.g = new_graph(m), .real = real, .extent = draw(3) ? 6 : 2 + draw(20)};
    Graph *g = l.g;
    Shape one = SHAPE(l.extent), square = SHAPE(l.extent, l.extent);
    int64_t steps = 1 + draw(5);
    int carries = 1 + (int)draw(3), sequences = (int)draw(3), stacks = (int)draw(4);
    Node *next[3], *stack[4];
    l.outside[0] = new_input(g, real, one, 0);
    l.outside[1] = new_variable(g, real, one);
    l.outside[2] = new_variable(g, real, square);
    l.outside[3] = new_input(g, real, square, 0);
    l.body = graph_open_body(g, "random");
    for (int i = 0; i < carries; i++)
        add_node(&l, graph_scan_carry(l.body,
                                      draw(2)   ? new_input(g, real, one, 0)
                                      : draw(2) ? row_major_variable(&l, one)
                                                : constant(&l),
                                      draw(2)));
    for (int i = 0; i < sequences; i++)
        add_node(&l, graph_scan_sequence(l.body, draw(3) ? new_input(g, real, SHAPE(steps, l.extent), 0)
                                                         : row_major_variable(&l, SHAPE(steps, l.extent))));
    for (int i = 0; i < 2; i++)
        add_node(&l, graph_capture(l.body, l.outside[i]));
    if (!draw(3))
        add_node(&l, graph_capture(l.body, constant(&l)));
    for (int i = (int)draw(14) + 2; i > 0; i--)
        add_node(&l, any_step(&l));
    for (int i = 0; i < carries; i++)
        next[i] = graph_unary(l.body, OP_TANH, pick(&l));
    for (int i = 0; i < stacks; i++)
        stack[i] = draw(3) ? pick(&l) : next[draw(carries)];
    Node *scan = graph_close_scan(l.body, steps, draw(2), next, stack, stacks);
    bool any = false;
    for (int i = 0; i < carries + stacks; i++)
        if (draw(4) || (!any && i == carries + stacks - 1)) {
            graph_result(g, ROLE_OUTPUT, format("y%d", i), 0, graph_scan_result(g, scan, i), NULL);
            any = true;
        }
    return g;
}
