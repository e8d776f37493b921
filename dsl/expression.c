/* expression.c: evaluates expressions. Operators on tensors make nodes (tensor.c); all others are computed at compile time
 * (value.c). */
#include "dsl/elaborate.h"
#include "dsl/foreign_names.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 12000 }; /* nesting of eval: 200 nested calls of layers with deep expressions must not overflow the stack */

/* ---- literals */

static Value *number_literal(const Elaborator *e, const Tree *t)
{
    char *digits = allocate(strlen(t->text) + 1);
    int n = 0;
    for (const char *c = t->text; *c; c++)
        if (*c != '_')
            digits[n++] = *c;
    errno = 0;
    if (strpbrk(digits, ".eE")) {
        double d = strtod(digits, NULL);
        if (isinf(d))
            error_tree(e, t, "%s is too large for a double", digits);
        return value_double(d);
    }
    long long i = strtoll(digits, NULL, 10);
    if (errno == ERANGE)
        error_tree(e, t, "%s does not fit 64 bits; %s.0 is a double", digits, digits);
    return value_whole(i);
}

static const struct {
    const char *text, *unit;
    double factor;
} UNITS[] = {
    {"steps", "steps", 1},    {"step", "steps", 1}, {"epochs", "epochs", 1}, {"epoch", "epochs", 1}, {"samples", "samples", 1},
    {"sample", "samples", 1}, {"s", "s", 1},        {"min", "s", 60},        {"h", "s", 3600},
};

static Value *quantity_literal(const Elaborator *e, const Tree *t)
{
    char *digits = allocate(strlen(t->text) + 1);
    int n = 0;
    const char *c = t->text;
    while ((*c >= '0' && *c <= '9') || *c == '.' || *c == '_' ||
           ((*c == 'e' || *c == 'E') && (c[1] == '+' || c[1] == '-' || (c[1] >= '0' && c[1] <= '9'))) ||
           ((*c == '+' || *c == '-') && n && (c[-1] == 'e' || c[-1] == 'E'))) {
        if (*c != '_')
            digits[n++] = *c;
        c++;
    }
    const char *names[COUNT(UNITS)], *unit = "B";
    double factor = unit_factor(c, unit);
    for (int k = 0; k < COUNT(UNITS); k++) {
        names[k] = UNITS[k].text;
        if (strcmp(UNITS[k].text, c) == 0)
            factor = UNITS[k].factor, unit = UNITS[k].unit;
    }
    if (factor > 0) {
        Value *v = value_new();
        *v = (Value){.kind = VALUE_QUANTITY, .d = strtod(digits, NULL) * factor, .text = unit};
        return v;
    }
    error_tree(e, t, "unknown unit '%s'%s (units: steps epochs samples, s min h, B kB MB GB TB KiB MiB GiB TiB)", c,
               did_you_mean(c, names, COUNT(UNITS)));
}

/* ---- operators */

static const struct {
    const char *text;
    Op op;
    bool swap, negate;
} OPERATORS[] = {
    {"+", OP_ADD, false, false},       {"-", OP_SUB, false, false},   {"*", OP_MUL, false, false},  {"/", OP_DIV, false, false},
    {"//", OP_QUOTIENT, false, false}, {"%", OP_MOD, false, false},   {"**", OP_POW, false, false}, {"==", OP_EQ, false, false},
    {"!=", OP_EQ, false, true},        {"<", OP_LT, false, false},    {">", OP_LT, true, false},    {"<=", OP_LE, false, false},
    {">=", OP_LE, true, false},        {"and", OP_AND, false, false}, {"or", OP_OR, false, false},
};

static bool is_tensor(const Value *v) { return v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED; }
static bool can_be_tensor(const Value *v)
{
    return is_tensor(v) || v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL || v->kind == VALUE_LIST;
}

Value *eval_binary(Elaborator *e, const Place *at, const char *op, Value *a, Value *b)
{
    Value *v = compute_binary(e, at, op, a, b);
    if (v)
        return v;
    bool tensors = is_tensor(a) || is_tensor(b);
    if (!tensors || !can_be_tensor(a) || !can_be_tensor(b)) {
        const Value *list = a->kind == VALUE_LIST ? a : b->kind == VALUE_LIST ? b : NULL;
        const Value *layer = a->kind == VALUE_LAYER ? a : b->kind == VALUE_LAYER ? b : NULL;
        error_at(at, "'%s' does not work on %s and %s%s%s", op, value_describe(a), value_describe(b),
                 list ? "; tensor(list) makes a tensor of a list" : "", layer ? "; is a call '(...)' missing?" : "");
    }
    if (strcmp(op, "@") == 0)
        return matmul(e, at, a, b);
    for (int k = 0; k < COUNT(OPERATORS); k++)
        if (strcmp(OPERATORS[k].text, op) == 0)
            return apply_binary(e, at, OPERATORS[k].op, OPERATORS[k].swap, OPERATORS[k].negate, a, b, op);
    die("no operator %s", op);
}

static Value *eval_logic(Elaborator *e, const Tree *t)
{
    bool is_and = strcmp(t->text, "and") == 0;
    Value *a = eval(e, t->first);
    if (a->kind == VALUE_BOOL && (a->i != 0) != is_and)
        return a; /* `false and ...` and `true or ...` do not evaluate the right side */
    if (a->kind != VALUE_BOOL && !is_tensor(a))
        error_tree(e, t->first, "'%s' is for true, false and bool tensors, not for %s", t->text, value_describe(a));
    Value *b = eval(e, t->first->next);
    if (b->kind != VALUE_BOOL && !is_tensor(b))
        error_tree(e, t->first->next, "'%s' is for true, false and bool tensors, not for %s", t->text, value_describe(b));
    if (a->kind == VALUE_BOOL)
        return b;
    if (b->kind == VALUE_BOOL && (b->i != 0) == is_and)
        return a;
    return eval_binary(e, place_of(e, t), t->text, a, b);
}

static Value *eval_unary(Elaborator *e, const Tree *t)
{
    Value *v = eval(e, t->first);
    const Place *at = place_of(e, t);
    if (strcmp(t->text, "not") == 0) {
        if (v->kind != VALUE_BOOL && !is_tensor(v))
            error_at(at, "'not' is for true, false and bool tensors, not for %s", value_describe(v));
        return apply_unary(e, at, OP_NOT, v);
    }
    if (v->kind == VALUE_NUMBER) {
        if (v->whole && v->i == INT64_MIN)
            error_at(at, "-(%s) does not fit 64 bits", value_print(v));
        return v->whole ? value_whole(-v->i) : value_double(-v->d);
    }
    if (!is_tensor(v))
        error_at(at, "'-' does not work on %s%s", value_describe(v),
                 v->kind == VALUE_LIST ? "; tensor(list) makes a tensor of a list" : "");
    return apply_binary(e, at, OP_SUB, false, false, value_whole(0), v, "-");
}

/* ---- conditions */

bool eval_condition(Elaborator *e, const Tree *t, const char *what)
{
    Value *v = eval(e, t);
    if (v->kind == VALUE_BOOL)
        return v->i != 0;
    if (is_tensor(v))
        error_tree(e, t,
                   "'%s' decides at compile time and %s has another value in each sample; where(condition, a, b) "
                   "chooses for each element",
                   what, value_describe(v));
    error_tree(e, t, "'%s' needs true or false, not %s%s", what, value_describe(v),
               v->kind == VALUE_LAYER ? "; a layer is passed by the name of its parameter, as in act = relu" : "");
}

/* ---- pipelines */

static bool is_section(const Tree *t)
{
    while (t->kind == TREE_PIPE)
        t = t->first;
    return t->kind == TREE_SECTION;
}

static Value *apply_step(Elaborator *e, const Tree *step, Value *to)
{
    bool call = step->kind == TREE_CALL;
    Value *callee = eval_callee(e, call ? step->first : step);
    Arguments arguments = {0};
    if (call)
        arguments = eval_arguments(e, step->first->next);
    Value *v = call_layer(e, callee->layer, place_of(e, step), arguments, to, call_key(e, step));
    report_value(e, call ? step->first : step, v);
    return v;
}

static Value *eval_section(Elaborator *e, const Tree *t)
{
    Layer *pipeline = NULL;
    const Tree *step = t->first;
    if (t->kind == TREE_PIPE) {
        Value *before = eval_section(e, t->first);
        pipeline = NEW(Layer);
        *pipeline = *before->layer;
        pipeline->steps = NULL;
        pipeline->step_count = 0;
        for (int k = 0; k < before->layer->step_count; k++)
            APPEND(pipeline->steps, pipeline->step_count, before->layer->steps[k]);
        step = t->first->next;
    } else {
        pipeline = NEW(Layer);
        *pipeline = (Layer){.kind = LAYER_PIPELINE, .name = "pipeline"};
    }
    bool call = step->kind == TREE_CALL;
    Step s = {.layer = eval_callee(e, call ? step->first : step)->layer, .at = place_of(e, step)};
    if (call)
        s.arguments = eval_arguments(e, step->first->next);
    APPEND(pipeline->steps, pipeline->step_count, s);
    if (pipeline->step_count == 1)
        pipeline->name = s.layer->name;
    else
        pipeline->name = "pipeline";
    return value_layer(pipeline);
}

/* Returns whether the shape becomes the first argument of an initializer: if the first parameter is `shape`, or the user's layer
 * has a free parameter. Any other call is an ordinary expression, such as sqrt(c) or zeros([3]). */
static bool takes_shape(const Layer *layer, const Tree *call)
{
    if (layer->kind == LAYER_TYPE)
        return false;
    if (layer->kind == LAYER_BUILTIN)
        return strncmp(layer->builtin->parameters, "shape", 5) == 0;
    if (layer->kind != LAYER_TEXT)
        return true;
    int capacity = tree_count(layer->tree->first);
    const Tree *first = layer->tree->first->first;
    for (const Tree *a = call->first->next->first; a; a = a->next) {
        if (a->kind != TREE_NAMED)
            capacity--;
        else if (first && strcmp(a->text, first->text) == 0)
            return false;
    }
    return first && capacity > 0 && (strcmp(first->text, "shape") == 0 || !layer->tree->source->library);
}

Value *eval_applied(Elaborator *e, const Tree *t, Value *to)
{
    if (t->kind == TREE_CALL && !takes_shape(eval_callee(e, t->first)->layer, t))
        return eval(e, t);
    if (t->kind == TREE_CALL)
        return first_of(apply_step(e, t, to));
    if (t->kind == TREE_PIPE && !is_section(t))
        return first_of(apply_step(e, t->first->next, eval_applied(e, t->first, to)));
    if (t->kind == TREE_CHOICE)
        return eval_applied(e, eval_condition(e, t->first, "if") ? t->first->next : t->first->next->next, to);
    Value *v = eval(e, t);
    if (v->kind != VALUE_LAYER)
        return v;
    return first_of(call_layer(e, v->layer, place_of(e, t), (Arguments){0}, to, call_key(e, t)));
}

/* ---- all expressions */

static Value *eval_list(Elaborator *e, const Tree *t)
{
    int count = tree_count(t), k = 0;
    Value **items = NEW_ARRAY(Value *, count);
    for (const Tree *c = t->first; c; c = c->next)
        items[k++] = eval(e, c);
    return value_list(items, count);
}

static Sub eval_sub(Elaborator *e, const Tree *t)
{
    Sub s = {.kind = t->kind == TREE_DOTS    ? SUB_DOTS
                     : t->kind == TREE_NONE  ? SUB_NEW
                     : t->kind == TREE_SLICE ? SUB_SLICE
                                             : SUB_INDEX,
             .at = place_of(e, t)};
    if (s.kind == SUB_SLICE) {
        s.value = eval(e, t->first);
        s.end = eval(e, t->first->next);
        s.step = t->first->next->next ? eval(e, t->first->next->next) : value_none();
    } else if (s.kind != SUB_DOTS) {
        s.value = eval(e, t);
    }
    return s;
}

static Value *eval_index(Elaborator *e, const Tree *t)
{
    Value *of = eval(e, t->first);
    const Tree *list = t->first->next;
    Subs subs = {.list = NEW_ARRAY(Sub, tree_count(list)), .at = place_of(e, list)};
    for (const Tree *s = list->first; s; s = s->next)
        subs.list[subs.count++] = eval_sub(e, s);
    return subscript(e, place_of(e, t), of, &subs);
}

static Value *eval_name(Elaborator *e, const Tree *t)
{
    Value *v = find_name(e, t->text);
    if (!v)
        unknown_name(e, t, t->text, false);
    if (v->kind == VALUE_TENSOR && !v->node->at) /* run scalars such as step, epoch, progress */
        v->node->at = place_of(e, t);
    return v;
}

static Value *eval_call(Elaborator *e, const Tree *t)
{
    Value *callee = eval_callee(e, t->first);
    Value *v = call_layer(e, callee->layer, place_of(e, t), eval_arguments(e, t->first->next), NULL, call_key(e, t));
    report_value(e, t->first, v);
    return v;
}

/* Reports a field of a PyTorch module, as in nn.Linear, or of self. */
static void check_prefix(Elaborator *e, const Tree *t)
{
    const Tree *root = t->first;
    while (root->kind == TREE_FIELD)
        root = root->first;
    if (root->kind != TREE_NAME || find_name(e, root->text) || find_layer(e, root->text))
        return;
    if (strcmp(root->text, "self") == 0)
        error_tree(e, root,
                   "unknown name 'self'; a layer is called where it is used, as in x |> dense(10), and has its weights there");
    if (!is_module_elsewhere(root->text))
        return;
    const char *here = function_called(t->text), *type = type_called(t->text);
    if (here || find_layer(e, t->text))
        error_tree(e, root, "unknown name '%s'; functions have no prefix here: write %s(...)", root->text, here ? here : t->text);
    if (type)
        error_tree(e, root, "unknown name '%s'; types have no prefix here: write %s", root->text, type);
    const char *topic = topic_called(t->text);
    error_tree(e, root, "unknown name '%s'; functions have no prefix here, and none is called '%s': %s", root->text, t->text,
               topic ? topic : "mgpuc doc lists all");
}

static Value *eval_kind(Elaborator *e, const Tree *t)
{
    switch (t->kind) {
    case TREE_NUMBER: return number_literal(e, t);
    case TREE_QUANTITY: return quantity_literal(e, t);
    case TREE_STRING: return value_text(t->text);
    case TREE_BOOL: return value_bool(t->text[0] == 't');
    case TREE_NONE: return value_none();
    case TREE_NAME: return eval_name(e, t);
    case TREE_LIST: return eval_list(e, t);
    case TREE_CALL: return eval_call(e, t);
    case TREE_FIELD: check_prefix(e, t); return field(e, place_of(e, t), eval(e, t->first), t->text);
    case TREE_INDEX: return eval_index(e, t);
    case TREE_UNARY: return eval_unary(e, t);
    case TREE_BINARY: {
        if (strcmp(t->text, "and") == 0 || strcmp(t->text, "or") == 0)
            return eval_logic(e, t);
        Value *a = eval(e, t->first), *b = eval(e, t->first->next);
        return eval_binary(e, place_of(e, t), t->text, a, b);
    }
    case TREE_CHOICE: return eval_results(e, eval_condition(e, t->first, "if") ? t->first->next : t->first->next->next);
    case TREE_SECTION: return eval_section(e, t);
    case TREE_PIPE:
        if (is_section(t))
            return eval_section(e, t);
        return apply_step(e, t->first->next, eval(e, t->first));
    default: die("a tree of kind %s is no expression", tree_kind_name(t->kind));
    }
}

Value *eval_results(Elaborator *e, const Tree *t)
{
    if (++e->depth > MAX_DEPTH)
        last_error_at(place_of(e, t), "calls and expressions are nested too deep; give parts of them names");
    Value *v = eval_kind(e, t);
    e->depth--;
    return v;
}

Value *eval(Elaborator *e, const Tree *t) { return first_of(eval_results(e, t)); }
