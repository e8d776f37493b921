/* unknown_names.c: messages about unknown names, with suggestions. */
#include "dsl/elaborate.h"
#include "dsl/foreign_names.h"

#include <string.h>

const Tree *maker(const Tree *block, const char *name)
{
    for (const Tree *s = block ? block->first : NULL; s; s = s->next) {
        const Tree *found = NULL;
        switch (s->kind) {
        case TREE_ASSIGN:
        case TREE_FOR:
        case TREE_SCAN:
            for (const Tree *n = s->first->first; n; n = n->next)
                if (strcmp(n->text, name) == 0)
                    return n;
            if (s->kind != TREE_ASSIGN)
                found = maker(s->last, name);
            break;
        case TREE_INPUT:
        case TREE_WEIGHT:
        case TREE_STATE:
            if (strcmp(s->text, name) == 0)
                return s;
            break;
        case TREE_IF:
            for (const Tree *c = s->first->next; c && !found; c = c->next)
                found = c->kind == TREE_BLOCK ? maker(c, name)
                                              : maker(&(Tree){.first = (Tree *)(uintptr_t)c, .kind = TREE_BLOCK}, name);
            break;
        default: break;
        }
        if (found)
            return found;
    }
    return NULL;
}

static void add_names(const Map *m, const char ***names, int *count)
{
    for (int k = 0; k < m->count; k++)
        APPEND(*names, *count, m->keys[k]);
}

static bool is_layer_name(const Elaborator *e, const char *name)
{
    return map_get(&e->layers, name) || map_get(&e->library, name) || map_get(&e->builtins, name);
}

static bool is_parameter(const Layer *layer, const char *name)
{
    for (const Tree *p = layer && layer->tree ? layer->tree->first->first : NULL; p; p = p->next)
        if (strcmp(p->text, name) == 0)
            return true;
    return false;
}

const char *call_hint(const Elaborator *e, const Value *v, const char *name)
{
    if (v->kind == VALUE_STRING && is_layer_name(e, v->text)) {
        if (name && e->frame && is_parameter(e->frame->layer, name))
            return format("; write %s = %s, without quotes, to pass the layer", name, v->text);
        return format("; write %s, without quotes, to use the layer", v->text);
    }
    bool result = v->kind == VALUE_NUMBER || v->kind == VALUE_TENSOR;
    if (result && name && e->frame && is_parameter(e->frame->layer, name))
        return format("; to pass a call as a layer, write %s = |> f(...)", name);
    return "";
}

/* ---- types */

static const char *const TYPES[] = {"f32", "bf16", "f16", "f64", "i32", "i64", "u8", "u16", "i8", "i16", "u32", "bool", "class"};

/* Returns a hint such as "; it is called 'f32'" for the name of a type in other systems, or NULL. */
static const char *type_elsewhere(const char *name)
{
    if (strcmp(name, "u64") == 0 || strcmp(name, "uint64") == 0)
        return "; write i64, which holds what is below 2^63";
    const char *here = type_called(name);
    return here ? format("; it is called '%s'", here) : NULL;
}

_Noreturn void unknown_type(const Elaborator *e, const Tree *type)
{
    const char *known = type_elsewhere(type->text);
    if (known)
        error_tree(e, type, "unknown type '%s'%s", type->text, known);
    const char *hint = did_you_mean(type->text, TYPES, COUNT(TYPES));
    Text all = {0};
    for (int k = 0; k < COUNT(TYPES); k++)
        text_add(&all, "%s%s", k ? ", " : "; there are: ", TYPES[k]);
    error_tree(e, type, "unknown type '%s'%s", type->text, hint[0] ? hint : text_of(&all));
}

/* ---- all names */

/* Returns a hint if the name is a choice of an argument or setting that needs quotes. */
static const char *unquoted_choice(const char *name)
{
    static const char *const CHOICES[] = {"metrics", "gradients", "all",   "stop",  "skip", "ignore", "auto",
                                          "ram",     "disk",      "batch", "shard", "same", "valid",  "bilinear",
                                          "nearest", "border",    "zeros", "chw",   "hwc"};
    for (int k = 0; k < COUNT(CHOICES); k++)
        if (strcmp(CHOICES[k], name) == 0)
            return format("; a fixed choice is written in quotes: \"%s\"", name);
    return NULL;
}

static const char *elsewhere(const char *name)
{
    const char *here = function_called(name), *topic = topic_called(name);
    return here ? format("; it is called '%s'", here) : topic ? format("; %s", topic) : NULL;
}

/* Returns the loss, metric or output of this name in the block, but not in its `if` and `for`. */
static const Tree *result_called(const Tree *block, const char *name)
{
    for (const Tree *s = block ? block->first : NULL; s; s = s->next) {
        bool result = s->kind == TREE_LOSS || s->kind == TREE_METRIC || s->kind == TREE_OUTPUT;
        if (result && s->first->kind == TREE_NAMED && strcmp(s->first->text, name) == 0)
            return s;
    }
    return NULL;
}

/* Reports names that are known, but mean something else. */
static void refuse_known(const Elaborator *e, const Tree *t, const char *name, bool call, const char *const *run, int count)
{
    for (int k = 0; k < count && call; k++)
        if (strcmp(run[k], name) == 0)
            error_tree(e, t, "'%s' is no layer or function: it is written without parentheses (mgpuc doc %s)", name, name);
    if (call && map_get(&e->readers, name))
        error_tree(e, t, "'%s' belongs in the data block, not in a model (mgpuc doc %s)", name, name);
    const Tree *result = e->frame && !call ? result_called(e->frame->block, name) : NULL;
    if (result)
        error_tree(e, t,
                   "unknown name '%s': the %s of line %d is called so, which is no variable; write %s = ... above, then %s %s",
                   name, tree_kind_name(result->kind), result->line, name, tree_kind_name(result->kind), name);
}

_Noreturn void unknown_name(Elaborator *e, const Tree *t, const char *name, bool call)
{
    const char **names = NULL;
    int count = 0;
    Value *local = e->frame ? find_local(e, name) : NULL;
    bool broken = e->broken;
    for (const Frame *f = e->frame; f; f = f->outer)
        broken = broken || f->broken;
    if (broken && !local)
        give_up();
    if (call && local)
        error_tree(e, t, "'%s' is %s here and cannot be called%s", name, value_describe(local), call_hint(e, local, name));
    const Tree *made = e->frame ? maker(e->frame->block, name) : NULL;
    if (made && made->line > t->line)
        error_tree(e, t, "unknown name '%s': it is assigned only later, in line %d", name, made->line);
    if (made)
        error_tree(e, t, "unknown name '%s': line %d would have assigned it, but that was not executed", name, made->line);
    if (call && e->model_tree && strcmp(e->model_tree->text, name) == 0)
        error_tree(e, t, "the model '%s' cannot be called; what is to be reused is written as a layer", name);
    static const char *const KNOWN[] = {"training", "step", "epoch", "progress", "pi", "inf"};
    refuse_known(e, t, name, call, KNOWN, COUNT(KNOWN));
    if (e->frame)
        for (const Frame *f = e->frame; f; f = f->outer)
            add_names(&f->locals, &names, &count);
    if (!e->frame || !e->frame->library) {
        add_names(&e->params, &names, &count);
        add_names(&e->layers, &names, &count);
    }
    if (e->frame && e->frame->kind == FRAME_DATA)
        add_names(&e->readers, &names, &count);
    add_names(&e->library, &names, &count);
    add_names(&e->builtins, &names, &count);
    for (int k = 0; k < COUNT(KNOWN); k++)
        APPEND(names, count, KNOWN[k]);
    for (int k = 0; k < COUNT(TYPES) - 1; k++) /* without "class", which is not a name by itself */
        APPEND(names, count, TYPES[k]);
    const char *value = value_called(name), *hint = call    ? elsewhere(name)
                                                    : value ? format("; it is written '%s'", value)
                                                            : type_elsewhere(name);
    hint = hint || call ? hint : unquoted_choice(name);
    hint = hint ? hint : did_you_mean(name, names, count);
    error_tree(e, t, call ? "unknown layer or function '%s'%s" : "unknown name '%s'%s", name, hint);
}
