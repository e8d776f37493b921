/* map_threads.c: divides a kernel among the workers of a thread pool.
 *
 * In: a kernel with its nests and arguments. Out: kernel->split, and in each nest the axis whose iterations the threads
 * divide. Threads may not write the same element, and none reads what another writes in the same call:
 *
 *   samples    every nest iterates over samples and stores only elements of the iteration's sample
 *   sums       a reduction axis (the samples; else the longest of a large sum) is divided: each thread has partial sums in
 *              its workspace; a separate function, kernel_finish, adds them up and executes the OUTER stores
 *   range      without samples: an axis that the offsets of all stores depend on
 *   workers    the rest: a parallel axis in every nest (statistics of groups of samples; sums with very many results); a
 *              scatter: threads own rows and columns of the table, in both its nests, so that neither waits for the other
 * A kernel that cannot be divided, or has too little work, is executed by one thread. */
#include "compiler/target/host/host.h"
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"
#include "runtime/abi/mgpu.h"

enum {
    MANY_PARTS = 16,           /* an axis with this many parts is long enough */
    MOST_PARTIAL = 512 * 1024, /* bytes of partial sums in each thread's workspace */
    SMALL_TABLE = 1 << 18,     /* elements of a table that fits into the caches */
    FEW_ROWS = 1024            /* rows of a table in which one row may get most of the additions */
};

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static double iterations(const Nest *nest)
{
    double count = 1;
    for (int i = 0; i < nest->exprs->axis_count; i++)
        count *= (double)nest->exprs->axis[i].extent;
    return count;
}

int64_t nest_result_iterations(const Nest *nest)
{
    int64_t count = 1;
    for (int i = 0; i < nest->exprs->axis_count; i++)
        count *= nest->exprs->axis[i].reduction == (nest->row_sum_count > 0) ? nest->exprs->axis[i].extent : 1;
    return nest->fold ? nest->fold : count;
}

static int samples_axis(const Nest *nest)
{
    for (int i = 0; i < nest->exprs->axis_count; i++)
        if (nest->exprs->axis[i].kind == AXIS_PLAIN && nest->exprs->axis[i].samples)
            return i;
    return -1;
}

static int groups_axis(const Nest *nest)
{
    for (int i = 0; i < nest->exprs->axis_count; i++)
        if (nest->exprs->axis[i].kind == AXIS_GROUPS)
            return i;
    return -1;
}

/* Returns true if iterations of the axis store to different elements. inner: ignores OUTER stores. */
static bool stores_move_with(const Nest *nest, int axis, bool inner)
{
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (!(inner && s->outer) && (s->add || !(s->offset->axes >> axis & 1)))
            return false;
    }
    return true;
}

static void divide(Nest *nest, int axis) { nest->divided = axis + 1; }

/* ---- samples, and sums */

/* Returns true if the samples axis is parallel and all stored tensors have samples. */
static bool by_sample(const Nest *nest)
{
    int axis = samples_axis(nest);
    if (axis < 0 || groups_axis(nest) >= 0 || nest->exprs->axis[axis].reduction)
        return false;
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].tensor->has_samples)
            return false;
    return true;
}

/* Returns true if the results can be partial: one pass, only sums or maxima, and the pass's stores depend on the axis. */
static bool may_be_partial(const Nest *nest, int axis)
{
    const Exprs *x = nest->exprs;
    if (!x->axis[axis].reduction || !nest->reduction_count || nest->passes > 1)
        return false;
    for (int i = 0; i < x->axis_count; i++)
        if (x->axis[i].kind != AXIS_PLAIN || (x->axis[i].samples && !x->axis[i].reduction))
            return false;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].kind == REDUCE_ARGMAX || nest->reductions[i].value->pass)
            return false;
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass)
            return false;
    return stores_move_with(nest, axis, true);
}

/* Assigns workspace offsets to the partial sums; returns false if there are too many. */
static bool place_partial(Kernel *k, Nest *nest, int axis)
{
    int64_t parallel = nest_result_iterations(nest);
    bool merges = nest_has_moments(nest);
    if (parallel > MOST_PARTIAL)
        return false;
    int64_t bytes = merges ? MOMENTS * whole_lines(parallel * dtype_bytes(F64)) : 0;
    for (int i = 0; i < nest->reduction_count && !merges; i++) {
        Reduction *r = &nest->reductions[i];
        r->partial = bytes;
        bytes += whole_lines(parallel * dtype_bytes(reduction_type(r)));
    }
    if (!bytes || bytes > MOST_PARTIAL)
        return false;
    nest->partial = true;
    nest->merges = merges;
    divide(nest, axis);
    nest_widen(nest);
    k->partial_bytes = bytes;
    return true;
}

/* ---- parallel axes */

/* Returns the grain of the axis: parts at its multiples share no cache line of a stored tensor. */
static int64_t line_grain(const Nest *nest, int axis)
{
    int64_t grain = 1;
    for (int i = 0; i < nest->store_count; i++) {
        int64_t f = expr_factor(nest->stores[i].offset, axis),
                bytes = (f < 0 ? -f : f) * dtype_bytes(nest->stores[i].tensor->dtype);
        int64_t steps = LINE_BYTES / gcd(LINE_BYTES, bytes % LINE_BYTES);
        if (bytes && steps > grain)
            grain = steps;
    }
    return grain;
}

/* Returns a parallel axis that all stores depend on: the outermost that is long enough, else the longest; -1: none. */
static int parallel_axis(const Nest *nest)
{
    const Exprs *x = nest->exprs;
    int best = -1;
    int64_t most = 0;
    for (int i = 0; i < x->axis_count && most < MANY_PARTS; i++) {
        const Axis *a = &x->axis[i];
        if (a->reduction || a->kind != AXIS_PLAIN || a->samples || a->extent < 2 || !stores_move_with(nest, i, false))
            continue;
        int64_t grain = line_grain(nest, i), parts = (a->extent + grain - 1) / grain;
        if (parts > most) {
            best = i;
            most = parts;
        }
    }
    return best;
}

static int longest_reduction(const Nest *nest)
{
    const Exprs *x = nest->exprs;
    int best = -1;
    for (int i = 0; i < x->axis_count; i++) /* the outermost long one: its parts are contiguous */
        if (x->axis[i].reduction && (best < 0 || (x->axis[best].extent < MANY_PARTS && x->axis[i].extent > x->axis[best].extent)))
            best = i;
    return best;
}

static void split_range(Kernel *k, const Nest *nest, int axis)
{
    int64_t grain = line_grain(nest, axis), extent = nest->exprs->axis[axis].extent;
    double each = iterations(nest) / (double)extent;
    int64_t part = CHIP[PROCESSOR_HOST].part_iterations, least = each >= (double)part ? 1 : (int64_t)((double)part / each);
    k->split = MGPU_SPLIT_RANGE;
    k->extent = extent;
    k->grain = (least + grain - 1) / grain * grain;
}

static bool without_samples(Kernel *k)
{
    if (k->nest_count != 1 || iterations(k->nests) < CHIP[PROCESSOR_HOST].one_thread_iterations)
        return false;
    Nest *nest = k->nests;
    int parallel = parallel_axis(nest), reduction = longest_reduction(nest);
    bool many = parallel >= 0 && nest->exprs->axis[parallel].extent >= MANY_PARTS * line_grain(nest, parallel);
    if (!many && reduction >= 0 && may_be_partial(nest, reduction) && place_partial(k, nest, reduction)) {
        split_range(k, nest, reduction);
        return true;
    }
    if (parallel < 0)
        return false;
    divide(nest, parallel);
    split_range(k, nest, parallel);
    return true;
}

/* ---- scatter: one nest copies a table, the other adds values to its rows */

static bool is_axis(const Expr *e, int axis) { return e->kind == X_AXIS && e->constant == axis; }

/* Returns true if an axis, or `term`, is a digit of the offset, in mixed radix: the other terms are multiples of factor * extent,
 * or add up to less than factor. A table without rows has no digits. */
bool offset_is_digit(const Expr *offset, int axis, const Expr *term, int64_t factor, int64_t extent)
{
    if (extent < 1)
        return false;
    __int128 below = offset->kind == X_SUM ? offset->constant : 0;
    for (int i = 0; offset->kind == X_SUM && i < offset->count; i++) {
        const Expr *in = offset->in[i];
        int64_t f = offset->factor[i];
        if ((term ? in == term : is_axis(in, axis)) || f % (factor * extent) == 0)
            continue;
        if (f < 0 || in->low < 0)
            return false;
        below += (__int128)f * in->high;
    }
    return below >= 0 && below < factor;
}

static int axis_with(const Nest *nest, int64_t factor, int64_t extent)
{
    for (int i = 0; i < nest->exprs->axis_count; i++)
        if (nest->exprs->axis[i].extent == extent && expr_factor(nest->stores[0].offset, i) == factor &&
            offset_is_digit(nest->stores[0].offset, i, NULL, factor, extent))
            return i;
    return -1;
}

/* Splits an axis so that the digit becomes an axis. */
static int cut_out(Nest *nest, int64_t factor, int64_t extent)
{
    for (int i = 0; i < nest->exprs->axis_count && nest->exprs->axis_count + 2 <= MAX_AXES; i++) {
        int64_t f = expr_factor(nest->stores[0].offset, i), e = nest->exprs->axis[i].extent;
        if (nest->exprs->axis[i].samples || f <= 0 || factor % f || e * f % (factor * extent))
            continue;
        if (factor / f > 1)
            nest_split_axis(nest, i, factor / f);
        if (e * f / (factor * extent) > 1)
            nest_split_axis(nest, i, extent);
        break;
    }
    return axis_with(nest, factor, extent);
}

/* Returns the axis of the table that is the digit, after a split if necessary; -1: none. */
static int axis_of_digit(Nest *copy, int64_t factor, int64_t extent)
{
    int axis = axis_with(copy, factor, extent);
    return axis < 0 ? cut_out(copy, factor, extent) : axis;
}

const Expr *offset_row_term(const Expr *offset, int64_t *factor)
{
    *factor = 1;
    if (offset->kind == X_INDEX_OF)
        return offset->axes ? offset : NULL;
    for (int i = 0; offset->kind == X_SUM && i < offset->count; i++)
        if (offset->in[i]->kind == X_INDEX_OF) {
            *factor = offset->factor[i];
            return offset->in[i]->axes ? offset->in[i] : NULL;
        }
    return NULL;
}

/* Returns the tensor with the row numbers, if they are only cast; else NULL. */
static const Tensor *index_tensor(const Expr *row)
{
    const Expr *e = row->in[0];
    while (e->kind == X_OP && e->op == OP_CAST)
        e = e->in[0];
    return e->kind == X_LOAD && !dtype_is_float(e->tensor->dtype) && e->tensor->dtype != BOOL ? e->tensor : NULL;
}

/* Returns the axis of the table that iterates over all rows, one after the other; -1: none. A large table of many rows is divided
 * into rows only: clearing it is most of the work, and parts of rows are slow to write (bench/scatter.c, 50257 rows of 64, two
 * threads: 0.56 ms by columns, 0.31 by rows). */
static int axis_of_rows(const Nest *copy, int64_t factor, int64_t extent)
{
    for (int i = 0; i < copy->exprs->axis_count; i++) {
        int64_t f = expr_factor(copy->stores[0].offset, i);
        if (!copy->exprs->axis[i].samples && f > 0 && factor % f == 0 && copy->exprs->axis[i].extent * f == factor * extent)
            return i;
    }
    return -1;
}

static bool split_scatter(Kernel *k)
{
    if (k->nest_count != 2 || !k->nests[1].stores[0].add || k->nests[0].store_count != 1 || k->nests[1].store_count != 1)
        return false;
    Nest *copy = &k->nests[0], *add = &k->nests[1];
    const Expr *offset = add->stores[0].offset;
    int64_t row_factor, factor = 0, extent = 0;
    const Expr *row = offset_row_term(offset, &row_factor);
    bool digit = row && row_factor > 0 && offset_is_digit(offset, -1, row, row_factor, row->constant);
    bool large = digit && iterations(copy) > SMALL_TABLE && row->constant > FEW_ROWS;
    int whole = large ? axis_of_rows(copy, row_factor, row->constant) : -1, best = -1;
    for (int i = 0; i < add->exprs->axis_count && whole < 0; i++) {
        const Axis *a = &add->exprs->axis[i];
        int64_t f = expr_factor(offset, i);
        if (!a->samples && a->extent > 1 && f > 0 && offset_is_digit(offset, i, NULL, f, a->extent) &&
            (best < 0 || a->extent > add->exprs->axis[best].extent))
            best = i;
    }
    if (best >= 0) {
        factor = expr_factor(offset, best);
        extent = add->exprs->axis[best].extent;
        best = axis_of_digit(copy, factor, extent) < 0 ? -1 : best;
    }
    if (!digit || (whole < 0 && axis_of_digit(copy, row_factor, row->constant) < 0))
        row = NULL;
    if (best < 0 && !row)
        return false;
    if (best >= 0) {
        divide(copy, axis_with(copy, factor, extent));
        divide(add, best);
        copy->grain = add->grain = line_grain(add, best);
    }
    if (row) {
        copy->owned = (whole < 0 ? axis_with(copy, row_factor, row->constant) : whole) + 1;
        copy->owned_iterations = copy->exprs->axis[copy->owned - 1].extent / row->constant;
        add->row = row;
        add->stores[0].guard = NULL; /* rows that a thread owns are in range */
        k->owned_rows = row->constant;
        k->owned_columns = best >= 0 ? extent : 1;
        k->column_grain = best >= 0 ? add->grain : 1;
        k->index = index_tensor(row);
    }
    return true;
}

/* ---- workers */

static bool split_workers(Kernel *k)
{
    bool samples = false;
    double total = 0;
    for (int i = 0; i < k->nest_count; i++) {
        samples = samples || samples_axis(&k->nests[i]) >= 0 || groups_axis(&k->nests[i]) >= 0;
        total += iterations(&k->nests[i]);
    }
    if (!samples && total < CHIP[PROCESSOR_HOST].one_thread_iterations)
        return false;
    if (split_scatter(k))
        return true;
    for (int i = 0; i < k->nest_count; i++) {
        Nest *nest = &k->nests[i];
        int groups = groups_axis(nest), axis = groups >= 0 ? groups : parallel_axis(nest);
        if (axis < 0 ||
            (groups >= 0 && !stores_move_with(nest, groups + 1, false))) /* groups + 1: the axis of a group's samples */
            return false;
        divide(nest, axis);
        nest->grain = groups >= 0 ? 1 : line_grain(nest, axis);
    }
    return k->nest_count > 0;
}

void host_map_threads(Kernel *k, bool in_scan)
{
    k->split = MGPU_SPLIT_NONE;
    k->partial_bytes = k->owned_rows = 0;
    if (k->contraction || !k->nest_count)
        return;
    bool each = true;
    for (int i = 0; i < k->nest_count; i++)
        each = each && by_sample(&k->nests[i]);
    if (each) {
        k->split = MGPU_SPLIT_SAMPLES;
        for (int i = 0; i < k->nest_count; i++)
            divide(&k->nests[i], samples_axis(&k->nests[i]));
        return;
    }
    if (in_scan)
        return;
    int axis = samples_axis(k->nests);
    if (k->nest_count == 1 && axis >= 0 && may_be_partial(k->nests, axis) && place_partial(k, k->nests, axis)) {
        k->split = MGPU_SPLIT_SAMPLES;
        return;
    }
    bool samples = false;
    for (int i = 0; i < k->nest_count; i++)
        samples = samples || samples_axis(&k->nests[i]) >= 0 || groups_axis(&k->nests[i]) >= 0;
    if (!samples && without_samples(k))
        return;
    if (split_workers(k)) {
        k->split = MGPU_SPLIT_WORKERS;
        return;
    }
    for (int i = 0; i < k->nest_count; i++)
        k->nests[i].divided = 0;
}
