/* mgpu_rand.h: the numbers of mgpu_uniform and mgpu_uniformf for kernels of hosts and GPUs, in a vectorizable form. */
#ifndef MGPU_RAND_H
#define MGPU_RAND_H

#include "mgpu_random.h"

/* No table in memory is indexed. */
MGPU_FUNCTION uint32_t mgpu_rand_word(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    uint32_t words[4];
    mgpu_random_words(key, (uint32_t)(element >> 2), sample, step, words);
    uint32_t low = element & 1 ? words[1] : words[0], high = element & 1 ? words[3] : words[2];
    return element & 2 ? high : low;
}

MGPU_FUNCTION double mgpu_rand(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (double)(int32_t)(mgpu_rand_word(key, element, sample, step) >> 8) * 0x1p-24;
}

MGPU_FUNCTION float mgpu_randf(uint64_t key, uint64_t element, uint64_t sample, uint64_t step)
{
    return (float)(int32_t)(mgpu_rand_word(key, element, sample, step) >> 8) * 0x1p-24f;
}
#endif
