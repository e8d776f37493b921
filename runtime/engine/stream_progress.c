/* stream_progress.c: how far an asynchronous device has come. In: the step numbers that its streams have written to host memory,
 * which can be read when the driver does not respond any more, and what has been issued. Out: for each lane, the operations
 * between the last one that is known to have completed and the first one that has not. A step number is written before the event
 * that other streams wait for. So an operation that waits for one without a number has not begun, and everything that a begun
 * transfer waits for has completed. */
#include "runtime/base/base.h"
#include "runtime/engine/stream_progress.h"

static bool has_written(const StreamProgress *k, int event, int64_t number)
{
    return event >= 0 && k->engine->kind->async->written_step(k->engine->devices[k->device], event) == (uint32_t)number;
}

static bool op_has_written(const StreamProgress *k, const mgpu_phase *phase, int64_t number, int op, bool before)
{
    return has_written(k, mgpu_async_op_event(k->engine, k->device, phase, number, op, before), number);
}

static int ops_of(const StreamProgress *k, int lane)
{
    const LaneTable *t = lanes_of(k->engine, k->phase[lane], k->device);
    return t->begin[lane + 1] - t->begin[lane];
}

const mgpu_op *mgpu_progress_op(const StreamProgress *k, int lane, int place)
{
    const LaneTable *t = lanes_of(k->engine, k->phase[lane], k->device);
    return &k->phase[lane]->devices[k->device].ops[t->order[t->begin[lane] + place]];
}

int64_t mgpu_progress_step(const StreamProgress *k)
{
    int64_t first = k->number[0];
    for (int lane = 1; lane < MGPU_HOST; lane++)
        first = k->number[lane] < first ? k->number[lane] : first;
    return first;
}

bool mgpu_is_in_collective(const LaneThread *l)
{
    int doing = atomic_load(&l->doing);
    const mgpu_op *op = l->op;
    return op && op->verb == MGPU_TRANSFER && (doing == DOING_COLLECTIVE || doing == DOING_END);
}

/* ---- one lane */
static int64_t first_step(const StreamProgress *k, int lane)
{
    int64_t posted = atomic_load(&k->engine->posted.value), number = mgpu_async_steps_done(k->engine, k->device) + 1;
    if (lane == MGPU_HOST || lane_of(k->engine, k->device, lane)->idle)
        return posted + 1;
    while (number <= posted && has_written(k, mgpu_async_step_event(k->engine, k->device, lane, number), number))
        number++;
    return number;
}

/* Updates what is known from operation `place`, which is issued: it has completed, or may not have. */
static void add_operation(StreamProgress *k, int lane, int place, bool whole)
{
    const mgpu_op *op = mgpu_progress_op(k, lane, place);
    int index = (int)(op - k->phase[lane]->devices[k->device].ops);
    int64_t number = k->number[lane];
    bool transfer = op->verb == MGPU_TRANSFER, begun = transfer && op_has_written(k, k->phase[lane], number, index, true);
    bool has_event = mgpu_async_op_event(k->engine, k->device, k->phase[lane], number, index, false) >= 0;
    if (whole && op_has_written(k, k->phase[lane], number, index, false)) {
        k->after[lane] = place;
    } else if (transfer || has_event) {
        k->after[lane] = begun && place - 1 > k->after[lane] ? place - 1 : k->after[lane];
        k->held[lane] = k->until[lane] < 0 ? transfer && !begun : k->held[lane];
        k->until[lane] = k->until[lane] < 0 ? place : k->until[lane];
    }
}

static void find_progress_of_lane(StreamProgress *k, int lane)
{
    Engine *e = k->engine;
    const mgpu_device_phase *p = &k->phase[lane]->devices[k->device];
    const LaneThread *l = lane_of(e, k->device, lane);
    int count = ops_of(k, lane), place = 0;
    int64_t number = k->number[lane];
    for (; place < count; place++) {
        const mgpu_op *op = mgpu_progress_op(k, lane, place);
        bool issued = mgpu_async_has_issued(e, k->device, k->phase[lane], number, (int)(op - p->ops), k->failed);
        if (!issued && !(l->number == number && l->op == op && mgpu_is_in_collective(l)))
            break;
        add_operation(k, lane, place, issued);
    }
    bool whole = mgpu_async_issued(e, k->device) >= finished(number); /* then the end of the step has not been reached */
    if (k->until[lane] < 0 && (whole || k->failed))
        k->until[lane] = place - 1;
}

void mgpu_progress_from_waits(StreamProgress *k, const mgpu_op *transfer, bool begun)
{
    const mgpu_device_phase *p = &k->phase[transfer->lane]->devices[k->device];
    const LaneTable *t = lanes_of(k->engine, k->phase[transfer->lane], k->device);
    for (int w = 0; w < transfer->wait_count; w++) {
        int other = p->ops[transfer->waits[w].op].lane, place = t->place[transfer->waits[w].op];
        if (transfer->waits[w].back || other == transfer->lane || k->number[other] != k->number[transfer->lane])
            continue;
        if (begun && place > k->after[other])
            k->after[other] = place;
        else if (!begun && transfer->wait_count == 1 && (k->until[other] < 0 || place < k->until[other]))
            k->until[other] = place;
    }
}

static void add_transfers(StreamProgress *k, int lane)
{
    int last = k->until[lane] >= 0 ? k->until[lane] - k->held[lane] : k->after[lane];
    for (int place = 0; place <= last; place++)
        if (mgpu_progress_op(k, lane, place)->verb == MGPU_TRANSFER)
            mgpu_progress_from_waits(k, mgpu_progress_op(k, lane, place), true);
}

StreamProgress mgpu_stream_progress(Engine *e, int device, bool failed)
{
    StreamProgress k = {.engine = e, .device = device, .failed = failed};
    bool writes_steps = e->kind->async->writes_steps(e->devices[device]);
    for (int lane = 0; lane < MGPU_LANES; lane++) {
        k.number[lane] = first_step(&k, lane);
        k.phase[lane] = k.number[lane] <= atomic_load(&e->posted.value) ? phase_of(e, k.number[lane]) : NULL;
        k.after[lane] = k.until[lane] = -1;
    }
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.phase[lane] && writes_steps)
            find_progress_of_lane(&k, lane);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.phase[lane] && mgpu_lane_transfers(lane))
            add_transfers(&k, lane);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.until[lane] >= 0 && k.after[lane] >= k.until[lane]) {
            k.after[lane] = failed ? k.after[lane] : k.until[lane] - 1;
            k.until[lane] = failed ? -1 : k.until[lane];
        }
    return k;
}

/* ---- which operation waits for which */
static bool is_done(const StreamProgress *k, const mgpu_phase *phase, int64_t number, const mgpu_wait *wait)
{
    int64_t its = number - wait->back;
    int lane = phase->devices[k->device].ops[wait->op].lane;
    if (wait->back > MGPU_STEPS_IN_FLIGHT || its <= mgpu_async_steps_done(k->engine, k->device) || its < k->number[lane])
        return true;
    bool known = its == k->number[lane] && phase == k->phase[lane] &&
                 lanes_of(k->engine, phase, k->device)->place[wait->op] <= k->after[lane];
    return known || (phase_of(k->engine, its) == phase && op_has_written(k, phase, its, wait->op, false));
}

const mgpu_op *mgpu_progress_waited(const StreamProgress *k, int lane, int from, int to, const mgpu_op **by)
{
    for (int place = from; place <= to; place++) {
        *by = mgpu_progress_op(k, lane, place);
        for (int w = 0; w < (*by)->wait_count; w++) {
            const mgpu_op *other = &k->phase[lane]->devices[k->device].ops[(*by)->waits[w].op];
            if (other->lane != lane && !is_done(k, k->phase[lane], k->number[lane], &(*by)->waits[w]))
                return other;
        }
    }
    return NULL;
}
