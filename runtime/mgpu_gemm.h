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

#include "mgpu.h"

enum {
    MGPU_AXES = 9,     /* in one of batch, M, N, K: eight of a tensor and the samples */
    MGPU_WINDOWS = 7,
    MGPU_SAMPLES = -1, /* as an extent: the samples of the call */
    /* the largest blocks, whatever the instruction set, because the compiler places the workspace before anybody knows
     * where the program will run: columns of C, rows of A, terms of the sum (more would lose digits in f32: they are
     * added one after the other); bytes of C that are worked on */
    MGPU_BLOCK_N = 512, MGPU_BLOCK_ROWS = 512, MGPU_BLOCK_TERMS = 1152, MGPU_BLOCK_C_BYTES = 1024 * 1024,
    MGPU_FAR_BYTES = 512, /* terms of A that lie so far apart are worth packing */
    /* good sizes of the parts of the workspace: a copy of a block of A with what surrounds it, or of its rows alone, sums that
     * do not go straight to C, packed B */
    MGPU_COPY_BYTES = 512 * 1024, MGPU_ROWS_BYTES = 1024 * 1024, MGPU_SUMS_BYTES = 512 * 1024, MGPU_PACKED_BYTES = 1024 * 1024,
    MGPU_PACKED_LEAST = 64 * 1024 /* 16 columns for a block of terms, in any case */
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

/* What the windows of a convolution are, for a library that knows convolutions:
 *     y[p, (g, o)] = sum over k, c of x'[stride p + dilation k - before, (g, c)] w[(g, o), c, k]
 * x' is x with spread - 1 zeros between neighbours. Strides are in elements, as everywhere. */
typedef struct mgpu_convolution {
    bool weight;          /* the result is w, of x and (the gradient of) y; else y, of x and w: arguments 0, 1 -> 2 */
    int dims;             /* 1 to 3: more are not described */
    int64_t groups, in, out;                         /* channels of one group */
    int64_t x[3], w[3], y[3];                        /* extents: places, taps, places */
    int64_t stride[3], dilation[3], before[3], spread[3];
    int64_t x_stride[5], w_stride[5], y_stride[5];   /* x, y: sample, channel, places; w: (g, o), c, taps */
} mgpu_convolution;

typedef struct mgpu_contraction {
    int batch, m, n, k;   /* numbers of axes; they follow each other in `axis` */
    const mgpu_axis *axis;
    int windows;
    const mgpu_window *window; /* they move over A */
    const mgpu_convolution *convolution; /* NULL: not one, or one of more than three dimensions */
    int64_t a, b;         /* the operands' first elements */
    bool swapped;         /* A is argument[1], B is argument[0]; else the other way round */
    uint8_t type;         /* MGPU_F32 or MGPU_F64: of the sums, and of the tensors but those that are */
    bool bf16_a, bf16_b, bf16_c;
    int64_t copy, sums, packed; /* bytes of the workspace, multiples of 64: for a copy of a block of A (0: A is read in
                           * place), for sums that do not go straight to C (0: all do), for B in vectors along N */
    bool wide;            /* there is room for what few columns need: see contract_product.h, mgpu_wide */
    bool keep;            /* there is room for all of B, which stays packed between the calls of an operation */
} mgpu_contraction;

/* argument: the operands, C, and the thread's workspace: copy + sums + packed bytes. Every element of C that the part
 * covers is written, nothing outside the operands is touched. The order of additions depends on the table, the part and
 * the instruction set alone.
 *
 * Where the samples are an axis of C, mgpu_contract computes samples [begin, end) of it (MGPU_SPLIT_SAMPLES); else, and
 * mgpu_contract_team in both cases, the share of `thread` among `threads` of all samples (MGPU_SPLIT_TEAM). Shares of a
 * team never overlap. */
void mgpu_contract(const mgpu_contraction *, void *const *argument, const mgpu_part *);
void mgpu_contract_team(const mgpu_contraction *, void *const *argument, const mgpu_part *);
#endif
