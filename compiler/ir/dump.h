/* dump.h: what the printer and the reader of graphs share: words, tables of records, and the characters of a dump. docs/dumps.md
 * has the syntax. */
#ifndef MGPU_DUMP_H
#define MGPU_DUMP_H

#include "compiler/base/records.h"
#include "compiler/ir/graph.h"

/* ---- words of nodes and results (ir/print.c) */
typedef enum Steps { STEPS_ANY, STEPS_FULL, STEPS_PARTIAL } Steps;
extern const char *const ROLE_NAME[ROLES], *const RUN_NAME[RUN_SCALARS], *const STEPS_NAME[STEPS_PARTIAL + 1];
bool role_has_index(Role);
enum { MOST_IN_A_LINE = 8 }; /* numbers of a constant in one line */
/* the attributes of an operation, in the order of its row in ops.def */
typedef enum FormKind { FORM_INDEX, FORM_RUN, FORM_TYPE, FORM_TEXT, FORM_LIST, FORM_NUMBERS, FORMS } FormKind;
typedef struct Form {
    FormKind kind;
    int count; /* -1: any */
    bool optional;
} Form;
bool next_form(const char **row, Form *); /* false: there are no more */

/* ---- characters and words (dump_words.c). Writing: */
void write_word(const char *, Text *);                  /* without quotes if possible */
void write_place(const Model *, const Place *, Text *); /* " line 12:5" ...; nothing if there is no place */

/* Reading: the context of the reader, with what is known so far */
typedef struct DumpState {
    Source *source;
    Model *model;
    Map places, sources; /* by their text; by their file */
    Map numbers;         /* of long constants, by their hash */
} DumpState;
static inline DumpState *dump_state(const mgpu_reader *d) { return d->context; }
typedef struct Numbers {
    double *data;
    int64_t count;
} Numbers;
Shape read_shape(mgpu_reader *);
int64_t *read_list(mgpu_reader *, const char *what, int *count); /* [1, 2] */
Numbers read_numbers(mgpu_reader *);                             /* {1, 2.5}: what is between the braces */
const Place *read_place(mgpu_reader *);                          /* reads the text of write_place */

/* ---- whole dumps: "mgpu-graph 1 STAGE", the model, graphs, long constants */
typedef struct DumpedGraph {
    Graph *graph;
    Steps steps;
} DumpedGraph;
void dump_write(const char *stage, const Model *, const DumpedGraph *, int count, Text *); /* ir/print.c */
/* ir/read.c: Reads a dump; error_at reports errors. stage: the stage that must have made it; NULL: any, which is returned. names:
 * of graphs. Returns the graphs in the order of the file. */
DumpedGraph *dump_read(const char *file, const char *text, size_t length, const char **stage, const char *const *names,
                       int name_count, Model **, int *count);

/* ---- the model before the graphs (dump_model.c) */
void model_write(const Model *, Text *);
Model *model_read(mgpu_reader *);
#endif
