/* export.h: what a program's `export onnx` and `export torch` write: the graph of `predict` as operations of these two.
 *
 * The graph is walked once for each (lower.c, with a table of the IR's operations). What comes out is a list of operations that
 * are named after ONNX's, most of them ONNX's own: onnx.c encodes those, torch.c prints each as a line of Python. Where PyTorch
 * has a function for what ONNX builds of several operations, the list for PyTorch has an operation of its own.
 *
 * Values have the samples as first axis if they are sharded. Elements that are the same along an axis may be there once, with an
 * extent of 1, and first axes of 1 may be missing where there are no samples: element-wise operations of both broadcast. */
#ifndef MGPU_COMPILER_EXPORT_H
#define MGPU_COMPILER_EXPORT_H

#include "compiler/ir/program.h"

enum { BATCH = -1, EXPORTED_RANK = MAX_RANK + 2 };

typedef struct ExportedTensor {
    const char *name;  /* unique in the whole graph */
    const char *label; /* what the model calls it, or NULL */
    Dtype dtype;
    int rank;
    int64_t extent[EXPORTED_RANK]; /* BATCH: the samples */
    const double *data;            /* of a constant; else NULL */
    int variable;                  /* a weight of the program; -1: none */
} ExportedTensor;

typedef struct Exported Exported;
typedef struct ExportedAttribute {
    const char *name;
    enum { ATTRIBUTE_WHOLE, ATTRIBUTE_LIST, ATTRIBUTE_NUMBER, ATTRIBUTE_TEXT, ATTRIBUTE_GRAPH } kind;
    const int64_t *list; /* WHOLE: one */
    int count;
    double number;
    const char *text;
    const Exported *graph;
} ExportedAttribute;

typedef struct ExportedOp {
    const char *kind, *name;
    const ExportedTensor *in[8]; /* NULL: left out */
    int inputs;
    const ExportedTensor *out[8];
    int outputs;
    const ExportedTensor **more; /* inputs, if there are more than 8 */
    ExportedAttribute *attributes;
    int attribute_count;
    const char *path; /* the layer */
    const Place *at;
} ExportedOp;

struct Exported {
    const Model *model;
    Dtype real; /* the model's float: F32 or F64 */
    ExportedOp **ops;
    int op_count;
    const ExportedTensor **inputs, **outputs, **constants;
    int input_count, output_count, constant_count;
    int *variables; /* that are read */
    int variable_count;
    const char *refused; /* why there is no export; NULL: there is one */
};

/* ---- lower.c: the graph of predict, full and distributed */
Exported *lower(const Graph *predict, bool torch);

/* ---- onnx.c: GraphProto, without the weights; torch.c: a module */
void write_onnx(const Exported *, Text *);
void write_torch(const Exported *, Text *);

/* ---- export.c: what the program has of it */
typedef struct ExportText {
    const char *kind, *refused; /* refused NULL: */
    const char *packed;         /* by zlib */
    size_t packed_bytes, bytes;
    int *variables;
    int variable_count;
} ExportText;
ExportText *export_texts(const Graph *predict, int *count);
#endif
