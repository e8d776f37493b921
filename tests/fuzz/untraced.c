/* untraced.c: programs other than the fuzzers do not note where they have been. A fuzzer's own function goes before this one. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {}
