/* The parts of the runtime that read and write: element types, JSON, IDX, .npy, safetensors; and the order of samples and
 * the all-reduce. What ends the program is tried in a child, whose message is read. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/host/reduce.h"
#include "runtime/save/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

static const char *folder; /* of this test's files */
static int failed;

static void say(const char *name, bool good)
{
    printf(good ? "ok %s\n" : "not ok %s: see its case\n", name);
    failed += !good;
    fflush(stdout);
}

static char *path_of(const char *name) { return mgpu_format("%s/%s", folder, name); }

static void write_bytes(const char *name, const void *bytes, size_t count)
{
    char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, count, f) != count || fclose(f))
        mgpu_fail(3, "%s: %s", path, strerror(errno));
    free(path);
}

/* the reader must end the program with status 1 and say what holds `message` */
static void refuses(const char *name, void (*reader)(const char *path), const char *file, const char *message)
{
    fflush(stdout);
    int ends[2];
    char text[4096] = "", *path = path_of(file);
    if (pipe(ends) != 0)
        mgpu_fail(3, "pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        reader(path);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(text, message);
    if (!good)
        printf("# status %d, said: %s\n", WEXITSTATUS(status), text);
    say(name, good);
    free(path);
}

/* ---- element types */
static void test_dtypes(void)
{
    static const struct {
        double value;
        uint16_t half;
    } HALVES[] = {{0, 0},
                  {1, 0x3c00},
                  {-2, 0xc000},
                  {65504, 0x7bff},
                  {65520, 0x7c00},
                  {65519, 0x7bff},
                  {0x1p-14, 0x0400},
                  {0x1p-24, 1},
                  {0x1p-25, 0},
                  {0x1.8p-24, 2},
                  {0.1, 0x2e66},
                  {1 + 0x1p-11, 0x3c00},
                  {1 + 0x1.8p-10, 0x3c02},
                  {2047.5, 0x6800},
                  {INFINITY, 0x7c00},
                  {0x1.ff8p-15, 0x03ff},
                  {0x1.ffcp-15, 0x0400},
                  {0x1.fffp-15, 0x0400}};
    bool good = true;
    for (int i = 0; i < MGPU_COUNT(HALVES); i++) {
        uint16_t h;
        mgpu_from_double(&h, MGPU_F16, 0, HALVES[i].value);
        if (h != HALVES[i].half)
            printf("# %g gives %04x, %04x expected\n", HALVES[i].value, h, HALVES[i].half);
        good = good && h == HALVES[i].half;
    }
    say("dtype/to-half", good);
    good = true;
    for (uint32_t i = 0; i < 0x10000; i++) {
        uint16_t h = (uint16_t)i, half, bfloat;
        mgpu_from_double(&half, MGPU_F16, 0, mgpu_to_double(&h, MGPU_F16, 0));
        mgpu_from_double(&bfloat, MGPU_BF16, 0, mgpu_to_double(&h, MGPU_BF16, 0));
        good = good && (half == h || (h & 0x7fff) > 0x7c00) && (bfloat == h || (h & 0x7fff) > 0x7f80);
    }
    say("dtype/all-halves-there-and-back", good);
    uint8_t small[3];
    int64_t bad = -1;
    mgpu_convert(small, MGPU_U8, (double[]){-3, 300, NAN}, MGPU_F64, 3);
    say("dtype/bounds", small[0] == 0 && small[1] == 255 && small[2] == 0);
    say("dtype/fit", mgpu_values_fit((int32_t[]){0, 255}, MGPU_I32, 2, MGPU_U8, &bad) &&
                         !mgpu_values_fit((int32_t[]){0, 256}, MGPU_I32, 2, MGPU_U8, &bad) && bad == 1);
}

/* ---- JSON */
static void test_json(void)
{
    static const char *const GOOD[] = {"0",
                                       "-1.5e+3",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       " [ 1 , [ ] , {\"a\":null} ] ",
                                       "{\"a\":{\"b\":[true,false]}}",
                                       "\"\\u00e4\\ud83d\\ude00\\n\""};
    static const char *const BAD[] = {"",    "01",          "1.", "[1,]", "{\"a\"}", "{a:1}", "\"\\x\"",    "\"\n\"", "[1] 2",
                                      "nul", "\"\\ud800\"", "[",  "-",    "1e",      "\"abc", "{\"a\":1,}", "+1",     "[1 2]"};
    const char *error = NULL;
    for (int i = 0; i < MGPU_COUNT(GOOD); i++) {
        Json *json = mgpu_json_read(GOOD[i], strlen(GOOD[i]), &error);
        char *name = mgpu_format("json/takes/%d", i);
        say(name, json != NULL);
        free(json);
        free(name);
    }
    for (int i = 0; i < MGPU_COUNT(BAD); i++) {
        error = NULL;
        Json *json = mgpu_json_read(BAD[i], strlen(BAD[i]), &error);
        char *name = mgpu_format("json/refuses/%d", i);
        say(name, !json && error);
        free(name);
    }
    char deep[2000];
    memset(deep, '[', sizeof deep);
    say("json/deep", !mgpu_json_read(deep, sizeof deep, &error));
    static const char TEXT[] = "{\"a\":9007199254740993,\"b\":\"\\u00e4\\ud83d\\ude00\"}";
    Json *json = mgpu_json_read(TEXT, sizeof TEXT - 1, &error);
    int64_t n = 0;
    say("json/values", json && mgpu_json_whole(mgpu_json_member(json, "a"), &n) && n == 9007199254740993 &&
                           strcmp(mgpu_json_member(json, "b")->text, "\xc3\xa4\xf0\x9f\x98\x80") == 0);
    free(json);
    static const struct {
        const char *text;
        bool whole;
        int64_t value;
    } WHOLE[] = {{"9223372036854775807", true, INT64_MAX},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"9223372036854775808", false, 0},
                 {"-9223372036854775809", false, 0},
                 {"18446744073709551616", false, 0},
                 {"1.0", false, 0},
                 {"1e3", false, 0}};
    for (int i = 0; i < MGPU_COUNT(WHOLE); i++) {
        char *name = mgpu_format("json/whole %s", WHOLE[i].text);
        n = 0;
        json = mgpu_json_read(WHOLE[i].text, strlen(WHOLE[i].text), &error);
        say(name, json && mgpu_json_whole(json, &n) == WHOLE[i].whole && n == WHOLE[i].value);
        free(json);
        free(name);
    }

    /* bytes that are no UTF-8 (a lone byte, half a character, one that is longer than need be, half of a pair) are escaped, and
     * the escapes of mgpu_json_write_bytes are these bytes again */
    static const char BYTES[] = "\xe9 \xc3 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc3\xa9\x1f";
    for (int keep = 0; keep < 2; keep++) {
        char *text;
        size_t length;
        FILE *f = mgpu_begin_text(&text, &length);
        (keep ? mgpu_json_write_bytes : mgpu_json_write_text)(f, BYTES);
        mgpu_end_text(f);
        json = mgpu_json_read(text, length, &error);
        char *rest = strstr(text, " \xc3\xa9\\u001f\"");
        if (rest)
            rest[1] = rest[2] = 'e';
        bool ascii = true;
        for (size_t i = 0; i < length; i++)
            ascii = ascii && (unsigned char)text[i] < 0x80;
        say(keep ? "json/bytes" : "json/text", json && rest && ascii && (strcmp(json->text, BYTES) == 0) == keep);
        free(json);
        free(text);
    }
}

/* ---- IDX */
static void read_idx(const char *path)
{
    Array a;
    mgpu_read_idx(&a, path, "m.net:3: ", false);
    mgpu_free_array(&a);
}

static void write_gzip(const char *name, const void *bytes, unsigned count)
{
    char *path = path_of(name);
    gzFile f = gzopen(path, "wb");
    if (!f || gzwrite(f, bytes, count) != (int)count || gzclose(f) != Z_OK)
        mgpu_fail(3, "%s cannot be written", path);
    free(path);
}

static bool holds(const char *name, uint8_t dtype, int rank, int64_t samples, const double *values, int count)
{
    Array a;
    char *path = path_of(name);
    mgpu_read_idx(&a, path, "", false);
    bool good = a.dtype == dtype && a.rank == rank && a.samples == samples;
    for (int i = 0; good && i < count; i++)
        good = mgpu_to_double(a.data, a.dtype, i) == values[i];
    mgpu_free_array(&a);
    free(path);
    return good;
}

static void test_idx(void)
{
    static const uint8_t BYTES[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255};
    static const uint8_t SHORTS[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0};
    static const uint8_t INTS[] = {0, 0, 0x0c, 1, 0, 0, 0, 1, 0, 1, 0, 2};
    static const uint8_t FLOATS[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
    write_bytes("bytes", BYTES, sizeof BYTES);
    write_gzip("bytes.gz", BYTES, sizeof BYTES);
    write_bytes("shorts", SHORTS, sizeof SHORTS);
    write_bytes("ints", INTS, sizeof INTS);
    write_bytes("floats", FLOATS, sizeof FLOATS);
    say("idx/u8", holds("bytes", MGPU_U8, 1, 2, (double[]){1, 2, 3, 4, 5, 255}, 6));
    say("idx/gzip", holds("bytes.gz", MGPU_U8, 1, 2, (double[]){1, 2, 3, 4, 5, 255}, 6));
    say("idx/i16", holds("shorts", MGPU_I16, 0, 2, (double[]){-2, 256}, 2));
    say("idx/i32", holds("ints", MGPU_I32, 0, 1, (double[]){65538}, 1));
    say("idx/f32", holds("floats", MGPU_F32, 0, 1, (double[]){1.5}, 1));
    write_bytes("short", BYTES, sizeof BYTES - 1);
    write_bytes("long", FLOATS, sizeof FLOATS);
    write_bytes("empty", "", 0);
    write_bytes("magic", "\1\2\3\4\5\6", 6);
    write_bytes("none", "\0\0\10\1\0\0\0\0", 8);
    write_bytes("axes", "\0\0\10\12\0\0\0\1", 8);
    write_bytes("head", BYTES, 10);
    write_bytes("huge", "\0\0\16\5\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", 24);
    write_bytes("lies", "\0\0\10\3\377\377\377\377\0\0\1\0\0\0\1\0\1", 17);
    uint8_t more[sizeof BYTES + 1] = {0};
    memcpy(more, BYTES, sizeof BYTES);
    write_bytes("more", more, sizeof more);
    refuses("idx/truncated", read_idx, "short", "m.net:3: ");
    refuses("idx/truncated-numbers", read_idx, "short", "by its header it has 2 samples (6 bytes), 5 bytes are there");
    refuses("idx/bytes-behind", read_idx, "more", "bytes follow the last sample");
    refuses("idx/empty", read_idx, "empty", "the file is empty");
    refuses("idx/magic", read_idx, "magic", "not an IDX file");
    refuses("idx/no-samples", read_idx, "none", "no samples");
    refuses("idx/axes", read_idx, "axes", "10 axes");
    refuses("idx/header", read_idx, "head", "it ends within its header");
    refuses("idx/huge", read_idx, "huge", "more than 2^6");
    refuses("idx/lying-header", read_idx, "lies", "by its header it has 4294967295 samples");
    refuses("idx/missing", read_idx, "nothing-here", "No such file");
    uint8_t noise[4000], packed[5000]; /* so that the compressed file is long enough to be cut */
    for (int i = 0; i < (int)sizeof noise; i++)
        noise[i] = (uint8_t)((unsigned)i * 2654435761u >> 13);
    memcpy(noise, "\0\0\10\1\0\0\17\230", 8);
    write_gzip("noise.gz", noise, sizeof noise);
    char *path = path_of("noise.gz");
    FILE *f = fopen(path, "rb");
    size_t length = f ? fread(packed, 1, sizeof packed, f) : 0;
    if (f)
        fclose(f);
    free(path);
    write_bytes("cut.gz", packed, length / 2);
    refuses("idx/truncated-gzip", read_idx, "cut.gz", "cut.gz: the file is truncated");
    refuses("idx/truncated-gzip-once", read_idx, "cut.gz", "bytes are there\n");
    packed[length / 2] ^= 0x55;
    write_bytes("broken.gz", packed, length);
    refuses("idx/broken-gzip", read_idx, "broken.gz", "broken.gz: ");
}

/* ---- npy */
static void read_npy(const char *path)
{
    Array a;
    mgpu_read_npy(&a, path, "", false, false, NULL);
    mgpu_free_array(&a);
}

static void test_npy(void)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    char *path = path_of("a.npy");
    FILE *f = fopen(path, "wb");
    mgpu_write_npy(f, MGPU_F32, 2, (int64_t[]){2, 3}, values);
    fclose(f);
    Array a;
    mgpu_read_npy(&a, path, "", false, false, NULL);
    say("npy/samples",
        a.dtype == MGPU_F32 && a.rank == 1 && a.samples == 2 && a.extent[0] == 3 && memcmp(a.data, values, sizeof values) == 0);
    mgpu_free_array(&a);
    mgpu_read_npy(&a, path, "", true, false, NULL);
    say("npy/one-sample", a.rank == 2 && a.samples == 1);
    mgpu_free_array(&a);
    static const char BIG[] = "\x93NUMPY\1\0\x40\0"
                              "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }      \n\0\1\1\0";
    write_bytes("big.npy", BIG, sizeof BIG - 1);
    free(path);
    path = path_of("big.npy");
    mgpu_read_npy(&a, path, "", false, false, NULL);
    say("npy/big-endian", a.samples == 2 && mgpu_to_double(a.data, a.dtype, 0) == 1 && mgpu_to_double(a.data, a.dtype, 1) == 256);
    mgpu_free_array(&a);
    free(path);
    write_bytes("short.npy", BIG, sizeof BIG - 2);
    write_bytes("junk.npy", "junkjunkjunk", 12);
    refuses("npy/truncated", read_npy, "short.npy", "has 4 bytes of elements");
    refuses("npy/magic", read_npy, "junk.npy", "not a .npy file");
}

/* ---- safetensors */
static void list_elements(void *context, int i, mgpu_range elements)
{
    char *to = (char *)context + strlen(context);
    snprintf(to, 20, "%d[%d,%d) ", i, (int)elements.begin, (int)elements.end);
}

static void read_safetensors(const char *path)
{
    TensorFile file;
    mgpu_open_weights(&file, path);
    mgpu_close_tensors(&file);
}

static void write_raw(const char *name, const char *header, int data_bytes)
{
    uint8_t bytes[1000] = {0};
    size_t length = strlen(header);
    bytes[0] = (uint8_t)length;
    memcpy(bytes + 8, header, length);
    write_bytes(name, bytes, 8 + length + (size_t)data_bytes);
}

/* from whichever element it begins: a process reads and writes its part of a tensor */
static void test_strided(void)
{
    Strided all = {.rank = 3, .extent = {2, 3, 4}, .stride = {1, 8, 2}};
    bool good = true;
    for (int begin = 0; begin < 24; begin++) {
        Strided s = all;
        mgpu_strided_begin(&s, begin);
        for (int i = begin; i < 24; i++, mgpu_strided_next(&s))
            good = good && s.offset == i / 12 + i / 4 % 3 * 8 + i % 4 * 2;
    }
    say("strided/from-each-element", good);
}

static void test_safetensors(void)
{
    SavedTensor tensors[3] = {{.tensor = {"u", MGPU_U8, 1, {3}}},
                              {.tensor = {"w \"quoted\"", MGPU_F64, 2, {2, 1}}},
                              {.tensor = {"b", MGPU_F32, 2, {2, 3}}}};
    double w[2] = {1.5, -2};
    float b[6] = {1, 2, 3, 4, 5, 6};
    const void *data[3] = {"abc", w, b};
    char *path = path_of("a.safetensors");
    FILE *f = fopen(path, "wb");
    FileLayout l = mgpu_lay_out(tensors, 3, &(FileMetadata){42, NULL});
    fwrite(l.header, 1, (size_t)l.header_bytes, f);
    for (int k = 0; k < l.count; k++)
        fwrite(data[l.order[k]], 1, (size_t)mgpu_tensor_bytes(&tensors[l.order[k]].tensor), f);
    fclose(f);
    char parts[100] = "";
    mgpu_each_tensor(&l, (mgpu_range){0, l.header_bytes + 8}, list_elements, parts);
    mgpu_each_tensor(&l, (mgpu_range){l.header_bytes + 8, l.header_bytes + 24}, list_elements, parts);
    mgpu_each_tensor(&l, (mgpu_range){l.header_bytes + 24, l.bytes}, list_elements, parts);
    say("safetensors/in-pieces", strcmp(parts, "1[0,1) 1[1,2) 2[0,2) 2[2,6) 0[0,3) ") == 0 && l.header_bytes % 8 == 0);
    mgpu_close_layout(&l);
    TensorFile file;
    mgpu_open_weights(&file, path);
    const SavedTensor *u = mgpu_find_tensor(&file, "u"), *found = mgpu_find_tensor(&file, "w \"quoted\"");
    const SavedTensor *last = mgpu_find_tensor(&file, "b");
    say("safetensors/there-and-back", file.count == 3 && file.step == 42 && u && memcmp(u->data, "abc", 3) == 0 && found &&
                                          memcmp(found->data, w, sizeof w) == 0 && (uintptr_t)found->data % 8 == 0 && last &&
                                          memcmp(last->data, b, sizeof b) == 0 && last->tensor.extent[1] == 3);
    say("safetensors/not-there", !mgpu_find_tensor(&file, "x"));
    mgpu_close_tensors(&file);
    free(path);
    write_bytes("tiny.safetensors", "abc", 3);
    write_bytes("long.safetensors", "\377\377\377\377\377\377\377\177{}", 10);
    write_raw("junk.safetensors", "hello", 0);
    write_raw("cut.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7);
    write_raw("bytes.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8);
    write_raw("type.safetensors", "{\"a\":{\"dtype\":\"F8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 8);
    write_raw("shape.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8);
    write_raw(
        "twice.safetensors",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
        8);
    refuses("safetensors/tiny", read_safetensors, "tiny.safetensors", "shorter than their headers");
    refuses("safetensors/long-header", read_safetensors, "long.safetensors", "longer than the file");
    refuses("safetensors/junk", read_safetensors, "junk.safetensors", "not a safetensors file");
    refuses("safetensors/truncated", read_safetensors, "cut.safetensors", "'a': the file is truncated");
    refuses("safetensors/bytes", read_safetensors, "bytes.safetensors", "its shape and its number of bytes differ");
    refuses("safetensors/type", read_safetensors, "type.safetensors", "element type");
    refuses("safetensors/shape", read_safetensors, "shape.safetensors", "its shape is none");
    refuses("safetensors/twice", read_safetensors, "twice.safetensors", "twice");
}

/* ---- the order of samples */
static void test_permutation(void)
{
    enum { N = 1000 };
    int64_t a[N], b[N];
    bool seen[N] = {0}, all = true, moved = false;
    mgpu_permutation(a, N, 5, 0, true);
    mgpu_permutation(b, N, 5, 0, true);
    for (int i = 0; i < N; i++) {
        all = all && a[i] >= 0 && a[i] < N && !seen[a[i]];
        seen[a[i]] = true;
        moved = moved || a[i] != i;
    }
    say("permutation/each-once", all && moved);
    say("permutation/same-again", memcmp(a, b, sizeof a) == 0);
    mgpu_permutation(b, N, 5, 1, true);
    say("permutation/other-epoch", memcmp(a, b, sizeof a) != 0);
    mgpu_permutation(b, N, 6, 0, true);
    say("permutation/other-seed", memcmp(a, b, sizeof a) != 0);
    mgpu_permutation(b, N, 5, 0, false);
    say("permutation/no-shuffle", b[0] == 0 && b[N - 1] == N - 1);
    int64_t few[6];
    mgpu_permutation(few, 6, 0, 0, true); /* part of what a run is: it must never change */
    say("permutation/pinned", memcmp(few, (int64_t[]){1, 4, 5, 2, 3, 0}, sizeof few) == 0);
}

/* ---- all-reduce */
enum { MEMBERS = 5, ELEMENTS = 3333, ROUNDS = 40 };
typedef struct Member {
    Reduction *reduction;
    int number;
    double *doubles;
    float *floats;
    uint16_t *halves;
    bool agreed;
} Member;

static bool sum_of(const Member *m, void *data, int64_t count, uint8_t dtype, int64_t tag)
{
    return mgpu_exchange(m->reduction, m->number, &(Operand){.data = data, .count = count, .dtype = dtype, .tag = tag});
}

static void *reduce(void *argument)
{
    Member *m = argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ELEMENTS; i++) {
            m->doubles[i] = sin(i + m->number + round);
            m->floats[i] = (float)m->doubles[i];
            mgpu_from_double(m->halves, MGPU_F16, i, i % 7 + m->number);
        }
        m->agreed = sum_of(m, m->doubles, ELEMENTS, MGPU_F64, round) && m->agreed;
        m->agreed = sum_of(m, m->floats, ELEMENTS, MGPU_F32, round) && m->agreed;
        m->agreed = sum_of(m, m->halves, 17, MGPU_F16, round) && m->agreed;
        m->agreed = sum_of(m, m->doubles, 0, MGPU_F64, round) && m->agreed;
    }
    m->agreed = m->agreed && !sum_of(m, m->doubles, 1, MGPU_F64, m->number);
    return NULL;
}

static void test_reduce(void)
{
    Member members[MEMBERS];
    pthread_t threads[MEMBERS];
    Reduction *r = mgpu_reduction_open(MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (Member){r, i, mgpu_allocate(ELEMENTS, 8), mgpu_allocate(ELEMENTS, 4), mgpu_allocate(ELEMENTS, 2), true};
        if (pthread_create(&threads[i], NULL, reduce, &members[i]) != 0)
            mgpu_fail(3, "a thread cannot be started");
    }
    bool agreed = true, sums = true, same = true;
    for (int i = 0; i < MEMBERS; i++) {
        pthread_join(threads[i], NULL);
        agreed = agreed && members[i].agreed;
    }
    for (int i = 0; i < ELEMENTS; i++) {
        double sum = 0;
        for (int m = 0; m < MEMBERS; m++)
            sum += sin(i + m + ROUNDS - 1);
        for (int m = 0; m < MEMBERS; m++) {
            sums = sums && members[m].doubles[i] == sum && fabs(members[m].floats[i] - sum) < 1e-6;
            same = same && members[m].floats[i] == members[0].floats[i];
            sums = sums && (i >= 17 || mgpu_to_double(members[m].halves, MGPU_F16, i) == MEMBERS * (i % 7) + 10);
        }
    }
    say("reduce/sums-in-order", sums);
    say("reduce/same-bits-everywhere", same);
    say("reduce/disagreement-is-noticed", agreed);
    for (int i = 0; i < MEMBERS; i++) {
        free(members[i].doubles);
        free(members[i].floats);
        free(members[i].halves);
    }
    mgpu_reduction_close(r);
}

int main(void)
{
    const char *temporary = getenv("TMPDIR");
    char *name = mgpu_format("%s/mgpu-files-test-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    folder = mkdtemp(name);
    if (!folder)
        mgpu_fail(3, "%s: %s", name, strerror(errno));
    test_dtypes();
    test_json();
    test_idx();
    test_npy();
    test_strided();
    test_safetensors();
    test_permutation();
    test_reduce();
    char *command = mgpu_format("rm -r '%s'", folder);
    if (system(command) != 0)
        failed++;
    free(command);
    free(name);
    return failed != 0;
}
