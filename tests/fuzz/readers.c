/* readers.c: bytes -> the runtime's readers of files; see readers.h. What a reader accepts must hold together: every byte
 * that it promises is touched. */

#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/run/commands.h"
#include "runtime/run/sets.h"
#include "runtime/save/checkpoint.h"
#include "runtime/data/image/image.h"
#include "runtime/weights/formats.h"
#include "runtime/weights/rules.h"
#include "runtime/weights/view.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/read_set.h"
#include "tests/unit/data_program.h"

#include <stdlib.h>
#include <string.h>

static volatile uint64_t sink;

static void touch(const uint8_t *bytes, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += bytes[i];
    sink = sum;
}

/* ---- weights: safetensors, PyTorch's files, .npz, GGUF, indices */
enum { MOST_ELEMENTS = 1 << 20 };

static uint8_t *elements_of(const SavedTensor *t)
{
    int64_t elements = mgpu_elements(&t->tensor), bytes = mgpu_tensor_bytes(&t->tensor);
    uint8_t *read = mgpu_allocate((size_t)bytes + 1, 1);
    for (int64_t third = 0, begin = 0; third < 3; third++) { /* as processes read the parts that they have */
        int64_t end = third == 2 ? elements : elements / 3 * (third + 1);
        mgpu_read_elements(t, (mgpu_range){begin, end}, read + begin * mgpu_dtype_bytes(t->tensor.dtype));
        begin = end;
    }
    touch(read, bytes);
    return read;
}

/* what is made of a tensor: transposed twice, taken apart and joined it is the same */
static void arrange(TensorFile *file, SavedTensor *t)
{
    int64_t rows = t->tensor.rank ? t->tensor.extent[0] : 0;
    SavedTensor *made[3] = {mgpu_transposed(file, mgpu_transposed(file, t, NULL, 0), NULL, 0)};
    SavedTensor *parts[] = {mgpu_rows_of(file, t, 0, rows / 3), mgpu_rows_of(file, t, rows / 3, rows)};
    if (parts[0] && parts[1])
        made[1] = mgpu_joined(file, parts, 2);
    made[2] = mgpu_reshaped(file, t, &t->tensor);
    uint8_t *original = elements_of(t);
    for (int i = 0; i < 3; i++) {
        uint8_t *read = made[i] ? elements_of(made[i]) : NULL;
        if (read && memcmp(read, original, (size_t)mgpu_tensor_bytes(&t->tensor)) != 0)
            fuzz_wrong("tensor '%s' is another one by way %d", t->tensor.name, i);
        free(read);
    }
    SavedTensor *sum = mgpu_summed(file, (SavedTensor *[]){t, t}, 2), *last = mgpu_channels_last(file, t, 3);
    for (SavedTensor *m[] = {sum, last}, **k = m; k < m + 2; k++)
        if (*k)
            free(elements_of(*k));
    for (int heads = 1; heads < 4; heads++) {
        SavedTensor *unpaired = mgpu_unpaired(file, mgpu_transposed(file, t, NULL, 0), heads);
        if (unpaired)
            free(elements_of(unpaired));
    }
    free(original);
}

/* a model of some shapes, by rules of the library and by `rules`, all of which is read */
static void match_some(TensorFile *file, const char *rules)
{
    static const mgpu_variable VARIABLES[] = {{.tensor = {"a.weight", MGPU_F32, 2, {256, 2}}},
                                              {.tensor = {"a.bias", MGPU_F32, 1, {256}}},
                                              {.tensor = {"h0.qkv.weight", MGPU_F64, 2, {6, 2}}},
                                              {.tensor = {"q", MGPU_F32, 1, {2}}},
                                              {.tensor = {"k", MGPU_F32, 1, {254}}},
                                              {.tensor = {"c", MGPU_F32, 3, {1, 256, 2}}}};
    static const mgpu_program PROGRAM = {.variables = VARIABLES, .variable_count = MGPU_COUNT(VARIABLES)};
    TensorView view = mgpu_new_view(PROGRAM.variable_count);
    for (int i = 0; i < PROGRAM.variable_count; i++)
        mgpu_view_add(&view, VARIABLES[i].tensor.name, i);
    Match match;
    mgpu_match(&match, &PROGRAM, file, &view, rules);
    for (int i = 0; i < view.count; i++)
        if (match.tensor[i] && mgpu_same_shape(&match.tensor[i]->tensor, &VARIABLES[i].tensor))
            free(elements_of(match.tensor[i]));
    mgpu_close_match(&match, &view);
    mgpu_close_view(&view);
}

/* ---- rules for names and shapes */
void run_rules(const uint8_t *data, size_t length)
{
    static uint8_t values[256 * 2 * 4];
    TensorFile file = {.path = "w", .step = -1};
    static const mgpu_tensor TENSORS[] = {{"a.bias", MGPU_F32, 1, {256}},
                                          {"a.weight", MGPU_F32, 2, {256, 2}},
                                          {"b.weight", MGPU_F32, 2, {2, 256}},
                                          {"h.0.attn.c_attn.weight", MGPU_F32, 2, {2, 6}}};
    for (int i = 0; i < MGPU_COUNT(TENSORS); i++) {
        SavedTensor *t = mgpu_add_tensor(&file);
        t->tensor = TENSORS[i];
        t->data = values;
    }
    mgpu_sort_tensors(&file);
    char *text = mgpu_adopt_memory(&file, mgpu_format("%.*s\n# =", (int)length, (const char *)data));
    match_some(&file, text);
    mgpu_close_tensors(&file);
}

void run_safetensors(const uint8_t *data, size_t length)
{
    TensorFile file;
    mgpu_open_weights(&file, fuzz_file(data, length));
    for (int i = 0; i < file.count; i++) {
        const SavedTensor *t = &file.tensors[i];
        int64_t bytes = mgpu_tensor_bytes(&t->tensor), elements = mgpu_elements(&t->tensor);
        if (bytes < 0)
            fuzz_wrong("tensor '%s' has a size below 0", t->tensor.name);
        if (elements <= MOST_ELEMENTS) /* a view with strides of 0 may have any number */
            arrange(&file, &file.tensors[i]);
        if (mgpu_find_tensor(&file, t->tensor.name) != t)
            fuzz_wrong("tensor '%s' is not found", t->tensor.name);
    }
    match_some(&file, "if general.architecture = llama; prefix model.; q, k = split(a.*); c = reshape(transpose(b.weight)); h0.* "
                      "= unpair(concat(a.*, a.*), 3)");
    mgpu_close_tensors(&file);
}

/* ---- the log of a run that is followed */
void follow_log(const char *path)
{
    const RunOptions o = {.program = "case", .operands = &path, .operand_count = 1};
    mgpu_follow(NULL, &o);
}

/* ---- json */
static size_t touch_values(const Json *v)
{
    size_t count = 1;
    if (v->text)
        touch((const uint8_t *)v->text, (int64_t)strlen(v->text) + 1);
    if (v->key)
        touch((const uint8_t *)v->key, (int64_t)strlen(v->key) + 1);
    for (const Json *m = v->first; m; m = m->next)
        count += touch_values(m);
    return count;
}

void run_json(const uint8_t *data, size_t length)
{
    const char *error = NULL;
    uint8_t *copy = malloc(length); /* without the zero after it */
    if (length && copy)
        memcpy(copy, data, length);
    Json *v = mgpu_json_read((const char *)copy, length, &error);
    if (!v == !error)
        fuzz_wrong("mgpu_json_read gives both a value and an error, or neither");
    if (v)
        touch_values(v);
    free(v);
    free(copy);
}

/* ---- data sets */
enum { MOST_SAMPLES = 300 };

int choose_variant(int count, const uint8_t *data, size_t length)
{
    return length ? (int)((length + data[length - 1]) % (size_t)count) : 0;
}

void read_set(const Variant *variants, const mgpu_program **programs, int which, const char *path)
{
    if (!programs[which]) { /* once in a process */
        const char *text = variants[which].data;
        for (const char *mark; (mark = strstr(text, "%s"));)
            text = format("%.*s%s%s", (int)(mark - text), text, path, mark + 2);
        programs[which] = program_of(variants[which].inputs, text);
    }
    const mgpu_program *p = programs[which];
    bool wanted[8];
    memset(wanted, true, sizeof wanted);
    Categories *categories = mgpu_new_categories(false);
    Dataset d;
    mgpu_open_set(&d, p, mgpu_find_set(p, "train"), wanted, NULL, categories);
    if (d.samples < 1)
        fuzz_wrong("a set of %lld samples", (long long)d.samples);
    int64_t n = d.samples < MOST_SAMPLES ? d.samples : MOST_SAMPLES, order[MOST_SAMPLES];
    for (int64_t i = 0; i < n; i++)
        order[i] = i % 2 ? d.samples - 1 - i : i; /* from both ends */
    uint8_t *to[8] = {NULL};
    for (int i = 0; i < p->input_count; i++)
        to[i] = malloc((size_t)(mgpu_tensor_bytes(&p->inputs[i].tensor) * n));
    mgpu_read_samples(&d, to, order, n, 1, 0);
    for (int i = 0; i < p->input_count; i++) {
        const mgpu_input *in = &p->inputs[i];
        for (int64_t k = 0; k < mgpu_elements(&in->tensor) * n && in->classes; k++) {
            double v = mgpu_to_double(to[i], in->tensor.dtype, k);
            if (!(v >= 0 && v < (double)in->classes) && v != (double)in->ignore)
                fuzz_wrong("a label %g of %lld classes", v, (long long)in->classes);
        }
        touch(to[i], mgpu_tensor_bytes(&in->tensor) * n);
        free(to[i]);
    }
    free(mgpu_categories_text(categories));
    mgpu_close_set(&d);
    mgpu_free_categories(categories);
}

#define READ_SET(...)                                                                                                            \
    static const Variant VARIANTS[] = {__VA_ARGS__};                                                                             \
    static const mgpu_program *programs[MGPU_COUNT(VARIANTS)];                                                                   \
    read_set(VARIANTS, programs, choose_variant(MGPU_COUNT(VARIANTS), data, length), fuzz_file(data, length))

void run_idx(const uint8_t *data, size_t length)
{
    READ_SET({"input x: f32[2, 3]", "train = idx(x = \"%s\")"}, {"input image: u8[2, 2, 1]", "train = idx(image = \"%s\")"},
             {"input label: class(10)", "train = idx(label = \"%s\")"},
             {"input next: class(300, ignore = 65535)[3]", "train = idx(next = \"%s\", shuffle = 2) |> part(0, 0.9)"});
}

void run_npy(const uint8_t *data, size_t length)
{
    READ_SET({"input x: f32[2, 3]", "train = npy(x = \"%s\")"}, {"input image: u8[2, 2, 1]", "train = npy(image = \"%s\")"},
             {"input label: class(10)", "train = npy(label = \"%s\")"}, {"input v: f64[3]", "train = npy(v = \"%s\")"},
             {"input x: f32[2]  input label: class(4)", "train = npy(x = \"%s\", label = \"%s\") |> part(0, 0.8)"},
             {"input left: f32[2]  input right: f32[2]  input same: class(2)",
              "train = npy(x = \"%s\", label = \"%s\") |> pairs(same = 0.5)"});
}

void run_csv(const uint8_t *data, size_t length)
{
    READ_SET({"input age: f32[]  input job: class(4, other = 0)", "train = csv(\"%s\")"},
             {"input x: f32[2]  input job: class(5)",
              "train = csv(\"%s\", x = [\"age\", \"size\"], missing = [\"?\"], strip = \" \")"},
             {"input a: f32[]  input job: class(4, ignore = 9)",
              "train = csv(\"%s\", names = [\"a\", \"b\", \"job\"], on_bad = \"skip\")"},
             {"input age: u8[]", "train = csv(\"%s\", delimiter = \";\") |> part(0.2, 1)"},
             {"input left: f32[2]  input right: f32[2]  input same: class(2)",
              "train = csv(\"%s\", x = [\"age\", \"size\"], label = \"job\") |> pairs(same = 0.4)"});
}

void run_tokens(const uint8_t *data, size_t length)
{
    READ_SET({"input token: class(300)[4]  input next: class(300)[4]", "train = tokens(\"%s\", type = u16)"},
             {"input token: class(256)[3]", "train = tokens(\"%s\", type = u8, stride = 2) |> part(0, 0.5)"},
             {"input token: class(70000)[2]  input next: class(70000)[2]", "train = tokens(\"%s\", type = i32)"});
}

void run_characters(const uint8_t *data, size_t length)
{
    READ_SET({"input token: class(100)[5]  input next: class(100)[5]", "train = characters(\"%s\")"},
             {"input token: class(20)[3]  input next: class(20)[3]", "train = characters(\"%s\", stride = 2) |> part(0.3, 1)"});
}

/* ---- pictures: decoded, brought to another size, cut */
void run_picture(const uint8_t *data, size_t length)
{
    static const int CHANNELS[] = {1, 3, 4, MGPU_IMAGE_LABELS};
    int channels = CHANNELS[length ? data[length - 1] % 4 : 0];
    char why[MGPU_IMAGE_WHY] = "";
    Reading reading = {.seed = 1};
    Image whole, part;
    uint8_t *copy = malloc(length ? length : 1); /* without the zero after it */
    if (length && copy)
        memcpy(copy, data, length);
    if (!mgpu_image_decode(&reading, copy, (int64_t)length, channels, &whole, why)) {
        if (!why[0])
            fuzz_wrong("no picture, and no word why");
    } else {
        if (whole.width < 1 || whole.height < 1 || whole.channels != (channels ? channels : 1) ||
            whole.stride < (int64_t)whole.width * whole.channels)
            fuzz_wrong("a picture of %d x %d x %d", whole.height, whole.width, whole.channels);
        for (int y = 0; y < whole.height; y++)
            touch(whole.pixels + y * whole.stride, (int64_t)whole.width * whole.channels);
        ImageStage stages[] = {{.kind = STAGE_RESIZE, .name = "resize", .width = 9},
                               {.kind = STAGE_CENTER_CROP, .name = "center_crop", .width = 7, .height = 8}};
        if (whole.width < 20 * whole.height && whole.height < 20 * whole.width &&
            mgpu_image_stages(&reading, &whole, stages, 2, 3, (ImageMeaning){channels == MGPU_IMAGE_LABELS, 0}, &part, why))
            for (int y = 0; y < part.height; y++)
                touch(part.pixels + y * part.stride, (int64_t)part.width * part.channels);
    }
    mgpu_reading_close(&reading);
    free(copy);
}

/* ---- the tables of words that weights carry */
void run_categories(const uint8_t *data, size_t length)
{
    (void)length;
    Categories *categories = mgpu_new_categories(true);
    mgpu_read_categories(categories, (const char *)data, "case");
    char *text = mgpu_categories_text(categories);
    if (text) {
        Categories *again = mgpu_new_categories(true);
        mgpu_read_categories(again, text, "case");
        char *second = mgpu_categories_text(again);
        if (!second || strcmp(text, second) != 0)
            fuzz_wrong("tables are written %s, then %s", text, second ? second : "not at all");
        mgpu_free_categories(again);
        free(second);
    }
    free(text);
    static const mgpu_input JOB = {
        .tensor = {.name = "job", .dtype = MGPU_U8}, .classes = 4, .ignore = 200, .other = MGPU_NO_LABEL};
    static char *words[] = {"blue", "green", NULL, "red", "1"};
    int64_t *classes =
        mgpu_classes_of_words(categories, &JOB, &(Words){.text = words, .count = MGPU_COUNT(words)}, NULL, "case", "case", NULL);
    for (int i = 0; i < MGPU_COUNT(words); i++)
        if (classes[i] != MGPU_NO_LABEL && (classes[i] < 0 || (classes[i] >= JOB.classes && classes[i] != JOB.ignore)))
            fuzz_wrong("'%s' is class %lld of %lld", words[i] ? words[i] : "", (long long)classes[i], (long long)JOB.classes);
    free(classes);
    mgpu_free_categories(categories);
}

/* ---- words */
/* clang-format off */
#define JSON_TOKENS                                                                                                      \
    "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u0000", "\\ud800", "\\ud83d\\ude00", "null", "true", "false", "0", "-0",    \
    "1e9", "1e999", "9007199254740993", "9223372036854775807", "18446744073709551616", "\"a\":", "{}", "[]",             \
    "[[[[[[[[[[[[[[[[", "\xff"
const char *const JSON_WORDS[] = {JSON_TOKENS, NULL};
/* clang-format off */
const char *const SAFETENSORS_WORDS[] = {
    JSON_TOKENS, "\"dtype\":\"F32\"", "\"shape\":[2]", "\"data_offsets\":[0,8]", "\"__metadata__\":{", "\"step\":\"3\"", "BOOL",
    "U8", "I8", "U16", "F16", "BF16", "F64", "I64", ",\"b\":{", NULL};
const char *const NPY_WORDS[] = {
    "\x93NUMPY", "'descr'", "'fortran_order'", "'shape'", "True", "False", "<f4", ">f8", "|u1", "<i8", "|b1", "(", ")", ",", "{",
    "}", "(3,)", "(2, 3)", "4294967296", "9223372036854775807", "-1", NULL};
/* clang-format on */
const char *const CSV_WORDS[] = {",",   ";",    "\"",  "\"\"", "\n",   "\r\n",    "?", "NaN",  "inf", "-1",
                                 "1e5", "0x10", "age", "job",  "size", "\"a,b\"", " ", "\xff", "",    NULL};
