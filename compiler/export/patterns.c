/* patterns.c: recognises groups of IR nodes for which ONNX and PyTorch have one operation: the nodes that the library's layers
 * and composite.c become after the passes. Other nodes are exported one by one, with the same results. */
#include "compiler/export/lowering.h"

#include <math.h>

static bool is_number(const Node *n, double value)
{
    double v;
    while (n->op == OP_BROADCAST)
        n = n->in[0];
    return node_is_constant(n, &v) && fabs(v - value) <= 1e-15 * fabs(value);
}

static bool number(const Node *n, double *value)
{
    while (n->op == OP_BROADCAST)
        n = n->in[0];
    return node_is_constant(n, value);
}

/* Returns the vector along the last axis of `like` that all samples share, or NULL. */
static const Node *vector(const Node *n, const Node *like)
{
    while (n->op == OP_BROADCAST)
        n = n->in[0];
    const Shape *s = &like->shape;
    return !n->has_samples && n->shape.rank == 1 && s->rank > 0 && n->shape.extent[0] == s->extent[s->rank - 1] ? n : NULL;
}

/* Returns the reduction whose result n broadcasts back to the shape `whole` along the axis, or NULL. */
static const Node *kept(const Node *n, const Shape *whole, int axis)
{
    while (n->op == OP_STOP_GRADIENT || (n->op == OP_BROADCAST && n->in[0]->shape.rank == whole->rank))
        n = n->in[0];
    Shape one = *whole;
    one.extent[axis] = 1;
    if (n->op != OP_RESHAPE || !shape_equal(&n->shape, &one))
        return NULL;
    n = n->in[0];
    return n->shape.rank == whole->rank - 1 ? n : NULL;
}

/* Matches a node of the operation, with its operands swapped if k is 1. */
static bool either(const Node *n, Op op, int k, const Node **one, const Node **other)
{
    if (n->op != op)
        return false;
    *one = n->in[k];
    *other = n->in[1 - k];
    return true;
}

static bool reduces(const Node *n, Op op, const Node *x, int axis)
{
    return n && n->op == op && n->in[0] == x && n->int_count == 1 && n->ints[0] == axis;
}

static bool find_softmax(const Node *n, Pattern *p)
{
    if (n->op != OP_DIV || n->in[0]->op != OP_EXP || n->in[0]->in[0]->op != OP_SUB)
        return false;
    const Node *e = n->in[0], *x = e->in[0]->in[0];
    for (int axis = 0; axis < n->shape.rank; axis++)
        if (reduces(kept(n->in[1], &n->shape, axis), OP_SUM, e, axis) &&
            reduces(kept(e->in[0]->in[1], &n->shape, axis), OP_MAX, x, axis)) {
            *p = (Pattern){.kind = PATTERN_SOFTMAX, .in = {x}, .axis = axis};
            return true;
        }
    return false;
}

static bool find_relu(const Node *n, Pattern *p)
{
    if (n->op != OP_WHERE || n->text || n->in[0]->op != OP_LE || n->in[0]->in[0] != n->in[2] || !is_number(n->in[0]->in[1], 0) ||
        !is_number(n->in[1], 0))
        return false;
    *p = (Pattern){.kind = PATTERN_RELU, .in = {n->in[2]}};
    return true;
}

/* (x - mean) / sqrt(var + eps) weight + bias, with stored statistics */
static bool find_batchnorm(const Node *n, Pattern *p)
{
    const Node *scaled, *bias, *xhat, *weight, *more, *eps;
    for (int k = 0; k < 4; k++) {
        if (!either(n, OP_ADD, k & 1, &scaled, &bias) || !either(scaled, OP_MUL, k >> 1, &xhat, &weight) || xhat->op != OP_DIV ||
            xhat->in[0]->op != OP_SUB)
            continue;
        const Node *x = xhat->in[0]->in[0], *mean = vector(xhat->in[0]->in[1], n), *deviation = vector(xhat->in[1], n);
        weight = vector(weight, n), bias = vector(bias, n);
        if (!x->has_samples || !weight || !bias || !mean || !deviation || deviation->op != OP_SQRT)
            continue;
        for (int j = 0; j < 2; j++)
            if (either(deviation->in[0], OP_ADD, j, &more, &eps) && number(eps, &p->number) && !more->has_samples) {
                *p = (Pattern){.kind = PATTERN_BATCHNORM, .in = {x, weight, bias, mean, more}, .number = p->number};
                return true;
            }
    }
    return false;
}

/* the mean of x along the last axis: its sum times 1 / c */
static bool is_mean(const Node *n, const Node *x)
{
    const Node *sum, *share;
    int last = x->shape.rank - 1;
    for (int k = 0; k < 2; k++)
        if (either(n, OP_MUL, k, &sum, &share) && reduces(sum, OP_SUM, x, last) &&
            is_number(share, 1 / (double)x->shape.extent[last]))
            return true;
    return false;
}

/* (x - mean) inv, inv = 1 / sqrt(mean (x - mean)^2 + eps) */
static const Node *normalised(const Node *n, double *eps)
{
    const Node *away, *inverse, *mean, *small;
    int last = n->shape.rank - 1;
    for (int k = 0; k < 2 && last >= 0; k++) {
        if (!either(n, OP_MUL, k, &away, &inverse) || away->op != OP_SUB)
            continue;
        const Node *x = away->in[0], *of_x = kept(away->in[1], &n->shape, last), *inv = kept(inverse, &n->shape, last);
        if (!of_x || !is_mean(of_x, x) || !inv || inv->op != OP_DIV || !is_number(inv->in[0], 1) || inv->in[1]->op != OP_SQRT)
            continue;
        for (int j = 0; j < 2; j++)
            if (either(inv->in[1]->in[0], OP_ADD, j, &mean, &small) && number(small, eps) && mean->op == OP_MUL)
                for (int i = 0; i < 2; i++) {
                    const Node *sum = mean->in[i], *square = sum->op == OP_SUM ? sum->in[0] : NULL;
                    if (square && square->op == OP_MUL && square->in[0] == away && square->in[1] == away && is_mean(mean, square))
                        return x;
                }
    }
    return NULL;
}

static bool find_layernorm(const Node *n, Pattern *p)
{
    const Node *scaled = n, *bias = NULL, *xhat, *weight;
    for (int k = 0; k < 6; k++) { /* 4, 5: without a bias */
        if (k < 4 && !either(n, OP_ADD, k & 1, &scaled, &bias))
            continue;
        if (k >= 4)
            scaled = n, bias = NULL;
        double eps;
        if (!either(scaled, OP_MUL, k >> 1 & 1, &xhat, &weight))
            continue;
        if (k >= 4 && !either(scaled, OP_MUL, k & 1, &xhat, &weight))
            continue;
        const Node *x = vector(weight, n) ? normalised(xhat, &eps) : NULL;
        if (!x || !x->has_samples || (bias && !vector(bias, n)))
            continue;
        *p = (Pattern){.kind = PATTERN_LAYERNORM, .in = {x, vector(weight, n), bias ? vector(bias, n) : NULL}, .number = eps};
        return true;
    }
    return false;
}

/* x / 2 (1 + erf(x / sqrt 2)) */
static bool find_gelu(const Node *n, Pattern *p)
{
    const Node *half, *rest, *x, *share, *erf, *one, *by;
    for (int k = 0; k < 16; k++)
        if (either(n, OP_MUL, k & 1, &half, &rest) && either(half, OP_MUL, k >> 1 & 1, &x, &share) && is_number(share, 0.5) &&
            either(rest, OP_ADD, k >> 2 & 1, &erf, &one) && is_number(one, 1) && erf->op == OP_ERF &&
            either(erf->in[0], OP_MUL, k >> 3, &rest, &by) && rest == x && is_number(by, 0.70710678118654752)) {
            *p = (Pattern){.kind = PATTERN_GELU, .in = {x}};
            return true;
        }
    return false;
}

/* Matches a product of weights plus a bias, if the product has no other user. */
static bool find_bias(const Node *n, const int *uses, Pattern *p)
{
    const Node *product, *bias, *x, *w;
    bool transposed;
    for (int k = 0; k < 2; k++)
        if (either(n, OP_ADD, k, &product, &bias) && uses[product->id] == 1 && product->graph == n->graph && vector(bias, n) &&
            ((product->op == OP_CONVOLVE && product->has_samples) || is_linear_product(product, &x, &w, &transposed))) {
            *p = (Pattern){.kind = product->op == OP_CONVOLVE ? PATTERN_CONVOLUTION : PATTERN_LINEAR,
                           .in = {product->in[0], product->in[1], vector(bias, n), product}};
            return true;
        }
    return false;
}

/* Attributes of ONNX are f32, which would round the epsilon of an f64 model. */
bool find_pattern(const Lowering *l, const Node *n, Pattern *p)
{
    *p = (Pattern){0};
    bool exact = l->torch || l->out->real == F32;
    return dtype_is_float(n->dtype) && (find_relu(n, p) || (exact && (find_batchnorm(n, p) || find_layernorm(n, p))) ||
                                        find_softmax(n, p) || find_gelu(n, p) || find_bias(n, l->uses, p));
}

/* Keeps the order of axes. */
static void lower_activation(Lowering *l, const Node *n, const Node *of, bool gelu)
{
    bool first = is_first(l, of);
    const Value *x = first ? channels_first(l, of) : value_of(l, of), *y;
    if (gelu && !l->torch) { /* Gelu is not in opset 18 */
        const Value *z = unary(l, "Erf", binary(l, "Mul", x, scalar_of(l, 0.70710678118654752, x->dtype)));
        y = binary(l, "Mul", binary(l, "Mul", x, scalar_of(l, 0.5, x->dtype)), binary(l, "Add", z, scalar_of(l, 1, x->dtype)));
    } else {
        y = unary(l, gelu ? "Gelu" : "Relu", x);
    }
    set_lowered(l, n, y, first);
}

/* The inputs are x and the vectors of the pattern. */
static void lower_norm(Lowering *l, const Node *n, const Pattern *p)
{
    bool batch = p->kind == PATTERN_BATCHNORM;
    const Value *in[5] = {batch ? channels_first(l, p->in[0]) : whole_value(l, p->in[0])};
    int count = 1;
    for (; count < 5 && p->in[count]; count++)
        in[count] = whole_value(l, p->in[count]);
    const Value *y = emit(l, batch ? "BatchNormalization" : "LayerNormalization", in[0]->dtype, extents_of(in[0]), count, in);
    if (!batch)
        attribute(l, "axis", -1);
    attribute_number(l, "epsilon", p->number);
    set_lowered(l, n, y, batch);
}

void lower_pattern(Lowering *l, const Node *n, const Pattern *p)
{
    switch (p->kind) {
    case NO_PATTERN: break;
    case PATTERN_RELU:
    case PATTERN_GELU: lower_activation(l, n, p->in[0], p->kind == PATTERN_GELU); break;
    case PATTERN_SOFTMAX:
        set_lowered(l, n, unary(l, "Softmax", whole_value(l, p->in[0])), false);
        attribute(l, "axis", p->axis + n->has_samples);
        break;
    case PATTERN_BATCHNORM:
    case PATTERN_LAYERNORM: lower_norm(l, n, p); break;
    case PATTERN_CONVOLUTION: lower_convolution(l, p->in[3], p->in[2], n); break;
    case PATTERN_LINEAR: lower_linear(l, p->in[3], p->in[2], n); break;
    }
}
