/* onnx.c: writes protocol buffers of ONNX. */
#include "runtime/base/onnx.h"
#include "runtime/base/base.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 };

int mgpu_onnx_type(uint8_t dtype)
{
    static const uint8_t TYPES[] = {
        [MGPU_F32] = 1, [MGPU_U8] = 2,   [MGPU_I8] = 3,   [MGPU_U16] = 4,  [MGPU_I16] = 5,  [MGPU_I32] = 6,
        [MGPU_I64] = 7, [MGPU_BOOL] = 9, [MGPU_F16] = 10, [MGPU_F64] = 11, [MGPU_U32] = 12, [MGPU_BF16] = 16};
    return TYPES[dtype];
}

static void varint(FILE *f, uint64_t v)
{
    for (; v > 127; v >>= 7)
        fputc((int)(v & 127) | 128, f);
    fputc((int)v, f);
}

void mgpu_onnx_head(FILE *f, int field, uint64_t length)
{
    varint(f, (uint64_t)field << 3 | LENGTH);
    varint(f, length);
}

void mgpu_onnx_number(FILE *f, int field, int64_t v)
{
    varint(f, (uint64_t)field << 3 | VARINT);
    varint(f, (uint64_t)v);
}

void mgpu_onnx_float(FILE *f, int field, float v)
{
    varint(f, (uint64_t)field << 3 | FIXED32);
    fwrite(&v, sizeof v, 1, f);
}

void mgpu_onnx_bytes(FILE *f, int field, const void *bytes, size_t length)
{
    mgpu_onnx_head(f, field, length);
    fwrite(bytes, 1, length, f);
}

void mgpu_onnx_text(FILE *f, int field, const char *text) { mgpu_onnx_bytes(f, field, text, strlen(text)); }

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

size_t mgpu_onnx_head_bytes(int field, uint64_t length) { return varint_bytes((uint64_t)field << 3) + varint_bytes(length); }

void mgpu_onnx_tensor(FILE *f, const char *name, uint8_t dtype, int rank, const int64_t *extents, uint64_t bytes)
{
    for (int i = 0; i < rank; i++)
        mgpu_onnx_number(f, 1, extents[i]);
    mgpu_onnx_number(f, 2, mgpu_onnx_type(dtype));
    mgpu_onnx_text(f, 8, name);
    mgpu_onnx_head(f, 9, bytes);
}

void mgpu_onnx_begin(OnnxMessage *m) { m->f = mgpu_begin_text(&m->data, &m->length); }

void mgpu_onnx_end(OnnxMessage *m, FILE *f, int field)
{
    mgpu_end_text(m->f);
    mgpu_onnx_bytes(f, field, m->data, m->length);
    free(m->data);
}
