/* channels_test.c: convolutions of few channels as ones of more (compiler/kernel/fuse/channels.c) mean what they meant, by the
 * interpreter: random ones and the gradients of their weights, in each form that a target may like best; what the cost of GPUs
 * likes. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/target.h"
#include "compiler/target/cuda/cuda.h"
#include "tests/unit/machine.h"

static int64_t liked; /* channels next to each other */
static double cost(const ConvolutionSizes *s) { return fabs((double)(s->channels - liked)) + s->depth * 1e-9; }

static const Target TARGET = {.name = "test", .convolution_cost = cost},
                    GPU = {.name = "gpu", .convolution_cost = cuda_convolution_cost};
static Program likes = {.target = &TARGET}, gpu = {.target = &GPU};

static Node *new_input(Graph *g, Shape shape)
{
    Model *m = g->model;
    APPEND(m->inputs, m->input_count,
           ((Input){.name = format("x%d", m->input_count), .dtype = F32, .shape = shape, .ignore = -1, .other = -1}));
    return graph_input(g, m->input_count - 1);
}

typedef struct Sizes {
    int dims;
    int64_t x[3], taps[3], stride[3], low[3], high[3], dilation[3], input_dilation[3], in, out, groups;
} Sizes;

static Sizes random_sizes(void)
{
    Sizes s = {.dims = 1 + draw(3), .in = 1 + draw(9), .out = 1 + draw(3), .groups = 1};
    if (draw(8) == 0) {
        s.groups = 2;
        s.in *= 2;
        s.out *= 2;
    }
    for (int i = 0; i < s.dims; i++) {
        s.stride[i] = 1 + draw(4);
        s.taps[i] = 1 + draw(i + 1 == s.dims ? 7 : 2);
        s.dilation[i] = draw(4) ? 1 : 2;
        s.input_dilation[i] = draw(6) ? 1 : 2;
        s.low[i] = draw(5) - 1;
        s.high[i] = draw(5) - 1;
        s.x[i] = s.dilation[i] * (s.taps[i] - 1) + 3 + draw(i + 1 == s.dims ? 9 : 2);
    }
    return s;
}

static Node *convolution(Graph *g, const Sizes *s, Node *x, Node *w, Node **gradient)
{
    int r = s->dims;
    int64_t ints[32] = {r};
    const int64_t *const lists[] = {s->stride, s->low, s->high, s->dilation, s->input_dilation};
    for (int l = 0; l < COUNT(lists); l++)
        memcpy(&ints[1 + l * r], lists[l], sizeof *ints * (size_t)r);
    ints[1 + 5 * r] = s->groups;
    Node *y = NODE(g, OP_CONVOLVE, ints, 2 + 5 * r, NULL, x, w);
    memcpy(&ints[2 + 5 * r], s->taps, sizeof *ints * (size_t)r);
    *gradient = graph_convolve_weight(g, x, graph_binary(g, OP_MUL, y, y), ints, 2 + 6 * r, true);
    return y;
}

/* x is read by others, too, or not */
static Graph *graph_of(Model *m, const Sizes *s)
{
    Graph *g = graph_new(m, "train", NULL);
    Shape x_shape = {.rank = s->dims + 1}, w_shape = {.rank = s->dims + 2, .extent = {s->out, s->in / s->groups}};
    for (int i = 0; i < s->dims; i++) {
        x_shape.extent[i] = s->x[i];
        w_shape.extent[2 + i] = s->taps[i];
    }
    x_shape.extent[s->dims] = s->in;
    int w = add_variable(m, "w", WEIGHT, w_shape);
    Node *gradient, *x = graph_cast(g, graph_unary(g, OP_SIN, new_input(g, x_shape)), m->precision),
                    *weight = graph_cast(g, graph_variable(g, w), m->precision);
    graph_result(g, ROLE_OUTPUT, "y", 0, convolution(g, s, x, weight, &gradient), NULL);
    graph_result(g, ROLE_UPDATE, NULL, w, gradient, NULL);
    if (draw(2))
        graph_result(g, ROLE_OUTPUT, "x", 1, x, NULL);
    return g;
}

static const char *compare(Model *m, const Graph *a, const Graph *b)
{
    Machine machine = machine_of(m, 3, 4);
    set_variables(&machine);
    Outcome x = machine_run(&machine, (Graph *)a, false), y = machine_run(&machine, (Graph *)b, false);
    for (int i = 0; i < a->result_count; i++) {
        const Node *p = a->results[i].value, *q = b->results[i].value;
        if (p->has_samples != q->has_samples || !shape_equal(&p->shape, &q->shape) || p->dtype != q->dtype)
            return format("result %d is another kind of value", i);
        int64_t count = shape_count(&p->shape) * (p->has_samples ? machine.valid[0] : 1);
        for (int64_t k = 0; k < count; k++)
            if (!near(x.values[i][k], y.values[i][k], 1e-13))
                return format("result %d, element %lld: %.17g and %.17g", i, (long long)k, x.values[i][k], y.values[i][k]);
    }
    return NULL;
}

/* channels, and taps along the last axis, of both convolutions; 0: they are not alike */
static int64_t channels_of(const Graph *g, int64_t *taps)
{
    int64_t found[2] = {0}, along[2] = {0};
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        bool weight = n->op == OP_CONVOLVE_WEIGHT;
        const Shape *w = weight ? &n->shape : n->op == OP_CONVOLVE ? &n->in[1]->shape : NULL;
        if (w) {
            found[weight] = w->extent[1];
            along[weight] = w->extent[w->rank - 1];
        }
    }
    *taps = along[0];
    return found[0] == found[1] && along[0] == along[1] ? found[0] : 0;
}

static void test_random(int seeds)
{
    int padded = 0, joined = 0;
    const char *why = NULL;
    for (int seed = 0; seed < seeds && !why; seed++) {
        random_state = (uint64_t)seed + 1;
        Sizes s = random_sizes();
        Model *m = toy_model();
        m->precision = draw(2) ? F32 : F64;
        Graph *g = distribute(graph_of(m, &s)), *to;
        liked = 1 + draw(16);
        to = fuse_fold_channels(&likes, g);
        int64_t taps, channels = channels_of(to, &taps);
        why = !channels ? "forward and gradient differ" : compare(m, g, to);
        padded += channels > s.in / s.groups;
        joined += taps != s.taps[s.dims - 1];
        if (why)
            fprintf(stderr, "seed %d\n", seed);
    }
    check(!why, "channels.random", why);
    check(padded > seeds / 4 && joined > seeds / 16, "channels.forms",
          format("%d of %d with other channels, %d with other taps", padded, seeds, joined));
}

/* ---- what GPUs gain by */

static void test_cost(const char *name, Dtype precision, int batch, Sizes s, int64_t channels, int64_t taps)
{
    Model *m = toy_model();
    m->batch = batch;
    m->precision = precision;
    Graph *g = distribute(graph_of(m, &s));
    int64_t t, c = channels_of(fuse_fold_channels(&gpu, g), &t);
    check(c == channels && t == taps, format("channels.cost.%s", name),
          format("%lld channels, %lld taps", (long long)c, (long long)t));
}

int main(void)
{
    const char *full = getenv("MGPU_FULL");
    test_random(full && *full ? 4000 : 300);
    Sizes stem = {2, {224, 224}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}, {1, 1}, 3, 64, 1};
    test_cost("stem", BF16, 256, stem, 8, 4);
    test_cost("f32", F32, 256, stem, 3, 7);
    test_cost("few samples", BF16, 1, stem, 3, 7);
    Sizes patches = {2, {224, 224}, {4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, 3, 96, 1};
    test_cost("patches", BF16, 128, patches, 12, 1);
    Sizes wide = {2, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 64, 64, 1};
    test_cost("whole vectors", BF16, 256, wide, 64, 3);
    return failures > 0;
}
