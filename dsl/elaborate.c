/* elaborate.c: syntax tree -> Model, in this order:
 *
 *   files      library, the user's file, imports: layers and params (params are computed when they are used)
 *   train      once for its numbers, once for its effects: settings, rates (nodes of the train graph), rules
 *   model      with `training` true: inputs, variables and their initial values, losses, metrics, updates
 *   optimizer  for every weight: its value after the step, in terms of GRADIENT leaves
 *   model      with `training` false: finds the instances by their places; outputs
 *   data       assigns columns to inputs
 *   checks     of properties that only the whole program has */
#include "dsl/settings.h"

#include <inttypes.h>
#include <string.h>

/* ---- the model, with `training` true or false */

static void run_model(Elaborator *e, bool training)
{
    Model *m = e->model;
    e->training_pass = training;
    e->in_model = true;
    e->graph = e->top = training ? m->train : m->eval;
    e->random_paths = (Map){0};
    e->result_names = (Map){0};
    e->has_total = false;
    e->act_count = 0;
    const Tree *block = e->model_tree->first;
    Frame *before = push_frame(e, FRAME_MODEL, block);
    e->frame->training = training;
    e->frame->instance = e->root;
    run_block(e, block);
    pop_frame(e, before);
    e->in_model = false;
}

static const Tree *assigned(const Tree *block, const char *name)
{
    for (const Tree *t = block->first; t; t = t->next) {
        if (t->kind == TREE_ASSIGN)
            for (const Tree *n = t->first->first; n; n = n->next)
                if (strcmp(n->text, name) == 0)
                    return n;
        for (const Tree *c = t->first; c && (t->kind == TREE_IF || t->kind == TREE_FOR); c = c->next) {
            const Tree *found = c->kind == TREE_BLOCK ? assigned(c, name) : NULL;
            if (found)
                return found;
        }
    }
    return NULL;
}

static bool has_result(const Graph *g, Role role)
{
    for (int k = 0; k < g->result_count; k++)
        if (g->results[k].role == role)
            return true;
    return false;
}

/* A model without a loss is not trained; it must have outputs. */
static void check_loss(Elaborator *e)
{
    if (has_result(e->model->train, ROLE_LOSS))
        return;
    const Tree *t = assigned(e->model_tree->first, "loss");
    if (t)
        error_tree(e, t, "the model has no loss (line %d assigns to a variable called loss: drop the '=')", t->line);
    if (!has_result(e->model->eval, ROLE_OUTPUT))
        error_tree(e, e->model_tree,
                   "the model has no loss: write loss cross_entropy(logits, label) or the like; a model that only predicts has "
                   "an output, as in output logits");
    warn_of_training(e);
    e->model->train = NULL;
    e->model->setting_count = e->model->plateau_count = 0;
    e->model->best.metric = NULL;
}

/* ---- accumulate > 1: losses must not depend on a sum over the whole batch, unless it depends only on inputs and states */

/* True if the sum depends only on inputs and states: it is computed before the step (compiler/passes/accumulate.c). */
static bool is_known_before_step(const Elaborator *e, const Node *sum)
{
    const Graph *g = sum->graph;
    Reachable r = {0};
    if (g != e->model->train)
        return false;
    reach_from(&r, sum);
    for (int k = 0; k < g->node_count; k++) {
        const Node *n = g->nodes[k];
        if (r.seen[0][k] && n->op == OP_VARIABLE && e->model->variables[n->ints[0]].kind != STATE)
            return false;
    }
    for (int k = 0; k < e->batch_sum_count; k++)
        if (e->batch_sums[k].node != sum && e->batch_sums[k].node->graph == g && r.seen[0][e->batch_sums[k].node->id])
            return false;
    return true;
}

static void check_batch_sums(Elaborator *e)
{
    bool asked = e->model->accumulate > 1;
    if ((!asked && !e->model->fit_accumulate) || e->batch_sum_count == 0)
        return;
    Reachable r = {0};
    for (int k = 0; k < e->model->train->result_count; k++) {
        const Result *result = &e->model->train->results[k];
        if (result->role != ROLE_LOSS)
            continue;
        reach_from(&r, result->value);
        if (result->weight)
            reach_from(&r, result->weight);
    }
    for (int k = 0; k < e->batch_sum_count; k++) {
        const BatchSum *s = &e->batch_sums[k];
        for (int g = 0; g < r.graph_count; g++) {
            if (r.graphs[g] != s->node->graph || !r.seen[g][s->node->id] || is_known_before_step(e, s->node))
                continue;
            e->model->one_batch = true;
            if (asked && s->gathers)
                error_at(s->at,
                         "batch_gather with accumulate = %" PRId64 ": the other micro-batches do not exist yet, and each sample "
                         "is compared with all of them; set accumulate = 1",
                         e->model->accumulate);
            if (asked)
                error_at(s->at,
                         "a sum over the whole batch with accumulate = %" PRId64 ": the other micro-batches do not "
                         "exist yet; sum over groups of N samples (stats = N, group = N)",
                         e->model->accumulate);
        }
    }
}

/* What evaluation measures may depend on the other samples of a batch; a prediction must not. */
static void check_outputs(const Elaborator *e)
{
    Reachable r = {0};
    for (int k = 0; k < e->model->eval->result_count; k++) {
        const Result *result = &e->model->eval->results[k];
        if (result->role != ROLE_OUTPUT)
            continue;
        reach_from(&r, result->value);
        for (int g = 0; g < r.graph_count; g++)
            for (int i = 0; i < r.graphs[g]->node_count; i++) {
                const Node *n = r.graphs[g]->nodes[i];
                if (r.seen[g][i] && (n->op == OP_BATCH_PLACE || (n->op == OP_RUN && n->ints[0] == RUN_SAMPLES)))
                    error_at(result->at,
                             "the output '%s' depends on batch_gather or batch_place: a prediction would depend on its "
                             "neighbours; losses and metrics may",
                             result->name);
            }
    }
}

/* Otherwise evaluation has batches of whole groups, which may be larger than the batch. */
static void check_groups(const Elaborator *e)
{
    const Model *m = e->model;
    if (e->gathers && m->batch % m->group)
        error_at(e->gathers,
                 "batch_gather beside statistics of groups of %" PRId64 " samples: they must divide the batch of %" PRId64,
                 m->group, m->batch);
}

/* ---- metrics of validation that the run watches */

static void check_watch(const Elaborator *e, const Watch *w)
{
    const Model *m = e->model;
    const char **names = NULL;
    int count = 0, losses = 0;
    APPEND(names, count, "loss");
    for (int k = 0; k < m->eval->result_count; k++)
        losses += m->eval->results[k].role == ROLE_LOSS;
    for (int k = 0; k < m->eval->result_count; k++) {
        const Result *r = &m->eval->results[k];
        bool loss = r->role == ROLE_LOSS;
        if ((loss && losses < 2) || (!loss && r->role != ROLE_METRIC))
            continue;
        const char *name = loss ? format("loss.%s", r->name) : r->name;
        bool table = !loss && depends_on_total(e, r->value) && shape_count(&r->value->shape) > 1;
        if (table && strcmp(name, w->metric) == 0)
            error_at(w->at, "the metric '%s' is %s: a run watches one number", name, shape_text(&r->value->shape));
        if (!table)
            APPEND(names, count, name);
    }
    if (find_text(w->metric, names, count) >= 0)
        return;
    Text known = {0};
    for (int k = 0; k < count; k++)
        text_add(&known, "%s%s", k ? ", " : "", names[k]);
    const char *hint = did_you_mean(w->metric, names, count);
    error_at(w->at, "the model has no metric '%s'%s%s", w->metric, hint, hint[0] ? "" : format("; it has: %s", text_of(&known)));
}

static void check_watches(Elaborator *e)
{
    const Model *m = e->model;
    if (m->best.metric)
        check_watch(e, &m->best);
    for (int k = 0; k < m->plateau_count; k++)
        check_watch(e, &m->plateaus[k].watch);
}

/* Without a data block, the command line may still provide data. */
static void check_validation(Elaborator *e)
{
    const Model *m = e->model;
    const Place *at = m->best.metric ? m->best.at : m->plateau_count ? m->plateaus[0].watch.at : NULL;
    for (int k = 0; k < m->set_count; k++)
        if (strcmp(m->sets[k].name, "valid") == 0)
            return;
    if (at && e->data_tree && !e->valid_later)
        error_at(at, "this looks at the data set valid, and the data block has none; write valid = ... there");
}

/* ---- */

static void check_set_keys(const Elaborator *e)
{
    for (int k = 0; k < e->settings->count; k++) {
        const char *key = e->settings->keys[k];
        if (e->set_used[k])
            continue;
        if (map_get(&e->params, key)) /* a param that nothing reads */
            continue;
        const char **names = NULL;
        int count = 0;
        for (int n = 0; n < e->params.count; n++)
            APPEND(names, count, e->params.keys[n]);
        for (int n = 0; n < SETTINGS_READY; n++)
            APPEND(names, count, SETTING_NAMES[n]);
        const char *dot = strchr(key, '.');
        if (dot && map_get(&e->train_settings, format("%.*s", (int)(dot - key), key)))
            fail(2, "--set %s: the setting '%.*s' is no call that takes arguments", key, (int)(dot - key), key);
        const char *head = dot ? format("%.*s", (int)(dot - key), key) : key;
        fail(2, "--set %s: there is no param and no setting '%s'%s", key, head, did_you_mean(head, names, count));
    }
}

static const Place *batch_place(const Elaborator *e)
{
    const TrainSetting *set = map_get(&e->train_settings, "batch");
    if (set)
        return set->at;
    const Tree *block = e->train_tree ? e->train_tree : e->model_tree;
    Place *at = NEW(Place);
    *at = (Place){.source = e->model->source, .line = block->line, .column = block->column};
    return at;
}

static void ask_param(Elaborator *e, const Tree *t) { find_name(e, t->text); }

/* Evaluates unused params too, to report their errors. */
static void ask_params(Elaborator *e)
{
    for (int k = 0; k < e->params.count; k++)
        run_recovering(e, ((const Param *)e->params.values[k])->tree, ask_param);
}

/* Statements that declare, loop or give rules; statement.c executes all others. */
enum { IN_MODEL = 1 << FRAME_MODEL, IN_LAYERS = 1 << FRAME_MODEL | 1 << FRAME_LAYER, IN_TRAIN = 1 << FRAME_TRAIN };
static const Statement STATEMENTS[] = {
    {TREE_INPUT, IN_MODEL, "a model", declare_input},
    {TREE_OUTPUT, IN_LAYERS, "a model or a layer", run_result},
    {TREE_LOSS, IN_LAYERS, "a model or a layer", run_result},
    {TREE_METRIC, IN_LAYERS, "a model or a layer", run_result},
    {TREE_WEIGHT, IN_LAYERS, "a model or a layer", declare_weight},
    {TREE_STATE, IN_LAYERS, "a model or a layer", declare_weight},
    {TREE_UPDATE, IN_LAYERS, "a model or a layer", run_update},
    {TREE_SCAN, IN_LAYERS, "a model or a layer", run_scan},
    {TREE_RULE, IN_TRAIN, "the train block", train_rule},
    {.run = NULL},
};

Model *elaborate(const Tree *file, const Settings *settings)
{
    Elaborator *e = NEW(Elaborator);
    Model *m = NEW(Model);
    e->settings = settings;
    e->statements = STATEMENTS;
    e->set_used = NEW_ARRAY(bool, settings->count);
    e->model = m;
    e->brief = memory_new();
    values_use_memory(e->brief);
    m->source = (Source *)(uintptr_t)file->source;
    m->file = file->source->file;
    m->group = 1;
    m->init = graph_new(m, "init", NULL);
    m->train = graph_new(m, "train", NULL);
    m->eval = graph_new(m, "eval", NULL);
    e->root = NEW(Instance);
    *e->root = (Instance){.path = "", .names = e->root, .row = -1};
    load_files(e, file);
    if (!e->model_tree) {
        ask_params(e);
        stop_after_errors();
        return NULL;
    }
    m->name = e->model_tree->text;
    e->graph = e->top = graph_new(m, "trial", NULL);
    run_train(e, true);
    e->graph = e->top = m->train;
    run_train(e, false);
    m->batch_at = batch_place(e);
    run_model(e, true);
    if (error_count()) { /* report independent errors as well */
        run_data(e);
        ask_params(e);
        stop_after_errors();
    }
    bool trains = has_result(m->train, ROLE_LOSS);
    e->graph = e->top = m->train;
    if (trains)
        warn_of_rate(e);
    build_updates(e, trains);
    split_objectives(e);
    build_initials(e);
    if (trains)
        warn_of_lost_weights(e);
    warn_of_channel_order(e);
    check_batch_sums(e);
    run_model(e, false);
    stop_after_errors();
    check_outputs(e);
    check_groups(e);
    check_loss(e);
    outline(e);
    read_averages(e);
    check_watches(e);
    run_data(e);
    check_validation(e);
    ask_params(e);
    stop_after_errors();
    record_settings(e);
    check_set_keys(e);
    finish_layers(e);
    values_use_memory(NULL);
    memory_free(e->brief);
    return m;
}
