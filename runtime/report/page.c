/* page.c: writes the HTML of a report, which fetches nothing. Texts from models, logs and traces are escaped where HTML or a
 * script could end in them. */
#include "runtime/report/page.h"
#include "runtime/base/sha256.h"
#include "runtime/base/whole_file.h"
#include "runtime/view/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 12 };

static const char *file_named(const char *name)
{
    for (const PageFile *f = mgpu_page_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->text;
    mgpu_die("the report has no file %s", name);
}

/* Embeds JSON in a script element. "</script" would end it, and "<!--<script" would keep it open. In JSON, "<" occurs only in
 * texts, where it can be written as "\u003c". */
static void embed_json(const char *id, const char *json, Sheet *s)
{
    fprintf(s->f, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *at = json; *at;) {
        size_t length = strcspn(at, "<");
        fwrite(at, 1, length, s->f);
        at += length;
        if (*at) {
            fprintf(s->f, "\\u003c");
            at++;
        }
    }
    fprintf(s->f, "</script>\n");
}

/* Content Security Policy Level 3: only this script may run, and nothing is fetched. */
static void policy_print(const char *script, Sheet *s)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Digest d = mgpu_sha256_of(script, strlen(script));
    fprintf(
        s->f,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-");
    for (int i = 0; i < MGPU_COUNT(d.bytes); i += 3) { /* base64 (RFC 4648): 32 bytes are 43 digits and a "=" */
        unsigned bits = (unsigned)d.bytes[i] << 16 | (unsigned)(i + 1 < MGPU_COUNT(d.bytes) ? d.bytes[i + 1] : 0) << 8 |
                        (i + 2 < MGPU_COUNT(d.bytes) ? d.bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            fprintf(s->f, "%c", i + k > MGPU_COUNT(d.bytes) ? '=' : DIGITS[bits >> (18 - 6 * k) & 63]);
    }
    fprintf(s->f, "'\">\n");
}

static void heading(const char *id, const char *text, Sheet *s) { fprintf(s->f, "<section id=\"%s\"><h2>%s</h2>\n", id, text); }

/* ---- summary */
static void summary_print(const Page *p, Sheet *s)
{
    heading("summary", "Summary", s);
    mgpu_table_html(p->summary, s);
    if (p->from) {
        int n = p->view->schedule->devices;
        fprintf(s->f, "<p>%d device%s predicted from: ", n, n == 1 ? " is" : "s are");
        mgpu_svg_text(p->from, s);
        fprintf(s->f, "</p>\n");
    }
    if (p->advice_count)
        fprintf(s->f, "<ul>\n");
    for (int i = 0; i < p->advice_count; i++) {
        fprintf(s->f, "<li>");
        mgpu_svg_text(p->advice[i], s);
        fprintf(s->f, "</li>\n");
    }
    fprintf(s->f, "%s</section>\n", p->advice_count ? "</ul>\n" : "");
}

/* ---- the timeline */
static const char *share_text(double us, const View *v, Sheet *s)
{
    return v->step->step_us > 0 ? mgpu_sheet_text(s, "%.1f %%", 100 * us / v->step->step_us) : "";
}

/* Devices with the same lanes share a row. Causes that no lane waits for have no column. */
static void lanes_table(const View *v, Sheet *s)
{
    static const Lane ORDER[LANES] = {LANE_HOST, LANE_COPY, LANE_COMP, LANE_COMM, LANE_SYNC};
    int causes[CAUSES], count = 0;
    const LaneRecord *all = v->step->lanes;
    for (int c = 0; c < CAUSES; c++)
        for (int i = 0; i < v->step->lane_count; i++)
            if (all[i].use.idle_us[c] > 0 && (!count || causes[count - 1] != c))
                causes[count++] = c;
    Table table = {.columns = 4 + count};
    const char *cells[3 + CAUSES] = {"lane", "busy", "of the step"};
    for (int c = 0; c < count; c++)
        cells[3 + c] = mgpu_sheet_text(s, "idle: %s", CAUSE_NAME[causes[c]]);
    mgpu_table_row(s, &table, v->schedule->devices > 1 ? "devices" : "device", cells);
    for (int first = 0; first < v->step->lane_count; first += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            const LaneRecord *l = &all[first];
            while (l->lane != ORDER[lane] && l < &all[first + LANES - 1])
                l++;
            cells[0] = LANE_NAME[l->lane];
            cells[1] = mgpu_sheet_time(s, l->use.busy_us);
            cells[2] = share_text(l->use.busy_us, v, s);
            for (int c = 0; c < count; c++)
                cells[3 + c] = l->use.idle_us[causes[c]] > 0 ? mgpu_sheet_time(s, l->use.idle_us[causes[c]]) : "";
            if (l->use.busy_us > 0)
                mgpu_table_row(s, &table,
                               l->last > l->first ? mgpu_sheet_text(s, "%d to %d", l->first, l->last)
                                                  : mgpu_sheet_text(s, "%d", l->first),
                               cells);
        }
    mgpu_table_html(&table, s);
}

static void longest_table(const View *v, Sheet *s)
{
    const ViewDevice *d = &v->devices[0];
    const ScheduledOp **all = MGPU_SHEET_NEW(s, const ScheduledOp *, d->op_count);
    for (int i = 0; i < d->op_count; i++)
        all[i] = &d->ops[i];
    qsort(all, (size_t)d->op_count, sizeof *all, mgpu_view_by_time);
    Table table = {.columns = 7};
    mgpu_table_add(s, &table, "longest operations", "lane", "line", "takes", "of the step", "bytes", "GFLOP");
    for (int i = 0; i < d->op_count && i < LONGEST; i++)
        mgpu_table_add(s, &table, all[i]->id, LANE_NAME[all[i]->lane], all[i]->line ? mgpu_sheet_text(s, "%d", all[i]->line) : "",
                       mgpu_sheet_time(s, all[i]->time_us), share_text(all[i]->time_us, v, s),
                       mgpu_sheet_bytes(s, mgpu_view_op_bytes(all[i])),
                       all[i]->flops > 0 ? mgpu_sheet_text(s, "%.3g", all[i]->flops / 1e9) : "");
    mgpu_table_html(&table, s);
}

static void embed_view(const View *v, Sheet *s)
{
    char *timeline = mgpu_predicted_timeline(v);
    embed_json("predicted", timeline, s);
    free(timeline);
}

/* Returns whether the predicted step is the measured one, as far as is known. */
static bool is_alike(const Page *p)
{
    return !p->view || !p->measured_devices ||
           (p->measured_devices == p->view->schedule->devices && p->measured_batch == p->view->schedule->batch);
}

static void timeline_print(const Page *p, Sheet *s)
{
    heading("timeline", "Timeline", s);
    fputs("<div class=\"tools moving\"><input id=\"search\" type=\"search\" placeholder=\"search: layer, operation, line:13\" "
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
          "<div id=\"chosen\" class=\"moving\"></div>\n",
          s->f);
    bool beside = is_alike(p);
    if (!beside)
        fprintf(s->f,
                "<p>The step that was measured is of %lld device%s and a batch of %lld, the predicted one of %d and of %lld, so "
                "it is not drawn beside it. "
                "<code>--devices %lld --set batch=%lld</code> predicts the same step.</p>\n",
                (long long)p->measured_devices, p->measured_devices == 1 ? "" : "s", (long long)p->measured_batch,
                p->view->schedule->devices, (long long)p->view->schedule->batch, (long long)p->measured_devices,
                (long long)p->measured_batch);
    if (p->view) {
        fprintf(s->f, "<details class=\"table\" open><summary>Lanes of a predicted step, busy and idle, and the longest "
                      "operations</summary>\n");
        lanes_table(p->view, s);
        longest_table(p->view, s);
        fprintf(s->f, "</details>\n");
    }
    if (p->predicted && beside)
        embed_json("predicted", p->predicted, s);
    else if (p->view && beside)
        embed_view(p->view, s);
    if (p->measured)
        embed_json("measured", p->measured, s);
    fprintf(s->f, "</section>\n");
}

/* ---- plots */
static void figure(const Plot *plot, double width, double height, Sheet *s)
{
    fprintf(s->f, "<svg class=\"figure\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"",
            width, height, width, height);
    mgpu_svg_text(plot->title, s);
    fprintf(s->f, "\">\n");
    mgpu_plot_svg(plot, (Box){0, 0, width, height}, s);
    fprintf(s->f, "</svg>\n");
}

static void scaling_print(const Page *p, Sheet *s)
{
    heading("scaling", "Scaling", s);
    if (p->scaling.line_count) {
        fprintf(s->f, "<div class=\"figures\">\n");
        figure(&p->scaling, 580, 300, s);
        figure(&p->steps, 580, 300, s);
        fprintf(s->f, "</div>\n");
    } else
        fprintf(s->f, "<p>There is one row in the summary. <code>--devices 1,2,4</code> draws the curve.</p>\n");
    fprintf(s->f, "</section>\n");
}

static void runs_print(const Page *p, Sheet *s)
{
    heading("runs", p->run_count == 1 ? "The run" : "Runs", s);
    Table table = mgpu_runs_table(p->runs, p->run_count, s);
    mgpu_table_html(&table, s);
    for (int over = 0; over < OVERS; over++) {
        Curves c = mgpu_curves_of(p->runs, p->run_count, (Over)over, s);
        fprintf(s->f, "<details class=\"curves\"%s><summary>over %s</summary><div class=\"figures\">\n", over ? "" : " open",
                mgpu_over_name[over]);
        for (int i = 0; i < c.count; i++)
            figure(&c.plots[i], 390, 250, s);
        fprintf(s->f, "</div></details>\n");
    }
    fprintf(s->f, "</section>\n");
}

static void page_print(const Page *p, Sheet *s)
{
    const char *script = file_named("page.js");
    fprintf(
        s->f,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n");
    policy_print(script, s);
    fprintf(s->f, "<title>");
    mgpu_svg_text(p->title, s);
    fprintf(s->f, "</title>\n<style>%s%s</style>\n</head>\n<body>\n<header><h1>", mgpu_plot_style, file_named("page.css"));
    mgpu_svg_text(p->title, s);
    fprintf(s->f, "</h1><p>");
    mgpu_svg_text(p->about, s);
    fprintf(s->f, "</p></header>\n<main>\n");
    if (p->view)
        summary_print(p, s);
    if (p->view || p->measured)
        timeline_print(p, s);
    if (p->view) {
        mgpu_arena_print(p, s);
        mgpu_kernels_print(p, s);
        scaling_print(p, s);
        mgpu_layers_print(p, s);
    }
    if (p->run_count)
        runs_print(p, s);
    fprintf(s->f, "</main>\n<script>%s</script>\n</body>\n</html>\n", script);
}

/* ---- files */
void mgpu_page_add(Page *page, const char *file, const char *output, Sheet *s)
{
    if (mgpu_same_file(output, file))
        mgpu_fail(MGPU_BAD_USAGE, "-o %s: %s is read; name another file", output, file);
    size_t length;
    const char *refused, *wrong = NULL;
    char *text = mgpu_read_whole(file, &length, &refused);
    if (!text)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", file, refused ? refused : strerror(errno));
    if (!strstr(text, "\"traceEvents\"")) {
        RunLog *run = mgpu_run_parse(file, text, length, s);
        MGPU_APPEND(s, page->runs, page->run_count, run);
        free(text);
        return;
    }
    Json *json = mgpu_json_read(text, length, &wrong);
    const Json *about = json ? mgpu_json_member(json, "otherData") : NULL, *made = about ? mgpu_json_member(about, "made") : NULL;
    if (!made || made->kind != JSON_TEXT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: this is no timeline of ./train --trace%s%s", file, wrong ? ": " : "", wrong ? wrong : "");
    if (page->measured)
        mgpu_fail(MGPU_BAD_USAGE, "%s: a report shows one measured timeline, and two are given", file);
    page->measured = mgpu_sheet_copy(s, text, length);
    if (!mgpu_json_whole(mgpu_json_member(about, "devices"), &page->measured_devices) ||
        !mgpu_json_whole(mgpu_json_member(about, "batch"), &page->measured_batch))
        page->measured_devices = page->measured_batch = 0;
    page->measured_kind = mgpu_sheet_text(s, "%s", mgpu_json_text(about, "kind"));
    free(json);
    free(text);
}

int64_t mgpu_page_devices(const Page *page, const char *kind)
{
    if (page->measured_devices)
        return strcmp(page->measured_kind, kind) == 0 ? page->measured_devices : 0;
    const char *plan = page->run_count ? mgpu_json_text(page->runs[0]->start, "plan") : ""; /* such as host:2 */
    size_t length = strlen(kind);
    return strncmp(plan, kind, length) == 0 && plan[length] == ':' ? strtoll(plan + length + 1, NULL, 10) : 0;
}

void mgpu_page_write(Page *page, const char *output, Sheet *s)
{
    if (page->run_count && !page->view)
        page->about = mgpu_sheet_text(s, "what ./train --log wrote: %d run%s", page->run_count, page->run_count == 1 ? "" : "s");
    WholeFile file;
    int error = mgpu_open_whole(&file, output);
    s->f = file.f;
    if (!error) {
        page_print(page, s);
        error = mgpu_close_whole(&file);
    }
    if (error)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", output, strerror(error));
    for (int i = 0; i < page->run_count; i++)
        free(page->runs[i]->start);
    mgpu_sheet_end(s);
}
