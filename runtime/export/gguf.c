/* gguf.c: `export gguf FILE`: writes the model for llama.cpp: GGUF, version 3 (ggml's docs/gguf.md): metadata, tensors,
 * tokenizer. The family is found and compared as in hf.c. Names, and the order of rotated rows, follow the set of rules that the
 * family names. Elements of f64, and those of tensors with one axis, become f32, which ggml computes with. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/data/vocabulary.h"
#include "runtime/export/family.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32, ELEMENTS = 1 << 18 };
enum { TYPE_U32 = 4, TYPE_I32 = 5, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_TEXT = 8, TYPE_LIST = 9 }; /* types of metadata values */
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };
typedef struct GgufMetadata {
    FILE *f;
    int count;
} GgufMetadata;

static void put(FILE *f, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(v >> 8 * i & 255), f);
}

static void put_text(FILE *f, const char *text, size_t length)
{
    put(f, length, 8);
    fwrite(text, 1, length, f);
}

static void begin_metadata(GgufMetadata *n, const char *key, int type)
{
    put_text(n->f, key, strlen(key));
    put(n->f, (uint64_t)type, 4);
    n->count++;
}

static void write_metadata_text(GgufMetadata *n, const char *key, const char *text)
{
    begin_metadata(n, key, TYPE_TEXT);
    put_text(n->f, text, strlen(text));
}

static void write_metadata_integer(GgufMetadata *n, const char *key, int64_t value)
{
    begin_metadata(n, key, TYPE_U32);
    put(n->f, (uint64_t)value, 4);
}

/* Writes a JSON value: "text", 1.0, 1. */
static void write_metadata_value(GgufMetadata *n, const char *key, const char *value)
{
    if (*value == '"') {
        begin_metadata(n, key, TYPE_TEXT);
        put_text(n->f, value + 1, strlen(value) - 2);
    } else if (strpbrk(value, ".e")) {
        float number = strtof(value, NULL);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        begin_metadata(n, key, TYPE_F32);
        put(n->f, bits, 4);
    } else {
        write_metadata_integer(n, key, strtoll(value, NULL, 10));
    }
}

/* ---- the tokenizer */
/* Returns the spelling of each token, or NULL for those without one. */
static const char **spellings(const Vocabulary *v, int64_t tokens)
{
    const char **of = mgpu_allocate((size_t)tokens, sizeof *of);
    for (int64_t w = 0; w < v->spelling.words.count; w++)
        of[v->number[w]] = v->spelling.words.text[w];
    return of;
}

static void write_tokens(GgufMetadata *n, const Vocabulary *v, const char *const *of, int64_t tokens)
{
    begin_metadata(n, "tokenizer.ggml.tokens", TYPE_LIST);
    put(n->f, TYPE_TEXT, 4);
    put(n->f, (uint64_t)tokens, 8);
    uint8_t *type = mgpu_allocate((size_t)tokens, 1);
    const char **text = mgpu_allocate((size_t)tokens, sizeof *text);
    for (int64_t i = 0; i < tokens; i++)
        text[i] = of[i], type[i] = of[i] ? TOKEN_NORMAL : TOKEN_UNUSED;
    for (int i = 0; i < v->special_count; i++)
        text[v->specials[i].token] = v->specials[i].text, type[v->specials[i].token] = TOKEN_CONTROL;
    for (int64_t i = 0; i < tokens; i++) {
        char *unused = text[i] ? NULL : mgpu_format("[PAD%lld]", (long long)i);
        put_text(n->f, unused ? unused : text[i], strlen(unused ? unused : text[i]));
        free(unused);
    }
    begin_metadata(n, "tokenizer.ggml.token_type", TYPE_LIST);
    put(n->f, TYPE_I32, 4);
    put(n->f, (uint64_t)tokens, 8);
    for (int64_t i = 0; i < tokens; i++)
        put(n->f, type[i], 4);
    free(type);
    free(text);
}

static int by_rank(const void *a, const void *b)
{
    const Merge *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void write_merges(GgufMetadata *n, const Vocabulary *v, const char *const *of)
{
    Merge *merges = mgpu_allocate((size_t)v->merge_slots + 1, sizeof *merges);
    size_t count = 0;
    for (uint64_t i = 0; i < v->merge_slots; i++)
        if (v->merges[i].rank)
            merges[count++] = v->merges[i];
    qsort(merges, count, sizeof *merges, by_rank);
    begin_metadata(n, "tokenizer.ggml.merges", TYPE_LIST);
    put(n->f, TYPE_TEXT, 4);
    put(n->f, count, 8);
    for (size_t i = 0; i < count; i++) {
        char *text = mgpu_format("%s %s", of[merges[i].pair >> 32], of[merges[i].pair & UINT32_MAX]);
        put_text(n->f, text, strlen(text));
        free(text);
    }
    free(merges);
}

static void write_tokenizer(GgufMetadata *n, const Published *p, const char *folder, int64_t tokens)
{
    static const char *const PATTERN[] = {[WORDS_GPT2] = "gpt-2", [WORDS_LLAMA3] = "llama-bpe", [WORDS_QWEN2] = "qwen2"};
    if (!folder) {
        write_metadata_text(n, "tokenizer.ggml.model", "no_vocab");
        return;
    }
    Vocabulary *v = mgpu_read_vocabulary(folder, "");
    if (v->model != BYTE_BPE || v->normalizer_count || v->cut_count != 1 || v->cuts->kind != STEP_PATTERN)
        mgpu_fail(
            MGPU_BAD_INPUT,
            "export gguf: the tokenizer of %s is not byte-level BPE without a normalizer, which this export writes; export hf copies "
            "any, for llama.cpp's own convert_hf_to_gguf.py",
            folder);
    WordPattern pattern = v->cuts->pattern;
    if (v->whole_words != (pattern == WORDS_LLAMA3)) /* llama.cpp derives it from the pattern */
        mgpu_fail(MGPU_BAD_INPUT,
                  "export gguf: %s %s the option ignore_merges, and llama.cpp reads tokenizers with this pattern of words %s it",
                  folder, v->whole_words ? "has" : "lacks", v->whole_words ? "without" : "with");
    if (v->largest >= tokens)
        mgpu_fail(MGPU_BAD_INPUT, "%s has the token %lld, the model has %lld: it is the tokenizer of another model", folder,
                  (long long)v->largest, (long long)tokens);
    const char **of = spellings(v, tokens);
    const FamilyFact *begin = mgpu_family_fact(&p->computed, "bos"), *end = mgpu_family_fact(&p->computed, "eos");
    write_metadata_text(n, "tokenizer.ggml.model", "gpt2");
    write_metadata_text(n, "tokenizer.ggml.pre", PATTERN[pattern]);
    write_tokens(n, v, of, tokens);
    write_merges(n, v, of);
    if (begin)
        write_metadata_integer(n, "tokenizer.ggml.bos_token_id", (int64_t)begin->number);
    if (end)
        write_metadata_integer(n, "tokenizer.ggml.eos_token_id", (int64_t)end->number);
    begin_metadata(n, "tokenizer.ggml.add_bos_token", TYPE_BOOL);
    put(n->f, 0, 1);
    free(of);
    mgpu_close_vocabulary(v);
}

/* ---- tensors */
static uint8_t stored_type(const mgpu_tensor *t) { return t->rank > 1 && mgpu_dtype_bytes(t->dtype) == 2 ? t->dtype : MGPU_F32; }

/* Returns general.file_type: llama.cpp's number for the type of most elements. */
static int64_t file_type(const Names *n)
{
    for (int i = 0; i < n->count; i++) {
        uint8_t type = stored_type(&n->list[i].tensor->tensor);
        if (type != MGPU_F32)
            return type == MGPU_F16 ? 1 : 32;
    }
    return 0;
}

static int64_t stored_bytes(const mgpu_tensor *t) { return mgpu_elements(t) * mgpu_dtype_bytes(stored_type(t)); }
static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void describe_tensors(FILE *f, const Names *n)
{
    static const int TYPE[] = {[MGPU_F32] = 0, [MGPU_F16] = 1, [MGPU_BF16] = 30};
    int64_t at = 0;
    for (int i = 0; i < n->count; i++) {
        const mgpu_tensor *t = &n->list[i].tensor->tensor;
        put_text(f, n->list[i].name, strlen(n->list[i].name));
        put(f, (uint64_t)t->rank, 4);
        for (int k = t->rank - 1; k >= 0; k--)
            put(f, (uint64_t)t->extent[k], 8);
        put(f, (uint64_t)TYPE[stored_type(t)], 4);
        put(f, (uint64_t)at, 8);
        at += aligned(stored_bytes(t));
    }
}

static void write_tensor(FILE *f, const SavedTensor *s)
{
    uint8_t type = stored_type(&s->tensor), *data = mgpu_allocate(ELEMENTS, 8), *stored = mgpu_allocate(ELEMENTS, 8);
    int64_t count = mgpu_elements(&s->tensor), bytes = stored_bytes(&s->tensor);
    for (int64_t at = 0; at < count; at += ELEMENTS) {
        int64_t end = at + ELEMENTS < count ? at + ELEMENTS : count;
        mgpu_read_elements(s, (mgpu_range){at, end}, data);
        mgpu_convert(stored, type, data, s->tensor.dtype, end - at);
        fwrite(stored, (size_t)mgpu_dtype_bytes(type), (size_t)(end - at), f);
    }
    for (int64_t k = bytes; k < aligned(bytes); k++)
        fputc(0, f);
    free(data);
    free(stored);
}

/* ---- the file */
static int64_t heads(void *context, const char *key)
{
    const Published *p = context;
    for (int i = 0; i < p->family->metadata_count; i++)
        if (strcmp(p->family->metadata[i].name, key) == 0)
            return mgpu_whole_value(p, p->family->metadata[i].text);
    return 0;
}

static void check_family(const Published *p)
{
    const FamilyFact *act = mgpu_family_fact(&p->computed, "act");
    if (!p->family->gguf)
        mgpu_fail(MGPU_BAD_INPUT,
                  "export gguf: llama.cpp computes no models like this one, of the family '%s'; `export hf` writes it",
                  p->family->name);
    if (mgpu_family_fact(&p->computed, "window"))
        mgpu_fail(MGPU_BAD_INPUT,
                  "export gguf: llama.cpp computes models of the family '%s' without the window that this model's attention has",
                  p->family->name);
    if (act && strcmp(act->text, p->family->gguf_act) != 0)
        mgpu_fail(MGPU_BAD_INPUT,
                  "export gguf: the model's activation is '%s', and llama.cpp computes models of the family '%s' with '%s'",
                  act->text, p->family->name, p->family->gguf_act);
}

static int64_t rows_of_words(const Published *p)
{
    for (int i = 0; i < p->family->config_count; i++)
        if (strcmp(p->family->config[i].name, "vocab_size") == 0)
            return mgpu_whole_value(p, p->family->config[i].text);
    return 0;
}

void mgpu_export_gguf(const Export *e)
{
    Published p;
    Names names = {0};
    mgpu_publish(&p, e);
    check_family(&p);
    Naming naming = {.rules = mgpu_rules(&p.library, p.family->gguf), .heads = heads, .context = &p};
    mgpu_rename_weights(&names, e, &naming);
    if (names.left)
        mgpu_fail(MGPU_BAD_INPUT, "export gguf: the weight '%s' has no name in GGUF's models of the family '%s'", names.left,
                  p.family->name);
    char *text = NULL;
    size_t length;
    GgufMetadata notes = {.f = mgpu_begin_text(&text, &length)};
    for (int i = 0; i < p.family->metadata_count; i++) {
        char *value = mgpu_value_of(&p, p.family->metadata[i].text);
        write_metadata_value(&notes, p.family->metadata[i].name, value);
        free(value);
    }
    write_metadata_text(&notes, "general.name", e->program->name);
    write_metadata_integer(&notes, "general.file_type", file_type(&names));
    write_tokenizer(&notes, &p, p.tokenizer, rows_of_words(&p));
    mgpu_end_text(notes.f);
    WholeFile file = mgpu_begin_export(e->path);
    fputs("GGUF", file.f);
    put(file.f, 3, 4);
    put(file.f, (uint64_t)names.count, 8);
    put(file.f, (uint64_t)notes.count, 8);
    fwrite(text, 1, length, file.f);
    describe_tensors(file.f, &names);
    for (long at = ftell(file.f); at % ALIGNMENT; at++)
        fputc(0, file.f);
    for (int i = 0; i < names.count; i++)
        write_tensor(file.f, names.list[i].tensor);
    const char *words = p.tokenizer ? ", and the tokenizer" : "; no tokenizer is known, --vocabulary DIR names one";
    char *what = mgpu_format("%d tensors of the family '%s'%s", names.count, p.family->name, words);
    mgpu_end_export(&file, e->path, what);
    free(what);
    free(text);
    mgpu_close_names(&names);
    mgpu_close_published(&p);
}

const struct mgpu_family_exports mgpu_family_exports = {.hf = mgpu_export_hf, .gguf = mgpu_export_gguf};
