/* points.h: what the two files of a nest in CUDA C share: cuda/points.c, what a thread does at its points, and
 * cuda/nest.c, which thread takes which points. */
#ifndef MGPU_CUDA_POINTS_H
#define MGPU_CUDA_POINTS_H

#include "compiler/target/cuda/cuda.h"

typedef struct Loops {
    Printer *p;
    const Nest *nest;
    int kept[MAX_AXES], kept_count, reduced[MAX_AXES], reduced_count; /* without the lane */
    int lane;              /* the axis of the vector's lanes; -1: none */
    bool lane_kept;
    const char *type, *count_type; /* of an axis, of a number of points */
    const char *in_group;  /* how many samples the group has */
    const char *first;     /* true for the thread that stores what all have; NULL: every one does */
    const char *inside;    /* columns: false where the thread has none; NULL: all have */
    const char *row, *rows;/* columns: the thread's row of the block, and how many there are */
    const char *slice, *slices;
    const char **vector;   /* by expression: the vector that it is a lane of */
} Loops;

typedef struct Points { int64_t count; const char *times; } Points; /* times: NULL, or how many there are of `count` */

/* ---- counts of points */
Points cuda_axis_points(const Loops *, int axis);
Points cuda_all_points(const Loops *, const int *axes, int count);
const char *cuda_points_text(const Loops *, Points);
const char *cuda_points_divisor(const Loops *, Points); /* the same after / or % */
const char *cuda_name_points(const Loops *, Points); /* their number, by name if it has to be computed */
/* "mgpu_grid_thread()", or of a block; where a kernel has several nests, each begins with other blocks */
const char *cuda_own_number(const Loops *, const char *what, int lanes);

/* ---- axes */
/* of the point with this number, those that are wanted; outermost: there is nothing beyond the first of them */
void cuda_define_axes(const Loops *, const int *axes, int count, const char *number, bool outermost);
/* "for (int i = FROM; i < TO; i += STEP) {", and the axes; one axis counts itself */
void cuda_open_points(const Loops *, const int *axes, int count, const char *wish, const char *from, const char *to, const char *step);

/* ---- a point */
void cuda_name_vectors(Loops *);
Expr **cuda_root_room(const Nest *);                 /* for the roots of anything in it */
void cuda_find_wanted(const Loops *, Expr **roots, int count, bool *used); /* what the roots need; `used`: the vectors */
void cuda_open_lanes(const Loops *);
/* what is to be done at every point of a pass, or of OUTER stores (-1), with the loop over lanes around it */
void cuda_print_point(const Loops *, int pass, const bool *used);
#endif
