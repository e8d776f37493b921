/* dropped.c: the result of a search: bytes, operations and times, and the layers whose values are recomputed. */
#include "compiler/plan/recompute/search.h"

#include <stdlib.h>
#include <string.h>

void measure(const Recomputing *r, const Phase *before, Recomputed *made)
{
    double samples = (double)r->samples;
    made->peak = r->peak;
    for (int t = 0; t < r->phase->task_count; t++)
        if (r->phase->tasks[t]->kind == TASK_KERNEL) {
            made->flops += task_flops(r->phase->tasks[t], units_of_task(r->phase->tasks[t], r->devices, samples));
            made->us += unit_us(r, (Unit){t, 1});
        }
    for (int t = 0; t < before->task_count; t++)
        if (before->tasks[t]->kind == TASK_KERNEL) {
            double units = units_of_task(before->tasks[t], r->devices, samples);
            made->flops_before += task_flops(before->tasks[t], units);
            made->us_before += time_of_launch(r->program, &r->device, before->tasks[t], units);
        }
}

/* Sorts layers by the bytes that are saved per time of recomputation. */
static int compare_layers(const void *a, const void *b)
{
    const DroppedLayer *x = a, *y = b;
    double first = x->bytes / x->us, second = y->bytes / y->us;
    return first != second ? (first < second) - (first > second) : strcmp(x->layer, y->layer);
}

static DroppedLayer *layer_named(Map *layers, const char *name)
{
    DroppedLayer *l = map_get(layers, name);
    if (!l) {
        l = NEW(DroppedLayer);
        l->layer = name;
        map_set(layers, name, l);
    }
    return l;
}

void list_layers(const Recomputing *r, Recomputed *made)
{
    Map layers = {0};
    for (int t = 0; t < r->phase->task_count; t++) {
        const Task *task = r->phase->tasks[t];
        DroppedLayer *l = NULL;
        for (int k = 0; k < task->write_count; k++) {
            const Tensor *x = task->writes[k];
            if (r->original[x->id] == x->id) /* it is not a copy */
                continue;
            l = layer_named(&layers, task->layer ? task->layer : "");
            l->tensors++;
            l->bytes += (double)bytes_of(r, x);
        }
        if (l)
            l->us += unit_us(r, (Unit){t, 1});
    }
    for (int i = 0; i < layers.count; i++)
        APPEND(made->layers, made->layer_count, *(DroppedLayer *)layers.values[i]);
    if (made->layer_count)
        qsort(made->layers, (size_t)made->layer_count, sizeof *made->layers, compare_layers);
}
