/* update.c: gradients meet the optimizer.
 *
 * In: a train graph with ROLE_GRADIENT results and, in the updates, GRADIENT leaves. Out: a graph in which every such
 * leaf is the gradient itself, clipped if the model says so; ROLE_GRADIENT is gone; with clipping by the global norm
 * ROLE_REPORT grad_norm is there.
 *
 * GRADIENT leaves may stand before the gradients in the old graph. So the new one is built in two sweeps: first what does
 * not depend on a leaf, then, behind the clipping, what does.
 *
 * The norm is taken in double of what all devices and samples give together: a square is not linear, so `distribute`
 * reduces a gradient before it is squared. */
#include "compiler/passes.h"

typedef struct Updater {
    Graph *target;
    Node **gradients;   /* by variable; NULL: none */
} Updater;

/* pairwise, so that depth and rounding stay small */
static Node *add_all(Graph *g, Node **terms, int count)
{
    while (count > 1) {
        int half = 0;
        for (int i = 0; i < count; i += 2)
            terms[half++] = i + 1 < count ? graph_binary(g, OP_ADD, terms[i], terms[i + 1]) : terms[i];
        count = half;
    }
    return count ? terms[0] : graph_number(g, 0, F64);
}

static Node *square_sum(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    x = graph_cast(g, x, F64);
    return graph_sum(g, graph_binary(g, OP_MUL, x, x), axes, x->shape.rank);
}

/* min(1, limit / (norm + 1e-6)), as in torch */
static Node *shrink_factor(Graph *g, Node *norm, double limit)
{
    Node *ratio = graph_binary(g, OP_DIV, graph_number(g, limit, F64), graph_binary(g, OP_ADD, norm, graph_number(g, 1e-6, F64)));
    Node *one = graph_number(g, 1, F64);
    return graph_where(g, graph_binary(g, OP_LT, one, ratio), one, ratio);
}

static Node *scale(Graph *g, Node *x, Node *factor) { return graph_binary(g, OP_MUL, x, graph_cast(g, factor, x->dtype)); }

/* in [-limit, limit]; NaN stays */
static Node *limit_elements(Graph *g, Node *x, double limit)
{
    Node *most = graph_fill(g, limit, x->shape, x->dtype), *least = graph_fill(g, -limit, x->shape, x->dtype);
    Node *above = graph_where(g, graph_binary(g, OP_LT, most, x), most, x);
    return graph_where(g, graph_binary(g, OP_LT, x, least), least, above);
}

static void clip(Updater *u, const Model *m)
{
    Graph *g = u->target;
    Node **squares = NULL, *norm = NULL;
    int count = 0;
    g->backward = false;
    g->path = "";
    for (int v = 0; v < m->variable_count && m->clip_kind == CLIP_GLOBAL_NORM; v++)
        if (u->gradients[v]) {
            g->at = m->variables[v].at;
            Node *square = square_sum(g, u->gradients[v]);
            APPEND(squares, count, square);
        }
    if (m->clip_kind == CLIP_GLOBAL_NORM) {
        norm = graph_unary(g, OP_SQRT, add_all(g, squares, count));
        graph_result(g, ROLE_REPORT, "grad_norm", 0, norm, NULL);
    }
    for (int v = 0; v < m->variable_count; v++) {
        Node *x = u->gradients[v];
        if (!x)
            continue;
        g->at = m->variables[v].at;
        switch (m->clip_kind) {
        case CLIP_NONE: break;
        case CLIP_GLOBAL_NORM: x = scale(g, x, shrink_factor(g, norm, m->clip)); break;
        case CLIP_NORM: x = scale(g, x, shrink_factor(g, graph_unary(g, OP_SQRT, square_sum(g, x)), m->clip)); break;
        case CLIP_VALUE: x = limit_elements(g, x, m->clip); break;
        }
        u->gradients[v] = x;
    }
}

Graph *update(Graph *train)
{
    const Model *m = train->model;
    Graph *g = graph_new(train->model, train->name, NULL);
    Updater u = {.target = g, .gradients = NEW_ARRAY(Node *, m->variable_count)};
    bool *late = NEW_ARRAY(bool, train->node_count); /* depends on a GRADIENT leaf */
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        late[i] = n->op == OP_GRADIENT;
        for (int k = 0; k < n->inputs; k++)
            late[i] = late[i] || late[n->in[k]->id];
        if (!late[i])
            graph_copy_node(g, n);
    }
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role != ROLE_GRADIENT)
            continue;
        if (late[r->value->id])
            die("the gradient of %s depends on gradients", m->variables[r->index].name);
        u.gradients[r->index] = r->value->twin;
    }
    clip(&u, m);
    for (int i = 0; i < train->node_count; i++) {
        Node *n = train->nodes[i];
        if (!late[i])
            continue;
        if (n->op != OP_GRADIENT) {
            graph_copy_node(g, n);
            continue;
        }
        int64_t v = n->ints[0];
        stand_at(g, n);
        n->twin = u.gradients[v] ? u.gradients[v] : graph_fill(g, 0, n->shape, n->dtype);
    }
    /* results in their old order, reports of clipping behind them */
    Result *made = g->results;
    int made_count = g->result_count;
    g->results = NULL;
    g->result_count = 0;
    for (int i = 0; i < train->result_count; i++) {
        Result r = train->results[i];
        if (r.role == ROLE_GRADIENT)
            continue;
        r.value = r.value->twin;
        r.weight = r.weight ? r.weight->twin : NULL;
        APPEND(g->results, g->result_count, r);
    }
    for (int i = 0; i < made_count; i++)
        APPEND(g->results, g->result_count, made[i]);
    return g;
}
