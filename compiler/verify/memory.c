/* memory.c: proves that the memory of one device is used in order.
 *
 * Devices interact only in collectives. Every device has a member in each collective, all devices have them in the same order
 * (verify.c), and each device can begin them in that order (verify/order.c). So each device is proved separately.
 *
 * A walk executes steps in one possible order. Every event has a vector clock: how many events of each lane have completed when
 * it begins. For each range of bytes the walk stores the last write and, per lane, the last read since. They must have completed
 * when a new access begins (the method of FastTrack). Order is transitive, so a walk without an error proves that all conflicting
 * accesses of these steps are ordered in every execution, and that each read always sees the same write. That write is checked:
 *   temporary, bucket   written once in this step, through the same buffer; read after all calls that add to it in place, and
 *                       after its reduction if it has one. A collective may reduce the gaps between a bucket's members, which
 *                       nothing reads. What a collective receives, other devices have written
 *   staging, step, input   this step's READ / UPLOAD
 *   report, output      the step of the slot
 *   variable            the value before this step's update; of one that is replaced in part, the value after it
 * Whatever orders two events is in the steps between them. So it is enough to walk short sequences of phases:
 *   - each phase, back + slots + 1 times;
 *   - each pair of phases, each phase as often. When the phase changes, the lanes comp, comm and sync wait for each other, so
 *     only accesses of the copy and host lanes can conflict. These walks omit other operations, but not the order that they
 *     cause. Between phases that predict and others (phase_predicts), all lanes wait for each other, after the outstanding REPORT
 *     and FETCH;
 *   - each pair of phases with up to max(back, slots) empty steps between them. Steps of other phases order the two at least as
 *     much: a wait for an event of such a step implies that all older events of the lane have completed, as in an empty step. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

#include <stdlib.h>
#include <string.h>

typedef struct StepClock {
    int over[LANES]; /* number of events of the lane that have completed */
} StepClock;
typedef struct PastAccess {
    int index; /* of its event in its lane; -1: there is no access */
    int step, phase, op;
    bool gap; /* a REDUCE wrote bytes that no operation had written: gaps between a bucket's members */
    const Buffer *buffer;
} PastAccess;
typedef struct ByteRange { /* bytes with the same past accesses */
    int end;               /* the place after the range */
    PastAccess write, reads[LANES];
} ByteRange;

/* The set of places where ranges begin: a bit per place in level 0, and in the others a bit for each word of the level below. */
enum { LEVELS = 5 };
typedef struct Starts {
    uint64_t *level[LEVELS];
} Starts;

typedef struct Walk {
    const Schedule *schedule;
    int device, phases;
    StepGraph **graphs; /* [phase]; mixed walks: [phases] is the empty step */
    bool mixed;
    int64_t staging_base; /* first address of the staging arena */
    int64_t *addresses;
    int address_count; /* the places are the sorted bounds of accesses */
    int *places;       /* [Touch.first + 2 * slot]: where the access begins; the next: where it ends */
    ByteRange *runs;   /* [place]: the range that begins there */
    Starts starts;
    /* the sequence of steps */
    int step;            /* 1, 2, ... */
    int ring, *phase_of; /* [ring]: phase of step q at q % ring; -1: none */
    bool predicts;       /* the phase of the last step that was not empty predicts */
    StepClock **ends;    /* [ring][event]: clock when it has completed */
    StepClock lane_now[LANES];
    int lane_events[LANES];
} Walk;

/* ---- the set of places where ranges begin */

static void starts_set(Starts *s, int place)
{
    for (int l = 0; l < LEVELS; l++, place >>= 6)
        s->level[l][place >> 6] |= (uint64_t)1 << (place & 63);
}

static void starts_clear(Starts *s, int place)
{
    for (int l = 0; l < LEVELS; l++, place >>= 6)
        if (s->level[l][place >> 6] &= ~((uint64_t)1 << (place & 63)))
            return;
}

/* Returns the largest member that is at most `place`; 0 is always a member. */
static int starts_below(const Starts *s, int place)
{
    for (int l = 0; l < LEVELS; l++) {
        uint64_t word = s->level[l][place >> 6] & (~(uint64_t)0 >> (63 - (place & 63)));
        if (word) {
            place = (place & ~63) | (63 - __builtin_clzll(word));
            while (l-- > 0)
                place = place << 6 | (63 - __builtin_clzll(s->level[l][place]));
            return place;
        }
        place = (place >> 6) - 1;
        if (place < 0)
            break;
    }
    return 0;
}

/* ---- messages */

static const ScheduledOp *op_of_access(const Walk *w, const PastAccess *m)
{
    return &w->schedule->phases[m->phase].devices[w->device].ops[m->op];
}

/* Returns "t12 [1024, 2048)": the bytes of a range, relative to the accessed slot. */
static const char *bytes_text(const Walk *w, const Touch *t, int begin_place, int run)
{
    int64_t base = w->addresses[begin_place] - t->begin;
    int64_t begin = w->addresses[run] - base, end = w->addresses[w->runs[run].end] - base;
    return format("%s%s [%lld, %lld)", t->buffer->name, t->slot ? format("@%+d", t->slot) : "", (long long)begin,
                  (long long)(end < t->end ? end : t->end));
}

static const char *where(const Walk *w, const PastAccess *now, const PastAccess *then)
{
    const char *name = w->schedule->phases[now->phase].name;
    look_at(op_of_access(w, now)->text_line);
    if (!then || then->phase == now->phase)
        return format("phase %s", name);
    return format("phase %s, %d step%s after phase %s", name, now->step - then->step, now->step - then->step == 1 ? "" : "s",
                  w->schedule->phases[then->phase].name);
}

static const char *race(const Walk *w, const PastAccess *now, const Touch *t, const char *bytes, const PastAccess *then,
                        bool then_writes)
{
    const ScheduledOp *a = op_of_access(w, then), *b = op_of_access(w, now);
    int d = w->device, back = now->step - then->step;
    Text x = {0};
    text_add(&x, "%s: d%d.%s %s %s while d%d.%s", where(w, now, then), d, b->id, t->write ? "writes" : "reads", bytes, d, a->id);
    if (back)
        text_add(&x, "@-%d", back);
    text_add(&x, " may still %s %s: no wait orders them (d%d.%s should wait for ", then_writes ? "write" : "read",
             then->buffer->name, d, b->id);
    if (then->phase != now->phase)
        text_add(&x, "lane %s of %d step%s before)", LANE_NAME[a->lane], back, back == 1 ? "" : "s");
    else if (back)
        text_add(&x, "d%d.%s@-%d)", d, a->id, back);
    else
        text_add(&x, "d%d.%s)", d, a->id);
    return text_take(&x);
}

/* ---- accesses */

static bool is_over(const Walk *w, const StepClock *start, const PastAccess *m)
{
    return start->over[op_of_access(w, m)->lane] > m->index;
}

/* Returns true for a member of a collective that adds values of several devices; other transfers deliver complete values. */
static bool adds(const Walk *w, const PastAccess *m)
{
    const ScheduledOp *op = op_of_access(w, m);
    return op->verb == VERB_TRANSFER &&
           mgpu_transfer_row(w->schedule->phases[m->phase].collectives[op->target].participants.transfer)->adds;
}

static bool same_event(const PastAccess *a, const PastAccess *b)
{
    return a->step == b->step && a->op == b->op && a->phase == b->phase;
}

static bool touches_same(const Touch *t, const Buffer *buffers, const Access *a, int count)
{
    for (int i = 0; i < count; i++)
        if (&buffers[a[i].buffer] == t->buffer && a[i].begin == t->begin && a[i].end == t->end)
            return true;
    return false;
}

static bool writes_too(const Walk *w, const PastAccess *now, const Touch *t)
{
    const ScheduledOp *op = op_of_access(w, now);
    return touches_same(t, w->graphs[now->phase]->device->buffers, op->writes, op->write_count);
}

/* Returns NULL if the last write has the value that the read must see, else a message. */
static const char *wrong_value(const Walk *w, const PastAccess *now, const Touch *t, const char *bytes, const PastAccess *write)
{
    const ScheduledOp *reader = op_of_access(w, now), *writer = write->index >= 0 ? op_of_access(w, write) : NULL;
    int d = w->device;
    BufferKind kind = t->buffer->kind;
    if (kind == BUFFER_VARIABLE) {
        bool after = writer && write->step == now->step, replaced = t->buffer->replaced;
        if (replaced && !after && !w->mixed && !writes_too(w, now, t))
            return format("%s: d%d.%s reads %s before a call has replaced a part of it in this step", where(w, now, NULL), d,
                          reader->id, bytes);
        if (!replaced && after && writer->verb != VERB_TRANSFER && reader->verb != VERB_TRANSFER && !w->mixed)
            return format("%s: d%d.%s reads %s after d%d.%s has updated it in this step", where(w, now, NULL), d, reader->id,
                          bytes, d, writer->id);
        return NULL;
    }
    int step = now->step;
    if (kind == BUFFER_REPORT || kind == BUFFER_OUTPUT) {
        step += t->slot == -1 ? -1 : slot_back(t->buffer, t->slot);
        if (step < 1 || now->step - step >= w->ring || w->phase_of[step % w->ring] != now->phase)
            return NULL;
    } else if (w->mixed && !buffer_is_persistent(t->buffer)) {
        return NULL;
    }
    bool written = writer && write->step == step && strcmp(write->buffer->name, t->buffer->name) == 0;
    if ((written && !write->gap) || (adds(w, now) && kind == BUFFER_BUCKET))
        return NULL;
    const char *which = step == now->step       ? "this step"
                        : step == now->step - 1 ? "the step before"
                                                : format("the step %d steps before", now->step - step);
    if (!writer || written || write->step != now->step)
        return format("%s: d%d.%s reads %s, which nothing has written in %s", where(w, now, NULL), d, reader->id, bytes, which);
    return format("%s: d%d.%s reads %s, over which d%d.%s has written %s", where(w, now, NULL), d, reader->id, bytes, d,
                  writer->id, write->buffer->name);
}

/* Returns true if the call reads and writes these bytes of a temporary or bucket: it adds to what an earlier call has written. */
static bool adds_to(const Walk *w, const PastAccess *now, const Touch *t)
{
    const ScheduledOp *op = op_of_access(w, now);
    const Buffer *buffers = w->graphs[now->phase]->device->buffers;
    return op->verb == VERB_CALL && (t->buffer->kind == BUFFER_TEMPORARY || t->buffer->kind == BUFFER_BUCKET) &&
           touches_same(t, buffers, op->reads, op->read_count) && writes_too(w, now, t);
}

static const char *check_read(const Walk *w, const StepClock *start, const PastAccess *now, const Touch *t, int begin, int place)
{
    const PastAccess *write = &w->runs[place].write;
    if (write->index >= 0 && !is_over(w, start, write))
        return race(w, now, t, bytes_text(w, t, begin, place), write, true);
    BufferKind kind = t->buffer->kind;
    bool usual = kind == BUFFER_VARIABLE ? (write->index < 0 || write->step != now->step) != t->buffer->replaced
                                         : write->index >= 0 && write->step == now->step && write->buffer == t->buffer &&
                                               !write->gap && kind != BUFFER_REPORT && kind != BUFFER_OUTPUT;
    if (!usual)
        return wrong_value(w, now, t, bytes_text(w, t, begin, place), write);
    const PastAccess *read = &w->runs[place].reads[LANE_COMP];
    if (read->index >= 0 && read->step == now->step && read->buffer == t->buffer && !same_event(read, now) && adds_to(w, now, t))
        return format("%s: d%d.%s reads %s before d%d.%s has added to it", where(w, now, NULL), w->device,
                      op_of_access(w, read)->id, bytes_text(w, t, begin, place), w->device, op_of_access(w, now)->id);
    return NULL;
}

static const char *check_write(const Walk *w, const StepClock *start, const PastAccess *now, const Touch *t, int begin, int place)
{
    const ByteRange *run = &w->runs[place];
    const PastAccess *write = &run->write;
    int d = w->device;
    for (int lane = 0; lane < LANES; lane++) {
        const PastAccess *read = &run->reads[lane];
        if (read->index >= 0 && !same_event(read, now) && !is_over(w, start, read))
            return race(w, now, t, bytes_text(w, t, begin, place), read, false);
    }
    if (write->index >= 0 && !is_over(w, start, write))
        return race(w, now, t, bytes_text(w, t, begin, place), write, true);
    if (t->buffer->kind == BUFFER_WORKSPACE || (w->mixed && !buffer_is_slotted_kind(t->buffer)))
        return NULL;
    const ScheduledOp *writer = op_of_access(w, now);
    if (adds(w, now))
        for (int lane = 0; lane < LANES; lane++) {
            const PastAccess *read = &run->reads[lane];
            if (read->index >= 0 && read->step == now->step && !same_event(read, now) && read->buffer == t->buffer)
                return format("%s: d%d.%s reads %s before d%d.%s has summed it over the devices", where(w, now, NULL), d,
                              op_of_access(w, read)->id, bytes_text(w, t, begin, place), d, writer->id);
        }
    if (write->index < 0 || write->step != now->step || write->buffer != t->buffer)
        return NULL;
    Verb before = op_of_access(w, write)->verb;
    if (before == VERB_CALL && adds_to(w, now, t))
        return NULL;
    if (writer->verb == VERB_TRANSFER ? adds(w, now) && before == VERB_TRANSFER
                                      : before == VERB_CALL || t->buffer->kind != BUFFER_VARIABLE)
        return format("%s: d%d.%s writes %s, which d%d.%s has written in this step", where(w, now, NULL), d, writer->id,
                      bytes_text(w, t, begin, place), d, op_of_access(w, write)->id);
    return NULL;
}

static void split_run(Walk *w, int place)
{
    if (place == w->address_count - 1)
        return;
    int run = starts_below(&w->starts, place);
    if (run == place)
        return;
    w->runs[place] = w->runs[run];
    w->runs[run].end = place;
    starts_set(&w->starts, place);
}

static void set_write(ByteRange *run, int end, const PastAccess *mark, bool hollow)
{
    *run = (ByteRange){.end = end, .write = *mark};
    run->write.gap = hollow;
    for (int lane = 0; lane < LANES; lane++)
        run->reads[lane].index = -1;
}

static const char *touch(Walk *w, const StepClock *start, const PastAccess *now, Lane lane, const Touch *t)
{
    int slot = slot_of(t->buffer, now->step, t->slot);
    int begin = w->places[t->first + 2 * slot], end = w->places[t->first + 2 * slot + 1];
    split_run(w, begin);
    split_run(w, end);
    PastAccess mark = *now;
    mark.buffer = t->buffer;
    bool sums = t->write && t->buffer->kind == BUFFER_BUCKET && adds(w, now);
    for (int place = begin; place < end; place = w->runs[place].end) {
        const char *why = t->write ? check_write(w, start, &mark, t, begin, place) : check_read(w, start, &mark, t, begin, place);
        if (why)
            return why;
        if (!t->write)
            w->runs[place].reads[lane] = mark;
        else if (sums)
            set_write(&w->runs[place], w->runs[place].end, &mark,
                      w->runs[place].write.step != now->step || w->runs[place].write.buffer != t->buffer);
        else if (place != begin)
            starts_clear(&w->starts, place);
    }
    if (t->write && !sums)
        set_write(&w->runs[begin], end, &mark, false);
    return NULL;
}

/* ---- steps */

static void join(StepClock *a, const StepClock *b)
{
    for (int lane = 0; lane < LANES; lane++)
        if (b->over[lane] > a->over[lane])
            a->over[lane] = b->over[lane];
}

/* Adds the waits of an event of phase `g` in step w->step for earlier steps. */
static void join_waits(const Walk *w, const StepGraph *g, const Event *e, StepClock *start)
{
    for (int i = 0; i < e->wait_count; i++) {
        BackWait wait = g->waits[e->first_wait + i];
        int q = w->step - wait.back;
        if (q < 1)
            continue;
        const StepClock *ends = w->ends[q % w->ring];
        const StepGraph *other = w->graphs[w->phase_of[q % w->ring]];
        Lane lane = g->events[wait.event].lane;
        join(start, &ends[other == g ? wait.event : other->at[lane][other->length[lane] - 1]]);
    }
}

static const char *run_event(Walk *w, const StepGraph *g, const Event *e, StepClock *start, StepClock *end)
{
    PastAccess now = {.index = w->lane_events[e->lane]++, .step = w->step, .phase = g->phase, .op = e->op};
    *end = *start;
    end->over[e->lane] = now.index + 1;
    for (int i = 0; i < e->touch_count; i++) {
        const char *why = touch(w, start, &now, e->lane, &g->touches[e->first_touch + i]);
        if (why)
            return why;
    }
    return NULL;
}

/* Runs the outstanding REPORT and FETCH of the previous step, whose phase was another one. The host lane runs them in place of
 * this step's own, or at its end. */
static const char *run_pending(Walk *w, const StepGraph *before, StepClock *now)
{
    for (int i = 0; i < before->event_count; i++) {
        const Event *e = &before->events[i];
        if (!e->pending)
            continue;
        join_waits(w, before, e, now);
        const char *why = run_event(w, before, e, now, now);
        if (why)
            return why;
    }
    return NULL;
}

/* Models mgpu_engine_drain between the two phases. */
static const char *drain(Walk *w, const StepGraph *before)
{
    StepClock *host = &w->lane_now[LANE_HOST];
    const char *why = run_pending(w, before, host);
    for (int lane = 0; lane < LANES; lane++)
        join(host, &w->lane_now[lane]);
    for (int lane = 0; lane < LANES; lane++)
        w->lane_now[lane] = *host;
    return why;
}

static const char *walk_step(Walk *w, int phase)
{
    const StepGraph *g = w->graphs[phase];
    w->step++;
    int at = w->step % w->ring, last = w->step > 1 ? w->phase_of[(w->step - 1) % w->ring] : -1;
    bool change = last != phase;
    w->phase_of[at] = phase;
    StepClock *ends = w->ends[at];
    if (change) {
        for (int lane = 0; lane < LANES; lane++)
            if (mgpu_lane_synchronizes(lane))
                join(&w->lane_now[LANE_COMP], &w->lane_now[lane]);
        for (int lane = 0; lane < LANES; lane++)
            if (mgpu_lane_synchronizes(lane))
                w->lane_now[lane] = w->lane_now[LANE_COMP];
    }
    bool owes = change && last >= 0, predicted = w->predicts;
    if (phase < w->phases)
        w->predicts = phase_predicts(w->schedule->phases[phase].name);
    if (owes && w->predicts != predicted) {
        const char *why = drain(w, w->graphs[last]);
        if (why)
            return why;
        owes = false;
    }
    for (int i = 0; i < g->event_count; i++) {
        const Event *e = &g->events[i];
        StepClock start = {{0}};
        if (e->position == 0)
            start = w->lane_now[e->lane];
        for (int lane = 0; lane < LANES; lane++)
            if (e->before[lane] >= 0)
                join(&start, &ends[g->at[lane][e->before[lane]]]);
        const char *why = NULL;
        bool lane_is_over = e->op < 0 && e->position > 0, skipped = change && e->pending; /* for the previous step's phase */
        if (!skipped)
            join_waits(w, g, e, &start);
        if (owes && (skipped || (lane_is_over && e->lane == LANE_HOST))) {
            why = run_pending(w, w->graphs[last], &start);
            owes = false;
        }
        if (!why && !skipped)
            why = run_event(w, g, e, &start, &ends[i]);
        if (why)
            return why;
        if (skipped)
            ends[i] = start;
        if (lane_is_over)
            w->lane_now[e->lane] = ends[i];
    }
    return NULL;
}

/* ---- preparing a walk */

static int compare_addresses(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t touch_address(const Walk *w, const Touch *t, int slot)
{
    const Buffer *b = t->buffer;
    return b->offset + slot * slot_stride(b) + (b->kind == BUFFER_STAGING ? w->staging_base : 0);
}

static int place_of(const Walk *w, int64_t address)
{
    const int64_t *found = bsearch(&address, w->addresses, (size_t)w->address_count, sizeof address, compare_addresses);
    return (int)(found - w->addresses);
}

static void find_places(Walk *w)
{
    int count = 0;
    for (int p = 0; p < w->phases; p++)
        for (int i = 0; w->graphs[p] && i < w->graphs[p]->touch_count; i++) {
            w->graphs[p]->touches[i].first = count;
            count += 2 * w->graphs[p]->touches[i].buffer->slots;
        }
    int64_t *all = NEW_ARRAY(int64_t, count + 1);
    w->places = NEW_ARRAY(int, count);
    for (int p = 0; p < w->phases; p++)
        for (int i = 0; w->graphs[p] && i < w->graphs[p]->touch_count; i++) {
            const Touch *t = &w->graphs[p]->touches[i];
            for (int slot = 0; slot < t->buffer->slots; slot++) {
                all[t->first + 2 * slot] = touch_address(w, t, slot) + t->begin;
                all[t->first + 2 * slot + 1] = touch_address(w, t, slot) + t->end;
            }
        }
    int64_t *sorted = NEW_ARRAY(int64_t, count + 1);
    memcpy(sorted, all, sizeof *all * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_addresses);
    w->addresses = sorted;
    for (int i = 0; i < count; i++)
        if (w->address_count == 0 || sorted[i] != sorted[w->address_count - 1])
            sorted[w->address_count++] = sorted[i];
    for (int i = 0; i < count; i++)
        w->places[i] = place_of(w, all[i]);
}

static void begin_walk(Walk *w, int back)
{
    int events = 0;
    for (int p = 0; p < w->phases; p++)
        if (w->graphs[p] && w->graphs[p]->event_count > events)
            events = w->graphs[p]->event_count;
    find_places(w);
    w->ring = back + 2;
    w->phase_of = NEW_ARRAY(int, w->ring);
    w->ends = NEW_ARRAY(StepClock *, w->ring);
    for (int i = 0; i < w->ring; i++) {
        w->phase_of[i] = -1;
        w->ends[i] = NEW_ARRAY(StepClock, events);
    }
    int words = w->address_count;
    for (int l = 0; l < LEVELS; l++) {
        words = words / 64 + 1;
        w->starts.level[l] = NEW_ARRAY(uint64_t, words);
    }
    w->runs = NEW_ARRAY(ByteRange, w->address_count + 1);
    w->runs[0].end = w->address_count - 1;
    w->runs[0].write.index = -1;
    for (int lane = 0; lane < LANES; lane++)
        w->runs[0].reads[lane].index = -1;
    starts_set(&w->starts, 0);
}

/* ---- walks over sequences of phases */

static const char *walk_pairs(Walk *w, int times)
{
    const char *why = NULL;
    for (int a = 0; a < w->phases; a++)
        for (int b = a; b < w->phases; b++) /* a a ... b b ... a a ...: both changes */
            for (int i = 0; i < 2 * times; i++)
                if ((i < times || b > a) && (why = walk_step(w, i < times ? a : b)))
                    return why;
    return NULL;
}

/* Walks a, then up to `most` steps of no operation, then b, whose outstanding REPORT and FETCH another such step executes. */
static const char *walk_apart(Walk *w, int most)
{
    for (int pair = 0; pair < w->phases * w->phases; pair++)
        for (int between = 1; between <= most; between++)
            for (int i = 0; i < between + 3; i++) {
                int phase = i == 0 ? pair / w->phases : i == between + 1 ? pair % w->phases : w->phases;
                const char *why = walk_step(w, phase);
                if (why)
                    return why;
            }
    return NULL;
}

typedef struct Extent {
    int64_t begin, end;
} Extent;

static int compare_extents(const void *a, const void *b)
{
    const Extent *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static Extent buffer_extent(const Walk *w, const Buffer *b)
{
    int64_t base = b->offset + (b->kind == BUFFER_STAGING ? w->staging_base : 0);
    return (Extent){base, base + b->slots * slot_stride(b)};
}

/* Returns the extents that the lanes copy and host access in any phase: sorted, disjoint. */
static Extent *find_exposed(const Walk *w, int *count)
{
    Extent *list = NULL;
    int n = 0;
    for (int p = 0; p < w->phases; p++) {
        const DeviceSchedule *d = &w->schedule->phases[p].devices[w->device];
        for (int o = 0; o < d->op_count; o++) {
            const ScheduledOp *op = &d->ops[o];
            if (op->lane != LANE_COPY && op->lane != LANE_HOST)
                continue;
            for (int i = 0; i < op->read_count + op->write_count; i++) {
                const Access *a = i < op->read_count ? &op->reads[i] : &op->writes[i - op->read_count];
                Extent e = buffer_extent(w, &d->buffers[a->buffer]);
                APPEND(list, n, e);
            }
        }
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, compare_extents);
    *count = 0;
    for (int i = 0; i < n; i++)
        if (*count && list[i].begin <= list[*count - 1].end)
            list[*count - 1].end = list[i].end > list[*count - 1].end ? list[i].end : list[*count - 1].end;
        else
            list[(*count)++] = list[i];
    return list;
}

static bool is_exposed(const Extent *exposed, int count, Extent e)
{
    int low = 0, high = count; /* finds the first extent that ends after e.begin */
    while (low < high) {
        int middle = (low + high) / 2;
        if (exposed[middle].end > e.begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low < count && exposed[low].begin < e.end;
}

static bool reads_whole(const DeviceSchedule *d, const Access *a)
{
    return a->slot == 0 && a->begin == 0 && a->end == d->buffers[a->buffer].bytes;
}

/* Makes the graph of a phase for mixed walks: operations that access exposed memory, or wait for other steps. Of a lane's
 * operations that read a whole buffer, the first and the last suffice. A write that is ordered with both is ordered with those
 * between them; or it is between the two, and then the last one does not read its own step's data. */
static StepGraph *exposed_graph(const Walk *w, int phase, const int *order, const Extent *exposed, int exposed_count)
{
    const DeviceSchedule *d = &w->schedule->phases[phase].devices[w->device];
    bool *kept = NEW_ARRAY(bool, d->op_count), *wanted = NEW_ARRAY(bool, d->buffer_count);
    int(*last)[LANES] = allocate(sizeof *last * (size_t)(d->buffer_count + 1)); /* 1 + the last reader of the whole buffer */
    for (int b = 0; b < d->buffer_count; b++)
        wanted[b] = is_exposed(exposed, exposed_count, buffer_extent(w, &d->buffers[b]));
    for (int o = 0; o < d->op_count; o++) {
        const ScheduledOp *op = &d->ops[o];
        kept[o] |= op->lane == LANE_COPY || op->lane == LANE_HOST;
        for (int i = 0; i < op->read_count; i++) {
            const Access *a = &op->reads[i];
            int *reader = &last[a->buffer][op->lane];
            if (!wanted[a->buffer])
                continue;
            kept[o] |= !reads_whole(d, a) || !*reader;
            if (reads_whole(d, a))
                *reader = o + 1;
        }
        for (int i = 0; i < op->write_count; i++)
            kept[o] |= wanted[op->writes[i].buffer];
        for (int i = 0; i < op->wait_count; i++)
            if (op->waits[i].back > 0)
                kept[o] = kept[op->waits[i].op] = true;
    }
    for (int b = 0; b < d->buffer_count; b++)
        for (int lane = 0; lane < LANES; lane++)
            if (last[b][lane])
                kept[last[b][lane] - 1] = true;
    return step_graph(w->schedule, phase, w->device, order, kept, wanted);
}

static const char *walk_mixed(const Walk *base, int *const *orders, int back, int slots)
{
    Walk w = *base;
    w.mixed = true;
    int exposed_count, apart = back > slots ? back : slots;
    Extent *exposed = find_exposed(&w, &exposed_count);
    w.graphs = NEW_ARRAY(StepGraph *, w.phases + 1);
    for (int p = 0; p < w.phases; p++)
        w.graphs[p] = exposed_graph(&w, p, orders[p], exposed, exposed_count);
    const DeviceSchedule *first = &w.schedule->phases[0].devices[w.device];
    const bool *no_op = NEW_ARRAY(bool, first->op_count), *no_buffer = NEW_ARRAY(bool, first->buffer_count);
    w.graphs[w.phases] = step_graph(w.schedule, 0, w.device, orders[0], no_op, no_buffer);
    begin_walk(&w, apart);
    const char *why = walk_pairs(&w, back + slots + 1);
    return why ? why : walk_apart(&w, apart);
}

const char *verify_memory(const Schedule *s, int device)
{
    Walk w = {.schedule = s, .device = device, .phases = s->phase_count, .graphs = NEW_ARRAY(StepGraph *, s->phase_count)};
    int **orders = NEW_ARRAY(int *, s->phase_count), most_back = 0, most_slots = 1;
    const char *why = NULL;
    for (int p = 0; p < s->phase_count; p++)
        if (s->phases[p].devices[device].arena_bytes > w.staging_base)
            w.staging_base = s->phases[p].devices[device].arena_bytes;
    for (int p = 0; p < s->phase_count; p++) {
        const DeviceSchedule *d = &s->phases[p].devices[device];
        orders[p] = order_operations(&s->phases[p], device, &why);
        if (!orders[p])
            return why;
        Walk one = w;
        one.graphs = NEW_ARRAY(StepGraph *, s->phase_count);
        StepGraph *g = one.graphs[p] = step_graph(s, p, device, orders[p], NULL, NULL);
        int back = 0, slots = 1;
        for (int i = 0; i < g->wait_count; i++)
            back = g->waits[i].back > back ? g->waits[i].back : back;
        for (int b = 0; b < d->buffer_count; b++)
            slots = d->buffers[b].slots > slots ? d->buffers[b].slots : slots;
        begin_walk(&one, back > slots ? back : slots);
        for (int i = 0; i < back + slots + 1; i++)
            if ((why = walk_step(&one, p)))
                return why;
        most_back = back > most_back ? back : most_back;
        most_slots = slots > most_slots ? slots : most_slots;
    }
    if (s->phase_count < 2)
        return NULL;
    return walk_mixed(&w, orders, most_back, most_slots);
}
