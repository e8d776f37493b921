/* ahead.c: what the engine does differently for devices that run ahead. In: the operations of a phase on a device; out:
 * segments and marks; then, step by step, what lanes wait for and issue.
 *
 * The thread of a lane other than host issues its operations to the lane's stream and goes on: `progress` counts what is
 * issued. What is done, marks tell. After an operation x that another lane waits for comes a mark; the wait is then
 *
 *   of a lane but the host  until x is issued; then its stream follows the mark
 *   of the lane host        until x is issued; then its thread waits for the mark
 *   for the lane host       until x is done, as on the host
 *
 * A step is done when the marks at its end are reached: a thread for each device watches them.
 *
 * Segments. The operations of the lane comp are cut where one waits for something that cannot be issued before the ones in
 * front of it are: the sum of what they compute. All other waits of a segment are waited for before it, and then it is
 * issued whole: captured once for each combination of slots, and launched. Its operations' marks are of two kinds. Those
 * that lanes of the device wait for in the same step (sums that begin in the midst of the backward pass) are inside
 * and are captured with it; so there is one for each combination, and before it is set again, who waits for the last
 * setting must have been issued. For all others the mark at the end of the segment counts, one for each step under way.
 * A segment only waits in front, so waiting for its end in place of an operation inside cannot make a cycle.
 *
 * Where the driver can, the stream also writes the step's number into memory of the host before each mark that does not
 * are inside a segment: a note. When an operation has failed the driver says nothing of marks any more; late.c reads notes.
 *
 * MGPU_GRAPHS=off issues operation by operation; =wait also waits for each, so that a failure names the one that failed. An audit
 * (audit.c) does the same, and looks between them. */
#include "runtime/base/base.h"
#include "runtime/engine/ahead.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_ahead(int lane)
{
    return lane != MGPU_HOST;
}

/* ---- segments */
static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* of every operation: the last place of the lane comp that must be issued before it, in the same step; -1: none */
static int *find_needs(const mgpu_device_phase *p, const LaneTable *t)
{
    int *need = mgpu_allocate((size_t)p->op_count, sizeof *need);
    for (int i = 0; i < p->op_count; i++)
        need[i] = p->ops[i].lane == MGPU_COMP ? t->place[i] : -1;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < p->op_count; i++) {
            const mgpu_op *op = &p->ops[i];
            int most = need[i];
            for (int w = 0; w < op->wait_count && op->lane != MGPU_COMP; w++)
                most = op->waits[w].back ? most : larger(most, need[op->waits[w].op]);
            if (op->lane != MGPU_COMP && t->place[i] > 0)
                most = larger(most, need[t->order[t->begin[op->lane] + t->place[i] - 1]]);
            changed = changed || most > need[i];
            need[i] = most;
        }
    }
    return need;
}

static bool begins_segment(const mgpu_device_phase *p, const mgpu_op *op, const int *need, int begin)
{
    for (int w = 0; w < op->wait_count; w++)
        if (p->ops[op->waits[w].op].lane != MGPU_COMP && op->waits[w].back == 0 && need[op->waits[w].op] >= begin)
            return true;
    return false;
}

static void add_waits(Segment *s, const mgpu_device_phase *p, const mgpu_op *op)
{
    for (int w = 0; w < op->wait_count; w++) {
        bool known = p->ops[op->waits[w].op].lane == MGPU_COMP;
        for (int i = 0; i < s->wait_count && !known; i++)
            known = s->waits[i].op == op->waits[w].op && s->waits[i].back == op->waits[w].back;
        if (known)
            continue;
        s->waits = mgpu_resize(s->waits, (size_t)(s->wait_count + 1) * sizeof *s->waits);
        s->waits[s->wait_count++] = op->waits[w];
    }
}

static void cut_segments(AheadPhase *a, const mgpu_device_phase *p, const LaneTable *t, int variants)
{
    int *need = find_needs(p, t), count = t->begin[MGPU_COMP + 1] - t->begin[MGPU_COMP];
    a->segments = mgpu_allocate((size_t)count, sizeof *a->segments);
    for (int place = 0; place < count; place++) {
        const mgpu_op *op = &p->ops[t->order[t->begin[MGPU_COMP] + place]];
        if (place == 0 || begins_segment(p, op, need, a->segments[a->count - 1].begin)) {
            a->segments[a->count++] = (Segment){.begin = place, .mark = -1};
            a->segments[a->count - 1].kept = mgpu_allocate((size_t)variants, sizeof(void *));
        }
        Segment *s = &a->segments[a->count - 1];
        s->end = place + 1;
        add_waits(s, p, op);
    }
    free(need);
}

static Segment *segment_of(AheadPhase *a, int place)
{
    Segment *s = a->segments;
    while (s->end <= place)
        s++;
    return s;
}

/* ---- marks */
static int make_marks(Ahead *a, int count)
{
    a->marks += count;
    return a->marks - count;
}

static void mark_operation(Ahead *a, AheadPhase *phase, const mgpu_device_phase *p, const LaneTable *t, const mgpu_op *waiter,
                           const mgpu_wait *wait)
{
    const mgpu_op *op = &p->ops[wait->op];
    if (op->lane == waiter->lane || !is_ahead(op->lane))
        return;
    Segment *s = op->lane == MGPU_COMP ? segment_of(phase, t->place[wait->op]) : NULL;
    if (s && wait->back == 0 && is_ahead(waiter->lane)) {
        s->followers |= 1u << waiter->lane;
        if (phase->inside[wait->op] < 0)
            phase->inside[wait->op] = make_marks(a, a->variants);
        return;
    }
    int *mark = s ? &s->mark : &phase->mark[wait->op];
    if (*mark < 0)
        *mark = make_marks(a, MGPU_RING);
}

static void make_phase(Ahead *a, int number)
{
    Engine *e = a->engine;
    const mgpu_device_phase *p = &e->plan->phases[number].devices[a->device];
    const LaneTable *t = &e->phases[number].device[a->device];
    AheadPhase *phase = &a->phases[number];
    cut_segments(phase, p, t, a->variants);
    phase->mark = mgpu_allocate((size_t)p->op_count, sizeof(int));
    phase->inside = mgpu_allocate((size_t)p->op_count, sizeof(int));
    phase->begun = mgpu_allocate((size_t)p->op_count, sizeof(int));
    for (int i = 0; i < p->op_count; i++) {
        phase->mark[i] = phase->inside[i] = -1;
        phase->begun[i] = p->ops[i].verb == MGPU_TRANSFER ? make_marks(a, MGPU_RING) : -1;
    }
    for (int i = 0; i < p->op_count; i++)
        for (int w = 0; w < p->ops[i].wait_count; w++)
            mark_operation(a, phase, p, t, &p->ops[i], &p->ops[i].waits[w]);
    for (int i = 0; i < p->op_count; i++) {
        if (p->ops[i].lane == MGPU_COMP)
            phase->mark[i] = segment_of(phase, t->place[i])->mark;
        if (p->ops[i].verb == MGPU_TRANSFER && phase->mark[i] < 0) /* nobody waits for it, but who asks where it hangs */
            phase->mark[i] = make_marks(a, MGPU_RING);
    }
}

/* ---- waiting */
static void follow(Lane *l, int mark)
{
    Engine *e = l->engine;
    char text[400];
    if (is_ahead(l->lane)) {
        e->kind->ahead->follow(e->devices[l->device], l->lane, mark);
        return;
    }
    set_doing(l, DOING_MARK, mark);
    const char *error = e->kind->ahead->reach(e->devices[l->device], mark, text);
    if (error)
        mgpu_fail_at(l, error);
    set_doing(l, DOING_WORK, 0);
}

/* The lane comp waits for its input to be issued. That costs something from when it has nothing else to do. */
static void wait_for_input(Lane *l, int64_t target)
{
    Engine *e = l->engine;
    double began = mgpu_seconds();
    hear_lane(l, MGPU_COPY, target);
    double end = mgpu_seconds();
    if (atomic_load(&e->ahead_of[l->device]->done.value) < l->number - 1)
        return;
    if (l->number > 1 && atomic_load(&work_of(e, l->number - 1)->finished_at) > began)
        began = atomic_load(&work_of(e, l->number - 1)->finished_at);
    if (end > began)
        add_seconds(&times_of(l)->input, end - began);
}

void mgpu_ahead_wait(Lane *l, const mgpu_wait *wait)
{
    Engine *e = l->engine;
    Ahead *a = e->ahead_of[l->device];
    int64_t number = l->number - wait->back;
    if (number < 1 || wait->back > MGPU_AHEAD)
        return;
    const mgpu_op *op = &l->phase->devices[l->device].ops[wait->op];
    Lane *other = lane_of(e, l->device, op->lane);
    bool same = phase_of(e, number) == l->phase;
    int64_t target = same ? (number << PLACE_BITS) + lanes_of(e, l->phase, l->device)->place[wait->op] + 1 : finished(number);
    if (l->lane == MGPU_COMP && op->lane == MGPU_COPY && atomic_load(&other->progress.value) < target)
        wait_for_input(l, target);
    else
        hear_lane(l, op->lane, target);
    if (!is_ahead(op->lane) || op->lane == l->lane || other->idle)
        return;
    const AheadPhase *phase = &a->phases[l->phase - e->plan->phases];
    if (!same)
        follow(l, a->step_mark[op->lane] + (int)(number % MGPU_RING));
    else if (op->lane == MGPU_COMP && wait->back == 0 && is_ahead(l->lane))
        follow(l, phase->inside[wait->op] + (int)(number % a->variants));
    else
        follow(l, phase->mark[wait->op] + (int)(number % MGPU_RING));
}

void mgpu_ahead_meet(Lane *l, int other)
{
    Engine *e = l->engine;
    const Lane *o = lane_of(e, l->device, other);
    hear_lane(l, other, finished(l->number - 1));
    if (l->number > 1 && !o->idle)
        follow(l, e->ahead_of[l->device]->step_mark[other] + (int)((l->number - 1) % MGPU_RING));
}

/* ---- issuing */
static void mark_at(Lane *l, int mark)
{
    l->engine->kind->ahead->mark(l->engine->devices[l->device], l->lane, mark);
}

static void mark_and_note(Lane *l, int mark)
{
    l->engine->kind->ahead->note(l->engine->devices[l->device], l->lane, mark, (uint32_t)l->number);
    mark_at(l, mark);
}

/* false: the next call does this one, too */
static bool issue_call(Lane *l, int index)
{
    Engine *e = l->engine;
    Ahead *a = e->ahead_of[l->device];
    const mgpu_device_phase *p = &l->phase->devices[l->device];
    const mgpu_step *step = NULL;
    set_op(l, &p->ops[index]);
    if (l->op->verb != MGPU_CALL)
        mgpu_die_at(l, "the lane comp makes calls only");
    mgpu_declare(l, p, l->op);
    l->calls[0] = mgpu_call_of(l, p, l->op, l->argument, l->each, &step);
    bool done = e->kind->ahead->call(e->devices[l->device], &l->calls[0], step);
    int inside = a->phases[l->phase - e->plan->phases].inside[index];
    if (inside >= 0)
        mark_at(l, inside + (int)(l->number % a->variants));
    return done;
}

/* MGPU_GRAPHS=wait, and audits */
static bool waits_for_each(const Engine *e, const Ahead *a)
{
    return a->graphs == GRAPHS_WAIT || e->audit;
}

static void begin_alone(Lane *l)
{
    set_doing(l, DOING_TURN, 0);
    l->engine->kind->ahead->begin(l->engine->devices[l->device]);
    set_doing(l, DOING_WORK, 0);
}

static void finish_alone(Lane *l)
{
    set_doing(l, DOING_END, 0);
    l->engine->kind->ahead->finish(l->engine->devices[l->device], l->lane);
    set_doing(l, DOING_WORK, 0);
}

static void issue_calls(Lane *l, const int *order, int count, Graphs graphs)
{
    for (int i = 0; i < count; i++) {
        if (graphs == GRAPHS_WAIT)
            begin_alone(l);
        issue_call(l, order[i]);
        if (graphs == GRAPHS_WAIT)
            finish_alone(l);
    }
}

/* Each between two looks at what it reads and writes: all that this lane and others have told of is done. What the next one does,
 * too, has written nothing. */
static void audit_calls(Lane *l, const mgpu_device_phase *p, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        const mgpu_op *op = &p->ops[order[i]];
        set_op(l, op);
        mgpu_audit_before(l, p, op);
        begin_alone(l);
        bool done = issue_call(l, order[i]);
        finish_alone(l);
        if (done)
            mgpu_audit_after(l, p, op);
    }
}

/* with a clock before and after each; waits for the last */
static void time_calls(Lane *l, const int *order, int count)
{
    Engine *e = l->engine;
    const AheadKind *ahead = e->kind->ahead;
    Device *device = e->devices[l->device];
    for (int i = 0; i < count; i++) {
        ahead->clock(device, l->lane, 2 * i);
        issue_call(l, order[i]);
        ahead->clock(device, l->lane, 2 * i + 1);
    }
    for (int i = 0; i < count; i++)
        mgpu_profile_add(e->profile, l->phase, l->device, order[i], ahead->seconds(device, l->lane, 2 * i, 2 * i + 1));
}

static void trace_calls(Lane *l, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        mgpu_timed_operation(l, order[i], 0);
        issue_calls(l, order + i, 1, l->engine->ahead_of[l->device]->graphs);
        mgpu_timed_operation(l, order[i], 1);
    }
}

/* All of a step before anything of it is issued: while other devices wait for this one's part of a sum, nothing is made. */
static void keep_segments(Lane *l, AheadPhase *phase, const int *order)
{
    Engine *e = l->engine;
    Device *device = e->devices[l->device];
    int64_t variant = l->number % e->ahead_of[l->device]->variants;
    for (int i = 0; i < phase->count; i++) {
        Segment *s = &phase->segments[i];
        if (s->kept[variant])
            continue;
        e->kind->ahead->begin_segment(device);
        issue_calls(l, order + s->begin, s->end - s->begin, GRAPHS_ON);
        s->kept[variant] = e->kind->ahead->end_segment(device);
    }
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

void mgpu_ahead_calls(Lane *l, const mgpu_phase *phase)
{
    Engine *e = l->engine;
    Ahead *a = e->ahead_of[l->device];
    AheadPhase *segments = &a->phases[phase - e->plan->phases];
    const LaneTable *t = lanes_of(e, phase, l->device);
    bool traced = is_traced(l), kept = a->graphs == GRAPHS_ON && !e->profile && !e->audit && !traced;
    set_phase(l, phase);
    if (kept)
        keep_segments(l, segments, t->order + t->begin[MGPU_COMP]);
    int clock = mgpu_timed_first(a, MGPU_COMP, l->number);
    for (int i = 0; i < segments->count; i++) {
        Segment *s = &segments->segments[i];
        const int *order = t->order + t->begin[MGPU_COMP] + s->begin;
        clock_at(l, clock, 2 * i);
        set_op(l, &phase->devices[l->device].ops[order[0]]);
        for (int w = 0; w < s->wait_count; w++)
            mgpu_ahead_wait(l, &s->waits[w]);
        for (int lane = 0; lane < MGPU_LANES; lane++)
            if (s->followers >> lane & 1)
                hear_lane(l, lane, finished(l->number - a->variants));
        clock_at(l, clock, 2 * i + 1);
        double began = mgpu_seconds();
        if (e->audit)
            audit_calls(l, &phase->devices[l->device], order, s->end - s->begin);
        else if (e->profile)
            time_calls(l, order, s->end - s->begin);
        else if (traced)
            trace_calls(l, order, s->end - s->begin);
        else if (kept)
            e->kind->ahead->launch(e->devices[l->device], s->kept[l->number % a->variants]);
        else
            issue_calls(l, order, s->end - s->begin, a->graphs);
        add_seconds(&times_of(l)->launching, mgpu_seconds() - began);
        if (s->mark >= 0)
            mark_and_note(l, s->mark + (int)(l->number % MGPU_RING));
        tell(e, &l->progress, (l->number << PLACE_BITS) + s->end);
    }
    clock_at(l, clock, 2 * segments->count);
    set_op(l, NULL);
}

void mgpu_ahead_begin(Lane *l, int op)
{
    const AheadKind *ahead = l->engine->kind->ahead;
    Device *device = l->engine->devices[l->device];
    const Ahead *a = l->engine->ahead_of[l->device];
    int begun = a->phases[l->phase - l->engine->plan->phases].begun[op];
    if (waits_for_each(l->engine, a))
        begin_alone(l);
    if (begun >= 0)
        mark_and_note(l, begun + (int)(l->number % MGPU_RING));
    clock_transfer(l, op, 0);
    if (is_traced(l))
        mgpu_timed_operation(l, op, 0);
    if (l->engine->profile)
        ahead->clock(device, l->lane, 0);
}

void mgpu_ahead_issued(Lane *l, int op)
{
    const AheadKind *ahead = l->engine->kind->ahead;
    Device *device = l->engine->devices[l->device];
    clock_transfer(l, op, 1);
    if (is_traced(l))
        mgpu_timed_operation(l, op, 1);
    if (l->engine->profile)
        ahead->clock(device, l->lane, 1);
    const Ahead *a = l->engine->ahead_of[l->device];
    int mark = a->phases[l->phase - l->engine->plan->phases].mark[op];
    if (mark >= 0)
        mark_and_note(l, mark + (int)(l->number % MGPU_RING));
    if (waits_for_each(l->engine, a))
        finish_alone(l);
    if (l->engine->profile)
        mgpu_profile_add(l->engine->profile, l->phase, l->device, op, ahead->seconds(device, l->lane, 0, 1));
}

void mgpu_ahead_finish_step(Lane *l)
{
    if (is_ahead(l->lane))
        mark_and_note(l, l->engine->ahead_of[l->device]->step_mark[l->lane] + (int)(l->number % MGPU_RING));
}

/* ---- what is done */
static _Noreturn void say_failure(const Ahead *a, int64_t number, const char *what)
{
    char place[400];
    mgpu_place_of(lane_of(a->engine, a->device, MGPU_COMP), number, phase_of(a->engine, number), NULL, place, sizeof place);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: %s", place, what);
}

static void *watch(void *argument)
{
    Ahead *a = argument;
    Engine *e = a->engine;
    char name[16], text[400];
    snprintf(name, sizeof name, "d%d.done", a->device % 100000);
    pthread_setname_np(pthread_self(), name);
    for (int64_t number = 1;; number++) {
        hear(e, &e->posted, number);
        if (atomic_load(&e->closing))
            return NULL;
        int busy = 0;
        for (int lane = 0; lane < MGPU_LANES; lane++) {
            Lane *l = lane_of(e, a->device, lane);
            if (l->idle || !is_ahead(lane))
                continue;
            hear(e, &l->progress, finished(number));
            const char *error = e->kind->ahead->reach(e->devices[a->device], a->step_mark[lane] + (int)(number % MGPU_RING), text);
            if (error)
                say_failure(a, number, error);
            busy += mgpu_lane_meets(lane);
        }
        atomic_store(&work_of(e, number)->finished_at, mgpu_seconds());
        mgpu_timed_note(a, number);
        atomic_fetch_sub(&work_of(e, number)->unfinished, busy);
        tell(e, &a->done, number);
    }
}

void mgpu_ahead_done(const Engine *e, int64_t number)
{
    for (int d = 0; d < e->plan->devices; d++)
        hear(e, &e->ahead_of[d]->done, number);
}

/* ---- for who looks on from outside */
int64_t mgpu_ahead_steps(const Engine *e, int device)
{
    return atomic_load(&e->ahead_of[device]->done.value);
}

int mgpu_ahead_step_mark(const Engine *e, int device, int lane, int64_t number)
{
    return e->ahead_of[device]->step_mark[lane] + (int)(number % MGPU_RING);
}

/* Not those inside segments, which are set again while earlier steps are under way. */
int mgpu_ahead_mark(const Engine *e, int device, const mgpu_phase *phase, int64_t number, int op, bool before)
{
    AheadPhase *p = &e->ahead_of[device]->phases[phase - e->plan->phases];
    int place = lanes_of(e, phase, device)->place[op], mark = before ? p->begun[op] : p->mark[op];
    bool amid = phase->devices[device].ops[op].lane == MGPU_COMP && place < segment_of(p, place)->end - 1;
    return mark < 0 || amid ? -1 : mark + (int)(number % MGPU_RING);
}

const Segment *mgpu_ahead_segment(const Engine *e, int device, const mgpu_phase *phase, int place)
{
    return segment_of(&e->ahead_of[device]->phases[phase - e->plan->phases], place);
}

/* ---- opening */
static Graphs read_graphs(void)
{
    static const char *const NAME[] = {"on", "off", "wait"};
    const char *value = getenv("MGPU_GRAPHS");
    for (int i = 0; value && *value && i < MGPU_COUNT(NAME); i++)
        if (strcmp(value, NAME[i]) == 0)
            return (Graphs)i;
    if (value && *value)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_GRAPHS is on, off or wait, not '%s'", value);
    return GRAPHS_ON;
}

static int common_multiple(int a, int b)
{
    int multiple = a;
    while (multiple % b)
        multiple += a;
    return multiple;
}

static Ahead *open_ahead(Engine *e, int device, Graphs graphs)
{
    Ahead *a = mgpu_allocate_aligned(_Alignof(Ahead), sizeof *a);
    a->engine = e;
    a->device = device;
    a->graphs = graphs;
    a->variants = 1;
    for (int k = 0; k < e->plan->phase_count; k++)
        for (int b = 0; b < e->plan->phases[k].devices[device].buffer_count; b++)
            a->variants = common_multiple(a->variants, e->plan->phases[k].devices[device].buffers[b].slots);
    for (int lane = 0; lane < MGPU_LANES; lane++)
        a->step_mark[lane] = is_ahead(lane) ? make_marks(a, MGPU_RING) : -1;
    a->phases = mgpu_allocate((size_t)e->plan->phase_count, sizeof *a->phases);
    for (int k = 0; k < e->plan->phase_count; k++)
        make_phase(a, k);
    e->kind->ahead->make_marks(e->devices[device], a->marks);
    mgpu_timed_open(a);
    return a;
}

void mgpu_ahead_open(Engine *e)
{
    Graphs graphs = read_graphs();
    e->ahead_of = mgpu_allocate((size_t)e->plan->devices, sizeof *e->ahead_of);
    for (int d = 0; d < e->plan->devices; d++)
        e->ahead_of[d] = open_ahead(e, d, graphs);
    for (int d = 0; d < e->plan->devices; d++)
        mgpu_start_thread(&e->ahead_of[d]->watcher, watch, e->ahead_of[d]);
}

void mgpu_ahead_close(Engine *e)
{
    for (int d = 0; d < e->plan->devices; d++) {
        Ahead *a = e->ahead_of[d];
        pthread_join(a->watcher, NULL);
        for (int k = 0; k < e->plan->phase_count; k++) {
            AheadPhase *phase = &a->phases[k];
            for (int i = 0; i < phase->count; i++) {
                Segment *s = &phase->segments[i];
                for (int v = 0; v < a->variants; v++)
                    if (s->kept[v])
                        e->kind->ahead->free_segment(e->devices[d], s->kept[v]);
                free(s->kept);
                free(s->waits);
            }
            free(phase->segments);
            free(phase->mark);
            free(phase->inside);
            free(phase->begun);
        }
        free(a->phases);
        free(a);
    }
    free(e->ahead_of);
}
