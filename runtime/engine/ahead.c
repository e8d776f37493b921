/* ahead.c: what the engine does differently for devices that run ahead. In: the operations of a phase on a device; out: the list that
 * its thread issues step by step (issue.c), and marks, which tell what is done.
 *
 * After an operation x that another lane waits for comes a mark. The stream of a lane that waits follows it; the thread of the lane host
 * waits until x is issued, then for the mark. A step is done when the marks at its end are reached: a thread for each device watches them.
 *
 * Segments. The operations of the lane comp are cut where one waits for something that cannot be issued before the ones in
 * front of it are: the sum of what they compute. All other waits of a segment are waited for before it, and then it is
 * issued whole: captured once for each combination of slots, and launched. Its operations' marks are of two kinds. Those
 * that lanes of the device wait for in the same step (sums that begin in the midst of the backward pass) are inside
 * and are captured with it; so there is one for each combination. For all others the mark at the end of the segment counts, one for each
 * step under way. A segment only waits in front, so waiting for its end in place of an operation inside cannot make a cycle.
 *
 * The list. Operations are issued in the order of the plan, which is proved (compiler/verify/order.c): each comes after all that it waits for, and
 * transfers have one order on all devices. Only a segment is issued whole: the first one, then all that needs no later one, then the next.
 * What a segment waits for needs none of its operations, so it comes before it; what waits for one of them needs it, so it comes after.
 *
 * Where the driver can, the stream also writes the step's number into memory of the host before each mark that does not
 * are inside a segment: a note. When an operation has failed the driver says nothing of marks any more; look.c reads notes. */
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

/* of every operation: the last place of the lane comp that must be issued before it, in the same step; -1: none. Transfers of all lanes have
 * one order */
static int *find_needs(const mgpu_device_phase *p, const LaneTable *t)
{
    int *need = mgpu_allocate((size_t)p->op_count, sizeof *need), before[MGPU_LANES];
    for (int lane = 0; lane < MGPU_LANES; lane++)
        before[lane] = -1;
    for (int i = 0; i < p->op_count; i++) {
        const mgpu_op *op = &p->ops[i];
        int lane = mgpu_lane_transfers(op->lane) ? MGPU_COMM : op->lane;
        need[i] = lane == MGPU_COMP ? t->place[i] : before[lane];
        for (int w = 0; w < op->wait_count && lane != MGPU_COMP; w++)
            need[i] = op->waits[w].back ? need[i] : larger(need[i], need[op->waits[w].op]);
        before[lane] = need[i];
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

static void cut_segments(AheadPhase *a, const mgpu_device_phase *p, const LaneTable *t, const int *need, int variants)
{
    int count = t->begin[MGPU_COMP + 1] - t->begin[MGPU_COMP];
    a->segments = mgpu_allocate((size_t)count, sizeof *a->segments);
    a->segment = mgpu_allocate((size_t)count, sizeof *a->segment);
    for (int place = 0; place < count; place++) {
        const mgpu_op *op = &p->ops[t->order[t->begin[MGPU_COMP] + place]];
        if (place == 0 || begins_segment(p, op, need, a->segments[a->count - 1].begin)) {
            a->segments[a->count++] = (Segment){.begin = place, .mark = -1};
            a->segments[a->count - 1].kept = mgpu_allocate((size_t)variants, sizeof(void *));
        }
        Segment *s = &a->segments[a->count - 1];
        s->end = place + 1;
        a->segment[place] = a->count - 1;
        add_waits(s, p, op);
    }
}

static Segment *segment_of(const AheadPhase *a, int place)
{
    return &a->segments[a->segment[place]];
}

/* ---- the list */
/* how many segments are issued before an operation of another lane */
static int segments_before(const AheadPhase *a, int need)
{
    return need < 0 ? 0 : a->segment[need] + 1;
}

static bool is_issued_alone(const mgpu_op *op)
{
    return op->lane != MGPU_COMP && is_ahead(op->lane);
}

static void make_list(AheadPhase *a, const mgpu_device_phase *p, const LaneTable *t, const int *need)
{
    int *next = mgpu_allocate((size_t)a->count + 2, sizeof *next); /* [segments before it]: the place of the next such operation */
    a->list = mgpu_allocate((size_t)p->op_count, sizeof *a->list);
    a->turn = mgpu_allocate((size_t)p->op_count, sizeof *a->turn);
    for (int i = 0; i < p->op_count; i++)
        if (is_issued_alone(&p->ops[i]))
            next[segments_before(a, need[i]) + 1]++;
    for (int s = 0; s < a->count; s++) {
        next[s + 1] += next[s] + 1;
        a->list[next[s + 1] - 1] = t->order[t->begin[MGPU_COMP] + a->segments[s].begin];
    }
    a->length = next[a->count] + next[a->count + 1];
    for (int i = 0; i < p->op_count; i++)
        if (is_issued_alone(&p->ops[i]))
            a->list[next[segments_before(a, need[i])]++] = i;
    for (int i = 0; i < a->length; i++)
        a->turn[a->list[i]] = i;
    for (int i = 0; i < p->op_count; i++)
        if (p->ops[i].lane == MGPU_COMP)
            a->turn[i] = a->turn[t->order[t->begin[MGPU_COMP] + segment_of(a, t->place[i])->begin]];
    free(next);
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
    int *need = find_needs(p, t);
    cut_segments(phase, p, t, need, a->variants);
    make_list(phase, p, t, need);
    free(need);
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
        hear(e, &a->issued, finished(number));
        for (int lane = 0; lane < MGPU_LANES; lane++) {
            Lane *l = lane_of(e, a->device, lane);
            if (l->idle || !is_ahead(lane))
                continue;
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

int64_t mgpu_ahead_issued(const Engine *e, int device)
{
    return atomic_load(&e->ahead_of[device]->issued.value);
}

bool mgpu_ahead_has_issued(const Engine *e, int device, const mgpu_phase *phase, int64_t number, int op, bool near)
{
    return mgpu_ahead_issued(e, device) + near > (number << PLACE_BITS) + e->ahead_of[device]->phases[phase - e->plan->phases].turn[op];
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
    a->at = lane_of(e, device, MGPU_COMP);
    atomic_init(&a->issued.value, finished(0));
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
    for (int d = 0; d < e->plan->devices; d++) {
        mgpu_start_thread(&e->ahead_of[d]->watcher, watch, e->ahead_of[d]);
        mgpu_start_thread(&e->ahead_of[d]->issuer, mgpu_issue, e->ahead_of[d]);
    }
}

void mgpu_ahead_close(Engine *e)
{
    for (int d = 0; d < e->plan->devices; d++) {
        Ahead *a = e->ahead_of[d];
        pthread_join(a->issuer, NULL);
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
            free(phase->segment);
            free(phase->list);
            free(phase->turn);
            free(phase->mark);
            free(phase->inside);
            free(phase->begun);
        }
        free(a->phases);
        free(a);
    }
    free(e->ahead_of);
}
