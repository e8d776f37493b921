/* contraction_test: kernels of compiler/contraction.c against the interpreter.
 *
 * Every case is an EINSUM, CONVOLVE or CONVOLVE_WEIGHT with shapes, shards and memory orders; the first are chosen, the
 * others drawn from a fixed seed. All kernels are printed into one file, which is built and loaded; they run once for every
 * instruction set of the library that this machine has: whole, by ranges of samples, by teams of threads. Buffers are
 * exactly as large as promised and the result holds NaN before the call. */
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

static bool gaps;  /* of the cases that are made: samples of what has any lie apart */
static int narrow; /* of the cases that are made: which of a, b and the result (bits 0, 1, 2) are bf16 */
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
    for (int i = 0; i < 3; i++)
        if (narrow >> i & 1)
            item.tensor[i]->dtype = BF16;
    for (int i = 0; i < 3; i++)
        if (gaps && item.tensor[i]->sharded)
            item.tensor[i]->pitch = 2 * shape_count(&item.tensor[i]->shape) + 7 + i;
    item.name = format("%s%s%s%s%s", name, gaps ? ", with gaps" : "", narrow & 1 ? ", a bf16" : "", narrow & 2 ? ", b bf16" : "", narrow & 4 ? ", c bf16" : "");
    item.plan = contraction_plan(node, item.tensor[0], item.tensor[1], item.tensor[2], gaps);
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
    /* A packed in groups of rows, in several blocks, B in place and packed; rows that collide; A in few rows after the other */
    einsum_case(dtype, "ba,bc->ac", SHAPE(530, 170), SHAPE(530, 64), 0, 1, false);
    einsum_case(dtype, "ba,bc->ac", SHAPE(130, 600), SHAPE(130, 70), 3, 5, false);
    einsum_case(dtype, "ab,bc->ac", SHAPE(40, 1024), SHAPE(1024, 48), 0, 1, false);
    einsum_case(dtype, "ab,cb->ac", SHAPE(300, 200), SHAPE(40, 200), 5, 2, false);
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
    square_case(dtype, 28, 5, (Convolution){1, 2, 2, 1, 1}, 1, 6, 1, 3);
    square_case(dtype, 12, 3, (Convolution){1, 4, 4, 1, 1}, 16, 6, 1, 2);
    square_case(dtype, 15, 4, (Convolution){1, 1, 2, 1, 1}, 5, 3, 1, 2);
    square_case(dtype, 12, 4, (Convolution){1, 1, 2, 1, 2}, 5, 1, 1, 2);
    square_case(dtype, 9, 3, (Convolution){2, 1, 1, 2, 1}, 2, 4, 1, 3);
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

static double from_bf16(uint16_t value)
{
    union { uint32_t bits; float value; } wide = {.bits = (uint32_t)value << 16};
    return (double)wide.value;
}

/* the nearer of the two next to it, the even one in the middle; the slow way */
static uint16_t to_bf16(double value)
{
    union { float value; uint32_t bits; } wide = {.value = (float)value};
    if (isnan(value))
        return 0x7fc0;
    uint16_t below = (uint16_t)(wide.bits >> 16), above = (uint16_t)(below + 1);
    double down = fabs((double)wide.value - from_bf16(below)), up = fabs(from_bf16(above) - (double)wide.value);
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

static void fill(double *values, int64_t count, int seed, Dtype dtype)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)(int64_t)(state >> 40) / (1 << 24) - 0.5;
        if (dtype == F32)
            values[i] = (double)(float)values[i];
        if (dtype == BF16)
            values[i] = from_bf16(to_bf16(values[i]));
    }
}

static bool leaf(void *context, const Node *node, double *out, int64_t count)
{
    const Case *item = context;
    int operand = node == item->node->in[0] ? 0 : 1;
    fill(out, count, operand + 1, item->tensor[operand]->dtype);
    return true;
}

/* the place in memory of logical element i of the tensor of node */
static int64_t place_of(const Case *item, int operand, int64_t i)
{
    const Tensor *tensor = item->tensor[operand];
    const Node *node = operand < 2 ? item->node->in[operand] : item->node;
    int64_t count = shape_count(&node->shape), sample = i / count, at[MAX_RANK] = {0}, place = 0;
    i %= count;
    for (int axis = node->shape.rank - 1; axis >= 0; axis--) {
        at[axis] = i % node->shape.extent[axis];
        i /= node->shape.extent[axis];
    }
    for (int k = 0; k < tensor->shape.rank; k++) {
        int axis = tensor->kind == TENSOR_VARIABLE ? item->graph->model->variables[tensor->index].order[k] : k;
        place = place * tensor->shape.extent[k] + at[axis];
    }
    return sample * tensor_pitch(tensor) + place;
}

static int64_t elements(const Case *item, int operand)
{
    const Tensor *tensor = item->tensor[operand];
    return shape_count(&tensor->shape) * (tensor->sharded ? item->samples : 1);
}

/* elements from the first to the last, with the gaps between */
static int64_t room(const Case *item, int operand)
{
    const Tensor *tensor = item->tensor[operand];
    int64_t count = elements(item, operand);
    return tensor->pitch && count > 0 ? (item->samples - 1) * tensor->pitch + shape_count(&tensor->shape) : count;
}

static void store(void *memory, Dtype dtype, int64_t place, double value)
{
    if (dtype == F64)
        ((double *)memory)[place] = value;
    else if (dtype == BF16)
        ((uint16_t *)memory)[place] = to_bf16(value);
    else
        ((float *)memory)[place] = (float)value;
}

static double fetch(const void *memory, Dtype dtype, int64_t place)
{
    return dtype == F64    ? ((const double *)memory)[place]
           : dtype == BF16 ? from_bf16(((const uint16_t *)memory)[place])
                           : (double)((const float *)memory)[place];
}

typedef struct Run { /* of one case */
    const Case *item;
    mgpu_kernel_function *kernel;
    void *memory[4];
    int64_t workspace, count;
    double limit;
    const double *expected;
    double *first; /* results of the first turn */
} Run;

static void call(Run *run, int64_t begin, int64_t end, int thread, int threads, bool first)
{
    const mgpu_part part = {.samples = run->item->samples, .begin = begin, .end = end, .thread = thread, .threads = threads,
                            .first = first, .stride = run->workspace};
    if (first)
        memset(run->memory[3], 0xff, (size_t)run->workspace);
    run->kernel(run->memory, NULL, &part);
}

static void spoil(Run *run)
{
    for (int64_t i = 0; i < room(run->item, 2); i++)
        store(run->memory[2], run->item->tensor[2]->dtype, i, (double)NAN);
}

static const char *check_element(const Run *run, int64_t i, double value)
{
    double rounding = run->item->tensor[2]->dtype == BF16 ? fabs(run->expected[i]) / 256 : 0;
    return fabs(value - run->expected[i]) <= run->limit + rounding ? NULL
           : format("element %lld is %.17g, not %.17g", (long long)i, value, run->expected[i]);
}

static double result(const Run *run, int64_t i)
{
    return fetch(run->memory[2], run->item->tensor[2]->dtype, place_of(run->item, 2, i));
}

/* nothing is written between samples */
static const char *check_gaps(const Run *run)
{
    const Tensor *tensor = run->item->tensor[2];
    for (int64_t i = 0; i < room(run->item, 2) && tensor->pitch; i++)
        if (i % tensor->pitch >= shape_count(&tensor->shape) && !isnan(fetch(run->memory[2], tensor->dtype, i)))
            return format("place %lld between two samples is written", (long long)i);
    return NULL;
}

/* twice the same call: the same bits */
static const char *run_whole(Run *run)
{
    const char *wrong = NULL;
    for (int turn = 0; turn < 2; turn++) {
        spoil(run);
        call(run, 0, run->item->samples, 0, 1, true);
        for (int64_t i = 0; i < run->count && wrong == NULL; i++) {
            double value = result(run, i);
            wrong = check_element(run, i, value);
            if (wrong == NULL && turn == 1 && value != run->first[i])
                wrong = format("element %lld is %.17g, then %.17g", (long long)i, run->first[i], value);
            run->first[i] = value;
        }
        wrong = wrong ? wrong : check_gaps(run);
    }
    return wrong;
}

/* samples in several calls, the last ones first; no call writes others' elements */
static const char *run_ranges(Run *run)
{
    int64_t samples = run->item->samples, of_sample = run->count / samples, begin, end = samples;
    if (contraction_split(run->item->plan) != MGPU_SPLIT_SAMPLES)
        return NULL;
    spoil(run);
    for (bool first = true; end > 0; end = begin, first = false) {
        begin = end - 1 - draw(end);
        call(run, begin, end, 1, 3, first);
        for (int64_t i = 0; i < run->count; i++) {
            const char *wrong = i < begin * of_sample ? isnan(result(run, i)) ? NULL : format("element %lld is written", (long long)i)
                                                      : check_element(run, i, result(run, i));
            if (wrong != NULL)
                return format("samples %lld to %lld of %lld: %s", (long long)begin, (long long)end, (long long)samples, wrong);
        }
    }
    return NULL;
}

/* every element is written by one thread of a team */
static const char *run_team(Run *run, int threads)
{
    int64_t written = 0;
    for (int thread = 0; thread < threads; thread++) {
        spoil(run);
        call(run, 0, run->item->samples, thread, threads, true);
        for (int64_t i = 0; i < run->count; i++) {
            double value = result(run, i);
            if (isnan(value))
                continue;
            written++;
            const char *wrong = check_element(run, i, value);
            if (wrong != NULL)
                return format("thread %d of %d: %s", thread, threads, wrong);
        }
    }
    return written == run->count ? NULL : format("a team of %d writes %lld elements, not %lld", threads, (long long)written,
                                                 (long long)run->count);
}

/* NULL: as expected; else what is wrong */
static const char *run_case(const Case *item, mgpu_kernel_function *kernel, bool *team, const double *expected)
{
    Run run = {.item = item, .kernel = kernel, .count = elements(item, 2), .expected = expected};
    int64_t per_sample = 0;
    run.workspace = contraction_workspace(item->plan, &per_sample) + per_sample * item->samples;
    run.first = NEW_ARRAY(double, run.count);
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)(room(item, i) * dtype_bytes(item->tensor[i]->dtype));
        run.memory[i] = memset(malloc(bytes + 1), 0xff, bytes); /* NaN */
    }
    run.memory[3] = aligned_alloc(64, (size_t)(run.workspace + 63) / 64 * 64);
    for (int i = 0; i < 2; i++) {
        double *values = NEW_ARRAY(double, elements(item, i));
        fill(values, elements(item, i), i + 1, item->tensor[i]->dtype);
        for (int64_t j = 0; j < elements(item, i); j++)
            store(run.memory[i], item->tensor[i]->dtype, place_of(item, i, j), values[j]);
    }
    double flops, sampled, bytes, byte_samples;
    contraction_cost(item->plan, &flops, &sampled, &bytes, &byte_samples);
    double terms = (flops + sampled * (double)item->samples) / 2 / (double)(run.count > 0 ? run.count : 1);
    run.limit = (item->node->dtype == F64 ? 2e-16 : 1e-7) * (8 + 2 * sqrt(terms));
    *team = false;
    const char *wrong = run_whole(&run);
    if (wrong == NULL)
        wrong = run_ranges(&run);
    *team = true;
    static const int threads[] = {1, 2, 3, 5, 16};
    for (int i = 0; i < COUNT(threads) && wrong == NULL; i++)
        wrong = run_team(&run, threads[i]);
    for (int i = 0; i < 4; i++)
        free(run.memory[i]);
    return wrong;
}

static void as_programs(const mgpu_contraction *table, void *const *argument, const mgpu_part *part, bool team)
{
    (team ? mgpu_contract_team : mgpu_contract)(table, argument, part);
}

static int failures;

typedef struct Library { /* of kernels: what they call, and themselves */
    mgpu_contract_function **contract;
    bool *team; /* call it as mgpu_contract_team */
    mgpu_kernel_function *const *table;
} Library;

static void run_all(const Library *library, const char *name, double **expected)
{
    int wrong_cases = 0;
    for (int i = 0; i < case_count; i++) {
        const char *wrong = run_case(&cases[i], library->table[i], library->team, expected[i]);
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
                   "extern mgpu_contract_function *contract;\nmgpu_contract_function *contract;\n"
                   "extern bool team;\nbool team;\n"
                   "#define mgpu_contract(table, argument, part) contract(table, argument, part, team)\n"
                   "#define mgpu_contract_team(table, argument, part) contract(table, argument, part, true)\n");
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
    library->contract = (mgpu_contract_function **)dlsym(handle, "contract");
    library->team = (bool *)dlsym(handle, "team");
    library->table = (mgpu_kernel_function *const *)dlsym(handle, "table");
    return NULL;
}

/* a NaN and infinities in A's rows stay in their rows of C, bf16 or not */
static void test_nan(void)
{
    enum { M = 40, N = 24, K = 19 };
    static const mgpu_axis axis[] = {{M, K, 0, N, 0, 0}, {N, 0, 1, 1, 0, 0}, {K, 1, N, 0, 0, 0}};
    static uint16_t a[M * K], b[K * N], c[M * N];
    const mgpu_contraction product = {.m = 1, .n = 1, .k = 1, .axis = axis, .type = MGPU_F32, .bf16_a = true, .bf16_b = true,
                                      .bf16_c = true, .copy = MGPU_COPY_BYTES, .sums = MGPU_SUMS_BYTES,
                                      .packed = MGPU_PACKED_BYTES};
    const mgpu_part part = {.samples = 1, .end = 1, .threads = 1, .first = true};
    void *workspace = aligned_alloc(64, MGPU_COPY_BYTES + MGPU_SUMS_BYTES + MGPU_PACKED_BYTES);
    void *argument[] = {a, b, c, workspace};
    for (int i = 0; i < M * K; i++)
        a[i] = to_bf16(0.5);
    for (int i = 0; i < K * N; i++)
        b[i] = to_bf16(0.25);
    a[3 * K + 7] = 0x7f81; /* a NaN whose last bits alone are set */
    a[5 * K + 2] = 0xffff;
    a[30 * K] = 0x7f80;
    const mgpu_contract_variant *variant;
    for (int i = 0; (variant = mgpu_contract_choice(i)) != NULL; i++) {
        bool right = true;
        variant->run(&product, argument, &part, false);
        for (int j = 0; j < M * N; j++) {
            double value = from_bf16(c[j]);
            int row = j / N;
            right = right && (row == 3 || row == 5 ? isnan(value) : row == 30 ? isinf(value) : value == from_bf16(to_bf16(K / 8.0)));
        }
        printf("%s NaN and infinities in bf16, %s\n", right ? "ok" : "not ok", variant->name);
        failures += !right;
    }
    free(workspace);
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
        gaps = true;
        drawn_cases(i == 0 ? F64 : F32, 40);
        gaps = false;
    }
    for (narrow = 1; narrow < 8; narrow++) {
        if (narrow % 4 == 3)
            chosen_cases(F32);
        drawn_cases(F32, 20);
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
        *library.contract = i == 0 ? as_programs : variant->run;
        run_all(&library, variant->name, expected);
    }
    test_nan();
    if (system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
