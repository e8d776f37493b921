/* simplify.c: fold, share, drop.
 *
 * In: any graph. Out: a graph with the same results, without dead nodes, in which constants are folded, chains of views and casts
 * are one, and every EINSUM is a contraction of two operands (simplify/einsum.c).
 *
 * Each round visits the live nodes once, in order; a node is rebuilt from its new inputs, and the rules of its class (RULES) are
 * applied until none applies (simplify/rewrite.c). Equal nodes become one because graph_node shares them. Rounds end when one
 * changes nothing; there are at most ROUNDS, so the stage is linear in the number of nodes.
 *
 * Invariant: a node with a value for every sample may become one that is the same for all. A sum over samples of it stays a sum
 * (graph_rebuild selects the valid samples), and so do its uses in results of single samples. */
#include "compiler/passes/simplify/rules.h"
#include "compiler/passes/simplify/simplify.h"

enum { ROUNDS = 6 };

static void add_uses(Simplifier *s, const Node *n, int uses)
{
    if (n->id >= s->capacity) {
        int capacity = 2 * n->id + 64;
        Memory *outer = memory_use(s->tables);
        s->uses = grow(s->uses, sizeof *s->uses * (size_t)s->capacity, sizeof *s->uses * (size_t)capacity);
        memory_use(outer);
        s->capacity = capacity;
    }
    s->uses[n->id] += uses;
}

/* ---- the rules, by class of operation; the larger ones are in files of their own */

/* A result without elements is a constant, so that no kernel reduces to nothing. */
static Node *rule_many(Simplifier *s, Node *n)
{
    if (shape_count(&n->shape) == 0)
        return fill_like(s, n, 0);
    switch (n->op) {
    case OP_SUM: return rule_sum(s, n);
    case OP_EINSUM: return rule_einsum(s, n);
    case OP_WINDOW_SUM: return rule_window_sum(s, n);
    case OP_WINDOW_MAX: return rule_window_max(s, n);
    default: return fold_by_interpreter(s, n);
    }
}

static Node *rule_marker(Simplifier *s, Node *n)
{
    if (op_reduces(n->op) && (n->in[0]->op == n->op || is_constant(n->in[0], 0)))
        return n->in[0];
    return n->op == OP_STOP_GRADIENT && s->differentiated ? n->in[0] : NULL;
}

static Node *rule_leaf(Simplifier *s, Node *n)
{
    return n->op == OP_RUN && n->ints[0] == RUN_SAMPLES && s->samples ? graph_weak(s->target, (double)s->samples) : NULL;
}

/* clang-format off */
static Rule *const RULES[REGION + 1] = {
    [LEAF] = rule_leaf,   [ELEMENTWISE] = rule_elementwise, [VIEW] = rule_view,     [REDUCTION] = rule_many, [RUNNING] = rule_many,
    [CONTRACTION] = rule_many, [WINDOW] = rule_many, [INDEXING] = rule_many,           [MARK] = rule_marker,
};
/* clang-format on */

/* Returns how often live nodes and results use each node; 0: dead. */
static int *count_uses(const Graph *g)
{
    int *uses = NEW_ARRAY(int, g->node_count);
    for (int i = 0; i < g->result_count; i++) {
        uses[g->results[i].value->id]++;
        if (g->results[i].weight)
            uses[g->results[i].weight->id]++;
    }
    for (int i = 0; i < g->node_count; i++) /* a carry stays, even if no step reads it */
        if (g->nodes[i]->op == OP_ARG && g->nodes[i]->ints[0] < g->kind_count && g->kinds[g->nodes[i]->ints[0]] == AS_CARRY)
            uses[i]++;
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; uses[i] && k < g->nodes[i]->inputs; k++)
            uses[g->nodes[i]->in[k]->id]++;
    return uses;
}

/* ---- the sign of a relu's input */

/* Finds what nodes made by differentiate use, directly or through element-wise nodes and views. A relu and its test x <= 0 do not
 * count: ask_result_instead decides about those. */
static bool *find_backward_needs(const Graph *g, const int *uses)
{
    bool *needs = NEW_ARRAY(bool, g->node_count);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        OpClass c = OP_INFO[n->op].op_class;
        bool asks = (n->op == OP_LE && is_constant(n->in[1], 0)) || is_relu(n);
        if (!uses[i] || asks || !(n->backward || ((c == ELEMENTWISE || c == VIEW) && needs[i])))
            continue;
        for (int k = 0; k < n->inputs; k++)
            needs[n->in[k]->id] = true;
    }
    return needs;
}

enum { CHEAP_CHAIN = 8 };

/* Returns true if z is a few element-wise operations away from a single large value, and backward reads that value, or one in
 * between, anyway: there z <= 0 is computed again from z (a batchnorm before a relu). */
static bool made_of_needed(const Simplifier *s, const Node *z)
{
    double elements = (double)shape_count(&z->shape);
    for (int i = 0; i < CHEAP_CHAIN; i++) {
        const Node *large = NULL;
        if (OP_INFO[z->op].op_class != ELEMENTWISE || OP_INFO[z->op].flops > 1)
            return false;
        for (int k = 0; k < z->inputs; k++) {
            const Node *x = z->in[k];
            bool small = x->op == OP_CONSTANT || !x->has_samples ||
                         (x->op == OP_BROADCAST && 2 * (double)shape_count(&x->in[0]->shape) <= elements);
            if (small || x == large)
                continue;
            if (large)
                return false;
            large = x;
        }
        if (!large)
            return false;
        if (s->backward_needs[large->id])
            return true;
        z = large;
    }
    return false;
}

/* y = where(x <= 0, 0, x): other tests x <= 0 become y <= 0, which is equivalent, so that x need not be kept. */
static void ask_result_instead(Simplifier *s, const Node *n)
{
    const Node *y = n->mapped;
    if (!is_relu(n) || !is_relu(y) || n->in[0]->mapped != y->in[0] || made_of_needed(s, n->in[2]))
        return;
    set_position(s->target, n->in[0]);
    n->in[0]->mapped = NODE(s->target, OP_LE, NULL, 0, NULL, n->mapped, n->mapped->in[1]);
}

static void simplify_one(Simplifier *s, Node *n, int uses)
{
    Graph *g = s->target;
    set_position(g, n);
    Node *in_place[8], **in = n->inputs <= COUNT(in_place) ? in_place : NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = n->in[k]->mapped;
    if (n->op == OP_VALID && s->all_valid) {
        n->mapped = graph_fill(g, 1, n->shape, BOOL);
        s->changes++;
        return;
    }
    if (n->op == OP_GROUP_SUM && n->in[0]->has_samples && !in[0]->has_samples)
        in[0] = select_valid(g, in[0]);
    map_node(n, simplify_node(s, graph_rebuild(g, n, in)));
    add_uses(s, n->mapped, uses);
    ask_result_instead(s, n);
}

/* Lets a value of single samples keep them. */
static Node *result_value(Graph *g, const Result *r, const Node *old)
{
    set_position(g, old);
    bool of_samples = r->role == ROLE_OUTPUT || r->role == ROLE_LOSS || r->role == ROLE_METRIC;
    return of_samples && old->has_samples && !old->mapped->has_samples ? select_valid(g, old->mapped) : old->mapped;
}

static Graph *drop_dead(Graph *g) /* in its place */
{
    Graph *target = graph_in_place_of(g);
    Memory *own = memory_new(), *outer = memory_use(own);
    const int *uses = count_uses(g);
    memory_use(outer);
    for (int i = 0; i < g->node_count; i++)
        if (uses[i])
            graph_copy_node(target, g->nodes[i]);
    memory_free(own);
    graph_copy_results(target, g);
    graph_free(g);
    return target;
}

static bool *used_results(const Graph *g, const Node *scan, const int *uses)
{
    bool *used = NEW_ARRAY(bool, scan->ints[0] + scan->ints[4]);
    for (int i = scan->id + 1; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_RESULT && g->nodes[i]->in[0] == scan && uses[i])
            used[g->nodes[i]->ints[0]] = true;
    return used;
}

static Graph *simplify_round(Simplifier *s, Graph *g)
{
    s->target = graph_in_place_of(g);
    s->changes = 0;
    s->uses = NULL;
    s->capacity = 0;
    Memory *outer = memory_use(s->tables = memory_new());
    int *uses = count_uses(g);
    s->backward_needs = find_backward_needs(g, uses);
    Node ***results = NEW_ARRAY(Node **, g->node_count); /* of each SCAN, by its id */
    memory_use(outer);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (!uses[i])
            continue;
        if (n->op == OP_SCAN) {
            set_position(s->target, n);
            results[i] = simplify_scan(s, n, mapped_inputs(n), used_results(g, n, uses));
            n->mapped = NULL;
        } else if (n->op == OP_RESULT && results[n->in[0]->id]) {
            map_node(n, results[n->in[0]->id][n->ints[0]]);
            add_uses(s, n->mapped, uses[i]);
        } else {
            simplify_one(s, n, uses[i]);
        }
    }
    for (int i = 0; i < g->result_count; i++) {
        Result r = g->results[i];
        r.value = result_value(s->target, &r, r.value);
        r.weight = r.weight ? result_value(s->target, &r, r.weight) : NULL;
        graph_add_result(s->target, r);
    }
    memory_free(s->tables);
    return drop_dead(s->target);
}

static Graph *simplify_rounds(Simplifier *s, Graph *g)
{
    for (int i = 0; i < ROUNDS; i++) {
        int before = g->node_count;
        Graph *old = g;
        g = simplify_round(s, g);
        if (i > 0)
            graph_free(old);
        s->all_valid = false; /* remaining uses count samples */
        if (!s->changes && g->node_count == before)
            break;
    }
    return g;
}

Graph *simplify_body(const Simplifier *s, Graph *body)
{
    Simplifier own = {.rules = RULES,
                      .one_step = s->one_step,
                      .differentiated = s->differentiated,
                      .all_valid = s->all_valid,
                      .samples = s->samples};
    return simplify_rounds(&own, body);
}

/* cut: the step may be cut into micro-batches already. In exact models the same sums are multiples with and without
 * micro-batches: those that are found before that. */
static bool has_whole_step(const Model *m, bool cut) { return m->exact ? !cut : m->accumulate <= 1; }

Graph *simplify_with_arguments(Graph *g)
{
    Simplifier s = {.rules = RULES, .one_step = has_whole_step(g->model, false), .differentiated = true};
    return simplify_rounds(&s, g);
}

static Graph *simplify_with(Simplifier s, Graph *g)
{
    for (int i = 0; i < g->result_count; i++)
        s.differentiated = s.differentiated && g->results[i].role != ROLE_LOSS && g->results[i].role != ROLE_RESULT;
    return simplify_rounds(&s, g);
}

Graph *simplify_assuming(Graph *g, bool all_valid, int64_t samples)
{
    return simplify_with((Simplifier){.rules = RULES,
                                      .one_step = has_whole_step(g->model, true),
                                      .all_valid = all_valid,
                                      .samples = samples,
                                      .differentiated = true},
                         g);
}

Graph *simplify(Graph *g)
{
    return simplify_with((Simplifier){.rules = RULES, .one_step = has_whole_step(g->model, false), .differentiated = true}, g);
}
