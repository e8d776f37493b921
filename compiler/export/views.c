/* views.c: lowers operations that move elements, and those that access elements by index. */
#include "compiler/export/lowering.h"

void lower_reshape(Lowering *l, const Node *n)
{
    set_lowered(l, n, reshape(l, whole_value(l, n->in[0]), extents(n->has_samples, &n->shape)), false);
}

void lower_transpose(Lowering *l, const Node *n)
{
    int64_t order[EXPORTED_RANK] = {0};
    for (int i = 0; i < n->shape.rank; i++)
        order[i + n->has_samples] = n->ints[i] + n->has_samples;
    set_lowered(l, n, transpose(l, whole_value(l, n->in[0]), order), false);
}

/* Axes of equal elements keep extent 1; new axes are the first ones. */
void lower_broadcast(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    const Value *v = value_of(l, x);
    if (x->has_samples && v->rank < n->shape.rank + 1) {
        Extents e = {.rank = n->shape.rank + 1, .extent = {BATCH}};
        for (int i = 1; i < e.rank; i++)
            e.extent[i] = i <= e.rank - v->rank ? 1 : v->extent[i - e.rank + v->rank];
        v = reshape(l, v, e);
    }
    set_lowered(l, n, v, false);
}

void lower_slice(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    bool first = is_first(l, x);
    const Value *v = first ? channels_first(l, x) : whole_value(l, x);
    int64_t axes[MAX_RANK], start[MAX_RANK], counts[MAX_RANK], step[MAX_RANK];
    int r = x->shape.rank, count = 0;
    for (int i = 0; i < r; i++) {
        if (n->ints[i] == 0 && n->ints[r + i] == x->shape.extent[i] && n->ints[2 * r + i] == 1)
            continue;
        axes[count] = axis_of(x, i, first);
        start[count] = n->ints[i];
        counts[count] = n->ints[r + i];
        step[count++] = n->ints[2 * r + i];
    }
    set_lowered(l, n, slice(l, v, count, axes, start, counts, step), first);
}

/* The operand is surrounded by zeros. */
void lower_unslice(Lowering *l, const Node *n)
{
    int r = n->shape.rank;
    int64_t low[EXPORTED_RANK] = {0}, high[EXPORTED_RANK] = {0};
    const Value *v = whole_value(l, n->in[0]);
    for (int i = 0; i < r; i++) {
        if (n->ints[r + i] != 1)
            cannot_export(l, "elements that are put between zeros");
        low[i + n->has_samples] = n->ints[i];
        high[i + n->has_samples] = n->shape.extent[i] - n->ints[i] - n->in[0]->shape.extent[i];
    }
    set_lowered(l, n, pad(l, v, low, high, 0), false);
}

void lower_concat(Lowering *l, const Node *n)
{
    bool first = n->has_samples;
    const Value **in = NEW_ARRAY(const Value *, n->inputs);
    for (int i = 0; i < n->inputs; i++)
        first = first && n->in[i]->has_samples && is_first(l, n->in[i]);
    for (int i = 0; i < n->inputs; i++) {
        in[i] = first ? channels_first(l, n->in[i]) : whole_value(l, n->in[i]);
        if (n->has_samples && !n->in[i]->has_samples)
            in[i] = of_all_samples(l, in[i]);
    }
    int axis = axis_of(n, (int)n->ints[0], first);
    Extents e = extents_of(in[0]);
    e.extent[axis] = n->shape.extent[n->ints[0]];
    const Value *y = emit(l, "Concat", in[0]->dtype, e, n->inputs, in);
    attribute(l, "axis", axis);
    set_lowered(l, n, y, first);
}

void lower_pad(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    bool first = is_first(l, x);
    int64_t low[EXPORTED_RANK] = {0}, high[EXPORTED_RANK] = {0};
    for (int i = 0; i < x->shape.rank; i++) {
        low[axis_of(x, i, first)] = n->ints[i];
        high[axis_of(x, i, first)] = n->ints[x->shape.rank + i];
    }
    set_lowered(l, n, pad(l, first ? channels_first(l, x) : whole_value(l, x), low, high, n->data[0]), first);
}

/* ---- access by index */

/* Returns n such that the type represents all of 0 ... n - 1. */
static int64_t wholes_of(Dtype t)
{
    switch (t) {
    case BOOL: return 2;
    case I8: return 128;
    case BF16: return 257;
    case F16: return 2049;
    case F32: return (1 << 24) + 1;
    default: return dtype_bytes(t) == 1 ? 256 : dtype_bytes(t) == 2 ? 32768 : INT32_MAX;
    }
}

/* Returns whether all elements are valid indices of an axis of this extent. */
static bool within(const Lowering *l, const Node *i, int64_t extent)
{
    if (extent > wholes_of(i->dtype)) /* a cast may have rounded or wrapped them */
        return false;
    if (i->op == OP_CAST || i->op == OP_RESHAPE || i->op == OP_TRANSPOSE || i->op == OP_BROADCAST || i->op == OP_SLICE)
        return within(l, i->in[0], extent);
    if (i->op == OP_ARANGE)
        return i->shape.extent[0] <= extent;
    if (i->op == OP_ARGMAX || (i->op == OP_TOP_K && i->ints[2])) /* of top_k the places, not the values */
        return i->in[0]->shape.extent[i->ints[0]] <= extent;
    if (i->op == OP_CONSTANT) {
        bool all = true;
        for (int64_t k = 0; k < i->data_count; k++)
            all = all && i->data[k] >= 0 && i->data[k] < (double)extent;
        return all;
    }
    if (i->op != OP_INPUT)
        return false;
    const Input *in = &l->graph->model->inputs[i->ints[0]];
    return in->classes && in->classes <= extent && in->ignore == NO_LABEL;
}

static Extents with_ones(const Value *v, int before, int after)
{
    Extents e = {.rank = before + v->rank + after};
    for (int i = 0; i < e.rank; i++)
        e.extent[i] = i < before || i >= before + v->rank ? 1 : v->extent[i - before];
    return e;
}

/* Moves axis `from` before axis `at`. */
static const Value *to_front(Lowering *l, const Value *x, int from, int at)
{
    int64_t order[EXPORTED_RANK];
    for (int i = 0; i < x->rank; i++)
        order[i] = i == at ? from : i > at && i <= from ? i - 1 : i;
    return transpose(l, x, order);
}

/* y[i..., rest] = x[i, rest]; the axes of i replace the indexed axis. Indices out of range give 0. */
void lower_gather(Lowering *l, const Node *n)
{
    const Node *x = n->in[0], *i = n->in[1];
    int axis = (int)n->ints[0], rest = x->shape.rank - 1;
    const Value *v = whole_value(l, x), *at = index_value(l, i), *y, *known = NULL;
    bool sure = within(l, i, x->shape.extent[axis]);
    if (!sure) {
        known = from_0_to(l, at, (double)(x->shape.extent[axis] - 1));
        at = where_of(l, known, at, scalar_of(l, 0, at->dtype));
    }
    if (x->has_samples && i->has_samples) { /* [N, axis, rest] and [N, i...] */
        v = to_front(l, v, axis + 1, 1);
        at = reshape(l, at, with_ones(at, 0, 1));
        Extents e = {.rank = 1 + i->shape.rank + rest, .extent = {BATCH}};
        for (int k = 0; k < i->shape.rank; k++)
            e.extent[k + 1] = i->shape.extent[k];
        for (int k = 0; k < rest; k++)
            e.extent[k + 1 + i->shape.rank] = v->extent[k + 2];
        y = EMIT(l, "GatherND", v->dtype, e, v, l->torch ? at : cast(l, at, I64));
        attribute(l, "batch_dims", 1);
    } else {
        int place = axis + x->has_samples;
        Extents e = {.rank = v->rank - 1 + at->rank};
        for (int k = 0; k < e.rank; k++)
            e.extent[k] = k < place ? v->extent[k] : k < place + at->rank ? at->extent[k - place] : v->extent[k - at->rank + 1];
        y = EMIT(l, "Gather", v->dtype, e, v, at);
        attribute(l, "axis", place);
        if (i->has_samples && place) /* moves the samples to the front */
            y = to_front(l, y, place, 0);
    }
    if (i->has_samples && axis) { /* [N, i, before, after] -> [N, before, i, after] */
        int64_t order[EXPORTED_RANK];
        int r = i->shape.rank, begin = x->has_samples ? 1 : 1 + axis; /* position of i's axes */
        for (int k = 0; k < y->rank; k++)
            order[k] = k;
        if (x->has_samples)
            for (int k = 0; k < axis + r; k++)
                order[k + 1] = k < axis ? k + 1 + r : k - axis + begin;
        y = transpose(l, y, order);
    }
    if (known) { /* aligns it with the axes of y */
        Extents e = {.rank = y->rank};
        int samples = i->has_samples, begin = n->has_samples + axis;
        for (int k = 0; k < e.rank; k++)
            e.extent[k] = k < n->has_samples                        ? (samples ? BATCH : 1)
                          : k >= begin && k < begin + i->shape.rank ? i->shape.extent[k - begin]
                                                                    : 1;
        y = where_of(l, reshape(l, known, e), y, scalar_of(l, 0, y->dtype));
    }
    set_lowered(l, n, y, false);
}

/* Returns [samples, indexed axes, other axes]. */
static const Value *rows_of(Lowering *l, const Node *n, bool has_samples, int axis, int axes)
{
    const Value *v = whole_value(l, n);
    if (has_samples && !n->has_samples)
        v = of_all_samples(l, v);
    Extents e = {.rank = 3, .extent = {has_samples ? BATCH : 1, 1, 1}};
    int64_t order[EXPORTED_RANK];
    int r = n->shape.rank, at = has_samples;
    for (int i = 0; i < at; i++)
        order[i] = i;
    for (int i = 0; i < r; i++) /* moves the indexed axes to the front */
        order[at + i] = at + (i < axes ? axis + i : i < axes + axis ? i - axes : i);
    for (int i = 0; i < r; i++)
        e.extent[i >= axis && i < axis + axes ? 1 : 2] *= n->shape.extent[i];
    return reshape(l, transpose(l, v, order), e);
}

/* x[i...] += v[i..., rest] along the axis; indices out of range are skipped */
void lower_scatter_add(Lowering *l, const Node *n)
{
    const Node *x = n->in[0], *i = n->in[1];
    int axis = (int)n->ints[0], r = n->shape.rank;
    bool has_samples = n->has_samples;
    const Value *rows = rows_of(l, x, has_samples, axis, 1), *new = rows_of(l, n->in[2], has_samples, axis, i->shape.rank);
    const Value *at = index_value(l, i);
    if (has_samples && !i->has_samples)
        at = of_all_samples(l, at);
    at = reshape(l, at, (Extents){3, {new->extent[0], new->extent[1], 1}});
    if (!within(l, i, x->shape.extent[axis])) {
        const Value *known = from_0_to(l, at, (double)(x->shape.extent[axis] - 1));
        at = where_of(l, known, at, scalar_of(l, 0, at->dtype));
        new = where_of(l, known, new, scalar_of(l, 0, new->dtype));
    }
    at = expand(l, cast(l, at, I64), extents_of(new));
    const Value *y = EMIT(l, "ScatterElements", rows->dtype, extents_of(rows), rows, at, new);
    attribute(l, "axis", 1);
    attribute_text(l, "reduction", "add");
    Extents e = {.rank = r + has_samples, .extent = {BATCH}};
    int64_t order[EXPORTED_RANK] = {0};
    for (int k = 0, to = has_samples; k < r; k++) {
        e.extent[to + (k == axis ? 0 : k < axis ? k + 1 : k)] = n->shape.extent[k];
        order[to + k] = to + (k == axis ? 0 : k < axis ? k + 1 : k);
    }
    y = wrapped(l, transpose(l, reshape(l, y, e), order), n->dtype);
    set_lowered(l, n, y, false);
}

void lower_top_k(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    const Value *v = whole_value(l, x), *y, *places;
    v = v->dtype == BOOL && !l->torch ? cast(l, v, I32) : v; /* TopK of ONNX has no bool */
    Extents e = extents(n->has_samples, &n->shape);
    y = EMIT(l, "TopK", v->dtype, e, v, whole_numbers(l, &n->ints[1], 1));
    attribute(l, "axis", n->ints[0] + n->has_samples);
    places = second_result(l, I64, e);
    set_lowered(l, n, cast(l, n->ints[2] ? places : y, carried(l, n->dtype)), false);
}
