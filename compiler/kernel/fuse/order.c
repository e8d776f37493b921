/* order.c: in which order groups run, and which variables are updated in place.
 *
 * In: groups with what they read. Out: fusion->groups in a legal order: what a group reads is computed before it, and readers of
 * a variable's old value run before the group that writes it. Among groups that are ready: first those that the step's first
 * collectives need, then in the order of the model, then updates, the small ones last.
 *
 * A variable is written in place if its own kernel reads it only at the written element, and no group that must run later reads
 * the old value. Otherwise the new value goes to a temporary, which is copied at the end. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"

#include <string.h>

/* ---- in place */

static bool safe_in_place(const Kernel *k, const Tensor *tensor)
{
    for (int i = 0; i < k->nest_count; i++) {
        const Nest *nest = &k->nests[i];
        const Store *own = NULL;
        for (int j = 0; j < nest->store_count; j++)
            if (nest->stores[j].tensor == tensor) {
                if (own)
                    return false;
                own = &nest->stores[j];
            }
        if (!own || (!own->outer && own->value->pass + 1 != nest->passes))
            return false;
        for (int j = 0; j < nest->exprs->count; j++) {
            const Expr *e = nest->exprs->all[j];
            if (e->kind == X_LOAD && e->tensor == tensor && (e->count > 1 || e->in[0] != own->offset))
                return false;
        }
    }
    return true;
}

static bool writes_variable(const FusionRoot *r) { return r->target && r->target->kind == TENSOR_VARIABLE; }

/* Builds the kernel for what this stage needs of it. Kernels of a phase are then freed and built again by fuse/pack.c: all of
 * them at once would be most of mgpuc's memory for a deep model. */
static void analyse_kernel(Fusion *f, FusionGroup *g)
{
    fuse_build(f, g);
    g->small = fuse_is_small(g);
    for (int i = 0; i < g->count; i++)
        g->members[i]->in_place = writes_variable(g->members[i]) && safe_in_place(g->kernel, g->members[i]->target);
    if (!f->around)
        fuse_forget(g);
}

/* Makes the sink write a temporary, and adds a sink that copies it into the variable at the end. */
static void write_later(Fusion *f, FusionRoot *r)
{
    Tensor *variable = r->target;
    const Node *n = r->node;
    r->target = fuse_add_tensor(f, TENSOR_TEMPORARY, format("t%d_new_%s", n->id, kernel_argument_name(variable)), 0,
                                variable->dtype, &n->shape, false, (Node *)(uintptr_t)n);
    FusionRoot *copy = fuse_add_root(f, n, variable);
    copy->at = r->at;
    copy->update = r->update;
    copy->weight = 1;
    copy->copied = r;
    if (r->copy_reader) { /* a transfer of the variable comes after the copy */
        r->copy_reader->copy = r->copy_reader->reads[0].copy = copy;
        copy->copy_reader = r->copy_reader;
    }
    r->copy_reader = copy;
    APPEND(copy->reads, copy->read_count, ((Read){n, NULL, r}));
    analyse_kernel(f, fuse_group(r));
    analyse_kernel(f, fuse_new_group(f, copy));
}

static bool order_asks(const FusionGroup *g)
{
    bool asks = g->update;
    for (int i = 0; i < g->count; i++)
        asks = asks || writes_variable(g->members[i]);
    return asks && g->members[0]->kind != ROOT_REDUCE;
}

static void find_places(Fusion *f)
{
    int groups = f->group_count;
    for (int i = 0; i < groups; i++)
        if (order_asks(f->groups[i]))
            analyse_kernel(f, f->groups[i]);
    for (int i = 0; i < groups; i++) {
        FusionGroup *g = f->groups[i];
        for (int k = 0; k < g->count; k++)
            if (writes_variable(g->members[k]) && !g->members[k]->in_place)
                write_later(f, g->members[k]);
    }
}

/* ---- order */

static void add_edge(FusionGroup *before, FusionGroup *after)
{
    if (before == after)
        return;
    APPEND(before->after, before->after_count, after);
    after->waiting++;
}

typedef struct Heap {
    FusionGroup **list;
    int count;
} Heap;

/* The contraction of a weight's gradient runs as early as possible: its operands' memory becomes free, and the following
 * contractions and element-wise kernels of samples are consecutive. Small updates follow each other at the end: fuse/pack.c makes
 * few kernels of them. */
static int rank_of(const FusionGroup *g)
{
    const FusionRoot *r = g->members[0];
    if (g->early)
        return 0;
    if (g->update)
        return g->small ? 4 : 3;
    return r->kind == ROOT_CONTRACTION && r->backward && !r->node->has_samples ? 1 : 2;
}

static bool runs_first(const FusionGroup *a, const FusionGroup *b)
{
    if (rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    return a->members[0]->order < b->members[0]->order;
}

static void heap_add(Heap *h, FusionGroup *g)
{
    int at = h->count++;
    for (; at > 0 && runs_first(g, h->list[(at - 1) / 2]); at = (at - 1) / 2)
        h->list[at] = h->list[(at - 1) / 2];
    h->list[at] = g;
}

static FusionGroup *heap_take(Heap *h)
{
    FusionGroup *first = h->list[0], *last = h->list[--h->count];
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && runs_first(h->list[child + 1], h->list[child]))
            child++;
        if (runs_first(last, h->list[child]))
            break;
        h->list[at] = h->list[child];
        at = child;
    }
    h->list[at] = last;
    return first;
}

static void add_edges(const Fusion *f)
{
    for (int i = 0; i < f->group_count; i++) {
        f->groups[i]->waiting = f->groups[i]->after_count = 0;
        f->groups[i]->after = NULL;
    }
    for (int i = 0; i < f->group_count; i++) {
        FusionGroup *g = f->groups[i];
        for (int k = 0; k < g->count; k++) {
            const FusionRoot *r = g->members[k];
            for (int j = 0; j < r->read_count; j++) {
                const FusionRoot *maker = fuse_maker(f, &r->reads[j]);
                const Node *n = r->reads[j].node;
                if (maker)
                    add_edge(fuse_group(maker), g);
                else if (n->op == OP_VARIABLE && f->writer[n->ints[0]])
                    add_edge(g, fuse_group(f->writer[n->ints[0]]));
            }
        }
    }
}

/* false: the groups' dependences have a cycle */
static bool sort_groups(Fusion *f)
{
    f->writer = NEW_ARRAY(FusionRoot *, f->graph->model->variable_count);
    for (int i = 0; i < f->root_count; i++)
        if (writes_variable(f->roots[i]))
            f->writer[f->roots[i]->target->index] = f->roots[i];
    add_edges(f);
    FusionGroup **sorted = NEW_ARRAY(FusionGroup *, f->group_count);
    Heap ready = {NEW_ARRAY(FusionGroup *, f->group_count), 0};
    int count = 0;
    for (int i = 0; i < f->group_count; i++)
        if (!f->groups[i]->waiting)
            heap_add(&ready, f->groups[i]);
    while (ready.count > 0) {
        FusionGroup *g = sorted[count++] = heap_take(&ready);
        for (int i = 0; i < g->after_count; i++)
            if (--g->after[i]->waiting == 0)
                heap_add(&ready, g->after[i]);
    }
    if (count < f->group_count)
        return false;
    f->groups = sorted;
    return true;
}

void fuse_order(Fusion *f)
{
    find_places(f);
    while (!sort_groups(f)) {
        int changed = 0, groups = f->group_count;
        for (int i = 0; i < groups; i++) {
            FusionGroup *g = f->groups[i];
            for (int k = 0; k < g->count && g->waiting; k++)
                if (writes_variable(g->members[k]) && !g->members[k]->copied) {
                    write_later(f, g->members[k]);
                    changed++;
                }
        }
        if (!changed)
            die("the kernels of %s wait for each other", f->graph->name ? f->graph->name : "a graph");
    }
}
