/* evaluate.c: (node, sample, index of an element) -> Expr.
 *
 * In: a node and the index of one of its elements, as expressions of a nest's axes. Out: the element's value, computed from what
 * the nest can load. A view maps the index and costs nothing; an element-wise operation becomes an expression of its operands at
 * the same index; small windows are unrolled. The callback `stored` decides whether an operand is loaded or computed here.
 *
 * Guards: an element that may be outside of a tensor (padding, gathers) is loaded under a condition. What uses the load is
 * computed unconditionally, so that loops have no branches, and the value is selected at the end. */
#include "compiler/kernel/kernel.h"

#include <math.h>
#include <string.h>

typedef struct Known {
    const Node *node;
    Expr *sample, *guard, *value, **index;
} Known;

static unsigned known_hash(const Node *n, const Expr *sample, Expr *const *index, const Expr *guard)
{
    uint64_t h = (uint64_t)n->id * 0x9E3779B97F4A7C15u + (uint64_t)(sample ? sample->id + 1 : 0);
    h = h * 0x9E3779B97F4A7C15u + (uint64_t)(guard ? guard->id + 1 : 0);
    for (int i = 0; i < n->shape.rank; i++)
        h = (h ^ h >> 31) * 0x9E3779B97F4A7C15u + (uint64_t)index[i]->id;
    return (unsigned)(h >> 32);
}

/* Returns the slot of the entry, or the free slot where it belongs. */
static int known_slot(const Evaluation *e, const Node *n, const Expr *sample, Expr *const *index, const Expr *guard)
{
    int mask = e->known_slot_count - 1, at = (int)known_hash(n, sample, index, guard) & mask;
    for (; e->known_slots[at]; at = (at + 1) & mask) {
        const Known *k = &e->known[e->known_slots[at] - 1];
        if (k->node != n || k->sample != sample || k->guard != guard)
            continue;
        if (!n->shape.rank || memcmp(k->index, index, sizeof *index * (size_t)n->shape.rank) == 0)
            break;
    }
    return at;
}

static void remember(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard, Expr *value)
{
    if (2 * (e->known_count + 1) > e->known_slot_count) {
        e->known_slot_count = e->known_slot_count ? 2 * e->known_slot_count : 32;
        e->known_slots = NEW_ARRAY(int, e->known_slot_count);
        for (int i = 0; i < e->known_count; i++) {
            const Known *k = &e->known[i];
            e->known_slots[known_slot(e, k->node, k->sample, k->index, k->guard)] = i + 1;
        }
    }
    Known k = {.node = n, .sample = sample, .guard = guard, .value = value, .index = NEW_ARRAY(Expr *, n->shape.rank)};
    for (int i = 0; i < n->shape.rank; i++)
        k.index[i] = index[i];
    int slot = known_slot(e, n, sample, index, guard);
    APPEND(e->known, e->known_count, k);
    e->known_slots[slot] = e->known_count;
}

Expr *evaluate(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    if (!n->has_samples)
        sample = NULL;
    else if (!sample)
        die("%s (node %d) has a value for every sample, but is used outside of them", OP_INFO[n->op].name, n->id);
    if (e->known_slot_count) {
        int slot = e->known_slots[known_slot(e, n, sample, index, guard)];
        if (slot)
            return e->known[slot - 1].value;
    }
    Expr *value = e->stored ? e->stored(e->context, e, n, sample, index, guard) : NULL;
    bool rounds = n->op == OP_CAST && dtype_is_half(n->dtype) && n->in[0]->dtype == F32;
    if (!value) /* a value that is not stored is not rounded */
        value = rounds && e->stored ? evaluate(e, n->in[0], sample, index, guard) : evaluate_computed(e, n, sample, index, guard);
    remember(e, n, sample, index, guard, value);
    return value;
}

/* ---- windows */

/* Returns ceil(size / stride): how many windows cover one element. */
static int64_t cover(const Node *n, int axis)
{
    int r = n->shape.rank;
    return (n->ints[axis] + n->ints[r + axis] - 1) / n->ints[r + axis];
}

static bool window_is_gradient(const Node *n) { return n->op == OP_WINDOW_MAX_GRADIENT || n->op == OP_WINDOW_SUM_GRADIENT; }

/* Returns how many input values contribute to one element of the result, along an axis. */
static int64_t window_extent(const Node *n, int axis) { return window_is_gradient(n) ? cover(n, axis) : n->ints[axis]; }

static bool window_is_unrolled(const Node *n)
{
    int64_t count = 1;
    for (int i = 0; i < n->shape.rank && count <= MOST_UNROLLED; i++)
        count *= window_extent(n, i);
    return count <= MOST_UNROLLED;
}

static double window_identity(const Node *n) { return n->op == OP_WINDOW_MAX || n->op == OP_WINDOW_ARGMAX ? -INFINITY : 0; }

/* Returns one of the input values of element `index` of the result: number `place`, in each axis; the window's identity where
 * there is none. */
static Expr *window_value(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *const *place, Expr *guard)
{
    Exprs *x = e->exprs;
    int r = n->shape.rank;
    const int64_t *size = n->ints, *stride = size + r, *low = stride + r;
    const Shape *from = &n->in[0]->shape;
    Expr *at[MAX_RANK], *inside = NULL, *tap = expr_index(x, 0);
    for (int i = 0; i < r; i++) {
        if (window_is_gradient(n)) { /* the window that begins place[i] windows before the last one that covers the element */
            Expr *reach = expr_plus(x, index[i], low[i]);
            Expr *back = expr_scale(x, place[i], -1);
            at[i] = expr_add(x, expr_div(x, reach, stride[i]), back);
            Expr *strides = expr_scale(x, place[i], stride[i]), *k = expr_add(x, expr_mod(x, reach, stride[i]), strides);
            inside = expr_and(x, inside, expr_range(x, k, 0, size[i]));
            tap = expr_add(x, expr_scale(x, tap, size[i]), k);
        } else {
            at[i] = expr_plus(x, expr_add(x, expr_scale(x, index[i], stride[i]), place[i]), -low[i]);
        }
        inside = expr_and(x, inside, expr_range(x, at[i], 0, from->extent[i]));
    }
    guard = expr_and(x, guard, inside);
    Expr *value = evaluate(e, n->in[n->inputs - 1], sample, at, guard);
    if (n->op == OP_WINDOW_MAX_GRADIENT) {
        Expr *pair[2] = {evaluate(e, n->in[0], sample, at, guard), NULL};
        pair[1] = expr_value_of(x, tap, pair[0]->dtype);
        Expr *chosen = expr_op(x, OP_EQ, BOOL, pair, 2, NULL);
        if (inside)
            chosen = expr_op(x, OP_AND, BOOL, (Expr *[]){inside, chosen}, 2, NULL);
        return expr_select(x, chosen, value, 0);
    }
    if (n->op == OP_WINDOW_SUM && value->dtype != n->dtype)
        value = expr_op(x, OP_CAST, n->dtype, &value, 1, NULL);
    if (inside)
        value = expr_select(x, guard && value->kind == X_LOAD ? guard : inside, value, window_identity(n));
    return value;
}

static Expr *unrolled_window(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    int r = n->shape.rank;
    int64_t place[MAX_RANK] = {0}, taps = 1;
    for (int i = 0; i < r; i++)
        taps *= window_extent(n, i);
    Expr *best = NULL, *at = NULL;
    for (int64_t k = 0; k < taps; k++) {
        Expr *places[MAX_RANK];
        for (int i = 0; i < r; i++)
            places[i] = expr_index(x, place[i]);
        Expr *value = window_value(e, n, sample, index, places, guard);
        if (n->op == OP_WINDOW_ARGMAX && best) {
            Expr *in[3] = {expr_op(x, OP_WINDOW_MAX, BOOL, (Expr *[]){value, best}, 2, NULL), expr_number(x, (double)k, I32), at};
            at = expr_op(x, OP_WHERE, I32, in, 3, NULL);
        } else if (n->op == OP_WINDOW_ARGMAX) {
            at = expr_number(x, 0, I32);
        }
        bool largest = n->op == OP_WINDOW_MAX || n->op == OP_WINDOW_ARGMAX;
        best = best ? expr_op(x, largest ? OP_MAX : OP_ADD, value->dtype, (Expr *[]){best, value}, 2, NULL) : value;
        for (int i = r - 1; i >= 0 && ++place[i] == window_extent(n, i); i--)
            place[i] = 0;
    }
    return n->op == OP_WINDOW_ARGMAX ? at : best;
}

/* ---- views */

/* UNSLICE, and PAD, whose steps are 1 */
static Expr *unsliced(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    int r = n->shape.rank;
    Expr *at[MAX_RANK], *inside = NULL;
    for (int i = 0; i < r; i++) {
        int64_t start = n->ints[i], step = n->op == OP_PAD ? 1 : n->ints[r + i], size = step < 0 ? -step : step;
        Expr *far = step < 0 ? expr_plus(x, expr_scale(x, index[i], -1), start) : expr_plus(x, index[i], -start);
        inside = expr_and(x, inside, expr_range(x, far, 0, (n->in[0]->shape.extent[i] - 1) * size + 1));
        if (size > 1)
            inside = expr_and(x, inside, expr_range(x, expr_mod(x, far, size), 0, 1));
        at[i] = size > 1 ? expr_div(x, far, size) : far;
    }
    Expr *all = expr_and(x, guard, inside), *value = evaluate(e, n->in[0], sample, at, all);
    return inside ? expr_select(x, value->kind == X_LOAD ? all : inside, value, n->op == OP_PAD ? n->data[0] : 0) : value;
}

static Expr *joined(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    int axis = (int)n->ints[0];
    int64_t end = n->shape.extent[axis];
    Expr *result = NULL, *at[MAX_RANK];
    memcpy(at, index, sizeof *at * (size_t)n->shape.rank);
    for (int k = n->inputs - 1; k >= 0; k--) {
        int64_t extent = n->in[k]->shape.extent[axis], start = end - extent;
        Expr *inside = expr_range(x, index[axis], start, end);
        at[axis] = expr_plus(x, index[axis], -start);
        Expr *value = extent ? evaluate(e, n->in[k], sample, at, expr_and(x, guard, inside)) : NULL;
        if (value)
            result = result && inside ? expr_op(x, OP_WHERE, n->dtype, (Expr *[]){inside, value, result}, 3, n) : value;
        end = start;
    }
    return result ? result : expr_number(x, 0, n->dtype); /* all inputs are empty */
}

static Expr *gathered(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    const Node *table = n->in[0];
    int axis = (int)n->ints[0], more = n->in[1]->shape.rank;
    int64_t extent = table->shape.extent[axis];
    Expr *number = evaluate(e, n->in[1], sample, index + axis, guard), *at[MAX_RANK];
    for (int i = 0; i < table->shape.rank; i++)
        at[i] = i == axis ? expr_index_of(x, number, extent) : index[i < axis ? i : i + more - 1];
    Expr *inside = expr_range(x, expr_index_of(x, number, 0), 0, extent), *all = expr_and(x, guard, inside);
    if (extent == 0)
        return expr_number(x, 0, n->dtype);
    Expr *value = evaluate(e, table, sample, at, all);
    return inside ? expr_select(x, value->kind == X_LOAD ? all : inside, value, 0) : value;
}

/* INDEX_COPY, each element: of v in the row that is replaced, else of x */
static Expr *index_copied(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    int axis = (int)n->ints[0], more = n->in[1]->shape.rank;
    Expr *at[MAX_RANK];
    for (int i = 0; i < n->in[2]->shape.rank; i++)
        at[i] = i < axis ? index[i] : i < axis + more ? expr_index(x, 0) : index[i - more + 1];
    Expr *row = expr_index_of(x, evaluate(e, n->in[1], sample, at + axis, guard), 0);
    Expr *here = expr_range(x, expr_add(x, index[axis], expr_scale(x, row, -1)), 0, 1);
    Expr *in[3] = {here, evaluate(e, n->in[2], sample, at, guard)};
    in[2] = evaluate(e, n->in[0], sample, index, guard);
    return expr_op(x, OP_WHERE, n->dtype, in, 3, n);
}

static Expr *viewed(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    const Node *from = n->in[0];
    int r = n->shape.rank;
    Expr *at[MAX_RANK];
    switch (n->op) {
    case OP_RESHAPE: expr_unflatten(x, &from->shape, expr_flatten(x, &n->shape, index), at); break;
    case OP_TRANSPOSE:
        for (int i = 0; i < r; i++)
            at[n->ints[i]] = index[i];
        break;
    case OP_SLICE:
        for (int i = 0; i < r; i++)
            at[i] = expr_plus(x, expr_scale(x, index[i], n->ints[2 * r + i]), n->ints[i]);
        break;
    case OP_BROADCAST:
        for (int i = 0; i < from->shape.rank; i++)
            at[i] = from->shape.extent[i] == 1 ? expr_index(x, 0) : index[r - from->shape.rank + i];
        break;
    case OP_UNSLICE:
    case OP_PAD: return unsliced(e, n, sample, index, guard);
    default: return joined(e, n, sample, index, guard);
    }
    return evaluate(e, from, sample, at, guard);
}

/* ---- all classes of operations */

Expr *evaluate_computed(Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    Exprs *x = e->exprs;
    switch (OP_INFO[n->op].op_class) {
    case ELEMENTWISE: {
        Expr *in[3];
        for (int i = 0; i < n->inputs; i++)
            in[i] = evaluate(e, n->in[i], sample, index, guard);
        return expr_op(x, n->op, n->dtype, in, n->inputs, n);
    }
    case VIEW: return viewed(e, n, sample, index, guard);
    case WINDOW: return unrolled_window(e, n, sample, index, guard);
    default: break;
    }
    switch (n->op) {
    case OP_CONSTANT:
        if (n->data_count == 1)
            return expr_number(x, n->data[0], n->dtype);
        return expr_table(x, n, expr_flatten(x, &n->shape, index), guard);
    case OP_RUN: return expr_run(x, n->ints[0], n->int_count > 1 ? n->ints[1] : 0);
    case OP_VALID: return expr_valid(x, sample);
    case OP_RANDOM: return expr_random(x, node_random_hash(n), expr_flatten(x, &n->shape, index), sample, e->initial, n->dtype);
    case OP_BATCH_PLACE: return expr_value_of(x, expr_add(x, expr_place(x), sample), n->dtype);
    case OP_ARANGE: return expr_value_of(x, index[0], n->dtype);
    case OP_GATHER: return gathered(e, n, sample, index, guard);
    case OP_INDEX_COPY: return index_copied(e, n, sample, index, guard);
    case OP_STOP_GRADIENT:
    case OP_OWN:
    case OP_MAX: /* over no axes; the same for SUM */
    case OP_SUM: {
        Expr *value = evaluate(e, n->in[0], sample, index, guard);
        return expr_op(x, OP_CAST, n->dtype, &value, 1, n);
    }
    default: die("%s (node %d) has no expression", OP_INFO[n->op].name, n->id);
    }
}

/* ---- reductions */

bool node_is_loop_reduction(const Node *n)
{
    switch (n->op) {
    case OP_SUM:
    case OP_MAX: return n->int_count || node_sums_samples(n);
    case OP_ARGMAX:
    case OP_MOMENTS:
    case OP_EINSUM:
    case OP_CONVOLVE:
    case OP_CONVOLVE_WEIGHT:
    case OP_GROUP_SUM: return true;
    default: return OP_INFO[n->op].op_class == WINDOW && !window_is_unrolled(n);
    }
}

static void add_axis(Axis *axes, int *count, int64_t extent, bool reduction)
{
    if (*count == MAX_AXES)
        die("a nest of more than %d axes", MAX_AXES);
    axes[(*count)++] = (Axis){.extent = extent, .reduction = reduction};
}

/* Numbers the letters of an EINSUM: those of the result first, then the summed ones; letter[c] = number + 1. */
static int einsum_letters(const Node *n, int letter[128], int64_t *extent)
{
    int count = 0;
    memset(letter, 0, sizeof *letter * 128);
    const char *out = strstr(n->text, "->") + 2;
    for (const char *p = out; *p; p++)
        letter[(unsigned char)*p] = ++count;
    const char *p = n->text;
    for (int i = 0; i < n->inputs; i++, p++)
        for (int k = 0; *p != ',' && *p != '-'; p++, k++) {
            int *place = &letter[(unsigned char)*p];
            if (!*place)
                *place = ++count;
            if (count > MAX_AXES - 1)
                die("einsum \"%s\" has more than %d letters", n->text, MAX_AXES - 1);
            extent[*place - 1] = n->in[i]->shape.extent[k];
        }
    return count;
}

Axis axis_of_split(const Shape *s) { return (Axis){.extent = 1, .samples = true, .elements = shape_count(s)}; }

int node_axes(const Node *n, Axis *axes)
{
    int count = 0;
    bool sums = node_sums_samples(n);
    if (node_is_split(n) || node_sums_split(n)) {
        axes[0] = axis_of_split(node_is_split(n) ? &n->shape : &n->in[0]->shape);
        axes[0].reduction = !node_is_split(n);
        return 1;
    }
    if (n->op == OP_GROUP_SUM) {
        if (n->ints[0]) {
            axes[count++] = (Axis){.kind = AXIS_GROUPS, .extent = 1, .samples = true, .group = n->ints[0]};
            axes[count++] = (Axis){.kind = AXIS_IN_GROUP, .extent = n->ints[0], .group = n->ints[0], .reduction = true};
        } else {
            axes[count++] = (Axis){.extent = 1, .samples = true, .reduction = true};
        }
    } else if (n->has_samples || (sums && node_is_loop_reduction(n))) {
        axes[count++] = (Axis){.extent = 1, .samples = true, .reduction = !n->has_samples};
    }
    const Shape *s = &n->shape, *x = n->inputs ? &n->in[0]->shape : s;
    if (!node_is_loop_reduction(n) || n->op == OP_GROUP_SUM) {
        for (int i = 0; i < s->rank; i++)
            add_axis(axes, &count, s->extent[i], false);
        return count;
    }
    if (n->op == OP_SUM || n->op == OP_MAX || n->op == OP_ARGMAX || n->op == OP_MOMENTS) {
        for (int i = 0; i < x->rank; i++) {
            bool reduction = false;
            for (int k = 0; k < n->int_count; k++)
                reduction = reduction || n->ints[k] == i;
            add_axis(axes, &count, x->extent[i], reduction);
        }
        return count;
    }
    if (n->op == OP_EINSUM) {
        int letter[128];
        int64_t extent[MAX_AXES];
        int letters = einsum_letters(n, letter, extent);
        for (int i = 0; i < letters; i++)
            add_axis(axes, &count, extent[i], i >= s->rank);
        return count;
    }
    for (int i = 0; i < s->rank; i++)
        add_axis(axes, &count, s->extent[i], false);
    if (OP_INFO[n->op].op_class == WINDOW) {
        for (int i = 0; i < s->rank; i++)
            add_axis(axes, &count, window_extent(n, i), true);
    } else if (n->op == OP_CONVOLVE) {
        for (int i = 1; i < n->in[1]->shape.rank; i++)
            add_axis(axes, &count, n->in[1]->shape.extent[i], true);
    } else {
        for (int i = 0; i < n->in[1]->shape.rank - 1; i++)
            add_axis(axes, &count, n->in[1]->shape.extent[i], true);
    }
    return count;
}

static Expr *multiply(Evaluation *e, const Node *n, Expr *a, Expr *b)
{
    Expr *in[2] = {expr_op(e->exprs, OP_CAST, n->dtype, &a, 1, NULL), expr_op(e->exprs, OP_CAST, n->dtype, &b, 1, NULL)};
    return expr_op(e->exprs, OP_MUL, n->dtype, in, 2, NULL);
}

static Expr *einsum_point(Evaluation *e, const Node *n, Expr *sample, Expr *const *index)
{
    int letter[128];
    int64_t extent[MAX_AXES];
    einsum_letters(n, letter, extent);
    const char *p = n->text;
    Expr *product = NULL;
    for (int i = 0; i < n->inputs; i++, p++) {
        Expr *at[MAX_RANK];
        for (int k = 0; *p != ',' && *p != '-'; p++, k++)
            at[k] = index[letter[(unsigned char)*p] - 1];
        Expr *value = evaluate(e, n->in[i], sample, at, NULL);
        product = product ? multiply(e, n, product, value) : expr_op(e->exprs, OP_CAST, n->dtype, &value, 1, NULL);
    }
    return product;
}

/* CONVOLVE: index = [p..., o, c, k...]; CONVOLVE_WEIGHT: [o, c, k..., p...] */
static Expr *convolve_point(Evaluation *e, const Node *n, Expr *sample, Expr *const *index)
{
    Exprs *x = e->exprs;
    const int64_t *v = n->ints;
    int r = (int)v[0];
    bool weight = n->op == OP_CONVOLVE_WEIGHT;
    const Shape *from = &n->in[0]->shape;
    Expr *const *place = weight ? index + r + 2 : index, *const *tap = weight ? index + 2 : index + r + 2;
    Expr *out = index[weight ? 0 : r], *channel = index[weight ? 1 : r + 1];
    int64_t outputs = weight ? n->shape.extent[0] : n->shape.extent[r], groups = v[1 + 5 * r];
    Expr *at[MAX_RANK], *other[MAX_RANK], *inside = NULL;
    for (int i = 0; i < r; i++) {
        int64_t stride = v[1 + i], low = v[1 + r + i], dilation = v[1 + 3 * r + i], input_dilation = v[1 + 4 * r + i];
        Expr *taps = expr_scale(x, tap[i], dilation), *q = expr_plus(x, expr_add(x, expr_scale(x, place[i], stride), taps), -low);
        inside = expr_and(x, inside, expr_range(x, q, 0, (from->extent[i] - 1) * input_dilation + 1));
        if (input_dilation > 1)
            inside = expr_and(x, inside, expr_range(x, expr_mod(x, q, input_dilation), 0, 1));
        at[i] = input_dilation > 1 ? expr_div(x, q, input_dilation) : q;
    }
    Expr *group = expr_div(x, out, outputs / groups);
    at[r] = expr_add(x, expr_scale(x, group, from->extent[r] / groups), channel);
    Expr *value = evaluate(e, n->in[0], sample, at, inside);
    if (inside)
        value = expr_select(x, inside, value, 0);
    if (weight) {
        memcpy(other, place, sizeof *other * (size_t)r);
        other[r] = out;
    } else {
        other[0] = out;
        other[1] = channel;
        memcpy(other + 2, tap, sizeof *other * (size_t)r);
    }
    return multiply(e, n, value, evaluate(e, n->in[1], sample, other, NULL));
}

Expr *evaluate_pivot(Evaluation *e, const Node *n, Expr *const *index)
{
    Expr *at[MAX_RANK];
    const Shape *x = &n->in[0]->shape;
    memcpy(at, index, sizeof *at * (size_t)x->rank);
    for (int k = 0; k < n->int_count; k++)
        at[n->ints[k]] = expr_index(e->exprs, x->extent[n->ints[k]] / 2);
    return evaluate(e, n->in[0], e->divided ? expr_first(e->exprs) : expr_index(e->exprs, 0), at, NULL);
}

/* Returns the element's distance from the pivot, or 0 if the sample is not valid. */
static Expr *distance(Evaluation *e, const Node *n, Expr *sample, Expr *const *index)
{
    Exprs *x = e->exprs;
    Expr *in[] = {evaluate(e, n->in[0], sample, index, NULL), evaluate_pivot(e, n, index)},
         *valid = evaluate(e, n->in[1], sample, NULL, NULL);
    return expr_select(x, valid, expr_op(x, OP_SUB, in[0]->dtype, in, 2, NULL), 0);
}

Expr *evaluate_point(Evaluation *e, const Node *n, Expr *const *index)
{
    Expr *element[MAX_RANK];
    if (node_is_split(n) || node_sums_split(n)) {
        expr_unflatten(e->exprs, node_is_split(n) ? &n->shape : &n->in[0]->shape, index[0], element);
        index = element;
    }
    Expr *sample = n->has_samples || node_sums_samples(n) ? *index++ : NULL;
    if (n->op == OP_GROUP_SUM && n->ints[0])
        sample = *index++; /* AXIS_IN_GROUP */
    if (!node_is_loop_reduction(n))
        return evaluate_computed(e, n, sample, index, NULL);
    switch (n->op) {
    case OP_EINSUM: return einsum_point(e, n, sample, index);
    case OP_CONVOLVE:
    case OP_CONVOLVE_WEIGHT: return convolve_point(e, n, sample, index);
    case OP_SUM:
    case OP_GROUP_SUM: {
        Expr *value = evaluate(e, n->in[0], sample, index, NULL);
        return expr_op(e->exprs, OP_CAST, n->dtype, &value, 1, NULL);
    }
    case OP_MOMENTS: return distance(e, n, sample, index);
    case OP_MAX:
    case OP_ARGMAX: return evaluate(e, n->in[0], sample, index, NULL);
    default: return window_value(e, n, sample, index, index + n->shape.rank, NULL);
    }
}
