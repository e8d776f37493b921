/* attention.h: ATTENTION and ATTENTION_GRADIENT as one kernel on the host.
 *
 *   view       (operand, what is stored) -> where its elements are in that: slices, transposes and reshapes that are strides
 *   plan       node, stored operands, results -> Attention
 *   print      Attention -> one C function that hands a constant table to runtime/abi/mgpu_attention.h
 *
 * Tensors are F32 or BF16 each, or all F64; sums are no halves. The function's arguments are the stored operands (each an argument, even if
 * they are one tensor), the results, the workspace. */
#ifndef MGPU_ATTENTION_PLAN_H
#define MGPU_ATTENTION_PLAN_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Attention Attention;

enum { ATTENTION_OPERANDS = 6, ATTENTION_RESULTS = 3 };

/* the value after views of which `operand` is a part with strides, 1 for its last axis; the farthest for which `stored`
 * does not say no. It may be the operand itself. */
const Node *attention_operand(const Node *operand, bool (*stored)(const Node *));

/* nodes: the results of one ATTENTION, or the gradients of one (with equal operands); base[k], tensor[k]: what attention_operand gave for
 * operand k, and where it is; result[i]: of nodes[i] */
Attention *attention_plan(const Node *const *nodes, int count, const Node *const *base, const Tensor *const *tensor,
                          const Tensor *const *result);

/* what the runtime gets */
const struct mgpu_attention *attention_table(const Attention *);

/* a head comment, the table kernel_name_attention, and static void kernel_name(argument, step, part) */
void attention_print(const Attention *, const char *kernel_name, Text *);
void attention_print_comment(const Attention *, const char *more, Text *); /* the comment alone; it ends with `more` */

/* it may round its operands of f32 to tf32 */
bool attention_is_tf32(const Attention *);

/* all tensors begin at multiples of 16 bytes: none is in a bucket */
bool attention_is_aligned(const Attention *);

/* how the workers of a thread pool share it: MGPU_SPLIT_SAMPLES, or MGPU_SPLIT_NONE if it is the same for all samples */
uint8_t attention_split(const Attention *);

/* for kernel/identity.h */
void attention_identity(const Attention *, Sha256 *);

int64_t attention_workspace(const Attention *); /* bytes of each thread */

/* of one call, in the terms of Task: of every sample if it has samples */
void attention_cost(const Attention *, double *flops, double *bytes, bool *samples);
#endif
