/* mgpu_bits.h: the code for numbers of which no segment has more than two values, as MGPU_TRANSFER_REDUCE_BITS sends them. A
 * coded segment is its first number, the first one that differs (or the first again), and one bit for each of MGPU_SEGMENT
 * numbers, which says which of the two it is, from the lowest bit of each word up. Numbers are compared as bits, so nothing is
 * lost. The last segment may be shorter; its code is not. */
#ifndef MGPU_BITS_H
#define MGPU_BITS_H

enum { MGPU_SEGMENT = 1024, MGPU_SEGMENT_WORDS = MGPU_SEGMENT / 32 };

#ifndef __CUDACC_RTC__
#include <stdint.h>

static inline int64_t mgpu_segments(int64_t count) { return (count + MGPU_SEGMENT - 1) / MGPU_SEGMENT; }

/* Returns the bytes of the code of `count` numbers of 4 or 8 bytes each. */
static inline int64_t mgpu_coded_bytes(int64_t count, int64_t each)
{
    return mgpu_segments(count) * (2 * each + 4 * MGPU_SEGMENT_WORDS);
}
#endif
#endif
