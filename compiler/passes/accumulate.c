/* accumulate.c: a step of several micro-batches.
 *
 * In: the distributed train graph; every sum over the samples of a step ends in a REDUCE. Out: three graphs.
 *
 *   prologue     once for every micro-batch, before the step: sums that forward or backward need (denominators of
 *                losses). Each is added to a persistent accumulator of its own.
 *   accumulate   forward and backward of a micro-batch that is not the last: the Partial before a REDUCE is
 *                added to an accumulator.
 *   train_last   the last micro-batch: accumulator + Partial is reduced; updates and reports follow.
 *
 * All accumulators start from zero where RUN_MICRO is 0. In accumulate and train_last the REDUCE of a denominator reduces the
 * prologue's accumulator, which is complete before the first of them runs.
 *
 * A denominator is a REDUCE on which a value of a sample, or another sum over samples, depends. It must not depend on weights:
 * the forward pass of the other micro-batches would have to run first. Updates of Partial accumulators (metrics) are in both
 * graphs of the step: each adds its own samples. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

typedef struct Cut { /* a REDUCE */
    Node *reduce;
    bool needed_early; /* needed within forward or backward */
    int variable;
} Cut;

typedef struct Splitter {
    Model *model;
    const Graph *train;
    Cut *cuts;
    int cut_count;
    int *cut_of; /* by node id: the cut of a REDUCE + 1 */
} Splitter;

/* Marks the nodes that the marked nodes depend on. */
static void mark_needed(const Graph *g, bool *needed)
{
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < g->nodes[i]->inputs; k++)
            needed[g->nodes[i]->in[k]->id] = true;
}

static void find_cuts(Splitter *s)
{
    const Graph *g = s->train;
    bool *within = NEW_ARRAY(bool, g->node_count); /* needed by a value of a sample or a Partial */
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        bool mark = within[i] || node_is_sharded(n, SAMPLES_AXIS) || node_is_placed(n, PARTIAL);
        for (int k = 0; mark && k < n->inputs; k++)
            within[n->in[k]->id] = true;
    }
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (!op_reduces(n->op))
            continue;
        Cut cut = {n, within[i], 0};
        APPEND(s->cuts, s->cut_count, cut);
        s->cut_of[i] = s->cut_count;
    }
}

/* Returns a sum that the prologue needs, but that depends on weights or on other sums; states change at the end of the step.
 * NULL: there is none. */
static const Node *sum_too_early(const Splitter *s)
{
    const Graph *g = s->train;
    const Node *found = NULL;
    bool *late = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count && !found; i++) {
        const Node *n = g->nodes[i];
        bool state = n->op == OP_VARIABLE && s->model->variables[n->ints[0]].kind == STATE;
        late[i] = (n->op == OP_VARIABLE && !state) || op_reduces(n->op);
        for (int k = 0; k < n->inputs; k++)
            late[i] = late[i] || late[n->in[k]->id];
        if (s->cut_of[i] && s->cuts[s->cut_of[i] - 1].needed_early && late[n->in[0]->id])
            found = n;
    }
    return found;
}

static void add_accumulators(Splitter *s)
{
    for (int c = 0; c < s->cut_count; c++) {
        const Node *p = s->cuts[c].reduce->in[0];
        Variable v = {
            .kind = ACCUMULATOR, .dtype = p->dtype, .shape = p->shape, .placement = {{IS_PARTIAL}}, .owner = -1, .at = p->at};
        v.name = format("%s.%d", s->cuts[c].needed_early ? "prologue" : "accumulate", c);
        for (int i = 0; i < MAX_RANK; i++)
            v.order[i] = i;
        s->cuts[c].variable = s->model->variable_count;
        APPEND(s->model->variables, s->model->variable_count, v);
    }
}

/* Returns where(micro == 0, 0, accumulator) + p. Moments are merged; each device has its own. */
static Node *accumulated(Graph *g, const Cut *cut, Node *p)
{
    bool moments = cut->reduce->op == OP_REDUCE_MOMENTS;
    int from = g->node_count;
    set_position(g, p);
    Node *acc = graph_variable(g, cut->variable);
    Node *micro = graph_run(g, RUN_MICRO, 0), *zero = graph_weak(g, 0);
    Node *first = graph_broadcast(g, graph_binary(g, OP_EQ, micro, zero), p->shape);
    Node *nothing = graph_fill(g, 0, p->shape, p->dtype);
    if (moments)
        acc = NODE(g, OP_OWN, NULL, 0, NULL, acc);
    Node *before = graph_where(g, first, nothing, acc);
    Node *sum = moments ? graph_merge_moments(g, before, NODE(g, OP_OWN, NULL, 0, NULL, p)) : graph_binary(g, OP_ADD, before, p);
    graph_place(g, from);
    return sum;
}

static void copy_placed(Graph *target, Node *n) { graph_copy_node(target, n)->placement = n->placement; }

static Graph *make_prologue(const Splitter *s)
{
    const Graph *train = s->train;
    Graph *g = graph_new(s->model, "prologue", NULL);
    bool *needed = NEW_ARRAY(bool, train->node_count), any = false;
    for (int c = 0; c < s->cut_count; c++)
        if (s->cuts[c].needed_early)
            any = needed[s->cuts[c].reduce->in[0]->id] = true;
    if (!any)
        return NULL;
    mark_needed(train, needed);
    for (int i = 0; i < train->node_count; i++)
        if (needed[i])
            copy_placed(g, train->nodes[i]);
    for (int c = 0; c < s->cut_count; c++)
        if (s->cuts[c].needed_early) {
            Node *sum = accumulated(g, &s->cuts[c], s->cuts[c].reduce->in[0]->mapped);
            graph_result(g, ROLE_UPDATE, s->model->variables[s->cuts[c].variable].name, s->cuts[c].variable, sum, NULL);
        }
    return g;
}

/* Returns what the prologue has summed, reduced. */
static Node *denominator(Graph *g, const Cut *cut)
{
    int from = g->node_count;
    set_position(g, cut->reduce);
    Node *sum = NODE(g, cut->reduce->op, NULL, 0, NULL, graph_variable(g, cut->variable));
    graph_place(g, from);
    return sum;
}

static bool is_partial_update(const Model *m, const Result *r)
{
    return r->role == ROLE_UPDATE && variable_is_placed(&m->variables[r->index], IS_PARTIAL);
}

static Graph *make_accumulate(const Splitter *s)
{
    const Graph *train = s->train;
    Graph *g = graph_new(s->model, "accumulate", NULL);
    bool *needed = NEW_ARRAY(bool, train->node_count);
    for (int c = 0; c < s->cut_count; c++)
        if (!s->cuts[c].needed_early)
            needed[s->cuts[c].reduce->in[0]->id] = true;
    for (int i = 0; i < train->result_count; i++)
        if (is_partial_update(s->model, &train->results[i]))
            needed[train->results[i].value->id] = true;
    for (int i = train->node_count - 1; i >= 0; i--) /* stops at denominators */
        for (int k = 0; needed[i] && !s->cut_of[i] && k < train->nodes[i]->inputs; k++)
            needed[train->nodes[i]->in[k]->id] = true;
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        if (!needed[i])
            continue;
        if (s->cut_of[i])
            map_node(n, denominator(g, &s->cuts[s->cut_of[i] - 1]));
        else
            copy_placed(g, n);
    }
    for (int c = 0; c < s->cut_count; c++)
        if (!s->cuts[c].needed_early) {
            Node *sum = accumulated(g, &s->cuts[c], s->cuts[c].reduce->in[0]->mapped);
            graph_result(g, ROLE_UPDATE, s->model->variables[s->cuts[c].variable].name, s->cuts[c].variable, sum, NULL);
        }
    for (int i = 0; i < train->result_count; i++) {
        Result r = train->results[i];
        if (!is_partial_update(s->model, &r))
            continue;
        r.value = r.value->mapped;
        graph_add_result(g, r);
    }
    return g;
}

static Graph *make_last(const Splitter *s)
{
    const Graph *train = s->train;
    Graph *g = graph_new(s->model, train->name, NULL);
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        if (!s->cut_of[i]) {
            copy_placed(g, n);
            continue;
        }
        const Cut *cut = &s->cuts[s->cut_of[i] - 1];
        if (cut->needed_early) {
            map_node(n, denominator(g, cut));
        } else {
            Node *sum = accumulated(g, cut, n->in[0]->mapped);
            int from = g->node_count;
            set_position(g, n);
            map_node(n, NODE(g, n->op, NULL, 0, NULL, sum));
            graph_place(g, from);
        }
    }
    graph_copy_results(g, train);
    return g;
}

static Splitter splitter(Model *m, const Graph *train)
{
    Splitter s = {.model = m, .train = train, .cut_of = NEW_ARRAY(int, train->node_count)};
    find_cuts(&s);
    return s;
}

bool has_micro_batches(Model *m, const Graph *train)
{
    Splitter s = splitter(m, train);
    return !sum_too_early(&s);
}

void split_micro_batches(Model *m, Graph *train, Graph **train_last, Graph **accumulate, Graph **prologue)
{
    *train_last = train;
    *accumulate = *prologue = NULL;
    if (m->accumulate <= 1)
        return;
    Splitter s = splitter(m, train);
    const Node *early = sum_too_early(&s);
    if (early)
        error_at(early->at,
                 "with accumulate = %lld this sum over the batch is needed before the other micro-batches are computed, and "
                 "depends on weights; sum over groups of samples (batchnorm: stats = N), let the weights of a loss "
                 "depend on inputs only, or set accumulate = 1",
                 (long long)m->accumulate);
    add_accumulators(&s);
    *prologue = make_prologue(&s);
    *accumulate = make_accumulate(&s);
    *train_last = make_last(&s);
}
