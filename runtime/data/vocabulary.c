/* vocabulary.c: finds the folder of a model's vocabulary and reads its files: tokenizer.json of Hugging Face (tokenizer.c), or
 * encoder.json (or vocab.json), token -> number, and vocab.bpe (or merges.txt) with a merge a line in order of rank. In these two
 * files, tokens written <|as this|> are special tokens. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the folder */
static bool holds(const char *folder, const char *name)
{
    char *path = mgpu_format("%s/%s", folder, name);
    bool there = access(path, R_OK) == 0;
    free(path);
    return there;
}

/* Returns the folder of a file of weights, or the path itself if it is a folder. The caller frees. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (holds(path, "."))
        return mgpu_format("%s", path);
    return slash ? mgpu_format("%.*s", (int)(slash - path), path) : mgpu_format(".");
}

char *mgpu_vocabulary_folder(const mgpu_program *p, const RunOptions *o, bool of_init)
{
    if (o->vocabulary)
        return mgpu_format("%s", o->vocabulary);
    for (int i = 0; i < p->set_count; i++) {
        const char *vocabulary = p->sets[i].call_count ? mgpu_option_text(&p->sets[i].calls[0], "vocabulary", "") : "";
        if (*vocabulary)
            return mgpu_path_in(o->data, vocabulary);
    }
    char *folder = of_init && o->init ? folder_of(o->init) : NULL;
    if (folder && !holds(folder, "tokenizer.json") && !(holds(folder, "vocab.json") && holds(folder, "merges.txt"))) {
        free(folder);
        return NULL;
    }
    if (folder)
        fprintf(stderr, "vocabulary  %s/%s\n", folder, holds(folder, "tokenizer.json") ? "tokenizer.json" : "vocab.json");
    return folder;
}

/* ---- the files */
static char *file_in(const char *folder, const char *name, const char *other, const char *where)
{
    char *path = mgpu_format("%s/%s", folder, name), *second = mgpu_format("%s/%s", folder, other);
    if (access(path, R_OK) == 0) {
        free(second);
        return path;
    }
    if (access(second, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%sthe vocabulary %s holds neither tokenizer.json nor %s nor %s; say where the data is with --data DIR", where,
                  folder, name, other);
    free(path);
    return second;
}

static void read_tokens(Vocabulary *v, const char *where)
{
    char *path = file_in(v->folder, "encoder.json", "vocab.json", where);
    FileBytes file;
    mgpu_load_file(&file, path, where, false);
    const char *error = "it is no JSON object of tokens";
    Json *json = mgpu_json_read((const char *)file.data, (size_t)file.bytes, &error);
    if (!json || json->kind != JSON_OBJECT)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, path, error);
    for (const Json *m = json->first; m; m = m->next) {
        int64_t number;
        size_t length = strlen(m->key);
        if (!mgpu_json_whole(m, &number) || number < 0 || number >= INT32_MAX)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: the token '%s' has no number", where, path, m->key);
        mgpu_add_token(v, m->key, number);
        if (length > 4 && memcmp(m->key, "<|", 2) == 0 && memcmp(m->key + length - 2, "|>", 2) == 0)
            mgpu_add_special(v, m->key, number);
    }
    free(json);
    mgpu_close_file(&file);
    free(path);
}

static void read_merges(Vocabulary *v, const char *where)
{
    char *path = file_in(v->folder, "vocab.bpe", "merges.txt", where);
    FileBytes file;
    mgpu_load_file(&file, path, where, false);
    const char *at = (const char *)file.data, *end = at + file.bytes;
    int64_t lines = 1;
    for (const char *c = at; c < end; c++)
        lines += *c == '\n';
    mgpu_begin_merges(v, lines, where);
    for (uint32_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        bool comment = line == 1 && length >= 8 && memcmp(at, "#version", 8) == 0;
        length -= length && at[length - 1] == '\r';
        char *place = mgpu_format("%s%s:%u", where, path, line);
        const char *blank = memchr(at, ' ', length);
        size_t left = blank ? (size_t)(blank - at) : length;
        if (length && !comment)
            mgpu_add_merge(v, at, left, at + left + (blank != NULL), length - left - (blank != NULL), line, place);
        free(place);
        at = stop ? stop + 1 : end;
    }
    mgpu_close_file(&file);
    free(path);
}

Vocabulary *mgpu_open_vocabulary(const mgpu_call *call, const char *folder, const char *where)
{
    char *path = mgpu_path_in(folder, mgpu_option_text(call, "vocabulary", ""));
    Vocabulary *v = mgpu_read_vocabulary(path, where);
    free(path);
    return v;
}

/* ---- tokens that end a text: eos_token_id, one or several, of generation_config.json or else config.json */
static void read_end(Vocabulary *v, const char *where)
{
    FileBytes file;
    const char *error = "it is no JSON object";
    char *path =
        mgpu_format("%s/%s", v->folder, holds(v->folder, "generation_config.json") ? "generation_config.json" : "config.json");
    if (access(path, R_OK) == 0) {
        mgpu_load_file(&file, path, where, false);
        Json *json = mgpu_json_read((const char *)file.data, (size_t)file.bytes, &error);
        if (!json || json->kind != JSON_OBJECT)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, path, error);
        const Json *end = mgpu_json_member(json, "eos_token_id"), *one = end && end->kind == JSON_LIST ? end->first : end;
        for (int64_t token; one && mgpu_json_whole(one, &token); one = end->kind == JSON_LIST ? one->next : NULL) {
            MGPU_PUSH(v->end, v->end_count, token);
        }
        free(json);
        mgpu_close_file(&file);
    }
    free(path);
}

Vocabulary *mgpu_read_vocabulary(const char *folder, const char *where)
{
    Vocabulary *v = mgpu_allocate(1, sizeof *v);
    v->folder = mgpu_format("%s", folder);
    v->unknown = -1;
    char *path = mgpu_format("%s/tokenizer.json", v->folder);
    if (access(path, R_OK) == 0) {
        mgpu_read_tokenizer(v, path, where);
    } else {
        v->cuts = mgpu_allocate(1, sizeof *v->cuts);
        v->cuts[v->cut_count++] = (Step){.kind = STEP_PATTERN, .pattern = WORDS_GPT2};
        read_tokens(v, where);
        read_merges(v, where);
    }
    free(path);
    read_end(v, where);
    return v;
}
