/* issue.c: the thread that issues the work of an asynchronous device. In: posted steps, and the list of each phase
 * (issue_order.c): segments of the lane comp, uploads, transfers. Out: work in the streams of the lanes comp, copy, comm and
 * sync.
 *
 * The thread goes through the list, step after step. In the list an operation comes after everything that it waits for. So for
 * a wait between lanes that it issues, the thread itself does not wait: the stream waits for an event. The thread waits
 *
 *   for the lane host       until the operation has completed: samples are read, reports are copied
 *   in a transfer           until the other devices have arrived: all have the same order of transfers
 *
 * `issued` counts what it has issued. The lane host waits for that before it waits for an event.
 *
 * A run (issue_order.c) is captured once for each combination of slots, as a graph, and launched. A run with transfers is
 * captured as it would be issued, but without waits for operations outside of it, which are waited for before its launch. If the
 * plan has several devices, all runs of all phases are captured before the first step (asynchronous.c).
 *
 * MGPU_GRAPHS=off issues operation by operation; MGPU_GRAPHS=wait also waits for each, so that the failing one is named. An
 * audit (audit.c) does the same, and examines memory between operations. */
#include "runtime/base/base.h"
#include "runtime/engine/asynchronous.h"

#include <stdlib.h>

/* ---- waiting */
static void wait_event(LaneThread *l, int event)
{
    Engine *e = l->engine;
    char text[400];
    if (l->lane != MGPU_HOST) {
        e->kind->async->wait_event(e->devices[l->device], l->lane, event);
        return;
    }
    set_doing(l, DOING_EVENT, event);
    const char *error = e->kind->async->wait_on_host(e->devices[l->device], event, text);
    if (error)
        mgpu_fail_at(l, error);
    set_doing(l, DOING_WORK, 0);
}

/* Waits for the lane host. The wait of an upload counts as waiting for input from the time at which the device has nothing else
 * to do. */
static void wait_for_host(LaneThread *l, int64_t target)
{
    Engine *e = l->engine;
    double began = mgpu_seconds();
    wait_for_lane(l, MGPU_HOST, target);
    double end = mgpu_seconds();
    if (l->lane != MGPU_COPY || atomic_load(&e->async_device[l->device]->done.value) < l->number - 1)
        return;
    if (l->number > 1 && atomic_load(&work_of(e, l->number - 1)->finished_at) > began)
        began = atomic_load(&work_of(e, l->number - 1)->finished_at);
    if (end > began)
        add_seconds(&times_of(l)->input, end - began);
}

void mgpu_issue_wait(LaneThread *l, const mgpu_wait *wait)
{
    Engine *e = l->engine;
    AsyncDevice *a = e->async_device[l->device];
    int64_t number = l->number - wait->back;
    if (number < 1 || wait->back > MGPU_STEPS_IN_FLIGHT)
        return;
    const mgpu_op *op = &l->phase->devices[l->device].ops[wait->op];
    const AsyncPhase *phase = &a->phases[l->phase - e->plan->phases];
    bool same = phase_of(e, number) == l->phase;
    if (mgpu_is_in_run(&phase->order, &l->phase->devices[l->device], (int)(l->op - l->phase->devices[l->device].ops), wait)) {
        if (op->lane != l->lane)
            wait_event(l, phase->run_event[wait->op]);
        return;
    }
    if (l->lane != MGPU_HOST && a->captures_transfers) /* the run as a whole waits for it */
        return;
    if (op->lane == MGPU_HOST) {
        wait_for_host(l,
                      same ? (number << PLACE_BITS) + lanes_of(e, l->phase, l->device)->place[wait->op] + 1 : finished(number));
        return;
    }
    if (l->lane == MGPU_HOST)
        wait_for_counter_of(l, op->lane, &a->issued,
                            same ? (number << PLACE_BITS) + phase->order.list_place[wait->op] + 1 : finished(number));
    if (op->lane == l->lane)
        return;
    if (!same)
        wait_event(l, a->step_event[op->lane] + (int)(number % MGPU_RING));
    else if (op->lane == MGPU_COMP && wait->back == 0 && l->lane != MGPU_HOST)
        wait_event(l, phase->segment_event[wait->op] + (int)(number % a->variants));
    else
        wait_event(l, phase->event[wait->op] + (int)(number % MGPU_RING));
}

/* ---- one operation */
static void record_event(LaneThread *l, int event)
{
    l->engine->kind->async->record_event(l->engine->devices[l->device], l->lane, event, false);
}

/* Records the event that other operations of the same run wait for. */
static void record_run_event(LaneThread *l, int op)
{
    int event = l->engine->async_device[l->device]->phases[l->phase - l->engine->plan->phases].run_event[op];
    if (event >= 0)
        l->engine->kind->async->record_event(l->engine->devices[l->device], l->lane, event, true);
}

static void record_and_write_step(LaneThread *l, int event)
{
    l->engine->kind->async->write_step(l->engine->devices[l->device], l->lane, event, (uint32_t)l->number);
    record_event(l, event);
}

/* Issues one call, or the calls of a region. See AsyncKind.call for `follows` and the result. */
static bool issue_call(LaneThread *l, const int *order, int count, bool follows)
{
    Engine *e = l->engine;
    AsyncDevice *a = e->async_device[l->device];
    const mgpu_device_phase *p = &l->phase->devices[l->device];
    const mgpu_step *step = NULL;
    set_op(l, &p->ops[order[0]]);
    if (l->op->verb != MGPU_CALL)
        mgpu_die_at(l, "the lane comp makes calls only");
    mgpu_declare(l, p, order, count);
    for (int i = 0, arguments = 0; i < count; arguments += l->calls[i++].arguments)
        l->calls[i] = mgpu_call_of(l, p, &p->ops[order[i]], l->argument + arguments, l->each + arguments, &step);
    bool done = e->kind->async->call(e->devices[l->device], l->calls, count, step, follows);
    for (int i = 0; i < count; i++) {
        int inside = a->phases[l->phase - e->plan->phases].segment_event[order[i]];
        if (inside >= 0)
            record_event(l, inside + (int)(l->number % a->variants));
        record_run_event(l, order[i]);
    }
    return done;
}

/* Each operation is issued by itself and waited for. */
static bool waits_for_each(const Engine *e, const AsyncDevice *a) { return a->graphs == GRAPHS_WAIT || e->audit; }

static void begin_serialized(LaneThread *l) { l->engine->kind->async->begin(l->engine->devices[l->device]); }

static void finish_serialized(LaneThread *l)
{
    set_doing(l, DOING_END, 0);
    l->engine->kind->async->finish(l->engine->devices[l->device], l->lane);
    set_doing(l, DOING_WORK, 0);
}

/* first -1: the step is not timed */
static void clock_at(LaneThread *l, int first, int number)
{
    if (first >= 0)
        l->engine->kind->async->clock(l->engine->devices[l->device], l->lane, first + number);
}

static void clock_transfer(LaneThread *l, int op, int number)
{
    const AsyncDevice *a = l->engine->async_device[l->device];
    if (mgpu_lane_transfers(l->lane))
        clock_at(l, mgpu_timed_first(a, l->lane, l->number), 2 * lanes_of(l->engine, l->phase, l->device)->place[op] + number);
}

void mgpu_issue_begin(LaneThread *l, int op)
{
    const AsyncDevice *a = l->engine->async_device[l->device];
    int begun = a->phases[l->phase - l->engine->plan->phases].begin_event[op];
    if (waits_for_each(l->engine, a))
        begin_serialized(l);
    if (begun >= 0)
        record_and_write_step(l, begun + (int)(l->number % MGPU_RING));
    clock_transfer(l, op, 0);
    if (mgpu_is_observed(l))
        mgpu_timed_operation(l, op, 0);
}

void mgpu_issue_end(LaneThread *l, int op)
{
    const AsyncDevice *a = l->engine->async_device[l->device];
    int event = a->phases[l->phase - l->engine->plan->phases].event[op];
    clock_transfer(l, op, 1);
    if (mgpu_is_observed(l))
        mgpu_timed_operation(l, op, 1);
    if (event >= 0)
        record_and_write_step(l, event + (int)(l->number % MGPU_RING));
    record_run_event(l, op);
    if (waits_for_each(l->engine, a))
        finish_serialized(l);
}

/* ---- a segment */
/* issue_call records an event after one of these calls */
static bool has_event(LaneThread *l, const int *order, int count)
{
    const AsyncPhase *p = &l->engine->async_device[l->device]->phases[l->phase - l->engine->plan->phases];
    bool has = false;
    for (int i = 0; i < count; i++)
        has = has || p->segment_event[order[i]] >= 0 || p->run_event[order[i]] >= 0;
    return has;
}

static void issue_calls(LaneThread *l, const int *order, int count, Graphs graphs)
{
    bool follows = false;
    for (int i = 0, calls; i < count; i += calls) {
        calls = graphs == GRAPHS_WAIT ? 1 : mgpu_region_length(&l->phase->devices[l->device], order + i, count - i);
        if (graphs == GRAPHS_WAIT)
            begin_serialized(l);
        issue_call(l, order + i, calls, follows);
        if (graphs == GRAPHS_WAIT)
            finish_serialized(l);
        follows = graphs != GRAPHS_WAIT && !has_event(l, order + i, calls);
    }
}

/* The lane is idle while what an operation reads and writes is examined. An operation that the next call computes, too, has
 * written nothing, and is skipped. */
static void audit_calls(LaneThread *l, const mgpu_device_phase *p, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        const mgpu_op *op = &p->ops[order[i]];
        set_op(l, op);
        mgpu_audit_before(l, p, op);
        begin_serialized(l);
        bool done = issue_call(l, &order[i], 1, false);
        finish_serialized(l);
        if (done)
            mgpu_audit_after(l, p, op);
    }
}

/* Records timing events before and after each operation. */
static void time_calls(LaneThread *l, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        mgpu_timed_operation(l, order[i], 0);
        issue_calls(l, order + i, 1, l->engine->async_device[l->device]->graphs);
        mgpu_timed_operation(l, order[i], 1);
    }
}

/* Issues the operations of a segment. graph: the captured segment; NULL: it is not captured. */
static void issue_whole(LaneThread *l, const Segment *s, const int *order, void *graph)
{
    Engine *e = l->engine;
    const AsyncDevice *a = e->async_device[l->device];
    int count = s->end - s->begin;
    if (e->audit)
        audit_calls(l, &l->phase->devices[l->device], order, count);
    else if (graph)
        e->kind->async->launch(e->devices[l->device], graph, (uint32_t)l->number);
    else if (mgpu_is_observed(l))
        time_calls(l, order, count);
    else
        issue_calls(l, order, count, a->graphs);
}

static void issue_segment(LaneThread *l, const AsyncPhase *phase, int number, void *graph)
{
    const AsyncDevice *a = l->engine->async_device[l->device];
    const Segment *s = &phase->order.segments[number];
    const LaneTable *t = lanes_of(l->engine, l->phase, l->device);
    const int *order = t->order + t->begin[MGPU_COMP] + s->begin;
    int clock = mgpu_timed_first(a, MGPU_COMP, l->number);
    clock_at(l, clock, 2 * number);
    set_op(l, &l->phase->devices[l->device].ops[order[0]]);
    for (int w = 0; w < s->wait_count; w++)
        mgpu_issue_wait(l, &s->waits[w]);
    clock_at(l, clock, 2 * number + 1);
    double began = mgpu_seconds();
    issue_whole(l, s, order, graph);
    add_seconds(&times_of(l)->launching, mgpu_seconds() - began);
    if (phase->end_event[number] >= 0)
        record_and_write_step(l, phase->end_event[number] + (int)(l->number % MGPU_RING));
    if (number == phase->order.count - 1)
        clock_at(l, clock, 2 * phase->order.count);
    set_op(l, NULL);
}

/* ---- a step */
/* Sets the lane whose operation is next; NULL: none. */
static LaneThread *set_lane(AsyncDevice *a, LaneThread *l)
{
    set_doing(a->at, DOING_REST, 0);
    a->at = l ? l : a->at;
    set_doing(a->at, l ? DOING_WORK : DOING_REST, 0);
    return l;
}

/* graph: of the captured run that consists of this segment, or NULL */
static void issue_place(AsyncDevice *a, const mgpu_phase *phase, int at, void *graph)
{
    Engine *e = a->engine;
    const AsyncPhase *p = &a->phases[phase - e->plan->phases];
    int op = p->order.list[at];
    LaneThread *l = set_lane(a, lane_of(e, a->device, phase->devices[a->device].ops[op].lane));
    if (l->lane == MGPU_COMP)
        issue_segment(l, p, p->order.segment[lanes_of(e, phase, a->device)->place[op]], graph);
    else
        mgpu_execute(l, phase, &op, 1);
}

/* Issues what is captured: the calls of a segment, or all operations of a run with transfers, including events, step numbers and
 * timing events. */
static void capture_run(AsyncDevice *a, const mgpu_phase *phase, const CapturedRun *r)
{
    const AsyncPhase *p = &a->phases[phase - a->engine->plan->phases];
    const LaneTable *t = lanes_of(a->engine, phase, a->device);
    if (!r->transfers) {
        const Segment *s = mgpu_segment_of(&p->order, t->place[p->order.list[r->begin]]);
        issue_calls(lane_of(a->engine, a->device, MGPU_COMP), t->order + t->begin[MGPU_COMP] + s->begin, s->end - s->begin,
                    GRAPHS_ON);
        return;
    }
    a->captures_transfers = true;
    for (int at = r->begin; at < r->end; at++)
        issue_place(a, phase, at, NULL);
    a->captures_transfers = false;
    set_lane(a, lane_of(a->engine, a->device, MGPU_COMP));
}

/* Returns the place of the graph that is captured of a run for the slots of this step. */
static void **graph_of(const AsyncDevice *a, const AsyncPhase *p, int run, int64_t number)
{
    return &p->graph[(int64_t)run * a->variants + number % a->variants];
}

static void capture_runs(AsyncDevice *a, const mgpu_phase *phase, int64_t number)
{
    const AsyncKind *async = a->engine->kind->async;
    Device *device = a->engine->devices[a->device];
    const AsyncPhase *p = &a->phases[phase - a->engine->plan->phases];
    for (int i = 0; i < p->order.run_count; i++) {
        void **graph = graph_of(a, p, i, number);
        if (*graph)
            continue;
        async->begin_segment(device, p->order.runs[i].transfers);
        capture_run(a, phase, &p->order.runs[i]);
        *graph = async->end_segment(device);
    }
}

static void set_step(AsyncDevice *a, const mgpu_phase *phase, int64_t number)
{
    for (int lane = 0; lane < MGPU_HOST; lane++) {
        LaneThread *l = lane_of(a->engine, a->device, lane);
        l->number = number;
        if (phase)
            set_phase(l, phase);
    }
}

static bool uses_graphs(const AsyncDevice *a) { return a->graphs == GRAPHS_ON || a->graphs == GRAPHS_NCCL; }

/* Captures the runs of all phases, before the first step. */
static void capture_all(AsyncDevice *a)
{
    const mgpu_plan *plan = a->engine->plan;
    double began = mgpu_seconds();
    int64_t before = a->engine->kind->async->available(a->engine->devices[a->device]);
    set_lane(a, lane_of(a->engine, a->device, MGPU_COMP));
    for (int k = 0; k < plan->phase_count; k++)
        for (int v = 0; v < a->variants; v++) {
            set_step(a, &plan->phases[k], a->variants + v);
            capture_runs(a, &plan->phases[k], a->variants + v);
            a->made.count += a->phases[k].order.run_count;
        }
    set_step(a, NULL, 0);
    set_lane(a, NULL);
    a->made.bytes = before - a->engine->kind->async->available(a->engine->devices[a->device]);
    a->made.seconds = mgpu_seconds() - began;
}

/* Launches a run with transfers. */
static void issue_run(AsyncDevice *a, const mgpu_phase *phase, const CapturedRun *r, void *graph)
{
    Engine *e = a->engine;
    LaneThread *l = set_lane(a, lane_of(e, a->device, MGPU_COMP));
    set_op(l, &phase->devices[a->device].ops[a->phases[phase - e->plan->phases].order.list[r->begin]]);
    for (int w = 0; w < r->wait_count; w++)
        mgpu_issue_wait(l, &r->waits[w]);
    double began = mgpu_seconds();
    e->kind->async->launch(e->devices[l->device], graph, (uint32_t)l->number);
    add_seconds(&times_of(l)->launching, mgpu_seconds() - began);
    set_op(l, NULL);
}

static void issue_list(AsyncDevice *a, const mgpu_phase *phase, int64_t number)
{
    Engine *e = a->engine;
    const AsyncPhase *p = &a->phases[phase - e->plan->phases];
    LaneThread *comp = set_lane(a, lane_of(e, a->device, MGPU_COMP));
    bool keeps = uses_graphs(a) && !e->audit && !mgpu_is_observed(comp);
    if (keeps)
        capture_runs(a, phase, number);
    for (int at = 0; at < p->order.length;) {
        int run = keeps ? p->order.run[at] : -1;
        const CapturedRun *r = run >= 0 ? &p->order.runs[run] : NULL;
        void *graph = r ? *graph_of(a, p, run, number) : NULL;
        if (r && r->transfers)
            issue_run(a, phase, r, graph);
        else
            issue_place(a, phase, at, graph);
        at = r ? r->end : at + 1;
        publish(e, &a->issued, (number << PLACE_BITS) + at);
    }
}

/* At a change of phase, lanes wait for each other. */
static void wait_for_lanes(const AsyncDevice *a, int64_t number)
{
    for (int lane = 0; lane < MGPU_HOST; lane++) {
        LaneThread *l = lane_of(a->engine, a->device, lane);
        for (int other = 0; other < MGPU_HOST && mgpu_lane_synchronizes(lane) && !l->idle; other++)
            if (other != lane && mgpu_lane_synchronizes(other) && !lane_of(a->engine, a->device, other)->idle)
                wait_event(l, a->step_event[other] + (int)(number % MGPU_RING));
    }
}

static void issue_step(AsyncDevice *a, int64_t number)
{
    Engine *e = a->engine;
    const mgpu_phase *phase = phase_of(e, number);
    set_step(a, phase, number);
    if (number > 1 && phase != phase_of(e, number - 1))
        wait_for_lanes(a, number - 1);
    if (phase)
        issue_list(a, phase, number);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (!lane_of(e, a->device, lane)->idle)
            record_and_write_step(set_lane(a, lane_of(e, a->device, lane)), a->step_event[lane] + (int)(number % MGPU_RING));
    set_lane(a, NULL);
    publish(e, &a->issued, finished(number));
}

static void say_crash(void *context, int signal)
{
    const AsyncDevice *a = context;
    mgpu_say_crash_at(a->at, a->at->op, signal);
}

void *mgpu_issue(void *argument)
{
    AsyncDevice *a = argument;
    char name[16];
    snprintf(name, sizeof name, "d%d.issue", a->device % 100000);
    pthread_setname_np(pthread_self(), name);
    CrashGuard *guard = mgpu_guard_begin(say_crash, a);
    if (uses_graphs(a) && a->engine->plan->devices > 1)
        capture_all(a);
    publish(a->engine, &a->ready, 1);
    for (int64_t number = 1;; number++) {
        wait_for_counter(a->engine, &a->engine->posted, number);
        if (atomic_load(&a->engine->closing))
            break;
        issue_step(a, number);
    }
    mgpu_guard_end(guard);
    return NULL;
}
