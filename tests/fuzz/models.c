/* models.c: random models (grow.c), every one computed in several ways that must agree to 1e-10 in f64.
 *
 *   models [--seeds FROM..TO | --seconds S]      the graphs, by the reference interpreter: losses, updates, metrics of some
 *                                                steps of training and of evaluation, weights after them; and proved
 *                                                schedules for 1, 2, 3 and 7 devices
 *   models --programs DIR ...                    the same, and compiled programs: fused on 1 to 3 devices, some unfused
 *   models --gpus DIR ...                        the same, and compiled programs: on 1 to 3 virtual GPUs, which
 *                                                MGPU_CUDA_LIBRARIES has
 *   models --ways DIR ...                        compiled programs alone, each model in some ways that are drawn (ways.c)
 *   models --exact DIR ...                       compiled programs with exact = N, on 1 to 8 devices: the same bytes (exact.c)
 *   models --slopes ...                          gradients against differences of the loss, on smooth models
 *   models --census                              which operations the random graphs lack
 *   models --print SEED                          the model
 *   models --style network|graph|wide ...        of one of the three styles (grow.c, grow_graph.c, grow_wide.c) only;
 *                  evaluation ...                what tests/export.test compares with other software
 *   models --hostile ...                         with names that C would take for its own (grow_names.c); --gpus: by NVRTC, too
 *   models ... FILE...                           these models instead of random ones
 *
 * The reference is the plainest way: layers by their bodies, loops written out, nothing simplified, one device, all samples
 * at once. The others: as the compiler does it, on 1 device and on several, in micro-batches, with missing samples; and the
 * compiled programs, whose logs and saved weights are read. A step of an epoch has B samples, the last one fewer; data and order
 * are known (--no-shuffle), so the programs draw the same random numbers as the interpreter. */
#include "compiler/kernel/phase.h"
#include "compiler/passes/stages.h"
#include "compiler/verify/proof.h"
#include "tests/fuzz/compiled.h"
#include "tests/fuzz/exact.h"
#include "tests/fuzz/grow.h"
#include "tests/fuzz/ways.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 30, EXIT_BAD = 4, EXIT_SENSITIVE = 5 };
static const double TOLERANCE = 1e-10;

static const Way WAYS[] = {
    {"as compiled, 1 device", false, false, false, 1},
    {"as compiled, 3 devices", false, false, false, 3},
    {"by bodies, 2 devices", true, false, false, 2},
};

/* ---- gradients against differences */
static double loss_at(Machine *m, Graph *g, double *const *at, double *const *direction, double step)
{
    for (int v = 0; v < m->variable_count; v++)
        for (int64_t i = 0; i < shape_count(&m->model->variables[v].shape); i++)
            m->variables[0][v][i] = at[v][i] + step * direction[v][i];
    return machine_run(m, g, false).values[find_result(g, ROLE_REPORT, "loss", 0)][0];
}

static double difference(Machine *m, Graph *g, double *const *at, double *const *direction, double h)
{
    return (loss_at(m, g, at, direction, h) - loss_at(m, g, at, direction, -h)) / (2 * h);
}

static const char *check_slopes(const char *text)
{
    Net n = build(text, &REFERENCE);
    Model *m = n.m;
    Graph *g = differentiate(m->train);
    Trace none = {0};
    Trainer t;
    begin(&t, &n, &none);
    Machine *machine = &t.machine;
    machine->samples = machine->valid[0] = machine->capacity[0] = m->batch;
    machine->step = 1;
    for (int round = 0; round < 3; round++) {
        double **at = NEW_ARRAY(double *, m->variable_count), **direction = NEW_ARRAY(double *, m->variable_count), slope = 0;
        for (int v = 0; v < m->variable_count; v++) {
            int64_t count = shape_count(&m->variables[v].shape);
            at[v] = NEW_ARRAY(double, count);
            direction[v] = NEW_ARRAY(double, count);
            memcpy(at[v], machine->variables[0][v], (size_t)count * sizeof(double));
            for (int64_t i = 0; i < count && m->variables[v].trained; i++)
                direction[v][i] = number_of((uint64_t)round, (uint64_t)v, (uint64_t)i);
        }
        Outcome y = machine_run(machine, g, false);
        for (int i = 0; i < g->result_count; i++)
            for (int64_t k = 0; g->results[i].role == ROLE_GRADIENT && k < shape_count(&g->results[i].value->shape); k++)
                slope += y.values[i][k] * direction[g->results[i].index][k];
        double h = 2e-5, near_by = difference(machine, g, at, direction, h), wide = difference(machine, g, at, direction, 2 * h),
               close = difference(machine, g, at, direction, h / 20);
        loss_at(machine, g, at, direction, 0);
        double found = (4 * near_by - wide) / 3;                         /* Richardson: the error is of the fourth order */
        double bend = fmax(fabs(near_by - wide), fabs(near_by - close)); /* where the loss bends, differences say little */
        if (bend < 1e-4 * (1 + fabs(found)) && !(fabs(found - slope) <= 1e-7 * (1 + fabs(found)) + 0.02 * fabs(near_by - wide)))
            return format("direction %d: the gradient says %.12g, the loss %.12g", round, slope, found);
    }
    return NULL;
}

/* ---- schedules */
int mgpuc_main(int argc, char **argv); /* compiler/driver/main.c */

/* proved for several numbers of devices; what is wrong ends the process, or goes on for ever */
static const char *check_schedules(uint64_t seed, const char *text)
{
    static const char *const VARIANTS[] = {NULL, "--no-fuse", NULL, "--bodies", NULL, "--no-reuse"};
    const char *variant = VARIANTS[seed % COUNT(VARIANTS)];
    int file = memfd_create("grown", 0), null = open("/dev/null", O_WRONLY), said = dup(1);
    if (file < 0 || null < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        return format("no file in memory: %s", strerror(errno));
    const char *words[] = {"mgpuc", "--emit", "verify", "--devices", "1,2,3,7", format("/proc/self/fd/%d", file), variant, NULL};
    fflush(stdout);
    dup2(null, 1);
    int status = mgpuc_main(COUNT(words) - (variant ? 1 : 2), (char **)(uintptr_t)words);
    fflush(stdout);
    dup2(said, 1);
    return status ? format("schedules: status %d", status) : NULL;
}

/* does the reference itself come out elsewhere if its numbers are shaken by less than rounding does in some steps? Then
 * two values were equal but for rounding, or errors grew, and there is nothing to compare. */
static bool is_sensitive(const Net *reference, const Trace *expected)
{
    bool moved = false;
    for (shaken = 1; shaken <= 4 && !moved; shaken++) {
        Trace found = {0};
        int compared;
        run_training(reference, &found);
        moved = trace_compare(expected, &found, TOLERANCE, &compared) != NULL;
    }
    shaken = 0;
    return moved;
}

/* what a model that is not all in f64 is rounded by */
static double rounding_of(const Model *m, const char *text)
{
    double by = m->precision == F64 ? 0 : m->precision == F32 ? 0x1p-23 : m->precision == F16 ? 0x1p-10 : 0x1p-7;
    return strstr(text, "bf16(") ? 0x1p-7 : strstr(text, "f16(") ? fmax(by, 0x1p-10) : by;
}

/* its numbers may be off as far as those of a few runs in which each operation is off by its rounding, many times over */
static void widen(const Net *reference, double rounding, Trace *expected)
{
    enum { RUNS = 5, TIMES = 20 };
    Trace runs[RUNS] = {{0}};
    const Trace *all[RUNS];
    double usual = shaken_by;
    shaken_by = rounding;
    for (shaken = 1; shaken <= RUNS; shaken++) {
        run_training(reference, &runs[shaken - 1]);
        all[shaken - 1] = &runs[shaken - 1];
    }
    shaken = 0;
    shaken_by = usual;
    trace_widen(expected, all, RUNS, TIMES);
}

static const char SENSITIVE[] = "its values hang on rounding";

/* a model in less than f64 that is wide: what the sums of its layers round is a small part of what they are. False: its loss
 * grows, and what was rounded with it. */
static bool bound_by_size(const Net *reference, Trace *expected)
{
    const Model *m = reference->m;
    double first = 0;
    for (int i = 0; i < expected->count; i++)
        if (strcmp(expected->said[i].name, "step 1 loss") == 0)
            first = expected->said[i].value;
        else if (strstr(expected->said[i].name, " loss") && !(fabs(expected->said[i].value) <= 2 * (1 + fabs(first))))
            return false;
    Trace initial = {0};
    first_variables(reference, &initial);
    trace_bound(expected, &initial, m->precision == F32 && !m->tf32 ? 1e-3 : m->precision == BF16 ? 0.08 : 0.02);
    return true;
}

/* ---- compiled programs */
typedef struct Running {
    const char *devices;
    int threads;
    bool predicts;
} Running;
typedef struct Build {
    const char *name, *options;
    Running runs[5];
    const char *optional; /* what is said where it cannot be built */
} Build;
static const Build ON_HOST[] = {
    {"fused", "--devices host:1-3", {{"1", 1, true}, {"1", 2, false}, {"2", 1, false}, {"3", 3, true}}, NULL}, {0}};
static const Build UNFUSED[] = {{"unfused", "--devices host:3 --no-fuse", {{"3", 3, true}}, NULL}, {0}};
static const Build ON_GPUS[] = {
    {"for GPUs", "--devices cuda:1-3 --arch vgpu", {{"cuda:1", 2, true}, {"cuda:2", 2, false}, {"cuda:3", 3, true}}, NULL}, {0}};
static const Build BY_NVRTC[] = {{"by NVRTC", "--devices cuda:1 --arch sm_90", {{0}}, "need NVRTC"}, {0}};

static const char *run_build(const char *folder, const char *text, const Running *r, Trace *found)
{
    const char *on = format("--devices %s --threads %d", r->devices, r->threads);
    return run_program(folder, text, format("./program %s %s", training_options(), on),
                       r->predicts ? format("./program predict valid --data . %s", on) : NULL, found);
}

static const char *check_programs(const char *folder, const Build *builds, const char *text, const Net *reference,
                                  const Trace *expected)
{
    const char *mgpuc = getenv("MGPUC"), *why = write_model(folder, text, elaborated(text));
    for (const Build *build = builds; build->name && !why; build++) {
        why = run_command(folder, format("'%s' '%s' %s -o program", mgpuc ? mgpuc : "mgpuc", model_file, build->options));
        if (why && build->optional && strstr(why, build->optional))
            why = NULL;
        for (const Running *r = build->runs; r->devices && !why; r++) {
            Trace found = {0};
            int compared;
            why = run_build(folder, text, r, &found);
            if (why)
                break;
            why = trace_compare(expected, &found, TOLERANCE, &compared);
            if (why && is_sensitive(reference, expected))
                return SENSITIVE;
            if (!why && compared < 2 * STEPS)
                why = format("only %d numbers to compare", compared);
            if (why)
                why = format("%s on %s, %d threads: %s", build->name, r->devices, r->threads, why);
        }
    }
    if (!why)
        run_command(folder, "rm -rf ./*");
    return why;
}

/* ---- which operations models have */
static void note_operations(const Graph *g, bool *seen)
{
    for (int i = 0; g && i < g->node_count; i++) {
        seen[g->nodes[i]->op] = true;
        note_operations(g->nodes[i]->body, seen);
    }
}

/* every operation of ops.def that a text can reach must be in one of the models; each is elaborated in a process of its own */
static int take_census(uint64_t from, uint64_t to)
{
    bool *seen = mmap(NULL, OPS * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Text missing = {0};
    for (uint64_t seed = from; seed <= to && seen != MAP_FAILED; seed++) {
        pid_t child = fork();
        if (child == 0) {
            int null = open("/dev/null", O_WRONLY); /* warnings */
            dup2(null, 2);
            note_operations(elaborated(grow_model(seed, &(GrowOptions){.style = GROW_GRAPH}))->train, seen);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    for (int op = 0; op < OPS && seen != MAP_FAILED; op++)
        if (OP_INFO[op].signature && !seen[op] && op != OP_GRAD && op != OP_SUBSTITUTE) /* tests/grad.test has these */
            text_add(&missing, " %s", OP_INFO[op].name);
    printf(missing.length || seen == MAP_FAILED ? "not ok models: no random graph of %llu has%s\n"
                                                : "ok models: %llu random graphs have every operation%s\n",
           (unsigned long long)(to - from + 1), text_of(&missing));
    return missing.length != 0;
}

/* ---- one model, in a process of its own */
typedef struct Job {
    bool slopes, hostile;
    const char *programs, *gpus, *ways, *exact, **files; /* files: models, in place of those of seeds 0, 1, ... */
    int file_count, statements;
    GrowStyle style;
    WayCounts *counts; /* of all models, which are in processes of their own */
    ExactCounts *exact_counts;
} Job;

static const char *text_of_model(uint64_t seed, const Job *job)
{
    size_t length;
    bool wide = job->ways && job->style == GROW_ANY && seed % 5 < 2;
    const char *text = job->file_count
                           ? read_file(job->files[seed], &length)
                           : grow_model(seed, &(GrowOptions){job->slopes, job->statements, wide ? GROW_WIDE : job->style});
    if (!text)
        fail(1, "%s cannot be read: %m", job->files[seed]);
    return job->hostile ? grow_hostile(seed, text) : text;
}

static const char *name_of_model(uint64_t seed, const Job *job)
{
    return job->file_count ? job->files[seed] : format("seed %llu", (unsigned long long)seed);
}

/* steps that are left out because a gradient is too large for f16: whether it is may hang on where numbers are rounded */
static bool same_skips(const Trace *a, const Trace *b)
{
    double skips[2] = {0, 0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? b : a)->count; i++) {
            const Said *s = &(k ? b : a)->said[i];
            skips[k] += strncmp(s->name, "step ", 5) == 0 && strstr(s->name, " skipped") ? s->value : 0;
        }
    return skips[0] == skips[1];
}

static const char *check_model(uint64_t seed, const Job *job)
{
    const char *text = text_of_model(seed, job), *why = NULL;
    if (job->slopes)
        return check_slopes(text);
    Trace expected = {0};
    Net reference = build(text, &REFERENCE);
    run_training(&reference, &expected);
    double rounding = rounding_of(reference.m, text);
    bool wide = strstr(text, "grown wide");
    if (rounding > 0 && wide && !bound_by_size(&reference, &expected))
        return SENSITIVE;
    if (rounding > 0 && !wide)
        widen(&reference, rounding, &expected);
    for (int i = 0; i < expected.count && reference.m->on_nan != NAN_SKIP; i++)
        if (!isfinite(expected.said[i].value))
            return SENSITIVE;
    if (job->exact) {
        bool known = reference.m->precision == F64 && reference.m->accumulate <= 1;
        why = check_exact_bits(job->exact, seed, text, reference.m, known ? &expected : NULL, job->exact_counts);
        return why && !strstr(why, "other bytes") && is_sensitive(&reference, &expected) ? SENSITIVE : why;
    }
    if (job->ways) {
        Trace found;
        why = check_ways(job->ways, seed, text, &reference, &expected, &found, job->counts);
        bool others = found.count && reference.m->precision == F16 && !same_skips(&expected, &found);
        return why && (others || is_sensitive(&reference, &expected)) ? SENSITIVE : why;
    }
    for (int i = 0; i < COUNT(WAYS) && !why; i++) {
        Trace found = {0};
        int compared;
        Net n = build(text, &WAYS[i]);
        run_training(&n, &found);
        why = trace_compare(&expected, &found, TOLERANCE, &compared);
        if (why && (is_sensitive(&reference, &expected) || (reference.m->precision == F16 && !same_skips(&expected, &found))))
            return SENSITIVE;
        if (!why && compared != expected.count)
            why = format("%d of %d numbers", compared, expected.count);
        if (why)
            why = format("%s: %s", WAYS[i].name, why);
    }
    if (!why)
        why = check_schedules(seed, text);
    if (!why && job->programs)
        why = check_programs(job->programs, ON_HOST, text, &reference, &expected);
    if (!why && job->programs && seed % 4 == 0)
        why = check_programs(job->programs, UNFUSED, text, &reference, &expected);
    if (!why && job->gpus)
        why = check_programs(job->gpus, ON_GPUS, text, &reference, &expected);
    if (!why && job->gpus && job->hostile)
        why = check_programs(job->gpus, BY_NVRTC, text, &reference, &expected);
    return why;
}

/* *sensitive: models that could not be compared */
static bool good(uint64_t seed, const Job *job, const char *again, uint64_t *sensitive)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {LIMIT_S, LIMIT_S + 1};
        setrlimit(RLIMIT_CPU, &limit);
        dup2(1, 2);
        const char *why = check_model(seed, job);
        if (why == SENSITIVE && !job->file_count)
            _exit(EXIT_SENSITIVE);
        if (why)
            printf("not ok models: %s: %s\n", name_of_model(seed, job), why);
        fflush(stdout);
        _exit(why ? EXIT_BAD : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        status = 1;
    bool left_out = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SENSITIVE;
    *sensitive += left_out;
    if (status == 0 || left_out)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_BAD)
        printf("not ok models: %s: %s %d\n", name_of_model(seed, job), WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (job->file_count)
        printf("# again: %s %s\n", again, job->files[seed]);
    else
        printf("# again: %s --seeds %llu..%llu; the model: --print %llu\n", again, (unsigned long long)seed,
               (unsigned long long)seed, (unsigned long long)seed);
    return false;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    Job job = {.counts = mmap(NULL, sizeof *job.counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    job.exact_counts = mmap(NULL, sizeof *job.exact_counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t from = 1, to = 50, most = 1, bad = 0, sensitive = 0, seed;
    double limit = 0, began = now();
    const char *again = argv[0];
    bool census = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        char *end;
        if (word[0] != '-') {
            APPEND(job.files, job.file_count, word);
            continue;
        }
        if (strcmp(word, "--slopes") == 0) {
            job.slopes = true;
            again = format("%s --slopes", again);
            continue;
        }
        if (strcmp(word, "--hostile") == 0) {
            job.hostile = true;
            model_file = "*?\?/\n\"\\ ;$ grown *.net"; /* in a folder whose name ends with * */
            again = format("%s --hostile", again);
            continue;
        }
        if (strcmp(word, "--census") == 0) {
            census = true;
            continue;
        }
        i++;
        if (strcmp(word, "--print") == 0) {
            fputs(text_of_model(strtoull(next, NULL, 10), &job), stdout);
            return 0;
        }
        if (strcmp(word, "--seeds") == 0) {
            from = strtoull(next, &end, 10);
            to = *end ? strtoull(end + 2, NULL, 10) : from;
        } else if (strcmp(word, "--statements") == 0) {
            job.statements = (int)strtol(next, NULL, 10);
            again = format("%s --statements %s", again, next);
        } else if (strcmp(word, "--style") == 0) {
            job.style = strcmp(next, "graph") == 0        ? GROW_GRAPH
                        : strcmp(next, "wide") == 0       ? GROW_WIDE
                        : strcmp(next, "evaluation") == 0 ? GROW_EVALUATION
                                                          : GROW_NETWORK;
            again = format("%s --style %s", again, next);
        } else if (strcmp(word, "--seconds") == 0) {
            limit = strtod(next, NULL);
        } else if (strcmp(word, "--failures") == 0) {
            most = strtoull(next, NULL, 10);
        } else if (strcmp(word, "--programs") == 0) {
            job.programs = next;
            again = format("%s --programs %s", again, next);
        } else if (strcmp(word, "--ways") == 0) {
            job.ways = next;
            again = format("%s --ways %s", again, next);
        } else if (strcmp(word, "--exact") == 0) {
            job.exact = next;
            again = format("%s --exact %s", again, next);
        } else if (strcmp(word, "--gpus") == 0) {
            job.gpus = next;
            again = format("%s --gpus %s", again, next);
        } else {
            fprintf(
                stderr,
                "usage: models [--slopes] [--census] [--hostile] [--style network|graph|wide|evaluation] [--programs DIR] [--gpus DIR] [--ways DIR] [--exact DIR] [--seeds FROM..TO] [--seconds S] [--statements N] [--failures N] "
                "[--print SEED] [FILE ...]\n");
            return 2;
        }
    }
    if (census)
        return take_census(from, to);
    if (job.file_count)
        from = 0, to = (uint64_t)job.file_count - 1, limit = 0;
    for (seed = from; (limit > 0 ? now() - began < limit : seed <= to) && bad < most; seed++)
        bad += !good(seed, &job, again, &sensitive);
    if (!bad)
        printf("ok models: %llu %smodels%s, %.0f s; %llu left out: their values hang on rounding\n",
               (unsigned long long)(seed - from), job.file_count ? "" : "random ",
               job.exact      ? format(", exact: %lld programs, %lld of them refused, %lld runs", job.exact_counts->programs,
                                       job.exact_counts->refused, job.exact_counts->runs)
               : job.ways     ? format(", compiled: %lld ways, %lld of them refused", job.counts->run, job.counts->refused)
               : job.slopes   ? ", gradients against differences"
               : job.programs ? ", compiled: 1 to 3 devices, against the interpreter"
               : job.gpus     ? ", compiled: 1 to 3 virtual GPUs, against the interpreter"
                              : ", 4 ways to compute each",
               now() - began, (unsigned long long)sensitive);
    return bad != 0;
}
