/* order.c: the order of the samples of an epoch, and random inputs for `bench`.
 *
 * The order of an epoch is a Fisher-Yates shuffle with random numbers of Philox with key hash(seed, "shuffle") and counter
 * (index, block + 1, epoch), where block is -1 except for samples within a block. It depends only on seed and epoch. */
#include "runtime/abi/mgpu_random.h"
#include "runtime/base/base.h"

#include <math.h>
#include <stdlib.h>

uint64_t mgpu_hash_text(const char *text) /* FNV-1a, then the finalizer of MurmurHash3, as for the compiler's paths */
{
    uint64_t h = 14695981039346656037ull;
    for (const char *c = text; *c; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211ull;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static void shuffle_places(int64_t *order, int64_t n, uint64_t key, int64_t block, int64_t epoch)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t words[4];
        mgpu_random_words(key, (uint32_t)i, (uint64_t)(block + 1), (uint64_t)epoch, words);
        uint64_t random = words[0] | (uint64_t)words[1] << 32;
        int64_t other = (int64_t)((__extension__(unsigned __int128) random * (uint64_t)(i + 1)) >> 64); /* below i + 1 */
        int64_t swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}

void mgpu_permutation(int64_t *order, int64_t n, uint64_t seed, int64_t epoch, int64_t shuffle)
{
    uint64_t key = mgpu_random_key(seed, mgpu_hash_text("shuffle"));
    if (shuffle <= 1) {
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
        shuffle_places(order, shuffle ? n : 0, key, -1, epoch);
        return;
    }
    int64_t blocks = (n + shuffle - 1) / shuffle, *block = mgpu_allocate((size_t)blocks, sizeof *block), at = 0;
    for (int64_t b = 0; b < blocks; b++)
        block[b] = b;
    shuffle_places(block, blocks, key, -1, epoch);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = block[b] * shuffle, count = n - first < shuffle ? n - first : shuffle;
        for (int64_t i = 0; i < count; i++)
            order[at + i] = first + i;
        shuffle_places(order + at, count, key, block[b], epoch);
        at += count;
    }
    free(block);
}

void mgpu_fill_random(void *to, const mgpu_input *in, int64_t samples, uint64_t seed)
{
    uint64_t key = mgpu_random_key(seed, mgpu_hash_text(in->tensor.name));
    int64_t count = samples * mgpu_elements(&in->tensor);
    double whole = in->classes                            ? (double)in->classes
                   : in->required && in->most < INT32_MAX ? (double)in->most + 1
                   : in->tensor.dtype == MGPU_BOOL        ? 2
                   : in->tensor.dtype == MGPU_U8          ? 256
                                                          : 100;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            mgpu_random_words(key, (uint32_t)(i / 4), 0, (uint64_t)i >> 34, words);
        double u = (double)(words[i % 4] >> 8) * 0x1p-24;
        double v = mgpu_dtype_is_float(in->tensor.dtype) ? (u - 0.5) * sqrt(12) : floor(u * whole); /* standard deviation 1 */
        mgpu_from_double(to, in->tensor.dtype, i, v);
    }
}
