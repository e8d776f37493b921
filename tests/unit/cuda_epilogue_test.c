/* cuda_epilogue_test.c: where compiler/kernel/fuse/epilogue.c puts kernels that a library may do with a matmul: right after it,
 * one after each, and only where the order of the tasks stays legal; and which kernels these are. Small graphs go through the
 * fuser; what calls compute there, cublaslt.test holds against the host. */
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/ir/rebuild.h"
#include "compiler/target/target.h"

#include <stdio.h>

enum { TWO = 7 /* the case of two functions */, N = 24 /* of most extents */, DEPTH = 32, BATCH = 64 };

static Graph *begin(void)
{
    Model *m = NEW(Model);
    Place *place = NEW(Place);
    m->name = "test";
    m->batch = BATCH;
    m->source = NEW(Source);
    m->source->file = "test.net";
    m->source->text = "";
    m->inputs = NEW_ARRAY(Input, 8);
    m->variables = NEW_ARRAY(Variable, 16);
    place->line = 1;
    place->source = m->source;
    Graph *g = graph_new(m, "test", NULL);
    g->at = place;
    g->path = "";
    return g;
}

static Node *input(Graph *g, int64_t length)
{
    Model *m = g->model;
    m->inputs[m->input_count] = (Input){.name = format("x%d", m->input_count), .dtype = F32, .shape = SHAPE(length)};
    return graph_input(g, m->input_count++);
}

static Node *variable(Graph *g, Shape shape)
{
    Model *m = g->model;
    Variable *v = &m->variables[m->variable_count];
    *v = (Variable){
        .name = format("v%d", m->variable_count), .dtype = F32, .shape = shape, .kind = STATE, .owner = -1, .order = {0, 1}};
    return graph_variable(g, m->variable_count++);
}

static void assign(Graph *g, const Node *v, Node *value) { graph_result(g, ROLE_UPDATE, NULL, (int)v->ints[0], value, NULL); }
static void keep(Graph *g, Node *value) { assign(g, variable(g, value->shape), value); }
static void output(Graph *g, Node *value) { graph_result(g, ROLE_OUTPUT, format("y%d", g->result_count), 0, value, NULL); }

static Node *matmul(Graph *g, const char *spec, Node *a, Node *b, bool over_samples)
{
    Node *in[] = {a, b};
    return graph_einsum(g, spec, in, 2, over_samples);
}

static Node *relu(Graph *g, Node *x)
{
    Node *zero = graph_number(g, 0, F32);
    return graph_where(g, graph_binary(g, OP_LE, x, zero), zero, x);
}

static Node *sum(Graph *g, Node *x) { return graph_sum_samples(g, x, NULL, 0); }
static Node *spread(Graph *g, Node *x, Node *like) { return graph_binary(g, OP_ADD, like, graph_broadcast(g, x, like->shape)); }

/* ---- graphs */

/* a state becomes relu of a matmul of variables */
static Graph *state_of_matmul(void)
{
    Graph *g = begin();
    Node *p = variable(g, SHAPE(N, DEPTH)), *q = variable(g, SHAPE(DEPTH, N));
    assign(g, variable(g, SHAPE(N, N)), relu(g, matmul(g, "ik,kj->ij", p, q, false)));
    return g;
}

/* and another one reads what it was, after the matmul */
static Graph *state_that_others_read(void)
{
    Graph *g = begin();
    Node *p = variable(g, SHAPE(N, DEPTH)), *q = variable(g, SHAPE(DEPTH, N)), *s = variable(g, SHAPE(N, N));
    Node *d = matmul(g, "ik,kj->ij", p, q, false);
    output(g, matmul(g, "i,ij->j", input(g, N), s, false));
    assign(g, s, relu(g, d));
    return g;
}

/* the matmul reads what it was */
static Graph *state_that_is_read(void)
{
    Graph *g = begin();
    Node *p = variable(g, SHAPE(N, N)), *q = variable(g, SHAPE(N, N));
    assign(g, p, relu(g, matmul(g, "ik,kj->ij", p, q, false)));
    return g;
}

/* sums of what a matmul over the samples reads */
static Graph *sums(void)
{
    Graph *g = begin();
    Node *x = input(g, N), *y = input(g, DEPTH);
    keep(g, sum(g, x));
    keep(g, matmul(g, "i,j->ij", x, y, true));
    return g;
}

/* the matmul's other operand is made of them */
static Graph *sums_that_it_needs(void)
{
    Graph *g = begin();
    Node *x = input(g, N), *y = input(g, N);
    keep(g, matmul(g, "i,j->ij", x, spread(g, sum(g, x), y), true));
    return g;
}

/* two matmuls read it */
static Graph *sums_of_two(void)
{
    Graph *g = begin();
    Node *x = input(g, N), *y = input(g, DEPTH), *z = input(g, DEPTH + N);
    keep(g, sum(g, x));
    keep(g, matmul(g, "i,j->ij", x, y, true));
    keep(g, matmul(g, "i,j->ij", x, z, true));
    return g;
}

/* what follows the matmul, and sums of what it reads */
static Graph *function_and_sums(void)
{
    Graph *g = begin();
    Node *x = input(g, N), *y = input(g, DEPTH);
    keep(g, sum(g, x));
    keep(g, relu(g, matmul(g, "i,j->ij", x, y, true)));
    return g;
}

/* two kernels that a matmul with a bias could do */
static Graph *functions(void)
{
    Graph *g = begin();
    Node *x = input(g, DEPTH), *d = matmul(g, "k,ik->i", x, variable(g, SHAPE(N, DEPTH)), false);
    Node *y = relu(g, graph_binary(g, OP_ADD, d, variable(g, SHAPE(N))));
    output(g, relu(g, matmul(g, "k,ik->i", y, variable(g, SHAPE(N, N)), false)));
    return g;
}

/* y = f(d) of a matmul's result alone */
static Node *number(Graph *g, double value, const Node *like)
{
    return graph_broadcast(g, graph_number(g, value, F32), like->shape);
}
static Node *times(Graph *g, double factor, Node *x) { return graph_binary(g, OP_MUL, number(g, factor, x), x); }
static Node *plus(Graph *g, Node *x, double more) { return graph_binary(g, OP_ADD, x, number(g, more, x)); }

static Graph *function_of_matmul(Node *(*f)(Graph *, Node *))
{
    Graph *g = begin();
    output(g, f(g, matmul(g, "k,ik->i", input(g, DEPTH), variable(g, SHAPE(N, DEPTH)), false)));
    return g;
}

static Node *gelu_of(Graph *g, Node *x, double scale, double cube)
{
    Node *cubed = graph_binary(g, OP_MUL, graph_binary(g, OP_MUL, x, x), x);
    Node *t = graph_unary(g, OP_TANH, times(g, scale, graph_binary(g, OP_ADD, x, times(g, cube, cubed))));
    return graph_binary(g, OP_MUL, times(g, 0.5, x), plus(g, t, 1));
}

static const double SCALE = 0.7978845608, CUBE = 0.044715;
static Node *gelu(Graph *g, Node *x) { return gelu_of(g, x, SCALE, CUBE); }
static Node *no_gelu(Graph *g, Node *x) { return gelu_of(g, x, SCALE, 0.045); }
static Node *nor_gelu(Graph *g, Node *x) { return gelu_of(g, x, 0.798, CUBE); }

/* x / 2 + x / 2 tanh(x (a b x^2 + a)) */
static Node *other_gelu(Graph *g, Node *x)
{
    Node *inner = graph_binary(g, OP_MUL, x, plus(g, times(g, SCALE * CUBE, graph_binary(g, OP_MUL, x, x)), SCALE)),
         *half = times(g, 0.5, x);
    return graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, half, graph_unary(g, OP_TANH, inner)), half);
}

static Node *larger(Graph *g, Node *x) { return graph_binary(g, OP_MAXIMUM, number(g, 0, x), x); }
static Node *positive(Graph *g, Node *x)
{
    return graph_where(g, graph_binary(g, OP_LT, number(g, 0, x), x), x, number(g, 0, x));
}
static Node *negative(Graph *g, Node *x)
{
    return graph_where(g, graph_binary(g, OP_LT, x, number(g, 0, x)), x, number(g, 0, x));
}
static Node *leaky(Graph *g, Node *x) { return graph_where(g, graph_binary(g, OP_LE, x, number(g, 0, x)), times(g, 0.01, x), x); }
static Node *above_1(Graph *g, Node *x) { return graph_binary(g, OP_MAXIMUM, number(g, 1, x), x); }

#define FUNCTION(name)                                                                                                           \
    static Graph *graph_of_##name(void) { return function_of_matmul(name); }
FUNCTION(gelu)
FUNCTION(other_gelu)
FUNCTION(no_gelu)
FUNCTION(nor_gelu)
FUNCTION(larger)
FUNCTION(positive)
FUNCTION(negative)
FUNCTION(leaky)
FUNCTION(above_1)

/* ---- what is made of them */

static bool has(Tensor *const *list, int count, const Tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i] == t)
            return true;
    return false;
}

static const char *why_illegal(const Phase *p)
{
    for (int i = 0; i < p->task_count; i++) {
        const Task *task = p->tasks[i];
        for (int k = 0; k < task->read_count; k++) {
            const Tensor *t = task->reads[k];
            bool made = has(task->writes, task->write_count, t);
            for (int j = 0; j < i; j++)
                made = made || has(p->tasks[j]->writes, p->tasks[j]->write_count, t);
            if (t->kind == TENSOR_TEMPORARY ? !made : made && !has(task->writes, task->write_count, t))
                return format("task %d reads %s %s it is written", i, t->name, made ? "after" : "before");
        }
    }
    return NULL;
}

/* *joined: how many kernels are after matmuls */
static const char *why_apart(const Phase *p, int *joined)
{
    for (int i = 0; i < p->task_count; i++) {
        const Task *task = p->tasks[i], *before = i ? p->tasks[i - 1] : NULL;
        int own = task->kernel ? task->kernel->read_count : task->read_count;
        if (task->read_count == own)
            continue;
        ++*joined;
        if (!before || !before->kernel || !before->kernel->contraction || task->reads[own] != before->reads[0] ||
            task->reads[own + 1] != before->reads[1])
            return format("task %d is not behind its matmul", i);
        if (has(before->reads, before->read_count, task->writes[0]))
            return format("task %d writes what its matmul reads", i);
    }
    return NULL;
}

static const struct {
    const char *name;
    Graph *(*graph)(void);
    int joined;
} CASES[] = {
    {"a state that a matmul makes", state_of_matmul, 1},
    {"a state that others read behind it", state_that_others_read, 0},
    {"a state that it reads", state_that_is_read, 0},
    {"sums of what it reads", sums, 1},
    {"sums that it needs", sums_that_it_needs, 0},
    {"sums of what two read", sums_of_two, 1},
    {"a function, and sums", function_and_sums, 1},
    {"functions of two", functions, 2},
    {"gelu", graph_of_gelu, 1},
    {"gelu in another order", graph_of_other_gelu, 1},
    {"gelu with another cube", graph_of_no_gelu, 0},
    {"gelu with another scale", graph_of_nor_gelu, 0},
    {"the larger of x and 0", graph_of_larger, 1},
    {"x where it is positive", graph_of_positive, 1},
    {"x where it is negative", graph_of_negative, 0},
    {"a leaky relu", graph_of_leaky, 0},
    {"the larger of x and 1", graph_of_above_1, 0},
};

static bool decline(const Task *contraction, const Task *task, const Epilogue *e, bool result)
{
    return (void)contraction, (void)task, (void)e, (void)result, false;
}

/* all cases, and functions of two with a target that declines */
int main(void)
{
    bool good = true;
    for (int n = 0; n <= COUNT(CASES); n++) {
        bool declines = n == COUNT(CASES);
        int i = declines ? TWO : n, wanted = declines ? 0 : CASES[i].joined;
        Graph *g = CASES[i].graph();
        Options options = {.arch = "vgpu"};
        Target target = cuda_target;
        target.may_epilogue = declines ? decline : target.may_epilogue;
        Program program = {.model = g->model, .options = &options, .target = &target};
        const Phase *p = fuse(&program, g, PHASE_TRAIN, false);
        int joined = 0;
        const char *why = why_apart(p, &joined);
        why = why ? why : why_illegal(p);
        if (!why && joined != wanted)
            why = format("%d joined, not %d", joined, wanted);
        if (why)
            printf("not ok %s%s: %s\n", CASES[i].name, declines ? ", declined" : "", why);
        else
            printf("ok %s%s\n", CASES[i].name, declines ? ", declined" : "");
        good = good && !why;
    }
    return !good;
}
