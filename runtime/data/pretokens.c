/* pretokens.c: text -> the words within which BPE merges bytes: the patterns of vocabulary.h. */
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

static bool is_space(uint32_t c) /* White_Space */
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* the kind of the character at i and how long it is; bytes that are no UTF-8 are of kind OTHER */
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
        return is_space(c)                                  ? SPACE
               : in_ranges(LETTERS, MGPU_COUNT(LETTERS), c) ? LETTER
               : in_ranges(NUMBERS, MGPU_COUNT(NUMBERS), c) ? NUMBER
                                                            : OTHER;
    }
    uint32_t lower = c | 0x20;
    return lower >= 'a' && lower <= 'z' ? LETTER : c >= '0' && c <= '9' ? NUMBER : is_space(c) ? SPACE : OTHER;
}

static bool is_end(const uint8_t *text, const char *end, int64_t length, bool any_case)
{
    for (int64_t k = 0; k < length; k++)
        if (text[k] != (uint8_t)end[k] && !(any_case && text[k] == (uint8_t)(end[k] - 'a' + 'A')))
            return false;
    return true;
}

/* how many bytes of a contraction are at i; 0: none */
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

/* blanks from i on: the last one before a word is the word's */
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

static bool ends_line(uint8_t c)
{
    return c == '\n' || c == '\r';
}

static int64_t end_of_lines(const uint8_t *text, int64_t bytes, int64_t at)
{
    while (at < bytes && ends_line(text[at]))
        at++;
    return at;
}

/* \s*[\r\n]+, else \s+(?!\S)|\s+ */
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
