/* vector.h: an innermost loop of a nest as SIMD code (runtime/abi/mgpu_vector.h), for hosts. */
#ifndef MGPU_LOOPS_VECTOR_H
#define MGPU_LOOPS_VECTOR_H

#include "compiler/loops/lower.h"

/* The type of a value's SIMD lanes: integers of fewer than 32 bits are widened to 32 bits, bf16 and f16 to f32. */
typedef enum LaneType { LANE_NONE, LANE_F32, LANE_I32, LANE_U32, LANE_MASK, LANE_F64, LANE_I64 } LaneType;

/* ---- vector_forms.c */
LaneType lane_type(Dtype);
Dtype held_type(Dtype); /* element type of a kernel's local array for such values: f32 for bf16 and f16 */
/* Returns the lane size of the innermost loop, over `axis`, for the reductions of a pass: 4 or 8 bytes (lanes of this size fill a
 * register). Returns 0, for a scalar loop, if an operation has no vector form or the kernel is compiled for size. */
int vector_bytes(Lowering *, int axis, int pass);
bool is_floating_lane(LaneType);
LaneType accumulator_type(const Reduction *);
bool adds_to_f64(const Reduction *);       /* true for a sum of f32 that is accumulated in f64 */
bool changes_with(const Expr *, int axis); /* true if the value depends on the axis */
/* Returns the stride of an index that is linear in the axis; 0: it does not depend on the axis, or is not linear. */
int64_t vector_step(const Expr *index, int axis);
bool is_random_by_sample(const Expr *random); /* true if each sample has its own random numbers */
/* Returns true for random numbers that are all generated before the loop over the axis, into a local array. */
bool has_random_row(const Lowering *, const Expr *, int axis);
bool is_in_array(const Lowering *, const Expr *); /* true if an earlier loop has stored the value in a local array */
/* ---- loops.c */
/* As vector_bytes, for the innermost loop of rows; also 0 if the loop is short or must be executed in order. */
int innermost_bytes(Lowering *, int axis, int pass);
/* ---- vector.c */
const Term *element_pointer(const Term *element); /* a + i for a[i] */
bool varies(const Lowering *, const Expr *);      /* true if the value depends on the axis of the open vector loop */
/* Returns the term of a value that varies, as a vector; NULL for an index with a constant stride, which stays a scalar. */
const Term *vector_value(Lowering *, const Expr *);
const char *vector_type(const Lowering *, const Expr *);             /* C type of a variable for a value that varies */
const Term *vector_of_array(Lowering *, Dtype, const Term *pointer); /* loads consecutive elements */
/* Emits a loop over the variable v that fills an array of `count` elements. */
void vector_fill(Lowering *, const Term *v, Dtype, const Term *array, const Term *count, const Term *value);
void vector_keep(Lowering *, Dtype, const Term *pointer, const Term *value); /* stores consecutive elements */
void vector_store(Lowering *, const Store *);
/* Emits an accumulation into the vector `name`, or into consecutive elements from `element` on, unless that is NULL. */
void vector_accumulate(Lowering *, const Reduction *, const Term *name, const Term *element);
const char *vector_word(const Lowering *, const char *name, LaneType); /* such as "mgpu_load_f32_n" */
void open_vector_loop(Lowering *, int axis, int bytes, const Term *from, const Term *to);
void close_vector_loop(Lowering *);                                             /* also emits the loop's tail */
const Term *vector_sum(const Lowering *, const Reduction *, const Term *lanes); /* reduces the lanes to their sum or maximum */
/* Returns a fused multiply-add for a sum or difference, or for an addition to an accumulator, if one operand is a product without
 * other uses; else NULL. */
const Term *multiply_add(Lowering *, const Expr *);
const Term *accumulated_product(Lowering *, const Reduction *, const Term *own);
#endif
