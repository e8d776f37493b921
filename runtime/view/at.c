/* at.c: shows what the lanes of a device do at a time of a step, and what an idle lane waits for. */
#include "runtime/view/view.h"

static const double NEAR_US = .15; /* times in a schedule have one decimal */

static double end_of(const ScheduledOp *op) { return op->begin_us + op->time_us; }

/* Returns the index of the wait that ends last, or -1. */
static int last_wait(const ViewDevice *d, const ScheduledOp *op)
{
    int last = -1;
    for (int i = 0; i < op->wait_count; i++)
        if (op->waits[i].op >= 0 && op->waits[i].back == 0 &&
            (last < 0 || end_of(&d->ops[op->waits[i].op]) > end_of(&d->ops[op->waits[last].op])))
            last = i;
    return last;
}

static void print_idle(const ViewDevice *d, Lane lane, const ScheduledOp *before, const ScheduledOp *next, FILE *f)
{
    char a[32], b[32];
    fprintf(f, "  %-4s  idle from %s to %s, then %s\n", LANE_NAME[lane], mgpu_view_time(before ? end_of(before) : 0, a),
            mgpu_view_time(next->begin_us, b), next->id);
    int wait = last_wait(d, next);
    const ScheduledOp *other = wait < 0 ? NULL : &d->ops[next->waits[wait].op];
    char text[MGPU_VIEW_REASON];
    const char *why = other ? mgpu_view_reason(d, next, &next->waits[wait], text) : "";
    if (other && end_of(other) > next->begin_us - NEAR_US)
        fprintf(f, "          which waits for %s of lane %s until %s%s%s\n", other->id, LANE_NAME[other->lane],
                mgpu_view_time(end_of(other), a), *why ? ": it " : "", why);
    else if (mgpu_lane_transfers((int)lane))
        fprintf(f, "          which waits for the other devices: all begin it together\n");
    else
        fprintf(f, "          which waits for nothing of this step\n");
}

static void print_lane(const ViewDevice *d, Lane lane, double us, FILE *f)
{
    const ScheduledOp *before = NULL, *next = NULL;
    char a[32], b[32];
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (op->lane != lane)
            continue;
        if (op->begin_us <= us && us < end_of(op)) {
            fprintf(f, "  %-4s  %s, from %s to %s\n", LANE_NAME[lane], op->id, mgpu_view_time(op->begin_us, a),
                    mgpu_view_time(end_of(op), b));
            return;
        }
        before = op->begin_us <= us ? op : before;
        next = !next && op->begin_us > us ? op : next;
    }
    if (next)
        print_idle(d, lane, before, next, f);
    else if (before)
        fprintf(f, "  %-4s  idle since %s: nothing is left to do in this step\n", LANE_NAME[lane],
                mgpu_view_time(end_of(before), a));
}

void mgpu_view_at(const View *v, const ViewRequest *r, FILE *f)
{
    int number = r->device < 0 ? 0 : r->device;
    double us = mgpu_view_time_of(r->at);
    char a[32], b[32];
    if (us > v->end_us)
        mgpu_fail(MGPU_BAD_USAGE, "--at %s: one step by itself takes %s", r->at, mgpu_view_time(v->end_us, a));
    fprintf(f, "device %d of %s at %s; one step of %s by itself takes %s\n", number, v->schedule->model, mgpu_view_time(us, a),
            v->phase->name, mgpu_view_time(v->end_us, b));
    for (int lane = 0; lane < LANES; lane++)
        print_lane(&v->devices[number], (Lane)lane, us, f);
}
