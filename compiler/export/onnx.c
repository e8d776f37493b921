/* onnx.c: encodes the exported graph as an ONNX GraphProto without the weights, which the program adds. */
#include "compiler/export/export.h"
#include "runtime/base/base.h"
#include "runtime/base/onnx.h"

#include <stdlib.h>
#include <string.h>

/* field numbers of onnx/onnx.proto */
enum {
    NODE_INPUT = 1,
    NODE_OUTPUT,
    NODE_NAME,
    NODE_KIND,
    NODE_ATTRIBUTE,
    NODE_DOC,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_STRING,
    ATTRIBUTE_BODY = 6,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20
};

/* The enums of element types of compiler and runtime have the same order. */
static uint8_t type_of(Dtype t) { return (uint8_t)t; }

static void write_attribute(const ExportedAttribute *a, FILE *f);
static void write_graph(const Exported *g, const char *name, FILE *f);

static void write_op(const ExportedOp *op, FILE *graph)
{
    OnnxMessage m;
    mgpu_onnx_begin(&m);
    for (int i = 0; i < op->inputs; i++) {
        const ExportedTensor *in = op->more ? op->more[i] : op->in[i];
        mgpu_onnx_text(m.f, NODE_INPUT, in ? in->name : "");
    }
    for (int i = 0; i < op->outputs; i++)
        mgpu_onnx_text(m.f, NODE_OUTPUT, op->out[i]->name);
    mgpu_onnx_text(m.f, NODE_NAME, op->name);
    mgpu_onnx_text(m.f, NODE_KIND, op->kind);
    for (int i = 0; i < op->attribute_count; i++)
        if (strcmp(op->attributes[i].name, "steps") != 0) /* ONNX's Scan infers the number of steps */
            write_attribute(&op->attributes[i], m.f);
    const Place *at = users_place(op->at);
    if (at)
        mgpu_onnx_text(m.f, NODE_DOC, format("%s:%d", at->source->file, at->line));
    mgpu_onnx_end(&m, graph, GRAPH_NODE);
}

static void write_attribute(const ExportedAttribute *a, FILE *node)
{
    enum { FLOAT = 1, INT = 2, STRING = 3, GRAPH = 5, INTS = 7 };
    OnnxMessage m;
    mgpu_onnx_begin(&m);
    mgpu_onnx_text(m.f, ATTRIBUTE_NAME, a->name);
    switch (a->kind) {
    case ATTRIBUTE_WHOLE:
        mgpu_onnx_number(m.f, ATTRIBUTE_INT,
                         strcmp(a->name, "to") == 0 ? mgpu_onnx_type(type_of((Dtype)a->list[0])) : a->list[0]);
        mgpu_onnx_number(m.f, ATTRIBUTE_TYPE, INT);
        break;
    case ATTRIBUTE_LIST:
        for (int i = 0; i < a->count; i++)
            mgpu_onnx_number(m.f, ATTRIBUTE_INTS, a->list[i]);
        mgpu_onnx_number(m.f, ATTRIBUTE_TYPE, INTS);
        break;
    case ATTRIBUTE_NUMBER:
        mgpu_onnx_float(m.f, ATTRIBUTE_FLOAT, (float)a->number);
        mgpu_onnx_number(m.f, ATTRIBUTE_TYPE, FLOAT);
        break;
    case ATTRIBUTE_TEXT:
        mgpu_onnx_text(m.f, ATTRIBUTE_STRING, a->text);
        mgpu_onnx_number(m.f, ATTRIBUTE_TYPE, STRING);
        break;
    case ATTRIBUTE_GRAPH: {
        OnnxMessage body;
        mgpu_onnx_begin(&body);
        write_graph(a->graph, "body", body.f);
        mgpu_onnx_end(&body, m.f, ATTRIBUTE_BODY);
        mgpu_onnx_number(m.f, ATTRIBUTE_TYPE, GRAPH);
    }
    }
    mgpu_onnx_end(&m, node, NODE_ATTRIBUTE);
}

static void write_constant(const ExportedTensor *c, FILE *graph)
{
    OnnxMessage m;
    uint64_t count = 1;
    for (int i = 0; i < c->rank; i++)
        count *= (uint64_t)c->extent[i];
    mgpu_onnx_begin(&m);
    mgpu_onnx_tensor(m.f, c->name, type_of(c->dtype), c->rank, c->extent, count * (uint64_t)dtype_bytes(c->dtype));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        mgpu_convert(&bytes, type_of(c->dtype), &c->data[i], MGPU_F64, 1);
        fwrite(&bytes, (size_t)dtype_bytes(c->dtype), 1, m.f);
    }
    mgpu_onnx_end(&m, graph, GRAPH_INITIALIZER);
}

/* Writes a ValueInfoProto: name and tensor type. */
static void write_value(const ExportedTensor *v, FILE *graph, int field)
{
    OnnxMessage m, type, tensor, shape, axis;
    mgpu_onnx_begin(&m);
    mgpu_onnx_text(m.f, 1, v->name);
    mgpu_onnx_begin(&type);
    mgpu_onnx_begin(&tensor);
    mgpu_onnx_number(tensor.f, 1, mgpu_onnx_type(type_of(v->dtype)));
    mgpu_onnx_begin(&shape);
    for (int i = 0; i < v->rank; i++) {
        mgpu_onnx_begin(&axis);
        if (v->extent[i] == BATCH)
            mgpu_onnx_text(axis.f, 2, "batch");
        else
            mgpu_onnx_number(axis.f, 1, v->extent[i]);
        mgpu_onnx_end(&axis, shape.f, 1);
    }
    mgpu_onnx_end(&shape, tensor.f, 2);
    mgpu_onnx_end(&tensor, type.f, 1);
    mgpu_onnx_end(&type, m.f, 2);
    mgpu_onnx_end(&m, graph, field);
}

static void write_graph(const Exported *g, const char *name, FILE *f)
{
    for (int i = 0; i < g->op_count; i++)
        write_op(g->ops[i], f);
    mgpu_onnx_text(f, GRAPH_NAME, name);
    for (int i = 0; i < g->constant_count; i++)
        write_constant(g->constants[i], f);
    for (int i = 0; i < g->input_count; i++)
        write_value(g->inputs[i], f, GRAPH_INPUT);
    for (int i = 0; i < g->output_count; i++)
        write_value(g->outputs[i], f, GRAPH_OUTPUT);
}

void write_onnx(const Exported *g, Text *t)
{
    OnnxMessage m;
    mgpu_onnx_begin(&m);
    write_graph(g, g->model->name, m.f);
    mgpu_end_text(m.f);
    text_bytes(t, m.data, m.length);
    free(m.data);
}
