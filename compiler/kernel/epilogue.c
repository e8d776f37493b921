/* epilogue.c: what a kernel computes from a contraction's result (kernel/epilogue.h).
 *
 * In: a kernel of one nest. Out: whether it stores elements that depend only on what it reads at the same position; and which
 * function it computes. Its expressions are polynomials of the contraction's result, the bias, a gradient, and the one tanh of
 * gelu. So neither the order and grouping of operations nor the rewrites of simplify matter. Casts are ignored. */
#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/polynomial.h"

#include <string.h>

static const Store *store_of(const Kernel *k, int write)
{
    const Nest *nest = k->nests;
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].tensor == k->writes[write])
            return &nest->stores[i];
    return NULL;
}

static const Expr *without_casts(const Expr *e)
{
    while (e->kind == X_OP && e->op == OP_CAST)
        e = e->in[0];
    return e;
}

/* ---- positions */

/* Returns true if `part` is offset mod length, as far as the axes' factors show it. */
static bool is_modulo(const Exprs *x, const Expr *part, const Expr *offset, int64_t length)
{
    int64_t most = 0;
    if (part->kind != X_SUM && part->kind != X_AXIS)
        return false;
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        int64_t whole = expr_factor(offset, i), own = expr_factor(part, i);
        bool inside = whole < length && !a->samples;
        if (a->kind != AXIS_PLAIN || whole < 0 || (inside ? own != whole : own != 0 || whole % length != 0))
            return false;
        most += inside ? whole * (a->extent - 1) : 0;
    }
    for (int i = 0; i < part->count && part->kind == X_SUM; i++)
        if (part->in[i]->kind != X_AXIS)
            return false;
    for (int i = 0; i < offset->count && offset->kind == X_SUM; i++)
        if (offset->in[i]->kind != X_AXIS)
            return false;
    return most < length && (part->kind == X_AXIS || part->constant == 0);
}

/* Returns true if the offsets are those of all elements of a tensor, each once: the axes' strides are contiguous, samples are
 * outermost. */
static bool covers(const Exprs *x, const Expr *offset, int64_t each)
{
    int64_t span = 1;
    for (int found = 0; span < each;) {
        const Axis *next = NULL;
        for (int i = 0; i < x->axis_count && !next; i++)
            if (!(found >> i & 1) && expr_factor(offset, i) == span && (x->axis[i].extent > 1 || x->axis[i].samples)) {
                next = &x->axis[i];
                found |= 1 << i;
            }
        if (!next || next->kind != AXIS_PLAIN)
            return false;
        span *= next->extent;
        if (next->samples)
            return span == each;
    }
    for (int i = 0; i < x->axis_count; i++)
        if (x->axis[i].samples)
            return span == each && x->axis[i].extent == 1 && expr_factor(offset, i) == each;
    return false;
}

/* Returns true if every load is of the element at `offset`, or, of a bias, of that element's position along the last axis. */
static bool loads_at(const Kernel *k, const Expr *e, const Expr *offset, int bias)
{
    if (e->kind == X_LOAD)
        return e->count == 1 && tensor_place(k->reads, k->read_count, e->tensor) >= 0 &&
               (bias >= 0 && e->tensor == k->reads[bias]
                    ? is_modulo(k->nests->exprs, e->in[0], offset, shape_count(&e->tensor->shape))
                    : e->in[0] == offset);
    for (int i = 0; i < e->count && e->kind == X_OP; i++)
        if (!loads_at(k, e->in[i], offset, bias))
            return false;
    return true;
}

static bool is_plain(const Store *s) { return !s->add && !s->part && !s->guard && !s->run; }

bool epilogue_is_pointwise(const Kernel *k, int bias, int *sums)
{
    const Nest *nest = k->nests;
    const Expr *offset = NULL;
    *sums = -1;
    if (k->nest_count != 1 || k->read_count > EPILOGUE_READS || nest->store_count != k->write_count)
        return false;
    for (int i = 0; i < k->write_count; i++) {
        const Store *s = store_of(k, i);
        if (!s || !is_plain(s) || (s->outer && *sums >= 0))
            return false;
        if (s->outer)
            *sums = i;
        else if (!loads_at(k, s->value, s->offset, bias) || (offset && s->offset != offset))
            return false;
        else
            offset = s->offset;
    }
    if (*sums < 0)
        return nest->reduction_count == 0;
    const Store *s = store_of(k, *sums);
    const Expr *result = without_casts(s->value);
    const Expr *added = nest->reduction_count == 1 ? nest->reductions[0].value : NULL;
    if (!offset) /* it stores sums only */
        for (const Expr *e = added; e && !offset; e = e->count > 0 ? e->in[0] : NULL)
            offset = e->kind == X_LOAD ? e->in[0] : NULL;
    return added && offset && nest->reductions[0].kind == REDUCE_SUM && result->kind == X_RESULT &&
           loads_at(k, added, offset, bias) && is_modulo(nest->exprs, s->offset, offset, shape_count(&s->tensor->shape));
}

bool epilogue_is_sum(const Kernel *k)
{
    const Expr *load = without_casts(k->nests->reductions[0].value);
    return load->kind == X_LOAD && covers(k->nests->exprs, load->in[0], shape_count(&load->tensor->shape));
}

/* ---- functions */

enum { D, BIAS, GRADIENT, TANH }; /* variables: the contraction's result, the bias, the gradient, tanh of `inner` */

typedef struct EpilogueReading {
    const Kernel *kernel;
    Polynomial read[EPILOGUE_READS]; /* by index of the kernel's reads */
    Polynomial *inner;               /* argument of the tanh; unknown: no tanh yet */
} EpilogueReading;

static Polynomial value_of(const EpilogueReading *, const Expr *);

static Polynomial tanh_of(const EpilogueReading *r, const Expr *e)
{
    Polynomial inner = value_of(r, e);
    if (r->inner->unknown)
        *r->inner = inner;
    return polynomial_equal(&inner, r->inner) ? polynomial_variable(TANH) : polynomial_unknown();
}

static Polynomial value_of(const EpilogueReading *r, const Expr *e)
{
    if (e->kind == X_NUMBER)
        return polynomial_number(e->number);
    if (e->kind == X_LOAD)
        return r->read[tensor_place(r->kernel->reads, r->kernel->read_count, e->tensor)];
    if (e->kind != X_OP)
        return polynomial_unknown();
    if (e->op == OP_CAST)
        return value_of(r, e->in[0]);
    if (e->op == OP_TANH)
        return tanh_of(r, e->in[0]);
    if (e->op != OP_ADD && e->op != OP_SUB && e->op != OP_MUL)
        return polynomial_unknown();
    Polynomial a = value_of(r, e->in[0]);
    if (a.unknown)
        return a;
    Polynomial b = value_of(r, e->in[1]);
    return e->op == OP_MUL ? polynomial_multiply(&a, &b) : polynomial_add(&a, &b, e->op == OP_SUB ? -1 : 1);
}

/* Returns d, or d + bias. */
static Polynomial operand(bool bias)
{
    Polynomial d = polynomial_variable(D), b = polynomial_variable(BIAS);
    return bias ? polynomial_add(&d, &b, 1) : d;
}

/* Recognizes max(x, 0); x <= 0 ? 0 : x; 0 < x ? x : 0. */
static bool is_relu(const EpilogueReading *r, const Expr *e, const Polynomial *x)
{
    const Polynomial zero = polynomial_number(0), minus = polynomial_add(&zero, x, -1);
    e = without_casts(e);
    if (e->kind != X_OP || (e->op != OP_MAXIMUM && e->op != OP_WHERE))
        return false;
    Polynomial a = value_of(r, e->in[e->count - 2]), b = value_of(r, e->in[e->count - 1]);
    bool first = polynomial_equal(&a, x) && polynomial_equal(&b, &zero),
         second = polynomial_equal(&a, &zero) && polynomial_equal(&b, x);
    if (e->op == OP_MAXIMUM || !(first || second))
        return first || second;
    const Expr *c = e->in[0];
    if (c->kind != X_OP || (c->op != OP_LE && c->op != OP_LT))
        return false;
    Polynomial left = value_of(r, c->in[0]), right = value_of(r, c->in[1]), difference = polynomial_add(&left, &right, -1);
    return polynomial_equal(&difference, second ? x : &minus);
}

/* the argument of tanh in gelu: sqrt(2 / pi) (x + 0.044715 x^3) */
static const double OUTSIDE = 0.7978845608028654, CUBE = 0.044715;

static bool is_inner(const Polynomial *inner, const Polynomial *x)
{
    Polynomial square = polynomial_multiply(x, x), cube = polynomial_multiply(&square, x), zero = polynomial_number(0);
    Polynomial sum = polynomial_add(x, &cube, CUBE), wanted = polynomial_add(&zero, &sum, OUTSIDE);
    return polynomial_equal(inner, &wanted);
}

/* x (1 + t) / 2 */
static Polynomial gelu(const Polynomial *x)
{
    Polynomial half = polynomial_number(0.5), t = polynomial_variable(TANH), both = polynomial_add(&half, &t, 0.5);
    return polynomial_multiply(x, &both);
}

/* g ((1 + t) / 2 + x (1 - t^2) / 2 sqrt(2 / pi) (1 + 3 0.044715 x^2)) */
static Polynomial gelu_gradient(const Polynomial *x)
{
    Polynomial one = polynomial_number(1), half = polynomial_number(0.5), t = polynomial_variable(TANH),
               g = polynomial_variable(GRADIENT);
    Polynomial square = polynomial_multiply(x, x), slope = polynomial_add(&one, &square, 3 * CUBE),
               tt = polynomial_multiply(&t, &t);
    Polynomial rest = polynomial_add(&one, &tt, -1), of_x = polynomial_multiply(x, &slope),
               second = polynomial_multiply(&rest, &of_x);
    Polynomial first = polynomial_add(&half, &t, 0.5), sum = polynomial_add(&first, &second, 0.5 * OUTSIDE);
    return polynomial_multiply(&g, &sum);
}

static EpilogueReading reading(const Kernel *k, Polynomial *inner)
{
    EpilogueReading r = {.kernel = k, .inner = inner};
    for (int i = 0; i < EPILOGUE_READS; i++)
        r.read[i] = polynomial_unknown();
    return r;
}

static EpilogueReading reading_of_function(const Kernel *k, const Epilogue *e, Polynomial *inner)
{
    EpilogueReading r = reading(k, inner);
    r.read[e->x] = polynomial_variable(D);
    if (e->bias >= 0)
        r.read[e->bias] = polynomial_variable(BIAS);
    return r;
}

bool epilogue_finds_function(const Kernel *k, Epilogue *e)
{
    const Expr *value = store_of(k, e->y)->value;
    Polynomial inner = polynomial_unknown(), x = operand(e->bias >= 0), of_gelu = gelu(&x);
    EpilogueReading r = reading_of_function(k, e, &inner);
    Polynomial is = value_of(&r, value);
    e->kind = e->bias >= 0 && polynomial_equal(&is, &x)                 ? EPILOGUE_BIAS
              : is_relu(&r, value, &x)                                  ? EPILOGUE_RELU
              : polynomial_equal(&is, &of_gelu) && is_inner(&inner, &x) ? EPILOGUE_GELU
                                                                        : EPILOGUE_NONE;
    return e->kind != EPILOGUE_NONE;
}

bool epilogue_is_gradient(const Kernel *k, const Epilogue *e, const Kernel *forward, const Epilogue *f, const int *from)
{
    Polynomial inner = polynomial_unknown(), x = operand(f->bias >= 0), wanted = gelu_gradient(&x);
    EpilogueReading before = reading_of_function(forward, f, &inner), r = reading(k, &inner);
    for (int i = 0; i < k->read_count; i++)
        if (from[i] >= 0)
            r.read[i] = value_of(&before, store_of(forward, from[i])->value);
    r.read[e->before] = polynomial_variable(D);
    r.read[e->x] = polynomial_variable(GRADIENT);
    if (e->bias >= 0)
        r.read[e->bias] = polynomial_variable(BIAS);
    Polynomial is = value_of(&r, store_of(k, e->y)->value),
               summed = e->sums >= 0 ? value_of(&r, k->nests->reductions[0].value) : wanted;
    return polynomial_equal(&is, &wanted) && polynomial_equal(&summed, &wanted) && is_inner(&inner, &x);
}
