/* elementwise.c: rules for element-wise operations: numbers are folded (in double: F32 is "the model's float"), operations
 * without effect are dropped, and what is the same along a broadcast axis is computed before it is broadcast. Rules are exact, or
 * usual in compilers of numeric programs (x + 0, x * 1, products of two constants), or lose less to rounding (the logarithm of a
 * sigmoid); none assumes that a value is not NaN. */
#include "compiler/passes/simplify/rules.h"

#include <math.h>

/* ---- folding */

/* Computes the operation on numbers; false: not here. */
static bool compute(const Node *n, double a, double b, double c, double *y)
{
    if (n->op == OP_CAST)
        *y = cast_number(n->in[0]->dtype, n->dtype, a);
    else
        *y = op_value(n->op, a, b, c);
    return *y == *y && (!dtype_is_half(n->dtype) || *y == 0) && is_exact(n->dtype, *y);
}

static Node *fold(Simplifier *s, const Node *n)
{
    bool splat = true;
    for (int k = 0; k < n->inputs; k++) {
        if (n->in[k]->op != OP_CONSTANT)
            return NULL;
        splat = splat && n->in[k]->data_count == 1;
    }
    int64_t count = splat ? 1 : shape_count(&n->shape);
    if (count > FOLD_ELEMENTS || (!splat && n->weak))
        return NULL;
    double *values = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++) {
        double x[3] = {0, 0, 0};
        for (int k = 0; k < n->inputs; k++)
            x[k] = n->in[k]->data[n->in[k]->data_count == 1 ? 0 : i];
        if (!compute(n, x[0], x[1], x[2], &values[i]))
            return NULL;
    }
    return splat ? fill_like(s, n, values[0]) : graph_constant(s->target, values, n->shape, n->dtype);
}

/* ---- arithmetic */

static bool is_negation(const Node *n) { return n->op == OP_SUB && is_constant(n->in[0], 0); }

static bool power_of_two(double v)
{
    int exponent;
    return fabs(frexp(v, &exponent)) == 0.5 && exponent > -100 && exponent < 100;
}

static bool moderate(double v) { return fabs(v) > 1e-15 && fabs(v) < 1e15; }

static Node *rule_mul(Simplifier *s, Node *n)
{
    Node *a = n->in[0], *b = n->in[1];
    double factor, inner;
    if (is_constant(b, 1))
        return a;
    if (is_negation(a) && is_negation(b))
        return SIMPLE(s, OP_MUL, a->in[1], b->in[1]);
    if (dtype_is_float(n->dtype) && a->op == OP_MUL && node_is_constant(b, &factor) && node_is_constant(a->in[1], &inner) &&
        moderate(factor) && moderate(inner))
        return SIMPLE(s, OP_MUL, a->in[0], fill_like(s, a->in[1], factor * inner));
    return NULL;
}

static Node *rule_div(Simplifier *s, Node *n)
{
    double divisor;
    if (!node_is_constant(n->in[1], &divisor) || !dtype_is_float(n->dtype))
        return NULL;
    if (divisor == 1)
        return n->in[0];
    return power_of_two(divisor) ? SIMPLE(s, OP_MUL, n->in[0], fill_like(s, n->in[1], 1 / divisor)) : NULL;
}

static Node *rule_pow(Simplifier *s, Node *n)
{
    double p;
    Node *x = n->in[0];
    if (!node_is_constant(n->in[1], &p))
        return NULL;
    if (p == 0)
        return fill_like(s, n, 1);
    if (p == 1)
        return x;
    if (p == 2)
        return SIMPLE(s, OP_MUL, x, x);
    if (p == 3)
        return SIMPLE(s, OP_MUL, SIMPLE(s, OP_MUL, x, x), x);
    if (p == 4) {
        Node *square = SIMPLE(s, OP_MUL, x, x);
        return SIMPLE(s, OP_MUL, square, square);
    }
    if (p == 0.5)
        return SIMPLE(s, OP_SQRT, x);
    if (p == -0.5)
        return SIMPLE(s, OP_DIV, fill_like(s, n, 1), SIMPLE(s, OP_SQRT, x));
    return p == -1 ? SIMPLE(s, OP_DIV, fill_like(s, n, 1), x) : NULL;
}

static Node *rule_add(Simplifier *s, Node *n)
{
    Node *a = n->in[0], *b = n->in[1];
    if (is_constant(b, 0))
        return a;
    if (is_negation(b))
        return SIMPLE(s, OP_SUB, a, b->in[1]);
    return is_negation(a) ? SIMPLE(s, OP_SUB, b, a->in[1]) : join_slices(s, n);
}

static Node *rule_sub(Simplifier *s, Node *n)
{
    Node *a = n->in[0], *b = n->in[1];
    if (is_constant(b, 0))
        return a;
    if (is_constant(a, 0) && b->op == OP_SUB)
        return SIMPLE(s, OP_SUB, b->in[1], b->in[0]);
    return is_negation(b) ? SIMPLE(s, OP_ADD, a, b->in[1]) : NULL;
}

/* The logarithm of 1 / (1 + e^-x), finite wherever x is: min(x, 0) - log(1 + e^-|x|). */
static Node *rule_log(Simplifier *s, Node *n)
{
    if (n->in[0]->op != OP_LOGISTIC)
        return NULL;
    Node *x = n->in[0]->in[0], *zero = fill_like(s, x, 0);
    Node *power = SIMPLE(s, OP_EXP, SIMPLE(s, OP_SUB, zero, SIMPLE(s, OP_ABS, x)));
    return SIMPLE(s, OP_SUB, SIMPLE(s, OP_MINIMUM, x, zero), SIMPLE(s, OP_LOG1P, power));
}

/* ---- choices */

static Node *rule_where(Simplifier *s, Node *n)
{
    Node *c = n->in[0], *a = n->in[1], *b = n->in[2];
    double v;
    if (node_is_constant(c, &v))
        return v != 0 ? a : b;
    if (a == b)
        return a;
    if (n->text) /* the requirement's text is kept */
        return NULL;
    if (c->op == OP_NOT)
        return SIMPLE(s, OP_WHERE, c->in[0], b, a);
    if (a->op == OP_WHERE && a->in[0] == c)
        return SIMPLE(s, OP_WHERE, c, a->in[1], b);
    if (b->op == OP_WHERE && b->in[0] == c)
        return SIMPLE(s, OP_WHERE, c, a, b->in[2]);
    if (n->dtype == BOOL && is_constant(a, 1))
        return SIMPLE(s, OP_OR, c, b);
    if (n->dtype == BOOL && is_constant(b, 0))
        return SIMPLE(s, OP_AND, c, a);
    if (n->dtype == BOOL && is_constant(a, 0) && is_constant(b, 1))
        return SIMPLE(s, OP_NOT, c);
    return NULL;
}

static Node *rule_logic(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    double v;
    if (n->op == OP_NOT)
        return a->op == OP_NOT ? a->in[0] : NULL;
    if (a == n->in[1])
        return a;
    if (!node_is_constant(n->in[1], &v))
        return NULL;
    if (n->op == OP_AND)
        return v != 0 ? a : fill_like(s, n, 0);
    return v != 0 ? fill_like(s, n, 1) : a;
}

static Node *rule_compare(Simplifier *s, Node *n)
{
    if (n->in[0] != n->in[1])
        return NULL;
    if (n->op == OP_LT)
        return fill_like(s, n, 0);
    return dtype_is_float(n->in[0]->dtype) ? NULL : fill_like(s, n, 1);
}

/* ---- casts */

/* Returns true if every value of type a is one of type b. */
static bool holds(Dtype b, Dtype a)
{
    static const int bits[DTYPES] = {1, 8, 7, 16, 15, 32, 31, 63, 11, 8, 24, 53}; /* bits of an integer without its sign */
    bool a_signed = a == I8 || a == I16 || a == I32 || a == I64, b_unsigned = b <= U8 || b == U16 || b == U32;
    if (a == b)
        return true;
    if (dtype_is_float(a))
        return b == F64 || (b == F32 && a != F64);
    return !(a_signed && b_unsigned) && bits[b] >= bits[a];
}

static Node *rule_cast(Simplifier *s, Node *n)
{
    Node *a = n->in[0];
    if (a->dtype == n->dtype && !a->weak)
        return a;
    if (a->op != OP_CAST || a->in[0]->weak || !holds(a->dtype, a->in[0]->dtype))
        return NULL;
    bool whole = !dtype_is_float(n->dtype) && !dtype_is_float(a->in[0]->dtype); /* from a float it stops at the limits */
    if (!whole || !dtype_is_float(a->dtype) || holds(n->dtype, a->in[0]->dtype))
        return simplify_node(s, graph_cast(s->target, a->in[0], n->dtype));
    return NULL;
}

/* ---- f(where(c, 1, 2), 3) = where(c, f(1, 3), f(2, 3)) */

static Node *compute_both_sides(Simplifier *s, Node *n)
{
    int which = -1;
    double v;
    for (int k = 0; k < n->inputs; k++) {
        if (node_is_constant(n->in[k], &v))
            continue;
        if (which >= 0)
            return NULL;
        which = k;
    }
    const Node *choice = which < 0 || n->op == OP_WHERE ? NULL : n->in[which];
    if (!choice || choice->op != OP_WHERE || choice->text || choice->weak || !node_is_constant(choice->in[1], &v) ||
        !node_is_constant(choice->in[2], &v))
        return NULL;
    Node *side[2];
    for (int i = 0; i < 2; i++) {
        Node *in[3];
        for (int k = 0; k < n->inputs; k++)
            in[k] = k == which ? choice->in[1 + i] : n->in[k];
        side[i] = simple_node(s, n->op, in, n->inputs, n->ints, n->int_count);
        if (side[i]->op != OP_CONSTANT)
            return NULL;
    }
    return SIMPLE(s, OP_WHERE, choice->in[0], graph_strong(s->target, side[0], n->dtype),
                  graph_strong(s->target, side[1], n->dtype));
}

/* ---- f(broadcast a, broadcast b) = broadcast f(a, b); likewise views that add axes of extent 1 */

static bool adds_ones(const Node *n)
{
    if (n->op != OP_RESHAPE || n->in[0]->weak)
        return false;
    const Shape *x = &n->in[0]->shape, *y = &n->shape;
    int i = 0;
    if (x->rank >= y->rank)
        return false;
    for (int k = 0; k < y->rank; k++) {
        if (i < x->rank && x->extent[i] == y->extent[k])
            i++;
        else if (y->extent[k] != 1)
            return false;
    }
    return i == x->rank;
}

static Node *compute_before_view(Simplifier *s, Node *n)
{
    const Node *broad = NULL;
    double v;
    for (int k = 0; k < n->inputs; k++) {
        const Node *x = n->in[k];
        if (node_is_constant(x, &v))
            continue;
        if ((x->op != OP_BROADCAST && !adds_ones(x)) ||
            (broad && (broad->op != x->op || !shape_equal(&broad->in[0]->shape, &x->in[0]->shape))))
            return NULL;
        broad = x;
    }
    if (!broad)
        return NULL;
    Node *in[3];
    for (int k = 0; k < n->inputs; k++)
        in[k] = n->in[k]->op == OP_CONSTANT ? graph_fill(s->target, n->in[k]->data[0], broad->in[0]->shape, n->in[k]->dtype)
                                            : n->in[k]->in[0];
    Node *small = simplify_node(s, graph_node(s->target, n->op, in, n->inputs, n->ints, n->int_count, n->text));
    small = graph_strong(s->target, small, n->dtype);
    return simplify_node(s, broad->op == OP_BROADCAST ? graph_broadcast(s->target, small, n->shape)
                                                      : graph_reshape(s->target, small, n->shape));
}

Node *rule_elementwise(Simplifier *s, Node *n)
{
    Node *y = fold(s, n);
    if (y)
        return y;
    bool commutes = n->op == OP_ADD || n->op == OP_MUL || n->op == OP_AND || n->op == OP_OR || n->op == OP_EQ;
    if (commutes && n->in[0]->op == OP_CONSTANT && n->in[1]->op != OP_CONSTANT)
        return SIMPLE(s, n->op, n->in[1], n->in[0]);
    switch (n->op) {
    case OP_ADD: y = rule_add(s, n); break;
    case OP_SUB: y = rule_sub(s, n); break;
    case OP_MUL: y = rule_mul(s, n); break;
    case OP_DIV: y = rule_div(s, n); break;
    case OP_POW: y = rule_pow(s, n); break;
    case OP_LOG: y = rule_log(s, n); break;
    case OP_MINIMUM:
    case OP_MAXIMUM: y = n->in[0] == n->in[1] ? n->in[0] : NULL; break;
    case OP_EQ:
    case OP_LT:
    case OP_LE: y = rule_compare(s, n); break;
    case OP_AND:
    case OP_OR:
    case OP_NOT: y = rule_logic(s, n); break;
    case OP_WHERE: y = rule_where(s, n); break;
    case OP_CAST: y = rule_cast(s, n); break;
    default: break;
    }
    if (!y)
        y = compute_both_sides(s, n);
    return y ? y : compute_before_view(s, n);
}
