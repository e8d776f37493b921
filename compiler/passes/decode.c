/* decode.c: from the graph that predicts all places of a window, derives one that predicts only the next place.
 *
 * In: the graph `predict` of a model that reads a text: an input token: class(V)[L] and an output [L, V]. Out: a graph whose
 * samples are texts, each at a place of its own. Two hidden inputs give the token and its place; the output's row at the place is
 * written to a variable, which the host reads. All that the graph keeps is kept for each sample. NULL: the model is another one.
 *
 * There are two ways to compute a value. Its row at the place: most operations need the same row of their inputs (decode_rows.c).
 * The whole value, such as the keys and values of attention: it is a variable, a cache, whose row at the place is replaced in
 * each step. Rows after the place are not computed yet, or belong to another text. No place sees a later one, so they do not
 * matter as long as they are finite; a program compares with the whole window before it relies on that. Loops along the window
 * become one step, with their carries in variables. What has no rule is computed as in the whole window, from whole inputs:
 * correct, but no faster. */
#include "compiler/ir/placement.h"
#include "compiler/passes/decode.h"
#include "compiler/passes/stages.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

/* ---- variables */
static int add_variable(Decoding *d, const Node *of, const char *name, Shape shape, Dtype dtype)
{
    Model *m = d->to->model;
    Variable v = {.kind = CACHE, .dtype = dtype, .shape = shape, .placement = {{OVER_SAMPLES}}, .owner = -1, .at = of->at};
    v.name = new_variable_name(m, name);
    for (int i = 0; i < MAX_RANK; i++)
        v.order[i] = i;
    APPEND(m->variables, m->variable_count, v);
    return m->variable_count - 1;
}

static int new_cache(Decoding *d, const Node *of, Shape shape, Dtype dtype)
{
    const char *layer = of->path ? of->path : "";
    Dtype kept = dtype_is_float(dtype) || dtype == I64 ? dtype : I32;
    return add_variable(d, of, format("%s%scache", layer, *layer ? "." : ""), shape, kept);
}

Node *decode_state(Decoding *d, const Node *of, Shape shape, Dtype dtype, int *variable)
{
    *variable = new_cache(d, of, shape, dtype);
    return graph_cast(d->to, graph_variable(d->to, *variable), dtype);
}

void decode_keep(Decoding *d, int variable, Node *value)
{
    const Variable *v = &d->to->model->variables[variable];
    Node *kept = graph_cast(d->to, value, v->dtype);
    if (!kept->has_samples) { /* it depends neither on a token nor on the place */
        Node *never = graph_reshape(d->to, graph_binary(d->to, OP_LT, d->place, graph_number(d->to, 0, I32)), SCALAR);
        kept =
            graph_where(d->to, graph_broadcast(d->to, never, kept->shape), graph_fill(d->to, 0, kept->shape, kept->dtype), kept);
    }
    graph_result(d->to, ROLE_UPDATE, v->name, variable, kept, NULL);
}

Node *decode_select_first(Decoding *d, Node *first, Node *later)
{
    Node *is_first = graph_reshape(d->to, graph_binary(d->to, OP_EQ, d->place, graph_number(d->to, 0, I32)), SCALAR);
    return graph_where(d->to, graph_broadcast(d->to, is_first, later->shape), first, later);
}

/* Returns all rows so far: `row` is that of the place. */
static Node *cache(Decoding *d, const Node *n, Node *row, int axis)
{
    set_position(d->to, n);
    Node *before = graph_variable(d->to, new_cache(d, n, n->shape, row->dtype));
    Node *after = NODE(d->to, OP_INDEX_COPY, &(int64_t){axis}, 1, NULL, before, d->place, graph_cast(d->to, row, before->dtype));
    decode_keep(d, (int)before->ints[0], after);
    return graph_cast(d->to, after, row->dtype);
}

/* ---- values */
/* Returns the axis along which rows can be kept; -1: there is none, or the value is a view of a kept one. */
static int kept_axis(const Decoding *d, const Node *n)
{
    int found = -1;
    if (n->op == OP_RESHAPE || n->op == OP_TRANSPOSE || n->op == OP_BROADCAST)
        return -1;
    for (int a = 0; a < n->shape.rank; a++) {
        const Slack *s = &d->slack[n->id][a];
        if (s->on && (found >= 0 || s->by != 0 || n->shape.extent[a] != d->length))
            return -1;
        found = s->on ? a : found;
    }
    return found;
}

Node *decode_whole(Decoding *d, Node *n)
{
    Node **known = &d->whole[n->id], *row = NULL;
    int axis = d->depends[n->id] ? kept_axis(d, n) : -1;
    if (*known)
        return *known;
    if (axis >= 0)
        row = decode_row_by_rule(d, n, axis);
    if (row)
        return *known = cache(d, n, row, axis);
    Node **in = NEW_ARRAY(Node *, n->inputs);
    for (int k = 0; k < n->inputs; k++)
        in[k] = decode_whole(d, n->in[k]);
    set_position(d->to, n);
    return *known = graph_rebuild(d->to, n, in);
}

Node *decode_row(Decoding *d, Node *n, int axis)
{
    Node **known = &d->rows[n->id * MAX_RANK + axis];
    if (*known)
        return *known;
    Node *row = decode_row_by_rule(d, n, axis);
    if (!row) {
        Node *all = decode_whole(d, n);
        set_position(d->to, n);
        row = NODE(d->to, OP_GATHER, &(int64_t){axis}, 1, NULL, all, d->place);
    }
    if (!row->name)
        row->name = n->name;
    return *known = row;
}

/* ---- models of a text */
static bool reads_text(const Model *m)
{
    static const char *const READERS[] = {"characters", "text", "tokens"};
    for (int i = 0; i < m->set_count; i++)
        for (int k = 0; k < COUNT(READERS); k++)
            if (strcmp(m->sets[i].calls[0].name, READERS[k]) == 0)
                return true;
    return false;
}

static const Result *output_of_text(const Graph *g, const Input *token)
{
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role == ROLE_OUTPUT && r->value->has_samples && r->value->shape.rank == 2 &&
            r->value->shape.extent[0] == token->shape.extent[0] && r->value->shape.extent[1] == token->classes)
            return r;
    }
    return NULL;
}

/* Returns true for nodes that one place of a text has no value of: other inputs, numbers of samples, sums over them. */
static bool belongs_to_samples(const Node *n, int token)
{
    return (n->op == OP_INPUT && n->ints[0] != token) || n->op == OP_VALID || n->op == OP_BATCH_PLACE ||
           (n->op == OP_RANDOM && n->has_samples) || n->op == OP_GROUP_SUM || n->op == OP_TOTAL ||
           (n->op == OP_RUN && n->ints[0] == RUN_SAMPLES) || node_sums_samples(n);
}

/* Finds the nodes that the output needs, and those that depend on the tokens; false: one of them makes the derivation
 * impossible. */
static bool find_dependence(Decoding *d, const Node *output, int token)
{
    bool *needed = NEW_ARRAY(bool, d->from->node_count), possible = true;
    needed[output->id] = true;
    for (int i = output->id; i >= 0; i--)
        for (int k = 0; needed[i] && k < d->from->nodes[i]->inputs; k++)
            needed[d->from->nodes[i]->in[k]->id] = true;
    for (int i = 0; i <= output->id; i++) {
        const Node *n = d->from->nodes[i];
        possible = possible && !(needed[i] && belongs_to_samples(n, token));
        d->depends[i] = n->op == OP_INPUT;
        for (int k = 0; k < n->inputs; k++)
            d->depends[i] = d->depends[i] || d->depends[n->in[k]->id];
        if (d->depends[i])
            decode_find_slack(d, n);
    }
    return possible;
}

static Node *hidden_input(Graph *g, const char *name)
{
    Model *m = g->model;
    Input in = {.name = name, .dtype = I32, .shape = SHAPE(1), .ignore = NO_LABEL, .other = NO_LABEL, .hidden = true};
    APPEND(m->inputs, m->input_count, in);
    return graph_input(g, m->input_count - 1);
}

Graph *derive_decode(Graph *predict)
{
    Model *m = predict->model;
    int token = 0;
    while (token < m->input_count &&
           (strcmp(m->inputs[token].name, "token") != 0 || m->inputs[token].shape.rank != 1 || !m->inputs[token].classes))
        token++;
    if (token == m->input_count || !reads_text(m))
        return NULL;
    const Result *output = output_of_text(predict, &m->inputs[token]);
    int count = predict->node_count;
    Decoding d = {.from = predict, .length = m->inputs[token].shape.extent[0]};
    d.depends = NEW_ARRAY(bool, count);
    d.slack = allocate(sizeof *d.slack * (size_t)count);
    if (!output || !find_dependence(&d, output->value, token))
        return NULL;
    d.whole = NEW_ARRAY(Node *, count);
    d.rows = NEW_ARRAY(Node *, count * MAX_RANK);
    d.steps = NEW_ARRAY(Node **, count);
    d.to = graph_new(m, "decode", NULL);
    d.token = hidden_input(d.to, MGPU_DECODE_TOKEN);
    d.place = hidden_input(d.to, MGPU_DECODE_PLACE);
    Node *row = decode_row(&d, output->value, 0);
    set_position(d.to, output->value);
    int variable = add_variable(&d, output->value, MGPU_DECODE_ROW, SHAPE(m->inputs[token].classes), row->dtype);
    decode_keep(&d, variable, graph_reshape(d.to, row, SHAPE(m->inputs[token].classes)));
    return d.to;
}
