/* layers.c: the table of `mgpuc check`: instances in the order of their calls, with shapes, parameters and work. A row is an
 * instance that has weights or states of its own, or a call in the model's text without such instances in it. */
#include "dsl/elaborate.h"

#include <string.h>

typedef struct LayerRow Row;

static bool is_below(const char *path, const char *above)
{
    size_t n = strlen(above);
    return strncmp(path, above, n) == 0 && path[n] == '.';
}

/* Returns the row of a path or of its nearest ancestor that has one. */
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
        bool above = false; /* one of the rows that follow at once, inside this instance, owns a variable */
        for (int n = k + 1; n < m->layer_count && is_below(m->layers[n].name, name); n++)
            above |= e->rows[n]->owns;
        if (name[0] && (i->owns || (i->shown && !above))) {
            if (count && strcmp(rows[count - 1].name, name) == 0) { /* name = none: both share a row */
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
