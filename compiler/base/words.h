/* words.h: how dumps of graphs and schedules write names. */
#ifndef MGPU_WORDS_H
#define MGPU_WORDS_H

#include "compiler/base/base.h"

bool is_bare_word(const char *);                            /* it needs no quotes (mgpu_is_bare) and is not empty */
void text_put(void *text, const char *bytes, size_t count); /* for a writer of records (runtime/base/records.h) to a Text */
void write_quoted(const char *, Text *);    /* in quotes; escapes \" \\ \xHH, the last for what terminals act on */
const char *without_controls(const char *); /* a copy with _ for characters that terminals act on */
#endif
