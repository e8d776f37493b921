/* build.c: a group of roots as a Kernel.
 *
 * In: a group (fuse/merge.c). Out: its nests: what each member stores, the reductions among them, and the tensors that are read
 * and written. Members use each other's values as expressions, and results of reductions by number, where the merger has proved
 * that they are at the same iteration; all other values are loaded.
 *
 * The same evaluation, of one root by itself, shows the merger what the root reads and where. */
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"

#include <string.h>

typedef struct BuildContext {
    Fusion *f;
    FusionRoot *root;
    FusionGroup *group;
    Memory *memory /* memory of alone->reads */;
} BuildContext;

static const Tensor *tensor_of(const Fusion *f, const Node *n)
{
    if (n->op == OP_INPUT)
        return f->inputs[n->ints[0]];
    if (n->op == OP_VARIABLE)
        return f->variables[n->ints[0]];
    if (n->op == OP_ARG)
        return f->arguments[n->ints[0]];
    const Tensor *tensor = f->info[n->id].tensor;
    if (!tensor)
        die("node %d (%s) is not stored", n->id, OP_INFO[n->op].name);
    return tensor;
}

/* Returns the offset of a node's element in its tensor, whose axes may be in another order. */
static Expr *offset_of(Exprs *x, const Tensor *tensor, const Node *n, Expr *sample, Expr *const *index)
{
    Expr *at[MAX_RANK];
    for (int i = 0; i < n->shape.rank; i++)
        at[i] = index[tensor->order ? tensor->order[i] : i];
    Expr *flat = expr_flatten(x, &tensor->shape, at);
    return sample ? expr_add(x, flat, expr_scale(x, sample, tensor_pitch(tensor))) : flat;
}

/* Returns the factor of each axis; NULL: the offset is not a sum of axes. */
static const int64_t *steps_of(const Expr *offset, int axis_count)
{
    bool axes = offset->kind == X_AXIS || (offset->kind == X_SUM && offset->constant == 0);
    for (int i = 0; offset->kind == X_SUM && i < offset->count; i++)
        axes = axes && offset->in[i]->kind == X_AXIS;
    if (!axes)
        return NULL;
    int64_t *steps = NEW_ARRAY(int64_t, axis_count);
    if (offset->kind == X_AXIS)
        steps[offset->constant] = 1;
    for (int i = 0; offset->kind == X_SUM && i < offset->count; i++)
        steps[offset->in[i]->constant] = offset->factor[i];
    return steps;
}

static Expr *stored(void *context, Evaluation *e, const Node *n, Expr *sample, Expr *const *index, Expr *guard)
{
    const BuildContext *c = context;
    Exprs *x = e->exprs;
    bool leaf = n->op == OP_INPUT || n->op == OP_VARIABLE || n->op == OP_ARG;
    FusionRoot *maker = c->f->info[n->id].maker;
    if (!leaf && !maker)
        return NULL;
    if (c->group && maker && !leaf && fuse_group(maker) == c->group) {
        if (!maker->value)
            die("node %d (%s) is used before it is made", n->id, OP_INFO[n->op].name);
        return maker->value; /* at this iteration, as the merger has proved */
    }
    const Tensor *tensor = tensor_of(c->f, n);
    Expr *offset = offset_of(x, tensor, n, sample, index);
    if (c->root) {
        Tensor dense = *tensor;
        bool gaps = tensor->node == n && !tensor->order && !shape_equal(&tensor->shape, &n->shape);
        dense.pitch = 0;
        dense.shape = gaps ? n->shape : tensor->shape;
        const Expr *place = tensor->pitch || gaps ? offset_of(x, &dense, n, sample, index) : offset;
        Memory *outer = memory_use(c->memory);
        APPEND(c->root->reads, c->root->read_count, ((Read){n, steps_of(place, x->axis_count), NULL}));
        memory_use(outer);
    }
    Expr *value = expr_load(x, tensor, offset, guard);
    return expr_op(x, OP_CAST, n->dtype, &value, 1, NULL);
}

static void axes_of_root(Exprs *x, const FusionRoot *r, Expr **axes)
{
    x->axis_count = r->axis_count;
    memcpy(x->axis, r->axes, sizeof *r->axes * (size_t)r->axis_count);
    for (int i = 0; i < r->axis_count; i++)
        axes[i] = expr_axis(x, i);
}

static Expr *value_at_point(Evaluation *e, const FusionRoot *r, Expr **axes)
{
    if (!r->target)
        return evaluate_point(e, r->node, axes);
    if (r->elements) {
        Expr *index[MAX_RANK];
        expr_unflatten(e->exprs, &r->node->shape, axes[0], index);
        return evaluate(e, r->node, NULL, index, NULL);
    }
    return evaluate(e, r->node, r->samples ? axes[0] : NULL, axes + r->samples, NULL);
}

/* Writes the axes over which SCATTER_ADD adds: samples and those of the values; returns their number. */
static int scatter_axes(const Node *n, Axis *axes, bool *samples)
{
    int count = 0;
    *samples = n->has_samples || n->in[1]->has_samples || n->in[2]->has_samples;
    if (*samples)
        axes[count++] = (Axis){.extent = 1, .samples = true};
    for (int i = 0; i < n->in[2]->shape.rank; i++)
        axes[count++] = (Axis){.extent = n->in[2]->shape.extent[i]};
    return count;
}

static double flops_of(const Exprs *x)
{
    double flops = 0;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (e->kind == X_OP && e->axes)
            flops += OP_INFO[e->op].flops;
        if (e->kind == X_RANDOM)
            flops += OP_INFO[OP_RANDOM].flops;
    }
    return flops;
}

/* Frees the expressions, and keeps what the merger needs. */
static void evaluate_loops(Fusion *f, FusionRoot *r)
{
    Memory *own = memory_new(), *outer = memory_use(own);
    Exprs *x = NEW(Exprs), *y = NEW(Exprs);
    BuildContext c = {.f = f, .root = r, .memory = outer};
    Evaluation e = {.exprs = x, .initial = f->phase->kind == PHASE_INIT, .stored = stored, .context = &c};
    Expr *axes[MAX_AXES];
    const Node *n = r->node;
    axes_of_root(x, r, axes);
    if (r->kind == ROOT_SCATTER) {
        bool samples;
        evaluate(&e, n->in[0], n->has_samples ? axes[0] : NULL, axes + n->has_samples, NULL);
        Evaluation add = {.exprs = y, .initial = e.initial, .stored = stored, .context = &c};
        y->axis_count = scatter_axes(n, y->axis, &samples);
        for (int i = 0; i < y->axis_count; i++)
            axes[i] = expr_axis(y, i);
        Expr *sample = samples ? axes[0] : NULL;
        evaluate(&add, n->in[1], sample, axes + samples + n->ints[0], NULL);
        evaluate(&add, n->in[2], sample, axes + samples, NULL);
    } else {
        if (f->info[n->id].replaced && !r->target) {
            evaluate(&e, n->in[1], n->has_samples ? axes[0] : NULL, axes + n->has_samples + n->ints[0], NULL);
            evaluate(&e, n->in[2], n->has_samples ? axes[0] : NULL, axes + n->has_samples, NULL);
        } else {
            value_at_point(&e, r, axes);
        }
        r->flops = flops_of(x);
    }
    memory_use(outer);
    memory_free(own);
}

void fuse_evaluate_root(Fusion *f, FusionRoot *r)
{
    const Node *n = r->node;
    if (r->kind == ROOT_SCAN) {
        FusionRoot **part = fuse_scan_results(f, r);
        if (*part) /* it reads for all results of the scan */
            return;
        *part = r;
        for (int k = 0; k < n->in[0]->inputs; k++) {
            const Node *from = fuse_scan_operand(f, n->in[0], k);
            if (from)
                APPEND(r->reads, r->read_count, ((Read){from, NULL, NULL}));
        }
    } else if (r->kind == ROOT_CONTRACTION || r->kind == ROOT_REDUCE) {
        for (int k = 0; k < n->inputs; k++) {
            const Node *from = r->kind == ROOT_CONTRACTION ? fuse_operand(f, n, k) : n->in[k];
            APPEND(r->reads, r->read_count, ((Read){from, NULL, r->copy}));
        }
    } else {
        evaluate_loops(f, r);
    }
}

/* ---- building */

static Store *add_store(Nest *nest, const Tensor *tensor, Expr *offset, Expr *value, bool outer, const Node *node)
{
    if (value->dtype != tensor->dtype)
        value = expr_op(nest->exprs, OP_CAST, tensor->dtype, &value, 1, NULL);
    Store s = {.tensor = tensor, .offset = offset, .value = value, .outer = outer, .node = node};
    APPEND(nest->stores, nest->store_count, s);
    return &nest->stores[nest->store_count - 1];
}

/* Sets a member's index in the group's nest: at all iterations, at parallel ones, or, across, at those of reduction axes. */
static void place_member(Exprs *x, const FusionRoot *shape, Expr **axes, FusionRoot *r)
{
    if (r->elements) { /* a sum over all elements has no axes of its own */
        expr_unflatten(x, &r->node->shape, axes[0], r->index);
        r->sample = NULL;
        return;
    }
    if (r == shape || (r->reduces && r->axis_count == shape->axis_count)) { /* its axes are the nest's */
        Expr *parallel[MAX_AXES] = {0};
        int count = 0;
        for (int i = 0; i < shape->axis_count; i++)
            if (!r->axes[i].reduction)
                parallel[count++] = axes[i];
        bool samples = r->target ? r->samples : r->node->has_samples;
        r->sample = samples ? parallel[0] : NULL;
        for (int i = 0; i < r->shape->rank; i++)
            r->index[i] = parallel[i + samples];
        return;
    }
    /* other axes with the same number of iterations: by the number of the iteration */
    Shape from = {0};
    int first = r->samples;
    Expr *index[MAX_AXES] = {0}, *flat = expr_index(x, 0);
    int64_t stride = 1;
    for (int i = shape->axis_count - 1; i >= 0; i--) {
        if (shape->axes[i].samples || (r->outer && shape->axes[i].reduction != r->over_rows))
            continue;
        flat = expr_add(x, flat, expr_scale(x, axes[i], stride));
        stride *= shape->axes[i].extent;
    }
    from = *r->shape;
    expr_unflatten(x, &from, flat, index);
    r->sample = NULL;
    for (int i = 0; i < shape->axis_count && first; i++)
        if (shape->axes[i].samples)
            r->sample = axes[i];
    for (int i = 0; i < from.rank; i++)
        r->index[i] = index[i];
}

static ReductionKind kind_of(const Node *n)
{
    switch (n->op) {
    case OP_MAX:
    case OP_WINDOW_MAX: return REDUCE_MAX;
    case OP_ARGMAX:
    case OP_WINDOW_ARGMAX: return REDUCE_ARGMAX;
    default: return REDUCE_SUM;
    }
}

/* Returns the member's value. If it is not stored it is not rounded: other members of the group use the cast's operand. */
static Expr *member_value(Evaluation *e, const FusionRoot *r, bool kept)
{
    const Node *n = r->node;
    bool rounds = n->op == OP_CAST && dtype_is_half(n->dtype) && n->in[0]->dtype == F32;
    return rounds && !kept ? evaluate(e, n->in[0], r->sample, r->index, NULL)
                           : evaluate_computed(e, n, r->sample, r->index, NULL);
}

/* ---- sums with one term: the label's term of a cross-entropy */

/* Returns the only axis that the sum runs over; -1: there are several, or it is the samples'. */
static int summed_axis(const Exprs *x)
{
    int axis = -1;
    for (int i = 0; i < x->axis_count; i++)
        if (x->axis[i].reduction && (x->axis[i].extent > 1 || x->axis[i].samples))
            axis = axis == -1 && x->axis[i].kind == AXIS_PLAIN && !x->axis[i].samples ? i : -2;
    return axis < 0 ? -1 : axis;
}

/* Matches (k == i ? v : 0), where i is the axis and k does not depend on it; returns k, or NULL. */
static Expr *chosen_place(const Expr *value, const Expr *axis, int number)
{
    double otherwise;
    bool chooses = value->kind == X_OP && value->op == OP_WHERE && value->in[0]->kind == X_OP && value->in[0]->op == OP_EQ &&
                   expr_is_number(value->in[2], &otherwise) && otherwise == 0;
    for (int k = 0; chooses && k < 2; k++) {
        const Expr *i = value->in[0]->in[k];
        Expr *place = value->in[0]->in[1 - k];
        if (i->kind == X_VALUE_OF && i->in[0] == axis && !(place->axes >> number & 1) && !dtype_is_float(place->dtype))
            return place;
    }
    return NULL;
}

/* Returns e where the axis is `place`, with loads guarded by `inside`. NULL: not only loads depend on the axis. */
static Expr *value_at_place(Exprs *x, Expr *e, Expr *const *axes, int axis, Expr *inside)
{
    int count = x->count;
    Expr **memo = NEW_ARRAY(Expr *, count);
    bool *needed = NEW_ARRAY(bool, count);
    needed[e->id] = true;
    for (int i = count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < x->all[i]->count; k++)
            needed[x->all[i]->in[k]->id] = true;
    for (int i = 0; i < count; i++) {
        const Expr *own = x->all[i];
        bool reads = own->kind == X_LOAD || own->kind == X_TABLE || own->kind == X_RANDOM;
        if (!needed[i] || !reads || !(own->axes >> axis & 1))
            continue;
        if (own->kind != X_LOAD || own->count > 1)
            return NULL;
        memo[i] = expr_load(x, own->tensor, expr_rewrite(x, own->in[0], axes, memo), inside);
    }
    return expr_rewrite(x, e, axes, memo);
}

/* Returns v where i is k for the sum over i of (k == i ? v : 0): one element is read in place of all. NULL: another sum. */
static Expr *value_of_choice(const Nest *nest, const FusionRoot *r, Expr *value, Expr *const *axes)
{
    Exprs *x = nest->exprs;
    int axis = summed_axis(x);
    Expr *place = nest->reduction_count && !r->over_rows && kind_of(r->node) == REDUCE_SUM && axis >= 0
                      ? chosen_place(value, axes[axis], axis)
                      : NULL;
    if (!place)
        return NULL;
    int64_t extent = x->axis[axis].extent;
    Expr *inside = expr_range(x, expr_index_of(x, place, 0), 0, extent), *at[MAX_AXES] = {0};
    for (int i = 0; i < x->axis_count; i++)
        at[i] = i == axis ? expr_index_of(x, place, extent) : axes[i];
    Expr *chosen = value_at_place(x, value->in[1], at, axis, inside);
    if (!chosen)
        return NULL;
    chosen = expr_select(x, inside, chosen, 0);
    return chosen->dtype == r->node->dtype ? chosen : expr_op(x, OP_CAST, r->node->dtype, &chosen, 1, NULL);
}

/* Adds the member's reduction and returns the expression of its result. */
static Expr *add_reduction(Nest *nest, const FusionRoot *r, Expr *value, Expr **axes)
{
    Exprs *x = nest->exprs;
    const Node *n = r->node;
    Expr *chosen = value_of_choice(nest, r, value, axes);
    if (chosen)
        return chosen;
    Reduction red = {.kind = kind_of(n), .value = value, .dtype = n->dtype, .over_rows = r->over_rows, .node = n};
    nest->row_sum_count += r->over_rows;
    if (red.kind == REDUCE_ARGMAX) {
        Expr *flat = expr_index(x, 0);
        for (int i = 0; i < x->axis_count; i++)
            if (x->axis[i].reduction)
                flat = expr_add(x, expr_scale(x, flat, x->axis[i].extent), axes[i]);
        red.place = expr_value_of(x, flat, n->dtype);
    }
    Expr *result = expr_result(x, nest->reduction_count, r->over_rows, n->dtype, value->pass + 1, n);
    APPEND(nest->reductions, nest->reduction_count, red);
    return result;
}

/* Stores number, mean and sum of squared distances from the mean of what the call reduces, in double. They are computed from sums
 * of distances from the pivot and of their squares. */
static void add_moments(Nest *nest, const FusionRoot *r, const Tensor *tensor, Evaluation *e, Expr **axes)
{
    Exprs *x = nest->exprs;
    const Node *n = r->node;
    Expr *away = evaluate_point(e, n, axes), *squared = expr_op(x, OP_MUL, away->dtype, (Expr *[]){away, away}, 2, NULL), *sum[2],
         *moment[MOMENTS];
    for (int i = 0; i < 2; i++) {
        Reduction red = {.kind = REDUCE_SUM, .value = i ? squared : away, .dtype = F64, .node = n};
        sum[i] = expr_result(x, nest->reduction_count, false, F64, away->pass + 1, n);
        APPEND(nest->reductions, nest->reduction_count, red);
    }
    int64_t count = shape_count(&n->shape) / MOMENTS, each = count ? shape_count(&n->in[0]->shape) / count : 0;
    Expr *pivot = evaluate_pivot(e, n, axes + 1), *samples = expr_count(x, n->in[1]->has_samples, F64),
         *one = expr_number(x, 1, F64);
    moment[MOMENT_COUNT] = expr_op(x, OP_MUL, F64, (Expr *[]){samples, expr_number(x, (double)each, F64)}, 2, NULL);
    Expr *divisor = expr_op(x, OP_MAXIMUM, F64, (Expr *[]){moment[MOMENT_COUNT], one}, 2, NULL);
    Expr *shift = expr_op(x, OP_DIV, F64, (Expr *[]){sum[0], divisor}, 2, NULL),
         *lost = expr_op(x, OP_MUL, F64, (Expr *[]){shift, sum[0]}, 2, NULL);
    moment[MOMENT_MEAN] = expr_op(x, OP_ADD, F64, (Expr *[]){expr_op(x, OP_CAST, F64, &pivot, 1, NULL), shift}, 2, NULL);
    moment[MOMENT_SQUARES] =
        expr_op(x, OP_MAXIMUM, F64,
                (Expr *[]){expr_op(x, OP_SUB, F64, (Expr *[]){sum[1], lost}, 2, NULL), expr_number(x, 0, F64)}, 2, NULL);
    Shape rest = {.rank = n->shape.rank - 1};
    Expr *kept[MAX_AXES] = {0};
    int rank = 0;
    for (int i = 0; i < r->axis_count; i++)
        if (!r->axes[i].reduction)
            kept[rank++] = axes[i];
    memcpy(rest.extent, n->shape.extent, (size_t)rest.rank * sizeof *rest.extent);
    for (int i = 0; i < MOMENTS; i++)
        add_store(nest, tensor, expr_plus(x, expr_scale(x, expr_flatten(x, &rest, kept), MOMENTS), i), moment[i], true, n)
            ->moment = i + 1;
}

/* Adds the store of values at an index into a tensor: SCATTER_ADD, INDEX_COPY. index: of the values' element */
static Store *add_indexed_store(Nest *nest, Evaluation *e, const Node *n, const Tensor *tensor, Expr *sample, Expr *const *index,
                                bool outer)
{
    Exprs *x = nest->exprs;
    int axis = (int)n->ints[0], more = n->in[1]->shape.rank;
    int64_t extent = n->shape.extent[axis];
    Expr *number = evaluate(e, n->in[1], sample, index + axis, NULL), *at[MAX_RANK] = {0};
    for (int i = 0; i < n->shape.rank; i++)
        at[i] = i == axis ? expr_index_of(x, number, extent) : index[i < axis ? i : i + more - 1];
    Expr *value = evaluate(e, n->in[2], sample, index, NULL);
    Store *s = add_store(nest, tensor, offset_of(x, tensor, n, n->has_samples ? sample : NULL, at), value, outer, n);
    s->guard = expr_range(x, expr_index_of(x, number, 0), 0, extent);
    return s;
}

static void build_loops(Fusion *f, FusionGroup *g, Kernel *k)
{
    BuildContext c = {.f = f, .group = g};
    Nest *nest = NEW(Nest);
    Exprs *x = nest->exprs = NEW(Exprs);
    Evaluation e = {.exprs = x,
                    .initial = f->phase->kind == PHASE_INIT,
                    .divided = f->program->target->regions,
                    .stored = stored,
                    .context = &c};
    Expr *axes[MAX_AXES] = {0};
    axes_of_root(x, g->shape, axes);
    for (int i = 0; i < g->count; i++) {
        FusionRoot *r = g->members[i];
        const Node *n = r->node;
        r->value = NULL;
        if (n->op == OP_MOMENTS && !r->target) {
            add_moments(nest, r, f->info[n->id].tensor, &e, axes);
            continue;
        }
        place_member(x, g->shape, axes, r);
        if (f->info[n->id].replaced && !r->target) {
            Store *s = add_indexed_store(nest, &e, n, f->info[n->id].replaced, r->sample, r->index, r->outer);
            s->part = true;
            s->over_rows = r->over_rows;
            continue;
        }
        if (r->target) {
            Expr *value = r->copied
                              ? expr_load(x, r->copied->target, offset_of(x, r->copied->target, n, r->sample, r->index), NULL)
                              : evaluate(&e, n, r->sample, r->index, NULL);
            Expr *offset =
                r->target->kind == TENSOR_REPORT ? expr_index(x, r->slot) : offset_of(x, r->target, n, r->sample, r->index);
            add_store(nest, r->target, offset, value, r->outer, n)->over_rows = r->over_rows;
            continue;
        }
        bool kept = r->grouped || fuse_read_elsewhere(f, r);
        r->value = r->reduces ? add_reduction(nest, r, evaluate_point(&e, n, axes), axes) : member_value(&e, r, kept);
        if (r->grouped) { /* the group's sum, for each of its samples */
            int in_group = r->axes[0].kind == AXIS_GROUPS ? 1 : 0;
            add_store(nest, f->info[n->id].tensor, offset_of(x, f->info[n->id].tensor, n, axes[in_group], axes + in_group + 1),
                      r->value, false, n);
        } else if (kept) {
            const Tensor *tensor = f->info[n->id].tensor;
            add_store(nest, tensor, offset_of(x, tensor, n, r->sample, r->index), r->value, r->outer || r->reduces, n)
                ->over_rows = r->over_rows;
        }
    }
    nest_finish(nest, f->program->target);
    k->nests = nest;
    k->nest_count = 1;
}

/* Builds the nest that initializes the table that is added to. */
static void build_table(Fusion *f, FusionGroup *g, Nest *nest)
{
    const Node *n = g->members[0]->node;
    BuildContext c = {.f = f, .group = g};
    const Tensor *tensor = f->info[n->id].tensor;
    Exprs *x = nest->exprs = NEW(Exprs);
    Evaluation e = {.exprs = x, .stored = stored, .context = &c};
    Expr *axes[MAX_AXES] = {0};
    axes_of_root(x, g->members[0], axes);
    Expr *sample = n->has_samples ? axes[0] : NULL, **index = axes + n->has_samples;
    Expr *value = evaluate(&e, n->in[0], sample, index, NULL);
    add_store(nest, tensor, offset_of(x, tensor, n, sample, index), value, false, n);
    nest_finish(nest, f->program->target);
}

static void build_scatter(Fusion *f, FusionGroup *g, Kernel *k)
{
    const Node *n = g->members[0]->node;
    BuildContext c = {.f = f, .group = g};
    Expr *axes[MAX_AXES] = {0};
    const Tensor *tensor = f->info[n->id].tensor;
    k->nests = NEW_ARRAY(Nest, 2);
    k->nest_count = 2;
    build_table(f, g, &k->nests[0]);
    Nest *nest = &k->nests[1];
    bool samples;
    Exprs *x = nest->exprs = NEW(Exprs);
    Evaluation add = {.exprs = x, .stored = stored, .context = &c};
    x->axis_count = scatter_axes(n, x->axis, &samples);
    for (int i = 0; i < x->axis_count; i++)
        axes[i] = expr_axis(x, i);
    add_indexed_store(nest, &add, n, tensor, samples ? axes[0] : NULL, axes + samples, false)->add = true;
    nest_finish(nest, f->program->target);
    /* two iterations may add to one element if the index depends on the innermost axis */
    x = nest->exprs;
    const Expr *offset = nest->stores[0].offset;
    int inner = x->axis_count - 1;
    nest->serial = inner < 0 || expr_factor(offset, inner) == 0;
    for (int i = 0; i < offset->count && !nest->serial; i++)
        nest->serial = offset->in[i]->kind != X_AXIS && offset->in[i]->axes >> inner & 1;
}

/* A nest per input copies it to its place. */
static void build_concat(Fusion *f, FusionGroup *g, Kernel *k)
{
    const Node *n = g->members[0]->node;
    BuildContext c = {.f = f, .group = g};
    const Tensor *tensor = f->info[n->id].tensor;
    int axis = (int)n->ints[0];
    int64_t start = 0;
    k->nests = NEW_ARRAY(Nest, n->inputs);
    for (int i = 0; i < n->inputs; i++) {
        Nest *nest = &k->nests[k->nest_count++];
        Exprs *x = nest->exprs = NEW(Exprs);
        Evaluation e = {.exprs = x, .initial = f->phase->kind == PHASE_INIT, .stored = stored, .context = &c};
        const Shape *part = &n->in[i]->shape;
        Expr *axes[MAX_AXES] = {0}, *at[MAX_RANK] = {0};
        axes_of_root(x, g->members[0], axes);
        x->axis[n->has_samples + axis].extent = part->extent[axis];
        for (int j = 0; j < x->axis_count; j++)
            axes[j] = expr_axis(x, j);
        Expr *sample = n->has_samples ? axes[0] : NULL, **index = axes + n->has_samples;
        memcpy(at, index, sizeof *at * (size_t)part->rank);
        at[axis] = expr_plus(x, index[axis], start);
        Expr *value = evaluate(&e, n->in[i], sample, index, NULL);
        add_store(nest, tensor, offset_of(x, tensor, n, sample, at), value, false, n);
        nest_finish(nest, f->program->target);
        start += part->extent[axis];
    }
}

/* ---- contractions */

/* Permutes an EINSUM's letters for an operand that is read before its transposes. */
static void through_transposes(const Node *from, const Node *to, char *letters)
{
    while (from != to && from->op == OP_TRANSPOSE) {
        char old[MAX_RANK];
        memcpy(old, letters, (size_t)from->shape.rank);
        for (int i = 0; i < from->shape.rank; i++)
            letters[from->ints[i]] = old[i];
        from = from->in[0];
    }
}

/* Returns the tensor with the shape of `viewed`, the operand after its transposes: a reshape is the same memory. */
static const Tensor *as_shape(const Tensor *tensor, const Node *stored_node, const Node *viewed)
{
    if (stored_node == viewed)
        return tensor;
    Tensor *copy = NEW(Tensor);
    *copy = *tensor;
    copy->shape = viewed->shape;
    copy->kind = TENSOR_TEMPORARY; /* row-major */
    copy->order = NULL;
    return copy;
}

/* Returns a convolution's weight, seen through transposes and reversals: the same memory with other axes. */
static const Tensor *weight_view(const Tensor *tensor, const Node *stored_node, const Node *operand)
{
    if (stored_node == operand)
        return tensor;
    const Tensor *in = weight_view(tensor, stored_node, operand->in[0]);
    const int *own = in->kind == TENSOR_VARIABLE ? operand->graph->model->variables[in->index].order : NULL;
    Tensor *view = NEW(Tensor);
    *view = *in;
    int rank = operand->shape.rank, *order = NEW_ARRAY(int, MAX_RANK);
    for (int i = 0; i < rank; i++)
        for (int k = 0, old = in->order ? in->order[i] : own ? own[i] : i; k < rank; k++)
            if (operand->op == OP_TRANSPOSE ? operand->ints[k] == old : k == old) {
                order[i] = k;
                view->reversed ^= operand->op == OP_SLICE && operand->ints[2 * rank + k] < 0 ? 1U << i : 0;
            }
    view->order = order;
    return view;
}

static void build_contraction(Fusion *f, FusionGroup *g, Kernel *k)
{
    Node *n = NEW(Node);
    *n = *g->members[0]->node;
    const Node *in[2], *base[2];
    char *text = n->text ? (char *)(uintptr_t)copy_text(n->text, strlen(n->text)) : NULL;
    char *letters = text;
    for (int i = 0; i < 2; i++) {
        base[i] = fuse_operand(f, n, i);
        in[i] = n->in[i];
        if (text) {
            while (in[i]->op == OP_TRANSPOSE && in[i] != base[i])
                in[i] = in[i]->in[0];
            through_transposes(n->in[i], in[i], letters);
            letters += n->in[i]->shape.rank + 1;
        }
    }
    n->in = NEW_ARRAY(Node *, 2);
    n->in[0] = (Node *)(uintptr_t)in[0];
    n->in[1] = (Node *)(uintptr_t)in[1];
    n->text = text;
    const Tensor *a = tensor_of(f, base[0]), *b = tensor_of(f, base[1]), *result = f->info[n->id].tensor;
    k->kind = KERNEL_CONTRACTION;
    k->contraction = contraction_plan(n, as_shape(a, base[0], in[0]),
                                      n->op == OP_CONVOLVE ? weight_view(b, base[1], in[1]) : as_shape(b, base[1], in[1]), result,
                                      f->around != NULL);
    APPEND(k->reads, k->read_count, a);
    APPEND(k->reads, k->read_count, b);
    APPEND(k->writes, k->write_count, result);
}

/* ---- attention */

static void build_attention(Fusion *f, FusionGroup *g, Kernel *k)
{
    const Node *first = g->members[0]->node, *nodes[ATTENTION_RESULTS], *base[ATTENTION_OPERANDS];
    const Tensor *operand[ATTENTION_OPERANDS], *result[ATTENTION_RESULTS];
    if (g->count > ATTENTION_RESULTS)
        die("%s of %d results", OP_INFO[first->op].name, g->count);
    for (int i = 0; i < g->count; i++) {
        nodes[i] = g->members[i]->node;
        result[i] = f->info[nodes[i]->id].tensor;
    }
    for (int i = 0; i < first->inputs; i++) {
        base[i] = fuse_operand(f, first, i);
        operand[i] = tensor_of(f, base[i]);
        APPEND(k->reads, k->read_count, operand[i]);
    }
    for (int i = 0; i < g->count; i++)
        APPEND(k->writes, k->write_count, result[i]);
    k->kind = KERNEL_ATTENTION;
    k->attention = attention_plan(nodes, g->count, base, operand, result);
}

/* ---- rows */

static void build_rows(Fusion *f, FusionGroup *g, Kernel *k)
{
    const Node *nodes[2];
    const Tensor *result[2], *operand = tensor_of(f, fuse_operand(f, g->members[0]->node, 0));
    if (g->count > COUNT(nodes))
        die("%s of %d results", OP_INFO[g->members[0]->node->op].name, g->count);
    APPEND(k->reads, k->read_count, operand);
    for (int i = 0; i < g->count; i++) {
        nodes[i] = g->members[i]->node;
        result[i] = f->info[nodes[i]->id].tensor;
        APPEND(k->writes, k->write_count, result[i]);
    }
    k->kind = KERNEL_ROWS;
    k->rows = rows_plan(nodes, g->count, operand, result, f->around != NULL);
}

/* ---- arguments, titles */

static void add_argument(const Tensor ***list, int *count, const Tensor *tensor)
{
    for (int i = 0; i < *count; i++)
        if ((*list)[i] == tensor)
            return;
    APPEND(*list, *count, tensor);
}

static void find_arguments(Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++) {
        const Nest *nest = &k->nests[i];
        for (int j = 0; j < nest->exprs->count; j++)
            if (nest->exprs->all[j]->kind == X_LOAD)
                add_argument(&k->reads, &k->read_count, nest->exprs->all[j]->tensor);
        for (int j = 0; j < nest->store_count; j++) {
            add_argument(&k->writes, &k->write_count, nest->stores[j].tensor);
            if (nest->stores[j].part)
                add_argument(&k->reads, &k->read_count, nest->stores[j].tensor);
        }
    }
}

/* "layer1.bn: running_mean, add, where [n, 14, 14, 64] f32" */
static const char *title_of(const FusionGroup *g)
{
    Text t = {0};
    const Node *first = g->members[0]->node;
    if (first->path && *first->path)
        text_add(&t, "%s: ", first->path);
    const char *last = "";
    int shown = 0, left = 0;
    for (int i = 0; i < g->count; i++) {
        const FusionRoot *r = g->members[i];
        const char *name = r->target ? r->target->name : node_word(r->node);
        if (strcmp(name, last) == 0)
            continue;
        last = name;
        if (shown < 6)
            text_add(&t, "%s%s", shown++ ? ", " : "", name);
        else
            left++;
    }
    if (left)
        text_add(&t, " and %d more", left);
    const Node *shape = g->shape->node;
    const Shape *s = g->shape->reduces && shape->op != OP_EINSUM ? &shape->in[0]->shape : &shape->shape;
    g->kernel->extent_text =
        format("%s%s %s", g->shape->samples ? s->rank ? "[n, " : "[n" : "[", shape_text(s) + 1, dtype_name(shape->dtype));
    text_add(&t, "  %s", g->kernel->extent_text);
    return text_take(&t);
}

enum { SMALL_ITERATIONS = 1024 };

static bool is_small(const Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++) {
        const Exprs *x = k->nests[i].exprs;
        int64_t iterations = 1;
        for (int j = 0; j < x->axis_count; j++) {
            if (x->axis[j].samples || x->axis[j].kind != AXIS_PLAIN || x->axis[j].extent > SMALL_ITERATIONS)
                return false;
            iterations *= x->axis[j].extent;
        }
        if (iterations > SMALL_ITERATIONS)
            return false;
    }
    return k->nest_count > 0;
}

void fuse_describe(FusionGroup *g)
{
    Kernel *k = g->kernel;
    k->small = is_small(k);
    k->at = g->members[0]->at;
    k->title = title_of(g);
}

void fuse_forget(FusionGroup *g)
{
    if (g->memory)
        memory_free(g->memory);
    g->memory = NULL;
    g->kernel = NULL;
}

static void build_nests(Fusion *f, FusionGroup *g, Kernel *k)
{
    RootKind kind = g->members[0]->kind;
    (kind == ROOT_SCATTER ? build_scatter : kind == ROOT_CONCAT ? build_concat : build_loops)(f, g, k);
}

static void build_scan(Fusion *f, FusionGroup *g, Kernel *k)
{
    (void)k;
    fuse_build_scan(f, g);
}

static void (*const BUILD[KERNEL_KINDS])(Fusion *, FusionGroup *, Kernel *) = {
    [KERNEL_NESTS] = build_nests,         [KERNEL_CONTRACTION] = build_contraction,
    [KERNEL_ATTENTION] = build_attention, [KERNEL_ROWS] = build_rows,
    [KERNEL_SCAN] = build_scan,
};

void fuse_build(Fusion *f, FusionGroup *g)
{
    fuse_forget(g);
    Memory *outer = f->around ? NULL : memory_use(g->memory = memory_new());
    Kernel *k = g->kernel = NEW(Kernel);
    k->exact = f->graph->model->exact > 0;
    const FusionRoot *first = g->members[0];
    bool own = first->kind == ROOT_CONTRACTION || first->kind == ROOT_SCAN;
    BUILD[own ? fuse_kind(first->node->op) : KERNEL_NESTS](f, g, k);
    if (k->nest_count)
        find_arguments(k);
    f->program->target->map_threads(k, f->graph->model, f->around != NULL);
    fuse_describe(g);
    if (outer)
        memory_use(outer);
}
