/* asynchronous.c: what the engine does differently for asynchronous devices. In: the list that the issuing thread goes through in
 * each step (issue_order.c, issue.c); out: events ("marks"), which show what has completed.
 *
 * An event is recorded after each operation x that another lane waits for. Other streams wait for the event; the thread of the
 * lane host waits until x is issued, then for the event. A step has completed when the events at its end have; one thread for
 * each device waits for these.
 *
 * A segment of calls (issue_order.c) is captured as a graph once for each combination of slots, and launched. Its events are of
 * two kinds. Events that lanes of the device wait for in the same step (all-reduces that begin during the backward pass) are
 * inside the graph and captured with it, so there is one for each combination. For all other waits, the event at the end of the
 * segment is used, one for each step in flight. All waits of a segment are before its first operation, so waiting for its end in
 * place of an operation inside cannot make a cycle.
 *
 * MGPU_GRAPHS=nccl captures runs: segments with NCCL's transfers between them (issue_order.c). All their events are inside the
 * graph. Those with one per step in flight belong to one combination each, because there are MGPU_RING combinations or a
 * multiple. Operations of a run that wait for each other use an event of their own.
 *
 * A driver may let a call that creates, loads or allocates something wait until all GPUs of the process with peer access are
 * idle. A GPU that is inside an NCCL transfer waits for its peers, so if such a call is made for a peer then, it never returns.
 * Therefore, if the plan has several devices, each one captures its graphs of all phases and combinations before any of them
 * starts a step, and no such call is made later. All processes do so, since all members must capture a transfer in one order.
 *
 * A phase is captured in this way if NCCL makes all transfers of its lane comm, and all devices have the same transfers in the
 * same runs: all members of a transfer must agree on whether it is captured, and in which graph.
 *
 * If the driver supports it, the stream also writes the step's number to host memory before each event that is not inside a
 * segment: the step's number. Events cannot be queried once an operation has failed; stream_progress.c reads the numbers. */
#include "runtime/base/base.h"
#include "runtime/engine/asynchronous.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <string.h>

static bool has_stream(int lane) { return lane != MGPU_HOST; }

/* ---- events */
static int create_events(AsyncDevice *a, int count)
{
    a->event_count += count;
    return a->event_count - count;
}

static void create_event_of(AsyncDevice *a, AsyncPhase *phase, const mgpu_device_phase *p, const LaneTable *t,
                            const mgpu_op *waiter, const mgpu_wait *wait)
{
    const mgpu_op *op = &p->ops[wait->op];
    if (op->lane == waiter->lane || !has_stream(op->lane))
        return;
    bool call = op->lane == MGPU_COMP;
    if (mgpu_is_in_run(&phase->order, p, (int)(waiter - p->ops), wait)) {
        if (phase->run_event[wait->op] < 0)
            phase->run_event[wait->op] = create_events(a, 1);
        return;
    }
    if (call && wait->back == 0 && has_stream(waiter->lane)) {
        if (phase->segment_event[wait->op] < 0)
            phase->segment_event[wait->op] = create_events(a, a->variants);
        return;
    }
    int *event = call ? &phase->end_event[phase->order.segment[t->place[wait->op]]] : &phase->event[wait->op];
    if (*event < 0)
        *event = create_events(a, MGPU_RING);
}

static void make_phase(AsyncDevice *a, int number, const bool *kept)
{
    Engine *e = a->engine;
    const mgpu_device_phase *p = &e->plan->phases[number].devices[a->device];
    const LaneTable *t = &e->phases[number].device[a->device];
    AsyncPhase *phase = &a->phases[number];
    mgpu_make_issue_order(&phase->order, p, t, kept[number]);
    phase->graph = mgpu_allocate((size_t)phase->order.run_count * (size_t)a->variants, sizeof *phase->graph);
    phase->end_event = mgpu_allocate((size_t)phase->order.count, sizeof(int));
    for (int i = 0; i < phase->order.count; i++)
        phase->end_event[i] = -1;
    phase->event = mgpu_allocate((size_t)p->op_count, sizeof(int));
    phase->segment_event = mgpu_allocate((size_t)p->op_count, sizeof(int));
    phase->run_event = mgpu_allocate((size_t)p->op_count, sizeof(int));
    phase->begin_event = mgpu_allocate((size_t)p->op_count, sizeof(int));
    for (int i = 0; i < p->op_count; i++) {
        phase->event[i] = phase->segment_event[i] = phase->run_event[i] = -1;
        phase->begin_event[i] = p->ops[i].verb == MGPU_TRANSFER ? create_events(a, MGPU_RING) : -1;
    }
    for (int i = 0; i < p->op_count; i++)
        for (int w = 0; w < p->ops[i].wait_count; w++)
            create_event_of(a, phase, p, t, &p->ops[i], &p->ops[i].waits[w]);
    for (int i = 0; i < p->op_count; i++) {
        if (p->ops[i].lane == MGPU_COMP)
            phase->event[i] = phase->end_event[phase->order.segment[t->place[i]]];
        if (p->ops[i].verb == MGPU_TRANSFER && phase->event[i] < 0) /* No operation waits for it, but hang.c asks for it. */
            phase->event[i] = create_events(a, MGPU_RING);
    }
}

/* ---- completion */
static _Noreturn void say_failure(const AsyncDevice *a, int64_t number, const char *what)
{
    char place[400];
    mgpu_place_of(lane_of(a->engine, a->device, MGPU_COMP), number, phase_of(a->engine, number), NULL, place, sizeof place);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: %s", place, what);
}

static void *watch(void *argument)
{
    AsyncDevice *a = argument;
    Engine *e = a->engine;
    char name[16], text[400];
    snprintf(name, sizeof name, "d%d.done", a->device % 100000);
    pthread_setname_np(pthread_self(), name);
    for (int64_t number = 1;; number++) {
        wait_for_counter(e, &e->posted, number);
        if (atomic_load(&e->closing))
            return NULL;
        int busy = 0;
        wait_for_counter(e, &a->issued, finished(number));
        for (int lane = 0; lane < MGPU_LANES; lane++) {
            LaneThread *l = lane_of(e, a->device, lane);
            if (l->idle || !has_stream(lane))
                continue;
            const char *error =
                e->kind->async->wait_on_host(e->devices[a->device], a->step_event[lane] + (int)(number % MGPU_RING), text);
            if (error)
                say_failure(a, number, error);
            busy += mgpu_lane_synchronizes(lane);
        }
        atomic_store(&work_of(e, number)->finished_at, mgpu_seconds());
        mgpu_timed_read(a, number);
        atomic_fetch_sub(&work_of(e, number)->unfinished, busy);
        publish(e, &a->done, number);
    }
}

void mgpu_async_wait_done(const Engine *e, int64_t number)
{
    for (int d = e->first; d < e->end; d++)
        wait_for_counter(e, &e->async_device[d]->done, number);
}

/* ---- queries of other files */
int64_t mgpu_async_steps_done(const Engine *e, int device) { return atomic_load(&e->async_device[device]->done.value); }

int mgpu_async_step_event(const Engine *e, int device, int lane, int64_t number)
{
    return e->async_device[device]->step_event[lane] + (int)(number % MGPU_RING);
}

/* Events inside segments are excluded, because later steps record them again while earlier steps are in flight. */
int mgpu_async_op_event(const Engine *e, int device, const mgpu_phase *phase, int64_t number, int op, bool before)
{
    AsyncPhase *p = &e->async_device[device]->phases[phase - e->plan->phases];
    int place = lanes_of(e, phase, device)->place[op], event = before ? p->begin_event[op] : p->event[op];
    bool amid = phase->devices[device].ops[op].lane == MGPU_COMP && place < mgpu_segment_of(&p->order, place)->end - 1;
    return event < 0 || amid ? -1 : event + (int)(number % MGPU_RING);
}

int64_t mgpu_async_issued(const Engine *e, int device) { return atomic_load(&e->async_device[device]->issued.value); }

bool mgpu_async_has_issued(const Engine *e, int device, const mgpu_phase *phase, int64_t number, int op, bool near)
{
    return mgpu_async_issued(e, device) + near >
           (number << PLACE_BITS) + e->async_device[device]->phases[phase - e->plan->phases].order.list_place[op];
}

const Segment *mgpu_async_segment(const Engine *e, int device, const mgpu_phase *phase, int place)
{
    return mgpu_segment_of(&e->async_device[device]->phases[phase - e->plan->phases].order, place);
}

/* ---- opening */
static Graphs read_graphs(void)
{
    static const char *const NAME[] = {"on", "off", "wait", "nccl"};
    const char *value = getenv("MGPU_GRAPHS");
    for (int i = 0; value && *value && i < MGPU_COUNT(NAME); i++)
        if (strcmp(value, NAME[i]) == 0)
            return (Graphs)i;
    if (value && *value)
        mgpu_fail(MGPU_BAD_USAGE, "MGPU_GRAPHS is on, nccl, off or wait, not '%s'", value);
    return GRAPHS_ON;
}

static int common_multiple(int a, int b)
{
    int multiple = a;
    while (multiple % b)
        multiple += a;
    return multiple;
}

/* ---- transfers captured in graphs */
/* Returns the number of transfers of the lane comm, or 0 if some of them cannot be captured. */
static int count_captured(const Engine *e, const mgpu_phase *p)
{
    const Collective *c = e->collective[MGPU_COMM];
    int count = 0;
    for (int i = 0; i < p->collective_count; i++) {
        if (p->collectives[i].lane != MGPU_COMM)
            continue;
        if (!c->may_be_captured || !c->may_be_captured(c, &p->collectives[i]))
            return 0;
        count++;
    }
    return count;
}

/* Compares the devices of all processes. */
static bool devices_agree(const Engine *e, int number)
{
    const mgpu_phase *p = &e->plan->phases[number];
    IssueOrder order[2] = {0};
    bool agree = true;
    mgpu_make_issue_order(&order[0], &p->devices[0], &e->phases[number].device[0], true);
    for (int d = 1; d < e->plan->devices && agree; d++) {
        order[1] = (IssueOrder){0};
        mgpu_make_issue_order(&order[1], &p->devices[d], &e->phases[number].device[d], true);
        agree = mgpu_runs_agree(&order[0], &p->devices[0], &order[1], &p->devices[d]);
        mgpu_free_issue_order(&order[1]);
    }
    mgpu_free_issue_order(&order[0]);
    return agree;
}

/* Returns [phase]: its transfers are captured. All processes must have chosen that. */
static bool *find_captured(Engine *e, Graphs graphs)
{
    bool *kept = mgpu_allocate((size_t)e->plan->phase_count, sizeof *kept), each[mgpu_ranks(e->processes)], all = true;
    each[mgpu_rank(e->processes)] = graphs == GRAPHS_NCCL;
    if (e->processes)
        mgpu_gather_each(e->processes, each, sizeof *each);
    for (int r = 0; r < mgpu_ranks(e->processes); r++)
        all = all && each[r];
    for (int k = 0; k < e->plan->phase_count && all; k++) {
        int count = count_captured(e, &e->plan->phases[k]);
        kept[k] = count && devices_agree(e, k);
        e->captured_transfers += kept[k] ? count : 0;
    }
    return kept;
}

static AsyncDevice *open_device(Engine *e, int device, Graphs graphs, const bool *kept)
{
    AsyncDevice *a = mgpu_allocate_aligned(_Alignof(AsyncDevice), sizeof *a);
    a->engine = e;
    a->device = device;
    a->graphs = graphs;
    a->variants = e->captured_transfers ? MGPU_RING : 1;
    a->at = lane_of(e, device, MGPU_COMP);
    atomic_init(&a->issued.value, finished(0));
    for (int k = 0; k < e->plan->phase_count; k++)
        for (int b = 0; b < e->plan->phases[k].devices[device].buffer_count; b++)
            a->variants = common_multiple(a->variants, e->plan->phases[k].devices[device].buffers[b].slots);
    for (int lane = 0; lane < MGPU_LANES; lane++)
        a->step_event[lane] = has_stream(lane) ? create_events(a, MGPU_RING) : -1;
    a->phases = mgpu_allocate((size_t)e->plan->phase_count, sizeof *a->phases);
    for (int k = 0; k < e->plan->phase_count; k++)
        make_phase(a, k, kept);
    e->kind->async->create_events(e->devices[device], a->event_count);
    mgpu_timed_open(a);
    return a;
}

void mgpu_async_open(Engine *e)
{
    Graphs graphs = read_graphs();
    bool *kept = find_captured(e, graphs);
    e->async_device = mgpu_allocate((size_t)e->plan->devices, sizeof *e->async_device);
    for (int d = e->first; d < e->end; d++)
        e->async_device[d] = open_device(e, d, graphs, kept);
    free(kept);
    for (int d = e->first; d < e->end; d++) {
        mgpu_start_thread(&e->async_device[d]->watcher, watch, e->async_device[d]);
        mgpu_start_thread(&e->async_device[d]->issuer, mgpu_issue, e->async_device[d]);
    }
    for (int d = e->first; d < e->end; d++)
        wait_for_counter(e, &e->async_device[d]->ready, 1);
}

GraphsMade mgpu_async_graphs(const Engine *e)
{
    GraphsMade all = {0};
    for (int d = e->first; d < e->end; d++) {
        const GraphsMade *own = &e->async_device[d]->made;
        all.count += own->count;
        all.bytes = own->bytes > all.bytes ? own->bytes : all.bytes;
        all.seconds = own->seconds > all.seconds ? own->seconds : all.seconds;
    }
    return all;
}

void mgpu_async_close(Engine *e)
{
    for (int d = e->first; d < e->end; d++) {
        AsyncDevice *a = e->async_device[d];
        pthread_join(a->issuer, NULL);
        pthread_join(a->watcher, NULL);
        for (int k = 0; k < e->plan->phase_count; k++) {
            AsyncPhase *phase = &a->phases[k];
            for (int i = 0; i < phase->order.run_count * a->variants; i++)
                if (phase->graph[i])
                    e->kind->async->free_segment(e->devices[d], phase->graph[i]);
            mgpu_free_issue_order(&phase->order);
            free(phase->graph);
            free(phase->end_event);
            free(phase->event);
            free(phase->segment_event);
            free(phase->run_event);
            free(phase->begin_event);
        }
        free(a->phases);
        free(a);
    }
    free(e->async_device);
}
