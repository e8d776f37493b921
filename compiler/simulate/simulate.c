/* simulate.c: a phase of a schedule on a machine: begin and end of every operation, step after step.
 *
 * Events are in a queue: the fixed time of an operation (or the latency of a transfer) ends, or a flow does. Then the device's
 * lanes begin what may begin now. Simultaneous events are handled in the order in which they were queued, so the result is the
 * same everywhere. Time grows as operations x devices x steps x log(lanes). */
#include "compiler/simulate/simulate.h"
#include "compiler/plan/durations.h"
#include "runtime/abi/mgpu.h"

#include <math.h>
#include <string.h>

enum { MOST_STEPS = 120, LEAST_STEPS = 7, LONGEST_CYCLE = 16 };
static const double SAME = 1e-9; /* relative difference up to which times are equal */

typedef struct Activity {      /* of an operation or a collective: a fixed time, then a flow */
    double fixed_us, alone_us; /* alone_us 0: no flow */
    Load *loads;
    int load_count;
    double taken; /* of a collective: fraction of its members' SMs that it occupies */
    bool spins;   /* of a collective: a member occupies the SMs from its arrival on */
} Activity;

typedef struct LaneState {
    int *ops;
    int count;      /* of the device, in order */
    int at, step;   /* the next operation and its step */
    bool busy;      /* an operation runs, or waits for other members */
    double free_us; /* free since then */
} LaneState;

typedef struct DeviceState {
    Activity *activities; /* by op */
    int *done, *place;    /* by op: number of steps in which it has completed; its index in its lane */
    LaneState lanes[LANES];
    double launch_us; /* time of a call in which it needs no SM */
    double taken;     /* fraction of its SMs that transfers occupy */
    int call;         /* the running call, or -1; the time that is left of it, with all SMs, at `since_us` */
    double left_us, since_us;
    int64_t moment; /* number of the event at which the call ends; events with earlier numbers are void */
} DeviceState;

typedef struct Moment {
    double us;
    int64_t number;
    int owner;
} Moment;

typedef struct SimulationRun {
    const SimulationInput *in;
    Fold fold;
    const PhaseSchedule *phase; /* of the fold; all devices here are those of the fold */
    Members members;
    int device_count, *first; /* owner of a device's op 0; owners of collectives follow those of all devices */
    DeviceState *devices;
    Activity *collectives;
    double *between; /* by collective: fraction of its time that is between nodes */
    double core_us;  /* core time of a node per step for messages that overlap computing */
    int *arrived, *member_count;
    Flows *flows;
    Moment *queue;
    int queue_count, queue_capacity;
    int64_t number;
    double now_us;
    Records records;
    int works, *over;             /* operations of a step, of all devices; by step: those that have completed */
    double *step_end_us, *lag_us; /* lag: sum over operations of the time from their end to the end of the step */
    int steps;                    /* completed steps */
    int cycle;                    /* number of steps after which all repeats; 0: unknown */
} SimulationRun;

/* ---- the queue: a heap */
static bool sooner(const Moment *a, const Moment *b) { return a->us < b->us || (a->us == b->us && a->number < b->number); }

static int64_t push(SimulationRun *r, double us, int owner)
{
    if (r->queue_count == r->queue_capacity) {
        int capacity = 2 * r->queue_capacity + 64;
        r->queue = grow(r->queue, sizeof *r->queue * (size_t)r->queue_capacity, sizeof *r->queue * (size_t)capacity);
        r->queue_capacity = capacity;
    }
    Moment m = {us, r->number++, owner};
    int i = r->queue_count++;
    for (; i > 0 && sooner(&m, &r->queue[(i - 1) / 2]); i = (i - 1) / 2)
        r->queue[i] = r->queue[(i - 1) / 2];
    r->queue[i] = m;
    return m.number;
}

static Moment pop(SimulationRun *r)
{
    Moment first = r->queue[0];
    int i = 0;
    Moment last = r->queue[--r->queue_count];
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < r->queue_count && sooner(&r->queue[child + 1], &r->queue[child]))
            child++;
        if (child >= r->queue_count || !sooner(&r->queue[child], &last))
            break;
        r->queue[i] = r->queue[child];
        i = child;
    }
    r->queue[i] = last;
    return first;
}

/* ---- what activities need. Resources of a node: links, by direction; then these of the host */
enum { HOST_MEMORY, HOST_CORES, HOST_DISK, HOST_RESOURCES };

static int node_resources(const Machine *m) { return 2 * m->link_count + HOST_RESOURCES; }
static int resource(const SimulationRun *r, int device, int which)
{
    return device / r->fold.each * node_resources(r->in->machine) + which;
}
static int host_resource(const SimulationRun *r, int device, int which)
{
    return resource(r, device, 2 * r->in->machine->link_count + which);
}

static void add_load(Activity *a, int number, double amount, double rate)
{
    if (amount <= 0 || rate <= 0)
        return;
    APPEND(a->loads, a->load_count, ((Load){number, amount}));
    a->alone_us = amount / rate > a->alone_us ? amount / rate : a->alone_us;
}

/* Makes the resources of each node. */
static Flows *resources_of(const Machine *m, int nodes)
{
    int links = 2 * m->link_count, each = node_resources(m);
    double *rate = NEW_ARRAY(double, nodes *each);
    for (int n = 0; n < nodes; n++) {
        double *own = rate + n * each;
        for (int i = 0; i < links; i++)
            own[i] = m->links[i / 2].rate[i % 2].value / 1e6;
        own[links + HOST_MEMORY] = m->host.bandwidth.value / 1e6;
        own[links + HOST_CORES] = m->host.cores.value;
        own[links + HOST_DISK] = m->host.disk.value / 1e6;
    }
    return flows_new(rate, nodes * each);
}

/* Returns the samples that a READ fills: of the whole batch, if the device has it whole. */
static double samples_read(const DeviceSchedule *d, const ScheduledOp *op)
{
    for (int i = 0; i < op->write_count; i++)
        for (int k = 0; k < d->buffer_count; k++) {
            const Buffer *to = &d->buffers[k], *from = &d->buffers[op->writes[i].buffer];
            if (to->kind == BUFFER_INPUT && to->index == from->index && to->each > 0 && to->bytes > d->capacity * to->each) {
                int64_t samples = to->bytes / to->each;
                return (double)samples;
            }
        }
    return (double)d->share;
}

static Activity read_of(const SimulationRun *r, int device, const ScheduledOp *op)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    Activity a = {0};
    int host = host_resource(r, device, 0);
    const double *rate = &r->flows->rate[host];
    double samples = samples_read(d, op);
    add_load(&a, host + HOST_CORES, samples * r->in->decode_us, rate[HOST_CORES]);
    add_load(&a, host + HOST_DISK, samples * r->in->disk_bytes, rate[HOST_DISK]);
    if (r->in->processor != PROCESSOR_HOST) /* for host devices, the schedule's times include their part of the memory's rate */
        add_load(&a, host + HOST_MEMORY, 2 * accessed_bytes(op->writes, op->write_count), rate[HOST_MEMORY]);
    if (a.load_count)
        a.alone_us = op->time_us > a.alone_us ? op->time_us : a.alone_us;
    else
        a.fixed_us = op->time_us;
    return a;
}

static Activity copy_of(const SimulationRun *r, const ScheduledOp *op, int device)
{
    const Machine *m = r->in->machine;
    int place = device % r->fold.each, gpu = place < m->device_count ? place : m->device_count - 1,
        memory = host_resource(r, device, HOST_MEMORY);
    bool up = op->verb == VERB_UPLOAD;
    Route way;
    if (r->in->processor == PROCESSOR_HOST || !machine_route(m, up ? machine_host(m) : gpu, up ? gpu : machine_host(m), &way))
        return (Activity){.fixed_us = op->time_us};
    Activity a = {.fixed_us = way.latency_us};
    double bytes = up ? accessed_bytes(op->writes, op->write_count) : accessed_bytes(op->reads, op->read_count);
    for (int k = 0; k < way.count; k++) {
        int link = resource(r, device, 2 * way.link[k] + way.back[k]);
        add_load(&a, link, bytes, r->flows->rate[link]);
    }
    add_load(&a, memory, bytes, r->flows->rate[memory]);
    return a;
}

/* The first device of a process copies a report out, in the lane that reads, and the other devices of the machine do not. If they
 * share the cores that decode, or the disk, these are busy meanwhile: the others get ahead until they wait for their slots, and
 * no time is lost. */
static Activity report_of(const SimulationRun *r, const ScheduledOp *op, int device)
{
    Activity a = copy_of(r, op, device);
    if (r->fold.each > 1 && (r->in->decode_us > 0 || r->in->disk_bytes > 0))
        a.fixed_us = 0;
    return a;
}

/* *between: fraction of its time that is between nodes */
static Activity collective_of(SimulationRun *r, const CollectiveRecord *c, double *between)
{
    Collect what = collect_of(c->participants.transfer);
    int each = node_resources(r->in->machine);
    double bytes = (double)(c->count * dtype_bytes(c->dtype)), *of_link = NEW_ARRAY(double, each);
    Method method;
    unsigned methods = c->implementation == MGPU_IMPLEMENTATION_AUTO && c->lane == LANE_SYNC
                           ? methods_of_small_transfers(&r->members)
                           : methods_of_implementation(&r->members, c->implementation);
    Cost cost = cost_cheapest(&r->members, methods ? methods : ~0u, what, bytes, &method);
    int way = c->implementation == MGPU_IMPLEMENTATION_AUTO ? implementation_of_method(&r->members, method) : c->implementation;
    Activity a = {.fixed_us = cost.us, .spins = way == MGPU_IMPLEMENTATION_NCCL};
    a.taken = r->in->measured || way == MGPU_IMPLEMENTATION_COPY ? 0 : cost.taken;
    *between = cost.us > 0 ? cost.between_us / cost.us : 0;
    if (c->lane == LANE_COMM)
        r->core_us += collective_core_us(&r->members, what, method, bytes);
    double latency = cost_collective(&r->members, what, method, 0).us, alone = a.fixed_us - latency;
    of_link[host_resource(r, 0, HOST_MEMORY)] = collective_bytes(&r->members, what, method, bytes, of_link);
    for (int i = 0; i < r->flows->rate_count; i++)
        add_load(&a, i, of_link[i % each], r->flows->rate[i]);
    if (a.load_count && alone > 0) {
        a.fixed_us = latency;
        a.alone_us = alone > a.alone_us ? alone : a.alone_us;
    } else {
        a.load_count = 0;
        a.alone_us = 0;
    }
    return a;
}

static Activity activity_of(const SimulationRun *r, int device, const ScheduledOp *op)
{
    switch (op->verb) {
    case VERB_CALL: return (Activity){.fixed_us = op->time_us * (r->in->compute > 0 ? r->in->compute : 1)};
    case VERB_READ: return read_of(r, device, op);
    case VERB_REPORT: return report_of(r, op, device);
    case VERB_UPLOAD:
    case VERB_FETCH: return copy_of(r, op, device);
    case VERB_TRANSFER: /* as part of the collective */
    case VERBS: break;
    }
    return (Activity){0};
}

/* ---- records */
static Record *record_in(const SimulationRun *r, int step, int device, int op)
{
    return &r->records.of[step % KEPT_STEPS][device][op];
}

/* Returns true for the last op of a region on comp. */
static bool ends_region(const SimulationRun *r, int device, int op)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    const LaneState *l = &r->devices[device].lanes[LANE_COMP];
    int next = r->devices[device].place[op] + 1;
    return d->ops[op].region < 0 || next >= l->count || d->ops[l->ops[next]].region != d->ops[op].region;
}

static bool begins_region(const SimulationRun *r, int device, int op)
{
    int place = r->devices[device].place[op];
    return place == 0 || ends_region(r, device, r->devices[device].lanes[LANE_COMP].ops[place - 1]);
}

/* Returns the time at which others may see that the operation has completed. */
static double known_us(const SimulationRun *r, int device, int op, int step)
{
    const LaneState *l = &r->devices[device].lanes[LANE_COMP];
    if (r->phase->devices[device].ops[op].lane == LANE_COMP)
        while (!ends_region(r, device, op))
            op = l->ops[r->devices[device].place[op] + 1];
    const Record *x = record_in(r, step, device, op);
    return x->number == step ? x->end_us : 0;
}

/* ---- begin of operations; steps count from 1 */
/* Returns how much faster host devices synchronize if all of them wait, than if they compute. */
static double sooner_us(const SimulationRun *r)
{
    const Host *h = &r->in->machine->host;
    if (r->in->measured)
        return 0;
    for (int d = 0; d < r->device_count; d++)
        if (r->devices[d].lanes[LANE_COMP].busy)
            return 0;
    return r->in->processor == PROCESSOR_HOST && h->idle_synchronize_us.value > 0
               ? h->synchronize_us.value - h->idle_synchronize_us.value
               : 0;
}

static bool may_begin(const SimulationRun *r, int device, int op, int step)
{
    const ScheduledOp *o = &r->phase->devices[device].ops[op];
    for (int i = 0; i < o->wait_count; i++)
        if (r->devices[device].done[o->waits[i].op] < step - o->waits[i].back)
            return false;
    return true;
}

static bool region_may_begin(const SimulationRun *r, int device, int op, int step)
{
    const LaneState *l = &r->devices[device].lanes[LANE_COMP];
    for (int place = r->devices[device].place[op];; place++) {
        if (!may_begin(r, device, l->ops[place], step))
            return false;
        if (ends_region(r, device, l->ops[place]))
            return true;
    }
}

/* Finds the last operation that it waited for; the lane, if that became free later. */
static void find_cause(const SimulationRun *r, int device, int op, int step, double *latest, Record *x)
{
    const ScheduledOp *o = &r->phase->devices[device].ops[op];
    for (int i = 0; i < o->wait_count; i++) {
        int of = step - o->waits[i].back;
        double us = of > 0 && o->waits[i].back < KEPT_STEPS ? known_us(r, device, o->waits[i].op, of) : 0;
        if (us > *latest) {
            *latest = us;
            x->op = o->waits[i].op;
            x->step = of;
        }
    }
}

/* ---- SMs. A call that overlaps transfers has the remaining SMs, and takes longer, except for the time of its launch. */
static double speed_of(const DeviceState *s)
{
    const double MOST = .95;
    double all = s->activities[s->call].fixed_us, taken = fmin(s->taken, MOST);
    double work = all > s->launch_us ? 1 - s->launch_us / all : 0;
    return 1 / (1 + work * taken / (1 - taken));
}

static void go_on(SimulationRun *r, int device)
{
    DeviceState *s = &r->devices[device];
    s->since_us = r->now_us;
    s->moment = push(r, r->now_us + s->left_us / speed_of(s), r->first[device] + s->call);
}

/* share: fraction of the device's SMs; negative: they are released */
static void take_units(SimulationRun *r, int device, double share)
{
    DeviceState *s = &r->devices[device];
    if (share == 0) /* exactly 0: no transfer is known to occupy SMs */
        return;
    if (s->call >= 0)
        s->left_us = fmax(0, s->left_us - (r->now_us - s->since_us) * speed_of(s));
    s->taken = s->taken + share < SAME ? 0 : s->taken + share;
    if (s->call >= 0)
        go_on(r, device);
}

static void begin_op(SimulationRun *r, int device, LaneState *l, int op)
{
    const ScheduledOp *o = &r->phase->devices[device].ops[op];
    DeviceState *s = &r->devices[device];
    Record *x = record_in(r, l->step, device, op);
    double latest = l->free_us;
    *x = (Record){.arrived_us = r->now_us, .begin_us = r->now_us, .number = l->step, .op = -1};
    find_cause(r, device, op, l->step, &latest, x);
    for (int place = s->place[op]; o->lane == LANE_COMP && begins_region(r, device, op) && !ends_region(r, device, l->ops[place]);
         place++)
        find_cause(r, device, l->ops[place + 1], l->step, &latest, x);
    l->busy = true;
    if (o->verb == VERB_CALL) {
        s->call = op;
        s->left_us = s->activities[op].fixed_us;
        go_on(r, device);
        return;
    }
    if (o->verb != VERB_TRANSFER) {
        push(r, r->now_us + s->activities[op].fixed_us, r->first[device] + op);
        return;
    }
    const CollectiveRecord *c = &r->phase->collectives[o->target];
    const Activity *a = &r->collectives[o->target];
    take_units(r, device, a->spins ? a->taken : 0);
    if (++r->arrived[o->target] < r->member_count[o->target])
        return;
    r->arrived[o->target] = 0;
    for (int d = 0; d < r->device_count; d++)
        if (c->ops[d] >= 0) {
            record_in(r, l->step, d, c->ops[d])->begin_us = r->now_us;
            take_units(r, d, a->spins ? 0 : a->taken);
        }
    push(r, r->now_us + a->fixed_us - sooner_us(r), r->first[r->device_count] + o->target);
}

static void begin_what_may(SimulationRun *r, int device)
{
    for (int lane = 0; lane < LANES; lane++) {
        LaneState *l = &r->devices[device].lanes[lane];
        if (l->busy || !l->count || l->step > r->steps + MGPU_STEPS_IN_FLIGHT)
            continue;
        int op = l->ops[l->at];
        bool first = lane == LANE_COMP && begins_region(r, device, op);
        if (lane == LANE_COMP ? !first || region_may_begin(r, device, op, l->step) : may_begin(r, device, op, l->step))
            begin_op(r, device, l, op);
    }
}

/* ---- end of operations */
static bool are_alike(const SimulationRun *r, int a, int b)
{
    double last = r->step_end_us[a] - r->step_end_us[a - 1], before = r->step_end_us[b] - r->step_end_us[b - 1];
    return fabs(last - before) <= SAME * last && fabs(r->lag_us[a] - r->lag_us[b]) <= SAME * (r->lag_us[a] + last);
}

/* Finds the length of a cycle. Equal step times are not enough: a reader that gets ahead from step to step will have to wait for
 * a slot. If devices differ, several steps may make one cycle. */
static int find_cycle(const SimulationRun *r)
{
    for (int n = 1; n <= LONGEST_CYCLE && r->steps >= LEAST_STEPS && 3 * n < r->steps; n++) {
        int alike = 0;
        while (alike < 2 * n && are_alike(r, r->steps - alike, r->steps - alike - n))
            alike++;
        if (alike == 2 * n)
            return n;
    }
    return 0;
}

static void count_over(SimulationRun *r, int step)
{
    if (++r->over[step] < r->works)
        return;
    r->step_end_us[step] = r->now_us;
    for (int d = 0; d < r->device_count; d++)
        for (int i = 0; i < r->phase->devices[d].op_count; i++)
            r->lag_us[step] += r->now_us - record_in(r, step, d, i)->end_us;
    r->steps = step;
    r->cycle = find_cycle(r);
    for (int d = 0; d < r->device_count; d++)
        begin_what_may(r, d);
}

static void end_op(SimulationRun *r, int device, int op)
{
    DeviceState *s = &r->devices[device];
    Lane lane = r->phase->devices[device].ops[op].lane;
    LaneState *l = &s->lanes[lane];
    record_in(r, l->step, device, op)->end_us = r->now_us;
    if (lane != LANE_COMP)
        s->done[op] = l->step;
    else if (ends_region(r, device, op)) /* the whole region at once */
        for (int place = s->place[op]; place >= 0 && (place == s->place[op] || !ends_region(r, device, l->ops[place])); place--)
            s->done[l->ops[place]] = l->step;
    int step = l->step;
    s->call = s->call == op ? -1 : s->call;
    l->busy = false;
    l->free_us = r->now_us;
    if (++l->at == l->count) {
        l->at = 0;
        l->step++;
    }
    count_over(r, step);
}

static int device_of(const SimulationRun *r, int owner)
{
    int low = 0, high = r->device_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (r->first[middle + 1] <= owner)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Handles the end of the fixed time, or of the flow, of an op or a collective. */
static void end_owner(SimulationRun *r, int owner)
{
    if (owner >= r->first[r->device_count]) {
        const CollectiveRecord *c = &r->phase->collectives[owner - r->first[r->device_count]];
        for (int d = 0; d < r->device_count; d++)
            if (c->ops[d] >= 0) {
                take_units(r, d, -r->collectives[owner - r->first[r->device_count]].taken);
                end_op(r, d, c->ops[d]);
            }
        for (int d = 0; d < r->device_count; d++)
            begin_what_may(r, d);
        return;
    }
    int d = device_of(r, owner);
    end_op(r, d, owner - r->first[d]);
    begin_what_may(r, d);
}

static const Activity *activity_of_owner(const SimulationRun *r, int owner)
{
    if (owner >= r->first[r->device_count])
        return &r->collectives[owner - r->first[r->device_count]];
    int d = device_of(r, owner);
    return &r->devices[d].activities[owner - r->first[d]];
}

/* Returns true for the old end of a call whose duration has changed. */
static bool is_past(const SimulationRun *r, const Moment *m)
{
    if (m->owner >= r->first[r->device_count])
        return false;
    int d = device_of(r, m->owner), op = m->owner - r->first[d];
    return r->phase->devices[d].ops[op].verb == VERB_CALL && m->number != r->devices[d].moment;
}

static void after_fixed(SimulationRun *r, int owner)
{
    const Activity *a = activity_of_owner(r, owner);
    if (a->alone_us > 0)
        flows_start(r->flows, r->now_us, a->loads, a->load_count, a->alone_us, owner);
    else
        end_owner(r, owner);
}

static void run(SimulationRun *r)
{
    for (int d = 0; d < r->device_count; d++)
        begin_what_may(r, d);
    while (r->steps < MOST_STEPS && !r->cycle) {
        if (r->queue_count && r->queue[0].us <= r->now_us) {
            Moment m = pop(r);
            if (!is_past(r, &m))
                after_fixed(r, m.owner);
            continue;
        }
        double next = flows_next(r->flows), fixed = r->queue_count ? r->queue[0].us : INFINITY;
        if (isinf(next) && isinf(fixed))
            die("the simulation of phase %s makes no progress in step %d", r->phase->name, r->steps + 1);
        r->now_us = next < fixed ? next : fixed;
        for (int owner; next <= fixed && (owner = flows_end(r->flows, r->now_us)) >= 0;)
            end_owner(r, owner);
    }
}

/* ---- setup and results */
static void prepare_device(SimulationRun *r, int device)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    DeviceState *s = &r->devices[device];
    s->activities = NEW_ARRAY(Activity, d->op_count);
    s->done = NEW_ARRAY(int, d->op_count);
    s->place = NEW_ARRAY(int, d->op_count);
    for (int i = 0; i < d->op_count; i++) {
        LaneState *l = &s->lanes[d->ops[i].lane];
        s->activities[i] = activity_of(r, device, &d->ops[i]);
        s->place[i] = l->count;
        if (d->ops[i].lane == LANE_COMP && l->count == 0) /* the lanes synchronize at the start of a step */
            s->activities[i].fixed_us += member_device(&r->members, device).step_us.value;
        APPEND(l->ops, l->count, i);
    }
    r->works += d->op_count;
    for (int lane = 0; lane < LANES; lane++)
        s->lanes[lane].step = 1;
    s->launch_us = member_device(&r->members, device).launch_us.value;
    s->call = -1;
    for (int k = 0; k < KEPT_STEPS; k++)
        r->records.of[k][device] = NEW_ARRAY(Record, d->op_count);
    r->first[device + 1] = r->first[device] + d->op_count;
}

/* Host devices compute on all cores, of which messages between nodes take a part: lengthens their calls. */
static void slow_down_calls(SimulationRun *r, int device)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    double us = 0, lost_us = r->in->measured ? 0 : r->core_us / r->in->machine->host.cores.value;
    for (int i = 0; i < d->op_count; i++)
        us += d->ops[i].verb == VERB_CALL ? r->devices[device].activities[i].fixed_us : 0;
    for (int i = 0; i < d->op_count && us > 0; i++)
        if (d->ops[i].verb == VERB_CALL)
            r->devices[device].activities[i].fixed_us *= 1 + lost_us / us;
}

static SimulationRun *prepare(const SimulationInput *in, int phase)
{
    SimulationRun *r = NEW(SimulationRun);
    Fold fold = fold_phase(in->schedule, &in->schedule->phases[phase]);
    int devices = fold.nodes * fold.each;
    *r = (SimulationRun){
        .in = in, .fold = fold, .phase = fold.phase, .device_count = devices, .flows = resources_of(in->machine, fold.nodes)};
    r->members = members_of(in->machine, in->processor, in->schedule->nodes, in->schedule->devices);
    r->members.measured = in->measured;
    r->first = NEW_ARRAY(int, devices + 1);
    r->devices = NEW_ARRAY(DeviceState, devices);
    r->records.phase = r->phase;
    r->records.of = NEW_ARRAY(Record **, KEPT_STEPS);
    for (int k = 0; k < KEPT_STEPS; k++)
        r->records.of[k] = NEW_ARRAY(Record *, devices);
    for (int d = 0; d < devices; d++)
        prepare_device(r, d);
    int count = r->phase->collective_count;
    r->collectives = NEW_ARRAY(Activity, count);
    r->between = NEW_ARRAY(double, count);
    r->arrived = NEW_ARRAY(int, count);
    r->member_count = NEW_ARRAY(int, count);
    for (int c = 0; c < count; c++) {
        r->collectives[c] = collective_of(r, &r->phase->collectives[c], &r->between[c]);
        for (int d = 0; d < devices; d++)
            r->member_count[c] += r->phase->collectives[c].ops[d] >= 0;
    }
    for (int d = 0; d < devices; d++)
        slow_down_calls(r, d);
    r->over = NEW_ARRAY(int, MOST_STEPS + MGPU_STEPS_IN_FLIGHT + 1);
    r->step_end_us = NEW_ARRAY(double, MOST_STEPS + MGPU_STEPS_IN_FLIGHT + 1);
    r->lag_us = NEW_ARRAY(double, MOST_STEPS + MGPU_STEPS_IN_FLIGHT + 1);
    return r;
}

static void add_loads(const Activity *a, double *amounts)
{
    for (int k = 0; k < a->load_count; k++)
        amounts[a->loads[k].resource] += a->loads[k].amount;
}

/* Returns what a step needs of each resource. */
static double *amounts_of(const SimulationRun *r)
{
    double *amounts = NEW_ARRAY(double, r->flows->rate_count);
    for (int d = 0; d < r->device_count; d++)
        for (int i = 0; i < r->phase->devices[d].op_count; i++)
            add_loads(&r->devices[d].activities[i], amounts);
    for (int c = 0; c < r->phase->collective_count; c++)
        add_loads(&r->collectives[c], amounts);
    return amounts;
}

/* Returns the mean step time of the last cycle; if there is none, of all steps but the first third, or what the resources need,
 * if that is more. */
static double mean_step_us(const SimulationRun *r, const double *amounts)
{
    int from = r->cycle ? r->steps - r->cycle : r->steps / 3;
    double us = (r->step_end_us[r->steps] - r->step_end_us[from]) / (r->steps - from);
    for (int i = 0; i < r->flows->rate_count && !r->cycle; i++)
        if (r->flows->rate[i] > 0 && amounts[i] / r->flows->rate[i] > us)
            us = amounts[i] / r->flows->rate[i];
    return us;
}

static void take_ops(const SimulationRun *r, int device, int step, SimulatedDevice *d, Memory *kept)
{
    Memory *own = memory_use(kept);
    int count = r->phase->devices[device].op_count;
    d->ops = NEW_ARRAY(OpTime, count);
    d->waited_us = NEW_ARRAY(double, count);
    memory_use(own);
    for (int i = 0; i < count; i++) {
        const Record *x = record_in(r, step, device, i);
        d->ops[i] = (OpTime){x->begin_us - r->step_end_us[step - 1], x->end_us - r->step_end_us[step - 1]};
        double longer = x->end_us - x->begin_us - r->devices[device].activities[i].fixed_us;
        if (r->phase->devices[device].ops[i].verb == VERB_CALL && longer > SAME * x->end_us)
            d->longer_us += longer;
    }
}

/* Returns the use of a lane in a step that is not the last, so that all that it waited for is known; scaled to a mean step, if
 * steps differ. */
static LaneUse use_of(const SimulationRun *r, int device, Lane lane, int step, double step_us, double *waited_us)
{
    double from = r->step_end_us[step - 1], to = r->step_end_us[step], share = to > from ? step_us / (to - from) : 0;
    LaneUse use = lane_use(&r->records, device, lane, step, from, to, lane == LANE_COMP ? waited_us : NULL);
    use.busy_us *= share;
    for (int c = 0; c < CAUSES; c++)
        use.idle_us[c] *= share;
    return use;
}

/* Returns the part of comp's waiting for transfers that is due to their route between nodes. */
static double between_of(const SimulationRun *r, int device, const SimulatedDevice *d)
{
    double all = 0, between = 0;
    for (int i = 0; i < r->phase->devices[device].op_count; i++) {
        const ScheduledOp *op = &r->phase->devices[device].ops[i];
        if (op->verb != VERB_TRANSFER)
            continue;
        all += d->waited_us[i];
        between += d->waited_us[i] * r->between[op->target];
    }
    return all > 0 ? d->lanes[LANE_COMP].idle_us[CAUSE_COMMUNICATION] * between / all : 0;
}

/* Collects the operations of the last steps but one, which are complete. */
static void take_spans(const SimulationRun *r, Simulation *s, Memory *kept)
{
    int first = r->steps - TRACED_STEPS;
    double from = first > 0 ? r->step_end_us[first - 1] : 0, to = r->step_end_us[r->steps - 1];
    Memory *own = memory_use(kept);
    for (int k = 0; k < TRACED_STEPS; k++)
        s->ends_us[k] = r->step_end_us[first + k] - from;
    for (int d = 0; d < s->device_count; d++)
        for (int step = first > 3 ? first - 3 : 1; step <= r->steps + 4; step++)
            for (int i = 0; i < r->phase->devices[r->fold.as[d]].op_count; i++) {
                const Record *x = record_in(r, step, r->fold.as[d], i);
                bool shown = step >= first && step < first + TRACED_STEPS;
                if (x->number == step && x->end_us >= x->begin_us && (shown || (x->end_us > from && x->arrived_us < to)))
                    APPEND(
                        s->spans, s->span_count,
                        ((SimulatedSpan){d, i, step - first, x->arrived_us - from, x->begin_us - from, x->end_us - from, x->op}));
            }
    memory_use(own);
}

static Simulation *new_simulation(const SimulationInput *in)
{
    Simulation *s = NEW(Simulation);
    *s = (Simulation){.steady = true, .device_count = in->schedule->devices};
    s->devices = NEW_ARRAY(SimulatedDevice, s->device_count);
    s->link_bytes = NEW_ARRAY(double, 2 * in->machine->link_count);
    s->peak = NEW_ARRAY(double, 2 * in->machine->link_count);
    return s;
}

Simulation *simulate_phase(const SimulationInput *in, int phase)
{
    Simulation *s = new_simulation(in);
    Memory *own = memory_new(), *kept = memory_use(own);
    SimulationRun *r = prepare(in, phase);
    double *amounts = amounts_of(r);
    if (r->works > 0) {
        run(r);
        s->steps = r->steps;
        s->steady = r->cycle > 0;
        s->step_us = mean_step_us(r, amounts);
        SimulatedDevice *simulated = NEW_ARRAY(SimulatedDevice, r->device_count);
        for (int d = 0; d < r->device_count; d++) {
            take_ops(r, d, r->steps - 1, &simulated[d], kept);
            for (int lane = 0; lane < LANES; lane++)
                simulated[d].lanes[lane] = use_of(r, d, (Lane)lane, r->steps - 1, s->step_us, simulated[d].waited_us);
            simulated[d].between_us = between_of(r, d, &simulated[d]);
        }
        for (int d = 0; d < s->device_count; d++)
            s->devices[d] = simulated[r->fold.as[d]];
    }
    if (in->traced && r->works > 0 && r->steps > TRACED_STEPS)
        take_spans(r, s, kept);
    for (int i = 0; i < 2 * in->machine->link_count; i++) {
        s->link_bytes[i] = amounts[i];
        s->peak[i] = r->flows->peak[i];
    }
    memory_use(kept);
    memory_free(own);
    return s;
}

static int phase_named(const Schedule *s, const char *name)
{
    for (int i = 0; i < s->phase_count; i++)
        if (strcmp(s->phases[i].name, name) == 0)
            return i;
    return -1;
}

static void add_times(Simulation *to, const Simulation *from, double times, int links)
{
    to->step_us += times * from->step_us;
    to->steady &= from->steady;
    for (int d = 0; d < to->device_count; d++) {
        to->devices[d].between_us += times * from->devices[d].between_us;
        to->devices[d].longer_us += times * from->devices[d].longer_us;
        for (int lane = 0; lane < LANES; lane++) {
            to->devices[d].lanes[lane].busy_us += times * from->devices[d].lanes[lane].busy_us;
            for (int c = 0; c < CAUSES; c++)
                to->devices[d].lanes[lane].idle_us[c] += times * from->devices[d].lanes[lane].idle_us[c];
        }
    }
    for (int i = 0; i < 2 * links; i++) {
        to->link_bytes[i] += times * from->link_bytes[i];
        to->peak[i] = from->peak[i] > to->peak[i] ? from->peak[i] : to->peak[i];
    }
}

static double times_of(const SimulationInput *in, PhaseKind kind)
{
    double micro = in->schedule->accumulate > 1 ? in->schedule->accumulate : 1;
    return kind == PHASE_ACCUMULATE ? micro - 1
           : kind == PHASE_PROLOGUE ? (micro > 1 ? micro : 0)
           : in->model              ? share_of_steps(in->model, in->schedule->predicts, kind)
                                    : kind == step_kind(in->schedule->predicts);
}

/* If a device has no samples, all steps are partial ones. */
Simulation *simulate_step(const SimulationInput *in)
{
    const Schedule *s = in->schedule;
    const PhaseKind first = step_kind(s->predicts);
    bool partial = false;
    for (int d = 0; s->phase_count && d < s->devices; d++)
        partial |= s->phases[0].devices[d].share == 0;
    int phase = phase_named(s, phase_name(first, partial));
    if (phase < 0)
        die("the schedule has no phase %s", phase_name(first, partial));
    Simulation *all = simulate_phase(in, phase);
    add_times(all, all, times_of(in, first) - 1, in->machine->link_count);
    for (int kind = 0; kind < PHASE_KINDS; kind++) {
        double times = kind == (int)first ? 0 : times_of(in, (PhaseKind)kind);
        phase = times > 0 ? phase_named(s, phase_name((PhaseKind)kind, partial)) : -1;
        if (phase >= 0)
            add_times(all, simulate_phase(in, phase), times, in->machine->link_count);
    }
    return all;
}
