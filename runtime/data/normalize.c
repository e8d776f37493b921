/* normalize.c: applies the normalizers of a vocabulary to a text, with the rules of Hugging Face's tokenizers package. */
#include "runtime/base/base.h"
#include "runtime/data/unicode_library.h"

#include <stdlib.h>
#include <string.h>

void mgpu_add_bytes(Bytes *b, const void *data, int64_t count)
{
    if (b->count + count > b->capacity) {
        b->capacity = 2 * (b->count + count) + 64;
        b->data = mgpu_resize(b->data, (size_t)b->capacity);
    }
    if (count)
        memcpy(b->data + b->count, data, (size_t)count);
    b->count += count;
}

static void add_character(Bytes *b, uint32_t c)
{
    uint8_t u[4] = {(uint8_t)c};
    int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t LEAD[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = length - 1; length > 1 && i >= 0; i--, c >>= 6)
        u[i] = (uint8_t)(i ? 0x80 | (c & 0x3F) : LEAD[length] | c);
    mgpu_add_bytes(b, u, length);
}

static void add_text(Bytes *b, const char *text) { mgpu_add_bytes(b, text, (int64_t)strlen(text)); }

/* ---- single characters */
static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

static void change_character(StepKind kind, uint32_t c, Bytes *to)
{
    uint32_t lower[2] = {c, 0};
    int count = 1;
    switch (kind) {
    case STEP_LOWERCASE: count = mgpu_lower_of(c, lower); break;
    case STEP_STRIP_ACCENTS: count = !mgpu_is_mark(c, true); break;
    case STEP_BERT_ACCENTS: count = !mgpu_is_mark(c, false); break;
    case STEP_CLEAN:
        count = c != 0 && c != 0xFFFD && !mgpu_is_control(c);
        lower[0] = mgpu_is_blank(c) ? ' ' : c;
        break;
    case STEP_CHINESE:
        if (is_chinese(c)) {
            add_text(to, " ");
            add_character(to, c);
            lower[0] = ' ';
        }
        break;
    default: mgpu_die("step %d is not by characters", (int)kind);
    }
    for (int i = 0; i < count; i++)
        add_character(to, lower[i]);
}

static void change_characters(StepKind kind, const Bytes *from, Bytes *to)
{
    uint32_t c;
    for (int64_t i = 0; i < from->count; change_character(kind, c, to))
        i += mgpu_decode_utf8(from->data, from->count, i, &c);
}

/* ---- blanks at the ends */
static void strip(const Step *s, const Bytes *from, Bytes *to)
{
    int64_t begin = 0, end = 0;
    uint32_t c;
    bool before = s->strips_left;
    for (int64_t i = 0, length; i < from->count; i += length) {
        length = mgpu_decode_utf8(from->data, from->count, i, &c);
        bool blank = mgpu_is_blank(c);
        begin = before && blank ? i + length : begin;
        before = before && blank;
        end = blank && s->strips_right ? end : i + length;
    }
    if (end > begin)
        mgpu_add_bytes(to, from->data + begin, end - begin);
}

/* ---- replacing texts and blanks */
static int64_t length_at(const Step *s, const Bytes *from, int64_t i)
{
    int64_t blanks = 0;
    if (s->kind == STEP_REPLACE)
        return (int64_t)s->bytes <= from->count - i && memcmp(from->data + i, s->text, s->bytes) == 0 ? (int64_t)s->bytes : 0;
    while (i + blanks < from->count && from->data[i + blanks] == ' ')
        blanks++;
    return blanks > 1 ? blanks : 0;
}

static void replace(const Step *s, const Bytes *from, Bytes *to)
{
    for (int64_t i = 0, length; i < from->count; i += length ? length : 1) {
        length = length_at(s, from, i);
        if (length)
            add_text(to, s->by);
        else
            mgpu_add_bytes(to, from->data + i, 1);
    }
}

/* ---- SentencePiece's table: its size in bytes, a double array (Aoe 1989) of 32-bit units, and the replacements */
static uint32_t unit_at(const Step *s, uint64_t i)
{
    const uint8_t *b = (const uint8_t *)s->text + 4 + 4 * i;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Returns the replacement of the shortest prefix of these bytes that has one, or NULL. */
static const char *in_charsmap(const Step *s, const uint8_t *text, int64_t bytes)
{
    uint64_t units = unit_at(s, (uint64_t)-1) / 4, node = 0, texts = 4 + 4 * units;
    uint32_t unit = units ? unit_at(s, 0) : 0;
    node ^= (unit >> 10) << ((unit & 512) >> 6);
    for (int64_t i = 0; units && i < bytes && text[i]; i++) {
        node ^= text[i];
        if (node >= units)
            return NULL;
        unit = unit_at(s, node);
        if ((unit & 0x800000FFu) != text[i])
            return NULL;
        node ^= (unit >> 10) << ((unit & 512) >> 6);
        if (!(unit & 256))
            continue;
        uint64_t value = node < units ? unit_at(s, node) & 0x7FFFFFFFu : UINT64_MAX;
        return value < s->bytes - texts ? s->text + texts + value : NULL;
    }
    return NULL;
}

static void map_grapheme(const Step *s, const uint8_t *text, int64_t bytes, Bytes *to)
{
    enum { SHORT = 6 };
    const char *by = bytes < SHORT ? in_charsmap(s, text, bytes) : NULL;
    uint32_t c;
    if (by)
        add_text(to, by);
    for (int64_t i = 0, length; !by && i < bytes; i += length) {
        length = mgpu_decode_utf8(text, bytes, i, &c);
        const char *one = in_charsmap(s, text + i, length);
        if (one)
            add_text(to, one);
        else
            mgpu_add_bytes(to, text + i, length);
    }
}

static void map_characters(const Step *s, const Bytes *from, Bytes *to)
{
    uint32_t before = 0, c;
    int32_t state = 0;
    int64_t begin = 0;
    for (int64_t i = 0, length; i < from->count; i += length, before = c) {
        length = mgpu_decode_utf8(from->data, from->count, i, &c);
        if (i == begin || !mgpu_breaks_between(before, c, &state))
            continue;
        map_grapheme(s, from->data + begin, i - begin, to);
        begin = i;
    }
    map_grapheme(s, from->data + begin, from->count - begin, to);
}

/* ---- all normalizers */
static void apply(const Step *s, const Bytes *from, Bytes *to)
{
    Bytes apart = {0};
    switch (s->kind) {
    case STEP_NFC:
    case STEP_NFD:
    case STEP_NFKC:
    case STEP_NFKD:
        mgpu_normal_form(to, from->data, from->count, s->kind == STEP_NFC || s->kind == STEP_NFKC,
                         s->kind == STEP_NFKC || s->kind == STEP_NFKD);
        break;
    case STEP_BERT_ACCENTS:
        mgpu_normal_form(&apart, from->data, from->count, false, false);
        change_characters(s->kind, &apart, to);
        free(apart.data);
        break;
    case STEP_STRIP: strip(s, from, to); break;
    case STEP_PREPEND:
        if (from->count)
            add_text(to, s->text);
        mgpu_add_bytes(to, from->data, from->count);
        break;
    case STEP_REPLACE:
    case STEP_REPLACE_BLANKS: replace(s, from, to); break;
    case STEP_CHARSMAP: map_characters(s, from, to); break;
    default: change_characters(s->kind, from, to);
    }
}

bool mgpu_normalize(const Vocabulary *v, const uint8_t *text, int64_t bytes, Bytes *to, int64_t *wrong)
{
    uint32_t c;
    *to = (Bytes){0};
    for (int64_t i = 0, length; i < bytes && (v->normalizer_count || v->model != BYTE_BPE); i += length) {
        length = mgpu_decode_utf8(text, bytes, i, &c);
        *wrong = i;
        if (!length)
            return false;
    }
    mgpu_add_bytes(to, text, bytes);
    for (int k = 0; k < v->normalizer_count; k++) {
        Bytes made = {0};
        apply(&v->normalizers[k], to, &made);
        free(to->data);
        *to = made;
    }
    return true;
}
