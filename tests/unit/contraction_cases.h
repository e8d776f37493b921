/* contraction_cases.h: contractions to test: an EINSUM, CONVOLVE or CONVOLVE_WEIGHT each, with shapes, shards, memory orders, and
 * values. Some are chosen, the others drawn from a fixed seed. */
#ifndef CONTRACTION_CASES_H
#define CONTRACTION_CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"

/* runtime/base/dtype.c: the slow way, which shares nothing with the contractions' */
double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);

typedef struct Case {
    const char *name;
    Contraction *plan;
    Graph *graph;
    Node *node;
    Tensor *tensor[3];
    int64_t samples;
} Case;

static bool gaps;      /* of the cases that are made: samples of what has any lie apart */
static bool reversals; /* of the cases that are made: taps of every second weight are stored in reverse */
static int narrow;     /* of the cases that are made: which of a, b and the result (bits 0, 1, 2) are `half` */
static Dtype half = BF16;
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

static Node *new_leaf(Graph *graph, const char *name, Dtype dtype, Shape shape, bool has_samples, bool shuffle)
{
    Model *model = graph->model;
    if (!has_samples) {
        new_variable(model, name, dtype, shape, shuffle);
        return graph_variable(graph, model->variable_count - 1);
    }
    model->inputs[model->input_count++] = (Input){.name = name, .dtype = dtype, .shape = shape, .ignore = -1, .other = -1};
    return graph_input(graph, model->input_count - 1);
}

static Tensor *tensor_of(Graph *graph, const char *name, Node *node, int variable)
{
    Tensor *tensor = NEW(Tensor);
    *tensor = (Tensor){.kind = TENSOR_TEMPORARY,
                       .name = name,
                       .dtype = node->dtype,
                       .shape = node->shape,
                       .has_samples = node->has_samples,
                       .node = node};
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
        item.tensor[i] =
            tensor_of(graph, i == 0 ? "a" : "b", node->in[i], node->in[i]->op == OP_VARIABLE ? (int)node->in[i]->ints[0] : -1);
    for (int k = 0; k < node->in[1]->shape.rank && node->op == OP_CONVOLVE && reversals; k++)
        if (graph->model->variables[item.tensor[1]->index].order[k] >= 2 && case_count % 2)
            item.tensor[1]->reversed |= 1U << k;
    int result = -1;
    if (!node->has_samples) {
        new_variable(graph->model, "c", node->dtype, node->shape, shuffle);
        result = graph->model->variable_count - 1;
    }
    item.tensor[2] = tensor_of(graph, "c", node, result);
    for (int i = 0; i < 3; i++)
        if (narrow >> i & 1)
            item.tensor[i]->dtype = half;
    for (int i = 0; i < 3; i++)
        if (gaps && item.tensor[i]->has_samples)
            item.tensor[i]->pitch = 2 * shape_count(&item.tensor[i]->shape) + 7 + i;
    item.name = format("%s%s%s%s%s%s%s%s", name, item.tensor[1]->reversed ? " reversed" : "", gaps ? ", with gaps" : "",
                       narrow & 1 ? ", a" : "", narrow & 2 ? ", b" : "", narrow & 4 ? ", c" : "", narrow ? " " : "",
                       narrow ? dtype_name(half) : "");
    item.plan = contraction_plan(node, item.tensor[0], item.tensor[1], item.tensor[2], gaps);
    APPEND(cases, case_count, item);
}

/* has_samples: bit 0: a, bit 1: b, bit 2: the result */
static void einsum_case(Dtype dtype, const char *spec, Shape a, Shape b, int has_samples, int64_t samples, bool shuffle)
{
    Graph *graph = graph_new(new_model(), "test", NULL);
    Node *in[2];
    in[0] = new_leaf(graph, "a", dtype, a, has_samples & 1, shuffle);
    in[1] = new_leaf(graph, "b", dtype, b, (has_samples & 2) != 0, shuffle);
    Node *node = graph_node(graph, OP_EINSUM, in, 2, NULL, 0, spec);
    if ((has_samples & 3) != 0 && !(has_samples & 4))
        node = graph_einsum(graph, spec, in, 2, true);
    static const char *const where[] = {"", " a[n]", " b[n]", " a[n] b[n]"};
    add_case(format("%s %s, %s %s%s%s n=%lld", dtype_name(dtype), spec, shape_text(&a), shape_text(&b), where[has_samples & 3],
                    has_samples & 4 ? " c[n]" : "", (long long)samples),
             graph, node, samples, shuffle);
}

typedef struct Convolution {
    int64_t stride, before, after, dilation, input_dilation;
} Convolution;

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
        const int64_t attributes[] = {window[d].stride, window[d].before, window[d].after, window[d].dilation,
                                      window[d].input_dilation};
        for (int i = 0; i < 5; i++)
            ints[1 + i * dims + d] = attributes[i];
        int64_t padded = (extent[d] - 1) * window[d].input_dilation + 1 + window[d].before + window[d].after;
        y.extent[d] = (padded - (kernel[d] - 1) * window[d].dilation - 1) / window[d].stride + 1;
        text_add(&name, " [%lld k%lld s%lld p%lld,%lld d%lld u%lld]", (long long)extent[d], (long long)kernel[d],
                 (long long)window[d].stride, (long long)window[d].before, (long long)window[d].after,
                 (long long)window[d].dilation, (long long)window[d].input_dilation);
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
        convolution_case(dtype, 2, (int64_t[]){side, side}, (int64_t[]){kernel, kernel}, (Convolution[]){window, window}, in, out,
                         groups, weight, samples, true);
}

static void chosen_cases(Dtype dtype)
{
    const Convolution same = {1, 1, 1, 1, 1}, valid = {1, 0, 0, 1, 1}, strided = {2, 1, 1, 1, 1},
                      input_dilation = {1, 1, 2, 1, 2};
    einsum_case(dtype, "a,ba->b", SHAPE(37), SHAPE(29, 37), 5, 33, true);
    einsum_case(dtype, "a,ab->b", SHAPE(337), SHAPE(337, 10), 5, 3, false);
    einsum_case(dtype, "a,b->ba", SHAPE(37), SHAPE(29), 3, 700, true);
    einsum_case(dtype, "ab,bc->ac", SHAPE(70, 650), SHAPE(650, 33), 0, 1, true);
    einsum_case(dtype, "ab,bc->ac", SHAPE(3, 2), SHAPE(2, 530), 5, 2, false);
    /* A packed in groups of rows, in several blocks, B in place and packed; rows that collide; A in few rows after the other */
    einsum_case(dtype, "ba,bc->ac", SHAPE(530, 170), SHAPE(530, 64), 0, 1, false);
    einsum_case(dtype, "ba,bc->ac", SHAPE(130, 600), SHAPE(130, 70), 3, 5, false);
    einsum_case(dtype, "ab,a->b", SHAPE(10, 128), SHAPE(10), 6, 128, false);
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
    square_case(dtype, 5, 3, input_dilation, 12, 20, 1, 2);
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
        convolution_case(dtype, 3, box, box_kernel, (Convolution[]){same, input_dilation, strided}, 5, 7, 1, weight, 2, true);
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
            int64_t room = (extent[d] - 1) * window[d].input_dilation + 1 + window[d].before + window[d].after;
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

/* ---- values */

static double from_bf16(uint16_t value)
{
    union {
        uint32_t bits;
        float value;
    } wide = {.bits = (uint32_t)value << 16};
    return (double)wide.value;
}

/* the nearer of the two next to it, the even one in the middle; the slow way */
static uint16_t to_bf16(double value)
{
    union {
        float value;
        uint32_t bits;
    } wide = {.value = (float)value};
    if (isnan(value))
        return 0x7fc0;
    uint16_t below = (uint16_t)(wide.bits >> 16), above = (uint16_t)(below + 1);
    double down = fabs((double)wide.value - from_bf16(below)), up = fabs(from_bf16(above) - (double)wide.value);
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

static void fill(double *values, int64_t count, int seed, Dtype dtype)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    uint16_t bits;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)(int64_t)(state >> 40) / (1 << 24) - 0.5;
        if (dtype == F32)
            values[i] = (double)(float)values[i];
        if (dtype == BF16)
            values[i] = from_bf16(to_bf16(values[i]));
        if (dtype == F16)
            mgpu_from_double(&bits, MGPU_F16, 0, values[i]), values[i] = mgpu_to_double(&bits, MGPU_F16, 0);
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
        place = place * tensor->shape.extent[k] + (tensor->reversed >> k & 1 ? tensor->shape.extent[k] - 1 - at[axis] : at[axis]);
    }
    return sample * tensor_pitch(tensor) + place;
}

static int64_t elements(const Case *item, int operand)
{
    const Tensor *tensor = item->tensor[operand];
    return shape_count(&tensor->shape) * (tensor->has_samples ? item->samples : 1);
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
    else if (dtype == F16)
        mgpu_from_double(memory, MGPU_F16, place, value);
    else
        ((float *)memory)[place] = (float)value;
}

static double fetch(const void *memory, Dtype dtype, int64_t place)
{
    return dtype == F64    ? ((const double *)memory)[place]
           : dtype == BF16 ? from_bf16(((const uint16_t *)memory)[place])
           : dtype == F16  ? mgpu_to_double(memory, MGPU_F16, place)
                           : (double)((const float *)memory)[place];
}
#endif
