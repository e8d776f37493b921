/* compare_runs.h: `compare`, which mgpuc has, too. */
#ifndef MGPU_RUN_COMPARE_RUNS_H
#define MGPU_RUN_COMPARE_RUNS_H

/* Compares two logs, or two folders of saves; prints what differs first. Returns the exit status: 0: equal, 1: they differ. Ends the
 * program with status 2 if they cannot be compared. */
int mgpu_compare_runs(const char *a, const char *b);
#endif
