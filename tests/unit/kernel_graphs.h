/* kernel_graphs.h: the graphs whose kernels are compared with the interpreter: chosen ones, and random ones in f64. */
#ifndef KERNEL_GRAPHS_H
#define KERNEL_GRAPHS_H

#include "kernel_machine.h"

enum { MOST_ELEMENTS = 400 };

static bool in_brief; /* without what takes long on virtual GPUs, and what the host runs there: cuda_emit_test */

/* ---- random graphs */

typedef struct Pool { Graph *g; Node *nodes[256]; int count; } Pool;

static void keep(Pool *p, Node *n)
{
    if (n && shape_count(&n->shape) <= MOST_ELEMENTS && p->count < COUNT(p->nodes))
        p->nodes[p->count++] = n;
}

static Node *any(const Pool *p)
{
    int back = (int)draw(4) ? 12 : p->count; /* mostly what is new */
    int from = p->count > back ? p->count - back : 0;
    return p->nodes[from + draw(p->count - from)];
}

static Node *any_float(const Pool *p)
{
    for (;;) {
        Node *n = any(p);
        if (n->dtype == F64 && !n->weak)
            return n;
    }
}

static Shape any_shape(void)
{
    Shape s = {.rank = (int)draw(4)};
    for (int i = 0; i < s.rank; i++)
        s.extent[i] = draw(8) ? 1 + draw(6) : 1;
    return s;
}

/* a shape of the same number of elements */
static Shape reshaped(const Shape *s)
{
    int64_t left = shape_count(s);
    Shape r = {.rank = 0};
    while (left > 1 && r.rank < 4) {
        int64_t f = 2 + draw(5);
        if (left % f == 0) {
            r.extent[r.rank++] = f;
            left /= f;
        } else if (!draw(4)) {
            break;
        }
    }
    if (left != 1 || !r.rank)
        r.extent[r.rank++] = left;
    return r;
}

static bool broadcasts(const Node *a, const Node *b)
{
    for (int i = 1; i <= a->shape.rank && i <= b->shape.rank; i++) {
        int64_t x = a->shape.extent[a->shape.rank - i], y = b->shape.extent[b->shape.rank - i];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

static Node *bounded(Graph *g, Node *n) { return graph_unary(g, OP_TANH, n); }

static Node *any_unary(Pool *p)
{
    static const Op OPS_OF[] = {OP_ABS, OP_EXP, OP_SIN, OP_COS, OP_TANH, OP_ERF, OP_EXPM1, OP_LOGISTIC};
    Node *n = any_float(p);
    Op op = OPS_OF[draw(COUNT(OPS_OF))];
    return graph_unary(p->g, op, op == OP_EXP ? bounded(p->g, n) : n);
}

static Node *any_binary(Pool *p)
{
    static const Op OPS_OF[] = {OP_ADD, OP_SUB, OP_MUL, OP_MUL, OP_MINIMUM, OP_MAXIMUM, OP_ATAN2};
    Node *a = any_float(p), *b = any_float(p);
    for (int i = 0; i < 20 && !broadcasts(a, b); i++)
        b = any_float(p);
    if (!broadcasts(a, b))
        return NULL;
    if (!draw(6)) /* quotient, root, power, logarithm: of what is positive */
        b = graph_binary(p->g, OP_ADD, graph_unary(p->g, OP_ABS, b), graph_number(p->g, 0.5, F64));
    else
        return graph_binary(p->g, OPS_OF[draw(COUNT(OPS_OF))], a, b);
    switch (draw(4)) {
    case 0: return graph_binary(p->g, OP_DIV, a, b);
    case 1: return graph_unary(p->g, OP_SQRT, b);
    case 2: return graph_unary(p->g, OP_LOG, b);
    default: return graph_binary(p->g, OP_POW, b, bounded(p->g, a));
    }
}

static Node *any_where(Pool *p)
{
    Node *a = any_float(p), *b = any_float(p), *c = any_float(p), *d = any_float(p);
    if (!broadcasts(a, b))
        b = graph_number(p->g, 0.125, F64);
    Node *test = graph_binary(p->g, draw(2) ? OP_LT : OP_LE, a, b);
    if (!draw(3))
        test = graph_binary(p->g, draw(2) ? OP_AND : OP_OR, test, graph_valid(p->g));
    if (!broadcasts(test, c))
        c = graph_number(p->g, 2, F64);
    Node *most = graph_binary(p->g, OP_ADD, graph_cast(p->g, test, F64), c);
    if (!broadcasts(most, d))
        d = graph_number(p->g, 0, F64);
    return graph_where(p->g, test, c, d);
}

static Node *any_view(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p);
    int r = x->shape.rank;
    int64_t a[MAX_RANK], b[MAX_RANK], c[MAX_RANK];
    int order[MAX_RANK];
    switch (draw(7)) {
    case 0:
        return graph_reshape(g, x, reshaped(&x->shape));
    case 1:
        for (int i = 0; i < r; i++)
            order[i] = i;
        for (int i = r - 1; i > 0; i--) {
            int k = (int)draw(i + 1), t = order[i];
            order[i] = order[k];
            order[k] = t;
        }
        return graph_transpose(g, x, order);
    case 2:
    case 3:
        for (int i = 0; i < r; i++) { /* start, count, step */
            int64_t e = x->shape.extent[i], step = 1 + draw(3), start = draw(e);
            bool back = !draw(3);
            c[i] = back ? -step : step;
            a[i] = start;
            b[i] = 1 + (back ? start : e - 1 - start) / step;
        }
        return graph_slice(g, x, a, b, c);
    case 4:
        for (int i = 0; i < r; i++)
            a[i] = draw(3), b[i] = draw(3);
        return graph_pad(g, x, a, b, draw(2) ? 0 : 0.5);
    case 5: {
        Shape s = x->shape;
        if (r == MAX_RANK - 1)
            return NULL;
        for (int i = s.rank; i > 0; i--)
            s.extent[i] = s.extent[i - 1] == 1 ? 1 + draw(3) : s.extent[i - 1];
        s.extent[0] = 1 + draw(3);
        s.rank++;
        return graph_broadcast(g, x, s);
    }
    default: {
        if (!r)
            return NULL;
        Node *parts[3] = {x, graph_unary(g, OP_TANH, x), x};
        return graph_concat(g, parts, 2 + (int)draw(2), (int)draw(r));
    }
    }
}

static Node *any_unslice(Pool *p)
{
    Node *x = any_float(p);
    int r = x->shape.rank;
    int64_t ints[3 * MAX_RANK];
    for (int i = 0; i < r; i++) {
        int64_t count = x->shape.extent[i], step = 1 + draw(3), before = draw(3), last = before + (count - 1) * step;
        bool back = draw(2);
        ints[i] = back ? last : before;
        ints[r + i] = back ? -step : step;
        ints[2 * r + i] = last + 1 + draw(3);
    }
    return NODE(p->g, OP_UNSLICE, ints, 3 * r, NULL, x);
}

static Node *any_reduction(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p);
    int axes[MAX_RANK], count = 0;
    for (int i = 0; i < x->shape.rank; i++)
        if (draw(2))
            axes[count++] = i;
    switch (draw(6)) {
    case 0:
        return count ? graph_max(g, x, axes, count) : NULL;
    case 1:
        return x->sharded ? graph_sum_samples(g, bounded(g, x), axes, count) : NULL;
    case 2:
        if (!x->shape.rank)
            return NULL;
        int64_t axis = draw(x->shape.rank);
        return graph_cast(g, NODE(g, OP_ARGMAX, &axis, 1, NULL, x), F64);
    case 3: { /* softmax over the axes: the shape of a row kernel with several stages */
        if (!count)
            return NULL;
        Shape kept = x->shape;
        for (int i = 0; i < count; i++)
            kept.extent[axes[i]] = 1;
        Node *most = graph_broadcast(g, graph_reshape(g, graph_max(g, x, axes, count), kept), x->shape);
        Node *e = graph_unary(g, OP_EXP, graph_binary(g, OP_SUB, x, most));
        Node *sum = graph_broadcast(g, graph_reshape(g, graph_sum(g, e, axes, count), kept), x->shape);
        return graph_binary(g, OP_DIV, e, sum);
    }
    case 4:
        return x->sharded ? graph_group_sum(g, bounded(g, x), draw(4)) : NULL;
    default:
        return count ? graph_sum(g, x, axes, count) : NULL;
    }
}

static Node *any_window(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p);
    int r = x->shape.rank;
    int64_t ints[5 * MAX_RANK];
    bool large = !draw(4);
    for (int i = 0; i < r; i++) {
        int64_t extent = x->shape.extent[i], size = large ? extent : 1 + draw(extent < 3 ? extent : 3), before = draw(size), after = draw(size);
        ints[i] = size;
        ints[r + i] = 1 + draw(3);
        ints[2 * r + i] = before < (size + 1) / 2 ? before : 0;
        ints[3 * r + i] = after < (size + 1) / 2 ? after : 0;
        int64_t stride = ints[r + i], padded = extent + ints[2 * r + i] + ints[3 * r + i];
        if ((padded - size) / stride * stride - ints[2 * r + i] >= extent)
            ints[3 * r + i] = 0;
        ints[4 * r + i] = extent;
    }
    Node *most = NODE(g, OP_WINDOW_MAX, ints, 4 * r, NULL, x), *at = NODE(g, OP_WINDOW_ARGMAX, ints, 4 * r, NULL, x);
    Node *sum = NODE(g, OP_WINDOW_SUM, ints, 4 * r, NULL, x);
    Node *back = graph_unary(g, OP_SIN, most);
    switch (draw(5)) {
    case 0: return most;
    case 1: return graph_binary(g, OP_ADD, graph_cast(g, at, F64), most);
    case 2: return sum;
    case 3: return NODE(g, OP_WINDOW_MAX_GRADIENT, ints, 5 * r, NULL, at, back);
    default: return NODE(g, OP_WINDOW_SUM_GRADIENT, ints, 5 * r, NULL, back);
    }
}

static Node *any_index(Pool *p, int64_t extent)
{
    Graph *g = p->g;
    switch (draw(3)) {
    case 0: { /* whole numbers around the range */
        Node *x = any_float(p);
        Node *wide = graph_binary(g, OP_MUL, bounded(g, x), graph_number(g, (double)extent * 1.2, F64));
        return shape_count(&x->shape) <= 12 ? graph_cast(g, wide, I32) : graph_arange(g, extent);
    }
    case 1: /* a mirrored, shifted range */
        return graph_binary(g, OP_SUB, graph_number(g, (double)extent, I32), graph_arange(g, 1 + draw(5)));
    default:
        return graph_arange(g, 1 + draw(extent + 2));
    }
}

static Node *any_indexed(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p);
    if (!x->shape.rank)
        return NULL;
    int64_t axis = draw(x->shape.rank);
    Node *i = any_index(p, x->shape.extent[axis]);
    if (x->shape.rank - 1 + i->shape.rank > MAX_RANK || shape_count(&x->shape) * shape_count(&i->shape) > MOST_ELEMENTS)
        return NULL;
    Node *y = NODE(g, OP_GATHER, &axis, 1, NULL, x, i);
    if (draw(2))
        return y;
    bool over = !x->sharded && (i->sharded || y->sharded);
    return graph_scatter_add(g, x, i, bounded(g, y), (int)axis, over);
}

static Node *any_einsum(Pool *p)
{
    Graph *g = p->g;
    Node *a = any_float(p), *b = any_float(p);
    if (!a->shape.rank || !b->shape.rank || a->shape.rank + b->shape.rank > 6)
        return NULL;
    char spec[32], *at = spec;
    char left[MAX_RANK], right[MAX_RANK];
    for (int i = 0; i < a->shape.rank; i++)
        left[i] = (char)('a' + i);
    for (int i = 0; i < b->shape.rank; i++) {
        right[i] = (char)('k' + i);
        for (int k = 0; k < a->shape.rank; k++) {
            bool taken = false;
            for (int j = 0; j < i; j++)
                taken = taken || right[j] == left[k];
            if (!taken && a->shape.extent[k] == b->shape.extent[i] && draw(3))
                right[i] = left[k];
        }
    }
    for (int i = 0; i < a->shape.rank; i++)
        *at++ = left[i];
    *at++ = ',';
    for (int i = 0; i < b->shape.rank; i++)
        *at++ = right[i];
    *at++ = '-';
    *at++ = '>';
    for (int i = 0; i < a->shape.rank; i++)
        if (draw(2))
            *at++ = left[i];
    for (int i = 0; i < b->shape.rank; i++)
        if (right[i] >= 'k' && draw(2))
            *at++ = right[i];
    *at = 0;
    Node *in[2] = {bounded(g, a), bounded(g, b)};
    Node *y = graph_einsum(g, copy_text(spec, strlen(spec)), in, 2, (a->sharded || b->sharded) && !draw(3));
    return shape_count(&y->shape) <= MOST_ELEMENTS ? y : NULL;
}

/* running sums, the k largest and their places */
static Node *any_rows(Pool *p)
{
    Node *x = any_float(p);
    if (!x->shape.rank)
        return NULL;
    int64_t axis = draw(x->shape.rank), extent = x->shape.extent[axis];
    if (draw(2))
        return NODE(p->g, OP_CUMSUM, ((int64_t[]){axis, draw(2)}), 2, NULL, bounded(p->g, x));
    int64_t ints[3] = {axis, 1 + draw(extent), 0};
    Node *values = NODE(p->g, OP_TOP_K, ints, 3, NULL, x);
    ints[2] = 1;
    return draw(2) ? values : graph_binary(p->g, OP_MUL, values, graph_cast(p->g, NODE(p->g, OP_TOP_K, ints, 3, NULL, x), F64));
}

static Node *any_node(Pool *p)
{
    switch (draw(13)) {
    case 0: case 1: return any_unary(p);
    case 2: case 3: return any_binary(p);
    case 4: return any_where(p);
    case 5: case 6: return any_view(p);
    case 7: return any_reduction(p);
    case 8: return any_window(p);
    case 9: return draw(2) ? any_indexed(p) : any_unslice(p);
    case 10: return any_einsum(p);
    case 11: return any_rows(p);
    default: {
        Node *x = any_float(p);
        Node *r = graph_random(p->g, x->shape, format("path%d", (int)draw(3)), draw(2));
        return graph_binary(p->g, OP_MUL, graph_cast(p->g, r, F64), x);
    }
    }
}

static void add_results(Pool *p, int count)
{
    Graph *g = p->g;
    Node *output = NULL;
    for (int k = 0; k < count; k++) {
        Node *n = p->nodes[p->count - 1 - (k ? (int)draw(p->count / 2) : 0)];
        if (n->sharded) {
            graph_result(g, ROLE_OUTPUT, format("o%d", k), 0, n, NULL);
            output = n;
            continue;
        }
        if (n->shape.rank == 0 && n->dtype == F64)
            graph_result(g, ROLE_REPORT, format("r%d", k), 0, n, NULL);
        int v = -1; /* an updated variable that the graph reads, if one has the shape */
        for (int i = 0; i < g->node_count && v < 0; i++) {
            const Node *m = g->nodes[i];
            if (m->op == OP_VARIABLE && m->dtype == n->dtype && shape_equal(&m->shape, &n->shape) && !graph_find_result(g, ROLE_UPDATE, (int)m->ints[0]))
                v = (int)m->ints[0];
        }
        if (v < 0) {
            new_variable(g, n->dtype, n->shape);
            v = g->model->variable_count - 1;
        }
        graph_result(g, ROLE_UPDATE, NULL, v, n, NULL);
    }
    if (!output)
        graph_result(g, ROLE_OUTPUT, "last", 0, p->nodes[0], NULL);
}

static void add_random_case(int number)
{
    random_state = 0x9E3779B97F4A7C15u * (uint64_t)(number + 1);
    Model *m = new_model();
    Pool p = {.g = new_graph(m)};
    keep(&p, new_input(p.g, F64, any_shape(), 0));
    keep(&p, graph_cast(p.g, new_input(p.g, U8, any_shape(), 0), F64));
    keep(&p, graph_cast(p.g, new_input(p.g, I32, any_shape(), 0), F64));
    for (int i = 0; i < 4; i++) {
        keep(&p, new_variable(p.g, F64, any_shape()));
        keep(&p, new_input(p.g, F64, any_shape(), 0));
    }
    int wanted = 8 + (int)draw(24);
    for (int i = 0; i < 200 && wanted > 0; i++) {
        Node *n = any_node(&p);
        int before = p.count;
        if (n && n->dtype == F64)
            keep(&p, n);
        wanted -= p.count > before;
    }
    add_results(&p, 2 + (int)draw(4));
    add_case(format("random graph %d", number), p.g);
}

/* ---- chosen graphs */

/* dense layers, cross-entropy and its gradient, momentum: what a training step looks like */
static Graph *perceptron(int depth, int64_t width, Dtype t)
{
    Graph *g = new_graph(new_model());
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
    Graph *g = new_graph(new_model());
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
    Graph *g = new_graph(new_model());
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
    Graph *g = new_graph(new_model());
    Node *x = new_input(g, F64, SHAPE(11), 0);
    Node *big = graph_binary(g, OP_MUL, x, graph_number(g, 300, F64));
    for (int t = U8; t <= I64; t++) {
        Node *i = graph_cast(g, big, (Dtype)t), *j = graph_cast(g, graph_binary(g, OP_MUL, x, graph_number(g, 7, F64)), (Dtype)t);
        Node *sum = graph_binary(g, OP_SUB, graph_binary(g, OP_MUL, i, j), j);
        graph_result(g, ROLE_OUTPUT, format("a%d", t), 0, graph_cast(g, sum, F64), NULL);
        graph_result(g, ROLE_OUTPUT, format("b%d", t), 0, graph_cast(g, graph_binary(g, OP_MOD, i, j), F64), NULL);
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
    return g;
}

/* what workers share in each of the ways: large enough to be worth it */
static Graph *shared_work(void)
{
    Graph *g = new_graph(new_model());
    Node *x = new_input(g, F64, SHAPE(30, 24), 0), *i = new_input(g, I32, SHAPE(6), 50);
    Node *w = new_variable(g, F64, SHAPE(90, 100)), *v = new_variable(g, F64, SHAPE(3, 4096)), *table = new_variable(g, F64, SHAPE(50, 24));
    Node *wide = new_variable(g, F64, SHAPE(70000)), *y = graph_cast(g, new_input(g, U8, SHAPE(70000), 0), F64);
    /* range: element-wise, transposed, rows, a norm */
    graph_result(g, ROLE_UPDATE, NULL, (int)w->ints[0], graph_binary(g, OP_ADD, w, graph_number(g, 1, F64)), NULL);
    Node *turned = graph_transpose(g, bounded(g, w), (int[]){1, 0}), *square = graph_binary(g, OP_MUL, w, w);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(100, 90))->ints[0], turned, NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(90))->ints[0], graph_sum(g, square, (int[]){1}, 1), NULL);
    graph_result(g, ROLE_REPORT, "norm", 0, graph_unary(g, OP_SQRT, graph_sum(g, square, (int[]){0, 1}, 2)), NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(3))->ints[0], graph_sum(g, bounded(g, v), (int[]){1}, 1), NULL);
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
    Graph *g = new_graph(new_model());
    Node *x = new_input(g, F64, SHAPE(7, 6), 0), *factor = new_variable(g, F64, SHAPE(2));
    Node *wide = graph_broadcast(g, graph_reshape(g, x, SHAPE(7, 1, 6)), SHAPE(7, 2, 6));
    Node *factors = graph_broadcast(g, graph_reshape(g, factor, SHAPE(1, 2, 1)), SHAPE(7, 2, 6));
    Node *spread = select_valid(g, graph_binary(g, OP_MUL, wide, factors));
    graph_result(g, ROLE_OUTPUT, "spread", 0, spread, NULL);
    graph_result(g, ROLE_UPDATE, NULL, (int)new_variable(g, F64, SHAPE(6))->ints[0], graph_sum_samples(g, spread, (int[]){0, 1}, 2), NULL);
    return g;
}

/* values between 1 and 2 in bf16: they are rounded once, where they are stored */
static Graph *halves(void)
{
    Graph *g = new_graph(new_model());
    Node *x = new_input(g, BF16, SHAPE(40, 33), 0), *w = new_variable(g, BF16, SHAPE(33)), *table = new_variable(g, BF16, SHAPE(9, 33));
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
    random_state = 1;
    add_case("swapped variables", swaps());
    add_case("empty tensors", edges());
    add_case("whole numbers", whole_numbers());
    add_case("a perceptron's step", perceptron(3, 12, F64));
    add_case("work that workers share", shared_work());
    add_case("stores in runs", spread_lanes());
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
        add_random_case(i);
    return chosen;
}
#endif
