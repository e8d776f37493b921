/* linear.c: the column `linear` of ops.def for a node: whether sums commute with it. The terms of a sum are on devices
 * (distribute.c), in the steps of a loop (loops.c) or in samples (gradients.c). */
#include "compiler/ir/graph.h"

bool node_is_zero(const Node *n)
{
    double value;
    while (n->op == OP_BROADCAST || n->op == OP_RESHAPE)
        n = n->in[0];
    return node_is_constant(n, &value) && value == 0;
}

/* Returns true if the node's row holds for its attributes and types. */
static bool row_holds(const Node *n)
{
    switch (n->op) {
    case OP_DIV: /* division of integers rounds */ return dtype_is_float(n->dtype);
    case OP_CAST: return dtype_is_float(n->dtype) || (!dtype_is_float(n->in[0]->dtype) && n->dtype != BOOL);
    case OP_PAD: return n->data[0] == 0;
    default: return true;
    }
}

bool node_is_linear(const Node *n, Node *const *in, const bool *summed)
{
    Linear linear = OP_INFO[n->op].linear;
    int count = 0, fixed = linear == LINEAR_BUT_FIRST ? 0 : linear == LINEAR_BUT_SECOND ? 1 : -1;
    bool rest_is_zero = true;
    for (int k = 0; k < n->inputs; k++) {
        count += summed[k];
        if (k != fixed && !summed[k])
            rest_is_zero = rest_is_zero && node_is_zero(in[k]);
    }
    if (linear == NOT_LINEAR || count == 0 || !row_holds(n))
        return false;
    return linear == LINEAR_IN_EACH ? count == 1 : rest_is_zero && !(fixed >= 0 && summed[fixed]);
}
