/* optimizer.c: applies the optimizer to every weight, whose value after the step it computes from a GRADIENT leaf. The rules
 * decide for each weight which optimizer and rates apply. Then it adds variables of the run: averages of weights, which
 * evaluation reads, and the number of skipped steps. */
#include "dsl/settings.h"

#include <string.h>

static const Tree *parameter(const Layer *l, const char *name)
{
    for (const Tree *p = l->tree->first->first; p; p = p->next)
        if (strcmp(p->text, name) == 0)
            return p;
    return NULL;
}

/* parameters that the compiler or the settings of train provide */
static const char *const GIVEN[] = {"w", "g", "lr", "decay"};

/* Reports an argument that the optimizer does not have; lists the parameters that it has. */
static _Noreturn void unknown_argument(const Step *s, const Argument *a)
{
    const char **own = NULL, *list = "";
    int count = 0;
    for (const Tree *p = s->layer->tree->first->first; p; p = p->next) {
        if (find_text(p->text, GIVEN, COUNT(GIVEN)) >= 0)
            continue;
        APPEND(own, count, p->text);
        list = format("%s%s%s", list, list[0] ? ", " : "", p->text);
    }
    const char *hint = did_you_mean(a->name, own, count);
    if (!hint[0] && strstr(a->name, "decay") && parameter(s->layer, "decay"))
        hint = "; decay is a setting of train: write decay = ... in the train block";
    error_at(a->at, "'%s' has no parameter '%s'%s", s->layer->name, a->name,
             hint[0] ? hint
             : count ? format("; it has: %s", list)
                     : "");
}

static void check_optimizer(const Step *s)
{
    for (int k = 0; k < 2; k++)
        if (!parameter(s->layer, k ? "g" : "w"))
            error_at(s->at, "'%s' is no optimizer: it has no parameter '%s'", s->layer->name, k ? "g" : "w");
    for (int k = 0; k < s->arguments.count; k++) {
        const Argument *a = &s->arguments.list[k];
        if (!a->name)
            error_at(a->at, "arguments of an optimizer are given by name; the rate is a setting: lr = %s", value_print(a->value));
        if (strcmp(a->name, "lr") == 0 || strcmp(a->name, "decay") == 0)
            error_at(a->at, "'%s' is a setting of train, so that --set and rules reach it: write %s = %s in the train block",
                     a->name, a->name, a->value->kind == VALUE_TENSOR ? "..." : value_print(a->value));
        if (strcmp(a->name, "w") == 0 || strcmp(a->name, "g") == 0)
            error_at(a->at, "'%s' is given by the compiler", a->name);
        if (!parameter(s->layer, a->name))
            unknown_argument(s, a);
    }
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

/* ---- the update of a weight */

static const Step *optimizer_step(const Value *v) { return &v->layer->steps[0]; }

static const Step *train_optimizer(const Elaborator *e)
{
    const TrainSetting *s = map_get(&e->train_settings, "optimizer");
    return optimizer_step(s->value);
}

static void update_weight(Elaborator *e, int variable, const Reached *rules)
{
    const Variable v = e->model->variables[variable];
    const Step *s = rules->optimizer ? optimizer_step(rules->optimizer) : train_optimizer(e);
    Node *lr = rules->lr ? rules->lr : rate(e, "lr"), *decay = rules->decay ? rules->decay : rate(e, "decay");
    if (rules->decay_at && !parameter(s->layer, "decay"))
        error_at(rules->decay_at, "the optimizer '%s' of '%s' takes no decay", s->layer->name, v.name);
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
    APPEND(a.list, a.count, name); /* the name of a state begins with the name of its weight */
    Value *w = first_of(call_layer(e, s->layer, s->at, a, NULL, "optimizer"));
    Node *n = node_of(e, s->at, w, "what an optimizer returns");
    g = graph_at(e, s->at);
    n = n->weak ? graph_strong(g, n, v.dtype) : graph_cast(g, n, v.dtype);
    if (!shape_equal(&n->shape, &v.shape))
        error_at(s->at, "the optimizer '%s' returns %s for the weight '%s', which is %s", s->layer->name, shape_text(&n->shape),
                 v.name, shape_text(&v.shape));
    set_update(e, variable, n, s->at);
    pop_frame(e, before);
}

/* Sets lr to 0.01 if there is no train block. Otherwise a missing rate is an error if an optimizer in use needs it. */
static void need_rate(Elaborator *e, const Step *s)
{
    const Tree *lr = parameter(s->layer, "lr");
    if (!lr || lr->kind != TREE_REQUIRED || rate(e, "lr"))
        return;
    if (e->train_tree)
        error_at(s->at, "the train block sets no 'lr', which '%s' needs", s->layer->name);
    Place *at = NEW(Place);
    *at = (Place){.source = e->model->source, .line = 1, .column = 1};
    Frame *before = push_frame(e, FRAME_TRAIN, NULL);
    put_setting(e, "lr", at, NULL, value_double(0.01));
    e->model->settings[0].given = false;
    pop_frame(e, before);
}

/* True if each objective has a rate of its own, so that none of the train block is needed. */
static bool objectives_have_rates(const Elaborator *e)
{
    int count = 0;
    for (int k = 0; k < e->rule_count; k++)
        count += e->rules[k].objective && e->rules[k].lr;
    return count && count == e->model->objective_count;
}

static void check_optimizers(Elaborator *e)
{
    const Step *s = train_optimizer(e);
    check_optimizer(s);
    const TrainSetting *decay = map_get(&e->train_settings, "decay");
    if (decay && !parameter(s->layer, "decay"))
        error_at(decay->at, "the optimizer '%s' takes no decay", s->layer->name);
    if (!objectives_have_rates(e))
        need_rate(e, s);
    for (int k = 0; k < e->rule_count; k++)
        if (e->rules[k].optimizer) {
            check_optimizer(optimizer_step(e->rules[k].optimizer));
            if (!e->rules[k].lr)
                need_rate(e, optimizer_step(e->rules[k].optimizer));
        }
}

enum { FIRST_LOSS_SCALE = 65536 };

/* ---- the run's variables: the count of skipped steps, averages */

static int add_variable(Elaborator *e, const char *name, Variable v, Node *initial)
{
    Model *m = e->model;
    while (map_get(&e->variable_names, name))
        name = format("%s_", name);
    map_set(&e->variable_names, name, (void *)(uintptr_t)v.at);
    v.name = name;
    for (int k = 0; k < MAX_RANK; k++)
        v.order[k] = k;
    APPEND(m->variables, m->variable_count, v);
    Result *r = graph_result(m->init, ROLE_INIT, name, m->variable_count - 1, initial, NULL);
    r->at = v.at;
    return m->variable_count - 1;
}

static int add_number(Elaborator *e, const char *name, const Place *at, double initial)
{
    e->model->init->at = at;
    Variable v = {.kind = OPTIMIZER_STATE, .dtype = F64, .owner = -1, .at = at};
    return add_variable(e, name, v, graph_number(e->model->init, initial, F64));
}

/* Counts skipped steps: with on_nan = "skip", and always with f16, whose gradients may overflow. */
static void count_skipped(Elaborator *e)
{
    Model *m = e->model;
    bool scaled = m->precision == F16;
    const TrainSetting *s = map_get(&e->train_settings, scaled ? "precision" : "on_nan");
    if (m->on_nan == NAN_SKIP || scaled)
        m->skipped = add_number(e, "run.skipped", s->at, 0);
    if (scaled) {
        m->loss_scale = add_number(e, "run.loss_scale", s->at, FIRST_LOSS_SCALE);
        m->scaled_steps = add_number(e, "run.scaled_steps", s->at, 0);
    }
}

/* Averages trained weights and floating-point states that are updated, so that evaluation reads consistent values. */
static void add_averages(Elaborator *e)
{
    Model *m = e->model;
    int count = m->variable_count;
    Node **initial = NEW_ARRAY(Node *, count);
    for (int k = 0; k < m->init->result_count; k++)
        initial[m->init->results[k].index] = m->init->results[k].value;
    for (int k = 0; k < count && m->average != AVERAGE_NONE; k++) {
        Variable v = m->variables[k];
        bool changes = v.kind == WEIGHT ? v.trained : v.kind == STATE && map_get(&e->updates, v.name);
        if (!changes || !dtype_is_float(v.dtype))
            continue;
        v.kind = AVERAGE;
        v.trained = false;
        v.owner = k;
        add_variable(e, format("%s.%s", v.name, m->average == AVERAGE_EMA ? "ema" : "swa"), v, initial[k]);
    }
}

void read_averages(Elaborator *e)
{
    Model *m = e->model;
    int *average = NEW_ARRAY(int, m->variable_count);
    for (int k = 0; k < m->variable_count; k++)
        if (m->variables[k].kind == AVERAGE)
            average[m->variables[k].owner] = k;
    for (int k = 0; k < m->eval->node_count; k++) {
        Node *n = m->eval->nodes[k];
        if (n->op == OP_VARIABLE && average[n->ints[0]]) { /* its index is not 0: averages come last */
            int64_t *ints = NEW_ARRAY(int64_t, n->int_count);
            memcpy(ints, n->ints, sizeof *ints * (size_t)n->int_count);
            ints[0] = average[n->ints[0]];
            n->ints = ints;
        }
    }
}

/* ---- */

/* Of several objectives each reports its own, by its number. */
static void report_rates(Elaborator *e)
{
    bool several = e->model->objective_count > 0;
    if (rate(e, "lr") && !several)
        graph_result(e->top, ROLE_REPORT, "lr", 0, rate(e, "lr"), NULL);
    for (int k = 0; k < e->rule_count; k++) {
        const Rule *r = &e->rules[k];
        Node *lr = r->lr ? r->lr : rate(e, "lr");
        if (r->objective && lr)
            graph_result(e->top, ROLE_REPORT, "lr", r->objective, lr, NULL);
    }
}

void build_updates(Elaborator *e, bool trains)
{
    Model *m = e->model;
    if (trains) {
        make_objectives(e);
        check_optimizers(e);
    }
    int count = m->variable_count, weights = 0, trained = 0;
    Reached *rules = NEW_ARRAY(Reached, count);
    for (int k = 0; k < count; k++) {
        Variable *v = &m->variables[k];
        if (v->kind != WEIGHT)
            continue;
        rules[k] = rules_of(e, v->name);
        v->trained = !rules[k].frozen;
        v->clip = rules[k].clip;
        v->objective = v->trained ? rules[k].objective : 0;
        weights++;
        trained += v->trained;
    }
    check_rules(e);
    if (weights && !trained && trains)
        error_tree(e, e->train_tree, "all %d weights are frozen: there is nothing to train", weights);
    check_objectives(e);
    e->in_optimizer = true;
    for (int k = 0; k < count && trains; k++)
        if (m->variables[k].trained)
            update_weight(e, k, &rules[k]);
    e->in_optimizer = false;
    if (trains) {
        count_skipped(e);
        add_averages(e);
    }
    if (trains)
        report_rates(e);
    /* hides rates that nothing reads, such as decay if the model leaves it to the optimizer */
    for (int k = 0; k < 2; k++)
        m->settings[k].hidden = !map_get(&e->train_settings, m->settings[k].name);
    while (m->setting_count && m->settings[m->setting_count - 1].hidden && m->setting_count <= 2)
        m->setting_count--;
}
