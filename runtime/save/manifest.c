/* manifest.c: the contents of a save: manifest.json <-> Manifest.
 *
 *   {"format":2,"run":"...","number":17,"step":12,"model":"...","train_samples":600,"valid_samples":100,
 *   "train_data":"...","valid_data":"...",
 *   "kept":[4,8,12],
 *   "files":[{"name":"weights.safetensors","bytes":1024,"sha256":"..."},
 *   ...],
 *   "sha256":"..."}
 *
 * A file of more than 65536 bytes also has "part":65536: then "sha256" is that of the concatenated SHA-256 of each 65536 bytes.
 * The last line is the SHA-256 of all lines before it, so that damage to the manifest is detected. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <stdlib.h>
#include <string.h>

enum { FORMAT = 2, FORMAT_IN_PARTS = 3 /* has files in parts, which older versions would report as damaged */ };
const char *const mgpu_saved_names[SAVED_FILES] = {"weights.safetensors", "optimizer.safetensors", "average.safetensors",
                                                   "run.json", "best.safetensors"};
static const char SEAL[] = "\"sha256\":\"", END[] = "\"}\n";
enum { SEAL_BYTES = (int)sizeof SEAL - 1 + 64 + (int)sizeof END - 1 };

char *mgpu_manifest_text(const Manifest *m, size_t *length)
{
    char *body, digits[65];
    bool in_parts = false;
    for (int i = 0; i < SAVED_FILES; i++)
        in_parts = in_parts || (m->files[i].there && m->files[i].part);
    FILE *f = mgpu_begin_text(&body, length);
    fprintf(f,
            "{\"format\":%d,\"run\":\"%s\",\"number\":%lld,\"step\":%lld,\"model\":\"%s\",\"train_samples\":%lld,\"valid_"
            "samples\":%lld,\n\"train_data\":\"%s\",\"valid_data\":\"%s\",\n",
            in_parts ? FORMAT_IN_PARTS : FORMAT, m->run, (long long)m->number, (long long)m->step, m->origin.model,
            (long long)m->origin.train_samples, (long long)m->origin.valid_samples, m->origin.train_data, m->origin.valid_data);
    fputs("\"kept\":[", f);
    for (int i = 0; i < m->kept_count; i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)m->kept[i]);
    fputs("],\n\"files\":[", f);
    const char *between = "";
    for (int i = 0; i < SAVED_FILES; i++) {
        const SavedFile *file = &m->files[i];
        if (file->there) {
            fprintf(f, "%s{\"name\":\"%s\",\"bytes\":%lld,", between, mgpu_saved_names[i], (long long)file->bytes);
            if (file->part)
                fprintf(f, "\"part\":%lld,", (long long)file->part);
            fprintf(f, "\"sha256\":\"%s\"}", mgpu_digest_text(&file->sha256, 32, digits));
            between = ",\n";
        }
    }
    fputs("],\n", f);
    mgpu_end_text(f);
    Digest seal = mgpu_sha256_of(body, *length);
    char *whole = mgpu_format("%s%s%s%s", body, SEAL, mgpu_digest_text(&seal, 32, digits), END);
    *length += SEAL_BYTES;
    free(body);
    return whole;
}

void mgpu_write_digests(FILE *f, const Manifest *m, bool best)
{
    char digits[65];
    const char *between = "";
    fputc('{', f);
    for (int i = 0; i < SAVED_FILES; i++)
        if (m->files[i].there && i != SAVED_RUN && (i == SAVED_BEST) == best) {
            fprintf(f, "%s\"%s\":\"%s\"", between, mgpu_saved_names[i], mgpu_digest_text(&m->files[i].sha256, 32, digits));
            between = ",";
        }
    fputc('}', f);
}

/* ---- reading */
static bool read_digest(const Json *j, Digest *d)
{
    if (!j || j->kind != JSON_TEXT || strlen(j->text) != 64 || strspn(j->text, "0123456789abcdef") != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        char byte[3] = {j->text[2 * i], j->text[2 * i + 1], 0};
        d->bytes[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return true;
}

static bool read_file(Manifest *m, const Json *entry)
{
    const Json *name = mgpu_json_member(entry, "name"), *part = mgpu_json_member(entry, "part");
    SavedFile file = {.there = true};
    if (part && (!mgpu_json_whole(part, &file.part) || file.part < 1))
        return false;
    if (!name || name->kind != JSON_TEXT || !mgpu_json_whole(mgpu_json_member(entry, "bytes"), &file.bytes) ||
        !read_digest(mgpu_json_member(entry, "sha256"), &file.sha256))
        return false;
    for (int i = 0; i < SAVED_FILES; i++)
        if (strcmp(mgpu_saved_names[i], name->text) == 0)
            m->files[i] = file;
    return true; /* files of later versions are ignored */
}

static bool read_text(const Json *json, const char *key, char *text, size_t capacity)
{
    const Json *j = mgpu_json_member(json, key);
    if (!j || j->kind != JSON_TEXT || strlen(j->text) >= capacity)
        return false;
    memcpy(text, j->text, strlen(j->text) + 1);
    return true;
}

static bool read_lists(Manifest *m, const Json *json)
{
    const Json *kept = mgpu_json_member(json, "kept"), *files = mgpu_json_member(json, "files");
    if (!kept || kept->kind != JSON_LIST || !files || files->kind != JSON_LIST)
        return false;
    for (const Json *one = kept->first; one; one = one->next) {
        m->kept = mgpu_resize(m->kept, (size_t)(m->kept_count + 1) * sizeof *m->kept);
        if (!mgpu_json_whole(one, &m->kept[m->kept_count++]))
            return false;
    }
    for (const Json *one = files->first; one; one = one->next)
        if (!read_file(m, one))
            return false;
    return true;
}

static bool read_members(Manifest *m, const Json *json)
{
    for (int valid = 0; valid < 2; valid++) { /* earlier versions have no such members */
        const char *key = valid ? "valid_data" : "train_data";
        char *text = valid ? m->origin.valid_data : m->origin.train_data;
        if (mgpu_json_member(json, key) && !read_text(json, key, text, sizeof m->origin.train_data))
            return false;
    }
    return read_text(json, "run", m->run, sizeof m->run) && read_text(json, "model", m->origin.model, sizeof m->origin.model) &&
           mgpu_json_whole(mgpu_json_member(json, "number"), &m->number) && m->number >= 0 &&
           mgpu_json_whole(mgpu_json_member(json, "step"), &m->step) &&
           mgpu_json_whole(mgpu_json_member(json, "train_samples"), &m->origin.train_samples) &&
           mgpu_json_whole(mgpu_json_member(json, "valid_samples"), &m->origin.valid_samples) && read_lists(m, json);
}

char *mgpu_parse_manifest(Manifest *m, const char *text, size_t length)
{
    *m = (Manifest){0};
    const char *error = NULL;
    Json *json = mgpu_json_read(text, length, &error);
    Digest seal, found;
    int64_t format;
    char *wrong = NULL;
    if (!json || length < SEAL_BYTES || !mgpu_json_whole(mgpu_json_member(json, "format"), &format) ||
        !read_digest(mgpu_json_member(json, "sha256"), &seal))
        wrong = mgpu_format("it is damaged%s%s", error ? ": " : "", error ? error : "");
    else if (format != FORMAT && format != FORMAT_IN_PARTS)
        wrong = mgpu_format("it was written by another version of mgpuc; --init takes the weights beside it");
    else if (found = mgpu_sha256_of(text, length - SEAL_BYTES), memcmp(&seal, &found, sizeof seal) != 0)
        wrong = mgpu_format("it is damaged: its last line is not the SHA-256 of the others");
    else if (!read_members(m, json))
        wrong = mgpu_format("it is damaged: some of its members are missing");
    free(json);
    return wrong;
}
