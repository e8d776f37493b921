/* gemm: GFLOP/s of the contraction kernels, for a table of shapes, on one core.
 *
 * usage: gemm [f32 | f64] [base | avx2 | avx512]      default: f64, the best instruction set that there is
 * build: ninja gemm in the build folder makes bench/gemm there
 * Every kernel is planned, printed, built and called as mgpuc would do it; the best of several turns counts. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/contraction.h"
#include "runtime/contract.h"
#include "runtime/mgpu.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

typedef struct Row {
    const char *name;
    int64_t samples;
    /* einsum: spec, extents of a and b, which of a, b, c have samples (bits 0, 1, 2) */
    const char *spec;
    int64_t a[4], b[4];
    int sharded;
    /* convolution over a square: side, kernel, channels in and out, stride, padding before and after, spread, groups */
    int64_t side, kernel, in, out, stride, before, after, spread, groups;
    bool weight;
} Row;

#define CONVOLUTION(name, samples, side, kernel, in, out, stride, before, after, spread, groups)                       \
    {name, samples, NULL, {0}, {0}, 0, side, kernel, in, out, stride, before, after, spread, groups, false},           \
    {name ", weight", samples, NULL, {0}, {0}, 0, side, kernel, in, out, stride, before, after, spread, groups, true}
#define EINSUM(name, samples, spec, sharded, ...) {name, samples, spec, __VA_ARGS__, sharded, 0, 0, 0, 0, 0, 0, 0, 0, 0, false}

static const Row table[] = {
    EINSUM("matmul 128 x 512 x 512", 128, "a,ab->b", 5, {512}, {512, 512}),
    EINSUM("dense, weight [out, in]", 128, "a,ba->b", 5, {512}, {512, 512}),
    EINSUM("dense, data gradient", 128, "b,ba->a", 5, {512}, {512, 512}),
    EINSUM("dense, weight gradient", 128, "b,a->ba", 3, {512}, {512}),
    EINSUM("matmul 1024^3", 1024, "a,ab->b", 5, {1024}, {1024, 1024}),
    EINSUM("dense 784 -> 256", 64, "a,ba->b", 5, {784}, {256, 784}),
    EINSUM("dense 256 -> 10", 64, "a,ba->b", 5, {256}, {10, 256}),
    EINSUM("its data gradient", 64, "b,ba->a", 5, {10}, {10, 256}),
    EINSUM("its weight gradient", 64, "b,a->ba", 3, {10}, {256}),
    EINSUM("one sample, 1024 x 1024", 1, "a,ba->b", 5, {1024}, {1024, 1024}),
    EINSUM("attention q k, 8 heads", 4, "qhd,khd->hqk", 7, {128, 8, 64}, {128, 8, 64}),
    EINSUM("attention p v, 8 heads", 4, "hqk,khd->qhd", 7, {8, 128, 128}, {128, 8, 64}),
    EINSUM("per sample, 16 x 16 x 16", 256, "ab,bc->ac", 7, {16, 16}, {16, 16}),
    EINSUM("outer product of samples", 64, "a,b->ab", 7, {128}, {128}),
    EINSUM("dot of samples", 512, "a,a->", 7, {512}, {512}),
    CONVOLUTION("3x3 c1 -> 32, 28", 64, 28, 3, 1, 32, 1, 1, 1, 1, 1),
    CONVOLUTION("5x5 c1 -> 6, 28", 64, 28, 5, 1, 6, 1, 2, 2, 1, 1),
    CONVOLUTION("5x5 c6 -> 16, 14 valid", 64, 14, 5, 6, 16, 1, 0, 0, 1, 1),
    CONVOLUTION("7x7 c3 -> 64, 224 s2", 2, 224, 7, 3, 64, 2, 3, 3, 1, 1),
    CONVOLUTION("3x3 c3 -> 16, 32", 64, 32, 3, 3, 16, 1, 1, 1, 1, 1),
    CONVOLUTION("3x3 c32 -> 32, 28", 32, 28, 3, 32, 32, 1, 1, 1, 1, 1),
    CONVOLUTION("3x3 c32 -> 64, 14", 64, 14, 3, 32, 64, 1, 1, 1, 1, 1),
    CONVOLUTION("3x3 c64 -> 64, 14", 64, 14, 3, 64, 64, 1, 1, 1, 1, 1),
    CONVOLUTION("3x3 c64 -> 128, 28 s2", 16, 28, 3, 64, 128, 2, 1, 1, 1, 1),
    CONVOLUTION("its data gradient", 16, 14, 3, 128, 64, 1, 1, 2, 2, 1),
    CONVOLUTION("1x1 c64 -> 128, 28 s2", 16, 28, 1, 64, 128, 2, 0, 0, 1, 1),
    CONVOLUTION("its data gradient", 16, 14, 1, 128, 64, 1, 0, 1, 2, 1),
    CONVOLUTION("1x1 c64 -> 256, 28", 16, 28, 1, 64, 256, 1, 0, 0, 1, 1),
    CONVOLUTION("3x3 c256 -> 256, 7", 16, 7, 3, 256, 256, 1, 1, 1, 1, 1),
    CONVOLUTION("3x3 c64 32 groups, 28", 16, 28, 3, 128, 128, 1, 1, 1, 1, 32),
    CONVOLUTION("3x3 depthwise c64, 28", 32, 28, 3, 64, 64, 1, 1, 1, 1, 64),
};

typedef struct Entry { Contraction *plan; Node *node; Tensor *tensor[3]; } Entry;

static Shape shape_from(const int64_t *extents)
{
    Shape shape = {0};
    while (shape.rank < 4 && extents[shape.rank] > 0) {
        shape.extent[shape.rank] = extents[shape.rank];
        shape.rank++;
    }
    return shape;
}

static Node *new_leaf(Graph *graph, Dtype dtype, Shape shape, bool sharded)
{
    Model *model = graph->model;
    if (sharded) {
        model->inputs[model->input_count++] = (Input){.name = "x", .dtype = dtype, .shape = shape, .ignore = -1, .other = -1};
        return graph_input(graph, model->input_count - 1);
    }
    Variable variable = {.name = "w", .kind = WEIGHT, .dtype = dtype, .shape = shape, .owner = -1};
    model->variables[model->variable_count++] = variable;
    return graph_variable(graph, model->variable_count - 1);
}

/* variables of convolutions lie as [k..., c, o], as `layout` would have it */
static Tensor *tensor_of(const Node *node, Variable *variable, int index, bool kernel)
{
    Tensor *tensor = NEW(Tensor);
    *tensor = (Tensor){
        .kind = TENSOR_TEMPORARY, .name = "t", .dtype = node->dtype, .shape = node->shape, .sharded = node->sharded};
    for (int i = 0; variable != NULL && i < node->shape.rank; i++) {
        tensor->kind = TENSOR_VARIABLE;
        tensor->index = index;
        variable->order[i] = !kernel ? i : i < node->shape.rank - 2 ? i + 2 : node->shape.rank - 1 - i;
        tensor->shape.extent[i] = node->shape.extent[variable->order[i]];
    }
    return tensor;
}

static Entry plan_row(const Row *row, Dtype dtype)
{
    Model *model = NEW(Model);
    model->inputs = NEW_ARRAY(Input, 2);
    model->variables = NEW_ARRAY(Variable, 3);
    Graph *graph = graph_new(model, row->name, NULL);
    Entry entry = {0};
    Node *in[2];
    bool weight = row->weight;
    if (row->spec != NULL) {
        in[0] = new_leaf(graph, dtype, shape_from(row->a), row->sharded & 1);
        in[1] = new_leaf(graph, dtype, shape_from(row->b), (row->sharded & 2) != 0);
        entry.node = row->sharded & 4 ? graph_node(graph, OP_EINSUM, in, 2, NULL, 0, row->spec)
                                      : graph_einsum(graph, row->spec, in, 2, true);
    } else {
        int64_t out = ((row->side - 1) * row->spread + row->before + row->after - row->kernel + 1) / row->stride + 1;
        const int64_t ints[] = {2, row->stride, row->stride, row->before, row->before, row->after, row->after, 1, 1,
                                row->spread, row->spread, row->groups, row->kernel, row->kernel};
        in[0] = new_leaf(graph, dtype, SHAPE(row->side, row->side, row->in), true);
        in[1] = weight ? new_leaf(graph, dtype, SHAPE(out, out, row->out), true)
                       : new_leaf(graph, dtype, SHAPE(row->out, row->in / row->groups, row->kernel, row->kernel), false);
        entry.node = graph_node(graph, weight ? OP_CONVOLVE_WEIGHT : OP_CONVOLVE, in, 2, ints, weight ? 14 : 12, NULL);
    }
    int next = 0;
    for (int i = 0; i < 3; i++) {
        const Node *node = i < 2 ? in[i] : entry.node;
        if (i == 2 && !node->sharded)
            model->variable_count++;
        Variable *variable = node->sharded ? NULL : &model->variables[next];
        entry.tensor[i] = tensor_of(node, variable, next, row->spec == NULL);
        next += variable != NULL;
    }
    entry.plan = contraction_plan(entry.node, entry.tensor[0], entry.tensor[1], entry.tensor[2]);
    return entry;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void measure(const Row *row, const Entry *entry, mgpu_kernel_function *kernel)
{
    void *memory[4];
    int64_t per_sample, bytes[4];
    for (int i = 0; i < 3; i++)
        bytes[i] = shape_count(&entry->tensor[i]->shape) * (entry->tensor[i]->sharded ? row->samples : 1) *
                   dtype_bytes(entry->node->dtype);
    bytes[3] = contraction_workspace(entry->plan, &per_sample);
    for (int i = 0; i < 4; i++) {
        memory[i] = aligned_alloc(64, (size_t)(bytes[i] + 63) / 64 * 64);
        memset(memory[i], 0, (size_t)bytes[i]);
    }
    const mgpu_part part = {.samples = row->samples, .end = row->samples, .threads = 1, .first = true};
    double flops, sampled, moved, moved_sampled, best = 1e30, spent = 0;
    contraction_cost(entry->plan, &flops, &sampled, &moved, &moved_sampled);
    flops += sampled * (double)row->samples;
    for (int turn = 0; turn < 5 || (spent < 0.1 && turn < 1000); turn++) {
        double begin = seconds();
        kernel(memory, NULL, &part);
        double time = seconds() - begin;
        spent += time;
        best = time < best ? time : best;
    }
    printf("%-32s %6lld samples %10.1f us %8.1f GFLOP/s\n", row->name, (long long)row->samples, best * 1e6, flops / best * 1e-9);
    for (int i = 0; i < 4; i++)
        free(memory[i]);
}

int main(int argc, char **argv)
{
    Dtype dtype = argc > 1 && strcmp(argv[1], "f32") == 0 ? F32 : F64;
    const mgpu_contract_variant *variant = mgpu_contract_choice(0);
    for (int i = 0; argc > 2 && strcmp(argv[2], variant->name) != 0; i++)
        if ((variant = mgpu_contract_choice(i)) == NULL)
            fail(2, "no instruction set %s here", argv[2]);
    Text text = {0};
    char folder[] = "/tmp/gemm.XXXXXX";
    if (mkdtemp(folder) == NULL)
        fail(3, "no folder for kernels");
    Entry entry[COUNT(table)];
    text_add(&text, "#include \"runtime/mgpu.h\"\n#include \"runtime/contract.h\"\nmgpu_contract_function *contract;\n"
                    "#define mgpu_contract(table, argument, part) contract(table, argument, part, false)\n");
    for (int i = 0; i < COUNT(table); i++) {
        entry[i] = plan_row(&table[i], dtype);
        contraction_print(entry[i].plan, format("kernel%d", i), &text);
    }
    text_add(&text, "mgpu_kernel_function *const kernels[] = {");
    for (int i = 0; i < COUNT(table); i++)
        text_add(&text, "kernel%d, ", i);
    text_add(&text, "};\n");
    FILE *file = fopen(format("%s/kernels.c", folder), "w");
    fwrite(text.data, 1, text.length, file);
    fclose(file);
    if (system(format("cc -O2 -I%s -fPIC -shared -o %s/kernels.so %s/kernels.c", MGPU_SOURCE, folder, folder)) != 0)
        fail(3, "the kernels cannot be built");
    void *handle = dlopen(format("%s/kernels.so", folder), RTLD_NOW);
    if (handle == NULL)
        fail(3, "%s", dlerror());
    *(mgpu_contract_function **)dlsym(handle, "contract") = variant->run;
    mgpu_kernel_function *const *kernels = (mgpu_kernel_function *const *)dlsym(handle, "kernels");
    for (int i = 0; i < COUNT(table); i++)
        if (argc <= 3 || strstr(table[i].name, argv[3]) != NULL)
            measure(&table[i], &entry[i], kernels[i]);
    return system(format("rm -r %s", folder)) != 0;
}
