/* report_page.c: `report RUN.save | RUN.jsonl ... [TRACE.json] -o REPORT.html`: shows the program's predictions and its runs on
 * the same page as `mgpuc report`. A folder of saves names the log of its run. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/report/page.h"
#include "runtime/run/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- operands */
/* *step: of the folder's save. */
static const char *log_of(const char *folder, int64_t *step, Sheet *s)
{
    const char *path = mgpu_sheet_text(s, "%s/run.json", folder), *refused, *wrong = NULL;
    size_t length;
    char *text = mgpu_read_whole(path, &length, &refused);
    if (!text)
        mgpu_fail(MGPU_BAD_INPUT, "%s holds no run: %s cannot be read: %s", folder, path, refused ? refused : strerror(errno));
    Json *run = mgpu_json_read(text, length, &wrong);
    const Json *log = run ? mgpu_json_member(run, "log") : NULL;
    if (!log || log->kind != JSON_TEXT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: its run wrote no log; train with --log run.jsonl, or name a log: report run.jsonl",
                  folder);
    const char *file = mgpu_sheet_copy(s, log->text, strlen(log->text));
    if (!mgpu_json_whole(mgpu_json_member(run, "step"), step))
        *step = 0;
    free(run);
    free(text);
    if (access(file, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: the log of its run, %s, cannot be read: %s; name where it is now: report run.jsonl",
                  folder, file, strerror(errno));
    return file;
}

static void add_saved(Page *page, const char *folder, const char *output, Sheet *s)
{
    int64_t step;
    const char *file = log_of(folder, &step, s);
    mgpu_page_add(page, file, output, s);
    double logged = page->run_count ? page->runs[page->run_count - 1]->steps : 0;
    if (logged < (double)step)
        mgpu_say("%s: warning: the run went on without --log: %s has its steps up to %.0f, the save is of step %lld", folder,
                 file, logged, (long long)step);
}

static void add_operands(Page *page, const RunOptions *o, Sheet *s)
{
    for (int i = 0; i < o->operand_count; i++) {
        struct stat status;
        if (stat(o->operands[i], &status) == 0 && S_ISDIR(status.st_mode))
            add_saved(page, o->operands[i], o->output, s);
        else
            mgpu_page_add(page, o->operands[i], o->output, s);
    }
}

/* Returns the plan of --devices, else the measured one, if the program has it, else that of a run without --devices. */
static const mgpu_plan *plan_of(const mgpu_program *p, const RunOptions *o, const Page *page)
{
    for (int i = 0; i < p->plan_count && !o->devices; i++)
        if (p->plans[i].devices == mgpu_page_devices(page, p->plans[i].kind))
            return mgpu_open_plan(o, &p->plans[i]);
    return mgpu_choose_plan(p, o);
}

/* ---- predictions */
static const mgpu_plan *on_one_device(const mgpu_program *p)
{
    for (int i = 0; i < p->plan_count; i++)
        if (p->plans[i].devices == 1)
            return &p->plans[i];
    return NULL;
}

/* Returns the longest time that a device waits for transfers. */
static double exposed_us(const View *v)
{
    double most = 0;
    for (int d = 0; d < v->schedule->devices; d++) {
        const LaneUse *use = mgpu_view_use(v, d, LANE_COMP);
        most = use && use->idle_us[CAUSE_COMMUNICATION] > most ? use->idle_us[CAUSE_COMMUNICATION] : most;
    }
    return most;
}

static void add_row(Table *t, const mgpu_program *p, const mgpu_plan *plan, double exposed, Sheet *s)
{
    const mgpu_plan *one = on_one_device(p);
    const mgpu_prediction *x = &plan->predicted;
    int64_t most = 0, bytes = 0;
    char rate[32], ms[32];
    for (int d = 0; d < plan->devices; d++) {
        most = plan->device[d].shard.capacity > most ? plan->device[d].shard.capacity : most;
        bytes = plan->device[d].arena_bytes > bytes ? plan->device[d].arena_bytes : bytes;
    }
    double speed_up = one && one->predicted.step_us > 0 ? one->predicted.step_us / x->step_us : 0,
           per_s = (double)p->batch / x->step_us * 1e6;
    mgpu_table_add(s, t, "strong", mgpu_sheet_text(s, "%d", plan->devices), mgpu_sheet_text(s, "%lld", (long long)p->batch),
                   mgpu_sheet_text(s, "%lld", (long long)most), mgpu_sheet_text(s, "%s", mgpu_view_ms(x->step_us, ms)),
                   mgpu_sheet_text(s, "%s", mgpu_view_rate(per_s, rate)),
                   speed_up > 0 ? mgpu_sheet_text(s, "%.2f", speed_up) : "",
                   speed_up > 0 ? mgpu_sheet_text(s, "%.1f %%", 100 * speed_up / plan->devices) : "",
                   mgpu_sheet_text(s, "%s", mgpu_view_ms(exposed, ms)), mgpu_sheet_bytes(s, (double)bytes), x->bound);
}

/* over ascending device counts */
typedef struct PlanCurves {
    double *devices, *speed_up, *step, *exposed;
    int count;
} PlanCurves;

static void draw_plans(Page *page, const PlanCurves *c, Sheet *s)
{
    page->scaling =
        (Plot){.title = "speed-up over one device, predicted", .x_label = "devices", .from_zero = true, .whole_x = true};
    page->steps =
        (Plot){.title = "time of a step, predicted", .x_label = "devices", .y_label = "ms", .from_zero = true, .whole_x = true};
    if (c->count < 2)
        return;
    PlotLine line = {.x = c->devices, .count = c->count, .points = true};
    if (c->devices[0] == 1) {
        PlotLine ideal = line, found = line;
        ideal.name = "as many times as devices", ideal.y = c->devices, ideal.colour = 7, ideal.dashed = true,
        ideal.points = false;
        found.name = "the batch of all devices stays", found.y = c->speed_up;
        MGPU_APPEND(s, page->scaling.lines, page->scaling.line_count, ideal);
        MGPU_APPEND(s, page->scaling.lines, page->scaling.line_count, found);
    }
    PlotLine step = line, exposed = line;
    step.name = "a step", step.y = c->step;
    exposed.name = "exposed communication", exposed.y = c->exposed, exposed.colour = 4;
    MGPU_APPEND(s, page->steps.lines, page->steps.line_count, step);
    MGPU_APPEND(s, page->steps.lines, page->steps.line_count, exposed);
}

static void add_plans(Page *page, const mgpu_program *p, const RunOptions *o, Sheet *s)
{
    Table *t = MGPU_SHEET_NEW(s, Table, 1);
    const mgpu_plan *one = on_one_device(p);
    PlanCurves c = {MGPU_SHEET_NEW(s, double, p->plan_count), MGPU_SHEET_NEW(s, double, p->plan_count),
                    MGPU_SHEET_NEW(s, double, p->plan_count), MGPU_SHEET_NEW(s, double, p->plan_count), 0};
    t->columns = 11;
    mgpu_table_add(s, t, "scaling", "devices", "batch", "each", "step ms", "samples/s", "speed-up", "efficiency", "exposed ms",
                   "arena of each", "bound by");
    for (int i = 0; i < p->plan_count; i++) {
        const mgpu_plan *plan = mgpu_open_plan(o, &p->plans[i]);
        if (plan->predicted.step_us <= 0)
            continue;
        View *v = mgpu_view_read(&(ViewSource){.image = plan->image}, NULL);
        double exposed = exposed_us(v);
        add_row(t, p, plan, exposed, s);
        mgpu_view_free(v);
        if (c.count && plan->devices <= c.devices[c.count - 1])
            continue;
        c.devices[c.count] = plan->devices;
        c.speed_up[c.count] = one && one->predicted.step_us > 0 ? one->predicted.step_us / plan->predicted.step_us : 0;
        c.step[c.count] = plan->predicted.step_us / 1e3;
        c.exposed[c.count++] = exposed / 1e3;
    }
    page->summary = t;
    draw_plans(page, &c, s);
}

static void add_layers(Page *page, const mgpu_program *p, Sheet *s)
{
    PageLayer *layers = MGPU_SHEET_NEW(s, PageLayer, p->layer_count);
    for (int i = 0; i < p->layer_count; i++) {
        char shape[200];
        const mgpu_layer *l = &p->layers[i];
        layers[i] = (PageLayer){l->name, mgpu_sheet_text(s, "%s", mgpu_shape_text(l->shape.rank, l->shape.extent, shape)),
                                l->parameters, l->line};
    }
    page->layers = layers;
    page->layer_count = p->layer_count;
}

/* Reads a phase of the plan: the full one, or the partial one if there is no other. NULL if there is none. */
static View *view_of(const mgpu_plan *plan, const char *phase)
{
    for (int i = 0; i < plan->phase_count; i++)
        if (strncmp(plan->phases[i].name, phase, strlen(phase)) == 0 && plan->phases[i].partial_batch == plan->always_partial)
            return mgpu_view_read(&(ViewSource){.image = plan->image}, plan->phases[i].name);
    return NULL;
}

int mgpu_show(const mgpu_program *p, const RunOptions *o)
{
    if (!o->operand_count || !o->output)
        mgpu_fail(MGPU_BAD_USAGE,
                  "report takes a folder of saves or logs, and the page to write, as in %s report %s.save -o report.html",
                  o->program, p->name);
    Sheet sheet = {0};
    Page page = {.title = p->name};
    add_operands(&page, o, &sheet);
    const mgpu_plan *plan = plan_of(p, o, &page);
    View *view = view_of(plan, p->predicts ? "predict." : "train."), *accumulating = view_of(plan, "accumulate."),
         *prologue = view_of(plan, "prologue.");
    page.view = view;
    page.from = plan->predicted.from;
    page.accumulating = accumulating;
    page.prologue = prologue;
    page.about =
        mgpu_sheet_text(&sheet, "%s, %s, global batch %lld, %d %s%s; predicted for %s", p->model_file, p->precision,
                        (long long)p->batch, plan->devices, strcmp(plan->kind, "host") == 0 ? "host device" : "GPU",
                        plan->devices == 1 ? "" : "s", plan->predicted.step_us > 0 ? plan->predicted.machine : "no machine");
    add_plans(&page, p, o, &sheet);
    add_layers(&page, p, &sheet);
    mgpu_page_write(&page, o->output, &sheet);
    View *views[] = {view, accumulating, prologue};
    for (int i = 0; i < MGPU_COUNT(views); i++)
        if (views[i])
            mgpu_view_free(views[i]);
    return 0;
}
