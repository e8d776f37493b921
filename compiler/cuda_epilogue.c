/* cuda_epilogue.c: what a library's product may do with its result: add a bias, and relu or gelu.
 *
 * In: the tasks of a phase. A kernel is an epilogue if it makes of every element x of one tensor f(x), or f(x + bias), where the
 * bias is that of the element's place along the last axis, and stores it at the same place of another tensor of the same type.
 * If nobody else reads a product's result, the epilogue's task moves behind the product's, and from now on its accesses are also
 * the product's operands and a workspace: the library may do both in its place, and the product's call is then left out.
 *
 * What f is, values tell: the expression is computed at many points. */
#include "compiler/cuda_library.h"
#include "compiler/kernel.h"

#include <math.h>

enum { PROBES = 64 };

typedef struct Form { uint8_t kind; const Tensor *x, *bias, *y; int64_t length; } Form; /* length: of the bias */

/* ---- what it does */

typedef struct Point { const Tensor *x, *bias; double at_x, at_bias; bool known; } Point;

static double value_at(const Expr *e, Point *p)
{
    double a[3] = {0};
    if (e->kind == X_NUMBER)
        return e->number;
    if (e->kind == X_LOAD && e->count == 1 && (e->tensor == p->x || e->tensor == p->bias))
        return e->tensor == p->x ? p->at_x : p->at_bias;
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

static double function_at(uint8_t kind, double x)
{
    switch (kind) {
    case MGPU_EPILOGUE_RELU: return x > 0 ? x : 0;
    case MGPU_EPILOGUE_GELU: return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); /* as cuBLASLt has it */
    default: return x;
    }
}

static bool is_function(const Expr *value, const Form *f, uint8_t kind)
{
    for (int i = 0; i < PROBES; i++) {
        Point p = {.x = f->x, .bias = f->bias, .at_x = -6 + 12 * fmod(0.137 + 0.6180339887 * i, 1), .known = true};
        p.at_bias = f->bias ? -3 + 6 * fmod(0.291 + 0.7548776662 * i, 1) : 0;
        double is = value_at(value, &p), should = function_at(kind, p.at_x + p.at_bias);
        if (!p.known || !(fabs(is - should) <= 1e-6 * fabs(should) + 1e-9))
            return false;
    }
    return true;
}

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
        if (a->kind != AXIS_PLAIN || a->reduced || whole < 0 || (inside ? own != whole : own != 0 || whole % length != 0))
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

/* the load of the tensor in the expression; NULL: there is none */
static const Expr *find_load(const Expr *e, const Tensor *tensor)
{
    if (e->kind == X_LOAD)
        return e->tensor == tensor ? e : NULL;
    for (int i = 0; i < e->count; i++) {
        const Expr *found = e->kind == X_OP ? find_load(e->in[i], tensor) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static bool find_form(const Kernel *k, Form *f)
{
    const Nest *nest = k->nests;
    if (k->nest_count != 1 || nest->reduction_count || nest->store_count != 1 || k->write_count != 1 || k->read_count < 1 || k->read_count > 2)
        return false;
    const Store *s = &nest->stores[0];
    int x_at = k->read_count == 2 && k->reads[1]->kind != TENSOR_VARIABLE;
    *f = (Form){.y = k->writes[0], .x = k->reads[x_at], .bias = k->read_count == 2 ? k->reads[1 - x_at] : NULL};
    const Expr *x = find_load(s->value, f->x), *b = f->bias ? find_load(s->value, f->bias) : NULL;
    if (s->add || s->guard || s->outer || s->run || !x || x->count != 1 || x->in[0] != s->offset || f->x->dtype != f->y->dtype)
        return false;
    if (f->bias) {
        f->length = shape_count(&f->bias->shape);
        if (!b || b->count != 1 || f->bias->sharded || f->bias->dtype != f->y->dtype || f->length < 2 ||
            !is_modulo(nest->exprs, b->in[0], s->offset, f->length))
            return false;
    }
    for (uint8_t kind = MGPU_EPILOGUE_BIAS; kind <= MGPU_EPILOGUE_GELU && !f->kind; kind++)
        f->kind = (f->bias || kind != MGPU_EPILOGUE_BIAS) && is_function(s->value, f, kind) ? kind : MGPU_EPILOGUE_NONE;
    return f->kind != MGPU_EPILOGUE_NONE;
}

void cuda_print_epilogue(const Kernel *k, Text *t)
{
    Form f;
    if (find_form(k, &f))
        text_add(t, "{%d, %d}", f.kind, !f.bias ? -1 : f.bias == k->reads[1]);
    else
        text_add(t, "{0}");
}

/* ---- which products it follows */

static bool names(Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i] == t)
            return true;
    return false;
}

/* the only task that reads the tensor, and nobody but the product writes it; -1: there is none */
static int only_reader(const Phase *p, const Tensor *t, int product)
{
    int found = -1;
    for (int i = 0; i < p->task_count; i++) {
        const Task *task = p->tasks[i];
        bool reads = names(task->reads, task->read_count, t), writes = names(task->writes, task->write_count, t);
        if (i != product && (writes || (reads && found >= 0)))
            return -1;
        if (i != product && reads)
            found = i;
    }
    return found;
}

static void join(Phase *p, int product, int64_t workspace)
{
    const Task *task = p->tasks[product];
    mgpu_library_product form;
    Form f;
    Tensor *t = task->writes[0];
    if (!task->kernel->contraction || t->kind != TENSOR_TEMPORARY || t->partial || !cuda_library_form(task->kernel->contraction, &form))
        return;
    int reader = only_reader(p, t, product);
    if (reader <= product || p->tasks[reader]->kind != TASK_KERNEL)
        return;
    Task *other = p->tasks[reader];
    if (other->write_count != 1 || other->workspace_bytes || !find_form(other->kernel, &f))
        return;
    int x = f.x == other->kernel->reads[0] ? 0 : 1;
    const Tensor *bias = f.bias ? other->reads[1 - x] : NULL;
    if (other->reads[x] != t || names(task->reads, task->read_count, other->writes[0]) ||
        (bias && (bias->kind != TENSOR_VARIABLE || form.sampled == 0 || form.extent[0] != f.length)))
        return;
    for (int i = product + 1; i < reader; i++)
        for (int r = 0; r < other->read_count + task->read_count; r++)
            if (names(p->tasks[i]->writes, p->tasks[i]->write_count, r < other->read_count ? other->reads[r] : task->reads[r - other->read_count]))
                return;
    for (int i = reader; i > product + 1; i--)
        p->tasks[i] = p->tasks[i - 1];
    p->tasks[product + 1] = other;
    APPEND(other->reads, other->read_count, task->reads[0]);
    APPEND(other->reads, other->read_count, task->reads[1]);
    other->workspace_bytes = workspace;
}

void cuda_join_epilogues(Phase *p, int64_t workspace)
{
    for (int i = 0; i < p->task_count; i++)
        if (p->tasks[i]->kind == TASK_KERNEL && p->tasks[i]->write_count > 0)
            join(p, i, workspace);
}
