/* bf16_gradients.c: gradients are transferred in bf16.
 *
 * In: the graphs in the precision of the model, sharded or not. Out: the same graphs, in which the all-reduce of a gradient is
 *
 *     rounded = cast bf16 (gradient)                      of its own samples (OWN: Local)
 *     total   = cast f32 (REDUCE or REDUCE_SCATTER (rounded))
 *
 * as in PyTorch's bf16_compress_hook for DistributedDataParallel: half of the bytes, 8 bits of each number. How often a bf16
 * all-reduce rounds depends on its method (docs/schedule.md): so losses depend on the number of devices. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

static Node *rounded_sum(Graph *g, const Node *sum)
{
    set_position(g, sum);
    Node *own = NODE(g, OP_OWN, NULL, 0, NULL, sum->in[0]->mapped);
    Node *in[] = {graph_cast(g, own, BF16)};
    return graph_cast(g, graph_rebuild(g, sum, in), sum->dtype);
}

Graph *round_gradients(Graph *given)
{
    Graph *g = graph_new(given->model, given->name, given->parent);
    const bool *gradient = graph_summed_gradients(given);
    for (int i = 0; i < given->node_count; i++) {
        Node *n = given->nodes[i];
        if (gradient[i])
            map_node(n, rounded_sum(g, n));
        else
            graph_copy_node(g, n);
    }
    graph_copy_results(g, given);
    Graph *typed = distribute(g);
    graph_free(g);
    return typed;
}
