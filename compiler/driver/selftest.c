/* selftest.c: `mgpuc selftest`: compares the C compiler's kernels and the runtime library with the interpreter. */
#include "compiler/selftest/selftest.h"
#include "compiler/driver/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "mgpuc selftest [--seconds N] [--seed N] [--keep FILE.c]\n"
    "                        compiles random kernels with the C compiler (CC) and its flags, runs them, and compares what they\n"
    "                        compute with mgpuc's interpreter; tests the runtime library's matmuls, for each instruction set of\n"
    "                        this processor, and its sums over devices. Status 1 where a number is wrong: the case and its\n"
    "                        kernel are printed, and --keep writes the C of its kernels. 60 s; another seed makes other "
    "kernels.\n"
    "                        A short form tests each compiler before its first use (MGPUC_SELFTEST=off: none)";

static double read_number(const char *option, const char *text, double most)
{
    char *end;
    double n = strtod(text ? text : "", &end);
    if (!text || end == text || *end || !(n >= 0 && n <= most))
        fail(2, "mgpuc selftest %s: a number from 0 to %.0f is expected%s%s", option, most, text ? ", not " : "",
             text ? text : "");
    return n;
}

int command_selftest(int argc, char **argv)
{
    SelfTest s = {.seconds = 60, .seed = 1};
    const char *seconds = NULL, *seed = NULL;
    const OwnOption options[] = {
        {"--seconds", .value = &seconds}, {"--seed", .value = &seed}, {"--keep", .value = &s.keep}, {.name = NULL}};
    own_words("selftest", argc, argv, HELP, options, 0);
    s.seconds = seconds ? read_number("--seconds", seconds, 1e6) : s.seconds;
    s.seed = seed ? (uint64_t)read_number("--seed", seed, 1e6) : s.seed;
    const char *cc = getenv("CC");
    return self_test(&s, cc ? cc : "");
}
