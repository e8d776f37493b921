/* look.c: how far an asynchronous device has come. In: the step numbers that its streams have written to host memory, which can
 * be read when the driver does not respond any more, and what has been issued. Out: for each lane, the operations between the
 * last one that is known to have completed and the first one that has not. A note is written before the event that other streams
 * wait for. So an operation that waits for one without a note has not begun, and everything that a begun transfer waits for has
 * completed. */
#include "runtime/base/base.h"
#include "runtime/engine/look.h"

static bool is_noted(const Look *k, int mark, int64_t number)
{
    return mark >= 0 && k->engine->kind->ahead->noted(k->engine->devices[k->device], mark) == (uint32_t)number;
}

static bool op_noted(const Look *k, const mgpu_phase *phase, int64_t number, int op, bool before)
{
    return is_noted(k, mgpu_ahead_mark(k->engine, k->device, phase, number, op, before), number);
}

static int ops_of(const Look *k, int lane)
{
    const LaneTable *t = lanes_of(k->engine, k->phase[lane], k->device);
    return t->begin[lane + 1] - t->begin[lane];
}

const mgpu_op *mgpu_look_op(const Look *k, int lane, int place)
{
    const LaneTable *t = lanes_of(k->engine, k->phase[lane], k->device);
    return &k->phase[lane]->devices[k->device].ops[t->order[t->begin[lane] + place]];
}

int64_t mgpu_look_step(const Look *k)
{
    int64_t first = k->number[0];
    for (int lane = 1; lane < MGPU_HOST; lane++)
        first = k->number[lane] < first ? k->number[lane] : first;
    return first;
}

bool mgpu_look_in_sum(const Lane *l)
{
    int doing = atomic_load(&l->doing);
    const mgpu_op *op = l->op;
    return op && op->verb == MGPU_TRANSFER && (doing == DOING_SUM || doing == DOING_END);
}

/* ---- one lane */
static int64_t first_step(const Look *k, int lane)
{
    int64_t posted = atomic_load(&k->engine->posted.value), number = mgpu_ahead_steps(k->engine, k->device) + 1;
    if (lane == MGPU_HOST || lane_of(k->engine, k->device, lane)->idle)
        return posted + 1;
    while (number <= posted && is_noted(k, mgpu_ahead_step_mark(k->engine, k->device, lane, number), number))
        number++;
    return number;
}

/* Updates what is known from operation `place`, which is issued: it has completed, or may not have. */
static void look_at_operation(Look *k, int lane, int place, bool whole)
{
    const mgpu_op *op = mgpu_look_op(k, lane, place);
    int index = (int)(op - k->phase[lane]->devices[k->device].ops);
    int64_t number = k->number[lane];
    bool transfer = op->verb == MGPU_TRANSFER, begun = transfer && op_noted(k, k->phase[lane], number, index, true);
    bool marked = mgpu_ahead_mark(k->engine, k->device, k->phase[lane], number, index, false) >= 0;
    if (whole && op_noted(k, k->phase[lane], number, index, false)) {
        k->after[lane] = place;
    } else if (transfer || marked) {
        k->after[lane] = begun && place - 1 > k->after[lane] ? place - 1 : k->after[lane];
        k->held[lane] = k->until[lane] < 0 ? transfer && !begun : k->held[lane];
        k->until[lane] = k->until[lane] < 0 ? place : k->until[lane];
    }
}

static void look_at_lane(Look *k, int lane)
{
    Engine *e = k->engine;
    const mgpu_device_phase *p = &k->phase[lane]->devices[k->device];
    const Lane *l = lane_of(e, k->device, lane);
    int count = ops_of(k, lane), place = 0;
    int64_t number = k->number[lane];
    for (; place < count; place++) {
        const mgpu_op *op = mgpu_look_op(k, lane, place);
        bool issued = mgpu_ahead_has_issued(e, k->device, k->phase[lane], number, (int)(op - p->ops), k->failed);
        if (!issued && !(l->number == number && l->op == op && mgpu_look_in_sum(l)))
            break;
        look_at_operation(k, lane, place, issued);
    }
    bool whole = mgpu_ahead_issued(e, k->device) >= finished(number); /* then the end of the step has not been reached */
    if (k->until[lane] < 0 && (whole || k->failed))
        k->until[lane] = place - 1;
}

void mgpu_look_at_waits(Look *k, const mgpu_op *transfer, bool begun)
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

static void look_at_transfers(Look *k, int lane)
{
    int last = k->until[lane] >= 0 ? k->until[lane] - k->held[lane] : k->after[lane];
    for (int place = 0; place <= last; place++)
        if (mgpu_look_op(k, lane, place)->verb == MGPU_TRANSFER)
            mgpu_look_at_waits(k, mgpu_look_op(k, lane, place), true);
}

Look mgpu_look(Engine *e, int device, bool failed)
{
    Look k = {.engine = e, .device = device, .failed = failed};
    bool notes = e->kind->ahead->notes(e->devices[device]);
    for (int lane = 0; lane < MGPU_LANES; lane++) {
        k.number[lane] = first_step(&k, lane);
        k.phase[lane] = k.number[lane] <= atomic_load(&e->posted.value) ? phase_of(e, k.number[lane]) : NULL;
        k.after[lane] = k.until[lane] = -1;
    }
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.phase[lane] && notes)
            look_at_lane(&k, lane);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.phase[lane] && mgpu_lane_transfers(lane))
            look_at_transfers(&k, lane);
    for (int lane = 0; lane < MGPU_HOST; lane++)
        if (k.until[lane] >= 0 && k.after[lane] >= k.until[lane]) {
            k.after[lane] = failed ? k.after[lane] : k.until[lane] - 1;
            k.until[lane] = failed ? -1 : k.until[lane];
        }
    return k;
}

/* ---- which operation waits for which */
static bool is_done(const Look *k, const mgpu_phase *phase, int64_t number, const mgpu_wait *wait)
{
    int64_t its = number - wait->back;
    int lane = phase->devices[k->device].ops[wait->op].lane;
    if (wait->back > MGPU_AHEAD || its <= mgpu_ahead_steps(k->engine, k->device) || its < k->number[lane])
        return true;
    bool known = its == k->number[lane] && phase == k->phase[lane] && lanes_of(k->engine, phase, k->device)->place[wait->op] <= k->after[lane];
    return known || (phase_of(k->engine, its) == phase && op_noted(k, phase, its, wait->op, false));
}

const mgpu_op *mgpu_look_waited(const Look *k, int lane, int from, int to, const mgpu_op **by)
{
    for (int place = from; place <= to; place++) {
        *by = mgpu_look_op(k, lane, place);
        for (int w = 0; w < (*by)->wait_count; w++) {
            const mgpu_op *other = &k->phase[lane]->devices[k->device].ops[(*by)->waits[w].op];
            if (other->lane != lane && !is_done(k, k->phase[lane], k->number[lane], &(*by)->waits[w]))
                return other;
        }
    }
    return NULL;
}
