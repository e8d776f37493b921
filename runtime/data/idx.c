/* idx.c: reads IDX files, plain or gzipped, into Arrays; the reader idx.
 *
 * The format (Y. LeCun, The MNIST database): two zero bytes, a type, the number of axes; the extents as 32-bit big-endian
 * numbers, of which the first is the number of samples; then the elements, big-endian, row-major, and nothing after them. zlib
 * reads plain files, too. Memory grows with what is read, so that a wrong header costs nothing. Plain files of bytes are
 * mapped. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char TRUNCATED[] = "the file is truncated";

/* packed: size of the file in bytes */
typedef struct IdxSource {
    gzFile file;
    int64_t packed;
    const char *path, *where;
} IdxSource;

static const char *read_error(const IdxSource *s)
{
    int code;
    gzerror(s->file, &code);
    return code == Z_ERRNO ? strerror(errno) : code == Z_OK || code == Z_BUF_ERROR ? TRUNCATED : "the compressed data is damaged";
}

/* Returns the number of bytes read, which is smaller at the end of the file or after an error (*error). */
static int64_t read_bytes(const IdxSource *s, uint8_t *to, int64_t bytes, const char **error)
{
    int64_t done = 0;
    *error = NULL;
    while (done < bytes) {
        unsigned part = bytes - done < 1 << 24 ? (unsigned)(bytes - done) : 1u << 24;
        int n = gzread(s->file, to + done, part);
        if (n < 0 || (n == 0 && !gzeof(s->file)))
            *error = read_error(s);
        if (n <= 0)
            break;
        done += n;
    }
    int code;
    if (done < bytes && !*error && (gzerror(s->file, &code), code == Z_BUF_ERROR))
        *error = TRUNCATED;
    return done;
}

static int dtype_of(uint8_t code)
{
    switch (code) {
    case 0x08: return MGPU_U8;
    case 0x09: return MGPU_I8;
    case 0x0B: return MGPU_I16;
    case 0x0C: return MGPU_I32;
    case 0x0D: return MGPU_F32;
    case 0x0E: return MGPU_F64;
    default: return -1;
    }
}

void mgpu_swap_bytes(void *data, int64_t count, int64_t bytes)
{
    uint8_t *p = data;
    for (int64_t i = 0; bytes > 1 && i < count; i++, p += bytes)
        for (int64_t low = 0, high = bytes - 1; low < high; low++, high--) {
            uint8_t b = p[low];
            p[low] = p[high];
            p[high] = b;
        }
}

static uint32_t big_endian(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static void read_header(const IdxSource *s, Array *a)
{
    uint8_t head[4] = {0}, axes[4 * 256];
    const char *error;
    int64_t n = read_bytes(s, head, 4, &error);
    if (n == 0 && !error)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file is empty", s->where, s->path);
    int dtype = dtype_of(head[2]);
    if (error && n < 4)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", s->where, s->path, error);
    if (n < 4 || head[0] || head[1] || dtype < 0)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: not an IDX file: it begins with the bytes %02x %02x %02x %02x; IDX begins with 00 00, a type of "
                  "08 09 0b 0c 0d 0e and the number of axes",
                  s->where, s->path, head[0], head[1], head[2], head[3]);
    int rank = head[3];
    if (rank < 1 || rank > MGPU_MAX_RANK + 1)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: an IDX file of %d axes; 1 to %d are possible", s->where, s->path, rank,
                  MGPU_MAX_RANK + 1);
    if (read_bytes(s, axes, 4 * rank, &error) < 4 * rank)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s: it ends within its header", s->where, s->path, error ? error : TRUNCATED);
    a->dtype = (uint8_t)dtype;
    a->rank = rank - 1;
    a->samples = big_endian(axes);
    a->sample_bytes = mgpu_dtype_bytes(a->dtype);
    for (int i = 0; i < a->rank; i++) {
        a->extent[i] = big_endian(axes + 4 * (i + 1));
        if (__builtin_mul_overflow(a->sample_bytes, a->extent[i], &a->sample_bytes) || a->sample_bytes > INT64_MAX / 2)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: by its header the file holds more than 2^62 bytes; it is damaged", s->where,
                      s->path);
    }
    if (a->sample_bytes == 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: by its header a sample has no elements; the file is damaged", s->where, s->path);
}

/* Returns true if the elements are mapped. */
static bool map_elements(const IdxSource *s, Array *a, int64_t bytes)
{
    FileBytes file;
    int64_t header = 4 + 4 * (a->rank + 1);
    if (mgpu_dtype_bytes(a->dtype) != 1)
        return false;
    mgpu_map_file(&file, s->path, s->where);
    if (file.bytes != header + bytes || !file.map) {
        mgpu_close_file(&file);
        return false; /* the caller reports what is wrong */
    }
    a->data = file.data + header;
    a->map = file.map;
    a->map_bytes = (size_t)file.bytes;
    return true;
}

static void read_elements(const IdxSource *s, Array *a, bool load)
{
    int64_t bytes, done = 0, capacity = 0;
    if (__builtin_mul_overflow(a->sample_bytes, a->samples, &bytes))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: by its header the file holds more than 2^63 bytes; it is damaged", s->where, s->path);
    if (!gzdirect(s->file))
        mgpu_check_unpacked(s->packed, bytes, s->path, s->where);
    else if (!load && map_elements(s, a, bytes))
        return;
    const char *error = NULL;
    uint8_t *data = NULL;
    do {
        capacity = capacity ? capacity + capacity / 2 : 1 << 26;
        capacity = capacity < bytes ? capacity : bytes;
        data = mgpu_resize(data, (size_t)capacity);
        done += read_bytes(s, data + done, capacity - done, &error);
    } while (done == capacity && capacity < bytes);
    a->data = a->owned = data;
    if (done < bytes)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s: by its header it has %lld samples (%lld bytes), %lld bytes are there", s->where,
                  s->path, error ? error : TRUNCATED, (long long)a->samples, (long long)bytes, (long long)done);
    uint8_t more;
    if (read_bytes(s, &more, 1, &error) || error)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", s->where, s->path,
                  error ? error : "bytes follow the last sample; the file is damaged");
    mgpu_swap_bytes(data, bytes / mgpu_dtype_bytes(a->dtype), mgpu_dtype_bytes(a->dtype));
}

void mgpu_read_idx(Array *a, const char *path, const char *where, bool load)
{
    IdxSource s = {.path = path, .where = where};
    s.file = mgpu_open_packed(path, where, &s.packed);
    *a = (Array){0};
    read_header(&s, a);
    if (a->samples == 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the file holds no samples", where, path);
    read_elements(&s, a, load);
    gzclose(s.file);
}

Stream *mgpu_open_idx(const Opening *o)
{
    bool load = mgpu_find_option(o->call, "cache") != NULL;
    Stream *s = mgpu_array_stream(o, o->column_count);
    for (int c = 0; c < o->column_count; c++) {
        const mgpu_column *column = &o->columns[c];
        char *where = mgpu_format("%s:%d: ", o->program->model_file, column->line);
        char *path = mgpu_find_file(column->texts[0], o->folder, where);
        Array a;
        mgpu_read_idx(&a, path, where, load);
        mgpu_set_array(s, c, column->name, mgpu_column_input(o, column), &a, path, where);
        free(path);
        free(where);
    }
    return s;
}
