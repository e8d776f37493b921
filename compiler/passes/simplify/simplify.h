/* simplify.h: the stage `simplify`: fold, share, drop; composites become better graphs only in differentiate. */
#ifndef MGPU_SIMPLIFY_H
#define MGPU_SIMPLIFY_H

#include "compiler/ir/graph.h"

Graph *simplify(Graph *);
Graph *simplify_with_arguments(Graph *);  /* of a graph with ARGs */
/* with what a full phase knows */
Graph *simplify_assuming(Graph *, bool all_valid, int64_t samples);
#endif
