/* late.c: an operation of a GPU failed, and a later call of some thread is the first to hear of it. In: what the streams have
 * noted in memory of the host (mark_and_note in issue.c), which can be read when a driver answers nothing any more; out: one
 * message that says where it failed, and status 3.
 *
 * Of a device that has failed, a lane's step is the first whose end is not noted. There the culprit is after the last
 * operation that is noted to be done, up to the next place that would have been noted. A note is written before the mark
 * that other streams follow, so what waits for something that is not noted has not begun and is no culprit, and what a sum that
 * has begun waits for is done. Copies run no code: if nothing else is under way, the message names the step alone. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Seen {            /* of a device that has failed */
    Engine *engine;
    int device;
    int64_t posted, number[MGPU_LANES]; /* number: of a lane's first step that is not done; posted + 1: all are */
} Seen;
typedef struct Places { FILE *to; int count; bool among; } Places; /* among: one of them is several operations */

/* ---- what is done */
static bool is_noted(const Seen *s, int mark, int64_t number)
{
    return mark >= 0 && s->engine->kind->ahead->noted(s->engine->devices[s->device], mark) == (uint32_t)number;
}

static bool op_noted(const Seen *s, const mgpu_phase *phase, int64_t number, int op, bool before)
{
    return is_noted(s, mgpu_ahead_mark(s->engine, s->device, phase, number, op, before), number);
}

static Seen see(Engine *e, int device)
{
    Seen s = {.engine = e, .device = device, .posted = atomic_load(&e->posted.value)};
    for (int lane = 0; lane < MGPU_LANES; lane++) {
        int64_t number = mgpu_ahead_steps(e, device) + 1;
        while (number <= s.posted && is_noted(&s, mgpu_ahead_step_mark(e, device, lane, number), number))
            number++;
        s.number[lane] = lane == MGPU_HOST || lane_of(e, device, lane)->idle ? s.posted + 1 : number;
    }
    return s;
}

static bool is_done(const Seen *s, const mgpu_phase *phase, int64_t number, const mgpu_wait *wait)
{
    int64_t its = number - wait->back;
    int lane = phase->devices[s->device].ops[wait->op].lane;
    if (wait->back > MGPU_AHEAD || its <= mgpu_ahead_steps(s->engine, s->device) || its < s->number[lane])
        return true;
    return phase_of(s->engine, its) == phase && op_noted(s, phase, its, wait->op, false);
}

static bool may_begin(const Seen *s, const mgpu_phase *phase, int64_t number, const Segment *segment)
{
    for (int w = 0; w < segment->wait_count; w++)
        if (!is_done(s, phase, number, &segment->waits[w]))
            return false;
    return true;
}

/* the last place of a lane that is known to be done, -1: none */
static int last_done(const Seen *s, const mgpu_phase *phase, int64_t number, int lane)
{
    const mgpu_device_phase *p = &phase->devices[s->device];
    const LaneTable *t = lanes_of(s->engine, phase, s->device);
    int last = -1;
    for (int i = 0; i < p->op_count; i++) {
        bool done = op_noted(s, phase, number, i, false), begun = op_noted(s, phase, number, i, true);
        int place = p->ops[i].lane != lane ? -1 : done ? t->place[i] : begun ? t->place[i] - 1 : -1;
        last = place > last ? place : last;
        for (int w = 0; w < p->ops[i].wait_count && begun; w++) {
            const mgpu_wait *wait = &p->ops[i].waits[w];
            if (wait->back == 0 && p->ops[wait->op].lane == lane && t->place[wait->op] > last)
                last = t->place[wait->op];
        }
    }
    return last;
}

/* of the lane comp: the last place that the culprit may be at, if the first is `from`; less: it has not begun */
static int last_begun(const Seen *s, const mgpu_phase *phase, int64_t number, int from)
{
    const LaneTable *t = lanes_of(s->engine, phase, s->device);
    int count = t->begin[MGPU_COMP + 1] - t->begin[MGPU_COMP], to = from - 1;
    for (bool noted = false; to + 1 < count && !noted;) {
        const Segment *segment = mgpu_ahead_segment(s->engine, s->device, phase, to + 1);
        if (segment->begin == to + 1 && !may_begin(s, phase, number, segment))
            break;
        to = segment->end - 1;
        noted = segment->mark >= 0;
    }
    return to;
}

/* ---- what is said */
static void begin_place(Places *p, const Lane *l, int64_t number, const mgpu_phase *phase, const mgpu_op *op)
{
    char place[400];
    mgpu_place_of(l, number, phase, op, place, sizeof place);
    fprintf(p->to, "%s%s", p->count++ ? "\n  " : "", place);
}

static void add_lane(Places *places, const Seen *s, int lane)
{
    Engine *e = s->engine;
    int64_t number = s->number[lane];
    const mgpu_phase *phase = number <= s->posted ? phase_of(e, number) : NULL;
    if (!phase)
        return;
    const LaneTable *t = lanes_of(e, phase, s->device);
    const mgpu_op *ops = phase->devices[s->device].ops;
    const int *order = t->order + t->begin[lane];
    int count = t->begin[lane + 1] - t->begin[lane], from = last_done(s, phase, number, lane) + 1;
    int to = lane == MGPU_COMP ? last_begun(s, phase, number, from) : from;
    bool sum = from < count && ops[order[from]].verb == MGPU_TRANSFER;
    if (from >= count || to < from || (sum && !op_noted(s, phase, number, order[from], true)))
        return;
    begin_place(places, lane_of(e, s->device, lane), number, phase, &ops[order[from]]);
    if (to > from) {
        fprintf(places->to, ", or one after it up to ");
        mgpu_add_name(e, phase, &ops[order[to]], places->to);
        places->among = true;
    } else if (sum) {
        const mgpu_collective *c = &phase->collectives[ops[order[from]].target];
        fprintf(places->to, ", the %s %s over the devices by %s", mgpu_transfer_row(c->parties.transfer)->kind, c->name,
                mgpu_made_by(e->collective[lane], c->way));
    }
}

/* where notes say no more: the steps that are under way */
static void add_steps(Places *places, const Seen *s, bool notes)
{
    Engine *e = s->engine;
    int64_t first = s->posted + 1, last = mgpu_ahead_issued(e, s->device) >> PLACE_BITS;
    for (int lane = 0; lane < MGPU_HOST; lane++)
        first = s->number[lane] < first ? s->number[lane] : first;
    last = last < s->posted ? last : s->posted;
    while (first <= last && !phase_of(e, first)) /* nothing is computed there */
        first++;
    while (first < last && !phase_of(e, last))
        last--;
    if (first > last)
        return;
    begin_place(places, lane_of(e, s->device, MGPU_COMP), first, phase_of(e, first), NULL);
    if (!notes && last > first)
        fprintf(places->to, ", or one after it up to step %lld", (long long)atomic_load(&work_of(e, last)->step));
    places->among = true;
}

/* false: the device has not failed */
static bool add_device(Places *places, Engine *e, int device, bool operations)
{
    if (!e->kind->ahead->failed(e->devices[device]))
        return false;
    Seen s = see(e, device);
    bool notes = e->kind->ahead->notes(e->devices[device]);
    if (operations && notes) {
        add_lane(places, &s, MGPU_COMP);
        add_lane(places, &s, MGPU_COMM);
        add_lane(places, &s, MGPU_SYNC);
    } else {
        add_steps(places, &s, notes);
    }
    return true;
}

void mgpu_fail_late(Engine *e, int device, const char *error, const char *call)
{
    char *text;
    size_t length;
    Places places = {.to = mgpu_begin_text(&text, &length)};
    bool run = atomic_load(&e->posted.value) > 0 && !atomic_load(&e->closing), any = false;
    for (int d = 0; d < e->plan->devices && run; d++)
        any = add_device(&places, e, d, true) || any;
    for (int d = 0; d < e->plan->devices && any && places.count == 0; d++)
        add_device(&places, e, d, false);
    mgpu_end_text(places.to);
    if (!any) {
        free(text);
        return;
    }
    const char *cure = "MGPU_GRAPHS=wait says which operation it is";
    if (places.count == 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "device %d: %s: %s", device, call, error);
    if (places.count > 1)
        mgpu_fail(MGPU_MACHINE_FAILED, "one of these operations failed: %s\n  %s\n%s", error, text, cure);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: it failed: %s%s%s", text, error, places.among ? "; " : "", places.among ? cure : "");
}

_Noreturn void mgpu_fail_sum(Engine *e, int device, const char *error)
{
    char *text;
    size_t length;
    Places places = {.to = mgpu_begin_text(&text, &length)};
    Seen s = see(e, device);
    add_lane(&places, &s, MGPU_COMM);
    bool sum = places.count > 0;
    if (!sum)
        add_steps(&places, &s, false);
    if (places.count == 0)
        fprintf(places.to, "device %d", device);
    if (!sum)
        fprintf(places.to, ", an all-reduce by %s", e->collective[MGPU_COMM]->name);
    mgpu_end_text(places.to);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: it failed: %s; NCCL_DEBUG=WARN says more, MGPU_COLLECTIVE=peer, copy or host sums in another way",
              text, error);
}
