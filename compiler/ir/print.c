/* print.c: a graph as text, for --emit and tests. In: a Graph. Out: the same bytes for the same graph:
 *
 *     graph train
 *       %0 = input 0 : u8[28, 28] sharded                      ; image line 10:5
 *       %3 = einsum "ab,b->a" %1 %2 : f32[10] sharded          ; logits in fc line 12:14
 *       %4 = sum [0, 1] %3 : f32[] sharded backward            ; line 12:14
 *       loss "loss" = %9 weight %7
 *       update 3 = %11
 *
 * One line per node: its number, the operation, its attributes as in its row of ops.def, inputs, ':', type and shape of one
 * sample, then its placement if the graph is distributed, else "sharded" if it has samples; "weak";
 * "backward". After ';' the variable, the instance and the place in the model. The body of a body follows it, indented, with
 * numbers of its own; "arg k" is the body's input k. A result of a role that has an index begins with it: of the variable, or
 * of the body. Constants of more than 8 numbers are at the end of the dump, by their hash. ir/read.c reads all of it. */
#include "compiler/ir/dump.h"
#include "compiler/ir/placement.h"
#include "runtime/base/sha256.h"

#include <stdlib.h>
#include <string.h>

const char *const ROLE_NAME[ROLES] = {"loss", "metric", "output", "update", "init", "report", "gradient", "result"};
const char *const RUN_NAME[RUN_SCALARS] = {"step",         "epoch",   "progress", "total_steps",
                                           "total_epochs", "samples", "micro",    "setting"};
const char *const STEPS_NAME[STEPS_PARTIAL + 1] = {"", "full", "partial"};

bool role_has_index(Role r)
{
    return r == ROLE_UPDATE || r == ROLE_INIT || r == ROLE_GRADIENT || r == ROLE_RESULT || r == ROLE_OUTPUT;
}

static uint64_t hash_of_numbers(const double *data, int64_t count) { return hash_bytes(0, data, (size_t)count * sizeof *data); }

static void print_numbers(const Node *n, Text *t)
{
    text_add(t, " {");
    if (n->data_count > MOST_IN_A_LINE)
        text_add(t, "%lld numbers %016llx", (long long)n->data_count,
                 (unsigned long long)hash_of_numbers(n->data, n->data_count));
    for (int64_t i = 0; i < n->data_count && n->data_count <= MOST_IN_A_LINE; i++) {
        text_add(t, i ? ", " : "");
        write_number(n->data[i], t);
    }
    text_add(t, "}");
}

static void print_list(const Node *n, Text *t)
{
    text_add(t, " [");
    for (int i = 0; i < n->int_count; i++)
        text_add(t, "%s%lld", i ? ", " : "", (long long)n->ints[i]);
    text_add(t, "]");
}

bool next_form(const char **at, Form *form)
{
    static const char *const NAME[FORMS] = {"index", "run", "type", "text", "[", "{"};
    const char *p = *at + strspn(*at, " ");
    if (!*p)
        return false;
    size_t length = strcspn(p, " ");
    *form = (Form){.optional = p[length - 1] == '?' || p[1] == '?', .count = p[1] >= '0' && p[1] <= '9' ? p[1] - '0' : -1};
    for (int k = 0; k < FORMS; k++)
        if (strncmp(p, NAME[k], strlen(NAME[k])) == 0)
            form->kind = (FormKind)k;
    *at = p + length;
    return true;
}

static void print_attributes(const Node *n, Text *t)
{
    Form form;
    for (const char *at = OP_INFO[n->op].attributes; next_form(&at, &form);)
        switch (form.kind) {
        case FORM_INDEX: text_add(t, " %lld", (long long)n->ints[0]); break;
        case FORM_RUN:
            text_add(t, " %s", RUN_NAME[n->ints[0]]);
            if (n->ints[0] == RUN_SETTING)
                text_add(t, " %lld", (long long)n->ints[1]);
            break;
        case FORM_TYPE:
            if (n->int_count || !form.optional)
                text_add(t, " %s", dtype_name((Dtype)n->ints[0]));
            break;
        case FORM_TEXT:
            if (!n->text && form.optional)
                break;
            text_add(t, " ");
            write_quoted(n->text ? n->text : "", t);
            break;
        case FORM_LIST:
            if (n->int_count || !form.optional)
                print_list(n, t);
            break;
        case FORM_NUMBERS:
            if (n->data_count || !form.optional)
                print_numbers(n, t);
            break;
        case FORMS: break;
        }
}

static void print_node(const Node *n, Text *t, int indent)
{
    text_add(t, "%*s%%%d = %s", indent, "", n->id, OP_INFO[n->op].name);
    print_attributes(n, t);
    for (int i = 0; i < n->inputs; i++)
        text_add(t, " %%%d", n->in[i]->id);
    text_add(t, " : %s%s", dtype_name(n->dtype), shape_text(&n->shape));
    if (!node_is_placed(n, UNPLACED))
        text_add(t, " %s", placement_word(n->placement.on[MESH_DATA]));
    else if (n->has_samples)
        text_add(t, " sharded");
    text_add(t, "%s%s", n->weak ? " weak" : "", n->backward ? " backward" : "");
    bool path = n->path && *n->path, line = n->at && n->at->source;
    if (n->name || path || line) {
        text_add(t, "  ;");
        if (n->name) {
            text_add(t, " ");
            write_word(n->name, t);
        }
        if (path) {
            text_add(t, " in ");
            write_word(n->path, t);
        }
        write_place(n->graph->model, n->at, t);
    }
    text_add(t, "\n");
}

static void print_result(const Graph *g, const Result *r, Text *t, int indent)
{
    text_add(t, "%*s%s", indent, "", ROLE_NAME[r->role]);
    if (role_has_index(r->role))
        text_add(t, " %d", r->index);
    if (r->name) {
        text_add(t, " ");
        write_quoted(r->name, t);
    }
    text_add(t, " = %%%d", r->value->id);
    if (r->weight)
        text_add(t, " weight %%%d", r->weight->id);
    text_add(t, r->at && r->at->source ? "  ;" : "");
    write_place(g->model, r->at, t);
    text_add(t, "\n");
}

static void print_indented(const Graph *g, Steps steps, Text *t, int indent)
{
    text_add(t, "%*s%s", indent, "", g->parent ? "body" : "graph");
    if (g->name) {
        text_add(t, " ");
        write_word(g->name, t);
    }
    text_add(t, "%s%s%s\n", steps ? " " : "", STEPS_NAME[steps],
             !g->parent && g->node_count && !node_is_placed(g->nodes[0], UNPLACED) ? " distributed" : "");
    for (int i = 0; i < g->node_count; i++) {
        print_node(g->nodes[i], t, indent + 2);
        if (g->nodes[i]->body)
            print_indented(g->nodes[i]->body, STEPS_ANY, t, indent + 4);
    }
    for (int i = 0; i < g->result_count; i++)
        print_result(g, &g->results[i], t, indent + 2);
}

void graph_print(const Graph *g, Text *t) { print_indented(g, STEPS_ANY, t, 0); }

/* Prints the long constants of a graph, each once. */
static void print_long(const Graph *g, Map *done, Text *t)
{
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (n->body)
            print_long(n->body, done, t);
        if (n->data_count <= MOST_IN_A_LINE)
            continue;
        const char *hash = format("%016llx", (unsigned long long)hash_of_numbers(n->data, n->data_count));
        if (map_get(done, hash))
            continue;
        map_set(done, hash, (void *)(uintptr_t)n);
        text_add(t, "numbers %s {", hash);
        for (int64_t k = 0; k < n->data_count; k++) {
            text_add(t, k == 0 ? "" : k % 8 ? ", " : ",\n  ");
            write_number(n->data[k], t);
        }
        text_add(t, "}\n");
    }
}

/* f64 is printed as f32: the precision is not part of a model's identity. */
const char *graph_identity(const Graph *g)
{
    Text t = {0};
    graph_print(g, &t);
    Sha256 h = mgpu_sha256_begin();
    for (const char *line = text_of(&t), *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const char *note = line;
        while (note < end && !(note[0] == ' ' && note[1] == ' ' && note[2] == ';'))
            note++;
        for (const char *c = line; c < note;) {
            bool wide = strncmp(c, "f64", 3) == 0;
            mgpu_sha256_add(&h, wide ? "f32" : c, wide ? 3 : 1);
            c += wide ? 3 : 1;
        }
        mgpu_sha256_add(&h, "\n", 1);
    }
    free(t.data);
    Digest d = mgpu_sha256_end(&h);
    char digits[65];
    return copy_text(mgpu_digest_text(&d, 32, digits), 64);
}

void dump_write(const char *stage, const Model *m, const DumpedGraph *graphs, int count, Text *t)
{
    Map done = {0};
    text_add(t, "mgpu-graph 1 %s\n", stage);
    model_write(m, t);
    for (int i = 0; i < count; i++)
        print_indented(graphs[i].graph, graphs[i].steps, t, 0);
    for (int i = 0; i < count; i++)
        print_long(graphs[i].graph, &done, t);
}
