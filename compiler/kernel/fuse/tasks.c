/* tasks.c: makes the task of a group: what its kernel reads, writes and costs, and which operations in it may make NaN or
 * infinity.
 *
 * In: a group with its kernel. Out: a Task, without its place among the others. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/kinds.h"

#include <string.h>

static void kernel_cost(const Fusion *f, Task *t, Kernel *k)
{
    const Program *p = f->program;
    t->workspace_bytes = p->target->workspace(k, p->options->arch, f->around != NULL, &t->workspace_bytes_per_sample);
    KERNEL_KIND[k->kind].cost(t, k);
}

/* ---- operations that may make NaN or infinity of finite numbers */
static void add_nan_source(Task *t, const Node *n)
{
    static const char *const WORDS[] = {"log",   "log1p", "sqrt", "div",  "pow",   "exp",
                                        "expm1", "mod",   "asin", "acos", "atanh", "acosh"};
    const char *word = NULL;
    NanSource s = {.layer = n->path ? n->path : "", .line = model_line(n->at)};
    if (n->op == OP_WHERE && n->text) {
        word = "require";
        s.required = n->text;
    }
    for (int i = 0; i < COUNT(WORDS) && !word; i++)
        word = strcmp(WORDS[i], OP_INFO[n->op].name) == 0 ? WORDS[i] : NULL;
    for (int i = 0; i < t->nan_source_count; i++)
        if (t->nan_sources[i].word == word && t->nan_sources[i].line == s.line && strcmp(t->nan_sources[i].layer, s.layer) == 0)
            return;
    s.word = word;
    if (!word || s.line <= 0)
        return;
    APPEND(t->nan_sources, t->nan_source_count, s);
    /* those with a requirement are named first */
    for (int i = t->nan_source_count - 1; i > 0 && s.required && !t->nan_sources[i - 1].required; i--) {
        t->nan_sources[i] = t->nan_sources[i - 1];
        t->nan_sources[i - 1] = s;
    }
}

/* Returns true if the value is seen to be 0 or above: of finite numbers, these operations make no other. */
static bool is_at_least_0(const Expr *e)
{
    bool op = e->kind == X_OP && (e->op == OP_SQRT || e->op == OP_EXP || e->op == OP_ABS);
    return op || (e->kind == X_RUN && e->constant != RUN_SETTING) || (e->kind == X_NUMBER && e->number >= 0);
}

/* Returns true if the value is seen to be above 0: a number, maximum(x, 1e-30), sqrt(x) + 1e-8, the number of samples. */
static bool is_above_0(const Expr *e)
{
    const Expr *a = e->count > 0 ? e->in[0] : NULL, *b = e->count > 1 ? e->in[1] : NULL;
    if (e->kind == X_NUMBER)
        return e->number > 0;
    if (e->kind == X_RUN)
        return e->constant == RUN_STEP || e->constant == RUN_SAMPLES || e->constant == RUN_TOTAL_STEPS ||
               e->constant == RUN_TOTAL_EPOCHS;
    if (e->kind != X_OP)
        return false;
    switch (e->op) {
    case OP_CAST:
    case OP_SQRT:
    case OP_EXP:
    case OP_ABS: return is_above_0(a);
    case OP_MAX:
    case OP_MAXIMUM: return is_above_0(a) || is_above_0(b);
    case OP_ADD: return (is_above_0(a) && (is_above_0(b) || is_at_least_0(b))) || (is_above_0(b) && is_at_least_0(a));
    default: return false;
    }
}

static bool is_never_0(const Expr *e) { return is_above_0(e) || (e->kind == X_NUMBER && e->number != 0); }

static void find_nan_sources(Task *t, const Expr *e, bool *seen)
{
    if (!e || seen[e->id])
        return;
    seen[e->id] = true;
    for (int i = 0; i < e->count; i++)
        find_nan_sources(t, e->in[i], seen);
    bool harmless = e->kind == X_OP && e->op == OP_DIV && is_never_0(e->in[e->count - 1]);
    if (e->kind == X_OP && e->node && dtype_is_float(e->dtype) && !harmless)
        add_nan_source(t, e->node);
}

static void task_nan_sources(Task *t, const Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++) {
        const Nest *n = &k->nests[i];
        bool *seen = NEW_ARRAY(bool, n->exprs->count);
        for (int r = 0; r < n->reduction_count; r++)
            find_nan_sources(t, n->reductions[r].value, seen);
        for (int s = 0; s < n->store_count; s++)
            find_nan_sources(t, n->stores[s].value, seen);
    }
}

/* Returns the layer instance of the most expensive member: of a contraction, if there is one, else of the first that has a
 * path. */
static const char *layer_of(const FusionGroup *g)
{
    const char *layer = "";
    for (int i = 0; i < g->count; i++) {
        const Node *n = g->members[i]->node;
        if (!n || !n->path || !*n->path)
            continue;
        if (fuse_contracts(n))
            return n->path;
        layer = *layer ? layer : n->path;
    }
    return layer;
}

/* ---- the pass of a step that a task belongs to */

/* Returns whether the group is of the backward pass, which its first value in memory decides: members are in the graph's order,
 * so a kernel of the forward pass that also stores what the backward pass will read (the place of a maximum) is of the forward
 * pass. */
static bool is_backward(const FusionGroup *g)
{
    const Kernel *k = g->kernel;
    for (int m = 0; m < g->count; m++)
        for (int i = 0; k && i < k->nest_count; i++)
            for (int s = 0; s < k->nests[i].store_count; s++)
                if (k->nests[i].stores[s].node == g->members[m]->node)
                    return g->members[m]->node->backward;
    return g->members[0]->node->backward;
}

static void want(bool *wanted, const Expr *e)
{
    if (e)
        wanted[e->id] = true;
}

/* Marks the expressions and the reductions that the nest's stores need. */
static void find_wanted(const Nest *n, bool *wanted, bool *reductions)
{
    for (int s = 0; s < n->store_count; s++) {
        want(wanted, n->stores[s].offset);
        want(wanted, n->stores[s].value);
        want(wanted, n->stores[s].guard);
    }
    for (int i = n->exprs->count - 1; i >= 0; i--) {
        const Expr *e = n->exprs->all[i];
        if (!wanted[i])
            continue;
        for (int k = 0; k < e->count; k++)
            want(wanted, e->in[k]);
        if (e->kind == X_RESULT) {
            reductions[e->constant] = true;
            want(wanted, n->reductions[e->constant].value);
            want(wanted, n->reductions[e->constant].place);
        }
    }
}

static void add_tensor(const Tensor ***list, int *count, const Tensor *x)
{
    if (tensor_place(*list, *count, x) < 0)
        APPEND(*list, *count, x);
}

/* Replaces an expression by its copy: an expression's id is its index in the list that it is in. */
static void use_copy(Expr **e, Expr *const *copies) { *e = *e ? copies[(*e)->id] : NULL; }

/* Adds to the kernel `to` what the nest computes for one pass of the step: its cost is that of these members. */
static void add_nest_of_pass(Kernel *to, const Nest *nest, bool backward)
{
    Nest own = *nest;
    Exprs *x = NEW(Exprs);
    *x = *nest->exprs;
    own.stores = NULL;
    own.reductions = NULL;
    x->all = NULL;
    own.store_count = own.reduction_count = x->count = 0;
    for (int s = 0; s < nest->store_count; s++)
        if (nest->stores[s].node->backward == backward) {
            APPEND(own.stores, own.store_count, nest->stores[s]);
            add_tensor(&to->writes, &to->write_count, nest->stores[s].tensor);
        }
    bool *wanted = NEW_ARRAY(bool, nest->exprs->count), *reductions = NEW_ARRAY(bool, nest->reduction_count + 1);
    Expr **copies = NEW_ARRAY(Expr *, nest->exprs->count);
    find_wanted(
        &(Nest){.exprs = nest->exprs, .stores = own.stores, .store_count = own.store_count, .reductions = nest->reductions},
        wanted, reductions);
    for (int i = 0; i < nest->exprs->count; i++)
        if (wanted[i]) {
            Expr *e = copies[i] = NEW(Expr);
            *e = *nest->exprs->all[i];
            e->id = x->count;
            e->in = NEW_ARRAY(Expr *, e->count);
            for (int k = 0; k < e->count; k++)
                e->in[k] = copies[nest->exprs->all[i]->in[k]->id];
            APPEND(x->all, x->count, e);
            if (e->kind == X_LOAD)
                add_tensor(&to->reads, &to->read_count, e->tensor);
        }
    for (int i = 0; i < nest->reduction_count; i++)
        if (reductions[i]) {
            Reduction r = nest->reductions[i];
            use_copy(&r.value, copies);
            use_copy(&r.place, copies);
            APPEND(own.reductions, own.reduction_count, r);
        }
    for (int s = 0; s < own.store_count; s++) {
        use_copy(&own.stores[s].offset, copies);
        use_copy(&own.stores[s].value, copies);
        use_copy(&own.stores[s].guard, copies);
    }
    own.exprs = x;
    if (own.store_count)
        APPEND(to->nests, to->nest_count, own);
}

static const Task *task_of_pass(const Task *t, const Kernel *k)
{
    bool mixed = false;
    for (int i = 0; i < k->nest_count; i++)
        for (int s = 0; s < k->nests[i].store_count; s++)
            mixed = mixed || k->nests[i].stores[s].node->backward != t->backward;
    if (!mixed)
        return NULL;
    Kernel *own = NEW(Kernel);
    Task *task = NEW(Task);
    *own = *k;
    *task = (Task){.kind = t->kind, .elements = t->elements};
    own->nests = NULL;
    own->reads = own->writes = NULL;
    own->nest_count = own->read_count = own->write_count = 0;
    for (int i = 0; i < k->nest_count; i++)
        add_nest_of_pass(own, &k->nests[i], t->backward);
    KERNEL_KIND[k->kind].cost(task, own);
    return task;
}

/* Exact programs: returns how many samples a call takes, if the order of its additions depends on their number: a power of two,
 * so many that adding up what it has summed is little work, or that reading weights is. Else 0. */
static int64_t unit_of(const Task *t, const Kernel *k)
{
    static const double OPERATIONS = 64 * 1024;
    if (!k->exact || k->split != MGPU_SPLIT_SAMPLES || !(k->partial_bytes || k->contraction))
        return 0;
    double least = k->contraction ? task_least_samples(t) : t->flops_per_sample > 0 ? OPERATIONS / t->flops_per_sample : 1;
    int64_t unit = 1;
    while ((double)unit < least && unit < INT32_MAX)
        unit *= 2;
    return unit;
}

Task *fuse_task(const Fusion *f, const FusionGroup *g)
{
    Task *t = NEW(Task);
    const Kernel *k = g->kernel;
    t->at = g->members[0]->at;
    t->layer = layer_of(g);
    t->update = g->update;
    t->elements = g->members[0]->elements;
    t->backward = !t->update && is_backward(g);
    for (int i = 0; k && i < k->read_count; i++)
        APPEND(t->reads, t->read_count, (Tensor *)(uintptr_t)k->reads[i]);
    for (int i = 0; k && i < k->write_count; i++)
        APPEND(t->writes, t->write_count, (Tensor *)(uintptr_t)k->writes[i]);
    if (k) {
        kernel_cost(f, t, g->kernel);
        t->kernel = g->kernel;
        g->kernel->unit = unit_of(t, k);
        task_nan_sources(t, k);
        t->own_pass = k->kind == KERNEL_NESTS && !t->update ? task_of_pass(t, k) : NULL;
    }
    const Node *first = g->members[0]->node;
    /* for results that may only overflow */
    NanSource only = {.word = "", .layer = first && first->path ? first->path : "", .line = model_line(t->at)};
    if (!t->nan_source_count && only.line > 0 && *only.layer)
        APPEND(t->nan_sources, t->nan_source_count, only);
    return t;
}
