/* records.h: writes structures as records of a text, by the tables that are also used to read them (runtime/base/records.h). */
#ifndef MGPU_COMPILER_RECORDS_H
#define MGPU_COMPILER_RECORDS_H

#include "compiler/base/words.h"
#include "runtime/base/records.h"

void write_name(const char *, Text *);                     /* without quotes if possible */
void write_number(double, Text *);                         /* the shortest text that is read as the same number */
bool field_is_usual(const mgpu_field *, const void *base); /* false for a field without a word */
void write_value(const mgpu_field *, const void *base, Text *); /* after its word: " 12" */
/* Writes " word value" for each field. `special` writes a kind from MGPU_FIELD_KINDS on, with its word. */
typedef void WriteSpecial(const mgpu_field *, const void *base, const void *context, Text *);
void write_fields(const mgpu_record *, const void *base, WriteSpecial *special, const void *context, Text *);

/* Returns a reader that allocates in the arena and reports errors with file, line and column. */
mgpu_reader text_reader(Source *);
Place reader_place(const mgpu_reader *);
#endif
