/* reachable.c: which nodes some nodes depend on, also in bodies, of which only the results that are used count. */
#include "dsl/elaborate.h"

bool *reached_in(Reachable *r, const Graph *g)
{
    for (int k = 0; k < r->graph_count; k++)
        if (r->graphs[k] == g)
            return r->seen[k];
    int count = r->graph_count;
    bool *seen = NEW_ARRAY(bool, g->node_count);
    APPEND(r->graphs, count, g);
    APPEND(r->seen, r->graph_count, seen);
    return seen;
}

/* Returns for each input of a composite whether the visited part of its body reads it. */
static const bool *needed_of(Reachable *r, const Node *composite)
{
    const bool *seen = reached_in(r, composite->body);
    bool *needed = NEW_ARRAY(bool, composite->inputs);
    for (int k = 0; k < composite->body->node_count; k++)
        if (seen[k] && composite->body->nodes[k]->op == OP_ARG)
            needed[composite->body->nodes[k]->ints[0]] = true;
    return needed;
}

void reach_from(Reachable *r, const Node *from)
{
    const Graph *g = from->graph;
    bool *seen = reached_in(r, g);
    const Node **stack = NEW_ARRAY(const Node *, g->node_count);
    int count = 0;
    if (seen[from->id])
        return;
    seen[from->id] = true;
    stack[count++] = from;
    while (count > 0) {
        const Node *n = stack[--count];
        const Node *whole = n;
        const bool *needed = NULL;
        if (n->op == OP_RESULT && n->in[0]->body) { /* visit only this result of the body */
            const Graph *body = n->in[0]->body;
            for (int k = 0, result = 0; k < body->result_count; k++)
                if (body->results[k].role == ROLE_RESULT && result++ == n->ints[0])
                    reach_from(r, body->results[k].value);
            if (n->in[0]->op == OP_COMPOSITE) { /* and the arguments that it reads */
                whole = n->in[0];
                needed = needed_of(r, whole);
            }
        }
        for (int k = 0; k < whole->inputs; k++)
            if (!seen[whole->in[k]->id] && (!needed || needed[k])) {
                seen[whole->in[k]->id] = true;
                stack[count++] = whole->in[k];
            }
    }
}
