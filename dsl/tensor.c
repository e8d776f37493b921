/* tensor.c: converts values to nodes; element-wise operations on any mixture of values and tensors; matmul. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

Graph *graph_at(Elaborator *e, const Place *at)
{
    e->graph->at = at;
    e->graph->path = e->frame->instance ? e->frame->instance->names->path : "";
    return e->graph;
}

/* ---- numbers and lists as constants */

typedef struct Gathered {
    double *data;
    int64_t count, capacity;
    bool fraction, boolean, number, large;
} Gathered;

static void gather(const Place *at, const Value *v, Shape *shape, int level, Gathered *out)
{
    if (v->kind == VALUE_LIST) {
        if (level >= MAX_RANK)
            error_at(at, "a list nested more than %d deep cannot become a tensor", MAX_RANK);
        if (level == shape->rank) {
            if (out->count > 0)
                error_at(at, "a tensor's lists must have equal lengths at every depth");
            shape->extent[shape->rank++] = v->count;
        } else if (shape->extent[level] != v->count) {
            error_at(at, "a tensor's lists must have equal lengths: %d here, %" PRId64 " elsewhere", v->count,
                     shape->extent[level]);
        }
        for (int k = 0; k < v->count; k++)
            gather(at, v->items[k], shape, level + 1, out);
        return;
    }
    if (v->kind != VALUE_NUMBER && v->kind != VALUE_BOOL)
        error_at(at, "%s cannot be part of a tensor", value_describe(v));
    if (level != shape->rank)
        error_at(at, "a tensor's lists must have equal depths");
    if (out->count == out->capacity) {
        int64_t capacity = out->capacity ? 2 * out->capacity : 16;
        out->data = grow(out->data, sizeof(double) * (size_t)out->count, sizeof(double) * (size_t)capacity);
        out->capacity = capacity;
    }
    double d = exact_number(at, v);
    out->boolean |= v->kind == VALUE_BOOL;
    out->number |= v->kind == VALUE_NUMBER;
    out->fraction |= d != floor(d) || (v->kind == VALUE_NUMBER && !v->whole);
    out->large |= fabs(d) > 2147483647.0;
    out->data[out->count++] = d;
}

static Node *stack_list(Elaborator *e, const Place *at, const Value *v)
{
    Node **parts = NEW_ARRAY(Node *, v->count);
    Shape shape = {0};
    Dtype dtype = BOOL;
    for (int k = 0; k < v->count;
         k++) { /* numbers take the shape of the tensors in the list, and their type if it can hold them */
        parts[k] = node_of(e, at, v->items[k], "an element of the list");
        shape = k ? broadcast_shapes(at, &shape, &parts[k]->shape, "stack") : parts[k]->shape;
        if (!parts[k]->weak)
            dtype = dtype_promote(dtype, parts[k]->dtype);
    }
    if (shape.rank == MAX_RANK)
        error_at(at, "a tensor has at most %d axes; a list of such tensors would have one more", MAX_RANK);
    for (int k = 0; k < v->count; k++)
        if (parts[k]->weak)
            dtype = graph_literal_type(dtype, parts[k]);
    Shape one = {.rank = shape.rank + 1, .extent = {1}};
    for (int k = 0; k < shape.rank; k++)
        one.extent[k + 1] = shape.extent[k];
    for (int k = 0; k < v->count; k++) {
        Graph *g = graph_at(e, at);
        parts[k] = graph_reshape(g, graph_broadcast(g, graph_cast(g, parts[k], dtype), shape), one);
    }
    return graph_concat(graph_at(e, at), parts, v->count, 0);
}

static Node *list_node(Elaborator *e, const Place *at, const Value *v)
{
    if (has_tensor(v))
        return stack_list(e, at, v);
    Gathered got = {0};
    Shape shape = {0};
    gather(at, v, &shape, 0, &got);
    if (got.boolean && got.number)
        error_at(at, "a tensor's elements are either numbers or true and false");
    Dtype dtype = got.boolean ? BOOL : got.fraction || got.count == 0 ? F32 : got.large ? I64 : I32;
    double none = 0;
    return graph_constant(graph_at(e, at), got.data ? got.data : &none, shape, dtype);
}

static void check_graph(Elaborator *e, const Place *at, const Node *n)
{
    for (const Graph *g = e->graph; g; g = g->parent)
        if (n->graph == g)
            return;
    if (e->in_init)
        error_at(at, "an initial value cannot depend on the data or on a weight");
    error_at(at, "this value is of one step of a scan and cannot be used outside of it");
}

Node *node_of(Elaborator *e, const Place *at, const Value *v, const char *what)
{
    switch (v->kind) {
    case VALUE_NUMBER:
        return v->cast ? graph_number(graph_at(e, at), exact_number(at, v), v->dtype)
                       : graph_weak(graph_at(e, at), exact_number(at, v));
    case VALUE_BOOL: return graph_number(graph_at(e, at), (double)v->i, BOOL);
    case VALUE_LIST: return list_node(e, at, v);
    case VALUE_TENSOR: check_graph(e, at, v->node); return v->node;
    case VALUE_RESULTS: return node_of(e, at, v->items[0], what);
    case VALUE_WEIGHTED:
        error_at(at,
                 "%s is a weighted value: it can be computed with element-wise, be a loss or a metric, or be taken "
                 "apart with .value and .weight",
                 what);
    case VALUE_LAYER: error_at(at, "%s must be a tensor, not %s; is a call '(...)' missing?", what, value_describe(v));
    default: error_at(at, "%s must be a tensor, not %s", what, value_describe(v));
    }
}

Node *float_node(Elaborator *e, Node *n)
{
    if (n->weak)
        return graph_strong(e->graph, n, F32);
    return dtype_is_float(n->dtype) ? n : graph_cast(e->graph, n, F32);
}

const Node *seen_through(const Node *n)
{
    for (;;) {
        if (n->op == OP_ARG && n->graph->captured_count > n->ints[0])
            n = n->graph->captured[n->ints[0]];
        else if (n->op == OP_RESHAPE || n->op == OP_TRANSPOSE || n->op == OP_SLICE || n->op == OP_BROADCAST ||
                 n->op == OP_STOP_GRADIENT)
            n = n->in[0];
        else
            return n;
    }
}

const Input *class_input(const Node *n)
{
    n = seen_through(n);
    const Input *input = n->op == OP_INPUT ? &n->graph->model->inputs[n->ints[0]] : NULL;
    return input && input->classes ? input : NULL;
}

int64_t ignored_label(const Node *n)
{
    n = seen_through(n);
    if (n->op == OP_CAST)
        return ignored_label(n->in[0]);
    if (n->op == OP_WHERE) {
        int64_t label = ignored_label(n->in[1]);
        return label != NO_LABEL ? label : ignored_label(n->in[2]);
    }
    const Input *input = class_input(n);
    return input ? input->ignore : NO_LABEL;
}

Shape broadcast_shapes(const Place *at, const Shape *a, const Shape *b, const char *what)
{
    Shape out = a->rank >= b->rank ? *a : *b;
    int shorter = a->rank >= b->rank ? b->rank : a->rank;
    for (int k = 1; k <= shorter; k++) {
        int64_t x = a->extent[a->rank - k], y = b->extent[b->rank - k];
        if (x != y && x != 1 && y != 1)
            error_at(at, "%s: the shapes %s and %s do not fit: an axis of %" PRId64 " meets one of %" PRId64, what, shape_text(a),
                     shape_text(b), x, y);
        out.extent[out.rank - k] = x == 1 ? y : x;
    }
    return out;
}

Node *select_valid_samples(Elaborator *e, Node *x)
{
    Graph *g = e->graph;
    if (x->weak)
        x = graph_strong(g, x, F32);
    Node *none = graph_weak(g, 0);
    return graph_where(g, graph_valid(g), x, none);
}

/* ---- element-wise */

Value *weighted_value(Elaborator *e, const Place *at, Node *value, Node *weight)
{
    Value *v = value_new();
    v->kind = VALUE_WEIGHTED;
    v->node = value;
    v->weight = shape_equal(&value->shape, &weight->shape) ? weight : graph_broadcast(graph_at(e, at), weight, value->shape);
    return v;
}

Value *apply_unary(Elaborator *e, const Place *at, Op op, const Value *v)
{
    if (v->kind == VALUE_NUMBER && op != OP_NOT && op != OP_BIT_NOT) {
        if (v->whole && op == OP_FLOOR)
            return value_whole(v->i);
        if (v->whole && op == OP_ABS && v->i != INT64_MIN)
            return value_whole(v->i < 0 ? -v->i : v->i);
        return op == OP_FLOOR ? value_number(floor(v->d)) : value_double(op_value(op, number_of(v), 0, 0));
    }
    if (v->kind == VALUE_BOOL && op == OP_NOT)
        return value_bool(!v->i);
    if (v->kind == VALUE_WEIGHTED) {
        check_graph(e, at, v->node);
        return weighted_value(e, at, graph_unary(graph_at(e, at), op, v->node), v->weight);
    }
    Node *x = node_of(e, at, v, format("the argument of %s", OP_INFO[op].name));
    if (op == OP_NOT && x->dtype != BOOL)
        error_at(at, "'not' is for true, false and bool tensors, not for %s", value_describe(v));
    if (op == OP_ABS && x->dtype == BOOL)
        x = graph_cast(graph_at(e, at), x, I32);
    return value_tensor(graph_unary(graph_at(e, at), op, x));
}

static Node *plain(Elaborator *e, const Place *at, const Value *v, const char *what)
{
    if (v->kind == VALUE_WEIGHTED) {
        check_graph(e, at, v->node);
        return v->node;
    }
    return node_of(e, at, v, what);
}

/* Applies an operation to tensors. `swap` exchanges the operands; `negate` inverts the bool result. */
Value *apply_binary(Elaborator *e, const Place *at, Op op, bool swap, bool negate, Value *a, Value *b, const char *shown)
{
    if (a->kind == VALUE_WEIGHTED && b->kind == VALUE_WEIGHTED)
        error_at(at,
                 "'%s' of two weighted values: their weights differ; make each a loss or metric of its own, or take "
                 "them apart with .value and .weight",
                 shown);
    Node *x = plain(e, at, a, "the left side"), *y = plain(e, at, b, "the right side");
    if ((op == OP_AND || op == OP_OR) && (x->dtype != BOOL || y->dtype != BOOL))
        error_at(at, "'%s' is for true, false and bool tensors, not for %s", shown, value_describe(x->dtype != BOOL ? a : b));
    Graph *g = graph_at(e, at);
    Node *r = swap ? graph_binary(g, op, y, x) : graph_binary(g, op, x, y);
    if (negate)
        r = graph_unary(g, OP_NOT, r);
    const Value *w = a->kind == VALUE_WEIGHTED ? a : b->kind == VALUE_WEIGHTED ? b : NULL;
    return w ? weighted_value(e, at, r, w->weight) : value_tensor(r);
}

Value *cast_value(Elaborator *e, const Place *at, Dtype dtype, Value *v)
{
    if (v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL) { /* a cast of a number is computed at compile time */
        double d = v->kind == VALUE_BOOL ? (double)v->i : number_of(v);
        if (dtype == BOOL)
            return value_bool(d != 0);
        bool whole = v->kind == VALUE_BOOL || v->whole;
        Value *r = dtype_is_float(dtype)   ? value_double(d)
                   : whole && dtype == I64 ? value_whole(v->i)
                                           : value_number(cast_number(whole ? I64 : F64, dtype, d));
        r->cast = true;
        r->dtype = dtype;
        return r;
    }
    if (v->kind == VALUE_WEIGHTED)
        return weighted_value(e, at, graph_cast(graph_at(e, at), v->node, dtype), v->weight);
    Node *n = node_of(e, at, v, "what is cast");
    Graph *g = graph_at(e, at);
    return value_tensor(n->weak ? graph_strong(g, n, dtype) : graph_cast(g, n, dtype));
}

/* ---- matmul of one sample, with NumPy's rules */

typedef struct MatmulOperand {
    Node *node;
    char letters[MAX_RANK + 1];
} MatmulOperand;

/* Drops a batch axis of extent 1 that is broadcast: only the other operand then has its letter. */
static void drop_axis(Elaborator *e, const Place *at, MatmulOperand *o, int axis)
{
    Shape s = o->node->shape;
    for (int k = axis; k + 1 < s.rank; k++) {
        s.extent[k] = s.extent[k + 1];
        o->letters[k] = o->letters[k + 1];
    }
    s.rank--;
    o->letters[s.rank] = 0;
    o->node = graph_reshape(graph_at(e, at), o->node, s);
}

/* Removes transposes, since einsum reads axes in any order. */
static void skip_transpose(MatmulOperand *o)
{
    while (o->node->op == OP_TRANSPOSE) {
        char letters[MAX_RANK + 1] = {0};
        for (int k = 0; k < o->node->shape.rank; k++)
            letters[o->node->ints[k]] = o->letters[k];
        memcpy(o->letters, letters, sizeof letters);
        o->node = o->node->in[0];
    }
}

Value *matmul(Elaborator *e, const Place *at, Value *va, Value *vb)
{
    MatmulOperand a = {.node = node_of(e, at, va, "the left side of '@'")};
    MatmulOperand b = {.node = node_of(e, at, vb, "the right side of '@'")};
    int ra = a.node->shape.rank, rb = b.node->shape.rank;
    if (ra == 0 || rb == 0)
        error_at(at, "'@' needs at least one axis on each side; a scalar is multiplied by '*'");
    Dtype dtype = dtype_promote(a.node->dtype, b.node->dtype);
    if (!dtype_is_float(dtype) && dtype != I64)
        dtype = I32;
    Graph *g = graph_at(e, at);
    a.node = graph_cast(g, a.node, dtype);
    b.node = graph_cast(g, b.node, dtype);
    /* letters: k is summed, m are rows, n are columns; batch axes have letters from a, the leftmost being a */
    int batch_a = ra > 2 ? ra - 2 : 0, batch_b = rb > 2 ? rb - 2 : 0, batch = batch_a > batch_b ? batch_a : batch_b;
    for (int i = 0; i < batch_a; i++)
        a.letters[i] = (char)('a' + (batch - batch_a + i));
    for (int i = 0; i < batch_b; i++)
        b.letters[i] = (char)('a' + (batch - batch_b + i));
    if (ra > 1)
        a.letters[ra - 2] = 'm';
    a.letters[ra - 1] = 'k';
    b.letters[rb > 1 ? rb - 2 : 0] = 'k';
    if (rb > 1)
        b.letters[rb - 1] = 'n';
    int64_t inner_a = a.node->shape.extent[ra - 1], inner_b = b.node->shape.extent[rb > 1 ? rb - 2 : 0];
    if (inner_a != inner_b)
        error_at(at, "%s @ %s: the last axis of the left side, %" PRId64 ", is not the %s of the right side, %" PRId64,
                 shape_text(&a.node->shape), shape_text(&b.node->shape), inner_a, rb > 1 ? "last axis but one" : "axis", inner_b);
    char spec[4 * MAX_RANK + 8];
    char result[MAX_RANK + 2];
    int n = 0;
    for (int i = 0; i < batch; i++)
        result[n++] = (char)('a' + i);
    if (ra > 1)
        result[n++] = 'm';
    if (rb > 1)
        result[n++] = 'n';
    result[n] = 0;
    for (int i = batch - 1; i >= 0; i--) {
        int ka = i - (batch - batch_a), kb = i - (batch - batch_b);
        if (ka < 0 || kb < 0)
            continue;
        int64_t x = a.node->shape.extent[ka], y = b.node->shape.extent[kb];
        if (x == y)
            continue;
        if (x != 1 && y != 1)
            error_at(at, "%s @ %s: batch axes of %" PRId64 " and %" PRId64, shape_text(&a.node->shape),
                     shape_text(&b.node->shape), x, y);
        drop_axis(e, at, x == 1 ? &a : &b, x == 1 ? ka : kb);
    }
    skip_transpose(&a);
    skip_transpose(&b);
    snprintf(spec, sizeof spec, "%s,%s->%s", a.letters, b.letters, result);
    return value_tensor(graph_einsum(graph_at(e, at), copy_text(spec, strlen(spec)), (Node *[]){a.node, b.node}, 2, false));
}
