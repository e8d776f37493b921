/* distribute.c: places every value on the mesh, and inserts a REDUCE where Partial must become Replicated.
 *
 * In: a simple graph. Out: the same graph with node->placement set and reductions inserted. It may be applied again after a
 * distributed graph was simplified. Remaining composites are expanded; STOP_GRADIENT is removed.
 *
 * Placements follow by the rule of ir/placement.h. Transfers of a graph that was distributed before stay, and take Partial values
 * as they are. If a sum over samples has become a multiple since (phases.c), they get a share of it, or it would be added up once
 * per device.
 *
 * Where to reduce. A forward pass types lazily: nothing is reduced unless a use requires it. A backward pass then computes the
 * cost of leaving each Partial as it is: cost(v) = sum over its uses of the cost of reducing after that use, divided among the
 * Partial inputs of the use. A value is reduced at once if a use requires it or if that is not more expensive. So what is used
 * twice is reduced once, a value is reduced before it is broadcast, and two uses of a shared weight are added first. Partial
 * accumulators take Partial values; all other results take Replicated (or Sharded) ones. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/composite.h"
#include "compiler/passes/stages.h"

static const MeshAxis DISTRIBUTED = MESH_DATA; /* the axis of the mesh over which values are distributed here */
static const double COLLECTIVE_BYTES = 4096;   /* cost of a collective besides its bytes, in bytes */

/* ---- where to reduce */

typedef struct NodeDistribution { /* of a node of the old graph */
    AxisPlacement type;           /* placed lazily */
    bool forced;
    bool accumulates; /* the new value of a Partial accumulator */
    double cost;      /* of not reducing here, unless a use requires it */
    Node *partial;    /* in the new graph, if it was reduced at once: the value before */
} NodeDistribution;

typedef struct Distributor {
    const Graph *graph;
    Graph *target;
    NodeDistribution *values; /* by id in graph */
    AxisPlacement *type;      /* scratch: of the inputs of one node */
    bool *forced;
    Node **memo; /* by id in target: the reduction of a Partial */
    int memo_capacity;
} Distributor;

static Node *placed(Node *n, AxisPlacement p)
{
    n->placement.on[DISTRIBUTED] = p;
    return n;
}

static double reduction_cost(const Node *n) { return (double)shape_count(&n->shape) * dtype_bytes(n->dtype) + COLLECTIVE_BYTES; }

static bool takes_partial(const Graph *g, const Result *r)
{
    return r->role == ROLE_UPDATE && variable_is_placed(&g->model->variables[r->index], IS_PARTIAL);
}

/* accumulator + x, with x Replicated: x is divided among the devices instead of reducing the accumulator */
static bool splits_over_devices(const NodeDistribution *v, const Node *n, Node *const *in, const AxisPlacement *type)
{
    return v->accumulates && n->op == OP_ADD &&
           ((type[0].kind == PARTIAL && type[1].kind == REPLICATED && !node_is_zero(in[1])) ||
            (type[1].kind == PARTIAL && type[0].kind == REPLICATED && !node_is_zero(in[0])));
}

/* Returns true if n takes a device's term of a sum. */
static bool takes_part(const Node *n) { return n->op == OP_REDUCE_SCATTER || n->op == OP_OWN; }

/* Returns the placement of n by the rule; sets d->forced. */
static AxisPlacement type_of(Distributor *d, const Node *n, Node *const *in)
{
    const char *wrong;
    AxisPlacement is = placement_by_rule(n, DISTRIBUTED, in, d->type, d->forced, &wrong);
    if (wrong)
        die("node %d: %s", n->id, wrong);
    return is;
}

/* The same in the old graph, by the lazy placements of its inputs. */
static AxisPlacement lazy_type(Distributor *d, const Node *n)
{
    for (int k = 0; k < n->inputs; k++)
        d->type[k] = d->values[n->in[k]->id].type;
    if (takes_part(n) && d->type[0].kind == REPLICATED)
        d->type[0] = IS_PARTIAL;
    if (splits_over_devices(&d->values[n->id], n, n->in, d->type)) {
        d->forced[0] = d->forced[1] = false;
        return IS_PARTIAL;
    }
    return type_of(d, n, n->in);
}

static void price(Distributor *d)
{
    const Graph *g = d->graph;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (takes_partial(g, r))
            d->values[r->value->id].accumulates = true;
        else
            d->values[r->value->id].forced = true;
        if (r->weight)
            d->values[r->weight->id].forced = true;
    }
    for (int i = 0; i < g->node_count; i++) {
        if (takes_part(g->nodes[i]))
            d->values[g->nodes[i]->in[0]->id].accumulates = true;
        /* no other operation can use the parts of moments; and of exact programs only whole sums are the same for all devices */
        d->values[i].forced = d->values[i].forced || g->nodes[i]->op == OP_MOMENTS || g->model->exact;
    }
    for (int i = 0; i < g->node_count; i++)
        d->values[i].type = lazy_type(d, g->nodes[i]);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        lazy_type(d, n);
        int partial = 0;
        for (int k = 0; k < n->inputs; k++)
            partial += d->type[k].kind == PARTIAL;
        double cost = reduction_cost(n);
        if (n->op != OP_REDUCE && !d->values[i].forced && d->values[i].cost < cost)
            cost = d->values[i].cost;
        for (int k = 0; k < n->inputs; k++) {
            NodeDistribution *input = &d->values[n->in[k]->id];
            input->forced = input->forced || d->forced[k];
            if (d->type[k].kind == PARTIAL && !d->forced[k] && !placement_of_own(n, d->type))
                input->cost += cost / partial;
        }
    }
}

/* ---- the new graph */

static Node *reduced(Distributor *d, Node *partial)
{
    if (!d->memo || partial->id >= d->memo_capacity) {
        int capacity = 2 * partial->id + 64;
        d->memo = grow(d->memo, sizeof *d->memo * (size_t)d->memo_capacity, sizeof *d->memo * (size_t)capacity);
        d->memo_capacity = capacity;
    }
    Node **known = &d->memo[partial->id];
    if (!*known) {
        set_position(d->target, partial);
        *known = graph_reduce(d->target, partial);
        placed(*known, IS_REPLICATED);
        if (!(*known)->name)
            (*known)->name = partial->name;
    }
    return *known;
}

/* Returns a Replicated value as a sum over the samples of all devices. */
static Node *split_over_devices(Graph *g, Node *x)
{
    Node *share = graph_binary(g, OP_DIV, x, graph_run(g, RUN_SAMPLES, 0));
    if (share->dtype != x->dtype)
        die("a whole number that is the same on all devices goes into a sum over devices");
    Node *sum = graph_sum_samples(g, select_valid(g, share), NULL, 0);
    return placed(sum, IS_PARTIAL);
}

/* A scatter_add into a Replicated table that is not zero: the sum of the samples is reduced, then added. */
static Node *add_scattered(Distributor *d, const Node *n, Node **in)
{
    Graph *g = d->target;
    Node *sum = graph_scatter_add(g, graph_fill(g, 0, n->shape, n->dtype), in[1], in[2], (int)n->ints[0], true);
    placed(sum, IS_PARTIAL);
    return graph_binary(g, OP_ADD, in[0], reduced(d, sum));
}

static void distribute_one(Distributor *d, Node *n, Node **in)
{
    Graph *g = d->target;
    for (int k = 0; k < n->inputs; k++)
        d->type[k] = d->values[n->in[k]->id].type;
    bool own = (d->values[n->id].accumulates && n->op == OP_ADD) || placement_of_own(n, d->type);
    for (int k = 0; k < n->inputs; k++) {
        Node *partial = d->values[n->in[k]->id].partial;
        bool adds = partial && own; /* a device's own term, though others need the total */
        in[k] = adds ? partial : n->in[k]->mapped;
        d->type[k] = in[k]->placement.on[DISTRIBUTED];
    }
    if (n->op == OP_STOP_GRADIENT || (op_reduces(n->op) && d->type[0].kind == REPLICATED)) {
        map_node(n, in[0]);
        return;
    }
    if (n->op == OP_REDUCE || (n->op == OP_REDUCE_MOMENTS && in[0]->op == OP_MOMENTS)) {
        map_node(n, reduced(d, in[0]));
        return;
    }
    NodeDistribution *v = &d->values[n->id];
    set_position(g, n);
    if (takes_part(n) && d->type[0].kind == REPLICATED) {
        in[0] = split_over_devices(g, in[0]);
        d->type[0] = IS_PARTIAL;
    }
    if (splits_over_devices(v, n, in, d->type)) {
        int k = d->type[0].kind == REPLICATED ? 0 : 1;
        in[k] = split_over_devices(g, in[k]);
        d->type[k] = IS_PARTIAL;
    }
    AxisPlacement type = type_of(d, n, in);
    bool scattered = n->op == OP_SCATTER_ADD && node_sums_samples(n) && type.kind == REPLICATED;
    for (int k = 0; k < n->inputs; k++)
        if (d->forced[k])
            in[k] = reduced(d, in[k]);
    set_position(g, n);
    map_node(n, scattered ? add_scattered(d, n, in) : graph_rebuild(g, n, in));
    placed(n->mapped, type);
    if (type.kind == PARTIAL && (v->forced || v->cost >= reduction_cost(n))) {
        v->partial = n->mapped;
        n->mapped = reduced(d, n->mapped);
    }
}

static void distribute_result(Distributor *d, Result r)
{
    Graph *g = d->target;
    set_position(g, r.value);
    r.value = r.value->mapped;
    r.weight = r.weight ? r.weight->mapped : NULL;
    if (takes_partial(g, &r)) {
        if (node_is_placed(r.value, REPLICATED) && !node_is_zero(r.value))
            r.value = split_over_devices(g, r.value);
    } else if (node_is_placed(r.value, PARTIAL)) {
        r.value = reduced(d, r.value);
    }
    bool same = r.role == ROLE_REPORT || r.role == ROLE_INIT ||
                (r.role == ROLE_UPDATE && !variable_is_placed(&g->model->variables[r.index], OVER_SAMPLES));
    if (node_is_sharded(r.value, SAMPLES_AXIS) ? same : r.role == ROLE_UPDATE && !same)
        die("a result of role %d is %s for every sample", (int)r.role, same ? "another one" : "the same");
    graph_add_result(g, r);
}

Graph *distribute(Graph *given)
{
    Graph *g = expand_composites(given);
    int most = 3;
    for (int i = 0; i < g->node_count; i++)
        most = g->nodes[i]->inputs > most ? g->nodes[i]->inputs : most;
    Distributor d = {.graph = g, .target = graph_new(g->model, g->name, g->parent)};
    Memory *own = memory_new(), *outer = memory_use(own);
    d.values = NEW_ARRAY(NodeDistribution, g->node_count);
    d.type = NEW_ARRAY(AxisPlacement, most);
    d.forced = NEW_ARRAY(bool, most);
    price(&d);
    Node **in = NEW_ARRAY(Node *, most);
    memory_use(outer);
    for (int i = 0; i < g->node_count; i++)
        distribute_one(&d, g->nodes[i], in);
    for (int i = 0; i < g->result_count; i++)
        distribute_result(&d, g->results[i]);
    graph_place(d.target, 0); /* with the nodes that were made on the way */
    memory_free(own);
    if (g != given)
        graph_free(g);
    return d.target;
}
