/* phases.c: one graph, two kinds of steps.
 *
 * In: a distributed graph. Out, partial: samples may be missing, and sums select the valid samples, as in the graph. Out, full:
 * VALID is true, so every selection disappears; RUN_SAMPLES is the batch, unless a step has several micro-batches (their kernels
 * see a part of the step's samples), or might have with the same bits, as in exact models. Sums over samples of a value that is
 * the same for each become multiples. `distribute` runs again after this: a sum that became a multiple needs no reduction. */
#include "compiler/passes/stages.h"

Graph *specialise(Graph *g, bool partial_batch)
{
    const Model *m = g->model;
    /* evaluation uses whole micro-batches: more samples than the batch if groups do not divide it */
    bool known = !partial_batch && m->accumulate <= 1 && !m->exact && m->batch % (m->group > 0 ? m->group : 1) == 0;
    return simplify_assuming(g, !partial_batch, known ? m->batch : 0);
}
