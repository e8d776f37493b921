/* sums.h: the sums of image.h with vectors; included by image/sums_base.c and image/sums_avx2.c.
 *
 * A pixel of three or four channels is a vector of four integers. With three channels, the fourth belongs to the next pixel and
 * is not stored. */
#include "runtime/data/image/image.h"

#include <string.h>

enum { FRACTION = 22 };
#define HALF (1 << (FRACTION - 1))

typedef int32_t Four __attribute__((vector_size(16)));
typedef uint8_t FourBytes __attribute__((vector_size(4)));

static void sum_rows(const uint8_t *from, int64_t stride, const int32_t *weight, int taps, int64_t count, uint8_t *restrict to)
{
    enum { BLOCK = 256 };
    int32_t sum[BLOCK];
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        int width = count - begin < BLOCK ? (int)(count - begin) : BLOCK;
        for (int i = 0; i < width; i++)
            sum[i] = HALF;
        for (int k = 0; k < taps; k++) {
            const uint8_t *row = from + k * stride + begin;
            int32_t w = weight[k];
            for (int i = 0; i < width; i++)
                sum[i] += row[i] * w;
        }
        for (int i = 0; i < width; i++)
            to[begin + i] = (uint8_t)(sum[i] >> FRACTION);
    }
}

static inline Four four_of(const uint8_t *from, size_t bytes)
{
    FourBytes b = {0};
    memcpy(&b, from, bytes);
    return __builtin_convertvector(b, Four);
}

/* channels: 3 or 4. The last tap reads only its own bytes, since the memory may end there. */
static inline void sum_vectors(const uint8_t *from, size_t channels, const int32_t *weight, int weights, const int *first,
                               const int *taps, int count, uint8_t *restrict to)
{
    for (int x = 0; x < count; x++, weight += weights, to += channels) {
        const uint8_t *at = from + (size_t)first[x] * channels;
        Four sum = {HALF, HALF, HALF, HALF};
        int last = taps[x] - 1;
        for (int k = 0; k < last; k++, at += channels)
            sum += four_of(at, 4) * weight[k];
        sum = (sum + four_of(at, channels) * weight[last]) >> FRACTION;
        FourBytes bytes = __builtin_convertvector(sum, FourBytes);
        memcpy(to, &bytes, channels);
    }
}

static void sum_pixels(const uint8_t *from, int channels, const int32_t *weight, int weights, const int *first, const int *taps,
                       int count, uint8_t *restrict to)
{
    if (channels == 3) {
        sum_vectors(from, 3, weight, weights, first, taps, count, to);
        return;
    }
    if (channels == 4) {
        sum_vectors(from, 4, weight, weights, first, taps, count, to);
        return;
    }
    for (int x = 0; x < count; x++, weight += weights)
        for (int c = 0; c < channels; c++) {
            const uint8_t *at = from + (int64_t)first[x] * channels + c;
            int32_t sum = HALF;
            for (int k = 0; k < taps[x]; k++)
                sum += at[k * channels] * weight[k];
            *to++ = (uint8_t)(sum >> FRACTION);
        }
}
