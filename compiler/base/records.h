/* records.h: writes structures as records of a text, by the tables that are also used to read them (runtime/base/records.h). */
#ifndef MGPU_COMPILER_RECORDS_H
#define MGPU_COMPILER_RECORDS_H

#include "compiler/base/words.h"
#include "runtime/base/records.h"

void write_name(const char *, Text *);                          /* without quotes if possible */
void write_number(double, Text *);                              /* the shortest text that is read as the same number */
void write_value(const mgpu_field *, const void *base, Text *); /* after its word: " 12" */

/* Returns a reader that allocates in the arena and reports errors with file, line and column. */
mgpu_reader text_reader(Source *);
Place reader_place(const mgpu_reader *);
#endif
