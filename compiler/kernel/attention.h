/* attention.h: ATTENTION and ATTENTION_GRADIENT as one kernel on the host.
 *
 *   view       (operand, stored value) -> where the operand's elements are in that: slices, transposes, reshapes as strides
 *   plan       node, stored operands, results -> Attention
 *   print      Attention -> one C function that passes a constant table to runtime/abi/mgpu_attention.h
 *
 * Tensors are F32 or BF16 each, or all F64. The tensor of the softmax sums is never BF16. The function's arguments are the stored
 * operands (one argument for each operand, even if two are one tensor), the results, the workspace. */
#ifndef MGPU_ATTENTION_PLAN_H
#define MGPU_ATTENTION_PLAN_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Attention Attention;

enum { ATTENTION_OPERANDS = 6, ATTENTION_RESULTS = 3 };

/* Returns the stored value that the kernel reads in place of `operand`: the value after the most views of which `operand` is a
 * strided part, with stride 1 along its last axis, and which `stored` accepts. It may be `operand` itself. */
const Node *attention_operand(const Node *operand, bool (*stored)(const Node *));

/* Plans the kernel of the results of one ATTENTION, or of the gradients of one (nodes with equal operands). base[k] is what
 * attention_operand returned for operand k, tensor[k] its tensor; result[i] is the tensor of nodes[i]. */
Attention *attention_plan(const Node *const *nodes, int count, const Node *const *base, const Tensor *const *tensor,
                          const Tensor *const *result);

/* Returns the table that the runtime reads. */
const struct mgpu_attention *attention_table(const Attention *);

/* Prints a head comment, the table kernel_name_attention, and static void kernel_name(argument, step, part). */
void attention_print(const Attention *, const char *kernel_name, Text *);
/* Prints that comment only, with `more` at its end. */
void attention_print_comment(const Attention *, const char *more, Text *);

/* Returns true if f32 operands may be rounded to tf32. */
bool attention_is_tf32(const Attention *);

/* Returns true if every tensor begins at a multiple of 16 bytes, which tensors in a bucket may not. */
bool attention_is_aligned(const Attention *);

/* Returns how the workers of a thread pool divide it: MGPU_SPLIT_SAMPLES, or MGPU_SPLIT_NONE if all samples have one result. */
uint8_t attention_split(const Attention *);

/* Adds to a kernel's identity (kernel/identity.h). */
void attention_identity(const Attention *, Sha256 *);

int64_t attention_workspace(const Attention *); /* bytes per worker */

/* Computes the cost of one call, in the terms of Task: per sample if *samples becomes true. */
void attention_cost(const Attention *, double *flops, double *bytes, bool *samples);
#endif
