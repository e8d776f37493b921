/* rematerialize.c: which values are better recomputed where they are used than stored.
 *
 * In: merged groups, so that it is known what each kernel reads. Out: fusion->computed for more nodes; false if there are none.
 * Then the fuser repeats its first stages (fuse.c); every round is linear in the number of reads.
 *
 * A stored value v, computed from stored leaves L, is written once and read by kernels K1 ... Kn. If it is rematerialized, kernel
 * Ki reads those of L that it does not read anyway. v is not stored if the bytes saved are worth more than the operations, and if
 * what the backward pass then needs for longer is not larger than v. So a batchnorm keeps the convolution's result, which it
 * needs, and not its own result. Values that contractions and collectives read stay in memory, and so do tiny ones. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"

#include <string.h>

enum { MOST_LEAVES = 8, MOST_DEPTH = 4, MOST_EVALUATED = 64 /* expressions in a reader, of v only */ };

static const double TINY_BYTES = 8192;

typedef struct Leaf {
    const Node *node;
    bool stored;
} Leaf;

typedef struct Rematerializer {
    Fusion *f;
    bool *locked;     /* by node: a decision of this round depends on its current state */
    int *seen, stamp; /* by node: the current group reads or computes it (seen[i] == stamp) */
    int *alive;       /* by node: 1: the backward pass reads it, -1: it does not, 0: not known yet */
    Leaf leaf[MOST_LEAVES];
    int leaf_count;
    double flops; /* per element, from the leaves */
    int weight;
} Rematerializer;

static double bytes_of(const Rematerializer *a, const Node *n)
{
    const Tensor *stored = a->f->info[n->id].tensor;
    return node_elements(n) * dtype_bytes(stored ? stored->dtype : n->dtype);
}

/* Returns the bytes of a leaf that are read for v: a gather does not read a whole table that is the same for all samples. */
static double read_bytes(const Rematerializer *a, const Node *leaf, const Node *v)
{
    double whole = bytes_of(a, leaf), part = node_elements(v) * dtype_bytes(leaf->dtype);
    return !leaf->has_samples && part < whole ? part : whole;
}

static double iterations_of(const FusionRoot *r) { return (double)r->full * (r->samples ? SOME_SAMPLES : 1); }

/* Returns true if only loop nests read it, and not too many. */
static bool readers_compute(const Fusion *f, const FusionRoot *r)
{
    const Info *info = &f->info[r->node->id];
    for (int i = 0; i < info->reader_count; i++)
        if (info->readers[i]->kind != ROOT_LOOPS || info->readers[i]->copied)
            return false;
    return info->reader_count > 0 && info->reader_count <= 8;
}

/* Random numbers are cheap only if they are computed in order, and weights of convolutions are stored in another order. */
static bool is_random_in_order(const Fusion *f, const FusionRoot *r)
{
    enum { OUT_IN_AND_PLACE = 3, PAIRS = 1 };
    return f->phase->kind == PHASE_INIT && r->node->op == OP_RANDOM && r->node->shape.rank >= OUT_IN_AND_PLACE + PAIRS;
}

static bool may_compute(const Fusion *f, const FusionRoot *r)
{
    return !is_random_in_order(f, r) && r->kind == ROOT_LOOPS && !r->target && !r->reduces && !r->grouped && !r->not_merged &&
           !f->computed[r->node->id] && OP_INFO[r->node->op].op_class != MARK && !f->info[r->node->id].result &&
           !f->info[r->node->id].replaced && !f->info[r->node->id].computed_once;
}

/* false: there are too many leaves, or one that others cannot read */
static bool find_leaves(Rematerializer *a, const FusionRoot *r, int depth)
{
    a->flops += r->flops;
    a->weight += r->weight;
    for (int k = 0; k < r->read_count; k++) {
        const Node *n = r->reads[k].node;
        const FusionRoot *maker = fuse_maker(a->f, &r->reads[k]);
        bool known = r->reads[k].copy != NULL;
        if (known)
            return false;
        for (int i = 0; i < a->leaf_count; i++)
            known = known || a->leaf[i].node == n;
        if (known)
            continue;
        bool stored = !maker || fuse_read_elsewhere(a->f, maker);
        if (!stored && may_compute(a->f, maker) && depth < MOST_DEPTH) {
            if (!find_leaves(a, maker, depth + 1))
                return false;
            continue;
        }
        if (a->leaf_count == MOST_LEAVES)
            return false;
        a->leaf[a->leaf_count++] = (Leaf){n, stored};
    }
    return true;
}

static bool backward_reads(Rematerializer *a, const Node *n)
{
    if (!a->alive[n->id]) {
        const Info *info = &a->f->info[n->id];
        a->alive[n->id] = -1;
        for (int i = 0; i < info->reader_count; i++)
            if (info->readers[i]->backward)
                a->alive[n->id] = 1;
    }
    return a->alive[n->id] > 0 || n->op == OP_VARIABLE || n->op == OP_INPUT;
}

/* Marks what the group reads and computes without v. */
static void add_known(Rematerializer *a, const FusionGroup *g, const Node *v)
{
    a->stamp++;
    for (int i = 0; i < g->count; i++) {
        const FusionRoot *r = g->members[i];
        if (!r->target)
            a->seen[r->node->id] = a->stamp;
        for (int k = 0; k < r->read_count; k++)
            a->seen[r->reads[k].node->id] = a->stamp;
    }
    a->seen[v->id] = 0;
}

/* Returns how often the members of g compute an element of v. */
static double evaluations(const FusionGroup *g, const Node *v, double elements, double *most)
{
    double all = 0;
    for (int i = 0; i < g->count; i++) {
        const FusionRoot *r = g->members[i];
        double reads = 0;
        for (int k = 0; k < r->read_count; k++)
            reads += r->reads[k].node == v;
        double times = reads * iterations_of(r) / elements;
        all = times > all ? times : all; /* members share what they compute at one iteration */
        *most = reads > *most ? reads : *most;
    }
    return all;
}

/* Returns the bytes that a step saves if v is not stored; operations count as bytes. */
static double gain(Rematerializer *a, const FusionRoot *r)
{
    const Node *v = r->node;
    const Info *info = &a->f->info[v->id];
    const FusionGroup *own = fuse_group(r), *done[8];
    double bytes = bytes_of(a, v), elements = node_elements(v), saved = bytes, longer = 0, most = 0;
    int groups = 0;
    bool alone = true;
    for (int i = 0; i < own->count; i++)
        alone = alone && own->members[i] == r;
    for (int i = 0; i < a->leaf_count; i++) {
        const Leaf *l = &a->leaf[i];
        if (!l->stored)
            saved -= bytes_of(a, l->node);
        if (alone)
            saved += read_bytes(a, l->node, v);
        if (!v->backward && backward_reads(a, v) && !backward_reads(a, l->node))
            longer += bytes_of(a, l->node);
    }
    if (alone)
        saved += elements * a->flops / a->f->program->target->flops_of_byte;
    for (int i = 0; i < info->reader_count; i++) {
        const FusionGroup *g = fuse_group(info->readers[i]);
        bool again = g == own;
        for (int k = 0; k < groups; k++)
            again = again || done[k] == g;
        if (again)
            continue;
        done[groups++] = g;
        saved += bytes;
        add_known(a, g, v);
        for (int k = 0; k < a->leaf_count; k++)
            if (a->seen[a->leaf[k].node->id] != a->stamp)
                saved -= read_bytes(a, a->leaf[k].node, v);
        saved -= elements * a->flops / a->f->program->target->flops_of_byte * evaluations(g, v, elements, &most);
        if (g->weight + a->weight > 300)
            return 0;
    }
    return longer > 1.1 * bytes || most * a->weight > MOST_EVALUATED ? 0 : saved;
}

static bool try_rematerialize(Rematerializer *a, FusionRoot *r)
{
    const Fusion *f = a->f;
    const Node *v = r->node;
    if (!may_compute(f, r) || a->locked[v->id] || !fuse_read_elsewhere(f, r) || !readers_compute(f, r) ||
        bytes_of(a, v) < TINY_BYTES)
        return false;
    a->leaf_count = 0;
    a->flops = 0;
    a->weight = 0;
    if (!find_leaves(a, r, 0))
        return false;
    for (int i = 0; i < a->leaf_count; i++)
        if (f->computed[a->leaf[i].node->id])
            return false;
    if (gain(a, r) < 0.1 * bytes_of(a, v))
        return false;
    f->computed[v->id] = true;
    for (int i = 0; i < a->leaf_count; i++)
        a->locked[a->leaf[i].node->id] = true;
    const Info *info = &f->info[v->id];
    for (int i = 0; i < info->reader_count; i++) { /* what these kernels read must stay as it is for this decision */
        const FusionGroup *g = fuse_group(info->readers[i]);
        for (int k = 0; k < g->count; k++)
            for (int j = 0; j < g->members[k]->read_count; j++)
                a->locked[g->members[k]->reads[j].node->id] = true;
    }
    return true;
}

bool fuse_rematerialize(Fusion *f)
{
    int count = f->graph->node_count;
    Rematerializer a = {.f = f, .locked = NEW_ARRAY(bool, count), .seen = NEW_ARRAY(int, count), .alive = NEW_ARRAY(int, count)};
    bool any = false;
    for (int i = 0; i < f->root_count; i++)
        any = try_rematerialize(&a, f->roots[i]) || any;
    return any;
}
