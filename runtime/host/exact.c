/* exact.c: sums as a fixed binary tree (mgpu_exact.h).
 *
 * Terms come in order. Each is put on a stack, and two neighbours of equal weight are added at once, so log2(count) + 1 blocks of
 * elements are enough. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_half.h"
#include "runtime/abi/mgpu_moments.h"
#include "runtime/base/base.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, MOST_LEVELS = 24 };

/* Returns how many additions follow after term i, of so many, is on the stack. */
static int additions_after(int64_t terms, int64_t i)
{
    int64_t pairs = mgpu_tree_pairs(terms);
    if (i < 2 * pairs && i % 2 == 0)
        return 0;
    int additions = i < 2 * pairs;
    for (int64_t place = i < 2 * pairs ? i / 2 : i - pairs; place & 1; place >>= 1)
        additions++;
    return additions;
}

#define ADD_TREE(name, type, in, sum_type, add, out)                                                                             \
    static void add_##name(type *to, const void *const *from, int64_t count, int64_t begin, int64_t end)                         \
    {                                                                                                                            \
        sum_type stack[MOST_LEVELS][BLOCK];                                                                                      \
        for (int64_t at = begin; at < end; at += BLOCK) {                                                                        \
            int64_t n = end - at < BLOCK ? end - at : BLOCK;                                                                     \
            int level = 0;                                                                                                       \
            for (int64_t t = 0; t < count; t++) {                                                                                \
                const type *x = (const type *)from[t] + at;                                                                      \
                for (int64_t i = 0; i < n; i++)                                                                                  \
                    stack[level][i] = in(x[i]);                                                                                  \
                level++;                                                                                                         \
                for (int more = additions_after(count, t); more > 0; more--, level--)                                            \
                    for (int64_t i = 0; i < n; i++)                                                                              \
                        stack[level - 2][i] = add(stack[level - 2][i], stack[level - 1][i]);                                     \
            }                                                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                                      \
                to[at + i] = out(stack[0][i]);                                                                                   \
        }                                                                                                                        \
    }
#define SAME(x) (x)
#define PLUS(a, b) ((a) + (b))
#define PLUS_BF16(a, b) mgpu_from_bf16(mgpu_to_bf16((a) + (b)))
#define PLUS_F16(a, b) mgpu_from_f16(mgpu_to_f16((a) + (b)))
ADD_TREE(f32, float, SAME, float, PLUS, SAME)
ADD_TREE(f64, double, SAME, double, PLUS, SAME)
ADD_TREE(u8, uint8_t, SAME, uint8_t, (uint8_t)PLUS, SAME) /* whole numbers are added modulo 2^n */
ADD_TREE(u16, uint16_t, SAME, uint16_t, (uint16_t)PLUS, SAME)
ADD_TREE(u32, uint32_t, SAME, uint32_t, PLUS, SAME)
ADD_TREE(u64, uint64_t, SAME, uint64_t, PLUS, SAME)
ADD_TREE(bf16, mgpu_bf16, mgpu_from_bf16, float, PLUS_BF16, mgpu_to_bf16)
ADD_TREE(f16, mgpu_f16, mgpu_from_f16, float, PLUS_F16, mgpu_to_f16)

void mgpu_add_tree(void *to, const void *const *from, int64_t count, uint8_t dtype, int64_t begin, int64_t end)
{
    switch (dtype) {
    case MGPU_F32: add_f32(to, from, count, begin, end); break;
    case MGPU_F64: add_f64(to, from, count, begin, end); break;
    case MGPU_U8:
    case MGPU_I8: add_u8(to, from, count, begin, end); break;
    case MGPU_U16:
    case MGPU_I16: add_u16(to, from, count, begin, end); break;
    case MGPU_U32:
    case MGPU_I32: add_u32(to, from, count, begin, end); break;
    case MGPU_I64: add_u64(to, from, count, begin, end); break;
    case MGPU_BF16: add_bf16(to, from, count, begin, end); break;
    case MGPU_F16: add_f16(to, from, count, begin, end); break;
    default: mgpu_die("a sum of values of type %d", dtype);
    }
}

static double rounded(double x, uint8_t type)
{
    switch (type) {
    case MGPU_F32: return (double)(float)x;
    case MGPU_BF16: return (double)mgpu_from_bf16(mgpu_to_bf16((float)x));
    case MGPU_F16: return (double)mgpu_from_f16(mgpu_to_f16((float)x));
    default: return x;
    }
}

/* A sum of two numbers of at most 24 bits is rounded to their type by way of a double as if at once. */
static void add_rounded(double *partial, int64_t count, uint8_t value, const mgpu_part *part)
{
    for (int64_t i = 0; i < count; i++) {
        double stack[MOST_LEVELS];
        int level = 0;
        for (int t = 0; t < part->threads; t++) {
            stack[level++] = rounded(*(const double *)((const char *)(partial + i) + t * part->stride), value);
            for (int more = additions_after(part->threads, t); more > 0; more--, level--)
                stack[level - 2] = rounded(stack[level - 2] + stack[level - 1], value);
        }
        partial[i] = stack[0];
    }
}

void mgpu_add_shards(void *partial, int64_t count, uint8_t held, uint8_t value, const mgpu_part *part)
{
    if (held == MGPU_F64) {
        add_rounded(partial, count, value, part);
        return;
    }
    const void **from = malloc((size_t)part->threads * sizeof *from);
    if (!from)
        mgpu_die("there is no memory for %d addresses", part->threads);
    for (int t = 0; t < part->threads; t++)
        from[t] = (const char *)partial + t * part->stride;
    mgpu_add_tree(partial, from, part->threads, held, 0, count);
    free(from);
}

/* ---- moments */
typedef struct Moments {
    double number, mean, squares;
} Moments;

static void merge(Moments *a, const Moments *b)
{
    mgpu_merge_moments(&a->number, &a->mean, &a->squares, b->number, b->mean, b->squares, false);
}

void mgpu_merge_shards(double *number, double *mean, double *squares, int64_t count, const mgpu_part *part)
{
    for (int64_t i = 0; i < count; i++) {
        Moments stack[MOST_LEVELS];
        int level = 0;
        for (int t = 0; t < part->threads; t++) {
            int64_t at = t * part->stride;
            stack[level++] =
                (Moments){*(const double *)((const char *)(number + i) + at), *(const double *)((const char *)(mean + i) + at),
                          *(const double *)((const char *)(squares + i) + at)};
            for (int more = additions_after(part->threads, t); more > 0; more--, level--)
                merge(&stack[level - 2], &stack[level - 1]);
        }
        number[i] = stack[0].number;
        mean[i] = stack[0].mean;
        squares[i] = stack[0].squares;
    }
}

void mgpu_merge_tree(double *all, const double *const *terms, int64_t count, int64_t numbers)
{
    for (int64_t i = 0; i < numbers; i += 3) {
        Moments stack[MOST_LEVELS];
        int level = 0;
        for (int64_t t = 0; t < count; t++) {
            memcpy(&stack[level++], terms[t] + i, sizeof *stack);
            for (int more = additions_after(count, t); more > 0; more--, level--)
                merge(&stack[level - 2], &stack[level - 1]);
        }
        memcpy(all + i, stack, sizeof *stack);
    }
}
