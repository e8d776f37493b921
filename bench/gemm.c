/* gemm: GFLOP/s of the contraction kernels for the layers of the example networks: forward, the gradient of the input (dX;
 * not of images) and of the weight (dW).
 *
 * usage: gemm [f32 | f64 | bf16] [all | base | avx2 | avx512] [network] [samples of one call] [threads]
 *        default: f32, the best instruction set that there is, all networks, the whole batch in one call, one thread
 * build: ninja gemm in the build folder makes bench/gemm there
 * Every kernel is planned, printed, built and called as mgpuc would do it; the best of several turns counts. With a number
 * of samples (0: all), a turn is as many calls as the batch needs; only the first of them packs the weight. "cold" is the
 * first call of a turn alone where there are several. Seconds are of the first thread's own time, from when all begin; with
 * several threads they are of the clock on the wall, until the last one is through. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"
#include "runtime/host/contract.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

typedef struct Layer {
    const char *network;
    int64_t samples;
    /* dense: tokens of a sample, features in and out; convolution: side, kernel, channels in and out, stride, padding */
    int64_t tokens, in, out, side, kernel, stride, before, after, groups;
    const char *spec; /* of an einsum whose operands and result all have samples, with the extents of a and b */
    int64_t a[4], b[4];
} Layer;

/* clang-format off */
#define DENSE(network, samples, tokens, in, out) {network, samples, tokens, in, out, 0, 0, 0, 0, 0, 0, NULL, {0}, {0}}
#define CONV(network, samples, side, kernel, in, out, stride, before, after, groups) \
    {network, samples, 0, in, out, side, kernel, stride, before, after, groups, NULL, {0}, {0}}
#define EINSUM(network, samples, spec, ...) {network, samples, 0, 0, 0, 0, 0, 0, 0, 0, 0, spec, __VA_ARGS__}
/* clang-format on */

static const Layer layers[] = {
    DENSE("mlp", 128, 1, 784, 512),
    DENSE("mlp", 128, 1, 512, 512),
    DENSE("mlp", 128, 1, 512, 10),
    DENSE("mlp32", 32, 1, 784, 512),
    DENSE("mlp32", 32, 1, 512, 512),
    DENSE("mlp32", 32, 1, 512, 10),
    CONV("lenet5", 128, 28, 5, 1, 6, 1, 2, 2, 1),
    CONV("lenet5", 128, 14, 5, 6, 16, 1, 0, 0, 1),
    DENSE("lenet5", 128, 1, 400, 120),
    DENSE("lenet5", 128, 1, 120, 84),
    DENSE("lenet5", 128, 1, 84, 10),
    CONV("mnist_cnn", 128, 28, 3, 1, 32, 1, 0, 0, 1),
    CONV("mnist_cnn", 128, 26, 3, 32, 64, 1, 0, 0, 1),
    DENSE("mnist_cnn", 128, 1, 9216, 128),
    CONV("cnn7", 64, 128, 3, 3, 32, 1, 1, 1, 1),
    CONV("cnn7", 64, 64, 3, 32, 32, 1, 1, 1, 1),
    CONV("cnn7", 64, 32, 3, 32, 64, 1, 1, 1, 1),
    CONV("cnn7", 64, 16, 3, 64, 64, 1, 1, 1, 1),
    CONV("cnn7", 64, 8, 3, 64, 128, 1, 1, 1, 1),
    DENSE("cnn7", 64, 1, 2048, 128),
    CONV("resnet20", 128, 32, 3, 3, 16, 1, 1, 1, 1),
    CONV("resnet20", 128, 32, 3, 16, 16, 1, 1, 1, 1),
    CONV("resnet20", 128, 32, 3, 16, 32, 2, 0, 1, 1),
    CONV("resnet20", 128, 32, 1, 16, 32, 2, 0, 0, 1),
    CONV("resnet20", 128, 16, 3, 32, 32, 1, 1, 1, 1),
    CONV("resnet20", 128, 16, 3, 32, 64, 2, 0, 1, 1),
    CONV("resnet20", 128, 8, 3, 64, 64, 1, 1, 1, 1),
    CONV("resnet50", 16, 224, 7, 3, 64, 2, 2, 3, 1),
    CONV("resnet50", 16, 56, 1, 64, 64, 1, 0, 0, 1),
    CONV("resnet50", 16, 56, 3, 64, 64, 1, 1, 1, 1),
    CONV("resnet50", 16, 56, 1, 64, 256, 1, 0, 0, 1),
    CONV("resnet50", 16, 56, 1, 256, 64, 1, 0, 0, 1),
    CONV("resnet50", 16, 56, 3, 128, 128, 2, 0, 1, 1),
    CONV("resnet50", 16, 28, 3, 128, 128, 1, 1, 1, 1),
    CONV("resnet50", 16, 28, 1, 128, 512, 1, 0, 0, 1),
    CONV("resnet50", 16, 28, 1, 512, 128, 1, 0, 0, 1),
    CONV("resnet50", 16, 56, 1, 256, 512, 2, 0, 0, 1),
    CONV("resnet50", 16, 14, 3, 256, 256, 1, 1, 1, 1),
    CONV("resnet50", 16, 14, 1, 256, 1024, 1, 0, 0, 1),
    CONV("resnet50", 16, 14, 1, 1024, 256, 1, 0, 0, 1),
    CONV("resnet50", 16, 7, 3, 512, 512, 1, 1, 1, 1),
    CONV("resnet50", 16, 7, 1, 512, 2048, 1, 0, 0, 1),
    CONV("resnet50", 16, 7, 1, 2048, 512, 1, 0, 0, 1),
    DENSE("resnet50", 16, 1, 2048, 1000),
    DENSE("gpt_mini", 16, 256, 384, 1152),
    DENSE("gpt_mini", 16, 256, 384, 1536),
    DENSE("gpt_mini", 16, 256, 1536, 384),
    DENSE("gpt_mini", 16, 256, 384, 65),
    EINSUM("gpt_mini", 16, "qhd,khd->hqk", {256, 6, 64}, {256, 6, 64}),
    EINSUM("gpt_mini", 16, "hqk,khd->qhd", {6, 256, 256}, {256, 6, 64}),
    DENSE("gpt2", 4, 64, 768, 2304),
    DENSE("gpt2", 4, 64, 768, 768),
    DENSE("gpt2", 4, 64, 768, 3072),
    DENSE("gpt2", 4, 64, 3072, 768),
    DENSE("gpt2", 4, 64, 768, 50257),
    EINSUM("gpt2", 4, "qhd,khd->hqk", {64, 12, 64}, {64, 12, 64}),
    EINSUM("gpt2", 4, "hqk,khd->qhd", {12, 64, 64}, {64, 12, 64}),
    DENSE("square", 256, 1, 256, 256),
    DENSE("square", 1024, 1, 1024, 1024),
    DENSE("square", 1, 1, 1024, 1024),
    DENSE("square", 2048, 1, 2048, 2048),
    EINSUM("small", 256, "ab,bc->ac", {16, 16}, {16, 16}),
    EINSUM("small", 64, "a,b->ab", {128}, {128}),
    EINSUM("small", 512, "a,a->", {512}, {512}),
    CONV("groups", 16, 28, 3, 128, 128, 1, 1, 1, 32),
    CONV("groups", 32, 28, 3, 64, 64, 1, 1, 1, 64),
};

typedef enum Direction { FORWARD, INPUT, WEIGHT_OF, DIRECTIONS } Direction;
typedef struct Entry {
    const char *name;
    Contraction *plan;
    Node *node;
    Tensor *tensor[3];
    int64_t samples;
    const Layer *layer;
} Entry;

static Shape shape_from(const int64_t *extents)
{
    Shape shape = {0};
    while (shape.rank < 4 && extents[shape.rank] > 0) {
        shape.extent[shape.rank] = extents[shape.rank];
        shape.rank++;
    }
    return shape;
}

static Node *new_leaf(Graph *graph, Dtype dtype, Shape shape, bool has_samples)
{
    Model *model = graph->model;
    if (has_samples) {
        model->inputs[model->input_count++] = (Input){.name = "x", .dtype = dtype, .shape = shape, .ignore = -1, .other = -1};
        return graph_input(graph, model->input_count - 1);
    }
    Variable variable = {.name = "w", .kind = WEIGHT, .dtype = dtype, .shape = shape, .owner = -1};
    model->variables[model->variable_count++] = variable;
    return graph_variable(graph, model->variable_count - 1);
}

/* variables of convolutions lie as [k..., c, o], as `layout` would have it; but not those that are turned for dX */
static Tensor *tensor_of(const Node *node, Variable *variable, int index, bool kernel, Dtype dtype)
{
    Tensor *tensor = NEW(Tensor);
    *tensor =
        (Tensor){.kind = TENSOR_TEMPORARY, .name = "t", .dtype = dtype, .shape = node->shape, .has_samples = node->has_samples};
    for (int i = 0; variable != NULL && i < node->shape.rank; i++) {
        tensor->kind = TENSOR_VARIABLE;
        tensor->index = index;
        variable->order[i] = !kernel ? i : i < node->shape.rank - 2 ? i + 2 : node->shape.rank - 1 - i;
        tensor->shape.extent[i] = node->shape.extent[variable->order[i]];
    }
    return tensor;
}

static Node *plan_convolution(Graph *graph, const Layer *l, Direction direction, Dtype dtype, Node **in)
{
    int64_t out = (l->side + l->before + l->after - l->kernel) / l->stride + 1, before = l->before, after = l->after;
    int64_t stride = l->stride, spread = 1, from = l->in, to = l->out, k = l->kernel, side = l->side;
    if (direction == INPUT) {
        before = k - 1 - l->before;
        after = l->side - ((out - 1) * stride + 1) + l->before;
        spread = stride;
        stride = 1;
        from = l->out;
        to = l->in;
        side = out;
    }
    const int64_t ints[] = {2, stride, stride, before, before, after, after, 1, 1, spread, spread, l->groups, k, k};
    in[0] = new_leaf(graph, dtype, SHAPE(side, side, from), true);
    in[1] = direction == WEIGHT_OF ? new_leaf(graph, dtype, SHAPE(out, out, to), true)
                                   : new_leaf(graph, dtype, SHAPE(to, from / l->groups, k, k), false);
    return graph_node(graph, direction == WEIGHT_OF ? OP_CONVOLVE_WEIGHT : OP_CONVOLVE, in, 2, ints,
                      direction == WEIGHT_OF ? 14 : 12, NULL);
}

static Node *plan_dense(Graph *graph, const Layer *l, Direction direction, Dtype dtype, Node **in)
{
    static const char *const spec[DIRECTIONS][2] = {{"i,oi->o", "ti,oi->to"}, {"o,oi->i", "to,oi->ti"}, {"o,i->oi", "to,ti->oi"}};
    const char *text = spec[direction][l->tokens > 1];
    int64_t first = direction == FORWARD ? l->in : l->out;
    in[0] = new_leaf(graph, dtype, l->tokens > 1 ? SHAPE(l->tokens, first) : SHAPE(first), true);
    if (direction == WEIGHT_OF) {
        in[1] = new_leaf(graph, dtype, l->tokens > 1 ? SHAPE(l->tokens, l->in) : SHAPE(l->in), true);
        return graph_einsum(graph, text, in, 2, true);
    }
    in[1] = new_leaf(graph, dtype, SHAPE(l->out, l->in), false);
    return graph_node(graph, OP_EINSUM, in, 2, NULL, 0, text);
}

static Entry plan_layer(const Layer *l, Direction direction, Dtype dtype, Dtype stored)
{
    static const char *const name[] = {"", " dX", " dW"};
    Model *model = NEW(Model);
    model->inputs = NEW_ARRAY(Input, 2);
    model->variables = NEW_ARRAY(Variable, 3);
    model->batch = l->samples;
    Graph *graph = graph_new(model, l->network, NULL);
    Entry entry = {.samples = l->samples, .layer = l};
    Node *in[2];
    if (l->spec != NULL) {
        in[0] = new_leaf(graph, dtype, shape_from(l->a), true);
        in[1] = new_leaf(graph, dtype, shape_from(l->b), true);
        entry.node = graph_node(graph, OP_EINSUM, in, 2, NULL, 0, l->spec);
        entry.name = l->spec;
    } else if (l->kernel > 0) {
        entry.node = plan_convolution(graph, l, direction, dtype, in);
        entry.name = format("%lldx%lld, %lld -> %lld, %lld%s%s%s", (long long)l->kernel, (long long)l->kernel, (long long)l->in,
                            (long long)l->out, (long long)l->side, l->stride > 1 ? " s2" : "",
                            l->groups > 1 ? format(" g%lld", (long long)l->groups) : "", name[direction]);
    } else {
        entry.node = plan_dense(graph, l, direction, dtype, in);
        entry.name = format("dense %lld -> %lld%s", (long long)l->in, (long long)l->out, name[direction]);
    }
    int next = 0;
    for (int i = 0; i < 3; i++) {
        const Node *node = i < 2 ? in[i] : entry.node;
        if (i == 2 && !node->has_samples)
            model->variable_count++;
        Variable *variable = node->has_samples ? NULL : &model->variables[next];
        /* gradients of weights are not rounded */
        entry.tensor[i] =
            tensor_of(node, variable, next, l->kernel > 0 && direction != INPUT, i == 2 && variable ? dtype : stored);
        next += variable != NULL;
    }
    entry.plan = contraction_plan(entry.node, entry.tensor[0], entry.tensor[1], entry.tensor[2], false);
    return entry;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* in large pages, as arenas are */
static void *memory_of(int64_t bytes)
{
    enum { PAGE = 2 << 20 };
    size_t size = ((size_t)bytes + PAGE) / PAGE * PAGE;
    void *memory = aligned_alloc(PAGE, size);
    if (memory == NULL)
        fail(3, "no memory");
    madvise(memory, size, MADV_HUGEPAGE);
    return memset(memory, 0, size);
}

enum { MOST_THREADS = 64 };

typedef struct Turns { /* what the threads share */
    mgpu_kernel_function *kernel;
    void *memory[3];
    int64_t workspace, samples, some;
    bool by_sample;
    int threads;
    pthread_barrier_t all;
    double best, cold;
} Turns;

typedef struct Worker {
    Turns *turns;
    int thread;
} Worker;

/* one turn of one thread; seconds of its first call */
static double turn_of(const Turns *t, int thread, void *workspace, clockid_t clock)
{
    void *memory[] = {t->memory[0], t->memory[1], t->memory[2], workspace};
    int64_t from = t->by_sample ? t->samples * thread / t->threads : 0;
    int64_t to = t->by_sample ? t->samples * (thread + 1) / t->threads : t->samples;
    double begin = seconds(clock), cold = 0;
    for (int64_t i = from; i < to; i += t->some) {
        const mgpu_part part = {.samples = t->samples,
                                .begin = i,
                                .end = i + t->some < to ? i + t->some : to,
                                .thread = thread,
                                .threads = t->threads,
                                .first = i == from};
        t->kernel(memory, NULL, &part);
        cold = i == from ? seconds(clock) - begin : cold;
    }
    return cold;
}

static void *take_turns(void *given)
{
    Worker *worker = given;
    Turns *t = worker->turns;
    clockid_t clock = t->threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    void *workspace = memory_of(t->workspace);
    double end = seconds(CLOCK_MONOTONIC) + 0.2; /* of the turns: more than a few only if they are short */
    static bool more;
    for (int turn = 0;; turn++) {
        if (worker->thread == 0)
            more = turn < 4 || (seconds(CLOCK_MONOTONIC) < end && turn < 1000);
        pthread_barrier_wait(&t->all);
        if (!more)
            break;
        double begin = seconds(clock), cold = turn_of(t, worker->thread, workspace, clock);
        pthread_barrier_wait(&t->all);
        double time = seconds(clock) - begin;
        if (worker->thread == 0) {
            t->best = time < t->best ? time : t->best;
            t->cold = cold < t->cold ? cold : t->cold;
        }
    }
    free(workspace);
    return NULL;
}

/* seconds of the whole batch */
static double measure(const Entry *entry, mgpu_kernel_function *kernel, int64_t some, int threads, double *flops)
{
    Turns turns = {.kernel = kernel, .samples = entry->samples, .some = some, .threads = threads, .best = 1e30, .cold = 1e30};
    int64_t per_sample;
    for (int i = 0; i < 3; i++) {
        int64_t bytes = shape_count(&entry->tensor[i]->shape) * (entry->tensor[i]->has_samples ? entry->samples : 1) *
                        dtype_bytes(entry->tensor[i]->dtype);
        turns.memory[i] = memory_of(bytes);
    }
    turns.workspace = contraction_workspace(entry->plan, &per_sample);
    turns.by_sample = contraction_split(entry->plan) == MGPU_SPLIT_SAMPLES;
    double sampled, moved, moved_sampled;
    contraction_cost(entry->plan, flops, &sampled, &moved, &moved_sampled);
    *flops += sampled * (double)entry->samples;
    if (some <= 0 || !turns.by_sample)
        turns.some = entry->samples;
    Worker worker[MOST_THREADS];
    pthread_t others[MOST_THREADS];
    pthread_barrier_init(&turns.all, NULL, (unsigned)threads);
    for (int i = threads - 1; i >= 0; i--) {
        worker[i] = (Worker){&turns, i};
        if (i > 0 && pthread_create(&others[i], NULL, take_turns, &worker[i]) != 0)
            fail(3, "no thread");
    }
    take_turns(&worker[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    pthread_barrier_destroy(&turns.all);
    printf("%-10s %-26s %5lld samples %10.1f us %7.1f GFLOP/s", entry->layer->network, entry->name, (long long)entry->samples,
           turns.best * 1e6, *flops / turns.best * 1e-9);
    if (turns.some * threads < entry->samples)
        printf(", cold %.1f us", turns.cold * 1e6);
    printf("\n");
    for (int i = 0; i < 3; i++)
        free(turns.memory[i]);
    return turns.best;
}

int main(int argc, char **argv)
{
    Dtype dtype = argc > 1 && strcmp(argv[1], "f64") == 0 ? F64 : F32;
    Dtype stored = argc > 1 && strcmp(argv[1], "bf16") == 0 ? BF16 : dtype;
    const mgpu_contract_variant *variant = mgpu_contract_choice(0);
    for (int i = 0; argc > 2 && strcmp(argv[2], "all") != 0 && strcmp(argv[2], variant->name) != 0; i++)
        if ((variant = mgpu_contract_choice(i)) == NULL)
            fail(2, "no instruction set %s here", argv[2]);
    int threads = argc > 5 ? atoi(argv[5]) : 1;
    if (threads < 1 || threads > MOST_THREADS)
        fail(2, "1 to %d threads", MOST_THREADS);
    Text text = {0};
    char folder[] = "/tmp/gemm.XXXXXX";
    if (mkdtemp(folder) == NULL)
        fail(3, "no folder for kernels");
    Entry entry[COUNT(layers) * DIRECTIONS];
    int count = 0;
    text_add(&text, "#include \"runtime/abi/mgpu.h\"\n#include \"runtime/host/contract.h\"\nmgpu_contract_function *contract;\n"
                    "#define mgpu_contract(table, argument, part) contract(table, argument, part, false)\n"
                    "#define mgpu_contract_shared(table, argument, part) contract(table, argument, part, true)\n");
    for (int i = 0; i < COUNT(layers); i++)
        for (int d = 0; d < (layers[i].spec ? 1 : DIRECTIONS); d++) {
            /* nobody asks for the gradient of an image */
            bool needed = d != INPUT || layers[i].kernel == 0 || layers[i].in > 3;
            if (needed && (argc <= 3 || strcmp(layers[i].network, argv[3]) == 0)) {
                entry[count] = plan_layer(&layers[i], (Direction)d, dtype, stored);
                contraction_print(entry[count].plan, format("kernel%d", count), &text);
                count++;
            }
        }
    text_add(&text, "mgpu_kernel_function *const kernels[] = {");
    for (int i = 0; i < count; i++)
        text_add(&text, "kernel%d, ", i);
    text_add(&text, "0};\n");
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
    double time = 0, work = 0, flops;
    for (int i = 0; i < count; i++) {
        time += measure(&entry[i], kernels[i], argc > 4 ? atoll(argv[4]) : 0, threads, &flops);
        work += flops;
        if (i == count - 1 || entry[i + 1].layer->network != entry[i].layer->network) {
            printf("%-10s %-26s %24.1f us %7.1f GFLOP/s\n\n", entry[i].layer->network, "each once", time * 1e6,
                   work / time * 1e-9);
            time = work = 0;
        }
    }
    return system(format("rm -r %s", folder)) != 0;
}
