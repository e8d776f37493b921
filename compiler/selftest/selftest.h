/* selftest.h: test whether a C compiler compiles kernels correctly, for the driver. */
#ifndef MGPU_SELFTEST_H
#define MGPU_SELFTEST_H

#include "compiler/link/link.h"

/* Tests a compiler before its first use, in some seconds; if the test fails, ends mgpuc and names the kernel. */
CompilerTest test_compiler;

typedef struct SelfTest {
    double seconds; /* the approximate duration */
    uint64_t seed;
    const char *keep; /* a file for the C source of the first unit that fails; NULL: none */
} SelfTest;
/* mgpuc selftest: the long form, with the runtime's own matmuls and all-reduces. Returns the exit status. */
int self_test(const SelfTest *, const char *cc);
#endif
