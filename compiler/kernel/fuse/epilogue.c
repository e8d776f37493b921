/* epilogue.c: which kernels are epilogues of contractions (kernel/epilogue.h), so that a target may fuse them.
 *
 * In: the tasks of a phase. Kernels of three kinds may be part of a contraction's call:
 *
 *   y = f(d) or f(d + bias)              d is the contraction's result, which no other kernel reads
 *   y = d gelu'(x + bias), and its sums  likewise. x is another contraction's result, which the kernel of y = gelu(x + bias)
 *                                        reads, too. Both are epilogues or none is: x + bias is then stored where the kernels
 *                                        expect x
 *   sums of an operand                   of a contraction that reads it as well: a bias's gradient with that of the weights
 *
 * If the target agrees, the kernel's task moves after the contraction's. From then on its accesses include the contraction's
 * operands, a workspace, and the contraction's result, updated in place, if something is stored there. So this task may execute
 * both. */
#include "compiler/kernel/epilogue.h"
#include "compiler/kernel/fuse/fuse.h"

#include <string.h>

typedef struct Joiner {
    Phase *phase;
    const Target *target;
    const char *archs;
} Joiner;

static bool names(Tensor *const *list, int count, const Tensor *t)
{
    return tensor_place((const Tensor *const *)list, count, t) >= 0;
}

static int place_of(const Task *task, const Tensor *t)
{
    return tensor_place((const Tensor *const *)task->reads, task->read_count, t);
}

/* ---- kinds of kernels, by the tasks' tensors */

/* Recognizes d -> f(d + bias), where d is the contraction's result. */
static bool find_function(const Task *task, const Tensor *d, Epilogue *e)
{
    const Kernel *k = task->kernel;
    int x = place_of(task, d), bias = task->read_count == 2 ? 1 - x : -1, sums;
    if (x < 0 || task->read_count > 2 || !epilogue_is_pointwise(k, bias, &sums) || sums >= 0 ||
        (bias >= 0 && task->reads[bias]->kind != TENSOR_VARIABLE))
        return false;
    for (int y = 0; y < k->write_count; y++) {
        *e = (Epilogue){.x = x, .bias = bias, .before = -1, .y = y, .sums = -1};
        if (k->writes[y]->dtype == d->dtype && epilogue_finds_function(k, e))
            return true;
    }
    return false;
}

/* Recognizes d -> d gelu'(x + bias), where d is the contraction's result and the task `forward` computes gelu(x + bias). */
static bool find_gradient(const Task *task, const Tensor *d, const Task *forward, const Epilogue *f, Epilogue *e)
{
    const Kernel *k = task->kernel;
    const Tensor *x = forward->reads[f->x], *bias = f->bias >= 0 ? forward->reads[f->bias] : NULL;
    int from[EPILOGUE_READS], sums;
    *e = (Epilogue){.kind = EPILOGUE_GELU_GRADIENT,
                    .x = place_of(task, d),
                    .before = place_of(task, x),
                    .bias = bias ? place_of(task, bias) : -1};
    if (e->x < 0 || e->before < 0 || (bias != NULL) != (e->bias >= 0) || !epilogue_is_pointwise(k, e->bias, &sums) ||
        k->write_count != 1 + (sums >= 0))
        return false;
    for (int i = 0; i < k->read_count; i++) {
        from[i] = tensor_place((const Tensor *const *)forward->writes, forward->write_count, task->reads[i]);
        if (from[i] < 0 && i != e->x && i != e->before && i != e->bias)
            return false;
    }
    e->y = sums == 0;
    e->sums = sums;
    return k->writes[e->y]->dtype == d->dtype && x->dtype == d->dtype && epilogue_is_gradient(k, e, forward->kernel, f, from);
}

/* Recognizes sums of an operand of the contraction. */
static bool find_sums(const Task *task, const Task *contraction, Epilogue *e)
{
    int sums;
    *e = (Epilogue){.kind = EPILOGUE_SUMS, .bias = -1, .before = -1, .y = -1};
    return task->write_count == 1 && place_of(contraction, task->reads[0]) >= 0 &&
           contraction->reads[0] != contraction->reads[1] && epilogue_is_pointwise(task->kernel, -1, &sums) && sums >= 0 &&
           epilogue_is_sum(task->kernel);
}

/* ---- tasks that can be joined */

/* Finds the kernels that read the tensor, in order, if only the contraction writes it; returns their number, -1: others write it,
 * or there are more than two readers. */
static int find_readers(const Phase *p, const Tensor *t, const Task *contraction, Task *readers[2])
{
    int count = 0;
    for (int i = 0; i < p->task_count; i++) {
        Task *task = p->tasks[i];
        if (task == contraction)
            continue;
        bool reads = names(task->reads, task->read_count, t);
        if (names(task->writes, task->write_count, t) || (reads && (count == 2 || task->kind != TASK_KERNEL)))
            return -1;
        if (reads)
            readers[count++] = task;
    }
    return count;
}

static int place_of_task(const Phase *p, const Task *task)
{
    for (int i = 0; i < p->task_count; i++)
        if (p->tasks[i] == task)
            return i;
    return -1;
}

static bool is_contraction(const Task *task)
{
    return task->kind == TASK_KERNEL && task->kernel->contraction && task->write_count == 1;
}

static bool same_epilogue(const Epilogue *a, const Epilogue *b)
{
    return a->kind == b->kind && a->x == b->x && a->bias == b->bias && a->before == b->before && a->y == b->y &&
           a->sums == b->sums;
}

/* Returns true if the task can run right after the contraction, no other task does, and no other kernel call uses this kernel in
 * another role. A tensor has one task that writes it, and a variable is written after all readers of its old value: no task in
 * between writes what this one reads. */
static bool may_join(const Phase *p, const Task *contraction, const Task *task, const Epilogue *e)
{
    int to = place_of_task(p, contraction), at = place_of_task(p, task);
    if (task_is_joined(task))
        return false;
    for (int i = 0; i < task->write_count; i++)
        if (names(contraction->reads, contraction->read_count, task->writes[i]))
            return false;
    for (int i = to < at ? to + 1 : at + 1; i < (to < at ? at : to); i++) {
        const Task *t = p->tasks[i];
        for (int k = 0; k < task->write_count; k++)
            if (names(t->reads, t->read_count, task->writes[k]))
                return false;
    }
    const Epilogue *had = task->kernel->epilogue;
    return !(to + 1 < p->task_count && task_is_joined(p->tasks[to + 1])) && (!had || same_epilogue(had, e));
}

/* result: the call stores something in the place of the contraction's result */
static void join(const Joiner *j, const Task *contraction, Task *task, const Epilogue *e, bool result)
{
    Phase *p = j->phase;
    int at = place_of_task(p, task);
    memmove(&p->tasks[at], &p->tasks[at + 1], (size_t)(p->task_count - at - 1) * sizeof *p->tasks);
    int to = place_of_task(p, contraction) + 1;
    memmove(&p->tasks[to + 1], &p->tasks[to], (size_t)(p->task_count - to - 1) * sizeof *p->tasks);
    p->tasks[to] = task;
    Epilogue *own = NEW(Epilogue);
    *own = *e;
    task->kernel->epilogue = own;
    APPEND(task->reads, task->read_count, contraction->reads[0]);
    APPEND(task->reads, task->read_count, contraction->reads[1]);
    if (result && place_of(task, contraction->writes[0]) < 0) /* so that it counts as updated in place, not as written twice */
        APPEND(task->reads, task->read_count, contraction->writes[0]);
    if (result)
        APPEND(task->writes, task->write_count, contraction->writes[0]);
    int64_t bytes = j->target->epilogue_workspace(j->archs);
    task->workspace_bytes = task->workspace_bytes < bytes ? bytes : task->workspace_bytes;
}

static Task *maker_of(const Phase *p, const Tensor *t)
{
    for (int i = 0; i < p->task_count; i++)
        if (names(p->tasks[i]->writes, p->tasks[i]->write_count, t))
            return p->tasks[i];
    return NULL;
}

/* Joins gelu and its gradient, both after their contractions. Nothing else may read what gelu's kernel also stores, since that is
 * then not stored. */
static void join_trained(const Joiner *j, const Task *contraction, Task *forward, const Epilogue *f, Task *backward)
{
    const Phase *p = j->phase;
    Epilogue e;
    Task *readers[2];
    for (int i = 0; i < forward->write_count; i++)
        if (i != f->y && (find_readers(p, forward->writes[i], forward, readers) != 1 || readers[0] != backward))
            return;
    for (int i = 0; i < backward->read_count; i++) {
        const Tensor *d = backward->reads[i];
        Task *maker = d->kind == TENSOR_TEMPORARY && !d->partial ? maker_of(p, d) : NULL;
        if (!maker || maker == contraction || !is_contraction(maker) || find_readers(p, d, maker, readers) != 1 ||
            !find_gradient(backward, d, forward, f, &e) || !j->target->may_epilogue(contraction, forward, f, true) ||
            !j->target->may_epilogue(maker, backward, &e, false))
            continue;
        if (may_join(p, contraction, forward, f) && may_join(p, maker, backward, &e)) {
            join(j, contraction, forward, f, true);
            join(j, maker, backward, &e, false);
        }
        return;
    }
}

static void join_function(const Joiner *j, const Task *contraction)
{
    Epilogue e;
    Task *readers[2];
    if (!is_contraction(contraction))
        return;
    const Tensor *d = contraction->writes[0];
    int count = d->kind == TENSOR_TEMPORARY && !d->partial ? find_readers(j->phase, d, contraction, readers) : 0;
    if (count < 1 || !find_function(readers[0], d, &e))
        return;
    if (count == 2 && e.kind == EPILOGUE_GELU)
        join_trained(j, contraction, readers[0], &e, readers[1]);
    else if (count == 1 && readers[0]->write_count == 1 && j->target->may_epilogue(contraction, readers[0], &e, false) &&
             may_join(j->phase, contraction, readers[0], &e))
        join(j, contraction, readers[0], &e, false);
}

static void join_sums(const Joiner *j, const Task *contraction)
{
    Epilogue e;
    for (int i = 0; i < j->phase->task_count && is_contraction(contraction); i++) {
        Task *task = j->phase->tasks[i];
        if (task->kind == TASK_KERNEL && task->read_count == 1 && find_sums(task, contraction, &e) &&
            j->target->may_epilogue(contraction, task, &e, true) && may_join(j->phase, contraction, task, &e)) {
            join(j, contraction, task, &e, true);
            return;
        }
    }
}

void fuse_epilogues(Phase *p, const Target *target, const char *archs)
{
    int count = p->task_count;
    const Joiner j = {p, target, archs};
    Task **tasks = NEW_ARRAY(Task *, count); /* as they are before any moves */
    for (int i = 0; i < count; i++)
        tasks[i] = p->tasks[i];
    for (int i = 0; i < count; i++)
        join_function(&j, tasks[i]);
    for (int i = 0; i < count; i++)
        join_sums(&j, tasks[i]);
}
