/* names.c: Phase -> names from the model: of operations, of the buffers of temporaries, of buckets.
 *
 *   operation    layer and role: "layer3.2.conv2.backward.weight"; of an update the weight: "fc.weight.update"
 *   temporary    layer and value: "layer3.2.conv2.y"; of a gradient the weight: "fc.weight.gradient"
 *   of no layer  the model and the value: "mlp.div", computed by "mlp.div.forward"; sums of metrics: "metric.accuracy"
 *   bucket       its first gradient: "bucket.fc.weight"
 *
 * There are no running numbers: a new layer of a model adds names and leaves the others as they are. Equal names of a phase get
 * the suffixes .2, .3 ... in order. Control characters are replaced, because terminals would act on them. */
#include "compiler/kernel/kernel.h"
#include "compiler/base/words.h"
#include "compiler/ir/placement.h"
#include "compiler/plan/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- unique names */
static const char *unique(Map *taken, const char *words)
{
    const char *name = without_controls(words);
    int n = (int)(intptr_t)map_get(taken, name);
    const char *own = name;
    if (n) {
        do
            own = format("%s.%d", name, ++n);
        while (map_get(taken, own));
        map_set(taken, name, (void *)(intptr_t)n);
    }
    map_set(taken, own, (void *)(intptr_t)1);
    return own;
}

/* ---- phases */
bool phase_predicts(const char *phase)
{
    return strcmp(phase, phase_name(PHASE_PREDICT, false)) == 0 || strcmp(phase, phase_name(PHASE_PREDICT, true)) == 0 ||
           strcmp(phase, phase_name(PHASE_DECODE, false)) == 0;
}

/* ---- tensors */
const char *name_of_fetch(const Tensor *x)
{
    return format("fetch.%s", strncmp(x->name, "out.", 4) == 0 ? x->name + 4 : x->name);
}

static bool is_part(const Node *n) { return n->op == OP_VARIABLE && node_is_sharded(n, ELEMENTS_AXIS); }

static const char *stem_of(const Tensor *x, const char *weight)
{
    const Node *n = x->node;
    if (weight)
        return format(n && n->op == OP_OWN ? "%s.gradient.part" : "%s.gradient", weight);
    if (n && is_part(n)) /* a gathered weight */
        return format("%s.whole", n->graph->model->variables[n->ints[0]].name);
    if (!n) { /* "t12_new_weight" */
        const char *word = strchr(x->name, '_');
        return word ? word + 1 : x->name;
    }
    return format("%s.%s", n->path && *n->path ? n->path : n->graph->model->name, node_word(n));
}

static void name_tensors(Names *names, const Phase *p)
{
    const char **gradient = p->graph ? graph_summed_weights(p->graph) : NULL; /* the phases of tests have no graph */
    Map taken = {0};
    unique(&taken, "step");
    for (int i = 0; i < p->tensor_count; i++)
        if (p->tensors[i]->kind != TENSOR_TEMPORARY)
            unique(&taken, p->tensors[i]->name);
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        bool of_graph = gradient && x->node && x->node->graph == p->graph;
        names->weight[i] = of_graph && x->kind == TENSOR_TEMPORARY ? gradient[x->node->id] : NULL;
        names->tensor[i] = x->kind == TENSOR_TEMPORARY ? unique(&taken, stem_of(x, names->weight[i])) : x->name;
    }
}

/* ---- operations */
static const char *value_of(const Names *names, const Tensor *x)
{
    return names->weight[x->id] ? names->weight[x->id] : names->tensor[x->id];
}

/* length of the leading words that both have in common, at most `length` */
static size_t common(const char *a, const char *b, size_t length)
{
    size_t same = 0, end = 0;
    for (;; same++) {
        bool ends = (!a[same] || a[same] == '.') && (!b[same] || b[same] == '.');
        if (ends && same <= length)
            end = same;
        if (a[same] != b[same] || !a[same] || same >= length)
            return end;
    }
}

/* Returns the weight of a variable, of its state, or of a gradient; NULL: none. */
static const char *weight_of(const Names *names, const Phase *p, const Tensor *x)
{
    const Model *m = p->graph ? p->graph->model : NULL;
    if (x->kind != TENSOR_VARIABLE || !m)
        return names->weight[x->id];
    const Variable *v = &m->variables[x->index];
    while (v->owner >= 0) /* such as a rounded average */
        v = &m->variables[v->owner];
    return v->name;
}

/* Returns the common leading words of the weights of what a task writes; NULL: none. *one: there is only one weight. */
static const char *weights_of(const Names *names, const Phase *p, const Task *t, bool *one)
{
    const char *first = NULL;
    size_t length = 0;
    *one = true;
    for (int i = 0; i < t->write_count; i++) {
        const char *name = weight_of(names, p, t->writes[i]);
        if (!name)
            continue;
        *one = *one && (!first || strcmp(first, name) == 0);
        length = first ? common(first, name, length) : strlen(name);
        first = first ? first : name;
    }
    return first ? copy_text(first, length) : NULL;
}

/* Returns "layer3.2" of "layer3.2.weight". */
static const char *layer_of(const char *weight)
{
    const char *leaf = last_word(weight);
    return leaf > weight ? copy_text(weight, (size_t)(leaf - weight) - 1) : "";
}

/* Returns "metric.accuracy": the first sum over the samples of a report that a task adds to; NULL: none. */
static const char *metric_of(const Phase *p, const Task *t)
{
    for (int i = 0; i < t->write_count && p->graph; i++) {
        const Tensor *x = t->writes[i];
        const Variable *v = x->kind == TENSOR_VARIABLE ? &p->graph->model->variables[x->index] : NULL;
        if (v && v->kind == ACCUMULATOR && (strncmp(v->name, "metric.", 7) == 0 || strncmp(v->name, "eval.", 5) == 0))
            return layer_of(v->name); /* without its number */
    }
    return NULL;
}

/* returns "backward weight bias" */
static const char *backward_role(const Names *names, const Task *t)
{
    Text text = {0};
    text_add(&text, "backward");
    for (int i = 0; i < t->write_count; i++) {
        const char *weight = names->weight[t->writes[i]->id];
        bool again = false;
        for (int k = 0; k < i && weight; k++)
            again |=
                names->weight[t->writes[k]->id] && strcmp(last_word(names->weight[t->writes[k]->id]), last_word(weight)) == 0;
        if (weight && !again)
            text_add(&text, " %s", last_word(weight));
    }
    return text_take(&text);
}

static const char *dotted(const char *a, const char *b)
{
    char *text = (char *)(uintptr_t)format("%s%s%s", a, *a && *b ? "." : "", b);
    for (char *c = text; *c; c++)
        *c = *c == ' ' ? '.' : *c;
    return text;
}

/* Returns true for a copy of a device's own part, before or after a transfer. */
static bool copies_split(const Task *t)
{
    const Node *n = t->elements && t->write_count == 1 && t->writes[0]->kind == TENSOR_TEMPORARY ? t->writes[0]->node : NULL;
    return n && (is_part(n) || n->op == OP_OWN);
}

static void find_weights(Map *weights, const Phase *p)
{
    for (int i = 0; p->graph && i < p->graph->model->variable_count; i++)
        if (p->graph->model->variables[i].kind == WEIGHT)
            map_set(weights, p->graph->model->variables[i].name, &p->graph->model->variables[i]);
}

/* Returns the weight whose optimizer a task is part of, by the task's path: that of the weight, perhaps with a suffix of
 * update.c: "fc.weight.norm". NULL: none. */
static const char *optimized(const Map *weights, const char *path)
{
    const Variable *v = map_get(weights, path);
    v = v ? v : map_get(weights, layer_of(path));
    return v ? v->name : NULL;
}

static const char *role_of(const Names *names, const Phase *p, const Task *t, bool updates, bool metric)
{
    bool reports = p->kind == PHASE_REPORT_TRAIN || p->kind == PHASE_REPORT_EVAL;
    return p->kind == PHASE_INIT ? "init"
           : updates             ? "update"
           : reports || metric   ? "metrics"
           : t->backward         ? backward_role(names, t)
                                 : "forward";
}

/* Names what a task without a layer computes: a value of the model itself, or a weight's gradient, which belongs to the weight's
 * layer. */
static const char *name_value(const Names *names, const Phase *p, const Task *t, const char *role, const char **layer)
{
    bool one;
    const Tensor *x = t->writes[0];
    const char *model = p->graph ? p->graph->model->name : "", *weights = t->backward ? weights_of(names, p, t, &one) : NULL;
    *layer = weights ? one ? layer_of(weights) : weights : "";
    *layer = **layer ? *layer : model;
    if (weights && names->weight[x->id])
        return dotted(*layer, role);
    return dotted(x->kind == TENSOR_VARIABLE ? dotted(*layer, names->tensor[x->id] + strlen("w.")) : names->tensor[x->id], role);
}

static void name_task(Names *names, const Phase *p, const Task *t, const Map *of_model, Map *taken)
{
    const char *layer = t->layer ? t->layer : "", *name = NULL, *metric = *layer ? NULL : metric_of(p, t),
               *weight = optimized(of_model, layer);
    bool one, stores = t->update || p->kind == PHASE_INIT;
    const char *weights = stores ? weights_of(names, p, t, &one) : NULL,
               *role = role_of(names, p, t, t->update || weight, metric);
    if (weights) {
        name = dotted(weights, role);
        layer = one ? layer_of(weights) : weights;
        weight = one ? weights : NULL;
    } else if (weight) {
        name = dotted(strcmp(weight, layer) == 0 && t->write_count ? names->tensor[t->writes[0]->id] : layer, role);
        layer = layer_of(weight);
    } else if (metric) {
        name = metric;
    } else if (!*layer && t->update) { /* the norm of all gradients, or whether all are finite */
        name = "gradients.update";
    } else if (!*layer && t->write_count && (strcmp(role, "forward") == 0 || t->backward)) {
        name = name_value(names, p, t, role, &layer);
    }
    layer = weight && !*layer ? p->graph->model->name : layer;
    if (copies_split(t))
        name = names->tensor[t->writes[0]->id];
    names->tasks[names->task_count++] =
        (TaskName){t, unique(taken, name ? name : dotted(layer, role)), *layer ? layer : NULL, role};
}

static int compare_tasks(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const TaskName *)a)->task, y = (uintptr_t)((const TaskName *)b)->task;
    return (x > y) - (x < y);
}

const TaskName *name_of_task(const Names *names, const Task *task)
{
    const TaskName key = {.task = task},
                   *found = bsearch(&key, names->tasks, (size_t)names->task_count, sizeof key, compare_tasks);
    if (!found)
        die("a call is of no task of its phase");
    return found;
}

/* Reserves the names of operations in other lanes. */
static void take_others(const Phase *p, Map *taken)
{
    static const char *const NAMES[] = {"read", "upload", "report"};
    for (int i = 0; i < COUNT(NAMES); i++)
        unique(taken, NAMES[i]);
    for (int i = 0; i < p->tensor_count; i++)
        if (p->tensors[i]->kind == TENSOR_OUTPUT)
            unique(taken, name_of_fetch(p->tensors[i]));
}

static void name_groups(Names *names, const Order *order, Map *taken)
{
    Map own = {0};
    names->group = NEW_ARRAY(const char *, order->group_count);
    names->transfer = NEW_ARRAY(const char *, order->group_count);
    for (int i = 0; i < order->group_count; i++) {
        const Group *g = &order->groups[i];
        names->group[i] = unique(&own, value_of(names, g->members[0]));
        names->transfer[i] = unique(taken, format("%s.%s", transfer_word(g->participants.transfer), names->group[i]));
    }
}

Names *name_phase(const Phase *p, const Order *order)
{
    Names *names = NEW(Names);
    Map taken = {0}, weights = {0};
    names->tensor = NEW_ARRAY(const char *, p->tensor_count);
    names->weight = NEW_ARRAY(const char *, p->tensor_count);
    names->tasks = NEW_ARRAY(TaskName, p->task_count);
    name_tensors(names, p);
    take_others(p, &taken);
    name_groups(names, order, &taken);
    find_weights(&weights, p);
    for (int i = 0; i < p->task_count; i++)
        if (p->tasks[i]->kind == TASK_KERNEL)
            name_task(names, p, p->tasks[i], &weights, &taken);
    if (names->task_count)
        qsort(names->tasks, (size_t)names->task_count, sizeof *names->tasks, compare_tasks);
    return names;
}

/* ---- names of buffers */
const char **names_of_group(const Names *names, const Group *g)
{
    const char **list = NEW_ARRAY(const char *, g->member_count);
    for (int i = 0; i < g->member_count; i++) {
        const char *name = value_of(names, g->members[i]);
        list[i] = copy_text(name, strlen(name));
    }
    return list;
}

void name_buffers(const Names *names, const Phase *p, const Order *order, MemoryLayout *l)
{
    for (int i = 0; i < p->tensor_count; i++)
        if (p->tensors[i]->kind == TENSOR_TEMPORARY && l->tensor[i].buffer >= 0 && order->group_of[i] < 0)
            l->buffers[l->tensor[i].buffer].name = names->tensor[i];
    for (int c = 0; c < order->call_count; c++)
        if (l->work[c].buffer >= 0)
            l->buffers[l->work[c].buffer].name = format("work.%s", name_of_task(names, order->calls[c])->op);
    for (int i = 0; i < order->group_count; i++)
        if (order->groups[i].bucket)
            l->buffers[l->group[i].buffer].name = format("bucket.%s", names->group[i]);
}
