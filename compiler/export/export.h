/* export.h: exports the graph of `predict` to ONNX and PyTorch, for a program's `export onnx` and `export torch`.
 *
 * lower.c lowers the graph once for each format, by a table of the IR's operations. The result is a list of operations that are
 * named after ONNX's, and most of them are ONNX's: onnx.c encodes those, torch.c prints each as a line of Python. Where PyTorch
 * has a function for what takes several operations of ONNX, the list for PyTorch has an operation for it.
 *
 * The first axis of a value with samples is the samples. A value may be stored unbroadcast: with extent 1 along an axis with
 * equal elements, and, if it has no samples, without leading axes of extent 1. Element-wise operations of both formats broadcast
 * it. */
#ifndef MGPU_COMPILER_EXPORT_H
#define MGPU_COMPILER_EXPORT_H

#include "compiler/ir/program.h"

enum { BATCH = -1, EXPORTED_RANK = MAX_RANK + 2 };

typedef struct ExportedTensor {
    const char *name;  /* unique in the whole graph */
    const char *label; /* the model's name for it, or NULL */
    Dtype dtype;
    int rank;
    int64_t extent[EXPORTED_RANK]; /* BATCH: the number of samples */
    const double *data;            /* of a constant, else NULL */
    int variable;                  /* index of the weight; -1 if it is none */
} ExportedTensor;

typedef struct Exported Exported;
typedef struct ExportedAttribute {
    const char *name;
    enum { ATTRIBUTE_WHOLE, ATTRIBUTE_LIST, ATTRIBUTE_NUMBER, ATTRIBUTE_TEXT, ATTRIBUTE_GRAPH } kind;
    const int64_t *list; /* WHOLE: one element */
    int count;
    double number;
    const char *text;
    const Exported *graph;
} ExportedAttribute;

typedef struct ExportedOp {
    const char *kind, *name;
    const ExportedTensor *in[8]; /* NULL: omitted */
    int inputs;
    const ExportedTensor *out[8];
    int outputs;
    const ExportedTensor **more; /* the inputs if there are more than 8 */
    ExportedAttribute *attributes;
    int attribute_count;
    const char *path; /* path of the layer */
    const Place *at;
} ExportedOp;

struct Exported {
    const Model *model;
    Dtype real; /* the model's float type: F32 or F64 */
    ExportedOp **ops;
    int op_count;
    const ExportedTensor **inputs, **outputs, **constants;
    int input_count, output_count, constant_count;
    int *variables; /* variables that operations read */
    int variable_count;
    const char *refused; /* why the graph cannot be exported, or NULL */
};

/* ---- lower.c: lowers the graph of predict after `distribute`, specialised to full batches */
Exported *lower(const Graph *predict, bool torch);

/* ---- onnx.c: writes a GraphProto without the weights; torch.c: writes a Python module */
void write_onnx(const Exported *, Text *);
void write_torch(const Exported *, Text *);

/* ---- export.c: the exports that a program contains */
typedef struct ExportText {
    const char *kind, *refused; /* refused: why there is none, or NULL */
    const char *packed;         /* compressed by zlib */
    size_t packed_bytes, bytes;
    int *variables;
    int variable_count;
} ExportText;
ExportText *export_texts(const Graph *predict, int *count);
#endif
