/* manifest_test.c: the manifest of a save, written and read: it comes back as it was; with any bit flipped, or cut anywhere, it
 * is refused; with a seal that fits, what is not a manifest is refused all the same. */
#include "runtime/base/base.h"
#include "runtime/save/checkpoint.h"
#include "runtime/save/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* what is made here lives to the end */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static void expect(const char *name, bool good, const char *why)
{
    printf(good ? "ok %s\n" : "not ok %s: %s\n", name, why);
    failures += !good;
}

static Manifest example(void)
{
    static int64_t kept[] = {4, 8, 12};
    Manifest m = {.run = "0123456789abcdef0123456789abcdef", .number = 17, .step = 12, .kept = kept, .kept_count = 3};
    m.origin = (SaveOrigin){.train_samples = 600, .valid_samples = 0};
    memset(m.origin.model, 'a', 64);
    for (int i = 0; i < SAVED_FILES; i += 2)
        m.files[i] = (SavedFile){.there = true, .bytes = 1000 * i, .part = i ? 0 : 4096, .sha256 = mgpu_sha256_of(&i, sizeof i)};
    return m;
}

static bool same(const Manifest *a, const Manifest *b)
{
    bool good = strcmp(a->run, b->run) == 0 && a->number == b->number && a->step == b->step && a->kept_count == b->kept_count &&
                memcmp(a->kept, b->kept, (size_t)a->kept_count * sizeof *a->kept) == 0 &&
                strcmp(a->origin.model, b->origin.model) == 0 && a->origin.train_samples == b->origin.train_samples &&
                a->origin.valid_samples == b->origin.valid_samples;
    for (int i = 0; i < SAVED_FILES; i++)
        good = good && a->files[i].there == b->files[i].there && a->files[i].bytes == b->files[i].bytes &&
               a->files[i].part == b->files[i].part &&
               memcmp(&a->files[i].sha256, &b->files[i].sha256, sizeof a->files[i].sha256) == 0;
    return good;
}

static bool is_refused(const char *text, size_t length)
{
    Manifest m;
    char *copy = malloc(length + 1); /* so that ASan sees a read after it */
    if (!copy)
        return false;
    memcpy(copy, text, length);
    char *why = mgpu_parse_manifest(&m, copy, length);
    bool refused = why != NULL;
    free(why);
    free(m.kept);
    free(copy);
    return refused;
}

/* the text with `body` before its last line, and the seal that then fits */
static char *sealed(const char *body, size_t *length)
{
    char digits[65];
    Digest d = mgpu_sha256_of(body, strlen(body));
    char *text = mgpu_format("%s\"sha256\":\"%s\"}\n", body, mgpu_digest_text(&d, 32, digits));
    *length = strlen(text);
    return text;
}

int main(void)
{
    size_t length;
    Manifest m = example(), back;
    char *text = mgpu_manifest_text(&m, &length), *why = mgpu_parse_manifest(&back, text, length);
    expect("comes back", !why && strlen(text) == length && same(&m, &back), why ? why : "it differs");
    int accepted = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        accepted += !is_refused(text, length);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
    }
    expect("flipped bits", accepted == 0, mgpu_format("%d of %zu are accepted", accepted, 8 * length));
    accepted = 0;
    for (size_t cut = 0; cut < length; cut++)
        accepted += !is_refused(text, cut);
    expect("cut off", accepted == 0, mgpu_format("%d of %zu are accepted", accepted, length));
    static const char *const WRONG[][2] = {{"\"format\":3", "\"format\":4"},
                                           {"\"run\":\"0123", "\"run\":\"00123"},
                                           {"\"number\":17", "\"number\":-1"},
                                           {"\"number\":17", "\"number\":1e1"},
                                           {"\"step\":12", "\"step\":\"12\""},
                                           {"[4,8,12]", "[4,8,[12]]"},
                                           {"[4,8,12]", "{}"},
                                           {"\"bytes\":2000", "\"bytes\":null"},
                                           {"\"sha256\":\"", "\"sha256\":\"A"},
                                           {"\"files\":[", "\"file\":["},
                                           {"{\"name\"", "[{\"name\""}};
    char *body = mgpu_format("%.*s", (int)(strrchr(text, '{') ? strstr(text, "],\n\"sha256\"") + 3 - text : 0), text);
    for (int i = 0; i < MGPU_COUNT(WRONG); i++) {
        char *at = strstr(body, WRONG[i][0]), *name = mgpu_format("sealed: %s", WRONG[i][1]);
        char *other = at ? mgpu_format("%.*s%s%s", (int)(at - body), body, WRONG[i][1], at + strlen(WRONG[i][0])) : body;
        char *whole = sealed(other, &length);
        expect(name, at && is_refused(whole, length), "it is accepted");
    }
    char *whole = sealed(body, &length);
    expect("sealed anew", !is_refused(whole, length), "it is refused");
    return failures != 0;
}
