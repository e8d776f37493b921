/* onnx.c: `export onnx FILE`: writes the graph that the compiler has generated, with the weights: in the file, or, since protocol
 * buffers are limited to 2 GB, in FILE.data next to it. */
#include "runtime/base/onnx.h"
#include "runtime/data/data.h"
#include "runtime/export/export.h"

#include <stdlib.h>
#include <string.h>

/* Field numbers of onnx/onnx.proto. */
enum {
    MODEL_IR = 1,
    MODEL_PRODUCER,
    MODEL_VERSION,
    MODEL_DOC = 6,
    MODEL_GRAPH,
    MODEL_OPSET,
    MODEL_NOTE = 14,
    GRAPH_INITIALIZER = 5,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL = 13,
    TENSOR_PLACE = 14
};
static const int64_t ALIGNED = 4096; /* alignment of external data, for which ONNX recommends pages */

static int64_t most_bytes(void)
{
    const char *given = getenv("MGPU_ONNX_LIMIT"); /* for tests */
    return given ? strtoll(given, NULL, 10) : INT64_C(2000000000);
}

static void put_pair(FILE *f, int field, const char *key, const char *value)
{
    OnnxMessage m;
    mgpu_onnx_begin(&m);
    mgpu_onnx_text(m.f, 1, key);
    mgpu_onnx_text(m.f, 2, value);
    mgpu_onnx_end(&m, f, field);
}

/* Writes everything but the graph. */
static void put_model(const Export *e, FILE *f)
{
    OnnxMessage m;
    mgpu_onnx_number(f, MODEL_IR, MGPU_ONNX_IR);
    mgpu_onnx_text(f, MODEL_PRODUCER, "mgpuc");
    mgpu_onnx_text(f, MODEL_VERSION, MGPU_VERSION);
    mgpu_onnx_begin(&m);
    mgpu_onnx_text(m.f, 1, "");
    mgpu_onnx_number(m.f, 2, MGPU_ONNX_OPSET);
    mgpu_onnx_end(&m, f, MODEL_OPSET);
    for (int i = 0; i < e->fact_count; i++)
        put_pair(f, MODEL_NOTE, e->facts[i].key, e->facts[i].text);
}

typedef struct Initializer {
    char *head;
    size_t head_bytes;
    int64_t bytes, offset;
} Initializer; /* offset: in FILE.data */

/* Prepares a weight of the file, without its data. */
static Initializer initializer_of(const mgpu_tensor *t, const char *name, const char *beside, int64_t *end)
{
    Initializer w = {.bytes = mgpu_tensor_bytes(t)};
    FILE *f = mgpu_begin_text(&w.head, &w.head_bytes);
    if (!beside) {
        mgpu_onnx_tensor(f, name, t->dtype, t->rank, t->extent, (uint64_t)w.bytes);
    } else {
        char number[32];
        w.offset = (*end + ALIGNED - 1) / ALIGNED * ALIGNED;
        *end = w.offset + w.bytes;
        for (int i = 0; i < t->rank; i++)
            mgpu_onnx_number(f, TENSOR_DIMS, t->extent[i]);
        mgpu_onnx_number(f, TENSOR_TYPE, mgpu_onnx_type(t->dtype));
        mgpu_onnx_text(f, TENSOR_NAME, name);
        put_pair(f, TENSOR_EXTERNAL, "location", beside);
        snprintf(number, sizeof number, "%lld", (long long)w.offset);
        put_pair(f, TENSOR_EXTERNAL, "offset", number);
        snprintf(number, sizeof number, "%lld", (long long)w.bytes);
        put_pair(f, TENSOR_EXTERNAL, "length", number);
        mgpu_onnx_number(f, TENSOR_PLACE, 1);
    }
    mgpu_end_text(f);
    return w;
}

static void put_weight(const Export *e, int view, const Initializer *w, FILE *f)
{
    mgpu_range all = {0, mgpu_elements(mgpu_exported_tensor(e, view))};
    uint8_t *data = mgpu_allocate((size_t)w->bytes + 1, 1);
    mgpu_read_exported(e, view, all, data);
    fwrite(data, 1, (size_t)w->bytes, f);
    free(data);
}

static void put_data(const Export *e, const int *view, const Initializer *w, int count)
{
    char *path = mgpu_format("%s.data", e->path);
    WholeFile file = mgpu_begin_export(path);
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        for (; at < w[i].offset; at++)
            fputc(0, file.f);
        put_weight(e, view[i], &w[i], file.f);
        at += w[i].bytes;
    }
    mgpu_end_export(&file, path, "the weights of the file that is named after it");
    free(path);
}

/* Writes the graph's own bytes, then the weights. */
static void put_graph(const Export *e, const ExportedText *t, const int *view, const Initializer *w, int count, bool apart,
                      FILE *f)
{
    uint64_t bytes = (uint64_t)t->bytes;
    for (int i = 0; i < count; i++) {
        uint64_t one = w[i].head_bytes + (apart ? 0 : (uint64_t)w[i].bytes);
        bytes += mgpu_onnx_head_bytes(GRAPH_INITIALIZER, one) + one;
    }
    mgpu_onnx_head(f, MODEL_GRAPH, bytes);
    fwrite(t->text, 1, (size_t)t->bytes, f);
    for (int i = 0; i < count; i++) {
        mgpu_onnx_head(f, GRAPH_INITIALIZER, w[i].head_bytes + (apart ? 0 : (uint64_t)w[i].bytes));
        fwrite(w[i].head, 1, w[i].head_bytes, f);
        if (!apart)
            put_weight(e, view[i], &w[i], f);
    }
}

void mgpu_export_onnx(const Export *e)
{
    ExportedText t = mgpu_exported_text(e, "onnx");
    int count = t.exported->variable_count, *view = mgpu_allocate((size_t)count + 1, sizeof *view);
    Initializer *w = mgpu_allocate((size_t)count + 1, sizeof *w);
    int64_t bytes = t.bytes, end = 0;
    for (int i = 0; i < count; i++) {
        view[i] = mgpu_exported_place(e, t.exported->variables[i]);
        bytes += mgpu_tensor_bytes(mgpu_exported_tensor(e, view[i]));
    }
    bool apart = bytes >= most_bytes();
    char *data = mgpu_format("%s.data", e->path);
    const char *slash = strrchr(data, '/');
    for (int i = 0; i < count; i++)
        w[i] = initializer_of(mgpu_exported_tensor(e, view[i]), e->weights.name[view[i]], apart ? slash ? slash + 1 : data : NULL,
                              &end);
    if (apart)
        put_data(e, view, w, count);
    WholeFile file = mgpu_begin_export(e->path);
    put_model(e, file.f);
    put_graph(e, &t, view, w, count, apart, file.f);
    mgpu_end_export(&file, e->path, "ONNX, opset 18");
    mgpu_say_facts(e);
    for (int i = 0; i < count; i++)
        free(w[i].head);
    free(data);
    free(w);
    free(view);
    free(t.text);
}
