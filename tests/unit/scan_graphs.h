/* scan_graphs.h: loops built by hand, as the compiler has them before it makes kernels: in f64 and f32, with several carries,
 * sequences and stacks, products, attention and convolutions in the body, nested. */
#ifndef SCAN_GRAPHS_H
#define SCAN_GRAPHS_H

#include "kernel_machine.h"

static Dtype real = F64; /* of the cases that follow */
static int64_t batch;    /* samples of a step that their model says; a chunk has no more */

static Graph *begin(void)
{
    Model *m = new_model(batch);
    m->precision = real;
    return new_graph(m);
}

static Node *input(Graph *g, Shape s) { return new_input(g, real, s, 0); }
static Node *weight(Graph *g, Shape s) { return new_variable(g, real, s); }
static Node *straight(Graph *g, Shape s) /* a variable whose axes are in their order */
{
    Node *n = new_variable(g, real, s);
    for (int i = 0; i < s.rank; i++)
        g->model->variables[n->ints[0]].order[i] = i;
    return n;
}

static Node *number(Graph *g, double v) { return graph_number(g, v, real); }
static Node *add(Node *a, Node *b) { return graph_binary(a->graph->parent ? a->graph : b->graph, OP_ADD, a, b); }
static Node *mul(Node *a, Node *b) { return graph_binary(a->graph->parent ? a->graph : b->graph, OP_MUL, a, b); }
static Node *in(Graph *g, Op op, Node *a, Node *b) { return b ? graph_binary(g, op, a, b) : graph_unary(g, op, a); }

static void output(Graph *g, Node *n)
{
    graph_result(g, ROLE_OUTPUT, format("y%d", g->result_count), 0, n->dtype == real ? n : graph_cast(g, n, real), NULL);
}

static Node *part(Graph *g, Node *x, int64_t from, int64_t count) { return graph_slice(g, x, &from, &count, &(int64_t){1}); }

static Node *sigmoid(Graph *g, Node *x)
{
    return in(g, OP_DIV, number(g, 1), in(g, OP_ADD, number(g, 1), in(g, OP_EXP, graph_negate(g, x), NULL)));
}

/* ---- loops */

static Graph *decay(int64_t steps, bool reverse)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(steps, 6)), *h0 = graph_fill(g, 0, SHAPE(6), real);
    Graph *b = graph_open_body(g, "decay");
    Node *h = graph_scan_carry(b, h0, true), *xt = graph_scan_sequence(b, x);
    Node *next = in(b, OP_TANH, add(mul(h, number(b, 0.9)), xt), NULL);
    Node *scan = graph_close_scan(b, steps, reverse, &next, &next, 1);
    output(g, graph_scan_result(g, scan, 0));
    output(g, graph_scan_result(g, scan, 1));
    return g;
}

/* the last value alone, or the stack alone */
static Graph *half_used(bool last)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(9, 4)), *h0 = graph_fill(g, 0.25, SHAPE(4), real);
    Graph *b = graph_open_body(g, "half");
    Node *h = graph_scan_carry(b, h0, false), *xt = graph_scan_sequence(b, x);
    Node *next = in(b, OP_COS, add(h, xt), NULL), *stack = mul(next, h);
    Node *scan = graph_close_scan(b, 9, false, &next, &stack, 1);
    output(g, graph_scan_result(g, scan, last ? 0 : 1));
    return g;
}

typedef struct Cell {
    Node *h, *c, *gates;
} Cell;

static Cell lstm_cell(Graph *b, Node *x, Node *h, Node *c, Node *w, int64_t d)
{
    Node *both[] = {h, w};
    Node *gates = in(b, OP_ADD, x, graph_einsum(b, "h,hg->g", both, 2, false));
    Node *i = sigmoid(b, part(b, gates, 0, d)), *f = sigmoid(b, part(b, gates, d, d));
    Node *z = in(b, OP_TANH, part(b, gates, 2 * d, d), NULL), *o = sigmoid(b, part(b, gates, 3 * d, d));
    Node *next = in(b, OP_ADD, in(b, OP_MUL, f, c), in(b, OP_MUL, i, z));
    return (Cell){in(b, OP_MUL, o, in(b, OP_TANH, next, NULL)), next, gates};
}

static Graph *lstm(int64_t steps, int64_t d, bool keeps)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(steps, 4 * d)), *w = weight(g, SHAPE(d, 4 * d)), *h0 = straight(g, SHAPE(d)),
         *c0 = input(g, SHAPE(d));
    Graph *b = graph_open_body(g, "lstm");
    Node *h = graph_scan_carry(b, h0, true), *c = graph_scan_carry(b, c0, false), *xt = graph_scan_sequence(b, x);
    Cell cell = lstm_cell(b, xt, h, c, graph_capture(b, w), d);
    Node *next[] = {cell.h, cell.c}, *stacks[] = {cell.h, h, c, cell.gates};
    Node *scan = graph_close_scan(b, steps, false, next, stacks, keeps ? 4 : 1);
    for (int i = keeps ? 1 : 0; i < (keeps ? 6 : 3); i++)
        output(g, graph_scan_result(g, scan, i));
    return g;
}

/* as the gradient of a recurrence: backwards, with a product by the turned weight */
static Graph *backwards(void)
{
    Graph *g = begin();
    int64_t steps = 11, d = 7;
    Node *x = input(g, SHAPE(steps, d)), *y = input(g, SHAPE(d, steps)), *w = weight(g, SHAPE(d, d));
    Node *turned = graph_transpose(g, w, (int[]){1, 0}), *other = graph_transpose(g, y, (int[]){1, 0});
    Graph *b = graph_open_body(g, "backwards");
    Node *dh = graph_scan_carry(b, graph_fill(g, 0, SHAPE(d), real), true);
    Node *xt = graph_scan_sequence(b, x), *yt = graph_scan_sequence(b, other);
    Node *sum = in(b, OP_ADD, dh, xt);
    Node *own = in(b, OP_MUL, sum, in(b, OP_SUB, number(b, 1), in(b, OP_MUL, yt, yt)));
    Node *both[] = {own, graph_capture(b, turned)};
    Node *next = graph_einsum(b, "h,hg->g", both, 2, false);
    Node *scan = graph_close_scan(b, steps, true, &next, &own, 1);
    output(g, graph_scan_result(g, scan, 0));
    output(g, graph_scan_result(g, scan, 1));
    return g;
}

/* the same for all samples; with a product and a sequence of weights */
static Graph *replicated(void)
{
    Graph *g = begin();
    Node *x = straight(g, SHAPE(13, 5)), *w = weight(g, SHAPE(5, 5)), *h0 = straight(g, SHAPE(5));
    Graph *b = graph_open_body(g, "replicated");
    Node *h = graph_scan_carry(b, h0, false), *xt = graph_scan_sequence(b, x);
    Node *both[] = {h, graph_capture(b, w)};
    Node *next = in(b, OP_TANH, in(b, OP_ADD, graph_einsum(b, "h,hg->g", both, 2, false), xt), NULL);
    Node *scan = graph_close_scan(b, 13, false, &next, &next, 1);
    output(g, graph_scan_result(g, scan, 1));
    graph_result(g, ROLE_REPORT, "sum", 0, graph_cast(g, graph_sum(g, graph_scan_result(g, scan, 0), (int[]){0}, 1), F64), NULL);
    return g;
}

/* a carry without samples beside one with samples that depends on it; weights that change with every step */
static Graph *mixed(void)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(8, 6)), *rates = straight(g, SHAPE(8, 6)), *w0 = straight(g, SHAPE(6, 6));
    Graph *b = graph_open_body(g, "mixed");
    Node *r = graph_scan_carry(b, graph_fill(g, 1, SHAPE(6), real), false),
         *h = graph_scan_carry(b, graph_fill(g, 0, SHAPE(6), real), false);
    Node *w = graph_scan_carry(b, w0, false);
    Node *xt = graph_scan_sequence(b, x), *rt = graph_scan_sequence(b, rates);
    Node *rate = in(b, OP_COS, in(b, OP_ADD, r, rt), NULL);
    Node *grown = in(b, OP_TANH, in(b, OP_MUL, w, graph_broadcast(b, rate, SHAPE(6, 6))), NULL);
    Node *both[] = {in(b, OP_ADD, h, xt), grown};
    Node *state = in(b, OP_TANH, graph_einsum(b, "a,ab->b", both, 2, false), NULL);
    Node *next[] = {rate, state, grown}, *stacks[] = {rate, state, graph_sum(b, grown, (int[]){1}, 1)};
    Node *scan = graph_close_scan(b, 8, false, next, stacks, 3);
    for (int i = 0; i < 6; i++)
        output(g, graph_scan_result(g, scan, i));
    return g;
}

/* values that pass from carry to carry, stay, and are stacked as they are */
static Graph *shifts(bool one)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(7, 3)), *y = input(g, SHAPE(3)), *w = weight(g, SHAPE(3)), *z = input(g, SHAPE(3));
    Graph *b = graph_open_body(g, "shifts");
    Node *p = graph_scan_carry(b, z, false), *q = graph_scan_carry(b, w, true), *r = graph_scan_carry(b, z, false);
    Node *xt = graph_scan_sequence(b, x), *own = in(b, OP_ADD, q, xt), *captured = graph_capture(b, y);
    Node *constant = graph_constant(b, (double[]){1, -2, 0.5}, SHAPE(3), real);
    Node *next[] = {q, own, captured}, *stacks[] = {xt, captured, own, own, p, constant, graph_capture(b, w)};
    (void)r;
    Node *scan = graph_close_scan(b, 7, true, next, stacks, COUNT(stacks));
    for (int i = 0; i < 3 + COUNT(stacks); i++)
        if (!one || i == 3 + 4)
            output(g, graph_scan_result(g, scan, i));
    return g;
}

/* two products whose weights stay packed, one that depends on the other */
static Graph *two_products(void)
{
    Graph *g = begin();
    int64_t steps = 5, d = 48, e = 64;
    Node *x = input(g, SHAPE(steps, d)), *v = straight(g, SHAPE(d, e)), *w = straight(g, SHAPE(e, d));
    Graph *b = graph_open_body(g, "products");
    Node *h = graph_scan_carry(b, graph_fill(g, 0, SHAPE(d), real), true), *xt = graph_scan_sequence(b, x);
    Node *wide[] = {in(b, OP_ADD, h, xt), graph_capture(b, v)};
    Node *narrow[] = {in(b, OP_TANH, graph_einsum(b, "a,ab->b", wide, 2, false), NULL), graph_capture(b, w)};
    Node *next = in(b, OP_TANH, in(b, OP_MUL, graph_einsum(b, "a,ab->b", narrow, 2, false), number(b, 0.125)), NULL);
    Node *scan = graph_close_scan(b, steps, false, &next, &next, 1);
    output(g, graph_scan_result(g, scan, 1));
    return g;
}

/* what is captured: views of weights and of samples, numbers of the run, the valid, a table, whole numbers */
static Graph *captured(void)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(6, 4)), *table = straight(g, SHAPE(9, 4)), *i = new_input(g, I32, SHAPE(6), 9),
         *bias = weight(g, SHAPE(1, 4));
    Node *wide = input(g, SHAPE(2, 4, 3)), *scale = graph_cast(g, graph_run(g, RUN_PROGRESS, 0), real),
         *w = weight(g, SHAPE(4, 8));
    Node *flat = graph_reshape(g, bias, SHAPE(4)), *turned = graph_transpose(g, w, (int[]){1, 0});
    int64_t start[] = {0, 1, 0}, count[] = {2, 2, 3}, step[] = {1, 2, 2}, zero = 0;
    count[2] = 2;
    Node *corner = graph_slice(g, wide, start, count, step), *valid = graph_valid(g);
    start[0] = 4, start[1] = 0, count[0] = 4, count[1] = 4, step[0] = step[1] = 1;
    Node *half = graph_slice(g, turned, start, count, step), *square = in(g, OP_MUL, half, half);
    Graph *b = graph_open_body(g, "captured");
    Node *h = graph_scan_carry(b, graph_constant(g, (double[]){1, 2, 3, 4}, SHAPE(4), real), true),
         *n = graph_scan_carry(b, graph_number(g, 3, I32), false);
    Node *xt = graph_scan_sequence(b, x), *it = graph_scan_sequence(b, i);
    Node *row = NODE(b, OP_GATHER, &zero, 1, NULL, graph_capture(b, table), it);
    Node *sum = in(b, OP_ADD, in(b, OP_ADD, in(b, OP_MUL, row, graph_capture(b, scale)), graph_capture(b, flat)), xt);
    sum = graph_where(b, graph_capture(b, valid), sum, number(b, 0.5));
    sum = in(b, OP_ADD, sum, in(b, OP_MUL, graph_sum(b, graph_capture(b, corner), (int[]){0, 1, 2}, 3), number(b, 0.125)));
    Node *both[] = {h, graph_capture(b, half)}, *third[] = {h, graph_capture(b, square)},
         *fourth[] = {h, graph_capture(b, turned)};
    sum = in(b, OP_ADD, sum, graph_einsum(b, "a,ba->b", both, 2, false));
    sum = in(b, OP_SUB, sum, graph_einsum(b, "a,ab->b", third, 2, false));
    sum = in(b, OP_SUB, sum,
             graph_sum(b, graph_reshape(b, graph_einsum(b, "a,ba->b", fourth, 2, false), SHAPE(4, 2)), (int[]){1}, 1));
    Node *next[] = {in(b, OP_TANH, sum, NULL), in(b, OP_MAXIMUM, in(b, OP_SUB, n, graph_number(b, 1, I32)), it)};
    Node *stacks[] = {n, row};
    Node *scan = graph_close_scan(b, 6, false, next, stacks, 2);
    for (int k = 0; k < 4; k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* maxima and sums within a step, as in a forward algorithm, and an argmax */
static Graph *forward_algorithm(void)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(10, 7)), *w = weight(g, SHAPE(7, 7));
    Graph *b = graph_open_body(g, "forward");
    Node *a = graph_scan_carry(b, graph_fill(g, 0, SHAPE(7), real), true), *xt = graph_scan_sequence(b, x);
    Node *moves = in(b, OP_ADD, graph_broadcast(b, graph_reshape(b, a, SHAPE(7, 1)), SHAPE(7, 7)), graph_capture(b, w));
    Node *most = graph_max(b, moves, (int[]){0}, 1);
    Node *all = graph_broadcast(b, graph_reshape(b, most, SHAPE(1, 7)), SHAPE(7, 7));
    Node *sum = graph_sum(b, in(b, OP_EXP, in(b, OP_SUB, moves, all), NULL), (int[]){0}, 1);
    Node *next = in(b, OP_ADD, in(b, OP_ADD, in(b, OP_LOG, sum, NULL), most), xt);
    int64_t axis = 0;
    Node *stacks[] = {NODE(b, OP_ARGMAX, &axis, 1, NULL, moves), graph_max(b, next, (int[]){0}, 1)};
    Node *scan = graph_close_scan(b, 10, false, &next, stacks, 2);
    for (int k = 0; k < 3; k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* a scan in a scan, whose sequence, stack and initial value are the outer one's; captured through both */
static Graph *nested(bool whole)
{
    Graph *g = begin();
    int64_t rows = 4, columns = 5, d = 6;
    Node *x = input(g, SHAPE(rows, columns, d)), *w = weight(g, SHAPE(d, d)), *v = weight(g, SHAPE(d)), *y = input(g, SHAPE(d));
    Graph *b = graph_open_body(g, "rows");
    Node *h = graph_scan_carry(b, y, false), *xt = graph_scan_sequence(b, x);
    Graph *i = graph_open_body(b, "columns");
    Node *s = graph_scan_carry(i, h, false), *xs = graph_scan_sequence(i, xt);
    Node *both[] = {s, graph_capture(i, w)};
    Node *next =
        in(i, OP_TANH, in(i, OP_ADD, in(i, OP_ADD, graph_einsum(i, "a,ab->b", both, 2, false), xs), graph_capture(i, v)), NULL);
    Node *inner = graph_close_scan(i, columns, !whole, &next, &next, 1);
    Node *last = graph_scan_result(b, inner, 0), *stack = graph_scan_result(b, inner, 1);
    Node *state = whole ? last : in(b, OP_SUB, last, in(b, OP_MUL, graph_sum(b, stack, (int[]){0}, 1), number(b, 0.125)));
    Node *stacks[] = {stack, last, state};
    Node *scan = graph_close_scan(b, rows, false, &state, stacks, 3);
    for (int k = 0; k < 4; k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* the inner loop's weights are the same for all samples, but change with every step of the outer one */
static Graph *changing_weights(void)
{
    Graph *g = begin();
    int64_t rows = 3, columns = 4, d = 48;
    Node *x = input(g, SHAPE(rows, columns, d)), *w0 = straight(g, SHAPE(d, d)), *y = input(g, SHAPE(d));
    Graph *b = graph_open_body(g, "rows");
    Node *h = graph_scan_carry(b, y, false), *w = graph_scan_carry(b, w0, false), *xt = graph_scan_sequence(b, x);
    Node *scaled = in(b, OP_MUL, w, number(b, 0.25));
    Graph *i = graph_open_body(b, "columns");
    Node *s = graph_scan_carry(i, h, false), *xs = graph_scan_sequence(i, xt);
    Node *both[] = {s, graph_capture(i, scaled)};
    Node *next = in(i, OP_TANH, in(i, OP_ADD, graph_einsum(i, "a,ab->b", both, 2, false), xs), NULL);
    Node *inner = graph_close_scan(i, columns, false, &next, NULL, 0);
    Node *nexts[] = {graph_scan_result(b, inner, 0), in(b, OP_COS, w, NULL)};
    Node *scan = graph_close_scan(b, rows, false, nexts, nexts, 1);
    output(g, graph_scan_result(g, scan, 2));
    return g;
}

/* an attention over a captured memory, from a query that is carried; a convolution of what is carried */
static Graph *reads_memory(void)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(6, 3, 2, 4)), *memory = input(g, SHAPE(5, 2, 4)), *w = weight(g, SHAPE(3, 2, 3)),
         *c0 = input(g, SHAPE(9, 2));
    Graph *b = graph_open_body(g, "memory");
    Node *q = graph_scan_carry(b, graph_fill(g, 0.5, SHAPE(3, 2, 4), real), true), *c = graph_scan_carry(b, c0, false),
         *xt = graph_scan_sequence(b, x);
    Node *found = graph_attention(b, in(b, OP_ADD, q, xt), graph_capture(b, memory), graph_capture(b, memory), false, 0, 0.5);
    Node *some = graph_slice(g, memory, (int64_t[]){1, 0, 0}, (int64_t[]){3, 2, 4}, (int64_t[]){1, 1, 1});
    Node *direct = graph_attention(b, xt, xt, graph_capture(b, some), true, 0, 0.5);
    int64_t ints[] = {1, 1, 1, 1, 1, 1, 1};
    Node *both[] = {c, graph_capture(b, w)};
    Node *moved = graph_node(b, OP_CONVOLVE, both, 2, ints, COUNT(ints), NULL);
    Node *next[] = {in(b, OP_SUB, found, in(b, OP_MUL, direct, q)),
                    in(b, OP_TANH, graph_slice(b, moved, (int64_t[]){0, 0}, (int64_t[]){9, 2}, (int64_t[]){1, 1}), NULL)};
    Node *stacks[] = {found, moved};
    Node *scan = graph_close_scan(b, 6, false, next, stacks, 2);
    for (int k = 0; k < 4; k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* running sums, the k largest, and sums into rows, in a step; and of what is the same for all samples */
static Graph *rows_of_steps(bool samples)
{
    Graph *g = begin();
    int64_t big = samples ? 6 : 80; /* enough to share, if it were not in a loop */
    Node *x = samples ? input(g, SHAPE(5, big, 4)) : straight(g, SHAPE(5, big, 4)), *i = new_input(g, I32, SHAPE(5, big), 7);
    Graph *b = graph_open_body(g, "rows");
    Node *table = graph_scan_carry(b, graph_fill(g, 0, SHAPE(7, 4), real), false), *xt = graph_scan_sequence(b, x);
    Node *own = NODE(b, OP_CUMSUM, ((int64_t[]){0, 1}), 2, NULL, xt);
    Node *sums = NODE(b, OP_CUMSUM, ((int64_t[]){0, 0}), 2, NULL,
                      in(b, OP_ADD, xt, graph_broadcast(b, graph_max(b, table, (int[]){0}, 1), SHAPE(big, 4))));
    Node *best = NODE(b, OP_TOP_K, ((int64_t[]){0, 3, 0}), 3, NULL, sums),
         *at = NODE(b, OP_TOP_K, ((int64_t[]){0, 3, 1}), 3, NULL, sums);
    Node *mixed = in(b, OP_TANH, in(b, OP_ADD, table, graph_sum(b, own, (int[]){0, 1}, 2)), NULL);
    if (samples)
        mixed = graph_scatter_add(b, mixed, graph_scan_sequence(b, i), sums, 0, false);
    Node *next = in(b, OP_SIN, mixed, NULL), *stacks[] = {sums, best, at, own, in(b, OP_MUL, best, best)};
    Node *scan = graph_close_scan(b, 5, false, &next, stacks, COUNT(stacks));
    for (int k = 0; k < 1 + COUNT(stacks); k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* sequences that are views, constants, the same for all samples; empty values; a value of one number */
static Graph *sequences(void)
{
    Graph *g = begin();
    Node *x = input(g, SHAPE(24)), *w = weight(g, SHAPE(4, 3)), *o = weight(g, SHAPE(3, 4)), *u = input(g, SHAPE(2, 6)),
         *e = input(g, SHAPE(4, 0));
    static const int TURNED[] = {1, 0};
    for (int i = 0; i < 2; i++)
        g->model->variables[w->ints[0]].order[i] = g->model->variables[o->ints[0]].order[i] = TURNED[i];
    Graph *b = graph_open_body(g, "sequences");
    Node *h = graph_scan_carry(b, graph_number(g, 0.5, real), true),
         *nothing = graph_scan_carry(b, graph_fill(g, 0, SHAPE(0), real), true);
    Node *turned = graph_scan_carry(b, o, false);
    Node *a = graph_scan_sequence(b, graph_reshape(g, x, SHAPE(4, 6))), *v = graph_scan_sequence(b, w);
    Node *zeros = graph_scan_sequence(b, graph_fill(g, 0.125, SHAPE(4, 6), real));
    Node *ut = graph_scan_sequence(b, graph_reshape(g, graph_transpose(g, u, (int[]){1, 0}), SHAPE(4, 3)));
    Node *et = graph_scan_sequence(b, e), *counted = graph_scan_sequence(b, graph_cast(g, graph_arange(g, 4), real));
    Node *sum = graph_sum(b, in(b, OP_MUL, in(b, OP_ADD, a, zeros), in(b, OP_SIN, a, NULL)), (int[]){0}, 1);
    sum = in(b, OP_ADD, sum, graph_sum(b, in(b, OP_MUL, v, ut), (int[]){0}, 1));
    Node *state = in(b, OP_SIN, in(b, OP_ADD, in(b, OP_ADD, h, sum), counted), NULL);
    Node *next[] = {state, in(b, OP_ADD, nothing, et), in(b, OP_COS, turned, NULL)},
         *stacks[] = {state, graph_broadcast(b, state, SHAPE(2)), et, counted};
    Node *scan = graph_close_scan(b, 4, false, next, stacks, COUNT(stacks));
    for (int k = 0; k < 7; k++)
        output(g, graph_scan_result(g, scan, k));
    return g;
}

/* sequences and captured values of bf16, in f32 in the body */
static Graph *halves(void)
{
    Graph *g = begin();
    Node *x = graph_cast(g, new_input(g, BF16, SHAPE(6, 33), 0), F32),
         *w = graph_cast(g, new_variable(g, BF16, SHAPE(33, 40)), F32);
    Node *v = graph_cast(g, new_variable(g, BF16, SHAPE(40)), F32), *y = graph_cast(g, new_input(g, BF16, SHAPE(40), 0), F32);
    Graph *b = graph_open_body(g, "halves");
    Node *h = graph_scan_carry(b, y, false), *xt = graph_scan_sequence(b, x);
    Node *both[] = {xt, graph_capture(b, w)};
    Node *next =
        in(b, OP_TANH, in(b, OP_ADD, in(b, OP_MUL, graph_einsum(b, "a,ab->b", both, 2, false), graph_capture(b, v)), h), NULL);
    Node *scan = graph_close_scan(b, 6, false, &next, &next, 1);
    output(g, graph_scan_result(g, scan, 0));
    output(g, graph_scan_result(g, scan, 1));
    return g;
}

/* ---- cases */

/* one of `every` */
static void add_scans(const char *type, int every)
{
    const struct {
        const char *name;
        Graph *graph;
    } list[] = {{"a recurrence", decay(37, false)},
                {"a recurrence, backwards", decay(37, true)},
                {"one step", decay(1, false)},
                {"the last value alone", half_used(true)},
                {"the stack alone", half_used(false)},
                {"LSTM", lstm(37, 8, false)},
                {"LSTM with all values", lstm(5, 19, true)},
                {"a product with the turned weight", backwards()},
                {"the same for all samples", replicated()},
                {"with and without samples", mixed()},
                {"values pass through", shifts(false)},
                {"a carry that another becomes", shifts(true)},
                {"two products", two_products()},
                {"captured values", captured()},
                {"maxima and sums in a step", forward_algorithm()},
                {"a scan in a scan", nested(false)},
                {"a scan in a scan, straight", nested(true)},
                {"weights that an outer loop changes", changing_weights()},
                {"sequences of all kinds", sequences()},
                {"attention and a convolution in a step", reads_memory()},
                {"rows in a step", rows_of_steps(true)},
                {"rows in a step, the same for all samples", rows_of_steps(false)}};
    for (int i = 0; i < COUNT(list); i += every) {
        add_case(format("%s, %s%s", list[i].name, type, batch ? ", in chunks" : ""), list[i].graph);
        cases[case_count - 1].tolerance = real == F64 ? 1e-12 : 2e-5;
    }
}

/* returns how many are chosen; they come first. In chunks and in f32: one of `every` */
static int add_scan_cases(int random_count, int every)
{
    seed_random(5);
    add_scans("f64", 1);
    batch = 2;
    add_scans("f64", every);
    batch = 0;
    real = F32;
    add_scans("f32", every);
    add_case("bf16 outside of the loop", halves());
    cases[case_count - 1].tolerance = 1e-5;
    real = F64;
    int chosen = case_count;
    for (int i = 0; i < random_count; i++)
        add_random_case(format("random scan %d", i), random_loop(i, F64), F64);
    return chosen;
}
#endif
