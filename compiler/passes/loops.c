/* loops.c: what does not depend on carries is moved out of loops.
 *
 * In: a graph with SCANs. Out: a graph in which a loop has the recurrence and little else. Values of a body are
 *   invariant     the same in every step: computed once, before the loop (views of them stay: they cost nothing)
 *   ahead         computed from sequences only: contractions, loops and sums over samples of all steps are computed at once
 *                 before the loop (passes/loops_batch.c); of the rest, as much as minimises the bytes that the loop reads
 *   recurrent     they depend on a carry, and a carry depends on them: they stay
 *   after         they depend on a carry, and only stacks depend on them: contractions and sums over samples are computed at once
 *                 after the loop, from stacked operands; of the rest, as much as minimises the bytes of stacks; but what is
 *                 recurrent is not computed twice
 * A sum over the steps (gradients of captured values) is pushed through what is linear: at a contraction it becomes one
 * contraction of all steps; else, if there is no stack anyway, a carry that is an accumulator.
 *
 * A loop in which some carries have a value for every sample and others are the same for all is split first: the latter are in a
 * loop of their own, and the rest reads their stacks. So all carries and results of a loop are of one kind.
 *
 * If what must be moved out (sums over samples, which have one value on all devices) cannot be, that is the user's mistake:
 * error_at. */
#include "compiler/passes/loops.h"
#include "compiler/passes/stages.h"

enum { EXPANSION = 4, FEW_FLOPS = 32 }; /* of is_expansion: elements per element of the inputs, operations per element */

typedef struct Hoist {
    Graph *g;
    Loop l;
    Node **in;                 /* new inputs of the loop, in g */
    const bool *used, *summed; /* by result */
    bool has_samples;          /* of the node */
    /* by node of the body */
    bool *carried, *varies; /* depends on a carry; on a carry or a sequence */
    bool *recurs;           /* carried, and a carry depends on it */
    bool *has_rule; /* it can be computed outside of the loop, and so can all that it depends on, except what may be stacked */
    bool *stacked;  /* carried: the loop makes its stack */
    bool *sliced;   /* ahead: computed outside, its slice is read inside */
    bool *inside, *outside; /* where it is computed */
    bool *added;            /* the loop accumulates its sum over the steps */
    Outside *value;
    Node **within, **total;
    int *place; /* stacked: index of the stack; added: of the carry */
} Hoist;

static bool is_leaf(const Node *n) { return OP_INFO[n->op].op_class == LEAF; }
static bool is_loop(const Node *n) { return n->op == OP_SCAN || (n->op == OP_RESULT && n->in[0]->op == OP_SCAN); }

/* A contraction with a result much larger than its inputs is cheaper to compute in the loop than to stack. */
static bool is_expansion(const Node *n)
{
    double out = (double)shape_count(&n->shape), in = 0;
    for (int k = 0; k < n->inputs; k++)
        in += (double)shape_count(&n->in[k]->shape);
    return out > EXPANSION * in && node_flops(n) < FEW_FLOPS * out;
}

static bool is_expensive(const Node *n)
{
    OpClass c = OP_INFO[n->op].op_class;
    return (c == CONTRACTION && !is_expansion(n)) || c == WINDOW || c == RUNNING || n->op == OP_TOP_K || is_loop(n);
}

static bool is_move(const Node *n) { return OP_INFO[n->op].op_class == VIEW || n->op == OP_CAST; }

/* Returns true for what a loop that works sample by sample cannot compute. */
static bool must_leave(const Hoist *h, const Node *n)
{
    return node_sums_samples(n) || n->op == OP_GROUP_SUM || op_is_transfer(n->op) ||
           (h->has_samples && !n->has_samples && !is_leaf(n));
}

static _Noreturn void cannot_leave(const Node *n, bool carried)
{
    if (carried && (node_sums_samples(n) || n->op == OP_GROUP_SUM))
        error_at(n->at, "this sum over samples depends on what a scan carries from step to step, and the next step on it: the "
                        "devices would have to meet in every step; sum over samples after the scan, or what the scan goes over");
    error_at(
        n->at,
        "'%s' of shape %s is one for all samples, so the scan needs it for all steps at once, which cannot be computed here; "
        "compute it before the scan, and let the scan go over it",
        OP_INFO[n->op].name, shape_text(&n->shape));
}

/* ---- classes */

static void classify(Hoist *h)
{
    const Graph *body = h->l.body;
    for (int i = 0; i < body->node_count; i++) {
        const Node *n = body->nodes[i];
        bool *along = NEW_ARRAY(bool, n->inputs), rule = true;
        if (n->op == OP_ARG) {
            CaptureKind kind = loop_kind(&h->l, (int)n->ints[0]);
            h->carried[i] = kind == AS_CARRY;
            h->varies[i] = kind != AS_IT_IS;
            h->has_rule[i] = n->shape.rank < MAX_RANK || !h->varies[i];
            continue;
        }
        for (int k = 0; k < n->inputs; k++) {
            int in = n->in[k]->id;
            h->carried[i] = h->carried[i] || h->carried[in];
            h->varies[i] = h->varies[i] || h->varies[in];
            along[k] = h->varies[in];
            rule = rule && (h->has_rule[in] || h->carried[in]);
        }
        h->has_rule[i] = rule && batch_has_rule(n, along);
    }
    for (int i = 0; i < h->l.carries; i++)
        if (h->carried[h->l.next[i]->id])
            h->recurs[h->l.next[i]->id] = true;
    for (int i = body->node_count - 1; i >= 0; i--)
        for (int k = 0; h->recurs[i] && k < body->nodes[i]->inputs; k++)
            if (h->carried[body->nodes[i]->in[k]->id])
                h->recurs[body->nodes[i]->in[k]->id] = true;
    for (int i = 0; i < body->node_count; i++)
        if (h->recurs[i] && must_leave(h, body->nodes[i]))
            cannot_leave(body->nodes[i], true);
}

/* ---- what sums over the steps need */

typedef enum Total { TOTAL_ONCE, TOTAL_THROUGH, TOTAL_CONTRACTION, TOTAL_SPREAD, TOTAL_OWN } Total;

static Total total_kind(const Hoist *h, const Node *n)
{
    bool few[8], *along = n->inputs <= COUNT(few) ? few : NEW_ARRAY(bool, n->inputs), ready = true, floats = true;
    if (!h->varies[n->id])
        return TOTAL_ONCE;
    if (n->op == OP_ARG)
        return TOTAL_OWN;
    for (int k = 0; k < n->inputs; k++) {
        along[k] = h->varies[n->in[k]->id];
        ready = ready && (h->has_rule[n->in[k]->id] || h->carried[n->in[k]->id]);
        floats = floats && (!along[k] || dtype_is_float(n->in[k]->dtype)); /* a sum of integers may overflow */
    }
    if (floats && node_is_linear(n, n->in, along))
        return TOTAL_THROUGH;
    if (batch_is_spread(n)) {
        bool can = true;
        for (int k = 0; k < 2; k++)
            can = can && (h->has_rule[batch_operand(n, k)->id] || h->carried[batch_operand(n, k)->id]);
        if (can)
            return TOTAL_SPREAD;
    }
    return ready && batch_is_contraction(n, along) ? TOTAL_CONTRACTION : TOTAL_OWN;
}

static bool far(const Hoist *h, const Node *n)
{
    if (n->op == OP_RESULT && h->recurs[n->in[0]->id])
        return false; /* the inner loop runs in the outer one */
    return h->carried[n->id] && !h->recurs[n->id] && h->has_rule[n->id] && (is_expensive(n) || must_leave(h, n));
}

/* needed: stacks that sums need; h->added: values of which only the sum is needed */
static void find_totals(Hoist *h, bool *needed)
{
    const Graph *body = h->l.body;
    bool *wanted = NEW_ARRAY(bool, body->node_count);
    for (int j = 0; j < h->l.stacks; j++)
        if (h->summed && h->summed[h->l.carries + j] && h->used[h->l.carries + j])
            wanted[h->l.stack[j]->id] = true;
    for (int i = body->node_count - 1; i >= 0; i--) {
        const Node *n = body->nodes[i];
        if (!wanted[i])
            continue;
        switch (total_kind(h, n)) {
        case TOTAL_ONCE: needed[i] = true; break;
        case TOTAL_THROUGH:
            for (int k = 0; k < n->inputs; k++)
                *(h->varies[n->in[k]->id] ? &wanted[n->in[k]->id] : &needed[n->in[k]->id]) = true;
            break;
        case TOTAL_CONTRACTION:
            for (int k = 0; k < n->inputs; k++)
                needed[n->in[k]->id] = true;
            break;
        case TOTAL_SPREAD: needed[batch_operand(n, 0)->id] = needed[batch_operand(n, 1)->id] = true; break;
        case TOTAL_OWN:
            if (!h->carried[i] || far(h, n))
                needed[i] = true;
            else
                h->added[i] = true;
            break;
        }
    }
}

/* ---- what crosses the boundary of the loop */

static double bytes_of(const Node *n)
{
    double bytes = (double)shape_count(&n->shape) * dtype_bytes(n->dtype);
    if (n->op == OP_SCAN)
        return 1e30;                                      /* its results cross */
    return n->has_samples ? bytes : bytes / SOME_SAMPLES; /* only values of samples matter */
}

/* Finds the stacks of carried values that are needed after the loop. */
static void cut_target_side(Hoist *h, const bool *needed)
{
    const Graph *body = h->l.body;
    Side *side = NEW_ARRAY(Side, body->node_count);
    double *bytes = NEW_ARRAY(double, body->node_count);
    for (int i = 0; i < body->node_count; i++) {
        const Node *n = body->nodes[i];
        bytes[i] = bytes_of(n);
        bool outside = h->has_rule[i];
        if (!h->carried[i])
            side[i] = outside ? SIDE_GIVEN : SIDE_FIXED;
        else if (far(h, n))
            side[i] = SIDE_FAR;
        else
            side[i] = n->op == OP_ARG || !outside || is_expensive(n) || (h->recurs[i] && !is_move(n)) ? SIDE_FIXED : SIDE_FREE;
        if (side[i] == SIDE_FIXED && n->op != OP_ARG && must_leave(h, n) && needed[i])
            cannot_leave(n, h->carried[i]);
    }
    least_cut(body, side, bytes, needed, h->stacked);
}

/* Finds the slices of values from before the loop that the loop reads. */
static void cut_before(Hoist *h, const bool *needed)
{
    const Graph *body = h->l.body;
    Side *side = NEW_ARRAY(Side, body->node_count);
    double *bytes = NEW_ARRAY(double, body->node_count);
    for (int i = 0; i < body->node_count; i++) {
        const Node *n = body->nodes[i];
        bytes[i] = n->op == OP_ARG ? bytes_of(n) / 2 : bytes_of(n); /* a sequence exists already */
        if (h->carried[i] || !h->varies[i])
            side[i] = SIDE_GIVEN;
        else if (n->op == OP_ARG)
            side[i] = SIDE_FIXED;
        else if (!h->has_rule[i])
            side[i] = SIDE_FAR;
        else
            side[i] = is_expensive(n) || must_leave(h, n) ? SIDE_FIXED : SIDE_FREE;
    }
    least_cut(body, side, bytes, needed, h->sliced);
}

/* Returns true for an invariant that is nevertheless computed in the loop, because it is a constant or a view. */
static bool stays_inside(const Node *n) { return n->op == OP_CONSTANT || n->op == OP_ARANGE || OP_INFO[n->op].op_class == VIEW; }

static void find_needed(Hoist *h)
{
    const Graph *body = h->l.body;
    for (int i = body->node_count - 1; i >= 0; i--) {
        const Node *n = body->nodes[i];
        bool invariant = !h->varies[i] && !stays_inside(n);
        if (h->inside[i] && (h->sliced[i] || invariant))
            h->outside[i] = true;
        for (int k = 0; h->inside[i] && !h->sliced[i] && !invariant && k < n->inputs; k++)
            h->inside[n->in[k]->id] = true;
        for (int k = 0; h->outside[i] && !h->stacked[i] && k < n->inputs; k++)
            h->outside[n->in[k]->id] = true;
        if (h->inside[i] && h->varies[i] && !h->sliced[i] && must_leave(h, n) && n->op != OP_ARG)
            cannot_leave(n, h->carried[i]);
        if (h->outside[i] && !h->has_rule[i] && !h->stacked[i])
            cannot_leave(n, h->carried[i]);
    }
}

static void decide(Hoist *h)
{
    const Graph *body = h->l.body;
    bool *wanted = NEW_ARRAY(bool, body->node_count), *at_sink = NEW_ARRAY(bool, body->node_count);
    bool *ahead = NEW_ARRAY(bool, body->node_count);
    find_totals(h, wanted);
    for (int j = 0; j < h->l.stacks; j++)
        if (h->used[h->l.carries + j] && !(h->summed && h->summed[h->l.carries + j]))
            wanted[h->l.stack[j]->id] = true;
    for (int i = 0; i < body->node_count; i++)
        at_sink[i] = wanted[i] && (h->carried[i] || !h->has_rule[i]);
    cut_target_side(h, at_sink);
    for (int i = 0; i < body->node_count; i++) {
        h->outside[i] = wanted[i];
        h->inside[i] = h->stacked[i] || (h->added[i] && !wanted[i]);
        h->added[i] = h->added[i] && !wanted[i] && !h->stacked[i];
    }
    for (int i = 0; i < h->l.carries; i++)
        h->inside[h->l.next[i]->id] = true;
    bool *deep = NEW_ARRAY(bool, body->node_count); /* carried values that are computed in the loop */
    for (int i = body->node_count - 1; i >= 0; i--) {
        deep[i] = deep[i] || h->inside[i];
        if (deep[i] && !h->varies[i])
            continue;
        if (deep[i] && !h->carried[i])
            ahead[i] = true;
        for (int k = 0; deep[i] && h->carried[i] && k < body->nodes[i]->inputs; k++)
            deep[body->nodes[i]->in[k]->id] = true;
    }
    cut_before(h, ahead);
    find_needed(h);
}

/* ---- the new nodes */

static Node *carry_result(Hoist *h, Node *scan, int carry) { return graph_scan_result(h->g, scan, carry); }

static Outside *values_of_inputs(const Hoist *h, const Node *n)
{
    Outside *in = NEW_ARRAY(Outside, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = h->value[n->in[k]->id];
    return in;
}

static void compute_outside(Hoist *h, bool carried)
{
    for (int i = 0; i < h->l.body->node_count; i++) {
        const Node *n = h->l.body->nodes[i];
        if (!h->outside[i] || h->value[i].node || h->carried[i] != carried || h->stacked[i])
            continue;
        set_position(h->g, n);
        if (n->op == OP_ARG)
            h->value[i] = (Outside){h->in[n->ints[0]], h->varies[i]};
        else
            h->value[i] = batch_node(h->g, h->l.steps, n, values_of_inputs(h, n));
        if (!h->value[i].node->name)
            h->value[i].node->name = n->name;
    }
}

static void compute_inside(Hoist *h, Graph *inner)
{
    const Graph *body = h->l.body;
    for (int i = 0; i < body->node_count; i++) {
        Node *n = body->nodes[i];
        n->mapped = h->within[i];
        if (!h->inside[i] || n->mapped)
            continue;
        if (h->sliced[i])
            n->mapped = graph_scan_sequence(inner, h->value[i].node);
        else if (!h->varies[i] && !stays_inside(n))
            n->mapped = graph_capture(inner, h->value[i].node);
        else
            graph_copy_node(inner, n);
        if (!n->mapped->name)
            n->mapped->name = n->name;
        h->within[i] = n->mapped;
    }
}

/* Makes the loop itself; NULL: nothing is left of it. */
static Node *make_loop(Hoist *h)
{
    const Loop *l = &h->l;
    Graph *inner = graph_open_body(h->g, l->body->name);
    Node **next = NULL, **stacks = NULL, **sums = NULL;
    int next_count = 0, stack_count = 0, sum_count = 0;
    for (int i = 0; i < l->carries; i++) {
        h->within[l->arg[i]->id] = graph_scan_carry(inner, h->in[i], l->arg[i]->has_samples);
        h->within[l->arg[i]->id]->name = l->arg[i]->name;
    }
    for (int i = 0; i < l->body->node_count; i++)
        if (h->added[i]) {
            const Node *n = l->body->nodes[i];
            h->place[i] = l->carries + sum_count;
            Node *sum = graph_scan_carry(inner, graph_fill(h->g, 0, n->shape, n->dtype), h->has_samples);
            APPEND(sums, sum_count, sum);
        }
    compute_inside(h, inner);
    for (int i = 0; i < l->carries; i++) {
        Node *n = h->within[l->next[i]->id];
        APPEND(next, next_count, n);
    }
    for (int i = 0, k = 0; i < l->body->node_count; i++) {
        if (h->added[i]) {
            set_position(inner, l->body->nodes[i]);
            Node *n = graph_binary(inner, OP_ADD, sums[k++], h->within[i]);
            APPEND(next, next_count, n);
        }
        if (h->stacked[i]) {
            h->place[i] = stack_count;
            APPEND(stacks, stack_count, h->within[i]);
        }
    }
    if (!next_count && !stack_count)
        return NULL;
    Node *scan = graph_close_scan(inner, l->steps, l->reverse, next, stacks, stack_count);
    for (int i = 0; i < l->body->node_count; i++)
        if (h->stacked[i])
            h->value[i] = (Outside){graph_scan_result(h->g, scan, next_count + h->place[i]), true};
    return scan;
}

static Node *sum_of_stack(Hoist *h, Outside x) { return graph_sum(h->g, batch_stack(h->g, h->l.steps, x), (int[]){0}, 1); }

static Node *total_of(Hoist *h, Node *scan, const Node *n)
{
    Node **known = &h->total[n->id];
    if (*known)
        return *known;
    Node **in = NEW_ARRAY(Node *, n->inputs);
    switch (total_kind(h, n)) {
    case TOTAL_ONCE: {
        Node *once = h->value[n->id].node;
        *known = graph_binary(h->g, OP_MUL, once, graph_fill(h->g, (double)h->l.steps, once->shape, once->dtype));
        break;
    }
    case TOTAL_THROUGH:
        for (int k = 0; k < n->inputs; k++)
            in[k] = h->varies[n->in[k]->id] ? total_of(h, scan, n->in[k]) : h->value[n->in[k]->id].node;
        set_position(h->g, n);
        *known = graph_rebuild(h->g, n, in);
        break;
    case TOTAL_CONTRACTION:
        set_position(h->g, n);
        *known = batch_contraction_total(h->g, h->l.steps, n, values_of_inputs(h, n));
        break;
    case TOTAL_SPREAD: {
        Outside operands[2] = {h->value[batch_operand(n, 0)->id], h->value[batch_operand(n, 1)->id]};
        set_position(h->g, n);
        *known = batch_spread_total(h->g, h->l.steps, n, operands);
        break;
    }
    case TOTAL_OWN:
        set_position(h->g, n);
        *known = h->added[n->id] ? carry_result(h, scan, h->place[n->id]) : sum_of_stack(h, h->value[n->id]);
        break;
    }
    return *known;
}

static Node **make_results(Hoist *h, Node *scan)
{
    const Loop *l = &h->l;
    Node **results = NEW_ARRAY(Node *, l->carries + l->stacks);
    compute_outside(h, true);
    for (int i = 0; i < l->carries + l->stacks; i++) {
        Node *n = l->next[i];
        if (!h->used[i])
            continue;
        set_position(h->g, n);
        if (i < l->carries)
            results[i] = carry_result(h, scan, i);
        else if (h->summed && h->summed[i])
            results[i] = total_of(h, scan, n);
        else
            results[i] = batch_stack(h->g, l->steps, h->value[n->id]);
    }
    return results;
}

static Node **hoist_one_kind(Graph *g, const Loop *l, bool has_samples, Node **in, const bool *used, const bool *summed)
{
    int count = l->body->node_count;
    Hoist h = {.g = g, .l = *l, .in = in, .used = used, .summed = summed, .has_samples = has_samples};
    bool **flags[] = {&h.carried, &h.varies, &h.recurs, &h.has_rule, &h.stacked, &h.sliced, &h.inside, &h.outside, &h.added};
    for (int i = 0; i < COUNT(flags); i++)
        *flags[i] = NEW_ARRAY(bool, count);
    h.value = NEW_ARRAY(Outside, count);
    h.within = NEW_ARRAY(Node *, count);
    h.total = NEW_ARRAY(Node *, count);
    h.place = NEW_ARRAY(int, count);
    classify(&h);
    decide(&h);
    compute_outside(&h, false);
    return make_results(&h, make_loop(&h));
}

/* ---- loops of both kinds: the carries that are the same for all samples get a loop of their own, which is first */

static void copy_body(Graph *inner, const Loop *l)
{
    for (int i = 0; i < l->body->node_count; i++)
        if (l->body->nodes[i]->op != OP_ARG)
            graph_copy_node(inner, l->body->nodes[i]);
}

static bool is_same(const Loop *l, int carry) { return !l->arg[carry]->has_samples; }

/* Checks that no carry that is the same for all samples depends on one that is not: that would be by a sum over samples in the
 * recurrence. */
static void check_apart(const Loop *l)
{
    int count = l->body->node_count;
    bool *mixed = NEW_ARRAY(bool, count), *leads = NEW_ARRAY(bool, count);
    for (int i = 0; i < count; i++) {
        const Node *n = l->body->nodes[i];
        mixed[i] = n->op == OP_ARG && n->ints[0] < l->carries && !is_same(l, (int)n->ints[0]);
        for (int k = 0; k < n->inputs; k++)
            mixed[i] = mixed[i] || mixed[n->in[k]->id];
    }
    for (int i = 0; i < l->carries; i++)
        leads[l->next[i]->id] = leads[l->next[i]->id] || is_same(l, i);
    for (int i = count - 1; i >= 0; i--) {
        const Node *n = l->body->nodes[i];
        if (leads[i] && mixed[i] && must_leave(&(Hoist){.has_samples = true}, n))
            cannot_leave(n, true);
        for (int k = 0; leads[i] && k < n->inputs; k++)
            leads[n->in[k]->id] = true;
    }
}

/* Makes the loop of only those carries: results are their last values, then the stacks of their values before each step. */
static Node **hoist_same(Graph *g, const Loop *l, Node **in, int *count)
{
    Graph *inner = loop_open(g, l, in);
    Node **next = NULL, **before = NULL;
    int stacks = 0;
    *count = 0;
    for (int i = 0; i < l->carries; i++)
        if (!is_same(l, i)) /* it is not used, and removed because nothing needs it */
            inner->kinds[l->arg[i]->mapped->ints[0]] = AS_IT_IS;
    copy_body(inner, l);
    for (int i = 0; i < l->carries; i++)
        if (is_same(l, i)) {
            APPEND(next, *count, l->next[i]->mapped);
            APPEND(before, stacks, l->arg[i]->mapped);
        }
    Node *scan = graph_close_scan(inner, l->steps, l->reverse, next, before, stacks);
    bool *used = NEW_ARRAY(bool, 2 * stacks);
    for (int i = 0; i < 2 * stacks; i++)
        used[i] = true;
    return hoist_loop(g, scan, scan->in, used, NULL);
}

static Node **hoist_both_kinds(Graph *g, const Loop *l, Node **in, const bool *used, const bool *summed)
{
    Node **next = NULL, **stacks = NULL, **results = NEW_ARRAY(Node *, l->carries + l->stacks);
    bool *rest_used = NEW_ARRAY(bool, l->carries + l->stacks), *rest_summed = NEW_ARRAY(bool, l->carries + l->stacks);
    int *place = NEW_ARRAY(int, l->carries + l->stacks), count = 0, next_count = 0, stack_count = 0, same_count, same = 0;
    check_apart(l);
    Node **alone = hoist_same(g, l, in, &same_count);
    Graph *rest = graph_open_body(g, l->body->name);
    for (int i = 0; i < l->inputs; i++) {
        Node *arg = l->arg[i];
        if (!arg)
            continue;
        if (i < l->carries && is_same(l, i)) {
            results[i] = alone[same];
            arg->mapped = graph_scan_sequence(rest, alone[same_count + same]);
            same++;
        } else if (i < l->carries) {
            arg->mapped = graph_scan_carry(rest, in[i], true);
        } else {
            arg->mapped = loop_kind(l, i) == AS_SEQUENCE ? graph_scan_sequence(rest, in[i]) : graph_capture(rest, in[i]);
        }
        arg->mapped->name = arg->name;
    }
    copy_body(rest, l);
    for (int i = 0; i < l->carries + l->stacks; i++) {
        if (i < l->carries && is_same(l, i))
            continue;
        rest_used[count] = used[i];
        rest_summed[count] = summed && summed[i];
        place[count++] = i;
        if (i < l->carries)
            APPEND(next, next_count, l->next[i]->mapped);
        else
            APPEND(stacks, stack_count, l->next[i]->mapped);
    }
    if (!count)
        return results;
    Node *scan = graph_close_scan(rest, l->steps, l->reverse, next, stacks, stack_count);
    Node **others = hoist_loop(g, scan, scan->in, rest_used, rest_summed);
    for (int i = 0; i < count; i++)
        results[place[i]] = others[i];
    return results;
}

static bool has_loop(const Graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_SCAN)
            return true;
    return false;
}

Node **hoist_loop(Graph *target, const Node *scan, Node **in, const bool *used, const bool *summed)
{
    bool own = false, same = false;
    Loop l = loop_of(scan);
    if (has_loop(l.body)) { /* what leaves an inner loop may leave this one too, and may be the same for all samples */
        Node like = *scan;
        like.body = hoist_loops(l.body);
        Loop nested = loop_of(&like);
        Graph *inner = loop_open(target, &nested, in);
        copy_body(inner, &nested);
        scan = loop_close(inner, &nested);
        l = loop_of(scan);
        in = scan->in;
    }
    for (int i = 0; i < l.carries; i++)
        *(l.arg[i]->has_samples ? &own : &same) = true;
    if (same && (own || scan->has_samples))
        return hoist_both_kinds(target, &l, in, used, summed);
    bool has_samples = own || (!l.carries && scan->has_samples);
    return hoist_one_kind(target, &l, has_samples, in, used, summed);
}

/* ---- graphs */

Graph *hoist_loops(Graph *g)
{
    if (!has_loop(g))
        return g;
    Graph *target = graph_in_place_of(g);
    Node ***results = NEW_ARRAY(Node **, g->node_count);
    bool **used = NEW_ARRAY(bool *, g->node_count);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (n->op == OP_SCAN)
            used[i] = NEW_ARRAY(bool, n->ints[0] + n->ints[4]);
        else if (n->op == OP_RESULT && n->in[0]->op == OP_SCAN)
            used[n->in[0]->id][n->ints[0]] = true;
    }
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        set_position(target, n);
        if (n->op == OP_SCAN) {
            results[i] = hoist_loop(target, n, mapped_inputs(n), used[i], NULL);
            n->mapped = NULL;
        } else if (n->op == OP_RESULT && n->in[0]->op == OP_SCAN) {
            map_node(n, results[n->in[0]->id][n->ints[0]]);
        } else {
            graph_copy_node(target, n);
        }
    }
    graph_copy_results(target, g);
    return target;
}
