/* mgpu_kernel.h: what emitted kernels use besides mgpu.h: arithmetic, random numbers, contractions. mgpu.h includes it
 * where MGPU_KERNELS is defined. */
#ifndef MGPU_KERNEL_H_RUNTIME
#define MGPU_KERNEL_H_RUNTIME

/* MGPU_NO_DRAWS: what includes this draws no random numbers; the header of intrinsics takes 0.1 s of the C compiler */
#if defined __AVX512F__ && !defined MGPU_NO_DRAWS
#define MGPU_DRAW_AVX512
#include <immintrin.h>
#endif
#include "mgpu_math.h"
#include "mgpu_draw.h"
#include "mgpu_attention.h"
#include "mgpu_gemm.h"
#include "mgpu_rows.h"
#include "mgpu_scatter.h"

/* a kernel with so little work that it is compiled for size */
#define MGPU_SMALL __attribute__((cold))
/* the body of several kernels */
#define MGPU_SHARED __attribute__((noinline))

/* Will be stored to, soon: a line of the cache that other cores have read, too, takes long to become this one's own, and
 * after a product they all have read its weights. (Two cores, 512 x 512 weights: the update 0.12 -> 0.06 ms; what comes
 * from memory gains 5 %. Stores past the cache make an update in place slower: 88 -> 44 GB/s, from memory 50 -> 40.) */
static inline void mgpu_prepare_stores(const void *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)from + at, 1);
}

/* ---- teams */

/* where part `index` of `parts` of an extent begins; parts are multiples of `grain`, the last is the rest */
static inline int64_t mgpu_share(int64_t extent, int64_t grain, int64_t index, int64_t parts)
{
    int64_t begin = (extent + grain - 1) / grain * index / parts * grain;
    return begin < extent ? begin : extent;
}

/* the partial results of a call into those of its thread; those of all threads into the first's, in their order */
#define MGPU_PARTS(name, type, combined)                                                                                  \
    static __attribute__((unused)) void mgpu_##name##_part(type *restrict all, const type *restrict own, int64_t count,   \
                                                           bool first)                                                    \
    {                                                                                                                     \
        if (first)                                                                                                        \
            memcpy(all, own, (size_t)count * sizeof *all);                                                                \
        for (int64_t i = 0; i < count && !first; i++)                                                                     \
            all[i] = (type)(combined);                                                                                    \
    }                                                                                                                     \
    static __attribute__((unused)) void mgpu_##name##_parts(type *restrict all, int64_t count, const mgpu_part *part)     \
    {                                                                                                                     \
        for (int t = 1; t < part->threads; t++)                                                                           \
            mgpu_##name##_part(all, (const type *)((const char *)all + t * part->stride), count, false);                  \
    }
#define MGPU_PARTS_OF(name, type)                                                                                         \
    MGPU_PARTS(add_##name, type, all[i] + own[i])                                                                         \
    MGPU_PARTS(larger_##name, type, mgpu_larger(all[i], own[i]))
MGPU_PARTS_OF(f32, float)
MGPU_PARTS_OF(f64, double)
MGPU_PARTS_OF(u8, uint8_t)
MGPU_PARTS_OF(i8, int8_t)
MGPU_PARTS_OF(u16, uint16_t)
MGPU_PARTS_OF(i16, int16_t)
MGPU_PARTS_OF(u32, uint32_t)
MGPU_PARTS_OF(i32, int32_t)
MGPU_PARTS_OF(i64, int64_t)
#undef MGPU_PARTS_OF
#undef MGPU_PARTS

/* ---- random numbers: those of mgpu_draw and mgpu_drawf, many at once */

enum { MGPU_DRAWS = 32 }; /* in one block: eight counters of four words */

/* the keys of ten rounds */
typedef struct mgpu_keys { uint64_t low[10], high[10]; } mgpu_keys;

static inline mgpu_keys mgpu_round_keys(uint64_t key)
{
    mgpu_keys keys;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        keys.low[round] = k0;
        keys.high[round] = k1;
    }
    return keys;
}

/* the words of 8 counters, element after element: words[4 k + w] is word w of counter group + k */
#ifdef MGPU_DRAW_AVX512
static inline void mgpu_draw_block(uint32_t *words, const mgpu_keys *key, uint32_t group, uint64_t sample, uint64_t step)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    __m512i c0 = _mm512_add_epi32(_mm512_set1_epi64(group), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    __m512i c1 = _mm512_set1_epi64((int64_t)sample);
    __m512i c2 = _mm512_set1_epi64((int64_t)((sample >> 32 & 0xFFFFu) | (uint32_t)step << 16));
    __m512i c3 = _mm512_set1_epi64((int64_t)(step >> 16));
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) { /* the upper halves are not used */
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        __m512i low = _mm512_set1_epi64((int64_t)key->low[round]), high = _mm512_set1_epi64((int64_t)key->high[round]);
        c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, low, 0x96);
        c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, high, 0x96);
        c1 = p1;
        c3 = p0;
    }
    __m512i low = _mm512_mask_shuffle_epi32(c0, 0xAAAA, c1, _MM_PERM_CCAA), high = _mm512_mask_shuffle_epi32(c2, 0xAAAA, c3, _MM_PERM_CCAA);
    const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_si512(words, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi64(low, second, high));
}
#else
static inline void mgpu_draw_block(uint32_t *words, const mgpu_keys *key, uint32_t group, uint64_t sample, uint64_t step)
{
    uint32_t word[4][8];
    for (uint32_t k = 0; k < 8; k++) {
        word[0][k] = group + k;
        word[1][k] = (uint32_t)sample;
        word[2][k] = ((uint32_t)(sample >> 32) & 0xFFFFu) | (uint32_t)step << 16;
        word[3][k] = (uint32_t)(step >> 16);
    }
    for (int round = 0; round < 10; round++)
        for (int k = 0; k < 8; k++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * word[0][k], p1 = (uint64_t)0xCD9E8D57u * word[2][k];
            word[0][k] = (uint32_t)(p1 >> 32) ^ word[1][k] ^ (uint32_t)key->low[round];
            word[2][k] = (uint32_t)(p0 >> 32) ^ word[3][k] ^ (uint32_t)key->high[round];
            word[1][k] = (uint32_t)p1;
            word[3][k] = (uint32_t)p0;
        }
    for (int k = 0; k < MGPU_DRAWS; k++)
        words[k] = word[k & 3][k >> 2];
}
#endif

/* draws[k] = that of element + k */
#define MGPU_DRAW_ROW(name, type)                                                                                         \
    static __attribute__((unused)) void name(type *restrict draws, int64_t count, uint64_t key, uint64_t element,         \
                                             uint64_t sample, uint64_t step)                                              \
    {                                                                                                                     \
        const mgpu_keys keys = mgpu_round_keys(key);                                                                      \
        uint32_t group = (uint32_t)(element >> 2), words[MGPU_DRAWS];                                                     \
        for (int64_t at = -(int64_t)(element & 3); at < count; at += MGPU_DRAWS, group += MGPU_DRAWS / 4) {               \
            mgpu_draw_block(words, &keys, group, sample, step);                                                           \
            if (at >= 0 && at + MGPU_DRAWS <= count)                                                                      \
                for (int k = 0; k < MGPU_DRAWS; k++)                                                                      \
                    draws[at + k] = (type)(int32_t)(words[k] >> 8) * (type)0x1p-24;                                       \
            else                                                                                                          \
                for (int64_t k = at < 0 ? -at : 0; k < MGPU_DRAWS && at + k < count; k++)                                 \
                    draws[at + k] = (type)(int32_t)(words[k] >> 8) * (type)0x1p-24;                                       \
        }                                                                                                                 \
    }
MGPU_DRAW_ROW(mgpu_draw_rowf, float)
MGPU_DRAW_ROW(mgpu_draw_row, double)

#endif
