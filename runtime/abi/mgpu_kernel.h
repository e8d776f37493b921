/* mgpu_kernel.h: functions for emitted host kernels: arithmetic, random numbers, contractions. mgpu.h includes it if MGPU_KERNELS
 * is defined. */
#ifndef MGPU_KERNEL_H_RUNTIME
#define MGPU_KERNEL_H_RUNTIME

#include "mgpu_math.h"
#include "mgpu_vector.h"
#include "mgpu_rand.h"
#include "mgpu_attention.h"
#include "mgpu_exact.h"
#include "mgpu_gemm.h"
#include "mgpu_rows.h"
#include "mgpu_scatter.h"

/* A kernel with little work is compiled for size. */
#define MGPU_SMALL __attribute__((cold))
/* A function that a translation unit may not use; without optimization GCC emits unused functions unless they are inline. */
#ifdef __OPTIMIZE__
#define MGPU_OPTIONAL static __attribute__((unused))
#else
#define MGPU_OPTIONAL static inline __attribute__((unused))
#endif
/* A body that several kernels call. */
#define MGPU_SHARED __attribute__((noinline))
/* An external name for a static function or object. */
#ifndef __TINYC__
#define MGPU_EXPORT(name, function) mgpu_kernel_function name __attribute__((alias(#function)))
#define MGPU_EXPORT_DATA(type, name, object) extern type name __attribute__((alias(#object)))
#else /* tcc ignores such aliases, and has no prefetches */
#define MGPU_EXPORT(name, function)                                                                                              \
    void name(void *const *argument, const mgpu_step *step, const mgpu_part *part) { function(argument, step, part); }
#define MGPU_EXPORT_DATA(type, name, object) __asm__(".globl " #name "\n.set " #name ", " #object)
#define __builtin_prefetch(...)
#endif

/* Prefetches memory for writing. It takes long to get exclusive ownership of a cache line that other cores have read, and all
 * of them have read the weights in a matmul. (Two cores, 512 x 512 weights: the update takes 0.06 instead of 0.12 ms, from memory
 * 5 % less. Non-temporal stores make an update in place slower: 44 instead of 88 GB/s, from memory 40 instead of 50.) */
static inline void mgpu_prepare_stores(const void *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)from + at, 1);
}

/* ---- workers */

/* Returns the begin of part `index` of `parts` of an extent: a multiple of `grain`, or the extent. */
static inline int64_t mgpu_share(int64_t extent, int64_t grain, int64_t index, int64_t parts)
{
    int64_t begin = (extent + grain - 1) / grain * index / parts * grain;
    return begin < extent ? begin : extent;
}

/* ..._part: combines the partial results of a call with those of its thread; first: it is the thread's first call. ..._parts:
 * combines those of all threads into the first thread's, in order. part->stride: bytes between the workspaces of threads. */
#define MGPU_PARTS(name, type, lanes, memory, combined)                                                                          \
    MGPU_OPTIONAL void mgpu_##name##_part(type *restrict all, const type *restrict own, int64_t count, bool first)               \
    {                                                                                                                            \
        if (first)                                                                                                               \
            memcpy(all, own, (size_t)count * sizeof *all);                                                                       \
        for (int64_t i = 0; i < count && !first; i += MGPU_LANES_##lanes) {                                                      \
            const int some = mgpu_lanes(count - i, MGPU_LANES_##lanes);                                                          \
            mgpu_store_##memory(all + i, combined(mgpu_load_##memory(all + i, some), mgpu_load_##memory(own + i, some)), some);  \
        }                                                                                                                        \
    }                                                                                                                            \
    MGPU_OPTIONAL void mgpu_##name##_parts(type *restrict all, int64_t count, const mgpu_part *part)                             \
    {                                                                                                                            \
        for (int t = 1; t < part->threads; t++)                                                                                  \
            mgpu_##name##_part(all, (const type *)((const char *)all + t * part->stride), count, false);                         \
    }
#define MGPU_PLUS(a, b) ((a) + (b))
#define MGPU_PARTS_OF(name, type, held, lanes)                                                                                   \
    MGPU_PARTS(add_##name, type, lanes, name##_##lanes, MGPU_PLUS)                                                               \
    MGPU_PARTS(larger_##name, type, lanes, name##_##lanes, mgpu_larger_##held##_##lanes)
MGPU_PARTS_OF(f32, float, f32, n)
MGPU_PARTS_OF(f64, double, f64, w)
MGPU_PARTS_OF(u8, uint8_t, i32, n)
MGPU_PARTS_OF(i8, int8_t, i32, n)
MGPU_PARTS_OF(u16, uint16_t, i32, n)
MGPU_PARTS_OF(i16, int16_t, i32, n)
MGPU_PARTS_OF(u32, uint32_t, u32, n)
MGPU_PARTS_OF(i32, int32_t, i32, n)
MGPU_PARTS_OF(i64, int64_t, i64, w)
#undef MGPU_PLUS
#undef MGPU_PARTS_OF
#undef MGPU_PARTS

/* ---- merges the moments of all threads into the first thread's workspace */

MGPU_OPTIONAL void mgpu_moments_parts(double *restrict n, double *restrict mean, double *restrict squares, int64_t count,
                                      const mgpu_part *part)
{
    for (int t = 1; t < part->threads; t++)
        for (int64_t i = 0; i < count; i++) {
            const char *own = (const char *)(n + i) + t * part->stride, *own_mean = (const char *)(mean + i) + t * part->stride;
            const char *own_squares = (const char *)(squares + i) + t * part->stride;
            mgpu_merge_moments(n + i, mean + i, squares + i, *(const double *)own, *(const double *)own_mean,
                               *(const double *)own_squares, false);
        }
}

/* ---- the random numbers of mgpu_rand and mgpu_randf, many at a time */

enum { MGPU_RANDOM_NUMBERS = 32 }; /* numbers of a block: eight Philox counters of four words */

/* the keys of the ten rounds */
typedef struct mgpu_keys {
    uint64_t low[10], high[10];
} mgpu_keys;

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

/* mgpu_rand_block computes the words of 8 counters: words[4 k + w] is word w of counter group + k. It uses GNU C's vectors, since
 * including <immintrin.h> takes 0.1 s. */
#ifdef __AVX512F__
typedef uint64_t mgpu_u64x8 __attribute__((vector_size(64)));
typedef int mgpu_i32x16 __attribute__((vector_size(64)));
typedef long long mgpu_i64x8 __attribute__((vector_size(64)));

/* Returns a[k] b[k] of the lower 32 bits of each element (vpmuludq). */
static inline mgpu_u64x8 mgpu_wide_product(mgpu_u64x8 a, mgpu_u64x8 b)
{
#ifdef __clang__
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#else
    return (mgpu_u64x8)__builtin_ia32_pmuludq512_mask((mgpu_i32x16)a, (mgpu_i32x16)b, (mgpu_i64x8){0}, -1);
#endif
}

#ifdef __clang__
#define MGPU_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MGPU_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
/* Returns, per element, the lower half of a and above it the lower half of b. */
static inline mgpu_u64x8 mgpu_pairs(mgpu_u64x8 a, mgpu_u64x8 b)
{
    return (mgpu_u64x8)MGPU_SHUFFLE(mgpu_i32x16, (mgpu_i32x16)a, (mgpu_i32x16)b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12,
                                    28, 14, 30);
}

static inline void mgpu_rand_block(uint32_t *words, const mgpu_keys *key, uint32_t group, uint64_t sample, uint64_t step)
{
    const mgpu_u64x8 m0 = (mgpu_u64x8){0} + 0xD2511F53u, m1 = (mgpu_u64x8){0} + 0xCD9E8D57u;
    mgpu_u64x8 c0 = (mgpu_u64x8){0, 1, 2, 3, 4, 5, 6, 7} + group & 0xFFFFFFFFu, c1 = (mgpu_u64x8){0} + sample;
    mgpu_u64x8 c2 = (mgpu_u64x8){0} + ((sample >> 32 & 0xFFFFu) | (uint32_t)step << 16), c3 = (mgpu_u64x8){0} + (step >> 16);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) { /* upper halves of c0 ... c3 are ignored */
        mgpu_u64x8 p0 = mgpu_wide_product(c0, m0), p1 = mgpu_wide_product(c2, m1);
        c0 = p1 >> 32 ^ c1 ^ key->low[round];
        c2 = p0 >> 32 ^ c3 ^ key->high[round];
        c1 = p1;
        c3 = p0;
    }
    const mgpu_u64x8 low = mgpu_pairs(c0, c1), high = mgpu_pairs(c2, c3);
    const mgpu_u64x8 first = MGPU_SHUFFLE(mgpu_u64x8, low, high, 0, 8, 1, 9, 2, 10, 3, 11);
    const mgpu_u64x8 second = MGPU_SHUFFLE(mgpu_u64x8, low, high, 4, 12, 5, 13, 6, 14, 7, 15);
    memcpy(words, &first, sizeof first);
    memcpy(words + 16, &second, sizeof second);
}
#else
static inline void mgpu_rand_block(uint32_t *words, const mgpu_keys *key, uint32_t group, uint64_t sample, uint64_t step)
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
    for (int k = 0; k < MGPU_RANDOM_NUMBERS; k++)
        words[k] = word[k & 3][k >> 2];
}
#endif

/* Converts the words of a block to numbers in [0, 1). */
#define MGPU_UNIFORM(numbers, words, type, lanes)                                                                                \
    for (int k = 0; k < MGPU_RANDOM_NUMBERS; k += MGPU_LANES_w)                                                                  \
    mgpu_store_##lanes##_w(                                                                                                      \
        numbers + k, mgpu_##lanes##_of_i32_w(mgpu_i32_of_u32_w(mgpu_load_u32_w(words + k, MGPU_LANES_w) >> 8)) * (type)0x1p-24,  \
        MGPU_LANES_w)

/* numbers[k] is the random number of element + k. */
#define MGPU_RANDOM_ROW(name, type, lanes)                                                                                       \
    MGPU_OPTIONAL void name(type *restrict numbers, int64_t count, uint64_t key, uint64_t element, uint64_t sample,              \
                            uint64_t step)                                                                                       \
    {                                                                                                                            \
        const mgpu_keys keys = mgpu_round_keys(key);                                                                             \
        uint32_t group = (uint32_t)(element >> 2), words[MGPU_RANDOM_NUMBERS];                                                   \
        for (int64_t at = -(int64_t)(element & 3); at < count; at += MGPU_RANDOM_NUMBERS, group += MGPU_RANDOM_NUMBERS / 4) {    \
            mgpu_rand_block(words, &keys, group, sample, step);                                                                  \
            if (at >= 0 && at + MGPU_RANDOM_NUMBERS <= count)                                                                    \
                MGPU_UNIFORM(numbers + at, words, type, lanes);                                                                  \
            else                                                                                                                 \
                for (int64_t k = at < 0 ? -at : 0; k < MGPU_RANDOM_NUMBERS && at + k < count; k++)                               \
                    numbers[at + k] = (type)(int32_t)(words[k] >> 8) * (type)0x1p-24;                                            \
        }                                                                                                                        \
    }
MGPU_RANDOM_ROW(mgpu_rand_rowf, float, f32)
MGPU_RANDOM_ROW(mgpu_rand_row, double, f64)

/* Lane k has the random number of element + k; mgpu_rand_apart_...: of element + k apart and sample + k samples_apart. */
#define MGPU_RANDOM_LANES(type, lanes, suffix, row, one)                                                                         \
    MGPU_OPTIONAL mgpu_##lanes##suffix mgpu_rand_##lanes##suffix(uint64_t key, uint64_t element, uint64_t sample, uint64_t step) \
    {                                                                                                                            \
        type numbers[MGPU_LANES##suffix];                                                                                        \
        row(numbers, MGPU_LANES##suffix, key, element, sample, step);                                                            \
        return mgpu_load_##lanes##suffix(numbers, MGPU_LANES##suffix);                                                           \
    }                                                                                                                            \
    MGPU_OPTIONAL mgpu_##lanes##suffix mgpu_rand_apart_##lanes##suffix(uint64_t key, uint64_t element, int64_t apart,            \
                                                                       uint64_t sample, int64_t samples_apart, uint64_t step)    \
    {                                                                                                                            \
        type numbers[MGPU_LANES##suffix];                                                                                        \
        for (int k = 0; k < MGPU_LANES##suffix; k++)                                                                             \
            numbers[k] = one(key, element + (uint64_t)(k * apart), sample + (uint64_t)(k * samples_apart), step);                \
        return mgpu_load_##lanes##suffix(numbers, MGPU_LANES##suffix);                                                           \
    }
MGPU_RANDOM_LANES(float, f32, _n, mgpu_rand_rowf, mgpu_randf)
MGPU_RANDOM_LANES(float, f32, _w, mgpu_rand_rowf, mgpu_randf)
MGPU_RANDOM_LANES(double, f64, _w, mgpu_rand_row, mgpu_rand)
#undef MGPU_RANDOM_LANES

#endif
