/* fuzz.h: what the fuzzers share.
 *
 * A target takes bytes, and must end in one of two ways: it returns, or it exits with status 1 after exactly one error
 * message. All else is a failure: a signal, a sanitizer's report, another status, silence, two messages, too much time
 * or memory. A new target is a function and a row of FUZZ_TARGETS (targets.c), and a folder tests/fuzz/corpus/NAME. */
#ifndef MGPU_FUZZ_H
#define MGPU_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Bytes {
    uint8_t *data;
    size_t length;
} Bytes;

typedef struct FuzzTarget {
    const char *name;
    void (*run)(const uint8_t *data, size_t length); /* data[length] is 0 */
    const char *folders;                             /* of the corpus, apart by blanks, besides tests/fuzz/corpus/NAME */
    const char *const *words;                        /* that mutations use; NULL-terminated; NULL: none */
    bool text;                                       /* mutations know lines and tokens; "\n" ends a line */
    bool located;                                    /* messages begin with FILE:LINE:COLUMN */
    size_t most;                                     /* longer inputs are not tried */
} FuzzTarget;
extern const FuzzTarget FUZZ_TARGETS[];

/* ---- for targets */
_Noreturn void fuzz_wrong(const char *pattern, ...) __attribute__((format(printf, 1, 2))); /* a failure: what is not so */
const char *fuzz_file(const uint8_t *data, size_t length); /* the path of a file that holds these bytes */

const char *fuzz_folder(void); /* the path of a folder that is empty: always the same one */

/* ---- random numbers: splitmix64 */
typedef struct Random {
    uint64_t state;
} Random;
uint64_t random_bits(Random *);
size_t random_below(Random *, size_t n); /* 0 .. n - 1; 0 for 0 */

/* ---- mutate.c: changes a copy of `from`; `other` is spliced in; the result has at most target->most bytes */
Bytes mutate(Random *, const FuzzTarget *, Bytes from, Bytes other);

/* ---- engine.c */
typedef struct FuzzOptions {
    const FuzzTarget *target;
    uint64_t seed;
    int64_t cases;           /* how many; 0: until `seconds` have passed */
    double seconds, limit_s; /* limit_s: processor time of a case */
    int failures;            /* different ones, after which it ends */
    const char *root, *keep; /* root: the project's folder; keep: where failing inputs go */
    const char *save;        /* a folder for inputs that ran code that none before them ran; NULL: forgotten */
} FuzzOptions;
int fuzz(const FuzzOptions *);                          /* 0: no failure */
int fuzz_replay(const FuzzOptions *, const char *path); /* one input; says what happens */
#endif
