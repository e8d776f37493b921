/* insert.c: inserts chains as tasks of the phase, each chain right before its reader; later readers of a tensor read its copy. */
#include "compiler/plan/recompute/search.h"

#include <stdlib.h>
#include <string.h>

typedef struct Inserting {
    Recomputing *r;
    Inserted before;
    Tensor **made;
    int *of; /* by root: the copy that a chain computes, and the chain's number */
} Inserting;

typedef struct Sorted {
    int at, choice;
} Sorted;

static int compare_sorted(const void *a, const void *b)
{
    const Sorted *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->choice > y->choice) - (x->choice < y->choice);
}

static Tensor *add_copy(Recomputing *r, const Tensor *x)
{
    Phase *p = r->phase;
    int original = r->original[x->id], number = 0;
    for (int i = r->newest[original]; i >= 0; i = r->older[i])
        number++;
    Tensor *copy = NEW(Tensor);
    *copy = *p->tensors[original];
    copy->id = p->tensor_count;
    copy->name = format("%s.copy%d", copy->name, number);
    if (copy->id >= r->tensor_capacity) {
        int room = 2 * r->tensor_capacity + 64;
        p->tensors = grow(p->tensors, sizeof *p->tensors * (size_t)r->tensor_capacity, sizeof *p->tensors * (size_t)room);
        r->original = grow(r->original, sizeof *r->original * (size_t)r->tensor_capacity, sizeof *r->original * (size_t)room);
        r->tensor_capacity = room;
    }
    p->tensors[p->tensor_count++] = copy;
    r->original[copy->id] = original;
    return copy;
}

/* Readers from the position on read the copy. */
static void rename_reads(Inserting *s, const Tensor *old, Tensor *copy, int from)
{
    const Recomputing *r = s->r;
    for (int k = r->use_begin[old->id]; k < r->use_begin[old->id + 1]; k++) {
        Task *t = s->before.tasks[r->uses[k]];
        for (int i = 0; i < t->read_count && r->uses[k] >= from; i++)
            if (t->reads[i] == old) {
                APPEND(s->before.renames, s->before.rename_count, ((Rename){t, i, t->reads[i]}));
                t->reads[i] = copy;
            }
    }
}

/* number: of the choice, from 1 */
static Task *copy_recomputed(Inserting *s, const Task *given, int at, int number)
{
    const Recomputing *r = s->r;
    Task *task = copy_task(given);
    task->backward = task->rematerialized = true;
    task->own_pass = NULL;
    for (int k = 0; k < task->read_count; k++) {
        const Tensor *x = task->reads[k];
        int original = r->original[x->id];
        if (x->kind == TENSOR_TEMPORARY)
            task->reads[k] = s->of[original] == number ? s->made[original] : copy_at(r, x, at);
    }
    for (int k = 0; k < task->write_count; k++) {
        int original = r->original[task->writes[k]->id];
        Tensor *old = copy_at(r, task->writes[k], at);
        task->writes[k] = s->made[original] = add_copy(s->r, old);
        s->of[original] = number;
        rename_reads(s, old, s->made[original], at);
    }
    return task;
}

Inserted insert_chains(Recomputing *r, const Choice *choices, int count, Memory *kept)
{
    Phase *p = r->phase;
    Inserting s = {.r = r,
                   .before = {p->tasks, p->task_count, p->tensor_count, NULL, 0},
                   .made = NEW_ARRAY(Tensor *, p->tensor_count),
                   .of = NEW_ARRAY(int, p->tensor_count)};
    Sorted *sorted = NEW_ARRAY(Sorted, count);
    int more = 0, at = 0;
    for (int i = 0; i < count; i++) {
        sorted[i] = (Sorted){choices[i].at, i};
        for (int k = 0; k < choices[i].chain.count; k++)
            more += choices[i].chain.units[k].count;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_sorted);
    Memory *scratch = memory_use(kept);
    p->tasks = NEW_ARRAY(Task *, p->task_count + more);
    p->task_count = 0;
    for (int i = 0; i <= count; i++) {
        const Choice *c = i < count ? &choices[sorted[i].choice] : NULL;
        for (int end = c ? c->at : s.before.task_count; at < end; at++)
            p->tasks[p->task_count++] = s.before.tasks[at];
        for (int k = 0; c && k < c->chain.count; k++)
            for (int t = c->chain.units[k].first; t < c->chain.units[k].first + c->chain.units[k].count; t++)
                p->tasks[p->task_count++] = copy_recomputed(&s, s.before.tasks[t], c->at, i + 1);
    }
    memory_use(scratch);
    return s.before;
}

void take_back(Recomputing *r, const Inserted *i)
{
    for (int k = i->rename_count - 1; k >= 0; k--)
        i->renames[k].task->reads[i->renames[k].read] = i->renames[k].before;
    r->phase->tasks = i->tasks;
    r->phase->task_count = i->task_count;
    r->phase->tensor_count = i->tensor_count;
}
