/* primitive.c: primitives called by name: arguments -> nodes. The graph has their shape rules (compiler/ir/ops.c); this file
 * handles defaults, negative axes, lists and numbers. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <string.h>

/* ---- arguments */

static Node *tensor(Elaborator *e, const Place *at, const Value *v, const char *what)
{
    Node *n = node_of(e, at, v, what);
    return n->weak ? graph_strong(graph_at(e, at), n, F32) : n;
}

static int axis_of(const Place *at, const Value *v, int rank, const char *function)
{
    int64_t axis = whole_of(at, v, "an axis");
    if (axis < -rank || axis >= rank)
        error_at(at, "%s: axis %" PRId64 " of a tensor of %d ax%s", function, axis, rank, rank == 1 ? "is" : "es");
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Reads axes: none for all, a number, or a list. Stores them in ascending order and returns their count. */
static int axes_of(const Place *at, const Value *v, int rank, const char *function, int *axes)
{
    bool chosen[MAX_RANK] = {false};
    if (v->kind == VALUE_NONE) {
        for (int k = 0; k < rank; k++)
            chosen[k] = true;
    } else if (v->kind == VALUE_LIST) {
        for (int k = 0; k < v->count; k++) {
            int axis = axis_of(at, v->items[k], rank, function);
            if (chosen[axis])
                error_at(at, "%s: axis %d is given twice", function, axis);
            chosen[axis] = true;
        }
    } else {
        chosen[axis_of(at, v, rank, function)] = true;
    }
    int count = 0;
    for (int k = 0; k < rank; k++)
        if (chosen[k])
            axes[count++] = k;
    return count;
}

static void no_weights(const Place *at, const Value *v, const char *function)
{
    if (v->kind == VALUE_WEIGHTED)
        error_at(at, "%s of a weighted value: its mean is taken by 'loss' and 'metric'; .value and .weight take it apart",
                 function);
}

/* Reads one number for all of n axes, or a list of n numbers. */
static void each_of(const Place *at, const Value *v, int n, const char *what, int64_t least, int64_t *out)
{
    if (v->kind == VALUE_LIST && v->count != n)
        error_at(at, "%s: a list of %d for %d ax%s; give one number, or one for each axis", what, v->count, n,
                 n == 1 ? "is" : "es");
    for (int k = 0; k < n; k++) {
        out[k] = whole_of(at, v->kind == VALUE_LIST ? v->items[k] : v, what);
        if (out[k] < least || out[k] > INT32_MAX)
            error_at(at, "%s must be at least %" PRId64 " and below 2^31, not %" PRId64, what, least, out[k]);
    }
}

/* Reads padding such as 1, [1, 2] or [[0, 1], [1, 2]] as low and high for each axis. */
static void pads_of(const Place *at, const Value *v, int n, int64_t *low, int64_t *high)
{
    if (v->kind == VALUE_LIST && v->count != n)
        error_at(at, "padding: a list of %d for %d ax%s; give one number, or one or [low, high] for each axis", v->count, n,
                 n == 1 ? "is" : "es");
    for (int k = 0; k < n; k++) {
        const Value *p = v->kind == VALUE_LIST ? v->items[k] : v;
        if (p->kind == VALUE_LIST && p->count != 2)
            error_at(at, "the padding of an axis is a number or [low, high], not %s", value_describe(p));
        low[k] = whole_of(at, p->kind == VALUE_LIST ? p->items[0] : p, "padding");
        high[k] = whole_of(at, p->kind == VALUE_LIST ? p->items[1] : p, "padding");
        if (low[k] > INT32_MAX || high[k] > INT32_MAX || low[k] < INT32_MIN || high[k] < INT32_MIN)
            error_at(at, "padding must be below 2^31, not %s", value_print(p));
    }
}

/* ---- element-wise operations with special rules for numbers; elementwise.c has the others */

static Value *extremum(Elaborator *e, const Place *at, Value **a, bool least)
{
    const char *name = least ? "minimum" : "maximum";
    if (a[0]->kind == VALUE_NUMBER && a[1]->kind == VALUE_NUMBER)
        return (compute_binary(e, at, "<", a[0], a[1])->i != 0) == least ? a[0] : a[1];
    return apply_binary(e, at, least ? OP_MINIMUM : OP_MAXIMUM, false, false, a[0], a[1], name);
}
static Value *run_minimum(Elaborator *e, const Place *at, Value **a) { return extremum(e, at, a, true); }
static Value *run_maximum(Elaborator *e, const Place *at, Value **a) { return extremum(e, at, a, false); }

/* Numbers have 64 bits here. */
static Value *bits(Elaborator *e, const Place *at, Value **a, Op op)
{
    const char *name = OP_INFO[op].name;
    if (a[0]->kind != VALUE_NUMBER || a[1]->kind != VALUE_NUMBER)
        return apply_binary(e, at, op, false, false, a[0], a[1], name);
    int64_t x = whole_of(at, a[0], format("what %s is of", name)), y = whole_of(at, a[1], format("what %s is of", name));
    bool within = y >= 0 && y < 64;
    switch (op) {
    case OP_BIT_AND: return value_whole(x & y);
    case OP_BIT_OR: return value_whole(x | y);
    case OP_BIT_XOR: return value_whole(x ^ y);
    case OP_SHIFT_LEFT: return value_whole(within ? (int64_t)((uint64_t)x << y) : 0);
    default: return value_whole(x >> (within ? y : 63));
    }
}
static Value *run_bit_and(Elaborator *e, const Place *at, Value **a) { return bits(e, at, a, OP_BIT_AND); }
static Value *run_bit_or(Elaborator *e, const Place *at, Value **a) { return bits(e, at, a, OP_BIT_OR); }
static Value *run_bit_xor(Elaborator *e, const Place *at, Value **a) { return bits(e, at, a, OP_BIT_XOR); }
static Value *run_shift_left(Elaborator *e, const Place *at, Value **a) { return bits(e, at, a, OP_SHIFT_LEFT); }
static Value *run_shift_right(Elaborator *e, const Place *at, Value **a) { return bits(e, at, a, OP_SHIFT_RIGHT); }

static Value *run_bit_not(Elaborator *e, const Place *at, Value **a)
{
    if (a[0]->kind == VALUE_NUMBER)
        return value_whole(~whole_of(at, a[0], format("what %s is of", "bit_not")));
    return apply_unary(e, at, OP_BIT_NOT, a[0]);
}

static Value *run_where(Elaborator *e, const Place *at, Value **a)
{
    if (a[0]->kind == VALUE_BOOL && !has_tensor(a[1]) && !has_tensor(a[2]))
        return a[0]->i ? a[1] : a[2];
    const Value *weighted = NULL;
    Node *in[3];
    static const char *const WHAT[] = {"the condition", "the first choice", "the second choice"};
    for (int k = 0; k < 3; k++) {
        if (a[k]->kind == VALUE_WEIGHTED) {
            if (weighted)
                error_at(at, "'where' of two weighted values: their weights differ");
            weighted = a[k];
            in[k] = a[k]->node;
        } else {
            in[k] = node_of(e, at, a[k], WHAT[k]);
        }
    }
    if (in[0]->dtype != BOOL)
        error_at(at, "'where' needs a bool condition, not %s; compare it with something", value_describe(a[0]));
    Graph *g = graph_at(e, at);
    if (in[1]->weak && in[2]->weak && (in[0]->has_samples || in[0]->shape.rank > 0))
        in[1] = graph_strong(g, in[1], F32);
    Node *y = graph_where(g, in[0], in[1], in[2]);
    return weighted ? weighted_value(e, at, y, weighted->weight) : value_tensor(y);
}

/* ---- reductions */

static Value *keep_axes(Elaborator *e, const Place *at, Node *y, const Shape *of, const int *axes, int count)
{
    Shape s = *of;
    for (int k = 0; k < count; k++)
        s.extent[axes[k]] = 1;
    return value_tensor(graph_reshape(graph_at(e, at), y, s));
}

static bool truth(const Place *at, const Value *v, const char *what)
{
    if (v->kind != VALUE_BOOL)
        error_at(at, "%s must be true or false, not %s", what, value_describe(v));
    return v->i != 0;
}

static Value *reduce(Elaborator *e, const Place *at, Value **a, bool sum)
{
    const char *name = sum ? "sum" : "max";
    no_weights(at, a[0], name);
    if (a[0]->kind == VALUE_NUMBER && a[1]->kind == VALUE_NONE)
        return a[0];
    Node *x = tensor(e, at, a[0], format("the argument of %s", name)), *y;
    int axes[MAX_RANK], count = axes_of(at, a[1], x->shape.rank, name, axes);
    bool keep = truth(at, a[2], "keep");
    Graph *g = graph_at(e, at);
    if (count == 0)
        y = sum && x->dtype == BOOL ? graph_cast(g, x, I32) : x;
    else if (x->dtype == BOOL && !sum) /* kernels have no maximum of bools */
        y = graph_cast(g, graph_max(g, graph_cast(g, x, U8), axes, count), BOOL);
    else
        y = sum ? graph_sum(g, x, axes, count) : graph_max(g, x, axes, count);
    return keep && count ? keep_axes(e, at, y, &x->shape, axes, count) : value_tensor(y);
}
static Value *run_sum(Elaborator *e, const Place *at, Value **a) { return reduce(e, at, a, true); }
static Value *run_max(Elaborator *e, const Place *at, Value **a) { return reduce(e, at, a, false); }

static Value *run_argmax(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "argmax");
    Node *x = tensor(e, at, a[0], "the argument of argmax");
    int64_t axis = axis_of(at, a[1], x->shape.rank, "argmax");
    x = x->dtype == BOOL ? graph_cast(graph_at(e, at), x, U8) : x;
    return value_tensor(graph_node(graph_at(e, at), OP_ARGMAX, &x, 1, &axis, 1, NULL));
}

/* Sums of narrow whole numbers and of bools have type i32. */
static Node *summable(Elaborator *e, const Place *at, const Value *v, const char *function)
{
    no_weights(at, v, function);
    Node *x = tensor(e, at, v, format("the argument of %s", function));
    bool small = x->dtype == BOOL || x->dtype == U8 || x->dtype == I8 || x->dtype == U16 || x->dtype == I16;
    return small ? graph_cast(graph_at(e, at), x, I32) : x;
}

/* Rows of 16-bit floats are computed in f32, and the result is rounded. */
static Node *widened(Graph *g, Node *x) { return dtype_is_half(x->dtype) ? graph_cast(g, x, F32) : x; }

Value *apply_running(Elaborator *e, const Place *at, Op op, Value **a)
{
    Node *x = summable(e, at, a[0], OP_INFO[op].name), *wide = widened(graph_at(e, at), x);
    int64_t ints[2] = {axis_of(at, a[1], x->shape.rank, OP_INFO[op].name), 0};
    return value_tensor(graph_cast(e->graph, graph_node(graph_at(e, at), op, &wide, 1, ints, 2, NULL), x->dtype));
}

static Value *run_top_k(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "top_k");
    Node *x = tensor(e, at, a[0], "the argument of top_k");
    int64_t axis = axis_of(at, a[2], x->shape.rank, "top_k"), k = whole_of(at, a[1], "top_k's k");
    Node *wide = widened(graph_at(e, at), x);
    Value **results = NEW_ARRAY(Value *, 2);
    for (int which = 0; which < 2; which++) {
        Node *y = graph_node(graph_at(e, at), OP_TOP_K, &wide, 1, (int64_t[]){axis, k, which}, 3, NULL);
        results[which] = value_tensor(which ? y : graph_cast(e->graph, y, x->dtype));
    }
    Value *v = value_list(results, 2);
    v->kind = VALUE_RESULTS;
    return v;
}

/* ---- contractions and windows */

static Value *run_einsum(Elaborator *e, const Place *at, Value **a)
{
    enum { MOST = 6 };
    if (a[0]->kind != VALUE_STRING)
        error_at(at, "einsum begins with a string such as \"ab,bc->ac\"");
    char *spec = allocate(strlen(a[0]->text) + 1);
    int length = 0;
    for (const char *c = a[0]->text; *c; c++)
        if (*c != ' ')
            spec[length++] = *c;
    const char *arrow = strstr(spec, "->"), *p = spec;
    if (strstr(spec, "..."))
        error_at(at, "einsum: \"%s\" has '...', which is not known here: each axis has a letter, as in \"tc,hc->th\"",
                 a[0]->text);
    if (!arrow)
        error_at(at, "einsum: \"%s\" has no '->'", a[0]->text);
    Node *in[MOST];
    int count = 0;
    Dtype dtype = BOOL;
    for (int k = 0; k < MOST && a[k + 1]->kind != VALUE_NONE; k++) {
        no_weights(at, a[k + 1], "einsum");
        in[count] = tensor(e, at, a[k + 1], "an operand of einsum");
        dtype = dtype_promote(dtype, in[count++]->dtype);
    }
    if (!dtype_is_float(dtype) && dtype != I64)
        dtype = I32;
    Text out = {0};
    for (int k = 0; k < count; k++) {
        size_t letters = strcspn(p, ",-");
        if (p > arrow)
            error_at(at, "einsum: \"%s\" names fewer operands than the %d given", a[0]->text, count);
        if ((int)letters != in[k]->shape.rank)
            error_at(at, "einsum: \"%.*s\" for operand %d, which is %s", (int)letters, p, k + 1, shape_text(&in[k]->shape));
        char names[MAX_RANK + 1] = {0};
        memcpy(names, p, letters);
        p += letters + 1;
        in[k] = graph_cast(graph_at(e, at), in[k], dtype);
        text_add(&out, "%s%s", k ? "," : "", names);
    }
    if (p != arrow + 1)
        error_at(at, "einsum: \"%s\" names more operands than the %d given", a[0]->text, count);
    text_add(&out, "%s", arrow);
    return value_tensor(graph_einsum(graph_at(e, at), copy_text(text_of(&out), out.length), in, count, false));
}

static Value *run_convolve(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "convolve");
    Node *x = float_node(e, node_of(e, at, a[0], "the input of convolve"));
    Node *w = float_node(e, node_of(e, at, a[1], "the weight of convolve"));
    int n = x->shape.rank - 1;
    if (n < 1)
        error_at(at, "convolve needs at least one spatial axis and channels, not %s", shape_text(&x->shape));
    int64_t ints[5 * MAX_RANK + 2] = {n}, *of = ints + 1;
    each_of(at, a[2], n, "stride", 1, of);
    pads_of(at, a[3], n, of + n, of + 2 * n);
    each_of(at, a[4], n, "dilation", 1, of + 3 * n);
    each_of(at, a[5], n, "input_dilation", 1, of + 4 * n);
    of[5 * n] = whole_of(at, a[6], "groups");
    if (of[5 * n] < 1)
        error_at(at, "convolve: groups must be at least 1, not %" PRId64, of[5 * n]);
    Dtype dtype = dtype_promote(x->dtype, w->dtype);
    Graph *g = graph_at(e, at);
    Node *in[2] = {graph_cast(g, x, dtype), graph_cast(g, w, dtype)};
    return value_tensor(graph_node(g, OP_CONVOLVE, in, 2, ints, 5 * n + 2, NULL));
}

static Value *window(Elaborator *e, const Place *at, Value **a, Op op, const char *name)
{
    no_weights(at, a[0], name);
    Node *x = tensor(e, at, a[0], "what windows are taken of");
    int r = x->shape.rank;
    int64_t ints[4 * MAX_RANK];
    each_of(at, a[1], r, "a window's size", 1, ints);
    each_of(at, a[2]->kind == VALUE_NONE ? a[1] : a[2], r, "stride", 1, ints + r);
    pads_of(at, a[3], r, ints + 2 * r, ints + 3 * r);
    if (x->dtype == BOOL && op == OP_WINDOW_MAX)
        x = graph_cast(graph_at(e, at), x, F32);
    return value_tensor(graph_node(graph_at(e, at), op, &x, 1, ints, 4 * r, NULL));
}
static Value *run_window_max(Elaborator *e, const Place *at, Value **a) { return window(e, at, a, OP_WINDOW_MAX, "window_max"); }
static Value *run_window_sum(Elaborator *e, const Place *at, Value **a) { return window(e, at, a, OP_WINDOW_SUM, "window_sum"); }

/* ---- views */

static Value *run_reshape(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "reshape");
    Node *x = tensor(e, at, a[0], "what is reshaped");
    if (a[1]->kind != VALUE_LIST)
        error_at(at, "reshape needs a list of extents, not %s", value_describe(a[1]));
    int free_axis = -1;
    Value **dims = NEW_ARRAY(Value *, a[1]->count);
    for (int k = 0; k < a[1]->count; k++) {
        dims[k] = a[1]->items[k];
        if (dims[k]->kind == VALUE_NUMBER && number_of(dims[k]) == -1) {
            if (free_axis >= 0)
                error_at(at, "reshape: only one extent can be -1");
            free_axis = k;
            dims[k] = value_whole(1);
        }
    }
    Shape s = shape_from(at, dims, a[1]->count);
    int64_t have = shape_count(&x->shape), want = shape_count(&s);
    if (free_axis >= 0 && want > 0 && have % want == 0) {
        s.extent[free_axis] = have / want;
        want = have;
    }
    if (have != want)
        error_at(at, "reshape: %s has %" PRId64 " elements, which do not fill %s", shape_text(&x->shape), have,
                 value_print(a[1]));
    return value_tensor(graph_reshape(graph_at(e, at), x, s));
}

static Value *run_transpose(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "transpose");
    Node *x = tensor(e, at, a[0], "what is transposed");
    int rank = x->shape.rank, order[MAX_RANK];
    bool seen[MAX_RANK] = {false};
    for (int k = 0; k < rank; k++)
        order[k] = k;
    if (a[1]->kind == VALUE_NONE) {
        if (rank < 2)
            error_at(at, "transpose needs two axes to swap; the tensor is %s", shape_text(&x->shape));
        order[rank - 2] = rank - 1;
        order[rank - 1] = rank - 2;
    } else {
        if (a[1]->kind != VALUE_LIST || a[1]->count != rank)
            error_at(at, "transpose needs an order of all %d axes, not %s", rank, value_describe(a[1]));
        for (int k = 0; k < rank; k++) {
            order[k] = axis_of(at, a[1]->items[k], rank, "transpose");
            if (seen[order[k]])
                error_at(at, "transpose: axis %d is given twice", order[k]);
            seen[order[k]] = true;
        }
    }
    return value_tensor(graph_transpose(graph_at(e, at), x, order));
}

static Value *run_slice(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "slice");
    Node *x = tensor(e, at, a[0], "what is sliced");
    return slice_axis(e, at, x, axis_of(at, a[3], x->shape.rank, "slice"), a[1], a[2], a[4]);
}

static Value *run_concat(Elaborator *e, const Place *at, Value **a)
{
    if (a[0]->kind != VALUE_LIST || a[0]->count == 0)
        error_at(at, "concat needs a list of at least one tensor, not %s", value_describe(a[0]));
    int count = a[0]->count;
    Node **in = NEW_ARRAY(Node *, count);
    Dtype dtype = BOOL;
    for (int k = 0; k < count; k++) {
        no_weights(at, a[0]->items[k], "concat");
        in[k] = tensor(e, at, a[0]->items[k], format("element %d of concat's list", k));
        dtype = dtype_promote(dtype, in[k]->dtype);
    }
    if (in[0]->shape.rank == 0)
        error_at(
            at,
            "concat joins tensors along an axis that they have, and a number has none; stack(list) makes a vector of numbers");
    int axis = axis_of(at, a[1], in[0]->shape.rank, "concat");
    for (int k = 0; k < count; k++) {
        const Shape *s = &in[k]->shape, *first = &in[0]->shape;
        bool fits = s->rank == first->rank;
        for (int n = 0; fits && n < s->rank; n++)
            fits = n == axis || s->extent[n] == first->extent[n];
        if (!fits)
            error_at(at, "concat along axis %d: the shapes may differ there only, not as %s and %s do", axis, shape_text(first),
                     shape_text(s));
    }
    for (int k = 0; k < count; k++)
        in[k] = graph_cast(graph_at(e, at), in[k], dtype);
    return count == 1 ? value_tensor(in[0]) : value_tensor(graph_concat(graph_at(e, at), in, count, axis));
}

static Value *run_pad(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "pad");
    Node *x = tensor(e, at, a[0], "what is padded");
    int64_t ints[2 * MAX_RANK];
    pads_of(at, a[1], x->shape.rank, ints, ints + x->shape.rank);
    if (a[2]->kind != VALUE_NUMBER && a[2]->kind != VALUE_BOOL)
        error_at(at, "pad: the value must be a number, not %s", value_describe(a[2]));
    double value = exact_number(at, a[2]);
    Node *y = graph_pad(graph_at(e, at), x, ints, ints + x->shape.rank, value);
    return value_tensor(y);
}

static Value *run_broadcast(Elaborator *e, const Place *at, Value **a)
{
    Shape s = shape_from_value(at, a[1], "what broadcast makes");
    if (a[0]->kind == VALUE_NUMBER)
        return value_tensor(graph_fill(graph_at(e, at), exact_number(at, a[0]), s, F32));
    no_weights(at, a[0], "broadcast");
    Node *x = tensor(e, at, a[0], "what is broadcast");
    Shape both = broadcast_shapes(at, &x->shape, &s, "broadcast");
    if (!shape_equal(&both, &s))
        error_at(at, "broadcast: %s does not become %s", shape_text(&x->shape), shape_text(&s));
    return value_tensor(graph_broadcast(graph_at(e, at), x, s));
}

static bool broadcasts_to(const Shape *from, const Shape *to)
{
    bool fits = from->rank <= to->rank;
    for (int k = 1; fits && k <= from->rank; k++) {
        int64_t own = from->extent[from->rank - k];
        fits = own == 1 || own == to->extent[to->rank - k];
    }
    return fits;
}

static Value *run_scatter_add(Elaborator *e, const Place *at, Value **a)
{
    for (int k = 0; k < 3; k++)
        no_weights(at, a[k], "scatter_add");
    Node *x = tensor(e, at, a[0], "what is added to"), *i = tensor(e, at, a[1], "the index");
    Node *v = node_of(e, at, a[2], "what is added");
    Graph *g = graph_at(e, at);
    if (dtype_is_float(i->dtype) || i->dtype == BOOL)
        error_at(at, "scatter_add: the index must be whole numbers, not %s", dtype_name(i->dtype));
    if (x->shape.rank == 0)
        error_at(at, "scatter_add: what is added to is a number; it needs an axis for the index");
    if (v->weak)
        v = graph_strong(g, v, graph_literal_type(x->dtype, v));
    Dtype dtype = dtype_summed(dtype_promote(x->dtype, v->dtype));
    if (x->shape.rank - 1 + i->shape.rank <= MAX_RANK) { /* otherwise the graph reports the rank */
        Shape rows = i->shape;
        for (int k = 1; k < x->shape.rank; k++)
            rows.extent[rows.rank++] = x->shape.extent[k];
        if (broadcasts_to(&v->shape, &rows))
            v = graph_broadcast(g, v, rows);
    }
    Node *in[3] = {graph_cast(g, x, dtype), i, graph_cast(g, v, dtype)};
    int64_t axis = 0;
    return value_tensor(graph_node(g, OP_SCATTER_ADD, in, 3, &axis, 1, NULL));
}

/* ---- tensors from numbers */

static Value *run_random(Elaborator *e, const Place *at, Value **a)
{
    Shape s = shape_from_value(at, a[0], "what random makes");
    if (!e->in_init && !e->frame->instance)
        error_at(at, "'random' draws numbers in each step: only models, layers and the train block can call it");
    const char *path = random_path(e, e->key);
    if (e->scan && !e->in_init) {
        graph_at(e, at);
        return value_tensor(random_in_scan(e->scan, s, path));
    }
    return value_tensor(graph_random(graph_at(e, at), s, path, e->in_model && !e->in_init));
}

static Value *run_arange(Elaborator *e, const Place *at, Value **a)
{
    int64_t n = whole_of(at, a[0], "arange's length");
    if (n < 0 || n > INT32_MAX)
        error_at(at, "arange makes 0 to 2147483647 elements, not %" PRId64, n);
    return value_tensor(graph_arange(graph_at(e, at), n));
}

static Value *run_tensor(Elaborator *e, const Place *at, Value **a)
{
    no_weights(at, a[0], "tensor");
    Node *n = node_of(e, at, a[0], "the argument of tensor");
    return value_tensor(a[0]->kind == VALUE_NUMBER ? graph_strong(graph_at(e, at), n, F32) : n);
}

static Value *run_stop_gradient(Elaborator *e, const Place *at, Value **a)
{
    if (a[0]->kind == VALUE_NUMBER || a[0]->kind == VALUE_BOOL)
        return a[0];
    if (a[0]->kind == VALUE_WEIGHTED) {
        Node *value = graph_node(graph_at(e, at), OP_STOP_GRADIENT, &a[0]->node, 1, NULL, 0, NULL);
        return weighted_value(e, at, value, a[0]->weight);
    }
    Node *x = node_of(e, at, a[0], "the argument of stop_gradient");
    if (x->weak)
        return a[0];
    return value_tensor(graph_node(graph_at(e, at), OP_STOP_GRADIENT, &x, 1, NULL, 0, NULL));
}

/* ---- sums over samples */

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static void use_group(Elaborator *e, const Place *at, int64_t n)
{
    int64_t least = e->model->group / gcd(e->model->group, n);
    if (__builtin_mul_overflow(least, n, &e->model->group) || e->model->group > INT32_MAX)
        error_at(at,
                 "groups of %" PRId64 " samples do not go with the other groups: shards would have to begin at "
                 "multiples of too large a number",
                 n);
}

/* Warns once for each call in the user's text. */
static void warn_of_shards(Elaborator *e, const Place *at)
{
    const Place *user = users_place(at);
    if (is_news(e, user, "shard"))
        lint_at(e->settings->silenced, LINT_SHARD_STATISTICS, at,
                "statistics of \"shard\": results depend on the number of devices; a number of samples or \"batch\" "
                "does not");
}

/* Padding samples get their own value instead of the sum. The sum over a group without valid samples is 0, and dividing by its
 * count of 0 would make NaN, which would reach the gradients of weights even when multiplied by 0. */
static Value *group_sum(Elaborator *e, Node *x, int64_t samples)
{
    Graph *g = e->graph;
    Node *sum = graph_group_sum(g, select_valid_samples(e, x), samples), *own = x->weak ? graph_strong(g, x, F32) : x;
    own = graph_cast(g, own, sum->dtype);
    return value_tensor(graph_where(g, graph_valid(g), sum, own));
}

static void check_samples(const Elaborator *e, const Place *at, const char *name)
{
    if (!e->in_model || e->in_init)
        error_at(at, "%s belongs in a model or a layer of it: there are no samples here", name);
}

void check_batch(const Elaborator *e, const Place *at, const char *name)
{
    check_samples(e, at, name);
    if (!e->frame->training)
        error_at(at,
                 "%s where 'training' is false: a prediction would depend on its neighbours; a loss of training alone "
                 "is put into if training { }, what evaluation needs into a state that training updates",
                 name);
}

Node *of_batch(Elaborator *e, const Place *at, Node *y, bool gathers)
{
    BatchSum s = {.node = y, .at = at, .gathers = gathers};
    if (!e->scan) /* closing the scan makes new nodes for its body */
        APPEND(e->batch_sums, e->batch_sum_count, s);
    return y;
}

static Node *moments_of(Elaborator *e, const Place *at, Node *x, const char *name)
{
    Graph *g = graph_at(e, at);
    x = graph_cast(g, x->weak ? graph_strong(g, x, F32) : x, dtype_is_float(x->dtype) ? dtype_promote(x->dtype, F32) : F64);
    if (x->shape.rank == MAX_RANK)
        error_at(at, "%s of a tensor of %d axes: the result has one more, and %d are the most", name, x->shape.rank, MAX_RANK);
    return graph_moments(g, x, NULL, 0);
}

static Value *run_batch_moments(Elaborator *e, const Place *at, Value **a)
{
    check_batch(e, at, "batch_moments");
    return value_tensor(of_batch(e, at, moments_of(e, at, summable(e, at, a[0], "batch_moments"), "batch_moments"), false));
}

static Value *run_batch_sum(Elaborator *e, const Place *at, Value **a)
{
    check_batch(e, at, "batch_sum");
    Node *x = summable(e, at, a[0], "batch_sum");
    Graph *g = graph_at(e, at);
    const Value *group = a[1];
    if (group->kind == VALUE_STRING && strcmp(group->text, "batch") == 0) {
        if (!x->has_samples)
            return value_tensor(graph_binary(g, OP_MUL, x, graph_run(g, RUN_SAMPLES, 0)));
        return value_tensor(of_batch(e, at, graph_sum_samples(g, select_valid_samples(e, x), NULL, 0), false));
    }
    if (group->kind == VALUE_STRING && strcmp(group->text, "shard") == 0) {
        e->model->shard_statistics = true;
        warn_of_shards(e, at);
        return group_sum(e, x, 0);
    }
    if (group->kind == VALUE_STRING)
        error_at(at, "samples are grouped by \"batch\", \"shard\" or a number, not by \"%s\"%s", group->text,
                 did_you_mean(group->text, (const char *const[]){"batch", "shard"}, 2));
    int64_t n = whole_of(at, group, "the number of samples in a group");
    if (n < 1 || n > INT32_MAX)
        error_at(at, "a group has at least 1 sample, not %" PRId64, n);
    use_group(e, at, n);
    return group_sum(e, x, n);
}

static Value *run_batch_place(Elaborator *e, const Place *at, Value **a)
{
    (void)a;
    check_samples(e, at, "batch_place");
    return value_tensor(graph_batch_place(graph_at(e, at)));
}

/* Adds each sample's x to its row of zeros. What is the same for all samples needs no sum over them. */
static Value *run_batch_gather(Elaborator *e, const Place *at, Value **a)
{
    check_samples(e, at, "batch_gather");
    no_weights(at, a[0], "batch_gather");
    Node *x = tensor(e, at, a[0], "the argument of batch_gather"), *y;
    Graph *g = graph_at(e, at);
    Shape all = {.rank = x->shape.rank + 1, .extent = {e->batch}};
    if (x->shape.rank == MAX_RANK)
        error_at(at, "batch_gather of a tensor of %d axes: the result has one more, and %d are the most", x->shape.rank,
                 MAX_RANK);
    memcpy(all.extent + 1, x->shape.extent, sizeof *all.extent * (size_t)x->shape.rank);
    if (x->has_samples) {
        Node *row = graph_cast(g, select_valid_samples(e, x), dtype_summed(x->dtype));
        y = graph_scatter_add(g, graph_fill(g, 0, all, row->dtype), graph_batch_place(g), row, 0, true);
        y = graph_cast(g, of_batch(e, at, y, true), x->dtype);
    } else {
        Shape rows = {.rank = all.rank, .extent = {e->batch, 1, 1, 1, 1, 1, 1, 1}};
        Node *exists = graph_binary(g, OP_LT, graph_arange(g, e->batch), graph_run(g, RUN_SAMPLES, 0));
        exists = graph_broadcast(g, graph_reshape(g, exists, rows), all);
        y = graph_where(g, exists, graph_broadcast(g, x, all), graph_fill(g, 0, all, x->dtype));
    }
    e->gathers = e->gathers ? e->gathers : at;
    return value_tensor(y);
}

static Value *run_total(Elaborator *e, const Place *at, Value **a)
{
    if (!e->in_model || e->in_init)
        error_at(at, "total belongs in a metric");
    if (e->scan)
        error_at(at, "total cannot be used in a scan; after it, total(...) of the stack adds up steps and samples");
    Node *x = summable(e, at, a[0], "total");
    e->has_total = true;
    x = truth(at, a[1], "moments") ? moments_of(e, at, x, "moments") : select_valid_samples(e, x);
    return value_tensor(graph_node(graph_at(e, at), OP_TOTAL, &x, 1, NULL, 0, NULL));
}

const Builtin PRIMITIVES[] = {
    {"bit_and", "a, b", run_bit_and},
    {"bit_or", "a, b", run_bit_or},
    {"bit_xor", "a, b", run_bit_xor},
    {"bit_not", "a", run_bit_not},
    {"shift_left", "a, n", run_shift_left},
    {"shift_right", "a, n", run_shift_right},
    {"minimum", "a, b", run_minimum},
    {"maximum", "a, b", run_maximum},
    {"where", "condition, a, b", run_where},
    {"require", "x, ok, what, value = none", run_require},
    {"sum", "x, axes = none, keep = false", run_sum},
    {"max", "x, axes = none, keep = false", run_max},
    {"argmax", "x, axis = -1", run_argmax},
    {"top_k", "x, k, axis = -1", run_top_k},
    {"einsum", "spec, a, b = none, c = none, d = none, e = none, f = none", run_einsum},
    {"convolve", "x, w, stride = 1, padding = 0, dilation = 1, input_dilation = 1, groups = 1", run_convolve},
    {"window_max", "x, size, stride = none, padding = 0", run_window_max},
    {"window_sum", "x, size, stride = none, padding = 0", run_window_sum},
    {"reshape", "x, shape", run_reshape},
    {"transpose", "x, order = none", run_transpose},
    {"slice", "x, start, end, axis = 0, step = 1", run_slice},
    {"concat", "list, axis = -1", run_concat},
    {"pad", "x, padding, value = 0", run_pad},
    {"broadcast", "x, shape", run_broadcast},
    {"scatter_add", "x, i, v", run_scatter_add},
    {"random", "shape", run_random},
    {"arange", "n", run_arange},
    {"tensor", "list", run_tensor},
    {"stop_gradient", "x", run_stop_gradient},
    {"grad", "y, x", run_grad},
    {"substitute", "y, x, z", run_substitute},
    {"batch_gather", "x", run_batch_gather},
    {"batch_moments", "x", run_batch_moments},
    {"batch_place", "", run_batch_place},
    {"batch_sum", "x, group = \"batch\"", run_batch_sum},
    {"total", "x, moments = false", run_total},
    {NULL, NULL, NULL},
};
