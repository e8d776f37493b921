/* contract_pack.h: moves elements for the matmul, for one element type: copies of A, packed B, and results that are not stored
 * to C directly. Included by contract_matmul.h after contract_tile.h. Operands may be bf16 or f16, and are converted to
 * MGPU_REAL. */

/* ---- bf16 and f16 */
typedef uint16_t MGPU_NAME(short_vector)
    __attribute__((vector_size(2 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL)), aligned(2), may_alias));
typedef uint32_t MGPU_NAME(word_vector) __attribute__((vector_size(4 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL))));
typedef float MGPU_NAME(float_vector) __attribute__((vector_size(4 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL))));
#define WORDS MGPU_NAME(word_vector)
#define FLOATS MGPU_NAME(float_vector)

/* The first elements of a vector: later ones are neither read nor written in memory, and 0 in registers. */
#if MGPU_VECTOR_BYTES == 64
MGPU_INLINE VECTOR MGPU_NAME(load_half)(const uint16_t *from, mgpu_half half, int64_t count)
{
    __m256i narrow = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), from);
    __m512 wide = half == MGPU_HALF_F16 ? _mm512_cvtph_ps(narrow)
                                        : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
    if (sizeof(MGPU_REAL) == 4)
        return (VECTOR)wide;
    return (VECTOR)_mm512_cvtps_pd(_mm512_castps512_ps256(wide));
}

MGPU_INLINE __m256i MGPU_NAME(to_bf16)(__m512 value)
{
    __m512i word = (__m512i)value, odd = _mm512_and_si512(_mm512_srli_epi32(word, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(word, _mm512_set1_epi32(0x7fff)), odd);
    up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), word, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}

MGPU_INLINE void MGPU_NAME(store_half)(uint16_t *to, mgpu_half half, int64_t count, VECTOR value)
{
    __m512 narrow = sizeof(MGPU_REAL) == 4 ? (__m512)value : _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)value));
    __m256i halves = half == MGPU_HALF_F16 ? _mm512_cvtps_ph(narrow, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                                           : MGPU_NAME(to_bf16)(narrow);
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), halves);
}
#else
/* As in mgpu_half.h, for vectors. */
MGPU_INLINE FLOATS MGPU_NAME(from_f16)(WORDS v)
{
    WORDS sign = (v & 0x8000) << 16, body = (v & 0x7fff) << 13;
    WORDS normal = body + (112u << 23) + ((WORDS)(body >= 0x0f800000) & 112u << 23);
    WORDS tiny = (WORDS)(body < 0x00800000), small = (WORDS)((FLOATS)(body + (113u << 23)) - 0x1p-14f);
    return (FLOATS)((small & tiny) | (normal & ~tiny) | sign);
}

MGPU_INLINE WORDS MGPU_NAME(to_f16)(FLOATS v)
{
    WORDS bits = (WORDS)v, sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    WORDS normal = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
    WORDS small = (WORDS)((FLOATS)size + 0.5f) - 0x3f000000;
    WORDS large = 0x7c00 | ((WORDS)(size > 0x7f800000) & 0x200);
    WORDS is_large = (WORDS)(size >= 0x477ff000), is_small = (WORDS)(size < 0x38800000);
    return sign | (large & is_large) | (small & is_small) | (normal & ~is_large & ~is_small);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
MGPU_INLINE WORDS MGPU_NAME(to_bf16)(FLOATS v)
{
    WORDS bits = (WORDS)v, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = (WORDS)(v != v);
    return (rounded & ~nan) | ((bits >> 16 | 0x40) & nan);
}

MGPU_INLINE VECTOR MGPU_NAME(load_half)(const uint16_t *from, mgpu_half half, int64_t count)
{
    uint16_t some[LANES] = {0};
    if (count < LANES) {
        for (int64_t i = 0; i < count; i++)
            some[i] = from[i];
        from = some;
    }
    WORDS bits = __builtin_convertvector(*(const MGPU_NAME(short_vector) *)from, WORDS);
    return __builtin_convertvector(half == MGPU_HALF_F16 ? MGPU_NAME(from_f16)(bits) : (FLOATS)(bits << 16), VECTOR);
}

MGPU_INLINE void MGPU_NAME(store_half)(uint16_t *to, mgpu_half half, int64_t count, VECTOR value)
{
    FLOATS narrow = __builtin_convertvector(value, FLOATS);
    WORDS bits = half == MGPU_HALF_F16 ? MGPU_NAME(to_f16)(narrow) : MGPU_NAME(to_bf16)(narrow);
    union {
        MGPU_NAME(short_vector) all;
        uint16_t one[LANES];
    } halves;
    halves.all = __builtin_convertvector(bits, MGPU_NAME(short_vector));
    for (int64_t i = 0; i < count; i++)
        to[i] = halves.one[i];
}
#endif

/* Reads or writes an element of an operand or of C. */
MGPU_INLINE MGPU_REAL MGPU_NAME(get)(const void *from, int64_t at, mgpu_half half)
{
    if (half == MGPU_HALF_NOT)
        return ((const MGPU_REAL *)from)[at];
    uint16_t value = ((const uint16_t *)from)[at];
    return (MGPU_REAL)(half == MGPU_HALF_F16 ? mgpu_from_f16(value) : mgpu_from_bf16(value));
}

MGPU_INLINE void MGPU_NAME(put)(void *to, int64_t at, mgpu_half half, MGPU_REAL value)
{
    if (half == MGPU_HALF_NOT)
        ((MGPU_REAL *)to)[at] = value;
    else
        ((uint16_t *)to)[at] = half == MGPU_HALF_F16 ? mgpu_to_f16((float)value) : mgpu_to_bf16((float)value);
}

/* Likewise for the first `count` elements of a vector. */
MGPU_INLINE VECTOR MGPU_NAME(get_part)(const void *from, int64_t at, mgpu_half half, int64_t count)
{
    if (half)
        return MGPU_NAME(load_half)((const uint16_t *)from + at, half, count);
    return LOAD_PART((const MGPU_REAL *)from + at, MGPU_NAME(mask_of)(count));
}

MGPU_INLINE void MGPU_NAME(put_part)(void *to, int64_t at, mgpu_half half, int64_t count, VECTOR value)
{
    if (half)
        MGPU_NAME(store_half)((uint16_t *)to + at, half, count, value);
    else
        STORE_PART((MGPU_REAL *)to + at, MGPU_NAME(mask_of)(count), value);
}

/* ---- runs */
MGPU_INLINE void MGPU_NAME(copy)(MGPU_REAL *to, const MGPU_REAL *from, int64_t count)
{
    if (count >= LANES) { /* the last vector overlaps the previous one */
        VECTOR last = LOAD(from + count - LANES);
        for (int64_t i = 0; i < count - LANES; i += LANES)
            STORE(to + i) = LOAD(from + i);
        STORE(to + count - LANES) = last;
    } else if (LANES > 2 && count >= LANES / 2) {
        HALF first = *(const HALF *)from, last = *(const HALF *)(from + count - LANES / 2);
        *(HALF *)to = first;
        *(HALF *)(to + count - LANES / 2) = last;
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

MGPU_INLINE void MGPU_NAME(copy_halves)(MGPU_REAL *to, const uint16_t *from, mgpu_half half, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        STORE(to + i) = MGPU_NAME(load_half)(from + i, half, LANES);
    if (i < count)
        STORE_PART(to + i, MGPU_NAME(mask_of)(count - i), MGPU_NAME(load_half)(from + i, half, count - i));
}

MGPU_INLINE void MGPU_NAME(copy_half)(MGPU_REAL *to, const uint16_t *from, mgpu_half half, int64_t count)
{
    if (half == MGPU_HALF_BF16)
        MGPU_NAME(copy_halves)(to, from, MGPU_HALF_BF16, count);
    else
        MGPU_NAME(copy_halves)(to, from, MGPU_HALF_F16, count);
}

MGPU_INLINE void MGPU_NAME(clear)(MGPU_REAL *to, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        STORE(to + i) = (VECTOR){0};
    for (; i < count; i++)
        to[i] = 0;
}

/* Copies the elements of one line of a copy's innermost dimension; a: its first element, which may be outside of A. */
MGPU_INLINE void MGPU_NAME(copy_run)(MGPU_REAL *to, const void *a, int64_t from, mgpu_half half, const mgpu_dim *run)
{
    int64_t count = run->high - run->low;
    from += run->low * run->from;
    if (run->to == 1) {
        MGPU_NAME(clear)(to, run->low);
        MGPU_NAME(clear)(to + run->high, run->extent - run->high);
        to += run->low;
        if (run->from == 1 && !half)
            MGPU_NAME(copy)(to, (const MGPU_REAL *)a + from, count);
        else if (run->from == 1)
            MGPU_NAME(copy_half)(to, (const uint16_t *)a + from, half, count);
        else
            for (int64_t i = 0; i < count; i++)
                to[i] = MGPU_NAME(get)(a, from + i * run->from, half);
        return;
    }
    for (int64_t i = 0; i < run->extent; i++, to += run->to)
        *to = i < run->low || i >= run->high ? 0 : MGPU_NAME(get)(a, from + (i - run->low) * run->from, half);
}

MGPU_NOINLINE void MGPU_NAME(copy_box)(MGPU_REAL *to, const void *a, int64_t from, mgpu_half half, mgpu_patch *copy)
{
    mgpu_patch_join(copy);
    int last = copy->dims - 2;
    const mgpu_dim *line = &copy->dim[last], *run = &copy->dim[last + 1];
    mgpu_dim none = *run;
    none.low = none.high = 0;
    int64_t at[2 * MGPU_AXES + 1] = {0};
    from += copy->from;
    for (;;) {
        int64_t low = line->low, high = line->high;
        for (int i = 0; i < last; i++)
            if (at[i] < copy->dim[i].low || at[i] >= copy->dim[i].high)
                low = high = 0;
        for (int64_t i = 0; i < line->extent; i++)
            MGPU_NAME(copy_run)(to + i * line->to, a, from + i * line->from, half, i >= low && i < high ? run : &none);
        int i = last - 1;
        for (; i >= 0; i--) {
            from += copy->dim[i].from;
            to += copy->dim[i].to;
            if (++at[i] < copy->dim[i].extent)
                break;
            from -= at[i] * copy->dim[i].from;
            to -= at[i] * copy->dim[i].to;
            at[i] = 0;
        }
        if (i < 0)
            return;
    }
}

/* ---- transposition: to[place[c] + r] = from[row[r] + c] for r < rows <= LANES, c < columns. Writes `written` elements of each
 * run; those from `rows` on are 0. */
#if MGPU_VECTOR_BYTES == 64
MGPU_INLINE void MGPU_NAME(transpose_square)(void *to, mgpu_half to_half, const int64_t *place, const void *from, int64_t first,
                                             mgpu_half from_half, const int64_t *row, int64_t rows, int64_t columns,
                                             int64_t written)
{
    typedef int64_t Longs __attribute__((vector_size(64)));
    VECTOR v[16], w[16];
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] =
        i < rows ? MGPU_NAME(get_part)(from, first + row[i], from_half, columns) : (VECTOR){0};
    if (sizeof(MGPU_REAL) == 4) {
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 2)
        {
            w[i] = (VECTOR)_mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
            w[i + 1] = (VECTOR)_mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 4)
        {
            v[i] = (VECTOR)_mm512_unpacklo_pd((__m512d)w[i], (__m512d)w[i + 2]);
            v[i + 1] = (VECTOR)_mm512_unpackhi_pd((__m512d)w[i], (__m512d)w[i + 2]);
            v[i + 2] = (VECTOR)_mm512_unpacklo_pd((__m512d)w[i + 1], (__m512d)w[i + 3]);
            v[i + 3] = (VECTOR)_mm512_unpackhi_pd((__m512d)w[i + 1], (__m512d)w[i + 3]);
        }
        _Pragma("GCC unroll 16") for (int j = 0; j < 4; j++)
        {
            VECTOR a = (VECTOR)_mm512_shuffle_f32x4((__m512)v[j], (__m512)v[j + 4], 0x88);
            VECTOR b = (VECTOR)_mm512_shuffle_f32x4((__m512)v[j], (__m512)v[j + 4], 0xdd);
            VECTOR c = (VECTOR)_mm512_shuffle_f32x4((__m512)v[j + 8], (__m512)v[j + 12], 0x88);
            VECTOR d = (VECTOR)_mm512_shuffle_f32x4((__m512)v[j + 8], (__m512)v[j + 12], 0xdd);
            w[j] = (VECTOR)_mm512_shuffle_f32x4((__m512)a, (__m512)c, 0x88);
            w[j + 8] = (VECTOR)_mm512_shuffle_f32x4((__m512)a, (__m512)c, 0xdd);
            w[j + 4] = (VECTOR)_mm512_shuffle_f32x4((__m512)b, (__m512)d, 0x88);
            w[j + 12] = (VECTOR)_mm512_shuffle_f32x4((__m512)b, (__m512)d, 0xdd);
        }
    } else {
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 2)
        {
            w[i] = (VECTOR)_mm512_unpacklo_pd((__m512d)v[i], (__m512d)v[i + 1]);
            w[i + 1] = (VECTOR)_mm512_unpackhi_pd((__m512d)v[i], (__m512d)v[i + 1]);
        }
        const Longs low = {0, 1, 8, 9, 4, 5, 12, 13}, high = {2, 3, 10, 11, 6, 7, 14, 15};
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 4)
        {
            _Pragma("GCC unroll 2") for (int j = 0; j < 2; j++)
            {
                v[i + j] = (VECTOR)_mm512_permutex2var_pd((__m512d)w[i + j], (__m512i)low, (__m512d)w[i + 2 + j]);
                v[i + 2 + j] = (VECTOR)_mm512_permutex2var_pd((__m512d)w[i + j], (__m512i)high, (__m512d)w[i + 2 + j]);
            }
        }
        _Pragma("GCC unroll 8") for (int j = 0; j < 4; j++)
        {
            w[j] = (VECTOR)_mm512_shuffle_f64x2((__m512d)v[j], (__m512d)v[j + 4], 0x44);
            w[j + 4] = (VECTOR)_mm512_shuffle_f64x2((__m512d)v[j], (__m512d)v[j + 4], 0xee);
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
    {
        if (i >= columns)
            return;
        MGPU_NAME(put_part)(to, place[i], to_half, written, w[i]);
    }
}
#else
MGPU_INLINE void MGPU_NAME(transpose_square)(void *to, mgpu_half to_half, const int64_t *place, const void *from, int64_t first,
                                             mgpu_half from_half, const int64_t *row, int64_t rows, int64_t columns,
                                             int64_t written)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < written; r++)
            MGPU_NAME(put)(to, place[c] + r, to_half, r < rows ? MGPU_NAME(get)(from, first + row[r] + c, from_half) : 0);
}
#endif

/* From an operand to packed vectors, and from sums to C. */
MGPU_NOINLINE void MGPU_NAME(transpose_in)(MGPU_REAL *to, const int64_t *place, const void *from, int64_t first, mgpu_half half,
                                           const int64_t *row, int64_t rows, int64_t columns)
{
    for (; columns > 0; columns -= LANES, first += LANES, place += LANES)
        if (half == MGPU_HALF_BF16)
            MGPU_NAME(transpose_square)
    (to, MGPU_HALF_NOT, place, from, first, MGPU_HALF_BF16, row, rows, mgpu_least(columns, LANES), LANES);
    else if (half) MGPU_NAME(transpose_square)(to, MGPU_HALF_NOT, place, from, first, MGPU_HALF_F16, row, rows,
                                               mgpu_least(columns, LANES), LANES);
    else MGPU_NAME(transpose_square)(to, MGPU_HALF_NOT, place, from, first, MGPU_HALF_NOT, row, rows, mgpu_least(columns, LANES),
                                     LANES);
}

MGPU_NOINLINE void MGPU_NAME(transpose_out)(void *to, mgpu_half half, const int64_t *place, const MGPU_REAL *from,
                                            const int64_t *row, int64_t rows, int64_t columns)
{
    for (; columns > 0; columns -= LANES, from += LANES, place += LANES)
        if (half == MGPU_HALF_BF16)
            MGPU_NAME(transpose_square)
    (to, MGPU_HALF_BF16, place, from, 0, MGPU_HALF_NOT, row, rows, mgpu_least(columns, LANES), rows);
    else if (half) MGPU_NAME(transpose_square)(to, MGPU_HALF_F16, place, from, 0, MGPU_HALF_NOT, row, rows,
                                               mgpu_least(columns, LANES), rows);
    else MGPU_NAME(transpose_square)(to, MGPU_HALF_NOT, place, from, 0, MGPU_HALF_NOT, row, rows, mgpu_least(columns, LANES),
                                     rows);
}

/* ---- B as vectors: element (k, n) is at to[(n / LANES * pitch + k) * LANES + n % LANES], counted from the first of each;
 * missing columns are 0. Also used for A, with M in place of N. */

/* Packs vectors of contiguous columns; place: offsets of elements of K in the result. */
MGPU_INLINE void MGPU_NAME(pack_together)(MGPU_REAL *to, int64_t pitch, const void *b, int64_t column, mgpu_half half,
                                          const int64_t *along_k, const int64_t *place, int64_t depth, int64_t columns)
{
    int64_t vectors = mgpu_quotient_up(columns, LANES), rest = columns - (vectors - 1) * LANES;
    for (int64_t k = 0; k < depth; k++)
        for (int64_t v = 0; v < vectors; v++)
            STORE(to + v * pitch * LANES + place[k]) =
                MGPU_NAME(get_part)(b, column + along_k[k] + v * LANES, half, v < vectors - 1 ? LANES : rest);
}

/* Packs one vector of columns that are not contiguous; along: some of K is contiguous. */
MGPU_INLINE void MGPU_NAME(pack_apart)(MGPU_REAL *to, const void *b, int64_t first, mgpu_half half, bool along,
                                       const int64_t *column, int64_t columns, const int64_t *along_k, const int64_t *place,
                                       int64_t depth)
{
    for (int64_t k = 0, run; k < depth; k += run) {
        run = 1;
        while (along && k + run < depth && along_k[k + run] == along_k[k] + run)
            run++;
        if (run >= LANES / 4) {
            MGPU_NAME(transpose_in)(to, place + k, b, first + along_k[k], half, column, columns, run);
            continue;
        }
        for (int64_t l = k; l < k + run; l++)
            for (int64_t i = 0; i < LANES; i++)
                to[place[l] + i] = i < columns ? MGPU_NAME(get)(b, first + along_k[l] + column[i], half) : 0;
    }
}

MGPU_NOINLINE void MGPU_NAME(pack)(MGPU_REAL *to, int64_t pitch, const void *b, int64_t first, mgpu_half half,
                                   const mgpu_index *across, int64_t n_begin, int64_t n_end, const mgpu_index *down,
                                   int64_t k_begin, int64_t k_end)
{
    enum { DEPTH = 256, VECTORS = 8 };
    int64_t along_k[DEPTH], place[DEPTH], column[VECTORS * LANES], depth, columns;
    mgpu_index from = *down, packed = *down;
    mgpu_packed_order(&from, &packed, LANES, k_begin == 0 && k_end == down->count);
    bool along = from.axes > 0 && from.stride[from.axes - 1] == 1;
    to -= k_begin * LANES;
    for (int64_t k = k_begin; k < k_end; k += depth) {
        depth = mgpu_least(DEPTH, k_end - k);
        mgpu_offsets(&from, k, k + depth, along_k);
        mgpu_offsets(&packed, k, k + depth, place);
        MGPU_REAL *own = to;
        for (int64_t n = n_begin; n < n_end; n += columns, own += pitch * (VECTORS * LANES)) {
            columns = mgpu_least(VECTORS * LANES, n_end - n);
            mgpu_offsets(across, n, n + columns, column);
            bool together = true;
            for (int64_t i = 1; i < columns; i++)
                together = together && column[i] == column[0] + i;
            if (together && half == MGPU_HALF_BF16)
                MGPU_NAME(pack_together)(own, pitch, b, first + column[0], MGPU_HALF_BF16, along_k, place, depth, columns);
            else if (together && half)
                MGPU_NAME(pack_together)(own, pitch, b, first + column[0], MGPU_HALF_F16, along_k, place, depth, columns);
            else if (together)
                MGPU_NAME(pack_together)(own, pitch, b, first + column[0], MGPU_HALF_NOT, along_k, place, depth, columns);
            for (int64_t v = 0; v < columns && !together; v += LANES)
                MGPU_NAME(pack_apart)
            (own + v * pitch, b, first, half, along, column + v, mgpu_least(LANES, columns - v), along_k, place, depth);
        }
    }
}

/* ---- A as tiles read it: element (r, k) is at to[row[r] + along_k[k]] */

/* Packs rows that are contiguous along K, one after the other; pitch: between rows. */
MGPU_NOINLINE void MGPU_NAME(pack_along)(MGPU_REAL *to, int64_t pitch, const void *a, int64_t first, mgpu_half half,
                                         const int64_t *row, int64_t rows, int64_t depth)
{
    for (int64_t i = 0; i < rows; i++, to += pitch)
        if (half)
            MGPU_NAME(copy_half)(to, (const uint16_t *)a + first + row[i], half, depth);
        else
            MGPU_NAME(copy)(to, (const MGPU_REAL *)a + first + row[i], depth);
}

/* Packs contiguous rows, in groups of a tile's rows; pitch: between equal elements of consecutive groups. Processes a few
 * elements of K at a time, because memory is faster when it is read at several places. Excess elements of vectors are overwritten
 * later. */
MGPU_INLINE void MGPU_NAME(pack_groups)(MGPU_REAL *to, int64_t pitch, const void *a, int64_t first, mgpu_half half,
                                        const int64_t *along_k, int64_t rows, int64_t depth)
{
    enum { GROUP = MGPU_ROWS_2, DEPTH = 8 };
    for (int64_t k = 0, some; k < depth; k += some, to += some * GROUP) {
        MGPU_REAL *own = to;
        some = mgpu_least(DEPTH, depth - k);
        for (int64_t i = 0; i < rows; i += GROUP, own += pitch)
            for (int64_t l = 0; l < some; l++)
                for (int64_t j = 0; j < GROUP; j += LANES) {
                    int64_t count = mgpu_least(LANES, mgpu_least(GROUP, rows - i) - j), at = first + along_k[k + l] + i + j;
                    STORE(own + l * GROUP + j) = count > 0 ? MGPU_NAME(get_part)(a, at, half, count) : (VECTOR){0};
                }
    }
}

/* Packs B of an unrolled matmul for all of K, in the format of MGPU_NAME(pack); places without a tap are 0. */
MGPU_NOINLINE void MGPU_NAME(pack_unrolled)(MGPU_REAL *to, const void *b, int64_t first, mgpu_half half,
                                            const mgpu_matmul *matmul)
{
    enum { DEPTH = 256 };
    const mgpu_unroll *unroll = &matmul->unroll;
    int64_t column[LANES], along_k[DEPTH], n = matmul->bn.count, k = matmul->bk.count, end;
    mgpu_offsets(&matmul->bn, 0, n, column);
    for (int64_t begin = 0; begin < k; begin = end) {
        end = mgpu_least(k, begin + DEPTH);
        mgpu_offsets(&matmul->bk, begin, end, along_k);
        for (int64_t i = begin; i < end; i++, to += LANES) {
            int64_t tap = i / unroll->inner % unroll->positions, j = 0;
            for (int64_t p = 0; p < unroll->places; p++, tap--)
                for (int64_t last = j + unroll->columns; j < last; j++) {
                    int64_t at = first + along_k[i - begin] + column[j];
                    to[j] = tap < 0 || tap >= unroll->taps ? 0 : MGPU_NAME(get)(b, at, half);
                }
            for (; j < LANES; j++)
                to[j] = 0;
        }
    }
}

/* ---- stores sums[rows][pitch] to C, whose rows begin at row[] and whose columns at column[] */
MGPU_NOINLINE void MGPU_NAME(unpack)(void *c, mgpu_half half, const int64_t *row, int64_t rows, const int64_t *column,
                                     int64_t columns, const MGPU_REAL *sums, int64_t pitch)
{
    bool together = true, upright = true;
    for (int64_t j = 1; j < columns; j++)
        together = together && column[j] == column[0] + j;
    for (int64_t i = 1; i < rows; i++)
        upright = upright && row[i] == row[0] + i;
    if (!together && upright) {
        int64_t from[LANES];
        for (int64_t j = 0; j < LANES; j++)
            from[j] = j * pitch;
        for (int64_t i = 0; i < rows; i += LANES) {
            void *first = (char *)c + row[i] * (int64_t)(half ? sizeof(uint16_t) : sizeof(MGPU_REAL));
            MGPU_NAME(transpose_out)(first, half, column, sums + i * pitch, from, mgpu_least(LANES, rows - i), columns);
        }
        return;
    }
    for (int64_t i = 0; i < rows; i++, sums += pitch) {
        for (int64_t j = 0; together && j < columns; j += LANES)
            MGPU_NAME(put_part)(c, row[i] + column[0] + j, half, mgpu_least(LANES, columns - j), LOAD(sums + j));
        for (int64_t j = 0; !together && j < columns; j++)
            MGPU_NAME(put)(c, row[i] + column[j], half, sums[j]);
    }
}
