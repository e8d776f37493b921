/* mgpu_random.h: the random numbers of kernels, runtime and interpreter: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011). In: a key and the index of a number; out: the same bits on every target.
 *
 *   key      64 bits of a hash of (seed, path of the operation)
 *   counter  word 0: element / 4; then 48 bits of sample, 48 bits of step, lowest first
 *   word     element mod 4 selects one of the four words of a counter
 *   uniform  (word >> 8) 2^-24: in [0, 1), exact in float and in double */
#ifndef MGPU_RANDOM_H
#define MGPU_RANDOM_H

#ifndef MGPU_DEVICE_H /* it declares what is needed of it */
#include <stdint.h>
#endif
#include "mgpu_function.h"

MGPU_FUNCTION void mgpu_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The finalizer of SplitMix64: seeds or paths that differ in one bit give unrelated keys. */
MGPU_FUNCTION uint64_t mgpu_random_key(uint64_t seed, uint64_t path_hash)
{
    uint64_t z = (seed + 0x9E3779B97F4A7C15u) * 0xD1342543DE82EF95u ^ path_hash;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Computes the four words of elements 4 group .. 4 group + 3. */
MGPU_FUNCTION void mgpu_random_words(uint64_t key, uint32_t group, uint64_t sample, uint64_t step, uint32_t out[4])
{
    uint32_t counter[4];
    counter[0] = group;
    counter[1] = (uint32_t)sample;
    counter[2] = ((uint32_t)(sample >> 32) & 0xFFFFu) | (uint32_t)step << 16;
    counter[3] = (uint32_t)(step >> 16);
    mgpu_philox(key, counter, out);
}

MGPU_FUNCTION uint32_t mgpu_random_word(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    uint32_t words[4];
    mgpu_random_words(key, (uint32_t)(element >> 2), sample, step, words);
    return words[element & 3];
}

MGPU_FUNCTION double mgpu_uniform(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (double)(mgpu_random_word(key, element, sample, step) >> 8) * 0x1p-24;
}

MGPU_FUNCTION float mgpu_uniformf(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (float)(mgpu_random_word(key, element, sample, step) >> 8) * 0x1p-24f;
}
#endif
