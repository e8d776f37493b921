/* mgpu_device_tile.h: sums of a tile, from lines of its rows and of its columns in shared memory.
 *
 * A stage of an operand in shared memory is lines of chunks of 16 bytes: a line is a row of the tile (or a column) with its
 * part of K, or an element of K with its rows, in the order of memory. Chunks of a line change places, so that threads which
 * read the same place of neighbouring lines do not wait for each other. */
#ifndef MGPU_DEVICE_TILE_H
#define MGPU_DEVICE_TILE_H

#include "mgpu_device_mma.h"

template <bool FIRST, typename A, typename B> struct mgpu_either { typedef A type; };
template <typename A, typename B> struct mgpu_either<false, A, B> { typedef B type; };

/* a kernel's blocks share what there is to do; or a block does it alone */
MGPU_FUNCTION int64_t mgpu_first_block(bool alone) { return alone ? 0 : (int64_t)blockIdx.x; }
MGPU_FUNCTION int64_t mgpu_all_blocks(bool alone) { return alone ? 1 : (int64_t)gridDim.x; }

/* the first `threads` of a block meet, the others are elsewhere */
MGPU_FUNCTION void mgpu_first_threads_meet(uint32_t threads)
{
#ifdef MGPU_VGPU
    mgpu_vgpu_barrier_sync(1, threads);
#else
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
#endif
}

/* sums of a tile that a thread has */
template <typename SUM, int DOWN, int ACROSS> MGPU_FUNCTION void mgpu_clear(SUM (&value)[DOWN][ACROSS])
{
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++)
            value[i][j] = 0;
}

/* rows of such a depth, in lines along K or along rows. IN_FOURS: of rows of 4 bytes, of which a warp reads neighbours in four
 * lines at once. IN_PARTS: a line of more than 8 chunks is cut: first come the first 8 of all lines, then the next 8 */
template <int ELEMENT_BYTES, int COUNT, int OF_EACH, bool BY_K, bool IN_FOURS, bool IN_PARTS = false> struct mgpu_lines {
    static constexpr int ROWS = COUNT, DEPTH = OF_EACH;
    static constexpr bool ALONG_K = BY_K;
    static constexpr int CHUNK = MGPU_CHUNK_BYTES / ELEMENT_BYTES, LINES = ALONG_K ? ROWS : DEPTH;
    static constexpr int LINE_CHUNKS = (ALONG_K ? DEPTH : ROWS) / CHUNK, BYTES = LINES * LINE_CHUNKS * MGPU_CHUNK_BYTES;
    static_assert(LINE_CHUNKS > 0, "at least a chunk");
    /* from a line to the next, and from a part to the next (else of no meaning) */
    static constexpr bool CUT = IN_PARTS && LINE_CHUNKS > 8;
    static constexpr int LINE_BYTES = (CUT ? 8 : LINE_CHUNKS) * MGPU_CHUNK_BYTES, PART_BYTES = CUT ? LINES * LINE_BYTES : MGPU_CHUNK_BYTES;

    /* bytes from a chunk of a line to another one, 8 or a multiple of it further; or less, where chunks are not permuted */
    MGPU_TILES_FUNCTION uint32_t further(uint32_t chunks) { return CUT ? chunks / 8 * PART_BYTES : chunks * MGPU_CHUNK_BYTES; }

    /* the chunks that a warp with so many rows reads are told apart by bits of an address below the alignment of shared memory */
    MGPU_TILES_FUNCTION bool fits(int own)
    {
        return (ALONG_K ? LINE_CHUNKS : own / CHUNK) * MGPU_CHUNK_BYTES <= MGPU_SHARED_ALIGNMENT && BYTES % MGPU_SHARED_ALIGNMENT == 0;
    }

    /* byte of a chunk of a line */
    MGPU_FUNCTION uint32_t at(uint32_t line, uint32_t chunk)
    {
        constexpr uint32_t some = LINE_CHUNKS < 8 ? LINE_CHUNKS : 8; /* 8 chunks are as much as shared memory gives at once */
        uint32_t turn = IN_FOURS && !ALONG_K && some == 8 ? 2 * line : line / (8 / some);
        const uint32_t place = chunk ^ (turn & (some - 1));
        return CUT ? place / 8 * PART_BYTES + line * LINE_BYTES + place % 8 * MGPU_CHUNK_BYTES : (line * LINE_CHUNKS + place) * MGPU_CHUNK_BYTES;
    }
};

/* elements to shared memory, ahead if that can be; zeros if they are not valid. SAME: as they are, else widened to f32 */
template <int TYPE, bool SAME, int TOGETHER>
MGPU_FUNCTION void mgpu_copy_elements(char *to, const typename mgpu_element<TYPE>::stored *from, bool valid)
{
    constexpr int bytes = TOGETHER * (int)sizeof(*from);
    if constexpr (SAME && bytes >= 4) {
        mgpu_copy_ahead<bytes>(mgpu_shared_address(to), from, valid);
    } else {
        typedef typename mgpu_element<SAME ? TYPE : MGPU_F32>::stored staged;
        staged value[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            if constexpr (SAME)
                value[i] = valid ? from[i] : (staged)0;
            else
                value[i] = valid ? mgpu_element<TYPE>::widen(from[i]) : (staged)0;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            ((staged *)to)[i] = value[i];
    }
}

/* some neighbours at once; the address is a multiple of their size */
template <int TYPE, int TOGETHER, typename SUM> MGPU_FUNCTION void mgpu_store_together(typename mgpu_element<TYPE>::stored *to, const SUM *value)
{
    if constexpr ((TYPE == MGPU_BF16 || TYPE == MGPU_F16) && TOGETHER > 1) {
        mgpu_vector<uint32_t, TOGETHER / 2> own;
#pragma unroll
        for (int e = 0; e < TOGETHER; e += 2)
            own.at[e / 2] = mgpu_narrow_pair<TYPE>((float)value[e], (float)value[e + 1]);
        *(mgpu_vector<uint32_t, TOGETHER / 2> *)to = own;
    } else {
        mgpu_vector<typename mgpu_element<TYPE>::stored, TOGETHER> own;
#pragma unroll
        for (int e = 0; e < TOGETHER; e++)
            own.at[e] = mgpu_element<TYPE>::narrow(value[e]);
        *(mgpu_vector<typename mgpu_element<TYPE>::stored, TOGETHER> *)to = own;
    }
}

/* ---- by multiplications of numbers: a thread has DOWN rows and ACROSS columns. The lanes of a warp are 4 x 8 or
 * so of all threads, and neighbours read neighbouring lines along K, or neighbouring chunks of lines of rows. */

template <bool ALONG_K, int THREADS, int CHUNK> MGPU_FUNCTION int mgpu_own_index(uint32_t thread, int i)
{
    return ALONG_K ? (int)thread + i * THREADS : (i / CHUNK * THREADS + (int)thread) * CHUNK + i % CHUNK;
}

template <typename SUM, typename ROWS, typename COLUMNS, int THREADS_DOWN, int THREADS_ACROSS> struct mgpu_fma_tile {
    typedef SUM sum;
    static constexpr int CHUNK = MGPU_CHUNK_BYTES / (int)sizeof(sum), SOME = 2; /* of K at once */
    static constexpr int DOWN = ROWS::ROWS / THREADS_DOWN, ACROSS = COLUMNS::ROWS / THREADS_ACROSS;
    static constexpr int RUN = COLUMNS::ALONG_K ? 1 : CHUNK;          /* columns of a thread that follow each other */
    static constexpr int LANES = THREADS_ACROSS < 8 ? THREADS_ACROSS : 8; /* across */
    static constexpr int UNROLL = DOWN * ACROSS > 32 ? 1 : 4;          /* more than registers are good for */
    static_assert(ROWS::DEPTH == COLUMNS::DEPTH && ROWS::DEPTH % CHUNK == 0, "whole chunks along K");
    static_assert(THREADS_ACROSS % LANES == 0 && THREADS_DOWN % (32 / LANES) == 0, "whole warps");
    static_assert((ROWS::ALONG_K || DOWN % CHUNK == 0) && (COLUMNS::ALONG_K || ACROSS % CHUNK == 0), "whole chunks");
    sum value[DOWN][ACROSS];

    MGPU_FUNCTION uint32_t down_thread(void)
    {
        return threadIdx.x / 32 / (THREADS_ACROSS / LANES) * (32 / LANES) + threadIdx.x % 32 / LANES;
    }
    MGPU_FUNCTION uint32_t across_thread(void)
    {
        return threadIdx.x / 32 % (THREADS_ACROSS / LANES) * LANES + threadIdx.x % LANES;
    }
    MGPU_FUNCTION int row(int i) { return mgpu_own_index<ROWS::ALONG_K, THREADS_DOWN, CHUNK>(down_thread(), i); }
    MGPU_FUNCTION int column(int j) { return mgpu_own_index<COLUMNS::ALONG_K, THREADS_ACROSS, CHUNK>(across_thread(), j); }

    /* COUNT rows or columns at some of K: [.., SOME] */
    template <typename LINES, int THREADS, int COUNT>
    MGPU_FUNCTION void fetch(sum to[COUNT][SOME], const char *stage, uint32_t thread, int at_k)
    {
        if (LINES::ALONG_K) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const uint32_t at = LINES::at(thread + i * THREADS, at_k / CHUNK);
                const auto own = *(const mgpu_vector<sum, SOME> *)(stage + at + at_k % CHUNK * sizeof(sum));
#pragma unroll
                for (int k = 0; k < SOME; k++)
                    to[i][k] = own.at[k];
            }
        } else {
#pragma unroll
            for (int k = 0; k < SOME; k++)
#pragma unroll
                for (int i = 0; i < COUNT; i += CHUNK) {
                    const uint32_t at = LINES::at(at_k + k, i / CHUNK * THREADS + thread);
                    const auto own = *(const mgpu_vector<sum, CHUNK> *)(stage + at);
#pragma unroll
                    for (int e = 0; e < CHUNK; e++)
                        to[i + e][k] = own.at[e];
                }
        }
    }

    struct sources {
        const char *down, *across;
        MGPU_FUNCTION sources of(const char *down, const char *across) { return {down, across}; }
        MGPU_FUNCTION sources kept(const sources &s) { return s; }
    };
    static constexpr bool ASYNC = false;
    __device__ __forceinline__ void start(const sources &, uint32_t) {}
    __device__ __forceinline__ void multiply(const sources &from, uint32_t bytes) { multiply(from.down + bytes, from.across + bytes); }

    __device__ __forceinline__ void multiply(const char *down, const char *across)
    {
#pragma unroll UNROLL
        for (int at_k = 0; at_k < ROWS::DEPTH; at_k += SOME) {
            sum x[DOWN][SOME], y[ACROSS][SOME];
            fetch<ROWS, THREADS_DOWN, DOWN>(x, down, down_thread(), at_k);
            fetch<COLUMNS, THREADS_ACROSS, ACROSS>(y, across, across_thread(), at_k);
#pragma unroll
            for (int k = 0; k < SOME; k++)
#pragma unroll
                for (int i = 0; i < DOWN; i++)
#pragma unroll
                    for (int j = 0; j < ACROSS; j++)
                        value[i][j] = fma(x[i][k], y[j][k], value[i][j]);
        }
    }
};

/* ---- by matrix instructions: a warp has OWN_ROWS x OWN_COLUMNS, in matrices of 16 x 8. PAIRED: operands of rows are sums of
 * another tile, of which a lane has columns 2 t and 2 t + 1; so these are its t and t + 4 along K, of columns, too (f32: K may be
 * in any order) */

template <int TYPE, typename ROWS, typename COLUMNS, int DOWN_WARPS, int WARPS_ACROSS, bool PAIRED = false> struct mgpu_mma_tile {
    typedef float sum;
    static constexpr int WARPS_DOWN = DOWN_WARPS, OWN_ROWS = ROWS::ROWS / WARPS_DOWN, OWN_COLUMNS = COLUMNS::ROWS / WARPS_ACROSS;
    static constexpr int DOWN = OWN_ROWS / 8, ACROSS = OWN_COLUMNS / 4, RUN = 2, LANES = 4;
    static constexpr int DEPTH = TYPE == MGPU_F32 ? 8 : 16, CHUNK = DEPTH / 2; /* of an instruction */
    static_assert(OWN_ROWS % 16 == 0 && OWN_COLUMNS % 16 == 0 && COLUMNS::DEPTH % DEPTH == 0, "whole matrices");
    static_assert(ROWS::fits(OWN_ROWS) && COLUMNS::fits(OWN_COLUMNS), "numbers of chunks are bits below the alignment of a stage");
    sum value[DOWN][ACROSS];

    MGPU_FUNCTION uint32_t warp_down(void) { return threadIdx.x / 32 / WARPS_ACROSS; }
    MGPU_FUNCTION uint32_t first_row() { return warp_down() * OWN_ROWS; }
    MGPU_FUNCTION uint32_t first_column() { return threadIdx.x / 32 % WARPS_ACROSS * OWN_COLUMNS; }
    MGPU_FUNCTION int row(int i) { return (int)(first_row() + threadIdx.x % 32 / 4) + 8 * i; }
    MGPU_FUNCTION int column(int j) { return (int)(first_column() + 2 * (threadIdx.x % 4)) + j / 2 * 8 + j % 2; }

    /* Matrices of 8 rows and half of an instruction's depth are fetched four at a time, as operands take them: of rows (rows 0, k
     * 0), (8, 0), (0, half), (8, half); of columns (0, 0), (0, half), (8, 0), (8, half). The byte in a stage where this lane's
     * part of the first four is. Those of others follow by constants: some lines further chunks are permuted alike, and bits that
     * tell chunks apart are none of those that tell lanes. */
    template <typename LINES, bool COLUMN> MGPU_FUNCTION uint32_t own_byte(uint32_t first)
    {
        const uint32_t lane = threadIdx.x % 32, eight = lane / 8 % 2, sixteen = lane / 16, row = COLUMN ? sixteen : eight, half = COLUMN ? eight : sixteen;
        if (LINES::ALONG_K)
            return LINES::at(first + lane % 8 + row * 8, half);
        if (TYPE != MGPU_F32)
            return LINES::at(lane % 8 + half * 8, first / 8 + row);
        return LINES::at(lane % 4 * (PAIRED ? 2 : 1), first / 4 + sixteen) + lane / 4 % 4 * 4;
    }

    /* the four of rows from 16 i on, at_k along K; own: the address of own_byte */
    template <typename LINES, bool COLUMN> MGPU_FUNCTION void fetch(uint32_t matrix[4], mgpu_shared own, int i, int at_k)
    {
        constexpr int line = LINES::LINE_CHUNKS * MGPU_CHUNK_BYTES;
        if constexpr (LINES::ALONG_K) {
            mgpu_load_matrices<false>(matrix, (own ^ (mgpu_shared)(at_k / CHUNK * MGPU_CHUNK_BYTES)) + 16 * i * line);
        } else if constexpr (TYPE != MGPU_F32) {
            mgpu_load_matrices<true>(matrix, (own ^ (mgpu_shared)(2 * i * MGPU_CHUNK_BYTES)) + at_k * line);
        } else {
            /* chunks are permuted otherwise 1 or 4 lines further */
            constexpr int other = PAIRED ? LINES::LINE_CHUNKS >= 8 : LINES::LINE_CHUNKS < 8 ? LINES::LINE_CHUNKS / 2 : 0;
#pragma unroll
            for (int m = 0; m < 4; m++) {
                const int row = COLUMN ? m / 2 : m % 2, half = COLUMN ? m % 2 : m / 2;
                matrix[m] = mgpu_load_shared((own ^ (mgpu_shared)(((4 * i + 2 * row) ^ half * other) * MGPU_CHUNK_BYTES)) + (at_k + (PAIRED ? 1 : 4) * half) * line);
            }
        }
        if constexpr (TYPE == MGPU_F32) {
#pragma unroll
            for (int m = 0; m < 4; m++)
                matrix[m] = mgpu_to_tf32(matrix[m]);
        }
    }

    /* where a warp's lanes read a stage */
    struct sources {
        mgpu_shared down, across;
        MGPU_FUNCTION sources of(const char *down, const char *across)
        {
            return {mgpu_shared_address(down) + own_byte<ROWS, false>(first_row()), mgpu_shared_address(across) + own_byte<COLUMNS, true>(first_column())};
        }
        MGPU_FUNCTION sources kept(const sources &s) { return {mgpu_kept(s.down), mgpu_kept(s.across)}; }
    };

    /* x: the rows' matrices at `at_k` */
    __device__ __forceinline__ void multiply_step(const uint32_t x[OWN_ROWS / 16][4], mgpu_shared across, int at_k)
    {
        uint32_t y[OWN_COLUMNS / 16][4];
#pragma unroll
        for (int j = 0; j < OWN_COLUMNS / 16; j++)
            fetch<COLUMNS, true>(y[j], across, j, at_k);
#pragma unroll
        for (int i = 0; i < OWN_ROWS / 16; i++)
#pragma unroll
            for (int j = 0; j < OWN_COLUMNS / 8; j++) {
                const uint32_t own[2] = {y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]};
                float c[4] = {value[2 * i][2 * j], value[2 * i][2 * j + 1], value[2 * i + 1][2 * j], value[2 * i + 1][2 * j + 1]};
                mgpu_multiply_matrices<TYPE>(c, x[i], own);
                value[2 * i][2 * j] = c[0];
                value[2 * i][2 * j + 1] = c[1];
                value[2 * i + 1][2 * j] = c[2];
                value[2 * i + 1][2 * j + 1] = c[3];
            }
    }

    __device__ __forceinline__ void multiply_step(const uint32_t x[OWN_ROWS / 16][4], const char *across, int at_k)
    {
        multiply_step(x, mgpu_shared_address(across) + own_byte<COLUMNS, true>(first_column()), at_k);
    }

    static constexpr bool ASYNC = false; /* it multiplies when it is asked to */
    __device__ __forceinline__ void start(const sources &, uint32_t) {}
    __device__ __forceinline__ void multiply(const sources &from, uint32_t bytes)
    {
#pragma unroll
        for (int at_k = 0; at_k < COLUMNS::DEPTH; at_k += DEPTH) {
            uint32_t x[OWN_ROWS / 16][4];
#pragma unroll
            for (int i = 0; i < OWN_ROWS / 16; i++)
                fetch<ROWS, false>(x[i], from.down + bytes, i, at_k);
            multiply_step(x, from.across + bytes, at_k);
        }
    }
    __device__ __forceinline__ void multiply(const char *down, const char *across) { multiply(sources::of(down, across), 0); }
};
#endif
