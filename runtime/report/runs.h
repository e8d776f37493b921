/* runs.h: the logs of runs (`./train --log`; docs/logs.md) and their curves. runs.c reads them, curves.c makes plots and a table. */
#ifndef MGPU_REPORT_RUNS_H
#define MGPU_REPORT_RUNS_H

#include "runtime/report/plot.h"
#include "runtime/report/table.h"
#include "runtime/base/base.h"

typedef enum Over { OVER_STEPS, OVER_EPOCHS, OVER_TIME, OVERS } Over;
extern const char *const mgpu_over_name[OVERS];
typedef struct Curve {
    const char *name;           /* "loss", "lr", "samples_per_s", "grad_norm", "input_wait_ms"; "accuracy"; */
    bool valid, each_step;      /* of validation; has a value for each step, else now and then */
    double *over[OVERS], *value; int count;
} Curve;
typedef struct RunLog {
    const char *name;           /* the file's, without folders and suffix */
    const char *file;
    Json *start;                /* the last record `start`; of its own */
    Curve *curves; int curve_count;
    double steps, total_steps, seconds; /* done; wanted; that it has run */
    const char *end;            /* why it ended; NULL: it has not, or was killed */
} RunLog;
RunLog *mgpu_run_parse(const char *file, const char *text, size_t length, Sheet *); /* likewise */
RunLog *mgpu_run_read(const char *file, Sheet *);    /* exit 1 for what is no log */
const Curve *mgpu_run_curve(const RunLog *, const char *name, bool valid); /* NULL: there is none */
double mgpu_curve_best(const Curve *, bool *lowest); /* of what is better lower (losses, errors), the least, else the most */

/* ---- curves.c: of runs over each other. A plot for each number that they have */
typedef struct Curves { Plot *plots; int count; } Curves;
Curves mgpu_curves_of(RunLog *const *, int count, Over, Sheet *);
void mgpu_curves_svg(const Curves *, Sheet *);   /* a document */
Table mgpu_runs_table(RunLog *const *, int count, Sheet *); /* settings that differ, and best values */
#endif
