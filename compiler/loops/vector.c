/* vector.c: emits an innermost loop of a nest as SIMD code.
 *
 * Values that do not change along the loop are scalars. An index with a constant stride stays a scalar: that of the first lane.
 * Other indices are vectors of 32-bit integers. Loads and stores of consecutive elements are vector loads and stores, all others
 * are strided, gathers or scatters. In the tail of a loop only the first `lanes` lanes are active. Conditions become masks, and
 * loads skip inactive lanes. A product without other uses that is added becomes a fused multiply-add. */
#include "compiler/loops/vector.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const TYPE_NAME[] = {
    [LANE_F32] = "f32", [LANE_I32] = "i32", [LANE_U32] = "u32", [LANE_MASK] = "mask", [LANE_F64] = "f64", [LANE_I64] = "i64"};

/* ---- types */

const Term *element_pointer(const Term *element) { return term_add(element->in[0], element->in[1]); }

static const char *memory_name(Dtype t) { return t == BOOL ? "b8" : dtype_name(t); }

static int vector_axis(const Lowering *p) { return p->vector - 1; }

bool varies(const Lowering *p, const Expr *e) { return p->vector && changes_with(e, vector_axis(p)); }

static LaneType type_along(const Expr *e, int axis)
{
    return !expr_is_index(e) ? lane_type(e->dtype) : vector_step(e, axis) ? LANE_I64 : LANE_I32;
}

const char *vector_word(const Lowering *p, const char *name, LaneType type)
{
    return format("mgpu_%s%s%s_%s", name, *name ? "_" : "", TYPE_NAME[type], p->wide ? "w" : "n");
}

/* A name without a lane type, such as mgpu_first_n. */
static const char *plain_word(const Lowering *p, const char *name) { return format("mgpu_%s_%s", name, p->wide ? "w" : "n"); }

const char *vector_type(const Lowering *p, const Expr *e)
{
    if (expr_is_index(e) && vector_step(e, vector_axis(p)))
        return "int64_t";
    return vector_word(p, "", type_along(e, vector_axis(p)));
}

/* ---- operands */

static const Term *broadcast(const Lowering *p, LaneType type, const Term *x) { return CALL(vector_word(p, "all", type), x); }

static const Term *whole_index(Lowering *p, const Expr *e);

/* Returns the value as a vector: one that does not vary is broadcast. */
static const Term *operand(Lowering *p, const Expr *e)
{
    if (varies(p, e))
        return expr_is_index(e) ? whole_index(p, e) : term_of(p, e);
    if (expr_is_index(e))
        return broadcast(p, LANE_I32, term_cast("int32_t", term_of(p, e)));
    return broadcast(p, lane_type(e->dtype), term_of(p, e));
}

/* As operand, but a float that does not vary stays a scalar: GNU C's operators accept a scalar and a vector. */
static const Term *arithmetic_operand(Lowering *p, const Expr *e)
{
    bool scalar = !varies(p, e) && (e->dtype == F32 || e->dtype == F64 || e->dtype == BF16 || e->dtype == F16);
    return scalar ? term_of(p, e) : operand(p, e);
}

static const Term *counted(const Lowering *p, const Term *from, int64_t step)
{
    return CALL(plain_word(p, "count_i32"), from, term_whole(step));
}

/* Returns a part of an index that is a sum, or NULL if it is empty. varying: a vector, of the lanes' distances from the first
 * lane and of indices without a constant stride; else a scalar: the first lane's axes and what does not vary. */
static const Term *sum_part(Lowering *p, const Expr *e, bool varying)
{
    const Term *sum = NULL;
    for (int i = 0; i < e->count; i++) {
        const Expr *in = e->in[i];
        bool varies_here = varies(p, in), steps = varies_here && in->kind == X_AXIS;
        if (varying ? !varies_here : varies_here && !steps)
            continue;
        const Term *factor = term_whole(e->factor[i]);
        const Term *x = !varying ? term_of(p, in) : steps ? counted(p, term_word("0"), e->factor[i]) : whole_index(p, in);
        if (e->factor[i] != 1 && !(varying && steps))
            x = varying ? term_binary(LEVEL_PRODUCT, x, "*", term_cast("int32_t", factor)) : term_times(factor, x);
        sum = sum ? term_add(sum, x) : x;
    }
    if (!varying && e->constant)
        sum = sum ? term_add(sum, term_whole(e->constant)) : term_whole(e->constant);
    return sum;
}

static const Term *whole_index(Lowering *p, const Expr *e)
{
    int64_t step = vector_step(e, vector_axis(p));
    if (step)
        return counted(p, term_of(p, e), step);
    if (e->kind != X_SUM)
        return term_of(p, e);
    const Term *varying = sum_part(p, e, true), *fixed = sum_part(p, e, false);
    return fixed ? term_add(varying, term_cast("int32_t", fixed)) : varying;
}

/* ---- memory */

static const Term *first_lanes(const Lowering *p) { return CALL(plain_word(p, "first"), p->lanes); }

const Term *vector_of_array(Lowering *p, Dtype t, const Term *pointer)
{
    return CALL(plain_word(p, format("load_%s", memory_name(t))), pointer, p->lanes);
}

void vector_keep(Lowering *p, Dtype t, const Term *pointer, const Term *value)
{
    code_do(&p->to, CALL(plain_word(p, format("store_%s", memory_name(t))), pointer, value, p->lanes));
}

void vector_fill(Lowering *p, const Term *v, Dtype t, const Term *array, const Term *count, const Term *value)
{
    LaneType type = lane_type(t);
    bool outer = p->wide;
    p->wide = dtype_bytes(t) == 8;
    const Term *lanes = term_word(p->wide ? "MGPU_LANES_w" : "MGPU_LANES_n");
    code_count(&p->to, "int64_t", v, term_word("0"), count, lanes);
    code_do(&p->to, CALL(plain_word(p, format("store_%s", memory_name(t))), term_add(array, v), broadcast(p, type, value),
                         CALL("MGPU_LANES_OF", count, v, lanes)));
    code_bare(&p->to);
    p->wide = outer;
}

/* Returns an index as a vector. The part that is equal in all lanes is added to the base pointer, in 64 bits. */
static const Term *lane_index(Lowering *p, const Expr *offset, const Term **base)
{
    if (offset->kind != X_SUM)
        return term_of(p, offset);
    const Term *fixed = sum_part(p, offset, false);
    *base = fixed ? term_add(*base, fixed) : *base;
    return sum_part(p, offset, true);
}

/* Loads base[offset]. guard: a mask, or NULL. */
static const Term *load(Lowering *p, Dtype t, const Term *base, const Expr *offset, const Term *guard)
{
    const char *memory = memory_name(t);
    int64_t step = vector_step(offset, vector_axis(p));
    if (!varies(p, offset)) { /* one element in all lanes: the guard is a mask, so it is a gather */
        const Term *at = counted(p, term_word("0"), 0);
        return CALL(plain_word(p, format("gather_%s", memory)), term_add(base, term_of(p, offset)), at,
                    CALL(plain_word(p, "and"), guard, first_lanes(p)));
    }
    if (step == 1 && guard)
        return CALL(plain_word(p, format("load_where_%s", memory)), term_add(base, term_of(p, offset)),
                    CALL(plain_word(p, "and"), guard, first_lanes(p)));
    if (step == 1)
        return CALL(plain_word(p, format("load_%s", memory)), term_add(base, term_of(p, offset)), p->lanes);
    if (step && !guard)
        return CALL(plain_word(p, format("stride_%s", memory)), term_add(base, term_of(p, offset)), term_whole(step), p->lanes);
    const Term *mask = guard ? CALL(plain_word(p, "and"), guard, first_lanes(p)) : first_lanes(p), *from = base, *at;
    if (step) {
        from = term_add(base, term_of(p, offset));
        at = counted(p, term_word("0"), step);
    } else {
        at = lane_index(p, offset, &from);
    }
    return CALL(plain_word(p, format("gather_%s", memory)), from, at, mask);
}

static const Term *load_value(Lowering *p, const Expr *e)
{
    const Term *base = e->kind == X_LOAD ? argument_of(p, e->tensor) : table_of(p, e->node);
    Dtype t = e->kind == X_LOAD ? e->tensor->dtype : held_type(e->node->dtype);
    const Expr *guard = e->count > 1 ? e->in[1] : NULL;
    bool masked = guard && varies(p, guard);
    if (guard && !masked) { /* the guard is a scalar */
        const Term *value = load(p, t, base, e->in[0], NULL);
        return term_choice(term_of(p, guard), value, broadcast(p, lane_type(e->dtype), number_term(e->number, e->dtype)));
    }
    const Term *value = load(p, t, base, e->in[0], masked ? term_of(p, guard) : NULL);
    if (!masked || !e->other || (e->number == 0 && !signbit(e->number)))
        return value;
    return CALL(vector_word(p, "select", lane_type(e->dtype)), term_of(p, guard), value,
                broadcast(p, lane_type(e->dtype), number_term(e->number, e->dtype)));
}

void vector_store(Lowering *p, const Store *s)
{
    Dtype t = s->tensor->dtype;
    const char *memory = memory_name(t);
    bool merged = p->finish && p->nest->merges; /* then it is loaded from the thread's moments as a vector */
    const Term *value = merged ? term_of(p, s->value) : operand(p, s->value), *base = argument_of(p, s->tensor);
    if (s->run) {
        vector_keep(p, t, term_add(p->run[s - p->nest->stores], p->axis_name[vector_axis(p)]), value);
        return;
    }
    int64_t step = vector_step(s->offset, vector_axis(p));
    const Term *to = step ? term_add(base, term_of(p, s->offset)) : base;
    bool masked = step == 1 && s->guard && varies(p, s->guard);
    const Term *mask = masked ? CALL(plain_word(p, "and"), term_of(p, s->guard), first_lanes(p)) : NULL;
    if (s->add && masked)
        value = term_add(CALL(plain_word(p, format("load_where_%s", memory)), to, mask), value);
    else if (s->add)
        value = term_add(CALL(plain_word(p, format("load_%s", memory)), to, p->lanes), value);
    if (masked) {
        code_do(&p->to, CALL(plain_word(p, format("store_where_%s", memory)), to, value, mask));
        return;
    }
    if (s->guard)
        code_if(&p->to, term_of(p, s->guard));
    if (step == 1)
        vector_keep(p, t, to, value);
    else if (step)
        code_do(&p->to, CALL(plain_word(p, format("stride_store_%s", memory)), to, term_whole(step), value, p->lanes));
    else {
        const Term *at = lane_index(p, s->offset, &to);
        code_do(&p->to, CALL(plain_word(p, format("scatter_%s", memory)), to, at, value, p->lanes));
    }
    if (s->guard)
        code_bare(&p->to);
}

/* ---- values */

static const Term *convert(Lowering *p, const Term *x, Dtype from, Dtype to)
{
    LaneType a = lane_type(from), b = lane_type(to);
    bool narrow = !dtype_is_float(to) && to != BOOL && dtype_bytes(to) < 4;
    if (b == LANE_MASK && a != LANE_MASK)
        return CALL(vector_word(p, "ne", a), x, broadcast(p, a, term_word("0")));
    if (a == LANE_MASK && b != LANE_MASK)
        return CALL(vector_word(p, "select", b), x, broadcast(p, b, term_word("1")), broadcast(p, b, term_word("0")));
    if (is_floating_lane(a) && b == LANE_I32)
        return CALL(plain_word(p, format("%s_of_any_%s", dtype_name(to), TYPE_NAME[a])), x);
    if (a != b)
        x = CALL(plain_word(p, format("%s_of_%s", TYPE_NAME[b], TYPE_NAME[a])), x);
    if (narrow && from != to && b == LANE_I32)
        return CALL(plain_word(p, format("wrap_%s", dtype_name(to))), x);
    return x;
}

/* ---- multiply-adds, of vectors or scalars. Whether a product has other uses, and so a name, depends on what is fused into the
 * kernel, and so do bits. Exact programs, whose bits are those of programs with other kernels (--shard), have none. */

static const Term *part_of(Lowering *p, const Expr *e, bool vector) { return vector ? operand(p, e) : term_of(p, e); }

/* A product without a name of its own has no other use. */
static bool is_open_product(const Lowering *p, const Expr *e)
{
    return e->kind == X_OP && e->op == OP_MUL && is_floating_lane(lane_type(e->dtype)) && term_of(p, e)->kind == TERM_BINARY;
}

static const Term *fma_term(Lowering *p, const Expr *product, bool minus, const Term *to, bool vector)
{
    const Term *a = part_of(p, product->in[0], vector), *b = part_of(p, product->in[1], vector);
    LaneType type = lane_type(product->dtype);
    const char *function = vector ? vector_word(p, "fma", type) : type == LANE_F64 ? "mgpu_fma_double" : "mgpu_fmaf";
    return CALL(function, minus ? term_unary("-", a) : a, b, to);
}

const Term *multiply_add(Lowering *p, const Expr *e)
{
    bool minus = e->op == OP_SUB, vector = varies(p, e);
    if (!is_floating_lane(lane_type(e->dtype)) || p->kernel->exact)
        return NULL;
    for (int i = 0; i < 2; i++) {
        if (!is_open_product(p, e->in[i]) || varies(p, e->in[i]) != vector)
            continue;
        const Term *other = part_of(p, e->in[1 - i], vector);
        return fma_term(p, e->in[i], minus && i == 1, minus && i == 0 ? term_unary("-", other) : other, vector);
    }
    return NULL;
}

const Term *accumulated_product(Lowering *p, const Reduction *r, const Term *own)
{
    bool adds = r->kind == REDUCE_SUM && !p->kernel->exact && accumulator_type(r) == lane_type(r->value->dtype) &&
                is_open_product(p, r->value);
    return adds && varies(p, r->value) == (p->vector != 0) ? fma_term(p, r->value, false, own, p->vector) : NULL;
}

static const Term *infix(Lowering *p, const Expr *e, Level level, const char *sign)
{
    return term_binary(level, arithmetic_operand(p, e->in[0]), sign, arithmetic_operand(p, e->in[1]));
}

static const Term *call_of(Lowering *p, const Expr *e, const char *name, LaneType type)
{
    const Term *in[3];
    for (int i = 0; i < e->count; i++)
        in[i] = operand(p, e->in[i]);
    return term_call(type ? vector_word(p, name, type) : plain_word(p, name), e->count, in);
}

static const Term *op_vector(Lowering *p, const Expr *e)
{
    LaneType type = lane_type(e->dtype), of = lane_type(e->in[0]->dtype);
    const Term *sum;
    switch (e->op) {
    case OP_ADD:
    case OP_SUB: sum = multiply_add(p, e); return sum ? sum : infix(p, e, LEVEL_SUM, e->op == OP_ADD ? "+" : "-");
    case OP_MUL: return infix(p, e, LEVEL_PRODUCT, "*");
    case OP_DIV:
        return e->count > 1       ? infix(p, e, LEVEL_PRODUCT, "/")
               : type == LANE_F32 ? call_of(p, e, "inverse", type)
                                  : term_binary(LEVEL_PRODUCT, term_word("1.0"), "/", operand(p, e->in[0]));
    case OP_EQ: return call_of(p, e, "eq", of);
    case OP_LT: return call_of(p, e, "lt", of);
    case OP_LE: return call_of(p, e, "le", of);
    case OP_AND: return call_of(p, e, "and", LANE_NONE);
    case OP_OR: return call_of(p, e, "or", LANE_NONE);
    case OP_NOT: return call_of(p, e, "not", LANE_NONE);
    case OP_WHERE:
        if (!varies(p, e->in[0]))
            return term_choice(term_of(p, e->in[0]), operand(p, e->in[1]), operand(p, e->in[2]));
        return call_of(p, e, "select", type);
    case OP_CAST:
        if (dtype_is_half(e->dtype) && e->in[0]->dtype == F32)
            return CALL(plain_word(p, format("round_%s", dtype_name(e->dtype))), operand(p, e->in[0]));
        return convert(p, operand(p, e->in[0]), e->in[0]->dtype, e->dtype);
    case OP_MAX: return call_of(p, e, "better", of);
    case OP_WINDOW_MAX: return call_of(p, e, "beats", of);
    case OP_BIT_AND: return term_binary(LEVEL_BITS, operand(p, e->in[0]), "&", operand(p, e->in[1]));
    case OP_BIT_OR: return term_binary(LEVEL_BITS, operand(p, e->in[0]), "|", operand(p, e->in[1]));
    case OP_BIT_XOR: return term_binary(LEVEL_BITS, operand(p, e->in[0]), "^", operand(p, e->in[1]));
    case OP_BIT_NOT: return term_unary("~", operand(p, e->in[0]));
    default: return call_of(p, e, OP_INFO[e->op].name, of);
    }
}

static const Term *range_value(Lowering *p, const Expr *e)
{
    const Expr *at = e->in[0];
    int64_t step = vector_step(at, vector_axis(p));
    const Term *low = term_whole(e->other), *high = term_whole(e->constant);
    if (step)
        return CALL(plain_word(p, "range"), term_of(p, at), term_whole(step), low, high);
    return CALL(plain_word(p, "between"), whole_index(p, at), low, high);
}

static const Term *result_value(Lowering *p, const Expr *e)
{
    const Reduction *r = &p->nest->reductions[e->constant];
    const Term *element = p->result[e->constant]; /* an element of an array, possibly in a cast to float */
    if (element->kind == TERM_UNARY)
        element = element->in[0];
    Dtype held = r->kind == REDUCE_ARGMAX ? r->dtype : reduction_type(r);
    const Term *value = vector_of_array(p, held, term_add(element->in[0], element->in[1]));
    return convert(p, value, held, e->dtype);
}

static const Term *random_value(Lowering *p, const Expr *e)
{
    const Term *place[2];
    int64_t step = vector_step(e->in[0], vector_axis(p)),
            sample_step = is_random_by_sample(e) ? vector_step(e->in[1], vector_axis(p)) : 0;
    LaneType type = lane_type(e->dtype);
    random_place(p, e, place);
    if (step == 1 && !sample_step) /* consecutive random numbers */
        return CALL(vector_word(p, "rand", type), random_key(p, e), term_of(p, e->in[0]), place[0], place[1]);
    return CALL(vector_word(p, "rand_apart", type), random_key(p, e), term_of(p, e->in[0]), term_whole(step), place[0],
                term_whole(sample_step), place[1]);
}

const Term *vector_value(Lowering *p, const Expr *e)
{
    int axis = vector_axis(p);
    if (expr_is_index(e) && vector_step(e, axis))
        return NULL; /* a scalar */
    switch (e->kind) {
    case X_SUM: return whole_index(p, e);
    case X_DIV:
    case X_MOD:
        return term_binary(LEVEL_PRODUCT, whole_index(p, e->in[0]), e->kind == X_DIV ? "/" : "%", term_whole(e->constant));
    case X_INDEX_OF: return convert(p, term_of(p, e->in[0]), e->in[0]->dtype, I32);
    case X_SAFE:
        return CALL(vector_word(p, "select", LANE_I32), operand(p, e->in[1]), operand(p, e->in[0]),
                    broadcast(p, LANE_I32, term_whole(e->constant)));
    case X_RANGE: return range_value(p, e);
    case X_AND: return CALL(plain_word(p, "and"), operand(p, e->in[0]), operand(p, e->in[1]));
    case X_VALID:
        return CALL(plain_word(p, "range"), term_of(p, e->in[0]), term_whole(vector_step(e->in[0], axis)),
                    term_word("INT64_MIN / 2"), term_word("step->valid"));
    case X_VALUE_OF: return convert(p, whole_index(p, e->in[0]), I32, e->dtype);
    case X_LOAD:
    case X_TABLE: return load_value(p, e);
    case X_RESULT: return result_value(p, e);
    case X_RANDOM: return random_value(p, e);
    case X_OP: {
        const Term *value = op_vector(p, e);
        bool narrow =
            !dtype_is_float(e->dtype) && e->dtype != BOOL && dtype_bytes(e->dtype) < 4 && e->op != OP_CAST && e->op != OP_WHERE;
        return narrow ? CALL(plain_word(p, format("wrap_%s", dtype_name(e->dtype))), value) : value;
    }
    default: die("an expression of kind %d in a vector loop", (int)e->kind);
    }
}

/* ---- reductions */

/* name: a vector, whose inactive lanes keep their values. element: an element of an array of accumulators; NULL: none */
void vector_accumulate(Lowering *p, const Reduction *r, const Term *name, const Term *element)
{
    LaneType type = accumulator_type(r);
    Dtype held = reduction_type(r);
    if (r->kind == REDUCE_ARGMAX) {
        const Term *best = term_add(best_name(name), element->in[1]), *place = element_pointer(element);
        const Term *v = operand(p, r->value);
        const Term *most = vector_of_array(p, held, best);
        const Term *beats = CALL(vector_word(p, "beats", type), v, most);
        vector_keep(p, r->dtype, place,
                    CALL(vector_word(p, "select", LANE_I32), beats, operand(p, r->place), vector_of_array(p, r->dtype, place)));
        vector_keep(p, held, best, CALL(vector_word(p, "larger", type), most, v));
        return;
    }
    if (element && adds_to_f64(r) && type == LANE_F64) {
        code_do(&p->to, CALL(plain_word(p, "add_to_f64"), element_pointer(element), operand(p, r->value), p->lanes));
        return;
    }
    const Term *own = element ? vector_of_array(p, held, element_pointer(element)) : name;
    const Term *value = accumulated_product(p, r, own);
    if (!value) {
        value = convert(p, operand(p, r->value), r->value->dtype, held);
        value = r->kind == REDUCE_SUM ? term_add(own, value) : CALL(vector_word(p, "larger", type), own, value);
    }
    if (element)
        vector_keep(p, held, element_pointer(element), value);
    else
        code_set(&p->to, own, "=", CALL(vector_word(p, "first", type), p->lanes, value, own));
}

const Term *vector_sum(const Lowering *p, const Reduction *r, const Term *lanes)
{
    return CALL(vector_word(p, r->kind == REDUCE_SUM ? "sum" : "most", accumulator_type(r)), lanes);
}

/* ---- the loop */

/* The tail shares the statements of the loop's body, which must not be added to afterwards. */
void close_vector_loop(Lowering *p)
{
    Statement *rest = p->rest;
    p->vector = 0;
    p->rest = NULL;
    code_close(&p->to);
    if (!rest)
        return;
    /* The tail has the loop's body, with fewer active lanes. */
    Statements *around = p->to.depth ? &p->to.open[p->to.depth - 1][0] : &p->to.code->body;
    const Statement *loop = around->list[around->count - 1];
    code_if(&p->to, term_binary(LEVEL_LESS, loop->to, "<", p->rest_end));
    for (int i = 0; i < loop->body.count; i++)
        APPEND(p->to.open[p->to.depth - 1]->list, p->to.open[p->to.depth - 1]->count, i ? loop->body.list[i] : rest);
    code_close(&p->to);
    code_close(&p->to);
}

void open_vector_loop(Lowering *p, int axis, int bytes, const Term *from, const Term *to)
{
    p->vector = axis + 1;
    p->wide = bytes == 8;
    const Term *lanes = term_word(p->wide ? "MGPU_LANES_w" : "MGPU_LANES_n"), *v = p->axis_name[axis];
    bool known = term_is_word(from, "0") && to->kind == TERM_WORD && isdigit((unsigned char)*to->word);
    p->lanes = fresh_name(p, "lanes");
    if (known) {
        code_count(&p->to, "int64_t", v, from, to, lanes);
        code_declare(&p->to, "const int", p->lanes, CALL("MGPU_LANES_OF", to, v, lanes));
    } else { /* a loop over full vectors; the tail after it reads the loop variable, so a block around both declares that */
        code_block(&p->to);
        code_declare(&p->to, "int64_t", v, from);
        Statement *loop = code_for(&p->to, NULL, v, NULL, term_binary(LEVEL_LESS, term_add(v, lanes), "<=", to));
        code_step(loop, v, "+=", lanes);
        code_declare(&p->to, "const int", p->lanes, lanes);
        p->rest = NEW(Statement);
        *p->rest = (Statement){.kind = CODE_DECLARE,
                               .type = "const int",
                               .to = p->lanes,
                               .value = term_cast("int", term_binary(LEVEL_SUM, to, "-", v))};
        p->rest_end = to;
    }
    for (int i = 0; i < p->nest->exprs->count; i++) {
        const Expr *e = p->nest->exprs->all[i];
        if (varies(p, e) && is_in_array(p, e))
            p->term_of[i].term = vector_of_array(p, held_type(e->dtype), element_pointer(p->term_of[i].term));
    }
}
