/* contract_matmul.h: the matmuls of mgpu_gemm.h and mgpu_attention.h for one instruction set. One file for each includes it,
 * after it has defined MGPU_VECTOR_BYTES, the tiles: MGPU_TILES(F), F(rows, vectors) for each of them, MGPU_TILES_BESIDE(F), and
 * the most rows of tiles of 1, 2, 3 and 4 vectors: MGPU_ROWS_1 ... MGPU_ROWS_4. Out: mgpu_contract_typed, mgpu_attend_typed.
 *
 * Algorithm: blocks of N, M and K as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), around
 * a matmul in registers of R rows of A by V vectors of N. It reads single elements of A at row[r] + along_k[k], from two tables
 * of offsets, so A may be stored in any order and is read in place. A is copied only if windows extend beyond it (the copy has
 * zeros around it, a tap is then a mere offset, and no element is copied once per tap), if its elements have another type, or if
 * its rows map to the same cache sets. B is in vectors along N, consecutive along K: packed that way, or in place. Dilated inputs
 * (zeros between the elements: transposed convolutions, gradients of strided ones) are split into phases, each of which is a
 * convolution without zeros. For a batch of matrix-vector products (depthwise convolutions), the batch takes the place of N, and
 * A is read in vectors, too.
 *
 * The order of additions: blocks of K in ascending order; within a block, one sum per element in ascending order of K. In exact
 * programs, one sum in ascending order of all of K, however it is cut into blocks. */
#include <math.h>
#include <string.h>

#include "runtime/abi/mgpu_attention.h"
#include "runtime/abi/mgpu_gemm.h"
#include "runtime/abi/mgpu_half.h"
#if MGPU_VECTOR_BYTES >= 32
#include <immintrin.h>
#endif

#if defined(__clang__) && MGPU_VECTOR_BYTES == 64 /* or clang halves the vectors */
#define MGPU_FULL_WIDTH __attribute__((min_vector_width(512)))
#else
#define MGPU_FULL_WIDTH
#endif
#define MGPU_INLINE static inline __attribute__((always_inline)) MGPU_FULL_WIDTH
#define MGPU_NOINLINE static __attribute__((noinline)) MGPU_FULL_WIDTH

MGPU_INLINE int64_t mgpu_least(int64_t a, int64_t b) { return a < b ? a : b; }
MGPU_INLINE int64_t mgpu_most(int64_t a, int64_t b) { return a > b ? a : b; }
MGPU_INLINE int64_t mgpu_quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
MGPU_INLINE int64_t mgpu_round_up(int64_t a, int64_t b) { return mgpu_quotient_up(a, b) * b; }

/* ---- the axes of a list, for one operand */
typedef struct mgpu_index {
    int axes; /* without extents 1 and 0; nested axes are merged */
    int64_t count;
    int64_t extent[MGPU_AXES], stride[MGPU_AXES], step[MGPU_AXES];
    int window[MGPU_AXES]; /* from 0; -1: none */
} mgpu_index;

MGPU_NOINLINE void mgpu_index_add(mgpu_index *list, int64_t extent, int64_t stride, int window, int64_t step)
{
    list->count *= extent;
    if (extent <= 1)
        return;
    int last = list->axes - 1;
    if (last >= 0 && window < 0 && list->window[last] < 0 && list->stride[last] == extent * stride) {
        list->extent[last] *= extent;
        list->stride[last] = stride;
        return;
    }
    list->extent[list->axes] = extent;
    list->stride[list->axes] = stride;
    list->window[list->axes] = window;
    list->step[list->axes++] = step;
}

typedef struct mgpu_walk {
    int64_t at[MGPU_AXES], offset;
} mgpu_walk; /* indices in such a list, and its offset */

MGPU_NOINLINE void mgpu_walk_start(mgpu_walk *walk, const mgpu_index *list, int64_t place)
{
    memset(walk, 0, sizeof *walk);
    for (int i = list->axes - 1; i >= 0; i--) {
        walk->at[i] = place % list->extent[i];
        place /= list->extent[i];
        walk->offset += walk->at[i] * list->stride[i];
    }
}

MGPU_NOINLINE void mgpu_walk_next(mgpu_walk *walk, const mgpu_index *list)
{
    for (int i = list->axes - 1; i >= 0; i--) {
        walk->offset += list->stride[i];
        if (++walk->at[i] < list->extent[i])
            return;
        walk->at[i] = 0;
        walk->offset -= list->extent[i] * list->stride[i];
    }
}

/* Computes the offsets of elements [begin, end) of a list. */
MGPU_NOINLINE void mgpu_offsets(const mgpu_index *list, int64_t begin, int64_t end, int64_t *offset)
{
    int64_t at[MGPU_AXES] = {0}, from = 0, rest = begin;
    int last = list->axes - 1;
    for (int i = last; i >= 0; i--) {
        at[i] = rest % list->extent[i];
        rest /= list->extent[i];
        from += at[i] * list->stride[i];
    }
    if (last < 0 && begin < end)
        *offset = 0;
    while (last >= 0 && begin < end) {
        int64_t stride = list->stride[last], run = mgpu_least(list->extent[last] - at[last], end - begin);
        for (int64_t i = 0; i < run; i++)
            offset[i] = from + i * stride;
        offset += run;
        begin += run;
        from -= at[last] * stride;
        at[last] = 0;
        for (int i = last - 1; i >= 0; i--) {
            from += list->stride[i];
            if (++at[i] < list->extent[i])
                break;
            from -= list->extent[i] * list->stride[i];
            at[i] = 0;
        }
    }
}

/* Sorts a list as it is in memory, if it is packed as a whole. packed: the offsets of its elements, in the list's own order,
 * `size` apart. */
MGPU_NOINLINE void mgpu_packed_order(mgpu_index *list, mgpu_index *packed, int64_t size, bool whole)
{
    for (int i = list->axes - 1; i >= 0; i--, size *= packed->extent[i + 1])
        packed->stride[i] = size;
    packed->axes = list->axes;
    for (int i = 1; i < list->axes && whole; i++)
        for (int j = i; j > 0 && list->stride[j] > list->stride[j - 1]; j--) {
            int64_t *const both[] = {list->extent, list->stride, packed->extent, packed->stride};
            for (int l = 0; l < 4; l++) {
                int64_t moved = both[l][j];
                both[l][j] = both[l][j - 1];
                both[l][j - 1] = moved;
            }
        }
}

/* ---- a box of a list: a range of one axis, single indices of outer axes, all of inner axes */
typedef struct mgpu_box {
    int64_t count, begin[MGPU_AXES], extent[MGPU_AXES];
} mgpu_box;

/* Sets the largest box that begins at `begin`, ends by `end` and has at most `most` elements; its axis is divided evenly. */
MGPU_NOINLINE void mgpu_box_at(mgpu_box *box, const mgpu_index *list, int64_t begin, int64_t end, int64_t most)
{
    int i = list->axes - 1;
    most = mgpu_least(most, end - begin);
    for (int j = i; j >= 0; j--) {
        box->begin[j] = begin % list->extent[j];
        box->extent[j] = 1;
        begin /= list->extent[j];
    }
    box->count = 1;
    for (; i > 0 && box->begin[i] == 0 && box->count * list->extent[i] <= most; i--) {
        box->extent[i] = list->extent[i];
        box->count *= list->extent[i];
    }
    if (i >= 0) {
        int64_t left = list->extent[i] - box->begin[i], room = most / box->count;
        box->extent[i] = mgpu_least(mgpu_quotient_up(left, mgpu_quotient_up(left, room)), room);
        box->count *= box->extent[i];
    }
}

/* ---- prefetching: lines that are needed soon are fetched into the core's own cache, a few at a time, as runs of lines */
enum { MGPU_LINE = 64 };
typedef struct mgpu_prefetch {
    const char *at;
    int64_t each;      /* lines at a time */
    int64_t run, left; /* lines of a run; remaining ones of the current run */
    int64_t skip;      /* bytes from the end of a run to the next one */
} mgpu_prefetch;

/* Prefetches `runs` runs of `bytes` from `at` on, `apart` bytes from each other, in `times` calls. */
MGPU_INLINE mgpu_prefetch mgpu_prefetch_of(const void *at, int64_t runs, int64_t bytes, int64_t apart, int64_t times)
{
    enum { MOST = 8 };
    int64_t lines = mgpu_quotient_up(bytes, MGPU_LINE);
    return (mgpu_prefetch){at, mgpu_least(MOST, mgpu_quotient_up(runs * lines, times)), lines, lines, apart - lines * MGPU_LINE};
}

MGPU_INLINE void mgpu_fetch(mgpu_prefetch *ahead)
{
    for (int64_t i = ahead->each; i > 0; i--) {
        __builtin_prefetch(ahead->at, 0, 2);
        int64_t over = -(int64_t)(--ahead->left == 0); /* without a branch, which would be unpredictable */
        ahead->at += MGPU_LINE + (over & ahead->skip);
        ahead->left += over & ahead->run;
    }
}

typedef struct mgpu_matmul_range {
    int64_t begin, end;
} mgpu_matmul_range;

/* With few columns, most of a vector is empty. Then `places` neighbouring places of a window are unrolled into N, and its taps
 * become positions, as many as all of these places use: place j has tap position - j, if there is one. y[places q + j, n] = sum_p
 * x[places q + p] w[p - j, n] B has zeros: in_b dw[t, n] = sum_j sum_q x[places q + j + t] dy[places q + j, n] C is folded: row
 * p, column (j, n) adds to tap p - j */
typedef struct mgpu_unroll {
    int64_t places; /* 1: not unrolled */
    bool in_b;
    int64_t taps, positions;
    int64_t inner;   /* elements of K (in_b) or M per position */
    int64_t columns; /* of N per place */
} mgpu_unroll;

/* What becomes of the sums over a block of K: C is replaced by them, they are added to C, or each goes on from C as one sum over
 * all blocks of K would. */
typedef enum mgpu_addition { MGPU_STORED, MGPU_ADDED, MGPU_CONTINUED } mgpu_addition;

/* ---- one matmul: a contraction with a fixed number of samples and one phase of every window */
typedef struct mgpu_matmul {
    mgpu_index batch_a, batch_b, batch_c, am, ak, bk, bn, cm, cn;
    int windows; /* over A */
    mgpu_window window[MGPU_WINDOWS];
    int64_t a, b, c; /* offsets of the first elements */
    mgpu_unroll unroll;
    bool beside;                   /* N is an axis of the batch, which A has, too, with contiguous elements */
    mgpu_matmul_range batch, m, n; /* the share of this call */
} mgpu_matmul;

MGPU_INLINE int64_t mgpu_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Selects a phase: results at places phase + phases q use only taps first + every t of K, as the others meet zeros. The window's
 * two axes, `place` of the result and `in_k` of the sum, become those of q and t, and the window loses its input_dilation. */
MGPU_NOINLINE void mgpu_take_phase(mgpu_matmul *matmul, mgpu_window *window, mgpu_axis *place, mgpu_axis *in_k, int64_t phases,
                                   int64_t phase)
{
    int64_t input_dilation = window->input_dilation, every = input_dilation / mgpu_common_divisor(input_dilation, in_k->step),
            first = 0;
    int64_t position = window->first + phase * place->step;
    while (first < every && (position + first * in_k->step) % input_dilation != 0)
        first++;
    window->first = (position + first * in_k->step) / input_dilation;
    window->input_dilation = 1;
    mgpu_axis *axis[] = {place, in_k};
    int64_t from[] = {phase, first}, factor[] = {phases, every};
    for (int i = 0; i < 2; i++) {
        matmul->a += from[i] * axis[i]->a;
        matmul->b += from[i] * axis[i]->b;
        matmul->c += from[i] * axis[i]->c;
        axis[i]->extent = mgpu_most(0, mgpu_quotient_up(axis[i]->extent - from[i], factor[i]));
        axis[i]->a *= factor[i];
        axis[i]->b *= factor[i];
        axis[i]->c *= factor[i];
        axis[i]->step = axis[i]->step * factor[i] / input_dilation;
    }
    if (first == every) /* no tap meets an element */
        in_k->extent = 0;
}

/* Unrolls the innermost window if that is possible, with `lanes` elements in a vector. Its axes become those of positions and
 * of every places-th place; returns the axis of the places between, which becomes part of N. most_rows: of C, if it is to be
 * folded. */
MGPU_NOINLINE mgpu_axis mgpu_unroll_places(mgpu_matmul *matmul, const mgpu_contraction *table, mgpu_axis *axis, int64_t lanes,
                                           int64_t most_rows)
{
    mgpu_axis *n = axis + table->batch + table->m, *k = n + table->n, between = {.extent = 1}, *place = NULL, *tap = NULL;
    mgpu_unroll *unroll = &matmul->unroll;
    int64_t columns = 1, depth = 1;
    *unroll = (mgpu_unroll){.places = 1};
    for (mgpu_axis *i = n; i < k + table->k; i++)
        *(i < k ? &columns : &depth) *= i->extent;
    if (depth == 0 || columns == 0 || 2 * columns > lanes)
        return between;
    for (int w = table->windows; w > 0 && place == NULL; w--) {
        mgpu_axis *in_m = NULL, *in_k = NULL;
        for (mgpu_axis *i = axis + table->batch; i < n; i++)
            in_m = i->window == w ? i : in_m;
        for (mgpu_axis *i = k; i < k + table->k; i++)
            in_k = i->window == w ? i : in_k;
        if (in_m == NULL || in_k == NULL || in_m->step != in_k->step)
            continue;
        unroll->in_b = table->keep; /* else B has samples, and C is small */
        place = unroll->in_b ? in_m : in_k;
        tap = unroll->in_b ? in_k : in_m;
    }
    if (place == NULL || tap->extent < 2)
        return between;
    for (int64_t some = 2; some * columns <= lanes; some++) /* share of useful work: some / positions */
        if (place->extent % some == 0 && some * (tap->extent + unroll->places - 1) > unroll->places * (tap->extent + some - 1))
            unroll->places = some;
    int64_t rows = tap->extent + unroll->places - 1;
    for (const mgpu_axis *i = axis + table->batch; i < n; i++)
        rows *= i == tap ? 1 : i->extent;
    if (unroll->in_b ? place->c != columns && most_rows == 0 : rows > most_rows) /* there is no room for the results */
        unroll->places = 1;
    if (unroll->places == 1)
        return between;
    unroll->taps = tap->extent;
    unroll->positions = tap->extent + unroll->places - 1;
    unroll->columns = columns;
    unroll->inner = 1;
    for (const mgpu_axis *i = tap + 1, *last = unroll->in_b ? k + table->k : n; i < last; i++)
        unroll->inner *= i->extent;
    between = (mgpu_axis){unroll->places, 0, unroll->in_b ? -tap->b : place->b, unroll->in_b ? place->c : -tap->c, 0, 0};
    tap->extent = unroll->positions;
    place->extent /= unroll->places;
    place->step *= unroll->places;
    place->a *= unroll->places;
    place->b *= unroll->places;
    place->c *= unroll->places;
    return between;
}

/* Sets up phase `phase` of all for samples [begin, end), and returns the number of phases. The sum over all phases is the
 * contraction. If the innermost axis of the batch is contiguous in A and C and has at least half a vector of elements, it becomes
 * N, and N becomes part of the batch. */
MGPU_NOINLINE int64_t mgpu_matmul_of(mgpu_matmul *matmul, const mgpu_contraction *table, int64_t begin, int64_t end,
                                     int64_t phase, int64_t lanes)
{
    mgpu_axis axis[4 * MGPU_AXES], *place[MGPU_WINDOWS] = {0}, *in_k[MGPU_WINDOWS] = {0};
    const int sizes[] = {table->batch, table->m, table->n, table->k};
    int count = table->batch + table->m + table->n + table->k, sum = count - table->k;
    memset(matmul, 0, sizeof *matmul);
    matmul->a = table->a;
    matmul->b = table->b;
    matmul->windows = table->windows;
    for (int i = 0; i < count; i++) {
        axis[i] = table->axis[i];
        if (axis[i].extent == MGPU_SAMPLES) {
            axis[i].extent = end - begin;
            matmul->a += begin * axis[i].a;
            matmul->b += begin * axis[i].b;
            matmul->c += begin * axis[i].c;
        }
        if (axis[i].window > 0)
            *(i < sum ? &place[axis[i].window - 1] : &in_k[axis[i].window - 1]) = &axis[i];
    }
    int64_t phases = 1;
    for (int w = 0; w < table->windows; w++) {
        mgpu_window *window = &matmul->window[w];
        *window = table->window[w];
        int64_t own = window->input_dilation / mgpu_common_divisor(window->input_dilation, place[w]->step);
        if (window->input_dilation > 1)
            mgpu_take_phase(matmul, window, place[w], in_k[w], own, phase / phases % own);
        phases *= own;
        /* the table has no strides of these two in A: they follow from their steps */
        place[w]->a = place[w]->step * window->stride;
        in_k[w]->a = in_k[w]->step * window->stride;
        matmul->a += window->first * window->stride;
    }
    int beside = -1; /* the innermost axis of the batch */
    for (int i = 0; i < table->batch; i++)
        beside = axis[i].extent > 1 ? i : beside;
    if (beside >= 0 && (2 * axis[beside].extent < lanes || axis[beside].a != 1 || axis[beside].c != 1))
        beside = -1;
    matmul->beside = beside >= 0;
    matmul->unroll.places = 1;
    mgpu_axis between = {.extent = 1};
    if (table->unroll && !matmul->beside)
        between = mgpu_unroll_places(matmul, table, axis, lanes, table->sums / (2 * MGPU_VECTOR_BYTES));
    const mgpu_axis *next = axis;
    mgpu_index *batch[] = {&matmul->batch_a, &matmul->batch_b, &matmul->batch_c};
    mgpu_index *lists[4][3] = {{batch[0], batch[1], batch[2]},
                               {&matmul->am, NULL, &matmul->cm},
                               {NULL, &matmul->bn, &matmul->cn},
                               {&matmul->ak, &matmul->bk, NULL}};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            if (lists[i][j] != NULL)
                lists[i][j]->count = 1;
    mgpu_index_add(&matmul->bn, between.extent, between.b, -1, 0);
    mgpu_index_add(&matmul->cn, between.extent, between.c, -1, 0);
    for (int i = 0; i < 4; i++)
        for (const mgpu_axis *last = next + sizes[i]; next < last; next++) {
            const int64_t strides[] = {next->a, next->b, next->c};
            bool moved = beside >= 0 && (i == 2 || next == axis + beside);
            for (int j = 0; j < 3; j++) {
                mgpu_index *list = !moved ? lists[i][j] : i == 2 ? batch[j] : lists[2][j];
                if (list != NULL)
                    mgpu_index_add(list, next->extent, i == 2 && j == 0 ? 0 : strides[j], j == 0 ? next->window - 1 : -1,
                                   next->step);
            }
        }
    matmul->batch = (mgpu_matmul_range){0, matmul->batch_a.count};
    matmul->m = (mgpu_matmul_range){0, matmul->am.count};
    matmul->n = (mgpu_matmul_range){0, matmul->bn.count};
    return phases;
}

/* Returns true if M or N is 1, whatever the number of samples. */
MGPU_NOINLINE bool mgpu_one_always(const mgpu_matmul *matmul, const mgpu_contraction *table)
{
    bool samples[2] = {false, false};
    for (int i = 0; i < table->m + table->n; i++)
        if (table->axis[table->batch + i].extent == MGPU_SAMPLES)
            samples[i >= table->m] = true;
    return (matmul->am.count == 1 && !samples[0]) || (matmul->bn.count == 1 && !samples[1]);
}

/* Returns the range of part `number` of `parts` of [0, count), in units. */
MGPU_INLINE mgpu_matmul_range mgpu_share(int64_t count, int64_t unit, int64_t number, int64_t parts)
{
    int64_t units = mgpu_quotient_up(count, unit), least = units / parts, more = units % parts;
    int64_t begin = number * least + mgpu_least(number, more);
    return (mgpu_matmul_range){mgpu_least(count, begin * unit), mgpu_least(count, (begin + least + (number < more)) * unit)};
}

/* Computes the share of one thread: a grid of ranges of the batch, of M and of N is chosen for a small largest share and, among
 * similar ones, few reads of A and B. Shares of N begin at whole vectors. */
MGPU_NOINLINE void mgpu_take_share(mgpu_matmul *matmul, const mgpu_part *part, int64_t rows, int64_t columns)
{
    int64_t batch = matmul->batch.end, m = matmul->m.end, n = matmul->n.end, threads = part->threads;
    if (threads <= 1 || batch * m * n == 0)
        return;
    const mgpu_unroll *unroll = &matmul->unroll;
    int64_t together = unroll->places > 1 && !unroll->in_b ? unroll->positions * unroll->inner : m > threads * rows ? rows : 2;
    int64_t unit[3] = {1, together, columns}, count[3] = {batch, m, n}, grid[3] = {1, 1, 1};
    double best = -1;
    for (int64_t i = 1; i <= threads; i++)
        for (int64_t j = 1; i * j <= threads; j++) {
            int64_t way[3] = {i, j, threads / (i * j)};
            double share[3], cost;
            for (int k = 0; k < 3; k++)
                share[k] = (double)(mgpu_quotient_up(mgpu_quotient_up(count[k], unit[k]), way[k]) * unit[k]);
            cost = share[0] * (share[1] * share[2] + 4 * (share[1] + share[2]));
            if (best < 0 || cost < best) {
                best = cost;
                memcpy(grid, way, sizeof grid);
            }
        }
    int64_t number = part->thread;
    matmul->batch = mgpu_share(batch, unit[0], number / (grid[1] * grid[2]), grid[0]);
    matmul->m = mgpu_share(m, unit[1], number / grid[2] % grid[1], grid[1]);
    matmul->n = mgpu_share(n, unit[2], number % grid[2], grid[2]);
    if (number >= grid[0] * grid[1] * grid[2])
        matmul->batch.end = matmul->batch.begin;
}

/* ---- a copy of A: the memory of A that a box of rows (M) and a box of K use, as one box with zeros around it */
typedef struct mgpu_dim {
    int64_t extent, from, to; /* elements; strides in A and in the copy */
    int64_t low, high;        /* elements [low, high) are inside A */
} mgpu_dim;

typedef struct mgpu_patch {
    int dims;
    mgpu_dim dim[2 * MGPU_AXES + 1]; /* the outermost first */
    int64_t from;                    /* offset of the first element in A */
    int64_t elements;                /* of the copy */
    mgpu_index rows, depth;          /* the two boxes in the copy */
} mgpu_patch;

/* lanes: contiguous elements from each place on (1, or a part of N that is an axis of A). */
MGPU_NOINLINE void mgpu_patch_of(mgpu_patch *copy, const mgpu_matmul *matmul, const mgpu_box *rows, const mgpu_box *depth,
                                 int64_t lane, int64_t lanes, int64_t element_bytes)
{
    const mgpu_index *list[] = {&matmul->am, &matmul->ak};
    const mgpu_box *box[] = {rows, depth};
    mgpu_index *to[] = {&copy->rows, &copy->depth};
    int number[2][MGPU_AXES], of_window[MGPU_WINDOWS], place[2 * MGPU_AXES + 1], count = 0;
    int64_t common[MGPU_WINDOWS] = {0}, position[MGPU_WINDOWS], reach[MGPU_WINDOWS] = {0}, stride[2 * MGPU_AXES + 1];
    mgpu_dim dim[2 * MGPU_AXES + 1];
    for (int w = 0; w < matmul->windows; w++)
        position[w] = matmul->window[w].first;
    copy->from = lane;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < list[side]->axes; i++) {
            int64_t extent = box[side]->extent[i], step = list[side]->step[i], begin = box[side]->begin[i];
            int w = list[side]->window[i];
            copy->from += begin * list[side]->stride[i];
            number[side][i] = -1;
            if (w >= 0) {
                position[w] += begin * step;
                reach[w] += (extent - 1) * step;
                common[w] = extent > 1 ? mgpu_common_divisor(common[w], step) : common[w];
            } else if (list[side]->stride[i] != 0 && extent > 1) {
                number[side][i] = count;
                dim[count++] = (mgpu_dim){extent, list[side]->stride[i], 0, 0, extent};
            }
        }
    for (int w = 0; w < matmul->windows; w++) {
        int64_t step = common[w] = mgpu_most(1, common[w]), from = position[w], last = matmul->window[w].extent - from;
        int64_t extent = reach[w] / step + 1, low = from < 0 ? mgpu_quotient_up(-from, step) : 0;
        int64_t high = last > 0 ? mgpu_least(extent, mgpu_quotient_up(last, step)) : 0;
        of_window[w] = -1;
        if (extent == 1 && low == 0 && high == 1)
            continue;
        of_window[w] = count;
        dim[count++] = (mgpu_dim){extent, matmul->window[w].stride * step, 0, mgpu_least(low, high), high};
    }
    if (lanes > 1)
        dim[count++] = (mgpu_dim){lanes, 1, 0, 0, lanes};
    for (int i = 0; i < count; i++) { /* by descending stride in A */
        int j = i;
        for (; j > 0 && dim[place[j - 1]].from < dim[i].from; j--)
            place[j] = place[j - 1];
        place[j] = i;
    }
    int64_t next = 1;
    for (int i = count - 1; i >= 0; i--) {
        mgpu_dim *own = &dim[place[i]];
        if (next > 1 && next * element_bytes % 1024 == 0) /* such rows would map to the same cache sets */
            next += 64 / element_bytes;
        own->to = stride[place[i]] = next;
        next *= own->extent;
        copy->dim[i] = *own;
    }
    copy->dims = count;
    copy->elements = next;
    for (int side = 0; side < 2; side++) {
        *to[side] = (mgpu_index){.count = 1};
        for (int i = 0; i < list[side]->axes; i++) {
            int w = list[side]->window[i], own = w >= 0 ? of_window[w] : number[side][i];
            int64_t step = own < 0 ? 0 : stride[own] * (w >= 0 ? list[side]->step[i] / common[w] : 1);
            mgpu_index_add(to[side], box[side]->extent[i], step, -1, 0);
        }
    }
}

/* Merges dimensions of a copy that are contiguous in both A and the copy. */
MGPU_NOINLINE void mgpu_patch_join(mgpu_patch *copy)
{
    for (int i = copy->dims - 1; i > 0; i--) {
        mgpu_dim *outer = &copy->dim[i - 1], *inner = &copy->dim[i];
        int64_t extent = inner->extent;
        if (inner->low > 0 || inner->high < extent || outer->from != extent * inner->from || outer->to != extent * inner->to)
            continue;
        *outer = (mgpu_dim){outer->extent * extent, inner->from, inner->to, outer->low * extent, outer->high * extent};
        memmove(inner, inner + 1, (size_t)(--copy->dims - i) * sizeof *inner);
    }
    for (; copy->dims < 2; copy->dims++) {
        memmove(copy->dim + 1, copy->dim, (size_t)copy->dims * sizeof *copy->dim);
        copy->dim[0] = (mgpu_dim){1, 0, 0, 0, 1};
    }
}

/* Vectors are explicit: more than -O2 only makes the other loops longer. These are short, so calls of memset and memcpy are not
 * wanted. Contraction of multiply-adds is wanted, even with -std=c11. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast", "no-tree-loop-distribute-patterns", "no-tree-vectorize")
#else
#pragma STDC FP_CONTRACT ON
#endif
#define MGPU_REAL double
#define MGPU_NAME(name) mgpu_##name##_f64
#include "runtime/host/contract_tile.h"
#include "runtime/host/contract_pack.h"
#include "runtime/host/contract_real.h"
#undef MGPU_REAL
#undef MGPU_NAME
#define MGPU_REAL float
#define MGPU_NAME(name) mgpu_##name##_f32
#include "runtime/host/contract_tile.h"
#include "runtime/host/contract_pack.h"
#include "runtime/host/contract_real.h"
#undef MGPU_REAL
#undef MGPU_NAME
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

MGPU_NOINLINE void mgpu_contract_typed(const mgpu_contraction *table, void *const *argument, const mgpu_part *part, bool shared)
{
    mgpu_part own = *part;
    bool in_c = false;
    for (int i = 0; i < table->batch + table->m + table->n; i++)
        in_c = in_c || table->axis[i].extent == MGPU_SAMPLES;
    if (!in_c || shared) {
        own.begin = 0;
        own.end = part->samples;
    } else {
        own.thread = 0;
        own.threads = 1;
    }
    (table->type == MGPU_F64 ? mgpu_multiply_phases_f64 : mgpu_multiply_phases_f32)(
        table, argument[table->swapped], argument[!table->swapped], argument[2], argument[3], &own);
}

static void mgpu_attend_typed(const mgpu_attention *table, void *const *argument, const mgpu_part *part)
{
    (table->type == MGPU_F64 ? mgpu_attend_samples_f64 : mgpu_attend_samples_f32)(table, argument, part);
}
