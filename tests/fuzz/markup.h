/* markup.h: whether a text is a page of `mgpuc report`, or a picture of `mgpuc plot`, whatever the names are that it shows. */
#ifndef MGPU_FUZZ_MARKUP_H
#define MGPU_FUZZ_MARKUP_H

#include <stddef.h>

/* NULL: it is. Else what is not so, and where, in `problem`. */
const char *markup_problem(const char *text, size_t length, char *problem, size_t room);
#endif
