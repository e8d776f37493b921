/* memory.c: what a device's memory is for: the kinds of buffers that are alive where most bytes are, and the largest of them. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { ALIVE = 8 };

static bool is_alive(const ViewBuffer *b, int op)
{
    return strcmp(b->kind, "staging") != 0 && b->bytes > 0 && (mgpu_view_stays(b) || (b->first >= 0 && b->first <= op && op <= b->last));
}

static int by_bytes(const void *a, const void *b)
{
    const ViewBuffer *x = *(const ViewBuffer *const *)a, *y = *(const ViewBuffer *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

/* the operation where most bytes are alive, and how many */
static int peak_of(const ViewDevice *d, int64_t *most)
{
    int64_t *change = mgpu_allocate((size_t)d->op_count + 2, sizeof *change), bytes = 0;
    int at = 0;
    *most = 0;
    for (int i = 0; i < d->buffer_count; i++) {
        const ViewBuffer *b = &d->buffers[i];
        if (strcmp(b->kind, "staging") == 0 || (!mgpu_view_stays(b) && b->first < 0))
            continue;
        change[mgpu_view_stays(b) ? 0 : b->first] += b->bytes;
        change[mgpu_view_stays(b) ? d->op_count : b->last + 1] -= b->bytes;
    }
    for (int i = 0; i < d->op_count; i++)
        if ((bytes += change[i]) > *most) {
            *most = bytes;
            at = i;
        }
    free(change);
    return at;
}

/* what buffers are for, as the table of memory has it */
typedef enum Use { USE_WEIGHTS, USE_OPTIMIZER, USE_GRADIENTS, USE_ACTIVATIONS, USE_BACKWARD, USE_UPDATES, USE_INPUTS, USE_WORKSPACES, USES } Use;
static const char *const USE[USES] = {"weights and states", "states of the optimizer", "buckets: gradients, gathered weights", "activations",
                                      "temporaries of the backward pass", "temporaries of updates", "inputs and reports", "workspaces"};

/* a state of the optimizer is called like its weight, a dot and a word */
static bool is_optimizers(const ViewDevice *d, const char *name)
{
    const char *dot = strrchr(name, '.');
    char weight[512];
    if (!dot || dot - name >= (ptrdiff_t)sizeof weight)
        return false;
    snprintf(weight, sizeof weight, "%.*s", (int)(dot - name), name);
    int i = mgpu_view_find_buffer(d, weight);
    return i >= 0 && strcmp(d->buffers[i].kind, "variable") == 0;
}

static Use use_of(const ViewDevice *d, const ViewBuffer *b)
{
    if (strcmp(b->kind, "variable") == 0)
        return is_optimizers(d, b->name) ? USE_OPTIMIZER : USE_WEIGHTS;
    if (strcmp(b->kind, "bucket") == 0)
        return USE_GRADIENTS;
    if (strcmp(b->kind, "workspace") == 0)
        return USE_WORKSPACES;
    if (mgpu_view_stays(b))
        return USE_INPUTS;
    const char *role = b->first >= 0 ? d->ops[b->first].role : "";
    return strcmp(role, "backward") == 0 ? USE_BACKWARD : strcmp(role, "update") == 0 ? USE_UPDATES : USE_ACTIVATIONS;
}

/* the most first; what is less than a thousandth is left out */
static void print_uses(const ViewDevice *d, const ViewBuffer *const *alive, int count, FILE *f)
{
    int64_t bytes[USES] = {0}, all = 0;
    char a[32];
    for (int i = 0; i < count; i++) {
        bytes[use_of(d, alive[i])] += alive[i]->bytes;
        all += alive[i]->bytes;
    }
    for (;;) {
        int most = 0;
        for (int i = 1; i < USES; i++)
            most = bytes[i] > bytes[most] ? i : most;
        if (bytes[most] * 1000 <= all)
            return;
        fprintf(f, "  %10s  %s\n", mgpu_view_bytes((double)bytes[most], a), USE[most]);
        bytes[most] = 0;
    }
}

void mgpu_view_memory_page(const View *v, const ViewDevice *d, int number, int width, FILE *f)
{
    char a[32], b[32];
    int64_t most;
    int at = peak_of(d, &most), count = 0;
    const ViewBuffer **alive = mgpu_allocate((size_t)d->buffer_count + 1, sizeof *alive);
    for (int i = 0; i < d->buffer_count; i++)
        if (is_alive(&d->buffers[i], at))
            alive[count++] = &d->buffers[i];
    qsort(alive, (size_t)count, sizeof(ViewBuffer *), by_bytes);
    fprintf(f, "\nmemory of device %d: %s; staging %s\n", number, mgpu_view_bytes(mgpu_view_memory(v, number), a),
            mgpu_view_bytes((double)d->staging, b));
    if (v->besides)
        fprintf(f, "  of it for transfers, besides the arena: %s\n", mgpu_view_bytes((double)v->besides, a));
    if (d->op_count)
        fprintf(f, "  at the peak, %s are alive (%s, line %d):\n", mgpu_view_bytes((double)most, a), d->ops[at].name, d->ops[at].line);
    print_uses(d, alive, count, f);
    fprintf(f, "  of these the largest:\n");
    for (int i = 0; i < count && i < ALIVE; i++) {
        char name[512];
        fprintf(f, "  %10s  %s\n", mgpu_view_bytes((double)alive[i]->bytes, a), mgpu_view_cut(alive[i]->name, width - 14, name, sizeof name));
    }
    if (count > ALIVE)
        fprintf(f, "  %10s  %d more\n", "", count - ALIVE);
    free(alive);
}
