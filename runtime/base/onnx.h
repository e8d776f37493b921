/* onnx.h: writes protocol buffers of ONNX: mgpuc writes the graph, its programs the model with weights (onnx/onnx.proto, IR
 * version 8; wire format: protobuf.dev/programming-guides/encoding). */
#ifndef MGPU_BASE_ONNX_H
#define MGPU_BASE_ONNX_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MGPU_ONNX_IR = 8, MGPU_ONNX_OPSET = 18 };
int mgpu_onnx_type(uint8_t dtype);                       /* TensorProto.DataType of MGPU_F32, ... */
void mgpu_onnx_head(FILE *, int field, uint64_t length); /* the head of a message or of bytes that follow */
void mgpu_onnx_number(FILE *, int field, int64_t);
void mgpu_onnx_float(FILE *, int field, float);
void mgpu_onnx_bytes(FILE *, int field, const void *, size_t);
void mgpu_onnx_text(FILE *, int field, const char *);
size_t mgpu_onnx_head_bytes(int field, uint64_t length);
/* Writes a TensorProto up to its data, which the caller writes next, raw and little-endian. */
void mgpu_onnx_tensor(FILE *, const char *name, uint8_t dtype, int rank, const int64_t *extents, uint64_t bytes);
/* A message in memory: what is written between begin and end becomes a field of f. */
typedef struct OnnxMessage {
    FILE *f;
    char *data;
    size_t length;
} OnnxMessage;
void mgpu_onnx_begin(OnnxMessage *);
void mgpu_onnx_end(OnnxMessage *, FILE *, int field);
#endif
