/* contract_tile.h: vectors and the matmul in registers, for one element type. Included by contract_matmul.h with MGPU_REAL and
 * MGPU_NAME(name) defined. */
typedef MGPU_REAL MGPU_NAME(vector) __attribute__((vector_size(MGPU_VECTOR_BYTES)));
typedef MGPU_REAL MGPU_NAME(anywhere) /* a vector in memory, aligned to elements */
    __attribute__((vector_size(MGPU_VECTOR_BYTES), aligned(sizeof(MGPU_REAL)), may_alias));
typedef MGPU_REAL MGPU_NAME(half) __attribute__((vector_size(MGPU_VECTOR_BYTES / 2), aligned(sizeof(MGPU_REAL)), may_alias));
#define VECTOR MGPU_NAME(vector)
#define HALF MGPU_NAME(half)
#define MASK MGPU_NAME(mask)
#define LANES ((int64_t)(MGPU_VECTOR_BYTES / sizeof(MGPU_REAL)))
#define LOAD(address) ((VECTOR) * (const MGPU_NAME(anywhere) *)(address))
#define STORE(address) (*(MGPU_NAME(anywhere) *)(address))
#define SPLAT(number) ((number) - (VECTOR){0})
#define LOAD_PART(address, mask) MGPU_NAME(load_part)(address, mask)
#define STORE_PART(address, mask, value) MGPU_NAME(store_part)(address, mask, value)

/* ---- The first elements of a vector: later ones are neither read nor written in memory, and 0 in registers. */
#if MGPU_VECTOR_BYTES == 64
typedef unsigned MASK;
MGPU_INLINE MASK MGPU_NAME(mask_of)(int64_t count) { return (1u << count) - 1; }
MGPU_INLINE VECTOR MGPU_NAME(load_part)(const MGPU_REAL *from, MASK mask)
{
    if (sizeof(MGPU_REAL) == 4)
        return (VECTOR)_mm512_maskz_loadu_ps((__mmask16)mask, from);
    return (VECTOR)_mm512_maskz_loadu_pd((__mmask8)mask, from);
}
MGPU_INLINE void MGPU_NAME(store_part)(MGPU_REAL *to, MASK mask, VECTOR value)
{
    if (sizeof(MGPU_REAL) == 4)
        _mm512_mask_storeu_ps(to, (__mmask16)mask, (__m512)value);
    else
        _mm512_mask_storeu_pd(to, (__mmask8)mask, (__m512d)value);
}
#elif MGPU_VECTOR_BYTES == 32
typedef __m256i MASK;
MGPU_INLINE MASK MGPU_NAME(mask_of)(int64_t count)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i_u *)(ones + 8 - count * (int64_t)sizeof(MGPU_REAL) / 4));
}
MGPU_INLINE VECTOR MGPU_NAME(load_part)(const MGPU_REAL *from, MASK mask)
{
    if (sizeof(MGPU_REAL) == 4)
        return (VECTOR)_mm256_maskload_ps((const float *)from, mask);
    return (VECTOR)_mm256_maskload_pd((const double *)from, mask);
}
MGPU_INLINE void MGPU_NAME(store_part)(MGPU_REAL *to, MASK mask, VECTOR value)
{
    if (sizeof(MGPU_REAL) == 4)
        _mm256_maskstore_ps((float *)to, mask, (__m256)value);
    else
        _mm256_maskstore_pd((double *)to, mask, (__m256d)value);
}
#else
typedef int64_t MASK;
MGPU_INLINE MASK MGPU_NAME(mask_of)(int64_t count) { return count; }
MGPU_INLINE VECTOR MGPU_NAME(load_part)(const MGPU_REAL *from, MASK mask)
{
    VECTOR value = {0};
    if (mask == LANES)
        return LOAD(from);
    for (int64_t i = 0; i < mask; i++)
        value[i] = from[i];
    return value;
}
MGPU_INLINE void MGPU_NAME(store_part)(MGPU_REAL *to, MASK mask, VECTOR value)
{
    if (mask == LANES)
        STORE(to) = value;
    else
        for (int64_t i = 0; i < mask; i++)
            to[i] = value[i];
}
#endif

/* ---- A tile: ROWS x (VECTORS of) columns of C, over `depth` elements of K. A's element (r, k) is a[row[r] + along_k[k]] (for
 * tiles of the batch, a vector of the columns there). B's (k, v) is the vector at b[k * ldb + v * next_b] (for tiles of the
 * batch, only its columns). Meanwhile the tile prefetches some of what comes next. C: rows at c + row_c[r] for r < used, with
 * contiguous columns, of which the last vector has `columns`; `add` says what becomes of it. row has ROWS elements. With one
 * vector, loading A would limit the speed, so the rows' addresses are used for two elements of K. */
typedef void MGPU_NAME(tile)(int64_t depth, const MGPU_REAL *a, const int64_t *row, const int64_t *along_k, const MGPU_REAL *b,
                             int64_t ldb, int64_t next_b, MGPU_REAL *c, const int64_t *row_c, int64_t used, int64_t columns,
                             mgpu_addition add, mgpu_prefetch *ahead);

#define MGPU_UNROLL _Pragma("GCC unroll 32")
#define MGPU_STEP(COUNT, ROWS, VECTORS, BESIDE)                                                                                  \
    {                                                                                                                            \
        VECTOR column[COUNT][VECTORS];                                                                                           \
        int64_t at[COUNT];                                                                                                       \
        MGPU_UNROLL for (int k = 0; k < COUNT; k++)                                                                              \
        {                                                                                                                        \
            at[k] = along_k[k];                                                                                                  \
            MGPU_UNROLL for (int v = 0; v < VECTORS; v++) __builtin_prefetch(b + (k + 8) * ldb + v * next_b);                    \
            MGPU_UNROLL for (int v = 0; v < VECTORS; v++) column[k][v] =                                                         \
                BESIDE ? LOAD_PART(b + k * ldb, mask) : LOAD(b + k * ldb + v * next_b);                                          \
        }                                                                                                                        \
        MGPU_UNROLL for (int r = 0; r < ROWS; r++) MGPU_UNROLL for (int k = 0; k < COUNT; k++)                                   \
        {                                                                                                                        \
            VECTOR own = BESIDE ? LOAD_PART(from[r] + at[k], mask) : SPLAT(from[r][at[k]]);                                      \
            MGPU_UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += own * column[k][v];                                       \
        }                                                                                                                        \
        along_k += COUNT;                                                                                                        \
        b += COUNT * ldb;                                                                                                        \
        left -= COUNT;                                                                                                           \
    }
#define MGPU_TILE(name, ROWS, VECTORS, COUNT, BESIDE)                                                                            \
    MGPU_NOINLINE void MGPU_NAME(name)(int64_t depth, const MGPU_REAL *a, const int64_t *row, const int64_t *along_k,            \
                                       const MGPU_REAL *b, int64_t ldb, int64_t next_b, MGPU_REAL *c, const int64_t *row_c,      \
                                       int64_t used, int64_t columns, mgpu_addition add, mgpu_prefetch *ahead)                   \
    {                                                                                                                            \
        const MASK mask = MGPU_NAME(mask_of)(columns);                                                                           \
        const MGPU_REAL *from[ROWS];                                                                                             \
        VECTOR sum[ROWS][VECTORS];                                                                                               \
        MGPU_UNROLL for (int r = 0; r < ROWS; r++)                                                                               \
        {                                                                                                                        \
            from[r] = a + row[r];                                                                                                \
            MGPU_UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] = (VECTOR){0};                                               \
        }                                                                                                                        \
        for (int64_t r = 0; add == MGPU_CONTINUED && r < used; r++) {                                                            \
            for (int v = 0; v < VECTORS - 1; v++)                                                                                \
                sum[r][v] = LOAD(c + row_c[r] + v * LANES);                                                                      \
            sum[r][VECTORS - 1] = LOAD_PART(c + row_c[r] + (VECTORS - 1) * LANES, mask);                                         \
        }                                                                                                                        \
        int64_t some = depth < 4 * ROWS ? depth : depth / ROWS / 2 * 2;                                                          \
        for (int64_t fetched = 0; depth > 0; fetched++) {                                                                        \
            int64_t left = fetched < ROWS - 1 && some < depth ? some : depth;                                                    \
            depth -= left;                                                                                                       \
            if (fetched < used) /* C, row by row: all at once would delay A and B */                                             \
                MGPU_UNROLL for (int v = 0; v < VECTORS; v++) __builtin_prefetch(c + row_c[fetched] + v * LANES, 1);             \
            if (__builtin_expect(ahead->each > 0, 0)) /* rare: it gets no registers */                                           \
                mgpu_fetch(ahead);                                                                                               \
            while (left >= COUNT)                                                                                                \
                MGPU_STEP(COUNT, ROWS, VECTORS, BESIDE)                                                                          \
            while (COUNT > 1 && left > 0)                                                                                        \
                MGPU_STEP(1, ROWS, VECTORS, BESIDE)                                                                              \
        }                                                                                                                        \
        MGPU_UNROLL for (int r = 0; r < ROWS; r++)                                                                               \
        {                                                                                                                        \
            if (r >= used)                                                                                                       \
                return;                                                                                                          \
            MGPU_REAL *to = c + row_c[r], *end = to + (VECTORS - 1) * LANES;                                                     \
            MGPU_UNROLL for (int v = 0; v < VECTORS - 1; v++) STORE(to + v * LANES) =                                            \
                add == MGPU_ADDED ? sum[r][v] + LOAD(to + v * LANES) : sum[r][v];                                                \
            STORE_PART(end, mask, add == MGPU_ADDED ? sum[r][VECTORS - 1] + LOAD_PART(end, mask) : sum[r][VECTORS - 1]);         \
        }                                                                                                                        \
    }
#define MGPU_TILE_OF(rows, vectors) MGPU_TILE(tile_##rows##_##vectors, rows, vectors, ((vectors) == 1 ? 2 : 1), false)
#define MGPU_TILE_BESIDE(rows) MGPU_TILE(tile_##rows##_beside, rows, 1, 1, true)
MGPU_TILES(MGPU_TILE_OF)
MGPU_TILES_BESIDE(MGPU_TILE_BESIDE)

/* [vectors - 1, or 4 for tiles of the batch][rows - 1]; NULL: use the next larger one. */
#define MGPU_TILE_ENTRY(rows, vectors) [vectors - 1][rows - 1] = MGPU_NAME(tile_##rows##_##vectors),
#define MGPU_TILE_ENTRY_BESIDE(rows) [4][rows - 1] = MGPU_NAME(tile_##rows##_beside),
static MGPU_NAME(tile) *const
    MGPU_NAME(tiles)[5][MGPU_ROWS_1] = {MGPU_TILES(MGPU_TILE_ENTRY) MGPU_TILES_BESIDE(MGPU_TILE_ENTRY_BESIDE)};
#undef MGPU_UNROLL
#undef MGPU_STEP
#undef MGPU_TILE
#undef MGPU_TILE_OF
#undef MGPU_TILE_BESIDE
#undef MGPU_TILE_ENTRY
#undef MGPU_TILE_ENTRY_BESIDE
