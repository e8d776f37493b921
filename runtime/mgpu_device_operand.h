/* mgpu_device_operand.h: where the elements of a product lie (mgpu_gemm.h), and an operand's way into shared memory. The
 * tables are constants, so the arithmetic of places folds to what the shapes need. */
#ifndef MGPU_DEVICE_OPERAND_H
#define MGPU_DEVICE_OPERAND_H

#include "mgpu_device_tile.h"

/* ---- places */

MGPU_TILES_FUNCTION int64_t mgpu_axis_stride(const mgpu_contraction &t, int axis, int tensor)
{
    const mgpu_axis &x = t.axis[axis];
    if (tensor == 0 && x.window > 0) /* of spread windows positions alone say where it lies */
        return t.window[x.window - 1].spread == 1 ? x.step * t.window[x.window - 1].stride : 0;
    return tensor == 0 ? x.a : tensor == 1 ? x.b : x.c;
}

/* the place of the element at all indices 0, without what spread windows add */
MGPU_TILES_FUNCTION int64_t mgpu_first_element(const mgpu_contraction &t, int tensor)
{
    int64_t first = tensor == 0 ? t.a : tensor == 1 ? t.b : 0;
    for (int w = 0; w < t.windows && tensor == 0; w++)
        if (t.window[w].spread == 1)
            first += t.window[w].first * t.window[w].stride;
    return first;
}

/* an index of one of the lists, as a digit for each of its axes; the first has no end */
template <const mgpu_contraction &T, int LIST> struct mgpu_place {
    static constexpr int FIRST = mgpu_list_first(&T, LIST), COUNT = mgpu_list_count(&T, LIST);
    int digit[COUNT > 0 ? COUNT : 1];

    __device__ __forceinline__ void set(int64_t index)
    {
#pragma unroll
        for (int i = COUNT - 1; i > 0; i--) {
            uint64_t extent = (uint64_t)T.axis[FIRST + i].extent, rest = (uint64_t)index / extent;
            digit[i] = (int)((uint64_t)index - rest * extent);
            index = (int64_t)rest;
        }
        digit[0] = (int)index;
    }
    __device__ __forceinline__ void advance(int by)
    {
#pragma unroll
        for (int i = COUNT - 1; i > 0; i--) {
            unsigned extent = (unsigned)T.axis[FIRST + i].extent, sum = (unsigned)(digit[i] + by);
            by = (int)(sum / extent);
            digit[i] = (int)(sum - (unsigned)by * extent);
        }
        digit[0] += by;
    }
    __device__ __forceinline__ int64_t offset(int tensor) const
    {
        int64_t sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            sum += digit[i] * mgpu_axis_stride(T, FIRST + i, tensor);
        return sum;
    }
    /* in a window, without its first */
    __device__ __forceinline__ int position(int window) const
    {
        int sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (T.axis[FIRST + i].window == window + 1)
                sum += digit[i] * (int)T.axis[FIRST + i].step;
        return sum;
    }
};

/* where a row of C and a term meet: false, there is nothing but zeros; else `offset` is complete */
template <const mgpu_contraction &T> MGPU_FUNCTION bool mgpu_within(const int *row, const int *term, int64_t &offset)
{
    bool within = true;
#pragma unroll
    for (int w = 0; w < T.windows; w++) {
        const unsigned spread = (unsigned)T.window[w].spread;
        unsigned position = (unsigned)(row[w] + term[w] + (int)T.window[w].first); /* huge if negative */
        if (spread == 1) {
            within = within && position < (unsigned)T.window[w].extent;
        } else {
            within = within && position < (unsigned)T.window[w].extent * spread && position % spread == 0;
            offset += (int64_t)(position / spread) * T.window[w].stride;
        }
    }
    return within;
}

/* ---- what follows each other in memory */

/* the last axis that is more than one element */
MGPU_TILES_FUNCTION int mgpu_last_axis(const mgpu_contraction &t, int list)
{
    int last = mgpu_list_first(&t, list) + mgpu_list_count(&t, list) - 1;
    while (last >= mgpu_list_first(&t, list) && t.axis[last].extent == 1)
        last--;
    return last >= mgpu_list_first(&t, list) ? last : -1;
}

/* an operand's elements follow each other along this list */
MGPU_TILES_FUNCTION bool mgpu_follow(const mgpu_contraction &t, int list, int tensor)
{
    int last = mgpu_last_axis(t, list);
    return last >= 0 && mgpu_axis_stride(t, last, tensor) == 1;
}

/* it lies in lines of terms in shared memory, else of rows */
MGPU_TILES_FUNCTION bool mgpu_lies_by_terms(const mgpu_contraction &t, int list, int tensor)
{
    return mgpu_follow(t, MGPU_LIST_K, tensor) || !mgpu_follow(t, list, tensor);
}

/* elements that can be moved at once along this list: as many as `most`, or a half of that, ...; c: the first element of C */
MGPU_TILES_FUNCTION int mgpu_together(const mgpu_contraction &t, int list, int tensor, bool aligned, int most, int64_t c)
{
    int last = mgpu_last_axis(t, list), count = most;
    if (!aligned || !mgpu_follow(t, list, tensor) || t.axis[last].extent == MGPU_SAMPLES || (tensor == 0 && t.axis[last].window > 0))
        return 1;
    for (; count > 1; count /= 2) {
        bool fits = t.axis[last].extent % count == 0 && (tensor == 2 ? c : mgpu_first_element(t, tensor)) % count == 0;
        for (int i = 0; i < t.batch + t.m + t.n + t.k; i++)
            fits = fits && (i == last || t.axis[i].extent == 1 || mgpu_axis_stride(t, i, tensor) % count == 0);
        for (int w = 0; w < t.windows && tensor == 0; w++)
            fits = fits && t.window[w].stride % count == 0;
        if (fits)
            break;
    }
    return count;
}

/* ---- an operand: rows of the tile on one side (LIST: M, then it is A; or N, B), terms on the other. Every thread copies the
 * same places of each stage. Its elements are TYPE in memory; in shared memory as well, or widened to f32. */
template <const mgpu_contraction &T, const mgpu_tiles &S, int LIST> struct mgpu_operand {
    static constexpr int TENSOR = LIST == MGPU_LIST_M ? 0 : 1, WINDOWS = TENSOR == 0 ? T.windows : 0;
    static constexpr uint8_t TYPE = TENSOR == 0 ? S.type_a : S.type_b;
    typedef typename mgpu_element<TYPE>::stored stored;
    static constexpr int BYTES = mgpu_staged_bytes(&S, TYPE);
    static constexpr bool SAME = BYTES == (int)sizeof(stored);  /* as in memory */
    static constexpr int ROWS = (LIST == MGPU_LIST_N) == S.turned ? S.rows : S.columns, THREADS = mgpu_tiles_threads(&S);
    static constexpr bool OF_TERMS = mgpu_lies_by_terms(T, LIST, TENSOR);
    typedef mgpu_lines<BYTES, ROWS, S.terms, OF_TERMS, S.arithmetic == MGPU_MMA && BYTES == 4> lines;
    static constexpr int CHUNK = lines::CHUNK, LINES = lines::LINES, LINE_CHUNKS = lines::LINE_CHUNKS;
    /* a chunk in pieces that can be moved at once */
    static constexpr int PIECE = mgpu_together(T, OF_TERMS ? MGPU_LIST_K : LIST, TENSOR, TENSOR == 0 ? S.aligned_a : S.aligned_b, CHUNK, 0);
    static constexpr int PIECES = CHUNK / PIECE;
    /* a thread's chunks: one of a line, in every STEP-th */
    static constexpr int STEP = THREADS / LINE_CHUNKS, TURNS = (LINES + STEP - 1) / STEP;
    static constexpr int ROW_SLOTS = OF_TERMS ? TURNS : PIECES, TERM_SLOTS = OF_TERMS ? PIECES : TURNS;
    static_assert(THREADS % LINE_CHUNKS == 0 && LINE_CHUNKS > 0, "all threads have the same place in a line");

    const stored *from;
    int64_t row[ROW_SLOTS];
    int position[ROW_SLOTS][WINDOWS > 0 ? WINDOWS : 1];
    unsigned rows;             /* bits: slots whose rows there are */
    mgpu_place<T, MGPU_LIST_K> term;
    int64_t next;              /* the thread's first term of the next stage, */
    int64_t end;               /* and that behind the last */

    MGPU_FUNCTION uint32_t own_line() { return threadIdx.x / LINE_CHUNKS; }
    MGPU_FUNCTION uint32_t own_chunk() { return threadIdx.x % LINE_CHUNKS; }

    /* a tile's rows from `first` on, of `count` in all, and terms [begin, stop) */
    __device__ __forceinline__ void start(const stored *tensor, int64_t first, int64_t count, int64_t begin, int64_t stop)
    {
        static_assert(ROW_SLOTS <= 32, "a bit for each");
        constexpr int by = OF_TERMS ? STEP : PIECE;
        mgpu_place<T, LIST> place;
        first += OF_TERMS ? own_line() : own_chunk() * CHUNK;
        place.set(first);
        from = tensor + mgpu_first_element(T, TENSOR);
        rows = 0;
#pragma unroll
        for (int r = 0; r < ROW_SLOTS; r++) {
            row[r] = place.offset(TENSOR);
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                position[r][w] = place.position(w);
            rows |= (unsigned)(first + r * by < count) << r;
            place.advance(by);
        }
        next = begin + (OF_TERMS ? own_chunk() * CHUNK : own_line());
        end = stop;
        term.set(next);
    }

    /* the next stage */
    __device__ __forceinline__ void load(char *stage)
    {
        mgpu_place<T, MGPU_LIST_K> place = term;
#pragma unroll
        for (int t = 0; t < TERM_SLOTS; t++) {
            constexpr int by = OF_TERMS ? PIECE : STEP;
            const int64_t offset = place.offset(TENSOR);
            const bool there = next + t * by < end;
            int window[WINDOWS > 0 ? WINDOWS : 1];
#pragma unroll
            for (int w = 0; w < WINDOWS; w++)
                window[w] = place.position(w);
#pragma unroll
            for (int r = 0; r < ROW_SLOTS; r++) {
                const uint32_t line = own_line() + (uint32_t)((OF_TERMS ? r : t) * STEP);
                const int piece = OF_TERMS ? t : r;
                if (LINES % STEP != 0 && line >= (uint32_t)LINES)
                    continue;
                int64_t at = row[r] + offset;
                bool valid = there && (rows >> r & 1);
                if constexpr (WINDOWS > 0)
                    valid = mgpu_within<T>(position[r], window, at) && valid;
                mgpu_copy_elements<TYPE, SAME, PIECE>(stage + lines::at(line, own_chunk()) + piece * PIECE * BYTES,
                     from + (valid ? at : 0), valid);
            }
            place.advance(by);
        }
        term.advance(S.terms);
        next += S.terms;
    }
};
#endif
