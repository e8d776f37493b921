/* windows.c: the readers tokens, characters and text: a sequence -> windows of the length of the model's inputs.
 *
 * Sample i is the window that begins at index i * stride of the sequence; the default stride is the length. Column `token` has
 * its elements, `next` has those one place further. Elements at the end that fill no window are not read. part(a, b) splits the
 * sequence by index, so that windows of different parts do not overlap.
 *
 * tokens: a file of whole numbers, little-endian, after a header of the given size, or a .npy file of one axis. characters: text
 * in UTF-8; its characters are words in order of their code points. Plain files are mapped; text beyond ASCII is decoded in
 * memory. text: the tokens of a vocabulary (bpe.c), in memory. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>

typedef struct Windows {
    char *path;
    const char *unit; /* "token" */
    FileBytes file;
    Array array;         /* array of a .npy file, which is used instead of `file` */
    const uint8_t *data; /* elements */
    void *decoded;       /* NULL if data is in the file */
    uint8_t dtype;
    int64_t element, count; /* bytes of an element; number of elements */
    int64_t begin, end;     /* range to be read */
    int64_t length, stride;
    int next[2]; /* for each column: 0 token, 1 next */
    Words words;
} Windows;

static void read_windows(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    (void)r;
    const Windows *w = s->state;
    for (int c = 0; c < s->column_count; c++) {
        items[c].dtype = w->dtype;
        items[c].rank = 1;
        items[c].extent[0] = w->length;
        items[c].data = w->data + (w->begin + sample * w->stride + w->next[c]) * w->element;
    }
}

static void describe_windows(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Windows *w = s->state;
    snprintf(text, capacity, "%s: the window at %s %lld", w->path, w->unit,
             (long long)(w->begin + sample * w->stride + w->next[column]));
}

static void count_windows(Stream *s)
{
    const Windows *w = s->state;
    int64_t places = w->end - w->begin - w->length; /* places where a window with one more element fits */
    if (places < 1)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %lld %ss%s are too few for one window of %lld and the %s after it", s->where, w->path,
                  (long long)(w->end - w->begin), w->unit, w->end - w->begin < w->count ? " of this part" : "",
                  (long long)w->length, w->unit);
    s->samples = (places - 1) / w->stride + 1;
}

static void narrow_windows(Stream *s, double from, double to)
{
    Windows *w = s->state;
    int64_t begin = (int64_t)(from * (double)w->count), end = (int64_t)(to * (double)w->count);
    w->begin = begin > w->begin ? begin : w->begin;
    w->end = end < w->end ? end : w->end;
    count_windows(s);
}

static void close_windows(Stream *s)
{
    Windows *w = s->state;
    for (int64_t k = 0; k < w->words.count; k++)
        free(w->words.text[k]);
    free(w->words.text);
    free(w->decoded);
    free(w->path);
    mgpu_close_file(&w->file);
    mgpu_free_array(&w->array);
    free(w);
}

static Stream *new_windows(const Opening *o, const char *unit)
{
    Stream *s = mgpu_new_stream(o, o->column_count);
    Windows *w = s->state = mgpu_allocate(1, sizeof *w);
    w->unit = unit;
    w->path = mgpu_find_file(mgpu_option_text(o->call, "file", ""), o->folder, o->where);
    mgpu_load_file(&w->file, w->path, o->where, mgpu_find_option(o->call, "cache") != NULL);
    w->data = w->file.data;
    s->read = read_windows;
    s->describe = describe_windows;
    s->narrow = narrow_windows;
    s->close = close_windows;
    return s;
}

/* Completes the stream when the elements are known. */
static Stream *finish(Stream *s, const Opening *o, uint8_t dtype, int64_t count)
{
    Windows *w = s->state;
    w->dtype = dtype;
    w->element = mgpu_dtype_bytes(dtype);
    w->count = w->end = count;
    for (int c = 0; c < o->column_count; c++) {
        const mgpu_input *in = mgpu_column_input(o, &o->columns[c]);
        w->length = in ? in->tensor.extent[0] : 1;
        w->next[c] = strcmp(o->columns[c].name, "next") == 0;
        s->columns[c] = (StreamColumn){.name = o->columns[c].name,
                                       .uniform = true,
                                       .dtype = dtype,
                                       .rank = 1,
                                       .extent = {w->length},
                                       .words = w->words.count ? &w->words : NULL,
                                       .input = in};
    }
    w->stride = (int64_t)mgpu_option_number(o->call, "stride", (double)w->length);
    count_windows(s);
    return s;
}

/* ---- tokens */
/* Formats that are not plain numbers. */
static const struct Format {
    const char *begin, *what;
} FORMATS[] = {
    {"PK\3\4", "a zip or .npz archive, whose arrays are read as .npy files when it is unpacked"},
    {"PAR1", "a Parquet table"},
    {"ARROW1", "an Arrow table"},
    {"\x89HDF", "an HDF5 file"},
    {"MMIDIDX", "the index of a data set of Megatron-LM; its tokens are in the .bin file beside it"},
    {"\x88\xd8\x34\x01", "a file of llm.c: header = 1024 leaves out what comes before its tokens"},
};

static void check_format(const Windows *w, const char *where)
{
    const char *what = mgpu_compressed_by(w->file.data, w->file.bytes);
    for (int i = 0; i < MGPU_COUNT(FORMATS) && !what; i++) {
        size_t length = strlen(FORMATS[i].begin);
        if (w->file.bytes >= (int64_t)length && memcmp(w->file.data, FORMATS[i].begin, length) == 0)
            what = FORMATS[i].what;
    }
    if (what)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s is %s; tokens(...) reads whole numbers without a header, and .npy files", where, w->path,
                  what);
}

/* Returns the number of tokens. *dtype is the option `type` before, if given, and the file's type after. */
static int64_t read_array(Windows *w, const Opening *o, uint8_t *dtype)
{
    mgpu_close_file(&w->file);
    w->file = (FileBytes){0};
    mgpu_read_npy(&w->array, w->path, o->where, false, mgpu_find_option(o->call, "cache") != NULL, NULL);
    const char *is = mgpu_dtype_name(w->array.dtype);
    if (w->array.rank || mgpu_dtype_is_float(w->array.dtype) || w->array.dtype == MGPU_BOOL)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: an array %s of %d axes; tokens are whole numbers in an array of one axis", o->where,
                  w->path, is, w->array.rank + 1);
    if (mgpu_find_option(o->call, "type") && w->array.dtype != *dtype)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the array is %s, and the data block says type = %s; a .npy file needs no type", o->where,
                  w->path, is, mgpu_dtype_name(*dtype));
    *dtype = w->array.dtype;
    w->data = w->array.data;
    return w->array.samples;
}

Stream *mgpu_open_tokens(const Opening *o)
{
    static const uint8_t TYPES[] = {MGPU_U8, MGPU_U16, MGPU_U32, MGPU_I32, MGPU_I64};
    const char *type = mgpu_option_text(o->call, "type", "u16");
    uint8_t dtype = MGPU_U16;
    for (int i = 0; i < MGPU_COUNT(TYPES); i++)
        if (strcmp(mgpu_dtype_name(TYPES[i]), type) == 0)
            dtype = TYPES[i];
    Stream *s = new_windows(o, "token");
    Windows *w = s->state;
    if (w->file.bytes >= 6 && memcmp(w->file.data, "\x93NUMPY", 6) == 0) {
        int64_t count = read_array(w, o, &dtype);
        return finish(s, o, dtype, count);
    }
    int64_t bytes = mgpu_dtype_bytes(dtype), header = (int64_t)mgpu_option_number(o->call, "header", 0),
            rest = w->file.bytes - header;
    if (!header)
        check_format(w, o->where);
    if (rest < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: header = %lld, and the file has %lld bytes", o->where, w->path, (long long)header,
                  (long long)w->file.bytes);
    if (rest % bytes)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: %lld bytes are no whole number of tokens of type %s; type = u8, u16, u32, i32 or i64 says what a "
                  "token is",
                  o->where, w->path, (long long)rest, type);
    w->data += header;
    return finish(s, o, dtype, rest / bytes);
}

/* ---- characters */
static void add_word(Words *words, const uint8_t *text, int length)
{
    if ((words->count & (words->count - 1)) == 0)
        words->text = mgpu_resize(words->text, (size_t)(words->count ? 2 * words->count : 1) * sizeof *words->text);
    words->text[words->count++] = mgpu_format("%.*s", length, (const char *)text);
}

/* In ASCII, bytes are the characters' numbers. */
static bool read_ascii(Windows *w)
{
    bool seen[256] = {false};
    for (int64_t i = 0; i < w->file.bytes; i++)
        seen[w->data[i]] = true;
    for (int c = 0x80; c < 0x100; c++)
        if (seen[c])
            return false;
    w->words.text = mgpu_allocate(0x80, sizeof *w->words.text);
    w->words.count = 0x80;
    w->words.places = true;
    for (int c = 0; c < 0x80; c++)
        w->words.text[c] = seen[c] ? mgpu_format("%c", c) : NULL;
    return true;
}

/* Replaces characters by numbers in order of appearance. */
static int64_t read_unicode(Windows *w, const char *where, uint8_t *dtype)
{
    enum { CODES = 0x110000 };
    const uint8_t *text = w->data;
    uint32_t *number = mgpu_allocate(CODES, sizeof *number), code; /* + 1; 0: not seen yet */
    int64_t count = 0;
    for (int64_t i = 0, length; i < w->file.bytes; i += length, count++) {
        length = mgpu_decode_utf8(text, w->file.bytes, i, &code);
        if (!length)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: byte %lld (0x%02x) is not UTF-8; tokens(file, type = u8) reads bytes", where,
                      w->path, (long long)i, text[i]);
        if (!number[code]) {
            add_word(&w->words, text + i, (int)length);
            number[code] = (uint32_t)w->words.count;
        }
    }
    *dtype = w->words.count <= 256 ? MGPU_U8 : w->words.count <= 65536 ? MGPU_U16 : MGPU_U32;
    int64_t element = mgpu_dtype_bytes(*dtype), at = 0;
    uint8_t *to = w->decoded = mgpu_allocate((size_t)count, (size_t)element);
    for (int64_t i = 0; i < w->file.bytes; at++) {
        i += mgpu_decode_utf8(text, w->file.bytes, i, &code);
        mgpu_from_double(to, *dtype, at, number[code] - 1.0);
    }
    free(number);
    mgpu_close_file(&w->file);
    w->data = to;
    return count;
}

Stream *mgpu_open_characters(const Opening *o)
{
    Stream *s = new_windows(o, "character");
    Windows *w = s->state;
    uint8_t dtype = MGPU_U8;
    int64_t count = read_ascii(w) ? w->file.bytes : read_unicode(w, o->where, &dtype);
    return finish(s, o, dtype, count);
}

/* ---- text */
Stream *mgpu_open_text(const Opening *o)
{
    Stream *s = new_windows(o, "token");
    Windows *w = s->state;
    uint8_t dtype;
    int64_t count;
    Vocabulary *v = mgpu_open_vocabulary(o->call, o->folder, o->where);
    w->data = w->decoded = mgpu_encode_text(v, w->file.data, w->file.bytes, &dtype, &count);
    mgpu_close_vocabulary(v);
    mgpu_close_file(&w->file);
    return finish(s, o, dtype, count);
}
