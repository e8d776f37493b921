/* grid.c: prints the table of a bench as text with bars, CSV or JSON. A row's time is the median of its rounds. */
#include "runtime/base/base.h"
#include "runtime/report/grid.h"

#include <math.h>
#include <stdlib.h>

enum { BAR = 40, EACH = 48 };

void mgpu_grid_end(Grid *g)
{
    for (int i = 0; i < g->row_count; i++)
        qsort(g->rows[i].ms, MGPU_ROUNDS, sizeof *g->rows[i].ms, mgpu_compare_doubles);
}

static double median_ms(const GridRow *r) { return r->ms[MGPU_ROUNDS / 2]; }
double mgpu_grid_rate(const GridRow *r) { return 1e3 * (double)r->batch / median_ms(r); }
/* Returns NaN if there is no row with one device. */
static double speed_up(const Grid *g, const GridRow *r)
{
    return r->one < 0 ? NAN : mgpu_grid_rate(r) / mgpu_grid_rate(&g->rows[r->one]);
}
const char *mgpu_grid_scaling(const GridRow *r) { return r->weak ? "weak" : "strong"; }

static const char *each_text(const GridRow *r, char *text)
{
    long long least = r->batch / r->devices, most = (r->batch + r->devices - 1) / r->devices;
    if (least == most)
        snprintf(text, EACH, "%lld", most);
    else
        snprintf(text, EACH, "%lld-%lld", least, most);
    return text;
}

static void print_row(const Grid *g, const GridRow *r, FILE *f)
{
    char each[EACH];
    double up = speed_up(g, r);
    fprintf(f, "%-7s %7d %7lld %9s %10.3f %10.3f %10.3f %11.1f", mgpu_grid_scaling(r), r->devices, (long long)r->batch,
            each_text(r, each), median_ms(r), r->ms[0], r->ms[MGPU_ROUNDS - 1], mgpu_grid_rate(r));
    if (r->one < 0)
        fprintf(f, " %8s %10s", "-", "-");
    else
        fprintf(f, " %8.2f %9.1f%%", up, 100 * up / r->devices);
    if (r->predicted_ms > 0)
        fprintf(f, " %12.3f %6.0f%%", r->predicted_ms, 100 * (r->predicted_ms / median_ms(r) - 1));
    else
        fprintf(f, " %12s %7s", "-", "-");
    if (g->metric)
        fprintf(f, " %10.6g", r->score);
    fputc('\n', f);
}

static void print_bars(const Grid *g, FILE *f)
{
    double most = 0;
    char each[EACH];
    for (int i = 0; i < g->row_count; i++)
        most = fmax(most, mgpu_grid_rate(&g->rows[i]));
    fputs("\nsamples/s\n", f);
    for (int i = 0; i < g->row_count; i++) {
        const GridRow *r = &g->rows[i];
        int length = (int)ceil(BAR * mgpu_grid_rate(r) / most);
        fprintf(f, "%-7s %3d x %-6s |%.*s%*s %.1f\n", mgpu_grid_scaling(r), r->devices, each_text(r, each), length,
                "========================================", BAR - length, "", mgpu_grid_rate(r));
    }
}

/* Prints the source of the prediction for the row with most devices. */
static void print_from(const Grid *g, FILE *f)
{
    const GridRow *last = NULL;
    for (int i = 0; i < g->row_count; i++)
        if (g->rows[i].from && g->rows[i].from[0] && (!last || g->rows[i].devices >= last->devices))
            last = &g->rows[i];
    if (last)
        fprintf(f, "\n%d device%s predicted from: %s\n", last->devices, last->devices == 1 ? " is" : "s are", last->from);
}

void mgpu_grid_print(const Grid *g, FILE *f)
{
    fprintf(f, "%s%s, %s", g->virtual ? "virtual: " : "", g->model, g->precision);
    if (g->policy)
        fprintf(f, g->policy_label ? ", plan %s [%s]" : ", plan %s", g->policy, g->policy_label);
    char *machine = mgpu_plain(g->machine);
    fprintf(f, "; medians of %d runs of %lld steps, which took turns; predicted for %s\n\n", MGPU_ROUNDS, (long long)g->steps,
            machine);
    free(machine);
    fprintf(f, "%-7s %7s %7s %9s %10s %10s %10s %11s %8s %10s %12s %7s", "scaling", "devices", "batch", "each", "step ms",
            "least", "most", "samples/s", "speed-up", "efficiency", "predicted ms", "off by");
    if (g->metric)
        fprintf(f, " %10s", g->metric);
    fputc('\n', f);
    for (int i = 0; i < g->row_count; i++)
        print_row(g, &g->rows[i], f);
    print_bars(g, f);
    print_from(g, f);
}

void mgpu_grid_csv(const Grid *g, FILE *f)
{
    fprintf(f, "scaling,devices,batch,step_ms,least_ms,most_ms,samples_per_s,speed_up,efficiency,predicted_ms%s%s\n",
            g->metric ? "," : "", g->metric ? g->metric : "");
    for (int i = 0; i < g->row_count; i++) {
        const GridRow *r = &g->rows[i];
        double up = speed_up(g, r);
        fprintf(f, "%s,%d,%lld,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,", mgpu_grid_scaling(r), r->devices, (long long)r->batch,
                median_ms(r), r->ms[0], r->ms[MGPU_ROUNDS - 1], mgpu_grid_rate(r), up, up / r->devices);
        if (r->predicted_ms > 0)
            fprintf(f, "%.9g", r->predicted_ms);
        if (g->metric)
            fprintf(f, ",%.9g", r->score);
        fputc('\n', f);
    }
}

/* JSON has no NaN: prints null. */
static void member(FILE *f, const char *name, double value)
{
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.9g", name, value);
    else
        fprintf(f, ",\"%s\":null", name);
}

static void text_member(FILE *f, const char *name, const char *value)
{
    fprintf(f, "\"%s\":", name);
    if (value)
        mgpu_json_write_text(f, value);
    else
        fputs("null", f);
    fputc(',', f);
}

void mgpu_grid_json(const Grid *g, FILE *f)
{
    fputs(g->virtual ? "{\"virtual\":true," : "{", f);
    text_member(f, "model", g->model);
    text_member(f, "kind", g->kind);
    text_member(f, "precision", g->precision);
    text_member(f, "plan", g->policy ? g->policy : "auto");
    text_member(f, "plan_label", g->policy_label);
    text_member(f, "machine", g->machine);
    fprintf(f, "\"runs\":%d,", MGPU_ROUNDS);
    text_member(f, "metric", g->metric);
    fputs("\"rows\":[", f);
    for (int i = 0; i < g->row_count; i++) {
        const GridRow *r = &g->rows[i];
        double up = speed_up(g, r);
        fprintf(f, "%s{\"scaling\":\"%s\",\"devices\":%d,\"batch\":%lld", i ? "," : "", mgpu_grid_scaling(r), r->devices,
                (long long)r->batch);
        member(f, "step_ms", median_ms(r));
        member(f, "least_ms", r->ms[0]);
        member(f, "most_ms", r->ms[MGPU_ROUNDS - 1]);
        member(f, "samples_per_s", mgpu_grid_rate(r));
        member(f, "speed_up", up);
        member(f, "efficiency", up / r->devices);
        member(f, "predicted_ms", r->predicted_ms > 0 ? r->predicted_ms : NAN);
        fputc(',', f);
        text_member(f, "predicted_from", r->from);
        member(f, "score", g->metric ? r->score : NAN);
        fputc('}', f);
    }
    fputs("]}\n", f);
}
