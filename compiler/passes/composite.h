/* composite.h: what differentiate.c needs of the table of composites (composite.c). */
#ifndef MGPU_COMPOSITE_H
#define MGPU_COMPOSITE_H

#include "compiler/passes/gradients.h"

/* Adds the table's forward of `composite` to `target`, as primitives only. inputs: the nodes of target for the composite's
 * inputs; results: set, one per result of the body. Returns false, and adds nothing, if the table has no such layer, or requires
 * its library body: the body is then inlined and differentiated by the ordinary rules. */
bool composite_expand(Graph *target, Node *composite, Node **inputs, Node **results);

/* Computes the gradient of the nodes that composite_expand made. result_gradients[k]: NULL if nothing needs it (a result that
 * only updates use). Sets input_gradients (NULL: none), each with its input's shape and dtype; for an input that is the same for
 * all samples it is already summed over them. Returns false, and adds nothing, if the ordinary rules must differentiate the
 * expansion. */
bool composite_gradient(Sweep *, Node *composite, Node **inputs, Node **results, Node **result_gradients, Node **input_gradients);

/* Replaces every composite by the table's forward, or by its library body. */
Graph *expand_composites(Graph *);
#endif
