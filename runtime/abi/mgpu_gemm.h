/* mgpu_gemm.h: contractions for generated kernels: C[batch, M, N] = sum over K of A[batch, M, K] B[batch, K, N].
 *
 * In: a constant table (mgpu_contraction) of the indices. Each of batch, M, N and K is a list of axes, outermost first, and every
 * axis has a stride in A, B and C; the samples are one of the axes. A convolution has windows in addition: two axes (the window's
 * place p and the tap k in it) give a position p step_p + k step_k + first in one dimension of A; elements outside [0, extent)
 * are 0.
 *
 * The code is in the runtime library, once for every instruction set: runtime/host/contract.c. */
#ifndef MGPU_GEMM_H
#define MGPU_GEMM_H

#include "mgpu.h"
#include "mgpu_tables.h"

/* clang-format off */
enum {
    /* The largest blocks for any instruction set, because the compiler places the workspace without knowing where the program
     * will run: columns of C, rows of A, depth (a larger one would lose digits in f32, since products are added sequentially);
     * bytes of C processed at a time. */
    MGPU_BLOCK_N = 512, MGPU_BLOCK_ROWS = 512, MGPU_BLOCK_DEPTH = 1152, MGPU_BLOCK_C_BYTES = 1024 * 1024,
    MGPU_FAR_BYTES = 512, /* elements of A along K that are so far apart are packed */
    /* Good sizes of the workspace's parts: a copy of a block of A with its surroundings, or of its rows only; sums that are not
     * stored to C directly; packed B. */
    MGPU_COPY_BYTES = 512 * 1024, MGPU_ROWS_BYTES = 1024 * 1024, MGPU_SUMS_BYTES = 512 * 1024, MGPU_PACKED_BYTES = 1024 * 1024,
    MGPU_PACKED_LEAST = 64 * 1024 /* at least 16 columns of a block of K */
};
/* clang-format on */

/* argument: the operands, C, and the thread's workspace: copy + sums + packed bytes. Every element of C in the part is written,
 * and nothing outside the operands is accessed. The order of additions depends only on the table, the part and the instruction
 * set.
 *
 * If the samples are an axis of C, mgpu_contract computes samples [begin, end) of it (MGPU_SPLIT_SAMPLES). Otherwise, and for
 * mgpu_contract_shared always, it computes the share of `thread` among `threads` for all samples (MGPU_SPLIT_WORKERS). Shares of
 * workers do not overlap. */
void mgpu_contract(const mgpu_contraction *, void *const *argument, const mgpu_part *);
void mgpu_contract_shared(const mgpu_contraction *, void *const *argument, const mgpu_part *);
#endif
