/* runs.h: logs of runs (`./train --log`; docs/logs.md) and their curves. runs.c parses them, curves.c makes plots and a table. */
#ifndef MGPU_REPORT_RUNS_H
#define MGPU_REPORT_RUNS_H

#include "runtime/report/plot.h"
#include "runtime/report/table.h"
#include "runtime/base/base.h"

typedef enum Over { OVER_STEPS, OVER_EPOCHS, OVER_TIME, OVERS } Over;
extern const char *const mgpu_over_name[OVERS];
typedef struct Curve {
    const char *name;      /* such as "loss", "lr", "samples_per_s", "grad_norm", "input_wait_ms", "accuracy" */
    bool valid, each_step; /* of validation; has a value for each step */
    double *over[OVERS], *value;
    int count;
} Curve;
typedef struct LoggedFile {
    double step;
    const char *name, *sha256;
} LoggedFile; /* of a save: event `checkpoint` */
typedef struct RunLog {
    const char *name; /* the file's name without folders and suffix */
    const char *file;
    Json *start; /* the last record `start`; owned by the run */
    Curve *curves;
    int curve_count;
    LoggedFile *saved;
    int saved_count;
    double steps, total_steps, seconds; /* done; planned; duration */
    const char *end;                    /* why it ended; NULL if it is running or was killed */
} RunLog;
RunLog *mgpu_run_parse(const char *file, const char *text, size_t length, Sheet *); /* exits with status 1 for other files */
RunLog *mgpu_run_read(const char *file, Sheet *);                                   /* the same for a file */
const Curve *mgpu_run_curve(const RunLog *, const char *name, bool valid);          /* NULL if there is none */
double mgpu_curve_best(const Curve *, bool *lowest); /* the lowest value of losses and errors, the highest of others */

/* ---- differences.c: prints the first step in which a number that training determines differs, the first save, and, if there
 * is one of these, the settings that differ. Returns whether there is one. Exits with status 1 if the logs have no step in
 * common. */
bool mgpu_logs_differ(RunLog *a, RunLog *b, Sheet *, FILE *);

/* ---- curves.c: compares runs. A plot for each quantity. */
typedef struct Curves {
    Plot *plots;
    int count;
} Curves;
Curves mgpu_curves_of(RunLog *const *, int count, Over, Sheet *);
void mgpu_curves_svg(const Curves *, Sheet *);                  /* an SVG document */
Table mgpu_settings_table(RunLog *const *, int count, Sheet *); /* settings that differ */
Table mgpu_runs_table(RunLog *const *, int count, Sheet *);     /* the same, and best values */
#endif
