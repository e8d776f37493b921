/* mgpu_numbers.h: the numbers of a contraction on a GPU that its code does not depend on: extents, strides, first elements.
 * Contractions that differ only in these share a function of an image; each launch passes its own. */
#ifndef MGPU_NUMBERS_H
#define MGPU_NUMBERS_H

#ifndef __CUDACC_RTC__ /* NVRTC has no system headers */
#include <stdint.h>
#endif

enum { MGPU_MOVE_STAGE, MGPU_MOVE_A, MGPU_MOVE_B, MGPU_MOVES };
enum { MGPU_NUMBERED_AXES = 10, MGPU_NUMBERED_WINDOWS = 3 };

typedef struct mgpu_numbered_axis {
    int64_t extent;           /* or MGPU_SAMPLES */
    int32_t stride[3];        /* in A, B, C, in elements; in A, for an axis of a window, multiplied by the window's stride */
    int32_t step;             /* in its window */
    int32_t move[MGPU_MOVES]; /* of axes of K: digits of the moves (mgpu_tiles.h) */
    /* index / extent = (index x inverse) >> (31 + shift), or with `inverse_64` >> (63 + shift): Granlund and Montgomery, Division
     * by Invariant Integers using Multiplication, 1994. */
    uint32_t inverse, shift;
    uint64_t inverse_64;
} mgpu_numbered_axis;

typedef struct mgpu_numbered_window {
    int32_t extent, stride, first;
} mgpu_numbered_window; /* as in mgpu_window */

typedef struct mgpu_numbers {
    mgpu_numbered_axis axis[MGPU_NUMBERED_AXES]; /* of batch, M, N, K */
    mgpu_numbered_window window[MGPU_NUMBERED_WINDOWS];
    int64_t first[3]; /* offsets in A, B, C */
} mgpu_numbers;
#endif
