/* identity_test.c: tests which kernels are identical (kernel/identity.h). Two phases compute a value by a kernel each, and the
 * program must have one kernel if they are identical, else two. Names, letters and places do not matter; numbers, types and
 * shapes do. Contractions for CUDA share a name exactly if the text of their functions is the same (target/cuda/numbers.c).
 * Members of the structures of kernels are changed byte by byte: each makes another identity, or is in a list of exceptions. */
#include "compiler/ir/program.h"
#include "compiler/kernel/attention.h"
#include "compiler/kernel/contraction_internal.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/rows.h"
#include "compiler/target/cuda/cuda.h"
#include "compiler/target/cuda/tiles.h"
#include "compiler/target/host/host.h"

#include <stddef.h>
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
    m->variables[m->variable_count] = (Variable){
        .name = format("v%d", m->variable_count), .dtype = F32, .shape = shape, .kind = STATE, .owner = -1, .order = {0, 1, 2}};
    return graph_variable(g, m->variable_count++);
}

static Node *x(Graph *g) { return graph_input(g, 0); }
static Node *other(Graph *g) { return graph_input(g, 1); }
static Node *times(Graph *g, Node *a, double factor)
{
    return graph_binary(g, OP_MUL, a, graph_broadcast(g, graph_number(g, factor, F32), a->shape));
}

static Node *contraction(Graph *g, const char *text)
{
    Node *in[] = {x(g), variable(g, SHAPE(24, 8))};
    return graph_einsum(g, text, in, 2, false);
}

static Node *draw(Graph *g, const char *path) { return graph_binary(g, OP_ADD, x(g), graph_random(g, SHAPE(24), path, true)); }

/* ---- values: each function makes the first or the second of a pair */

static Node *names(Graph *g, bool second) { return second ? times(g, other(g), 3) : times(g, x(g), 3); }
static Node *numbers(Graph *g, bool second) { return second ? times(g, x(g), 5) : times(g, x(g), 3); }
static Node *close_numbers(Graph *g, bool second) { return second ? times(g, other(g), 1e-3 + 1e-13) : times(g, x(g), 1e-3); }
static Node *letters(Graph *g, bool second) { return second ? contraction(g, "a,ab->b") : contraction(g, "k,kj->j"); }
static Node *operands(Graph *g, bool second)
{
    return second ? graph_binary(g, OP_SUB, other(g), x(g)) : graph_binary(g, OP_SUB, x(g), other(g));
}
static Node *ops(Graph *g, bool second) { return second ? graph_unary(g, OP_TANH, x(g)) : graph_unary(g, OP_EXP, x(g)); }
static Node *types(Graph *g, bool second) { return second ? graph_cast(g, x(g), I32) : graph_cast(g, x(g), F64); }
static Node *aliases(Graph *g, bool second)
{
    return second ? graph_binary(g, OP_MUL, x(g), other(g)) : graph_binary(g, OP_MUL, x(g), x(g));
}
static Node *paths(Graph *g, bool second) { return second ? draw(g, "b") : draw(g, "a"); }

static Node *shapes(Graph *g, bool second)
{
    const int axis = second;
    return graph_sum(g, graph_reshape(g, x(g), SHAPE(4, 6)), &axis, 1);
}

static const struct {
    const char *name;
    Node *(*make)(Graph *, bool second);
    int kernels;
    bool one_form;
} CASES[] = {
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

/* A target with launches keeps the loops in its kernels. */
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

/* ---- shared names of contractions for CUDA: all pairs of these are compared */

typedef struct Product {
    const char *text;
    Shape x, w;
    Dtype dtype;
    bool swapped;
    int64_t input_dilation;
} Product;

/* clang-format off */
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
/* clang-format on */

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
    *form = cuda_contraction_shared_name(c);
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
    printf("%sok contractions have one form exactly if their functions are the same: %d pairs of %d\n", good ? "" : "not ", equal,
           equal + other);
    return good;
}

/* ---- members of structures */

typedef struct Member {
    size_t at, bytes;
} Member;
/* clang-format off */
#define M(member) {offsetof(T, member), sizeof(((T *)0)->member)}
/* clang-format on */

#if defined __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define KNOWS_PADDING
/* Checks all members of an object except those in the list (M), which need not be in the identity. */
#define CHECK(kernel, type, object, ...)                                                                                         \
    do {                                                                                                                         \
        typedef type T;                                                                                                          \
        static const Member OUT[] = {__VA_ARGS__};                                                                               \
        void *part = (void *)(uintptr_t)(object);                                                                                \
        T all;                                                                                                                   \
        memset(&all, 0xff, sizeof all);                                                                                          \
        __builtin_clear_padding(&all);                                                                                           \
        good = in_identity(kernel, #type, part, sizeof all, (unsigned char *)&all, OUT, COUNT(OUT)) && good;                     \
    } while (0)
#endif
#endif

#ifdef KNOWS_PADDING
static bool in_identity(const Kernel *k, const char *type, unsigned char *object, size_t bytes, const unsigned char *members,
                        const Member *out, int out_count)
{
    const char *form = kernel_shared_name(k);
    int tried = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool tries = members[i] != 0;
        for (int m = 0; m < out_count && tries; m++)
            tries = i < out[m].at || i >= out[m].at + out[m].bytes;
        if (!tries)
            continue;
        object[i] ^= 1;
        bool other = strcmp(kernel_shared_name(k), form) != 0;
        object[i] ^= 1;
        tried++;
        if (!other) {
            printf("not ok members of %s: the one at byte %zu is not in the identity\n", type, i);
            return false;
        }
    }
    printf("ok members of %s: %d bytes\n", type, tried);
    return tried > 0;
}

static bool check_nest(const Kernel *k, const Nest *n)
{
    bool good = true;
    CHECK(k, Nest, n, M(exprs), M(reductions), M(stores), M(row), M(mapping), /* checked below */
          M(reduction_count), M(store_count), M(merges), M(row_sum_count));   /* implied by moments and reductions */
    CHECK(k, ThreadMapping, &n->mapping, M(base), M(bases));                  /* computed from the expressions */
    CHECK(k, Axis, &n->exprs->axis[0], {0, 0});
    CHECK(k, Reduction, &n->reductions[0], M(value), M(place), M(node));
    CHECK(k, Store, &n->stores[0], M(tensor), M(offset), M(value), M(guard), M(node));
    for (int i = 0, drawn = 0; i < n->exprs->count; i++) {
        const Expr *e = n->exprs->all[i];
        if (e->kind != X_RANDOM || drawn++)
            continue;
        /* except what the operands determine and what other kinds of expressions have, which the cases above test */
        CHECK(k, Expr, e, M(id), M(axes), M(count), M(in), M(kind), M(dtype), M(op), M(factor), M(number), M(hash), M(tensor),
              M(node));
    }
    return good;
}

static bool check_scan(const Kernel *k)
{
    const Scan *s = k->scan;
    bool good = true;
    CHECK(k, Scan, s, M(node), M(flops), M(flops_per_sample), M(contraction_flops), M(carries), M(carry_count), M(slices),
          M(slice_count), M(buffers), M(buffer_count), M(calls), M(call_count));
    CHECK(k, ScanCarry, s->carries, M(now), M(next), M(initial), M(last));
    CHECK(k, ScanSlice, s->slices, M(slice), M(whole));
    CHECK(k, ScanBuffer, s->buffers, M(tensor));
    CHECK(k, ScanCall, s->calls, M(kernel));
    return good;
}

static bool check_contraction(const Kernel *k)
{
    const mgpu_contraction *t = &k->contraction->table;
    bool good = t->convolution != NULL;
    CHECK(k, mgpu_contraction, t, M(axis), M(window), M(convolution), M(batch), M(m), M(n), M(k),
          M(windows)); /* checked below, or counts */
    CHECK(k, mgpu_axis, t->axis, {0, 0});
    /* the convolution has one dimension, so the others are exceptions */
    CHECK(k, mgpu_convolution, t->convolution, M(dims), M(x[1]), M(x[2]), M(w[1]), M(w[2]), M(y[1]), M(y[2]), M(stride[1]),
          M(stride[2]), M(dilation[1]), M(dilation[2]), M(padding_low[1]), M(padding_low[2]), M(input_dilation[1]),
          M(input_dilation[2]), M(x_stride[3]), M(x_stride[4]), M(w_stride[3]), M(w_stride[4]), M(y_stride[3]), M(y_stride[4]));
    return good;
}

static bool check_rows(const Kernel *k)
{
    bool good = true;
    /* exceptions: axes that it lacks, and padding after an array of structures, which gcc 12 does not clear */
    CHECK(k, mgpu_rows, rows_table(k->rows), M(axes), M(axis[1]), M(axis[2]), M(axis[3]), M(axis[4]), M(axis[5]), M(axis[6]),
          {offsetof(T, by_row) + 1, 3}, {offsetof(T, workspace) + 4, 4});
    return good;
}

static bool check_loops(const Kernel *k)
{
    bool good = check_nest(k, &k->nests[0]);
    CHECK(k, Kernel, k, M(kind), M(nests), M(nest_count), M(index), M(contraction), M(attention), M(rows), M(scan), M(reads),
          M(read_count), M(writes), M(write_count),                                                        /* checked elsewhere */
          M(number), M(digest), M(name), M(label), M(title), M(extent_text), M(at), M(parameter_words),    /* names */
          M(code), M(finish_code), M(text), M(paths), M(path_count), M(body), M(body_users), M(canonical), /* computed later */
          M(parameters), M(parameter_count), M(parameter_at), M(calls_per_launch), M(in_tiles_of), M(epilogue));
    return good;
}

static bool check_attention(const Kernel *k)
{
    bool good = true;
    CHECK(k, mgpu_attention, attention_table(k->attention), {0, 0});
    return good;
}

static Node *grid(Graph *g) { return graph_reshape(g, x(g), SHAPE(4, 6)); }

static Node *drawn_sums(Graph *g, bool second)
{
    (void)second;
    return graph_sum(g, graph_reshape(g, draw(g, "a"), SHAPE(4, 6)), &(int){1}, 1);
}

static Node *some_rows(Graph *g, bool second)
{
    (void)second;
    return NODE(g, OP_CUMSUM, ((int64_t[]){1, 0}), 2, NULL, grid(g));
}

static Node *some_attention(Graph *g, bool second)
{
    (void)second;
    Node *cube = graph_reshape(g, x(g), SHAPE(3, 2, 4)), *two = graph_reshape(g, other(g), SHAPE(3, 2, 4));
    return graph_attention(g, cube, two, two, true, 0, .5);
}

static Node *a_convolution(Graph *g, bool second)
{
    (void)second;
    Node *in[] = {graph_reshape(g, x(g), SHAPE(12, 2)), variable(g, SHAPE(8, 2, 3))};
    const int64_t each[] = {1, 1, 0, 0, 1, 1, 1};
    return graph_node(g, OP_CONVOLVE, in, 2, each, COUNT(each), NULL);
}

static Node *a_scan(Graph *g, bool second)
{
    (void)second;
    Node *sequence = grid(g), *begin = graph_fill(g, 0, SHAPE(6), F32);
    Graph *b = graph_open_body(g, "loop");
    Node *h = graph_scan_carry(b, begin, true), *step = graph_scan_sequence(b, sequence);
    Node *sums = NODE(b, OP_CUMSUM, ((int64_t[]){0, 0}), 2, NULL, graph_binary(b, OP_ADD, h, step)); /* is stored in a buffer */
    Node *next = graph_unary(b, OP_TANH, sums), *stack = graph_binary(b, OP_MUL, next, h);
    return graph_scan_result(g, graph_close_scan(b, 4, false, &next, &stack, 1), 1);
}

static bool members(void)
{
    static Node *(*const MAKE[])(Graph *, bool) = {drawn_sums, some_rows, some_attention, a_convolution, a_scan};
    static bool (*const CHECKS[KERNEL_KINDS])(const Kernel *) = {[KERNEL_NESTS] = check_loops,
                                                                 [KERNEL_CONTRACTION] = check_contraction,
                                                                 [KERNEL_ATTENTION] = check_attention,
                                                                 [KERNEL_ROWS] = check_rows,
                                                                 [KERNEL_SCAN] = check_scan};
    bool good = true, kinds[KERNEL_KINDS] = {false};
    for (int i = 0; i < COUNT(MAKE); i++) {
        Options options = {0};
        Target target = host_target;
        target.launches = no_launches;
        Program program = {.model = new_model(), .options = &options, .target = &target};
        make_phase(&program, MAKE[i], false);
        for (int k = 0; k < program.kernel_count; k++) {
            KernelKind kind = program.kernels[k]->kind;
            good = (kinds[kind] || CHECKS[kind](program.kernels[k])) && good;
            kinds[kind] = true;
        }
    }
    for (int kind = 0; kind < KERNEL_KINDS; kind++)
        if (!kinds[kind]) {
            printf("not ok members: of kind %d there is no kernel\n", kind);
            good = false;
        }
    return good;
}
#else
static bool members(void) { return printf("skip members: this compiler does not say which bytes are padding\n") > 0; }
#endif

int main(void)
{
    bool good = members();
    for (int i = 0; i < COUNT(CASES); i++) {
        Options options = {0};
        Target target = host_target;
        target.launches = no_launches;
        Program program = {.model = new_model(), .options = &options, .target = &target};
        make_phase(&program, CASES[i].make, false);
        int first = program.kernel_count;
        make_phase(&program, CASES[i].make, true);
        bool one = strcmp(kernel_shared_name(program.kernels[0]),
                          kernel_shared_name(program.kernels[program.kernel_count == first ? 0 : first])) == 0;
        bool right = program.kernel_count == first * CASES[i].kernels && one == CASES[i].one_form;
        printf("%sok %s", right ? "" : "not ", CASES[i].name);
        printf(right ? "\n" : ": %d kernels, then %d, %s form\n", first, program.kernel_count, one ? "one" : "another");
        good = good && right;
    }
    return !(forms() && good);
}
