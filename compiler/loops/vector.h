/* vector.h: a loop of a nest as vectors (runtime/abi/mgpu_vector.h), for hosts. */
#ifndef MGPU_LOOPS_VECTOR_H
#define MGPU_LOOPS_VECTOR_H

#include "compiler/loops/lower.h"

/* what holds a value in a vector loop: whole numbers of less than 32 bits are in 32 bits, bf16 and f16 are f32 */
typedef enum LaneType { LANE_NONE, LANE_F32, LANE_I32, LANE_U32, LANE_MASK, LANE_F64, LANE_I64 } LaneType;

/* ---- vector_forms.c */
LaneType lane_type(Dtype);
Dtype held_type(Dtype); /* of a value in an array of the kernel: f32 for bf16 and f16 */
/* The vectors of the innermost loop p->loop[...], over `axis`, for the reductions of a pass: 4 or 8, the bytes of the lanes that
 * fill a register; 0: something in the loop has no vector form, or the kernel is small: it is serial */
int vector_bytes(Lowering *, int axis, int pass);
bool is_floating_lane(LaneType);
LaneType accumulator_type(const Reduction *);
bool adds_to_f64(const Reduction *); /* of f32, in an array of f64 */
bool changes_with(const Expr *, int axis);
int64_t vector_step(const Expr *index, int axis); /* of one that moves in equal steps along the axis; 0: it does not */
bool is_random_by_sample(const Expr *random);     /* numbers of each sample */
bool has_random_row(const Lowering *, const Expr *, int axis); /* computed together before the loop over the axis */
bool is_in_array(const Lowering *, const Expr *);              /* in an array of the kernel, from a loop before */
/* ---- loops.c */
int innermost_bytes(Lowering *, int axis, int pass); /* of a loop of rows; 0 also where it is better serial */
/* ---- vector.c */
const Term *element_pointer(const Term *element);                    /* to a[i]: a + i */
bool varies(const Lowering *, const Expr *);                         /* in the open vector loop; only then: */
const Term *vector_value(Lowering *, const Expr *);                  /* instead of value_term */
const char *vector_type(const Lowering *, const Expr *);             /* of a variable that holds it */
const Term *vector_of_array(Lowering *, Dtype, const Term *pointer); /* what follows each other from there */
void vector_fill(Lowering *, const Term *v, Dtype, const Term *array, const Term *count, const Term *value); /* a loop over v */
void vector_keep(Lowering *, Dtype, const Term *pointer, const Term *value);
void vector_store(Lowering *, const Store *);
void vector_accumulate(Lowering *, const Reduction *, const Term *name, const Term *element);
const char *vector_word(const Lowering *, const char *name, LaneType); /* "mgpu_load_f32_n" */
void open_vector_loop(Lowering *, int axis, int bytes, const Term *from, const Term *to);
void close_vector_loop(Lowering *);                                             /* and what remains */
const Term *vector_sum(const Lowering *, const Reduction *, const Term *lanes); /* of all lanes, or their largest */
/* A multiply-add, where a product is added that nothing else needs; NULL: it is none. Of a sum or difference, or of an
 * accumulator. */
const Term *multiply_add(Lowering *, const Expr *);
const Term *accumulated_product(Lowering *, const Reduction *, const Term *own);
#endif
