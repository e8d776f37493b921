/* layers.c: lists the most expensive parts of the model. A part is the first component of an operation's layer path, or the one
 * after `within`; operations without a layer are grouped by role. Operations are sorted by part, then summed. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 10 };

typedef struct LayerCost {
    const char *name; /* start of the name, or of the role if there is no layer */
    int length;
    bool layer;
    double us, of[MGPU_PASSES];
} LayerCost;

static int by_name(const void *a, const void *b)
{
    const LayerCost *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer - y->layer;
    int least = x->length < y->length ? x->length : y->length, order = strncmp(x->name, y->name, (size_t)least);
    return order ? order : x->length - y->length;
}

static int by_time(const void *a, const void *b)
{
    const LayerCost *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us) - (x->us > y->us) : by_name(a, b);
}

/* Returns false if the operation is not in `within`. */
static bool part_of(const ScheduledOp *op, const char *within, LayerCost *p)
{
    size_t length = within ? strlen(within) : 0;
    bool layer = *op->layer || within;
    const char *path = layer ? op->layer : op->role;
    if (within && !mgpu_view_has_layer(op->layer, within))
        return false;
    if (within && op->layer[length] == '.') /* an operation of "layer3" itself belongs to "layer3" */
        path += length + 1;
    *p = (LayerCost){.name = path, .length = (int)strcspn(path, "."), .layer = layer, .us = op->time_us};
    for (int k = 0; k < MGPU_PASSES; k++)
        p->of[k] = mgpu_view_pass_part(op, k) * op->time_us;
    return true;
}

static int add_up(LayerCost *parts, int count)
{
    int out = 0;
    for (int i = 0; i < count; i++) {
        if (!out || by_name(&parts[out - 1], &parts[i]) != 0) {
            parts[out++] = parts[i];
            continue;
        }
        parts[out - 1].us += parts[i].us;
        for (int k = 0; k < MGPU_PASSES; k++)
            parts[out - 1].of[k] += parts[i].of[k];
    }
    return out;
}

static void print_part(const LayerCost *p, double all, int width, FILE *f)
{
    char a[32], b[32], c[32], e[32], name[512];
    char *own = mgpu_format(p->layer ? "%.*s" : "(%.*s)", p->length, p->name);
    fprintf(f, "  %10s  %5.1f %%  %10s %10s %10s  %s\n", mgpu_view_time(p->us, a), all > 0 ? 100 * p->us / all : 0,
            p->of[0] > 0 ? mgpu_view_time(p->of[0], b) : "", p->of[1] > 0 ? mgpu_view_time(p->of[1], c) : "",
            p->of[2] > 0 ? mgpu_view_time(p->of[2], e) : "", mgpu_view_cut(own, width - 57, name, sizeof name));
    free(own);
}

void mgpu_view_layers(const ViewDevice *d, const char *within, int width, FILE *f)
{
    LayerCost *parts = mgpu_allocate((size_t)d->op_count + 1, sizeof *parts);
    int count = 0;
    double all = 0;
    for (int i = 0; i < d->op_count; i++) {
        all += d->ops[i].lane == LANE_COMP ? d->ops[i].time_us : 0;
        count += d->ops[i].lane == LANE_COMP && part_of(&d->ops[i], within, &parts[count]);
    }
    qsort(parts, (size_t)count, sizeof *parts, by_name);
    count = add_up(parts, count);
    qsort(parts, (size_t)count, sizeof *parts, by_time);
    if (count > (within ? 1 : 0))
        fprintf(f, "\n%-15s of all     forward   backward     update\n", within ? "its parts" : "layers");
    for (int i = 0; i < count && i < MOST && count > (within ? 1 : 0); i++)
        print_part(&parts[i], all, width, f);
    if (count > MOST)
        fprintf(f, "  %d more; --layer NAME: the parts of one\n", count - MOST);
    free(parts);
}
