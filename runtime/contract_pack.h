/* contract_pack.h: elements moved for the product, for one element type: copies of A, packed B, and results that do not go
 * straight to C. Included by contract_product.h after contract_tile.h. Operands may be bf16; here they become MGPU_REAL. */

/* ---- bf16 */
typedef uint16_t MGPU_NAME(short_vector) __attribute__((vector_size(2 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL)), aligned(2), may_alias));
typedef uint32_t MGPU_NAME(word_vector) __attribute__((vector_size(4 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL))));
typedef float MGPU_NAME(float_vector) __attribute__((vector_size(4 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL))));
#define WORDS MGPU_NAME(word_vector)
#define FLOATS MGPU_NAME(float_vector)

MGPU_INLINE MGPU_REAL MGPU_NAME(from_bf16)(mgpu_bf16 value)
{
    union { uint32_t bits; float value; } wide = {.bits = (uint32_t)value << 16};
    return (MGPU_REAL)wide.value;
}

/* to the nearest, ties to even; a NaN stays one */
MGPU_INLINE mgpu_bf16 MGPU_NAME(to_bf16)(MGPU_REAL value)
{
    union { float value; uint32_t bits; } wide = {.value = (float)value};
    uint32_t rounded = (wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16;
    return (mgpu_bf16)(value != value ? wide.bits >> 16 | 0x40 : rounded);
}

MGPU_INLINE VECTOR MGPU_NAME(load_bf16)(const mgpu_bf16 *from)
{
    WORDS bits = __builtin_convertvector(*(const MGPU_NAME(short_vector) *)from, WORDS) << 16;
    return __builtin_convertvector((FLOATS)bits, VECTOR);
}

MGPU_INLINE void MGPU_NAME(store_bf16)(mgpu_bf16 *to, VECTOR value)
{
    FLOATS narrow = __builtin_convertvector(value, FLOATS);
    WORDS bits = (WORDS)narrow, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    WORDS nan = (WORDS)(narrow != narrow);
    *(MGPU_NAME(short_vector) *)to =
        __builtin_convertvector((rounded & ~nan) | ((bits >> 16 | 0x40) & nan), MGPU_NAME(short_vector));
}

/* ---- runs */
MGPU_INLINE void MGPU_NAME(copy)(MGPU_REAL *to, const MGPU_REAL *from, int64_t count)
{
    if (count >= LANES) { /* the last vector overlaps the one before */
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

MGPU_INLINE void MGPU_NAME(copy_bf16)(MGPU_REAL *to, const mgpu_bf16 *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        STORE(to + i) = MGPU_NAME(load_bf16)(from + i);
    for (; i < count; i++)
        to[i] = MGPU_NAME(from_bf16)(from[i]);
}

MGPU_INLINE void MGPU_NAME(clear)(MGPU_REAL *to, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        STORE(to + i) = (VECTOR){0};
    for (; i < count; i++)
        to[i] = 0;
}

/* the elements of one line of a copy's innermost dimension; a: its first, which may lie outside A */
MGPU_INLINE void MGPU_NAME(copy_run)(MGPU_REAL *to, const void *a, int64_t from, bool bf16, const mgpu_dim *run)
{
    int64_t count = run->high - run->low;
    from += run->low * run->from;
    if (run->to == 1) {
        MGPU_NAME(clear)(to, run->low);
        MGPU_NAME(clear)(to + run->high, run->extent - run->high);
        to += run->low;
        if (run->from == 1 && !bf16)
            MGPU_NAME(copy)(to, (const MGPU_REAL *)a + from, count);
        else if (run->from == 1)
            MGPU_NAME(copy_bf16)(to, (const mgpu_bf16 *)a + from, count);
        else if (!bf16)
            for (int64_t i = 0; i < count; i++)
                to[i] = ((const MGPU_REAL *)a)[from + i * run->from];
        else
            for (int64_t i = 0; i < count; i++)
                to[i] = MGPU_NAME(from_bf16)(((const mgpu_bf16 *)a)[from + i * run->from]);
        return;
    }
    for (int64_t i = 0; i < run->extent; i++, to += run->to)
        if (i < run->low || i >= run->high)
            *to = 0;
        else if (!bf16)
            *to = ((const MGPU_REAL *)a)[from + (i - run->low) * run->from];
        else
            *to = MGPU_NAME(from_bf16)(((const mgpu_bf16 *)a)[from + (i - run->low) * run->from]);
}

MGPU_NOINLINE void MGPU_NAME(copy_box)(MGPU_REAL *to, const void *a, int64_t from, bool bf16, mgpu_patch *copy)
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
            MGPU_NAME(copy_run)(to + i * line->to, a, from + i * line->from, bf16, i >= low && i < high ? run : &none);
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

/* ---- transposing: to[c * pitch + r] = from[row[r] + c] for r < rows <= LANES, c < columns; `written` elements of each
 * run, those from `rows` on 0 */
#if MGPU_VECTOR_BYTES == 64
MGPU_INLINE void MGPU_NAME(transpose_square)(MGPU_REAL *to, int64_t pitch, const MGPU_REAL *from, const int64_t *row,
                                             int64_t rows, int64_t columns, MASK written)
{
    typedef int64_t Longs __attribute__((vector_size(64)));
    MASK mask = MGPU_NAME(mask_of)(columns);
    VECTOR v[16], w[16];
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
        v[i] = i < rows ? LOAD_PART(from + row[i], mask) : (VECTOR){0};
    if (sizeof(MGPU_REAL) == 4) {
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 2) {
            w[i] = (VECTOR)_mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
            w[i + 1] = (VECTOR)_mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < 16; i += 4) {
            v[i] = (VECTOR)_mm512_unpacklo_pd((__m512d)w[i], (__m512d)w[i + 2]);
            v[i + 1] = (VECTOR)_mm512_unpackhi_pd((__m512d)w[i], (__m512d)w[i + 2]);
            v[i + 2] = (VECTOR)_mm512_unpacklo_pd((__m512d)w[i + 1], (__m512d)w[i + 3]);
            v[i + 3] = (VECTOR)_mm512_unpackhi_pd((__m512d)w[i + 1], (__m512d)w[i + 3]);
        }
        _Pragma("GCC unroll 16") for (int j = 0; j < 4; j++) {
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
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 2) {
            w[i] = (VECTOR)_mm512_unpacklo_pd((__m512d)v[i], (__m512d)v[i + 1]);
            w[i + 1] = (VECTOR)_mm512_unpackhi_pd((__m512d)v[i], (__m512d)v[i + 1]);
        }
        const Longs low = {0, 1, 8, 9, 4, 5, 12, 13}, high = {2, 3, 10, 11, 6, 7, 14, 15};
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i += 4) {
            _Pragma("GCC unroll 2") for (int j = 0; j < 2; j++) {
                v[i + j] = (VECTOR)_mm512_permutex2var_pd((__m512d)w[i + j], (__m512i)low, (__m512d)w[i + 2 + j]);
                v[i + 2 + j] = (VECTOR)_mm512_permutex2var_pd((__m512d)w[i + j], (__m512i)high, (__m512d)w[i + 2 + j]);
            }
        }
        _Pragma("GCC unroll 8") for (int j = 0; j < 4; j++) {
            w[j] = (VECTOR)_mm512_shuffle_f64x2((__m512d)v[j], (__m512d)v[j + 4], 0x44);
            w[j + 4] = (VECTOR)_mm512_shuffle_f64x2((__m512d)v[j], (__m512d)v[j + 4], 0xee);
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {
        if (i >= columns)
            return;
        STORE_PART(to + i * pitch, written, w[i]);
    }
}
MGPU_NOINLINE void MGPU_NAME(transpose)(MGPU_REAL *to, int64_t pitch, const MGPU_REAL *from, const int64_t *row, int64_t rows,
                                        int64_t columns, int64_t written)
{
    MASK mask = MGPU_NAME(mask_of)(written);
    for (; columns > 0; columns -= LANES, from += LANES, to += LANES * pitch)
        MGPU_NAME(transpose_square)(to, pitch, from, row, rows, mgpu_least(columns, LANES), mask);
}
#else
MGPU_NOINLINE void MGPU_NAME(transpose)(MGPU_REAL *to, int64_t pitch, const MGPU_REAL *from, const int64_t *row, int64_t rows,
                                        int64_t columns, int64_t written)
{
    for (int64_t c = 0; c < columns; c++, to += pitch) {
        for (int64_t r = 0; r < rows; r++)
            to[r] = from[row[r] + c];
        for (int64_t r = rows; r < written; r++)
            to[r] = 0;
    }
}
#endif

/* ---- B as vectors: element (k, n) at to[(n / LANES * pitch + k) * LANES + n % LANES], counted from the first of each;
 * missing columns are 0. A, too, with M in place of N. */

/* vectors of columns that lie together */
MGPU_INLINE void MGPU_NAME(pack_together)(MGPU_REAL *to, int64_t pitch, const void *b, int64_t column, bool bf16,
                                          const int64_t *term, int64_t terms, int64_t columns)
{
    int64_t vectors = mgpu_quotient_up(columns, LANES), rest = columns - (vectors - 1) * LANES;
    MASK mask = MGPU_NAME(mask_of)(rest);
    for (int64_t k = 0; k < terms; k++, to += LANES)
        for (int64_t v = 0; v < vectors; v++) {
            int64_t from = column + term[k] + v * LANES;
            MGPU_REAL *own = to + v * pitch * LANES;
            if (!bf16 && v < vectors - 1)
                STORE(own) = LOAD((const MGPU_REAL *)b + from);
            else if (!bf16)
                STORE(own) = LOAD_PART((const MGPU_REAL *)b + from, mask);
            else if (v < vectors - 1 || rest == LANES)
                STORE(own) = MGPU_NAME(load_bf16)((const mgpu_bf16 *)b + from);
            else
                for (int64_t i = 0; i < LANES; i++)
                    own[i] = i < rest ? MGPU_NAME(from_bf16)(((const mgpu_bf16 *)b)[from + i]) : 0;
        }
}

MGPU_NOINLINE void MGPU_NAME(pack)(MGPU_REAL *to, int64_t pitch, const void *b, int64_t first, bool bf16,
                                   const mgpu_index *across, int64_t n_begin, int64_t n_end, const mgpu_index *down,
                                   int64_t k_begin, int64_t k_end)
{
    enum { TERMS = 256, VECTORS = 8 };
    int64_t term[TERMS], column[VECTORS * LANES], terms, columns;
    for (int64_t k = k_begin; k < k_end; k += terms, to += terms * LANES) {
        terms = mgpu_least(TERMS, k_end - k);
        mgpu_offsets(down, k, k + terms, term);
        bool along = down->axes > 0 && down->stride[down->axes - 1] == 1;
        MGPU_REAL *own = to;
        for (int64_t n = n_begin; n < n_end; n += columns, own += pitch * (VECTORS * LANES)) {
            columns = mgpu_least(VECTORS * LANES, n_end - n);
            mgpu_offsets(across, n, n + columns, column);
            bool together = true;
            for (int64_t i = 1; i < columns; i++)
                together = together && column[i] == column[0] + i;
            if (together) {
                MGPU_NAME(pack_together)(own, pitch, b, first + column[0], bf16, term, terms, columns);
                continue;
            }
            for (int64_t v = 0; v * LANES < columns; v++) {
                int64_t *vector = column + v * LANES, some = mgpu_least(LANES, columns - v * LANES), run;
                MGPU_REAL *into = own + v * pitch * LANES;
                for (int64_t j = 0; j < terms; j += run) {
                    run = 1;
                    while (along && j + run < terms && term[j + run] == term[j] + run)
                        run++;
                    if (!bf16 && run >= LANES / 2) {
                        MGPU_NAME(transpose)(into + j * LANES, LANES, (const MGPU_REAL *)b + (first + term[j]), vector, some,
                                             run, LANES);
                        continue;
                    }
                    for (int64_t l = j; l < j + run; l++)
                        for (int64_t i = 0; i < LANES; i++)
                            into[l * LANES + i] =
                                i >= some ? 0
                                : bf16    ? MGPU_NAME(from_bf16)(((const mgpu_bf16 *)b)[first + term[l] + vector[i]])
                                          : ((const MGPU_REAL *)b)[first + term[l] + vector[i]];
                }
            }
        }
    }
}

/* ---- sums[rows][pitch] to C, whose rows begin at row[] and whose columns at column[] */
MGPU_NOINLINE void MGPU_NAME(unpack)(void *c, bool bf16, const int64_t *row, int64_t rows, const int64_t *column,
                                     int64_t columns, const MGPU_REAL *sums, int64_t pitch)
{
    bool together = true, upright = true;
    for (int64_t j = 1; j < columns; j++)
        together = together && column[j] == column[0] + j;
    for (int64_t i = 1; i < rows; i++)
        upright = upright && row[i] == row[0] + i;
    if (!together && upright && !bf16) {
        int64_t place[64 / sizeof(MGPU_REAL)];
        for (int64_t i = 0; i < rows; i += LANES) {
            int64_t some = mgpu_least(LANES, rows - i), run;
            for (int64_t j = 0; j < LANES; j++)
                place[j] = j * pitch;
            for (int64_t j = 0; j < columns; j += run) {
                run = 1;
                int64_t apart = j + 1 < columns ? column[j + 1] - column[j] : 1;
                while (j + run < columns && column[j + run] == column[j] + run * apart)
                    run++;
                MGPU_NAME(transpose)((MGPU_REAL *)c + (row[i] + column[j]), apart, sums + i * pitch + j, place, some, run, some);
            }
        }
        return;
    }
    for (int64_t i = 0; i < rows; i++, sums += pitch) {
        int64_t j = 0;
        mgpu_bf16 *narrow = (mgpu_bf16 *)c + row[i];
        MGPU_REAL *wide = (MGPU_REAL *)c + row[i];
        for (; together && j + LANES <= columns; j += LANES)
            if (bf16)
                MGPU_NAME(store_bf16)(narrow + column[0] + j, LOAD(sums + j));
            else
                STORE(wide + column[0] + j) = LOAD(sums + j);
        for (; j < columns; j++)
            if (bf16)
                narrow[column[j]] = MGPU_NAME(to_bf16)(sums[j]);
            else
                wide[column[j]] = sums[j];
    }
}
