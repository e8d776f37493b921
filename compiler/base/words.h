/* words.h: how dumps of graphs and schedules write names. */
#ifndef MGPU_WORDS_H
#define MGPU_WORDS_H

#include "compiler/base/base.h"

bool is_bare_word(const char *);            /* one such character at least, and no other */
void write_quoted(const char *, Text *);    /* in quotes; \" \\ and \xHH are characters, the last for each byte that a terminal acts on */
const char *without_controls(const char *); /* a copy with _ for each character that a terminal acts on */
#endif
