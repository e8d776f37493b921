/* roofline.c: the kernels of a training step on device 0 by time, and their roofline plot: FLOP/s over FLOPs per byte (Williams,
 * Waterman, Patterson, "Roofline", CACM 52(4), 2009). */
#include "runtime/report/page.h"
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 40 };
static const double LEAST_SHARE = .001; /* fraction of the time of the step that a drawn kernel takes */
static const double LEAST_CALL_US = .5; /* minimal time of a call whose rate is shown */

typedef struct KernelUse {
    const char *label;
    int calls;
    double us, bytes, flops;
    const ScheduledOp *longest;
} KernelUse;

static int compare_use(const void *a, const void *b)
{
    const KernelUse *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : strcmp(x->label, y->label);
}

typedef struct CountedCall {
    const ScheduledOp *op;
    int times;
} CountedCall;
typedef struct Calls {
    CountedCall *list;
    int count;
} Calls;

static int compare_labels(const void *a, const void *b)
{
    const CountedCall *x = a, *y = b;
    return strcmp(x->op->label, y->op->label);
}

static void add_calls(const View *v, int times, Calls *calls, Sheet *s)
{
    const ViewDevice *d = v ? &v->devices[0] : NULL;
    for (int i = 0; v && times && i < d->op_count; i++)
        if (d->ops[i].verb == VERB_CALL)
            MGPU_APPEND(s, calls->list, calls->count, ((CountedCall){&d->ops[i], times}));
}

static KernelUse *uses_of(const Page *p, int *count, Sheet *s)
{
    Calls calls = {0};
    int micro = p->view->schedule->accumulate > 1 ? p->view->schedule->accumulate : 0;
    add_calls(p->view, 1, &calls, s);
    add_calls(p->accumulating, micro - (micro > 0), &calls, s);
    add_calls(p->prologue, micro, &calls, s);
    KernelUse *uses = MGPU_SHEET_NEW(s, KernelUse, calls.count);
    if (calls.count)
        qsort(calls.list, (size_t)calls.count, sizeof *calls.list, compare_labels);
    *count = 0;
    for (int i = 0; i < calls.count; i++) {
        const CountedCall *c = &calls.list[i];
        if (!i || compare_labels(c, c - 1) != 0)
            uses[(*count)++] = (KernelUse){.label = c->op->label, .longest = c->op};
        KernelUse *u = &uses[*count - 1];
        u->calls += c->times;
        u->us += c->times * c->op->time_us;
        u->bytes += c->times * mgpu_view_op_bytes(c->op);
        u->flops += c->times * c->op->flops;
        u->longest = c->op->time_us > u->longest->time_us ? c->op : u->longest;
    }
    qsort(uses, (size_t)*count, sizeof *uses, compare_use);
    return uses;
}

static PlotLine roof(double bandwidth, double peak, const char *name, int colour, double low, double high, Sheet *s)
{
    enum { POINTS = 3 };
    double *x = MGPU_SHEET_NEW(s, double, POINTS), *y = MGPU_SHEET_NEW(s, double, POINTS), ridge = peak / bandwidth;
    const double at[POINTS] = {low, ridge > low && ridge < high ? ridge : low, high};
    for (int i = 0; i < POINTS; i++) {
        x[i] = at[i];
        y[i] = fmin(peak, at[i] * bandwidth) / 1e9;
    }
    return (PlotLine){.name = name, .x = x, .y = y, .count = POINTS, .colour = colour};
}

/* Times in a schedule have one decimal, so rates of shorter calls, as in a shared launch, would be off by more than 10 %. */
static bool has_rate(const KernelUse *u) { return u->us >= LEAST_CALL_US * u->calls; }

static const char *rate_text(const KernelUse *u, double amount, Sheet *s)
{
    return has_rate(u) ? mgpu_sheet_text(s, "%.1f", amount / u->us / 1e3) : "-";
}

static const char *point_text(const KernelUse *u, double all, Sheet *s)
{
    char time[32];
    return mgpu_sheet_text(s, "%s: %s, %.1f %%, %.4g GFLOP/s, %.3g FLOP a byte", u->longest->id, mgpu_view_time(u->us, time),
                           100 * u->us / all, u->flops / u->us / 1e3, u->flops / u->bytes);
}

static Plot roofline_of(const View *v, const KernelUse *uses, int count, double all, Sheet *s)
{
    Plot plot = {
        .title = "roofline of kernels, device 0", .x_label = "FLOP a byte", .y_label = "GFLOP/s", .log_x = true, .log_y = true};
    double *x = MGPU_SHEET_NEW(s, double, count), *y = MGPU_SHEET_NEW(s, double, count), low = .1, high = 100;
    PlotLine *points = NULL;
    int shown = 0;
    for (int i = 0; i < count; i++)
        if (uses[i].flops > 0 && uses[i].bytes > 0 && uses[i].us >= LEAST_SHARE * all && has_rate(&uses[i])) {
            x[shown] = uses[i].flops / uses[i].bytes;
            y[shown] = uses[i].flops / uses[i].us / 1e3;
            low = fmin(low, x[shown]);
            high = fmax(high, x[shown]);
            PlotLine point = {.name = shown ? NULL : "a kernel, by its share of the time",
                              .x = x + shown,
                              .y = y + shown,
                              .count = 1,
                              .colour = 1,
                              .points = true,
                              .radius = 2.2 + 14 * sqrt(uses[i].us / all),
                              .tip = point_text(&uses[i], all, s)};
            MGPU_APPEND(s, points, shown, point);
        }
    if (v->step->bandwidth > 0 && v->step->plain > 0)
        MGPU_APPEND(s, plot.lines, plot.line_count,
                    roof(v->step->bandwidth, v->step->plain, "as fast as memory, then as arithmetic is", 0, low, high, s));
    if (v->step->bandwidth > 0 && v->step->matrix > 0)
        MGPU_APPEND(s, plot.lines, plot.line_count,
                    roof(v->step->bandwidth, v->step->matrix, "as fast as memory, then as matrix units are", 2, low, high, s));
    for (int i = 0; i < shown; i++)
        MGPU_APPEND(s, plot.lines, plot.line_count, points[i]);
    return plot;
}

/* Returns the iteration space of a kernel, or "" if it is unknown. */
static const char *extent_of(const Schedule *v, const char *label)
{
    for (int i = 0; i < v->signature_count; i++)
        if (strcmp(v->signatures[i].label, label) == 0)
            return v->signatures[i].extent ? v->signatures[i].extent : "";
    return "";
}

static void list_kernels(const View *v, const KernelUse *uses, int count, double all, Sheet *s)
{
    Table table = {.columns = 9};
    mgpu_table_add(s, &table, "kernel", "of, with the longest call", "over", "line", "calls", "a step", "%", "GFLOP/s", "GB/s");
    for (int i = 0; i < count && i < LISTED; i++) {
        const KernelUse *u = &uses[i];
        char name[64];
        mgpu_table_add(s, &table, u->label, mgpu_sheet_text(s, "%s", mgpu_view_cut(u->longest->id, 48, name, sizeof name)),
                       extent_of(v->schedule, u->label), u->longest->line ? mgpu_sheet_text(s, "%d", u->longest->line) : "",
                       mgpu_sheet_text(s, "%d", u->calls), mgpu_sheet_time(s, u->us),
                       mgpu_sheet_text(s, "%.1f", 100 * u->us / all), rate_text(u, u->flops, s), rate_text(u, u->bytes, s));
    }
    mgpu_table_html(&table, s);
}

void mgpu_kernels_print(const Page *p, Sheet *s)
{
    enum { WIDTH = 1180, HEIGHT = 360 };
    int count;
    KernelUse *uses = uses_of(p, &count, s);
    double all = 0;
    for (int i = 0; i < count; i++)
        all += uses[i].us;
    all = all > 0 ? all : 1;
    Plot plot = roofline_of(p->view, uses, count, all, s);
    fprintf(s->f,
            "<section id=\"kernels\"><h2>Kernels</h2>\n<svg class=\"figure\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\" aria-label=\"roofline\">\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    mgpu_plot_svg(&plot, (Box){0, 0, WIDTH, HEIGHT}, s);
    fputs("</svg>\n", s->f);
    list_kernels(p->view, uses, count, all, s);
    fputs("<p>Times are predicted for ", s->f);
    mgpu_svg_text(p->view->step->machine ? p->view->step->machine : "no machine", s);
    fprintf(s->f, ". A kernel is called as schedules call it. Calls of less than %.1f us are too short for a rate.",
            LEAST_CALL_US);
    if (count > LISTED)
        fprintf(s->f, " %d kernels more take less.", count - LISTED);
    fputs("</p></section>\n", s->f);
}
