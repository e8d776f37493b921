/* identity_test.c: which kernels are the same one (kernel/identity.h). Two phases make a value by a kernel each, and the program has
 * as many kernels as there are different ones: names, letters and places do not count, numbers, types and shapes do. */
#include "compiler/ir/program.h"
#include "compiler/kernel/identity.h"
#include "compiler/target/host/host.h"

#include <stdio.h>
#include <string.h>

static Model *new_model(void)
{
    static Source source = {.file = "test.net", .text = ""};
    Model *m = NEW(Model);
    m->name = "test";
    m->source = &source;
    m->inputs = NEW_ARRAY(Input, 2);
    m->variables = NEW_ARRAY(Variable, 8);
    m->inputs[m->input_count++] = (Input){.name = "x", .dtype = F32, .shape = SHAPE(24)};
    m->inputs[m->input_count++] = (Input){.name = "other", .dtype = F32, .shape = SHAPE(24)};
    return m;
}

static Node *variable(Graph *g, Shape shape)
{
    Model *m = g->model;
    m->variables[m->variable_count] = (Variable){.name = format("v%d", m->variable_count), .dtype = F32, .shape = shape, .kind = STATE,
                                                 .owner = -1, .order = {0, 1}};
    return graph_variable(g, m->variable_count++);
}

static Node *x(Graph *g) { return graph_input(g, 0); }
static Node *other(Graph *g) { return graph_input(g, 1); }
static Node *times(Graph *g, Node *a, double factor) { return graph_binary(g, OP_MUL, a, graph_broadcast(g, graph_number(g, factor, F32), a->shape)); }

static Node *contraction(Graph *g, const char *text)
{
    Node *in[] = {x(g), variable(g, SHAPE(24, 8))};
    return graph_einsum(g, text, in, 2, false);
}

static Node *draw(Graph *g, const char *path) { return graph_binary(g, OP_ADD, x(g), graph_random(g, SHAPE(24), path, true)); }

/* ---- what is made twice */

static Node *names(Graph *g, bool second) { return second ? times(g, other(g), 3) : times(g, x(g), 3); }
static Node *numbers(Graph *g, bool second) { return second ? times(g, x(g), 5) : times(g, x(g), 3); }
static Node *close_numbers(Graph *g, bool second) { return second ? times(g, other(g), 1e-3 + 1e-13) : times(g, x(g), 1e-3); }
static Node *letters(Graph *g, bool second) { return second ? contraction(g, "a,ab->b") : contraction(g, "k,kj->j"); }
static Node *operands(Graph *g, bool second) { return second ? graph_binary(g, OP_SUB, other(g), x(g)) : graph_binary(g, OP_SUB, x(g), other(g)); }
static Node *ops(Graph *g, bool second) { return second ? graph_unary(g, OP_TANH, x(g)) : graph_unary(g, OP_EXP, x(g)); }
static Node *types(Graph *g, bool second) { return second ? graph_cast(g, x(g), I32) : graph_cast(g, x(g), F64); }
static Node *aliases(Graph *g, bool second) { return second ? graph_binary(g, OP_MUL, x(g), other(g)) : graph_binary(g, OP_MUL, x(g), x(g)); }
static Node *paths(Graph *g, bool second) { return second ? draw(g, "b") : draw(g, "a"); }

static Node *shapes(Graph *g, bool second)
{
    const int axis = second;
    return graph_sum(g, graph_reshape(g, x(g), SHAPE(4, 6)), &axis, 1);
}

static const struct { const char *name; Node *(*make)(Graph *, bool second); int kernels; bool one_form; } CASES[] = {
    {"tensors of other names are one kernel", names, 1, true},
    {"other numbers are another kernel", numbers, 2, false},
    {"numbers that are the same as F32 are one", close_numbers, 1, true},
    {"letters of a contraction's axes do not count", letters, 1, true},
    {"the order of operands is that of arguments", operands, 1, true},
    {"other operations are another kernel", ops, 2, false},
    {"other types are another kernel", types, 2, false},
    {"one argument twice is no two arguments", aliases, 2, false},
    {"other axes are another kernel", shapes, 2, false},
    {"paths of random numbers are parameters", paths, 2, true},
};

/* of kernels that keep their loops */
static void no_launches(const Kernel *k, mgpu_launch launch[2]) { (void)k, (void)launch; }

static void make_phase(Program *p, Node *(*make)(Graph *, bool), bool second)
{
    Graph *g = graph_new(p->model, "test", NULL);
    Place *place = NEW(Place);
    *place = (Place){.source = p->model->source, .line = 1};
    g->at = place;
    g->path = "";
    graph_result(g, ROLE_OUTPUT, "y", 0, make(g, second), NULL);
    fuse(p, g, PHASE_PREDICT, false);
}

int main(void)
{
    bool good = true;
    for (int i = 0; i < COUNT(CASES); i++) {
        Options options = {0};
        Target target = host_target;
        target.launches = no_launches;
        Program program = {.model = new_model(), .options = &options, .target = &target};
        make_phase(&program, CASES[i].make, false);
        int first = program.kernel_count;
        make_phase(&program, CASES[i].make, true);
        bool one = strcmp(kernel_form(program.kernels[0]), kernel_form(program.kernels[program.kernel_count == first ? 0 : first])) == 0;
        bool right = program.kernel_count == first * CASES[i].kernels && one == CASES[i].one_form;
        printf("%sok %s", right ? "" : "not ", CASES[i].name);
        printf(right ? "\n" : ": %d kernels, then %d, %s form\n", first, program.kernel_count, one ? "one" : "another");
        good = good && right;
    }
    return !good;
}
