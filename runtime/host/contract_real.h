/* contract_real.h: the matmul of contract_matmul.h for one element type: blocks, and simple code for matmuls that need none.
 * Included after contract_tile.h and contract_pack.h. */
typedef struct MGPU_NAME(block) { /* shared by the loops over blocks */
    const mgpu_matmul *matmul;
    const void *a, *b; /* the tensors */
    void *c;
    mgpu_half half_a, half_b, half_c;
    int64_t a_offset, b_offset, c_offset; /* offsets of this element of the batch */
    bool copies, packs;                   /* A is copied with zeros around it, or packed: */
    bool along, groups;                   /* its rows are contiguous along K, or its columns along M */
    int64_t direct;                       /* elements of K for which B is read in place */
    bool exact, one_always;               /* sums have the order of K alone; M or N is 1 for any number of samples */
    bool straight;                        /* tiles are stored to C, else to `sums` */
    const MGPU_REAL *kept; /* B packed for all of K, from column kept_begin on; NULL: it is packed block by block */
    int64_t kept_begin;
    const MGPU_REAL *from_b; /* B of this block: vectors of a row of K are `next_b` apart, rows `ldb` apart */
    int64_t ldb, next_b;
    int64_t m_large, n_most, k_most; /* rows for which all of K is summed; columns and depth of a block */
    bool whole;                      /* B is packed for all of K at once */
    MGPU_REAL *copy, *sums, *packed; /* the workspace, and its elements */
    int64_t copy_most, sums_most, packed_most;
    int64_t m_begin, m_end, k_begin, k_end, n_begin, n_end;
    int64_t first_row, pitch; /* of the sums */
    /* identifies the block of A whose tables are set up */
    int64_t key[7], from;
    /* identifies the packed block of B */
    int64_t key_b[4];
    int64_t row[MGPU_BLOCK_ROWS + MGPU_ROWS_1], row_c[MGPU_BLOCK_ROWS], along_k[MGPU_BLOCK_DEPTH];
} MGPU_NAME(block);

/* Returns the vectors of the next tile, of those that are left. */
MGPU_INLINE int64_t MGPU_NAME(tile_vectors)(int64_t left, int64_t rows)
{
    if (left >= 4 && rows <= MGPU_ROWS_4)
        return 4;
    if (left >= 3 && left != 4 && MGPU_ROWS_3 > 0 && (left % 2 == 1 || rows <= MGPU_ROWS_3))
        return 3;
    return mgpu_least(left, 2);
}

/* Returns how often a tile prefetches. */
MGPU_INLINE int64_t MGPU_NAME(times)(int64_t depth, int64_t rows) { return depth < 4 * rows ? 1 : rows; }

/* Multiplies rows [begin, end) of the block; next_a: what to prefetch; NULL: the next columns of B, if they are not in the
 * cache. */
MGPU_NOINLINE void MGPU_NAME(multiply_rows)(const MGPU_NAME(block) * block, int64_t begin, int64_t end,
                                            const mgpu_prefetch *next_a)
{
    static const int64_t most[] = {MGPU_ROWS_1, MGPU_ROWS_2, MGPU_ROWS_3, MGPU_ROWS_4, MGPU_ROWS_BESIDE};
    const mgpu_matmul *matmul = block->matmul;
    int64_t m = end - begin, n = block->n_end - block->n_begin, depth = block->k_end - block->k_begin;
    int64_t vectors = mgpu_quotient_up(n, LANES), some, vector = MGPU_VECTOR_BYTES, bytes = sizeof(MGPU_REAL);
    const MGPU_REAL *a = block->copies || block->packs ? block->copy : (const MGPU_REAL *)block->a + block->from;
    const MGPU_REAL *b = block->from_b;
    int64_t ldb = block->ldb, next = block->next_b;
    MGPU_REAL *c = block->straight ? (MGPU_REAL *)block->c + (block->c_offset + block->n_begin) : block->sums;
    bool far = next_a == NULL && !matmul->beside && (ldb != LANES || matmul->bk.count * n * bytes > MGPU_PACKED_BYTES);
    mgpu_prefetch ahead = next_a != NULL ? *next_a : (mgpu_prefetch){.each = 0};
    for (int64_t v = 0; v < vectors; v += some, b += some * next, c += some * LANES) {
        some = matmul->beside ? 1 : MGPU_NAME(tile_vectors)(vectors - v, m);
        int64_t kind = matmul->beside ? 4 : some - 1, tiles = mgpu_quotient_up(m, most[kind]), rows;
        int64_t columns = mgpu_least(LANES, n - (v + some - 1) * LANES), times = tiles * MGPU_NAME(times)(depth, most[kind]);
        if (far)
            ahead = ldb == LANES ? mgpu_prefetch_of(b + some * next, some, depth * vector, next * bytes, times)
                                 : mgpu_prefetch_of(b + some * next, depth, some * vector, ldb * bytes, times);
        if (far && v + some >= vectors)
            ahead.each = 0;
        for (int64_t i = begin; i < end; i += rows, tiles--) {
            rows = mgpu_quotient_up(end - i, tiles);
            MGPU_NAME(tile) *const *tile = &MGPU_NAME(tiles)[kind][rows - 1];
            while (*tile == NULL)
                tile++;
            (*tile)(depth, matmul->beside ? a + v * LANES : a, block->row + i, block->along_k, b, ldb, next, c, block->row_c + i,
                    rows, columns,
                    block->k_begin == 0 ? MGPU_STORED
                    : block->exact      ? MGPU_CONTINUED
                                        : MGPU_ADDED,
                    &ahead);
        }
    }
}

/* If the columns of B fit into the core's cache, A, which may be in memory, is read a few rows at a time. Otherwise rows of A
 * stay in the cache, and B is read by columns. */
MGPU_NOINLINE void MGPU_NAME(multiply_block)(const MGPU_NAME(block) * block)
{
    enum { NEAR_BYTES = 512 * 1024 };
    const mgpu_matmul *matmul = block->matmul;
    int64_t m = block->m_end - block->m_begin, n = block->n_end - block->n_begin, depth = block->k_end - block->k_begin;
    int64_t size = sizeof(MGPU_REAL), vectors = mgpu_quotient_up(n, LANES), chunks = mgpu_quotient_up(m, MGPU_ROWS_2), some;
    bool lines = matmul->am.axes == 1 && matmul->ak.axes == 1 && matmul->ak.stride[0] == 1;
    if (block->copies || block->packs || !lines || vectors < 2 || m <= n || depth * n * size > NEAR_BYTES) {
        MGPU_NAME(multiply_rows)(block, 0, m, NULL);
        return;
    }
    const MGPU_REAL *a = (const MGPU_REAL *)block->a + block->from;
    for (int64_t i = 0; i < m; i += some, chunks--) {
        some = mgpu_quotient_up(m - i, chunks);
        int64_t times = mgpu_quotient_up(vectors, 2) * MGPU_NAME(times)(depth, MGPU_ROWS_2);
        mgpu_prefetch next = mgpu_prefetch_of(a + block->row[i + some] + block->along_k[0], some, depth * size,
                                              matmul->am.stride[0] * size, times);
        if (i + some >= m)
            next.each = 0;
        MGPU_NAME(multiply_rows)(block, i, i + some, &next);
    }
}

/* Returns the rows of A that are packed together, and the elements that these take. */
MGPU_INLINE int64_t MGPU_NAME(packed_rows)(const MGPU_NAME(block) * block)
{
    return block->along ? 1 : block->groups ? MGPU_ROWS_2 : LANES;
}

MGPU_INLINE int64_t MGPU_NAME(packed_pitch)(const MGPU_NAME(block) * block)
{
    bool apart = block->along || block->groups; /* else they would map to the same cache sets */
    return MGPU_NAME(packed_rows)(block) * (block->k_end - block->k_begin) + (apart ? LANES : 0);
}

MGPU_NOINLINE void MGPU_NAME(pack_a)(MGPU_NAME(block) * block)
{
    enum { SOME = 256 };
    const mgpu_matmul *matmul = block->matmul;
    int64_t rows = block->m_end - block->m_begin, depth = block->k_end - block->k_begin, offset[SOME], some, first;
    int64_t pitch = MGPU_NAME(packed_pitch)(block), count = block->along ? rows : depth;
    if (!block->along && !block->groups) {
        MGPU_NAME(pack)
        (block->copy, depth, block->a, block->a_offset, block->half_a, &matmul->am, block->m_begin, block->m_end, &matmul->ak,
         block->k_begin, block->k_end);
        return;
    }
    for (int64_t i = 0; i < count; i += some) {
        some = mgpu_least(SOME, count - i);
        if (block->along) {
            first = block->a_offset + block->k_begin;
            mgpu_offsets(&matmul->am, block->m_begin + i, block->m_begin + i + some, offset);
            MGPU_NAME(pack_along)(block->copy + i * pitch, pitch, block->a, first, block->half_a, offset, some, depth);
            continue;
        }
        first = block->a_offset + block->m_begin;
        mgpu_offsets(&matmul->ak, block->k_begin + i, block->k_begin + i + some, offset);
        if (block->half_a == MGPU_HALF_BF16)
            MGPU_NAME(pack_groups)(block->copy + i * MGPU_ROWS_2, pitch, block->a, first, MGPU_HALF_BF16, offset, rows, some);
        else if (block->half_a)
            MGPU_NAME(pack_groups)(block->copy + i * MGPU_ROWS_2, pitch, block->a, first, MGPU_HALF_F16, offset, rows, some);
        else
            MGPU_NAME(pack_groups)(block->copy + i * MGPU_ROWS_2, pitch, block->a, first, MGPU_HALF_NOT, offset, rows, some);
    }
}

/* Sets up the tables for the block of A that begins at m_begin and ends by m_end, and copies it if necessary; sets m_end. */
MGPU_NOINLINE void MGPU_NAME(take_rows)(MGPU_NAME(block) * block, const mgpu_box *depth)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t lanes = matmul->beside ? block->n_end - block->n_begin : 1, most = MGPU_BLOCK_ROWS;
    mgpu_patch copy;
    mgpu_box rows;
    if (block->copies) {
        do {
            mgpu_box_at(&rows, &matmul->am, block->m_begin, block->m_end, most);
            mgpu_patch_of(&copy, matmul, &rows, depth, matmul->beside ? block->n_begin : 0, lanes, sizeof(MGPU_REAL));
            most = rows.count / 2;
        } while (copy.elements > block->copy_most && most > 0);
        block->m_end = block->m_begin + rows.count;
    } else if (block->packs) {
        int64_t unit = MGPU_NAME(packed_rows)(block), m = block->m_end - block->m_begin;
        int64_t room = (block->copy_most - unit * LANES) / MGPU_NAME(packed_pitch)(block) * unit;
        int64_t even = mgpu_round_up(mgpu_quotient_up(m, mgpu_quotient_up(m, room)), block->along ? MGPU_ROWS_2 : unit);
        block->m_end = block->m_begin + mgpu_least(m, mgpu_least(room, even));
    }
    const int64_t key[] = {
        block->a_offset, block->m_begin, block->m_end, block->k_begin, block->k_end, matmul->beside ? block->n_begin : 0, lanes};
    bool same_tables = memcmp(key + 1, block->key + 1, 4 * sizeof *key) == 0 && key[6] == block->key[6];
    bool same = same_tables && key[0] == block->key[0] && key[5] == block->key[5];
    int64_t count = block->m_end - block->m_begin, depth_count = block->k_end - block->k_begin;
    block->from = block->a_offset + (matmul->beside ? block->n_begin : 0);
    if (block->copies && !same_tables) {
        mgpu_offsets(&copy.rows, 0, count, block->row);
        mgpu_offsets(&copy.depth, 0, depth_count, block->along_k);
    } else if (block->packs && !same_tables) {
        int64_t unit = MGPU_NAME(packed_rows)(block), pitch = MGPU_NAME(packed_pitch)(block);
        for (int64_t i = 0; i < count; i++)
            block->row[i] = i / unit * pitch + i % unit;
        for (int64_t i = 0; i < depth_count; i++)
            block->along_k[i] = i * unit;
    } else if (!same_tables) {
        mgpu_offsets(&matmul->am, block->m_begin, block->m_end, block->row);
        mgpu_offsets(&matmul->ak, block->k_begin, block->k_end, block->along_k);
    }
    if (block->copies && !same)
        MGPU_NAME(copy_box)(block->copy, block->a, block->a_offset, block->half_a, &copy);
    else if (block->packs && !same)
        MGPU_NAME(pack_a)(block);
    if (!same_tables)
        for (int i = 0; i < MGPU_ROWS_1; i++) /* a tile may have more rows than are left: it reads the last one again */
            block->row[count + i] = block->row[count - 1];
    memcpy(block->key, key, sizeof key);
    if (block->straight)
        mgpu_offsets(&matmul->cm, block->m_begin, block->m_end, block->row_c);
    else
        for (int64_t i = 0; i < count; i++)
            block->row_c[i] = (block->m_begin - block->first_row + i) * block->pitch;
}

/* Stores the sums of an unrolled matmul to C: each tap is summed over its places. */
MGPU_NOINLINE void MGPU_NAME(fold_sums)(MGPU_NAME(block) * block, int64_t count)
{
    const mgpu_matmul *matmul = block->matmul;
    const mgpu_unroll *unroll = &matmul->unroll;
    int64_t column[LANES], row;
    mgpu_offsets(&matmul->cn, 0, unroll->columns, column);
    for (int64_t i = 0; i < count; i++) {
        if ((block->first_row + i) / unroll->inner % unroll->positions >= unroll->taps)
            continue;
        mgpu_offsets(&matmul->cm, block->first_row + i, block->first_row + i + 1, &row);
        for (int64_t n = 0; n < unroll->columns; n++) {
            MGPU_REAL sum = 0;
            for (int64_t j = 0; j < unroll->places; j++)
                sum += block->sums[(i + j * unroll->inner) * block->pitch + j * unroll->columns + n];
            MGPU_NAME(put)(block->c, block->c_offset + row + column[n], block->half_c, sum);
        }
    }
}

/* Stores the sums of rows [first_row, end) to C. */
MGPU_NOINLINE void MGPU_NAME(put_sums)(MGPU_NAME(block) * block, int64_t end)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t column[MGPU_BLOCK_N], some, count = end - block->first_row;
    if (matmul->unroll.places > 1 && !matmul->unroll.in_b) {
        MGPU_NAME(fold_sums)(block, count);
        return;
    }
    for (int64_t i = 0; i < count; i += MGPU_BLOCK_ROWS) {
        int64_t rows = mgpu_least(MGPU_BLOCK_ROWS, count - i);
        mgpu_offsets(&matmul->cm, block->first_row + i, block->first_row + i + rows, block->row_c);
        for (int64_t j = block->n_begin; j < block->n_end; j += some) {
            some = mgpu_least(MGPU_BLOCK_N, block->n_end - j);
            mgpu_offsets(&matmul->cn, j, j + some, column);
            for (int64_t l = 0; l < some; l++)
                column[l] += block->c_offset;
            MGPU_NAME(unpack)
            (block->c, block->half_c, block->row_c, rows, column, some, block->sums + i * block->pitch + (j - block->n_begin),
             block->pitch);
        }
    }
}

/* ---- the loops */

MGPU_NOINLINE void MGPU_NAME(choose_blocks)(MGPU_NAME(block) * block)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t k = matmul->ak.count, n_most = mgpu_round_up(matmul->n.end - matmul->n.begin, LANES);
    bool packs_b = block->kept == NULL && block->direct == 0;
    block->k_most = 512 * 4 / (int64_t)sizeof(MGPU_REAL);
    block->whole = packs_b && k * 4 * LANES <= block->packed_most;
    if (packs_b) /* A is read once for every block of columns, and packed: so use as many columns as fit */
        n_most = mgpu_least(n_most, mgpu_most(block->whole ? 4 : MGPU_BLOCK_N / LANES, block->packed_most / k / LANES) * LANES);
    if (!block->straight)
        n_most = mgpu_least(n_most, MGPU_BLOCK_N / 2);
    if (matmul->beside)
        n_most = mgpu_least(n_most, 4 * LANES);
    block->whole = packs_b && k * n_most <= block->packed_most;
    if (matmul->windows > 0 && block->kept != NULL)
        block->k_most = mgpu_least(k, MGPU_BLOCK_DEPTH);
    if (packs_b && !block->whole)
        block->k_most = mgpu_least(block->k_most, block->packed_most / n_most);
    block->n_most = n_most;
    block->pitch = n_most + LANES;
    /* Blocks of M are larger than a block of A, so that C stays in the cache over blocks of K. But packing A uses more of the
     * cache than C. */
    int64_t m = matmul->m.end - matmul->m.begin, c_bytes = (int64_t)MGPU_BLOCK_C_BYTES * (block->packs ? 5 : 2) / 2;
    int64_t m_large = k <= block->k_most ? m : c_bytes / (int64_t)sizeof(MGPU_REAL) / n_most;
    if (!block->copies)
        m_large = mgpu_most(m_large, MGPU_BLOCK_ROWS / 2);
    if (!block->straight)
        m_large = mgpu_least(m_large, block->sums_most / block->pitch);
    if (!block->copies && m_large < m)
        m_large = mgpu_least(m_large, mgpu_round_up(mgpu_quotient_up(m, mgpu_quotient_up(m, m_large)), MGPU_ROWS_2));
    block->m_large = m_large;
}

/* Sets k_end for the multiplication of rows [begin, end) of A. depth: the box of K, if A is copied. */
MGPU_NOINLINE void MGPU_NAME(take_depth)(MGPU_NAME(block) * block, int64_t begin, int64_t end, mgpu_box *depth)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t k = matmul->ak.count, last = block->k_begin < block->direct ? block->direct : k, some = block->k_most;
    block->k_end = mgpu_least(last, block->k_begin + mgpu_quotient_up(k, mgpu_quotient_up(k, some)));
    if (!block->copies)
        return;
    mgpu_patch copy;
    mgpu_box rows;
    mgpu_box_at(&rows, &matmul->am, begin, end, 128);
    do {
        mgpu_box_at(depth, &matmul->ak, block->k_begin, last, some);
        mgpu_patch_of(&copy, matmul, &rows, depth, 0, matmul->beside ? block->n_end - block->n_begin : 1, sizeof(MGPU_REAL));
        some = depth->count / 2;
    } while (copy.elements > block->copy_most && some > 0);
    block->k_end = block->k_begin + depth->count;
}

/* Finds the block's B, and packs it if necessary. */
MGPU_NOINLINE void MGPU_NAME(take_columns)(MGPU_NAME(block) * block)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t depth = block->k_end - block->k_begin;
    block->ldb = LANES;
    if (block->kept != NULL) {
        block->next_b = matmul->bk.count * LANES;
        block->from_b = block->kept + (block->n_begin - block->kept_begin) / LANES * block->next_b + block->k_begin * LANES;
        return;
    }
    if (block->k_begin < block->direct) {
        block->ldb = matmul->bk.axes > 0 ? matmul->bk.stride[0] : 0;
        block->next_b = LANES;
        block->from_b = (const MGPU_REAL *)block->b + (block->b_offset + block->k_begin * block->ldb + block->n_begin);
        return;
    }
    block->next_b = depth * LANES;
    block->from_b = block->packed;
    const int64_t key[] = {block->b_offset, block->n_begin, block->k_begin, block->k_end};
    if (memcmp(block->key_b, key, sizeof key) == 0)
        return;
    memcpy(block->key_b, key, sizeof key);
    MGPU_NAME(pack)
    (block->packed, depth, block->b, block->b_offset, block->half_b, &matmul->bn, block->n_begin, block->n_end, &matmul->bk,
     block->k_begin, block->k_end);
}

/* Multiplies one element of the batch. */
MGPU_NOINLINE void MGPU_NAME(multiply)(MGPU_NAME(block) * block)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t m_end = matmul->m.end, n_end = matmul->n.end, k = matmul->ak.count;
    MGPU_NAME(choose_blocks)(block);
    for (block->n_begin = matmul->n.begin; block->n_begin < n_end; block->n_begin = block->n_end) {
        block->n_end = mgpu_least(n_end, block->n_begin + block->n_most);
        if (block->whole) {
            MGPU_NAME(pack)
            (block->packed, k, block->b, block->b_offset, block->half_b, &matmul->bn, block->n_begin, block->n_end, &matmul->bk,
             0, k);
            block->kept = block->packed;
            block->kept_begin = block->n_begin;
        }
        for (int64_t end, begin = matmul->m.begin; begin < m_end; begin = end) {
            mgpu_box depth;
            end = mgpu_least(m_end, begin + block->m_large);
            if (block->copies && end < m_end) {
                mgpu_box_at(&depth, &matmul->am, begin, m_end, block->m_large);
                end = begin + depth.count;
            }
            block->first_row = begin;
            for (block->k_begin = 0; block->k_begin < k; block->k_begin = block->k_end) {
                MGPU_NAME(take_depth)(block, begin, end, &depth);
                MGPU_NAME(take_columns)(block);
                for (block->m_begin = begin; block->m_begin < end; block->m_begin = block->m_end) {
                    block->m_end = block->copies ? end : mgpu_least(end, block->m_begin + MGPU_BLOCK_ROWS);
                    MGPU_NAME(take_rows)(block, &depth);
                    MGPU_NAME(multiply_block)(block);
                }
            }
            if (!block->straight)
                MGPU_NAME(put_sums)(block, end);
        }
    }
}

/* ---- Matrix-vector products, whose operands are contiguous along K. Several rows or columns at a time: this uses more of the
 * memory bandwidth, and their sums are independent. Sums are separate variables, so that they are in registers. */
#if MGPU_VECTOR_BYTES == 64
#define MGPU_DOTS 4
#define EACH_DOT(F) F(0) F(1) F(2) F(3)
#else
#define MGPU_DOTS 2 /* more would need over 16 registers */
#define EACH_DOT(F) F(0) F(1)
#endif
#define BEGIN_DOT(r) VECTOR p##r = {0}, q##r = {0}, u##r = {0}, v##r = {0};
#define STEP_OF_DOT(r)                                                                                                           \
    p##r += x0 * LOAD(other[r] + i);                                                                                             \
    q##r += x1 * LOAD(other[r] + i + LANES);                                                                                     \
    u##r += x2 * LOAD(other[r] + i + 2 * LANES);                                                                                 \
    v##r += x3 * LOAD(other[r] + i + 3 * LANES);
#define SHORT_STEP(r) p##r += x0 * LOAD(other[r] + i);
#define END_DOT(r) p##r = (p##r + q##r) + (u##r + v##r);
#define ADD_LANE(r) total[r] += p##r[j];
#define ADD_ELEMENT(r) total[r] += one[i] * other[r][i];
MGPU_INLINE void MGPU_NAME(dots)(const MGPU_REAL *one, const MGPU_REAL *const *other, int64_t count, MGPU_REAL *total)
{
    EACH_DOT(BEGIN_DOT)
    int64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        VECTOR x0 = LOAD(one + i), x1 = LOAD(one + i + LANES), x2 = LOAD(one + i + 2 * LANES), x3 = LOAD(one + i + 3 * LANES);
        EACH_DOT(STEP_OF_DOT)
    }
    for (; i + LANES <= count; i += LANES) {
        VECTOR x0 = LOAD(one + i);
        EACH_DOT(SHORT_STEP)
    }
    EACH_DOT(END_DOT)
    for (int r = 0; r < MGPU_DOTS; r++)
        total[r] = 0;
    for (int64_t j = 0; j < LANES; j++) {
        EACH_DOT(ADD_LANE)
    }
    for (; i < count; i++) {
        EACH_DOT(ADD_ELEMENT)
    }
}
#undef BEGIN_DOT
#undef STEP_OF_DOT
#undef SHORT_STEP
#undef END_DOT
#undef ADD_LANE
#undef ADD_ELEMENT
#undef EACH_DOT

MGPU_NOINLINE void MGPU_NAME(multiply_dots)(const MGPU_NAME(block) * block)
{
    const mgpu_matmul *matmul = block->matmul;
    bool row = matmul->m.end - matmul->m.begin == 1; /* else a column */
    mgpu_matmul_range range = row ? matmul->n : matmul->m;
    mgpu_walk one, other, to, at;
    mgpu_walk_start(&one, row ? &matmul->am : &matmul->bn, row ? matmul->m.begin : matmul->n.begin);
    mgpu_walk_start(&at, row ? &matmul->cm : &matmul->cn, row ? matmul->m.begin : matmul->n.begin);
    mgpu_walk_start(&other, row ? &matmul->bn : &matmul->am, range.begin);
    mgpu_walk_start(&to, row ? &matmul->cn : &matmul->cm, range.begin);
    const MGPU_REAL *a = (const MGPU_REAL *)block->a + block->a_offset, *b = (const MGPU_REAL *)block->b + block->b_offset;
    MGPU_REAL *c = (MGPU_REAL *)block->c + block->c_offset + at.offset;
    for (int64_t i = range.begin, count; i < range.end; i += count) {
        const MGPU_REAL *from[MGPU_DOTS];
        int64_t place[MGPU_DOTS];
        MGPU_REAL total[MGPU_DOTS];
        count = mgpu_least(MGPU_DOTS, range.end - i);
        for (int64_t r = 0; r < MGPU_DOTS; r++) {
            from[r] = r < count ? (row ? b : a) + other.offset : from[0];
            place[r] = to.offset;
            if (r < count) {
                mgpu_walk_next(&other, row ? &matmul->bn : &matmul->am);
                mgpu_walk_next(&to, row ? &matmul->cn : &matmul->cm);
            }
        }
        MGPU_NAME(dots)((row ? a : b) + one.offset, from, matmul->ak.count, total);
        for (int64_t r = 0; r < count; r++)
            c[place[r]] = total[r];
    }
}
#undef MGPU_DOTS

/* Clears the result if K is empty. */
MGPU_NOINLINE void MGPU_NAME(clear_result)(const MGPU_NAME(block) * block)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t column[MGPU_BLOCK_N], some;
    for (int64_t n = matmul->n.begin; n < matmul->n.end; n += some) {
        some = mgpu_least(MGPU_BLOCK_N, matmul->n.end - n);
        mgpu_offsets(&matmul->cn, n, n + some, column);
        mgpu_walk cm;
        mgpu_walk_start(&cm, &matmul->cm, matmul->m.begin);
        for (int64_t m = matmul->m.begin; m < matmul->m.end; m++, mgpu_walk_next(&cm, &matmul->cm)) {
            int64_t at = block->c_offset + cm.offset;
            if (block->straight)
                MGPU_NAME(clear)((MGPU_REAL *)block->c + at + column[0], some);
            else
                for (int64_t j = 0; j < some; j++)
                    MGPU_NAME(put)(block->c, at + column[j], block->half_c, 0);
        }
    }
}

/* ---- one phase of a contraction, and all phases */
MGPU_INLINE bool MGPU_NAME(single)(const mgpu_index *list)
{
    return list->axes == 0 || (list->axes == 1 && list->stride[0] == 1);
}

/* Returns how many rows of B can be read in place in whole vectors without reading beyond its end. It does not pay for a small
 * depth. */
MGPU_NOINLINE int64_t MGPU_NAME(depth_in_place)(const mgpu_matmul *matmul)
{
    int64_t k = matmul->bk.count, n = matmul->n.end - matmul->n.begin;
    int64_t ldb = matmul->bk.axes > 0 ? matmul->bk.stride[0] : 0;
    if (matmul->beside || n % LANES == 0)
        return k;
    int64_t last = (k - 1) * ldb + matmul->bn.count - (matmul->n.begin + mgpu_round_up(n, LANES));
    return k < 64 || ldb <= 0 || last < 0 ? 0 : mgpu_least(k, last / ldb + 1);
}

/* Returns true if rows of B at this distance are read in place as fast as packed ones, with the time of packing: they are aligned
 * and do not map to the same cache sets. */
MGPU_INLINE bool MGPU_NAME(near)(int64_t apart)
{
    int64_t bytes = apart * (int64_t)sizeof(MGPU_REAL);
    return bytes % MGPU_LINE == 0 && bytes <= 8192 && (bytes + 64) % 4096 > 128;
}

/* kept: where B is packed as a whole, in the thread's first call, or NULL. */
MGPU_NOINLINE void MGPU_NAME(multiply_batch)(MGPU_NAME(block) * block, MGPU_REAL *kept, bool first)
{
    const mgpu_matmul *matmul = block->matmul;
    int64_t m = matmul->m.end - matmul->m.begin, n = matmul->n.end - matmul->n.begin, k = matmul->ak.count;
    if (n == 0 || matmul->batch.end == matmul->batch.begin || (m == 0 && kept == NULL))
        return;
    int64_t across = matmul->am.axes > 0 ? matmul->am.stride[matmul->am.axes - 1] * (int64_t)sizeof(MGPU_REAL) : 0;
    int64_t down = matmul->ak.axes > 0 ? matmul->ak.stride[matmul->ak.axes - 1] * (int64_t)sizeof(MGPU_REAL) : 0;
    /* rows map to the same cache sets, or each step along K is on another cache line */
    bool crowded = ((across + 64) % 4096 <= 128 && across > 2048) || down >= MGPU_FAR_BYTES;
    bool lines = matmul->bk.axes <= 1 && MGPU_NAME(single)(&matmul->bn) && !block->half_b;
    bool dense = matmul->bk.axes == 0 || matmul->bk.stride[0] <= 4 * LANES;
    bool one = block->exact ? block->one_always : m == 1 || n == 1;
    bool dots = one && k >= 2 * LANES && !matmul->beside && matmul->windows == 0 && MGPU_NAME(single)(&matmul->ak) &&
                MGPU_NAME(single)(&matmul->bk) && !block->half_a && !block->half_b && !block->half_c;
    block->packs = matmul->windows == 0 && !matmul->beside && crowded && m > 8 && n > 2 * LANES && block->copy_most > 0;
    block->copies = matmul->windows > 0 || (block->half_a && !block->packs);
    block->along = matmul->ak.axes == 1 && matmul->ak.stride[0] == 1;
    block->groups = !block->along && matmul->am.axes == 1 && matmul->am.stride[0] == 1;
    bool near = (block->packs || m <= MGPU_BLOCK_ROWS) && MGPU_NAME(near)(matmul->bk.axes > 0 ? matmul->bk.stride[0] : 0);
    bool in_place = kept == NULL && lines && (m <= 2 * MGPU_ROWS_2 || dense || near);
    block->direct = in_place ? MGPU_NAME(depth_in_place)(matmul) : 0;
    block->straight = MGPU_NAME(single)(&matmul->cn) && !block->half_c && (matmul->unroll.places == 1 || matmul->unroll.in_b);
    memset(block->key, 0xff, sizeof block->key);
    memset(block->key_b, 0xff, sizeof block->key_b);
    mgpu_walk at_a, at_b, at_c;
    mgpu_walk_start(&at_a, &matmul->batch_a, matmul->batch.begin);
    mgpu_walk_start(&at_b, &matmul->batch_b, matmul->batch.begin);
    mgpu_walk_start(&at_c, &matmul->batch_c, matmul->batch.begin);
    for (int64_t i = matmul->batch.begin; i < matmul->batch.end; i++) {
        block->a_offset = matmul->a + at_a.offset;
        block->b_offset = matmul->b + at_b.offset;
        block->c_offset = matmul->c + at_c.offset;
        block->kept = kept;
        block->kept_begin = matmul->n.begin;
        if (kept != NULL && first && matmul->unroll.places > 1)
            MGPU_NAME(pack_unrolled)(kept, block->b, block->b_offset, block->half_b, matmul);
        else if (kept != NULL && first)
            MGPU_NAME(pack)
        (kept, k, block->b, block->b_offset, block->half_b, &matmul->bn, matmul->n.begin, matmul->n.end, &matmul->bk, 0, k);
        if (kept != NULL)
            kept += k * mgpu_round_up(n, LANES);
        if (k == 0)
            MGPU_NAME(clear_result)(block);
        else if (dots)
            MGPU_NAME(multiply_dots)(block);
        else if (m > 0)
            MGPU_NAME(multiply)(block);
        mgpu_walk_next(&at_a, &matmul->batch_a);
        mgpu_walk_next(&at_b, &matmul->batch_b);
        mgpu_walk_next(&at_c, &matmul->batch_c);
    }
}

MGPU_NOINLINE void MGPU_NAME(multiply_phases)(const mgpu_contraction *table, const void *a, const void *b, void *c,
                                              void *workspace, const mgpu_part *part)
{
    mgpu_matmul matmul;
    MGPU_NAME(block) block;
    block.matmul = &matmul;
    block.a = a;
    block.b = b;
    block.c = c;
    block.half_a = table->half_a;
    block.half_b = table->half_b;
    block.half_c = table->half_c;
    block.exact = part->exact;
    block.copy_most = table->copy / (int64_t)sizeof(MGPU_REAL);
    block.sums_most = table->sums / (int64_t)sizeof(MGPU_REAL);
    block.packed_most = table->packed / (int64_t)sizeof(MGPU_REAL);
    block.copy = workspace;
    block.sums = block.copy + block.copy_most;
    block.packed = block.sums + block.sums_most;
    MGPU_REAL *kept = block.packed, *end = kept + (table->keep ? block.packed_most : 0);
    int64_t phases = 1;
    for (int64_t phase = 0; phase < phases; phase++) {
        phases = mgpu_matmul_of(&matmul, table, part->begin, part->end, phase, LANES);
        mgpu_take_share(&matmul, part, MGPU_ROWS_2, LANES);
        block.one_always = mgpu_one_always(&matmul, table);
        int64_t batch = matmul.batch.end - matmul.batch.begin, n = matmul.n.end - matmul.n.begin;
        int64_t needed = batch * matmul.bk.count * mgpu_round_up(n, LANES);
        bool keep = needed > 0 && needed <= end - kept;
        MGPU_NAME(multiply_batch)(&block, keep ? kept : NULL, part->first);
        kept += keep ? needed : 0;
    }
}

#include "runtime/host/attention_real.h"

#undef VECTOR
#undef HALF
#undef LANES
#undef MASK
#undef WORDS
#undef FLOATS
#undef LOAD
#undef STORE
#undef SPLAT
#undef LOAD_PART
#undef STORE_PART
