/* export.h: what a program writes for other software, shared by the files of this folder: one for each format. */
#ifndef MGPU_RUNTIME_EXPORT_H
#define MGPU_RUNTIME_EXPORT_H

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/whole_file.h"
#include "runtime/data/sets.h"
#include "runtime/weights/weights.h"

#define MGPU_FACT_BEFORE "before the graph"
typedef struct ExportFact {
    const char *key;
    char *text;
} ExportFact;
typedef struct Export {
    const mgpu_program *program;
    const RunOptions *options;
    const char *path;       /* the file or folder to write */
    Snapshot *snapshot;     /* the weights that `predict` would use */
    TensorView weights;     /* the model's weights and the variables to read for them: an average replaces its variable */
    Categories *categories; /* the words of classes */
    ExportFact *facts;
    int fact_count; /* facts that users of the model need and the graph does not contain */
} Export;

/* What the compiler has generated for a format. */
typedef struct ExportedText {
    const mgpu_exported *exported;
    char *text;
    int64_t bytes;
} ExportedText;

typedef void WriteExport(const Export *);
WriteExport mgpu_export_safetensors, mgpu_export_onnx, mgpu_export_torch, mgpu_export_hf, mgpu_export_gguf;
#define ANY_MODEL "`export onnx` and `export torch` write any model" /* ends messages of hf and gguf */
struct mgpu_family_exports {                                         /* member of mgpu_program */
    WriteExport *hf, *gguf;
};

/* Weight i of the view, with its declared axes. */
const mgpu_tensor *mgpu_exported_tensor(const Export *, int i);
void mgpu_read_exported(const Export *, int i, mgpu_range elements, void *to);
int mgpu_exported_place(const Export *, int variable);             /* index in the view */
ExportedText mgpu_exported_text(const Export *, const char *kind); /* exits if there is none; the caller frees the text */
void mgpu_say_facts(const Export *);
/* A file that is written atomically; failures end the program. `what` describes it. */
WholeFile mgpu_begin_export(const char *path);
void mgpu_end_export(WholeFile *, const char *path, const char *what);
#endif
