/* nest.c: the loops of a nest.
 *
 * In: reductions and stores over axes in the order of the nodes' shapes. Out: the same values over axes that make good loops:
 *   split   an axis that is only used as a / k and a mod k becomes two, so that loops count and do not divide
 *   forward a reduction axis along which most loads go backwards in memory is reversed
 *   sort    axes get the order of memory, first that of what is written
 *   join    two neighbouring axes that every index uses as a * extent + b become one, so that inner loops are long
 *   order   the axis along which most tensors are contiguous becomes the innermost
 *   tile    the innermost axis is cut, if another tensor is transposed to it
 * Each step rewrites the expressions into a new set over the new axes. */
#include "compiler/kernel/target.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST_RANDOM = 64,  /* least random numbers of one array, if a long row is cut */
    LARGE_ELEMENTS = 4096, /* of a tensor that is worth a tile if it is read transposed: 16 KiB, half of an L1 cache */
    MOST_LANES = 512,      /* of small axes that are joined to one axis that is long enough for vectors */
    LONG_SUM = 1024,       /* longer sums of f32 are accumulated in double, for precision */
    LONG_COLUMN = 128      /* the same for columns, whose terms are added one after the other, not as partial sums of lanes */
};

static bool live(const Axis *a) { return a->samples || a->extent != 1 || a->kind != AXIS_PLAIN; }

static void want(bool *wanted, const Exprs *x, const Expr *e)
{
    if (!e)
        return;
    if (e->id >= x->count || x->all[e->id] != e)
        die("an expression is not in its nest's list");
    wanted[e->id] = true;
}

bool *nest_needed(const Nest *nest)
{
    const Exprs *x = nest->exprs;
    bool *wanted = NEW_ARRAY(bool, x->count);
    for (int i = 0; i < nest->reduction_count; i++) {
        want(wanted, x, nest->reductions[i].value);
        want(wanted, x, nest->reductions[i].place);
    }
    for (int i = 0; i < nest->store_count; i++) {
        want(wanted, x, nest->stores[i].offset);
        want(wanted, x, nest->stores[i].value);
        want(wanted, x, nest->stores[i].guard);
    }
    for (int i = x->count - 1; i >= 0; i--)
        for (int k = 0; wanted[i] && k < x->all[i]->count; k++)
            want(wanted, x, x->all[i]->in[k]);
    return wanted;
}

static Expr *rewritten(Exprs *to, Expr *e, Expr *const *axes, Expr **memo) { return e ? expr_rewrite(to, e, axes, memo) : NULL; }

static bool always(const Expr *e)
{
    double value;
    return expr_is_number(e, &value) && value != 0;
}

/* Moves all values into `to`, with the expressions that they need. memo[id] may already have the new expression. */
static void move_known(Nest *nest, Exprs *to, Expr *const *axes, Expr **memo)
{
    for (int i = 0; i < nest->reduction_count; i++) {
        Reduction *r = &nest->reductions[i];
        r->value = rewritten(to, r->value, axes, memo);
        r->place = rewritten(to, r->place, axes, memo);
    }
    for (int i = 0; i < nest->store_count; i++) {
        Store *s = &nest->stores[i];
        s->offset = rewritten(to, s->offset, axes, memo);
        s->value = rewritten(to, s->value, axes, memo);
        s->guard = rewritten(to, s->guard, axes, memo);
        if (s->guard && always(s->guard))
            s->guard = NULL;
    }
    nest->exprs = to;
}

static void move_to(Nest *nest, Exprs *to, Expr *const *axes)
{
    move_known(nest, to, axes, NEW_ARRAY(Expr *, nest->exprs->count));
}

/* ---- split */

typedef struct Split {
    const Exprs *x;
    int axis;
    int64_t by;
} Split;

static void find_split(Split *s, const Expr *e)
{
    if ((e->kind != X_DIV && e->kind != X_MOD) || e->in[0]->kind != X_AXIS)
        return;
    int axis = (int)e->in[0]->constant;
    const Axis *a = &s->x->axis[axis];
    if (a->kind == AXIS_PLAIN && !a->samples && a->extent % e->constant == 0 && (s->axis < 0 || s->axis == axis) &&
        (!s->by || e->constant < s->by)) {
        s->axis = axis;
        s->by = e->constant;
    }
}

void nest_split_axis(Nest *nest, int axis, int64_t by)
{
    const Exprs *x = nest->exprs;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    to->axis_count = x->axis_count + 1;
    for (int i = 0, k = 0; i < x->axis_count; i++, k++) {
        to->axis[k] = x->axis[i];
        if (i == axis) {
            to->axis[k].extent = x->axis[i].extent / by;
            to->axis[++k] = x->axis[i];
            to->axis[k].extent = by;
            to->axis[k].samples = false;
        }
    }
    for (int i = 0; i < x->axis_count; i++) {
        int k = i + (i > axis);
        Expr *first = expr_axis(to, i == axis ? i + 1 : k);
        axes[i] = i == axis ? expr_add(to, expr_scale(to, expr_axis(to, i), by), first) : first;
    }
    move_to(nest, to, axes);
}

static bool split_one(Nest *nest)
{
    const Exprs *x = nest->exprs;
    Split s = {.x = x, .axis = -1};
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++)
        if (wanted[i])
            find_split(&s, x->all[i]);
    if (s.axis < 0 || x->axis_count == MAX_AXES)
        return false;
    nest_split_axis(nest, s.axis, s.by);
    return true;
}

/* ---- forward */

static bool has_argmax(const Nest *nest)
{
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].kind == REDUCE_ARGMAX)
            return true;
    return false;
}

/* Returns true if more of the loads go backwards in memory along the axis than forwards. */
static bool runs_backwards(const Exprs *x, const bool *wanted, int axis)
{
    int backwards = 0;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (!wanted[i] || (e->kind != X_LOAD && e->kind != X_TABLE && e->kind != X_RANDOM))
            continue;
        int64_t step = e->in[0]->axes >> axis & 1 ? expr_factor(e->in[0], axis) : 0;
        backwards += step < 0 ? 1 : step > 0 ? -1 : 0;
    }
    return backwards > 0;
}

/* The order of a sum or a maximum is free. Forward loads are faster, and gcc sums pairs that are loaded backwards wrongly (GCC PR
 * 110381: 11.1 to 11.4, 12.1 to 12.3, 13.1; loops/loops.c prevents it for the remaining loads). */
static void forward_axes(Nest *nest)
{
    const Exprs *x = nest->exprs;
    const bool *wanted = nest_needed(nest);
    bool any = false;
    Expr *axes[MAX_AXES];
    Exprs *to = NEW(Exprs);
    if (has_argmax(nest)) /* the result is the first maximum, so the order of iterations matters */
        return;
    to->axis_count = x->axis_count;
    memcpy(to->axis, x->axis, sizeof *x->axis * (size_t)x->axis_count);
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        bool turns = a->reduction && a->kind == AXIS_PLAIN && !a->samples && a->extent > 1 && runs_backwards(x, wanted, i);
        axes[i] = turns ? expr_plus(to, expr_scale(to, expr_axis(to, i), -1), a->extent - 1) : expr_axis(to, i);
        any = any || turns;
    }
    if (any)
        move_to(nest, to, axes);
}

/* ---- sort */

/* Sets the stride of axes that have none yet. */
static void add_strides(const Expr *offset, double *stride, int axes)
{
    for (int k = 0; k < axes; k++) {
        int64_t f = offset->axes >> k & 1 ? expr_factor(offset, k) : 0;
        if (f && stride[k] == 0)
            stride[k] = f < 0 ? -(double)f : (double)f;
    }
}

/* Sorts axes, stably, by their stride in stores at every iteration, then in loads; samples and groups stay first. */
static void sort_axes(Nest *nest)
{
    const Exprs *x = nest->exprs;
    double stride[MAX_AXES] = {0};
    if (has_argmax(nest)) /* as in forward_axes */
        return;
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer)
            add_strides(nest->stores[i].offset, stride, x->axis_count);
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++)
        if (wanted[i] && x->all[i]->kind == X_LOAD)
            add_strides(x->all[i]->in[0], stride, x->axis_count);
    int order[MAX_AXES], first = 0;
    while (first < x->axis_count && (x->axis[first].samples || x->axis[first].kind != AXIS_PLAIN))
        order[first] = first, first++;
    bool sorted = true;
    for (int i = first; i < x->axis_count; i++) {
        int at = i;
        for (; at > first && stride[order[at - 1]] < stride[i] && stride[order[at - 1]] > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
        sorted = sorted && at == i;
    }
    if (sorted)
        return;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    to->axis_count = x->axis_count;
    for (int i = 0; i < x->axis_count; i++)
        to->axis[i] = x->axis[order[i]];
    for (int i = 0; i < x->axis_count; i++)
        axes[order[i]] = expr_axis(to, i);
    move_to(nest, to, axes);
}

/* ---- join */

typedef struct Pair {
    int outer, inner;
    int64_t extent;
} Pair;

static bool pair_fits(const Pair *p, const Expr *index)
{
    int64_t outer = expr_factor(index, p->outer), inner = expr_factor(index, p->inner);
    return outer == inner * p->extent;
}

/* Returns true if an index that has one of the axes has both, as outer * extent + inner. */
static bool may_join(const Pair *p, const Expr *e)
{
    if (e->kind == X_SUM)
        return pair_fits(p, e);
    for (int i = 0; i < e->count; i++)
        if (e->in[i]->kind == X_AXIS && !pair_fits(p, e->in[i]))
            return false;
    return true;
}

static bool all_may_join(const Nest *nest, const Pair *p, const bool *wanted)
{
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].offset->kind == X_AXIS && !pair_fits(p, nest->stores[i].offset))
            return false;
    for (int i = 0; i < nest->exprs->count; i++)
        if (wanted[i] && !may_join(p, nest->exprs->all[i]))
            return false;
    return true;
}

/* Returns the axis before `axis`, without axes of extent 1, if it is of the same kind (parallel or reduction); -1: none. */
static int before(const Exprs *x, int axis)
{
    for (int i = axis - 1; i >= 0; i--)
        if (live(&x->axis[i]))
            return x->axis[i].reduction == x->axis[axis].reduction ? i : -1;
    return -1;
}

static bool join_pair(Nest *nest, int outer, int inner)
{
    const Exprs *x = nest->exprs;
    Pair p = {outer, inner, x->axis[inner].extent};
    if (!all_may_join(nest, &p, nest_needed(nest)))
        return false;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    to->axis_count = x->axis_count;
    for (int i = 0; i < x->axis_count; i++)
        to->axis[i] = x->axis[i];
    to->axis[inner].extent *= x->axis[outer].extent;
    to->axis[inner].samples = x->axis[outer].samples;
    to->axis[outer].extent = 1;
    to->axis[outer].samples = false;
    for (int i = 0; i < x->axis_count; i++)
        axes[i] = expr_axis(to, i);
    move_to(nest, to, axes);
    return true;
}

static void join_axes(Nest *nest)
{
    for (int inner = nest->exprs->axis_count - 1; inner > 0; inner--) {
        for (;;) {
            const Axis *b = &nest->exprs->axis[inner];
            int outer = before(nest->exprs, inner);
            if (outer < 0 || b->samples || b->kind != AXIS_PLAIN || nest->exprs->axis[outer].kind != AXIS_PLAIN ||
                !join_pair(nest, outer, inner))
                break;
        }
    }
}

/* ---- order */

/* Adds to the axes' scores: a good innermost axis has stride 1 in most accesses. */
static void score(const Expr *offset, double weight, const Exprs *x, double *scores)
{
    for (int k = 0; k < x->axis_count; k++)
        if (offset->axes >> k & 1)
            weight *= (double)x->axis[k].extent * (x->axis[k].samples ? SOME_SAMPLES : 1);
    for (int k = 0; k < x->axis_count; k++) {
        if (!(offset->axes >> k & 1))
            continue;
        int64_t f = expr_factor(offset, k);
        scores[k] += f == 1 || f == -1 ? weight : -weight;
    }
}

/* Drops axes of extent 1 and makes the axis with the best score the innermost one. If sums go across rows, it is a reduction
 * axis. */
static void order_axes(Nest *nest)
{
    const Exprs *x = nest->exprs;
    double scores[MAX_AXES] = {0};
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++)
        if (wanted[i] && (x->all[i]->kind == X_LOAD || x->all[i]->kind == X_TABLE))
            score(x->all[i]->in[0], 1, x, scores);
    for (int i = 0; i < nest->store_count; i++)
        score(nest->stores[i].offset, 2, x, scores);
    int best = -1, reduction = 0;
    for (int i = x->axis_count - 1; i >= 0; i--) {
        const Axis *a = &x->axis[i];
        if (!live(a))
            continue;
        reduction += a->reduction;
        if (a->kind == AXIS_PLAIN && (a->reduction || !nest->row_sum_count) && (best < 0 || scores[i] > scores[best]))
            best = i;
    }
    if (best >= 0 && x->axis[best].reduction && reduction > 1 && has_argmax(nest)) /* as in forward_axes */
        best = -1;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    int place[MAX_AXES];
    for (int i = 0; i < x->axis_count; i++)
        if (live(&x->axis[i]) && i != best) {
            place[i] = to->axis_count;
            to->axis[to->axis_count++] = x->axis[i];
        }
    if (best >= 0) {
        place[best] = to->axis_count;
        to->axis[to->axis_count++] = x->axis[best];
    }
    for (int i = 0; i < x->axis_count; i++)
        axes[i] = live(&x->axis[i]) ? expr_axis(to, place[i]) : expr_index(to, 0);
    move_to(nest, to, axes);
}

/* ---- tile */

/* Returns true if the offset moves by whole cache lines along the innermost axis, but stays within lines along another one. */
static bool is_transposed(const Exprs *x, const Expr *offset, const Shape *shape)
{
    int inner = x->axis_count - 1;
    int64_t step = llabs(expr_factor(offset, inner));
    if (step < NARROWEST_LANE || shape_count(shape) < LARGE_ELEMENTS)
        return false;
    for (int k = 0; k < inner; k++) {
        int64_t f = llabs(expr_factor(offset, k));
        if (f && f < NARROWEST_LANE)
            return true;
    }
    return false;
}

static const Expr *find_transposed(const Nest *nest)
{
    const Exprs *x = nest->exprs;
    for (int i = 0; i < nest->store_count; i++)
        if (is_transposed(x, nest->stores[i].offset, &nest->stores[i].tensor->shape))
            return nest->stores[i].offset;
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++)
        if (wanted[i] && x->all[i]->kind == X_LOAD && is_transposed(x, x->all[i]->in[0], &x->all[i]->tensor->shape))
            return x->all[i]->in[0];
    return NULL;
}

/* Tiles an element-wise nest that transposes a matrix: the innermost loop becomes short, and the others follow the memory of the
 * transposed tensor. So its cache lines are used completely while they are cached; on a GPU, neighbouring threads use them. */
static void tile_transposed(Nest *nest, const Target *target)
{
    const Exprs *x = nest->exprs;
    int inner = x->axis_count - 1;
    bool plain = inner > 0 && nest->reduction_count == 0 && x->axis_count < MAX_AXES && !x->axis[inner].samples;
    for (int i = 0; i <= inner && plain; i++)
        plain = x->axis[i].kind == AXIS_PLAIN && !x->axis[i].reduction;
    const Expr *across = plain ? find_transposed(nest) : NULL;
    if (!across)
        return;
    int64_t extent = x->axis[inner].extent, lane = target->lane(extent);
    if (extent % lane == 0 && lane < extent) {
        nest_split_axis(nest, inner, lane);
        x = nest->exprs;
        across = find_transposed(nest);
        if (!across)
            return;
    }
    inner = x->axis_count - 1;
    int order[MAX_AXES], count = 0;
    for (int i = 0; i < inner; i++) {
        int at = count++;
        for (; at > 0 && !x->axis[order[at - 1]].samples && !x->axis[i].samples &&
               llabs(expr_factor(across, order[at - 1])) < llabs(expr_factor(across, i));
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    order[inner] = inner;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    to->axis_count = x->axis_count;
    for (int i = 0; i <= inner; i++)
        to->axis[i] = x->axis[order[i]];
    for (int i = 0; i <= inner; i++)
        axes[order[i]] = expr_axis(to, i);
    move_to(nest, to, axes);
}

/* ---- widen */

/* Returns the offset of the first load that is contiguous along the innermost axis. */
static const Expr *find_loaded(const Nest *nest)
{
    const Exprs *x = nest->exprs;
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++)
        if (wanted[i] && x->all[i]->kind == X_LOAD && expr_factor(x->all[i]->in[0], x->axis_count - 1) == 1)
            return x->all[i]->in[0];
    return NULL;
}

/* Returns an offset that is contiguous along the innermost axis: of a store at every iteration, else of a load. */
static const Expr *find_contiguous(const Nest *nest)
{
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && expr_factor(nest->stores[i].offset, nest->exprs->axis_count - 1) == 1)
            return nest->stores[i].offset;
    return find_loaded(nest);
}

/* Evaluates an index that depends on one axis only. */
static int64_t index_at(const Expr *e, int64_t iteration)
{
    int64_t sum = e->constant;
    switch (e->kind) {
    case X_AXIS: return iteration;
    case X_DIV: return index_at(e->in[0], iteration) / e->constant;
    case X_MOD: return index_at(e->in[0], iteration) % e->constant;
    default:
        for (int i = 0; i < e->count; i++)
            sum += e->factor[i] * index_at(e->in[i], iteration);
        return sum;
    }
}

/* Returns true if the index is computed from loop variables only. */
static bool is_of_axes(const Expr *e)
{
    bool plain = e->kind == X_SUM || e->kind == X_AXIS || e->kind == X_DIV || e->kind == X_MOD;
    for (int i = 0; i < e->count && plain; i++)
        plain = is_of_axes(e->in[i]);
    return plain;
}

static bool divides_lane(const Expr *e, int lane)
{
    return (e->kind == X_DIV || e->kind == X_MOD) && e->axes == 1u << lane && is_of_axes(e);
}

typedef struct Places {
    Node **list;
    int count;
} Places;

/* Returns an index that depends only on the lane as a load from a table of differences to its least value: an index from a table
 * is never negative. */
static Expr *place_of(Places *places, Exprs *to, const Expr *e, int lane)
{
    Node draft = {.op = OP_CONSTANT,
                  .dtype = I32,
                  .name = "place",
                  .data_count = to->axis[lane].extent,
                  .shape = SHAPE(to->axis[lane].extent)};
    draft.data = NEW_ARRAY(double, draft.data_count);
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < draft.data_count; i++) {
        int64_t place = index_at(e, i);
        least = place < least ? place : least;
        most = place > most ? place : most;
    }
    for (int64_t i = 0; i < draft.data_count; i++)
        draft.data[i] = (double)(index_at(e, i) - least);
    Node *node = NULL;
    for (int i = 0; i < places->count && !node; i++)
        if (memcmp(places->list[i]->data, draft.data, (size_t)draft.data_count * sizeof *draft.data) == 0)
            node = places->list[i];
    if (!node) {
        draft.id = places->count;
        node = NEW(Node);
        *node = draft;
        APPEND(places->list, places->count, node);
    }
    return expr_plus(to, expr_index_of(to, expr_table(to, node, expr_axis(to, lane), NULL), most - least + 1), least);
}

/* C compilers do not vectorize divisions in offsets, so quotients and remainders of the lane become tables. */
static void tabulate_lanes(Nest *nest)
{
    const Exprs *x = nest->exprs;
    int lane = x->axis_count - 1;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES], **memo = NEW_ARRAY(Expr *, x->count);
    Places places = {0};
    to->axis_count = x->axis_count;
    for (int i = 0; i < x->axis_count; i++)
        to->axis[i] = x->axis[i];
    for (int i = 0; i < x->axis_count; i++)
        axes[i] = expr_axis(to, i);
    for (int i = 0; i < x->count; i++) {
        Expr *e = x->all[i];
        if (divides_lane(e, lane)) {
            memo[i] = place_of(&places, to, e, lane);
            continue;
        }
        Expr part = {.kind = X_SUM, .in = NEW_ARRAY(Expr *, e->count), .factor = NEW_ARRAY(int64_t, e->count)};
        Expr *rest = expr_index(to, e->kind == X_SUM ? e->constant : 0);
        for (int k = 0; k < e->count && e->kind == X_SUM; k++) {
            if (divides_lane(e->in[k], lane)) {
                part.in[part.count] = e->in[k];
                part.factor[part.count++] = e->factor[k];
            } else {
                rest = expr_add(to, rest, expr_scale(to, expr_rewrite(to, e->in[k], axes, memo), e->factor[k]));
            }
        }
        if (part.count)
            memo[i] = expr_add(to, rest, place_of(&places, to, &part, lane));
    }
    move_known(nest, to, axes, memo);
}

typedef struct JoinedLanes {  /* axes that are joined with the innermost one */
    int64_t count;            /* number of lanes */
    int64_t stride[MAX_AXES]; /* of an axis, in lanes; 0: it is not joined */
} JoinedLanes;

/* Finds the axes outside the innermost one along which `along` is contiguous. */
static JoinedLanes join_lanes(const Nest *nest, const Expr *along)
{
    const Exprs *x = nest->exprs;
    int inner = x->axis_count - 1;
    JoinedLanes lanes = {.count = x->axis[inner].extent};
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < inner && !found; i++) {
            const Axis *a = &x->axis[i];
            found = !lanes.stride[i] && a->kind == AXIS_PLAIN && !a->samples && nest->divided != i + 1 && a->extent > 1 &&
                    expr_factor(along, i) == lanes.count && lanes.count * a->extent <= MOST_LANES;
            if (found) {
                lanes.stride[i] = lanes.count;
                lanes.count *= a->extent;
            }
        }
    }
    return lanes;
}

/* Returns true if the index is a sum of multiples of these axes and of terms that do not depend on them. */
static bool is_linear(const Expr *index, uint32_t axes)
{
    for (int i = 0; i < index->count && index->kind == X_SUM; i++)
        if (index->in[i]->axes & axes && index->in[i]->kind != X_AXIS)
            return false;
    return index->kind == X_SUM || index->kind == X_AXIS || !(index->axes & axes);
}

/* Returns true if loads are contiguous along more lanes than the store, which goes on from run to run: *apart elements. The
 * gradient of pooling is such a nest: it stores what it loads at several places. */
static bool spreads(const Nest *nest, const JoinedLanes *lanes, int64_t *apart)
{
    const Exprs *x = nest->exprs;
    int inner = x->axis_count - 1, full = -1;
    uint32_t axes = 1u << inner;
    for (int i = 0; i < inner; i++)
        axes |= lanes->stride[i] ? 1u << i : 0;
    const bool *wanted = nest_needed(nest);
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (!wanted[i] || !(e->axes & axes))
            continue;
        bool index = e->kind == X_AXIS || e->kind == X_SUM || e->kind == X_LOAD || e->kind == X_OP || e->kind == X_RESULT;
        if (!index || (e->kind == X_LOAD && (e->count > 1 || expr_factor(e->in[0], inner) != 1 || !is_linear(e->in[0], axes))))
            return false;
        for (int k = 0; k < inner && e->kind == X_LOAD; k++)
            if (lanes->stride[k] && expr_factor(e->in[0], k) != lanes->stride[k])
                return false;
    }
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer) {
            if (full >= 0)
                return false;
            full = i;
        }
    if (full < 0)
        return false;
    const Store *s = &nest->stores[full];
    *apart = 0;
    if (s->guard || s->add || expr_factor(s->offset, inner) != 1 || !is_linear(s->offset, axes))
        return false;
    for (int k = 0; k < inner; k++) {
        int64_t step = lanes->stride[k] / x->axis[inner].extent, factor = expr_factor(s->offset, k);
        if (!lanes->stride[k])
            continue;
        if (factor % step || (*apart && factor / step != *apart))
            return false;
        *apart = factor / step;
    }
    return *apart > x->axis[inner].extent;
}

/* Six channels do not fill vectors, but 28 pixels of six channels do: lane q is channel q mod 6 of pixel q / 6. The sums of the
 * lanes of one channel are added at the end. */
void nest_widen(Nest *nest)
{
    const Exprs *x = nest->exprs;
    int inner = x->axis_count - 1;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].kind != REDUCE_SUM)
            return;
    if (!nest->columns || !nest->partial || nest_has_moments(nest) || x->axis[inner].extent >= NARROWEST_LANE || nest->serial)
        return;
    for (int i = 0; i < inner; i++)
        if (!x->axis[i].reduction)
            return;
    const Expr *along = find_contiguous(nest), *loaded = find_loaded(nest);
    int64_t apart = 0;
    JoinedLanes lanes = {0};
    if (loaded)
        lanes = join_lanes(nest, loaded);
    if (lanes.count < NARROWEST_LANE || !spreads(nest, &lanes, &apart)) {
        apart = 0;
        lanes = along ? join_lanes(nest, along) : (JoinedLanes){0};
    }
    if (lanes.count < NARROWEST_LANE)
        return;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES], *first[MAX_AXES]; /* indices of a lane, and of lane 0 */
    int divided = 0;
    for (int i = 0; i < inner; i++)
        if (!lanes.stride[i]) {
            divided = nest->divided == i + 1 ? to->axis_count + 1 : divided;
            to->axis[to->axis_count++] = x->axis[i];
        }
    to->axis[to->axis_count++] = (Axis){.extent = lanes.count};
    Expr *lane = expr_axis(to, to->axis_count - 1);
    for (int i = 0, k = 0; i < inner; i++) {
        axes[i] = lanes.stride[i] ? expr_mod(to, expr_div(to, lane, lanes.stride[i]), x->axis[i].extent) : expr_axis(to, k++);
        first[i] = lanes.stride[i] ? expr_index(to, 0) : axes[i];
    }
    nest->fold = x->axis[inner].extent;
    axes[inner] = expr_mod(to, lane, nest->fold);
    first[inner] = expr_index(to, 0);
    nest->divided = divided;
    Expr **starts = NEW_ARRAY(Expr *, nest->store_count);
    for (int i = 0; i < nest->store_count && apart; i++)
        if (!nest->stores[i].outer)
            starts[i] = expr_rewrite(to, nest->stores[i].offset, first, NEW_ARRAY(Expr *, x->count));
    move_to(nest, to, axes);
    for (int i = 0; i < nest->store_count; i++)
        if (starts[i]) {
            nest->stores[i].offset = starts[i];
            nest->stores[i].run = nest->fold;
            nest->stores[i].apart = apart;
        }
    tabulate_lanes(nest);
}

/* Random numbers are computed for a block of the innermost loop at once. Cuts the loop so that a block fits into the L1 cache. */
static void shorten_random(Nest *nest)
{
    const Exprs *x = nest->exprs;
    int inner = x->axis_count - 1;
    bool has_random = false;
    for (int i = 0; i < x->count && inner >= 0; i++)
        has_random = has_random || (x->all[i]->kind == X_RANDOM && expr_factor(x->all[i]->in[0], inner) == 1);
    if (!has_random || x->axis[inner].samples || x->axis[inner].extent <= LONGEST_RANDOM || x->axis_count == MAX_AXES)
        return;
    for (int64_t by = LONGEST_RANDOM; by >= SHORTEST_RANDOM; by--)
        if (x->axis[inner].extent % by == 0) {
            nest_split_axis(nest, inner, by);
            return;
        }
}

/* Rewrites the nest into a new set. innermost: guards that do not change in the innermost loop are moved out of it, and random
 * numbers get the element at its start. */
static void renew(Nest *nest, bool innermost)
{
    const Exprs *x = nest->exprs;
    Exprs *to = NEW(Exprs);
    Expr *axes[MAX_AXES];
    to->axis_count = x->axis_count;
    to->innermost = innermost ? x->axis_count : 0;
    for (int i = 0; i < x->axis_count; i++)
        to->axis[i] = x->axis[i];
    for (int i = 0; i < x->axis_count; i++)
        axes[i] = expr_axis(to, i);
    move_to(nest, to, axes);
}

void nest_finish(Nest *nest, const Target *target)
{
    while (split_one(nest))
        ;
    forward_axes(nest);
    sort_axes(nest);
    join_axes(nest);
    order_axes(nest);
    tile_transposed(nest, target);
    if (target->random_in_arrays)
        shorten_random(nest);
    renew(nest, true);
    if (!target->random_in_arrays)
        renew(nest, false);
    const Exprs *x = nest->exprs;
    bool any = false, samples = false;
    double count = 1;
    for (int i = 0; i < x->axis_count; i++)
        if (x->axis[i].reduction) {
            any = true;
            samples = samples || x->axis[i].samples || x->axis[i].kind == AXIS_IN_GROUP;
            count *= (double)x->axis[i].extent;
        }
    nest->columns = any && !x->axis[x->axis_count - 1].reduction;
    bool is_long = count > (nest->columns ? LONG_COLUMN : LONG_SUM);
    nest->passes = 1;
    for (int i = 0; i < nest->reduction_count; i++) {
        Reduction *r = &nest->reductions[i];
        Dtype t = nest_has_moments(nest) ? r->value->dtype : r->dtype;
        r->in_double = r->kind == REDUCE_SUM && (t == F32 || dtype_is_half(t)) && (samples || r->over_rows || is_long);
        if (r->value->pass + 1 > nest->passes)
            nest->passes = r->value->pass + 1;
    }
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass + 1 > nest->passes)
            nest->passes = nest->stores[i].value->pass + 1;
}

bool kernel_sums_shards(const Kernel *k)
{
    bool sums = false;
    for (int i = 0; i < k->write_count; i++)
        sums = sums || k->writes[i]->partial;
    return k->exact && sums;
}

Dtype reduction_type(const Reduction *r)
{
    Dtype t = r->kind == REDUCE_ARGMAX ? r->value->dtype : r->dtype;
    return r->in_double ? F64 : dtype_is_half(t) ? F32 : t;
}
