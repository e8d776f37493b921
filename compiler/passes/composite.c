/* composite.c: library layers that the compiler replaces as a whole.
 *
 * In: COMPOSITE nodes, whose bodies are the layers' library text and their definition. Out: primitives; either the forward (and
 * gradient) of a row of the table below, which computes the same with fewer reductions, or the body.
 *
 * A row's forward depends only on the target graph and the composite's inputs. Since equal nodes are shared, its gradient builds
 * the forward again to get intermediate values (means, normalised values), which adds no nodes.
 *
 * batchnorm: the moments of x over the valid samples (number, mean m, sum of squared distances from it), merged over devices by
 * one transfer. With v = squares / n (in double): inv = 1 / sqrt(v + eps), y = (x - m) inv weight + bias. Backward: t = [sum g,
 * sum g xhat], one reduction; t1 and t2 are the gradients of bias and weight, and dx = weight inv (g - t1 / n - xhat t2 / n).
 * Statistics of groups (or the shard): the same with sums over a group for every sample, of its mean and its squares; gradients
 * of bias and weight are then ordinary sums over the samples.
 *
 * layernorm: xhat = (x - mean) inv along the last axis, y = xhat weight + bias; with u = g weight, dx = inv (u - mean(u) - xhat
 * mean(u xhat)). rmsnorm: the same without the means of x and u.
 *
 * softmax: dx = y (g - sum(g y)): of the forward values, backward needs only y.
 *
 * groupnorm with groups that are short for the target (longer ones are inlined before: Target.least_group): sums go over
 * positions first, channel by channel, and then over the channels of a group; the values of a group are repeated for each of its
 * channels.
 *
 * attention: the primitive ATTENTION, which stores no scores: its gradient recomputes them. With a mask, a bias or a cap the body
 * is used. */
#include "compiler/passes/composite.h"
#include "compiler/passes/gradients.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"

/* ---- batchnorm */

enum { NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_MEAN, NORM_VAR, NORM_PARTS };
enum { RESULT_Y, RESULT_MEAN, RESULT_VAR, RESULT_COUNT };

typedef struct BatchNorm {
    int place[NORM_PARTS];  /* index among the composite's inputs */
    Node *part[NORM_PARTS]; /* [s..., c] x, in the type of the computation; [c] the others */
    double momentum, eps;
    int64_t group; /* 0: the whole batch; N: samples of a group; -1: the shard */
    int axes[MAX_RANK], axis_count;
    int64_t channels;
    /* [c], for every sample if there are groups */
    Node *count;               /* [] F64: number of elements of a statistic */
    Node *shift, *var;         /* F64: mean - stored mean; biased variance */
    Node *mean, *scale, *xhat; /* xhat [s..., c] */
} BatchNorm;

static bool ends_in(const char *name, const char *word) { return strcmp(last_word(name), word) == 0; }

static int result_count(const Graph *body)
{
    int count = 0;
    for (int i = 0; i < body->result_count; i++)
        count += body->results[i].role == ROLE_RESULT;
    return count;
}

/* Finds the inputs; false: not the form of the table, so the body is used. */
static bool find_parts(Graph *g, const Node *composite, Node **inputs, BatchNorm *b)
{
    static const char *const WORD[NORM_PARTS] = {NULL, "weight", "bias", "running_mean", "running_var"};
    if (composite->data_count != 3 || result_count(composite->body) != RESULT_COUNT)
        return false;
    for (int i = 0; i < NORM_PARTS; i++)
        b->place[i] = -1;
    for (int k = 0; k < composite->inputs; k++) {
        int part = NORM_X;
        if (composite->in[k]->op == OP_VARIABLE)
            for (int i = NORM_WEIGHT; i < NORM_PARTS; i++)
                if (ends_in(g->model->variables[composite->in[k]->ints[0]].name, WORD[i]))
                    part = i;
        if (b->place[part] >= 0)
            return false;
        b->place[part] = k;
        b->part[part] = inputs[k];
    }
    for (int i = 0; i < NORM_PARTS; i++)
        if (b->place[i] < 0)
            return false;
    const Shape *x = &b->part[NORM_X]->shape;
    if (!b->part[NORM_X]->has_samples || x->rank < 1 || !(composite->data[0] == composite->data[0]) ||
        !(composite->data[1] == composite->data[1]) || !(composite->data[2] == composite->data[2]))
        return false;
    b->momentum = composite->data[0];
    b->eps = composite->data[1];
    b->group = (int64_t)composite->data[2];
    b->channels = x->extent[x->rank - 1];
    for (int i = NORM_WEIGHT; i < NORM_PARTS; i++)
        if (b->part[i]->shape.rank != 1 || b->part[i]->shape.extent[0] != b->channels || b->part[i]->dtype != F32)
            return false;
    for (int i = 0; i < x->rank - 1; i++)
        b->axes[b->axis_count++] = i;
    return shape_count(x) > 0;
}

/* Returns elements start to start + count of a vector. */
static Node *part_of(Graph *g, Node *vector, int64_t start, int64_t count)
{
    return graph_slice(g, vector, (int64_t[]){start}, (int64_t[]){count}, (int64_t[]){1});
}

/* Computes sum a and sum b over the spatial axes and: all samples, reduced (one kernel computes both, so they share a
 * collective); or the samples of a group, for each sample. */
static void sums_of_two(Graph *g, const BatchNorm *b, Node *in[2], Node *out[2])
{
    for (int i = 0; i < 2; i++)
        if (b->group == 0)
            out[i] = graph_reduce(g, graph_sum_samples(g, in[i], b->axes, b->axis_count));
        else
            in[i] = b->axis_count ? graph_sum(g, in[i], b->axes, b->axis_count) : in[i];
    if (b->group == 0)
        return;
    Node *both = graph_group_sum(g, graph_concat(g, in, 2, 0), b->group < 0 ? 0 : b->group);
    for (int i = 0; i < 2; i++)
        out[i] = part_of(g, both, i * b->channels, b->channels);
}

/* Computes the mean of each sample's positions and their squared distances from it, [c] F64, from distances to the middle
 * position, which lose no precision. */
static void statistics_of_samples(Graph *g, const BatchNorm *b, Node *x, double places, Node **mean, Node **squares)
{
    int64_t start[MAX_RANK] = {0}, count[MAX_RANK], step[MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        start[i] = i < b->axis_count ? x->shape.extent[i] / 2 : 0;
        count[i] = i < b->axis_count ? 1 : x->shape.extent[i];
        step[i] = 1;
    }
    Shape row = {.rank = 1, .extent = {b->channels}};
    Node *pivot = graph_reshape(g, graph_slice(g, x, start, count, step), row), *away = graph_binary(g, OP_SUB, x, pivot);
    Node *sum = graph_cast(g, graph_sum(g, away, b->axes, b->axis_count), F64), *all = graph_weak(g, places);
    Node *square = graph_cast(g, graph_sum(g, graph_binary(g, OP_MUL, away, away), b->axes, b->axis_count), F64),
         *shift = graph_binary(g, OP_DIV, sum, all);
    *mean = graph_binary(g, OP_ADD, graph_cast(g, pivot, F64), shift);
    *squares =
        graph_binary(g, OP_MAXIMUM, graph_binary(g, OP_SUB, square, graph_binary(g, OP_MUL, shift, sum)), graph_weak(g, 0));
}

/* Computes, for each group, the statistics of its samples, then those of the samples' means, which are few. Returns the mean. */
static Node *group_statistics(Graph *g, BatchNorm *b, Node *x)
{
    int64_t group = b->group < 0 ? 0 : b->group;
    double places = (double)shape_count(&x->shape) / (double)b->channels;
    Node *stored = graph_cast(g, b->part[NORM_MEAN], F64), *one = graph_number(g, 1, F64), *mean, *squares = NULL;
    if (b->axis_count)
        statistics_of_samples(g, b, x, places, &mean, &squares);
    else
        mean = graph_cast(g, x, F64);
    /* 1 if all are padding */
    Node *samples = graph_binary(g, OP_MAXIMUM, graph_group_sum(g, select_valid(g, one), group), one);
    b->count = graph_binary(g, OP_MUL, samples, graph_number(g, places, F64));
    Node *in[] = {graph_binary(g, OP_SUB, mean, stored), squares};
    Node *all = graph_group_sum(g, select_valid(g, squares ? graph_concat(g, in, 2, 0) : in[0]), group);
    Node *shift = graph_binary(g, OP_DIV, part_of(g, all, 0, b->channels), samples),
         *mean_of_all = graph_binary(g, OP_ADD, stored, shift);
    Node *away = graph_binary(g, OP_SUB, mean, mean_of_all),
         *around = graph_group_sum(g, select_valid(g, graph_binary(g, OP_MUL, away, away)), group);
    b->var = graph_binary(g, OP_DIV, around, samples);
    if (squares)
        b->var = graph_binary(g, OP_ADD, b->var, graph_binary(g, OP_DIV, part_of(g, all, b->channels, b->channels), b->count));
    return mean_of_all;
}

static bool batchnorm_statistics(Graph *g, const Node *composite, Node **inputs, BatchNorm *b)
{
    if (!find_parts(g, composite, inputs, b))
        return false;
    Node *x = b->part[NORM_X] = graph_cast(g, b->part[NORM_X], dtype_promote(b->part[NORM_X]->dtype, F32));
    Dtype t = x->dtype;
    Node *away = graph_cast(g, b->part[NORM_MEAN], F64), *mean;
    if (b->group == 0) {
        Node *moments = graph_moments(g, x, b->axes, b->axis_count), *count = graph_run(g, RUN_SAMPLES, 0);
        b->count = graph_strong(
            g, graph_binary(g, OP_MUL, graph_weak(g, (double)shape_count(&x->shape) / (double)b->channels), count), F64);
        mean = graph_moment(g, moments, MOMENT_MEAN);
        b->var = graph_binary(g, OP_DIV, graph_moment(g, moments, MOMENT_SQUARES), b->count);
    } else {
        mean = group_statistics(g, b, x);
    }
    b->shift = graph_binary(g, OP_SUB, mean, away);
    b->mean = graph_cast(g, mean, t);
    Node *deviation = graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, b->var, graph_weak(g, b->eps)));
    Node *inverse = graph_cast(g, graph_binary(g, OP_DIV, graph_weak(g, 1), deviation), t);
    b->scale = graph_binary(g, OP_MUL, graph_cast(g, b->part[NORM_WEIGHT], t), inverse);
    Node *distance = graph_binary(g, OP_SUB, x, b->mean);
    b->xhat = graph_binary(g, OP_MUL, distance, inverse);
    return true;
}

/* Returns stored + momentum (now - stored), in the type of the variable. */
static Node *follow(Graph *g, Node *stored, Node *now, double momentum)
{
    Node *step = graph_binary(g, OP_SUB, graph_cast(g, now, stored->dtype), stored);
    return graph_binary(g, OP_ADD, stored, graph_binary(g, OP_MUL, graph_weak(g, momentum), step));
}

static bool batchnorm_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    BatchNorm b = {.momentum = 0};
    if (!batchnorm_statistics(g, composite, inputs, &b))
        return false;
    Node *x = b.part[NORM_X];
    Node *distance = graph_binary(g, OP_SUB, x, b.mean);
    Node *scaled = graph_binary(g, OP_MUL, distance, b.scale);
    results[RESULT_Y] = graph_binary(g, OP_ADD, scaled, graph_cast(g, b.part[NORM_BIAS], x->dtype));
    /* the unbiased variance, as in PyTorch */
    Node *one = graph_weak(g, 1), *less = graph_binary(g, OP_MAXIMUM, graph_binary(g, OP_SUB, b.count, graph_weak(g, 1)), one);
    Node *shift = b.shift, *unbiased = graph_binary(g, OP_MUL, b.var, graph_binary(g, OP_DIV, b.count, less));
    if (b.group != 0) { /* their mean over the samples */
        Node *both = graph_concat(g, (Node *[]){shift, unbiased}, 2, 0);
        both = graph_reduce(g, graph_sum_samples(g, select_valid(g, both), NULL, 0));
        both = graph_binary(g, OP_DIV, both, graph_strong(g, graph_run(g, RUN_SAMPLES, 0), F64));
        shift = part_of(g, both, 0, b.channels);
        unbiased = part_of(g, both, b.channels, b.channels);
    }
    Node *stored = b.part[NORM_MEAN];
    Node *step = graph_cast(g, shift, stored->dtype);
    step = graph_binary(g, OP_MUL, graph_weak(g, b.momentum), step);
    results[RESULT_MEAN] = graph_binary(g, OP_ADD, stored, step);
    results[RESULT_VAR] = follow(g, b.part[NORM_VAR], unbiased, b.momentum);
    return true;
}

static bool batchnorm_gradient(Sweep *s, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                               Node **input_gradients)
{
    (void)results;
    Graph *g = s->g;
    BatchNorm b = {.momentum = 0};
    if (result_gradients[RESULT_MEAN] || result_gradients[RESULT_VAR] || !batchnorm_statistics(g, composite, inputs, &b))
        return false;
    for (int k = 0; k < composite->inputs; k++)
        input_gradients[k] = NULL;
    if (!result_gradients[RESULT_Y])
        return true;
    Node *x = b.part[NORM_X], *given = inputs[b.place[NORM_X]];
    Node *y = graph_cast(g, result_gradients[RESULT_Y], x->dtype);
    Node *product = graph_binary(g, OP_MUL, y, b.xhat);
    Node *sums[2];
    sums_of_two(g, &b, (Node *[]){y, product}, sums);
    Node *along_bias = sums[0], *along_weight = sums[1];
    Node *count = graph_cast(g, b.count, x->dtype);
    Node *common = graph_binary(g, OP_DIV, along_bias, count);
    Node *slope = graph_binary(g, OP_MUL, b.xhat, graph_binary(g, OP_DIV, along_weight, count));
    Node *rest = graph_binary(g, OP_SUB, graph_binary(g, OP_SUB, y, common), slope);
    Node *dx = select_valid(g, graph_binary(g, OP_MUL, b.scale, rest)); /* padding samples are not in the statistics */
    if (dtype_is_float(given->dtype))
        input_gradients[b.place[NORM_X]] = graph_cast(g, dx, given->dtype);
    if (b.group != 0) {
        along_bias = graph_sum_samples(g, y, b.axes, b.axis_count);
        along_weight = graph_sum_samples(g, product, b.axes, b.axis_count);
    }
    input_gradients[b.place[NORM_BIAS]] = graph_cast(g, along_bias, b.part[NORM_BIAS]->dtype);
    input_gradients[b.place[NORM_WEIGHT]] = graph_cast(g, along_weight, b.part[NORM_WEIGHT]->dtype);
    return true;
}

/* ---- layernorm, rmsnorm */

typedef struct LayerNorm {
    int x, weight, bias;  /* indices among the composite's inputs; bias -1: none */
    Node *inverse, *xhat; /* [..., 1], [..., c] in the type of the computation */
    Node *gain;           /* weight, in that type */
} LayerNorm;

/* Returns the mean along the last axis, which is kept with extent 1. */
static Node *mean_of_rows(Graph *g, Node *x)
{
    int last = x->shape.rank - 1;
    Shape kept = x->shape;
    kept.extent[last] = 1;
    Node *sum = graph_reshape(g, graph_sum(g, x, &last, 1), kept);
    return graph_binary(g, OP_MUL, sum, graph_weak(g, 1 / (double)x->shape.extent[last]));
}

/* Finds the inputs: x, and vectors along its last axis; false: not the form of the table. */
static bool find_norm(const Graph *g, const Node *composite, Node **inputs, LayerNorm *n)
{
    *n = (LayerNorm){-1, -1, -1, NULL, NULL, NULL};
    if (result_count(composite->body) != 1)
        return false;
    for (int k = 0; k < composite->inputs; k++) {
        bool variable = composite->in[k]->op == OP_VARIABLE;
        const char *name = variable ? g->model->variables[composite->in[k]->ints[0]].name : "";
        int *place = variable && ends_in(name, "weight") ? &n->weight : variable && ends_in(name, "bias") ? &n->bias : &n->x;
        if (*place >= 0)
            return false;
        *place = k;
    }
    if (n->x < 0 || n->weight < 0)
        return false;
    Node *x = inputs[n->x];
    int64_t c = x->shape.rank ? x->shape.extent[x->shape.rank - 1] : 0;
    for (int k = 0; k < composite->inputs; k++)
        if (k != n->x && (inputs[k]->shape.rank != 1 || inputs[k]->shape.extent[0] != c || !dtype_is_float(inputs[k]->dtype)))
            return false;
    return shape_count(&x->shape) > 0;
}

static bool norm_rows(Graph *g, const Node *composite, Node **inputs, bool centred, LayerNorm *n)
{
    int numbers = centred ? 2 : 1; /* eps; layernorm: bias, too. A tensor is not among them */
    if (composite->data_count != numbers || !(composite->data[0] == composite->data[0]) || !find_norm(g, composite, inputs, n))
        return false;
    Node *x = graph_cast(g, inputs[n->x], dtype_promote(inputs[n->x]->dtype, F32));
    Node *distance = centred ? graph_binary(g, OP_SUB, x, mean_of_rows(g, x)) : x;
    Node *variance = mean_of_rows(g, graph_binary(g, OP_MUL, distance, distance));
    Node *deviation = graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, variance, graph_weak(g, composite->data[0])));
    n->inverse = graph_binary(g, OP_DIV, graph_weak(g, 1), deviation);
    n->xhat = graph_binary(g, OP_MUL, distance, n->inverse);
    n->gain = graph_cast(g, inputs[n->weight], x->dtype);
    return true;
}

static bool norm_forward(Graph *g, Node *composite, Node **inputs, Node **results, bool centred)
{
    LayerNorm n;
    if (!norm_rows(g, composite, inputs, centred, &n))
        return false;
    results[0] = graph_binary(g, OP_MUL, n.xhat, n.gain);
    if (n.bias >= 0)
        results[0] = graph_binary(g, OP_ADD, results[0], graph_cast(g, inputs[n.bias], n.xhat->dtype));
    return true;
}

static bool norm_gradient(Sweep *s, Node *composite, Node **inputs, Node **result_gradients, Node **input_gradients, bool centred)
{
    Graph *g = s->g;
    LayerNorm n;
    if (!norm_rows(g, composite, inputs, centred, &n))
        return false;
    for (int k = 0; k < composite->inputs; k++)
        input_gradients[k] = NULL;
    if (!result_gradients[0])
        return true;
    Node *y = graph_cast(g, result_gradients[0], n.xhat->dtype), *u = selected_product(s, y, n.gain);
    Node *mean = mean_of_rows(g, selected_product(s, u, n.xhat));
    Node *slope = selected(s, mean, graph_binary(g, OP_MUL, n.xhat, mean));
    Node *rest = graph_binary(g, OP_SUB, centred ? graph_binary(g, OP_SUB, u, mean_of_rows(g, u)) : u, slope);
    Node *dx = selected(s, rest, graph_binary(g, OP_MUL, n.inverse, rest)), *x = inputs[n.x];
    Node *along[2] = {selected_product(s, y, n.xhat), y};
    int place[2] = {n.weight, n.bias};
    if (dtype_is_float(x->dtype))
        input_gradients[n.x] = graph_cast(g, dx, x->dtype);
    for (int i = 0; i < 2; i++)
        if (place[i] >= 0) {
            const Node *to = inputs[place[i]];
            input_gradients[place[i]] =
                graph_cast(g, gradient_shrink(g, along[i], to->shape, along[i]->has_samples && !to->has_samples), to->dtype);
        }
    return true;
}

static bool layernorm_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    return norm_forward(g, composite, inputs, results, true);
}

static bool layernorm_gradient(Sweep *s, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                               Node **input_gradients)
{
    (void)results;
    return norm_gradient(s, composite, inputs, result_gradients, input_gradients, true);
}

static bool rmsnorm_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    return norm_forward(g, composite, inputs, results, false);
}

static bool rmsnorm_gradient(Sweep *s, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                             Node **input_gradients)
{
    (void)results;
    return norm_gradient(s, composite, inputs, result_gradients, input_gradients, false);
}

/* ---- softmax */

/* Applies a reduction along the axis, which is kept with extent 1. */
static Node *along_axis(Graph *g, Node *(*reduce)(Graph *, Node *, const int *, int), Node *x, int axis)
{
    Shape kept = x->shape;
    kept.extent[axis] = 1;
    return graph_reshape(g, reduce(g, x, &axis, 1), kept);
}

/* ---- groupnorm */

/* [s..., c] -> [c]: the mean of each channel's group */
static Node *mean_of_groups(Graph *g, Node *x, int64_t groups)
{
    int axes[MAX_RANK], last = x->shape.rank - 1;
    int64_t c = x->shape.extent[last], places = shape_count(&x->shape) / c;
    for (int i = 0; i < last; i++)
        axes[i] = i;
    Node *each = graph_binary(g, OP_MUL, graph_sum(g, x, axes, last), graph_weak(g, 1 / (double)places));
    each = graph_reshape(g, each, (Shape){2, {groups, c / groups}});
    return graph_reshape(g, graph_broadcast(g, mean_of_rows(g, each), each->shape), (Shape){1, {c}});
}

static bool groupnorm_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    enum { GROUPS, EPS, NUMBERS };
    LayerNorm n;
    if (composite->data_count != NUMBERS || !(composite->data[EPS] == composite->data[EPS]) ||
        !find_norm(g, composite, inputs, &n) || n.bias < 0)
        return false;
    Node *x = graph_cast(g, inputs[n.x], dtype_promote(inputs[n.x]->dtype, F32));
    int64_t c = x->shape.extent[x->shape.rank - 1], groups = (int64_t)composite->data[GROUPS];
    if (x->shape.rank == 1 || groups == c)
        return false;
    Node *z = graph_binary(g, OP_SUB, x, mean_of_groups(g, x, groups));
    Node *variance = mean_of_groups(g, graph_binary(g, OP_MUL, z, z), groups);
    Node *deviation = graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, variance, graph_weak(g, composite->data[EPS])));
    Node *scale = graph_binary(g, OP_DIV, graph_cast(g, inputs[n.weight], x->dtype), deviation);
    results[0] = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, z, scale), graph_cast(g, inputs[n.bias], x->dtype));
    return true;
}

/* Returns the axis; -1: not the form of the table. */
static int softmax_axis(const Node *composite, Node **inputs)
{
    if (composite->inputs != 1 || composite->data_count != 1 || !(composite->data[0] == composite->data[0]))
        return -1;
    int rank = inputs[0]->shape.rank, axis = (int)composite->data[0];
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank && dtype_is_float(inputs[0]->dtype) && shape_count(&inputs[0]->shape) > 0 ? axis : -1;
}

static bool softmax_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    int axis = softmax_axis(composite, inputs);
    if (axis < 0)
        return false;
    Node *x = inputs[0], *e = graph_unary(g, OP_EXP, graph_binary(g, OP_SUB, x, along_axis(g, graph_max, x, axis)));
    results[0] = graph_binary(g, OP_DIV, e, along_axis(g, graph_sum, e, axis));
    return true;
}

static bool softmax_gradient(Sweep *s, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                             Node **input_gradients)
{
    Graph *g = s->g;
    int axis = softmax_axis(composite, inputs);
    if (axis < 0)
        return false;
    Node *y = results[0], *given = result_gradients[0];
    input_gradients[0] = NULL;
    if (!given)
        return true;
    Node *rest = graph_binary(g, OP_SUB, given, along_axis(g, graph_sum, selected_product(s, given, y), axis));
    input_gradients[0] = selected(s, rest, graph_binary(g, OP_MUL, y, rest));
    return true;
}

/* ---- attention */

/* Returns the input of the composite that a node of its body is a reshape of; -1: none. */
static int argument_of(const Node *x)
{
    while (x->op == OP_RESHAPE)
        x = x->in[0];
    return x->op == OP_ARG ? (int)x->ints[0] : -1;
}

/* data: causal, window, mask, bias, scale, cap. q and k are the operands of the body's first product, v is the second operand of
 * the last one. */
static bool find_attention(Node *composite, Node **inputs, Node **part, double *number)
{
    enum { CAUSAL, WINDOW_SIZE, MASK, BIAS, SCALE, CAP, NUMBERS };
    const Node *product[2] = {NULL, NULL};
    if (composite->data_count != NUMBERS || result_count(composite->body) != 1)
        return false;
    for (int i = 0; i < composite->body->node_count; i++)
        if (composite->body->nodes[i]->op == OP_EINSUM)
            product[product[0] != NULL] = composite->body->nodes[i];
    if (!product[1] || product[0]->inputs != 2 || product[1]->inputs != 2)
        return false;
    const Node *in[3] = {product[0]->in[0], product[0]->in[1], product[1]->in[1]};
    for (int k = 0; k < 3; k++) {
        int argument = argument_of(in[k]);
        if (argument < 0 || argument >= composite->inputs)
            return false;
        part[k] = inputs[argument];
        if (part[k]->shape.rank != 3 || part[k]->dtype != part[0]->dtype || !dtype_is_float(part[k]->dtype) ||
            shape_count(&part[k]->shape) == 0)
            return false;
    }
    const double *given = composite->data;
    bool window = given[WINDOW_SIZE] == given[WINDOW_SIZE];
    number[0] = given[CAUSAL];
    number[1] = window ? given[WINDOW_SIZE] : 0;
    number[2] = given[SCALE];
    return given[MASK] != given[MASK] && given[BIAS] != given[BIAS] && given[SCALE] == given[SCALE] && given[CAP] != given[CAP] &&
           (!window || given[WINDOW_SIZE] >= 1);
}

static bool attention_forward(Graph *g, Node *composite, Node **inputs, Node **results)
{
    Node *part[3];
    double number[3];
    if (!find_attention(composite, inputs, part, number))
        return false;
    results[0] = graph_attention(g, part[0], part[1], part[2], number[0] != 0, (int64_t)number[1], number[2]);
    return true;
}

/* ---- the table */

static const struct Composite {
    const char *layer;
    bool training; /* only in training */
    bool (*forward)(Graph *, Node *composite, Node **inputs, Node **results);
    bool (*gradient)(Sweep *, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                     Node **input_gradients); /* NULL: ordinary rules for the nodes of forward */
} COMPOSITES[] = {
    {"batchnorm", true, batchnorm_forward, batchnorm_gradient}, {"layernorm", false, layernorm_forward, layernorm_gradient},
    {"rmsnorm", false, rmsnorm_forward, rmsnorm_gradient},      {"groupnorm", false, groupnorm_forward, NULL},
    {"softmax", false, softmax_forward, softmax_gradient},      {"attention", false, attention_forward, NULL},
};

static const struct Composite *find_composite(const char *layer)
{
    for (int i = 0; i < COUNT(COMPOSITES); i++)
        if (strcmp(COMPOSITES[i].layer, layer) == 0)
            return &COMPOSITES[i];
    return NULL;
}

bool composite_known(const char *layer, bool training)
{
    const struct Composite *row = find_composite(layer);
    return row && (training || !row->training);
}

bool composite_expand(Graph *target, Node *composite, Node **inputs, Node **results)
{
    const struct Composite *row = find_composite(composite->text);
    return row && row->forward(target, composite, inputs, results);
}

bool composite_gradient(Sweep *s, Node *composite, Node **inputs, Node **results, Node **result_gradients, Node **input_gradients)
{
    const struct Composite *row = find_composite(composite->text);
    return row && row->gradient && row->gradient(s, composite, inputs, results, result_gradients, input_gradients);
}

/* ---- whole graphs */

/* Returns the composites by node; least: only groupnorm with at least so many channels a group; 0: all. NULL: there are none. */
static bool *find_composites(const Graph *g, int64_t least)
{
    bool *marked = NEW_ARRAY(bool, g->node_count), any = false;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if (n->op != OP_COMPOSITE)
            continue;
        const Shape *x = &n->in[0]->shape;
        marked[i] = !least || (strcmp(n->text, "groupnorm") == 0 && x->rank &&
                               (double)x->extent[x->rank - 1] >= n->data[0] * (double)least);
        any = any || marked[i];
    }
    return any ? marked : NULL;
}

/* Replaces one level of nesting. */
static Graph *replace_composites(Graph *g, bool bodies, const bool *marked)
{
    Graph *target = graph_in_place_of(g);
    Node ***results = NEW_ARRAY(Node **, g->node_count); /* of each composite, by its id */
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i];
        if (n->op == OP_RESULT && results[n->in[0]->id]) {
            map_node(n, results[n->in[0]->id][n->ints[0]]);
            continue;
        }
        if (!marked[i]) {
            n->mapped = graph_copy_node(target, n);
            continue;
        }
        set_position(target, n);
        Node **inputs = mapped_inputs(n);
        results[i] = NEW_ARRAY(Node *, result_count(n->body));
        if (bodies || !composite_expand(target, n, inputs, results[i]))
            graph_inline(target, n, inputs, results[i]);
        n->mapped = NULL;
    }
    graph_copy_results(target, g);
    return target;
}

static Graph *replace_all(Graph *g, bool bodies)
{
    for (const bool *all = find_composites(g, 0); all; all = find_composites(g, 0))
        g = replace_composites(g, bodies, all);
    return g;
}

Graph *inline_bodies(Graph *g) { return replace_all(g, true); }
Graph *expand_composites(Graph *g) { return replace_all(g, false); }
Graph *inline_marked(Graph *g, const bool *marked) { return replace_composites(g, true, marked); }

Graph *inline_groups(Graph *g, int64_t least)
{
    const bool *marked = find_composites(g, least);
    return marked ? replace_composites(g, true, marked) : g;
}
