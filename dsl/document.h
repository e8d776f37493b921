/* document.h: what there is to say of every name of the language: layers of the library and of files, primitives, functions
 * of compile time, readers, settings, words. */
#ifndef MGPU_DSL_DOCUMENT_H
#define MGPU_DSL_DOCUMENT_H

#include "compiler/base/base.h"

typedef struct Entry {
    const char *group;      /* "Activations" */
    const char *name, *signature, *about; /* about: "" if nothing is said; paragraphs end with line ends */
    const char *file;       /* of a layer; NULL: not written in the language */
    int line;
    const char *text;       /* a layer's whole text; NULL likewise */
    int lines;
} Entry;
typedef struct Entries { Entry *list; int count; } Entries;

static inline void add_entry(Entries *out, const char *group, const char *name, const char *signature, const char *about)
{
    Entry e = {.group = group, .name = name, .signature = signature, .about = about};
    APPEND(out->list, out->count, e);
}

void layer_entries(const Source *, const char *group, Entries *); /* of this file alone */
const char *library_text(const char *file);     /* "stdlib/layers.net", with or without "dsl/" before it; NULL: it is no file of the library */
void library_entries(Entries *);                /* layers, by file and section */
void builtin_entries(Entries *);                /* all else */
void data_entries(Entries *);                   /* of these: readers, stages and their options. document_data.c */
void file_entries(const char *path, Entries *); /* layers of a file and of what it imports; a mistake ends the run */
#endif
