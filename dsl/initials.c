/* initials.c: initial values from files, which the program reads when a run begins: file("w.npy") at a declaration, `init` in the
 * train block, `init` in a rule. Out: model->initials in this order. If two name the same variable, the later one wins.
 *
 * A rule's file is for a part of the model. The instance that the pattern matches first, from the left, is the prefix of the
 * names in the file. A weight whose whole name matches keeps that name. */
#include "dsl/settings.h"

#include <string.h>

static Initial *initial_of(Elaborator *e, const char *path, const char *pattern, const char *rules, const Place *at)
{
    Model *m = e->model;
    for (int k = 0; k < m->initial_count; k++) {
        Initial *i = &m->initials[k];
        bool same = !i->array && i->at == at && (path ? i->path && strcmp(i->path, path) == 0 : !i->path);
        if (same && (pattern ? i->pattern && strcmp(i->pattern, pattern) == 0 : !i->pattern))
            return i;
    }
    Initial fresh = {.path = path, .pattern = pattern, .rules = rules, .at = at};
    APPEND(m->initials, m->initial_count, fresh);
    return &m->initials[m->initial_count - 1];
}

static void add_name(Initial *i, int variable, const char *name)
{
    int count = i->variable_count;
    APPEND(i->names, count, name);
    APPEND(i->variables, i->variable_count, variable);
}

void build_initials(Elaborator *e)
{
    Model *m = e->model;
    const TrainSetting *all = map_get(&e->train_settings, "init");
    const TrainSetting *rules = map_get(&e->train_settings, "rules");
    const char *path = all ? init_value(all->at, all->value) : NULL, *how = rules ? rules_value(rules->at, rules->value) : NULL;
    for (int pass = 0; pass < 2; pass++) /* the train block's `init` comes first */
        for (int k = 0; k < m->variable_count; k++) {
            const Variable *v = &m->variables[k];
            if (v->kind != WEIGHT && v->kind != STATE)
                continue;
            Reached r = rules_of(e, v->name);
            if (pass == 0 && path && !r.init)
                add_name(initial_of(e, path, NULL, how, all->at), k, v->name);
            if (pass == 1 && r.init) /* if its init is NULL, --init FILE of the program still observes the rule */
                add_name(initial_of(e, r.init->init, r.pattern, r.init->rules, r.init->init_at), k,
                         v->name[r.below] == '.' ? v->name + r.below + 1 : v->name);
        }
}

void initial_from_array(Elaborator *e, int variable, const char *path, const Place *at)
{
    Initial i = {.path = path, .array = true, .at = at};
    add_name(&i, variable, e->model->variables[variable].name);
    APPEND(e->model->initials, e->model->initial_count, i);
}
