/* mgpu_device_operand.h: where the elements of a contraction are (mgpu_gemm.h), and an operand's way into shared memory. Tables
 * are constants; numbers that they leave open come with the launch (mgpu_numbers.h). */
#ifndef MGPU_DEVICE_OPERAND_H
#define MGPU_DEVICE_OPERAND_H

#include "mgpu_device_tile.h"

/* ---- numbers */

/* an axis of a table whose numbers the launch gives, but for the window that it moves in */
MGPU_TILES_FUNCTION mgpu_axis mgpu_parameter_axis(int window) { return {0, 0, 0, 0, window, 0}; }

/* The numbers of a contraction: constants of its table, or parameters at launch. Text is the same for both. */
template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_constant_numbers {
    MGPU_FUNCTION int64_t extent(int axis) { return T.axis[axis].extent; }
    MGPU_FUNCTION int64_t stride(int axis, int tensor) { return mgpu_axis_stride(&T, axis, tensor); }
    MGPU_FUNCTION int step(int axis) { return (int)T.axis[axis].step; }
    MGPU_FUNCTION uint64_t divide(int axis, uint64_t index) { return index / (uint64_t)T.axis[axis].extent; }
    MGPU_FUNCTION unsigned divide(int axis, unsigned index) { return index / (unsigned)T.axis[axis].extent; }
    MGPU_FUNCTION int window_extent(int window) { return (int)T.window[window].extent; }
    MGPU_FUNCTION int window_first(int window) { return (int)T.window[window].first; }
    MGPU_FUNCTION int64_t window_stride(int window) { return T.window[window].stride; }
    MGPU_FUNCTION int64_t first(int tensor) { return tensor == 2 ? S.c : mgpu_first_element(&T, tensor); }
};

/* of the parts of a contraction */
template <int COUNT> struct mgpu_number_list { mgpu_numbers of[COUNT]; };

struct mgpu_parameter_numbers {
    const mgpu_numbers &parameters;
    __device__ __forceinline__ int64_t extent(int axis) const { return parameters.axis[axis].extent; }
    __device__ __forceinline__ int64_t stride(int axis, int tensor) const { return parameters.axis[axis].stride[tensor]; }
    __device__ __forceinline__ int step(int axis) const { return parameters.axis[axis].step; }
    __device__ __forceinline__ uint64_t divide(int axis, uint64_t index) const
    {
        return __umul64hi(2 * index, parameters.axis[axis].inverse_64) >> parameters.axis[axis].shift;
    }
    __device__ __forceinline__ unsigned divide(int axis, unsigned index) const
    {
        return __umulhi(2 * index, parameters.axis[axis].inverse) >> parameters.axis[axis].shift;
    }
    __device__ __forceinline__ int window_extent(int window) const { return parameters.window[window].extent; }
    __device__ __forceinline__ int window_first(int window) const { return parameters.window[window].first; }
    __device__ __forceinline__ int64_t window_stride(int window) const { return parameters.window[window].stride; }
    __device__ __forceinline__ int64_t first(int tensor) const { return parameters.first[tensor]; }
};

template <const mgpu_contraction &T, typename NUMBERS> MGPU_FUNCTION int64_t mgpu_numbered_extent(const NUMBERS &numbers, int list, int64_t n)
{
    int64_t all = 1;
#pragma unroll
    for (int i = mgpu_list_first(&T, list); i < mgpu_list_first(&T, list) + mgpu_list_count(&T, list); i++)
        all *= numbers.extent(i) == MGPU_SAMPLES ? n : numbers.extent(i);
    return all;
}

/* ---- places */

/* an index of one of the lists, as a digit for each of its axes; the first has no end */
template <const mgpu_contraction &T, int LIST> struct mgpu_place {
    static constexpr int FIRST = mgpu_list_first(&T, LIST), COUNT = mgpu_list_count(&T, LIST);
    int digit[COUNT > 0 ? COUNT : 1];

    template <typename NUMBERS> __device__ __forceinline__ void set(const NUMBERS &numbers, int64_t index)
    {
#pragma unroll
        for (int i = COUNT - 1; i > 0; i--) {
            const uint64_t rest = numbers.divide(FIRST + i, (uint64_t)index);
            digit[i] = (int)((unsigned)index - (unsigned)rest * (unsigned)numbers.extent(FIRST + i));
            index = (int64_t)rest;
        }
        digit[0] = (int)index;
    }
    template <typename NUMBERS> __device__ __forceinline__ void advance(const NUMBERS &numbers, int by)
    {
#pragma unroll
        for (int i = COUNT - 1; i > 0; i--) {
            const unsigned sum = (unsigned)(digit[i] + by);
            by = (int)numbers.divide(FIRST + i, sum);
            digit[i] = (int)(sum - (unsigned)by * (unsigned)numbers.extent(FIRST + i));
        }
        digit[0] += by;
    }
    template <typename NUMBERS> __device__ __forceinline__ int64_t offset(const NUMBERS &numbers, int tensor) const
    {
        int64_t sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum += digit[i] * numbers.stride(FIRST + i, tensor);
        return sum;
    }
    /* in a window, without its first */
    template <typename NUMBERS> __device__ __forceinline__ int position(const NUMBERS &numbers, int window) const
    {
        int sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (T.axis[FIRST + i].window == window + 1)
                sum += digit[i] * numbers.step(FIRST + i);
        return sum;
    }
};

/* where a row of C and an element of K meet: false, there is nothing but zeros; else `offset` is complete */
template <const mgpu_contraction &T, typename NUMBERS>
MGPU_FUNCTION bool mgpu_within(const NUMBERS &numbers, const int *row, const int *at_k, int64_t &offset)
{
    bool within = true;
#pragma unroll
    for (int w = 0; w < T.windows; w++) {
        const unsigned input_dilation = (unsigned)T.window[w].input_dilation;
        unsigned position = (unsigned)(row[w] + at_k[w] + numbers.window_first(w)); /* huge if negative */
        if (input_dilation == 1) {
            within = within && position < (unsigned)numbers.window_extent(w);
        } else {
            within = within && position < (unsigned)numbers.window_extent(w) * input_dilation && position % input_dilation == 0;
            offset += (int64_t)(position / input_dilation) * numbers.window_stride(w);
        }
    }
    return within;
}

/* ---- an operand: rows of the tile on one side (LIST: M, then it is A; or N, B), K on the other. Every thread copies the
 * same places of each stage. Its elements are TYPE in memory; in shared memory as well, or widened to f32. */
template <const mgpu_contraction &T, const mgpu_tiles &S, int LIST> struct mgpu_operand {
    static constexpr int TENSOR = LIST == MGPU_LIST_M ? 0 : 1, WINDOWS = TENSOR == 0 ? T.windows : 0;
    static constexpr uint8_t TYPE = TENSOR == 0 ? S.type_a : S.type_b;
    typedef typename mgpu_element<TYPE>::stored stored;
    static constexpr int BYTES = mgpu_staged_bytes(&S, TYPE);
    static constexpr bool SAME = BYTES == (int)sizeof(stored);  /* as in memory */
    static constexpr int ROWS = (LIST == MGPU_LIST_N) == S.transposed ? S.rows : S.columns, THREADS = mgpu_tiles_threads(&S);
    static constexpr bool ALONG_K = TENSOR == 0 ? S.along_k_a : S.along_k_b;
    typedef mgpu_lines<BYTES, ROWS, S.depth, ALONG_K, S.arithmetic == MGPU_MMA && BYTES == 4> lines;
    static constexpr int CHUNK = lines::CHUNK, LINES = lines::LINES, LINE_CHUNKS = lines::LINE_CHUNKS;
    /* a chunk in pieces that can be moved at once */
    static constexpr int PIECE = TENSOR == 0 ? S.piece_a : S.piece_b;
    static constexpr int PIECES = CHUNK / PIECE;
    /* a thread's chunks: one of a line, in every STEP-th */
    static constexpr int STEP = THREADS / LINE_CHUNKS, TURNS = (LINES + STEP - 1) / STEP;
    static constexpr int ROW_SLOTS = ALONG_K ? TURNS : PIECES, K_SLOTS = ALONG_K ? PIECES : TURNS;
    static_assert(THREADS % LINE_CHUNKS == 0 && LINE_CHUNKS > 0, "all threads have the same place in a line");

    const stored *from;
    static constexpr bool EVEN = mgpu_place<T, LIST>::COUNT == 1 && ROW_SLOTS > 4; /* one stride apart: registers for the first alone */
    int64_t row[EVEN ? 1 : ROW_SLOTS];
    int position[ROW_SLOTS][WINDOWS > 0 ? WINDOWS : 1];
    unsigned rows;             /* bits: slots whose rows there are */
    mgpu_place<T, MGPU_LIST_K> at_k;
    int left;                  /* elements of K from the thread's first of the next stage on */

    MGPU_FUNCTION uint32_t own_line() { return threadIdx.x / LINE_CHUNKS; }
    MGPU_FUNCTION uint32_t own_chunk() { return threadIdx.x % LINE_CHUNKS; }

    /* a tile's rows from `first` on, of `count` in all, and K in [begin, stop) */
    template <typename NUMBERS>
    __device__ __forceinline__ void start(const NUMBERS &numbers, const stored *tensor, int64_t first, int64_t count, int64_t begin, int64_t stop)
    {
        static_assert(ROW_SLOTS <= 32, "a bit for each");
        constexpr int by = ALONG_K ? STEP : PIECE;
        mgpu_place<T, LIST> place;
        first += ALONG_K ? own_line() : own_chunk() * CHUNK;
        place.set(numbers, first);
        from = tensor + numbers.first(TENSOR);
        rows = 0;
#pragma unroll
        for (int r = 0; r < ROW_SLOTS; r++) {
            if (!EVEN || r == 0)
                row[r] = place.offset(numbers, TENSOR);
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                position[r][w] = place.position(numbers, w);
            rows |= (unsigned)(first + r * by < count) << r;
            place.advance(numbers, by);
        }
        const int own = (int)(ALONG_K ? own_chunk() * CHUNK : own_line());
        left = (int)(stop - begin) - own;
        at_k.set(numbers, begin + own);
    }

    /* the next stage */
    template <typename NUMBERS> __device__ __forceinline__ void load(const NUMBERS &numbers, char *stage)
    {
        mgpu_place<T, MGPU_LIST_K> place = at_k;
#pragma unroll
        for (int t = 0; t < K_SLOTS; t++) {
            constexpr int by = ALONG_K ? PIECE : STEP;
            const int64_t offset = place.offset(numbers, TENSOR);
            const bool there = t * by < left;
            int window[WINDOWS > 0 ? WINDOWS : 1];
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                window[w] = place.position(numbers, w);
#pragma unroll
            for (int r = 0; r < ROW_SLOTS; r++) {
                const uint32_t line = own_line() + (uint32_t)((ALONG_K ? r : t) * STEP);
                const int piece = ALONG_K ? t : r;
                if (LINES % STEP != 0 && line >= (uint32_t)LINES)
                    continue;
                int64_t at = row[EVEN ? 0 : r] + offset;
                if constexpr (EVEN)
                    at += r * (ALONG_K ? STEP : PIECE) * numbers.stride(mgpu_place<T, LIST>::FIRST, TENSOR);
                bool valid = there && (rows >> r & 1);
                if constexpr (WINDOWS > 0)
                    valid = mgpu_within<T>(numbers, position[r], window, at) && valid;
                mgpu_copy_elements<TYPE, SAME, PIECE>(stage + lines::at(line, own_chunk()) + piece * PIECE * BYTES,
                     from + (valid ? at : 0), valid);
            }
            place.advance(numbers, by);
        }
        at_k.advance(numbers, S.depth);
        left -= S.depth;
    }
};
#endif
