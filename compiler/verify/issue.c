/* issue.c: proves the order in which the operations of a GPU are issued.
 *
 * In: one phase on one device. One thread issues its operations to all streams (runtime/engine/issue.c), in the order that
 * runtime/schedule/issue_order.c makes of the schedule. It is made here as it will be made there, with and without transfers
 * captured in graphs, and proved for this schedule:
 *   - every operation but those of the lane host is issued once: those of a lane, and the transfers of all lanes, in the order of
 *     the schedule, the calls of a region in one segment
 *   - what an operation waits for in the same step is issued before it, so the event that its stream waits for is of this step
 *   - where the thread itself waits, for the lane host, that needs nothing that the thread issues later, so it never waits for
 *     ever
 *   - a segment, and a run that is captured with transfers, waits for all that its operations wait for
 *
 * Transfers wait for other devices. They have one order on all devices, so no thread waits for one that waits for it. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/verify.h"

/* ---- the schedule's own order */
static const char *check_list(const Schedule *s, int phase, int device)
{
    const DeviceSchedule *d = &s->phases[phase].devices[device];
    for (int o = 0; o < d->op_count; o++) {
        look_at(d->ops[o].text_line);
        for (int w = 0; w < d->ops[o].wait_count; w++)
            if (d->ops[o].waits[w].back == 0 && d->ops[o].waits[w].op >= o)
                return format(
                    "phase %s: d%d.%s waits for d%d.%s, which is after it in the list: who issues one after the other waits for ever; it has to be before",
                    s->phases[phase].name, device, d->ops[o].id, device, d->ops[d->ops[o].waits[w].op].id);
    }
    return NULL;
}

/* ---- the order of issue */
typedef struct Issue {
    const DeviceSchedule *device;
    const LaneTable *lanes;
    const IssueOrder *order;
    int *needs; /* [operation of the lane host]: the last position that must be issued before it completes, in the same step */
    int op;     /* the operation that is checked */
    bool captures_transfers;
} Issue;

static const char *check_segment(const Issue *x, int at, int *next)
{
    const int *calls = x->lanes->order + x->lanes->begin[LANE_COMP];
    int count = x->lanes->begin[LANE_COMP + 1] - x->lanes->begin[LANE_COMP];
    int number = *next < count && x->lanes->place[x->op] == *next ? x->order->segment[*next] : -1;
    const Segment *s = number >= 0 && number < x->order->count ? &x->order->segments[number] : NULL;
    bool whole = s && s->begin == *next && s->end > *next && s->end <= count;
    for (int place = *next; whole && place < s->end; place++)
        whole = x->order->segment[place] == number && x->order->list_place[calls[place]] == at;
    if (!whole)
        return "begins a segment that does not have its calls";
    if (*next > 0 && same_region(&x->device->ops[calls[*next - 1]], &x->device->ops[calls[*next]]))
        return "is in another segment than the call before it, which is of its region";
    *next = s->end;
    return NULL;
}

static bool is_in_run(const Issue *x, int at)
{
    int number = x->order->run[at], lane = x->device->ops[x->op].lane;
    if (number < 0) /* in a stream of its own, a transfer would have no order with those in graphs */
        return lane != LANE_COMP && (lane != LANE_COMM || !x->captures_transfers);
    const CapturedRun *r = number < x->order->run_count ? &x->order->runs[number] : NULL;
    bool whole = r && at >= r->begin && at < r->end && r->end <= x->order->length && (r->transfers || r->end - r->begin == 1);
    for (int k = whole ? r->begin : 0; whole && k < r->end; k++)
        whole = x->order->run[k] == number;
    return whole && (lane == LANE_COMP || (lane == LANE_COMM && r->transfers));
}

static const char *check_positions(Issue *x)
{
    int next = 0, issued = 0, wanted = 0, before[LANES] = {0}, transfer = -1;
    for (int at = 0; at < x->order->length; at++) {
        x->op = x->order->list[at];
        const ScheduledOp *op = &x->device->ops[x->op];
        int first = next;
        const char *why = op->lane == LANE_COMP ? check_segment(x, at, &next) : NULL;
        if (why)
            return why;
        if (op->lane == LANE_HOST || x->order->list_place[x->op] != at || x->op < before[op->lane])
            return "is issued at two positions, or not in the order of its lane";
        if (op->verb == VERB_TRANSFER && x->op < transfer)
            return "is issued after a later transfer";
        if (!is_in_run(x, at))
            return "is in a run that does not have its operations";
        transfer = op->verb == VERB_TRANSFER ? x->op : transfer;
        before[op->lane] = x->op;
        issued += op->lane == LANE_COMP ? next - first : 1;
    }
    for (int o = 0; o < x->device->op_count; o++)
        wanted += x->device->ops[o].lane != LANE_HOST;
    return issued == wanted ? NULL : "is the last that is issued, but others are not";
}

static void find_needs(Issue *x)
{
    for (int o = 0, before = -1; o < x->device->op_count; o++) {
        const ScheduledOp *op = &x->device->ops[o];
        if (op->lane != LANE_HOST)
            continue;
        for (int w = 0; w < op->wait_count; w++) {
            int target = op->waits[w].op;
            int need = x->device->ops[target].lane == LANE_HOST ? x->needs[target] : x->order->list_place[target];
            before = op->waits[w].back == 0 && need > before ? need : before;
        }
        x->needs[o] = before;
    }
}

static bool has_wait(const mgpu_wait *waits, int count, const mgpu_wait *wait)
{
    for (int w = 0; w < count; w++)
        if (waits[w].op == wait->op && waits[w].back == wait->back)
            return true;
    return false;
}

/* Segments are issued to the stream of the lane comp, and runs with transfers are launched in it. */
static const char *check_wait(const Issue *x, const mgpu_wait *wait)
{
    const IssueOrder *order = x->order;
    int lane = x->device->ops[x->op].lane, other = x->device->ops[wait->op].lane, at = order->list_place[x->op];
    const Segment *s = lane == LANE_COMP ? mgpu_segment_of(order, x->lanes->place[x->op]) : NULL;
    const CapturedRun *r = order->run[at] >= 0 && order->runs[order->run[at]].transfers ? &order->runs[order->run[at]] : NULL;
    if (s && other != LANE_COMP && !has_wait(s->waits, s->wait_count, wait))
        return "is in a segment that does not wait for";
    bool inside = wait->back == 0 && other != LANE_HOST && order->run[order->list_place[wait->op]] == order->run[at];
    if (r && !inside && other != lane && other != LANE_COMP && !has_wait(r->waits, r->wait_count, wait))
        return "is in a run that does not wait for";
    if (wait->back > 0)
        return NULL;
    if (other == LANE_HOST)
        return x->needs[wait->op] < (r ? r->begin : at) ? NULL : "would wait for ever for";
    int position = order->list_place[wait->op];
    bool earlier = position == at && s && other == LANE_COMP && wait->op < x->op;
    return position < at || earlier ? NULL : "is not issued after";
}

const char *check_issue_order(const DeviceSchedule *d, const LaneTable *lanes, const IssueOrder *order, int *op, int *other)
{
    Issue x = {.device = d, .lanes = lanes, .order = order, .needs = NEW_ARRAY(int, d->op_count)};
    for (int r = 0; r < order->run_count; r++)
        x.captures_transfers = x.captures_transfers || order->runs[r].transfers;
    const char *why = check_positions(&x);
    *other = -1;
    if (!why)
        find_needs(&x);
    for (int o = 0; o < d->op_count && !why; o++)
        for (int w = 0; w < d->ops[o].wait_count && d->ops[o].lane != LANE_HOST && !why; w++) {
            x.op = o;
            *other = d->ops[o].waits[w].op;
            why = check_wait(&x, &d->ops[o].waits[w]);
        }
    *op = x.op;
    return why;
}

const char *verify_issue(const Schedule *s, int phase, int device)
{
    const DeviceSchedule *d = &s->phases[phase].devices[device];
    const char *why = check_list(s, phase, device);
    LaneTable lanes;
    mgpu_make_lanes(&lanes, d);
    for (int transfers = 0; transfers < 2 && !why; transfers++) {
        IssueOrder order = {0};
        int op, other;
        mgpu_make_issue_order(&order, d, &lanes, transfers);
        why = check_issue_order(d, &lanes, &order, &op, &other);
        mgpu_free_issue_order(&order);
        if (why)
            why = format("phase %s: d%d.%s %s%s%s", s->phases[phase].name, device, d->ops[op].id, why, other < 0 ? "" : " ",
                         other < 0 ? "" : d->ops[other].id);
    }
    mgpu_free_lanes(&lanes);
    return why;
}
