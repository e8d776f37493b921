/* placement.h: where values are on the mesh of devices, and the one rule of how operations change that.
 *
 * A value with samples is always sharded along them on `data`. The rest follows from the factors of an operation (axes.h) and
 * from the column `linear` of ops.def, on each axis of the mesh by itself:
 *   an operand is sharded along an axis of a factor
 *     that the result has      the result is sharded along its axis of that factor
 *     that is summed           the result is Partial. What it is added to must be Partial, too, or 0
 *     that a result ignores    the result is Replicated: a region's, which is the same for all samples
 *   along an axis without a factor: the operation needs the operand Replicated
 *   an operand is Partial      so is the result of a linear operation; others need the sum
 *   an operand is Local        so is the result
 *   transfers                  their columns `from` and `to` (mgpu_transfers.h) */
#ifndef MGPU_PLACEMENT_H
#define MGPU_PLACEMENT_H

#include "compiler/ir/graph.h"

/* The axes of the mesh. samples: values that have samples are sharded along them. */
typedef struct MeshRow {
    const char *name;
    bool samples;
} MeshRow;
extern const MeshRow MESH[MESH_AXES];

#define IS_REPLICATED ((AxisPlacement){REPLICATED, 0})
#define IS_PARTIAL ((AxisPlacement){PARTIAL, 0})
#define IS_LOCAL ((AxisPlacement){LOCAL, 0})
#define OVER_SAMPLES ((AxisPlacement){SHARDED, SAMPLES_AXIS})
#define OVER_ELEMENTS ((AxisPlacement){SHARDED, ELEMENTS_AXIS})

/* The placements that dumps have words for. */
typedef struct PlacementWord {
    const char *word;
    AxisPlacement is;
} PlacementWord;
enum { WORD_REPLICATED, WORD_SHARDED, WORD_PARTIAL, WORD_SPLIT, WORD_LOCAL, PLACEMENT_WORDS };
extern const PlacementWord PLACEMENT_WORD[PLACEMENT_WORDS];
const char *placement_word(AxisPlacement);

bool placement_is(AxisPlacement, AxisPlacement);            /* equal */
bool node_is_sharded(const Node *, int axis);               /* along this axis of the value */
bool node_is_placed(const Node *, PlacementKind);           /* on an axis of the mesh */
bool variable_is_placed(const Variable *, AxisPlacement);   /* on data */
bool placement_of_own(const Node *, const AxisPlacement *); /* n is a transfer, or an input is Local, or sharded along elements */

AxisPlacement transfer_takes(int transfer); /* the columns `from` and `to`: transfer.c */
AxisPlacement transfer_gives(int transfer);

/* Returns the placement of n with inputs `in` that are placed as `from`; reduce[k] becomes true for an input that is Partial and
 * that n needs as the sum. UNPLACED, and the reason in *wrong, if an input must be Replicated or the inputs do not fit. */
AxisPlacement placement_by_rule(const Node *n, MeshAxis, Node *const *in, const AxisPlacement *from, bool *reduce,
                                const char **wrong);
/* Places the nodes from number `first` on, by the rule; one that has another placement is an error of the compiler. */
void graph_place(Graph *, int first);
void graph_place_again(Graph *, const Graph *before); /* a graph that was rebuilt from another, if that one is placed */
#endif
