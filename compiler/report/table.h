/* table.h: a table of texts. table.c prints it as text and as HTML. */
#ifndef MGPU_REPORT_TABLE_H
#define MGPU_REPORT_TABLE_H

#include "compiler/base/base.h"

typedef struct Table { const char ***cells; int columns, rows; } Table; /* [row][column]; the first row is the head */
void table_row(Table *, const char *first, const char *const *rest);    /* rest: columns - 1 of them */
void table_add(Table *, ...);            /* as many texts as there are columns */
void table_print(const Table *, Text *);
void table_html(const Table *, Text *);  /* numbers to the right */
#endif
