/* order.c: Phase, Order -> the phase with its tasks in the order in which its schedule runs them.
 *
 * A phase computes all gradients before the first transfer, but a schedule does not: after a reduce-scatter a device keeps only
 * its own part of a gradient. So the bytes alive at once follow from the schedule's order only. */
#include "compiler/plan/recompute/search.h"

#include <stdlib.h>

typedef struct Position {
    int call, transfer, task;
} Position; /* transfer: 1 if it follows the call */
typedef struct TaskCall {
    const Task *task;
    int number;
} TaskCall;

static int compare_positions(const void *a, const void *b)
{
    const Position *x = a, *y = b;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    if (x->transfer != y->transfer)
        return x->transfer - y->transfer;
    return (x->task > y->task) - (x->task < y->task);
}

static int compare_calls(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const TaskCall *)a)->task, y = (uintptr_t)((const TaskCall *)b)->task;
    return (x > y) - (x < y);
}

static TaskCall *sort_calls(const Order *o)
{
    TaskCall *calls = NEW_ARRAY(TaskCall, o->call_count);
    for (int i = 0; i < o->call_count; i++)
        calls[i] = (TaskCall){o->calls[i], i};
    qsort(calls, (size_t)o->call_count, sizeof *calls, compare_calls);
    return calls;
}

/* the collectives of a tensor, in order */
typedef struct Afters {
    int *first, *next, *after;
} Afters; /* by tensor: first; by member of all groups: next + 1; the call that it follows */

static Afters list_afters(const Phase *p, const Order *o)
{
    int count = 1;
    for (int g = 0; g < o->group_count; g++)
        count += o->groups[g].member_count;
    Afters a = {NEW_ARRAY(int, p->tensor_count), NEW_ARRAY(int, count), NEW_ARRAY(int, count)};
    for (int g = o->group_count - 1; g >= 0; g--)
        for (int i = 0; i < o->groups[g].member_count; i++) {
            int *first = &a.first[o->groups[g].members[i]->id];
            a.next[--count] = *first;
            a.after[count] = o->groups[g].after;
            *first = count;
        }
    return a;
}

Phase *phase_in_order(const Phase *p, const Order *o)
{
    Phase *ordered = copy_phase(p);
    if (o->group_count == 0)
        return ordered;
    const TaskCall *calls = sort_calls(o);
    Afters afters = list_afters(p, o);
    Position *positions = NEW_ARRAY(Position, p->task_count);
    int *made = NEW_ARRAY(int, p->tensor_count); /* the last call that writes it + 1 */
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        bool transfer = task->kind == TASK_TRANSFER;
        if (!transfer) {
            TaskCall key = {task, 0};
            const TaskCall *found = bsearch(&key, calls, (size_t)o->call_count, sizeof key, compare_calls);
            positions[t] = (Position){found->number, 0, t};
        } else { /* a transfer of 0 bytes is in no group */
            int *first = &afters.first[task->writes[0]->id];
            positions[t] = (Position){*first ? afters.after[*first] : made[task->writes[0]->id] - 1, 1, t};
            *first = afters.next[*first];
        }
        for (int i = 0; i < task->write_count && !transfer; i++)
            made[task->writes[i]->id] = positions[t].call + 1;
    }
    Task **tasks = NEW_ARRAY(Task *, p->task_count);
    qsort(positions, (size_t)p->task_count, sizeof *positions, compare_positions);
    for (int i = 0; i < p->task_count; i++)
        tasks[i] = ordered->tasks[positions[i].task];
    ordered->tasks = tasks;
    return ordered;
}
