/* values.c: emits single operations and values of the exported graph. */
#include "compiler/export/lowering.h"

#include <math.h>
#include <string.h>

Extents extents_of(const Value *v)
{
    Extents e = {.rank = v->rank};
    memcpy(e.extent, v->extent, sizeof e.extent);
    return e;
}

Extents extents(bool has_samples, const Shape *s)
{
    Extents e = {.rank = s->rank + has_samples, .extent = {BATCH}};
    for (int i = 0; i < s->rank; i++)
        e.extent[i + has_samples] = s->extent[i];
    return e;
}

Dtype carried(const Lowering *l, Dtype t)
{
    switch (t) {
    case U8:
    case I8:
    case U16:
    case I16:
    case I32: return I32;
    case U32:
    case I64: return I64;
    case F16:
    case BF16:
    case F32: return l->out->real == F64 && t == F32 ? F64 : F32;
    default: return t;
    }
}

const char *unique_name(Lowering *l, const char *name)
{
    const char *made = name;
    for (int n = 2; map_get(l->names, made); n++)
        made = format("%s_%d", name, n);
    map_set(l->names, made, l->names);
    return made;
}

static Value *new_value(const char *name, Dtype dtype, Extents e)
{
    Value *v = NEW(Value);
    *v = (Value){.name = name, .dtype = dtype, .rank = e.rank, .variable = -1};
    memcpy(v->extent, e.extent, sizeof v->extent);
    return v;
}

const Value *emit(Lowering *l, const char *kind, Dtype dtype, Extents e, int inputs, const Value *const *in)
{
    ExportedOp *op = NEW(ExportedOp);
    const Node *n = l->at;
    *op = (ExportedOp){.kind = kind, .inputs = inputs, .outputs = 1, .path = n->path ? n->path : "", .at = n->at};
    op->name = unique_name(l, *op->path ? format("%s/%s", op->path, kind) : kind);
    if (inputs > COUNT(op->in))
        op->more = NEW_ARRAY(const Value *, inputs);
    for (int i = 0; i < inputs; i++)
        (op->more ? op->more : op->in)[i] = in[i];
    Value *out = new_value(op->name, dtype, e);
    out->label = n->name;
    op->out[0] = out;
    APPEND(l->out->ops, l->out->op_count, op);
    return out;
}

static ExportedOp *last_op(Lowering *l) { return l->out->ops[l->out->op_count - 1]; }

const Value *second_result(Lowering *l, Dtype dtype, Extents e)
{
    ExportedOp *op = last_op(l);
    Value *out = new_value(unique_name(l, format("%s.%d", op->name, op->outputs)), dtype, e);
    op->out[op->outputs++] = out;
    return out;
}

static void add_attribute(Lowering *l, ExportedAttribute a)
{
    ExportedOp *op = last_op(l);
    APPEND(op->attributes, op->attribute_count, a);
}

void attribute_list(Lowering *l, const char *name, const int64_t *list, int count)
{
    int64_t *copy = NEW_ARRAY(int64_t, count);
    memcpy(copy, list, (size_t)count * sizeof *copy);
    add_attribute(l, (ExportedAttribute){.name = name, .kind = ATTRIBUTE_LIST, .list = copy, .count = count});
}

void attribute(Lowering *l, const char *name, int64_t value)
{
    attribute_list(l, name, &value, 1);
    ExportedOp *op = last_op(l);
    op->attributes[op->attribute_count - 1].kind = ATTRIBUTE_WHOLE;
}

void attribute_number(Lowering *l, const char *name, double number)
{
    add_attribute(l, (ExportedAttribute){.name = name, .kind = ATTRIBUTE_NUMBER, .number = number});
}

void attribute_text(Lowering *l, const char *name, const char *text)
{
    add_attribute(l, (ExportedAttribute){.name = name, .kind = ATTRIBUTE_TEXT, .text = text});
}

void attribute_graph(Lowering *l, const char *name, const Exported *graph)
{
    add_attribute(l, (ExportedAttribute){.name = name, .kind = ATTRIBUTE_GRAPH, .graph = graph});
}

/* The graph at the top holds constants and weights. */
static Lowering *top_of(Lowering *l)
{
    while (l->outer)
        l = l->outer;
    return l;
}

void cannot_export(Lowering *l, const char *what)
{
    const Node *n = l->at;
    Lowering *top = top_of(l);
    const Place *at = users_place(n->at);
    top->out->refused = format("%s:%d: %s%s%s", at ? at->source->file : top->out->model->file, at ? at->line : 0,
                               n->path && *n->path ? "layer " : "", n->path && *n->path ? format("%s: ", n->path) : "", what);
    longjmp(top->stop, 1);
}

static int64_t elements_of(const Extents *e)
{
    int64_t n = 1;
    for (int i = 0; i < e->rank; i++)
        n *= e->extent[i];
    return n;
}

const Value *constant_of(Lowering *l, const double *data, Dtype dtype, Extents e)
{
    int64_t count = elements_of(&e);
    double *copy = NEW_ARRAY(double, count);
    if (data)
        memcpy(copy, data, (size_t)count * sizeof *copy);
    const char *key = count == 1 ? format("%d %d %.17g", (int)dtype, e.rank, copy[0]) : NULL;
    Value *known = key ? map_get(l->constants, key) : NULL;
    if (known)
        return known;
    Exported *top = top_of(l)->out;
    Value *v = new_value(unique_name(l, format("constant_%d", top->constant_count + 1)), dtype, e);
    v->data = copy;
    APPEND(top->constants, top->constant_count, v);
    if (key)
        map_set(l->constants, key, v);
    return v;
}

const Value *scalar_of(Lowering *l, double number, Dtype dtype) { return constant_of(l, &number, dtype, (Extents){0}); }

const Value *whole_numbers(Lowering *l, const int64_t *numbers, int count)
{
    Text key = {0};
    double *data = NEW_ARRAY(double, count);
    for (int i = 0; i < count; i++) {
        data[i] = (double)numbers[i];
        text_add(&key, "%lld ", (long long)numbers[i]);
    }
    const char *name = format("list %s", text_of(&key));
    const Value *known = map_get(l->constants, name);
    if (!known) {
        known = constant_of(l, data, I64, (Extents){1, {count}});
        map_set(l->constants, name, (void *)(uintptr_t)known);
    }
    return known;
}

const Value *variable_of(Lowering *l, int variable)
{
    const Model *m = l->graph->model;
    while (m->variables[variable].owner >= 0 &&
           (m->variables[variable].kind == AVERAGE || m->variables[variable].kind == ROUNDED))
        variable = m->variables[variable].owner;
    const Variable *x = &m->variables[variable];
    const char *key = format("variable %d", variable);
    Value *v = map_get(l->constants, key);
    if (v)
        return v;
    if (x->kind != WEIGHT && x->kind != STATE)
        die("evaluation reads '%s', which is no weight and no state of the model", x->name);
    Exported *top = top_of(l)->out;
    v = new_value(x->name, x->dtype == F32 ? top->real : x->dtype, extents(false, &x->shape));
    v->variable = variable;
    map_set(l->constants, key, v);
    APPEND(top->variables, top->variable_count, variable);
    return v;
}

/* ---- common operations */
const Value *unary(Lowering *l, const char *kind, const Value *x) { return EMIT(l, kind, x->dtype, extents_of(x), x); }

/* Returns the extents to which all broadcast, aligned at the right. */
static Extents joined(const Value *const *v, int count)
{
    Extents e = {0};
    for (int k = 0; k < count; k++)
        e.rank = v[k]->rank > e.rank ? v[k]->rank : e.rank;
    for (int i = 1; i <= e.rank; i++) {
        e.extent[e.rank - i] = 1;
        for (int k = 0; k < count; k++)
            if (i <= v[k]->rank && v[k]->extent[v[k]->rank - i] != 1)
                e.extent[e.rank - i] = v[k]->extent[v[k]->rank - i];
    }
    return e;
}

const Value *binary_of(Lowering *l, const char *kind, Dtype dtype, const Value *a, const Value *b)
{
    const Value *in[] = {a, b};
    return emit(l, kind, dtype, joined(in, 2), 2, in);
}

const Value *binary(Lowering *l, const char *kind, const Value *a, const Value *b) { return binary_of(l, kind, a->dtype, a, b); }
const Value *compare(Lowering *l, const char *kind, const Value *a, double b)
{
    return binary_of(l, kind, BOOL, a, scalar_of(l, b, a->dtype));
}

const Value *from_0_to(Lowering *l, const Value *x, double last)
{
    const Value *zero = scalar_of(l, 0, x->dtype), *end = scalar_of(l, last, x->dtype),
                *low = binary_of(l, "LessOrEqual", BOOL, zero, x);
    return binary(l, "And", low, binary_of(l, "LessOrEqual", BOOL, x, end));
}

const Value *where_of(Lowering *l, const Value *c, const Value *a, const Value *b)
{
    const Value *in[] = {c, a, b};
    return emit(l, "Where", a->dtype, joined(in, 3), 3, in);
}

const Value *cast(Lowering *l, const Value *x, Dtype dtype)
{
    if (x->dtype == dtype)
        return x;
    if (x->data && x->rank == 0 && dtype != BOOL && (dtype_is_float(dtype) || x->data[0] == (double)(int64_t)x->data[0]))
        return scalar_of(l, x->data[0], dtype);
    const Value *y = EMIT(l, "Cast", dtype, extents_of(x), x);
    attribute(l, "to", dtype);
    return y;
}

static bool same(Extents a, Extents b)
{
    return a.rank == b.rank && memcmp(a.extent, b.extent, (size_t)a.rank * sizeof *a.extent) == 0;
}

const Value *reshape(Lowering *l, const Value *x, Extents e)
{
    if (same(extents_of(x), e))
        return x;
    if (x->data)
        return constant_of(l, x->data, x->dtype, e);
    int64_t shape[EXPORTED_RANK];
    for (int i = 0; i < e.rank; i++) /* 0: unchanged */
        shape[i] = e.extent[i] == BATCH ? i == 0 ? 0 : -1 : e.extent[i];
    return EMIT(l, "Reshape", x->dtype, e, x, whole_numbers(l, shape, e.rank));
}

const Value *transpose(Lowering *l, const Value *x, const int64_t *order)
{
    Extents e = {.rank = x->rank};
    bool plain = true;
    for (int i = 0; i < x->rank; i++) {
        e.extent[i] = x->extent[order[i]];
        plain = plain && order[i] == i;
    }
    if (plain)
        return x;
    const Value *y = EMIT(l, "Transpose", x->dtype, e, x);
    attribute_list(l, "perm", order, x->rank);
    return y;
}

const Value *expand(Lowering *l, const Value *x, Extents e)
{
    if (same(extents_of(x), e))
        return x;
    int64_t shape[EXPORTED_RANK];
    for (int i = 0; i < e.rank; i++)
        shape[i] = e.extent[i] == BATCH ? 1 : e.extent[i];
    return EMIT(l, "Expand", x->dtype, e, x, whole_numbers(l, shape, e.rank));
}

const Value *slice(Lowering *l, const Value *x, int count, const int64_t *axes, const int64_t *start, const int64_t *counts,
                   const int64_t *step)
{
    Extents e = extents_of(x);
    int64_t end[EXPORTED_RANK];
    for (int i = 0; i < count; i++) {
        end[i] = start[i] + counts[i] * step[i];
        if (step[i] < 0 && end[i] < 0)
            end[i] = INT64_MIN;
        e.extent[axes[i]] = counts[i];
    }
    return count ? EMIT(l, "Slice", x->dtype, e, x, whole_numbers(l, start, count), whole_numbers(l, end, count),
                        whole_numbers(l, axes, count), whole_numbers(l, step, count))
                 : x;
}

const Value *pad(Lowering *l, const Value *x, const int64_t *low, const int64_t *high, double value)
{
    int64_t pads[2 * EXPORTED_RANK], axes[EXPORTED_RANK] = {0}, start[EXPORTED_RANK] = {0}, counts[EXPORTED_RANK] = {0},
                                     step[EXPORTED_RANK] = {0};
    Extents e = extents_of(x);
    int cut = 0;
    bool any = false;
    for (int i = 0; i < x->rank; i++) {
        int64_t less = low[i] < 0 ? -low[i] : 0, end = high[i] < 0 ? -high[i] : 0;
        if (less || end) {
            axes[cut] = i, start[cut] = less, counts[cut] = x->extent[i] - less - end, step[cut] = 1;
            e.extent[i] = counts[cut++];
        }
        pads[i] = low[i] > 0 ? low[i] : 0;
        pads[i + x->rank] = high[i] > 0 ? high[i] : 0;
        any = any || pads[i] || pads[i + x->rank];
        e.extent[i] += pads[i] + pads[i + x->rank];
    }
    x = slice(l, x, cut, axes, start, counts, step);
    return any ? EMIT(l, "Pad", x->dtype, e, x, whole_numbers(l, pads, 2 * x->rank), scalar_of(l, value, x->dtype)) : x;
}

const Value *of_all_samples(Lowering *l, const Value *x)
{
    Extents e = {.rank = x->rank + 1, .extent = {BATCH}}, one;
    memcpy(e.extent + 1, x->extent, (size_t)x->rank * sizeof *x->extent);
    one = e;
    one.extent[0] = 1;
    x = reshape(l, x, one);
    Lowering *top = top_of(l);
    if (!top->sample)
        cannot_export(l, "no output depends on an input, so nothing says how many samples there are");
    if (l->torch)
        return EMIT(l, "ExpandToBatch", x->dtype, e, x, top->sample);
    int64_t rest[EXPORTED_RANK];
    for (int i = 1; i < e.rank; i++)
        rest[i - 1] = 1;
    const Value *batch = EMIT(l, "Shape", I64, ((Extents){1, {1}}), top->sample);
    attribute(l, "start", 0);
    attribute(l, "end", 1);
    if (e.rank > 1) {
        batch = EMIT(l, "Concat", I64, ((Extents){1, {e.rank}}), batch, whole_numbers(l, rest, e.rank - 1));
        attribute(l, "axis", 0);
    }
    return EMIT(l, "Expand", x->dtype, e, x, batch);
}

/* Whole numbers of fewer than 32 bits, or unsigned ones, wrap at their own width. */
const Value *wrapped(Lowering *l, const Value *v, Dtype t)
{
    bool narrow = t == U8 || t == I8 || t == U16 || t == I16 || t == U32;
    return narrow ? cast(l, cast(l, v, t), carried(l, t)) : v;
}

/* Rounds a float towards 0 and clamps it to the type's range; NaN becomes 0. */
const Value *whole_number_of(Lowering *l, const Value *x, Dtype t)
{
    bool sign = t != U8 && t != U16 && t != U32;
    int bits = 8 * dtype_bytes(t) - sign;
    double end = ldexp(1, bits), least = sign ? -end : 0;
    const Value *zero = scalar_of(l, 0, x->dtype);
    x = where_of(l, binary_of(l, "Equal", BOOL, x, x), x, zero);
    x = binary(l, "Max", x, scalar_of(l, least, x->dtype));
    if (bits <= 24 || (bits <= 32 && x->dtype == F64))
        return cast(l, binary(l, "Min", x, scalar_of(l, end - 1, x->dtype)), carried(l, t));
    const Value *over = binary_of(l, "LessOrEqual", BOOL, scalar_of(l, end, x->dtype), x), /* the type has no end - 1 */
        *most = t == I64 ? unary(l, "BitwiseNot", scalar_of(l, -end, I64)) : scalar_of(l, end - 1, carried(l, t));
    return where_of(l, over, most, cast(l, where_of(l, over, zero, x), carried(l, t)));
}
