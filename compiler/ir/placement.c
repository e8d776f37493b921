/* placement.c: the rule of placements (placement.h). tests/unit/axes_test.c compares it with the interpreter. */
#include "compiler/ir/placement.h"
#include "compiler/ir/axes.h"

#include <string.h>

const MeshRow MESH[MESH_AXES] = {[MESH_DATA] = {"data", true}};

const PlacementWord PLACEMENT_WORD[PLACEMENT_WORDS] = {[WORD_REPLICATED] = {"replicated", {REPLICATED, 0}},
                                                       [WORD_SHARDED] = {"sharded", {SHARDED, SAMPLES_AXIS}},
                                                       [WORD_PARTIAL] = {"partial", {PARTIAL, 0}},
                                                       [WORD_SPLIT] = {"split", {SHARDED, ELEMENTS_AXIS}},
                                                       [WORD_LOCAL] = {"local", {LOCAL, 0}}};

bool placement_is(AxisPlacement a, AxisPlacement b) { return a.kind == b.kind && (a.kind != SHARDED || a.axis == b.axis); }

const char *placement_word(AxisPlacement p)
{
    for (int i = 0; i < PLACEMENT_WORDS; i++)
        if (placement_is(PLACEMENT_WORD[i].is, p))
            return PLACEMENT_WORD[i].word;
    return p.kind == SHARDED ? format("sharded along axis %d", p.axis) : "not placed";
}

bool node_is_sharded(const Node *n, int axis)
{
    for (int m = 0; m < MESH_AXES; m++)
        if (placement_is(n->placement.on[m], (AxisPlacement){SHARDED, axis}))
            return true;
    return false;
}

bool node_is_placed(const Node *n, PlacementKind kind)
{
    for (int m = 0; m < MESH_AXES; m++)
        if (n->placement.on[m].kind == kind)
            return true;
    return false;
}

bool variable_is_placed(const Variable *v, AxisPlacement p) { return placement_is(v->placement.on[MESH_DATA], p); }

/* ---- the rule, on one axis of the mesh */

static AxisPlacement of_leaf(const Node *n, MeshAxis mesh)
{
    if (n->has_samples && MESH[mesh].samples)
        return OVER_SAMPLES;
    AxisPlacement own = n->op == OP_VARIABLE ? n->graph->model->variables[n->ints[0]].placement.on[mesh] : IS_REPLICATED;
    return own.kind == UNPLACED ? IS_REPLICATED : own;
}

static AxisPlacement of_transfer(const Node *n, AxisPlacement from, const char **wrong)
{
    AxisPlacement row = transfer_takes(transfer_of(n->op));
    bool takes = placement_is(from, row) || (row.kind == LOCAL && (from.kind == PARTIAL || from.kind == REPLICATED)) ||
                 (row.kind == PARTIAL && from.kind == LOCAL) || (op_reduces(n->op) && from.kind == REPLICATED);
    if (!takes)
        *wrong = format("'%s' takes a %s value; its input is %s", OP_INFO[n->op].name, placement_word(row), placement_word(from));
    return takes ? transfer_gives(transfer_of(n->op)) : (AxisPlacement){UNPLACED, 0};
}

static const char *needs_whole(const Node *n, AxisPlacement from)
{
    if (from.axis == ELEMENTS_AXIS)
        return format(
            "'%s' of a %s value: only element-wise operations and reshapes keep it; bring it together first, by 'all_gather'",
            OP_INFO[n->op].name, placement_word(from));
    return format("'%s' of a %s value: it needs all of it on every device", OP_INFO[n->op].name, placement_word(from));
}

static const char *two_kinds(const Node *n, AxisPlacement a, AxisPlacement b)
{
    return format("'%s' of a %s value and one that is %s", OP_INFO[n->op].name, placement_word(a), placement_word(b));
}

/* Returns the factor of the axes that operands are sharded along; 0: none, or *wrong. */
static int factor_of(const Node *n, const Factors *f, const AxisPlacement *from, const char **wrong)
{
    int factor = 0, first = -1;
    for (int k = 0; k < n->inputs && !*wrong; k++) {
        if (from[k].kind != SHARDED)
            continue;
        int own = f->operand[k].factor[from[k].axis];
        if (!own)
            *wrong = needs_whole(n, from[k]);
        else if (first >= 0 && factor != own)
            *wrong = two_kinds(n, from[first], from[k]);
        factor = own;
        first = k;
    }
    return *wrong ? 0 : factor;
}

/* An operand is sharded, or the result has samples that no operand has. */
static AxisPlacement of_sharded(const Node *n, Node *const *in, const AxisPlacement *from, bool *reduce, const char **wrong)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Factors f = node_factors(n);
    memory_use(outer);
    int factor = factor_of(n, &f, from, wrong), added;
    if (!factor && !*wrong && !(factor = f.result.factor[SAMPLES_AXIS]))
        die("node %d makes samples of nothing", n->id);
    AxisPlacement is = {*wrong ? UNPLACED : REPLICATED, 0};
    for (int i = 0; i < VALUE_AXES && factor; i++)
        if (f.result.factor[i] == factor)
            is = (AxisPlacement){SHARDED, i};
    added = f.summed[factor] ? f.added : -1;
    for (int k = 0; k < n->inputs; k++)
        reduce[k] = from[k].kind == PARTIAL && k != added;
    if (f.summed[factor] && (added < 0 || from[added].kind == PARTIAL || node_is_zero(in[added])))
        is = IS_PARTIAL;
    memory_free(own);
    return is;
}

/* Every device has all of the operands, or a term of each Partial one. */
static AxisPlacement of_sums(const Node *n, Node *const *in, const AxisPlacement *from, bool *reduce)
{
    for (int k = 0; k < n->inputs; k++)
        reduce[k] = from[k].kind == PARTIAL;
    if (!node_is_linear(n, in, reduce))
        return IS_REPLICATED;
    memset(reduce, 0, (size_t)n->inputs * sizeof *reduce);
    return IS_PARTIAL;
}

AxisPlacement placement_by_rule(const Node *n, MeshAxis mesh, Node *const *in, const AxisPlacement *from, bool *reduce,
                                const char **wrong)
{
    int local = -1, sharded = -1;
    *wrong = NULL;
    for (int k = 0; k < n->inputs; k++) {
        reduce[k] = false;
        local = from[k].kind == LOCAL ? k : local;
        sharded = from[k].kind == SHARDED ? k : sharded;
    }
    if (OP_INFO[n->op].op_class == LEAF)
        return of_leaf(n, mesh);
    if (op_is_transfer(n->op))
        return of_transfer(n, from[0], wrong);
    if (local >= 0 && sharded >= 0) {
        *wrong = two_kinds(n, from[sharded], from[local]);
        return (AxisPlacement){UNPLACED, 0};
    }
    if (local >= 0 || (n->op == OP_OWN && from[0].kind == PARTIAL))
        return IS_LOCAL;
    bool samples = n->has_samples && MESH[mesh].samples;
    return sharded >= 0 || samples ? of_sharded(n, in, from, reduce, wrong) : of_sums(n, in, from, reduce);
}

bool placement_of_own(const Node *n, const AxisPlacement *from)
{
    bool own = (op_is_transfer(n->op) && n->op != OP_REDUCE) || (n->op == OP_OWN && from[0].kind == PARTIAL);
    for (int k = 0; k < n->inputs; k++)
        own = own || from[k].kind == LOCAL || placement_is(from[k], OVER_ELEMENTS);
    return own;
}

/* ---- graphs */

static void place_on(Node *n, MeshAxis mesh)
{
    AxisPlacement *from = NEW_ARRAY(AxisPlacement, n->inputs + 1), *own = &n->placement.on[mesh];
    bool *reduce = NEW_ARRAY(bool, n->inputs + 1);
    const char *wrong;
    for (int k = 0; k < n->inputs; k++)
        from[k] = n->in[k]->placement.on[mesh];
    AxisPlacement is = placement_by_rule(n, mesh, n->in, from, reduce, &wrong);
    for (int k = 0; k < n->inputs && !wrong; k++)
        if (reduce[k])
            die("node %d uses a sum that is still pending", n->id);
    if (!wrong && own->kind != UNPLACED && !placement_is(*own, is))
        wrong = format("'%s' is %s, not %s", OP_INFO[n->op].name, placement_word(is), placement_word(*own));
    if (wrong)
        die("node %d, on '%s': %s", n->id, MESH[mesh].name, wrong);
    *own = is;
}

void graph_place(Graph *g, int first)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    for (int i = first; i < g->node_count; i++)
        for (int mesh = 0; mesh < MESH_AXES; mesh++)
            place_on(g->nodes[i], (MeshAxis)mesh);
    memory_use(outer);
    memory_free(own);
}

void graph_place_again(Graph *g, const Graph *before)
{
    if (g != before && before->node_count && !node_is_placed(before->nodes[0], UNPLACED))
        graph_place(g, 0);
}
