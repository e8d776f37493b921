/* runs.h: the logs of runs (`./train --log`; docs/logs.md) and their curves. runs.c reads them, curves.c makes plots and a table. */
#ifndef MGPU_REPORT_RUNS_H
#define MGPU_REPORT_RUNS_H

#include "compiler/report/plot.h"
#include "compiler/report/table.h"
#include "runtime/base/base.h"

typedef enum Over { OVER_STEPS, OVER_EPOCHS, OVER_TIME, OVERS } Over;
extern const char *const OVER_NAME[OVERS];
typedef struct Curve {
    const char *name;           /* "loss", "lr", "samples_per_s", "grad_norm", "input_wait_ms"; "accuracy"; */
    bool valid, each_step;      /* of validation; has a value for each step, else now and then */
    double *over[OVERS], *value; int count;
} Curve;
typedef struct RunLog {
    const char *name;           /* the file's, without folders and suffix */
    const char *file;
    const Json *start;          /* the last record `start` */
    Curve *curves; int curve_count;
    double steps, total_steps, seconds; /* done; wanted; that it has run */
    const char *end;            /* why it ended; NULL: it has not, or was killed */
} RunLog;
RunLog *run_read(const char *file);    /* exit 1 for what is no log */
const Curve *run_curve(const RunLog *, const char *name, bool valid); /* NULL: there is none */
double curve_best(const Curve *, bool *lowest); /* of what is better lower (losses, errors), the least, else the most */

/* ---- curves.c: of runs over each other. A plot for each number that they have */
typedef struct Curves { Plot *plots; int count; } Curves;
Curves curves_of(RunLog *const *, int count, Over);
void curves_svg(const Curves *, Text *);   /* a document */
Table runs_table(RunLog *const *, int count); /* settings that differ, and best values */
#endif
