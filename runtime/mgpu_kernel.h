/* mgpu_kernel.h: what emitted kernels use besides mgpu.h: arithmetic, random numbers, contractions. mgpu.h includes it
 * where MGPU_KERNELS is defined. */
#ifndef MGPU_KERNEL_H_RUNTIME
#define MGPU_KERNEL_H_RUNTIME

#include "mgpu_math.h"
#include "mgpu_random.h"
#include "mgpu_gemm.h"

/* a kernel with so little work that it is compiled for size */
#define MGPU_SMALL __attribute__((cold))
/* the body of several kernels */
#define MGPU_SHARED __attribute__((noinline))

/* ---- random numbers: those of mgpu_uniform and mgpu_uniformf, in forms that become vector code */

/* one of them, without a table in memory */
static inline uint32_t mgpu_draw_word(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    uint32_t words[4];
    mgpu_random_words(key, (uint32_t)(element >> 2), sample, step, words);
    uint32_t low = element & 1 ? words[1] : words[0], high = element & 1 ? words[3] : words[2];
    return element & 2 ? high : low;
}

static inline double mgpu_draw(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (double)(int32_t)(mgpu_draw_word(key, element, sample, step) >> 8) * 0x1p-24;
}

static inline float mgpu_drawf(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (float)(int32_t)(mgpu_draw_word(key, element, sample, step) >> 8) * 0x1p-24f;
}

enum { MGPU_DRAW_GROUPS = 64 };

/* the words of 64 counters: Philox round by round, so that each round is a loop over counters */
static __attribute__((unused)) void mgpu_draw_groups(uint32_t word[4][MGPU_DRAW_GROUPS], uint64_t key, uint32_t group,
                                                     uint64_t sample, uint64_t step)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (uint32_t k = 0; k < MGPU_DRAW_GROUPS; k++) {
        word[0][k] = group + k;
        word[1][k] = (uint32_t)sample;
        word[2][k] = ((uint32_t)(sample >> 32) & 0xFFFFu) | (uint32_t)step << 16;
        word[3][k] = (uint32_t)(step >> 16);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int k = 0; k < MGPU_DRAW_GROUPS; k++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * word[0][k], p1 = (uint64_t)0xCD9E8D57u * word[2][k];
            word[0][k] = (uint32_t)(p1 >> 32) ^ word[1][k] ^ k0;
            word[2][k] = (uint32_t)(p0 >> 32) ^ word[3][k] ^ k1;
            word[1][k] = (uint32_t)p1;
            word[3][k] = (uint32_t)p0;
        }
}

/* draws[k] = that of element + k: four for each counter */
#define MGPU_DRAW_ROW(name, type)                                                                                         \
    static __attribute__((unused)) void name(type *restrict draws, int64_t count, uint64_t key, uint64_t element,         \
                                             uint64_t sample, uint64_t step)                                              \
    {                                                                                                                     \
        uint32_t group = (uint32_t)(element >> 2), word[4][MGPU_DRAW_GROUPS];                                             \
        enum { DRAWS = 4 * MGPU_DRAW_GROUPS };                                                                            \
        for (int64_t at = -(int64_t)(element & 3); at < count; at += DRAWS, group += MGPU_DRAW_GROUPS) {                  \
            mgpu_draw_groups(word, key, group, sample, step);                                                             \
            for (int k = 0; k < MGPU_DRAW_GROUPS && at >= 0 && at + DRAWS <= count; k++) {                                \
                draws[at + 4 * k] = (type)(int32_t)(word[0][k] >> 8) * (type)0x1p-24;                                     \
                draws[at + 4 * k + 1] = (type)(int32_t)(word[1][k] >> 8) * (type)0x1p-24;                                 \
                draws[at + 4 * k + 2] = (type)(int32_t)(word[2][k] >> 8) * (type)0x1p-24;                                 \
                draws[at + 4 * k + 3] = (type)(int32_t)(word[3][k] >> 8) * (type)0x1p-24;                                 \
            }                                                                                                             \
            if (at < 0 || at + DRAWS > count)                                                                             \
                for (int64_t k = at < 0 ? -at : 0; k < DRAWS && at + k < count; k++)                                      \
                    draws[at + k] = (type)(int32_t)(word[k & 3][k >> 2] >> 8) * (type)0x1p-24;                            \
        }                                                                                                                 \
    }
MGPU_DRAW_ROW(mgpu_draw_rowf, float)
MGPU_DRAW_ROW(mgpu_draw_row, double)

#endif
