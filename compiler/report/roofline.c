/* roofline.c: kernels of a training step on device 0, by their time, with the roofline that they are under: what they do a second over
 * how much they do for each byte (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009). */
#include "compiler/report/page.h"
#include "compiler/kernel/kernel.h"
#include "compiler/machine/machine.h"
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 40 };
static const double LEAST_SHARE = .001; /* of the time: of the kernels that are drawn */

typedef struct KernelUse {
    int kernel, calls;
    double us, bytes, flops;
    const ScheduledOp *longest;
} KernelUse;

static int compare_use(const void *a, const void *b)
{
    const KernelUse *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : x->kernel - y->kernel;
}

static void add_phase(const Page *p, const char *name, double times, KernelUse *uses)
{
    const Schedule *s = p->plan->schedule;
    for (int k = 0; k < s->phase_count; k++) {
        const DeviceSchedule *d = &s->phases[k].devices[0];
        if (strcmp(s->phases[k].name, name) != 0)
            continue;
        for (int i = 0; i < d->op_count; i++) {
            const ScheduledOp *op = &d->ops[i];
            if (op->verb != VERB_CALL)
                continue;
            KernelUse *u = &uses[op->target];
            *u = (KernelUse){op->target,
                             u->calls + (int)times,
                             u->us + times * op->time_us,
                             u->bytes + times * op_bytes(d, op),
                             u->flops + times * op->flops,
                             u->longest && u->longest->time_us >= op->time_us ? u->longest : op};
        }
    }
}

static KernelUse *uses_of(const Page *p, int *count)
{
    KernelUse *uses = NEW_ARRAY(KernelUse, p->program->kernel_count);
    double micro = p->plan->schedule->accumulate > 1 ? p->plan->schedule->accumulate : 1;
    bool partial = p->plan->always_partial;
    add_phase(p, phase_name(PHASE_TRAIN, partial), 1, uses);
    add_phase(p, phase_name(PHASE_ACCUMULATE, partial), micro - 1, uses);
    add_phase(p, phase_name(PHASE_PROLOGUE, partial), micro > 1 ? micro : 0, uses);
    qsort(uses, (size_t)p->program->kernel_count, sizeof *uses, compare_use);
    for (*count = 0; *count < p->program->kernel_count && uses[*count].calls; ++*count)
        ;
    return uses;
}

static PlotLine roof(double bandwidth, double peak, const char *name, int colour, double low, double high)
{
    enum { POINTS = 3 };
    double *x = NEW_ARRAY(double, POINTS), *y = NEW_ARRAY(double, POINTS), ridge = peak / bandwidth;
    const double at[POINTS] = {low, ridge > low && ridge < high ? ridge : low, high};
    for (int i = 0; i < POINTS; i++) {
        x[i] = at[i];
        y[i] = fmin(peak, at[i] * bandwidth) / 1e9;
    }
    return (PlotLine){.name = name, .x = x, .y = y, .count = POINTS, .colour = colour};
}

/* "[n, 14, 14, 256] f32" of "conv2: y [n, 14, 14, 256] f32": what the kernel's threads run over */
static const char *extent_of(const Kernel *k)
{
    const char *at = k->title ? strrchr(k->title, '[') : NULL;
    return at ? at : "";
}

static const char *point_text(const KernelUse *u, double all)
{
    char time[32];
    return format("%s: %s, %.1f %%, %.4g GFLOP/s, %.3g FLOP a byte", u->longest->id, mgpu_view_time(u->us, time),
                  100 * u->us / all, u->flops / u->us / 1e3, u->flops / u->bytes);
}

static Plot roofline_of(const Page *p, const KernelUse *uses, int count, double all)
{
    Device d = machine_device(p->in->machine, p->in->processor, 0, p->plan->devices);
    Plot plot = {
        .title = "roofline of kernels, device 0", .x_label = "FLOP a byte", .y_label = "GFLOP/s", .log_x = true, .log_y = true};
    double *x = NEW_ARRAY(double, count), *y = NEW_ARRAY(double, count), low = .1, high = 100;
    PlotLine *points = NULL;
    int shown = 0;
    for (int i = 0; i < count; i++)
        if (uses[i].flops > 0 && uses[i].bytes > 0 && uses[i].us >= LEAST_SHARE * all) {
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
                              .tip = point_text(&uses[i], all)};
            APPEND(points, shown, point);
        }
    Dtype type = p->program->model->precision;
    double plain = d.plain[type == F64 ? F64 : F32].value > 0 ? d.plain[type == F64 ? F64 : F32].value : d.plain[F32].value;
    if (d.bandwidth.value > 0 && plain > 0)
        APPEND(plot.lines, plot.line_count,
               roof(d.bandwidth.value, plain, "as fast as memory, then as arithmetic is", 0, low, high));
    if (d.bandwidth.value > 0 && d.matrix[type].value > 0)
        APPEND(plot.lines, plot.line_count,
               roof(d.bandwidth.value, d.matrix[type].value, "as fast as memory, then as matrix units are", 2, low, high));
    for (int i = 0; i < shown; i++)
        APPEND(plot.lines, plot.line_count, points[i]);
    return plot;
}

void kernels_print(const Page *p, Text *t)
{
    enum { WIDTH = 1180, HEIGHT = 360 };
    int count;
    KernelUse *uses = uses_of(p, &count);
    double all = 0;
    for (int i = 0; i < count; i++)
        all += uses[i].us;
    Plot plot = roofline_of(p, uses, count, all);
    text_add(t,
             "<section id=\"kernels\"><h2>Kernels</h2>\n<svg class=\"figure\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
             "role=\"img\" aria-label=\"roofline\">\n",
             WIDTH, HEIGHT, WIDTH, HEIGHT);
    plot_svg(&plot, (Box){0, 0, WIDTH, HEIGHT}, t);
    text_add(t, "</svg>\n");
    Table table = {.columns = 10};
    table_add(&table, "kernel", "function", "of, with the longest call", "over", "line", "calls", "a step", "%", "GFLOP/s",
              "GB/s");
    for (int i = 0; i < count && i < LISTED; i++) {
        const KernelUse *u = &uses[i];
        const Kernel *k = p->program->kernels[u->kernel];
        char time[32], name[64];
        table_add(&table, kernel_label(k), k->name, format("%s", mgpu_view_cut(u->longest->id, 48, name, sizeof name)),
                  extent_of(k), u->longest->line ? format("%d", u->longest->line) : "", format("%d", u->calls),
                  format("%s", mgpu_view_time(u->us, time)), format("%.1f", 100 * u->us / all),
                  u->us > 0 ? format("%.1f", u->flops / u->us / 1e3) : "0",
                  u->us > 0 ? format("%.1f", u->bytes / u->us / 1e3) : "0");
    }
    table_html(&table, t);
    text_add(t, "<p>Times are predicted for ");
    svg_text(p->machine, t);
    text_add(t, ". A kernel is called as schedules call it; its function is in the emitted code (<code>-S</code>).%s</p></section>\n",
             count > LISTED ? format(" %d kernels more take less.", count - LISTED) : "");
}
