/* diff.c: what one schedule changes in another: numbers with their sign, all-reduces that moved, kernels, operations and memory that
 * came and went. Operations, buffers and collectives are the same if their names are, which follow from the model. */
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 10, NAME = 200 };
static const double SAME = .005; /* of a step: what times may differ unsaid */

typedef struct Diff {
    const View *a, *b;
    FILE *f;
    int said;
} Diff;

static const char *signed_time(double us, char text[40])
{
    char a[32];
    snprintf(text, 40, "%s%s", us > 0 ? "+" : "", mgpu_view_time(us, a));
    return text;
}

static const char *signed_bytes(double bytes, char text[40])
{
    char a[32];
    snprintf(text, 40, "%s%s", bytes > 0 ? "+" : "", mgpu_view_bytes(bytes, a));
    return text;
}

/* ---- numbers */
static void compare_time(Diff *d, const char *what, double a, double b, double step)
{
    char x[32], y[32], z[40];
    if (fabs(b - a) <= SAME * step || fabs(b - a) < .05)
        return;
    fprintf(d->f, "%11s  %s: %s, was %s\n", signed_time(b - a, z), what, mgpu_view_time(b, y), mgpu_view_time(a, x));
    d->said++;
}

static void compare_bytes(Diff *d, const char *what, double a, double b)
{
    char x[32], y[32], z[40];
    if (a == b)
        return;
    fprintf(d->f, "%11s  %s: %s, was %s\n", signed_bytes(b - a, z), what, mgpu_view_bytes(b, y), mgpu_view_bytes(a, x));
    d->said++;
}

static void compare_head(Diff *d)
{
    const View *a = d->a, *b = d->b;
    if (a->batch != b->batch)
        d->said += fprintf(d->f, "%11s  batch: %lld, was %lld\n", "", (long long)b->batch, (long long)a->batch) > 0;
    if (a->device_count != b->device_count)
        d->said += fprintf(d->f, "%11s  devices: %d, was %d\n", "", b->device_count, a->device_count) > 0;
    if (strcmp(a->precision, b->precision) != 0)
        d->said += fprintf(d->f, "%11s  precision: %s, was %s\n", "", b->precision, a->precision) > 0;
    if (a->accumulate != b->accumulate)
        d->said += fprintf(d->f, "%11s  micro-batches: %d, was %d\n", "", b->accumulate, a->accumulate) > 0;
    const char *was = a->plan ? a->plan : "auto", *is = b->plan ? b->plan : "auto";
    if (strcmp(was, is) != 0)
        d->said += fprintf(d->f, "%11s  plan: %s, was %s\n", "", is, was) > 0;
    if (a->machine && b->machine && strcmp(a->machine, b->machine) != 0)
        d->said += fprintf(d->f, "%11s  predicted on %s, was on %s\n", "", b->machine, a->machine) > 0;
}

static void compare_lanes(Diff *d)
{
    const ViewUses *x = mgpu_view_uses(d->a, 0), *y = mgpu_view_uses(d->b, 0);
    if (!d->a->machine || !d->b->machine || !x || !y) {
        compare_time(d, "one step by itself", d->a->end_us, d->b->end_us, d->a->end_us);
        return;
    }
    double step = d->a->step_us, before = (double)d->a->batch / d->a->step_us * 1e6, after = (double)d->b->batch / d->b->step_us * 1e6;
    char text[64];
    compare_time(d, "step", step, d->b->step_us, step);
    if (fabs(after - before) > SAME * fabs(before)) {
        d->said++;
        fprintf(d->f, "%+9.1f %%  samples/s\n", 100 * (after / before - 1));
    }
    compare_time(d, "computation", x->lanes[VIEW_COMP].busy_us, y->lanes[VIEW_COMP].busy_us, step);
    compare_time(d, "communication", x->lanes[VIEW_COMM].busy_us + x->lanes[VIEW_SYNC].busy_us, y->lanes[VIEW_COMM].busy_us + y->lanes[VIEW_SYNC].busy_us, step);
    compare_time(d, "exposed communication", x->lanes[VIEW_COMP].idle_us[VIEW_FOR_COMMUNICATION], y->lanes[VIEW_COMP].idle_us[VIEW_FOR_COMMUNICATION], step);
    for (int c = 0; c < VIEW_CAUSES; c++)
        if (c != VIEW_FOR_COMMUNICATION && c != VIEW_FOR_COMPUTATION) {
            snprintf(text, sizeof text, "computing waits for: %s", mgpu_view_cause[c]);
            compare_time(d, text, x->lanes[VIEW_COMP].idle_us[c], y->lanes[VIEW_COMP].idle_us[c], step);
        }
}

static double bytes_of_kind(const ViewDevice *d, const char *kind)
{
    double bytes = 0;
    for (int i = 0; i < d->buffer_count; i++)
        bytes += strcmp(d->buffers[i].kind, kind) == 0 ? (double)d->buffers[i].bytes : 0;
    return bytes;
}

static double sum_of_links(const View *v)
{
    double bytes = 0;
    for (int i = 0; i < v->link_count; i++)
        bytes += v->links[i].bytes;
    return bytes;
}

static void compare_memory(Diff *d)
{
    const ViewDevice *x = &d->a->devices[0], *y = &d->b->devices[0];
    compare_bytes(d, "memory of device 0", mgpu_view_memory(d->a, 0), mgpu_view_memory(d->b, 0));
    compare_bytes(d, "of it variables", bytes_of_kind(x, "variable"), bytes_of_kind(y, "variable"));
    compare_bytes(d, "of it for transfers", (double)d->a->besides, (double)d->b->besides);
    compare_bytes(d, "over links, a step", sum_of_links(d->a), sum_of_links(d->b));
}

/* ---- all-reduces and other collectives */
static const char *after(const View *v, const char *name) /* the last call that it waits for; "": none */
{
    const ViewDevice *d = &v->devices[0];
    for (int i = 0; i < d->op_count; i++)
        if (mgpu_lane_transfers((int)d->ops[i].lane) && strcmp(d->ops[i].label, name) == 0)
            for (int k = 0; k < d->ops[i].wait_count; k++)
                if (d->ops[i].waits[k].op >= 0 && !d->ops[i].waits[k].back)
                    return d->ops[d->ops[i].waits[k].op].name;
    return "";
}

static int said_of(Diff *d, int *count) /* false: enough has been said */
{
    d->said++;
    if (++*count == MOST + 1)
        fprintf(d->f, "%11s  ...\n", "");
    return *count <= MOST;
}

static void compare_collectives(Diff *d)
{
    char z[40], y[32];
    int count = 0;
    for (int i = 0; i < d->b->collective_count; i++) {
        const ViewCollective *c = &d->b->collectives[i], *old = mgpu_view_find_collective(d->a, c->name);
        if (!old) {
            if (said_of(d, &count))
                fprintf(d->f, "%11s  %s %s is new: of %d value%s, after %s\n", signed_bytes((double)c->bytes, z), c->kind, c->name, c->of_count,
                        c->of_count == 1 ? "" : "s", after(d->b, c->name));
            continue;
        }
        if (old->bytes != c->bytes && said_of(d, &count))
            fprintf(d->f, "%11s  %s %s: %s, of %d value%s, was %d\n", signed_bytes((double)(c->bytes - old->bytes), z), c->kind, c->name,
                    mgpu_view_bytes((double)c->bytes, y), c->of_count, c->of_count == 1 ? "" : "s", old->of_count);
        if (strcmp(after(d->a, c->name), after(d->b, c->name)) != 0 && said_of(d, &count))
            fprintf(d->f, "%11s  %s %s moved: after %s, was after %s\n", "", c->kind, c->name, after(d->b, c->name), after(d->a, c->name));
        if (strcmp(old->way, c->way) != 0 && said_of(d, &count))
            fprintf(d->f, "%11s  %s %s: via %s, was via %s\n", "", c->kind, c->name, c->way, old->way);
    }
    for (int i = 0; i < d->a->collective_count; i++)
        if (!mgpu_view_find_collective(d->b, d->a->collectives[i].name) && said_of(d, &count))
            fprintf(d->f, "%11s  %s %s is gone\n", signed_bytes(-(double)d->a->collectives[i].bytes, z), d->a->collectives[i].kind, d->a->collectives[i].name);
}

/* ---- kernels and operations */
static int compare_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int missing(const char *const *of, int of_count, const char *const *in, int in_count) /* of `of`, each name once */
{
    const char **x = mgpu_allocate((size_t)of_count + 1, sizeof *x), **y = mgpu_allocate((size_t)in_count + 1, sizeof *y);
    int count = 0;
    memcpy(x, of, (size_t)of_count * sizeof *x);
    memcpy(y, in, (size_t)in_count * sizeof *y);
    qsort(x, (size_t)of_count, sizeof *x, compare_text);
    qsort(y, (size_t)in_count, sizeof *y, compare_text);
    for (int i = 0, k = 0; i < of_count; i++) {
        while (k < in_count && strcmp(y[k], x[i]) < 0)
            k++;
        count += (k == in_count || strcmp(y[k], x[i]) != 0) && (i == 0 || strcmp(x[i - 1], x[i]) != 0);
    }
    free(x);
    free(y);
    return count;
}

static void compare_kernels(Diff *d)
{
    int gone = d->a->kernel_count ? missing(d->a->kernels, d->a->kernel_count, d->b->kernels, d->b->kernel_count) : 0;
    int come = d->b->kernel_count ? missing(d->b->kernels, d->b->kernel_count, d->a->kernels, d->a->kernel_count) : 0;
    if (!gone && !come)
        return;
    d->said++;
    fprintf(d->f, "%11s  kernels: %d gone, %d new\n", "", gone, come);
}

/* operations of `of` that the other one lacks, by the layers that they are of: a line for each, with their time */
static void list_missing(Diff *d, const View *of, const View *in, const char *word, double sign)
{
    const ViewDevice *x = &of->devices[0], *y = &in->devices[0];
    bool *counted = mgpu_allocate((size_t)x->op_count + 1, sizeof *counted);
    int lines = 0;
    for (int i = 0; i < x->op_count; i++) {
        double us = 0;
        int count = 0;
        const char *layer = x->ops[i].layer;
        for (int k = i; k < x->op_count; k++) {
            if (counted[k] || x->ops[k].lane != VIEW_COMP || strcmp(x->ops[k].layer, layer) != 0 || mgpu_view_find_op(y, x->ops[k].name) >= 0)
                continue;
            counted[k] = true;
            us += x->ops[k].time_us;
            count++;
        }
        char z[40];
        if (count && said_of(d, &lines))
            fprintf(d->f, "%11s  %d operation%s of %s %s %s\n", signed_time(sign * us, z), count, count == 1 ? "" : "s", *layer ? layer : "no layer", count == 1 ? "is" : "are", word);
    }
    free(counted);
}

static int by_change(const void *a, const void *b)
{
    double x = fabs(((const double *)a)[1]), y = fabs(((const double *)b)[1]);
    return (x < y) - (x > y);
}

static void compare_ops(Diff *d)
{
    const ViewDevice *x = &d->a->devices[0], *y = &d->b->devices[0];
    double(*changed)[2] = mgpu_allocate((size_t)y->op_count + 1, sizeof *changed), step = d->a->end_us;
    int count = 0, lines = 0;
    list_missing(d, d->b, d->a, "new", 1);
    list_missing(d, d->a, d->b, "gone", -1);
    for (int i = 0; i < y->op_count; i++) {
        int old = mgpu_view_find_op(x, y->ops[i].name);
        double us = old < 0 ? 0 : y->ops[i].time_us - x->ops[old].time_us;
        if (fabs(us) > SAME * step && fabs(us) >= .05) {
            changed[count][0] = i;
            changed[count++][1] = us;
        }
    }
    qsort(changed, (size_t)count, sizeof *changed, by_change);
    for (int i = 0; i < count; i++) {
        const ViewOp *op = &y->ops[(int)changed[i][0]];
        char z[40], t[32], name[NAME];
        if (said_of(d, &lines))
            fprintf(d->f, "%11s  %s: %s\n", signed_time(changed[i][1], z), mgpu_view_cut(op->name, 60, name, sizeof name), mgpu_view_time(op->time_us, t));
    }
    free(changed);
}

/* ---- buffers: the largest that came, went or changed */
static const ViewBuffer *buffer(const ViewDevice *d, const char *name)
{
    int i = mgpu_view_find_buffer(d, name);
    return i < 0 ? NULL : &d->buffers[i];
}

static void compare_buffers(Diff *d)
{
    const ViewDevice *x = &d->a->devices[0], *y = &d->b->devices[0];
    double(*changed)[2] = mgpu_allocate((size_t)(x->buffer_count + y->buffer_count) + 1, sizeof *changed);
    int count = 0, lines = 0;
    for (int i = 0; i < y->buffer_count; i++) {
        const ViewBuffer *old = buffer(x, y->buffers[i].name);
        double bytes = (double)(y->buffers[i].bytes - (old ? old->bytes : 0));
        if (bytes != 0) {
            changed[count][0] = i;
            changed[count++][1] = bytes;
        }
    }
    for (int i = 0; i < x->buffer_count; i++)
        if (!buffer(y, x->buffers[i].name) && x->buffers[i].bytes) {
            changed[count][0] = -1 - i;
            changed[count++][1] = -(double)x->buffers[i].bytes;
        }
    qsort(changed, (size_t)count, sizeof *changed, by_change);
    for (int i = 0; i < count; i++) {
        int n = (int)changed[i][0];
        const ViewBuffer *b = n < 0 ? &x->buffers[-1 - n] : &y->buffers[n];
        char z[40], name[NAME];
        if (said_of(d, &lines))
            fprintf(d->f, "%11s  %s %s%s\n", signed_bytes(changed[i][1], z), b->kind, mgpu_view_cut(b->name, 60, name, sizeof name),
                    n < 0 ? ", gone" : buffer(x, b->name) ? "" : ", new");
    }
    free(changed);
}

void mgpu_view_diff(const char *a, const char *b, const char *phase, FILE *f)
{
    View *x = mgpu_view_read(a, phase), *y = mgpu_view_read(b, phase ? phase : x->phase);
    Diff d = {x, y, f, 0};
    fprintf(f, "%s, %s, %d device%s", x->model, x->phase, x->device_count, x->device_count == 1 ? "" : "s");
    if (strcmp(x->model, y->model) != 0)
        fprintf(f, "; against %s", y->model);
    fputc('\n', f);
    compare_head(&d);
    compare_lanes(&d);
    compare_memory(&d);
    compare_collectives(&d);
    compare_kernels(&d);
    compare_ops(&d);
    compare_buffers(&d);
    if (!d.said)
        fprintf(f, "%11s  no difference\n", "");
    mgpu_view_free(x);
    mgpu_view_free(y);
}
