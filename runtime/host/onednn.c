/* onednn.c: prepares primitives of oneDNN for a table of runtime/abi/mgpu_gemm.h.
 *
 * A convolution becomes a convolution with channels-last activations. The library's fast code needs weights in a blocked format,
 * so weights are reordered before (or the gradient after) the primitive, in every run, unless the caller keeps them packed. Plain
 * weights would select its general code, which is slower than ours. A plain matmul becomes a matmul, which supports any strides;
 * axes that cannot be merged into one M, N or K become loops around it. bf16: without AMX, the library's bf16 code is half as
 * fast as its f32 code. Operands are then widened, and results narrowed, in scratch memory, a few samples or rows at a time so
 * that they stay in the cache. Without AVX-512 its reorders are not vectorized (bn_cnn, width 8, bf16 on Zen 3: 520 ms per step,
 * 24 ms without the library); then our code is used. */
#include "runtime/host/onednn_matmul.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

enum { CACHE_BYTES = 768 * 1024 }; /* of f32 values that one call of a primitive should touch */

static atomic_bool available;

/* ---- whether the library is faster
 *
 * GFLOP/s of one core with AVX-512 (a peak of 176), f32, oneDNN 2.6.3 (3.2: alike), reorders of weights included:
 *
 *                                                        the library   mgpu_contract
 *     lenet5's convolutions (1, 6, 16 channels)             50 - 175     30 - 140
 *     3x3, 16 and more channels, forward and dX            150 - 195    125 - 160
 *     3x3, dW                                              140 - 180    110 - 160
 *         with a stride, 64 channels or more               115 - 125    125 - 145    ours
 *         1 to 3 channels to 32 or more                    100 - 125    120 - 150    ours
 *         large weights, few places (reordering)            90 - 110    125 - 135    ours
 *     1x1 and matmuls of matrices, 64 rows and more       110 - 175     75 - 160
 *         fewer rows                                        50 - 150     60 - 165    ours
 *         rows of B whole pages apart                       65 -  80    100 - 130    ours
 *         gradients of weights by 1024 rows and more       120 - 150    140 - 150    ours
 *     1x1 with a stride, few channels, forward and dW       65 - 100     75 - 135    ours
 *     dX of a strided convolution                           65 - 170     35 - 150
 *     general code (names with gemm, ref)                   10 - 120                 ours
 *
 * Its "brg" implementations are first in its list, but older ones are up to twice as fast if channels do not fill a vector,
 * for strided convolutions of few channels and for gradients of strided ones. */

static bool general_code(const char *description)
{
    return strncmp(description, "ref", 3) == 0 || strstr(description, "gemm") != NULL;
}

/* Properties that the rules depend on. */
typedef struct ConvolutionProperties {
    int64_t in, out, weights, depth; /* of a group; of a group; of a group; places of all samples */
    bool strided, pointwise;
} ConvolutionProperties;

static ConvolutionProperties properties_of(const OnednnConvolution *c)
{
    const int64_t *w = c->w.extent + (c->w.rank > c->x.rank), *y = c->y.extent + 2; /* out, in, taps; places */
    ConvolutionProperties it = {.out = w[0], .in = w[1], .weights = w[0] * w[1], .depth = c->y.extent[0], .pointwise = true};
    int dims = c->x.rank - 2 < 3 ? c->x.rank - 2 : 3;
    for (int d = 0; d < dims; d++) {
        it.depth *= y[d];
        it.weights *= w[2 + d];
        it.strided = it.strided || c->stride[d] > 1;
        it.pointwise = it.pointwise && w[2 + d] == 1;
    }
    return it;
}

static const char *to_avoid(const OnednnConvolution *c)
{
    enum { VECTOR = 16, WIDE = 64 };
    ConvolutionProperties it = properties_of(c);
    bool slow_stride = it.strided && (c->kind == ONEDNN_BACKWARD_DATA || (!it.pointwise && it.in < WIDE));
    return it.out < VECTOR || it.in < VECTOR || slow_stride ? "brg" : NULL;
}

/* calls: of the primitive in one run */
static bool worth_convolution(const OnednnConvolution *c, const OnednnPrimitive *primitive, int64_t calls)
{
    enum { WIDE = 64, FEW = 64 /* places: their matmuls take no longer than reordering weights */ };
    enum { MANY = 512, LARGE = 512 * 1024 /* weights: more than fit into the cache */ };
    ConvolutionProperties it = properties_of(c);
    it.depth *= calls;
    if (general_code(primitive->implementation) || (it.pointwise && it.depth < FEW))
        return false;
    if (c->kind == ONEDNN_FORWARD)
        return !(it.strided && it.pointwise && it.in < WIDE);
    if (c->kind == ONEDNN_BACKWARD_DATA)
        return true;
    bool first = it.in <= 3 && it.out >= 32, slow_stride = it.strided && (it.pointwise ? it.in < WIDE : it.in >= WIDE);
    return !first && !slow_stride && it.depth >= (it.weights > LARGE ? MANY : FEW);
}

static bool worth_matmul(const OnednnTensor *x, const OnednnTensor *w, const OnednnPrimitive *primitive, int loops, int64_t m,
                         int64_t n, int64_t k)
{
    enum { ROWS = 64, SMALL = 128 * 1024 /* multiplications */, LARGE = 1024 * 1024 /* elements */, PAGE = 1024 };
    enum { MANY = 1024, WIDE = 192 };
    bool collides = w->stride[1] == 1 && w->stride[0] % PAGE == 0 && n * k > LARGE;
    bool transposed = x->stride[0] == 1 && x->stride[1] >= WIDE && m >= WIDE && n >= WIDE && k >= MANY;
    if (transposed && x->type == ONEDNN_F32)
        return false;
    return strncmp(primitive->implementation, "ref", 3) != 0 && m >= ROWS && (double)m * (double)n * (double)k >= SMALL &&
           !collides && (loops == 0 || strncmp(primitive->implementation, "brg", 3) == 0);
}

/* Widening is a pass over the operands. It pays if they are in the cache, a few rows at a time (the second matrix is then widened
 * once for all), or if there are many multiplications per element. */
static bool worth_widening(const OnednnTensor *w, int64_t calls, int64_t m, int64_t n, int64_t k)
{
    enum { MANY = 128, LARGE = 1024 * 1024 /* elements, stored by rows: mgpu_contract is as fast for these */ };
    if (w->stride[1] == 1 && n * k >= LARGE)
        return false;
    double elements = (double)m * (double)k + (double)k * (double)n + (double)m * (double)n;
    return (calls > 1 && calls * m >= MANY) || elements * 4 <= 2 * CACHE_BYTES ||
           (double)m * (double)n * (double)k >= MANY * elements;
}

/* ---- types */

static int64_t bytes_of(int type) { return type == ONEDNN_BF16 ? 2 : 4; }

/* Types of a, b, c in memory. native: the library supports them; else all are widened to f32. */
typedef struct Types {
    int operand[3];
    bool known, native;
} Types;

static Types types_of(const mgpu_contraction *table)
{
    const mgpu_half half[] = {table->swapped ? table->half_b : table->half_a, table->swapped ? table->half_a : table->half_b,
                              table->half_c};
    Types types = {.known = table->type == MGPU_F32};
    for (int i = 0; i < 3; i++)
        types.operand[i] = half[i] ? ONEDNN_BF16 : ONEDNN_F32;
    for (int i = 0; i < 3; i++) /* f16 is left to mgpu_contract */
        types.known = types.known && half[i] != MGPU_HALF_F16;
    types.native = half[A] && half[B] ? onednn_has_amx() : !half[A] && !half[B] && !half[C];
    return types;
}

/* ---- convolutions */

static OnednnTensor places_tensor(int type, int64_t samples, int64_t channels, int dims, const int64_t *extent,
                                  const int64_t *stride)
{
    OnednnTensor tensor = {.type = type, .rank = dims + 2, .extent = {samples, channels}};
    for (int d = 0; d < dims; d++)
        tensor.extent[2 + d] = extent[d];
    memcpy(tensor.stride, stride, sizeof *stride * (size_t)(dims + 2));
    return tensor;
}

static OnednnTensor weight_tensor(int type, const mgpu_convolution *c, bool backward)
{
    OnednnTensor tensor = {.type = type};
    int i = 0;
    if (c->groups > 1) {
        tensor.extent[i] = c->groups;
        tensor.stride[i++] = c->out * c->w_stride[0];
    }
    tensor.extent[i] = backward ? c->in : c->out;
    tensor.stride[i++] = c->w_stride[backward];
    tensor.extent[i] = backward ? c->out : c->in;
    tensor.stride[i++] = c->w_stride[!backward];
    for (int d = 0; d < c->dims; d++) {
        tensor.extent[i] = c->w[d];
        tensor.stride[i++] = c->w_stride[2 + d];
    }
    tensor.rank = i;
    return tensor;
}

/* An x with input dilation and stride 1 is the data gradient of a convolution with that stride, with reversed taps. */
static bool describe_convolution(const mgpu_convolution *c, const Types *types, int64_t samples, OnednnConvolution *to,
                                 int operand[3])
{
    static const int ORDER[3][3] = {{A, B, C}, {A, C, B}, {C, B, A}};
    bool input_dilation = false, stepped = false;
    for (int d = 0; d < c->dims; d++) {
        input_dilation = input_dilation || c->input_dilation[d] > 1;
        stepped = stepped || c->stride[d] > 1;
    }
    if (input_dilation && (stepped || c->weight))
        return false;
    memcpy(operand, ORDER[input_dilation ? 2 : c->weight], sizeof ORDER[0]);
    int64_t out = c->groups * c->out, in = c->groups * c->in;
    *to = (OnednnConvolution){.kind = input_dilation ? ONEDNN_BACKWARD_DATA
                                      : c->weight    ? ONEDNN_BACKWARD_WEIGHTS
                                                     : ONEDNN_FORWARD};
    OnednnTensor x = places_tensor(types->operand[A], samples, in, c->dims, c->x, c->x_stride);
    OnednnTensor y = places_tensor(types->operand[c->weight ? B : C], samples, out, c->dims, c->y, c->y_stride);
    to->x = input_dilation ? y : x;
    to->y = input_dilation ? x : y;
    to->w = weight_tensor(types->operand[c->weight ? C : B], c, input_dilation);
    for (int d = 0; d < c->dims; d++) {
        int64_t reach = c->dilation[d] * (c->w[d] - 1);
        to->stride[d] = input_dilation ? c->input_dilation[d] : c->stride[d];
        to->dilation[d] = c->dilation[d];
        to->padding_low[d] = input_dilation ? reach - c->padding_low[d] : c->padding_low[d];
        if (to->padding_low[d] < 0)
            return false;
        int64_t places = to->y.extent[2 + d], side = to->x.extent[2 + d];
        to->padding_high[d] = (places - 1) * to->stride[d] + reach + 1 - side - to->padding_low[d];
    }
    return true;
}

/* Describes the weights by few axes, outermost first, with reversed taps. */
static void set_flip(MgpuLibraryMatmul *matmul, const mgpu_convolution *c)
{
    Tap *tap = matmul->flip;
    int count = 0;
    bool any = false;
    tap[count++] = (Tap){c->groups * c->out, c->w_stride[0], false};
    tap[count++] = (Tap){c->in, c->w_stride[1], false};
    for (int d = 0; d < c->dims; d++) {
        tap[count++] = (Tap){c->w[d], c->w_stride[2 + d], true};
        any = any || c->w[d] > 1;
    }
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && tap[j].stride > tap[j - 1].stride; j--) {
            Tap moved = tap[j];
            tap[j] = tap[j - 1];
            tap[j - 1] = moved;
        }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        Tap *last = &tap[kept > 0 ? kept - 1 : 0];
        if (tap[i].extent == 1)
            continue;
        if (kept > 0 && last->flipped == tap[i].flipped && last->stride == tap[i].stride * tap[i].extent)
            *last = (Tap){last->extent * tap[i].extent, tap[i].stride, last->flipped};
        else
            tap[kept++] = tap[i];
    }
    matmul->flips = any ? kept : 0;
}

/* Returns the largest divisor of `count` that is at most `most`, or 1. */
static int64_t divisor(int64_t count, int64_t most)
{
    for (int64_t i = most < count ? most : count; i > 1; i--)
        if (count % i == 0)
            return i;
    return 1;
}

/* Prepares the conversion between the operand's memory, `plain`, and the argument of `main`. */
static bool prepare_conversion(MgpuLibraryMatmul *matmul, int argument, const OnednnTensor *plain)
{
    const void *tensor = matmul->main.tensor[argument];
    return onednn_is(tensor, plain) || onednn_reorder(plain, tensor, argument == matmul->result, &matmul->convert[argument]);
}

static bool best_convolution(OnednnConvolution *c, OnednnPrimitive *primitive)
{
    c->avoid = to_avoid(c);
    if (c->avoid != NULL && onednn_convolution(c, primitive)) {
        if (!general_code(primitive->implementation))
            return true;
        onednn_free(primitive);
    }
    c->avoid = NULL;
    return onednn_convolution(c, primitive);
}

static bool prepare_convolution(MgpuLibraryMatmul *matmul, const mgpu_contraction *table, const Types *types,
                                const MgpuPart *share)
{
    const mgpu_convolution *c = table->convolution;
    if (c->x_stride[0] <= 0 || c->y_stride[0] <= 0)
        return false;
    int64_t begin = share->samples * share->index / share->count;
    int64_t samples = share->samples * (share->index + 1) / share->count - begin;
    OnednnConvolution to = {0};
    if (!describe_convolution(c, types, samples > 0 ? samples : 1, &to, matmul->operand))
        return false;
    matmul->result = matmul->operand[X] == C ? X : matmul->operand[W] == C ? W : Y;
    matmul->partial = c->weight;
    const int64_t per_sample[] = {c->x_stride[0], c->weight ? c->y_stride[0] : 0, c->weight ? 0 : c->y_stride[0]};
    for (int i = 0; i < 3; i++) {
        matmul->sample[i] = per_sample[i] * bytes_of(types->operand[i]);
        matmul->offset[i] = begin * matmul->sample[i];
    }
    if (to.kind == ONEDNN_BACKWARD_DATA)
        set_flip(matmul, c);
    matmul->element = bytes_of(to.w.type);
    matmul->to = 1;
    if (samples == 0) {
        matmul->to = 0;
        matmul->zeros = c->weight ? c->groups * c->out * c->in * bytes_of(types->operand[C]) : 0;
        for (int d = 0; d < c->dims; d++)
            matmul->zeros *= c->w[d];
        return true;
    }
    OnednnConvolution wide = to;
    wide.w.any = true;
    if (!types->native) {
        wide.x.type = wide.w.type = wide.y.type = ONEDNN_F32;
        int64_t chunk = divisor(samples, CACHE_BYTES / ((c->x_stride[0] + c->y_stride[0]) * 4));
        if (c->weight && properties_of(&to).weights * 4 > CACHE_BYTES)
            chunk = samples; /* adding partial gradients would take longer */
        wide.x.extent[0] = wide.y.extent[0] = to.x.extent[0] = to.y.extent[0] = chunk;
        matmul->to = samples / chunk;
        matmul->loop[matmul->loops++] = (Loop){matmul->to, {0}};
        for (int i = 0; i < 3; i++)
            matmul->loop[0].move[i] = matmul->sample[i] * chunk;
        matmul->moves[X] = matmul->moves[Y] = matmul->to > 1;
    }
    return best_convolution(&wide, &matmul->main) && (share->any_speed || worth_convolution(&wide, &matmul->main, matmul->to)) &&
           prepare_conversion(matmul, X, &to.x) && prepare_conversion(matmul, W, &to.w) && prepare_conversion(matmul, Y, &to.y);
}

/* ---- plain matmuls */

typedef struct FoldedAxis {
    int64_t extent, stride[3];
} FoldedAxis; /* strides in A, B, C of the table */
typedef struct FoldedAxes {
    FoldedAxis axis[MGPU_AXES];
    int count;
} FoldedAxes;

/* Merges contiguous axes of a list; returns false if one is in a window. */
static bool fold(const mgpu_axis *axis, int count, int64_t samples, FoldedAxes *list)
{
    list->count = 0;
    for (int i = 0; i < count; i++) {
        if (axis[i].window != 0)
            return false;
        FoldedAxis next = {axis[i].extent == MGPU_SAMPLES ? samples : axis[i].extent, {axis[i].a, axis[i].b, axis[i].c}};
        if (next.extent == 1)
            continue;
        bool continues = list->count > 0;
        FoldedAxis *last = &list->axis[continues ? list->count - 1 : 0];
        for (int j = 0; j < 3 && continues; j++)
            continues = last->stride[j] == next.stride[j] * next.extent;
        if (continues)
            *last = (FoldedAxis){last->extent * next.extent, {next.stride[0], next.stride[1], next.stride[2]}};
        else
            list->axis[list->count++] = next;
    }
    return true;
}

/* Removes the axis that becomes the matrices' axis: the one with stride 1 in C, else in the operand, else the longest. */
static FoldedAxis take(FoldedAxes *list, int operand)
{
    int best = 0;
    if (list->count == 0)
        return (FoldedAxis){1, {0, 0, 0}};
    for (int i = 1; i < list->count; i++) {
        const FoldedAxis *old = &list->axis[best], *new = &list->axis[i];
        int old_rank = old->stride[C] == 1 ? 2 : old->stride[operand] == 1;
        int new_rank = new->stride[C] == 1 ? 2 : new->stride[operand] == 1;
        if (new_rank > old_rank || (new_rank == old_rank && new->extent > old->extent))
            best = i;
    }
    FoldedAxis taken = list->axis[best];
    for (int i = best + 1; i < list->count; i++)
        list->axis[i - 1] = list->axis[i];
    list->count--;
    return taken;
}

/* Describes a matrix by two axes; returns false if none has stride 1. */
static bool matrix(int type, const FoldedAxis *row, const FoldedAxis *column, int operand, OnednnTensor *tensor)
{
    int64_t rows = row->extent, columns = column->extent, down = row->stride[operand], right = column->stride[operand];
    if (columns == 1)
        right = 1;
    if (rows == 1)
        down = right == 1 ? columns : 1;
    *tensor = (OnednnTensor){.type = type, .rank = 2, .extent = {rows, columns}, .stride = {down, right}};
    return (right == 1 && down >= columns) || (down == 1 && right >= rows);
}

/* Returns the same matrix in f32, without gaps between rows (or columns). */
static OnednnTensor widened(const OnednnTensor *from)
{
    OnednnTensor to = *from;
    bool by_rows = from->stride[1] == 1;
    to.type = ONEDNN_F32;
    to.stride[by_rows ? 0 : 1] = from->extent[by_rows ? 1 : 0];
    return to;
}

static void add_loop(MgpuLibraryMatmul *matmul, int64_t count, const int64_t stride[3], const int64_t bytes[3],
                     const int place[3])
{
    Loop *loop = &matmul->loop[matmul->loops++];
    loop->count = count;
    for (int i = 0; i < 3; i++)
        loop->move[place[i]] = stride[i] * bytes[i];
}

/* Divides the result among `shares`: iterations of the loops if there are enough, else rows or columns. Returns false if this
 * share is empty. */
static bool divide(MgpuLibraryMatmul *matmul, FoldedAxis *m, FoldedAxis *n, const MgpuPart *share, const int64_t bytes[3],
                   const int place[3])
{
    enum { BLOCK = 16 };
    int64_t count = 1;
    for (int i = 0; i < matmul->loops; i++)
        count *= matmul->loop[i].count;
    matmul->to = count;
    if (count >= share->count) {
        matmul->from = count * share->index / share->count;
        matmul->to = count * (share->index + 1) / share->count;
        return matmul->from < matmul->to;
    }
    FoldedAxis *axis = n->extent >= m->extent ? n : m;
    int64_t blocks = (axis->extent + BLOCK - 1) / BLOCK;
    int64_t from = blocks * share->index / share->count * BLOCK, to = blocks * (share->index + 1) / share->count * BLOCK;
    to = to < axis->extent ? to : axis->extent;
    axis->extent = to - from;
    for (int i = 0; i < 3; i++)
        matmul->offset[place[i]] += from * axis->stride[i] * bytes[i];
    return from < to;
}

static bool prepare_matmul(MgpuLibraryMatmul *matmul, const mgpu_contraction *table, const Types *types, const MgpuPart *share)
{
    FoldedAxes batch, m_list, n_list, k_list;
    const mgpu_axis *axis = table->axis;
    bool plain =
        fold(axis, table->batch, share->samples, &batch) && fold(axis += table->batch, table->m, share->samples, &m_list) &&
        fold(axis += table->m, table->n, share->samples, &n_list) && fold(axis += table->n, table->k, share->samples, &k_list);
    if (!plain || k_list.count > 1)
        return false;
    int place[] = {table->swapped ? B : A, table->swapped ? A : B, C}; /* of the table's A, B, C */
    int64_t bytes[3];
    for (int i = 0; i < 3; i++)
        bytes[i] = bytes_of(types->operand[place[i]]);
    matmul->offset[place[0]] = table->a * bytes[0];
    matmul->offset[place[1]] = table->b * bytes[1];
    for (int i = 0; i < table->batch + table->m + table->n + table->k; i++)
        if (table->axis[i].extent == MGPU_SAMPLES) {
            const int64_t stride[] = {table->axis[i].a, table->axis[i].b, table->axis[i].c};
            for (int j = 0; j < 3; j++)
                matmul->sample[place[j]] += stride[j] * bytes[j];
        }
    FoldedAxis m = take(&m_list, 0), n = take(&n_list, 1), k = take(&k_list, 0);
    const FoldedAxes *rest[] = {&batch, &m_list, &n_list};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < rest[i]->count; j++)
            add_loop(matmul, rest[i]->axis[j].extent, rest[i]->axis[j].stride, bytes, place);
    if (table->convolution != NULL && matmul->loops > 0)
        return false;
    if (m.extent == 0 || n.extent == 0 || k.extent == 0)
        return false;
    if (!divide(matmul, &m, &n, share, bytes, place)) {
        matmul->from = matmul->to = 0;
        return true;
    }
    /* C is stored by rows: in the library's y = x w, N is contiguous */
    int first = 0;
    if (n.stride[C] != 1 && (m.stride[C] == 1 || n.extent == 1)) {
        FoldedAxis moved = m;
        m = n;
        n = moved;
        first = 1;
    }
    OnednnTensor tensor[3];
    matmul->operand[X] = place[first];
    matmul->operand[W] = place[1 - first];
    matmul->operand[Y] = C;
    matmul->result = Y;
    if (!matrix(types->operand[matmul->operand[X]], &m, &k, first, &tensor[X]) ||
        !matrix(types->operand[matmul->operand[W]], &k, &n, 1 - first, &tensor[W]) ||
        !matrix(types->operand[C], &m, &n, C, &tensor[Y]) || tensor[Y].stride[1] != 1)
        return false;
    OnednnTensor wide[3];
    memcpy(wide, tensor, sizeof wide);
    int64_t calls = 1;
    if (!types->native) {
        int64_t rows = divisor(m.extent, CACHE_BYTES / (4 * (k.extent + n.extent)) + 1);
        if (rows >= 64 && rows < m.extent) {
            int64_t stride[3] = {m.stride[0] * rows, m.stride[1] * rows, m.stride[2] * rows};
            calls = m.extent / rows;
            matmul->from *= calls;
            matmul->to *= calls;
            add_loop(matmul, calls, stride, bytes, place);
            tensor[X].extent[0] = tensor[Y].extent[0] = m.extent = rows;
        }
        for (int i = 0; i < 3; i++)
            wide[i] = widened(&tensor[i]);
    }
    if (!types->native && !share->any_speed && !worth_widening(&wide[W], calls, m.extent, n.extent, k.extent))
        return false;
    if (!onednn_matmul(&wide[X], &wide[W], &wide[Y], &matmul->main) ||
        !(share->any_speed ||
          worth_matmul(&wide[X], &wide[W], &matmul->main, matmul->loops, calls * m.extent, n.extent, k.extent)))
        return false;
    for (int i = 0; i < matmul->loops; i++)
        for (int j = 0; j < 3; j++)
            matmul->moves[j] = matmul->moves[j] || matmul->loop[i].move[matmul->operand[j]] != 0;
    for (int i = 0; i < 3; i++)
        if (!prepare_conversion(matmul, i, &tensor[i]))
            return false;
    return true;
}

/* ---- preparing contractions */

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Returns true if the primitive's results in one run are partial sums. */
static bool adds(const MgpuLibraryMatmul *matmul) { return matmul->to - matmul->from > 1 && !matmul->moves[matmul->result]; }

static void place_scratch(MgpuLibraryMatmul *matmul)
{
    size_t most = matmul->main.scratch_bytes;
    for (int i = 0; i < 3; i++)
        most = matmul->convert[i].scratch_bytes > most ? matmul->convert[i].scratch_bytes : most;
    int64_t at = round_up((int64_t)most);
    for (int i = 0; i < 3; i++) {
        matmul->staged[i] = at;
        if (matmul->convert[i].primitive != NULL || (i == matmul->result && adds(matmul)))
            at += round_up((int64_t)matmul->main.bytes[i]);
    }
    matmul->sums = at;
    if (adds(matmul))
        at += round_up((int64_t)matmul->main.bytes[matmul->result]);
    matmul->flipped = at;
    int64_t weights = matmul->flips > 0 ? matmul->element : 0;
    for (int i = 0; i < matmul->flips; i++)
        weights *= matmul->flip[i].extent;
    matmul->scratch = at + round_up(weights);
}

bool mgpu_onednn_open(char *description, size_t capacity)
{
    const char *wish = getenv("MGPU_ONEDNN");
    if (wish != NULL && strcmp(wish, "off") == 0) {
        snprintf(description, capacity, "oneDNN is off");
        return false;
    }
    available = onednn_load(wish, description, capacity);
    return available;
}

/* Undoes an attempt. */
static void clear(MgpuLibraryMatmul *matmul)
{
    MgpuLibraryMatmul empty = {.threads = matmul->threads, .per_thread = matmul->per_thread};
    for (int i = 0; i < 3; i++)
        onednn_free(&matmul->convert[i]);
    onednn_free(&matmul->main);
    *matmul = empty;
}

/* A convolution with one tap and stride 1 is a plain matmul. */
static bool prepare(MgpuLibraryMatmul *matmul, const mgpu_contraction *table, const Types *types, const MgpuPart *share)
{
    if (!share->convolution && prepare_matmul(matmul, table, types, share))
        return true;
    clear(matmul);
    return table->convolution != NULL && prepare_convolution(matmul, table, types, share);
}

MgpuLibraryMatmul *mgpu_onednn_prepare(const mgpu_contraction *table, const MgpuPart *share)
{
    Types types = types_of(table);
    if (!available || !types.known || share->samples < 0 || !(types.native || share->any_speed || onednn_converts()))
        return NULL;
    MgpuLibraryMatmul *matmul = mgpu_allocate(1, sizeof *matmul);
    matmul->threads = share->threads;
    matmul->per_thread = mgpu_allocate((size_t)share->threads, sizeof *matmul->per_thread);
    int before = onednn_threads(1);
    bool done = prepare(matmul, table, &types, share);
    if (!done && types.native && types.operand[A] == ONEDNN_BF16) { /* 2.6 has no strided data gradients with AMX */
        clear(matmul);
        types.native = false;
        done = prepare(matmul, table, &types, share);
    }
    onednn_threads(before);
    if (!done) {
        mgpu_onednn_free(matmul);
        return NULL;
    }
    place_scratch(matmul);
    return matmul;
}

void mgpu_onednn_free(MgpuLibraryMatmul *matmul)
{
    for (int i = 0; i < matmul->threads; i++) {
        for (int j = 0; matmul->per_thread[i] != NULL && j < 4; j++)
            onednn_leave(&(*matmul->per_thread[i])[j]);
        free(matmul->per_thread[i]);
    }
    clear(matmul);
    free(matmul->per_thread);
    free(matmul);
}

bool mgpu_onednn_partial(const MgpuLibraryMatmul *matmul) { return matmul->partial; }
int64_t mgpu_onednn_scratch(const MgpuLibraryMatmul *matmul) { return matmul->scratch; }
const char *mgpu_onednn_implementation(const MgpuLibraryMatmul *matmul)
{
    return matmul->main.implementation != NULL ? matmul->main.implementation : "";
}
