/* tiles.c: which tiles a matmul is cut into on a GPU, and its tables as CUDA C.
 *
 * In: a table of runtime/abi/mgpu_gemm.h. Out: the same matmul with as few axes as possible (windows that never leave the operand
 * become strides, contiguous axes are joined). A window with input dilation gives several matmuls, one for each class of
 * positions with the same taps (in the gradient of a convolution with stride 2, three of four products are zeros). And
 * mgpu_tiles: an estimate in cycles of an H100 chooses them from a few good shapes. No decision depends on the device where the
 * program will run. */
#include "compiler/base/c_text.h"
#include "compiler/machine/machine.h"
#include "compiler/target/cuda/tiles.h"

#include <math.h>
#include <string.h>

static const char *const TYPE_NAME[] = {
    [MGPU_F16] = "MGPU_F16", [MGPU_BF16] = "MGPU_BF16", [MGPU_F32] = "MGPU_F32", [MGPU_F64] = "MGPU_F64"};

/* ---- windows with input dilation */

enum { MOST_PLACE_CLASSES = 16 };

typedef struct TileRegion { /* some positions of a matmul */
    mgpu_contraction table;
    mgpu_axis axis[4 * MGPU_AXES];
    mgpu_window window[MGPU_WINDOWS];
    int64_t c;
} TileRegion;

static int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

/* Returns the number of consecutive positions after which the taps repeat. */
static int64_t classes_of(const mgpu_contraction *t, int window)
{
    int place = mgpu_axis_in_window(t, MGPU_LIST_M, window), in_k = mgpu_axis_in_window(t, MGPU_LIST_K, window);
    int64_t input_dilation = t->window[window].input_dilation;
    return place == -2 || in_k == -2 ? MOST_PLACE_CLASSES + 1
           : place < 0               ? 1
                                     : input_dilation / common_divisor(input_dilation, t->axis[place].step);
}

/* Restricts the part to the positions r, r + classes, ...; false: there are none. */
static bool take_class(TileRegion *part, int window, int64_t classes, int64_t r)
{
    mgpu_window *w = &part->window[window];
    int place = mgpu_axis_in_window(&part->table, MGPU_LIST_M, window),
        in_k = mgpu_axis_in_window(&part->table, MGPU_LIST_K, window);
    int64_t input_dilation = w->input_dilation, position = w->first, every = 1, first = 0;
    if (place >= 0) {
        mgpu_axis *p = &part->axis[place];
        if (r >= p->extent)
            return false;
        position += r * p->step;
        part->c += r * p->c;
        p->extent = (p->extent - r + classes - 1) / classes;
        p->c *= classes;
        p->step = p->step * classes / input_dilation;
    }
    if (in_k >= 0) {
        mgpu_axis *k = &part->axis[in_k];
        every = input_dilation / common_divisor(input_dilation, k->step);
        while (first < every && (position + first * k->step) % input_dilation != 0)
            first++;
        position += first * k->step;
        part->table.b += first * k->b;
        k->extent = k->extent > first ? (k->extent - first + every - 1) / every : 0;
        k->b *= every;
        k->step = k->step * every / input_dilation;
    }
    if (position % input_dilation != 0) { /* only zeros */
        part->axis[mgpu_list_first(&part->table, MGPU_LIST_K)].extent = 0;
        position = 0;
    }
    w->first = position / input_dilation;
    w->input_dilation = 1;
    return true;
}

/* Appends the parts of one whose windows before `window` are split already. */
static void split_classes(const TileRegion *part, int window, TileRegion **parts, int *count)
{
    while (window < part->table.windows && part->window[window].input_dilation <= 1)
        window++;
    if (window >= part->table.windows) {
        APPEND(*parts, *count, *part);
        return;
    }
    int64_t classes = classes_of(&part->table, window);
    for (int64_t r = 0; r < classes; r++) {
        TileRegion own = *part;
        own.table.axis = own.axis;
        own.table.window = own.window;
        if (take_class(&own, window, classes, r))
            split_classes(&own, window + 1, parts, count);
    }
}

static TileRegion *split_matmul(const mgpu_contraction *from, int *count)
{
    TileRegion whole = {.table = *from}, *parts = NULL;
    int64_t classes = 1;
    for (int i = 0; i < from->batch + from->m + from->n + from->k; i++)
        whole.axis[i] = from->axis[i];
    for (int w = 0; w < from->windows; w++) {
        whole.window[w] = from->window[w];
        if (from->window[w].input_dilation > 1 && classes <= MOST_PLACE_CLASSES)
            classes *= classes_of(from, w);
    }
    whole.table.axis = whole.axis;
    whole.table.window = whole.window;
    *count = 0;
    if (classes <= MOST_PLACE_CLASSES && from->k > 0)
        split_classes(&whole, 0, &parts, count);
    if (*count == 0)
        APPEND(parts, *count, whole);
    for (int i = 0; i < *count; i++) {
        parts[i].table.axis = parts[i].axis;
        parts[i].table.window = parts[i].window;
    }
    return parts;
}

/* ---- reduction of the number of axes */

/* Returns the last position that the window's axes reach. */
static int64_t last_position(const mgpu_contraction *t, int window)
{
    int64_t last = t->window[window].first;
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++)
        if (t->axis[i].window == window + 1)
            last += (t->axis[i].extent - 1) * t->axis[i].step;
    return last;
}

static bool stays_inside(const mgpu_contraction *t, int window)
{
    const mgpu_window *w = &t->window[window];
    return w->input_dilation == 1 && w->first >= 0 && last_position(t, window) < w->extent;
}

static void copy_windows(const mgpu_contraction *from, CudaMatmul *p, bool alike, int number[MGPU_WINDOWS])
{
    p->table.windows = 0;
    for (int w = 0; w < from->windows; w++) {
        number[w] = 0;
        if (!alike && stays_inside(from, w)) {
            p->table.a += from->window[w].first * from->window[w].stride;
        } else {
            p->window[p->table.windows++] = from->window[w];
            number[w] = p->table.windows;
        }
    }
}

/* Returns true if the two axes, of which the second is the inner one, are contiguous. */
static bool is_one_axis(const mgpu_axis *outer, const mgpu_axis *inner)
{
    return outer->extent != MGPU_SAMPLES && inner->extent != MGPU_SAMPLES && outer->window == 0 && inner->window == 0 &&
           outer->a == inner->a * inner->extent && outer->b == inner->b * inner->extent && outer->c == inner->c * inner->extent;
}

static void copy_axes(const mgpu_contraction *from, CudaMatmul *p, bool alike, const int number[MGPU_WINDOWS])
{
    int *const counts[] = {&p->table.batch, &p->table.m, &p->table.n, &p->table.k};
    mgpu_axis *to = p->axis;
    for (int list = 0; list < 4; list++) {
        const mgpu_axis *first = from->axis + mgpu_list_first(from, list);
        mgpu_axis *begin = to;
        bool empty = false;
        for (int i = 0; i < mgpu_list_count(from, list); i++)
            empty = empty || first[i].extent == 0;
        if (empty)
            *to++ = (mgpu_axis){.extent = 0};
        for (int i = 0; i < mgpu_list_count(from, list) && !empty; i++) {
            mgpu_axis own = first[i];
            if (own.extent == 1 && !alike)
                continue;
            if (own.extent == MGPU_SAMPLES && to > begin)
                die("samples are not the outermost axis of their list");
            if (own.window > 0 && list != MGPU_LIST_M && list != MGPU_LIST_K)
                die("a window moves along an axis that is none of M or K");
            if (own.window > 0 && number[own.window - 1] == 0) { /* it never leaves the operand */
                own.a = own.step * from->window[own.window - 1].stride;
                own.window = 0;
                own.step = 0;
            } else if (own.window > 0) {
                own.window = number[own.window - 1];
            }
            if (to > begin && !alike && is_one_axis(to - 1, &own)) {
                own.extent *= to[-1].extent;
                to[-1] = own;
            } else {
                *to++ = own;
            }
        }
        *counts[list] = (int)(to - begin);
    }
}

/* ---- tiles */

/* good: fraction of the best speed that the shape reaches */
typedef struct TileShape {
    int rows, columns, down, across;
    double good;
} TileShape;

static const TileShape FMA_F32[] = {{128, 128, 16, 16, 1}, {128, 64, 16, 8, 0.9}, {64, 128, 8, 16, 0.9}, {64, 64, 8, 16, 0.75},
                                    {64, 32, 8, 8, 0.6},   {32, 64, 8, 8, 0.6},   {32, 32, 8, 8, 0.45},  {128, 16, 32, 4, 0.4},
                                    {16, 128, 4, 32, 0.4}, {64, 16, 16, 4, 0.35}, {16, 64, 4, 16, 0.35}};
static const TileShape FMA_F64[] = {{64, 64, 16, 16, 1}, {64, 32, 16, 8, 0.8}, {32, 64, 8, 16, 0.8},
                                    {32, 32, 8, 8, 0.6}, {64, 16, 16, 4, 0.5}, {16, 64, 4, 16, 0.5}};
static const TileShape MMA[] = {{128, 128, 2, 2, 1},  {256, 64, 4, 1, 1},  {64, 256, 1, 4, 1},    {128, 64, 2, 2, 0.8},
                                {64, 128, 1, 4, 0.8}, {64, 64, 2, 2, 0.6}, {128, 32, 4, 1, 0.45}, {32, 128, 1, 4, 0.45},
                                {64, 32, 2, 1, 0.4},  {32, 64, 1, 2, 0.4}, {32, 32, 2, 2, 0.3},   {128, 16, 4, 1, 0.3},
                                {16, 128, 1, 4, 0.3}, {64, 16, 2, 1, 0.2}, {16, 64, 1, 2, 0.2}};
/* for blocks: all of CUDA_THREADS threads */
static const TileShape BLOCK_F32[] = {{128, 128, 16, 16, 1}, {64, 64, 16, 16, 0.8}, {128, 32, 32, 8, 0.7},
                                      {32, 128, 8, 32, 0.7}, {256, 16, 64, 4, 0.5}, {16, 256, 4, 64, 0.5}};
static const TileShape BLOCK_F64[] = {
    {64, 64, 16, 16, 1}, {128, 32, 32, 8, 0.9}, {32, 128, 8, 32, 0.9}, {256, 16, 64, 4, 0.6}, {16, 256, 4, 64, 0.6}};
static const TileShape BLOCK_MMA[] = {{128, 128, 2, 4, 1},  {128, 64, 4, 2, 0.8}, {64, 128, 2, 4, 0.8}, {64, 64, 4, 2, 0.6},
                                      {128, 32, 4, 2, 0.5}, {32, 128, 2, 4, 0.5}, {128, 16, 8, 1, 0.3}, {16, 128, 1, 8, 0.3}};

enum {
    TILES_OF_UNIT = 2,
    THREADS_OF_UNIT = 1024, /* work that keeps an SM busy: tiles, or threads without tiles */
    LEAST_DEPTH = 256,
    LEAST_DIRECT_DEPTH = 64,  /* of a split */
    LEAST_GROUP_COLUMNS = 128 /* fewer warpgroups read as many bytes of shared memory as warps, for equally many sums */
};

static int last_axis(const mgpu_contraction *t, int list)
{
    int count = mgpu_list_count(t, list);
    return count > 0 ? mgpu_list_first(t, list) + count - 1 : -1;
}

static int64_t parts_of(const CudaMatmul *p, int64_t samples)
{
    int64_t depth = mgpu_list_extent(&p->table, MGPU_LIST_K, samples);
    int64_t each = mgpu_part_depth(&p->tiles, mgpu_tiles_of(&p->table, &p->tiles, samples), depth);
    return depth > each ? (depth + each - 1) / each : 1;
}

/* Estimates the cycles of the kernel and of its finishing function. */
static double estimate(const CudaMatmul *p, const TileShape *shape, int64_t samples)
{
    const mgpu_tiles *s = &p->tiles;
    const Chip *chip = &CHIP[PROCESSOR_CUDA];
    double rate = s->arithmetic == MGPU_MMA   ? (s->type_a == MGPU_F32 ? chip->multiply_adds.tf32 : chip->multiply_adds.half)
                  : p->table.type == MGPU_F64 ? chip->multiply_adds.f64
                                              : chip->multiply_adds.f32;
    double tiles = (double)mgpu_tiles_of(&p->table, s, samples), parts = (double)parts_of(p, samples);
    double depth = ceil((double)mgpu_list_extent(&p->table, MGPU_LIST_K, samples) / parts / s->depth) * s->depth;
    double own = shape->rows * shape->columns * (depth + 2 * s->depth) / (rate * shape->good) + 1500;
    return ceil(tiles * parts / chip->units) * own +
           (parts > 1 ? 4000 + tiles * parts * shape->rows * shape->columns * 8 / 1500 : 0);
}

static void set_shape(CudaMatmul *p, const TileShape *shape)
{
    mgpu_tiles *s = &p->tiles;
    bool in_double = p->table.type == MGPU_F64;
    s->rows = shape->rows;
    s->columns = shape->columns;
    s->down = shape->down;
    s->across = shape->across;
    s->depth = s->arithmetic == MGPU_MMA ? (s->type_a == MGPU_F32 ? 16 : 32) : in_double ? 8 : 16;
    s->stages = s->arithmetic == MGPU_MMA ? 4 : 3;
}

static const TileShape *shapes_of(const CudaMatmul *p, bool block, int *count)
{
    static const TileShape *const lists[2][3] = {{FMA_F32, FMA_F64, MMA}, {BLOCK_F32, BLOCK_F64, BLOCK_MMA}};
    static const int counts[2][3] = {{COUNT(FMA_F32), COUNT(FMA_F64), COUNT(MMA)},
                                     {COUNT(BLOCK_F32), COUNT(BLOCK_F64), COUNT(BLOCK_MMA)}};
    int kind = p->tiles.arithmetic == MGPU_MMA ? 2 : p->table.type == MGPU_F64;
    *count = counts[block][kind];
    return lists[block][kind];
}

int cuda_matmul_shapes(const CudaMatmul *p)
{
    int count;
    shapes_of(p, false, &count);
    return count;
}

static double cycles_in(CudaMatmul *p, const TileShape *shape, const CudaOptions *options)
{
    set_shape(p, shape);
    double tiles = (double)mgpu_tiles_of(&p->table, &p->tiles, options->samples);
    return options->block ? tiles * shape->rows * shape->columns / shape->good : estimate(p, shape, options->samples);
}

static void choose_shape(CudaMatmul *p, const CudaOptions *options)
{
    int count;
    const TileShape *shapes = shapes_of(p, options->block, &count);
    double *cycles = NEW_ARRAY(double, count);
    for (int i = 0; i < count; i++)
        cycles[i] = cycles_in(p, &shapes[i], options);
    for (int place = 0, best = 0; place <= options->place; place++) {
        for (int i = best = 0; i < count; i++)
            best = cycles[i] < cycles[best] ? i : best;
        cycles[best] = INFINITY;
        set_shape(p, &shapes[best]);
    }
}

/* Returns true if elements share so little of what they read that tiles gain nothing, or if there is very little work. */
static bool is_direct(const CudaMatmul *p, int64_t samples)
{
    const mgpu_contraction *t = &p->table;
    double m = (double)mgpu_list_extent(t, MGPU_LIST_M, samples), n = (double)mgpu_list_extent(t, MGPU_LIST_N, samples);
    double k = (double)mgpu_list_extent(t, MGPU_LIST_K, samples), batch = (double)mgpu_list_extent(t, MGPU_LIST_BATCH, samples);
    if (batch * m * n * k == 0)
        return true;
    int last = t->batch > 0 ? t->batch - 1 : -1;
    bool beside = last >= 0 && t->axis[last].c == 1; /* consecutive elements of the result differ in the batch */
    return (beside && m * n / (m + n) <= 4) || (k <= 64 && m * n * k <= 4096 && batch <= 4096);
}

/* alike: it is a part of a result, and the other parts have the same axes and windows */
static CudaMatmul *simple_matmul(const mgpu_contraction *from, const CudaOptions *options, int64_t c, bool alike)
{
    CudaMatmul *p = NEW(CudaMatmul);
    mgpu_tiles *s = &p->tiles;
    int number[MGPU_WINDOWS];
    p->table = (mgpu_contraction){.axis = p->axis, .window = p->window, .a = from->a, .b = from->b, .type = from->type};
    copy_windows(from, p, alike, number);
    copy_axes(from, p, alike, number);
    *s = (mgpu_tiles){.type_a = options->type[0],
                      .type_b = options->type[1],
                      .type_c = options->type[2],
                      .aligned_a = options->aligned[0],
                      .aligned_b = options->aligned[1],
                      .aligned_c = options->aligned[2],
                      .rows = 1,
                      .columns = 1,
                      .depth = 1,
                      .stages = 1,
                      .down = 1,
                      .across = 1,
                      .c = c};
    int m = last_axis(&p->table, MGPU_LIST_M), n = last_axis(&p->table, MGPU_LIST_N);
    s->transposed = m >= 0 && p->axis[m].c == 1 && !(n >= 0 && p->axis[n].c == 1);
    return p;
}

static void choose_tiles(CudaMatmul *p, const CudaOptions *options, bool splits)
{
    mgpu_tiles *s = &p->tiles;
    bool matrices = p->table.type == MGPU_F32 && s->type_a == s->type_b && (s->type_a != MGPU_F32 || options->tf32);
    int64_t depth = mgpu_list_extent(&p->table, MGPU_LIST_K, options->samples);
    if (is_direct(p, options->samples)) {
        s->arithmetic = MGPU_DIRECT;
        s->split_depth = LEAST_DIRECT_DEPTH;
        s->split_tiles = splits && depth >= 4 * LEAST_DIRECT_DEPTH ? CHIP[PROCESSOR_CUDA].units * THREADS_OF_UNIT : 0;
        return;
    }
    s->arithmetic = matrices ? MGPU_MMA : MGPU_FMA;
    s->split_depth = LEAST_DEPTH;
    s->split_tiles = splits && depth >= 2 * LEAST_DEPTH ? CHIP[PROCESSOR_CUDA].units * TILES_OF_UNIT : 0;
    choose_shape(p, options);
    /* a block function's shared memory may begin anywhere */
    s->warpgroups = !options->block && s->columns >= LEAST_GROUP_COLUMNS && mgpu_may_be_by_warpgroups(s);
}

bool cuda_split_depth(CudaMatmul *p, int64_t samples)
{
    mgpu_tiles *s = &p->tiles;
    if (p->next || s->arithmetic == MGPU_DIRECT || s->stages == 0 || s->split_tiles > 0 ||
        mgpu_list_extent(&p->table, MGPU_LIST_K, samples) >= 2 * s->split_depth)
        return false;
    s->split_tiles = CHIP[PROCESSOR_CUDA].units * TILES_OF_UNIT;
    return true;
}

static bool has_samples(const CudaMatmul *p, int list)
{
    int first = mgpu_list_first(&p->table, list);
    return mgpu_list_count(&p->table, list) > 0 && p->axis[first].extent == MGPU_SAMPLES;
}

/* Returns true if the number of tiles depends on that of samples. */
static bool has_samples_beside(const CudaMatmul *p)
{
    return has_samples(p, MGPU_LIST_BATCH) || has_samples(p, MGPU_LIST_M) || has_samples(p, MGPU_LIST_N);
}

static bool is_empty(const mgpu_contraction *t) { return mgpu_list_extent(t, MGPU_LIST_K, 1) == 0; }

CudaMatmul *cuda_matmul(const mgpu_contraction *from, const CudaOptions *options)
{
    int count;
    TileRegion *parts = split_matmul(from, &count);
    int some = 0; /* parts that are not empty, whose code may be the same */
    for (int i = 0; i < count; i++)
        some += !is_empty(&parts[i].table);
    CudaMatmul *first = NULL, **end = &first, *most = NULL;
    int64_t most_depth = -1;
    for (int i = 0; i < count; i++, end = &(*end)->next) {
        *end = simple_matmul(&parts[i].table, options, parts[i].c, some > 1 && !is_empty(&parts[i].table));
        int64_t depth = mgpu_list_extent(&(*end)->table, MGPU_LIST_K, options->samples);
        if (depth > most_depth) {
            most = *end;
            most_depth = depth;
        }
    }
    if (!most)
        die("a matmul of no parts");
    choose_tiles(most, options, count == 1 && !options->block && (!options->exact || !has_samples_beside(most)));
    for (CudaMatmul *p = first; p; p = p->next) {
        int64_t c = p->tiles.c;
        bool transposed = p->tiles.transposed;
        p->tiles = most->tiles;
        p->tiles.transposed = transposed;
        p->tiles.c = c;
        if (p->tiles.arithmetic != MGPU_DIRECT && mgpu_list_extent(&p->table, MGPU_LIST_K, options->samples) == 0)
            p->tiles.stages = 0;
    }
    return first;
}

/* ---- launches */

enum { MOST_BLOCKS = INT32_MAX };

static int64_t sum_bytes(const CudaMatmul *p) { return p->table.type == MGPU_F64 ? 8 : 4; }

/* There are at most (fixed + per_sample x samples) / per tiles, rounded up (MGPU_DIRECT: elements). */
typedef struct TileCount {
    int64_t fixed, per_sample, per;
} TileCount;

static TileCount count_tiles(const CudaMatmul *p)
{
    const mgpu_tiles *s = &p->tiles;
    const int lists[] = {s->transposed ? MGPU_LIST_N : MGPU_LIST_M, s->transposed ? MGPU_LIST_M : MGPU_LIST_N};
    const int64_t side[] = {s->rows, s->columns};
    int64_t tiles = mgpu_tiles_of(&p->table, s, 1);
    bool sampled[] = {has_samples(p, lists[0]), has_samples(p, lists[1])};
    if (has_samples(p, MGPU_LIST_BATCH) || (s->arithmetic == MGPU_DIRECT && (sampled[0] || sampled[1])))
        return (TileCount){0, tiles, 1};
    for (int i = 0; i < 2; i++)
        if (sampled[i]) {
            int64_t own = mgpu_list_extent(&p->table, lists[i], 1), others = tiles / ((own + side[i] - 1) / side[i]);
            return (TileCount){(side[i] - 1) * others, own * others, side[i]};
        }
    return (TileCount){tiles, 0, 1};
}

static int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static mgpu_launch launch_of(const char *name, TileCount tiles, int64_t each, int64_t per_block, int threads)
{
    return (mgpu_launch){.function = name,
                         .iterations = tiles.fixed * each,
                         .iterations_per_sample = tiles.per_sample * each,
                         .per_block = tiles.per * per_block,
                         .most = MOST_BLOCKS,
                         .threads = threads};
}

/* Sets the samples with which K is split, and the finishing function is launched. A device has at most MOST_SAMPLES. */
static void set_samples_in_parts(const CudaMatmul *p, mgpu_launch *l)
{
    const int64_t MOST_SAMPLES = 1 << 24;
    int64_t same = 1, other = MOST_SAMPLES; /* split as with 1 sample; as with the most */
    bool first = parts_of(p, same) > 1, last = parts_of(p, other) > 1;
    while (first != last && other - same > 1) {
        int64_t middle = same + (other - same) / 2;
        *((parts_of(p, middle) > 1) == first ? &same : &other) = middle;
    }
    l->from = first ? 0 : last ? other : INT64_MAX;
    l->to = first && !last ? other : 0;
}

int cuda_matmul_shared_bytes(const CudaMatmul *p)
{
    int most = 0;
    for (; p; p = p->next)
        most = mgpu_tiles_shared_bytes(&p->tiles) > most ? mgpu_tiles_shared_bytes(&p->tiles) : most;
    return most;
}

void cuda_matmul_launches(const CudaMatmul *p, const char *name, mgpu_launch launch[2])
{
    const mgpu_tiles *s = &p->tiles;
    bool direct = s->arithmetic == MGPU_DIRECT;
    int threads = mgpu_tiles_threads(s);
    int64_t of_block = direct ? threads : 1; /* parts of tiles */
    TileCount tiles = count_tiles(p);
    for (const CudaMatmul *next = p->next; next; next = next->next) {
        TileCount own = count_tiles(next);
        tiles.fixed += own.fixed;
        tiles.per_sample += own.per_sample;
    }
    launch[0] = launch_of(name, tiles, 1, of_block, threads);
    launch[0].shared_bytes = cuda_matmul_shared_bytes(p);
    launch[1] = (mgpu_launch){.function = NULL};
    if (s->split_tiles == 0)
        return;
    if (tiles.per_sample > 0) { /* no more than the tiles, or split_tiles */
        launch[0].iterations += s->split_tiles * tiles.per;
    } else if (has_samples(p, MGPU_LIST_K)) { /* a part is at least split_depth deep */
        int64_t most = s->split_tiles / (tiles.fixed > 0 ? tiles.fixed : 1);
        launch[0].iterations = tiles.fixed * s->split_depth;
        launch[0].iterations_per_sample = tiles.fixed * mgpu_list_extent(&p->table, MGPU_LIST_K, 1);
        launch[0].per_block = s->split_depth * of_block;
        launch[0].most = ratio_up(tiles.fixed * (most > 1 ? most : 1), of_block);
    } else {
        launch[0].iterations = tiles.fixed * parts_of(p, 1);
    }
    int64_t elements = direct ? 1 : s->rows * s->columns;
    launch[1] = launch_of(format("%s_finish", name), tiles, elements, threads, threads);
    launch[1].most = ratio_up(s->split_tiles / 2 * elements, threads);
    if (!p->next)
        set_samples_in_parts(p, &launch[1]);
}

int64_t cuda_matmul_workspace(const CudaMatmul *p)
{
    const mgpu_tiles *s = &p->tiles;
    int64_t elements = s->arithmetic == MGPU_DIRECT ? 1 : s->rows * s->columns;
    return s->split_tiles * elements * sum_bytes(p);
}

/* ---- text */

static const char *part_name(const CudaMatmul *first, const CudaMatmul *p, const char *name)
{
    int number = 0;
    for (const CudaMatmul *other = first; other != p; other = other->next)
        number++;
    return first->next ? format("%s_%d", name, number) : name;
}

/* by_parameter: only the numbers on which the code depends */
static void print_axes(const mgpu_contraction *t, bool by_parameter, const char *name, Text *text)
{
    static const char *const lists[] = {"batch", "M", "N", "K"};
    const mgpu_axis *axis = t->axis;
    text_add(text, "static __device__ constexpr mgpu_axis %s_axis[] = {\n    %s\n", name,
             c_comment("%s", by_parameter ? "the window that it moves in, 0: none; all else is by_parameter"
                                          : "extent, strides in A, B, C, window, step"));
    for (int list = 0; list < 4; list++)
        for (int i = 0; i < mgpu_list_count(t, list); i++, axis++) {
            if (by_parameter) {
                text_add(text, "    mgpu_parameter_axis(%d), %s\n", axis->window, c_comment("%s", lists[list]));
                continue;
            }
            text_add(text, axis->extent == MGPU_SAMPLES ? "    {MGPU_SAMPLES" : "    {%lld", (long long)axis->extent);
            text_add(text, ", %lld, %lld, %lld, %d, %lld}, %s\n", (long long)axis->a, (long long)axis->b, (long long)axis->c,
                     axis->window, (long long)axis->step, c_comment("%s", lists[list]));
        }
    text_add(text, "%s};\n", axis == t->axis ? "    {}\n" : "");
}

static void print_windows(const mgpu_contraction *t, bool by_parameter, const char *name, Text *text)
{
    for (int w = 0; w < t->windows; w++) {
        const mgpu_window *own = &t->window[w];
        if (w == 0)
            text_add(text,
                     "static __device__ constexpr mgpu_window %s_window[] = {\n    /* extent, stride, first, input_dilation */\n",
                     name);
        text_add(text, "    {%lld, %lld, %lld, %lld}%s", by_parameter ? 0LL : (long long)own->extent,
                 by_parameter ? 0LL : (long long)own->stride, by_parameter ? 0LL : (long long)own->first,
                 (long long)own->input_dilation, w + 1 < t->windows ? ",\n" : "};\n");
    }
}

static const char *tiles_row(const mgpu_tiles *s, bool by_parameter)
{
    static const char *const arithmetic[] = {"MGPU_FMA", "MGPU_MMA", "MGPU_DIRECT"};
    return C_ORDERED_ROW(
        C_TEXT("arithmetic", arithmetic[s->arithmetic]), C_TEXT("type_a", TYPE_NAME[s->type_a]),
        C_TEXT("type_b", TYPE_NAME[s->type_b]), C_TEXT("type_c", TYPE_NAME[s->type_c]), C_TEXT("aligned_a", c_true(s->aligned_a)),
        C_TEXT("aligned_b", c_true(s->aligned_b)), C_TEXT("aligned_c", c_true(s->aligned_c)),
        C_TEXT("transposed", c_true(s->transposed)), C_NUMBER("rows", s->rows), C_NUMBER("columns", s->columns),
        C_NUMBER("depth", s->depth), C_NUMBER("stages", s->stages), C_NUMBER("down", s->down), C_NUMBER("across", s->across),
        C_NUMBER("split_tiles", s->split_tiles), C_NUMBER("split_depth", s->split_depth), C_NUMBER("c", by_parameter ? 0 : s->c),
        C_TEXT("along_k_a", c_true(s->along_k_a)), C_TEXT("along_k_b", c_true(s->along_k_b)), C_NUMBER("piece_a", s->piece_a),
        C_NUMBER("piece_b", s->piece_b), C_NUMBER("piece_c", s->piece_c), C_TEXT("linear_a", c_true(s->linear_a)),
        C_TEXT("linear_b", c_true(s->linear_b)), C_TEXT("marked_a", c_true(s->marked_a)),
        C_TEXT("warpgroups", s->warpgroups ? "MGPU_BY_WARPGROUPS" : NULL));
}

static void print_tables(const CudaMatmul *p, bool by_parameter, const char *name, Text *text)
{
    const mgpu_contraction *t = &p->table;
    const mgpu_tiles s = cuda_moved_tiles(p);
    print_axes(t, by_parameter, name, text);
    print_windows(t, by_parameter, name, text);
    text_add(text, "static __device__ constexpr mgpu_contraction %s_matmul =\n    %s;\n", name,
             C_ORDERED_ROW(C_NUMBER("batch", t->batch), C_NUMBER("m", t->m), C_NUMBER("n", t->n), C_NUMBER("k", t->k),
                           C_TEXT("axis", format("%s_axis", name)), C_NUMBER("windows", t->windows),
                           C_TEXT("window", t->windows > 0 ? format("%s_window", name) : "nullptr"),
                           C_TEXT("convolution", "nullptr"), C_NUMBER("a", by_parameter ? 0 : t->a),
                           C_NUMBER("b", by_parameter ? 0 : t->b), C_NUMBER("swapped", 0), C_TEXT("type", TYPE_NAME[t->type])));
    text_add(text, "static __device__ constexpr mgpu_tiles %s_tiles =\n    %s;\n", name, tiles_row(&s, by_parameter));
}

/* Returns how many parts, beginning with this one, have the same tables. */
static int alike_count(const CudaMatmul *p, bool by_parameter)
{
    int count = 1;
    for (const CudaMatmul *next = p->next; next && by_parameter && cuda_same_function(p, next); next = next->next)
        count++;
    return count;
}

static const CudaMatmul *skip(const CudaMatmul *p, int count)
{
    while (count-- > 0)
        p = p->next;
    return p;
}

void cuda_print_matmul(const CudaMatmul *p, bool by_parameter, const char *name, Text *text)
{
    for (const CudaMatmul *own = p; own; own = skip(own, alike_count(own, by_parameter)))
        print_tables(own, by_parameter, part_name(p, own, name), text);
}

void cuda_print_calls(const CudaMatmul *p, bool by_parameter, const char *name, const char *a, const char *b, Text *text)
{
    const char *work = p->tiles.split_tiles > 0 ? "work" : "nullptr";
    int number = 0;
    if (p->next)
        text_add(text, "    int64_t before = 0; /* tiles of other parts */\n");
    for (const CudaMatmul *own = p; own;) {
        int alike = alike_count(own, by_parameter);
        const char *part = part_name(p, own, name), *before = p->next ? "before = " : "";
        const char *numbers = !by_parameter ? ""
                              : !p->next    ? "numbers, "
                              : alike > 1   ? "numbers.of[part], "
                                            : format("numbers.of[%d], ", number);
        if (alike > 1)
            text_add(text, "#pragma unroll 1\n    for (int part = %d; part < %d; part++)\n    ", number, number + alike);
        text_add(text, "    %smgpu_contract<%s_matmul, %s_tiles>(%s%s, %s, c, %s, n, %s);\n", before, part, part, numbers, a, b,
                 work, p->next ? "before" : "0");
        own = skip(own, alike);
        number += alike;
    }
}

void cuda_print_block_calls(const CudaMatmul *p, const char *name, const char *a, const char *b, Text *text)
{
    for (const CudaMatmul *own = p; own; own = own->next) {
        const char *part = part_name(p, own, name);
        text_add(text, "    mgpu_contract_block<%s_matmul, %s_tiles>(%s, %s, c, shared, begin, end);\n", part, part, a, b);
    }
}

int cuda_matmul_blocks(const CudaMatmul *p)
{
    const mgpu_tiles *s = &p->tiles;
    int threads = mgpu_tiles_threads(s), sums = s->rows * s->columns / threads;
    int most = s->arithmetic != MGPU_MMA ? 384 : sums > 64 ? 256 : 512; /* for which there are registers */
    return threads >= 256 ? 2 : most / threads;
}
