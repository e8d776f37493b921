/* words.c: numbers distinct words in a hash table with open addressing. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t h = 14695981039346656037ull ^ (text == NULL);
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
    return h ^ h >> 29;
}

static bool is_word(const char *word, const char *text, size_t length)
{
    if (!word || !text)
        return !word && !text;
    return strlen(word) == length && memcmp(word, text, length) == 0;
}

static int64_t *find_slot(const WordTable *t, const char *text, size_t length)
{
    uint64_t mask = (uint64_t)t->slot_count - 1, at = hash_of(text, length) & mask;
    while (t->slots[at] && !is_word(t->words.text[t->slots[at] - 1], text, length))
        at = (at + 1) & mask;
    return &t->slots[at];
}

static void grow(WordTable *t)
{
    t->slot_count = t->slot_count ? 2 * t->slot_count : 64;
    free(t->slots);
    t->slots = mgpu_allocate((size_t)t->slot_count, sizeof *t->slots);
    t->words.text = mgpu_resize(t->words.text, (size_t)t->slot_count / 2 * sizeof *t->words.text);
    for (int64_t k = 0; k < t->words.count; k++) {
        const char *text = t->words.text[k];
        *find_slot(t, text, text ? strlen(text) : 0) = k + 1;
    }
}

int64_t mgpu_find_word(const WordTable *t, const char *text, size_t length)
{
    return t->slot_count ? *find_slot(t, text, length) - 1 : -1;
}

int64_t mgpu_intern(WordTable *t, const char *text, size_t length)
{
    if (2 * t->words.count >= t->slot_count)
        grow(t);
    int64_t *slot = find_slot(t, text, text ? length : 0);
    if (!*slot) {
        char *copy = NULL;
        if (text) {
            copy = mgpu_allocate(length + 1, 1);
            memcpy(copy, text, length);
        }
        t->words.text[t->words.count++] = copy;
        *slot = t->words.count;
    }
    return *slot - 1;
}

void mgpu_free_words(WordTable *t)
{
    for (int64_t k = 0; k < t->words.count; k++)
        free(t->words.text[k]);
    free(t->words.text);
    free(t->slots);
    *t = (WordTable){0};
}
