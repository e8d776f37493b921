/* alive.c: analyses a phase: the tasks that compute and read each tensor, and the bytes that are alive at each position. */
#include "compiler/plan/recompute/search.h"

int last_use_before(const Recomputing *r, const Tensor *x, int at)
{
    int last = -1;
    for (int k = r->use_begin[x->id]; k < r->use_begin[x->id + 1] && r->uses[k] < at; k++)
        last = r->uses[k];
    return last;
}

Tensor *copy_at(const Recomputing *r, const Tensor *x, int at)
{
    int id = r->newest[r->original[x->id]];
    while (id >= 0 && r->maker[id] >= at)
        id = r->older[id];
    return id >= 0 ? r->phase->tensors[id] : NULL;
}

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
    r->newest = NEW_ARRAY(int, p->tensor_count);
    r->older = NEW_ARRAY(int, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        r->maker[i] = r->newest[i] = r->older[i] = -1;
    for (int t = 0; t < p->task_count; t++)
        for (int k = 0; k < p->tasks[t]->write_count && p->tasks[t]->kind == TASK_KERNEL; k++) {
            int id = p->tasks[t]->writes[k]->id;
            if (r->writers[id]++ > 0)
                continue;
            r->maker[id] = t;
            r->older[id] = r->newest[r->original[id]];
            r->newest[r->original[id]] = id;
        }
}

void change_alive(Recomputing *r, int first, int last, int64_t bytes)
{
    for (int t = first; t <= last; t++)
        r->alive[t] += bytes;
}

void find_excess(Recomputing *r)
{
    r->excess = 0;
    r->peak = 0;
    for (int t = 0; t < r->phase->task_count; t++) {
        r->peak = r->alive[t] > r->peak ? r->alive[t] : r->peak;
        r->excess += r->alive[t] > r->limit ? (double)(r->alive[t] - r->limit) : 0;
        r->above[t + 1] = r->above[t] + (r->alive[t] > r->limit);
    }
}

static void find_alive(Recomputing *r)
{
    const Phase *p = r->phase;
    r->alive = NEW_ARRAY(int64_t, p->task_count + 1);
    r->above = NEW_ARRAY(int, p->task_count + 1);
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        if (!is_counted(r, x) || use_count(r, i) == 0)
            continue;
        r->alive[r->uses[r->use_begin[i]]] += bytes_of(r, x);
        r->alive[last_use(r, x) + 1] -= bytes_of(r, x);
    }
    for (int t = 1; t < p->task_count; t++)
        r->alive[t] += r->alive[t - 1];
    find_excess(r);
}

void analyse_phase(Recomputing *r)
{
    Memory *old = r->analysed;
    memory_use(r->analysed = memory_new());
    if (old)
        memory_free(old);
    find_uses(r);
    find_makers(r);
    find_alive(r);
}

/* Returns the most bytes that a single task needs at once, gathered weights included. A result may be in the place of an
 * operand. */
int64_t least_alive(const Recomputing *r)
{
    int64_t most = 0;
    int *seen = NEW_ARRAY(int, r->phase->tensor_count); /* the last task + 1 */
    for (int t = 0; t < r->phase->task_count; t++) {
        const Task *task = r->phase->tasks[t];
        int64_t reads = 0, writes = 0;
        for (int k = 0; k < task->read_count; k++) {
            const Tensor *x = task->reads[k];
            if (!is_counted(r, x) && !r->variable[r->original[x->id]])
                continue;
            reads += seen[x->id] != t + 1 ? bytes_of(r, x) : 0;
            seen[x->id] = t + 1;
        }
        for (int k = 0; k < task->write_count; k++)
            writes += is_counted(r, task->writes[k]) ? bytes_of(r, task->writes[k]) : 0;
        most = reads > most ? reads : most;
        most = writes > most ? writes : most;
    }
    return most;
}
