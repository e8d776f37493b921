/* lsp.h: `mgpuc lsp`, a language server (Language Server Protocol 3.17) on standard input and output.
 *
 * The server (server.c) knows messages and the texts of open documents (documents.c), nothing of the language. Whatever asks for
 * that is done in a child process, which has the texts by fork, answers through a pipe and ends: no input can stop the server,
 * what is taken back is killed, and nothing has to be freed. */
#ifndef MGPU_LSP_H
#define MGPU_LSP_H

#include "compiler/base/base.h"
#include "compiler/base/json.h"
#include "dsl/dsl.h"
#include "runtime/base/base.h"

enum { ANSWERS = 3 }; /* of a child: the file descriptor that it answers through */

/* ---- documents.c: open documents; places as the protocol has them: lines from 0, columns in UTF-16 units from 0 */
typedef struct Document {
    char *uri, *path, *text;
    size_t length;
} Document;
extern Document *documents; /* of the client's own text; malloc */
extern int document_count;
Document *document_of(const char *uri); /* NULL: it is not open */
void document_open(const char *uri, const char *text);
void document_close(const char *uri);
void document_change(Document *, const Json *changes); /* contentChanges: whole texts and ranges, one after the other */
const char *path_of_uri(const char *uri);              /* uri itself if it is of no file */
const char *uri_of_path(const char *path);
const char *uri_of_source(const Source *); /* NULL: it is in no file */
size_t offset_at(const char *text, size_t length, int line, int character);
void add_position(Text *, const Source *, int line, int column);                          /* {"line":0,"character":0} */
void add_range(Text *, const Source *, int line, int column, int to_line, int to_column); /* {"start":...,"end":...} */

/* ---- analysis.c: a document in a child process */
void write_answer(const char *text, size_t length);         /* to the server */
_Noreturn void answer_error(int code, const char *message); /* the answer is an error: ends the child */
typedef struct Analysis {
    const Source *source;
    const Tree *tree; /* with BROKEN statements */
    Tokens tokens;
    int line, column;   /* of the request, as the compiler counts; 0: it has none */
    const Token *token; /* the name or word there; NULL: none is */
} Analysis;
Analysis
analyse(const Json *params);        /* the document's text, and the place that the request names; ends the child with an error */
void know_values(const Analysis *); /* elaborates the model, for value_at */
const char *value_at(const Tree *name); /* what the name was given there, in words; NULL: nothing is known */
void diagnose(const Document *, void (*check)(const char *path)); /* lines for server.c */

/* ---- names.c: what a name means */
typedef enum NameKind { NAME_NOTHING, NAME_LOCAL, NAME_PARAM, NAME_LAYER, NAME_ARGUMENT } NameKind;
typedef struct Meaning {
    NameKind kind;
    const char *name;
    const Tree *item;       /* LOCAL: the layer, model or block that has it; ARGUMENT: the layer */
    const Tree *definition; /* where it is made: a node with that name; NULL: not in the files */
} Meaning;
typedef struct File {
    const Source *source;
    const Tree *tree;
} File;
typedef struct Files {
    File *list;
    int count;
} Files;
Files files_of(const Analysis *, bool all); /* it and what it imports; all: and other open documents with theirs */
const Tree *item_at(const Tree *file, int line, int column);
const Tree *binding_before(const Tree *item, const char *name, int line,
                           int column);         /* or the first after it; NULL: it is not of the item */
void local_names(const Tree *item, Map *names); /* name -> its first binding */
Meaning meaning_of(const Analysis *, const Files *);
const char *callee_at(const Analysis *, int *argument); /* the call whose parentheses the place is in; NULL: none */

/* ---- answers to requests, as JSON: of the member "result" */
typedef const char *Answer(const Json *params);
Answer answer_hover, answer_definition, answer_references, answer_prepare_rename, answer_rename, answer_completion,
    answer_signature, answer_symbols, answer_format;

int lsp_serve(
    void (*check)(const char *path)); /* check: as `mgpuc check` does, of the file; what is wrong goes to diagnostics_to */
#endif
