/* shard.c: each device updates its own part of every weight, and has only its part of values that all devices would have.
 *
 * In: the graphs of all phases in the precision of the model; every sum over devices is a REDUCE. Out: the same graphs with other
 * transfers in place of those of gradients, and the placement of the variables of which each device has a part. Parts are cut at
 * multiples of 64 elements (mgpu_even_part).
 *
 *     gradient   REDUCE              REDUCE_SCATTER           each device gets the sum of its own part
 *     update     of all elements     of the own part          states of the optimizer, masters of ROUNDED copies: split
 *     weight                         ALL_GATHER               whole again on every device, before the next step reads it
 *
 * Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020: stage 1 (`optimizer`).
 *
 *     gradients (stage 2)   OWN after REDUCE_SCATTER: a copy of the own part, so that the rest is freed. Sums over micro-batches
 *                           are split: each micro-batch is scattered, and its own part is added
 *     weights (stage 3)     a weight is split, too. Its readers, in any phase, read an ALL_GATHER of it: a temporary,
 *                           which plan/gather.c gathers again where it is needed again. Nothing is gathered after the update
 *
 * What depends on a gradient is split as far as it is computed element by element. The sum of all elements, as of a norm, becomes
 * a sum of the parts, over the devices (distribute.c); numbers computed from such sums are equal everywhere, so a step is skipped
 * by all devices or by none. In exact models, whose sums must not depend on parts, it stays the sum of the whole value, which is
 * gathered for it. A gradient from which something else is computed (a row's norm, a product) stays a REDUCE, with all that it is
 * combined with; so do gradients of the smallest weights (SMALL): they share all-reduces, and their states are whole.
 *
 * Before stage 3 a variable is split if only its own update reads it, element by element, and no other phase does. So a weight
 * that forward passes read is whole, and so is an average, which evaluation reads. A master whose ROUNDED copy is read in its
 * place is split, and the copy is gathered: half of the bytes. */
#include "compiler/ir/axes.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

#include <math.h>
#include <stdlib.h>

/* the smallest weights, up to this fraction of all elements, are not worth transfers of their own */
static const double SMALL = 0.01;

typedef struct NodeSharding { /* of a node of the train graph */
    bool split_computed;      /* depends on Split gradients, element by element */
    /* not `split_computed`, but only used by `split_computed` nodes, element by element: it is split if a variable in it is */
    bool split_used;
    int cluster;       /* split_computed: union-find parent among nodes that must be split together */
    bool unsplittable; /* of such a node: it may not be split */
    Node *gathered;    /* split_computed: in the new graph, the whole value; NULL: not needed yet */
    Node *whole;       /* the same, computed from whole values */
} NodeSharding;

typedef struct Sharder {
    Model *model;
    Sharding what;
    const Graph *train;
    Graph *const *graphs;
    int graph_count; /* train is one of them */
    Graph *target;
    NodeSharding *values; /* by id, of train */
    bool *gathers;        /* by variable: it is split, and gathered for its readers */
    bool *sums;           /* by variable: it accumulates a gradient, and is split */
    int64_t small;        /* elements of the largest weight that stays whole, with its gradient */
} Sharder;

static NodeSharding *value_of(const Sharder *s, const Node *n) { return &s->values[n->id]; }

/* ---- small weights */
static int compare_counts(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t largest_small(const Model *m)
{
    int64_t *counts = NEW_ARRAY(int64_t, m->variable_count), all = 0, small = 0, largest = 1;
    int weights = 0;
    for (int v = 0; v < m->variable_count; v++)
        if (m->variables[v].kind == WEIGHT)
            all += counts[weights++] = shape_count(&m->variables[v].shape);
    if (weights)
        qsort(counts, (size_t)weights, sizeof *counts, compare_counts);
    for (int i = 0; i < weights && (double)(small += counts[i]) <= SMALL * (double)all; i++)
        if (i + 1 < weights && counts[i] < counts[i + 1])
            largest = counts[i];
    return largest;
}

/* ---- what is split */
static int cluster_of(const Sharder *s, int id)
{
    while (s->values[id].cluster != id)
        id = s->values[id].cluster = s->values[s->values[id].cluster].cluster;
    return id;
}

static bool is_gradient(const Sharder *s, const Node *n)
{
    return n->op == OP_REDUCE && n->backward && shape_count(&n->shape) > s->small;
}

static bool is_split(const Sharder *s, int variable) { return variable_is_placed(&s->model->variables[variable], OVER_ELEMENTS); }

static int variable_of(const Node *n) { return n->op == OP_VARIABLE ? (int)n->ints[0] : -1; }

static bool is_gathered(const Sharder *s, const Node *n) { return n->op == OP_VARIABLE && s->gathers[n->ints[0]]; }

/* Returns the placement of n if its inputs that depend on Split gradients are Split; UNPLACED: it needs one of them whole. */
static AxisPlacement placement_of_parts(const Sharder *s, const Node *n)
{
    AxisPlacement *from = NEW_ARRAY(AxisPlacement, n->inputs);
    bool *reduce = NEW_ARRAY(bool, n->inputs);
    const char *wrong;
    for (int k = 0; k < n->inputs; k++)
        from[k] = value_of(s, n->in[k])->split_computed ? OVER_ELEMENTS : n->in[k]->placement.on[MESH_DATA];
    return placement_by_rule(n, MESH_DATA, n->in, from, reduce, &wrong);
}

/* Sets `split_computed`, from the gradients on; what cannot be split with a gradient makes its cluster whole. Returns true if a
 * cluster became whole. */
static bool follow_gradients(const Sharder *s)
{
    bool changed = false;
    for (int i = 0; i < s->train->node_count; i++) {
        const Node *n = s->train->nodes[i];
        NodeSharding *v = &s->values[i];
        bool any = false;
        if (is_gradient(s, n)) {
            v->split_computed = !s->values[cluster_of(s, i)].unsplittable;
            continue;
        }
        for (int k = 0; k < n->inputs; k++)
            any = any || value_of(s, n->in[k])->split_computed;
        AxisPlacement is = any ? placement_of_parts(s, n) : IS_REPLICATED;
        v->split_computed = placement_is(is, OVER_ELEMENTS);
        for (int k = 0; k < n->inputs && any; k++) {
            if (!value_of(s, n->in[k])->split_computed)
                continue;
            if (v->split_computed) {
                s->values[cluster_of(s, n->in[k]->id)].cluster = cluster_of(s, i);
            } else if (is.kind == UNPLACED) {
                s->values[cluster_of(s, n->in[k]->id)].unsplittable = true;
                changed = true;
            }
        }
    }
    for (int i = 0; i < s->train->result_count; i++) {
        const Result *r = &s->train->results[i];
        if (r->role == ROLE_UPDATE || !value_of(s, r->value)->split_computed)
            continue;
        s->values[cluster_of(s, r->value->id)].unsplittable = true;
        changed = true;
    }
    return changed;
}

/* Repeats until no cluster changes: a cluster that was joined to a whole one is whole, too, and stays joined. */
static void find_split_computed(const Sharder *s)
{
    for (int i = 0; i < s->train->node_count; i++)
        s->values[i].cluster = i;
    while (follow_gradients(s))
        for (int i = 0; i < s->train->node_count; i++)
            s->values[i].unsplittable = s->values[i].unsplittable || s->values[cluster_of(s, i)].unsplittable;
}

/* Returns true if n is a whole number, which is exact in every order of additions: a cast of one, or a choice of two. */
static bool is_whole(const Node *n)
{
    double value;
    if (n->op == OP_WHERE)
        return is_whole(n->in[1]) && is_whole(n->in[2]);
    return !dtype_is_float(n->dtype) || (n->op == OP_CAST && !dtype_is_float(n->in[0]->dtype)) ||
           (node_is_constant(n, &value) && value == floor(value));
}

/* Returns true if n is a sum whose bits would depend on the parts: in an exact model it is computed from whole values. */
static bool sums_whole(const Sharder *s, const Node *n) { return s->model->exact && node_sums_all(n) && !is_whole(n->in[0]); }

/* of train: its inputs may be parts */
static bool takes_parts(const Sharder *s, const Node *n)
{
    return value_of(s, n)->split_computed || value_of(s, n)->split_used || (node_sums_all(n) && !sums_whole(s, n));
}

/* Sets `split_used`, from the users back; gathered variables are available both ways. */
static void find_split_used(const Sharder *s)
{
    const Graph *g = s->train;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool may = n->op == OP_VARIABLE || (node_keeps_elements(n) && node_is_placed(n, REPLICATED));
        s->values[i].split_used = may && !s->values[i].split_computed && shape_count(&n->shape) > 1;
    }
    for (int i = 0; i < g->result_count; i++)
        value_of(s, g->results[i].value)->split_used = is_gathered(s, g->results[i].value);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->inputs; k++)
            if (!takes_parts(s, n) && !is_gathered(s, n->in[k]))
                value_of(s, n->in[k])->split_used = false;
    }
}

static void mark_read(const Graph *g, bool *elsewhere)
{
    for (int i = 0; g && i < g->node_count; i++)
        if (g->nodes[i]->op == OP_VARIABLE)
            elsewhere[g->nodes[i]->ints[0]] = true;
}

static void split_variables(const Sharder *s)
{
    const Graph *g = s->train;
    bool *elsewhere = NEW_ARRAY(bool, s->model->variable_count);
    for (int k = 0; k < s->graph_count; k++)
        if (s->graphs[k] != g)
            mark_read(s->graphs[k], elsewhere);
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_VARIABLE && !s->values[i].split_used)
            elsewhere[g->nodes[i]->ints[0]] = true;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role != ROLE_UPDATE)
            continue;
        Variable *v = &s->model->variables[r->index];
        bool kind = v->kind == OPTIMIZER_STATE || v->kind == OBSERVED || v->kind == WEIGHT || v->kind == AVERAGE;
        if (kind && !elsewhere[r->index] && value_of(s, r->value)->split_computed)
            v->placement.on[MESH_DATA] = OVER_ELEMENTS;
    }
    for (int v = 0; v < s->model->variable_count; v++) {
        if (s->gathers[v] || s->sums[v])
            s->model->variables[v].placement.on[MESH_DATA] = OVER_ELEMENTS;
    }
}

/* ---- weights: what is gathered for its readers */

/* Finds weights, averages and rounded copies that are updated in parts, or never. */
static void find_gathered(const Sharder *s)
{
    const Graph *g = s->train;
    bool *kept = NEW_ARRAY(bool, s->model->variable_count);
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == ROLE_UPDATE && !value_of(s, g->results[i].value)->split_computed)
            kept[g->results[i].index] = true;
    for (int v = 0; v < s->model->variable_count; v++) {
        const Variable *x = &s->model->variables[v];
        s->gathers[v] =
            !kept[v] && shape_count(&x->shape) > s->small && (x->kind == WEIGHT || x->kind == AVERAGE || x->kind == ROUNDED);
    }
}

/* ---- gradients: sums over micro-batches */

/* Returns the accumulator of where(micro == 0, 0, accumulator) + p, or of an exact model's accumulator + sum, as accumulate.c
 * makes them; -1: n is no such sum. */
static int accumulator_of(const Sharder *s, const Node *n)
{
    const Node *before = n->op == OP_ADD ? n->in[0] : NULL;
    before = before && !s->model->exact ? before->op == OP_WHERE ? before->in[2] : NULL : before;
    int v = before ? variable_of(before) : -1;
    return v >= 0 && s->model->variables[v].kind == ACCUMULATOR ? v : -1;
}

/* Returns the REDUCE of what an exact model's update of an accumulator stores, where(..., accumulators + sum, accumulator);
 * NULL: r is no such update. */
static const Node *stored_sum(const Sharder *s, const Result *r)
{
    bool stores = r->role == ROLE_UPDATE && s->model->variables[r->index].kind == ACCUMULATOR && r->value->op == OP_WHERE;
    const Node *n = stores && variable_of(r->value->in[2]) == r->index ? r->value->in[1] : NULL;
    while (n && accumulator_of(s, n) >= 0)
        n = n->in[1];
    return n && n->op == OP_REDUCE ? n : NULL;
}

/* In exact models the train graph reads accumulators, and another one stores them. */
static void find_exact_sums(const Sharder *s)
{
    for (int i = 0; i < s->train->node_count; i++) {
        int v = value_of(s, s->train->nodes[i])->split_computed ? accumulator_of(s, s->train->nodes[i]) : -1;
        for (int k = 0; k < s->graph_count && v >= 0; k++) {
            const Result *r = s->graphs[k] != s->train ? graph_find_result(s->graphs[k], ROLE_UPDATE, v) : NULL;
            s->sums[v] = s->sums[v] || (r && stored_sum(s, r));
        }
    }
}

static void find_sums(const Sharder *s)
{
    if (s->model->exact) {
        find_exact_sums(s);
        return;
    }
    for (int i = 0; i < s->train->node_count; i++) {
        const Node *n = s->train->nodes[i];
        int v = is_gradient(s, n) && value_of(s, n)->split_computed ? accumulator_of(s, n->in[0]) : -1;
        if (v >= 0)
            s->sums[v] = variable_is_placed(&s->model->variables[v], IS_PARTIAL);
    }
}

static bool is_accumulated(const Sharder *s, const Node *n)
{
    int v = accumulator_of(s, n);
    return v >= 0 && s->sums[v];
}

/* Returns, by id, the REDUCEs of a graph of an exact model that are stored in accumulators that are split. */
static bool *find_stored(const Sharder *s, const Graph *g)
{
    bool *stored = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->result_count && s->model->exact && g != s->train; i++) {
        const Node *n = stored_sum(s, &g->results[i]);
        if (n && s->sums[g->results[i].index])
            stored[n->id] = true;
    }
    return stored;
}

/* ---- the new graph */
static Node *scattered(const Sharder *s, Node *partial)
{
    Node *part = NODE(s->target, OP_REDUCE_SCATTER, NULL, 0, NULL, partial);
    return s->what >= SHARD_GRADIENTS ? NODE(s->target, OP_OWN, NULL, 0, NULL, part) : part;
}

/* unsplittable: a variable of which each device has a part */
static Node **whole_inputs(const Sharder *s, const Node *n, bool parts)
{
    Node **in = mapped_inputs(n);
    for (int k = 0; k < n->inputs && !parts; k++)
        if (is_gathered(s, n->in[k])) {
            set_position(s->target, n->in[k]);
            s->target->path = NULL;
            in[k] = NODE(s->target, OP_ALL_GATHER, NULL, 0, NULL, in[k]);
            if (!in[k]->name)
                in[k]->name = format("%s.whole", s->model->variables[variable_of(n->in[k])].name);
        }
    return in;
}

static Node *gathered(Sharder *s, Node *n)
{
    NodeSharding *v = value_of(s, n);
    if (!v->split_computed)
        return n->mapped;
    if (!v->gathered) {
        set_position(s->target, n);
        v->gathered = NODE(s->target, OP_ALL_GATHER, NULL, 0, NULL, n->mapped);
        if (!v->gathered->name)
            v->gathered->name = n->name;
    }
    return v->gathered;
}

/* Returns the whole value of n, computed again from gradients and variables that are gathered, as in a program without parts, so
 * that it has the same bits. */
static Node *whole(Sharder *s, Node *n)
{
    NodeSharding *v = value_of(s, n);
    bool variable = n->op == OP_VARIABLE, gradient = v->split_computed && (is_gradient(s, n) || is_accumulated(s, n));
    if (variable ? !is_split(s, variable_of(n)) : !v->split_computed && !v->split_used)
        return n->mapped;
    if (v->whole)
        return v->whole;
    Node **in = mapped_inputs(n);
    for (int k = 0; k < n->inputs && !gradient; k++)
        in[k] = whole(s, n->in[k]);
    set_position(s->target, n);
    v->whole = variable || gradient ? NODE(s->target, OP_ALL_GATHER, NULL, 0, NULL, n->mapped) : graph_rebuild(s->target, n, in);
    if (!v->whole->name)
        v->whole->name = n->name;
    return v->whole;
}

static Node *split_node(Sharder *s, Node *n, bool train, bool stored)
{
    Graph *g = s->target;
    Node **in = whole_inputs(s, n, train && takes_parts(s, n));
    for (int k = 0; k < n->inputs && train && sums_whole(s, n); k++)
        in[k] = whole(s, n->in[k]);
    set_position(g, n);
    if (is_accumulated(s, n) && !s->model->exact)
        return graph_binary(g, OP_ADD, in[0], scattered(s, in[1]));
    if (!stored && (!train || !is_gradient(s, n) || !value_of(s, n)->split_computed))
        return graph_rebuild(g, n, in);
    return is_accumulated(s, n->in[0]) ? in[0] : scattered(s, in[0]);
}

/* Computes an average from the new weight, which every device has, gathered: so nothing more has to be gathered for it. NULL: it
 * depends on the gradient in another way. */
static Node *from_gathered(Sharder *s, Node *n)
{
    NodeSharding *v = value_of(s, n);
    if (!v->split_computed || v->gathered)
        return gathered(s, n);
    Node *in[3]; /* of element-wise operations */
    if (is_gradient(s, n))
        return NULL;
    for (int k = 0; k < n->inputs; k++)
        if (!(in[k] = from_gathered(s, n->in[k])))
            return NULL;
    set_position(s->target, n);
    return v->gathered = graph_rebuild(s->target, n, in);
}

static void add_result(Sharder *s, Result r, bool train)
{
    bool update = r.role == ROLE_UPDATE, average = update && s->model->variables[r.index].kind == AVERAGE;
    Node *n = r.value, *value = n->mapped;
    set_position(s->target, n);
    if (train && update && !is_split(s, r.index)) {
        value = average ? from_gathered(s, n) : NULL;
        value = value ? value : gathered(s, n);
    } else if (!update && is_gathered(s, n)) {
        value = NODE(s->target, OP_ALL_GATHER, NULL, 0, NULL, value);
    }
    r.value = value;
    r.weight = r.weight ? r.weight->mapped : NULL;
    graph_add_result(s->target, r);
}

static Graph *rebuild(Sharder *s, const Graph *g)
{
    bool train = g == s->train, *stored = find_stored(s, g);
    s->target = graph_new(s->model, g->name, g->parent);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        map_node(n, split_node(s, n, train, stored[i]));
    }
    for (int pass = 0; pass < 2; pass++) /* averages after the weights that are gathered */
        for (int i = 0; i < g->result_count; i++) {
            bool average = g->results[i].role == ROLE_UPDATE && s->model->variables[g->results[i].index].kind == AVERAGE;
            if (average == (pass > 0))
                add_result(s, g->results[i], train);
        }
    return s->target;
}

static bool has_split(const Sharder *s, const Graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_VARIABLE && is_split(s, (int)g->nodes[i]->ints[0]))
            return true;
    return false;
}

void shard(Model *m, Sharding what, const Graph *train, Graph *const *graphs, int graph_count, Graph **sharded)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Sharder s = {.model = m,
                 .what = what,
                 .train = train,
                 .graphs = graphs,
                 .graph_count = graph_count,
                 .values = NEW_ARRAY(NodeSharding, train->node_count),
                 .gathers = NEW_ARRAY(bool, m->variable_count),
                 .sums = NEW_ARRAY(bool, m->variable_count)};
    s.small = largest_small(m);
    find_split_computed(&s);
    if (what >= SHARD_GRADIENTS)
        find_sums(&s);
    if (what >= SHARD_WEIGHTS)
        find_gathered(&s);
    find_split_used(&s);
    split_variables(&s);
    memory_use(outer);
    for (int k = 0; k < graph_count; k++) {
        sharded[k] = graphs[k];
        if (graphs[k] != train && !has_split(&s, graphs[k]))
            continue;
        Graph *split = rebuild(&s, graphs[k]);
        sharded[k] = distribute(split);
        graph_free(split);
    }
    memory_free(own);
}
