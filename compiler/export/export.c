/* export.c: writes the ONNX and PyTorch texts for the graph of predict, compressed by zlib, into the program. Without outputs
 * there are none. */
#include "compiler/export/export.h"

#include <zlib.h>

static void pack(const Text *text, ExportText *t)
{
    uLongf length = compressBound((uLong)text->length);
    char *packed = allocate(length + 1);
    if (compress2((Bytef *)packed, &length, (const Bytef *)text_of(text), (uLong)text->length, Z_BEST_COMPRESSION) != Z_OK)
        die("zlib has not packed %zu bytes", text->length);
    t->packed = packed;
    t->packed_bytes = length;
    t->bytes = text->length;
}

ExportText *export_texts(const Graph *predict, int *count)
{
    static const struct {
        const char *kind;
        void (*write)(const Exported *, Text *);
        bool torch;
    } KINDS[] = {{"onnx", write_onnx, false}, {"torch", write_torch, true}};
    ExportText *texts = NEW_ARRAY(ExportText, COUNT(KINDS));
    *count = predict ? COUNT(KINDS) : 0;
    for (int i = 0; i < *count; i++) {
        const Exported *e = lower(predict, KINDS[i].torch);
        texts[i] = (ExportText){
            .kind = KINDS[i].kind, .refused = e->refused, .variables = e->variables, .variable_count = e->variable_count};
        Text text = {0};
        if (!e->refused) {
            KINDS[i].write(e, &text);
            pack(&text, &texts[i]);
        }
    }
    return texts;
}
