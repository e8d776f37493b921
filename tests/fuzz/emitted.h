/* emitted.h: whether a text is C or CUDA C as mgpuc writes it, whatever the names are that a model has. */
#ifndef MGPU_FUZZ_EMITTED_H
#define MGPU_FUZZ_EMITTED_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: it is. Else what is not so, and where, in `problem`. */
const char *emitted_problem(const char *text, size_t length, char *problem, size_t room);
/* the words that mgpuc writes as names of its own: i, row, tile ...; NULL-terminated */
extern const char *const EMITTED_WORDS[];
#endif
