/* contract_product.h: the product of mgpu_gemm.h for one instruction set. Included by one file for each, with
 * MGPU_VECTOR_BYTES and the most rows of a tile defined: MGPU_TILE_ROWS with two vectors of columns, MGPU_TILE_ROWS_NARROW
 * with one. Out: mgpu_multiply_phases_f32 and _f64.
 *
 * Algorithm: blocks of K, N and M as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
 * B lies as rows of vectors along N. A lies in one of two forms, whichever is cheaper to copy: "rows" (runs along K:
 * panels of R rows, interleaved in chunks of one cache line) or "columns" (runs along M). The innermost product keeps
 * R x V vectors of C in registers. Operands that already lie so are read where they are. Spread windows (zeros between
 * the elements: transposed convolutions, gradients of strided ones) are split into their phases, each of which is a
 * convolution without zeros. No copy of all windows is ever made: blocks of them are packed on their way into the cache.
 *
 * The order of additions: blocks of K in ascending order, in a block one sum per element in ascending order of K. */
#include <string.h>

#include "runtime/mgpu_gemm.h"

#if defined(__clang__) && MGPU_VECTOR_BYTES == 64 /* clang halves vectors of 64 bytes where it thinks that they slow a CPU */
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

/* rows of the tiles that there are, and the number of the smallest that holds so many */
static const int MGPU_TILE_SIZES[] = {2, 4, 6, 10, 14};
MGPU_INLINE int mgpu_tile_size(int64_t rows) { return rows <= 6 ? (int)(rows - 1) / 2 : rows <= 10 ? 3 : 4; }

/* ---- a list of axes as one operand sees it */
typedef struct mgpu_index {
    int axes;             /* those of extents 1 and 0 left out, nested ones joined */
    int64_t count;
    int64_t extent[MGPU_AXES], stride[MGPU_AXES], step[MGPU_AXES];
    int window[MGPU_AXES];/* from 0; -1: none */
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

typedef struct mgpu_walk { /* a place in such a list: the element's offset, and what it adds to the windows' positions */
    int64_t at[MGPU_AXES], offset, position[MGPU_WINDOWS];
} mgpu_walk;

MGPU_NOINLINE void mgpu_walk_start(mgpu_walk *walk, const mgpu_index *list, int64_t place)
{
    memset(walk, 0, sizeof *walk);
    for (int i = list->axes - 1; i >= 0; i--) {
        walk->at[i] = place % list->extent[i];
        place /= list->extent[i];
        walk->offset += walk->at[i] * list->stride[i];
        if (list->window[i] >= 0)
            walk->position[list->window[i]] += walk->at[i] * list->step[i];
    }
}

MGPU_INLINE void mgpu_walk_next(mgpu_walk *walk, const mgpu_index *list)
{
    for (int i = list->axes - 1; i >= 0; i--) {
        int w = list->window[i];
        walk->offset += list->stride[i];
        if (w >= 0)
            walk->position[w] += list->step[i];
        if (++walk->at[i] < list->extent[i])
            return;
        walk->at[i] = 0;
        walk->offset -= list->extent[i] * list->stride[i];
        if (w >= 0)
            walk->position[w] -= list->extent[i] * list->step[i];
    }
}

MGPU_NOINLINE void mgpu_walk_step(mgpu_walk *walk, const mgpu_index *list) { mgpu_walk_next(walk, list); }

MGPU_NOINLINE void mgpu_offsets(const mgpu_index *list, int64_t begin, int64_t end, int64_t *offset)
{
    mgpu_walk walk;
    mgpu_walk_start(&walk, list, begin);
    for (int64_t i = begin; i < end; i++, mgpu_walk_next(&walk, list))
        offset[i - begin] = walk.offset;
}

/* ---- a range of such a list as pieces of runs. A run is the innermost axis, or that and a window's axis around it whose
 * elements follow each other (taps x channels): elements `stride` apart, of which a window may cut off both ends. */
typedef struct mgpu_piece {
    int64_t offset, skip; /* of the run; elements of the run before the piece */
    int32_t start, count; /* place in the range; elements */
    int32_t position[MGPU_WINDOWS];
} mgpu_piece;

typedef struct mgpu_runs {
    int pieces, windows;
    int window;           /* that cuts the runs; -1: none */
    int64_t step, granule;/* of the position, for every `granule` elements */
    int64_t stride;
    int64_t extent[MGPU_WINDOWS], low[MGPU_WINDOWS], high[MGPU_WINDOWS]; /* positions of all pieces */
    mgpu_piece piece[MGPU_BLOCK_MOST];
} mgpu_runs;

/* extents: of the windows, NULL where the operand has none */
MGPU_NOINLINE void mgpu_runs_of(mgpu_runs *runs, const mgpu_index *list, int64_t begin, int64_t end, int windows,
                                     const mgpu_window *extents)
{
    mgpu_index outer = *list;
    int64_t length = 1;
    runs->window = -1;
    runs->granule = runs->stride = runs->step = 1;
    if (outer.axes > 0) {
        int i = --outer.axes;
        length = runs->granule = list->extent[i];
        runs->stride = list->stride[i];
        if (list->window[i] < 0 && i > 0 && list->window[i - 1] >= 0 && list->stride[i - 1] == length * list->stride[i]) {
            i = --outer.axes;
            length *= list->extent[i];
        } else if (list->window[i] >= 0) {
            runs->granule = 1;
        }
        runs->window = list->window[i];
        runs->step = list->step[i];
    }
    runs->windows = windows;
    for (int w = 0; w < windows; w++) {
        runs->extent[w] = extents[w].extent;
        runs->low[w] = INT64_MAX;
        runs->high[w] = INT64_MIN;
    }
    runs->pieces = 0;
    mgpu_walk walk;
    mgpu_walk_start(&walk, &outer, begin / length);
    for (int64_t i = begin; i < end; mgpu_walk_next(&walk, &outer)) {
        mgpu_piece *piece = &runs->piece[runs->pieces++];
        piece->offset = walk.offset;
        piece->start = (int32_t)(i - begin);
        piece->skip = i % length;
        piece->count = (int32_t)mgpu_least(length - piece->skip, end - i);
        i += piece->count;
        for (int w = 0; w < windows; w++) {
            int64_t position = extents[w].first + walk.position[w];
            int64_t low = w == runs->window ? piece->skip / runs->granule * runs->step : 0;
            int64_t high = w == runs->window ? (piece->skip + piece->count - 1) / runs->granule * runs->step : 0;
            piece->position[w] = (int32_t)position;
            runs->low[w] = mgpu_least(runs->low[w], position + low);
            runs->high[w] = mgpu_most(runs->high[w], position + high);
        }
    }
}

/* no element of any piece is cut off at this place */
MGPU_INLINE bool mgpu_runs_inside(const mgpu_runs *runs, const int64_t *position)
{
    for (int w = 0; w < runs->windows; w++)
        if (position[w] + runs->low[w] < 0 || position[w] + runs->high[w] >= runs->extent[w])
            return false;
    return true;
}

/* elements [*low, *high) of a piece lie inside the operand */
MGPU_INLINE void mgpu_piece_range(const mgpu_runs *runs, const mgpu_piece *piece, const int64_t *position, int64_t *low,
                                  int64_t *high)
{
    *low = 0;
    *high = piece->count;
    for (int w = 0; w < runs->windows; w++) {
        int64_t first = position[w] + piece->position[w], extent = runs->extent[w];
        if (w != runs->window) {
            if (first < 0 || first >= extent)
                *high = 0;
            continue;
        }
        int64_t begin = first >= 0 ? 0 : runs->step == 1 ? -first : mgpu_quotient_up(-first, runs->step);
        int64_t end = first >= extent ? 0 : runs->step == 1 ? extent - first : mgpu_quotient_up(extent - first, runs->step);
        *low = mgpu_most(*low, begin * runs->granule - piece->skip);
        *high = mgpu_least(*high, end * runs->granule - piece->skip);
    }
    if (*high <= *low)
        *low = *high = 0;
}

/* ---- one product: a contraction with the samples known and a phase of every window chosen */
typedef struct mgpu_product {
    mgpu_index batch_a, batch_b, batch_c, am, ak, bk, bn, cm, cn;
    int windows_a, windows_b;
    mgpu_window window[MGPU_WINDOWS];
    int64_t a, b, c;      /* first elements */
    bool rows;
} mgpu_product;

MGPU_INLINE int64_t mgpu_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Results at places phase + phases q see only the terms first + every t of the sum: the others meet zeros. The window's
 * two axes, `place` of the result and `term` of the sum, become those of q and t, and the window loses its spread. */
MGPU_NOINLINE void mgpu_take_phase(mgpu_product *product, mgpu_window *window, mgpu_axis *place, mgpu_axis *term,
                                        int64_t phases, int64_t phase)
{
    int64_t spread = window->spread, every = spread / mgpu_common_divisor(spread, term->step), first = 0;
    int64_t position = window->first + phase * place->step;
    while (first < every && (position + first * term->step) % spread != 0)
        first++;
    window->first = (position + first * term->step) / spread;
    window->spread = 1;
    mgpu_axis *axis[] = {place, term};
    int64_t from[] = {phase, first}, factor[] = {phases, every};
    for (int i = 0; i < 2; i++) {
        product->a += from[i] * axis[i]->a;
        product->b += from[i] * axis[i]->b;
        product->c += from[i] * axis[i]->c;
        axis[i]->extent = mgpu_most(0, mgpu_quotient_up(axis[i]->extent - from[i], factor[i]));
        axis[i]->a *= factor[i];
        axis[i]->b *= factor[i];
        axis[i]->c *= factor[i];
        axis[i]->step = axis[i]->step * factor[i] / spread;
    }
    if (first == every) /* no term hits an element */
        term->extent = 0;
}

/* Sets up phase `phase` of all; returns the number of phases. The sum over all of them is the contraction. */
MGPU_NOINLINE int64_t mgpu_product_of(mgpu_product *product, const mgpu_contraction *table, int64_t samples,
                                           int64_t phase)
{
    mgpu_axis axis[4 * MGPU_AXES], *place[MGPU_WINDOWS] = {0}, *term[MGPU_WINDOWS] = {0};
    int count = table->batch + table->m + table->n + table->k, sum = count - table->k;
    memset(product, 0, sizeof *product);
    product->a = table->a;
    product->b = table->b;
    product->rows = table->rows;
    *(table->gather_b ? &product->windows_b : &product->windows_a) = table->windows;
    for (int i = 0; i < count; i++) {
        axis[i] = table->axis[i];
        if (axis[i].extent == MGPU_SAMPLES)
            axis[i].extent = samples;
        if (axis[i].window > 0)
            *(i < sum ? &place[axis[i].window - 1] : &term[axis[i].window - 1]) = &axis[i];
    }
    int64_t phases = 1;
    for (int w = 0; w < table->windows; w++) {
        mgpu_window *window = &product->window[w];
        *window = table->window[w];
        int64_t own = window->spread / mgpu_common_divisor(window->spread, place[w]->step);
        if (window->spread > 1)
            mgpu_take_phase(product, window, place[w], term[w], own, phase / phases % own);
        phases *= own;
        /* the table has no strides of these two in the gathered operand: they follow from their steps */
        mgpu_axis *both[] = {place[w], term[w]};
        for (int i = 0; i < 2; i++)
            *(table->gather_b ? &both[i]->b : &both[i]->a) = both[i]->step * window->stride;
        *(table->gather_b ? &product->b : &product->a) += window->first * window->stride;
    }
    mgpu_index *lists[4][3] = {{&product->batch_a, &product->batch_b, &product->batch_c},
                               {&product->am, NULL, &product->cm}, {NULL, &product->bn, &product->cn},
                               {&product->ak, &product->bk, NULL}};
    const int sizes[] = {table->batch, table->m, table->n, table->k};
    const mgpu_axis *next = axis;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++)
            if (lists[i][j] != NULL)
                lists[i][j]->count = 1;
        for (const mgpu_axis *end = next + sizes[i]; next < end; next++) {
            const int64_t strides[] = {next->a, next->b, next->c};
            for (int j = 0; j < 3; j++) {
                bool gathered = j == (table->gather_b ? 1 : 0);
                if (lists[i][j] != NULL)
                    mgpu_index_add(lists[i][j], next->extent, strides[j], gathered ? next->window - 1 : -1, next->step);
            }
        }
    }
    return phases;
}

/* The vectors are written out: more than -O2 only makes the other loops longer. These are short, calls of memset and
 * memcpy in their place are not wanted. Multiply-adds are, under -std=c11, too. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast", "no-tree-loop-distribute-patterns", "no-tree-vectorize")
#else
#pragma STDC FP_CONTRACT ON
#endif
#define MGPU_REAL double
#define MGPU_NAME(name) mgpu_##name##_f64
#include "runtime/contract_real.h"
#undef MGPU_REAL
#undef MGPU_NAME
#define MGPU_REAL float
#define MGPU_NAME(name) mgpu_##name##_f32
#include "runtime/contract_real.h"
#undef MGPU_REAL
#undef MGPU_NAME
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
