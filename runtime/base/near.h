/* near.h: how far a word is from another, for "did you mean"; for programs and for mgpuc. */
#ifndef MGPU_NEAR_H
#define MGPU_NEAR_H

enum { MGPU_LONGEST_WORD = 64 }; /* of those that are compared */

/* edits that make one of the other (Damerau-Levenshtein, optimal string alignment): characters put in, left out or replaced, and
 * two neighbours swapped, count one each; MGPU_LONGEST_WORD if either word is longer than that */
int mgpu_edit_distance(const char *a, const char *b);
#endif
