/* precision.c: F32 means "the model's float"; this stage replaces it by the model's precision.
 *
 * In: any graph without composites, distributed. Out: the graph itself for precision f32; else a new one.
 *
 * f64. F64 replaces F32 everywhere, and variables of F32 become F64 (in the model, for all graphs). Inputs, whose type in memory
 * is that of the user's data, and random numbers, which have 24 bits, stay F32 and are cast after the leaf. What was F64 before
 * (rates, sums of reports) stays, so casts between the two disappear.
 *
 * bf16, f16. All arithmetic stays F32, and so does everything that is not a value of every sample: variables, gradients, states
 * of the optimizer, sums over samples. Of the values of samples, what is in memory becomes BF16 (or F16: below, BF16 means both):
 *   contractions   EINSUM of two operands, CONVOLVE and CONVOLVE_WEIGHT take BF16; their values of every sample are BF16,
 *                  a sum over samples is F32 (their last attribute says so)
 *   activations    values computed from such results, element by element. One that is used in several places (which may be
 *                  kernels) is rounded once, and all users see the rounded value: x -> cast bf16 -> cast f32. So nothing is
 *                  stored in two precisions. Likewise before windows and operands of CONCAT, which are usually stored.
 *                  A cast to BF16 that is not stored does not round (evaluate.c): it marks where rounding is allowed.
 *   views          move BF16 numbers if their operands are BF16
 * Reductions (statistics, maxima, sums), and what is computed only from these, stay F32, and so do losses of whole samples; a
 * contraction that reads one gets a rounded copy.
 *
 * A variable that contractions read has a copy, a variable of its own of kind ROUNDED (find_rounded_variables). It has the memory
 * order that contractions prefer, is written by the kernel that writes its master, is never saved, and is computed again when
 * weights are loaded. Other readers (a gather of an embedding's rows, decay, the update) read the master. A cache of values that
 * contractions read is itself BF16.
 *
 * Bodies of loops are computed in F32.
 *
 * f16 has few exponents: update.c has the factor that keeps gradients in its range.
 *
 * Each pass over a graph below is one loop, forward or backward. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

/* ---- f64 */

static Dtype wide(Dtype t) { return t == F32 ? F64 : t; }

static Node *widen(Graph *, Node *);

/* ARGs have the types of the loop's inputs. */
static Node *widen_loop(Graph *g, const Node *scan, Node **in)
{
    Loop l = loop_of(scan);
    Graph *inner = loop_open(g, &l, in);
    for (int i = 0; i < l.body->node_count; i++) {
        Node *n = l.body->nodes[i];
        set_position(inner, n);
        if (n->op != OP_ARG)
            map_node(n, widen(inner, n));
    }
    return loop_close(inner, &l);
}

static Node *widen(Graph *g, Node *n)
{
    Node **in = mapped_inputs(n);
    switch (n->op) {
    case OP_SCAN: return widen_loop(g, n, in);
    case OP_VARIABLE: return graph_variable(g, (int)n->ints[0]);
    case OP_INPUT:
    case OP_RANDOM: return graph_cast(g, graph_rebuild(g, n, in), wide(n->dtype));
    case OP_CONSTANT: {
        Node like = *n;
        like.dtype = wide(n->dtype);
        return graph_rebuild(g, &like, in);
    }
    case OP_CAST: return graph_cast(g, in[0], wide(n->dtype));
    default: return graph_rebuild(g, n, in);
    }
}

static Graph *widen_all(Graph *g)
{
    Model *m = g->model;
    for (int v = 0; v < m->variable_count; v++)
        m->variables[v].dtype = wide(m->variables[v].dtype);
    Graph *target = graph_new(m, g->name, g->parent);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        set_position(target, n);
        map_node(n, widen(target, n));
        if (n->op != OP_SCAN && n->mapped->dtype != wide(n->dtype))
            die("%s became %s", dtype_name(n->dtype), dtype_name(n->mapped->dtype));
        if (node_is_placed(n->mapped, UNPLACED))
            n->mapped->placement = n->placement;
    }
    graph_copy_results(target, g);
    return target;
}

/* ---- 16-bit types: which values */

typedef struct NodePrecision { /* of a node of the old graph */
    bool activation;           /* computed from a contraction's result, or from rows of a table */
    bool operand;              /* of a contraction, through views */
    bool rounded;              /* all users see its BF16 version */
    bool want_half, want_full; /* versions that are used */
    int end;                   /* id of the node that all its uses lead to, through single uses; -1: several */
    Node *half;                /* in the new graph: the BF16 version; the other one is node->mapped */
} NodePrecision;

static bool is_contraction(const Node *n)
{
    if (n->op == OP_ATTENTION || n->op == OP_ATTENTION_GRADIENT)
        return n->dtype == F32 && n->has_samples;
    bool pair = n->op == OP_CONVOLVE || n->op == OP_CONVOLVE_WEIGHT || (n->op == OP_EINSUM && n->inputs == 2);
    return pair && n->dtype == F32 && n->in[0]->dtype == F32 && n->in[1]->dtype == F32 &&
           (n->in[0]->has_samples || n->in[1]->has_samples);
}

/* Returns true for inputs that are taken rounded: all but the sums of attention's gradient. */
static bool takes_half(const Node *n, int input) { return is_contraction(n) && !(n->op == OP_ATTENTION_GRADIENT && input == 5); }

/* Sums over samples and attention's sums stay F32. */
static bool makes_half(const Node *n)
{
    return is_contraction(n) && n->has_samples && !(n->op == OP_ATTENTION && n->ints[3] == 1);
}

/* views, and rows in place of others: the same numbers in other places */
static bool is_move(const Node *n) { return OP_INFO[n->op].op_class == VIEW || n->op == OP_INDEX_COPY; }

static const Variable *variable_of(const Node *n) { return &n->graph->model->variables[n->ints[0]]; }

/* Returns true for a cache of values that contractions read (passes/decode.c): it is in memory as they are. */
static bool is_rounded_cache(const Node *n, const NodePrecision *v)
{
    return n->op == OP_VARIABLE && n->dtype == F32 && v->operand && variable_of(n)->kind == CACHE;
}

/* Returns true for values that are computed element by element, for every sample. */
static bool can_round(const Node *n)
{
    OpClass c = OP_INFO[n->op].op_class;
    return n->dtype == F32 && n->has_samples && (c == ELEMENTWISE || c == WINDOW || c == INDEXING);
}

static bool takes_stored(const Node *n) { return n->op == OP_CONCAT || OP_INFO[n->op].op_class == WINDOW; }

static void find_activations(const Graph *g, NodePrecision *values)
{
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        OpClass c = OP_INFO[n->op].op_class;
        bool passes = c == ELEMENTWISE || c == WINDOW || is_move(n) || n->op == OP_SCATTER_ADD;
        for (int k = 0; k < n->inputs && passes && n->has_samples; k++)
            values[i].activation = values[i].activation || values[n->in[k]->id].activation;
        if (n->op == OP_GATHER && n->has_samples && !n->in[0]->has_samples) /* rows of a table */
            values[i].activation = true;
        if (is_contraction(n) && n->has_samples)
            values[i].activation = true;
    }
}

enum { UNUSED = -2, SEVERAL = -1 };

static int join(int end, int other) { return end == UNUSED || end == other ? other : SEVERAL; }

/* Views and element-wise operations pass on what they are used for; every other use of a value is an end. */
static void find_ends(const Graph *g, NodePrecision *values)
{
    for (int i = 0; i < g->node_count; i++)
        values[i].end = UNUSED;
    for (int i = 0; i < g->result_count; i++)
        values[g->results[i].value->id].end = join(values[g->results[i].value->id].end, g->node_count + i);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        OpClass c = OP_INFO[n->op].op_class;
        int end = (c == ELEMENTWISE || c == VIEW) && values[i].end >= 0 ? values[i].end : i;
        bool moved = is_move(n) && values[i].operand;
        for (int k = 0; k < n->inputs && values[i].end != UNUSED; k++) {
            NodePrecision *in = &values[n->in[k]->id];
            in->end = join(in->end, is_move(n) ? values[i].end : end);
            in->operand = in->operand || takes_half(n, k) || moved;
        }
    }
}

/* Activations with one number per sample are losses and the like, and stay F32. */
static void find_rounded(const Graph *g, NodePrecision *values)
{
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        NodePrecision *v = &values[i];
        for (int k = 0; k < n->inputs && takes_stored(n); k++) {
            const Node *x = n->in[k];
            if (can_round(x) && values[x->id].activation && shape_count(&x->shape) > 1)
                values[x->id].rounded = true;
        }
        if (is_contraction(n))
            v->rounded = makes_half(n);
        else if (can_round(n))
            v->rounded = v->operand || (v->activation && v->end == SEVERAL && shape_count(&n->shape) > 1);
    }
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        NodePrecision *v = &values[i];
        v->rounded = v->rounded || is_rounded_cache(n, v);
        if (!is_move(n) || n->dtype != F32)
            continue;
        v->rounded = true;
        for (int k = 0; k < (n->op == OP_INDEX_COPY ? 1 : n->inputs); k++)
            v->rounded = v->rounded && values[n->in[k]->id].rounded;
    }
}

static void find_wanted(const Graph *g, NodePrecision *values)
{
    for (int i = 0; i < g->result_count; i++) {
        values[g->results[i].value->id].want_full = true;
        if (g->results[i].weight)
            values[g->results[i].weight->id].want_full = true;
    }
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        const NodePrecision *v = &values[i];
        if (!v->want_half && !v->want_full)
            continue;
        bool moves = is_move(n), moves_half = moves && (v->rounded || v->want_half);
        for (int k = 0; k < n->inputs; k++) {
            NodePrecision *in = &values[n->in[k]->id];
            bool half = takes_half(n, k) || (moves_half && n->in[k]->dtype == F32);
            in->want_half = in->want_half || half;
            in->want_full = in->want_full || !half || (moves && !v->rounded && v->want_full);
        }
    }
}

static NodePrecision *analyse(const Graph *g)
{
    NodePrecision *values = NEW_ARRAY(NodePrecision, g->node_count);
    find_activations(g, values);
    find_ends(g, values);
    find_rounded(g, values);
    find_wanted(g, values);
    return values;
}

/* ---- 16-bit types: variables */

/* Returns, by variable, its rounded copy, or -1. */
static int *copies_of(const Model *m)
{
    int *copy = NEW_ARRAY(int, m->variable_count);
    for (int v = 0; v < m->variable_count; v++)
        copy[v] = -1;
    for (int v = 0; v < m->variable_count; v++)
        if (m->variables[v].kind == ROUNDED)
            copy[m->variables[v].owner] = v;
    return copy;
}

void find_rounded_variables(Model *m, Graph **graphs, int graph_count)
{
    if (!dtype_is_half(m->precision))
        return;
    bool *wanted = NEW_ARRAY(bool, m->variable_count);
    for (int k = 0; k < graph_count; k++) {
        const NodePrecision *values = analyse(graphs[k]);
        for (int i = 0; i < graphs[k]->node_count; i++) {
            const Node *n = graphs[k]->nodes[i];
            if (n->op == OP_VARIABLE && n->dtype == F32 && values[i].want_half)
                wanted[n->ints[0]] = true;
            if (is_rounded_cache(n, &values[i]))
                m->variables[n->ints[0]].dtype = m->precision;
        }
    }
    int count = m->variable_count;
    for (int v = 0; v < count; v++) {
        Variable copy = m->variables[v];
        if (!wanted[v] || variable_is_placed(&copy, IS_PARTIAL) || variable_is_placed(&copy, OVER_SAMPLES))
            continue;
        copy.name = format("%s.%s", copy.name, dtype_name(m->precision));
        copy.kind = ROUNDED;
        copy.dtype = m->precision;
        copy.trained = false;
        copy.owner = v;
        APPEND(m->variables, m->variable_count, copy);
    }
}

/* ---- 16-bit types: the new graph */

typedef struct Narrower {
    const Graph *graph;
    Graph *target;
    NodePrecision *values;
    const int *copy; /* by variable */
    Dtype half;
} Narrower;

static void typed(const Node *old, Node *n)
{
    if (node_is_placed(n, UNPLACED))
        n->placement = old->placement;
    if (!n->name)
        n->name = old->name;
}

static Node **inputs_of(const Narrower *w, const Node *n, bool half)
{
    Node **in = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = half && ((is_move(n) && n->in[k]->dtype == F32) || takes_half(n, k)) ? w->values[n->in[k]->id].half
                                                                                     : n->in[k]->mapped;
    return in;
}

/* Makes the contraction of the BF16 versions; a sum over samples stays F32: an attribute says so. */
static Node *narrow_contraction(const Narrower *w, const Node *n)
{
    Node like = *n;
    if (!n->has_samples) {
        like.ints = NEW_ARRAY(int64_t, n->int_count + 1);
        if (n->int_count)
            memcpy(like.ints, n->ints, sizeof *n->ints * (size_t)n->int_count);
        like.ints[like.int_count++] = F32;
    }
    return graph_rebuild(w->target, &like, inputs_of(w, n, true));
}

static Node *make_half(const Narrower *w, Node *n, Node *full)
{
    if (is_contraction(n))
        return narrow_contraction(w, n);
    if (is_move(n))
        return graph_rebuild(w->target, n, inputs_of(w, n, true));
    if (n->op == OP_VARIABLE && w->copy[n->ints[0]] >= 0)
        return graph_variable(w->target, w->copy[n->ints[0]]);
    if (is_rounded_cache(n, &w->values[n->id]))
        return graph_variable(w->target, (int)n->ints[0]);
    return graph_cast(w->target, full, w->half);
}

static void narrow(const Narrower *w, Node *n)
{
    NodePrecision *v = &w->values[n->id];
    Graph *g = w->target;
    n->mapped = NULL;
    if (!v->want_half && !v->want_full)
        return;
    set_position(g, n);
    bool computed =
        !((is_contraction(n) || is_rounded_cache(n, v)) && v->rounded) && !(is_move(n) && (v->rounded || !v->want_full));
    if (computed) {
        n->mapped = is_contraction(n) ? narrow_contraction(w, n) : graph_rebuild(g, n, inputs_of(w, n, false));
        if (n->mapped->dtype != n->dtype)
            die("%s became %s", dtype_name(n->dtype), dtype_name(n->mapped->dtype));
        typed(n, n->mapped);
    }
    if (v->rounded || v->want_half) {
        v->half = make_half(w, n, n->mapped);
        if (v->half->dtype != w->half)
            die("a %s for %s", dtype_name(v->half->dtype), dtype_name(w->half));
        typed(n, v->half);
    }
    if (v->rounded && v->want_full) {
        n->mapped = graph_cast(g, v->half, F32);
        typed(n, n->mapped);
    }
}

static Graph *narrow_all(Graph *g)
{
    Narrower w = {.graph = g, .values = analyse(g), .copy = copies_of(g->model), .half = g->model->precision};
    Graph *target = w.target = graph_new(g->model, g->name, g->parent);
    for (int i = 0; i < g->node_count; i++)
        narrow(&w, g->nodes[i]);
    graph_copy_results(target, g);
    for (int i = 0, count = target->result_count; i < count; i++) {
        Result r = target->results[i];
        const Variable *kept = r.role == ROLE_UPDATE ? &g->model->variables[r.index] : NULL;
        Node *half = kept ? w.values[graph_find_result(g, ROLE_UPDATE, r.index)->value->id].half : NULL;
        if (half && kept->kind == CACHE && dtype_is_half(kept->dtype))
            target->results[i].value = half;
        if ((r.role != ROLE_UPDATE && r.role != ROLE_INIT) || w.copy[r.index] < 0)
            continue;
        set_position(target, r.value);
        Node *value = graph_cast(target, r.value, w.half);
        typed(r.value, value);
        graph_result(target, r.role, g->model->variables[w.copy[r.index]].name, w.copy[r.index], value, NULL);
    }
    return target;
}

Graph *choose_precision(Graph *g)
{
    switch (g->model->precision) {
    case F32: return g;
    case F64: return widen_all(g);
    case BF16:
    case F16: return narrow_all(g);
    default: die("precision %s", dtype_name(g->model->precision));
    }
}
