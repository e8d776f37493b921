/* page.c: the HTML of a report. All that it shows is in it: nothing is fetched. What comes from models, logs and traces is text, escaped
 * where HTML or a script could end in it. */
#include "compiler/report/page.h"
#include "compiler/kernel/kernel.h"
#include "runtime/base/sha256.h"
#include "runtime/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 12 };

static const char *file_named(const char *name)
{
    for (const PageFile *f = PAGE_FILES; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    die("the report has no file %s", name);
}

/* JSON in a script: "</script" would end it, "<!--<script" would make it go on behind its end. It has "<" within texts alone, where
 * "\u003c" is the same. */
static void embed_json(const char *id, const char *json, Text *t)
{
    text_add(t, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *at = json; *at;) {
        size_t length = strcspn(at, "<");
        text_bytes(t, at, length);
        at += length;
        if (*at) {
            text_add(t, "\\u003c");
            at++;
        }
    }
    text_add(t, "</script>\n");
}

/* Content Security Policy Level 3: of all that is in a page, the one script of this text runs, and nothing is fetched */
static void policy_print(const char *script, Text *t)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Digest d = mgpu_sha256_of(script, strlen(script));
    text_add(t, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-");
    for (int i = 0; i < COUNT(d.bytes); i += 3) { /* base64 (RFC 4648): 32 bytes are 43 digits and a "=" */
        unsigned bits = (unsigned)d.bytes[i] << 16 | (unsigned)(i + 1 < COUNT(d.bytes) ? d.bytes[i + 1] : 0) << 8 | (i + 2 < COUNT(d.bytes) ? d.bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            text_add(t, "%c", i + k > COUNT(d.bytes) ? '=' : DIGITS[bits >> (18 - 6 * k) & 63]);
    }
    text_add(t, "'\">\n");
}

static void heading(const char *id, const char *text, Text *t)
{
    text_add(t, "<section id=\"%s\"><h2>%s</h2>\n", id, text);
}

/* ---- summary */
static void summary_print(const Page *p, Text *t)
{
    heading("summary", "Summary", t);
    table_html(p->summary, t);
    if (p->advice_count)
        text_add(t, "<ul>\n");
    for (int i = 0; i < p->advice_count; i++) {
        text_add(t, "<li>");
        svg_text(p->advice[i], t);
        text_add(t, "</li>\n");
    }
    text_add(t, "%s</section>\n", p->advice_count ? "</ul>\n" : "");
}

/* ---- the timeline */
static const PhaseSchedule *train_phase(const Page *p)
{
    const Schedule *s = p->plan->schedule;
    for (int i = 0; i < s->phase_count; i++)
        if (strcmp(s->phases[i].name, phase_name(PHASE_TRAIN, p->plan->always_partial)) == 0)
            return &s->phases[i];
    die("the schedule has no training step");
}

static bool same_use(const SimulatedDevice *a, const SimulatedDevice *b)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (fabs(a->lanes[lane].busy_us - b->lanes[lane].busy_us) > .05)
            return false;
        for (int c = 0; c < CAUSES; c++)
            if (fabs(a->lanes[lane].idle_us[c] - b->lanes[lane].idle_us[c]) > .05)
                return false;
    }
    return true;
}

static const char *time_text(double us)
{
    char text[32];
    return format("%s", mgpu_view_time(us, text));
}

static const char *bytes_text(double bytes)
{
    char text[32];
    return format("%s", mgpu_view_bytes(bytes, text));
}

/* devices that do the same are one row; a cause that no lane waits for has no column */
static void lanes_table(const Page *p, Text *t)
{
    static const Lane ORDER[LANES] = {LANE_HOST, LANE_COPY, LANE_COMP, LANE_COMM};
    const SimulatedDevice *devices = p->simulation->devices;
    int causes[CAUSES], count = 0, same;
    for (int c = 0; c < CAUSES; c++)
        for (int d = 0; d < p->plan->devices * LANES; d++)
            if (devices[d / LANES].lanes[d % LANES].idle_us[c] > 0 && (!count || causes[count - 1] != c))
                causes[count++] = c;
    Table table = {.columns = 4 + count};
    const char *cells[3 + CAUSES] = {"lane", "busy", "of the step"};
    for (int c = 0; c < count; c++)
        cells[3 + c] = format("idle: %s", CAUSE_NAME[causes[c]]);
    table_row(&table, p->plan->devices > 1 ? "devices" : "device", cells);
    for (int d = 0; d < p->plan->devices; d += same) {
        for (same = 1; d + same < p->plan->devices && same_use(&devices[d], &devices[d + same]);)
            same++;
        for (int lane = 0; lane < LANES; lane++) {
            const LaneUse *use = &devices[d].lanes[ORDER[lane]];
            cells[0] = LANE_NAME[ORDER[lane]];
            cells[1] = time_text(use->busy_us);
            cells[2] = p->simulation->step_us > 0 ? format("%.1f %%", 100 * use->busy_us / p->simulation->step_us) : "";
            for (int c = 0; c < count; c++)
                cells[3 + c] = use->idle_us[causes[c]] > 0 ? time_text(use->idle_us[causes[c]]) : "";
            if (use->busy_us > 0)
                table_row(&table, same > 1 ? format("%d to %d", d, d + same - 1) : format("%d", d), cells);
        }
    }
    table_html(&table, t);
}

typedef struct Long { int device; const ScheduledOp *op; double us; } Long;

static int compare_longest(const void *a, const void *b)
{
    const Long *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : x->device != y->device ? x->device - y->device : strcmp(x->op->id, y->op->id);
}

static bool was_listed(const Long *all, int i) /* of another device, as the list is sorted */
{
    for (int k = 0; k < i; k++)
        if (strcmp(all[k].op->id, all[i].op->id) == 0)
            return true;
    return false;
}

static void longest_table(const Page *p, Text *t)
{
    const PhaseSchedule *phase = train_phase(p);
    Long *all = NULL;
    int count = 0;
    for (int d = 0; d < p->plan->devices; d++)
        for (int i = 0; i < phase->devices[d].op_count; i++)
            APPEND(all, count, ((Long){d, &phase->devices[d].ops[i], p->simulation->devices[d].ops[i].end_us - p->simulation->devices[d].ops[i].begin_us}));
    if (count)
        qsort(all, (size_t)count, sizeof *all, compare_longest);
    Table table = {.columns = 7};
    table_add(&table, "longest operations", "lane", "line", "takes", "of the step", "bytes", "GFLOP");
    for (int i = 0; i < count && table.rows <= LONGEST; i++) {
        const ScheduledOp *op = all[i].op;
        if (!was_listed(all, i))
            table_add(
                &table, op_name(phase, op), LANE_NAME[op->lane], op->line ? format("%d", op->line) : "", time_text(all[i].us),
                format("%.1f %%", p->simulation->step_us > 0 ? 100 * all[i].us / p->simulation->step_us : 0),
                bytes_text(op_bytes(&phase->devices[all[i].device], op)), op->flops > 0 ? format("%.3g", op->flops / 1e9) : "");
    }
    table_html(&table, t);
}

static void timeline_print(const Page *p, Text *t)
{
    heading("timeline", "Timeline", t);
    text_add(
        t, "<div class=\"tools moving\"><input id=\"search\" type=\"search\" placeholder=\"search: layer, operation, line:13\" "
           "aria-label=\"search\">"
           "<span id=\"found\"></span><button id=\"in\">+</button><button id=\"out\">−</button><button id=\"fit\">all</button>"
           "<span class=\"hint\">wheel or + −: zoom; drag or ← →: move; click: what it waits for; n: next found; 0: "
           "all</span></div>\n"
           "<div class=\"keys moving\"><span class=\"key k-forward\">forward</span><span class=\"key k-backward\">backward</span>"
           "<span class=\"key k-update\">update</span><span class=\"key k-comm\">communication</span><span class=\"key "
           "k-copy\">upload</span>"
           "<span class=\"key k-host\">host</span><span class=\"key k-wait\">wait</span></div>\n"
           "<div id=\"lanes\" class=\"moving\" tabindex=\"0\" aria-label=\"timeline\"><canvas id=\"canvas\"></canvas><div "
           "id=\"tip\" hidden></div></div>\n"
           "<div id=\"chosen\" class=\"moving\"></div>\n");
    if (p->summary) {
        text_add(t, "<details class=\"table\" open><summary>Lanes of a predicted step, busy and idle, and the longest "
                    "operations</summary>\n");
        lanes_table(p, t);
        longest_table(p, t);
        text_add(t, "</details>\n");
    }
    if (p->predicted)
        embed_json("predicted", p->predicted, t);
    if (p->measured)
        embed_json("measured", p->measured, t);
    text_add(t, "</section>\n");
}

/* ---- plots */
static void figure(const Plot *plot, double width, double height, Text *t)
{
    text_add(t, "<svg class=\"figure\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"", width, height, width, height);
    svg_text(plot->title, t);
    text_add(t, "\">\n");
    plot_svg(plot, (Box){0, 0, width, height}, t);
    text_add(t, "</svg>\n");
}

static void scaling_print(const Page *p, Text *t)
{
    heading("scaling", "Scaling", t);
    if (p->summary->rows > 2) {
        text_add(t, "<div class=\"figures\">\n");
        figure(&p->scaling, 580, 300, t);
        figure(&p->steps, 580, 300, t);
        text_add(t, "</div>\n");
    } else
        text_add(t, "<p>There is one row in the summary. <code>--devices 1,2,4</code> draws the curve.</p>\n");
    text_add(t, "</section>\n");
}

static void runs_print(const Page *p, Text *t)
{
    heading("runs", p->run_count == 1 ? "The run" : "Runs", t);
    Table table = runs_table(p->runs, p->run_count);
    table_html(&table, t);
    for (int over = 0; over < OVERS; over++) {
        Curves c = curves_of(p->runs, p->run_count, (Over)over);
        text_add(t, "<details class=\"curves\"%s><summary>over %s</summary><div class=\"figures\">\n", over ? "" : " open", OVER_NAME[over]);
        for (int i = 0; i < c.count; i++)
            figure(&c.plots[i], 390, 250, t);
        text_add(t, "</div></details>\n");
    }
    text_add(t, "</section>\n");
}

void page_print(const Page *p, Text *t)
{
    const char *script = file_named("page.js");
    text_add(t, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n");
    policy_print(script, t);
    text_add(t, "<title>");
    svg_text(p->title, t);
    text_add(t, "</title>\n<style>%s%s</style>\n</head>\n<body>\n<header><h1>", PLOT_STYLE, file_named("page.css"));
    svg_text(p->title, t);
    text_add(t, "</h1><p>");
    svg_text(p->about, t);
    text_add(t, "</p></header>\n<main>\n");
    if (p->summary)
        summary_print(p, t);
    if (p->predicted || p->measured)
        timeline_print(p, t);
    if (p->summary) {
        arena_print(p, t);
        kernels_print(p, t);
        scaling_print(p, t);
        layers_print(p, t);
    }
    if (p->run_count)
        runs_print(p, t);
    text_add(t, "</main>\n<script>%s</script>\n</body>\n</html>\n", script);
}
