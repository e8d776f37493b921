/* signature.c: what a schedule states about its program, independent of devices: the table of kernels, and the digest of each
 * task.
 *
 * In: the phases, whose tasks are the program for any number of devices. Out: a row for each kernel with each list of parameter
 * types and sizes, ordered by kernel; and digests, computed from the tasks in their own order, before any of them has a lane, a
 * buffer or a bucket. So the results of order_phase, place_phase and schedule_phase can be checked against both
 * (verify/values.c).
 *
 * A kernel has more than one row only if its text does not determine the size of an operand, such as one that is read in part. */
#include "compiler/kernel/kernel.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table of kernels */
static Parameter parameter_of(const Tensor *x)
{
    return x->has_samples ? (Parameter){.dtype = x->dtype, .each = tensor_bytes(x, 1)}
                          : (Parameter){.dtype = x->dtype, .bytes = tensor_bytes(x, 1)};
}

static Signature signature_of(const Task *t)
{
    Signature s = {.kernel = t->kernel->number,
                   .label = kernel_label(t->kernel),
                   .in = NEW_ARRAY(Parameter, t->read_count),
                   .in_count = t->read_count,
                   .out = NEW_ARRAY(Parameter, t->write_count),
                   .out_count = t->write_count,
                   .elements = t->elements,
                   .work = t->workspace_bytes,
                   .work_each = t->workspace_bytes_per_sample,
                   .extent = t->kernel->extent_text};
    for (int i = 0; i < t->read_count; i++)
        s.in[i] = parameter_of(t->reads[i]);
    for (int i = 0; i < t->write_count; i++) {
        s.out[i] = parameter_of(t->writes[i]);
        for (int k = 0; k < t->read_count; k++)
            if (t->reads[k] == t->writes[i])
                s.out[i].over = k + 1;
    }
    return s;
}

static int compare_parameters(const Parameter *a, const Parameter *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (a[i].dtype != b[i].dtype)
            return a[i].dtype < b[i].dtype ? -1 : 1;
        if (a[i].each != b[i].each)
            return a[i].each < b[i].each ? -1 : 1;
        if (a[i].bytes != b[i].bytes)
            return a[i].bytes < b[i].bytes ? -1 : 1;
        if (a[i].over != b[i].over)
            return a[i].over < b[i].over ? -1 : 1;
    }
    return 0;
}

static int compare_signatures(const void *x, const void *y)
{
    const Signature *a = x, *b = y;
    if (a->kernel != b->kernel)
        return a->kernel < b->kernel ? -1 : 1;
    if (a->in_count != b->in_count)
        return a->in_count < b->in_count ? -1 : 1;
    if (a->out_count != b->out_count)
        return a->out_count < b->out_count ? -1 : 1;
    if (a->elements != b->elements)
        return a->elements < b->elements ? -1 : 1;
    if (a->work != b->work)
        return a->work < b->work ? -1 : 1;
    if (a->work_each != b->work_each)
        return a->work_each < b->work_each ? -1 : 1;
    int in = compare_parameters(a->in, b->in, a->in_count);
    return in ? in : compare_parameters(a->out, b->out, a->out_count);
}

Signature *list_signatures(const Program *p, int *count)
{
    Signature *list = NULL;
    int all = 0;
    for (int i = 0; i < p->phase_count; i++)
        for (int t = 0; t < p->phases[i]->task_count; t++)
            if (p->phases[i]->tasks[t]->kind == TASK_KERNEL) {
                Signature s = signature_of(p->phases[i]->tasks[t]);
                APPEND(list, all, s);
            }
    *count = 0;
    if (all)
        qsort(list, (size_t)all, sizeof *list, compare_signatures);
    for (int i = 0; i < all; i++)
        if (!*count || compare_signatures(&list[*count - 1], &list[i]) != 0)
            list[(*count)++] = list[i];
    return list;
}

/* ---- digests */
struct TaskDigest {
    const Task *task;
    uint64_t digest;
};

static int compare_tasks(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const TaskDigest *)a)->task, y = (uintptr_t)((const TaskDigest *)b)->task;
    return (x > y) - (x < y);
}

static uint64_t leaf_of(const Tensor *x) { return digest_leaf(x->name, x->kind == TENSOR_REPORT ? -1 : x->index); }

TaskDigest *digest_tasks(const Phase *p, int devices)
{
    uint64_t *value = NEW_ARRAY(uint64_t, p->tensor_count); /* by tensor */
    TaskDigest *digests = NEW_ARRAY(TaskDigest, p->task_count);
    for (int i = 0; i < p->tensor_count; i++)
        value[i] = leaf_of(p->tensors[i]);
    for (int t = 0; t < p->task_count; t++) {
        const Task *task = p->tasks[t];
        digests[t].task = task;
        if (task->kind == TASK_TRANSFER) {
            if (devices > 1 && tensor_bytes(task->writes[0], 1) > 0) /* bucket.c transfers nothing else */
                value[task->writes[0]->id] = digest_transfer(value[task->writes[0]->id], &task->participants);
            continue;
        }
        uint64_t digest = digest_call(kernel_label(task->kernel));
        for (int i = 0; i < task->read_count; i++)
            digest = digest_argument(digest, value[task->reads[i]->id]);
        for (int i = 0; i < task->write_count; i++)
            if (task->writes[i]->kind != TENSOR_TEMPORARY)
                digest = digest_argument(digest, leaf_of(task->writes[i]));
        for (int i = 0; i < task->write_count; i++)
            value[task->writes[i]->id] = digest_result(digest, i);
        digests[t].digest = digest;
    }
    qsort(digests, (size_t)p->task_count, sizeof *digests, compare_tasks);
    return digests;
}

uint32_t digest_of(const TaskDigest *digests, int count, const Task *task)
{
    TaskDigest key = {task, 0};
    const TaskDigest *found = bsearch(&key, digests, (size_t)count, sizeof key, compare_tasks);
    if (!found)
        die("a call is of no task of its phase");
    return (uint32_t)found->digest;
}

/* ---- comparison of a phase with the one that it was made from */
static int compare_digests(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t *list_digests(const Phase *p, int devices, int *count)
{
    TaskDigest *digests = digest_tasks(p, devices);
    uint32_t *list = NEW_ARRAY(uint32_t, p->task_count);
    *count = 0;
    for (int t = 0; t < p->task_count; t++)
        if (p->tasks[t]->kind == TASK_KERNEL)
            list[(*count)++] = digest_of(digests, p->task_count, p->tasks[t]);
    return list;
}

void check_same_values(const Phase *before, const Phase *after, int devices)
{
    int count, more;
    uint32_t *known = list_digests(before, devices, &count), *now = list_digests(after, devices, &more);
    qsort(known, (size_t)count, sizeof *known, compare_digests);
    for (int i = 0; i < more; i++)
        if (!bsearch(&now[i], known, (size_t)count, sizeof *known, compare_digests))
            die("a task computes another value than before its phase was made anew");
}
