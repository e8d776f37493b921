/* views.c: rules for views and sums: chains become one, views without effect are dropped, a sum of a broadcast is a multiple, and
 * a sum over samples of a value that is the same for each is a multiple of their number. */
#include "compiler/passes/simplify/rules.h"

/* ---- views of views */

/* Returns the shape without leading extents of 1. */
static Shape without_leading_ones(const Shape *a)
{
    int ones = 0;
    while (ones < a->rank && a->extent[ones] == 1)
        ones++;
    return shape_of(a->rank - ones, a->extent + ones);
}

/* n = reshape(transpose(reshape(x))): the axes of x in another order, if the inner reshape only joins axes of x (or adds extents
 * of 1) and the outer one separates them again. */
static Node *transpose_of_joined(Simplifier *s, Node *n)
{
    const Node *t = n->in[0], *joined = t->in[0];
    Node *x = joined->in[0];
    int first[MAX_RANK + 1], order[MAX_RANK], count = 0, at = 0, kept = 0;
    if (shape_count(&x->shape) == 0 || x->weak)
        return NULL;
    for (int i = 0; i < joined->shape.rank; i++) { /* axes first[i] .. first[i + 1] of x are axis i of joined */
        int64_t product = 1;
        first[i] = at;
        while (at < x->shape.rank && (product < joined->shape.extent[i] || x->shape.extent[at] == 1))
            product *= x->shape.extent[at++];
        if (product != joined->shape.extent[i])
            return NULL;
    }
    first[joined->shape.rank] = at;
    for (; at < x->shape.rank; at++) /* extents of 1 after the last */
        order[count++] = at;
    for (int i = 0; i < t->shape.rank; i++)
        for (int k = first[t->ints[i]]; k < first[t->ints[i] + 1]; k++)
            order[count++] = k;
    for (int i = 0; i < count; i++) { /* without extents of 1, the extents must be those of n */
        if (x->shape.extent[order[i]] == 1)
            continue;
        while (kept < n->shape.rank && n->shape.extent[kept] == 1)
            kept++;
        if (kept == n->shape.rank || n->shape.extent[kept++] != x->shape.extent[order[i]])
            return NULL;
    }
    Node *y = simplify_node(s, graph_transpose(s->target, x, order));
    return simplify_node(s, graph_reshape(s->target, y, n->shape));
}

static Node *rule_reshape(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    if (shape_equal(&a->shape, &n->shape))
        return a;
    if (a->op == OP_TRANSPOSE && a->in[0]->op == OP_RESHAPE) {
        Node *y = transpose_of_joined(s, n);
        if (y)
            return y;
    }
    if (a->op == OP_RESHAPE)
        return simplify_node(s, graph_reshape(s->target, a->in[0], n->shape));
    if (a->op == OP_BROADCAST && shape_count(&a->in[0]->shape) == 1) {
        Node *one = simplify_node(s, graph_reshape(s->target, a->in[0], SCALAR));
        return simplify_node(s, graph_broadcast(s->target, one, n->shape));
    }
    return NULL;
}

static Node *rule_broadcast(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    if (a->weak)
        return NULL;
    if (shape_count(&a->shape) == shape_count(&n->shape))
        return simplify_node(s, graph_reshape(s->target, a, n->shape));
    if (a->op == OP_BROADCAST)
        return simplify_node(s, graph_broadcast(s->target, a->in[0], n->shape));
    if (a->op == OP_RESHAPE && !a->in[0]->weak && a->in[0]->shape.rank <= n->shape.rank) {
        Shape before = without_leading_ones(&a->in[0]->shape), after = without_leading_ones(&a->shape);
        if (shape_equal(&before, &after))
            return simplify_node(s, graph_broadcast(s->target, a->in[0], n->shape));
    }
    return NULL;
}

static Node *transpose_of_einsum(Simplifier *s, Node *n)
{
    Node *e = n->in[0];
    char *spec = allocate(strlen(e->text) + 1);
    size_t arrow = (size_t)(strstr(e->text, "->") - e->text);
    memcpy(spec, e->text, strlen(e->text));
    for (int i = 0; i < n->shape.rank; i++)
        spec[arrow + 2 + (size_t)i] = e->text[arrow + 2 + (size_t)n->ints[i]];
    return simplify_node(s, graph_einsum(s->target, spec, e->in, e->inputs, node_sums_samples(e)));
}

static Node *rule_transpose(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    int order[MAX_RANK], r = n->shape.rank;
    int64_t last = -1;
    bool moves = false;
    for (int i = 0; i < r; i++)
        if (n->shape.extent[i] != 1) {
            moves = moves || n->ints[i] < last;
            last = n->ints[i];
        }
    if (!moves)
        return simplify_node(s, graph_reshape(s->target, a, n->shape));
    if (a->op == OP_TRANSPOSE) {
        for (int i = 0; i < r; i++)
            order[i] = (int)a->ints[n->ints[i]];
        return simplify_node(s, graph_transpose(s->target, a->in[0], order));
    }
    if (a->op == OP_BROADCAST && shape_count(&a->in[0]->shape) == 1) {
        Node *one = simplify_node(s, graph_reshape(s->target, a->in[0], SCALAR));
        return simplify_node(s, graph_broadcast(s->target, one, n->shape));
    }
    return a->op == OP_EINSUM && node_uses(s, a) <= 1 ? transpose_of_einsum(s, n) : NULL;
}

static Node *slice_of_concat(Simplifier *s, Node *n)
{
    Node *joined = n->in[0];
    int r = n->shape.rank, axis = (int)joined->ints[0];
    int64_t first = n->ints[axis], last = first + (n->ints[r + axis] - 1) * n->ints[2 * r + axis], begin = 0;
    if (first > last) {
        int64_t t = first;
        first = last;
        last = t;
    }
    for (int k = 0; k < joined->inputs; k++) {
        int64_t end = begin + joined->in[k]->shape.extent[axis];
        if (first >= begin && last < end) {
            int64_t start[MAX_RANK];
            for (int i = 0; i < r; i++)
                start[i] = n->ints[i] - (i == axis ? begin : 0);
            return simplify_node(s, graph_slice(s->target, joined->in[k], start, n->ints + r, n->ints + 2 * r));
        }
        begin = end;
    }
    return NULL;
}

static Node *slice_of_broadcast(Simplifier *s, Node *n)
{
    Node *x = n->in[0]->in[0];
    int r = n->shape.rank, more = r - x->shape.rank;
    int64_t start[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        bool stretched = x->shape.extent[i] != n->in[0]->shape.extent[more + i];
        start[i] = stretched ? 0 : n->ints[more + i];
        count[i] = stretched ? 1 : n->ints[r + more + i];
        step[i] = stretched ? 1 : n->ints[2 * r + more + i];
    }
    Node *part = simplify_node(s, graph_slice(s->target, x, start, count, step));
    return simplify_node(s, graph_broadcast(s->target, part, n->shape));
}

static Node *rule_slice(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    int r = n->shape.rank;
    const int64_t *start = n->ints, *count = n->ints + r, *step = n->ints + 2 * r;
    if (shape_count(&n->shape) == 0)
        return NULL;
    Node *plain = graph_slice(s->target, a, start, count, step);
    if (plain != n)
        return plain;
    if (a->op == OP_SLICE) {
        int64_t first[MAX_RANK], by[MAX_RANK];
        for (int i = 0; i < r; i++) {
            first[i] = a->ints[i] + start[i] * a->ints[2 * r + i];
            by[i] = step[i] * a->ints[2 * r + i];
        }
        return simplify_node(s, graph_slice(s->target, a->in[0], first, count, by));
    }
    if (a->op == OP_CONCAT)
        return slice_of_concat(s, n);
    if (a->op == OP_BROADCAST)
        return slice_of_broadcast(s, n);
    if (a->op == OP_UNSLICE && shape_equal(&a->in[0]->shape, &n->shape) &&
        memcmp(a->ints, start, sizeof *start * (size_t)r) == 0 && memcmp(a->ints + r, step, sizeof *step * (size_t)r) == 0)
        return a->in[0];
    return NULL;
}

/* Returns the value that the inputs are consecutive slices of. */
static Node *concat_of_slices(const Node *n)
{
    int axis = (int)n->ints[0], r = n->shape.rank;
    Node *x = n->in[0]->op == OP_SLICE ? n->in[0]->in[0] : NULL;
    if (!x || !shape_equal(&x->shape, &n->shape))
        return NULL;
    int64_t at = 0;
    for (int k = 0; k < n->inputs; at += n->in[k++]->shape.extent[axis]) {
        const Node *part = n->in[k];
        if (part->op != OP_SLICE || part->in[0] != x)
            return NULL;
        for (int i = 0; i < r; i++)
            if (part->ints[i] != (i == axis ? at : 0) || (part->ints[2 * r + i] != 1 && part->shape.extent[i] > 1))
                return NULL;
    }
    return x;
}

static Node *rule_concat(Simplifier *s, Node *n)
{
    int axis = (int)n->ints[0], count = 0;
    Node **in = NULL;
    if (concat_of_slices(n))
        return concat_of_slices(n);
    double value, first = 0;
    bool equal = node_is_constant(n->in[0], &first);
    for (int k = 0; k < n->inputs; k++) {
        Node *x = n->in[k];
        equal = equal && node_is_constant(x, &value) && memcmp(&value, &first, sizeof value) == 0;
        if (x->op == OP_CONCAT && x->ints[0] == axis && node_uses(s, x) <= 1) {
            for (int i = 0; i < x->inputs; i++)
                APPEND(in, count, x->in[i]);
        } else if (x->shape.extent[axis]) {
            APPEND(in, count, x);
        }
    }
    if (equal)
        return fill_like(s, n, first);
    bool same = count == n->inputs;
    for (int k = 0; same && k < count; k++)
        same = in[k] == n->in[k];
    return same || !count ? NULL : simplify_node(s, graph_concat(s->target, in, count, axis));
}

static Node *rule_pad(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    int r = n->shape.rank;
    if (shape_equal(&a->shape, &n->shape))
        return a;
    if (a->op != OP_PAD || a->data[0] != n->data[0])
        return NULL;
    int64_t low[MAX_RANK], high[MAX_RANK];
    for (int i = 0; i < r; i++) {
        low[i] = a->ints[i] + n->ints[i];
        high[i] = a->ints[r + i] + n->ints[r + i];
    }
    return simplify_node(s, graph_pad(s->target, a->in[0], low, high, n->data[0]));
}

/* ---- sums of parts in zeros */

enum { MOST_PARTS = 64 };

/* Collects the terms of a sum; -1: too many. */
static int terms_of(const Simplifier *s, Node *n, bool top, Node **terms, int count)
{
    if (n->op != OP_ADD || (!top && node_uses(s, n) > 1)) {
        if (count == MOST_PARTS)
            return -1;
        terms[count] = n;
        return count + 1;
    }
    for (int k = 0; k < 2 && count >= 0; k++)
        count = terms_of(s, n->in[k], false, terms, count);
    return count;
}

/* Returns the axis that a part was cut from, contiguously; -1: none, or several. */
static int axis_of_part(const Node *n)
{
    int axis = -1, r = n->shape.rank;
    for (int i = 0; i < r; i++) {
        if (n->ints[r + i] != 1 && n->in[0]->shape.extent[i] > 1)
            return -1;
        if (n->in[0]->shape.extent[i] == n->shape.extent[i])
            continue;
        if (axis >= 0)
            return -1;
        axis = i;
    }
    return axis;
}

/* Slices of one value each have a gradient, in zeros; if they cover the value, their sum is a concatenation. */
Node *join_slices(Simplifier *s, Node *n)
{
    Node *part[MOST_PARTS];
    if (n->in[0]->op != OP_UNSLICE && n->in[1]->op != OP_UNSLICE)
        return NULL;
    int count = terms_of(s, n, true, part, 0), axis = -1;
    for (int k = 0; k < count; k++) {
        int own = part[k]->op == OP_UNSLICE && part[k]->has_samples == n->has_samples ? axis_of_part(part[k]) : -1;
        if (own < 0 || (k > 0 && own != axis))
            return NULL;
        axis = own;
        for (int j = k; j > 0 && part[j - 1]->ints[axis] > part[j]->ints[axis]; j--) {
            Node *moved = part[j];
            part[j] = part[j - 1];
            part[j - 1] = moved;
        }
    }
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        if (part[k]->ints[axis] != at)
            return NULL;
        at += part[k]->in[0]->shape.extent[axis];
        part[k] = part[k]->in[0];
    }
    return count > 1 && at == n->shape.extent[axis] ? simplify_node(s, graph_concat(s->target, part, count, axis)) : NULL;
}

/* Returns true if every axis is whole and forwards. */
static bool unslices_nothing(const Node *n)
{
    int r = n->shape.rank;
    for (int i = 0; i < r; i++)
        if (n->shape.extent[i] > 1 && n->ints[r + i] != 1)
            return false;
    return shape_equal(&n->in[0]->shape, &n->shape);
}

Node *rule_view(Simplifier *s, Node *n)
{
    double v;
    if (node_is_constant(n->in[0], &v) && n->op != OP_CONCAT) {
        bool fills = (n->op != OP_PAD || v == n->data[0]) && (n->op != OP_UNSLICE || v == 0);
        if (fills)
            return fill_like(s, n, v);
    }
    Node *y = NULL;
    switch (n->op) {
    case OP_RESHAPE: y = rule_reshape(s, n); break;
    case OP_BROADCAST: y = rule_broadcast(s, n); break;
    case OP_TRANSPOSE: y = rule_transpose(s, n); break;
    case OP_SLICE: y = rule_slice(s, n); break;
    case OP_UNSLICE: y = unslices_nothing(n) ? n->in[0] : NULL; break;
    case OP_CONCAT: y = rule_concat(s, n); break;
    case OP_PAD: y = rule_pad(s, n); break;
    default: break;
    }
    if (y)
        return y;
    return n->op == OP_BROADCAST ? NULL : fold_by_interpreter(s, n);
}

/* ---- sums */

static Node *sum_of(Simplifier *s, Node *x, const int *axes, int count, bool over)
{
    Graph *g = s->target;
    return simplify_node(s, over ? graph_sum_samples(g, x, axes, count) : graph_sum(g, x, axes, count));
}

static bool is_valid(const Node *n)
{
    while (n->op == OP_BROADCAST || n->op == OP_RESHAPE)
        n = n->in[0];
    return n->op == OP_VALID;
}

/* Matches where(valid, c, 0) or cast(valid), with c the same for all samples: returns c, with the shape of x. */
static Node *same_for_valid(Simplifier *s, Node *x)
{
    if (is_valid(x))
        return graph_fill(s->target, 1, x->shape, BOOL);
    if (x->op == OP_CAST) {
        Node *c = same_for_valid(s, x->in[0]);
        return c ? graph_cast(s->target, c, x->dtype) : NULL;
    }
    return x->op == OP_WHERE && is_valid(x->in[0]) && !x->in[1]->has_samples && is_constant(x->in[2], 0) ? x->in[1] : NULL;
}

/* sum over [S] of broadcast(x): the broadcast axes are factors */
static Node *sum_of_broadcast(Simplifier *s, Node *n, const bool *summed, bool over)
{
    Node *broad = n->in[0], *x = broad->in[0];
    int more = broad->shape.rank - x->shape.rank, axes[MAX_RANK], axis_count = 0, kept_rank = 0;
    int64_t kept[MAX_RANK];
    double factor = 1;
    bool any = false;
    for (int i = 0; i < broad->shape.rank; i++) {
        bool stretched = i < more || x->shape.extent[i - more] != broad->shape.extent[i];
        if (summed[i] && stretched) {
            factor *= (double)broad->shape.extent[i];
            any = true;
        } else if (summed[i]) {
            axes[axis_count++] = i - more;
        }
    }
    if (!any)
        return NULL;
    if (factor == 0)
        return fill_like(s, n, 0);
    Node *y = sum_of(s, x, axes, axis_count, over);
    /* y still has extents of 1 of summed broadcast axes */
    for (int i = more; i < broad->shape.rank; i++)
        if (!summed[i])
            kept[kept_rank++] = x->shape.extent[i - more];
    y = simplify_node(s, graph_reshape(s->target, graph_strong(s->target, y, n->dtype), shape_of(kept_rank, kept)));
    y = SIMPLE(s, OP_MUL, y, graph_fill(s->target, factor, y->shape, y->dtype));
    return simplify_node(s, graph_broadcast(s->target, y, n->shape));
}

static Node *sum_of_sum(Simplifier *s, Node *n, bool over)
{
    const Node *inner = n->in[0];
    int axes[MAX_RANK], count = 0, next = 0, left[MAX_RANK];
    for (int i = 0, k = 0; i < inner->in[0]->shape.rank; i++) {
        if (k < inner->int_count && inner->ints[k] == i) {
            axes[count++] = i;
            k++;
        } else {
            left[next++] = i;
        }
    }
    for (int k = 0; k < n->int_count; k++)
        axes[count++] = left[n->ints[k]];
    return sum_of(s, inner->in[0], axes, count, over || node_sums_samples(inner));
}

static Node *sum_of_transpose(Simplifier *s, Node *n, const bool *summed, bool over)
{
    Node *a = n->in[0];
    int axes[MAX_RANK], order[MAX_RANK], rest[MAX_RANK], count = 0, left = 0;
    for (int i = 0; i < a->shape.rank; i++) {
        if (summed[i])
            axes[count++] = (int)a->ints[i];
        else
            rest[left++] = (int)a->ints[i];
    }
    Node *y = sum_of(s, a->in[0], axes, count, over);
    for (int i = 0; i < left; i++) { /* the position of each axis among those that are left */
        order[i] = 0;
        for (int k = 0; k < left; k++)
            order[i] += rest[k] < rest[i];
    }
    return simplify_node(s, graph_transpose(s->target, y, order));
}

/* Axes of extent 1 need no sum. */
static Node *sum_without_ones(Simplifier *s, Node *n, const bool *summed, bool over)
{
    const Node *a = n->in[0];
    int axes[MAX_RANK], count = 0, rank = 0, ones = 0;
    int64_t extent[MAX_RANK];
    for (int i = 0; i < a->shape.rank; i++) {
        if (summed[i] && a->shape.extent[i] == 1) {
            ones++;
            continue;
        }
        if (summed[i])
            axes[count++] = rank;
        extent[rank++] = a->shape.extent[i];
    }
    bool whole = n->shape.rank == 0 && (over || count); /* a sum of all elements is independent of the shape */
    if (!ones || whole)
        return NULL;
    Node *x = simplify_node(s, graph_reshape(s->target, n->in[0], shape_of(rank, extent)));
    return sum_of(s, x, axes, count, over);
}

static Node *sum_of_equals(Simplifier *s, Node *n)
{
    Node *c = same_for_valid(s, n->in[0]);
    if (!c)
        return NULL;
    int axes[MAX_RANK];
    for (int k = 0; k < n->int_count; k++)
        axes[k] = (int)n->ints[k];
    Node *one = simplify_node(s, graph_strong(s->target, sum_of(s, c, axes, n->int_count, false), n->dtype));
    Node *samples = simplify_node(s, graph_cast(s->target, simplify_node(s, graph_run(s->target, RUN_SAMPLES, 0)), n->dtype));
    samples = simplify_node(s, graph_broadcast(s->target, samples, one->shape));
    return SIMPLE(s, OP_MUL, one, samples);
}

Node *rule_sum(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    bool over = node_sums_samples(n), summed[MAX_RANK] = {false};
    double value, factor = 1;
    for (int k = 0; k < n->int_count; k++) {
        summed[n->ints[k]] = true;
        factor *= (double)a->shape.extent[n->ints[k]];
    }
    if (!over && n->int_count == 0)
        return graph_cast(s->target, a, n->dtype);
    if (node_is_constant(a, &value) && is_exact(n->dtype, value * factor))
        return fill_like(s, n, value * factor);
    if (is_constant(a, 0))
        return fill_like(s, n, 0);
    Node *y = over && s->one_step ? sum_of_equals(s, n) : NULL;
    if (!y)
        y = sum_without_ones(s, n, summed, over);
    if (!y && a->op == OP_BROADCAST)
        y = sum_of_broadcast(s, n, summed, over);
    if (!y && a->op == OP_SUM && node_uses(s, a) <= 1)
        y = sum_of_sum(s, n, over);
    if (!y && a->op == OP_TRANSPOSE)
        y = sum_of_transpose(s, n, summed, over);
    if (!y && a->op == OP_RESHAPE && n->shape.rank == 0) {
        int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
        y = sum_of(s, a->in[0], axes, a->in[0]->shape.rank, over);
    }
    return y ? y : fold_by_interpreter(s, n);
}

/* ---- windows of one value: along an axis without padding all windows are equal */

Node *rule_window_sum(Simplifier *s, Node *n)
{
    double value;
    int r = n->shape.rank;
    if (!node_is_constant(n->in[0], &value))
        return fold_by_interpreter(s, n);
    int64_t ints[4 * MAX_RANK], extent[MAX_RANK];
    bool smaller = false, padded = false;
    for (int i = 0; i < r; i++) {
        const int64_t *v = n->ints + i; /* v[0] size, v[r] stride, v[2 r] low padding, v[3 r] high padding */
        bool plain = v[2 * r] == 0 && v[3 * r] == 0;
        for (int k = 0; k < 4; k++)
            ints[k * r + i] = plain && k == 1 ? 1 : v[k * r];
        extent[i] = plain ? v[0] : n->in[0]->shape.extent[i];
        smaller = smaller || extent[i] != n->in[0]->shape.extent[i];
        padded = padded || !plain;
        value *= plain ? (double)v[0] : 1;
    }
    if (!padded && is_exact(n->dtype, value))
        return fill_like(s, n, value);
    if (!padded || !smaller)
        return fold_by_interpreter(s, n);
    Node *x = graph_fill(s->target, n->in[0]->data[0], shape_of(r, extent), n->in[0]->dtype);
    Node *y = simple_node(s, OP_WINDOW_SUM, &x, 1, ints, 4 * r);
    return simplify_node(s, graph_broadcast(s->target, y, n->shape));
}

bool is_relu(const Node *y)
{
    return y->op == OP_WHERE && y->in[0]->op == OP_LE && y->in[0]->in[0] == y->in[2] && is_constant(y->in[0]->in[1], 0) &&
           is_constant(y->in[1], 0);
}

/* max(relu(z)) = relu(max(z)): fewer elements are clipped, and neither relu(z) nor its mask is kept for backward. Where the
 * position of the maximum would differ (all of a window are negative) its gradient is 0. */
Node *rule_window_max(Simplifier *s, Node *n)
{
    Node *relu = n->in[0];
    if (!is_relu(relu) || node_uses(s, relu) > 1)
        return fold_by_interpreter(s, n);
    Node *most = simple_node(s, OP_WINDOW_MAX, &relu->in[2], 1, n->ints, n->int_count), *zero = fill_like(s, most, 0);
    return SIMPLE(s, OP_WHERE, SIMPLE(s, OP_LE, most, zero), zero, most);
}
