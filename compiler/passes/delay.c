/* delay.c: gradients are applied one step late.
 *
 * In: a train graph with ROLE_GRADIENT results. Out: the same graph, in which the gradient of a variable is the value of an
 * accumulator, and the accumulator becomes the gradient of this step: w(k + 1) = w(k) - f(g(k - 1)), with g(0) = 0.
 *
 * Each device keeps its own part of the gradient, and the all-reduce is in the next step. Only the update of that step waits for
 * it, so it may take a whole step.
 *
 * Loss scales change from step to step, and micro-batches have accumulators of their own: neither can be combined with this. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

static int add_accumulator(Model *m, const Variable *of, const Node *gradient)
{
    Variable v = {.kind = ACCUMULATOR,
                  .dtype = gradient->dtype,
                  .shape = gradient->shape,
                  .placement = {{IS_PARTIAL}},
                  .owner = -1,
                  .at = of->at};
    v.name = format("%s.late", of->name);
    for (int axis = 0; axis < MAX_RANK; axis++)
        v.order[axis] = axis;
    int number = m->variable_count;
    APPEND(m->variables, m->variable_count, v);
    return number;
}

/* Accumulators are first in the graph, so that their all-reduces begin first. */
Graph *delay_gradients(Graph *train)
{
    Model *m = train->model;
    Graph *g = graph_new(m, train->name, NULL);
    if (m->accumulate > 1)
        fail(1, "gradients that are one step stale do not go with accumulate = %d; leave one of them out", (int)m->accumulate);
    if (m->precision == F16)
        fail(
            1,
            "gradients that are one step stale do not go with precision = f16, whose loss scale changes from step to step; bf16 has none");
    int *late = NEW_ARRAY(int, train->result_count);
    Node **before = NEW_ARRAY(Node *, train->result_count);
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        if (r->role != ROLE_GRADIENT)
            continue;
        late[i] = add_accumulator(m, &m->variables[r->index], r->value);
        set_position(g, r->value);
        before[i] = graph_variable(g, late[i]);
    }
    for (int i = 0; i < train->node_count; i++)
        train->nodes[i]->mapped = graph_copy_node(g, train->nodes[i]);
    graph_copy_results(g, train);
    for (int i = 0; i < train->result_count; i++) {
        Result *r = &g->results[i];
        if (r->role != ROLE_GRADIENT)
            continue;
        graph_result(g, ROLE_UPDATE, m->variables[late[i]].name, late[i], r->value, NULL);
        g->results[i].value = before[i];
    }
    return g;
}
