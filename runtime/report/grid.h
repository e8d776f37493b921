/* grid.h: the table of a bench, of `mgpuc` or a program: measured and predicted times of each number of devices and batch. */
#ifndef MGPU_REPORT_GRID_H
#define MGPU_REPORT_GRID_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MGPU_ROUNDS = 3 };
typedef struct GridRow {
    bool weak;
    int devices;
    int64_t batch;          /* batch of all devices together */
    double ms[MGPU_ROUNDS]; /* times of a step: the median of each round; sorted by mgpu_grid_end */
    double predicted_ms;    /* 0 if there is no prediction */
    const char *from;       /* source of the prediction, or NULL */
    double score;           /* the metric's value */
    int one;                /* index of the row with one device to compare with; -1 if there is none */
} GridRow;
typedef struct Grid {
    const char *model, *kind, *precision, *machine;
    const char *policy, *policy_label; /* policy NULL: auto; label may be NULL */
    const char *metric;                /* NULL if rows have no score */
    int64_t steps;                     /* per run */
    bool virtual;                      /* GPUs of a virtual driver, whose times are modelled */
    GridRow *rows;
    int row_count;
} Grid;
void mgpu_grid_end(Grid *);             /* call after the last round */
double mgpu_grid_rate(const GridRow *); /* samples per second */
const char *mgpu_grid_scaling(const GridRow *);
void mgpu_grid_print(const Grid *, FILE *);
void mgpu_grid_csv(const Grid *, FILE *);
void mgpu_grid_json(const Grid *, FILE *);
#endif
