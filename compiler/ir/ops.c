/* ops.c: the table of operations, and what its rows need: types and shapes. cost.c has the costs.
 *
 * In: a node with its op, inputs and attributes. Out (node_infer): its dtype, shape, sharded and weak; or the user's mistake,
 * located at the node's line. Extents are checked against overflow wherever a shape is made: 8 bytes times the elements of any
 * node fit into 63 bits. */
#include "compiler/ir/graph.h"
#include "runtime/abi/mgpu_tables.h"
#include "runtime/base/records.h"

#include <string.h>

/* ---- element types */

_Static_assert(F64 == (int)MGPU_F64 && DTYPES == (int)MGPU_DTYPES, "the types of elements are the runtime's");
const char *dtype_name(Dtype t) { return mgpu_dtype_names[t]; }
int dtype_bytes(Dtype t) { return (int)mgpu_dtype_bytes((uint8_t)t); }
bool dtype_is_float(Dtype t) { return t >= F16; }
bool dtype_is_half(Dtype t) { return t == F16 || t == BF16; }

bool dtype_by_name(const char *name, Dtype *t)
{
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(name, mgpu_dtype_names[i]) == 0) {
            *t = (Dtype)i;
            return true;
        }
    return false;
}

/* bool < integers < f16, bf16 < f32 < f64; the larger wins; of two integer types: the smallest that holds both */
Dtype dtype_promote(Dtype a, Dtype b)
{
    if (a > b) {
        Dtype t = a;
        a = b;
        b = t;
    }
    if (a == b || a == BOOL)
        return b;
    if (dtype_is_float(b))
        return a == F16 && b == BF16 ? F32 : b;
    bool signed_a = a == I8 || a == I16 || a == I32 || a == I64, signed_b = b == I8 || b == I16 || b == I32 || b == I64;
    if (signed_a == signed_b || (signed_b && dtype_bytes(b) > dtype_bytes(a)))
        return b;
    /* of different signs: twice the bytes of the unsigned type */
    int bytes = dtype_bytes(signed_a ? b : a);
    return bytes == 1 ? I16 : bytes == 2 ? I32 : I64;
}

/* ---- shapes */

Shape shape_of(int rank, const int64_t *extents)
{
    Shape s = {.rank = rank};
    if (rank > MAX_RANK)
        die("a shape of rank %d", rank);
    for (int i = 0; i < rank; i++)
        s.extent[i] = extents[i];
    return s;
}

int64_t shape_count(const Shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->extent[i];
    return n;
}

bool shape_equal(const Shape *a, const Shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->extent[i] != b->extent[i])
            return false;
    return true;
}

const char *shape_text(const Shape *s)
{
    char text[MAX_RANK * 24 + 4], *p = text;
    *p++ = '[';
    for (int i = 0; i < s->rank; i++)
        p += snprintf(p, 24, "%s%lld", i ? ", " : "", (long long)s->extent[i]);
    *p++ = ']';
    return copy_text(text, (size_t)(p - text));
}

/* Reports an impossible node: an internal error, or, if the graph is read from a dump, an error in the file. */
_Noreturn static void mistake_at(const char *file, int line, const Node *n, const char *pattern, ...) PRINTF(4, 5);
static void mistake_at(const char *file, int line, const Node *n, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    if (n->at && n->at->source && n->at->source->dump)
        verror_at(n->at, pattern, arguments);
    char text[1024];
    vsnprintf(text, sizeof text, pattern, arguments);
    die_at(file, line, "%s", text);
}
#define mistake(n, ...) mistake_at(__FILE__, __LINE__, n, __VA_ARGS__)

static void check_shape(const Node *n)
{
    int64_t count = 8;
    bool empty = false;
    for (int i = 0; i < n->shape.rank; i++) {
        if (n->shape.extent[i] < 0)
            mistake(n, "%s: axis %d of the result would be %lld", OP_INFO[n->op].name, i, (long long)n->shape.extent[i]);
        empty = empty || n->shape.extent[i] == 0;
    }
    for (int i = 0; i < n->shape.rank && !empty; i++)
        if (__builtin_mul_overflow(count, n->shape.extent[i], &count))
            error_at(n->at, "%s: the shape %s has more elements than 64 bits can count", OP_INFO[n->op].name,
                     shape_text(&n->shape));
}

static void check_rank(const Node *n, int rank)
{
    if (rank > MAX_RANK)
        mistake(n, "%s: a tensor has at most %d axes, not %d", OP_INFO[n->op].name, MAX_RANK, rank);
}

static bool any_sharded(const Node *n)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->has_samples)
            return true;
    return false;
}

bool node_sums_samples(const Node *n) { return !n->has_samples && OP_INFO[n->op].op_class != REGION && any_sharded(n); }

/* ---- shape rules. shape_NAME(n, over): n->in, n->ints, n->text are set; over: the result sums over the samples. */

typedef void ShapeRule(Node *, bool over);

/* The beginning of most rules: the first input's dtype and shape. */
static void like_first(Node *n)
{
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    n->has_samples = any_sharded(n);
}

Dtype dtype_summed(Dtype t) { return dtype_bytes(t) < 4 && !dtype_is_float(t) ? I32 : t; }

static void same_inputs(Node *n, int from)
{
    for (int i = from + 1; i < n->inputs; i++)
        if (!shape_equal(&n->in[i]->shape, &n->in[from]->shape) || n->in[i]->dtype != n->in[from]->dtype)
            mistake(n, "%s: inputs are %s%s and %s%s", OP_INFO[n->op].name, dtype_name(n->in[from]->dtype),
                    shape_text(&n->in[from]->shape), dtype_name(n->in[i]->dtype), shape_text(&n->in[i]->shape));
}

static void shape_leaf(Node *n, bool over) { (void)n, (void)over; /* leaves have all that already */ }

static void shape_same(Node *n, bool over)
{
    (void)over;
    like_first(n);
    n->weak = n->in[0]->weak;
}

static void shape_elementwise(Node *n, bool over)
{
    (void)over;
    same_inputs(n, 0);
    like_first(n);
    n->weak = true;
    for (int i = 0; i < n->inputs; i++)
        n->weak = n->weak && n->in[i]->weak;
}

static void shape_float(Node *n, bool over)
{
    shape_elementwise(n, over);
    if (!dtype_is_float(n->dtype))
        mistake(n, "%s of %s", OP_INFO[n->op].name, dtype_name(n->dtype));
}

static void shape_compare(Node *n, bool over)
{
    shape_elementwise(n, over);
    n->dtype = BOOL;
    n->weak = false;
}

static void shape_logic(Node *n, bool over)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->dtype != BOOL)
            error_at(n->at, "'%s' needs bool, not %s; compare with 0 first", OP_INFO[n->op].name, dtype_name(n->in[i]->dtype));
    shape_elementwise(n, over);
}

static void shape_bits(Node *n, bool over)
{
    for (int i = 0; i < n->inputs; i++)
        if (dtype_is_float(n->in[i]->dtype) || n->in[i]->dtype == BOOL)
            error_at(n->at, "%s needs whole numbers, not %s; %s", OP_INFO[n->op].name, dtype_name(n->in[i]->dtype),
                     n->in[i]->dtype == BOOL ? "'and', 'or', 'not' and '!=' are for bool" : "a cast such as i32(x) makes them");
    shape_elementwise(n, over);
}

static void shape_where(Node *n, bool over)
{
    (void)over;
    if (n->in[0]->dtype != BOOL)
        mistake(n, "where of a condition of %s", dtype_name(n->in[0]->dtype));
    same_inputs(n, 1);
    if (!shape_equal(&n->in[0]->shape, &n->in[1]->shape))
        mistake(n, "where: the condition is %s, the values are %s", shape_text(&n->in[0]->shape), shape_text(&n->in[1]->shape));
    like_first(n);
    n->dtype = n->in[1]->dtype;
    n->weak = n->in[1]->weak && n->in[2]->weak && !n->has_samples;
}

static void shape_cast(Node *n, bool over)
{
    (void)over;
    like_first(n);
    n->dtype = (Dtype)n->ints[0];
}

/* Drops the axes in n->ints. */
static void drop_axes(Node *n)
{
    bool dropped[MAX_RANK] = {false};
    const Shape *x = &n->in[0]->shape;
    for (int i = 0; i < n->int_count; i++) {
        int64_t axis = n->ints[i];
        if (axis < 0 || axis >= x->rank || dropped[axis])
            mistake(n, "%s over axis %lld of %s", OP_INFO[n->op].name, (long long)axis, shape_text(x));
        dropped[axis] = true;
    }
    n->shape.rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!dropped[i])
            n->shape.extent[n->shape.rank++] = x->extent[i];
    for (int i = n->shape.rank; i < MAX_RANK; i++)
        n->shape.extent[i] = 0;
}

static void shape_sum(Node *n, bool over)
{
    like_first(n);
    drop_axes(n);
    n->dtype = dtype_summed(n->dtype);
    n->has_samples = n->has_samples && !over;
}

static void shape_moments(Node *n, bool over)
{
    like_first(n);
    drop_axes(n);
    if (!over || n->shape.rank == MAX_RANK || n->in[1]->dtype != BOOL || n->in[1]->shape.rank)
        mistake(n, "moments of %s", shape_text(&n->in[0]->shape));
    n->shape.extent[n->shape.rank++] = MOMENTS;
    n->dtype = F64;
    n->has_samples = false;
}

static void shape_reduced_moments(Node *n, bool over)
{
    shape_same(n, over);
    if (n->dtype != F64 || n->shape.rank < 1 || n->shape.extent[n->shape.rank - 1] != MOMENTS)
        mistake(n, "%s of %s%s", OP_INFO[n->op].name, dtype_name(n->dtype), shape_text(&n->shape));
}

static void shape_max(Node *n, bool over)
{
    (void)over;
    like_first(n);
    drop_axes(n);
    for (int i = 0; i < n->int_count; i++)
        if (n->in[0]->shape.extent[n->ints[i]] == 0)
            error_at(n->at, "%s over axis %lld of %s: there is no maximum of nothing", OP_INFO[n->op].name, (long long)n->ints[i],
                     shape_text(&n->in[0]->shape));
}

static void shape_argmax(Node *n, bool over)
{
    shape_max(n, over);
    n->dtype = I32;
}

static void check_axis(const Node *n)
{
    if (n->ints[0] < 0 || n->ints[0] >= n->in[0]->shape.rank)
        mistake(n, "%s: %s has no axis %lld", OP_INFO[n->op].name, shape_text(&n->in[0]->shape), (long long)n->ints[0]);
}

static void shape_running(Node *n, bool over)
{
    (void)over;
    check_axis(n);
    like_first(n);
    if (n->dtype != dtype_summed(n->dtype))
        mistake(n, "%s of %s", OP_INFO[n->op].name, dtype_name(n->dtype));
}

static void shape_top_k(Node *n, bool over)
{
    (void)over;
    check_axis(n);
    like_first(n);
    int64_t *extent = &n->shape.extent[n->ints[0]], k = n->ints[1];
    if (k < 1 || k > *extent)
        error_at(n->at, "top_k: k is %lld, 1 to %lld expected: axis %lld of %s has no more elements", (long long)k,
                 (long long)*extent, (long long)n->ints[0], shape_text(&n->shape));
    if (*extent > INT32_MAX)
        error_at(n->at, "top_k: axis %lld of %s has more elements than an i32 can count", (long long)n->ints[0],
                 shape_text(&n->shape));
    *extent = k;
    n->dtype = n->ints[2] ? I32 : n->dtype;
}

static void shape_einsum(Node *n, bool over)
{
    int64_t extent[128];
    bool seen[128] = {false};
    const char *p = n->text;
    like_first(n);
    n->has_samples = n->has_samples && !over;
    n->dtype = n->int_count ? (Dtype)n->ints[0] : dtype_summed(n->dtype);
    for (int i = 0; i < n->inputs; i++) {
        const Shape *x = &n->in[i]->shape;
        int letters = 0;
        const char *start = p;
        for (; *p && *p != ',' && *p != '-'; p++, letters++) {
            unsigned char c = (unsigned char)*p;
            if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
                error_at(n->at, "einsum: '%c' in \"%s\" is no letter", c, n->text);
            if (letters >= x->rank)
                continue;
            if (seen[c] && extent[c] != x->extent[letters])
                error_at(n->at, "einsum: axis '%c' is %lld, %lld expected", c, (long long)x->extent[letters],
                         (long long)extent[c]);
            seen[c] = true;
            extent[c] = x->extent[letters];
        }
        if (letters != x->rank)
            error_at(n->at, "einsum: operand %d has shape %s, \"%.*s\" names %d %s", i + 1, shape_text(x), (int)(p - start),
                     start, letters, letters == 1 ? "axis" : "axes");
        if (i + 1 < n->inputs ? *p != ',' : *p == ',')
            error_at(n->at, "einsum: \"%s\" is not for %d %s", n->text, n->inputs, n->inputs == 1 ? "operand" : "operands");
        p += i + 1 < n->inputs;
    }
    if (p[0] != '-' || p[1] != '>')
        error_at(n->at, "einsum: \"%s\" lacks its \"->\" and the letters of the result", n->text);
    p += 2;
    n->shape.rank = 0;
    for (const char *q = p; *q; q++) {
        unsigned char c = (unsigned char)*q;
        if (c >= 128 || !seen[c])
            error_at(n->at, "einsum: the result's '%c' is in no operand of \"%s\"", c, n->text);
        if (memchr(p, c, (size_t)(q - p)))
            error_at(n->at, "einsum: the result of \"%s\" has '%c' twice", n->text, c);
        if (n->shape.rank == MAX_RANK)
            error_at(n->at, "einsum: the result of \"%s\" has more than %d axes", n->text, MAX_RANK);
        n->shape.extent[n->shape.rank++] = extent[c];
    }
}

/* CONVOLVE and CONVOLVE_WEIGHT: ints = [n, stride, low, high, dilation, input_dilation (n each), groups] */
static int64_t dilated_extent(int64_t extent, int64_t input_dilation) { return extent ? (extent - 1) * input_dilation + 1 : 0; }

static void limit_attribute(const Node *n, const char *what, int64_t value, int64_t least)
{
    if (value < least || value > INT32_MAX)
        error_at(n->at, "%s: %s %lld; at least %lld and below 2^31 expected", OP_INFO[n->op].name, what, (long long)value,
                 (long long)least);
}

static void check_convolution(const Node *n, int kernels)
{
    const int64_t *v = n->ints;
    int r = n->int_count ? (int)v[0] : -1;
    if (r < 0 || r > MAX_RANK ||
        (n->int_count != 5 * r + 2 + kernels * r && !(kernels && n->int_count == 5 * r + 3 + kernels * r)))
        mistake(n, "%s with %d attributes", OP_INFO[n->op].name, n->int_count);
    if (n->in[0]->dtype != n->in[1]->dtype || !dtype_is_float(n->in[0]->dtype))
        mistake(n, "%s of %s and %s", OP_INFO[n->op].name, dtype_name(n->in[0]->dtype), dtype_name(n->in[1]->dtype));
    if (n->in[0]->shape.rank != r + 1)
        mistake(n, "%s: x has the shape %s, with %d spatial axes", OP_INFO[n->op].name, shape_text(&n->in[0]->shape), r);
    for (int i = 0; i < r; i++) {
        limit_attribute(n, "stride", v[1 + i], 1);
        limit_attribute(n, "padding", v[1 + r + i], INT32_MIN);
        limit_attribute(n, "padding", v[1 + 2 * r + i], INT32_MIN);
        limit_attribute(n, "dilation", v[1 + 3 * r + i], 1);
        limit_attribute(n, "input_dilation", v[1 + 4 * r + i], 1);
    }
    limit_attribute(n, "groups", v[1 + 5 * r], 1);
    if (n->in[0]->shape.extent[r] % v[1 + 5 * r])
        error_at(n->at, "%s: %lld channels cannot be divided into %lld groups", OP_INFO[n->op].name,
                 (long long)n->in[0]->shape.extent[r], (long long)v[1 + 5 * r]);
}

/* Returns a hint if the shape looks like a picture of another framework. */
static const char *channels_first(const Shape *x)
{
    bool first = x->rank == 3 && x->extent[0] <= 4 && x->extent[1] > 4 && x->extent[2] > 4;
    return first ? "; a picture is [height, width, channels] here, channels last" : "";
}

static void shape_convolve(Node *n, bool over)
{
    (void)over;
    check_convolution(n, 0);
    like_first(n);
    const int64_t *v = n->ints;
    int r = (int)v[0];
    int64_t groups = v[1 + 5 * r];
    const Shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    if (w->rank != r + 2)
        error_at(n->at, "convolve: the weight has shape %s; [out, in / groups] and %d kernel %s expected", shape_text(w), r,
                 r == 1 ? "size" : "sizes");
    if (w->extent[1] * groups != x->extent[r])
        error_at(n->at, "convolve: x has %lld channels, the weight is for %lld in %lld %s", (long long)x->extent[r],
                 (long long)(w->extent[1] * groups), (long long)groups, groups == 1 ? "group" : "groups");
    if (w->extent[0] % groups)
        error_at(n->at, "convolve: %lld outputs cannot be divided into %lld groups", (long long)w->extent[0], (long long)groups);
    for (int i = 0; i < r; i++) {
        int64_t padded = 0, window = 0, input_dilation = 0;
        bool wide = x->extent[i] > INT64_MAX / 4 / v[1 + 4 * r + i] || w->extent[2 + i] > INT64_MAX / 4 / v[1 + 3 * r + i];
        if (!wide) {
            input_dilation = dilated_extent(x->extent[i], v[1 + 4 * r + i]);
            padded = input_dilation + v[1 + r + i] + v[1 + 2 * r + i];
            window = v[1 + 3 * r + i] * (w->extent[2 + i] - 1) + 1;
        }
        if (wide || w->extent[2 + i] < 1 || padded < window)
            error_at(n->at, "convolve: axis %d is %lld with its padding; the kernel needs %lld%s", i, (long long)padded,
                     (long long)window, channels_first(x));
        n->shape.extent[i] = (padded - window) / v[1 + i] + 1;
    }
    n->shape.rank = r + 1;
    n->shape.extent[r] = w->extent[0];
}

static void shape_convolve_weight(Node *n, bool over)
{
    check_convolution(n, 1);
    like_first(n);
    n->has_samples = n->has_samples && !over;
    const int64_t *v = n->ints;
    int r = (int)v[0];
    n->shape.rank = r + 2;
    n->shape.extent[0] = n->in[1]->shape.extent[r];
    n->shape.extent[1] = n->in[0]->shape.extent[r] / v[1 + 5 * r];
    if (n->int_count > 6 * r + 2 && (v[6 * r + 2] < 0 || v[6 * r + 2] >= DTYPES))
        mistake(n, "convolve_weight into element type %lld", (long long)v[6 * r + 2]);
    if (n->int_count > 6 * r + 2)
        n->dtype = (Dtype)v[6 * r + 2];
    for (int i = 0; i < r; i++)
        n->shape.extent[2 + i] = v[2 + 5 * r + i];
}

/* inputs q [t, h, d], k [s, g, d], v [s, g, e] */
static void shape_attended(Node *n)
{
    const Shape *q = &n->in[0]->shape, *k = &n->in[1]->shape, *v = &n->in[2]->shape;
    bool fits = q->rank == 3 && k->rank == 3 && v->rank == 3 && k->extent[0] == v->extent[0] && k->extent[1] == v->extent[1] &&
                q->extent[2] == k->extent[2] && k->extent[1] > 0 && q->extent[1] % k->extent[1] == 0 && k->extent[0] > 0 &&
                n->ints[1] >= 0;
    if (!fits || n->in[0]->dtype != n->in[1]->dtype || n->in[0]->dtype != n->in[2]->dtype)
        mistake(n, "attention of %s %s, %s %s and %s %s", dtype_name(n->in[0]->dtype), shape_text(q), dtype_name(n->in[1]->dtype),
                shape_text(k), dtype_name(n->in[2]->dtype), shape_text(v));
    like_first(n);
    n->shape.extent[2] = v->extent[2];
}

static Dtype sum_type(Dtype t) { return dtype_is_half(t) ? F32 : t; }

static void shape_attention(Node *n, bool over)
{
    (void)over;
    shape_attended(n);
    if (n->ints[3] < 0 || n->ints[3] > 1)
        mistake(n, "result %lld of attention", (long long)n->ints[3]);
    if (n->ints[3] == 0)
        return;
    n->dtype = sum_type(n->dtype);
    n->shape = SHAPE(n->shape.extent[1], n->shape.extent[0], 2);
}

static void shape_attention_gradient(Node *n, bool over)
{
    (void)over;
    shape_attended(n);
    const Node *q = n->in[0], *sums = n->in[5];
    const Shape queries = SHAPE(q->shape.extent[1], q->shape.extent[0], 2);
    for (int i = 3; i < 5; i++)
        if (!shape_equal(&n->in[i]->shape, &n->shape) || n->in[i]->dtype != q->dtype)
            mistake(n, "the gradient of attention of %s", shape_text(&n->in[i]->shape));
    if (!shape_equal(&sums->shape, &queries) || sums->dtype != sum_type(q->dtype))
        mistake(n, "the gradient of attention of sums %s", shape_text(&sums->shape));
    if (n->ints[3] < 0 || n->ints[3] > 3)
        mistake(n, "the gradient of attention of operand %lld", (long long)n->ints[3]);
    if (n->ints[3] < 3) {
        n->shape = n->in[n->ints[3]]->shape;
        return;
    }
    if (!shape_equal(&q->shape, &n->in[1]->shape) || !shape_equal(&q->shape, &n->in[2]->shape))
        mistake(n, "one gradient of attention for %s, %s and %s", shape_text(&q->shape), shape_text(&n->in[1]->shape),
                shape_text(&n->in[2]->shape));
    n->shape = SHAPE(q->shape.extent[0], 3, q->shape.extent[1], q->shape.extent[2]);
}

/* windows: ints = [size r, stride r, low r, high r] */
static void shape_window(Node *n, bool over)
{
    (void)over;
    like_first(n);
    const int64_t *v = n->ints;
    int r = n->in[0]->shape.rank;
    if (n->int_count != 4 * r)
        mistake(n, "%s with %d attributes over %s", OP_INFO[n->op].name, n->int_count, shape_text(&n->shape));
    for (int i = 0; i < r; i++) {
        limit_attribute(n, "window", v[i], 1);
        limit_attribute(n, "stride", v[r + i], 1);
        limit_attribute(n, "padding", v[2 * r + i], 0);
        limit_attribute(n, "padding", v[3 * r + i], 0);
        int64_t extent = n->in[0]->shape.extent[i], padded = extent + v[2 * r + i] + v[3 * r + i];
        if (padded < v[i])
            error_at(n->at, "%s: axis %d is %lld with its padding, the window is %lld%s", OP_INFO[n->op].name, i,
                     (long long)padded, (long long)v[i], channels_first(&n->in[0]->shape));
        n->shape.extent[i] = (padded - v[i]) / v[r + i] + 1;
        /* a window that is only padding has a sum, but no maximum; the last window begins at (count - 1) stride - low */
        if (n->op != OP_WINDOW_SUM &&
            (v[2 * r + i] >= v[i] || extent == 0 || (n->shape.extent[i] - 1) * v[r + i] - v[2 * r + i] >= extent))
            error_at(n->at, "%s: a window along axis %d would hold padding only (window %lld, padding %lld and %lld)",
                     OP_INFO[n->op].name, i, (long long)v[i], (long long)v[2 * r + i], (long long)v[3 * r + i]);
    }
    if (n->op == OP_WINDOW_SUM)
        n->dtype = dtype_summed(n->dtype);
}

static void shape_window_argmax(Node *n, bool over)
{
    shape_window(n, over);
    n->dtype = I32;
}

static void shape_window_gradient(Node *n, bool over)
{
    (void)over;
    const Node *g = n->in[n->inputs - 1];
    int r = g->shape.rank;
    if (n->int_count != 5 * r)
        mistake(n, "%s with %d attributes", OP_INFO[n->op].name, n->int_count);
    n->dtype = g->dtype;
    n->shape = shape_of(r, n->ints + 4 * r);
    n->has_samples = any_sharded(n);
}

static void shape_reshape(Node *n, bool over)
{
    (void)over;
    like_first(n);
    check_rank(n, n->int_count);
    n->shape = shape_of(n->int_count, n->ints);
    check_shape(n);
    if (shape_count(&n->shape) != shape_count(&n->in[0]->shape))
        mistake(n, "reshape of %s to %s", shape_text(&n->in[0]->shape), shape_text(&n->shape));
}

static void shape_transpose(Node *n, bool over)
{
    (void)over;
    like_first(n);
    unsigned seen = 0;
    for (int i = 0; i < n->int_count; i++)
        if (n->ints[i] >= 0 && n->ints[i] < n->int_count)
            seen |= 1u << n->ints[i];
    if (n->int_count != n->shape.rank || seen != (1u << n->int_count) - 1)
        mistake(n, "transpose: the order does not name each axis of %s once", shape_text(&n->shape));
    for (int i = 0; i < n->int_count; i++)
        n->shape.extent[i] = n->in[0]->shape.extent[n->ints[i]];
}

static void shape_slice(Node *n, bool over)
{
    (void)over;
    like_first(n);
    int r = n->shape.rank;
    const int64_t *start = n->ints, *count = n->ints + r, *step = n->ints + 2 * r;
    if (n->int_count != 3 * r)
        mistake(n, "slice with %d attributes of %s", n->int_count, shape_text(&n->shape));
    for (int i = 0; i < r; i++) {
        int64_t last = 0, extent = n->shape.extent[i];
        bool fits = count[i] >= 0 && !__builtin_mul_overflow(count[i] - 1, step[i], &last) &&
                    !__builtin_add_overflow(last, start[i], &last);
        if (!fits || (count[i] && (start[i] < 0 || start[i] >= extent || last < 0 || last >= extent)))
            mistake(n, "slice: elements %lld .. %lld of axis %d, which is %lld", (long long)start[i], (long long)last, i,
                    (long long)extent);
        n->shape.extent[i] = count[i];
    }
}

static void shape_unslice(Node *n, bool over)
{
    (void)over;
    like_first(n);
    int r = n->shape.rank;
    if (n->int_count != 3 * r)
        mistake(n, "unslice with %d attributes of %s", n->int_count, shape_text(&n->shape));
    n->shape = shape_of(r, n->ints + 2 * r);
}

static void shape_concat(Node *n, bool over)
{
    (void)over;
    like_first(n);
    int axis = (int)n->ints[0];
    check_axis(n);
    for (int i = 1; i < n->inputs; i++) {
        const Shape *x = &n->in[i]->shape;
        bool fits = x->rank == n->shape.rank && axis < x->rank;
        for (int k = 0; fits && k < x->rank; k++)
            fits = k == axis || x->extent[k] == n->shape.extent[k];
        if (!fits)
            error_at(n->at, "concat: %s and %s cannot be joined along axis %d", shape_text(&n->in[0]->shape), shape_text(x),
                     axis);
        if (n->in[i]->dtype != n->dtype)
            mistake(n, "concat of %s and %s", dtype_name(n->dtype), dtype_name(n->in[i]->dtype));
        if (__builtin_add_overflow(n->shape.extent[axis], x->extent[axis], &n->shape.extent[axis]))
            error_at(n->at, "concat: axis %d has more elements than 64 bits can count", axis);
    }
}

static void shape_pad(Node *n, bool over)
{
    (void)over;
    like_first(n);
    int r = n->shape.rank;
    if (n->int_count != 2 * r)
        mistake(n, "pad: %d pairs for %s", n->int_count / 2, shape_text(&n->shape));
    for (int i = 0; i < r; i++) {
        limit_attribute(n, "padding", n->ints[i], 0);
        limit_attribute(n, "padding", n->ints[r + i], 0);
        n->shape.extent[i] += n->ints[i] + n->ints[r + i];
    }
}

static void shape_broadcast(Node *n, bool over)
{
    (void)over;
    like_first(n);
    const Shape *x = &n->in[0]->shape;
    check_rank(n, n->int_count);
    n->shape = shape_of(n->int_count, n->ints);
    int more = n->shape.rank - x->rank;
    bool fits = more >= 0;
    for (int i = 0; fits && i < x->rank; i++)
        fits = x->extent[i] == 1 || x->extent[i] == n->shape.extent[more + i];
    if (!fits)
        mistake(n, "broadcast: %s does not stretch to %s", shape_text(x), shape_text(&n->shape));
}

static void check_index(const Node *n, const Node *i)
{
    if (dtype_is_float(i->dtype) || i->dtype == BOOL)
        error_at(n->at, "%s: the index is %s, whole numbers expected", OP_INFO[n->op].name, dtype_name(i->dtype));
}

/* Returns the shape of x with its axis replaced by the axes of i. */
static Shape indexed_shape(const Node *n)
{
    const Shape *x = &n->in[0]->shape, *i = &n->in[1]->shape;
    int axis = (int)n->ints[0];
    if (axis < 0 || axis >= x->rank)
        mistake(n, "%s: %s has no axis %d", OP_INFO[n->op].name, shape_text(x), axis);
    if (x->rank - 1 + i->rank > MAX_RANK)
        error_at(n->at, "%s: more than %d axes (%s at axis %d of %s)", OP_INFO[n->op].name, MAX_RANK, shape_text(i), axis,
                 shape_text(x));
    Shape s = {.rank = x->rank - 1 + i->rank};
    for (int k = 0; k < axis; k++)
        s.extent[k] = x->extent[k];
    for (int k = 0; k < i->rank; k++)
        s.extent[axis + k] = i->extent[k];
    for (int k = axis + 1; k < x->rank; k++)
        s.extent[i->rank + k - 1] = x->extent[k];
    return s;
}

static void shape_gather(Node *n, bool over)
{
    (void)over;
    check_index(n, n->in[1]);
    like_first(n);
    n->shape = indexed_shape(n);
}

/* x, an index, and values for the indexed rows of x */
static void shape_indexed(Node *n)
{
    check_index(n, n->in[1]);
    like_first(n);
    Shape expected = indexed_shape(n);
    if (!shape_equal(&expected, &n->in[2]->shape))
        error_at(n->at, "%s: the values are %s, %s expected for %s at axis %lld of %s", OP_INFO[n->op].name,
                 shape_text(&n->in[2]->shape), shape_text(&expected), shape_text(&n->in[1]->shape), (long long)n->ints[0],
                 shape_text(&n->in[0]->shape));
    if (n->in[2]->dtype != n->dtype)
        mistake(n, "%s of %s into %s", OP_INFO[n->op].name, dtype_name(n->in[2]->dtype), dtype_name(n->dtype));
}

static void shape_scatter(Node *n, bool over)
{
    shape_indexed(n);
    n->has_samples = n->has_samples && !over;
    if (n->dtype != dtype_summed(n->dtype))
        mistake(n, "%s of %s into %s", OP_INFO[n->op].name, dtype_name(n->in[2]->dtype), dtype_name(n->dtype));
}

static void shape_index_copy(Node *n, bool over)
{
    (void)over;
    shape_indexed(n);
    if (shape_count(&n->in[1]->shape) != 1)
        mistake(n, "%s: the index is %s, one number expected", OP_INFO[n->op].name, shape_text(&n->in[1]->shape));
}

static void shape_group_sum(Node *n, bool over)
{
    (void)over;
    like_first(n);
    limit_attribute(n, "group", n->ints[0], 0);
    n->has_samples = true;
    n->dtype = dtype_summed(n->dtype);
}

static void shape_total(Node *n, bool over)
{
    (void)over;
    like_first(n);
    n->has_samples = false;
    n->dtype = dtype_summed(n->dtype);
}

static void shape_grad(Node *n, bool over)
{
    const Node *y = n->in[0], *x = n->in[1];
    (void)over;
    if (!dtype_is_float(y->dtype) || !dtype_is_float(x->dtype))
        mistake(n, "the gradient of %s by %s", dtype_name(y->dtype), dtype_name(x->dtype));
    n->dtype = x->dtype;
    n->shape = x->shape;
    n->has_samples = x->has_samples;
}

static void shape_substitute(Node *n, bool over)
{
    (void)over;
    int count = n->inputs / 2;
    if (n->inputs != 2 * count + 1)
        mistake(n, "substitute with %d inputs", n->inputs);
    for (int i = 1; i <= count; i++) {
        const Node *x = n->in[i], *z = n->in[count + i];
        if (!shape_equal(&x->shape, &z->shape) || x->dtype != z->dtype || (z->has_samples && !x->has_samples))
            mistake(n, "substitute: %s%s for %s%s", dtype_name(z->dtype), shape_text(&z->shape), dtype_name(x->dtype),
                    shape_text(&x->shape));
    }
    n->dtype = n->in[0]->dtype;
    n->shape = n->in[0]->shape;
    n->has_samples = n->in[0]->has_samples;
}

static void shape_body(Node *n, bool over)
{
    (void)over;
    n->shape = SCALAR;
    n->dtype = F32;
    n->has_samples = false;
    for (int i = 0; i < n->body->result_count; i++)
        if (n->body->results[i].role == ROLE_RESULT)
            n->has_samples = n->has_samples || n->body->results[i].value->has_samples;
}

/* ints = [carries, sequences, steps, reverse, stacks]; the body's first nodes are the ARGs of the carries */
static void shape_scan(Node *n, bool over)
{
    const Graph *body = n->body;
    shape_body(n, over);
    if (n->int_count != 5 || body->result_count != n->ints[0] + n->ints[4] || n->ints[0] + n->ints[1] > n->inputs ||
        n->ints[2] < 1)
        mistake(n, "a scan with %d attributes, %d inputs and %d results", n->int_count, n->inputs, body->result_count);
    for (int i = 0; i < n->ints[0]; i++) {
        if (i >= body->node_count || body->nodes[i]->op != OP_ARG || body->nodes[i]->ints[0] != i)
            mistake(n, "a scan whose body does not begin with its carries");
        n->has_samples = n->has_samples || body->nodes[i]->has_samples;
    }
    for (int64_t i = n->ints[0]; i < n->ints[0] + n->ints[1]; i++)
        if (n->in[i]->shape.rank == 0 || n->in[i]->shape.extent[0] != n->ints[2])
            mistake(n, "a scan of %lld steps over %s", (long long)n->ints[2], shape_text(&n->in[i]->shape));
}

static void shape_result(Node *n, bool over)
{
    (void)over;
    const Graph *body = n->in[0]->body;
    int64_t k = n->ints[0];
    if (n->in[0]->op == OP_SCAN && k < body->result_count) {
        const Node *scan = n->in[0], *value = body->results[k].value;
        bool carry = k < scan->ints[0];
        n->shape = value->shape;
        n->dtype = value->dtype;
        n->has_samples = value->has_samples || (carry && body->nodes[k]->has_samples);
        if (carry)
            return;
        if (value->shape.rank == MAX_RANK)
            error_at(
                n->at,
                "a tensor has at most %d axes; the gradient of this scan needs values of all its steps, which would have one "
                "more than %s",
                MAX_RANK, shape_text(&value->shape));
        n->shape.rank++;
        n->shape.extent[0] = scan->ints[2];
        for (int i = 0; i < value->shape.rank; i++)
            n->shape.extent[i + 1] = value->shape.extent[i];
        return;
    }
    for (int i = 0; i < body->result_count; i++)
        if (body->results[i].role == ROLE_RESULT && k-- == 0) {
            const Node *value = body->results[i].value;
            n->shape = value->shape;
            n->dtype = value->dtype;
            n->has_samples = value->has_samples;
            n->weak = value->weak;
            return;
        }
    mistake(n, "result %lld of '%s'", (long long)n->ints[0], n->in[0]->text);
}

/* ---- the table */

#define NONE 0
const OpInfo OP_INFO[OPS] = {
#define OP(op, name, class, inputs, attributes, linear, flops, meaning, shape, gradient, signature, equation)                    \
    [OP_##op] = {name, class, inputs, attributes, linear, class == ELEMENTWISE ? #meaning : NULL, flops, signature, equation},
#include "compiler/ir/ops.def"
};

static ShapeRule *const SHAPE_RULE[OPS] = {
#define OP(op, name, class, inputs, attributes, linear, flops, meaning, shape, ...) [OP_##op] = shape,
#include "compiler/ir/ops.def"
};

void node_infer(Node *n, bool over_samples)
{
    int inputs = OP_INFO[n->op].inputs;
    if (inputs >= 0 && n->inputs != inputs)
        mistake(n, "%s with %d inputs", OP_INFO[n->op].name, n->inputs);
    if (inputs < 0 && n->inputs < 1 && n->op != OP_COMPOSITE && n->op != OP_SCAN)
        mistake(n, "%s without inputs", OP_INFO[n->op].name);
    SHAPE_RULE[n->op](n, over_samples);
    if (n->weak && n->shape.rank)
        mistake(n, "a weak %s of shape %s", OP_INFO[n->op].name, shape_text(&n->shape));
    check_shape(n);
}

/* ---- running operations */

#define RUNNING_ROW(NAME, name, operation, combined, start, plural) [OP_##NAME] = {OP_##operation, start, plural},
static const struct {
    Op combines;
    double start;
    const char *plural;
} RUNNING_ROWS[OPS] = {MGPU_RUNNING_TABLE(RUNNING_ROW)};

Op running_combines(Op op) { return RUNNING_ROWS[op].combines; }
double running_start(Op op) { return RUNNING_ROWS[op].start; }
const char *running_plural(Op op) { return RUNNING_ROWS[op].plural; }
