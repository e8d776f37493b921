/* cuda_divisor_test: mgpu_divisor (runtime/abi/mgpu_device.h), with the words that cuda/parameters.c makes, against plain
 * division: small divisors, powers of two and their neighbours, others at random, each with the dividends where a quotient
 * changes, and with the least and largest of 32 bits. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "tests/unit/cuda_module.h"
#pragma GCC diagnostic pop

#include "compiler/target/cuda/cuda.h"

enum { SMALL = 2000, RANDOM = 2000, DIVIDENDS = 40, MOST = SMALL + 3 * 31 + RANDOM };

/* bits: which kinds of dividends are wrong */
static const char KERNEL[] =
    "extern \"C\" __global__ void divide(const uint32_t *words, const uint32_t *dividends, uint32_t *wrong, const mgpu_step *step, int64_t n)\n"
    "{\n"
    "    for (int i = mgpu_grid_thread(); i < n; i += mgpu_grid_threads()) {\n"
    "        const mgpu_parameters<3> given = {{(int)words[3 * i], (int)words[3 * i + 1], (int)words[3 * i + 2]}};\n"
    "        const uint32_t by = words[3 * i];\n"
    "        uint32_t bad = 0;\n"
    "        for (int k = 0; k < 40; k++) {\n"
    "            const uint32_t a = dividends[40 * i + k];\n"
    "            const int b = (int)a;\n"
    "            const int64_t wide = (int64_t)a * b;\n"
    "            bad |= a / given.by(0) != a / by || a % given.by(0) != a % by ? 1 : 0;\n"
    "            bad |= b / given.by(0) != b / (int)by || b % given.by(0) != b % (int)by ? 2 : 0;\n"
    "            bad |= wide / given.by(0) != wide / (int)by || wide % given.by(0) != wide % (int)by ? 4 : 0;\n"
    "        }\n"
    "        wrong[i] = bad;\n"
    "    }\n"
    "}\n"
    "MGPU_ENTRY(divide)\n";

static uint32_t draw(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static int make_divisors(uint32_t *by)
{
    int count = 0;
    for (uint32_t d = 2; d <= SMALL; d++)
        by[count++] = d;
    for (int bit = 1; bit <= 30; bit++)
        for (uint32_t near = 0; near < 3; near++)
            if ((UINT32_C(1) << bit) - 1 + near >= 2)
                by[count++] = (UINT32_C(1) << bit) - 1 + near;
    by[count++] = INT32_MAX;
    by[count++] = INT32_MAX - 1;
    while (count < MOST) {
        uint32_t d = draw() >> 1 >> draw() % 30;
        by[count++] = d < 2 ? 2 : d;
    }
    return count;
}

static void make_dividends(uint32_t d, uint32_t *a)
{
    uint32_t fixed[] = {0,
                        1,
                        d - 1,
                        d,
                        d + 1,
                        INT32_MAX,
                        (uint32_t)INT32_MAX + 1,
                        UINT32_MAX,
                        UINT32_MAX - 1,
                        UINT32_MAX / d * d,
                        UINT32_MAX / d * d - 1,
                        INT32_MAX / d * d,
                        INT32_MAX / d * d - 1,
                        0 - d,
                        1 - d,
                        0 - d - 1};
    int count = COUNT(fixed);
    memcpy(a, fixed, sizeof fixed);
    while (count < DIVIDENDS) {
        uint32_t times = draw() % (UINT32_MAX / d), other = (uint32_t)count % 4;
        a[count++] = other == 3 ? draw() : times * d + other - 1;
    }
}

static const char *check(void *module, int divisors, uint64_t seed)
{
    Guarded words = guarded(divisors * 12), dividends = guarded((int64_t)divisors * DIVIDENDS * 4), wrong = guarded(divisors * 4);
    uint32_t by[MOST];
    make_divisors(by);
    for (int i = 0; i < divisors; i++) {
        cuda_divisor(by[i], (uint32_t *)words.begin + 3 * i);
        make_dividends(by[i], (uint32_t *)dividends.begin + DIVIDENDS * i);
    }
    mgpu_launch l = {.function = "divide", .iterations = divisors, .per_block = 256, .most = 8, .threads = 256};
    const char *why = run_launch(module, &l, (void *[]){words.begin, dividends.begin, wrong.begin}, 3, divisors, 0, seed);
    for (int i = 0; i < divisors && !why; i++) {
        uint32_t bad = ((uint32_t *)wrong.begin)[i];
        if (bad)
            why = format("by %u:%s%s%s", by[i], bad & 1 ? " unsigned" : "", bad & 2 ? " signed" : "", bad & 4 ? " 64 bits" : "");
    }
    return why;
}

int main(void)
{
    const char *folder = getenv("TMPDIR"), *why = NULL;
    uint32_t by[MOST];
    int divisors = make_divisors(by);
    Text text = {0};
    folder = format("%s/cuda_divisor_test_%d", folder && *folder ? folder : "/tmp", (int)getpid());
    text_add(&text, "%s%s", MODULE_HEAD, KERNEL);
    if (system(format("mkdir -p %s", folder)) || !write_text(format("%s/module0.cu", folder), &text))
        die("%s cannot be written", folder);
    why = build_modules(folder, "c");
    void *module = why ? NULL : open_module(folder, 0);
    if (!why && !module)
        why = dlerror();
    if (!why)
        why = check(module, divisors, 0);
    if (why)
        printf("not ok divisors: %s\n", why);
    else
        printf("ok divisors: %d, each with %d dividends\n", divisors, DIVIDENDS);
    if (system(format("rm -r %s", folder)))
        die("%s cannot be removed", folder);
    return why != NULL;
}
