/* arrays.c: streams with one array for each column: those of idx and npy, and files of `predict`. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct Arrays {
    Array *array;
    char **path;  /* for each column, like `array` */
    char **names; /* for each sample the file that it comes from, or NULL */
} Arrays;

void mgpu_free_array(Array *a)
{
    if (a->map)
        munmap(a->map, a->map_bytes);
    free(a->owned);
    *a = (Array){0};
}

static void read_arrays(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    (void)r;
    const Arrays *arrays = s->state;
    for (int c = 0; c < s->column_count; c++) {
        if (!items[c].wanted)
            continue;
        const Array *a = &arrays->array[c];
        items[c].dtype = a->dtype;
        items[c].rank = a->rank;
        memcpy(items[c].extent, a->extent, sizeof a->extent);
        items[c].data = a->data + sample * a->sample_bytes;
    }
}

static void describe_arrays(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Arrays *arrays = s->state;
    snprintf(text, capacity, "%s: sample %lld", arrays->path[column], (long long)sample);
}

static void close_arrays(Stream *s)
{
    Arrays *arrays = s->state;
    for (int c = 0; c < s->column_count; c++) {
        mgpu_free_array(&arrays->array[c]);
        free(arrays->path[c]);
    }
    for (int64_t i = 0; arrays->names && i < s->samples; i++)
        free(arrays->names[i]);
    free(arrays->names);
    free(arrays->array);
    free(arrays->path);
    free(arrays);
}

Stream *mgpu_array_stream(const Opening *o, int columns)
{
    Stream *s = mgpu_new_stream(o, columns);
    Arrays *arrays = s->state = mgpu_allocate(1, sizeof *arrays);
    arrays->array = mgpu_allocate((size_t)columns, sizeof *arrays->array);
    arrays->path = mgpu_allocate((size_t)columns, sizeof *arrays->path);
    s->read = read_arrays;
    s->describe = describe_arrays;
    s->close = close_arrays;
    return s;
}

static const char *name_file(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    const Arrays *arrays = s->state;
    snprintf(text, capacity, "%s", arrays->names[sample]);
    return "file";
}

void mgpu_set_names(Stream *s, char **names)
{
    Arrays *arrays = s->state;
    for (int64_t i = 0; arrays->names && i < s->samples; i++)
        free(names[i]);
    if (arrays->names)
        free(names);
    else
        arrays->names = names;
    s->name = name_file;
}

static bool all_finite_f32(const uint8_t *data, int64_t count)
{
    const uint32_t exponent = 0x7f800000;
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);
        bad += (bits & exponent) == exponent;
    }
    return bad == 0;
}

/* Counts NaN and infinity, unless it takes too long. */
static void count_not_finite(const Array *a, const char *path, const char *name, const char *where)
{
    enum { MOMENT = 1 << 26 }; /* elements */
    int64_t each = a->samples ? a->sample_bytes / mgpu_dtype_bytes(a->dtype) : 0, bad = 0, first = 0, last = -1;
    if (!mgpu_dtype_is_float(a->dtype) || !each || a->samples > MOMENT / each)
        return;
    if (a->dtype == MGPU_F32 && all_finite_f32(a->data, a->samples * each))
        return;
    for (int64_t i = 0; i < a->samples * each; i++)
        if (!isfinite(mgpu_to_double(a->data, a->dtype, i)) && i / each != last) {
            last = i / each;
            first = bad++ ? first : last;
        }
    if (bad)
        mgpu_say(
            "%s: warning: %s%s: %lld of %lld samples hold NaN or infinity, the first is sample %lld; where(abs(%s) < inf, %s, 0) "
            "leaves such numbers out",
            program_invocation_short_name, where, path, (long long)bad, (long long)a->samples, (long long)first, name, name);
}

void mgpu_set_array(Stream *s, int column, const char *name, const mgpu_input *in, const Array *a, const char *path,
                    const char *where)
{
    Arrays *arrays = s->state;
    arrays->array[column] = *a;
    arrays->path[column] = mgpu_format("%s", path);
    StreamColumn *c = &s->columns[column];
    *c = (StreamColumn){.name = name,
                        .uniform = true,
                        .image = a->rank == 3 && a->dtype == MGPU_U8,
                        .dtype = a->dtype,
                        .rank = a->rank,
                        .input = in};
    memcpy(c->extent, a->extent, sizeof a->extent);
    for (int k = 0; k < s->column_count; k++)
        if (arrays->path[k] && k != column && s->samples != a->samples)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s has %lld samples, %s has %lld; the files of a set belong together", where, path,
                      (long long)a->samples, arrays->path[k], (long long)s->samples);
    s->samples = a->samples;
    count_not_finite(a, path, name, where);
}
