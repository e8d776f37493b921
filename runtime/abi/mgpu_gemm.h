/* mgpu_gemm.h: contractions for generated kernels: C[batch, M, N] = sum over K of A[batch, M, K] B[batch, K, N].
 *
 * In: a constant table (mgpu_contraction) that says what the indices are. Each of batch, M, N and K is a list of axes,
 * outermost first, every axis with a stride in A, B and C; the samples are one of the axes. A convolution is the same
 * with windows: two axes (the place p of the window, the tap k in it) together make a position p step_p + k step_k +
 * first in one dimension of the gathered operand, whose elements outside [0, extent) are 0.
 *
 * The contraction itself is in the runtime library, once for every instruction set: runtime/host/contract.c. */
#ifndef MGPU_GEMM_H
#define MGPU_GEMM_H

#include "mgpu.h"
#include "mgpu_tables.h"

enum {
    /* the largest blocks, whatever the instruction set, because the compiler places the workspace before anybody knows
     * where the program will run: columns of C, rows of A, depth (more would lose digits in f32: they are
     * added one after the other); bytes of C that are worked on */
    MGPU_BLOCK_N = 512, MGPU_BLOCK_ROWS = 512, MGPU_BLOCK_DEPTH = 1152, MGPU_BLOCK_C_BYTES = 1024 * 1024,
    MGPU_FAR_BYTES = 512, /* elements of A along K that are so far apart are worth packing */
    /* good sizes of the parts of the workspace: a copy of a block of A with what surrounds it, or of its rows alone, sums that
     * do not go straight to C, packed B */
    MGPU_COPY_BYTES = 512 * 1024, MGPU_ROWS_BYTES = 1024 * 1024, MGPU_SUMS_BYTES = 512 * 1024, MGPU_PACKED_BYTES = 1024 * 1024,
    MGPU_PACKED_LEAST = 64 * 1024 /* 16 columns of a block of K, in any case */
};

/* argument: the operands, C, and the thread's workspace: copy + sums + packed bytes. Every element of C that the part
 * covers is written, nothing outside the operands is touched. The order of additions depends on the table, the part and
 * the instruction set alone.
 *
 * Where the samples are an axis of C, mgpu_contract computes samples [begin, end) of it (MGPU_SPLIT_SAMPLES); else, and
 * mgpu_contract_shared in both cases, the share of `thread` among `threads` of all samples (MGPU_SPLIT_WORKERS). Shares of
 * workers never overlap. */
void mgpu_contract(const mgpu_contraction *, void *const *argument, const mgpu_part *);
void mgpu_contract_shared(const mgpu_contraction *, void *const *argument, const mgpu_part *);
#endif
