/* emit.h: what the files of the C printer share.
 *
 *   c/text.c        names, literals, lines; an expression as C
 *   c/marks.c       texts that know their numbers (c/marks.h)
 *   c/loops.c       loops, and what is computed in which of them
 *   host/nest.c     a nest as rows or columns
 *   c/scan.c        a scan: what host C and CUDA C of it have in common (c/scan.h)
 *   host/scan.c     a scan: functions that a loop calls, and the loop
 *   host/kernels.c  functions, and the file of all kernels
 *   cuda/nest.c     a nest as CUDA C
 *   cuda/iterations.c   what its threads do at an iteration
 *   cuda/kernels.c  functions, and the file of all kernels, as CUDA C
 */
#ifndef MGPU_EMIT_H
#define MGPU_EMIT_H

#include "compiler/base/c_text.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"

/* how tightly an expression's text binds: C's levels */
typedef enum Level { LEVEL_CHOICE, LEVEL_OR, LEVEL_AND, LEVEL_EQUAL, LEVEL_LESS, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY, LEVEL_ATOM } Level;

typedef struct Shown { /* of one expression, while the loops are open in which it is known */
    const char *text;
    Level level;
    bool wanted, deep, fixed; /* deep: used in a deeper loop; fixed: must have a name (its tensor is overwritten) */
    int uses, depth;
    const char *row;          /* its element in an array that holds it from one pass to the next; NULL: none */
    int row_pass;             /* the pass that fills it */
} Shown;

#define EMIT_TAKEN ((void *)(uintptr_t)1)
typedef struct Printer {
    const Kernel *kernel;
    const Nest *nest;
    Text *t;
    bool marks;           /* numbers, names and comments of the text have marks: c/marks.h */
    bool by_path;         /* paths of random numbers are a parameter */
    const bool **needed;  /* per nest: the expressions that the function computes */
    Map names;            /* taken: EMIT_TAKEN, or the number of the last name that is made of this one */
    const char **argument; int argument_count;
    const Tensor **tensor;
    const Node **table; const char **table_name; int table_count;
    Shown *shown;
    const char *axis_name[MAX_AXES];
    const char **result;  /* per reduction: accumulator, then result */
    int indent;
    int loop[MAX_AXES], loops; /* axes of the open and coming loops of a body, outermost first */
    const char *tile_start, *tile_width; /* columns: NULL: one tile */
    bool finish;          /* the end of a kernel with partial sums */
    const char *begin, *end; /* the part of the divided axis; of samples: in samples */
    const char *own;      /* the part of a table that the thread owns; NULL: it is no scatter, or divides no rows */
    const char **partial; /* per reduction: the thread's partial sums */
    const char **run;     /* per store in runs: what gathers its lanes */
    bool cuda;            /* CUDA C, which is C++ */
    bool (*is_64_bit)(const Nest *, const Expr *); /* the index does not fit into an int; NULL: all are of 64 bits */
    bool block;           /* of one block of threads: for samples [begin, end) */
} Printer;

#define EMIT_OWN "\1" /* in a text that is kept, the name of its kernel, which is printed under other names, too */
void emit_named(const Kernel *, const char *text, Text *);

extern const char *const C_TYPE[DTYPES];                  /* of values: those of bf16 and f16 are floats */
const char *emit_element_type(Dtype);                     /* of what is in memory */

void emit_reserve(Printer *);                             /* the words of C, and the parameters of kernels, are taken */
const char *emit_type(const Printer *, const Expr *);     /* of a variable that holds it */
/* names that nothing else in the kernel has: a word of the compiler's own, which is no C word or macro; one like that of something
 * in the model, which may be (c_name) */
const char *emit_own_name(Printer *, const char *word);
const char *emit_name(Printer *, const char *wish);
const char *emit_name_of(Printer *, const Expr *);        /* a new name that says what the expression is */
void emit_line(Printer *, const char *pattern, ...) PRINTF(2, 3);
const char *emit_shape_comment(const Printer *, const Tensor *); /* " [n, 28, 28]", as a comment */
void emit_close(Printer *);                               /* the brace of the innermost block */
const char *emit_literal(double, Dtype);                  /* reads back as the same number */
const char *emit_operand(Printer *, const Expr *, Level); /* its text, in parentheses if it binds less tightly */
const char *emit_argument(Printer *, const Tensor *);     /* the pointer to a tensor */
const char *emit_key(const Printer *, const Expr *random);
const char *emit_random_place(Printer *, const Expr *random); /* sample and step of a random number */
const char *emit_expr(Printer *, const Expr *, Level *);  /* the operands' texts are known */
bool emit_written(const Kernel *, const Tensor *);
/* finds what the expressions in `roots`, used at `depth`, need and do not have yet */
void emit_find_wanted(Printer *, Expr *const *roots, int root_count, int depth);
/* names or writes down everything that is wanted, can be computed at this depth and in this pass, and has no text */
void emit_define(Printer *, int depth, int pass);
const char **emit_saved_texts(const Printer *);
void emit_restore_texts(Printer *, const char **saved);   /* forgets what was named since */
const char *emit_from(const Printer *, int axis);         /* where the loop over an axis begins and ends */
const char *emit_to(const Printer *, int axis);
void emit_part(Printer *);                                /* declares the part of the axis that the thread takes */
const char *emit_lane(const Printer *, int axis);         /* columns: the place in the tile */
/* the loops p->loop[from ...], with what each needs; simd_pass >= 0: vector code for the innermost */
void emit_open_loops(Printer *, int from, int pass, bool tile, int simd_pass);
void emit_close_loops(Printer *, int from);
void emit_nest(Printer *, const Nest *);
/* parts of a nest that both languages share: host/nest.c */
void emit_begin_nest(Printer *, const Nest *);            /* before anything else of it */
void emit_store(Printer *, const Store *);
const char *emit_start(const Reduction *);                /* what an accumulator begins with */
/* a cast of a result to its type; "": it has it already */
static inline const char *emit_narrowing(const Reduction *r) { return r->in_double && r->dtype != F64 ? "(float)" : ""; }
void emit_accumulate(Printer *, const Reduction *, const char *name, const char *where); /* where: "" or "[c]": the lane */
const char *emit_result_name(Printer *, const Reduction *);
int emit_pass_roots(const Nest *, int pass, Expr **);     /* what FULL stores and reductions of a pass consist of */
int emit_outer_roots(const Printer *, Expr **);           /* OUTER stores */
int emit_all_roots(const Printer *, Expr **);
/* host/kernels.c: the expressions that a function computes; its constants, and keys of random numbers */
const bool *emit_needed(const Nest *, bool finish);
void emit_tables(Printer *);
void emit_kernel_title(const Kernel *, Text *);           /* a comment before it */
#endif
