/* mgpu_device_contract.h: contractions of mgpu_gemm.h on a GPU, in tiles as mgpu_tiles.h says.
 *
 * A block takes a tile of C, and all of K or a part of it. Stages of both operands are copied to shared memory while
 * earlier ones are multiplied: after Nvidia's CUTLASS, "Efficient GEMM in CUDA". Sums are added up by one thread each, in the
 * order of K; parts in their order by mgpu_contract_finish. */
#ifndef MGPU_DEVICE_CONTRACT_H
#define MGPU_DEVICE_CONTRACT_H

#include "mgpu_device_operand.h"

/* the tile of a contraction */
template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_contraction_tile {
    typedef mgpu_operand<T, S, S.transposed ? MGPU_LIST_N : MGPU_LIST_M> down_operand;
    typedef mgpu_operand<T, S, S.transposed ? MGPU_LIST_M : MGPU_LIST_N> across_operand;
    typedef mgpu_fma_tile<typename mgpu_element<T.type>::sum, typename down_operand::lines, typename across_operand::lines, S.down, S.across> fma;
    typedef mgpu_mma_tile<S.type_a, typename down_operand::lines, typename across_operand::lines, S.down, S.across> mma;
    typedef mgpu_warpgroup_tile<S.type_a, typename down_operand::lines, typename across_operand::lines, mgpu_tiles_threads(&S)> warpgroup;
    typedef typename mgpu_either<S.warpgroups && MGPU_HAS_WARPGROUPS, warpgroup, typename mgpu_either<S.arithmetic == MGPU_MMA, mma, fma>::type>::type type;
};

/* ---- C */

template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_result {
    typedef mgpu_element<S.type_c> element;
    typedef typename element::stored stored;
    static constexpr int ROW_LIST = S.transposed ? MGPU_LIST_N : MGPU_LIST_M,
                         COLUMN_LIST = S.transposed ? MGPU_LIST_M : MGPU_LIST_N;

    /* RUN columns from one on, of which `left` there are; elements follow each other if they can */
    template <int RUN, typename SUM>
    MGPU_FUNCTION void store(stored *row, const int64_t column[RUN], int64_t left, const SUM value[RUN])
    {
        constexpr int most = 16 / (int)sizeof(stored) < RUN ? 16 / (int)sizeof(stored) : RUN;
        constexpr int together = S.piece_c < most ? S.piece_c : most;
#pragma unroll
        for (int j = 0; j < RUN; j += together)
            if (j < left)
                mgpu_store_together<S.type_c, together>(row + column[j], value + j);
    }
};

/* how much there is to do */
template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_contraction_sizes {
    int64_t rows, columns, tiles, depth; /* of C; tiles of the whole batch */
    int64_t each, parts;                 /* depth of a part; parts of a tile */

    mgpu_contraction_sizes(void) = default;
    template <typename NUMBERS> __device__ __forceinline__ mgpu_contraction_sizes(const NUMBERS &numbers, int64_t n)
    {
        rows = mgpu_numbered_extent<T>(numbers, mgpu_result<T, S>::ROW_LIST, n);
        columns = mgpu_numbered_extent<T>(numbers, mgpu_result<T, S>::COLUMN_LIST, n);
        tiles = mgpu_count_tiles(&S, mgpu_numbered_extent<T>(numbers, MGPU_LIST_BATCH, n), rows, columns);
        depth = mgpu_numbered_extent<T>(numbers, MGPU_LIST_K, n);
        each = S.split_tiles > 0 ? mgpu_part_depth(&S, tiles, depth) : depth;
        parts = S.split_tiles > 0 && depth > 0 ? (depth + each - 1) / each : 1;
    }
};

/* a tile's place: which of the batch, first row and column. Tiles that follow each other share rows, then columns, so that what
 * they read stays near */
template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_tile_place {
    int64_t batch, row, column;

    __device__ __forceinline__ mgpu_tile_place(unsigned tile, const mgpu_contraction_sizes<T, S> &all)
    {
        enum { GROUP = 8 };
        const unsigned down = (unsigned)((all.rows + S.rows - 1) / S.rows), across = (unsigned)((all.columns + S.columns - 1) / S.columns);
        batch = T.batch > 0 ? tile / (down * across) : 0;
        unsigned rest = tile - (unsigned)batch * down * across, group = rest / (GROUP * across);
        unsigned high = min(down - group * GROUP, (unsigned)GROUP);
        rest -= group * GROUP * across;
        row = (int64_t)(group * GROUP + rest % high) * S.rows;
        column = (int64_t)(rest / high) * S.columns;
    }
};

template <const mgpu_contraction &T, const mgpu_tiles &S, typename NUMBERS, typename TILE>
MGPU_FUNCTION void mgpu_store_tile(const NUMBERS &numbers, const mgpu_contraction_sizes<T, S> &all, const TILE &tile,
                                   const mgpu_tile_place<T, S> &at, void *tensor)
{
    typedef mgpu_result<T, S> result;
    mgpu_place<T, result::ROW_LIST> row;
    mgpu_place<T, result::COLUMN_LIST> column;
    mgpu_place<T, MGPU_LIST_BATCH> batch;
    /* one stride apart: registers for the first's place alone */
    constexpr bool EVEN = mgpu_place<T, result::COLUMN_LIST>::COUNT == 1;
    int64_t columns[TILE::ACROSS];
    batch.set(numbers, at.batch);
    column.set(numbers, at.column);
    column.advance(numbers, TILE::column(0));
#pragma unroll
    for (int j = 0; j < TILE::ACROSS; j++) {
        const int from_first = TILE::column(j) - TILE::column(0);
        if constexpr (EVEN) {
            columns[j] = S.piece_c > 1 ? from_first : from_first * numbers.stride(mgpu_place<T, result::COLUMN_LIST>::FIRST, 2);
        } else {
            mgpu_place<T, result::COLUMN_LIST> own = column;
            own.advance(numbers, from_first);
            columns[j] = own.offset(numbers, 2);
        }
    }
    row.set(numbers, at.row);
    const int64_t before = numbers.first(2) + batch.offset(numbers, 2) + (EVEN ? column.offset(numbers, 2) : 0);
    typename result::stored *const c = (typename result::stored *)tensor + before;
#pragma unroll
    for (int i = 0; i < TILE::DOWN; i++) {
        mgpu_place<T, result::ROW_LIST> own = row;
        own.advance(numbers, TILE::row(i));
        if (at.row + TILE::row(i) < all.rows)
#pragma unroll
            for (int j = 0; j < TILE::ACROSS; j += TILE::RUN)
                result::template store<TILE::RUN>(c + own.offset(numbers, 2), columns + j, all.columns - at.column - TILE::column(j),
                                                  tile.value[i] + j);
    }
}

/* ---- tiles first, first + step, ... of all parts: parts of one tile are `tiles` apart. shared: mgpu_tiles_shared_bytes */
template <const mgpu_contraction &T, const mgpu_tiles &S, bool SPLIT, typename NUMBERS>
MGPU_FUNCTION void mgpu_contract_tiles(const NUMBERS &numbers, const mgpu_contraction_sizes<T, S> &all, const void *a,
                                       const void *b, void *c, void *work, char *shared, unsigned first, unsigned step)
{
    typedef typename mgpu_contraction_tile<T, S>::type tile_type;
    typedef typename mgpu_contraction_tile<T, S>::down_operand down_operand;
    typedef typename mgpu_contraction_tile<T, S>::across_operand across_operand;
    typedef typename tile_type::sum sum;
    constexpr bool ALIKE = down_operand::ALONG_K == across_operand::ALONG_K && down_operand::ACROSS == across_operand::ACROSS &&
                           (down_operand::DIGITS || !across_operand::DIGITS) && down_operand::CHUNK == across_operand::CHUNK; /* along K */
    constexpr int AHEAD = S.stages - 1, STAGE = down_operand::lines::BYTES + across_operand::lines::BYTES;
    const void *const from_down = S.transposed ? b : a, *const from_across = S.transposed ? a : b;
    /* sizes of parts and counts of tiles are asked for again after the loop over K, which needs the registers */
    for (unsigned item = first; item < (unsigned)all.tiles * (SPLIT ? (unsigned)all.parts : 1); item += step) {
        const unsigned part = SPLIT ? item / (unsigned)all.tiles : 0;
        const mgpu_tile_place<T, S> at(SPLIT ? item - part * (unsigned)all.tiles : item, all);
        mgpu_place<T, MGPU_LIST_BATCH> batch;
        batch.set(numbers, at.batch);
        const int64_t begin = part * all.each, end = SPLIT ? min(begin + all.each, all.depth) : all.depth;
        const int steps = (int)((end - begin + S.depth - 1) / S.depth);
        down_operand down;
        across_operand across;
        down.start(numbers, (const typename down_operand::stored *)from_down + batch.offset(numbers, down_operand::TENSOR), shared, at.row,
                   all.rows, begin, end);
        across.start(numbers, (const typename across_operand::stored *)from_across + batch.offset(numbers, across_operand::TENSOR),
                     shared + down_operand::lines::BYTES, at.column, all.columns, begin, end);
        const typename tile_type::sources sources = tile_type::sources::kept(tile_type::sources::of(shared, shared + down_operand::lines::BYTES));
        tile_type tile;
        mgpu_clear(tile.value);
        unsigned filled = 0, used = 0; /* bytes */
#pragma unroll 1
        for (int s = -AHEAD; s < steps; s++) { /* first the stages that are to be there ahead */
            if (s >= 0) {
                mgpu_copies_wait<AHEAD - 1>();
                if constexpr (tile_type::ASYNC)
                    mgpu_show_warpgroups();
                __syncthreads(); /* this stage is there, and the one before is no longer read */
                tile.start(sources, used);
            }
            if (s + AHEAD < steps) {
                down.load(numbers, down.at_k, shared + filled, filled);
                across.load(numbers, ALIKE ? down.at_k : across.at_k, shared + filled + down_operand::lines::BYTES, filled);
                down.go(numbers);
                if (!ALIKE)
                    across.go(numbers);
            }
            mgpu_copies_end();
            filled = filled == AHEAD * STAGE ? 0 : filled + STAGE;
            if (s >= 0 || tile_type::ASYNC) /* who waits has to come here from wherever something begins, or ptxas waits sooner */
                tile.multiply(sources, used);
            if (s >= 0)
                used = used == AHEAD * STAGE ? 0 : used + STAGE;
        }
        mgpu_copies_wait<0>();
        __syncthreads(); /* before the next tile fills the stages */
        if (SPLIT && all.parts > 1) {
            sum *to = (sum *)work + (int64_t)item * (tile_type::DOWN * tile_type::ACROSS * mgpu_tiles_threads(&S)) + threadIdx.x;
#pragma unroll
            for (int i = 0; i < tile_type::DOWN; i++)
#pragma unroll
                for (int j = 0; j < tile_type::ACROSS; j++)
                    to[(i * tile_type::ACROSS + j) * mgpu_tiles_threads(&S)] = tile.value[i][j];
        } else {
            mgpu_store_tile<T, S>(numbers, all, tile, SPLIT ? mgpu_tile_place<T, S>(item, all) : at, c);
        }
    }
}

/* ---- a contraction of nothing: the places of C that no tap of a convolution meets */
template <const mgpu_contraction &T, const mgpu_tiles &S, typename NUMBERS>
MGPU_FUNCTION void mgpu_contract_nothing(const NUMBERS &numbers, const mgpu_contraction_sizes<T, S> &all, void *c, unsigned first,
                                         unsigned step)
{
    typename mgpu_contraction_tile<T, S>::type tile;
    mgpu_clear(tile.value);
    for (unsigned item = first; item < (unsigned)all.tiles; item += step)
        mgpu_store_tile<T, S>(numbers, all, tile, mgpu_tile_place<T, S>(item, all), c);
}

/* ---- without tiles: neighbouring threads have neighbours in memory. The lists, the fastest first: the one whose elements
 * follow each other in C, then the others */

MGPU_TILES_FUNCTION int mgpu_direct_list(const mgpu_contraction &t, int number)
{
    int fastest = mgpu_follow(&t, MGPU_LIST_BATCH, 2) ? MGPU_LIST_BATCH : mgpu_follow(&t, MGPU_LIST_M, 2) ? MGPU_LIST_M : MGPU_LIST_N;
    const int others[3][3] = {{MGPU_LIST_BATCH, MGPU_LIST_N, MGPU_LIST_M}, {MGPU_LIST_M, MGPU_LIST_N, MGPU_LIST_BATCH},
                              {MGPU_LIST_N, MGPU_LIST_M, MGPU_LIST_BATCH}};
    return others[fastest][number];
}

template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_direct {
    typedef mgpu_element<S.type_a> element_a;
    typedef mgpu_element<S.type_b> element_b;
    typedef mgpu_element<S.type_c> element_c;
    typedef typename mgpu_element<T.type>::sum sum;
    typedef mgpu_constant_numbers<T, S> constants;
    mgpu_place<T, MGPU_LIST_BATCH> batch;
    mgpu_place<T, MGPU_LIST_M> m;
    mgpu_place<T, MGPU_LIST_N> n;

    __device__ __forceinline__ void set(int list, int64_t index)
    {
        if (list == MGPU_LIST_BATCH)
            batch.set(constants(), index);
        else if (list == MGPU_LIST_M)
            m.set(constants(), index);
        else
            n.set(constants(), index);
    }
    __device__ __forceinline__ mgpu_direct(int64_t element, int64_t samples)
    {
        int64_t fast = mgpu_list_extent(&T, mgpu_direct_list(T, 0), samples), next = mgpu_list_extent(&T, mgpu_direct_list(T, 1), samples);
        set(mgpu_direct_list(T, 0), element % fast);
        set(mgpu_direct_list(T, 1), element / fast % next);
        set(mgpu_direct_list(T, 2), element / fast / next);
    }
    __device__ __forceinline__ int64_t offset(int tensor) const
    {
        return constants::first(tensor) + batch.offset(constants(), tensor) + m.offset(constants(), tensor) + n.offset(constants(), tensor);
    }

    /* K in [begin, end) */
    __device__ __forceinline__ sum multiply(const void *tensor_a, const void *tensor_b, int64_t begin, int64_t end) const
    {
        const typename element_a::stored *a = (const typename element_a::stored *)tensor_a + offset(0);
        const typename element_b::stored *b = (const typename element_b::stored *)tensor_b + offset(1);
        constexpr int last = mgpu_list_first(&T, MGPU_LIST_K) + T.k - 1, WINDOWS = T.windows;
        constexpr bool runs = T.k > 0;
        constexpr int LAST = runs ? last : 0;
        int own[WINDOWS > 0 ? WINDOWS : 1];
#pragma unroll
        for (int w = 0; w < WINDOWS; w++)
            own[w] = m.position(constants(), w) + constants::window_first(w);
        mgpu_place<T, MGPU_LIST_K> at_k;
        at_k.set(constants(), begin);
        sum all = 0;
        while (begin < end) { /* the last axis, as far as it goes */
            int64_t run = T.k > 1 ? min(T.axis[LAST].extent - at_k.digit[T.k > 1 ? T.k - 1 : 0], end - begin) : end - begin;
            int64_t at_a = at_k.offset(constants(), 0), at_b = at_k.offset(constants(), 1);
            int window[WINDOWS > 0 ? WINDOWS : 1];
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                window[w] = at_k.position(constants(), w);
#pragma unroll 4
            for (int64_t i = 0; i < run; i++) {
                int64_t at = at_a;
                bool there = true;
                if constexpr (WINDOWS > 0)
                    there = mgpu_within<T>(constants(), own, window, at, 1);
                if (there)
                    all = fma((sum)element_a::widen(a[at]), (sum)element_b::widen(b[at_b]), all);
                at_a += runs ? mgpu_axis_stride(&T, LAST, 0) : 0;
                at_b += runs ? mgpu_axis_stride(&T, LAST, 1) : 0;
#pragma unroll
                for (int w = 0; w < WINDOWS; w++)
                    if (runs && T.axis[LAST].window == w + 1)
                        window[w] += (int)T.axis[LAST].step;
            }
            begin += run;
            at_k.advance(constants(), (int)run);
        }
        return all;
    }
    __device__ __forceinline__ void store(void *c, sum value) const
    {
        ((typename element_c::stored *)c)[offset(2)] = element_c::narrow(value);
    }
};

template <const mgpu_contraction &T, const mgpu_tiles &S, bool SPLIT>
MGPU_FUNCTION void mgpu_contract_direct(const void *a, const void *b, void *c, void *work, int64_t first, int64_t step, int64_t n)
{
    const mgpu_contraction_sizes<T, S> all(mgpu_constant_numbers<T, S>(), n);
    const int64_t parts = SPLIT ? all.parts : 1;
    for (int64_t item = first; item < all.tiles * parts; item += step) {
        const int64_t part = SPLIT ? item / all.tiles : 0;
        const mgpu_direct<T, S> own(item - part * all.tiles, n);
        const typename mgpu_direct<T, S>::sum sum = own.multiply(a, b, part * all.each, SPLIT ? min((part + 1) * all.each, all.depth) : all.depth);
        if (SPLIT && parts > 1)
            ((typename mgpu_direct<T, S>::sum *)work)[item] = sum;
        else
            own.store(c, sum);
    }
}

/* ---- what kernels call. a, b: the operands that the table calls A and B; work: NULL, or room for parts; numbers: those that the
 * launch hands over, or mgpu_constant_numbers. A kernel may do several contractions: `before` are tiles of those before it
 * (MGPU_DIRECT: elements), which other blocks take. Returns that for the next. */

template <const mgpu_contraction &T, const mgpu_tiles &S, typename NUMBERS>
MGPU_FUNCTION int64_t mgpu_contract_some(const NUMBERS &numbers, const void *a, const void *b, void *c, void *work, int64_t n,
                                         int64_t before)
{
    if constexpr (S.arithmetic == MGPU_DIRECT) {
        const int64_t all = (int64_t)gridDim.x * blockDim.x, first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x - before % all;
        mgpu_contract_direct<T, S, (S.split_tiles > 0)>(a, b, c, work, first < 0 ? first + all : first, all, n);
        return before + mgpu_contraction_sizes<T, S>(numbers, n).tiles;
    } else {
        __shared__ mgpu_contraction_sizes<T, S>
            sizes;       /* in registers they would stay through the loop over K, which needs all */
        __syncthreads(); /* a contraction of the same form may be just before this one */
        if (threadIdx.x == 0)
            sizes = mgpu_contraction_sizes<T, S>(numbers, n);
        __syncthreads();
        const unsigned others = (unsigned)before % gridDim.x, first = blockIdx.x < others ? blockIdx.x + gridDim.x - others : blockIdx.x - others;
        if constexpr (S.stages == 0)
            mgpu_contract_nothing<T, S>(numbers, sizes, c, first, gridDim.x);
        else
            mgpu_contract_tiles<T, S, (S.split_tiles > 0)>(numbers, sizes, a, b, c, work, mgpu_dynamic_shared(), first,
                                                           gridDim.x);
        return before + sizes.tiles;
    }
}

template <const mgpu_contraction &T, const mgpu_tiles &S>
MGPU_FUNCTION int64_t mgpu_contract(const void *a, const void *b, void *c, void *work, int64_t n, int64_t before)
{
    return mgpu_contract_some<T, S>(mgpu_constant_numbers<T, S>(), a, b, c, work, n, before);
}

template <const mgpu_contraction &T, const mgpu_tiles &S>
MGPU_FUNCTION int64_t mgpu_contract(const mgpu_numbers &numbers, const void *a, const void *b, void *c, void *work, int64_t n, int64_t before)
{
    return mgpu_contract_some<T, S>(mgpu_parameter_numbers{numbers}, a, b, c, work, n, before);
}

/* adds up the parts: a thread has one element at a time */
template <const mgpu_contraction &T, const mgpu_tiles &S, typename NUMBERS>
MGPU_FUNCTION void mgpu_finish_some(const NUMBERS &numbers, const void *work, void *c, int64_t n)
{
    typedef typename mgpu_element<T.type>::sum sum_type;
    const mgpu_contraction_sizes<T, S> all(numbers, n);
    const int64_t count = S.arithmetic == MGPU_DIRECT ? 1 : (int64_t)S.rows * S.columns; /* of a tile's part */
    if (all.parts == 1)
        return;
    for (int64_t item = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; item < all.tiles * count; item += (int64_t)gridDim.x * blockDim.x) {
        const unsigned tile = (unsigned)(item / count), rest = (unsigned)(item - tile * count);
        const sum_type *from = (const sum_type *)work + item;
        sum_type sum = 0;
#pragma unroll 4
        for (int64_t p = 0; p < all.parts; p++)
            sum += from[p * all.tiles * count];
        if constexpr (S.arithmetic == MGPU_DIRECT) {
            mgpu_direct<T, S>(tile, n).store(c, sum);
        } else {
            typedef typename mgpu_contraction_tile<T, S>::type tile_type;
            typedef mgpu_result<T, S> result;
            /* blocks have the threads of a tile's: what was stored by thread t is thread t's */
            const int i = (int)(rest / (tile_type::ACROSS * mgpu_tiles_threads(&S))), j = (int)(rest / mgpu_tiles_threads(&S)) % tile_type::ACROSS;
            const mgpu_tile_place<T, S> at(tile, all);
            mgpu_place<T, MGPU_LIST_BATCH> batch;
            mgpu_place<T, result::ROW_LIST> row;
            mgpu_place<T, result::COLUMN_LIST> column;
            batch.set(numbers, at.batch);
            row.set(numbers, at.row + tile_type::row(i));
            column.set(numbers, at.column + tile_type::column(j));
            if (at.row + tile_type::row(i) < all.rows && at.column + tile_type::column(j) < all.columns)
                ((typename result::stored *)c)[numbers.first(2) + batch.offset(numbers, 2) + row.offset(numbers, 2) + column.offset(numbers, 2)] =
                    result::element::narrow(sum);
        }
    }
}

template <const mgpu_contraction &T, const mgpu_tiles &S>
MGPU_FUNCTION void mgpu_contract_finish(const void *work, void *c, int64_t n)
{
    mgpu_finish_some<T, S>(mgpu_constant_numbers<T, S>(), work, c, n);
}

template <const mgpu_contraction &T, const mgpu_tiles &S>
MGPU_FUNCTION void mgpu_contract_finish(const mgpu_numbers &numbers, const void *work, void *c, int64_t n)
{
    mgpu_finish_some<T, S>(mgpu_parameter_numbers{numbers}, work, c, n);
}

/* the samples on which tensors depend move with their first one */
template <const mgpu_contraction &T> MGPU_FUNCTION int64_t mgpu_sample_stride(int tensor)
{
    int64_t stride = 0;
    for (int i = 0; i < T.batch + T.m + T.n + T.k; i++)
        if (T.axis[i].extent == MGPU_SAMPLES)
            stride += mgpu_axis_stride(&T, i, tensor);
    return stride;
}

/* the same contraction for samples [begin, end) of the tensors, by one block of mgpu_tiles_threads threads; they are through with
 * it and see its results when it returns. shared: mgpu_tiles_shared_bytes */
template <const mgpu_contraction &T, const mgpu_tiles &S>
MGPU_FUNCTION void mgpu_contract_block(const void *a, const void *b, void *c, char *shared, int64_t begin, int64_t end)
{
    a = (const typename mgpu_element<S.type_a>::stored *)a + begin * mgpu_sample_stride<T>(0);
    b = (const typename mgpu_element<S.type_b>::stored *)b + begin * mgpu_sample_stride<T>(1);
    c = (typename mgpu_element<S.type_c>::stored *)c + begin * mgpu_sample_stride<T>(2);
    typedef mgpu_constant_numbers<T, S> numbers;
    const mgpu_contraction_sizes<T, S> all(numbers(), end - begin);
    if constexpr (S.arithmetic == MGPU_DIRECT)
        mgpu_contract_direct<T, S, false>(a, b, c, nullptr, threadIdx.x, blockDim.x, end - begin);
    else if constexpr (S.stages == 0)
        mgpu_contract_nothing<T, S>(numbers(), all, c, 0, 1);
    else
        mgpu_contract_tiles<T, S, false>(numbers(), all, a, b, c, nullptr, shared, 0, 1);
    __syncthreads();
}
#endif
