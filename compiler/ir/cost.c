/* cost.c: the size and the operations of a node. In: a node. Out: node_flops, per sample if it or an input of it has samples;
 * node_elements, of all samples of a device. */
#include "compiler/ir/graph.h"

double node_elements(const Node *n) { return (double)shape_count(&n->shape) * (n->has_samples ? SOME_SAMPLES : 1); }

int64_t model_samples(const Model *m)
{
    int64_t parts = m->accumulate > 1 ? m->accumulate : 1;
    return m->batch > 0 ? (m->batch + parts - 1) / parts : SOME_SAMPLES;
}

/* A multiply-add is two operations; only keys that queries see count. Forward: q k' and p v; backward: q k' again and four more.
 * The three gradients are one computation, which counts with the gradient of q. */
static double attention_flops(const Node *n)
{
    const int64_t t = n->in[0]->shape.extent[0], h = n->in[0]->shape.extent[1], s = n->in[1]->shape.extent[0];
    double d = (double)n->in[0]->shape.extent[2], e = (double)n->in[2]->shape.extent[2], seen = 0;
    for (int64_t i = 0; i < t; i++) {
        int64_t end = n->ints[0] && i + s - t + 1 < s ? i + s - t + 1 : s;
        int64_t begin = n->ints[1] && i + s - t - n->ints[1] + 1 > 0 ? i + s - t - n->ints[1] + 1 : 0;
        seen += begin < end ? (double)(end - begin) : 0;
    }
    if (n->op == OP_ATTENTION)
        return 2 * seen * (double)h * (n->ints[3] == 1 ? d : d + e);
    return n->ints[3] == 0 || n->ints[3] == 3 ? 2 * seen * (double)h * (3 * d + 2 * e) : 0;
}

double node_flops(const Node *n)
{
    double out = (double)shape_count(&n->shape);
    switch (OP_INFO[n->op].op_class) {
    case ELEMENTWISE: return OP_INFO[n->op].flops * out;
    case RUNNING:
    case REDUCTION: return (double)shape_count(&n->in[0]->shape);
    case CONTRACTION: break;
    case WINDOW:
        for (int i = 0, r = n->shape.rank; i < r; i++)
            out *= n->op == OP_WINDOW_MAX_GRADIENT ? 1 : (double)n->ints[i];
        return out;
    case INDEXING: return n->op == OP_GATHER || n->op == OP_INDEX_COPY ? 0 : (double)shape_count(&n->in[n->inputs - 1]->shape);
    case MARK: return n->op == OP_STOP_GRADIENT || n->op == OP_OWN || op_is_transfer(n->op) ? 0 : out;
    case REGION:
        if (n->op == OP_RESULT)
            return 0;
        out = 0;
        for (int i = 0; i < n->body->node_count; i++)
            out += node_flops(n->body->nodes[i]);
        return n->op == OP_SCAN ? out * (double)n->ints[2] : out;
    case LEAF: return OP_INFO[n->op].flops * out;
    case VIEW: return 0;
    }
    if (n->op == OP_ATTENTION || n->op == OP_ATTENTION_GRADIENT)
        return attention_flops(n);
    if (n->op == OP_EINSUM) {
        bool seen[128] = {false};
        const char *p = n->text;
        double product = n->inputs < 2 ? 1 : n->inputs;
        for (int i = 0; i < n->inputs; i++, p++)
            for (int k = 0; *p && *p != ',' && *p != '-'; p++, k++)
                if (!seen[(unsigned char)*p]) {
                    seen[(unsigned char)*p] = true;
                    product *= (double)n->in[i]->shape.extent[k];
                }
        return product;
    }
    /* Convolutions: every output element uses every weight of its group, except those that input dilation pairs with zeros. */
    const Node *y = n->op == OP_CONVOLVE ? n : n->in[1], *w = n->op == OP_CONVOLVE ? n->in[1] : n;
    const int dims = w->shape.rank - 2;
    const int64_t *input_dilation = n->ints + 1 + 4 * dims;
    double product = 2 * (double)shape_count(&y->shape);
    for (int i = 1; i < w->shape.rank; i++)
        product *= (double)w->shape.extent[i];
    for (int i = 0; i < dims; i++)
        product /= (double)input_dilation[i];
    return product;
}
