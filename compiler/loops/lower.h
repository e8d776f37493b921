/* lower.h: a nest or a scan as code (code/code.h): what targets share.
 *
 *   loops/value.c       names; an expression as a term
 *   loops/nest.c        parts of a nest, and of functions
 *   loops/vector.c      a loop as vectors (loops/vector.h)
 *   loops/vector_forms.c  what in a loop has such a form
 *   loops/loops.c       loops, and what is computed in which of them
 *   loops/scan.c        a scan: what the targets have in common (loops/scan.h)
 *   compiler/code/       code, and its text
 *   host/nest.c         a nest as rows or columns
 *   host/scan.c         a scan: functions that a loop calls, and the loop
 *   host/kernels.c      functions, and the file of all kernels
 *   cuda/nest.c         which thread takes which iterations
 *   cuda/iterations.c   what its threads do at an iteration
 *   cuda/kernels.c      functions, and the file of all kernels, as CUDA C
 */
#ifndef MGPU_LOOPS_LOWER_H
#define MGPU_LOOPS_LOWER_H

#include "compiler/base/c_text.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/code/code.h"

typedef struct TermOfExpr { /* of one expression, while the loops are open in which it is known */
    const Term *term;
    bool wanted, deep, fixed; /* deep: used in a deeper loop; fixed: must have a name (its tensor is overwritten) */
    int uses, depth;
    const Term *row; /* its element in an array that holds it from one pass to the next; NULL: none */
    int row_pass;    /* the pass that fills it */
} TermOfExpr;

#define NAME_TAKEN ((void *)(uintptr_t)1)
typedef struct Lowering {
    CodeBuilder to; /* first: statements are added there */
    const Kernel *kernel;
    const Nest *nest;
    const bool **needed; /* per nest: the expressions that the function computes */
    Map names;           /* taken: NAME_TAKEN, or the number of the last name that is made of this one */
    Map keys;            /* of random numbers, by the hash of their path: terms */
    const Term **argument;
    int argument_count;
    const Tensor **tensor;
    const Node **table;
    const Term **table_name;
    int table_count;
    TermOfExpr *term_of;
    const Term *axis_name[MAX_AXES];
    const Term **result;                 /* per reduction: accumulator, then result */
    int loop[MAX_AXES], loops;           /* axes of the open and coming loops of a body, outermost first */
    const Term *tile_start, *tile_width; /* columns: NULL: one tile */
    bool finish;                         /* the end of a kernel with partial sums */
    const Term *begin, *end;             /* the part of the divided axis; of samples: in samples */
    const Term *owned_part; /* the part of a table that the thread owns; NULL: it is no scatter, or divides no rows */
    const Term **partial;   /* per reduction: the thread's partial sums */
    const Term **run;       /* per store in runs: what gathers its lanes */
    int vector;             /* + 1: the axis of the open vector loop; 0: none is open */
    bool wide;              /* its lanes of 8 bytes fill a register; else those of 4 bytes */
    const Term *lanes;      /* so many of them are iterations */
    Statement *rest; /* declares them in what remains of a loop after whole vectors; NULL: the loop has its own last vector, */
    const Term *rest_end;                          /* where that ends */
    bool cuda;                                     /* CUDA C, which is C++ */
    bool (*is_64_bit)(const Nest *, const Expr *); /* the index does not fit into an int; NULL: all are of 64 bits */
    bool block;                                    /* of one block of threads: for samples [begin, end) */
} Lowering;

extern const char *const C_TYPE[DTYPES]; /* of values: those of bf16 and f16 are floats */
const char *element_type(Dtype);         /* of what is in memory */

void reserve_names(Lowering *);                      /* the words of C, and the parameters of kernels, are taken */
const char *type_of(const Lowering *, const Expr *); /* of a variable that holds it */
/* names that nothing else in the kernel has: a word of the compiler's own, which is no C word or macro; one like that of
 * something in the model, which may be (c_name) */
const Term *fresh_name(Lowering *, const char *word);
const Term *name_like(Lowering *, const char *wish);
const Term *expression_name(Lowering *, const Expr *); /* a new name that says what the expression is */
const char *shape_remark(const Tensor *);              /* "[n, 28, 28]", as a comment */
const Term *count_term(int64_t);                       /* numbers that launches may hand over: */
const Term *divisor_term(int64_t);
const Term *number_term(double, Dtype);
const Term *literal_term(double, Dtype);                   /* one that stays */
const Term *term_of(const Lowering *, const Expr *);       /* its term */
const Term *table_of(const Lowering *, const Node *);      /* the name of a table of constants */
const Term *argument_of(const Lowering *, const Tensor *); /* the pointer to a tensor */
const Term *random_key(const Lowering *, const Expr *random);
int random_place(const Lowering *, const Expr *random, const Term *place[2]); /* sample and step of a random number */
bool kernel_writes(const Kernel *, const Tensor *);
/* finds what the expressions in `roots`, used at `depth`, need and do not have yet */
void find_wanted(Lowering *, Expr *const *roots, int root_count, int depth);
/* names or writes down everything that is wanted, can be computed at this depth and in this pass, and has no term */
void define_wanted(Lowering *, int depth, int pass);
const Term *value_term(Lowering *, const Expr *); /* the operands' terms are known */
const Term **saved_terms(const Lowering *);
void restore_terms(Lowering *, const Term **saved); /* forgets what was named since */
const Term *loop_from(const Lowering *, int axis);  /* where the loop over an axis begins and ends */
const Term *loop_to(const Lowering *, int axis);
void declare_part(Lowering *);                     /* declares the part of the axis that the thread takes */
const Term *lane_term(const Lowering *, int axis); /* columns: the place in the tile */
/* the loops p->loop[from ...], with what each needs; vector_pass >= 0: the innermost may be one of vectors, with the reductions
 * of that pass */
void open_loops(Lowering *, int from, int pass, bool tile, int vector_pass);
void close_loops(Lowering *, int from);
void close_innermost(Lowering *);
bool is_in_order(const Nest *, int pass); /* a first maximum is found, so the loop is serial */
/* ---- loops/nest.c */
void begin_nest(Lowering *, const Nest *); /* before anything else of it */
void add_store(Lowering *, const Store *);
const Term *unrounded_value(const Lowering *, const Expr *); /* what is rounded when it is stored */
const Term *reduction_start(const Reduction *);              /* what an accumulator begins with */
const Term *narrowed(const Reduction *, const Term *result); /* a result in its type */
const Term *best_name(const Term *result);                   /* of an ARGMAX: the maximum so far */
/* name, or its element `lane`, if that is not NULL */
void accumulate(Lowering *, const Reduction *, const Term *name, const Term *lane);
const Term *result_name(Lowering *, const Reduction *);
int pass_roots(const Nest *, int pass, Expr **); /* what FULL stores and reductions of a pass consist of */
int outer_roots(const Lowering *, Expr **);      /* OUTER stores */
int all_roots(const Lowering *, Expr **);
const bool *needed_expressions(const Nest *, bool finish); /* that a function computes */
void declare_tables(Lowering *);                           /* its constants, and keys of random numbers */
void emit_kernel_title(const Kernel *, Text *);            /* a comment before it */
#endif
