/* unroll.h: a graph without loops that computes the same. Composites whose bodies have loops keep them: inline them first. */
#ifndef MGPU_FUZZ_UNROLL_H
#define MGPU_FUZZ_UNROLL_H

#include "compiler/ir/graph.h"

Graph *unroll_loops(Graph *);
#endif
