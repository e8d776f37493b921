/* rewrite.c: applies rules to a node until none applies, and has what rules make nodes with.
 *
 * It knows no rule: simplify.c passes the table of rules (Simplifier.rules). Rules call it for the nodes that they make, so these
 * are simple, too. */
#include "compiler/passes/simplify/rules.h"

#include <math.h>
#include <stdlib.h>

enum { RULES_PER_NODE = 64 };

int node_uses(const Simplifier *s, const Node *n) { return n->id < s->capacity ? s->uses[n->id] : 0; }

Node *fill_like(Simplifier *s, const Node *n, double value)
{
    return n->weak ? graph_weak(s->target, value) : graph_fill(s->target, value, n->shape, n->dtype);
}

Node *simple_node(Simplifier *s, Op op, Node **in, int inputs, const int64_t *ints, int int_count)
{
    return simplify_node(s, graph_node(s->target, op, in, inputs, ints, int_count, NULL));
}

bool is_exact(Dtype t, double v)
{
    static const double least[DTYPES] = {[I8] = -128, [I16] = -32768, [I32] = -2147483648.0, [I64] = 1 - 0x1p53};
    static const double most[DTYPES] = {[BOOL] = 1,    [U8] = 255,           [I8] = 127,           [U16] = 65535,
                                        [I16] = 32767, [U32] = 4294967295.0, [I32] = 2147483647.0, [I64] = 0x1p53 - 1};
    return dtype_is_float(t) || (v >= least[t] && v <= most[t]);
}

/* Returns true if doubles hold all sums of integers that the node may compute: each is at most the largest product times the
 * number of elements. */
static bool adds_exactly(const Node *n)
{
    double product = 1, elements = 0;
    if (dtype_is_float(n->dtype) || dtype_is_float(n->in[0]->dtype) || OP_INFO[n->op].op_class == VIEW)
        return true;
    for (int k = 0; k < n->inputs; k++) {
        double most = 1;
        for (int64_t i = 0; i < n->in[k]->data_count; i++)
            most = fmax(most, fabs(n->in[k]->data[i]));
        product *= most;
        elements += (double)shape_count(&n->in[k]->shape);
    }
    return product * elements < 0x1p53;
}

static bool no_leaf(void *context, const Node *n, double *out, int64_t count)
{
    (void)context, (void)n, (void)out, (void)count;
    return false;
}

Node *fold_by_interpreter(Simplifier *s, Node *n)
{
    int64_t elements = shape_count(&n->shape);
    for (int k = 0; k < n->inputs; k++) {
        if (n->in[k]->op != OP_CONSTANT)
            return NULL;
        elements += shape_count(&n->in[k]->shape);
    }
    if (n->inputs == 0 || !adds_exactly(n) || elements > FOLD_ELEMENTS || node_flops(n) > 64.0 * FOLD_ELEMENTS)
        return NULL;
    Graph *g = graph_new(s->target->model, "constant", NULL);
    Node **in = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = graph_rebuild(g, n->in[k], NULL);
    Node *copy = graph_rebuild(g, n, in);
    Interpretation run = {.samples = 1, .leaf = no_leaf, .values = NEW_ARRAY(double *, g->node_count)};
    interpret(g, &run);
    Node *folded = graph_constant(s->target, run.values[copy->id], n->shape, n->dtype);
    for (int i = 0; i < g->node_count; i++)
        free(run.values[i]);
    graph_free(g);
    return folded;
}

Node *simplify_node(Simplifier *s, Node *n)
{
    for (int i = 0; i < RULES_PER_NODE; i++) {
        Rule *rule = s->rules[OP_INFO[n->op].op_class];
        Node *better = rule ? rule(s, n) : NULL;
        if (!better || better == n)
            return n;
        if (better->weak && !n->weak)
            better = graph_strong(s->target, better, n->dtype);
        if (better->dtype != n->dtype || !shape_equal(&better->shape, &n->shape) || (better->has_samples && !n->has_samples))
            die("simplify made %s %s%s of %s %s%s", OP_INFO[better->op].name, dtype_name(better->dtype),
                shape_text(&better->shape), OP_INFO[n->op].name, dtype_name(n->dtype), shape_text(&n->shape));
        s->changes++;
        n = better;
    }
    return n;
}
