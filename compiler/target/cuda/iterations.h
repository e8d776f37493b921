/* iterations.h: what the two files of a nest in CUDA C share: cuda/iterations.c, what a thread does at its iterations, and
 * cuda/nest.c, which thread takes which iterations. */
#ifndef MGPU_CUDA_POINTS_H
#define MGPU_CUDA_POINTS_H

#include "compiler/target/cuda/cuda.h"

typedef struct Loops {
    Lowering *p;
    const Nest *nest;
    int parallel[MAX_AXES], parallel_count, reduction[MAX_AXES], reduction_axes_count; /* without the lane */
    int lane;              /* the axis of the vector's lanes; -1: none */
    bool lane_parallel;
    const char *type, *count_type; /* of an axis, of a number of iterations */
    const Term *in_group;  /* how many samples the group has */
    const Term *first;     /* true for the thread that stores what all have; NULL: every one does */
    const Term *inside;    /* columns: false where the thread has none; NULL: all have */
    const Term *row, *rows;/* columns: the thread's row of the block, and how many there are */
    const Term *slice, *slices;
    const Term *turn;      /* of rows that a thread keeps: the step through the row */
    bool rest;             /* of a row that is not whole vectors the last one, apart from the others */
    int rows_at_once;      /* whose sums are f32 until they are added to those in f64; 0: this pass has no such sums */
    const Term *number;    /* of the reduction iteration then */
    const Term **part;     /* by reduction: that sum in f32; NULL: none */
    const int *online;     /* by reduction: a sum's maximum + 1, in whose pass it is computed, too; 0: in its own */
    const Term **vector;   /* by expression: the vector that it is a lane of */
} Loops;

typedef struct Iterations { int64_t count; const Term *times; } Iterations; /* times: NULL, or how many there are of `count` */

/* ---- counts of iterations */
Iterations cuda_axis_iterations(const Loops *, int axis);
Iterations cuda_all_iterations(const Loops *, const int *axes, int count);
const Term *cuda_iterations_term(Iterations);
const Term *cuda_iterations_divisor(Iterations); /* the same after / or % */
const Term *cuda_name_iterations(const Loops *, Iterations); /* their number, by name if it has to be computed */
/* "mgpu_grid_thread()", or of a block; where a kernel has several nests, each begins with other blocks */
const Term *cuda_own_number(const Loops *, const char *what, int lanes);

/* ---- axes */
/* of the iteration with this number, those that are wanted; outermost: there is nothing beyond the first of them */
void cuda_define_axes(const Loops *, const int *axes, int count, const Term *number, bool outermost);
/* the loop from `from` to `to` in steps, and the axes; one axis counts itself */
void cuda_open_iterations(const Loops *, const int *axes, int count, const char *wish, const Term *from, const Term *to, const Term *step);

/* ---- an iteration */
void cuda_name_vectors(Loops *);
Expr **cuda_root_room(const Nest *);                 /* for the roots of anything in it */
void cuda_find_wanted(const Loops *, Expr **roots, int count, bool *used); /* what the roots need; `used`: the vectors */
void cuda_open_lanes(const Loops *);
/* what is to be done at every iteration of a pass, or of OUTER stores (-1), with the loop over lanes around it */
int cuda_online_sum(const Loops *, int maximum); /* the sum of exponentials that is computed in its pass; -1: none */
void cuda_add_iteration(const Loops *, int pass, const bool *used);
#endif
