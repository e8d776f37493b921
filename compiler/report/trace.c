/* trace.c: simulate a plan and write a timeline of some training steps, in the same form as programs write what they measure.
 *
 * Without micro-batches, TRACED_STEPS steps in a row are shown as they were simulated. With micro-batches, whose phases are
 * simulated separately, one step is shown: the steady step of each phase as often as it runs, one after the other. A gap on a
 * lane before an operation is a wait for what the operation waited for last. */
#include "compiler/report/report.h"
#include "compiler/kernel/kernel.h"
#include "compiler/plan/policy.h"
#include "runtime/base/base.h"
#include "runtime/base/trace.h"

#include <stdlib.h>
#include <string.h>

typedef struct TimelineSpan { /* an operation in the timeline */
    SimulatedSpan span;       /* in the timeline's times */
    const PhaseSchedule *phase;
    int step; /* from 1; with micro-batches, 1 + the number of phases that ran before */
} TimelineSpan;
typedef struct TraceTimeline {
    const Program *program;
    TimelineSpan *spans;
    int count;
    double *step_ends;
    int step_count;
    bool micro;            /* has micro-batches: one step is shown */
    double (*free)[LANES]; /* [device]: since when the lane has been idle */
    FILE *f;
    int64_t arrows;
} TraceTimeline;

const char *op_name(const PhaseSchedule *phase, const ScheduledOp *op)
{
    static const char *const VERB[VERBS] = {
        [VERB_READ] = "read", [VERB_UPLOAD] = "upload", [VERB_REPORT] = "report", [VERB_FETCH] = "fetch"};
    if (op->verb == VERB_CALL)
        return op->id;
    if (op->verb == VERB_TRANSFER)
        return format("%s %s", mgpu_transfer_row(phase->collectives[op->target].participants.transfer)->kind,
                      phase->collectives[op->target].name);
    return VERB[op->verb];
}

static double op_bytes(const ScheduledOp *op) /* of a call, the bytes that it moves; of a copy, the bytes that it copies */
{
    if (op->verb == VERB_CALL)
        return op->bytes;
    return op->write_count ? accessed_bytes(op->writes, op->write_count) : accessed_bytes(op->reads, op->read_count);
}

/* ---- which operations are shown, and when */
static const PhaseSchedule *phase_named(const Schedule *s, const char *name, int *number)
{
    for (*number = 0; *number < s->phase_count; ++*number)
        if (strcmp(s->phases[*number].name, name) == 0)
            return &s->phases[*number];
    return NULL;
}

static void add_span(TraceTimeline *t, const PhaseSchedule *phase, const SimulatedSpan *x, double move, int step)
{
    TimelineSpan s = {*x, phase, step};
    double *lane = &t->free[x->device][phase->devices[x->device].ops[x->op].lane];
    s.span.arrived_us = x->arrived_us + move > *lane ? x->arrived_us + move : *lane; /* later if phases follow each other */
    s.span.begin_us = x->begin_us + move > s.span.arrived_us ? x->begin_us + move : s.span.arrived_us;
    s.span.end_us = s.span.begin_us + x->end_us - x->begin_us;
    *lane = s.span.end_us;
    APPEND(t->spans, t->count, s);
}

static int compare_begins(const void *a, const void *b)
{
    const SimulatedSpan *x = a, *y = b;
    if (x->begin_us != y->begin_us)
        return x->begin_us < y->begin_us ? -1 : 1;
    return x->step != y->step ? x->step - y->step : x->op - y->op;
}

/* Returns whether the plan has the phase. times: how often it runs in a step; 0: several steps are shown as they were
 * simulated. */
static bool add_phase(TraceTimeline *t, SimulationInput in, PhaseKind kind, bool partial, int times)
{
    int number;
    const PhaseSchedule *phase = phase_named(in.schedule, phase_name(kind, partial), &number);
    if (!phase)
        return false;
    in.traced = true;
    Simulation *s = simulate_phase(&in, number);
    if (s->span_count)
        qsort(s->spans, (size_t)s->span_count, sizeof *s->spans, compare_begins);
    double start = t->step_count ? t->step_ends[t->step_count - 1] : 0, length = s->ends_us[1] - s->ends_us[0];
    for (int i = 0; !times && i < s->span_count; i++)
        if (s->spans[i].end_us > 0 && s->spans[i].arrived_us < s->ends_us[TRACED_STEPS - 1])
            add_span(t, phase, &s->spans[i], 0, s->spans[i].step + 1);
    for (int i = 0; !times && i < TRACED_STEPS; i++)
        APPEND(t->step_ends, t->step_count, s->ends_us[i]);
    for (int k = 0; k < times; k++) {
        for (int i = 0; i < s->span_count; i++)
            if (s->spans[i].step == 1)
                add_span(t, phase, &s->spans[i], start - s->ends_us[0], t->step_count + 1);
        start += length;
        APPEND(t->step_ends, t->step_count, start);
    }
    return true;
}

/* ---- writing */
static double inside(const TimelineSpan *s, double us)
{
    double to = s->span.end_us - .001;
    return us > to ? (to > s->span.begin_us ? to : s->span.begin_us) : us;
}

static void write_wait(const TraceTimeline *t, const TimelineSpan *s, double from, double to, const char *of,
                       const ScheduledOp *other)
{
    const int SHORT_NS = 1;
    int d = s->span.device;
    const ScheduledOp *op = &s->phase->devices[d].ops[s->span.op];
    if (1e3 * (to - from) < SHORT_NS)
        return;
    mgpu_trace_slice(t->f, &(TraceSlice){.device = d,
                                         .track = mgpu_trace_lane_track((int)op->lane),
                                         .name = format("wait for %s", of),
                                         .category = "wait",
                                         .begin_us = from,
                                         .end_us = to,
                                         .op = format("d%d.%s", d, other->id),
                                         .phase = s->phase->name,
                                         .layer = other->layer,
                                         .line = other->line,
                                         .step = t->micro ? 1 : s->step});
}

static void write_span(const TraceTimeline *t, const TimelineSpan *s, double lane_free)
{
    int d = s->span.device;
    const DeviceSchedule *device = &s->phase->devices[d];
    const ScheduledOp *op = &device->ops[s->span.op];
    if (s->span.waited_op >= 0)
        write_wait(t, s, lane_free, s->span.arrived_us, op_name(s->phase, &device->ops[s->span.waited_op]),
                   &device->ops[s->span.waited_op]);
    write_wait(t, s, s->span.arrived_us, s->span.begin_us, format("other devices: %s", op_name(s->phase, op)), op);
    mgpu_trace_slice(t->f, &(TraceSlice){.device = d,
                                         .track = mgpu_trace_lane_track((int)op->lane),
                                         .name = op_name(s->phase, op),
                                         .category = LANE_NAME[op->lane],
                                         .begin_us = s->span.begin_us,
                                         .end_us = s->span.end_us,
                                         .op = format("d%d.%s", d, op->id),
                                         .phase = s->phase->name,
                                         .layer = op->layer,
                                         .role = op->role,
                                         .line = op->line,
                                         .step = t->micro ? 1 : s->step,
                                         .kernel = op->verb == VERB_CALL ? kernel_label(t->program->kernels[op->target]) : NULL,
                                         .bytes = op_bytes(op),
                                         .flops = op->flops});
}

static const char *key_of(const TimelineSpan *s, int op, int step)
{
    return format("%s %d %d %d", s->phase->name, s->span.device, op, step);
}

/* Writes arrows from operations of other lanes; with micro-batches, from the last one with the name and the step. */
static void write_arrows(TraceTimeline *t, const Map *places, const TimelineSpan *s)
{
    const DeviceSchedule *device = &s->phase->devices[s->span.device];
    const ScheduledOp *op = &device->ops[s->span.op];
    for (int i = 0; i < op->wait_count; i++) {
        const ScheduledOp *other = &device->ops[op->waits[i].op];
        const TimelineSpan *before =
            other->lane == op->lane ? NULL : map_get(places, key_of(s, op->waits[i].op, s->step - op->waits[i].back));
        if (!before)
            continue;
        TracePoint from = {s->span.device, mgpu_trace_lane_track((int)other->lane), inside(before, before->span.end_us)};
        TracePoint to = {s->span.device, mgpu_trace_lane_track((int)op->lane), inside(s, s->span.begin_us)};
        mgpu_trace_arrow(t->f, ++t->arrows, &from, &to);
    }
}

typedef struct LaneList {
    const TimelineSpan **spans;
    int count;
} LaneList;

static void write_lane(TraceTimeline *t, const LaneList *l, const Map *places)
{
    double lane_free = l->spans[0]->span.arrived_us;
    const SimulatedSpan *first = &l->spans[0]->span;
    mgpu_trace_track(t->f, first->device,
                     mgpu_trace_lane_track((int)l->spans[0]->phase->devices[first->device].ops[first->op].lane));
    for (int i = 0; i < l->count; i++) {
        write_span(t, l->spans[i], lane_free);
        write_arrows(t, places, l->spans[i]);
        lane_free = l->spans[i]->span.end_us;
    }
}

static void write_lanes(TraceTimeline *t, int devices)
{
    static const Lane ORDER[LANES] = {LANE_HOST, LANE_COPY, LANE_COMP, LANE_COMM, LANE_SYNC};
    Map places = {0};
    LaneList *lists = NEW_ARRAY(LaneList, devices * LANES);
    for (int i = 0; i < t->count; i++) {
        TimelineSpan *s = &t->spans[i];
        LaneList *l = &lists[s->span.device * LANES + (int)s->phase->devices[s->span.device].ops[s->span.op].lane];
        APPEND(l->spans, l->count, s);
        map_set(&places, key_of(s, s->span.op, s->step), s);
    }
    for (int d = 0; d < devices; d++)
        for (int lane = 0; lane < LANES; lane++)
            if (lists[d * LANES + (int)ORDER[lane]].count)
                write_lane(t, &lists[d * LANES + (int)ORDER[lane]], &places);
}

static void write_steps(const TraceTimeline *t)
{
    mgpu_trace_track(t->f, TRACE_PROGRAM, TRACK_STEPS);
    for (int i = 0; i < t->step_count; i++)
        mgpu_trace_slice(t->f, &(TraceSlice){.device = TRACE_PROGRAM,
                                             .track = TRACK_STEPS,
                                             .name = format("step %d", i + 1),
                                             .category = "step",
                                             .begin_us = i ? t->step_ends[i - 1] : 0,
                                             .end_us = t->step_ends[i],
                                             .step = i + 1});
}

static void merge_steps(TraceTimeline *t) /* With micro-batches there is one step. */
{
    t->step_ends[0] = t->step_ends[t->step_count - 1];
    t->step_count = 1;
}

void trace_print(const Program *p, const Plan *plan, const SimulationInput *in, const char *machine, Text *out)
{
    const Model *m = p->model;
    TraceTimeline t = {
        .program = p, .micro = plan->schedule->accumulate > 1, .free = allocate(sizeof *t.free * (size_t)plan->devices)};
    int micro = plan->schedule->accumulate > 1 ? plan->schedule->accumulate : 0;
    for (int d = 0; d < plan->devices; d++)
        for (int lane = 0; lane < LANES; lane++)
            t.free[d][lane] = -1e300;
    bool partial = plan->always_partial;
    add_phase(&t, *in, PHASE_PROLOGUE, partial, micro);
    add_phase(&t, *in, PHASE_ACCUMULATE, partial, micro ? micro - 1 : 0);
    if (!add_phase(&t, *in, step_kind(p->predicts), partial, micro ? 1 : 0))
        die("the schedule has no step");
    if (micro)
        merge_steps(&t);
    char *text;
    size_t length;
    t.f = mgpu_begin_text(&text, &length);
    mgpu_trace_begin(t.f, &(TraceHead){.made = "predicted",
                                       .model = m->name,
                                       .file = m->file,
                                       .kind = plan->kind,
                                       .machine = machine,
                                       .plan = policy_is_auto(policy_of(p->options)) ? NULL : policy_of(p->options)->name,
                                       .plan_label = policy_label(policy_of(p->options)),
                                       .nodes = plan->nodes,
                                       .devices = plan->devices,
                                       .batch = m->batch,
                                       .step_us = t.step_ends[t.step_count - 1] / t.step_count});
    write_steps(&t);
    write_lanes(&t, plan->devices);
    mgpu_trace_end(t.f);
    mgpu_end_text(t.f);
    text_bytes(out, text, length);
    free(text);
}
