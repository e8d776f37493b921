/* predicted.c: the timeline of one isolated step as a schedule predicts it, in the format of `--emit trace` and `./train
 * --trace`, for programs, which do not simulate. A gap on a lane is a wait for the last operation that the next one waits for. */
#include "runtime/report/page.h"
#include "runtime/base/trace.h"

#include <string.h>

static const double SHORT_US = .001;

typedef struct PredictedTimeline {
    const View *view;
    FILE *f;
    int64_t arrows;
} PredictedTimeline;

static double end_of(const ScheduledOp *op) { return op->begin_us + op->time_us; }

/* Times in a schedule have one decimal, so the next operation on a lane may seem to begin too early. */
static double begin_after(const ScheduledOp *op, double free_us)
{
    const double ROUNDED_US = .15;
    return op->begin_us < free_us && free_us - op->begin_us < ROUNDED_US ? free_us : op->begin_us;
}

static int track_of(const ScheduledOp *op) { return mgpu_trace_lane_track((int)op->lane); }

/* Names an operation as in traces: "upload", "all-reduce fc.weight", "fc.forward". */
static void name_of(const View *v, const ScheduledOp *op, char *name, size_t capacity)
{
    const CollectiveRecord *c = mgpu_lane_transfers((int)op->lane) ? mgpu_view_find_collective(v, op->label) : NULL;
    if (c)
        snprintf(name, capacity, "%s %s", mgpu_transfer_row(c->participants.transfer)->kind, c->name);
    else
        snprintf(name, capacity, "%s", op->lane == LANE_COMP ? op->id : verb_word(v->phase, op));
}

static void write_op(PredictedTimeline *t, int device, const ScheduledOp *op, double free_us)
{
    char name[512], id[512];
    double begin = begin_after(op, free_us);
    name_of(t->view, op, name, sizeof name);
    snprintf(id, sizeof id, "d%d.%s", device, op->id);
    mgpu_trace_slice(t->f, &(TraceSlice){.device = device,
                                         .track = track_of(op),
                                         .name = name,
                                         .category = LANE_NAME[op->lane],
                                         .begin_us = begin,
                                         .end_us = end_of(op) > begin ? end_of(op) : begin,
                                         .op = id,
                                         .kernel = op->lane == LANE_COMP ? op->label : NULL,
                                         .phase = t->view->phase->name,
                                         .layer = op->layer,
                                         .role = op->role,
                                         .line = op->line,
                                         .step = 1,
                                         .bytes = mgpu_view_op_bytes(op),
                                         .flops = op->flops});
}

static void write_wait(PredictedTimeline *t, int device, const ScheduledOp *op, double free_us)
{
    const ViewDevice *d = &t->view->devices[device];
    const ScheduledOp *last = NULL;
    char other[512], name[560], id[512];
    for (int i = 0; i < op->wait_count; i++) {
        const ScheduledOp *x = op->waits[i].op < 0 || op->waits[i].back ? NULL : &d->ops[op->waits[i].op];
        last = x && (!last || end_of(x) > end_of(last)) ? x : last;
    }
    if (!last || op->begin_us - free_us < SHORT_US)
        return;
    name_of(t->view, last, other, sizeof other);
    snprintf(name, sizeof name, "wait for %s", other);
    snprintf(id, sizeof id, "d%d.%s", device, last->id);
    mgpu_trace_slice(t->f, &(TraceSlice){.device = device,
                                         .track = track_of(op),
                                         .name = name,
                                         .category = "wait",
                                         .begin_us = free_us,
                                         .end_us = op->begin_us,
                                         .op = id,
                                         .phase = t->view->phase->name,
                                         .layer = last->layer,
                                         .line = last->line,
                                         .step = 1});
}

static double inside(const ScheduledOp *op, double us)
{
    double to = end_of(op) - SHORT_US;
    return us > to ? (to > op->begin_us ? to : op->begin_us) : us;
}

static void write_arrows(PredictedTimeline *t, int device, const ScheduledOp *op)
{
    const ViewDevice *d = &t->view->devices[device];
    for (int i = 0; i < op->wait_count; i++) {
        const ScheduledOp *before = op->waits[i].op < 0 || op->waits[i].back ? op : &d->ops[op->waits[i].op];
        TracePoint from = {device, track_of(before), inside(before, end_of(before))},
                   to = {device, track_of(op), inside(op, op->begin_us)};
        if (before->lane != op->lane)
            mgpu_trace_arrow(t->f, ++t->arrows, &from, &to);
    }
}

static void write_lane(PredictedTimeline *t, int device, Lane lane)
{
    const ViewDevice *d = &t->view->devices[device];
    double free_us = 0;
    bool any = false;
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (op->lane != lane)
            continue;
        if (!any)
            mgpu_trace_track(t->f, device, track_of(op));
        any = true;
        write_wait(t, device, op, free_us);
        write_op(t, device, op, free_us);
        write_arrows(t, device, op);
        free_us = end_of(op) > free_us ? end_of(op) : free_us;
    }
}

char *mgpu_predicted_timeline(const View *v)
{
    static const Lane ORDER[LANES] = {LANE_HOST, LANE_COPY, LANE_COMP, LANE_COMM, LANE_SYNC};
    char *text;
    size_t length;
    const Policy *plan = v->schedule->policy;
    PredictedTimeline t = {.view = v, .f = mgpu_begin_text(&text, &length)};
    mgpu_trace_begin(t.f, &(TraceHead){.made = "predicted",
                                       .model = v->schedule->model,
                                       .file = "",
                                       .kind = "",
                                       .machine = v->step->machine,
                                       .plan = plan ? plan->name : NULL,
                                       .plan_label = plan ? policy_label(plan) : NULL,
                                       .nodes = v->schedule->nodes,
                                       .devices = v->schedule->devices,
                                       .batch = v->schedule->batch,
                                       .step_us = v->end_us});
    mgpu_trace_track(t.f, TRACE_PROGRAM, TRACK_STEPS);
    mgpu_trace_slice(
        t.f,
        &(TraceSlice){
            .device = TRACE_PROGRAM, .track = TRACK_STEPS, .name = "step 1", .category = "step", .end_us = v->end_us, .step = 1});
    for (int d = 0; d < v->schedule->devices; d++)
        for (int lane = 0; lane < LANES; lane++)
            write_lane(&t, d, ORDER[lane]);
    mgpu_trace_end(t.f);
    mgpu_end_text(t.f);
    return text;
}
