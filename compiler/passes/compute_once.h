/* compute_once.h: values that must be computed only once. */
#ifndef MGPU_SAME_H
#define MGPU_SAME_H

#include "compiler/ir/graph.h"

/* Finds, by node, values that must be computed only once, and extrema that are compared with their operand. needed: comparisons
 * that count; NULL: all. */
void find_computed_once(const Graph *, const bool *needed, bool *same, bool *extrema);
#endif
