/* document.h: the entries of `mgpuc doc`: one for every name of the language, such as layers of the library and of files,
 * primitives, compile-time functions, readers, settings and words. */
#ifndef MGPU_DSL_DOCUMENT_H
#define MGPU_DSL_DOCUMENT_H

#include "compiler/base/base.h"

typedef struct Entry {
    const char *group;                    /* "Activations" */
    const char *name, *signature, *about; /* about: "" without a text; each paragraph ends with '\n' */
    const char *file;                     /* file that declares a layer; NULL for all other names */
    int line;
    const char *text; /* a layer's whole text; NULL for all other names */
    int lines;
} Entry;
typedef struct Entries {
    Entry *list;
    int count;
} Entries;

static inline void add_entry(Entries *out, const char *group, const char *name, const char *signature, const char *about)
{
    Entry e = {.group = group, .name = name, .signature = signature, .about = about};
    APPEND(out->list, out->count, e);
}

void layer_entries(const Source *, const char *group, Entries *); /* Adds the layers of this file, but not of its imports. */
const char *library_text(const char *file);     /* "stdlib/layers.net" -> its text, or NULL; the prefix "dsl/" is optional */
void library_entries(Entries *);                /* adds the library's layers by file and section */
void builtin_entries(Entries *);                /* adds all other names of the language */
void data_entries(Entries *);                   /* adds readers, stages and options (document_data.c) */
void file_entries(const char *path, Entries *); /* adds layers of a file and its imports; exits on errors */
#endif
