/* contraction.c: EINSUM, CONVOLVE and CONVOLVE_WEIGHT as one contraction for runtime/abi/mgpu_gemm.h.
 *
 * In: a node and the tensors that hold its operands and its result. Out: a Contraction, printed as a table and one call.
 *
 * Every index of the equation is an axis with a stride in a, b and the result c; the samples are one more axis. The operands that
 * have an axis decide which list it belongs to:
 *     a, b, c -> batch       a, c -> M       b, c -> N       otherwise -> K
 * The x of a convolution is gathered. Its output position p and its tap k give the position s p + d k - low in a window, which is
 * checked when x is copied. A window that never leaves x is replaced by plain strides. The gathered operand is A. Without
 * windows, the cheaper of two estimates decides which operand is A (N is the side that is cut into vectors). */
#include "compiler/kernel/contraction_internal.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/phase.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_MOST = 12 * 1024 * 1024, /* bytes of packed B */
    ONE_WORKER_SAMPLES = 32,
    ONE_WORKER_CALLS = 64,   /* guesses */
    LARGE_DEPTH = 16 * 1024, /* from this depth on, B is packed one block at a time */
    MUCH_WEIGHT = 64 * 1024  /* elements */
};
/* ---- axes */

/* Writes the strides of the node's axes in its tensor, and *samples, the stride of the samples; returns the offset of its first
 * element. */
static int64_t strides_of(const Node *node, const Tensor *tensor, int64_t stride[MAX_RANK], int64_t *samples)
{
    int64_t step = 1, first = 0;
    for (int i = tensor->shape.rank - 1; i >= 0; i--) {
        int axis = tensor->order                     ? tensor->order[i]
                   : tensor->kind == TENSOR_VARIABLE ? node->graph->model->variables[tensor->index].order[i]
                                                     : i;
        bool reversed = tensor->reversed >> i & 1;
        first += reversed ? (tensor->shape.extent[i] - 1) * step : 0;
        stride[axis] = reversed ? -step : step;
        step *= tensor->shape.extent[i];
    }
    *samples = tensor->pitch ? tensor->pitch : step;
    return first;
}

static MatmulAxis *add_axis(Contraction *plan, const char *label, int64_t extent)
{
    APPEND(plan->axes, plan->axis_count, ((MatmulAxis){.label = label, .extent = extent}));
    return &plan->axes[plan->axis_count - 1];
}

static void place_axis(MatmulAxis *axis, int operand, int64_t stride)
{
    axis->in[operand] = true;
    axis->stride[operand] += stride;
}

static void add_samples(Contraction *plan, const int64_t stride[3])
{
    MatmulAxis *axis = NULL;
    for (int i = 0; i < 3; i++)
        if (plan->tensor[i]->has_samples) {
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
            MatmulAxis *axis = NULL;
            for (int i = first; i < plan->axis_count; i++)
                if (plan->axes[i].label[0] == *text)
                    axis = &plan->axes[i];
            if (axis == NULL)
                axis = add_axis(plan, copy_text(text, 1), shape[operand]->extent[number]);
            place_axis(axis, operand, stride[operand][number++]); /* a repeated letter: its diagonal */
        }
    }
}

/* Operand a is x. CONVOLVE: b = w, c = y. CONVOLVE_WEIGHT: b = gradient of y, c = gradient of w. */
static void add_convolution(Contraction *plan, int64_t stride[3][MAX_RANK])
{
    const Node *node = plan->node;
    int w = node->op == OP_CONVOLVE ? B : C, y = node->op == OP_CONVOLVE ? C : B;
    const Shape *x_shape = &node->in[0]->shape, *w_shape = w == B ? &node->in[1]->shape : &node->shape;
    const Shape *y_shape = y == B ? &node->in[1]->shape : &node->shape;
    const int64_t *ints = node->ints;
    int dims = (int)ints[0];
    const int64_t *step = ints + 1, *low = step + dims, *dilation = low + 2 * dims, *input_dilation = dilation + dims;
    int64_t groups = input_dilation[dims], outputs = w_shape->extent[0] / (groups > 0 ? groups : 1), inputs = w_shape->extent[1];

    MatmulAxis *axis = add_axis(plan, "group", groups);
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
        plan->window[d] = (Window){x_shape->extent[d], stride[A][d], -low[d], input_dilation[d]};
    }
    plan->windows = dims;
    axis = add_axis(plan, "in", inputs);
    place_axis(axis, A, stride[A][dims]);
    place_axis(axis, w, stride[w][1]);
    axis = add_axis(plan, "out", outputs);
    place_axis(axis, w, stride[w][0]);
    place_axis(axis, y, stride[y][dims]);
}

/* Windows that never leave x become strides, and the others are renumbered. Windows of bf16 stay: they copy x as f32, and the
 * copy should not have an element for every tap. A windowed axis also gets its stride in x, by which lists are sorted; the table
 * leaves it out. */
static void drop_windows(Contraction *plan)
{
    int number[MGPU_WINDOWS] = {0}, kept = 0;
    for (int w = 0; w < plan->windows; w++) {
        Window window = plan->window[w];
        int64_t last = window.first;
        for (int i = 0; i < plan->axis_count; i++) {
            MatmulAxis *axis = &plan->axes[i];
            if (axis->window != w + 1)
                continue;
            axis->stride[A] = axis->step * window.stride;
            last += (axis->extent - 1) * axis->step;
        }
        if (window.input_dilation == 1 && window.first >= 0 && last < window.extent && !dtype_is_half(plan->tensor[A]->dtype)) {
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

/* Returns the bytes of an element in registers and when packed: bf16 is accumulated in f32. */
static int64_t real_bytes(const Contraction *plan) { return plan->tensor[C]->dtype == F64 ? 8 : 4; }

static int64_t innermost(const Contraction *plan, int list, int operand)
{
    for (int i = plan->count[list] - 1; i >= 0; i--)
        if (plan->list[list][i].extent != 1)
            return plan->list[list][i].stride[operand];
    return 1;
}

/* Sorts the axes of one list, outermost first: samples, then by descending stride in an operand, then in the result. */
static void sort_axes(MatmulAxis *axes, int count, int operand)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0; j--) {
            MatmulAxis *left = &axes[j - 1], *right = &axes[j], moved = *left;
            bool samples = right->extent == MGPU_SAMPLES;
            int64_t more = right->stride[operand] - left->stride[operand];
            if (left->extent == MGPU_SAMPLES || (!samples && (more < 0 || (more == 0 && right->stride[C] <= left->stride[C]))))
                break;
            *left = *right;
            *right = moved;
        }
}

/* Makes the four lists with operand `first` as A. N has the order of B, else of the result; K has the order of A, else of B. */
static void make_lists(Contraction *plan, int first)
{
    int second = B - first;
    plan->swapped = first == B;
    for (int list = 0; list < LISTS; list++) {
        plan->list[list] = NEW_ARRAY(MatmulAxis, plan->axis_count);
        plan->count[list] = 0;
    }
    for (int i = 0; i < plan->axis_count; i++) {
        const MatmulAxis *axis = &plan->axes[i];
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

/* ---- which operand is A, and who divides the work: an estimate in cycles of a core with two 64-byte multiply-adds a cycle */

static double count_of(const Contraction *plan, int list, double samples)
{
    double count = 1;
    for (int i = 0; i < plan->count[list]; i++)
        count *= plan->list[list][i].extent == MGPU_SAMPLES ? samples : (double)plan->list[list][i].extent;
    return count;
}

/* Returns how many elements of a list are contiguous in an operand. */
static double run_of(const Contraction *plan, int list, int operand, double samples)
{
    double run = 1;
    int64_t next = 1;
    for (int i = plan->count[list] - 1; i >= 0; i--) {
        const MatmulAxis *axis = &plan->list[list][i];
        if (axis->extent == 1)
            continue;
        if (axis->stride[operand] != next)
            break;
        run *= axis->extent == MGPU_SAMPLES ? samples : (double)axis->extent;
        next = axis->extent == MGPU_SAMPLES ? -1 : next * axis->extent;
    }
    return run;
}

int64_t contraction_samples(const Contraction *plan) { return model_samples(plan->node->graph->model); }

static bool collide(int64_t bytes) { return (bytes + 64) % 4096 <= 128 && bytes > 2048; } /* the rows share a cache set */

/* Returns true if A should be packed: its rows collide in the cache, or each step along K is in a cache line of its own. */
static bool crowded(const Contraction *plan)
{
    int first = plan->swapped ? B : A;
    return collide(innermost(plan, M, first) * real_bytes(plan)) ||
           innermost(plan, K, first) * real_bytes(plan) >= MGPU_FAR_BYTES;
}

/* Estimates the cycles of a call for so many samples, one of `calls` in an operation, with the current lists. */
static double estimate(const Contraction *plan, double samples, double calls)
{
    int second = plan->swapped ? A : B;
    double lanes = real_bytes(plan) == 8 ? 8 : 16;
    double m = count_of(plan, M, samples), n = count_of(plan, N, samples), k = count_of(plan, K, samples);
    double vectors = ceil(n / lanes), rows = vectors > 1 ? 14 : 24, in_flight = fmin(m, rows) * fmin(vectors, 4);
    double multiply = m * vectors * k / 2 * (in_flight < 8 ? 8 / in_flight : vectors > 1 ? 1 : 1.15);
    double tiles = ceil(m / rows) * vectors * 20, across = run_of(plan, N, second, samples);
    bool dense = across >= fmin(n, 4 * lanes), down = run_of(plan, K, second, samples) >= 8;
    double pack = n * k * (dense ? 0.15 : down ? 0.4 : 1.2);
    if (!plan->workers_share && !plan->tensor[second]->has_samples && n * k * (double)real_bytes(plan) <= KEPT_MOST)
        pack /= calls;
    else if (dense && m <= 28)
        pack = 0;
    bool straight = run_of(plan, N, C, samples) >= n && !dtype_is_half(plan->tensor[C]->dtype);
    bool packs = plan->windows == 0 && m > 8 && n > 2 * lanes && crowded(plan);
    int64_t apart = innermost(plan, K, second) * real_bytes(plan);
    if (packs && dense && apart % 64 == 0 && apart <= 8192 && !collide(apart)) /* B is read in place */
        pack = 0;
    if (packs) /* A is packed, for every block of columns, from scattered lines */
        pack += m * k * 0.5 * ceil(straight ? 1 : n / (MGPU_BLOCK_N / 2));
    double store = m * n * (straight ? 1 / lanes : run_of(plan, M, C, samples) >= 8 ? 0.5 : 1.5);
    return count_of(plan, BATCH, samples) * (multiply + tiles + pack + store);
}

/* With few results per sample (a dense layer), a worker's share of the samples would be too few rows. So all workers divide the
 * results of all samples, and each reads only a part of the weight. Small contractions are not worth the barrier. */
static bool is_shared_by_workers(const Contraction *plan)
{
    double weight = 1, places = 1;
    bool sampled = false;
    if (!plan->tensor[C]->has_samples)
        return true;
    if (plan->by_one_worker || plan->windows > 0 || count_of(plan, BATCH, 1) > 1)
        return false;
    for (int i = 0; i < plan->axis_count; i++) {
        const MatmulAxis *axis = &plan->axes[i];
        if (axis->extent == MGPU_SAMPLES)
            sampled = axis->in[A] != axis->in[B];
        else if (plan->tensor[A]->has_samples ? axis->in[B] : axis->in[A])
            weight *= (double)axis->extent;
        else
            places *= (double)axis->extent;
    }
    return sampled && places < 16 && weight >= MUCH_WEIGHT;
}

/* Makes the lists with the better operand as A. */
static void choose_a(Contraction *plan)
{
    double batch = (double)contraction_samples(plan);
    plan->workers_share = is_shared_by_workers(plan);
    double samples = plan->workers_share ? batch : fmin(batch, plan->by_one_worker ? ONE_WORKER_SAMPLES : 8);
    double calls = plan->workers_share ? 1 : plan->by_one_worker ? ONE_WORKER_CALLS : fmax(1, batch / 16);
    make_lists(plan, B);
    double swapped = estimate(plan, samples, calls);
    make_lists(plan, A);
    if (plan->windows == 0 && swapped < estimate(plan, samples, calls)) /* windows move over A */
        make_lists(plan, B);
}

/* ---- cost */

/* Counts multiplications and additions: those of the padding, but not those of zeros between the elements of dilated windows. */
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
        count /= (double)plan->window[w].input_dilation;
    *fixed = sampled ? 0 : count;
    *per_sample = sampled ? count : 0;
}

/* In a depthwise convolution, every channel is a group: an axis besides the samples is in all three tensors, and the lists of
 * rows or columns contain positions only. Otherwise columns are channels. */
WorkKind contraction_work(const Contraction *plan)
{
    const int64_t FEW = 8;
    int64_t shared = 1, columns = 1;
    bool dilated = false;
    if (!plan->windows)
        return WORK_MATMUL;
    for (int i = 0; i < plan->windows; i++)
        dilated = dilated || plan->window[i].input_dilation > 1;
    for (int i = 0; i < plan->count[BATCH]; i++)
        shared *= plan->list[BATCH][i].extent > 0 ? plan->list[BATCH][i].extent : 1;
    for (int i = 0; i < plan->count[N]; i++)
        columns *= plan->list[N][i].extent > 0 ? plan->list[N][i].extent : 1;
    bool depthwise = shared > 1 && columns < FEW;
    return !depthwise                             ? dilated && columns < FEW ? WORK_DILATED : WORK_CONVOLUTION
           : plan->node->op == OP_CONVOLVE_WEIGHT ? WORK_DEPTHWISE_WEIGHT
                                                  : WORK_DEPTHWISE;
}

void contraction_cost(const Contraction *plan, double *flops, double *flops_per_sample, double *bytes, double *bytes_per_sample)
{
    count_operations(plan, flops, flops_per_sample);
    *bytes = *bytes_per_sample = 0;
    for (int i = 0; i < 3; i++) {
        const Tensor *tensor = plan->tensor[i];
        *(tensor->has_samples ? bytes_per_sample : bytes) += (double)shape_count(&tensor->shape) * dtype_bytes(tensor->dtype);
    }
}

/* Returns true if the list is one contiguous axis. */
static bool is_contiguous(const Contraction *plan, int list, int operand)
{
    return run_of(plan, list, operand, 2) >= count_of(plan, list, 2); /* what holds for two samples holds for any number */
}

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

static int64_t innermost_extent(const Contraction *plan, int list)
{
    for (int i = plan->count[list] - 1; i >= 0; i--)
        if (plan->list[list][i].extent != 1)
            return plan->list[list][i].extent;
    return 1;
}

/* Returns the extent of a list, as far as the compiler knows it, but at most `most`. */
static int64_t extent_of_list(const Contraction *plan, int list, int64_t samples, int64_t most)
{
    int64_t extent = 1;
    for (int i = 0; i < plan->count[list]; i++) {
        int64_t own = plan->list[list][i].extent == MGPU_SAMPLES ? samples : plan->list[list][i].extent;
        extent = own > 0 && extent > most / own ? most : extent * own;
    }
    return extent < most ? extent : most;
}

/* Returns the bytes of B packed in vectors along N, or along the innermost axis of the batch, if the runtime uses that as N. */
static int64_t packed_bytes(const Contraction *plan, int64_t batch, int64_t columns, int64_t depth)
{
    int64_t inner = innermost_extent(plan, BATCH);
    int64_t straight = round_up(columns, 16) * batch, beside = inner > 1 ? round_up(inner, 16) * (batch / inner) * columns : 0;
    return (straight > beside ? straight : beside) * depth * real_bytes(plan);
}

typedef struct Workspace {
    int64_t copy, sums, packed;
    bool keep, unroll;
} Workspace;

/* With few columns and a window, neighbouring positions may fill the vectors (runtime/host/contract_matmul.h, mgpu_unroll). If
 * they are in M, packed B has room for more taps; if they are in K, there is room for all sums. */
static bool may_unroll(const Contraction *plan)
{
    return plan->windows > 0 && extent_of_list(plan, N, 1024, 1024) <= 8 && extent_of_list(plan, BATCH, 2, 2) == 1;
}

static Workspace workspace_of(const Contraction *plan)
{
    const Tensor *a = plan->tensor[plan->swapped ? B : A], *b = plan->tensor[plan->swapped ? A : B];
    int64_t most;
    Workspace work = {0};
    if (plan->windows > 0 || dtype_is_half(a->dtype))
        work.copy = MGPU_COPY_BYTES;
    else if (crowded(plan))
        work.copy = MGPU_ROWS_BYTES;
    if (dtype_is_half(plan->tensor[C]->dtype) || !is_contiguous(plan, N, C))
        work.sums = MGPU_SUMS_BYTES;
    int64_t batch = extent_of_list(plan, BATCH, 1, KEPT_MOST), n = extent_of_list(plan, N, 1, KEPT_MOST);
    int64_t k = extent_of_list(plan, K, 1, KEPT_MOST);
    /* if B is the same for all samples and not too large, it is packed once */
    if (!plan->workers_share && !b->has_samples && batch * n <= KEPT_MOST && batch * n * k <= KEPT_MOST) {
        work.packed = packed_bytes(plan, batch, n, k);
        work.keep = work.packed <= KEPT_MOST;
    }
    if (!work.keep) { /* else the B of one element of the batch is packed, or as much of it as the budget allows */
        int64_t samples = contraction_samples(plan), lanes = innermost_extent(plan, BATCH);
        most = plan->workers_share ? KEPT_MOST : MGPU_PACKED_BYTES;
        n = extent_of_list(plan, N, samples, most / real_bytes(plan));
        n = round_up(n > lanes ? n : lanes, 16);
        k = extent_of_list(plan, K, samples, most / real_bytes(plan));
        work.packed = n * k * real_bytes(plan) <= most ? n * k * real_bytes(plan) : k > LARGE_DEPTH ? MGPU_PACKED_BYTES : most;
        work.packed = work.packed > MGPU_PACKED_LEAST ? work.packed : MGPU_PACKED_LEAST;
    }
    work.unroll = may_unroll(plan) && (work.keep || !plan->tensor[C]->has_samples);
    if (work.unroll && work.keep)
        work.packed *= 16;
    else if (work.unroll)
        work.sums = MGPU_SUMS_BYTES;
    work.packed = round_up(work.packed, 64);
    return work;
}

int64_t contraction_workspace(const Contraction *plan, int64_t *per_sample)
{
    Workspace work = workspace_of(plan);
    *per_sample = 0;
    return work.copy + work.sums + work.packed;
}

bool contraction_keeps_packed(const Contraction *plan) { return workspace_of(plan).keep; }

uint8_t contraction_split(const Contraction *plan) { return plan->workers_share ? MGPU_SPLIT_WORKERS : MGPU_SPLIT_SAMPLES; }

/* ---- the table */

/* Makes the strides of w positive, if it reverses all taps, and sets `reversed`; false: it reverses other axes, or only some
 * taps. */
static bool unreverse(mgpu_convolution *v)
{
    int taps = 0, reversed = 0;
    for (int d = 0; d < v->dims; d++) {
        taps += v->w[d] > 1;
        reversed += v->w[d] > 1 && v->w_stride[2 + d] < 0;
        v->w_stride[2 + d] = llabs(v->w_stride[2 + d]);
    }
    v->reversed = reversed > 0;
    return v->w_stride[0] > 0 && v->w_stride[1] > 0 && (!reversed || reversed == taps);
}

/* Returns what a library needs to know of a convolution (mgpu_convolution); NULL: only the axes describe it. */
static const mgpu_convolution *convolution_of(const Contraction *plan)
{
    const Node *node = plan->node;
    bool weight = node->op == OP_CONVOLVE_WEIGHT;
    int w = weight ? C : B, y = weight ? B : C, dims = node->op == OP_EINSUM ? 0 : (int)node->ints[0];
    if (dims < 1 || dims > 3 || !plan->tensor[A]->has_samples || !plan->tensor[y]->has_samples || plan->tensor[w]->has_samples)
        return NULL;
    const Node *const nodes[] = {node->in[0], node->in[1], node};
    int64_t stride[3][MAX_RANK], samples[3];
    for (int i = 0; i < 3; i++)
        strides_of(nodes[i], plan->tensor[i], stride[i], &samples[i]);
    const int64_t *step = node->ints + 1, *low = step + dims, *dilation = low + 2 * dims, *input_dilation = dilation + dims;
    int64_t groups = input_dilation[dims];
    const Shape *x_shape = &nodes[A]->shape, *w_shape = &nodes[w]->shape, *y_shape = &nodes[y]->shape;
    mgpu_convolution *v = NEW(mgpu_convolution);
    *v = (mgpu_convolution){.weight = weight,
                            .dims = dims,
                            .groups = groups,
                            .in = w_shape->extent[1],
                            .out = w_shape->extent[0] / (groups > 0 ? groups : 1)};
    v->x_stride[0] = samples[A];
    v->x_stride[1] = stride[A][dims];
    v->w_stride[0] = stride[w][0];
    v->w_stride[1] = stride[w][1];
    v->y_stride[0] = samples[y];
    v->y_stride[1] = stride[y][dims];
    for (int d = 0; d < dims; d++) {
        v->x[d] = x_shape->extent[d];
        v->w[d] = w_shape->extent[2 + d];
        v->y[d] = y_shape->extent[d];
        v->stride[d] = step[d];
        v->dilation[d] = dilation[d];
        v->padding_low[d] = low[d];
        v->input_dilation[d] = input_dilation[d];
        v->x_stride[2 + d] = stride[A][d];
        v->w_stride[2 + d] = stride[w][2 + d];
        v->y_stride[2 + d] = stride[y][d];
    }
    return unreverse(v) ? v : NULL;
}

static void make_table(Contraction *plan)
{
    mgpu_contraction *t = &plan->table;
    int first = plan->swapped ? B : A, second = B - first, axes = 0, *const counts[LISTS] = {&t->batch, &t->m, &t->n, &t->k};
    mgpu_axis *axis = NEW_ARRAY(mgpu_axis, LISTS * plan->axis_count);
    mgpu_window *window = NEW_ARRAY(mgpu_window, plan->windows);
    Workspace work = workspace_of(plan);
    plan->label = NEW_ARRAY(const char *, LISTS * plan->axis_count);
    *t = (mgpu_contraction){.axis = axis,
                            .windows = plan->windows,
                            .window = window,
                            .convolution = convolution_of(plan),
                            .swapped = plan->swapped,
                            .type = real_bytes(plan) == 8 ? MGPU_F64 : MGPU_F32,
                            .half_a = half_of(plan->tensor[first]->dtype),
                            .half_b = half_of(plan->tensor[second]->dtype),
                            .half_c = half_of(plan->tensor[C]->dtype),
                            .copy = work.copy,
                            .sums = work.sums,
                            .packed = work.packed,
                            .keep = work.keep,
                            .unroll = work.unroll};
    t->a = plan->first[first];
    t->b = plan->first[second];
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < plan->count[list]; i++) {
            const MatmulAxis *own = &plan->list[list][i];
            bool moves = own->window > 0;
            if (own->extent == 1 && !moves)
                continue;
            axis[axes] = (mgpu_axis){own->extent, moves ? 0 : own->stride[first], own->stride[second], own->stride[C],
                                     own->window, moves ? own->step : 0};
            plan->label[axes++] = own->label;
            ++*counts[list];
        }
    for (int w = 0; w < plan->windows; w++)
        window[w] =
            (mgpu_window){plan->window[w].extent, plan->window[w].stride, plan->window[w].first, plan->window[w].input_dilation};
}

Contraction *contraction_plan(const Node *node, const Tensor *a, const Tensor *b, const Tensor *result, bool alone)
{
    Contraction *plan = NEW(Contraction);
    plan->node = node;
    plan->by_one_worker = alone;
    const Tensor *tensors[] = {a, b, result};
    const Node *nodes[] = {node->in[0], node->in[1], node};
    int64_t stride[3][MAX_RANK], samples[3];
    for (int i = 0; i < 3; i++) {
        plan->tensor[i] = tensors[i];
        bool real =
            dtype_is_half(tensors[i]->dtype) ? result->dtype != F64 : tensors[i]->dtype == F32 || tensors[i]->dtype == F64;
        if (!real || (tensors[i]->dtype == F64) != (result->dtype == F64))
            die("contraction of %s and %s to %s", dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(result->dtype));
        int64_t begin = strides_of(nodes[i], tensors[i], stride[i], &samples[i]);
        if (i < C)
            plan->first[i] = begin;
    }
    add_samples(plan, samples);
    if (node->op == OP_EINSUM)
        add_letters(plan, stride);
    else if (node->op == OP_CONVOLVE || node->op == OP_CONVOLVE_WEIGHT)
        add_convolution(plan, stride);
    else
        die("no contraction: %s", OP_INFO[node->op].name);
    drop_windows(plan);
    choose_a(plan);
    make_table(plan);
    return plan;
}

/* ---- identity */

static void identify_convolution(Sha256 *sha, const mgpu_convolution *v)
{
    IDENTITY_ADD(sha, v->weight, v->reversed, v->dims, v->groups, v->in, v->out);
    const int64_t *const lists[] = {v->x, v->w, v->y, v->stride, v->dilation, v->padding_low, v->input_dilation};
    for (int i = 0; i < COUNT(lists); i++)
        identity_numbers(sha, lists[i], v->dims);
    const int64_t *const strides[] = {v->x_stride, v->w_stride, v->y_stride};
    for (int i = 0; i < COUNT(strides); i++)
        identity_numbers(sha, strides[i], v->dims + 2);
}

void contraction_identity(const Contraction *plan, Sha256 *sha)
{
    const mgpu_contraction *t = &plan->table;
    IDENTITY_ADD(sha, t->batch, t->m, t->n, t->k, t->windows, t->convolution != NULL, t->a, t->b, t->swapped, t->type, t->half_a,
                 t->half_b, t->half_c, t->copy, t->sums, t->packed, t->unroll, t->keep, plan->workers_share);
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++) {
        const mgpu_axis *a = &t->axis[i];
        IDENTITY_ADD(sha, a->extent, a->a, a->b, a->c, a->window, a->step);
    }
    for (int i = 0; i < t->windows; i++)
        IDENTITY_ADD(sha, t->window[i].extent, t->window[i].stride, t->window[i].first, t->window[i].input_dilation);
    if (t->convolution)
        identify_convolution(sha, t->convolution);
    for (int i = 0; i < 3; i++)
        IDENTITY_ADD(sha, !tensor_is_aligned(plan->tensor[i]));
}
