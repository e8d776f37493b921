/* contraction.h: EINSUM of two operands, CONVOLVE and CONVOLVE_WEIGHT as blocked contractions on the host.
 *
 *   plan       node, tensors -> Contraction: C[batch, M, N] = sum_K A[batch, M, K] B[batch, K, N], every one of the four
 *              a list of axes with any strides; windows of a convolution are axes whose positions are checked.
 *   print      Contraction -> one C function that hands a constant table to the contraction in the runtime library.
 *
 * Tensors may be in any order (Variable.order). They are F32 or BF16 each, or all F64; sums of BF16 are F32. The printed
 * table and function need "runtime/abi/mgpu_gemm.h" included before them; the function's arguments are a, b, result, workspace
 * in this order (a and b are two arguments even if they are one tensor). It writes every element of result that its part
 * covers and adds in a fixed order. */
#ifndef MGPU_CONTRACTION_H
#define MGPU_CONTRACTION_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Contraction Contraction;

/* node: EINSUM with two inputs, CONVOLVE or CONVOLVE_WEIGHT; a and b hold node->in[0] and node->in[1]. alone: one thread calls
 * it for some of the samples, again and again */
Contraction *contraction_plan(const Node *node, const Tensor *a, const Tensor *b, const Tensor *result, bool alone);

/* samples of a call, as far as the model says it: of a micro-batch */
int64_t contraction_samples(const Contraction *);

/* a head comment (equation, line, shapes, M x N x K), then the tables kernel_name_axis, kernel_name_contraction ..., and
 * static void kernel_name(argument, step, part) */
void contraction_print(const Contraction *, const char *kernel_name, Text *);

/* the parts of that: the comment, ending with `more`, and the tables alone */
void contraction_print_comment(const Contraction *, const char *more, Text *);
void contraction_print_table(const Contraction *, const char *kernel_name, Text *);

/* how the workers of a thread pool share it: MGPU_SPLIT_SAMPLES or MGPU_SPLIT_WORKERS */
uint8_t contraction_split(const Contraction *);

/* for kernel/identity.h */
void contraction_identity(const Contraction *, Sha256 *);

/* bytes of workspace of each thread, and what each sample adds to that (always 0: blocks have a fixed size) */
int64_t contraction_workspace(const Contraction *, int64_t *per_sample);

/* it keeps an operand packed in its workspace from one call of an operation to the next */
bool contraction_keeps(const Contraction *);

/* what the cost model calls it */
WorkKind contraction_work(const Contraction *);

/* work of one call, in the terms of Task: a constant part, and a part for every sample */
void contraction_cost(const Contraction *, double *flops, double *flops_per_sample, double *bytes, double *bytes_per_sample);
#endif
