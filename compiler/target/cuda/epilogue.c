/* epilogue.c: what a library's matmul may do besides: add a bias, and relu or gelu; gelu's gradient; a bias's gradient.
 *
 * In: the tasks of a phase. Kernels of three kinds may be part of a matmul's call:
 *
 *   y = f(d) or f(d + bias)              where d is the matmul's result, which nobody else reads
 *   y = d gelu'(x + bias), and its sums  likewise. x is another matmul's result, which the kernel of y = gelu(x + bias) reads,
 *                                        too: both calls are then the library's or both are kernels', since it stores x + bias
 *                                        where the kernels have x
 *   sums of an operand over the terms    of a matmul that reads it as well: a bias's gradient with that of the weights
 *
 * The bias is that of an element's place along the last axis, and sums are over all other axes. The kernel's task moves behind
 * the matmul's, and from now on its accesses are also the matmul's operands, a workspace, and the matmul's result, changed in
 * place, where the library stores something there: it may do both calls in this one's place.
 *
 * What a kernel computes, values tell: its expressions are evaluated at many points. */
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/library.h"

#include <math.h>
#include <string.h>

enum { PROBES = 64, MOST_READS = 6, PITCH = 8 /* of what gelu is made of: divisible by it, says the library */ };
enum { ROWS, COLUMNS, TERMS, MEMBERS }; /* as in mgpu_library_matmul */

/* ---- what it computes */

typedef struct Point { const Kernel *kernel; double at[MOST_READS]; bool known; } Point; /* at: of what it reads */

static int place_in(const Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i] == t)
            return i;
    return -1;
}

static double value_at(const Expr *e, Point *p)
{
    double a[3] = {0};
    if (e->kind == X_NUMBER)
        return e->number;
    if (e->kind == X_LOAD)
        return p->at[place_in(p->kernel->reads, p->kernel->read_count, e->tensor)];
    p->known = p->known && e->kind == X_OP && e->count <= 3;
    for (int i = 0; i < e->count && p->known; i++)
        a[i] = value_at(e->in[i], p);
    switch (p->known ? e->op : OP_RANDOM) {
    case OP_ADD: return a[0] + a[1];
    case OP_SUB: return a[0] - a[1];
    case OP_MUL: return a[0] * a[1];
    case OP_MAXIMUM: return a[0] > a[1] ? a[0] : a[1];
    case OP_LE: return a[0] <= a[1];
    case OP_LT: return a[0] < a[1];
    case OP_WHERE: return a[0] != 0 ? a[1] : a[2];
    case OP_TANH: return tanh(a[0]);
    case OP_CAST: return a[0];
    default: p->known = false; return 0;
    }
}

/* f(x), and g f'(x) of a gradient; as cuBLASLt has them */
static double function_at(uint8_t kind, double x, double g)
{
    const double a = 0.7978845608028654, b = 0.044715, t = tanh(a * (x + b * x * x * x));
    switch (kind) {
    case MGPU_EPILOGUE_RELU: return x > 0 ? x : 0;
    case MGPU_EPILOGUE_GELU: return 0.5 * x * (1 + t);
    case MGPU_EPILOGUE_DGELU: return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * b * x * x));
    default: return x;
    }
}

/* the value at a point of the i-th sequence of numbers below `most` */
static double probe(int i, int sequence, double most)
{
    static const double STEP[] = {0.6180339887, 0.7548776662, 0.5698402910};
    return most * (2 * fmod(0.137 * (sequence + 1) + STEP[sequence] * i, 1) - 1);
}

static bool close_to(double is, double should) { return fabs(is - should) <= 1e-6 * (1 + fabs(should)); }

/* f(x + bias) of what the kernel reads there; bias -1: there is none */
static bool is_function(const Kernel *k, const Expr *value, uint8_t kind, int x, int bias)
{
    for (int i = 0; i < PROBES; i++) {
        Point p = {.kernel = k, .known = true};
        p.at[x] = probe(i, 0, 6);
        if (bias >= 0)
            p.at[bias] = probe(i, 1, 3);
        double is = value_at(value, &p);
        if (!p.known || !close_to(is, function_at(kind, p.at[x] + (bias >= 0 ? p.at[bias] : 0), 0)))
            return false;
    }
    return true;
}

static const Store *store_of(const Kernel *k, int write)
{
    const Nest *nest = k->nests;
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].tensor == k->writes[write])
            return &nest->stores[i];
    return NULL;
}

/* d gelu'(x + bias), where the kernel may read what the one of gelu has stored of x and the bias (from[i]: which of its writes
 * the i-th read is; -1: none) */
static bool is_gradient(const Kernel *k, const Expr *value, const mgpu_epilogue *e, const Kernel *forward, const mgpu_epilogue *f, const int *from)
{
    for (int i = 0; i < PROBES; i++) {
        Point x = {.kernel = forward, .known = true}, p = {.kernel = k, .known = true};
        x.at[f->x] = probe(i, 0, 6);
        if (f->bias >= 0)
            x.at[f->bias] = probe(i, 1, 3);
        p.at[e->x] = probe(i, 2, 4);
        for (int r = 0; r < k->read_count; r++)
            if (from[r] >= 0)
                p.at[r] = value_at(store_of(forward, from[r])->value, &x);
        p.at[e->before] = x.at[f->x];
        if (e->bias >= 0)
            p.at[e->bias] = x.at[f->bias];
        double is = value_at(value, &p);
        if (!p.known || !x.known || !close_to(is, function_at(MGPU_EPILOGUE_DGELU, x.at[f->x] + (f->bias >= 0 ? x.at[f->bias] : 0), p.at[e->x])))
            return false;
    }
    return true;
}

/* ---- where */

/* the offset modulo `length`, if that is so for reasons that are easily seen */
static bool is_modulo(const Exprs *x, const Expr *part, const Expr *offset, int64_t length)
{
    int64_t most = 0;
    if (part->kind != X_SUM && part->kind != X_AXIS)
        return false;
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        int64_t whole = expr_factor(offset, i), own = expr_factor(part, i);
        bool inside = whole < length && !a->samples;
        if (a->kind != AXIS_PLAIN || whole < 0 || (inside ? own != whole : own != 0 || whole % length != 0))
            return false;
        most += inside ? whole * (a->extent - 1) : 0;
    }
    for (int i = 0; i < part->count && part->kind == X_SUM; i++)
        if (part->in[i]->kind != X_AXIS)
            return false;
    for (int i = 0; i < offset->count && offset->kind == X_SUM; i++)
        if (offset->in[i]->kind != X_AXIS)
            return false;
    return most < length && (part->kind == X_AXIS || part->constant == 0);
}

/* all elements of a tensor, each once: the axes' strides follow each other, samples are the outermost */
static bool covers(const Exprs *x, const Expr *offset, int64_t each)
{
    int64_t span = 1;
    for (int found = 0; span < each;) {
        const Axis *next = NULL;
        for (int i = 0; i < x->axis_count && !next; i++)
            if (!(found >> i & 1) && expr_factor(offset, i) == span && (x->axis[i].extent > 1 || x->axis[i].samples)) {
                next = &x->axis[i];
                found |= 1 << i;
            }
        if (!next || next->kind != AXIS_PLAIN)
            return false;
        span *= next->extent;
        if (next->samples)
            return span == each;
    }
    for (int i = 0; i < x->axis_count; i++)
        if (x->axis[i].samples)
            return span == each && x->axis[i].extent == 1 && expr_factor(offset, i) == each;
    return false;
}

/* whether all that is loaded is the element at `offset`, or of a bias that of its place along the last axis */
static bool loads_at(const Kernel *k, const Expr *e, const Expr *offset, int bias)
{
    if (e->kind == X_LOAD)
        return e->count == 1 && place_in(k->reads, k->read_count, e->tensor) >= 0 &&
               (bias >= 0 && e->tensor == k->reads[bias] ? is_modulo(k->nests->exprs, e->in[0], offset, shape_count(&e->tensor->shape))
                                                         : e->in[0] == offset);
    for (int i = 0; i < e->count && e->kind == X_OP; i++)
        if (!loads_at(k, e->in[i], offset, bias))
            return false;
    return true;
}

static bool is_plain(const Store *s) { return !s->add && !s->guard && !s->run; }

/* a kernel of one nest that stores elements, all at one place, of what it reads there, and sums of at most one value over the
 * axes in front of the last: *sums; -1: none */
static bool is_pointwise(const Kernel *k, int bias, int *sums)
{
    const Nest *nest = k->nests;
    const Expr *offset = NULL;
    *sums = -1;
    if (k->nest_count != 1 || k->read_count > MOST_READS || nest->store_count != k->write_count)
        return false;
    for (int i = 0; i < k->write_count; i++) {
        const Store *s = store_of(k, i);
        if (!s || !is_plain(s) || (s->outer && *sums >= 0))
            return false;
        if (s->outer)
            *sums = i;
        else if (!loads_at(k, s->value, s->offset, bias) || (offset && s->offset != offset))
            return false;
        else
            offset = s->offset;
    }
    if (*sums < 0)
        return nest->reduction_count == 0;
    const Store *s = store_of(k, *sums);
    const Expr *result = s->value;
    while (result->kind == X_OP && result->op == OP_CAST)
        result = result->in[0];
    const Expr *added = nest->reduction_count == 1 ? nest->reductions[0].value : NULL;
    if (!offset) /* of what it reads alone */
        for (const Expr *e = added; e && !offset; e = e->count > 0 ? e->in[0] : NULL)
            offset = e->kind == X_LOAD ? e->in[0] : NULL;
    return added && offset && nest->reductions[0].kind == REDUCE_SUM && result->kind == X_RESULT && loads_at(k, added, offset, bias) &&
           is_modulo(nest->exprs, s->offset, offset, shape_count(&s->tensor->shape));
}

/* ---- the forms of kernels, as tasks use them */

static bool names(Tensor *const *list, int count, const Tensor *t)
{
    return place_in((const Tensor *const *)list, count, t) >= 0;
}

static int place_of(const Task *task, const Tensor *t) { return place_in((const Tensor *const *)task->reads, task->read_count, t); }

static Dtype sums_type(const mgpu_library_matmul *p) { return p->sums == MGPU_F64 ? F64 : F32; }

/* one number for each row of the matmul's result, of the type of its sums */
static bool is_vector(const Tensor *t, const mgpu_library_matmul *p)
{
    return !t->sharded && t->dtype == sums_type(p) && shape_count(&t->shape) == p->extent[ROWS] && p->extent[ROWS] > 1 &&
           p->sampled != ROWS && p->sampled != MEMBERS && p->extent[MEMBERS] == 1;
}

/* the matmul's result d -> f(d + bias) */
static bool find_function(const Task *task, const Tensor *d, const mgpu_library_matmul *p, mgpu_epilogue *e)
{
    const Kernel *k = task->kernel;
    int x = place_of(task, d), bias = task->read_count == 2 ? 1 - x : -1, sums;
    if (x < 0 || task->read_count > 2 || !is_pointwise(k, bias, &sums) || sums >= 0 ||
        (bias >= 0 && (task->reads[bias]->kind != TENSOR_VARIABLE || !is_vector(task->reads[bias], p))))
        return false;
    for (int y = 0; y < k->write_count; y++)
        for (uint8_t kind = bias >= 0 ? MGPU_EPILOGUE_BIAS : MGPU_EPILOGUE_RELU; kind <= MGPU_EPILOGUE_GELU; kind++)
            if (k->writes[y]->dtype == d->dtype && is_function(k, store_of(k, y)->value, kind, x, bias)) {
                *e = (mgpu_epilogue){.kind = kind, .x = (int8_t)x, .bias = (int8_t)bias, .before = -1, .y = (int8_t)y, .sums = -1};
                return true;
            }
    return false;
}

/* the matmul's result d -> d gelu'(x + bias), where the task `forward` makes gelu(x + bias) */
static bool find_gradient(const Task *task, const Tensor *d, const mgpu_library_matmul *p, const Task *forward,
                          const mgpu_epilogue *f, mgpu_epilogue *e)
{
    const Kernel *k = task->kernel;
    const Tensor *x = forward->reads[f->x], *bias = f->bias >= 0 ? forward->reads[f->bias] : NULL;
    int from[MOST_READS], sums;
    *e = (mgpu_epilogue){.kind = MGPU_EPILOGUE_DGELU, .x = (int8_t)place_of(task, d), .before = (int8_t)place_of(task, x),
                         .bias = (int8_t)(bias ? place_of(task, bias) : -1)};
    if (e->x < 0 || e->before < 0 || (bias != NULL) != (e->bias >= 0) || !is_pointwise(k, e->bias, &sums) || k->write_count != 1 + (sums >= 0))
        return false;
    for (int i = 0; i < k->read_count; i++) {
        from[i] = place_in((const Tensor *const *)forward->writes, forward->write_count, task->reads[i]);
        if (from[i] < 0 && i != e->x && i != e->before && i != e->bias)
            return false;
    }
    e->y = sums == 0;
    e->sums = (int8_t)sums;
    if (k->writes[e->y]->dtype != d->dtype || x->dtype != d->dtype || (sums >= 0 && !is_vector(task->writes[sums], p)))
        return false;
    return is_gradient(k, store_of(k, e->y)->value, e, forward->kernel, f, from) &&
           (sums < 0 || is_gradient(k, k->nests->reductions[0].value, e, forward->kernel, f, from));
}

/* sums of an operand over the matmul's terms, where these are all that it has besides the summed axis */
static bool find_sums(const Task *task, const Task *matmul, const mgpu_library_matmul *p, mgpu_epilogue *e)
{
    const Kernel *k = task->kernel;
    int sums, argument = place_of(matmul, task->reads[0]);
    const Tensor *t = task->reads[0];
    if (task->write_count != 1 || argument < 0 || matmul->reads[0] == matmul->reads[1] ||
        !is_pointwise(k, -1, &sums) || sums < 0)
        return false;
    bool of_a = p->a.argument == argument;
    const mgpu_library_matrix *m = of_a ? &p->a : &p->b;
    int64_t along = p->extent[of_a ? ROWS : COLUMNS];
    const Expr *load = k->nests->reductions[0].value;
    while (load->kind == X_OP && load->op == OP_CAST)
        load = load->in[0];
    *e = (mgpu_epilogue){.kind = MGPU_EPILOGUE_BGRAD, .bias = -1, .before = -1, .y = -1};
    return load->kind == X_LOAD && m->turned != of_a && m->first == 0 && (m->pitch == 0 || m->pitch == along) && p->sampled == TERMS &&
           p->extent[MEMBERS] == 1 && along * p->extent[TERMS] == shape_count(&t->shape) && task->writes[0]->dtype == sums_type(p) &&
           shape_count(&task->writes[0]->shape) == along && covers(k->nests->exprs, load->in[0], shape_count(&t->shape));
}

void cuda_print_epilogue(const Kernel *k, Text *t)
{
    const mgpu_epilogue *e = k->epilogue;
    if (e)
        text_add(t, "{%d, %d, %d, %s, %d, %d, %d, %d, %d}", e->kind, k->read_count, k->write_count, k->partial_bytes > 0 ? "true" : "false", e->x,
                 e->bias, e->before, e->y, e->sums);
    else
        text_add(t, "{0}");
}

/* ---- which matmuls they go with */

/* tasks that read the tensor, and nobody but the matmul writes it: how many, in their order; -1: others do, or too many */
static int find_readers(const Phase *p, const Tensor *t, const Task *matmul, Task *readers[2])
{
    int count = 0;
    for (int i = 0; i < p->task_count; i++) {
        Task *task = p->tasks[i];
        if (task == matmul)
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

static bool matmul_form(const Task *task, mgpu_library_matmul *form)
{
    return task->kind == TASK_KERNEL && task->kernel->contraction && task->write_count == 1 && cuda_library_form(task->kernel->contraction, form);
}

static bool is_joined(const Task *task) { return task->kind == TASK_KERNEL && task->read_count > task->kernel->read_count; }

/* whether the task can stand right behind the matmul, where no other does, and its kernel have this form. A tensor has one task
 * that writes it, a variable behind all that read its old value: what the task reads nobody writes in between. */
static bool may_join(const Phase *p, const Task *matmul, const Task *task, const mgpu_epilogue *e)
{
    int to = place_of_task(p, matmul), at = place_of_task(p, task);
    if (is_joined(task))
        return false;
    for (int i = 0; i < task->write_count; i++)
        if (names(matmul->reads, matmul->read_count, task->writes[i]))
            return false;
    for (int i = to < at ? to + 1 : at + 1; i < (to < at ? at : to); i++) {
        const Task *t = p->tasks[i];
        for (int k = 0; k < task->write_count; k++)
            if (names(t->reads, t->read_count, task->writes[k]))
                return false;
    }
    const mgpu_epilogue *had = task->kernel->epilogue;
    return !(to + 1 < p->task_count && is_joined(p->tasks[to + 1])) && (!had || memcmp(had, e, sizeof *had) == 0);
}

/* result: the library stores something where the matmul's result is */
static void join(Phase *p, Task *matmul, Task *task, mgpu_epilogue e, bool result, int64_t workspace)
{
    int at = place_of_task(p, task);
    memmove(&p->tasks[at], &p->tasks[at + 1], (size_t)(p->task_count - at - 1) * sizeof *p->tasks);
    int to = place_of_task(p, matmul) + 1;
    memmove(&p->tasks[to + 1], &p->tasks[to], (size_t)(p->task_count - to - 1) * sizeof *p->tasks);
    p->tasks[to] = task;
    mgpu_epilogue *form = NEW(mgpu_epilogue);
    *form = e;
    task->kernel->epilogue = form;
    APPEND(task->reads, task->read_count, matmul->reads[0]);
    APPEND(task->reads, task->read_count, matmul->reads[1]);
    if (result && place_of(task, matmul->writes[0]) < 0) /* so that it counts as changed in place, not written twice */
        APPEND(task->reads, task->read_count, matmul->writes[0]);
    if (result)
        APPEND(task->writes, task->write_count, matmul->writes[0]);
    if (task->workspace_bytes < workspace)
        task->workspace_bytes = workspace;
}

/* a result that lies without gaps in columns that the library takes as what gelu was made of */
static bool is_whole(const mgpu_library_matmul *p)
{
    const mgpu_library_matrix *d = &p->d;
    return p->extent[ROWS] % PITCH == 0 && d->first == 0 && (d->pitch == 0 || d->pitch == p->extent[ROWS]) && p->sampled != ROWS &&
           p->sampled != MEMBERS && p->extent[MEMBERS] == 1;
}

static Task *maker_of(const Phase *p, const Tensor *t)
{
    for (int i = 0; i < p->task_count; i++)
        if (names(p->tasks[i]->writes, p->tasks[i]->write_count, t))
            return p->tasks[i];
    return NULL;
}

/* gelu and its gradient, both behind their matmuls; nobody else reads what gelu's kernel stores besides, since the library does
 * not store it */
static void join_trained(Phase *p, Task *matmul, const mgpu_library_matmul *form, Task *forward, const mgpu_epilogue *f,
                         Task *backward, int64_t workspace)
{
    mgpu_library_matmul other;
    mgpu_epilogue e;
    Task *readers[2];
    for (int i = 0; i < forward->write_count; i++)
        if (i != f->y && (find_readers(p, forward->writes[i], forward, readers) != 1 || readers[0] != backward))
            return;
    for (int i = 0; i < backward->read_count; i++) {
        const Tensor *d = backward->reads[i];
        Task *maker = d->kind == TENSOR_TEMPORARY && !d->partial ? maker_of(p, d) : NULL;
        if (!maker || maker == matmul || !matmul_form(maker, &other) || find_readers(p, d, maker, readers) != 1 ||
            !is_whole(form) || !is_whole(&other) || !find_gradient(backward, d, &other, forward, f, &e))
            continue;
        if (may_join(p, matmul, forward, f) && may_join(p, maker, backward, &e)) {
            join(p, matmul, forward, *f, true, workspace);
            join(p, maker, backward, e, false, workspace);
        }
        return;
    }
}

static void join_function(Phase *p, Task *matmul, int64_t workspace)
{
    mgpu_library_matmul form;
    mgpu_epilogue e;
    Task *readers[2];
    const Tensor *d = matmul->writes[0];
    if (!matmul_form(matmul, &form) || d->kind != TENSOR_TEMPORARY || d->partial)
        return;
    int count = find_readers(p, d, matmul, readers);
    if (count < 1 || !find_function(readers[0], d, &form, &e))
        return;
    if (count == 2 && e.kind == MGPU_EPILOGUE_GELU)
        join_trained(p, matmul, &form, readers[0], &e, readers[1], workspace);
    else if (count == 1 && readers[0]->write_count == 1 && may_join(p, matmul, readers[0], &e))
        join(p, matmul, readers[0], e, false, workspace);
}

static void join_sums(Phase *p, Task *matmul, int64_t workspace)
{
    mgpu_library_matmul form;
    mgpu_epilogue e;
    if (!matmul_form(matmul, &form))
        return;
    for (int i = 0; i < p->task_count; i++) {
        Task *task = p->tasks[i];
        if (task->kind == TASK_KERNEL && task->read_count == 1 && find_sums(task, matmul, &form, &e) &&
            may_join(p, matmul, task, &e)) {
            join(p, matmul, task, e, true, workspace);
            return;
        }
    }
}

void cuda_join_epilogues(Phase *p, int64_t workspace)
{
    int count = p->task_count;
    Task **tasks = NEW_ARRAY(Task *, count); /* in their order now */
    for (int i = 0; i < count; i++)
        tasks[i] = p->tasks[i];
    for (int i = 0; i < count; i++)
        join_function(p, tasks[i], workspace);
    for (int i = 0; i < count; i++)
        join_sums(p, tasks[i], workspace);
}
