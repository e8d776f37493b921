/* trace_test.c: the target that prints pseudo-code, which no other part of the compiler knows: fusion asks it as it asks the host
 * and CUDA. What is fused is in the text: a contraction, then bias and relu in one nest; equal kernels once. */
#include "compiler/ir/program.h"
#include "compiler/target/trace/trace.h"

#include <stdio.h>
#include <string.h>

static Graph *begin(void)
{
    Model *m = NEW(Model);
    Place *place = NEW(Place);
    m->name = "test";
    m->source = NEW(Source);
    m->source->file = "test.net";
    m->source->text = "";
    m->inputs = NEW_ARRAY(Input, 1);
    m->variables = NEW_ARRAY(Variable, 4);
    m->inputs[m->input_count++] = (Input){.name = "x", .dtype = F32, .shape = SHAPE(8)};
    place->line = 1;
    place->source = m->source;
    Graph *g = graph_new(m, "test", NULL);
    g->at = place;
    g->path = "";
    return g;
}

static Node *variable(Graph *g, Shape shape)
{
    Model *m = g->model;
    m->variables[m->variable_count] = (Variable){
        .name = format("v%d", m->variable_count), .dtype = F32, .shape = shape, .kind = STATE, .owner = -1, .order = {0, 1}};
    return graph_variable(g, m->variable_count++);
}

static Node *layer(Graph *g, Node *x)
{
    Node *in[] = {x, variable(g, SHAPE(8, 8))}, *zero = graph_number(g, 0, F32), *y = graph_einsum(g, "k,kj->j", in, 2, false);
    y = graph_binary(g, OP_ADD, y, graph_broadcast(g, variable(g, SHAPE(8)), SHAPE(8)));
    return graph_where(g, graph_binary(g, OP_LE, y, zero), zero, y);
}

static int count(const char *text, const char *word)
{
    int times = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        times++;
    return times;
}

int main(void)
{
    Graph *g = begin();
    graph_result(g, ROLE_OUTPUT, "y", 0, layer(g, layer(g, graph_input(g, 0))), NULL);
    Options options = {0};
    Program program = {.model = g->model, .options = &options, .target = &trace_target};
    const Phase *p = fuse(&program, g, PHASE_PREDICT, false);
    Text t = {0};
    trace_target.print_all(&program, &t);
    const char *text = text_of(&t);
    const struct {
        const char *what;
        int is, wanted;
    } FACTS[] = {
        {"two layers are four tasks", p->task_count, 4},
        {"equal ones share a kernel", program.kernel_count, 2},
        {"a contraction is one", count(text, "  contraction\n"), 1},
        {"bias and relu are one nest", count(text, "  for "), 1},
        {"it adds", count(text, "= add "), 1},
        {"it compares", count(text, "= le "), 1},
        {"it selects", count(text, "= where "), 1},
        {"it loads the contraction's result and the bias, once each", count(text, " = a0[") + count(text, " = a1["), 2},
        {"it stores once", count(text, "    a2["), 1},
    };
    bool good = true;
    for (int i = 0; i < COUNT(FACTS); i++) {
        bool right = FACTS[i].is == FACTS[i].wanted;
        printf(right ? "ok %s\n" : "not ok %s: %d, not %d, in\n%s", FACTS[i].what, FACTS[i].is, FACTS[i].wanted, text);
        good = good && right;
    }
    return !good;
}
