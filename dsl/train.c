/* train.c: the train block: settings, rules, and the optimizer applied to every weight.
 *
 * The block runs twice: first for its numbers alone (rates may ask for the batch before it is set), then for good.
 * --set KEY=VALUE replaces a setting where the block sets it, else sets it first; --set SETTING.ARGUMENT=VALUE gives
 * an argument to the call behind a setting. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const SETTINGS[] = {"batch", "epochs", "steps", "lr", "decay", "optimizer", "precision", "accumulate",
                                       "clip", "seed", /* and, not yet: */
                                       "ema", "swa", "init", "validate", "save", "keep", "patience", "best", "on_nan",
                                       "memory", "recompute", "workers", "exact"};
enum { READY = 10 }; /* so many of them work */
static const char *const RULE_KEYS[] = {"lr", "decay", "frozen", "init", "optimizer", "clip"};

static const struct { const char *word, *setting; } ELSEWHERE[] = { /* what other systems call them */
    {"learning_rate", "lr"}, {"lr_rate", "lr"}, {"weight_decay", "decay"}, {"batch_size", "batch"},
    {"num_epochs", "epochs"}, {"num_steps", "steps"}, {"random_seed", "seed"},
};

static int find_text(const char *name, const char *const *list, int count)
{
    for (int k = 0; k < count; k++)
        if (strcmp(list[k], name) == 0)
            return k;
    return -1;
}

/* ---- --set */

static const Tree *set_expression(const char *key, const char *value)
{
    Source *s = NEW(Source);
    s->file = format("--set %s", key);
    s->text = value;
    s->length = strlen(value);
    return parse_expression(s);
}

/* a lone unknown word is a string */
Value *set_value(Elaborator *e, const char *key, const char *text)
{
    const Tree *t = set_expression(key, text);
    if (t->kind == TREE_NAME && !find_name(e, t->text))
        return value_text(t->text);
    return eval(e, t);
}

static int find_set(const Elaborator *e, const char *key)
{
    int found = -1;
    for (int k = 0; k < e->settings->count; k++)
        if (strcmp(e->settings->keys[k], key) == 0)
            found = k; /* the last one holds */
    return found;
}

static void mark_set(Elaborator *e, const char *key)
{
    for (int k = 0; k < e->settings->count; k++)
        if (strcmp(e->settings->keys[k], key) == 0)
            e->set_used[k] = true;
}

/* arguments given by --set SETTING.ARGUMENT; they replace those of the text */
static Arguments with_set_arguments(Elaborator *e, const char *setting, Arguments a)
{
    size_t length = strlen(setting);
    Arguments out = {0};
    for (int n = 0; n < a.count; n++)
        APPEND(out.list, out.count, a.list[n]);
    for (int k = 0; k < e->settings->count; k++) {
        const char *key = e->settings->keys[k];
        if (strncmp(key, setting, length) != 0 || key[length] != '.')
            continue;
        e->set_used[k] = true;
        const Tree *t = set_expression(key, e->settings->values[k]);
        Argument one = {.name = key + length + 1, .value = set_value(e, key, e->settings->values[k]), .at = place_of(e, t)};
        int at = -1;
        for (int n = 0; n < out.count; n++)
            if (out.list[n].name && strcmp(out.list[n].name, one.name) == 0)
                at = n;
        if (at >= 0)
            out.list[at] = one;
        else
            APPEND(out.list, out.count, one);
    }
    return out;
}

static bool has_set_arguments(const Elaborator *e, const char *setting)
{
    size_t length = strlen(setting);
    for (int k = 0; k < e->settings->count; k++)
        if (strncmp(e->settings->keys[k], setting, length) == 0 && e->settings->keys[k][length] == '.')
            return true;
    return false;
}

/* ---- one setting */

static Value *layer_step(Elaborator *e, const Tree *t, Arguments a)
{
    Layer *l = NEW(Layer);
    bool call = t->kind == TREE_CALL;
    Step s = {.layer = eval_callee(e, call ? t->first : t)->layer, .arguments = a, .at = place_of(e, t)};
    *l = (Layer){.kind = LAYER_PIPELINE, .name = s.layer->name};
    APPEND(l->steps, l->step_count, s);
    Value *v = NEW(Value);
    *v = (Value){.kind = VALUE_LAYER, .layer = l};
    return v;
}

/* what stands behind `optimizer =`: a layer, applied later */
static Value *eval_optimizer(Elaborator *e, const Tree *t)
{
    if (t->kind == TREE_CHOICE)
        return eval_optimizer(e, eval_condition(e, t->first, "if") ? t->first->next : t->first->next->next);
    if (t->kind == TREE_CALL)
        return layer_step(e, t, with_set_arguments(e, "optimizer", eval_arguments(e, t->first->next)));
    Value *v = eval(e, t);
    if (v->kind != VALUE_LAYER)
        error_tree(e, t, "an optimizer is a layer such as sgd(momentum = 0.9), not %s%s", value_describe(v),
                   call_hint(e, v, NULL));
    if (v->layer->kind == LAYER_TEXT) {
        Step s = {.layer = v->layer, .arguments = with_set_arguments(e, "optimizer", (Arguments){0}), .at = place_of(e, t)};
        Layer *l = NEW(Layer);
        *l = (Layer){.kind = LAYER_PIPELINE, .name = v->layer->name};
        APPEND(l->steps, l->step_count, s);
        v = NEW(Value);
        *v = (Value){.kind = VALUE_LAYER, .layer = l};
    } else if (v->layer->kind == LAYER_PIPELINE && v->layer->step_count == 1) {
        Layer *l = NEW(Layer);
        Step s = v->layer->steps[0];
        s.arguments = with_set_arguments(e, "optimizer", s.arguments);
        *l = *v->layer;
        l->steps = NEW(Step);
        l->steps[0] = s;
        v = NEW(Value);
        *v = (Value){.kind = VALUE_LAYER, .layer = l};
    }
    if (v->layer->kind != LAYER_PIPELINE || v->layer->step_count != 1 || v->layer->steps[0].layer->kind != LAYER_TEXT)
        error_tree(e, t, "an optimizer is one layer f(w, g, lr, decay, ...), not %s", value_describe(v));
    return v;
}

static Value *eval_setting(Elaborator *e, const char *name, const Tree *t)
{
    if (strcmp(name, "optimizer") == 0)
        return eval_optimizer(e, t);
    if (t->kind == TREE_CALL && has_set_arguments(e, name)) {
        Arguments a = with_set_arguments(e, name, eval_arguments(e, t->first->next));
        return first_of(call_layer(e, eval_callee(e, t->first)->layer, place_of(e, t), a, NULL, call_key(e, t)));
    }
    return eval(e, t);
}

static int64_t whole_between(const Place *at, const Value *v, const char *what, int64_t least, int64_t most)
{
    int64_t n = whole_of(at, v, what);
    if (n < least || n > most)
        error_at(at, "%s must be %s %" PRId64 ", not %" PRId64, what, n < least ? "at least" : "at most",
                 n < least ? least : most, n);
    return n;
}

/* lr and decay: numbers of the run, replaced at run time by --set */
static Value *wrapped_rate(Elaborator *e, const Place *at, const char *name, Value *v)
{
    Model *m = e->model;
    if (v->kind != VALUE_NUMBER && v->kind != VALUE_TENSOR)
        error_at(at, "%s must be a number or a rate, not %s", name, value_describe(v));
    Node *n = node_of(e, at, v, name);
    if (n->shape.rank > 0 || n->sharded)
        error_at(at, "%s must be one number, not %s", name, value_describe(v));
    if (v->kind == VALUE_NUMBER && !(number_of(v) >= 0 && number_of(v) < INFINITY))
        error_at(at, "%s must not be negative: %s", name, value_print(v));
    int index = -1;
    for (int k = 0; k < m->setting_count; k++)
        if (strcmp(m->settings[k].name, name) == 0)
            index = k;
    m->settings[index].value = v->kind == VALUE_NUMBER ? number_of(v) : NAN;
    m->settings[index].text = v->kind == VALUE_NUMBER ? value_print(v) : NULL;
    m->settings[index].at = at;
    m->settings[index].given = true;
    Graph *g = graph_at(e, at);
    Node *s = graph_run(g, RUN_SETTING, index);
    return value_tensor(graph_where(g, graph_binary(g, OP_EQ, s, s), s, n));
}

static void set_precision(Elaborator *e, const Place *at, const Value *v)
{
    bool type = v->kind == VALUE_TYPE && dtype_is_float((Dtype)v->i), tf32 = v->kind == VALUE_STRING && strcmp(v->text, "tf32") == 0;
    if (!type && !tf32)
        error_at(at, "precision is f32, tf32, bf16, f16 or f64, not %s", value_describe(v));
    e->model->precision = type && v->i != F16 ? (Dtype)v->i : F32;
    if (tf32 || v->i == F16)
        not_yet(e, at, format("precision %s", v->text));
}

static void set_clip(Elaborator *e, const Place *at, const Value *v)
{
    Model *m = e->model;
    m->clip_kind = CLIP_GLOBAL_NORM;
    if (v->kind == VALUE_NONE) {
        m->clip_kind = CLIP_NONE;
        return;
    }
    if (v->kind == VALUE_LIST && v->count == 2 && v->items[0]->kind == VALUE_STRING) {
        if (strcmp(v->items[0]->text, "by_norm") == 0)
            m->clip_kind = CLIP_NORM;
        else if (strcmp(v->items[0]->text, "by_value") == 0)
            m->clip_kind = CLIP_VALUE;
        v = v->items[1];
    }
    if (v->kind != VALUE_NUMBER || !(number_of(v) > 0))
        error_at(at, "clip is a positive number, by_norm(1.0), by_value(0.5) or none, not %s", value_describe(v));
    m->clip = number_of(v);
}

static Value *apply_setting(Elaborator *e, int which, const char *name, const Place *at, Value *v)
{
    Model *m = e->model;
    if (which >= READY) {
        not_yet(e, at, format("the setting '%s'", name));
        return v;
    }
    switch (which) {
    case 0: m->batch = e->batch = whole_between(at, v, name, 1, INT32_MAX); break;
    case 1: m->epochs = whole_between(at, v, name, 1, INT32_MAX); break;
    case 2: m->steps = whole_between(at, v, name, 1, INT64_MAX / 2); break;
    case 3:
    case 4: return wrapped_rate(e, at, name, v);
    case 5: break;
    case 6: set_precision(e, at, v); break;
    case 7:
        if (v->kind == VALUE_STRING && strcmp(v->text, "auto") == 0)
            not_yet(e, at, "accumulate = \"auto\"");
        else
            m->accumulate = whole_between(at, v, name, 1, 1 << 20);
        break;
    case 8: set_clip(e, at, v); break;
    default: m->seed = (uint64_t)whole_between(at, v, name, 0, INT64_MAX);
    }
    return v;
}

static void put_setting(Elaborator *e, const char *name, const Place *at, Value *v)
{
    TrainSetting *s = NEW(TrainSetting);
    int which = find_text(name, SETTINGS, COUNT(SETTINGS));
    *s = (TrainSetting){.name = name, .value = apply_setting(e, which, name, at, v), .at = at};
    map_set(&e->train_settings, name, s);
    map_set(&e->frame->locals, name, s->value);
}

/* ---- statements of the block */

static void rule_assign(Elaborator *e, const Tree *t, const char *name)
{
    const Tree *value = t->first->next;
    const Place *at = place_of(e, t);
    int which = find_text(name, RULE_KEYS, COUNT(RULE_KEYS));
    if (which < 0)
        error_at(at, "a rule has no key '%s'%s", name, did_you_mean(name, RULE_KEYS, COUNT(RULE_KEYS)));
    if (which >= 2) {
        not_yet(e, at, format("'%s' in a rule", name));
        if (which == 4)
            eval_optimizer(e, value);
        else
            eval(e, value);
        return;
    }
    Value *v = eval(e, value);
    const Place *where = place_of(e, value);
    if (v->kind != VALUE_NUMBER && v->kind != VALUE_TENSOR)
        error_at(where, "%s must be a number or a rate, not %s", name, value_describe(v));
    Node *n = node_of(e, where, v, name);
    if (n->shape.rank > 0 || n->sharded)
        error_at(where, "%s must be one number, not %s", name, value_describe(v));
    map_set(&e->frame->locals, name, value_tensor(n));
    Rule *r = &e->rules[e->rule_count - 1];
    *(which == 0 ? &r->lr : &r->decay) = n;
}

static _Noreturn void unknown_setting(const Elaborator *e, const Tree *t, const char *name)
{
    for (int k = 0; k < COUNT(ELSEWHERE); k++)
        if (strcmp(ELSEWHERE[k].word, name) == 0)
            error_tree(e, t, "train has no setting '%s'; it is called '%s'", name, ELSEWHERE[k].setting);
    const char *hint = did_you_mean(name, SETTINGS, COUNT(SETTINGS));
    if (hint[0])
        error_tree(e, t, "train has no setting '%s'%s", name, hint);
    Text known = {0};
    for (int k = 0; k < READY; k++)
        text_add(&known, "%s%s", k ? ", " : "", SETTINGS[k]);
    error_tree(e, t, "train has no setting '%s'; it has: %s", name, text_of(&known));
}

void train_assign(Elaborator *e, const Tree *t)
{
    const Tree *names = t->first;
    if (names->first->next)
        error_tree(e, names->first->next, "a setting is set alone: name = value");
    const char *name = names->first->text;
    if (e->frame->kind == FRAME_RULE) {
        rule_assign(e, t, name);
        return;
    }
    if (find_text(name, SETTINGS, COUNT(SETTINGS)) < 0)
        unknown_setting(e, t, name);
    int set = find_set(e, name);
    if (set >= 0) {
        mark_set(e, name);
        const Tree *given = set_expression(name, e->settings->values[set]);
        Value *v = strcmp(name, "optimizer") == 0 ? eval_optimizer(e, given) : set_value(e, name, e->settings->values[set]);
        put_setting(e, name, place_of(e, given), v);
        return;
    }
    put_setting(e, name, place_of(e, t), eval_setting(e, name, t->first->next));
}

void train_rule(Elaborator *e, const Tree *t)
{
    Rule r = {.tree = t};
    int patterns = 0;
    for (const Tree *p = t->first->first; p; p = p->next)
        patterns++;
    r.matched = NEW_ARRAY(bool, patterns);
    APPEND(e->rules, e->rule_count, r);
    Frame *before = push_frame(e, FRAME_RULE, t->first->next);
    e->frame->outer = before;
    e->frame->instance = before->instance;
    e->frame->training = true;
    e->frame->loops = before->loops;
    run_block(e, t->first->next);
    pop_frame(e, before);
}

static bool sets(const Tree *block, const char *name)
{
    for (const Tree *t = block ? block->first : NULL; t; t = t->next) {
        if (t->kind == TREE_ASSIGN && strcmp(t->first->first->text, name) == 0)
            return true;
        if (t->kind == TREE_IF || t->kind == TREE_FOR)
            for (const Tree *c = t->first; c; c = c->next) {
                Tree one = {.kind = TREE_BLOCK, .first = (Tree *)(uintptr_t)c};
                if (c->kind == TREE_BLOCK ? sets(c, name) : c->kind == TREE_IF && sets(&one, name))
                    return true;
                if (c->kind == TREE_IF)
                    break;
            }
    }
    return false;
}

/* settings of the command line that the block did not take, before it runs (all = false) or after */
static void apply_sets(Elaborator *e, bool all)
{
    const Tree *block = e->train_tree ? e->train_tree->first : NULL;
    for (int k = 0; k < e->settings->count; k++) {
        const char *key = e->settings->keys[k];
        int which = find_text(key, SETTINGS, COUNT(SETTINGS));
        if (which < 0 || map_get(&e->train_settings, key) || map_get(&e->params, key) || (!all && sets(block, key)))
            continue;
        int last = find_set(e, key);
        const Tree *t = set_expression(key, e->settings->values[last]);
        mark_set(e, key);
        put_setting(e, key, place_of(e, t),
                    strcmp(key, "optimizer") == 0 ? eval_optimizer(e, t) : set_value(e, key, e->settings->values[last]));
    }
}

void run_train(Elaborator *e, bool trial)
{
    Model *m = e->model;
    static const char *const RATES[] = {"lr", "decay"};
    m->setting_count = 0;
    m->settings = NULL;
    for (int k = 0; k < COUNT(RATES); k++) {
        Setting s = {.name = RATES[k], .value = NAN};
        APPEND(m->settings, m->setting_count, s);
    }
    m->batch = 32;
    m->epochs = 10;
    m->accumulate = 1;
    m->seed = 1;
    m->precision = F32;
    e->train_settings = (Map){0};
    e->rule_count = 0;
    e->rules = NULL;
    e->quiet = trial;
    const Tree *block = e->train_tree ? e->train_tree->first : tree_leaf(m->source, TREE_BLOCK, NULL, 1, 1);
    Frame *before = push_frame(e, FRAME_TRAIN, block);
    e->frame->training = true;
    e->frame->instance = NEW(Instance);
    *e->frame->instance = (Instance){.path = "", .names = e->frame->instance, .row = -1};
    map_set(&e->frame->locals, "tf32", value_text("tf32"));
    apply_sets(e, false);
    run_block(e, block);
    apply_sets(e, true);
    if (!map_get(&e->train_settings, "optimizer")) {
        Layer *sgd = map_get(&e->library, "sgd");
        Value *v = NEW(Value);
        Layer *l = NEW(Layer);
        Place *at = NEW(Place);
        *at = (Place){.source = m->source, .line = e->train_tree ? e->train_tree->line : 1, .column = e->train_tree ? e->train_tree->column : 1};
        *l = (Layer){.kind = LAYER_PIPELINE, .name = "sgd"};
        Step s = {.layer = sgd, .at = at, .arguments = with_set_arguments(e, "optimizer", (Arguments){0})};
        APPEND(l->steps, l->step_count, s);
        *v = (Value){.kind = VALUE_LAYER, .layer = l};
        put_setting(e, "optimizer", at, v);
    }
    pop_frame(e, before);
    e->batch = m->batch;
    e->quiet = false;
    static const char *const FIXED[] = {"batch", "optimizer", "precision", "accumulate", "clip"};
    m->fixed = NULL;
    m->fixed_count = 0;
    for (int k = 0; k < COUNT(FIXED); k++)
        APPEND(m->fixed, m->fixed_count, FIXED[k]);
    for (int k = 0; k < e->params.count; k++)
        APPEND(m->fixed, m->fixed_count, e->params.keys[k]);
}

/* ---- the optimizer */

static bool matches(const char *pattern, const char *text, const char *end)
{
    const char *star = NULL, *retry = NULL;
    while (text < end) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

/* the name itself or an instance above it */
static bool reaches(const char *pattern, const char *name)
{
    for (const char *end = name;; end++)
        if ((*end == '.' || *end == 0) && matches(pattern, name, end))
            return true;
        else if (*end == 0)
            return false;
}

static void apply_rules(Elaborator *e, const char *name, Node **lr, Node **decay)
{
    for (int k = 0; k < e->rule_count; k++) {
        Rule *r = &e->rules[k];
        bool hit = false;
        int n = 0;
        for (const Tree *p = r->tree->first->first; p; p = p->next, n++)
            if (reaches(p->text, name))
                hit = r->matched[n] = true;
        if (hit && r->lr)
            *lr = r->lr;
        if (hit && r->decay)
            *decay = r->decay;
    }
}

static void check_rules(Elaborator *e)
{
    for (int k = 0; k < e->rule_count; k++) {
        int n = 0;
        for (const Tree *p = e->rules[k].tree->first->first; p; p = p->next, n++) {
            if (e->rules[k].matched[n])
                continue;
            const char **names = NULL;
            int count = 0;
            for (int v = 0; v < e->model->variable_count; v++)
                if (e->model->variables[v].kind == WEIGHT)
                    APPEND(names, count, e->model->variables[v].name);
            error_tree(e, p, "the pattern \"%s\" reaches no weight%s (`mgpuc check` lists the names)", p->text,
                       did_you_mean(p->text, names, count));
        }
    }
}

static const Tree *parameter(const Layer *l, const char *name)
{
    for (const Tree *p = l->tree->first->first; p; p = p->next)
        if (strcmp(p->text, name) == 0)
            return p;
    return NULL;
}

static void check_optimizer(const Step *s)
{
    for (int k = 0; k < s->arguments.count; k++) {
        const Argument *a = &s->arguments.list[k];
        if (!a->name)
            error_at(a->at, "arguments of an optimizer are given by name; the rate is a setting: lr = %s", value_print(a->value));
        if (strcmp(a->name, "lr") == 0 || strcmp(a->name, "decay") == 0)
            error_at(a->at, "'%s' is a setting of train, so that --set and rules reach it: write %s = %s in the train block",
                     a->name, a->name, a->value->kind == VALUE_TENSOR ? "..." : value_print(a->value));
        if (strcmp(a->name, "w") == 0 || strcmp(a->name, "g") == 0)
            error_at(a->at, "'%s' is given by the compiler", a->name);
    }
    for (int k = 0; k < 2; k++)
        if (!parameter(s->layer, k ? "g" : "w"))
            error_at(s->at, "'%s' is no optimizer: it has no parameter '%s'", s->layer->name, k ? "g" : "w");
}

static Node *rate(const Elaborator *e, const char *name)
{
    const TrainSetting *s = map_get(&e->train_settings, name);
    return s ? s->value->node : NULL;
}

static void give(Arguments *a, const char *name, Node *n, const Place *at)
{
    Argument one = {.name = name, .value = value_tensor(n), .at = at};
    APPEND(a->list, a->count, one);
}

static void update_weight(Elaborator *e, const Step *s, int variable)
{
    const Variable v = e->model->variables[variable];
    Node *lr = rate(e, "lr"), *decay = rate(e, "decay");
    apply_rules(e, v.name, &lr, &decay);
    Frame *before = push_frame(e, FRAME_TRAIN, e->train_tree ? e->train_tree->first : NULL);
    Frame *f = e->frame;
    f->training = true;
    f->instance = NEW(Instance);
    *f->instance = (Instance){.path = v.name, .names = f->instance, .row = -1};
    Graph *g = graph_at(e, s->at);
    Arguments a = {0};
    for (int k = 0; k < s->arguments.count; k++)
        APPEND(a.list, a.count, s->arguments.list[k]);
    give(&a, "w", graph_variable(g, variable), s->at);
    give(&a, "g", graph_gradient(g, variable), s->at);
    if (parameter(s->layer, "lr") && lr)
        give(&a, "lr", lr, s->at);
    if (parameter(s->layer, "decay") && decay)
        give(&a, "decay", decay, s->at);
    e->owner = variable;
    Argument name = {.name = "name", .value = value_none(), .at = s->at};
    APPEND(a.list, a.count, name); /* states stand under the weight's own name */
    Value *w = first_of(call_layer(e, s->layer, s->at, a, NULL, "optimizer"));
    Node *n = node_of(e, s->at, w, "what an optimizer returns");
    g = graph_at(e, s->at);
    n = n->weak ? graph_strong(g, n, v.dtype) : graph_cast(g, n, v.dtype);
    if (!shape_equal(&n->shape, &v.shape))
        error_at(s->at, "the optimizer '%s' returns %s for the weight '%s', which is %s", s->layer->name,
                 shape_text(&n->shape), v.name, shape_text(&v.shape));
    set_update(e, variable, n, s->at);
    pop_frame(e, before);
}

void build_updates(Elaborator *e)
{
    const TrainSetting *optimizer = map_get(&e->train_settings, "optimizer");
    const Step *s = &optimizer->value->layer->steps[0];
    check_optimizer(s);
    const Tree *lr = parameter(s->layer, "lr");
    const TrainSetting *decay = map_get(&e->train_settings, "decay");
    if (decay && !parameter(s->layer, "decay"))
        error_at(decay->at, "the optimizer '%s' takes no decay", s->layer->name);
    if (lr && lr->kind == TREE_REQUIRED && !rate(e, "lr")) {
        if (e->train_tree)
            error_at(s->at, "the train block sets no 'lr', which '%s' needs", s->layer->name);
        Place *at = NEW(Place);
        *at = (Place){.source = e->model->source, .line = 1, .column = 1};
        Frame *before = push_frame(e, FRAME_TRAIN, NULL);
        put_setting(e, "lr", at, value_double(0.01));
        e->model->settings[0].given = false;
        pop_frame(e, before);
    }
    e->in_optimizer = true;
    int count = e->model->variable_count;
    for (int k = 0; k < count; k++)
        if (e->model->variables[k].trained)
            update_weight(e, s, k);
    e->in_optimizer = false;
    check_rules(e);
    if (rate(e, "lr"))
        graph_result(e->top, ROLE_REPORT, "lr", 0, rate(e, "lr"), NULL);
    /* a program does not offer what nothing reads: decay where the model leaves it to the optimizer */
    Model *m = e->model;
    while (m->setting_count && !map_get(&e->train_settings, m->settings[m->setting_count - 1].name))
        m->setting_count--;
}
