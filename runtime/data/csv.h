/* csv.h: tables of text, for the files of the reader csv: csv_lines.c splits text into rows of fields, csv_titles.c finds which
 * fields are columns, csv.c converts them. */
#ifndef MGPU_RUNTIME_DATA_CSV_H
#define MGPU_RUNTIME_DATA_CSV_H

#include "runtime/base/base.h"
#include "runtime/data/data.h"

typedef struct Field {
    const char *text;
    size_t length;
} Field;

typedef struct Parser {
    const char *where, *path; /* before messages */
    const char *at, *end;
    Inflow *inflow; /* that the text arrives by; NULL: all of it is there */
    bool more;      /* text that has not arrived yet may follow */
    char awaited;   /* a row that is not whole has to have this yet: a line end, or a quote */
    char **complaint; /* as mgpu_complain has it, of a row that cannot be read */
    char delimiter;
    const char *strip;
    mgpu_option missing; /* texts */
    bool skip;              /* bad rows */
    int64_t line;           /* of `at` */
    const char *row;        /* where the last row begins, */
    int64_t row_line;       /* and in which line */
    Field *fields;
    int field_count, field_room;
    int expected; /* fields of a row; 0: not known */
    char *text;
    size_t text_length, text_room; /* unquoted fields of the row, one after the other */
    bool bad;                      /* the row */
    int64_t bad_rows;
    char first_bad[400];
} Parser;

/* ---- csv_lines.c */
/* The next line with text -> fields, which stay until the next call. wait: until it has arrived. false: there is none (yet), or it is the
 * subject of a complaint */
bool mgpu_csv_read_row(Parser *, bool wait);
void mgpu_csv_bad_row(Parser *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_csv_add_field(Parser *, const char *text, size_t length);
bool mgpu_csv_is_missing(const Parser *, const Field *);
Field mgpu_csv_without_blanks(const Field *);
bool mgpu_csv_read_number(const char *text, size_t length, uint8_t dtype, double *v);

/* ---- csv_titles.c: the titles are the fields of the row that was read last */
/* of the option `names`, or of the first line, which is passed */
void mgpu_csv_read_titles(Parser *, const Opening *);
int mgpu_csv_find_title(const Parser *, const char *name); /* fails if there is none */
/* x_0, x_1, ... of a vector x, for which the data block names no columns; NULL: it is no such. The caller frees */
char **mgpu_csv_made_titles(const Parser *, const Opening *, const mgpu_column *, const mgpu_input *, int *width);
bool mgpu_csv_is_decoded(const mgpu_set *, const char *column); /* by the stage decode */
#endif
