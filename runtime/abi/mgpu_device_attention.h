/* mgpu_device_attention.h: attention of mgpu_attention.h on a GPU: y = softmax(scale q k' + mask) v for each head, and its
 * gradients, without a matrix of scores in memory.
 *
 * After Dao, "FlashAttention-2" (2023): a block has some queries and goes through the keys that they see; maximum and sum of a
 * row change as it goes, and what has been added up is scaled to the new maximum. It keeps the maximum and the logarithm of each
 * row's sum from there, from which the gradient computes the scores' shares again. One function takes blocks of queries: dq, and
 * for each query its sums to base 2 and y . g, which is sum p (g v'), side by side for the other one. That takes blocks of keys,
 * and queries one after the other: dk, dv. So nothing is added by two blocks. */
#ifndef MGPU_DEVICE_ATTENTION_H
#define MGPU_DEVICE_ATTENTION_H

#include "mgpu_device_warpgroup.h"

/* ---- operands and results: rows of a head */

enum { MGPU_ATTEND_Q, MGPU_ATTEND_K, MGPU_ATTEND_V, MGPU_ATTEND_G, MGPU_ATTEND_Y, MGPU_ATTEND_DQ, MGPU_ATTEND_DK, MGPU_ATTEND_DV };

MGPU_TILES_FUNCTION mgpu_attention_operand mgpu_attended(const mgpu_attention &t, int which)
{
    return which == MGPU_ATTEND_Q ? t.q : which == MGPU_ATTEND_K ? t.k : which == MGPU_ATTEND_V ? t.v : which == MGPU_ATTEND_G ? t.g
         : which == MGPU_ATTEND_Y ? t.y : which == MGPU_ATTEND_DQ ? t.dq : which == MGPU_ATTEND_DK ? t.dk : t.dv;
}

MGPU_TILES_FUNCTION int mgpu_attended_type(const mgpu_attention_tiles &s, int which)
{
    return which == MGPU_ATTEND_Q ? s.q : which == MGPU_ATTEND_K ? s.k : which == MGPU_ATTEND_V ? s.v : which == MGPU_ATTEND_G ? s.g
         : which == MGPU_ATTEND_Y ? s.y : which == MGPU_ATTEND_DQ ? s.dq : which == MGPU_ATTEND_DK ? s.dk : s.dv;
}

/* Operands of matrix instructions that have 32 bits take twice the registers of others, so that few are left for addresses. */
MGPU_FUNCTION constexpr bool mgpu_attention_is_tight(const mgpu_attention_tiles &s) { return s.arithmetic == MGPU_MMA && s.q == MGPU_F32; }

/* The same number. If registers are few, the compiler does not know that it is the same in each iteration of a loop: addresses
 * that follow from it are computed there, rather than kept in registers. */
template <bool TIGHT, typename NUMBER> MGPU_FUNCTION NUMBER mgpu_anew(NUMBER number)
{
#ifndef MGPU_VGPU
    if constexpr (TIGHT)
        asm volatile("" : "+r"(number));
#endif
    return number;
}

template <const mgpu_attention &T, const mgpu_attention_tiles &S, int WHICH> struct mgpu_attended_rows {
    static constexpr mgpu_attention_operand O = mgpu_attended(T, WHICH);
    static constexpr int TYPE = mgpu_attended_type(S, WHICH);
    static constexpr bool QUERIES = WHICH == MGPU_ATTEND_Q || WHICH == MGPU_ATTEND_G || WHICH == MGPU_ATTEND_Y || WHICH == MGPU_ATTEND_DQ;
    static constexpr bool KEYS = WHICH == MGPU_ATTEND_Q || WHICH == MGPU_ATTEND_K || WHICH == MGPU_ATTEND_DQ || WHICH == MGPU_ATTEND_DK;
    static constexpr int64_t COUNT = QUERIES ? T.queries : T.keys, ELEMENTS = KEYS ? T.d : T.e;
    typedef typename mgpu_element<TYPE>::stored stored;
    stored *first; /* of the head */

    /* elements that are moved at once, at most */
    static constexpr int together(int most)
    {
        while (most > 1 && !(S.aligned && ELEMENTS % most == 0 && O.first % most == 0 && O.sample % most == 0 && O.row % most == 0 && O.head % most == 0))
            most /= 2;
        return most;
    }
    __device__ __forceinline__ void set_own(const void *tensor, int64_t sample, int64_t head)
    {
        first = (stored *)tensor + (O.first + sample * O.sample + head * O.head);
    }
    /* a head of the queries: keys and values have one for a group of them */
    __device__ __forceinline__ void set(const void *tensor, int64_t sample, int64_t head)
    {
        set_own(tensor, sample, QUERIES ? head : head / (T.heads / T.groups));
    }

    /* part `part` of rows from `row` on to lines in shared memory; what is not there is zeros */
    template <typename LINES, bool SAME, typename PLACE> __device__ __forceinline__ void load(char *to, PLACE row, int part) const
    {
        constexpr int CHUNK = LINES::CHUNK, PIECE = together(CHUNK), THREADS = mgpu_attention_threads(&S);
        constexpr bool TIGHT = mgpu_attention_is_tight(S);
        constexpr int ALL = LINES::LINES * LINES::LINE_CHUNKS, UNROLL = PIECE == CHUNK && ALL <= 8 * THREADS && (S.resident || !TIGHT) ? 8 : 2;
        const int lines = (int)min((PLACE)COUNT - row, (PLACE)LINES::LINES); /* that there are */
        static_assert(THREADS % LINES::LINE_CHUNKS == 0, "a thread has the same chunk of lines");
        const unsigned thread = mgpu_anew<TIGHT>(threadIdx.x);
        const int own_line = (int)(thread / LINES::LINE_CHUNKS), chunk = (int)(thread % LINES::LINE_CHUNKS);
        const int element = part * S.part + chunk * CHUNK;
        const stored *const from = first + (int64_t)(row + own_line) * O.row + element;
#pragma unroll UNROLL
        for (int before = 0; before < ALL; before += THREADS) {
            const int further = before / LINES::LINE_CHUNKS, line = own_line + further;
            if (ALL % THREADS && line >= LINES::LINES)
                break;
#pragma unroll
            for (int p = 0; p < CHUNK; p += PIECE)
                mgpu_copy_elements<TYPE, SAME, PIECE>(to + LINES::at((uint32_t)line, (uint32_t)chunk) + p * (MGPU_CHUNK_BYTES / CHUNK), from + further * O.row + p,
                                                      line < lines && element + p < ELEMENTS);
        }
    }

    /* this thread's share of the products with `other`'s elements in a row, if `lanes` threads share them */
    template <typename OTHER> __device__ __forceinline__ auto multiply_row(const OTHER &other, int64_t row, int lane, int lanes) const
    {
        constexpr int most = 16 / (int)sizeof(stored), own = together(most), its = OTHER::together(most), PIECE = own < its ? own : its;
        typedef typename OTHER::stored other_stored;
        typename mgpu_element<T.type>::sum sum = 0;
        const stored *a = first + row * O.row;
        const other_stored *b = other.first + row * OTHER::O.row;
        for (int at = lane * PIECE; at < ELEMENTS; at += lanes * PIECE) {
            const auto x = *(const mgpu_vector<stored, PIECE> *)(a + at);
            const auto y = *(const mgpu_vector<other_stored, PIECE> *)(b + at);
#pragma unroll
            for (int e = 0; e < PIECE; e++)
                sum += mgpu_element<TYPE>::widen(x.at[e]) * mgpu_element<OTHER::TYPE>::widen(y.at[e]);
        }
        return sum;
    }

    /* a part of the rows from `row` on, each multiplied by its factor */
    template <typename TILE, typename SUM> __device__ __forceinline__ void store(const TILE &tile, int64_t row, int part, const SUM factor[TILE::DOWN]) const
    {
        constexpr int most = 16 / (int)sizeof(stored) < TILE::RUN ? 16 / (int)sizeof(stored) : TILE::RUN, PIECE = together(most);
#pragma unroll
        for (int i = 0; i < TILE::DOWN; i++) {
            stored *to = first + (row + TILE::row(i)) * O.row + part * S.part;
            if (row + TILE::row(i) >= COUNT)
                continue;
#pragma unroll
            for (int j = 0; j < TILE::ACROSS; j += PIECE) {
                SUM value[PIECE];
#pragma unroll
                for (int e = 0; e < PIECE; e++)
                    value[e] = tile.value[i][j + e] * factor[i];
                if (part * S.part + TILE::column(j) < ELEMENTS)
                    mgpu_store_together<TYPE, PIECE>(to + TILE::column(j), value);
            }
        }
    }
};

/* ---- a block. BY_KEYS: its rows are keys, its columns queries; else the other way round. Scores are rows x columns of q or k,
 * and slopes (of g and v) likewise. */

template <bool VALUE> struct mgpu_known { static constexpr bool value = VALUE; };
MGPU_FUNCTION float mgpu_log_2(float v) { return log2f(v); }
MGPU_FUNCTION double mgpu_log_2(double v) { return log2(v); }

template <const mgpu_attention &T, const mgpu_attention_tiles &S, bool BY_KEYS> struct mgpu_attend {
    typedef typename mgpu_element<T.type>::sum sum;
    static constexpr bool SMALL = T.queries < 1 << 30 && T.keys < 1 << 30 && T.window < 1 << 30;
    typedef typename mgpu_either<SMALL, int, int64_t>::type place; /* of a query or a key; in one register if that is enough */
    static constexpr bool MMA = S.arithmetic == MGPU_MMA, TIGHT = mgpu_attention_is_tight(S), GROUPS = S.warpgroups && MGPU_HAS_WARPGROUPS;
    static constexpr int BYTES = mgpu_attention_staged(&T, &S), WARPS = S.rows / S.warp_rows;
    static constexpr int D = (int)mgpu_attention_parts(&S, T.d), E = (int)mgpu_attention_parts(&S, T.e);
    typedef mgpu_lines<BYTES, S.rows, S.part, true, false> own_lines;
    typedef mgpu_lines<BYTES, S.columns, S.part, true, false> other_lines;
    typedef mgpu_lines<BYTES, S.part, S.columns, false, false> transposed_lines; /* the same bytes: their elements as columns */
    typedef mgpu_lines<BYTES, S.rows, S.columns, true, false> share_lines;
    template <typename ROWS, typename COLUMNS, bool OF_SHARES> struct tile_of {
        typedef typename mgpu_either<MMA, mgpu_mma_tile<S.q, ROWS, COLUMNS, WARPS, 1, OF_SHARES && S.q == MGPU_F32>, mgpu_fma_tile<sum, ROWS, COLUMNS, 16, 8>>::type by_warps;
        typedef typename mgpu_either<GROUPS, mgpu_warpgroup_tile<S.q, ROWS, COLUMNS, mgpu_attention_threads(&S)>, by_warps>::type type;
    };
    typedef typename tile_of<own_lines, other_lines, false>::type scores;
    typedef typename tile_of<share_lines, transposed_lines, true>::type result;
    static constexpr int DOWN = scores::DOWN, ACROSS = scores::ACROSS;
    static constexpr int OWN_PARTS = S.resident ? D + (T.backward ? E : 0) : 1, OTHER_PARTS = S.resident ? D + E : 1;
    static constexpr int STAGE = OTHER_PARTS * other_lines::BYTES;
    typedef mgpu_attended_rows<T, S, BY_KEYS ? MGPU_ATTEND_K : MGPU_ATTEND_Q> own_1;
    typedef mgpu_attended_rows<T, S, BY_KEYS ? MGPU_ATTEND_V : MGPU_ATTEND_G> own_2;
    typedef mgpu_attended_rows<T, S, BY_KEYS ? MGPU_ATTEND_Q : MGPU_ATTEND_K> other_1;
    typedef mgpu_attended_rows<T, S, BY_KEYS ? MGPU_ATTEND_G : MGPU_ATTEND_V> other_2;
    template <typename ROWS> static constexpr bool SAME = MMA || T.type == ROWS::TYPE;

    static constexpr int HELD = GROUPS ? mgpu_attention_held(&T, &S, BY_KEYS) : 0;
    typedef uint32_t held_part[GROUPS ? S.part / 16 : 1][GROUPS ? DOWN / 2 : 1][4]; /* as matrix instructions take it */

    held_part held[HELD > 0 ? HELD : 1];
    char *own, *other, *share;
    own_1 rows_1;
    own_2 rows_2;
    other_1 columns_1;
    other_2 columns_2;
    place row;   /* the block's first */

    __device__ __forceinline__ mgpu_attend(char *shared, place first_row)
        : own(shared), other(own + OWN_PARTS * own_lines::BYTES), share(other + S.stages * STAGE), row(first_row)
    {
    }

    /* all threads that compute it */
    __device__ __forceinline__ void meet(void)
    {
        if (S.alone)
            mgpu_first_threads_meet(mgpu_attention_threads(&S));
        else
            __syncthreads();
    }

    /* ---- copies */

    __device__ __forceinline__ void load_own(void)
    {
        if constexpr (S.resident) {
            for (int c = 0; c < D; c++)
                rows_1.template load<own_lines, SAME<own_1>>(own + c * own_lines::BYTES, row, c);
            for (int c = 0; c < E && T.backward; c++)
                rows_2.template load<own_lines, SAME<own_2>>(own + (D + c) * own_lines::BYTES, row, c);
        }
    }
    __device__ __forceinline__ void load_other(int stage, place column)
    {
        if constexpr (S.resident) {
            for (int c = 0; c < D; c++)
                columns_1.template load<other_lines, SAME<other_1>>(other + stage * STAGE + c * other_lines::BYTES, column, c);
            for (int c = 0; c < E; c++)
                columns_2.template load<other_lines, SAME<other_2>>(other + stage * STAGE + (D + c) * other_lines::BYTES, column, c);
        }
    }
    /* the parts of rows that registers hold. A warpgroup's matrices are 64 rows, 16 of each warp */
    __device__ __forceinline__ void hold_own(void)
    {
        typedef mgpu_mma_tile<S.q, own_lines, other_lines, S.rows / 16, 1> by_warps;
        const uint32_t at = by_warps::template own_byte<own_lines, false>(scores::first_row() + threadIdx.x % 128 / 32 * 16);
        mgpu_copies_wait<0>();
        meet();
#pragma unroll
        for (int c = 0; c < HELD; c++)
#pragma unroll
            for (int step = 0; step < S.part / 16; step++)
#pragma unroll
                for (int i = 0; i < DOWN / 2; i++)
                    by_warps::template fetch<own_lines, false>(held[c][step][i], mgpu_shared_address(own + c * own_lines::BYTES) + at, 4 * i, 16 * step);
    }
    /* columns [begin, end), some at a time: `work(whole, column, stage)` when they are there. whole: an mgpu_known; all rows and
     * columns see each other, so nothing has to be masked */
    template <typename WORK> __device__ __forceinline__ void for_columns(place begin, place end, WORK work)
    {
        int stage = 0;
        if (begin >= end)
            return;
        load_own();
        if (S.stages == 2)
            load_other(0, begin);
        mgpu_copies_end();
        if constexpr (HELD > 0)
            hold_own();
        for (place column = begin; column < end;) {
            if (is_whole(column)) {
#pragma unroll 1
                do
                    take_columns<true>(column, end, stage, work);
                while (column < end && is_whole(column));
            } else {
                take_columns<false>(column, end, stage, work);
            }
        }
    }
    template <bool WHOLE, typename WORK> __device__ __forceinline__ void take_columns(place &column, place end, int &stage, WORK work)
    {
        if (S.stages == 1) {
            load_other(0, column);
            mgpu_copies_end();
            mgpu_copies_wait<0>();
        } else {
            if (column + S.columns < end)
                load_other(1 - stage, column + S.columns);
            mgpu_copies_end();
            mgpu_copies_wait<1>();
        }
        if constexpr (GROUPS)
            mgpu_show_warpgroups();
        meet();
        if (WHOLE || !is_blind(column))
            work(mgpu_known<WHOLE>(), column, stage);
        meet(); /* the stage is no longer read */
        stage = S.stages == 2 ? 1 - stage : 0;
        column += S.columns;
    }

    /* ---- contractions */

    /* tile = rows x columns over the elements of q and k (SECOND: of g and v). Warpgroups begin here, in groups of instructions
     * that follow each other, and others do nothing; `score` waits for all but the last LEFT of them, others do it all */
    template <bool SECOND> __device__ __forceinline__ void begin_score(scores &tile, int stage)
    {
        if constexpr (GROUPS) {
            constexpr int parts = SECOND ? E : D, before = SECOND ? D : 0;
            const char *const columns_at = other + stage * STAGE;
            scores::ready();
#pragma unroll
            for (int c = before; c < before + parts; c++) {
                const char *const from = columns_at + c * other_lines::BYTES;
                if (c < HELD && c == before)
                    tile.template sum_up<false>(held[c < HELD ? c : 0], mgpu_shared_address(from) / 16);
                else if (c < HELD)
                    tile.template sum_up<true>(held[c < HELD ? c : 0], mgpu_shared_address(from) / 16);
                else if (c == before)
                    tile.template sum_up<false>(scores::sources::of(own + c * own_lines::BYTES, from));
                else
                    tile.template sum_up<true>(scores::sources::of(own + c * own_lines::BYTES, from));
            }
            scores::go();
        }
    }
    template <bool SECOND, int LEFT> __device__ __forceinline__ void score(scores &tile, int stage, place column)
    {
        if constexpr (GROUPS)
            tile.template wait<LEFT>();
        else
            multiply_score<SECOND>(tile, stage, column);
    }
    template <bool SECOND> __device__ __forceinline__ void multiply_score(scores &tile, int stage, place column)
    {
        constexpr int parts = SECOND ? E : D, before = SECOND && S.resident ? D : 0;
        mgpu_clear(tile.value);
#pragma unroll 1
        for (int c = 0; c < parts; c++) {
            const char *rows_at = own, *columns_at = other;
            if constexpr (S.resident) {
                rows_at += (before + c) * own_lines::BYTES;
                columns_at += stage * STAGE + (before + c) * other_lines::BYTES;
            } else {
                meet();
                if constexpr (SECOND) {
                    rows_2.template load<own_lines, SAME<own_2>>(own, row, c);
                    columns_2.template load<other_lines, SAME<other_2>>(other, column, c);
                } else {
                    rows_1.template load<own_lines, SAME<own_1>>(own, row, c);
                    columns_1.template load<other_lines, SAME<other_1>>(other, column, c);
                }
                mgpu_copies_end();
                mgpu_copies_wait<0>();
                meet();
            }
            if constexpr (TIGHT) {
                const auto from = scores::sources::of(rows_at, columns_at);
                tile.multiply({mgpu_anew<TIGHT>(from.down), mgpu_anew<TIGHT>(from.across)}, 0);
            } else {
                tile.multiply(rows_at, columns_at);
            }
        }
    }

    /* a step's 16 columns of shares, or 8 of f32, as matrix instructions take them */
    template <int MATRICES> MGPU_FUNCTION void narrow(uint32_t x[MATRICES][4], const scores &shares, int at_k)
    {
        const int at = at_k / 4;
#pragma unroll
        for (int i = 0; i < MATRICES; i++)
#pragma unroll
            for (int m = 0; m < 4; m++)
                if constexpr (S.q == MGPU_F32)
                    x[i][m] = mgpu_to_tf32(__float_as_uint(shares.value[2 * i + m % 2][at + m / 2]));
                else
                    x[i][m] = mgpu_narrow_pair<S.q>(shares.value[2 * i + m % 2][at + m / 2 * 2], shares.value[2 * i + m % 2][at + m / 2 * 2 + 1]);
    }

    /* results[p] += share x part first + p of the columns' elements; COUNT parts there are, RESULTS of them are this block's. By
     * warpgroups they are there after `added` */
    template <bool SECOND, int COUNT, int RESULTS>
    __device__ __forceinline__ void add(result results[RESULTS], const scores &shares, int first, int stage, place column)
    {
        if constexpr (GROUPS)
            begin_add<SECOND, COUNT, RESULTS>(results, shares, first, stage);
        else
            multiply_add<SECOND, COUNT, RESULTS>(results, shares, first, stage, column);
    }
    template <bool SECOND, int COUNT, int RESULTS> __device__ __forceinline__ void begin_add(result results[RESULTS], const scores &shares, int first, int stage)
    {
        constexpr int before = SECOND ? D : 0, STEPS = S.columns / 16;
        uint32_t x[STEPS][DOWN / 2][4];
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            narrow<DOWN / 2>(x[step], shares, 16 * step);
        result::hold(x);
#pragma unroll
        for (int p = 0; p < RESULTS; p++)
            results[p].hold();
        result::ready();
#pragma unroll
        for (int p = 0; p < RESULTS; p++)
            if (RESULTS == 1 || first + p < COUNT)
                results[p].template sum_up<true>(x, mgpu_shared_address(other + stage * STAGE + (before + first + p) * other_lines::BYTES) / 16);
        result::go();
    }
    template <int RESULTS> __device__ __forceinline__ void added(result results[RESULTS])
    {
#pragma unroll
        for (int p = 0; p < RESULTS; p++)
            if constexpr (GROUPS)
                results[p].template wait<0>();
    }
    template <bool SECOND, int COUNT, int RESULTS>
    __device__ __forceinline__ void multiply_add(result results[RESULTS], const scores &shares, int first, int stage, place column)
    {
        constexpr int before = SECOND && S.resident ? D : 0;
        if constexpr (!MMA) { /* a warp's rows are its own */
            __syncwarp();
#pragma unroll
            for (int i = 0; i < DOWN; i++)
#pragma unroll
                for (int j = 0; j < ACROSS; j++) {
                    const uint32_t at = scores::column(j);
                    *(sum *)(share + share_lines::at(scores::row(i), at / share_lines::CHUNK) + at % share_lines::CHUNK * BYTES) = shares.value[i][j];
                }
            __syncwarp();
        }
#pragma unroll
        for (int p = 0; p < RESULTS; p++) {
            if (RESULTS > 1 && first + p >= COUNT)
                continue;
            const char *from = other;
            if constexpr (S.resident) {
                from += stage * STAGE + (before + first + p) * other_lines::BYTES;
            } else {
                meet();
                if constexpr (SECOND)
                    columns_2.template load<other_lines, SAME<other_2>>(other, column, first + p);
                else
                    columns_1.template load<other_lines, SAME<other_1>>(other, column, first + p);
                mgpu_copies_end();
                mgpu_copies_wait<0>();
                meet();
            }
            if constexpr (MMA) {
                const mgpu_shared at = mgpu_anew<TIGHT>(result::sources::of(from, from).across);
#pragma unroll
                for (int at_k = 0; at_k < S.columns; at_k += result::DEPTH) {
                    uint32_t x[DOWN / 2][4];
                    narrow<DOWN / 2>(x, shares, at_k);
                    results[p].multiply_step(x, at, at_k);
                }
            } else {
                results[p].multiply(share, from);
            }
        }
    }

    /* ---- what is seen */

    static constexpr place SHIFT = T.keys - T.queries; /* the last query sees the last key */

    /* all rows see all columns from this one on; rows that are not there do, too */
    __device__ __forceinline__ bool is_whole(place column) const
    {
        const place first_query = BY_KEYS ? column : row, last_query = first_query + (BY_KEYS ? S.columns : S.rows) - 1;
        const place first_key = BY_KEYS ? row : column, last_key = first_key + (BY_KEYS ? S.rows : S.columns) - 1;
        bool all = BY_KEYS ? last_query < T.queries : last_key < T.keys;
        if (T.causal)
            all = all && last_key <= first_query + SHIFT;
        if (T.window > 0)
            all = all && first_key > last_query + SHIFT - T.window;
        return all;
    }

    /* none of the warp's rows sees any of the columns from this one on. Where threads meet between copies, all go on */
    __device__ __forceinline__ bool is_blind(place column) const
    {
        if constexpr (!MMA || !S.resident) {
            return false;
        } else {
            const place first_row = row + scores::first_row(), last_row = first_row + scores::OWN_ROWS - 1, last_column = column + S.columns - 1;
            const place first_query = BY_KEYS ? column : first_row, last_query = BY_KEYS ? last_column : last_row;
            const place first_key = BY_KEYS ? first_row : column, last_key = BY_KEYS ? last_row : last_column;
            return first_row >= (BY_KEYS ? T.keys : T.queries) || (T.causal && first_key > last_query + SHIFT) ||
                   (T.window > 0 && last_key <= first_query + SHIFT - T.window);
        }
    }

    /* as an int that is compared with places in a tile */
    MGPU_FUNCTION int near(place v) { return (int)max(min(v, (place)(S.rows + S.columns)), (place)-(S.rows + S.columns)); }

    /* Scores: -infinity where a query does not see the key. The sign of scale is theirs, so that the largest has the largest
     * share. What they are less than the largest, which is exact where shares are not small, is multiplied by the rest of scale
     * and log2 e (FACTOR): a product of large scores would be rounded by more than 1. */
    static constexpr sum FACTOR = T.scale == 0 ? (sum)1 : (sum)((T.scale < 0 ? -T.scale : T.scale) * 1.4426950408889634074);
    template <bool WHOLE> __device__ __forceinline__ void mask(scores &tile, place column) const
    {
        const place last = SHIFT + (BY_KEYS ? column - row : row - column); /* key - query that is seen in a causal one */
        const int there = near((BY_KEYS ? T.queries : T.keys) - column), most = near(last), least = near(last - T.window);
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                /* key - query */
                const int ahead = BY_KEYS ? scores::row(i) - scores::column(j) : scores::column(j) - scores::row(i);
                if (T.scale <= 0)
                    tile.value[i][j] = T.scale == 0 ? (sum)0 : -tile.value[i][j];
                if (!WHOLE && !(scores::column(j) < there && (!T.causal || ahead <= most) && (T.window <= 0 || ahead > least)))
                    tile.value[i][j] = -(sum)INFINITY;
            }
    }

    /* of the lanes that share a row */
    MGPU_FUNCTION sum largest_of_row(sum v)
    {
#pragma unroll
        for (int by = 1; by < scores::LANES; by *= 2)
            v = fmax(v, __shfl_xor_sync(0xFFFFFFFFu, v, by));
        return v;
    }
    MGPU_FUNCTION sum sum_of_row(sum v)
    {
#pragma unroll
        for (int by = 1; by < scores::LANES; by *= 2)
            v += __shfl_xor_sync(0xFFFFFFFFu, v, by);
        return v;
    }

    /* of the threads that share a row */
    MGPU_FUNCTION bool is_first_of_row(void) { return threadIdx.x % scores::LANES == 0; }

    template <typename NUMBER> MGPU_FUNCTION NUMBER *sums_of(NUMBER *sums, int64_t sample, int64_t head, int64_t query)
    {
        constexpr mgpu_attention_operand l = T.sums;
        return sums + (l.first + sample * l.sample + head * l.head + query * l.row);
    }

    /* what a row's sum makes of 1: a row that sees nothing is 0 */
    MGPU_FUNCTION sum share_of_one(sum total) { return total == 0 ? (sum)0 : 1 / total; }

    /* a score's share of its row, and what the row's result changes with the score (but for its scale); what is not seen adds
     * nothing, whatever it holds. No score is above the largest one, which is one of them, to the bit: forward and gradients are
     * by the same instructions */
    MGPU_FUNCTION sum share_of(sum score, sum most, sum log_sum) { return mgpu_power_of_2(fma(score - most, FACTOR, -log_sum)); }
    template <bool WHOLE> MGPU_FUNCTION sum slope_of(sum share, sum slope, sum mean)
    {
        return !WHOLE && share == 0 ? (sum)0 : share * (slope - mean);
    }

    /* columns that the block's rows see, or are seen from */
    __device__ __forceinline__ void seen(place &begin, place &end) const
    {
        const place last = min(row + S.rows, (place)(BY_KEYS ? T.keys : T.queries)) - 1;
        begin = 0;
        end = BY_KEYS ? T.queries : T.keys;
        if (BY_KEYS && T.causal)
            begin = max((place)0, row - SHIFT);
        if (BY_KEYS && T.window > 0)
            end = min(end, last + (place)T.window - SHIFT);
        if (!BY_KEYS && T.causal)
            end = min(end, last + SHIFT + 1);
        if (!BY_KEYS && T.window > 0)
            begin = max((place)0, row + SHIFT - (place)T.window + 1);
    }
};

/* maximum and sum of rows so far; -infinity and 0 of one that has seen nothing */
template <typename ATTEND> struct mgpu_softmax {
    typedef typename ATTEND::sum sum;
    sum most[ATTEND::DOWN], total[ATTEND::DOWN];

    __device__ __forceinline__ mgpu_softmax()
    {
#pragma unroll
        for (int i = 0; i < ATTEND::DOWN; i++) {
            most[i] = -(sum)INFINITY;
            total[i] = 0;
        }
    }

    /* scores -> shares of a sum that begins at the new maximum; older[i]: what earlier shares of row i are multiplied by. The
     * sums are those of a thread's own columns */
    __device__ __forceinline__ void take(typename ATTEND::scores &tile, sum older[ATTEND::DOWN])
    {
#pragma unroll
        for (int i = 0; i < ATTEND::DOWN; i++) {
            sum top = tile.value[i][0];
#pragma unroll
            for (int j = 1; j < ATTEND::ACROSS; j++)
                top = fmax(top, tile.value[i][j]);
            top = fmax(most[i], ATTEND::largest_of_row(top));
            const sum base = top == -(sum)INFINITY ? (sum)0 : top; /* nothing is seen yet */
            older[i] = mgpu_power_of_2((most[i] - base) * ATTEND::FACTOR);
            most[i] = top;
            total[i] *= older[i];
#pragma unroll
            for (int j = 0; j < ATTEND::ACROSS; j++) {
                tile.value[i][j] = mgpu_power_of_2((tile.value[i][j] - base) * ATTEND::FACTOR);
                total[i] += tile.value[i][j];
            }
        }
    }
};

/* which rows, head, sample and parts of results an item is: blocks of one head follow each other, the last rows first */
struct mgpu_attend_item {
    int64_t sample, row;
    int head, first;

    __device__ __forceinline__ mgpu_attend_item(int64_t item, int64_t rows, int64_t heads, int block_rows, int parts, int results)
    {
        const int64_t blocks = (rows + block_rows - 1) / block_rows, groups = (parts + results - 1) / results;
        first = (int)(item % groups) * results;
        item /= groups;
        row = (blocks - 1 - item % blocks) * block_rows;
        item /= blocks;
        head = (int)(item % heads);
        sample = item / heads;
    }
};

/* ---- what kernels call */

template <const mgpu_attention &T, const mgpu_attention_tiles &S>
MGPU_FUNCTION void mgpu_attend_forward(const void *q, const void *k, const void *v, void *y, void *sums, int64_t n)
{
    typedef mgpu_attend<T, S, false> attend;
    typedef typename attend::sum sum;
    constexpr bool wanted = T.y.argument >= 0, keeps = T.sums.argument >= 0;
    constexpr int DOWN = attend::DOWN, RESULTS = S.results < attend::E ? S.results : attend::E;
    const int64_t items = mgpu_attention_blocks(&S, T.queries, attend::E) * T.heads * (T.y.sample + T.sums.sample > 0 ? n : 1);
    for (int64_t item = mgpu_first_block(S.alone); item < items; item += mgpu_all_blocks(S.alone)) {
        const mgpu_attend_item at(item, T.queries, T.heads, S.rows, attend::E, S.results);
        attend a(mgpu_dynamic_shared(), (typename attend::place)at.row);
        a.rows_1.set(q, at.sample, at.head);
        a.columns_1.set(k, at.sample, at.head);
        a.columns_2.set(v, at.sample, at.head);
        mgpu_softmax<attend> softmax;
        typename attend::result results[RESULTS];
#pragma unroll
        for (int p = 0; p < RESULTS; p++)
            mgpu_clear(results[p].value);
        typename attend::place begin, end;
        a.seen(begin, end);
        a.for_columns(begin, end, [&](auto whole, typename attend::place column, int stage) {
            typename attend::scores tile;
            sum older[DOWN];
            a.template begin_score<false>(tile, stage);
            a.template score<false, 0>(tile, stage, column);
            a.template mask<whole.value>(tile, column);
            softmax.take(tile, older);
#pragma unroll
            for (int p = 0; p < RESULTS; p++)
#pragma unroll
                for (int i = 0; i < DOWN; i++)
#pragma unroll
                    for (int j = 0; j < attend::result::ACROSS; j++)
                        results[p].value[i][j] *= older[i];
            if constexpr (wanted) {
                a.template add<true, attend::E, RESULTS>(results, tile, at.first, stage, column);
                a.template added<RESULTS>(results);
            }
        });
        sum share[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const sum total = attend::sum_of_row(softmax.total[i]);
            share[i] = attend::share_of_one(total);
            if (keeps && at.first == 0 && attend::is_first_of_row() && a.row + attend::scores::row(i) < T.queries) {
                sum *own = attend::sums_of((sum *)sums, at.sample, at.head, a.row + attend::scores::row(i));
                own[0] = total == 0 ? (sum)0 : softmax.most[i];
                /* shares of a row that sees nothing are 0 */
                own[1] = total == 0 ? (sum)INFINITY : mgpu_log_2(total) * (sum)0.69314718055994530942;
            }
        }
        if constexpr (!wanted)
            continue;
        mgpu_attended_rows<T, S, MGPU_ATTEND_Y> to;
        to.set(y, at.sample, at.head);
#pragma unroll
        for (int p = 0; p < RESULTS; p++)
            if (at.first + p < attend::E)
                to.store(results[p], a.row, at.first + p, share);
    }
}

/* what the other function needs of each query, in `work` [sample, head, query] */
template <typename SUM> struct alignas(8) mgpu_attended_query {
    /* its largest score, the logarithm of its sum to base 2, sum p (g v'). Read as two pairs: by 16 bytes, NVRTC 13.0 spilled
     * registers of bf16 for sm_100 */
    SUM most, log_sum, mean, zero;
};

template <const mgpu_attention &T, const mgpu_attention_tiles &S>
MGPU_FUNCTION void mgpu_attend_queries(const void *q, const void *k, const void *v, const void *g, const void *y, const void *sums,
                                       void *dq, void *work, int64_t n)
{
    typedef mgpu_attend<T, S, false> attend;
    typedef typename attend::sum sum;
    constexpr bool slopes = T.dq.argument >= 0 || T.dk.argument >= 0, wanted = T.dq.argument >= 0;
    constexpr int DOWN = attend::DOWN, ACROSS = attend::ACROSS, PARTS = wanted ? attend::D : 1, RESULTS = S.results < PARTS ? S.results : PARTS;
    constexpr bool samples = T.q.sample > 0 || T.k.sample > 0 || T.v.sample > 0 || T.g.sample > 0;
    const int64_t items = mgpu_attention_blocks(&S, T.queries, PARTS) * T.heads * (samples ? n : 1);
    for (int64_t item = mgpu_first_block(S.alone); item < items; item += mgpu_all_blocks(S.alone)) {
        const mgpu_attend_item at(item, T.queries, T.heads, S.rows, PARTS, S.results);
        attend a(mgpu_dynamic_shared(), (typename attend::place)at.row);
        a.rows_1.set(q, at.sample, at.head);
        a.rows_2.set(g, at.sample, at.head);
        a.columns_1.set(k, at.sample, at.head);
        a.columns_2.set(v, at.sample, at.head);
        mgpu_attended_rows<T, S, MGPU_ATTEND_Y> rows_y;
        rows_y.set(y, at.sample, at.head);
        sum mean[DOWN], most[DOWN], log_sum[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const int64_t query = a.row + attend::scores::row(i), there = min(query, (int64_t)T.queries - 1);
            const sum *own = attend::sums_of((const sum *)sums, at.sample, at.head, there);
            most[i] = own[0];
            log_sum[i] = own[1] * (sum)1.4426950408889634074;
            mean[i] = 0;
            if constexpr (slopes)
                mean[i] = attend::sum_of_row(a.rows_2.multiply_row(rows_y, there, (int)(threadIdx.x % attend::scores::LANES), attend::scores::LANES));
            if (at.first == 0 && attend::is_first_of_row() && query < T.queries)
                ((mgpu_attended_query<sum> *)work)[(at.sample * T.heads + at.head) * T.queries + query] = {most[i], log_sum[i], mean[i], 0};
        }
        if constexpr (wanted) {
            typename attend::result results[RESULTS];
#pragma unroll
            for (int p = 0; p < RESULTS; p++)
                mgpu_clear(results[p].value);
            typename attend::place begin, end;
            a.seen(begin, end);
            a.for_columns(begin, end, [&](auto whole, typename attend::place column, int stage) {
                typename attend::scores tile, slope;
                a.template begin_score<false>(tile, stage);
                a.template begin_score<true>(slope, stage);
                a.template score<false, 1>(tile, stage, column);
                a.template mask<whole.value>(tile, column);
                a.template score<true, 0>(slope, stage, column);
#pragma unroll
                for (int i = 0; i < DOWN; i++)
#pragma unroll
                    for (int j = 0; j < ACROSS; j++)
                        tile.value[i][j] = attend::template slope_of<whole.value>(attend::share_of(tile.value[i][j], most[i], log_sum[i]), slope.value[i][j], mean[i]);
                a.template add<false, attend::D, RESULTS>(results, tile, at.first, stage, column);
                a.template added<RESULTS>(results);
            });
            sum scale[DOWN];
#pragma unroll
            for (int i = 0; i < DOWN; i++)
                scale[i] = (sum)T.scale;
            mgpu_attended_rows<T, S, MGPU_ATTEND_DQ> to;
            to.set(dq, at.sample, at.head);
#pragma unroll
            for (int p = 0; p < RESULTS; p++)
                if (at.first + p < attend::D)
                    to.store(results[p], a.row, at.first + p, scale);
        }
    }
}

template <const mgpu_attention &T, const mgpu_attention_tiles &S>
MGPU_FUNCTION void mgpu_attend_keys(const void *q, const void *k, const void *v, const void *g, void *dk, void *dv, const void *work, int64_t n)
{
    typedef mgpu_attend<T, S, true> attend;
    typedef typename attend::sum sum;
    constexpr bool want_k = T.dk.argument >= 0, want_v = T.dv.argument >= 0;
    constexpr int DOWN = attend::DOWN, ACROSS = attend::ACROSS, PARTS_K = want_k ? attend::D : 0, PARTS_V = want_v ? attend::E : 0;
    constexpr int PARTS = PARTS_K > PARTS_V ? PARTS_K : PARTS_V, RESULTS_K = S.results < PARTS_K ? S.results : PARTS_K;
    constexpr int RESULTS_V = S.results < PARTS_V ? S.results : PARTS_V;
    constexpr bool samples = T.q.sample > 0 || T.k.sample > 0 || T.v.sample > 0 || T.g.sample > 0;
    const int64_t items = mgpu_attention_blocks(&S, T.keys, PARTS) * T.groups * (samples ? n : 1);
    for (int64_t item = mgpu_first_block(S.alone); item < items; item += mgpu_all_blocks(S.alone)) {
        const mgpu_attend_item at(item, T.keys, T.groups, S.rows, PARTS, S.results);
        attend a(mgpu_dynamic_shared(), (typename attend::place)at.row);
        typename attend::result results_k[RESULTS_K > 0 ? RESULTS_K : 1], results_v[RESULTS_V > 0 ? RESULTS_V : 1];
#pragma unroll
        for (int p = 0; p < RESULTS_K; p++)
            mgpu_clear(results_k[p].value);
#pragma unroll
        for (int p = 0; p < RESULTS_V; p++)
            mgpu_clear(results_v[p].value);
        typename attend::place begin, end;
        a.seen(begin, end);
        for (int own = 0; own < T.heads / T.groups; own++) {
            const int head = at.head * (int)(T.heads / T.groups) + own;
            a.rows_1.set(k, at.sample, head);
            a.rows_2.set(v, at.sample, head);
            a.columns_1.set(q, at.sample, head);
            a.columns_2.set(g, at.sample, head);
            const auto *of_query = (const mgpu_attended_query<sum> *)work + (at.sample * T.heads + head) * T.queries;
            a.for_columns(begin, end, [&](auto whole, typename attend::place column, int stage) {
                typename attend::scores tile;
                [[maybe_unused]] typename attend::scores slope;
                const auto *of_column = of_query + column;
                sum mean[ACROSS];
                /* the last of the queries from `column` on */
                const int last = whole.value ? S.columns : (int)min((typename attend::place)T.queries - 1 - column, (typename attend::place)S.columns);
                a.template begin_score<false>(tile, stage);
                if constexpr (want_k)
                    a.template begin_score<true>(slope, stage);
                a.template score<false, want_k>(tile, stage, column);
                a.template mask<whole.value>(tile, column);
#pragma unroll
                for (int j = 0; j < ACROSS; j++) {
                    const int own = whole.value ? attend::scores::column(j) : min(attend::scores::column(j), last);
                    const mgpu_attended_query<sum> of = of_column[own];
                    mean[j] = of.mean;
#pragma unroll
                    for (int i = 0; i < DOWN; i++)
                        tile.value[i][j] = attend::share_of(tile.value[i][j], of.most, of.log_sum);
                }
                if constexpr (want_v)
                    a.template add<true, attend::E, RESULTS_V>(results_v, tile, at.first, stage, column);
                if constexpr (want_k) {
                    a.template score<true, want_v>(slope, stage, column);
#pragma unroll
                    for (int j = 0; j < ACROSS; j++)
#pragma unroll
                        for (int i = 0; i < DOWN; i++)
                            tile.value[i][j] = attend::template slope_of<whole.value>(tile.value[i][j], slope.value[i][j], mean[j]);
                    a.template add<false, attend::D, RESULTS_K>(results_k, tile, at.first, stage, column);
                    a.template added<RESULTS_K>(results_k);
                }
                if constexpr (want_v)
                    a.template added<RESULTS_V>(results_v);
            });
        }
        sum scale[DOWN], one[DOWN];
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            scale[i] = (sum)T.scale;
            one[i] = 1;
        }
        if constexpr (want_k) {
            mgpu_attended_rows<T, S, MGPU_ATTEND_DK> to;
            to.set_own(dk, at.sample, at.head);
#pragma unroll
            for (int p = 0; p < RESULTS_K; p++)
                if (at.first + p < attend::D)
                    to.store(results_k[p], a.row, at.first + p, scale);
        }
        if constexpr (want_v) {
            mgpu_attended_rows<T, S, MGPU_ATTEND_DV> to;
            to.set_own(dv, at.sample, at.head);
#pragma unroll
            for (int p = 0; p < RESULTS_V; p++)
                if (at.first + p < attend::E)
                    to.store(results_v[p], a.row, at.first + p, one);
        }
    }
}
#endif
