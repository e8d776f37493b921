/* train.c: the train block. It is executed twice: first only for its numbers, because rates may read the batch before it is set,
 * then for its effects. settings.c and rules.c define settings and rules; optimizer.c applies them. */
#include "dsl/foreign_names.h"
#include "dsl/settings.h"

#include <math.h>
#include <string.h>

static _Noreturn void unknown_setting(const Elaborator *e, const Tree *t, const char *name)
{
    const char *here = setting_called(name);
    if (here)
        error_tree(e, t, "train has no setting '%s'; it is called '%s'", name, here);
    const char *hint = did_you_mean(name, SETTING_NAMES, SETTING_COUNT);
    if (hint[0])
        error_tree(e, t, "train has no setting '%s'%s", name, hint);
    const char *topic = topic_called(name);
    if (topic)
        error_tree(e, t, "train has no setting '%s'; %s", name, topic);
    Text known = {0};
    for (int k = 0; k < SETTINGS_READY; k++)
        text_add(&known, "%s%s", k ? ", " : "", SETTING_NAMES[k]);
    error_tree(e, t, "train has no setting '%s'; it has: %s", name, text_of(&known));
}

static Value *given_value(Elaborator *e, const char *name, const Tree *t)
{
    return strcmp(name, "optimizer") == 0 ? eval_optimizer(e, t, false) : set_value(e, name, t);
}

/* True if the text's rate, which --set replaces, is a schedule. Its evaluation leaves nothing in the model. */
static bool is_schedule(Elaborator *e, const char *name, const Tree *t)
{
    Model *m = e->model;
    const int settings = m->setting_count, plateaus = m->plateau_count;
    bool schedule = eval_setting(e, name, t)->kind == VALUE_TENSOR;
    m->setting_count = settings;
    m->plateau_count = plateaus;
    return schedule;
}

static void warn_of_schedule(Elaborator *e, const char *name, const Tree *given, const Value *v, const Tree *own)
{
    bool rate = strcmp(name, "lr") == 0 || strcmp(name, "decay") == 0;
    if (rate && !e->quiet && v->kind == VALUE_NUMBER && is_schedule(e, name, own))
        lint_at(e->settings->silenced, LINT_REPLACED_SCHEDULE, place_of(e, given),
                "%s replaces the schedule of line %d, %s = %s: %s is %s in every step%s", value_print(v), own->line, name,
                tree_text(own), name, value_print(v),
                number_of(v) > 0 ? format("; --set '%s=cosine(%s)' is a schedule, too", name, value_print(v)) : "");
}

static void train_assign(Elaborator *e, const Tree *t)
{
    const char *name = assigned_name(e, t);
    if (find_text(name, SETTING_NAMES, SETTING_COUNT) < 0)
        unknown_setting(e, t, name);
    const char *text = take_set(e, name);
    if (text) {
        const Tree *given = parse_setting(name, text);
        Value *v = given_value(e, name, given);
        if (strcmp(name, "batch") == 0) {
            const Value *own = eval_setting(e, name, t->first->next);
            e->text_batch = own->kind == VALUE_NUMBER ? number_of(own) : 0;
        }
        warn_of_schedule(e, name, given, v, t->first->next);
        put_setting(e, name, place_of(e, given), given, v);
        return;
    }
    put_setting(e, name, place_of(e, t), t->first->next, eval_setting(e, name, t->first->next));
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

/* Applies --set of settings that the block does not set: before it runs (all = false), or after it, when all are known. */
static void apply_sets(Elaborator *e, bool all)
{
    const Tree *block = e->train_tree ? e->train_tree->first : NULL;
    for (int k = 0; k < e->settings->count; k++) {
        const char *key = e->settings->keys[k];
        int which = find_text(key, SETTING_NAMES, SETTING_COUNT);
        if (which < 0 || map_get(&e->train_settings, key) || map_get(&e->params, key) || (!all && sets(block, key)))
            continue;
        const Tree *t = parse_setting(key, take_set(e, key));
        put_setting(e, key, place_of(e, t), t, given_value(e, key, t));
    }
}

static void default_optimizer(Elaborator *e)
{
    Place *at = NEW(Place);
    *at = (Place){.source = e->model->source,
                  .line = e->train_tree ? e->train_tree->line : 1,
                  .column = e->train_tree ? e->train_tree->column : 1};
    Step s = {.layer = library_layer(e, "sgd"), .at = at, .arguments = with_set_arguments(e, "optimizer", (Arguments){0})};
    put_setting(e, "optimizer", at, NULL, value_step(s));
}

/* With SGD a rate is proportional to the batch (Goyal et al., "Accurate, large minibatch SGD", 2017), with Adam to its square
 * root (Malladi et al., "On the SDEs and scaling rules for adaptive gradient algorithms", 2022). */
void warn_of_rate(Elaborator *e)
{
    static const double MANY = 4;
    double times = e->text_batch > 0 ? (double)e->model->batch / e->text_batch : 0;
    if (times < MANY || e->scales_rate)
        return;
    for (int k = 0; k < e->settings->count; k++) /* the user has already adjusted the rate */
        if (strcmp(e->settings->keys[k], "lr") == 0 || strncmp(e->settings->keys[k], "optimizer", strlen("optimizer")) == 0)
            return;
    const TrainSetting *batch = map_get(&e->train_settings, "batch");
    double rate = 0; /* 0 for a schedule, which is no number */
    for (int k = 0; k < e->model->setting_count; k++)
        if (strcmp(e->model->settings[k].name, "lr") == 0)
            rate = e->model->settings[k].value;
    bool plain = rate > 0;
    lint_at(
        e->settings->silenced, LINT_LEARNING_RATE, batch->at,
        "the rate of this file is for batches of %g, and this is %.3g times as many samples; usual are %s for sgd, %s for adam and the like%s",
        e->text_batch, times, plain ? format("--set lr=%.3g", rate * times) : format("a rate %.3g times as high", times),
        plain ? format("--set lr=%.3g", rate * sqrt(times)) : format("%.3g times", sqrt(times)), plain ? "" : ", with a warmup");
}

/* Warns once of all settings that a model without a loss does not read. */
void warn_of_training(Elaborator *e)
{
    static const char *const PREDICTS[] = {"batch", "precision", "seed", "init", "rules", "exact"};
    const Place *at = NULL;
    Text names = {0};
    for (int k = 0; k < e->train_settings.count; k++) {
        const TrainSetting *s = e->train_settings.values[k];
        if (!s->tree || find_text(s->name, PREDICTS, COUNT(PREDICTS)) >= 0)
            continue;
        text_add(&names, "%s%s", at ? ", " : "", s->name);
        at = at ? at : s->at;
    }
    if (at)
        lint_at(e->settings->silenced, LINT_UNTRAINED, at,
                "the model has no loss, so that it only predicts, and what is set for training has no effect: %s; write loss "
                "cross_entropy(logits, label) or the like to train it, or take these settings out",
                text_of(&names));
}

/* ---- settings and params, for the log of a run */

/* Returns a value, or its text where that is clearer. */
static const char *setting_text(const Value *v, const Tree *text)
{
    bool plain = v->kind != VALUE_LAYER && v->kind != VALUE_LIST && !has_tensor(v);
    return plain || !text ? value_print(v) : tree_text(text);
}

/* Returns a call such as "adam(beta1 = 0.8)", including the arguments of --set optimizer.NAME=VALUE. */
static const char *optimizer_text(const TrainSetting *s)
{
    const Step *step = &s->value->layer->steps[0];
    Text t = {0};
    text_add(&t, "%s(", step->layer->name);
    for (int k = 0; k < step->arguments.count; k++) {
        const Argument *a = &step->arguments.list[k];
        if (has_tensor(a->value) && s->tree)
            return tree_text(s->tree);
        text_add(&t, "%s%s%s%s", k ? ", " : "", a->name ? a->name : "", a->name ? " = " : "", value_print(a->value));
    }
    text_add(&t, ")");
    return text_take(&t);
}

void record_settings(Elaborator *e)
{
    Model *m = e->model;
    for (int k = 0; k < e->train_settings.count; k++) {
        const TrainSetting *s = e->train_settings.values[k];
        bool optimizer = strcmp(s->name, "optimizer") == 0;
        if (optimizer && !m->train && !s->tree)
            continue;
        SettingText t = {s->name, optimizer ? optimizer_text(s) : setting_text(s->value, s->tree), false};
        APPEND(m->told, m->told_count, t);
    }
    for (int k = 0; k < e->params.count; k++) {
        const Param *p = e->params.values[k];
        SettingText t = {p->name, setting_text(p->value, NULL), true};
        APPEND(m->told, m->told_count, t);
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
    m->fit_accumulate = m->recompute = false;
    m->seed = 1;
    m->precision = F32;
    m->clip_kind = CLIP_NONE;
    m->clips = NULL;
    m->clip_count = 0;
    m->plateaus = NULL;
    m->plateau_count = 0;
    m->objectives = NULL;
    m->objective_count = 0;
    m->average = AVERAGE_NONE;
    m->on_nan = NAN_STOP;
    m->observe = OBSERVE_NOTHING;
    m->skipped = m->loss_scale = m->scaled_steps = -1;
    m->tf32 = false;
    m->exact = 0;
    m->validate = m->save = m->patience = (Quantity){0, UNIT_NONE};
    m->keep = 0;
    m->best = (Watch){0};
    e->train_settings = (Map){0};
    e->rule_count = 0;
    e->rules = NULL;
    e->scales_rate = false;
    e->quiet = trial;
    const Tree *block = e->train_tree ? e->train_tree->first : tree_leaf(m->source, TREE_BLOCK, NULL, 1, 1);
    Frame *before = push_frame(e, FRAME_TRAIN, block);
    e->frame->assign = train_assign;
    e->frame->training = true;
    e->frame->instance = NEW(Instance);
    *e->frame->instance = (Instance){.path = "", .names = e->frame->instance, .row = -1};
    map_set(&e->frame->locals, "tf32", value_text("tf32"));
    apply_sets(e, false);
    run_block(e, block);
    apply_sets(e, true);
    if (!map_get(&e->train_settings, "optimizer"))
        default_optimizer(e);
    if (map_get(&e->train_settings, "patience") && m->patience.unit != UNIT_NEVER && !m->best.metric)
        m->best = (Watch){"loss", false, ((const TrainSetting *)map_get(&e->train_settings, "patience"))->at};
    pop_frame(e, before);
    e->batch = m->batch;
    e->quiet = false;
    static const char *const FIXED[] = {"batch", "optimizer", "precision", "accumulate", "clip",      "ema",     "swa",
                                        "init",  "rules",     "best",      "on_nan",     "recompute", "observe", "exact"};
    m->fixed = NULL;
    m->fixed_count = 0;
    for (int k = 0; k < COUNT(FIXED); k++)
        APPEND(m->fixed, m->fixed_count, FIXED[k]);
    for (int k = 0; k < e->params.count; k++)
        APPEND(m->fixed, m->fixed_count, e->params.keys[k]);
}
