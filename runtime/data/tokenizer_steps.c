/* tokenizer_steps.c: reads from tokenizer.json the steps before and after the model: normalizers, splitters, tokens that begin a
 * text, and decoding. Unknown ones are refused by name. */
#include "runtime/base/base.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

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

_Noreturn void mgpu_refuse_tokenizer(const TokenizerFile *p, const char *what, const char *which)
{
    mgpu_fail(MGPU_BAD_INPUT,
              "%s%s: %s '%s' is not known here; make tokens with the tokenizers package and read them with tokens(\"train.bin\")",
              p->where, p->path, what, which);
}

/* ---- JSON */
static bool is_object(const Json *j) { return j && j->kind == JSON_OBJECT; }
static const char *type_of(const Json *j) { return is_object(j) ? mgpu_json_text(j, "type") : ""; }

static bool is_true(const Json *object, const char *key, bool otherwise)
{
    const Json *m = mgpu_json_member(object, key);
    return m && (m->kind == JSON_TRUE || m->kind == JSON_FALSE) ? m->kind == JSON_TRUE : otherwise;
}

/* Returns a pattern that is a plain text, or NULL for a regular expression. */
static const char *text_of(const Json *object)
{
    const Json *pattern = mgpu_json_member(object, "pattern");
    const Json *text = is_object(pattern) ? mgpu_json_member(pattern, "String") : NULL;
    return text && text->kind == JSON_TEXT && *text->text ? text->text : NULL;
}

static const char *regex_of(const Json *object)
{
    const Json *pattern = mgpu_json_member(object, "pattern");
    return is_object(pattern) ? mgpu_json_text(pattern, "Regex") : "";
}

/* Returns the first member of a Sequence, or the object itself if it is none. */
static const Json *first_of(const TokenizerFile *p, const Json *object, const char *list, const char *what, bool *several)
{
    const Json *members = is_object(object) ? mgpu_json_member(object, list) : NULL;
    *several = strcmp(type_of(object), "Sequence") == 0;
    if (!object || object->kind == JSON_NULL)
        return NULL;
    if (!is_object(object) || (*several && (!members || members->kind != JSON_LIST)))
        mgpu_refuse_tokenizer(p, what, type_of(object));
    return *several ? members->first : object;
}

/* ---- normalizers */
static Step *add_step(Step **steps, int *count, StepKind kind)
{
    *steps = mgpu_resize(*steps, (size_t)(*count + 1) * sizeof **steps);
    (*steps)[*count] = (Step){.kind = kind};
    return &(*steps)[(*count)++];
}

static Step *add_normalizer(const TokenizerFile *p, StepKind kind)
{
    return add_step(&p->vocabulary->normalizers, &p->vocabulary->normalizer_count, kind);
}

static void read_bert(const TokenizerFile *p, const Json *n)
{
    bool lowercase = is_true(n, "lowercase", true);
    if (is_true(n, "clean_text", true))
        add_normalizer(p, STEP_CLEAN);
    if (is_true(n, "handle_chinese_chars", true))
        add_normalizer(p, STEP_CHINESE);
    if (is_true(n, "strip_accents", lowercase))
        add_normalizer(p, STEP_BERT_ACCENTS);
    if (lowercase)
        add_normalizer(p, STEP_LOWERCASE);
}

static void read_replace(const TokenizerFile *p, const Json *n)
{
    const char *text = text_of(n);
    if (!text && strcmp(regex_of(n), " {2,}") != 0)
        mgpu_refuse_tokenizer(p, "the pattern of the normalizer Replace", regex_of(n));
    Step *s = add_normalizer(p, text ? STEP_REPLACE : STEP_REPLACE_BLANKS);
    s->text = mgpu_format("%s", text ? text : "");
    s->bytes = strlen(s->text);
    s->by = mgpu_format("%s", mgpu_json_text(n, "content"));
}

/* Decodes base64 and appends a zero, which ends the replacements. */
static void read_charsmap(const TokenizerFile *p, const Json *n)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *from = mgpu_json_text(n, "precompiled_charsmap"), *digit = NULL;
    uint8_t *to = mgpu_allocate(strlen(from) + 8, 1);
    uint32_t bits = 0;
    size_t bytes = 0;
    for (int held = 0; *from && (digit = strchr(DIGITS, *from)); from++) {
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        held += 6;
        if (held >= 8)
            to[bytes++] = (uint8_t)(bits >> (held -= 8));
    }
    uint64_t table = (uint64_t)to[0] | (uint64_t)to[1] << 8 | (uint64_t)to[2] << 16 | (uint64_t)to[3] << 24;
    if ((*from && *from != '=') || bytes < 4 || table % 4 || table + 4 > bytes)
        mgpu_refuse_tokenizer(p, "the table of the normalizer", "Precompiled");
    Step *s = add_normalizer(p, STEP_CHARSMAP);
    s->text = (char *)to;
    s->bytes = bytes;
}

static void read_one_normalizer(const TokenizerFile *p, const Json *n)
{
    static const struct {
        const char *name;
        StepKind kind;
    } PLAIN[] = {{"NFC", STEP_NFC},
                 {"NFD", STEP_NFD},
                 {"NFKC", STEP_NFKC},
                 {"NFKD", STEP_NFKD},
                 {"Lowercase", STEP_LOWERCASE},
                 {"StripAccents", STEP_STRIP_ACCENTS}};
    const char *type = type_of(n);
    for (int k = 0; k < MGPU_COUNT(PLAIN); k++)
        if (strcmp(PLAIN[k].name, type) == 0) {
            add_normalizer(p, PLAIN[k].kind);
            return;
        }
    if (strcmp(type, "BertNormalizer") == 0) {
        read_bert(p, n);
    } else if (strcmp(type, "Replace") == 0) {
        read_replace(p, n);
    } else if (strcmp(type, "Precompiled") == 0) {
        read_charsmap(p, n);
    } else if (strcmp(type, "Prepend") == 0) {
        add_normalizer(p, STEP_PREPEND)->text = mgpu_format("%s", mgpu_json_text(n, "prepend"));
    } else if (strcmp(type, "Strip") == 0) {
        Step *s = add_normalizer(p, STEP_STRIP);
        s->strips_left = is_true(n, "strip_left", true);
        s->strips_right = is_true(n, "strip_right", true);
    } else {
        mgpu_refuse_tokenizer(p, "the normalizer", type);
    }
}

void mgpu_read_normalizer(const TokenizerFile *p, const Json *normalizer)
{
    bool several;
    for (const Json *n = first_of(p, normalizer, "normalizers", "the normalizer", &several); n; n = several ? n->next : NULL)
        read_one_normalizer(p, n);
}

/* ---- splitters */
static Step *add_cut(const TokenizerFile *p, StepKind kind)
{
    return add_step(&p->vocabulary->cuts, &p->vocabulary->cut_count, kind);
}

static WordPattern pattern_of(const TokenizerFile *p, const Json *split)
{
    const char *regex = regex_of(split);
    for (int k = 0; k < MGPU_COUNT(PATTERN); k++)
        if (strcmp(PATTERN[k].regex, regex) == 0 && strcmp(mgpu_json_text(split, "behavior"), "Isolated") == 0 &&
            !is_true(split, "invert", false))
            return PATTERN[k].pattern;
    mgpu_refuse_tokenizer(p, "the pattern of words", regex);
}

static void read_metaspace(const TokenizerFile *p, const Json *m)
{
    const char *scheme = mgpu_json_text(m, "prepend_scheme");
    scheme = *scheme ? scheme : is_true(m, "add_prefix_space", true) ? "always" : "never";
    if (strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 && strcmp(scheme, "never") != 0)
        mgpu_refuse_tokenizer(p, "the option prepend_scheme", scheme);
    Step *s = add_cut(p, STEP_METASPACE);
    s->text = mgpu_format("%s", mgpu_json_text(m, "replacement"));
    s->bytes = strlen(s->text);
    if (!s->bytes)
        mgpu_refuse_tokenizer(p, "the option replacement", s->text);
    s->prepends = strcmp(scheme, "never") != 0;
    s->always = strcmp(scheme, "always") == 0;
    s->cuts = is_true(m, "split", true);
}

bool mgpu_read_cuts(const TokenizerFile *p, const Json *pretokenizer)
{
    bool several, bytes = false;
    for (const Json *m = first_of(p, pretokenizer, "pretokenizers", "the pre-tokenizer", &several); m;
         m = several ? m->next : NULL) {
        const char *type = type_of(m);
        if (bytes)
            mgpu_refuse_tokenizer(p, "after ByteLevel the pre-tokenizer", type);
        if (strcmp(type, "ByteLevel") == 0) {
            bytes = true;
            if (is_true(m, "add_prefix_space", true))
                add_cut(p, STEP_PREFIX);
            if (is_true(m, "use_regex", true))
                add_cut(p, STEP_PATTERN)->pattern = WORDS_GPT2;
        } else if (strcmp(type, "Split") == 0) {
            WordPattern pattern = pattern_of(p, m);
            add_cut(p, STEP_PATTERN)->pattern = pattern;
        } else if (strcmp(type, "Metaspace") == 0) {
            read_metaspace(p, m);
        } else if (strcmp(type, "BertPreTokenizer") == 0) {
            add_cut(p, STEP_BLANKS);
            add_cut(p, STEP_PUNCTUATION);
        } else if (strcmp(type, "WhitespaceSplit") == 0) {
            add_cut(p, STEP_BLANKS);
        } else if (strcmp(type, "Punctuation") == 0 &&
                   (!*mgpu_json_text(m, "behavior") || strcmp(mgpu_json_text(m, "behavior"), "Isolated") == 0)) {
            add_cut(p, STEP_PUNCTUATION);
        } else {
            mgpu_refuse_tokenizer(p, "the pre-tokenizer", type);
        }
    }
    return bytes;
}

/* ---- tokens that begin a text */
static void add_begin(const TokenizerFile *p, const Json *number)
{
    Vocabulary *v = p->vocabulary;
    int64_t token;
    if (!number || !mgpu_json_whole(number, &token) || token < 0 || token > INT32_MAX)
        mgpu_refuse_tokenizer(p, "a token of the post-processor, which begins texts,", "without a number");
    MGPU_PUSH(v->begin, v->begin_count, token);
}

/* Reads the tokens before the text in a template. Tokens after it would end the text, which is going to be continued. */
static void read_template(const TokenizerFile *p, const Json *t)
{
    const Json *single = mgpu_json_member(t, "single"), *tokens = mgpu_json_member(t, "special_tokens");
    for (const Json *m = single && single->kind == JSON_LIST ? single->first : NULL; is_object(m); m = m->next) {
        const Json *special = mgpu_json_member(m, "SpecialToken");
        if (!is_object(special))
            break;
        const Json *known = is_object(tokens) ? mgpu_json_member(tokens, mgpu_json_text(special, "id")) : NULL;
        const Json *ids = is_object(known) ? mgpu_json_member(known, "ids") : NULL;
        for (const Json *id = ids && ids->kind == JSON_LIST ? ids->first : NULL; id; id = id->next)
            add_begin(p, id);
    }
}

void mgpu_read_begin(const TokenizerFile *p, const Json *processor)
{
    bool several;
    for (const Json *m = first_of(p, processor, "processors", "the post-processor", &several); m; m = several ? m->next : NULL) {
        const char *type = type_of(m);
        const Json *cls = is_object(m) ? mgpu_json_member(m, "cls") : NULL;
        if (strcmp(type, "TemplateProcessing") == 0)
            read_template(p, m);
        else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
            add_begin(p, cls && cls->kind == JSON_LIST && cls->first ? cls->first->next : NULL);
        else if (strcmp(type, "ByteLevel") != 0)
            mgpu_refuse_tokenizer(p, "the post-processor", type);
    }
}

/* ---- decoding */
static void read_one_decoder(const TokenizerFile *p, const Json *d)
{
    Vocabulary *v = p->vocabulary;
    const char *type = type_of(d), *text = is_object(d) ? text_of(d) : NULL;
    if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = mgpu_json_text(d, "prepend_scheme");
        bool never = *scheme ? strcmp(scheme, "never") == 0 : !is_true(d, "add_prefix_space", true);
        free(v->blank);
        v->blank = mgpu_format("%s", mgpu_json_text(d, "replacement"));
        v->first = never ? FIRST_KEPT : FIRST_WITHOUT_BLANKS;
    } else if (strcmp(type, "Replace") == 0 && text && strcmp(mgpu_json_text(d, "content"), " ") == 0) {
        free(v->blank);
        v->blank = mgpu_format("%s", text);
    } else if (strcmp(type, "WordPiece") == 0 && v->model == WORDPIECE) {
        if (strcmp(v->prefix, mgpu_json_text(d, "prefix")) != 0)
            mgpu_refuse_tokenizer(p, "of the decoder, which is not the model's, the prefix", mgpu_json_text(d, "prefix"));
        v->cleans_up = is_true(d, "cleanup", true);
    } else if (strcmp(type, "Strip") == 0 && strcmp(mgpu_json_text(d, "content"), " ") == 0 &&
               !(mgpu_json_number(d, "stop") > 0) && mgpu_json_number(d, "start") <= 1) {
        v->first = mgpu_json_number(d, "start") > 0 ? FIRST_STRIPPED : FIRST_KEPT;
    } else if (strcmp(type, "Fuse") != 0 && !(strcmp(type, "ByteLevel") == 0 && v->model == BYTE_BPE) &&
               !(strcmp(type, "ByteFallback") == 0 && v->model != BYTE_BPE)) {
        mgpu_refuse_tokenizer(p, "the decoder", type);
    }
}

void mgpu_read_decoder(const TokenizerFile *p, const Json *decoder)
{
    bool several;
    for (const Json *d = first_of(p, decoder, "decoders", "the decoder", &several); d; d = several ? d->next : NULL)
        read_one_decoder(p, d);
}
