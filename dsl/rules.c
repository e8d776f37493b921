/* rules.c: "pattern", ... { lr decay frozen init rules optimizer clip loss times }: settings for the weights that match a
 * pattern. A pattern that matches an instance applies to everything in it. For each weight or instance and each key, the last
 * rule that sets the key wins.
 *
 * A frozen instance runs with `training` false. A frozen weight gets no gradient and no update. */
#include "dsl/settings.h"
#include "runtime/base/spelling.h"

#include <string.h>

/* ---- the statements of a rule */

typedef enum RuleKey {
    RULE_LR,
    RULE_DECAY,
    RULE_FROZEN,
    RULE_INIT,
    RULE_RULES,
    RULE_OPTIMIZER,
    RULE_CLIP,
    RULE_LOSS,
    RULE_TIMES,
    RULE_KEYS
} RuleKey;
static const char *const KEY_NAMES[RULE_KEYS] = {"lr", "decay", "frozen", "init", "rules", "optimizer", "clip", "loss", "times"};

static void set_losses(Rule *r, const Place *at, const Value *v)
{
    int count = v->kind == VALUE_LIST ? v->count : 1;
    r->losses = NULL;
    r->loss_count = 0;
    r->loss_at = at;
    for (int k = 0; k < count; k++) {
        const Value *name = v->kind == VALUE_LIST ? v->items[k] : v;
        if (name->kind != VALUE_STRING || !name->text[0])
            error_at(
                at,
                "loss of a rule is the name of a loss of the model, or a list of names, as in loss = [\"real\", \"fake\"], not %s",
                value_describe(name));
        APPEND(r->losses, r->loss_count, name->text);
    }
    if (!count)
        error_at(at, "loss of a rule is an empty list; frozen = true is for weights that are not trained");
}

static void rule_assign(Elaborator *e, const Tree *t)
{
    const char *name = assigned_name(e, t);
    const Tree *value = t->first->next;
    const Place *at = place_of(e, value);
    int which = find_text(name, KEY_NAMES, RULE_KEYS);
    if (which < 0)
        error_tree(e, t, "a rule has no key '%s'%s", name, did_you_mean(name, KEY_NAMES, RULE_KEYS));
    Value *v = which == RULE_OPTIMIZER ? eval_optimizer(e, value, true) : eval(e, value);
    Rule *r = &e->rules[e->rule_count - 1];
    switch ((RuleKey)which) {
    case RULE_LR: v = value_tensor(r->lr = rate_node(e, at, name, v)); break;
    case RULE_DECAY:
        v = value_tensor(r->decay = rate_node(e, at, name, v));
        r->decay_at = at;
        break;
    case RULE_FROZEN:
        if (v->kind != VALUE_BOOL)
            error_at(at, "frozen is true or false, not %s", value_describe(v));
        r->frozen = v->i != 0;
        break;
    case RULE_INIT:
        r->init = init_value(at, v);
        r->init_at = at;
        break;
    case RULE_RULES: r->rules = rules_value(at, v); break;
    case RULE_OPTIMIZER: r->optimizer = v; break;
    case RULE_CLIP: {
        Clip clip = clip_value(at, v);
        APPEND(e->model->clips, e->model->clip_count, clip);
        r->clip = e->model->clip_count;
        break;
    }
    case RULE_LOSS: set_losses(r, at, v); break;
    case RULE_TIMES:
        r->times = whole_of(at, v, name);
        r->times_at = at;
        if (r->times < 1 || r->times > 1 << 20)
            error_at(at, "times is how many updates in turn these weights get, at least 1, not %s", value_print(v));
        break;
    case RULE_KEYS: break;
    }
    map_set(&e->frame->locals, name, v);
}

void train_rule(Elaborator *e, const Tree *t)
{
    Rule r = {.tree = t, .frozen = -1, .times = 1};
    r.matched = NEW_ARRAY(bool, tree_count(t->first));
    APPEND(e->rules, e->rule_count, r);
    Frame *before = push_frame(e, FRAME_RULE, t->first->next);
    e->frame->assign = rule_assign;
    e->frame->outer = before;
    e->frame->instance = before->instance;
    e->frame->training = true;
    e->frame->loops = before->loops;
    run_block(e, t->first->next);
    pop_frame(e, before);
    const Rule *done = &e->rules[e->rule_count - 1];
    if (done->times_at && !done->loss_count)
        error_at(done->times_at, "times is for a rule that has a loss: it says how many updates its weights get in turn");
}

/* ---- patterns that match nothing */

static const char *const *names_of_weights(const Elaborator *e, int *count)
{
    const char **names = NULL;
    *count = 0;
    for (int v = 0; v < e->model->variable_count; v++)
        if (e->model->variables[v].kind == WEIGHT)
            APPEND(names, *count, e->model->variables[v].name);
    return names;
}

static const char *part_of(const char *name, const char **rest)
{
    size_t length = strcspn(name, ".");
    *rest = name[length] ? name + length + 1 : NULL;
    return copy_text(name, length);
}

static bool matches_any(const char *pattern, const char *const *names, int count)
{
    for (int k = 0; k < count; k++)
        if (mgpu_pattern_match(pattern, (ptrdiff_t)strlen(pattern), names[k]) >= 0)
            return true;
    return false;
}

/* Returns the most similar component of the dotted names. NULL if none is similar, or if `part` is one of them. */
static const char *similar_component(const char *part, const char *const *names, int count)
{
    const char *best = NULL, *rest;
    int least = strlen(part) < 5 ? 2 : (int)(strlen(part) + 1) / 3 + 1;
    for (int k = 0; k < count; k++)
        for (const char *at = names[k]; at; at = rest) {
            const char *word = part_of(at, &rest);
            int d = mgpu_edit_distance(part, word);
            if (d == 0)
                return NULL;
            if (d < least && d < (int)strlen(word))
                least = d, best = word;
        }
    return best;
}

/* "*.biass" -> "*.bias": replaces the pattern's unknown components by similar ones; else suggests a similar name. */
static const char *similar_pattern(const char *pattern, const char *const *names, int count)
{
    Text mended = {0};
    const char *rest;
    for (const char *at = pattern; at; at = rest) {
        const char *part = part_of(at, &rest);
        const char *near = strpbrk(part, "*?") ? NULL : similar_component(part, names, count);
        text_add(&mended, "%s%s", at == pattern ? "" : ".", near ? near : part);
    }
    if (matches_any(text_of(&mended), names, count))
        return format("; did you mean %s?", string_literal(text_of(&mended)));
    if (matches_any(format("*.%s", text_of(&mended)), names, count))
        return format("; did you mean %s?", string_literal(format("*.%s", text_of(&mended))));
    const char *hint = did_you_mean(pattern, names, count);
    return hint[0] ? hint : count ? format("; a weight is called '%s'", names[0]) : "";
}

void check_rules(Elaborator *e)
{
    for (int k = 0; k < e->rule_count; k++) {
        int n = 0, count;
        for (const Tree *p = e->rules[k].tree->first->first; p; p = p->next, n++) {
            if (e->rules[k].matched[n])
                continue;
            const char *const *names = names_of_weights(e, &count);
            error_tree(e, p, "the pattern %s reaches no weight%s (`mgpuc check` lists the names)", string_literal(p->text),
                       similar_pattern(p->text, names, count));
        }
    }
}
