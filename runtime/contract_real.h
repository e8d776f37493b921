/* contract_real.h: the product of contract_product.h for one element type. Included once for each with MGPU_REAL and
 * MGPU_NAME(name) defined; the parts, small to large: vectors, copying runs, packing, the product in registers, blocks. */
typedef MGPU_REAL MGPU_NAME(vector) __attribute__((vector_size(MGPU_VECTOR_BYTES)));
typedef MGPU_REAL MGPU_NAME(anywhere) /* a vector in memory, at any element */
    __attribute__((vector_size(MGPU_VECTOR_BYTES), aligned(sizeof(MGPU_REAL)), may_alias));
typedef MGPU_REAL MGPU_NAME(half) __attribute__((vector_size(MGPU_VECTOR_BYTES / 2), aligned(sizeof(MGPU_REAL)), may_alias));
#define VECTOR MGPU_NAME(vector)
#define HALF MGPU_NAME(half)
#define LANES ((int64_t)(MGPU_VECTOR_BYTES / sizeof(MGPU_REAL)))
#define CHUNK ((int64_t)(64 / sizeof(MGPU_REAL)))  /* elements of K that a row of a panel holds together */
#define LOAD(address) ((VECTOR) * (const MGPU_NAME(anywhere) *)(address))
#define STORE(address) (*(MGPU_NAME(anywhere) *)(address))
#define SPLAT(number) ((number) - (VECTOR){0})

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

MGPU_INLINE void MGPU_NAME(clear)(MGPU_REAL *to, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        STORE(to + i) = (VECTOR){0};
    for (; i < count; i++)
        to[i] = 0;
}

/* to[0 .. pieces' end) = the elements of x at the runs' places, seen from one place of the other index */
MGPU_INLINE void MGPU_NAME(fill_row)(MGPU_REAL *to, const MGPU_REAL *x, const mgpu_runs *runs, const mgpu_walk *place)
{
    bool inside = mgpu_runs_inside(runs, place->position);
    for (int i = 0; i < runs->pieces; i++) {
        const mgpu_piece *piece = &runs->piece[i];
        int64_t from = place->offset + piece->offset + piece->skip * runs->stride, low = 0, high = piece->count;
        MGPU_REAL *row = to + piece->start;
        if (!inside) {
            mgpu_piece_range(runs, piece, place->position, &low, &high);
            MGPU_NAME(clear)(row, low);
            MGPU_NAME(clear)(row + high, piece->count - high);
        }
        if (runs->stride == 1) {
            if (low < high)
                MGPU_NAME(copy)(row + low, x + from + low, high - low);
        } else {
            for (int64_t j = low; j < high; j++)
                row[j] = x[from + j * runs->stride];
        }
    }
}

/* ---- packing: to[o * row + i] = x[outer place o, inner place i] for o in [outer_begin, outer_end), the runs' i */
MGPU_NOINLINE void MGPU_NAME(pack)(MGPU_REAL *to, int64_t row, const MGPU_REAL *x, const mgpu_index *outer,
                                   int64_t outer_begin, int64_t outer_end, const mgpu_runs *runs)
{
    mgpu_walk place;
    mgpu_walk_start(&place, outer, outer_begin);
    int64_t count = outer_end - outer_begin;
    if (runs->stride != 1 && runs->windows == 0 && outer->axes == 1 && outer->stride[0] == 1) {
        /* a transposition: eight runs at a time, so that lines of x are used whole */
        int64_t offset[MGPU_BLOCK_MOST], inner = 0;
        for (int p = 0; p < runs->pieces; p++)
            for (int64_t j = 0; j < runs->piece[p].count; j++)
                offset[inner++] = place.offset + runs->piece[p].offset + (runs->piece[p].skip + j) * runs->stride;
        int64_t i = 0;
        for (; i + 8 <= inner; i += 8)
            for (int64_t o = 0; o < count; o++)
                for (int64_t j = 0; j < 8; j++)
                    to[o * row + i + j] = x[offset[i + j] + o];
        for (; i < inner; i++)
            for (int64_t o = 0; o < count; o++)
                to[o * row + i] = x[offset[i] + o];
        return;
    }
    for (int64_t o = 0; o < count; o++, mgpu_walk_next(&place, outer))
        MGPU_NAME(fill_row)(to + o * row, x, runs, &place);
}

/* A as panels of `rows` rows: element (m, k) of a panel at (k / CHUNK * rows + m) * CHUNK + k % CHUNK; missing rows are 0.
 * Short rows are gathered some at a time, because reading at once across what was just written in pieces is slow. */
MGPU_NOINLINE void MGPU_NAME(pack_rows)(MGPU_REAL *to, int rows, const MGPU_REAL *x, const mgpu_index *outer, int64_t begin,
                                        int64_t end, const mgpu_runs *runs, int64_t terms)
{
    MGPU_REAL buffer[MGPU_BLOCK_K];
    const MGPU_REAL *row[16];
    mgpu_walk place;
    mgpu_walk_start(&place, outer, begin);
    bool whole = runs->pieces == 1 && runs->stride == 1;
    int64_t group = mgpu_least(16, MGPU_BLOCK_K / terms);
    for (int64_t m = begin; m < end; m += rows, to += rows * mgpu_round_up(terms, CHUNK))
        for (int64_t first = 0, last; first < rows; first = last) {
            last = mgpu_least(rows, first + group);
            for (int64_t r = first; r < last; r++) {
                MGPU_REAL *own = buffer + (r - first) * terms;
                row[r - first] = own;
                if (m + r >= end) {
                    MGPU_NAME(clear)(own, terms);
                    continue;
                }
                if (whole && mgpu_runs_inside(runs, place.position))
                    row[r - first] = x + (place.offset + runs->piece[0].offset + runs->piece[0].skip);
                else
                    MGPU_NAME(fill_row)(own, x, runs, &place);
                mgpu_walk_next(&place, outer);
            }
            for (int64_t r = first; r < last; r++) {
                const MGPU_REAL *from = row[r - first];
                MGPU_REAL *chunk = to + r * CHUNK;
                int64_t k = 0;
                for (; k + CHUNK <= terms; k += CHUNK, chunk += rows * CHUNK)
                    memcpy(chunk, from + k, CHUNK * sizeof *chunk);
                for (; k < terms; k++)
                    *chunk++ = from[k];
            }
        }
}

/* ---- the product in registers: `rows` x (vectors of) columns of C, over `terms` of the sum.
 * a[r * across + k * along], after every `chunk` terms a skips `jump` elements; b[k * ldb + column].
 * C: rows at c + offset[r] for r < used, columns next to each other; added to what is there, or stored. */
typedef void MGPU_NAME(tile)(int64_t terms, const MGPU_REAL *a, int64_t along, int64_t chunk, int64_t jump,
                             const MGPU_REAL *b, int64_t ldb, MGPU_REAL *c, const int64_t *offset, int used, bool add);

#define MGPU_TILE(name, ROWS, VECTORS, ACROSS)                                                                         \
    MGPU_NOINLINE void MGPU_NAME(name)(int64_t terms, const MGPU_REAL *a, int64_t along, int64_t chunk, int64_t jump,  \
                                       const MGPU_REAL *b, int64_t ldb, MGPU_REAL *c, const int64_t *offset, int used, \
                                       bool add)                                                                       \
    {                                                                                                                  \
        VECTOR sum[ROWS][VECTORS];                                                                                     \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++)                                                        \
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[r][v] = (VECTOR){0};                         \
        while (terms > 0) {                                                                                            \
            int64_t left = terms < chunk ? terms : chunk;                                                              \
            terms -= left;                                                                                             \
            do {                                                                                                       \
                VECTOR column[VECTORS];                                                                                \
                _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) column[v] = LOAD(b + v * LANES);             \
                _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                              \
                    VECTOR row = SPLAT(a[r * (ACROSS)]);                                                               \
                    _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[r][v] += row * column[v];            \
                }                                                                                                      \
                a += along;                                                                                            \
                b += ldb;                                                                                              \
            } while (--left > 0);                                                                                      \
            a += jump;                                                                                                 \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                                      \
            if (r >= used)                                                                                             \
                return;                                                                                                \
            MGPU_REAL *to = c + offset[r];                                                                             \
            if (add)                                                                                                   \
                _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) sum[r][v] += LOAD(to + v * LANES);           \
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) STORE(to + v * LANES) = sum[r][v];               \
        }                                                                                                              \
    }
#define MGPU_TILES(rows)                                                                                               \
    MGPU_TILE(tile_##rows##_1_rows, rows, 1, CHUNK)                                                                    \
    MGPU_TILE(tile_##rows##_1_columns, rows, 1, 1)
#define MGPU_TILES_WIDE(rows)                                                                                          \
    MGPU_TILE(tile_##rows##_2_rows, rows, 2, CHUNK)                                                                    \
    MGPU_TILE(tile_##rows##_2_columns, rows, 2, 1)
MGPU_TILES(2)
MGPU_TILES(4)
MGPU_TILES(6)
MGPU_TILES_WIDE(2)
MGPU_TILES_WIDE(4)
#if MGPU_VECTOR_BYTES >= 32
MGPU_TILES(10)
MGPU_TILES_WIDE(6)
#endif
#if MGPU_VECTOR_BYTES >= 64
MGPU_TILES(14)
MGPU_TILES_WIDE(10)
MGPU_TILES_WIDE(14)
#endif
#undef MGPU_TILE
#undef MGPU_TILES
#undef MGPU_TILES_WIDE

/* by mgpu_tile_size, vectors, form of A */
#define MGPU_FORMS(rows, vectors) {MGPU_NAME(tile_##rows##_##vectors##_columns), MGPU_NAME(tile_##rows##_##vectors##_rows)}
static MGPU_NAME(tile) *const MGPU_NAME(tiles)[][2][2] = {
    {MGPU_FORMS(2, 1), MGPU_FORMS(2, 2)},
    {MGPU_FORMS(4, 1), MGPU_FORMS(4, 2)},
#if MGPU_VECTOR_BYTES == 16
    {MGPU_FORMS(6, 1)},
#else
    {MGPU_FORMS(6, 1), MGPU_FORMS(6, 2)},
#endif
#if MGPU_VECTOR_BYTES == 32
    {MGPU_FORMS(10, 1)},
#elif MGPU_VECTOR_BYTES == 64
    {MGPU_FORMS(10, 1), MGPU_FORMS(10, 2)},
    {MGPU_FORMS(14, 1), MGPU_FORMS(14, 2)},
#endif
};
#undef MGPU_FORMS

/* ---- blocks */

typedef struct MGPU_NAME(block) { /* what the loops over blocks share */
    const mgpu_product *product;
    int64_t a_offset, b_offset;
    const MGPU_REAL *a, *b;       /* of this member of the batch, at these offsets */
    MGPU_REAL *c, *packed_a, *packed_b;
    int rows;                     /* of a tile */
    bool direct_a, direct_b;      /* whole tiles are read in place; only the last, if it is not whole, is packed */
    bool flat_b;                  /* packed B: one row of all columns after the other, else panels of two vectors */
    bool beside;                  /* columns of C lie next to each other */
    int64_t m_begin, m_end, k_begin, k_end, n_begin, n_end;
    int64_t row_offset[MGPU_BLOCK_M + 16], column_offset[MGPU_BLOCK_N]; /* in C */
    mgpu_runs runs;
} MGPU_NAME(block);

MGPU_NOINLINE void MGPU_NAME(pack_b)(MGPU_NAME(block) *block)
{
    const mgpu_product *product = block->product;
    int64_t columns = block->n_end - block->n_begin, terms = block->k_end - block->k_begin, first = 0;
    int64_t width = block->flat_b ? mgpu_round_up(columns, LANES) : 2 * LANES;
    if (block->direct_b) {
        first = columns / LANES * LANES;
        width = LANES;
    }
    MGPU_REAL *to = block->packed_b;
    for (; first < columns; first += width, to += width * terms) {
        int64_t end = mgpu_least(columns, first + width), missing = first + width - end;
        mgpu_runs_of(&block->runs, &product->bn, block->n_begin + first, block->n_begin + end, product->windows_b,
                     product->window);
        MGPU_NAME(pack)(to, width, block->b, &product->bk, block->k_begin, block->k_end, &block->runs);
        for (int64_t k = 0; missing > 0 && k < terms; k++)
            MGPU_NAME(clear)(to + k * width + width - missing, missing);
    }
}

MGPU_NOINLINE void MGPU_NAME(pack_a)(MGPU_NAME(block) *block)
{
    const mgpu_product *product = block->product;
    int64_t begin = block->m_begin, terms = block->k_end - block->k_begin;
    if (product->rows) {
        mgpu_runs_of(&block->runs, &product->ak, block->k_begin, block->k_end, product->windows_a, product->window);
        MGPU_NAME(pack_rows)(block->packed_a, block->rows, block->a, &product->am, begin, block->m_end, &block->runs, terms);
        return;
    }
    if (block->direct_a)
        begin += (block->m_end - begin) / block->rows * block->rows;
    if (begin == block->m_end)
        return;
    int64_t lda = mgpu_round_up(block->m_end - begin, block->rows), missing = lda - (block->m_end - begin);
    mgpu_runs_of(&block->runs, &product->am, begin, block->m_end, product->windows_a, product->window);
    MGPU_NAME(pack)(block->packed_a, lda, block->a, &product->ak, block->k_begin, block->k_end, &block->runs);
    for (int64_t k = 0; missing > 0 && k < terms; k++)
        MGPU_NAME(clear)(block->packed_a + k * lda + lda - missing, missing);
}

/* a tile whose columns are fewer than its vectors', or lie apart in C */
MGPU_NOINLINE void MGPU_NAME(scatter)(const MGPU_REAL *tile, int64_t width, MGPU_REAL *c, const int64_t *row_offset,
                                      int used, const int64_t *column_offset, int64_t columns, bool add)
{
    bool adjacent = true;
    for (int r = 1; r < used; r++)
        adjacent = adjacent && row_offset[r] == row_offset[r - 1] + 1;
    if (adjacent) {
        for (int64_t j = 0; j < columns; j++) {
            MGPU_REAL *to = c + (row_offset[0] + column_offset[j]);
            for (int r = 0; r < used; r++)
                to[r] = add ? to[r] + tile[r * width + j] : tile[r * width + j];
        }
        return;
    }
    for (int r = 0; r < used; r++) {
        MGPU_REAL *to = c + row_offset[r];
        for (int64_t j = 0; j < columns; j++)
            to[column_offset[j]] = add ? to[column_offset[j]] + tile[r * width + j] : tile[r * width + j];
    }
}

MGPU_NOINLINE void MGPU_NAME(multiply_block)(MGPU_NAME(block) *block)
{
    const mgpu_product *product = block->product;
    int64_t m = block->m_end - block->m_begin, n = block->n_end - block->n_begin, terms = block->k_end - block->k_begin;
    int64_t rows = block->rows, chunk = product->rows ? CHUNK : terms, jump = product->rows ? (rows - 1) * CHUNK : 0;
    int64_t panel = product->rows ? rows * mgpu_round_up(terms, CHUNK) : rows;
    int64_t lda = product->rows ? 1 : mgpu_round_up(m, rows), ldb = block->flat_b ? mgpu_round_up(n, LANES) : 2 * LANES;
    bool add = block->k_begin > 0;
    MGPU_REAL sums[16 * 2 * MGPU_VECTOR_BYTES / sizeof(MGPU_REAL)];
    int64_t row_of_sums[16];
    for (int r = 0; r < 16; r++)
        row_of_sums[r] = r * 2 * LANES;
    for (int64_t j = 0; j < n;) {
        int vectors = n - j > LANES ? 2 : 1;
        const MGPU_REAL *b = block->packed_b + (block->flat_b ? j : j * terms);
        if (block->direct_b) {
            vectors = n - j >= 2 * LANES ? 2 : 1;
            ldb = n - j >= LANES ? product->bk.stride[0] : LANES;
            b = n - j >= LANES ? block->b + (block->k_begin * ldb + block->n_begin + j) : block->packed_b;
        }
        int64_t columns = mgpu_least(n - j, vectors * LANES);
        bool straight = block->beside && columns == vectors * LANES;
        for (int64_t i = 0; i < m; i += rows) {
            int used = (int)mgpu_least(rows, m - i);
            const MGPU_REAL *a = block->packed_a + i / rows * panel;
            int64_t along = lda;
            if (block->direct_a) {
                along = used == rows ? product->ak.stride[0] : rows;
                a = used == rows ? block->a + (block->k_begin * along + block->m_begin + i) : block->packed_a;
            }
            MGPU_NAME(tile) *tile = MGPU_NAME(tiles)[mgpu_tile_size(used)][vectors - 1][product->rows];
            if (straight) {
                tile(terms, a, along, chunk, jump, b, ldb, block->c + block->column_offset[j], block->row_offset + i, used, add);
            } else {
                tile(terms, a, along, chunk, jump, b, ldb, sums, row_of_sums, used, false);
                MGPU_NAME(scatter)(sums, 2 * LANES, block->c, block->row_offset + i, used, block->column_offset + j, columns,
                                   add);
            }
        }
        j += columns;
    }
}

/* one member of the batch, in blocks; M in larger blocks around those of K, so that C stays in the cache meanwhile */
MGPU_NOINLINE void MGPU_NAME(multiply)(MGPU_NAME(block) *block, int64_t *same_a, int64_t *same_b)
{
    const mgpu_product *product = block->product;
    int64_t m = product->am.count, n = product->bn.count, k = product->ak.count;
    int64_t k_block = mgpu_round_up(mgpu_quotient_up(k, mgpu_quotient_up(k, MGPU_BLOCK_K)), CHUNK);
    int64_t m_most = mgpu_least(MGPU_BLOCK_M, MGPU_BLOCK_A_BYTES / (int64_t)sizeof(MGPU_REAL) / k_block);
    int64_t n_most = mgpu_least(MGPU_BLOCK_N, MGPU_BLOCK_B_BYTES / (int64_t)sizeof(MGPU_REAL) / k_block);
    int64_t m_block = m_most / block->rows * block->rows, n_block = n_most / (2 * LANES) * (2 * LANES);
    m_block = mgpu_round_up(mgpu_quotient_up(m, mgpu_quotient_up(m, m_block)), block->rows);
    n_block = mgpu_round_up(mgpu_quotient_up(n, mgpu_quotient_up(n, n_block)), 2 * LANES);
    int64_t m_large = k <= k_block ? m : MGPU_BLOCK_C_BYTES / (int64_t)sizeof(MGPU_REAL) / n_block;
    m_large = mgpu_round_up(m_large, m_block);
    block->flat_b = k_block <= 64 || m <= 2 * block->rows;
    for (block->n_begin = 0; block->n_begin < n; block->n_begin = block->n_end) {
        block->n_end = mgpu_least(n, block->n_begin + n_block);
        mgpu_offsets(&product->cn, block->n_begin, block->n_end, block->column_offset);
        for (int64_t large = 0; large < m; large += m_large)
            for (block->k_begin = 0; block->k_begin < k; block->k_begin = block->k_end) {
                block->k_end = mgpu_least(k, block->k_begin + k_block);
                const int64_t key_b[] = {block->b_offset, block->n_begin, block->k_begin};
                if (memcmp(same_b, key_b, sizeof key_b) != 0)
                    MGPU_NAME(pack_b)(block);
                memcpy(same_b, key_b, sizeof key_b);
                for (block->m_begin = large; block->m_begin < mgpu_least(m, large + m_large); block->m_begin = block->m_end) {
                    block->m_end = mgpu_least(m, block->m_begin + m_block);
                    const int64_t key_a[] = {block->a_offset, block->m_begin, block->k_begin};
                    if (memcmp(same_a, key_a, sizeof key_a) != 0)
                        MGPU_NAME(pack_a)(block);
                    memcpy(same_a, key_a, sizeof key_a);
                    mgpu_offsets(&product->cm, block->m_begin, block->m_end, block->row_offset);
                    MGPU_NAME(multiply_block)(block);
                }
            }
    }
}

/* ---- products that are not worth packing: sums element by element, along the batch where it lies together */

MGPU_INLINE MGPU_REAL MGPU_NAME(dot)(const MGPU_REAL *a, const MGPU_REAL *b, int64_t count)
{
    VECTOR sum[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            sum[j] += LOAD(a + i + j * LANES) * LOAD(b + i + j * LANES);
    for (; i + LANES <= count; i += LANES)
        sum[0] += LOAD(a + i) * LOAD(b + i);
    VECTOR all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    MGPU_REAL total = 0;
    for (int64_t j = 0; j < LANES; j++)
        total += all[j];
    for (; i < count; i++)
        total += a[i] * b[i];
    return total;
}

/* c[i] (+)= sum over t of a[a_place[t] + i] b[b_place[t] + i * b_stride], for i < lanes */
MGPU_NOINLINE void MGPU_NAME(sum_terms)(const MGPU_REAL *a, const int64_t *a_place, const MGPU_REAL *b,
                                        const int64_t *b_place, int64_t b_stride, int64_t terms, MGPU_REAL *c, int64_t lanes,
                                        bool add)
{
    int64_t i = 0;
    for (; b_stride == 1 && i + 2 * LANES <= lanes; i += 2 * LANES) {
        VECTOR first = {0}, second = {0};
        for (int64_t t = 0; t < terms; t++) {
            first += LOAD(a + a_place[t] + i) * LOAD(b + b_place[t] + i);
            second += LOAD(a + a_place[t] + i + LANES) * LOAD(b + b_place[t] + i + LANES);
        }
        STORE(c + i) = add ? LOAD(c + i) + first : first;
        STORE(c + i + LANES) = add ? LOAD(c + i + LANES) + second : second;
    }
    for (; i < lanes; i++) {
        MGPU_REAL sum = 0;
        for (int64_t t = 0; t < terms; t++)
            sum += a[a_place[t] + i] * b[b_place[t] + i * b_stride];
        c[i] = add ? c[i] + sum : sum;
    }
}

/* one product, or `lanes` of them next to each other in A and C, b_stride apart in B */
MGPU_NOINLINE void MGPU_NAME(multiply_small)(const mgpu_product *product, const MGPU_REAL *a, const MGPU_REAL *b,
                                             int64_t b_stride, MGPU_REAL *c, int64_t lanes, bool dots)
{
    enum { TERMS = 256 };
    int64_t a_place[TERMS], b_place[TERMS], k = product->ak.count, end;
    for (int64_t begin = 0; begin < k; begin = end) {
        end = dots ? k : mgpu_least(k, begin + TERMS);
        mgpu_walk am, bn, cm, cn, ak, bk;
        mgpu_walk_start(&am, &product->am, 0);
        mgpu_walk_start(&cm, &product->cm, 0);
        for (int64_t m = 0; m < product->am.count; m++, mgpu_walk_step(&am, &product->am), mgpu_walk_step(&cm, &product->cm)) {
            mgpu_walk_start(&bn, &product->bn, 0);
            mgpu_walk_start(&cn, &product->cn, 0);
            for (int64_t n = 0; n < product->bn.count;
                 n++, mgpu_walk_step(&bn, &product->bn), mgpu_walk_step(&cn, &product->cn)) {
                MGPU_REAL *to = c + (cm.offset + cn.offset);
                if (dots) {
                    *to = MGPU_NAME(dot)(a + am.offset, b + bn.offset, k);
                    continue;
                }
                int64_t terms = 0;
                mgpu_walk_start(&ak, &product->ak, begin);
                mgpu_walk_start(&bk, &product->bk, begin);
                for (int64_t i = begin; i < end; i++, mgpu_walk_next(&ak, &product->ak), mgpu_walk_next(&bk, &product->bk)) {
                    bool inside = true;
                    for (int w = 0; w < product->windows_a + product->windows_b; w++) {
                        const mgpu_window *window = &product->window[w];
                        int64_t position = window->first + (product->windows_a > 0 ? am.position[w] + ak.position[w]
                                                                                   : bn.position[w] + bk.position[w]);
                        inside = inside && position >= 0 && position < window->extent;
                    }
                    a_place[terms] = am.offset + ak.offset;
                    b_place[terms] = bn.offset + bk.offset;
                    terms += inside;
                }
                MGPU_NAME(sum_terms)(a, a_place, b, b_place, b_stride, terms, to, lanes, begin > 0);
            }
        }
    }
}

/* a sum of nothing */
MGPU_NOINLINE void MGPU_NAME(clear_result)(const mgpu_product *product, MGPU_REAL *c)
{
    mgpu_walk cm, cn;
    mgpu_walk_start(&cm, &product->cm, 0);
    bool beside = product->cn.axes == 0 || (product->cn.axes == 1 && product->cn.stride[0] == 1);
    for (int64_t m = 0; m < product->cm.count; m++, mgpu_walk_step(&cm, &product->cm)) {
        if (beside) {
            memset(c + cm.offset, 0, (size_t)product->cn.count * sizeof *c);
            continue;
        }
        mgpu_walk_start(&cn, &product->cn, 0);
        for (int64_t n = 0; n < product->cn.count; n++, mgpu_walk_step(&cn, &product->cn))
            c[cm.offset + cn.offset] = 0;
    }
}

/* ---- one phase of a contraction, and all of them */

MGPU_NOINLINE void MGPU_NAME(multiply_batch)(const mgpu_product *product, const MGPU_REAL *a, const MGPU_REAL *b, MGPU_REAL *c,
                                             MGPU_REAL *workspace)
{
    int64_t m = product->am.count, n = product->bn.count, k = product->ak.count, members = product->batch_a.count;
    if (m == 0 || n == 0 || members == 0)
        return;
    /* members of the batch that lie together in A and C, and evenly in B */
    const mgpu_index *batch[] = {&product->batch_a, &product->batch_b, &product->batch_c};
    int64_t lanes = members, stride[3] = {1, 1, 1};
    for (int i = 0; i < 3; i++)
        if (batch[i]->axes > 0) {
            lanes = mgpu_least(lanes, batch[i]->extent[batch[i]->axes - 1]);
            stride[i] = batch[i]->stride[batch[i]->axes - 1];
        }
    bool thin = m == 1 || n == 1, small = m * n <= 256 && m * n * k <= 256;
    bool together = lanes >= LANES && stride[0] == 1 && stride[2] == 1 && (thin || (m * n <= 2048 && m * n * k <= 2048));
    bool dots = thin && product->windows_a + product->windows_b == 0 && product->ak.axes == 1 && product->bk.axes == 1 &&
                product->ak.stride[0] == 1 && product->bk.stride[0] == 1;
    if (!together || k == 0)
        lanes = 1;
    if (together || small || dots || k == 0) {
        for (int64_t i = 0; i < members; i += lanes) {
            mgpu_walk at[3];
            for (int j = 0; j < 3; j++)
                mgpu_walk_start(&at[j], batch[j], i);
            MGPU_REAL *to = c + (product->c + at[2].offset);
            if (k == 0)
                MGPU_NAME(clear_result)(product, to);
            else
                MGPU_NAME(multiply_small)(product, a + (product->a + at[0].offset), b + (product->b + at[1].offset), stride[1],
                                          to, lanes, dots && lanes == 1);
        }
        return;
    }
    MGPU_NAME(block) block;
    block.product = product;
    block.packed_a = workspace;
    block.packed_b = workspace + MGPU_BLOCK_A_BYTES / sizeof(MGPU_REAL);
    int64_t most = n > LANES ? MGPU_TILE_ROWS : MGPU_TILE_ROWS_NARROW;
    block.rows = MGPU_TILE_SIZES[mgpu_tile_size(mgpu_quotient_up(m, mgpu_quotient_up(m, most)))];
    block.beside = product->cn.axes == 0 || (product->cn.axes == 1 && product->cn.stride[0] == 1);
    block.direct_a = !product->rows && product->windows_a == 0 && product->am.axes == 1 && product->am.stride[0] == 1 &&
                     product->ak.axes == 1 && n <= 4 * LANES;
    block.direct_b = product->windows_b == 0 && product->bn.axes == 1 && product->bn.stride[0] == 1 &&
                     product->bk.axes == 1 && m <= 4 * block.rows;
    mgpu_walk at_a, at_b, at_c;
    mgpu_walk_start(&at_a, &product->batch_a, 0);
    mgpu_walk_start(&at_b, &product->batch_b, 0);
    mgpu_walk_start(&at_c, &product->batch_c, 0);
    int64_t same_a[3] = {-1, -1, -1}, same_b[3] = {-1, -1, -1};
    for (int64_t i = 0; i < members; i++) {
        block.a_offset = product->a + at_a.offset;
        block.b_offset = product->b + at_b.offset;
        block.a = a + block.a_offset;
        block.b = b + block.b_offset;
        block.c = c + (product->c + at_c.offset);
        MGPU_NAME(multiply)(&block, same_a, same_b);
        mgpu_walk_next(&at_a, &product->batch_a);
        mgpu_walk_next(&at_b, &product->batch_b);
        mgpu_walk_next(&at_c, &product->batch_c);
    }
}

MGPU_NOINLINE void MGPU_NAME(multiply_phases)(const mgpu_contraction *table, const void *a, const void *b, void *c,
                                              void *workspace, int64_t samples)
{
    mgpu_product product;
    int64_t phases = 1;
    for (int64_t phase = 0; phase < phases; phase++) {
        phases = mgpu_product_of(&product, table, samples, phase);
        MGPU_NAME(multiply_batch)(&product, a, b, c, workspace);
    }
}

#undef VECTOR
#undef HALF
#undef LANES
#undef CHUNK
#undef LOAD
#undef STORE
#undef SPLAT
