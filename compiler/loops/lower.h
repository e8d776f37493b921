/* lower.h: lowers a nest or a scan to code (code/code.h): what the targets have in common.
 *
 *   loops/value.c         names; terms of expressions
 *   loops/nest.c          stores, accumulations and names of a nest; tables of a function
 *   loops/vector.c        an innermost loop as SIMD code (loops/vector.h)
 *   loops/vector_forms.c  decides whether a loop can be SIMD code
 *   loops/loops.c         loops, and the loop in which each expression is computed
 *   loops/scan.c          scans (loops/scan.h)
 *   compiler/code/        code, and its text
 *   host/nest.c           a nest as rows or columns
 *   host/scan.c           a scan: the functions of its kernels, and the loop that calls them
 *   host/kernels.c        functions, and the file of all kernels
 *   cuda/nest.c           divides iterations among threads
 *   cuda/iterations.c     the code of an iteration
 *   cuda/kernels.c        functions, and the file of all kernels, as CUDA C
 */
#ifndef MGPU_LOOPS_LOWER_H
#define MGPU_LOOPS_LOWER_H

#include "compiler/base/c_text.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/code/code.h"

typedef struct TermOfExpr { /* state of one expression */
    const Term *term;       /* NULL until a loop computes it; valid while that loop is open */
    /* deep: used in a deeper loop; fixed: must have a name, so that it is loaded before a store or outside of a choice */
    bool wanted, deep, fixed;
    int uses, depth; /* depth: number of loops around its definition */
    const Term *row; /* its element in a local array that a later pass reads; NULL: none */
    int row_pass;    /* the pass that fills the array */
} TermOfExpr;

#define NAME_TAKEN ((void *)(uintptr_t)1)
typedef struct Lowering {
    CodeBuilder to; /* must be first: statements are added to it */
    const Kernel *kernel;
    const Nest *nest;
    const bool **needed; /* per nest: the expressions that the function computes */
    Map names;           /* names in use: NAME_TAKEN, or the number in the last name derived from this one (name_2) */
    Map keys;            /* terms of the keys of random numbers, by the hash of their path */
    const Term **argument;
    int argument_count;
    const char **argument_name; /* per argument: what it is called after (argument_name, below); NULL: not known yet */
    const Tensor **tensor;
    const Node **table;
    const Term **table_name;
    int table_count;
    TermOfExpr *term_of;
    const Term *axis_name[MAX_AXES];
    const Term **result;                 /* per reduction: accumulator, then result */
    int loop[MAX_AXES], loops;           /* axes of the loops, outermost first, including those not yet open */
    const Term *tile_start, *tile_width; /* begin and end (not the width) of the tile; NULL: one tile has all iterations */
    bool finish;                         /* lowers the finishing function of a kernel with partial sums */
    const Term *begin, *end;             /* this thread's range of the divided axis; of a samples axis: in samples */
    const Term *owned_part;              /* scatter: the part of the table that the thread owns; NULL: rows are not divided */
    const Term **partial;                /* per reduction: the thread's partial sums */
    const Term **run;                    /* per store with runs: the local array that collects its lanes */
    int vector;                          /* the axis of the open vector loop + 1; 0: none is open */
    bool wide;                           /* lanes of 8 bytes fill a register of the vector loop; else lanes of 4 bytes */
    const Term *lanes;                   /* number of active lanes */
    /* Declares `lanes` in the tail after a loop over full vectors; NULL: the loop also executes the last, partial vector. */
    Statement *rest;
    const Term *rest_end;                          /* end of the tail's iterations */
    bool cuda;                                     /* CUDA C, which is C++ */
    bool (*is_64_bit)(const Nest *, const Expr *); /* true if the index does not fit into an int; NULL: all have 64 bits */
    bool block; /* the function is executed by one block of threads, for samples [begin, end) */
} Lowering;

extern const char *const C_TYPE[DTYPES]; /* C types of values: bf16 and f16 are computed in float */
const char *element_type(Dtype);         /* C type of a tensor's elements */

void reserve_names(Lowering *);                      /* reserves C's keywords and the kernels' parameters */
const char *type_of(const Lowering *, const Expr *); /* C type of a variable for it */
/* Return a name that is unique in the kernel: from a word of the compiler, which must be no keyword or macro of C; from any name
 * in the model. */
const Term *fresh_name(Lowering *, const char *word);
const Term *name_like(Lowering *, const char *wish);
const char *argument_name(Lowering *, const Tensor *); /* "weight"; in a kernel of several layers "conv_1.weight" */
const Term *expression_name(Lowering *, const Expr *); /* a new name that describes the expression */
const char *shape_remark(const Tensor *);              /* "[n, 28, 28]", as a comment */
const Term *count_term(int64_t);                       /* numbers that may become kernel parameters: */
const Term *divisor_term(int64_t);
const Term *number_term(double, Dtype);
const Term *literal_term(double, Dtype);                   /* always a literal */
const Term *term_of(const Lowering *, const Expr *);       /* NULL: it has not been computed yet */
const Term *table_of(const Lowering *, const Node *);      /* the name of a table of constants */
const Term *argument_of(const Lowering *, const Tensor *); /* the pointer to a tensor */
const Term *random_key(const Lowering *, const Expr *random);
int random_place(const Lowering *, const Expr *random,
                 const Term *place[2]); /* the sample and the step that a random number depends on */
bool kernel_writes(const Kernel *, const Tensor *);
/* Finds the expressions without a term that the expressions in `roots`, used at `depth`, depend on. */
void find_wanted(Lowering *, Expr *const *roots, int root_count, int depth);
/* Defines all wanted expressions without a term that can be computed at this depth and in this pass. */
void define_wanted(Lowering *, int depth, int pass);
const Term *value_term(Lowering *, const Expr *); /* operands must have terms */
const Term **saved_terms(const Lowering *);
void restore_terms(Lowering *, const Term **saved); /* drops the terms that were set since saved_terms */
const Term *loop_from(const Lowering *, int axis);  /* begin and end of the loop over an axis */
const Term *loop_to(const Lowering *, int axis);
void declare_part(Lowering *);                     /* declares the thread's range of the divided axis */
const Term *lane_term(const Lowering *, int axis); /* columns: the index in the tile */
/* Opens the loops p->loop[from ...] and defines the expressions of each. tile: the innermost is over the tile. vector_pass >= 0:
 * the innermost may be SIMD code for the reductions of that pass. */
void open_loops(Lowering *, int from, int pass, bool tile, int vector_pass);
void close_loops(Lowering *, int from);
void close_innermost(Lowering *);
/* Returns true if the pass has an argmax, which returns the first maximum, so that its loop is executed in order. */
bool is_in_order(const Nest *, int pass);
/* ---- loops/nest.c */
void begin_nest(Lowering *, const Nest *); /* must be called first */
void add_store(Lowering *, const Store *);
const Term *unrounded_value(const Lowering *, const Expr *); /* the value before it is rounded to the tensor's type */
const Term *reduction_start(const Reduction *);              /* initial value of the accumulator */
const Term *narrowed(const Reduction *, const Term *result); /* the result, rounded to its type */
const Term *best_name(const Term *result);                   /* ARGMAX: the variable with the maximum */
/* Accumulates into `name`, or into its element `lane` if that is not NULL. */
void accumulate(Lowering *, const Reduction *, const Term *name, const Term *lane);
const Term *result_name(Lowering *, const Reduction *);
int pass_roots(const Nest *, int pass, Expr **); /* expressions of a pass's reductions and FULL stores */
int outer_roots(const Lowering *, Expr **);      /* expressions of OUTER stores */
int all_roots(const Lowering *, Expr **);
const bool *needed_expressions(const Nest *, bool finish); /* expressions that a function computes */
void declare_tables(Lowering *);                           /* tables of constants, and keys of random numbers */
void emit_kernel_title(const Kernel *, Text *);            /* a comment before it */
#endif
