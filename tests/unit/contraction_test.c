/* contraction_test: kernels of compiler/kernel/contraction.c against the interpreter.
 *
 * All kernels are printed into one file, which is built and loaded; they run once for every instruction set of the library that
 * this machine has: whole, by ranges of samples, by thread pools. Buffers are exactly as large as promised and the result holds
 * NaN before the call. */
#include <dlfcn.h>
#include <unistd.h>

#include "compiler/kernel/phase.h"
#include "runtime/abi/mgpu.h"
#include "runtime/host/contract.h"
#include "tests/unit/contraction_cases.h"

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif

/* ---- running them */

typedef struct Run { /* of one case */
    const Case *item;
    mgpu_kernel_function *kernel;
    void *memory[4];
    int64_t workspace, count;
    double limit;
    const double *expected;
    double *first;  /* results of the first turn */
    int64_t *place; /* of each element of the result */
} Run;

static void call(Run *run, int64_t begin, int64_t end, int thread, int threads, bool first)
{
    const mgpu_part part = {.samples = run->item->samples,
                            .begin = begin,
                            .end = end,
                            .thread = thread,
                            .threads = threads,
                            .first = first,
                            .stride = run->workspace};
    if (first)
        memset(run->memory[3], 0xff, (size_t)run->workspace);
    run->kernel(run->memory, NULL, &part);
}

static void spoil(Run *run)
{
    for (int64_t i = 0; i < room(run->item, 2); i++)
        store(run->memory[2], run->item->tensor[2]->dtype, i, (double)NAN);
}

static const char *check_element(const Run *run, int64_t i, double value)
{
    Dtype type = run->item->tensor[2]->dtype;
    double rounding = type == BF16 ? fabs(run->expected[i]) / 256 : type == F16 ? fabs(run->expected[i]) / 2048 + 0x1p-25 : 0;
    return fabs(value - run->expected[i]) <= run->limit + rounding
               ? NULL
               : format("element %lld is %.17g, not %.17g", (long long)i, value, run->expected[i]);
}

static double result(const Run *run, int64_t i) { return fetch(run->memory[2], run->item->tensor[2]->dtype, run->place[i]); }

/* nothing is written between samples */
static const char *check_gaps(const Run *run)
{
    const Tensor *tensor = run->item->tensor[2];
    for (int64_t i = 0; i < room(run->item, 2) && tensor->pitch; i++)
        if (i % tensor->pitch >= shape_count(&tensor->shape) && !isnan(fetch(run->memory[2], tensor->dtype, i)))
            return format("place %lld between two samples is written", (long long)i);
    return NULL;
}

/* twice the same call: the same bits */
static const char *run_whole(Run *run)
{
    const char *wrong = NULL;
    for (int turn = 0; turn < 2; turn++) {
        spoil(run);
        call(run, 0, run->item->samples, 0, 1, true);
        for (int64_t i = 0; i < run->count && wrong == NULL; i++) {
            double value = result(run, i);
            wrong = check_element(run, i, value);
            if (wrong == NULL && turn == 1 && value != run->first[i])
                wrong = format("element %lld is %.17g, then %.17g", (long long)i, run->first[i], value);
            run->first[i] = value;
        }
        wrong = wrong ? wrong : check_gaps(run);
    }
    return wrong;
}

/* samples in several calls, the last ones first; no call writes others' elements */
static const char *run_ranges(Run *run)
{
    int64_t samples = run->item->samples, of_sample = run->count / samples, begin, end = samples;
    if (contraction_split(run->item->plan) != MGPU_SPLIT_SAMPLES)
        return NULL;
    spoil(run);
    for (bool first = true; end > 0; end = begin, first = false) {
        begin = end - 1 - draw(end);
        call(run, begin, end, 1, 3, first);
        for (int64_t i = 0; i < run->count; i++) {
            const char *wrong = i < begin * of_sample
                                    ? isnan(result(run, i)) ? NULL : format("element %lld is written", (long long)i)
                                    : check_element(run, i, result(run, i));
            if (wrong != NULL)
                return format("samples %lld to %lld of %lld: %s", (long long)begin, (long long)end, (long long)samples, wrong);
        }
    }
    return NULL;
}

/* every element is written by one worker */
static const char *run_workers(Run *run, int threads)
{
    int64_t written = 0;
    for (int thread = 0; thread < threads; thread++) {
        spoil(run);
        call(run, 0, run->item->samples, thread, threads, true);
        for (int64_t i = 0; i < run->count; i++) {
            double value = result(run, i);
            if (isnan(value))
                continue;
            written++;
            const char *wrong = check_element(run, i, value);
            if (wrong != NULL)
                return format("thread %d of %d: %s", thread, threads, wrong);
        }
    }
    return written == run->count
               ? NULL
               : format("%d workers write %lld elements, not %lld", threads, (long long)written, (long long)run->count);
}

static bool whole; /* MGPU_FULL */

/* NULL: as expected; else what is wrong */
static const char *run_case(const Case *item, mgpu_kernel_function *kernel, bool *shared, const double *expected)
{
    Run run = {.item = item, .kernel = kernel, .count = elements(item, 2), .expected = expected};
    int64_t per_sample = 0;
    run.workspace = contraction_workspace(item->plan, &per_sample) + per_sample * item->samples;
    run.first = NEW_ARRAY(double, run.count);
    run.place = NEW_ARRAY(int64_t, run.count);
    for (int64_t i = 0; i < run.count; i++)
        run.place[i] = place_of(item, 2, i);
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)(room(item, i) * dtype_bytes(item->tensor[i]->dtype));
        run.memory[i] = memset(malloc(bytes + 1), 0xff, bytes); /* NaN */
    }
    run.memory[3] = aligned_alloc(64, (size_t)(run.workspace + 63) / 64 * 64);
    for (int i = 0; i < 2; i++) {
        double *values = NEW_ARRAY(double, elements(item, i));
        fill(values, elements(item, i), i + 1, item->tensor[i]->dtype);
        for (int64_t j = 0; j < elements(item, i); j++)
            store(run.memory[i], item->tensor[i]->dtype, place_of(item, i, j), values[j]);
    }
    double flops, sampled, bytes, byte_samples;
    contraction_cost(item->plan, &flops, &sampled, &bytes, &byte_samples);
    double terms = (flops + sampled * (double)item->samples) / 2 / (double)(run.count > 0 ? run.count : 1);
    run.limit = (item->node->dtype == F64 ? 2e-16 : 1e-7) * (8 + 2 * sqrt(terms));
    *shared = false;
    const char *wrong = run_whole(&run);
    if (wrong == NULL)
        wrong = run_ranges(&run);
    *shared = true;
    static const int threads[] = {1, 2, 16, 5, 3};
    static int turn;
    for (int i = whole ? 0 : turn++ % 2 + 1; i < COUNT(threads) && wrong == NULL; i += whole ? 1 : 2) /* 2 and 5, or 16 and 3 */
        wrong = run_workers(&run, threads[i]);
    for (int i = 0; i < 4; i++)
        free(run.memory[i]);
    return wrong;
}

static void as_programs(const mgpu_contraction *table, void *const *argument, const mgpu_part *part, bool shared)
{
    (shared ? mgpu_contract_shared : mgpu_contract)(table, argument, part);
}

static int failures;

typedef struct Library { /* of kernels: what they call, and themselves */
    mgpu_contract_function **contract;
    bool *shared; /* call it as mgpu_contract_shared */
    mgpu_kernel_function *const *table;
} Library;

static void run_all(const Library *library, const char *name, double **expected)
{
    int wrong_cases = 0;
    for (int i = 0; i < case_count; i++) {
        const char *wrong = run_case(&cases[i], library->table[i], library->shared, expected[i]);
        if (wrong == NULL)
            continue;
        wrong_cases++;
        printf("not ok %s (%s): %s\n", cases[i].name, name, wrong);
    }
    failures += wrong_cases;
    if (wrong_cases == 0)
        printf("ok %d contractions, %s\n", case_count, name);
}

/* all cases as kernels; the contraction that they call is a pointer, so that each of the library's can be put there */
static void print_kernels(Text *text)
{
    text_add(text, "#include \"runtime/abi/mgpu.h\"\n#include \"runtime/host/contract.h\"\n"
                   "extern mgpu_contract_function *contract;\nmgpu_contract_function *contract;\n"
                   "extern bool shared;\nbool shared;\n"
                   "#define mgpu_contract(table, argument, part) contract(table, argument, part, shared)\n"
                   "#define mgpu_contract_shared(table, argument, part) contract(table, argument, part, true)\n");
    for (int i = 0; i < case_count; i++)
        contraction_print(cases[i].plan, format("kernel%d", i), text);
    text_add(text, "extern mgpu_kernel_function *const table[];\nmgpu_kernel_function *const table[] = {");
    for (int i = 0; i < case_count; i++)
        text_add(text, "kernel%d, ", i);
    text_add(text, "};\n");
}

static const char *load(Library *library, const char *folder)
{
    Text text = {0};
    print_kernels(&text);
    FILE *file = fopen(format("%s/kernels.c", folder), "w");
    if (file == NULL || fwrite(text.data, 1, text.length, file) != text.length || fclose(file) != 0)
        return "the kernels cannot be written";
    const char *command = format("cc -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -I%s -fPIC -shared -o %s/kernels.so "
                                 "%s/kernels.c",
                                 MGPU_SOURCE, folder, folder);
    if (system(command) != 0)
        return command;
    void *handle = dlopen(format("%s/kernels.so", folder), RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return dlerror();
    library->contract = (mgpu_contract_function **)dlsym(handle, "contract");
    library->shared = (bool *)dlsym(handle, "shared");
    library->table = (mgpu_kernel_function *const *)dlsym(handle, "table");
    return NULL;
}

/* a NaN and infinities in A's rows stay in their rows of C, bf16 or not */
static void test_nan(void)
{
    enum { M = 40, N = 24, K = 19 };
    static const mgpu_axis axis[] = {{M, K, 0, N, 0, 0}, {N, 0, 1, 1, 0, 0}, {K, 1, N, 0, 0, 0}};
    static uint16_t a[M * K], b[K * N], c[M * N];
    const mgpu_contraction contraction = {.m = 1,
                                          .n = 1,
                                          .k = 1,
                                          .axis = axis,
                                          .type = MGPU_F32,
                                          .half_a = MGPU_HALF_BF16,
                                          .half_b = MGPU_HALF_BF16,
                                          .half_c = MGPU_HALF_BF16,
                                          .copy = MGPU_COPY_BYTES,
                                          .sums = MGPU_SUMS_BYTES,
                                          .packed = MGPU_PACKED_BYTES};
    const mgpu_part part = {.samples = 1, .end = 1, .threads = 1, .first = true};
    void *workspace = aligned_alloc(64, MGPU_COPY_BYTES + MGPU_SUMS_BYTES + MGPU_PACKED_BYTES);
    void *argument[] = {a, b, c, workspace};
    for (int i = 0; i < M * K; i++)
        a[i] = to_bf16(0.5);
    for (int i = 0; i < K * N; i++)
        b[i] = to_bf16(0.25);
    a[3 * K + 7] = 0x7f81; /* a NaN whose last bits alone are set */
    a[5 * K + 2] = 0xffff;
    a[30 * K] = 0x7f80;
    const mgpu_contract_variant *variant;
    for (int i = 0; (variant = mgpu_contract_choice(i)) != NULL; i++) {
        bool right = true;
        variant->run(&contraction, argument, &part, false);
        for (int j = 0; j < M * N; j++) {
            double value = from_bf16(c[j]);
            int row = j / N;
            right = right && (row == 3 || row == 5 ? isnan(value)
                              : row == 30          ? isinf(value)
                                                   : value == from_bf16(to_bf16(K / 8.0)));
        }
        printf("%s NaN and infinities in bf16, %s\n", right ? "ok" : "not ok", variant->name);
        failures += !right;
    }
    free(workspace);
}

int main(void)
{
    char folder[] = "/tmp/contraction_test.XXXXXX";
    if (mkdtemp(folder) == NULL) {
        printf("skip contractions: no folder for kernels\n");
        return 0;
    }
    const char *all = getenv("MGPU_FULL");
    whole = all && *all;
    int some = whole ? 10 : 1;
    for (int i = 0; i < 2; i++) {
        chosen_cases(i == 0 ? F64 : F32);
        drawn_cases(i == 0 ? F64 : F32, 6 * some);
        gaps = true;
        drawn_cases(i == 0 ? F64 : F32, 4 * some);
        gaps = false;
    }
    for (narrow = 1; narrow < 8; narrow++) {
        if (narrow % 4 == 3)
            chosen_cases(F32);
        drawn_cases(F32, 2 * some);
    }
    half = F16;
    narrow = 7;
    chosen_cases(F32);
    for (narrow = 1; narrow < 8; narrow++)
        drawn_cases(F32, some);
    double **expected = NEW_ARRAY(double *, case_count);
    for (int i = 0; i < case_count; i++) {
        Interpretation run = {.samples = cases[i].samples,
                              .leaf = leaf,
                              .context = &cases[i],
                              .values = NEW_ARRAY(double *, cases[i].graph->node_count)};
        interpret(cases[i].graph, &run);
        expected[i] = run.values[cases[i].node->id];
    }
    Library library = {0};
    const char *wrong = load(&library, folder);
    if (wrong != NULL) {
        printf("not ok build of the kernels: %s\n", wrong);
        failures++;
    }
    const mgpu_contract_variant *variant;
    for (int i = 0; wrong == NULL && (variant = mgpu_contract_choice(i)) != NULL; i++) {
        *library.contract = i == 0 ? as_programs : variant->run;
        run_all(&library, variant->name, expected);
    }
    test_nan();
    if (system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
