/* contraction.h: EINSUM of two operands, CONVOLVE and CONVOLVE_WEIGHT as blocked contractions on the host.
 *
 *   plan       node, tensors -> Contraction: C[batch, M, N] = sum_K A[batch, M, K] B[batch, K, N]. Each of the four is
 *              a list of axes with any strides; windows of a convolution are axes whose positions are checked.
 *   print      Contraction -> one C function that passes a constant table to the contraction in the runtime library.
 *
 * Tensors may have any order of axes (Variable.order). They are F32 or BF16 each, or all F64; BF16 is accumulated in F32. The
 * printed table and function need "runtime/abi/mgpu_gemm.h" included before them. The function's arguments are a, b, result,
 * workspace (a and b are two arguments even if they are one tensor). It writes every element of the result in its part, and adds
 * in a fixed order. */
#ifndef MGPU_CONTRACTION_H
#define MGPU_CONTRACTION_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Contraction Contraction;

/* Plans the kernel of `node`, an EINSUM with two inputs, CONVOLVE or CONVOLVE_WEIGHT. The tensors a and b hold node->in[0] and
 * node->in[1]. alone: one worker calls it many times, for some of the samples each time. */
Contraction *contraction_plan(const Node *node, const Tensor *a, const Tensor *b, const Tensor *result, bool alone);

/* Returns the samples of a micro-batch, as far as the model gives them. */
int64_t contraction_samples(const Contraction *);

/* Prints a head comment (equation, line, shapes, M x N x K), the tables kernel_name_axis, kernel_name_contraction ..., and static
 * void kernel_name(argument, step, part). */
void contraction_print(const Contraction *, const char *kernel_name, Text *);

/* Print only the comment, with `more` at its end, and only the tables. */
void contraction_print_comment(const Contraction *, const char *more, Text *);
void contraction_print_table(const Contraction *, const char *kernel_name, Text *);

/* Returns how the workers of a thread pool divide it: MGPU_SPLIT_SAMPLES or MGPU_SPLIT_WORKERS. */
uint8_t contraction_split(const Contraction *);

/* Adds to a kernel's identity (kernel/identity.h). */
void contraction_identity(const Contraction *, Sha256 *);

/* Returns the bytes of workspace per worker. *per_sample, which each sample adds to that, is always 0: blocks have a fixed
 * size. */
int64_t contraction_workspace(const Contraction *, int64_t *per_sample);

/* Returns true if an operand stays packed in the workspace from one call of an operation to the next. */
bool contraction_keeps_packed(const Contraction *);

/* Returns the kind of work for the cost model. */
WorkKind contraction_work(const Contraction *);

/* Computes the cost of one call, in the terms of Task: a constant part and a part per sample. */
void contraction_cost(const Contraction *, double *flops, double *flops_per_sample, double *bytes, double *bytes_per_sample);
#endif
