/* gradients.c: the gradient rule of every operation in ops.def, and the contributions.
 *
 * A rule gets a node and the gradient g at it (with its shape and dtype) and computes, for each input that needs one, the
 * gradient at that input; give() records it. If the input is the same for all samples and the node is not, the gradient is summed
 * over the samples: by give(), or by the rule in one operation (EINSUM, CONVOLVE_WEIGHT, SCATTER_ADD), so that no gradient of a
 * weight exists per sample. A gradient that is the same for all samples may be contributed to a node that is not; it then holds
 * for every sample.
 *
 * Products with derivatives are selected_product() and quotient(), which are an exact zero where a selection has removed the
 * gradient, whatever the derivative is. So what a mask has removed from the loss never comes back as NaN (selection.c). */
#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"

/* ---- contributions */

typedef void GradientRule(Sweep *, Node *n, Node *g);
static GradientRule *const RULE[OPS];

/* Takes the sources by node. */
static Sweep begin(Graph *g, bool *sources)
{
    Sweep s = {.g = g, .forward_count = g->node_count, .needs = sources};
    s.parts = NEW_ARRAY(Node **, g->node_count);
    s.part_count = NEW_ARRAY(int, g->node_count);
    s.variables = NEW_ARRAY(Node *, g->model->variable_count);
    s.of_results = NEW_ARRAY(Node **, g->node_count);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (n->op == OP_VARIABLE)
            s.variables[n->ints[0]] = n;
        for (int k = 0; k < n->inputs && RULE[n->op] && dtype_is_float(n->dtype); k++)
            s.needs[i] = s.needs[i] || s.needs[n->in[k]->id];
    }
    return s;
}

Sweep sweep_begin(Graph *g, const bool *trained)
{
    bool *sources = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        sources[i] = g->nodes[i]->op == OP_VARIABLE && trained[g->nodes[i]->ints[0]];
    return begin(g, sources);
}

Sweep sweep_begin_at(Graph *g, const Node *x)
{
    bool *sources = NEW_ARRAY(bool, g->node_count);
    sources[x->id] = true;
    Sweep s = begin(g, sources);
    s.is_value = true;
    return s;
}

Sweep sweep_begin_body(const Sweep *outer, Graph *g, const bool *needs)
{
    bool *sources = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        sources[i] = g->nodes[i]->op == OP_ARG && needs[g->nodes[i]->ints[0]];
    Sweep s = begin(g, sources);
    s.is_value = outer->is_value;
    return s;
}

bool sweep_needs(const Sweep *s, const Node *n) { return n->id < s->forward_count && s->needs[n->id]; }
Node *sweep_find_variable(const Sweep *s, int variable) { return s->variables[variable]; }

void sweep_contribute(Sweep *s, Node *n, Node *gradient)
{
    if (!sweep_needs(s, n))
        return;
    if (!shape_equal(&n->shape, &gradient->shape) || n->dtype != gradient->dtype || (gradient->has_samples && !n->has_samples))
        die("the gradient of %%%d (%s) is %s%s%s, %s%s%s expected", n->id, OP_INFO[n->op].name, dtype_name(gradient->dtype),
            shape_text(&gradient->shape), gradient->has_samples ? " sharded" : "", dtype_name(n->dtype), shape_text(&n->shape),
            n->has_samples ? " sharded" : "");
    APPEND(s->parts[n->id], s->part_count[n->id], gradient);
}

/* Returns true for a sum over samples, or what is linear in one; s->pending is extended to the graph's present size. */
static bool is_pending(Sweep *s, const Node *n)
{
    while (s->pending_count <= n->id) {
        const Node *m = s->g->nodes[s->pending_count];
        bool pending = node_sums_samples(m);
        for (int k = 0; k < m->inputs && !m->has_samples && OP_INFO[m->op].linear != NOT_LINEAR; k++)
            pending = pending || s->pending[m->in[k]->id];
        APPEND(s->pending, s->pending_count, pending);
    }
    return s->pending[n->id];
}

Node *sweep_take(Sweep *s, Node *n)
{
    if (!sweep_needs(s, n))
        return NULL;
    Node **parts = s->parts[n->id], *total = NULL;
    int count = s->part_count[n->id];
    s->part_count[n->id] = 0;
    s->parts[n->id] = NULL;
    if (count == 1)
        return parts[0];
    for (int pending = 1; pending >= 0; pending--)
        for (int i = 0; i < count; i++)
            if (parts[i] && (!pending || is_pending(s, parts[i]))) {
                if (!total || node_is_zero(total))
                    total = parts[i];
                else if (!node_is_zero(parts[i]))
                    total = graph_binary(s->g, OP_ADD, total, parts[i]);
                parts[i] = NULL;
            }
    return total;
}

void gradient_name(Node *gradient, const char *name)
{
    if (gradient->backward && gradient->inputs && !gradient->name)
        gradient->name = name;
}

Node *gradient_shrink(Graph *g, Node *gradient, Shape to, bool over_samples)
{
    int axes[MAX_RANK], count = 0, more = gradient->shape.rank - to.rank;
    for (int i = 0; i < gradient->shape.rank; i++)
        if (i < more || (to.extent[i - more] == 1 && gradient->shape.extent[i] != 1))
            axes[count++] = i;
    gradient = over_samples ? graph_sum_samples(g, gradient, axes, count) : graph_sum(g, gradient, axes, count);
    return graph_reshape(g, gradient, to);
}

static bool wants(const Sweep *s, const Node *n, int k) { return sweep_needs(s, n->in[k]); }

/* Returns true if the input is the same for all samples, and the node is not, or is summed over them. */
static bool over_samples(const Node *n, int k) { return !n->in[k]->has_samples && (n->has_samples || node_sums_samples(n)); }

Node *sweep_term(Sweep *s, Node *gradient) { return s->is_value ? select_valid(s->g, gradient) : gradient; }

/* Contributes a gradient that has the input's shape but is not yet summed over the samples. */
static void give(Sweep *s, const Node *n, int k, Node *gradient)
{
    Node *x = n->in[k];
    if (!n->has_samples || x->has_samples) {
        sweep_contribute(s, x, gradient);
    } else { /* over a broadcast's axes and the samples at once */
        if (x->op == OP_BROADCAST)
            x = x->in[0];
        sweep_contribute(s, x, gradient_shrink(s->g, sweep_term(s, gradient), x->shape, true));
    }
}

/* ---- small algebra; numbers take the tensor's type and shape */

static Node *number_like(Graph *g, const Node *a, double v) { return graph_fill(g, v, a->shape, a->dtype); }

static Node *scaled(Graph *g, Node *a, double factor) { return graph_times(g, a, number_like(g, a, factor)); }
static Node *equals(Graph *g, Node *a, double number) { return graph_binary(g, OP_EQ, a, number_like(g, a, number)); }

/* Returns where(a == 0, 0 like `like`, other). Nodes are made one by one, because the order of a C call's arguments is
 * unspecified. */
static Node *zero_where_zero(Graph *g, Node *a, Node *like, Node *other)
{
    Node *zero = number_like(g, like, 0);
    return graph_where(g, equals(g, a, 0), zero, other);
}

static Node *quotient(Sweep *s, Node *gradient, Node *divisor)
{
    double number;
    if (node_is_constant(divisor, &number) && number != 0)
        return graph_binary(s->g, OP_DIV, gradient, divisor);
    return selected(s, gradient, graph_binary(s->g, OP_DIV, before_selection(gradient), divisor));
}

/* for a square root y */
static Node *of_root(Sweep *s, Node *gradient, Node *y)
{
    Node *half = scaled(s->g, before_selection(gradient), 0.5);
    return selected(s, gradient, graph_binary(s->g, OP_DIV, half, y));
}

/* y lacks the given axes of x: repeats it along them. */
static Node *broadcast_over(Graph *g, Node *y, const Shape *x, const int64_t *axes, int axis_count)
{
    Shape kept = *x;
    for (int i = 0; i < axis_count; i++)
        kept.extent[axes[i]] = 1;
    return graph_broadcast(g, graph_reshape(g, y, kept), *x);
}

/* ---- element-wise */

static void gradient_add(Sweep *s, Node *n, Node *g)
{
    for (int k = 0; k < 2; k++)
        if (wants(s, n, k))
            give(s, n, k, g);
}

static void gradient_sub(Sweep *s, Node *n, Node *g)
{
    if (wants(s, n, 0))
        give(s, n, 0, g);
    if (wants(s, n, 1))
        give(s, n, 1, graph_negate(s->g, g));
}

static void gradient_mul(Sweep *s, Node *n, Node *g)
{
    for (int k = 0; k < 2; k++)
        if (wants(s, n, k))
            give(s, n, k, selected_product(s, g, n->in[1 - k]));
}

static void gradient_div(Sweep *s, Node *n, Node *g)
{
    if (wants(s, n, 0))
        give(s, n, 0, quotient(s, g, n->in[1]));
    if (wants(s, n, 1)) {
        Node *part = graph_binary(s->g, OP_DIV, before_selection(g), n->in[1]);
        give(s, n, 1, selected(s, g, graph_negate(s->g, graph_times(s->g, part, n))));
    }
}

static void gradient_pow(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *a = n->in[0], *b = n->in[1];
    double c;
    if (wants(s, n, 0) && node_is_constant(b, &c)) {
        if (c == 1)
            give(s, n, 0, g);
        else if (c == 2)
            give(s, n, 0, selected_product(s, g, scaled(to, a, 2)));
        else if (c == 0.5)
            give(s, n, 0, of_root(s, g, n));
        else if (c != 0)
            give(s, n, 0, selected_product(s, g, scaled(to, graph_binary(to, OP_POW, a, number_like(to, a, c - 1)), c)));
    } else if (wants(s, n, 0)) {
        Node *power = graph_times(to, b, graph_binary(to, OP_POW, a, graph_binary(to, OP_SUB, b, number_like(to, b, 1))));
        give(s, n, 0, selected_product(s, g, zero_where_zero(to, b, b, power)));
    }
    if (wants(s, n, 1)) { /* log(a) is real only for a > 0 */
        Node *zero = number_like(to, a, 0), *log = graph_unary(to, OP_LOG, a);
        Node *slope = graph_times(to, n, log);
        slope = graph_where(to, graph_binary(to, OP_LE, a, zero), zero, slope);
        give(s, n, 1, selected_product(s, g, slope));
    }
}

static void gradient_mod(Sweep *s, Node *n, Node *g)
{
    if (wants(s, n, 0))
        give(s, n, 0, g);
    if (wants(s, n, 1)) {
        Node *floor = graph_unary(s->g, OP_FLOOR, graph_binary(s->g, OP_DIV, n->in[0], n->in[1]));
        give(s, n, 1, selected(s, g, graph_negate(s->g, graph_times(s->g, before_selection(g), floor))));
    }
}

/* The gradient goes to the smaller (or larger) operand, half to each at a tie. */
static void to_the_chosen(Sweep *s, Node *n, Node *g, bool smaller)
{
    Graph *to = s->g;
    for (int k = 0; k < 2; k++)
        if (wants(s, n, k)) {
            Node *mine = n->in[k], *other = n->in[1 - k];
            Node *chosen = graph_binary(to, OP_LE, smaller ? mine : other, smaller ? other : mine);
            Node *none = number_like(to, g, 0), *half = scaled(to, g, 0.5);
            Node *part = graph_where(to, graph_binary(to, OP_EQ, mine, other), half, g);
            give(s, n, k, graph_where(to, chosen, part, none));
        }
}

static void gradient_minimum(Sweep *s, Node *n, Node *g) { to_the_chosen(s, n, g, true); }
static void gradient_maximum(Sweep *s, Node *n, Node *g) { to_the_chosen(s, n, g, false); }

static bool selects_valid(const Node *where)
{
    const Node *c = where->in[0];
    while (c->op == OP_BROADCAST)
        c = c->in[0];
    return c->op == OP_VALID && node_is_zero(where->in[2]);
}

/* The terms of a sum over samples: the gradient of padding samples is that of the sample that they are a copy of. */
static void gradient_where(Sweep *s, Node *n, Node *g)
{
    Node *zero = number_like(s->g, g, 0);
    if (wants(s, n, 1))
        give(s, n, 1, s->is_value && selects_valid(n) ? g : graph_where(s->g, n->in[0], g, zero));
    if (wants(s, n, 2))
        give(s, n, 2, graph_where(s->g, n->in[0], zero, g));
}

static void gradient_cast(Sweep *s, Node *n, Node *g) { give(s, n, 0, graph_cast(s->g, g, n->in[0]->dtype)); }

static void gradient_abs(Sweep *s, Node *n, Node *g)
{
    Node *x = n->in[0], *zero = number_like(s->g, g, 0);
    Node *rising = graph_where(s->g, equals(s->g, x, 0), zero, g);
    Node *falling = graph_negate(s->g, g);
    give(s, n, 0, graph_where(s->g, graph_binary(s->g, OP_LT, x, zero), falling, rising));
}

static void gradient_sqrt(Sweep *s, Node *n, Node *g) { give(s, n, 0, of_root(s, g, n)); }
static void gradient_exp(Sweep *s, Node *n, Node *g) { give(s, n, 0, selected_product(s, g, n)); }
static void gradient_log(Sweep *s, Node *n, Node *g) { give(s, n, 0, quotient(s, g, n->in[0])); }

/* e^x, not y + 1, which is 0 for very negative x */
static void gradient_expm1(Sweep *s, Node *n, Node *g)
{
    give(s, n, 0, selected_product(s, g, graph_unary(s->g, OP_EXP, n->in[0])));
}

static void gradient_log1p(Sweep *s, Node *n, Node *g)
{
    Node *x = n->in[0];
    give(s, n, 0, quotient(s, g, graph_binary(s->g, OP_ADD, x, number_like(s->g, x, 1))));
}

static void gradient_logistic(Sweep *s, Node *n, Node *g)
{
    Node *rest = graph_binary(s->g, OP_SUB, number_like(s->g, n, 1), n);
    give(s, n, 0, selected_product(s, g, graph_times(s->g, n, rest)));
}

static void gradient_sin(Sweep *s, Node *n, Node *g)
{
    give(s, n, 0, selected_product(s, g, graph_unary(s->g, OP_COS, n->in[0])));
}

static void gradient_cos(Sweep *s, Node *n, Node *g)
{
    Node *slope = graph_times(s->g, before_selection(g), graph_unary(s->g, OP_SIN, n->in[0]));
    give(s, n, 0, selected(s, g, graph_negate(s->g, slope)));
}

static void gradient_tanh(Sweep *s, Node *n, Node *g)
{
    Node *square = graph_times(s->g, n, n);
    give(s, n, 0, selected_product(s, g, graph_binary(s->g, OP_SUB, number_like(s->g, n, 1), square)));
}

static void gradient_atan2(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *y = n->in[0], *x = n->in[1], *of_y = graph_times(to, y, y),
         *square = graph_binary(to, OP_ADD, graph_times(to, x, x), of_y);
    for (int k = 0; k < 2; k++)
        if (wants(s, n, k)) {
            Node *slope = graph_binary(to, OP_DIV, k ? graph_negate(to, y) : x, square);
            give(s, n, k, selected_product(s, g, zero_where_zero(to, square, g, slope)));
        }
}

static void gradient_erf(Sweep *s, Node *n, Node *g)
{
    Node *x = n->in[0], *bell = graph_unary(s->g, OP_EXP, graph_negate(s->g, graph_times(s->g, x, x)));
    give(s, n, 0, selected_product(s, g, scaled(s->g, bell, 1.1283791670955126))); /* 2 / sqrt(pi) */
}

/* ---- reductions */

static void gradient_sum(Sweep *s, Node *n, Node *g)
{
    give(s, n, 0, broadcast_over(s->g, g, &n->in[0]->shape, n->ints, n->int_count));
}

static void gradient_max(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *x = n->in[0];
    int axes[MAX_RANK];
    for (int i = 0; i < n->int_count; i++)
        axes[i] = (int)n->ints[i];
    Node *top = graph_binary(to, OP_EQ, x, broadcast_over(to, n, &x->shape, n->ints, n->int_count));
    Node *count = graph_sum(to, graph_cast(to, top, x->dtype), axes, n->int_count);
    Node *part = graph_binary(to, OP_DIV, g, count); /* a maximum that is NaN has no position, and no gradient */
    selection_record(s, part, selection_of(s, g));
    part = broadcast_over(to, part, &x->shape, n->ints, n->int_count);
    give(s, n, 0, graph_where(to, top, part, number_like(to, x, 0)));
}

static void gradient_cumsum(Sweep *s, Node *n, Node *g)
{
    int64_t ints[2] = {n->ints[0], !n->ints[1]};
    give(s, n, 0, NODE(s->g, OP_CUMSUM, ints, 2, NULL, g));
}

/* ---- contractions */

/* The gradient at operand k is the einsum of g and the other operands that gives the letters of k. A letter that only operand k
 * has was summed: its gradient is repeated along it. A letter that k has twice (a diagonal) gets a name for each position and an
 * identity matrix between them. Numbers (rank 0) are multiplied into another operand. */
static void einsum_operand(Sweep *s, Node *n, Node *g, int k)
{
    Graph *to = s->g;
    const Shape *shape = &n->in[k]->shape;
    bool over = over_samples(n, k), of_number = g->shape.rank == 0, used[128] = {false};
    int count = 0;
    Node **in = NEW_ARRAY(Node *, n->inputs + MAX_RANK + 1), *factor = NULL;
    g = over ? sweep_term(s, g) : g;
    const char **letters = NEW_ARRAY(const char *, n->inputs + MAX_RANK + 1), *p = n->text, *own = NULL, *of_g = "";
    for (int i = 0; i <= n->inputs; i++) { /* the last is the result */
        const Node *operand = i < n->inputs ? n->in[i] : n;
        const char *text = copy_text(p, (size_t)operand->shape.rank);
        p += operand->shape.rank + (i + 1 < n->inputs ? 1 : 2);
        for (const char *q = text; *q; q++)
            used[(unsigned char)*q] = true;
        if (i == k) {
            own = text;
        } else if (operand->shape.rank == 0) {
            Node *number = i < n->inputs ? n->in[i] : g;
            factor = factor ? graph_times(to, factor, number) : number;
        } else {
            in[count] = i < n->inputs ? n->in[i] : g;
            letters[count++] = text;
        }
        of_g = text; /* the last */
    }
    char target[MAX_RANK + 1] = "";
    for (int i = 0; i < shape->rank; i++) {
        target[i] = own[i];
        if (!memchr(own, own[i], (size_t)i))
            continue;
        char fresh = 'a';
        while (used[(unsigned char)fresh])
            fresh = fresh == 'z' ? 'A' : (char)(fresh + 1);
        if (fresh > 'Z' && fresh < 'a')
            die("einsum \"%s\" has too many letters for a gradient", n->text);
        used[(unsigned char)fresh] = true;
        target[i] = fresh;
        Node *row = graph_arange(to, shape->extent[i]), *column = graph_reshape(to, row, SHAPE(shape->extent[i], 1));
        in[count] = graph_cast(to, graph_binary(to, OP_EQ, row, column), n->dtype);
        letters[count++] = format("%c%c", own[i], fresh);
    }
    if (count == 0) { /* only numbers */
        factor = selected(s, g, factor);
        Node *y = over ? graph_sum_samples(to, factor, NULL, 0) : factor;
        sweep_contribute(s, n->in[k], graph_broadcast(to, y, *shape));
        return;
    }
    if (factor)
        in[0] = graph_times(to, factor, in[0]);
    if (of_number)
        in[0] = selected(s, g, in[0]);
    Text spec = {0};
    char present[MAX_RANK + 1] = "";
    Shape kept = *shape;
    for (int i = 0; i < count; i++)
        text_add(&spec, "%s%s", i ? "," : "", letters[i]);
    for (int i = 0, m = 0; i < shape->rank; i++)
        if (strchr(text_of(&spec), target[i]))
            present[m++] = target[i];
        else
            kept.extent[i] = 1;
    text_add(&spec, "->%s", present);
    Node *y = selection_of_contraction(s, graph_einsum(to, text_of(&spec), in, count, over), g, of_g, present);
    sweep_contribute(s, n->in[k], graph_broadcast(to, graph_reshape(to, y, kept), *shape));
}

static void gradient_einsum(Sweep *s, Node *n, Node *g)
{
    for (int k = 0; k < n->inputs; k++)
        if (wants(s, n, k))
            einsum_operand(s, n, g, k);
}

/* [o, c / groups, k...] -> [c, o / groups, k... reversed] */
static Node *transposed_weight(Graph *g, Node *w, int64_t groups)
{
    int r = w->shape.rank - 2;
    int64_t start[MAX_RANK] = {0}, step[MAX_RANK] = {1, 1}, outputs = w->shape.extent[0], channels = w->shape.extent[1];
    for (int i = 2; i < 2 + r; i++) {
        start[i] = w->shape.extent[i] - 1;
        step[i] = -1;
    }
    w = graph_slice(g, w, start, w->shape.extent, step);
    if (groups == 1) {
        int order[MAX_RANK] = {1, 0, 2, 3, 4, 5, 6, 7};
        return graph_transpose(g, w, order);
    }
    Shape transposed = w->shape;
    transposed.extent[0] = channels * groups;
    transposed.extent[1] = outputs / groups;
    int64_t taps = 1; /* the kernel as one axis: with groups, a fourth axis could exceed the rank */
    for (int i = 2; i < 2 + r; i++)
        taps *= w->shape.extent[i];
    w = graph_reshape(g, w, SHAPE(groups, outputs / groups, channels, taps));
    w = graph_transpose(g, w, (int[]){0, 2, 1, 3});
    return graph_reshape(g, w, transposed);
}

/* Contributes a gradient that has the input's shape, but values for all samples, which are added up if the input is the same for
 * all. */
static void give_sum(Sweep *s, const Node *n, int k, Node *gradient)
{
    bool over = over_samples(n, k);
    sweep_contribute(s, n->in[k], over ? graph_sum_samples(s->g, sweep_term(s, gradient), NULL, 0) : gradient);
}

/* Returns the gradient at x of the convolution of x and w with these attributes, whose gradient is g.
 *
 * y[p] = sum_k x'[S p + d k - b] w[k], so at x': sum_{p, k: S p + d k - b = q} g[p] w[k]. With g' = g dilated by S and the
 * transposed kernel of size K this is the convolution sum_k g'[q + d k - (d (K - 1) - b)] w[K - 1 - k]; x is every
 * input_dilation-th of x'. */
static Node *convolved_back(Graph *to, const int64_t *of, const Shape *x, Node *g, Node *w)
{
    int r = (int)of[0];
    const int64_t *stride = of + 1, *low = stride + r, *dilation = low + 2 * r, *input_dilation = dilation + r;
    int64_t ints[2 + 5 * MAX_RANK];
    memcpy(ints, of, (size_t)(2 + 5 * r) * sizeof *ints);
    for (int i = 0; i < r; i++) {
        int64_t reach = dilation[i] * (w->shape.extent[2 + i] - 1);
        int64_t x_extent = x->extent[i] ? (x->extent[i] - 1) * input_dilation[i] + 1 : 0;
        int64_t g_extent = (g->shape.extent[i] - 1) * stride[i] + 1;
        ints[1 + i] = input_dilation[i];
        ints[1 + r + i] = reach - low[i];
        ints[1 + 2 * r + i] = x_extent - g_extent + low[i];
        ints[1 + 4 * r + i] = stride[i];
    }
    return NODE(to, OP_CONVOLVE, ints, 2 + 5 * r, NULL, g, transposed_weight(to, w, of[1 + 5 * r]));
}

static void gradient_convolve(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *x = n->in[0], *w = n->in[1];
    int r = (int)n->ints[0];
    int64_t ints[2 + 6 * MAX_RANK];
    memcpy(ints, n->ints, (size_t)n->int_count * sizeof *ints);
    if (wants(s, n, 1)) {
        bool over = over_samples(n, 1);
        memcpy(ints + n->int_count, w->shape.extent + 2, (size_t)r * sizeof *ints);
        sweep_contribute(s, w, graph_convolve_weight(to, x, over ? sweep_term(s, g) : g, ints, n->int_count + r, over));
    }
    if (wants(s, n, 0))
        give_sum(s, n, 0, selection_of_contraction(s, convolved_back(to, n->ints, &x->shape, g, w), g, NULL, NULL));
}

/* It is linear in both operands, like the convolution whose weight's gradient it is; g: of the shape of that weight. */
static void gradient_convolve_weight(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *x = n->in[0], *y = n->in[1];
    if (wants(s, n, 0))
        give_sum(s, n, 0, selection_of_contraction(s, convolved_back(to, n->ints, &x->shape, y, g), g, NULL, NULL));
    if (wants(s, n, 1)) {
        Node *convolved = NODE(to, OP_CONVOLVE, n->ints, 2 + 5 * (int)n->ints[0], NULL, x, g);
        give_sum(s, n, 1, selection_of_contraction(s, convolved, g, NULL, NULL));
    }
}

/* Returns the value that x is a slice of, through a reshape. */
static const Node *sliced(const Node *x)
{
    if (x->op == OP_RESHAPE)
        x = x->in[0];
    return x->op == OP_SLICE ? x->in[0] : NULL;
}

/* They belong to the forward pass, because the kernel of y computes them, too. */
static Node *attention_sums(Sweep *s, const Node *y)
{
    bool backward = s->g->backward;
    s->g->backward = false;
    Node *sums = graph_attention_sums(s->g, y);
    s->g->backward = backward;
    return sums;
}

static Node *attention_operand(Sweep *s, Node *n, Node *sums, Node *g, int64_t which)
{
    return selection_of_contraction(s, graph_attention_gradient(s->g, n, sums, g, which), g, NULL, NULL);
}

/* If q, k and v are slices of one value, their gradients are computed as one value, of which the gradient at that value is a
 * view. */
static void gradient_attention(Sweep *s, Node *n, Node *g)
{
    Node *const *in = n->in;
    bool one = sliced(in[0]) && sliced(in[0]) == sliced(in[1]) && sliced(in[0]) == sliced(in[2]) && in[0]->has_samples &&
               shape_equal(&in[0]->shape, &in[1]->shape) && shape_equal(&in[0]->shape, &in[2]->shape);
    Node *sums = attention_sums(s, n), *all = one ? attention_operand(s, n, sums, g, 3) : NULL;
    for (int k = 0; k < 3; k++) {
        if (!one) {
            give(s, n, k, attention_operand(s, n, sums, g, k));
            continue;
        }
        Shape part = all->shape;
        part.extent[1] = 1;
        Node *own = graph_slice(s->g, all, (int64_t[]){0, k, 0, 0}, part.extent, (int64_t[]){1, 1, 1, 1});
        give(s, n, k, graph_reshape(s->g, own, in[k]->shape));
    }
}

static void gradient_twice(Sweep *s, Node *n, Node *g)
{
    (void)s, (void)g;
    die("the gradient of %s, which is one", OP_INFO[n->op].name);
}

/* ---- windows */

static Node *window_node(Sweep *s, Op op, const Node *n, Node **in, int inputs)
{
    int r = n->in[0]->shape.rank;
    int64_t ints[5 * MAX_RANK];
    memcpy(ints, n->ints, (size_t)(4 * r) * sizeof *ints);
    memcpy(ints + 4 * r, n->in[0]->shape.extent, (size_t)r * sizeof *ints);
    return graph_node(s->g, op, in, inputs, ints, 5 * r, NULL);
}

static void gradient_window_max(Sweep *s, Node *n, Node *g)
{
    Node *place = NODE(s->g, OP_WINDOW_ARGMAX, n->ints, n->int_count, NULL, n->in[0]);
    give(s, n, 0, window_node(s, OP_WINDOW_MAX_GRADIENT, n, (Node *[]){place, g}, 2));
}

/* y[place of window p] += g[p], so at g: the gradient at the place of each window */
static void gradient_window_max_gradient(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    const Shape *x = &n->shape, *windows = &n->in[0]->shape;
    const int64_t *size = n->ints, *stride = size + x->rank, *low = stride + x->rank;
    int64_t count = shape_count(x), inner = 1;
    Dtype t = count > INT32_MAX ? I64 : I32;
    Node *place = graph_cast(to, n->in[0], t), *at = graph_fill(to, 0, *windows, t), *inside = graph_fill(to, 1, *windows, BOOL);
    for (int i = x->rank - 1; i >= 0; i--) {
        Shape along = {.rank = x->rank - i, .extent = {windows->extent[i]}};
        for (int k = 1; k < along.rank; k++)
            along.extent[k] = 1;
        Node *number = graph_number(to, (double)size[i], t), *within = graph_binary(to, OP_MOD, place, number);
        Node *step = graph_number(to, (double)stride[i], t), *first = graph_number(to, (double)low[i], t);
        Node *start = graph_binary(to, OP_MUL, graph_cast(to, graph_arange(to, windows->extent[i]), t), step);
        Node *row = graph_reshape(to, graph_binary(to, OP_SUB, start, first), along);
        row = graph_binary(to, OP_ADD, within, row);
        Node *above = graph_binary(to, OP_LE, graph_number(to, 0, t), row);
        Node *below = graph_binary(to, OP_LT, row, graph_number(to, (double)x->extent[i], t));
        inside = graph_binary(to, OP_AND, inside, graph_binary(to, OP_AND, above, below));
        at = graph_binary(to, OP_ADD, at, graph_binary(to, OP_MUL, row, graph_number(to, (double)inner, t)));
        place = graph_binary(to, OP_QUOTIENT, place, number);
        inner *= x->extent[i];
    }
    at = graph_where(to, inside, at, graph_number(to, -1, t));
    give(s, n, 1, NODE(to, OP_GATHER, &(int64_t){0}, 1, NULL, graph_reshape(to, g, SHAPE(count)), at));
}

static void gradient_window_sum(Sweep *s, Node *n, Node *g) { give(s, n, 0, window_node(s, OP_WINDOW_SUM_GRADIENT, n, &g, 1)); }

static void gradient_window_sum_gradient(Sweep *s, Node *n, Node *g)
{
    give(s, n, 0, NODE(s->g, OP_WINDOW_SUM, n->ints, 4 * n->shape.rank, NULL, g));
}

/* ---- views */

static void gradient_reshape(Sweep *s, Node *n, Node *g) { give(s, n, 0, graph_reshape(s->g, g, n->in[0]->shape)); }

static void gradient_transpose(Sweep *s, Node *n, Node *g)
{
    int inverse[MAX_RANK] = {0};
    for (int i = 0; i < n->int_count; i++)
        inverse[n->ints[i]] = i;
    give(s, n, 0, graph_transpose(s->g, g, inverse));
}

static void gradient_slice(Sweep *s, Node *n, Node *g)
{
    int r = n->shape.rank;
    int64_t ints[3 * MAX_RANK];
    for (int i = 0; i < r; i++) {
        ints[i] = n->ints[i];
        ints[r + i] = n->ints[2 * r + i];
        ints[2 * r + i] = n->in[0]->shape.extent[i];
    }
    give(s, n, 0, NODE(s->g, OP_UNSLICE, ints, 3 * r, NULL, g));
}

static void gradient_unslice(Sweep *s, Node *n, Node *g)
{
    give(s, n, 0, graph_slice(s->g, g, n->ints, n->in[0]->shape.extent, n->ints + n->shape.rank));
}

/* Returns the box of g that begins at `start` and has the shape of x. */
static Node *box(Graph *to, Node *g, const int64_t *start, const Shape *x)
{
    int64_t step[MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        step[i] = 1;
    return graph_slice(to, g, start, x->extent, step);
}

static void gradient_concat(Sweep *s, Node *n, Node *g)
{
    int64_t start[MAX_RANK] = {0};
    for (int k = 0; k < n->inputs; k++) {
        if (wants(s, n, k))
            give(s, n, k, box(s->g, g, start, &n->in[k]->shape));
        start[n->ints[0]] += n->in[k]->shape.extent[n->ints[0]];
    }
}

static void gradient_pad(Sweep *s, Node *n, Node *g) { give(s, n, 0, box(s->g, g, n->ints, &n->in[0]->shape)); }

static void gradient_broadcast(Sweep *s, Node *n, Node *g) { give(s, n, 0, gradient_shrink(s->g, g, n->in[0]->shape, false)); }

/* ---- by index */

static void gradient_gather(Sweep *s, Node *n, Node *g)
{
    Node *table = number_like(s->g, n->in[0], 0);
    bool over = over_samples(n, 0);
    g = over ? sweep_term(s, g) : g;
    sweep_contribute(s, n->in[0], graph_scatter_add(s->g, table, n->in[1], g, (int)n->ints[0], over));
}

static void gradient_scatter(Sweep *s, Node *n, Node *g)
{
    if (wants(s, n, 0))
        give(s, n, 0, g);
    if (wants(s, n, 2))
        give_sum(s, n, 2, NODE(s->g, OP_GATHER, n->ints, 1, NULL, g, n->in[1]));
}

static void gradient_index_copy(Sweep *s, Node *n, Node *g)
{
    if (wants(s, n, 0))
        give(s, n, 0, NODE(s->g, OP_INDEX_COPY, n->ints, 1, NULL, g, n->in[1], number_like(s->g, n->in[2], 0)));
    if (wants(s, n, 2))
        give(s, n, 2, NODE(s->g, OP_GATHER, n->ints, 1, NULL, g, n->in[1]));
}

/* Each of the k largest goes back to its place: x as one row of [outer, extent, inner] numbers, and the index of each place. */
static void gradient_top_k(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    const Shape *x = &n->in[0]->shape;
    int axis = (int)n->ints[0];
    int64_t ints[3] = {axis, n->ints[1], 1}, extent = x->extent[axis], k = n->ints[1], outer = 1, inner = 1;
    for (int i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->extent[i] : 1;
        inner *= i > axis ? x->extent[i] : 1;
    }
    Node *place = NODE(to, OP_TOP_K, ints, 3, NULL, n->in[0]);
    Dtype t = outer * extent * inner > INT32_MAX ? I64 : I32;
    Node *rows = graph_number(to, (double)extent, t),
         *row = graph_binary(to, OP_MUL, graph_cast(to, graph_arange(to, outer), t), rows);
    Node *lane = graph_reshape(to, graph_cast(to, graph_arange(to, inner), t), SHAPE(1, 1, inner));
    row = graph_reshape(to, row, SHAPE(outer, 1, 1));
    place = graph_binary(to, OP_ADD, graph_cast(to, graph_reshape(to, place, SHAPE(outer, k, inner)), t), row);
    place = graph_binary(to, OP_ADD, graph_binary(to, OP_MUL, place, graph_number(to, (double)inner, t)), lane);
    Shape all = SHAPE(outer * extent * inner), chosen = SHAPE(outer * k * inner);
    Node *values = graph_reshape(to, g, chosen), *y;
    place = graph_reshape(to, place, chosen);
    y = graph_reshape(to, graph_scatter_add(to, graph_fill(to, 0, all, g->dtype), place, values, 0, false), *x);
    char of_x[] = "abcdefgh", of_y[] = "abcdefgh";
    of_x[x->rank] = of_y[x->rank] = 0;
    of_y[axis] = 'X';
    give(s, n, 0, selection_of_contraction(s, y, g, of_y, of_x));
}

/* ---- across samples */

static void gradient_group_sum(Sweep *s, Node *n, Node *g) { give(s, n, 0, graph_group_sum(s->g, g, n->ints[0])); }
static void gradient_reduce(Sweep *s, Node *n, Node *g) { give(s, n, 0, g); }

/* d mean / dx = 1 / n, d sum (x - mean)^2 / dx = 2 (x - mean), where the sample is valid */
static void gradient_moments(Sweep *s, Node *n, Node *g)
{
    Graph *to = s->g;
    Node *x = n->in[0], *number = graph_moment(to, n, MOMENT_COUNT), *one = number_like(to, number, 1);
    Node *each = graph_binary(to, OP_DIV, graph_moment(to, g, MOMENT_MEAN), graph_binary(to, OP_MAXIMUM, number, one));
    Node *mean = broadcast_over(to, graph_moment(to, n, MOMENT_MEAN), &x->shape, n->ints, n->int_count);
    Node *squares = broadcast_over(to, graph_moment(to, g, MOMENT_SQUARES), &x->shape, n->ints, n->int_count);
    Node *away = graph_binary(to, OP_SUB, graph_cast(to, x, F64), mean);
    Node *dx = graph_binary(to, OP_MUL, number_like(to, away, 2), selected_product(s, squares, away));
    dx = graph_binary(to, OP_ADD, broadcast_over(to, each, &x->shape, n->ints, n->int_count), dx);
    give_sum(s, n, 0, graph_cast(to, s->is_value ? dx : select_valid(to, dx), x->dtype));
}

/* ---- bodies */

static void gradient_result(Sweep *s, Node *n, Node *g)
{
    Node *inner = n->in[0];
    Node ***results = &s->of_results[inner->id];
    if (!*results)
        *results = NEW_ARRAY(Node *, inner->body->result_count);
    (*results)[n->ints[0]] = g;
}

static void gradient_scan(Sweep *s, Node *n, Node *g)
{
    (void)g;
    scan_gradient(s, n, s->of_results[n->id]);
}

static void gradient_composite(Sweep *s, Node *n, Node *g)
{
    (void)s, (void)g;
    die("a composite ('%s') has not been expanded", n->text);
}

/* ---- the table */

#define gradient_none NULL
static GradientRule *const RULE[OPS] = {
#define OP(op, name, class, inputs, attributes, linear, flops, meaning, shape, gradient, ...) [OP_##op] = gradient,
#include "compiler/ir/ops.def"
};

void sweep_node(Sweep *s, Node *n)
{
    if (!sweep_needs(s, n) || OP_INFO[n->op].op_class == LEAF)
        return;
    set_position(s->g, n);
    s->g->backward = !s->is_value;
    Node *gradient = sweep_take(s, n);
    if (gradient && n->name)
        gradient_name(gradient, format("d_%s", n->name));
    if (gradient || s->of_results[n->id])
        RULE[n->op](s, n, gradient);
}

void sweep_replace(Sweep *s, Node *old, Node *now)
{
    struct Replaced r = {old, now};
    APPEND(s->replaced, s->replaced_count, r);
}

Graph *sweep_merge(const Sweep *s)
{
    Graph *g = s->g;
    if (!s->replaced_count)
        return g;
    Graph *target = graph_in_place_of(g);
    Node **now = NEW_ARRAY(Node *, g->node_count);
    bool *moved = NEW_ARRAY(bool, g->node_count);
    for (int i = 0; i < s->replaced_count; i++) {
        now[s->replaced[i].old->id] = s->replaced[i].now;
        moved[s->replaced[i].now->id] = true;
    }
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (now[i]) {
            n->mapped = graph_copy_node(target, now[i]);
            n->mapped->backward = false;
        } else if (!moved[i]) {
            graph_copy_node(target, n);
        }
    }
    graph_copy_results(target, g);
    return target;
}
