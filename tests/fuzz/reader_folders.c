/* reader_folders.c: bytes -> folders -> the runtime's readers of folders; see readers.h. How bytes become files is said at
 * each target. */
#include "runtime/base/base.h"
#include "tests/fuzz/readers.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/read_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_in(const char *folder, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_in(const char *folder, const char *name, const uint8_t *data, size_t length)
{
    FILE *f = fopen(path_in(folder, name), "wb");
    if (!f || fwrite(data, 1, length, f) != length || fclose(f) != 0)
        fuzz_wrong("%s/%s cannot be written: %s", folder, name, strerror(errno));
}

#define READ_SET(which, path, ...)                                                                                               \
    static const Variant VARIANTS[] = {__VA_ARGS__};                                                                             \
    static const mgpu_program *programs[MGPU_COUNT(VARIANTS)];                                                                   \
    read_set(VARIANTS, programs, which, path)

/* ---- cifar: one file or two, of CIFAR-10 or CIFAR-100 */
void run_cifar(const uint8_t *data, size_t length)
{
    const char *folder = fuzz_folder();
    int which = choose_variant(4, data, length);
    size_t first = which == 1 ? length / 2 : length;
    write_in(folder, which == 0 ? "test_batch.bin" : which == 3 ? "train.bin" : "data_batch_1.bin", data, first);
    if (which == 1)
        write_in(folder, "data_batch_2.bin", data + first, length - first);
    READ_SET(which, folder, {"input image: u8[32, 32, 3]  input label: class(10)", "train = cifar(\"%s/test_batch.bin\")"},
             {"input image: f32[32, 32, 3]  input label: class(10)", "train = cifar(\"%s\") |> part(0, 0.5)"},
             {"input image: u8[32, 32, 3]  input label: class(10)", "train = cifar(\"%s\", cache = \"ram\")"},
             {"input label: class(100)  input coarse: class(20)", "train = cifar(\"%s\")"});
}

/* ---- text: vocabulary, merges and text, with the byte 0x1e between them; or tokenizer.json, something that is not read, and
 * text */
void run_text(const uint8_t *data, size_t length)
{
    static const char *const NAMES[3][3] = {
        {"encoder.json", "vocab.bpe", "text"}, {"vocab.json", "merges.txt", "text"}, {"tokenizer.json", "unread", "text"}};
    const char *folder = fuzz_folder();
    int which = choose_variant(3, data, length);
    unlink(path_in(folder, NAMES[2][0]));
    for (int i = 0; i < 3; i++) {
        const uint8_t *mark = i < 2 && length ? memchr(data, 0x1e, length) : NULL;
        size_t bytes = mark ? (size_t)(mark - data) : length;
        write_in(folder, NAMES[which][i], data, bytes);
        data += mark ? bytes + 1 : bytes;
        length -= mark ? bytes + 1 : bytes;
    }
    READ_SET(which, folder,
             {"input token: class(300)[3]  input next: class(300)[3]", "train = text(\"%s/text\", vocabulary = \"%s\")"},
             {"input token: class(70000)[2]", "train = text(\"%s/text\", vocabulary = \"%s\", stride = 1) |> part(0.1, 1)"},
             {"input token: class(70000)[2]", "train = text(\"%s/text\", vocabulary = \"%s\", stride = 1)"});
}

/* ---- images: a line for each file, its path and after the last blank what it is: a good picture (g), one that ends early
 * (e), no picture (n), nothing at all (-), a folder (/), or anything else: a link to that path */
static const uint8_t PICTURE[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    13,   'I',  'H',
                                  'D',  'R',  0,    0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,
                                  0,    0x3a, 0x7e, 0x9b, 0x55, 0,    0,    0,    10,   'I',  'D',  'A',  'T',  0x78,
                                  0x9c, 0x63, 0x68, 0,    0,    0,    0x82, 0,    0x81, 0x77, 0xcd, 0x72, 0xb6, 0,
                                  0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82}; /* 1 x 1, grey */

enum { MOST_FILES = 40 };

static bool inside(const char *path) /* names, none of which is empty, "." or "..": the folder is not left */
{
    for (const char *name = path;; name = strchr(name, '/') + 1) {
        size_t n = strcspn(name, "/");
        if (n == 0 || (n == 1 && *name == '.') || (n == 2 && memcmp(name, "..", 2) == 0))
            return false;
        if (!name[n])
            return true;
    }
}

/* a name that the system refuses (too long, a folder of that name) is no file */
static void make_entry(const char *folder, const char *path, const char *what)
{
    char whole[4096], target[4096];
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    for (char *at = whole + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(whole, 0777);
        *at = '/';
    }
    if (strcmp(what, "/") == 0) {
        mkdir(whole, 0777);
        return;
    }
    if (what[0] && what[1]) {
        snprintf(target, sizeof target, "%s/%s", folder, what);
        if (!inside(what) || symlink(target, whole) != 0)
            errno = 0;
        return;
    }
    FILE *f = fopen(whole, "wb");
    if (!f)
        return;
    if (*what == 'g' || *what == 'e')
        fwrite(PICTURE, 1, *what == 'g' ? sizeof PICTURE : sizeof PICTURE - 24, f);
    else if (*what == 'n')
        fputs("no picture", f);
    fclose(f);
}

void run_images(const uint8_t *data, size_t length)
{
    const char *folder = fuzz_folder();
    int which = choose_variant(5, data, length);
    FILE *list = fopen(path_in(folder, "list.csv"), "wb");
    if (!list)
        fuzz_wrong("%s/list.csv cannot be written: %s", folder, strerror(errno));
    fputs("path,job\n", list);
    for (int files = 0; length && files < MOST_FILES; files++) {
        const uint8_t *end = memchr(data, '\n', length);
        size_t bytes = end ? (size_t)(end - data) : length;
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)bytes, (const char *)data);
        char *blank = strrchr(line, ' ');
        if (blank && inside(line)) {
            *blank = 0;
            if (inside(line))
                make_entry(folder, line, blank + 1);
            fprintf(list, "\"%s/%s\",%d\n", folder, line, files % 3);
        }
        data += end ? bytes + 1 : bytes;
        length -= end ? bytes + 1 : bytes;
    }
    fclose(list);
    READ_SET(which, folder, {"input image: u8[1, 1, 1]  input label: class(4, other = 0)", "train = images(\"%s\")"},
             {"input image: f32[4, 4, 3]  input label: class(9)",
              "train = images(\"%s\", on_bad = \"skip\") |> resize(5) |> center_crop(4)"},
             {"input image: u8[3, 3, 4]", "train = images(\"%s/\", cache = \"ram\") |> part(0, 0.7) |> random_resized_crop(3)"},
             {"input picture: u8[2, 2, 1]  input job: class(3)",
              "train = csv(\"%s/list.csv\", picture = decode(\"path\"), on_bad = \"skip\") |> resize(2)"},
             {"input label: class(4)", "train = images(\"%s\", on_bad = \"skip\")"});
}

/* ---- words */
/* clang-format off */
const char *const TEXT_WORDS[] = {
    "\x1e", "{", "}", ":", ",", "\"a\": 3", "\"\xc4\xa0the\"", "\xc4\xa0", "\xc4\x80", "a a", "#version: 0.2", "\n", "\r\n",
    "'s", "'re", " ", "\xe2\x80\x83", "\xff", "65536", "2147483647", "\"NFC\"", "\"NFKD\"", "\"Lowercase\"", "\"StripAccents\"", "\"Strip\"",
    "\"Prepend\"", "\"Replace\"", "\"BertNormalizer\"", "\"Precompiled\"", "\"ByteLevel\"", "\"Metaspace\"", "\"BertPreTokenizer\"",
    "\"WhitespaceSplit\"", "\"Punctuation\"", "\"WordPiece\"", "\"Unigram\"", "\"BPE\"", "\"Sequence\"", "\"first\"", "\"never\"", "true", "false",
    "null", "\"<0x41>\"", "\"content\"", "\xe2\x96\x81", "e\xcc\x81", "\xef\xac\x81", "AAAAAA", NULL};
const char *const IMAGES_WORDS[] = {
    ".jpg", ".JPEG", ".png", ".", "..", "/", "a", "b/c", " g", " e", " n", " -", " /", " a", " a/b", "\n", "\"", ",", "\xff",
    "list.csv", NULL};
