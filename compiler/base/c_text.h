/* c_text.h: puts text that mgpuc did not write itself into C and CUDA C: names of models, layers and files, with any characters.
 * Nothing else puts such text into a comment, a string or an identifier of compiled code (tests/names.test searches the sources
 * and emitted text for that). */
#ifndef MGPU_C_TEXT_H
#define MGPU_C_TEXT_H

#include "compiler/base/base.h"

/* Returns "/" "* the formatted text *" "/", on one line. */
const char *c_comment(const char *pattern, ...) PRINTF(1, 2);
const char *c_comment_lines(const char *const *lines, int count); /* likewise, for several lines; later ones begin with " * " */

/* A member of a row of a table: its name, and its number or, if there is a text, that. */
typedef struct CMember {
    const char *name;
    int64_t number;
    const char *text;
} CMember;
/* Returns "{.extent = 14, .step = 2}": members whose number is 0 and that have no text are left out, as C makes them 0. */
const char *c_row(const CMember *, int count);
#define C_NUMBER(member, value) ((CMember){.name = member, .number = value})
#define C_TEXT(member, value) ((CMember){.name = member, .text = value})
#define C_ROW(...) c_row((const CMember[]){__VA_ARGS__}, sizeof((const CMember[]){__VA_ARGS__}) / sizeof(CMember))
/* The same for C++17, which has no designators: all members in their order, each after its name as a comment, without zeros at
 * the end. */
const char *c_ordered_row(const CMember *, int count);
#define C_ORDERED_ROW(...) c_ordered_row((const CMember[]){__VA_ARGS__}, sizeof((const CMember[]){__VA_ARGS__}) / sizeof(CMember))
static inline const char *c_true(bool value) { return value ? "true" : NULL; }

/* Returns a string literal in quotes, whose value is the text, byte for byte. */
const char *c_string(const char *text);

/* Returns an identifier that no language or header uses: C_OWN, then the text's first letters and digits; NULL if it has none. */
#define C_OWN "v_"
enum { C_NAME_LENGTH = 40 }; /* the most bytes of the text that an identifier takes */
const char *c_name(const char *text);
const char *c_constant(const char *prefix, const char *word); /* "MGPU_F32" */
/* Returns the text's letters and digits, with _ in place of others, as a suffix of other identifiers. */
const char *c_letters(const char *text, size_t length);
#endif
