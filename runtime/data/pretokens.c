/* pretokens.c: splits text into words, from which a model makes tokens: by the patterns of vocabulary.h and in other ways. */
#include "runtime/base/base.h"
#include "runtime/data/unicode.h"
#include "runtime/data/vocabulary.h"

#include <string.h>

typedef enum CharacterKind { LETTER, NUMBER, SPACE, OTHER } CharacterKind;

static bool in_ranges(const uint32_t (*ranges)[2], int count, uint32_t c)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges[middle][1] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low][0] <= c;
}

/* Returns the kind of the character at i and its length. Invalid UTF-8 is of kind OTHER. */
static CharacterKind kind_at(const uint8_t *text, int64_t bytes, int64_t i, int *length)
{
    uint32_t c = text[i];
    *length = 1;
    if (c >= 0x80) {
        *length = mgpu_decode_utf8(text, bytes, i, &c);
        if (!*length) {
            *length = 1;
            return OTHER;
        }
        return mgpu_is_blank(c)                             ? SPACE
               : in_ranges(LETTERS, MGPU_COUNT(LETTERS), c) ? LETTER
               : in_ranges(NUMBERS, MGPU_COUNT(NUMBERS), c) ? NUMBER
                                                            : OTHER;
    }
    uint32_t lower = c | 0x20;
    return lower >= 'a' && lower <= 'z' ? LETTER : c >= '0' && c <= '9' ? NUMBER : mgpu_is_blank(c) ? SPACE : OTHER;
}

static bool is_end(const uint8_t *text, const char *end, int64_t length, bool any_case)
{
    for (int64_t k = 0; k < length; k++)
        if (text[k] != (uint8_t)end[k] && !(any_case && text[k] == (uint8_t)(end[k] - 'a' + 'A')))
            return false;
    return true;
}

/* Returns the length of the contraction at i in bytes, or 0. */
static int contraction(const uint8_t *text, int64_t bytes, int64_t i, bool any_case)
{
    static const char *const ENDS[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (int k = 0; text[i] == '\'' && k < MGPU_COUNT(ENDS); k++) {
        int64_t length = (int64_t)strlen(ENDS[k]);
        if (i + 1 + length <= bytes && is_end(text + i + 1, ENDS[k], length, any_case))
            return (int)length + 1;
    }
    return 0;
}

static int64_t end_of_run(const uint8_t *text, int64_t bytes, int64_t at, CharacterKind kind)
{
    for (int length; at < bytes && kind_at(text, bytes, at, &length) == kind;)
        at += length;
    return at;
}

/* Returns the end of the blanks at i, without the last one if a word follows, which it belongs to. */
static int64_t end_of_blanks(const uint8_t *text, int64_t bytes, int64_t i)
{
    int length;
    int64_t at = i, last = i;
    for (; at < bytes && kind_at(text, bytes, at, &length) == SPACE; at += length)
        last = at;
    return at < bytes && last > i ? last : at;
}

static int64_t end_of_gpt2(const uint8_t *text, int64_t bytes, int64_t i)
{
    int length, next, short_one = contraction(text, bytes, i, false);
    if (short_one)
        return i + short_one;
    CharacterKind kind = kind_at(text, bytes, i, &length);
    int64_t at = i + length;
    if (text[i] == ' ' && at < bytes && kind_at(text, bytes, at, &next) != SPACE)
        kind = kind_at(text, bytes, at, &next);
    return kind == SPACE ? end_of_blanks(text, bytes, i) : end_of_run(text, bytes, at, kind);
}

static bool ends_line(uint8_t c) { return c == '\n' || c == '\r'; }

static int64_t end_of_lines(const uint8_t *text, int64_t bytes, int64_t at)
{
    while (at < bytes && ends_line(text[at]))
        at++;
    return at;
}

/* Implements \s*[\r\n]+, else \s+(?!\S)|\s+. */
static int64_t end_of_llama_blanks(const uint8_t *text, int64_t bytes, int64_t i)
{
    int64_t end = end_of_run(text, bytes, i, SPACE), line = end;
    while (line > i && !ends_line(text[line - 1]))
        line--;
    return line > i ? line : end_of_blanks(text, bytes, i);
}

static int64_t end_of_llama(const uint8_t *text, int64_t bytes, int64_t i, int numbers)
{
    int length, next, short_one = contraction(text, bytes, i, true);
    if (short_one)
        return i + short_one;
    CharacterKind kind = kind_at(text, bytes, i, &length);
    int64_t at = i + length;
    CharacterKind after = at < bytes ? kind_at(text, bytes, at, &next) : SPACE;
    if (kind == LETTER || (kind != NUMBER && !ends_line(text[i]) && after == LETTER))
        return end_of_run(text, bytes, at, LETTER);
    if (kind == NUMBER) {
        for (; --numbers > 0 && at < bytes && kind_at(text, bytes, at, &next) == NUMBER;)
            at += next;
        return at;
    }
    if (kind == OTHER || (text[i] == ' ' && after == OTHER))
        return end_of_lines(text, bytes, end_of_run(text, bytes, at, OTHER));
    return end_of_llama_blanks(text, bytes, i);
}

int64_t mgpu_word_end(WordPattern pattern, const uint8_t *text, int64_t bytes, int64_t i)
{
    return pattern == WORDS_GPT2 ? end_of_gpt2(text, bytes, i) : end_of_llama(text, bytes, i, pattern == WORDS_LLAMA3 ? 3 : 1);
}

/* ---- all splitters, one after the other */
typedef struct Cutting {
    const Vocabulary *vocabulary;
    Bytes **kept;
    int *kept_count;
    TakeWord *take;
    void *state;
} Cutting;

static Bytes *copy_bytes(const Cutting *c)
{
    MGPU_PUSH(*c->kept, *c->kept_count, (Bytes){0});
    return &(*c->kept)[*c->kept_count - 1];
}

static void cut(const Cutting *, int step, const uint8_t *text, int64_t bytes, bool first);

static void cut_by_pattern(const Cutting *c, int step, const uint8_t *text, int64_t bytes, bool first)
{
    WordPattern pattern = c->vocabulary->cuts[step].pattern;
    for (int64_t i = 0, end; i < bytes; i = end) {
        end = mgpu_word_end(pattern, text, bytes, i);
        cut(c, step + 1, text + i, end - i, first && i == 0);
    }
}

static void cut_at_characters(const Cutting *c, int step, const uint8_t *text, int64_t bytes, bool first)
{
    bool blanks = c->vocabulary->cuts[step].kind == STEP_BLANKS;
    int64_t begin = 0;
    uint32_t code;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = mgpu_decode_utf8(text, bytes, i, &code);
        if (!(blanks ? mgpu_is_blank(code) : mgpu_is_punctuation(code)))
            continue;
        cut(c, step + 1, text + begin, i - begin, first && begin == 0);
        if (!blanks)
            cut(c, step + 1, text + i, length, first && i == 0);
        begin = i + length;
    }
    cut(c, step + 1, text + begin, bytes - begin, first && begin == 0);
}

static void prefix(const Cutting *c, int step, const uint8_t *text, int64_t bytes, bool first)
{
    if (*text == ' ') {
        cut(c, step + 1, text, bytes, first);
        return;
    }
    Bytes b = {0};
    mgpu_add_bytes(&b, " ", 1);
    mgpu_add_bytes(&b, text, bytes);
    *copy_bytes(c) = b;
    cut(c, step + 1, b.data, b.count, first);
}

static void cut_by_metaspace(const Cutting *c, int step, const uint8_t *text, int64_t bytes, bool first)
{
    const Step *s = &c->vocabulary->cuts[step];
    bool begins = bytes >= (int64_t)s->bytes && memcmp(text, s->text, s->bytes) == 0;
    Bytes b = {0}; /* other texts are added to `kept` while this one is split */
    if (s->prepends && (s->always || first) && !begins && *text != ' ')
        mgpu_add_bytes(&b, s->text, (int64_t)s->bytes);
    for (int64_t i = 0; i < bytes; i++)
        mgpu_add_bytes(&b, text[i] == ' ' ? s->text : (const char *)text + i, text[i] == ' ' ? (int64_t)s->bytes : 1);
    *copy_bytes(c) = b;
    int64_t begin = 0;
    for (int64_t i = 1; s->cuts && i < b.count; i++)
        if (b.count - i >= (int64_t)s->bytes && memcmp(b.data + i, s->text, s->bytes) == 0) {
            cut(c, step + 1, b.data + begin, i - begin, first && begin == 0);
            begin = i;
        }
    cut(c, step + 1, b.data + begin, b.count - begin, first && begin == 0);
}

static void cut(const Cutting *c, int step, const uint8_t *text, int64_t bytes, bool first)
{
    if (bytes == 0)
        return;
    if (step == c->vocabulary->cut_count) {
        c->take(c->state, text, bytes);
        return;
    }
    switch (c->vocabulary->cuts[step].kind) {
    case STEP_PATTERN: cut_by_pattern(c, step, text, bytes, first); break;
    case STEP_PREFIX: prefix(c, step, text, bytes, first); break;
    case STEP_METASPACE: cut_by_metaspace(c, step, text, bytes, first); break;
    default: cut_at_characters(c, step, text, bytes, first);
    }
}

void mgpu_cut_words(const Vocabulary *v, const uint8_t *text, int64_t bytes, bool first, Bytes **kept, int *kept_count,
                    TakeWord take, void *state)
{
    cut(&(Cutting){v, kept, kept_count, take, state}, 0, text, bytes, first);
}
