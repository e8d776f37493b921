/* data.h: what data.c (the data block) and readers.c (the table of readers and stages) share. */
#ifndef MGPU_DSL_DATA_H
#define MGPU_DSL_DATA_H

#include "dsl/elaborate.h"

typedef enum ArgumentKind {
    ARGUMENT_FILE,    /* a path that is not empty */
    ARGUMENT_TEXT,
    ARGUMENT_CHARACTER, /* one */
    ARGUMENT_TEXTS,   /* a string or a list of strings */
    ARGUMENT_COUNT,   /* a whole number above 0 */
    ARGUMENT_SHARE,   /* a number from 0 to 1 */
    ARGUMENT_NUMBER,
    ARGUMENT_SIZE,    /* of a picture: one number of pixels or [height, width] */
    ARGUMENT_RANGE,   /* two numbers above 0, the first not above the second */
    ARGUMENT_SWITCH,  /* true, false */
    ARGUMENT_TYPE,    /* an element type, of those in `choices` */
    ARGUMENT_CHOICE,  /* a string of those in `choices` */
    ARGUMENT_SHUFFLE, /* true, false, a number of samples */
} ArgumentKind;

typedef struct Parameter {
    const char *name;
    ArgumentKind kind;
    const char *choices; /* between blanks; NULL: none */
    const char *later;   /* choices that are not there yet */
} Parameter;

enum { MOST_PARAMETERS = 12 };
typedef enum ColumnsKind {
    COLUMNS_FIXED,    /* a reader gives those of `columns` */
    COLUMNS_PATHS,    /* arguments name them: NAME = "file" */
    COLUMNS_OF_TABLE, /* arguments name them: NAME = "column", [...] or decode(...); any other input is a column of its name */
    COLUMNS_PAIRED,   /* a stage: left, right, same */
    COLUMNS_KEPT,     /* a stage */
} ColumnsKind;
/* a reader or stage. The first `needed` parameters have to be given, by position or by name; `positions` may be by position */
typedef struct DataRow {
    const char *name;
    bool stage, later;
    ColumnsKind kind;
    const char *columns, *usage;
    bool windows;        /* of a sequence, as long as the inputs */
    int needed, positions;
    Parameter parameters[MOST_PARAMETERS];
} DataRow;
extern const DataRow DATA_ROWS[]; /* ends with a row without a name */

struct Samples {
    DataSet set;
    const DataRow *reader;
    const char *decoded; /* decode("column"): no reader, but the value of a csv's column */
    const char *later;   /* a reader, stage or option that is not there yet: the program lacks the set; NULL: none */
    int later_line;
};

const DataRow *find_row(const char *name);
/* -> the options of a call; arguments that name columns go to `columns` */
DataCall check_call(Elaborator *, const DataRow *, const Place *, Arguments, const Value *piped, DataSet *columns,
                    const char ***decoded, int *decoded_count);
_Noreturn void unknown_argument(const Elaborator *, const DataRow *, const Place *, const char *name);
#endif
