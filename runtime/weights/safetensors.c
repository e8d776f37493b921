/* safetensors.c: writes and reads files of named tensors.
 *
 * The format (huggingface/safetensors): the length of the header in 8 bytes, little-endian; the header in JSON: name -> dtype,
 * shape and the range of bytes of its data, counted from the end of the header, and "__metadata__", text -> text; then the data,
 * row-major, without gaps. Blanks fill the header up to a multiple of 8. We write tensors with larger elements first, so that all
 * are aligned; others keep the caller's order. */
#include "runtime/base/base.h"
#include "runtime/weights/formats.h"

#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {
    [MGPU_BOOL] = "BOOL", [MGPU_U8] = "U8",   [MGPU_I8] = "I8",   [MGPU_U16] = "U16",   [MGPU_I16] = "I16", [MGPU_U32] = "U32",
    [MGPU_I32] = "I32",   [MGPU_I64] = "I64", [MGPU_F16] = "F16", [MGPU_BF16] = "BF16", [MGPU_F32] = "F32", [MGPU_F64] = "F64"};

/* Types of the format that have no counterpart here. Tensors of them may be in a file, but not in the model. */
static const struct OtherType {
    const char *name;
    int bits;
} OTHERS[] = {{"U64", 64},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
              {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

/* ---- writing */
static void write_header(FILE *f, const FileLayout *l, const SavedTensor *tensors, const FileMetadata *notes)
{
    fputs("{\"__metadata__\":{\"format\":\"pt\"", f);
    if (notes->step >= 0)
        fprintf(f, ",\"step\":\"%lld\"", (long long)notes->step);
    if (notes->categories) {
        fputs(",\"categories\":", f);
        mgpu_json_write_text(f, notes->categories);
    }
    fputc('}', f);
    for (int k = 0; k < l->count; k++) {
        const mgpu_tensor *t = &tensors[l->order[k]].tensor;
        fputc(',', f);
        mgpu_json_write_text(f, t->name);
        fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", NAMES[t->dtype]);
        for (int i = 0; i < t->rank; i++)
            fprintf(f, "%s%lld", i ? "," : "", (long long)t->extent[i]);
        fprintf(f, "],\"data_offsets\":[%lld,%lld]}", (long long)l->at[k], (long long)l->at[k + 1]);
    }
    fputc('}', f);
    while (ftell(f) % 8)
        fputc(' ', f);
}

FileLayout mgpu_lay_out(const SavedTensor *tensors, int count, const FileMetadata *notes)
{
    FileLayout l = {.tensors = tensors,
                    .order = mgpu_allocate((size_t)count, sizeof *l.order),
                    .at = mgpu_allocate((size_t)count + 1, sizeof *l.at)};
    for (int64_t bytes = 8; bytes >= 1; bytes /= 2)
        for (int i = 0; i < count; i++)
            if (mgpu_dtype_bytes(tensors[i].tensor.dtype) == bytes)
                l.order[l.count++] = i;
    for (int k = 0; k < l.count; k++)
        l.at[k + 1] = l.at[k] + mgpu_tensor_bytes(&tensors[l.order[k]].tensor);
    char *header = NULL;
    size_t length = 0;
    FILE *memory = mgpu_begin_text(&header, &length);
    write_header(memory, &l, tensors, notes);
    mgpu_end_text(memory);
    l.header_bytes = (int64_t)length + 8;
    l.header = mgpu_allocate((size_t)l.header_bytes, 1);
    for (int i = 0; i < 8; i++)
        l.header[i] = (uint8_t)(length >> 8 * i);
    memcpy(l.header + 8, header, length);
    free(header);
    l.bytes = l.header_bytes + l.at[l.count];
    return l;
}

void mgpu_close_layout(FileLayout *l)
{
    free(l->header);
    free(l->order);
    free(l->at);
}

void mgpu_each_tensor(const FileLayout *l, mgpu_range bytes, EachTensor *each, void *context)
{
    for (int k = 0; k < l->count; k++) {
        int64_t from = l->header_bytes + l->at[k], end = l->header_bytes + l->at[k + 1],
                one = mgpu_dtype_bytes(l->tensors[l->order[k]].tensor.dtype);
        from = bytes.begin > from ? bytes.begin - from : 0;
        end = (bytes.end < end ? bytes.end : end) - l->header_bytes - l->at[k];
        if (from < end)
            each(context, l->order[k], (mgpu_range){from / one, end / one});
    }
}

/* ---- reading */
typedef struct TensorPlace {
    const char *name;
    const uint8_t *begin;
    int64_t bytes;
} TensorPlace;

/* Returns how many bits an element has, or 0 if there is no such type. */
static int read_type(TensorFile *file, const TensorBytes *b, SavedTensor *saved, const char *type)
{
    for (int i = 0; i < MGPU_COUNT(NAMES); i++)
        if (strcmp(NAMES[i], type) == 0) {
            saved->tensor.dtype = (uint8_t)i;
            return 8 * (int)mgpu_dtype_bytes((uint8_t)i);
        }
    for (int i = 0; i < MGPU_COUNT(OTHERS); i++)
        if (strcmp(OTHERS[i].name, type) == 0) {
            saved->unreadable = mgpu_adopt_memory(
                file,
                mgpu_format("%s: tensor '%s': its elements are %s, which cannot be read; BOOL, U8 to U32, I8 to I64, F16, BF16, "
                            "F32 and F64 can",
                            b->path, saved->tensor.name, type));
            return OTHERS[i].bits;
        }
    return 0;
}

/* Returns the number of elements. */
static int64_t read_shape(TensorFile *file, const TensorBytes *b, SavedTensor *saved, const Json *shape)
{
    mgpu_tensor *t = &saved->tensor;
    int64_t elements = 1, extent;
    int rank = 0;
    if (!shape || shape->kind != JSON_LIST)
        mgpu_broken_tensors(b->path, t->name, "it has no shape; the file is damaged");
    for (const Json *axis = shape->first; axis; axis = axis->next, rank++) {
        if (!mgpu_json_whole(axis, &extent) || extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
            mgpu_broken_tensors(b->path, t->name, "its shape is none; the file is damaged");
        if (rank < MGPU_MAX_RANK)
            t->extent[t->rank++] = extent;
    }
    if (rank > MGPU_MAX_RANK && !saved->unreadable)
        saved->unreadable = mgpu_adopt_memory(
            file, mgpu_format("%s: tensor '%s': it has %d axes; up to %d can be read", b->path, t->name, rank, MGPU_MAX_RANK));
    return elements;
}

static TensorPlace read_tensor(TensorFile *file, const TensorBytes *b, const Json *entry, int64_t data_begin)
{
    SavedTensor *saved = mgpu_add_tensor(file);
    mgpu_tensor *t = &saved->tensor;
    const Json *dtype = mgpu_json_member(entry, "dtype"), *shape = mgpu_json_member(entry, "shape");
    const Json *offsets = mgpu_json_member(entry, "data_offsets");
    t->name = entry->key;
    int64_t bits = dtype && dtype->kind == JSON_TEXT ? read_type(file, b, saved, dtype->text) : 0;
    if (!bits)
        mgpu_broken_tensors(b->path, t->name, "its element type is missing or unknown; the file is damaged");
    if (__builtin_mul_overflow(bits, read_shape(file, b, saved, shape), &bits))
        mgpu_broken_tensors(b->path, t->name, "its shape is none; the file is damaged");
    int64_t bytes = bits / 8;
    int64_t begin, end, capacity = b->bytes - data_begin;
    if (!offsets || offsets->kind != JSON_LIST || !offsets->first || !mgpu_json_whole(offsets->first, &begin) ||
        !mgpu_json_whole(offsets->first->next, &end) || begin < 0 || end < begin)
        mgpu_broken_tensors(b->path, t->name, "its place in the file is none; the file is damaged");
    if (end > capacity)
        mgpu_broken_tensors(b->path, t->name, "the file is truncated");
    if (end - begin != bytes || bits % 8)
        mgpu_broken_tensors(b->path, t->name, "its shape and its number of bytes differ; the file is damaged");
    saved->data = b->data + data_begin + begin;
    return (TensorPlace){t->name, saved->data, bytes};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const TensorPlace *)a)->name, ((const TensorPlace *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const TensorPlace *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

/* Checks that the tensors' bytes fill the file after the header without gaps and overlaps, as the format requires. */
static void check_places(const TensorBytes *b, TensorPlace *places, int count, int64_t data_begin)
{
    const uint8_t *at = b->data + data_begin;
    qsort(places, (size_t)count, sizeof *places, by_text);
    for (int i = 1; i < count; i++)
        if (by_text(&places[i - 1], &places[i]) == 0)
            mgpu_broken_tensors(b->path, places[i].name, "it is there twice; the file is damaged");
    qsort(places, (size_t)count, sizeof *places, by_place);
    for (int i = 0; i < count; i++) {
        if (places[i].begin != at)
            mgpu_broken_tensors(b->path, places[i].name,
                                places[i].begin < at ? "it overlaps another tensor; the file is damaged"
                                                     : "bytes before it are no tensor's; the file is damaged");
        at += places[i].bytes;
    }
    if (at != b->data + b->bytes)
        mgpu_broken_tensors(b->path, NULL, "bytes after the last tensor are no tensor's; the file is damaged");
}

void mgpu_read_safetensors(TensorFile *file, const TensorBytes *b)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | b->data[i];
    if (length > (uint64_t)b->bytes - 8)
        mgpu_broken_tensors(b->path, NULL,
                            "not a safetensors file, nor one of PyTorch, NumPy (.npz) or llama.cpp (GGUF), or truncated: its "
                            "header is longer than the file");
    const char *error = NULL;
    Json *header = mgpu_json_read((const char *)b->data + 8, (size_t)length, &error);
    if (!header || header->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: not a safetensors file: %s", b->path, error ? error : "its header is no JSON object");
    mgpu_adopt_memory(file, header);
    int64_t data_begin = (int64_t)length + 8;
    int count = 0, capacity = 0;
    for (const Json *m = header->first; m; m = m->next)
        capacity++;
    TensorPlace *places = mgpu_allocate((size_t)capacity + 1, sizeof *places);
    for (const Json *m = header->first; m; m = m->next) {
        if (strcmp(m->key, "__metadata__") != 0) {
            places[count++] = read_tensor(file, b, m, data_begin);
            continue;
        }
        const Json *step = mgpu_json_member(m, "step");
        if (step && step->kind == JSON_TEXT)
            file->step = strtoll(step->text, NULL, 10);
        file->metadata = m;
    }
    check_places(b, places, count, data_begin);
    free(places);
}
