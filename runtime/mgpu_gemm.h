/* mgpu_gemm.h: contractions for generated kernels: C[batch, M, N] = sum over K of A[batch, M, K] B[batch, K, N].
 *
 * In: a constant table (mgpu_contraction) that says what the indices are. Each of batch, M, N and K is a list of axes,
 * outermost first, every axis with a stride in A, B and C; the samples are one of the axes. A convolution is the same
 * with windows: two axes (the place p of the window, the tap k in it) together make a position p step_p + k step_k +
 * first in one dimension of the gathered operand, whose elements outside [0, extent) are 0.
 *
 * The product itself is in the runtime library, once for every instruction set: runtime/contract.c. */
#ifndef MGPU_GEMM_H
#define MGPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MGPU_AXES = 9,     /* in one of batch, M, N, K: eight of a tensor and the samples */
    MGPU_WINDOWS = 7,
    MGPU_SAMPLES = -1, /* as an extent: the samples of the call */
    /* the largest block, whatever the instruction set, because the compiler places the workspace before anybody knows
     * where the program will run: rows and columns of C, terms of the sum, bytes of the packed blocks */
    MGPU_BLOCK_M = 512, MGPU_BLOCK_N = 512, MGPU_BLOCK_K = 320, MGPU_BLOCK_MOST = 512,
    MGPU_BLOCK_A_BYTES = 256 * 1024, MGPU_BLOCK_B_BYTES = 512 * 1024, MGPU_BLOCK_C_BYTES = 1024 * 1024
};

typedef struct mgpu_axis {
    int64_t extent;       /* or MGPU_SAMPLES */
    int64_t a, b, c;      /* strides, in elements */
    int window;           /* 0: none; w: its index times `step` adds to the position in window[w - 1] */
    int64_t step;
} mgpu_axis;

typedef struct mgpu_window {
    int64_t extent;       /* of the gathered operand in this dimension */
    int64_t stride;       /* of that dimension in it, in elements */
    int64_t first;        /* position of place 0, tap 0: minus the padding before */
    int64_t spread;       /* positions that are no multiple of it hold 0 */
} mgpu_window;

typedef struct mgpu_contraction {
    int batch, m, n, k;   /* numbers of axes; they follow each other in `axis` */
    const mgpu_axis *axis;
    int windows;
    const mgpu_window *window;
    bool gather_b;        /* the windows move over B, else over A */
    bool rows;            /* pack A as rows, else as columns */
    int64_t a, b;         /* the operands' first elements */
} mgpu_contraction;

/* Every element of c is written, nothing outside the operands is touched. workspace: MGPU_BLOCK_A_BYTES +
 * MGPU_BLOCK_B_BYTES, or less where the table's m, n and k need less. The order of additions depends on the table, the
 * number of samples and the instruction set alone. */
void mgpu_contract_f32(const mgpu_contraction *, const void *a, const void *b, void *c, void *workspace, int64_t samples);
void mgpu_contract_f64(const mgpu_contraction *, const void *a, const void *b, void *c, void *workspace, int64_t samples);
#endif
