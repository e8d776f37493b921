/* mutation_test SCHEDULE... [--each N] [--seed S]: the verifier against the oracle.
 *
 * In: files with one or more schedules each. Every schedule must be accepted. Then N mutants of each kind, and as many with the
 * same mistake on all devices, or on the only one (N, or 10 of them, must be found):
 * what the verifier accepts must be equivalent, says the oracle; what it rejects although it is equivalent counts as
 * conservative, and one rejected per kind at least must be truly wrong.
 * Out: a table, and ok or not ok lines.
 *
 * Compiler memory is never freed, so mutants are made and judged in processes of their own, CHUNK at a time. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "tests/mutation/mutation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 50, LEAST = 10, ORDERS = 200, TRIES = 100, MESSAGE = 1000 };

typedef struct Example {
    const char *name;
    Schedule *schedule;
} Example;

typedef struct Tally {
    int mutants, rejected, equivalent, conservative, wrong;
    char message[MESSAGE]; /* of the first wrong one */
} Tally;

/* ---- examples */

static void add_examples(Example **examples, int *count, const char *file)
{
    size_t length;
    const char *text = read_file(file, &length);
    if (!text)
        fail(1, "%s cannot be read", file);
    for (int number = 1; text; number++) { /* one schedule after the other */
        const char *next = strstr(text + 1, "\nmgpu-schedule ");
        const char *own = copy_text(text, next ? (size_t)(next + 1 - text) : strlen(text));
        const char *slash = strrchr(file, '/');
        Example e = {.name = format("%s:%d", slash ? slash + 1 : file, number), .schedule = schedule_read(file, own)};
        APPEND(*examples, *count, e);
        text = next ? next + 1 : NULL;
    }
}

/* accepted, ends, and leaves the same in every order */
static const char *check_example(const Example *e, Random *random)
{
    const char *why = verify(e->schedule);
    for (int p = 0; p < e->schedule->phase_count && !why; p++) {
        int steps[RUN_STEPS];
        uint64_t left;
        choose_run(e->schedule, p, random, steps);
        why = run_once(e->schedule, steps, &left);
        if (!why)
            why = find_difference(e->schedule, steps, left, 10, random);
    }
    return why;
}

/* ---- mutants */

typedef struct Kind {
    Mutation mutation;
    bool everywhere;
} Kind;

/* a run asks for phases by their names: where these are in the mutant; else what is missing */
static const char *find_phases(const Schedule *s, const Schedule *mutant, int steps[RUN_STEPS])
{
    for (int p = 0; p < s->phase_count; p++) {
        int at = 0;
        while (at < mutant->phase_count && strcmp(mutant->phases[at].name, s->phases[p].name) != 0)
            at++;
        if (at == mutant->phase_count)
            return format("there is no phase %s", s->phases[p].name);
    }
    for (int i = 0; i < RUN_STEPS; i++) {
        const char *name = s->phases[steps[i]].name;
        for (steps[i] = 0; strcmp(mutant->phases[steps[i]].name, name) != 0;)
            steps[i]++;
    }
    return NULL;
}

/* false: no change of the kind was found in this example */
static bool judge(const Example *e, Kind kind, Random *random, Tally *t)
{
    const char *what;
    int phase, steps[RUN_STEPS];
    uint64_t left = 0;
    Schedule *mutant = NULL;
    for (int i = 0; i < TRIES && !mutant; i++)
        mutant = mutate(e->schedule, kind.mutation, kind.everywhere, random, &what, &phase);
    if (!mutant)
        return false;
    choose_run(e->schedule, phase, random, steps);
    const char *why = run_once(e->schedule, steps, &left), *rejected = verify(mutant);
    if (why)
        die("%s: %s", e->name, why);
    why = find_phases(e->schedule, mutant, steps);
    if (!why)
        why = find_difference(mutant, steps, left, ORDERS, random);
    t->mutants++;
    t->rejected += rejected != NULL;
    t->equivalent += !rejected && !why;
    t->conservative += rejected && !why;
    if (!rejected && why && !t->wrong++)
        snprintf(t->message, sizeof t->message, "%s: accepted although it is wrong: %s; %s", e->name, what, why);
    return true;
}

static bool supports(const Example *e, Kind kind)
{
    Random random = {1};
    const char *what;
    int phase;
    for (int i = 0; i < TRIES; i++)
        if (mutate(e->schedule, kind.mutation, kind.everywhere, &random, &what, &phase))
            return true;
    return false;
}

/* mutants [first, last) of a kind, in a process of their own; false: it did not survive */
static bool judge_chunk(Example *const *examples, int count, Kind kind, int first, int last, uint64_t seed, Tally *sum)
{
    int ends[2];
    if (pipe(ends) != 0)
        fail(3, "no pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        fail(3, "no process");
    if (child == 0) {
        Tally t = {0};
        for (int i = first; i < last; i++) {
            Random random = {mix(mix(mix(seed, 1), 2 * (uint64_t)kind.mutation + kind.everywhere), (uint64_t)i)};
            for (int k = 0; k < count && !judge(examples[(i + k) % count], kind, &random, &t); k++)
                ;
        }
        _exit(write(ends[1], &t, sizeof t) == (ssize_t)sizeof t ? 0 : 3);
    }
    close(ends[1]);
    Tally t = {0};
    int status;
    bool whole = read(ends[0], &t, sizeof t) == (ssize_t)sizeof t;
    close(ends[0]);
    if (waitpid(child, &status, 0) != child || !whole || status != 0)
        return false;
    if (t.wrong && !sum->wrong)
        memcpy(sum->message, t.message, sizeof t.message);
    sum->mutants += t.mutants;
    sum->rejected += t.rejected;
    sum->equivalent += t.equivalent;
    sum->conservative += t.conservative;
    sum->wrong += t.wrong;
    return true;
}

static bool judge_kind(Example *examples, int example_count, Kind kind, int mutants, uint64_t seed, Tally *sum)
{
    const char *name = format("%s%s", MUTATION_NAME[kind.mutation], kind.everywhere ? "_everywhere" : "");
    Example **able = NEW_ARRAY(Example *, example_count);
    int count = 0, least = mutants < LEAST ? mutants : LEAST; /* what must be found */
    for (int i = 0; i < example_count; i++)
        if (supports(&examples[i], kind))
            able[count++] = &examples[i];
    for (int first = 0; first < mutants && count; first += CHUNK) {
        int last = first + CHUNK < mutants ? first + CHUNK : mutants;
        if (!judge_chunk(able, count, kind, first, last, seed, sum)) {
            printf("not ok %s: the process that judged mutants %d to %d died\n", name, first, last - 1);
            return false;
        }
    }
    printf("# %-26s %8d %8d %10d %12d %5d\n", name, sum->mutants, sum->rejected, sum->equivalent, sum->conservative, sum->wrong);
    if (sum->wrong)
        printf("not ok %s: %d mutants accepted although they are wrong; %s\n", name, sum->wrong, sum->message);
    else if (sum->mutants < least)
        printf("not ok %s: only %d mutants\n", name, sum->mutants);
    else if (sum->rejected == sum->conservative)
        printf("not ok %s: no mutant was truly wrong\n", name);
    else
        printf("ok %s\n", name);
    return !sum->wrong && sum->mutants >= least && sum->rejected > sum->conservative;
}

int main(int argc, char **argv)
{
    Example *examples = NULL;
    int example_count = 0, each = 250;
    uint64_t seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--each") == 0 && i + 1 < argc)
            each = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] == '-')
            fail(2, "usage: mutation_test SCHEDULE... [--each N] [--seed S]");
        else
            add_examples(&examples, &example_count, argv[i]);
    }
    if (!example_count || each < 1)
        fail(2, "usage: mutation_test SCHEDULE... [--each N] [--seed S]");
    bool good = true;
    Random random = {seed};
    for (int i = 0; i < example_count; i++) {
        const char *why = check_example(&examples[i], &random);
        printf(why ? "not ok %s: %s\n" : "ok %s\n", examples[i].name, why);
        good = good && !why;
    }
    if (!good)
        return 1;
    Tally all = {0};
    printf("# kind                        mutants rejected equivalent conservative wrong\n");
    for (int kind = 0; kind < 2 * MUTATIONS; kind++) {
        Tally t = {0};
        Kind k = {(Mutation)(kind / 2), kind % 2};
        good = judge_kind(examples, example_count, k, each, seed, &t) && good;
        all.mutants += t.mutants;
        all.rejected += t.rejected;
        all.equivalent += t.equivalent;
        all.conservative += t.conservative;
        all.wrong += t.wrong;
    }
    printf("%s all: %d mutants: %d rejected (%d of them equivalent) + %d equivalent, %d accepted although they are wrong\n",
           all.wrong || all.mutants < 2 * each * MUTATIONS ? "not ok" : "ok", all.mutants, all.rejected, all.conservative,
           all.equivalent, all.wrong);
    return good && !all.wrong && all.mutants >= 2 * each * MUTATIONS ? 0 : 1;
}
