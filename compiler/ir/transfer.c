/* transfer.c: nodes that transfer values between devices, and the distributions of their inputs and results: mgpu_transfers.h.
 *
 * Split values are only made by transfers, Local ones also by OWN of a Partial value: what the device has of it.
 *     Split  element-wise operations and reshapes keep it, with Split and Replicated inputs of its shape; the sum of all its
 *            elements is Partial
 *     Local  any operation keeps it, with inputs of any distribution but Split, and no samples */
#include "compiler/ir/graph.h"
#include "compiler/ir/dump.h"

static const struct {
    Op op;
    Distribution from, to;
} NODES[] = {
#define NODE_OF(name, verb, kind, from, to, ...) [MGPU_TRANSFER_##name] = {OP_##name, from, to},
    MGPU_TRANSFER_TABLE(NODE_OF)};

int transfer_of(Op op)
{
    for (int k = 0; k < MGPU_TRANSFERS; k++)
        if (NODES[k].op == op)
            return k;
    return -1;
}

const char *transfer_word(int transfer) { return OP_INFO[NODES[transfer].op].name; }

mgpu_participants transfer_participants(const Node *n)
{
    int k = transfer_of(n->op), ends = mgpu_transfer_row(k)->ends;
    return (mgpu_participants){.transfer = (uint8_t)k,
                               .from = ends > 0 ? (int)n->ints[0] : 0,
                               .to = ends > 1 ? (int)n->ints[1] : 0,
                               .parts = mgpu_transfer_splits(k) && n->int_count ? n->ints : NULL};
}

/* Returns the reduce-scatter that split the value, or the Split variable. */
static const Node *split_by(const Node *n)
{
    while (n->op != OP_REDUCE_SCATTER && n->op != OP_VARIABLE) {
        int k = 0;
        while (k < n->inputs && n->in[k]->distribution != SPLIT)
            k++;
        if (k == n->inputs)
            die("node %d is %s, but none of its inputs is", n->id, DISTRIBUTION_NAME[SPLIT]);
        n = n->in[k];
    }
    return n;
}

static bool same_parts(const Node *a, const Node *b)
{
    int count = a->op == OP_VARIABLE ? 0 : a->int_count; /* a variable has equal parts */
    bool same = count == (b->op == OP_VARIABLE ? 0 : b->int_count);
    for (int i = 0; i < count && same; i++)
        same = a->ints[i] == b->ints[i];
    return same;
}

const char *transfer_wrong_parts(const Node *n)
{
    int transfer = transfer_of(n->op), count = transfer >= 0 && mgpu_transfer_splits(transfer) ? n->int_count : 0;
    for (int i = 0; i < count; i++)
        if (n->ints[i] < (i ? n->ints[i - 1] : 0) || (i == 0 && n->ints[i] != 0) ||
            (i == count - 1 && (!i || n->ints[i] != shape_count(&n->shape))))
            return format("'%s' has parts that are not those of %lld elements: they begin at 0, ascend, and end there",
                          OP_INFO[n->op].name, (long long)shape_count(&n->shape));
    const Node *first = NULL;
    for (int k = 0; k < n->inputs; k++) {
        const Node *from = n->in[k]->distribution == SPLIT ? split_by(n->in[k]) : NULL;
        if (from && ((first && !same_parts(first, from)) || (n->op == OP_ALL_GATHER && !same_parts(n, from))))
            return format("'%s' has other parts than the 'reduce_scatter' that its input comes from", OP_INFO[n->op].name);
        first = first ? first : from;
    }
    return NULL;
}

static bool transfer_takes(int transfer, Distribution d)
{
    Distribution from = NODES[transfer].from;
    return d == from || (from == LOCAL && (d == PARTIAL || d == REPLICATED)) || (from == PARTIAL && d == LOCAL);
}

bool transfer_types(const Node *n, const Distribution *in)
{
    bool own = (op_is_transfer(n->op) && n->op != OP_REDUCE) || (n->op == OP_OWN && in[0] == PARTIAL);
    for (int k = 0; k < n->inputs; k++)
        own = own || in[k] == SPLIT || in[k] == LOCAL;
    return own;
}

bool node_keeps_elements(const Node *n)
{
    return OP_INFO[n->op].op_class == ELEMENTWISE || n->op == OP_RESHAPE || n->op == OP_STOP_GRADIENT || n->op == OP_OWN;
}

bool node_is_split(const Node *n) { return n->distribution == SPLIT && shape_count(&n->shape) > 1; }

bool node_sums_all(const Node *n) { return n->op == OP_SUM && n->int_count > 0 && n->int_count == n->in[0]->shape.rank; }

bool node_sums_split(const Node *n) { return node_sums_all(n) && node_is_split(n->in[0]); }

const int64_t *node_parts(const Node *n, int *count)
{
    const Node *from = split_by(n);
    *count = from->op == OP_REDUCE_SCATTER ? from->int_count : 0;
    return *count ? from->ints : NULL;
}

static bool splits(const Node *n)
{
    if (n->op == OP_VARIABLE)
        return n->graph->model->variables[n->ints[0]].split;
    bool any = n->op == OP_REDUCE_SCATTER;
    for (int k = 0; k < n->inputs && node_keeps_elements(n); k++)
        any = any || n->in[k]->distribution == SPLIT;
    return any;
}

void graph_find_split(Graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (splits(g->nodes[i]))
            g->nodes[i]->distribution = SPLIT;
}

Distribution transfer_type(const Node *n, const Distribution *in, const char **wrong)
{
    const char *name = OP_INFO[n->op].name;
    int transfer = transfer_of(n->op), count[LOCAL + 1] = {0};
    *wrong = NULL;
    if (transfer >= 0 && !transfer_takes(transfer, in[0])) {
        *wrong = format("'%s' takes a %s value; its input is %s", name, DISTRIBUTION_NAME[NODES[transfer].from],
                        DISTRIBUTION_NAME[in[0]]);
        return UNTYPED;
    }
    if (transfer >= 0)
        return NODES[transfer].to;
    for (int k = 0; k < n->inputs; k++)
        count[in[k]]++;
    Distribution kept = count[SPLIT] ? SPLIT : LOCAL;
    int others = count[REPLICATED] + (kept == LOCAL ? count[PARTIAL] : 0);
    if (kept == SPLIT && n->inputs == 1 && node_sums_all(n))
        return PARTIAL;
    if (kept == SPLIT && !node_keeps_elements(n))
        *wrong = format(
            "'%s' of a %s value: only element-wise operations and reshapes keep it; bring it together first, by 'all_gather'",
            name, DISTRIBUTION_NAME[kept]);
    else if (count[kept] + others != n->inputs)
        *wrong = format("'%s' of a %s value and one that is %s", name, DISTRIBUTION_NAME[kept],
                        count[SHARDED]                         ? "sharded"
                        : count[kept == SPLIT ? LOCAL : SPLIT] ? DISTRIBUTION_NAME[kept == SPLIT ? LOCAL : SPLIT]
                                                               : "partial");
    return *wrong ? UNTYPED : kept;
}
