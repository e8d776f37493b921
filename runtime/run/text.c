/* text.c: converts texts to elements and back, by a vocabulary, by the characters of the training text, or as numbers. */
#include "runtime/run/text.h"
#include "runtime/base/terminal.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>

void mgpu_add_element(Elements *e, int64_t element) { MGPU_PUSH(e->of, e->count, element); }

static int64_t class_of_character(const TextCode *t, const char *text, int length)
{
    if (!t->characters)
        return length == 1 && *text >= '0' && *text <= '9' && *text - '0' < (int64_t)t->input->classes ? *text - '0' : -1;
    for (int64_t k = 0; k < t->characters->count; k++)
        if (t->characters->text[k] && strlen(t->characters->text[k]) == (size_t)length &&
            memcmp(t->characters->text[k], text, (size_t)length) == 0)
            return k;
    return -1;
}

static void read_characters(const TextCode *t, Elements *e, const char *prompt, int64_t bytes, const char *where)
{
    uint32_t code;
    for (int64_t i = 0, length; i < bytes; i += length) {
        length = mgpu_decode_utf8((const uint8_t *)prompt, bytes, i, &code);
        if (!length)
            mgpu_fail(MGPU_BAD_INPUT, "%sthe prompt's byte %lld (0x%02x) is not UTF-8", where, (long long)i,
                      (unsigned char)prompt[i]);
        int64_t class = class_of_character(t, prompt + i, (int)length);
        if (class < 0 && t->input->other == MGPU_NO_LABEL)
            mgpu_fail(MGPU_BAD_INPUT, "%sthe prompt's character %lld, '%.*s', is in no text that trained the model: leave it out",
                      where, (long long)e->count + 1, (int)length, prompt + i);
        mgpu_add_element(e, class < 0 ? t->input->other : class);
    }
}

static void add_token(const TextCode *t, Elements *e, int64_t token, const char *where)
{
    if (token >= t->input->classes)
        mgpu_fail(MGPU_BAD_INPUT, "%sthe prompt has the token %lld; input '%s' has the classes 0 to %lld", where,
                  (long long)token, t->input->tensor.name, (long long)t->input->classes - 1);
    mgpu_add_element(e, token);
}

static void read_numbers(const TextCode *t, Elements *e, const char *prompt, const char *where)
{
    static const char BLANKS[] = " \t\r\n";
    for (const char *at = prompt + strspn(prompt, BLANKS), *end; *at; at = end + strspn(end, BLANKS)) {
        end = at + strspn(at, "0123456789");
        if (end == at || end - at > 18 || !strchr(BLANKS, *end))
            mgpu_fail(
                MGPU_BAD_INPUT,
                "%sno vocabulary is known for the tokens of this model, so a prompt is their numbers, as in '15 27', not '%s': "
                "--vocabulary FOLDER names one, which has tokenizer.json, or vocab.json and merges.txt; "
                "tokens(..., vocabulary = \"FOLDER\") of the data block does, too",
                where, prompt);
        add_token(t, e, strtoll(at, NULL, 10), where);
    }
}

void mgpu_read_prompt(const TextCode *t, Elements *e, const char *prompt, int64_t bytes, const char *where)
{
    if (t->numbers) {
        read_numbers(t, e, prompt, where);
    } else if (!t->vocabulary) {
        read_characters(t, e, prompt, bytes, where);
    } else {
        uint8_t dtype;
        int64_t count;
        void *tokens = mgpu_encode_text(t->vocabulary, (const uint8_t *)prompt, bytes, &dtype, &count);
        for (int i = 0; i < t->vocabulary->begin_count; i++)
            add_token(t, e, t->vocabulary->begin[i], where);
        for (int64_t i = 0; i < count; i++)
            add_token(t, e, (int64_t)mgpu_to_double(tokens, dtype, i), where);
        free(tokens);
    }
    if (!e->count)
        mgpu_fail(MGPU_BAD_INPUT, "%sthe prompt '%s' has no tokens: generate continues a text", where, prompt);
}

bool mgpu_may_follow(const TextCode *t, int64_t class)
{
    return t->vocabulary || !t->characters || (class < t->characters->count && t->characters->text[class]);
}

bool mgpu_ends_text(const TextCode *t, int64_t element)
{
    for (int i = 0; t->vocabulary && i < t->vocabulary->end_count; i++)
        if (t->vocabulary->end[i] == element)
            return true;
    return false;
}

/* Returns how many bytes at the end begin an incomplete character. */
static size_t begun(const char *bytes, size_t count)
{
    for (size_t k = 1; k <= 3 && k <= count; k++) {
        unsigned char c = (unsigned char)bytes[count - k];
        if (c >= 0xC0)
            return k < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) ? k : 0;
        if (c < 0x80)
            break;
    }
    return 0;
}

/* Prints to a terminal plain text in whole characters. */
void mgpu_show_text(Screen *s, const char *bytes, size_t count, bool last)
{
    if (!s->terminal) {
        fwrite(bytes, 1, count, s->file);
        return;
    }
    char *joined = mgpu_format("%s%.*s", s->held, (int)count, bytes);
    size_t whole = strlen(joined) - (last ? 0 : begun(joined, strlen(joined)));
    snprintf(s->held, sizeof s->held, "%s", joined + whole);
    joined[whole] = 0;
    char *plain = mgpu_plain_text(joined, true);
    fputs(plain ? plain : "", s->file);
    free(plain);
    free(joined);
}

char *mgpu_spell_element(const TextCode *t, int64_t token, size_t *count)
{
    char *bytes;
    FILE *one = mgpu_begin_text(&bytes, count);
    if (t->vocabulary)
        mgpu_spell_token(t->vocabulary, token, false, one);
    else if (t->characters)
        fputs(t->characters->text[token], one);
    else
        fprintf(one, t->numbers ? " %lld" : "%lld", (long long)token);
    mgpu_end_text(one);
    return bytes;
}
