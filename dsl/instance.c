/* instance.c: names. Each call of a layer is an instance, whose path names its weights and its random numbers. The training pass
 * creates the instances. The evaluation pass finds them by the call's place in the text and the iteration of each enclosing
 * loop. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <string.h>

static const char *join(const char *path, const char *name) { return path[0] ? format("%s.%s", path, name) : name; }

static int next_number(Instance *names, const char *what)
{
    intptr_t n = (intptr_t)map_get(&names->numbers, what) + 1;
    map_set(&names->numbers, what, (void *)n);
    return (int)n;
}

Instance *child_instance(Elaborator *e, const char *key, const char *layer, const Argument *name, const Place *at)
{
    Instance *parent = e->frame->instance;
    Instance *i = map_get(&parent->children, key);
    if (i)
        return i;
    i = NEW(Instance);
    i->at = at;
    i->row = -1;
    i->names = i;
    int number = next_number(parent->names, layer);
    if (!name) {
        i->path = join(parent->names->path, format("%s_%d", layer, number));
    } else if (name->value->kind == VALUE_NONE) {
        i->names = parent->names;
        i->path = parent->names->path;
    } else if ((name->value->kind == VALUE_STRING && name->value->text[0]) || name->value->kind == VALUE_NUMBER) {
        i->path = join(parent->names->path, value_print(name->value));
    } else {
        error_at(name->at, "'name' must be a string, a number or none, not %s", value_describe(name->value));
    }
    map_set(&parent->children, key, i);
    return i;
}

const char *random_path(Elaborator *e, const char *key)
{
    const char *path = e->in_init ? e->init_name : child_instance(e, key, "random", NULL, NULL)->path;
    intptr_t used = (intptr_t)map_get(&e->random_paths, path) + 1;
    map_set(&e->random_paths, path, (void *)used);
    return used > 1 ? format("%s_%d", path, (int)used) : path;
}

/* ---- variables */

static const char *what_is(VariableKind kind) { return kind == WEIGHT ? "weight" : "state"; }

static int known_variable(Elaborator *e, const Tree *t, VariableKind kind, Dtype dtype, Shape shape, intptr_t index)
{
    const Variable *v = &e->model->variables[index - 1];
    if (v->dtype != dtype || !shape_equal(&v->shape, &shape))
        error_tree(e, t, "the shared %s '%s' is %s%s, but %s%s in this call", what_is(kind), v->name, dtype_name(v->dtype),
                   shape_text(&v->shape), dtype_name(dtype), shape_text(&shape));
    return (int)index - 1;
}

static void add_row(Elaborator *e, const char *name, const Place *at, Shape shape, int64_t parameters)
{
    struct LayerRow row = {.name = name, .at = at, .shape = shape, .parameters = parameters};
    Instance *i = NEW(Instance);
    *i = (Instance){.path = name, .names = i, .owns = true, .row = e->model->layer_count};
    int count = e->model->layer_count;
    APPEND(e->rows, count, i);
    APPEND(e->model->layers, e->model->layer_count, row);
}

int declare_variable(Elaborator *e, const Tree *t, VariableKind kind, Dtype dtype, Shape shape)
{
    Instance *i = e->frame->instance;
    const char *key = format("%s%s", t->text, e->frame->loops);
    if (map_get(&e->frame->declared, key))
        error_tree(e, t, "'%s' is declared twice in one scope; give one of them another name", t->text);
    map_set(&e->frame->declared, key, (void *)(uintptr_t)t);
    intptr_t index = (intptr_t)map_get(&i->variables, key);
    if (index)
        return known_variable(e, t, kind, dtype, shape, index);
    if (!e->training_pass && !e->in_optimizer)
        error_tree(e, t, "the %s '%s' exists only where 'training' is false; it could never be trained", what_is(kind), t->text);
    const char *name = t->text;
    if (e->frame->loops[0])
        name = format("%s_%d", name, next_number(i->names, format("weight %s", t->text)));
    name = join(i->names->path, name);
    const Place *other = map_get(&e->variable_names, name);
    if (other)
        error_tree(e, t,
                   "two weights or states would be called '%s' (the other one: line %d); give one of the calls "
                   "another 'name ='",
                   name, users_line(other));
    map_set(&e->variable_names, name, (void *)(uintptr_t)place_of(e, t));
    Variable v = {.name = name,
                  .kind = kind,
                  .dtype = dtype,
                  .shape = shape,
                  .trained = kind == WEIGHT,
                  .owner = kind == OPTIMIZER_STATE ? e->owner : -1,
                  .at = place_of(e, t)};
    for (int k = 0; k < MAX_RANK; k++)
        v.order[k] = k;
    APPEND(e->model->variables, e->model->variable_count, v);
    map_set(&i->variables, key, (void *)(intptr_t)e->model->variable_count);
    i->owns = true;
    if (kind != OPTIMIZER_STATE && !i->names->path[0]) /* variables of the model block have rows of their own */
        add_row(e, name, v.at, shape, kind == WEIGHT ? shape_count(&shape) : 0);
    else if (kind == WEIGHT && i->row >= 0)
        e->model->layers[i->row].parameters += shape_count(&shape);
    return e->model->variable_count - 1;
}

int find_variable(Elaborator *e, const Tree *t)
{
    size_t length = strlen(e->frame->loops);
    for (;;) { /* it may be declared in this iteration or before the loop */
        const char *key = format("%s%.*s", t->text, (int)length, e->frame->loops);
        intptr_t index = (intptr_t)map_get(&e->frame->instance->variables, key);
        if (index && map_get(&e->frame->declared, key))
            return (int)index - 1;
        if (length == 0)
            error_tree(e, t, "'%s' is no state of this scope%s", t->text,
                       did_you_mean(t->text, e->frame->declared.keys, e->frame->declared.count));
        while (length > 0 && e->frame->loops[--length] != '.')
            ;
    }
}
