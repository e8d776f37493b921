/* layers.c: the model by its layers: a tree of instances that folds, with what each costs in a predicted training step of device 0, and
 * whose values it reads.
 *
 * A call belongs to the instance that most of it is of; a layer has what its parts have. Who reads whom follows from the tensors that the
 * calls of the forward pass write and read, and is said of the two instances where their paths part. */
#include "compiler/report/page.h"
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_DEPTH = 1 };

typedef struct Layer Layer;
struct Layer {
    const char *path, *name;    /* name: the last part of the path */
    double us, flops, bytes;
    int64_t parameters;
    int line, calls, depth;
    const Shape *shape;
    Layer **parts; int part_count;
    const Layer **sources; int source_count;
};

static Layer *part_named(Layer *parent, const char *path, size_t length)
{
    for (int i = 0; i < parent->part_count; i++)
        if (strlen(parent->parts[i]->path) == length && memcmp(parent->parts[i]->path, path, length) == 0)
            return parent->parts[i];
    Layer *l = NEW(Layer);
    size_t from = *parent->path ? strlen(parent->path) + 1 : 0;
    *l = (Layer){.path = copy_text(path, length), .name = copy_text(path + from, length - from), .depth = parent->depth + 1};
    APPEND(parent->parts, parent->part_count, l);
    return l;
}

/* the instance, and in `way` those that it is in; made where they are new */
static Layer *layer_at(Layer *root, const char *path)
{
    Layer *l = root;
    for (const char *at = path; *at;) {
        at += strcspn(at, ".");
        l = part_named(l, path, (size_t)(at - path));
        at += *at == '.';
    }
    return l;
}

/* a variable's path is that of its layer and its own name */
static const char *layer_path(const Model *m, const char *path)
{
    for (int i = 0; i < m->variable_count; i++)
        if (strcmp(m->variables[i].name, path) == 0) {
            const char *dot = strrchr(path, '.');
            return dot ? copy_text(path, (size_t)(dot - path)) : "";
        }
    return path;
}

static void add_calls(const Page *p, Layer *root)
{
    const Schedule *s = p->plan->schedule;
    for (int k = 0; k < s->phase_count; k++) {
        const DeviceSchedule *d = &s->phases[k].devices[0];
        if (strcmp(s->phases[k].name, phase_name(PHASE_TRAIN, p->plan->always_partial)) != 0)
            continue;
        for (int i = 0; i < d->op_count; i++) {
            const ScheduledOp *op = &d->ops[i];
            if (op->verb != VERB_CALL)
                continue;
            const char *path = layer_path(p->program->model, op->layer ? op->layer : "");
            Layer *l = layer_at(root, *path || !op->line ? path : format("line %d", op->line));
            l->us += op->time_us;
            l->flops += op->flops;
            l->bytes += op_bytes(d, op);
            l->calls++;
        }
    }
}

static void add_rows(const Model *m, Layer *root)
{
    for (int i = 0; i < m->layer_count; i++) {
        Layer *l = layer_at(root, m->layers[i].name);
        l->shape = &m->layers[i].shape;
        l->line = model_line(m->layers[i].at);
    }
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == WEIGHT)
            layer_at(root, layer_path(m, m->variables[i].name))->parameters += shape_count(&m->variables[i].shape);
}

static void sum_up(Layer *l)
{
    for (int i = 0; i < l->part_count; i++) {
        sum_up(l->parts[i]);
        l->us += l->parts[i]->us;
        l->flops += l->parts[i]->flops;
        l->bytes += l->parts[i]->bytes;
        l->calls += l->parts[i]->calls;
        l->parameters += l->parts[i]->parameters;
    }
}

/* ---- who reads whom */
static void add_source(Layer *root, const char *reader, const char *source)
{
    Layer *a = root, *b = root;
    for (size_t at = 0; a == b;) { /* down to where they part */
        size_t x = at + strcspn(reader + at, "."), y = at + strcspn(source + at, ".");
        if (!reader[at] || !source[at])
            return;
        a = part_named(a, reader, x);
        b = part_named(b, source, y);
        if (a == b && (!reader[x] || !source[y]))
            return;
        at = x + 1;
    }
    for (int i = 0; i < a->source_count; i++)
        if (a->sources[i] == b)
            return;
    APPEND(a->sources, a->source_count, b);
}

static void add_sources(const Page *p, Layer *root)
{
    for (int k = 0; k < p->program->phase_count; k++) {
        const Phase *phase = p->program->phases[k];
        if (phase->kind != PHASE_TRAIN || phase->partial_batch)
            continue;
        const char **writer = NEW_ARRAY(const char *, phase->tensor_count);
        for (int i = 0; i < phase->task_count; i++) {
            const Task *t = phase->tasks[i];
            const char *layer = t->layer ? t->layer : "";
            for (int r = 0; r < t->read_count && !t->backward && !t->update; r++) {
                const Tensor *x = t->reads[r];
                const char *source = x->kind == TENSOR_INPUT ? x->name : x->kind == TENSOR_TEMPORARY ? writer[x->id] : NULL;
                if (source && *layer && *source)
                    add_source(root, layer, source);
            }
            for (int w = 0; w < t->write_count; w++)
                writer[t->writes[w]->id] = layer;
        }
    }
}

/* ---- printing */
static void print_costs(const Layer *l, Text *t)
{
    static const struct {
        double least;
        const char *unit;
    } FLOPS[] = {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {0, "kFLOP"}};
    char text[32];
    int u = 0;
    if (!l->calls) {
        text_add(t, "in kernels of others");
        return;
    }
    while (l->flops < FLOPS[u].least)
        u++;
    if (l->flops > 0)
        text_add(t, "%.1f %s, ", l->flops / (FLOPS[u].least > 0 ? FLOPS[u].least : 1e3), FLOPS[u].unit);
    text_add(t, "%s, %d call%s", mgpu_view_bytes(l->bytes, text), l->calls, l->calls == 1 ? "" : "s");
}

static void print_layer(const Layer *l, double all_us, Text *t)
{
    char time[32], parameters[32];
    text_add(t, "<details%s%s><summary style=\"--depth:%d\"><span class=\"name\">", l->depth <= OPEN_DEPTH ? " open" : "",
             l->part_count ? "" : " class=\"leaf\"", l->depth);
    svg_text(l->depth ? l->name : "the model", t);
    text_add(t,
             "</span><span class=\"bar\"><i style=\"width:%.1f%%\"></i></span><span class=\"cost\">%s, %.1f %%</span><span "
             "class=\"more\">",
             all_us > 0 ? 100 * l->us / all_us : 0, mgpu_view_time(l->us, time), all_us > 0 ? 100 * l->us / all_us : 0);
    print_costs(l, t);
    if (l->parameters)
        text_add(t, ", %s parameters", mgpu_view_number((double)l->parameters, parameters));
    if (l->shape)
        text_add(t, ", %s", shape_text(l->shape));
    if (l->line)
        text_add(t, ", line %d", l->line);
    for (int i = 0; i < l->source_count; i++) {
        text_add(t, i ? ", " : "; reads ");
        svg_text(l->sources[i]->name, t);
    }
    text_add(t, "</span></summary>\n");
    for (int i = 0; i < l->part_count; i++)
        if (l->parts[i]->calls || l->parts[i]->parameters || l->parts[i]->line)
            print_layer(l->parts[i], all_us, t);
    text_add(t, "</details>\n");
}

void layers_print(const Page *p, Text *t)
{
    Layer root = {.path = "", .name = ""};
    add_rows(p->program->model, &root);
    add_calls(p, &root);
    sum_up(&root);
    add_sources(p, &root);
    text_add(t, "<section id=\"layers\"><h2>Layers</h2>\n<p>What each instance costs in a training step of device 0, predicted. "
                "A call counts for the instance that most of it is of; of no layer, for its line.</p>\n");
    print_layer(&root, root.us, t);
    text_add(t, "</section>\n");
}
