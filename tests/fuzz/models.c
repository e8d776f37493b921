/* models.c: random models (grow.c), every one computed in several ways that must agree to 1e-10 in f64.
 *
 *   models [--seeds FROM..TO | --seconds S]      the graphs, by the reference interpreter: losses, updates, metrics of some
 *                                                steps of training and of evaluation, weights after them; and proved
 *                                                schedules for 1, 2, 3 and 7 devices
 *   models --programs DIR ...                    the same, and compiled programs: fused on 1 and 3 devices, unfused on 3
 *   models --slopes ...                          gradients against differences of the loss, on smooth models
 *   models --print SEED                          the model
 *   models --file FILE                           this model instead of a random one, by the interpreter
 *
 * The reference is the plainest way: layers by their bodies, nothing simplified, one device, all samples at once. The
 * others: as the compiler does it, on 1 device and on several, in micro-batches, with missing samples; and the compiled
 * programs, whose logs and saved weights are read. A step of an epoch has B samples, the last one fewer; data and order
 * are known (--no-shuffle), so the programs draw the same random numbers as the interpreter. */
#include "tests/fuzz/grow.h"
#include "tests/fuzz/trace.h"

#include "dsl/dsl.h"
#include "tests/unit/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 4, SEED = 11, LIMIT_S = 30 };
static const double TOLERANCE = 1e-10;

/* ---- data: a function of input, sample and element; samples of valid lie behind those of train */
static int64_t first_of_set;
enum { VALID = 1000 };

static double data_value(const Model *m, int input, int64_t sample, int64_t element)
{
    const Input *in = &m->inputs[input];
    uint64_t key[3] = {(uint64_t)input, (uint64_t)(first_of_set + sample), (uint64_t)element};
    uint64_t h = hash_bytes(3, key, sizeof key);
    if (in->classes)
        return in->ignore >= 0 && h % 5 == 0 ? (double)in->ignore : (double)(h / 8 % (uint64_t)in->classes);
    return in->dtype == U8 ? (double)(h % 256) : ((double)(h % 4097) - 2048) / 1024;
}

/* ---- the graphs of a model, one way or the other */
typedef struct Way {
    const char *name;
    bool bodies, raw, whole; /* raw: never simplified; whole: no micro-batches */
    int devices;
} Way;
static const Way REFERENCE = {"the reference", true, true, true, 1};
static const Way WAYS[] = {
    {"as compiled, 1 device", false, false, false, 1},
    {"as compiled, 3 devices", false, false, false, 3},
    {"by bodies, 2 devices", true, false, false, 2},
};

typedef struct Net {
    Model *m;
    Plan plan;
    Graph *init, *train[2], *eval[2], *accumulate[2], *prologue[2], *report_train, *report_eval, *plain; /* [ragged] */
} Net;

static Model *elaborated(const char *text)
{
    Source *s = NEW(Source);
    *s = (Source){.file = "grown.net", .text = text, .length = strlen(text)};
    Settings none = {0};
    Model *m = elaborate(parse(s), &none);
    if (m->not_yet)
        die("the model has what is not yet compiled");
    return m;
}

static Graph *simplified(const Way *w, Graph *g)
{
    return g && !w->raw ? simplify(g) : g;
}

static Graph *prepared(const Way *w, Graph *g)
{
    return simplified(w, w->bodies ? inline_bodies(g) : g);
}

static void variants(Graph *g, bool samples, Graph **out)
{
    g = g ? choose_precision(g) : NULL;
    for (int r = 0; g && r < (samples ? 2 : 1); r++)
        out[r] = distribute(specialise(g, r));
}

static Net build(const char *text, const Way *w)
{
    Net n = {.m = elaborated(text), .plan = {.devices = w->devices, .kind = "host"}};
    Model *m = n.m;
    if (w->whole)
        m->accumulate = 1;
    n.init = prepared(w, m->init);
    n.plain = prepared(w, m->eval);
    Graph *train = simplified(w, differentiate(prepared(w, m->train))), *eval = prepared(w, m->eval);
    Graph *accumulate = NULL, *prologue = NULL;
    make_reports(m, &train, &eval, &n.report_train, &n.report_eval);
    train = update(train);
    Graph **all[] = {&train, &eval, &n.report_train, &n.report_eval};
    for (int i = 0; i < COUNT(all); i++)
        *all[i] = distribute(simplified(w, *all[i]));
    if (m->accumulate > 1)
        split_micro_batches(m, train, &train, &accumulate, &prologue);
    Program p = {.model = m};
    split(&p, &n.plan);
    if (w->raw) {
        n.train[0] = n.train[1] = train;
        n.eval[0] = n.eval[1] = eval;
        return n;
    }
    Graph *every[] = {train, eval, accumulate, prologue, n.report_train, n.report_eval, n.init}, **typed = NULL;
    int count = 0;
    for (int i = 0; i < COUNT(every); i++)
        if (every[i])
            APPEND(typed, count, i == COUNT(every) - 1 ? distribute(every[i]) : every[i]);
    find_rounded_variables(m, typed, count);
    choose_layout(m, typed, count);
    variants(train, true, n.train);
    variants(eval, true, n.eval);
    variants(accumulate, true, n.accumulate);
    variants(prologue, true, n.prologue);
    variants(n.report_train, false, &n.report_train);
    variants(n.report_eval, false, &n.report_eval);
    return n;
}

/* ---- running: what runtime/loop.c and steps.c do */
typedef struct Trainer {
    const Net *net;
    Machine machine;
    double run[RUN_SCALARS];
    Trace *trace;
} Trainer;

static void begin(Trainer *t, const Net *n, Trace *trace)
{
    const Model *m = n->m;
    *t = (Trainer){.net = n, .trace = trace};
    t->machine = machine_of(m, 1, 1);
    t->machine.input = data_value;
    t->machine.run = t->run;
    t->machine.devices = n->plan.devices;
    set_variables(&t->machine);
    t->machine.step = 0;
    for (int d = 0; d < n->plan.devices; d++)
        t->machine.capacity[d] = 1;
    Outcome y = machine_run(&t->machine, n->init, false);
    for (int d = 0; d < n->plan.devices; d++)
        for (int i = 0; i < n->init->result_count; i++) {
            const Result *r = &n->init->results[i];
            if (r->role == ROLE_INIT)
                t->machine.variables[d][r->index] = y.values[d * n->init->result_count + i];
        }
}

/* samples [place, place + samples) of the set, of which a micro-batch is run */
static Outcome run_part(Trainer *t, Graph *const *graphs, int64_t place, int64_t samples, int64_t micro)
{
    Machine *m = &t->machine;
    int64_t start = micro * t->net->plan.micro, left = samples - start,
            count = left < 0                    ? 0
                    : left < t->net->plan.micro ? left
                                                : t->net->plan.micro;
    bool ragged = t->net->plan.always_ragged;
    for (int d = 0; d < m->devices; d++) {
        const Shard *s = &t->net->plan.shards[d];
        int64_t alive = count - s->first;
        m->first[d] = place + start + s->first;
        m->alive[d] = alive < 0 ? 0 : alive < s->share ? alive : s->share;
        m->capacity[d] = s->capacity;
        ragged = ragged || m->alive[d] < s->capacity;
        if (graphs == t->net->train && graphs[0] == graphs[1]) /* the reference has no missing samples */
            m->capacity[d] = m->alive[d];
    }
    m->samples = samples;
    m->micro = micro;
    return machine_run(m, graphs[ragged], true);
}

static void report(const Trainer *t, const Graph *g, Outcome y, const char *what, int64_t number)
{
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == ROLE_REPORT)
            trace_add(t->trace, y.values[i][0], "%s %lld %s", what, (long long)number, g->results[i].name);
}

static void run_step(Trainer *t, int64_t place, int64_t samples)
{
    const Net *n = t->net;
    int64_t last = n->m->accumulate - 1;
    for (int64_t k = 0; n->prologue[0] && k <= last; k++)
        run_part(t, n->prologue, place, samples, k);
    for (int64_t k = 0; k < last; k++)
        run_part(t, n->accumulate, place, samples, k);
    Outcome y = run_part(t, n->train, place, samples, last);
    report(t, n->train[0], y, "step", t->machine.step);
}

static void run_report(Trainer *t, Graph *g, const char *what, int64_t epoch)
{
    report(t, g, machine_run(&t->machine, g, true), what, epoch);
}

static int64_t train_samples(const Model *m)
{
    return 2 * m->batch + (m->batch + 1) / 2;
}
static int64_t valid_samples(const Model *m)
{
    return m->batch + 1;
}

static void run_outputs(Trainer *t)
{
    Machine m = t->machine;
    int64_t samples = m.samples = m.alive[0] = m.capacity[0] = valid_samples(m.model);
    m.devices = 1;
    m.first[0] = 0;
    first_of_set = VALID;
    Outcome y = machine_run(&m, t->net->plain, false);
    first_of_set = 0;
    for (int i = 0; i < t->net->plain->result_count; i++) {
        const Result *r = &t->net->plain->results[i];
        int64_t count = shape_count(&r->value->shape) * (r->value->sharded ? samples : 1);
        for (int64_t k = 0; r->role == ROLE_OUTPUT && k < count; k++)
            trace_add(t->trace, y.values[i][k], "output %s %lld", r->name, (long long)k);
    }
}

static void run_training(const Net *n, Trace *trace)
{
    Trainer trainer, *t = &trainer;
    const Model *m = n->m;
    begin(t, n, trace);
    int64_t total = train_samples(m), per_epoch = (total + m->batch - 1) / m->batch, place = 0, epoch = 0;
    for (int64_t applied = 0; applied < STEPS; applied++) {
        t->machine.step = applied + 1;
        t->run[RUN_EPOCH] = (double)applied / (double)per_epoch;
        t->run[RUN_PROGRESS] = (double)applied / STEPS;
        t->run[RUN_TOTAL_STEPS] = STEPS;
        t->run[RUN_TOTAL_EPOCHS] = STEPS / (double)per_epoch;
        int64_t samples = total - place < m->batch ? total - place : m->batch;
        run_step(t, place, samples);
        place += samples;
        if (place < total && applied + 1 < STEPS)
            continue;
        t->machine.step = applied + 2;
        run_report(t, n->report_train, "train", epoch);
        first_of_set = VALID;
        for (int64_t at = 0; at < valid_samples(m); at += n->plan.micro)
            run_part(t, n->eval, at, valid_samples(m) - at < n->plan.micro ? valid_samples(m) - at : n->plan.micro, 0);
        first_of_set = 0;
        run_report(t, n->report_eval, "eval", epoch++);
        place = 0;
    }
    for (int v = 0; v < m->variable_count; v++) {
        const Variable *x = &m->variables[v];
        for (int64_t i = 0; (x->kind == WEIGHT || x->kind == STATE) && i < shape_count(&x->shape); i++)
            trace_add(trace, t->machine.variables[0][v][i], "weight %s %lld", x->name, (long long)i);
    }
    run_outputs(t);
}

/* ---- gradients against differences */
static double loss_at(Machine *m, Graph *g, double *const *at, double *const *direction, double step)
{
    for (int v = 0; v < m->variable_count; v++)
        for (int64_t i = 0; i < shape_count(&m->model->variables[v].shape); i++)
            m->variables[0][v][i] = at[v][i] + step * direction[v][i];
    return machine_run(m, g, false).values[find_result(g, ROLE_REPORT, "loss", 0)][0];
}

static const char *check_slopes(const char *text)
{
    Model *m = elaborated(text);
    m->accumulate = 1;
    Graph *g = differentiate(m->train);
    Net n = {.m = m, .plan = {.devices = 1}, .init = prepared(&REFERENCE, m->init)};
    Trace none = {0};
    Trainer t;
    begin(&t, &n, &none);
    Machine *machine = &t.machine;
    machine->samples = machine->alive[0] = machine->capacity[0] = m->batch;
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
        double h = 1e-4, near_by = (loss_at(machine, g, at, direction, h) - loss_at(machine, g, at, direction, -h)) / (2 * h);
        double wide = (loss_at(machine, g, at, direction, 2 * h) - loss_at(machine, g, at, direction, -2 * h)) / (4 * h);
        loss_at(machine, g, at, direction, 0);
        double found = (4 * near_by - wide) / 3; /* Richardson: the error is of the fourth order */
        if (fabs(near_by - wide) < 1e-4 * (1 + fabs(found)) &&
            !(fabs(found - slope) <= 1e-7 * (1 + fabs(found)) + 0.02 * fabs(near_by - wide)))
            return format("direction %d: the gradient says %.12g, the loss %.12g", round, slope, found);
    }
    return NULL;
}

/* ---- schedules */
int mgpuc_main(int argc, char **argv); /* compiler/main.c */

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

/* ---- compiled programs */
typedef struct FileData {
    const Model *m;
    int input;
} FileData;

static double file_value(void *context, long long sample, long long element)
{
    const FileData *d = context;
    return data_value(d->m, d->input, sample, element);
}

static const char *write_model(const char *folder, const char *text, const Model *m)
{
    Text t = {0};
    text_add(&t, "%s\ndata {\n", text);
    mkdir(folder, 0777);
    for (int set = 0; set < 2; set++) {
        const char *name = set ? "valid" : "train";
        text_add(&t, "    %s = idx(", name);
        for (int i = 0; i < m->input_count; i++) {
            const Input *in = &m->inputs[i];
            long long extents[MAX_RANK];
            for (int k = 0; k < in->shape.rank; k++)
                extents[k] = in->shape.extent[k];
            SampleFile file = {in->name, in->classes || in->dtype == U8, in->shape.rank, extents,
                               set ? valid_samples(m) : train_samples(m)};
            FileData data = {m, i};
            first_of_set = set ? VALID : 0;
            if (!write_samples(format("%s/%s-%s.idx", folder, name, in->name), &file, file_value, &data))
                return format("%s: %s", folder, strerror(errno));
            text_add(&t, "%s%s = \"%s-%s.idx\"", i ? ", " : "", in->name, name, in->name);
        }
        text_add(&t, ")\n");
    }
    first_of_set = 0;
    text_add(&t, "}\n");
    FILE *f = fopen(format("%s/grown.net", folder), "w");
    if (!f || fputs(text_of(&t), f) < 0 || fclose(f) != 0)
        return format("%s: %s", folder, strerror(errno));
    return NULL;
}

static const char *run_command(const char *folder, const char *command)
{
    const char *whole = format("cd '%s' && { %s; } >said 2>&1 </dev/null", folder, command);
    int status = system(whole);
    if (status == 0)
        return NULL;
    size_t length = 0;
    char *said = read_file(format("%s/said", folder), &length);
    return format("`%s` ended with %d: %.600s", command, WIFEXITED(status) ? WEXITSTATUS(status) : -1, said ? said : "");
}

static const char *check_programs(const char *folder, const char *text, const Trace *expected)
{
    static const struct Build {
        const char *name, *options, *devices[3];
    } BUILDS[] = {{"fused", "--devices 1,3", {"1", "3", NULL}}, {"unfused", "--devices 3 --no-fuse", {"3", NULL}}};
    const char *mgpuc = getenv("MGPUC"), *why = write_model(folder, text, elaborated(text));
    for (int b = 0; b < COUNT(BUILDS) && !why; b++) {
        const struct Build *build = &BUILDS[b];
        why = run_command(folder, format("'%s' grown.net %s -o %s", mgpuc ? mgpuc : "mgpuc", build->options, build->name));
        for (int d = 0; build->devices[d] && !why; d++) {
            Trace found = {0};
            int compared;
            why = run_command(folder,
                              format("rm -rf log save; ./%s --data . --devices %s --threads 3 --steps %d --seed %d --no-shuffle "
                                     "--log log --save save",
                                     build->name, build->devices[d], STEPS, SEED));
            if (why)
                break;
            read_log(&found, format("%s/log", folder));
            read_weights(&found, format("%s/save/weights.safetensors", folder));
            why = trace_compare(expected, &found, TOLERANCE, &compared);
            if (!why && compared < 2 * STEPS)
                why = format("only %d numbers to compare", compared);
            if (why)
                why = format("%s on %s: %s", build->name, build->devices[d], why);
        }
    }
    if (!why)
        run_command(folder, "rm -rf ./*");
    return why;
}

/* ---- one model, in a process of its own */
typedef struct Job {
    bool slopes;
    const char *programs, *file;
    int statements;
} Job;

static const char *text_of_model(uint64_t seed, const Job *job)
{
    if (!job->file)
        return grow_model(seed, &(GrowOptions){job->slopes, job->statements});
    size_t length;
    const char *text = read_file(job->file, &length);
    if (!text)
        fail(1, "%s cannot be read: %m", job->file);
    return text;
}

static const char *check_model(uint64_t seed, const Job *job)
{
    const char *text = text_of_model(seed, job), *why = NULL;
    if (job->slopes)
        return check_slopes(text);
    Trace expected = {0};
    Net reference = build(text, &REFERENCE);
    run_training(&reference, &expected);
    for (int i = 0; i < expected.count; i++)
        if (!isfinite(expected.said[i].value))
            return NULL; /* nothing to compare */
    for (int i = 0; i < COUNT(WAYS) && !why; i++) {
        Trace found = {0};
        int compared;
        Net n = build(text, &WAYS[i]);
        run_training(&n, &found);
        why = trace_compare(&expected, &found, TOLERANCE, &compared);
        if (!why && compared != expected.count)
            why = format("%d of %d numbers", compared, expected.count);
        if (why)
            why = format("%s: %s", WAYS[i].name, why);
    }
    if (!why)
        why = check_schedules(seed, text);
    return why || !job->programs ? why : check_programs(job->programs, text, &expected);
}

static bool good(uint64_t seed, const Job *job, const char *again)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {LIMIT_S, LIMIT_S + 1};
        setrlimit(RLIMIT_CPU, &limit);
        dup2(1, 2);
        const char *why = check_model(seed, job);
        if (why)
            printf("not ok models: seed %llu: %s\n", (unsigned long long)seed, why);
        fflush(stdout);
        _exit(why ? 4 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        status = 1;
    if (status == 0)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 4)
        printf("not ok models: seed %llu: %s %d\n", (unsigned long long)seed, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    printf("# again: %s --seeds %llu..%llu; the model: --print %llu\n", again, (unsigned long long)seed, (unsigned long long)seed,
           (unsigned long long)seed);
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
    Job job = {0};
    uint64_t from = 1, to = 50, most = 1, bad = 0, seed;
    double limit = 0, began = now();
    const char *again = argv[0];
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        char *end;
        if (strcmp(word, "--slopes") == 0) {
            job.slopes = true;
            again = format("%s --slopes", again);
            continue;
        }
        i++;
        if (strcmp(word, "--print") == 0) {
            fputs(grow_model(strtoull(next, NULL, 10), &(GrowOptions){job.slopes, job.statements}), stdout);
            return 0;
        }
        if (strcmp(word, "--seeds") == 0) {
            from = strtoull(next, &end, 10);
            to = *end ? strtoull(end + 2, NULL, 10) : from;
        } else if (strcmp(word, "--file") == 0) {
            job.file = next;
            from = to = 0;
        } else if (strcmp(word, "--statements") == 0) {
            job.statements = (int)strtol(next, NULL, 10);
            again = format("%s --statements %s", again, next);
        } else if (strcmp(word, "--seconds") == 0) {
            limit = strtod(next, NULL);
        } else if (strcmp(word, "--failures") == 0) {
            most = strtoull(next, NULL, 10);
        } else if (strcmp(word, "--programs") == 0) {
            job.programs = next;
            again = format("%s --programs %s", again, next);
        } else {
            fprintf(stderr,
                    "usage: models [--slopes] [--programs DIR] [--seeds FROM..TO] [--seconds S] [--statements N] [--failures N] "
                    "[--print SEED]\n");
            return 2;
        }
    }
    for (seed = from; (limit > 0 ? now() - began < limit : seed <= to) && bad < most; seed++)
        bad += !good(seed, &job, again);
    if (!bad)
        printf("ok models: %llu random models%s, %.0f s\n", (unsigned long long)(seed - from),
               job.slopes     ? ", gradients against differences"
               : job.programs ? ", compiled: fused, unfused, 1 and 3 devices, against the interpreter"
                              : ", 4 ways to compute each",
               now() - began);
    return bad != 0;
}
