/* verify.c: proves a schedule from the schedule alone.
 *
 * In: a Schedule, read from text or just made. Out: NULL, or the first thing that is wrong, with the operations, the buffer and
 * the missing edge. Trusted: the table of kernels (that a kernel accesses what its parameters say, and no more), and that the
 * digests are those of the program.
 *
 * This file has the local rules, phase by phase and device by device:
 *   - every buffer is in its arena, its slots aligned; persistent buffers have one place in all phases, and nothing else is ever
 *     placed there (except in phases without an output, or without a variable that only `decode` accesses); workspaces, and
 *     nothing else, are in the last bytes of the arena, of which every worker has its own
 *   - what consists of samples has room for those of the device
 *   - accesses are in their buffers; an operation does not write what it reads, except in place
 *   - each verb is in its lane and accesses the kinds of buffers that it is for
 *   - the shards are contiguous, disjoint and together the micro-batch; each input is read and uploaded once a step, whole
 *   - every collective has one member per device, of its size, and all devices have the collectives in one order
 *   - the phases are those of the program, and each makes all calls of the program's phase of its name
 * verify/exact.c proves that sums of an exact program do not depend on the devices, verify/region.c that regions need no barriers
 * inside, verify/order.c finds cycles, verify/memory.c proves the order of all accesses, verify/calls.c and verify/values.c prove
 * that the calls are those of the program.
 *
 * Deadlocks: waits for earlier steps cannot close a cycle, so all is free of cycles if one step of one device is. With the
 * collectives in one order, a cycle over several devices would be one on a single device. A thread that issues the operations of
 * a device one after the other, as they are listed, waits for none that comes later (verify_issue). */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_LIMIT ((int64_t)1 << 60)
enum { SLOTS_LIMIT = 64, PHASES_LIMIT = 32 }; /* memory.c walks each pair of phases as often as there are slots */

typedef struct At {
    const Schedule *schedule;
    const PhaseSchedule *phase;
    const DeviceSchedule *device;
    int d;
} At;

static const char *bad(const At *at, const char *pattern, ...) PRINTF(2, 3);
static const char *bad(const At *at, const char *pattern, ...)
{
    char message[1000];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(message, sizeof message, pattern, arguments);
    va_end(arguments);
    return format("phase %s: %s", at->phase->name, message);
}

/* ---- verbs */

#define KIND(k) (1u << BUFFER_##k)
static const struct VerbRule {
    Lane lane;
    unsigned reads, writes;
} VERB_RULES[VERBS] = {
    [VERB_CALL] = {LANE_COMP, ~(KIND(STAGING) | KIND(WORKSPACE)), ~(KIND(STAGING) | KIND(STEP) | KIND(INPUT))},
    [VERB_READ] = {LANE_HOST, 0, KIND(STAGING)},
    [VERB_UPLOAD] = {LANE_COPY, KIND(STAGING), KIND(STEP) | KIND(INPUT)},
    [VERB_TRANSFER] = {LANE_COMM, ~(KIND(STAGING) | KIND(STEP) | KIND(INPUT) | KIND(WORKSPACE)),
                       ~(KIND(STAGING) | KIND(STEP) | KIND(INPUT) | KIND(WORKSPACE))},
    [VERB_REPORT] = {LANE_HOST, KIND(REPORT), 0},
    [VERB_FETCH] = {LANE_HOST, KIND(OUTPUT), 0},
};

/* ---- buffers */

/* The runtime has one arena for all phases. */
static const char *check_arenas(const At *at)
{
    const DeviceSchedule *d = at->device, *first = &at->schedule->phases[0].devices[at->d];
    if (d->arena_bytes != first->arena_bytes || d->work_bytes != first->work_bytes || d->staging_bytes != first->staging_bytes)
        return bad(at,
                   "device %d has an arena of %lld bytes, %lld of them for workspaces, and %lld of staging, in phase %s %lld, "
                   "%lld and %lld",
                   at->d, (long long)d->arena_bytes, (long long)d->work_bytes, (long long)d->staging_bytes,
                   at->schedule->phases[0].name, (long long)first->arena_bytes, (long long)first->work_bytes,
                   (long long)first->staging_bytes);
    return NULL;
}

static const char *check_buffers(const At *at)
{
    const DeviceSchedule *d = at->device;
    if (d->arena_bytes < 0 || d->arena_bytes > BYTES_LIMIT || d->staging_bytes < 0 || d->staging_bytes > BYTES_LIMIT)
        return bad(at, "device %d: an arena of %lld and %lld bytes", at->d, (long long)d->arena_bytes,
                   (long long)d->staging_bytes);
    if (d->work_bytes < 0 || d->work_bytes > d->arena_bytes || d->work_bytes % ALIGNMENT)
        return bad(at, "device %d: workspaces of %lld bytes in an arena of %lld", at->d, (long long)d->work_bytes,
                   (long long)d->arena_bytes);
    Map names = {0};
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        look_at(b->text_line);
        int64_t arena = b->kind == BUFFER_STAGING ? d->staging_bytes : d->arena_bytes;
        if (map_get(&names, b->name))
            return bad(at, "device %d has two buffers d%d.%s", at->d, at->d, b->name);
        map_set(&names, b->name, d->buffers + i);
        if (b->slots < 1 || b->slots > SLOTS_LIMIT || (b->slots > 1 && !buffer_is_slotted_kind(b)))
            return bad(at, "d%d.%s is a %s with %d slots", at->d, b->name, BUFFER_KIND_NAME[b->kind], b->slots);
        int64_t room = b->offset < 0 || b->bytes < 0 || b->offset > arena || b->bytes > arena ? -1 : arena - b->offset - b->bytes;
        if (room < 0 || (b->slots > 1 && slot_stride(b) > room / (b->slots - 1)))
            return bad(at, "d%d.%s, %d x %lld bytes at %lld, is outside its arena of %lld bytes", at->d, b->name, b->slots,
                       (long long)b->bytes, (long long)b->offset, (long long)arena);
        if (b->offset % ALIGNMENT)
            return bad(at, "d%d.%s is at %lld, which is not a multiple of %d", at->d, b->name, (long long)b->offset, ALIGNMENT);
        int64_t work = d->arena_bytes - d->work_bytes, end = b->offset + (b->slots - 1) * slot_stride(b) + b->bytes;
        if (b->bytes > 0 && (b->kind == BUFFER_WORKSPACE || b->kind == BUFFER_LOCAL) && b->offset < work)
            return bad(at, "d%d.%s is at [%lld, %lld), but workspaces in the last %lld bytes of the arena, from %lld on", at->d,
                       b->name, (long long)b->offset, (long long)end, (long long)d->work_bytes, (long long)work);
        if (b->bytes > 0 && b->kind != BUFFER_WORKSPACE && b->kind != BUFFER_LOCAL && b->kind != BUFFER_STAGING && end > work)
            return bad(at, "d%d.%s is at [%lld, %lld), but from %lld on every thread has its own bytes, for workspaces", at->d,
                       b->name, (long long)b->offset, (long long)end, (long long)work);
    }
    return NULL;
}

typedef struct PersistentSpan {
    const char *phase;
    const Buffer *buffer;
    int64_t begin, end;
    bool *in, lasts;
} PersistentSpan; /* of a persistent buffer: the phases that have it; whether other phases must not use its place */

static int compare_bodies(const void *a, const void *b)
{
    const PersistentSpan *x = *(PersistentSpan *const *)a, *y = *(PersistentSpan *const *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static PersistentSpan body_of(const At *at, const Buffer *b)
{
    return (PersistentSpan){at->phase->name, b, b->offset, b->offset + (b->slots - 1) * slot_stride(b) + b->bytes, NULL, false};
}

/* An overwritten buffer loses nothing if it is an output, which has been fetched, or a variable that only `decode` accesses. */
static void find_lasting(const At *at, const Map *known, bool lasts)
{
    for (int o = 0; (strcmp(at->phase->name, phase_name(PHASE_DECODE, false)) != 0) == lasts && o < at->device->op_count; o++) {
        const ScheduledOp *op = &at->device->ops[o];
        for (int i = 0; i < op->read_count + op->write_count; i++) {
            const Access *a = i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
            const Buffer *b = a->buffer >= 0 && a->buffer < at->device->buffer_count ? &at->device->buffers[a->buffer] : NULL;
            PersistentSpan *kept = b ? map_get(known, b->name) : NULL;
            if (kept && b->kind == BUFFER_VARIABLE)
                kept->lasts = lasts;
        }
    }
}

static const char *overlap(const PersistentSpan *a, const PersistentSpan *b, int d)
{
    return format("phase %s: d%d.%s is at [%lld, %lld), over d%d.%s at [%lld, %lld), which keeps its place in all phases",
                  b->phase, d, b->buffer->name, (long long)b->begin, (long long)b->end, d, a->buffer->name, (long long)a->begin,
                  (long long)a->end);
}

/* Checks that persistent buffers have one place, where no phase has another buffer. */
static const char *check_persistent(const Schedule *s, int d)
{
    Map known = {0};
    PersistentSpan **kept[2] = {NULL, NULL}; /* arena, staging */
    int count[2] = {0, 0};
    for (int p = 0; p < s->phase_count; p++) {
        At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
        for (int i = 0; i < at.device->buffer_count; i++) {
            const Buffer *b = &at.device->buffers[i];
            look_at(b->text_line);
            if (!buffer_is_persistent(b))
                continue;
            PersistentSpan *first = map_get(&known, b->name);
            if (first) {
                first->in[p] = true;
                const Buffer *f = first->buffer;
                if (f->kind != b->kind || f->offset != b->offset || f->bytes != b->bytes || f->slots != b->slots)
                    return bad(&at, "d%d.%s is a %s of %d x %lld bytes at %lld, but in phase %s a %s of %d x %lld bytes at %lld",
                               d, b->name, BUFFER_KIND_NAME[b->kind], b->slots, (long long)b->bytes, (long long)b->offset,
                               first->phase, BUFFER_KIND_NAME[f->kind], f->slots, (long long)f->bytes, (long long)f->offset);
                if (f->elements != b->elements)
                    return bad(&at, "d%d.%s is the own part of %lld elements, but in phase %s of %lld", d, b->name,
                               (long long)b->elements, first->phase, (long long)f->elements);
                if (f->each != b->each)
                    return bad(&at, "d%d.%s has %lld bytes a sample, but in phase %s %lld", d, b->name, (long long)b->each,
                               first->phase, (long long)f->each);
                continue;
            }
            PersistentSpan *r = NEW(PersistentSpan);
            *r = body_of(&at, b);
            r->lasts = b->kind != BUFFER_OUTPUT;
            r->in = NEW_ARRAY(bool, s->phase_count);
            r->in[p] = true;
            map_set(&known, b->name, r);
            int arena = b->kind == BUFFER_STAGING;
            if (b->bytes > 0)
                APPEND(kept[arena], count[arena], r);
        }
    }
    for (int i = 0; i < 2 * s->phase_count; i++) { /* `decode` first */
        int p = i % s->phase_count;
        At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
        find_lasting(&at, &known, i >= s->phase_count);
    }
    for (int arena = 0; arena < 2; arena++) {
        if (count[arena])
            qsort(kept[arena], (size_t)count[arena], sizeof(PersistentSpan *), compare_bodies);
        for (int i = 1; i < count[arena]; i++)
            if (kept[arena][i]->begin < kept[arena][i - 1]->end)
                return overlap(kept[arena][i - 1], kept[arena][i], d);
    }
    for (int p = 0; p < s->phase_count; p++) {
        At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
        for (int i = 0; i < at.device->buffer_count; i++) {
            const Buffer *b = &at.device->buffers[i];
            look_at(b->text_line);
            if (buffer_is_persistent(b) || b->bytes == 0)
                continue;
            PersistentSpan r = body_of(&at, b);
            int low = 0, high = count[0]; /* the first that ends after r.begin */
            while (low < high) {
                int middle = (low + high) / 2;
                if (kept[0][middle]->end > r.begin)
                    high = middle;
                else
                    low = middle + 1;
            }
            for (; low < count[0] && kept[0][low]->begin < r.end; low++)
                if (kept[0][low]->in[p] || kept[0][low]->lasts)
                    return overlap(kept[0][low], &r, d);
        }
    }
    return NULL;
}

/* ---- operations */

static const char *check_access(const At *at, const ScheduledOp *op, const Access *a, bool write)
{
    const char *does = write ? "writes" : "reads";
    if (a->buffer < 0 || a->buffer >= at->device->buffer_count)
        return bad(at, "d%d.%s %s buffer number %d, which does not exist", at->d, op->id, does, a->buffer);
    const Buffer *b = &at->device->buffers[a->buffer];
    if (a->begin < 0 || a->begin > a->end || a->end > b->bytes)
        return bad(at, "d%d.%s %s %s [%lld, %lld), which has %lld bytes", at->d, op->id, does, b->name, (long long)a->begin,
                   (long long)a->end, (long long)b->bytes);
    if (a->slot < -b->slots || a->slot > b->slots)
        return bad(at, "d%d.%s %s %s@%+d, which has %d slot%s", at->d, op->id, does, b->name, a->slot, b->slots,
                   b->slots == 1 ? "" : "s");
    unsigned may = write ? VERB_RULES[op->verb].writes : VERB_RULES[op->verb].reads;
    if (!(may >> b->kind & 1))
        return bad(at, "d%d.%s %s %s: %s is not for a %s buffer", at->d, op->id, does, b->name, VERB_NAME[op->verb],
                   BUFFER_KIND_NAME[b->kind]);
    return NULL;
}

/* Returns true if two accesses of one operation overlap; *same: they have the same bytes of one buffer. */
static bool accesses_overlap(const At *at, const Access *a, const Access *b, bool *same)
{
    const Buffer *x = &at->device->buffers[a->buffer], *y = &at->device->buffers[b->buffer];
    *same = a->buffer == b->buffer && a->begin == b->begin && a->end == b->end;
    if (a->begin == a->end || b->begin == b->end || (x->kind == BUFFER_STAGING) != (y->kind == BUFFER_STAGING))
        return false;
    if (a->buffer == b->buffer)
        return slot_of(x, 0, a->slot) == slot_of(x, 0, b->slot) && a->begin < b->end && b->begin < a->end;
    if (x->slots > 1 || y->slots > 1)
        return false; /* check_persistent keeps them apart */
    return x->offset + a->begin < y->offset + b->end && y->offset + b->begin < x->offset + a->end;
}

static const char *check_self(const At *at, const ScheduledOp *op)
{
    for (int i = 0; i < op->write_count; i++)
        for (int j = 0; j < op->read_count + i; j++) {
            const Access *w = &op->writes[i], *other = j < op->read_count ? &op->reads[j] : &op->writes[j - op->read_count];
            bool same;
            if (accesses_overlap(at, w, other, &same) && !(same && j < op->read_count))
                return bad(at, "d%d.%s writes %s over %s, which it %s too", at->d, op->id, at->device->buffers[w->buffer].name,
                           at->device->buffers[other->buffer].name, j < op->read_count ? "reads" : "writes");
        }
    return NULL;
}

/* Every input comes from the staging buffer of its index, whole; the step block may come from the host's record. */
static const char *check_upload(const At *at, const ScheduledOp *op)
{
    int matched = 0;
    for (int i = 0; i < op->write_count; i++) {
        const Access *a = &op->writes[i], *from = NULL;
        for (int j = 0; j < op->read_count && !from; j++)
            if (at->device->buffers[op->reads[j].buffer].index == at->device->buffers[a->buffer].index)
                from = &op->reads[j];
        if (from ? from->end - from->begin != a->end - a->begin : at->device->buffers[a->buffer].kind != BUFFER_STEP)
            return bad(at, "d%d.%s uploads %s, but reads no staging buffer of its input and size", at->d, op->id,
                       at->device->buffers[a->buffer].name);
        matched += from != NULL;
    }
    if (matched != op->read_count)
        return bad(at, "d%d.%s reads %d staging buffers and uploads %d", at->d, op->id, op->read_count, matched);
    return NULL;
}

/* Reports are of this step, or with slot -1 of the previous one: those may run after a change of phase, where they cannot wait
 * for operations of this step. */
static const char *check_report(const At *at, const ScheduledOp *op)
{
    if (op->read_count != 1)
        return bad(at, "d%d.%s reads %d ranges: what the host takes is one", at->d, op->id, op->read_count);
    for (int i = 0; i < op->read_count; i++) {
        const char *name = at->device->buffers[op->reads[i].buffer].name;
        int slot = op->reads[i].slot;
        if ((slot != 0 && slot != -1) || slot != op->reads[0].slot)
            return bad(at, "d%d.%s reads slot %+d of %s: it reports this step (0) or the one before (-1)", at->d, op->id, slot,
                       name);
        for (int w = 0; slot == -1 && w < op->wait_count; w++)
            if (op->waits[w].back == 0)
                return bad(at, "d%d.%s reads %s of the step before, but waits for d%d.%s of this one", at->d, op->id, name, at->d,
                           at->device->ops[op->waits[w].op].id);
    }
    return NULL;
}

static const char *check_verb(const At *at, const ScheduledOp *op)
{
    if (op->verb == VERB_TRANSFER && (op->read_count != 1 || op->write_count != 1 ||
                                      op->reads[0].buffer != op->writes[0].buffer || op->reads[0].slot != op->writes[0].slot))
        return bad(at, "d%d.%s does not send and receive in one place of one buffer", at->d, op->id);
    if (op->verb == VERB_UPLOAD)
        return check_upload(at, op);
    if (op->verb == VERB_REPORT || op->verb == VERB_FETCH)
        return check_report(at, op);
    return NULL;
}

/* Only calls have parts of Split values; a single device has all of them. */
static const char *check_part(const At *at, const ScheduledOp *op)
{
    const mgpu_range *own = &op->own;
    if (op->elements < 0 || op->elements > BYTES_LIMIT / 8 || (op->elements && op->verb != VERB_CALL) || own->begin < 0 ||
        own->begin > own->end || own->end > op->elements ||
        (op->elements && at->schedule->devices == 1 && own->end - own->begin != op->elements))
        return bad(at, "d%d.%s computes elements [%lld, %lld) of %lld", at->d, op->id, (long long)own->begin, (long long)own->end,
                   (long long)op->elements);
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        const Access *a = i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
        if (a->of < 0 || (a->of && (!op->elements || a->of % op->elements)))
            return bad(at, "d%d.%s touches a part of %lld bytes of %s, but computes %lld elements", at->d, op->id,
                       (long long)a->of, at->device->buffers[a->buffer].name, (long long)op->elements);
    }
    return NULL;
}

static const char *check_ops(const At *at)
{
    const DeviceSchedule *d = at->device;
    Map names = {0};
    for (int o = 0; o < d->op_count; o++) {
        const ScheduledOp *op = &d->ops[o];
        look_at(op->text_line);
        const char *why = NULL;
        if (map_get(&names, op->id))
            return bad(at, "two operations d%d.%s", at->d, op->id);
        map_set(&names, op->id, d->ops + o);
        if ((unsigned)op->verb >= VERBS || (unsigned)op->lane >= LANES)
            return bad(at, "d%d.%s has no verb or no lane", at->d, op->id);
        if (op->verb == VERB_TRANSFER ? !mgpu_lane_transfers((int)op->lane) : op->lane != VERB_RULES[op->verb].lane)
            return bad(at, "d%d.%s: %s runs in lane %s, not %s", at->d, op->id, VERB_NAME[op->verb],
                       LANE_NAME[VERB_RULES[op->verb].lane], LANE_NAME[op->lane]);
        for (int i = 0; i < op->read_count && !why; i++)
            why = check_access(at, op, &op->reads[i], false);
        for (int i = 0; i < op->write_count && !why; i++)
            why = check_access(at, op, &op->writes[i], true);
        for (int i = 0; i < op->wait_count && !why; i++)
            if (op->waits[i].op < 0 || op->waits[i].op >= d->op_count || op->waits[i].back < 0)
                why = bad(at, "d%d.%s waits for operation number %d of %d steps before, which does not exist", at->d, op->id,
                          op->waits[i].op, op->waits[i].back);
        int workspaces = 0;
        for (int i = 0; i < op->write_count && !why; i++)
            workspaces += d->buffers[op->writes[i].buffer].kind == BUFFER_WORKSPACE;
        if (workspaces > 1)
            why = bad(at, "d%d.%s has %d workspaces, but a thread finds one only", at->d, op->id, workspaces);
        if (!why)
            why = check_verb(at, op);
        if (!why)
            why = check_part(at, op);
        if (!why && op->verb != VERB_TRANSFER) /* check_share knows the ranges of a collective's member */
            why = check_self(at, op);
        if (why)
            return why;
    }
    return NULL;
}

/* ---- inputs: READ fills every staging buffer once, UPLOAD fills every input and the step block */

static const char *check_inputs(const At *at)
{
    const DeviceSchedule *d = at->device;
    int *filled = NEW_ARRAY(int, d->buffer_count), *used = NEW_ARRAY(int, d->buffer_count);
    for (int o = 0; o < d->op_count; o++) {
        const ScheduledOp *op = &d->ops[o];
        look_at(op->text_line);
        for (int i = 0; i < op->read_count; i++)
            used[op->reads[i].buffer] = o + 1;
        for (int i = 0; i < op->write_count; i++) {
            const Access *a = &op->writes[i];
            const Buffer *b = &d->buffers[a->buffer];
            if (b->kind != BUFFER_STAGING && b->kind != BUFFER_STEP && b->kind != BUFFER_INPUT)
                continue;
            if (a->begin != 0 || a->end != b->bytes)
                return bad(at, "d%d.%s fills [%lld, %lld) of %s, which has %lld bytes: samples are missing", at->d, op->id,
                           (long long)a->begin, (long long)a->end, b->name, (long long)b->bytes);
            if (filled[a->buffer])
                return bad(at, "d%d.%s fills %s, which d%d.%s has filled in this step", at->d, op->id, b->name, at->d,
                           d->ops[filled[a->buffer] - 1].id);
            filled[a->buffer] = o + 1;
        }
    }
    for (int i = 0; i < d->buffer_count; i++) {
        const Buffer *b = &d->buffers[i];
        look_at(b->text_line);
        bool input = b->kind == BUFFER_STAGING || b->kind == BUFFER_STEP || b->kind == BUFFER_INPUT;
        if (input && b->bytes > 0 && used[i] && !filled[i])
            return bad(at, "d%d.%s reads %s, which nothing fills", at->d, d->ops[used[i] - 1].id, b->name);
        if (b->kind == BUFFER_STAGING && filled[i] && !used[i])
            return bad(at, "d%d.%s fills %s, which nothing uploads", at->d, d->ops[filled[i] - 1].id, b->name);
    }
    return NULL;
}

/* ---- samples */

/* Returns the samples of a buffer with samples: the device's own; of inputs, if the plan uploads whole batches, those of all
 * devices. */
static int64_t samples_held(const DeviceSchedule *d, const Buffer *b, int64_t whole)
{
    bool input = b->kind == BUFFER_INPUT || b->kind == BUFFER_STAGING;
    return input && whole ? whole : d->capacity > 0 ? d->capacity : 1;
}

/* 0: each device has only its own samples */
static int64_t whole_batch(const Schedule *s, int p)
{
    int64_t end = 1;
    for (int k = 0; k < s->devices; k++) {
        const DeviceSchedule *x = &s->phases[p].devices[k];
        end = x->first + x->capacity > end ? x->first + x->capacity : end;
    }
    return takes_whole_batch(s) ? end : 0;
}

static int64_t gcd(int64_t a, int64_t b) { return b == 0 ? a : gcd(b, a % b); }

static const char *check_shards(const Schedule *s, int p)
{
    int64_t next = 0, group = 0, whole = whole_batch(s, p);
    for (int d = 0; d < s->devices; d++) {
        At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
        const DeviceSchedule *now = at.device, *first = &s->phases[0].devices[d], *zero = &at.phase->devices[0];
        if (now->first != first->first || now->share != first->share || now->capacity != first->capacity)
            return bad(&at, "device %d has samples %lld..%lld, in phase %s %lld..%lld", d, (long long)now->first,
                       (long long)(now->first + now->share), s->phases[0].name, (long long)first->first,
                       (long long)(first->first + first->share));
        if (now->share < 0 || now->share > BYTES_LIMIT - next || now->capacity != (now->share > 1 ? now->share : 1))
            return bad(&at, "device %d has %lld samples and room for %lld", d, (long long)now->share, (long long)now->capacity);
        if (now->first != next)
            return bad(&at, "device %d begins with sample %lld of the micro-batch, the devices before it end at %lld: %s", d,
                       (long long)now->first, (long long)next,
                       now->first < next ? "samples are used twice" : "samples are dropped");
        next += now->share;
        group = gcd(group, now->share);
        for (int i = 0; i < now->buffer_count; i++) {
            const Buffer *b = &now->buffers[i];
            look_at(b->text_line);
            if (b->kind != BUFFER_INPUT || b->index < 0)
                continue;
            for (int j = 0; j < zero->buffer_count; j++) {
                const Buffer *z = &zero->buffers[j];
                int64_t room = samples_held(now, b, whole), zero_room = samples_held(zero, z, whole);
                if (z->kind == BUFFER_INPUT && z->index == b->index &&
                    (b->bytes % room || b->bytes / room != z->bytes / zero_room))
                    return bad(&at, "d%d.%s has %lld bytes for %lld samples, d0.%s %lld bytes for %lld", d, b->name,
                               (long long)b->bytes, (long long)room, z->name, (long long)z->bytes, (long long)zero_room);
            }
        }
    }
    /* micro = ceil(batch / accumulate), rounded up to a multiple of the group, which divides every share */
    At at = {s, &s->phases[p], NULL, 0};
    int64_t least = (s->batch + s->accumulate - 1) / s->accumulate;
    if (next < least || next - (group ? group : 1) >= least)
        return bad(&at, "the devices have %lld samples, a micro-batch has %lld: samples are %s", (long long)next,
                   (long long)least, next < least ? "dropped" : "used twice");
    return NULL;
}

/* Buffers with samples have each x capacity bytes; persistent ones have samples of one size on all devices. */
static const char *check_samples(const Schedule *s, int p)
{
    Map zero = {0};
    int64_t whole = whole_batch(s, p);
    for (int d = 0; d < s->devices; d++) {
        At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
        for (int i = 0; i < at.device->buffer_count; i++) {
            const Buffer *b = &at.device->buffers[i];
            look_at(b->text_line);
            bool may = b->kind == BUFFER_STAGING || b->kind == BUFFER_INPUT || b->kind == BUFFER_OUTPUT ||
                       b->kind == BUFFER_TEMPORARY || (b->kind == BUFFER_VARIABLE && phase_predicts(at.phase->name));
            if (b->kind == BUFFER_LOCAL) /* verify/region.c */
                continue;
            if (b->each < 0 || (b->each > 0 && !may))
                return bad(&at, "d%d.%s, a %s, has %lld bytes a sample", d, b->name, BUFFER_KIND_NAME[b->kind],
                           (long long)b->each);
            int64_t room = samples_held(at.device, b, whole);
            if (b->each > 0 && (b->bytes % b->each || b->bytes / b->each != room))
                return bad(&at, "d%d.%s has %lld bytes, %lld a sample, for %lld samples", d, b->name, (long long)b->bytes,
                           (long long)b->each, (long long)room);
            int64_t own = mgpu_even_part(b->elements, s->devices, d + 1) - mgpu_even_part(b->elements, s->devices, d);
            if (b->elements && ((b->kind != BUFFER_VARIABLE && b->kind != BUFFER_TEMPORARY) || !b->type || b->elements < 0 ||
                                b->elements > BYTES_LIMIT / 8 || b->bytes != own * dtype_bytes((Dtype)(b->type - 1))))
                return bad(&at, "d%d.%s, a %s, has %lld bytes, which are not the device's own part of %lld elements", d, b->name,
                           BUFFER_KIND_NAME[b->kind], (long long)b->bytes, (long long)b->elements);
            if (!may || !buffer_is_persistent(b))
                continue;
            const Buffer *other = map_get(&zero, b->name);
            if (!other)
                map_set(&zero, b->name, (void *)(uintptr_t)b);
            else if (other->each != b->each)
                return bad(&at, "d%d.%s has %lld bytes a sample, on another device %lld", d, b->name, (long long)b->each,
                           (long long)other->each);
        }
    }
    return NULL;
}

/* ---- collectives */

/* Checks that parts are consecutive, one for each device, and cover the value; and that the devices exist. */
static const char *check_participants(const At *at, const CollectiveRecord *c)
{
    const mgpu_participants *p = &c->participants;
    const mgpu_transfer *row = mgpu_transfer_row(p->transfer);
    int devices = at->schedule->devices;
    if (c->count < 0 || c->count > BYTES_LIMIT / 8)
        return bad(at, "collective %s of %lld %s", c->name, (long long)c->count, dtype_name(c->dtype));
    if (p->from < 0 || p->from >= devices || p->to < 0 || p->to >= devices || (row->ends > 1 && p->from == p->to))
        return bad(at, "%s %s is from device %d to %d of %d", row->kind, c->name, p->from, p->to, devices);
    for (int d = 0; p->parts && d <= devices; d++)
        if (p->parts[d] < (d ? p->parts[d - 1] : 0) || (d == 0 && p->parts[d] != 0) || (d == devices && p->parts[d] != c->count))
            return bad(at, "the parts of %s %s are not those of %lld elements: part %d begins at %lld", row->kind, c->name,
                       (long long)c->count, d, (long long)p->parts[d]);
    return NULL;
}

/* Checks that the member sends and receives its own part of the value; *begin: offset of the value in its buffer. */
static const char *check_share(const At *at, const ScheduledOp *op, const CollectiveRecord *c, int64_t *begin)
{
    const Access *reads = &op->reads[0], *writes = &op->writes[0];
    const char *buffer = at->device->buffers[reads->buffer].name, *kind = mgpu_transfer_row(c->participants.transfer)->kind;
    int64_t each = dtype_bytes(c->dtype);
    mgpu_range sent = mgpu_sent_by(&c->participants, c->count, at->d),
               received = mgpu_received_by(&c->participants, c->count, at->d);
    *begin = reads->begin - sent.begin * each;
    if (reads->end - *begin != sent.end * each)
        return bad(at, "d%d.%s reads %lld bytes of %s, but in %s %s it has %lld %s to send", at->d, op->id,
                   (long long)(reads->end - reads->begin), buffer, kind, c->name, (long long)(sent.end - sent.begin),
                   dtype_name(c->dtype));
    if (writes->begin - *begin != received.begin * each || writes->end - *begin != received.end * each)
        return bad(at, "d%d.%s writes [%lld, %lld) of %s, but in %s %s it receives elements [%lld, %lld) of what begins at %lld",
                   at->d, op->id, (long long)writes->begin, (long long)writes->end, buffer, kind, c->name,
                   (long long)received.begin, (long long)received.end, (long long)*begin);
    return NULL;
}

static const char *check_collectives(const Schedule *s, int p)
{
    const PhaseSchedule *phase = &s->phases[p];
    int *member = NEW_ARRAY(int, phase->collective_count), *first = NEW_ARRAY(int, phase->collective_count);
    int64_t *begins = NEW_ARRAY(int64_t, phase->collective_count); /* of device 0's member, in its buffer */
    int first_count = 0;
    for (int c = 0; c < phase->collective_count; c++) {
        const char *why = check_participants(&(At){s, phase, NULL, 0}, &phase->collectives[c]);
        if (why)
            return why;
    }
    for (int d = 0; d < s->devices; d++) {
        At at = {s, phase, &phase->devices[d], d};
        int count = 0;
        for (int c = 0; c < phase->collective_count; c++)
            member[c] = -1;
        for (int o = 0; o < at.device->op_count; o++) {
            const ScheduledOp *op = &at.device->ops[o];
            look_at(op->text_line);
            if (op->verb != VERB_TRANSFER)
                continue;
            if (op->target < 0 || op->target >= phase->collective_count)
                return bad(&at, "d%d.%s belongs to no collective", d, op->id);
            const CollectiveRecord *c = &phase->collectives[op->target];
            if (member[op->target] >= 0 || c->ops[d] != o)
                return bad(&at, "d%d.%s reduces in %s, whose member on device %d is d%d.%s", d, op->id, c->name, d, d,
                           at.device
                               ->ops[member[op->target] >= 0                             ? member[op->target]
                                     : c->ops[d] >= 0 && c->ops[d] < at.device->op_count ? c->ops[d]
                                                                                         : o]
                               .id);
            member[op->target] = o;
            int64_t begin;
            const char *why = check_share(&at, op, c, &begin);
            if (why)
                return why;
            if (op->lane != LANE_COMM &&
                (c->implementation == MGPU_IMPLEMENTATION_NCCL || c->implementation == MGPU_IMPLEMENTATION_ONE_SHOT))
                return bad(&at,
                           "d%d.%s is by %s in lane %s: two of its kernels at the same time may wait for each other, so all of "
                           "them are in lane comm",
                           d, op->id,
                           c->implementation == MGPU_IMPLEMENTATION_NCCL ? "NCCL" : mgpu_implementation_name(c->implementation),
                           LANE_NAME[op->lane]);
            if (d == 0)
                begins[op->target] = begin;
            const DeviceSchedule *zero = &phase->devices[0];
            if (d == 0)
                first[first_count++] = op->target;
            else if (count >= first_count || first[count] != op->target)
                return bad(&at,
                           "collective number %d is %s on device %d (d%d.%s), but %s on device 0: the devices would wait for "
                           "each other",
                           count + 1, c->name, d, d, op->id,
                           count < first_count ? phase->collectives[first[count]].name : "none");
            else if (strcmp(zero->buffers[zero->ops[c->ops[0]].reads[0].buffer].name,
                            at.device->buffers[op->reads[0].buffer].name) != 0)
                return bad(&at, "d%d.%s reduces %s, its partner d0.%s %s", d, op->id,
                           at.device->buffers[op->reads[0].buffer].name, zero->ops[c->ops[0]].id,
                           zero->buffers[zero->ops[c->ops[0]].reads[0].buffer].name);
            else if (op->lane != zero->ops[c->ops[0]].lane)
                return bad(&at, "d%d.%s is in lane %s, its partner d0.%s in lane %s", d, op->id, LANE_NAME[op->lane],
                           zero->ops[c->ops[0]].id, LANE_NAME[zero->ops[c->ops[0]].lane]);
            else if (zero->buffers[zero->ops[c->ops[0]].reads[0].buffer].offset != at.device->buffers[op->reads[0].buffer].offset)
                return bad(
                    &at,
                    "d%d.%s is at %lld of the arena, its partner d0.%s at %lld: what is transferred is at one offset on all devices",
                    d, at.device->buffers[op->reads[0].buffer].name, (long long)at.device->buffers[op->reads[0].buffer].offset,
                    zero->buffers[zero->ops[c->ops[0]].reads[0].buffer].name,
                    (long long)zero->buffers[zero->ops[c->ops[0]].reads[0].buffer].offset);
            else if (begins[op->target] != begin)
                return bad(&at, "%s begins at byte %lld of %s on device %d, at %lld on device 0", c->name, (long long)begin,
                           at.device->buffers[op->reads[0].buffer].name, d, (long long)begins[op->target]);
            count++;
        }
        for (int c = 0; c < phase->collective_count; c++)
            if (member[c] < 0)
                return look_at(phase->collectives[c].text_line),
                       bad(&at, "device %d has no member of collective %s: the others would wait for ever", d,
                           phase->collectives[c].name);
    }
    return NULL;
}

/* ---- all checks; each has its own memory */

static const char *check_device(const Schedule *s, int p, int d)
{
    At at = {s, &s->phases[p], &s->phases[p].devices[d], d};
    const char *why = check_buffers(&at);
    why = why ? why : check_arenas(&at);
    why = why ? why : check_ops(&at);
    return why ? why : check_inputs(&at);
}

static const char *check_phase(const Schedule *s, int p, int d)
{
    const char *why = d > 0 ? NULL : check_shards(s, p);
    why = why || d > 0 ? why : check_samples(s, p);
    return why || d > 0 ? why : check_collectives(s, p);
}

static const char *check_kept(const Schedule *s, int p, int d) { return p > 0 ? NULL : check_persistent(s, d); }
static const char *check_arena(const Schedule *s, int p, int d) { return p > 0 ? NULL : verify_memory(s, d); }

/* Checks that the phases are those of the program, and that each computes what the program's phase of its name does: a training
 * step is not an evaluation. */
static const char *check_phases(const Schedule *s)
{
    if (!s->phase_digest_count)
        return "the schedule does not say which phases the program has, as none of an earlier version does: write it anew with mgpuc --emit schedule, or "
               "compile the program anew";
    bool trains = false;
    for (int p = 0; p < s->phase_digest_count; p++)
        trains |= strncmp(s->phase_digests[p].phase, "train.", strlen("train.")) == 0;
    if (trains == s->predicts)
        return trains ? "the schedule is of a program that only predicts, but has a phase that trains"
                      : "the schedule has no phase that trains, and does not say that the program only predicts";
    for (int p = 0; p < s->phase_digest_count || p < s->phase_count; p++) {
        look_at(s->phases_line);
        if (p >= s->phase_count)
            return format("phase %s of the program is missing", s->phase_digests[p].phase);
        look_at(s->phases[p].text_line);
        if (p >= s->phase_digest_count || strcmp(s->phases[p].name, s->phase_digests[p].phase) != 0)
            return format("here is phase %s, but the program has %s", s->phases[p].name,
                          p < s->phase_digest_count ? s->phase_digests[p].phase : "no more phases");
        const DeviceSchedule *d = &s->phases[p].devices[0]; /* all devices run one program: verify_program */
        uint32_t digest = digest_phase(s->phases[p].name);
        for (int o = 0; o < d->op_count; o++)
            if (d->ops[o].verb == VERB_CALL)
                digest = digest_of_phase(digest, d->ops[o].digest);
        if (digest != s->phase_digests[p].digest)
            return format("phase %s computes something else than the program's phase of this name: its digest is %08x, not %08x",
                          s->phases[p].name, (unsigned)digest, (unsigned)s->phase_digests[p].digest);
    }
    return NULL;
}

static bool has_operations(const Schedule *s)
{
    for (int p = 0; p < s->phase_count; p++)
        for (int d = 0; d < s->devices; d++)
            if (s->phases[p].devices[d].op_count)
                return true;
    return false;
}

const char *verify(const Schedule *s)
{
    static const char *(*const CHECKS[])(const Schedule *, int phase, int device) = {
        check_device, check_kept,     check_phase,  verify_exact, verify_regions, check_arena,
        verify_issue, verify_program, verify_split, verify_bits,  verify_calls,   verify_values};
    look_at(s->model_line);
    if (s->devices < 1 || s->phase_count < 1 || s->batch < 1 || s->batch > BYTES_LIMIT || s->accumulate < 1)
        return "the schedule has no device, no phase or no batch";
    if (s->phase_count > PHASES_LIMIT)
        return format("%d phases are more than any program has: at most %d are proved", s->phase_count, PHASES_LIMIT);
    if (s->nodes < 1 || s->devices % s->nodes)
        return format("%d nodes share %d devices: each has equally many", s->nodes, s->devices);
    if (!has_operations(s))
        return "the schedule has no operation, so nothing is proved";
    for (int k = 0; k < COUNT(CHECKS); k++)
        for (int p = 0; p < s->phase_count; p++)
            for (int d = 0; d < s->devices; d++) {
                Memory *own = memory_new(), *outer = memory_use(own);
                look_at(s->phases[p].devices[d].text_line);
                const char *why = CHECKS[k](s, p, d);
                memory_use(outer);
                if (why) /* keeps the memory of the message */
                    return why;
                memory_free(own);
            }
    return check_phases(s);
}
