/* transfer_gradient.c: finds the weight whose gradient a transfer reduces. A breadth-first search from the new value of a weight
 * to its operands finds the nearest transfer that reduces as many elements. The gradient of another weight, reached through the
 * norm that all are clipped to, is farther away. */
#include "compiler/ir/placement.h"

enum { NEAR = 256 }; /* most nodes of an update that are searched */

static bool adds(const Node *n) { return op_is_transfer(n->op) && mgpu_transfer_row(transfer_of(n->op))->adds; }

static bool is_gradient_of(const Node *n, const Variable *v)
{
    int64_t count = shape_count(&v->shape);
    count = n->op == OP_REDUCE_BITS ? mgpu_segments(count) * MGPU_SEGMENT : count;
    return adds(n) && shape_count(&n->shape) == count;
}

static const Node *gradient_of(const Node *update, const Variable *v, int *seen, int mark)
{
    const Node *queue[NEAR];
    int count = 0;
    queue[count++] = update;
    for (int i = 0; i < count; i++) {
        const Node *n = queue[i];
        if (is_gradient_of(n, v))
            return n;
        for (int k = 0; k < n->inputs && !adds(n) && count < NEAR; k++)
            if (seen[n->in[k]->id] != mark) {
                seen[n->in[k]->id] = mark;
                queue[count++] = n->in[k];
            }
    }
    return NULL;
}

const char **graph_summed_weights(const Graph *g)
{
    const char **of = NEW_ARRAY(const char *, g->node_count);
    int *seen = NEW_ARRAY(int, g->node_count);
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        const Variable *v = r->role == ROLE_UPDATE ? &g->model->variables[r->index] : NULL;
        const Node *n = v && v->kind == WEIGHT && v->trained ? gradient_of(r->value, v, seen, i + 1) : NULL;
        if (n)
            of[n->id] = of[n->in[0]->id] = v->name;
    }
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_OWN)
            of[i] = of[g->nodes[i]->in[0]->id];
    return of;
}

/* Returns, by id, if the value is computed from samples since the last transfer. */
static bool *of_samples(const Graph *g)
{
    bool *of = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        of[i] = node_is_sharded(n, SAMPLES_AXIS) || (n->op == OP_VARIABLE && node_is_placed(n, PARTIAL));
        for (int k = 0; k < n->inputs && !op_is_transfer(n->op); k++)
            of[i] = of[i] || of[n->in[k]->id];
    }
    return of;
}

/* Finds the reductions from which no value of a sample is computed, nor another sum over samples: unlike the sums of batchnorm's
 * backward pass. */
const bool *graph_summed_gradients(const Graph *g)
{
    bool *found = NEW_ARRAY(bool, g->node_count), *within = NEW_ARRAY(bool, g->node_count);
    const bool *samples = of_samples(g);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->inputs; k++)
            within[n->in[k]->id] |= within[i] || samples[i];
        found[i] = (n->op == OP_REDUCE || n->op == OP_REDUCE_SCATTER) && n->backward && dtype_is_float(n->dtype) && !within[i];
    }
    return found;
}
