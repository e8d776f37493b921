/* table.h: a table of texts. table.c prints it as text and as HTML. */
#ifndef MGPU_REPORT_TABLE_H
#define MGPU_REPORT_TABLE_H

#include "runtime/report/sheet.h"

typedef struct Table { const char ***cells; int columns, rows; } Table; /* [row][column]; the first row is the head */
void mgpu_table_row(Sheet *, Table *, const char *first, const char *const *rest);    /* rest: columns - 1 of them */
void mgpu_table_add(Sheet *, Table *, ...);            /* as many texts as there are columns */
void mgpu_table_print(const Table *, Sheet *);
void mgpu_table_html(const Table *, Sheet *);  /* numbers to the right */
#endif
