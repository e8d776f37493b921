/* marks.h: texts that know their numbers. Kernels that differ in numbers alone can be one, if a launch hands the numbers over. What
 * prints such a kernel sets marks around each number that may be handed over, around names, and around comments; they are taken out
 * where the text is printed. Without Printer.marks all of these are the plain texts. */
#ifndef MGPU_MARKS_H
#define MGPU_MARKS_H

#include "compiler/target/c/emit.h"

typedef enum NumberKind { NUMBER_INT, NUMBER_DIVISOR, NUMBER_F32, NUMBER_F64 } NumberKind;

/* ---- what printers say. 0 and 1 are no numbers: texts with them are other texts */
const char *emit_count(const Printer *, int64_t);
const char *emit_divisor(const Printer *, int64_t);             /* after / or % */
const char *emit_over(const char *count);                       /* the same of a text that may be a count */
const char *emit_number(const Printer *, double, Dtype);
/* numbers in it stay: arguments of functions (a power of 2 is a multiplication), the bounds of a loop that is unrolled; but not
 * those in the index of an element */
const char *emit_constants(const Printer *, const char *text);
const char *emit_element(const Printer *, const char *pointer, const char *index); /* "x[4 * i]" */
const char *emit_marked_name(const Printer *, const char *name);
const char *emit_remark(const Printer *, const char *comment);
const char *emit_more_parameters(const Printer *);              /* what is handed over is declared there */
const char *emit_grid(const Printer *);                         /* "mgpu_grid_": the beginning of a function of all threads of the launch */
size_t emit_length(const char *text);                           /* of what a reader sees */

/* ---- what texts know */
typedef struct Number { const char *at; int length; NumberKind kind; } Number;
typedef struct Numbers { Number *list; int count; } Numbers;
void marked_numbers(const char *text, Numbers *);               /* appends those of the text */
/* names by their order, numbers by their kinds, no comments: texts of one form differ in numbers alone */
void marked_form(const char *text, Text *);
/* without marks; instead[i], if it is not NULL, in place of the i-th number; grid, likewise, in place of "mgpu_grid_" */
void marked_print(const char *text, const char *const *instead, const char *parameters, const char *grid, Text *);
#endif
