/* chain.c: a tensor, one of its uses -> the chain of tasks that computes a copy of it right before that use, and its rate: bytes
 * x positions above the limit that it frees per microsecond of the cost model.
 *
 * An input of a chain is still alive, or is kept alive longer, or (if it is large and dead) computed by the chain as well.
 * Weights in parts are gathered for each use anyway, so they are available until their update. */
#include "compiler/plan/recompute/search.h"
#include "compiler/kernel/kernel.h"

enum { MOST_TRIED = 4 * MOST_CHAIN };
static const int64_t SMALL = 8; /* a dead input is kept longer if it has at most this fraction of the freed bytes */

typedef struct Building {
    Recomputing *r;
    Chain chain;
    int at;
    bool deep;     /* the chain may have more than one unit */
    int64_t freed; /* bytes of the tensor that is dropped */
    int tried;     /* units that were tried, in the chain or not */
    double lost;   /* bytes x positions above the limit, of tensors that are kept longer */
} Building;

/* ---- units */
static Unit unit_of(const Recomputing *r, int at)
{
    const Phase *p = r->phase;
    if (task_is_joined(p->tasks[at]) && at > 0)
        return (Unit){at - 1, 2};
    return (Unit){at, at + 1 < p->task_count && task_is_joined(p->tasks[at + 1]) ? 2 : 1};
}

static bool makes(const Recomputing *r, Unit u, const Tensor *x, bool any_copy)
{
    for (int i = u.first; i < u.first + u.count; i++)
        for (int k = 0; k < r->phase->tasks[i]->write_count; k++) {
            const Tensor *made = r->phase->tasks[i]->writes[k];
            if (made == x || (any_copy && r->original[made->id] == r->original[x->id]))
                return true;
        }
    return false;
}

/* Returns true if its tasks write only temporaries that no other task writes, and nothing in place. */
static bool may_recompute(const Recomputing *r, Unit u)
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

double unit_us(const Recomputing *r, Unit u)
{
    double us = 0;
    for (int i = u.first; i < u.first + u.count; i++)
        us += time_of_launch(r->program, &r->device, r->phase->tasks[i],
                             units_of_task(r->phase->tasks[i], r->devices, (double)r->samples));
    return us;
}

/* ---- building */
static bool chain_makes(const Building *b, const Tensor *x)
{
    for (int i = 0; i < b->chain.count; i++)
        if (makes(b->r, b->chain.units[i], x, true))
            return true;
    return false;
}

/* false: an update may have changed it */
static bool is_as_before(const Recomputing *r, const Tensor *variable, int at)
{
    return r->maker[variable->id] < 0 || r->maker[variable->id] >= at;
}

static bool keep_alive_until(Building *b, const Tensor *x)
{
    for (int i = 0; i < b->chain.kept_count; i++)
        if (b->chain.kept[i].tensor == x)
            return true;
    if (b->chain.kept_count == MOST_KEPT)
        return false;
    int from = last_use(b->r, x) + 1;
    b->chain.kept[b->chain.kept_count++] = (KeptInput){x, from};
    b->lost += (double)bytes_of(b->r, x) * above(b->r, from, b->at);
    return true;
}

static bool add_unit(Building *, const Tensor *x);

/* Adds an input of the chain, which must still have its value; false: it does not. */
static bool add_read(Building *b, const Tensor *x)
{
    const Recomputing *r = b->r;
    if (x->kind != TENSOR_TEMPORARY)
        return x->kind == TENSOR_INPUT || (x->kind == TENSOR_VARIABLE && is_as_before(r, x, b->at));
    const Tensor *variable = r->variable[r->original[x->id]];
    if (variable)
        return is_as_before(r, variable, b->at);
    if (r->writers[x->id] != 1 || chain_makes(b, x))
        return r->writers[x->id] == 1;
    const Tensor *copy = copy_at(r, x, b->at);
    if (!copy)
        return false;
    bool counted = is_counted(r, copy);
    if (last_use(r, copy) >= b->at && counted)
        return true;
    if (b->deep && (!counted || bytes_of(r, copy) > b->freed / SMALL) && add_unit(b, copy))
        return true;
    return counted && keep_alive_until(b, copy);
}

static bool add_unit(Building *b, const Tensor *x)
{
    const Recomputing *r = b->r;
    Unit u = unit_of(r, r->maker[x->id]);
    int count = b->chain.count, kept_count = b->chain.kept_count;
    double us = b->chain.us, lost = b->lost;
    bool good = may_recompute(r, u) && count + 1 < MOST_CHAIN && ++b->tried <= MOST_TRIED;
    for (int i = u.first; i < u.first + u.count && good; i++)
        for (int k = 0; k < r->phase->tasks[i]->read_count && good; k++)
            good = makes(r, u, r->phase->tasks[i]->reads[k], false) || add_read(b, r->phase->tasks[i]->reads[k]);
    if (!good || b->chain.count == MOST_CHAIN) {
        b->chain.count = count;
        b->chain.kept_count = kept_count;
        b->chain.us = us;
        b->lost = lost;
        return false;
    }
    b->chain.units[b->chain.count++] = u;
    b->chain.us += unit_us(r, u);
    return true;
}

/* ---- recomputed tensors that are still read later: each is free from its last use before the position up to the position */
typedef struct Freed {
    const Tensor *tensor;
    int first, last;
} Freed; /* first > last: nothing is freed */

static Freed freed_of(const Recomputing *r, const Tensor *written, int at)
{
    const Tensor *x = copy_at(r, written, at);
    if (!x || !is_counted(r, x) || last_use(r, x) < at)
        return (Freed){x, 0, -1};
    return (Freed){x, last_use_before(r, x, at) + 1, at - 1};
}

static double freed_by(const Recomputing *r, const Chain *c, int at)
{
    double freed = 0;
    int64_t most = r->peak - r->limit;
    for (int i = 0; i < c->count; i++)
        for (int t = c->units[i].first; t < c->units[i].first + c->units[i].count; t++)
            for (int k = 0; k < r->phase->tasks[t]->write_count; k++) {
                Freed f = freed_of(r, r->phase->tasks[t]->writes[k], at);
                if (f.first > f.last)
                    continue;
                int64_t bytes = bytes_of(r, f.tensor);
                freed += (double)(bytes < most ? bytes : most) * above(r, f.first, f.last);
            }
    return freed;
}

Choice rate(Recomputing *r, int tensor, int use)
{
    const Tensor *x = r->phase->tensors[tensor];
    const int *uses = r->uses + r->use_begin[tensor];
    Choice best = {.rate = 0};
    if (!is_counted(r, x) || r->banned[r->original[tensor]] || r->writers[tensor] != 1 || use >= use_count(r, tensor))
        return best;
    int at = unit_of(r, uses[use]).first; /* nothing may come between a contraction and its epilogue */
    if (above(r, uses[use - 1] + 1, at - 1) <= 0)
        return best;
    for (int deep = 0; deep < 2; deep++) {
        Building b = {.r = r, .at = at, .deep = deep, .freed = bytes_of(r, x)};
        if (!add_unit(&b, x))
            continue;
        double found = (freed_by(r, &b.chain, at) - b.lost) / b.chain.us;
        if (found > best.rate)
            best = (Choice){b.chain, x, use, at, found};
    }
    return best;
}

/* ---- the chains of a round */
void expect(Recomputing *r, const Choice *c)
{
    for (int i = 0; i < c->chain.count; i++)
        for (int t = c->chain.units[i].first; t < c->chain.units[i].first + c->chain.units[i].count; t++)
            for (int k = 0; k < r->phase->tasks[t]->write_count; k++) {
                Freed f = freed_of(r, r->phase->tasks[t]->writes[k], c->at);
                if (f.first <= f.last)
                    change_alive(r, f.first, f.last, -bytes_of(r, f.tensor));
            }
    for (int i = 0; i < c->chain.kept_count; i++)
        change_alive(r, c->chain.kept[i].from, c->at, bytes_of(r, c->chain.kept[i].tensor));
    find_excess(r);
}

static bool any_in_round(const Recomputing *r, Tensor *const *tensors, int count, const int *marks)
{
    for (int i = 0; i < count; i++)
        if (marks[r->original[tensors[i]->id]] == r->round)
            return true;
    return false;
}

bool overlaps(const Recomputing *r, const Choice *c)
{
    for (int i = 0; i < c->chain.count; i++)
        for (int t = c->chain.units[i].first; t < c->chain.units[i].first + c->chain.units[i].count; t++) {
            const Task *task = r->phase->tasks[t];
            if (any_in_round(r, task->reads, task->read_count, r->written) ||
                any_in_round(r, task->writes, task->write_count, r->written) ||
                any_in_round(r, task->writes, task->write_count, r->read))
                return true;
        }
    return false;
}

void mark_chain(Recomputing *r, const Choice *c)
{
    for (int i = 0; i < c->chain.count; i++)
        for (int t = c->chain.units[i].first; t < c->chain.units[i].first + c->chain.units[i].count; t++) {
            const Task *task = r->phase->tasks[t];
            for (int k = 0; k < task->read_count; k++)
                r->read[r->original[task->reads[k]->id]] = r->round;
            for (int k = 0; k < task->write_count; k++)
                r->written[r->original[task->writes[k]->id]] = r->round;
        }
}
