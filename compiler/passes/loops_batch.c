/* loops_batch.c: computes an operation of a step for all steps at once.
 *
 * In: a node of a loop's body and, for each of its inputs, a value outside of the loop: of all steps, stacked along a first axis
 * ("along the steps"), or the same in each. Out: the node's value of all steps, by one operation on one sample of a larger shape:
 * an einsum with one more letter, a view with one more axis, a window of size 1, a convolution with a kernel of 1 along the
 * steps, an attention with heads for each step, a loop in whose body every value has the axis.
 *
 * And sums over the steps that are one operation: an einsum whose result lacks the letter of the steps, a convolution's weight
 * gradient, rows that are added to a table. So the gradient of a weight is one contraction of all steps and samples. */
#include "compiler/ir/axes.h"
#include "compiler/passes/loops.h"

typedef struct StepBatch {
    Graph *g;
    int64_t steps;
} StepBatch;

static Shape with_steps(const StepBatch *b, const Shape *s)
{
    Shape y = {.rank = s->rank + 1, .extent = {b->steps}};
    for (int i = 0; i < s->rank; i++)
        y.extent[i + 1] = s->extent[i];
    return y;
}

/* Repeats n for every step. */
static Node *spread(const StepBatch *b, Node *n)
{
    double value;
    Shape s = with_steps(b, &n->shape);
    n = graph_cast(b->g, n, n->dtype); /* weak numbers have no axes */
    return node_is_constant(n, &value) ? graph_fill(b->g, value, s, n->dtype) : graph_broadcast(b->g, n, s);
}

Node *batch_stack(Graph *g, int64_t steps, Outside x) { return x.along ? x.node : spread(&(StepBatch){g, steps}, x.node); }

static Node *all_steps(const StepBatch *b, Outside x) { return x.along ? x.node : spread(b, x.node); }

/* Applies n to operands that have the steps' axis. */
static Node *with_axis(const StepBatch *b, const Node *n, Node **in)
{
    Node like = *n;
    like.ints = NEW_ARRAY(int64_t, n->int_count + MAX_RANK);
    like.int_count = axes_more_ints(n, b->steps, like.ints);
    return graph_rebuild(b->g, &like, in);
}

/* Moves axis `from` of x to `to`. */
static Node *move_axis(const StepBatch *b, Node *x, int from, int to)
{
    int order[MAX_RANK] = {0}, count = 0;
    for (int i = 0; i < x->shape.rank; i++)
        if (i != from)
            order[count++] = i;
    for (int i = x->shape.rank - 1; i > to; i--)
        order[i] = order[i - 1];
    order[to] = from;
    return graph_transpose(b->g, x, order);
}

/* ---- einsum */

static char fresh_letter(const char *text)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return LETTERS[strspn(LETTERS, text)]; /* 0: the text has all of them */
}

static Node *einsum(const StepBatch *b, const Node *n, const Outside *in, bool total)
{
    Text text = {0};
    char letter = fresh_letter(n->text);
    const char *p = n->text;
    Node **own = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++, p++) {
        int rank = n->in[k]->shape.rank;
        text_add(&text, "%s%.*s%.*s", k ? "," : "", in[k].along, &letter, rank, p);
        own[k] = in[k].node;
        p += rank;
    }
    text_add(&text, "->%.*s%s", !total, &letter, p + 1); /* after the last operand p is at '>' */
    Node like = *n;
    like.text = copy_text(text_of(&text), text.length);
    return graph_rebuild(b->g, &like, own);
}

/* ---- convolutions: the steps are one more spatial axis, along which the kernel is 1 */

static Node *convolve(const StepBatch *b, const Node *n, const Outside *in)
{
    Node *w = in[1].node;
    Shape s = {.rank = w->shape.rank + 1, .extent = {w->shape.extent[0], w->shape.extent[1], 1}};
    for (int i = 2; i < w->shape.rank; i++)
        s.extent[i + 1] = w->shape.extent[i];
    return with_axis(b, n, (Node *[]){in[0].node, graph_reshape(b->g, w, s)});
}

static Node *convolve_weight_total(const StepBatch *b, const Node *n, const Outside *in)
{
    Node *y = with_axis(b, n, (Node *[]){all_steps(b, in[0]), all_steps(b, in[1])});
    return graph_reshape(b->g, y, n->shape);
}

/* ---- operations that take the axis as it is */

static Node *in_general(const StepBatch *b, const Node *n, const Outside *in)
{
    Node *few[8], **own = n->inputs <= COUNT(few) ? few : NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        own[k] = all_steps(b, in[k]);
    if (n->op == OP_BROADCAST) { /* aligned at the right: extents 1 between the steps and the axes of x */
        const Shape *x = &n->in[0]->shape;
        Shape s = {.rank = n->shape.rank + 1, .extent = {b->steps}};
        for (int i = 1, more = s.rank - x->rank; i < s.rank; i++)
            s.extent[i] = i < more ? 1 : x->extent[i - more];
        own[0] = graph_reshape(b->g, own[0], s);
    }
    return with_axis(b, n, own);
}

/* The second operand, which samples exist, is the same in all steps. */
static Node *moments(const StepBatch *b, const Node *n, const Outside *in)
{
    return with_axis(b, n, (Node *[]){all_steps(b, in[0]), in[1].node});
}

/* ---- by index */

/* Index i along an axis of `extent` elements becomes t extent + i in step t; an index out of range stays out of range. */
static Node *flat_index(const StepBatch *b, Node *i, int64_t extent)
{
    Graph *g = b->g;
    bool is_wide = i->dtype == I64 || i->dtype == U32 || (double)b->steps * (double)extent > 2147483647.0;
    Dtype t = is_wide ? I64 : I32; /* all indices are compared before they are narrowed */
    Node *wide = graph_cast(g, i, t), *step = graph_cast(g, graph_arange(g, b->steps), t);
    Shape s = {.rank = i->shape.rank, .extent = {b->steps}};
    for (int k = 1; k < s.rank; k++)
        s.extent[k] = 1;
    Node *first = graph_reshape(g, graph_binary(g, OP_MUL, step, graph_number(g, (double)extent, t)), s);
    Node *below = graph_binary(g, OP_LT, wide, graph_number(g, (double)extent, t));
    Node *inside = graph_binary(g, OP_AND, graph_binary(g, OP_LE, graph_number(g, 0, t), wide), below),
         *none = graph_number(g, -1, t);
    return graph_where(g, inside, graph_binary(g, OP_ADD, wide, first), none);
}

/* x [steps, a..., extent, b...] as [steps extent, a..., b...] */
static Node *flat_table(const StepBatch *b, Node *x, int axis)
{
    x = move_axis(b, x, axis + 1, 1);
    Shape s = {.rank = x->shape.rank - 1, .extent = {x->shape.extent[0] * x->shape.extent[1]}};
    for (int i = 1; i < s.rank; i++)
        s.extent[i] = x->shape.extent[i + 1];
    return graph_reshape(b->g, x, s);
}

/* [steps, i..., a..., b...] as [steps, a..., i..., b...], and back; a: `axis` axes, i: `rank` axes */
static Node *rows_inwards(const StepBatch *b, Node *x, int axis, int rank, bool back)
{
    int order[MAX_RANK] = {0}, first = back ? axis : rank, second = back ? rank : axis;
    for (int i = 0; i < x->shape.rank; i++) /* the second group comes first */
        order[i] = i == 0 || i > first + second ? i : i <= second ? i + first : i - second;
    return graph_transpose(b->g, x, order);
}

static Node *gather(const StepBatch *b, const Node *n, const Outside *in)
{
    Graph *g = b->g;
    int axis = (int)n->ints[0], rank = n->in[1]->shape.rank;
    Node *x = in[0].node, *i = in[1].node;
    if (!in[1].along)
        return NODE(g, OP_GATHER, &(int64_t){axis + 1}, 1, NULL, x, i);
    if (!in[0].along) {
        Node *y = NODE(g, OP_GATHER, &(int64_t){axis}, 1, NULL, x, i); /* [a..., steps, i..., b...] */
        return move_axis(b, y, axis, 0);
    }
    Node *index = flat_index(b, i, n->in[0]->shape.extent[axis]);
    Node *y = NODE(g, OP_GATHER, &(int64_t){0}, 1, NULL, flat_table(b, x, axis), index);
    return rows_inwards(b, y, axis, rank, false);
}

/* Every step has a table of its own. */
static Node *scatter(const StepBatch *b, const Node *n, const Outside *in)
{
    Graph *g = b->g;
    int axis = (int)n->ints[0], rank = n->in[1]->shape.rank;
    Node *x = flat_table(b, all_steps(b, in[0]), axis), *i = flat_index(b, all_steps(b, in[1]), n->shape.extent[axis]);
    Node *v = rows_inwards(b, all_steps(b, in[2]), axis, rank, true);
    Node *y = graph_scatter_add(g, x, i, v, 0, node_sums_samples(n)); /* [steps extent, a..., b...] */
    Shape s = {.rank = n->shape.rank + 1, .extent = {b->steps, n->shape.extent[axis]}};
    for (int k = 0, to = 2; k < n->shape.rank; k++)
        if (k != axis)
            s.extent[to++] = n->shape.extent[k];
    return move_axis(b, graph_reshape(g, y, s), 1, axis + 1);
}

/* All steps are added to one table, which is 0 before: v [steps, a..., i..., b...] as [a..., steps, i..., b...]. */
static Node *scatter_total(const StepBatch *b, const Node *n, const Outside *in)
{
    int axis = (int)n->ints[0];
    Node *v = move_axis(b, all_steps(b, in[2]), 0, axis), *i = all_steps(b, in[1]);
    return graph_scatter_add(b->g, in[0].node, i, v, axis, node_sums_samples(n));
}

/* ---- attention: the heads of every step */

static Node *to_heads(const StepBatch *b, Node *x)
{
    x = move_axis(b, x, 0, 1); /* [t, steps, h, d] */
    return graph_reshape(b->g, x, SHAPE(x->shape.extent[0], x->shape.extent[1] * x->shape.extent[2], x->shape.extent[3]));
}

/* [steps, h, t, 2] */
static Node *sums_to_heads(const StepBatch *b, Node *x)
{
    return graph_reshape(b->g, x, SHAPE(x->shape.extent[0] * x->shape.extent[1], x->shape.extent[2], 2));
}

static Node *attention(const StepBatch *b, const Node *n, const Outside *in)
{
    Graph *g = b->g;
    Node *own[6];
    for (int k = 0; k < n->inputs; k++)
        own[k] = (k == 5 ? sums_to_heads : to_heads)(b, all_steps(b, in[k]));
    Node *y = graph_rebuild(g, n, own);
    const int64_t *e = n->shape.extent;
    if (n->op == OP_ATTENTION && n->ints[3] == 1)
        return graph_reshape(g, y, SHAPE(b->steps, e[0], e[1], e[2]));
    if (n->shape.rank == 3) {
        y = graph_reshape(g, y, SHAPE(e[0], b->steps, e[1], e[2]));
        return move_axis(b, y, 1, 0);
    }
    y = graph_reshape(g, y, SHAPE(e[0], e[1], b->steps, e[2], e[3])); /* all three gradients: [t, 3, h, d] */
    return move_axis(b, y, 2, 0);
}

/* ---- loops */

static bool *carries_along(const Loop *l)
{
    bool *along = NEW_ARRAY(bool, l->body->node_count);
    for (int i = 0; i < l->carries; i++)
        along[l->arg[i]->id] = true;
    return along;
}

static bool loop_has_rule(const Node *n, const bool *along_in)
{
    Loop l = loop_of(n);
    bool *along = carries_along(&l), few[8] = {false};
    for (int i = l.carries; i < l.inputs; i++)
        if (l.arg[i])
            along[l.arg[i]->id] = along_in[i];
    for (int i = 0; i < l.inputs; i++)
        if (l.in[i]->shape.rank == MAX_RANK)
            return false;
    for (int i = 0; i < l.body->node_count; i++) {
        const Node *m = l.body->nodes[i];
        bool *in = m->inputs <= COUNT(few) ? few : NEW_ARRAY(bool, m->inputs);
        for (int k = 0; k < m->inputs; k++) {
            in[k] = along[m->in[k]->id];
            along[i] = along[i] || in[k];
        }
        if (m->op != OP_ARG && !batch_has_rule(m, in))
            return false;
    }
    for (int k = 0; k < l.stacks; k++)
        if (l.stack[k]->shape.rank + 2 > MAX_RANK)
            return false;
    return true;
}

/* All carries, and every value of the inner body that depends on the outer steps, get their axis. */
static Node *loop(const StepBatch *b, const Node *n, const Outside *in)
{
    Loop l = loop_of(n);
    Graph *inner = graph_open_body(b->g, l.body->name);
    StepBatch batch = {inner, b->steps};
    Outside *value = NEW_ARRAY(Outside, l.body->node_count), *own = NEW_ARRAY(Outside, l.inputs);
    Node **results = NEW_ARRAY(Node *, l.carries + l.stacks);
    for (int i = 0; i < l.inputs; i++) {
        Node *arg = l.arg[i];
        if (!arg)
            continue;
        Outside *y = &value[arg->id];
        y->along = i < l.carries || in[i].along;
        switch (loop_kind(&l, i)) {
        case AS_CARRY: y->node = graph_scan_carry(inner, all_steps(b, in[i]), arg->has_samples); break;
        case AS_SEQUENCE: /* [outer, inner, ...] as [inner, outer, ...] */
            y->node = graph_scan_sequence(inner, in[i].along ? move_axis(b, in[i].node, 1, 0) : in[i].node);
            break;
        case AS_IT_IS: y->node = graph_capture(inner, in[i].node); break;
        }
    }
    for (int i = 0; i < l.body->node_count; i++) {
        const Node *m = l.body->nodes[i];
        if (m->op == OP_ARG)
            continue;
        if (m->inputs > l.inputs)
            own = NEW_ARRAY(Outside, m->inputs);
        for (int k = 0; k < m->inputs; k++)
            own[k] = value[m->in[k]->id];
        set_position(inner, m);
        value[i] = batch_node(inner, b->steps, m, own);
    }
    for (int i = 0; i < l.carries + l.stacks; i++)
        results[i] = all_steps(&batch, value[l.next[i]->id]);
    return graph_close_scan(inner, l.steps, l.reverse, results, results + l.carries, l.stacks);
}

static Node *result(const StepBatch *b, const Node *n, const Outside *in)
{
    Node *y = graph_scan_result(b->g, in[0].node, (int)n->ints[0]);
    return n->ints[0] < n->in[0]->ints[0] ? y : move_axis(b, y, 1, 0);
}

/* ---- the table */

bool batch_has_rule(const Node *n, const bool *along)
{
    bool any = false;
    for (int k = 0; k < n->inputs; k++) {
        any = any || along[k];
        if (along[k] && n->in[k]->shape.rank == MAX_RANK)
            return false;
    }
    if (!any)
        return true;
    if (n->shape.rank == MAX_RANK)
        return false;
    switch (OP_INFO[n->op].op_class) {
    case ELEMENTWISE:
    case VIEW:
    case RUNNING:
    case WINDOW: return true;
    case REDUCTION: return (n->op == OP_MOMENTS && !along[1]) || n->op == OP_SUM || n->op == OP_MAX || n->op == OP_ARGMAX;
    case CONTRACTION:
        if (n->op == OP_EINSUM)
            return fresh_letter(n->text) != 0;
        if (n->op == OP_CONVOLVE)
            return !along[1] && n->in[1]->shape.rank < MAX_RANK && n->in[0]->shape.rank < MAX_RANK;
        return n->op == OP_ATTENTION || n->op == OP_ATTENTION_GRADIENT;
    case INDEXING:
        return (n->op == OP_GATHER || n->op == OP_SCATTER_ADD || n->op == OP_TOP_K) && n->in[0]->shape.rank < MAX_RANK &&
               n->in[n->inputs - 1]->shape.rank < MAX_RANK;
    case MARK: return n->op == OP_GROUP_SUM || n->op == OP_STOP_GRADIENT;
    case REGION: return n->op == OP_RESULT ? n->in[0]->op == OP_SCAN : n->op == OP_SCAN && loop_has_rule(n, along);
    case LEAF: return true;
    }
    return false;
}

Outside batch_node(Graph *g, int64_t steps, const Node *n, const Outside *in)
{
    StepBatch b = {g, steps};
    bool along = false;
    for (int k = 0; k < n->inputs; k++)
        along = along || in[k].along;
    if (!along) {
        Node **own = NEW_ARRAY(Node *, n->inputs);
        for (int k = 0; k < n->inputs; k++)
            own[k] = in[k].node;
        return (Outside){graph_rebuild(g, n, own), false};
    }
    switch (n->op) {
    case OP_EINSUM: return (Outside){einsum(&b, n, in, false), true};
    case OP_CONVOLVE: return (Outside){convolve(&b, n, in), true};
    case OP_ATTENTION:
    case OP_ATTENTION_GRADIENT: return (Outside){attention(&b, n, in), true};
    case OP_MOMENTS: return (Outside){moments(&b, n, in), true};
    case OP_GATHER: return (Outside){gather(&b, n, in), true};
    case OP_SCATTER_ADD: return (Outside){scatter(&b, n, in), true};
    case OP_SCAN: return (Outside){loop(&b, n, in), true};
    case OP_RESULT: return (Outside){result(&b, n, in), true};
    default: return (Outside){in_general(&b, n, in), true};
    }
}

bool batch_is_contraction(const Node *n, const bool *along)
{
    int count = 0;
    for (int k = 0; k < n->inputs; k++)
        count += along[k];
    switch (n->op) {
    case OP_EINSUM: return count >= 1 && fresh_letter(n->text) != 0;
    case OP_CONVOLVE_WEIGHT: return count >= 1 && n->in[0]->shape.rank < MAX_RANK && n->shape.rank < MAX_RANK;
    case OP_SCATTER_ADD: return node_is_zero(n->in[0]) && n->in[1]->shape.rank < MAX_RANK && n->in[2]->shape.rank < MAX_RANK;
    default: return false;
    }
}

Node *batch_contraction_total(Graph *g, int64_t steps, const Node *n, const Outside *in)
{
    StepBatch b = {g, steps};
    return n->op == OP_EINSUM            ? einsum(&b, n, in, true)
           : n->op == OP_CONVOLVE_WEIGHT ? convolve_weight_total(&b, n, in)
                                         : scatter_total(&b, n, in);
}

/* ---- a b, where each operand is repeated along axes that the other has: the sum over the steps is a contraction */

Node *batch_operand(const Node *contraction, int k)
{
    Node *x = contraction->in[k];
    return x->op == OP_BROADCAST ? x->in[0] : x;
}

bool batch_is_spread(const Node *n)
{
    if (n->op != OP_MUL || !dtype_is_float(n->dtype) || n->shape.rank + 1 > MAX_RANK)
        return false;
    double elements = 0;
    for (int k = 0; k < 2; k++)
        elements += (double)shape_count(&batch_operand(n, k)->shape);
    return elements < (double)shape_count(&n->shape);
}

Node *batch_spread_total(Graph *g, int64_t steps, const Node *n, const Outside *operands)
{
    StepBatch b = {g, steps};
    Text spec = {0};
    Node *own[2];
    const Shape *s = &n->shape;
    bool present[MAX_RANK] = {false};
    for (int k = 0; k < 2; k++) {
        const Shape *x = &batch_operand(n, k)->shape;
        Shape kept = {.rank = 1, .extent = {steps}};
        text_add(&spec, "%st", k ? "," : "");
        for (int i = s->rank - x->rank; i < s->rank; i++)
            if (x->extent[i - (s->rank - x->rank)] == s->extent[i]) { /* not repeated along it */
                text_add(&spec, "%c", 'A' + i);
                kept.extent[kept.rank++] = s->extent[i];
                present[i] = true;
            }
        own[k] = graph_reshape(g, all_steps(&b, operands[k]), kept);
    }
    text_add(&spec, "->");
    Shape ones = *s;
    for (int i = 0; i < s->rank; i++) {
        ones.extent[i] = present[i] ? s->extent[i] : 1;
        if (present[i])
            text_add(&spec, "%c", 'A' + i);
    }
    Node *y = graph_einsum(g, text_of(&spec), own, 2, false);
    return graph_broadcast(g, graph_reshape(g, y, ones), *s);
}
