/* csv.h: shared by the files of the reader csv: csv_lines.c splits text into rows of fields, csv_titles.c assigns fields to
 * columns, and csv.c converts them. */
#ifndef MGPU_RUNTIME_DATA_CSV_H
#define MGPU_RUNTIME_DATA_CSV_H

#include "runtime/base/base.h"
#include "runtime/data/data.h"

typedef struct Field {
    const char *text;
    size_t length;
} Field;

typedef struct Parser {
    const char *where, *path; /* prefixes of messages */
    const char *at, *end;
    Inflow *inflow;   /* source of the text; NULL if `at` to `end` is all of it */
    bool more;        /* text that has not been read yet may follow */
    char awaited;     /* an incomplete row needs this character: a line end or a quote */
    char **complaint; /* receives what is wrong with a row; see mgpu_complain */
    char delimiter;
    const char *strip;
    mgpu_option missing; /* texts that mean a missing value */
    bool skip;           /* skip bad rows */
    int64_t line;        /* line number of `at` */
    const char *row;     /* start of the last row */
    int64_t row_line;    /* line number of that row */
    Field *fields;
    int field_count;
    int expected; /* number of fields in each row; 0 if not known yet */
    char *text;
    size_t text_length, text_capacity; /* unquoted fields of the row, one after the other */
    bool bad;                          /* the row is bad */
    int64_t bad_rows;
    char first_bad[400];
} Parser;

/* ---- csv_lines.c */
/* Reads the next line that is not empty. Its fields are valid until the next call. With `wait`, waits for it. Returns false if
 * there is none (yet), or after a complaint. */
bool mgpu_csv_read_row(Parser *, bool wait);
void mgpu_csv_bad_row(Parser *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_csv_add_field(Parser *, const char *text, size_t length);
bool mgpu_csv_is_missing(const Parser *, const Field *);
Field mgpu_csv_without_blanks(const Field *);
bool mgpu_csv_read_number(const char *text, size_t length, uint8_t dtype, double *v);

/* ---- csv_titles.c: the titles are the fields of the last row */
/* Takes the titles from the option `names`, or from the first line, which is skipped. */
void mgpu_csv_read_titles(Parser *, const Opening *);
int mgpu_csv_find_title(const Parser *, const char *name); /* exits if there is none */
/* Returns the titles x_0, x_1, ... of a vector x if the data block names no columns for it, else NULL. The caller frees. */
char **mgpu_csv_made_titles(const Parser *, const Opening *, const mgpu_column *, const mgpu_input *, int *width);
bool mgpu_csv_is_decoded(const mgpu_set *, const char *column); /* true if the stage decode reads it */
#endif
