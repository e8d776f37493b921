/* order.c: the order that the lanes and waits of one step imply.
 *
 * In: one phase on one device. Out: a StepGraph: the operations as Events in a possible order of execution, each with the last
 * event of every lane that completes before it begins. A lane runs its operations one after the other, so one number per lane is
 * enough (a vector clock). Waits for earlier steps are kept as they are: what they order depends on the phase of those steps, and
 * is computed by the walk (verify/memory.c).
 *
 * A region begins when all waits of its calls have completed, and its calls complete together. verify/region.c proves that its
 * calls need no order among themselves, so here they run one after the other.
 *
 * Irrelevant operations may be left out of the graph; the order that they imply among the others is kept. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <string.h>

int64_t slot_stride(const Buffer *b) { return (b->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

int slot_of(const Buffer *b, int64_t step, int slot)
{
    int64_t s = (step + slot) % b->slots;
    return (int)(s < 0 ? s + b->slots : s);
}

int slot_back(const Buffer *b, int slot)
{
    int s = slot_of(b, 0, slot);
    return s == 0 ? 0 : s - b->slots;
}

bool buffer_is_persistent(const Buffer *b)
{
    return b->kind != BUFFER_TEMPORARY && b->kind != BUFFER_BUCKET && b->kind != BUFFER_WORKSPACE && b->kind != BUFFER_LOCAL;
}

bool buffer_is_slotted_kind(const Buffer *b) { return buffer_is_persistent(b) && b->kind != BUFFER_VARIABLE; }

/* ---- an order of execution */

/* Collectives may be in two lanes. One order of all of them is the same on all devices (verify.c), and each device can begin them
 * in this order: no wait of a collective depends on a later collective. So no two devices wait for each other. */
typedef struct LaneOrder { /* the operations of each lane, in order */
    int *ops[LANES], count[LANES];
    int *place;     /* by operation: place in its lane */
    int *end;       /* by operation: place after its region, or after itself if it is in none */
    int *transfers; /* of all lanes */
} LaneOrder;

typedef struct Head { /* of a lane */
    int place;        /* its next operation, or the first of its next region */
    /* in that region: the place of the operation whose wait number `wait` does not hold yet; wait = wait_count: it waits for its
     * turn among the transfers */
    int waiting, wait;
} Head;

static LaneOrder lanes_of(const DeviceSchedule *d)
{
    LaneOrder l = {
        .place = NEW_ARRAY(int, d->op_count), .end = NEW_ARRAY(int, d->op_count), .transfers = NEW_ARRAY(int, d->op_count)};
    for (int o = 0, transfers = 0; o < d->op_count; o++) {
        l.count[d->ops[o].lane]++;
        if (d->ops[o].verb == VERB_TRANSFER)
            l.transfers[transfers++] = o;
    }
    for (int lane = 0; lane < LANES; lane++) {
        l.ops[lane] = NEW_ARRAY(int, l.count[lane]);
        l.count[lane] = 0;
    }
    for (int o = 0; o < d->op_count; o++) {
        Lane lane = d->ops[o].lane;
        l.place[o] = l.count[lane];
        l.ops[lane][l.count[lane]++] = o;
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int i = l.count[lane] - 1; i >= 0; i--) {
            int o = l.ops[lane][i], next = i + 1 < l.count[lane] ? l.ops[lane][i + 1] : -1;
            l.end[o] = next >= 0 && same_region(&d->ops[o], &d->ops[next]) ? l.end[next] : i + 1;
        }
    return l;
}

/* Returns the operation that the head of a lane waits for: the target of a wait, or the transfer that precedes its own. */
static int blocker_of(const DeviceSchedule *d, const LaneOrder *lanes, const Head *h, int lane, int turn)
{
    const ScheduledOp *op = &d->ops[lanes->ops[lane][h->waiting]];
    return h->wait < op->wait_count ? op->waits[h->wait].op : lanes->transfers[turn];
}

/* All lanes are blocked: follows what each waiting operation waits for until one repeats. */
static const char *cycle_message(const PhaseSchedule *p, int device, const LaneOrder *lanes, const Head *heads, int turn)
{
    const DeviceSchedule *d = &p->devices[device];
    bool seen[LANES] = {false};
    int lane = 0;
    while (heads[lane].place == lanes->count[lane])
        lane++;
    while (!seen[lane]) {
        seen[lane] = true;
        lane = (int)d->ops[blocker_of(d, lanes, &heads[lane], lane, turn)].lane;
    }
    Text t = {0};
    int first = lane;
    text_add(&t, "phase %s: a cycle:", p->name);
    look_at(d->ops[lanes->ops[lane][heads[lane].waiting]].text_line);
    do {
        const ScheduledOp *op = &d->ops[lanes->ops[lane][heads[lane].waiting]];
        const ScheduledOp *other = &d->ops[blocker_of(d, lanes, &heads[lane], lane, turn)];
        int next = (int)other->lane;
        const ScheduledOp *stuck = &d->ops[lanes->ops[next][heads[next].waiting]];
        text_add(&t, heads[lane].wait < op->wait_count ? " d%d.%s waits for d%d.%s" : " d%d.%s comes after d%d.%s on all devices",
                 device, op->id, device, other->id);
        if (other != stuck && same_region(other, stuck))
            text_add(&t, ", which is in one region with d%d.%s", device, stuck->id);
        else if (other != stuck)
            text_add(&t, ", which comes after d%d.%s in lane %s", device, stuck->id, LANE_NAME[next]);
        lane = next;
        text_add(&t, lane == first ? "" : ";");
    } while (lane != first);
    return text_take(&t);
}

/* Returns true if all waits of the region, or of the single operation, at the head of a lane hold. */
static bool may_begin(const DeviceSchedule *d, const LaneOrder *lanes, Head *heads, int lane, int turn)
{
    Head *h = &heads[lane];
    for (int end = lanes->end[lanes->ops[lane][h->place]]; h->waiting < end; h->waiting++, h->wait = 0) {
        const ScheduledOp *op = &d->ops[lanes->ops[lane][h->waiting]];
        for (; h->wait < op->wait_count; h->wait++) {
            Wait w = op->waits[h->wait];
            if (w.back == 0 && lanes->place[w.op] >= heads[d->ops[w.op].lane].place)
                return false;
        }
        if (op->verb == VERB_TRANSFER && op != &d->ops[lanes->transfers[turn]])
            return false;
    }
    return true;
}

int *order_operations(const PhaseSchedule *p, int device, const char **why)
{
    const DeviceSchedule *d = &p->devices[device];
    LaneOrder lanes = lanes_of(d);
    Head heads[LANES] = {{0, 0, 0}};
    int *order = NEW_ARRAY(int, d->op_count);
    for (int n = 0, turn = 0; n < d->op_count;) {
        int next = -1;
        for (int lane = 0; lane < LANES; lane++) {
            if (heads[lane].place == lanes.count[lane])
                continue;
            int o = lanes.ops[lane][heads[lane].place];
            if ((next < 0 || o < next) && may_begin(d, &lanes, heads, lane, turn))
                next = o;
        }
        if (next < 0) {
            *why = cycle_message(p, device, &lanes, heads, turn);
            return NULL;
        }
        Lane lane = d->ops[next].lane;
        turn += d->ops[next].verb == VERB_TRANSFER;
        for (int i = lanes.place[next]; i < lanes.end[next]; i++)
            order[n++] = lanes.ops[lane][i];
        heads[lane] = (Head){.place = lanes.end[next], .waiting = lanes.end[next]};
    }
    return order;
}

/* ---- the graph */

typedef struct OperationClock {
    int last[LANES];
} OperationClock;

static void join(OperationClock *a, const OperationClock *b)
{
    for (int lane = 0; lane < LANES; lane++)
        if (b->last[lane] > a->last[lane])
            a->last[lane] = b->last[lane];
}

static Event *add_event(StepGraph *g, int op, Lane lane, const OperationClock *before)
{
    Event *e = &g->events[g->event_count];
    *e = (Event){.op = op, .lane = lane, .position = g->length[lane]};
    memcpy(e->before, before->last, sizeof e->before);
    g->at[lane][g->length[lane]++] = g->event_count++;
    return e;
}

static void add_touches(StepGraph *g, const Access *accesses, int count, bool write, const bool *wanted)
{
    for (int i = 0; i < count; i++) {
        const Access *a = &accesses[i];
        if (a->begin == a->end || (wanted && !wanted[a->buffer]))
            continue;
        g->touches[g->touch_count++] =
            (Touch){.buffer = &g->device->buffers[a->buffer], .write = write, .slot = a->slot, .begin = a->begin, .end = a->end};
    }
}

static bool is_pending(const ScheduledOp *op)
{
    return (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->read_count > 0 && op->reads[0].slot < 0;
}

StepGraph *step_graph(const Schedule *s, int phase, int device, const int *order, const bool *kept, const bool *wanted)
{
    const DeviceSchedule *d = &s->phases[phase].devices[device];
    StepGraph *g = NEW(StepGraph);
    g->phase = phase;
    g->device = d;
    int ops = 0, waits = 0, touches = 0;
    for (int o = 0; o < d->op_count; o++)
        if (!kept || kept[o]) {
            ops++;
            waits += d->ops[o].wait_count;
            touches += d->ops[o].read_count + d->ops[o].write_count;
        }
    g->events = NEW_ARRAY(Event, ops + 2 * LANES);
    g->waits = NEW_ARRAY(BackWait, waits);
    g->touches = NEW_ARRAY(Touch, touches);
    for (int lane = 0; lane < LANES; lane++)
        g->at[lane] = NEW_ARRAY(int, ops + 2);

    /* what has completed when an operation has */
    OperationClock lane_now[LANES], *done = NEW_ARRAY(OperationClock, d->op_count);
    /* by operation: first and last event of its region */
    int *begins = NEW_ARRAY(int, d->op_count), *ends = NEW_ARRAY(int, d->op_count);
    for (int lane = 0; lane < LANES; lane++) {
        OperationClock none;
        for (int other = 0; other < LANES; other++)
            none.last[other] = -1;
        add_event(g, -1, (Lane)lane, &none);
        lane_now[lane] = none;
        lane_now[lane].last[lane] = 0;
    }
    for (int n = 0, end; n < d->op_count; n = end) { /* region by region: each begins and ends as one */
        Lane lane = d->ops[order[n]].lane;
        OperationClock before = lane_now[lane];
        int first = -1, last = -1; /* events */
        for (end = n; end == n || (end < d->op_count && same_region(&d->ops[order[n]], &d->ops[order[end]])); end++) {
            const ScheduledOp *op = &d->ops[order[end]];
            for (int i = 0; i < op->wait_count; i++)
                if (op->waits[i].back == 0)
                    join(&before, &done[op->waits[i].op]);
        }
        for (int i = n; i < end; i++) {
            const ScheduledOp *op = &d->ops[order[i]];
            if (kept && !kept[order[i]])
                continue;
            Event *e = add_event(g, order[i], lane, &before);
            last = g->event_count - 1;
            first = first < 0 ? last : first;
            e->pending = is_pending(op);
            e->first_touch = g->touch_count;
            add_touches(g, op->reads, op->read_count, false, wanted);
            add_touches(g, op->writes, op->write_count, true, wanted);
            e->touch_count = g->touch_count - e->first_touch;
            before.last[lane] = e->position;
        }
        for (int i = n; i < end; i++) {
            done[order[i]] = before;
            begins[order[i]] = first;
            ends[order[i]] = last;
        }
        lane_now[lane] = before;
    }
    for (int lane = 0; lane < LANES; lane++)
        add_event(g, -1, (Lane)lane, &lane_now[lane]);

    for (int n = 0, end; n < d->op_count; n = end) { /* the first event of a region waits for all that its calls wait for */
        int first = begins[order[n]];
        for (end = n + 1; first >= 0 && end < d->op_count && begins[order[end]] == first;)
            end++;
        if (first < 0)
            continue;
        g->events[first].first_wait = g->wait_count;
        for (int i = n; i < end; i++) {
            const ScheduledOp *op = &d->ops[order[i]];
            for (int w = 0; w < op->wait_count; w++)
                if (op->waits[w].back > 0 && op->waits[w].back <= BACK_LIMIT)
                    g->waits[g->wait_count++] = (BackWait){ends[op->waits[w].op], op->waits[w].back};
        }
        g->events[first].wait_count = g->wait_count - g->events[first].first_wait;
    }
    return g;
}
