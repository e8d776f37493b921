/* sets.h: opens data sets: those of the program, and those that `predict` reads. */
#ifndef MGPU_RUNTIME_RUN_SETS_H
#define MGPU_RUNTIME_RUN_SETS_H

#include "runtime/base/options.h"
#include "runtime/data/sets.h"

/* ---- sets.c */
/* Opens a set with the columns of the `wanted` inputs. Words get the classes of `categories`; a training set adds its words
 * there. */
void mgpu_open_set(Dataset *, const mgpu_program *, const mgpu_set *, const bool *wanted, const char *folder, Categories *);
/* Opens a table like that of a set, for predict. Its first line may have titles even if those of the data sets have none, and
 * columns of unwanted inputs may be missing. inflow: source of rows that arrive, which the set takes over; NULL: a file. */
void mgpu_open_new_table(Dataset *, const mgpu_program *, const mgpu_set *, const bool *wanted, const char *folder,
                         Inflow *inflow, Categories *);
void mgpu_check_later(const mgpu_program *, const char *name); /* exits if mgpuc could not compile this set */
_Noreturn void mgpu_fail_no_set(const mgpu_program *, const char *name, const char *where); /* where: prefix of the message */

/* ---- samples.c: the samples that `predict` reads */
typedef struct Samples Samples;
/* Finds the samples of the operands without reading them. by_rows: rows of a table on standard input may arrive (Stream.next). */
Samples *mgpu_find_samples(const mgpu_program *, const RunOptions *, const bool *wanted, bool by_rows);
/* Returns false if no output depends on an input: then there is no data set. */
bool mgpu_open_samples(Dataset *, Samples *, const mgpu_program *, const RunOptions *, const bool *wanted, Categories *);
#endif
