/* transfer.c: nodes that transfer values between devices (mgpu_transfers.h), and the ranges of elements that devices have. */
#include "compiler/ir/axes.h"
#include "compiler/ir/placement.h"

static const struct {
    Op op;
    int from, to;
} NODES[] = {
#define NODE_OF(name, verb, kind, from, to, ...) [MGPU_TRANSFER_##name] = {OP_##name, WORD_##from, WORD_##to},
    MGPU_TRANSFER_TABLE(NODE_OF)};

AxisPlacement transfer_takes(int transfer) { return PLACEMENT_WORD[NODES[transfer].from].is; }

AxisPlacement transfer_gives(int transfer) { return PLACEMENT_WORD[NODES[transfer].to].is; }

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
        while (k < n->inputs && !node_is_sharded(n->in[k], ELEMENTS_AXIS))
            k++;
        if (k == n->inputs)
            die("node %d is %s, but none of its inputs is", n->id, PLACEMENT_WORD[WORD_SPLIT].word);
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
        const Node *from = node_is_sharded(n->in[k], ELEMENTS_AXIS) ? split_by(n->in[k]) : NULL;
        if (from && ((first && !same_parts(first, from)) || (n->op == OP_ALL_GATHER && !same_parts(n, from))))
            return format("'%s' has other parts than the 'reduce_scatter' that its input comes from", OP_INFO[n->op].name);
        first = first ? first : from;
    }
    return NULL;
}

bool node_is_split(const Node *n) { return node_is_sharded(n, ELEMENTS_AXIS) && shape_count(&n->shape) > 1; }

bool node_sums_split(const Node *n) { return node_sums_all(n) && node_is_split(n->in[0]); }

const int64_t *node_parts(const Node *n, int *count)
{
    const Node *from = split_by(n);
    *count = from->op == OP_REDUCE_SCATTER ? from->int_count : 0;
    return *count ? from->ints : NULL;
}
