/* table.h: a table of texts, printed by table.c as text or HTML. */
#ifndef MGPU_REPORT_TABLE_H
#define MGPU_REPORT_TABLE_H

#include "runtime/report/sheet.h"

typedef struct Table {
    const char ***cells;
    int columns, rows;
} Table; /* [row][column]; the first row is the header */
void mgpu_table_row(Sheet *, Table *, const char *first, const char *const *rest); /* rest: the other columns */
void mgpu_table_add(Sheet *, Table *, ...);                                        /* one text for each column */
void mgpu_table_print(const Table *, Sheet *);
void mgpu_table_html(const Table *, Sheet *); /* aligns numbers right */
#endif
