/* layers.c: the table of `mgpuc check`: instances in order of their calls, with shapes, parameters and work.
 * A row is an instance that has weights or states of its own, or a call in the model's text that has none below. */
#include "dsl/elaborate.h"

#include <inttypes.h>
#include <string.h>

typedef struct LayerRow Row;

static bool is_below(const char *path, const char *above)
{
    size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && path[n] == '.';
}

/* the row of a path, or of the nearest instance above that has one */
static Row *row_of(const Map *rows, const char *path)
{
    char *text = allocate(strlen(path) + 1);
    strcpy(text, path);
    for (;;) {
        Row *row = map_get(rows, text);
        char *dot = strrchr(text, '.');
        if (row || !dot)
            return row;
        *dot = 0;
    }
}

void finish_layers(Elaborator *e)
{
    Model *m = e->model;
    Row *rows = NULL;
    int count = 0;
    for (int k = 0; k < m->layer_count; k++) {
        const Instance *i = e->rows[k];
        const char *name = m->layers[k].name;
        bool above = false; /* of an instance that owns something: the rows below follow at once */
        for (int n = k + 1; n < m->layer_count && is_below(m->layers[n].name, name); n++)
            above |= e->rows[n]->owns;
        if (name[0] && (i->owns || (i->shown && !above))) {
            if (count && strcmp(rows[count - 1].name, name) == 0) { /* name = none: one row for both */
                rows[count - 1].parameters += m->layers[k].parameters;
                continue;
            }
            APPEND(rows, count, m->layers[k]);
        }
    }
    m->layers = rows;
    m->layer_count = count;
    Map by_name = {0};
    for (int k = 0; k < count; k++)
        if (!map_get(&by_name, rows[k].name))
            map_set(&by_name, rows[k].name, &rows[k]);
    for (int k = 0; k < m->eval->node_count; k++) {
        const Node *n = m->eval->nodes[k];
        Row *row = n->path && n->path[0] ? row_of(&by_name, n->path) : NULL;
        if (row)
            row->flops += node_flops(n);
    }
}

int64_t model_parameters(const Model *m)
{
    int64_t sum = 0;
    for (int k = 0; k < m->variable_count; k++)
        if (m->variables[k].kind == WEIGHT)
            sum += shape_count(&m->variables[k].shape);
    return sum;
}

static const char *with_commas(int64_t n)
{
    const char *digits = format("%" PRId64, n);
    size_t length = strlen(digits);
    Text t = {0};
    for (size_t k = 0; k < length; k++)
        text_add(&t, "%s%c", k && (length - k) % 3 == 0 ? "," : "", digits[k]);
    return copy_text(text_of(&t), t.length);
}

void layers_print(const Model *m, Text *out)
{
    int name = 5, shape = 5, parameters = 10;
    for (int k = 0; k < m->layer_count; k++) {
        int a = (int)strlen(m->layers[k].name), b = (int)strlen(shape_text(&m->layers[k].shape));
        int c = (int)strlen(with_commas(m->layers[k].parameters));
        name = a > name ? a : name;
        shape = b > shape ? b : shape;
        parameters = c > parameters ? c : parameters;
    }
    text_add(out, "%5s  %-*s  %-*s  %*s  %10s\n", "line", name, "layer", shape, "shape", parameters, "parameters", "kFLOP");
    for (int k = 0; k < m->layer_count; k++) {
        const struct LayerRow *r = &m->layers[k];
        const Place *user = r->at;
        while (user && user->source->library && user->caller)
            user = user->caller;
        text_add(out, "%5d  %-*s  %-*s  %*s  %10.1f\n", user ? user->line : 0, name, r->name, shape, shape_text(&r->shape),
                 parameters, with_commas(r->parameters), r->flops / 1e3);
    }
    text_add(out, "%s parameters\n", with_commas(model_parameters(m)));
}

static void json_text(const char *s, Text *out)
{
    text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_add(out, "\\%c", c);
        else if (c < 32)
            text_add(out, "\\u%04x", c);
        else
            text_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

void layers_print_json(const Model *m, Text *out)
{
    text_add(out, "\"parameters\":%" PRId64 ",\"layers\":[", model_parameters(m));
    for (int k = 0; k < m->layer_count; k++) {
        const struct LayerRow *r = &m->layers[k];
        const Place *user = r->at;
        while (user && user->source->library && user->caller)
            user = user->caller;
        text_add(out, "%s{\"name\":", k ? "," : "");
        json_text(r->name, out);
        text_add(out, ",\"line\":%d,\"shape\":[", user ? user->line : 0);
        for (int n = 0; n < r->shape.rank; n++)
            text_add(out, "%s%" PRId64, n ? "," : "", r->shape.extent[n]);
        text_add(out, "],\"parameters\":%" PRId64 ",\"flops\":%.0f}", r->parameters, r->flops);
    }
    text_add(out, "]");
}
