/* simplify.h: the stage `simplify`: folds, shares, drops. Composites are only expanded in differentiate. */
#ifndef MGPU_SIMPLIFY_H
#define MGPU_SIMPLIFY_H

#include "compiler/ir/graph.h"

Graph *simplify(Graph *);
Graph *simplify_with_arguments(Graph *); /* for a graph with ARGs */
/* Uses what a full phase knows. */
Graph *simplify_assuming(Graph *, bool all_valid, int64_t samples);
#endif
