/* contraction.c: EINSUM, CONVOLVE and CONVOLVE_WEIGHT as one product for runtime/mgpu_gemm.h.
 *
 * In: a node and the tensors that hold its operands and its result. Out: a Contraction, printed as a table and one call.
 *
 * Every index of the equation is an axis with a stride in a, b and the result c; the samples are one more. An axis of
 *     a, b, c -> batch       a, c -> M       b, c -> N       else -> K, the sum
 * A convolution's x is gathered: its place p and its tap k meet in a window's position s p + d k - before, which is
 * checked when x is packed; a window that never leaves x is replaced by plain strides. Then the smaller of two estimates
 * decides which operand is A (N is the side that is cut into vectors), and whether A is packed in runs along K or M. */
#include "compiler/contraction.h"

#include <math.h>
#include <string.h>

#include "runtime/mgpu_gemm.h"

typedef struct Axis {
    const char *label;
    int64_t extent;         /* of the samples: MGPU_SAMPLES */
    int64_t stride[3];      /* in a, b, c */
    bool in[3];
    int window;             /* 0: none */
    int64_t step;
} Axis;

typedef struct Window { int64_t extent, stride, first, spread; } Window;

enum { A, B, C };
enum { BATCH, M, N, K, LISTS };
static const char *const LIST_NAME[LISTS] = {"batch", "M", "N", "K"};

struct Contraction {
    const Node *node;
    const Tensor *tensor[3];
    Axis *axes;
    int axis_count;
    Axis *list[LISTS];      /* pointers into sorted copies */
    int count[LISTS];
    Window window[MGPU_WINDOWS];
    int windows;
    int64_t first[2];       /* offset of the element at all indices 0, in a and b */
    bool swapped;           /* the product's A is argument 1, b */
    bool gathers_b;         /* after the swap, the windows move over the product's B */
    bool rows;
};

/* ---- axes */

/* strides of the node's axes in the memory of its tensor; *samples: the stride of the samples */
static void strides_of(const Node *node, const Tensor *tensor, int64_t stride[MAX_RANK], int64_t *samples)
{
    int64_t step = 1;
    for (int i = tensor->shape.rank - 1; i >= 0; i--) {
        int axis = tensor->kind == TENSOR_VARIABLE ? node->graph->model->variables[tensor->index].order[i] : i;
        stride[axis] = step;
        step *= tensor->shape.extent[i];
    }
    *samples = step;
}

static Axis *add_axis(Contraction *plan, const char *label, int64_t extent)
{
    APPEND(plan->axes, plan->axis_count, ((Axis){.label = label, .extent = extent}));
    return &plan->axes[plan->axis_count - 1];
}

static void place_axis(Axis *axis, int operand, int64_t stride)
{
    axis->in[operand] = true;
    axis->stride[operand] += stride;
}

static void add_samples(Contraction *plan, const int64_t stride[3])
{
    Axis *axis = NULL;
    for (int i = 0; i < 3; i++)
        if (plan->tensor[i]->sharded) {
            if (axis == NULL)
                axis = add_axis(plan, "sample", MGPU_SAMPLES);
            place_axis(axis, i, stride[i]);
        }
}

static void add_letters(Contraction *plan, int64_t stride[3][MAX_RANK])
{
    const Node *node = plan->node;
    const Shape *shape[] = {&node->in[0]->shape, &node->in[1]->shape, &node->shape};
    int operand = 0, number = 0, first = plan->axis_count;
    for (const char *text = node->text; *text != 0; text++) {
        if (*text == ',' || *text == '>') {
            operand++;
            number = 0;
        } else if (*text != '-' && *text != ' ') {
            Axis *axis = NULL;
            for (int i = first; i < plan->axis_count; i++)
                if (plan->axes[i].label[0] == *text)
                    axis = &plan->axes[i];
            if (axis == NULL)
                axis = add_axis(plan, copy_text(text, 1), shape[operand]->extent[number]);
            place_axis(axis, operand, stride[operand][number++]); /* a letter twice: its diagonal */
        }
    }
}

/* x is operand a; CONVOLVE: b = w, c = y; CONVOLVE_WEIGHT: b = y's gradient, c = w's */
static void add_convolution(Contraction *plan, int64_t stride[3][MAX_RANK])
{
    const Node *node = plan->node;
    int w = node->op == OP_CONVOLVE ? B : C, y = node->op == OP_CONVOLVE ? C : B;
    const Shape *x_shape = &node->in[0]->shape, *w_shape = w == B ? &node->in[1]->shape : &node->shape;
    const Shape *y_shape = y == B ? &node->in[1]->shape : &node->shape;
    const int64_t *ints = node->ints;
    int dims = (int)ints[0];
    const int64_t *step = ints + 1, *before = step + dims, *dilation = before + 2 * dims, *spread = dilation + dims;
    int64_t groups = spread[dims], outputs = w_shape->extent[0] / (groups > 0 ? groups : 1), inputs = w_shape->extent[1];

    Axis *axis = add_axis(plan, "group", groups);
    place_axis(axis, A, inputs * stride[A][dims]);
    place_axis(axis, w, outputs * stride[w][0]);
    place_axis(axis, y, outputs * stride[y][dims]);
    for (int d = 0; d < dims; d++) {
        axis = add_axis(plan, format("place %d", d), y_shape->extent[d]);
        axis->window = d + 1;
        axis->step = step[d];
        place_axis(axis, A, 0);
        place_axis(axis, y, stride[y][d]);
        axis = add_axis(plan, format("tap %d", d), w_shape->extent[2 + d]);
        axis->window = d + 1;
        axis->step = dilation[d];
        place_axis(axis, A, 0);
        place_axis(axis, w, stride[w][2 + d]);
        plan->window[d] = (Window){x_shape->extent[d], stride[A][d], -before[d], spread[d]};
    }
    plan->windows = dims;
    axis = add_axis(plan, "in", inputs);
    place_axis(axis, A, stride[A][dims]);
    place_axis(axis, w, stride[w][1]);
    axis = add_axis(plan, "out", outputs);
    place_axis(axis, w, stride[w][0]);
    place_axis(axis, y, stride[y][dims]);
}

/* windows that never leave x become strides; the others are numbered anew. A windowed axis has its stride in x, too:
 * lists are sorted by it, the table leaves it out. */
static void drop_windows(Contraction *plan)
{
    int number[MGPU_WINDOWS] = {0}, kept = 0;
    for (int w = 0; w < plan->windows; w++) {
        Window window = plan->window[w];
        int64_t last = window.first;
        for (int i = 0; i < plan->axis_count; i++) {
            Axis *axis = &plan->axes[i];
            if (axis->window != w + 1)
                continue;
            axis->stride[A] = axis->step * window.stride;
            last += (axis->extent - 1) * axis->step;
        }
        if (window.spread == 1 && window.first >= 0 && last < window.extent) {
            plan->first[A] += window.first * window.stride;
        } else {
            plan->window[kept] = window;
            number[w] = ++kept;
        }
    }
    for (int i = 0; i < plan->axis_count; i++)
        if (plan->axes[i].window > 0)
            plan->axes[i].window = number[plan->axes[i].window - 1];
    plan->windows = kept;
}

static int64_t innermost(const Contraction *plan, int list, int operand)
{
    for (int i = plan->count[list] - 1; i >= 0; i--)
        if (plan->list[list][i].extent != 1)
            return plan->list[list][i].stride[operand];
    return 1;
}

/* axes of one list, outermost first: samples, then by descending stride in an operand (then in the result) */
static void sort_axes(Axis *axes, int count, int operand)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0; j--) {
            Axis *left = &axes[j - 1], *right = &axes[j], moved = *left;
            bool samples = right->extent == MGPU_SAMPLES;
            int64_t more = right->stride[operand] - left->stride[operand];
            if (left->extent == MGPU_SAMPLES || (!samples && (more < 0 || (more == 0 && right->stride[C] <= left->stride[C]))))
                break;
            *left = *right;
            *right = moved;
        }
}

/* the four lists with operand `first` as A; N lies as in B or else as in the result, K as in A or else as in B */
static void make_lists(Contraction *plan, int first)
{
    int second = B - first;
    plan->swapped = first == B;
    plan->gathers_b = plan->swapped;
    for (int list = 0; list < LISTS; list++) {
        plan->list[list] = NEW_ARRAY(Axis, plan->axis_count);
        plan->count[list] = 0;
    }
    for (int i = 0; i < plan->axis_count; i++) {
        const Axis *axis = &plan->axes[i];
        int list = !axis->in[C] ? K : axis->in[A] && axis->in[B] ? BATCH : axis->in[first] ? M : N;
        plan->list[list][plan->count[list]++] = *axis;
    }
    const int order[LISTS][2] = {{first, C}, {first, C}, {second, C}, {first, second}};
    for (int list = 0; list < LISTS; list++) {
        sort_axes(plan->list[list], plan->count[list], order[list][0]);
        if (innermost(plan, list, order[list][0]) != 1) {
            sort_axes(plan->list[list], plan->count[list], order[list][1]);
            if (innermost(plan, list, order[list][1]) != 1)
                sort_axes(plan->list[list], plan->count[list], order[list][0]);
        }
    }
}

/* ---- the estimate, in cycles of a core with two 64-byte multiply-adds a cycle; 32 samples */

static double extent_of(const Axis *axis) { return axis->extent == MGPU_SAMPLES ? 32 : (double)axis->extent; }

static double count_of(const Contraction *plan, int list)
{
    double count = 1;
    for (int i = 0; i < plan->count[list]; i++)
        count *= extent_of(&plan->list[list][i]);
    return count;
}

/* per element: copying runs of the list's innermost axes out of an operand */
static double run_cost(const Contraction *plan, int list, int operand, double lanes)
{
    double length = 1;
    int64_t next = 0;
    bool windowed = false;
    for (int i = plan->count[list] - 1; i >= 0; i--) {
        const Axis *axis = &plan->list[list][i];
        if (axis->extent == 1)
            continue;
        if (next != 0 && (axis->stride[operand] != next || windowed))
            break;
        if (next == 0 && axis->stride[operand] != 1)
            return 1 + 8 / extent_of(axis);
        windowed = axis->window > 0 && operand == A;
        next = axis->extent == MGPU_SAMPLES ? -1 : axis->stride[operand] * axis->extent;
        length *= extent_of(axis);
    }
    return 1 / lanes + 8 / length;
}


/* of the product with its lists as they are; chooses how A is packed */
static double estimate(Contraction *plan)
{
    int first = plan->swapped ? B : A, second = B - first;
    double lanes = plan->node->dtype == F64 ? 8 : 16;
    double m = count_of(plan, M), n = count_of(plan, N), k = count_of(plan, K);
    double tiles = ceil(m / 14), rows = 2 * ceil(ceil(m / tiles) / 2), vectors = ceil(n / lanes);
    double in_flight = rows * (vectors > 1 ? 2 : 1);
    double multiply = tiles * rows * vectors * k / 2 * (in_flight < 8 ? 8 / in_flight : 1);
    double by_rows = run_cost(plan, K, first, lanes) + 1 / lanes, by_columns = run_cost(plan, M, first, lanes);
    plan->rows = by_rows < by_columns;
    double pack_a = m * k * fmin(by_rows, by_columns) * ceil(n / MGPU_BLOCK_N);
    double pack_b = n * k * run_cost(plan, N, second, lanes);
    bool beside = innermost(plan, N, C) == 1 && n >= lanes;
    double store = m * n * (beside ? 2 / lanes : innermost(plan, M, C) == 1 ? 1 : 2) * ceil(k / MGPU_BLOCK_K);
    return multiply + pack_a + pack_b + store;
}

Contraction *contraction_plan(const Node *node, const Tensor *a, const Tensor *b, const Tensor *result)
{
    Contraction *plan = NEW(Contraction);
    plan->node = node;
    const Tensor *tensors[] = {a, b, result};
    const Node *nodes[] = {node->in[0], node->in[1], node};
    int64_t stride[3][MAX_RANK], samples[3];
    for (int i = 0; i < 3; i++) {
        plan->tensor[i] = tensors[i];
        if (tensors[i]->dtype != node->dtype || (node->dtype != F32 && node->dtype != F64))
            die("contraction of %s and %s to %s", dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(node->dtype));
        strides_of(nodes[i], tensors[i], stride[i], &samples[i]);
    }
    add_samples(plan, samples);
    if (node->op == OP_EINSUM)
        add_letters(plan, stride);
    else if (node->op == OP_CONVOLVE || node->op == OP_CONVOLVE_WEIGHT)
        add_convolution(plan, stride);
    else
        die("no contraction: %s", OP_INFO[node->op].name);
    drop_windows(plan);
    make_lists(plan, B);
    double swapped = estimate(plan);
    make_lists(plan, A);
    if (swapped < estimate(plan)) {
        make_lists(plan, B);
        estimate(plan);
    }
    return plan;
}

/* ---- cost */

/* multiplications and additions, without the zeros between the elements of spread windows, with those of the padding */
static void count_operations(const Contraction *plan, double *fixed, double *per_sample)
{
    double count = 2;
    bool sampled = false;
    for (int i = 0; i < plan->axis_count; i++) {
        if (plan->axes[i].extent == MGPU_SAMPLES)
            sampled = true;
        else
            count *= (double)plan->axes[i].extent;
    }
    for (int w = 0; w < plan->windows; w++)
        count /= (double)plan->window[w].spread;
    *fixed = sampled ? 0 : count;
    *per_sample = sampled ? count : 0;
}

void contraction_cost(const Contraction *plan, double *flops, double *flops_per_sample, double *bytes, double *bytes_per_sample)
{
    count_operations(plan, flops, flops_per_sample);
    *bytes = *bytes_per_sample = 0;
    for (int i = 0; i < 3; i++) {
        const Tensor *tensor = plan->tensor[i];
        *(tensor->sharded ? bytes_per_sample : bytes) += (double)shape_count(&tensor->shape) * dtype_bytes(tensor->dtype);
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t contraction_workspace(const Contraction *plan, int64_t *per_sample)
{
    int64_t extent[LISTS] = {1, 1, 1, 1}, most[LISTS] = {0, MGPU_BLOCK_M, MGPU_BLOCK_N, MGPU_BLOCK_K};
    *per_sample = 0;
    for (int list = M; list < LISTS; list++)
        for (int i = 0; i < plan->count[list]; i++) {
            const Axis *axis = &plan->list[list][i];
            bool large = axis->extent == MGPU_SAMPLES || extent[list] > most[list];
            extent[list] = large ? most[list] : extent[list] * axis->extent;
        }
    int64_t bytes = (least(extent[K], MGPU_BLOCK_K) + 16) * (least(extent[N], MGPU_BLOCK_N) + 32) *
                    dtype_bytes(plan->node->dtype);
    return MGPU_BLOCK_A_BYTES + least(MGPU_BLOCK_B_BYTES, bytes);
}

/* ---- text */

static const char *tensor_text(const Tensor *tensor)
{
    return format("%s %s %s%s%s", tensor->name, dtype_name(tensor->dtype), tensor->sharded ? "n x " : "",
                  shape_text(&tensor->shape), tensor->partial ? " (a part of the sum)" : "");
}

static const char *count_text(const Contraction *plan, int list)
{
    int64_t count = 1;
    bool samples = false;
    for (int i = 0; i < plan->count[list]; i++)
        if (plan->list[list][i].extent == MGPU_SAMPLES)
            samples = true;
        else
            count *= plan->list[list][i].extent;
    return format(samples && count == 1 ? "n" : samples ? "%lld n" : "%lld", (long long)count);
}

static const char *equation_text(const Contraction *plan)
{
    const Node *node = plan->node;
    if (node->op == OP_EINSUM)
        return node->text;
    const char *meaning = node->op == OP_CONVOLVE ? "y[p, o] = sum_{k, c} x'[s p + d k - b, c] w[o, c, k]"
                                                  : "w[o, c, k] = sum_{n, p} x'[s p + d k - b, c] g[p, o]";
    const int64_t *ints = node->ints, *value = ints + 1;
    Text text = {0};
    static const char *const name[] = {"stride", "before", "after", "dilation", "spread"};
    for (int i = 0; i < COUNT(name); i++) {
        text_add(&text, "%s%s", i == 0 ? "" : ", ", name[i]);
        for (int64_t d = 0; d < ints[0]; d++)
            text_add(&text, " %lld", (long long)*value++);
    }
    return format("%s\n * %s, groups %lld", meaning, text_of(&text), (long long)*value);
}

static void print_comment(const Contraction *plan, Text *text)
{
    const Node *node = plan->node;
    const Place *at = users_place(node->at);
    text_add(text, "/* ");
    if (node->path != NULL && node->path[0] != 0)
        text_add(text, "%s, ", node->path);
    if (at != NULL && at->source != NULL)
        text_add(text, "%s:%d: ", at->source->file, at->line);
    text_add(text, "%s %s\n * %s, %s -> %s\n", OP_INFO[node->op].name, equation_text(plan), tensor_text(plan->tensor[A]),
             tensor_text(plan->tensor[B]), tensor_text(plan->tensor[C]));
    text_add(text, " * M x N x K = %s x %s x %s", count_text(plan, M), count_text(plan, N), count_text(plan, K));
    const char *batch = count_text(plan, BATCH);
    if (strcmp(batch, "1") != 0)
        text_add(text, ", %s times", batch);
    text_add(text, "; A is %s, packed by %s */\n", plan->tensor[plan->swapped ? B : A]->name, plan->rows ? "rows" : "columns");
}

static void print_body(const Contraction *plan, const char *name, Text *text)
{
    int first = plan->swapped ? B : A, second = B - first;
    const char *type = plan->node->dtype == F64 ? "f64" : "f32";
    text_add(text, "static void %s(void *const *argument, const mgpu_step *step, int64_t n)\n{\n", name);
    int axes = 0;
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < plan->count[list]; i++) {
            const Axis *axis = &plan->list[list][i];
            if (axis->extent == 1 && axis->window == 0)
                continue;
            if (axes++ == 0)
                text_add(text, "    static const mgpu_axis axis[] = {\n        /* extent, strides in A, B, C, window, step */\n");
            int64_t in[] = {axis->stride[first], axis->stride[second]};
            if (axis->window > 0)
                in[plan->gathers_b] = 0;
            if (axis->extent == MGPU_SAMPLES)
                text_add(text, "        {MGPU_SAMPLES");
            else
                text_add(text, "        {%lld", (long long)axis->extent);
            text_add(text, ", %lld, %lld, %lld", (long long)in[0], (long long)in[1], (long long)axis->stride[C]);
            text_add(text, ", %d, %lld}, /* %s: %s */\n", axis->window, (long long)(axis->window > 0 ? axis->step : 0),
                     LIST_NAME[list], axis->label);
        }
    if (axes > 0)
        text_add(text, "    };\n");
    for (int w = 0; w < plan->windows; w++) {
        const Window *window = &plan->window[w];
        if (w == 0)
            text_add(text, "    static const mgpu_window window[] = {\n        /* extent, stride, first, spread */\n");
        text_add(text, "        {%lld, %lld, %lld, %lld},\n", (long long)window->extent, (long long)window->stride,
                 (long long)window->first, (long long)window->spread);
    }
    if (plan->windows > 0)
        text_add(text, "    };\n");
    text_add(text, "    static const mgpu_contraction product = {");
    static const char *const field[] = {"batch", "m", "n", "k"};
    for (int list = 0; list < LISTS; list++) {
        int count = 0;
        for (int i = 0; i < plan->count[list]; i++)
            count += plan->list[list][i].extent != 1 || plan->list[list][i].window > 0;
        text_add(text, ".%s = %d, ", field[list], count);
    }
    text_add(text, "%s%s.rows = %s", axes > 0 ? ".axis = axis, " : "",
             plan->windows > 0 ? format(".windows = %d, .window = window, .gather_b = %s,\n        ", plan->windows,
                                        plan->gathers_b ? "true" : "false") : "",
             plan->rows ? "true" : "false");
    if (plan->first[A] != 0)
        text_add(text, ", .%s = %lld", plan->swapped ? "b" : "a", (long long)plan->first[A]);
    text_add(text, "};\n    (void)step;\n");
    text_add(text, "    mgpu_contract_%s(&product, argument[%d], argument[%d], argument[2], argument[3], n);\n}\n", type, first,
             second);
}

void contraction_print(const Contraction *plan, const char *kernel_name, Text *text)
{
    print_comment(plan, text);
    print_body(plan, kernel_name, text);
}

const char *contraction_key(const Contraction *plan)
{
    Text text = {0};
    print_body(plan, "kernel", &text);
    return text_of(&text);
}
