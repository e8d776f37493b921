/* expr.c: expressions of a nest: hash-consed, with integer index arithmetic in canonical form.
 *
 * In: operands of the same set. Out: the one expression of the result. Equal expressions are one pointer, so comparing and
 * sharing cost nothing.
 *
 * An index is a sum: constant + factor * atom + ...; atoms are axes, quotients, remainders and loaded indices. Every index knows
 * its range. A division by a constant separates the terms that it divides, divides by common factors, and omits what is 0 by the
 * range; remainders likewise. Sums recombine (x / k) k + x mod k. That is enough to make reshapes of row-major data disappear. */
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"

#include <math.h>
#include <string.h>

/* bound of indices whose true range does not matter: samples, loaded integers */
#define FAR ((int64_t)1 << 48)

static int64_t clamp(__int128 v)
{
    __int128 limit = (__int128)1 << 62;
    return (int64_t)(v > limit ? limit : v < -limit ? -limit : v);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* ---- hash-consing */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint64_t expr_hash(const Expr *e)
{
    uint64_t h = mix((uint64_t)e->kind * 64 + (uint64_t)e->dtype, (uint64_t)e->op);
    h = mix(mix(h, (uint64_t)e->constant), (uint64_t)e->other);
    h = mix(mix(h, bits_of(e->number)), e->hash + e->initial);
    h = mix(h, e->tensor ? (uint64_t)e->tensor->id + 1 : 0);
    if (e->kind == X_TABLE)
        h = mix(h, (uint64_t)e->node->id);
    for (int i = 0; i < e->count; i++) {
        h = mix(h, e->in[i] ? (uint64_t)e->in[i]->id + 1 : 0);
        if (e->factor)
            h = mix(h, (uint64_t)e->factor[i]);
    }
    return h ^ h >> 32;
}

static bool expr_same(const Expr *a, const Expr *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->op != b->op || a->constant != b->constant || a->other != b->other ||
        bits_of(a->number) != bits_of(b->number) || a->hash != b->hash || a->initial != b->initial || a->tensor != b->tensor ||
        a->count != b->count || (a->kind == X_TABLE && a->node != b->node))
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->in[i] != b->in[i] || (a->factor && a->factor[i] != b->factor[i]))
            return false;
    return true;
}

static void insert(Exprs *x, Expr *e)
{
    unsigned at = (unsigned)expr_hash(e) & (unsigned)(x->slot_count - 1);
    while (x->slots[at])
        at = (at + 1) & (unsigned)(x->slot_count - 1);
    x->slots[at] = e->id + 1;
}

/* Returns the expression equal to *draft; draft->in and draft->factor may be on the stack. */
static Expr *intern(Exprs *x, const Expr *draft)
{
    if (2 * (x->count + 1) > x->slot_count) {
        x->slot_count = x->slot_count ? 2 * x->slot_count : 32;
        x->slots = NEW_ARRAY(int, x->slot_count);
        for (int i = 0; i < x->count; i++)
            insert(x, x->all[i]);
    }
    unsigned at = (unsigned)expr_hash(draft) & (unsigned)(x->slot_count - 1);
    while (x->slots[at]) {
        Expr *e = x->all[x->slots[at] - 1];
        if (expr_same(e, draft))
            return e;
        at = (at + 1) & (unsigned)(x->slot_count - 1);
    }
    Expr *e = NEW(Expr);
    *e = *draft;
    e->in = NEW_ARRAY(Expr *, draft->count);
    for (int i = 0; i < draft->count; i++) {
        e->in[i] = draft->in[i];
        if (e->in[i]) {
            e->axes |= e->in[i]->axes;
            if (e->in[i]->pass > e->pass)
                e->pass = e->in[i]->pass;
        }
    }
    if (draft->factor) {
        e->factor = NEW_ARRAY(int64_t, draft->count);
        memcpy(e->factor, draft->factor, sizeof *e->factor * (size_t)draft->count);
    }
    e->id = x->count;
    APPEND(x->all, x->count, e);
    x->slots[at] = e->id + 1;
    return e;
}

bool expr_is_index(const Expr *e) { return e->kind <= X_SAFE; }

bool expr_is_number(const Expr *e, double *value)
{
    if (e->kind != X_NUMBER)
        return false;
    *value = e->number;
    return true;
}

/* ---- sums */

enum { MOST_TERMS = 64 };
typedef struct Terms {
    int64_t constant;
    int count;
    Expr *atom[MOST_TERMS];
    int64_t factor[MOST_TERMS];
} Terms;

static void term_add(Terms *t, Expr *atom, int64_t factor)
{
    int at = 0;
    while (at < t->count && t->atom[at]->id < atom->id)
        at++;
    if (at < t->count && t->atom[at] == atom) {
        t->factor[at] += factor;
        if (t->factor[at] == 0) {
            t->count--;
            for (int i = at; i < t->count; i++)
                t->atom[i] = t->atom[i + 1], t->factor[i] = t->factor[i + 1];
        }
        return;
    }
    if (factor == 0)
        return;
    if (t->count == MOST_TERMS)
        die("an index with more than %d terms", MOST_TERMS);
    for (int i = t->count++; i > at; i--)
        t->atom[i] = t->atom[i - 1], t->factor[i] = t->factor[i - 1];
    t->atom[at] = atom;
    t->factor[at] = factor;
}

static void terms_of(Terms *t, const Expr *e, int64_t factor)
{
    if (e->kind != X_SUM) {
        term_add(t, (Expr *)(uintptr_t)e, factor);
        return;
    }
    t->constant += factor * e->constant;
    for (int i = 0; i < e->count; i++)
        term_add(t, e->in[i], factor * e->factor[i]);
}

static int64_t factor_of(const Terms *t, const Expr *atom)
{
    for (int i = 0; i < t->count; i++)
        if (t->atom[i] == atom)
            return t->factor[i];
    return 0;
}

/* Applies c (x mod k) + c k (x / k) = c x, or c (x mod a) + c a ((x / a) mod b) = c (x mod a b), once; false: neither applies. */
static bool recombine(Exprs *x, Terms *t)
{
    for (int i = 0; i < t->count; i++) {
        Expr *m = t->atom[i];
        if (m->kind != X_MOD)
            continue;
        int64_t c = t->factor[i], k = m->constant;
        Expr *quotient = expr_div(x, m->in[0], k);
        bool all = quotient->kind != X_SUM || quotient->count > 0;
        if (quotient->kind == X_SUM) {
            for (int j = 0; j < quotient->count && all; j++)
                all = factor_of(t, quotient->in[j]) == c * k * quotient->factor[j];
        } else {
            all = factor_of(t, quotient) == c * k;
        }
        if (all) {
            Expr *whole = m->in[0];
            terms_of(t, quotient, -c * k);
            term_add(t, m, -c);
            terms_of(t, whole, c);
            return true;
        }
        for (int j = 0; j < t->count; j++) {
            Expr *next = t->atom[j];
            if (next->kind == X_MOD && next->in[0] == quotient && t->factor[j] == c * k) {
                Expr *joined = expr_mod(x, m->in[0], k * next->constant);
                term_add(t, next, -c * k);
                term_add(t, m, -c);
                terms_of(t, joined, c);
                return true;
            }
        }
    }
    return false;
}

static void terms_range(const Terms *t, int64_t *low, int64_t *high)
{
    __int128 a = t->constant, b = t->constant;
    for (int i = 0; i < t->count; i++) {
        __int128 f = t->factor[i];
        a += f * (f > 0 ? t->atom[i]->low : t->atom[i]->high);
        b += f * (f > 0 ? t->atom[i]->high : t->atom[i]->low);
    }
    *low = clamp(a);
    *high = clamp(b);
}

static Expr *sum_of(Exprs *x, Terms *t)
{
    while (recombine(x, t))
        ;
    if (t->count == 1 && t->constant == 0 && t->factor[0] == 1)
        return t->atom[0];
    Expr e = {.kind = X_SUM, .dtype = I64, .count = t->count, .in = t->atom, .factor = t->factor, .constant = t->constant};
    terms_range(t, &e.low, &e.high);
    return intern(x, &e);
}

Expr *expr_index(Exprs *x, int64_t value)
{
    Terms t = {.constant = value};
    return sum_of(x, &t);
}

Expr *expr_axis(Exprs *x, int axis)
{
    const Axis *a = &x->axis[axis];
    if (a->extent <= 1 && !a->samples && a->kind == AXIS_PLAIN)
        return expr_index(x, 0);
    Expr e = {.kind = X_AXIS,
              .dtype = I64,
              .constant = axis,
              .axes = 1u << axis,
              .high = a->elements                           ? a->elements - 1
                      : a->samples || a->kind != AXIS_PLAIN ? FAR
                                                            : a->extent - 1};
    return intern(x, &e);
}

Expr *expr_first(Exprs *x)
{
    Expr e = {.kind = X_FIRST, .dtype = I64, .high = FAR};
    return intern(x, &e);
}

Expr *expr_place(Exprs *x)
{
    Expr e = {.kind = X_PLACE, .dtype = I64, .high = FAR};
    return intern(x, &e);
}

Expr *expr_add(Exprs *x, Expr *a, Expr *b)
{
    Terms t = {0};
    terms_of(&t, a, 1);
    terms_of(&t, b, 1);
    return sum_of(x, &t);
}

Expr *expr_scale(Exprs *x, Expr *a, int64_t factor)
{
    Terms t = {0};
    if (factor)
        terms_of(&t, a, factor);
    return sum_of(x, &t);
}

Expr *expr_plus(Exprs *x, Expr *a, int64_t b)
{
    Terms t = {.constant = b};
    terms_of(&t, a, 1);
    return sum_of(x, &t);
}

/* ---- quotients and remainders */

/* If t = g y + s with 0 <= s < g for a divisor g of `divisor`, t becomes y and *small becomes s; returns g, or 1. */
static int64_t split_small(Terms *t, int64_t divisor, Terms *small)
{
    int64_t best = 1;
    for (int i = 0; i < t->count; i++) {
        int64_t g = gcd(t->factor[i], divisor);
        if (g <= best)
            continue;
        Terms rest = {.constant = t->constant - floor_div(t->constant, g) * g};
        for (int j = 0; j < t->count; j++)
            if (t->factor[j] % g)
                term_add(&rest, t->atom[j], t->factor[j]);
        int64_t low, high;
        terms_range(&rest, &low, &high);
        if (low >= 0 && high < g) {
            best = g;
            *small = rest;
        }
    }
    if (best == 1)
        return 1;
    Terms large = {.constant = floor_div(t->constant, best)};
    for (int j = 0; j < t->count; j++)
        if (t->factor[j] % best == 0)
            term_add(&large, t->atom[j], t->factor[j] / best);
    *t = large;
    return best;
}

/* Computes a = divisor * quotient + rest. The rest has no term that is a multiple, and its constant is in 0 .. divisor - 1. */
static void split_divisible(const Expr *a, int64_t divisor, Terms *quotient, Terms *rest)
{
    Terms t = {0};
    terms_of(&t, a, 1);
    quotient->constant = floor_div(t.constant, divisor);
    rest->constant = t.constant - quotient->constant * divisor;
    for (int i = 0; i < t.count; i++) {
        if (t.factor[i] % divisor == 0)
            term_add(quotient, t.atom[i], t.factor[i] / divisor);
        else
            term_add(rest, t.atom[i], t.factor[i]);
    }
}

/* Adds multiples of divisor to rest until it cannot be negative; returns how many, and the range of the rest. */
static int64_t make_positive(Terms *rest, int64_t divisor, int64_t *low, int64_t *high)
{
    terms_range(rest, low, high);
    int64_t more = *low < 0 ? -floor_div(*low, divisor) : 0;
    if (more) {
        rest->constant += more * divisor;
        terms_range(rest, low, high);
    }
    return more;
}

static Expr *atom_of(Exprs *x, ExprKind kind, Expr *a, int64_t divisor, int64_t high)
{
    Expr e = {.kind = kind, .dtype = I64, .count = 1, .in = &a, .constant = divisor, .high = high};
    return intern(x, &e);
}

Expr *expr_div(Exprs *x, Expr *a, int64_t divisor)
{
    if (divisor == 1)
        return a;
    Terms quotient = {0}, rest = {0}, small = {0};
    split_divisible(a, divisor, &quotient, &rest);
    int64_t low, high;
    terms_range(&rest, &low, &high);
    if (floor_div(low, divisor) == floor_div(high, divisor)) {
        quotient.constant += floor_div(low, divisor);
        return sum_of(x, &quotient);
    }
    int64_t scale = split_small(&rest, divisor, &small);
    if (scale > 1) {
        Expr *scaled = sum_of(x, &rest);
        terms_of(&quotient, expr_div(x, scaled, divisor / scale), 1);
        return sum_of(x, &quotient);
    }
    quotient.constant -= make_positive(&rest, divisor, &low, &high);
    Expr *inner = sum_of(x, &rest);
    Expr *atom;
    if (inner->kind == X_DIV && inner->constant < INT32_MAX && divisor < INT32_MAX)
        atom = expr_div(x, inner->in[0], inner->constant * divisor);
    else
        atom = atom_of(x, X_DIV, inner, divisor, high / divisor);
    terms_of(&quotient, atom, 1);
    return sum_of(x, &quotient);
}

Expr *expr_mod(Exprs *x, Expr *a, int64_t divisor)
{
    if (divisor == 1)
        return expr_index(x, 0);
    Terms quotient = {0}, rest = {0}, small = {0};
    split_divisible(a, divisor, &quotient, &rest);
    int64_t low, high;
    terms_range(&rest, &low, &high);
    int64_t below = floor_div(low, divisor);
    if (below == floor_div(high, divisor)) {
        rest.constant -= below * divisor;
        return sum_of(x, &rest);
    }
    int64_t scale = split_small(&rest, divisor, &small);
    if (scale > 1) {
        Expr *scaled = sum_of(x, &rest);
        Terms t = small;
        terms_of(&t, expr_mod(x, scaled, divisor / scale), scale);
        return sum_of(x, &t);
    }
    make_positive(&rest, divisor, &low, &high);
    Expr *inner = sum_of(x, &rest);
    if (inner->kind == X_MOD && inner->constant % divisor == 0)
        return expr_mod(x, inner->in[0], divisor);
    return atom_of(x, X_MOD, inner, divisor, divisor - 1);
}

int64_t expr_factor(const Expr *e, int axis)
{
    if (e->kind == X_AXIS)
        return e->constant == axis;
    if (e->kind == X_SUM)
        for (int i = 0; i < e->count; i++)
            if (e->in[i]->kind == X_AXIS && e->in[i]->constant == axis)
                return e->factor[i];
    return 0;
}

Expr *expr_flatten(Exprs *x, const Shape *s, Expr *const *index)
{
    Terms t = {0};
    int64_t stride = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        terms_of(&t, index[i], stride);
        stride *= s->extent[i];
    }
    return sum_of(x, &t);
}

void expr_unflatten(Exprs *x, const Shape *s, Expr *flat, Expr **index)
{
    int64_t stride = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        int64_t extent = s->extent[i] > 0 ? s->extent[i] : 1;
        Expr *scaled = expr_div(x, flat, stride);
        bool outermost = scaled->low >= 0 && scaled->high < extent;
        index[i] = outermost ? scaled : expr_mod(x, scaled, extent);
        stride *= extent;
    }
}

/* ---- conditions */

Expr *expr_range(Exprs *x, Expr *index, int64_t low, int64_t high)
{
    if (index->low >= low && index->high < high)
        return NULL;
    if (index->kind == X_SUM && index->constant) { /* so that equal conditions on an index are one expression */
        low -= index->constant;
        high -= index->constant;
        index = expr_plus(x, index, -index->constant);
    }
    Expr e = {.kind = X_RANGE, .dtype = BOOL, .count = 1, .in = &index, .other = low, .constant = high};
    return intern(x, &e);
}

Expr *expr_and(Exprs *x, Expr *a, Expr *b)
{
    if (!a || a == b)
        return b;
    if (!b)
        return a;
    Expr *in[2] = {a->id < b->id ? a : b, a->id < b->id ? b : a};
    Expr e = {.kind = X_AND, .dtype = BOOL, .count = 2, .in = in};
    return intern(x, &e);
}

Expr *expr_valid(Exprs *x, Expr *sample)
{
    Expr e = {.kind = X_VALID, .dtype = BOOL, .count = 1, .in = &sample};
    return intern(x, &e);
}

/* ---- values */

Expr *expr_number(Exprs *x, double value, Dtype dtype)
{
    if (dtype == F32 || dtype_is_half(dtype))
        value = (double)(float)value;
    else if (dtype == BOOL)
        value = value != 0;
    else if (!dtype_is_float(dtype))
        value = trunc(value);
    Expr e = {.kind = X_NUMBER, .dtype = dtype, .number = value};
    return intern(x, &e);
}

Expr *expr_count(Exprs *x, bool valid, Dtype dtype)
{
    Expr e = {.kind = X_COUNT, .dtype = dtype, .other = valid};
    return intern(x, &e);
}

Expr *expr_value_of(Exprs *x, Expr *index, Dtype dtype)
{
    if (index->kind == X_SUM && index->count == 0)
        return expr_number(x, (double)index->constant, dtype);
    Expr e = {.kind = X_VALUE_OF, .dtype = dtype, .count = 1, .in = &index};
    return intern(x, &e);
}

/* Returns an integer value that is computed from indices and constants as an index; NULL: it is not that simple. */
static Expr *as_index(Exprs *, Expr *);

static Expr *index_of_result(Exprs *x, Expr *v)
{
    if (v->op == OP_CAST)
        return v->in[0]->dtype == BOOL || dtype_is_float(v->in[0]->dtype) ? NULL : as_index(x, v->in[0]);
    if (v->op != OP_ADD && v->op != OP_SUB && v->op != OP_MUL)
        return NULL;
    Expr *a = as_index(x, v->in[0]), *b = as_index(x, v->in[1]);
    if (!a || !b)
        return NULL;
    if (v->op == OP_MUL) {
        if (a->kind == X_SUM && a->count == 0)
            return expr_scale(x, b, a->constant);
        return b->kind == X_SUM && b->count == 0 ? expr_scale(x, a, b->constant) : NULL;
    }
    return expr_add(x, a, expr_scale(x, b, v->op == OP_SUB ? -1 : 1));
}

/* Returns a value as a sum of axes; NULL if it is none, or if it may wrap in its own type. */
static Expr *as_index(Exprs *x, Expr *v)
{
    if (v->kind == X_VALUE_OF)
        return v->in[0];
    if (v->kind == X_NUMBER)
        return expr_index(x, (int64_t)v->number);
    if (v->kind != X_OP || dtype_is_float(v->dtype) || v->dtype == BOOL)
        return NULL;
    Expr *index = index_of_result(x, v);
    bool fits = index && cast_number(I64, v->dtype, (double)index->low) == (double)index->low &&
                cast_number(I64, v->dtype, (double)index->high) == (double)index->high;
    return fits ? index : NULL;
}

Expr *expr_index_of(Exprs *x, Expr *value, int64_t extent)
{
    Expr *simple = as_index(x, value);
    if (simple)
        return simple;
    Expr e = {.kind = X_INDEX_OF,
              .dtype = I64,
              .count = 1,
              .in = &value,
              .constant = extent,
              .low = extent ? 0 : -FAR,
              .high = extent ? extent - 1 : FAR};
    return intern(x, &e);
}

Expr *expr_load(Exprs *x, const Tensor *tensor, Expr *offset, Expr *guard)
{
    Expr *in[2] = {offset, guard};
    Expr e = {.kind = X_LOAD, .dtype = tensor->dtype, .count = guard ? 2 : 1, .in = in, .tensor = tensor};
    return intern(x, &e);
}

Expr *expr_table(Exprs *x, const Node *node, Expr *offset, Expr *guard)
{
    if (offset->kind == X_SUM && offset->count == 0 && !guard && offset->constant >= 0 && offset->constant < node->data_count)
        return expr_number(x, node->data[offset->constant], node->dtype);
    Expr *in[2] = {offset, guard};
    Expr e = {.kind = X_TABLE, .dtype = node->dtype, .count = guard ? 2 : 1, .in = in, .node = node};
    return intern(x, &e);
}

Expr *expr_select(Exprs *x, Expr *condition, Expr *value, double otherwise)
{
    if (!condition)
        return value;
    if ((value->kind == X_LOAD || value->kind == X_TABLE) && value->count > 1 && value->in[1] == condition) {
        Expr draft = *value;
        draft.number = otherwise;
        draft.other = true; /* the value outside is used */
        draft.axes = 0;
        return intern(x, &draft);
    }
    Expr *in[3] = {condition, value, expr_number(x, otherwise, value->dtype)};
    return expr_op(x, OP_WHERE, value->dtype, in, 3, NULL);
}

static uint32_t axes_of_result(const Exprs *x, bool across)
{
    uint32_t axes = 0;
    for (int i = 0; i < x->axis_count; i++)
        axes |= x->axis[i].reduction == across ? 1u << i : 0;
    return axes;
}

Expr *expr_result(Exprs *x, int reduction, bool across, Dtype dtype, int pass, const Node *hint)
{
    Expr e = {.kind = X_RESULT,
              .dtype = dtype,
              .constant = reduction,
              .other = across,
              .axes = axes_of_result(x, across),
              .pass = pass,
              .node = hint};
    return intern(x, &e);
}

Expr *expr_run(Exprs *x, int64_t scalar, int64_t setting)
{
    Expr e = {.kind = X_RUN, .dtype = F64, .constant = scalar, .other = setting};
    return intern(x, &e);
}

Expr *expr_random(Exprs *x, uint64_t path_hash, Expr *element, Expr *sample, bool initial, Dtype dtype)
{
    Expr *in[3] = {element, sample};
    Expr e = {.kind = X_RANDOM,
              .dtype = dtype,
              .count = sample ? 2 : 1,
              .in = in,
              .other = sample != NULL,
              .hash = path_hash,
              .initial = initial};
    if (x->innermost && expr_factor(element, x->innermost - 1) == 1) {
        Expr *start = expr_add(x, element, expr_scale(x, expr_axis(x, x->innermost - 1), -1));
        if (!(start->axes >> (x->innermost - 1) & 1)) {
            in[e.count++] = start;
            e.other |= 2;
        }
    }
    return intern(x, &e);
}

Expr *expr_op(Exprs *x, Op op, Dtype dtype, Expr **in, int count, const Node *hint)
{
    double v;
    if (op == OP_CAST) {
        if (in[0]->dtype == dtype)
            return in[0];
        if (expr_is_number(in[0], &v) && (dtype_is_float(dtype) || fabs(v) < 0x1p31))
            return expr_number(x, v, dtype);
    }
    /* A divisor that does not change along the innermost loop: one division outside of it, and products, which are five times
     * faster, inside. The result may differ by one unit in the last place, so numbers in the model's text (x / 255) stay
     * divisors. */
    if (op == OP_DIV && count == 2 && (dtype == F32 || dtype_is_half(dtype)) && x->innermost && !expr_is_number(in[1], &v) &&
        (in[0]->axes & ~in[1]->axes) >> (x->innermost - 1) & 1) {
        Expr *factors[2] = {in[0], expr_op(x, OP_DIV, dtype, &in[1], 1, hint)};
        return expr_op(x, OP_MUL, dtype, factors, 2, hint);
    }
    if (op == OP_WHERE) {
        if (expr_is_number(in[0], &v))
            return in[v != 0 ? 1 : 2];
        if (in[1] == in[2])
            return in[1];
    }
    Expr e = {.kind = X_OP, .dtype = dtype, .op = op, .count = count, .in = in, .node = hint};
    return intern(x, &e);
}

/* ---- rewriting */

static Expr *safe_index(Exprs *x, Expr *index, Expr *condition, int64_t otherwise)
{
    Expr *in[2] = {index, condition};
    Expr e = {.kind = X_SAFE, .dtype = I64, .count = 2, .in = in, .constant = otherwise, .low = -FAR, .high = FAR};
    return intern(x, &e);
}

static Expr *rewrite_index(Exprs *to, Expr *e, Expr *const *axes, Expr **memo)
{
    switch (e->kind) {
    case X_AXIS: return axes[e->constant];
    case X_FIRST: return expr_first(to);
    case X_PLACE: return expr_place(to);
    case X_SUM: {
        Terms t = {.constant = e->constant};
        for (int i = 0; i < e->count; i++)
            terms_of(&t, expr_rewrite(to, e->in[i], axes, memo), e->factor[i]);
        return sum_of(to, &t);
    }
    case X_DIV: return expr_div(to, expr_rewrite(to, e->in[0], axes, memo), e->constant);
    case X_MOD: return expr_mod(to, expr_rewrite(to, e->in[0], axes, memo), e->constant);
    case X_SAFE: {
        Expr *other = expr_rewrite(to, e->in[1], axes, memo);
        return safe_index(to, expr_rewrite(to, e->in[0], axes, memo), other, e->constant);
    }
    default: return expr_index_of(to, expr_rewrite(to, e->in[0], axes, memo), e->constant);
    }
}

/* Returns the load without its guard: where the guard is false it loads from a safe offset. NULL: there is none. A loop over the
 * innermost axis then has no conditional load, only a selection of values. */
static Expr *load_anyway(Exprs *to, const Expr *e, Expr *offset, Expr *guard)
{
    int axis = to->innermost - 1;
    if (axis < 0 || guard->axes >> axis & 1 || !(offset->axes >> axis & 1) || !expr_factor(offset, axis))
        return NULL;
    Expr *inner = expr_scale(to, expr_axis(to, axis), expr_factor(offset, axis));
    Expr *outer = expr_add(to, offset, expr_scale(to, inner, -1));
    int64_t count = e->kind == X_LOAD ? shape_count(&e->tensor->shape) : e->node->data_count;
    if (outer->axes >> axis & 1 || to->axis[axis].samples || inner->high - inner->low >= count)
        return NULL;
    offset = expr_add(to, safe_index(to, outer, guard, -inner->low), inner);
    Expr *value = e->kind == X_LOAD ? expr_load(to, e->tensor, offset, NULL) : expr_table(to, e->node, offset, NULL);
    return e->other ? expr_select(to, guard, value, e->number) : value;
}

static Expr *rewrite_fresh(Exprs *to, Expr *e, Expr *const *axes, Expr **memo)
{
    if (expr_is_index(e))
        return rewrite_index(to, e, axes, memo);
    Expr *in[MAX_RANK] = {0};
    if (e->count > MAX_RANK)
        die("an expression of %d operands", e->count);
    for (int i = 0; i < e->count; i++)
        in[i] = expr_rewrite(to, e->in[i], axes, memo);
    switch (e->kind) {
    case X_RANGE: {
        Expr *range = expr_range(to, in[0], e->other, e->constant);
        return range ? range : expr_number(to, 1, BOOL);
    }
    case X_LOAD:
    case X_TABLE: {
        double always;
        Expr *guard = e->count > 1 && !expr_is_number(in[1], &always) ? in[1] : NULL;
        Expr *anyway = guard ? load_anyway(to, e, in[0], guard) : NULL;
        if (anyway)
            return anyway;
        Expr *load = e->kind == X_LOAD ? expr_load(to, e->tensor, in[0], guard) : expr_table(to, e->node, in[0], guard);
        return guard && e->other ? expr_select(to, guard, load, e->number) : load;
    }
    case X_AND: {
        double always;
        return expr_is_number(in[0], &always) ? in[1] : expr_is_number(in[1], &always) ? in[0] : expr_and(to, in[0], in[1]);
    }
    case X_VALUE_OF: return expr_value_of(to, in[0], e->dtype);
    case X_OP: return expr_op(to, e->op, e->dtype, in, e->count, e->node);
    case X_RANDOM: return expr_random(to, e->hash, in[0], e->other & 1 ? in[1] : NULL, e->initial, e->dtype);
    default: {
        Expr draft = *e;
        draft.in = in;
        draft.axes = e->kind == X_RESULT ? axes_of_result(to, e->other) : 0;
        return intern(to, &draft);
    }
    }
}

Expr *expr_rewrite(Exprs *to, Expr *e, Expr *const *axes, Expr **memo)
{
    if (!memo[e->id])
        memo[e->id] = rewrite_fresh(to, e, axes, memo);
    return memo[e->id];
}
