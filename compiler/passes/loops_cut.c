/* loops_cut.c: the least data that must cross from one side to the other: a minimum cut of nodes.
 *
 * In: a body; for each node, the side on which it can be computed and the cost of letting it cross; and what the far side
 * needs. Out: the nodes that cross. Every node is an edge with its bytes as capacity from its entry to its exit; an operation
 * connects the exits of its inputs to its own entry; what is computed on the near side only is connected to the source, what
 * is needed to the sink. Dinic's algorithm: augmenting paths along shortest paths. Of all minimum cuts the one nearest to the
 * sink is taken. */
#include "compiler/passes/loops.h"

typedef struct Edge {
    int to, back;
    double residual;
} Edge; /* back: index of its reverse among the edges of `to` */
typedef struct Vertex {
    Edge *edges;
    int count, level, next;
} Vertex;
typedef struct Flow {
    Vertex *vertices;
    int count, source, target;
    int *queue;
} Flow;

static const double ENDLESS = 1e300;

static void connect(Flow *f, int from, int to, double capacity)
{
    Edge e = {to, f->vertices[to].count, capacity}, back = {from, f->vertices[from].count, 0};
    APPEND(f->vertices[from].edges, f->vertices[from].count, e);
    APPEND(f->vertices[to].edges, f->vertices[to].count, back);
}

static bool find_levels(Flow *f)
{
    int head = 0, tail = 0;
    for (int v = 0; v < f->count; v++) {
        f->vertices[v].level = -1;
        f->vertices[v].next = 0;
    }
    f->vertices[f->source].level = 0;
    f->queue[tail++] = f->source;
    while (head < tail) {
        int v = f->queue[head++];
        for (int k = 0; k < f->vertices[v].count; k++) {
            const Edge *e = &f->vertices[v].edges[k];
            if (e->residual > 0 && f->vertices[e->to].level < 0) {
                f->vertices[e->to].level = f->vertices[v].level + 1;
                f->queue[tail++] = e->to;
            }
        }
    }
    return f->vertices[f->target].level >= 0;
}

/* Augments one path of rising levels from the source as far as possible; false: there is none. */
static bool push(Flow *f, Edge **path)
{
    int depth = 0, v = f->source;
    while (v != f->target) {
        Vertex *at = &f->vertices[v];
        Edge *e = at->next < at->count ? &at->edges[at->next] : NULL;
        if (e && !(e->residual > 0 && f->vertices[e->to].level == at->level + 1)) {
            at->next++;
        } else if (e) {
            path[depth++] = e;
            v = e->to;
        } else if (depth == 0) {
            return false;
        } else { /* a dead end: back, and past it */
            depth--;
            v = f->vertices[path[depth]->to].edges[path[depth]->back].to;
            f->vertices[v].next++;
        }
    }
    double most = ENDLESS;
    for (int i = 0; i < depth; i++)
        most = path[i]->residual < most ? path[i]->residual : most;
    for (int i = 0; i < depth; i++) {
        path[i]->residual -= most;
        f->vertices[path[i]->to].edges[path[i]->back].residual += most;
    }
    return true;
}

/* Returns the vertices from which the sink can still be reached. */
static bool *find_target_side(Flow *f)
{
    bool *at_sink = NEW_ARRAY(bool, f->count);
    int head = 0, tail = 0;
    at_sink[f->target] = true;
    f->queue[tail++] = f->target;
    while (head < tail) {
        int v = f->queue[head++];
        for (int k = 0; k < f->vertices[v].count; k++) {
            const Edge *e = &f->vertices[v].edges[k];
            int from = e->to;
            if (!at_sink[from] && f->vertices[from].edges[e->back].residual > 0) {
                at_sink[from] = true;
                f->queue[tail++] = from;
            }
        }
    }
    return at_sink;
}

void least_cut(const Graph *body, const Side *side, const double *bytes, const bool *needed, bool *crosses)
{
    int nodes = body->node_count;
    Flow f = {.count = 2 * nodes + 2, .source = 2 * nodes, .target = 2 * nodes + 1};
    f.vertices = NEW_ARRAY(Vertex, f.count);
    f.queue = NEW_ARRAY(int, f.count);
    for (int i = 0; i < nodes; i++) {
        const Node *n = body->nodes[i];
        if (side[i] == SIDE_GIVEN)
            continue;
        connect(&f, 2 * i, 2 * i + 1, side[i] == SIDE_FAR ? ENDLESS : bytes[i] > 0 ? bytes[i] : 1);
        if (side[i] == SIDE_FIXED)
            connect(&f, f.source, 2 * i, ENDLESS);
        for (int k = 0; side[i] != SIDE_FIXED && k < n->inputs; k++)
            if (side[n->in[k]->id] != SIDE_GIVEN)
                connect(&f, 2 * n->in[k]->id + 1, 2 * i, ENDLESS);
        if (needed[i])
            connect(&f, 2 * i + 1, f.target, ENDLESS);
    }
    /* something needed depends on it: what is computed on the far side only needs its inputs there */
    bool *leads = NEW_ARRAY(bool, nodes);
    for (int i = nodes - 1; i >= 0; i--) {
        leads[i] = leads[i] || needed[i];
        if (leads[i] && side[i] == SIDE_FAR)
            connect(&f, 2 * i, f.target, ENDLESS);
        for (int k = 0; leads[i] && (side[i] == SIDE_FREE || side[i] == SIDE_FAR) && k < body->nodes[i]->inputs; k++)
            leads[body->nodes[i]->in[k]->id] = true;
    }
    Edge **path = NEW_ARRAY(Edge *, f.count);
    while (find_levels(&f))
        while (push(&f, path))
            ;
    bool *at_sink = find_target_side(&f);
    for (int i = 0; i < nodes; i++)
        crosses[i] = side[i] != SIDE_GIVEN && side[i] != SIDE_FAR && at_sink[2 * i + 1] && !at_sink[2 * i];
}
