/* differentiate.c: losses -> gradients. In: a train graph with ROLE_LOSS results and composites. Out: a new graph of primitives
 * with the same other results, ROLE_REPORT "loss" (and "loss.NAME" if there are several terms) and a ROLE_GRADIENT for every
 * trained variable; in the graph of one of several objectives, for those that it updates, and it keeps its losses, which are
 * reported like metrics. gradients.c has the rules of single operations.
 *
 * A loss term is sum(w e) / sum(w) over elements and samples of the step. The gradient begins with its seed w / sum(w) at e, so
 * no later rule depends on batches (docs/design.md, Loss).
 *
 * The sweep visits the forward nodes from the last to the first. At each node all its uses have contributed; the sum of the
 * contributions goes to the node's rule, which contributes to the node's inputs. Partial contributions are added up before
 * others, so that a variable's gradient needs one reduction.
 *
 * A composite that composite.c has expanded is an event after the last node of its expansion: the contributions to its results so
 * far are taken from them and passed to composite_gradient. Contributions that reach nodes of the expansion in other ways (nodes
 * are shared) go through the ordinary rules; the gradient is the sum of both, because it is linear. */
#include "compiler/passes/composite.h"
#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

typedef struct ExpandedComposite { /* an expanded composite */
    int end;                       /* number of nodes when it was expanded */
    Node *composite, **inputs, **results;
    int result_count;
} ExpandedComposite;

typedef struct Expansion {
    Graph *g;
    ExpandedComposite *events;
    int event_count;
} Expansion;

/* ---- forward: the nodes of the train graph, composites expanded */

static void expand_nodes(Expansion *e, const Graph *from, Node **arguments)
{
    Node ***results_of = NEW_ARRAY(Node **, from->node_count); /* of composites, by id */
    for (int i = 0; i < from->node_count; i++) {
        Node *n = from->nodes[i];
        if (n->op == OP_ARG && arguments) {
            n->mapped = arguments[n->ints[0]];
        } else if (n->op == OP_RESULT && n->in[0]->op == OP_COMPOSITE) {
            map_node(n, results_of[n->in[0]->id][n->ints[0]]);
        } else if (n->op == OP_COMPOSITE) {
            const Graph *body = n->body;
            Node **inputs = mapped_inputs(n), **results = NEW_ARRAY(Node *, body->result_count);
            int count = 0;
            set_position(e->g, n);
            if (composite_expand(e->g, n, inputs, results)) {
                for (int k = 0; k < body->result_count; k++)
                    count += body->results[k].role == ROLE_RESULT;
                ExpandedComposite event = {e->g->node_count, n, inputs, results, count};
                APPEND(e->events, e->event_count, event);
            } else {
                expand_nodes(e, body, inputs);
                for (int k = 0; k < body->result_count; k++)
                    if (body->results[k].role == ROLE_RESULT)
                        results[count++] = body->results[k].value->mapped;
            }
            results_of[n->id] = results;
        } else {
            graph_copy_node(e->g, n);
        }
    }
}

/* ---- losses */

typedef struct LossTerm {
    const char *name;
    Node *value;       /* F64 [] */
    bool over_samples; /* value is a sum over samples: Partial */
    Node *at, *seed;   /* seed: the gradient of the loss at the node `at` */
} LossTerm;

static Node *sum_elements(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_sum(g, x, axes, x->shape.rank);
}

/* Returns the sum over elements, and over samples, in F64. */
static Node *sum_in_double(Graph *g, Node *x, bool over_samples)
{
    x = graph_cast(g, sum_elements(g, x), F64);
    return over_samples ? graph_sum_samples(g, x, NULL, 0) : x;
}

static Node *fill_like(Graph *g, const Node *x, double value) { return graph_fill(g, value, x->shape, x->dtype); }

static LossTerm unweighted_term(Graph *g, Node *e)
{
    double count = (double)shape_count(&e->shape);
    LossTerm t = {.over_samples = e->has_samples};
    if (count == 0) {
        t.value = graph_number(g, 0, F64);
        t.seed = fill_like(g, e, 0);
    } else if (e->has_samples) {
        Node *sum = select_valid(g, graph_cast(g, sum_elements(g, e), F64));
        Node *samples = graph_run(g, RUN_SAMPLES, 0), *elements = graph_binary(g, OP_MUL, graph_weak(g, count), samples);
        Node *scale = graph_binary(g, OP_DIV, graph_weak(g, 1), elements);
        t.value = graph_binary(g, OP_MUL, graph_sum_samples(g, sum, NULL, 0), scale);
        g->backward = true;
        t.seed = select_valid(g, graph_broadcast(g, graph_strong(g, scale, e->dtype), e->shape));
    } else {
        Node *share = graph_weak(g, 1 / count);
        t.value = graph_binary(g, OP_MUL, sum_in_double(g, e, false), share);
        t.seed = fill_like(g, e, 1 / count);
    }
    g->backward = false;
    return t;
}

static LossTerm weighted_term(Graph *g, Node *e, Node *w)
{
    LossTerm t = {.over_samples = e->has_samples || w->has_samples};
    Node *zero = graph_number(g, 0, e->dtype);
    Shape shape = graph_binary(g, OP_MUL, graph_cast(g, w, e->dtype), e)->shape; /* of their product */
    while (w->op == OP_BROADCAST) /* `unused` shows along which axes it is the same */
        w = w->in[0];
    w = graph_cast(g, w, e->dtype);
    w = t.over_samples ? select_valid(g, w) : w;
    Node *unused = graph_broadcast(g, graph_binary(g, OP_EQ, w, zero), shape);
    w = graph_broadcast(g, w, shape);
    Node *weighed = graph_where(g, unused, zero, graph_binary(g, OP_MUL, w, e));
    Node *sum_of_weights = sum_in_double(g, w, t.over_samples), *nothing = graph_number(g, 0, F64);
    Node *inverse = graph_binary(g, OP_DIV, graph_weak(g, 1), sum_of_weights);
    Node *scale = graph_where(g, graph_binary(g, OP_EQ, sum_of_weights, nothing), nothing, inverse);
    t.value = graph_binary(g, OP_MUL, sum_in_double(g, weighed, t.over_samples), scale);
    g->backward = true;
    Node *seed = graph_where(g, unused, zero, graph_binary(g, OP_MUL, w, graph_cast(g, scale, e->dtype)));
    t.seed = gradient_shrink(g, seed, e->shape, t.over_samples && !e->has_samples);
    g->backward = false;
    return t;
}

/* f16: multiplies seeds by the loss scale. */
static Node *scaled_seed(Graph *g, Node *seed)
{
    if (g->model->precision != F16)
        return seed;
    g->backward = true;
    Node *scale = graph_cast(g, graph_variable(g, g->model->loss_scale), seed->dtype);
    seed = graph_binary(g, OP_MUL, seed, graph_broadcast(g, scale, seed->shape));
    g->backward = false;
    return seed;
}

static LossTerm *make_terms(Graph *g, const Graph *train, int *count)
{
    LossTerm *terms = NULL;
    *count = 0;
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role != ROLE_LOSS)
            continue;
        set_position(g, r->value);
        g->at = r->at ? r->at : r->value->at;
        g->backward = false;
        Node *value = r->value->mapped, *e = graph_strong(g, value, F32);
        if (!dtype_is_float(e->dtype))
            e = graph_cast(g, e, F32);
        LossTerm t = r->weight ? weighted_term(g, e, r->weight->mapped) : unweighted_term(g, e);
        t.seed = scaled_seed(g, t.seed);
        t.at = value; /* a loss that is an integer or a literal has no gradient */
        t.name = r->name;
        APPEND(terms, *count, t);
    }
    return terms;
}

static void report_losses(Graph *g, const LossTerm *terms, int count)
{
    Node *total = NULL;
    for (int over = 1; over >= 0; over--) /* Partial ones first: one reduction for all of them */
        for (int i = 0; i < count; i++)
            if (terms[i].over_samples == over)
                total = total ? graph_binary(g, OP_ADD, total, terms[i].value) : terms[i].value;
    if (!total)
        total = graph_number(g, 0, F64);
    graph_result(g, ROLE_REPORT, "loss", 0, total, NULL);
    for (int i = 0; i < count && (count > 1 || g->model->objective_count); i++)
        graph_result(g, ROLE_REPORT, format("loss.%s", terms[i].name ? terms[i].name : "?"), 0, terms[i].value, NULL);
}

/* ---- the sweep */

static void composite_event(Sweep *s, const ExpandedComposite *event)
{
    Node **gradients = NEW_ARRAY(Node *, event->result_count), **to_inputs = NEW_ARRAY(Node *, event->composite->inputs);
    bool any = false, wanted = false;
    for (int k = 0; k < event->composite->inputs; k++)
        wanted = wanted || sweep_needs(s, event->inputs[k]);
    for (int k = 0; k < event->result_count && wanted; k++) {
        set_position(s->g, event->composite);
        s->g->backward = true;
        gradients[k] = sweep_take(s, event->results[k]);
        any = any || gradients[k];
    }
    if (!any)
        return;
    if (composite_gradient(s, event->composite, event->inputs, event->results, gradients, to_inputs)) {
        for (int k = 0; k < event->composite->inputs; k++)
            if (to_inputs[k])
                sweep_contribute(s, event->inputs[k], to_inputs[k]);
    } else {
        for (int k = 0; k < event->result_count; k++)
            if (gradients[k])
                sweep_contribute(s, event->results[k], gradients[k]);
    }
}

static void sweep(Sweep *s, const Expansion *e)
{
    int event = e->event_count - 1;
    for (int i = s->forward_count - 1; i >= 0; i--) {
        for (; event >= 0 && e->events[event].end > i; event--)
            composite_event(s, &e->events[event]);
        sweep_node(s, s->g->nodes[i]);
    }
}

/* Returns for each variable whether the graph trains it. */
static bool *trained_in(const Graph *train)
{
    const Model *m = train->model;
    bool *trained = NEW_ARRAY(bool, m->variable_count);
    for (int v = 0; v < m->variable_count && !m->objective_count; v++)
        trained[v] = m->variables[v].trained;
    for (int i = 0; i < train->result_count && m->objective_count; i++)
        if (train->results[i].role == ROLE_UPDATE)
            trained[train->results[i].index] = m->variables[train->results[i].index].trained;
    return trained;
}

Graph *differentiate(Graph *train)
{
    Model *model = train->model;
    train = hoist_loops(train); /* the rule of SCAN requires all carries to be of one kind */
    Graph *g = graph_new(model, train->name, NULL);
    Expansion expansion = {.g = g};
    expand_nodes(&expansion, train, NULL);
    const bool *trained = trained_in(train);
    Sweep s = sweep_begin(g, trained);
    int term_count;
    LossTerm *terms = make_terms(g, train, &term_count);
    report_losses(g, terms, term_count);
    for (int i = 0; i < term_count; i++)
        if (terms[i].at->dtype == terms[i].seed->dtype)
            sweep_contribute(&s, terms[i].at, terms[i].seed);
    sweep(&s, &expansion);
    for (int v = 0; v < model->variable_count; v++) {
        const Variable *variable = &model->variables[v];
        if (!trained[v])
            continue;
        Node *n = sweep_find_variable(&s, v), *gradient = NULL;
        g->at = variable->at;
        g->path = "";
        g->backward = true;
        if (n)
            gradient = sweep_take(&s, n);
        if (gradient)
            gradient_name(gradient, format("%s_gradient", last_word(variable->name)));
        else
            gradient = graph_fill(g, 0, variable->shape, variable->dtype);
        graph_result(g, ROLE_GRADIENT, variable->name, v, gradient, NULL);
    }
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role == ROLE_LOSS && !model->objective_count)
            continue;
        g->at = r->at;
        graph_result(g, r->role, r->name, r->index, r->value->mapped, r->weight ? r->weight->mapped : NULL);
    }
    return sweep_merge(&s);
}
