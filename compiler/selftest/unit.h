/* unit.h: cases that are compiled to programs. */
#ifndef MGPU_SELFTEST_UNIT_H
#define MGPU_SELFTEST_UNIT_H

#include "compiler/link/translation_units.h"
#include "compiler/selftest/cases.h"

typedef struct TestUnit {
    Program program;
    Case *cases;
    int count;
    int variant; /* of matmuls: a number for mgpu_contract_choice */
} TestUnit;
TestUnit *new_test_unit(int variant);
/* separate: also with a kernel for each operation */
void add_test(TestUnit *, const char *name, Graph *, Dtype real, bool separate);

typedef enum Verdict { RIGHT, WRONG, NOT_TESTED } Verdict;
/* Compiles, links and runs the units, at_a_time in parallel. *why: for a wrong one, the case, the kernel and the number; if none
 * could be tested, the reason. `failed`: receives the unit that is wrong, or NULL. */
Verdict run_test_units(const Compiler *, const char *home, const char *folder, TestUnit **, int count, int at_a_time,
                       const char **why, TestUnit **failed);
void unit_text(const TestUnit *, Text *);
#endif
