/* sums.h: test all-reduces. */
#ifndef MGPU_SELFTEST_SUMS_H
#define MGPU_SELFTEST_SUMS_H
const char *test_sums(void); /* what is wrong with the runtime's, or NULL */
#endif
