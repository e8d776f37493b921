/* recompute.c: Phase -> Phase whose tensors are alive for a shorter time: what backward reads again is computed again just before that
 * (rematerialization, activation checkpointing).
 *
 * In: a phase, the samples of a device, and how many bytes of temporaries may be alive at once. Out: a phase that keeps to it, if that
 * can be; its additional tasks call kernels of the old ones, and write tensors of their own. So values are the same bits, random
 * numbers too, and no kernel is new. What is reduced over devices, written in place or read by the host is computed once.
 *
 * A round drops one tensor between two of its readers: the later one gets a copy, made by the task that made the tensor, right before
 * it. What that task reads is kept longer, or (what is large and gone) computed again as well: a chain. Of all choices the one is
 * taken that frees most bytes x positions above the limit for a microsecond of the cost model; one that does not lower what is above
 * the limit is taken back. Copies may be dropped again later, so a deep model ends at segments of about sqrt(n) layers.
 *
 * Candidates are in a heap, by the rate that each had when it was rated last. Rates fall as less is above the limit, so the first one is
 * rated again and taken if it is still the first; those of the tensors that a round touches are rated anew, and all are before the search
 * ends. A round then rates a few candidates, not all.
 *
 * Chen et al. 2016, Training deep nets with sublinear memory cost; Jain et al. 2020, Checkmate; the order by cost and bytes is that of
 * Kirisame et al. 2021, Dynamic tensor rematerialization. */
#include "compiler/plan/recompute.h"
#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHAIN = 24, MOST_TRIED = 4 * MOST_CHAIN, ROUNDS_PER_TASK = 4 };
static const int64_t SMALL = 8; /* an input of a chain is kept if it has no more than this part of the bytes that are freed */

typedef struct Unit { int first, count; } Unit; /* tasks that are computed together: a contraction and its epilogue */
typedef struct Chain {
    Unit units[MOST_CHAIN]; int count; /* in their order */
    int *tried;                        /* units that were tried, in the chain or not: at most MOST_TRIED */
    double us, lost;                   /* lost: bytes x positions above the limit, of what is kept longer */
} Chain;
typedef struct Choice { Chain chain; const Tensor *tensor; int at; double rate; } Choice; /* at: the reader's position */
typedef struct Candidate { int tensor, use; double rate; } Candidate; /* a copy for its use of this number; the rate it had when it was rated */
typedef struct Rename { Task *task; int read; Tensor *before; } Rename;

typedef struct Recomputing {
    const Program *program;
    Phase *phase;           /* the new one */
    int64_t samples, limit;
    Device device;
    bool *local;            /* by tensor of the old phase: in a region's chunk of the host */
    int *root;              /* by tensor: whose value it has */
    bool *banned;           /* by root: dropping it did not help */
    int tensor_room, task_room;
    /* of this round */
    int *maker;             /* by tensor: position of its first writer; -1: none */
    int *writers;           /* by tensor: kernels that write it */
    int *use_begin, *uses;  /* by tensor: positions of its accesses, ascending */
    int *newest, *older;    /* by root: its last copy; by tensor: the copy before it; -1: none */
    int64_t *alive;         /* by position: bytes */
    int *above;             /* by position: how many before it are above the limit */
    double excess;          /* bytes above the limit, over all positions */
    int64_t peak;
    Rename *renames; int rename_count; /* of the last choice */
    Candidate *heap; int heap_count, heap_room; /* the highest rate first */
    Memory *kept, *seen;    /* of the heap; of what is known of this round */
} Recomputing;

/* ---- tasks as units */
static Unit unit_of(const Recomputing *r, int at)
{
    const Phase *p = r->phase;
    if (task_is_joined(p->tasks[at]) && at > 0)
        return (Unit){at - 1, 2};
    return (Unit){at, at + 1 < p->task_count && task_is_joined(p->tasks[at + 1]) ? 2 : 1};
}

static bool makes(const Recomputing *r, Unit u, const Tensor *x)
{
    for (int i = u.first; i < u.first + u.count; i++)
        for (int k = 0; k < r->phase->tasks[i]->write_count; k++)
            if (r->phase->tasks[i]->writes[k] == x)
                return true;
    return false;
}

/* sums of a contraction's result, which a call may make with it: what is computed again is the contraction alone */
static bool is_statistics(const Task *t) { return task_is_joined(t) && t->kernel->epilogue->kind == EPILOGUE_STATISTICS; }

static int written(const Task *t) { return is_statistics(t) ? t->kernel->write_count : t->write_count; } /* of its own */

static Unit unit_that_makes(const Recomputing *r, const Tensor *x)
{
    int at = r->maker[x->id];
    Unit u = unit_of(r, at);
    u.count -= u.count == 2 && at == u.first && is_statistics(r->phase->tasks[at + 1]);
    return u;
}

/* its tasks write temporaries that nobody else writes, and nothing in place */
static bool may_run_again(const Recomputing *r, Unit u)
{
    for (int i = u.first; i < u.first + u.count; i++) {
        const Task *t = r->phase->tasks[i];
        if (t->kind != TASK_KERNEL || t->write_count > t->kernel->write_count)
            return false;
        for (int k = 0; k < t->write_count; k++)
            if (t->writes[k]->kind != TENSOR_TEMPORARY || t->writes[k]->partial || r->writers[t->writes[k]->id] != 1)
                return false;
    }
    return true;
}

static double unit_us(const Recomputing *r, Unit u)
{
    double us = 0;
    for (int i = u.first; i < u.first + u.count; i++)
        us += time_of_launch(r->program, &r->device, r->phase->tasks[i], (double)r->samples);
    return us;
}

/* ---- what is known of tensors, by position */
static int64_t bytes_of(const Recomputing *r, const Tensor *x) { return tensor_bytes(x, r->samples); }
static bool counts(const Recomputing *r, const Tensor *x) { return x->kind == TENSOR_TEMPORARY && !r->local[r->root[x->id]]; }
static int first_use(const Recomputing *r, const Tensor *x) { return r->uses[r->use_begin[x->id]]; }
static int last_use(const Recomputing *r, const Tensor *x) { return r->uses[r->use_begin[x->id + 1] - 1]; }

static int last_use_before(const Recomputing *r, const Tensor *x, int at)
{
    int last = -1;
    for (int k = r->use_begin[x->id]; k < r->use_begin[x->id + 1] && r->uses[k] < at; k++)
        last = r->uses[k];
    return last;
}

/* positions from first to last that are above the limit */
static double above(const Recomputing *r, int first, int last) { return first > last ? 0 : r->above[last + 1] - r->above[first]; }

static void count_use(Recomputing *r, const Tensor *x, int at, int *filled, int *last)
{
    if (last[x->id] == at + 1)
        return;
    last[x->id] = at + 1;
    if (filled)
        r->uses[r->use_begin[x->id] + filled[x->id]++] = at;
    else
        r->use_begin[x->id + 1]++;
}

static void find_uses(Recomputing *r)
{
    const Phase *p = r->phase;
    r->use_begin = NEW_ARRAY(int, p->tensor_count + 1);
    int *filled = NULL;
    for (int round = 0; round < 2; round++) {
        int *last = NEW_ARRAY(int, p->tensor_count);
        for (int t = 0; t < p->task_count; t++) {
            for (int k = 0; k < p->tasks[t]->read_count; k++)
                count_use(r, p->tasks[t]->reads[k], t, filled, last);
            for (int k = 0; k < p->tasks[t]->write_count; k++)
                count_use(r, p->tasks[t]->writes[k], t, filled, last);
        }
        for (int i = 0; i < p->tensor_count && round == 0; i++)
            r->use_begin[i + 1] += r->use_begin[i];
        if (round == 0)
            r->uses = NEW_ARRAY(int, r->use_begin[p->tensor_count]);
        filled = NEW_ARRAY(int, p->tensor_count);
    }
}

static void find_makers(Recomputing *r)
{
    const Phase *p = r->phase;
    r->maker = NEW_ARRAY(int, p->tensor_count);
    r->writers = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        r->maker[i] = -1;
    for (int t = 0; t < p->task_count; t++)
        for (int k = 0; k < written(p->tasks[t]) && p->tasks[t]->kind == TASK_KERNEL; k++) {
            int id = p->tasks[t]->writes[k]->id;
            r->maker[id] = r->maker[id] < 0 ? t : r->maker[id];
            r->writers[id]++;
        }
    r->newest = NEW_ARRAY(int, p->tensor_count);
    r->older = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        r->newest[i] = r->older[i] = -1;
    for (int t = 0; t < p->task_count; t++)
        for (int k = 0; k < p->tasks[t]->write_count && p->tasks[t]->kind == TASK_KERNEL; k++) {
            int id = p->tasks[t]->writes[k]->id;
            if (r->maker[id] != t || r->newest[r->root[id]] == id)
                continue;
            r->older[id] = r->newest[r->root[id]];
            r->newest[r->root[id]] = id;
        }
}

static void find_alive(Recomputing *r)
{
    const Phase *p = r->phase;
    r->alive = NEW_ARRAY(int64_t, p->task_count + 1);
    r->above = NEW_ARRAY(int, p->task_count + 1);
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        if (!counts(r, x) || r->use_begin[i] == r->use_begin[i + 1])
            continue;
        r->alive[first_use(r, x)] += bytes_of(r, x);
        r->alive[last_use(r, x) + 1] -= bytes_of(r, x);
    }
    r->excess = 0;
    r->peak = 0;
    for (int t = 0; t < p->task_count; t++) {
        r->alive[t] += t ? r->alive[t - 1] : 0;
        r->peak = r->alive[t] > r->peak ? r->alive[t] : r->peak;
        r->excess += r->alive[t] > r->limit ? (double)(r->alive[t] - r->limit) : 0;
        r->above[t + 1] = r->above[t] + (r->alive[t] > r->limit);
    }
}

/* what is known of the phase as it is now; a later look frees it */
static void look(Recomputing *r)
{
    Memory *old = r->seen;
    memory_use(r->seen = memory_new());
    if (old)
        memory_free(old);
    find_uses(r);
    find_makers(r);
    find_alive(r);
}

/* bytes that some task needs at once. What it writes may be in place of what it reads */
static int64_t least_alive(const Recomputing *r)
{
    int64_t most = 0;
    int *seen = NEW_ARRAY(int, r->phase->tensor_count); /* 1 + the task */
    for (int t = 0; t < r->phase->task_count; t++) {
        const Task *task = r->phase->tasks[t];
        int64_t reads = 0, writes = 0;
        for (int k = 0; k < task->read_count; k++)
            if (counts(r, task->reads[k]) && seen[task->reads[k]->id] != t + 1) {
                seen[task->reads[k]->id] = t + 1;
                reads += bytes_of(r, task->reads[k]);
            }
        for (int k = 0; k < task->write_count; k++)
            writes += counts(r, task->writes[k]) ? bytes_of(r, task->writes[k]) : 0;
        most = reads > most ? reads : most;
        most = writes > most ? writes : most;
    }
    return most;
}

/* ---- chains */

/* the copy of the tensor's value that was made last before the position */
static Tensor *copy_at(const Recomputing *r, const Tensor *x, int at)
{
    int id = r->newest[r->root[x->id]];
    while (id >= 0 && r->maker[id] >= at)
        id = r->older[id];
    return id >= 0 ? r->phase->tensors[id] : NULL;
}

static bool chain_makes(const Recomputing *r, const Chain *c, const Tensor *x)
{
    for (int i = 0; i < c->count; i++)
        for (int t = c->units[i].first; t < c->units[i].first + c->units[i].count; t++)
            for (int k = 0; k < r->phase->tasks[t]->write_count; k++)
                if (r->root[r->phase->tasks[t]->writes[k]->id] == r->root[x->id])
                    return true;
    return false;
}

static bool add_unit(Recomputing *r, Chain *c, const Tensor *x, int at, bool deep, int64_t freed);

/* what the chain reads must still be what it was; false: it is not */
static bool add_read(Recomputing *r, Chain *c, const Tensor *x, int at, bool deep, int64_t freed)
{
    if (x->kind == TENSOR_VARIABLE) /* an update may have been */
        return r->maker[x->id] < 0 || r->maker[x->id] >= at;
    if (x->kind != TENSOR_TEMPORARY)
        return x->kind == TENSOR_INPUT;
    if (r->writers[x->id] != 1 || chain_makes(r, c, x))
        return r->writers[x->id] == 1;
    const Tensor *copy = copy_at(r, x, at);
    if (!copy)
        return false;
    if (last_use(r, copy) >= at && counts(r, copy))
        return true;
    if (deep && (!counts(r, copy) || bytes_of(r, copy) > freed / SMALL) && add_unit(r, c, copy, at, deep, freed))
        return true;
    c->lost += (double)bytes_of(r, copy) * above(r, last_use(r, copy) + 1, at);
    return counts(r, copy);
}

static bool add_unit(Recomputing *r, Chain *c, const Tensor *x, int at, bool deep, int64_t freed)
{
    Unit u = unit_that_makes(r, x);
    Chain before = *c;
    if (!may_run_again(r, u) || c->count + 1 >= MOST_CHAIN || ++*c->tried > MOST_TRIED)
        return false;
    for (int i = u.first; i < u.first + u.count; i++)
        for (int k = 0; k < r->phase->tasks[i]->read_count; k++) {
            const Tensor *read = r->phase->tasks[i]->reads[k];
            if (!makes(r, u, read) && !add_read(r, c, read, at, deep, freed)) {
                *c = before;
                return false;
            }
        }
    if (c->count == MOST_CHAIN) {
        *c = before;
        return false;
    }
    c->units[c->count++] = u;
    c->us += unit_us(r, u);
    return true;
}

/* bytes x positions above the limit that are free until `at`, of all that the chain makes anew and somebody still reads */
static double freed_by(const Recomputing *r, const Chain *c, int at)
{
    double freed = 0;
    int64_t most = r->peak - r->limit;
    for (int i = 0; i < c->count; i++)
        for (int t = c->units[i].first; t < c->units[i].first + c->units[i].count; t++)
            for (int k = 0; k < r->phase->tasks[t]->write_count; k++) {
                const Tensor *x = copy_at(r, r->phase->tasks[t]->writes[k], at);
                if (!x || !counts(r, x) || last_use(r, x) < at)
                    continue;
                int64_t bytes = bytes_of(r, x);
                freed += (double)(bytes < most ? bytes : most) * above(r, last_use_before(r, x, at) + 1, at - 1);
            }
    return freed;
}

/* a copy of the tensor for its use of this number; rate 0: there is none, or it does not help */
static Choice rate(Recomputing *r, int tensor, int use)
{
    const Tensor *x = r->phase->tensors[tensor];
    const int *uses = r->uses + r->use_begin[tensor];
    Choice best = {.rate = 0};
    if (!counts(r, x) || r->banned[r->root[tensor]] || r->writers[tensor] != 1 || use >= r->use_begin[tensor + 1] - r->use_begin[tensor])
        return best;
    int at = unit_of(r, uses[use]).first; /* nothing comes between a contraction and its epilogue */
    if (above(r, uses[use - 1] + 1, at - 1) <= 0)
        return best;
    for (int deep = 0; deep < 2; deep++) {
        int tried = 0;
        Chain c = {.tried = &tried};
        if (!add_unit(r, &c, x, at, deep, bytes_of(r, x)))
            continue;
        double found = (freed_by(r, &c, at) - c.lost) / c.us;
        if (found > best.rate)
            best = (Choice){c, x, at, found};
    }
    return best;
}

/* ---- candidates */
static bool better(const Candidate *a, const Candidate *b)
{
    return a->rate != b->rate ? a->rate > b->rate : a->tensor != b->tensor ? a->tensor < b->tensor : a->use < b->use;
}

static void push(Recomputing *r, Candidate c)
{
    if (r->heap_count == r->heap_room) {
        int room = 2 * r->heap_room + 64;
        Memory *scratch = memory_use(r->kept);
        r->heap = grow(r->heap, sizeof *r->heap * (size_t)r->heap_room, sizeof *r->heap * (size_t)room);
        memory_use(scratch);
        r->heap_room = room;
    }
    int i = r->heap_count++;
    for (; i > 0 && better(&c, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = c;
}

static Candidate pop(Recomputing *r)
{
    Candidate first = r->heap[0], last = r->heap[--r->heap_count];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < r->heap_count && better(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (child >= r->heap_count || !better(&r->heap[child], &last))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return first;
}

static void rate_tensor(Recomputing *r, int tensor)
{
    for (int use = 1; use < r->use_begin[tensor + 1] - r->use_begin[tensor]; use++) {
        double found = rate(r, tensor, use).rate;
        if (found > 0)
            push(r, (Candidate){tensor, use, found});
    }
}

static void rate_all(Recomputing *r)
{
    r->heap_count = 0;
    for (int i = 0; i < r->phase->tensor_count; i++)
        rate_tensor(r, i);
}

/* the tensors that added tasks read and write, and what those copy */
static void rate_touched(Recomputing *r, int at, int count)
{
    for (int t = at; t < at + count; t++) {
        const Task *task = r->phase->tasks[t];
        for (int k = 0; k < task->read_count; k++)
            if (task->reads[k]->kind == TENSOR_TEMPORARY)
                rate_tensor(r, task->reads[k]->id);
        for (int k = 0; k < task->write_count; k++)
            for (int i = task->writes[k]->id; i >= 0; i = r->older[i])
                rate_tensor(r, i);
    }
}

static Choice choose(Recomputing *r)
{
    while (r->heap_count) {
        Candidate first = pop(r);
        Choice now = rate(r, first.tensor, first.use);
        first.rate = now.rate;
        if (now.rate > 0 && (!r->heap_count || !better(&r->heap[0], &first)))
            return now;
        if (now.rate > 0)
            push(r, first);
    }
    return (Choice){.rate = 0};
}

/* ---- the phase changes */
static Tensor *add_copy(Recomputing *r, const Tensor *x)
{
    Phase *p = r->phase;
    int root = r->root[x->id], number = 0;
    for (int i = r->newest[root]; i >= 0; i = r->older[i])
        number++;
    Tensor *copy = NEW(Tensor);
    *copy = *p->tensors[root];
    copy->id = p->tensor_count;
    copy->name = format("%s.copy%d", copy->name, number);
    if (copy->id >= r->tensor_room) {
        int room = 2 * r->tensor_room + 64;
        p->tensors = grow(p->tensors, sizeof *p->tensors * (size_t)r->tensor_room, sizeof *p->tensors * (size_t)room);
        r->root = grow(r->root, sizeof *r->root * (size_t)r->tensor_room, sizeof *r->root * (size_t)room);
        r->tensor_room = room;
    }
    p->tensors[p->tensor_count++] = copy;
    r->root[copy->id] = root;
    return copy;
}

Task *copy_task(const Task *t)
{
    Task *copy = NEW(Task);
    *copy = *t;
    copy->reads = NEW_ARRAY(Tensor *, t->read_count);
    copy->writes = NEW_ARRAY(Tensor *, t->write_count);
    for (int i = 0; i < t->read_count; i++)
        copy->reads[i] = t->reads[i];
    for (int i = 0; i < t->write_count; i++)
        copy->writes[i] = t->writes[i];
    return copy;
}

/* readers from the position on read the copy */
static void rename_reads(Recomputing *r, const Tensor *old, Tensor *copy, int from)
{
    Phase *p = r->phase;
    for (int k = r->use_begin[old->id]; k < r->use_begin[old->id + 1]; k++) {
        Task *t = p->tasks[r->uses[k]];
        for (int i = 0; i < t->read_count && r->uses[k] >= from; i++)
            if (t->reads[i] == old) {
                Rename rename = {t, i, t->reads[i]};
                APPEND(r->renames, r->rename_count, rename);
                t->reads[i] = copy;
            }
    }
}

/* -> how many tasks it has. kept: the memory of the phase */
static int insert_chain(Recomputing *r, const Chain *c, int at, Memory *kept)
{
    Phase *p = r->phase;
    Tensor **made = NEW_ARRAY(Tensor *, p->tensor_count); /* by root: the chain's copy */
    Task *added[2 * MOST_CHAIN];
    int count = 0;
    Memory *scratch = memory_use(kept);
    r->renames = NULL;
    r->rename_count = 0;
    for (int i = 0; i < c->count; i++)
        for (int t = c->units[i].first; t < c->units[i].first + c->units[i].count; t++) {
            Task *task = copy_task(p->tasks[t]);
            task->backward = task->again = true;
            for (int k = 0; k < task->read_count; k++) {
                const Tensor *x = task->reads[k];
                if (x->kind == TENSOR_TEMPORARY)
                    task->reads[k] = made[r->root[x->id]] ? made[r->root[x->id]] : copy_at(r, x, at);
            }
            for (int k = 0; k < task->write_count; k++) {
                int root = r->root[task->writes[k]->id];
                Tensor *old = copy_at(r, task->writes[k], at);
                task->writes[k] = made[root] = add_copy(r, old);
                rename_reads(r, old, made[root], at);
            }
            added[count++] = task;
        }
    if (p->task_count + count > r->task_room) {
        int room = 2 * (p->task_count + count);
        p->tasks = grow(p->tasks, sizeof *p->tasks * (size_t)p->task_count, sizeof *p->tasks * (size_t)room);
        r->task_room = room;
    }
    memmove(p->tasks + at + count, p->tasks + at, sizeof *p->tasks * (size_t)(p->task_count - at));
    memcpy(p->tasks + at, added, sizeof *added * (size_t)count);
    p->task_count += count;
    memory_use(scratch);
    return count;
}

static void take_back(Recomputing *r, int at, int count, int tensor_count)
{
    Phase *p = r->phase;
    for (int i = r->rename_count - 1; i >= 0; i--)
        r->renames[i].task->reads[r->renames[i].read] = r->renames[i].before;
    memmove(p->tasks + at, p->tasks + at + count, sizeof *p->tasks * (size_t)(p->task_count - at - count));
    p->task_count -= count;
    p->tensor_count = tensor_count;
}

Phase *copy_phase(const Phase *p)
{
    Phase *copy = NEW(Phase);
    *copy = *p;
    copy->tasks = NEW_ARRAY(Task *, p->task_count);
    copy->tensors = NEW_ARRAY(Tensor *, p->tensor_count);
    for (int i = 0; i < p->task_count; i++)
        copy->tasks[i] = copy_task(p->tasks[i]);
    for (int i = 0; i < p->tensor_count; i++)
        copy->tensors[i] = p->tensors[i];
    return copy;
}

static void measure(Recomputing *r, const Phase *before, Recomputed *made)
{
    made->peak = r->peak;
    for (int t = 0; t < r->phase->task_count; t++)
        if (r->phase->tasks[t]->kind == TASK_KERNEL) {
            made->flops += task_flops(r->phase->tasks[t], (double)r->samples);
            made->us += unit_us(r, (Unit){t, 1});
        }
    for (int t = 0; t < before->task_count; t++)
        if (before->tasks[t]->kind == TASK_KERNEL) {
            made->flops_before += task_flops(before->tasks[t], (double)r->samples);
            made->us_before += time_of_launch(r->program, &r->device, before->tasks[t], (double)r->samples);
        }
}

/* ---- what of which layer: the reason why it is dropped is how many bytes that gives for its time */
static int compare_layers(const void *a, const void *b)
{
    const DroppedLayer *x = a, *y = b;
    double first = x->bytes / x->us, second = y->bytes / y->us;
    return first != second ? (first < second) - (first > second) : strcmp(x->layer, y->layer);
}

static DroppedLayer *layer_named(Recomputed *made, const char *name)
{
    for (int i = 0; i < made->layer_count; i++)
        if (strcmp(made->layers[i].layer, name) == 0)
            return &made->layers[i];
    APPEND(made->layers, made->layer_count, ((DroppedLayer){.layer = name}));
    return &made->layers[made->layer_count - 1];
}

static void list_layers(const Recomputing *r, Recomputed *made)
{
    for (int t = 0; t < r->phase->task_count; t++) {
        const Task *task = r->phase->tasks[t];
        DroppedLayer *l = NULL;
        for (int k = 0; k < task->write_count; k++) {
            const Tensor *x = task->writes[k];
            if (r->root[x->id] == x->id) /* no copy */
                continue;
            l = layer_named(made, task->layer ? task->layer : "");
            l->tensors++;
            l->bytes += (double)bytes_of(r, x);
        }
        if (l)
            l->us += unit_us(r, (Unit){t, 1});
    }
    if (made->layer_count)
        qsort(made->layers, (size_t)made->layer_count, sizeof *made->layers, compare_layers);
}

Phase *recompute(const Program *program, const Plan *plan, const Phase *p, int64_t samples, int64_t limit, Recomputed *made)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Members members = members_of_plan(program, plan);
    Recomputing r = {.program = program, .samples = samples, .limit = limit, .tensor_room = p->tensor_count, .task_room = p->task_count, .kept = own};
    r.device = member_device(&members, 0);
    r.local = NEW_ARRAY(bool, p->tensor_count);
    find_locals(p, order_calls(program, p, &members, samples), r.local, NEW_ARRAY(int64_t, p->tensor_count));
    r.banned = NEW_ARRAY(bool, p->tensor_count);
    r.root = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        r.root[i] = i;
    memory_use(outer);
    r.phase = copy_phase(p);
    *made = (Recomputed){0};
    look(&r);
    made->peak_before = r.peak;
    made->least = least_alive(&r);
    bool fresh = false; /* all candidates are in the heap, as nothing has changed since they were rated */
    for (int round = 0; round < ROUNDS_PER_TASK * p->task_count && r.excess > 0; round++) {
        Choice c = choose(&r);
        if (c.rate <= 0 && !fresh) {
            rate_all(&r);
            fresh = true;
            c = choose(&r);
        }
        if (c.rate <= 0)
            break;
        double excess = r.excess;
        int tensors = r.phase->tensor_count, count = insert_chain(&r, &c.chain, c.at, outer);
        look(&r);
        if (r.excess >= excess) {
            r.banned[r.root[c.tensor->id]] = true;
            take_back(&r, c.at, count, tensors);
            look(&r);
        } else {
            made->tensors++;
            rate_touched(&r, c.at, count);
            fresh = false;
        }
    }
    measure(&r, p, made);
    check_same_values(p, r.phase, plan->devices);
    memory_use(outer);
    list_layers(&r, made);
    memory_free(r.seen);
    memory_free(own);
    return r.phase;
}
