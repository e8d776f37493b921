/* safetensors.c: files of named tensors, written and read.
 *
 * The format (huggingface/safetensors): 8 bytes little-endian length of the header; the header, JSON: name -> dtype, shape
 * and the first and last + 1 byte of its data, counted from after the header, and "__metadata__", text -> text; then the
 * data, row-major, without holes. Blanks fill the header up to a multiple of 8. Larger elements come first, so that all
 * are aligned; among equals the caller's order stays. */
#include "runtime/base/base.h"
#include "runtime/weights/weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const NAMES[] = {[MGPU_BOOL] = "BOOL", [MGPU_U8] = "U8", [MGPU_I8] = "I8", [MGPU_U16] = "U16", [MGPU_I16] = "I16",
                                    [MGPU_U32] = "U32", [MGPU_I32] = "I32", [MGPU_I64] = "I64", [MGPU_F16] = "F16",
                                    [MGPU_BF16] = "BF16", [MGPU_F32] = "F32", [MGPU_F64] = "F64"};

/* ---- writing */
static void write_header(FILE *f, const FileLayout *l, const SavedTensor *tensors, const FileNotes *notes)
{
    fprintf(f, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%lld\"", (long long)notes->step);
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

FileLayout mgpu_lay_out(const SavedTensor *tensors, int count, const FileNotes *notes)
{
    FileLayout l = {.tensors = tensors, .order = mgpu_allocate((size_t)count, sizeof *l.order), .at = mgpu_allocate((size_t)count + 1, sizeof *l.at)};
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

void mgpu_each_tensor(const FileLayout *l, mgpu_stretch bytes, EachTensor *each, void *context)
{
    for (int k = 0; k < l->count; k++) {
        int64_t from = l->header_bytes + l->at[k], end = l->header_bytes + l->at[k + 1], one = mgpu_dtype_bytes(l->tensors[l->order[k]].tensor.dtype);
        from = bytes.begin > from ? bytes.begin - from : 0;
        end = (bytes.end < end ? bytes.end : end) - l->header_bytes - l->at[k];
        if (from < end)
            each(context, l->order[k], (mgpu_stretch){from / one, end / one});
    }
}

/* ---- reading */
static _Noreturn void broken(const char *path, const char *name, const char *what)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s: %s%s%s%s", path, name ? "tensor '" : "", name ? name : "", name ? "': " : "", what);
}

static void map_file(TensorFile *file, int f)
{
    struct stat status;
    if (fstat(f, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", file->path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        broken(file->path, NULL, "this is a folder, a safetensors file is expected");
    if (!S_ISREG(status.st_mode))
        broken(file->path, NULL, "this is a pipe, a device or a socket, a safetensors file is expected");
    if (status.st_size < 8)
        broken(file->path, NULL, "not a safetensors file: it is shorter than its header");
    file->map_bytes = (size_t)status.st_size;
    file->map = mmap(NULL, file->map_bytes, PROT_READ, MAP_PRIVATE, f, 0);
    if (file->map == MAP_FAILED)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", file->path, strerror(errno));
}

static void read_tensor(const TensorFile *file, SavedTensor *saved, const Json *entry, int64_t data_begin)
{
    mgpu_tensor *t = &saved->tensor;
    const Json *dtype = mgpu_json_member(entry, "dtype"), *shape = mgpu_json_member(entry, "shape");
    const Json *offsets = mgpu_json_member(entry, "data_offsets");
    t->name = entry->key;
    int found = -1;
    for (int i = 0; dtype && dtype->kind == JSON_TEXT && i < MGPU_COUNT(NAMES); i++)
        if (strcmp(NAMES[i], dtype->text) == 0)
            found = i;
    if (found < 0)
        broken(file->path, t->name, "its element type is missing or unknown; the file is damaged");
    t->dtype = (uint8_t)found;
    if (!shape || shape->kind != JSON_LIST)
        broken(file->path, t->name, "it has no shape; the file is damaged");
    int64_t bytes = mgpu_dtype_bytes(t->dtype);
    for (const Json *axis = shape->first; axis; axis = axis->next) {
        int64_t extent;
        if (t->rank == MGPU_MAX_RANK || !mgpu_json_whole(axis, &extent) || extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
            broken(file->path, t->name, "its shape is none; the file is damaged");
        t->extent[t->rank++] = extent;
    }
    int64_t begin, end, room = (int64_t)file->map_bytes - data_begin;
    if (!offsets || offsets->kind != JSON_LIST || !offsets->first || !mgpu_json_whole(offsets->first, &begin) ||
        !mgpu_json_whole(offsets->first->next, &end) || begin < 0 || end < begin)
        broken(file->path, t->name, "its place in the file is none; the file is damaged");
    if (end > room)
        broken(file->path, t->name, "the file is truncated");
    if (end - begin != bytes)
        broken(file->path, t->name, "its shape and its number of bytes differ; the file is damaged");
    saved->data = (const uint8_t *)file->map + data_begin + begin;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const SavedTensor *)a)->tensor.name, ((const SavedTensor *)b)->tensor.name);
}

static int by_place(const void *a, const void *b)
{
    const SavedTensor *x = *(const SavedTensor *const *)a, *y = *(const SavedTensor *const *)b;
    int64_t p = mgpu_tensor_bytes(&x->tensor), q = mgpu_tensor_bytes(&y->tensor);
    return x->data != y->data ? (x->data > y->data) - (x->data < y->data) : (p > q) - (p < q); /* empty ones first */
}

/* the tensors' bytes, one after the other, are all that is after the header: so the format says it */
static void check_places(const TensorFile *file, int64_t data_begin)
{
    const SavedTensor **order = mgpu_allocate((size_t)file->count, sizeof *order);
    const uint8_t *at = (const uint8_t *)file->map + data_begin, *end = (const uint8_t *)file->map + file->map_bytes;
    for (int i = 0; i < file->count; i++)
        order[i] = &file->tensors[i];
    qsort(order, (size_t)file->count, sizeof *order, by_place);
    for (int i = 0; i < file->count; i++) {
        if (order[i]->data != at)
            broken(file->path, order[i]->tensor.name,
                   order[i]->data < at ? "it overlaps another tensor; the file is damaged" : "bytes before it are no tensor's; the file is damaged");
        at += mgpu_tensor_bytes(&order[i]->tensor);
    }
    if (at != end)
        broken(file->path, NULL, "bytes after the last tensor are no tensor's; the file is damaged");
    free(order);
}

void mgpu_map_safetensors(TensorFile *file, const char *path, int f)
{
    *file = (TensorFile){.path = path, .step = -1};
    map_file(file, f);
    const uint8_t *bytes = file->map;
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > file->map_bytes - 8)
        broken(path, NULL, "not a safetensors file, or truncated: its header is longer than the file");
    const char *error = NULL;
    file->header = mgpu_json_read((const char *)bytes + 8, (size_t)length, &error);
    if (!file->header || file->header->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s: not a safetensors file: %s", path, error ? error : "its header is no JSON object");
    for (const Json *m = file->header->first; m; m = m->next)
        file->count++;
    file->tensors = mgpu_allocate((size_t)file->count, sizeof *file->tensors);
    file->used = mgpu_allocate((size_t)file->count, sizeof *file->used);
    file->count = 0;
    for (const Json *m = file->header->first; m; m = m->next) {
        if (strcmp(m->key, "__metadata__") == 0) {
            const Json *step = mgpu_json_member(m, "step");
            if (step && step->kind == JSON_TEXT)
                file->step = strtoll(step->text, NULL, 10);
        } else {
            read_tensor(file, &file->tensors[file->count++], m, (int64_t)length + 8);
        }
    }
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_name);
    for (int i = 1; i < file->count; i++)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            broken(path, file->tensors[i].tensor.name, "it is there twice; the file is damaged");
    check_places(file, (int64_t)length + 8);
}

SavedTensor *mgpu_find_tensor(const TensorFile *file, const char *name)
{
    SavedTensor key = {.tensor = {.name = name}};
    return file->count ? bsearch(&key, file->tensors, (size_t)file->count, sizeof *file->tensors, by_name) : NULL;
}

void mgpu_close_safetensors(TensorFile *file)
{
    munmap(file->map, file->map_bytes);
    free(file->tensors);
    free(file->used);
    free(file->header);
}
