/* rows.c: running operations and mgpu_top_k (mgpu_rows.h).
 *
 * In: a table and arguments. Out: the rows of the part. A running operation processes LANES rows at once if their elements are
 * adjacent in memory, otherwise FEW rows, because their chains of operations are independent.
 *
 * The k largest are kept in a heap with the smallest at its root. Its keys are integers: the element, mapped to an integer of the
 * same order, above its complemented index, so that of equal elements the first is the largest. If k is a large part of a long
 * row, the whole row is sorted by a radix sort. */
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_rows.h"

#include <string.h>

enum { LANES = 64, FEW = 8, BLOCK = 32 };

/* A run of rows at equal distances. */
typedef struct RowRange {
    int64_t operand, result; /* offset of the first row's first element */
    int64_t operand_lane, result_lane;
    int64_t lanes;
} RowRange;

/* Returns several rows from `row` on, which end before `end`, or one row. */
static RowRange run_at(const mgpu_rows *t, int64_t row, int64_t end, bool several)
{
    int64_t sample = row / t->rows, rest = row % t->rows;
    RowRange r = {.operand = sample * t->operand_sample, .result = sample * t->result_sample, .lanes = 1};
    int64_t left = 1;
    if (t->axes == 0) { /* one row per sample */
        left = end - row;
        r.operand_lane = t->operand_sample;
        r.result_lane = t->result_sample;
    }
    for (int i = t->axes - 1; i >= 0; i--) {
        const mgpu_row_axis *a = &t->axis[i];
        int64_t at = rest % a->extent;
        if (i == t->axes - 1) {
            left = a->extent - at;
            r.operand_lane = a->operand;
            r.result_lane = a->result;
        }
        r.operand += at * a->operand;
        r.result += at * a->result;
        rest /= a->extent;
    }
    int64_t most = r.operand_lane == 1 && r.result_lane == 1 ? LANES : FEW;
    if (several)
        r.lanes = left < most ? left : most;
    r.lanes = r.lanes < end - row ? r.lanes : end - row;
    return r;
}

static void part_of(const mgpu_rows *t, const mgpu_part *part, int64_t *begin, int64_t *end)
{
    *begin = part->begin * (t->by_row ? 1 : t->rows);
    *end = part->end * (t->by_row ? 1 : t->rows);
}

#define SAME(v) (v)

/* ---- running operations: MGPU_RUNNING_TABLE */

/* NAME, TYPE: elements of type FROM in memory, converted by READ; combined in type SUM; results of type TO. */
#define RUNNING_OF_TYPE(NAME, TYPE, COMBINED, START, FROM, READ, SUM, TO)                                                        \
    static void NAME##_##TYPE(const mgpu_rows *t, const RowRange *r, const FROM *restrict x, TO *restrict y)                     \
    {                                                                                                                            \
        SUM sum[LANES];                                                                                                          \
        const int64_t n = t->along.extent, first = t->backwards && n ? n - 1 : 0, lanes = r->lanes;                              \
        const int64_t step = t->backwards ? -t->along.operand : t->along.operand;                                                \
        const int64_t result_step = t->backwards ? -t->along.result : t->along.result;                                           \
        for (int j = 0; j < LANES; j++)                                                                                          \
            sum[j] = START;                                                                                                      \
        x += r->operand + first * t->along.operand;                                                                              \
        y += r->result + first * t->along.result;                                                                                \
        if (r->operand_lane == 1 && r->result_lane == 1) {                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                for (int64_t j = 0; j < lanes; j++) {                                                                            \
                    const SUM a = sum[j], b = (SUM)READ(x[i * step + j]);                                                        \
                    sum[j] = (SUM)(COMBINED);                                                                                    \
                    y[i * result_step + j] = (TO)sum[j];                                                                         \
                }                                                                                                                \
            return;                                                                                                              \
        }                                                                                                                        \
        for (int64_t i = 0; i < n && lanes == FEW; i++)                                                                          \
            for (int j = 0; j < FEW; j++) { /* sums in registers */                                                              \
                const SUM a = sum[j], b = (SUM)READ(x[i * step + j * r->operand_lane]);                                          \
                sum[j] = (SUM)(COMBINED);                                                                                        \
                y[i * result_step + j * r->result_lane] = (TO)sum[j];                                                            \
            }                                                                                                                    \
        for (int64_t j = 0; j < lanes && lanes < FEW; j++)                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                                    \
                const SUM a = sum[j], b = (SUM)READ(x[i * step + j * r->operand_lane]);                                          \
                sum[j] = (SUM)(COMBINED);                                                                                        \
                y[i * result_step + j * r->result_lane] = (TO)sum[j];                                                            \
            }                                                                                                                    \
    }
/* i32 and u32: the same bits */
#define RUNNING(NAME, name, OPERATION, COMBINED, START, ...)                                                                     \
    RUNNING_OF_TYPE(name, bf16, COMBINED, START, uint16_t, mgpu_from_bf16, double, float)                                        \
    RUNNING_OF_TYPE(name, f16, COMBINED, START, uint16_t, mgpu_from_f16, double, float)                                          \
    RUNNING_OF_TYPE(name, f32, COMBINED, START, float, SAME, double, float)                                                      \
    RUNNING_OF_TYPE(name, f64, COMBINED, START, double, SAME, double, double)                                                    \
    RUNNING_OF_TYPE(name, b32, COMBINED, START, uint32_t, SAME, uint32_t, uint32_t)                                              \
    RUNNING_OF_TYPE(name, b64, COMBINED, START, uint64_t, SAME, uint64_t, uint64_t)                                              \
    void mgpu_##name(const mgpu_rows *t, void *const *argument, const mgpu_part *part)                                           \
    {                                                                                                                            \
        const void *x = argument[t->operand];                                                                                    \
        void *y = argument[t->values];                                                                                           \
        int64_t begin, end;                                                                                                      \
        part_of(t, part, &begin, &end);                                                                                          \
        for (int64_t row = begin; row < end;) {                                                                                  \
            RowRange r = run_at(t, row, end, true);                                                                              \
            switch (t->type) {                                                                                                   \
            case MGPU_F32:                                                                                                       \
                if (t->half)                                                                                                     \
                    (t->half == MGPU_HALF_F16 ? name##_f16 : name##_bf16)(t, &r, x, y);                                          \
                else                                                                                                             \
                    name##_f32(t, &r, x, y);                                                                                     \
                break;                                                                                                           \
            case MGPU_F64: name##_f64(t, &r, x, y); break;                                                                       \
            case MGPU_I64: name##_b64(t, &r, x, y); break;                                                                       \
            default: name##_b32(t, &r, x, y); break;                                                                             \
            }                                                                                                                    \
            row += r.lanes;                                                                                                      \
        }                                                                                                                        \
    }
MGPU_RUNNING_TABLE(RUNNING)

/* ---- the k largest */

/* Maps numbers to integers in the same order; NaN is the largest, -0 becomes 0. */
static uint32_t order_f32(float v)
{
    uint32_t bits;
    v += 0.0f;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? UINT32_MAX : bits >> 31 ? ~bits : bits | 0x80000000u;
}

static uint64_t order_f64(double v)
{
    uint64_t bits;
    v += 0.0;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? UINT64_MAX : bits >> 63 ? ~bits : bits | 0x8000000000000000u;
}

static uint32_t order_bf16(uint16_t v) { return order_f32(mgpu_from_bf16(v)); }
static uint32_t order_f16(uint16_t v) { return order_f32(mgpu_from_f16(v)); }
static uint32_t order_i32(int32_t v) { return (uint32_t)v ^ 0x80000000u; }
static uint64_t order_i64(int64_t v) { return (uint64_t)v ^ 0x8000000000000000u; }
static uint32_t order_u32(uint32_t v) { return v; }

typedef uint64_t Narrow;        /* an element of up to 32 bits, and its index */
typedef unsigned __int128 Wide; /* of 64 bits */

/* clang-format off */
#define HEAP(KEY)                                                                                                          \
    static void sink_##KEY(KEY *heap, int64_t count, int64_t at)                                                           \
    {                                                                                                                      \
        const KEY key = heap[at];                                                                                          \
        for (int64_t below; (below = 2 * at + 1) < count; at = below) {                                                    \
            below += below + 1 < count && heap[below + 1] < heap[below];                                                   \
            if (key <= heap[below])                                                                                        \
                break;                                                                                                     \
            heap[at] = heap[below];                                                                                        \
        }                                                                                                                  \
        heap[at] = key;                                                                                                    \
    }                                                                                                                      \
    static void make_##KEY(KEY *heap, int64_t count)                                                                       \
    {                                                                                                                      \
        for (int64_t i = count / 2 - 1; i >= 0; i--)                                                                       \
            sink_##KEY(heap, count, i);                                                                                    \
    }                                                                                                                      \
    /* Sorts in descending order by moving the smallest key to the end. */                                                 \
    static void sort_##KEY(KEY *heap, int64_t count)                                                                       \
    {                                                                                                                      \
        for (int64_t i = count - 1; i > 0; i--) {                                                                          \
            const KEY least = heap[0];                                                                                     \
            heap[0] = heap[i];                                                                                             \
            heap[i] = least;                                                                                               \
            sink_##KEY(heap, i, 0);                                                                                        \
        }                                                                                                                  \
    }                                                                                                                      \
    static int64_t place_of_##KEY(KEY key) { return (int64_t)(~(uint32_t)key); }                                           \
    /* A stable radix sort of elements by digits of eight bits, descending. Returns the sorted one of the two arrays. */   \
    static KEY *sort_digits_##KEY(KEY *from, KEY *to, int64_t count)                                                       \
    {                                                                                                                      \
        for (int shift = 4 * (int)sizeof(KEY); shift < 8 * (int)sizeof(KEY); shift += 8) {                                 \
            int64_t at[256] = {0}, sum = 0;                                                                                \
            for (int64_t i = 0; i < count; i++)                                                                            \
                at[(uint8_t)(from[i] >> shift)]++;                                                                         \
            if (at[(uint8_t)(from[0] >> shift)] == count)                                                                  \
                continue;                                                                                                  \
            for (int digit = 255; digit >= 0; digit--) {                                                                   \
                int64_t own = at[digit];                                                                                   \
                at[digit] = sum;                                                                                           \
                sum += own;                                                                                                \
            }                                                                                                              \
            for (int64_t i = 0; i < count; i++)                                                                            \
                to[at[(uint8_t)(from[i] >> shift)]++] = from[i];                                                           \
            KEY *other = from;                                                                                             \
            from = to;                                                                                                     \
            to = other;                                                                                                    \
        }                                                                                                                  \
        return from;                                                                                                       \
    }
/* clang-format on */
HEAP(Narrow)
HEAP(Wide)

/* Elements that are not larger than the smallest of the heap are skipped: blocks without a larger one by a loop without branches.
 * Of equal elements the earlier one is larger, so equal ones are skipped, too. */
#define TOP_K(NAME, FROM, READ, ORDER, TO, KEY)                                                                                  \
    static void top_k_##NAME(const mgpu_rows *t, const RowRange *r, const FROM *restrict x, TO *restrict values,                 \
                             int32_t *restrict places, KEY *heap)                                                                \
    {                                                                                                                            \
        const int64_t n = t->along.extent, k = t->k, step = t->along.operand, result_step = t->along.result;                     \
        const int bits = 4 * (int)sizeof(KEY);                                                                                   \
        const bool whole = mgpu_top_k_sorts(n, k);                                                                               \
        x += r->operand;                                                                                                         \
        for (int64_t i = 0; i < (whole ? n : k); i++)                                                                            \
            heap[i] = (KEY)ORDER(x[i * step]) << bits | (uint32_t) ~(uint32_t)i;                                                 \
        if (whole)                                                                                                               \
            heap = sort_digits_##KEY(heap, heap + n, n);                                                                         \
        else                                                                                                                     \
            make_##KEY(heap, k);                                                                                                 \
        for (int64_t from = k; from < n && !whole; from += BLOCK) {                                                              \
            const int64_t to = from + BLOCK < n ? from + BLOCK : n;                                                              \
            const TO least = (TO)READ(x[place_of_##KEY(heap[0]) * step]);                                                        \
            int larger = 0;                                                                                                      \
            if (step == 1)                                                                                                       \
                for (int64_t i = from; i < to; i++)                                                                              \
                    larger |= !((TO)READ(x[i]) <= least);                                                                        \
            else                                                                                                                 \
                for (int64_t i = from; i < to; i++)                                                                              \
                    larger |= !((TO)READ(x[i * step]) <= least);                                                                 \
            for (int64_t i = from; i < to && larger; i++) {                                                                      \
                const KEY key = (KEY)ORDER(x[i * step]) << bits | (uint32_t) ~(uint32_t)i;                                       \
                if (key > heap[0]) {                                                                                             \
                    heap[0] = key;                                                                                               \
                    sink_##KEY(heap, k, 0);                                                                                      \
                }                                                                                                                \
            }                                                                                                                    \
        }                                                                                                                        \
        if (!whole)                                                                                                              \
            sort_##KEY(heap, k);                                                                                                 \
        for (int64_t i = 0; i < k; i++) {                                                                                        \
            const int64_t place = place_of_##KEY(heap[i]);                                                                       \
            if (values)                                                                                                          \
                values[r->result + i * result_step] = (TO)READ(x[place * step]);                                                 \
            if (places)                                                                                                          \
                places[r->result + i * result_step] = (int32_t)place;                                                            \
        }                                                                                                                        \
    }
TOP_K(bf16, uint16_t, mgpu_from_bf16, order_bf16, float, Narrow)
TOP_K(f16, uint16_t, mgpu_from_f16, order_f16, float, Narrow)
TOP_K(f32, float, SAME, order_f32, float, Narrow)
TOP_K(f64, double, SAME, order_f64, double, Wide)
TOP_K(u8, uint8_t, SAME, order_u32, uint8_t, Narrow)
TOP_K(i8, int8_t, SAME, order_i32, int8_t, Narrow)
TOP_K(u16, uint16_t, SAME, order_u32, uint16_t, Narrow)
TOP_K(i16, int16_t, SAME, order_i32, int16_t, Narrow)
TOP_K(u32, uint32_t, SAME, order_u32, uint32_t, Narrow)
TOP_K(i32, int32_t, SAME, order_i32, int32_t, Narrow)
TOP_K(i64, int64_t, SAME, order_i64, int64_t, Wide)

void mgpu_top_k(const mgpu_rows *t, void *const *argument, const mgpu_part *part)
{
    const void *x = argument[t->operand];
    void *values = t->values < 0 ? NULL : argument[t->values], *heap = argument[t->workspace];
    int32_t *places = t->places < 0 ? NULL : argument[t->places];
    int64_t begin, end;
    part_of(t, part, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        RowRange r = run_at(t, row, end, false);
        switch (t->type) {
        case MGPU_F32:
            if (t->half)
                (t->half == MGPU_HALF_F16 ? top_k_f16 : top_k_bf16)(t, &r, x, values, places, heap);
            else
                top_k_f32(t, &r, x, values, places, heap);
            break;
        case MGPU_F64: top_k_f64(t, &r, x, values, places, heap); break;
        case MGPU_BOOL:
        case MGPU_U8: top_k_u8(t, &r, x, values, places, heap); break;
        case MGPU_I8: top_k_i8(t, &r, x, values, places, heap); break;
        case MGPU_U16: top_k_u16(t, &r, x, values, places, heap); break;
        case MGPU_I16: top_k_i16(t, &r, x, values, places, heap); break;
        case MGPU_U32: top_k_u32(t, &r, x, values, places, heap); break;
        case MGPU_I64: top_k_i64(t, &r, x, values, places, heap); break;
        default: top_k_i32(t, &r, x, values, places, heap); break;
        }
    }
}
