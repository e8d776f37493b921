/* lookup.c: names. The search order is local names, params, the user's layers, the library, primitives and predefined names.
 * Before '(' only callable values count. Code of the library does not see the user's names. */
#include "dsl/elaborate.h"

#include <math.h>
#include <string.h>

/* ---- params */

const char *take_set(Elaborator *e, const char *key)
{
    const char *text = NULL; /* the last one wins */
    for (int k = 0; k < e->settings->count; k++)
        if (strcmp(e->settings->keys[k], key) == 0) {
            text = e->settings->values[k];
            e->set_used[k] = true;
        }
    return text;
}

Value *eval_word(Elaborator *e, const Tree *t)
{
    return t->kind == TREE_NAME && !find_name(e, t->text) ? value_text(t->text) : eval(e, t);
}

/* Evaluates a param when it is first used; its expression may use other params. */
static Value *param_value(Elaborator *e, Param *p)
{
    enum { NEW_PARAM, EVALUATING, DONE };
    if (p->state == DONE)
        return p->value;
    if (p->state == EVALUATING)
        error_tree(e, p->tree, "the param '%s' depends on itself", p->name);
    p->state = EVALUATING;
    Frame *before = push_frame(e, FRAME_PARAM, NULL);
    e->frame->training = true;
    e->frame->instance = NEW(Instance);
    *e->frame->instance = (Instance){.path = "", .names = e->frame->instance, .row = -1};
    Graph *graph = e->graph, *top = e->top;
    bool in_model = e->in_model;
    e->graph = e->top = graph_new(e->model, "param", NULL);
    e->in_model = false;
    const int calls = e->calls, depth = e->depth;
    p->value = value_broken();
    Recovery r;
    if (setjmp(*recovery_begin(&r)) == 0) {
        const char *given = take_set(e, p->name);
        Value *v = given ? eval_word(e, parse_setting(p->name, given)) : eval(e, p->tree->first);
        if (has_tensor(v))
            error_tree(e, p->tree, "a param is known at compile time, not %s; a list becomes a tensor where it meets one",
                       value_describe(v));
        p->value = v;
        recovery_end(&r);
    }
    e->graph = graph;
    e->top = top;
    e->in_model = in_model;
    e->calls = calls;
    e->depth = depth;
    pop_frame(e, before);
    p->state = DONE;
    return p->value;
}

static Value *user_param(Elaborator *e, const char *name)
{
    if (e->frame && e->frame->library)
        return NULL;
    Param *p = map_get(&e->params, name);
    Value *v = p ? param_value(e, p) : NULL;
    if (v && v->kind == VALUE_BROKEN)
        give_up();
    return v;
}

/* ---- names */

static Value *known_everywhere(Elaborator *e, const char *name)
{
    Dtype dtype;
    if (dtype_by_name(name, &dtype))
        return value_type(dtype);
    if (strcmp(name, "pi") == 0)
        return value_double(3.14159265358979323846);
    if (strcmp(name, "inf") == 0)
        return value_double(INFINITY);
    if (!e->frame || e->frame->kind == FRAME_PARAM)
        return NULL;
    if (strcmp(name, "training") == 0)
        return value_bool(e->frame->training);
    if (strcmp(name, "step") == 0)
        return value_tensor(graph_own_step(e->graph, e->in_optimizer ? e->model->variables[e->owner].objective : 0));
    if (strcmp(name, "epoch") == 0)
        return value_tensor(graph_run(e->graph, RUN_EPOCH, 0));
    if (strcmp(name, "progress") == 0)
        return value_tensor(graph_run(e->graph, RUN_PROGRESS, 0));
    return NULL;
}

Value *find_name(Elaborator *e, const char *name)
{
    Value *v = find_local(e, name);
    if (!v)
        v = user_param(e, name);
    if (v)
        return v;
    Layer *l = find_layer(e, name);
    if (!l && e->frame && e->frame->kind == FRAME_DATA)
        l = map_get(&e->readers, name);
    return l ? value_layer(l) : known_everywhere(e, name);
}

static Value *callable(Value *v)
{
    if (!v || v->kind == VALUE_LAYER)
        return v;
    if (v->kind != VALUE_TYPE)
        return NULL;
    Layer *l = NEW(Layer);
    *l = (Layer){.kind = LAYER_TYPE, .name = v->text, .dtype = (Dtype)v->i};
    return value_layer(l);
}

Value *eval_callee(Elaborator *e, const Tree *t)
{
    if (t->kind != TREE_NAME) {
        Value *v = eval(e, t), *c = callable(v);
        if (!c)
            error_tree(e, t, "%s cannot be called%s", value_describe(v), call_hint(e, v, NULL));
        return c;
    }
    Value *v = callable(find_local(e, t->text));
    if (!v)
        v = callable(user_param(e, t->text));
    if (v)
        return v;
    Layer *l = e->frame && e->frame->kind == FRAME_DATA ? map_get(&e->readers, t->text) : NULL;
    if (!l)
        l = find_layer(e, t->text);
    v = l ? value_layer(l) : callable(known_everywhere(e, t->text));
    if (!v)
        unknown_name(e, t, t->text, true);
    return v;
}
