/* mgpu_device_rows.h: running operations and the k largest of mgpu_rows.h on a GPU. A group of threads shares a row: a warp, or a
 * block.
 *
 * Running operations: threads have neighbours along the row, or parts of it where rows are next to each other; what threads have
 * is combined from the first to the last. The order depends on the shape alone.
 *
 * The k largest: a key is an element, in an order that whole numbers have, above its place, complemented; so no two keys are
 * equal. Those that are larger than the k-th so far are collected, and sorted when there are many: Batcher's bitonic sort. */
#ifndef MGPU_DEVICE_ROWS_H
#define MGPU_DEVICE_ROWS_H

#include "mgpu_device_tile.h"

/* ---- rows */

struct mgpu_row { int64_t operand, result; }; /* first elements */

template <const mgpu_rows &T> MGPU_FUNCTION mgpu_row mgpu_row_at(int64_t row)
{
    const int64_t sample = row / (T.rows > 0 ? T.rows : 1);
    mgpu_row at = {sample * T.operand_sample, sample * T.result_sample};
    row -= sample * T.rows;
#pragma unroll
    for (int i = T.axes - 1; i >= 0; i--) {
        const int64_t extent = T.axis[i].extent, rest = row / extent, own = row - rest * extent;
        at.operand += own * T.axis[i].operand;
        at.result += own * T.axis[i].result;
        row = rest;
    }
    return at;
}

template <const mgpu_rows &T> MGPU_FUNCTION int64_t mgpu_row_count(int64_t n) { return T.result_sample > 0 ? T.rows * n : T.rows; }

template <int GROUP> MGPU_FUNCTION void mgpu_group_meet(void)
{
    if (GROUP == 32)
        __syncwarp();
    else
        __syncthreads();
}

/* ---- elements: what they are in memory, and what is calculated in */

template <int TYPE> struct mgpu_row_element;
#define MGPU_ROW_ELEMENT(TYPE, in_memory, of_sums, keys, order)                                                           \
    template <> struct mgpu_row_element<TYPE> {                                                                           \
        typedef in_memory value;                                                                                          \
        typedef of_sums sum;                                                                                              \
        typedef keys key;                                                                                                 \
        MGPU_FUNCTION key ordered(value v) { return order; }                                                              \
    };
/* numbers as whole numbers in the same order; NaN is the largest, -0 is 0 */
MGPU_FUNCTION uint32_t mgpu_order(float v)
{
    const uint32_t bits = __float_as_uint(v + 0.0f);
    return v != v ? 0xFFFFFFFFu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
MGPU_FUNCTION uint64_t mgpu_order(double v)
{
    const uint64_t bits = (uint64_t)__double_as_longlong(v + 0.0);
    return v != v ? ~(uint64_t)0 : bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
MGPU_ROW_ELEMENT(MGPU_F32, float, double, uint32_t, mgpu_order(v))
MGPU_ROW_ELEMENT(MGPU_F64, double, double, uint64_t, mgpu_order(v))
MGPU_ROW_ELEMENT(MGPU_BOOL, uint8_t, uint32_t, uint32_t, v)
MGPU_ROW_ELEMENT(MGPU_U8, uint8_t, uint32_t, uint32_t, v)
MGPU_ROW_ELEMENT(MGPU_I8, int8_t, uint32_t, uint32_t, (uint32_t)(int32_t)v ^ 0x80000000u)
MGPU_ROW_ELEMENT(MGPU_U16, uint16_t, uint32_t, uint32_t, v)
MGPU_ROW_ELEMENT(MGPU_I16, int16_t, uint32_t, uint32_t, (uint32_t)(int32_t)v ^ 0x80000000u)
MGPU_ROW_ELEMENT(MGPU_U32, uint32_t, uint32_t, uint32_t, v)
MGPU_ROW_ELEMENT(MGPU_I32, int32_t, uint32_t, uint32_t, (uint32_t)v ^ 0x80000000u)
MGPU_ROW_ELEMENT(MGPU_I64, int64_t, uint64_t, uint64_t, (uint64_t)v ^ (uint64_t)1 << 63)
#undef MGPU_ROW_ELEMENT

template <const mgpu_rows &T> MGPU_FUNCTION typename mgpu_row_element<T.type>::value mgpu_row_load(const void *x, int64_t at)
{
    if constexpr (T.half == MGPU_HALF_BF16)
        return mgpu_from_bf16(((const mgpu_bf16 *)x)[at]);
    else if constexpr (T.half == MGPU_HALF_F16)
        return mgpu_from_f16(((const mgpu_f16 *)x)[at]);
    else
        return ((const typename mgpu_row_element<T.type>::value *)x)[at];
}

/* ---- running operations */

#define MGPU_RUNNING(NAME, name, operation, combined, first, ...)                                                       \
    template <typename SUM> struct mgpu_running_##name {                                                                \
        MGPU_FUNCTION SUM start(void) { return (SUM)(first); }                                                          \
        MGPU_FUNCTION SUM combine(SUM a, SUM b) { return (SUM)(combined); }                                             \
    };
MGPU_RUNNING_TABLE(MGPU_RUNNING)
#undef MGPU_RUNNING

/* what all threads of the group before this one combine to, and all; `room`: of a block's warps */
template <int GROUP, typename R, typename SUM> MGPU_FUNCTION SUM mgpu_running_before(SUM own, SUM &all, SUM room[MGPU_ROWS_THREADS / 32])
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    SUM sum = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const SUM below = __shfl_up_sync(0xFFFFFFFFu, sum, by);
        sum = lane >= (uint32_t)by ? R::combine(below, sum) : sum;
    }
    SUM before = __shfl_up_sync(0xFFFFFFFFu, sum, 1);
    before = lane > 0 ? before : R::start();
    all = __shfl_sync(0xFFFFFFFFu, sum, 31);
    if (GROUP > 32) {
        if (lane == 31)
            room[warp] = sum;
        __syncthreads();
        SUM warps = R::start(), total = R::start();
        for (uint32_t w = 0; w < MGPU_ROWS_THREADS / 32; w++) {
            warps = w < warp ? R::combine(total, room[w]) : warps;
            total = R::combine(total, room[w]);
        }
        before = R::combine(warps, before);
        all = total;
        __syncthreads();
    }
    return before;
}

template <template <typename> class RUNNING, const mgpu_rows &T, const mgpu_rows_tiles &S>
MGPU_FUNCTION void mgpu_running_along(const void *x, void *y, int64_t n)
{
    typedef typename mgpu_row_element<T.type>::value value;
    typedef typename mgpu_row_element<T.type>::sum sum;
    typedef RUNNING<sum> R;
    constexpr int GROUP = S.group, SOME = MGPU_SUMS_AT_ONCE, GROUPS = MGPU_ROWS_THREADS / GROUP;
    constexpr int64_t L = T.along.extent;
    __shared__ sum room[MGPU_ROWS_THREADS / 32];
    const int64_t rows = mgpu_row_count<T>(n), thread = threadIdx.x % GROUP;
    for (int64_t row = mgpu_first_block(S.alone) * GROUPS + threadIdx.x / GROUP; row < rows;
         row += mgpu_all_blocks(S.alone) * GROUPS) {
        const mgpu_row at = mgpu_row_at<T>(row);
        sum carry = R::start();
        for (int64_t first = 0; first < L; first += GROUP * SOME) {
            sum own[SOME], total = R::start(), all;
#pragma unroll
            for (int i = 0; i < SOME; i++) {
                const int64_t place = first + thread * SOME + i;
                own[i] = place < L ? (sum)mgpu_row_load<T>(x, at.operand + (T.backwards ? L - 1 - place : place) * T.along.operand) : R::start();
                total = R::combine(total, own[i]);
            }
            sum before = R::combine(carry, mgpu_running_before<GROUP, R>(total, all, room));
            carry = R::combine(carry, all);
#pragma unroll
            for (int i = 0; i < SOME; i++) {
                const int64_t place = first + thread * SOME + i;
                before = R::combine(before, own[i]);
                if (place < L)
                    ((value *)y)[at.result + (T.backwards ? L - 1 - place : place) * T.along.result] = (value)before;
            }
        }
    }
}

/* rows that are next to each other: a thread has a part of one; each thread combines those before its own */
template <template <typename> class RUNNING, const mgpu_rows &T, const mgpu_rows_tiles &S>
MGPU_FUNCTION void mgpu_running_beside(const void *x, void *y, int64_t n)
{
    typedef typename mgpu_row_element<T.type>::value value;
    typedef typename mgpu_row_element<T.type>::sum sum;
    typedef RUNNING<sum> R;
    constexpr int BESIDE = S.beside, PARTS = MGPU_ROWS_THREADS / BESIDE;
    constexpr int64_t L = T.along.extent, EACH = (L + PARTS - 1) / PARTS;
    __shared__ sum room[PARTS][BESIDE];
    const int64_t rows = mgpu_row_count<T>(n), part = threadIdx.x / BESIDE, own = threadIdx.x % BESIDE;
    const int64_t begin = part * EACH, end = min(begin + EACH, L);
    for (int64_t first = mgpu_first_block(S.alone) * BESIDE; first < rows; first += mgpu_all_blocks(S.alone) * BESIDE) {
        const mgpu_row at = mgpu_row_at<T>(min(first + own, rows - 1));
        sum total = R::start();
        for (int64_t i = begin; i < end && PARTS > 1; i++)
            total = R::combine(total, (sum)mgpu_row_load<T>(x, at.operand + (T.backwards ? L - 1 - i : i) * T.along.operand));
        room[part][own] = total;
        __syncthreads();
        total = R::start();
        for (int p = 0; p < part; p++)
            total = R::combine(total, room[p][own]);
        for (int64_t i = begin; i < end && first + own < rows; i++) {
            total = R::combine(total, (sum)mgpu_row_load<T>(x, at.operand + (T.backwards ? L - 1 - i : i) * T.along.operand));
            ((value *)y)[at.result + (T.backwards ? L - 1 - i : i) * T.along.result] = (value)total;
        }
        __syncthreads();
    }
}

#define MGPU_RUNNING(NAME, name, ...)                                                                                   \
    template <const mgpu_rows &T, const mgpu_rows_tiles &S> MGPU_FUNCTION void mgpu_##name(const void *x, void *y, int64_t n) \
    {                                                                                                                   \
        if constexpr (S.beside > 1)                                                                                     \
            mgpu_running_beside<mgpu_running_##name, T, S>(x, y, n);                                                    \
        else                                                                                                            \
            mgpu_running_along<mgpu_running_##name, T, S>(x, y, n);                                                     \
    }
MGPU_RUNNING_TABLE(MGPU_RUNNING)
#undef MGPU_RUNNING

/* ---- the k largest */

struct __align__(16) mgpu_wide_key { uint64_t order, place; };
MGPU_FUNCTION bool mgpu_larger_key(uint64_t a, uint64_t b) { return a > b; }
MGPU_FUNCTION bool mgpu_larger_key(const mgpu_wide_key &a, const mgpu_wide_key &b)
{
    return a.order > b.order || (a.order == b.order && a.place > b.place);
}
MGPU_FUNCTION void mgpu_make_key(uint64_t &key, uint32_t order, int64_t place) { key = (uint64_t)order << 32 | (uint32_t)~(uint32_t)place; }
MGPU_FUNCTION void mgpu_make_key(mgpu_wide_key &key, uint64_t order, int64_t place) { key = {order, (uint32_t)~(uint32_t)place}; }
MGPU_FUNCTION int64_t mgpu_place_of(uint64_t key) { return ~(uint32_t)key; }
MGPU_FUNCTION int64_t mgpu_place_of(const mgpu_wide_key &key) { return ~(uint32_t)key.place; }
/* less than all others: no place is complemented to 0 */
MGPU_FUNCTION void mgpu_no_key(uint64_t &key) { key = 0; }
MGPU_FUNCTION void mgpu_no_key(mgpu_wide_key &key) { key = {0, 0}; }

/* descending; count: a power of 2 */
template <int GROUP, typename KEY> MGPU_FUNCTION void mgpu_sort_keys(KEY *keys, int64_t count)
{
    for (int64_t run = 2; run <= count; run *= 2)
        for (int64_t apart = run / 2; apart > 0; apart /= 2) {
            for (int64_t i = threadIdx.x % GROUP; i < count / 2; i += GROUP) {
                const int64_t low = 2 * i - (i & (apart - 1)), high = low + apart; /* i / apart * 2 * apart + i % apart */
                const KEY a = keys[low], b = keys[high];
                const bool down = (low & run) == 0;
                /* a reference to either would put both into local memory */
                if (down ? mgpu_larger_key(b, a) : mgpu_larger_key(a, b)) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
            mgpu_group_meet<GROUP>();
        }
}

template <const mgpu_rows &T, const mgpu_rows_tiles &S>
MGPU_FUNCTION void mgpu_top_k(const void *x, void *values, int32_t *places, void *work, int64_t n)
{
    typedef mgpu_row_element<T.type> element;
    typedef typename mgpu_either<sizeof(typename element::key) == 4, uint64_t, mgpu_wide_key>::type key_type;
    constexpr int GROUP = S.group, GROUPS = MGPU_ROWS_THREADS / GROUP;
    constexpr int64_t L = T.along.extent, K = T.k, ROOM = S.room;
    __shared__ int counts[GROUPS];
    const int group = threadIdx.x / GROUP;
    const int64_t thread = threadIdx.x % GROUP, rows = mgpu_row_count<T>(n);
    key_type *keys =
        S.in_workspace ? (key_type *)work + mgpu_first_block(S.alone) * ROOM : (key_type *)mgpu_dynamic_shared() + group * ROOM;
    for (int64_t row = mgpu_first_block(S.alone) * GROUPS + group; row < rows; row += mgpu_all_blocks(S.alone) * GROUPS) {
        const mgpu_row at = mgpu_row_at<T>(row);
        key_type least;
        mgpu_no_key(least);
        if (thread == 0)
            counts[group] = 0;
        mgpu_group_meet<GROUP>();
        for (int64_t first = 0; first < L; first += GROUP) {
            const int64_t place = first + thread;
            if (place < L) {
                key_type key;
                mgpu_make_key(key, element::ordered(mgpu_row_load<T>(x, at.operand + place * T.along.operand)), place);
                if (mgpu_larger_key(key, least))
                    keys[atomicAdd(&counts[group], 1)] = key;
            }
            mgpu_group_meet<GROUP>();
            const int count = counts[group];
            const bool last = first + GROUP >= L;
            if ((ROOM < L && count + GROUP > ROOM) || last) {
                for (int64_t i = count + thread; i < ROOM; i += GROUP)
                    mgpu_no_key(keys[i]);
                mgpu_group_meet<GROUP>();
                mgpu_sort_keys<GROUP>(keys, ROOM);
                least = keys[K - 1];
                if (thread == 0)
                    counts[group] = (int)K;
            }
            mgpu_group_meet<GROUP>();
        }
        for (int64_t i = thread; i < K; i += GROUP) {
            const int64_t place = mgpu_place_of(keys[i]), to = at.result + i * T.along.result;
            if (T.values >= 0)
                ((typename element::value *)values)[to] = mgpu_row_load<T>(x, at.operand + place * T.along.operand);
            if (T.places >= 0)
                places[to] = (int32_t)place;
        }
        mgpu_group_meet<GROUP>();
    }
}
#endif
