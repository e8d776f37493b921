/* sets.h: opening data sets: those of the program, and what `predict` reads. */
#ifndef MGPU_RUNTIME_RUN_SETS_H
#define MGPU_RUNTIME_RUN_SETS_H

#include "runtime/base/options.h"
#include "runtime/data/sets.h"

/* ---- sets.c */
/* The columns of the inputs that `wanted` names. Words get the classes that `categories` knows; of a set that trains
 * they are added there. */
void mgpu_open_set(Dataset *, const mgpu_program *, const mgpu_set *, const bool *wanted, const char *folder, Categories *);
/* A table like that of a set, for predict. Titles may be in its first line where those of the data sets have none, and columns that
 * are not wanted may be missing. inflow: by which its rows arrive, which becomes the set's; NULL: it is a file */
void mgpu_open_new_table(Dataset *, const mgpu_program *, const mgpu_set *, const bool *wanted, const char *folder, Inflow *inflow,
                         Categories *);
void mgpu_check_later(const mgpu_program *, const char *name); /* ends the program if mgpuc could not make this set */
_Noreturn void mgpu_fail_no_set(const mgpu_program *, const char *name, const char *where); /* where: before the message */

/* ---- samples.c: what `predict` reads */
typedef struct Samples Samples;
/* Of the operands, without reading them. by_rows: rows of a table of standard input may be taken as they arrive (Stream's next) */
Samples *mgpu_find_samples(const mgpu_program *, const Options *, const bool *wanted, bool by_rows);
/* false: no output depends on an input, so there is no data set */
bool mgpu_open_samples(Dataset *, Samples *, const mgpu_program *, const Options *, const bool *wanted, Categories *);
#endif
