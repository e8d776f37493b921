/* timed.c: clocks of devices that run ahead. One training step in MGPU_TIMED has marks that note the time: on comp two before each segment
 * (when all before it is done; when what it waits for is, too) and one at the end; on comm one before and one after each transfer. Who
 * watches the device reads them when the step is done, so nobody waits for them.
 *
 * Clocks of a step are at its place in the ring, which no other step has before this one is collected. All are made at the beginning:
 * the lanes' threads and who watches use them at the same time. */
#include "runtime/base/base.h"
#include "runtime/engine/ahead.h"

#include <stdlib.h>

static int lane_length(const Engine *e, int device, int phase, int lane)
{
    const LaneTable *t = &e->phases[phase].device[device];
    return t->begin[lane + 1] - t->begin[lane];
}

void mgpu_timed_open(Ahead *a)
{
    Engine *e = a->engine;
    for (int k = 0; k < e->plan->phase_count; k++) {
        int comp = 2 * a->phases[k].count + 1, comm = 2 * lane_length(e, a->device, k, MGPU_COMM);
        a->clocks[MGPU_COMP] = comp > a->clocks[MGPU_COMP] ? comp : a->clocks[MGPU_COMP];
        a->clocks[MGPU_COMM] = comm > a->clocks[MGPU_COMM] ? comm : a->clocks[MGPU_COMM];
    }
    for (int lane = 0; lane < MGPU_LANES; lane++)
        if (a->clocks[lane])
            e->kind->ahead->clock(e->devices[a->device], lane, MGPU_RING * a->clocks[lane] - 1);
}

/* others already look at each operation of the step: --profile has clocks of its own */
static bool is_timed(const Ahead *a, int64_t number)
{
    Engine *e = a->engine;
    return work_of(e, number)->timed && work_of(e, number)->phase && !e->profile && !e->audit && a->graphs != GRAPHS_WAIT;
}

int mgpu_timed_first(const Ahead *a, int lane, int64_t number)
{
    return a->clocks[lane] && is_timed(a, number) ? (int)(number % MGPU_RING) * a->clocks[lane] : -1;
}

static bool waits_for_transfer(const mgpu_device_phase *p, const Segment *s)
{
    for (int w = 0; w < s->wait_count; w++)
        if (p->ops[s->waits[w].op].lane == MGPU_COMM)
            return true;
    return false;
}

void mgpu_timed_note(Ahead *a, int64_t number)
{
    Engine *e = a->engine;
    const AheadKind *ahead = e->kind->ahead;
    Device *device = e->devices[a->device];
    StepTimes *t = &work_of(e, number)->times[a->device];
    if (!is_timed(a, number))
        return;
    const mgpu_phase *phase = phase_of(e, number);
    const AheadPhase *segments = &a->phases[phase - e->plan->phases];
    int at = mgpu_timed_first(a, MGPU_COMP, number);
    for (int i = 0; i < segments->count; i++, at += 2) {
        if (waits_for_transfer(&phase->devices[a->device], &segments->segments[i]))
            add_seconds(&t->communication, ahead->seconds(device, MGPU_COMP, at, at + 1));
        add_seconds(&t->computing, ahead->seconds(device, MGPU_COMP, at + 1, at + 2));
    }
    at = mgpu_timed_first(a, MGPU_COMM, number);
    for (int i = 0; i < lane_length(e, a->device, (int)(phase - e->plan->phases), MGPU_COMM); i++, at += 2)
        add_seconds(&t->transferring, ahead->seconds(device, MGPU_COMM, at, at + 1));
}
