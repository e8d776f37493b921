/* iterations.h: what the two files of a nest in CUDA C share: cuda/iterations.c, what a thread does at its iterations, and
 * cuda/nest.c, which thread takes which iterations. */
#ifndef MGPU_CUDA_POINTS_H
#define MGPU_CUDA_POINTS_H

#include "compiler/target/cuda/cuda.h"

typedef struct Loops {
    Lowering *p;
    const Nest *nest;
    int parallel[MAX_AXES], parallel_count, reduction[MAX_AXES], reduction_axes_count; /* without the lane */
    int lane; /* the axis of the vector's lanes; -1: none */
    bool lane_parallel;
    const char *type, *count_type; /* C types of an axis and of a number of iterations */
    const Term *in_group;          /* number of samples of the group */
    const Term *first;             /* true for the thread that stores what all threads have; NULL: every thread stores */
    const Term *inside;            /* columns: false if the thread has no column; NULL: all threads have one */
    const Term *row, *rows;        /* columns: the thread's row of the block, and the number of rows */
    const Term *slice, *slices;
    const Term *register_step; /* rows that a thread keeps in registers: the step through the row */
    bool rest;                 /* the last vector of a row, which is not whole, is being computed separately */
    int rows_at_once;          /* rows whose sums are in f32 before they are added in f64; 0: this pass has no such sums */
    const Term *number;        /* number of the current reduction iteration, with rows_at_once */
    const Term **f32_sum;      /* by reduction: the f32 sum of these rows; NULL: none */
    const int *online;         /* by reduction: 1 + the maximum in whose pass the sum is computed, too; 0: in its own pass */
    const Term **vector;       /* by expression: the vector that it is a lane of */
} Loops;

typedef struct Iterations {
    int64_t count;
    const Term *times;
} Iterations; /* count * times; times NULL: 1 */

/* ---- counts of iterations */
Iterations cuda_axis_iterations(const Loops *, int axis);
Iterations cuda_all_iterations(const Loops *, const int *axes, int count);
const Term *cuda_iterations_term(Iterations);
const Term *cuda_iterations_divisor(Iterations);             /* the same as an operand after / or % */
const Term *cuda_name_iterations(const Loops *, Iterations); /* the number, as a variable if it has to be computed */
/* Returns "mgpu_grid_thread()", or another number of that kind; if a kernel has several nests, relative to the nest's own
 * blocks. */
const Term *cuda_nest_number(const Loops *, const char *what, int lanes);

/* ---- axes */
/* Defines the wanted axes of the iteration with this number. outermost: no axes are outside the first of them. */
void cuda_define_axes(const Loops *, const int *axes, int count, const Term *number, bool outermost);
/* Opens the loop from `from` to `to` in steps, and defines the axes. If there is only one axis, it is the loop variable. */
void cuda_open_iterations(const Loops *, const int *axes, int count, const char *wish, const Term *from, const Term *to,
                          const Term *step);

/* ---- an iteration */
void cuda_name_vectors(Loops *);
Expr **cuda_new_root_list(const Nest *);                                   /* allocates room for all roots of the nest */
void cuda_find_wanted(const Loops *, Expr **roots, int count, bool *used); /* finds what the roots need; `used`: the vectors */
void cuda_open_lanes(const Loops *);
int cuda_online_sum(const Loops *, int maximum); /* the sum of exponentials that is computed in its pass; -1: none */
/* Adds all statements of an iteration in a pass, or of OUTER stores (-1), with the loop over lanes. */
void cuda_add_iteration(const Loops *, int pass, const bool *used);
#endif
