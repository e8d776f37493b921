/* curves.c: compares runs: a plot for each quantity that some of them have, and a table of settings that differ.
 *
 * Quantities of each step are averaged over intervals: a curve has at most POINTS values and shows the trend, not the noise. */
#include "runtime/report/runs.h"

#include <string.h>

enum { POINTS = 300, PANEL_WIDTH = 460, PANEL_HEIGHT = 260, PER_ROW = 2 };

/* ---- plots */
static void add_line(Plot *p, const Curve *c, Over over, const char *name, int colour, Sheet *s)
{
    int stretch = c->each_step ? (c->count + POINTS - 1) / POINTS : 1, count = 0;
    double *x = MGPU_SHEET_NEW(s, double, c->count), *y = MGPU_SHEET_NEW(s, double, c->count);
    for (int i = 0; i < c->count; i += stretch, count++) {
        int n = c->count - i < stretch ? c->count - i : stretch;
        for (int k = i; k < i + n; k++) {
            x[count] += c->over[over][k] / n;
            y[count] += c->value[k] / n;
        }
    }
    PlotLine l = {.name = name,
                  .x = x,
                  .y = y,
                  .count = count,
                  .colour = colour,
                  .points = !c->each_step && count < 60,
                  .dashed = c->valid};
    MGPU_APPEND(s, p->lines, p->line_count, l);
}

/* Returns the plot of a curve: "recall" for an element of a metric, such as "recall[3]"; otherwise the curve's name. */
static const char *plot_of(const char *name, Sheet *s)
{
    const char *open = strchr(name, '['), *close = open ? strchr(open, ']') : NULL;
    return close ? mgpu_sheet_text(s, "%.*s%s", (int)(open - name), name, close + 1) : name;
}

/* Elements of matrices and long vectors are not plotted: a run may have thousands. */
static bool is_left_out(const RunLog *r, const char *name, Sheet *s)
{
    enum { MOST_ELEMENTS = 16 };
    const char *open = strchr(name, '['), *plot = plot_of(name, s);
    int elements = 0;
    for (int k = 0; open && k < r->curve_count; k++)
        elements += !r->curves[k].valid && strcmp(plot_of(r->curves[k].name, s), plot) == 0;
    return open && (open[strcspn(open, ",]")] == ',' || elements > MOST_ELEMENTS);
}

static const char VALIDATION[] = ", validation";

static bool is_known(const Curves *c, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < c->count; i++) {
        const char *title = c->plots[i].title;
        if (strncmp(title, name, length) == 0 && (!title[length] || strcmp(title + length, VALIDATION) == 0))
            return true;
    }
    return false;
}

/* Returns "run", "run[3]", or "[3]" for the only run. */
static const char *line_name(const RunLog *r, const Curve *c, bool only, bool both, Sheet *s)
{
    const char *open = strchr(c->name, '[');
    int element = open ? (int)strcspn(open, "]") + 1 : 0;
    return mgpu_sheet_text(s, "%s%.*s%s", open && only ? "" : r->name, element, open ? open : "",
                           c->valid && both ? ", validation" : "");
}

/* Of a metric with several elements, only validation is plotted if there is any. */
static void add_plot(Curves *curves, RunLog *const *runs, int count, const char *name, Over over, Sheet *s)
{
    static const char *const LABEL[OVERS] = {"steps", "epochs", "seconds"};
    Plot p = {.title = name, .x_label = LABEL[over], .from_zero = strcmp(name, "samples_per_s") == 0 || strstr(name, "_wait_ms")};
    bool both = false, parts = false; /* parts: a metric of several elements with values of validation */
    for (int i = 0; i < count; i++) {
        both |= mgpu_run_curve(runs[i], name, false) && mgpu_run_curve(runs[i], name, true);
        for (int k = 0; k < runs[i]->curve_count; k++)
            parts |= runs[i]->curves[k].valid && strchr(runs[i]->curves[k].name, '[') &&
                     strcmp(plot_of(runs[i]->curves[k].name, s), name) == 0;
    }
    for (int i = 0; i < count; i++)
        for (int valid = 0; valid < 2; valid++)
            for (int k = 0, element = 0; k < runs[i]->curve_count; k++) {
                const Curve *c = &runs[i]->curves[k];
                bool part = strchr(c->name, '[') != NULL;
                if (c->valid == valid && c->count && strcmp(plot_of(c->name, s), name) == 0 && (valid || !parts))
                    add_line(&p, c, over, line_name(runs[i], c, count == 1, both, s), part ? element++ : i, s);
            }
    if (parts)
        p.title = mgpu_sheet_text(s, "%s%s", name, VALIDATION);
    if (p.line_count)
        MGPU_APPEND(s, curves->plots, curves->count, p);
}

static void add_others(Curves *c, RunLog *const *runs, int count, Over over, bool each_step, Sheet *s)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < runs[i]->curve_count; k++) {
            const Curve *curve = &runs[i]->curves[k];
            const char *plot = plot_of(curve->name, s);
            if (curve->each_step == each_step && !is_known(c, plot) && !is_left_out(runs[i], curve->name, s))
                add_plot(c, runs, count, plot, over, s);
        }
}

Curves mgpu_curves_of(RunLog *const *runs, int count, Over over, Sheet *s)
{
    static const char *const FIRST[] = {"loss"};
    static const char *const LAST[] = {"lr", "samples_per_s", "input_wait_ms", "communication_wait_ms", "grad_norm"};
    Curves c = {0};
    for (int i = 0; i < MGPU_COUNT(FIRST); i++)
        add_plot(&c, runs, count, FIRST[i], over, s);
    add_others(&c, runs, count, over, false, s);
    for (int i = 0; i < MGPU_COUNT(LAST); i++)
        add_plot(&c, runs, count, LAST[i], over, s);
    add_others(&c, runs, count, over, true, s);
    return c;
}

void mgpu_curves_svg(const Curves *c, Sheet *s)
{
    int rows = (c->count + PER_ROW - 1) / PER_ROW, columns = c->count < PER_ROW ? c->count : PER_ROW;
    mgpu_svg_begin(columns * PANEL_WIDTH, rows * PANEL_HEIGHT, "curves of runs", s);
    for (int i = 0; i < c->count; i++) {
        int row = i / PER_ROW, column = i % PER_ROW;
        mgpu_plot_svg(&c->plots[i], (Box){column * PANEL_WIDTH, row * PANEL_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT}, s);
    }
    fprintf(s->f, "</svg>\n");
}

/* ---- the table */
static const char *value_text(const Json *j)
{
    if (!j)
        return "-";
    return j->kind == JSON_TEXT || j->kind == JSON_NUMBER ? j->text
           : j->kind == JSON_TRUE                         ? "yes"
           : j->kind == JSON_FALSE                        ? "no"
                                                          : "-";
}

static const Json *setting_of(const RunLog *r, const char *group, const char *key)
{
    const Json *from = *group ? mgpu_json_member(r->start, group) : r->start;
    return from ? mgpu_json_member(from, key) : NULL;
}

static void add_if_different(Table *t, RunLog *const *runs, const char *group, const char *key, Sheet *s)
{
    const char **values = MGPU_SHEET_NEW(s, const char *, t->columns);
    bool differ = false;
    for (int i = 0; i < t->rows; i++)
        if (strcmp(t->cells[i][0], key) == 0)
            return;
    for (int i = 0; i + 1 < t->columns; i++) {
        values[i] = value_text(setting_of(runs[i], group, key));
        differ |= strcmp(values[i], values[0]) != 0;
    }
    if (differ)
        mgpu_table_row(s, t, key, values);
}

static void add_settings(Table *t, RunLog *const *runs, Sheet *s)
{
    static const char *const KEYS[] = {"model",   "precision", "parameters", "batch", "accumulate",    "kind",
                                       "devices", "threads",   "optimizer",  "seed",  "train_samples", "version"};
    static const char *const GROUPS[] = {"settings", "params"};
    for (int i = 0; i < MGPU_COUNT(KEYS); i++)
        add_if_different(t, runs, "", KEYS[i], s);
    for (int i = 0; i + 1 < t->columns; i++)
        for (int g = 0; g < MGPU_COUNT(GROUPS); g++) {
            const Json *group = mgpu_json_member(runs[i]->start, GROUPS[g]);
            for (const Json *j = group ? group->first : NULL; j; j = j->next)
                add_if_different(t, runs, GROUPS[g], j->key, s);
        }
}

Table mgpu_settings_table(RunLog *const *runs, int count, Sheet *s)
{
    Table t = {.columns = count + 1};
    const char **names = MGPU_SHEET_NEW(s, const char *, t.columns);
    for (int i = 0; i < count; i++)
        names[i] = runs[i]->name;
    mgpu_table_row(s, &t, "", names);
    add_settings(&t, runs, s);
    return t;
}

static void add_best(Table *t, RunLog *const *runs, const char *name, bool valid, Sheet *s)
{
    const char **values = MGPU_SHEET_NEW(s, const char *, t->columns);
    bool lowest = false, any = false;
    for (int i = 0; i + 1 < t->columns; i++) {
        const Curve *c = mgpu_run_curve(runs[i], name, valid);
        any |= c && c->count;
        values[i] = c && c->count ? mgpu_sheet_text(s, "%.5g", mgpu_curve_best(c, &lowest)) : "-";
    }
    if (any)
        mgpu_table_row(s, t, mgpu_sheet_text(s, "%s %s%s", lowest ? "least" : "most", name, valid ? ", validation" : ""), values);
}

static void add_speed(Table *t, RunLog *const *runs, Sheet *s)
{
    const char **speeds = MGPU_SHEET_NEW(s, const char *, t->columns), **steps = MGPU_SHEET_NEW(s, const char *, t->columns),
               **seconds = MGPU_SHEET_NEW(s, const char *, t->columns);
    for (int i = 0; i + 1 < t->columns; i++) {
        const Curve *c = mgpu_run_curve(runs[i], "samples_per_s", false);
        double sum = 0;
        for (int k = 0; c && k < c->count; k++)
            sum += c->value[k];
        speeds[i] = c && c->count ? mgpu_sheet_text(s, "%.0f", sum / c->count) : "-";
        steps[i] = mgpu_sheet_text(s, "%.0f of %.0f%s%s", runs[i]->steps, runs[i]->total_steps, runs[i]->end ? ", " : "",
                                   runs[i]->end ? runs[i]->end : "");
        seconds[i] = mgpu_sheet_text(s, "%.2f", runs[i]->seconds);
    }
    mgpu_table_row(s, t, "samples/s, mean", speeds);
    mgpu_table_row(s, t, "steps", steps);
    mgpu_table_row(s, t, "seconds", seconds);
}

Table mgpu_runs_table(RunLog *const *runs, int count, Sheet *s)
{
    Table t = mgpu_settings_table(runs, count, s);
    add_best(&t, runs, "loss", false, s);
    add_best(&t, runs, "loss", true, s);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < runs[i]->curve_count; k++) {
            const Curve *c = &runs[i]->curves[k];
            bool known = strcmp(c->name, "loss") == 0 || c->each_step || is_left_out(runs[i], c->name, s);
            bool lowest;
            mgpu_curve_best(c, &lowest);
            const char *row = mgpu_sheet_text(s, "%s %s%s", lowest ? "least" : "most", c->name, c->valid ? ", validation" : "");
            for (int r = 0; r < t.rows; r++)
                known |= strcmp(t.cells[r][0], row) == 0;
            if (!known)
                add_best(&t, runs, c->name, c->valid, s);
        }
    add_speed(&t, runs, s);
    return t;
}
