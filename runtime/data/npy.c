/* npy.c: reads and writes NumPy's .npy files (format 1.0 to 3.0); the reader npy, which also takes members of .npz files.
 *
 * Plain arrays in native byte order are mapped. A header is the text of a Python dictionary: {'descr': '<f4', 'fortran_order':
 * False, 'shape': (3, 4), }. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10 };
static const char MAGIC[] = "\x93NUMPY";

typedef struct TypeCode {
    const char *code;
    uint8_t dtype;
} TypeCode;
static const TypeCode CODES[] =
    {{"b1", MGPU_BOOL}, {"u1", MGPU_U8},  {"i1", MGPU_I8},  {"u2", MGPU_U16}, {"i2", MGPU_I16},
     {"u4", MGPU_U32},  {"i4", MGPU_I32}, {"i8", MGPU_I64}, {"f2", MGPU_F16}, {"f4", MGPU_F32},
     {"f8", MGPU_F64},  {"u8", MGPU_I64}, /* below 2^63 the bits equal those of i64: see check_unsigned */
     {"V2", MGPU_BF16}};                  /* NumPy's name for the type of ml_dtypes (JAX, TensorFlow) */

typedef struct NpySource {
    const uint8_t *data;
    int64_t bytes;
    const char *path, *where;
} NpySource;

static _Noreturn void broken(const NpySource *s, const char *what)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", s->where, s->path, what);
}

/* Returns the header, NUL-terminated. *begin is the offset of the elements. */
static char *read_header(const NpySource *s, int64_t *begin)
{
    const uint8_t *p = s->data;
    if (s->bytes < PREFIX || memcmp(p, MAGIC, 6) != 0)
        broken(s, "not a .npy file; numpy.save writes them");
    int64_t length = p[8] | p[9] << 8, prefix = p[6] >= 2 ? PREFIX + 2 : PREFIX;
    if (prefix > s->bytes)
        broken(s, "the file is truncated: it ends within its header");
    if (p[6] >= 2)
        length |= (int64_t)p[10] << 16 | (int64_t)p[11] << 24;
    if (length > 1 << 20)
        broken(s, "its header would be longer than 1 MiB; the file is damaged");
    if (prefix + length > s->bytes)
        broken(s, "the file is truncated: it ends within its header");
    char *text = mgpu_allocate((size_t)length + 1, 1);
    memcpy(text, p + prefix, (size_t)length);
    *begin = prefix + length;
    return text;
}

static const char *value_of(const NpySource *s, const char *header, const char *key)
{
    const char *at = strstr(header, key);
    at = at ? strchr(at, ':') : NULL;
    if (!at)
        broken(s, "its header lacks descr, fortran_order or shape; the file is damaged");
    return at + 1 + strspn(at + 1, " ");
}

typedef struct Coding {
    bool swapped, is_unsigned;
} Coding; /* big-endian; u8 read as i64 */

static Coding read_type(const NpySource *s, const char *header, Array *a, char **unreadable)
{
    const char *descr = value_of(s, header, "'descr'");
    if (descr[0] == '\'' && descr[1] && strchr("<>|=", descr[1]))
        for (int i = 0; i < MGPU_COUNT(CODES); i++)
            if (strncmp(descr + 2, CODES[i].code, 2) == 0 && descr[4] == '\'') {
                a->dtype = CODES[i].dtype;
                return (Coding){descr[1] == '>', strcmp(CODES[i].code, "u8") == 0};
            }
    mgpu_complain(
        unreadable,
        "%s%s: elements of the type %.*s cannot be read; b1, u1 .. u8, i1 .. i8, f2 .. f8 and bfloat16 (V2) can: array.astype('f4')",
        s->where, s->path, (int)strcspn(descr, ",}"), descr);
    return (Coding){false, false};
}

/* Returns the number of axes; `extent` gets the first of them, up to one more than a sample may have. */
static int read_shape(const NpySource *s, const char *header, int64_t extent[MGPU_MAX_RANK + 1])
{
    const char *at = value_of(s, header, "'shape'");
    int rank = 0;
    if (*at++ != '(')
        broken(s, "the shape in its header is none; the file is damaged");
    while (at += strspn(at, " ,"), *at && *at != ')') {
        char *end;
        int64_t length = strtoll(at, &end, 10);
        if (end == at || length < 0)
            broken(s, "the shape in its header is none; the file is damaged");
        if (rank <= MGPU_MAX_RANK)
            extent[rank] = length;
        rank++;
        at = end;
    }
    return rank;
}

/* Converts elements from Fortran order (first axis fastest) to C order. */
static uint8_t *transposed(const uint8_t *from, int rank, const int64_t *extent, int64_t element, int64_t bytes)
{
    uint8_t *to = mgpu_allocate((size_t)bytes, 1);
    Strided s = {.rank = rank};
    int64_t step = element;
    for (int k = 0; k < rank; k++) {
        s.extent[k] = extent[k];
        s.stride[k] = step;
        step *= extent[k];
    }
    mgpu_strided_begin(&s, 0);
    for (int64_t i = 0; i < bytes; i += element) {
        memcpy(to + i, from + s.offset, (size_t)element);
        mgpu_strided_next(&s);
    }
    return to;
}

static void check_unsigned(const NpySource *s, const Array *a)
{
    for (int64_t i = 0; i < a->samples * (a->sample_bytes / 8); i++) {
        uint64_t v;
        memcpy(&v, a->data + 8 * i, sizeof v);
        if (v > INT64_MAX)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: it holds %llu; whole numbers up to 2^63 - 1 can be read", s->where, s->path,
                      (unsigned long long)v);
    }
}

void mgpu_parse_npy(Array *a, const uint8_t *data, int64_t length, const char *path, const char *where, bool whole,
                    char **unreadable)
{
    NpySource s = {data, length, path, where};
    *a = (Array){0};
    int64_t begin;
    char *header = read_header(&s, &begin);
    Coding coding = read_type(&s, header, a, unreadable);
    bool fortran = strncmp(value_of(&s, header, "'fortran_order'"), "True", 4) == 0;
    int64_t extent[MGPU_MAX_RANK + 1] = {0};
    int rank = read_shape(&s, header, extent), first = rank && !whole; /* no axis of samples: it is one sample */
    free(header);
    if (rank - first > MGPU_MAX_RANK)
        mgpu_complain(unreadable, "%s%s: the array has more than %d axes%s", where, path, MGPU_MAX_RANK,
                      whole ? "" : " for a sample");
    if (unreadable && *unreadable)
        return;
    a->samples = first ? extent[0] : 1;
    a->rank = rank - first;
    int64_t element = mgpu_dtype_bytes(a->dtype), bytes = a->sample_bytes = element;
    for (int i = 0; i < a->rank; i++) {
        a->extent[i] = extent[i + first];
        if (__builtin_mul_overflow(a->sample_bytes, a->extent[i], &a->sample_bytes))
            broken(&s, "by its header the array has more than 2^63 bytes; the file is damaged");
    }
    if (a->samples == 0)
        broken(&s, "the file holds no samples");
    if (a->sample_bytes == 0 && !whole)
        broken(&s, "by its header a sample has no elements; the file is damaged");
    if (__builtin_mul_overflow(a->sample_bytes, a->samples, &bytes))
        broken(&s, "by its header the array has more than 2^63 bytes; the file is damaged");
    if (s.bytes - begin != bytes)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: by its header it has %lld bytes of elements, %lld are there; the file is damaged", where,
                  path, (long long)bytes, (long long)(s.bytes - begin));
    fortran = fortran && rank > 1;
    if (!coding.swapped && !fortran) {
        a->data = s.data + begin;
        if (coding.is_unsigned)
            check_unsigned(&s, a);
        return;
    }
    if (fortran) {
        a->owned = transposed(s.data + begin, rank, extent, element, bytes);
    } else {
        a->owned = mgpu_allocate((size_t)bytes, 1);
        memcpy(a->owned, s.data + begin, (size_t)bytes);
    }
    a->data = a->owned;
    if (coding.swapped)
        mgpu_swap_bytes(a->owned, bytes / element, element);
    if (coding.is_unsigned)
        check_unsigned(&s, a);
}

void mgpu_read_npy(Array *a, const char *path, const char *where, bool whole, bool load, const char *member)
{
    FileBytes file;
    mgpu_load_file(&file, path, where, load);
    if (member && file.bytes >= 2 && memcmp(file.data, "PK", 2) == 0)
        mgpu_read_member(&file, member, path, where);
    mgpu_parse_npy(a, file.member ? file.member : file.data, file.member ? file.member_bytes : file.bytes, path, where, whole,
                   NULL);
    if (a->owned) {
        mgpu_close_file(&file);
        return;
    }
    a->owned = file.owned;
    a->map = file.map;
    a->map_bytes = (size_t)file.bytes;
}

/* NumPy has no bf16: the caller converts it. */
void mgpu_write_npy(FILE *f, uint8_t dtype, int rank, const int64_t *extent, const void *data)
{
    char header[512];
    const char *code = "f4";
    for (int i = MGPU_COUNT(CODES) - 1; i >= 0; i--) /* the first code of a type is its own */
        if (CODES[i].dtype == dtype)
            code = CODES[i].code;
    int64_t elements = 1;
    int length = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          mgpu_dtype_bytes(dtype) > 1 ? '<' : '|', code);
    for (int i = 0; i < rank; i++) {
        length += snprintf(header + length, sizeof header - (size_t)length, "%lld%s", (long long)extent[i],
                           i + 1 < rank ? ", "
                           : rank == 1  ? ","
                                        : "");
        elements *= extent[i];
    }
    length += snprintf(header + length, sizeof header - (size_t)length, "), }");
    while ((PREFIX + length + 1) % 64)
        header[length++] = ' ';
    header[length++] = '\n';
    fwrite(MAGIC, 1, 6, f);
    fwrite((char[]){1, 0, (char)(length & 255), (char)(length >> 8)}, 1, 4, f);
    fwrite(header, 1, (size_t)length, f);
    fwrite(data, (size_t)mgpu_dtype_bytes(dtype), (size_t)elements, f);
}

Stream *mgpu_open_npy(const Opening *o)
{
    bool load = mgpu_find_option(o->call, "cache") != NULL;
    Stream *s = mgpu_array_stream(o, o->column_count);
    for (int c = 0; c < o->column_count; c++) {
        const mgpu_column *column = &o->columns[c];
        const mgpu_input *in = mgpu_column_input(o, column);
        char *where = mgpu_format("%s:%d: ", o->program->model_file, column->line);
        char *path = mgpu_find_file(column->texts[0], o->folder, where);
        Array a;
        mgpu_read_npy(&a, path, where, false, load, column->name);
        mgpu_set_array(s, c, column->name, in, &a, path, where);
        free(path);
        free(where);
    }
    return s;
}
