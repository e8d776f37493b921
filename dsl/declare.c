/* declare.c: inputs, weights, states and their initial values, updates; losses, metrics and outputs. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <string.h>

/* ---- types */

static Shape type_shape(Elaborator *e, const Tree *type)
{
    const Tree *dims = NULL;
    for (const Tree *c = type->first; c; c = c->next)
        if (c->kind == TREE_DIMS)
            dims = c;
    if (!dims)
        return SCALAR;
    Value **values = NULL;
    int count = 0;
    for (const Tree *d = dims->first; d; d = d->next) {
        if (d->kind == TREE_DOTS)
            error_tree(e, d, "'...' is for axes in the parameters of a layer only; here every extent has to be known");
        Value *v = eval(e, d);
        if (v->kind == VALUE_LIST && !dims->first->next)
            return shape_from(place_of(e, d), v->items, v->count);
        APPEND(values, count, v);
    }
    return shape_from(place_of(e, dims), values, count);
}

static Dtype plain_type(Elaborator *e, const Tree *type)
{
    Dtype dtype = F32;
    if (!type->text)
        return F32;
    if (strcmp(type->text, "class") == 0)
        error_tree(e, type, "class(n) is a type of inputs only; i32 holds classes elsewhere");
    if (!dtype_by_name(type->text, &dtype))
        unknown_type(e, type);
    if (type->first && type->first->kind == TREE_ARGS)
        error_tree(e, type, "the type %s takes no arguments", type->text);
    return dtype;
}

/* Returns the narrowest type that holds the labels from `least` to `most`. */
static Dtype class_dtype(int64_t least, int64_t most)
{
    if (least >= 0)
        return most <= UINT8_MAX ? U8 : most <= UINT16_MAX ? U16 : I32;
    return least >= INT8_MIN && most <= INT8_MAX ? I8 : least >= INT16_MIN && most <= INT16_MAX ? I16 : I32;
}

static void class_type(Elaborator *e, const Tree *type, Input *input)
{
    static const char *const NAMES[] = {"n", "ignore", "other"};
    const Place *at = place_of(e, type), *places[3];
    Value *values[3] = {0};
    Arguments a = {0};
    if (type->first && type->first->kind == TREE_ARGS)
        a = eval_arguments(e, type->first);
    bind_arguments("class", NAMES, 3, a, NULL, at, values, places);
    if (!values[0])
        error_at(at, "class needs the number of classes: class(10)");
    input->classes = whole_of(at, values[0], "the number of classes");
    if (input->classes < 1 || input->classes > INT32_MAX)
        error_at(at, "class(%" PRId64 "): a number from 1 to %d is needed", input->classes, INT32_MAX);
    int64_t least = 0, most = input->classes - 1;
    for (int k = 1; k < 3; k++) {
        if (!values[k] || values[k]->kind == VALUE_NONE)
            continue;
        int64_t label = whole_of(at, values[k], NAMES[k]);
        if (k == 1 && (label <= NO_LABEL || label > INT32_MAX))
            error_at(at, "class: ignore = %" PRId64 " is no label: %d to %d are", label, NO_LABEL + 1, INT32_MAX);
        if (k == 2 && (label < 0 || label >= input->classes))
            error_at(at, "class: other = %" PRId64 " is none of the classes 0 to %" PRId64, label, input->classes - 1);
        *(k == 1 ? &input->ignore : &input->other) = label;
        least = label < least ? label : least;
        most = label > most ? label : most;
    }
    input->dtype = class_dtype(least, most);
}

void declare_input(Elaborator *e, const Tree *t)
{
    const Tree *type = t->first;
    Model *m = e->model;
    if (map_get(&e->frame->declared, t->text))
        error_tree(e, t, "'%s' is declared twice in one scope; give one of them another name", t->text);
    map_set(&e->frame->declared, t->text, (void *)(uintptr_t)t);
    int index = -1;
    for (int k = 0; k < m->input_count; k++)
        if (strcmp(m->inputs[k].name, t->text) == 0)
            index = k;
    if (index < 0) {
        Input input = {.name = t->text, .ignore = NO_LABEL, .other = NO_LABEL, .at = place_of(e, t)};
        if (!type->text)
            error_tree(e, type, "an input needs a type: f32[3], u8[28, 28], class(10)");
        if (strcmp(type->text, "class") == 0)
            class_type(e, type, &input);
        else
            input.dtype = plain_type(e, type);
        input.shape = type_shape(e, type);
        index = m->input_count;
        APPEND(m->inputs, m->input_count, input);
    }
    graph_at(e, place_of(e, t));
    set_name(e, t, value_tensor(graph_input(e->top, index)));
}

/* ---- weights and states */

static void initial_value(Elaborator *e, const Tree *t, int variable)
{
    Graph *before = e->graph;
    bool in_init = e->in_init;
    const Variable v = e->model->variables[variable];
    e->graph = e->model->init;
    e->in_init = true;
    e->init_name = v.name;
    e->file_value = NULL;
    const Tree *initial = t->first->next;
    Value *value = eval_applied(e, initial, value_of_shape(&v.shape));
    const Place *at = place_of(e, initial);
    if (e->file_value && value != e->file_value)
        error_at(at, "file(...) is the whole initial value or no part of it: the program reads the file when it starts");
    if (e->file_value)
        initial_from_array(e, variable, e->file_path, at);
    if (value->kind == VALUE_STRING)
        error_at(at, "the initial value must be a tensor, not %s%s", value_describe(value), call_hint(e, value, NULL));
    Node *n = node_of(e, at, value, "the initial value");
    Graph *g = graph_at(e, at);
    Node *fit = fit_variable(g, n, &v);
    if (!fit)
        error_at(at, "the initial value has the shape %s, the %s has %s", shape_text(&n->shape), tree_kind_name(t->kind),
                 shape_text(&v.shape));
    Result *r = graph_result(g, ROLE_INIT, v.name, variable, fit, NULL);
    r->at = v.at;
    e->graph = before;
    e->in_init = in_init;
}

void declare_weight(Elaborator *e, const Tree *t)
{
    bool weight = t->kind == TREE_WEIGHT;
    if (e->in_init || (!e->in_model && !e->in_optimizer))
        error_tree(e, t, "a %s cannot be declared %s", tree_kind_name(t->kind), e->in_init ? "in an initial value" : "here");
    if (e->in_optimizer && weight)
        error_tree(e, t, "an optimizer may have states, not weights");
    Dtype dtype = plain_type(e, t->first);
    if (weight && !dtype_is_float(dtype))
        error_tree(e, t->first, "a weight must be of a float type, not %s; a 'state' is not trained", t->first->text);
    Shape shape = type_shape(e, t->first);
    int before = e->model->variable_count;
    int index = declare_variable(e, t, e->in_optimizer ? OPTIMIZER_STATE : weight ? WEIGHT : STATE, dtype, shape);
    if (e->model->variable_count > before)
        initial_value(e, t, index);
    e->top->at = graph_at(e, place_of(e, t))->at;
    e->top->path = e->graph->path;
    Node *updated = e->frame->training && !weight && !e->in_optimizer ? updated_state(e, index) : NULL;
    set_name(e, t, value_tensor(updated ? updated : graph_variable(e->top, index)));
}

void run_update(Elaborator *e, const Tree *t)
{
    if (!e->frame->training)
        return;
    int index = find_variable(e, t);
    const Variable *v = &e->model->variables[index];
    if (v->kind == WEIGHT)
        error_tree(e, t, "'%s' is a weight: the optimizer sets it; 'update' is for states", t->text);
    const Place *at = place_of(e, t->first), *other = map_get(&e->frame->updated, v->name);
    if (other)
        error_tree(e, t,
                   "the state '%s' is updated twice in one call (the other time: line %d); one 'update' says what it becomes",
                   t->text, users_line(other));
    map_set(&e->frame->updated, v->name, (void *)(uintptr_t)at);
    add_update(e, index, node_of(e, at, eval(e, t->first), "what a state becomes"), at);
}

/* ---- losses, metrics, outputs */

/* Derives the name of an unnamed result from its variable or layer. */
static const char *derived_name(const Tree *t, const char *kind)
{
    for (;;) {
        if (t->kind == TREE_NAME)
            return t->text;
        if (t->kind == TREE_CALL)
            t = t->first;
        else if (t->kind == TREE_PIPE)
            t = t->first->next;
        else if (t->kind == TREE_FIELD)
            return t->text;
        else
            return kind;
    }
}

static const char *result_name(Elaborator *e, const Tree *t)
{
    const char *kind = tree_kind_name(t->kind);
    const Tree *binding = t->first;
    const char *name = binding->kind == TREE_NAMED ? binding->text : derived_name(binding->first, kind);
    const char *path = e->frame->instance->names->path;
    if (path[0])
        name = format("%s.%s", path, name);
    if (e->frame->loops[0]) {
        const char *counter = format("number of %s %s", kind, name);
        intptr_t n = (intptr_t)map_get(&e->result_names, counter) + 1;
        map_set(&e->result_names, counter, (void *)n);
        name = format("%s_%d", name, (int)n);
    }
    const char *key = format("%s %s", kind, name);
    const Place *other = map_get(&e->result_names, key);
    if (other)
        error_tree(e, t, "two %s are called '%s' (the other one: line %d); name one of them: %s NAME = ...",
                   t->kind == TREE_LOSS     ? "losses"
                   : t->kind == TREE_METRIC ? "metrics"
                                            : "outputs",
                   name, users_line(other), kind);
    map_set(&e->result_names, key, (void *)(uintptr_t)place_of(e, t));
    return name;
}

void run_result(Elaborator *e, const Tree *t)
{
    if (e->in_init || !e->in_model)
        error_tree(e, t, "'%s' belongs in a model or a layer of it", tree_kind_name(t->kind));
    const char *name = result_name(e, t);
    const Tree *expression = t->first->first;
    e->statement++;
    Value *v = eval(e, expression);
    e->statement--;
    const Place *at = place_of(e, expression);
    add_result(e, t->kind == TREE_OUTPUT ? ROLE_OUTPUT : t->kind == TREE_LOSS ? ROLE_LOSS : ROLE_METRIC, name, v, at);
}
