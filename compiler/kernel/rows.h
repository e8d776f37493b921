/* rows.h: a running operation or TOP_K as one kernel on the host.
 *
 *   plan       nodes, the stored operand, results -> Rows
 *   print      Rows -> one C function that passes a constant table to runtime/abi/mgpu_rows.h
 *
 * The function's arguments are the operand, the results, the workspace (of TOP_K). */
#ifndef MGPU_ROWS_PLAN_H
#define MGPU_ROWS_PLAN_H

#include "compiler/kernel/phase.h"
#include "runtime/base/sha256.h"

typedef struct Rows Rows;
struct mgpu_row_axis;

/* Plans the kernel of a running operation, of both results of one TOP_K, or of one of them (nodes). operand: the stored input,
 * in the input's order of axes, BF16 where the input is F32. result[i]: tensor of nodes[i]. alone: one worker computes all rows
 * of a call. */
Rows *rows_plan(const Node *const *nodes, int count, const Tensor *operand, const Tensor *const *result, bool alone);

/* Return the table that the runtime reads, the operation, and a likely number of samples. */
const struct mgpu_rows *rows_table(const Rows *);
Op rows_operation(const Rows *);
int64_t rows_samples(const Rows *);

/* Prints a head comment, the table kernel_name_rows, and static void kernel_name(argument, step, part). */
void rows_print(const Rows *, const char *kernel_name, Text *);
void rows_print_comment(const Rows *, Text *);

/* Returns how the workers of a thread pool divide it: by samples; else by rows, if there are many. */
uint8_t rows_split(const Rows *, int64_t *extent, int64_t *grain);

/* Adds to a kernel's identity (kernel/identity.h). */
void rows_identity(const Rows *, Sha256 *);

int64_t rows_workspace(const Rows *); /* bytes per worker */

/* Computes the cost of one call, in the terms of Task: per sample if *samples becomes true. */
void rows_cost(const Rows *, double *flops, double *bytes, bool *samples);
#endif
