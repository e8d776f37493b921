/* issue_order.c: the order in which a device's operations of a phase are issued. In: a plan's list of operations, each after all
 * that it waits for in the same step (compiler/verify/order.c proves that); out: lanes, and for asynchronous devices the list
 * that runtime/engine/issue.c goes through. compiler/verify/issue.c proves what this file makes of a schedule.
 *
 * Segments. The operations of the lane comp are cut before an operation that waits for something that can only be issued after
 * earlier operations of the segment, such as the all-reduce of their results. All other waits are done before the segment, which
 * is then issued without further waits. The calls of a region are one launch, so it waits for what any of them waits for.
 *
 * The list. First the first segment, then the operations of other lanes that need no later segment, in the order of the plan,
 * then the second segment, and so on. What a segment waits for needs none of its operations, so it comes before the segment; what
 * waits for one of its operations comes after it. Transfers have the plan's order on all devices, so devices that wait for each
 * other in transfers wait in the same one.
 *
 * Runs. A run is captured as one graph: a segment; or, if transfers may be captured, as many consecutive segments and transfers
 * of the lane comm as possible. What a run waits for is waited for before it. So a run ends before an operation that waits for an
 * operation of the lane host that itself waits for a part of the run. */
#include "runtime/base/base.h"
#include "runtime/schedule/issue_order.h"

#include <stdlib.h>

void mgpu_make_lanes(LaneTable *t, const mgpu_device_phase *p)
{
    int count = 0;
    t->order = mgpu_allocate((size_t)p->op_count, sizeof(int));
    t->place = mgpu_allocate((size_t)p->op_count, sizeof(int));
    for (int lane = 0; lane < MGPU_LANES; lane++) {
        t->begin[lane] = count;
        for (int i = 0; i < p->op_count; i++)
            if (p->ops[i].lane == lane) {
                t->place[i] = count - t->begin[lane];
                t->order[count++] = i;
            }
    }
    t->begin[MGPU_LANES] = count;
}

void mgpu_free_lanes(LaneTable *t)
{
    free(t->order);
    free(t->place);
}

/* ---- segments */
static int larger(int a, int b) { return a > b ? a : b; }

/* Returns [operation]: the last place of the lane comp that must be issued before it, in the same step; -1: none. The transfers
 * of all lanes are in one order. */
static int *find_needs(const mgpu_device_phase *p, const LaneTable *t)
{
    int *need = mgpu_allocate((size_t)p->op_count, sizeof *need), before[MGPU_LANES];
    for (int lane = 0; lane < MGPU_LANES; lane++)
        before[lane] = -1;
    for (int i = 0; i < p->op_count; i++) {
        const mgpu_op *op = &p->ops[i];
        int lane = mgpu_lane_transfers(op->lane) ? MGPU_COMM : op->lane;
        need[i] = lane == MGPU_COMP ? t->place[i] : before[lane];
        for (int w = 0; w < op->wait_count && lane != MGPU_COMP; w++)
            need[i] = op->waits[w].back ? need[i] : larger(need[i], need[op->waits[w].op]);
        before[lane] = need[i];
    }
    return need;
}

static bool waits_for_segment(const mgpu_device_phase *p, const mgpu_op *op, const int *need, int begin)
{
    for (int w = 0; w < op->wait_count; w++)
        if (p->ops[op->waits[w].op].lane != MGPU_COMP && op->waits[w].back == 0 && need[op->waits[w].op] >= begin)
            return true;
    return false;
}

static bool in_one_region(const mgpu_op *a, const mgpu_op *b) { return a->region >= 0 && a->region == b->region; }

/* order: the operation and the next `left` - 1 ones of the lane */
static bool begins_segment(const mgpu_device_phase *p, const int *order, int left, const int *need, int begin)
{
    bool begins = false;
    for (int i = 0; i < left && (i == 0 || in_one_region(&p->ops[order[i]], &p->ops[order[0]])); i++)
        begins = begins || waits_for_segment(p, &p->ops[order[i]], need, begin);
    return begins;
}

/* Waits for the lane comp itself are left out. */
static void add_wait(mgpu_wait **waits, int *count, const mgpu_device_phase *p, const mgpu_wait *wait)
{
    bool known = p->ops[wait->op].lane == MGPU_COMP;
    for (int i = 0; i < *count && !known; i++)
        known = (*waits)[i].op == wait->op && (*waits)[i].back == wait->back;
    if (known)
        return;
    MGPU_PUSH(*waits, *count, *wait);
}

static void cut_segments(IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, const int *need)
{
    int count = t->begin[MGPU_COMP + 1] - t->begin[MGPU_COMP];
    a->segments = mgpu_allocate((size_t)count, sizeof *a->segments);
    a->segment = mgpu_allocate((size_t)count, sizeof *a->segment);
    for (int place = 0; place < count; place++) {
        const int *order = &t->order[t->begin[MGPU_COMP] + place];
        const mgpu_op *op = &p->ops[order[0]];
        bool inside = place > 0 && in_one_region(op, &p->ops[order[-1]]);
        if (place == 0 || (!inside && begins_segment(p, order, count - place, need, a->segments[a->count - 1].begin)))
            a->segments[a->count++] = (Segment){.begin = place};
        Segment *s = &a->segments[a->count - 1];
        s->end = place + 1;
        a->segment[place] = a->count - 1;
        for (int w = 0; w < op->wait_count; w++)
            add_wait(&s->waits, &s->wait_count, p, &op->waits[w]);
    }
}

/* ---- the list */
/* Returns how many segments are issued before an operation of another lane. */
static int segments_before(const IssueOrder *a, int need) { return need < 0 ? 0 : a->segment[need] + 1; }

static bool is_own_segment(const mgpu_op *op) { return op->lane != MGPU_COMP && op->lane != MGPU_HOST; }

static void order_all(IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, const int *need)
{
    /* [segments issued before]: list position of the next such operation */
    int *next = mgpu_allocate((size_t)a->count + 2, sizeof *next);
    a->list = mgpu_allocate((size_t)p->op_count, sizeof *a->list);
    a->list_place = mgpu_allocate((size_t)p->op_count, sizeof *a->list_place);
    for (int i = 0; i < p->op_count; i++)
        if (is_own_segment(&p->ops[i]))
            next[segments_before(a, need[i]) + 1]++;
    for (int s = 0; s < a->count; s++) {
        next[s + 1] += next[s] + 1;
        a->list[next[s + 1] - 1] = t->order[t->begin[MGPU_COMP] + a->segments[s].begin];
    }
    a->length = next[a->count] + next[a->count + 1];
    for (int i = 0; i < p->op_count; i++)
        if (is_own_segment(&p->ops[i]))
            a->list[next[segments_before(a, need[i])]++] = i;
    for (int i = 0; i < a->length; i++)
        a->list_place[a->list[i]] = i;
    for (int i = 0; i < p->op_count; i++)
        if (p->ops[i].lane == MGPU_COMP)
            a->list_place[i] = a->list_place[t->order[t->begin[MGPU_COMP] + mgpu_segment_of(a, t->place[i])->begin]];
    free(next);
}

/* ---- runs */
static bool is_in_list(const mgpu_op *op) { return op->lane != MGPU_HOST; }

/* Returns [operation]: the last list position that must be issued before it or is its own, in the same step; -1: none. */
static int *find_last(const IssueOrder *a, const mgpu_device_phase *p)
{
    int *last = mgpu_allocate((size_t)p->op_count, sizeof *last), before = -1;
    for (int i = 0; i < p->op_count; i++) {
        const mgpu_op *op = &p->ops[i];
        last[i] = is_in_list(op) ? a->list_place[i] : before;
        for (int w = 0; w < op->wait_count && !is_in_list(op); w++)
            last[i] = op->waits[w].back ? last[i] : larger(last[i], last[op->waits[w].op]);
        before = is_in_list(op) ? before : last[i];
    }
    return last;
}

/* Returns the waits of the operation or segment at a list position. */
static const mgpu_wait *waits_at(const IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, int at, int *count)
{
    const mgpu_op *op = &p->ops[a->list[at]];
    const Segment *s = op->lane == MGPU_COMP ? mgpu_segment_of(a, t->place[a->list[at]]) : NULL;
    *count = s ? s->wait_count : op->wait_count;
    return s ? s->waits : op->waits;
}

static bool may_follow(const IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, const int *last, int at)
{
    const CapturedRun *r = a->run_count ? &a->runs[a->run_count - 1] : NULL;
    int count;
    const mgpu_wait *waits = waits_at(a, p, t, at, &count);
    bool may = r && r->end == at;
    for (int w = 0; w < count && may; w++)
        may = waits[w].back || is_in_list(&p->ops[waits[w].op]) || last[waits[w].op] < r->begin;
    return may;
}

static void make_runs(IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, bool transfers)
{
    int *last = find_last(a, p);
    a->runs = mgpu_allocate((size_t)a->length, sizeof *a->runs);
    a->run = mgpu_allocate((size_t)a->length, sizeof *a->run);
    for (int at = 0; at < a->length; at++) {
        const mgpu_op *op = &p->ops[a->list[at]];
        bool kept = op->lane == MGPU_COMP || (transfers && op->lane == MGPU_COMM);
        a->run[at] = -1;
        if (!kept)
            continue;
        if (!transfers || !may_follow(a, p, t, last, at))
            a->runs[a->run_count++] = (CapturedRun){.begin = at};
        CapturedRun *r = &a->runs[a->run_count - 1];
        r->end = at + 1;
        r->transfers = r->transfers || op->lane == MGPU_COMM;
        a->run[at] = a->run_count - 1;
        int count;
        const mgpu_wait *waits = waits_at(a, p, t, at, &count);
        for (int w = 0; w < count; w++)
            if (p->ops[waits[w].op].lane != op->lane && !mgpu_is_in_run(a, p, a->list[at], &waits[w]))
                add_wait(&r->waits, &r->wait_count, p, &waits[w]);
    }
    free(last);
}

/* Returns the position of the next transfer of any run, from `at` on. */
static int next_transfer(const IssueOrder *a, const mgpu_device_phase *p, int at)
{
    while (at < a->length && (a->run[at] < 0 || p->ops[a->list[at]].lane != MGPU_COMM))
        at++;
    return at;
}

bool mgpu_runs_agree(const IssueOrder *a, const mgpu_device_phase *p, const IssueOrder *b, const mgpu_device_phase *q)
{
    int i = next_transfer(a, p, 0), k = next_transfer(b, q, 0), before_i = -1, before_k = -1;
    while (i < a->length && k < b->length) {
        bool same = (a->run[i] == before_i) == (b->run[k] == before_k);
        if (!same || p->ops[a->list[i]].target != q->ops[b->list[k]].target)
            return false;
        before_i = a->run[i];
        before_k = b->run[k];
        i = next_transfer(a, p, i + 1);
        k = next_transfer(b, q, k + 1);
    }
    return i >= a->length && k >= b->length;
}

void mgpu_make_issue_order(IssueOrder *a, const mgpu_device_phase *p, const LaneTable *t, bool transfers)
{
    int *need = find_needs(p, t);
    cut_segments(a, p, t, need);
    order_all(a, p, t, need);
    make_runs(a, p, t, transfers);
    free(need);
}

void mgpu_free_issue_order(IssueOrder *a)
{
    for (int i = 0; i < a->count; i++)
        free(a->segments[i].waits);
    for (int i = 0; i < a->run_count; i++)
        free(a->runs[i].waits);
    free(a->runs);
    free(a->run);
    free(a->segments);
    free(a->segment);
    free(a->list);
    free(a->list_place);
}
