/* value.c: compile-time values: numbers (64-bit integer or double), strings, lists, quantities; their arithmetic, comparison and
 * text. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- making */

/* The arena for values. A layer makes thousands of them, and nothing refers to them once the model is complete. */
static Memory *memory; /* NULL for the arena in use */

void values_use_memory(Memory *m) { memory = m; }

Value *value_new(void)
{
    Memory *outer = memory_use(memory ? memory : memory_in_use());
    Value *v = NEW(Value);
    memory_use(outer);
    return v;
}

static Value *make(ValueKind kind)
{
    Value *v = value_new();
    v->kind = kind;
    return v;
}

Value *value_whole(int64_t i)
{
    Value *v = make(VALUE_NUMBER);
    v->whole = true;
    v->i = i;
    return v;
}

Value *value_double(double d)
{
    Value *v = make(VALUE_NUMBER);
    v->d = d;
    return v;
}

static bool fits(double d) { return d == floor(d) && d >= -9007199254740992.0 && d <= 9007199254740992.0; }

Value *value_number(double d) { return fits(d) ? value_whole((int64_t)d) : value_double(d); }

Value *value_bool(bool b)
{
    Value *v = make(VALUE_BOOL);
    v->i = b;
    return v;
}

Value *value_broken(void)
{
    static Value broken = {.kind = VALUE_BROKEN};
    return &broken;
}

Value *value_none(void) { return make(VALUE_NONE); }

Value *value_text(const char *text)
{
    Value *v = make(VALUE_STRING);
    v->text = text;
    return v;
}

Value *value_list(Value **items, int count)
{
    Value *v = make(VALUE_LIST);
    v->items = items;
    v->count = count;
    return v;
}

Value *value_tensor(Node *node)
{
    Value *v = make(VALUE_TENSOR);
    v->node = node;
    return v;
}

Value *value_of_shape(const Shape *s)
{
    Value **items = NEW_ARRAY(Value *, s->rank);
    for (int k = 0; k < s->rank; k++)
        items[k] = value_whole(s->extent[k]);
    return value_list(items, s->rank);
}

Value *value_type(Dtype t)
{
    Value *v = value_new();
    *v = (Value){.kind = VALUE_TYPE, .i = t, .text = dtype_name(t)};
    return v;
}

Value *value_layer(Layer *layer)
{
    Value *v = value_new();
    *v = (Value){.kind = VALUE_LAYER, .layer = layer};
    return v;
}

Value *value_step(Step step)
{
    Layer *l = NEW(Layer);
    *l = (Layer){.kind = LAYER_PIPELINE, .name = step.layer->name};
    APPEND(l->steps, l->step_count, step);
    return value_layer(l);
}

double number_of(const Value *v) { return v->whole ? (double)v->i : v->d; }

double exact_number(const Place *at, const Value *v)
{
    if (v->kind == VALUE_BOOL)
        return (double)v->i;
    double d = number_of(v);
    int64_t low = v->i & 0xffffffff;
    if (v->whole && (d >= 0x1p63 || (int64_t)d != v->i))
        error_at(at,
                 "constants of tensors are doubles, which hold every whole number only up to 2^53, not %" PRId64
                 "; write %.0f.0, the nearest, "
                 "or compute it in i64: (i64(tensor([%" PRId64 "]))[0] * 4294967296 + %" PRId64 ")",
                 v->i, d, (v->i - low) / 4294967296, low);
    return d;
}

Value *first_of(Value *v) { return v->kind == VALUE_RESULTS ? v->items[0] : v; }

bool has_tensor(const Value *v)
{
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED)
        return true;
    if (v->kind == VALUE_LIST)
        for (int k = 0; k < v->count; k++)
            if (has_tensor(v->items[k]))
                return true;
    return false;
}

/* ---- text */

static const char *number_text(const Value *v)
{
    if (v->whole)
        return format("%" PRId64, v->i);
    for (int digits = 1; digits < 17; digits++) {
        const char *text = format("%.*g", digits, v->d);
        double again;
        if (sscanf(text, "%lf", &again) == 1 && again == v->d)
            return text;
    }
    return format("%.17g", v->d);
}

const char *value_print(const Value *v)
{
    switch (v->kind) {
    case VALUE_NUMBER: return fits(v->d) && !v->whole ? format("%.0f", v->d) : number_text(v);
    case VALUE_BOOL: return v->i ? "true" : "false";
    case VALUE_NONE: return "none";
    case VALUE_STRING: return v->text;
    case VALUE_TYPE: return v->text;
    case VALUE_QUANTITY: {
        Value d = {.kind = VALUE_NUMBER, .d = v->d};
        return format("%s%s", value_print(&d), v->text);
    }
    case VALUE_LIST: {
        Text t = {0};
        text_add(&t, "[");
        for (int k = 0; k < v->count && k < 16; k++)
            text_add(&t, "%s%s", k ? ", " : "", value_print(v->items[k]));
        text_add(&t, v->count > 16 ? ", ...]" : "]");
        return copy_text(text_of(&t), t.length);
    }
    case VALUE_LAYER: return format("layer %s", v->layer->name);
    case VALUE_TENSOR: return format("tensor %s", shape_text(&v->node->shape));
    case VALUE_WEIGHTED: return format("weighted %s", shape_text(&v->node->shape));
    case VALUE_RESULTS: return value_print(v->items[0]);
    case VALUE_SOURCE: return "a source of data";
    case VALUE_BROKEN: break;
    }
    return "";
}

const char *value_describe(const Value *v)
{
    switch (v->kind) {
    case VALUE_NUMBER: return format("the number %s", value_print(v));
    case VALUE_BOOL: return v->i ? "true" : "false";
    case VALUE_NONE: return "none";
    case VALUE_STRING: return format("the string \"%s\"", v->text);
    case VALUE_LIST: return format("the list %s", value_print(v));
    case VALUE_TYPE: return format("the type %s", v->text);
    case VALUE_QUANTITY: return format("the quantity %s", value_print(v));
    case VALUE_LAYER: return v->layer->kind == LAYER_PIPELINE ? "a pipeline" : format("the layer '%s'", v->layer->name);
    case VALUE_TENSOR: return format("a tensor %s%s", dtype_name(v->node->dtype), shape_text(&v->node->shape));
    case VALUE_WEIGHTED: return format("a weighted value %s", shape_text(&v->node->shape));
    case VALUE_RESULTS: return value_describe(v->items[0]);
    case VALUE_SOURCE: return "a source of data";
    case VALUE_BROKEN: break;
    }
    return "";
}

/* ---- comparison */

static bool value_equal(const Value *a, const Value *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case VALUE_NUMBER: return a->whole && b->whole ? a->i == b->i : number_of(a) == number_of(b);
    case VALUE_BOOL: return a->i == b->i;
    case VALUE_NONE: return true;
    case VALUE_STRING: return strcmp(a->text, b->text) == 0;
    case VALUE_TYPE: return a->i == b->i;
    case VALUE_QUANTITY: return (a->d == b->d && strcmp(a->text, b->text) == 0) || (a->d == 0 && b->d == 0);
    case VALUE_LAYER: return a->layer == b->layer;
    case VALUE_LIST:
        if (a->count != b->count)
            return false;
        for (int k = 0; k < a->count; k++)
            if (!value_equal(a->items[k], b->items[k]))
                return false;
        return true;
    default: return false;
    }
}

/* ---- arithmetic */

static _Noreturn void overflow(const Place *at, const char *op, const Value *a, const Value *b)
{
    error_at(at, "%s %s %s does not fit 64 bits; write one of them with a point for a double", value_print(a), op,
             value_print(b));
}

static Value *floor_divide(const Place *at, int64_t a, int64_t b, bool remainder, const Value *va, const Value *vb)
{
    if (a == INT64_MIN && b == -1) {
        if (remainder)
            return value_whole(0);
        overflow(at, "//", va, vb);
    }
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0))
        q--, r += b;
    return value_whole(remainder ? r : q);
}

static bool whole_power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t r = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(r, base, &r))
            return false;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    *out = r;
    return true;
}

static Value *whole_arithmetic(const Place *at, const char *op, const Value *a, const Value *b)
{
    int64_t r;
    switch (op[0]) {
    case '+':
        if (__builtin_add_overflow(a->i, b->i, &r))
            overflow(at, op, a, b);
        return value_whole(r);
    case '-':
        if (__builtin_sub_overflow(a->i, b->i, &r))
            overflow(at, op, a, b);
        return value_whole(r);
    case '*':
        if (op[1] == '*') {
            if (b->i >= 0 && whole_power(a->i, b->i, &r))
                return value_whole(r);
            return value_double(pow((double)a->i, (double)b->i));
        }
        if (__builtin_mul_overflow(a->i, b->i, &r))
            overflow(at, op, a, b);
        return value_whole(r);
    case '/':
        if (op[1] == '/')
            return floor_divide(at, a->i, b->i, false, a, b);
        if (!(a->i == INT64_MIN && b->i == -1) && a->i % b->i == 0)
            return value_whole(a->i / b->i);
        return value_double((double)a->i / (double)b->i);
    default: return floor_divide(at, a->i, b->i, true, a, b);
    }
}

static Value *arithmetic(const Place *at, const char *op, const Value *a, const Value *b)
{
    double x = number_of(a), y = number_of(b);
    if ((op[0] == '/' || op[0] == '%') && y == 0)
        error_at(at, "%s %s 0: division by zero", value_print(a), op);
    if (a->whole && b->whole)
        return whole_arithmetic(at, op, a, b);
    if (strcmp(op, "+") == 0)
        return value_double(x + y);
    if (strcmp(op, "-") == 0)
        return value_double(x - y);
    if (strcmp(op, "*") == 0)
        return value_double(x * y);
    if (strcmp(op, "/") == 0)
        return value_double(x / y);
    if (strcmp(op, "//") == 0)
        return value_double(floor(x / y));
    if (strcmp(op, "%") == 0)
        return value_double(x - y * floor(x / y));
    return value_double(pow(x, y));
}

static bool is_arithmetic(const char *op) { return strchr("+-*/%", op[0]) != NULL; }
static bool is_order(const char *op) { return op[0] == '<' || op[0] == '>'; }

static Value *quantity_binary(const Place *at, const char *op, const Value *a, const Value *b)
{
    const Value *q = a->kind == VALUE_QUANTITY ? a : b, *n = q == a ? b : a;
    bool times = strcmp(op, "*") == 0 || (strcmp(op, "/") == 0 && q == a);
    if (!times || n->kind != VALUE_NUMBER)
        error_at(at, "a quantity such as %s can only be multiplied or divided by a number", value_print(q));
    if (op[0] == '/' && number_of(n) == 0)
        error_at(at, "%s / 0: division by zero", value_print(q));
    Value *v = value_new();
    *v = *q;
    v->d = op[0] == '*' ? q->d * number_of(n) : q->d / number_of(n);
    return v;
}

enum { LONGEST_TEXT = 1 << 20 };

static Value *concatenate(const Place *at, const Value *a, const Value *b)
{
    if ((int64_t)a->count + b->count > LONGEST_LIST)
        error_at(at, "a list of %" PRId64 " elements is too long: at most %d are possible", (int64_t)a->count + b->count,
                 LONGEST_LIST);
    Value **items = NEW_ARRAY(Value *, a->count + b->count);
    if (a->count)
        memcpy(items, a->items, sizeof *items * (size_t)a->count);
    if (b->count)
        memcpy(items + a->count, b->items, sizeof *items * (size_t)b->count);
    return value_list(items, a->count + b->count);
}

static bool joins(const Value *v)
{
    return v->kind == VALUE_STRING || v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL || v->kind == VALUE_TYPE;
}

Value *compute_binary(Elaborator *e, const Place *at, const char *op, Value *a, Value *b)
{
    (void)e;
    bool tensors = a->kind == VALUE_TENSOR || a->kind == VALUE_WEIGHTED || b->kind == VALUE_TENSOR || b->kind == VALUE_WEIGHTED;
    bool equality = strcmp(op, "==") == 0 || strcmp(op, "!=") == 0;
    if (equality && (!tensors || a->kind == VALUE_NONE || b->kind == VALUE_NONE || a->kind == VALUE_STRING ||
                     b->kind == VALUE_STRING || a->kind == VALUE_TYPE || b->kind == VALUE_TYPE))
        return value_bool(value_equal(a, b) == (op[0] == '='));
    if (a->kind == VALUE_LIST && b->kind == VALUE_LIST && strcmp(op, "+") == 0)
        return concatenate(at, a, b);
    if (tensors)
        return NULL;
    if (a->kind == VALUE_NUMBER && b->kind == VALUE_NUMBER) {
        if (is_arithmetic(op))
            return arithmetic(at, op, a, b);
        if (is_order(op)) {
            int order = a->whole && b->whole ? (a->i > b->i) - (a->i < b->i)
                                             : (number_of(a) > number_of(b)) - (number_of(a) < number_of(b));
            if (isnan(number_of(a)) || isnan(number_of(b)))
                return value_bool(false);
            return value_bool(op[0] == '<' ? order < 0 || (op[1] == '=' && order == 0)
                                           : order > 0 || (op[1] == '=' && order == 0));
        }
    }
    if ((a->kind == VALUE_STRING || b->kind == VALUE_STRING) && joins(a) && joins(b) && strcmp(op, "+") == 0) {
        const char *x = value_print(a), *y = value_print(b);
        if (strlen(x) + strlen(y) > LONGEST_TEXT)
            error_at(at, "a string has at most %d bytes; this one would be longer", LONGEST_TEXT);
        return value_text(format("%s%s", x, y));
    }
    if (a->kind == VALUE_QUANTITY || b->kind == VALUE_QUANTITY)
        return quantity_binary(at, op, a, b);
    return NULL;
}

/* ---- sizes */

int64_t whole_of(const Place *at, const Value *v, const char *what)
{
    if (v->kind == VALUE_NUMBER && v->whole)
        return v->i;
    if (v->kind == VALUE_NUMBER && fits(v->d))
        return (int64_t)v->d;
    error_at(at, "%s must be a whole number, not %s", what, value_describe(v));
}

Shape shape_from(const Place *at, Value *const *dims, int count)
{
    int64_t extent[MAX_RANK], total = 1;
    if (count > MAX_RANK)
        error_at(at, "a shape has at most %d axes, not %d", MAX_RANK, count);
    bool empty = false;
    for (int k = 0; k < count; k++) {
        extent[k] = whole_of(at, dims[k], "the extent of an axis");
        if (extent[k] < 0)
            error_at(at, "an axis cannot have %" PRId64 " elements", extent[k]);
        empty = empty || extent[k] == 0;
    }
    for (int k = 0; k < count && !empty; k++)
        if (__builtin_mul_overflow(total, extent[k], &total) || total > (INT64_C(1) << 56)) {
            Value list = {.kind = VALUE_LIST, .items = (Value **)(uintptr_t)dims, .count = count};
            error_at(at, "the shape %s has more elements than can be counted (2^56)", value_print(&list));
        }
    return shape_of(count, extent);
}

Shape shape_from_value(const Place *at, const Value *v, const char *what)
{
    if (v->kind != VALUE_LIST)
        error_at(at, "%s must be a shape, a list such as [3, 4], not %s", what, value_describe(v));
    return shape_from(at, v->items, v->count);
}
