/* lsp.h: `mgpuc lsp`, a language server (Language Server Protocol 3.17) on standard input and output.
 *
 * The server process (server.c) handles only messages and the texts of open documents (documents.c). Each request and each
 * analysis runs in a forked child process, which inherits the texts, answers through a pipe and exits. So no input can crash the
 * server, a cancelled request is killed, and children need not free memory. */
#ifndef MGPU_LSP_H
#define MGPU_LSP_H

#include "compiler/base/base.h"
#include "compiler/base/json.h"
#include "dsl/dsl.h"
#include "runtime/base/base.h"

enum { ANSWERS = 3 }; /* the file descriptor through which a child process answers */

/* ---- documents.c: open documents; positions as in the protocol: lines from 0, columns in UTF-16 units from 0 */
typedef struct Document {
    char *uri, *path, *text;
    size_t length;
} Document;
extern Document *documents; /* copies in malloc memory of the texts that the client sent */
extern int document_count;
Document *document_of(const char *uri); /* Returns NULL if the document is not open. */
void document_open(const char *uri, const char *text);
void document_close(const char *uri);
void document_change(Document *, const Json *changes); /* contentChanges: whole texts and ranges, applied in order */
const char *path_of_uri(const char *uri);              /* Returns the URI itself if it names no file. */
const char *uri_of_path(const char *path);
const char *uri_of_source(const Source *); /* Returns NULL if the source is in no file. */
size_t offset_at(const char *text, size_t length, int line, int character);
void add_position(Text *, const Source *, int line, int column);                          /* Appends {"line":0,"character":0}. */
void add_range(Text *, const Source *, int line, int column, int to_line, int to_column); /* Appends {"start":...,"end":...}. */

/* ---- analysis.c: analyses a document, in a child process */
void write_answer(const char *text, size_t length);         /* Writes to the server. */
_Noreturn void answer_error(int code, const char *message); /* Answers with an error and ends the child process. */
typedef struct Analysis {
    const Source *source;
    const Tree *tree; /* may contain statements of kind TREE_BROKEN */
    Tokens tokens;
    int line, column;   /* position of the request, as the compiler counts; 0 if there is none */
    const Token *token; /* the name or word at the position, or NULL */
} Analysis;
Analysis
analyse(const Json *params);        /* Parses the request's document and finds its position; ends the child process on errors. */
void know_values(const Analysis *); /* Elaborates the model, for value_at(). */
const char *value_at(const Tree *name); /* Describes what the name was bound to there, or returns NULL. */
void diagnose(const Document *, void (*check)(const char *path)); /* Writes the lines that server.c reads. */

/* ---- names.c: resolves names */
typedef enum NameKind { NAME_NOTHING, NAME_LOCAL, NAME_PARAM, NAME_LAYER, NAME_ARGUMENT } NameKind;
typedef struct Meaning {
    NameKind kind;
    const char *name;
    const Tree *item;       /* LOCAL: the layer, model or block with the name; ARGUMENT: the layer called */
    const Tree *definition; /* the node that defines the name; NULL: no file does */
} Meaning;
typedef struct File {
    const Source *source;
    const Tree *tree;
} File;
typedef struct Files {
    File *list;
    int count;
} Files;
Files files_of(const Analysis *, bool all); /* Returns the file and its imports; all: and open documents with theirs */
const Tree *item_at(const Tree *file, int line, int column);
const Tree *binding_before(const Tree *item, const char *name, int line,
                           int column); /* Returns the last binding before the position, else the first after it, or NULL. */
void local_names(const Tree *item, Map *names); /* Maps each name to its first binding. */
Meaning meaning_of(const Analysis *, const Files *);
const char *callee_at(const Analysis *, int *argument); /* Returns the innermost call around the position, or NULL. */

/* ---- answers to requests: the JSON of the member "result" */
typedef const char *Answer(const Json *params);
Answer answer_hover, answer_definition, answer_references, answer_prepare_rename, answer_rename, answer_completion,
    answer_signature, answer_symbols, answer_format;

int lsp_serve(void (*check)(const char *path)); /* check(path) does what `mgpuc check` does and reports to diagnostics_to(). */
#endif
