/* function.c: compile-time functions: lists, numbers, shared, weighted, rates, and functions of the train block. */
#include "dsl/settings.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const Value *list_of(const Place *at, const Value *v, const char *function)
{
    if (v->kind == VALUE_TENSOR)
        error_at(at, "%s needs a list, not %s; a tensor's sizes are in .shape", function, value_describe(v));
    if (v->kind != VALUE_LIST)
        error_at(at, "%s needs a list, not %s", function, value_describe(v));
    return v;
}

static int list_length(const Place *at, int64_t n)
{
    if (n > LONGEST_LIST)
        error_at(at, "a list of %" PRId64 " elements is too long: at most %d are possible", n, LONGEST_LIST);
    return n < 0 ? 0 : (int)n;
}

static Value *run_len(Elaborator *e, const Place *at, Value **a)
{
    (void)e;
    if (a[0]->kind == VALUE_STRING)
        return value_whole((int64_t)strlen(a[0]->text));
    return value_whole(list_of(at, a[0], "len")->count);
}

static Value *run_range(Elaborator *e, const Place *at, Value **a)
{
    (void)e;
    int64_t start = 0, end, step = whole_of(at, a[2], "range's step"), length;
    end = whole_of(at, a[0], "range's bound");
    if (a[1]->kind != VALUE_NONE) {
        start = end;
        end = whole_of(at, a[1], "range's bound");
    }
    if (step == 0)
        error_at(at, "range: the step must not be 0");
    if (__builtin_sub_overflow(end, start, &length) || step == INT64_MIN)
        error_at(at, "range: its numbers do not fit 64 bits");
    if (step > 0)
        length = length > 0 ? (length - 1) / step + 1 : 0;
    else
        length = length < 0 ? -(length + 1) / -step + 1 : 0;
    int n = list_length(at, length);
    Value **items = NEW_ARRAY(Value *, n);
    for (int k = 0; k < n; k++)
        items[k] = value_whole(start + k * step);
    return value_list(items, n);
}

static Value *pair(Value *a, Value *b)
{
    Value **items = NEW_ARRAY(Value *, 2);
    items[0] = a;
    items[1] = b;
    return value_list(items, 2);
}

static Value *run_enumerate(Elaborator *e, const Place *at, Value **a)
{
    (void)e;
    const Value *list = list_of(at, a[0], "enumerate");
    int64_t start = whole_of(at, a[1], "enumerate's start"), number;
    Value **items = NEW_ARRAY(Value *, list->count);
    for (int k = 0; k < list->count; k++) {
        if (__builtin_add_overflow(start, k, &number))
            error_at(at, "enumerate: its numbers do not fit 64 bits");
        items[k] = pair(value_whole(number), list->items[k]);
    }
    return value_list(items, list->count);
}

static Value *run_zip(Elaborator *e, const Place *at, Value **a)
{
    (void)e;
    int lists = BUILTIN_PARAMETERS;
    while (lists > 2 && a[lists - 1]->kind == VALUE_NONE) /* arguments that are not given */
        lists--;
    int count = list_of(at, a[0], "zip")->count;
    for (int k = 1; k < lists; k++)
        if (list_of(at, a[k], "zip")->count != count)
            error_at(at, "zip needs lists of equal lengths, not %d and %d", count, a[k]->count);
    Value **items = NEW_ARRAY(Value *, count);
    for (int k = 0; k < count; k++) {
        Value **row = NEW_ARRAY(Value *, lists);
        for (int n = 0; n < lists; n++)
            row[n] = a[n]->items[k];
        items[k] = value_list(row, lists);
    }
    return value_list(items, count);
}

static Value *run_repeat(Elaborator *e, const Place *at, Value **a)
{
    (void)e;
    int n = list_length(at, whole_of(at, a[1], "repeat's count"));
    Value **items = NEW_ARRAY(Value *, n);
    for (int k = 0; k < n; k++)
        items[k] = a[0];
    return value_list(items, n);
}

static Value *run_is_list(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return value_bool(a[0]->kind == VALUE_LIST);
}

/* ---- shared and weighted */

static Value *run_shared(Elaborator *e, const Place *at, Value **a)
{
    if (a[0]->kind != VALUE_LAYER)
        error_at(at, "shared needs a layer, not %s", value_describe(a[0]));
    if (!e->frame->instance)
        error_at(at, "'shared' makes a layer with weights: it belongs in a model or a layer");
    Argument name = {.value = a[1], .at = at};
    if (a[1]->kind == VALUE_NONE && e->shared_name)
        name.value = value_text(e->shared_name);
    bool named = name.value->kind != VALUE_NONE;
    Layer *l = NEW(Layer);
    *l = (Layer){.kind = LAYER_SHARED,
                 .name = a[0]->layer->name,
                 .inner = a[0]->layer,
                 .instance = child_instance(e, e->key, "shared", named ? &name : NULL, at)};
    return value_layer(l);
}

static Value *run_weighted(Elaborator *e, const Place *at, Value **a)
{
    Value *x = a[0];
    if (a[1]->kind == VALUE_WEIGHTED)
        error_at(at, "the weights are themselves a weighted value; take it apart with .value and .weight");
    Node *weight = float_node(e, node_of(e, at, a[1], "the weight")), *value;
    Graph *g = graph_at(e, at);
    if (x->kind == VALUE_WEIGHTED) {
        value = x->node;
        weight = graph_binary(g, OP_MUL, x->weight, weight);
    } else {
        value = float_node(e, node_of(e, at, x, "what is weighted"));
    }
    Shape shape = broadcast_shapes(at, &value->shape, &weight->shape, "weighted");
    if (!shape_equal(&shape, &value->shape))
        value = graph_broadcast(graph_at(e, at), value, shape);
    return weighted_value(e, at, value, weight);
}

/* ---- rates */

static Value *run_portion(Elaborator *e, const Place *at, Value **a)
{
    const Value *q = a[0];
    if (q->kind == VALUE_NUMBER)
        error_at(at, "%s is a number without a unit; write %ssteps, %sepochs or %ssamples", value_print(q), value_print(q),
                 value_print(q), value_print(q));
    if (q->kind != VALUE_QUANTITY ||
        (strcmp(q->text, "steps") != 0 && strcmp(q->text, "epochs") != 0 && strcmp(q->text, "samples") != 0))
        error_at(at, "portion needs a quantity of steps, epochs or samples, not %s", value_describe(q));
    if (q->d == 0)
        return value_whole(0);
    Graph *g = graph_at(e, at);
    bool epochs = q->text[0] == 'e';
    double amount = q->text[1] == 'a' ? q->d / (double)(e->batch ? e->batch : 1) : q->d;
    Node *all = graph_run(g, epochs ? RUN_TOTAL_EPOCHS : RUN_TOTAL_STEPS, 0);
    return value_tensor(graph_binary(g, OP_DIV, graph_weak(g, amount), all));
}

static Value *run_scaled(Elaborator *e, const Place *at, Value **a)
{
    double base = (double)whole_of(at, a[1], "scaled's base");
    if (base < 1)
        error_at(at, "scaled's base is a number of samples, at least 1");
    e->scales_rate = true;
    return eval_binary(e, at, "*", a[0], value_double((double)(e->batch ? e->batch : 1) / base));
}

/* The rate times a factor that the runtime lowers when validation stops improving; until then it is 1. */
static Value *run_plateau(Elaborator *e, const Place *at, Value **a)
{
    enum { MOST_SETTINGS = 32 }; /* slots in the step block */
    Model *m = e->model;
    Plateau p = {.setting = m->setting_count, .factor = 0.1, .patience = {10, UNIT_TIMES}, .watch = {"loss", false, at}};
    if (e->frame->kind != FRAME_TRAIN && e->frame->kind != FRAME_RULE)
        error_at(at, "plateau is a rate: it belongs in the train block, as in lr = plateau(0.1)");
    if (a[0]->kind != VALUE_NUMBER && a[0]->kind != VALUE_TENSOR)
        error_at(at, "plateau takes a number or a rate, not %s", value_describe(a[0]));
    if (a[1]->kind != VALUE_NONE)
        p.watch = watch_value(at, a[1], "plateau's metric");
    if (a[2]->kind != VALUE_NONE && (a[2]->kind != VALUE_NUMBER || !(number_of(a[2]) > 0 && number_of(a[2]) < 1)))
        error_at(at, "plateau's factor is a number between 0 and 1, not %s", value_describe(a[2]));
    if (a[2]->kind != VALUE_NONE)
        p.factor = number_of(a[2]);
    if (a[3]->kind != VALUE_NONE)
        p.patience = patience_value(at, a[3], "plateau's patience");
    if (a[4]->kind != VALUE_NUMBER || number_of(a[4]) < 0)
        error_at(at, "plateau's least, below which the rate does not fall, is a number from 0 on, not %s", value_describe(a[4]));
    if (m->setting_count == MOST_SETTINGS)
        error_at(at, "at most %d plateaus are possible in a train block", MOST_SETTINGS - 2);
    Setting s = {.name = m->plateau_count ? format("plateau_%d", m->plateau_count + 1) : "plateau",
                 .value = NAN,
                 .at = at,
                 .hidden = true};
    APPEND(m->settings, m->setting_count, s);
    APPEND(m->plateaus, m->plateau_count, p);
    Graph *g = graph_at(e, at);
    Node *given = graph_run(g, RUN_SETTING, p.setting), *lr = node_of(e, at, a[0], "plateau's rate");
    Node *one = graph_weak(g, 1), *scale = graph_where(g, graph_binary(g, OP_EQ, given, given), given, one);
    Node *product = graph_binary(g, OP_MUL, lr, scale);
    if (number_of(a[4]) > 0)
        product = graph_binary(g, OP_MAXIMUM, product, graph_weak(g, number_of(a[4])));
    return value_tensor(product);
}

static Value *run_file(Elaborator *e, const Place *at, Value **a)
{
    if (!e->in_init)
        error_at(at, "file(...) is an initialiser: it comes after the '=' of a weight or state");
    if (a[0]->kind == VALUE_STRING) /* file(...) is an operand of an expression: nobody has passed it a shape */
        error_at(at, "file(...) is the whole initial value or no part of it: the program reads the file when it starts");
    if (a[1]->kind != VALUE_STRING || !a[1]->text[0])
        error_at(at, "file needs the path of a .npy file, not %s", value_describe(a[1]));
    Shape shape = shape_from_value(at, a[0], "what file fills");
    e->file_path = a[1]->text;
    return e->file_value = value_tensor(graph_fill(graph_at(e, at), 0, shape, F32));
}

/* ---- functions of the train block: each returns the list [its name, its argument] */

static Value *choice(const char *kind, Value *of) { return pair(value_text(kind), of); }
static Value *run_by_norm(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("by_norm", a[0]);
}
static Value *run_by_value(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("by_value", a[0]);
}
static Value *run_by_maximum(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("by_maximum", a[0]);
}
static Value *run_adaptive(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("adaptive", a[0]);
}
static Value *run_highest(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("highest", a[0]);
}
static Value *run_lowest(Elaborator *e, const Place *at, Value **a)
{
    (void)e, (void)at;
    return choice("lowest", a[0]);
}

const Builtin COMPILE_TIME[] = {
    {"len", "list", run_len},
    {"range", "start, end = none, step = 1", run_range},
    {"enumerate", "list, start = 0", run_enumerate},
    {"zip",
     "a, b, c = none, d = none, e = none, f = none, g = none, h = none, i = none, j = none, k = none, l = none, m = none, n = none, "
     "o = none, p = none",
     run_zip},
    {"repeat", "value, count", run_repeat},
    {"is_list", "value", run_is_list},
    {"shared", "layer, name = none", run_shared},
    {"weighted", "values, weights", run_weighted},
    {"weights", "y, names = \"*\"", run_weights},
    {"portion", "quantity", run_portion},
    {"scaled", "lr, base = 256", run_scaled},
    {"plateau", "lr, metric = none, factor = none, patience = none, least = 0", run_plateau},
    {"file", "shape, path = none", run_file},
    {"by_norm", "limit", run_by_norm},
    {"by_value", "limit", run_by_value},
    {"by_maximum", "limit", run_by_maximum},
    {"adaptive", "limit", run_adaptive},
    {"highest", "metric", run_highest},
    {"lowest", "metric", run_lowest},
    {NULL, NULL, NULL},
};
