/* outline.c: makes an outline of the evaluation: the library layers that compute it, their arguments, and the tensors that pass
 * from one to the next. Programs carry it for `export`, which needs more than the weights.
 *
 * In: the user's calls of library layers, recorded in the evaluation pass (begin_record, end_record), and the pass's graph. Out:
 * model->outline: a row for each of these calls and for each input, variable and primitive outside of them, before the rows that
 * use it. Views (reshapes, slices with step 1, ...) have no rows. A tensor argument is an option whose name ends with *; its
 * items are the row that makes the tensor, the index of the first element that the tensor takes of that row (-1 if index and
 * extents do not determine its elements), then its extents. A layer argument is the layer's name, then its pipeline's
 * arguments. */
#include "dsl/elaborate.h"

#include <math.h>
#include <string.h>

struct RecordedCall {
    DataCall call;
    Node **from; /* for each option: the tensor, or NULL */
    int from_count;
    Node **made; /* the results */
    int made_count;
};
typedef struct Outline {
    Elaborator *e;
    int *row_of;  /* for each node: row + 1, or 0 if it has none yet */
    int *call_of; /* for each node: 1 + the call whose result it is, or 0 */
} Outline;

static void add_option(DataCall *c, const char *name, const DataItem *items, int count)
{
    DataOption o = {.name = name};
    for (int i = 0; i < count; i++)
        APPEND(o.items, o.count, items[i]);
    APPEND(c->options, c->option_count, o);
}

/* The emitted C has no literal for infinity, so it becomes a text. */
static DataItem number_item(double v)
{
    DataItem item = {isinf(v) ? v < 0 ? "-inf" : "inf" : NULL, isinf(v) ? 0 : v};
    return item;
}

/* Adds the layer's name and the arguments of a pipeline of one step, in order. */
static void add_layer_option(DataCall *c, const char *name, const Layer *layer)
{
    DataOption o = {.name = name};
    const Step *step = layer->kind == LAYER_PIPELINE && layer->step_count == 1 ? &layer->steps[0] : NULL;
    DataItem item = {step ? step->layer->name : layer->name ? layer->name : "", 0};
    APPEND(o.items, o.count, item);
    for (int k = 0; step && k < step->arguments.count; k++) {
        const Value *v = step->arguments.list[k].value;
        item = (DataItem){value_describe(v), 0};
        if (v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL)
            item = number_item(v->kind == VALUE_BOOL ? (double)v->i : number_of(v));
        APPEND(o.items, o.count, item);
    }
    APPEND(c->options, c->option_count, o);
}

/* Adds a list of numbers. A list with other elements gets an option without items. */
static void add_list_option(DataCall *c, const char *name, const Value *list)
{
    DataOption o = {.name = name};
    for (int k = 0; k < list->count && list->items[k]->kind == VALUE_NUMBER; k++)
        APPEND(o.items, o.count, number_item(number_of(list->items[k])));
    o.count = o.count == list->count ? o.count : 0;
    APPEND(c->options, c->option_count, o);
}

/* Runs before the body, which may assign to the parameters. */
struct RecordedCall *begin_record(Elaborator *e, const Layer *layer, const char *const *names, int count, const Place *at)
{
    struct RecordedCall *n = NEW(struct RecordedCall);
    n->call = (DataCall){.name = layer->name, .at = at};
    DataItem path = {e->frame->instance->names->path, 0};
    Node *none = NULL;
    add_option(&n->call, "path", &path, 1);
    APPEND(n->from, n->from_count, none);
    for (int k = 0; k < count; k++) {
        const Value *v = map_get(&e->frame->locals, names[k]);
        DataItem item = number_item(v->kind == VALUE_NUMBER ? number_of(v) : (double)v->i);
        item.text = v->kind == VALUE_STRING ? v->text : item.text;
        Node *from = v->kind == VALUE_TENSOR ? v->node : NULL;
        bool plain = v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL || v->kind == VALUE_STRING;
        if (v->kind == VALUE_LAYER)
            add_layer_option(&n->call, names[k], v->layer);
        else if (v->kind == VALUE_LIST)
            add_list_option(&n->call, names[k], v);
        else if (plain || from || v->kind == VALUE_NONE)
            add_option(&n->call, from ? format("%s*", names[k]) : names[k], &item, plain);
        else
            continue;
        APPEND(n->from, n->from_count, from);
    }
    return n;
}

static bool is_argument(const struct RecordedCall *n, const Node *made)
{
    for (int k = 0; k < n->from_count; k++)
        if (n->from[k] == made)
            return true;
    return false;
}

/* Records the call's results. A layer that returns its argument, as dropout does in evaluation, makes none. */
void end_record(Elaborator *e, struct RecordedCall *n, const Value *result)
{
    int number = e->recorded_call_count + 1;
    APPEND(e->recorded_calls, e->recorded_call_count, *n);
    for (int k = 0; k < (result->kind == VALUE_RESULTS ? result->count : 1); k++) {
        const Value *v = result->kind == VALUE_RESULTS ? result->items[k] : result;
        if ((v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED) && v->node->graph == e->top && !is_argument(n, v->node))
            APPEND(e->recorded_calls[number - 1].made, e->recorded_calls[number - 1].made_count, v->node);
    }
}

static bool has_steps(const Node *slice)
{
    int rank = slice->shape.rank;
    for (int k = 0; k < rank; k++)
        if (slice->ints[2 * rank + k] != 1)
            return true;
    return false;
}

static bool is_view(const Node *n)
{
    bool stretch = n->op == OP_SLICE && !has_steps(n);
    return stretch || n->op == OP_RESHAPE || n->op == OP_BROADCAST || n->op == OP_STOP_GRADIENT || n->op == OP_CAST ||
           n->op == OP_RESULT;
}

/* True if the slice is contiguous, or if it takes one element of each leading index and the view has several axes. */
static bool is_contiguous(const Node *slice, bool one_axis)
{
    const Shape *from = &slice->in[0]->shape, *to = &slice->shape;
    int axis = 0;
    int64_t before = 1;
    while (axis < to->rank && to->extent[axis] == from->extent[axis])
        before *= to->extent[axis++];
    for (int k = axis + 1; k < to->rank; k++)
        if (to->extent[k] != from->extent[k])
            return false;
    return axis == to->rank || before == 1 || (!one_axis && before == to->extent[0]);
}

/* Returns the node that has a row. *first is the index of the element that the view begins with, or -1 if this index and the
 * extents do not determine the view's elements. */
static const Node *seen(const Outline *o, const Node *n, double *first)
{
    bool repeated = false, placed = true, one_axis = n->shape.rank < 2;
    for (*first = 0; !o->call_of[n->id] && is_view(n); n = n->in[0]) {
        double step = 1;
        placed = placed && !(n->op == OP_SLICE && (repeated || !is_contiguous(n, one_axis)));
        repeated = repeated || n->op == OP_BROADCAST;
        for (int k = n->op == OP_SLICE ? n->shape.rank - 1 : -1; k >= 0; step *= (double)n->in[0]->shape.extent[k--])
            *first += step * (double)n->ints[k];
    }
    *first = placed ? *first : -1;
    return n;
}

static int row_of(Outline *o, const Node *n);

static void link_tensor(Outline *o, DataOption *option, const Node *n)
{
    DataItem row = {0}, first = {0};
    row.number = row_of(o, seen(o, n, &first.number));
    option->items = NULL;
    option->count = 0;
    APPEND(option->items, option->count, row);
    APPEND(option->items, option->count, first);
    for (int axis = 0; axis < n->shape.rank; axis++) {
        DataItem extent = {NULL, (double)n->shape.extent[axis]};
        APPEND(option->items, option->count, extent);
    }
}

enum { MOST_VALUES = 16 /* of a constant, such as one for each channel of a picture */ };
/* Returns the row of a node that no recorded call has made. */
static DataCall primitive(Outline *o, const Node *n)
{
    const Model *m = o->e->model;
    DataCall c = {.name = n->op == OP_COMPOSITE ? n->text : OP_INFO[n->op].name, .at = n->at};
    DataItem item = {n->path, 0};
    if (n->op == OP_INPUT)
        item.text = m->inputs[n->ints[0]].name;
    if (n->op == OP_VARIABLE)
        item.text = m->variables[n->ints[0]].name;
    add_option(&c, "path", &item, 1);
    if (n->op == OP_CONSTANT && n->data_count <= MOST_VALUES) {
        add_option(&c, "value", NULL, 0);
        DataOption *value = &c.options[c.option_count - 1];
        for (int k = 0; k < n->data_count; k++)
            APPEND(value->items, value->count, number_item(n->data[k]));
    }
    item.text = n->text;
    if (n->op == OP_EINSUM)
        add_option(&c, "axes", &item, 1);
    for (int k = 0; k < n->inputs; k++) {
        add_option(&c, format("%c*", 'a' + k % 26), &item, 0);
        link_tensor(o, &c.options[c.option_count - 1], n->in[k]);
    }
    return c;
}

static int row_of(Outline *o, const Node *n)
{
    Model *m = o->e->model;
    if (o->row_of[n->id])
        return o->row_of[n->id] - 1;
    DataCall c;
    if (o->call_of[n->id]) {
        struct RecordedCall *noted = &o->e->recorded_calls[o->call_of[n->id] - 1];
        c = noted->call;
        for (int k = 0; k < c.option_count; k++)
            if (noted->from[k])
                link_tensor(o, &c.options[k], noted->from[k]);
    } else {
        c = primitive(o, n);
    }
    o->row_of[n->id] = m->outline_count + 1;
    APPEND(m->outline, m->outline_count, c);
    return m->outline_count - 1;
}

/* Models of families (stdlib/families.rules) have attention or one of these weights. Other models need no outline. */
static bool may_be_of_a_family(const Elaborator *e)
{
    static const char *const KNOWN[] = {"layer1.0.conv1.weight", "embedder.embedder.convolution.weight",
                                        "downsample_layers.0.0.weight", "embeddings.patch_embeddings.weight"};
    for (int i = 0; i < e->recorded_call_count; i++)
        if (strcmp(e->recorded_calls[i].call.name, "attention") == 0)
            return true;
    for (int i = 0; i < e->model->variable_count; i++)
        for (int k = 0; k < COUNT(KNOWN); k++) {
            const char *name = e->model->variables[i].name;
            size_t length = strlen(name), end = strlen(KNOWN[k]);
            if (length >= end && strcmp(name + length - end, KNOWN[k]) == 0)
                return true;
        }
    return false;
}

void outline(Elaborator *e)
{
    const Graph *g = e->model->eval;
    if (!may_be_of_a_family(e))
        return;
    Outline o = {.e = e, .row_of = NEW_ARRAY(int, g->node_count), .call_of = NEW_ARRAY(int, g->node_count)};
    double first;
    for (int i = 0; i < e->recorded_call_count; i++)
        for (int k = 0; k < e->recorded_calls[i].made_count; k++)
            o.call_of[e->recorded_calls[i].made[k]->id] = i + 1;
    for (int i = 0; i < g->result_count; i++)
        row_of(&o, seen(&o, g->results[i].value, &first));
}
