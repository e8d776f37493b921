/* scan_gradient.c: the gradient of a loop is a loop over the same steps in the opposite direction.
 *
 * In: a SCAN of the forward graph and the gradients at its results. Out: contributions to the gradients of its inputs.
 *
 * The reverse loop carries the gradients of the loop's carries. Its step is made from the step of the loop, copied with the
 * carries before the step as given values, by the rules of gradients.c; the code is the same, so loops may be nested. It loops
 * over
 *   - the gradients of the stacks,
 *   - values of the forward step, which are stacked by the loop (its node is replaced by one with more results) or recomputed.
 *     What takes longer to compute than to write and read is stored (FLOPS_OF_BYTE), usually contractions. For the rest,
 *     carries before the step included, a minimum cut decides: the fewest bytes from which the rest can be recomputed.
 * If the given gradients are zero by selection (selection.c), those of the step are, too: conditions that are the same for all
 * steps and all given gradients hold for the carries; others are slices, for the stack that they belong to. Gradients of
 * sequences are stacks. Gradients of captured values are sums over the steps: hoist_loop makes one contraction of all steps and
 * samples of them if possible. Nothing is computed through carries that no gradient reaches. */
#include "compiler/passes/loops.h"
#include "compiler/passes/compute_once.h"
#include "compiler/passes/simplify/simplify.h"

/* What an ARG of the step's gradient is; CONDITION: selects a gradient. */
typedef enum Meaning { BEFORE, INPUT, CARRY_GRADIENT, STACK_GRADIENT, CONDITION } Meaning;
typedef struct ReverseArgument {
    Meaning meaning;
    int number;
} ReverseArgument; /* of the carry, input, stack or condition */

/* a gradient; BEFORE: of the carry before the step; INPUT: of the slice or the captured value */
typedef ReverseArgument Output;

typedef struct Reverse {
    Sweep *s;
    Graph *g;
    Node *scan;
    Loop l;
    Node **given;      /* by result of the scan: its gradient, or NULL */
    bool *active;      /* by carry: a gradient may flow through it */
    Selection common;  /* of all given gradients, in every step */
    Node **conditions; /* by number: the node outside, of which each step reads all or its slice */
    bool *stepwise;
    int condition_count;
    Graph *body; /* a step of the loop and its gradient; its results are `outputs` */
    ReverseArgument *arguments;
    int argument_count;
    Output *outputs;
    int output_count;
    /* by node of the body */
    bool *reverse, *varies; /* depends on gradients; on the step */
    bool *crosses;          /* forward value that the reverse loop reads */
    Node **stored;          /* its stack */
} Reverse;

static Node *new_argument(Reverse *r, Node *node, const Node *like, Meaning meaning, int number)
{
    ReverseArgument a = {meaning, number};
    APPEND(r->arguments, r->argument_count, a);
    return graph_argument(r->body, node, like, AS_IT_IS);
}

/* ---- the step and its gradient */

/* Finds the inputs and carries of the loop that need a gradient. */
static Sweep begin_sweep(Reverse *r)
{
    const Loop *l = &r->l;
    bool *needs = NEW_ARRAY(bool, r->argument_count);
    for (int a = 0; a < r->argument_count; a++) {
        const Node *in = l->in[r->arguments[a].number];
        needs[a] = dtype_is_float(in->dtype) && sweep_needs(r->s, in);
    }
    for (;;) {
        Sweep own = sweep_begin_body(r->s, r->body, needs);
        bool changed = false;
        for (int a = 0; a < r->argument_count; a++) {
            int i = r->arguments[a].number;
            if (r->arguments[a].meaning == BEFORE && !needs[a] && sweep_needs(&own, l->next[i]->mapped))
                changed = needs[a] = true;
        }
        if (!changed)
            return own;
    }
}

static void contribute(Sweep *s, Node *n, Node *gradient)
{
    if (gradient->has_samples && !n->has_samples)
        gradient = graph_sum_samples(s->g, sweep_term(s, gradient), NULL, 0);
    sweep_contribute(s, n, gradient);
}

static bool is_nothing(const Node *n)
{
    while (n && (n->op == OP_BROADCAST || n->op == OP_RESHAPE))
        n = n->in[0];
    return !n || is_constant(n, 0);
}

/* ---- zeros by selection */

/* Returns the condition of a stack's gradient as one of each step's, without its first axis; NULL: it is not the same in all
 * steps. */
static Node *in_every_step(Graph *g, Node *c, int rank)
{
    if (c->shape.rank < rank)
        return c;
    Shape shape = {.rank = rank - 1};
    memcpy(shape.extent, c->shape.extent + 1, (size_t)shape.rank * sizeof *shape.extent);
    return c->shape.extent[0] == 1 ? graph_reshape(g, c, shape) : NULL;
}

static Selection in_every_step_of(Reverse *r, int result)
{
    const Selection *given = selection_of(r->s, r->given[result]);
    Selection y = {NULL, 0};
    for (int i = 0; i < given->count; i++) {
        Node *c = given->conditions[i];
        c = result < r->l.carries ? c : in_every_step(r->g, c, r->given[result]->shape.rank);
        if (c)
            APPEND(y.conditions, y.count, c);
    }
    return y;
}

/* Sets r->common: only conditions of samples, since carries, stacks and other values differ in shape. */
static void find_common(Reverse *r)
{
    bool first = true;
    for (int i = 0; i < r->l.carries + r->l.stacks; i++) {
        if (!r->given[i])
            continue;
        Selection own = in_every_step_of(r, i), kept = {NULL, 0};
        for (int k = 0; k < own.count; k++) {
            Node *c = own.conditions[k];
            bool shared = first;
            if (shape_count(&c->shape) != 1)
                continue;
            c = graph_reshape(r->g, c, SCALAR);
            for (int j = 0; j < r->common.count && !first; j++)
                shared = shared || r->common.conditions[j] == c;
            if (shared)
                APPEND(kept.conditions, kept.count, c);
        }
        r->common = kept;
        first = false;
    }
}

static Node *condition_argument(Reverse *r, Node *c, bool stepwise)
{
    Node like = *c;
    int number = 0;
    while (number < r->condition_count && (r->conditions[number] != c || r->stepwise[number] != stepwise))
        number++;
    if (number == r->condition_count) {
        int count = r->condition_count;
        APPEND(r->stepwise, count, stepwise);
        APPEND(r->conditions, r->condition_count, c);
    }
    if (stepwise) {
        like.shape.rank--;
        memmove(like.shape.extent, like.shape.extent + 1, (size_t)like.shape.rank * sizeof *like.shape.extent);
    }
    return new_argument(r, c, &like, CONDITION, number);
}

/* Records the selection of the ARG of a gradient in the step; stack -1: of a carry's. */
static Node *record_selection(Reverse *r, Sweep *own, Node *argument, int stack)
{
    Selection y = {NULL, 0};
    for (int i = 0; i < r->common.count; i++)
        APPEND(y.conditions, y.count, condition_argument(r, r->common.conditions[i], false));
    const Node *given = stack < 0 ? NULL : r->given[r->l.carries + stack];
    const Selection *by = given ? selection_of(r->s, given) : NULL;
    for (int i = 0; by && i < by->count; i++)
        if (!in_every_step(r->g, by->conditions[i], given->shape.rank))
            APPEND(y.conditions, y.count, condition_argument(r, by->conditions[i], true));
    selection_record(own, argument, &y);
    return argument;
}

/* Builds r->body and its results; false: another carry became active, so it must be built again. */
static bool build_step(Reverse *r)
{
    const Loop *l = &r->l;
    Node **arg = NEW_ARRAY(Node *, l->inputs);
    bool right = true;
    r->argument_count = r->output_count = 0;
    r->body = graph_open_body(r->g, l->body->name);
    for (int i = 0; i < l->inputs; i++)
        if (l->arg[i])
            arg[i] = l->arg[i]->mapped = new_argument(r, l->in[i], l->arg[i], i < l->carries ? BEFORE : INPUT, i);
    for (int i = 0; i < l->body->node_count; i++)
        if (l->body->nodes[i]->op != OP_ARG)
            graph_copy_node(r->body, l->body->nodes[i]);
    Sweep own = begin_sweep(r);
    set_position(r->body, r->scan);
    r->body->backward = !r->s->is_value;
    for (int i = 0; i < l->carries; i++)
        if (r->active[i])
            contribute(&own, l->next[i]->mapped,
                       record_selection(r, &own, new_argument(r, l->in[i], l->arg[i], CARRY_GRADIENT, i), -1));
    for (int j = 0; j < l->stacks; j++) {
        Node *given = r->given[l->carries + j];
        if (!given)
            continue;
        Node like = *given;
        like.shape = l->stack[j]->shape;
        contribute(&own, l->stack[j]->mapped, record_selection(r, &own, new_argument(r, given, &like, STACK_GRADIENT, j), j));
    }
    for (int i = own.forward_count - 1; i >= 0; i--)
        sweep_node(&own, r->body->nodes[i]);
    set_position(r->body, r->scan);
    r->body->backward = !r->s->is_value;
    for (int i = 0; i < l->inputs; i++) {
        Node *gradient = arg[i] ? sweep_take(&own, arg[i]) : NULL;
        if (is_nothing(gradient))
            continue;
        if (i < l->carries && !r->active[i]) {
            r->active[i] = true;
            right = false;
        }
        Output o = {i < l->carries ? BEFORE : INPUT, i};
        graph_result(r->body, ROLE_RESULT, NULL, r->output_count, gradient, NULL);
        APPEND(r->outputs, r->output_count, o);
    }
    if (right)
        r->body = simplify_with_arguments(sweep_merge(&own));
    return right;
}

/* ---- which values are stored */

static double bytes_of(const Node *n)
{
    double bytes = (double)shape_count(&n->shape) * dtype_bytes(n->dtype);
    return n->op == OP_SCAN ? 1e30 : n->has_samples ? bytes : bytes / 64;
}

static bool is_expensive(const Node *n)
{
    if (n->op == OP_SCAN || n->op == OP_RESULT)
        return true;
    return node_flops(n) >= 2 * FLOPS_OF_BYTE * (double)shape_count(&n->shape) * dtype_bytes(n->dtype) && node_flops(n) > 0;
}

static void decide(Reverse *r)
{
    const Graph *b = r->body;
    int count = b->node_count;
    Side *side = NEW_ARRAY(Side, count);
    double *bytes = NEW_ARRAY(double, count);
    bool *needed = NEW_ARRAY(bool, count);
    bool *same = NEW_ARRAY(bool, count), *compared = NEW_ARRAY(bool, count); /* extrema: of what they are compared with */
    find_computed_once(b, NULL, same, compared);
    r->reverse = NEW_ARRAY(bool, count);
    r->varies = NEW_ARRAY(bool, count);
    r->crosses = NEW_ARRAY(bool, count);
    r->stored = NEW_ARRAY(Node *, count);
    for (int i = 0; i < count; i++) {
        const Node *n = b->nodes[i];
        bool there = false;
        if (n->op == OP_ARG) {
            ReverseArgument a = r->arguments[n->ints[0]];
            there = a.meaning == INPUT;
            r->reverse[i] = a.meaning == CARRY_GRADIENT || a.meaning == STACK_GRADIENT || a.meaning == CONDITION;
            r->varies[i] = a.meaning != INPUT || loop_kind(&r->l, a.number) == AS_SEQUENCE;
        }
        for (int k = 0; k < n->inputs; k++) {
            r->reverse[i] = r->reverse[i] || r->reverse[n->in[k]->id];
            r->varies[i] = r->varies[i] || r->varies[n->in[k]->id];
        }
        for (int k = 0; k < n->inputs && r->reverse[i]; k++)
            needed[n->in[k]->id] = true;
        bytes[i] = (there ? 1 : 2) * bytes_of(n); /* to read it; to write it, too */
        side[i] = r->reverse[i] || !r->varies[i]                         ? SIDE_GIVEN
                  : n->op == OP_ARG || (is_expensive(n) && !compared[i]) ? SIDE_FIXED
                                                                         : SIDE_FREE;
        bytes[i] = compared[i] ? 1e30 : bytes[i];
    }
    for (int o = 0; o < r->output_count; o++)
        needed[b->results[o].value->id] = true;
    least_cut(b, side, bytes, needed, r->crosses);
}

/* ---- the forward loop with more stacks */

static bool is_sequence(const Reverse *r, const Node *n) { return n->op == OP_ARG && r->arguments[n->ints[0]].meaning == INPUT; }

static void store(Reverse *r)
{
    const Loop *l = &r->l;
    const Graph *b = r->body;
    bool *needed = NEW_ARRAY(bool, b->node_count), any = false;
    for (int i = b->node_count - 1; i >= 0; i--) {
        needed[i] = needed[i] || (r->crosses[i] && !is_sequence(r, b->nodes[i]));
        any = any || needed[i];
        for (int k = 0; needed[i] && k < b->nodes[i]->inputs; k++)
            needed[b->nodes[i]->in[k]->id] = true;
    }
    for (int i = 0; i < b->node_count; i++)
        if (r->crosses[i] && is_sequence(r, b->nodes[i]))
            r->stored[i] = l->in[r->arguments[b->nodes[i]->ints[0]].number];
    if (!any)
        return;
    Graph *inner = loop_open(r->g, l, l->in);
    for (int i = 0; i < l->body->node_count; i++)
        if (l->body->nodes[i]->op != OP_ARG)
            graph_copy_node(inner, l->body->nodes[i]);
    Node **next = NEW_ARRAY(Node *, l->carries), **stacks = NULL;
    int count = 0;
    for (int i = 0; i < l->carries; i++)
        next[i] = l->next[i]->mapped;
    for (int j = 0; j < l->stacks; j++)
        APPEND(stacks, count, l->stack[j]->mapped);
    int *place = NEW_ARRAY(int, b->node_count);
    for (int i = 0; i < b->node_count; i++) {
        Node *n = b->nodes[i];
        if (!needed[i])
            continue;
        if (n->op == OP_ARG)
            n->mapped = l->arg[r->arguments[n->ints[0]].number]->mapped;
        else
            graph_copy_node(inner, n)->backward = false;
        if (!r->crosses[i] || is_sequence(r, n))
            continue;
        place[i] = l->carries + count;
        APPEND(stacks, count, n->mapped);
    }
    Node *more = graph_close_scan(inner, l->steps, l->reverse, next, stacks, count);
    for (int i = 0; i < b->node_count; i++)
        if (r->crosses[i] && !r->stored[i])
            r->stored[i] = graph_scan_result(r->g, more, place[i]);
    sweep_replace(r->s, r->scan, more);
}

/* ---- the reverse loop */

static Node *argument_inside(const Reverse *r, Graph *inner, const Node *n, Node **carries)
{
    ReverseArgument a = r->arguments[n->ints[0]];
    switch (a.meaning) {
    case INPUT: return graph_capture(inner, r->l.in[a.number]);
    case CARRY_GRADIENT: return carries[a.number];
    case STACK_GRADIENT: return graph_scan_sequence(inner, r->given[r->l.carries + a.number]);
    case CONDITION: return (r->stepwise[a.number] ? graph_scan_sequence : graph_capture)(inner, r->conditions[a.number]);
    case BEFORE: break;
    }
    die("a carry that was not stored");
}

static Node *reverse_loop(Reverse *r, bool *used, bool *summed)
{
    const Loop *l = &r->l;
    const Graph *b = r->body;
    Graph *inner = graph_open_body(r->g, l->body->name);
    Node **carries = NEW_ARRAY(Node *, l->carries), **next = NULL, **stacks = NULL;
    int next_count = 0, stack_count = 0;
    bool *needed = NEW_ARRAY(bool, b->node_count);
    inner->backward = !r->s->is_value;
    for (int i = 0; i < l->carries; i++) {
        if (!r->active[i])
            continue;
        const Node *arg = l->arg[i];
        Node *initial = r->given[i] ? r->given[i] : graph_fill(r->g, 0, arg->shape, arg->dtype);
        carries[i] = graph_scan_carry(inner, initial, arg->has_samples);
    }
    for (int o = 0; o < r->output_count; o++)
        needed[b->results[o].value->id] = true;
    for (int i = b->node_count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && !r->crosses[i] && k < b->nodes[i]->inputs; k++)
            needed[b->nodes[i]->in[k]->id] = true;
    for (int i = 0; i < b->node_count; i++) {
        Node *n = b->nodes[i];
        if (!needed[i])
            continue;
        if (r->crosses[i])
            n->mapped = graph_scan_sequence(inner, r->stored[i]);
        else if (n->op == OP_ARG)
            n->mapped = argument_inside(r, inner, n, carries);
        else
            graph_copy_node(inner, n)->backward = !r->s->is_value;
    }
    for (int i = 0; i < l->carries; i++) {
        if (!r->active[i])
            continue;
        Node *n = graph_fill(inner, 0, l->arg[i]->shape, l->arg[i]->dtype);
        for (int o = 0; o < r->output_count; o++)
            if (r->outputs[o].meaning == BEFORE && r->outputs[o].number == i)
                n = b->results[o].value->mapped;
        used[next_count] = sweep_needs(r->s, l->in[i]);
        APPEND(next, next_count, n);
    }
    for (int o = 0; o < r->output_count; o++)
        if (r->outputs[o].meaning == INPUT) {
            used[next_count + stack_count] = true;
            summed[next_count + stack_count] = loop_kind(l, r->outputs[o].number) == AS_IT_IS;
            APPEND(stacks, stack_count, b->results[o].value->mapped);
        }
    return graph_close_scan(inner, l->steps, !l->reverse, next, stacks, stack_count);
}

/* For samples that no given gradient selects, the loop's gradients are zero. */
static void contribute_selected(Reverse *r, Node *n, Node *gradient)
{
    if (gradient->has_samples && r->common.count)
        selection_record(r->s, gradient, &r->common);
    contribute(r->s, n, gradient);
}

void scan_gradient(Sweep *s, Node *scan, Node **given)
{
    Reverse r = {.s = s, .g = s->g, .scan = scan, .l = loop_of(scan), .given = given};
    const Loop *l = &r.l;
    r.active = NEW_ARRAY(bool, l->carries);
    for (int i = 0; i < l->carries + l->stacks; i++)
        if (given[i] && is_nothing(given[i]))
            given[i] = NULL;
    for (int i = 0; i < l->carries; i++)
        r.active[i] = given[i] != NULL;
    find_common(&r);
    while (!build_step(&r))
        ;
    if (r.output_count == 0)
        return;
    decide(&r);
    store(&r);
    set_position(r.g, scan);
    r.g->backward = !s->is_value;
    bool *used = NEW_ARRAY(bool, l->carries + r.output_count), *summed = NEW_ARRAY(bool, l->carries + r.output_count);
    Node *loop = reverse_loop(&r, used, summed);
    Node **results = hoist_loop(r.g, loop, loop->in, used, summed);
    set_position(r.g, scan);
    r.g->backward = !s->is_value;
    int at = 0;
    for (int i = 0; i < l->carries; i++)
        if (r.active[i]) {
            if (results[at])
                contribute_selected(&r, l->in[i], results[at]);
            at++;
        }
    for (int o = 0; o < r.output_count; o++)
        if (r.outputs[o].meaning == INPUT)
            contribute_selected(&r, l->in[r.outputs[o].number], results[at++]);
}
