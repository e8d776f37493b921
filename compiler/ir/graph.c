/* graph.c: building graphs. body.c has bodies and copies; ir/print.c prints graphs.
 *
 * In: operations and their inputs. Out: Nodes, in topological order because a node is appended when it is made.
 *
 * Sharing: every node is looked up in graph->slots by a hash of all that defines it (op, type, attributes, inputs); if there is
 * an equal node, it is returned. So two RANDOM nodes are the same if their paths are, and a rule may ask for exp(x) again at no
 * cost. Composites are never shared.
 *
 * Capture: an input of an enclosing graph becomes an ARG of the body, through all bodies in between. */
#include "compiler/ir/placement.h"

#include <string.h>

/* ---- making nodes */

static bool same_node(const Node *a, const Node *b)
{
    if (a->op != b->op || a->dtype != b->dtype || a->has_samples != b->has_samples || a->weak != b->weak ||
        a->inputs != b->inputs || a->int_count != b->int_count || a->data_count != b->data_count ||
        !shape_equal(&a->shape, &b->shape) || (a->text == NULL) != (b->text == NULL))
        return false;
    for (int i = 0; i < a->inputs; i++)
        if (a->in[i] != b->in[i])
            return false;
    for (int i = 0; i < a->int_count; i++)
        if (a->ints[i] != b->ints[i])
            return false;
    return (!a->text || strcmp(a->text, b->text) == 0) && /* bits: -0.0 is not 0.0, a NaN equals itself */
           (a->data_count == 0 || memcmp(a->data, b->data, (size_t)a->data_count * sizeof *a->data) == 0);
}

static uint64_t hash_node(const Node *n)
{
    int64_t head[5 + MAX_RANK] = {n->op, n->dtype, n->has_samples | n->weak << 1, n->inputs, n->shape.rank};
    for (int i = 0; i < n->shape.rank; i++)
        head[5 + i] = n->shape.extent[i];
    uint64_t h = hash_words(0, head, (size_t)(5 + n->shape.rank));
    for (int i = 0; i < n->inputs; i++) {
        int64_t id = n->in[i]->id;
        h = hash_words(h, &id, 1);
    }
    h = hash_words(h, n->ints, (size_t)n->int_count);
    h = hash_words(h, n->data, (size_t)n->data_count);
    return n->text ? hash_bytes(h, n->text, strlen(n->text)) : h;
}

static int slot_of(const Graph *graph, uint32_t hash, const Node *prototype) /* NULL: the first free slot */
{
    int at = (int)(hash & (uint32_t)(graph->slot_count - 1));
    while (graph->slots[at].node &&
           !(prototype && graph->slots[at].hash == hash && same_node(graph->nodes[graph->slots[at].node - 1], prototype)))
        at = (at + 1) & (graph->slot_count - 1);
    return at;
}

static void more_slots(Graph *graph)
{
    struct Slot *old = graph->slots;
    int count = graph->slot_count;
    graph->slot_count = count ? 2 * count : 64;
    graph->slots = NEW_ARRAY(struct Slot, graph->slot_count);
    for (int i = 0; i < count; i++)
        if (old[i].node)
            graph->slots[slot_of(graph, old[i].hash, NULL)] = old[i];
}

/* Copies the prototype, with what it points to, into the graph's Memory, which is in use. */
static Node *append(Graph *graph, const Node *prototype)
{
    Node *n = NEW(Node);
    *n = *prototype;
    n->in = prototype->inputs ? NEW_ARRAY(Node *, n->inputs) : NULL;
    for (int i = 0; i < n->inputs; i++)
        n->in[i] = prototype->in[i];
    n->ints = NEW_ARRAY(int64_t, n->int_count); /* never NULL, since rules index lists of a rank */
    for (int i = 0; i < n->int_count; i++)
        n->ints[i] = prototype->ints[i];
    n->id = graph->node_count;
    n->graph = graph;
    n->mapped = NULL;
    APPEND(graph->nodes, graph->node_count, n);
    return n;
}

/* Returns the node of `graph` that equals the prototype, whose dtype, shape, sharded and weak are known. */
static Node *intern(Graph *graph, const Node *prototype)
{
    bool shared = prototype->op != OP_COMPOSITE && prototype->op != OP_SCAN;
    uint32_t hash = shared ? (uint32_t)hash_node(prototype) : 0;
    Memory *outer = memory_use(graph->memory);
    if (shared && 2 * (graph->slots_used + 1) > graph->slot_count)
        more_slots(graph);
    int slot = shared ? slot_of(graph, hash, prototype) : -1;
    if (shared && graph->slots[slot].node) {
        memory_use(outer);
        return graph->nodes[graph->slots[slot].node - 1];
    }
    Node *n = append(graph, prototype);
    n->at = graph->at;
    n->path = graph->path ? graph->path : "";
    n->backward = graph->backward;
    n->name = NULL;
    n->placement = (Placement){0};
    if (shared) {
        graph->slots[slot] = (struct Slot){hash, graph->node_count};
        graph->slots_used++;
    }
    memory_use(outer);
    return n;
}

Node *graph_append(Graph *graph, const Node *prototype)
{
    bool shared = prototype->op != OP_COMPOSITE && prototype->op != OP_SCAN;
    Memory *outer = memory_use(graph->memory);
    Node *n = append(graph, prototype);
    if (shared && 2 * (graph->slots_used + 1) > graph->slot_count)
        more_slots(graph);
    uint32_t hash = shared ? (uint32_t)hash_node(n) : 0;
    int slot = shared ? slot_of(graph, hash, n) : -1;
    if (shared && !graph->slots[slot].node) { /* otherwise an earlier equal node is the shared one */
        graph->slots[slot] = (struct Slot){hash, graph->node_count};
        graph->slots_used++;
    }
    memory_use(outer);
    return n;
}

Node *graph_make(Graph *graph, const Node *prototype, bool over)
{
    Node n = *prototype;
    Node *few[8], **in = n.inputs <= COUNT(few) ? few : NEW_ARRAY(Node *, n.inputs);
    bool any_sharded = false;
    for (int i = 0; i < n.inputs; i++) {
        in[i] = graph_capture(graph, prototype->in[i]);
        any_sharded = any_sharded || in[i]->has_samples;
    }
    n.in = in;
    n.at = graph->at;
    if (over && !any_sharded && n.op != OP_GRAD &&
        n.op != OP_SUBSTITUTE) { /* the one value of all samples is added once per sample */
        int k = n.op == OP_SUM || n.op == OP_EINSUM ? 0 : n.inputs - 1;
        Node *none = graph_fill(graph, 0, in[k]->shape, in[k]->dtype);
        in[k] = graph_where(graph, graph_valid(graph), in[k], none);
    }
    if (OP_INFO[n.op].op_class != LEAF)
        n.weak = false;
    node_infer(&n, over);
    return intern(graph, &n);
}

Node *graph_argument(Graph *graph, Node *node, const Node *like, CaptureKind kind)
{
    int64_t index = graph->captured_count;
    Node *arg = intern(graph, &(Node){.op = OP_ARG,
                                      .dtype = like->dtype,
                                      .has_samples = like->has_samples,
                                      .weak = like->weak,
                                      .shape = like->shape,
                                      .ints = &index,
                                      .int_count = 1});
    arg->name = node->name;
    APPEND(graph->captured, graph->captured_count, node);
    APPEND(graph->kinds, graph->kind_count, kind);
    return arg;
}

Node *graph_capture(Graph *graph, Node *node)
{
    if (!node)
        die("an input is missing");
    if (node->graph == graph)
        return node;
    if (!graph->parent)
        die("node %%%d (%s) belongs to another graph", node->id, OP_INFO[node->op].name);
    node = graph_capture(graph->parent, node);
    char key[32]; /* ids are unique in the parent */
    snprintf(key, sizeof key, "capture %d", node->id);
    Node *arg = map_get(&graph->args, key);
    if (arg)
        return arg;
    arg = graph_argument(graph, node, node, AS_IT_IS);
    map_set(&graph->args, copy_text(key, strlen(key)), arg);
    return arg;
}

Graph *graph_new(Model *model, const char *name, Graph *parent)
{
    Graph *g = NEW(Graph);
    g->model = model;
    g->name = name;
    g->parent = parent;
    g->path = "";
    g->memory = memory_new();
    if (parent) {
        g->at = parent->at;
        g->path = parent->path;
        g->backward = parent->backward;
    }
    return g;
}

void graph_free(Graph *graph)
{
    for (int i = 0; i < graph->node_count; i++) /* copies of a composite share its body */
        if (graph->nodes[i]->op == OP_SCAN)
            graph_free(graph->nodes[i]->body);
    memory_free(graph->memory);
    graph->memory = NULL;
    graph->nodes = NULL;
    graph->results = NULL;
    graph->slots = NULL;
    graph->result_count = graph->node_count = graph->slot_count = graph->slots_used = 0;
}

void graph_use_memory(Graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_SCAN)
            graph_use_memory(graph->nodes[i]->body);
    memory_join(memory_in_use(), graph->memory);
    graph->memory = NULL;
}

/* Converts the inputs that are marked to one type: the promoted one; a float for convolutions; a type for sums if they are
 * added. */
static void promote_inputs(Graph *graph, Op op, Node **in, const bool *takes_part, int inputs)
{
    Dtype t = BOOL;
    bool strong = false;
    for (int i = 0; i < inputs; i++)
        if (takes_part[i] && !in[i]->weak) {
            t = strong ? dtype_promote(t, in[i]->dtype) : in[i]->dtype;
            strong = true;
        }
    for (int i = 0; i < inputs; i++) { /* weak numbers: a fractional one makes integers F32 */
        if (takes_part[i] && in[i]->weak)
            t = strong ? graph_literal_type(t, in[i]) : F32;
    }
    if (op == OP_SCATTER_ADD)
        t = dtype_summed(t);
    if ((op == OP_CONVOLVE || op == OP_CONVOLVE_WEIGHT) && !dtype_is_float(t))
        t = F32;
    for (int i = 0; i < inputs; i++)
        if (takes_part[i])
            in[i] = graph_cast(graph, in[i], t);
}

static Node *make_promoted(Graph *graph, Op op, Node **in, int inputs, const int64_t *ints, int int_count, const char *text,
                           bool over)
{
    Node *few[8], **own = inputs <= COUNT(few) ? few : NEW_ARRAY(Node *, inputs);
    bool few_parts[8], *takes_part = inputs <= COUNT(few) ? few_parts : NEW_ARRAY(bool, inputs);
    OpClass class = OP_INFO[op].op_class;
    for (int i = 0; i < inputs; i++) {
        own[i] = in[i];
        bool index = (op == OP_GATHER || op == OP_SCATTER_ADD || op == OP_INDEX_COPY) && i == 1;
        takes_part[i] = !index;
        bool keeps = class == ELEMENTWISE || class == REGION || op_is_transfer(op) || op == OP_STOP_GRADIENT || index;
        if (own[i]->weak && !keeps && inputs == 1)
            own[i] = graph_strong(graph, own[i], F32);
        if (index)
            own[i] = graph_strong(graph, own[i], I32);
    }
    if (op == OP_EINSUM || op == OP_CONVOLVE || op == OP_CONVOLVE_WEIGHT || op == OP_CONCAT || op == OP_SCATTER_ADD)
        promote_inputs(graph, op, own, takes_part, inputs);
    /* attributes are copied by intern, and only the copy is written */
    return graph_make(
        graph,
        &(Node){.op = op, .in = own, .inputs = inputs, .ints = (int64_t *)(uintptr_t)ints, .int_count = int_count, .text = text},
        over);
}

Node *graph_node(Graph *graph, Op op, Node **in, int inputs, const int64_t *ints, int int_count, const char *text)
{
    return make_promoted(graph, op, in, inputs, ints, int_count, text, op == OP_CONVOLVE_WEIGHT);
}

Result *graph_add_result(Graph *graph, Result r)
{
    Memory *outer = memory_use(graph->memory);
    APPEND(graph->results, graph->result_count, r);
    memory_use(outer);
    return &graph->results[graph->result_count - 1];
}

Result *graph_result(Graph *graph, Role role, const char *name, int index, Node *value, Node *weight)
{
    Result r = {role, name, index, graph_capture(graph, value), weight ? graph_capture(graph, weight) : NULL, graph->at};
    return graph_add_result(graph, r);
}

Result *graph_find_result(Graph *graph, Role role, int index)
{
    for (int i = 0; i < graph->result_count; i++)
        if (graph->results[i].role == role && graph->results[i].index == index)
            return &graph->results[i];
    return NULL;
}

bool node_is_constant(const Node *n, double *value)
{
    if (n->op != OP_CONSTANT || n->data_count != 1)
        return false;
    *value = n->data[0];
    return true;
}

uint64_t node_random_hash(const Node *n) { return hash_bytes(0, n->text, strlen(n->text)); }

/* ---- leaves */

static Node *leaf(Graph *graph, Op op, Dtype dtype, Shape shape, bool has_samples, const int64_t *ints, int int_count,
                  const char *text)
{
    return graph_make(graph,
                      &(Node){.op = op,
                              .dtype = dtype,
                              .shape = shape,
                              .has_samples = has_samples,
                              .ints = (int64_t *)(uintptr_t)ints,
                              .int_count = int_count,
                              .text = text},
                      false);
}

Node *graph_input(Graph *graph, int input)
{
    const Input *i = &graph->model->inputs[input];
    Node *n = leaf(graph, OP_INPUT, i->dtype, i->shape, true, (int64_t[]){input}, 1, NULL);
    n->name = i->name;
    return n;
}

Node *graph_variable(Graph *graph, int variable)
{
    const Variable *v = &graph->model->variables[variable];
    Node *n = leaf(graph, OP_VARIABLE, v->dtype, v->shape, variable_is_placed(v, OVER_SAMPLES), (int64_t[]){variable}, 1, NULL);
    n->name = v->name;
    return n;
}

Node *graph_gradient(Graph *graph, int variable)
{
    const Variable *v = &graph->model->variables[variable];
    return leaf(graph, OP_GRADIENT, v->dtype, v->shape, false, (int64_t[]){variable}, 1, NULL);
}

static Node *constant(Graph *graph, const double *data, int64_t count, Shape shape, Dtype dtype, bool weak)
{
    bool equal = count > 0;
    for (int64_t i = 1; i < count && equal; i++)
        equal = memcmp(&data[0], &data[i], sizeof *data) == 0;
    Node n = {.op = OP_CONSTANT, .dtype = dtype, .weak = weak, .shape = shape, .data_count = equal ? 1 : count};
    n.data = NEW_ARRAY(double, n.data_count);
    for (int64_t i = 0; i < n.data_count; i++)
        n.data[i] = data[i];
    return graph_make(graph, &n, false);
}

Node *graph_number(Graph *graph, double value, Dtype dtype) { return constant(graph, &value, 1, SCALAR, dtype, false); }
Node *graph_weak(Graph *graph, double value) { return constant(graph, &value, 1, SCALAR, F64, true); }

Node *graph_constant(Graph *graph, const double *data, Shape shape, Dtype dtype)
{
    return constant(graph, data, shape_count(&shape), shape, dtype, false);
}

Node *graph_fill(Graph *graph, double value, Shape shape, Dtype dtype) { return constant(graph, &value, 1, shape, dtype, false); }

Node *graph_run(Graph *graph, RunScalar scalar, int setting)
{
    Node n = {.op = OP_RUN, .dtype = F64, .weak = true, .ints = (int64_t[]){scalar, setting}, .int_count = 2};
    return graph_make(graph, &n, false);
}

Node *graph_own_step(Graph *g, int objective)
{
    const Model *m = g->model;
    int64_t round = 0, earlier = 0;
    if (!objective)
        return graph_run(g, RUN_STEP, 0);
    for (int k = 0; k < m->objective_count; k++) {
        round += m->objectives[k].times;
        earlier += k < objective - 1 ? m->objectives[k].times : 0;
    }
    Node *done = graph_binary(g, OP_SUB, graph_run(g, RUN_STEP, 0), graph_weak(g, 1)), *all = graph_weak(g, (double)round);
    Node *rounds = graph_unary(g, OP_FLOOR, graph_binary(g, OP_DIV, done, all));
    Node *within = graph_binary(g, OP_SUB, done, graph_binary(g, OP_MUL, rounds, all));
    Node *own = graph_binary(g, OP_MUL, rounds, graph_weak(g, (double)m->objectives[objective - 1].times));
    return graph_binary(g, OP_ADD, own, graph_binary(g, OP_ADD, within, graph_weak(g, (double)(1 - earlier))));
}

Node *graph_valid(Graph *graph) { return leaf(graph, OP_VALID, BOOL, SCALAR, true, NULL, 0, NULL); }

Node *graph_batch_place(Graph *graph) { return leaf(graph, OP_BATCH_PLACE, I32, SCALAR, true, NULL, 0, NULL); }

Node *graph_random(Graph *graph, Shape shape, const char *path, bool has_samples)
{
    return leaf(graph, OP_RANDOM, F32, shape, has_samples, NULL, 0, path);
}

Node *graph_arange(Graph *graph, int64_t n) { return leaf(graph, OP_ARANGE, I32, SHAPE(n), false, NULL, 0, NULL); }

/* ---- types */

Node *graph_cast(Graph *graph, Node *a, Dtype t)
{
    double value;
    if (a->dtype == t && !a->weak)
        return a;
    if (node_is_constant(a, &value))
        return graph_fill(graph, cast_number(a->weak ? F64 : a->dtype, t, value), a->shape, t);
    return NODE(graph, OP_CAST, ((int64_t[]){t}), 1, NULL, a);
}

Node *graph_strong(Graph *graph, Node *a, Dtype t) { return a->weak ? graph_cast(graph, a, t) : a; }

Dtype graph_literal_type(Dtype t, const Node *weak)
{
    double v;
    if (dtype_is_float(t))
        return t;
    if (!node_is_constant(weak, &v) || !(v > -0x1p63 && v < 0x1p63) || v != (double)(int64_t)v)
        return F32;
    if (t != BOOL && cast_number(F64, t, v) == v)
        return t;
    return dtype_promote(t, cast_number(F64, I32, v) == v ? I32 : I64);
}

static Dtype common_type(const Node *a, const Node *b)
{
    return a->weak && b->weak ? F64
           : a->weak          ? graph_literal_type(b->dtype, a)
           : b->weak          ? graph_literal_type(a->dtype, b)
                              : dtype_promote(a->dtype, b->dtype);
}

/* ---- element-wise */

static const char *op_text(Op op) { return OP_INFO[op].signature ? OP_INFO[op].signature : OP_INFO[op].name; }

static Shape broadcast_shape(const Graph *graph, Op op, const Node *a, const Node *b)
{
    Shape s = a->shape.rank >= b->shape.rank ? a->shape : b->shape;
    for (int i = 1; i <= a->shape.rank && i <= b->shape.rank; i++) {
        int64_t x = a->shape.extent[a->shape.rank - i], y = b->shape.extent[b->shape.rank - i];
        if (x != y && x != 1 && y != 1)
            error_at(graph->at, "the shapes %s and %s do not fit together in '%s': axis -%d is %lld and %lld",
                     shape_text(&a->shape), shape_text(&b->shape), op_text(op), i, (long long)x, (long long)y);
        s.extent[s.rank - i] = x == 1 ? y : x;
    }
    return s;
}

Node *graph_unary(Graph *graph, Op op, Node *a)
{
    if (op == OP_FLOOR && !dtype_is_float(a->dtype))
        return a->dtype == BOOL ? graph_cast(graph, a, I32) : a;
    if (op != OP_ABS && op != OP_NOT && op != OP_BIT_NOT && !dtype_is_float(a->dtype))
        a = graph_cast(graph, a, F32);
    return NODE(graph, op, NULL, 0, NULL, a);
}

Node *graph_binary(Graph *graph, Op op, Node *a, Node *b)
{
    if (op != OP_AND && op != OP_OR) {
        Dtype t = common_type(a, b);
        if ((op == OP_DIV || op == OP_POW || op == OP_ATAN2) && !dtype_is_float(t))
            t = F32;
        if (op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_QUOTIENT)
            t = dtype_summed(t);
        if (op == OP_QUOTIENT && dtype_is_float(t))
            return graph_unary(graph, OP_FLOOR, graph_binary(graph, OP_DIV, a, b));
        if (!(a->weak && b->weak)) {
            a = graph_cast(graph, a, t);
            b = graph_cast(graph, b, t);
        }
    } else if (a->dtype != BOOL || b->dtype != BOOL) {
        error_at(graph->at, "'%s' needs bool, not %s; compare with 0 first", op_text(op),
                 dtype_name(a->dtype != BOOL ? a->dtype : b->dtype));
    }
    Shape s = broadcast_shape(graph, op, a, b);
    a = graph_broadcast(graph, a, s);
    b = graph_broadcast(graph, b, s);
    return NODE(graph, op, NULL, 0, NULL, a, b);
}

Node *graph_where(Graph *graph, Node *condition, Node *a, Node *b)
{
    if (condition->dtype != BOOL)
        die("where of a condition of %s", dtype_name(condition->dtype));
    if (!(a->weak && b->weak)) {
        Dtype t = common_type(a, b);
        a = graph_cast(graph, a, t);
        b = graph_cast(graph, b, t);
    } else if (condition->shape.rank || condition->has_samples) {
        a = graph_strong(graph, a, F32);
        b = graph_strong(graph, b, F32);
    }
    Shape s = broadcast_shape(graph, OP_WHERE, a, b);
    Node like = {.shape = s};
    s = broadcast_shape(graph, OP_WHERE, condition, &like);
    condition = graph_broadcast(graph, condition, s);
    a = graph_broadcast(graph, a, s);
    b = graph_broadcast(graph, b, s);
    return NODE(graph, OP_WHERE, NULL, 0, NULL, condition, a, b);
}

Node *graph_negate(Graph *graph, Node *a)
{
    double value;
    if (node_is_constant(a, &value) && dtype_is_float(a->dtype))
        return constant(graph, &(double){-value}, 1, a->shape, a->dtype, a->weak);
    return graph_binary(graph, OP_SUB, graph_weak(graph, 0), a);
}

/* ---- views */

Node *graph_reshape(Graph *graph, Node *a, Shape s)
{
    double value;
    if (shape_equal(&a->shape, &s))
        return a;
    if (node_is_constant(a, &value) && !a->weak && shape_count(&a->shape) == shape_count(&s))
        return graph_fill(graph, value, s, a->dtype);
    return NODE(graph, OP_RESHAPE, s.extent, s.rank, NULL, a);
}

Node *graph_broadcast(Graph *graph, Node *a, Shape s)
{
    double value;
    if (shape_equal(&a->shape, &s))
        return a;
    a = graph_strong(graph, a, F32);
    if (node_is_constant(a, &value) && a->shape.rank == 0)
        return graph_fill(graph, value, s, a->dtype);
    return NODE(graph, OP_BROADCAST, s.extent, s.rank, NULL, a);
}

Node *graph_transpose(Graph *graph, Node *a, const int *order)
{
    int64_t ints[MAX_RANK];
    bool same = true;
    for (int i = 0; i < a->shape.rank; i++) {
        ints[i] = order[i];
        same = same && order[i] == i;
    }
    return same ? a : NODE(graph, OP_TRANSPOSE, ints, a->shape.rank, NULL, a);
}

Node *graph_slice(Graph *graph, Node *a, const int64_t *start, const int64_t *count, const int64_t *step)
{
    int r = a->shape.rank;
    int64_t ints[3 * MAX_RANK];
    bool same = true;
    for (int i = 0; i < r; i++) {
        ints[i] = count[i] ? start[i] : 0;
        ints[r + i] = count[i];
        ints[2 * r + i] = count[i] > 1 ? step[i] : 1; /* one canonical form, so that equal slices are shared */
        same = same && ints[i] == 0 && count[i] == a->shape.extent[i] && ints[2 * r + i] == 1;
    }
    return same ? a : NODE(graph, OP_SLICE, ints, 3 * r, NULL, a);
}

Node *graph_concat(Graph *graph, Node **in, int inputs, int axis)
{
    return inputs == 1 ? in[0] : graph_node(graph, OP_CONCAT, in, inputs, (int64_t[]){axis}, 1, NULL);
}

Node *graph_pad(Graph *graph, Node *a, const int64_t *low, const int64_t *high, double value)
{
    int r = a->shape.rank;
    int64_t ints[2 * MAX_RANK];
    bool same = true;
    for (int i = 0; i < r; i++) {
        ints[i] = low[i];
        ints[r + i] = high[i];
        same = same && !low[i] && !high[i];
    }
    if (same)
        return a;
    if (!dtype_is_float(a->dtype) && cast_number(F64, a->dtype, value) != value)
        a = graph_cast(graph, a, value == cast_number(F64, I32, value) ? dtype_promote(a->dtype, I32) : F32);
    Node n = {.op = OP_PAD, .in = &a, .inputs = 1, .ints = ints, .int_count = 2 * r, .data_count = 1};
    n.data = NEW(double);
    n.data[0] = value;
    return graph_make(graph, &n, false);
}

/* ---- attention */

Node *graph_attention(Graph *graph, Node *q, Node *k, Node *v, bool causal, int64_t window, double scale)
{
    int64_t ints[4] = {causal, window, 0, 0};
    memcpy(&ints[2], &scale, sizeof scale);
    return NODE(graph, OP_ATTENTION, ints, COUNT(ints), NULL, q, k, v);
}

Node *graph_attention_sums(Graph *graph, const Node *y)
{
    int64_t ints[4] = {y->ints[0], y->ints[1], y->ints[2], 1};
    return graph_node(graph, OP_ATTENTION, y->in, y->inputs, ints, COUNT(ints), NULL);
}

Node *graph_attention_gradient(Graph *graph, Node *y, Node *logarithms, Node *g, int64_t which)
{
    int64_t ints[4] = {y->ints[0], y->ints[1], y->ints[2], which};
    return NODE(graph, OP_ATTENTION_GRADIENT, ints, COUNT(ints), NULL, y->in[0], y->in[1], y->in[2], g, y, logarithms);
}

double node_attention_scale(const Node *n)
{
    double scale;
    memcpy(&scale, &n->ints[2], sizeof scale);
    return scale;
}

/* ---- reductions */

static int ascending_axes(const Node *a, const int *axes, int count, int64_t *ints)
{
    int n = 0;
    for (int axis = 0; axis < a->shape.rank; axis++)
        for (int i = 0; i < count; i++)
            if (axes[i] == axis) {
                ints[n++] = axis;
                break;
            }
    return n;
}

static Node *sum(Graph *graph, Node *a, const int *axes, int axis_count, bool over)
{
    int64_t ints[MAX_RANK];
    int n = ascending_axes(a, axes, axis_count, ints);
    if (n == 0 && !over)
        return dtype_is_float(a->dtype) || dtype_bytes(a->dtype) >= 4 ? a : graph_cast(graph, a, I32);
    return make_promoted(graph, OP_SUM, &a, 1, ints, n, NULL, over);
}

Node *graph_sum(Graph *graph, Node *a, const int *axes, int axis_count) { return sum(graph, a, axes, axis_count, false); }

Node *graph_sum_samples(Graph *graph, Node *a, const int *axes, int axis_count) { return sum(graph, a, axes, axis_count, true); }

Node *graph_max(Graph *graph, Node *a, const int *axes, int axis_count)
{
    int64_t ints[MAX_RANK];
    int n = ascending_axes(a, axes, axis_count, ints);
    return n ? NODE(graph, OP_MAX, ints, n, NULL, a) : a;
}

/* Returns true if every letter is in the result, and none occurs twice in an operand. */
static bool sums_nothing(const char *text, const char *arrow)
{
    const char *operand = text;
    for (const char *p = text; p < arrow; p++) {
        if (*p == ',')
            operand = p + 1;
        else if (!strchr(arrow + 2, *p) || memchr(operand, *p, (size_t)(p - operand)))
            return false;
    }
    return true;
}

/* Such an einsum is element-wise: each operand gets the result's order of axes, with extent 1 for missing ones. */
static Node *einsum_product(Graph *graph, const char *text, const char *result, Node **in, int inputs)
{
    Node check = {.op = OP_EINSUM, .in = in, .inputs = inputs, .text = text, .at = graph->at};
    node_infer(&check, false);
    Node *product = NULL;
    for (int i = 0; i < inputs; i++, text++) {
        int order[MAX_RANK] = {0}, count = 0, rank = in[i]->shape.rank;
        Shape spread = {.rank = (int)strlen(result)};
        for (int k = 0; k < spread.rank; k++) {
            const char *at = memchr(text, result[k], (size_t)rank);
            spread.extent[k] = at ? in[i]->shape.extent[at - text] : 1;
            if (at)
                order[count++] = (int)(at - text);
        }
        Node *operand = graph_reshape(graph, graph_transpose(graph, in[i], order), spread);
        product = product ? graph_binary(graph, OP_MUL, product, operand) : operand;
        text += rank;
    }
    return product;
}

Node *graph_einsum(Graph *graph, const char *spec, Node **in, int inputs, bool over_samples)
{
    char *text = allocate(strlen(spec) + 1), *q = text;
    for (const char *p = spec; *p; p++)
        if (*p != ' ')
            *q++ = *p;
    char *arrow = strstr(text, "->");
    bool plain = inputs == 1 && arrow && in[0]->shape.rank == arrow - text; /* a sum and a transpose are enough */
    for (char *p = text; plain && p < arrow; p++)
        plain = !memchr(text, *p, (size_t)(p - text));
    if (!plain)
        return !over_samples && inputs > 1 && arrow && sums_nothing(text, arrow)
                   ? einsum_product(graph, text, arrow + 2, in, inputs)
                   : make_promoted(graph, OP_EINSUM, in, inputs, NULL, 0, text, over_samples);
    /* applies the checks of the shape rule */
    Node check = {.op = OP_EINSUM, .in = in, .inputs = 1, .text = text, .at = graph->at};
    node_infer(&check, over_samples);
    int axes[MAX_RANK] = {0}, order[MAX_RANK] = {0}, axis_count = 0, kept_count = 0;
    char kept[MAX_RANK];
    for (int i = 0; i < in[0]->shape.rank; i++) {
        if (strchr(arrow + 2, text[i]))
            kept[kept_count++] = text[i];
        else
            axes[axis_count++] = i;
    }
    Node *y = sum(graph, in[0], axes, axis_count, over_samples);
    for (int i = 0; i < kept_count; i++)
        for (int k = 0; k < kept_count; k++)
            if (kept[k] == arrow[2 + i])
                order[i] = k;
    return graph_transpose(graph, y, order);
}

Node *graph_group_sum(Graph *graph, Node *a, int64_t group) { return NODE(graph, OP_GROUP_SUM, &group, 1, NULL, a); }

Node *graph_scatter_add(Graph *graph, Node *x, Node *i, Node *v, int axis, bool over_samples)
{
    return make_promoted(graph, OP_SCATTER_ADD, (Node *[]){x, i, v}, 3, (int64_t[]){axis}, 1, NULL, over_samples);
}

Node *graph_convolve_weight(Graph *graph, Node *x, Node *g, const int64_t *ints, int int_count, bool over_samples)
{
    return make_promoted(graph, OP_CONVOLVE_WEIGHT, (Node *[]){x, g}, 2, ints, int_count, NULL, over_samples);
}

Node *graph_reduce(Graph *graph, Node *partial)
{
    return NODE(graph, partial->op == OP_MOMENTS ? OP_REDUCE_MOMENTS : OP_REDUCE, NULL, 0, NULL, partial);
}

/* ---- moments */

Node *graph_moments(Graph *graph, Node *x, const int *axes, int axis_count)
{
    int64_t ints[MAX_RANK];
    int count = ascending_axes(x, axes, axis_count, ints);
    Node *in[] = {x, graph_valid(graph)};
    return graph_make(graph, &(Node){.op = OP_MOMENTS, .in = in, .inputs = 2, .ints = ints, .int_count = count}, true);
}

Node *graph_moment(Graph *graph, Node *moments, int which)
{
    int64_t start[MAX_RANK] = {0}, count[MAX_RANK], step[MAX_RANK];
    Shape rest = {.rank = moments->shape.rank - 1};
    for (int i = 0; i < moments->shape.rank; i++) {
        step[i] = 1;
        count[i] = moments->shape.extent[i];
        if (i < rest.rank)
            rest.extent[i] = count[i];
    }
    start[rest.rank] = which;
    count[rest.rank] = 1;
    return graph_reshape(graph, graph_slice(graph, moments, start, count, step), rest);
}

/* Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. One of the two may
 * have no elements. */
Node *graph_merge_moments(Graph *graph, Node *a, Node *b)
{
    Node *n[2], *mean[2], *squares[2], *in[] = {a, b}, *result[MOMENTS];
    for (int i = 0; i < 2; i++) {
        n[i] = graph_moment(graph, in[i], MOMENT_COUNT);
        mean[i] = graph_moment(graph, in[i], MOMENT_MEAN);
        squares[i] = graph_moment(graph, in[i], MOMENT_SQUARES);
    }
    Node *all = graph_binary(graph, OP_ADD, n[0], n[1]), *one = graph_fill(graph, 1, all->shape, all->dtype);
    Node *share = graph_binary(graph, OP_DIV, n[1], graph_binary(graph, OP_MAXIMUM, all, one));
    Node *away = graph_binary(graph, OP_SUB, mean[1], mean[0]);
    Node *between =
        graph_binary(graph, OP_MUL, graph_binary(graph, OP_MUL, away, away), graph_binary(graph, OP_MUL, n[0], share));
    result[MOMENT_COUNT] = all;
    result[MOMENT_MEAN] = graph_binary(graph, OP_ADD, mean[0], graph_binary(graph, OP_MUL, away, share));
    result[MOMENT_SQUARES] = graph_binary(graph, OP_ADD, graph_binary(graph, OP_ADD, squares[0], squares[1]), between);
    Shape row = a->shape;
    row.extent[row.rank - 1] = 1;
    for (int i = 0; i < MOMENTS; i++)
        result[i] = graph_reshape(graph, result[i], row);
    return graph_concat(graph, result, MOMENTS, row.rank - 1);
}
