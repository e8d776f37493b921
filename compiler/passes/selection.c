/* selection.c: where a gradient is zero because nothing was selected there, and the product that stays zero there.
 *
 * `where(c, x, 0)` gives x no gradient where c is false: an exact zero, whatever x is. The rule of the operation that computes x
 * multiplies this zero by a derivative, and 0 times NaN or infinity is NaN. So products in rules are selected_product(): where(c,
 * g d, 0), with the condition and not the value of g, because a gradient that happens to be 0 must not hide a derivative that is
 * not finite. Its own derivatives are d and g where c is true.
 *
 * In: a gradient. Out: conditions that are all true wherever it may be selected, derived from the nodes that it is computed from.
 * They come from WHERE (the model's, those of weights of losses, of minima and maxima) and SLICE. They pass through views, casts,
 * negations, and factors that are numbers; a sum has the conditions that its terms share, and one that says that one of the terms
 * is selected. What adds up elements (sums, contractions, broadcasts' gradients) keeps a condition that is the same for all of
 * these, and drops others: there the zero is an ordinary one. A missing condition is never wrong: what it would have protected is
 * computed as usual.
 *
 * VALID is not among them: padding samples are copies of valid ones, and are finite where those are. */
#include "compiler/ir/axes.h"
#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"

/* ---- conditions: BOOL, aligned at the right of the gradient's shape, with extent 1 along axes where they do not vary */

static bool has(const Selection *a, const Node *condition)
{
    for (int i = 0; i < a->count; i++)
        if (a->conditions[i] == condition)
            return true;
    return false;
}

static void add_condition(Sweep *s, Selection *to, Node *c)
{
    double value;
    if (c->op == OP_BROADCAST) {
        add_condition(s, to, c->in[0]);
    } else if (c->op == OP_AND) {
        add_condition(s, to, c->in[0]);
        add_condition(s, to, c->in[1]);
    } else if (c->op == OP_NOT && c->in[0]->op == OP_BROADCAST) {
        add_condition(s, to, graph_unary(s->g, OP_NOT, c->in[0]->in[0]));
    } else if (c->op == OP_NOT && c->in[0]->op == OP_NOT) {
        add_condition(s, to, c->in[0]->in[0]);
    } else if (c->op != OP_VALID && !(node_is_constant(c, &value) && value != 0) && !has(to, c)) {
        APPEND(to->conditions, to->count, c);
    }
}

static void add_all(Selection *to, const Selection *from)
{
    for (int i = 0; i < from->count; i++)
        if (!has(to, from->conditions[i]))
            APPEND(to->conditions, to->count, from->conditions[i]);
}

static Node *all_of(Graph *g, const Selection *a)
{
    Node *all = a->conditions[0];
    for (int i = 1; i < a->count; i++)
        all = graph_binary(g, OP_AND, all, a->conditions[i]);
    return all;
}

static bool is_opposite(const Node *a, const Node *b)
{
    return (a->op == OP_NOT && a->in[0] == b) || (b->op == OP_NOT && b->in[0] == a);
}

/* Constants are folded: parts that together are the whole axis select everything. */
static Node *either(Graph *g, Node *a, Node *b)
{
    if (a->op != OP_CONSTANT || b->op != OP_CONSTANT || !shape_equal(&a->shape, &b->shape) || a->data_count != b->data_count)
        return graph_binary(g, OP_OR, a, b);
    bool all = true;
    double *data = NEW_ARRAY(double, a->data_count);
    for (int64_t i = 0; i < a->data_count; i++) {
        data[i] = a->data[i] != 0 || b->data[i] != 0;
        all = all && data[i] != 0;
    }
    return all ? graph_fill(g, 1, a->shape, BOOL) : a->data_count == 1 ? a : graph_constant(g, data, a->shape, BOOL);
}

/* Returns the selection of a sum of the two. */
static Selection of_either(Sweep *s, const Selection *a, const Selection *b)
{
    Selection both = {NULL, 0}, rest[2] = {{NULL, 0}, {NULL, 0}};
    const Selection *side[2] = {a, b};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < side[k]->count; i++) {
            Node *c = side[k]->conditions[i];
            Selection *to = has(side[1 - k], c) ? &both : &rest[k];
            if (!has(to, c))
                APPEND(to->conditions, to->count, c);
        }
    if (!rest[0].count || !rest[1].count ||
        (rest[0].count == 1 && rest[1].count == 1 && is_opposite(rest[0].conditions[0], rest[1].conditions[0])))
        return both;
    Node *one = all_of(s->g, &rest[0]), *other = all_of(s->g, &rest[1]);
    add_condition(s, &both, either(s->g, one, other));
    return both;
}

/* ---- through views and reductions */

/* Returns the condition with as many axes as a gradient of that rank. */
static Node *of_rank(Graph *g, Node *c, int rank)
{
    Shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++)
        shape.extent[i] = i < rank - c->shape.rank ? 1 : c->shape.extent[i - (rank - c->shape.rank)];
    return graph_reshape(g, c, shape);
}

/* For x reshaped to y: axes in groups of equally many elements; a group along which the condition varies is reshaped whole. */
static Node *reshaped(Graph *g, Node *c, const Shape *x, const Shape *y)
{
    c = of_rank(g, c, x->rank);
    Shape full = c->shape, now = *y;
    for (int i = 0, k = 0; i < x->rank || k < y->rank;) {
        int first[2] = {i, k};
        int64_t left = i < x->rank ? x->extent[i++] : 1, right = k < y->rank ? y->extent[k++] : 1;
        while (left != right)
            if (left < right)
                left *= x->extent[i++];
            else
                right *= y->extent[k++];
        bool varies = false;
        for (int a = first[0]; a < i; a++)
            varies = varies || c->shape.extent[a] != 1;
        for (int a = first[0]; a < i && varies; a++)
            full.extent[a] = x->extent[a];
        for (int a = first[1]; a < k && !varies; a++)
            now.extent[a] = 1;
    }
    return graph_reshape(g, graph_broadcast(g, c, full), now);
}

/* SLICE UNSLICE: along axes where the condition is the same there is nothing to cut */
static Node *sliced(Graph *g, Node *c, const Node *n)
{
    int r = n->shape.rank;
    int64_t ints[3 * MAX_RANK];
    bool varies = false;
    memcpy(ints, n->ints, (size_t)(3 * r) * sizeof *ints);
    c = of_rank(g, c, r);
    for (int i = 0; i < r; i++) {
        varies = varies || c->shape.extent[i] != 1;
        if (c->shape.extent[i] == 1)
            axes_keep(n, i, 1, ints);
    }
    if (n->op == OP_SLICE)
        return graph_slice(g, c, ints, ints + r, ints + 2 * r);
    return varies ? NODE(g, OP_UNSLICE, ints, 3 * r, NULL, c) : c;
}

/* Adds the places along an axis that a slice took, if it did not take all. */
static void add_places(Sweep *s, Selection *to, const Node *n, int axis)
{
    int r = n->shape.rank;
    int64_t extent = n->shape.extent[axis], count = n->in[0]->shape.extent[axis], taken = 0;
    if (count == extent || extent == 0)
        return;
    double *data = NEW_ARRAY(double, extent);
    Shape shape = {.rank = r - axis};
    for (int i = 0; i < shape.rank; i++)
        shape.extent[i] = i ? 1 : extent;
    for (; taken < count; taken++)
        data[n->ints[axis] + taken * n->ints[r + axis]] = 1;
    add_condition(s, to, graph_constant(s->g, data, shape, BOOL));
}

/* Axis k of the result is axis[k] of the operand of the conditions, -1: none. A condition that varies along an axis that the
 * result lacks is dropped: elements are added up along it. */
static void add_moved(Sweep *s, Selection *to, const Selection *from, int rank, const int *axis, int result_rank,
                      bool has_samples)
{
    for (int i = 0; i < from->count; i++) {
        Node *c = of_rank(s->g, from->conditions[i], rank);
        Shape shape = {.rank = result_rank};
        int order[MAX_RANK], count = 0, found = 0, varies = 0;
        for (int k = 0; k < result_rank; k++) {
            shape.extent[k] = axis[k] >= 0 ? c->shape.extent[axis[k]] : 1;
            if (shape.extent[k] != 1)
                order[count++] = axis[k];
        }
        found = count;
        for (int a = 0; a < rank; a++) {
            varies += c->shape.extent[a] != 1;
            if (c->shape.extent[a] == 1)
                order[count++] = a;
        }
        if (found == varies && count == rank && (has_samples || !c->has_samples))
            add_condition(s, to, graph_reshape(s->g, graph_transpose(s->g, c, order), shape));
    }
}

/* For operand k of n, by the axes that it shares with n. */
static void add_of_axes(Sweep *s, Selection *to, const Node *n, int k)
{
    int axis[MAX_RANK];
    for (int i = 0; i < n->shape.rank; i++)
        axis[i] = axis_of_operand(n, k, i);
    add_moved(s, to, selection_of(s, n->in[k]), n->in[k]->shape.rank, axis, n->shape.rank, n->has_samples);
}

/* The same for a contraction: axis i of the gradient is letters[i]; those of y are in y_letters. */
static void add_of_letters(Sweep *s, Selection *to, const Selection *from, const char *letters, const char *y_letters)
{
    int axis[MAX_RANK], rank = (int)strlen(y_letters);
    for (int k = 0; k < rank; k++) {
        const char *at = strchr(letters, y_letters[k]);
        axis[k] = at ? (int)(at - letters) : -1;
    }
    add_moved(s, to, from, (int)strlen(letters), axis, rank, true);
}

/* Adds conditions that are the same for all elements. */
static void add_of_samples(Sweep *s, Selection *to, const Selection *from, bool has_samples)
{
    for (int i = 0; i < from->count; i++)
        if (shape_count(&from->conditions[i]->shape) == 1 && (has_samples || !from->conditions[i]->has_samples))
            add_condition(s, to, graph_reshape(s->g, from->conditions[i], SCALAR));
}

/* For rows that were taken by index: the index is in range; x[-1] is 0, and nothing is added to it. */
static void add_inside(Sweep *s, Selection *to, const Node *n)
{
    Node *i = n->in[1];
    Dtype t = i->dtype == I64 || i->dtype == U32 ? I64 : I32;
    Shape shape = i->shape;
    i = graph_cast(s->g, i, t);
    Node *first = graph_fill(s->g, 0, shape, t), *end = graph_fill(s->g, (double)n->in[0]->shape.extent[n->ints[0]], shape, t);
    for (int64_t a = n->ints[0] + 1; a < n->in[0]->shape.rank; a++)
        shape.extent[shape.rank++] = 1;
    Node *above = graph_binary(s->g, OP_LE, first, i), *below = graph_binary(s->g, OP_LT, i, end);
    add_condition(s, to, graph_reshape(s->g, above, shape));
    add_condition(s, to, graph_reshape(s->g, below, shape));
}

/* ---- by node */

static Selection read_sum(Sweep *s, const Node *a, const Node *b)
{
    if (node_is_zero(a) || node_is_zero(b))
        return *selection_of(s, node_is_zero(a) ? b : a);
    const Selection *first = selection_of(s, a), *second = first->count ? selection_of(s, b) : first;
    return of_either(s, first, second);
}

static Selection read_where(Sweep *s, const Node *n)
{
    Selection y = {NULL, 0};
    bool first = node_is_zero(n->in[1]), second = node_is_zero(n->in[2]);
    if (first == second)
        return read_sum(s, n->in[1], n->in[2]);
    add_condition(s, &y, first ? graph_unary(s->g, OP_NOT, n->in[0]) : n->in[0]);
    add_all(&y, selection_of(s, n->in[first ? 2 : 1]));
    return y;
}

static Selection read_view(Sweep *s, const Node *n)
{
    Selection y = {NULL, 0};
    const Selection *x = selection_of(s, n->in[0]);
    for (int i = 0; i < x->count; i++) {
        Node *c = x->conditions[i];
        c = n->op == OP_RESHAPE ? reshaped(s->g, c, &n->in[0]->shape, &n->shape) : n->op == OP_BROADCAST ? c : sliced(s->g, c, n);
        add_condition(s, &y, c);
    }
    for (int i = 0; i < n->shape.rank && n->op == OP_UNSLICE; i++)
        add_places(s, &y, n, i);
    return y;
}

static bool is_finite_number(const Node *n)
{
    double value;
    while (n->op == OP_BROADCAST || n->op == OP_RESHAPE)
        n = n->in[0];
    return node_is_constant(n, &value) && value - value == 0;
}

static Selection read_selection(Sweep *s, const Node *n)
{
    Node **in = n->in;
    Selection y = {NULL, 0};
    if (shape_count(&n->shape) == 0 || !dtype_is_float(n->dtype))
        return y;
    switch (n->op) {
    case OP_WHERE: return read_where(s, n);
    case OP_ADD:
    case OP_SUB: return read_sum(s, in[0], in[1]);
    case OP_MUL: return is_finite_number(in[1]) ? *selection_of(s, in[0]) : is_finite_number(in[0]) ? *selection_of(s, in[1]) : y;
    case OP_DIV: return is_finite_number(in[1]) && !node_is_zero(in[1]) ? *selection_of(s, in[0]) : y;
    case OP_CAST:
    case OP_REDUCE: return dtype_is_float(in[0]->dtype) ? *selection_of(s, in[0]) : y;
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_SLICE:
    case OP_UNSLICE: return read_view(s, n);
    case OP_GATHER:
        add_inside(s, &y, n);
        add_of_axes(s, &y, n, 0);
        return y;
    case OP_SCATTER_ADD: /* a sum over samples has no selection */
        if (node_is_zero(in[0]) && n->has_samples)
            add_of_axes(s, &y, n, 2);
        return y;
    case OP_GROUP_SUM: /* combines samples */ add_of_samples(s, &y, selection_of(s, in[0]), false); return y;
    case OP_TRANSPOSE:
    case OP_SUM:
    case OP_WINDOW_SUM:
    case OP_WINDOW_SUM_GRADIENT:
    case OP_WINDOW_MAX_GRADIENT: add_of_axes(s, &y, n, n->inputs - 1); return y;
    default:
        if (op_is_running(n->op) && OP_INFO[n->op].linear == LINEAR)
            add_of_axes(s, &y, n, 0);
        return y;
    }
}

const Selection *selection_of(Sweep *s, const Node *gradient)
{
    int id = gradient->id;
    if (id < s->selection_count && s->selections[id])
        return s->selections[id];
    Selection *found = NEW(Selection);
    *found = read_selection(s, gradient);
    while (s->selection_count <= id)
        APPEND(s->selections, s->selection_count, NULL);
    return s->selections[id] = found;
}

/* The node's own conditions stay, because before_selection takes its WHEREs away. */
const Selection *selection_record(Sweep *s, const Node *gradient, const Selection *selection)
{
    Selection *all = NEW(Selection);
    add_all(all, selection_of(s, gradient));
    add_all(all, selection);
    return s->selections[gradient->id] = all;
}

Node *selection_of_contraction(Sweep *s, Node *gradient, const Node *from, const char *from_letters, const char *letters)
{
    const Selection *x = selection_of(s, from);
    Selection y = {NULL, 0}, kept = {NULL, 0};
    if (from_letters)
        add_of_letters(s, &y, x, from_letters, letters);
    else
        add_of_samples(s, &y, x, true);
    for (int i = 0; i < y.count; i++)
        if (gradient->has_samples || !y.conditions[i]->has_samples)
            APPEND(kept.conditions, kept.count, y.conditions[i]);
    selection_record(s, gradient, &kept);
    return gradient;
}

/* ---- products */

static bool asks_valid(const Node *c)
{
    return c->op == OP_VALID || (c->op == OP_BROADCAST && asks_valid(c->in[0])) ||
           (c->op == OP_AND && (asks_valid(c->in[0]) || asks_valid(c->in[1])));
}

Node *before_selection(Node *gradient)
{
    Node **in = gradient->in;
    if (gradient->op == OP_WHERE && node_is_zero(in[1]) != node_is_zero(in[2]) && !asks_valid(in[0]))
        return before_selection(in[node_is_zero(in[1]) ? 2 : 1]);
    return gradient;
}

Node *selected(Sweep *s, const Node *gradient, Node *product)
{
    const Selection *by = selection_of(s, gradient);
    if (!by->count || node_is_zero(product))
        return product;
    Node *all = all_of(s->g, by);
    return graph_where(s->g, all, product, graph_fill(s->g, 0, product->shape, product->dtype));
}

Node *graph_times(Graph *g, Node *a, Node *b)
{
    if (is_constant(a, 1) || node_is_zero(b))
        return b;
    if (is_constant(b, 1) || node_is_zero(a))
        return a;
    return graph_binary(g, OP_MUL, a, b);
}

Node *selected_product(Sweep *s, Node *gradient, Node *derivative)
{
    if (is_finite_number(derivative))
        return graph_times(s->g, gradient, derivative);
    return selected(s, gradient, graph_times(s->g, before_selection(gradient), derivative));
}
