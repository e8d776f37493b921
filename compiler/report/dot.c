/* dot.c: write graphs for Graphviz: `mgpuc --emit graphdot m.net | dot -Tsvg -o m.svg`. Each instance of a layer is a cluster,
 * inside the cluster of the instance that contains it. */
#include "compiler/report/report.h"
#include "compiler/kernel/kernel.h"

#include <string.h>

typedef struct DotNode {
    const char *name, *label, *style, *path;
} DotNode;
typedef struct Dot {
    DotNode *nodes;
    int count;
    Text edges;
} Dot;

static void quote(const char *text, Text *t)
{
    text_add(t, "\"");
    for (const char *at = plain_text(text, false); *at; at++)
        text_add(t, *at == '"' ? "\\%c" : *at == '\\' && at[1] != 'n' ? "\\\\" : "%c", *at);
    text_add(t, "\"");
}

static void add_node(Dot *d, const char *name, const char *label, const char *style, const char *path)
{
    APPEND(d->nodes, d->count, ((DotNode){name, label, style, path ? path : ""}));
}

static void add_edge(Dot *d, const char *from, const char *to, const char *label)
{
    text_add(&d->edges, "  %s -> %s", from, to);
    if (label) {
        text_add(&d->edges, " [label=");
        quote(label, &d->edges);
        text_add(&d->edges, "]");
    }
    text_add(&d->edges, ";\n");
}

/* Returns whether `path` is the first `length` characters of `in`, or a part of it. */
static bool is_in(const char *path, const char *in, size_t length)
{
    return length == 0 || (strncmp(path, in, length) == 0 && (path[length] == '.' || !path[length]));
}

/* Prints the nodes whose paths begin with the first `length` characters of `path`; done: which nodes have been printed. */
static void print_cluster(const Dot *d, const char *path, size_t length, int depth, bool *done, int *clusters, Text *t)
{
    int indent = 2 * depth + 2;
    for (int i = 0; i < d->count; i++) {
        const DotNode *n = &d->nodes[i];
        if (done[i] || !is_in(n->path, path, length))
            continue;
        if (strlen(n->path) > length) { /* it is in a part, which is printed with all that it contains */
            size_t from = length ? length + 1 : 0, part = from + strcspn(n->path + from, ".");
            text_add(t, "%*ssubgraph cluster_%d {\n%*slabel=", indent, "", (*clusters)++, indent + 2, "");
            quote(copy_text(n->path + from, part - from), t);
            text_add(t, ";\n");
            print_cluster(d, n->path, part, depth + 1, done, clusters, t);
            text_add(t, "%*s}\n", indent, "");
            continue;
        }
        done[i] = true;
        text_add(t, "%*s%s [label=", indent, "", n->name);
        quote(n->label, t);
        text_add(t, "%s];\n", n->style);
    }
}

static void print_dot(const Dot *d, const char *title, Text *t)
{
    int clusters = 0;
    text_add(t, "digraph ");
    quote(title, t);
    text_add(
        t,
        " {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10, style=filled, fillcolor=white];\n"
        "  graph [fontname=\"sans-serif\", fontsize=11, style=rounded, color=gray];\n  edge [fontname=\"sans-serif\", fontsize=8];\n");
    print_cluster(d, "", 0, 0, NEW_ARRAY(bool, d->count), &clusters, t);
    text_add(t, "%s}\n", text_of(&d->edges));
}

/* ---- a graph: its nodes, without constants */
static const char *label_of(const Graph *g, const Node *n)
{
    const Model *m = g->model;
    const char *name = n->op == OP_INPUT      ? m->inputs[n->ints[0]].name
                       : n->op == OP_VARIABLE ? m->variables[n->ints[0]].name
                                              : n->name;
    const char *what = n->op == OP_COMPOSITE ? n->text : OP_INFO[n->op].name;
    return format("%s%s%s\\n%s%s", what, name ? " " : "", name ? name : "", dtype_name(n->dtype),
                  n->shape.rank ? shape_text(&n->shape) : "");
}

void dot_graph(const Graph *g, Text *t)
{
    Dot d = {0};
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        const char *style = n->op == OP_INPUT      ? ", fillcolor=lightblue"
                            : n->op == OP_VARIABLE ? ", fillcolor=khaki"
                            : n->backward          ? ", fillcolor=mistyrose"
                                                   : "";
        if (n->op == OP_CONSTANT)
            continue;
        add_node(&d, format("n%d", n->id), label_of(g, n), style, n->path);
        for (int k = 0; k < n->inputs; k++)
            if (n->in[k]->op != OP_CONSTANT)
                add_edge(&d, format("n%d", n->in[k]->id), format("n%d", n->id), NULL);
    }
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        if (r->role != ROLE_LOSS && r->role != ROLE_METRIC && r->role != ROLE_OUTPUT)
            continue;
        add_node(&d, format("r%d", i),
                 format("%s %s",
                        r->role == ROLE_LOSS     ? "loss"
                        : r->role == ROLE_METRIC ? "metric"
                                                 : "output",
                        r->name ? r->name : ""),
                 ", shape=ellipse, fillcolor=palegreen", "");
        if (r->value->op != OP_CONSTANT)
            add_edge(&d, format("n%d", r->value->id), format("r%d", i), NULL);
    }
    print_dot(&d, format("%s: %s", g->model->name, g->name), t);
}

/* ---- a phase: its tasks, with the tensors between them as edges */
void dot_phase(const Phase *p, Text *t)
{
    Dot d = {0};
    int *writer = NEW_ARRAY(int, p->tensor_count);
    bool *shown = NEW_ARRAY(bool, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        writer[i] = -1;
    for (int i = 0; i < p->task_count; i++) {
        const Task *task = p->tasks[i];
        const char *label = task->kernel ? format("%s\\n%s", task->kernel->name, task->kernel->title ? task->kernel->title : "")
                                         : format("%s", mgpu_transfer_row(task->participants.transfer)->kind);
        add_node(&d, format("t%d", i), label,
                 !task->kernel    ? ", fillcolor=orange"
                 : task->update   ? ", fillcolor=lightgray"
                 : task->backward ? ", fillcolor=mistyrose"
                                  : "",
                 task->layer);
        for (int r = 0; r < task->read_count; r++) {
            const Tensor *x = task->reads[r];
            if (writer[x->id] >= 0) {
                add_edge(&d, format("t%d", writer[x->id]), format("t%d", i), x->name);
                continue;
            }
            if (!shown[x->id])
                add_node(&d, format("x%d", x->id), format("%s", x->name),
                         x->kind == TENSOR_INPUT ? ", shape=ellipse, fillcolor=lightblue" : ", shape=ellipse, fillcolor=khaki",
                         "");
            shown[x->id] = true;
            add_edge(&d, format("x%d", x->id), format("t%d", i), NULL);
        }
        for (int w = 0; w < task->write_count; w++)
            writer[task->writes[w]->id] = i;
    }
    print_dot(&d, format("%s: %s", p->graph->model->name, phase_name(p->kind, p->partial_batch)), t);
}
