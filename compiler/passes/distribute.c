/* distribute.c: types every value, and inserts a REDUCE where Partial must become Replicated.
 *
 * In: a simple graph. Out: the same graph with node->distribution set and reductions inserted. It may be applied again after a
 * distributed graph was simplified. Remaining composites are expanded; STOP_GRADIENT is removed.
 *
 * Types. Sharded: a value for every sample. A node that is not sharded, although an input is, is Partial: a device has summed its
 * own samples. Partial passes through linear operations (ir/linear.c), with the other inputs Replicated; all other operations
 * require Replicated inputs. Transfers of a graph that was distributed before stay (ir/transfer.c), and take Partial values as
 * they are. If a sum over samples has become a multiple since (phases.c), they get a share of it, or it would be added up once
 * per device. The sum of all elements of a Split value is Partial, too; where it is combined with Split values again, element by
 * element, it must be Replicated.
 *
 * Where to reduce. A forward pass types lazily: nothing is reduced unless a use requires it. A backward pass then computes the
 * cost of leaving each Partial as it is: cost(v) = sum over its uses of the cost of reducing after that use, divided among the
 * Partial inputs of the use. A value is reduced at once if a use requires it or if that is not more expensive. So what is used
 * twice is reduced once, a value is reduced before it is broadcast, and two uses of a shared weight are added first. Partial
 * accumulators take Partial values; all other results take Replicated (or Sharded) ones. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/composite.h"
#include "compiler/passes/stages.h"

static const double COLLECTIVE_BYTES = 4096; /* cost of a collective besides its bytes, in bytes */

/* If n combines Split values with a sum, the sum must be reduced. */
static void reduce_with_split(const Node *n, Distribution *type, bool *forced)
{
    bool parts = false;
    for (int k = 0; k < n->inputs; k++)
        parts = parts || type[k] == SPLIT;
    for (int k = 0; k < n->inputs && parts; k++)
        if (type[k] == PARTIAL) {
            forced[k] = true;
            type[k] = REPLICATED;
        }
}

/* Returns the type of n, given those of its inputs; sets forced[k] if input k is Partial and must be reduced for n. */
static Distribution type_of(const Node *n, Node *const *in, Distribution *type, bool *forced)
{
    int partial = 0, sharded = 0;
    for (int k = 0; k < n->inputs; k++) {
        forced[k] = false;
        partial += type[k] == PARTIAL;
        sharded += type[k] == SHARDED;
    }
    if (transfer_types(n, type)) {
        const char *wrong;
        reduce_with_split(n, type, forced);
        Distribution own = transfer_type(n, type, &wrong);
        if (wrong)
            die("node %d: %s", n->id, wrong);
        return own;
    }
    if (OP_INFO[n->op].op_class == LEAF) {
        bool part = n->op == OP_VARIABLE && n->graph->model->variables[n->ints[0]].partial;
        bool split = n->op == OP_VARIABLE && n->graph->model->variables[n->ints[0]].split;
        return n->sharded ? SHARDED : part ? PARTIAL : split ? SPLIT : REPLICATED;
    }
    if (n->op == OP_REDUCE) {
        if (sharded)
            die("a reduction of a value of every sample (node %d)", n->id);
        return REPLICATED;
    }
    if (OP_INFO[n->op].op_class == REGION && !n->sharded)
        sharded = 0; /* a loop's result that is the same for all samples */
    if (sharded && !n->sharded) {
        if (OP_INFO[n->op].op_class == MARK) /* operations that stand for sums have been replaced by now */
            die("%s (node %d) drops the samples", OP_INFO[n->op].name, n->id);
        bool keeps = n->op == OP_SCATTER_ADD && type[0] == PARTIAL;
        for (int k = 0; k < n->inputs; k++)
            forced[k] = type[k] == PARTIAL && !(keeps && k == 0);
        return n->op == OP_SCATTER_ADD && !keeps && !node_is_zero(in[0]) ? REPLICATED : PARTIAL;
    }
    if (n->sharded && !sharded && n->op != OP_GROUP_SUM)
        die("%s (node %d) makes samples of nothing", OP_INFO[n->op].name, n->id);
    if (!partial || n->sharded) {
        for (int k = 0; k < n->inputs; k++)
            forced[k] = type[k] == PARTIAL;
        return n->sharded ? SHARDED : REPLICATED;
    }
    for (int k = 0; k < n->inputs; k++)
        forced[k] = type[k] == PARTIAL;
    if (!node_is_linear(n, in, forced))
        return REPLICATED;
    for (int k = 0; k < n->inputs; k++)
        forced[k] = false;
    return PARTIAL;
}

/* ---- where to reduce */

typedef struct NodeDistribution { /* of a node of the old graph */
    Distribution type;            /* typed lazily */
    bool forced;
    bool accumulates; /* the new value of a Partial accumulator */
    double cost;      /* of not reducing here, unless a use requires it */
    Node *partial;    /* in the new graph, if it was reduced at once: the value before */
} NodeDistribution;

typedef struct Distributor {
    const Graph *graph;
    Graph *target;
    NodeDistribution *values; /* by id in graph */
    Distribution *type;       /* scratch: of the inputs of one node */
    bool *forced;
    Node **memo; /* by id in target: the reduction of a Partial */
    int memo_capacity;
} Distributor;

static double reduction_cost(const Node *n) { return (double)shape_count(&n->shape) * dtype_bytes(n->dtype) + COLLECTIVE_BYTES; }

static bool takes_partial(const Graph *g, const Result *r)
{
    return r->role == ROLE_UPDATE && g->model->variables[r->index].partial;
}

/* accumulator + x, with x Replicated: x is divided among the devices instead of reducing the accumulator */
static bool splits_over_devices(const NodeDistribution *v, const Node *n, Node *const *in, const Distribution *type)
{
    return v->accumulates && n->op == OP_ADD && !n->sharded &&
           ((type[0] == PARTIAL && type[1] == REPLICATED && !node_is_zero(in[1])) ||
            (type[1] == PARTIAL && type[0] == REPLICATED && !node_is_zero(in[0])));
}

/* Returns true if n takes a device's term of a sum. */
static bool takes_part(const Node *n) { return n->op == OP_REDUCE_SCATTER || n->op == OP_OWN; }

/* Sets d->forced and returns the type of n in the old graph, by the lazy types of its inputs. */
static Distribution lazy_type(Distributor *d, const Node *n)
{
    for (int k = 0; k < n->inputs; k++)
        d->type[k] = d->values[n->in[k]->id].type;
    if (takes_part(n) && d->type[0] == REPLICATED)
        d->type[0] = PARTIAL;
    if (splits_over_devices(&d->values[n->id], n, n->in, d->type)) {
        d->forced[0] = d->forced[1] = false;
        return PARTIAL;
    }
    return type_of(n, n->in, d->type, d->forced);
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
        d->values[i].forced = d->values[i].forced || g->nodes[i]->op == OP_MOMENTS; /* no other operation can use its parts */
    }
    for (int i = 0; i < g->node_count; i++)
        d->values[i].type = lazy_type(d, g->nodes[i]);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        lazy_type(d, n);
        int partial = 0;
        for (int k = 0; k < n->inputs; k++)
            partial += d->type[k] == PARTIAL;
        double cost = reduction_cost(n);
        if (n->op != OP_REDUCE && !d->values[i].forced && d->values[i].cost < cost)
            cost = d->values[i].cost;
        for (int k = 0; k < n->inputs; k++) {
            NodeDistribution *input = &d->values[n->in[k]->id];
            input->forced = input->forced || d->forced[k];
            if (d->type[k] == PARTIAL && !d->forced[k] && !transfer_types(n, d->type))
                input->cost += cost / partial;
        }
    }
}

/* ---- the new graph */

static Node *reduced(Distributor *d, Node *partial)
{
    if (partial->id >= d->memo_capacity) {
        int capacity = 2 * partial->id + 64;
        d->memo = grow(d->memo, sizeof *d->memo * (size_t)d->memo_capacity, sizeof *d->memo * (size_t)capacity);
        d->memo_capacity = capacity;
    }
    Node **known = &d->memo[partial->id];
    if (!*known) {
        set_position(d->target, partial);
        *known = graph_reduce(d->target, partial);
        (*known)->distribution = REPLICATED;
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
    sum->distribution = PARTIAL;
    return sum;
}

/* A scatter_add into a Replicated table that is not zero: the sum of the samples is reduced, then added. */
static Node *add_scattered(Distributor *d, const Node *n, Node **in)
{
    Graph *g = d->target;
    Node *sum = graph_scatter_add(g, graph_fill(g, 0, n->shape, n->dtype), in[1], in[2], (int)n->ints[0], true);
    sum->distribution = PARTIAL;
    return graph_binary(g, OP_ADD, in[0], reduced(d, sum));
}

static void distribute_one(Distributor *d, Node *n, Node **in)
{
    Graph *g = d->target;
    for (int k = 0; k < n->inputs; k++)
        d->type[k] = d->values[n->in[k]->id].type;
    bool own = (d->values[n->id].accumulates && n->op == OP_ADD) || transfer_types(n, d->type);
    for (int k = 0; k < n->inputs; k++) {
        Node *partial = d->values[n->in[k]->id].partial;
        bool adds = partial && own; /* a device's own term, though others need the total */
        in[k] = adds ? partial : n->in[k]->mapped;
        d->type[k] = in[k]->distribution;
    }
    if (n->op == OP_STOP_GRADIENT || (op_reduces(n->op) && d->type[0] == REPLICATED)) {
        map_node(n, in[0]);
        return;
    }
    if (n->op == OP_REDUCE || (n->op == OP_REDUCE_MOMENTS && in[0]->op == OP_MOMENTS)) {
        map_node(n, reduced(d, in[0]));
        return;
    }
    NodeDistribution *v = &d->values[n->id];
    set_position(g, n);
    if (takes_part(n) && d->type[0] == REPLICATED) {
        in[0] = split_over_devices(g, in[0]);
        d->type[0] = PARTIAL;
    }
    if (splits_over_devices(v, n, in, d->type)) {
        int k = d->type[0] == REPLICATED ? 0 : 1;
        in[k] = split_over_devices(g, in[k]);
        d->type[k] = PARTIAL;
    }
    Distribution type = type_of(n, in, d->type, d->forced);
    bool scattered = n->op == OP_SCATTER_ADD && node_sums_samples(n) && type == REPLICATED;
    for (int k = 0; k < n->inputs; k++)
        if (d->forced[k])
            in[k] = reduced(d, in[k]);
    set_position(g, n);
    map_node(n, scattered ? add_scattered(d, n, in) : graph_rebuild(g, n, in));
    n->mapped->distribution = type;
    if (type == PARTIAL && (v->forced || v->cost >= reduction_cost(n))) {
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
        if (r.value->distribution == REPLICATED && !node_is_zero(r.value))
            r.value = split_over_devices(g, r.value);
    } else if (r.value->distribution == PARTIAL) {
        r.value = reduced(d, r.value);
    }
    bool same = r.role == ROLE_REPORT || r.role == ROLE_INIT || (r.role == ROLE_UPDATE && !g->model->variables[r.index].sharded);
    if (r.value->distribution == SHARDED ? same : r.role == ROLE_UPDATE && !same)
        die("a result of role %d is %s for every sample", (int)r.role, same ? "another one" : "the same");
    graph_add_result(g, r);
}

/* Types every node again, with those that were made on the way. */
static void check_types(Distributor *d)
{
    for (int i = 0; i < d->target->node_count; i++) {
        Node *n = d->target->nodes[i];
        for (int k = 0; k < n->inputs; k++)
            d->type[k] = n->in[k]->distribution;
        Distribution type = type_of(n, n->in, d->type, d->forced);
        for (int k = 0; k < n->inputs; k++)
            if (d->forced[k])
                die("%s (node %d) uses a sum that is still pending", OP_INFO[n->op].name, n->id);
        if (n->distribution != UNTYPED && n->distribution != type)
            die("%s (node %d) has two types", OP_INFO[n->op].name, n->id);
        n->distribution = type;
    }
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
    d.type = NEW_ARRAY(Distribution, most);
    d.forced = NEW_ARRAY(bool, most);
    price(&d);
    Node **in = NEW_ARRAY(Node *, most);
    memory_use(outer);
    for (int i = 0; i < g->node_count; i++)
        distribute_one(&d, g->nodes[i], in);
    for (int i = 0; i < g->result_count; i++)
        distribute_result(&d, g->results[i]);
    check_types(&d);
    memory_free(own);
    if (g != given)
        graph_free(g);
    return d.target;
}
