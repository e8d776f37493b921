/* tensors.c: files of named tensors independent of their format: finding tensors by name, reading elements, and owning the
 * memory. Several files that an index of shards lists are one TensorFile. */
#include "runtime/base/base.h"
#include "runtime/weights/formats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void mgpu_broken_tensors(const char *path, const char *name, const char *what)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s: %s%s%s%s", path, name ? "tensor '" : "", name ? name : "", name ? "': " : "", what);
}

void *mgpu_adopt_memory(TensorFile *file, void *memory)
{
    if ((file->owned_count & (file->owned_count - 1)) == 0) /* the capacity is the next power of two */
        file->owned = mgpu_resize(file->owned, (size_t)(file->owned_count ? 2 * file->owned_count : 1) * sizeof *file->owned);
    return file->owned[file->owned_count++] = memory;
}

const char *mgpu_file_copy_text(TensorFile *file, const char *begin, int64_t length)
{
    char *text = mgpu_allocate((size_t)length + 1, 1);
    memcpy(text, begin, (size_t)length);
    return mgpu_adopt_memory(file, text);
}

SavedTensor *mgpu_add_tensor(TensorFile *file)
{
    if ((file->count & (file->count - 1)) == 0)
        file->tensors = mgpu_resize(file->tensors, (size_t)(file->count ? 2 * file->count : 1) * sizeof *file->tensors);
    SavedTensor *t = &file->tensors[file->count++];
    *t = (SavedTensor){0};
    return t;
}

int64_t mgpu_checked_bytes(const char *path, const mgpu_tensor *t, int64_t capacity)
{
    int64_t bytes = mgpu_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (t->extent[i] < 0 || __builtin_mul_overflow(bytes, t->extent[i], &bytes))
            mgpu_broken_tensors(path, t->name, "its shape is none; the file is damaged");
    if (bytes > capacity)
        mgpu_broken_tensors(path, t->name, "the file is truncated");
    return bytes;
}

void mgpu_read_elements(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    int64_t bytes = mgpu_dtype_bytes(t->tensor.dtype);
    if (t->unreadable)
        mgpu_fail(MGPU_BAD_INPUT, "%s", t->unreadable);
    if (t->read)
        t->read(t, elements, to);
    else if (elements.end > elements.begin) /* an empty tensor has no data */
        memcpy(to, t->data + elements.begin * bytes, (size_t)((elements.end - elements.begin) * bytes));
}

/* ---- */
TensorBytes mgpu_map_open(TensorFile *file, const char *path, int f)
{
    struct stat status;
    if (fstat(f, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        mgpu_broken_tensors(
            path, NULL,
            "this folder holds no model.safetensors, pytorch_model.bin, an index of several, or weights.safetensors of a run");
    if (!S_ISREG(status.st_mode))
        mgpu_broken_tensors(path, NULL, "this is a pipe, a device or a socket, a file of weights is expected");
    if (status.st_size < 8)
        mgpu_broken_tensors(path, NULL,
                            "not a safetensors file, nor one of weights in another format: it is shorter than their headers");
    void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, f, 0);
    if (map == MAP_FAILED)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be read: %s", path, strerror(errno));
    size_t capacity = (size_t)file->map_count + 1;
    file->maps = mgpu_resize(file->maps, capacity * sizeof *file->maps);
    file->map_bytes = mgpu_resize(file->map_bytes, capacity * sizeof *file->map_bytes);
    file->maps[file->map_count] = map;
    file->map_bytes[file->map_count++] = (size_t)status.st_size;
    return (TensorBytes){path, map, status.st_size};
}

TensorBytes mgpu_map_in_folder_of(TensorFile *file, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    if (strchr(name, '/') || !*name || name[0] == '.')
        mgpu_fail(MGPU_BAD_INPUT, "%s: it names the file '%s'; the files of an index are beside it", path, name);
    char *beside = mgpu_adopt_memory(file, mgpu_format("%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name));
    int f = open(beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s, which %s names", beside, strerror(errno), path);
    TensorBytes bytes = mgpu_map_open(file, beside, f);
    close(f);
    return bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const SavedTensor *)a)->tensor.name, ((const SavedTensor *)b)->tensor.name);
}

void mgpu_sort_tensors(TensorFile *file)
{
    if (file->count)
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_name);
    for (int i = 1; i < file->count; i++)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            mgpu_broken_tensors(file->path, file->tensors[i].tensor.name, "it is there twice; the file is damaged");
    file->used = mgpu_allocate((size_t)file->count + 1, sizeof *file->used);
}

SavedTensor *mgpu_find_tensor(const TensorFile *file, const char *name)
{
    SavedTensor key = {.tensor = {.name = name}};
    return file->count ? bsearch(&key, file->tensors, (size_t)file->count, sizeof *file->tensors, by_name) : NULL;
}

void mgpu_close_tensors(TensorFile *file)
{
    for (int i = 0; i < file->map_count; i++)
        munmap(file->maps[i], file->map_bytes[i]);
    for (int i = 0; i < file->owned_count; i++)
        free(file->owned[i]);
    free(file->maps);
    free(file->map_bytes);
    free(file->owned);
    free(file->tensors);
    free(file->used);
    free(file->facts);
}

char *mgpu_weights_of_folder(const char *path)
{
    static const char *const NAMES[] = {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json",
                                        "pytorch_model.bin", "weights.safetensors"};
    struct stat status;
    for (int i = 0; i < MGPU_COUNT(NAMES) && stat(path, &status) == 0 && S_ISDIR(status.st_mode); i++) {
        char *name = mgpu_format("%s/%s", path, NAMES[i]);
        if (access(name, F_OK) == 0)
            return name;
        free(name);
    }
    return mgpu_format("%s", path);
}
