/* near.h: how far a word is from another, for "did you mean", and which names a pattern reaches; for programs and for mgpuc. */
#ifndef MGPU_NEAR_H
#define MGPU_NEAR_H

#include <stddef.h>

enum { MGPU_LONGEST_WORD = 64 }; /* of those that are compared */

/* edits that make one of the other (Damerau-Levenshtein, optimal string alignment): characters put in, left out or replaced, and
 * two neighbours swapped, count one each; MGPU_LONGEST_WORD if either word is longer than that */
int mgpu_edit_distance(const char *a, const char *b);

/* the nearest of the names within a third of the word's length; capitals together count as one edit. NULL: none is near */
const char *mgpu_nearest(const char *word, const char *const *names, int count);

/* A pattern has * for any characters and ? for one. -> the characters of the name, or of the outermost instance above it, "encoder" of
 * "encoder.dense_1.weight", that it matches; -1: none */
int mgpu_pattern_reaches(const char *pattern, ptrdiff_t length, const char *name);
#endif
