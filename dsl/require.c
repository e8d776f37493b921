/* require.c: require(x, ok, what, value) is x, or NaN where `ok` is false. A run that stops there reports `what` and `value`.
 *
 * In the graph it is a WHERE with the text `what`; the NaN has the value in its bits. If a loss or metric requires something of
 * an input itself, such as a label below the number of classes, the reader checks it of each sample (Input.least, most) and names
 * it. */
#include "dsl/elaborate.h"

#include <math.h>

Value *run_require(Elaborator *e, const Place *at, Value **a)
{
    if (a[2]->kind != VALUE_STRING)
        error_at(at, "what 'require' says where its condition is false is a text in quotes, not %s", value_describe(a[2]));
    if (a[1]->kind == VALUE_BOOL && !a[1]->i)
        error_at(at, "%s", a[2]->text);
    if (a[1]->kind == VALUE_BOOL)
        return a[0];
    bool weighted = a[0]->kind == VALUE_WEIGHTED;
    Node *x = weighted ? a[0]->node : node_of(e, at, a[0], "what 'require' is of");
    Node *ok = node_of(e, at, a[1], "the condition of 'require'");
    if (ok->dtype != BOOL)
        error_at(at, "'require' needs a bool condition, not %s; compare it with something", value_describe(a[1]));
    Graph *g = graph_at(e, at);
    x = x->weak ? graph_strong(g, x, F32) : float_node(e, x);
    Node *nan = graph_number(g, NAN, x->dtype);
    if (a[3]->kind != VALUE_NONE)
        nan = graph_unary(g, OP_NAN_WITH,
                          graph_cast(g, float_node(e, node_of(e, at, a[3], "the value that 'require' says")), x->dtype));
    const Node *y = graph_where(g, ok, x, nan);
    Node *required = graph_node(g, OP_WHERE, y->in, 3, NULL, 0, a[2]->text);
    return weighted ? weighted_value(e, at, required, a[0]->weight) : value_tensor(required);
}

/* ---- requirements on inputs */

/* true for views that keep every element */
static bool keeps_all(const Node *n) { return n->op == OP_RESHAPE || n->op == OP_BROADCAST || n->op == OP_TRANSPOSE; }

/* Returns what x is without such views and conversions. */
static const Node *bare(const Node *n)
{
    while (keeps_all(n) || n->op == OP_CAST)
        n = n->in[0];
    return n;
}

/* Narrows the range of an input of whole numbers by a comparison with a constant, or by several that are joined with AND. */
static void narrow(Elaborator *e, const Node *condition, const char *what)
{
    if (condition->op == OP_AND || keeps_all(condition))
        for (int k = 0; k < condition->inputs; k++)
            narrow(e, condition->in[k], what);
    if (condition->op != OP_LE && condition->op != OP_LT)
        return;
    double v;
    bool below = node_is_constant(bare(condition->in[0]), &v); /* the condition is v <= x or v < x */
    if (!below && !node_is_constant(bare(condition->in[1]), &v))
        return;
    const Node *x = bare(condition->in[below]);
    if (x->op != OP_INPUT || dtype_is_float(x->dtype) || !(fabs(v) < INT32_MAX) || v != floor(v))
        return;
    Input *in = &e->model->inputs[x->ints[0]];
    int64_t bound = (int64_t)v, strict = condition->op == OP_LT;
    if (!in->required) {
        in->least = INT64_MIN;
        in->most = INT64_MAX;
    }
    int64_t least = below ? bound + strict : in->least, most = below ? in->most : bound - strict;
    if (least <= in->least && most >= in->most)
        return;
    in->least = least > in->least ? least : in->least;
    in->most = most < in->most ? most : in->most;
    in->required = what;
}

static void check_value(Elaborator *e, const Node *n, bool *seen)
{
    bool passes = OP_INFO[n->op].op_class == ELEMENTWISE || n->op == OP_SUM || keeps_all(n);
    if (seen[n->id] || !passes || (n->op == OP_WHERE && !n->text)) /* other WHEREs may drop bad elements */
        return;
    seen[n->id] = true;
    if (n->op == OP_WHERE)
        narrow(e, n->in[0], n->text);
    for (int k = n->op == OP_WHERE; k < n->inputs; k++)
        check_value(e, n->in[k], seen);
}

void require_of_inputs(Elaborator *e, const Node *value) { check_value(e, value, NEW_ARRAY(bool, value->graph->node_count)); }
