/* spelling.h: edit distances for "did you mean", and patterns of names; used by programs and mgpuc. */
#ifndef MGPU_NEAR_H
#define MGPU_NEAR_H

#include <stddef.h>

enum { MGPU_LONGEST_WORD = 64 }; /* longer words are not compared */

/* Returns the edit distance (Damerau-Levenshtein, optimal string alignment): insertions, deletions, replacements, and swaps of
 * neighbours count one each. Returns MGPU_LONGEST_WORD if a word is longer than that. */
int mgpu_edit_distance(const char *a, const char *b);

/* Returns the nearest name within a third of the word's length, or NULL. A difference in capitals counts one in all. */
const char *mgpu_nearest(const char *word, const char *const *names, int count);

/* Matches a pattern, in which * stands for any characters and ? for one, with a name or an instance that contains it, such as
 * "encoder" of "encoder.dense_1.weight". Returns the number of matched characters, for the outermost match; -1: none. */
int mgpu_pattern_match(const char *pattern, ptrdiff_t length, const char *name);
#endif
