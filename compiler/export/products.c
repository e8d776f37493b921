/* products.c: lowers contractions, convolutions, attention and windows. */
#include "compiler/export/lowering.h"

#include <string.h>

/* ---- einsum */

/* Matches "ab,cb->ac" of x and a matrix that all samples share: torch.nn.Linear, or with the matrix transposed. */
bool is_linear_product(const Node *n, const Node **x, const Node **w, bool *transposed)
{
    if (n->op != OP_EINSUM || n->inputs != 2 || n->int_count || node_sums_samples(n))
        return false;
    const char *comma = strchr(n->text, ','), *arrow = strstr(n->text, "->");
    for (int k = 0; k < 2; k++) {
        const char *a = k ? comma + 1 : n->text, *b = k ? n->text : comma + 1, *y = arrow + 2;
        size_t length = (size_t)n->in[k]->shape.rank;
        const Node *matrix = n->in[1 - k];
        if (matrix->has_samples || matrix->shape.rank != 2 || length < 1 || strlen(y) != length || memcmp(a, y, length - 1) != 0)
            continue;
        char in = a[length - 1], out = y[length - 1];
        if (in == out || !((b[0] == out && b[1] == in) || (b[0] == in && b[1] == out)) || memchr(a, out, length) ||
            memchr(a, in, length - 1))
            continue;
        *x = n->in[k];
        *w = matrix;
        *transposed = b[0] == in;
        return n->in[k]->dtype == n->dtype && matrix->dtype == n->dtype && dtype_is_float(n->dtype);
    }
    return false;
}

void lower_linear(Lowering *l, const Node *product, const Node *bias, const Node *result)
{
    const Node *x = NULL, *w = NULL;
    bool transposed = false;
    is_linear_product(product, &x, &w, &transposed);
    const Value *a = whole_value(l, x), *b = whole_value(l, w), *c = bias ? whole_value(l, bias) : NULL, *y;
    Extents e = extents(result->has_samples, &result->shape);
    if (l->torch) { /* PyTorch's matrix is [out, in] */
        b = transposed ? transpose(l, b, (int64_t[]){1, 0}) : b;
        y = c ? EMIT(l, "Linear", a->dtype, e, a, b, c) : EMIT(l, "Linear", a->dtype, e, a, b);
    } else if (e.rank == 2 && c) {
        y = EMIT(l, "Gemm", a->dtype, e, a, b, c);
        attribute(l, "transB", !transposed);
    } else {
        y = EMIT(l, "MatMul", a->dtype, e, a, transposed ? b : transpose(l, b, (int64_t[]){1, 0}));
        y = c ? binary(l, "Add", y, c) : y;
    }
    set_lowered(l, result, y, false);
}

void lower_einsum(Lowering *l, const Node *n)
{
    const Node *x, *w;
    bool transposed;
    if (is_linear_product(n, &x, &w, &transposed)) {
        lower_linear(l, n, NULL, n);
        return;
    }
    const Value *in[8];
    Text text = {0};
    char sample = 'N';
    while (strchr(n->text, sample))
        sample++;
    const char *p = n->text;
    if (n->inputs > COUNT(in))
        cannot_export(l, "an einsum of more than eight operands");
    for (int i = 0; i <= n->inputs; i++) {
        bool has_samples = i < n->inputs ? n->in[i]->has_samples : n->has_samples;
        int rank = i < n->inputs ? n->in[i]->shape.rank : n->shape.rank;
        text_add(&text, "%s%.*s%.*s", i == 0 ? "" : i < n->inputs ? "," : "->", (int)has_samples, &sample, rank, p);
        p += rank + (i + 1 < n->inputs ? 1 : 2);
        if (i < n->inputs)
            in[i] = cast(l, whole_value(l, n->in[i]), carried(l, n->dtype));
    }
    const Value *y = emit(l, "Einsum", carried(l, n->dtype), extents(n->has_samples, &n->shape), n->inputs, in);
    attribute_text(l, "equation", text_take(&text));
    set_lowered(l, n, y, false);
}

/* ---- convolution */

/* Inserts d - 1 zeros between the elements along the axis. */
static const Value *with_zeros_between(Lowering *l, const Value *x, int axis, int64_t d)
{
    Extents e = extents_of(x), apart = e;
    int64_t low[EXPORTED_RANK] = {0}, high[EXPORTED_RANK] = {0};
    apart.rank++;
    for (int i = apart.rank - 1; i > axis + 1; i--)
        apart.extent[i] = apart.extent[i - 1];
    apart.extent[axis + 1] = 1;
    high[axis + 1] = d - 1;
    x = pad(l, reshape(l, x, apart), low, high, 0);
    int64_t wide = e.extent[axis] * d, count = wide - d + 1;
    e.extent[axis] = wide;
    return slice(l, reshape(l, x, e), 1, (int64_t[]){axis}, (int64_t[]){0}, &count, (int64_t[]){1});
}

/* Returns whether the operation can pad by itself: not negative, symmetric for PyTorch, and at most `most`, if given. */
static bool plain_padding(const Lowering *l, int n, const int64_t *low, const int64_t *high, const int64_t *most)
{
    for (int i = 0; i < n; i++)
        if (low[i] < 0 || high[i] < 0 || (l->torch && low[i] != high[i]) || (most && (low[i] > most[i] || high[i] > most[i])))
            return false;
    return true;
}

static const Value *spatial_pad(Lowering *l, const Value *x, int n, const int64_t *low, const int64_t *high, double value)
{
    int64_t before[EXPORTED_RANK] = {0}, after[EXPORTED_RANK] = {0};
    for (int i = 0; i < n; i++) {
        before[i + 2] = low[i];
        after[i + 2] = high[i];
    }
    return pad(l, x, before, after, value);
}

void lower_convolution(Lowering *l, const Node *n, const Node *bias, const Node *result)
{
    int r = (int)n->ints[0];
    const int64_t *stride = n->ints + 1, *low = stride + r, *high = low + r, *dilation = high + r, *between = dilation + r,
                  none[MAX_RANK] = {0};
    const Value *x = channels_first(l, n->in[0]), *w = whole_value(l, n->in[1]), *b = bias ? whole_value(l, bias) : NULL;
    for (int i = 0; i < r; i++)
        if (between[i] != 1)
            x = with_zeros_between(l, x, i + 2, between[i]);
    if (!plain_padding(l, r, low, high, NULL)) {
        x = spatial_pad(l, x, r, low, high, 0);
        low = high = none;
    }
    Extents e = extents(true, &result->shape);
    e.extent[1] = result->shape.extent[r];
    for (int i = 0; i < r; i++)
        e.extent[i + 2] = result->shape.extent[i];
    int64_t pads[2 * MAX_RANK];
    memcpy(pads, low, (size_t)r * sizeof *pads);
    memcpy(pads + r, high, (size_t)r * sizeof *pads);
    const Value *y = b ? EMIT(l, "Conv", x->dtype, e, x, w, b) : EMIT(l, "Conv", x->dtype, e, x, w);
    attribute_list(l, "kernel_shape", n->in[1]->shape.extent + 2, r);
    attribute_list(l, "strides", stride, r);
    attribute_list(l, "pads", pads, 2 * r);
    attribute_list(l, "dilations", dilation, r);
    attribute(l, "group", n->ints[1 + 5 * r]);
    set_lowered(l, result, y, true);
}

void lower_convolve(Lowering *l, const Node *n)
{
    if (n->in[0]->has_samples && !n->in[1]->has_samples && n->ints[0] <= 3)
        lower_convolution(l, n, NULL, n);
    else
        cannot_export(l,
                      "a convolution with weights of its own for each sample, of what is the same for all, or of more than three "
                      "dimensions");
}

/* ---- windows */

/* Emits pooling; the first axes of the value are samples and channels. */
static const Value *pooled(Lowering *l, const Node *n, const Value *x, int dims, const int64_t *size, const int64_t *stride,
                           const int64_t *low, const int64_t *high)
{
    bool most = n->op == OP_WINDOW_MAX;
    int64_t limit[MAX_RANK], none[MAX_RANK] = {0}, pads[2 * MAX_RANK], elements = 1;
    for (int i = 0; i < dims; i++) {
        limit[i] = l->torch ? size[i] / 2 : size[i] - 1;
        elements *= size[i];
    }
    if (!plain_padding(l, dims, low, high, most ? limit : none)) {
        x = spatial_pad(l, x, dims, low, high, most ? -1.0 / 0.0 : 0);
        low = high = none;
    }
    memcpy(pads, low, (size_t)dims * sizeof *pads);
    memcpy(pads + dims, high, (size_t)dims * sizeof *pads);
    Extents e = extents_of(x);
    for (int i = 0; i < dims; i++)
        e.extent[i + 2] = (e.extent[i + 2] + low[i] + high[i] - size[i]) / stride[i] + 1;
    const Value *y = EMIT(l, most ? "MaxPool" : "AveragePool", x->dtype, e, x);
    attribute_list(l, "kernel_shape", size, dims);
    attribute_list(l, "strides", stride, dims);
    attribute_list(l, "pads", pads, 2 * dims);
    return most ? y : binary(l, "Mul", y, scalar_of(l, (double)elements, y->dtype));
}

/* Pools whole numbers as floats that hold their sums exactly. The mean times the window's size is rounded to the sum. */
static const Value *pooled_of_any(Lowering *l, const Node *n, const Value *x, int dims, const int64_t *size,
                                  const int64_t *stride, const int64_t *low, const int64_t *high)
{
    Dtype t = n->dtype, carrier = x->dtype;
    if (dtype_is_float(t))
        return pooled(l, n, x, dims, size, stride, low, high);
    if (t == I64)
        cannot_export(l, "windows of whole numbers of 64 bits, which neither ONNX nor PyTorch has");
    bool most = n->op == OP_WINDOW_MAX, small = dtype_bytes(t) == 1 || (most && dtype_bytes(t) == 2);
    int64_t elements = 1;
    for (int i = 0; i < dims; i++)
        elements *= size[i];
    small = small && (most || elements < 4096);
    const Value *y = pooled(l, n, cast(l, x, small ? F32 : F64), dims, size, stride, low, high);
    if (most)
        return t == BOOL ? cast(l, y, BOOL) : whole_number_of(l, y, t);
    y = unary(l, "Floor", binary(l, "Add", y, scalar_of(l, 0.5, y->dtype)));
    return wrapped(l, cast(l, cast(l, y, I64), carrier), t);
}

static void lower_window(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    int r = x->shape.rank, last = r - 1;
    const int64_t *size = n->ints, *stride = size + r, *low = stride + r, *high = low + r;
    bool channels = size[last] == 1 && stride[last] == 1 && !low[last] && !high[last];
    if ((r > 3 && !channels) || r > 4) {
        cannot_export(l, "windows along more than three axes");
    } else if (channels && x->has_samples && r > 1) {
        set_lowered(l, n, pooled_of_any(l, n, channels_first(l, x), last, size, stride, low, high), true);
    } else {
        Extents e = {.rank = r + 2, .extent = {x->has_samples ? BATCH : 1, 1}}, back = extents(n->has_samples, &n->shape);
        memcpy(e.extent + 2, x->shape.extent, (size_t)r * sizeof *e.extent);
        set_lowered(l, n, reshape(l, pooled_of_any(l, n, reshape(l, whole_value(l, x), e), r, size, stride, low, high), back),
                    false);
    }
}

void lower_window_max(Lowering *l, const Node *n) { lower_window(l, n); }
void lower_window_sum(Lowering *l, const Node *n) { lower_window(l, n); }

/* ---- attention */

/* [t, h, d], with or without samples -> [g, h / g, t, d] */
static const Value *heads_first(Lowering *l, const Value *x, int64_t g)
{
    int s = x->rank - 3;
    int64_t order[EXPORTED_RANK] = {0};
    Extents e = extents_of(x);
    e.rank++;
    e.extent[s + 1] = g, e.extent[s + 2] = x->extent[s + 1] / g, e.extent[s + 3] = x->extent[s + 2];
    order[s] = s + 1, order[s + 1] = s + 2, order[s + 2] = s, order[s + 3] = s + 3;
    return transpose(l, reshape(l, x, e), order);
}

/* Returns [t, s]: whether query i sees key j. With age = i + s - t - j, it does if 0 <= age < window. */
static const Value *mask_of(Lowering *l, int64_t t, int64_t s, bool causal, int64_t window)
{
    const char *key = format("mask %lld %lld %d %lld", (long long)t, (long long)s, causal, (long long)window);
    const Value *known = map_get(l->constants, key);
    if (known)
        return known;
    double *row = NEW_ARRAY(double, t), *column = NEW_ARRAY(double, s);
    for (int64_t i = 0; i < t; i++)
        row[i] = (double)(i + s - t);
    for (int64_t j = 0; j < s; j++)
        column[j] = (double)j;
    const Value *at = constant_of(l, row, I32, (Extents){2, {t, 1}}), *keys = constant_of(l, column, I32, (Extents){1, {s}});
    const Value *age = binary(l, "Sub", at, keys), *seen = NULL, *near = NULL;
    if (causal)
        seen = binary_of(l, "LessOrEqual", BOOL, scalar_of(l, 0, I32), age);
    if (window > 0)
        near = compare(l, "Less", age, (double)window);
    known = seen && near ? binary(l, "And", seen, near) : seen ? seen : near;
    if (!l->outer)
        map_set(l->constants, key, (void *)(uintptr_t)known);
    return known;
}

/* Builds attention from matrix products and a softmax. */
static const Value *attention_of(Lowering *l, const Node *n, const Value *q, const Value *k, const Value *v, Extents to)
{
    int d = to.rank - 3;
    int64_t t = to.extent[d], s = k->extent[k->rank - 3], g = k->extent[k->rank - 2], window = n->ints[1], order[EXPORTED_RANK];
    const Value *a = heads_first(l, q, g), *b = heads_first(l, k, g), *c = heads_first(l, v, g);
    for (int i = 0; i < b->rank; i++)
        order[i] = i < b->rank - 2 ? i : i == b->rank - 2 ? b->rank - 1 : b->rank - 2;
    Extents e = {.rank = 4 + d, .extent = {BATCH}};
    e.extent[d] = g, e.extent[d + 1] = to.extent[d + 1] / g, e.extent[d + 2] = t, e.extent[d + 3] = s;
    const Value *z = EMIT(l, "MatMul", a->dtype, e, a, transpose(l, b, order));
    z = binary(l, "Mul", z, scalar_of(l, node_attention_scale(n), z->dtype));
    const Value *mask = n->ints[0] || window > 0 ? mask_of(l, t, s, n->ints[0] != 0, window) : NULL;
    if (mask)
        z = where_of(l, mask, z, scalar_of(l, -1.0 / 0.0, z->dtype));
    z = unary(l, "Softmax", z);
    attribute(l, "axis", -1);
    e.extent[d + 3] = to.extent[d + 2];
    z = EMIT(l, "MatMul", a->dtype, e, z, c);
    order[0] = 0;
    order[d] = d + 2, order[d + 1] = d, order[d + 2] = d + 1, order[d + 3] = d + 3;
    return reshape(l, transpose(l, z, order), to);
}

void lower_attention(Lowering *l, const Node *n)
{
    if (n->ints[3] != 0)
        cannot_export(l, "what gradients of attention need");
    const Value *q = whole_value(l, n->in[0]), *k = whole_value(l, n->in[1]), *v = whole_value(l, n->in[2]), *y;
    Extents to = extents(n->has_samples, &n->shape);
    int axis = n->in[0]->has_samples;
    int64_t t = q->extent[axis], s = k->extent[k->rank - 3], low[EXPORTED_RANK] = {0}, none[EXPORTED_RANK] = {0};
    if (n->ints[0] && t > s) { /* The first queries see no key, so their results are 0. */
        low[n->has_samples] = t - s;
        to.extent[n->has_samples] = s;
        q = slice(l, q, 1, (int64_t[]){axis}, (int64_t[]){t - s}, &s, (int64_t[]){1});
    }
    if (l->torch) {
        y = EMIT(l, "Attention", carried(l, n->dtype), to, q, k, v);
        attribute(l, "causal", n->ints[0]);
        attribute(l, "window", n->ints[1]);
        attribute(l, "group", q->extent[axis + 1] / k->extent[k->rank - 2]);
        attribute_number(l, "scale", node_attention_scale(n));
    } else {
        y = attention_of(l, n, q, k, v, to);
    }
    set_lowered(l, n, pad(l, y, low, none, 0), false);
}
