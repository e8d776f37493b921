/* compiler_bugs.c: list versions of C compilers that compile correct C wrongly, and how emitted C avoids it; `mgpuc -v` prints
 * them. `mgpuc selftest` and tests/compilers.test compare compiled kernels with the interpreter. What they find comes into this
 * table, and as plain C into tests/compilers, which tests/compilers.test compiles with and without the workaround. */
#include "compiler/link/translation_units.h"

#include <stdlib.h>
#include <string.h>

typedef struct Mistake {
    int first[2], last[2];      /* of GCC: major, minor; both ends of the range are affected */
    const char *what, *avoided; /* compiler/link/tools.c passes those that are flags */
} Mistake;
#define NO_VECTORIZER "loops are printed as vectors, and no vectorizer is used"
/* clang-format off */
static const Mistake MISTAKES[] = {
    {{11, 1}, {11, 4}, "GCC PR 110381: in-order sums over permuted pairs add some of them twice", NO_VECTORIZER},
    {{12, 1}, {12, 3}, "GCC PR 110381: in-order sums over permuted pairs add some of them twice", NO_VECTORIZER},
    {{13, 1}, {13, 1}, "GCC PR 110381: in-order sums over permuted pairs add some of them twice", NO_VECTORIZER},
    {{12, 2}, {12, 2}, "simd loops that reduce several values, some of them under conditions, read uninitialised lanes", NO_VECTORIZER},
    /* No plain C reproduces this one, among 2,000 random functions with local arrays. It was seen in matmuls that have changed
     * since. */
    {{12, 2}, {12, 2}, "with AVX-512, arrays in the red zone are not aligned as stores to them assume", "-mno-red-zone"},
    {{12, 2}, {12, 2}, "with AVX-512, multiply-adds under conditions lose the product of some lanes", NO_VECTORIZER},
    {{12, 1}, {12, 5}, "with AVX-512, copies of constant arrays repeat their first elements", "-fno-tree-loop-distribute-patterns"},
};
/* clang-format on */

/* Reads GCC's version number, which follows the last parentheses of the first line: "gcc (Debian 12.2.0-14) 12.2.0". clang prints
 * no parentheses there. */
static bool gcc_version(const char *output, int version[2])
{
    size_t line = strcspn(output, "\n");
    const char *end = memchr(output, ')', line);
    for (const char *next = end; next; next = memchr(next + 1, ')', line - (size_t)(next + 1 - output)))
        end = next;
    if (!end || strncmp(end, ") ", 2) != 0)
        return false;
    char *dot;
    version[0] = (int)strtol(end + 2, &dot, 10);
    version[1] = *dot == '.' ? (int)strtol(dot + 1, NULL, 10) : 0;
    return version[0] > 0;
}

static bool is_between(const int v[2], const int first[2], const int last[2])
{
    int at = v[0] * 1000 + v[1];
    return at >= first[0] * 1000 + first[1] && at <= last[0] * 1000 + last[1];
}

Arguments known_mistakes(const char *output)
{
    int version[2] = {0};
    Arguments all = {0};
    for (int i = 0; gcc_version(output, version) && i < COUNT(MISTAKES); i++)
        if (is_between(version, MISTAKES[i].first, MISTAKES[i].last))
            add_argument(&all,
                         format("GCC %d.%d: %s; avoided: %s", version[0], version[1], MISTAKES[i].what, MISTAKES[i].avoided));
    return all;
}
