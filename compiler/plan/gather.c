/* gather.c: Phase -> Phase in which a weight that devices hold in parts is whole only while it is used.
 *
 * In: a phase that gathers each such weight (--shard weights) once: a copy of the own part into a temporary, and an ALL_GATHER
 * there. Out: the same phase, but a weight is gathered again if another gathered weight was used meanwhile. So a temporary lives
 * from its gather to the end of one use: in the forward pass, in the backward pass, and once for each use of a tied weight. The
 * gathered bits are the same, so no result changes. A task after the update of a weight still reads the weight as it was before,
 * so nothing is gathered after the update; it counts as a use if the gathered weight is read later. The pass is idempotent: it is
 * applied again after rematerialization (recompute.c), which may read a weight in other places.
 *
 * When each gather begins is decided in gather_starts.c.
 *
 * A weight may also be kept from one use to the next, which takes memory and saves a transfer. `share` of all bytes that are
 * gathered again is kept, first those that are used again soonest: the weights of a model's last layers, between the forward and
 * the backward pass. driver/memory.c decides how much. */
#include "compiler/plan/gather.h"
#include "compiler/plan/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Gather {
    Task *copy, *transfer;
    Tensor *whole;
    int open; /* number of the use that it is gathered for; 0: none */
    int last; /* the last task that reads it */
    bool updated;
} Gather;

typedef struct Gathering {
    Phase *phase;
    Gather *gathers;
    int count;
    int *of_tensor;   /* by tensor: its gather; -1: none */
    int *of_variable; /* by variable: its gather + 1; 0: none */
    Task **tasks;
    int task_count;
    int use; /* number of the current use of gathered weights, in the order of tasks; from 1 */
} Gathering;

bool gathers_variable(const Task *copy, const Task *transfer)
{
    return transfer->kind == TASK_TRANSFER && transfer->participants.transfer == MGPU_TRANSFER_ALL_GATHER &&
           copy->kind == TASK_KERNEL && copy->read_count == 1 && copy->write_count == 1 &&
           copy->writes[0] == transfer->writes[0] && copy->reads[0]->kind == TENSOR_VARIABLE &&
           copy->writes[0]->kind == TENSOR_TEMPORARY;
}

/* Returns, by tensor, the kernel that computes it; NULL: several do, or none. */
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

const Tensor **gathered_variables(const Phase *p)
{
    const Tensor **variables = NEW_ARRAY(const Tensor *, p->tensor_count);
    Task **makers = find_makers(p);
    for (int t = 0; t < p->task_count; t++) {
        const Task *transfer = p->tasks[t], *copy = transfer->kind == TASK_TRANSFER ? makers[transfer->writes[0]->id] : NULL;
        if (copy && gathers_variable(copy, transfer))
            variables[transfer->writes[0]->id] = copy->reads[0];
    }
    return variables;
}

/* Marks the tasks that are gathers; all gathers of a variable share one Gather. */
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
            APPEND(g->gathers, g->count, ((Gather){copy, transfer, transfer->writes[0], 0, t, false}));
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
    for (int t = 0; t < p->task_count; t++)
        for (int i = 0; i < p->tasks[t]->read_count && !gathers[t]; i++)
            if (g->of_tensor[p->tasks[t]->reads[i]->id] >= 0)
                g->gathers[g->of_tensor[p->tasks[t]->reads[i]->id]].last = t;
}

static Tensor *add_tensor(Phase *p, const Tensor *like)
{
    Tensor *x = NEW(Tensor);
    *x = *like;
    x->id = p->tensor_count;
    APPEND(p->tensors, p->tensor_count, x);
    return x;
}

/* Adds the gather for the use that begins. */
static void gather(Gathering *g, Gather *x, bool again, bool backward)
{
    Task *copy = again ? copy_task(x->copy) : x->copy, *transfer = again ? copy_task(x->transfer) : x->transfer;
    copy->backward = transfer->backward = backward;
    if (again)
        copy->writes[0] = transfer->reads[0] = transfer->writes[0] = x->whole = add_tensor(g->phase, x->whole);
    APPEND(g->tasks, g->task_count, copy);
    APPEND(g->tasks, g->task_count, transfer);
}

static void use_gathered(Gathering *g, Gather *x, bool backward, bool *any)
{
    if (!*any)
        g->use++;
    *any = true;
    if (x->open == 0 || (x->open < g->use - 1 && !x->updated))
        gather(g, x, x->open > 0, backward);
    x->open = g->use;
}

static void read_gathered(Gathering *g, Task *t, int tensors, bool *any)
{
    for (int i = 0; i < t->read_count; i++) {
        int of = t->reads[i]->id < tensors ? g->of_tensor[t->reads[i]->id] : -1;
        Gather *x = of >= 0 ? &g->gathers[of] : NULL;
        if (!x)
            continue;
        use_gathered(g, x, t->backward, any);
        t->reads[i] = x->whole;
    }
}

/* end: the first task after this one and its epilogues */
static void update_gathered(Gathering *g, const Task *t, int end, bool *any)
{
    for (int i = 0; i < t->write_count; i++) {
        int of = t->writes[i]->kind == TENSOR_VARIABLE ? g->of_variable[t->writes[i]->index] : 0;
        Gather *x = of ? &g->gathers[of - 1] : NULL;
        if (!x)
            continue;
        if (x->last >= end)
            use_gathered(g, x, t->backward, any);
        x->updated = true;
    }
}

/* Adds a task and its epilogues, which must follow it directly; returns the task after them. */
static int use_weights(Gathering *g, int t, int tensors)
{
    const Phase *p = g->phase;
    int end = t + 1;
    bool any = false;
    while (end < p->task_count && task_is_joined(p->tasks[end]))
        end++;
    for (int k = t; k < end; k++)
        read_gathered(g, p->tasks[k], tensors, &any);
    for (int k = t; k < end; k++)
        update_gathered(g, p->tasks[k], end, &any);
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

/* ---- weights that are kept */
typedef struct WeightUse { /* a use of a weight, from its gather on */
    int copy, transfer;    /* indices of the tasks */
    Tensor *whole;
    int before; /* the previous use of the weight; -1: none */
    int last;   /* the last task that reads it */
    int apart;  /* number of tasks since the previous use */
    int64_t bytes;
    bool reused; /* reads the tensor of the previous use */
} WeightUse;

static int compare_apart(const void *a, const void *b)
{
    const WeightUse *x = *(WeightUse *const *)a, *y = *(WeightUse *const *)b;
    return x->apart != y->apart ? (x->apart < y->apart ? -1 : 1) : (x->transfer > y->transfer) - (x->transfer < y->transfer);
}

static int number_of(const Phase *p, const Task *task, int last)
{
    while (last >= 0 && p->tasks[last] != task)
        last--;
    return last;
}

static WeightUse *list_uses(const Phase *p, int *count)
{
    Task **makers = find_makers(p);
    /* variable + 1 */
    int *of_variable = NEW_ARRAY(int, p->graph ? p->graph->model->variable_count : 0),
        *of_tensor = NEW_ARRAY(int, p->tensor_count);
    WeightUse *uses = NULL;
    *count = 0;
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t], *copy = task->kind == TASK_TRANSFER ? makers[task->writes[0]->id] : NULL;
        for (int i = 0; i < task->read_count && task->kind == TASK_KERNEL; i++)
            if (of_tensor[task->reads[i]->id])
                uses[of_tensor[task->reads[i]->id] - 1].last = t;
        if (!copy || !gathers_variable(copy, task))
            continue;
        int *of = &of_variable[copy->reads[0]->index], before = *of - 1;
        APPEND(uses, *count,
               ((WeightUse){number_of(p, copy, t), t, task->writes[0], before, t, before >= 0 ? t - uses[before].last : 0,
                            tensor_bytes(task->writes[0], 1), false}));
        *of = of_tensor[task->writes[0]->id] = *count;
    }
    return uses;
}

/* Marks the uses that follow soonest; share: of the bytes that are gathered again. */
static void choose_reused(WeightUse *uses, int count, double share)
{
    WeightUse **again = NEW_ARRAY(WeightUse *, count);
    int again_count = 0;
    double all = 0, kept = 0;
    for (int i = 0; i < count; i++)
        if (uses[i].before >= 0) {
            again[again_count++] = &uses[i];
            all += (double)uses[i].bytes;
        }
    if (again_count)
        qsort(again, (size_t)again_count, sizeof *again, compare_apart);
    for (int i = 0; i < again_count && kept + (double)again[i]->bytes <= share * all; i++) {
        kept += (double)again[i]->bytes;
        again[i]->reused = true;
    }
}

Phase *reuse_gathered(Phase *given, double share)
{
    int count, task_count = 0;
    WeightUse *uses = list_uses(given, &count);
    choose_reused(uses, count, share);
    Phase *p = copy_phase(given);
    Tensor **instead = NEW_ARRAY(Tensor *, p->tensor_count);
    bool *left_out = NEW_ARRAY(bool, p->task_count);
    for (int i = 0; i < count; i++) {
        if (!uses[i].reused)
            continue;
        const Tensor *own = uses[i].whole;
        const WeightUse *before = &uses[uses[i].before];
        uses[i].whole = instead[own->id] = before->whole;
        left_out[uses[i].copy] = left_out[uses[i].transfer] = true;
        p->tasks[before->transfer]->gathered_once = true;
    }
    for (int t = 0; t < p->task_count; t++) {
        Task *task = p->tasks[t];
        for (int i = 0; i < task->read_count; i++)
            task->reads[i] = instead[task->reads[i]->id] ? instead[task->reads[i]->id] : task->reads[i];
        if (!left_out[t])
            p->tasks[task_count++] = task;
    }
    p->task_count = task_count;
    return p;
}
