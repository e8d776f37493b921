/* observe.c: the one place to which the engine reports what lanes have done. In: spans, in which a lane executed an operation, or
 * waited for another lane or for other devices. Out: the times of the step (StepTimes), the profile (`bench --profile`) and the
 * timeline (`train --trace`). A thread reports a span when it ends; spans of the streams of asynchronous devices are known from
 * timing events when the step has completed (lane_clocks.c). */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

static const double SHORT_S = 1e-6; /* shorter waits are not shown in timelines */

bool mgpu_is_traced(const LaneThread *l, int64_t number) { return l->spans && work_of(l->engine, number)->traced; }

bool mgpu_is_observed(const LaneThread *l) { return l->engine->profile || mgpu_is_traced(l, l->number); }

static int place_of(const LaneThread *l, const mgpu_op *op) { return (int)(op - l->phase->devices[l->device].ops); }

void mgpu_observe_in_timeline(LaneThread *l, int thread, Span s)
{
    if (!mgpu_is_traced(l, s.number) || (s.kind != SPAN_OP && s.end - s.begin <= SHORT_S))
        return;
    s.step = work_of(l->engine, s.number)->applied + 1;
    mgpu_spans_add(l->spans[thread], &s);
}

static Span span_of(const LaneThread *l, SpanKind kind, const mgpu_op *op, double began, double ended)
{
    return (Span){began, ended, l->number, 0, l->phase, NULL, place_of(l, op), (uint8_t)kind};
}

static void add_to_profile(const LaneThread *l, const mgpu_op *op, double seconds)
{
    if (l->engine->profile)
        mgpu_profile_add(l->engine->profile, l->phase, l->device, place_of(l, op), seconds);
}

void mgpu_observe(LaneThread *l, SpanKind kind, const mgpu_op *op, double began, double ended)
{
    if (kind == SPAN_BARRIER)
        add_seconds(&times_of(l)->waiting_for_members, ended - began);
    else if (kind == SPAN_OP && op->verb == MGPU_TRANSFER)
        add_seconds(&times_of(l)->transferring, ended - began);
    else if (kind == SPAN_OP && op->verb == MGPU_READ)
        add_seconds(&times_of(l)->reading, ended - began);
    if (kind == SPAN_OP)
        add_to_profile(l, op, ended - began);
    mgpu_observe_in_timeline(l, 0, span_of(l, kind, op, began, ended));
}

void mgpu_observe_part(void *lane, int thread, const mgpu_op *op, double began, double ended)
{
    mgpu_observe_in_timeline(lane, thread, span_of(lane, SPAN_OP, op, began, ended));
}

void mgpu_observe_region(LaneThread *l, const DeviceRegion *region)
{
    for (int i = 0; i < region->count && region->observe; i++)
        add_to_profile(l, region->calls[i].op, region->calls[i].seconds);
}
