/* rows.h: CUMSUM and TOP_K as one kernel on the host.
 *
 *   plan       nodes, the stored operand, results -> Rows
 *   print      Rows -> one C function that hands a constant table to runtime/abi/mgpu_rows.h
 *
 * The function's arguments are the operand, the results, the workspace (of TOP_K). */
#ifndef MGPU_ROWS_PLAN_H
#define MGPU_ROWS_PLAN_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Rows Rows;
struct mgpu_row_axis;

/* nodes: CUMSUM, or both results of one TOP_K, or one of them; operand: what is stored of their input, in its order, BF16
 * where the input is F32; result[i]: of nodes[i]. alone: one thread takes all rows of a call */
Rows *rows_plan(const Node *const *nodes, int count, const Tensor *operand, const Tensor *const *result, bool alone);

/* what the runtime gets; it is a CUMSUM, not a TOP_K; a likely number of samples */
const struct mgpu_rows *rows_table(const Rows *);
bool rows_are_sums(const Rows *);
int64_t rows_samples(const Rows *);

/* a head comment, the table kernel_name_rows, and static void kernel_name(argument, step, part) */
void rows_print(const Rows *, const char *kernel_name, Text *);
void rows_print_comment(const Rows *, Text *);
void rows_print_axis(const struct mgpu_row_axis *, Text *);

/* how the workers of a thread pool share it: by samples; else by rows, if there are many */
uint8_t rows_split(const Rows *, int64_t *extent, int64_t *grain);

/* for kernel/identity.h */
void rows_identity(const Rows *, Sha256 *);

int64_t rows_workspace(const Rows *); /* bytes of each thread */

/* of one call, in the terms of Task: of every sample if it has samples */
void rows_cost(const Rows *, double *flops, double *bytes, bool *samples);
#endif
