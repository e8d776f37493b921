/* ways.h: ways to compile and run a model, drawn at random; see ways.c. */
#ifndef MGPU_FUZZ_WAYS_H
#define MGPU_FUZZ_WAYS_H

#include "tests/fuzz/training.h"

typedef struct WayCounts {
    long long run, refused; /* refused: the model, or this machine, does not go with what was drawn, and the compiler says so */
} WayCounts;

/* the model by some ways, each against what is expected; NULL, or what is wrong. *found: what the last of them says */
const char *check_ways(const char *folder, uint64_t seed, const char *text, const Net *reference, const Trace *expected,
                       Trace *found, WayCounts *);
#endif
