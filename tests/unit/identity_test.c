/* identity_test.c: which kernels are the same one (kernel/identity.h). Two phases make a value by a kernel each, and the program has
 * as many kernels as there are different ones: names, letters and places do not count, numbers, types and shapes do. Contractions
 * for CUDA have one form exactly if the text of their functions is the same (target/cuda/numbers.c). */
#include "compiler/ir/program.h"
#include "compiler/kernel/identity.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"
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
                                                 .owner = -1, .order = {0, 1, 2}};
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

/* ---- forms for CUDA: of all pairs of these */

typedef struct Product { const char *text; Shape x, w; Dtype dtype; bool swapped; int64_t input_dilation; } Product;

static const Product PRODUCTS[] = {
    {"nk,kj->nj", {2, {64, 96}}, {2, {96, 128}}, F32, false, 0}, {"nk,kj->nj", {2, {64, 192}}, {2, {192, 128}}, F32, false, 0},
    {"nk,kj->nj", {2, {128, 96}}, {2, {96, 128}}, F32, true, 0}, {"nk,jk->nj", {2, {64, 96}}, {2, {128, 96}}, F32, false, 0},
    {"kn,kj->nj", {2, {96, 64}}, {2, {96, 128}}, F32, false, 0}, {"nk,kj->nj", {2, {64, 95}}, {2, {95, 128}}, F32, false, 0},
    {"nk,kj->nj", {2, {64, 96}}, {2, {96, 128}}, F64, false, 0}, {"nk,kj->nj", {2, {64, 96}}, {2, {96, 128}}, BF16, false, 0},
    {"bnk,bkj->bnj", {3, {4, 64, 96}}, {3, {4, 96, 128}}, F32, false, 0}, {"nk,kj->nj", {2, {8, 40960}}, {2, {40960, 16}}, F32, false, 0},
    {"", {2, {66, 16}}, {3, {64, 16, 3}}, F32, false, 1}, {"", {2, {66, 32}}, {3, {64, 32, 3}}, F32, false, 1},
    {"", {2, {65, 16}}, {3, {64, 16, 3}}, F32, false, 2}, {"", {2, {40, 16}}, {3, {64, 16, 3}}, F32, false, 29},
    {"", {2, {40, 16}}, {3, {64, 16, 3}}, F32, false, 31},
};

static Node *product(Graph *g, const Product *p)
{
    Model *m = g->model;
    m->inputs[0].shape = p->x;
    m->inputs[0].dtype = m->inputs[1].dtype = p->dtype;
    Node *in[] = {graph_input(g, 0), variable(g, p->w)};
    m->variables[m->variable_count - 1].dtype = p->dtype;
    in[1] = graph_variable(g, m->variable_count - 1);
    Node *exchanged[] = {in[1], in[0]};
    if (p->input_dilation) {
        const int64_t each[] = {1, 1, 0, 0, 1, p->input_dilation, 1};
        return graph_node(g, OP_CONVOLVE, in, 2, each, COUNT(each), NULL);
    }
    return graph_einsum(g, p->swapped ? "kj,nk->nj" : p->text, p->swapped ? exchanged : in, 2, false);
}

static void describe(const Product *p, const char **form, const char **functions)
{
    Options options = {.arch = "sm_90"};
    Program program = {.model = new_model(), .options = &options, .target = &cuda_target};
    Graph *g = graph_new(program.model, "test", NULL);
    Place *place = NEW(Place);
    *place = (Place){.source = program.model->source, .line = 1};
    g->at = place;
    g->path = "";
    graph_result(g, ROLE_OUTPUT, "y", 0, product(g, p), NULL);
    fuse(&program, g, PHASE_PREDICT, false);
    const Contraction *c = NULL;
    for (int i = 0; i < program.kernel_count; i++)
        c = program.kernels[i]->contraction ? program.kernels[i]->contraction : c;
    Text t = {0};
    cuda_print_contraction(c, "k", NULL, &t);
    *form = cuda_contraction_form(c);
    *functions = strstr(text_of(&t), "static __device__");
}

static bool forms(void)
{
    const char *form[COUNT(PRODUCTS)], *functions[COUNT(PRODUCTS)];
    int equal = 0, other = 0;
    for (int i = 0; i < COUNT(PRODUCTS); i++) {
        describe(&PRODUCTS[i], &form[i], &functions[i]);
        for (int k = 0; k < i; k++) {
            bool same = form[i] && form[k] && strcmp(form[i], form[k]) == 0;
            if (same != (form[i] && form[k] && strcmp(functions[i], functions[k]) == 0)) {
                printf("not ok contractions %d and %d have %s form\n", k, i, same ? "one" : "another");
                return false;
            }
            *(same ? &equal : &other) += 1;
        }
    }
    bool good = equal >= 2 && other >= 50;
    printf("%sok contractions have one form exactly if their functions are the same: %d pairs of %d\n", good ? "" : "not ", equal, equal + other);
    return good;
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
    return !(forms() && good);
}
