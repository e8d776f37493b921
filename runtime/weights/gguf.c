/* gguf.c: reads llama.cpp's GGUF files, versions 2 and 3, little-endian (ggml's docs/gguf.md; blocks as in its ggml-common.h).
 *
 * The header: "GGUF", version (u32), numbers of tensors and of metadata entries (u64); the metadata: key, type, value; for each
 * tensor its name, rank, extents with the fastest axis first, type, and offset from the beginning of the data, which is a
 * multiple of the alignment. Quantized tensors are unpacked to f32 when their elements are read. */
#include "runtime/base/base.h"
#include "runtime/weights/formats.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 256 }; /* elements of a block */
typedef void UnpackBlock(const uint8_t *block, float *to);

static float f16_at(const uint8_t *p)
{
    float value;
    uint8_t bits[2] = {p[0], p[1]};
    mgpu_convert(&value, MGPU_F32, bits, MGPU_F16, 1);
    return value;
}

/* ---- blocks of 32: scale d and quants q, whose value is q d; or d, offset m and q: q d + m */
static void unpack_q4_0(const uint8_t *b, float *to)
{
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)((b[2 + i] & 15) - 8) * d;
        to[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void unpack_q4_1(const uint8_t *b, float *to)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)(b[4 + i] & 15) * d + m;
        to[i + 16] = (float)(b[4 + i] >> 4) * d + m;
    }
}

/* Returns bit 4 of element i. These bits of all 32 elements precede their low bits. */
static int fifth(const uint8_t *bits, int i) { return (bits[i / 8] >> i % 8 & 1) << 4; }

static void unpack_q5_0(const uint8_t *b, float *to)
{
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)(((b[6 + i] & 15) | fifth(b + 2, i)) - 16) * d;
        to[i + 16] = (float)(((b[6 + i] >> 4) | fifth(b + 2, i + 16)) - 16) * d;
    }
}

static void unpack_q5_1(const uint8_t *b, float *to)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < 16; i++) {
        to[i] = (float)((b[8 + i] & 15) | fifth(b + 4, i)) * d + m;
        to[i + 16] = (float)((b[8 + i] >> 4) | fifth(b + 4, i + 16)) * d + m;
    }
}

static void unpack_q8_0(const uint8_t *b, float *to)
{
    float d = f16_at(b);
    for (int i = 0; i < 32; i++)
        to[i] = (float)(int8_t)b[2 + i] * d;
}

/* ---- blocks of 256 in eight groups of 32 with a scale and a minimum of six bits each; Q6_K: sixteen groups with a scale of
 * eight bits */
static void scale_of_group(const uint8_t *scales, int group, int *scale, int *least)
{
    if (group < 4) {
        *scale = scales[group] & 63;
        *least = scales[group + 4] & 63;
    } else {
        *scale = (scales[group + 4] & 15) | scales[group - 4] >> 6 << 4;
        *least = scales[group + 4] >> 4 | scales[group] >> 6 << 4;
    }
}

static void unpack_k(const uint8_t *b, const uint8_t *fifths, const uint8_t *quants, float *to)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int group = 0; group < 8; group++) {
        int scale, least;
        scale_of_group(b + 4, group, &scale, &least);
        float each = d * (float)scale, below = m * (float)least;
        for (int i = 0; i < 32; i++) {
            int q = quants[group / 2 * 32 + i] >> group % 2 * 4 & 15;
            if (fifths)
                q |= (fifths[i] >> group & 1) << 4;
            to[group * 32 + i] = each * (float)q - below;
        }
    }
}

static void unpack_q4_k(const uint8_t *b, float *to) { unpack_k(b, NULL, b + 16, to); }
static void unpack_q5_k(const uint8_t *b, float *to) { unpack_k(b, b + 16, b + 48, to); }

static void unpack_q6_k(const uint8_t *b, float *to)
{
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    float d = f16_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        int q = low[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
        q |= (high[half * 32 + at] >> 2 * quarter & 3) << 4;
        to[i] = d * (float)(int8_t)scales[i / 16] * (float)(q - 32);
    }
}

static const struct Packing {
    uint32_t code;
    const char *name;
    uint8_t dtype;       /* type of the unpacked elements */
    int elements, bytes; /* per block */
    UnpackBlock *unpack; /* NULL if the elements are not packed */
} PACKINGS[] = {{0, "F32", MGPU_F32, 1, 4, NULL},
                {1, "F16", MGPU_F16, 1, 2, NULL},
                {30, "BF16", MGPU_BF16, 1, 2, NULL},
                {28, "F64", MGPU_F64, 1, 8, NULL},
                {24, "I8", MGPU_I8, 1, 1, NULL},
                {25, "I16", MGPU_I16, 1, 2, NULL},
                {26, "I32", MGPU_I32, 1, 4, NULL},
                {27, "I64", MGPU_I64, 1, 8, NULL},
                {2, "Q4_0", MGPU_F32, 32, 18, unpack_q4_0},
                {3, "Q4_1", MGPU_F32, 32, 20, unpack_q4_1},
                {6, "Q5_0", MGPU_F32, 32, 22, unpack_q5_0},
                {7, "Q5_1", MGPU_F32, 32, 24, unpack_q5_1},
                {8, "Q8_0", MGPU_F32, 32, 34, unpack_q8_0},
                {12, "Q4_K", MGPU_F32, 256, 144, unpack_q4_k},
                {13, "Q5_K", MGPU_F32, 256, 176, unpack_q5_k},
                {14, "Q6_K", MGPU_F32, 256, 210, unpack_q6_k}};

static void read_blocks(const SavedTensor *t, mgpu_range elements, uint8_t *to)
{
    const struct Packing *p = &PACKINGS[t->packing];
    float block[LONGEST];
    for (int64_t at = elements.begin; at < elements.end;) {
        int64_t begin = at % p->elements, end = p->elements;
        end = end < begin + elements.end - at ? end : begin + elements.end - at;
        p->unpack(t->data + at / p->elements * p->bytes, block);
        memcpy(to, block + begin, (size_t)(end - begin) * sizeof *block);
        to += (end - begin) * (int64_t)sizeof *block;
        at += end - begin;
    }
}

/* ---- the header */
typedef struct GgufReader {
    const char *path;
    const uint8_t *at, *end;
} GgufReader;

static const uint8_t *take(GgufReader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->at))
        mgpu_broken_tensors(r->path, NULL, "the GGUF file is truncated: it ends within its header");
    r->at += bytes;
    return r->at - bytes;
}

static uint64_t whole(GgufReader *r, int bytes)
{
    uint64_t value = 0;
    const uint8_t *p = take(r, (uint64_t)bytes);
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

typedef struct Text {
    const char *begin;
    int64_t length;
} Text;

static Text text(GgufReader *r)
{
    uint64_t length = whole(r, 8);
    const char *begin = (const char *)take(r, length);
    return (Text){begin, (int64_t)length};
}

enum { TYPE_U32 = 4, TYPE_TEXT = 8, TYPE_LIST = 9 };
static const uint8_t TYPE_BYTES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* indexed by type */

static void skip_metadata(GgufReader *r, uint32_t type)
{
    uint64_t count = 1;
    if (type == TYPE_LIST) {
        type = (uint32_t)whole(r, 4);
        count = whole(r, 8);
    }
    if (type >= MGPU_COUNT(TYPE_BYTES) || type == TYPE_LIST)
        mgpu_broken_tensors(r->path, NULL, "a note in its header is of an unknown type; the GGUF file is damaged");
    if (type != TYPE_TEXT) {
        take(r, count > (uint64_t)INT64_MAX / 8 ? UINT64_MAX : count * TYPE_BYTES[type]);
        return;
    }
    for (uint64_t i = 0; i < count; i++) /* each text takes at least eight bytes of the file, so this ends */
        text(r);
}

static void add_fact(TensorFile *file, Text key, char *value)
{
    if ((file->fact_count & (file->fact_count - 1)) == 0)
        file->facts = mgpu_resize(file->facts, (size_t)(file->fact_count ? 2 * file->fact_count : 1) * sizeof *file->facts);
    file->facts[file->fact_count++] =
        (FileFact){mgpu_file_copy_text(file, key.begin, key.length), mgpu_adopt_memory(file, value)};
}

static uint64_t read_metadata(TensorFile *file, GgufReader *r, uint64_t count)
{
    uint64_t alignment = 32;
    for (uint64_t i = 0; i < count; i++) {
        static const char KEY[] = "general.alignment";
        Text key = text(r);
        uint32_t type = (uint32_t)whole(r, 4);
        if (type == TYPE_TEXT) {
            Text value = text(r);
            add_fact(file, key, mgpu_format("%.*s", (int)(value.length < 4096 ? value.length : 4096), value.begin));
        } else if (type == TYPE_U32) {
            uint64_t value = whole(r, 4);
            add_fact(file, key, mgpu_format("%llu", (unsigned long long)value));
            if (key.length == sizeof KEY - 1 && memcmp(key.begin, KEY, sizeof KEY - 1) == 0)
                alignment = value;
        } else {
            skip_metadata(r, type);
        }
    }
    if (!alignment || alignment & (alignment - 1))
        mgpu_broken_tensors(r->path, NULL, "its alignment is no power of two; the GGUF file is damaged");
    return alignment;
}

/* Returns NULL for types that are not read. */
static const struct Packing *packing_of(uint32_t code)
{
    for (int i = 0; i < MGPU_COUNT(PACKINGS); i++)
        if (PACKINGS[i].code == code)
            return &PACKINGS[i];
    return NULL;
}

/* Returns the offset of the tensor in the data. */
static uint64_t read_entry(GgufReader *r, TensorFile *file, SavedTensor *t)
{
    Text name = text(r);
    uint32_t rank = (uint32_t)whole(r, 4);
    t->tensor.name = mgpu_file_copy_text(file, name.begin, name.length);
    if (rank > MGPU_MAX_RANK)
        mgpu_broken_tensors(r->path, t->tensor.name, "it has more than 8 axes; the GGUF file is damaged");
    for (int i = (int)rank - 1; i >= 0; i--) {
        uint64_t extent = whole(r, 8);
        t->tensor.extent[i] = extent > INT64_MAX ? -1 : (int64_t)extent;
    }
    t->tensor.rank = (int)rank;
    uint32_t code = (uint32_t)whole(r, 4);
    const struct Packing *p = packing_of(code);
    if (!p) {
        t->unreadable = mgpu_adopt_memory(
            file,
            mgpu_format("%s: tensor '%s': its elements are packed by ggml's type %u; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                        "Q5_1, Q4_K, Q5_K and Q6_K can be read (llama-quantize --allow-requantize FILE OUT f16 writes F16)",
                        r->path, t->tensor.name, code));
        return whole(r, 8);
    }
    t->packing = (int)(p - PACKINGS);
    t->tensor.dtype = p->dtype;
    t->read = p->unpack ? read_blocks : NULL;
    return whole(r, 8);
}

void mgpu_read_gguf(TensorFile *file, const TensorBytes *b)
{
    GgufReader r = {b->path, b->data + 4, b->data + b->bytes};
    uint32_t version = (uint32_t)whole(&r, 4);
    if (version != 2 && version != 3)
        mgpu_fail(MGPU_BAD_INPUT, "%s: a GGUF file of version %u%s; versions 2 and 3 can be read", b->path, version,
                  version >= 1 << 16 ? ", as of a big-endian machine" : "");
    uint64_t tensors = whole(&r, 8), notes = whole(&r, 8), alignment = read_metadata(file, &r, notes);
    int first = file->count;
    uint64_t *begin = NULL;
    for (uint64_t i = 0; i < tensors; i++) {
        if ((i & (i - 1)) == 0)
            begin = mgpu_resize(begin, (i ? 2 * i : 1) * sizeof *begin);
        begin[i] = read_entry(&r, file, mgpu_add_tensor(file));
    }
    uint64_t data = ((uint64_t)(r.at - b->data) + alignment - 1) & ~(alignment - 1);
    for (int i = first; i < file->count; i++) {
        SavedTensor *t = &file->tensors[i];
        const struct Packing *p = &PACKINGS[t->packing];
        int64_t elements = mgpu_checked_bytes(b->path, &t->tensor, INT64_MAX) / mgpu_dtype_bytes(t->tensor.dtype),
                each = t->tensor.rank ? t->tensor.extent[t->tensor.rank - 1] : 1;
        if (t->unreadable)
            continue;
        if (p->unpack && each % p->elements)
            mgpu_broken_tensors(b->path, t->tensor.name, "its rows are no whole number of blocks; the GGUF file is damaged");
        uint64_t capacity = data > (uint64_t)b->bytes ? 0 : (uint64_t)b->bytes - data, at = begin[i - first];
        if (at > capacity || (uint64_t)(elements / p->elements) > (capacity - at) / (uint64_t)p->bytes)
            mgpu_broken_tensors(b->path, t->tensor.name, "the file is truncated");
        t->data = b->data + data + at;
    }
    free(begin);
}
