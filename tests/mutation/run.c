/* run.c: Schedule, phases of a few steps -> Run.
 *
 * The operations of all steps are one graph, made from docs/schedule.md, "Execution of a schedule": the order of the lanes,
 * the waits, the changes of phase, what is pending of the step before, and one node for all members of a collective. The
 * run ends with a step without a phase, which drains. The begin and the end of each lane's step are instances too, and
 * those of a region: between them its calls have no order, unless two of them touch a buffer sample by sample.
 *
 * Memory is cut into segments at the ends of all accesses: an access touches whole segments. */
#include "compiler/plan/schedule.h"
#include "tests/mutation/run.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(const char *text) { return hash_bytes(0, text, strlen(text)); }

/* ---- the graph */

static int step_place(const Run *r, int step, int device, int lane)
{
    return (step * r->schedule->devices + device) * LANES + lane;
}

static void add_edge(Run *r, int from, int to)
{
    if (from < 0)
        return;
    Edge e = {from, to};
    APPEND(r->edges, r->edge_count, e);
}

static int add_instance(Run *r, int step, int device, int phase, Lane lane, const ScheduledOp *op)
{
    Instance i = {.device = device,
                  .step = step,
                  .phase = phase,
                  .op = op,
                  .lane = lane,
                  .gate = r->count,
                  .region = -1,
                  .chunk = op ? op->chunk : 0};
    if (op) {
        const DeviceSchedule *d = &r->schedule->phases[phase].devices[device];
        i.reported_before = (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->read_count && op->reads[0].slot < 0;
        i.name = mix(mix(mix(mix(hash_text(op->id), hash_text(op->label)), (uint64_t)phase), (uint64_t)device),
                     (uint64_t)(step - i.reported_before));
        i.name =
            op->elements ? mix(mix(mix(i.name, (uint64_t)op->own.begin), (uint64_t)op->own.end), (uint64_t)op->elements) : i.name;
        i.name = mix(mix(mix(i.name, (uint64_t)d->first), (uint64_t)d->share), (uint64_t)d->capacity);
    }
    add_edge(r, r->chain[lane][device], r->count);
    r->chain[lane][device] = r->count;
    APPEND(r->instances, r->count, i);
    return r->count - 1;
}

static bool is_delayed(const ScheduledOp *op)
{
    return (op->verb == VERB_REPORT || op->verb == VERB_FETCH) && op->read_count && op->reads[0].slot < 0;
}

static void settle(Run *r, int step, int device)
{
    int before = step > 0 ? r->steps[step - 1] : -1;
    const DeviceSchedule *d = before >= 0 ? &r->schedule->phases[before].devices[device] : NULL;
    for (int o = 0; d && o < d->op_count; o++)
        if (is_delayed(&d->ops[o]))
            add_instance(r, step, device, before, LANE_HOST, &d->ops[o]);
}

/* outputs have a place in the phases predict and decode alone, so between these and others all lanes wait for each other, after
 * what is pending is done */
static bool predicts(const Run *r, int step)
{
    const char *name = r->schedule->phases[r->steps[step]].name;
    return strncmp(name, "predict", strlen("predict")) == 0 || strcmp(name, "decode") == 0;
}

static bool drains(const Run *r, int step)
{
    return step > 0 && r->steps[step] >= 0 && predicts(r, step) != predicts(r, step - 1);
}

/* ---- regions: calls of one number that follow each other in lane comp */

static int next_in_lane(const DeviceSchedule *d, int o)
{
    Lane lane = d->ops[o].lane;
    for (o++; o < d->op_count && d->ops[o].lane != lane; o++)
        ;
    return o;
}

static bool is_joined(const DeviceSchedule *d, int o, int next)
{
    return next < d->op_count && d->ops[o].verb == VERB_CALL && d->ops[next].verb == VERB_CALL && d->ops[o].region >= 0 &&
           d->ops[o].region == d->ops[next].region;
}

/* whether each thread touches those bytes of its own samples alone */
static bool by_sample(const DeviceSchedule *d, const ScheduledOp *op, const Access *a)
{
    const Buffer *b = &d->buffers[a->buffer];
    return op->by_sample && b->each > 0 && b->each * d->capacity == b->bytes && a->begin == 0 && a->end == b->bytes;
}

static bool touches_local(const DeviceSchedule *d, const ScheduledOp *op)
{
    for (int i = 0; i < access_count(op); i++)
        if (d->buffers[access_of(op, i)->buffer].kind == BUFFER_LOCAL)
            return true;
    return false;
}

/* the later call of a region finds the samples as the earlier one has left them; and what is a thread's own, anyway */
static bool follows_by_sample(const DeviceSchedule *d, const ScheduledOp *op, const ScheduledOp *later)
{
    if (!op->by_sample || !later->by_sample)
        return false;
    if (touches_local(d, op) && touches_local(d, later))
        return true;
    for (int i = 0; i < access_count(op); i++)
        for (int k = 0; k < access_count(later); k++)
            if (access_of(op, i)->buffer == access_of(later, k)->buffer && (i >= op->read_count || k >= later->read_count) &&
                by_sample(d, op, access_of(op, i)) && by_sample(d, later, access_of(later, k)))
                return true;
    return false;
}

/* the region that begins with operation o, between a begin and an end; -> the first operation after it */
static int add_region(Run *r, int step, int device, int phase, int o)
{
    const DeviceSchedule *d = &r->schedule->phases[phase].devices[device];
    int begin = add_instance(r, step, device, phase, LANE_COMP, NULL), first = r->count, first_op = o, next = o;
    for (bool more = true; more; o = next) {
        r->chain[LANE_COMP][device] = begin;
        int call = add_instance(r, step, device, phase, LANE_COMP, &d->ops[o]);
        r->instances[call].gate = begin;
        r->instances[call].chunk = d->ops[first_op].chunk; /* of the region, says the engine */
        for (int i = first; i < call; i++)
            if (follows_by_sample(d, r->instances[i].op, &d->ops[o]))
                add_edge(r, i, call);
        next = next_in_lane(d, o);
        more = is_joined(d, o, next);
    }
    int end = add_instance(r, step, device, phase, LANE_COMP, NULL);
    r->instances[end].region = first;
    for (int i = first; i < end; i++) {
        add_edge(r, i, end);
        r->at[step][device * r->most_ops + (int)(r->instances[i].op - d->ops)] = end;
    }
    return next;
}

static void add_lane_step(Run *r, int step, int device, Lane lane)
{
    int phase = r->steps[step], place = step_place(r, step, device, (int)lane);
    bool change = step == 0 || phase != r->steps[step - 1], pending = change && lane == LANE_HOST;
    if (pending && drains(r, step)) {
        settle(r, step, device);
        pending = false;
    }
    r->begin_of[place] = add_instance(r, step, device, phase, lane, NULL);
    const DeviceSchedule *d = phase >= 0 ? &r->schedule->phases[phase].devices[device] : NULL;
    for (int o = 0; d && o < d->op_count; o++) {
        if (d->ops[o].lane != lane)
            continue;
        if (is_joined(d, o, next_in_lane(d, o))) {
            o = add_region(r, step, device, phase, o) - 1;
            continue;
        }
        bool skip = change && is_delayed(&d->ops[o]);
        if (skip && pending)
            settle(r, step, device);
        pending = pending && !skip;
        r->at[step][device * r->most_ops + o] = add_instance(r, step, device, phase, lane, skip ? NULL : &d->ops[o]);
    }
    if (pending)
        settle(r, step, device);
    r->end_of[place] = add_instance(r, step, device, phase, lane, NULL);
}

static const char *add_waits(Run *r)
{
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        if (!x->op)
            continue;
        const DeviceSchedule *d = &r->schedule->phases[x->phase].devices[x->device];
        for (int w = 0; w < x->op->wait_count; w++) {
            Wait wait = x->op->waits[w];
            int step = x->step - wait.back;
            if (wait.op < 0 || wait.op >= d->op_count || wait.back < 0)
                return "it waits for an operation that does not exist";
            if (step < 0)
                continue;
            bool same = r->steps[step] == x->phase;
            add_edge(r,
                     same ? r->at[step][x->device * r->most_ops + wait.op]
                          : r->end_of[step_place(r, step, x->device, (int)d->ops[wait.op].lane)],
                     x->gate);
        }
    }
    for (int q = 1; q <= RUN_STEPS; q++)
        for (int d = 0; d < r->schedule->devices && r->steps[q] != r->steps[q - 1]; d++) {
            static const int MEET[] = {LANE_COMP, LANE_COMM, LANE_SYNC};
            for (int a = 0; a < COUNT(MEET); a++)
                for (int b = 0; b < COUNT(MEET); b++)
                    add_edge(r, r->end_of[step_place(r, q - 1, d, MEET[a])], r->begin_of[step_place(r, q, d, MEET[b])]);
            for (int lane = 0; lane < LANES && drains(r, q); lane++) {
                int host = r->begin_of[step_place(r, q, d, LANE_HOST)];
                add_edge(r, r->end_of[step_place(r, q - 1, d, lane)], host);
                if (lane != LANE_HOST)
                    add_edge(r, host, r->begin_of[step_place(r, q, d, lane)]);
            }
        }
    return NULL;
}

/* it sends and receives what the row of its transfer says, at its place in one buffer */
static bool has_share(const CollectiveRecord *c, const Instance *x)
{
    const Access *reads = &x->op->reads[0], *writes = &x->op->writes[0];
    int64_t each = dtype_bytes(c->dtype);
    if (c->participants.from < 0 || c->participants.to < 0)
        return false;
    for (int d = 0; c->participants.parts && d <= x->device; d++)
        if (c->participants.parts[d] < 0 || c->participants.parts[d] > c->participants.parts[d + 1] ||
            c->participants.parts[d + 1] > c->count)
            return false;
    mgpu_range sent = mgpu_sent_by(&c->participants, c->count, x->device),
               received = mgpu_received_by(&c->participants, c->count, x->device);
    return x->op->read_count == 1 && x->op->write_count == 1 && reads->buffer == writes->buffer &&
           reads->end - reads->begin == (sent.end - sent.begin) * each &&
           writes->end - writes->begin == (received.end - received.begin) * each &&
           reads->begin - writes->begin == (sent.begin - received.begin) * each;
}

static const char *join_collectives(Run *r)
{
    const Schedule *s = r->schedule;
    int *node_of[RUN_STEPS];
    for (int q = 0; q < RUN_STEPS; q++) {
        node_of[q] = NEW_ARRAY(int, s->phases[r->steps[q]].collective_count);
        for (int c = 0; c < s->phases[r->steps[q]].collective_count; c++)
            node_of[q][c] = -1;
    }
    for (int i = 0; i < r->count; i++) {
        Instance *x = &r->instances[i];
        bool sums = x->op && x->op->verb == VERB_TRANSFER;
        int *known = sums ? &node_of[x->step][x->op->target] : NULL;
        x->node = sums && *known >= 0 ? *known : r->node_count++;
        if (sums)
            *known = x->node;
    }
    int *members = NEW_ARRAY(int, r->node_count);
    r->first_member = NEW_ARRAY(int, r->node_count + 1);
    r->members = NEW_ARRAY(int, r->count);
    for (int i = 0; i < r->count; i++)
        r->first_member[r->instances[i].node + 1]++;
    for (int n = 0; n < r->node_count; n++)
        r->first_member[n + 1] += r->first_member[n];
    for (int i = 0; i < r->count; i++) { /* instances come step by step, device by device: members in order of the devices */
        int n = r->instances[i].node;
        r->members[r->first_member[n] + members[n]++] = i;
    }
    for (int n = 0; n < r->node_count; n++) {
        const Instance *x = &r->instances[r->members[r->first_member[n]]];
        bool sums = x->op && x->op->verb == VERB_TRANSFER;
        if (sums && members[n] != s->devices)
            return "a collective lacks a member: it never ends";
        for (int m = 0; m < members[n] && sums; m++) {
            const Instance *y = &r->instances[r->members[r->first_member[n] + m]];
            const CollectiveRecord *c = &s->phases[y->phase].collectives[y->op->target];
            if (y->device != m)
                return "a device takes part in a collective twice";
            if (y->op->lane != x->op->lane)
                return "the members of a collective are in different lanes: they never meet";
            if (!has_share(c, y))
                return "a member of a collective has another size";
        }
    }
    return NULL;
}

static void find_successors(Run *r)
{
    r->first_successor = NEW_ARRAY(int, r->node_count + 1);
    r->successors = NEW_ARRAY(int, r->edge_count);
    r->degree = NEW_ARRAY(int, r->node_count);
    int *filled = NEW_ARRAY(int, r->node_count);
    for (int e = 0; e < r->edge_count; e++) {
        r->first_successor[r->instances[r->edges[e].from].node + 1]++;
        r->degree[r->instances[r->edges[e].to].node]++;
    }
    for (int n = 0; n < r->node_count; n++)
        r->first_successor[n + 1] += r->first_successor[n];
    for (int e = 0; e < r->edge_count; e++) {
        int from = r->instances[r->edges[e].from].node;
        r->successors[r->first_successor[from] + filled[from]++] = r->instances[r->edges[e].to].node;
    }
}

/* ---- memory */

static int compare_addresses(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_addresses(Memory *m)
{
    int n = 0;
    qsort(m->address, (size_t)m->count, sizeof *m->address, compare_addresses);
    for (int i = 0; i < m->count; i++)
        if (n == 0 || m->address[n - 1] != m->address[i])
            m->address[n++] = m->address[i];
    m->count = n;
}

static int segment_of(const Memory *m, int64_t address) /* the first that begins there or after */
{
    int low = 0, high = m->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (m->address[middle] >= address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t access_address(const Run *r, const Instance *x, const Access *a)
{
    const Buffer *b = &r->schedule->phases[x->phase].devices[x->device].buffers[a->buffer];
    int64_t slot = (x->step + 1 + a->slot) % b->slots;
    slot += slot < 0 ? b->slots : 0;
    return b->offset + slot * ((b->bytes + 63) / 64 * 64) + a->begin +
           (b->kind == BUFFER_STAGING ? r->memory[x->device].staging : 0);
}

Whole whole_seen(const Run *r, const Instance *x)
{
    const CollectiveRecord *c = &r->schedule->phases[x->phase].collectives[x->op->target];
    const Memory *m = &r->memory[x->device];
    int64_t each = dtype_bytes(c->dtype);
    Whole w = {.begin =
                   access_address(r, x, &x->op->reads[0]) - mgpu_sent_by(&c->participants, c->count, x->device).begin * each};
    w.end = w.begin + c->count * each;
    w.first = segment_of(m, w.begin);
    w.last = segment_of(m, w.end);
    return w;
}

static void add_address(Memory *m, int64_t address) { APPEND(m->address, m->count, address); }

static int64_t memory_bytes(const DeviceSchedule *d) { return d->arena_bytes + (THREADS - 1) * d->work_bytes; }

/* a thread's own place for the samples of its chunk */
static bool has_room(const DeviceSchedule *d, const Instance *x, const Access *a)
{
    const Buffer *b = &d->buffers[a->buffer];
    int64_t samples = x->chunk < d->capacity ? x->chunk : d->capacity;
    if (b->bytes == 0)
        return true;
    return x->op->by_sample && x->chunk > 0 && a->begin == 0 && a->end == b->bytes && b->each > 0 &&
           b->each * samples <= b->bytes;
}

/* where the whole value begins and ends, and each device's part of it */
static void add_parts(Run *r, const Instance *x)
{
    const CollectiveRecord *c = &r->schedule->phases[x->phase].collectives[x->op->target];
    Whole w = whole_seen(r, x);
    add_address(&r->memory[x->device], w.begin);
    add_address(&r->memory[x->device], w.end);
    for (int d = 0; c->participants.parts && d <= r->schedule->devices; d++)
        add_address(&r->memory[x->device], w.begin + c->participants.parts[d] * dtype_bytes(c->dtype));
}

static const char *add_addresses(Run *r)
{
    const Schedule *s = r->schedule;
    for (int d = 0; d < s->devices; d++)
        for (int p = 0; p < s->phase_count; p++)
            if (memory_bytes(&s->phases[p].devices[d]) > r->memory[d].staging)
                r->memory[d].staging = memory_bytes(&s->phases[p].devices[d]);
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        for (int k = 0; x->op && k < access_count(x->op); k++) {
            const Access *a = access_of(x->op, k);
            const DeviceSchedule *d = &s->phases[x->phase].devices[x->device];
            bool staging = d->buffers[a->buffer].kind == BUFFER_STAGING;
            int64_t begin = access_address(r, x, a), end = begin + a->end - a->begin;
            int64_t arena = staging ? r->memory[x->device].staging : 0;
            if (a->begin < 0 || begin < arena || end < begin || end > arena + (staging ? d->staging_bytes : d->arena_bytes))
                return "it touches memory outside the arena";
            if (d->buffers[a->buffer].kind == BUFFER_LOCAL && !has_room(d, x, a))
                return "it has no room for the samples of a chunk";
            for (int t = 0; t < copies_of(r, x, k); t++) {
                add_address(&r->memory[x->device], begin + t * d->work_bytes);
                add_address(&r->memory[x->device], end + t * d->work_bytes);
            }
        }
        if (x->op && x->op->verb == VERB_TRANSFER)
            add_parts(r, x);
    }
    return NULL;
}

/* the variables of a device, where the first phase that has them has them: the runtime's table */
static void add_kept(Run *r, int device)
{
    const Schedule *s = r->schedule;
    Map known = {0};
    for (int p = 0; p < s->phase_count; p++) {
        const DeviceSchedule *d = &s->phases[p].devices[device];
        for (int b = 0; b < d->buffer_count; b++) {
            const Buffer *buffer = &d->buffers[b];
            if (buffer->kind != BUFFER_VARIABLE || map_get(&known, buffer->name))
                continue;
            map_set(&known, buffer->name, d->buffers + b);
            Kept k = {.name = mix(hash_text(buffer->name), (uint64_t)buffer->index),
                      .bytes = buffer->bytes,
                      .span.begin = buffer->offset};
            add_address(&r->memory[device], buffer->offset);
            add_address(&r->memory[device], buffer->offset + buffer->bytes);
            APPEND(r->kept[device], r->kept_count[device], k);
        }
    }
}

/* The members of a collective are taken byte by byte: their segments must be the same, counted from their begins. Lists grow in
 * place: a collective that is shifted against another one adds few bounds at a time, thousands of times. */
static bool share_bounds(Run *r, const int *members)
{
    const Schedule *s = r->schedule;
    Memory before[MOST_DEVICES];
    Whole whole[MOST_DEVICES];
    bool added = false;
    if (s->devices > COUNT(before))
        die("the oracle is made for %d devices", COUNT(before));
    for (int d = 0; d < s->devices; d++) {
        before[d] = r->memory[d];
        whole[d] = whole_seen(r, &r->instances[members[d]]);
    }
    for (int to = 0; to < s->devices; to++) {
        Memory *m = &r->memory[to];
        for (int from = 0; from < s->devices; from++)
            for (int i = whole[from].first; i < before[from].count && before[from].address[i] <= whole[from].end; i++) {
                int64_t bound = before[from].address[i] - whole[from].begin + whole[to].begin;
                int place = segment_of(&before[to], bound);
                if (place == before[to].count || before[to].address[place] != bound)
                    add_address(m, bound);
            }
        if (m->count > before[to].count) {
            sort_addresses(m);
            added = true;
        }
    }
    return added;
}

static const char *find_segments(Run *r)
{
    const Schedule *s = r->schedule;
    r->memory = NEW_ARRAY(Memory, s->devices);
    r->kept = NEW_ARRAY(Kept *, s->devices);
    r->kept_count = NEW_ARRAY(int, s->devices);
    const char *why = add_addresses(r);
    if (why)
        return why;
    for (int d = 0; d < s->devices; d++) {
        add_kept(r, d);
        sort_addresses(&r->memory[d]);
    }
    for (bool added = true; added && s->devices > 1;) {
        added = false;
        for (int n = 0; n < r->node_count; n++) {
            const ScheduledOp *op = r->instances[r->members[r->first_member[n]]].op;
            if (op && op->verb == VERB_TRANSFER && share_bounds(r, &r->members[r->first_member[n]]))
                added = true;
        }
    }
    int spans = 0;
    for (int i = 0; i < r->count; i++)
        if (r->instances[i].op) {
            r->instances[i].span = spans;
            spans += THREADS * access_count(r->instances[i].op);
        }
    r->spans = NEW_ARRAY(Span, spans);
    for (int i = 0; i < r->count; i++) {
        const Instance *x = &r->instances[i];
        int64_t work = x->op ? s->phases[x->phase].devices[x->device].work_bytes : 0;
        for (int k = 0; x->op && k < access_count(x->op); k++) {
            const Access *a = access_of(x->op, k);
            const Memory *m = &r->memory[x->device];
            for (int t = 0; t < copies_of(r, x, k); t++) { /* else: no segment */
                int64_t begin = access_address(r, x, a) + t * work;
                r->spans[x->span + t * access_count(x->op) + k] =
                    (Span){segment_of(m, begin), segment_of(m, begin + a->end - a->begin), begin};
            }
        }
    }
    for (int d = 0; d < s->devices; d++) {
        Memory *m = &r->memory[d];
        for (int k = 0; k < r->kept_count[d]; k++) {
            Kept *x = &r->kept[d][k];
            int64_t begin = x->span.begin;
            x->span = (Span){segment_of(m, begin), segment_of(m, begin + x->bytes), begin};
        }
        m->token = NEW_ARRAY(uint64_t, m->count);
        m->origin = NEW_ARRAY(int64_t, m->count);
    }
    return NULL;
}

const char *build_run(Run *r, const Schedule *s, const int steps[RUN_STEPS])
{
    *r = (Run){.schedule = s};
    int places = (RUN_STEPS + 1) * s->devices * LANES;
    r->begin_of = NEW_ARRAY(int, places);
    r->end_of = NEW_ARRAY(int, places);
    for (int lane = 0; lane < LANES; lane++) {
        r->chain[lane] = NEW_ARRAY(int, s->devices);
        for (int d = 0; d < s->devices; d++)
            r->chain[lane][d] = -1;
    }
    for (int q = 0; q <= RUN_STEPS; q++) {
        r->steps[q] = q < RUN_STEPS ? steps[q] : -1;
        for (int d = 0; d < s->devices && q < RUN_STEPS; d++)
            if (s->phases[steps[q]].devices[d].op_count > r->most_ops)
                r->most_ops = s->phases[steps[q]].devices[d].op_count;
    }
    r->at = NEW_ARRAY(int *, RUN_STEPS + 1);
    for (int q = 0; q <= RUN_STEPS; q++) {
        r->at[q] = NEW_ARRAY(int, r->most_ops * s->devices);
        for (int d = 0; d < s->devices; d++)
            for (int lane = 0; lane < LANES; lane++)
                add_lane_step(r, q, d, (Lane)lane);
    }
    const char *why = add_waits(r);
    if (why || (why = join_collectives(r)))
        return why;
    find_successors(r);
    if ((why = find_segments(r)))
        return why;
    r->order = NEW_ARRAY(int, r->node_count);
    r->ready = NEW_ARRAY(int, r->node_count);
    r->later = NEW_ARRAY(int, r->node_count);
    r->left = NEW_ARRAY(int, r->node_count);
    return NULL;
}
