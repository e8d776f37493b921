/* contraction_test: kernels of compiler/contraction.c against the interpreter.
 *
 * Every case is an EINSUM, CONVOLVE or CONVOLVE_WEIGHT with shapes, shards and memory orders; the first are chosen, the
 * others drawn from a fixed seed. All kernels are printed into one file, which is built and loaded; they run once for every
 * instruction set of the library that this machine has. Buffers are exactly as large as promised and the result holds NaN
 * before the call. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/contraction.h"
#include "runtime/contract.h"
#include "runtime/mgpu.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

typedef struct Case {
    const char *name;
    Contraction *plan;
    Graph *graph;
    Node *node;
    Tensor *tensor[3];
    int64_t samples;
} Case;

static Case *cases;
static int case_count;
static uint64_t random_state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state % (uint64_t)below);
}

/* ---- making cases */

static Model *new_model(void)
{
    static const Source source = {.file = "test.net", .text = "", .length = 0};
    Model *model = NEW(Model);
    model->name = "test";
    model->source = NEW(Source);
    *model->source = source;
    model->inputs = NEW_ARRAY(Input, 2);
    model->variables = NEW_ARRAY(Variable, 3);
    return model;
}

static void new_variable(Model *model, const char *name, Dtype dtype, Shape shape, bool shuffle)
{
    Variable *variable = &model->variables[model->variable_count++];
    *variable = (Variable){.name = name, .kind = WEIGHT, .dtype = dtype, .shape = shape, .owner = -1};
    for (int i = 0; i < shape.rank; i++)
        variable->order[i] = i;
    for (int i = shape.rank - 1; i > 0 && shuffle; i--) {
        int j = (int)draw(i + 1), moved = variable->order[i];
        variable->order[i] = variable->order[j];
        variable->order[j] = moved;
    }
}

static Node *new_leaf(Graph *graph, const char *name, Dtype dtype, Shape shape, bool sharded, bool shuffle)
{
    Model *model = graph->model;
    if (!sharded) {
        new_variable(model, name, dtype, shape, shuffle);
        return graph_variable(graph, model->variable_count - 1);
    }
    model->inputs[model->input_count++] = (Input){.name = name, .dtype = dtype, .shape = shape, .ignore = -1, .other = -1};
    return graph_input(graph, model->input_count - 1);
}

static Tensor *tensor_of(Graph *graph, const char *name, Node *node, int variable)
{
    Tensor *tensor = NEW(Tensor);
    *tensor = (Tensor){.kind = TENSOR_TEMPORARY, .name = name, .dtype = node->dtype, .shape = node->shape,
                       .sharded = node->sharded, .node = node};
    if (variable >= 0) {
        tensor->kind = TENSOR_VARIABLE;
        tensor->index = variable;
        for (int i = 0; i < node->shape.rank; i++)
            tensor->shape.extent[i] = node->shape.extent[graph->model->variables[variable].order[i]];
    }
    return tensor;
}

static void add_case(const char *name, Graph *graph, Node *node, int64_t samples, bool shuffle)
{
    Case item = {.name = name, .graph = graph, .node = node, .samples = samples};
    for (int i = 0; i < 2; i++)
        item.tensor[i] = tensor_of(graph, i == 0 ? "a" : "b", node->in[i],
                                   node->in[i]->op == OP_VARIABLE ? (int)node->in[i]->ints[0] : -1);
    int result = -1;
    if (!node->sharded) {
        new_variable(graph->model, "c", node->dtype, node->shape, shuffle);
        result = graph->model->variable_count - 1;
    }
    item.tensor[2] = tensor_of(graph, "c", node, result);
    item.plan = contraction_plan(node, item.tensor[0], item.tensor[1], item.tensor[2]);
    APPEND(cases, case_count, item);
}

/* sharded: bit 0: a, bit 1: b, bit 2: the result */
static void einsum_case(Dtype dtype, const char *spec, Shape a, Shape b, int sharded, int64_t samples, bool shuffle)
{
    Graph *graph = graph_new(new_model(), "test", NULL);
    Node *in[2];
    in[0] = new_leaf(graph, "a", dtype, a, sharded & 1, shuffle);
    in[1] = new_leaf(graph, "b", dtype, b, (sharded & 2) != 0, shuffle);
    Node *node = graph_node(graph, OP_EINSUM, in, 2, NULL, 0, spec);
    if ((sharded & 3) != 0 && !(sharded & 4))
        node = graph_einsum(graph, spec, in, 2, true);
    static const char *const where[] = {"", " a[n]", " b[n]", " a[n] b[n]"};
    add_case(format("%s %s, %s %s%s%s n=%lld", dtype_name(dtype), spec, shape_text(&a), shape_text(&b), where[sharded & 3],
                    sharded & 4 ? " c[n]" : "", (long long)samples),
             graph, node, samples, shuffle);
}

typedef struct Convolution { int64_t stride, before, after, dilation, spread; } Convolution;

/* forward if !weight, else the weight's gradient */
static void convolution_case(Dtype dtype, int dims, const int64_t *extent, const int64_t *kernel, const Convolution *window,
                             int64_t in_channels, int64_t out_channels, int64_t groups, bool weight, int64_t samples,
                             bool shuffle)
{
    Graph *graph = graph_new(new_model(), "test", NULL);
    Shape x = {.rank = dims + 1}, w = {.rank = dims + 2}, y = {.rank = dims + 1};
    int64_t ints[64] = {dims};
    Text name = {0};
    text_add(&name, "%s %s", dtype_name(dtype), weight ? "convolve_weight" : "convolve");
    for (int d = 0; d < dims; d++) {
        x.extent[d] = extent[d];
        w.extent[2 + d] = kernel[d];
        const int64_t attributes[] = {window[d].stride, window[d].before, window[d].after, window[d].dilation, window[d].spread};
        for (int i = 0; i < 5; i++)
            ints[1 + i * dims + d] = attributes[i];
        int64_t padded = (extent[d] - 1) * window[d].spread + 1 + window[d].before + window[d].after;
        y.extent[d] = (padded - (kernel[d] - 1) * window[d].dilation - 1) / window[d].stride + 1;
        text_add(&name, " [%lld k%lld s%lld p%lld,%lld d%lld u%lld]", (long long)extent[d], (long long)kernel[d],
                 (long long)window[d].stride, (long long)window[d].before, (long long)window[d].after,
                 (long long)window[d].dilation, (long long)window[d].spread);
    }
    x.extent[dims] = in_channels;
    y.extent[dims] = w.extent[0] = out_channels;
    w.extent[1] = in_channels / groups;
    ints[1 + 5 * dims] = groups;
    Node *in[2];
    in[0] = new_leaf(graph, "a", dtype, x, true, shuffle);
    in[1] = new_leaf(graph, "b", dtype, weight ? y : w, weight, shuffle);
    int count = 2 + 5 * dims;
    for (int d = 0; d < dims && weight; d++)
        ints[count++] = kernel[d];
    Node *node = graph_node(graph, weight ? OP_CONVOLVE_WEIGHT : OP_CONVOLVE, in, 2, ints, count, NULL);
    text_add(&name, " c%lld->%lld g%lld n=%lld", (long long)in_channels, (long long)out_channels, (long long)groups,
             (long long)samples);
    add_case(text_of(&name), graph, node, samples, shuffle);
}

static void square_case(Dtype dtype, int64_t side, int64_t kernel, Convolution window, int64_t in, int64_t out, int64_t groups,
                        int64_t samples)
{
    for (int weight = 0; weight < 2; weight++)
        convolution_case(dtype, 2, (int64_t[]){side, side}, (int64_t[]){kernel, kernel}, (Convolution[]){window, window}, in,
                         out, groups, weight, samples, true);
}

static void chosen_cases(Dtype dtype)
{
    const Convolution same = {1, 1, 1, 1, 1}, valid = {1, 0, 0, 1, 1}, strided = {2, 1, 1, 1, 1}, spread = {1, 1, 2, 1, 2};
    einsum_case(dtype, "a,ba->b", SHAPE(37), SHAPE(29, 37), 5, 33, true);
    einsum_case(dtype, "a,ab->b", SHAPE(337), SHAPE(337, 10), 5, 3, false);
    einsum_case(dtype, "a,b->ba", SHAPE(37), SHAPE(29), 3, 700, true);
    einsum_case(dtype, "ab,bc->ac", SHAPE(70, 650), SHAPE(650, 33), 0, 1, true);
    einsum_case(dtype, "ab,bc->ac", SHAPE(3, 2), SHAPE(2, 530), 5, 2, false);
    einsum_case(dtype, "qhd,khd->hqk", SHAPE(17, 3, 20), SHAPE(19, 3, 20), 7, 2, false);
    einsum_case(dtype, "hqk,khd->qhd", SHAPE(3, 17, 19), SHAPE(19, 3, 20), 7, 2, false);
    einsum_case(dtype, "ab,ab->ab", SHAPE(5, 70), SHAPE(5, 70), 7, 2, false);
    einsum_case(dtype, "ab,ab->a", SHAPE(5, 70), SHAPE(5, 70), 7, 3, false);
    einsum_case(dtype, "a,a->", SHAPE(1000), SHAPE(1000), 7, 3, false);
    einsum_case(dtype, "a,a->", SHAPE(1000), SHAPE(1000), 3, 3, false);
    einsum_case(dtype, "a,->a", SHAPE(50), SCALAR, 5, 3, false);
    einsum_case(dtype, ",->", SCALAR, SCALAR, 7, 3, false);
    einsum_case(dtype, "ab,b->a", SHAPE(60, 129), SHAPE(129), 5, 2, false);
    einsum_case(dtype, "aab,bc->c", SHAPE(4, 4, 9), SHAPE(9, 5), 5, 3, false);
    einsum_case(dtype, "ab,bc->ac", SHAPE(0, 7), SHAPE(7, 3), 5, 2, false);
    einsum_case(dtype, "ab,bc->ac", SHAPE(5, 0), SHAPE(0, 30), 5, 2, false);
    square_case(dtype, 9, 3, same, 16, 16, 1, 3);
    square_case(dtype, 9, 3, same, 1, 32, 1, 3);
    square_case(dtype, 12, 5, valid, 1, 6, 1, 4);
    square_case(dtype, 12, 5, valid, 6, 16, 1, 2);
    square_case(dtype, 11, 7, (Convolution){2, 3, 3, 1, 1}, 3, 10, 1, 2);
    square_case(dtype, 10, 3, strided, 12, 20, 1, 2);
    square_case(dtype, 5, 3, spread, 12, 20, 1, 2);
    square_case(dtype, 5, 1, (Convolution){1, 0, 1, 1, 2}, 12, 20, 1, 2);
    square_case(dtype, 9, 3, same, 40, 40, 40, 2);
    square_case(dtype, 9, 3, strided, 24, 48, 3, 2);
    square_case(dtype, 9, 3, (Convolution){1, -1, -2, 1, 1}, 4, 9, 1, 2);
    square_case(dtype, 6, 2, (Convolution){3, 2, 5, 4, 2}, 4, 9, 1, 2);
    square_case(dtype, 4, 3, (Convolution){2, 1, 0, 3, 4}, 2, 3, 1, 2);
    square_case(dtype, 20, 3, same, 40, 17, 1, 2);
    square_case(dtype, 5, 5, (Convolution){1, 4, 4, 1, 1}, 70, 8, 1, 1);
    const int64_t box[] = {4, 5, 6}, box_kernel[] = {3, 2, 3}, line[] = {700}, line_kernel[] = {5};
    const Convolution causal = {1, 4, 0, 2, 1};
    for (int weight = 0; weight < 2; weight++) {
        convolution_case(dtype, 3, box, box_kernel, (Convolution[]){same, valid, strided}, 5, 7, 1, weight, 2, true);
        convolution_case(dtype, 3, box, box_kernel, (Convolution[]){same, spread, strided}, 5, 7, 1, weight, 2, true);
        convolution_case(dtype, 1, line, line_kernel, &causal, 3, 11, 1, weight, 2, true);
    }
}

static int64_t some_extent(void)
{
    static const int64_t extents[] = {1, 2, 3, 5, 8, 13, 16, 31, 40};
    return extents[draw(COUNT(extents))];
}

static void drawn_cases(Dtype dtype, int count)
{
    for (int i = 0; i < count; i++) {
        int dims = 1 + (int)draw(3);
        int64_t extent[3], kernel[3], groups = 1 + draw(3) / 2 * draw(3);
        int64_t in = groups * (1 + draw(9)), out = groups * (1 + draw(20));
        Convolution window[3];
        for (int d = 0; d < dims; d++) {
            extent[d] = 1 + draw(dims == 1 ? 60 : dims == 2 ? 12 : 5);
            kernel[d] = 1 + draw(4);
            window[d] = (Convolution){1 + draw(3), draw(4) - 1, draw(4) - 1, 1 + draw(2), draw(2) ? 1 : 1 + draw(4)};
            int64_t room = (extent[d] - 1) * window[d].spread + 1 + window[d].before + window[d].after;
            int64_t needed = (kernel[d] - 1) * window[d].dilation + 1;
            if (room < needed)
                window[d].after += needed - room;
        }
        convolution_case(dtype, dims, extent, kernel, window, in, out, groups, i % 2, 1 + draw(4), draw(3) > 0);
    }
    for (int i = 0; i < count; i++) {
        /* letters a b: batch, c d: M, e f: N, g h: K, each there or not, in any order */
        static const char *const letters[3] = {"abcdgh", "abefgh", "abcdef"};
        char text[3][7] = {"", "", ""};
        int64_t extent[8];
        unsigned there = (unsigned)draw(256);
        for (int j = 0; j < 8; j++)
            extent[j] = j < 2 ? 1 + draw(3) : some_extent();
        Shape shape[2] = {{0}, {0}};
        for (int operand = 0; operand < 3; operand++) {
            int length = 0;
            for (const char *l = letters[operand]; *l; l++)
                if (there >> (*l - 'a') & 1) {
                    int at = (int)draw(length + 1);
                    memmove(text[operand] + at + 1, text[operand] + at, (size_t)(length - at));
                    text[operand][at] = *l;
                    length++;
                }
            for (int j = 0; operand < 2 && j < length; j++)
                shape[operand].extent[shape[operand].rank++] = extent[text[operand][j] - 'a'];
        }
        static const int shards[] = {0, 5, 6, 7, 3, 5, 7};
        if (shape_count(&shape[0]) * shape_count(&shape[1]) < 4000000)
            einsum_case(dtype, format("%s,%s->%s", text[0], text[1], text[2]), shape[0], shape[1], shards[draw(COUNT(shards))],
                        1 + draw(4), draw(2));
    }
}

/* ---- running them */

static void fill(double *values, int64_t count, int seed, Dtype dtype)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)(int64_t)(state >> 40) / (1 << 24) - 0.5;
        if (dtype == F32)
            values[i] = (double)(float)values[i];
    }
}

static bool leaf(void *context, const Node *node, double *out, int64_t count)
{
    const Case *item = context;
    fill(out, count, node == item->node->in[0] ? 1 : 2, node->dtype);
    return true;
}

/* the place in memory of logical element i of the tensor of node */
static int64_t place_of(const Case *item, int operand, int64_t i)
{
    const Tensor *tensor = item->tensor[operand];
    const Node *node = operand < 2 ? item->node->in[operand] : item->node;
    int64_t count = shape_count(&node->shape), sample = i / count, at[MAX_RANK] = {0}, place = sample;
    i %= count;
    for (int axis = node->shape.rank - 1; axis >= 0; axis--) {
        at[axis] = i % node->shape.extent[axis];
        i /= node->shape.extent[axis];
    }
    for (int k = 0; k < tensor->shape.rank; k++) {
        int axis = tensor->kind == TENSOR_VARIABLE ? item->graph->model->variables[tensor->index].order[k] : k;
        place = place * tensor->shape.extent[k] + at[axis];
    }
    return place;
}

static int64_t elements(const Case *item, int operand)
{
    const Tensor *tensor = item->tensor[operand];
    return shape_count(&tensor->shape) * (tensor->sharded ? item->samples : 1);
}

static void store(void *memory, Dtype dtype, int64_t place, double value)
{
    if (dtype == F64)
        ((double *)memory)[place] = value;
    else
        ((float *)memory)[place] = (float)value;
}

static double fetch(const void *memory, Dtype dtype, int64_t place)
{
    return dtype == F64 ? ((const double *)memory)[place] : (double)((const float *)memory)[place];
}

/* NULL: as expected; else what is wrong */
static const char *run_case(const Case *item, mgpu_kernel_function *kernel, const double *expected)
{
    Dtype dtype = item->node->dtype;
    void *memory[4];
    int64_t per_sample = 0, workspace = contraction_workspace(item->plan, &per_sample), count = elements(item, 2);
    for (int i = 0; i < 3; i++)
        memory[i] = malloc((size_t)(elements(item, i) * dtype_bytes(dtype)));
    memory[3] = malloc((size_t)(workspace + per_sample * item->samples));
    for (int i = 0; i < 2; i++) {
        double *values = NEW_ARRAY(double, elements(item, i));
        fill(values, elements(item, i), i + 1, dtype);
        for (int64_t j = 0; j < elements(item, i); j++)
            store(memory[i], dtype, place_of(item, i, j), values[j]);
    }
    const char *wrong = NULL;
    double flops, sampled, bytes, byte_samples;
    contraction_cost(item->plan, &flops, &sampled, &bytes, &byte_samples);
    double terms = (flops + sampled * (double)item->samples) / 2 / (double)(count > 0 ? count : 1);
    double limit = (dtype == F64 ? 2e-16 : 1e-7) * (8 + 2 * sqrt(terms));
    double *first = NEW_ARRAY(double, count);
    for (int turn = 0; turn < 2; turn++) {
        memset(memory[3], 0xff, (size_t)(workspace + per_sample * item->samples));
        for (int64_t i = 0; i < count; i++)
            store(memory[2], dtype, i, (double)NAN);
        kernel(memory, NULL, item->samples);
        for (int64_t i = 0; i < count && wrong == NULL; i++) {
            double value = fetch(memory[2], dtype, place_of(item, 2, i));
            if (!(fabs(value - expected[i]) <= limit))
                wrong = format("element %lld is %.17g, not %.17g", (long long)i, value, expected[i]);
            else if (turn == 1 && value != first[i])
                wrong = format("element %lld is %.17g, then %.17g", (long long)i, first[i], value);
            first[i] = value;
        }
    }
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    return wrong;
}

static int failures;

typedef struct Library { /* of kernels: what they call, and themselves */
    mgpu_contract_function **contract_f32, **contract_f64;
    mgpu_kernel_function *const *table;
} Library;

static void run_all(const Library *library, const char *name, double **expected)
{
    int wrong_cases = 0;
    for (int i = 0; i < case_count; i++) {
        const char *wrong = run_case(&cases[i], library->table[i], expected[i]);
        if (wrong == NULL)
            continue;
        wrong_cases++;
        printf("not ok %s (%s): %s\n", cases[i].name, name, wrong);
    }
    failures += wrong_cases;
    if (wrong_cases == 0)
        printf("ok %d contractions, %s\n", case_count, name);
}

/* all cases as kernels; the product that they call is a pointer, so that each of the library's can be put there */
static void print_kernels(Text *text)
{
    text_add(text, "#include \"runtime/mgpu.h\"\n#include \"runtime/contract.h\"\n"
                   "extern mgpu_contract_function *contract_f32, *contract_f64;\n"
                   "mgpu_contract_function *contract_f32, *contract_f64;\n"
                   "#define mgpu_contract_f32 contract_f32\n#define mgpu_contract_f64 contract_f64\n");
    for (int i = 0; i < case_count; i++)
        contraction_print(cases[i].plan, format("kernel%d", i), text);
    text_add(text, "extern mgpu_kernel_function *const table[];\nmgpu_kernel_function *const table[] = {");
    for (int i = 0; i < case_count; i++)
        text_add(text, "kernel%d, ", i);
    text_add(text, "};\n");
}

static const char *load(Library *library, const char *folder)
{
    Text text = {0};
    print_kernels(&text);
    FILE *file = fopen(format("%s/kernels.c", folder), "w");
    if (file == NULL || fwrite(text.data, 1, text.length, file) != text.length || fclose(file) != 0)
        return "the kernels cannot be written";
    const char *command = format("cc -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -I%s -fPIC -shared -o %s/kernels.so "
                                 "%s/kernels.c", MGPU_SOURCE, folder, folder);
    if (system(command) != 0)
        return command;
    void *handle = dlopen(format("%s/kernels.so", folder), RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return dlerror();
    library->contract_f32 = (mgpu_contract_function **)dlsym(handle, "contract_f32");
    library->contract_f64 = (mgpu_contract_function **)dlsym(handle, "contract_f64");
    library->table = (mgpu_kernel_function *const *)dlsym(handle, "table");
    return NULL;
}

int main(void)
{
    char folder[] = "/tmp/contraction_test.XXXXXX";
    if (mkdtemp(folder) == NULL) {
        printf("skip contractions: no folder for kernels\n");
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        chosen_cases(i == 0 ? F64 : F32);
        drawn_cases(i == 0 ? F64 : F32, 60);
    }
    double **expected = NEW_ARRAY(double *, case_count);
    for (int i = 0; i < case_count; i++) {
        Interpretation run = {.samples = cases[i].samples, .leaf = leaf, .context = &cases[i],
                              .values = NEW_ARRAY(double *, cases[i].graph->node_count)};
        interpret(cases[i].graph, &run);
        expected[i] = run.values[cases[i].node->id];
    }
    Library library = {0};
    const char *wrong = load(&library, folder);
    if (wrong != NULL) {
        printf("not ok build of the kernels: %s\n", wrong);
        failures++;
    }
    const mgpu_contract_variant *variant;
    for (int i = 0; wrong == NULL && (variant = mgpu_contract_choice(i)) != NULL; i++) {
        *library.contract_f32 = i == 0 ? mgpu_contract_f32 : variant->f32; /* the first one as programs call it */
        *library.contract_f64 = i == 0 ? mgpu_contract_f64 : variant->f64;
        run_all(&library, variant->name, expected);
    }
    if (system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
