/* same.h: what is computed once. */
#ifndef MGPU_SAME_H
#define MGPU_SAME_H

#include "compiler/ir/graph.h"

/* by node: values that are to be computed once, and extrema that are compared with what they are taken of. needed:
 * comparisons that count; NULL: all */
void find_same(const Graph *, const bool *needed, bool *same, bool *extrema);
#endif
