/* decode_rows.c: what a row of a value needs: rules by operation for decode.c.
 *
 * In: a node of a window's graph and one of its axes. Out: the row at the place, from rows and whole values of the inputs. Values
 * that shift along the window (convolutions, padding, slices, concatenation) take rows of earlier places from caches. */
#include "compiler/ir/axes.h"
#include "compiler/passes/decode.h"

#include <string.h>

enum { CONVOLVE_STRIDE, CONVOLVE_LOW, CONVOLVE_HIGH, CONVOLVE_DILATION, CONVOLVE_INPUT_DILATION };

static int64_t *convolve_int(const Node *n, int list, int axis) { return &n->ints[1 + list * n->ints[0] + axis]; }

/* Copies n with other attributes and inputs. */
static Node *remade(Decoding *d, const Node *n, Node **in, const int64_t *ints)
{
    Node like = *n;
    like.ints = (int64_t *)(uintptr_t)ints;
    set_position(d->to, n);
    return graph_rebuild(d->to, &like, in);
}

static int64_t *copied_ints(const Node *n)
{
    int64_t *ints = NEW_ARRAY(int64_t, n->int_count);
    for (int i = 0; i < n->int_count; i++)
        ints[i] = n->ints[i];
    return ints;
}

static Shape with_extent(Shape s, int axis, int64_t extent)
{
    s.extent[axis] = extent;
    return s;
}

/* ---- the axis of an input that corresponds to an axis of the result; -1: none */
/* Returns the axis with the same rows; for operations that shift rows, the axis with shifted rows. */
static int axis_of_input(const Node *n, int k, int axis)
{
    switch (n->op) {
    case OP_SUM:
    case OP_MAX:
    case OP_ARGMAX:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_EINSUM:
    case OP_GATHER: return axis_of_operand(n, k, axis);
    default: return axis;
    }
}

/* ---- slack */
static Slack joined(Slack a, Slack b) { return !a.on ? b : !b.on || a.by <= b.by ? a : b; }

static Slack slack_of_loop(const Decoding *d, const Node *n, int axis)
{
    Loop l = loop_of(n->in[0]);
    Slack all = {0};
    for (int i = l.carries; i < l.carries + l.sequences && axis == 0 && n->ints[0] >= l.carries && !l.reverse; i++)
        if (d->depends[l.in[i]->id])
            all = joined(all, d->slack[l.in[i]->id][0]);
    return all;
}

static Slack slack_of(const Decoding *d, const Node *n, int axis)
{
    Slack all = {0};
    int64_t place = 0;
    if (n->op == OP_RESULT)
        return slack_of_loop(d, n, axis);
    for (int k = 0; k < n->inputs; k++) {
        const Node *x = n->in[k];
        int b = axis_of_input(n, k, axis);
        Slack own = b >= 0 && b < x->shape.rank ? d->slack[x->id][b] : (Slack){0};
        if (n->op == OP_CONVOLVE)
            own = k == 0 && axis < n->ints[0] && *convolve_int(n, CONVOLVE_STRIDE, axis) == 1 &&
                          *convolve_int(n, CONVOLVE_INPUT_DILATION, axis) == 1
                      ? own
                      : (Slack){0};
        if (n->op == OP_CONVOLVE && own.on)
            own.by += *convolve_int(n, CONVOLVE_LOW, axis) -
                      *convolve_int(n, CONVOLVE_DILATION, axis) * (n->in[1]->shape.extent[2 + axis] - 1);
        if (n->op == OP_SLICE)
            own = n->ints[2 * n->shape.rank + axis] == 1 ? (Slack){own.on, own.by - n->ints[axis]} : (Slack){0};
        if (n->op == OP_PAD)
            own.by += n->ints[axis];
        if (n->op == OP_CONCAT && n->ints[0] == axis)
            own.by += place;
        place += n->op == OP_CONCAT ? x->shape.extent[n->ints[0]] : 0;
        all = joined(all, own);
    }
    return all;
}

void decode_find_slack(Decoding *d, const Node *n)
{
    OpClass class = OP_INFO[n->op].op_class;
    bool known = class == ELEMENTWISE || n->op == OP_SUM || n->op == OP_MAX || n->op == OP_ARGMAX || class == RUNNING ||
                 n->op == OP_EINSUM || n->op == OP_CONVOLVE || (class == VIEW && n->op != OP_UNSLICE) || n->op == OP_GATHER ||
                 n->op == OP_TOP_K || n->op == OP_RESULT || n->op == OP_STOP_GRADIENT;
    for (int a = 0; known && a < n->shape.rank; a++)
        d->slack[n->id][a] = slack_of(d, n, a);
    if (n->op == OP_INPUT)
        d->slack[n->id][0] = (Slack){true, 0};
}

/* ---- rows at other places. index: i32 [k]; rows that the value does not have are 0 */
static Node *shifted(Decoding *d, Node *index, int64_t step, int64_t by)
{
    Graph *g = d->to;
    Node *scaled = step == 1 ? index : graph_binary(g, OP_MUL, index, graph_number(g, (double)step, I32));
    return by == 0 ? scaled : graph_binary(g, OP_ADD, scaled, graph_number(g, (double)by, I32));
}

static Node *rows_at(Decoding *d, Node *n, int axis, Node *index);

static Node *rows_of_concat(Decoding *d, Node *n, int axis, Node *index)
{
    Node *all = NULL;
    int64_t place = 0;
    for (int k = 0; k < n->inputs; k++) {
        Node *own = rows_at(d, n->in[k], axis, shifted(d, index, 1, -place));
        set_position(d->to, n);
        all = all ? graph_binary(d->to, own->dtype == BOOL ? OP_OR : OP_ADD, all, own) : own;
        place += n->in[k]->shape.extent[axis];
    }
    return all;
}

static Node *rows_of_slice(Decoding *d, Node *n, int axis, Node *index)
{
    Graph *g = d->to;
    int r = n->shape.rank;
    set_position(g, n);
    Node *none = graph_fill(g, -1, index->shape, I32), *count = graph_number(g, (double)n->shape.extent[axis], I32);
    Node *there = graph_binary(g, OP_LT, index, count), *begun = graph_binary(g, OP_LT, none, index);
    Node *inner =
        graph_where(g, graph_binary(g, OP_AND, begun, there), shifted(d, index, n->ints[2 * r + axis], n->ints[axis]), none);
    Node *x = rows_at(d, n->in[0], axis, inner);
    int64_t *ints = copied_ints(n);
    axes_keep(n, axis, index->shape.extent[0], ints);
    return remade(d, n, &x, ints);
}

static Node *rows_at(Decoding *d, Node *n, int axis, Node *index)
{
    if (n->op == OP_SLICE)
        return rows_of_slice(d, n, axis, index);
    if (n->op == OP_CONCAT && n->ints[0] == axis)
        return rows_of_concat(d, n, axis, index);
    if (n->op == OP_PAD && n->data[0] == 0) {
        Node *x = rows_at(d, n->in[0], axis, shifted(d, index, 1, -n->ints[axis]));
        int64_t *ints = copied_ints(n);
        axes_keep(n, axis, 1, ints);
        return remade(d, n, &x, ints);
    }
    Node *all = decode_whole(d, n);
    set_position(d->to, n);
    return NODE(d->to, OP_GATHER, &(int64_t){axis}, 1, NULL, all, index);
}

/* ---- rules */
/* Applies n to rows of all inputs that have the axis, and to the others whole. */
static Node *by_rows(Decoding *d, Node *n, int axis, const int64_t *ints)
{
    Node **in = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++) {
        int b = axis_of_input(n, k, axis);
        in[k] = b >= 0 ? decode_row(d, n->in[k], b) : decode_whole(d, n->in[k]);
    }
    return remade(d, n, in, ints);
}

static Node *row_of_leaf(Decoding *d, Node *n, int axis)
{
    double value;
    set_position(d->to, n);
    if (n->op == OP_INPUT)
        return graph_cast(d->to, d->token, n->dtype);
    if (n->op == OP_ARANGE)
        return graph_cast(d->to, d->place, n->dtype);
    return node_is_constant(n, &value) ? graph_fill(d->to, value, with_extent(n->shape, axis, 1), n->dtype) : NULL;
}

static Node *row_of_view(Decoding *d, Node *n, int axis)
{
    int b = axis_of_input(n, 0, axis);
    Shape shape = with_extent(n->shape, axis, 1);
    if (n->op == OP_TRANSPOSE || (n->op == OP_CONCAT && n->ints[0] != axis))
        return by_rows(d, n, axis, n->ints);
    if ((n->op == OP_SLICE || n->op == OP_PAD) && axis_of_operand(n, 0, axis) == axis) {
        int64_t *ints = copied_ints(n);
        axes_keep(n, axis, 1, ints);
        return by_rows(d, n, axis, ints);
    }
    if (n->op == OP_SLICE || n->op == OP_CONCAT || (n->op == OP_PAD && n->data[0] == 0))
        return rows_at(d, n, axis, d->place);
    if (n->op == OP_UNSLICE || n->op == OP_PAD || (n->op == OP_RESHAPE && b < 0))
        return NULL;
    Node *x = b >= 0 ? decode_row(d, n->in[0], b) : decode_whole(d, n->in[0]);
    set_position(d->to, n);
    return n->op == OP_RESHAPE ? graph_reshape(d->to, x, shape) : graph_broadcast(d->to, x, shape);
}

static Node *row_of_convolution(Decoding *d, Node *n, int axis)
{
    if (axis >= n->ints[0] || *convolve_int(n, CONVOLVE_STRIDE, axis) != 1 ||
        *convolve_int(n, CONVOLVE_INPUT_DILATION, axis) != 1)
        return NULL;
    int64_t size = n->in[1]->shape.extent[2 + axis], dilation = *convolve_int(n, CONVOLVE_DILATION, axis);
    Node *in[2], like = *n;
    set_position(d->to, n);
    Node *first = graph_broadcast(d->to, shifted(d, d->place, 1, -*convolve_int(n, CONVOLVE_LOW, axis)), SHAPE(size));
    Node *index = graph_binary(d->to, OP_ADD, shifted(d, graph_arange(d->to, size), dilation, 0), first);
    in[0] = rows_at(d, n->in[0], axis, index);
    in[1] = decode_whole(d, n->in[1]);
    like.ints = copied_ints(n);
    *convolve_int(&like, CONVOLVE_LOW, axis) = *convolve_int(&like, CONVOLVE_HIGH, axis) = 0;
    *convolve_int(&like, CONVOLVE_DILATION, axis) = 1;
    return remade(d, n, in, like.ints);
}

static Node *row_of_running(Decoding *d, Node *n)
{
    int variable;
    Shape shape = with_extent(n->shape, (int)n->ints[0], 1);
    Node *x = decode_row(d, n->in[0], (int)n->ints[0]);
    set_position(d->to, n);
    Node *before = decode_state(d, n, shape, n->dtype, &variable);
    before = decode_select_first(d, graph_fill(d->to, running_start(n->op), shape, n->dtype), before);
    Node *after = graph_binary(d->to, running_combines(n->op), before, x);
    decode_keep(d, variable, after);
    return after;
}

/* Runs the step of the place; carries are kept in variables, and begin with their initial values at the first place. */
static Node **step_of_loop(Decoding *d, Node *scan)
{
    Loop l = loop_of(scan);
    Node **in = NEW_ARRAY(Node *, l.inputs), **results = NEW_ARRAY(Node *, l.carries + l.stacks);
    int *variable = NEW_ARRAY(int, l.carries);
    for (int i = 0; i < l.inputs; i++) {
        if (i < l.carries || i >= l.carries + l.sequences) {
            in[i] = decode_whole(d, l.in[i]);
        } else {
            Node *x = decode_row(d, l.in[i], 0);
            in[i] = graph_reshape(d->to, x, shape_of(x->shape.rank - 1, x->shape.extent + 1));
        }
        set_position(d->to, scan);
        if (i < l.carries)
            in[i] = decode_select_first(d, in[i], decode_state(d, scan, in[i]->shape, in[i]->dtype, &variable[i]));
    }
    graph_inline(d->to, scan, in, results);
    set_position(d->to, scan);
    for (int i = 0; i < l.carries; i++)
        decode_keep(d, variable[i], results[i]);
    return results;
}

static Node *row_of_loop(Decoding *d, Node *n, int axis)
{
    Node *scan = n->in[0];
    Loop l = loop_of(scan);
    if (scan->op != OP_SCAN || axis != 0 || n->ints[0] < l.carries || l.reverse || l.steps != d->length)
        return NULL;
    if (!d->steps[scan->id])
        d->steps[scan->id] = step_of_loop(d, scan);
    set_position(d->to, n);
    return graph_reshape(d->to, d->steps[scan->id][n->ints[0]], with_extent(n->shape, 0, 1));
}

/* Returns true if no operand has the letter twice. */
static bool has_axis_once(const Node *n, int axis)
{
    Factors f = node_factors(n);
    int most = 0;
    for (int k = 0; k < n->inputs; k++) {
        int count = 0;
        for (int i = 0; i < n->in[k]->shape.rank; i++)
            count += f.operand[k].factor[i] == f.result.factor[axis];
        most = count > most ? count : most;
    }
    return most <= 1;
}

Node *decode_row_by_rule(Decoding *d, Node *n, int axis)
{
    switch (OP_INFO[n->op].op_class) {
    case LEAF: return row_of_leaf(d, n, axis);
    case ELEMENTWISE: return by_rows(d, n, axis, n->ints);
    case VIEW: return row_of_view(d, n, axis);
    case RUNNING: return n->ints[0] != axis ? by_rows(d, n, axis, n->ints) : n->ints[1] ? NULL : row_of_running(d, n);
    default: break;
    }
    switch (n->op) {
    case OP_SUM:
    case OP_MAX:
    case OP_ARGMAX:
    case OP_STOP_GRADIENT: return by_rows(d, n, axis, n->ints);
    case OP_EINSUM: return has_axis_once(n, axis) ? by_rows(d, n, axis, n->ints) : NULL;
    case OP_GATHER: return by_rows(d, n, axis, n->ints);
    case OP_TOP_K: return n->ints[0] == axis ? NULL : by_rows(d, n, axis, n->ints);
    case OP_CONVOLVE: return row_of_convolution(d, n, axis);
    case OP_RESULT: return row_of_loop(d, n, axis);
    default: return NULL;
    }
}
