/* region.c: proves that the calls of a region need no barrier between them.
 *
 * In: one device of one phase. Out: NULL, or what is wrong.
 *
 * The workers of a device take their samples through all calls of a region, a chunk at a time. So one worker may be at the
 * region's last call while another is at its first, and their accesses are ordered only in this case: two calls that both work
 * sample by sample on the same buffer of samples access each sample in the same worker, one call after the other. Any other two
 * accesses of different calls to the same bytes, one of them a write, need a barrier, and so two regions. Local buffers belong to
 * a worker, which uses them for one chunk after the other. So only calls of one region that work by sample may access them, and
 * they must have room for a chunk.
 *
 * The accesses of a region are sorted by their first bytes and swept. Each has an owner, within which accesses are ordered: the
 * buffer, if it is accessed whole, has samples, and the call works by sample; else the call. An access conflicts with an earlier
 * one that overlaps it and has another owner. It is enough to keep the two that reach furthest, of different owners: n log n.
 *
 * verify/order.c checks what a region waits for, and that no wait leads from a region into itself. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <stdlib.h>

typedef struct ArenaUse {
    int64_t begin, end; /* in the arena, of step 0: slots of a buffer overlap in all steps or in none */
    int owner, op;
    const Access *access;
    bool write;
} ArenaUse;

typedef struct LastUses {
    const ArenaUse *first, *second;
} LastUses; /* the uses that reach furthest, of different owners */

typedef struct Regions {
    const Schedule *schedule;
    const PhaseSchedule *phase;
    const DeviceSchedule *device;
    int d;
    ArenaUse *uses;
} Regions;

bool same_region(const ScheduledOp *a, const ScheduledOp *b)
{
    return a->verb == VERB_CALL && b->verb == VERB_CALL && a->region == b->region;
}

/* ---- numbers */

static const char *check_numbers(const Regions *s)
{
    const ScheduledOp *last = NULL;
    const char *phase = s->phase->name;
    for (int o = 0; o < s->device->op_count; o++) {
        const ScheduledOp *op = &s->device->ops[o];
        look_at(op->text_line);
        if (op->verb != VERB_CALL) {
            if (op->region >= 0)
                return format("phase %s: d%d.%s is in region %d, but no call", phase, s->d, op->id, op->region);
            continue;
        }
        if (op->region < 0)
            return format("phase %s: d%d.%s is a call, but in no region", phase, s->d, op->id);
        if (op->chunk < 0)
            return format("phase %s: d%d.%s takes %lld samples at a time", phase, s->d, op->id, (long long)op->chunk);
        if (s->schedule->exact && op->by_sample && op->chunk == 0)
            return format(
                "phase %s: d%d.%s takes all samples at a time, but those of each virtual shard are computed by themselves", phase,
                s->d, op->id);
        if (last && op->region < last->region)
            return format("phase %s: d%d.%s of region %d comes after d%d.%s of region %d: regions ascend, and the calls of one "
                          "follow each other",
                          phase, s->d, op->id, op->region, s->d, last->id, last->region);
        if (last && op->region == last->region && op->chunk != last->chunk)
            return format("phase %s: d%d.%s takes %lld samples at a time through region %d, d%d.%s %lld", phase, s->d, op->id,
                          (long long)op->chunk, op->region, s->d, last->id, (long long)last->chunk);
        last = op;
    }
    return NULL;
}

/* ---- locals */

static bool is_local(const Regions *s, const Access *a) { return s->device->buffers[a->buffer].kind == BUFFER_LOCAL; }

static const char *check_local(const Regions *s, int op, const Access *a, int *region)
{
    const ScheduledOp *o = &s->device->ops[op];
    const Buffer *b = &s->device->buffers[a->buffer];
    const char *phase = s->phase->name;
    int64_t room = o->chunk < s->device->capacity ? o->chunk : s->device->capacity;
    if (b->bytes == 0)
        return NULL;
    if (o->verb != VERB_CALL || !o->by_sample || o->chunk == 0)
        return format("phase %s: d%d.%s touches %s, which is local to a chunk, but does not work on chunks of samples", phase,
                      s->d, o->id, b->name);
    if (a->begin != 0 || a->end != b->bytes || b->each <= 0 || b->bytes % b->each || b->bytes / b->each != room)
        return format("phase %s: d%d.%s touches [%lld, %lld) of %s, which has %lld bytes of %lld a sample, but a chunk has %lld "
                      "samples",
                      phase, s->d, o->id, (long long)a->begin, (long long)a->end, b->name, (long long)b->bytes,
                      (long long)b->each, (long long)room);
    if (*region >= 0 && *region != o->region)
        return format("phase %s: d%d.%s of region %d touches %s, which is local to region %d", phase, s->d, o->id, o->region,
                      b->name, *region);
    *region = o->region;
    return NULL;
}

static const char *check_locals(const Regions *s)
{
    const char *why = NULL;
    int *region = NEW_ARRAY(int, s->device->buffer_count);
    for (int i = 0; i < s->device->buffer_count; i++)
        region[i] = -1;
    for (int o = 0; o < s->device->op_count; o++) {
        const ScheduledOp *op = &s->device->ops[o];
        look_at(op->text_line);
        for (int i = 0; i < op->read_count + op->write_count && !why; i++) {
            const Access *a = i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
            if (is_local(s, a))
                why = check_local(s, o, a, &region[a->buffer]);
        }
    }
    return why;
}

/* ---- conflicts */

static bool by_sample(const Regions *s, const ArenaUse *u)
{
    const Buffer *b = &s->device->buffers[u->access->buffer];
    return s->device->ops[u->op].by_sample && b->each > 0 && u->access->begin == 0 && u->access->end == b->bytes &&
           b->bytes % b->each == 0 && b->bytes / b->each == s->device->capacity;
}

static void add_uses(Regions *s, int op, const Access *accesses, int access_count, bool write, int *count)
{
    for (int i = 0; i < access_count; i++) {
        const Access *a = &accesses[i];
        const Buffer *b = &s->device->buffers[a->buffer];
        int64_t slot = b->offset + slot_of(b, 0, a->slot) * slot_stride(b);
        ArenaUse u = {slot + a->begin, slot + a->end, op, op, a, write};
        if (is_local(s, a))
            u.owner = s->device->op_count + s->device->buffer_count;
        else if (by_sample(s, &u))
            u.owner = s->device->op_count + a->buffer;
        if (u.end > u.begin)
            s->uses[(*count)++] = u;
    }
}

static int compare_uses(const void *a, const void *b)
{
    const ArenaUse *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->write - y->write;
}

static void add_use(LastUses *r, const ArenaUse *u)
{
    if (!r->first || u->end > r->first->end) {
        if (r->first && r->first->owner != u->owner)
            r->second = r->first;
        r->first = u;
    } else if (u->owner != r->first->owner && (!r->second || u->end > r->second->end)) {
        r->second = u;
    }
}

static const ArenaUse *find_last_use(const LastUses *r, const ArenaUse *u)
{
    const ArenaUse *found = r->first && r->first->owner == u->owner ? r->second : r->first;
    return found && found->end > u->begin ? found : NULL;
}

static const char *missing_barrier(const Regions *s, const ArenaUse *a, const ArenaUse *b)
{
    const ArenaUse *then = a->op < b->op ? a : b, *now = a->op < b->op ? b : a;
    const ScheduledOp *first = &s->device->ops[then->op], *second = &s->device->ops[now->op];
    const Buffer *x = &s->device->buffers[then->access->buffer], *y = &s->device->buffers[now->access->buffer];
    Text t = {0};
    text_add(&t, "phase %s: d%d.%s %s %s", s->phase->name, s->d, second->id, now->write ? "writes" : "reads", y->name);
    if (x != y)
        text_add(&t, " over %s", x->name);
    text_add(&t, ", which d%d.%s of the same region %d %s: a barrier is missing between them", s->d, first->id, first->region,
             then->write ? "writes" : "reads");
    if (x == y && !by_sample(s, then) && !by_sample(s, now) && x->each == 0)
        text_add(&t, " (%s does not consist of samples)", x->name);
    else if (x == y)
        text_add(&t, " (d%d.%s does not take it sample by sample)", s->d, by_sample(s, then) ? second->id : first->id);
    return text_take(&t);
}

static const char *check_region(const Regions *s, int count)
{
    LastUses writes = {NULL, NULL}, all = {NULL, NULL};
    qsort(s->uses, (size_t)count, sizeof *s->uses, compare_uses);
    for (int i = 0; i < count; i++) {
        const ArenaUse *u = &s->uses[i], *other = find_last_use(u->write ? &all : &writes, u);
        if (other)
            return missing_barrier(s, other, u);
        add_use(&all, u);
        if (u->write)
            add_use(&writes, u);
    }
    return NULL;
}

const char *verify_regions(const Schedule *schedule, int phase, int device)
{
    Regions s = {schedule, &schedule->phases[phase], &schedule->phases[phase].devices[device], device, NULL};
    const ScheduledOp *ops = s.device->ops;
    int accesses = 0, count = 0, calls = 0, last = -1;
    const char *why = check_numbers(&s);
    if (!why)
        why = check_locals(&s);
    for (int o = 0; o < s.device->op_count; o++)
        accesses += ops[o].read_count + ops[o].write_count;
    s.uses = NEW_ARRAY(ArenaUse, accesses);
    for (int o = 0; o < s.device->op_count && !why; o++) {
        look_at(ops[o].text_line);
        if (ops[o].verb != VERB_CALL)
            continue;
        if (last >= 0 && !same_region(&ops[last], &ops[o])) {
            if (calls > 1)
                why = check_region(&s, count);
            count = calls = 0;
        }
        add_uses(&s, o, ops[o].reads, ops[o].read_count, false, &count);
        add_uses(&s, o, ops[o].writes, ops[o].write_count, true, &count);
        calls++;
        last = o;
    }
    return why ? why : calls > 1 ? check_region(&s, count) : NULL;
}
