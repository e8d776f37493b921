/* settings.c: the settings of the train block: which values each may have, and its effect on the model.
 *
 * --set KEY=VALUE replaces a setting where the block sets it, or else sets it first. --set SETTING.ARGUMENT=VALUE gives an
 * argument to the call in a setting. */
#include "dsl/settings.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* clang-format off */
const char *const SETTING_NAMES[SETTING_COUNT] = {
    [SET_BATCH] = "batch", [SET_EPOCHS] = "epochs", [SET_STEPS] = "steps", [SET_LR] = "lr", [SET_DECAY] = "decay",
    [SET_OPTIMIZER] = "optimizer", [SET_PRECISION] = "precision", [SET_ACCUMULATE] = "accumulate", [SET_CLIP] = "clip",
    [SET_SEED] = "seed", [SET_EMA] = "ema", [SET_SWA] = "swa", [SET_INIT] = "init", [SET_RULES] = "rules", [SET_VALIDATE] = "validate",
    [SET_SAVE] = "save", [SET_KEEP] = "keep", [SET_PATIENCE] = "patience", [SET_BEST] = "best", [SET_ON_NAN] = "on_nan",
    [SET_OBSERVE] = "observe", [SET_MEMORY] = "memory", [SET_RECOMPUTE] = "recompute", [SET_EXACT] = "exact", [SET_WORKERS] = "workers",
};
/* clang-format on */

int find_text(const char *name, const char *const *list, int count)
{
    for (int k = 0; k < count; k++)
        if (strcmp(list[k], name) == 0)
            return k;
    return -1;
}

/* ---- The metric of the data set valid that a run watches: best = lowest("mae"), plateau(0.1, metric = highest("auc")). Users
 * write min(mae), which is a function of tensors, or forget the quotes. The values of these do not reveal what is meant, so the
 * text is checked before it is evaluated. */
static const struct {
    const char *word, *meant;
} WORDS[] = {
    {"lowest", "lowest"},   {"min", "lowest"},  {"minimum", "lowest"},
    {"highest", "highest"}, {"max", "highest"}, {"maximum", "highest"},
};

static const char *meant_by(const char *word)
{
    for (int k = 0; k < COUNT(WORDS); k++)
        if (strcmp(WORDS[k].word, word) == 0)
            return WORDS[k].meant;
    return NULL;
}

/* Returns the metric's name if "mae", mae or loss.aux is the call's only argument, else NULL. */
static const char *metric_of(const Tree *call)
{
    const Tree *of = call->first->next->first;
    if (!of || of->next)
        return NULL;
    if (of->kind == TREE_FIELD && of->first->kind == TREE_NAME)
        return format("%s.%s", of->first->text, of->text);
    return of->kind == TREE_STRING || of->kind == TREE_NAME ? of->text : NULL;
}

static void check_watch(Elaborator *e, const Tree *t, const char *name)
{
    if (t->kind != TREE_CALL || t->first->kind != TREE_NAME)
        return;
    const char *word = t->first->text, *meant = meant_by(word), *metric = meant ? metric_of(t) : NULL;
    const Tree *of = t->first->next->first;
    if (metric && strcmp(meant, word) != 0)
        error_tree(e, t, "%s is a function of tensors; write %s = %s(\"%s\") for the %s %s of all validations", word, name, meant,
                   metric, meant, metric);
    if (metric && of->kind == TREE_NAME && !find_name(e, metric))
        error_tree(e, of, "the name of a metric is written in quotes: %s = %s(\"%s\")", name, meant, metric);
}

static void check_plateaus(Elaborator *e, const Tree *t)
{
    bool plateau = t->kind == TREE_CALL && t->first->kind == TREE_NAME && strcmp(t->first->text, "plateau") == 0;
    int number = 0;
    for (const Tree *a = plateau ? t->first->next->first : NULL; a; a = a->next, number++)
        if (a->kind == TREE_NAMED ? strcmp(a->text, "metric") == 0 : number == 1)
            check_watch(e, a->kind == TREE_NAMED ? a->first : a, "metric");
    for (const Tree *c = t->first; c; c = c->next)
        check_plateaus(e, c);
}

/* Checks a setting's text before it is evaluated. */
static void check_watch_text(Elaborator *e, const char *setting, const Tree *t)
{
    if (strcmp(setting, "best") == 0)
        check_watch(e, t, setting);
    check_plateaus(e, t);
}

/* ---- --set */

Value *set_value(Elaborator *e, const char *key, const Tree *t)
{
    if (!map_get(&e->params, key))
        check_watch_text(e, key, t);
    return eval_word(e, t);
}

/* Adds arguments given by --set SETTING.ARGUMENT, which replace those of the text. */
Arguments with_set_arguments(Elaborator *e, const char *setting, Arguments a)
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
        const Tree *t = parse_setting(key, e->settings->values[k]);
        Argument one = {.name = key + length + 1, .value = set_value(e, key, t), .at = place_of(e, t)};
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

const char *assigned_name(const Elaborator *e, const Tree *t)
{
    const Tree *name = t->first->first;
    if (name->next)
        error_tree(e, name->next, "a setting is set alone: name = value");
    return name->text;
}

static Arguments given_arguments(Elaborator *e, bool rule, Arguments a)
{
    return rule ? a : with_set_arguments(e, "optimizer", a);
}

static Value *called_step(Elaborator *e, const Tree *t, Arguments a)
{
    return value_step((Step){.layer = eval_callee(e, t->first)->layer, .arguments = a, .at = place_of(e, t)});
}

/* Evaluates the layer after `optimizer =`, which is applied later. --set does not change the optimizer of a rule. */
Value *eval_optimizer(Elaborator *e, const Tree *t, bool rule)
{
    if (t->kind == TREE_CHOICE)
        return eval_optimizer(e, eval_condition(e, t->first, "if") ? t->first->next : t->first->next->next, rule);
    bool call = t->kind == TREE_CALL;
    Value *v = call ? called_step(e, t, given_arguments(e, rule, eval_arguments(e, t->first->next))) : eval(e, t);
    if (v->kind != VALUE_LAYER)
        error_tree(e, t, "an optimizer is a layer such as sgd(momentum = 0.9), not %s%s", value_describe(v),
                   call_hint(e, v, NULL));
    if (v->layer->kind == LAYER_TEXT) {
        v = value_step((Step){.layer = v->layer, .arguments = given_arguments(e, rule, (Arguments){0}), .at = place_of(e, t)});
    } else if (!call && v->layer->kind == LAYER_PIPELINE && v->layer->step_count == 1) {
        Step s = v->layer->steps[0];
        s.arguments = given_arguments(e, rule, s.arguments);
        v = value_step(s);
    }
    const Layer *only = v->layer->kind == LAYER_PIPELINE && v->layer->step_count == 1 ? v->layer->steps[0].layer : NULL;
    if (!only || only->kind != LAYER_TEXT)
        error_tree(e, t, "an optimizer is one layer f(w, g, lr, decay, ...), not %s",
                   only && only->name ? format("'%s'", only->name) : value_describe(v));
    return v;
}

Value *eval_setting(Elaborator *e, const char *name, const Tree *t)
{
    check_watch_text(e, name, t);
    if (strcmp(name, "optimizer") == 0)
        return eval_optimizer(e, t, false);
    if (t->kind == TREE_CALL && has_set_arguments(e, name)) {
        Arguments a = with_set_arguments(e, name, eval_arguments(e, t->first->next));
        return first_of(call_layer(e, eval_callee(e, t->first)->layer, place_of(e, t), a, NULL, call_key(e, t)));
    }
    return eval(e, t);
}

/* Returns a hint if the value is a string that is, or is similar to, one of the choices. */
static const char *similar_choice(const Value *v, const char *const *choices, int count)
{
    if (v->kind != VALUE_STRING)
        return "";
    return find_text(v->text, choices, count) >= 0 ? format("; write %s, without quotes", v->text)
                                                   : did_you_mean(v->text, choices, count);
}

static int64_t whole_between(const Place *at, const Value *v, const char *what, int64_t least, int64_t most)
{
    int64_t n = whole_of(at, v, what);
    if (n < least || n > most)
        error_at(at, "%s must be %s %" PRId64 ", not %" PRId64, what, n < least ? "at least" : "at most",
                 n < least ? least : most, n);
    return n;
}

Node *rate_node(Elaborator *e, const Place *at, const char *name, const Value *v)
{
    if (v->kind != VALUE_NUMBER && v->kind != VALUE_TENSOR)
        error_at(at, "%s must be a number or a rate, not %s", name, value_describe(v));
    Node *n = node_of(e, at, v, name);
    if (n->shape.rank > 0 || n->has_samples)
        error_at(at, "%s must be one number, not %s", name, value_describe(v));
    return n;
}

/* Wraps lr or decay so that --set can replace it at run time. */
static Value *wrapped_rate(Elaborator *e, const Place *at, const char *name, Value *v)
{
    Model *m = e->model;
    Node *n = rate_node(e, at, name, v);
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
    static const char *const CHOICES[] = {"f32", "tf32", "bf16", "f16", "f64"};
    bool type = v->kind == VALUE_TYPE && dtype_is_float((Dtype)v->i);
    bool tf32 = v->kind == VALUE_STRING && strcmp(v->text, "tf32") == 0;
    if (!type && !tf32)
        error_at(at, "precision is f32, tf32, bf16, f16 or f64, not %s%s", value_describe(v),
                 similar_choice(v, CHOICES, COUNT(CHOICES)));
    e->model->precision = type ? (Dtype)v->i : F32;
    e->model->tf32 = tf32;
}

Clip clip_value(const Place *at, const Value *v)
{
    Clip c = {.kind = CLIP_GLOBAL_NORM};
    if (v->kind == VALUE_NONE)
        return (Clip){.kind = CLIP_NONE};
    static const char *const WORD[] = {
        [CLIP_NORM] = "by_norm", [CLIP_VALUE] = "by_value", [CLIP_GLOBAL_MAX] = "by_maximum", [CLIP_ADAPTIVE] = "adaptive"};
    if (v->kind == VALUE_LIST && v->count == 2 && v->items[0]->kind == VALUE_STRING) {
        for (int k = CLIP_NORM; k < COUNT(WORD); k++)
            if (strcmp(v->items[0]->text, WORD[k]) == 0)
                c.kind = (ClipKind)k;
        v = v->items[1];
    }
    if (v->kind != VALUE_NUMBER || !(number_of(v) > 0))
        error_at(at, "clip is a positive number, by_norm(1.0), by_maximum(1.0), by_value(0.5), adaptive(0.01) or none, not %s",
                 value_describe(v));
    c.limit = number_of(v);
    return c;
}

/* ---- intervals, averages, watched metrics */

static QuantityUnit unit_of(const Value *v)
{
    static const struct {
        const char *text;
        QuantityUnit unit;
    } UNITS[] = {{"steps", UNIT_STEPS}, {"epochs", UNIT_EPOCHS}, {"samples", UNIT_SAMPLES}, {"s", UNIT_SECONDS}};
    for (int k = 0; k < COUNT(UNITS) && v->kind == VALUE_QUANTITY; k++)
        if (strcmp(UNITS[k].text, v->text) == 0)
            return UNITS[k].unit;
    return UNIT_NONE;
}

/* Returns an interval; none means never. */
static Quantity interval(const Place *at, const Value *v, const char *name)
{
    if (v->kind == VALUE_NONE)
        return (Quantity){0, UNIT_NEVER};
    if (v->kind == VALUE_NUMBER)
        error_at(at, "%s = %s has no unit; write %s = %ssteps, %sepochs, %ssamples or %smin", name, value_print(v), name,
                 value_print(v), value_print(v), value_print(v), value_print(v));
    QuantityUnit unit = unit_of(v);
    if (unit == UNIT_NONE)
        error_at(at, "%s is a quantity such as 1epoch, 500steps or 30min, or none, not %s", name, value_describe(v));
    if (!(v->d > 0))
        error_at(at, "%s = %s: an interval is above 0; none is never", name, value_print(v));
    return (Quantity){v->d, unit};
}

/* Returns how long to wait for a better value: a number of validations, or a quantity. */
Quantity patience_value(const Place *at, const Value *v, const char *name)
{
    if (v->kind == VALUE_NONE)
        return (Quantity){0, UNIT_NEVER};
    if (v->kind == VALUE_NUMBER)
        return (Quantity){(double)whole_between(at, v, name, 1, INT32_MAX), UNIT_TIMES};
    QuantityUnit unit = unit_of(v);
    if (unit == UNIT_NONE || unit == UNIT_SECONDS || !(v->d > 0))
        error_at(at, "%s is a number of validations (5), or a quantity of epochs, steps or samples (5epochs), not %s", name,
                 value_describe(v));
    return (Quantity){v->d, unit};
}

/* Returns the name if the user wrote a metric without quotes that is also the name of a layer. */
static const char *metric_meant(const Value *v, const char *otherwise)
{
    bool named = v->kind == VALUE_LAYER && v->layer->kind != LAYER_PIPELINE && !meant_by(v->layer->name);
    return named ? v->layer->name : otherwise;
}

Watch watch_value(const Place *at, const Value *v, const char *name)
{
    bool pair = v->kind == VALUE_LIST && v->count == 2 && v->items[0]->kind == VALUE_STRING;
    bool highest = pair && strcmp(v->items[0]->text, "highest") == 0;
    if (!pair || (!highest && strcmp(v->items[0]->text, "lowest") != 0))
        error_at(at, "%s is highest(\"%s\") or lowest(\"%s\"), not %s", name, metric_meant(v, "accuracy"),
                 metric_meant(v, "loss"), value_describe(v));
    if (v->items[1]->kind != VALUE_STRING)
        error_at(at, "%s needs the name of a metric, as in %s(\"%s\"), not %s", v->items[0]->text, v->items[0]->text,
                 metric_meant(v->items[1], "loss"), value_describe(v->items[1]));
    return (Watch){v->items[1]->text, highest, at};
}

static void one_average(const Elaborator *e, const Place *at, const char *name)
{
    const char *other = strcmp(name, "ema") == 0 ? "swa" : "ema";
    const TrainSetting *s = map_get(&e->train_settings, other);
    if (s && s->value->kind != VALUE_NONE)
        error_at(at, "%s and %s exclude each other: evaluation uses one average of the weights", name, other);
}

static void set_ema(Elaborator *e, const Place *at, const Value *v)
{
    if (v->kind == VALUE_NONE) {
        e->model->average = AVERAGE_NONE;
        return;
    }
    if (v->kind != VALUE_NUMBER || !(number_of(v) > 0 && number_of(v) < 1))
        error_at(at, "ema is the part of the average that a step keeps, a number between 0 and 1 such as 0.999, not %s",
                 value_describe(v));
    one_average(e, at, "ema");
    e->model->average = AVERAGE_EMA;
    e->model->average_decay = number_of(v);
}

static Quantity swa_part(const Place *at, const Value *v, bool start)
{
    QuantityUnit unit = unit_of(v);
    if (start && v->kind == VALUE_NUMBER && number_of(v) >= 0 && number_of(v) < 1)
        return (Quantity){number_of(v), UNIT_SHARE};
    if (unit == UNIT_NONE || unit == UNIT_SECONDS || v->d < 0 || (!start && v->d == 0))
        error_at(at,
                 "swa is the beginning of the average, as in 75epochs or 0.75 of the run, or a list of it and the interval, "
                 "as in [9000steps, 500steps], not %s",
                 value_describe(v));
    return (Quantity){v->d, unit};
}

static void set_swa(Elaborator *e, const Place *at, const Value *v)
{
    if (v->kind == VALUE_NONE) {
        e->model->average = AVERAGE_NONE;
        return;
    }
    bool list = v->kind == VALUE_LIST && v->count == 2;
    one_average(e, at, "swa");
    e->model->average = AVERAGE_SWA;
    e->model->average_start = swa_part(at, list ? v->items[0] : v, true);
    e->model->average_every = list ? swa_part(at, v->items[1], false) : (Quantity){1, UNIT_EPOCHS};
}

const char *init_value(const Place *at, const Value *v)
{
    if (v->kind == VALUE_NONE)
        return NULL;
    if (v->kind != VALUE_STRING || !v->text[0])
        error_at(at,
                 "init is the path of a file of weights (safetensors, .pt, .npz, .gguf), not %s; the declaration of a weight "
                 "says how it begins otherwise",
                 value_describe(v));
    return v->text;
}

const char *rules_value(const Place *at, const Value *v)
{
    Text text = {0};
    if (v->kind == VALUE_NONE)
        return NULL;
    int count = v->kind == VALUE_LIST ? v->count : 1;
    for (int i = 0; i < count; i++) {
        const Value *rule = v->kind == VALUE_LIST ? v->items[i] : v;
        if (rule->kind != VALUE_STRING || !rule->text[0])
            error_at(at,
                     "rules is the name of a set of the library (\"gpt2\"), the path of a file, or a list of rules "
                     "([\"fc.* = classifier.*\"]), not %s",
                     value_describe(rule));
        text_add(&text, "%s%s", i ? "; " : "", rule->text);
    }
    return text_of(&text);
}

static void set_on_nan(Elaborator *e, const Place *at, const Value *v)
{
    static const char *const CHOICES[] = {"stop", "skip", "ignore"};
    int choice = v->kind == VALUE_STRING ? find_text(v->text, CHOICES, COUNT(CHOICES)) : -1;
    if (choice < 0)
        error_at(at, "on_nan is \"stop\", \"skip\" or \"ignore\", not %s%s", value_describe(v),
                 similar_choice(v, CHOICES, COUNT(CHOICES)));
    e->model->on_nan = choice == 0 ? NAN_STOP : choice == 1 ? NAN_SKIP : NAN_IGNORE;
}

static void set_observe(Elaborator *e, const Place *at, const Value *v)
{
    static const char *const CHOICES[] = {"metrics", "gradients", "all"};
    int choice = v->kind == VALUE_STRING ? find_text(v->text, CHOICES, COUNT(CHOICES)) : -1;
    if (choice < 0 && v->kind != VALUE_NONE)
        error_at(at, "observe is \"metrics\", \"gradients\", \"all\" or none, not %s%s", value_describe(v),
                 similar_choice(v, CHOICES, COUNT(CHOICES)));
    e->model->observe = choice < 0 ? OBSERVE_NOTHING : OBSERVE_METRICS + (unsigned)choice;
}

static void set_recompute(Elaborator *e, const Place *at, const Value *v)
{
    static const char *const CHOICES[] = {"auto"};
    if (v->kind != VALUE_NONE && (v->kind != VALUE_STRING || find_text(v->text, CHOICES, COUNT(CHOICES)) < 0))
        error_at(at, "recompute is \"auto\" or none, not %s%s", value_describe(v), similar_choice(v, CHOICES, COUNT(CHOICES)));
    e->model->recompute = v->kind == VALUE_STRING;
}

static void set_exact(Elaborator *e, const Place *at, const Value *v)
{
    int64_t shards = v->kind == VALUE_NONE ? 0 : whole_between(at, v, "exact", 1, MOST_VIRTUAL_SHARDS);
    if (shards & (shards - 1))
        error_at(
            at,
            "exact is a power of two: the number of virtual shards of a batch, whose sums are added as a binary tree; not %lld",
            (long long)shards);
    e->model->exact = shards;
}

static Value *apply_setting(Elaborator *e, int which, const char *name, const Place *at, Value *v)
{
    Model *m = e->model;
    Clip clip;
    if (which >= SETTINGS_READY && v->kind == VALUE_NONE)
        return v;
    if (which >= SETTINGS_READY) {
        not_yet(e, at, format("the setting '%s'", name));
        return v;
    }
    switch ((SettingId)which) {
    case SET_BATCH: m->batch = e->batch = whole_between(at, v, name, 1, INT32_MAX); break;
    case SET_EPOCHS: m->epochs = whole_between(at, v, name, 1, INT32_MAX); break;
    case SET_STEPS: m->steps = whole_between(at, v, name, 1, INT64_MAX / 2); break;
    case SET_LR:
    case SET_DECAY: return wrapped_rate(e, at, name, v);
    case SET_PRECISION: set_precision(e, at, v); break;
    case SET_ACCUMULATE:
        m->fit_accumulate = v->kind == VALUE_STRING && strcmp(v->text, "auto") == 0;
        m->accumulate = m->fit_accumulate ? 1 : whole_between(at, v, name, 1, 1 << 20);
        break;
    case SET_CLIP:
        clip = clip_value(at, v);
        m->clip_kind = clip.kind;
        m->clip = clip.limit;
        break;
    case SET_SEED: m->seed = (uint64_t)whole_between(at, v, name, 0, INT64_MAX); break;
    case SET_EMA: set_ema(e, at, v); break;
    case SET_SWA: set_swa(e, at, v); break;
    case SET_INIT: init_value(at, v); break;
    case SET_RULES: rules_value(at, v); break;
    case SET_VALIDATE: m->validate = interval(at, v, name); break;
    case SET_SAVE: m->save = interval(at, v, name); break;
    case SET_KEEP: m->keep = whole_between(at, v, name, 1, 1 << 20); break;
    case SET_PATIENCE: m->patience = patience_value(at, v, name); break;
    case SET_BEST: m->best = v->kind == VALUE_NONE ? (Watch){0} : watch_value(at, v, name); break;
    case SET_ON_NAN: set_on_nan(e, at, v); break;
    case SET_OBSERVE: set_observe(e, at, v); break;
    case SET_RECOMPUTE: set_recompute(e, at, v); break;
    case SET_EXACT: set_exact(e, at, v); break;
    default: break;
    }
    return v;
}

void put_setting(Elaborator *e, const char *name, const Place *at, const Tree *text, Value *v)
{
    TrainSetting *s = NEW(TrainSetting);
    int which = find_text(name, SETTING_NAMES, SETTING_COUNT);
    *s = (TrainSetting){.name = name, .value = apply_setting(e, which, name, at, v), .at = at, .tree = text};
    map_set(&e->train_settings, name, s);
    map_set(&e->frame->locals, name, s->value);
}
