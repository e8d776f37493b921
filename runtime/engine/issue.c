/* issue.c: the thread that issues the work of an asynchronous device. In: posted steps, and the list of each phase (list.c):
 * segments of the lane comp, uploads, transfers. Out: work in the streams of the lanes comp, copy, comm and sync.
 *
 * The thread goes through the list, step after step. In the list an operation comes after everything that it waits for. So for
 * a wait between lanes that it issues, the thread itself does not wait: the stream waits for an event. The thread waits
 *
 *   for the lane host       until the operation has completed: samples are read, reports are copied
 *   in a transfer           until the other devices have arrived: all have the same order of transfers
 *
 * `issued` counts what it has issued. The lane host waits for that before it waits for an event.
 *
 * A run (list.c) is captured once for each combination of slots, as a graph, and launched. A run with transfers is captured as
 * it would be issued, but without waits for operations outside of it, which are waited for before its launch. If the plan has
 * several devices, all runs of all phases are captured before the first step (ahead.c).
 *
 * MGPU_GRAPHS=off issues operation by operation; MGPU_GRAPHS=wait also waits for each, so that the failing one is named. An
 * audit (audit.c) does the same, and examines memory between operations. */
#include "runtime/base/base.h"
#include "runtime/engine/ahead.h"

#include <stdlib.h>

/* ---- waiting */
static void follow(Lane *l, int mark)
{
    Engine *e = l->engine;
    char text[400];
    if (l->lane != MGPU_HOST) {
        e->kind->ahead->follow(e->devices[l->device], l->lane, mark);
        return;
    }
    set_doing(l, DOING_MARK, mark);
    const char *error = e->kind->ahead->reach(e->devices[l->device], mark, text);
    if (error)
        mgpu_fail_at(l, error);
    set_doing(l, DOING_WORK, 0);
}

/* Waits for the lane host. The wait of an upload counts as waiting for input from the time at which the device has nothing else
 * to do. */
static void wait_for_host(Lane *l, int64_t target)
{
    Engine *e = l->engine;
    double began = mgpu_seconds();
    hear_lane(l, MGPU_HOST, target);
    double end = mgpu_seconds();
    if (l->lane != MGPU_COPY || atomic_load(&e->ahead_of[l->device]->done.value) < l->number - 1)
        return;
    if (l->number > 1 && atomic_load(&work_of(e, l->number - 1)->finished_at) > began)
        began = atomic_load(&work_of(e, l->number - 1)->finished_at);
    if (end > began)
        add_seconds(&times_of(l)->input, end - began);
}

void mgpu_issue_wait(Lane *l, const mgpu_wait *wait)
{
    Engine *e = l->engine;
    Ahead *a = e->ahead_of[l->device];
    int64_t number = l->number - wait->back;
    if (number < 1 || wait->back > MGPU_AHEAD)
        return;
    const mgpu_op *op = &l->phase->devices[l->device].ops[wait->op];
    const AheadPhase *phase = &a->phases[l->phase - e->plan->phases];
    bool same = phase_of(e, number) == l->phase;
    if (mgpu_is_within(phase, &l->phase->devices[l->device], (int)(l->op - l->phase->devices[l->device].ops), wait)) {
        if (op->lane != l->lane)
            follow(l, phase->within[wait->op]);
        return;
    }
    if (l->lane != MGPU_HOST && a->keeps) /* the run as a whole waits for it */
        return;
    if (op->lane == MGPU_HOST) {
        wait_for_host(l, same ? (number << PLACE_BITS) + lanes_of(e, l->phase, l->device)->place[wait->op] + 1 : finished(number));
        return;
    }
    if (l->lane == MGPU_HOST)
        hear_from(l, op->lane, &a->issued, same ? (number << PLACE_BITS) + phase->turn[wait->op] + 1 : finished(number));
    if (op->lane == l->lane)
        return;
    if (!same)
        follow(l, a->step_mark[op->lane] + (int)(number % MGPU_RING));
    else if (op->lane == MGPU_COMP && wait->back == 0 && l->lane != MGPU_HOST)
        follow(l, phase->inside[wait->op] + (int)(number % a->variants));
    else
        follow(l, phase->mark[wait->op] + (int)(number % MGPU_RING));
}

/* ---- one operation */
static void mark_at(Lane *l, int mark)
{
    l->engine->kind->ahead->mark(l->engine->devices[l->device], l->lane, mark, false);
}

/* Records the event that other operations of the same run wait for. */
static void mark_within(Lane *l, int op)
{
    int mark = l->engine->ahead_of[l->device]->phases[l->phase - l->engine->plan->phases].within[op];
    if (mark >= 0)
        l->engine->kind->ahead->mark(l->engine->devices[l->device], l->lane, mark, true);
}

static void mark_and_note(Lane *l, int mark)
{
    l->engine->kind->ahead->note(l->engine->devices[l->device], l->lane, mark, (uint32_t)l->number);
    mark_at(l, mark);
}

/* Issues one call, or the calls of a region. See AheadKind.call for `follows` and the result. */
static bool issue_call(Lane *l, const int *order, int count, bool follows)
{
    Engine *e = l->engine;
    Ahead *a = e->ahead_of[l->device];
    const mgpu_device_phase *p = &l->phase->devices[l->device];
    const mgpu_step *step = NULL;
    set_op(l, &p->ops[order[0]]);
    if (l->op->verb != MGPU_CALL)
        mgpu_die_at(l, "the lane comp makes calls only");
    mgpu_declare(l, p, order, count);
    for (int i = 0, arguments = 0; i < count; arguments += l->calls[i++].arguments)
        l->calls[i] = mgpu_call_of(l, p, &p->ops[order[i]], l->argument + arguments, l->each + arguments, &step);
    bool done = e->kind->ahead->call(e->devices[l->device], l->calls, count, step, follows);
    for (int i = 0; i < count; i++) {
        int inside = a->phases[l->phase - e->plan->phases].inside[order[i]];
        if (inside >= 0)
            mark_at(l, inside + (int)(l->number % a->variants));
        mark_within(l, order[i]);
    }
    return done;
}

/* Each operation is issued alone and waited for. */
static bool waits_for_each(const Engine *e, const Ahead *a)
{
    return a->graphs == GRAPHS_WAIT || e->audit;
}

static void begin_alone(Lane *l)
{
    l->engine->kind->ahead->begin(l->engine->devices[l->device]);
}

static void finish_alone(Lane *l)
{
    set_doing(l, DOING_END, 0);
    l->engine->kind->ahead->finish(l->engine->devices[l->device], l->lane);
    set_doing(l, DOING_WORK, 0);
}

/* first -1: the step is not timed */
static void clock_at(Lane *l, int first, int number)
{
    if (first >= 0)
        l->engine->kind->ahead->clock(l->engine->devices[l->device], l->lane, first + number);
}

static void clock_transfer(Lane *l, int op, int number)
{
    const Ahead *a = l->engine->ahead_of[l->device];
    if (mgpu_lane_transfers(l->lane))
        clock_at(l, mgpu_timed_first(a, l->lane, l->number), 2 * lanes_of(l->engine, l->phase, l->device)->place[op] + number);
}

/* --trace and --profile time each operation */
static bool is_observed(Lane *l) { return is_traced(l) || l->engine->profile; }

void mgpu_issue_begin(Lane *l, int op)
{
    const Ahead *a = l->engine->ahead_of[l->device];
    int begun = a->phases[l->phase - l->engine->plan->phases].begun[op];
    if (waits_for_each(l->engine, a))
        begin_alone(l);
    if (begun >= 0)
        mark_and_note(l, begun + (int)(l->number % MGPU_RING));
    clock_transfer(l, op, 0);
    if (is_observed(l))
        mgpu_timed_operation(l, op, 0);
}

void mgpu_issue_end(Lane *l, int op)
{
    const Ahead *a = l->engine->ahead_of[l->device];
    int mark = a->phases[l->phase - l->engine->plan->phases].mark[op];
    clock_transfer(l, op, 1);
    if (is_observed(l))
        mgpu_timed_operation(l, op, 1);
    if (mark >= 0)
        mark_and_note(l, mark + (int)(l->number % MGPU_RING));
    mark_within(l, op);
    if (waits_for_each(l->engine, a))
        finish_alone(l);
}

/* ---- a segment */
/* issue_call records an event after one of these calls */
static bool has_mark(Lane *l, const int *order, int count)
{
    const AheadPhase *p = &l->engine->ahead_of[l->device]->phases[l->phase - l->engine->plan->phases];
    bool has = false;
    for (int i = 0; i < count; i++)
        has = has || p->inside[order[i]] >= 0 || p->within[order[i]] >= 0;
    return has;
}

static void issue_calls(Lane *l, const int *order, int count, Graphs graphs)
{
    bool follows = false;
    for (int i = 0, calls; i < count; i += calls) {
        calls = graphs == GRAPHS_WAIT ? 1 : mgpu_region_length(&l->phase->devices[l->device], order + i, count - i);
        if (graphs == GRAPHS_WAIT)
            begin_alone(l);
        issue_call(l, order + i, calls, follows);
        if (graphs == GRAPHS_WAIT)
            finish_alone(l);
        follows = graphs != GRAPHS_WAIT && !has_mark(l, order + i, calls);
    }
}

/* The lane is idle while what an operation reads and writes is examined. An operation that the next call computes, too, has
 * written nothing, and is skipped. */
static void audit_calls(Lane *l, const mgpu_device_phase *p, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        const mgpu_op *op = &p->ops[order[i]];
        set_op(l, op);
        mgpu_audit_before(l, p, op);
        begin_alone(l);
        bool done = issue_call(l, &order[i], 1, false);
        finish_alone(l);
        if (done)
            mgpu_audit_after(l, p, op);
    }
}

/* Records timing events before and after each operation. */
static void time_calls(Lane *l, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        mgpu_timed_operation(l, order[i], 0);
        issue_calls(l, order + i, 1, l->engine->ahead_of[l->device]->graphs);
        mgpu_timed_operation(l, order[i], 1);
    }
}

/* Issues the operations of a segment. kept: the run that has the captured segment; NULL: it is not captured. */
static void issue_whole(Lane *l, const Segment *s, const int *order, const Run *kept)
{
    Engine *e = l->engine;
    const Ahead *a = e->ahead_of[l->device];
    int count = s->end - s->begin;
    if (e->audit)
        audit_calls(l, &l->phase->devices[l->device], order, count);
    else if (kept)
        e->kind->ahead->launch(e->devices[l->device], kept->kept[l->number % a->variants], (uint32_t)l->number);
    else if (is_observed(l))
        time_calls(l, order, count);
    else
        issue_calls(l, order, count, a->graphs);
}

static void issue_segment(Lane *l, const AheadPhase *phase, int number, const Run *kept)
{
    const Ahead *a = l->engine->ahead_of[l->device];
    const Segment *s = &phase->segments[number];
    const LaneTable *t = lanes_of(l->engine, l->phase, l->device);
    const int *order = t->order + t->begin[MGPU_COMP] + s->begin;
    int clock = mgpu_timed_first(a, MGPU_COMP, l->number);
    clock_at(l, clock, 2 * number);
    set_op(l, &l->phase->devices[l->device].ops[order[0]]);
    for (int w = 0; w < s->wait_count; w++)
        mgpu_issue_wait(l, &s->waits[w]);
    clock_at(l, clock, 2 * number + 1);
    double began = mgpu_seconds();
    issue_whole(l, s, order, kept);
    add_seconds(&times_of(l)->launching, mgpu_seconds() - began);
    if (s->mark >= 0)
        mark_and_note(l, s->mark + (int)(l->number % MGPU_RING));
    if (number == phase->count - 1)
        clock_at(l, clock, 2 * phase->count);
    set_op(l, NULL);
}

/* ---- a step */
/* Sets the lane whose operation is next; NULL: none. */
static Lane *turn_to(Ahead *a, Lane *l)
{
    set_doing(a->at, DOING_REST, 0);
    a->at = l ? l : a->at;
    set_doing(a->at, l ? DOING_WORK : DOING_REST, 0);
    return l;
}

/* kept: the captured run that consists of this segment, or NULL */
static void issue_place(Ahead *a, const mgpu_phase *phase, int at, const Run *kept)
{
    Engine *e = a->engine;
    const AheadPhase *p = &a->phases[phase - e->plan->phases];
    int op = p->list[at];
    Lane *l = turn_to(a, lane_of(e, a->device, phase->devices[a->device].ops[op].lane));
    if (l->lane == MGPU_COMP)
        issue_segment(l, p, p->segment[lanes_of(e, phase, a->device)->place[op]], kept);
    else
        mgpu_execute(l, phase, &op, 1);
}

/* Issues what is captured: the calls of a segment, or all operations of a run with transfers, including events, notes and timing
 * events. */
static void keep_run(Ahead *a, const mgpu_phase *phase, const Run *r)
{
    const AheadPhase *p = &a->phases[phase - a->engine->plan->phases];
    const LaneTable *t = lanes_of(a->engine, phase, a->device);
    if (!r->transfers) {
        const Segment *s = mgpu_segment_of(p, t->place[p->list[r->begin]]);
        issue_calls(lane_of(a->engine, a->device, MGPU_COMP), t->order + t->begin[MGPU_COMP] + s->begin, s->end - s->begin, GRAPHS_ON);
        return;
    }
    a->keeps = true;
    for (int at = r->begin; at < r->end; at++)
        issue_place(a, phase, at, NULL);
    a->keeps = false;
    turn_to(a, lane_of(a->engine, a->device, MGPU_COMP));
}

static void keep_runs(Ahead *a, const mgpu_phase *phase, int64_t number)
{
    const AheadKind *ahead = a->engine->kind->ahead;
    Device *device = a->engine->devices[a->device];
    const AheadPhase *p = &a->phases[phase - a->engine->plan->phases];
    for (int i = 0; i < p->run_count; i++) {
        void **kept = &p->runs[i].kept[number % a->variants];
        if (*kept)
            continue;
        ahead->begin_segment(device, p->runs[i].transfers);
        keep_run(a, phase, &p->runs[i]);
        *kept = ahead->end_segment(device);
    }
}

static void set_step(Ahead *a, const mgpu_phase *phase, int64_t number)
{
    for (int lane = 0; lane < MGPU_HOST; lane++) {
        Lane *l = lane_of(a->engine, a->device, lane);
        l->number = number;
        if (phase)
            set_phase(l, phase);
    }
}

static bool keeps_graphs(const Ahead *a) { return a->graphs == GRAPHS_ON || a->graphs == GRAPHS_NCCL; }

/* Captures the runs of all phases, before the first step. */
static void keep_all(Ahead *a)
{
    const mgpu_plan *plan = a->engine->plan;
    double began = mgpu_seconds();
    int64_t before = a->engine->kind->ahead->available(a->engine->devices[a->device]);
    turn_to(a, lane_of(a->engine, a->device, MGPU_COMP));
    for (int k = 0; k < plan->phase_count; k++)
        for (int v = 0; v < a->variants; v++) {
            set_step(a, &plan->phases[k], a->variants + v);
            keep_runs(a, &plan->phases[k], a->variants + v);
            a->made.count += a->phases[k].run_count;
        }
    set_step(a, NULL, 0);
    turn_to(a, NULL);
    a->made.bytes = before - a->engine->kind->ahead->available(a->engine->devices[a->device]);
    a->made.seconds = mgpu_seconds() - began;
}

/* Launches a run with transfers. */
static void issue_run(Ahead *a, const mgpu_phase *phase, const Run *r)
{
    Engine *e = a->engine;
    Lane *l = turn_to(a, lane_of(e, a->device, MGPU_COMP));
    set_op(l, &phase->devices[a->device].ops[a->phases[phase - e->plan->phases].list[r->begin]]);
    for (int w = 0; w < r->wait_count; w++)
        mgpu_issue_wait(l, &r->waits[w]);
    double began = mgpu_seconds();
    e->kind->ahead->launch(e->devices[l->device], r->kept[l->number % a->variants], (uint32_t)l->number);
    add_seconds(&times_of(l)->launching, mgpu_seconds() - began);
    set_op(l, NULL);
}

static void issue_list(Ahead *a, const mgpu_phase *phase, int64_t number)
{
    Engine *e = a->engine;
    const AheadPhase *p = &a->phases[phase - e->plan->phases];
    Lane *comp = turn_to(a, lane_of(e, a->device, MGPU_COMP));
    bool keeps = keeps_graphs(a) && !e->audit && !is_observed(comp);
    if (keeps)
        keep_runs(a, phase, number);
    for (int at = 0; at < p->length;) {
        const Run *r = keeps && p->run[at] >= 0 ? &p->runs[p->run[at]] : NULL;
        if (r && r->transfers)
            issue_run(a, phase, r);
        else
            issue_place(a, phase, at, r);
        at = r ? r->end : at + 1;
        tell(e, &a->issued, (number << PLACE_BITS) + at);
    }
}

/* At a change of phase, lanes wait for each other. */
static void meet(const Ahead *a, int64_t number)
{
    for (int lane = 0; lane < MGPU_HOST; lane++) {
        Lane *l = lane_of(a->engine, a->device, lane);
        for (int other = 0; other < MGPU_HOST && mgpu_lane_meets(lane) && !l->idle; other++)
            if (other != lane && mgpu_lane_meets(other) && !lane_of(a->engine, a->device, other)->idle)
                follow(l, a->step_mark[other] + (int)(number % MGPU_RING));
    }
}

static void issue_step(Ahead *a, int64_t number)
{
    Engine *e = a->engine;
    const mgpu_phase *phase = phase_of(e, number);
    set_step(a, phase, number);
    if (number > 1 && phase != phase_of(e, number - 1))
        meet(a, number - 1);
    if (phase)
        issue_list(a, phase, number);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (!lane_of(e, a->device, lane)->idle)
            mark_and_note(turn_to(a, lane_of(e, a->device, lane)), a->step_mark[lane] + (int)(number % MGPU_RING));
    turn_to(a, NULL);
    tell(e, &a->issued, finished(number));
}

static void say_crash(void *context, int signal)
{
    const Ahead *a = context;
    mgpu_say_crash_at(a->at, a->at->op, signal);
}

void *mgpu_issue(void *argument)
{
    Ahead *a = argument;
    char name[16];
    snprintf(name, sizeof name, "d%d.issue", a->device % 100000);
    pthread_setname_np(pthread_self(), name);
    CrashGuard *guard = mgpu_guard_begin(say_crash, a);
    if (keeps_graphs(a) && a->engine->plan->devices > 1)
        keep_all(a);
    tell(a->engine, &a->ready, 1);
    for (int64_t number = 1;; number++) {
        hear(a->engine, &a->engine->posted, number);
        if (atomic_load(&a->engine->closing))
            break;
        issue_step(a, number);
    }
    mgpu_guard_end(guard);
    return NULL;
}
