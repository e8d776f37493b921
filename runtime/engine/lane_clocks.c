/* lane_clocks.c: timing events of asynchronous devices. One training step in MGPU_TIMED records them: on comp two before each
 * segment (one when everything earlier has completed, one when what it waits for has, too) and one at the end; on comm and sync
 * one before and one after each transfer. The thread that watches the device reads them when the step has completed, so nothing
 * waits.
 *
 * Timing events are per place of the step in the ring, so no other step uses them before this one is collected. All are created
 * at the beginning, because the issuing and the watching thread use them at the same time. A graph with transfers contains them
 * in every step.
 *
 * A traced (trace.c) or profiled step has two more for each operation, and is issued operation by operation. They are compared
 * with one event of their lane, the anchor, whose host time is measured when the lane's first traced step begins. */
#include "runtime/base/base.h"
#include "runtime/engine/asynchronous.h"

static int lane_length(const Engine *e, int device, int phase, int lane)
{
    const LaneTable *t = &e->phases[phase].device[device];
    return t->begin[lane + 1] - t->begin[lane];
}

void mgpu_timed_open(AsyncDevice *a)
{
    Engine *e = a->engine;
    for (int k = 0; k < e->plan->phase_count; k++) {
        for (int lane = 0; lane < MGPU_LANES; lane++) {
            int clocks = lane == MGPU_COMP           ? 2 * a->phases[k].order.count + 1
                         : mgpu_lane_transfers(lane) ? 2 * lane_length(e, a->device, k, lane)
                                                     : 0;
            a->clocks[lane] = clocks > a->clocks[lane] ? clocks : a->clocks[lane];
        }
    }
    for (int lane = 0; lane < MGPU_LANES; lane++)
        if (a->clocks[lane])
            e->kind->async->clock(e->devices[a->device], lane, MGPU_RING * a->clocks[lane] - 1);
}

/* Profiles, audits and MGPU_GRAPHS=wait already wait for or time each operation. */
static bool is_timed(const AsyncDevice *a, int64_t number)
{
    Engine *e = a->engine;
    return work_of(e, number)->timed && work_of(e, number)->phase && !e->profile && !e->audit && a->graphs != GRAPHS_WAIT;
}

int mgpu_timed_first(const AsyncDevice *a, int lane, int64_t number)
{
    return a->clocks[lane] && (a->captures_transfers || is_timed(a, number)) ? (int)(number % MGPU_RING) * a->clocks[lane] : -1;
}

static bool waits_for_transfer(const mgpu_device_phase *p, const Segment *s)
{
    for (int w = 0; w < s->wait_count; w++)
        if (mgpu_lane_transfers(p->ops[s->waits[w].op].lane))
            return true;
    return false;
}

/* ---- timelines */
static int longest(const AsyncDevice *a, int lane)
{
    int most = 0;
    for (int k = 0; k < a->engine->plan->phase_count; k++)
        most = lane_length(a->engine, a->device, k, lane) > most ? lane_length(a->engine, a->device, k, lane) : most;
    return most;
}

static int anchor_of(const AsyncDevice *a, int lane) { return MGPU_RING * (a->clocks[lane] + 2 * longest(a, lane)); }

static int clock_of(const AsyncDevice *a, int lane, int64_t number, int place)
{
    return MGPU_RING * a->clocks[lane] + (int)(number % MGPU_RING) * 2 * longest(a, lane) + 2 * place;
}

void mgpu_timed_trace(AsyncDevice *a)
{
    for (int lane = 0; lane < MGPU_LANES; lane++)
        if (lane != MGPU_HOST && longest(a, lane))
            a->engine->kind->async->clock(a->engine->devices[a->device], lane, anchor_of(a, lane));
}

void mgpu_timed_operation(LaneThread *l, int op, int number)
{
    Engine *e = l->engine;
    const AsyncDevice *a = e->async_device[l->device];
    const AsyncKind *ahead = e->kind->async;
    Device *device = e->devices[l->device];
    if (l->anchor <= 0) {
        double began = mgpu_seconds();
        ahead->clock(device, l->lane, anchor_of(a, l->lane));
        ahead->seconds(device, l->lane, anchor_of(a, l->lane), anchor_of(a, l->lane));
        l->anchor = (began + mgpu_seconds()) / 2;
    }
    ahead->clock(device, l->lane, clock_of(a, l->lane, l->number, lanes_of(e, l->phase, l->device)->place[op]) + number);
    if (ahead->range)
        ahead->range(device, number ? NULL : l->phase->devices[l->device].ops[op].id);
}

/* Reports what a lane did in this step. A gap before an operation that waits for another lane is reported as a wait for that. */
static void observe_lane(const AsyncDevice *a, LaneThread *l, int64_t number)
{
    Engine *e = l->engine;
    Device *device = e->devices[a->device];
    const mgpu_phase *phase = phase_of(e, number);
    const mgpu_device_phase *p = &phase->devices[a->device];
    const LaneTable *t = lanes_of(e, phase, a->device);
    int anchor = anchor_of(a, l->lane);
    Span s = {.end = 0, .number = number, .phase = phase};
    for (int i = t->begin[l->lane]; i < t->begin[l->lane + 1]; i++) {
        const mgpu_op *op = &p->ops[t->order[i]];
        int clock = clock_of(a, l->lane, number, i - t->begin[l->lane]);
        if (e->profile) /* of a long run, differences from the anchor have fewer digits */
            mgpu_profile_add(e->profile, phase, a->device, t->order[i],
                             e->kind->async->seconds(device, l->lane, clock, clock + 1));
        if (!mgpu_is_traced(l, number))
            continue;
        Span gap = s;
        gap.begin = s.end;
        s.begin = gap.end = l->anchor + e->kind->async->seconds(device, l->lane, anchor, clock);
        s.end = l->anchor + e->kind->async->seconds(device, l->lane, anchor, clock + 1);
        s.op = t->order[i];
        for (int w = 0; w < op->wait_count && gap.begin > 0; w++)
            if (p->ops[op->waits[w].op].lane != l->lane) {
                gap.op = op->waits[w].op;
                gap.kind = SPAN_WAIT;
                mgpu_observe_in_timeline(l, 0, gap);
                break;
            }
        mgpu_observe_in_timeline(l, 0, s);
    }
}

void mgpu_timed_read(AsyncDevice *a, int64_t number)
{
    Engine *e = a->engine;
    const AsyncKind *ahead = e->kind->async;
    Device *device = e->devices[a->device];
    StepTimes *t = &work_of(e, number)->times[a->device];
    for (int lane = 0; lane < MGPU_HOST && phase_of(e, number) && !e->audit; lane++)
        if (mgpu_is_traced(lane_of(e, a->device, lane), number) || e->profile)
            observe_lane(a, lane_of(e, a->device, lane), number);
    if (!is_timed(a, number))
        return;
    const mgpu_phase *phase = phase_of(e, number);
    const IssueOrder *order = &a->phases[phase - e->plan->phases].order;
    int at = mgpu_timed_first(a, MGPU_COMP, number);
    for (int i = 0; i < order->count; i++, at += 2) {
        if (waits_for_transfer(&phase->devices[a->device], &order->segments[i]))
            add_seconds(&t->communication, ahead->seconds(device, MGPU_COMP, at, at + 1));
        add_seconds(&t->computing, ahead->seconds(device, MGPU_COMP, at + 1, at + 2));
    }
    for (int lane = MGPU_COMM; lane <= MGPU_SYNC; lane++) {
        at = mgpu_timed_first(a, lane, number);
        for (int i = 0; i < lane_length(e, a->device, (int)(phase - e->plan->phases), lane); i++, at += 2)
            add_seconds(&t->transferring, ahead->seconds(device, lane, at, at + 1));
    }
}
