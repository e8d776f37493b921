/* mgpu_tiles.h: how a contraction of mgpu_gemm.h is computed on a GPU: what the compiler chooses (compiler/target/cuda/tiles.c)
 * and mgpu_device_contract.h implements. C for the compiler, C++ for the device.
 *
 * C is divided into tiles, which blocks compute one at a time; K passes through shared memory in stages. If there are few tiles
 * and K is long, K is split (split-K): the partial sums are in the workspace until the end of the kernel, which adds them in
 * order. The number of parts depends only on the table and the samples. */
#ifndef MGPU_TILES_H
#define MGPU_TILES_H

#include "mgpu_numbers.h"
#include "mgpu_tables.h"

enum {
    MGPU_FMA,   /* a thread has some rows and columns of the tile; sums are f32 or f64 */
    MGPU_MMA,   /* warps have parts of the tile, by matrix instructions; operands are bf16, f16, or f32 rounded to tf32 */
    MGPU_DIRECT /* no tiles: a thread computes an element of C and reads its row and column from memory */
};
enum { MGPU_DIRECT_THREADS = 256, MGPU_CHUNK_BYTES = 16 /* of shared memory */, MGPU_MARKS = 31 };

typedef struct mgpu_tiles {
    uint8_t arithmetic;
    uint8_t type_a, type_b, type_c;       /* MGPU_F32, MGPU_F64, MGPU_BF16, MGPU_F16: as stored */
    bool aligned_a, aligned_b, aligned_c; /* the tensors begin at multiples of 16 bytes */
    bool transposed;                      /* the tile's rows are along N and its columns along M; else the reverse */
    int rows, columns, depth;             /* of a tile, powers of 2; depth: along K, per stage */
    int stages;                           /* 0: K is empty, C is zeros */
    int down, across;                     /* threads (MGPU_FMA) or warps (MGPU_MMA) that divide rows and columns */
    int64_t split_tiles;                  /* target number of parts of tiles; 0: K is not split. MGPU_DIRECT: threads */
    int64_t split_depth;                  /* minimum depth of a part, a multiple of `depth` */
    int64_t c;                            /* offset of C */
    bool along_k_a, along_k_b;            /* lines in shared memory are along K, else along rows (columns) */
    int piece_a, piece_b, piece_c;        /* elements that are copied at once */
    bool linear_a, linear_b;              /* all elements of K have one stride */
    bool marked_a;                        /* K has few digits in windows: each row of A has a bit for each */
    bool warpgroups;                      /* MGPU_MMA: by warpgroup instructions, if the GPU has them */
} mgpu_tiles;

#ifdef __cplusplus
#define MGPU_TILES_FUNCTION __host__ __device__ static inline constexpr
#else
#define MGPU_TILES_FUNCTION static inline
#endif

enum { MGPU_LIST_BATCH, MGPU_LIST_M, MGPU_LIST_N, MGPU_LIST_K };

MGPU_TILES_FUNCTION int mgpu_list_count(const mgpu_contraction *t, int list)
{
    return list == MGPU_LIST_BATCH ? t->batch : list == MGPU_LIST_M ? t->m : list == MGPU_LIST_N ? t->n : t->k;
}

MGPU_TILES_FUNCTION int mgpu_list_first(const mgpu_contraction *t, int list)
{
    return list == MGPU_LIST_BATCH ? 0
           : list == MGPU_LIST_M   ? t->batch
           : list == MGPU_LIST_N   ? t->batch + t->m
                                   : t->batch + t->m + t->n;
}

MGPU_TILES_FUNCTION int64_t mgpu_list_extent(const mgpu_contraction *t, int list, int64_t samples)
{
    int64_t extent = 1;
    for (int i = mgpu_list_first(t, list), end = i + mgpu_list_count(t, list); i < end; i++)
        extent *= t->axis[i].extent == MGPU_SAMPLES ? samples : t->axis[i].extent;
    return extent;
}

MGPU_TILES_FUNCTION int mgpu_tiles_threads(const mgpu_tiles *s)
{
    return s->arithmetic == MGPU_DIRECT ? MGPU_DIRECT_THREADS : s->down * s->across * (s->arithmetic == MGPU_MMA ? 32 : 1);
}

/* Matrices of 64 rows and a power of 2 of columns, from 16 to 256, for each warpgroup of 128 threads. */
MGPU_TILES_FUNCTION bool mgpu_may_be_by_warpgroups(const mgpu_tiles *s)
{
    int groups = mgpu_tiles_threads(s) / 128, down = groups < s->rows / 64 ? groups : s->rows / 64;
    if (s->arithmetic != MGPU_MMA || (s->type_a != MGPU_BF16 && s->type_a != MGPU_F16) || mgpu_tiles_threads(s) % 128 != 0 ||
        down == 0 || groups % down != 0)
        return false;
    int columns = s->columns / (groups / down);
    return s->rows % (64 * down) == 0 && columns >= 16 && columns <= 256 && s->depth % 16 == 0 && s->depth <= 64;
}

MGPU_TILES_FUNCTION int mgpu_type_bytes(uint8_t type) { return type == MGPU_F64 ? 8 : type == MGPU_F32 ? 4 : 2; }

/* Returns the bytes of an element in shared memory: elements that are no operands of matrix instructions are widened. */
MGPU_TILES_FUNCTION int mgpu_staged_bytes(const mgpu_tiles *s, uint8_t type)
{
    return s->arithmetic == MGPU_MMA || type == MGPU_F64 ? mgpu_type_bytes(type) : 4;
}

MGPU_TILES_FUNCTION int mgpu_tiles_shared_bytes(const mgpu_tiles *s)
{
    int rows = mgpu_staged_bytes(s, s->transposed ? s->type_b : s->type_a);
    int columns = mgpu_staged_bytes(s, s->transposed ? s->type_a : s->type_b);
    return s->arithmetic == MGPU_DIRECT ? 0 : s->stages * s->depth * (s->rows * rows + s->columns * columns);
}

/* ---- Moves along K by constant numbers of elements: from a stage to the next, and between the elements of A or B that a thread
 * copies in one stage. */

/* Returns the threads that share a line of an operand in shared memory: one for each chunk. For long lines of rows it is half as
 * many, if each still reads 128 bytes, because finding an element of K takes longer than finding a row in it. If chunks have many
 * pieces, a thread has enough rows anyway. */
MGPU_TILES_FUNCTION int mgpu_line_threads(const mgpu_tiles *s, bool a)
{
    bool along_k = a ? s->along_k_a : s->along_k_b;
    int side = along_k              ? s->depth
               : a != s->transposed ? s->rows
                                    : s->columns,
        bytes = mgpu_staged_bytes(s, a ? s->type_a : s->type_b);
    int chunks = side * bytes / MGPU_CHUNK_BYTES;
    bool few = (a ? s->piece_a : s->piece_b) * bytes >= MGPU_CHUNK_BYTES / 2;
    return s->arithmetic == MGPU_MMA && !along_k && few && chunks > 8 ? chunks / 2 : chunks;
}

MGPU_TILES_FUNCTION int mgpu_move_depth(const mgpu_tiles *s, int move)
{
    bool a = move == MGPU_MOVE_A, along_k = a ? s->along_k_a : s->along_k_b;
    if (move == MGPU_MOVE_STAGE)
        return s->depth;
    return along_k ? a ? s->piece_a : s->piece_b : mgpu_tiles_threads(s) / mgpu_line_threads(s, a);
}

/* Returns a move by so many elements as a digit of this axis of K. */
MGPU_TILES_FUNCTION int64_t mgpu_move_digit(const mgpu_contraction *t, int axis, int64_t by)
{
    int first = mgpu_list_first(t, MGPU_LIST_K);
    for (int i = first + t->k - 1; i > axis; i--)
        by /= t->axis[i].extent;
    return axis == first ? by : by % t->axis[axis].extent;
}

/* ---- positions of elements */

MGPU_TILES_FUNCTION int64_t mgpu_axis_stride(const mgpu_contraction *t, int axis, int tensor)
{
    const mgpu_axis *x = &t->axis[axis];
    if (tensor == 0 && x->window > 0) /* the position in a dilated window is not linear */
        return t->window[x->window - 1].input_dilation == 1 ? x->step * t->window[x->window - 1].stride : 0;
    return tensor == 0 ? x->a : tensor == 1 ? x->b : x->c;
}

/* Returns the offset of the element at all indices 0, without the part of dilated windows. */
MGPU_TILES_FUNCTION int64_t mgpu_first_element(const mgpu_contraction *t, int tensor)
{
    int64_t first = tensor == 0 ? t->a : tensor == 1 ? t->b : 0;
    for (int w = 0; w < t->windows && tensor == 0; w++)
        if (t->window[w].input_dilation == 1)
            first += t->window[w].first * t->window[w].stride;
    return first;
}

/* Returns the last axis with more than one element, or -1. */
MGPU_TILES_FUNCTION int mgpu_last_axis(const mgpu_contraction *t, int list)
{
    int last = mgpu_list_first(t, list) + mgpu_list_count(t, list) - 1;
    while (last >= mgpu_list_first(t, list) && t->axis[last].extent == 1)
        last--;
    return last >= mgpu_list_first(t, list) ? last : -1;
}

/* Returns true if an operand's elements are contiguous along this list. */
MGPU_TILES_FUNCTION bool mgpu_follow(const mgpu_contraction *t, int list, int tensor)
{
    int last = mgpu_last_axis(t, list);
    return last >= 0 && mgpu_axis_stride(t, last, tensor) == 1;
}

/* Returns how many elements can be copied at once along this list: `most`, or a half of that, a quarter, ...; c: the offset of
 * C. */
MGPU_TILES_FUNCTION int mgpu_together(const mgpu_contraction *t, int list, int tensor, bool aligned, int most, int64_t c)
{
    int last = mgpu_last_axis(t, list), count = most;
    if (!aligned || !mgpu_follow(t, list, tensor) || t->axis[last].extent == MGPU_SAMPLES ||
        (tensor == 0 && t->axis[last].window > 0))
        return 1;
    for (; count > 1; count /= 2) {
        bool fits = t->axis[last].extent % count == 0 && (tensor == 2 ? c : mgpu_first_element(t, tensor)) % count == 0;
        for (int i = 0; i < t->batch + t->m + t->n + t->k; i++)
            fits = fits && (i == last || t->axis[i].extent == 1 || mgpu_axis_stride(t, i, tensor) % count == 0);
        for (int w = 0; w < t->windows && tensor == 0; w++)
            fits = fits && t->window[w].stride % count == 0;
        if (fits)
            break;
    }
    return count;
}

/* Returns true if all elements of K have one stride in this operand, including those in windows. */
MGPU_TILES_FUNCTION bool mgpu_is_linear(const mgpu_contraction *t, int tensor)
{
    int last = mgpu_list_first(t, MGPU_LIST_K) + t->k - 1;
    bool linear = true;
    for (int w = 0; w < t->windows && tensor == 0; w++)
        linear = linear && t->window[w].input_dilation == 1; /* positions have no stride otherwise */
    for (int i = last; i > mgpu_list_first(t, MGPU_LIST_K); i--)
        linear = linear && mgpu_axis_stride(t, i - 1, tensor) == mgpu_axis_stride(t, i, tensor) * t->axis[i].extent;
    return linear;
}

/* Returns the axis of a list that moves in a window; -1: none, -2: several. */
MGPU_TILES_FUNCTION int mgpu_axis_in_window(const mgpu_contraction *t, int list, int window)
{
    int found = -1, first = mgpu_list_first(t, list);
    for (int i = first; i < first + mgpu_list_count(t, list); i++)
        if (t->axis[i].window == window + 1)
            found = found == -1 ? i : -2;
    return found;
}

/* A bit for each digit of K in windows, and one that is never set, say whether a row of A is inside its windows. Possible if each
 * window has at most one axis of K, with step 1. */
MGPU_TILES_FUNCTION bool mgpu_may_be_marked(const mgpu_contraction *t)
{
    int64_t bits = 0;
    for (int w = 0; w < t->windows; w++) {
        int axis = mgpu_axis_in_window(t, MGPU_LIST_K, w);
        if (axis == -2 || t->window[w].input_dilation != 1 ||
            (axis >= 0 && (t->axis[axis].step != 1 || t->axis[axis].extent > MGPU_MARKS)))
            return false;
        bits += axis < 0 ? 1 : t->axis[axis].extent;
    }
    return t->windows > 0 && bits <= MGPU_MARKS;
}

/* ---- tiles and parts */

/* Returns the number of tiles of C; for MGPU_DIRECT that of its elements. */
MGPU_TILES_FUNCTION int64_t mgpu_count_tiles(const mgpu_tiles *s, int64_t batch, int64_t rows, int64_t columns)
{
    if (s->arithmetic == MGPU_DIRECT)
        return batch * rows * columns;
    return batch * ((rows + s->rows - 1) / s->rows) * ((columns + s->columns - 1) / s->columns);
}

MGPU_TILES_FUNCTION int64_t mgpu_tiles_of(const mgpu_contraction *t, const mgpu_tiles *s, int64_t samples)
{
    return mgpu_count_tiles(s, mgpu_list_extent(t, MGPU_LIST_BATCH, samples),
                            mgpu_list_extent(t, s->transposed ? MGPU_LIST_N : MGPU_LIST_M, samples),
                            mgpu_list_extent(t, s->transposed ? MGPU_LIST_M : MGPU_LIST_N, samples));
}

/* Returns the depth of a part; the number of parts is the whole depth divided by it, rounded up. */
MGPU_TILES_FUNCTION int64_t mgpu_part_depth(const mgpu_tiles *s, int64_t tiles, int64_t depth)
{
    int64_t most = s->split_tiles / (tiles > 0 ? tiles : 1), parts = s->split_depth > 0 ? depth / s->split_depth : 1;
    parts = parts < most ? parts : most;
    if (parts <= 1)
        return depth > 0 ? depth : 1;
    int64_t each = (depth + parts - 1) / parts;
    return (each + s->depth - 1) / s->depth * s->depth;
}

/* ---- Attention: a block has some queries and goes through the keys, a few at a time; or some keys, and goes through the
 * queries. The elements of keys and values are divided into parts. */

typedef struct mgpu_attention_tiles {
    uint8_t arithmetic;                /* MGPU_FMA or MGPU_MMA: all operands are bf16, or f16, or f32 rounded to tf32 */
    uint8_t q, k, v, g, y, dq, dk, dv; /* types, as stored */
    bool aligned;                      /* all tensors begin at multiples of 16 bytes */
    int rows, columns;                 /* of a block; processed at a time */
    int warp_rows;                     /* rows of a warp with matrix instructions; else all */
    int part;                          /* elements of a part */
    int stages;                        /* 2: the next columns are loaded while some are processed */
    bool resident;                     /* all parts of rows and columns are in shared memory; else one at a time */
    int results;                       /* parts of results that a block computes */
    bool alone;                        /* the first threads of a single block compute everything (loops) */
    bool warpgroups;                   /* MGPU_MMA: by warpgroup instructions, if the GPU has them */
} mgpu_attention_tiles;

enum {
    MGPU_ATTENTION_THREADS = 128, /* MGPU_FMA: 16 x 8 */
    MGPU_REGISTERS = 254,
    MGPU_REGISTERS_BESIDE = 30 /* per thread; of these for addresses and counters */
};

MGPU_TILES_FUNCTION int mgpu_attention_threads(const mgpu_attention_tiles *s)
{
    return s->arithmetic == MGPU_MMA ? s->rows / s->warp_rows * 32 : MGPU_ATTENTION_THREADS;
}

/* Matrices of 64 rows for each warpgroup, whose operands stay in shared memory while it reads them. The memory of a single block
 * may be anywhere. */
MGPU_TILES_FUNCTION bool mgpu_attention_may_be_by_warpgroups(const mgpu_attention_tiles *s)
{
    int threads = mgpu_attention_threads(s);
    return s->arithmetic == MGPU_MMA && s->q != MGPU_F32 && s->resident && !s->alone && threads % 128 == 0 &&
           s->rows % (threads / 2) == 0;
}

MGPU_TILES_FUNCTION int64_t mgpu_attention_parts(const mgpu_attention_tiles *s, int64_t elements)
{
    return (elements + s->part - 1) / s->part;
}

/* Returns how many parts of its rows a warpgroup keeps in registers, as operands: as many as fit besides sums, probabilities as
 * operands, and what is kept per row or column. It reads the others from shared memory for each multiplication. keys: its rows
 * are keys. */
MGPU_TILES_FUNCTION int mgpu_attention_held(const mgpu_attention *t, const mgpu_attention_tiles *s, bool keys)
{
    int threads = mgpu_attention_threads(s), tile = s->rows * s->columns / threads, part = s->rows * s->part / threads;
    int d = (int)mgpu_attention_parts(s, t->d), e = (int)mgpu_attention_parts(s, t->e), all = d + (t->backward ? e : 0);
    int of_d = !t->backward     ? 0
               : d < s->results ? d
                                : s->results,
        of_e = t->backward && !keys ? 0
               : e < s->results     ? e
                                    : s->results;
    int sums = tile * (t->backward ? 2 : 1) + (of_d + of_e) * part, shares = tile / 2 * (keys ? 2 : 1);
    int others = MGPU_REGISTERS_BESIDE + (keys ? s->columns / 2 : s->rows / 8),
        room = (MGPU_REGISTERS - sums - shares - others) * 2 / part;
    return !s->warpgroups || room < 0 ? 0 : room < all ? room : all;
}

/* Returns the bytes of an element in shared memory. */
MGPU_TILES_FUNCTION int mgpu_attention_staged(const mgpu_attention *t, const mgpu_attention_tiles *s)
{
    return s->arithmetic == MGPU_MMA && s->q != MGPU_F32 ? 2 : t->type == MGPU_F64 ? 8 : 4;
}

/* Returns the bytes of the block's rows, stages of columns, and the probabilities that threads exchange. */
MGPU_TILES_FUNCTION int64_t mgpu_attention_shared_bytes(const mgpu_attention *t, const mgpu_attention_tiles *s)
{
    int64_t d = mgpu_attention_parts(s, t->d), e = mgpu_attention_parts(s, t->e), bytes = mgpu_attention_staged(t, s);
    int64_t own = s->resident ? d + (t->backward ? e : 0) : 1, other = s->resident ? s->stages * (d + e) : 1;
    int64_t shares = s->arithmetic == MGPU_MMA ? 0 : s->rows * s->columns;
    return (own * s->rows * s->part + other * s->columns * s->part + shares) * bytes;
}

/* Returns the blocks for a head of a sample (or a group of heads) with `rows` rows and results of so many parts. */
MGPU_TILES_FUNCTION int64_t mgpu_attention_blocks(const mgpu_attention_tiles *s, int64_t rows, int64_t parts)
{
    return (rows + s->rows - 1) / s->rows * ((parts + s->results - 1) / s->results);
}

/* ---- rows: running sums and the k largest */

enum {
    MGPU_ROWS_THREADS = 256,
    MGPU_ROWS_BLOCKS = 264, /* at most, if a block has a workspace */
    MGPU_SUMS_AT_ONCE = 4   /* elements of a thread, along a row */
};

typedef struct mgpu_rows_tiles {
    int group;         /* threads that share a row (for sums: a few rows): 32 or MGPU_ROWS_THREADS */
    int beside;        /* sums: adjacent rows that a group processes together; 1: it takes elements along a row */
    int64_t room;      /* the k largest: keys that a group has room for, a power of 2 */
    bool in_workspace; /* they are in the workspace, not in shared memory */
    bool alone;        /* a single block computes everything (loops) */
} mgpu_rows_tiles;

MGPU_TILES_FUNCTION int mgpu_key_bytes(uint8_t type) { return type == MGPU_F64 || type == MGPU_I64 ? 16 : 8; }

MGPU_TILES_FUNCTION int64_t mgpu_rows_shared_bytes(const mgpu_rows *t, const mgpu_rows_tiles *s)
{
    return s->in_workspace ? 0 : s->room * mgpu_key_bytes(t->type) * (MGPU_ROWS_THREADS / s->group);
}
#endif
