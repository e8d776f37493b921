/* composite.h: what differentiate.c asks of the table of composites (composite.c). */
#ifndef MGPU_COMPOSITE_H
#define MGPU_COMPOSITE_H

#include "compiler/passes/gradients.h"

/* Puts the table's forward of `composite` into `target`, of primitives alone. inputs: the nodes of target that are
 * for the composite's inputs; results: filled, one per result of its body. false, and nothing is added: the table has no
 * such layer, or wants its library body; the body is then inlined and differentiated by the ordinary rules. */
bool composite_expand(Graph *target, Node *composite, Node **inputs, Node **results);

/* The gradient of what composite_expand made. result_gradients[k]: NULL if nothing needs it (a result that is used in
 * updates only). Fills input_gradients (NULL: none), each of its input's shape and dtype; for an input that is the same
 * for all samples it is already summed over them. false, and nothing is added: differentiate the expansion by the
 * ordinary rules. */
bool composite_gradient(Sweep *, Node *composite, Node **inputs, Node **results, Node **result_gradients,
                        Node **input_gradients);

/* every composite by the table's forward, or by its library body */
Graph *expand_composites(Graph *);
#endif
