/* diff.c: shows what changes from one schedule to another: times, collectives that moved, and added or removed kernels,
 * operations and memory. Operations, buffers and collectives are the same if their names are, which depend only on the model. */
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 10, NAME = 200 };
static const double SAME = .005; /* relative difference of times that is not reported */

typedef struct Diff {
    const View *a, *b;
    FILE *f;
    int reported;
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
    d->reported++;
}

static void compare_bytes(Diff *d, const char *what, double a, double b)
{
    char x[32], y[32], z[40];
    if (a == b)
        return;
    fprintf(d->f, "%11s  %s: %s, was %s\n", signed_bytes(b - a, z), what, mgpu_view_bytes(b, y), mgpu_view_bytes(a, x));
    d->reported++;
}

static void compare_head(Diff *d)
{
    const View *a = d->a, *b = d->b;
    if (a->schedule->batch != b->schedule->batch)
        d->reported +=
            fprintf(d->f, "%11s  batch: %lld, was %lld\n", "", (long long)b->schedule->batch, (long long)a->schedule->batch) > 0;
    if (a->schedule->devices != b->schedule->devices)
        d->reported += fprintf(d->f, "%11s  devices: %d, was %d\n", "", b->schedule->devices, a->schedule->devices) > 0;
    if (strcmp(a->schedule->precision, b->schedule->precision) != 0)
        d->reported += fprintf(d->f, "%11s  precision: %s, was %s\n", "", b->schedule->precision, a->schedule->precision) > 0;
    if (a->schedule->accumulate != b->schedule->accumulate)
        d->reported +=
            fprintf(d->f, "%11s  micro-batches: %d, was %d\n", "", b->schedule->accumulate, a->schedule->accumulate) > 0;
    const char *was = a->schedule->policy ? a->schedule->policy->name : "auto",
               *is = b->schedule->policy ? b->schedule->policy->name : "auto";
    if (strcmp(was, is) != 0)
        d->reported += fprintf(d->f, "%11s  plan: %s, was %s\n", "", is, was) > 0;
    if (a->step->machine && b->step->machine && strcmp(a->step->machine, b->step->machine) != 0)
        d->reported += fprintf(d->f, "%11s  predicted on %s, was on %s\n", "", b->step->machine, a->step->machine) > 0;
}

static double busy_us(const LaneUse *use) { return use ? use->busy_us : 0; } /* NULL: no prediction */

static void compare_lanes(Diff *d)
{
    const LaneUse *x[LANES], *y[LANES];
    for (int l = 0; l < LANES; l++) {
        x[l] = mgpu_view_use(d->a, 0, (Lane)l);
        y[l] = mgpu_view_use(d->b, 0, (Lane)l);
    }
    if (!d->a->step->machine || !d->b->step->machine || !x[LANE_COMP] || !y[LANE_COMP]) {
        compare_time(d, "one step by itself", d->a->end_us, d->b->end_us, d->a->end_us);
        return;
    }
    double step = d->a->step->step_us, before = (double)d->a->schedule->batch / d->a->step->step_us * 1e6,
           after = (double)d->b->schedule->batch / d->b->step->step_us * 1e6;
    char text[64];
    compare_time(d, "step", step, d->b->step->step_us, step);
    if (fabs(after - before) > SAME * fabs(before)) {
        d->reported++;
        fprintf(d->f, "%+9.1f %%  samples/s\n", 100 * (after / before - 1));
    }
    compare_time(d, "computation", x[LANE_COMP]->busy_us, y[LANE_COMP]->busy_us, step);
    compare_time(d, "communication", busy_us(x[LANE_COMM]) + busy_us(x[LANE_SYNC]), busy_us(y[LANE_COMM]) + busy_us(y[LANE_SYNC]),
                 step);
    compare_time(d, "exposed communication", x[LANE_COMP]->idle_us[CAUSE_COMMUNICATION],
                 y[LANE_COMP]->idle_us[CAUSE_COMMUNICATION], step);
    for (int c = 0; c < CAUSES; c++)
        if (c != CAUSE_COMMUNICATION && c != CAUSE_COMPUTATION) {
            snprintf(text, sizeof text, "computing waits for: %s", CAUSE_NAME[c]);
            compare_time(d, text, x[LANE_COMP]->idle_us[c], y[LANE_COMP]->idle_us[c], step);
        }
}

static double bytes_of_kind(const ViewDevice *d, BufferKind kind)
{
    double bytes = 0;
    for (int i = 0; i < d->buffer_count; i++)
        bytes += d->buffers[i].kind == kind ? (double)mgpu_view_buffer_bytes(&d->buffers[i]) : 0;
    return bytes;
}

static double sum_of_links(const View *v)
{
    double bytes = 0;
    for (int i = 0; i < v->step->link_count; i++)
        bytes += v->step->links[i].bytes;
    return bytes;
}

static void compare_memory(Diff *d)
{
    const ViewDevice *x = &d->a->devices[0], *y = &d->b->devices[0];
    compare_bytes(d, "memory of device 0", mgpu_view_memory(d->a, 0), mgpu_view_memory(d->b, 0));
    compare_bytes(d, "of it variables", bytes_of_kind(x, BUFFER_VARIABLE), bytes_of_kind(y, BUFFER_VARIABLE));
    compare_bytes(d, "of it for transfers", (double)d->a->schedule->outside_arena_bytes,
                  (double)d->b->schedule->outside_arena_bytes);
    compare_bytes(d, "over links, a step", sum_of_links(d->a), sum_of_links(d->b));
}

/* ---- all-reduces and other collectives */
static const char *kind_of(const CollectiveRecord *c) { return mgpu_transfer_row(c->participants.transfer)->kind; }

static const char *after(const View *v, const char *name) /* the last call that it waits for, or "" */
{
    const ViewDevice *d = &v->devices[0];
    for (int i = 0; i < d->op_count; i++)
        if (mgpu_lane_transfers((int)d->ops[i].lane) && strcmp(d->ops[i].label, name) == 0)
            for (int k = 0; k < d->ops[i].wait_count; k++)
                if (d->ops[i].waits[k].op >= 0 && !d->ops[i].waits[k].back)
                    return d->ops[d->ops[i].waits[k].op].id;
    return "";
}

static int lines_of(Diff *d, int *count) /* false after MOST lines */
{
    d->reported++;
    if (++*count == MOST + 1)
        fprintf(d->f, "%11s  ...\n", "");
    return *count <= MOST;
}

static void compare_collectives(Diff *d)
{
    char z[40], y[32];
    int count = 0;
    for (int i = 0; i < d->b->phase->collective_count; i++) {
        const CollectiveRecord *c = &d->b->phase->collectives[i], *old = mgpu_view_find_collective(d->a, c->name);
        if (!old) {
            if (lines_of(d, &count))
                fprintf(d->f, "%11s  %s %s is new: of %d value%s, after %s\n",
                        signed_bytes((double)mgpu_view_collective_bytes(c), z), kind_of(c), c->name, c->of_count,
                        c->of_count == 1 ? "" : "s", after(d->b, c->name));
            continue;
        }
        if (mgpu_view_collective_bytes(old) != mgpu_view_collective_bytes(c) && lines_of(d, &count))
            fprintf(d->f, "%11s  %s %s: %s, of %d value%s, was %d\n",
                    signed_bytes((double)(mgpu_view_collective_bytes(c) - mgpu_view_collective_bytes(old)), z), kind_of(c),
                    c->name, mgpu_view_bytes((double)mgpu_view_collective_bytes(c), y), c->of_count, c->of_count == 1 ? "" : "s",
                    old->of_count);
        if (strcmp(after(d->a, c->name), after(d->b, c->name)) != 0 && lines_of(d, &count))
            fprintf(d->f, "%11s  %s %s moved: after %s, was after %s\n", "", kind_of(c), c->name, after(d->b, c->name),
                    after(d->a, c->name));
        if (old->implementation != c->implementation && lines_of(d, &count))
            fprintf(d->f, "%11s  %s %s: via %s, was via %s\n", "", kind_of(c), c->name,
                    mgpu_implementation_name(c->implementation), mgpu_implementation_name(old->implementation));
    }
    for (int i = 0; i < d->a->phase->collective_count; i++)
        if (!mgpu_view_find_collective(d->b, d->a->phase->collectives[i].name) && lines_of(d, &count))
            fprintf(d->f, "%11s  %s %s is gone\n",
                    signed_bytes(-(double)mgpu_view_collective_bytes(&d->a->phase->collectives[i]), z),
                    kind_of(&d->a->phase->collectives[i]), d->a->phase->collectives[i].name);
}

/* ---- kernels and operations */
static int missing(const Schedule *of, const Schedule *in) /* number of kernels that only `of` has */
{
    int count = 0;
    for (int i = 0; i < of->signature_count; i++) {
        bool there = i && of->signatures[i].kernel == of->signatures[i - 1].kernel;
        for (int k = 0; k < in->signature_count && !there; k++)
            there = strcmp(of->signatures[i].label, in->signatures[k].label) == 0;
        count += !there;
    }
    return count;
}

static void compare_kernels(Diff *d)
{
    int gone = missing(d->a->schedule, d->b->schedule), come = missing(d->b->schedule, d->a->schedule);
    if (!gone && !come)
        return;
    d->reported++;
    fprintf(d->f, "%11s  kernels: %d gone, %d new\n", "", gone, come);
}

/* Lists operations that only `of` has: a line for each layer, with the sum of their times. */
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
            if (counted[k] || x->ops[k].lane != LANE_COMP || strcmp(x->ops[k].layer, layer) != 0 ||
                mgpu_view_find_op(y, x->ops[k].id) >= 0)
                continue;
            counted[k] = true;
            us += x->ops[k].time_us;
            count++;
        }
        char z[40];
        if (count && lines_of(d, &lines))
            fprintf(d->f, "%11s  %d operation%s of %s %s %s\n", signed_time(sign * us, z), count, count == 1 ? "" : "s",
                    *layer ? layer : "no layer", count == 1 ? "is" : "are", word);
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
        int old = mgpu_view_find_op(x, y->ops[i].id);
        double us = old < 0 ? 0 : y->ops[i].time_us - x->ops[old].time_us;
        if (fabs(us) > SAME * step && fabs(us) >= .05) {
            changed[count][0] = i;
            changed[count++][1] = us;
        }
    }
    qsort(changed, (size_t)count, sizeof *changed, by_change);
    for (int i = 0; i < count; i++) {
        const ScheduledOp *op = &y->ops[(int)changed[i][0]];
        char z[40], t[32], name[NAME];
        if (lines_of(d, &lines))
            fprintf(d->f, "%11s  %s: %s\n", signed_time(changed[i][1], z), mgpu_view_cut(op->id, 60, name, sizeof name),
                    mgpu_view_time(op->time_us, t));
    }
    free(changed);
}

/* ---- buffers: the largest that were added, removed or changed */
static void compare_buffers(Diff *d)
{
    const ViewDevice *x = &d->a->devices[0], *y = &d->b->devices[0];
    double(*changed)[2] = mgpu_allocate((size_t)(x->buffer_count + y->buffer_count) + 1, sizeof *changed);
    int count = 0, lines = 0;
    for (int i = 0; i < y->buffer_count; i++) {
        int old = mgpu_view_find_buffer(x, y->buffers[i].name);
        double bytes =
            (double)(mgpu_view_buffer_bytes(&y->buffers[i]) - (old < 0 ? 0 : mgpu_view_buffer_bytes(&x->buffers[old])));
        if (bytes != 0) {
            changed[count][0] = i;
            changed[count++][1] = bytes;
        }
    }
    for (int i = 0; i < x->buffer_count; i++)
        if (mgpu_view_find_buffer(y, x->buffers[i].name) < 0 && x->buffers[i].bytes) {
            changed[count][0] = -1 - i;
            changed[count++][1] = -(double)mgpu_view_buffer_bytes(&x->buffers[i]);
        }
    qsort(changed, (size_t)count, sizeof *changed, by_change);
    for (int i = 0; i < count; i++) {
        int n = (int)changed[i][0];
        const Buffer *b = n < 0 ? &x->buffers[-1 - n] : &y->buffers[n];
        char z[40], name[NAME];
        if (lines_of(d, &lines))
            fprintf(d->f, "%11s  %s %s%s\n", signed_bytes(changed[i][1], z), BUFFER_KIND_NAME[b->kind],
                    mgpu_view_cut(b->name, 60, name, sizeof name),
                    n < 0                                   ? ", gone"
                    : mgpu_view_find_buffer(x, b->name) < 0 ? ", new"
                                                            : "");
    }
    free(changed);
}

void mgpu_view_diff(const char *a, const char *b, const char *phase, FILE *f)
{
    View *x = mgpu_view_read(&(ViewSource){.text = a}, phase),
         *y = mgpu_view_read(&(ViewSource){.text = b}, phase ? phase : x->phase->name);
    Diff d = {x, y, f, 0};
    fprintf(f, "%s, %s, %d device%s", x->schedule->model, x->phase->name, x->schedule->devices,
            x->schedule->devices == 1 ? "" : "s");
    if (strcmp(x->schedule->model, y->schedule->model) != 0)
        fprintf(f, "; against %s", y->schedule->model);
    fputc('\n', f);
    compare_head(&d);
    compare_lanes(&d);
    compare_memory(&d);
    compare_collectives(&d);
    compare_kernels(&d);
    compare_ops(&d);
    compare_buffers(&d);
    if (!d.reported)
        fprintf(f, "%11s  no difference\n", "");
    mgpu_view_free(x);
    mgpu_view_free(y);
}
