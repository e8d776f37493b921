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
 * In exact models, whose sums are a binary tree over the virtual shards of the whole step (mgpu_exact.h), a micro-batch has a
 * subtree. Its Partial is reduced at once, and what is accumulated are sums of all devices, of which neighbours are added: a sum
 * over 2^l micro-batches waits for the next one in accumulator l. The prologue has one accumulator more, for the whole sum.
 *
 * A denominator is a REDUCE on which a value of a sample, or another sum over samples, depends. It must not depend on weights:
 * the forward pass of the other micro-batches would have to run first. Updates of Partial accumulators (metrics) are in both
 * graphs of the step: each adds its own samples. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

typedef struct Cut { /* a REDUCE */
    Node *reduce;
    bool needed_early; /* needed within forward or backward */
    int variable;      /* its accumulator, of exact models the first */
} Cut;

typedef struct Splitter {
    Model *model;
    const Graph *train;
    Cut *cuts;
    int cut_count;
    int *cut_of; /* by node id: the cut of a REDUCE + 1 */
    int levels;  /* of the tree over micro-batches of an exact model; else 0 */
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

/* early: the name of those of sums that are needed early; NULL: they get none */
static void add_accumulators(Splitter *s, const char *name, const char *early)
{
    for (int c = 0; c < s->cut_count; c++) {
        if (s->cuts[c].needed_early && !early)
            continue;
        const Node *p = s->cuts[c].reduce->in[0];
        int count = s->levels ? s->levels + s->cuts[c].needed_early : 1;
        s->cuts[c].variable = s->model->variable_count;
        for (int l = 0; l < count; l++) {
            Variable v = {.kind = ACCUMULATOR,
                          .dtype = p->dtype,
                          .shape = p->shape,
                          .placement = {{s->levels ? IS_REPLICATED : IS_PARTIAL}},
                          .owner = -1,
                          .at = p->at};
            v.name = format("%s.%d%s", s->cuts[c].needed_early ? early : name, c, s->levels ? format(".%d", l) : "");
            for (int i = 0; i < MAX_RANK; i++)
                v.order[i] = i;
            APPEND(s->model->variables, s->model->variable_count, v);
        }
    }
}

/* Returns the sum of p over the devices. */
static Node *reduced(Graph *g, const Cut *cut, Node *p)
{
    int from = g->node_count;
    set_position(g, cut->reduce);
    Node *sum = NODE(g, cut->reduce->op, NULL, 0, NULL, p);
    graph_place(g, from);
    return sum;
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

/* ---- exact models: a tree over the micro-batches */

/* Returns whether the sum over this micro-batch and the 2^level - 1 before it waits for the next one. */
static Node *sum_waits(Graph *g, int level, Shape shape)
{
    Node *place = graph_binary(g, OP_MOD, graph_run(g, RUN_MICRO, 0), graph_weak(g, (double)(INT64_C(2) << level)));
    return graph_broadcast(g, graph_binary(g, OP_EQ, place, graph_weak(g, (double)((INT64_C(1) << level) - 1))), shape);
}

/* Returns the sum of accumulators 0 to level - 1 and the micro-batch: over 2^level micro-batches, if this is the last of them. */
static Node *sum_of_level(Graph *g, const Cut *cut, Node *sum, int level)
{
    for (int l = 0; l < level; l++) {
        Node *before = graph_variable(g, cut->variable + l);
        sum = cut->reduce->op == OP_REDUCE_MOMENTS ? graph_merge_moments(g, before, sum) : graph_binary(g, OP_ADD, before, sum);
    }
    return sum;
}

/* Updates the first `count` accumulators of a cut: the sum waits in one of them. */
static void update_levels(const Splitter *s, Graph *g, const Cut *cut, Node *p, int count)
{
    Node *sum = reduced(g, cut, p);
    int from = g->node_count;
    set_position(g, cut->reduce);
    for (int l = 0; l < count; l++) {
        int v = cut->variable + l;
        Node *value = graph_where(g, sum_waits(g, l, sum->shape), sum_of_level(g, cut, sum, l), graph_variable(g, v));
        graph_result(g, ROLE_UPDATE, s->model->variables[v].name, v, value, NULL);
    }
    graph_place(g, from);
}

/* Returns the sum over all micro-batches, of which this is the last. */
static Node *sum_of_step(const Splitter *s, Graph *g, const Cut *cut, Node *p)
{
    Node *sum = reduced(g, cut, p);
    int from = g->node_count;
    set_position(g, cut->reduce);
    sum = sum_of_level(g, cut, sum, s->levels);
    graph_place(g, from);
    return sum;
}

/* ---- the graphs */

static void copy_placed(Graph *target, Node *n) { graph_copy_node(target, n)->placement = n->placement; }

/* Adds a micro-batch that is not the step's last, or one of the prologue. */
static void accumulate(const Splitter *s, Graph *g, const Cut *cut)
{
    Node *p = cut->reduce->in[0]->mapped;
    if (s->levels)
        update_levels(s, g, cut, p, s->levels + cut->needed_early);
    else
        graph_result(g, ROLE_UPDATE, s->model->variables[cut->variable].name, cut->variable, accumulated(g, cut, p), NULL);
}

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
        if (s->cuts[c].needed_early)
            accumulate(s, g, &s->cuts[c]);
    return g;
}

/* Returns what the prologue has summed, reduced. */
static Node *denominator(const Splitter *s, Graph *g, const Cut *cut)
{
    int from = g->node_count;
    set_position(g, cut->reduce);
    Node *sum = graph_variable(g, cut->variable + s->levels);
    sum = s->levels ? sum : NODE(g, cut->reduce->op, NULL, 0, NULL, sum);
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
            map_node(n, denominator(s, g, &s->cuts[s->cut_of[i] - 1]));
        else
            copy_placed(g, n);
    }
    for (int c = 0; c < s->cut_count; c++)
        if (!s->cuts[c].needed_early)
            accumulate(s, g, &s->cuts[c]);
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
        if (cut->needed_early)
            map_node(n, denominator(s, g, cut));
        else if (s->levels)
            map_node(n, sum_of_step(s, g, cut, n->in[0]->mapped));
        else
            map_node(n, reduced(g, cut, accumulated(g, cut, n->in[0]->mapped)));
    }
    graph_copy_results(g, train);
    return g;
}

static Splitter splitter(Model *m, const Graph *train)
{
    Splitter s = {.model = m, .train = train, .cut_of = NEW_ARRAY(int, train->node_count)};
    for (int64_t parts = m->exact ? m->accumulate : 1; parts > 1; parts /= 2)
        s.levels++;
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
    add_accumulators(&s, "accumulate", "prologue");
    *prologue = make_prologue(&s);
    *accumulate = make_accumulate(&s);
    *train_last = make_last(&s);
}

Graph *evaluate_micro_batches(Model *m, Graph *eval)
{
    Splitter s = splitter(m, eval);
    Graph *g = graph_new(m, eval->name, NULL);
    add_accumulators(&s, "evaluate", NULL);
    for (int i = 0; i < eval->node_count; i++) {
        Node *n = eval->nodes[i];
        const Cut *cut = s.cut_of[i] ? &s.cuts[s.cut_of[i] - 1] : NULL;
        if (!cut || cut->needed_early) {
            copy_placed(g, n);
            continue;
        }
        update_levels(&s, g, cut, n->in[0]->mapped, s.levels);
        map_node(n, sum_of_step(&s, g, cut, n->in[0]->mapped));
    }
    for (int i = 0; i < eval->result_count; i++) {
        Result r = eval->results[i];
        int from = g->node_count;
        r.value = r.value->mapped;
        r.weight = r.weight ? r.weight->mapped : NULL;
        set_position(g, eval->results[i].value);
        if (r.role == ROLE_UPDATE)
            r.value = graph_where(g, sum_waits(g, s.levels, r.value->shape), r.value, graph_variable(g, r.index));
        graph_place(g, from);
        graph_add_result(g, r);
    }
    return g;
}
