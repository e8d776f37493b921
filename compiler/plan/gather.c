/* gather.c: Phase -> Phase in which a weight that devices hold in parts is whole as long as it is used.
 *
 * In: a phase that gathers each such weight (--shard weights) once: a copy of the own part into a temporary, and an ALL_GATHER there.
 * Out: the same, but gathered anew where another gathered weight was used meanwhile. So a temporary lives from its gather to the end of
 * one use: in the forward pass, in the backward pass, and once for each use of a tied weight. The copies are of the same bits, so
 * nothing that is computed changes. A phase that comes out goes in again, and comes out the same: what was recomputed since
 * (recompute.c) may read a weight at other places.
 *
 * When each gather begins is the matter of ahead.c. */
#include "compiler/plan/gather.h"
#include "compiler/kernel/kernel.h"
#include "compiler/plan/schedule_internal.h"

#include <string.h>

typedef struct Gather { Task *copy, *transfer; Tensor *whole; int open; } Gather; /* open: number of the use that it is gathered for; 0: none */

typedef struct Gathering {
    Phase *phase;
    Gather *gathers; int count;
    int *of_tensor;         /* by tensor: its gather; -1: none */
    int *of_variable;       /* by variable: its gather + 1; 0: none */
    Task **tasks; int task_count;
    int use;                /* of gathered weights, in the order of tasks; from 1 */
} Gathering;

bool gathers_variable(const Task *copy, const Task *transfer)
{
    return transfer->kind == TASK_TRANSFER && transfer->parties.transfer == MGPU_TRANSFER_ALL_GATHER && copy->kind == TASK_KERNEL &&
           copy->read_count == 1 && copy->write_count == 1 && copy->writes[0] == transfer->writes[0] &&
           copy->reads[0]->kind == TENSOR_VARIABLE && copy->writes[0]->kind == TENSOR_TEMPORARY;
}

/* by tensor: the kernel that makes it; NULL: several do, or none */
static Task **find_makers(const Phase *p)
{
    Task **makers = NEW_ARRAY(Task *, p->tensor_count);
    bool *several = NEW_ARRAY(bool, p->tensor_count);
    for (int t = 0; t < p->task_count; t++)
        for (int i = 0; i < p->tasks[t]->write_count && p->tasks[t]->kind == TASK_KERNEL; i++) {
            int x = p->tasks[t]->writes[i]->id;
            several[x] = several[x] || makers[x];
            makers[x] = several[x] ? NULL : p->tasks[t];
        }
    return makers;
}

/* what of the phase is a gather: all of one variable are one */
static void find_gathers(Gathering *g, bool *gathers)
{
    const Phase *p = g->phase;
    Task **makers = find_makers(p);
    for (int i = 0; i < p->tensor_count; i++)
        g->of_tensor[i] = -1;
    for (int t = 0; t < p->task_count; t++) {
        Task *transfer = p->tasks[t], *copy = transfer->kind == TASK_TRANSFER ? makers[transfer->writes[0]->id] : NULL;
        if (!copy || !gathers_variable(copy, transfer))
            continue;
        int *of = &g->of_variable[copy->reads[0]->index];
        if (!*of) {
            APPEND(g->gathers, g->count, ((Gather){copy, transfer, transfer->writes[0], 0}));
            *of = g->count;
        }
        g->of_tensor[transfer->writes[0]->id] = *of - 1;
        gathers[t] = true;
        for (int k = t; k >= 0; k--)
            if (p->tasks[k] == copy) {
                gathers[k] = true;
                break;
            }
    }
}

static Tensor *add_tensor(Phase *p, const Tensor *like)
{
    Tensor *x = NEW(Tensor);
    *x = *like;
    x->id = p->tensor_count;
    APPEND(p->tensors, p->tensor_count, x);
    return x;
}

/* for the use that begins */
static void gather(Gathering *g, Gather *x, bool again, bool backward)
{
    Task *copy = again ? copy_task(x->copy) : x->copy, *transfer = again ? copy_task(x->transfer) : x->transfer;
    copy->backward = transfer->backward = backward;
    if (again)
        copy->writes[0] = transfer->reads[0] = transfer->writes[0] = x->whole = add_tensor(g->phase, x->whole);
    APPEND(g->tasks, g->task_count, copy);
    APPEND(g->tasks, g->task_count, transfer);
}

static void read_gathered(Gathering *g, Task *t, int tensors, bool *any)
{
    for (int i = 0; i < t->read_count; i++) {
        int of = t->reads[i]->id < tensors ? g->of_tensor[t->reads[i]->id] : -1;
        Gather *x = of >= 0 ? &g->gathers[of] : NULL;
        if (!x)
            continue;
        if (!*any)
            g->use++;
        *any = true;
        if (x->open < g->use - 1 || x->open == 0)
            gather(g, x, x->open > 0, t->backward);
        x->open = g->use;
        t->reads[i] = x->whole;
    }
}

/* a task, and its epilogues: nothing comes between them. -> the task after them */
static int use_weights(Gathering *g, int t, int tensors)
{
    const Phase *p = g->phase;
    int end = t + 1;
    bool any = false;
    while (end < p->task_count && task_is_joined(p->tasks[end]))
        end++;
    for (int k = t; k < end; k++)
        read_gathered(g, p->tasks[k], tensors, &any);
    for (; t < end; t++)
        APPEND(g->tasks, g->task_count, p->tasks[t]);
    return end;
}

Phase *gather_weights(Phase *given)
{
    Gathering g = {.phase = copy_phase(given)};
    Phase *p = g.phase;
    int tensors = p->tensor_count;
    bool *gathers = NEW_ARRAY(bool, p->task_count);
    g.of_tensor = NEW_ARRAY(int, tensors);
    g.of_variable = NEW_ARRAY(int, p->graph ? p->graph->model->variable_count : 0);
    find_gathers(&g, gathers);
    if (!g.count)
        return given;
    p->tensors = NULL;
    p->tensor_count = 0;
    for (int i = 0; i < tensors; i++)
        APPEND(p->tensors, p->tensor_count, given->tensors[i]);
    for (int t = 0; t < p->task_count;)
        t = gathers[t] ? t + 1 : use_weights(&g, t, tensors);
    p->tasks = g.tasks;
    p->task_count = g.task_count;
    return p;
}
