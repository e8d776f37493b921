/* tensors.h: safetensors files of floats for tools of tests: read, and found by name. */
#ifndef MGPU_TEST_TENSORS_H
#define MGPU_TEST_TENSORS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tensor {
    const char *name;
    int width; /* of an element: 8 F64, 4 F32, 0 another type */
    int rank;
    int64_t extent[8], count, bytes;
    unsigned char *data; /* in the file's bytes */
} Tensor;
typedef struct Tensors {
    unsigned char *bytes; /* of the whole file */
    size_t size;
    Tensor *list;
    int count;
} Tensors;

static inline _Noreturn void tensors_fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(3);
}

static inline void *tensors_room(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        tensors_fail("memory", "there is none left");
    return p;
}

/* {"dtype":"F64","shape":[2,3],"data_offsets":[0,48]} */
static inline void tensors_add(Tensors *file, const char *path, char *name, char *entry, unsigned char *data)
{
    Tensor t = {.name = name, .count = 1};
    const char *dtype = strstr(entry, "\"dtype\":\""), *shape = strstr(entry, "\"shape\":["),
               *offsets = strstr(entry, "\"data_offsets\":[");
    if (!dtype || !shape || !offsets)
        tensors_fail(path, "a tensor without type, shape or place");
    t.width = strncmp(dtype + 9, "F64", 3) == 0 ? 8 : strncmp(dtype + 9, "F32", 3) == 0 ? 4 : 0;
    for (char *at = (char *)(uintptr_t)shape + 9; *at != ']' && t.rank < 8; at += *at == ',') {
        t.extent[t.rank] = strtoll(at, &at, 10);
        t.count *= t.extent[t.rank++];
    }
    char *comma;
    int64_t begin = strtoll(offsets + 16, &comma, 10);
    t.bytes = strtoll(comma + 1, NULL, 10) - begin;
    t.data = data + begin;
    file->list = realloc(file->list, (size_t)(file->count + 1) * sizeof *file->list);
    if (!file->list || t.bytes < t.count * t.width || t.data + t.bytes > file->bytes + file->size)
        tensors_fail(path, "a tensor that is not in the file");
    file->list[file->count++] = t;
}

static inline Tensors tensors_load(const char *path)
{
    Tensors file = {0};
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        tensors_fail(path, "cannot be read");
    file.size = (size_t)ftell(f);
    rewind(f);
    file.bytes = tensors_room(file.size);
    uint64_t head = 0;
    if (fread(file.bytes, 1, file.size, f) != file.size || file.size < 8 || (memcpy(&head, file.bytes, 8), head > file.size - 8))
        tensors_fail(path, "cannot be read");
    fclose(f);
    char *text = tensors_room(head + 1);
    memcpy(text, file.bytes + 8, head);
    text[head] = 0;
    for (char *at = strchr(text, '"'); at;) {
        char *end = strchr(at + 1, '"'), *open = end ? strchr(end, '{') : NULL, *close = open ? strchr(open, '}') : NULL;
        if (!close)
            break;
        *end = *close = 0;
        if (strcmp(at + 1, "__metadata__") != 0)
            tensors_add(&file, path, at + 1, open, file.bytes + 8 + head);
        at = strchr(close + 1, '"');
    }
    return file;
}

static inline const Tensor *tensors_find(const Tensors *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->list[i].name, name) == 0)
            return &file->list[i];
    return NULL;
}

static inline double tensors_get(const Tensor *t, int64_t i)
{
    float f;
    double d;
    if (t->width == 8) {
        memcpy(&d, t->data + 8 * i, 8);
        return d;
    }
    memcpy(&f, t->data + 4 * i, 4);
    return (double)f;
}

static inline void tensors_set(const Tensor *t, int64_t i, double d)
{
    float f = (float)d;
    memcpy(t->data + t->width * i, t->width == 8 ? (const void *)&d : (const void *)&f, (size_t)t->width);
}
#endif
