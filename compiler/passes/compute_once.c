/* compute_once.c: values that must have the same bits wherever they are read.
 *
 * In: a graph. Out: which values must be computed only once, and which extrema are compared with their operand.
 *
 * x == max(x) finds the maxima only if both sides see the same x. A value that two loops compute may differ in its last bit,
 * because C compilers and NVRTC contract a * b + c as they like. So if a comparison (the gradient of a maximum, or the user's
 * own) has an extremum of x on one side and x on the other, x is computed once, stored, and loaded by all readers (fuse/roots.c,
 * fuse/merge.c); and a reverse loop recomputes the extremum (scan_gradient.c). Between x and the comparison are only operations
 * with the same result on all compilers: views, choices, signs, extrema, and everything that is not floating point. */
#include "compiler/ir/rebuild.h"
#include "compiler/passes/compute_once.h"

enum { MOST_VISITED = 256 }; /* limit of the search from an operand of a comparison */

typedef struct Visit {
    const Node *node;
    bool extreme;
} Visit; /* extreme: reached through an extremum */
typedef struct OperandVisits {
    Visit visited[MOST_VISITED];
    int count;
    bool extreme;
} OperandVisits;

static bool is_extremum(const Node *n)
{
    return n->op == OP_MAX || n->op == OP_WINDOW_MAX || n->op == OP_MAXIMUM || n->op == OP_MINIMUM ||
           (n->op == OP_TOP_K && n->ints[2] == 0);
}

static bool is_negation(const Node *n)
{
    double a, b;
    if (n->op == OP_SUB)
        return node_is_constant(n->in[0], &a) && a == 0;
    return n->op == OP_MUL && ((node_is_constant(n->in[0], &a) && a == -1) || (node_is_constant(n->in[1], &b) && b == -1));
}

/* Returns true if all compilers compute the same bits from the same operands. */
static bool is_exact(const Node *n)
{
    bool elementwise = OP_INFO[n->op].op_class == ELEMENTWISE;
    if (n->op == OP_CAST && dtype_is_half(n->dtype)) /* rounded if it is stored, else not */
        return false;
    return OP_INFO[n->op].op_class == VIEW || n->op == OP_GATHER || n->op == OP_STOP_GRADIENT || n->op == OP_WHERE ||
           n->op == OP_ABS || n->op == OP_FLOOR || n->op == OP_CAST || is_extremum(n) || is_negation(n) ||
           (elementwise && !dtype_is_float(n->dtype));
}

static void visit(OperandVisits *s, const Node *n, bool extreme)
{
    for (int i = 0; i < s->count; i++)
        if (s->visited[i].node == n && s->visited[i].extreme == extreme)
            return;
    if (s->count == MOST_VISITED)
        return;
    s->visited[s->count++] = (Visit){n, extreme};
    extreme = extreme || is_extremum(n);
    s->extreme = s->extreme || extreme;
    for (int k = 0; is_exact(n) && k < n->inputs; k++)
        visit(s, n->in[k], extreme);
}

/* Returns true if b depends on an extremum of the node. */
static bool depends_on_extremum(const OperandVisits *b, const Node *n)
{
    for (int i = 0; i < b->count; i++)
        if (b->visited[i].node == n && b->visited[i].extreme)
            return true;
    return false;
}

static void find_of_comparison(const OperandVisits *a, const OperandVisits *b, bool *same, bool *extrema)
{
    bool any = false;
    for (int i = 0; i < a->count; i++) {
        const Node *n = a->visited[i].node;
        if (OP_INFO[n->op].op_class == LEAF || is_exact(n) || !depends_on_extremum(b, n))
            continue;
        same[n->id] = any = true;
    }
    for (int i = 0; any && i < b->count; i++)
        extrema[b->visited[i].node->id] |= is_extremum(b->visited[i].node);
}

void find_computed_once(const Graph *g, const bool *needed, bool *same, bool *extrema)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    OperandVisits *operand = NEW_ARRAY(OperandVisits, 2);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        if ((needed && !needed[i]) || (n->op != OP_EQ && n->op != OP_LT && n->op != OP_LE))
            continue;
        for (int k = 0; k < 2; k++) {
            operand[k].count = 0;
            operand[k].extreme = false;
            visit(&operand[k], n->in[k], false);
        }
        for (int k = 0; k < 2; k++)
            if (operand[1 - k].extreme)
                find_of_comparison(&operand[k], &operand[1 - k], same, extrema);
    }
    memory_use(outer);
    memory_free(own);
}
