/* mutate.c: one small change to a schedule.
 *
 * A mutant is a copy as deep as the change: the changed phase of the changed device (or of all phases, where the change
 * is to what persists). A try that finds nothing to change returns NULL. */
#include "compiler/plan/schedule.h"
#include "tests/mutation/change.h"

#include <string.h>

const char *const MUTATION_NAME[MUTATIONS] = {
    "drop_wait",     "swap_neighbours", "shift_buffer",    "shrink_buffer", "change_samples", "change_collective",
    "wrong_slot",    "wrong_step",      "merge_regions",   "move_call",     "drop_samples",   "overlap_in_region",
    "add_wait",      "change_lane",     "swap_arguments",  "change_kernel", "drop_call",      "drop_operation",
    "drop_argument", "wrong_argument",  "shrink_argument", "change_dtype",  "exchange_index", "change_transfer",
    "change_part",   "drop_gather",     "late_gather",     "free_early",    "cut_segment",    "swap_lanes",
    "drop_phase",    "rename_phase",    "exchange_phases", "drop_training"};

/* ---- copies */

static void *copy_array(const void *from, size_t bytes)
{
    void *copy = allocate(bytes);
    if (bytes)
        memcpy(copy, from, bytes);
    return copy;
}

#define COPY(array, count) ((array) = copy_array((array), sizeof *(array) * (size_t)(count)))

static Schedule *copy_schedule(const Schedule *s)
{
    Schedule *copy = NEW(Schedule);
    *copy = *s;
    COPY(copy->phases, s->phase_count);
    return copy;
}

DeviceSchedule *own_device(Schedule *s, int phase, int device)
{
    PhaseSchedule *p = &s->phases[phase];
    COPY(p->devices, s->devices);
    COPY(p->collectives, p->collective_count);
    for (int c = 0; c < p->collective_count; c++)
        COPY(p->collectives[c].ops, s->devices);
    DeviceSchedule *d = &p->devices[device];
    COPY(d->buffers, d->buffer_count);
    COPY(d->ops, d->op_count);
    for (int o = 0; o < d->op_count; o++) {
        COPY(d->ops[o].reads, d->ops[o].read_count);
        COPY(d->ops[o].writes, d->ops[o].write_count);
        COPY(d->ops[o].waits, d->ops[o].wait_count);
    }
    return d;
}

/* ---- kinds */

bool pick_op(const Change *c, bool (*fits)(const Change *, const ScheduledOp *), int *op)
{
    int count = 0;
    for (int o = 0; o < c->d->op_count; o++)
        count += fits(c, &c->d->ops[o]);
    if (!count)
        return false;
    int pick = random_below(c->random, count);
    for (*op = 0; !fits(c, &c->d->ops[*op]) || pick-- > 0; ++*op)
        ;
    return true;
}

static bool waits_for_something(const Change *c, const ScheduledOp *op)
{
    (void)c;
    return op->wait_count > 0;
}

static bool reduces(const Change *c, const ScheduledOp *op)
{
    (void)c;
    return op->verb == VERB_TRANSFER;
}

static bool has_slots(const Change *c, const Access *a) { return c->d->buffers[a->buffer].slots > 1; }

static bool uses_slots(const Change *c, const ScheduledOp *op)
{
    for (int i = 0; i < op->read_count; i++)
        if (has_slots(c, &op->reads[i]))
            return true;
    for (int i = 0; i < op->write_count; i++)
        if (has_slots(c, &op->writes[i]))
            return true;
    return false;
}

const char *changed_op(const Change *c, int op) { return format("d%d.%s", c->device, c->d->ops[op].id); }

/* the call before this one, in its lane; -1: none */
static int call_before(const Change *c, const ScheduledOp *op)
{
    int o = (int)(op - c->d->ops) - 1;
    while (op->verb == VERB_CALL && o >= 0 && c->d->ops[o].verb != VERB_CALL)
        o--;
    return op->verb == VERB_CALL ? o : -1;
}

static bool follows_in_region(const Change *c, const ScheduledOp *op)
{
    int before = call_before(c, op);
    return before >= 0 && c->d->ops[before].region == op->region;
}

static bool begins_next_region(const Change *c, const ScheduledOp *op)
{
    int before = call_before(c, op);
    return before >= 0 && c->d->ops[before].region != op->region;
}

void remove_op(Change *c, int o)
{
    PhaseSchedule *p = &c->s->phases[c->phase];
    for (int i = 0; i < c->d->op_count; i++) {
        ScheduledOp *op = &c->d->ops[i];
        for (int w = op->wait_count - 1; w >= 0; w--) {
            if (op->waits[w].op == o)
                op->waits[w] = op->waits[--op->wait_count];
            else if (op->waits[w].op > o)
                op->waits[w].op--;
        }
    }
    memmove(&c->d->ops[o], &c->d->ops[o + 1], sizeof *c->d->ops * (size_t)(--c->d->op_count - o));
    for (int k = 0; k < p->collective_count; k++) {
        int *op = &p->collectives[k].ops[c->device];
        *op = *op == o ? -1 : *op > o ? *op - 1 : *op;
    }
}

static bool drop_wait(Change *c)
{
    int o;
    if (!pick_op(c, waits_for_something, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    int w = random_below(c->random, op->wait_count);
    c->what = format("%s no longer waits for %s@-%d", changed_op(c, o), changed_op(c, op->waits[w].op), op->waits[w].back);
    op->waits[w] = op->waits[--op->wait_count];
    return true;
}

/* regions stay where they are: calls change theirs with their places */
static void swap_ops(Change *c, int a, int b)
{
    ScheduledOp first = c->d->ops[a], second = c->d->ops[b];
    c->d->ops[a] = second;
    c->d->ops[b] = first;
    c->d->ops[a].region = first.region;
    c->d->ops[a].chunk = first.chunk;
    c->d->ops[b].region = second.region;
    c->d->ops[b].chunk = second.chunk;
    for (int o = 0; o < c->d->op_count; o++)
        for (int w = 0; w < c->d->ops[o].wait_count; w++) {
            int *op = &c->d->ops[o].waits[w].op;
            *op = *op == a ? b : *op == b ? a : *op;
        }
    PhaseSchedule *p = &c->s->phases[c->phase];
    for (int k = 0; k < p->collective_count; k++) {
        int *op = &p->collectives[k].ops[c->device];
        *op = *op == a ? b : *op == b ? a : *op;
    }
}

static bool swap_neighbours(Change *c)
{
    if (!c->d->op_count)
        return false;
    int a = random_below(c->random, c->d->op_count), b = a + 1;
    while (b < c->d->op_count && c->d->ops[b].lane != c->d->ops[a].lane)
        b++;
    if (b == c->d->op_count)
        return false;
    c->what = format("%s and %s change places", changed_op(c, a), changed_op(c, b));
    swap_ops(c, a, b);
    return true;
}

static bool swap_lanes(Change *c)
{
    int a = c->d->op_count > 1 ? random_below(c->random, c->d->op_count - 1) : -1;
    if (a < 0 || c->d->ops[a].lane == c->d->ops[a + 1].lane)
        return false;
    ScheduledOp first = c->d->ops[a], second = c->d->ops[a + 1];
    c->what = format("%s and %s change places in the list", changed_op(c, a), changed_op(c, a + 1));
    swap_ops(c, a, a + 1);
    c->d->ops[a].region = second.region;
    c->d->ops[a].chunk = second.chunk;
    c->d->ops[a + 1].region = first.region;
    c->d->ops[a + 1].chunk = first.chunk;
    return true;
}

bool is_own(const Buffer *b) { return b->kind == BUFFER_WORKSPACE || b->kind == BUFFER_LOCAL; }

/* a change to a buffer that persists is made in all phases three times of four */
static bool change_buffer(Change *c, int buffer, int64_t offset, int64_t bytes, int slots)
{
    Buffer *b = &c->d->buffers[buffer];
    bool persistent = b->kind != BUFFER_TEMPORARY && b->kind != BUFFER_BUCKET && !is_own(b);
    bool everywhere = persistent && random_below(c->random, 4) > 0;
    if (offset == b->offset && bytes == b->bytes && slots == b->slots)
        return false;
    c->what =
        format("d%d.%s moves from %lld, %d x %lld bytes to %lld, %d x %lld bytes%s", c->device, b->name, (long long)b->offset,
               b->slots, (long long)b->bytes, (long long)offset, slots, (long long)bytes, everywhere ? " in all phases" : "");
    const char *name = b->name;
    for (int p = 0; p < c->s->phase_count; p++) {
        if (p != c->phase && !everywhere)
            continue;
        DeviceSchedule *d = p == c->phase ? c->d : own_device(c->s, p, c->device);
        for (int i = 0; i < d->buffer_count; i++)
            if (strcmp(d->buffers[i].name, name) == 0) {
                d->buffers[i].offset = offset;
                d->buffers[i].bytes = bytes;
                d->buffers[i].slots = slots;
            }
    }
    return true;
}

static bool shift_buffer(Change *c)
{
    if (!c->d->buffer_count)
        return false;
    int buffer = random_below(c->random, c->d->buffer_count);
    const Buffer *b = &c->d->buffers[buffer];
    int64_t offset = b->offset;
    switch (random_below(c->random, 5)) {
    case 0: offset += 64; break;
    case 1: offset -= 64; break;
    case 2: offset += 4 * (1 + random_below(c->random, 15)); break;
    case 3: offset += 64 * (random_below(c->random, 65) - 32); break;
    case 4: offset = c->d->buffers[random_below(c->random, c->d->buffer_count)].offset; break;
    }
    return change_buffer(c, buffer, offset, b->bytes, b->slots);
}

static bool shrink_arena(Change *c)
{
    bool staging = random_below(c->random, 3) == 0;
    int64_t *bytes = staging ? &c->d->staging_bytes : &c->d->arena_bytes, by = 64 * (1 + random_below(c->random, 8));
    if (*bytes < by)
        return false;
    c->what = format("the %s of d%d has %lld bytes less", staging ? "staging arena" : "arena", c->device, (long long)by);
    *bytes -= by;
    return true;
}

/* What a kernel reads, and what it writes of a variable, is declared and trusted: a shorter access of that kind is another
 * program, not a wrong schedule. A shorter write of anything else leaves bytes that somebody reads, or nobody. */
static bool shrink_write(Change *c)
{
    ScheduledOp *op = &c->d->ops[random_below(c->random, c->d->op_count)];
    if (!op->write_count)
        return false;
    Access *a = &op->writes[random_below(c->random, op->write_count)];
    int64_t bytes = a->end - a->begin;
    if (bytes < 8 || c->d->buffers[a->buffer].kind == BUFFER_VARIABLE)
        return false;
    int64_t by = 4 * (1 + random_below(c->random, (int)(bytes < 4096 ? bytes / 4 - 1 : 1023)));
    c->what = format("%s writes %lld bytes less of %s", changed_op(c, (int)(op - c->d->ops)), (long long)by,
                     c->d->buffers[a->buffer].name);
    a->end -= by;
    return true;
}

static bool shrink_buffer(Change *c)
{
    if (!c->d->buffer_count || !c->d->op_count)
        return false;
    int buffer = random_below(c->random, c->d->buffer_count);
    const Buffer *b = &c->d->buffers[buffer];
    switch (random_below(c->random, 4)) {
    case 0:
        if (b->bytes == 0)
            return false;
        return change_buffer(c, buffer, b->offset, b->bytes - 1 - random_below(c->random, (int)(b->bytes < 64 ? b->bytes : 64)),
                             b->slots);
    case 1: return b->slots > 1 && change_buffer(c, buffer, b->offset, b->bytes, b->slots - 1);
    case 2: return shrink_arena(c);
    default: return shrink_write(c);
    }
}

static bool change_samples(Change *c)
{
    int how = random_below(c->random, 5), by = 1 + random_below(c->random, 2);
    bool everywhere = random_below(c->random, 3) > 0;
    if (random_below(c->random, 2))
        by = -by;
    if ((how == 1 || how == 2) && c->d->share + by < 0)
        return false;
    int other = c->device == 0 ? 1 : c->device - 1;
    if (how == 4 && (c->s->devices < 2 || c->d->share + by < 0 || c->s->phases[c->phase].devices[other].share - by < 0))
        return false;
    static const char *const HOW[] = {"the first sample of d%d moves by %d%s", "d%d has %+d samples%s",
                                      "d%d begins %d later and has as many less%s", "d%d has room for %+d samples%s",
                                      "d%d takes %d samples of another device%s"};
    for (int p = 0; p < c->s->phase_count; p++) {
        if (p != c->phase && !everywhere)
            continue;
        if (p != c->phase)
            own_device(c->s, p, c->device);
        DeviceSchedule *d = &c->s->phases[p].devices[c->device], *from = how == 4 ? &c->s->phases[p].devices[other] : NULL;
        switch (how) {
        case 0: d->first += by; break;
        case 1: d->share += by; break;
        case 2: d->first -= by, d->share += by; break;
        case 3: d->capacity += by; break;
        case 4:
            d->share += by;
            from->share -= by;
            (other > c->device ? from : d)->first += other > c->device ? by : -by;
            from->capacity = from->share > 1 ? from->share : 1;
            break;
        }
        if (how != 3)
            d->capacity = d->share > 1 ? d->share : 1;
    }
    c->what = format(HOW[how], c->device, by, everywhere ? " in all phases" : "");
    return true;
}

static bool change_collective(Change *c)
{
    int o;
    PhaseSchedule *p = &c->s->phases[c->phase];
    if (c->s->devices < 2 || !pick_op(c, reduces, &o))
        return false;
    int target = c->d->ops[o].target, next = o + 1;
    while (next < c->d->op_count && c->d->ops[next].verb != VERB_TRANSFER)
        next++;
    int how = next < c->d->op_count ? random_below(c->random, 3) : 0;
    if (how == 0) {
        c->what = format("%s is skipped", changed_op(c, o));
        remove_op(c, o);
    } else if (how == 1) {
        c->what = format("the collectives %s and %s change places", changed_op(c, o), changed_op(c, next));
        swap_ops(c, o, next);
    } else {
        int other = c->d->ops[next].target;
        c->what = format("%s and %s belong to each other's collectives", changed_op(c, o), changed_op(c, next));
        c->d->ops[o].target = other;
        c->d->ops[next].target = target;
        p->collectives[target].ops[c->device] = next;
        p->collectives[other].ops[c->device] = o;
    }
    return true;
}

static bool wrong_slot(Change *c)
{
    int o;
    if (!pick_op(c, uses_slots, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    int k;
    Access *a;
    do {
        k = random_below(c->random, op->read_count + op->write_count);
        a = k < op->read_count ? &op->reads[k] : &op->writes[k - op->read_count];
    } while (!has_slots(c, a));
    int slots = c->d->buffers[a->buffer].slots, by = random_below(c->random, 2 * slots) - slots;
    by += by >= 0;
    c->what = format("%s %s slot %+d of %s, not %+d", changed_op(c, o), k < op->read_count ? "reads" : "writes", a->slot + by,
                     c->d->buffers[a->buffer].name, a->slot);
    a->slot += by;
    return true;
}

static bool wrong_step(Change *c)
{
    int o;
    if (!pick_op(c, waits_for_something, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    Wait *w = &op->waits[random_below(c->random, op->wait_count)];
    int back = random_below(c->random, 4);
    if (back == w->back)
        return false;
    c->what = format("%s waits for %s@-%d, not @-%d", changed_op(c, o), changed_op(c, w->op), back, w->back);
    w->back = back;
    return true;
}

static bool add_wait(Change *c)
{
    if (!c->d->op_count)
        return false;
    int o = random_below(c->random, c->d->op_count);
    ScheduledOp *op = &c->d->ops[o];
    Wait *waits = NEW_ARRAY(Wait, op->wait_count + 1), wait = {random_below(c->random, c->d->op_count), 0};
    if (random_below(c->random, 4) == 0)
        wait.back = random_below(c->random, 3);
    for (int w = 0; w < op->wait_count; w++)
        waits[w] = op->waits[w];
    waits[op->wait_count++] = wait;
    op->waits = waits;
    c->what = format("%s waits for %s@-%d too", changed_op(c, o), changed_op(c, wait.op), wait.back);
    return true;
}

static bool change_lane(Change *c)
{
    int o;
    if (!pick_op(c, reduces, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    op->lane = op->lane == LANE_COMM ? LANE_SYNC : LANE_COMM;
    c->what = format("%s moves to lane %s", changed_op(c, o), LANE_NAME[op->lane]);
    return true;
}

/* ---- regions */

static bool merge_regions(Change *c)
{
    int o;
    if (!pick_op(c, begins_next_region, &o))
        return false;
    const ScheduledOp *before = &c->d->ops[call_before(c, &c->d->ops[o])];
    int region = c->d->ops[o].region, to = before->region;
    c->what = format("the region of %s becomes one with that of %s", changed_op(c, o), changed_op(c, (int)(before - c->d->ops)));
    for (int i = 0; i < c->d->op_count; i++)
        if (c->d->ops[i].verb == VERB_CALL && c->d->ops[i].region == region) {
            c->d->ops[i].region = to;
            c->d->ops[i].chunk = before->chunk;
        }
    return true;
}

static bool move_call(Change *c)
{
    int o;
    if (!pick_op(c, begins_next_region, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o], *before = &c->d->ops[call_before(c, op)];
    ScheduledOp *moved = random_below(c->random, 2) ? op : before, *other = moved == op ? before : op;
    c->what = format("%s moves into the region of %s", changed_op(c, (int)(moved - c->d->ops)),
                     changed_op(c, (int)(other - c->d->ops)));
    moved->region = other->region;
    moved->chunk = other->chunk;
    return true;
}

static bool works_by_sample(const Change *c, const ScheduledOp *op)
{
    (void)c;
    return op->by_sample;
}

static bool drop_samples(Change *c)
{
    int o;
    if (!pick_op(c, works_by_sample, &o))
        return false;
    ScheduledOp *op = &c->d->ops[o];
    if (random_below(c->random, 2)) {
        c->what = format("%s does not work sample by sample", changed_op(c, o));
        op->by_sample = false;
        return true;
    }
    int k = random_below(c->random, op->read_count + op->write_count);
    Buffer *b = &c->d->buffers[(k < op->read_count ? &op->reads[k] : &op->writes[k - op->read_count])->buffer];
    if (b->each == 0)
        return false;
    c->what = format("d%d.%s does not consist of samples", c->device, b->name);
    for (int p = 0; p < c->s->phase_count; p++) { /* that which persists in any phase, on any device */
        for (int d = 0; d < c->s->devices; d++) {
            if ((p == c->phase && d == c->device) || b->kind == BUFFER_TEMPORARY || is_own(b))
                continue;
            DeviceSchedule *other = own_device(c->s, p, d);
            for (int i = 0; i < other->buffer_count; i++)
                if (strcmp(other->buffers[i].name, b->name) == 0)
                    other->buffers[i].each = 0;
        }
    }
    b->each = 0;
    return true;
}

static int buffer_of_region(const Change *c, int region) /* of any of its calls; -1: it touches none */
{
    int count = 0, buffer = -1;
    for (int o = 0; o < c->d->op_count; o++) {
        const ScheduledOp *op = &c->d->ops[o];
        for (int i = 0; op->verb == VERB_CALL && op->region == region && i < op->read_count + op->write_count; i++)
            if (random_below(c->random, ++count) == 0)
                buffer = (i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count])->buffer;
    }
    return buffer;
}

static bool overlap_in_region(Change *c)
{
    int o;
    if (!pick_op(c, follows_in_region, &o))
        return false;
    int moved = buffer_of_region(c, c->d->ops[o].region), to = buffer_of_region(c, c->d->ops[o].region);
    if (moved < 0 || moved == to || is_own(&c->d->buffers[moved]) != is_own(&c->d->buffers[to]))
        return false;
    const Buffer *b = &c->d->buffers[moved], *at = &c->d->buffers[to];
    int64_t by = at->bytes > 64 && random_below(c->random, 2) ? 64 * (int64_t)random_below(c->random, (int)(at->bytes / 64)) : 0;
    return change_buffer(c, moved, at->offset + by, b->bytes, b->slots);
}

/* a collective that no device takes part in any more is none */
static void remove_empty(Schedule *s, int phase)
{
    PhaseSchedule *p = &s->phases[phase];
    for (int k = p->collective_count - 1; k >= 0; k--) {
        bool empty = true;
        for (int d = 0; d < s->devices; d++)
            empty = empty && p->collectives[k].ops[d] < 0;
        if (!empty)
            continue;
        memmove(&p->collectives[k], &p->collectives[k + 1], sizeof *p->collectives * (size_t)(--p->collective_count - k));
        for (int d = 0; d < s->devices; d++)
            for (int o = 0; o < p->devices[d].op_count; o++)
                if (p->devices[d].ops[o].verb == VERB_TRANSFER && p->devices[d].ops[o].target > k)
                    p->devices[d].ops[o].target--;
    }
}

/* ---- transfers */

/* what a member sends and receives, after all have moved */
static void move_share(Change *c, const CollectiveRecord *x, int device, const mgpu_participants *before)
{
    DeviceSchedule *d = device == c->device ? c->d : own_device(c->s, c->phase, device);
    ScheduledOp *op = &d->ops[x->ops[device]];
    int64_t each = dtype_bytes(x->dtype), begin = op->reads[0].begin - mgpu_sent_by(before, x->count, device).begin * each;
    mgpu_range sent = mgpu_sent_by(&x->participants, x->count, device),
               received = mgpu_received_by(&x->participants, x->count, device);
    op->reads[0].begin = begin + sent.begin * each;
    op->reads[0].end = begin + sent.end * each;
    op->writes[0].begin = begin + received.begin * each;
    op->writes[0].end = begin + received.end * each;
}

static bool change_transfer(Change *c)
{
    int o;
    PhaseSchedule *p = &c->s->phases[c->phase];
    if (c->s->devices < 2 || !pick_op(c, reduces, &o))
        return false;
    COPY(p->collectives, p->collective_count);
    CollectiveRecord *x = &p->collectives[c->d->ops[o].target];
    mgpu_participants *parties = &x->participants, before = *parties;
    int how = random_below(c->random, 4), d = random_below(c->random, c->s->devices - 1) + 1, by = random_below(c->random, 9) - 4;
    if (how == 0) {
        parties->transfer = (uint8_t)random_below(c->random, MGPU_TRANSFERS);
        if (mgpu_transfer_splits(parties->transfer) && !parties->parts) {
            int64_t *parts = NEW_ARRAY(int64_t, c->s->devices + 1);
            for (int i = 0; i <= c->s->devices; i++)
                parts[i] = x->count * i / c->s->devices;
            parties->parts = parts;
        }
    } else if ((how == 1 || how == 3) && parties->parts) {
        int64_t *parts = copy_array(parties->parts, sizeof *parts * (size_t)(c->s->devices + 1));
        parts[d] += by;
        parties->parts = parts;
        for (int k = 0; k < c->s->devices && how == 3; k++)
            move_share(c, x, k, &before);
    } else if (how == 2 && mgpu_transfer_row(parties->transfer)->ends > 0) {
        *(random_below(c->random, 2) ? &parties->from : &parties->to) = random_below(c->random, c->s->devices + 1);
    }
    c->what = format("%s %s: %s, from %d to %d, part %d moved by %d", mgpu_transfer_row(before.transfer)->kind, x->name,
                     mgpu_transfer_row(parties->transfer)->kind, parties->from, parties->to, d,
                     parties->parts != before.parts ? by : 0);
    return before.transfer != parties->transfer || before.from != parties->from || before.to != parties->to ||
           (parties->parts != before.parts && by);
}

/* ---- of whole phases */
static bool drop_phase(Change *c)
{
    c->what = "it is missing";
    for (int p = c->phase; p + 1 < c->s->phase_count; p++)
        c->s->phases[p] = c->s->phases[p + 1];
    return --c->s->phase_count > 0;
}

static bool rename_phase(Change *c)
{
    static const char *const NAMES[] = {"train.full", "train.partial", "eval.full", "predict.full", "report.eval"};
    const char *name = NAMES[random_below(c->random, COUNT(NAMES))];
    c->what = format("it is called %s", name);
    for (int p = 0; p < c->s->phase_count; p++)
        if (strcmp(c->s->phases[p].name, name) == 0)
            return false;
    c->s->phases[c->phase].name = name;
    return true;
}

static bool exchange_phases(Change *c)
{
    PhaseSchedule *a = &c->s->phases[c->phase], *b = &c->s->phases[random_below(c->random, c->s->phase_count)], other = *b;
    c->what = format("it and %s are exchanged", b->name);
    if (a == b)
        return false;
    const char *name = a->name;
    *b = *a;
    *a = other;
    b->name = other.name;
    a->name = name;
    return true;
}

/* the program that the schedule says it is has no such phases either */
static bool drop_training(Change *c)
{
    Schedule *s = c->s;
    int kept = 0, stated = 0;
    COPY(s->phase_digests, s->phase_digest_count);
    for (int p = 0; p < s->phase_count; p++)
        if (!strncmp(s->phases[p].name, "init", 4) || !strncmp(s->phases[p].name, "eval", 4) ||
            !strncmp(s->phases[p].name, "predict", 7))
            s->phases[kept++] = s->phases[p];
    for (int p = 0; p < s->phase_digest_count; p++)
        for (int k = 0; k < kept; k++)
            if (strcmp(s->phase_digests[p].phase, s->phases[k].name) == 0)
                s->phase_digests[stated++] = s->phase_digests[p];
    bool dropped = kept < s->phase_count && !s->predicts;
    c->what = "no phase trains";
    s->phase_count = kept;
    s->phase_digest_count = stated;
    return dropped && kept > 0;
}

Schedule *mutate(const Schedule *s, Mutation kind, bool everywhere, Random *random, const char **what, int *phase)
{
    static bool (*const MAKE[MUTATIONS])(Change *) = {
        drop_wait,      swap_neighbours, shift_buffer,    shrink_buffer,  change_samples,    change_collective, wrong_slot,
        wrong_step,     merge_regions,   move_call,       drop_samples,   overlap_in_region, add_wait,          change_lane,
        swap_arguments, change_kernel,   drop_call,       drop_operation, drop_argument,     wrong_argument,    shrink_argument,
        change_dtype,   exchange_index,  change_transfer, change_part,    drop_gather,       late_gather,       free_early,
        cut_segment,    swap_lanes,      drop_phase,      rename_phase,   exchange_phases,   drop_training};
    Change c = {.s = copy_schedule(s), .phase = random_below(random, s->phase_count)};
    const char *name = s->phases[c.phase].name;
    int first = everywhere ? 0 : random_below(random, s->devices),
        last = everywhere && kind != CHANGE_DTYPE && kind < DROP_PHASE ? s->devices - 1 : first;
    Random same = *random; /* devices have equal lists of operations and buffers, so equal draws make the same change */
    for (int d = first; d <= last; d++) {
        Random own = same;
        c.device = d;
        c.random = &own;
        c.d = own_device(c.s, c.phase, d);
        bool made = MAKE[kind](&c);
        *random = own;
        if (!made)
            return NULL;
    }
    if (everywhere && kind < DROP_PHASE)
        remove_empty(c.s, c.phase);
    *what =
        format("%s%s, phase %s: %s", MUTATION_NAME[kind], everywhere && s->devices > 1 ? " on all devices" : "", name, c.what);
    *phase = c.phase;
    return c.s;
}
