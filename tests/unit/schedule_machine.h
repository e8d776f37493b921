/* schedule_machine.h: a small machine that runs schedules, for tests of the scheduler: lanes of all devices run at random, as
 * the rules in docs/schedule.md (Execution of a schedule) allow, over sequences of phases; every operation gets a vector
 * clock, and all conflicting accesses must be ordered by it. Within a region only what two calls do sample by sample is. */
#ifndef MGPU_SCHEDULE_MACHINE_H
#define MGPU_SCHEDULE_MACHINE_H

#include "compiler/plan/schedule.h"
#include "tests/unit/random_phase.h"

#include <stdlib.h>

/* ---- the machine */
enum { MOST_STEPS = 8 };
typedef struct Instance {
    int lane, number;
    int *start;
} Instance; /* clocks: [devices * LANES] operations that are over */
typedef struct Event {
    int step, op;
} Event;
typedef struct Machine {
    const Schedule *s;
    const int *sequence; /* phase of each step; steps count from 1 */
    int steps, width;
    Random *r;
    const Wait *dropped;                    /* as if it were not there */
    bool alone;                             /* calls run one by one, not region by region */
    int *now;                               /* [device, lane]: clock of the lane */
    int *lane_end[MOST_STEPS + 1];          /* [device, lane]: at the end of a step */
    int ***ends[MOST_STEPS + 1];            /* [device][op]: clock after it */
    Instance *instances[MOST_STEPS + 1][8]; /* [step][device][op] */
    bool drained[MOST_STEPS + 1][8];        /* [step][device]: before it */
    Instance *pending[MOST_STEPS + 1][8];   /* [step][device][op of the phase of the step before] */
    int *number;                            /* [device, lane]: operations begun */
    int *step, *place;                      /* [device, lane]: the next operation */
} Machine;

static const DeviceSchedule *device_of(const Machine *m, int step, int device)
{
    return &m->s->phases[m->sequence[step - 1]].devices[device];
}

static void join_clock(const Machine *m, int *to, const int *from)
{
    for (int i = 0; i < m->width; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static int lane_index(int device, Lane lane) { return device * LANES + (int)lane; }

/* reads what the step before has left; what a step of another phase has left is read at the end of the next one */
static bool is_delayed(const ScheduledOp *op)
{
    return (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->reads[0].slot < 0;
}

/* the next operation of a lane; -1: the step is over. Delayed ones of a phase that was not the last step's are skipped. */
static int next_op(const Machine *m, int device, Lane lane, int step, int place)
{
    const DeviceSchedule *d = device_of(m, step, device);
    bool changed = step == 1 || m->sequence[step - 1] != m->sequence[step - 2];
    for (int i = place; i < d->op_count; i++)
        if (d->ops[i].lane == lane && !(changed && is_delayed(&d->ops[i])))
            return i;
    return -1;
}

/* the call after `op` in its region; -1: there is none */
static int next_of_region(const Machine *m, const DeviceSchedule *d, int op)
{
    int next = op + 1;
    while (next < d->op_count && d->ops[next].lane != LANE_COMP)
        next++;
    bool joined = d->ops[op].verb == VERB_CALL && next < d->op_count && d->ops[next].region == d->ops[op].region;
    return joined && !m->alone ? next : -1;
}

/* the clock after all waits of `op`; false: one does not hold yet */
static bool gather_waits(const Machine *m, int device, int step, const ScheduledOp *op, int phase_step, int *clock)
{
    for (int i = 0; i < op->wait_count; i++) {
        const Wait *w = &op->waits[i];
        int q = step - w->back;
        if (w == m->dropped || q < 1)
            continue;
        const ScheduledOp *of = &m->s->phases[m->sequence[phase_step - 1]].devices[device].ops[w->op];
        bool same = m->sequence[q - 1] == m->sequence[phase_step - 1] && !(is_delayed(of) && !m->ends[q][device][w->op]);
        const int *end = same ? m->ends[q][device][w->op] : NULL;
        if (!same && m->step[lane_index(device, of->lane)] > q)
            end = &m->lane_end[q][lane_index(device, of->lane) * m->width];
        if (!end)
            return false;
        join_clock(m, clock, end);
    }
    return true;
}

static Instance run_op(Machine *m, int lane, const int *start)
{
    int *now = &m->now[lane * m->width];
    Instance x = {lane, m->number[lane], NEW_ARRAY(int, m->width)};
    memcpy(x.start, start, sizeof *now * (size_t)m->width);
    memcpy(now, start, sizeof *now * (size_t)m->width);
    now[lane] = ++m->number[lane];
    return x;
}

/* an operation, or the region that begins with it, begins with the clock `start`; -> its last one */
static int finish_op(Machine *m, int device, int step, int op, const int *start)
{
    const DeviceSchedule *d = device_of(m, step, device);
    int lane = lane_index(device, d->ops[op].lane), last = op;
    for (int i = op; i >= 0; i = next_of_region(m, d, i)) {
        m->instances[step][device][i] = run_op(m, lane, start);
        last = i;
    }
    for (int i = op; i >= 0; i = next_of_region(m, d, i)) {
        m->ends[step][device][i] = NEW_ARRAY(int, m->width);
        memcpy(m->ends[step][device][i], &m->now[lane * m->width], sizeof(int) * (size_t)m->width);
    }
    return last;
}

/* all members are there: they begin and end together */
static bool try_meet(Machine *m, int step, int target)
{
    const PhaseSchedule *p = &m->s->phases[m->sequence[step - 1]];
    int *clock = NEW_ARRAY(int, m->width);
    for (int d = 0; d < m->s->devices; d++) {
        int op = p->collectives[target].ops[d], lane = lane_index(d, p->devices[d].ops[op].lane);
        if (m->step[lane] != step || next_op(m, d, p->devices[d].ops[op].lane, step, m->place[lane]) != op)
            return false;
        join_clock(m, clock, &m->now[lane * m->width]);
        if (!gather_waits(m, d, step, &p->devices[d].ops[op], step, clock))
            return false;
    }
    for (int d = 0; d < m->s->devices; d++) {
        int op = p->collectives[target].ops[d], lane = lane_index(d, p->devices[d].ops[op].lane);
        finish_op(m, d, step, op, &m->now[lane * m->width]);
        m->place[lane] = op + 1;
        m->instances[step][d][op].start = clock;
    }
    for (int d = 0; d < m->s->devices; d++) { /* members see each other's begin */
        int op = p->collectives[target].ops[d], lane = lane_index(d, p->devices[d].ops[op].lane);
        join_clock(m, &m->now[lane * m->width], clock);
        join_clock(m, m->ends[step][d][op], &m->now[lane * m->width]);
    }
    return true;
}

/* what is pending of the step before; false: it has to wait */
static bool settle(Machine *m, int device, int step)
{
    const DeviceSchedule *d = step > 1 ? device_of(m, step - 1, device) : NULL;
    for (int i = 0; d && i < d->op_count; i++) {
        if (!is_delayed(&d->ops[i]) || m->pending[step][device][i].start)
            continue;
        int *clock = NEW_ARRAY(int, m->width);
        memcpy(clock, &m->now[lane_index(device, LANE_HOST) * m->width], sizeof *clock * (size_t)m->width);
        if (!gather_waits(m, device, step, &d->ops[i], step - 1, clock))
            return false;
        m->pending[step][device][i] = run_op(m, lane_index(device, LANE_HOST), clock);
    }
    return true;
}

static bool predicts(const Machine *m, int step)
{
    const char *name = m->s->phases[m->sequence[step - 1]].name;
    return strncmp(name, "predict", 7) == 0 || strcmp(name, "decode") == 0;
}

/* all lanes have ended the step before, and what is pending of it is done; false: it has to wait */
static bool drain(Machine *m, int device, int step)
{
    int *now = &m->now[lane_index(device, LANE_HOST) * m->width];
    for (int l = 0; l < LANES; l++)
        if (m->step[lane_index(device, (Lane)l)] < step)
            return false;
    if (!settle(m, device, step))
        return false;
    for (int l = 0; l < LANES; l++)
        join_clock(m, now, &m->now[lane_index(device, (Lane)l) * m->width]);
    for (int l = 0; l < LANES; l++)
        join_clock(m, &m->now[lane_index(device, (Lane)l) * m->width], now);
    return m->drained[step][device] = true;
}

/* one operation, one region or the end of a step, of a lane; false: it has to wait */
static bool advance(Machine *m, int device, Lane lane)
{
    int at = lane_index(device, lane), step = m->step[at], op = next_op(m, device, lane, step, m->place[at]);
    const DeviceSchedule *d = device_of(m, step, device);
    bool changed = step > 1 && m->sequence[step - 1] != m->sequence[step - 2];
    if (changed && predicts(m, step) != predicts(m, step - 1) && !m->drained[step][device] && !drain(m, device, step))
        return false;
    for (int l = 0; m->place[at] == 0 && changed && mgpu_lane_synchronizes((int)lane) && l < LANES; l++) {
        int other = lane_index(device, (Lane)l);
        if (l == (int)lane || !mgpu_lane_synchronizes(l))
            continue;
        if (m->step[other] < step)
            return false;
        join_clock(m, &m->now[at * m->width], &m->lane_end[step - 1][other * m->width]);
    }
    if (op < 0) {
        if (lane == LANE_HOST && changed && !settle(m, device, step))
            return false;
        memcpy(&m->lane_end[step][at * m->width], &m->now[at * m->width], sizeof(int) * (size_t)m->width);
        m->step[at]++;
        m->place[at] = 0;
        return true;
    }
    if (d->ops[op].verb == VERB_TRANSFER)
        return try_meet(m, step, d->ops[op].target);
    int *clock = NEW_ARRAY(int, m->width);
    memcpy(clock, &m->now[at * m->width], sizeof *clock * (size_t)m->width);
    for (int i = op; i >= 0; i = next_of_region(m, d, i))
        if (!gather_waits(m, device, step, &d->ops[i], step, clock))
            return false;
    m->place[at] = finish_op(m, device, step, op, clock) + 1;
    return true;
}

static void open_machine(Machine *m)
{
    int lanes = m->s->devices * LANES;
    m->width = lanes;
    m->now = NEW_ARRAY(int, lanes *lanes);
    m->number = NEW_ARRAY(int, lanes);
    m->step = NEW_ARRAY(int, lanes);
    m->place = NEW_ARRAY(int, lanes);
    for (int i = 0; i < lanes; i++)
        m->step[i] = 1;
    for (int q = 1; q <= m->steps; q++) {
        m->lane_end[q] = NEW_ARRAY(int, lanes *lanes);
        m->ends[q] = NEW_ARRAY(int **, m->s->devices);
        for (int d = 0; d < m->s->devices; d++) {
            m->ends[q][d] = NEW_ARRAY(int *, device_of(m, q, d)->op_count);
            m->instances[q][d] = NEW_ARRAY(Instance, device_of(m, q, d)->op_count);
            m->pending[q][d] = NEW_ARRAY(Instance, q > 1 ? device_of(m, q - 1, d)->op_count : 0);
        }
    }
}

static const char *run_machine(Machine *m)
{
    open_machine(m);
    int lanes = m->s->devices * LANES, open = lanes;
    while (open) {
        int first = random_below(m->r, lanes), tried = 0;
        for (open = 0; tried < lanes; tried++) {
            int lane = (first + tried) % lanes;
            if (m->step[lane] > m->steps)
                continue;
            open++;
            if (advance(m, lane / LANES, (Lane)(lane % LANES)))
                break;
        }
        if (open && tried == lanes)
            return "all lanes wait for each other";
    }
    return NULL;
}

/* ---- conflicts */
typedef struct Use {
    int64_t begin, end;
    bool write;
    const Instance *by;
    Event event;
    int samples; /* buffer that is taken sample by sample, all local ones alike; -1 */
} Use;

static int compare_uses(const void *a, const void *b)
{
    const Use *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static bool is_before(const Instance *a, const Instance *b) { return b->start[a->lane] > a->number; }

static void list_op(const DeviceSchedule *d, int op_number, int step, const Instance *by, Event event, Use **uses, int *count)
{
    const ScheduledOp *op = &d->ops[op_number];
    for (int k = 0; k < op->read_count + op->write_count && by->start; k++) {
        const Access *a = k < op->read_count ? &op->reads[k] : &op->writes[k - op->read_count];
        const Buffer *b = &d->buffers[a->buffer];
        int slot = ((step + a->slot) % b->slots + b->slots) % b->slots;
        int64_t begin = b->offset + slot * ((b->bytes + 63) / 64 * 64) + a->begin;
        if (b->kind == BUFFER_STAGING)
            begin += d->arena_bytes;
        Use use = {begin, begin + a->end - a->begin, k >= op->read_count, by, event, -1};
        if (op->by_sample && a->begin == 0 && a->end == b->bytes && b->each > 0 && b->each * d->capacity == b->bytes)
            use.samples = a->buffer;
        if (b->kind == BUFFER_LOCAL && op->by_sample && op->chunk > 0) /* a thread's own, in the order of the calls */
            use.samples = d->buffer_count;
        if (use.end > use.begin)
            APPEND(*uses, *count, use);
    }
}

static int list_uses(const Machine *m, int device, Use **uses)
{
    int count = 0;
    for (int q = 1; q <= m->steps; q++) {
        const DeviceSchedule *d = device_of(m, q, device), *before = q > 1 ? device_of(m, q - 1, device) : NULL;
        for (int i = 0; i < d->op_count; i++)
            list_op(d, i, q, &m->instances[q][device][i], (Event){q, i}, uses, &count);
        for (int i = 0; before && i < before->op_count; i++)
            list_op(before, i, q, &m->pending[q][device][i], (Event){q - 1, i}, uses, &count);
    }
    if (count)
        qsort(*uses, (size_t)count, sizeof **uses, compare_uses);
    return count;
}

static const char *find_race(const Machine *m)
{
    for (int device = 0; device < m->s->devices; device++) {
        Use *uses = NULL;
        int count = list_uses(m, device, &uses);
        for (int i = 0; i < count; i++)
            for (int k = i + 1; k < count && uses[k].begin < uses[i].end; k++) {
                if ((!uses[i].write && !uses[k].write) || uses[i].by == uses[k].by)
                    continue;
                if (is_before(uses[i].by, uses[k].by) || is_before(uses[k].by, uses[i].by))
                    continue;
                const Event *a = &uses[i].event, *b = &uses[k].event;
                const ScheduledOp *x = &device_of(m, a->step, device)->ops[a->op],
                                  *y = &device_of(m, b->step, device)->ops[b->op];
                if (a->step == b->step && x->verb == VERB_CALL && y->verb == VERB_CALL && x->region == y->region &&
                    uses[i].samples >= 0 && uses[i].samples == uses[k].samples)
                    continue;
                return format("d%d.%s of step %d (%s) and d%d.%s of step %d (%s)", device, x->id, a->step,
                              m->s->phases[m->sequence[a->step - 1]].name, device, y->id, b->step,
                              m->s->phases[m->sequence[b->step - 1]].name);
            }
    }
    return NULL;
}

/* without the wait `dropped`, calls run one by one: what a region's other calls wait for would hide that it is missing */
static const char *try_sequence(const Schedule *s, const int *sequence, int steps, Random *r, const Wait *dropped)
{
    Machine m = {.s = s, .sequence = sequence, .steps = steps, .r = r, .dropped = dropped, .alone = dropped != NULL};
    const char *why = run_machine(&m);
    return why ? why : find_race(&m);
}
#endif
