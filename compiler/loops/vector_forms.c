/* vector_forms.c: decides whether an innermost loop of a nest can be emitted as SIMD code (loops/vector.c).
 *
 * It can if each index has a constant stride or fits into 32 bits; each operation is one of op_works; each store is contiguous,
 * strided or a scatter; and reductions are sums, maxima, or argmaxes whose accumulators are arrays. Else the loop is scalar. */
#include "compiler/loops/vector.h"

#include <math.h>
#include <stdlib.h>

enum { LONGEST_STEP = 1 << 24 };

/* ---- types */

LaneType lane_type(Dtype t)
{
    static const LaneType TYPE[DTYPES] = {
        [BOOL] = LANE_MASK, [U8] = LANE_I32,  [I8] = LANE_I32,   [U16] = LANE_I32, [I16] = LANE_I32, [U32] = LANE_U32,
        [I32] = LANE_I32,   [I64] = LANE_I64, [BF16] = LANE_F32, [F16] = LANE_F32, [F32] = LANE_F32, [F64] = LANE_F64};
    return TYPE[t];
}

Dtype held_type(Dtype t) { return dtype_is_half(t) ? F32 : t; }
LaneType accumulator_type(const Reduction *r) { return lane_type(reduction_type(r)); }

/* ---- indices */

bool changes_with(const Expr *e, int axis) { return e->axes >> axis & 1; }

int64_t vector_step(const Expr *e, int axis)
{
    if (e->kind == X_AXIS)
        return e->constant == axis;
    if (e->kind != X_SUM)
        return 0;
    for (int i = 0; i < e->count; i++)
        if (changes_with(e->in[i], axis) && e->in[i]->kind != X_AXIS)
            return 0;
    return expr_factor(e, axis);
}

static bool fits(const Expr *e)
{
    bool loaded = e->kind == X_INDEX_OF && lane_type(e->in[0]->dtype) == LANE_I32; /* may be out of its range */
    return loaded || (e->low >= INT32_MIN && e->high <= INT32_MAX);
}

/* Returns true if the vector part of a sum (loops/vector.c, sum_part) fits into 32 bits: at most 16 steps along the axis, and the
 * indices that are not linear. The scalar part has 64 bits. */
static bool lanes_fit(const Expr *sum, int axis)
{
    double most = 0;
    for (int i = 0; i < sum->count; i++) {
        const Expr *e = sum->in[i];
        if (changes_with(e, axis))
            most += fabs((double)sum->factor[i]) * (e->kind == X_AXIS ? 16.0 : fmax(fabs((double)e->low), fabs((double)e->high)));
    }
    return most <= INT32_MAX;
}

bool is_floating_lane(LaneType t) { return t == LANE_F32 || t == LANE_F64; }

/* Returns true if there is a vector conversion. There is none from floats to u32 and i64. */
static bool converts(Dtype from, Dtype to)
{
    LaneType a = lane_type(from), b = lane_type(to);
    if (a == b || b == LANE_MASK)
        return true;
    if (a == LANE_MASK)
        return true;
    if (is_floating_lane(a))
        return b != LANE_U32 && b != LANE_I64;
    return true;
}

/* Returns true for an index that can be loaded from or compared: its stride is constant, or its vector part fits into 32 bits. */
static bool index_works(const Expr *e, int axis)
{
    if (!changes_with(e, axis))
        return true;
    int64_t step = vector_step(e, axis);
    if (step)
        return llabs(step) < LONGEST_STEP;
    switch (e->kind) {
    case X_SUM: return lanes_fit(e, axis);
    case X_DIV:
    case X_MOD: return fits(e->in[0]) && e->constant <= INT32_MAX;
    case X_INDEX_OF: return true;
    case X_SAFE: return fits(e->in[0]) && e->constant <= INT32_MAX;
    default: return false;
    }
}

/* Returns true for an index whose full value fits into a vector of 32-bit integers. */
static bool whole_index_works(const Expr *e, int axis) { return fits(e) && index_works(e, axis); }

static bool op_works(const Expr *e)
{
    LaneType type = lane_type(e->dtype), of = lane_type(e->in[0]->dtype);
    bool same = true;
    for (int i = 0; i < e->count; i++)
        same = same && lane_type(e->in[i]->dtype) == of;
    switch (e->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_ABS: return same && type == of && type != LANE_MASK && (e->op != OP_ABS || type != LANE_U32);
    case OP_DIV: return same && type == of && is_floating_lane(type);
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_MAX: return same && type == of && type != LANE_MASK;
    case OP_WINDOW_MAX: return same && of != LANE_MASK;
    case OP_EQ: return same;
    case OP_LT:
    case OP_LE: return same && of != LANE_MASK;
    case OP_AND:
    case OP_OR:
    case OP_NOT: return same && of == LANE_MASK;
    case OP_WHERE: return of == LANE_MASK && lane_type(e->in[1]->dtype) == type && lane_type(e->in[2]->dtype) == type;
    case OP_CAST: return converts(e->in[0]->dtype, e->dtype);
    case OP_BIT_AND:
    case OP_BIT_OR:
    case OP_BIT_XOR:
    case OP_BIT_NOT: return same && type == of && type != LANE_MASK;
    case OP_FLOOR:
    case OP_SQRT:
    case OP_EXP:
    case OP_LOG:
    case OP_EXPM1:
    case OP_LOG1P:
    case OP_LOGISTIC:
    case OP_TANH:
    case OP_ERF: return same && type == of && is_floating_lane(type);
    case OP_SIN:
    case OP_COS:
    case OP_POW:
    case OP_ATAN2: return same && type == of && is_floating_lane(type);
    default: return false;
    }
}

/* Returns true for an index that does not depend on the axis, or has a constant stride. */
static bool moves_evenly(const Expr *index, int axis) { return !changes_with(index, axis) || vector_step(index, axis); }

bool is_random_by_sample(const Expr *random) { return !random->initial && random->other & 1; }

bool has_random_row(const Lowering *p, const Expr *e, int axis)
{
    const Exprs *x = p->nest->exprs;
    const Axis *a = &x->axis[axis];
    return e->kind == X_RANDOM && e->other & 2 && axis == x->axis_count - 1 && !a->samples && a->extent <= LONGEST_RANDOM &&
           (p->nest->divided != axis + 1 || p->finish) && !p->tile_start;
}

static bool works(const Lowering *p, const Expr *e, int axis)
{
    switch (e->kind) {
    case X_SUM:
    case X_AXIS:
    case X_DIV:
    case X_MOD:
    case X_INDEX_OF:
    case X_SAFE:
        return index_works(e, axis) &&
               (e->kind != X_DIV && e->kind != X_MOD && e->kind != X_SAFE ? true : whole_index_works(e->in[0], axis));
    case X_RANGE:
        if (vector_step(e->in[0], axis))
            return index_works(e->in[0], axis);
        return whole_index_works(e->in[0], axis) && llabs(e->other) <= INT32_MAX && llabs(e->constant) <= INT32_MAX;
    case X_VALID: return vector_step(e->in[0], axis) != 0;
    case X_AND: return true;
    case X_VALUE_OF: return whole_index_works(e->in[0], axis) && lane_type(e->dtype) != LANE_MASK;
    case X_LOAD:
    case X_TABLE: return index_works(e->in[0], axis);
    case X_RESULT: return true;
    case X_RANDOM:
        return has_random_row(p, e, axis) ||
               (moves_evenly(e->in[0], axis) && (!is_random_by_sample(e) || moves_evenly(e->in[1], axis)));
    case X_OP: return op_works(e);
    default: return false;
    }
}

static bool is_wide(LaneType t) { return t == LANE_F64 || t == LANE_I64; }

bool is_in_array(const Lowering *p, const Expr *e)
{
    return p->term_of[e->id].term && p->term_of[e->id].term->kind == TERM_ELEMENT;
}

static bool computes_in_f64(Op op) { return op == OP_SIN || op == OP_COS || op == OP_POW || op == OP_ATAN2; }

/* Returns true if a store of a loop over the axis has a vector form: contiguous, strided or a scatter. */
static bool store_works(const Lowering *p, const Store *s, int axis)
{
    bool here = p->term_of[s->offset->id].wanted && (changes_with(s->offset, axis) || !s->outer);
    int64_t step = vector_step(s->offset, axis);
    bool masked = s->guard && changes_with(s->guard, axis);
    if (!here || s->run)
        return true;
    bool apart =
        !masked && !s->add && changes_with(s->offset, axis) && index_works(s->offset, axis); /* one lane after the other */
    return (step == 1 && !(s->add && dtype_is_half(s->tensor->dtype))) || apart;
}

bool adds_to_f64(const Reduction *r) { return r->kind == REDUCE_SUM && r->in_double && lane_type(r->value->dtype) == LANE_F32; }

/* Returns true if the index that an argmax returns is a 32-bit integer. */
static bool place_works(const Reduction *r, int axis)
{
    return lane_type(r->dtype) == LANE_I32 &&
           (expr_is_index(r->place) ? whole_index_works(r->place, axis) : lane_type(r->place->dtype) == LANE_I32);
}

int vector_bytes(Lowering *p, int axis, int pass)
{
    const Nest *nest = p->nest;
    const Exprs *x = nest->exprs;
    bool wide = p->finish && nest->merges, columns = !x->axis[axis].reduction;
    if (p->kernel->small) /* compiled for size */
        return 0;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (!p->term_of[i].wanted || !changes_with(e, axis) || e->pass > pass)
            continue;
        if (!is_in_array(p, e) && !works(p, e, axis))
            return 0;
        wide = wide || (!expr_is_index(e) && is_wide(lane_type(e->dtype)));
        wide = wide || (e->kind == X_OP && computes_in_f64(e->op));
        if (e->kind == X_RESULT)
            wide = wide || is_wide(accumulator_type(&nest->reductions[e->constant]));
        if (e->kind == X_LOAD || e->kind == X_TABLE)
            wide = wide || is_wide(lane_type(e->kind == X_LOAD ? e->tensor->dtype : e->node->dtype));
    }
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass || p->finish)
            continue;
        if (accumulator_type(r) == LANE_MASK || (r->kind == REDUCE_ARGMAX && !place_works(r, axis)))
            return 0;
        wide = wide || (is_wide(accumulator_type(r)) && !(columns && adds_to_f64(r)));
    }
    for (int i = 0; i < nest->store_count; i++) {
        if (!store_works(p, &nest->stores[i], axis))
            return 0;
        wide = wide || is_wide(lane_type(nest->stores[i].tensor->dtype));
    }
    return wide ? 8 : 4;
}
