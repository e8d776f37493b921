/* exact.h: the bytes of models with exact = N; see exact.c. */
#ifndef MGPU_FUZZ_EXACT_H
#define MGPU_FUZZ_EXACT_H

#include "tests/fuzz/training.h"

typedef struct ExactCounts {
    long long programs, refused, runs; /* refused: the model does not go with what was drawn, and the compiler says so */
} ExactCounts;

/* expected: what the model's own settings give; NULL: unknown. Returns NULL, or what is wrong. */
const char *check_exact_bits(const char *folder, uint64_t seed, const char *text, const Model *, const Trace *expected,
                             ExactCounts *);
#endif
