/* bucket.c: Phase -> Order: the kernels in the order of the comp lane, the collectives in the order of the comm lane.
 *
 * A REDUCE is final if no other REDUCE depends on it: gradients for updates, sums for reports. The kernels that depend on a final
 * REDUCE are the phase's tail. They run after all others, so that all of the backward pass hides the collectives, and in the
 * order in which the collectives end. All other kernels keep the order of the phase.
 *
 *   comp   forward ... backward ............ | tail: updates of r3, updates of r4, ...
 *   comm      r0 r1         r2     r3     r4
 *
 * Final REDUCEs are gathered into buckets as their partial sums become complete, each of one dtype (bucketing.c). None of them
 * leads to another REDUCE, so gathering cannot make a cycle. Other sums (batch statistics, sums of loss weights) are waited for
 * at once. They share a collective only if the kernels that complete them are consecutive and do not need each other's sums. They
 * wait for the buckets before them, unless the lane sync is used for them, which is chosen where a step then ends sooner:
 *
 *   comp   forward ....... backward ..................
 *   comm                        r3 .......  r4 .......
 *   sync       r0  r1         r2   r5  r6
 *
 * On GPUs, free calls run while others wait (fill.c). Two kinds of copies move: the copy of a weight's own part to where it is
 * gathered (gather.c) runs before the first reader (gather_starts.c); the copy of a gradient's own part, after which its bucket
 * is dead, runs when the reduce-scatter is predicted to have ended.
 *
 * Reductions of one-bit gradients share buckets with each other, in whole segments (mgpu_bits.h). Other transfers than sums have
 * a collective each. What is Split is cut at multiples of 64 elements into equal parts, unless the graph says where; the last
 * parts may be smaller, or empty.
 *
 * With one device there are no collectives, and the order is that of the phase. */
#include "compiler/kernel/phase.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/bucketing.h"
#include "compiler/plan/fill.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule_internal.h"

#include <math.h>
#include <stdlib.h>

/* ---- dependences of tasks */
typedef struct TaskNeeds { /* of one task */
    int *before;
    int count; /* tasks, by number; a task may be listed twice */
} TaskNeeds;
typedef struct TensorUse { /* of one tensor, so far */
    int writer;            /* -1: none */
    int *readers;
    int count; /* since the last write */
} TensorUse;

static TaskNeeds *find_needs(const Phase *p)
{
    TaskNeeds *needs = NEW_ARRAY(TaskNeeds, p->task_count);
    TensorUse *uses = NEW_ARRAY(TensorUse, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        uses[i].writer = -1;
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        TaskNeeds *need = &needs[t];
        for (int i = 0; i < task->read_count; i++) {
            TensorUse *use = &uses[task->reads[i]->id];
            if (use->writer >= 0)
                APPEND(need->before, need->count, use->writer);
        }
        for (int i = 0; i < task->write_count; i++) {
            TensorUse *use = &uses[task->writes[i]->id];
            if (use->writer >= 0 && use->writer != t)
                APPEND(need->before, need->count, use->writer);
            for (int r = 0; r < use->count; r++)
                APPEND(need->before, need->count, use->readers[r]);
            *use = (TensorUse){.writer = t};
        }
        for (int i = 0; i < task->read_count; i++) {
            TensorUse *use = &uses[task->reads[i]->id];
            if (use->writer != t)
                APPEND(use->readers, use->count, t);
        }
    }
    return needs;
}

/* ---- the state of the stage */
typedef struct Ordering {
    const Program *program;
    const Phase *phase;
    const Members *members;
    double samples;
    TaskNeeds *needs;
    bool *reduces;      /* by task: a transfer of more than 0 bytes */
    bool *final, *tail; /* by task */
    bool *waited;       /* by task: a sum that values of samples depend on: computing waits for it in the middle of the step */
    /* by task: copies that move: to before a gather (leads), to after a reduce-scatter (keeps) */
    bool *copies_before_gather, *copies_after_scatter;
    int *place;        /* by task: of kernels outside the tail the number of the call; of transfers that of the last producer */
    int *group;        /* by task: number of its group; -1: none */
    double engines_us; /* time of a step that is saved if copy engines transfer the gradients; 0: they do not */
    Order *order;
} Ordering;

/* Returns the kernel that copies the own part to where the transfer gathers; -1: there is none. */
static int gather_copy_of(const Ordering *o, int transfer)
{
    const TaskNeeds *need = &o->needs[transfer];
    for (int i = 0; i < need->count && o->phase->tasks[transfer]->kind == TASK_TRANSFER; i++)
        if (gathers_variable(o->phase->tasks[need->before[i]], o->phase->tasks[transfer]))
            return need->before[i];
    return -1;
}

/* Returns true for a copy of the result of a reduce-scatter. */
static bool copies_scattered(const Ordering *o, int t)
{
    const Task *task = o->phase->tasks[t];
    const TaskNeeds *need = &o->needs[t];
    bool copies = task->kind == TASK_KERNEL && task->elements && task->read_count == 1 && task->write_count == 1 &&
                  tensor_is_divided(task->writes[0], task->elements) && task->writes[0]->kind == TENSOR_TEMPORARY &&
                  need->count == 1;
    return copies && o->reduces[need->before[0]] &&
           o->phase->tasks[need->before[0]]->participants.transfer == MGPU_TRANSFER_REDUCE_SCATTER;
}

static void find_moving(Ordering *o)
{
    for (int t = 0; t < o->phase->task_count; t++) {
        int copy = gather_copy_of(o, t);
        if (copy >= 0)
            o->copies_before_gather[copy] = true;
        o->copies_after_scatter[t] = copies_scattered(o, t);
        for (int i = 0; i < o->needs[t].count && o->reduces[t]; i++) /* what a transfer needs does not move */
            o->copies_after_scatter[o->needs[t].before[i]] = false;
    }
}

static void find_tail(Ordering *o)
{
    const Phase *p = o->phase;
    bool *gather_copies = NEW_ARRAY(bool, p->task_count); /* transfers that lead to a REDUCE */
    for (int t = p->task_count - 1; t >= 0; t--) {
        o->final[t] = o->reduces[t] && !gather_copies[t] && gather_copy_of(o, t) < 0;
        for (int i = 0; i < o->needs[t].count; i++)
            gather_copies[o->needs[t].before[i]] |= gather_copies[t] || o->reduces[t];
    }
    for (int t = 0; t < p->task_count; t++)
        for (int i = 0; i < o->needs[t].count && !o->tail[t]; i++)
            o->tail[t] = o->final[o->needs[t].before[i]] || o->tail[o->needs[t].before[i]];
}

static void add_call(Ordering *o, int t)
{
    o->place[t] = o->order->call_count;
    o->order->calls[o->order->call_count++] = o->phase->tasks[t];
}

/* Returns the time of a call of the head, with its launch or its share of one. */
static double time_in_head(const Ordering *o, const Device *d, const Task *t)
{
    double units = units_of_task(t, o->members->count, o->samples);
    return o->program->target->regions ? time_of_task(o->program, d, t, units) : time_of_launch(o->program, d, t, units);
}

/* Returns the begin of each call, and the end of the last, if nothing is waited for. */
static double *begins_of(const Ordering *o, Task *const *calls, int count)
{
    Device d = member_device(o->members, 0);
    double *begin = NEW_ARRAY(double, count + 1);
    for (int i = 0; i < count; i++)
        begin[i + 1] = begin[i] + time_in_head(o, &d, calls[i]);
    return begin;
}

static int compare_gather_copies(const void *a, const void *b)
{
    const GatherCopy *x = a, *y = b;
    if (x->reader != y->reader)
        return x->reader < y->reader ? -1 : 1;
    return (x->task > y->task) - (x->task < y->task);
}

/* Lists the copies before gathers, by their first readers among the head's `calls` calls that do not move. */
static GatherCopy *list_gather_copies(const Ordering *o, int calls, int *count)
{
    const Phase *p = o->phase;
    GatherCopy *gather_copies = NULL;
    int *number = NEW_ARRAY(int, p->task_count); /* by transfer: its lead + 1 */
    for (int t = 0; t < p->task_count; t++) {
        int copy = gather_copy_of(o, t);
        if (copy >= 0) {
            const Task *task = p->tasks[t];
            Group g = {.participants = task->participants};
            int64_t bytes = tensor_bytes(task->writes[0], 1);
            GatherCopy l = {copy, calls, bytes, cost_of_transfer(o->members, &g, (double)bytes).us, 0};
            APPEND(gather_copies, *count, l);
            number[t] = *count;
        }
        for (int i = 0; i < o->needs[t].count && o->place[t] >= 0; i++) {
            int l = number[o->needs[t].before[i]];
            if (l && o->place[t] < gather_copies[l - 1].reader)
                gather_copies[l - 1].reader = o->place[t];
        }
    }
    if (*count)
        qsort(gather_copies, (size_t)*count, sizeof *gather_copies, compare_gather_copies);
    return gather_copies;
}

static bool is_of_bits(const Task *t) { return t->participants.transfer == MGPU_TRANSFER_REDUCE_BITS; }
static bool is_of_moments(const Task *t) { return t->participants.transfer == MGPU_TRANSFER_REDUCE_MOMENTS; }
static bool all_reduces(const Task *t)
{
    return t->participants.transfer == MGPU_TRANSFER_REDUCE || is_of_bits(t) || is_of_moments(t);
}

static void find_waited(Ordering *o)
{
    const Phase *p = o->phase;
    bool *feeds = NEW_ARRAY(bool, p->task_count);
    for (int t = p->task_count - 1; t >= 0; t--) {
        o->waited[t] = o->reduces[t] && feeds[t] && all_reduces(p->tasks[t]);
        for (int i = 0; i < o->needs[t].count; i++)
            feeds[o->needs[t].before[i]] |= feeds[t] || (p->tasks[t]->kind == TASK_KERNEL && p->tasks[t]->writes[0]->has_samples);
    }
}

/* Reorders the calls so that others run while some wait for transfers. On host devices the order stays: workers find samples in
 * their caches. */
static bool fill_head(const Ordering *o, int *calls, int count)
{
    const Phase *p = o->phase;
    if (o->program->in_order || o->program->target->regions || policy_of(o->program->options)->waited == WAITED_COMM)
        return false;
    Device d = member_device(o->members, 0);
    FillTask *tasks = NEW_ARRAY(FillTask, p->task_count);
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        FillTask *f = &tasks[t];
        *f = (FillTask){.before = o->needs[t].before,
                        .before_count = o->needs[t].count,
                        .joined = task_is_joined(task),
                        .stays = task->update,
                        .stops = o->waited[t]};
        if (f->stops) {
            Cost c = cost_of_transfer(o->members, &(Group){.participants = task->participants},
                                      (double)tensor_bytes(task->writes[0], 1));
            f->us = c.us;
            f->taken = c.taken;
        } else if (task->kind == TASK_KERNEL)
            f->us = time_in_head(o, &d, task);
    }
    return fill_waits(tasks, p->task_count, calls, count);
}

static void place_head(Ordering *o)
{
    const Phase *p = o->phase;
    int *fixed = NEW_ARRAY(int, p->task_count), count = 0, lead_count = 0;
    Task **calls = NEW_ARRAY(Task *, p->task_count);
    for (int t = 0; t < p->task_count; t++) {
        o->place[t] = -1;
        if (!o->tail[t] && p->tasks[t]->kind == TASK_KERNEL && !o->copies_before_gather[t] && !o->copies_after_scatter[t])
            fixed[count++] = t;
    }
    o->order->filled = fill_head(o, fixed, count);
    for (int i = 0; i < count; i++) {
        o->place[fixed[i]] = i;
        calls[i] = p->tasks[fixed[i]];
    }
    GatherCopy *gather_copies = list_gather_copies(o, count, &lead_count);
    place_gather_copies(gather_copies, lead_count, begins_of(o, calls, count), o->program->early_gather_share);
    for (int k = 0; k < lead_count; k++)
        /* nothing may come between a contraction and its epilogue */
        while (gather_copies[k].place < count && task_is_joined(calls[gather_copies[k].place]))
            gather_copies[k].place--;
    for (int i = 0, k = 0; i <= count; i++) {
        for (; k < lead_count && gather_copies[k].place == i; k++)
            add_call(o, gather_copies[k].task);
        if (i < count)
            add_call(o, fixed[i]);
    }
    for (int t = 0; t < p->task_count; t++)
        for (int i = 0; i < o->needs[t].count && p->tasks[t]->kind == TASK_TRANSFER && !o->tail[t]; i++)
            if (o->place[o->needs[t].before[i]] > o->place[t])
                o->place[t] = o->place[o->needs[t].before[i]];
}

/* ---- groups */
static bool may_move(const Tensor *x) { return x->kind == TENSOR_TEMPORARY; }

/* Returns [devices + 1]: where each device's part begins, if the graph does not say it. */
static int64_t *split_elements(int64_t count, int devices)
{
    int64_t *parts = NEW_ARRAY(int64_t, devices + 1);
    for (int d = 0; d <= devices; d++)
        parts[d] = mgpu_even_part(count, devices, d);
    return parts;
}

static int new_group(Ordering *o, int t)
{
    const Task *task = o->phase->tasks[t];
    const Tensor *x = task->writes[0];
    Group g = {.dtype = x->dtype,
               .bucket = may_move(x),
               .final = o->final[t],
               .gathered_once = task->gathered_once,
               .participants = task->participants,
               .at = task->at};
    if (mgpu_transfer_splits(g.participants.transfer) && !g.participants.parts)
        g.participants.parts = split_elements(tensor_bytes(x, 1) / dtype_bytes(x->dtype), o->members->count);
    APPEND(o->order->groups, o->order->group_count, g);
    return o->order->group_count - 1;
}

static void join_group(Ordering *o, int number, int t)
{
    Group *g = &o->order->groups[number];
    Tensor *x = o->phase->tasks[t]->writes[0];
    APPEND(g->members, g->member_count, x);
    g->bytes = add_bytes(g->bytes, tensor_bytes(x, 1));
    g->after = o->place[t];
    o->group[t] = number;
}

static void choose_engines(const Ordering *o, Group *g)
{
    if (o->engines_us <= 0 || !reduces_gradients(g))
        return;
    g->engines = true;
    g->saved_us = o->engines_us;
}

static void gather_final(Ordering *o, const int *final, const Buckets *b)
{
    int *group = NEW_ARRAY(int, b->count);
    for (int i = 0; i < b->count; i++)
        group[i] = -1;
    for (int i = 0; final[i] >= 0; i++) {
        int *g = &group[b->of[i]];
        if (*g < 0) {
            *g = new_group(o, final[i]);
            choose_engines(o, &o->order->groups[*g]);
        }
        join_group(o, *g, final[i]);
    }
}

/* A group stays open while the next kernel completes (a part of) another sum and needs none of the group's. */
static void gather_others(Ordering *o, const int *ready)
{
    const Phase *p = o->phase;
    int *task_of = NEW_ARRAY(int, o->order->call_count);
    bool *completes = NEW_ARRAY(bool, p->task_count);
    for (int t = 0; t < p->task_count; t++) {
        if (p->tasks[t]->kind == TASK_KERNEL && o->place[t] >= 0)
            task_of[o->place[t]] = t;
        if (o->reduces[t] && !o->final[t])
            for (int i = 0; i < o->needs[t].count; i++)
                completes[o->needs[t].before[i]] = true;
    }
    int open[2 * DTYPES]; /* by type; then those of moments */
    for (int i = 0; i < 2 * DTYPES; i++)
        open[i] = -1;
    for (int i = 0, call = -1; call < o->order->call_count; call++) {
        if (call >= 0) {
            const TaskNeeds *need = &o->needs[task_of[call]];
            bool keep = completes[task_of[call]];
            for (int k = 0; k < need->count && keep; k++) {
                int g = o->group[need->before[k]];
                keep = g < 0 || (open[o->order->groups[g].dtype] != g && open[DTYPES + o->order->groups[g].dtype] != g);
            }
            for (int k = 0; k < 2 * DTYPES && !keep; k++)
                open[k] = -1;
        }
        for (; ready[i] >= 0 && o->place[ready[i]] == call; i++) {
            const Tensor *x = p->tasks[ready[i]]->writes[0];
            int *g = &open[x->dtype + (is_of_moments(p->tasks[ready[i]]) ? DTYPES : 0)];
            if (!may_move(x) || !all_reduces(p->tasks[ready[i]])) {
                join_group(o, new_group(o, ready[i]), ready[i]);
                continue;
            }
            if (*g < 0)
                *g = new_group(o, ready[i]);
            join_group(o, *g, ready[i]);
        }
    }
}

/* by the call that completes them; transfers that forward and backward wait for precede those that can be hidden; then by
 * number */
typedef struct Rank {
    int after, final, number;
} Rank;
static int compare_rank(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    if (x->after != y->after)
        return x->after < y->after ? -1 : 1;
    if (x->final != y->final)
        return x->final < y->final ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Places tensors without gaps, because a collective transfers all bytes of a bucket: first those of whole cache lines, then those
 * of whole vectors, which so stay aligned. */
static void lay_out(Order *order, int number)
{
    static const int64_t WHOLE[] = {ALIGNMENT, VECTOR_BYTES, 1};
    Group *g = &order->groups[number];
    int64_t at = 0;
    g->begin = NEW_ARRAY(int64_t, g->member_count);
    for (int part = 0; part < COUNT(WHOLE); part++)
        for (int k = 0; k < g->member_count; k++) {
            const Tensor *x = g->members[k];
            int64_t bytes = tensor_bytes(x, 1);
            if (bytes % WHOLE[part] != 0 || (part > 0 && bytes % WHOLE[part - 1] == 0))
                continue;
            if (order->group_of[x->id] >= 0)
                die("tensor %s is summed over the devices twice", x->name);
            g->begin[k] = at;
            at += bytes;
            order->group_of[x->id] = number;
        }
}

static void sort_groups(Ordering *o)
{
    Order *order = o->order;
    int count = order->group_count;
    Rank *ranks = NEW_ARRAY(Rank, count);
    for (int g = 0; g < count; g++)
        ranks[g] = (Rank){order->groups[g].after, order->groups[g].final, g};
    qsort(ranks, (size_t)count, sizeof *ranks, compare_rank);
    Group *sorted = NEW_ARRAY(Group, count);
    int *new_number = NEW_ARRAY(int, count);
    for (int i = 0; i < count; i++) {
        sorted[i] = order->groups[ranks[i].number];
        new_number[ranks[i].number] = i;
    }
    order->groups = sorted;
    for (int i = 0; i < count; i++)
        if (sorted[i].bucket)
            lay_out(order, i);
    for (int t = 0; t < o->phase->task_count; t++)
        if (o->group[t] >= 0)
            o->group[t] = new_number[o->group[t]];
}

/* ---- copies of reduce-scattered gradients: in the head when the reduce-scatter is predicted to have ended, else in the tail */
typedef struct CopyPlacement {
    Ordering *o;
    Order before;                     /* without the copies */
    int *waiting, count, next;        /* the copies, in the order of their groups */
    double comp_us, comm_us, sync_us; /* end of the last operation of each lane */
    double *over_us;                  /* by group: predicted end */
} CopyPlacement;

static void list_copies(CopyPlacement *k)
{
    const Ordering *o = k->o;
    int task_count = o->phase->task_count;
    Rank *ranks = NEW_ARRAY(Rank, task_count);
    for (int t = 0; t < task_count; t++)
        if (o->copies_after_scatter[t])
            ranks[k->count++] = (Rank){o->group[o->needs[t].before[0]], 0, t};
    qsort(ranks, (size_t)k->count, sizeof *ranks, compare_rank);
    k->waiting = NEW_ARRAY(int, k->count);
    for (int i = 0; i < k->count; i++)
        k->waiting[i] = ranks[i].number;
}

static void place_copies_until(CopyPlacement *k, int group, double us)
{
    for (; k->next < k->count; k->next++) {
        int t = k->waiting[k->next], own = k->o->group[k->o->needs[t].before[0]];
        if (own > group && !(k->over_us[own] > 0 && k->over_us[own] <= us))
            return;
        add_call(k->o, t);
    }
}

/* Waits for what the call needs: sums, and copies, which are placed before it. */
static void wait_for_needs(CopyPlacement *k, int t)
{
    const Ordering *o = k->o;
    int group = -1;
    for (int i = 0; i < o->needs[t].count; i++) {
        int before = o->needs[t].before[i], g = o->group[o->copies_after_scatter[before] ? o->needs[before].before[0] : before];
        if (g >= 0 && k->over_us[g] > k->comp_us)
            k->comp_us = k->over_us[g];
        group = o->copies_after_scatter[before] && g > group ? g : group;
    }
    place_copies_until(k, group, 0);
}

static void begin_transfers(CopyPlacement *k, int call, int *group)
{
    const Order *order = k->o->order;
    for (; *group < order->group_count && order->groups[*group].after == call; ++*group) {
        const Group *g = &order->groups[*group];
        double *lane = g->in_sync_lane ? &k->sync_us : &k->comm_us;
        *lane = (*lane > k->comp_us ? *lane : k->comp_us) + cost_of_transfer(k->o->members, g, (double)g->bytes).us;
        k->over_us[*group] = *lane;
    }
}

static void place_copies(Ordering *o)
{
    Order *order = o->order;
    CopyPlacement k = {.o = o, .before = *order, .over_us = NEW_ARRAY(double, order->group_count)};
    list_copies(&k);
    if (!k.count)
        return;
    int *task_of = NEW_ARRAY(int, order->call_count), *moved = NEW_ARRAY(int, order->call_count + 1), group = 0;
    const double *begin = begins_of(o, order->calls, order->call_count);
    for (int t = 0; t < o->phase->task_count; t++)
        if (o->phase->tasks[t]->kind == TASK_KERNEL && o->place[t] >= 0)
            task_of[o->place[t]] = t;
    order->calls = NEW_ARRAY(Task *, o->phase->task_count);
    order->call_count = 0;
    moved[0] = -1;
    begin_transfers(&k, -1, &group);
    for (int call = 0, next; call < k.before.call_count; call = next) {
        for (next = call; next == call || (next < k.before.call_count && task_is_joined(k.before.calls[next])); next++)
            wait_for_needs(&k, task_of[next]);
        for (int i = call; i < next; i++) { /* nothing may come between a contraction and its epilogue */
            add_call(o, task_of[i]);
            moved[i + 1] = order->call_count - 1;
            k.comp_us += begin[i + 1] - begin[i];
            begin_transfers(&k, i, &group);
        }
        place_copies_until(&k, -1, k.comp_us);
    }
    for (; k.next < k.count; k.next++)
        if (!o->tail[k.waiting[k.next]])
            add_call(o, k.waiting[k.next]);
    for (int g = 0; g < order->group_count; g++)
        order->groups[g].after = moved[order->groups[g].after + 1];
}

/* ---- the tail: by the last final collective that a kernel depends on, then in the order of the phase */
static void place_tail(Ordering *o)
{
    const Phase *p = o->phase;
    Rank *ranks = NEW_ARRAY(Rank, p->task_count);
    int *last = NEW_ARRAY(int, p->task_count), count = 0;
    for (int t = 0; t < p->task_count; t++) {
        last[t] = o->final[t] ? o->group[t] : -1;
        for (int i = 0; i < o->needs[t].count; i++)
            if (last[o->needs[t].before[i]] > last[t])
                last[t] = last[o->needs[t].before[i]];
        if (o->tail[t] && p->tasks[t]->kind == TASK_KERNEL && o->place[t] < 0)
            ranks[count++] = (Rank){last[t], 0, t};
    }
    qsort(ranks, (size_t)count, sizeof *ranks, compare_rank);
    for (int i = 0; i < count; i++)
        o->order->calls[o->order->call_count++] = p->tasks[ranks[i].number];
}

/* ---- the timeline of the step, from which buckets are chosen */
static int compare_updates(const void *a, const void *b)
{
    const Update *x = a, *y = b;
    return x->reduced != y->reduced ? (x->reduced > y->reduced) - (x->reduced < y->reduced)
                                    : (x->function > y->function) - (x->function < y->function);
}

/* Returns, by task, the last of the sums that it waits for; -1: there is none. */
static int *last_sums(const Ordering *o, const int *final)
{
    int *last = NEW_ARRAY(int, o->phase->task_count);
    for (int t = 0; t < o->phase->task_count; t++)
        last[t] = -1;
    for (int i = 0; final[i] >= 0; i++)
        last[final[i]] = i;
    for (int t = 0; t < o->phase->task_count; t++)
        for (int i = 0; i < o->needs[t].count; i++)
            if (last[o->needs[t].before[i]] > last[t])
                last[t] = last[o->needs[t].before[i]];
    return last;
}

/* Adds the updates of the tail. Each has its time in a launch that others began; launch_us includes the most that the first of a
 * launch takes longer. On host devices the updates of a bucket are one region. */
static void add_updates(const Ordering *o, const Device *d, const int *final, Timeline *line, ReducedValue *all_reduces)
{
    const int *last = last_sums(o, final);
    Update *updates = NULL;
    double longer = 0;
    for (int t = 0; t < o->phase->task_count; t++) {
        const Task *task = o->phase->tasks[t];
        if (!o->tail[t] || task->kind != TASK_KERNEL)
            continue;
        const Kernel *function = function_of_launch(o->program, task);
        double units = units_of_task(task, o->members->count, o->samples),
               joined = time_in_joint_launch(o->program, d, task, units);
        longer = fmax(longer, time_of_task(o->program, d, task, units) - joined);
        all_reduces[last[t]].update_us += joined;
        APPEND(updates, line->update_count,
               ((Update){last[t], o->program->target->regions ? 0
                                  : function                  ? function->number
                                                              : -1}));
    }
    if (updates)
        qsort(updates, (size_t)line->update_count, sizeof *updates, compare_updates);
    line->updates = updates;
    line->function_count = o->program->kernel_count + 1;
    line->launch_us = d->launch_us.value + longer;
}

/* Lists the transfers that are not final; ascending by place, as they were gathered. */
static Stop *list_stops(const Ordering *o)
{
    const Order *order = o->order;
    Stop *stops = NEW_ARRAY(Stop, order->group_count);
    for (int g = 0; g < order->group_count; g++) {
        const Group *group = &order->groups[g];
        Cost c = cost_of_transfer(o->members, group, (double)group->bytes);
        double shared_us = c.us - cost_of_transfer(o->members, group, 0).us;
        stops[g] = (Stop){group->after, order->call_count, c.us, shared_us, c.taken, group->in_sync_lane};
    }
    for (int t = 0; t < o->phase->task_count; t++)
        for (int i = 0; i < o->needs[t].count && o->place[t] >= 0 && o->phase->tasks[t]->kind == TASK_KERNEL; i++) {
            int g = o->group[o->needs[t].before[i]];
            if (g >= 0 && o->place[t] < stops[g].before)
                stops[g].before = o->place[t];
        }
    return stops;
}

static ReducedValue reduced_of(const Ordering *o, int t)
{
    const Task *task = o->phase->tasks[t];
    const Tensor *x = task->writes[0];
    return (ReducedValue){.place = o->place[t],
                          .bytes = tensor_bytes(x, 1),
                          .dtype = x->dtype,
                          .what = collect_of(task->participants.transfer),
                          .own_bucket = !may_move(x) || !all_reduces(task) || is_of_moments(task) ||
                                        (is_of_bits(task) && shape_count(&x->shape) % MGPU_SEGMENT != 0)};
}

/* Chooses buckets, with the stops in their present lanes; *end: of the step. */
static Buckets buckets_with(const Ordering *o, Timeline *t, double *end)
{
    int64_t bytes = o->program->options->bucket_bytes;
    t->stops = list_stops(o);
    Buckets b = bytes > 0 ? buckets_of_size(t, bytes) : buckets_by_cost(t);
    *end = buckets_end(t, &b);
    return b;
}

/* Moves the groups of sums that are waited for to the lane sync, or back. */
static bool set_sync_lane(const Ordering *o, bool beside, double saved_us)
{
    bool any = false;
    for (int t = 0; t < o->phase->task_count; t++) {
        Group *g = o->group[t] >= 0 ? &o->order->groups[o->group[t]] : NULL;
        if (!g || !o->waited[t])
            continue;
        g->in_sync_lane = beside;
        g->saved_us = saved_us;
        any = true;
    }
    return any;
}

/* Tries copy engines for the gradients: they occupy no SMs, but other methods may end sooner. end: of a step with `buckets`. */
static Buckets without_units(Ordering *o, Timeline *t, Buckets buckets, double end)
{
    static const double GAIN = .0005; /* of a step: copies need memory */
    Members copies = *o->members;
    double engines_end;
    copies.gradients = engine_methods(o->program, o->members);
    if (!copies.gradients)
        return buckets;
    t->members = &copies;
    t->by_engines = true;
    Buckets by_engines = buckets_with(o, t, &engines_end);
    if (engines_end > (1 - GAIN) * end)
        return buckets;
    o->engines_us = end - engines_end;
    return by_engines;
}

/* final: ends with -1 */
static Buckets choose_buckets(Ordering *o, const int *final)
{
    static const double GAIN = .005; /* of a step; a smaller gain is not worth a second lane */
    const Order *order = o->order;
    Device d = member_device(o->members, 0);
    bool regions = o->program->target->regions;
    double *call_us = NEW_ARRAY(double, order->call_count);
    Timeline t = {.members = o->members,
                  .call_us = call_us,
                  .call_count = order->call_count,
                  .stop_count = order->group_count,
                  .region_us = regions ? d.launch_us.value : 0,
                  .joins_buckets = !regions,
                  .by_engines = policy_implementation(policy_of(o->program->options)) == MGPU_IMPLEMENTATION_COPY};
    while (final[t.reduced_count] >= 0)
        t.reduced_count++;
    ReducedValue *all = NEW_ARRAY(ReducedValue, t.reduced_count);
    for (int i = 0; i < t.reduced_count; i++)
        all[i] = reduced_of(o, final[i]);
    t.reduced = all;
    for (int i = 0; i < order->call_count; i++)
        call_us[i] = time_in_head(o, &d, order->calls[i]);
    add_updates(o, &d, final, &t, all);
    WaitedPolicy waited = policy_of(o->program->options)->waited;
    double end, beside_end;
    Buckets buckets = buckets_with(o, &t, &end);
    /* the methods of transfers are not known until the run */
    bool open =
        o->program->target->transfers == MGPU_IMPLEMENTATION_AUTO && !names_machine(o->program) && waited == WAITED_BY_COST;
    if (open || waited == WAITED_COMM || !methods_of_small_transfers(o->members) || !set_sync_lane(o, true, 0))
        return without_units(o, &t, buckets, end);
    Buckets beside = buckets_with(o, &t, &beside_end);
    bool chosen = waited == WAITED_SYNC || beside_end <= (1 - GAIN) * end;
    set_sync_lane(o, chosen, waited == WAITED_BY_COST && chosen ? end - beside_end : 0);
    return without_units(o, &t, chosen ? beside : buckets, chosen ? beside_end : end);
}

static void find_reduces(Ordering *o)
{
    const Phase *p = o->phase;
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        o->group[t] = -1;
        if (task->kind != TASK_TRANSFER)
            continue;
        if (task->write_count != 1 || task->writes[0]->has_samples)
            die("a transfer of what is not one value");
        o->reduces[t] = tensor_bytes(task->writes[0], 1) > 0;
    }
}

/* Returns transfers in the order in which their operands are complete; ends with -1. */
static int *sort_ready(const Ordering *o, bool final)
{
    const Phase *p = o->phase;
    Rank *ranks = NEW_ARRAY(Rank, p->task_count);
    int *ready = NEW_ARRAY(int, p->task_count + 1), count = 0;
    for (int t = 0; t < p->task_count; t++)
        if (o->reduces[t] && o->final[t] == final)
            ranks[count++] = (Rank){o->place[t], 0, t};
    qsort(ranks, (size_t)count, sizeof *ranks, compare_rank);
    for (int i = 0; i < count; i++)
        ready[i] = ranks[i].number;
    ready[count] = -1;
    return ready;
}

static void order_devices(Ordering *o)
{
    const Phase *p = o->phase;
    o->needs = find_needs(p);
    o->reduces = NEW_ARRAY(bool, p->task_count);
    o->final = NEW_ARRAY(bool, p->task_count);
    o->tail = NEW_ARRAY(bool, p->task_count);
    o->waited = NEW_ARRAY(bool, p->task_count);
    o->place = NEW_ARRAY(int, p->task_count);
    o->group = NEW_ARRAY(int, p->task_count);
    o->copies_before_gather = NEW_ARRAY(bool, p->task_count);
    o->copies_after_scatter = NEW_ARRAY(bool, p->task_count);
    find_reduces(o);
    find_moving(o);
    find_tail(o);
    find_waited(o);
    place_head(o);
    gather_others(o, sort_ready(o, false));
    const int *final = sort_ready(o, true);
    Buckets buckets = choose_buckets(o, final);
    gather_final(o, final, &buckets);
    sort_groups(o);
    place_copies(o);
    place_tail(o);
}

/* Checks that the plan has the devices that a graph names. */
static void check_ends(const Phase *p, int devices)
{
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        int ends = task->kind == TASK_TRANSFER ? mgpu_transfer_row(task->participants.transfer)->ends : 0;
        int most = ends > 1 && task->participants.to > task->participants.from ? task->participants.to : task->participants.from;
        if (ends > 0 && most >= devices)
            error_at(task->at, "'%s' names device %d; this plan has %d, numbered from 0",
                     transfer_word(task->participants.transfer), most, devices);
        if (task->part_count > 0 && task->part_count != devices + 1)
            error_at(task->at, "'%s' has parts for %d devices; this plan has %d", transfer_word(task->participants.transfer),
                     task->part_count - 1, devices);
    }
}

/* Checks that an epilogue, whose last operands are its contraction's, directly follows it: the target may fuse them. */
static void check_epilogues(const Order *order)
{
    for (int i = 0; i < order->call_count; i++) {
        const Task *t = order->calls[i], *before = i ? order->calls[i - 1] : NULL;
        if (!task_is_joined(t))
            continue;
        Tensor *const *operands = &t->reads[t->kernel->read_count];
        if (!before || before->read_count < 2 || before->reads[0] != operands[0] || before->reads[1] != operands[1])
            die("line %d: an epilogue does not follow its contraction", model_line(t->at));
    }
}

Order *order_phase(const Program *program, const Phase *p, const Members *members, double samples)
{
    check_ends(p, members->count);
    Order *order = NEW(Order);
    order->calls = NEW_ARRAY(Task *, p->task_count);
    order->group_of = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        order->group_of[i] = -1;
    if (members->count > 1) {
        order_devices(&(Ordering){.program = program, .phase = p, .members = members, .samples = samples, .order = order});
        check_epilogues(order);
        return order;
    }
    for (int t = 0; t < p->task_count; t++)
        if (p->tasks[t]->kind == TASK_KERNEL)
            order->calls[order->call_count++] = p->tasks[t];
    return order;
}
