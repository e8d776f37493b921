/* c_text.h: how text that mgpuc did not write itself gets into C and CUDA C: names of models, layers and files, whatever
 * characters they have. Nothing else puts such text into a comment, a string or an identifier of what is compiled
 * (tests/names.test looks for it in the sources and in emitted text). */
#ifndef MGPU_C_TEXT_H
#define MGPU_C_TEXT_H

#include "compiler/base/base.h"

/* "/" "* what the pattern says *" "/", on one line */
const char *c_comment(const char *pattern, ...) PRINTF(1, 2);
const char *c_comment_lines(const char *const *lines, int count); /* likewise, of several; the later ones begin with " * " */

/* a string literal, in its quotes; its value is the text, byte for byte */
const char *c_string(const char *text);

/* an identifier that no language and no header knows: C_OWN, then the text's first letters and digits; NULL: it has none */
#define C_OWN "v_"
const char *c_name(const char *text);
/* letters and digits of the text, with _ in place of all else: what other identifiers may end with */
const char *c_letters(const char *text, size_t length);
#endif
