/* graphs.c: make random graphs. Operations on random nodes of a pool are added to the pool; the last nodes and some others become
 * results. Graphs compute in f64 or f32, with integers of every type, in f32 also with inputs and variables of bf16 and f16, and
 * with values that stay small. */
#include "compiler/selftest/cases.h"
#include "compiler/ir/rebuild.h"
#include "runtime/abi/mgpu_tables.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 400 };
typedef struct Pool {
    Graph *g;
    Dtype real;
    Node *nodes[256];
    int count;
} Pool; /* nodes to draw from */

static void add_node(Pool *p, Node *n)
{
    if (n && shape_count(&n->shape) <= MOST_ELEMENTS && p->count < COUNT(p->nodes))
        p->nodes[p->count++] = n;
}

static Node *any(const Pool *p)
{
    int back = (int)draw(4) ? 12 : p->count; /* mostly recent nodes */
    int from = p->count > back ? p->count - back : 0;
    return p->nodes[from + draw(p->count - from)];
}

static Node *any_float(const Pool *p)
{
    for (;;) {
        Node *n = any(p);
        if (n->dtype == p->real && !n->weak)
            return n;
    }
}

/* Draws mostly small odd extents, and some that are a few vectors long. */
static Shape any_shape(void)
{
    Shape s = {.rank = (int)draw(4)};
    for (int i = 0; i < s.rank; i++)
        s.extent[i] = !draw(8) ? 1 : draw(6) ? 1 + draw(6) : 7 + draw(34);
    while (shape_count(&s) > MOST_ELEMENTS)
        s.extent[draw(s.rank)] = 1 + draw(6);
    return s;
}

/* Draws a shape with the same number of elements. */
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

/* NULL: none was among a few that were drawn */
static Node *any_whole(const Pool *p)
{
    for (int i = 0; i < 40; i++) {
        Node *n = any(p);
        if (n->dtype != BOOL && !dtype_is_float(n->dtype))
            return n;
    }
    return NULL;
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
    return graph_unary(p->g, op, op == OP_EXP || op == OP_EXPM1 ? bounded(p->g, n) : n);
}

static Node *any_binary(Pool *p)
{
    static const Op OPS_OF[] = {OP_ADD, OP_SUB, OP_MUL, OP_MUL, OP_MINIMUM, OP_MAXIMUM, OP_ATAN2};
    Node *a = any_float(p), *b = any_float(p);
    for (int i = 0; i < 20 && !broadcasts(a, b); i++)
        b = any_float(p);
    if (!broadcasts(a, b))
        return NULL;
    if (!draw(6)) /* quotients, roots, powers and logarithms need positive numbers */
        b = graph_binary(p->g, OP_ADD, graph_unary(p->g, OP_ABS, b), graph_number(p->g, 0.5, p->real));
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
        b = graph_number(p->g, 0.125, p->real);
    Node *test = graph_binary(p->g, draw(2) ? OP_LT : OP_LE, a, b);
    if (!draw(3))
        test = graph_binary(p->g, draw(2) ? OP_AND : OP_OR, test, graph_valid(p->g));
    if (!broadcasts(test, c))
        c = graph_number(p->g, 2, p->real);
    Node *most = graph_binary(p->g, OP_ADD, graph_cast(p->g, test, p->real), c);
    if (!broadcasts(most, d))
        d = graph_number(p->g, 0, p->real);
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
    case 0: return graph_reshape(g, x, reshaped(&x->shape));
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
    case 0: return count ? graph_max(g, x, axes, count) : NULL;
    case 1: return x->has_samples ? graph_sum_samples(g, bounded(g, x), axes, count) : NULL;
    case 2:
        if (!x->shape.rank)
            return NULL;
        int64_t axis = draw(x->shape.rank);
        return graph_cast(g, NODE(g, OP_ARGMAX, &axis, 1, NULL, x), p->real);
    case 3: { /* softmax over the axes, which makes a row kernel with several stages */
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
    case 4: return x->has_samples ? graph_group_sum(g, bounded(g, x), draw(4)) : NULL;
    default: return count ? graph_sum(g, x, axes, count) : NULL;
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
        int64_t extent = x->shape.extent[i], size = large ? extent : 1 + draw(extent < 3 ? extent : 3), before = draw(size),
                after = draw(size);
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
    case 1: return graph_binary(g, OP_ADD, graph_cast(g, at, p->real), most);
    case 2: return sum;
    case 3: return NODE(g, OP_WINDOW_MAX_GRADIENT, ints, 5 * r, NULL, at, back);
    default: return NODE(g, OP_WINDOW_SUM_GRADIENT, ints, 5 * r, NULL, back);
    }
}

static Node *any_index(Pool *p, int64_t extent)
{
    Graph *g = p->g;
    switch (draw(3)) {
    case 0: { /* integers in the range and around it */
        Node *x = any_float(p);
        Node *wide = graph_binary(g, OP_MUL, bounded(g, x), graph_number(g, (double)extent * 1.2, p->real));
        return shape_count(&x->shape) <= 12 ? graph_cast(g, wide, I32) : graph_arange(g, extent);
    }
    case 1: /* a mirrored, shifted range */
        return graph_binary(g, OP_SUB, graph_number(g, (double)extent, I32), graph_arange(g, 1 + draw(5)));
    default: return graph_arange(g, 1 + draw(extent + 2));
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
    bool over = !x->has_samples && (i->has_samples || y->has_samples);
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
    Node *y = graph_einsum(g, copy_text(spec, strlen(spec)), in, 2, (a->has_samples || b->has_samples) && !draw(3));
    return shape_count(&y->shape) <= MOST_ELEMENTS ? y : NULL;
}

#define RUNNING_OP(NAME, ...) OP_##NAME,
static const Op RUNNING_OPS[] = {MGPU_RUNNING_TABLE(RUNNING_OP)};

/* Makes a running operation, or the k largest numbers and their places. */
static Node *any_rows(Pool *p)
{
    Node *x = any_float(p);
    if (!x->shape.rank)
        return NULL;
    int64_t axis = draw(x->shape.rank), extent = x->shape.extent[axis];
    if (draw(2))
        return NODE(p->g, RUNNING_OPS[draw(COUNT(RUNNING_OPS))], ((int64_t[]){axis, draw(2)}), 2, NULL, bounded(p->g, x));
    int64_t ints[3] = {axis, 1 + draw(extent), 0};
    Node *values = NODE(p->g, OP_TOP_K, ints, 3, NULL, x);
    ints[2] = 1;
    return draw(2) ? values
                   : graph_binary(p->g, OP_MUL, values, graph_cast(p->g, NODE(p->g, OP_TOP_K, ints, 3, NULL, x), p->real));
}

static const Dtype WHOLE[] = {U8, I8, U16, I16, U32, I32, I64};

/* Makes constants like those of initial values, masks and adjoints: ones and then zeros, other numbers and then a repeated one,
 * or any small ones. */
static Node *any_constant(Pool *p)
{
    Shape s = any_shape();
    int64_t count = shape_count(&s), head = draw(count + 1);
    if (s.rank == 0)
        return NULL;
    double *data = NEW_ARRAY(double, count), rest = draw(2) ? 0 : (double)draw(5);
    int64_t kind = draw(3);
    for (int64_t i = 0; i < count; i++)
        data[i] = kind == 0 ? (i < head ? 1 : 0) : kind == 1 ? (i < head ? (double)draw(4) : rest) : (double)draw(9) / 4;
    Dtype t = draw(2) ? p->real : WHOLE[draw(COUNT(WHOLE))];
    for (int64_t i = 0; i < count && t != p->real; i++)
        data[i] = floor(data[i]);
    return graph_constant(p->g, data, s, t);
}

static Node *small_whole(Graph *g, Node *n) /* Limits integers to what 64 bits and a double represent. */
{
    Node *most = graph_number(g, 50, n->dtype);
    n = graph_binary(g, OP_MINIMUM, n, most);
    return n->dtype == I8 || n->dtype == I16 || n->dtype == I32 || n->dtype == I64
               ? graph_binary(g, OP_MAXIMUM, n, graph_number(g, -50, n->dtype))
               : n;
}

/* Makes operations on integers, which come from floats, constants and places, and become floats again. */
static Node *any_of_whole(Pool *p)
{
    static const Op OPS_OF[] = {OP_ADD, OP_SUB, OP_MUL, OP_MINIMUM, OP_MAXIMUM};
    Graph *g = p->g;
    Node *a = any_whole(p);
    Dtype t = WHOLE[draw(COUNT(WHOLE))];
    if (!a || !draw(4)) {
        Node *wide = graph_binary(g, OP_MUL, graph_unary(g, OP_ABS, bounded(g, any_float(p))), graph_number(g, 20, p->real));
        return graph_cast(g, graph_unary(g, OP_FLOOR, wide), t);
    }
    Node *b = any_whole(p);
    int axes[MAX_RANK], count = 0;
    for (int i = 0; i < a->shape.rank; i++)
        if (draw(2))
            axes[count++] = i;
    switch (draw(6)) {
    case 0: return graph_cast(g, a, p->real);
    case 1: return count ? graph_max(g, a, axes, count) : NULL;
    case 2: return count ? small_whole(g, graph_sum(g, small_whole(g, a), axes, count)) : NULL;
    case 3:
        if (!b || !broadcasts(a, b))
            return NULL;
        return graph_cast(g, graph_binary(g, draw(2) ? OP_LT : OP_EQ, graph_cast(g, a, I64), graph_cast(g, b, I64)),
                          draw(2) ? p->real : U8);
    default:
        if (!b || !broadcasts(a, b))
            return NULL;
        return small_whole(
            g, graph_binary(g, OPS_OF[draw(COUNT(OPS_OF))], small_whole(g, a), graph_cast(g, small_whole(g, b), a->dtype)));
    }
}

/* Makes sums and differences of conditional products, as in gradients of slices that are concatenated again. */
static Node *any_padded(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p);
    if (!x->shape.rank || x->shape.rank > MAX_RANK - 1)
        return NULL;
    int axis = (int)draw(x->shape.rank);
    int64_t extent = x->shape.extent[axis], half = extent / 2;
    if (half < 1)
        return NULL;
    Node *part[2];
    for (int k = 0; k < 2; k++) {
        int64_t start[MAX_RANK] = {0}, count[MAX_RANK], step[MAX_RANK], low[MAX_RANK] = {0}, high[MAX_RANK] = {0};
        for (int i = 0; i < x->shape.rank; i++)
            count[i] = x->shape.extent[i], step[i] = 1;
        start[axis] = k * half;
        count[axis] = half;
        low[axis] = k * half;
        high[axis] = extent - half - k * half;
        Node *own = graph_slice(g, x, start, count, step);
        Node *value = graph_binary(g, OP_MUL, own, k ? graph_unary(g, OP_EXP, bounded(g, own)) : graph_unary(g, OP_SIN, own));
        part[k] = graph_pad(g, draw(2) ? graph_binary(g, OP_ADD, value, own) : value, low, high, 0);
    }
    return graph_binary(g, draw(3) ? OP_ADD : OP_SUB, part[0], part[1]);
}

/* Makes bitwise operations, shifts and divisions of integers, including divisions by 0 and shifts by more than the width. */
static Node *any_of_bits(Pool *p)
{
    static const Op OPS_OF[] = {OP_BIT_AND, OP_BIT_OR, OP_BIT_XOR, OP_SHIFT_LEFT, OP_SHIFT_RIGHT, OP_QUOTIENT, OP_MOD};
    Graph *g = p->g;
    Node *a = any_whole(p), *b = any_whole(p);
    if (!a || !b || !broadcasts(a, b))
        return NULL;
    a = small_whole(g, a);
    b = small_whole(g, graph_cast(g, small_whole(g, b), a->dtype));
    if (!draw(6))
        return small_whole(g, graph_unary(g, OP_BIT_NOT, a));
    if (!draw(3)) /* one of the first three inside another: their results need no limit */
        b = draw(2) ? graph_binary(g, OPS_OF[draw(3)], a, b) : graph_unary(g, OP_BIT_NOT, b);
    if (!draw(6))
        return graph_binary(g, OPS_OF[draw(3)], graph_binary(g, OPS_OF[draw(3)], b, a), a);
    Op op = OPS_OF[draw(COUNT(OPS_OF))];
    return small_whole(g, graph_binary(g, op, a, b));
}

/* Chooses between integers of 8 or 16 bits and floats of 16 bits; all values are exact in both types. */
static Node *any_narrow(Pool *p)
{
    static const Dtype NARROW[] = {U8, I8, U16, I16};
    Graph *g = p->g;
    Node *a = any_whole(p), *x = any_float(p);
    if (!a || p->real != F32)
        return NULL;
    a = graph_cast(g, small_whole(g, a), NARROW[draw(COUNT(NARROW))]);
    Node *half = graph_cast(g, graph_cast(g, a, draw(2) ? BF16 : F16), F32);
    Node *other =
        graph_cast(g, small_whole(g, graph_cast(g, graph_binary(g, OP_MUL, bounded(g, x), graph_number(g, 40, F32)), I16)),
                   draw(2) ? BF16 : F16);
    other = graph_cast(g, other, F32);
    if (!broadcasts(half, other))
        return half;
    Node *test = graph_binary(g, draw(2) ? OP_LT : OP_EQ, half, other);
    if (draw(2))
        test = graph_unary(g, OP_NOT, test);
    return graph_where(g, test, half, other);
}

/* Adds rows that a mask selects to a table, at indices of any integer type, some of them out of range. */
static Node *any_masked_scatter(Pool *p)
{
    Graph *g = p->g;
    Node *x = any_float(p), *i = any_whole(p);
    if (!i || !x->shape.rank || shape_count(&i->shape) > 12)
        return NULL;
    int64_t axis = draw(x->shape.rank);
    if (x->shape.rank - 1 + i->shape.rank > MAX_RANK || shape_count(&x->shape) * shape_count(&i->shape) > MOST_ELEMENTS)
        return NULL;
    Node *rows = bounded(g, NODE(g, OP_GATHER, &axis, 1, NULL, x, i)),
         *chosen = graph_binary(g, OP_LT, rows, graph_number(g, .1, p->real));
    if (draw(2))
        chosen = graph_binary(g, draw(2) ? OP_AND : OP_OR, chosen, graph_valid(g));
    rows = graph_where(g, chosen, rows, graph_number(g, 0, p->real));
    return graph_scatter_add(g, x, i, rows, (int)axis, !x->has_samples && (i->has_samples || rows->has_samples));
}

static Node *any_node(Pool *p)
{
    switch (draw(18)) {
    case 16: return any_of_bits(p);
    case 17: return draw(2) ? any_narrow(p) : any_masked_scatter(p);
    case 13: return any_constant(p);
    case 14: return any_of_whole(p);
    case 15: return any_padded(p);
    case 0:
    case 1: return any_unary(p);
    case 2:
    case 3: return any_binary(p);
    case 4: return any_where(p);
    case 5:
    case 6: return any_view(p);
    case 7: return any_reduction(p);
    case 8: return any_window(p);
    case 9: return draw(2) ? any_indexed(p) : any_unslice(p);
    case 10: return any_einsum(p);
    case 11: return any_rows(p);
    default: {
        Node *x = any_float(p);
        Node *r = graph_random(p->g, x->shape, format("path%d", (int)draw(3)), draw(2));
        return graph_binary(p->g, OP_MUL, graph_cast(p->g, r, p->real), x);
    }
    }
}

static void add_results(Pool *p, int count)
{
    Graph *g = p->g;
    Node *output = NULL;
    for (int k = 0; k < count; k++) {
        Node *n = p->nodes[p->count - 1 - (k ? (int)draw(p->count / 2) : 0)];
        if (p->real == F32 && n->dtype == F32 && !draw(4))
            n = graph_cast(g, n, draw(2) ? BF16 : F16);
        if (n->has_samples) {
            graph_result(g, ROLE_OUTPUT, format("o%d", k), 0, n, NULL);
            output = n;
            continue;
        }
        if (n->shape.rank == 0 && n->dtype == F64)
            graph_result(g, ROLE_REPORT, format("r%d", k), 0, n, NULL);
        int v = -1; /* an updated variable that the graph reads, if one has the shape */
        for (int i = 0; i < g->node_count && v < 0; i++) {
            const Node *m = g->nodes[i];
            if (m->op == OP_VARIABLE && m->dtype == n->dtype && shape_equal(&m->shape, &n->shape) &&
                !graph_find_result(g, ROLE_UPDATE, (int)m->ints[0]))
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

Graph *random_graph(int number, Dtype real)
{
    seed_random(0x9E3779B97F4A7C15u * (uint64_t)(number + 1));
    Pool p = {.g = new_graph(new_model(0)), .real = real};
    Dtype half = real == F64 ? F64 : draw(2) ? BF16 : F16;
    add_node(&p, new_input(p.g, real, any_shape(), 0));
    add_node(&p, graph_cast(p.g, new_input(p.g, U8, any_shape(), 0), real));
    add_node(&p, graph_cast(p.g, new_input(p.g, I32, any_shape(), 0), real));
    add_node(&p, new_input(p.g, WHOLE[draw(COUNT(WHOLE))], any_shape(), 0));
    for (int i = 0; i < 4; i++) {
        add_node(&p, new_variable(p.g, real, any_shape()));
        add_node(&p, graph_cast(p.g, new_input(p.g, draw(2) ? real : half, any_shape(), 0), real));
    }
    add_node(&p, graph_cast(p.g, new_variable(p.g, half, any_shape()), real));
    int wanted = 8 + (int)draw(24);
    for (int i = 0; i < 200 && wanted > 0; i++) {
        Node *n = any_node(&p);
        int before = p.count;
        if (n && n->dtype != BOOL)
            add_node(&p, n);
        wanted -= p.count > before;
    }
    add_results(&p, 2 + (int)draw(4));
    return p.g;
}
