/* data.h: shared by data.c (the data block) and readers.c (the table of readers and stages). */
#ifndef MGPU_DSL_DATA_H
#define MGPU_DSL_DATA_H

#include "dsl/elaborate.h"

typedef enum ArgumentKind {
    ARGUMENT_FILE, /* a path, not empty */
    ARGUMENT_TEXT,
    ARGUMENT_CHARACTER, /* a string of one character */
    ARGUMENT_TEXTS,     /* a string or a list of strings */
    ARGUMENT_COUNT,     /* a whole number above 0 */
    ARGUMENT_SHARE,     /* a number from 0 to 1 */
    ARGUMENT_NUMBER,
    ARGUMENT_SIZE,    /* size of a picture: number of pixels of both sides, or [height, width] */
    ARGUMENT_RANGE,   /* two numbers above 0 in ascending order */
    ARGUMENT_SWITCH,  /* true or false */
    ARGUMENT_TYPE,    /* an element type listed in `choices` */
    ARGUMENT_CHOICE,  /* a string listed in `choices` */
    ARGUMENT_SHUFFLE, /* true, false or a number of samples */
} ArgumentKind;

typedef struct Parameter {
    const char *name;
    ArgumentKind kind;
    const char *choices; /* separated by blanks; NULL if there are none */
    const char *later;   /* choices that are not implemented yet */
} Parameter;

enum { MOST_PARAMETERS = 12 };
typedef enum ColumnsKind {
    COLUMNS_FIXED, /* the reader provides the columns in `columns` */
    COLUMNS_PATHS, /* arguments name the columns: NAME = "file" */
    /* arguments name them: NAME = "column", [...] or decode(...); other inputs read the column of their name */
    COLUMNS_OF_TABLE,
    COLUMNS_PAIRED, /* a stage that provides left, right and same */
    COLUMNS_KEPT,   /* a stage that keeps the columns */
} ColumnsKind;
/* A reader or stage. The first `needed` parameters are required. The first `positions` parameters may be given by position. */
typedef struct DataRow {
    const char *name;
    bool stage, later;
    ColumnsKind kind;
    const char *columns, *usage;
    bool windows; /* reads windows of a sequence, as long as the inputs */
    int needed, positions;
    Parameter parameters[MOST_PARAMETERS];
} DataRow;
extern const DataRow DATA_ROWS[]; /* the last row has no name */

struct Samples {
    DataSet set;
    const DataRow *reader;
    const char *decoded; /* the column of a decode("column") value, which is no reader; else NULL */
    const char *later;   /* what the set needs that is not implemented yet: the program lacks the set; else NULL */
    int later_line;
};

const DataRow *find_row(const char *name);
/* Checks a call's arguments and returns its options. Arguments that name columns go to `columns`. */
DataCall check_call(Elaborator *, const DataRow *, const Place *, Arguments, const Value *piped, DataSet *columns,
                    const char ***decoded, int *decoded_count);
_Noreturn void unknown_argument(const Elaborator *, const DataRow *, const Place *, const char *name);
#endif
