/* Readers and stages: a model's data block -> opened sets, whose samples are compared with what Python's csv module and NumPy
 * read in the same files (tests/reference/data, made by data.py); parts, pairs, categories, orders, threads; and what is
 * said of files that are wrong. */
#include "runtime/base/base.h"
#include "runtime/run/sets.h"
#include "tests/unit/data_program.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

static const char *folder; /* of files that are written here */
static const char REFERENCE[] = MGPU_SOURCE "/tests/reference/data";
static int failed;

static void say(const char *name, bool good)
{
    printf(good ? "ok %s\n" : "not ok %s: see its case\n", name);
    failed += !good;
    fflush(stdout);
}

static void write_bytes(const char *name, const void *bytes, size_t count)
{
    const char *path = format("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, count, f) != count || fclose(f))
        mgpu_fail(3, "%s: %s", path, strerror(errno));
}

static void write_file(const char *name, const char *content) { write_bytes(name, content, strlen(content)); }

static void open_set(Dataset *d, const mgpu_program *p, const char *name, const char *where, Categories *categories)
{
    bool wanted[32];
    memset(wanted, true, sizeof wanted);
    mgpu_open_set(d, p, mgpu_find_set(p, name), wanted, where, categories);
}

/* -> the numbers of one input of all samples, in order */
static double *read_input(const Dataset *d, const char *name, uint64_t seed, int64_t epoch)
{
    int input = -1;
    for (int i = 0; i < d->program->input_count; i++)
        if (strcmp(d->program->inputs[i].tensor.name, name) == 0)
            input = i;
    const mgpu_tensor *t = &d->program->inputs[input].tensor;
    int64_t count = mgpu_elements(t) * d->samples, *order = mgpu_allocate((size_t)d->samples, sizeof *order);
    uint8_t **to = mgpu_allocate((size_t)d->program->input_count, sizeof *to);
    to[input] = mgpu_allocate((size_t)count, (size_t)mgpu_dtype_bytes(t->dtype));
    mgpu_permutation(order, d->samples, 0, 0, 0);
    mgpu_read_samples(d, to, order, d->samples, seed, epoch);
    double *numbers = mgpu_allocate((size_t)count, sizeof *numbers);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = mgpu_to_double(to[input], t->dtype, i);
    free(to[input]);
    free(to);
    free(order);
    return numbers;
}

/* ---- values that others read in the same files */
static bool agree(const mgpu_tensor *t, double is, double expected)
{
    double tolerance = t->dtype == MGPU_F32 ? 1e-7 * fabs(expected) : 0;
    return is == expected || (isnan(is) && isnan(expected)) || fabs(is - expected) <= tolerance;
}

/* `pick`: which elements of the first input the file has; NULL: all */
static void check_values(const char *name, const char *inputs, const char *data, const int *pick, int picked)
{
    const mgpu_program *p = program_of(inputs, data);
    Categories *categories = mgpu_new_categories(false);
    Dataset d;
    open_set(&d, p, "train", REFERENCE, categories);
    size_t length;
    char *text = read_file(format("%s/%s.values", REFERENCE, name), &length), *at = text;
    bool good = text != NULL;
    double *numbers[32];
    for (int i = 0; i < p->input_count; i++)
        numbers[i] = read_input(&d, p->inputs[i].tensor.name, 0, 0);
    for (int64_t s = 0; good && s < d.samples; s++)
        for (int i = 0; good && i < p->input_count; i++) {
            const mgpu_tensor *t = &p->inputs[i].tensor;
            int64_t elements = mgpu_elements(t), count = pick && i == 0 ? picked : elements;
            long long number = -1;
            char key[64] = "";
            int used = 0;
            good = sscanf(at, "%lld %63s%n", &number, key, &used) == 2 && number == s && strcmp(key, t->name) == 0;
            at += used;
            for (int64_t k = 0; good && k < count; k++) {
                char *end;
                double expected = strtod(at, &end), is = numbers[i][s * elements + (pick && i == 0 ? pick[k] : k)];
                good = end != at && agree(t, is, expected);
                if (!good)
                    printf("# %s: sample %lld, %s[%lld] is %.17g, %.17g expected\n", name, (long long)s, key, (long long)k, is,
                           expected);
                at = end;
            }
            good = good && *at++ == '\n';
            if (!good)
                printf("# %s: sample %lld, input %s: near '%.30s'\n", name, (long long)s, t->name, at);
        }
    say(format("values/%s", name), good && *at == 0);
    for (int i = 0; i < p->input_count; i++)
        free(numbers[i]);
    mgpu_close_set(&d);
    mgpu_free_categories(categories);
}

static void test_values(void)
{
    static const int PICK[] = {0, 1, 2, 3, 95, 96, 3071};
    check_values(
        "quotes",
        "input age: f32  input numbers: f32[2]  input name: class(5, other = 0)  input city: class(6, other = 5)\n"
        "input member: bool  input rank: i32",
        "train = csv(\"quotes.csv\", numbers = [\"age\", \"score\"], name = \"name, in full\", missing = [\"?\", \"NA\"])", NULL,
        0);
    check_values(
        "plain", "input size: f64  input colour: class(4, other = 2)  input kind: class(3)[1]",
        "train = csv(\"plain.csv.gz\", names = [\"size\", \"colour\", \"kind\"], delimiter = \";\", strip = \" .\", missing = \"?\")",
        NULL, 0);
    for (int ram = 0; ram < 2; ram++)
        check_values(
            "arrays",
            "input halves: f32[3]  input big: f64[2, 2]  input doubles: f64[1]  input longs: i64[1]  input truth: bool[4]\n"
            "input short: class(9)[5]  input long: class(9)[5]",
            format("train = npy(halves = \"halves.npy\", big = \"big.npy\", doubles = \"doubles.npy\", longs = \"longs.npy\",\n"
                   "truth = \"truth.npy\", short = \"short.npy\", long = \"long.npy\"%s)",
                   ram ? ", cache = \"ram\"" : ""),
            NULL, 0);
    for (int fortran = 0; fortran < 2; fortran++)
        check_values(
            "arrays",
            "input halves: f32[3]  input big: f64[2, 2]  input doubles: f64[1]  input longs: i64[1]  input truth: bool[4]\n"
            "input short: class(9)[5]  input long: class(9)[5]",
            format("train = npy(halves = \"stored.npz\", big = \"%s\", doubles = \"zipped.npy\", longs = \"packed.npz\",\n"
                   "truth = \"packed.npz\", short = \"short.npy\", long = \"stored.npz\")",
                   fortran ? "fortran.npy" : "stored.npz"),
            NULL, 0);
    for (int ram = 0; ram < 2; ram++)
        check_values(
            "idx", "input bytes: f32[3, 2, 1]  input shorts: i16[2]  input reals: f64  input label: class(4)",
            format(
                "train = idx(bytes = \"bytes.idx\", shorts = \"shorts.idx\", reals = \"reals.idx.gz\", label = \"label.idx\"%s)",
                ram ? ", cache = \"ram\"" : ""),
            NULL, 0);
    check_values("cifar10", "input image: u8[32, 32, 3]  input label: class(10)", "train = cifar(\"cifar\")", PICK, COUNT(PICK));
    check_values("cifar100", "input image: f32[32, 32, 3]  input label: class(100)  input coarse: class(20)",
                 "train = cifar(\"cifar/train.bin\")", PICK, COUNT(PICK));
    check_values("tokens", "input token: class(50257)[5]  input next: class(50257)[5]", "train = tokens(\"tokens.bin\")", NULL,
                 0);
    check_values("tokens", "input token: class(50257)[5]  input next: class(50257)[5]",
                 "train = tokens(\"headed.bin\", header = 7)", NULL, 0);
    check_values("stride", "input token: class(50257)[5]  input next: class(50257)[5]",
                 "train = tokens(\"tokens.bin\", type = u16, stride = 2)", NULL, 0);
    check_values("longs", "input token: i32[4]  input next: class(50257)[4]",
                 "train = tokens(\"longs.bin\", type = i64, cache = \"ram\")", NULL, 0);
    check_values("ascii", "input token: class(20)[6]  input next: class(20)[6]", "train = characters(\"ascii.txt\")", NULL, 0);
    check_values("unicode", "input token: class(40)[6]  input next: class(40)[6]", "train = characters(\"unicode.txt\")", NULL,
                 0);
    check_values("odd", "input token: class(400)[9]  input next: class(400)[9]",
                 "train = text(\"odd.txt\", vocabulary = \"bpe\")", NULL, 0);
    static const char *const TOKENIZER[] = {"gpt2_json", "llama3_json", "qwen2_json"};
    for (int i = 0; i < MGPU_COUNT(TOKENIZER); i++)
        check_values(TOKENIZER[i], "input token: class(500)[9]  input next: class(500)[9]",
                     format("train = text(\"special.txt\", vocabulary = \"%s\")", TOKENIZER[i]), NULL, 0);
}

/* an array of NumPy's: its type and the bytes of its 4 elements */
static void write_array(const char *name, const char *descr, const void *bytes, size_t count)
{
    char file[256];
    int length = snprintf(file + 10, sizeof file - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (4,), }\n", descr);
    memcpy(file, "\x93NUMPY\1", 8);
    file[8] = (char)length;
    file[9] = 0;
    memcpy(file + 10 + length, bytes, count);
    write_bytes(name, file, (size_t)(10 + length) + count);
}

/* types that the language does not have, or not in files: u64, bfloat16; and labels below 0 */
static void test_types(void)
{
    static const uint64_t WHOLE[] = {0, 2, 1, 1ull << 40}, LARGE[] = {0, 1, 1ull << 63, 2};
    static const uint16_t HALVES[] = {0x3f80, 0xc020, 0, 0x7f80}; /* 1, -2.5, 0, infinity */
    static const int64_t LABELS[] = {1, -100, 0, 2};
    write_array("u64.npy", "<u8", WHOLE, sizeof WHOLE);
    write_array("bf16.npy", "<V2", HALVES, sizeof HALVES);
    write_array("labels.npy", "<i8", LABELS, sizeof LABELS);
    write_array("large.npy", "<u8", LARGE, sizeof LARGE);
    const mgpu_program *p = program_of("input whole: i64  input half: f32  input label: class(3, ignore = -100)",
                                       "train = npy(whole = \"u64.npy\", half = \"bf16.npy\", label = \"labels.npy\")");
    Dataset d;
    open_set(&d, p, "train", folder, NULL);
    double *whole = read_input(&d, "whole", 0, 0), *half = read_input(&d, "half", 0, 0), *label = read_input(&d, "label", 0, 0);
    say("types/u64", whole[0] == 0 && whole[1] == 2 && whole[2] == 1 && whole[3] == 0x1p40);
    say("types/bf16", half[0] == 1 && half[1] == -2.5 && half[2] == 0 && isinf(half[3]));
    say("types/negative-label", label[0] == 1 && label[1] == -100 && label[2] == 0 && label[3] == 2);
    free(whole);
    free(half);
    free(label);
    mgpu_close_set(&d);
}

/* GPT-2's tokens of tinyshakespeare, as tiktoken made them */
static void test_gpt2(void)
{
    enum { TRAINING = 1003854 }; /* bytes */
    const char *data = getenv("MGPU_DATA") ? getenv("MGPU_DATA") : MGPU_SOURCE "/data";
    size_t length;
    char *text = read_file(format("%s/tinyshakespeare/input.txt", data), &length);
    if (!text || length < TRAINING) {
        puts("skip text/gpt2: no tinyshakespeare in MGPU_DATA");
        return;
    }
    write_bytes("training.txt", text, TRAINING);
    const char *inputs = "input token: class(50257)[64]  input next: class(50257)[64]";
    Dataset ours, theirs;
    open_set(&ours, program_of(inputs, format("train = text(\"training.txt\", vocabulary = \"%s/gpt2-vocab\")", data)), "train",
             folder, NULL);
    open_set(&theirs, program_of(inputs, "train = tokens(\"tinyshakespeare/gpt2-bpe/train.bin\")"), "train", data, NULL);
    double *a = read_input(&ours, "next", 0, 0), *b = read_input(&theirs, "next", 0, 0);
    say("text/gpt2", ours.samples == theirs.samples && ours.samples == (301966 - 65) / 64 + 1 &&
                         memcmp(a, b, (size_t)(64 * ours.samples) * sizeof *a) == 0);
    free(a);
    free(b);
    mgpu_close_set(&ours);
    mgpu_close_set(&theirs);
}

/* ---- part */
static void test_part(void)
{
    enum { N = 5000 };
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = i;
    FILE *f = fopen(format("%s/n.npy", folder), "wb");
    mgpu_write_npy(f, MGPU_F64, 1, (int64_t[]){N}, x);
    fclose(f);
    const mgpu_program *p =
        program_of("input x: f64", "all = npy(x = \"n.npy\")\ntrain = all |> part(0, 0.7)\nvalid = all |> part(0.7, 1)\n"
                                   "test = all |> part(0.5, 1) |> part(0, 0.7)");
    Dataset train, valid, test;
    open_set(&train, p, "train", folder, NULL);
    open_set(&valid, p, "valid", folder, NULL);
    open_set(&test, p, "test", folder, NULL);
    say("part/share", llabs(train.samples - (long long)(0.7 * N)) < 100 && train.samples + valid.samples == N);
    say("part/of-a-part", llabs(test.samples - (long long)(0.2 * N)) < 100);
    int seen[N] = {0}, last = -1;
    bool order = true;
    const Dataset *sets[] = {&train, &valid, &test};
    for (int k = 0; k < 3; k++) {
        double *numbers = read_input(sets[k], "x", 0, 0);
        last = -1;
        for (int64_t i = 0; i < sets[k]->samples; i++) {
            order = order && (int)numbers[i] > last;
            last = (int)numbers[i];
            seen[last] += k == 2 ? 10 : 1;
        }
        free(numbers);
    }
    bool once = true;
    for (int i = 0; i < N; i++)
        once = once && seen[i] % 10 == 1;
    say("part/order", order);
    say("part/each-sample-once", once);
    mgpu_close_set(&train);
    mgpu_close_set(&valid);
    mgpu_close_set(&test);

    char text[1001];
    for (int i = 0; i < 1000; i++)
        text[i] = (char)('a' + i * i % 23 % 7);
    text[1000] = 0;
    write_file("long.txt", text);
    p = program_of("input token: class(7)[10]  input next: class(7)[10]",
                   "all = characters(\"long.txt\", stride = 3)\ntrain = all |> part(0, 0.9)\nvalid = all |> part(0.9, 1)");
    Categories *categories = mgpu_new_categories(false);
    open_set(&train, p, "train", folder, categories);
    open_set(&valid, p, "valid", folder, categories);
    say("part/windows", train.samples == (900 - 11) / 3 + 1 && valid.samples == (100 - 11) / 3 + 1);
    char *json = mgpu_categories_text(categories);
    const char *order_of = "abcdefg";
    double *token = read_input(&valid, "token", 0, 0), *next = read_input(&train, "next", 0, 0);
    bool same = json != NULL, inside = true;
    for (int64_t i = 0; i < valid.samples * 10; i++) /* the letters that are there, by the classes that the table gives */
        same = same && (int)token[i] == (int)(strchr(order_of, text[900 + i / 10 * 3 + i % 10]) - order_of);
    int64_t end = (train.samples - 1) * 3 + 10;
    inside = end < 900 && (int)next[train.samples * 10 - 1] == (int)(strchr(order_of, text[end]) - order_of);
    say("part/windows-by-place", same && inside);
    free(token);
    free(next);
    free(json);
    mgpu_free_categories(categories);
    mgpu_close_set(&train);
    mgpu_close_set(&valid);
}

/* ---- pairs */
static void test_pairs(void)
{
    enum { N = 3000, LABELS = 7 };
    double x[N];
    uint8_t label[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        label[i] = (uint8_t)(i == 17 ? LABELS - 1 : i * 31 % 101 % (LABELS - 1)); /* the last label has one sample */
    }
    FILE *f = fopen(format("%s/x.npy", folder), "wb"), *g = fopen(format("%s/label.npy", folder), "wb");
    mgpu_write_npy(f, MGPU_F64, 1, (int64_t[]){N}, x);
    mgpu_write_npy(g, MGPU_U8, 1, (int64_t[]){N}, label);
    fclose(f);
    fclose(g);
    const mgpu_program *p = program_of("input left: f64  input right: f64  input same: bool",
                                       "train = npy(x = \"x.npy\", label = \"label.npy\") |> pairs(same = 0.3)");
    Dataset d;
    open_set(&d, p, "train", folder, NULL);
    double *left = read_input(&d, "left", 5, 1), *right = read_input(&d, "right", 5, 1), *same = read_input(&d, "same", 5, 1);
    double *again = read_input(&d, "right", 5, 1), *later = read_input(&d, "right", 5, 2), *other = read_input(&d, "right", 6, 1);
    bool good = d.samples == N, himself = true;
    int alike = 0, repeated = 0, moved = 0, changed = 0;
    static int drawn[LABELS];
    for (int i = 0; i < N; i++) {
        good = good && left[i] == i && (label[(int)left[i]] == label[(int)right[i]]) == (same[i] != 0);
        himself = himself && (right[i] != i || i == 17);
        alike += same[i] != 0;
        repeated += again[i] == right[i];
        moved += later[i] != right[i];
        changed += other[i] != right[i];
        drawn[label[(int)right[i]]]++;
    }
    say("pairs/same", good && d.samples == N);
    say("pairs/share", abs(alike - (int)(0.3 * N)) < 90);
    say("pairs/not-himself", himself);
    say("pairs/by-seed-and-epoch", repeated == N && moved > N / 2 && changed > N / 2);
    bool all = true;
    for (int l = 0; l < LABELS - 1; l++)
        all = all && drawn[l] > N / LABELS / 2;
    say("pairs/all-labels", all);
    double *const lists[] = {left, right, same, again, later, other};
    for (int k = 0; k < COUNT(lists); k++)
        free(lists[k]);
    mgpu_close_set(&d);

    /* labels that are equal only as doubles */
    static const int64_t LARGE[] = {1LL << 53, (1LL << 53) + 1, 1LL << 53, (1LL << 53) + 1};
    f = fopen(format("%s/four.npy", folder), "wb"), g = fopen(format("%s/large-label.npy", folder), "wb");
    mgpu_write_npy(f, MGPU_F64, 1, (int64_t[]){COUNT(LARGE)}, x);
    mgpu_write_npy(g, MGPU_I64, 1, (int64_t[]){COUNT(LARGE)}, LARGE);
    fclose(f);
    fclose(g);
    p = program_of("input left: f64  input right: f64  input same: bool",
                   "train = npy(x = \"four.npy\", label = \"large-label.npy\") |> pairs()");
    open_set(&d, p, "train", folder, NULL);
    bool exact = true;
    for (int epoch = 0; epoch < 8; epoch++) {
        right = read_input(&d, "right", 5, epoch), same = read_input(&d, "same", 5, epoch);
        for (int i = 0; i < COUNT(LARGE); i++)
            exact = exact && (LARGE[i] == LARGE[(int)right[i]]) == (same[i] != 0);
        free(right);
        free(same);
    }
    say("pairs/large-labels", exact);
    mgpu_close_set(&d);
}

/* ---- categories: fixed by train, saved, read again */
static void test_categories(void)
{
    write_file("train.csv", "kind,code,size\nred,3,b\nblue,1,a\nred,2,b\ngreen,1,c\nred,3,b\nblue,2,a\n,1,b\n");
    write_file("valid.csv", "kind,code,size\npink,2,a\nred,2,b\nblue,7,c\n");
    const char *inputs = "input kind: class(3, other = 1)  input code: class(8)  input size: class(3)";
    const mgpu_program *p = program_of(inputs, "train = csv(\"train.csv\")\nvalid = csv(\"valid.csv\")");
    Categories *categories = mgpu_new_categories(false);
    Dataset d;
    open_set(&d, p, "train", folder, categories); /* green is the rarest of three words for two places */
    static const double KIND[] = {2, 0, 2, 1, 2, 0, 1}, CODE[] = {3, 1, 2, 1, 3, 2, 1}, SIZE[] = {1, 0, 1, 2, 1, 0, 1};
    double *kind = read_input(&d, "kind", 0, 0), *code = read_input(&d, "code", 0, 0), *size = read_input(&d, "size", 0, 0);
    say("categories/most-frequent", memcmp(kind, KIND, sizeof KIND) == 0);
    say("categories/numbers", memcmp(code, CODE, sizeof CODE) == 0);
    say("categories/order", memcmp(size, SIZE, sizeof SIZE) == 0);
    free(kind);
    free(code);
    free(size);
    mgpu_close_set(&d);
    char *json = mgpu_categories_text(categories);
    say("categories/text",
        json && strcmp(json, "{\"kind\":[\"blue\",null,\"red\"],\"code\":\"numbers\",\"size\":[\"a\",\"b\",\"c\"]}") == 0);
    Categories *saved = mgpu_new_categories(true);
    mgpu_read_categories(saved, json, "w.safetensors");
    static const double VALID_KIND[] = {1, 2, 0};
    for (int k = 0; k < 2; k++) { /* as training has them, and as they were saved */
        open_set(&d, p, "valid", folder, k ? saved : categories);
        kind = read_input(&d, "kind", 0, 0);
        say(k ? "categories/saved" : "categories/unseen", memcmp(kind, VALID_KIND, sizeof VALID_KIND) == 0);
        free(kind);
        mgpu_close_set(&d);
    }
    free(json);
    mgpu_free_categories(saved);
    mgpu_free_categories(categories);

    /* the words themselves: quotes, line ends, blanks */
    write_file("words.csv", "word,last\r\n\"a \"\"b\"\"\",x\r\n\"c\r\nd\",\"\"\"\"\r\n\"e,f\",\" g \"\r\n h ,i\r\n");
    p = program_of("input word: class(4)  input last: class(4)", "train = csv(\"words.csv\", strip = \" \")");
    categories = mgpu_new_categories(false);
    open_set(&d, p, "train", folder, categories);
    json = mgpu_categories_text(categories);
    say("categories/words", strcmp(json, "{\"word\":[\"a \\\"b\\\"\",\"c\\u000d\\u000ad\",\"e,f\",\"h\"],"
                                         "\"last\":[\" g \",\"\\\"\",\"i\",\"x\"]}") == 0);
    free(json);
    mgpu_free_categories(categories);
    mgpu_close_set(&d);

    /* words that only samples of another part have are unseen if there is a class for such, else they are known */
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    fputs("a,b\n", f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "w%d,w%d\n", i, i);
    fclose(f);
    write_file("many.csv", text);
    free(text);
    p = program_of("input a: class(201, other = 200)  input b: class(200)",
                   "all = csv(\"many.csv\")\ntrain = all |> part(0, 0.5)\nvalid = all |> part(0.5, 1)");
    categories = mgpu_new_categories(false);
    Dataset valid;
    open_set(&d, p, "train", folder, categories);
    open_set(&valid, p, "valid", folder, categories);
    double *a = read_input(&d, "a", 0, 0), *b = read_input(&valid, "b", 0, 0), *unseen = read_input(&valid, "a", 0, 0);
    bool known = true, others = true, distinct = true;
    static int taken[200];
    for (int64_t i = 0; i < d.samples; i++)
        known = known && a[i] < (double)d.samples;
    for (int64_t i = 0; i < valid.samples; i++) {
        others = others && unseen[i] == 200;
        distinct = distinct && !taken[(int)b[i]]++;
    }
    say("categories/of-a-part", known && others && distinct);
    free(a);
    free(b);
    free(unseen);
    mgpu_close_set(&d);
    mgpu_close_set(&valid);
    mgpu_free_categories(categories);
}

/* ---- the number of `ignore` is that label among words, too */
static void test_ignored_words(void)
{
    static const struct {
        const char *name, *inputs, *content;
        double labels[4];
        const char *tables;
    } CASES[] = {
        {"words", "input label: class(2, ignore = -100)", "label\nb\n-100\na\nb\n", {1, -100, 0, 1}, "{\"label\":[\"a\",\"b\"]}"},
        {"other",
         "input label: class(3, ignore = 9, other = 0)",
         "label\nb\n9\n-9\n\"\"\n",
         {2, 9, 1, 0},
         "{\"label\":[null,\"-9\",\"b\"]}"},
        {"large numbers",
         "input label: class(2, ignore = 255)",
         "label\n70\n255\n8\n70\n",
         {1, 255, 0, 1},
         "{\"label\":[\"8\",\"70\"]}"},
        {"numbers",
         "input label: class(2, ignore = -100)",
         "label\n1\n-100\n-100\n1\n",
         {1, -100, -100, 1},
         "{\"label\":\"numbers\"}"},
        {"alone",
         "input label: class(2, ignore = -100)",
         "label\n-100\n-100\n-100\n-100\n",
         {-100, -100, -100, -100},
         "{\"label\":\"numbers\"}"},
        {"class 0",
         "input label: class(3, ignore = 0)",
         "label\ncat\n0\ndog\ncat\n",
         {1, 0, 2, 1},
         "{\"label\":[null,\"cat\",\"dog\"]}"},
        {"last class",
         "input label: class(3, ignore = 2)",
         "label\nbee\n2\nant\nbee\n",
         {1, 2, 0, 1},
         "{\"label\":[\"ant\",\"bee\"]}"},
        {"numbers beyond",
         "input label: class(3, ignore = 1)",
         "label\n70\n1\n8\n70\n",
         {2, 1, 0, 2},
         "{\"label\":[\"8\",null,\"70\"]}"},
        {"class beside other",
         "input label: class(4, ignore = 0, other = 1)",
         "label\nb\na\n\"\"\nb\n",
         {3, 2, 1, 3},
         "{\"label\":[null,null,\"a\",\"b\"]}"},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        Categories *categories = mgpu_new_categories(false);
        Dataset d;
        write_file("ignored.csv", CASES[i].content);
        open_set(&d, program_of(CASES[i].inputs, "train = csv(\"ignored.csv\")"), "train", folder, categories);
        double *labels = read_input(&d, "label", 0, 0);
        char *json = mgpu_categories_text(categories);
        say(format("ignore/%s", CASES[i].name),
            memcmp(labels, CASES[i].labels, sizeof CASES[i].labels) == 0 && strcmp(json, CASES[i].tables) == 0);
        free(json);
        free(labels);
        mgpu_close_set(&d);
        mgpu_free_categories(categories);
    }
    Categories *saved = mgpu_new_categories(true); /* of a save of before */
    Words words = {(char *[]){"-100", "a", "b"}, 3, false};
    mgpu_read_categories(saved, "{\"label\":[\"-100\",\"a\",\"b\"]}", "w.safetensors");
    const mgpu_program *p = program_of("input label: class(3, ignore = -100)", "train = csv(\"ignored.csv\")");
    int64_t *classes = mgpu_classes_of_words(saved, &p->inputs[0], &words, NULL, "", "", NULL);
    say("ignore/saved", classes[0] == 0 && classes[1] == 1 && classes[2] == 2);
    free(classes);
    mgpu_free_categories(saved);
}

/* ---- words whose places are their classes, such as names of folders, also where they are numbers; saved tables hold */
static void test_places(void)
{
    static const struct {
        const char *name, *words[3], *inputs, *saved;
        int64_t classes[3];
    } CASES[] = {
        {"by-bytes", {"1", "10", "2"}, "input label: class(3)", NULL, {0, 1, 2}},
        {"from-1", {"1", "2", "3"}, "input label: class(4)", NULL, {0, 1, 2}},
        {"their-own", {"0", "1", "2"}, "input label: class(3)", NULL, {0, 1, 2}},
        {"ignore", {"-100", "0", "1"}, "input label: class(3, ignore = -100)", NULL, {0, 1, 2}},
        {"saved-words", {"1", "10", "2"}, "input label: class(3)", "{\"label\":[\"1\",\"2\",\"10\"]}", {0, 2, 1}},
        {"saved-numbers", {"1", "2", "3"}, "input label: class(4)", "{\"label\":\"numbers\"}", {1, 2, 3}},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        const mgpu_program *p = program_of(CASES[i].inputs, "train = csv(\"train.csv\")");
        Categories *categories = mgpu_new_categories(CASES[i].saved != NULL);
        Words words = {(char **)CASES[i].words, 3, .places = true};
        if (CASES[i].saved)
            mgpu_read_categories(categories, CASES[i].saved, "w.safetensors");
        int64_t *classes = mgpu_classes_of_words(categories, &p->inputs[0], &words, NULL, "", "", NULL);
        say(format("places/%s", CASES[i].name), memcmp(classes, CASES[i].classes, sizeof CASES[i].classes) == 0);
        free(classes);
        mgpu_free_categories(categories);
    }
}

/* ---- orders */
static void test_orders(void)
{
    enum { N = 103, BLOCK = 10 };
    int64_t order[N], again[N], later[N];
    mgpu_permutation(order, N, 5, 2, BLOCK);
    mgpu_permutation(again, N, 5, 2, BLOCK);
    mgpu_permutation(later, N, 5, 3, BLOCK);
    int seen[N] = {0}, sorted = 0, blocks = 0;
    bool once = true;
    for (int i = 0; i < N; i++)
        seen[order[i]]++;
    for (int i = 0; i + 1 < N; i++) {
        sorted += order[i + 1] == order[i] + 1;
        blocks += order[i] / BLOCK != order[i + 1] / BLOCK;
    }
    for (int i = 0; i < N; i++)
        once = once && seen[i] == 1;
    say("order/blocks", once && blocks == (N - 1) / BLOCK && sorted < N / 3);
    say("order/blocks-by-epoch", memcmp(order, again, sizeof order) == 0 && memcmp(order, later, sizeof order) != 0);

    write_file("few.csv", "x\n1\n2\n3\n");
    static const struct {
        const char *option;
        int64_t shuffle;
    } OPTIONS[] = {{"", 1},
                   {", shuffle = true", 1},
                   {", shuffle = false", 0},
                   {", shuffle = 500", 500},
                   {", shuffle = 10000samples", 10000}};
    bool good = true;
    for (int i = 0; i < COUNT(OPTIONS); i++) {
        const mgpu_program *p = program_of("input x: f32", format("train = csv(\"few.csv\"%s) |> part(0, 1)", OPTIONS[i].option));
        Dataset d;
        open_set(&d, p, "train", folder, NULL);
        good = good && d.shuffle == OPTIONS[i].shuffle;
        mgpu_close_set(&d);
    }
    say("order/shuffle", good);
}

/* ---- threads share the samples of a batch where a sample is costly */
typedef struct Slow {
    Dataset *set;
    double *got;
    int64_t first, count;
} Slow;

static void *read_slowly(void *argument)
{
    Slow *s = argument;
    uint8_t *to[1];
    int64_t index[64];
    for (int64_t at = 0; at < s->count; at += 64) {
        for (int k = 0; k < 64; k++)
            index[k] = s->first + at + k;
        to[0] = (uint8_t *)(s->got + at);
        mgpu_read_samples(s->set, to, index, 64, 3, 1);
    }
    return NULL;
}

static _Atomic int reads;
static void (*read_plainly)(const Stream *, int64_t, Reading *, Item *);

static void read_counted(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    read_plainly(s, sample, r, items);
    atomic_fetch_add(&reads, 1);
}

/* n.npy, as if its samples were expensive to read: by workers, and counted */
static void open_costly(Dataset *d)
{
    const mgpu_program *p = program_of("input x: f64", "train = npy(x = \"n.npy\") |> part(0, 1)");
    bool wanted = true;
    open_set(d, p, "train", folder, NULL);
    free(d->bound);
    d->stream->costly = true;
    read_plainly = d->stream->read;
    d->stream->read = read_counted;
    mgpu_bind_set(d, &wanted, NULL);
}

static void test_threads(void)
{
    enum { N = 5000, READERS = 3, EACH = 1600 };
    Dataset d;
    open_costly(&d);
    Slow slow[READERS];
    pthread_t threads[READERS];
    for (int k = 0; k < READERS; k++) {
        slow[k] = (Slow){&d, mgpu_allocate(EACH, sizeof(double)), k * EACH, EACH};
        pthread_create(&threads[k], NULL, read_slowly, &slow[k]);
    }
    bool good = d.workers != NULL;
    for (int k = 0; k < READERS; k++) {
        pthread_join(threads[k], NULL);
        for (int i = 0; i < EACH; i++)
            good = good && slow[k].got[i] == k * EACH + i;
        free(slow[k].got);
    }
    say("threads", good);
    mgpu_close_set(&d);
}

/* ---- what is read ahead is not read again, and is what would have been read; anything else is read as ever */
/* samples [first, first + n) are read; -> whether they are right, and took so many reads; -1: any number */
static bool reads_right(const Dataset *d, int64_t first, int64_t n, int64_t epoch, int expected)
{
    double *got = mgpu_allocate((size_t)n, sizeof *got);
    int64_t *index = mgpu_allocate((size_t)n, sizeof *index);
    uint8_t *to = (uint8_t *)got;
    int before = atomic_load(&reads);
    for (int64_t k = 0; k < n; k++)
        index[k] = first + k;
    mgpu_read_samples(d, &to, index, n, 7, epoch);
    bool good = expected < 0 || atomic_load(&reads) - before == expected;
    for (int64_t k = 0; k < n; k++)
        good = good && got[k] == (double)(first + k);
    free(index);
    free(got);
    return good;
}

static void begin_ahead(const Dataset *d, int64_t first, int64_t n, int64_t epoch, bool wait)
{
    int64_t *index = mgpu_allocate((size_t)n, sizeof *index);
    int before = atomic_load(&reads);
    for (int64_t k = 0; k < n; k++)
        index[k] = first + k;
    mgpu_prefetch_samples(d, index, n, 7, epoch);
    for (int ms = 0; wait && ms < 10000 && atomic_load(&reads) - before < n; ms++)
        usleep(1000);
    free(index);
}

static void test_reading_ahead(void)
{
    Dataset d;
    open_costly(&d);
    begin_ahead(&d, 100, 60, 2, true);
    say("ahead/two devices", reads_right(&d, 130, 30, 2, 0) && reads_right(&d, 100, 30, 2, 0));
    say("ahead/once", reads_right(&d, 100, 30, 2, 30));
    begin_ahead(&d, 200, 50, 2, true);
    say("ahead/another epoch", reads_right(&d, 200, 50, 3, 50));
    say("ahead/other samples", reads_right(&d, 220, 40, 2, 40));
    say("ahead/still there", reads_right(&d, 200, 50, 2, 0));
    bool good = true;
    for (int64_t k = 0; k < 200; k++) { /* it may be half done when it is wanted */
        begin_ahead(&d, 10 * k, 10, 1, false);
        good = reads_right(&d, 3000, 5, 1, -1) && good;
        begin_ahead(&d, 2000, 10, 1, false);
        good = reads_right(&d, 10 * k, 10, 1, -1) && good;
    }
    say("ahead/under way", good);
    begin_ahead(&d, 0, 5000, 1, false);
    mgpu_close_set(&d);
    say("ahead/closed", true);
}

/* ---- memory of samples: what one large sample took is given back when the others need less */
static size_t mapped(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void test_reading_memory(void)
{
    Reading r = {0};
    size_t begin = mapped();
    if (!begin) { /* a sanitizer's allocator counts elsewhere */
        puts("skip memory: mallinfo2 says nothing");
        return;
    }
    for (int sample = 0; sample < 300; sample++) {
        bool large = sample == 5;
        for (int k = 0; k < 3; k++)
            memset(mgpu_reading_allocate(&r, large ? 50 << 20 : 30000 + k), k, 1000);
        mgpu_reading_reset(&r);
        if (large)
            say("memory/kept for the next one", mapped() - begin >= 150 << 20);
    }
    say("memory/given back", mapped() - begin < 1 << 20);
    const void *same[2];
    for (int sample = 0; sample < 200; sample++) {
        same[sample % 2] = mgpu_reading_allocate(&r, 30 << 20);
        mgpu_reading_reset(&r);
    }
    say("memory/samples of one size", same[0] == same[1]);
    mgpu_reading_close(&r);
    say("memory/closed", mapped() < begin + (1 << 16)); /* no block: each has more; aligned_alloc() leaves splinters */
}

/* ---- what is wrong is said */
/* opening the sets train and valid and reading all of them must end with status 1 and say `message` */
/* tables: of categories, as weights have them; NULL: none */
static void refuses_with(const char *name, const char *inputs, const char *data, const char *tables, const char *message)
{
    fflush(stdout);
    int ends[2];
    char text[4096] = "";
    if (pipe(ends) != 0)
        mgpu_fail(3, "pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        const mgpu_program *p = program_of(inputs, data);
        Categories *categories = mgpu_new_categories(tables != NULL);
        if (tables)
            mgpu_read_categories(categories, tables, "w.safetensors");
        for (int i = 0; i < p->set_count; i++) {
            Dataset d;
            open_set(&d, p, p->sets[i].name, folder, categories);
            for (int k = 0; k < p->input_count; k++)
                free(read_input(&d, p->inputs[k].tensor.name, 0, 0));
            mgpu_close_set(&d);
        }
        mgpu_free_categories(categories);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    bool good =
        WIFEXITED(status) && WEXITSTATUS(status) == (message[0] == '0' ? 0 : 1) && strstr(text, message + (message[0] == '0'));
    if (!good)
        printf("# status %d, said: %s\n", WEXITSTATUS(status), text);
    say(format("refuses/%s", name), good);
}

static void refuses(const char *name, const char *inputs, const char *data, const char *message)
{
    refuses_with(name, inputs, data, NULL, message);
}

static void test_csv_refusals(void)
{
    const char *inputs = "input x: f32  input label: class(2)", *data = "train = csv(\"bad.csv\")";
    static const struct {
        const char *name, *content, *message;
    } CASES[] = {
        {"empty", "", "bad.csv: the file is empty"},
        {"no-rows", "x,label\n", "bad.csv: the file holds no rows"},
        {"missing-column", "x,labell\n1,a\n", "bad.csv: there is no column 'label'; did you mean 'labell'?; it has: x, labell"},
        {"column-twice", "x,label,x\n1,a,2\n", "bad.csv: two columns are called 'x'"},
        {"short-row", "x,label\n1,a\n\n2\n", "bad.csv:4: 1 field, 2 expected; on_bad = \"skip\" leaves such lines out"},
        {"long-row", "x,label\n1,a,7\n", "bad.csv:2: 3 fields, 2 expected"},
        {"no-number", "x,label\n1,a\n1.5.2,b\n", "bad.csv:3: column 'x' is '1.5.2', a number is expected"},
        {"hex", "x,label\n0x10,a\n", "bad.csv:2: column 'x' is '0x10', a number is expected"},
        {"open-quote", "x,label\n1,a\n2,\"b\n3,c\n", "bad.csv:3: the quote that opens here is never closed"},
        {"behind-quote", "x,label\n1,a\n2,\"b\"c\n", "bad.csv:3: field 2: text follows the closing quote"},
        {"missing-label", "x,label\n1,a\n2,\n3,b\n",
         "bad.csv:3: column 'label' has no value; class(3, other = 0) for input 'label'"},
        {"categories", "x,label\n1,a\n2,b\n3,c\n", "m.net:7: "},
        {"too-many-categories", "x,label\n1,a\n2,b\n3,c\n",
         "bad.csv:4: column 'label': 'c' is one of 3 categories ('a', 'b', 'c'); input 'label' has 2 classes; write class(3), or "
         "class(2, other = 0)"},
        {"categories-numbers", "x,label\n1,2\n1,2\n2,0\n3,1\n",
         "bad.csv:2: column 'label': '2' is one of 3 categories ('0', '1', '2'); input"},
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        write_file("bad.csv", CASES[i].content);
        refuses(format("csv-%s", CASES[i].name), inputs, data, CASES[i].message);
    }
    write_file("bad.csv", "x,label\n1,a\n2,Z\xfcrich\n");
    refuses("csv-latin", inputs, data, "bad.csv:3: column 'label' is no UTF-8; iconv -f LATIN1 -t UTF-8 converts a file");
    static const char *const WIDE[] = {"\xff\xfex\0,\0y\0\n\0"
                                       "1\0,\0"
                                       "2\0",
                                       "\xfe\xff\0x\0,\0y\0\n\0"
                                       "1\0,\0"
                                       "2",
                                       "x\0,\0y\0\n\0"
                                       "1\0,\0"
                                       "2\0"};
    for (int i = 0; i < COUNT(WIDE); i++) {
        write_bytes("bad.csv", WIDE[i], 14);
        refuses(format("csv-utf16-%d", i), inputs, data,
                "bad.csv: the text is UTF-16 and has to be UTF-8; iconv -f UTF-16 -t UTF-8 converts a file");
    }
    write_file("bad.csv", "x,label\n1,a\nfoo,b\n2\n2,\"b\"c\n3,b\n");
    refuses("csv-skip", inputs, "train = csv(\"bad.csv\", on_bad = \"skip\")",
            "0bad.csv: 3 lines are left out, the first is line 3: column 'x' is 'foo', a number is expected");
    write_file("bad.csv", "x,y,label\n1,2,a\nNA,foo,b\ninf,foo,b\nNA,1,b\n1e39,1,b\n");
    static const char *const KEPT[] = {
        "0bad.csv: 2 lines are left out, the first is line 3: column 'y' is 'foo', a number is expected",
        "0a number of 'x' is missing, in line 5;", "0a number of 'x' is infinite, in line 6"};
    for (int i = 0; i < COUNT(KEPT); i++) /* of lines that are left out no numbers are counted */
        refuses(format("csv-kept-%d", i), "input x: f32  input y: f32  input label: class(2)",
                "train = csv(\"bad.csv\", missing = \"NA\", on_bad = \"skip\")", KEPT[i]);
    write_file("bad.csv", "x,label\n1,a\nNA,b\n");
    refuses("csv-nan", inputs, "train = csv(\"bad.csv\", missing = \"NA\")",
            "0a number of 'x' is missing, in line 3; what is missing is NaN: where(x == x, x, 0)");
    refuses("csv-missing-whole", "input x: i32  input label: class(2)", "train = csv(\"bad.csv\", missing = \"NA\")",
            "bad.csv:3: column 'x' has no value, and i32 has none for that");
    write_file("bad.csv", "x,label\n1,a\n1000,b\n");
    refuses("csv-range", "input x: i8  input label: class(2)", data, "bad.csv:3: column 'x' is 1000, which is no value of i8");
    static const char *const LONGS[] = {"9223372036854775808", "-9223372036854775809", "9223372036854775808.0", "9.3e18", "1e19"};
    for (int i = 0; i < COUNT(LONGS); i++) {
        write_file("bad.csv", format("x,label\n9223372036854775807,a\n%s,b\n", LONGS[i]));
        refuses(format("csv-range-%s", LONGS[i]), "input x: i64  input label: class(2)", data,
                format("bad.csv:3: column 'x' is %s, which is no value of i64", LONGS[i]));
    }
    refuses("csv-shape", "input x: f32[3]  input label: class(2)", "train = csv(\"bad.csv\", x = [\"x\", \"x\"])",
            "bad.csv:2: 'x' has the shape [2], input 'x' has [3]");
    refuses("csv-no-file", inputs, "train = csv(\"none.csv\")",
            "m.net:7: there is no file none.csv, nor none.csv.gz, in the folder");
    write_file("good.csv", "x,label\n1,a\n2,b\n");
    write_file("bad.csv", "x,label\n1,a\n3,c\n");
    refuses("csv-unseen", inputs, "train = csv(\"good.csv\")\nvalid = csv(\"bad.csv\")",
            "bad.csv:3: column 'label' is 'c', which is no category that training knew; class(3, other = 0) for input 'label'");
    write_file("bad.csv.gz", "\x1f\x8b\x08 nothing that zlib knows");
    refuses("csv-broken-gz", inputs, "train = csv(\"bad.csv.gz\")", "bad.csv.gz: ");
    refuses("csv-folder", inputs, "train = csv(\".\")", " is a folder, a file is expected");
}

static uint8_t *put(uint8_t *to, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *to++ = i < 8 ? (uint8_t)(number >> 8 * i) : 0;
    return to;
}

/* an archive of one member, x.npy; `packed` bytes of data, said to unpack to `bytes` with that checksum */
static void write_zip(const char *name, int method, const uint8_t *data, size_t packed, uint32_t bytes, uint32_t crc)
{
    static const char MEMBER[] = "x.npy";
    uint8_t *file = mgpu_allocate(packed + 200, 1), *to = file;
    for (int central = 0; central < 2; central++) {
        size_t at = (size_t)(to - file);
        to = put(to, central ? 0x02014b50 : 0x04034b50, 4);
        to = put(to, 20, central ? 4 : 2);
        to = put(to, (unsigned)method << 16, 4);
        to = put(put(put(put(to, 0, 4), crc, 4), packed, 4), bytes, 4);
        to = put(to, sizeof MEMBER - 1, central ? 18 : 4);
        memcpy(to, MEMBER, sizeof MEMBER - 1);
        to += sizeof MEMBER - 1;
        if (!central) {
            memcpy(to, data, packed);
            to += packed;
            continue;
        }
        size_t length = (size_t)(to - file) - at;
        to = put(put(put(put(to, 0x06054b50, 4), 0, 4), 1, 2), 1, 2);
        to = put(put(put(to, length, 4), at, 4), 0, 2);
    }
    write_bytes(name, file, (size_t)(to - file));
    free(file);
}

/* what is packed: checksums, sizes that lie, little that unpacks to much */
static void test_packed(void)
{
    static const char HEADER[] = "\x93NUMPY\1\0\x3e\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }    \n";
    enum { BYTES = sizeof HEADER - 1 + 8, MANY = 300000 };
    uint8_t array[BYTES + 1] = {0}, packed[300];
    memcpy(array, HEADER, sizeof HEADER - 1);
    array[BYTES - 1] = 0x40;
    uint32_t crc = (uint32_t)crc32(0, array, BYTES);
    z_stream z = {.next_in = array, .avail_in = BYTES + 1, .next_out = packed, .avail_out = sizeof packed};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    const char *input = "input x: f32", *data = "train = npy(x = \"x.npz\")";
    write_zip("x.npz", 0, array, BYTES, BYTES, crc);
    const mgpu_program *p = program_of(input, data);
    Categories *none = mgpu_new_categories(true);
    Dataset d;
    open_set(&d, p, "train", folder, none);
    double *x = read_input(&d, "x", 0, 0);
    say("zip/stored", x[0] == 0 && x[1] == 2);
    free(x);
    mgpu_close_set(&d);
    mgpu_free_categories(none);
    write_zip("x.npz", 0, array, BYTES, BYTES, crc ^ 1);
    refuses("zip/stored-checksum", input, data, "x.npz: 'x.npy' is damaged: its checksum (CRC-32) is another");
    write_zip("x.npz", 8, packed, z.total_out, BYTES + 1, crc ^ 1);
    refuses("zip/packed-checksum", input, data, "x.npz: 'x.npy' is damaged: its checksum (CRC-32) is another");
    write_zip("x.npz", 8, packed, z.total_out, BYTES, crc);
    refuses("zip/more-than-said", input, data, "x.npz: not a zip archive, or a damaged one");
    write_zip("x.npz", 8, packed, z.total_out, BYTES + 2, crc);
    refuses("zip/less-than-said", input, data, "x.npz: not a zip archive, or a damaged one");
    uint8_t *junk = mgpu_allocate(MANY, 1);
    write_zip("x.npz", 8, junk, MANY, MANY * 1000u, crc);
    refuses(
        "zip/bomb", input, data,
        "x.npz: 300000 bytes would unpack to more than 250 times as many, as damaged or hostile files do; if it is right, unpack it first (gzip -d, unzip)");
    free(junk);
    /* 4 MiB of lines, packed: one member of a .gz file, which may have many */
    if (system(format(
            "cd %s && (echo x; yes 1 | head -c 4194304) | gzip -9 >one.gz && for i in $(seq 70); do cat one.gz; done >x.csv.gz",
            folder)) != 0)
        mgpu_fail(3, "gzip");
    refuses("gzip/bomb", input, "train = csv(\"x.csv.gz\")",
            "bytes would unpack to more than 250 times as many, as damaged or hostile files do");
    if (mkfifo(format("%s/pipe", folder), 0600) != 0)
        mgpu_fail(3, "mkfifo");
    const char *said = "pipe is a pipe, a device or a socket, a file is expected; cat ";
    refuses("pipe/csv", input, "train = csv(\"pipe\")", said);
    refuses("pipe/npy", input, "train = npy(x = \"pipe\")", said);
    refuses("pipe/idx", input, "train = idx(x = \"pipe\")", said);
    refuses("pipe/cifar", "input label: class(10)", "train = cifar(\"pipe\")", said);
    refuses("pipe/text", "input token: class(300)[4]", "train = characters(\"pipe\")", said);
    refuses("device", input, "train = csv(\"/dev/zero\")", "/dev/zero is a pipe, a device or a socket, a file is expected");
}

static void test_refusals(void)
{
    const char *tokens = "input token: class(300)[4]  input next: class(300)[4]";
    write_bytes("odd.bin", "12345678901234567", 17);
    write_bytes("large.bin", "\1\0\2\0\3\0\4\0\54\1\6\0\7\0\10\0\11\0\12\0", 20);
    refuses("tokens-odd", tokens, "train = tokens(\"odd.bin\")", "odd.bin: 17 bytes are no whole number of tokens of type u16");
    refuses("tokens-header", tokens, "train = tokens(\"odd.bin\", header = 18)",
            "odd.bin: header = 18, and the file has 17 bytes");
    refuses("tokens-headed", tokens, "train = tokens(\"odd.bin\", header = 2)",
            "odd.bin: 15 bytes are no whole number of tokens of type u16");
    refuses("tokens-few", "input next: class(300)[5]", "train = tokens(\"large.bin\", type = u32)",
            "large.bin: 5 tokens are too few for one window of 5 and the token after it");
    refuses(
        "tokens-class", tokens, "train = tokens(\"large.bin\")",
        "large.bin: the window at token 4 has the label 300, 0 elements from its first; input 'token' has the classes 0 to 299");
    refuses("tokens-part", tokens, "train = tokens(\"large.bin\") |> part(0, 0.3)",
            "large.bin: 3 tokens of this part are too few for one window of 4 and the token after it");
    write_bytes("latin.txt", "caf\xe9 au lait", 12);
    refuses("characters-utf8", "input token: class(30)[4]", "train = characters(\"latin.txt\")",
            "latin.txt: byte 3 (0xe9) is not UTF-8; tokens(file, type = u8) reads bytes");
    refuses("characters-many", "input token: class(3)[4]", "train = characters(\"long.txt\")", "7 categories ('a', 'b'");
    write_file("words.txt", "some words to be encoded");
    refuses("text-vocabulary", tokens, "train = text(\"words.txt\", vocabulary = \"none\")",
            "none holds neither tokenizer.json nor encoder.json nor vocab.json");
    if (system(format("cp -r %s/bpe %s/bad && cp -r %s/bpe %s/json", REFERENCE, folder, REFERENCE, folder)) != 0)
        mgpu_fail(3, "cp");
    write_file("bad/vocab.bpe", "#version: 0.2\r\n\na xyz\n");
    refuses("text-merge", tokens, "train = text(\"words.txt\", vocabulary = \"bad\")",
            "bad/vocab.bpe:3: 'a xyz' is no merge of two tokens");
    write_file("json/encoder.json", "{\"a\": 1}");
    refuses("text-bytes", tokens, "train = text(\"words.txt\", vocabulary = \"json\")",
            "there is no token '\xc4\x80' for the byte 0x00");
    write_file("json/encoder.json", "{\"a\": \"b\"}");
    refuses("text-number", tokens, "train = text(\"words.txt\", vocabulary = \"json\")",
            "encoder.json: the token 'a' has no number");
    write_file("json/encoder.json", "{\"a\": ");
    refuses("text-json", tokens, "train = text(\"words.txt\", vocabulary = \"json\")", "json/encoder.json: ");
    write_file("json/encoder.json", "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"b\": 5, \"e\": 6}");
    refuses("text-twice", tokens, "train = text(\"words.txt\", vocabulary = \"json\")",
            "there is no token '\xc4\x80' for the byte 0x00");
    if (system(format("cp -r %s/bpe %s/zero", REFERENCE, folder)) != 0)
        mgpu_fail(3, "cp");
    write_bytes("zero/vocab.bpe", "h e\na\0b c\n", 10);
    refuses("text-zero", tokens, "train = text(\"words.txt\", vocabulary = \"zero\")",
            "zero/vocab.bpe:2: 'a c' is no merge of two tokens");
    refuses_with(
        "categories-saved", "input kind: class(2)", "train = csv(\"train.csv\")", "{\"kind\":[\"blue\",\"red\",\"green\"]}",
        "train.csv:2: column 'kind': the table of the input 'kind' that is saved with the weights has 3 classes, the program class(2)");
    write_bytes("cut.npz", "PK\3\4 and then nothing", 21);
    refuses("npz-cut", "input x: f32", "train = npy(x = \"cut.npz\")", "cut.npz: not a zip archive, or a damaged one");
    refuses("npz-member", "input x: f32", format("train = npy(x = \"%s/stored.npz\")", REFERENCE),
            "stored.npz: it holds no array 'x'; it has: big, long, halves");
    refuses("cifar-none", "input label: class(10)", "train = cifar(\"nowhere\")", "nowhere: No such file or directory");
    refuses("cifar-folder", "input label: class(10)", "train = cifar(\".\")",
            "holds neither data_batch_1.bin (CIFAR-10) nor train.bin");
    write_bytes("data_batch_1.bin", "1234", 4);
    refuses("cifar-size", "input label: class(10)", "train = cifar(\".\")",
            "4 bytes are no whole number of records of CIFAR-10 (3073 bytes each)");
    refuses("samples", "input x: f64  input y: f64", "train = npy(x = \"x.npy\", y = \"n.npy\")", "n.npy has 5000 samples, ");
    refuses("shape", "input x: f64[3]", "train = npy(x = \"x.npy\")", "x.npy: sample 0 has the shape [], input 'x' has [3]");
    refuses("type", "input x: i32", "train = npy(x = \"x.npy\")", "x.npy: sample 0 has elements of f64, input 'x' is i32");
    refuses("class", "input label: class(3)", "train = npy(label = \"label.npy\")",
            "label.npy: sample 3 has the label 3; input 'label' has the classes 0 to 2");
    refuses("types-u64", "input whole: f32", "train = npy(whole = \"large.npy\")",
            "it holds 9223372036854775808; whole numbers up to 2^63 - 1 can be read");
    refuses("types-label", "input label: class(3, ignore = -1)", "train = npy(label = \"labels.npy\")", "has the label -100");
    refuses("no-sample", "input x: f64", "train = npy(x = \"x.npy\") |> part(0.99999, 1)", "the data set 'train' has no sample");
    refuses("pairs-one-label", "input left: f32  input same: bool",
            "train = csv(\"one.csv\", x = \"x\", label = \"label\") |> pairs()",
            "all 2 samples have one label: there are no pairs that differ");
    write_file("three.csv", "kind\na\nb\nc\n");
    refuses(
        "words-beside-ignored", "input kind: class(3, ignore = 0)", "train = csv(\"three.csv\")",
        "'c' is one of 3 categories ('a', 'b', 'c'); input 'kind' has 2 classes beside the one that is ignored; write class(4, "
        "ignore = 0), or class(3, ignore = 0, other = 1), where");
}

int main(void)
{
    char path[] = "/tmp/mgpu-data-XXXXXX";
    folder = mkdtemp(path);
    if (!folder)
        return 3;
    test_values();
    test_gpt2();
    test_types();
    test_part();
    test_pairs();
    test_categories();
    test_ignored_words();
    test_places();
    test_orders();
    test_threads();
    test_reading_ahead();
    test_reading_memory();
    test_csv_refusals();
    write_file("one.csv", "x,label\n1,a\n2,a\n");
    test_packed();
    test_refusals();
    if (system(format("rm -r %s", folder)) != 0)
        return 3;
    return failed != 0;
}
