/* lower.c: lowers a graph of the IR to operations of ONNX or PyTorch. The table maps each operation of the IR to a name that both
 * formats have, or to a function. Unused nodes are omitted, and nodes that patterns.c recognises become one operation.
 *
 * Convolutions and pools of ONNX and PyTorch have channels first. A value stays in the order of axes in which it is computed:
 * element-wise operations, reductions, concatenations and paddings keep the order, and a transpose is emitted only where a user
 * needs the other one. */
#include "compiler/export/lowering.h"

#include <math.h>
#include <string.h>

/* ---- element-wise */
static bool any_first(Lowering *l, const Node *n)
{
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i]->has_samples && is_first(l, n->in[i]))
            return true;
    return false;
}

static const Value *operand(Lowering *l, const Node *x, bool first)
{
    if (!first || (!x->has_samples && value_of(l, x)->rank == 0))
        return value_of(l, x);
    if (x->has_samples && lowered(l, x)->first)
        return lowered(l, x)->first;
    const Value *v = value_of(l, x);
    if (x->has_samples)
        return reordered(l, v, true);
    Extents e = {.rank = x->shape.rank};
    int64_t order[EXPORTED_RANK] = {x->shape.rank - 1};
    for (int i = 0; i < e.rank; i++)
        e.extent[i] = i < e.rank - v->rank ? 1 : v->extent[i - e.rank + v->rank];
    for (int i = 1; i < e.rank; i++)
        order[i] = i - 1;
    bool row = true;
    for (int i = 0; i < e.rank - 1; i++)
        row = row && e.extent[i] == 1;
    if (!row)
        return transpose(l, reshape(l, v, e), order);
    e.extent[0] = e.extent[e.rank - 1];
    for (int i = 1; i < e.rank; i++)
        e.extent[i] = 1;
    return reshape(l, v, e);
}

static void lower_plain(Lowering *l, const Node *n, const char *kind)
{
    if (n->dtype == BOOL && (n->op == OP_MINIMUM || n->op == OP_MAXIMUM))
        kind = n->op == OP_MINIMUM ? "And" : "Or";
    bool first = any_first(l, n);
    const Value *in[3] = {NULL}, *y;
    for (int i = 0; i < n->inputs; i++)
        in[i] = operand(l, n->in[i], first);
    if (n->inputs == 1)
        y = unary(l, kind, in[0]);
    else
        y = n->inputs == 3 ? where_of(l, in[0], in[1], in[2]) : binary_of(l, kind, carried(l, n->dtype), in[0], in[1]);
    bool arithmetic = n->op == OP_ADD || n->op == OP_SUB || n->op == OP_MUL || n->op == OP_BIT_NOT || n->op == OP_ABS;
    set_lowered(l, n, arithmetic ? wrapped(l, y, n->dtype) : y, first);
}

static bool is_whole(const Node *n) { return !dtype_is_float(n->dtype) && n->dtype != BOOL; }

static void lower_cast(Lowering *l, const Node *n)
{
    const Value *raw = lowered(l, n->in[0])->raw, *y;
    /* which has no ends of the ranges of whole numbers */
    if (raw && dtype_is_float(raw->dtype) && dtype_bytes(raw->dtype) == 2)
        raw = NULL;
    bool first = !raw && any_first(l, n);
    const Value *x = raw ? raw : operand(l, n->in[0], first);
    if (is_whole(n) && dtype_is_float(x->dtype))
        y = whole_number_of(l, x, n->dtype);
    else if (is_whole(n) && n->dtype != carried(l, n->dtype))
        y = cast(l, cast(l, x, n->dtype), carried(l, n->dtype));
    else
        y = cast(l, x, carried(l, n->dtype));
    set_lowered(l, n, y, first);
}

/* Replaces zeros of an integer divisor by 1, since other software fails on them. *none: whether it was 0; NULL if it never is. */
static const Value *divisor(Lowering *l, const Value *b, const Value **none)
{
    *none = NULL;
    if (b->data && b->rank == 0 && b->data[0] != 0)
        return b;
    *none = compare(l, "Equal", b, 0);
    return where_of(l, *none, scalar_of(l, 1, b->dtype), b);
}

/* Returns 1 where the divisor is -1, and where. ONNX Runtime ends when it divides the least number of the type by -1. */
static const Value *without_minus_one(Lowering *l, const Value *b, const Value **minus)
{
    *minus = compare(l, "Equal", b, -1);
    return where_of(l, *minus, scalar_of(l, 1, b->dtype), b);
}

/* a - b floor(a / b), exactly. The result for whole numbers is 0 where b is 0. Of floats, ONNX has C's fmod alone, which has a's
 * sign. */
static void lower_mod(Lowering *l, const Node *n)
{
    bool first = any_first(l, n);
    const Value *a = operand(l, n->in[0], first), *b = operand(l, n->in[1], first), *none, *minus;
    if (is_whole(n) && !l->torch && (n->dtype == I32 || n->dtype == I64) && !b->data)
        b = without_minus_one(l, b, &minus);
    if (is_whole(n))
        set_lowered(l, n, binary(l, "Mod", a, divisor(l, b, &none)), first);
    else if (l->torch)
        set_lowered(l, n, binary(l, "Mod", a, b), first);
    else {
        const Value *rest = binary(l, "Mod", a, b);
        attribute(l, "fmod", 1);
        const Value *exact = compare(l, "Equal", rest, 0),
                    *same = binary(l, "Equal", compare(l, "Less", rest, 0), compare(l, "Less", b, 0));
        set_lowered(l, n, where_of(l, binary(l, "Or", exact, same), rest, binary(l, "Add", rest, b)), first);
    }
}

/* floor(a / b) of whole numbers. ONNX rounds towards 0, and a - a % b may exceed 32 bits; of 64 bits it is not computed. */
static const Value *floor_quotient(Lowering *l, const Value *a, const Value *b, Dtype of)
{
    if (l->torch)
        return binary(l, "Div", a, b);
    Dtype t = b->dtype;
    a = cast(l, a, I64), b = cast(l, b, I64);
    if (of != I64)
        return cast(l, binary(l, "Div", binary(l, "Sub", a, binary(l, "Mod", a, b)), b), t);
    const Value *minus, *by = without_minus_one(l, b, &minus), *exact = compare(l, "Equal", binary(l, "Mod", a, by), 0);
    const Value *below = compare(l, "Less", a, 0), *above = binary(l, "Equal", below, compare(l, "Less", by, 0));
    const Value *q = binary(l, "Sub", binary(l, "Div", a, by), cast(l, unary(l, "Not", binary(l, "Or", exact, above)), I64));
    return where_of(l, minus, binary(l, "Sub", scalar_of(l, 0, I64), a), q);
}

/* The result is 0 where b is 0. */
static void lower_quotient(Lowering *l, const Node *n)
{
    bool first = any_first(l, n);
    const Value *a = operand(l, n->in[0], first), *b = operand(l, n->in[1], first), *none, *q;
    Dtype t = b->dtype;
    b = divisor(l, b, &none);
    q = floor_quotient(l, a, b, n->dtype);
    set_lowered(l, n, none ? where_of(l, none, scalar_of(l, 0, t), q) : q, first);
}

/* a 2^n or floor(a / 2^n) of whole numbers; ONNX shifts only unsigned types. Where 2^n does not fit the type, the result is 0, or
 * -1 for a negative number shifted right. */
static void lower_shift(Lowering *l, const Node *n)
{
    bool first = any_first(l, n), left = n->op == OP_SHIFT_LEFT, sign = n->dtype != U8 && n->dtype != U16 && n->dtype != U32;
    const Value *a = operand(l, n->in[0], first), *by = operand(l, n->in[1], first);
    Dtype t = a->dtype;
    int bits = 8 * dtype_bytes(n->dtype), count = bits - (sign && !left);
    double *powers = NEW_ARRAY(double, count);
    for (int i = 0; i < count; i++)
        powers[i] = ldexp(i == 8 * dtype_bytes(t) - 1 ? -1 : 1, i); /* the highest bit is the sign */
    const Value *known = from_0_to(l, by, count - 1), *at = where_of(l, known, by, scalar_of(l, 0, by->dtype)),
                *power = EMIT(l, "Gather", t, extents_of(at), constant_of(l, powers, t, (Extents){1, {count}}), at);
    attribute(l, "axis", 0);
    const Value *y = left ? binary(l, "Mul", a, power) : floor_quotient(l, a, power, I32), *rest = scalar_of(l, 0, t);
    if (sign && !left) {
        const Value *below = compare(l, "Less", a, 0);
        rest = where_of(l, below, scalar_of(l, -1, t), rest);
    }
    y = where_of(l, known, y, rest);
    set_lowered(l, n, left ? wrapped(l, y, n->dtype) : y, first);
}

/* tanh(x / 2) (e^x + 1) is accurate near 0; ONNX has no e^x - 1. */
static void lower_expm1(Lowering *l, const Node *n)
{
    if (l->torch) {
        lower_plain(l, n, "Expm1");
        return;
    }
    bool first = any_first(l, n);
    const Value *x = operand(l, n->in[0], first), *half = unary(l, "Tanh", binary(l, "Mul", x, scalar_of(l, 0.5, x->dtype)));
    set_lowered(l, n, binary(l, "Mul", half, binary(l, "Add", unary(l, "Exp", x), scalar_of(l, 1, x->dtype))), first);
}

/* Kahan's formula: with u = 1 + x, log(u) x / (u - 1), or x where u is 1. */
static void lower_log1p(Lowering *l, const Node *n)
{
    if (l->torch) {
        lower_plain(l, n, "Log1p");
        return;
    }
    bool first = any_first(l, n);
    const Value *x = operand(l, n->in[0], first), *one = scalar_of(l, 1, x->dtype), *u = binary(l, "Add", x, one),
                *rest = binary(l, "Sub", u, one);
    const Value *tiny = compare(l, "Equal", rest, 0), *by = where_of(l, tiny, binary(l, "Add", rest, one), rest);
    const Value *whole = compare(l, "Equal", rest, INFINITY), *y = binary(l, "Mul", unary(l, "Log", u), binary(l, "Div", x, by));
    set_lowered(l, n, where_of(l, whole, x, where_of(l, tiny, x, y)), first);
}

/* Returns whether the number or the zero has a minus sign. */
static const Value *has_minus(Lowering *l, const Value *x)
{
    const Value *inverse = binary(l, "Div", scalar_of(l, 1, x->dtype), x);
    return binary(l, "Or", compare(l, "Less", x, 0), compare(l, "Less", inverse, 0));
}

/* Computes the angle of (x, y) from the arc tangent of a number from 0 to 1, which is 1 where both are infinite. */
static void lower_atan2(Lowering *l, const Node *n)
{
    if (l->torch) {
        lower_plain(l, n, "Atan2");
        return;
    }
    bool first = any_first(l, n);
    const Value *y = operand(l, n->in[0], first), *x = operand(l, n->in[1], first), *zero = scalar_of(l, 0, y->dtype);
    const Value *a = unary(l, "Abs", y), *b = unary(l, "Abs", x), *high = binary(l, "Max", a, b), *low = binary(l, "Min", a, b);
    const Value *t = where_of(l, binary_of(l, "Equal", BOOL, low, high), unary(l, "Sign", high), binary(l, "Div", low, high));
    const Value *angle = unary(l, "Atan", t), *steep = binary_of(l, "Less", BOOL, b, a), *left, *down;
    angle = where_of(l, steep, binary(l, "Sub", scalar_of(l, 1.5707963267948966, y->dtype), angle), angle);
    left = has_minus(l, x);
    angle = where_of(l, left, binary(l, "Sub", scalar_of(l, 3.1415926535897931, y->dtype), angle), angle);
    down = has_minus(l, y);
    set_lowered(l, n, where_of(l, down, binary(l, "Sub", zero, angle), angle), first);
}

static void lower_floor(Lowering *l, const Node *n)
{
    if (is_whole(n))
        set_lowered(l, n, value_of(l, n->in[0]), false);
    else
        lower_plain(l, n, "Floor");
}

/* ---- reductions */
static void lower_sum(Lowering *l, const Node *n)
{
    const Node *x = n->in[0];
    bool first = is_first(l, x);
    const Value *v = first ? channels_first(l, x) : whole_value(l, x);
    if (n->op == OP_SUM && (x->dtype == BOOL || v->dtype != carried(l, n->dtype)))
        v = cast(l, v, carried(l, n->dtype));
    bool gone[EXPORTED_RANK] = {false};
    int64_t axes[EXPORTED_RANK];
    for (int i = 0; i < n->int_count; i++)
        gone[axis_of(x, (int)n->ints[i], first)] = true;
    Extents e = {0};
    int count = 0;
    for (int i = 0; i < v->rank; i++)
        if (gone[i])
            axes[count++] = i;
        else
            e.extent[e.rank++] = v->extent[i];
    if (!count) {
        set_lowered(l, n, v, first);
        return;
    }
    if (n->op == OP_MAX && x->dtype == BOOL) /* ReduceMax of opset 18 has no bool */
        v = cast(l, v, I32);
    const Value *y = EMIT(l, n->op == OP_SUM ? "ReduceSum" : "ReduceMax", v->dtype, e, v, whole_numbers(l, axes, count));
    attribute(l, "keepdims", 0);
    set_lowered(l, n, cast(l, wrapped(l, y, n->dtype), carried(l, n->dtype)), first && !gone[1]);
}

static void lower_argmax(Lowering *l, const Node *n)
{
    const Value *x = whole_value(l, n->in[0]);
    x = x->dtype == BOOL ? cast(l, x, I32) : x;
    const Value *y = EMIT(l, "ArgMax", I64, extents(n->has_samples, &n->shape), x);
    attribute(l, "axis", n->ints[0] + n->in[0]->has_samples);
    attribute(l, "keepdims", 0);
    set_lowered(l, n, cast(l, y, I32), false);
}

static void lower_cumsum(Lowering *l, const Node *n)
{
    const Value *x = cast(l, whole_value(l, n->in[0]), carried(l, n->dtype));
    double axis = (double)(n->ints[0] + n->in[0]->has_samples);
    const Value *y = EMIT(l, "CumSum", x->dtype, extents_of(x), x, scalar_of(l, axis, I64));
    attribute(l, "reverse", n->ints[1]);
    set_lowered(l, n, wrapped(l, y, n->dtype), false);
}

/* ---- leaves */
static void lower_input(Lowering *l, const Node *n)
{
    const Input *in = &l->graph->model->inputs[n->ints[0]];
    Dtype t = in->classes ? I64 : in->dtype == F32 ? l->out->real : in->dtype;
    for (int i = 0; i < l->out->input_count; i++)
        if (strcmp(l->out->inputs[i]->label, in->name) == 0)
            lowered(l, n)->raw = l->out->inputs[i];
    if (lowered(l, n)->raw)
        return;
    Value *v = NEW(Value);
    *v = (Value){.name = unique_name(l, in->name), .label = in->name, .dtype = t, .rank = n->shape.rank + 1, .variable = -1};
    Extents e = extents(true, &n->shape);
    memcpy(v->extent, e.extent, sizeof v->extent);
    lowered(l, n)->raw = v;
    l->sample = v;
    APPEND(l->out->inputs, l->out->input_count, v);
}

static void lower_variable(Lowering *l, const Node *n)
{
    const Value *v = variable_of(l, (int)n->ints[0]);
    set_lowered(l, n, cast(l, v, carried(l, n->dtype)), false);
}

static void lower_constant(Lowering *l, const Node *n)
{
    double one;
    Dtype t = carried(l, n->dtype);
    set_lowered(l, n, node_is_constant(n, &one) ? scalar_of(l, one, t) : constant_of(l, n->data, t, extents(false, &n->shape)),
                false);
}

static void lower_arange(Lowering *l, const Node *n)
{
    int64_t count = n->shape.extent[0];
    double *data = NEW_ARRAY(double, count);
    for (int64_t i = 0; i < count; i++)
        data[i] = (double)i;
    const char *key = format("arange %lld", (long long)count);
    if (!map_get(l->constants, key))
        map_set(l->constants, key, (void *)(uintptr_t)constant_of(l, data, I32, extents(false, &n->shape)));
    set_lowered(l, n, map_get(l->constants, key), false);
}

static void lower_valid(Lowering *l, const Node *n) { set_lowered(l, n, of_all_samples(l, scalar_of(l, 1, BOOL)), false); }

static void lower_same(Lowering *l, const Node *n) { l->values[n->id] = l->values[n->in[0]->id]; }

/* ---- operations without a counterpart */
static void refuse_random(Lowering *l, const Node *n)
{
    (void)n;
    cannot_export(
        l, "random numbers in evaluation, which are drawn by the sample and the step, have no counterpart in other software");
}

static void refuse_run(Lowering *l, const Node *n)
{
    (void)n;
    cannot_export(l, "it depends on how far the run is (step, epoch, progress) or on --set, which an exported model has not");
}

/* ---- the table */
static const struct Lowering_ {
    const char *kind;
    Lower *lower;
} TABLE[OPS] = {
    [OP_INPUT] = {NULL, lower_input},
    [OP_VARIABLE] = {NULL, lower_variable},
    [OP_CONSTANT] = {NULL, lower_constant},
    [OP_RUN] = {NULL, refuse_run},
    [OP_VALID] = {NULL, lower_valid},
    [OP_RANDOM] = {NULL, refuse_random},
    [OP_ARANGE] = {NULL, lower_arange},
    [OP_ADD] = {"Add", NULL},
    [OP_SUB] = {"Sub", NULL},
    [OP_MUL] = {"Mul", NULL},
    [OP_DIV] = {"Div", NULL},
    [OP_POW] = {"Pow", NULL},
    [OP_MOD] = {NULL, lower_mod},
    [OP_QUOTIENT] = {NULL, lower_quotient},
    [OP_MINIMUM] = {"Min", NULL},
    [OP_MAXIMUM] = {"Max", NULL},
    [OP_EQ] = {"Equal", NULL},
    [OP_LT] = {"Less", NULL},
    [OP_LE] = {"LessOrEqual", NULL},
    [OP_AND] = {"And", NULL},
    [OP_OR] = {"Or", NULL},
    [OP_NOT] = {"Not", NULL},
    [OP_WHERE] = {"Where", NULL},
    [OP_CAST] = {NULL, lower_cast},
    [OP_ABS] = {"Abs", NULL},
    [OP_FLOOR] = {NULL, lower_floor},
    [OP_SQRT] = {"Sqrt", NULL},
    [OP_EXP] = {"Exp", NULL},
    [OP_LOG] = {"Log", NULL},
    [OP_EXPM1] = {NULL, lower_expm1},
    [OP_LOG1P] = {NULL, lower_log1p},
    [OP_LOGISTIC] = {"Sigmoid", NULL},
    [OP_SIN] = {"Sin", NULL},
    [OP_COS] = {"Cos", NULL},
    [OP_TANH] = {"Tanh", NULL},
    [OP_ATAN2] = {NULL, lower_atan2},
    [OP_ERF] = {"Erf", NULL},
    [OP_BIT_AND] = {"BitwiseAnd", NULL},
    [OP_BIT_OR] = {"BitwiseOr", NULL},
    [OP_BIT_XOR] = {"BitwiseXor", NULL},
    [OP_BIT_NOT] = {"BitwiseNot", NULL},
    [OP_SHIFT_LEFT] = {NULL, lower_shift},
    [OP_SHIFT_RIGHT] = {NULL, lower_shift},
    [OP_SUM] = {NULL, lower_sum},
    [OP_MAX] = {NULL, lower_sum},
    [OP_ARGMAX] = {NULL, lower_argmax},
    [OP_CUMSUM] = {NULL, lower_cumsum},
    [OP_EINSUM] = {NULL, lower_einsum},
    [OP_CONVOLVE] = {NULL, lower_convolve},
    [OP_ATTENTION] = {NULL, lower_attention},
    [OP_WINDOW_MAX] = {NULL, lower_window_max},
    [OP_WINDOW_SUM] = {NULL, lower_window_sum},
    [OP_RESHAPE] = {NULL, lower_reshape},
    [OP_TRANSPOSE] = {NULL, lower_transpose},
    [OP_SLICE] = {NULL, lower_slice},
    [OP_UNSLICE] = {NULL, lower_unslice},
    [OP_CONCAT] = {NULL, lower_concat},
    [OP_PAD] = {NULL, lower_pad},
    [OP_BROADCAST] = {NULL, lower_broadcast},
    [OP_GATHER] = {NULL, lower_gather},
    [OP_SCATTER_ADD] = {NULL, lower_scatter_add},
    [OP_TOP_K] = {NULL, lower_top_k},
    [OP_STOP_GRADIENT] = {NULL, lower_same},
    [OP_ALL_GATHER] = {NULL, lower_same},
    [OP_OWN] = {NULL, lower_same},
    [OP_BROADCAST_FROM] = {NULL, lower_same},
    [OP_SCAN] = {NULL, lower_scan},
    [OP_RESULT] = {NULL, lower_result},
};

static void lower_node(Lowering *l, const Node *n, const Pattern *p)
{
    l->at = n;
    if (n->op == OP_ARG)
        return;
    if (p->kind)
        lower_pattern(l, n, p);
    else if (TABLE[n->op].lower && (n->op == OP_SCAN || !node_sums_samples(n)))
        TABLE[n->op].lower(l, n);
    else if (TABLE[n->op].kind)
        lower_plain(l, n, TABLE[n->op].kind);
    else
        cannot_export(l, format("the operation '%s' has no counterpart", OP_INFO[n->op].name));
}

static bool is_result(const Result *r) { return r->role == ROLE_OUTPUT || r->role == ROLE_RESULT; }

void lower_nodes(Lowering *l)
{
    const Graph *g = l->graph;
    Pattern *patterns = NEW_ARRAY(Pattern, g->node_count);
    bool *needed = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            l->uses[g->nodes[i]->in[k]->id]++;
    for (int i = 0; i < g->result_count; i++)
        if (is_result(&g->results[i])) {
            needed[g->results[i].value->id] = true;
            l->uses[g->results[i].value->id]++;
        }
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        if (!needed[i])
            continue;
        bool found = find_pattern(l, n, &patterns[i]);
        for (int k = 0; k < (found ? 5 : n->inputs); k++) {
            const Node *in = found ? patterns[i].in[k] : n->in[k];
            if (in && !(found && k == 3 && patterns[i].kind != PATTERN_BATCHNORM)) /* the product itself is not computed */
                needed[in->id] = true;
        }
    }
    for (int i = 0; i < g->node_count; i++)
        if (needed[i])
            lower_node(l, g->nodes[i], &patterns[i]);
}

Lowering *lowering_of(const Graph *g, bool torch, Exported *out, Lowering *outer)
{
    Lowering *l = NEW(Lowering);
    *l = (Lowering){.graph = g, .torch = torch, .out = out, .outer = outer};
    l->values = NEW_ARRAY(Lowered, g->node_count);
    l->uses = NEW_ARRAY(int, g->node_count);
    l->names = outer ? outer->names : NEW(Map);
    l->constants = outer ? outer->constants : NEW(Map);
    return l;
}

Exported *lower(const Graph *predict, bool torch)
{
    Exported *e = NEW(Exported);
    *e = (Exported){.model = predict->model, .real = predict->model->precision == F64 ? F64 : F32};
    Lowering *l = lowering_of(predict, torch, e, NULL);
    const char **names = NEW_ARRAY(const char *, predict->result_count);
    for (int i = 0; i < predict->model->variable_count; i++) /* Weights keep the model's names in the file. */
        unique_name(l, predict->model->variables[i].name);
    for (int i = 0; i < predict->node_count; i++) /* of_all_samples() needs an input. */
        if (predict->nodes[i]->op == OP_INPUT)
            lower_input(l, predict->nodes[i]);
    for (int i = 0; i < predict->result_count; i++)
        if (predict->results[i].role == ROLE_OUTPUT)
            names[i] = unique_name(l, predict->results[i].name);
    if (setjmp(l->stop) != 0) /* it cannot be exported */
        return e;
    lower_nodes(l);
    for (int i = 0; i < predict->result_count; i++) {
        const Result *r = &predict->results[i];
        if (r->role != ROLE_OUTPUT)
            continue;
        l->at = r->value;
        Dtype t = dtype_is_half(r->value->dtype) || r->value->dtype == F32 ? e->real : r->value->dtype;
        Value *out = (Value *)(uintptr_t)unary(l, "Identity", cast(l, whole_value(l, r->value), t));
        out->name = names[i];
        out->label = r->name;
        APPEND(e->outputs, e->output_count, out);
    }
    return e;
}
