/* tokenizer.c: tokenizer.json of Hugging Face, where it is byte-level BPE as of GPT-2, Llama 3 and Qwen 2: tokens, merges,
 * special tokens, the pattern of words. What it says beyond that is refused, so that tokens are those of the tokenizers library
 * or there are none. */
#include "runtime/base/base.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

typedef struct Place {
    Vocabulary *vocabulary;
    const char *where, *path;
} Place;

static const struct {
    WordPattern pattern;
    const char *regex;
} PATTERN[] = {
    {WORDS_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {WORDS_LLAMA3, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {WORDS_QWEN2, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

static _Noreturn void refuse(const Place *p, const char *what, const char *which)
{
    mgpu_fail(MGPU_BAD_INPUT,
              "%s%s: %s '%s' is not known here: byte-level BPE without a normalizer, with the words of GPT-2, Llama 3 or "
              "Qwen 2, is; make tokens with the tokenizers package and read them with tokens(\"train.bin\")",
              p->where, p->path, what, which);
}

static bool is_true(const Json *object, const char *key)
{
    const Json *m = object ? mgpu_json_member(object, key) : NULL;
    return m && m->kind == JSON_TRUE;
}

static const char *type_of(const Json *object)
{
    return object && object->kind == JSON_OBJECT ? mgpu_json_text(object, "type") : "";
}

/* ---- how text is cut */
static WordPattern pattern_of(const Place *p, const Json *split)
{
    const Json *pattern = mgpu_json_member(split, "pattern");
    const char *regex = pattern && pattern->kind == JSON_OBJECT ? mgpu_json_text(pattern, "Regex") : "";
    for (int k = 0; k < MGPU_COUNT(PATTERN); k++)
        if (strcmp(PATTERN[k].regex, regex) == 0 && strcmp(mgpu_json_text(split, "behavior"), "Isolated") == 0 &&
            !is_true(split, "invert"))
            return PATTERN[k].pattern;
    refuse(p, "the pattern of words", regex);
}

static void read_bytes(const Place *p, const Json *level, bool cuts)
{
    const Json *regex = mgpu_json_member(level, "use_regex");
    if (strcmp(type_of(level), "ByteLevel") != 0)
        refuse(p, "the pre-tokenizer", type_of(level));
    if (is_true(level, "add_prefix_space"))
        refuse(p, "the option", "add_prefix_space");
    if (cuts != (!regex || regex->kind == JSON_TRUE))
        refuse(p, "the option", "use_regex");
}

static void read_words(const Place *p, const Json *pretokenizer)
{
    const Json *list = pretokenizer && pretokenizer->kind == JSON_OBJECT ? mgpu_json_member(pretokenizer, "pretokenizers") : NULL;
    const Json *first = list && list->kind == JSON_LIST ? list->first : NULL;
    if (!first) {
        read_bytes(p, pretokenizer && pretokenizer->kind == JSON_OBJECT ? pretokenizer : &(Json){.kind = JSON_OBJECT}, true);
        return;
    }
    if (first->kind != JSON_OBJECT || strcmp(type_of(first), "Split") != 0 || !first->next || first->next->kind != JSON_OBJECT ||
        first->next->next)
        refuse(p, "the pre-tokenizer", type_of(first));
    p->vocabulary->pattern = pattern_of(p, first);
    read_bytes(p, first->next, false);
}

/* ---- tokens */
static void read_added(const Place *p, const Json *list)
{
    static const char *const OPTION[] = {"lstrip", "rstrip", "single_word"};
    for (const Json *m = list && list->kind == JSON_LIST ? list->first : NULL; m; m = m->next) {
        const Json *id = m->kind == JSON_OBJECT ? mgpu_json_member(m, "id") : NULL;
        const char *text = id ? mgpu_json_text(m, "content") : "";
        int64_t number;
        if (!id || !*text || !mgpu_json_whole(id, &number) || number < 0 || number >= INT32_MAX)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the special token '%s' has no text or no number", p->where, p->path, text);
        for (int k = 0; k < MGPU_COUNT(OPTION); k++)
            if (is_true(m, OPTION[k]))
                refuse(p, mgpu_format("of the special token %s the option", text), OPTION[k]);
        mgpu_add_special(p->vocabulary, text, number);
    }
}

static void read_vocabulary(const Place *p, const Json *vocabulary)
{
    if (!vocabulary || vocabulary->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: its model has no tokens", p->where, p->path);
    for (const Json *m = vocabulary->first; m; m = m->next) {
        int64_t number;
        if (!mgpu_json_whole(m, &number) || number < 0 || number >= INT32_MAX)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the token '%s' has no number", p->where, p->path, m->key);
        mgpu_add_token(p->vocabulary, m->key, number);
    }
}

/* each as "a b", or as ["a", "b"] */
static void read_list_of_merges(const Place *p, const Json *list)
{
    int64_t count = 0;
    for (const Json *m = list && list->kind == JSON_LIST ? list->first : NULL; m; m = m->next)
        count++;
    mgpu_begin_merges(p->vocabulary, count, p->where);
    uint32_t rank = 1;
    for (const Json *m = count ? list->first : NULL; m; m = m->next, rank++) {
        bool pair = m->kind == JSON_LIST && m->first && m->first->kind == JSON_TEXT && m->first->next &&
                    m->first->next->kind == JSON_TEXT;
        const char *left = pair ? m->first->text : m->kind == JSON_TEXT ? m->text : "", *blank = strchr(left, ' ');
        const char *right = pair ? m->first->next->text : blank ? blank + 1 : "";
        char *place = mgpu_format("%s%s: merge %u", p->where, p->path, rank);
        mgpu_add_merge(p->vocabulary, left, pair || !blank ? strlen(left) : (size_t)(blank - left), right, strlen(right), rank,
                       place);
        free(place);
    }
}

static void read_model(const Place *p, const Json *model)
{
    static const char *const TEXT[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = type_of(model);
    if (!model || model->kind != JSON_OBJECT || (*type && strcmp(type, "BPE") != 0))
        refuse(p, "the model", type);
    for (int k = 0; k < MGPU_COUNT(TEXT); k++)
        if (*mgpu_json_text(model, TEXT[k]))
            refuse(p, "the option", TEXT[k]);
    if (is_true(model, "byte_fallback"))
        refuse(p, "the option", "byte_fallback");
    p->vocabulary->whole_words = is_true(model, "ignore_merges");
    read_vocabulary(p, mgpu_json_member(model, "vocab"));
    read_list_of_merges(p, mgpu_json_member(model, "merges"));
}

void mgpu_read_tokenizer(Vocabulary *v, const char *path, const char *where)
{
    const Place p = {v, where, path};
    FileBytes file;
    mgpu_load_file(&file, path, where, false);
    const char *error = "it is no JSON object";
    Json *json = mgpu_json_read((const char *)file.data, (size_t)file.bytes, &error);
    if (!json || json->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, path, error);
    const Json *normalizer = mgpu_json_member(json, "normalizer");
    if (normalizer && normalizer->kind != JSON_NULL)
        refuse(&p, "the normalizer", type_of(normalizer));
    read_model(&p, mgpu_json_member(json, "model"));
    read_words(&p, mgpu_json_member(json, "pre_tokenizer"));
    read_added(&p, mgpu_json_member(json, "added_tokens"));
    free(json);
    mgpu_close_file(&file);
}
