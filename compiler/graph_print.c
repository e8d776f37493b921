/* graph_print.c: a graph as text, for --emit and tests. In: a Graph. Out: the same bytes for the same graph:
 *
 *     graph train
 *       %0 = input 0 : u8[28, 28] sharded                      ; image
 *       %3 = einsum "ab,b->a" %1 %2 : f32[10] sharded          ; logits in fc line 12
 *       %4 = sum [0, 1] %3 : f32[] sharded backward            ; line 12
 *       loss "loss" = %9 weight %7
 *       update 3 = %11
 *
 * One line per node: its number, the operation, attributes (text in quotes, then integers in brackets, then constants in
 * braces; more than 8 as a count and a hash), inputs, ':', type and shape of one sample, then its distribution once it
 * has one, else "sharded" where it has a value for every sample; "weak"; "backward". Behind ';' the variable, the
 * instance and the line of the model. The body of a composite follows it, indented, with numbers of its own; "arg k" is
 * the composite's input k. A result of a role that has an index begins with it: of the variable, or of the body. */
#include "compiler/graph.h"
#include "runtime/sha256.h"

#include <stdlib.h>
#include <string.h>

static const char *const ROLE_NAME[ROLES] = {"loss", "metric", "output", "update", "init", "report", "gradient", "result"};
static const char *const RUN_NAME[RUN_SCALARS] = {"step", "epoch", "progress", "total_steps", "total_epochs", "samples",
                                                  "micro", "setting"};
static const char *const DISTRIBUTION_NAME[] = {"", "replicated", "sharded", "partial", "split", "local"};

static void print_number(Text *t, double v)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (digits == 17 || v != v || strtod(text, NULL) == v)
            break;
    }
    text_add(t, "%s", v != v ? "nan" : text);
}

static void print_attributes(const Node *n, Text *t)
{
    if (n->text)
        text_add(t, " \"%s\"", n->text);
    if (n->op == OP_RUN)
        text_add(t, " %s", RUN_NAME[n->ints[0]]);
    if (n->op == OP_CAST) {
        text_add(t, " %s", dtype_name((Dtype)n->ints[0]));
    } else if (OP_INFO[n->op].op_class == LEAF || n->op == OP_RESULT) {
        if (n->int_count && (n->op != OP_RUN || n->ints[0] == RUN_SETTING))
            text_add(t, " %lld", (long long)n->ints[n->int_count - 1]);
    } else if (n->int_count || n->op == OP_SUM) {
        for (int i = 0; i < n->int_count; i++)
            text_add(t, "%s%lld", i ? ", " : " [", (long long)n->ints[i]);
        text_add(t, n->int_count ? "]" : " []");
    }
    if (n->data_count > 8) {
        uint64_t hash = hash_bytes(0, n->data, (size_t)n->data_count * sizeof *n->data);
        text_add(t, " {%lld numbers %016llx}", (long long)n->data_count, (unsigned long long)hash);
    } else if (n->data_count) {
        text_add(t, " {");
        for (int64_t i = 0; i < n->data_count; i++) {
            text_add(t, i ? ", " : "");
            print_number(t, n->data[i]);
        }
        text_add(t, "}");
    }
}

static void print_node(const Node *n, Text *t, int indent)
{
    text_add(t, "%*s%%%d = %s", indent, "", n->id, OP_INFO[n->op].name);
    print_attributes(n, t);
    for (int i = 0; i < n->inputs; i++)
        text_add(t, " %%%d", n->in[i]->id);
    text_add(t, " : %s%s", dtype_name(n->dtype), shape_text(&n->shape));
    if (n->distribution != UNTYPED)
        text_add(t, " %s", DISTRIBUTION_NAME[n->distribution]);
    else if (n->sharded)
        text_add(t, " sharded");
    text_add(t, "%s%s", n->weak ? " weak" : "", n->backward ? " backward" : "");
    bool path = n->path && *n->path, line = n->at && n->at->source;
    if (n->name || path || line) {
        text_add(t, "  ;");
        if (n->name)
            text_add(t, " %s", n->name);
        if (path)
            text_add(t, " in %s", n->path);
        if (line)
            text_add(t, " line %d", model_line(n->at));
    }
    text_add(t, "\n");
}

static void print_indented(const Graph *g, Text *t, int indent)
{
    text_add(t, "%*s%s %s\n", indent, "", g->parent ? "body" : "graph", g->name ? g->name : "");
    for (int i = 0; i < g->node_count; i++) {
        print_node(g->nodes[i], t, indent + 2);
        if (g->nodes[i]->body)
            print_indented(g->nodes[i]->body, t, indent + 4);
    }
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        text_add(t, "%*s%s", indent + 2, "", ROLE_NAME[r->role]);
        if (r->role == ROLE_UPDATE || r->role == ROLE_INIT || r->role == ROLE_GRADIENT || r->role == ROLE_RESULT)
            text_add(t, " %d", r->index);
        if (r->name)
            text_add(t, " \"%s\"", r->name);
        text_add(t, " = %%%d", r->value->id);
        if (r->weight)
            text_add(t, " weight %%%d", r->weight->id);
        text_add(t, "\n");
    }
}

void graph_print(const Graph *g, Text *t) { print_indented(g, t, 0); }

/* f64 becomes f32: a program of another precision is one of the same model */
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
