/* report.c: `mgpuc report [MODEL.net] [RUN.jsonl ...] [TRACE.json] -o REPORT.html`: collects the contents of a report: rows and
 * advice of `mgpuc plan`, the predicted timeline of the plan with the most devices, a measured one, and logs of runs. */
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/policy.h"
#include "compiler/report/report.h"
#include "runtime/report/page.h"
#include "runtime/view/view.h"

#include <string.h>

/* ---- plans */
static Table table_of(const Planning *p, Sheet *s)
{
    Table t = {.columns = 11};
    mgpu_table_add(s, &t, "scaling", "devices", "batch", "each", "step ms", "samples/s", "speed-up", "efficiency", "exposed ms",
                   strcmp(p->kind, "host") == 0 ? "memory of all" : "memory of each", "bound by");
    for (int i = 0; i < p->row_count; i++) {
        const PlanRow *r = &p->rows[i];
        char bytes[32];
        mgpu_table_add(s, &t, r->weak ? "weak" : "strong", row_devices(r), format("%lld", (long long)r->batch),
                       format("%lld", (long long)r->most), ms_text(r->step_us), per_second_text(r->samples_per_s),
                       format("%.2f", r->speed_up), format("%.1f %%", 100 * r->efficiency), ms_text(r->exposed_us),
                       format("%s", mgpu_view_bytes(r->bytes, bytes)), r->bound);
    }
    return t;
}

static void add_scaling(Plot *plot, const Planning *p, bool weak)
{
    double *x = NEW_ARRAY(double, p->row_count), *y = NEW_ARRAY(double, p->row_count), *linear = NEW_ARRAY(double, p->row_count);
    int count = 0;
    for (int i = 0; i < p->row_count; i++)
        if (p->rows[i].weak == weak && (!count || p->rows[i].devices > x[count - 1])) { /* of the first batch */
            x[count] = linear[count] = p->rows[i].devices;
            y[count++] = p->rows[i].speed_up;
        }
    if (!count)
        return;
    PlotLine found = {.name = weak ? "weak: the batch of each device stays" : "strong: the batch of all devices stays",
                      .x = x,
                      .y = y,
                      .count = count,
                      .colour = weak,
                      .points = true};
    PlotLine ideal = {.name = plot->line_count ? NULL : "as many times as devices",
                      .x = x,
                      .y = linear,
                      .count = count,
                      .colour = 7,
                      .dashed = true};
    APPEND(plot->lines, plot->line_count, ideal);
    APPEND(plot->lines, plot->line_count, found);
}

/* Of the first batch, as in add_scaling: the step time, and its part in which computing waits for all-reduces. */
static void add_steps(Plot *plot, const Planning *p, bool weak)
{
    double *x = NEW_ARRAY(double, p->row_count), *step = NEW_ARRAY(double, p->row_count),
           *exposed = NEW_ARRAY(double, p->row_count);
    int count = 0;
    for (int i = 0; i < p->row_count; i++)
        if (p->rows[i].weak == weak && (!count || p->rows[i].devices > x[count - 1])) {
            x[count] = p->rows[i].devices;
            step[count] = p->rows[i].step_us / 1e3;
            exposed[count++] = p->rows[i].exposed_us / 1e3;
        }
    if (!count)
        return;
    PlotLine whole = {
        .name = weak ? "weak: a step" : "strong: a step", .x = x, .y = step, .count = count, .colour = weak, .points = true};
    PlotLine part = {.name = weak ? "weak: exposed communication" : "strong: exposed communication",
                     .x = x,
                     .y = exposed,
                     .count = count,
                     .colour = weak ? 5 : 4,
                     .points = true};
    APPEND(plot->lines, plot->line_count, whole);
    APPEND(plot->lines, plot->line_count, part);
}

/* Returns NULL if the plan has no such phase. */
static const View *view_of(const Plan *plan, PhaseKind kind)
{
    const char *name = phase_name(kind, plan->always_partial);
    Text text = {0};
    for (int i = 0; i < plan->schedule->phase_count; i++)
        if (strcmp(plan->schedule->phases[i].name, name) == 0) {
            schedule_write(plan->schedule, &text);
            return mgpu_view_read(&(ViewSource){.text = text_of(&text)}, name);
        }
    return NULL;
}

static void add_layers(Page *page, const Model *m)
{
    PageLayer *layers = NEW_ARRAY(PageLayer, m->layer_count);
    for (int i = 0; i < m->layer_count; i++)
        layers[i] =
            (PageLayer){m->layers[i].name, shape_text(&m->layers[i].shape), m->layers[i].parameters, model_line(m->layers[i].at)};
    page->layers = layers;
    page->layer_count = m->layer_count;
}

/* Returns the plan with as many devices as were measured, else the one with the most. */
static const Plan *plan_of(const Program *program, int64_t devices)
{
    for (int i = 0; i < program->plan_count; i++)
        if (program->plans[i].devices == devices)
            return &program->plans[i];
    return &program->plans[program->plan_count - 1];
}

static void add_model(Page *page, const Options *o, Sheet *s)
{
    Planning *p = NEW(Planning);
    *p = plan_begin(o);
    plan_fill(p);
    Table *table = NEW(Table);
    *table = table_of(p, s);
    page->summary = table;
    page->advice = p->advice;
    page->advice_count = p->advice_count;
    page->scaling =
        (Plot){.title = "speed-up over one device, predicted", .x_label = "devices", .from_zero = true, .whole_x = true};
    page->steps =
        (Plot){.title = "time of a step, predicted", .x_label = "devices", .y_label = "ms", .from_zero = true, .whole_x = true};
    for (int weak = 0; p->row_count > 1 && weak < 2; weak++) {
        add_scaling(&page->scaling, p, weak);
        add_steps(&page->steps, p, weak);
    }
    Program *program = make_schedules(o, NULL);
    check_sources(program->model, o);
    predict_plans(program);
    const Plan *plan = plan_of(program, mgpu_page_devices(page, p->kind));
    page->view = view_of(plan, step_kind(program->predicts));
    page->from = plan->predicted.from;
    page->accumulating = view_of(plan, PHASE_ACCUMULATE);
    page->prologue = view_of(plan, PHASE_PROLOGUE);
    add_layers(page, program->model);
    SimulationInput in = simulation_input(program, plan);
    const char *machine = planned_name(o, !program->target->own_memory);
    Text trace = {0};
    trace_print(program, plan, &in, machine, &trace);
    page->predicted = text_of(&trace);
    page->title = program->model->name;
    page->about = format("%s, %s, global batch %lld, %d %s%s%s; predicted for %s", program->model->file, p->precision,
                         (long long)program->model->batch, plan->devices, strcmp(plan->kind, "host") == 0 ? "host device" : "GPU",
                         plan->devices == 1 ? "" : "s", policy_text(o), machine);
}

int command_report(const Options *o)
{
    Sheet sheet = {0};
    Page page = {.title = "Runs", .about = "what ./train --log wrote"};
    bool model = is_model_file(o->file);
    if (!model)
        mgpu_page_add(&page, o->file, o->output, &sheet);
    for (int i = 0; i < o->more_count; i++)
        mgpu_page_add(&page, o->more[i], o->output, &sheet);
    if (model) /* its plan is chosen by what was measured */
        add_model(&page, o, &sheet);
    mgpu_page_write(&page, o->output, &sheet);
    return 0;
}
