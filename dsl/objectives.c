/* objectives.c: several objectives, each with losses, weights and an optimizer of its own, whose updates take turns.
 *
 * A rule of the train block with a `loss` makes an objective: the weights that it reaches, as the last of such rules, are trained
 * by the losses that it names, and by no other. A round of the run is `times` updates of each objective, in the order of the
 * rules. So every trained weight and every loss belongs to an objective.
 *
 * In: the train graph with all losses, metrics and updates. Out: a train graph for each objective, of which a phase of its own
 * is made. It has the objective's losses and the updates of its weights, with their optimizer's states; other weights are
 * numbers there. What no result needs is dropped later (simplify).
 *
 * A state is updated in the updates of each objective whose losses use the values that are summed over samples for it. So
 * batchnorm's statistics move in each objective that runs the layer, as in PyTorch. If a shared layer is called several times,
 * the calls that an objective does not run leave the state as it is: their updates are replaced by what was before them. A state
 * that depends on no sample moves with the weights that it is made of, or with every update if there are none. Metrics are those
 * of the first objective. */
#include "dsl/settings.h"
#include "compiler/ir/rebuild.h"
#include "runtime/base/spelling.h"

#include <string.h>

/* ---- from the rules */

static bool is_named(const char *const *patterns, int count, const char *name)
{
    for (int k = 0; k < count; k++)
        if (mgpu_pattern_match(patterns[k], (ptrdiff_t)strlen(patterns[k]), name) >= 0)
            return true;
    return false;
}

static const char **loss_names(const Model *m, int *count)
{
    const char **names = NULL;
    *count = 0;
    for (int k = 0; k < m->train->result_count; k++)
        if (m->train->results[k].role == ROLE_LOSS)
            APPEND(names, *count, m->train->results[k].name);
    return names;
}

static Objective objective_of_rule(const Elaborator *e, const Rule *r)
{
    Objective o = {.name = r->tree->first->first->text, .times = r->times, .at = r->loss_at};
    int count;
    const char **names = loss_names(e->model, &count);
    for (int k = 0; k < r->loss_count; k++) {
        bool any = false;
        for (int n = 0; n < count; n++)
            any = any || is_named(&r->losses[k], 1, names[n]);
        if (any)
            continue;
        const char *hint = did_you_mean(r->losses[k], names, count);
        error_at(r->loss_at, "the model has no loss '%s'%s", r->losses[k],
                 hint[0] ? hint
                 : count ? format("; a loss is called '%s'", names[0])
                         : "");
    }
    for (int n = 0; n < count; n++)
        if (is_named(r->losses, r->loss_count, names[n]))
            APPEND(o.losses, o.loss_count, names[n]);
    return o;
}

static void refuse(const Elaborator *e, const char *setting, const char *why)
{
    const TrainSetting *s = map_get(&e->train_settings, setting);
    error_at(s->at, "%s does not go with rules that have a loss: %s", setting, why);
}

static void check_settings(const Elaborator *e)
{
    const Model *m = e->model;
    if (m->accumulate > 1 || m->fit_accumulate)
        refuse(e, "accumulate", "an update of theirs is computed at once; leave it out");
    if (m->on_nan == NAN_SKIP)
        refuse(e, "on_nan", "their turn is known before the run, so that none is skipped; use \"stop\" or \"ignore\"");
    if (m->precision == F16)
        refuse(e, "precision", "f16 skips updates whose gradients overflow, and their turn is known before the run; use bf16");
}

void make_objectives(Elaborator *e)
{
    Model *m = e->model;
    for (int k = 0; k < e->rule_count; k++) {
        Rule *r = &e->rules[k];
        if (!r->loss_count)
            continue;
        Objective o = objective_of_rule(e, r);
        if (m->objective_count == MGPU_MOST_OBJECTIVES)
            error_at(r->loss_at, "at most %d rules have a loss", MGPU_MOST_OBJECTIVES);
        APPEND(m->objectives, m->objective_count, o);
        r->objective = m->objective_count;
    }
    if (!m->objective_count)
        return;
    check_settings(e);
    for (int k = 0; k < m->train->result_count; k++) {
        const Result *r = &m->train->results[k];
        bool used = r->role != ROLE_LOSS;
        for (int n = 0; n < m->objective_count; n++)
            used = used || find_text(r->name, m->objectives[n].losses, m->objectives[n].loss_count) >= 0;
        if (!used)
            error_at(r->at,
                     "no rule has the loss '%s', while others have theirs: name it in the `loss` of a rule, or make it a metric",
                     r->name);
    }
}

void check_objectives(Elaborator *e)
{
    const Model *m = e->model;
    bool *any = NEW_ARRAY(bool, m->objective_count + 1);
    for (int k = 0; k < m->variable_count && m->objective_count; k++) {
        const Variable *v = &m->variables[k];
        if (v->kind != WEIGHT || !v->trained)
            continue;
        if (!v->objective)
            error_at(v->at,
                     "no rule with a loss reaches the weight '%s', so nothing trains it; add it to the patterns of one, or write "
                     "%s { frozen = true } in train",
                     v->name, string_literal(v->name));
        any[v->objective] = true;
    }
    for (int k = 0; k < m->objective_count; k++)
        if (!any[k + 1])
            error_at(m->objectives[k].at,
                     "this rule trains no weight: those that it reaches are frozen, or later rules have them");
}

/* ---- an objective's graph */

typedef struct Split {
    const Elaborator *e;
    const Model *m;
    int objective; /* from 1 */
    Graph *from, *to;
    bool *runs;    /* by node: the objective's losses depend on it; of a body's node, on one of its results */
    Node **before; /* by node: it is an update of a state that is replaced by this one, or by the variable itself */
    bool *replaced;
} Split;

static bool is_own(const Split *s, const char *loss)
{
    const Objective *o = &s->m->objectives[s->objective - 1];
    return find_text(loss, o->losses, o->loss_count) >= 0;
}

static void find_what_runs(Split *s)
{
    Reachable r = {0};
    const bool *seen = reached_in(&r, s->from);
    for (int k = 0; k < s->from->result_count; k++) {
        const Result *loss = &s->from->results[k];
        if (loss->role != ROLE_LOSS || !is_own(s, loss->name))
            continue;
        reach_from(&r, loss->value);
        if (loss->weight)
            reach_from(&r, loss->weight);
    }
    for (int i = 0; i < s->from->node_count; i++) {
        const Node *n = s->from->nodes[i];
        s->runs[i] = s->runs[i] || seen[i];
        if (seen[i] && n->op == OP_RESULT)
            s->runs[n->in[0]->id] = true;
    }
}

/* What an update of a state depends on: values of samples, or what is the same for all samples. */
typedef struct Sources {
    bool samples, all_run; /* it sums values of samples; the objective computes all of them */
    bool weights, own;     /* it reads trained weights; one of them is of this objective */
} Sources;

/* until: an earlier update of the state, whose sources are its own. */
static Sources sources_of(const Split *s, const Node *update, const Node *until)
{
    Sources found = {.all_run = true};
    bool *seen = NEW_ARRAY(bool, s->from->node_count);
    seen[update->id] = true;
    for (int i = update->id; i >= 0; i--) {
        const Node *n = s->from->nodes[i];
        if (!seen[i] || n == until)
            continue;
        bool body = n->op == OP_RESULT, samples = n->has_samples;
        for (int k = 0; body && k < n->in[0]->inputs; k++)
            samples = samples || n->in[0]->in[k]->has_samples;
        if (samples) {
            found.samples = true;
            found.all_run = found.all_run && s->runs[body ? n->in[0]->id : i];
            continue;
        }
        if (n->op == OP_VARIABLE && s->m->variables[n->ints[0]].trained) {
            found.weights = true;
            found.own = found.own || s->m->variables[n->ints[0]].objective == s->objective;
        }
        for (int k = 0; k < n->inputs; k++)
            seen[n->in[k]->id] = true;
    }
    return found;
}

static bool is_updated(const Split *s, const Node *update, const Node *until)
{
    Sources from = sources_of(s, update, until);
    return s->runs[update->id] || (from.samples ? from.all_run : !from.weights || from.own);
}

/* Decides which updates of a state the objective makes; returns true if there is any. */
static bool keeps_state(const Split *s, int variable, Node *last)
{
    Node *before = NULL;
    bool any = false;
    for (int k = 0; k <= s->e->earlier_count; k++) {
        bool is_last = k == s->e->earlier_count;
        if (!is_last && s->e->earlier[k].variable != variable)
            continue;
        Node *n = is_last ? last : s->e->earlier[k].value;
        bool keeps = is_updated(s, n, before);
        any = any || keeps;
        s->replaced[n->id] = !keeps;
        s->before[n->id] = before;
        before = n;
    }
    return any;
}

static bool keeps(const Split *s, const Result *r)
{
    const Variable *v = r->role == ROLE_UPDATE ? &s->m->variables[r->index] : NULL;
    switch (r->role) {
    case ROLE_LOSS: return is_own(s, r->name);
    case ROLE_METRIC: return s->objective == 1;
    case ROLE_REPORT: return r->index == s->objective;
    case ROLE_UPDATE:
        return v->kind == STATE ? keeps_state(s, r->index, r->value)
                                : s->m->variables[v->owner >= 0 ? v->owner : r->index].objective == s->objective;
    default: return true;
    }
}

static Graph *graph_of(const Elaborator *e, int objective)
{
    const Model *m = e->model;
    Graph *from = m->train;
    Split s = {.e = e, .m = m, .objective = objective, .from = from};
    s.to = graph_new(e->model, objective == 1 ? "train" : format("train%d", objective), NULL);
    s.runs = NEW_ARRAY(bool, from->node_count);
    s.before = NEW_ARRAY(Node *, from->node_count);
    s.replaced = NEW_ARRAY(bool, from->node_count);
    find_what_runs(&s);
    bool *kept = NEW_ARRAY(bool, from->result_count);
    for (int k = 0; k < from->result_count; k++)
        kept[k] = keeps(&s, &from->results[k]);
    int *variable = NEW_ARRAY(int, from->node_count);
    for (int k = 0; k < e->earlier_count; k++)
        variable[e->earlier[k].value->id] = e->earlier[k].variable;
    for (int k = 0; k < from->result_count; k++)
        if (from->results[k].role == ROLE_UPDATE)
            variable[from->results[k].value->id] = from->results[k].index;
    for (int i = 0; i < from->node_count; i++) {
        Node *n = from->nodes[i];
        if (!s.replaced[i])
            graph_copy_node(s.to, n);
        else if (s.before[i])
            map_node(n, s.before[i]->mapped);
        else
            map_node(n, graph_variable(s.to, variable[i]));
    }
    for (int k = 0; k < from->result_count; k++) {
        Result r = from->results[k];
        if (!kept[k])
            continue;
        r.value = r.value->mapped;
        r.weight = r.weight ? r.weight->mapped : NULL;
        r.index = r.role == ROLE_REPORT ? 0 : r.index;
        graph_add_result(s.to, r);
    }
    return s.to;
}

void split_objectives(Elaborator *e)
{
    for (int k = 0; k < e->model->objective_count; k++)
        e->model->objectives[k].train = graph_of(e, k + 1);
}
