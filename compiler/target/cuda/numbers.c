/* numbers.c: the numbers of a matmul that its launch passes (runtime/abi/mgpu_numbers.h), so that matmuls of one form share a
 * function. A form is the kinds of the axes, which of them move in windows, the layout of operands in shared memory and how many
 * elements are copied at once. The numbers are the rest: extents, strides, first elements. */
#include "compiler/base/c_text.h"
#include "compiler/target/cuda/tiles.h"

/* ---- how elements are moved */

/* Returns true if lines are copied along K, false: along rows. */
static bool is_along_k(const mgpu_contraction *t, int list, int tensor)
{
    return mgpu_follow(t, MGPU_LIST_K, tensor) || !mgpu_follow(t, list, tensor);
}

mgpu_tiles cuda_moved_tiles(const CudaMatmul *p)
{
    const mgpu_contraction *t = &p->table;
    mgpu_tiles s = p->tiles;
    int chunk_a = MGPU_CHUNK_BYTES / mgpu_staged_bytes(&s, s.type_a),
        chunk_b = MGPU_CHUNK_BYTES / mgpu_staged_bytes(&s, s.type_b);
    bool nothing = s.arithmetic != MGPU_DIRECT && s.stages == 0; /* neither operand is read */
    s.along_k_a = nothing || is_along_k(t, MGPU_LIST_M, 0);
    s.along_k_b = nothing || is_along_k(t, MGPU_LIST_N, 1);
    s.piece_a = nothing ? 1 : mgpu_together(t, s.along_k_a ? MGPU_LIST_K : MGPU_LIST_M, 0, s.aligned_a, chunk_a, 0);
    s.piece_b = nothing ? 1 : mgpu_together(t, s.along_k_b ? MGPU_LIST_K : MGPU_LIST_N, 1, s.aligned_b, chunk_b, 0);
    s.piece_c = mgpu_together(t, s.transposed ? MGPU_LIST_M : MGPU_LIST_N, 2, s.aligned_c,
                              MGPU_CHUNK_BYTES / mgpu_type_bytes(s.type_c), s.c);
    s.linear_a = nothing || mgpu_is_linear(t, 0);
    s.linear_b = nothing || mgpu_is_linear(t, 1);
    /* else threads have few rows */
    s.marked_a = !nothing && s.arithmetic != MGPU_DIRECT && s.along_k_a && mgpu_may_be_marked(t);
    return s;
}

/* ---- numbers */

enum { WIDEST = 8 /* most bytes of an element */ };

static bool is_small(int64_t number) { return number >= INT32_MIN && number <= INT32_MAX; }

static bool has_room(const CudaMatmul *p)
{
    const mgpu_contraction *t = &p->table;
    int axes = t->batch + t->m + t->n + t->k;
    if (p->tiles.arithmetic == MGPU_DIRECT || axes > MGPU_NUMBERED_AXES || t->windows > MGPU_NUMBERED_WINDOWS)
        return false;
    for (int i = 0; i < axes; i++) {
        for (int tensor = 0; tensor < 3; tensor++)
            if (!is_small(WIDEST * mgpu_axis_stride(t, i, tensor))) /* kernels compute offsets in bytes */
                return false;
        if (!is_small(t->axis[i].extent) || !is_small(t->axis[i].step))
            return false;
    }
    for (int w = 0; w < t->windows; w++)
        if (!is_small(t->window[w].extent) || !is_small(t->window[w].stride) || !is_small(t->window[w].first))
            return false;
    return true;
}

int cuda_number_count(const CudaMatmul *p)
{
    int count = 0;
    for (; p; p = p->next, count++)
        if (!has_room(p) || count == CUDA_NUMBERS)
            return 0;
    return count;
}

/* ---- forms */

static void identify_part(Sha256 *sha, const CudaMatmul *p)
{
    const mgpu_contraction *t = &p->table;
    const mgpu_tiles s = cuda_moved_tiles(p);
    IDENTITY_ADD(sha, t->batch, t->m, t->n, t->k, t->windows, t->type);
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++)
        IDENTITY_ADD(sha, t->axis[i].window);
    for (int w = 0; w < t->windows; w++)
        IDENTITY_ADD(sha, t->window[w].input_dilation);
    IDENTITY_ADD(sha, s.arithmetic, s.type_a, s.type_b, s.type_c, s.aligned_a, s.aligned_b, s.aligned_c, s.transposed, s.rows,
                 s.columns, s.depth, s.stages, s.down, s.across, s.split_tiles, s.split_depth, s.along_k_a, s.along_k_b,
                 s.piece_a, s.piece_b, s.piece_c, s.linear_a, s.linear_b, s.marked_a, s.warpgroups);
}

void cuda_matmul_identity(Sha256 *sha, const CudaMatmul *p)
{
    for (; p; p = p->next)
        identify_part(sha, p);
}

bool cuda_same_function(const CudaMatmul *p, const CudaMatmul *q)
{
    const CudaMatmul *const parts[] = {p, q};
    Digest d[2];
    for (int i = 0; i < 2; i++) {
        Sha256 sha = mgpu_sha256_begin();
        identify_part(&sha, parts[i]);
        d[i] = mgpu_sha256_end(&sha);
    }
    return memcmp(d[0].bytes, d[1].bytes, sizeof d[0].bytes) == 0;
}

/* Returns 2^(bits + shift) / extent, rounded up, for 2^shift / 2 < extent <= 2^shift. */
static uint64_t inverse_of(uint64_t extent, int shift, int bits)
{
    uint64_t rest = (UINT64_C(1) << shift) - extent, quotient = 1;
    for (int i = 0; i < bits; i++) {
        bool more = 2 * rest >= extent;
        quotient = 2 * quotient + more;
        rest = 2 * rest - (more ? extent : 0);
    }
    return quotient + (rest > 0);
}

static mgpu_numbers numbers_of(const CudaMatmul *p)
{
    const mgpu_contraction *t = &p->table;
    const mgpu_tiles s = cuda_moved_tiles(p);
    mgpu_numbers to = {.first = {mgpu_first_element(t, 0), mgpu_first_element(t, 1), p->tiles.c}};
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++) {
        const mgpu_axis *from = &t->axis[i];
        mgpu_numbered_axis *x = &to.axis[i];
        *x = (mgpu_numbered_axis){.extent = from->extent, .step = (int32_t)from->step};
        for (int tensor = 0; tensor < 3; tensor++)
            x->stride[tensor] = (int32_t)mgpu_axis_stride(t, i, tensor);
        for (int move = 0; move < MGPU_MOVES && i >= mgpu_list_first(t, MGPU_LIST_K) && s.stages > 0; move++)
            x->move[move] = (int32_t)mgpu_move_digit(t, i, mgpu_move_depth(&s, move));
        if (from->extent <= 0)
            continue; /* the first axis of its list: nothing is divided by its extent */
        while (INT64_C(1) << x->shift < from->extent)
            x->shift++;
        x->inverse = (uint32_t)inverse_of((uint64_t)from->extent, (int)x->shift, 31);
        x->inverse_64 = inverse_of((uint64_t)from->extent, (int)x->shift, 63);
    }
    for (int w = 0; w < t->windows; w++)
        to.window[w] =
            (mgpu_numbered_window){(int32_t)t->window[w].extent, (int32_t)t->window[w].stride, (int32_t)t->window[w].first};
    return to;
}

int cuda_number_list(const CudaMatmul *p, mgpu_numbers to[CUDA_NUMBERS])
{
    int count = cuda_number_count(p);
    for (int i = 0; i < count; i++, p = p->next)
        to[i] = numbers_of(p);
    return count;
}

/* ---- text */

static void print_numbers(const CudaMatmul *p, Text *text)
{
    const mgpu_contraction *t = &p->table;
    const mgpu_numbers own = numbers_of(p);
    text_add(text, "{.axis = {");
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++) {
        const mgpu_numbered_axis *x = &own.axis[i];
        text_add(text,
                 "{.extent = %lld, .stride = {%d, %d, %d}, .step = %d, .move = {%d, %d, %d}, .inverse = %uu, .shift = %u, "
                 ".inverse_64 = 0x%llxu}, ",
                 (long long)x->extent, x->stride[0], x->stride[1], x->stride[2], x->step, x->move[0], x->move[1], x->move[2],
                 x->inverse, x->shift, (unsigned long long)x->inverse_64);
    }
    text_add(text, t->windows ? "}, .window = {" : "");
    for (int w = 0; w < t->windows; w++)
        text_add(text, "{.extent = %d, .stride = %d, .first = %d}, ", own.window[w].extent, own.window[w].stride,
                 own.window[w].first);
    text_add(text, "}, .first = {%lld, %lld, %lld}}, ", (long long)own.first[0], (long long)own.first[1],
             (long long)own.first[2]);
}

void cuda_print_numbers(const CudaMatmul *p, Text *text)
{
    int count = cuda_number_count(p);
    text_add(text, count ? ", .parameters = (const mgpu_numbers[]){" : "");
    for (const CudaMatmul *own = p; own && count; own = own->next)
        print_numbers(own, text);
    text_add(text, count ? "}" : "");
}

static const char *part_text(const CudaMatmul *p)
{
    Text words = {0}, *text = &words;
    static const char *const lists[] = {"batch", "M", "N", "K"};
    const mgpu_contraction *t = &p->table;
    const mgpu_axis *axis = t->axis;
    for (int list = 0; list < 4; list++)
        for (int i = 0; i < mgpu_list_count(t, list); i++, axis++) {
            const char *extent = axis->extent == MGPU_SAMPLES ? "n" : format("%lld", (long long)axis->extent);
            text_add(text, " %s%s (%lld %lld %lld", i ? "" : format("%s: ", lists[list]), extent, (long long)axis->a,
                     (long long)axis->b, (long long)axis->c);
            text_add(text, axis->window > 0 ? "; %lld in window %d)" : ")", (long long)axis->step, axis->window);
        }
    for (int w = 0; w < t->windows; w++)
        text_add(text, "; window %d: extent %lld, stride %lld, first %lld", w + 1, (long long)t->window[w].extent,
                 (long long)t->window[w].stride, (long long)t->window[w].first);
    text_add(text, "; first elements %lld %lld %lld", (long long)t->a, (long long)t->b, (long long)p->tiles.c);
    return text_take(&words);
}

void cuda_comment_numbers(const CudaMatmul *p, Text *text)
{
    const char *line[1 + CUDA_NUMBERS] = {"its launch gives, with strides in A, B, C:"};
    int lines = 1;
    if (!p->next)
        line[0] = format("%s%s", line[0], part_text(p));
    for (const CudaMatmul *own = p; p->next && own; own = own->next)
        line[lines++] = format("  %s", part_text(own));
    text_add(text, "%s\n", c_comment_lines(line, lines));
}
