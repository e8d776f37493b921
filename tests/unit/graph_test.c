/* graph_test.c: building graphs: types, shapes, numbers, sharing, capture, copies, printing, the interpreter's meaning of
 * single operations, Philox, and what the user is told of shapes that do not fit. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"
#include "runtime/abi/mgpu_random.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

static void report(const char *name, bool good, const char *why)
{
    if (good)
        printf("ok graph: %s\n", name);
    else
        printf("not ok graph: %s: %s\n", name, why);
    failed += !good;
}

static Model model;

static Graph *empty_graph(void)
{
    static Input inputs[] = {{.name = "x", .dtype = F32, .shape = {2, {3, 4}}},
                             {.name = "image", .dtype = U8, .shape = {1, {4}}},
                             {.name = "label", .dtype = I32},
                             {.name = "mask", .dtype = BOOL, .shape = {1, {4}}}};
    static Variable variables[] = {{.name = "w", .dtype = F32, .shape = {2, {5, 4}}, .trained = true}};
    model = (Model){.inputs = inputs, .input_count = 4, .variables = variables, .variable_count = 1};
    return graph_new(&model, "test", NULL);
}

/* ---- types */

static void test_types(void)
{
    static const struct {
        Dtype a, b, both;
    } CASES[] = {
        {BOOL, U8, U8},   {U8, I8, I16},   {U8, I16, I16},  {U16, I16, I32},    {U32, I32, I64}, {U8, U32, U32}, {I64, F16, F16},
        {F16, BF16, F32}, {F16, F32, F32}, {F32, F64, F64}, {BOOL, BOOL, BOOL}, {U32, I64, I64}, {I8, U16, I32},
    };
    for (int i = 0; i < COUNT(CASES); i++)
        if (dtype_promote(CASES[i].a, CASES[i].b) != CASES[i].both || dtype_promote(CASES[i].b, CASES[i].a) != CASES[i].both)
            report("promotion", false, format("%s with %s", dtype_name(CASES[i].a), dtype_name(CASES[i].b)));
    report("promotion", true, NULL);
    Graph *g = empty_graph();
    Node *x = graph_input(g, 0), *image = graph_input(g, 1), *label = graph_input(g, 2), *mask = graph_input(g, 3);
    const struct {
        const char *name;
        Node *node;
        Dtype dtype;
    } MADE[] = {
        {"u8 / number", graph_binary(g, OP_DIV, image, graph_weak(g, 255)), F32},
        {"u8 + u8", graph_binary(g, OP_ADD, image, image), I32},
        {"u8 - number", graph_binary(g, OP_SUB, image, graph_weak(g, 1)), I32},
        {"u8 * fraction", graph_binary(g, OP_MUL, image, graph_weak(g, 0.5)), F32},
        {"u8 % number", graph_binary(g, OP_MOD, image, graph_weak(g, 7)), U8},
        {"bits of u8", graph_binary(g, OP_BIT_AND, image, graph_weak(g, 255)), U8},
        {"bits of u8 and i32", graph_binary(g, OP_SHIFT_LEFT, image, label), I32},
        {"atan2 of u8", graph_binary(g, OP_ATAN2, image, image), F32},
        {"u8 % number that it cannot hold", graph_binary(g, OP_MOD, image, graph_weak(g, 700)), I32},
        {"i32 + number", graph_binary(g, OP_ADD, label, graph_weak(g, 3)), I32},
        {"i32 + large number", graph_binary(g, OP_ADD, label, graph_weak(g, 1e10)), I64},
        {"i32 ** number", graph_binary(g, OP_POW, label, graph_weak(g, 2)), F32},
        {"bool * f32", graph_binary(g, OP_MUL, mask, x), F32},
        {"bool + bool", graph_binary(g, OP_ADD, mask, mask), I32},
        {"bool < number", graph_binary(g, OP_LT, mask, graph_weak(g, 1)), BOOL},
        {"number of numbers", graph_binary(g, OP_POW, graph_run(g, RUN_STEP, 0), graph_weak(g, 2)), F64},
        {"f32 with a number of the run", graph_binary(g, OP_MUL, x, graph_run(g, RUN_STEP, 0)), F32},
        {"sum of bool", graph_sum(g, mask, (int[]){0}, 1), I32},
        {"exp of u8", graph_unary(g, OP_EXP, image), F32},
        {"where of numbers", graph_where(g, mask, graph_weak(g, 1), graph_weak(g, 0)), F32},
        {"where of a tensor and a number", graph_where(g, mask, x, graph_weak(g, 0)), F32},
        {"concat of u8 and f32", graph_concat(g, (Node *[]){image, graph_fill(g, 0, SHAPE(2), F32)}, 2, 0), F32},
        {"u8 // u8", graph_binary(g, OP_QUOTIENT, image, image), I32},
        {"i32 // large number", graph_binary(g, OP_QUOTIENT, label, graph_weak(g, 1e10)), I64},
        {"i32 // fraction", graph_binary(g, OP_QUOTIENT, label, graph_weak(g, 2.5)), F32},
        {"floor of i32", graph_unary(g, OP_FLOOR, label), I32},
        {"floor of u8", graph_unary(g, OP_FLOOR, image), U8},
        {"floor of bool", graph_unary(g, OP_FLOOR, mask), I32},
        {"scatter_add into u8", graph_scatter_add(g, image, label, graph_number(g, 1, U8), 0, false), I32},
    };
    for (int i = 0; i < COUNT(MADE); i++)
        report(MADE[i].name, MADE[i].node->dtype == MADE[i].dtype, format("it is %s", dtype_name(MADE[i].node->dtype)));
    report("numbers stay weak", MADE[15].node->weak && !MADE[16].node->weak, "");
    Node *fill = graph_binary(g, OP_ADD, x, graph_weak(g, 2))->in[1];
    report("a number met a tensor", fill->op == OP_CONSTANT && fill->data_count == 1 && fill->shape.rank == 2, "");
}

/* ---- sharing, capture, copies */

static void test_structure(void)
{
    Graph *g = empty_graph();
    Node *x = graph_input(g, 0), *w = graph_variable(g, 0);
    Node *a = graph_einsum(g, "ab, cb -> ac", (Node *[]){x, w}, 2, false);
    report("equal nodes are one", a == graph_einsum(g, "ab,cb->ac", (Node *[]){x, w}, 2, false), "");
    report("a sum over samples is another node", a != graph_einsum(g, "ab,cb->ac", (Node *[]){x, w}, 2, true), "");
    report("draws of one path are one",
           graph_random(g, SHAPE(2), "a", true) == graph_random(g, SHAPE(2), "a", true) &&
               graph_random(g, SHAPE(2), "a", true) != graph_random(g, SHAPE(2), "b", true),
           "");
    report("zeros have a sign", graph_number(g, 0.0, F32) != graph_number(g, -0.0, F32), "");
    report("sharded", a->has_samples && !w->has_samples && !graph_sum_samples(g, a, NULL, 0)->has_samples, "");
    Node *count = graph_sum_samples(g, graph_number(g, 1, F32), NULL, 0);
    report("a sum over samples of one value", node_sums_samples(count) && count->in[0]->op == OP_WHERE, "");
    report("identities",
           graph_reshape(g, x, x->shape) == x && graph_broadcast(g, x, x->shape) == x &&
               graph_transpose(g, x, (int[]){0, 1}) == x && graph_sum(g, x, NULL, 0) == x &&
               graph_slice(g, x, (int64_t[]){0, 0}, (int64_t[]){3, 4}, (int64_t[]){1, 1}) == x,
           "");
    Graph *outer = graph_open_body(g, "outer"), *inner = graph_open_body(outer, "inner");
    Node *out[1], *again[1], *y = graph_binary(inner, OP_ADD, x, graph_unary(inner, OP_EXP, x));
    graph_close_body(inner, OP_COMPOSITE, "inner", NULL, 0, NULL, 0, &y, 1, out);
    graph_close_body(outer, OP_COMPOSITE, "outer", (int64_t[]){7}, 1, (double[]){0.5}, 1, out, 1, again);
    Node *composite = again[0]->in[0];
    report("capture through two regions",
           inner->captured_count == 1 && outer->captured_count == 1 && outer->captured[0] == x && composite->in[0] == x &&
               composite->ints[0] == 7 && composite->data[0] == 0.5,
           "");
    report("a result is like the body's", shape_equal(&again[0]->shape, &x->shape) && again[0]->has_samples, "");
    graph_result(g, ROLE_OUTPUT, "y", 0, again[0], NULL);
    Graph *copy = graph_new(&model, "test", NULL);
    for (int i = 0; i < g->node_count; i++)
        graph_copy_node(copy, g->nodes[i]);
    graph_copy_results(copy, g);
    Text first = {0}, second = {0};
    graph_print(g, &first);
    graph_print(copy, &second);
    report("a copy prints alike", strcmp(text_of(&first), text_of(&second)) == 0, text_of(&second));
    Graph *flat = graph_new(&model, "flat", NULL);
    Node *inlined;
    Node *only = graph_input(flat, 0);
    graph_inline(flat, composite, &only, &inlined);
    report("a body as ordinary nodes", inlined->op == OP_RESULT && inlined->in[0]->in[0] == only, "");
    Graph *small = empty_graph();
    graph_result(small, ROLE_UPDATE, NULL, 0,
                 graph_sum_samples(small, graph_unary(small, OP_EXP, graph_input(small, 0)), (int[]){1}, 1), NULL);
    Text text = {0};
    graph_print(small, &text);
    report("printing",
           strcmp(text_of(&text), "graph test\n"
                                  "  %0 = input 0 : f32[3, 4] sharded  ; x\n"
                                  "  %1 = exp %0 : f32[3, 4] sharded\n"
                                  "  %2 = sum [1] %1 : f32[3]\n"
                                  "  update 0 = %2\n") == 0,
           text_of(&text));
}

/* ---- the interpreter */

static bool leaf(void *context, const Node *n, double *out, int64_t count)
{
    (void)context;
    for (int64_t i = 0; i < count; i++)
        out[i] = n->op == OP_VALID ? i == 0 : (double)(i % 7);
    return true;
}

static bool leaf_but_random(void *context, const Node *n, double *out, int64_t count)
{
    return n->op != OP_RANDOM && leaf(context, n, out, count);
}

static void expect(const char *name, Graph *g, Node *n, int64_t samples, const double *wanted, int count)
{
    Interpretation run = {.samples = samples, .first_sample = 5, .step = 3, .seed = 9, .leaf = leaf_but_random};
    interpret(g, &run);
    Text got = {0};
    bool equal = true;
    for (int i = 0; i < count; i++) {
        double v = run.values[n->id][i];
        equal = equal && (v == wanted[i] || (v != v && wanted[i] != wanted[i]));
        text_add(&got, "%s%.9g", i ? " " : "it gives ", v);
    }
    report(name, equal, text_of(&got));
}
#define EXPECT(name, g, n, samples, ...) expect(name, g, n, samples, (double[]){__VA_ARGS__}, COUNT(((double[]){__VA_ARGS__})))

static void test_meaning(void)
{
    Graph *g = empty_graph();
    Node *image = graph_input(g, 1), *label = graph_input(g, 2); /* 0 1 2 3 | 4 5 6 0, and 0 | 1 */
    Node *v = graph_constant(g, (double[]){-2.5, 300, NAN, 1e20}, SHAPE(4), F32);
    Node *five = graph_constant(g, (double[]){1, 5, 5, 2, 0}, SHAPE(5), F32);
    EXPECT("cast to u8", g, graph_cast(g, v, U8), 1, 0, 255, 0, 255);
    EXPECT("cast to i32", g, graph_cast(g, v, I32), 1, -2, 300, 0, 2147483647);
    EXPECT("u32 wraps", g, graph_binary(g, OP_SUB, graph_number(g, 1, U32), graph_number(g, 2, U32)), 1, 4294967295.0);
    EXPECT("i32 wraps", g, graph_binary(g, OP_MUL, graph_number(g, 2147483647, I32), graph_number(g, 2147483647, I32)), 1, 1);
    Node *bits = graph_constant(g, (double[]){12, 200, 255, 1}, SHAPE(4), U8),
         *small = graph_constant(g, (double[]){-1, -128, 5}, SHAPE(3), I8);
    EXPECT("bit_and", g, graph_binary(g, OP_BIT_AND, bits, graph_weak(g, 10)), 1, 8, 8, 10, 0);
    EXPECT("bit_or", g, graph_binary(g, OP_BIT_OR, bits, graph_weak(g, 3)), 1, 15, 203, 255, 3);
    EXPECT("bit_xor", g, graph_binary(g, OP_BIT_XOR, small, graph_weak(g, 5)), 1, -6, -123, 0);
    EXPECT("bit_not of u8", g, graph_unary(g, OP_BIT_NOT, bits), 1, 243, 55, 0, 254);
    EXPECT("bit_not of i8", g, graph_unary(g, OP_BIT_NOT, small), 1, 0, 127, -6);
    EXPECT("shift_left of u8", g, graph_binary(g, OP_SHIFT_LEFT, bits, graph_weak(g, 4)), 1, 192, 128, 240, 16);
    EXPECT("shift_left of i8", g, graph_binary(g, OP_SHIFT_LEFT, small, graph_weak(g, 1)), 1, -2, 0, 10);
    EXPECT("shift_left, too far", g, graph_binary(g, OP_SHIFT_LEFT, bits, graph_weak(g, 8)), 1, 0, 0, 0, 0);
    EXPECT("shift_right of i8", g, graph_binary(g, OP_SHIFT_RIGHT, small, graph_weak(g, 2)), 1, -1, -32, 1);
    EXPECT("shift_right, too far", g, graph_binary(g, OP_SHIFT_RIGHT, small, graph_weak(g, 100)), 1, -1, -1, 0);
    EXPECT("shift_right by less than 0", g, graph_binary(g, OP_SHIFT_RIGHT, bits, graph_number(g, -1, I32)), 1, 0, 0, 0, 0);
    EXPECT("bits of i32", g, graph_binary(g, OP_SHIFT_LEFT, graph_number(g, 3, I32), graph_number(g, 31, I32)), 1, -2147483648.0);
    Node *ends = graph_constant(g, (double[]){-7, 7, -2147483648.0, 5, -6}, SHAPE(5), I32),
         *by = graph_constant(g, (double[]){3, -3, -1, 0, 3}, SHAPE(5), I32);
    EXPECT("quotients of i32", g, graph_binary(g, OP_QUOTIENT, ends, by), 1, -3, -3, -2147483648.0, 0, -2);
    EXPECT("quotient of i64", g, graph_binary(g, OP_QUOTIENT, graph_number(g, 0x1p53 - 1, I64), graph_number(g, 3, I64)), 1,
           3002399751580330.0);
    EXPECT("mod goes down", g, graph_binary(g, OP_MOD, graph_number(g, -7, I32), graph_number(g, 3, I32)), 1, 2);
    EXPECT("sum over samples", g, graph_sum_samples(g, image, (int[]){0}, 1), 2, 21);
    EXPECT("sum of one value over samples", g, graph_sum_samples(g, graph_number(g, 2, F32), NULL, 0), 2, 2);
    EXPECT("group sum, the last group is short", g, graph_group_sum(g, label, 2), 3, 1, 1, 2);
    EXPECT("group sum of the shard", g, graph_group_sum(g, label, 0), 3, 3, 3, 3);
    EXPECT("argmax, the first", g, NODE(g, OP_ARGMAX, ((int64_t[]){0}), 1, NULL, five), 1, 1);
    EXPECT("window max", g, NODE(g, OP_WINDOW_MAX, ((int64_t[]){2, 2, 1, 0}), 4, NULL, five), 1, 1, 5, 2);
    EXPECT("window sum", g, NODE(g, OP_WINDOW_SUM, ((int64_t[]){3, 2, 1, 1}), 4, NULL, five), 1, 6, 12, 2);
    EXPECT("slice backwards", g, graph_slice(g, five, (int64_t[]){4}, (int64_t[]){3}, (int64_t[]){-2}), 1, 0, 5, 1);
    Node *index = graph_constant(g, (double[]){3, -1, 1, 5}, SHAPE(4), I32);
    EXPECT("gather, 0 outside", g, NODE(g, OP_GATHER, ((int64_t[]){0}), 1, NULL, five, index), 1, 2, 0, 5, 0);
    Node *there = graph_slice(g, index, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){1}), *seven = graph_fill(g, 7, SHAPE(1), F32);
    Node *outside = graph_slice(g, index, (int64_t[]){1}, (int64_t[]){1}, (int64_t[]){1});
    EXPECT("index_copy", g, NODE(g, OP_INDEX_COPY, ((int64_t[]){0}), 1, NULL, five, there, seven), 1, 1, 5, 5, 7, 0);
    EXPECT("index_copy outside", g, NODE(g, OP_INDEX_COPY, ((int64_t[]){0}), 1, NULL, five, outside, seven), 1, 1, 5, 5, 2, 0);
    Node *zeros = graph_fill(g, 1, SHAPE(2), F32);
    EXPECT("scatter_add per sample", g, graph_scatter_add(g, zeros, label, graph_number(g, 3, F32), 0, false), 2, 4, 1, 1, 4);
    EXPECT("scatter_add of samples", g, graph_scatter_add(g, zeros, label, graph_number(g, 3, F32), 0, true), 2, 4, 4);
    EXPECT("where takes one side", g, graph_where(g, graph_binary(g, OP_EQ, v, v), graph_number(g, 1, F32), v), 1, 1, 1, NAN, 1);
    Node *kernel = graph_constant(g, (double[]){1, 10}, SHAPE(1, 1, 2), F32);
    Node *line = graph_reshape(g, five, SHAPE(5, 1));
    EXPECT("convolve", g, NODE(g, OP_CONVOLVE, ((int64_t[]){1, 2, 1, 0, 1, 1, 1}), 7, NULL, line, kernel), 1, 10, 55, 2);
    EXPECT("convolve, input_dilation", g, NODE(g, OP_CONVOLVE, ((int64_t[]){1, 1, 0, 0, 1, 2, 1}), 7, NULL, line, kernel), 1, 1,
           50, 5, 50, 5, 20, 2, 0);
    Node *random = graph_random(g, SHAPE(6), "model.dropout_1", true);
    uint64_t key = mgpu_random_key(9, node_random_hash(random));
    EXPECT("random", g, random, 2, mgpu_uniform(key, 0, 5, 3), mgpu_uniform(key, 1, 5, 3), mgpu_uniform(key, 2, 5, 3),
           mgpu_uniform(key, 3, 5, 3), mgpu_uniform(key, 4, 5, 3), mgpu_uniform(key, 5, 5, 3), mgpu_uniform(key, 0, 6, 3));
}

/* ---- Philox: the vectors that its authors publish */

static void test_philox(void)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t out[4];
    } CASES[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        uint32_t out[4];
        mgpu_philox(CASES[i].key, CASES[i].counter, out);
        report("philox", memcmp(out, CASES[i].out, sizeof out) == 0, format("vector %d", i));
    }
    uint64_t key = mgpu_random_key(1, 2);
    double mean = 0, square = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        double u = mgpu_uniform(key, i % 10, i / 10, 1);
        mean += u / 10000;
        square += u * u / 10000;
    }
    report("uniform", fabs(mean - 0.5) < 0.01 && fabs(square - 1.0 / 3) < 0.01, format("mean %g, of squares %g", mean, square));
    report("steps, samples and seeds differ",
           mgpu_random_word(key, 0, 1, 0) != mgpu_random_word(key, 0, 0, 1) && mgpu_random_key(0, 2) != mgpu_random_key(2, 0) &&
               mgpu_random_word(key, 0, 1ull << 40, 0) != mgpu_random_word(key, 0, 0, 0) &&
               mgpu_random_word(key, 0, 0, 1ull << 40) != mgpu_random_word(key, 0, 0, 0),
           "");
}

/* ---- a mistake of the user: exit 1 and a message. Those that rules of shapes find: tests/passes/refused_* */

static void bad_broadcast(Graph *g) { graph_binary(g, OP_ADD, graph_input(g, 0), graph_fill(g, 0, SHAPE(3), F32)); }

static void test_messages(void)
{
    static const struct {
        void (*make)(Graph *);
        const char *message;
    } CASES[] = {
        {bad_broadcast, "the shapes [3, 4] and [3] do not fit together in 'a + b': axis -1 is 4 and 3"},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        int ends[2], status;
        if (pipe(ends) != 0)
            fail(3, "no pipe");
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            CASES[i].make(empty_graph());
            _exit(0);
        }
        close(ends[1]);
        char said[512] = "";
        size_t length = 0;
        ssize_t got;
        while (length < sizeof said - 1 && (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
            length += (size_t)got;
        close(ends[0]);
        waitpid(child, &status, 0);
        const char *wanted = format("mgpuc: error: %s\n", CASES[i].message);
        report(CASES[i].message, WIFEXITED(status) && WEXITSTATUS(status) == 1 && strcmp(said, wanted) == 0, said);
    }
}

/* a chain of 100,000 nodes is made in linear time (and is not a recursion anywhere) */
static void test_depth(void)
{
    Graph *g = empty_graph();
    Node *x = graph_input(g, 0);
    for (int i = 0; i < 100000; i++)
        x = graph_binary(g, OP_ADD, x, graph_unary(g, OP_TANH, x));
    report("a deep graph", g->node_count == 200001, "");
}

int main(void)
{
    test_types();
    test_structure();
    test_meaning();
    test_philox();
    test_messages();
    test_depth();
    return failed > 0;
}
