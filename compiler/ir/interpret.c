/* interpret.c: the meaning of every operation, slow and clear, in double: the reference of tests.
 *
 * In: a Graph and the values of its leaves. Out: values[id] of every node, [samples or 1][elements], row-major. Existing arrays
 * are reused, so one Interpretation serves many runs of a graph.
 *
 * Floats are doubles without rounding, except BF16 and F16: results of operations are rounded to nearest (ties to even),
 * intermediate sums are not. Integers wrap at their width as in C (i64: a double does not hold all integers beyond 2^53); bool is
 * 0 or 1; a cast of a float truncates and saturates.
 *
 * An operation is computed sample by sample. One that sums over the samples (it has none, although an input has) adds the result
 * of each sample. Only GROUP_SUM reads other samples. */
#include "compiler/ir/graph.h"
#include "runtime/abi/mgpu_random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct GraphRun { /* a graph: the top one, or a body with its ARGs */
    const Interpretation *top;
    const Graph *graph;
    double **values;
    double ***bodies;   /* by COMPOSITE node: the values of its body; by SCAN: its results */
    double **arguments; /* of a body; NULL at the top */
} GraphRun;

static void run_graph(GraphRun *);

/* ---- numbers */

/* Rounds to the nearest number with 8 bits and the exponents of a float. */
static double to_bf16(double v)
{
    int exponent;
    if (v != v || v == 0 || fabs(v) > 0x1p200)
        return v == v && v != 0 ? copysign(INFINITY, v) : v;
    frexp(v, &exponent); /* v = f 2^exponent, f in [1/2, 1); below 2^-126 numbers are 2^-133 apart */
    double unit = ldexp(1, exponent > -125 ? exponent - 8 : -133), rounded = nearbyint(v / unit) * unit;
    return fabs(rounded) >= 0x1p128 ? copysign(INFINITY, v) : rounded;
}

/* Rounds to the nearest number with 11 bits, 2^-24 apart below 2^-14; infinite from 65520 on. */
static double to_f16(double v)
{
    int exponent;
    if (v != v || v == 0 || fabs(v) >= 65520)
        return v == v && v != 0 ? copysign(INFINITY, v) : v;
    frexp(v, &exponent);
    double unit = ldexp(1, exponent > -13 ? exponent - 11 : -24);
    return nearbyint(v / unit) * unit;
}

static double element(const Node *n, double a, double b, double c)
{
    if (n->op == OP_CAST)
        return cast_number(n->in[0]->dtype, n->dtype, a);
    bool whole = !dtype_is_float(n->dtype) && n->dtype != BOOL;
    if (whole && (n->op == OP_ADD || n->op == OP_SUB || n->op == OP_MUL)) {
        uint64_t x = (uint64_t)(int64_t)a, y = (uint64_t)(int64_t)b;
        return wrap_number(n->dtype, (int64_t)(n->op == OP_ADD ? x + y : n->op == OP_SUB ? x - y : x * y));
    }
    return fit_number(n->dtype, op_value(n->op, a, b, c));
}

/* ---- row-major arrays */

/* Advances to the next index within the extents, the last axis fastest; false after the last one. */
static bool next(int rank, const int64_t *extent, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < extent[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static void strides_of(const Shape *s, int64_t *stride)
{
    int64_t n = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = n;
        n *= s->extent[i];
    }
}

static int64_t offset_of(int rank, const int64_t *index, const int64_t *stride)
{
    int64_t at = 0;
    for (int i = 0; i < rank; i++)
        at += index[i] * stride[i];
    return at;
}

static int64_t product(const int64_t *extent, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= extent[i];
    return n;
}

/* ---- operations on one sample: out += or = ... */

/* Returns the offset of `index` in the result of a SUM, MAX or ARGMAX, without the axes in n->ints. */
static int64_t kept_offset(const Node *n, const int64_t *index)
{
    const Shape *x = &n->in[0]->shape;
    int64_t at = 0;
    for (int i = 0; i < x->rank; i++) {
        bool dropped = false;
        for (int k = 0; k < n->int_count; k++)
            dropped = dropped || n->ints[k] == i;
        if (!dropped)
            at = at * x->extent[i] + index[i];
    }
    return at;
}

static void reduce(const Node *n, const double *x, double *out)
{
    const Shape *s = &n->in[0]->shape;
    int64_t index[MAX_RANK] = {0}, count = shape_count(&n->shape), total = shape_count(s);
    double *best = calloc((size_t)count + 1, sizeof *best);
    for (int64_t i = 0; i < count; i++) {
        out[i] = n->op == OP_MAX ? -INFINITY : 0;
        best[i] = -INFINITY;
    }
    for (int64_t i = 0; i < total; i++, next(s->rank, s->extent, index)) {
        int64_t at = kept_offset(n, index);
        if (n->op == OP_SUM) {
            out[at] += x[i];
        } else if (x[i] > best[at] || (x[i] != x[i] && best[at] == best[at])) { /* the first NaN is the maximum */
            best[at] = x[i];
            out[at] = n->op == OP_MAX ? x[i] : (double)index[n->ints[0]];
        }
    }
    free(best);
}

static void einsum(const Node *n, const double *const *in, double *out)
{
    enum { AT = 52 }; /* of each operand: strides by letter, and at AT its offset */
    int64_t extent[AT] = {1}, index[AT] = {0}, stride[9][AT + 1] = {{0}}, own[MAX_RANK];
    int letter[128], letters = 0, inputs = n->inputs;
    int64_t(*in_stride)[AT + 1] = inputs <= 8 ? stride : calloc((size_t)inputs + 1, sizeof *in_stride);
    memset(letter, -1, sizeof letter);
    const char *p = n->text;
    for (int i = 0; i <= inputs; i++, p += i < inputs ? 1 : 2) { /* the last "operand" is the result */
        const Shape *s = i < inputs ? &n->in[i]->shape : &n->shape;
        strides_of(s, own);
        for (int k = 0; k < s->rank; k++, p++) {
            int *l = &letter[(unsigned char)*p];
            if (*l < 0) {
                extent[letters] = s->extent[k];
                *l = letters++;
            }
            in_stride[i][*l] += own[k];
        }
    }
    memset(out, 0, (size_t)shape_count(&n->shape) * sizeof *out);
    int outer = letters > 0 ? letters - 1 : 0; /* the last letter is the innermost loop */
    if (product(extent, 0, letters) > 0)
        do {
            for (int i = 0; i <= inputs; i++)
                in_stride[i][AT] = offset_of(outer, index, in_stride[i]);
            for (int64_t k = 0; k < extent[outer]; k++) {
                double value = 1;
                for (int i = 0; i < inputs; i++)
                    value *= in[i][in_stride[i][AT] + k * in_stride[i][outer]];
                out[in_stride[inputs][AT] + k * in_stride[inputs][outer]] += value;
            }
        } while (next(outer, extent, index));
    if (in_stride != stride)
        free(in_stride);
}

/* y[p, o] = sum_{k, c} x'[stride p + dilation k - low, c] w[o, c, k]: adds to y, or (weight) adds to w from y. */
static void convolution(const int64_t *v, const Shape *xs, const Shape *ws, const Shape *ys, const double *x, double *w,
                        double *y, bool weight)
{
    int r = (int)v[0];
    const int64_t *stride = v + 1, *low = stride + r, *dilation = low + 2 * r, *input_dilation = dilation + r;
    int64_t groups = v[1 + 5 * r], outputs = ys->extent[r], channels = ws->extent[1];
    int64_t kernel = product(ws->extent, 2, 2 + r), place[MAX_RANK] = {0}, tap[MAX_RANK] = {0};
    int64_t places = product(ys->extent, 0, r);
    for (int64_t p = 0; p < places; p++, next(r, ys->extent, place))
        for (int64_t k = 0; k < kernel; k++, next(r, ws->extent + 2, tap)) {
            int64_t at = 0;
            bool inside = true;
            for (int i = 0; i < r && inside; i++) {
                int64_t q = stride[i] * place[i] + dilation[i] * tap[i] - low[i];
                inside = q >= 0 && q % input_dilation[i] == 0 && q / input_dilation[i] < xs->extent[i];
                at = at * xs->extent[i] + q / input_dilation[i];
            }
            for (int64_t o = 0; inside && o < outputs; o++)
                for (int64_t c = 0; c < channels; c++) {
                    double value = x[at * xs->extent[r] + o / (outputs / groups) * channels + c];
                    double *weighed = &w[(o * channels + c) * kernel + k], *made = &y[p * outputs + o];
                    if (weight)
                        *weighed += value * *made;
                    else
                        *made += value * *weighed;
                }
        }
}

/* One query's probabilities p of the keys, and the gradients of its scores, ds = p (g v - g y), give all results: y = p v; dq =
 * scale ds k; dk += scale ds q; dv += p g. The operand `sums` of the gradient is not used. */
static void attention(const Node *n, const double *const *in, double *out)
{
    const Shape *q = &n->in[0]->shape, *k = &n->in[1]->shape, *v = &n->in[2]->shape;
    int64_t t = q->extent[0], heads = q->extent[1], d = q->extent[2], s = k->extent[0], groups = k->extent[1], e = v->extent[2];
    double scale = node_attention_scale(n), sign = scale < 0 ? -1 : scale > 0;
    bool sums = n->op == OP_ATTENTION && n->ints[3] == 1;
    int64_t which = n->op == OP_ATTENTION ? -1 : n->ints[3];
    double *p = malloc(sizeof *p * 2 * (size_t)s), *ds = p + s;
    memset(out, 0, sizeof *out * (size_t)shape_count(&n->shape));
    for (int64_t i = 0; i < t; i++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t group = h / (heads / groups), age = i + s - t;
            const double *own = in[0] + (i * heads + h) * d, *g = which < 0 ? NULL : in[3] + (i * heads + h) * e;
            double most = -INFINITY, sum = 0, mean = 0;
            for (int64_t c = 0; c < e && g; c++)
                mean += g[c] * in[4][(i * heads + h) * e + c];
            for (int64_t j = 0; j < s; j++) {
                p[j] = 0;
                for (int64_t c = 0; c < d; c++)
                    p[j] += own[c] * in[1][(j * groups + group) * d + c];
                bool seen = (!n->ints[0] || age - j >= 0) && (!n->ints[1] || age - j < n->ints[1]);
                p[j] = seen ? p[j] * sign : -INFINITY;
                most = p[j] > most ? p[j] : most;
            }
            for (int64_t j = 0; j < s; j++)
                sum += p[j] = p[j] == -INFINITY ? 0 : exp((p[j] - most) * fabs(scale));
            if (sums) {
                out[(h * t + i) * 2] = most == -INFINITY ? 0 : most;
                out[(h * t + i) * 2 + 1] = most == -INFINITY ? INFINITY : log(sum);
                continue;
            }
            for (int64_t j = 0; j < s; j++) {
                p[j] /= most == -INFINITY ? 1 : sum;
                ds[j] = 0;
                for (int64_t c = 0; c < e && g; c++)
                    ds[j] += g[c] * in[2][(j * groups + group) * e + c];
            }
            /* the results' heads: [t, h, d], [s, g, d], [s, g, e], or parts of [t, 3, h, d] */
            int64_t row = which == 3 ? 3 * heads : which == 1 || which == 2 ? groups : heads;
            for (int64_t j = 0; j < s; j++) {
                double slope = scale * p[j] * (ds[j] - mean);
                double *y = out + (i * row + h) * e, *dq = out + (i * row + h) * d, *dk = out + (j * row + group) * d,
                       *dv = out + (j * row + group) * e;
                if (which == 3) {
                    dk += heads * d;
                    dv += 2 * heads * e;
                }
                for (int64_t c = 0; c < e && which < 0; c++)
                    y[c] += p[j] * in[2][(j * groups + group) * e + c];
                for (int64_t c = 0; c < d && (which == 0 || which == 3); c++)
                    dq[c] += slope * in[1][(j * groups + group) * d + c];
                for (int64_t c = 0; c < d && (which == 1 || which == 3); c++)
                    dk[c] += slope * own[c];
                for (int64_t c = 0; c < e && (which == 2 || which == 3); c++)
                    dv[c] += p[j] * g[c];
            }
        }
    free(p);
}

/* WINDOW_*: x is the large side, `windows` the other; ints begin with size, stride, low. */
static void window(const Node *n, const Shape *xs, const Shape *windows, const double *first, const double *second, double *out)
{
    int r = xs->rank;
    const int64_t *size = n->ints, *stride = size + r, *low = stride + r;
    int64_t place[MAX_RANK] = {0}, tap[MAX_RANK] = {0}, count = shape_count(windows), taps = product(size, 0, r);
    memset(out, 0, (size_t)shape_count(&n->shape) * sizeof *out);
    for (int64_t p = 0; p < count; p++, next(r, windows->extent, place)) {
        double best = -INFINITY;
        if (n->op == OP_WINDOW_MAX)
            out[p] = best;
        for (int64_t k = 0; k < taps; k++, next(r, size, tap)) {
            int64_t at = 0;
            bool inside = true;
            for (int i = 0; i < r && inside; i++) {
                int64_t q = place[i] * stride[i] + tap[i] - low[i];
                inside = q >= 0 && q < xs->extent[i];
                at = at * xs->extent[i] + q;
            }
            if (!inside)
                continue;
            bool better = false; /* the first maximum, or the first NaN */
            if (n->op == OP_WINDOW_MAX || n->op == OP_WINDOW_ARGMAX) {
                better = first[at] > best || (first[at] != first[at] && best == best);
                best = better ? first[at] : best;
            }
            if (n->op == OP_WINDOW_SUM)
                out[p] += first[at];
            else if (n->op == OP_WINDOW_SUM_GRADIENT)
                out[at] += first[p];
            else if (n->op == OP_WINDOW_MAX_GRADIENT)
                out[at] += first[p] == (double)k ? second[p] : 0;
            else if (better)
                out[p] = n->op == OP_WINDOW_MAX ? best : (double)k;
        }
    }
}

/* TRANSPOSE, SLICE, BROADCAST: out[index] = x[...]; UNSLICE, PAD: the inverse: out[...] = x[index]. */
static void view(const Node *n, const double *x, double *out)
{
    const Shape *xs = &n->in[0]->shape, *ys = &n->shape;
    int r = ys->rank, more = r - xs->rank;
    bool push = n->op == OP_UNSLICE || n->op == OP_PAD;
    int64_t index[MAX_RANK] = {0}, stride[MAX_RANK], here[MAX_RANK], start = 0;
    strides_of(push ? ys : xs, stride);
    for (int i = 0; i < r; i++) /* the stride of index[i] in the strided array */
        switch (n->op) {
        case OP_TRANSPOSE: here[i] = stride[n->ints[i]]; break;
        case OP_SLICE: here[i] = stride[i] * n->ints[2 * r + i]; break;
        case OP_UNSLICE: here[i] = stride[i] * n->ints[r + i]; break;
        case OP_BROADCAST: here[i] = i < more || xs->extent[i - more] == 1 ? 0 : stride[i - more]; break;
        default: here[i] = stride[i]; break;
        }
    for (int i = 0; i < r && (push || n->op == OP_SLICE); i++)
        start += n->ints[i] * stride[i];
    for (int64_t i = 0; push && i < shape_count(ys); i++)
        out[i] = n->op == OP_PAD ? n->data[0] : 0;
    int64_t count = shape_count(push ? xs : ys);
    for (int64_t i = 0; i < count; i++, next(r, (push ? xs : ys)->extent, index)) {
        int64_t at = start + offset_of(r, index, here);
        if (push)
            out[at] = x[i];
        else
            out[i] = x[at];
    }
}

static void concat(const Node *n, const double *const *in, double *out)
{
    int axis = (int)n->ints[0];
    int64_t outer = product(n->shape.extent, 0, axis), row = product(n->shape.extent, axis, n->shape.rank), done = 0;
    for (int k = 0; k < n->inputs; k++) {
        int64_t part = product(n->in[k]->shape.extent, axis, n->shape.rank);
        for (int64_t i = 0; i < outer; i++)
            for (int64_t j = 0; j < part; j++)
                out[i * row + done + j] = in[k][i * part + j];
        done += part;
    }
}

/* GATHER: rows[i] = table[index]; SCATTER_ADD: table[index] += rows[i]; INDEX_COPY: table[index] = rows[i]. */
static void by_index(const Node *n, double *table, const double *index, double *rows)
{
    const Shape *x = &n->in[0]->shape;
    int axis = (int)n->ints[0];
    int64_t outer = product(x->extent, 0, axis), inner = product(x->extent, axis + 1, x->rank);
    int64_t extent = x->extent[axis], count = shape_count(&n->in[1]->shape);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++)
            for (int64_t j = 0; j < inner; j++) {
                bool inside = index[k] >= 0 && index[k] < (double)extent;
                double *row = &rows[(o * count + k) * inner + j];
                double *at = inside ? &table[(o * extent + (int64_t)index[k]) * inner + j] : NULL;
                if (n->op == OP_GATHER)
                    *row = at ? *at : 0;
                else if (at)
                    *at = n->op == OP_SCATTER_ADD ? *at + *row : *row;
            }
}

static void running(const Node *n, const double *x, double *out)
{
    const Shape *s = &n->shape;
    int axis = (int)n->ints[0];
    int64_t outer = product(s->extent, 0, axis), extent = s->extent[axis], inner = product(s->extent, axis + 1, s->rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++) {
            double all = running_start(n->op);
            for (int64_t i = 0; i < extent; i++) {
                int64_t at = (o * extent + (n->ints[1] ? extent - 1 - i : i)) * inner + j;
                out[at] = all = fit_number(n->dtype, op_value(running_combines(n->op), all, x[at], 0));
            }
        }
}

typedef struct RankedValue {
    double value;
    int64_t at;
} RankedValue;

/* Descending; NaN first; equal values in order. */
static int by_value(const void *a, const void *b)
{
    const RankedValue *x = a, *y = b;
    bool none_x = x->value != x->value, none_y = y->value != y->value;
    if (none_x != none_y)
        return none_x ? -1 : 1;
    if (!none_x && x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static void top_k(const Node *n, const double *x, double *out)
{
    const Shape *s = &n->in[0]->shape;
    int axis = (int)n->ints[0];
    int64_t outer = product(s->extent, 0, axis), extent = s->extent[axis], inner = product(s->extent, axis + 1, s->rank);
    RankedValue *row = calloc((size_t)extent + 1, sizeof *row);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++) {
            for (int64_t i = 0; i < extent; i++)
                row[i] = (RankedValue){x[(o * extent + i) * inner + j], i};
            qsort(row, (size_t)extent, sizeof *row, by_value);
            for (int64_t i = 0; i < n->ints[1]; i++)
                out[(o * n->ints[1] + i) * inner + j] = n->ints[2] ? (double)row[i].at : row[i].value;
        }
    free(row);
}

/* Computes one sample of a node from one sample of each input. */
static void compute(const GraphRun *run, const Node *n, int64_t sample, double **in, double *out)
{
    const Interpretation *top = run->top;
    int64_t count = shape_count(&n->shape);
    if (OP_INFO[n->op].op_class == ELEMENTWISE) {
        for (int64_t i = 0; i < count; i++)
            out[i] = element(n, in[0][i], n->inputs > 1 ? in[1][i] : 0, n->inputs > 2 ? in[2][i] : 0);
        return;
    }
    if (op_is_running(n->op)) {
        running(n, in[0], out);
        return;
    }
    switch (n->op) {
    case OP_CONSTANT:
        for (int64_t i = 0; i < count; i++)
            out[i] = n->data[n->data_count == 1 ? 0 : i];
        break;
    case OP_ARANGE:
        for (int64_t i = 0; i < count; i++)
            out[i] = (double)i;
        break;
    case OP_BATCH_PLACE: out[0] = (double)(top->first_place + sample); break;
    case OP_RANDOM: {
        uint64_t key = mgpu_random_key(top->seed, node_random_hash(n));
        uint64_t place = n->has_samples ? (uint64_t)(top->first_sample + sample) : 0;
        for (int64_t i = 0; i < count; i++)
            out[i] = mgpu_uniform(key, (uint64_t)i, place, (uint64_t)top->step);
        break;
    }
    case OP_SUM:
    case OP_MAX:
    case OP_ARGMAX: reduce(n, in[0], out); break;
    case OP_TOP_K: top_k(n, in[0], out); break;
    case OP_EINSUM: einsum(n, (const double *const *)in, out); break;
    case OP_CONVOLVE:
    case OP_CONVOLVE_WEIGHT: {
        memset(out, 0, (size_t)count * sizeof *out);
        bool weight = n->op == OP_CONVOLVE_WEIGHT;
        convolution(n->ints, &n->in[0]->shape, weight ? &n->shape : &n->in[1]->shape, weight ? &n->in[1]->shape : &n->shape,
                    in[0], weight ? out : in[1], weight ? in[1] : out, weight);
        break;
    }
    case OP_ATTENTION:
    case OP_ATTENTION_GRADIENT: attention(n, (const double *const *)in, out); break;
    case OP_WINDOW_MAX:
    case OP_WINDOW_SUM:
    case OP_WINDOW_ARGMAX: window(n, &n->in[0]->shape, &n->shape, in[0], NULL, out); break;
    case OP_WINDOW_MAX_GRADIENT:
    case OP_WINDOW_SUM_GRADIENT: window(n, &n->shape, &n->in[0]->shape, in[0], n->inputs > 1 ? in[1] : NULL, out); break;
    case OP_RESHAPE:
    case OP_STOP_GRADIENT:
    case OP_OWN:
    case OP_TOTAL:
    case OP_GROUP_SUM: memcpy(out, in[0], (size_t)count * sizeof *out); break;
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_UNSLICE:
    case OP_PAD:
    case OP_BROADCAST: view(n, in[0], out); break;
    case OP_CONCAT: concat(n, (const double *const *)in, out); break;
    case OP_GATHER: by_index(n, in[0], in[1], out); break;
    case OP_SCATTER_ADD: /* if it sums over samples, x itself counts once */
    case OP_INDEX_COPY:
        for (int64_t i = 0; i < count; i++)
            out[i] = node_sums_samples(n) && sample > 0 ? 0 : in[0][i];
        by_index(n, out, in[1], in[2]);
        break;
    default:
        if (op_is_transfer(n->op)) { /* of one device */
            memcpy(out, in[0], (size_t)count * sizeof *out);
            break;
        }
        die("the interpreter does not know %s", OP_INFO[n->op].name);
    }
    for (int64_t i = 0; i < count && !dtype_is_float(n->dtype); i++)
        out[i] = fit_number(n->dtype, out[i]);
}

static void round_all(const GraphRun *run, const Node *n, double *out, int64_t count)
{
    for (int64_t i = 0; i < count && dtype_is_half(n->dtype) && !run->top->exact; i++)
        out[i] = n->dtype == F16 ? to_f16(out[i]) : to_bf16(out[i]);
    for (int64_t i = 0; i < count && n->dtype == F32 && run->top->f32_range; i++)
        out[i] = fabs(out[i]) > FLT_MAX ? copysign(INFINITY, out[i]) : out[i];
}

/* Returns true if computing the node rounds; all other operations select or move numbers, and are exact. */
static bool rounds(const Node *n)
{
    switch (n->op) {
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_WHERE:
    case OP_CAST:
    case OP_ABS:
    case OP_FLOOR:
    case OP_NAN_WITH:
    case OP_MAX:
    case OP_ARGMAX:
    case OP_WINDOW_MAX:
    case OP_WINDOW_ARGMAX: return false;
    default: {
        OpClass class = OP_INFO[n->op].op_class;
        return dtype_is_float(n->dtype) &&
               (class == ELEMENTWISE || class == REDUCTION || class == RUNNING || class == CONTRACTION || class == WINDOW);
    }
    }
}

static void add_noise(const Interpretation *top, const Node *n, double *out, size_t count)
{
    bool whole = n->op == OP_CAST && dtype_is_float(n->dtype) && !dtype_is_float(n->in[0]->dtype); /* exact if it is small */
    if (top->noise == 0 || !(whole || rounds(n)))
        return;
    for (size_t i = 0; i < count; i++) {
        if (whole && fabs(out[i]) * top->noise < 0.1)
            continue;
        uint64_t key[3] = {top->noise_seed, (uint64_t)n->id, i};
        out[i] *= 1 + top->noise * ((double)(hash_bytes(9, key, sizeof key) >> 12) * 0x1p-51 - 1);
    }
}

/* ---- nodes and graphs */

static double *block(const GraphRun *run, const Node *n, int64_t sample)
{
    return run->values[n->id] + (n->has_samples ? sample * shape_count(&n->shape) : 0);
}

static void group_sum(const GraphRun *run, const Node *n, double *out)
{
    int64_t count = shape_count(&n->shape), samples = run->top->samples, group = n->ints[0] ? n->ints[0] : samples;
    for (int64_t from = 0; from < samples; from += group) {
        int64_t to = from + group < samples ? from + group : samples;
        for (int64_t i = 0; i < count; i++) {
            double total = 0;
            for (int64_t s = from; s < to; s++)
                total += block(run, n->in[0], s)[i];
            for (int64_t s = from; s < to; s++)
                out[s * count + i] = fit_number(n->dtype, total);
        }
    }
    round_all(run, n, out, samples * count);
}

/* In two passes over the valid samples. */
static void moments(const GraphRun *run, const Node *n, double *out)
{
    const Shape *x = &n->in[0]->shape;
    Node kept = {
        .op = OP_SUM, .in = n->in, .inputs = 1, .ints = n->ints, .int_count = n->int_count, .shape.rank = n->shape.rank - 1};
    memcpy(kept.shape.extent, n->shape.extent, (size_t)kept.shape.rank * sizeof *kept.shape.extent);
    int64_t count = shape_count(&kept.shape), elements = shape_count(x);
    memset(out, 0, (size_t)(MOMENTS * count) * sizeof *out);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t s = 0; s < run->top->samples; s++) {
            int64_t index[MAX_RANK] = {0};
            const double *from = block(run, n->in[0], s);
            for (int64_t i = 0; i < elements && block(run, n->in[1], s)[0] != 0; i++, next(x->rank, x->extent, index)) {
                double *own = out + MOMENTS * kept_offset(&kept, index), away = from[i] - own[MOMENT_MEAN];
                own[MOMENT_COUNT] += pass ? 0 : 1;
                own[pass ? MOMENT_SQUARES : MOMENT_MEAN] += pass ? away * away : from[i];
            }
        }
        for (double *own = out; own < out + MOMENTS * count && !pass; own += MOMENTS)
            own[MOMENT_MEAN] /= own[MOMENT_COUNT] > 0 ? own[MOMENT_COUNT] : 1;
    }
}

static void run_body(GraphRun *run, const Node *n)
{
    GraphRun inner = {.top = run->top, .graph = n->body};
    inner.values = calloc((size_t)n->body->node_count + 1, sizeof *inner.values);
    inner.arguments = calloc((size_t)n->inputs + 1, sizeof *inner.arguments);
    for (int i = 0; i < n->inputs; i++)
        inner.arguments[i] = run->values[n->in[i]->id];
    run_graph(&inner);
    free(inner.arguments);
    run->bodies[n->id] = inner.values;
}

static size_t size_of(const GraphRun *run, const Node *n)
{
    return (size_t)((n->has_samples ? run->top->samples : 1) * shape_count(&n->shape));
}

/* Copies step t of a stack, of every sample: now = stack[t], or stack[t] = now if write. */
static void slice(const GraphRun *run, const Node *value, int64_t steps, int64_t t, double *stack, double *now, bool write)
{
    int64_t count = shape_count(&value->shape), samples = value->has_samples ? run->top->samples : 1;
    for (int64_t s = 0; s < samples; s++) {
        double *there = stack + (s * steps + t) * count, *here = now + s * count;
        memcpy(write ? there : here, write ? here : there, (size_t)count * sizeof *here);
    }
}

static void run_scan(GraphRun *run, const Node *n)
{
    Loop l = loop_of(n);
    GraphRun inner = {.top = run->top, .graph = l.body};
    inner.values = calloc((size_t)l.body->node_count + 1, sizeof *inner.values);
    inner.arguments = calloc((size_t)n->inputs + 1, sizeof *inner.arguments);
    double **results = calloc((size_t)(l.carries + l.stacks) + 1, sizeof *results);
    for (int i = 0; i < n->inputs; i++) {
        const Node *arg = l.arg[i], *in = n->in[i];
        if (!arg)
            continue;
        double *own = run->values[in->id];
        if (loop_kind(&l, i) != AS_IT_IS) {
            own = calloc(size_of(run, arg) + 1, sizeof *own);
            for (int64_t k = 0; i < l.carries && k < (arg->has_samples ? run->top->samples : 1); k++)
                memcpy(own + k * shape_count(&in->shape), block(run, in, k), (size_t)shape_count(&in->shape) * sizeof *own);
        }
        inner.arguments[i] = own;
    }
    for (int k = 0; k < l.stacks; k++)
        results[l.carries + k] = calloc(size_of(run, l.stack[k]) * (size_t)l.steps + 1, sizeof **results);
    for (int64_t step = 0; step < l.steps; step++) {
        int64_t t = l.reverse ? l.steps - 1 - step : step;
        for (int i = l.carries; i < l.carries + l.sequences; i++)
            if (l.arg[i])
                slice(run, l.arg[i], l.steps, t, run->values[n->in[i]->id], inner.arguments[i], false);
        run_graph(&inner);
        for (int k = 0; k < l.stacks; k++)
            slice(run, l.stack[k], l.steps, t, results[l.carries + k], inner.values[l.stack[k]->id], true);
        for (int i = 0; i < l.carries; i++)
            for (int64_t s = 0; s < (l.arg[i]->has_samples ? run->top->samples : 1); s++) {
                int64_t count = shape_count(&l.arg[i]->shape);
                memcpy(inner.arguments[i] + s * count, block(&inner, l.next[i], s), (size_t)count * sizeof(double));
            }
    }
    for (int i = 0; i < l.body->node_count; i++)
        free(inner.values[i]);
    for (int i = 0; i < l.carries; i++)
        results[i] = inner.arguments[i];
    for (int i = l.carries; i < l.carries + l.sequences; i++)
        free(inner.arguments[i]);
    free(inner.values);
    free(inner.arguments);
    run->bodies[n->id] = results;
}

static void run_node(GraphRun *run, const Node *n, double *out)
{
    const Interpretation *top = run->top;
    int64_t count = shape_count(&n->shape), samples = n->has_samples ? top->samples : 1;
    size_t all = (size_t)(samples * count);
    if (n->op == OP_ARG && run->arguments) {
        memcpy(out, run->arguments[n->ints[0]], all * sizeof *out);
        return;
    }
    switch (n->op) {
    case OP_INPUT:
    case OP_VARIABLE:
    case OP_GRADIENT:
    case OP_RUN:
    case OP_ARG:
        if (!top->leaf || !top->leaf(top->context, n, out, (int64_t)all))
            die("the interpreter was given no value for %s %lld", OP_INFO[n->op].name, n->int_count ? (long long)n->ints[0] : 0);
        return;
    case OP_VALID:
        if (!top->leaf || !top->leaf(top->context, n, out, (int64_t)all))
            for (size_t i = 0; i < all; i++)
                out[i] = 1;
        return;
    case OP_RANDOM:
        if (top->leaf && top->leaf(top->context, n, out, (int64_t)all))
            return;
        break;
    case OP_GROUP_SUM: group_sum(run, n, out); return;
    case OP_MOMENTS: moments(run, n, out); return;
    case OP_COMPOSITE: run_body(run, n); return;
    case OP_SCAN: run_scan(run, n); return;
    case OP_RESULT: {
        const Node *owner = n->in[0], *value = NULL;
        int64_t k = n->ints[0];
        for (int i = 0; i < owner->body->result_count && !value; i++)
            if (owner->body->results[i].role == ROLE_RESULT && k-- == 0)
                value = owner->body->results[i].value;
        int64_t place = owner->op == OP_SCAN ? n->ints[0] : value->id;
        memcpy(out, run->bodies[owner->id][place], all * sizeof *out);
        return;
    }
    default: break;
    }
    double *few[8], **in = n->inputs <= COUNT(few) ? few : calloc((size_t)n->inputs, sizeof *in);
    bool sums = node_sums_samples(n) || n->op == OP_TOTAL;
    double *part = sums ? calloc((size_t)count + 1, sizeof *part) : NULL;
    memset(out, 0, sums ? all * sizeof *out : 0);
    for (int64_t s = 0; s < (sums ? top->samples : samples); s++) {
        for (int i = 0; i < n->inputs; i++)
            in[i] = block(run, n->in[i], s);
        compute(run, n, s, in, sums ? part : out + s * count);
        for (int64_t i = 0; i < count && sums; i++)
            out[i] = fit_number(n->dtype, out[i] + part[i]);
    }
    round_all(run, n, out, (int64_t)all);
    add_noise(top, n, out, all);
    free(part);
    if (in != few)
        free(in);
}

static void run_graph(GraphRun *run)
{
    const Graph *g = run->graph;
    run->bodies = calloc((size_t)g->node_count + 1, sizeof *run->bodies);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (!run->values[n->id])
            run->values[n->id] = calloc(size_of(run, n) + 1, sizeof(double));
        run_node(run, n, run->values[n->id]);
    }
    for (int i = 0; i < g->node_count; i++)
        if (run->bodies[i]) {
            const Node *n = g->nodes[i];
            int count = n->op == OP_SCAN ? (int)(n->ints[0] + n->ints[4]) : n->body->node_count;
            for (int k = 0; k < count; k++)
                free(run->bodies[i][k]);
            free(run->bodies[i]);
        }
    free(run->bodies);
}

void interpret(const Graph *g, Interpretation *interpretation)
{
    if (!interpretation->values)
        interpretation->values = calloc((size_t)g->node_count + 1, sizeof *interpretation->values);
    GraphRun run = {.top = interpretation, .graph = g, .values = interpretation->values};
    run_graph(&run);
}
