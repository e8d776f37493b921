/* mgpu_bits.h: how numbers are coded of which no segment has more than two: MGPU_TRANSFER_REDUCE_BITS sends them so. A coded segment
 * is its first number, the first one in it that differs (if none does, the first one again), and a bit for each of MGPU_SEGMENT: which of
 * the two it is, from the lowest bit of each word up. Numbers are compared as bits, so nothing is lost. The last segment may be
 * shorter, its code is as long. */
#ifndef MGPU_BITS_H
#define MGPU_BITS_H

enum { MGPU_SEGMENT = 1024, MGPU_SEGMENT_WORDS = MGPU_SEGMENT / 32 };

#ifndef __CUDACC_RTC__
#include <stdint.h>

static inline int64_t mgpu_segments(int64_t count) { return (count + MGPU_SEGMENT - 1) / MGPU_SEGMENT; }

/* bytes of so many numbers of 4 or 8 bytes each */
static inline int64_t mgpu_coded_bytes(int64_t count, int64_t each)
{
    return mgpu_segments(count) * (2 * each + 4 * MGPU_SEGMENT_WORDS);
}
#endif
#endif
