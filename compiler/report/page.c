/* page.c: the HTML of a report. All that it shows is in it: nothing is fetched. What comes from models, logs and traces is text, escaped
 * where HTML or a script could end in it. */
#include "compiler/report/page.h"
#include "compiler/kernel/kernel.h"
#include "runtime/base/sha256.h"

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

static void lanes_table(const Page *p, Text *t)
{
    static const Lane ORDER[LANES] = {LANE_HOST, LANE_COPY, LANE_COMP, LANE_COMM};
    Table table = {.columns = 3 + CAUSES};
    const char *cells[2 + CAUSES] = {"lane", "busy ms"};
    for (int c = 0; c < CAUSES; c++)
        cells[2 + c] = format("idle: %s", CAUSE_NAME[c]);
    table_row(&table, "device", cells);
    for (int d = 0; d < p->plan->devices; d++)
        for (int lane = 0; lane < LANES; lane++) {
            const LaneUse *use = &p->simulation->devices[d].lanes[ORDER[lane]];
            cells[0] = LANE_NAME[ORDER[lane]];
            cells[1] = format("%.3f", use->busy_us / 1e3);
            for (int c = 0; c < CAUSES; c++)
                cells[2 + c] = use->idle_us[c] > 0 ? format("%.3f", use->idle_us[c] / 1e3) : "";
            if (use->busy_us > 0)
                table_row(&table, format("%d", d), cells);
        }
    table_html(&table, t);
}

typedef struct Long { int device; const ScheduledOp *op; double us; } Long;

static int compare_longest(const void *a, const void *b)
{
    const Long *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1) : x->device != y->device ? x->device - y->device : strcmp(x->op->id, y->op->id);
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
    Table table = {.columns = 6};
    table_add(&table, "operation", "does", "ms", "line", "MB", "GFLOP");
    for (int i = 0; i < count && i < LONGEST; i++) {
        const DeviceSchedule *d = &phase->devices[all[i].device];
        table_add(&table, format("d%d.%s", all[i].device, all[i].op->id), op_name(phase, all[i].device, all[i].op), format("%.3f", all[i].us / 1e3),
                  all[i].op->line ? format("%d", all[i].op->line) : "", format("%.3f", op_bytes(d, all[i].op) / 1e6), format("%.3f", all[i].op->flops / 1e9));
    }
    table_html(&table, t);
}

static void timeline_print(const Page *p, Text *t)
{
    heading("timeline", "Timeline", t);
    text_add(t, "<div class=\"tools moving\"><input id=\"search\" type=\"search\" placeholder=\"search: layer, operation, line:13\" aria-label=\"search\">"
                "<span id=\"found\"></span><button id=\"in\">+</button><button id=\"out\">−</button><button id=\"fit\">all</button>"
                "<span class=\"hint\">wheel or + −: zoom; drag or ← →: move; click: what it waits for; n: next found; 0: all</span></div>\n"
                "<div id=\"lanes\" class=\"moving\" tabindex=\"0\" aria-label=\"timeline\"><canvas id=\"canvas\"></canvas><div id=\"tip\" hidden></div></div>\n"
                "<div id=\"chosen\" class=\"moving\"></div>\n");
    if (p->summary) {
        text_add(t, "<details class=\"table\"%s><summary>Lanes of a predicted step, busy and idle, and the longest operations</summary>\n",
                 p->plan->devices <= 4 ? " open" : "");
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
    figure(&p->scaling, 560, 300, t);
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
            figure(&c.plots[i], 440, 250, t);
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
