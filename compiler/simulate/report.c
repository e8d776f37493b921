/* report.c: what a lane did in a period, and what it waited for.
 *
 * The gap before an operation is caused by the last operation that it waited for: while that ran, its lane is the cause. If that
 * operation began late, too, the rest of the gap is caused by what it waited for, or by the operation before it in its lane, and
 * so on. A transfer that waited for its other members waited for other devices. */
#include "compiler/simulate/simulate.h"

static const Cause CAUSE_OF[LANES] = {[LANE_COMP] = CAUSE_COMPUTATION,
                                      [LANE_COPY] = CAUSE_UPLOAD,
                                      [LANE_COMM] = CAUSE_COMMUNICATION,
                                      [LANE_SYNC] = CAUSE_COMMUNICATION,
                                      [LANE_HOST] = CAUSE_INPUT};

static const Record *record_of(const Records *r, int step, int device, int op)
{
    const Record *x = step > 0 ? &r->of[step % KEPT_STEPS][device][op] : NULL;
    return x && x->number == step ? x : NULL;
}

/* Assigns the part of the gap [from, *to] after `at` to the cause, and shortens the gap; returns that part. */
static double give(LaneUse *use, Cause cause, double from, double *to, double at)
{
    double begin = at > from ? at : from, us = *to - begin;
    if (us <= 0)
        return 0;
    use->idle_us[cause] += us;
    *to = begin;
    return us;
}

/* A READ that waited for its lane waited for the previous operation of the host, such as a report, which waited for
 * computation. */
static const Record *before_on_host(const Records *r, int device, const Record *x)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    int op = (int)(x - r->of[x->number % KEPT_STEPS][device]), step = x->number;
    if (d->ops[op].lane != LANE_HOST)
        return NULL;
    for (int k = 0; k < d->op_count; k++) {
        step -= op == 0;
        op = op ? op - 1 : d->op_count - 1;
        if (d->ops[op].lane == LANE_HOST)
            return record_of(r, step, device, op);
    }
    return NULL;
}

static void explain(const Records *r, int device, const Record *x, double from, double to, LaneUse *use, double *waited_us)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    Cause cause = CAUSE_NOTHING;
    while (to > from) {
        if (x->arrived_us < x->begin_us)
            give(use, CAUSE_DEVICE, from, &to, x->arrived_us);
        const Record *before = x->op < 0 ? NULL : record_of(r, x->step, device, x->op);
        const Record *earlier = before ? NULL : before_on_host(r, device, x);
        if (!before && !earlier) {
            give(use, cause, from, &to, from);
            return;
        }
        cause = CAUSE_OF[before ? d->ops[x->op].lane : LANE_HOST];
        double us = give(use, cause, from, &to, before ? before->begin_us : earlier->begin_us);
        if (waited_us && before)
            waited_us[x->op] += us;
        x = before ? before : earlier;
    }
}

LaneUse lane_use(const Records *r, int device, Lane lane, int step, double from_us, double to_us, double *waited_us)
{
    const DeviceSchedule *d = &r->phase->devices[device];
    LaneUse use = {0};
    double at = from_us;
    for (int s = step > 3 ? step - 3 : 1; s <= step + 5; s++)
        for (int i = 0; i < d->op_count; i++) {
            const Record *x = d->ops[i].lane == lane ? record_of(r, s, device, i) : NULL;
            if (!x || x->end_us <= at || at >= to_us)
                continue;
            double begin = x->begin_us < to_us ? x->begin_us : to_us, end = x->end_us < to_us ? x->end_us : to_us;
            if (begin > at)
                explain(r, device, x, at, begin, &use, waited_us);
            use.busy_us += end - (begin > at ? begin : at);
            at = end;
        }
    if (at < to_us)
        use.idle_us[CAUSE_NOTHING] += to_us - at;
    return use;
}
