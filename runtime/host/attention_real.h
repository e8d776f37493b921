/* attention_real.h: mgpu_attention.h for one element type: blocks of queries, multiplied in registers. Included by
 * contract_real.h, whose definitions it uses.
 *
 * Only visible scores are computed: a matmul of scores begins at the first row that sees its keys, and one over keys ends at the
 * last key that its rows see. */
typedef struct MGPU_NAME(attend) { /* a head of a sample */
    const mgpu_attention *table;
    mgpu_attention_room room;
    MGPU_REAL *work;
    const void *q, *k, *v, *g;
    void *y, *dq, *dk, *dv;
    MGPU_REAL *sums;                                                    /* [head, row, 2] */
    int64_t at_q, at_k, at_v, at_g, at_y, at_sums, at_dq, at_dk, at_dv; /* offsets of the head's first elements in them */
    int64_t begin, rows;                                                /* queries of the block */
    int64_t low, high;                                                  /* keys that it sees, from a whole vector on */
    /* offsets of rows of A and of C, and along K */
    int64_t own[MGPU_ATTENTION_ROWS + MGPU_ROWS_1], up[MGPU_ATTENTION_ROWS + MGPU_ROWS_1], one[MGPU_BLOCK_DEPTH];
} MGPU_NAME(attend);

typedef __typeof__((VECTOR){0} < (VECTOR){0}) MGPU_NAME(whole); /* integers of as many bits, as comparisons return them */

MGPU_INLINE VECTOR MGPU_NAME(choose)(MGPU_NAME(whole) which, VECTOR yes, VECTOR no)
{
    return (VECTOR)((which & (MGPU_NAME(whole))yes) | (~which & (MGPU_NAME(whole))no));
}

/* Returns exp(x) for x <= 0; NaN stays NaN. */
MGPU_INLINE VECTOR MGPU_NAME(exp_below)(VECTOR x)
{
    typedef MGPU_NAME(whole) WHOLE;
    static const double inverse[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    const bool narrow = sizeof(MGPU_REAL) == 4;
    const MGPU_REAL least = narrow ? (MGPU_REAL)-70.0 : (MGPU_REAL)-650.0; /* negligible next to 1, and no slow denormals */
    const MGPU_REAL magic = narrow ? (MGPU_REAL)12582912.0 : (MGPU_REAL)6755399441055744.0; /* adding it rounds to an integer */
    const MGPU_REAL high = narrow ? (MGPU_REAL)0.693359375 : (MGPU_REAL)6.93147180369123816490e-01;
    const MGPU_REAL low = narrow ? (MGPU_REAL)-2.12194440e-4 : (MGPU_REAL)1.90821492927058770002e-10;
    x = MGPU_NAME(choose)(x < least, SPLAT(least), x);
    VECTOR whole = x * (MGPU_REAL)1.4426950408889634 + magic, k = whole - magic;
    VECTOR r = (x - k * high) - k * low, p = SPLAT((MGPU_REAL)inverse[narrow ? 7 : 13]);
    _Pragma("GCC unroll 14") for (int i = (narrow ? 7 : 13) - 1; i >= 0; i--) p = p * r + (MGPU_REAL)inverse[i];
    VECTOR y = (VECTOR)((WHOLE)p + ((WHOLE)whole << (narrow ? 23 : 52)));
    return MGPU_NAME(choose)(x == x, y, x);
}

#if MGPU_VECTOR_BYTES == 64
MGPU_INLINE MGPU_REAL MGPU_NAME(sum_of)(VECTOR v)
{
    return sizeof(MGPU_REAL) == 4 ? (MGPU_REAL)_mm512_reduce_add_ps((__m512)v) : (MGPU_REAL)_mm512_reduce_add_pd((__m512d)v);
}
MGPU_INLINE VECTOR MGPU_NAME(larger)(VECTOR a, VECTOR b)
{
    return sizeof(MGPU_REAL) == 4 ? (VECTOR)_mm512_max_ps((__m512)a, (__m512)b) : (VECTOR)_mm512_max_pd((__m512d)a, (__m512d)b);
}
MGPU_INLINE MGPU_REAL MGPU_NAME(largest)(VECTOR v)
{
    return sizeof(MGPU_REAL) == 4 ? (MGPU_REAL)_mm512_reduce_max_ps((__m512)v) : (MGPU_REAL)_mm512_reduce_max_pd((__m512d)v);
}
#else
MGPU_INLINE MGPU_REAL MGPU_NAME(sum_of)(VECTOR v)
{
    MGPU_REAL sum = 0;
    for (int64_t i = 0; i < LANES; i++)
        sum += v[i];
    return sum;
}
MGPU_INLINE VECTOR MGPU_NAME(larger)(VECTOR a, VECTOR b) { return MGPU_NAME(choose)(a > b, a, b); }
MGPU_INLINE MGPU_REAL MGPU_NAME(largest)(VECTOR v)
{
    MGPU_REAL most = v[0];
    for (int64_t i = 1; i < LANES; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}
#endif

/* Returns a mask with all bits set for the elements [low, high) of the vector that begins at j. */
MGPU_INLINE MGPU_NAME(whole) MGPU_NAME(within)(int64_t j, int64_t low, int64_t high)
{
    static const MGPU_REAL number[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    VECTOR place = LOAD(number) + (MGPU_REAL)j;
    return (place >= (MGPU_REAL)low) & (place < (MGPU_REAL)high);
}

/* Fills the elements of row[begin .. end), whole vectors, outside of [low, high). Only the first and the last vector have
 * some. */
MGPU_INLINE void MGPU_NAME(fill_edges)(MGPU_REAL *row, int64_t begin, int64_t low, int64_t high, int64_t end, MGPU_REAL value)
{
    if (begin < low)
        STORE(row + begin) = MGPU_NAME(choose)(MGPU_NAME(within)(begin, low, high), LOAD(row + begin), SPLAT(value));
    if (high < end)
        STORE(row + end - LANES) =
            MGPU_NAME(choose)(MGPU_NAME(within)(end - LANES, low, high), LOAD(row + end - LANES), SPLAT(value));
}

/* Clears row[0 .. to), whole vectors, except [begin, end). */
MGPU_INLINE void MGPU_NAME(clear_around)(MGPU_REAL *row, int64_t begin, int64_t end, int64_t to)
{
    for (int64_t j = 0; j < begin; j += LANES)
        STORE(row + j) = (VECTOR){0};
    for (int64_t j = end; j < to; j += LANES)
        STORE(row + j) = (VECTOR){0};
}

/* Masks scores outside of [low, high) in their vectors. Returns the sign by which scores must be multiplied so that the largest
 * has the largest probability; *factor: the scale of their distance from it, which is exact where probabilities are not small. */
MGPU_INLINE MGPU_REAL MGPU_NAME(mask_row)(MGPU_REAL *row, MGPU_REAL scale, int64_t begin, int64_t low, int64_t high, int64_t end,
                                          MGPU_REAL *factor)
{
    MGPU_REAL sign = scale < 0 ? -1 : 1;
    if (scale == 0)
        MGPU_NAME(clear)(row + begin, end - begin);
    MGPU_NAME(fill_edges)(row, begin, low, high, end, -sign * (MGPU_REAL)INFINITY);
    *factor = scale == 0 ? 1 : sign * scale;
    return sign;
}

/* row[low .. high) = softmax(scale row), and 0 in the rest of [0, to), whole vectors; low = high: all 0. sums: receives the
 * largest score and the logarithm of the sum relative to it, or NULL. */
MGPU_NOINLINE void MGPU_NAME(softmax_row)(MGPU_REAL *row, MGPU_REAL scale, int64_t low, int64_t high, int64_t to, MGPU_REAL *sums)
{
    int64_t begin = low / LANES * LANES, end = mgpu_round_up(high, LANES);
    MGPU_REAL factor, sign = MGPU_NAME(mask_row)(row, scale, begin, low, high, end, &factor);
    VECTOR top = SPLAT(-(MGPU_REAL)INFINITY), total = {0};
    for (int64_t j = begin; j < end; j += LANES)
        top = MGPU_NAME(larger)(LOAD(row + j) * sign, top);
    MGPU_REAL most = MGPU_NAME(largest)(top);
    for (int64_t j = begin; j < end; j += LANES) {
        VECTOR p = MGPU_NAME(exp_below)((LOAD(row + j) * sign - most) * factor);
        total += p;
        STORE(row + j) = p;
    }
    MGPU_REAL sum = MGPU_NAME(sum_of)(total), share = 1 / sum;
    for (int64_t j = begin; j < end; j += LANES)
        STORE(row + j) = LOAD(row + j) * share;
    MGPU_NAME(fill_edges)(row, begin, low, high, end, 0);
    MGPU_NAME(clear_around)(row, begin, end, to);
    if (sums) {
        sums[0] = low >= high ? 0 : most;
        sums[1] = low >= high ? (MGPU_REAL)INFINITY : (MGPU_REAL)log((double)sum);
    }
}

/* Recomputes the same row from its sums: no score is above the largest one, which is among them bit by bit. */
MGPU_NOINLINE void MGPU_NAME(shares_row)(MGPU_REAL *row, MGPU_REAL scale, const MGPU_REAL *sums, int64_t low, int64_t high,
                                         int64_t to)
{
    int64_t begin = low / LANES * LANES, end = mgpu_round_up(high, LANES);
    MGPU_REAL factor, sign = MGPU_NAME(mask_row)(row, scale, begin, low, high, end, &factor);
    for (int64_t j = begin; j < end; j += LANES)
        STORE(row + j) = MGPU_NAME(exp_below)((LOAD(row + j) * sign - sums[0]) * factor - sums[1]);
    MGPU_NAME(fill_edges)(row, begin, low, high, end, 0);
    MGPU_NAME(clear_around)(row, begin, end, to);
}

/* dp = ds = scale p (dp - sum p dp / sum p), where p is not 0. The sum of p is 1 except for the rounding of the logarithm;
 * dividing by it makes the row's gradients add up to 0. */
MGPU_NOINLINE void MGPU_NAME(softmax_slope)(const MGPU_REAL *p, MGPU_REAL *dp, MGPU_REAL scale, int64_t low, int64_t high,
                                            int64_t to)
{
    int64_t begin = low / LANES * LANES, end = mgpu_round_up(high, LANES);
    MGPU_NAME(fill_edges)(dp, begin, low, high, end, 0);
    VECTOR total = {0}, all = {0};
    for (int64_t j = begin; j < end; j += LANES) {
        total += LOAD(p + j) * LOAD(dp + j);
        all += LOAD(p + j);
    }
    MGPU_REAL mean = low < high ? MGPU_NAME(sum_of)(total) / MGPU_NAME(sum_of)(all) : 0;
    for (int64_t j = begin; j < end; j += LANES)
        STORE(dp + j) = LOAD(p + j) * scale * (LOAD(dp + j) - mean);
    MGPU_NAME(clear_around)(dp, begin, end, to);
}

/* ---- matmuls: C [m, some vectors] = or += A [m, k] B. row and row_c: offsets of the rows of A and C; row has extra elements for
 * a tile with too many rows. */
MGPU_INLINE void MGPU_NAME(attend_tiles)(int64_t m, int64_t vectors, int64_t columns, int64_t depth, const MGPU_REAL *a,
                                         const int64_t *row, const int64_t *along_k, const MGPU_REAL *b, int64_t next,
                                         MGPU_REAL *c, const int64_t *row_c, bool add)
{
    static const int64_t most[] = {MGPU_ROWS_1, MGPU_ROWS_2, MGPU_ROWS_3, MGPU_ROWS_4};
    int64_t tiles = mgpu_quotient_up(m, most[vectors - 1]), rows;
    for (int64_t i = 0; i < m; i += rows, tiles--) {
        rows = mgpu_quotient_up(m - i, tiles);
        MGPU_NAME(tile) *const *tile = &MGPU_NAME(tiles)[vectors - 1][rows - 1];
        while (*tile == NULL)
            tile++;
        (*tile)(depth, a, row + i, along_k, b, LANES, next, c, row_c + i, rows, columns, add, &(mgpu_prefetch){.each = 0});
    }
}

/* The first key that query i sees, and one after the last, not below the first, of the block's keys. */
MGPU_INLINE int64_t MGPU_NAME(first_seen)(const MGPU_NAME(attend) * w, int64_t i)
{
    const mgpu_attention *t = w->table;
    return t->window > 0 ? mgpu_most(0, i + t->keys - t->queries - t->window + 1) : 0;
}

MGPU_INLINE int64_t MGPU_NAME(end_seen)(const MGPU_NAME(attend) * w, int64_t i)
{
    const mgpu_attention *t = w->table;
    return t->causal ? mgpu_most(0, mgpu_least(t->keys, i + t->keys - t->queries + 1)) : t->keys;
}

/* C [rows, keys low .. high) = A [rows, k] times keys or values packed along vectors. */
MGPU_NOINLINE void MGPU_NAME(attend_scores)(const MGPU_NAME(attend) * w, const MGPU_REAL *a, const int64_t *row,
                                            const MGPU_REAL *packed, int64_t depth, MGPU_REAL *c)
{
    const mgpu_attention *t = w->table;
    int64_t next = depth * LANES, vectors = mgpu_quotient_up(w->high - w->low, LANES), some, row_c[MGPU_ATTENTION_ROWS];
    for (int64_t i = 0; i < w->rows; i++)
        row_c[i] = i * w->room.pitch;
    for (int64_t v = 0; v < vectors; v += some) {
        int64_t key = w->low + v * LANES, first = 0;
        some = MGPU_NAME(tile_vectors)(vectors - v, w->rows);
        if (t->causal) /* the first row that sees one of these keys */
            first = mgpu_least(w->rows, mgpu_most(0, key - (t->keys - t->queries) - w->begin));
        for (int64_t done = 0, block; done < depth; done += block) {
            block = mgpu_least(depth - done, MGPU_BLOCK_DEPTH);
            MGPU_NAME(attend_tiles)
            (w->rows - first, some, LANES, block, a + done, row + first, w->one, packed + key / LANES * next + done * LANES, next,
             c + v * LANES, row_c + first, done > 0);
        }
    }
}

/* C [rows, columns] = P [rows, keys] times keys or values packed by their elements; pitch: of C. */
MGPU_NOINLINE void MGPU_NAME(attend_values)(const MGPU_NAME(attend) * w, const MGPU_REAL *p, const MGPU_REAL *packed,
                                            int64_t columns, MGPU_REAL *c, int64_t pitch)
{
    int64_t next = w->table->keys * LANES, vectors = mgpu_quotient_up(columns, LANES), rows, some;
    int64_t row[MGPU_ROWS_1 + MGPU_ROWS_2], row_c[MGPU_ROWS_1], tiles = mgpu_quotient_up(w->rows, MGPU_ROWS_2);
    for (int64_t i = 0; i < w->rows; i += rows, tiles--) {
        rows = mgpu_quotient_up(w->rows - i, tiles);
        int64_t low = MGPU_NAME(first_seen)(w, w->begin + i) / LANES * LANES,
                high = MGPU_NAME(end_seen)(w, w->begin + i + rows - 1);
        for (int64_t r = 0; r < MGPU_ROWS_1 + MGPU_ROWS_2; r++)
            row[r] = mgpu_least(r, rows - 1) * w->room.pitch;
        for (int64_t r = 0; r < rows; r++)
            row_c[r] = r * pitch;
        for (int64_t r = 0; r < rows && low >= high; r++) /* rows that see nothing */
            MGPU_NAME(clear)(c + (i + r) * pitch, vectors * LANES);
        for (int64_t v = 0; v < vectors; v += some) {
            some = MGPU_NAME(tile_vectors)(vectors - v, rows);
            for (int64_t key = low, block; key < high; key += block) {
                block = mgpu_least(high - key, MGPU_BLOCK_DEPTH);
                MGPU_NAME(attend_tiles)
                (rows, some, mgpu_least(LANES, columns - (v + some - 1) * LANES), block, p + i * w->room.pitch + (key - w->low),
                 row, w->one, packed + v * next + key * LANES, next, c + i * pitch + v * LANES, row_c, key > low);
            }
        }
    }
}

/* C [keys, columns] += P' [keys, rows] times the block's packed queries. */
MGPU_NOINLINE void MGPU_NAME(attend_keys)(const MGPU_NAME(attend) * w, const MGPU_REAL *p, const MGPU_REAL *packed,
                                          int64_t columns, MGPU_REAL *c, int64_t pitch)
{
    const mgpu_attention *t = w->table;
    int64_t next = w->rows * LANES, vectors = mgpu_quotient_up(columns, LANES), keys, some;
    int64_t row_c[MGPU_ROWS_1], along_k[MGPU_ATTENTION_ROWS];
    for (int64_t i = 0; i < w->rows; i++)
        along_k[i] = i * w->room.pitch;
    for (int64_t r = 0; r < MGPU_ROWS_1; r++)
        row_c[r] = r * pitch;
    int64_t tiles = mgpu_quotient_up(w->high - w->low, MGPU_ROWS_2);
    for (int64_t key = w->low; key < w->high; key += keys, tiles--) {
        keys = mgpu_quotient_up(w->high - key, tiles);
        int64_t first = t->causal ? mgpu_least(w->rows, mgpu_most(0, key - (t->keys - t->queries) - w->begin)) : 0;
        for (int64_t v = 0; v < vectors && first < w->rows; v += some) {
            some = MGPU_NAME(tile_vectors)(vectors - v, keys);
            MGPU_NAME(attend_tiles)
            (keys, some, mgpu_least(LANES, columns - (v + some - 1) * LANES), w->rows - first, p + (key - w->low), w->up,
             along_k + first, packed + v * next + first * LANES, next, c + key * pitch + v * LANES, row_c, true);
        }
    }
}

/* ---- operands and results */
MGPU_INLINE void MGPU_NAME(attend_pack)(MGPU_REAL *to, const void *from, int64_t first, mgpu_half half, int64_t row, int64_t rows,
                                        int64_t columns, bool rows_along)
{
    mgpu_index index[2] = {{.count = 1}, {.count = 1}};
    mgpu_index_add(&index[0], rows, row, -1, 0);
    mgpu_index_add(&index[1], columns, 1, -1, 0);
    const mgpu_index *across = &index[!rows_along], *down = &index[rows_along];
    MGPU_NAME(pack)(to, down->count, from, first, half, across, 0, across->count, down, 0, down->count);
}

/* Returns the rows of A for a block of queries, in place or widened, and sets w->own. */
MGPU_INLINE const MGPU_REAL *MGPU_NAME(attend_rows)(MGPU_NAME(attend) * w, const void *from, int64_t first,
                                                    const mgpu_attention_operand *o, int64_t columns, MGPU_REAL *copy)
{
    first += w->begin * o->row;
    for (int64_t i = 0; i < w->rows + MGPU_ROWS_1; i++)
        w->own[i] = mgpu_least(i, w->rows - 1) * (o->half ? columns : o->row);
    if (!o->half)
        return (const MGPU_REAL *)from + first;
    for (int64_t i = 0; i < w->rows; i++)
        MGPU_NAME(copy_half)(copy + i * columns, (const uint16_t *)from + first + i * o->row, o->half, columns);
    return copy;
}

MGPU_INLINE void MGPU_NAME(attend_put)(void *to, int64_t first, const mgpu_attention_operand *o, int64_t begin, int64_t rows,
                                       int64_t columns, const MGPU_REAL *from, int64_t pitch)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c += LANES)
            MGPU_NAME(put_part)
    (to, first + (begin + i) * o->row + c, o->half, mgpu_least(LANES, columns - c), LOAD(from + i * pitch + c));
}

/* ---- a block of queries of a head: p; then y, or dq and the block's part of dk and dv */

/* Computes p: forward from scores, and its sums; backward from the sums. */
MGPU_INLINE void MGPU_NAME(attend_shares)(MGPU_NAME(attend) * w, MGPU_REAL *p, int64_t to)
{
    const mgpu_attention *t = w->table;
    const MGPU_REAL *q = MGPU_NAME(attend_rows)(w, w->q, w->at_q, &t->q, t->d, w->work + w->room.q_copy);
    MGPU_NAME(attend_scores)(w, q, w->own, w->work + w->room.k_t, t->d, p);
    for (int64_t i = 0; i < w->rows; i++) {
        MGPU_REAL *row = p + i * w->room.pitch;
        MGPU_REAL *sums = w->sums ? w->sums + w->at_sums + (w->begin + i) * t->sums.row : NULL;
        int64_t low = MGPU_NAME(first_seen)(w, w->begin + i) - w->low, high = MGPU_NAME(end_seen)(w, w->begin + i) - w->low;
        if (t->backward)
            MGPU_NAME(shares_row)(row, (MGPU_REAL)t->scale, sums, low, high, to);
        else
            MGPU_NAME(softmax_row)(row, (MGPU_REAL)t->scale, low, high, to, sums);
    }
}

MGPU_NOINLINE void MGPU_NAME(attend_block)(MGPU_NAME(attend) * w)
{
    const mgpu_attention *t = w->table;
    const mgpu_attention_room *room = &w->room;
    MGPU_REAL *work = w->work, *p = work + room->p, *dp = work + room->dp, *result = work + room->result;
    int64_t d = mgpu_round_up(t->d, LANES), e = mgpu_round_up(t->e, LANES);
    w->low = MGPU_NAME(first_seen)(w, w->begin) / LANES * LANES;
    w->high = MGPU_NAME(end_seen)(w, w->begin + w->rows - 1);
    int64_t to = mgpu_round_up(w->high - w->low, LANES);
    MGPU_NAME(attend_shares)(w, p, to);
    if (!t->backward && w->y) {
        MGPU_NAME(attend_values)(w, p, work + room->v_n, t->e, result, e);
        MGPU_NAME(attend_put)(w->y, w->at_y, &t->y, w->begin, w->rows, t->e, result, e);
    }
    if (!t->backward)
        return;
    if (t->dv.argument >= 0) {
        MGPU_NAME(attend_pack)(work + room->g_n, w->g, w->at_g + w->begin * t->g.row, t->g.half, t->g.row, w->rows, t->e, false);
        MGPU_NAME(attend_keys)(w, p, work + room->g_n, t->e, work + room->dv, e);
    }
    if (t->dq.argument < 0 && t->dk.argument < 0)
        return;
    const MGPU_REAL *g = MGPU_NAME(attend_rows)(w, w->g, w->at_g, &t->g, t->e, work + room->g_copy);
    MGPU_NAME(attend_scores)(w, g, w->own, work + room->v_t, t->e, dp);
    for (int64_t i = 0; i < w->rows; i++)
        MGPU_NAME(softmax_slope)
    (p + i * room->pitch, dp + i * room->pitch, (MGPU_REAL)t->scale, MGPU_NAME(first_seen)(w, w->begin + i) - w->low,
     MGPU_NAME(end_seen)(w, w->begin + i) - w->low, to);
    if (t->dq.argument >= 0) {
        MGPU_NAME(attend_values)(w, dp, work + room->k_n, t->d, result, d);
        MGPU_NAME(attend_put)(w->dq, w->at_dq, &t->dq, w->begin, w->rows, t->d, result, d);
    }
    if (t->dk.argument >= 0) {
        MGPU_NAME(attend_pack)(work + room->q_n, w->q, w->at_q + w->begin * t->q.row, t->q.half, t->q.row, w->rows, t->d, false);
        MGPU_NAME(attend_keys)(w, dp, work + room->q_n, t->d, work + room->dk, d);
    }
}

/* Processes all heads of q that share one of k and v. */
MGPU_NOINLINE void MGPU_NAME(attend_group)(MGPU_NAME(attend) * w, void *const *argument, int64_t sample, int64_t group)
{
    const mgpu_attention *t = w->table;
    const mgpu_attention_room *room = &w->room;
    int64_t d = mgpu_round_up(t->d, LANES), e = mgpu_round_up(t->e, LANES), heads = t->heads / t->groups;
    w->at_k = t->k.first + sample * t->k.sample + group * t->k.head;
    w->at_v = t->v.first + sample * t->v.sample + group * t->v.head;
    MGPU_NAME(attend_pack)(w->work + room->k_t, argument[t->k.argument], w->at_k, t->k.half, t->k.row, t->keys, t->d, true);
    if (!t->backward) {
        MGPU_NAME(attend_pack)(w->work + room->v_n, argument[t->v.argument], w->at_v, t->v.half, t->v.row, t->keys, t->e, false);
    } else {
        MGPU_NAME(attend_pack)(w->work + room->k_n, argument[t->k.argument], w->at_k, t->k.half, t->k.row, t->keys, t->d, false);
        MGPU_NAME(attend_pack)(w->work + room->v_t, argument[t->v.argument], w->at_v, t->v.half, t->v.row, t->keys, t->e, true);
        MGPU_NAME(clear)(w->work + room->dk, t->keys * d);
        MGPU_NAME(clear)(w->work + room->dv, t->keys * e);
    }
    for (int64_t h = group * heads; h < (group + 1) * heads; h++) {
        w->at_q = t->q.first + sample * t->q.sample + h * t->q.head;
        w->at_g = t->g.first + sample * t->g.sample + h * t->g.head;
        w->at_y = t->y.first + sample * t->y.sample + h * t->y.head;
        w->at_sums = t->sums.first + sample * t->sums.sample + h * t->sums.head;
        w->at_dq = t->dq.first + sample * t->dq.sample + h * t->dq.head;
        for (w->begin = 0; w->begin < t->queries; w->begin += w->rows) {
            w->rows = mgpu_least(t->rows, t->queries - w->begin);
            MGPU_NAME(attend_block)(w);
        }
    }
    w->at_dk = t->dk.first + sample * t->dk.sample + group * t->dk.head;
    w->at_dv = t->dv.first + sample * t->dv.sample + group * t->dv.head;
    if (t->backward && t->dk.argument >= 0)
        MGPU_NAME(attend_put)(w->dk, w->at_dk, &t->dk, 0, t->keys, t->d, w->work + room->dk, d);
    if (t->backward && t->dv.argument >= 0)
        MGPU_NAME(attend_put)(w->dv, w->at_dv, &t->dv, 0, t->keys, t->e, w->work + room->dv, e);
}

MGPU_NOINLINE void MGPU_NAME(attend_samples)(const mgpu_attention *t, void *const *argument, const mgpu_part *part)
{
    MGPU_NAME(attend) w = {.table = t, .room = mgpu_attention_layout(t), .work = argument[t->workspace]};
    w.q = argument[t->q.argument];
    w.k = argument[t->k.argument];
    w.v = argument[t->v.argument];
    w.g = t->backward ? argument[t->g.argument] : NULL;
    w.y = !t->backward && t->y.argument >= 0 ? argument[t->y.argument] : NULL;
    w.sums = t->sums.argument >= 0 ? argument[t->sums.argument] : NULL;
    w.dq = t->backward && t->dq.argument >= 0 ? argument[t->dq.argument] : NULL;
    w.dk = t->backward && t->dk.argument >= 0 ? argument[t->dk.argument] : NULL;
    w.dv = t->backward && t->dv.argument >= 0 ? argument[t->dv.argument] : NULL;
    for (int64_t i = 0; i < MGPU_BLOCK_DEPTH; i++)
        w.one[i] = i;
    for (int64_t i = 0; i < MGPU_ATTENTION_ROWS + MGPU_ROWS_1; i++)
        w.up[i] = i;
    for (int64_t sample = part->begin; sample < part->end; sample++)
        for (int64_t group = 0; group < t->groups; group++)
            MGPU_NAME(attend_group)(&w, argument, sample, group);
}
