/* tokenizer.c: copies the files of a model's tokenizer. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/export/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tokens that begin and end texts */
static Json *json_in(const char *folder, const char *name)
{
    char *path = mgpu_format("%s/%s", folder, name);
    const char *error, *refused;
    size_t length;
    char *text = access(path, R_OK) == 0 ? mgpu_read_whole(path, &length, &refused) : NULL;
    Json *json = text ? mgpu_json_read(text, length, &error) : NULL;
    free(text);
    free(path);
    return json;
}

static int64_t token_in(const Json *json, const char *text)
{
    const Json *added = json && json->kind == JSON_OBJECT ? mgpu_json_member(json, "added_tokens") : NULL, *number = NULL;
    int64_t token;
    if (added && added->kind == JSON_LIST)
        for (const Json *m = added->first; m; m = m->next)
            if (m->kind == JSON_OBJECT && strcmp(mgpu_json_text(m, "content"), text) == 0)
                number = mgpu_json_member(m, "id");
    if (!number && json && json->kind == JSON_OBJECT && !added)
        number = mgpu_json_member(json, text);
    return number && mgpu_json_whole(number, &token) ? token : -1;
}

int64_t mgpu_special_token(const char *folder, bool end)
{
    static const char *const FILES[] = {"tokenizer.json", "encoder.json", "vocab.json"};
    static const char *const TEXT[][3] = {{"<|begin_of_text|>", "<s>", "<|endoftext|>"},
                                          {"<|endoftext|>", "<|end_of_text|>", "</s>"}};
    int64_t token = -1;
    for (int i = 0; i < MGPU_COUNT(FILES) && token < 0; i++) {
        Json *json = json_in(folder, FILES[i]);
        for (int k = 0; k < 3 && token < 0; k++)
            token = token_in(json, TEXT[end][k]);
        free(json);
    }
    return token;
}

/* ---- copies */

/* Returns false if the file does not exist. */
static bool copy_file(const char *folder, const char *name, const char *to, const char *as)
{
    char *from = mgpu_format("%s/%s", folder, name), *path = mgpu_format("%s/%s", to, as);
    const char *refused = NULL;
    size_t length = 0;
    bool there = access(from, F_OK) == 0;
    char *text = there ? mgpu_read_whole(from, &length, &refused) : NULL;
    if (there && !text)
        mgpu_fail(MGPU_BAD_INPUT, "%s cannot be read: %s", from, refused ? refused : strerror(errno));
    if (there) {
        WholeFile file = mgpu_begin_export(path);
        fwrite(text, 1, length, file.f);
        char *what = mgpu_format("a copy of %s", from);
        mgpu_end_export(&file, path, what);
        free(what);
    }
    free(text);
    free(from);
    free(path);
    return there;
}

/* Writes what transformers requires in addition to the tokens. */
static void write_settings(const char *to, bool json)
{
    char *path = mgpu_format("%s/tokenizer_config.json", to);
    WholeFile file = mgpu_begin_export(path);
    fprintf(file.f, "{\"tokenizer_class\": \"%s\", \"clean_up_tokenization_spaces\": false}\n",
            json ? "PreTrainedTokenizerFast" : "GPT2Tokenizer");
    mgpu_end_export(&file, path, "which tokenizer it is");
    free(path);
}

void mgpu_copy_tokenizer(const Export *e, const char *folder, const char *to)
{
    static const char *const BESIDE[] = {"special_tokens_map.json", "added_tokens.json", "vocab.txt", "tokenizer.model"};
    bool json = copy_file(folder, "tokenizer.json", to, "tokenizer.json");
    bool words = copy_file(folder, "encoder.json", to, "vocab.json") || copy_file(folder, "vocab.json", to, "vocab.json");
    if (words && !copy_file(folder, "vocab.bpe", to, "merges.txt"))
        copy_file(folder, "merges.txt", to, "merges.txt");
    for (int i = 0; i < MGPU_COUNT(BESIDE); i++)
        words = copy_file(folder, BESIDE[i], to, BESIDE[i]) || words;
    if (!json && !words)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: this folder holds no tokenizer.json, nor vocab.json (or encoder.json) with merges.txt (or vocab.bpe); %s",
                  folder,
                  e->options->vocabulary ? "--vocabulary names the folder that does" : "say where the data is with --data DIR");
    if (!copy_file(folder, "tokenizer_config.json", to, "tokenizer_config.json"))
        write_settings(to, json);
}
