/* targets.c: the compiler's and the runtime's readers as targets, and the table of all. */
#include "tests/fuzz/fuzz.h"

#include "compiler/machine/cost.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/measured_times.h"
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/ir/dump.h"
#include "dsl/dsl.h"
#include "tests/fuzz/emitted.h"
#include "tests/fuzz/readers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static Source *source_of(const uint8_t *data, size_t length)
{
    diagnostics_to(NULL); /* cases before it may have had errors */
    Source *s = NEW(Source);
    *s = (Source){.file = "case", .text = (const char *)data, .length = length};
    return s;
}

/* ---- text -> tree */
static void run_parse(const uint8_t *data, size_t length)
{
    Text t = {0};
    tree_print(parse(source_of(data, length)), &t);
    stop_after_errors();
}

/* A loop of a million layers is no mistake, only long: texts with a loop and a number that could be its count are left
 * alone; so are numbers above 64 in the heads of loops, which may be in each other. */
static bool loops_long(const char *text)
{
    bool in_head = false, loop = strstr(text, "for ") || strstr(text, "repeat");
    for (const char *p = text; *p; p++) {
        in_head = strncmp(p, "for ", 4) == 0 || strncmp(p, "range", 5) == 0 || strncmp(p, "repeat", 6) == 0 ||
                  (in_head && *p != '{' && *p != '\n');
        if (!isdigit((unsigned char)*p))
            continue;
        char *end;
        double n = strtod(p, &end);
        if (loop && n > (in_head ? 64 : 1000))
            return true;
        p = end - 1;
    }
    return false;
}

/* ---- text -> model */
static void run_elaborate(const uint8_t *data, size_t length)
{
    if (loops_long((const char *)data))
        return;
    Settings none = {0};
    Model *m = elaborate(parse(source_of(data, length)), &none);
    Text t = {0};
    graph_print(m->init, &t);
    if (m->train) /* else it has no loss */
        graph_print(m->train, &t);
    graph_print(m->eval, &t);
}

/* ---- text -> proved schedules: mgpuc itself, as one calls it */
int mgpuc_main(int argc, char **argv); /* compiler/driver/main.c */

static void run_compile(const uint8_t *data, size_t length)
{
    if (loops_long((const char *)data))
        return;
    const char *path = fuzz_file(data, length);
    char *words[] = {"mgpuc", "--emit", "verify", "--devices", "1,3", (char *)(uintptr_t)path, NULL};
    mgpuc_main(COUNT(words) - 1, words);
}

/* ---- text -> C and CUDA C of its kernels, whose names and comments must be text alone */
static void run_emitted(const uint8_t *data, size_t length)
{
    static const char *const DEVICES[] = {"host:1", "cuda:1"};
    static int file = -1; /* what is said to standard output, which nobody else reads */
    if (loops_long((const char *)data))
        return;
    const char *path = fuzz_file(data, length);
    if (file < 0)
        file = memfd_create("emitted", 0);
    const char *devices = DEVICES[length % 2]; /* both would take twice the memory */
    char *words[] = {"mgpuc", "--emit", "kernels", "--devices", (char *)(uintptr_t)devices, (char *)(uintptr_t)path, NULL};
    if (ftruncate(file, 0) || lseek(file, 0, SEEK_SET) || dup2(file, 1) < 0)
        fuzz_wrong("a file in memory cannot be written");
    mgpuc_main(COUNT(words) - 1, words);
    fflush(stdout);
    size_t size;
    char problem[256];
    const char *text = read_file(format("/proc/self/fd/%d", file), &size);
    const char *why = text ? emitted_problem(text, size, problem, sizeof problem) : "there is none";
    if (why)
        fuzz_wrong("emitted for %s: %s", devices, why);
}

/* ---- text -> machine: what was read has a time for everything that a plan asks it, which no number of the text makes less than
 * nothing */
static void run_machine(const uint8_t *data, size_t length)
{
    const Machine *m = machine_read("case", (const char *)data, length);
    int most = m->device_count < 9 ? m->device_count : 9;
    int nodes = m->nodes < 3 ? m->nodes : 3;
    for (int n = 1; n <= most; n++) {
        Members g = members_of(m, PROCESSOR_CUDA, nodes, nodes * n);
        for (int k = 0; k < METHODS; k++)
            if (method_works(&g, (Method)k) && !(cost_collective(&g, COLLECT_ALL_REDUCE, (Method)k, 1e6).us >= 0))
                fuzz_wrong("an all-reduce of %d by %s takes %g us", n, METHOD_NAME[k],
                           cost_collective(&g, COLLECT_ALL_REDUCE, (Method)k, 1e6).us);
        if (!(cost_upload(m, PROCESSOR_CUDA, n - 1, 1e6).us >= 0))
            fuzz_wrong("an upload to device %d takes %g us", n - 1, cost_upload(m, PROCESSOR_CUDA, n - 1, 1e6).us);
    }
    for (int p = 0; p < PROCESSORS; p++) {
        Work work = {.kind = WORK_MATMUL, .type = F32, .contractions = 1e9, .operations = 1e6, .bytes = 1e6};
        Device d = p == PROCESSOR_HOST || most ? machine_device(m, (Processor)p, 0, 1) : (Device){0};
        if (d.bandwidth.value > 0 && !(cost_kernel(&d, &work).us >= 0))
            fuzz_wrong("a matmul takes %g us", cost_kernel(&d, &work).us);
    }
}

/* ---- the file of bench --measure -> times of kernels: those that are found are times */
static void run_measured(const uint8_t *data, size_t length)
{
    const Measured *m = measured_read(fuzz_file(data, length));
    for (uint64_t kernel = 0; kernel < 20; kernel++)
        for (double samples = 1; samples < 1e9; samples *= 1000) {
            const MeasuredKernel *k = measured_kernel(m, kernel, samples);
            if (k && !(k->kernel == kernel && k->us >= 0 && k->us <= 1e12 && k->samples >= 1))
                fuzz_wrong("kernel %d with %g samples takes %g us", (int)kernel, samples, k->us);
        }
    if (measured_devices(m) < 1)
        fuzz_wrong("it was measured on %d devices", measured_devices(m));
}

/* ---- text of a schedule -> schedule; what was read, written and read again is written the same */
static void run_schedule(const uint8_t *data, size_t length)
{
    (void)length;
    Schedule *s = schedule_read("case", (const char *)data);
    Text first = {0}, second = {0};
    schedule_write(s, &first);
    schedule_write(schedule_read("case", text_of(&first)), &second);
    if (strcmp(text_of(&first), text_of(&second)) != 0)
        fuzz_wrong("what schedule_write wrote is read as something else");
    verify(s);
}

/* ---- what follows the head of an image -> schedule; what was unpacked, packed and unpacked again is the same */
static void run_image(const uint8_t *data, size_t length)
{
    Schedule *s = schedule_unpack("case", schedule_pack_bytes(data, length));
    const uint64_t *first = schedule_pack(s), *second = schedule_pack(schedule_unpack("case", first));
    int64_t words = mgpu_image_words(first);
    if (words != mgpu_image_words(second) || memcmp(first, second, (size_t)words * sizeof *first) != 0)
        fuzz_wrong("what was packed is unpacked as something else");
    Text text = {0};
    schedule_write(s, &text);
    verify(s);
}

/* ---- a dump -> graphs; what was read, printed and read again is printed the same. What is read may be simplified */
static void run_graph(const uint8_t *data, size_t length)
{
    static const char *const NAMES[] = {"init", "prologue", "accumulate",   "train",
                                        "eval", "predict",  "report_train", "report_eval"};
    const char *stage = NULL;
    Model *m, *again;
    int count, same;
    DumpedGraph *graphs = dump_read("case", (const char *)data, length, &stage, NAMES, COUNT(NAMES), &m, &count);
    Text first = {0}, second = {0};
    dump_write(stage, m, graphs, count, &first);
    DumpedGraph *copies = dump_read("case", text_of(&first), first.length, &stage, NAMES, COUNT(NAMES), &again, &same);
    dump_write(stage, again, copies, same, &second);
    if (strcmp(text_of(&first), text_of(&second)) != 0)
        fuzz_wrong("what dump_write wrote is read as something else");
    for (int i = 0; i < count; i++)
        simplify(graphs[i].graph);
}

/* ---- words */
/* clang-format off */
static const char *const LANGUAGE[] = {
    "and", "else", "false", "for", "if", "in", "none", "not", "or", "return", "then", "true", "assert", "data",
    "import", "input", "layer", "loss", "metric", "model", "output", "param", "scan", "state", "train", "update",
    "weight", "|>", "**", "//", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "@", "=", ".", ",", ":",
    "...", "(", ")", "[", "]", "{", "}", "f32", "bf16", "f16", "f64", "i32", "i64", "u8", "u16", "i8", "i16", "u32",
    "bool", "class(10)", "class(3, ignore = 2)", "class(4, other = 0)", "training", "step", "epoch", "progress", "pi",
    "inf", "x", "y", "[]", "[0]", "[-1]", "[1:3]", "[:, ::-1]", "[..., 0]", "[none]", "[[1, 2], [3, 4]]", "abs",
    "floor", "sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "expm1", "log1p", "logistic",
    "atan2(x, y)", "bit_and", "bit_or(i, 1)", "bit_xor", "bit_not(i)", "shift_left(i, 3)", "shift_right", "minimum", "maximum", "where", "sum", "max", "argmax",
    "cumsum", "top_k", "einsum", "\"ab,bc->ac\"", "\"a,a->\"", "convolve", "window_max", "window_sum", "reshape",
    "transpose", "slice", "concat", "pad", "broadcast", "scatter_add", "random", "arange", "tensor", "stop_gradient",
    "batch_sum", "total", "weighted", "shared", "len", "range", "enumerate", "zip", "reverse", "repeat", "is_list",
    "portion", ".shape", ".rank", ".channels", ".type", ".classes", ".ignore", ".value", ".weight", "identity", "mean",
    "min", "variance", "softmax", "log_softmax", "one_hot", "flatten()", "flip", "split", "stack", "dense(4)",
    "conv(4, 3)", "conv(2, 3, stride = 2, groups = 2)", "conv_transpose(3, 2)", "maxpool(2)", "avgpool(2)",
    "batchnorm()", "batchnorm(stats = 4)", "layernorm()", "groupnorm(2)", "dropout(0.5)", "relu", "gelu",
    "embedding(4)", "attention", "self_attention(2)", "lstm(3)", "gru(3)", "rnn(3)", "he()", "normal(0.1)",
    "orthogonal()", "cross_entropy(x, label)", "mse(x, y)", "accuracy(x, label)", "average(x)",
    "idx(image = \"a\", label = \"b\")", "batch = 4", "epochs = 2", "steps = 3", "lr = 0.1", "decay",
    "optimizer = adam()", "sgd(momentum = 0.9)", "muon()", "precision = f64", "accumulate = 2", "clip = 1.0",
    "by_norm(1.0)", "by_value(0.5)", "seed = 1", "\"*\" { frozen = true }", "\"*.bias\" { decay = 0 }",
    "cosine(0.1, warmup = 2steps)", "5epochs", "2000steps", "10min", "10GiB", "\"a\"", "#", "1e-4",
    "|> conv(4, 3) |> relu()", "M_PI", "linux", "errno", "I", "dense(3, name = \"*/ /* ?\?/\")", "name = \"\\n#error\\n\"", "name = \"*\\\\\"",
    "name = \"\xe2\x80\xae\"", "name = \"\xff\"",
    /* at the edge of what is right */
    "7 % 0", "1 // 0", "1 / 0", "0 ** -1", "2 ** 63", "-9223372036854775807 - 1", "9223372036854775807 + 1",
    "9223372036854775807 * 2", "1e308 * 10", "0.0 / 1", "inf - inf", "range(-1)", "range(9, 2, -3)", "repeat(x, -1)",
    "repeat([], 3)", "[1, 2][5]", "[1, 2][::0]", "x[5:2]", "x[0:0]", "x[::0]", "x[::-1]", "x[-9:9]", "x[[0]]",
    "x.shape[9]", "f32[0]", "f32[-1]", "f32[4294967296, 4294967296]", "f32[1, 1, 1, 1, 1, 1, 1, 1, 1]", "class(0)",
    "class(-1)", "class(3, ignore = 3)", "arange(0)", "arange(-1)", "tensor([])", "tensor([[1], [2, 3]])",
    "tensor([[1, 2], [3, 4]])", "random([0])", "random([])", "reshape(x, [-1, -1])", "reshape(x, [0, -1])",
    "reshape(x, [1, -1])", "sum(x, [0, 0])", "sum(x, [])", "max(x[0:0])", "argmax(x[0:0])", "mean(x[0:0])",
    "softmax(x[0:0])", "einsum(\"aa->a\", x)", "einsum(\"->\")", "einsum(\"a->ab\", x)", "conv(0, 0)",
    "conv(2, 3, stride = 0)", "conv(2, 3, dilation = 9)", "conv(2, 2, padding = -1)", "dense(0)", "dense(-1)",
    "dense(1)", "dropout(2)", "dropout(0)", "dropout(1)", "pad(x, -1)", "pad(x, 1, value = inf)", "window_max(x, 0)",
    "window_sum(x, 9)", "broadcast(x, [0])", "broadcast(1, [2, 0, 3])", "concat([])", "concat([x, x], axis = 9)",
    "concat([x, x[0:0]], axis = 0)", "transpose(x, [0, 0])", "stack([x, x])", "split(x, 0)", "split(x, 1)",
    "batch_sum(x, group = 0)", "batch_sum(x, group = 3)", "batch_sum(1)", "batchnorm(stats = -1)",
    "batchnorm(stats = \"shard\")", "batchnorm(momentum = 0, eps = 0)", "groupnorm(0)", "attention(x, x, x)",
    "self_attention(0)", "total(total(x))", "weighted(weighted(x, x), x)", "weighted(x, 0)",
    "stop_gradient(weighted(x, 1))", "one_hot(x, 0)", "embedding(0)", "where(x > 0, x, none)", "not x", "x and x",
    "-true", "u8(x)", "i64(x)", "bool(x)", "f16(x)", "accumulate = 7", "batch = 1", "batch = 2147483647", "lr = -1",
    "lr = inf", "clip = 0", "optimizer = sgd", "optimizer = |> adam()", "\"*\" { lr = 0 }", "\"x\" { frozen = true }",
    "\"\" { decay = 1 }", "loss x", "loss 0", "loss weighted(x, 0)", "metric x", "metric total(x)", "output x",
    "output 1", "state s: f32[2] = 0", "update s = s + 1", "weight w: f32[x.shape] = 0", "weight w: f32[0] = he",
    "for i in range(3) { x = x + i }", "for a, b in zip([1, 2], [3]) { x = a }", "if training { x = x * 2 }",
    "if x.rank > 1 { x = x[0] }", "layer f(a, b = a) { return f(a, b) }", "return x, x", NULL};
static const char *const SCHEDULE[] = {
    "mgpu-schedule", "kernel", "in", "out", "over", "type", "updated", "replaced", "digest", "model", "precision", "batch", "accumulate", "devices", "phase", "device", "name", "arena", "work",
    "staging", "samples", "capacity", "as", "buffer", "kind", "offset", "bytes", "slots", "each", "index", "op", "lane",
    "comp", "copy", "comm", "sync", "host", "call", "read", "upload", "reduce", "reduce_scatter", "all_gather", "broadcast_from", "send", "report", "fetch", "region", "chunk", "reads",
    "writes", "waits", "begin_us", "time_us", "line", "collective", "group", "all", "members", "all-reduce", "reduce-scatter", "all-gather", "broadcast", "from 0", "to 1", "parts 0 1 2", "dtype", "f32",
    "f64", "bf16", "i32", "bool", "via host", "via auto", "why \"x\"", "@+1", "@-1", "@-2", "[0:64]", "d0.", "d1.", "k0", "r0", "-", "variable",
    "input", "temporary", "bucket", "workspace", "local", "output", "step", "0..4", "\"host\"", "\\x00", "1.5", "# predicted step_us", "machine \"x\"", "bound \"y\"",
    "\n# lane devices 0 1 comp busy_us 5 idle_us 0 0 0 0 0 0\n", "\n# link \"a\" bytes 4 share 0.5\n", "1e300", "-1e300", "5e-324", "nan", "inf", "\x1b[31m", "\xff", NULL};
static const char *const MACHINE[] = {
    "machine", "devices 2", "devices 9", "devices 0", "name", "capability * 9.0", "multiprocessors", "memory", "bandwidth", "arithmetic", "matrix", "launch", "event", "switch s",
    "switch s adds", "link", "host", "cores", "decode", "disk", "barrier", "step", "meeting", "idle-meeting", "matmul", "none", "nominal", "measured 2026-11-23", "*", "0-3", "0", "1", "f32", "bf16", "f64", "80GiB",
    "25GB/s", "1B/s", "2us", "0us", "1s", "989TFLOP/s", "1FLOP/s", "850/s", "1e300", "-1GB/s", "nan", "#", NULL};
static const char *const LOG[] = {
    "{\"event\":\"start\",\"batch\":8,\"train_samples\":64,\"total_steps\":9,\"devices\":2}\n", "{\"event\":\"step\",\"step\":1,\"loss\":1}\n", "{\"event\":\"epoch\",\"epoch\":1}\n",
    "{\"event\":\"eval\"}\n", "{\"event\":\"notice\",\"message\":\"x\"}\n", "{\"event\":\"end\"}\n", "\"event\"", "\"start\"", "\"step\"", "\"epoch\"", "\"eval\"", "\"loss\"", "\"lr\"",
    "\"metrics\"", "\"settings\"", "\"params\"", "\"model\"", "\"kind\"", "\"machine\"", "\"bound\"", "\"reason\"", "\"message\"", "\"samples_per_s\"", "\"seconds\"", "\"predicted_ms\"",
    "\"input_wait_ms\"", "\"traceEvents\"", "\"otherData\"", "\"made\"", "</script>", "<!--<script>", "]]>", "<img src=x onerror=alert(1)>", "\\\" onload=\\\"", "&lt;", "\\u001b[31m",
    "\\u202e", "\\ufffe", "\\u0000", "\x1b[31m", "\xff", "\xe2\x80\xae", "1e308", "-1e308", "1.7976931348623157e308", "5e-324", "1e300", "-1", "0", "null", "{}", "[]", "\n", NULL};
static const char *const GRAPH[] = {
    "mgpu-graph", "model", "input", "variable", "setting", "output", "graph", "train", "eval", "init", "full", "partial", "distributed",
    "body", "loss", "metric", "update", "report", "result 0", "weight", "optimizer_state", "trained", "owner 0", "%0", "%1", "%2", "%3",
    "= %1", "add", "mul", "div", "where", "eq", "le", "cast f32", "cast bool", "sum [0]", "sum []", "max [0]", "argmax [0]", "cumsum [0, 0]",
    "top_k [0, 2, 0]", "einsum \"ab,b->a\"", "einsum \"a->\" f32", "convolve [1, 1, 0, 0, 1, 1, 1]", "attention [0, 0, 1]",
    "window_max [2, 2, 0, 0]", "reshape [2, 2]", "broadcast [3, 4]", "transpose [1, 0]", "slice [0, 2, 1]", "unslice [0, 1, 4]",
    "concat [0]", "pad [1, 1] {0}", "gather [0]", "scatter_add [0]", "group_sum [0]", "total", "reduce", "reduce_scatter", "reduce_scatter [0, 1, 4]", "all_gather", "broadcast_from [0]", "send [0, 1]", "split", "local", "stop_gradient", "composite \"softmax\" {-1}",
    "scan [1, 1, 3, 0, 1]", "arg 0", "constant {1}", "constant {1, 2}", "run step", "run setting 0", "valid", "random \"x\"", "arange",
    ": f32[]", ": f32[4]", ": f32[3, 4]", ": bool[]", ": i32[4]", ": f64[] weak", ": u8[28, 28]", "sharded", "replicated", "partial", "weak",
    "backward", "; x in y line 3:4", "of \"stdlib/x\"", "from \"a\" 2:3", "by dense", "numbers", "{9 numbers 0}", "[4611686018427387904]", "-1",
    "9223372036854775807", "0", "1", "8", "nan", "inf", "order [1, 0]", "batch 3", "precision f64", NULL};
/* clang-format on */

static const char *const WEIGHTS_WORDS[] = {"GGUF",
                                            "PK\3\4",
                                            "PK\1\2",
                                            "PK\5\6",
                                            "ctorch._utils\n_rebuild_tensor_v2\n",
                                            "ccollections\nOrderedDict\n",
                                            "cposix\nsystem\n",
                                            "storage",
                                            "X\4",
                                            "}q",
                                            "(u.",
                                            "\x85R",
                                            "\x86",
                                            "\x87",
                                            "Q",
                                            "0",
                                            "2",
                                            "h\1",
                                            "j\xff\xff\xff\xff",
                                            "r\xff\xff\xff\xff",
                                            "\x94",
                                            "J\xff\xff\xff\x7f",
                                            "K\1",
                                            "general.alignment",
                                            NULL};

static const char *const RULES_WORDS[] = {
    "transpose(", "split(",   "concat(", "reshape(", "unpair(", "gru(",  "a.weight", "b.weight", "a.bias", "h0.qkv.weight",
    "*",          "*.weight", " = ",     ", 1, 0)",  ")",       "{a,b}", "{",        "}",        "if ",    "[c, 3c]",
    "prefix ",    "use gpt2", "rules ",  "say ",     "q, k",    "\n",    ";",        "#",        NULL};

const FuzzTarget FUZZ_TARGETS[] = {
    {"parse", run_parse, "tests/lang examples tests/models dsl/stdlib", LANGUAGE, true, true, 20000},
    {"elaborate", run_elaborate, "tests/lang examples tests/models tests/fuzz/corpus/compile", LANGUAGE, true, true, 8000},
    {"compile", run_compile, "tests/lang tests/models", LANGUAGE, true, false, 4000},
    {"emitted", run_emitted, "tests/models tests/fuzz/corpus/models", LANGUAGE, true, false, 4000},
    {"schedule", run_schedule, "", SCHEDULE, true, true, 30000},
    {"image", run_image, "", NULL, false, false, 30000},
    {"machine", run_machine, "compiler/machine/files", MACHINE, true, false, 4000},
    {"measured", run_measured, "", JSON_WORDS, true, false, 4000},
    {"view", run_view, "tests/fuzz/corpus/schedule", SCHEDULE, true, false, 30000},
    {"log", run_log, "", LOG, true, false, 8000},
    {"graph", run_graph, "tests/passes", GRAPH, true, true, 24000},
    {"safetensors", run_safetensors, "", SAFETENSORS_WORDS, false, false, 4000},
    {"weights", run_safetensors, "tests/reference/weights", WEIGHTS_WORDS, false, false, 9000},
    {"rules", run_rules, "tests/fuzz/corpus/rules dsl/stdlib", RULES_WORDS, true, false, 12000},
    {"json", run_json, "tests/fuzz/corpus/safetensors", JSON_WORDS, false, false, 4000},
    {"idx", run_idx, "", NULL, false, false, 4000},
    {"npy", run_npy, "", NPY_WORDS, false, false, 4000},
    {"csv", run_csv, "", CSV_WORDS, true, false, 4000},
    {"tokens", run_tokens, "", NULL, false, false, 4000},
    {"picture", run_picture, "tests/reference/images", NULL, false, false, 30000},
    {"characters", run_characters, "", NULL, false, false, 4000},
    {"text", run_text, "", TEXT_WORDS, true, false, 12000},
    {"cifar", run_cifar, "tests/reference/data/cifar", NULL, false, false, 10000},
    {"images", run_images, "", IMAGES_WORDS, true, false, 2000},
    {"categories", run_categories, "", JSON_WORDS, false, false, 4000},
    {NULL, NULL, NULL, NULL, false, false, 0},
};
