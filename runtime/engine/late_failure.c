/* late_failure.c: an operation of a GPU failed, and a later call of some thread returned the error. In: how far the failed
 * devices have come (stream_progress.c); out: one message that names the place, and status 3.
 *
 * The failed operation is after the last one known to have completed, not after the next one that would have written a number,
 * and before any operation that waits for an incomplete one. Copies run no code: if nothing else is in flight, the message names
 * only the step. */
#include "runtime/base/base.h"
#include "runtime/engine/stream_progress.h"

#include <stdlib.h>
#include <string.h>

typedef struct Places {
    FILE *to;
    int count;
    bool among;
} Places; /* among: some place is a range of operations */

static void begin_place(Places *p, const LaneThread *l, int64_t number, const mgpu_phase *phase, const mgpu_op *op)
{
    char place[400];
    mgpu_place_of(l, number, phase, op, place, sizeof place);
    fprintf(p->to, "%s%s", p->count++ ? "\n  " : "", place);
}

/* Returns the last place in from .. to that may have begun. */
static int last_begun(const StreamProgress *k, int lane, int from, int to)
{
    const mgpu_op *by;
    if (!mgpu_progress_waited(k, lane, from, to, &by))
        return to;
    int place = lanes_of(k->engine, k->phase[lane], k->device)->place[by - k->phase[lane]->devices[k->device].ops];
    return (lane == MGPU_COMP ? mgpu_async_segment(k->engine, k->device, k->phase[lane], place)->begin : place) - 1;
}

static void add_lane(Places *places, const StreamProgress *k, int lane)
{
    Engine *e = k->engine;
    if (k->until[lane] < 0)
        return;
    int from = k->after[lane] + 1, to = last_begun(k, lane, from, k->until[lane]);
    const mgpu_op *op = mgpu_progress_op(k, lane, from);
    bool sum = op->verb == MGPU_TRANSFER;
    if (to < from || (sum && k->held[lane]))
        return;
    begin_place(places, lane_of(e, k->device, lane), k->number[lane], k->phase[lane], op);
    if (sum) {
        const mgpu_collective *c = &k->phase[lane]->collectives[op->target];
        fprintf(places->to, ", the %s %s over the devices by %s", mgpu_transfer_row(c->participants.transfer)->kind, c->name,
                mgpu_made_by(e->collective[lane], c->implementation));
    } else if (to > from) {
        fprintf(places->to, ", or one after it up to ");
        mgpu_add_name(e, k->phase[lane], mgpu_progress_op(k, lane, to), places->to);
        places->among = true;
    }
}

/* Names the steps in flight, where written numbers do not help. */
static void add_steps(Places *places, const StreamProgress *k, bool notes)
{
    Engine *e = k->engine;
    int64_t posted = atomic_load(&e->posted.value), first = mgpu_progress_step(k),
            last = mgpu_async_issued(e, k->device) >> PLACE_BITS;
    last = last < posted ? last : posted;
    while (first <= last && !phase_of(e, first)) /* nothing is computed in such a step */
        first++;
    while (first < last && !phase_of(e, last))
        last--;
    if (first > last)
        return;
    begin_place(places, lane_of(e, k->device, MGPU_COMP), first, phase_of(e, first), NULL);
    if (!notes && last > first)
        fprintf(places->to, ", or one after it up to step %lld", (long long)atomic_load(&work_of(e, last)->step));
    places->among = true;
}

/* Returns false if the device has not failed. */
static bool add_device(Places *places, Engine *e, int device, bool operations)
{
    if (!e->kind->async->failed(e->devices[device]))
        return false;
    StreamProgress k = mgpu_stream_progress(e, device, true);
    bool notes = e->kind->async->writes_steps(e->devices[device]);
    for (int lane = 0; lane < MGPU_HOST && operations; lane++)
        if (mgpu_lane_synchronizes(lane))
            add_lane(places, &k, lane);
    if (!operations || !notes)
        add_steps(places, &k, notes);
    return true;
}

void mgpu_fail_async(Engine *e, int device, const char *error, const char *call)
{
    char *text;
    size_t length;
    Places places = {.to = mgpu_begin_text(&text, &length)};
    bool run = atomic_load(&e->posted.value) > 0 && !atomic_load(&e->closing), any = false;
    for (int d = e->first; d < e->end && run; d++)
        any = add_device(&places, e, d, true) || any;
    for (int d = e->first; d < e->end && any && places.count == 0; d++)
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

/* Fails with the transfer that the device's lane comm is in: only the library of that lane reports such errors. */
static _Noreturn void fail_collective(Engine *e, int device, const char *error)
{
    char *text;
    size_t length;
    Places places = {.to = mgpu_begin_text(&text, &length)};
    StreamProgress k = mgpu_stream_progress(e, device, true);
    add_lane(&places, &k, MGPU_COMM);
    bool sum = places.count > 0;
    if (!sum)
        add_steps(&places, &k, false);
    if (places.count == 0)
        fprintf(places.to, "device %d, after step %lld", device, (long long)posted_step(e));
    if (!sum)
        fprintf(places.to, ", an all-reduce by %s", e->collective[MGPU_COMM]->name);
    mgpu_end_text(places.to);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: it failed: %s; %sNCCL_DEBUG=WARN says more%s", text, error,
              e->processes ? "another process may be gone, or not be reached; " : "",
              e->processes ? "" : ", MGPU_COLLECTIVE=peer, copy or host sums in another way");
}

/* ---- Errors of collectives that no call returns. NCCL's own threads detect some (a network error, a GPU that another process
 * took down) and keep them, while the collective never ends. A separate thread polls, since polling may itself hang in the
 * library, which hang.c then reports. */
static const double ASK_S = .5;

static void ask(void *engine)
{
    Engine *e = engine;
    char text[400];
    for (int d = e->first; d < e->end; d++)
        if (e->collective[MGPU_COMM]->trouble(e->collective[MGPU_COMM], d, text))
            fail_collective(e, d, text);
}

void mgpu_listen_open(Engine *e)
{
    if (e->collective[MGPU_COMM]->trouble)
        e->listener = mgpu_ticker_open("listen", ASK_S, ask, e);
}
