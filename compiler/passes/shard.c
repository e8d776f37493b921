/* shard.c: a sharded optimizer: each device updates its own part of every weight, and holds that part of the optimizer's state alone.
 *
 * In: the graphs of all phases in the precision of the model; every sum over devices is a REDUCE. Out: another train graph, and
 * Variable.split of what each device holds a part of. Parts are cut at multiples of 64 elements (mgpu_even_part).
 *
 *     gradient   REDUCE              REDUCE_SCATTER           each device gets the sum of its own part
 *     update     of all elements     of the own part          states of the optimizer, masters of ROUNDED copies: split
 *     weight                         ALL_GATHER               whole again on every device, before the next step reads it
 *
 * Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020: stage 1.
 *
 * What follows from a gradient is split as far as it is computed element by element. The sum of all elements, as of a norm, becomes a
 * sum of the parts, over the devices (distribute.c); numbers made of such sums are the same everywhere, so a step is skipped by all
 * devices or by none. A gradient of which something else is made (a row's norm, a product) stays a REDUCE, with all that is computed
 * with it; so do gradients of one element.
 *
 * A variable is split if only its own update reads it, element by element, and no other phase does. So a weight that forward passes
 * read is whole, and so is the average of one, which evaluation reads. A master whose ROUNDED copy is read in its place is split, and
 * the copy is gathered: half of the bytes. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

typedef struct Value {  /* of a node of the train graph */
    bool own;           /* follows from gradients that are split, element by element */
    bool parts;         /* it does not, but only what is `own` uses it, element by element: it is split if a variable in it is */
    int cluster;        /* own: a node of what must be split together */
    bool whole;         /* of such a node: it may not be split */
    Node *gathered;     /* own: in the new graph, all of it; NULL: nobody wants that yet */
} Value;

typedef struct Sharder {
    Model *model;
    const Graph *train;
    Graph *target;
    Value *values;      /* by id */
} Sharder;

static Value *value_of(const Sharder *s, const Node *n) { return &s->values[n->id]; }

/* ---- what is split */
static int cluster_of(const Sharder *s, int id)
{
    while (s->values[id].cluster != id)
        id = s->values[id].cluster = s->values[s->values[id].cluster].cluster;
    return id;
}

static bool is_gradient(const Node *n) { return n->op == OP_REDUCE && n->backward && shape_count(&n->shape) > 1; }

static bool sums_all(const Node *n) { return n->op == OP_SUM && n->int_count > 0 && n->int_count == n->in[0]->shape.rank; }

/* own, from the gradients on; what cannot be split with a gradient makes its cluster whole. true: some cluster became whole */
static bool follow_gradients(const Sharder *s)
{
    bool changed = false;
    for (int i = 0; i < s->train->node_count; i++) {
        const Node *n = s->train->nodes[i];
        Value *v = &s->values[i];
        bool any = false;
        if (is_gradient(n)) {
            v->own = !s->values[cluster_of(s, i)].whole;
            continue;
        }
        for (int k = 0; k < n->inputs; k++)
            any = any || value_of(s, n->in[k])->own;
        v->own = any && node_keeps_elements(n) && !n->sharded;
        for (int k = 0; k < n->inputs && any; k++) {
            if (!value_of(s, n->in[k])->own)
                continue;
            if (v->own) {
                s->values[cluster_of(s, n->in[k]->id)].cluster = cluster_of(s, i);
            } else if (!sums_all(n)) {
                s->values[cluster_of(s, n->in[k]->id)].whole = true;
                changed = true;
            }
        }
    }
    for (int i = 0; i < s->train->result_count; i++) {
        const Result *r = &s->train->results[i];
        if (r->role == ROLE_UPDATE || !value_of(s, r->value)->own)
            continue;
        s->values[cluster_of(s, r->value->id)].whole = true;
        changed = true;
    }
    return changed;
}

/* a cluster that was joined to one which is whole now is whole, too: clusters stay joined */
static void find_own(const Sharder *s)
{
    for (int i = 0; i < s->train->node_count; i++)
        s->values[i].cluster = i;
    while (follow_gradients(s))
        for (int i = 0; i < s->train->node_count; i++)
            s->values[i].whole = s->values[i].whole || s->values[cluster_of(s, i)].whole;
}

/* parts, from the users back */
static void find_parts(const Sharder *s)
{
    const Graph *g = s->train;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool may = n->op == OP_VARIABLE || (node_keeps_elements(n) && n->distribution == REPLICATED);
        s->values[i].parts = may && !s->values[i].own && shape_count(&n->shape) > 1;
    }
    for (int i = 0; i < g->result_count; i++)
        value_of(s, g->results[i].value)->parts = false;
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->inputs; k++)
            if (!s->values[i].own && !s->values[i].parts && !sums_all(n))
                value_of(s, n->in[k])->parts = false;
    }
}

static void mark_read(const Graph *g, bool *elsewhere)
{
    for (int i = 0; g && i < g->node_count; i++)
        if (g->nodes[i]->op == OP_VARIABLE)
            elsewhere[g->nodes[i]->ints[0]] = true;
}

static void split_variables(const Sharder *s, Graph *const *graphs, int graph_count)
{
    const Graph *g = s->train;
    bool *elsewhere = NEW_ARRAY(bool, s->model->variable_count);
    for (int k = 0; k < graph_count; k++)
        if (graphs[k] != g)
            mark_read(graphs[k], elsewhere);
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_VARIABLE && !s->values[i].parts)
            elsewhere[g->nodes[i]->ints[0]] = true;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role != ROLE_UPDATE)
            continue;
        Variable *v = &s->model->variables[r->index];
        bool kind = v->kind == OPTIMIZER_STATE || v->kind == WEIGHT || v->kind == AVERAGE;
        v->split = kind && !elsewhere[r->index] && value_of(s, r->value)->own;
    }
}

/* ---- the new graph */
static Node *split_node(Sharder *s, Node *n)
{
    Graph *g = s->target;
    stand_at(g, n);
    if (is_gradient(n) && value_of(s, n)->own)
        return NODE(g, OP_REDUCE_SCATTER, NULL, 0, NULL, n->in[0]->mapped);
    return graph_rebuild(g, n, mapped_inputs(n));
}

static Node *gathered(Sharder *s, Node *n)
{
    Value *v = value_of(s, n);
    if (!v->own)
        return n->mapped;
    if (!v->gathered) {
        stand_at(s->target, n);
        v->gathered = NODE(s->target, OP_ALL_GATHER, NULL, 0, NULL, n->mapped);
        if (!v->gathered->name)
            v->gathered->name = n->name;
    }
    return v->gathered;
}

/* An average moves towards the new weight, which every device has, gathered: so nothing more need be gathered for it. NULL: it
 * depends on the gradient in another way. */
static Node *from_gathered(Sharder *s, Node *n)
{
    Value *v = value_of(s, n);
    if (!v->own || v->gathered)
        return gathered(s, n);
    Node *in[3]; /* of element-wise operations */
    if (is_gradient(n))
        return NULL;
    for (int k = 0; k < n->inputs; k++)
        if (!(in[k] = from_gathered(s, n->in[k])))
            return NULL;
    stand_at(s->target, n);
    return v->gathered = graph_rebuild(s->target, n, in);
}

static void add_result(Sharder *s, Result r)
{
    bool average = r.role == ROLE_UPDATE && s->model->variables[r.index].kind == AVERAGE;
    Node *n = r.value, *value = n->mapped;
    stand_at(s->target, n);
    if (r.role == ROLE_UPDATE && !s->model->variables[r.index].split) {
        value = average ? from_gathered(s, n) : NULL;
        value = value ? value : gathered(s, n);
    }
    r.value = value;
    r.weight = r.weight ? r.weight->mapped : NULL;
    graph_add_result(s->target, r);
}

static Graph *rebuild(Sharder *s)
{
    const Graph *train = s->train;
    s->target = graph_new(s->model, train->name, train->parent);
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        become(n, split_node(s, n));
    }
    for (int pass = 0; pass < 2; pass++) /* averages after the weights that are gathered */
        for (int i = 0; i < train->result_count; i++) {
            bool average = train->results[i].role == ROLE_UPDATE && s->model->variables[train->results[i].index].kind == AVERAGE;
            if (average == (pass > 0))
                add_result(s, train->results[i]);
        }
    return s->target;
}

Graph *shard(Model *m, Graph *train, Graph *const *graphs, int graph_count)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Sharder s = {.model = m, .train = train, .values = NEW_ARRAY(Value, train->node_count)};
    find_own(&s);
    find_parts(&s);
    split_variables(&s, graphs, graph_count);
    memory_use(outer);
    Graph *split = rebuild(&s), *whole = distribute(split);
    memory_free(own);
    graph_free(split);
    return whole;
}
