/* memory.c: shows what a device's memory is used for at the peak: bytes of each kind of buffer, and the largest buffers. */
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

enum { ALIVE = 8 };

typedef struct Life {
    int first, last;
} Life; /* first and last operation that use a buffer; -1: none */

static Life *lives_of(const ViewDevice *d)
{
    Life *lives = mgpu_allocate((size_t)d->buffer_count + 1, sizeof *lives);
    for (int b = 0; b < d->buffer_count; b++)
        lives[b] = (Life){-1, -1};
    for (int i = 0; i < d->op_count; i++)
        for (int k = 0; k < d->ops[i].read_count + d->ops[i].write_count; k++) {
            Life *l = &lives[mgpu_access_of(&d->ops[i], k)->buffer];
            l->first = l->first < 0 ? i : l->first;
            l->last = i;
        }
    return lives;
}

static bool is_alive(const Buffer *b, const Life *l, int op)
{
    return b->kind != BUFFER_STAGING && b->bytes > 0 &&
           (mgpu_view_stays(b) || (l->first >= 0 && l->first <= op && op <= l->last));
}

int mgpu_view_by_bytes(const void *a, const void *b)
{
    const Buffer *x = *(const Buffer *const *)a, *y = *(const Buffer *const *)b;
    int64_t x_bytes = mgpu_view_buffer_bytes(x), y_bytes = mgpu_view_buffer_bytes(y);
    return x_bytes != y_bytes ? (x_bytes < y_bytes) - (x_bytes > y_bytes) : strcmp(x->name, y->name);
}

/* Returns the operation at which most bytes are live, and their number. */
static int peak_of(const ViewDevice *d, const Life *lives, int64_t *most)
{
    int64_t *change = mgpu_allocate((size_t)d->op_count + 2, sizeof *change), bytes = 0;
    int at = 0;
    *most = 0;
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        if (b->kind == BUFFER_STAGING || (!mgpu_view_stays(b) && lives[i].first < 0))
            continue;
        change[mgpu_view_stays(b) ? 0 : lives[i].first] += mgpu_view_buffer_bytes(b);
        change[mgpu_view_stays(b) ? d->op_count : lives[i].last + 1] -= mgpu_view_buffer_bytes(b);
    }
    for (int i = 0; i < d->op_count; i++)
        if ((bytes += change[i]) > *most) {
            *most = bytes;
            at = i;
        }
    free(change);
    return at;
}

/* The uses of buffers in the table. */
typedef enum MemoryUse {
    USE_WEIGHTS,
    USE_OPTIMIZER,
    USE_GRADIENTS,
    USE_ACTIVATIONS,
    USE_BACKWARD,
    USE_UPDATES,
    USE_INPUTS,
    USE_WORKSPACES,
    USES
} MemoryUse;
static const char *const USE[USES] = {"weights and states",
                                      "states of the optimizer",
                                      "buckets: gradients, gathered weights",
                                      "activations",
                                      "temporaries of the backward pass",
                                      "temporaries of updates",
                                      "inputs and reports",
                                      "workspaces"};

/* A state of the optimizer is named after its weight, followed by a dot and a word. */
static bool is_optimizers(const ViewDevice *d, const char *name)
{
    const char *dot = strrchr(name, '.');
    char weight[512];
    if (!dot || dot - name >= (ptrdiff_t)sizeof weight)
        return false;
    snprintf(weight, sizeof weight, "%.*s", (int)(dot - name), name);
    int i = mgpu_view_find_buffer(d, weight);
    return i >= 0 && d->buffers[i].kind == BUFFER_VARIABLE;
}

static MemoryUse use_of(const ViewDevice *d, const Life *lives, const Buffer *b)
{
    if (b->kind == BUFFER_VARIABLE)
        return is_optimizers(d, b->name) ? USE_OPTIMIZER : USE_WEIGHTS;
    if (b->kind == BUFFER_BUCKET)
        return USE_GRADIENTS;
    if (b->kind == BUFFER_WORKSPACE)
        return USE_WORKSPACES;
    if (mgpu_view_stays(b))
        return USE_INPUTS;
    int first = lives[b - d->buffers].first;
    int pass = first >= 0 ? mgpu_view_pass(&d->ops[first]) : -1;
    return pass == MGPU_BACKWARD ? USE_BACKWARD : pass == MGPU_UPDATE ? USE_UPDATES : USE_ACTIVATIONS;
}

/* Prints the uses in descending order, without those below a thousandth. */
static void print_uses(const ViewDevice *d, const Life *lives, const Buffer *const *alive, int count, FILE *f)
{
    int64_t bytes[USES] = {0}, all = 0;
    char a[32];
    for (int i = 0; i < count; i++) {
        bytes[use_of(d, lives, alive[i])] += mgpu_view_buffer_bytes(alive[i]);
        all += mgpu_view_buffer_bytes(alive[i]);
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
    Life *lives = lives_of(d);
    int at = peak_of(d, lives, &most), count = 0;
    const Buffer **alive = mgpu_allocate((size_t)d->buffer_count + 1, sizeof *alive);
    for (int i = 0; i < d->buffer_count; i++)
        if (is_alive(&d->buffers[i], &lives[i], at))
            alive[count++] = &d->buffers[i];
    qsort(alive, (size_t)count, sizeof(Buffer *), mgpu_view_by_bytes);
    fprintf(f, "\nmemory of device %d: %s; staging %s\n", number, mgpu_view_bytes(mgpu_view_memory(v, number), a),
            mgpu_view_bytes((double)d->staging_bytes, b));
    if (v->schedule->outside_arena_bytes)
        fprintf(f, "  of it for transfers, besides the arena: %s\n",
                mgpu_view_bytes((double)v->schedule->outside_arena_bytes, a));
    if (d->op_count)
        fprintf(f, "  at the peak, %s are alive (%s, line %d):\n", mgpu_view_bytes((double)most, a), d->ops[at].id,
                d->ops[at].line);
    print_uses(d, lives, alive, count, f);
    fprintf(f, "  of these the largest:\n");
    for (int i = 0; i < count && i < ALIVE; i++) {
        char name[512];
        fprintf(f, "  %10s  %s\n", mgpu_view_bytes((double)mgpu_view_buffer_bytes(alive[i]), a),
                mgpu_view_cut(alive[i]->name, width - 14, name, sizeof name));
    }
    if (count > ALIVE)
        fprintf(f, "  %10s  %d more\n", "", count - ALIVE);
    free(alive);
    free(lives);
}
