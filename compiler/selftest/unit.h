/* unit.h: cases as programs of a C compiler. */
#ifndef MGPU_SELFTEST_UNIT_H
#define MGPU_SELFTEST_UNIT_H

#include "compiler/link/units.h"
#include "compiler/selftest/cases.h"

typedef struct TestUnit {
    Program program;
    Case *cases; int count;
    int variant;            /* of matmuls: a number of mgpu_contract_choice */
} TestUnit;
TestUnit *new_test_unit(int variant);
/* separate: once more with a kernel for each operation */
void add_test(TestUnit *, const char *name, Graph *, Dtype real, bool separate);

typedef enum Verdict { RIGHT, WRONG, NOT_TESTED } Verdict;
/* Compiles, links and runs them, at_a_time at once; *why: where one is wrong the case, the kernel and the number, where none could be tested
 * what was in the way. `failed`: the unit that is wrong, if the caller wants it. */
Verdict run_test_units(const Compiler *, const char *home, const char *folder, TestUnit **, int count, int at_a_time, const char **why, TestUnit **failed);
void unit_text(const TestUnit *, Text *);
#endif
