/* main.c: fuzz [OPTION ...] TARGET: see fuzz --help. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "Usage: fuzz [OPTION ...] TARGET         feeds a part of mgpuc changed inputs; see tests/fuzz/README.md\n"
    "       fuzz --replay TARGET FILE        one input; what it says, and whether that is right\n"
    "       fuzz --list                      the targets\n"
    "\n"
    "  --cases N        so many cases (2000)\n"
    "  --seconds S      as long as this, instead\n"
    "  --seed N         other cases (1)\n"
    "  --limit S        processor time of a case (5)\n"
    "  --failures N     different ones, after which it ends (1)\n"
    "  --root DIR       the project's folder, where the corpus is (.)\n"
    "  --keep DIR       where inputs that fail go (.)\n"
    "  --save DIR       keeps inputs that ran code that none before them ran, to choose some for the corpus\n";

/* ASan's own settings: what is left behind by longjmp is no leak; a huge allocation fails as it would without it */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:detect_stack_use_after_return=0:use_"
           "sigaltstack=0";
}
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "print_stacktrace=1"; }

static const FuzzTarget *find_target(const char *name)
{
    for (const FuzzTarget *t = FUZZ_TARGETS; t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    fprintf(stderr, "fuzz: there is no target '%s'; --list shows them\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    FuzzOptions o = {.seed = 1, .cases = 2000, .limit_s = 5, .failures = 1, .root = ".", .keep = "."};
    const char *names[2] = {NULL, NULL};
    int count = 0;
    bool replay = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(word, "--help") == 0)
            return fputs(HELP, stdout) < 0;
        if (strcmp(word, "--list") == 0) {
            for (const FuzzTarget *t = FUZZ_TARGETS; t->name; t++)
                puts(t->name);
            return 0;
        }
        if (word[0] != '-') {
            if (count < 2)
                names[count++] = word;
            continue;
        }
        if (strcmp(word, "--replay") == 0) {
            replay = true;
            continue;
        }
        i++;
        if (strcmp(word, "--cases") == 0) {
            o.cases = strtoll(next, NULL, 10);
        } else if (strcmp(word, "--seconds") == 0) {
            o.seconds = strtod(next, NULL);
            o.cases = 0;
        } else if (strcmp(word, "--seed") == 0) {
            o.seed = strtoull(next, NULL, 10);
        } else if (strcmp(word, "--limit") == 0) {
            o.limit_s = strtod(next, NULL);
        } else if (strcmp(word, "--failures") == 0) {
            o.failures = (int)strtol(next, NULL, 10);
        } else if (strcmp(word, "--root") == 0) {
            o.root = next;
        } else if (strcmp(word, "--keep") == 0) {
            o.keep = next;
        } else if (strcmp(word, "--save") == 0) {
            o.save = next;
        } else {
            fprintf(stderr, "fuzz: unknown option %s; --help lists them\n", word);
            return 2;
        }
    }
    if (count != (replay ? 2 : 1)) {
        fputs(HELP, stderr);
        return 2;
    }
    o.target = find_target(names[0]);
    return replay ? fuzz_replay(&o, names[1]) : fuzz(&o);
}
