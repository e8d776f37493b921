/* read.c: a dump -> the model and its graphs, as the stage that printed them left them.
 *
 * In: the text of dump_write (syntax: ir/print.c), or text written by hand, as in tests. Numbers of nodes are names, defined
 * before they are used. Every node is checked as if it were built: by its row of ops.def and its shape rule, whose result must
 * match the text. So passes get no graph that could not have been built. */
#include "compiler/ir/dump.h"
#include "compiler/ir/placement.h"

#include <string.h>

enum { MOST_NESTED = 100 }; /* nesting depth of bodies */

typedef struct Scope { /* a graph that is being read */
    Graph *graph;
    const Node *owner; /* of a body: op, inputs and attributes of its node; NULL: a graph */
    bool distributed;  /* "sharded" is a placement */
    Map nodes;         /* by their number in the text */
} Scope;

/* ---- attributes */
static void read_run(mgpu_reader *d, Node *n)
{
    int64_t *ints = NEW_ARRAY(int64_t, 2);
    ints[0] = mgpu_read_choice(d, "a number of the run", RUN_NAME, RUN_SCALARS);
    mgpu_reader start = *d;
    if (ints[0] == RUN_SETTING &&
        (ints[1] = mgpu_read_integer(d, "the number of a setting", 0, INT32_MAX)) >= dump_state(d)->model->setting_count)
        mgpu_wrong(&start, "the model has no setting %lld; it has %d", (long long)ints[1], dump_state(d)->model->setting_count);
    n->ints = ints;
    n->int_count = 2;
}

static void set_one(Node *n, int64_t value)
{
    n->ints = NEW(int64_t);
    n->ints[0] = value;
    n->int_count = 1;
}

static void read_attributes(mgpu_reader *d, Node *n)
{
    Form form;
    for (const char *row = OP_INFO[n->op].attributes; next_form(&row, &form);) {
        bool end = mgpu_at_end(d) || *d->at == ':' || *d->at == '%';
        mgpu_reader start = *d;
        switch (form.kind) {
        case FORM_INDEX: set_one(n, mgpu_read_integer(d, "an index", 0, INT32_MAX)); break;
        case FORM_RUN: read_run(d, n); break;
        case FORM_TYPE:
            if (!form.optional || !end)
                set_one(n, (Dtype)mgpu_read_type(d));
            break;
        case FORM_TEXT:
            if (form.optional && *d->at != '"')
                break;
            if (*d->at != '"')
                mgpu_wrong(d, "expected a text in quotes, which '%s' needs", OP_INFO[n->op].name);
            n->text = mgpu_read_name(d, "a text");
            break;
        case FORM_LIST:
            if (form.optional && *d->at != '[')
                break;
            n->ints = read_list(d, "an attribute", &n->int_count);
            if (form.count >= 0 && n->int_count != form.count)
                mgpu_wrong(&start, "'%s' has %d attributes; %d given", OP_INFO[n->op].name, form.count, n->int_count);
            break;
        case FORM_NUMBERS:
            if (form.optional && *d->at != '{')
                break;
            mgpu_need(d, "{");
            Numbers numbers = read_numbers(d);
            n->data = numbers.data;
            n->data_count = numbers.count;
            if (!n->data_count || (form.count >= 0 && n->data_count != form.count))
                mgpu_wrong(&start, "'%s' does not have %lld numbers", OP_INFO[n->op].name, (long long)n->data_count);
            break;
        case FORMS: break;
        }
    }
}

/* ---- leaves: their types are defined elsewhere */
static Node like(Dtype dtype, const Shape *shape, bool has_samples, bool weak)
{
    return (Node){.dtype = dtype, .shape = *shape, .has_samples = has_samples, .weak = weak};
}

static Node variable_like(const mgpu_reader *d, const Node *n, const mgpu_reader *start)
{
    if (n->ints[0] >= dump_state(d)->model->variable_count)
        mgpu_wrong(start, "the model has no variable %lld; it has %d", (long long)n->ints[0],
                   dump_state(d)->model->variable_count);
    const Variable *v = &dump_state(d)->model->variables[n->ints[0]];
    Dtype t = n->op == OP_GRADIENT || dump_state(d)->model->precision == F64 ? n->dtype : v->dtype;
    return like(t, &v->shape, variable_is_placed(v, OVER_SAMPLES), false);
}

static Node input_like(const mgpu_reader *d, const Node *n, const mgpu_reader *start)
{
    if (n->ints[0] >= dump_state(d)->model->input_count)
        mgpu_wrong(start, "the model has no input %lld; it has %d", (long long)n->ints[0], dump_state(d)->model->input_count);
    const Input *in = &dump_state(d)->model->inputs[n->ints[0]];
    return like(in->dtype, &in->shape, true, false);
}

static CaptureKind kind_of(const Node *node, int64_t input)
{
    return node->op != OP_SCAN || input >= node->ints[0] + node->ints[1] ? AS_IT_IS
           : input < node->ints[0]                                       ? AS_CARRY
                                                                         : AS_SEQUENCE;
}

static Node arg_like(const Scope *s, const Node *n, const mgpu_reader *start)
{
    if (!s->owner || n->ints[0] >= s->owner->inputs)
        mgpu_wrong(start, s->owner ? "the body has no input %lld" : "'arg' is the input of a body; a graph has none",
                   (long long)n->ints[0]);
    const Node *in = s->owner->in[n->ints[0]];
    Node is = like(in->dtype, &in->shape, in->has_samples, in->weak);
    CaptureKind kind = kind_of(s->owner, n->ints[0]);
    if (kind == AS_SEQUENCE && in->shape.rank)
        is.shape = shape_of(in->shape.rank - 1, in->shape.extent + 1);
    if (kind == AS_CARRY)
        is.has_samples = is.has_samples || n->has_samples;
    return is;
}

static Node leaf_like(const mgpu_reader *d, const Scope *s, const Node *n, const mgpu_reader *start)
{
    switch (n->op) {
    case OP_INPUT: return input_like(d, n, start);
    case OP_VARIABLE:
    case OP_GRADIENT: return variable_like(d, n, start);
    case OP_ARG: return arg_like(s, n, start);
    case OP_RUN: return like(F64, &n->shape, false, true);
    case OP_VALID: return like(BOOL, &(Shape){0}, true, false);
    case OP_BATCH_PLACE: return like(I32, &(Shape){0}, true, false);
    case OP_ARANGE: return like(I32, &(Shape){1, {n->shape.extent[0]}}, false, false);
    case OP_RANDOM: return like(dtype_is_float(n->dtype) ? n->dtype : F32, &n->shape, n->has_samples, false);
    default: return like(n->dtype, &n->shape, false, n->weak);
    }
}

/* ---- nodes */
static Node *find_node(mgpu_reader *d, const Scope *s)
{
    mgpu_reader start = *d;
    const char *number = mgpu_read_name(d, "the number of a node");
    Node *n = map_get(&s->nodes, number);
    if (!n)
        mgpu_wrong(&start, "there is no %%%s above this line", number);
    return n;
}

static Node *need_node(mgpu_reader *d, const Scope *s)
{
    mgpu_need(d, "%");
    return find_node(d, s);
}

static void read_inputs(mgpu_reader *d, const Scope *s, Node *n)
{
    for (mgpu_at_end(d); *d->at == '%'; mgpu_at_end(d)) {
        mgpu_reader start = *d;
        Node *in = need_node(d, s);
        bool has_body = in->op == OP_COMPOSITE || in->op == OP_SCAN;
        if (has_body != (n->op == OP_RESULT))
            mgpu_wrong(&start, has_body ? "a body has no value of its own; 'result' takes its results"
                                        : "'result' is of a composite or a scan");
        APPEND(n->in, n->inputs, in);
    }
    int inputs = OP_INFO[n->op].inputs;
    if (inputs >= 0 && n->inputs != inputs)
        mgpu_wrong(d, "'%s' has %d input%s; %d given", OP_INFO[n->op].name, inputs, inputs == 1 ? "" : "s", n->inputs);
}

static void read_type(mgpu_reader *d, const Scope *s, Node *n)
{
    mgpu_need(d, ":");
    n->dtype = (Dtype)mgpu_read_type(d);
    n->shape = read_shape(d);
    for (int k = 0; k < PLACEMENT_WORDS; k++)
        if (mgpu_take_word(d, PLACEMENT_WORD[k].word)) {
            n->has_samples = k == WORD_SHARDED;
            if (!n->has_samples || s->distributed)
                n->placement.on[MESH_DATA] = PLACEMENT_WORD[k].is;
            break;
        }
    n->weak = mgpu_take_word(d, "weak");
    n->backward = mgpu_take_word(d, "backward");
    if (!mgpu_at_end(d))
        mgpu_wrong(d, "expected one of: replicated sharded partial split local weak backward ;");
    n->path = "";
    if (mgpu_take(d, ";")) {
        mgpu_at_end(d);
        bool named = *d->at == '"' || (strncmp(d->at, "in ", 3) != 0 && strncmp(d->at, "line ", 5) != 0);
        n->name = named && !mgpu_at_end(d) ? mgpu_read_name(d, "the name of a value") : NULL;
        if (mgpu_take_word(d, "in"))
            n->path = mgpu_read_name(d, "an instance");
        n->at = read_place(d);
    }
    mgpu_end_record(d);
}

static const char *kind_text(const Node *n)
{
    return format("%s%s%s%s", dtype_name(n->dtype), shape_text(&n->shape), n->has_samples ? " sharded" : "",
                  n->weak ? " weak" : "");
}

/* Checks that the placement is the one that follows from those of the inputs. Graphs that are not distributed have none. */
static void check_placement(const Scope *s, const Node *n, const mgpu_reader *start)
{
    AxisPlacement *in = NEW_ARRAY(AxisPlacement, n->inputs + 1), own = n->placement.on[MESH_DATA];
    bool *reduce = NEW_ARRAY(bool, n->inputs + 1), split = false, claims = own.kind == LOCAL || placement_is(own, OVER_ELEMENTS);
    const char *why, *name = OP_INFO[n->op].name;
    for (int k = 0; k < n->inputs; k++) {
        in[k] = n->in[k]->placement.on[MESH_DATA];
        split = split || placement_is(in[k], OVER_ELEMENTS);
    }
    if (!s->distributed && placement_of_own(n, in))
        mgpu_wrong(start, "'%s' is for graphs that are distributed: those of the stage dist and of later ones", name);
    AxisPlacement is = s->distributed ? placement_by_rule(n, MESH_DATA, n->in, in, reduce, &why) : (AxisPlacement){UNPLACED, 0};
    if (claims && !placement_of_own(n, in) && !placement_is(is, own))
        mgpu_wrong(start, "'%s' makes no %s value of its inputs", name, placement_word(own));
    if (!s->distributed)
        return;
    if (why)
        mgpu_wrong(start, "%s", why);
    for (int k = 0; k < n->inputs; k++)
        if (reduce[k] && split)
            mgpu_wrong(start, "'%s' of a split value and one that is partial", name);
        else if (reduce[k])
            mgpu_wrong(start, "'%s' of a partial value: it needs the sum, by 'reduce'", name);
    if (!placement_is(is, own))
        mgpu_wrong(start, "'%s' is %s here; write '%s' after its shape", name, placement_word(is), placement_word(is));
}

static void check_transfer(const Node *n, const mgpu_reader *start)
{
    const char *why;
    if (n->op == OP_REDUCE_BITS && n->dtype != F32 && n->dtype != F64)
        mgpu_wrong(start, "'%s' is of f32 or f64, not %s", OP_INFO[n->op].name, dtype_name(n->dtype));
    if ((why = transfer_wrong_parts(n)))
        mgpu_wrong(start, "%s", why);
    int ends = op_is_transfer(n->op) ? mgpu_transfer_row(transfer_of(n->op))->ends : 0;
    for (int k = 0; k < ends; k++)
        if (n->ints[k] < 0 || n->ints[k] > INT32_MAX)
            mgpu_wrong(start, "'%s' names device %lld", OP_INFO[n->op].name, (long long)n->ints[k]);
    if (ends == 2 && n->ints[0] == n->ints[1])
        mgpu_wrong(start, "'%s' from device %lld to itself", OP_INFO[n->op].name, (long long)n->ints[0]);
}

/* Checks that the node is the result of its operation on its inputs. */
static void check_node(const mgpu_reader *d, const Scope *s, Node *n, const mgpu_reader *start)
{
    Place here = reader_place(start);
    bool any = false, leaf = OP_INFO[n->op].op_class == LEAF;
    for (int i = 0; i < n->inputs; i++)
        any = any || n->in[i]->has_samples;
    Node is = leaf ? leaf_like(d, s, n, start) : *n;
    if (!leaf) {
        is.weak = false;
        is.shape = (Shape){0};
        is.at = &here;
        node_infer(&is, any && !n->has_samples);
    }
    if (is.dtype != n->dtype || !shape_equal(&is.shape, &n->shape) || is.has_samples != n->has_samples || is.weak != n->weak)
        mgpu_wrong(start, "'%s' is %s here, not %s", OP_INFO[n->op].name, kind_text(&is), kind_text(n));
    if (n->weak && n->shape.rank)
        mgpu_wrong(start, "a weak number has no axes");
    check_placement(s, n, start);
    check_transfer(n, start);
    if (n->op == OP_CONSTANT && n->data_count != 1 && n->data_count != shape_count(&n->shape))
        mgpu_wrong(start, "a constant has one number, or one for each element: %lld, not %lld", (long long)shape_count(&n->shape),
                   (long long)n->data_count);
}

/* ---- bodies and results */
static bool read_role(mgpu_reader *d, Role *role)
{
    for (int k = 0; k < ROLES; k++)
        if (mgpu_take_word(d, ROLE_NAME[k])) {
            *role = (Role)k;
            return true;
        }
    return false;
}

static void check_result(const mgpu_reader *d, const Scope *s, const Result *r, const mgpu_reader *start)
{
    bool variable = r->role == ROLE_UPDATE || r->role == ROLE_INIT || r->role == ROLE_GRADIENT;
    if ((r->role == ROLE_RESULT) != (s->owner != NULL))
        mgpu_wrong(start, s->owner ? "a body has no results but 'result'" : "'result' is of a body");
    if (r->role == ROLE_RESULT && r->index != s->graph->result_count)
        mgpu_wrong(start, "expected result %d: they are numbered from 0", s->graph->result_count);
    if (variable && r->index >= dump_state(d)->model->variable_count)
        mgpu_wrong(start, "the model has no variable %d; it has %d", r->index, dump_state(d)->model->variable_count);
    if (variable && !shape_equal(&r->value->shape, &dump_state(d)->model->variables[r->index].shape))
        mgpu_wrong(start, "variable %d is %s, its value %s", r->index,
                   shape_text(&dump_state(d)->model->variables[r->index].shape), shape_text(&r->value->shape));
    const Variable *v = variable ? &dump_state(d)->model->variables[r->index] : NULL;
    bool each = v && r->role == ROLE_UPDATE && variable_is_placed(v, OVER_SAMPLES);
    if (r->value->has_samples && (variable || r->role == ROLE_REPORT) && !each)
        mgpu_wrong(start, "'%s' is one value for all samples; this node has one for each", ROLE_NAME[r->role]);
    if (!r->value->has_samples && each)
        mgpu_wrong(start, "'%s' of variable %d has a value for each sample; this node is the same for all", ROLE_NAME[r->role],
                   r->index);
    for (int k = 0; k < 2; k++) {
        const Node *value = k ? r->weight : r->value;
        bool split = value && node_is_sharded(value, ELEMENTS_AXIS), local = value && node_is_placed(value, LOCAL);
        bool kept = v && variable_is_placed(v, split ? OVER_ELEMENTS : IS_PARTIAL);
        if (!kept && (split || local))
            mgpu_wrong(start, "'%s' of a %s value: no device has all of it; bring it together first, by %s", ROLE_NAME[r->role],
                       placement_word(value->placement.on[MESH_DATA]), split ? "'all_gather'" : "'broadcast_from'");
    }
    if (r->value->op == OP_COMPOSITE || r->value->op == OP_SCAN ||
        (r->weight && (r->weight->op == OP_COMPOSITE || r->weight->op == OP_SCAN)))
        mgpu_wrong(start, "a body has no value of its own; 'result' takes its results");
}

static void read_result(mgpu_reader *d, Scope *s, Role role, const mgpu_reader *start)
{
    Result r = {.role = role};
    if (role_has_index(role))
        r.index = (int)mgpu_read_integer(d, "an index", 0, INT32_MAX);
    mgpu_at_end(d);
    if (*d->at == '"')
        r.name = mgpu_read_name(d, "a name");
    mgpu_need(d, "=");
    r.value = need_node(d, s);
    if (mgpu_take_word(d, "weight"))
        r.weight = need_node(d, s);
    if (!mgpu_at_end(d))
        mgpu_wrong(d, "expected 'weight' and a node, or the end of the line");
    r.at = mgpu_take(d, ";") ? read_place(d) : NULL;
    mgpu_end_record(d);
    check_result(d, s, &r, start);
    graph_add_result(s->graph, r);
}

static void check_loop(const Node *n, const mgpu_reader *start)
{
    const Graph *body = n->body;
    for (int i = 0; i < n->ints[0]; i++) {
        const Node *carry = body->nodes[i], *next = body->results[i].value;
        if (carry->dtype != next->dtype || !shape_equal(&carry->shape, &next->shape) ||
            (next->has_samples && !carry->has_samples))
            mgpu_wrong(start, "carry %d is %s, but becomes %s", i, kind_text(carry), kind_text(next));
    }
}

static void read_lines(mgpu_reader *d, Scope *s);

static Graph *read_body(mgpu_reader *d, const Scope *outer, const Node *n, const mgpu_reader *start)
{
    if (n->op == OP_SCAN &&
        (n->ints[0] < 0 || n->ints[1] < 0 || n->ints[4] < 0 || n->ints[0] > n->inputs || n->ints[1] > n->inputs))
        mgpu_wrong(start, "'scan' has %d inputs, too few for its carries and sequences", n->inputs);
    if (!mgpu_next_record(d) || !mgpu_take_word(d, "body"))
        mgpu_wrong(d, "expected 'body' and the lines of '%s' above", OP_INFO[n->op].name);
    int depth = 0;
    for (const Graph *g = outer->graph; g; g = g->parent)
        if (++depth > MOST_NESTED)
            mgpu_wrong(start, "bodies are nested more than %d deep", MOST_NESTED);
    Scope s = {.graph = graph_new(dump_state(d)->model, NULL, outer->graph), .owner = n};
    if (!mgpu_at_end(d))
        s.graph->name = mgpu_read_name(d, "the name of a body");
    mgpu_end_record(d);
    for (int i = 0; i < n->inputs; i++) {
        APPEND(s.graph->captured, s.graph->captured_count, n->in[i]);
        APPEND(s.graph->kinds, s.graph->kind_count, kind_of(n, i));
    }
    read_lines(d, &s);
    if (!s.graph->result_count)
        mgpu_wrong(d, "the body above has no result; add 'result 0 = %%N'");
    return s.graph;
}

static void check_arg(Scope *s, const Node *n, const mgpu_reader *start)
{
    for (int i = 0; i < s->graph->node_count; i++)
        if (s->graph->nodes[i]->op == OP_ARG && s->graph->nodes[i]->ints[0] == n->ints[0])
            mgpu_wrong(start, "arg %lld is already there, as %%%d", (long long)n->ints[0], i);
}

static void read_node(mgpu_reader *d, Scope *s)
{
    mgpu_reader start = *d;
    Node n = {.graph = s->graph};
    const char *number = mgpu_read_name(d, "the number of a node"), *names[OPS];
    if (map_get(&s->nodes, number))
        mgpu_wrong(&start, "there is a %%%s already; give this node another number", number);
    mgpu_need(d, "=");
    for (int k = 0; k < OPS; k++)
        names[k] = OP_INFO[k].name;
    mgpu_at_end(d);
    mgpu_reader op = *d;
    n.op = (Op)mgpu_read_choice(d, "an operation", names, OPS);
    mgpu_at_end(d);
    read_attributes(d, &n);
    read_inputs(d, s, &n);
    read_type(d, s, &n);
    if (n.op == OP_COMPOSITE || n.op == OP_SCAN)
        n.body = read_body(d, s, &n, &op);
    if (n.op == OP_ARG)
        check_arg(s, &n, &op);
    check_node(d, s, &n, &op);
    if (n.op == OP_SCAN)
        check_loop(&n, &op);
    map_set(&s->nodes, number, graph_append(s->graph, &n));
}

/* Reads nodes, then results, up to anything else, or to another body's results. */
static void read_lines(mgpu_reader *d, Scope *s)
{
    Role role;
    while (mgpu_next_record(d)) {
        mgpu_reader start = *d;
        if (*d->at == '%' && !s->graph->result_count) {
            mgpu_take(d, "%");
            read_node(d, s);
        } else if (s->owner && s->graph->result_count && mgpu_take_word(d, "result") && mgpu_take_word(d, "0")) {
            *d = start;
            return;
        } else {
            *d = start;
            if (*d->at == '%' || !read_role(d, &role))
                return;
            read_result(d, s, role, &start);
        }
    }
}

/* ---- graphs */
static DumpedGraph read_graph(mgpu_reader *d, const char *const *names, int name_count)
{
    Scope s = {0};
    Steps steps = STEPS_ANY;
    const char *name = names[mgpu_read_choice(d, "a graph", names, name_count)];
    s.graph = graph_new(dump_state(d)->model, name, NULL);
    for (int k = STEPS_FULL; k <= STEPS_PARTIAL; k++)
        if (mgpu_take_word(d, STEPS_NAME[k]))
            steps = (Steps)k;
    s.distributed = mgpu_take_word(d, "distributed");
    mgpu_end_record(d);
    read_lines(d, &s);
    return (DumpedGraph){s.graph, steps};
}

/* Reads the constants at the end of the dump; first of all, since nodes refer to them. */
static void read_long(mgpu_reader d, mgpu_reader *to)
{
    while (*d.at && !(d.at == d.line_start && strncmp(d.at, "numbers", 7) == 0))
        if (*d.at++ == '\n') {
            d.line++;
            d.line_start = d.at;
        }
    while (mgpu_take_word(&d, "numbers")) {
        mgpu_reader start = d;
        const char *hash = mgpu_read_name(&d, "the hash of numbers");
        mgpu_need(&d, "{");
        Numbers *n = NEW(Numbers);
        *n = read_numbers(&d);
        const char *is = format("%016llx", (unsigned long long)hash_bytes(0, n->data, (size_t)n->count * sizeof *n->data));
        if (strcmp(is, hash) != 0)
            mgpu_wrong(&start, "the numbers are not those that were written: their hash is %s", is);
        map_set(&dump_state(to)->numbers, hash, n);
        mgpu_end_record(&d);
        if (mgpu_next_record(&d) && strncmp(d.at, "numbers", 7) != 0)
            mgpu_wrong(&d, "expected 'numbers': after the first of them a dump has nothing else");
    }
}

static void read_head(mgpu_reader *d, const char **stage)
{
    if (!mgpu_next_record(d) || !mgpu_take_word(d, "mgpu-graph"))
        mgpu_wrong(d, "this is no dump of graphs: 'mgpu-graph 1' and a stage expected, as --emit prints them");
    mgpu_reader start = *d;
    if (mgpu_read_integer(d, "the version of the dump", 0, INT32_MAX) != 1)
        mgpu_wrong(&start, "a dump of another version than 1, which this mgpuc reads");
    mgpu_at_end(d);
    start = *d;
    const char *made = mgpu_read_name(d, "a stage");
    if (*stage && strcmp(made, *stage) != 0)
        mgpu_wrong(&start, "stage '%s' made this, not '%s'; type --from %s", made, *stage, made);
    *stage = made;
    mgpu_end_record(d);
}

DumpedGraph *dump_read(const char *file, const char *text, size_t length, const char **stage, const char *const *names,
                       int name_count, Model **model, int *count)
{
    Source *source = NEW(Source);
    *source = (Source){.file = file, .text = text, .length = length, .dump = true};
    mgpu_reader d = text_reader(source);
    d.comment = ';';
    d.context = &(DumpState){.source = source};
    DumpedGraph *graphs = NULL;
    *count = 0;
    read_head(&d, stage);
    read_long(d, &d);
    *model = model_read(&d);
    while (mgpu_next_record(&d) && !mgpu_take_word(&d, "numbers")) {
        mgpu_reader start = d;
        if (!mgpu_take_word(&d, "graph"))
            mgpu_wrong(&d, "expected 'graph' and its name, or, in a graph, a node or a result");
        DumpedGraph g = read_graph(&d, names, name_count);
        for (int i = 0; i < *count; i++)
            if (strcmp(graphs[i].graph->name, g.graph->name) == 0 && graphs[i].steps == g.steps)
                mgpu_wrong(&start, "there is a graph %s already", g.graph->name);
        APPEND(graphs, *count, g);
    }
    if (!*count)
        mgpu_wrong(&d, "the dump has no graph");
    return graphs;
}
