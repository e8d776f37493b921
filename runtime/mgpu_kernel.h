/* mgpu_kernel.h: what emitted kernels use besides mgpu.h: arithmetic, random numbers, contractions. mgpu.h includes it
 * where MGPU_KERNELS is defined. */
#ifndef MGPU_KERNEL_H_RUNTIME
#define MGPU_KERNEL_H_RUNTIME

#include "mgpu_math.h"
#include "mgpu_random.h"
#include "mgpu_gemm.h"

/* mgpu_uniform and mgpu_uniformf of mgpu_random.h, the same numbers, without a table in memory: a loop over elements
 * becomes vector code, which is faster than to compute the four numbers of a counter at once. */
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

#endif
