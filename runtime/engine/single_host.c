/* single_host.c: one host device whose lanes have no threads. The thread that posts a step executes all of it before the call
 * returns: it reads samples, copies, computes, and fetches results. For libraries, whose callers wait for each step: no thread
 * has to wake up except those of the device's pool. Waits of operations need no code, since everything earlier has completed. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

/* Work is counted in operations, with 8 for each byte moved. The limit is about 100 us of one core. */
bool mgpu_is_small_region(const LaneThread *l, const mgpu_device_phase *p, const int *order, int count, int64_t samples)
{
    static const double LITTLE = 2e6, OF_A_BYTE = 8;
    double work = 0;
    for (int i = 0; i < count; i++)
        work += p->ops[order[i]].flops + OF_A_BYTE * p->ops[order[i]].bytes;
    return work * (double)samples / (double)l->engine->plan->device[l->device].shard.capacity < LITTLE;
}

/* reads: of the lane host, execute only operations that read samples; else only the others */
static void execute_lane(Engine *e, int lane, int64_t number, bool reads)
{
    LaneThread *l = lane_of(e, e->first, lane);
    const mgpu_phase *phase = work_of(e, number)->phase;
    const mgpu_device_phase *p = &phase->devices[l->device];
    const LaneTable *t = lanes_of(e, phase, l->device);
    for (int i = t->begin[lane], count; i < t->begin[lane + 1]; i += count) {
        const mgpu_op *op = &p->ops[t->order[i]];
        count = mgpu_region_length(p, t->order + i, t->begin[lane + 1] - i);
        if (lane == MGPU_HOST && (op->verb == MGPU_READ) != reads)
            continue;
        l->number = number + is_delayed(op);
        mgpu_execute(l, phase, &t->order[i], count);
    }
}

void mgpu_execute_on_caller(Engine *e)
{
    int64_t number = atomic_load(&e->posted.value);
    Work *work = work_of(e, number);
    if (work->phase && !e->phases[work->phase - e->plan->phases].library[e->first])
        mgpu_prepare_phase(lane_of(e, e->first, MGPU_COMP), work->phase);
    if (work->phase) {
        execute_lane(e, MGPU_HOST, number, true);
        execute_lane(e, MGPU_COPY, number, false);
        execute_lane(e, MGPU_COMP, number, false);
        execute_lane(e, MGPU_HOST, number, false);
    }
    if (number == SETTLED)
        e->kind->settled(e->devices[e->first]);
    atomic_store(&work->unfinished, 0);
}
