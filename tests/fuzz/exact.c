/* exact.c: a model with exact = N (docs/exact.md), whose bytes must not depend on devices and threads, nor on how it is compiled:
 * --shard, --bucket, --plan, memory that is used again, micro-batches.
 *
 * N, the batch (below N, above it, not a multiple of it), the precision and the ways are drawn. Digests of all that a run saves and
 * of the numbers that it logs are compared, those of predictions likewise. In f64, and with the model's own batch, the numbers are
 * also what the interpreter computes, to 1e-10. */
#include "tests/fuzz/exact.h"

#include "tests/fuzz/compiled.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum { RUNS = 4 }; /* of each program */
static const double TOLERANCE = 1e-10;

static int below(Random *r, int n) { return (int)random_below(r, (size_t)n); }
static bool chance(Random *r, int percent) { return below(r, 100) < percent; }
#define ONE_OF(R, LIST) ((LIST)[below(R, COUNT(LIST))])

/* options that must change no bit */
static const char *options_of(Random *r)
{
    static const char *const OPTIONS[] = {
        "--shard optimizer", "--shard gradients",       "--shard weights",     "--bucket 1",          "--bucket 1000",
        "--no-reuse",        "--plan auto,input=whole", "--plan auto,slots=1", "--plan auto,slots=4", "--plan auto,waited=sync"};
    return chance(r, 70) ? ONE_OF(r, OPTIONS) : "";
}

/* of what the last run saved and logged */
static const char DIGEST[] =
    "{ find -L save -name '*.safetensors' | sort | xargs cat; grep -E '\"event\":\"(step|epoch|eval)\"' log | "
    "sed -E 's/\"(time|seconds|samples_per_s|bound|[a-z_]*_ms)\":[^,}]*//g'; "
    "cat out*.npy 2>/dev/null; } | sha256sum >digest";

static const char *digest_of(const char *folder)
{
    size_t length = 0;
    char *said = read_file(format("%s/digest", folder), &length);
    return said ? format("%.16s", said) : "none";
}

const char *check_exact_bits(const char *folder, uint64_t seed, const char *text, const Model *m, const Trace *expected,
                             ExactCounts *counts)
{
    static const int SHARDS[] = {2, 4, 8, 8, 8, 16, 32};
    static const char *const PRECISIONS[] = {"f32", "f32", "bf16", "f16"};
    const char *mgpuc = getenv("MGPUC"), *why = write_model(folder, text, m), *first = NULL;
    Random r = {seed ^ 0x65786163u};
    int shards = ONE_OF(&r, SHARDS);
    int64_t batch = m->batch, group = m->group > 1 ? m->group : 1;
    bool other = chance(&r, 60), plain = !other;
    const char *precision = other ? ONE_OF(&r, PRECISIONS) : "";
    bool half = other ? strstr(precision, "16") != NULL : m->precision == BF16 || m->precision == F16;
    Text settings = {0};
    text_add(&settings, "--set exact=%d", shards);
    if (other && chance(&r, 60))
        text_add(&settings, " --set batch=%lld", (long long)(batch = 1 + below(&r, 2 * shards + 3)));
    if (other)
        text_add(&settings, " --set precision=%s", precision);
    if (chance(&r, 5))
        text_add(&settings, " --no-fuse");
    for (int program = 0; program < 2 && !why; program++) {
        const char *options = program ? options_of(&r) : "";
        /* as many micro-batches as leave the virtual shards as they are */
        int parts = program && chance(&r, 50) ? 2 << below(&r, 3) : 1;
        parts = parts <= shards && batch % (parts * group) == 0 ? parts : 1;
        int most = shards / parts < 8 ? shards / parts : 8;
        const char *build = format("'%s' '%s' %s --set accumulate=%d %s --devices 1-%d -o program", mgpuc ? mgpuc : "mgpuc",
                                   model_file, text_of(&settings), parts, options, most);
        if (half && (parts > 1 || strstr(options, "--shard"))) /* its kernels may store, and so round, other values */
            first = NULL;
        why = run_command(folder, build);
        bool refused = why && (strstr(why, "ended with 1:") || strstr(why, "ended with 2:"));
        counts->programs++;
        counts->refused += refused;
        if (refused)
            printf("# seed %llu refused: %s\n", (unsigned long long)seed, why);
        if (refused)
            why = NULL;
        else
            for (int run = 0; run < RUNS && !why; run++) {
                int devices = program + run == 0 ? 1 : 1 + below(&r, most),
                    threads = program + run == 0 ? 1 : devices + below(&r, 2 * devices + 3);
                const char *on = format("--devices %d --threads %d", devices, threads);
                Trace found = {0};
                why = run_program(folder, text, format("./program %s %s", training_options(), on),
                                  format("./program predict valid --data . %s", on), &found);
                if (why && !first && strstr(why, "steps were skipped"))
                    return NULL; /* in this precision nothing is finite */
                why = why ? why : run_command(folder, DIGEST);
                if (why)
                    break;
                const char *digest = digest_of(folder);
                int compared = 0;
                counts->runs++;
                if (!first && plain && expected && program == 0)
                    why = trace_compare(expected, &found, TOLERANCE, &compared);
                first = first ? first : digest;
                if (strcmp(digest, first) != 0)
                    why = format("other bytes");
                if (why)
                    why = format("%s; %s: %s", build, on, why);
            }
    }
    if (!why)
        run_command(folder, "rm -rf ./*");
    return why;
}
