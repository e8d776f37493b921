/* layers.c: the model's instances as a folding tree: the cost of each in a predicted training step of device 0, and whose values
 * it reads.
 *
 * A call belongs to the instance that most of it computes; an instance includes its children. Who reads whom follows from the
 * tensors that calls of the forward pass write and read; it is attributed to the two instances below their common ancestor. */
#include "runtime/report/page.h"
#include "runtime/view/view.h"

#include <string.h>

enum { OPEN_DEPTH = 1 };

typedef struct Layer Layer;
struct Layer {
    const char *path, *name; /* name: the last component of the path */
    double us, flops, bytes;
    int64_t parameters;
    int line, calls, depth;
    const char *shape;
    Layer **parts;
    int part_count;
    const Layer **sources;
    int source_count;
};

static Layer *part_named(Layer *parent, const char *path, size_t length, Sheet *s)
{
    for (int i = 0; i < parent->part_count; i++)
        if (strlen(parent->parts[i]->path) == length && memcmp(parent->parts[i]->path, path, length) == 0)
            return parent->parts[i];
    Layer *l = MGPU_SHEET_NEW(s, Layer, 1);
    size_t from = *parent->path ? strlen(parent->path) + 1 : 0;
    *l = (Layer){.path = mgpu_sheet_copy(s, path, length),
                 .name = mgpu_sheet_copy(s, path + from, length - from),
                 .depth = parent->depth + 1};
    MGPU_APPEND(s, parent->parts, parent->part_count, l);
    return l;
}

/* Returns the instance of a path, and creates it and its ancestors if they are new. */
static Layer *layer_at(Layer *root, const char *path, Sheet *s)
{
    Layer *l = root;
    for (const char *at = path; *at;) {
        at += strcspn(at, ".");
        l = part_named(l, path, (size_t)(at - path), s);
        at += *at == '.';
    }
    return l;
}

/* Returns the path of the layer. That of a variable ends with the variable's name. */
static const char *layer_path(const ViewDevice *d, const char *path, Sheet *s)
{
    const char *dot = strrchr(path, '.');
    if (mgpu_view_find_buffer(d, mgpu_sheet_text(s, "w.%s", path)) < 0)
        return path;
    return dot ? mgpu_sheet_copy(s, path, (size_t)(dot - path)) : "";
}

static void add_calls(const Page *p, Layer *root, Sheet *s)
{
    const ViewDevice *d = &p->view->devices[0];
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (op->verb != VERB_CALL)
            continue;
        const char *path = layer_path(d, op->layer, s);
        Layer *l = layer_at(root, *path || !*op->role ? path : mgpu_sheet_text(s, "(%s)", op->role), s);
        l->us += op->time_us;
        l->flops += op->flops;
        l->bytes += mgpu_view_op_bytes(op);
        l->calls++;
    }
}

static void add_rows(const Page *p, Layer *root, Sheet *s)
{
    for (int i = 0; i < p->layer_count; i++) {
        Layer *l = layer_at(root, p->layers[i].path, s);
        l->shape = p->layers[i].shape;
        l->line = p->layers[i].line;
        l->parameters += p->layers[i].parameters;
    }
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

/* ---- whose values a layer reads */
static void add_source(Layer *root, const char *reader, const char *source, Sheet *s)
{
    Layer *a = root, *b = root;
    for (size_t at = 0; a == b;) { /* find the first components that differ */
        size_t x = at + strcspn(reader + at, "."), y = at + strcspn(source + at, ".");
        if (!reader[at] || !source[at])
            return;
        a = part_named(a, reader, x, s);
        b = part_named(b, source, y, s);
        if (a == b && (!reader[x] || !source[y]))
            return;
        at = x + 1;
    }
    for (int i = 0; i < a->source_count; i++)
        if (a->sources[i] == b)
            return;
    MGPU_APPEND(s, a->sources, a->source_count, b);
}

/* Returns "" if no layer writes it. */
static const char *source_of(const Buffer *b, const char *writer)
{
    return b->kind == BUFFER_INPUT ? b->name + strlen("in.") : writer ? writer : "";
}

static void add_sources(const Page *p, Layer *root, Sheet *s)
{
    const ViewDevice *d = &p->view->devices[0];
    const char **writer = MGPU_SHEET_NEW(s, const char *, d->buffer_count);
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        bool forward = op->verb == VERB_CALL && mgpu_view_pass(op) != MGPU_BACKWARD && mgpu_view_pass(op) != MGPU_UPDATE;
        for (int k = 0; k < op->read_count + op->write_count; k++) {
            int number = mgpu_access_of(op, k)->buffer;
            const Buffer *b = &d->buffers[number];
            if (k >= op->read_count && !mgpu_view_stays(b))
                writer[number] = op->layer;
            else if (k < op->read_count && forward && *op->layer && *source_of(b, writer[number]))
                add_source(root, op->layer, source_of(b, writer[number]), s);
        }
    }
}

/* ---- printing */
static void print_costs(const Layer *l, Sheet *s)
{
    static const struct {
        double least;
        const char *unit;
    } FLOPS[] = {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {0, "kFLOP"}};
    char text[32];
    int u = 0;
    if (!l->calls) {
        fprintf(s->f, "in kernels of others");
        return;
    }
    while (l->flops < FLOPS[u].least)
        u++;
    if (l->flops > 0)
        fprintf(s->f, "%.1f %s, ", l->flops / (FLOPS[u].least > 0 ? FLOPS[u].least : 1e3), FLOPS[u].unit);
    fprintf(s->f, "%s, %d call%s", mgpu_view_bytes(l->bytes, text), l->calls, l->calls == 1 ? "" : "s");
}

static void print_layer(const Layer *l, double all_us, Sheet *s)
{
    char time[32], parameters[32];
    fprintf(s->f, "<details%s%s><summary style=\"--depth:%d\"><span class=\"name\">", l->depth <= OPEN_DEPTH ? " open" : "",
            l->part_count ? "" : " class=\"leaf\"", l->depth);
    mgpu_svg_text(l->depth ? l->name : "the model", s);
    fprintf(s->f,
            "</span><span class=\"bar\"><i style=\"width:%.1f%%\"></i></span><span class=\"cost\">%s, %.1f %%</span><span "
            "class=\"more\">",
            all_us > 0 ? 100 * l->us / all_us : 0, mgpu_view_time(l->us, time), all_us > 0 ? 100 * l->us / all_us : 0);
    print_costs(l, s);
    if (l->parameters)
        fprintf(s->f, ", %s parameters", mgpu_view_number((double)l->parameters, parameters));
    if (l->shape)
        fprintf(s->f, ", %s", l->shape);
    if (l->line)
        fprintf(s->f, ", line %d", l->line);
    for (int i = 0; i < l->source_count; i++) {
        fputs(i ? ", " : "; reads ", s->f);
        mgpu_svg_text(l->sources[i]->name, s);
    }
    fprintf(s->f, "</span></summary>\n");
    for (int i = 0; i < l->part_count; i++)
        if (l->parts[i]->calls || l->parts[i]->parameters || l->parts[i]->line)
            print_layer(l->parts[i], all_us, s);
    fprintf(s->f, "</details>\n");
}

void mgpu_layers_print(const Page *p, Sheet *s)
{
    Layer root = {.path = "", .name = ""};
    add_rows(p, &root, s);
    add_calls(p, &root, s);
    sum_up(&root);
    add_sources(p, &root, s);
    fprintf(s->f,
            "<section id=\"layers\"><h2>Layers</h2>\n<p>What each instance costs in a training step of device 0, predicted. "
            "A call counts for the instance that most of it is of; of no layer, for its role.</p>\n");
    print_layer(&root, root.us, s);
    fprintf(s->f, "</section>\n");
}
