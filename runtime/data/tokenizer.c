/* tokenizer.c: reads Hugging Face's tokenizer.json: the model with its tokens and merges, and special tokens; tokenizer_steps.c
 * reads the rest. Unknown features are refused, so that tokens are either those of the tokenizers library or an error. */
#include "runtime/base/base.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

static bool is_true(const Json *object, const char *key)
{
    const Json *m = object ? mgpu_json_member(object, key) : NULL;
    return m && m->kind == JSON_TRUE;
}

static const char *type_of(const Json *object)
{
    return object && object->kind == JSON_OBJECT ? mgpu_json_text(object, "type") : "";
}

/* ---- tokens */
/* Normalizes a special token, which is searched for in normalized text. */
static void normalize_special(const TokenizerFile *p, SpecialToken *s)
{
    Bytes made;
    int64_t wrong;
    if (!mgpu_normalize(p->vocabulary, (const uint8_t *)s->text, (int64_t)s->length, &made, &wrong))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the special token '%s' is not UTF-8", p->where, p->path, s->text);
    free(s->text);
    s->text = mgpu_format("%.*s", (int)made.count, made.count ? (const char *)made.data : "");
    s->length = strlen(s->text);
    p->vocabulary->begins[(uint8_t)*s->text] = true;
    free(made.data);
}

static void read_added(const TokenizerFile *p, const Json *list)
{
    for (const Json *m = list && list->kind == JSON_LIST ? list->first : NULL; m; m = m->next) {
        const Json *id = m->kind == JSON_OBJECT ? mgpu_json_member(m, "id") : NULL;
        const char *text = id ? mgpu_json_text(m, "content") : "";
        int64_t number;
        if (!id || !*text || !mgpu_json_whole(id, &number) || number < 0 || number >= INT32_MAX)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the special token '%s' has no text or no number", p->where, p->path, text);
        if (is_true(m, "single_word"))
            mgpu_refuse_tokenizer(p, mgpu_format("of the special token %s the option", text), "single_word");
        SpecialToken *s = mgpu_add_special(p->vocabulary, text, number);
        s->strips_left = is_true(m, "lstrip");
        s->strips_right = is_true(m, "rstrip");
        s->normalized = is_true(m, "normalized") && p->vocabulary->normalizer_count;
        if (s->normalized)
            normalize_special(p, s);
    }
}

static void read_vocabulary(const TokenizerFile *p, const Json *vocabulary)
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

/* Each merge is "a b" or ["a", "b"]. */
static void read_list_of_merges(const TokenizerFile *p, const Json *list)
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

/* ---- models */
static void read_bpe(const TokenizerFile *p, const Json *model)
{
    static const char *const TEXT[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    Vocabulary *v = p->vocabulary;
    for (int k = 0; k < MGPU_COUNT(TEXT); k++)
        if (*mgpu_json_text(model, TEXT[k]))
            mgpu_refuse_tokenizer(p, "the option", TEXT[k]);
    if (mgpu_json_number(model, "dropout") > 0)
        mgpu_refuse_tokenizer(p, "the option", "dropout");
    v->whole_words = is_true(model, "ignore_merges");
    v->byte_fallback = v->model == CHARACTER_BPE && is_true(model, "byte_fallback");
    v->joins_unknown = is_true(model, "fuse_unk");
    read_vocabulary(p, mgpu_json_member(model, "vocab"));
    const char *unknown = mgpu_json_text(model, "unk_token");
    v->unknown = mgpu_token_of(v, unknown, strlen(unknown));
    if (*unknown && v->unknown < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the unknown token '%s' is not in its vocabulary", p->where, p->path, unknown);
    read_list_of_merges(p, mgpu_json_member(model, "merges"));
}

static void read_wordpiece(const TokenizerFile *p, const Json *model)
{
    Vocabulary *v = p->vocabulary;
    const char *unknown = mgpu_json_text(model, "unk_token");
    double most = mgpu_json_number(model, "max_input_chars_per_word");
    v->longest_word = most >= 0 && most <= 1e9 ? (int64_t)most : 100;
    free(v->prefix);
    v->prefix = mgpu_format("%s", mgpu_json_text(model, "continuing_subword_prefix"));
    read_vocabulary(p, mgpu_json_member(model, "vocab"));
    v->longest_token = v->longest_token > (int64_t)strlen(v->prefix) ? v->longest_token : (int64_t)strlen(v->prefix);
    v->unknown = mgpu_token_of(v, unknown, strlen(unknown));
    if (v->unknown < 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: the unknown token '%s' is not in its vocabulary", p->where, p->path, unknown);
}

static void read_unigram(const TokenizerFile *p, const Json *model)
{
    Vocabulary *v = p->vocabulary;
    const Json *list = mgpu_json_member(model, "vocab"), *unknown = mgpu_json_member(model, "unk_id");
    int64_t count = 0;
    v->byte_fallback = is_true(model, "byte_fallback");
    v->joins_unknown = true;
    for (const Json *m = list && list->kind == JSON_LIST ? list->first : NULL; m; m = m->next, count++) {
        const Json *piece = m->kind == JSON_LIST ? m->first : NULL, *score = piece ? piece->next : NULL;
        if (!score || piece->kind != JSON_TEXT || score->kind != JSON_NUMBER)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the token %lld has no text or no score", p->where, p->path, (long long)count);
        mgpu_add_token(v, piece->text, count);
        v->score[mgpu_find_word(&v->spelling, piece->text, strlen(piece->text))] = score->number;
        v->least_score = count && v->least_score < score->number ? v->least_score : score->number;
    }
    if (!unknown || !mgpu_json_whole(unknown, &v->unknown) || v->unknown < 0 || v->unknown >= count)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: its model has no token (unk_id) for what is unknown", p->where, p->path);
    mgpu_begin_merges(v, 0, p->where);
}

static void read_model(const TokenizerFile *p, const Json *model, bool bytes)
{
    static const struct {
        const char *name;
        VocabularyModel model;
        void (*read)(const TokenizerFile *, const Json *);
    } MODELS[] = {{"BPE", CHARACTER_BPE, read_bpe},
                  {"", CHARACTER_BPE, read_bpe},
                  {"WordPiece", WORDPIECE, read_wordpiece},
                  {"Unigram", UNIGRAM, read_unigram}};
    const char *type = type_of(model);
    int k = 0;
    while (k < MGPU_COUNT(MODELS) && strcmp(MODELS[k].name, type) != 0)
        k++;
    if (!model || model->kind != JSON_OBJECT || k == MGPU_COUNT(MODELS))
        mgpu_refuse_tokenizer(p, "the model", type);
    if (bytes && MODELS[k].model != CHARACTER_BPE)
        mgpu_refuse_tokenizer(p, "after words became bytes the model", type);
    p->vocabulary->model = bytes ? BYTE_BPE : MODELS[k].model;
    MODELS[k].read(p, model);
}

void mgpu_read_tokenizer(Vocabulary *v, const char *path, const char *where)
{
    const TokenizerFile p = {v, where, path};
    FileBytes file;
    mgpu_load_file(&file, path, where, false);
    const char *error = "it is no JSON object";
    Json *json = mgpu_json_read((const char *)file.data, (size_t)file.bytes, &error);
    if (!json || json->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, path, error);
    mgpu_read_normalizer(&p, mgpu_json_member(json, "normalizer"));
    bool bytes = mgpu_read_cuts(&p, mgpu_json_member(json, "pre_tokenizer"));
    read_model(&p, mgpu_json_member(json, "model"), bytes);
    mgpu_read_decoder(&p, mgpu_json_member(json, "decoder"));
    read_added(&p, mgpu_json_member(json, "added_tokens"));
    mgpu_read_begin(&p, mgpu_json_member(json, "post_processor"));
    free(json);
    mgpu_close_file(&file);
}
