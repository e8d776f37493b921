/* grid.h: the table of a bench: a row for each number of devices and batch, measured and predicted. `mgpuc bench` and a program's bench have it. */
#ifndef MGPU_REPORT_GRID_H
#define MGPU_REPORT_GRID_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MGPU_ROUNDS = 3 };
typedef struct GridRow {
    bool weak;
    int devices;
    int64_t batch;              /* of all devices */
    double ms[MGPU_ROUNDS];     /* a step: medians of the rounds, ascending in the end */
    double predicted_ms;        /* 0: nothing is predicted */
    const char *from;           /* what that rests on; NULL: nothing is said */
    double score;               /* of the metric */
    int one;                    /* the row of one device that it is compared with; -1: none */
} GridRow;
typedef struct Grid {
    const char *model, *kind, *precision, *machine;
    const char *policy, *policy_label; /* policy NULL: auto; label NULL: none */
    const char *metric;         /* NULL: rows have no score */
    int64_t steps;              /* of a run */
    bool virtual;               /* GPUs that a stand-in of the driver has: their times are a model's */
    GridRow *rows; int row_count;
} Grid;
void mgpu_grid_end(Grid *);     /* all rounds are over */
double mgpu_grid_rate(const GridRow *); /* samples a second */
const char *mgpu_grid_scaling(const GridRow *);
void mgpu_grid_print(const Grid *, FILE *);
void mgpu_grid_csv(const Grid *, FILE *);
void mgpu_grid_json(const Grid *, FILE *);
#endif
