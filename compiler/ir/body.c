/* body.c: bodies, that is nodes with a body of their own (COMPOSITE, SCAN), and copies of nodes into other graphs.
 *
 * In: a complete body, whose ARGs are in the order of their first use. Out: the node in the parent. The body of a SCAN is also
 * normalised: ARGs of carries, then of sequences, then of captured values; without nodes that no result needs. A carry has a
 * value for every sample if its initial or its next value has, which takes at most one round per carry. */
#include "compiler/ir/graph.h"

/* ---- bodies */

Graph *graph_open_body(Graph *parent, const char *name) { return graph_new(parent->model, name, parent); }

void graph_close_body(Graph *inner, Op op, const char *name, const int64_t *ints, int int_count, const double *numbers,
                      int number_count, Node **results, int result_count, Node **out)
{
    for (int i = 0; i < result_count; i++)
        graph_result(inner, ROLE_RESULT, NULL, i, results[i], NULL);
    Node n = {.op = op,
              .in = inner->captured,
              .inputs = inner->captured_count,
              .ints = (int64_t *)(uintptr_t)ints,
              .int_count = int_count,
              .data_count = number_count,
              .text = name,
              .body = inner};
    n.data = NEW_ARRAY(double, number_count);
    for (int i = 0; i < number_count; i++)
        n.data[i] = numbers[i];
    Node *node = graph_make(inner->parent, &n, false);
    for (int i = 0; i < result_count; i++)
        out[i] = NODE(inner->parent, OP_RESULT, &(int64_t){i}, 1, NULL, node);
}

/* Returns a new graph to replace g; the ARGs of a body keep their numbers. */
Graph *graph_in_place_of(const Graph *g)
{
    Graph *target = graph_new(g->model, g->name, g->parent);
    for (int i = 0; i < g->captured_count; i++)
        APPEND(target->captured, target->captured_count, g->captured[i]);
    for (int i = 0; i < g->kind_count; i++)
        APPEND(target->kinds, target->kind_count, g->kinds[i]);
    return target;
}

/* ---- loops */

Node *graph_scan_carry(Graph *inner, Node *initial, bool has_samples)
{
    initial = graph_capture(inner->parent, initial);
    Node like = *initial;
    like.has_samples = like.has_samples || has_samples;
    if (like.weak)
        die("a carry that is a weak number");
    return graph_argument(inner, initial, &like, AS_CARRY);
}

Node *graph_scan_sequence(Graph *inner, Node *sequence)
{
    sequence = graph_capture(inner->parent, sequence);
    Node like = *sequence;
    if (like.shape.rank == 0)
        die("a scan over a number");
    like.shape = shape_of(like.shape.rank - 1, like.shape.extent + 1);
    return graph_argument(inner, sequence, &like, AS_SEQUENCE);
}

Node *graph_scan_result(Graph *parent, Node *scan, int result)
{
    return NODE(parent, OP_RESULT, &(int64_t){result}, 1, NULL, scan);
}

/* Returns the ARGs of a body by index; NULL where it has none. */
static Node **arguments_of(const Graph *body, int count)
{
    Node **arg = NEW_ARRAY(Node *, count);
    for (int i = 0; i < body->node_count; i++)
        if (body->nodes[i]->op == OP_ARG)
            arg[body->nodes[i]->ints[0]] = body->nodes[i];
    return arg;
}

Loop loop_of(const Node *scan)
{
    Loop l = {.body = scan->body,
              .in = scan->in,
              .inputs = scan->inputs,
              .carries = (int)scan->ints[0],
              .sequences = (int)scan->ints[1],
              .steps = scan->ints[2],
              .reverse = scan->ints[3],
              .stacks = (int)scan->ints[4]};
    l.arg = arguments_of(l.body, l.inputs);
    l.next = NEW_ARRAY(Node *, l.carries + l.stacks);
    l.stack = l.next + l.carries;
    for (int i = 0, k = 0; i < l.body->result_count; i++)
        if (l.body->results[i].role == ROLE_RESULT)
            l.next[k++] = l.body->results[i].value;
    return l;
}

CaptureKind loop_kind(const Loop *l, int input)
{
    return input < l->carries ? AS_CARRY : input < l->carries + l->sequences ? AS_SEQUENCE : AS_IT_IS;
}

Graph *loop_open(Graph *target, const Loop *l, Node **inputs)
{
    Graph *inner = graph_open_body(target, l->body->name);
    for (int i = 0; i < l->inputs; i++) {
        Node *arg = l->arg[i];
        if (!arg)
            continue;
        CaptureKind kind = loop_kind(l, i);
        arg->mapped = kind == AS_CARRY      ? graph_scan_carry(inner, inputs[i], arg->has_samples)
                      : kind == AS_SEQUENCE ? graph_scan_sequence(inner, inputs[i])
                                            : graph_capture(inner, inputs[i]);
        if (!arg->mapped->name)
            arg->mapped->name = arg->name;
    }
    return inner;
}

Node *loop_close(Graph *inner, const Loop *l)
{
    Node **values = NEW_ARRAY(Node *, l->carries + l->stacks);
    for (int i = 0; i < l->carries + l->stacks; i++)
        values[i] = l->next[i]->mapped;
    return graph_close_scan(inner, l->steps, l->reverse, values, values + l->carries, l->stacks);
}

/* Marks the nodes that are needed; ARGs of carries always are. */
static bool *find_live(const Graph *inner, Node **arg, Node *const *values, int value_count)
{
    bool *live = NEW_ARRAY(bool, inner->node_count);
    for (int i = 0; i < value_count; i++)
        live[values[i]->id] = true;
    for (int i = 0; i < inner->captured_count; i++)
        if (inner->kinds[i] == AS_CARRY)
            live[arg[i]->id] = true;
    for (int i = inner->node_count - 1; i >= 0; i--)
        for (int k = 0; live[i] && k < inner->nodes[i]->inputs; k++)
            live[inner->nodes[i]->in[k]->id] = true;
    return live;
}

/* Copies the body's live nodes into a new one, ARGs first and in order. */
static Graph *put_in_order(const Graph *inner, Node **arg, const bool *live, const bool *has_samples)
{
    static const CaptureKind ORDER[] = {AS_CARRY, AS_SEQUENCE, AS_IT_IS};
    Graph *target = graph_open_body(inner->parent, inner->name);
    target->at = inner->at;
    target->path = inner->path;
    target->backward = inner->backward;
    for (int o = 0; o < COUNT(ORDER); o++)
        for (int i = 0; i < inner->captured_count; i++) {
            if (inner->kinds[i] != ORDER[o] || !arg[i] || !live[arg[i]->id])
                continue;
            Node *in = inner->captured[i];
            arg[i]->mapped = ORDER[o] == AS_CARRY      ? graph_scan_carry(target, in, has_samples[i])
                             : ORDER[o] == AS_SEQUENCE ? graph_scan_sequence(target, in)
                                                       : graph_capture(target, in);
            if (!arg[i]->mapped->name)
                arg[i]->mapped->name = arg[i]->name;
        }
    for (int i = 0; i < inner->node_count; i++)
        if (live[i] && inner->nodes[i]->op != OP_ARG)
            graph_copy_node(target, inner->nodes[i]);
    return target;
}

Node *graph_close_scan(Graph *inner, int64_t steps, bool reverse, Node **next, Node **stacks, int stack_count)
{
    Node **arg, **values;
    int carries = 0, sequences = 0;
    for (int i = 0; i < inner->captured_count; i++)
        carries += inner->kinds[i] == AS_CARRY;
    values = NEW_ARRAY(Node *, carries + stack_count);
    for (int i = 0; i < carries + stack_count; i++)
        values[i] = graph_capture(inner, i < carries ? next[i] : stacks[i - carries]);
    arg = arguments_of(inner, inner->captured_count); /* with the ARGs of values that were captured just now */
    bool *live = find_live(inner, arg, values, carries + stack_count), stable = false;
    bool *has_samples = NEW_ARRAY(bool, inner->captured_count), any = false;
    for (int i = 0; i < inner->captured_count; i++)
        any = any || (arg[i] && live[arg[i]->id] && inner->captured[i]->has_samples);
    for (int i = 0; i < inner->captured_count; i++)
        has_samples[i] = any && arg[i] && arg[i]->has_samples;
    Graph *body = NULL;
    while (!stable) {
        if (body)
            graph_free(body);
        body = put_in_order(inner, arg, live, has_samples);
        stable = true;
        for (int i = 0, c = 0; i < inner->captured_count; i++) {
            if (inner->kinds[i] != AS_CARRY)
                continue;
            const Node *carry = arg[i]->mapped, *map_node = values[c++]->mapped;
            if (!shape_equal(&carry->shape, &map_node->shape) || carry->dtype != map_node->dtype)
                die("a carry of %s%s becomes %s%s", dtype_name(carry->dtype), shape_text(&carry->shape),
                    dtype_name(map_node->dtype), shape_text(&map_node->shape));
            stable = stable && (carry->has_samples || !map_node->has_samples);
            has_samples[i] = carry->has_samples || map_node->has_samples;
        }
    }
    for (int i = 0; i < carries + stack_count; i++)
        graph_result(body, ROLE_RESULT, NULL, i, values[i]->mapped, NULL);
    for (int i = 0; i < body->captured_count; i++)
        sequences += body->kinds[i] == AS_SEQUENCE;
    int64_t ints[5] = {carries, sequences, steps, reverse, stack_count};
    Graph *parent = inner->parent;
    return graph_make(parent,
                      &(Node){.op = OP_SCAN,
                              .in = body->captured,
                              .inputs = body->captured_count,
                              .ints = ints,
                              .int_count = COUNT(ints),
                              .body = body},
                      false);
}

static Node *copy_scan(Graph *target, const Node *scan, Node **in)
{
    Loop l = loop_of(scan);
    Graph *inner = loop_open(target, &l, in);
    for (int i = 0; i < l.body->node_count; i++)
        if (l.body->nodes[i]->op != OP_ARG)
            graph_copy_node(inner, l.body->nodes[i]);
    Node *copy = loop_close(inner, &l);
    graph_free(inner);
    return copy;
}

/* ---- copies */

Node *graph_rebuild(Graph *target, const Node *like, Node **in)
{
    if (like->op == OP_SCAN)
        return copy_scan(target, like, in);
    Node n = *like;
    n.in = in;
    return graph_make(target, &n, node_sums_samples(like));
}

Node *graph_copy_node(Graph *target, Node *node)
{
    Node *few[8], **in = node->inputs <= COUNT(few) ? few : NEW_ARRAY(Node *, node->inputs);
    for (int i = 0; i < node->inputs; i++)
        in[i] = node->in[i]->mapped;
    Graph old = *target;
    target->at = node->at;
    target->path = node->path;
    target->backward = node->backward;
    Node *copy = graph_rebuild(target, node, in);
    if (!copy->name)
        copy->name = node->name;
    target->at = old.at;
    target->path = old.path;
    target->backward = old.backward;
    return node->mapped = copy;
}

void graph_copy_results(Graph *target, const Graph *source)
{
    for (int i = 0; i < source->result_count; i++) {
        Result r = source->results[i];
        r.value = r.value->mapped;
        r.weight = r.weight ? r.weight->mapped : NULL;
        if (r.value && r.value->graph == target)
            graph_add_result(target, r);
    }
}

void graph_inline(Graph *target, Node *composite, Node **inputs, Node **results)
{
    const Graph *body = composite->body;
    for (int i = 0; i < body->node_count; i++) {
        Node *n = body->nodes[i];
        if (n->op == OP_ARG)
            n->mapped = inputs[n->ints[0]];
        else
            graph_copy_node(target, n);
    }
    for (int i = 0; i < body->result_count; i++)
        if (body->results[i].role == ROLE_RESULT)
            *results++ = body->results[i].value->mapped;
}
