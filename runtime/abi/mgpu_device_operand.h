/* mgpu_device_operand.h: where the elements of a contraction are (mgpu_gemm.h), and an operand's way into shared memory. Tables
 * are constants; numbers that they leave open come with the launch (mgpu_numbers.h). */
#ifndef MGPU_DEVICE_OPERAND_H
#define MGPU_DEVICE_OPERAND_H

#include "mgpu_device_warpgroup.h"

/* ---- numbers */

/* an axis of a table whose numbers the launch gives, but for the window that it moves in */
MGPU_TILES_FUNCTION mgpu_axis mgpu_parameter_axis(int window) { return {0, 0, 0, 0, window, 0}; }

/* The numbers of a contraction: constants of its table, or parameters at launch. Text is the same for both. */
template <const mgpu_contraction &T, const mgpu_tiles &S> struct mgpu_constant_numbers {
    MGPU_FUNCTION int64_t extent(int axis) { return T.axis[axis].extent; }
    MGPU_FUNCTION int64_t stride(int axis, int tensor) { return mgpu_axis_stride(&T, axis, tensor); }
    MGPU_FUNCTION int64_t bytes(int axis, int tensor, int element) { return mgpu_axis_stride(&T, axis, tensor) * element; }
    MGPU_FUNCTION int step(int axis) { return (int)T.axis[axis].step; }
    MGPU_FUNCTION int digit(int axis, int move) { return (int)mgpu_move_digit(&T, axis, mgpu_move_depth(&S, move)); }
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
    /* of a stride */
    __device__ __forceinline__ int bytes(int axis, int tensor, int element) const { return parameters.axis[axis].stride[tensor] * element; }
    __device__ __forceinline__ int step(int axis) const { return parameters.axis[axis].step; }
    __device__ __forceinline__ int digit(int axis, int move) const { return parameters.axis[axis].move[move]; }
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

/* so many times so many bytes further; as one instruction, which compilers take apart if they see it */
MGPU_FUNCTION const char *mgpu_further(const char *from, int times, int64_t bytes) { return from + times * bytes; }
MGPU_FUNCTION const char *mgpu_further(const char *from, int times, int bytes)
{
#ifdef MGPU_VGPU
    return from + (int64_t)times * bytes;
#else
    const char *to;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(times), "r"(bytes), "l"(from));
    return to;
#endif
}

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
    /* the same along K, by a constant number (MGPU_MOVE_...) whose digits are known. Nothing is divided: at most one is carried,
     * and `less` is negative, as a number without a sign huge, if none is */
    template <typename NUMBERS> __device__ __forceinline__ void go(const NUMBERS &numbers, int move)
    {
        int carried = 0;
#pragma unroll
        for (int i = COUNT - 1; i > 0; i--) {
            const int sum = digit[i] + (numbers.digit(FIRST + i, move) + (i < COUNT - 1)) + carried, less = sum - (int)numbers.extent(FIRST + i);
            digit[i] = (int)min((unsigned)sum, (unsigned)less);
            carried = less >> 31; /* one less than that */
        }
        if (COUNT > 0)
            digit[0] += (numbers.digit(FIRST, move) + (COUNT > 1)) + carried;
    }
    template <typename NUMBERS> __device__ __forceinline__ int64_t offset(const NUMBERS &numbers, int tensor) const
    {
        int64_t sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum += digit[i] * numbers.stride(FIRST + i, tensor);
        return sum;
    }
    /* in bytes, from there on */
    template <typename NUMBERS> __device__ __forceinline__ const char *from(const NUMBERS &numbers, const char *place, int tensor, int element) const
    {
#pragma unroll
        for (int i = COUNT - 1; i >= 0; i--)
            place = mgpu_further(place, digit[i], numbers.bytes(FIRST + i, tensor, element));
        return place;
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

/* where a row of C and an element of K meet (row: with the window's first): false, there is nothing but zeros; else `bytes` are
 * complete */
template <const mgpu_contraction &T, typename NUMBERS>
MGPU_FUNCTION bool mgpu_within(const NUMBERS &numbers, const int *row, const int *at_k, int64_t &bytes, int element)
{
    bool within = true;
#pragma unroll
    for (int w = 0; w < T.windows; w++) {
        const unsigned input_dilation = (unsigned)T.window[w].input_dilation;
        unsigned position = (unsigned)(row[w] + at_k[w]); /* huge if negative */
        if (input_dilation == 1) {
            within = within && position < (unsigned)numbers.window_extent(w);
        } else {
            within = within && position < (unsigned)numbers.window_extent(w) * input_dilation && position % input_dilation == 0;
            bytes += (int64_t)(position / input_dilation) * numbers.window_stride(w) * element;
        }
    }
    return within;
}

/* Of windows whose axes of K have few digits (mgpu_may_be_marked): a bit for each digit of the first one, then of the next one,
 * ... Of a row those where it is within; of an element of K its own. */
template <const mgpu_contraction &T, typename NUMBERS> MGPU_FUNCTION uint32_t mgpu_marks_of_row(const NUMBERS &numbers, const int *row)
{
    uint32_t marks = 0;
    int before = 0;
#pragma unroll
    for (int w = 0; w < T.windows; w++) {
        const int axis = mgpu_axis_in_window(&T, MGPU_LIST_K, w), digits = axis < 0 ? 1 : (int)numbers.extent(axis < 0 ? 0 : axis);
        const int from = min(max(-row[w], 0), digits), to = min(max(numbers.window_extent(w) - row[w], 0), digits);
        marks |= (to > from ? (1u << to) - (1u << from) : 0) << before;
        before += digits;
    }
    return marks;
}

template <const mgpu_contraction &T, typename NUMBERS> MGPU_FUNCTION uint32_t mgpu_marks_of_k(const NUMBERS &numbers, const int *digit)
{
    uint32_t marks = 0;
    int before = 0;
#pragma unroll
    for (int w = 0; w < T.windows; w++) {
        const int axis = mgpu_axis_in_window(&T, MGPU_LIST_K, w);
        marks |= 1u << (before + (axis < 0 ? 0 : digit[axis < 0 ? 0 : axis - mgpu_list_first(&T, MGPU_LIST_K)]));
        before += axis < 0 ? 1 : (int)numbers.extent(axis < 0 ? 0 : axis);
    }
    return marks;
}

/* a thread's place along K in the next stage, and how many elements there are from it on */
template <const mgpu_contraction &T> struct mgpu_k_place {
    mgpu_place<T, MGPU_LIST_K> place;
    int left;
};

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
    typedef mgpu_lines<BYTES, ROWS, S.depth, ALONG_K, S.arithmetic == MGPU_MMA && BYTES == 4, S.warpgroups && MGPU_HAS_WARPGROUPS> lines;
    static constexpr int CHUNK = lines::CHUNK, LINES = lines::LINES, LINE_CHUNKS = lines::LINE_CHUNKS;
    /* a chunk in pieces that can be moved at once */
    static constexpr int PIECE = TENSOR == 0 ? S.piece_a : S.piece_b;
    static constexpr int PIECES = CHUNK / PIECE;
    /* a thread's chunks: one of a line, or two of a line of rows, in every STEP-th */
    static constexpr int ACROSS = mgpu_line_threads(&S, TENSOR == 0), CHUNKS = LINE_CHUNKS / ACROSS;
    static constexpr int STEP = THREADS / ACROSS, TURNS = (LINES + STEP - 1) / STEP;
    static constexpr int ROW_SLOTS = ALONG_K ? TURNS : PIECES * CHUNKS, K_SLOTS = ALONG_K ? PIECES : TURNS;
    static_assert(THREADS % ACROSS == 0 && ACROSS > 0, "all threads have the same place in a line");
    static_assert(CHUNKS == 1 || (!ALONG_K && ACROSS % 8 == 0), "chunks that are permuted alike");
    /* rows from a thread's first slot to another one */
    MGPU_TILES_FUNCTION int rows_to(int slot) { return ALONG_K ? slot * STEP : slot / PIECES * ACROSS * CHUNK + slot % PIECES * PIECE; }

    /* one stride apart: a register for each would be too many */
    static constexpr bool EVEN = mgpu_place<T, LIST>::COUNT == 1 && ROW_SLOTS > 4;
    static constexpr bool LINEAR = TENSOR == 0 ? S.linear_a : S.linear_b; /* elements of K are one stride apart */
    static constexpr bool DIGITS = !LINEAR || WINDOWS > 0;          /* of K say where a thread is, or what is within */
    static constexpr int LAST = mgpu_list_first(&T, MGPU_LIST_K) + T.k - 1, MOVE = TENSOR == 0 ? MGPU_MOVE_A : MGPU_MOVE_B;
    static constexpr int BY = mgpu_move_depth(&S, MOVE); /* elements of K between the slots of a thread */

    const char *from;          /* of the thread's first row; LINEAR: and of its place in K */
    int64_t row[EVEN ? 1 : ROW_SLOTS]; /* bytes from the first row on */
    mgpu_shared to;            /* the thread's first chunk, of the first stage */
    static constexpr bool MARKED = TENSOR == 0 && S.marked_a;
    int position[ROW_SLOTS][WINDOWS > 0 ? WINDOWS : 1]; /* in windows, with their first; MARKED: mgpu_marks_of_row */
    unsigned rows;             /* EVEN: bits: slots whose rows there are */
    mgpu_k_place<T> at_k;

    MGPU_FUNCTION uint32_t own_line() { return threadIdx.x / ACROSS; }
    MGPU_FUNCTION uint32_t own_chunk() { return threadIdx.x % ACROSS; }

    /* A tile's rows from `first` on, of `count` in all, and K in [begin, stop). Of rows that are not there others are copied:
     * what becomes of them is not stored */
    template <typename NUMBERS>
    __device__ __forceinline__ void start(const NUMBERS &numbers, const stored *tensor, const char *stage, int64_t first, int64_t count,
                                          int64_t begin, int64_t stop)
    {
        static_assert(ROW_SLOTS <= 32, "a bit for each");
        mgpu_place<T, LIST> place;
        first += ALONG_K ? own_line() : own_chunk() * CHUNK;
        if (first >= count)
            first = ALONG_K ? count - 1 : (count - 1) / PIECE * PIECE;
        place.set(numbers, first);
        to = mgpu_kept(mgpu_shared_address(stage) + lines::at(own_line(), own_chunk()));
        const int64_t first_row = place.offset(numbers, TENSOR);
        rows = 0;
#pragma unroll
        for (int r = 0; r < ROW_SLOTS; r++) {
            if (r > 0 && (EVEN || first + rows_to(r) < count))
                place.advance(numbers, rows_to(r) - rows_to(r > 0 ? r - 1 : 0));
            if (!EVEN || r == 0)
                row[r] = (place.offset(numbers, TENSOR) - first_row) * (int)sizeof(stored);
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                position[r][w] = place.position(numbers, w) + numbers.window_first(w);
            if constexpr (MARKED)
                position[r][0] = (int)mgpu_kept(!EVEN || first + rows_to(r) < count ? mgpu_marks_of_row<T>(numbers, position[r]) : 0);
            rows |= (unsigned)(first + rows_to(r) < count) << r;
        }
        const int own = (int)(ALONG_K ? own_chunk() * CHUNK : own_line());
        at_k.left = (int)(stop - begin) - own;
        from = (const char *)(tensor + (numbers.first(TENSOR) + first_row));
        if constexpr (LINEAR)
            from += (begin + own) * bytes_of_k(numbers);
        if constexpr (DIGITS)
            at_k.place.set(numbers, begin + own);
        from = (const char *)mgpu_kept((uint64_t)from);
    }

    template <typename NUMBERS> MGPU_FUNCTION int64_t bytes_of_k(const NUMBERS &numbers)
    {
        return T.k > 0 ? numbers.bytes(LAST, TENSOR, sizeof(stored)) : 0;
    }

    /* the next stage, whose bytes of this operand are at `stage`, so many after those of the first; own: at_k, or that of an
     * operand that goes through K in the same way */
    template <typename NUMBERS> __device__ __forceinline__ void load(const NUMBERS &numbers, const mgpu_k_place<T> &own, char *stage, uint32_t bytes)
    {
        mgpu_place<T, MGPU_LIST_K> place = own.place;
#pragma unroll
        for (int t = 0; t < K_SLOTS; t++) {
            const char *const some = LINEAR ? from + t * BY * bytes_of_k(numbers) : place.from(numbers, from, TENSOR, sizeof(stored));
            const bool there = t * BY < own.left;
            int window[WINDOWS > 0 ? WINDOWS : 1];
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                window[w] = place.position(numbers, w);
            if constexpr (MARKED)
                window[0] = there ? (int)mgpu_marks_of_k<T>(numbers, place.digit) : INT32_MIN;
            else if constexpr (WINDOWS > 0)
                window[0] = there ? window[0] : INT32_MIN / 2; /* within none */
#pragma unroll
            for (int r = 0; r < ROW_SLOTS; r++) {
                const int times = ALONG_K ? r : t; /* STEP lines further */
                if (LINES % STEP != 0 && own_line() + (uint32_t)(times * STEP) >= (uint32_t)LINES)
                    continue;
                int64_t at = EVEN ? rows_to(r) * (int64_t)numbers.bytes(mgpu_place<T, LIST>::FIRST, TENSOR, sizeof(stored)) : row[EVEN ? 0 : r];
                bool valid = WINDOWS > 0 || there;
                if constexpr (EVEN)
                    valid = valid && (rows >> r & 1);
                if constexpr (MARKED)
                    valid = (~position[r][0] & window[0]) == 0;
                else if constexpr (WINDOWS > 0)
                    valid = mgpu_within<T>(numbers, position[r], window, at, sizeof(stored)) && valid;
                const stored *const source = (const stored *)(some + at);
                const int piece = ALONG_K ? t * PIECE * BYTES : (int)lines::further((uint32_t)(r / PIECES * ACROSS)) + r % PIECES * PIECE * BYTES;
                if constexpr (SAME && PIECE * BYTES >= 4 && STEP % 8 == 0) /* chunks are permuted alike 8 lines further */
                    mgpu_copy_ahead<PIECE * BYTES>(to + bytes + times * STEP * lines::LINE_BYTES + piece, source, valid);
                else
                    mgpu_copy_elements<TYPE, SAME, PIECE>(stage + lines::at(own_line() + times * STEP, own_chunk()) + piece, source, valid);
            }
            if (t + 1 < K_SLOTS && DIGITS)
                place.go(numbers, MOVE);
        }
        if constexpr (LINEAR)
            from += S.depth * bytes_of_k(numbers);
    }

    template <typename NUMBERS> __device__ __forceinline__ void go(const NUMBERS &numbers)
    {
        if (DIGITS)
            at_k.place.go(numbers, MGPU_MOVE_STAGE);
        at_k.left -= S.depth;
    }
};
#endif
