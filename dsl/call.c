/* call.c: calls: binding arguments to parameters, shape patterns, running the body in its own scope; pipelines, shared layers,
 * and library layers that become composite nodes. */
#include "dsl/elaborate.h"

#include "compiler/passes/stages.h"
#include "dsl/foreign_names.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 200 };

/* ---- arguments */

Arguments eval_arguments(Elaborator *e, const Tree *args)
{
    Arguments a = {0};
    for (const Tree *t = args->first; t; t = t->next) {
        bool named = t->kind == TREE_NAMED;
        const Tree *outer = e->argument;
        e->argument = named ? t->first : t;
        Argument one = {.name = named ? t->text : NULL, .value = eval(e, named ? t->first : t), .at = place_of(e, t)};
        e->argument = outer;
        Memory *memory = memory_use(e->brief);
        APPEND(a.list, a.count, one);
        memory_use(memory);
    }
    return a;
}

static const char *list_names(const char *const *names, int count)
{
    Text t = {0};
    for (int k = 0; k < count; k++)
        text_add(&t, "%s%s", k ? ", " : "", names[k]);
    return copy_text(text_of(&t), t.length);
}

void bind_arguments(const char *layer, const char *const *names, int count, Arguments a, Value *piped, const Place *at,
                    Value **result, const Place **places)
{
    int next = 0;
    bool by_name = false;
    if (piped) {
        if (count == 0)
            error_at(at, "'%s' takes no argument", layer);
        result[0] = piped;
        places[0] = at;
        next = 1;
    }
    for (int k = 0; k < a.count; k++) {
        const Argument *one = &a.list[k];
        int to = -1;
        if (!one->name) {
            if (by_name)
                error_at(one->at, "'%s': arguments by position come before those by name", layer);
            if (next >= count)
                error_at(one->at, "'%s' takes %d argument%s (%s), more are given", layer, count, count == 1 ? "" : "s",
                         list_names(names, count));
            to = next++;
        } else {
            by_name = true;
            for (int n = 0; n < count; n++)
                if (strcmp(names[n], one->name) == 0)
                    to = n;
            if (to < 0) {
                const char *here = parameter_called(one->name, names, count), *topic = topic_called(one->name),
                           *hint = did_you_mean(one->name, names, count);
                error_at(one->at, "'%s' has no parameter '%s'%s", layer, one->name,
                         here      ? format("; it is called '%s'", here)
                         : topic   ? format("; %s", topic)
                         : hint[0] ? hint
                         : count   ? format("; it has: %s", list_names(names, count))
                                   : "");
            }
            if (result[to])
                error_at(one->at, "'%s': the argument '%s' is given twice", layer, one->name);
        }
        result[to] = one->value;
        places[to] = one->at;
    }
}

/* Removes `name = ...` from the arguments and returns it, unless the layer has a parameter of this name. */
static const Argument *take_name(const Elaborator *e, Arguments *a, const char *const *names, int count)
{
    for (int n = 0; n < count; n++)
        if (strcmp(names[n], "name") == 0)
            return NULL;
    const Argument *found = NULL;
    for (int k = 0; k < a->count && !found; k++)
        if (a->list[k].name && strcmp(a->list[k].name, "name") == 0)
            found = &a->list[k];
    if (!found)
        return NULL;
    Memory *outer = memory_use(e->brief);
    Arguments rest = {0};
    for (int k = 0; k < a->count; k++)
        if (&a->list[k] != found)
            APPEND(rest.list, rest.count, a->list[k]);
    memory_use(outer);
    *a = rest;
    return found;
}

/* ---- shape patterns */

typedef struct ShapeCheck {
    const Tree *dim;
    const char *param;
    int64_t extent;
    int rank;
    Shape shape;
    const Place *at;
} ShapeCheck;
typedef struct Binding {
    const Layer *layer;
    const char **names;
    Value **values;
    const Place **places;
    int count;
    /* patterns that are expressions or names of other parameters, checked after the defaults are evaluated */
    ShapeCheck *checks;
    int check_count;
} Binding;

static bool is_parameter(const Binding *b, const char *name)
{
    for (int k = 0; k < b->count; k++)
        if (strcmp(b->names[k], name) == 0)
            return true;
    return false;
}

static void check_type(const Binding *b, const Tree *type, const char *param, const Node *n, const Place *at)
{
    Dtype dtype;
    if (!type->text)
        return;
    if (strcmp(type->text, "class") == 0) {
        if (dtype_is_float(n->dtype) || n->dtype == BOOL)
            error_at(at, "%s: '%s' must be of a type class(n), not %s", b->layer->name, param, dtype_name(n->dtype));
        return;
    }
    if (!dtype_by_name(type->text, &dtype))
        return; /* reported at the type itself */
    bool fits = dtype_is_float(dtype) && dtype != F64 ? dtype_is_float(n->dtype) : n->dtype == dtype || n->weak;
    if (!fits)
        error_at(at, "%s: '%s' is %s, %s expected; %s(...) casts it", b->layer->name, param, dtype_name(n->dtype), type->text,
                 type->text);
}

static void bind_extent(Elaborator *e, Binding *b, const Tree *dim, const char *param, const Node *n, int axis, const Place *at)
{
    int64_t extent = n->shape.extent[axis];
    if (dim->kind == TREE_NAME) {
        const Value *known = map_get(&e->frame->locals, dim->text);
        if (known && known->kind == VALUE_NUMBER) {
            if (number_of(known) != (double)extent)
                error_at(at, "%s: an axis of '%s' is %" PRId64 ", %s expected ('%s' is %s)", b->layer->name, param, extent,
                         value_print(known), dim->text, value_print(known));
            return;
        }
        if (!known && !is_parameter(b, dim->text)) {
            set_local(e, dim->text, value_whole(extent));
            return;
        }
    }
    ShapeCheck c = {.dim = dim, .param = param, .extent = extent, .at = at};
    APPEND(b->checks, b->check_count, c);
}

/* Returns an example of a call such as "x |> dense(width)". */
static const char *first_example(const Layer *layer)
{
    Text t = {0};
    const Tree *first = layer->tree->first->first;
    text_add(&t, "%s |> %s(", first->text, layer->name);
    for (const Tree *p = first->next; p && p->kind == TREE_REQUIRED; p = p->next)
        text_add(&t, "%s%s", p == first->next ? "" : ", ", p->text);
    text_add(&t, ")");
    return text_of(&t);
}

static void bind_pattern(Elaborator *e, Binding *b, const Tree *param, const Place *at)
{
    const Tree *type = param->first, *dims = NULL;
    const char *name = param->text;
    if (!type || type->kind != TREE_TYPE)
        return;
    for (const Tree *c = type->first; c; c = c->next)
        if (c->kind == TREE_DIMS)
            dims = c;
    Value *v = map_get(&e->frame->locals, name);
    if (v->kind == VALUE_NONE)
        return;
    if (v->kind != VALUE_TENSOR && v->kind != VALUE_NUMBER && v->kind != VALUE_LIST && v->kind != VALUE_BOOL &&
        v->kind != VALUE_WEIGHTED)
        error_at(at, "%s: '%s' must be a tensor, not %s", b->layer->name, name, value_describe(v));
    Node *n = v->kind == VALUE_WEIGHTED ? v->node : node_of(e, at, v, format("'%s'", name));
    if (v->kind != VALUE_WEIGHTED)
        set_local(e, name, value_tensor(n));
    check_type(b, type, name, n, at);
    int count = 0, dots = 0;
    for (const Tree *d = dims ? dims->first : NULL; d; d = d->next)
        count++, dots += d->kind == TREE_DOTS;
    if (dots > 1)
        error_tree(e, dims, "'...' may be in a pattern once");
    if (count == 1 && !dots && dims->first->kind != TREE_NAME && dims->first->kind != TREE_NUMBER) {
        ShapeCheck c = {.dim = dims->first,
                        .param = name,
                        .extent = n->shape.rank == 1 ? n->shape.extent[0] : -1,
                        .rank = 1,
                        .shape = n->shape,
                        .at = at};
        APPEND(b->checks, b->check_count, c); /* the pattern may be a list, which is the whole shape */
        return;
    }
    bool first = param == b->layer->tree->first->first;
    if (v->kind == VALUE_NUMBER && first && !n->shape.rank && count - dots > 0)
        error_at(at, "%s: '%s' is a number; it must be a tensor, whose extents are known, as in %s", b->layer->name, name,
                 first_example(b->layer));
    if (dots ? n->shape.rank < count - 1 : n->shape.rank != count)
        error_at(at, "%s: '%s' is %s, of %d ax%s; %s%d %s expected", b->layer->name, name, shape_text(&n->shape), n->shape.rank,
                 n->shape.rank == 1 ? "is" : "es", dots ? "at least " : "", dots ? count - 1 : count,
                 (dots ? count - 1 : count) == 1 ? "is" : "are");
    int axis = 0;
    for (const Tree *d = dims ? dims->first : NULL; d; d = d->next) {
        if (d->kind == TREE_DOTS)
            axis += n->shape.rank - (count - 1);
        else
            bind_extent(e, b, d, name, n, axis++, at);
    }
}

static void run_checks(Elaborator *e, const Binding *b)
{
    for (int k = 0; k < b->check_count; k++) {
        const ShapeCheck *c = &b->checks[k];
        Value *want = eval(e, c->dim);
        if (want->kind == VALUE_NONE)
            continue;
        if (c->rank && want->kind == VALUE_LIST) {
            Shape s = shape_from_value(c->at, want, "a pattern");
            if (!shape_equal(&s, &c->shape))
                error_at(c->at, "%s: '%s' is %s, %s expected", b->layer->name, c->param, shape_text(&c->shape), shape_text(&s));
            continue;
        }
        if (c->extent < 0)
            error_at(c->at, "%s: '%s' is %s, one axis is expected", b->layer->name, c->param, shape_text(&c->shape));
        if (whole_of(place_of(e, c->dim), want, "the extent of an axis") != c->extent)
            error_at(c->at, "%s: an axis of '%s' is %" PRId64 ", %s expected", b->layer->name, c->param, c->extent,
                     value_print(want));
    }
}

/* Returns a hint on a missing argument. A call that is an argument and lacks its first one was probably meant as a layer. A call
 * whose first argument is a number and that lacks a later one probably lacks the tensor. */
static const char *missing_hint(const Elaborator *e, const Layer *layer, const Value *x, const Place *at, bool first)
{
    const Tree *t = e->argument, *type = layer->tree && layer->tree->first->first ? layer->tree->first->first->first : NULL;
    if (!first && x && x->kind == VALUE_NUMBER && type && type->kind == TREE_TYPE)
        return format("; the tensor comes first, as in %s", first_example(layer));
    bool passed = t && t->kind == TREE_CALL && t->source == at->source && t->line == at->line && t->column == at->column;
    return first && passed ? format("; to pass it as a layer, write |> %s(...)", layer->name) : "";
}

/* Binds arguments, patterns and defaults in the layer's frame, before the body runs. */
static void bind_parameters(Elaborator *e, Binding *b, const Place *at)
{
    const Tree *params = b->layer->tree->first;
    int k = 0;
    for (const Tree *p = params->first; p; p = p->next, k++) {
        if (b->values[k])
            set_local(e, b->names[k], b->values[k]);
        else if (p->kind == TREE_REQUIRED)
            error_at(at, "'%s' needs an argument '%s'%s", b->layer->name, b->names[k],
                     missing_hint(e, b->layer, b->values[0], at, k == 0));
    }
    k = 0;
    for (const Tree *p = params->first; p; p = p->next, k++)
        if (b->values[k])
            bind_pattern(e, b, p, b->places[k]);
    k = 0;
    for (const Tree *p = params->first; p; p = p->next, k++) {
        if (b->values[k])
            continue;
        set_local(e, b->names[k], eval(e, p->last));
        bind_pattern(e, b, p, at);
    }
    run_checks(e, b);
    for (const Tree *p = params->first; p; p = p->next)
        report_value(e, p, map_get(&e->frame->locals, p->text));
}

/* ---- composites */

static double composite_number(const Value *v)
{
    if (v->kind == VALUE_NUMBER)
        return number_of(v);
    if (v->kind == VALUE_BOOL)
        return (double)v->i;
    if (v->kind == VALUE_STRING && strcmp(v->text, "batch") == 0)
        return 0;
    if (v->kind == VALUE_STRING && strcmp(v->text, "shard") == 0)
        return -1;
    return NAN;
}

static bool is_composite(const Elaborator *e, const Layer *layer, bool training)
{
    return layer->tree->source->library && e->in_model && e->graph == e->top && composite_known(layer->name, training);
}

/* True for calls by the user's text in the evaluation pass, outside of scans. */
static bool is_outlined(const Elaborator *e, const Layer *layer)
{
    return layer->tree->source->library && !e->frame->library && e->in_model && !e->training_pass && !e->in_init &&
           e->graph == e->top;
}

/* Returns the layer's `training`. A frozen instance runs as in evaluation, whatever the caller's `training` is. */
static bool is_training(const Elaborator *e, const Instance *instance)
{
    if (!e->in_model || e->in_init)
        return e->frame->training;
    return e->training_pass && !is_frozen(e, instance->names->path);
}

static Value *run_composite(Elaborator *e, const Binding *b, const Tree *block)
{
    Graph *outer = e->graph;
    double *numbers = NULL;
    int number_count = 0;
    for (int k = 0; k < b->count; k++) {
        const Value *v = map_get(&e->frame->locals, b->names[k]);
        if (v->kind == VALUE_NUMBER || v->kind == VALUE_BOOL || v->kind == VALUE_STRING || v->kind == VALUE_NONE)
            APPEND(numbers, number_count, composite_number(v));
    }
    const Place *at = e->frame->call;
    outer->at = at;
    outer->path = e->frame->instance->names->path;
    e->graph = graph_open_body(outer, b->layer->name);
    e->graph->at = at;
    e->graph->path = outer->path;
    int first = e->deferred_count, count = 0;
    run_block(e, block);
    Value *result = e->frame->result;
    Node **results = NULL;
    int returned = !result ? 0 : result->kind == VALUE_RESULTS ? result->count : 1;
    for (int k = 0; k < returned; k++)
        APPEND(results, count, node_of(e, at, result->kind == VALUE_RESULTS ? result->items[k] : result, "a result"));
    for (int k = first; k < e->deferred_count; k++)
        APPEND(results, count, e->deferred[k].value);
    Graph *inner = e->graph;
    e->graph = outer;
    Node **out = NEW_ARRAY(Node *, count);
    outer->at = at;
    graph_close_body(inner, OP_COMPOSITE, b->layer->name, NULL, 0, numbers, number_count, results, count, out);
    for (int k = first; k < e->deferred_count; k++)
        set_update(e, e->deferred[k].variable, out[returned + k - first], e->deferred[k].at);
    e->deferred_count = first;
    Value **items = NEW_ARRAY(Value *, returned);
    for (int k = 0; k < returned; k++)
        items[k] = value_tensor(out[k]);
    if (returned == 1)
        return items[0];
    Value *v = value_list(items, returned);
    v->kind = VALUE_RESULTS;
    return returned ? v : value_none();
}

/* ---- layers written in the language */

static void add_row(Elaborator *e, Instance *i, const Place *at)
{
    struct LayerRow row = {.name = i->names->path, .at = at};
    i->row = e->model->layer_count;
    int count = e->model->layer_count;
    APPEND(e->rows, count, i);
    APPEND(e->model->layers, e->model->layer_count, row);
    i->shown = e->frame->kind == FRAME_MODEL && e->statement == 0;
}

static void finish_row(Elaborator *e, Instance *i, const Value *result)
{
    const Value *v = result->kind == VALUE_RESULTS ? result->items[0] : result;
    if (v->kind == VALUE_TENSOR || v->kind == VALUE_WEIGHTED)
        e->model->layers[i->row].shape = v->node->shape;
    else
        i->shown = false;
}

static Value *call_text(Elaborator *e, Layer *layer, const Place *at, Arguments a, Value *piped, const char *key,
                        Instance *instance)
{
    const Tree *params = layer->tree->first, *block = params->next;
    if (e->calls >= MAX_CALLS)
        last_error_at(at, "more than %d calls within each other; does '%s' call itself without an end?", MAX_CALLS, layer->name);
    Binding b = {.layer = layer, .count = tree_count(params)};
    Memory *outer = memory_use(e->brief);
    b.names = NEW_ARRAY(const char *, b.count);
    b.values = NEW_ARRAY(Value *, b.count);
    b.places = NEW_ARRAY(const Place *, b.count);
    memory_use(outer);
    int k = 0;
    for (const Tree *p = params->first; p; p = p->next)
        b.names[k++] = p->text;
    const Argument *name = take_name(e, &a, b.names, b.count);
    bind_arguments(layer->name, b.names, b.count, a, piped, at, b.values, b.places);
    int by_place = piped != NULL;
    for (int i = 0; i < a.count; i++)
        by_place += !a.list[i].name;
    if (!instance)
        instance = child_instance(e, key, layer->name, name, name ? name->at : at);
    else if (name)
        error_at(name->at, "a shared layer is named after its variable; give the name to shared(...)");
    bool table = e->in_model && e->training_pass && !e->in_init;
    if (table && instance->row < 0)
        add_row(e, instance, at);
    bool training = is_training(e, instance);
    bool composite = is_composite(e, layer, training), outlined = is_outlined(e, layer);
    Frame *before = push_frame(e, FRAME_LAYER, block);
    e->frame->layer = layer;
    e->frame->call = at;
    e->frame->instance = instance;
    e->frame->training = training;
    e->calls++;
    bind_parameters(e, &b, at);
    warn_of_call(e, layer, b.values, by_place, at);
    struct RecordedCall *noted = outlined ? begin_record(e, layer, b.names, b.count, at) : NULL;
    Value *result;
    if (composite) {
        result = run_composite(e, &b, block);
    } else {
        run_block(e, block);
        result = e->frame->result ? e->frame->result : value_none();
        if (result->kind == VALUE_BROKEN || (e->frame->broken && !e->frame->result))
            give_up();
    }
    if (noted)
        end_record(e, noted, result);
    e->calls--;
    pop_frame(e, before);
    record_activation(e, layer, result);
    if (table && instance->row >= 0)
        finish_row(e, instance, result);
    return result;
}

/* ---- pipelines and shared layers */

static Value *call_pipeline(Elaborator *e, Layer *layer, const Place *at, Arguments a, Value *piped, const char *key)
{
    static const char *const NAMES[] = {"x"};
    Value *x[1] = {0};
    const Place *places[1];
    const Argument *name = take_name(e, &a, NAMES, 1);
    bind_arguments(layer->name, NAMES, 1, a, piped, at, x, places);
    if (!x[0])
        error_at(at, "this pipeline needs a value to begin with: x |> ...");
    Instance *outer = e->frame->instance;
    if (name && outer)
        e->frame->instance = child_instance(e, key, "pipeline", name, name->at);
    Value *v = x[0];
    for (int k = 0; k < layer->step_count; k++) {
        const Step *s = &layer->steps[k];
        v = call_layer(e, s->layer, s->at, s->arguments, first_of(v), format("%s:%d", key, k));
    }
    e->frame->instance = outer;
    return v;
}

static Value *call_shared(Elaborator *e, Layer *layer, const Place *at, Arguments a, Value *piped)
{
    if (layer->inner->kind == LAYER_TEXT)
        return call_text(e, layer->inner, at, a, piped, "shared", layer->instance);
    Instance *outer = e->frame->instance;
    e->frame->instance = layer->instance;
    Value *v = call_layer(e, layer->inner, at, a, piped, "shared");
    e->frame->instance = outer;
    return v;
}

/* ---- builtins: parameters such as "x, axes = none, keep = false" */

static Value *default_value(const char *text, size_t length)
{
    if (length == 4 && memcmp(text, "none", 4) == 0)
        return value_none();
    if (length == 4 && memcmp(text, "true", 4) == 0)
        return value_bool(true);
    if (length == 5 && memcmp(text, "false", 5) == 0)
        return value_bool(false);
    if (text[0] == '"')
        return value_text(copy_text(text + 1, length - 2));
    return value_whole(strtoll(text, NULL, 10));
}

static Value *call_builtin(Elaborator *e, Layer *layer, const Place *at, Arguments a, Value *piped, const char *key)
{
    const char *names[BUILTIN_PARAMETERS] = {0};
    Value *defaults[BUILTIN_PARAMETERS] = {0}, *values[BUILTIN_PARAMETERS] = {0};
    const Place *places[BUILTIN_PARAMETERS] = {0};
    int count = 0;
    for (const char *p = layer->builtin->parameters; *p;) {
        size_t length = strcspn(p, ",");
        size_t word = strcspn(p, " ,=");
        if (count == BUILTIN_PARAMETERS)
            die("%s has more than %d parameters", layer->name, BUILTIN_PARAMETERS);
        names[count] = copy_text(p, word);
        const char *equals = memchr(p, '=', length);
        if (equals)
            defaults[count] = default_value(equals + 2, length - (size_t)(equals + 2 - p));
        count++;
        p += length;
        p += strspn(p, ", ");
    }
    bind_arguments(layer->name, names, count, a, piped, at, values, places);
    for (int k = 0; k < count; k++) {
        if (values[k])
            values[k] = first_of(values[k]);
        else if (defaults[k])
            values[k] = defaults[k];
        else
            error_at(at, "'%s' needs an argument '%s'%s", layer->name, names[k], missing_hint(e, layer, values[0], at, k == 0));
    }
    e->key = key;
    warn_of_log(e, layer, values, at);
    Value *result = layer->builtin->run(e, at, values);
    warn_of_picture(e, result, at);
    return result;
}

Value *call_layer(Elaborator *e, Layer *layer, const Place *at, Arguments a, Value *piped, const char *key)
{
    switch (layer->kind) {
    case LAYER_TEXT:
        if (!e->frame->instance)
            error_at(at, "'%s' is a layer: only models, layers and the train block can call it", layer->name);
        return call_text(e, layer, at, a, piped, key, NULL);
    case LAYER_PIPELINE: return call_pipeline(e, layer, at, a, piped, key);
    case LAYER_SHARED: return call_shared(e, layer, at, a, piped);
    case LAYER_BUILTIN: return call_builtin(e, layer, at, a, piped, key);
    case LAYER_READER: return layer->read(e, layer, at, a, piped);
    case LAYER_TYPE: {
        static const char *const NAMES[] = {"x"};
        Value *x[1] = {0};
        const Place *places[1];
        bind_arguments(layer->name, NAMES, 1, a, piped, at, x, places);
        if (!x[0])
            error_at(at, "the cast '%s' needs an argument", layer->name);
        return cast_value(e, at, layer->dtype, first_of(x[0]));
    }
    }
    die("a layer of no kind");
}
