/* selftest.h: does a C compiler make right code of kernels? For the driver. */
#ifndef MGPU_SELFTEST_H
#define MGPU_SELFTEST_H

#include "compiler/link/link.h"

/* The test of a compiler before its first use, of some seconds: ends mgpuc, naming the kernel, if it fails. */
CompilerTest test_compiler;

typedef struct SelfTest {
    double seconds;     /* about so long */
    uint64_t seed;
    const char *keep;   /* the C of the first unit that is wrong goes there; NULL: nowhere */
} SelfTest;
/* mgpuc selftest: the long form, with the runtime's own matmuls and sums; -> the exit status */
int self_test(const SelfTest *, const char *cc);
#endif
