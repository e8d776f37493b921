/* cifar.c: the reader cifar: the binary files of CIFAR-10 and CIFAR-100 (A. Krizhevsky), mapped.
 *
 * A record of CIFAR-10 is a label and 32 x 32 x 3 bytes, plane by plane. One of CIFAR-100 has a coarse label before the fine one,
 * which is the label here. For a folder, the reader takes the training files: data_batch_1.bin and so on, or train.bin. A path
 * that ends in .bin is one file (test_batch.bin, test.bin). */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, IMAGE = 3 * PLANE };

typedef struct CifarFile {
    char *path;
    FileBytes bytes;
    int64_t first, records;
} CifarFile;
typedef struct Cifar {
    CifarFile *files;
    int count;
    int labels;    /* bytes of labels before an image */
    int offset[3]; /* for each column: offset of its byte in a record; -1: the image */
} Cifar;

static const CifarFile *file_of(const Cifar *c, int64_t *sample)
{
    int k = 0;
    while (*sample >= c->files[k].first + c->files[k].records)
        k++;
    *sample -= c->files[k].first;
    return &c->files[k];
}

static void read_cifar(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    const Cifar *c = s->state;
    const CifarFile *f = file_of(c, &sample);
    const uint8_t *record = f->bytes.data + sample * (c->labels + IMAGE);
    for (int k = 0; k < s->column_count; k++) {
        items[k].dtype = MGPU_U8;
        items[k].rank = s->columns[k].rank;
        memcpy(items[k].extent, s->columns[k].extent, sizeof items[k].extent);
        items[k].data = record + c->offset[k];
        if (c->offset[k] >= 0 || !items[k].wanted)
            continue;
        uint8_t *image = mgpu_reading_allocate(r, IMAGE);
        const uint8_t *plane = record + c->labels;
        for (int i = 0; i < PLANE; i++)
            for (int channel = 0; channel < 3; channel++)
                image[3 * i + channel] = plane[channel * PLANE + i];
        items[k].data = image;
    }
}

static void describe_cifar(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    (void)column;
    const CifarFile *f = file_of(s->state, &sample);
    snprintf(text, capacity, "%s: record %lld", f->path, (long long)sample);
}

static void close_cifar(Stream *s)
{
    Cifar *c = s->state;
    for (int k = 0; k < c->count; k++) {
        mgpu_close_file(&c->files[k].bytes);
        free(c->files[k].path);
    }
    free(c->files);
    free(c);
}

static void add_file(Cifar *c, const char *path, const Opening *o, int64_t *samples)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    int labels = strcmp(name, "train.bin") == 0 || strcmp(name, "test.bin") == 0 ? 2 : 1;
    CifarFile f = {.path = mgpu_format("%s", path), .first = *samples};
    mgpu_load_file(&f.bytes, path, o->where, mgpu_find_option(o->call, "cache") != NULL);
    f.records = f.bytes.bytes / (labels + IMAGE);
    if (f.records == 0 || f.bytes.bytes % (labels + IMAGE))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %lld bytes are no whole number of records of CIFAR-%s (%d bytes each)", o->where, path,
                  (long long)f.bytes.bytes, labels == 2 ? "100" : "10", labels + IMAGE);
    c->labels = labels;
    MGPU_PUSH(c->files, c->count, f);
    *samples += f.records;
}

static bool add_if_there(Cifar *c, const char *folder, const char *name, const Opening *o, int64_t *samples)
{
    char *path = mgpu_format("%s/%s", folder, name);
    bool there = access(path, F_OK) == 0;
    if (there)
        add_file(c, path, o, samples);
    free(path);
    return there;
}

static void add_folder(Cifar *c, const char *folder, const Opening *o, int64_t *samples)
{
    bool more = true;
    for (int k = 1; more; k++) {
        char name[40];
        snprintf(name, sizeof name, "data_batch_%d.bin", k);
        more = add_if_there(c, folder, name, o, samples);
    }
    if (!c->count && !add_if_there(c, folder, "train.bin", o, samples))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s holds neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100): the binary version is needed",
                  o->where, folder);
}

Stream *mgpu_open_cifar(const Opening *o)
{
    Stream *s = mgpu_new_stream(o, o->column_count);
    Cifar *c = s->state = mgpu_allocate(1, sizeof *c);
    char *path = mgpu_path_in(o->folder, mgpu_option_text(o->call, "folder", ""));
    struct stat status;
    if (stat(path, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s%s", o->where, path, strerror(errno), mgpu_data_cure(o->folder));
    if (S_ISDIR(status.st_mode))
        add_folder(c, path, o, &s->samples);
    else
        add_file(c, path, o, &s->samples);
    for (int k = 0; k < o->column_count; k++) {
        const mgpu_column *column = &o->columns[k];
        bool image = strcmp(column->name, "image") == 0, coarse = strcmp(column->name, "coarse") == 0;
        if (coarse && c->labels < 2)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: CIFAR-10 has no coarse labels", o->where, path);
        c->offset[k] = image ? -1 : coarse ? 0 : c->labels - 1;
        s->columns[k] = (StreamColumn){.name = column->name,
                                       .uniform = true,
                                       .image = image,
                                       .dtype = MGPU_U8,
                                       .rank = image ? 3 : 0,
                                       .extent = {SIDE, SIDE, 3},
                                       .input = mgpu_column_input(o, column)};
    }
    free(path);
    s->read = read_cifar;
    s->describe = describe_cifar;
    s->close = close_cifar;
    return s;
}
