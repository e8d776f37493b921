/* list_test.c: orders of issue of random plans (runtime/schedule/issue_order.c), against who issues them one after the other:
 * nothing comes before what it needs, all comes once, transfers in their order, no region is in two segments, and no segment or
 * run is shorter than it has to be. The verifier's proof (compiler/verify/issue.c) accepts them; of orders with planted errors it
 * accepts none that this test finds wrong. */
#include "compiler/verify/verify.h"
#include "runtime/base/base.h"
#include "tests/unit/random_phase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 4000, MOST_OPS = 40, MOST_WAITS = 3 };

typedef struct Case {
    mgpu_op ops[MOST_OPS];
    mgpu_wait waits[MOST_OPS][MOST_WAITS];
    mgpu_device_phase phase;
    LaneTable lanes;
    IssueOrder list;
    bool transfers;
} Case;

/* what must be issued, or done by the lane host, before operation i of the same step: what it waits for, what its lane has before
 * it; of transfers the one before in any lane */
static void mark_needed(const Case *c, int i, bool *needed)
{
    const mgpu_op *op = &c->ops[i];
    for (int w = 0; w < op->wait_count; w++)
        if (!op->waits[w].back && !needed[op->waits[w].op]) {
            needed[op->waits[w].op] = true;
            mark_needed(c, op->waits[w].op, needed);
        }
    for (int k = i - 1; k >= 0; k--)
        if (c->ops[k].lane == op->lane || (c->ops[k].verb == MGPU_TRANSFER && op->verb == MGPU_TRANSFER)) {
            if (!needed[k]) {
                needed[k] = true;
                mark_needed(c, k, needed);
            }
            break;
        }
}

/* The lane comp may issue its operation `place` with those from `begin` on: nothing that it waits for needs one of them. */
static bool may_join(const Case *c, int begin, int place)
{
    const int *order = c->lanes.order + c->lanes.begin[MGPU_COMP];
    const mgpu_op *op = &c->ops[order[place]];
    for (int w = 0; w < op->wait_count; w++) {
        bool needed[MOST_OPS] = {false};
        if (op->waits[w].back || c->ops[op->waits[w].op].lane == MGPU_COMP)
            continue;
        mark_needed(c, op->waits[w].op, needed);
        for (int k = begin; k < place; k++)
            if (needed[order[k]])
                return false;
    }
    return true;
}

/* calls that follow each other, of which none waits for what needs another one */
static void make_regions(Case *c, Random *r)
{
    const int *order = c->lanes.order + c->lanes.begin[MGPU_COMP];
    int calls = c->lanes.begin[MGPU_COMP + 1] - c->lanes.begin[MGPU_COMP], most = random_below(r, 3) * 40;
    for (int place = 0, first = 0; place < calls; place++) {
        if (random_below(r, 100) >= most || !may_join(c, first, place))
            first = place;
        c->ops[order[place]].region = first;
    }
}

/* calls among all others; waits for earlier ones of the list, or for any of a step before */
static void make_case(Case *c, Random *r)
{
    int count = random_below(r, MOST_OPS + 1), calls = 10 * random_below(r, 10);
    *c = (Case){.phase = {.ops = c->ops, .op_count = count}};
    for (int i = 0; i < count; i++) {
        int lane = random_below(r, 100) < calls ? MGPU_COMP : random_below(r, MGPU_LANES);
        uint8_t verb = lane == MGPU_COMP   ? MGPU_CALL
                       : lane == MGPU_COPY ? MGPU_UPLOAD
                       : lane == MGPU_HOST ? MGPU_READ
                                           : MGPU_TRANSFER;
        c->ops[i] = (mgpu_op){.lane = (uint8_t)lane, .verb = verb, .region = -1, .waits = c->waits[i]};
        for (int w = random_below(r, MOST_WAITS + 1); w > 0; w--) {
            int back = random_below(r, 4) == 0;
            if (i > 0 || back)
                c->waits[i][c->ops[i].wait_count++] = (mgpu_wait){random_below(r, back ? count : i), back};
        }
    }
    mgpu_make_lanes(&c->lanes, &c->phase);
    make_regions(c, r);
    c->transfers = random_below(r, 2);
    mgpu_make_issue_order(&c->list, &c->phase, &c->lanes, c->transfers);
}

/* the region that begins at `place` */
static bool region_may_join(const Case *c, int begin, int place, int calls)
{
    const int *order = c->lanes.order + c->lanes.begin[MGPU_COMP];
    bool may = true;
    for (int k = place; k < calls && c->ops[order[k]].region == c->ops[order[place]].region; k++)
        may = may && may_join(c, begin, k);
    return may;
}

/* Returns true if a segment waits for all that its operation waits for in other lanes. */
static bool segment_waits(const Case *c, const Segment *s, int op)
{
    for (int w = 0; w < c->ops[op].wait_count; w++) {
        const mgpu_wait *wait = &c->waits[op][w];
        bool has = c->ops[wait->op].lane == MGPU_COMP;
        for (int k = 0; k < s->wait_count; k++)
            has = has || (s->waits[k].op == wait->op && s->waits[k].back == wait->back);
        if (!has)
            return false;
    }
    return true;
}

/* longest: no segment may be shorter than it has to be */
static const char *check_segments(const Case *c, bool longest)
{
    const IssueOrder *l = &c->list;
    const int *order = c->lanes.order + c->lanes.begin[MGPU_COMP];
    int calls = c->lanes.begin[MGPU_COMP + 1] - c->lanes.begin[MGPU_COMP], next = 0;
    for (int s = 0; s < l->count; s++) {
        if (l->segments[s].begin != next || l->segments[s].end <= next)
            return "segments are not one after the other";
        for (int place = next; place < l->segments[s].end; place++)
            if (l->segment[place] != s || !may_join(c, next, place))
                return "a segment waits for what needs it";
            else if (!segment_waits(c, &l->segments[s], order[place]))
                return "a segment does not wait for what it needs";
        next = l->segments[s].end;
        if (next < calls && c->ops[order[next]].region == c->ops[order[next - 1]].region)
            return "a region is in two segments";
        if (longest && next < calls && region_may_join(c, l->segments[s].begin, next, calls))
            return "a segment is shorter than it has to be";
    }
    return next == calls ? NULL : "operations are in no segment";
}

/* the operations that the list has at a place */
static int ops_at(const Case *c, int at, int *ops)
{
    int first = c->list.list[at], count = 0;
    if (c->ops[first].lane != MGPU_COMP)
        return ops[0] = first, 1;
    const Segment *s = mgpu_segment_of(&c->list, c->lanes.place[first]);
    for (int place = s->begin; place < s->end; place++)
        ops[count++] = c->lanes.order[c->lanes.begin[MGPU_COMP] + place];
    return count;
}

/* What the list has at a place may be in one run with those from `begin` on: nothing that it waits for and that is not in it
 * needs one of them. */
static bool may_run(const Case *c, int begin, int at)
{
    int ops[MOST_OPS], count = ops_at(c, at, ops);
    for (int i = 0; i < count; i++)
        for (int w = 0; w < c->ops[ops[i]].wait_count; w++) {
            const mgpu_wait *wait = &c->waits[ops[i]][w];
            bool needed[MOST_OPS] = {false}, host = c->ops[wait->op].lane == MGPU_HOST;
            if (wait->back || (!host && c->list.list_place[wait->op] >= begin))
                continue;
            mark_needed(c, wait->op, needed);
            for (int k = 0; k < c->phase.op_count; k++)
                if (needed[k] && c->ops[k].lane != MGPU_HOST && c->list.list_place[k] >= begin)
                    return false;
        }
    return true;
}

static bool has_wait(const CapturedRun *r, const mgpu_wait *wait)
{
    for (int w = 0; w < r->wait_count; w++)
        if (r->waits[w].op == wait->op && r->waits[w].back == wait->back)
            return true;
    return false;
}

/* of another lane, and not in the run */
static bool waits_before(const Case *c, const CapturedRun *r, int op)
{
    for (int w = 0; w < c->ops[op].wait_count; w++) {
        const mgpu_wait *wait = &c->waits[op][w];
        uint8_t lane = c->ops[wait->op].lane;
        bool within = !wait->back && lane != MGPU_HOST && c->list.list_place[wait->op] >= r->begin;
        if (lane != MGPU_COMP && lane != c->ops[op].lane && !within && !has_wait(r, wait))
            return false;
    }
    return true;
}

static const char *check_runs(const Case *c, bool longest)
{
    const IssueOrder *l = &c->list;
    for (int at = 0, before = -1; at < l->length; before = l->run[at++]) {
        uint8_t lane = c->ops[l->list[at]].lane;
        int ops[MOST_OPS], count = ops_at(c, at, ops);
        if ((l->run[at] >= 0) != (lane == MGPU_COMP || (c->transfers && lane == MGPU_COMM)))
            return "a segment or a transfer is in no run, or another operation is in one";
        if (l->run[at] < 0)
            continue;
        const CapturedRun *r = &l->runs[l->run[at]];
        if (at < r->begin || at >= r->end || (lane == MGPU_COMM && !r->transfers))
            return "a place is in another run";
        if (at > r->begin && (l->run[at - 1] != l->run[at] || !may_run(c, r->begin, at)))
            return "a run waits for what needs it";
        if (longest && at == r->begin && before >= 0 && c->transfers && may_run(c, l->runs[before].begin, at))
            return "a run is shorter than it has to be";
        for (int i = 0; i < count; i++)
            if ((longest || r->transfers) && !waits_before(c, r, ops[i])) // a segment by itself has a list of its own
                return "a run does not wait for what it needs";
    }
    return NULL;
}

/* one after the other; the lane host does all that it can meanwhile */
static const char *check_order(const Case *c)
{
    const IssueOrder *l = &c->list;
    const int *comp = c->lanes.order + c->lanes.begin[MGPU_COMP];
    bool done[MOST_OPS] = {false};
    int last_transfer = -1;
    for (int i = 0; i < l->length; i++) {
        int first = l->list[i];
        bool call = c->ops[first].lane == MGPU_COMP;
        int begin = call ? c->lanes.place[first] : 0, end = call ? mgpu_segment_of(l, begin)->end : 1;
        for (int place = begin; place < end; place++) {
            int o = call ? comp[place] : first;
            bool needed[MOST_OPS] = {false};
            mark_needed(c, o, needed);
            if (done[o] || c->ops[o].lane == MGPU_HOST || l->list_place[o] != i)
                return "an operation is issued twice, or is of the lane host, or is at another place";
            for (int k = 0; k < c->phase.op_count; k++)
                if (needed[k] && c->ops[k].lane != MGPU_HOST && !done[k] &&
                    !(call && c->ops[k].lane == MGPU_COMP && l->list_place[k] == i))
                    return "an operation is issued before what it needs";
            if (c->ops[o].verb == MGPU_TRANSFER && o < last_transfer)
                return "transfers are in another order";
            last_transfer = c->ops[o].verb == MGPU_TRANSFER ? o : last_transfer;
        }
        for (int place = begin; place < end; place++)
            done[call ? comp[place] : first] = true;
    }
    for (int k = 0; k < c->phase.op_count; k++)
        if (!done[k] && c->ops[k].lane != MGPU_HOST)
            return "an operation is not issued";
    return NULL;
}

static const char *check(const Case *c, bool longest)
{
    const char *why = check_segments(c, longest);
    why = why ? why : check_order(c);
    return why ? why : check_runs(c, longest);
}

/* ---- planted errors */
static void put_at(Case *c, int at, int op)
{
    c->list.list[at] = op;
    c->list.list_place[op] = at;
    const Segment *s = c->ops[op].lane == MGPU_COMP ? mgpu_segment_of(&c->list, c->lanes.place[op]) : NULL;
    for (int place = s ? s->begin : 0; s && place < s->end; place++)
        c->list.list_place[c->lanes.order[c->lanes.begin[MGPU_COMP] + place]] = at;
}

static void swap_positions(Case *c, Random *r)
{
    int at = random_below(r, c->list.length - 1), op = c->list.list[at];
    put_at(c, at, c->list.list[at + 1]);
    put_at(c, at + 1, op);
}

static void drop_wait(mgpu_wait *waits, int *count, Random *r)
{
    if (*count)
        waits[random_below(r, *count)] = waits[*count - 1], --*count;
}

/* The first call of a segment becomes the last of the one before it. */
static void move_call(Case *c, Random *r)
{
    int number = random_below(r, c->list.count - 1);
    Segment *s = &c->list.segments[number], *next = s + 1;
    if (next->end - next->begin < 2)
        return;
    const int *calls = c->lanes.order + c->lanes.begin[MGPU_COMP];
    for (int w = 0; w < next->wait_count; w++)
        MGPU_PUSH(s->waits, s->wait_count, next->waits[w]);
    int moved = calls[next->begin++], at = c->list.list_place[moved];
    c->list.segment[s->end++] = number;
    put_at(c, at, calls[next->begin]);
    c->list.list_place[moved] = c->list.list_place[calls[s->begin]];
}

/* A run gets all positions of the next one. */
static void join_runs(Case *c, Random *r)
{
    int number = random_below(r, c->list.run_count - 1);
    CapturedRun *run = &c->list.runs[number], *next = run + 1;
    if (run->end != next->begin || !c->transfers)
        return;
    for (int w = 0; w < next->wait_count; w++)
        MGPU_PUSH(run->waits, run->wait_count, next->waits[w]);
    for (int at = next->begin; at < next->end; at++)
        c->list.run[at] = number;
    run->transfers = run->transfers || next->transfers;
    run->end = next->end;
}

static void plant(Case *c, Random *r)
{
    int kind = random_below(r, 8);
    if (kind == 0 && c->list.length > 1)
        swap_positions(c, r);
    else if (kind == 1 && c->list.count) {
        Segment *s = &c->list.segments[random_below(r, c->list.count)];
        drop_wait(s->waits, &s->wait_count, r);
    } else if (kind == 2 && c->list.run_count) {
        CapturedRun *run = &c->list.runs[random_below(r, c->list.run_count)];
        drop_wait(run->waits, &run->wait_count, r);
    } else if (kind == 3 && c->list.count > 1)
        move_call(c, r);
    else if (kind == 4 && c->list.run_count > 1)
        join_runs(c, r);
    else if (kind == 5 && c->list.length)
        c->list.list[random_below(r, c->list.length)] = random_below(r, c->phase.op_count);
    else if (kind == 6 && c->list.length)
        c->list.length--;
    else if (kind == 7 && c->list.length)
        c->list.run[random_below(r, c->list.length)] = random_below(r, c->list.run_count + 1) - 1;
}

/* ---- the proof */
static struct {
    const char *text;
    int count;
} reasons[] = {
    {"begins a segment that does not have its calls", 0},
    {"is in another segment than the call before it, which is of its region", 0},
    {"is issued at two positions, or not in the order of its lane", 0},
    {"is issued after a later transfer", 0},
    {"is in a run that does not have its operations", 0},
    {"is the last that is issued, but others are not", 0},
    {"is in a segment that does not wait for", 0},
    {"is in a run that does not wait for", 0},
    {"would wait for ever for", 0},
    {"is not issued after", 0},
};

/* Returns NULL, or what the proof says of the order, and counts it. */
static const char *prove(const Case *c)
{
    int op, other;
    Memory *own = memory_new(), *outer = memory_use(own);
    const char *why = check_issue_order(&c->phase, &c->lanes, &c->list, &op, &other);
    for (int i = 0; why && i < MGPU_COUNT(reasons); i++)
        reasons[i].count += strcmp(reasons[i].text, why) == 0;
    memory_use(outer);
    memory_free(own);
    return why;
}

int main(void)
{
    static Case c;
    int segments = 0, joined = 0, longer = 0, wrong = 0, stricter = 0;
    for (int seed = 0; seed < PLANS; seed++) {
        Random r = {(uint64_t)seed};
        make_case(&c, &r);
        const char *why = check(&c, true);
        why = why ? why : prove(&c);
        segments += c.list.count;
        for (int i = 0; i < c.list.run_count; i++)
            longer += c.list.runs[i].end - c.list.runs[i].begin - 1;
        joined += c.lanes.begin[MGPU_COMP + 1] - c.lanes.begin[MGPU_COMP] - c.list.count;
        plant(&c, &r);
        const char *found = check(&c, false), *proof = prove(&c);
        why = why ? why : found && !proof ? mgpu_format("the proof accepts that %s", found) : NULL;
        wrong += found != NULL;
        stricter += !found && proof;
        mgpu_free_issue_order(&c.list);
        mgpu_free_lanes(&c.lanes);
        if (why) {
            printf("not ok list of plan %d: %s\n", seed, why);
            return 1;
        }
    }
    bool ok = segments > PLANS && joined > PLANS && longer > PLANS / 2 && wrong > PLANS / 8 && stricter < wrong / 8;
    for (int i = 0; i < MGPU_COUNT(reasons); i++)
        if (!reasons[i].count)
            ok = !printf("not ok no planted error %s another\n", reasons[i].text);
    printf(
        "%s %d plans, %d segments, %d more calls in them, %d more places in runs; %d planted errors, %d that this test accepts\n",
        ok ? "ok" : "not ok", PLANS, segments, joined, longer, wrong, stricter);
    return ok ? 0 : 1;
}
