/* map_threads.c: how the threads of a GPU share a kernel's nests.
 *
 * In: a kernel with its nests. Out: nest->mapping, nest->partial and kernel->partial_bytes. The choice depends only on shapes,
 * and on the samples of a micro-batch if the model gives them: all GPUs compute the same numbers.
 *
 *   vectors     where the innermost axis is contiguous in memory, a thread accesses 16 bytes of it at once; the rest of that
 *               axis counts vectors
 *   iterations  all axes are parallel, or there are few reduction iterations, or more than enough parallel ones
 *   groups      the innermost axis is a reduction axis: neighbouring threads read neighbouring elements of a row
 *   columns     it is parallel: neighbouring threads read neighbouring columns
 *   partial     few results of many iterations: blocks take slices of reduction iterations, a second function adds them up */
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/cuda.h"

#include <stdlib.h>

enum {
    VECTOR_ITERATIONS = 4096, /* least iterations of a nest that gets vectors */
    LONG_WITH_TAIL = 256,     /* least row that may end with a partial vector */
    ONE_THREAD_ROW = 8,       /* most reduction iterations for one thread: of a row, */
    ONE_THREAD_COLUMN = 16,   /* of a column */
    MANY_THREADS = 16384,     /* so many threads keep a GPU busy */
    MANY_GROUPS = 1024,       /* so many groups of a warp keep a GPU busy */
    MANY_WARPS = 2048,        /* warps that own rows of a table */
    STEPS = 4,                /* least steps of a thread of a group */
    LONG_ROW = 1024,          /* steps of a row that needs more than a warp */
    REGISTER_STEPS = 8,       /* most steps of a row that a thread keeps in registers between passes, */
    REGISTER_VALUES = 32,     /* and most values */
    STEPS_OF_PARTIAL = 4,     /* least steps of a thread that computes a partial result, */
    STEPS_OF_COLUMNS = 8,  /* the same for columns, which a thread loads several at a time (cuda/nest.c), if there are enough */
    MANY_PARTIALS = 256,   /* with so many partial results */
    PARTIALS = 512,        /* most partial results of all iterations, unless each has only one */
    ROWS_OF_PARTIAL = 2,   /* least rows of a group of threads, whose sums across are one partial result */
    LONG_BYTES = 32 << 20, /* moved by a kernel that takes ten microseconds or more */
    REGISTER_SUMS = 48,    /* most sums across of a thread; with 64, registers are spilled */
    COLUMNS = 32           /* most neighbouring columns of a block */
};

/* Returns the most samples of a device; 0: the model does not say. */
/* Returns how many groups of `size` hold `count`. */
static int64_t groups_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

static int64_t most_samples(const Model *m)
{
    int64_t pieces = m->accumulate > 1 ? m->accumulate : 1, group = m->group > 1 ? m->group : 1;
    return groups_of(groups_of(m->batch, pieces), group) * group;
}

static double iterations(const Nest *nest, bool reduction, int64_t samples)
{
    double count = 1;
    for (int i = 0; i < nest->exprs->axis_count; i++) {
        const Axis *a = &nest->exprs->axis[i];
        if (a->reduction != reduction)
            continue;
        count *= a->kind == AXIS_GROUPS ? (double)groups_of(samples, a->group) : (double)a->extent;
        count *= a->kind == AXIS_PLAIN && a->samples ? (double)samples : 1;
    }
    return count;
}

/* ---- narrow indices */

typedef struct IndexRange {
    double low, high;
    bool unbounded;
} IndexRange; /* unbounded: it depends on loaded numbers */

static IndexRange index_range(const Exprs *x, const Expr *e, int64_t samples)
{
    IndexRange r = {0};
    switch (e->kind) {
    case X_AXIS: {
        const Axis *a = &x->axis[e->constant];
        r.high = a->kind == AXIS_PLAIN ? (double)a->extent * (a->samples ? (double)samples : 1) : (double)samples;
        return r;
    }
    case X_SUM:
        r.low = r.high = (double)e->constant;
        for (int i = 0; i < e->count; i++) {
            IndexRange in = index_range(x, e->in[i], samples);
            double f = (double)e->factor[i];
            r.low += f * (f > 0 ? in.low : in.high);
            r.high += f * (f > 0 ? in.high : in.low);
            r.unbounded = r.unbounded || in.unbounded;
        }
        return r;
    case X_DIV:
    case X_MOD: return index_range(x, e->in[0], samples);
    case X_SAFE:
        r = index_range(x, e->in[0], samples);
        r.high = r.high > (double)e->constant ? r.high : (double)e->constant;
        return r;
    default: return (IndexRange){.unbounded = true};
    }
}

bool cuda_index_is_64_bit(const Nest *nest, const Expr *e)
{
    return !nest->mapping.narrow || index_range(nest->exprs, e, 1).unbounded;
}

/* Returns true if all indices, and the counts of iterations with one more step, fit into 31 bits. */
static bool is_narrow(const Nest *nest, int64_t samples)
{
    const Exprs *x = nest->exprs;
    const double most = 1 << 30;
    for (int i = 0; i < x->axis_count && !samples; i++)
        if (x->axis[i].samples || x->axis[i].kind != AXIS_PLAIN)
            return false;
    for (int i = 0; i < x->count; i++) {
        if (!expr_is_index(x->all[i]))
            continue;
        IndexRange r = index_range(x, x->all[i], samples);
        if (r.low < -most || r.high > most) /* indices that depend on loaded numbers have 64 bits anyway */
            return false;
    }
    return iterations(nest, false, samples) * iterations(nest, true, samples) <= most;
}

/* ---- vectors */

static bool is_multiple(const Expr *e, int64_t of)
{
    if (of == 1)
        return true;
    if (e->kind == X_SAFE)
        return e->constant % of == 0 && is_multiple(e->in[0], of);
    if (e->kind != X_SUM || e->constant % of)
        return false;
    for (int i = 0; i < e->count; i++) {
        int64_t common = of;
        while (e->factor[i] % common)
            common /= 2;
        if (!is_multiple(e->in[i], of / common))
            return false;
    }
    return true;
}

/* Returns the index at which a vector begins, if the lane is a term of the index with factor 1 and occurs nowhere else in it;
 * else NULL. */
static Expr *vector_base(Exprs *x, Expr *index, int64_t count)
{
    int lane = x->axis_count - 1;
    if (!(index->axes >> lane & 1) || expr_factor(index, lane) != 1)
        return NULL;
    Expr *base = expr_add(x, index, expr_scale(x, expr_axis(x, lane), -1));
    return !(base->axes >> lane & 1) && is_multiple(base, count) ? base : NULL;
}

static Expr *base_of(const Nest *nest, const Expr *index)
{
    return nest->mapping.vector > 1 && index->id < nest->mapping.bases ? nest->mapping.base[index->id] : NULL;
}

const Expr *cuda_vector(const Nest *nest, const Expr *e)
{
    int lane = nest->exprs->axis_count - 1;
    if (e->kind == X_LOAD)
        return e->count == 1 && tensor_is_aligned(e->tensor) ? base_of(nest, e->in[0]) : NULL;
    bool randoms = e->kind == X_RANDOM && nest->mapping.vector % 4 == 0; /* four are computed together */
    return randoms && !(e->other & 1 && e->in[1]->axes >> lane & 1) ? base_of(nest, e->in[0]) : NULL;
}

const Expr *cuda_stored_vector(const Nest *nest, const Store *s)
{
    int lane = nest->exprs->axis_count - 1;
    bool guarded = s->guard && s->guard->axes >> lane & 1;
    return tensor_is_aligned(s->tensor) && !guarded ? base_of(nest, s->offset) : NULL;
}

/* widest: bytes, of the accesses with most iterations */
typedef struct Accesses {
    int contiguous, aligned, widest;
    double most;
} Accesses;

static void count_access(Accesses *a, Exprs *x, const Tensor *t, Expr *offset, int64_t count)
{
    int lane = x->axis_count - 1;
    double iterations = 1;
    if (!(offset->axes >> lane & 1) || expr_factor(offset, lane) != 1)
        return;
    a->contiguous++;
    if (!tensor_is_aligned(t) || !vector_base(x, offset, count))
        return;
    for (int i = 0; i < lane; i++)
        if (offset->axes >> i & 1)
            iterations *= (double)x->axis[i].extent * (x->axis[i].samples ? SOME_SAMPLES : 1);
    int bytes = dtype_bytes(t->dtype);
    a->aligned++;
    a->widest = iterations > a->most || (iterations == a->most && bytes > a->widest) ? bytes : a->widest;
    a->most = iterations > a->most ? iterations : a->most;
}

static bool vector_fits(const Nest *nest, int64_t count)
{
    Exprs *x = nest->exprs;
    Accesses a = {0};
    for (int i = 0, all = x->count; i < all; i++)
        if (x->all[i]->kind == X_LOAD && x->all[i]->count == 1)
            count_access(&a, x, x->all[i]->tensor, x->all[i]->in[0], count);
    for (int i = 0; i < nest->store_count; i++)
        count_access(&a, x, nest->stores[i].tensor, nest->stores[i].offset, count);
    return a.aligned && 2 * a.aligned >= a.contiguous && a.widest * count <= VECTOR_BYTES;
}

/* A long row of reduction iterations may end with a partial vector, which is computed separately. */
static bool may_have_tail(const Nest *nest, int64_t count)
{
    Exprs *x = nest->exprs;
    int lane = x->axis_count - 1;
    const bool *wanted = nest_needed(nest);
    bool may = !nest->row_sum_count && x->axis[lane].reduction && !x->axis[lane].samples &&
               x->axis[lane].extent >= LONG_WITH_TAIL && !nest->columns;
    for (int i = 0; i < lane; i++)
        may = may && !x->axis[i].reduction;
    for (int i = 0, all = x->count; may && i < all; i++) {
        const Expr *e = x->all[i];
        if (!wanted[i] || !(e->axes >> lane & 1))
            continue;
        may = e->kind != X_RANDOM;
        if (e->kind == X_LOAD)
            may = e->count == 1 && tensor_is_aligned(e->tensor) && vector_base(x, e->in[0], count);
    }
    for (int i = 0; may && i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        bool guarded = s->guard && s->guard->axes >> lane & 1;
        if (s->offset->axes >> lane & 1)
            may = !s->add && !guarded && tensor_is_aligned(s->tensor) && vector_base(x, s->offset, count);
    }
    return may;
}

/* Splits the innermost axis into vectors and their lanes. */
static void make_vectors(Nest *nest)
{
    Exprs *x = nest->exprs;
    int inner = x->axis_count - 1, vector = 8;
    if (inner < 0 || x->axis_count == MAX_AXES || x->axis[inner].kind != AXIS_PLAIN)
        return;
    int64_t extent = x->axis[inner].extent;
    while (vector > 1 && ((extent % vector && !may_have_tail(nest, vector)) || !vector_fits(nest, vector)))
        vector /= 2;
    if (vector == 1)
        return;
    x->axis[inner].extent = groups_of(extent, vector) * vector;
    nest_split_axis(nest, inner, vector);
    ThreadMapping *s = &nest->mapping;
    s->vector = vector;
    s->tail_lanes = (int)(extent % vector);
    x = nest->exprs;
    s->bases = x->count;
    s->base = NEW_ARRAY(Expr *, s->bases);
    for (int i = 0; i < s->bases; i++)
        if (expr_is_index(x->all[i]))
            s->base[i] = vector_base(x, x->all[i], vector);
}

/* ---- sharing */

/* Returns true if there is one pass of sums and maxima, whose results have no samples. */
static bool may_be_partial(const Nest *nest)
{
    for (int i = 0; i < nest->exprs->axis_count; i++) {
        const Axis *a = &nest->exprs->axis[i];
        if (a->kind != AXIS_PLAIN || (a->samples && !a->reduction))
            return false;
    }
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].kind == REDUCE_ARGMAX || nest->reductions[i].value->pass)
            return false;
    return nest->passes == 1 && nest->reduction_count;
}

/* Plans partial results of at least so many steps. each: iterations, or vectors, that a block computes in one step; whole: there
 * must be none. */
static void map_partial(Nest *nest, double blocks, double reduction, int steps, int64_t each, bool whole)
{
    ThreadMapping *s = &nest->mapping;
    if (whole || !may_be_partial(nest) || 2 * blocks > PARTIALS)
        return;
    s->slice = (int)(steps * each);
    double parts = reduction / (double)s->slice;
    for (int i = 0; i < nest->exprs->axis_count; i++) /* with an unknown number of samples, slices are counted at run time */
        parts = nest->exprs->axis[i].samples ? PARTIALS : parts;
    parts = parts > PARTIALS / blocks ? PARTIALS / blocks : parts;
    s->slices = parts >= 2 ? (int)parts : 0;
}

/* Returns true if all lanes go through a row in the same few steps. */
static bool may_unroll(const Nest *nest, double steps)
{
    bool known = nest->passes > 1 && steps <= REGISTER_STEPS && steps * nest->mapping.vector <= REGISTER_VALUES;
    for (int i = 0; i < nest->exprs->axis_count; i++)
        known = known &&
                !(nest->exprs->axis[i].reduction && (nest->exprs->axis[i].samples || nest->exprs->axis[i].kind != AXIS_PLAIN));
    return known;
}

static void map_groups(Nest *nest, double parallel, double reduction, bool whole)
{
    ThreadMapping *s = &nest->mapping;
    double steps = reduction / s->vector;
    bool again = nest->passes > 1 && steps > REGISTER_STEPS * 32; /* a warp would have to read the row again */
    if (reduction <= ONE_THREAD_ROW)
        return;
    s->kind = MAP_GROUPS;
    if (steps > LONG_ROW || again || (4 * steps > LONG_ROW && parallel < MANY_GROUPS))
        s->lanes = CUDA_THREADS;
    while (s->lanes < 32 && s->lanes * STEPS < steps)
        s->lanes *= 2;
    if (s->lanes == CUDA_THREADS)
        map_partial(nest, parallel, steps, STEPS_OF_PARTIAL, CUDA_THREADS, whole);
    steps = (double)groups_of((int64_t)steps, s->lanes);
    s->unrolled = !s->tail_lanes && may_unroll(nest, steps) ? (int)steps : 0;
}

/* A thread reads the same elements of all rows, and has a sum across for each of them. */
static void map_row_sums(Nest *nest, double reduction)
{
    ThreadMapping *s = &nest->mapping;
    int steps = (int)reduction / s->vector;
    s->kind = MAP_GROUPS;
    while (s->lanes < 32 && s->lanes * STEPS < steps)
        s->lanes *= 2;
    if ((steps + s->lanes - 1) / s->lanes * s->vector * nest->row_sum_count > REGISTER_SUMS)
        s->lanes = CUDA_THREADS;
    s->unrolled = (steps + s->lanes - 1) / s->lanes;
    s->slice = ROWS_OF_PARTIAL * (CUDA_THREADS / s->lanes);
    s->slices = PARTIALS;
}

/* Returns the columns of one block: a power of two that leaves few threads without a column. */
static int columns_of(int64_t extent)
{
    int best = 1;
    for (int side = 1; side <= COLUMNS; side *= 2) {
        int64_t used = groups_of(extent, side) * side;
        if (side <= 8 || (double)extent >= 0.85 * (double)used)
            best = side;
        if (side >= extent)
            break;
    }
    return best;
}

static void map_columns(Nest *nest, double parallel, double reduction, int64_t samples, bool whole)
{
    ThreadMapping *s = &nest->mapping;
    const Exprs *x = nest->exprs;
    int column = x->axis_count - 1 - (s->vector > 1);
    if (reduction <= ONE_THREAD_COLUMN || parallel / s->vector >= MANY_THREADS)
        return;
    s->kind = MAP_COLUMNS;
    int64_t extent = x->axis[column].extent * (x->axis[column].samples ? samples : 1);
    s->lanes = columns_of(extent);
    double blocks = parallel / s->vector / (double)extent * (double)groups_of(extent, s->lanes);
    int64_t each = CUDA_THREADS / s->lanes;
    bool many = reduction >= (double)(STEPS_OF_COLUMNS * MANY_PARTIALS * each);
    map_partial(nest, blocks, reduction, many ? STEPS_OF_COLUMNS : STEPS_OF_PARTIAL, each, whole);
}

/* in_scan: by one block; with_others: with other nests; small: vectors for any number of iterations */
static void map_nest(Nest *nest, int64_t most, bool in_scan, bool with_others, bool small)
{
    int64_t samples = most ? most : SOME_SAMPLES;
    double parallel = iterations(nest, false, samples), reduction = iterations(nest, true, samples);
    nest->mapping = (ThreadMapping){.kind = MAP_ITERATIONS, .lanes = 1, .vector = 1};
    if ((small || parallel * reduction >= VECTOR_ITERATIONS) && !in_scan && !nest->serial)
        make_vectors(nest);
    if (nest->row_sum_count)
        map_row_sums(nest, reduction);
    else if (nest->columns)
        map_columns(nest, parallel, reduction, samples, in_scan || with_others);
    else if (reduction > 1)
        map_groups(nest, parallel, reduction, in_scan || with_others);
    nest->mapping.narrow = is_narrow(nest, most);
}

static void place_partial(Kernel *k, Nest *nest)
{
    int64_t count = nest_result_iterations(nest) * nest->mapping.slices;
    nest->partial = nest->mapping.slices > 0 && !nest->row_sum_count;
    for (int i = 0; i < nest->reduction_count; i++) {
        Reduction *r = &nest->reductions[i];
        if (!nest->partial && !r->over_rows)
            continue;
        r->partial = k->partial_bytes;
        k->partial_bytes += whole_lines(count * dtype_bytes(reduction_type(r)));
    }
}

/* ---- a table that is added to */

static bool is_scatter(const Kernel *k) { return k->nest_count == 2 && k->nests[1].stores[0].add; }

bool cuda_finishes(const Kernel *k) { return k->partial_bytes || is_scatter(k); }

/* Returns true if iterations that differ along the axis add to different elements of the table. */
static bool is_parallel(const Nest *add, int axis)
{
    const Expr *offset = add->stores[0].offset;
    int64_t f = expr_factor(offset, axis), extent = add->exprs->axis[axis].extent;
    if (add->exprs->axis[axis].samples) /* the outermost axis */
        extent = INT64_MAX / (f > 0 ? f : 1);
    return f > 0 && offset_is_digit(offset, axis, NULL, f, extent);
}

/* The second function of a scatter adds: axes along which elements differ are parallel, the others are executed in order. If
 * there are few parallel iterations, warps own rows. */
static void map_scatter(Nest *add, int64_t most)
{
    int64_t samples = most ? most : SOME_SAMPLES, factor;
    uint32_t parallel = 0;
    int inner = add->exprs->axis_count - 1;
    if (inner >= 0 && is_parallel(add, inner) && iterations(add, false, samples) >= VECTOR_ITERATIONS)
        make_vectors(add);
    const Expr *offset = add->stores[0].offset;
    Exprs *x = add->exprs;
    for (int i = 0; i < x->axis_count; i++) {
        bool own = is_parallel(add, i);
        x->axis[i].reduction = !own;
        parallel |= own ? 1u << i : 0;
    }
    const Expr *row = offset_row_term(offset, &factor);
    double each = iterations(add, false, samples), all = iterations(add, true, samples);
    ThreadMapping *s = &add->mapping;
    bool owned = row && factor > 0 && !(row->axes & parallel) && each / s->vector < MANY_THREADS && all > ONE_THREAD_ROW &&
                 offset_is_digit(offset, -1, row, factor, row->constant);
    if (!owned)
        return;
    s->kind = MAP_ROWS;
    add->row = row;
    s->parts = (int)((each / s->vector + 31) / 32);
    for (s->owners = 1; s->owners < row->constant && s->owners * s->parts < MANY_WARPS; s->owners *= 2)
        ;
    add->stores[0].guard = NULL; /* rows that a warp owns exist */
}

/* ---- launches of several calls */

/* Returns true if each element of a variable, or of the device's own part of it, is computed once, independently of the
 * others. */
static bool is_by_element(const Kernel *k)
{
    const Nest *nest = k->nest_count == 1 ? &k->nests[0] : NULL;
    bool may = nest && !nest->reduction_count && !nest->serial && !nest->stores[0].add && !nest->stores[0].part;
    for (int i = 0; may && i < nest->exprs->axis_count; i++)
        may = nest->exprs->axis[i].kind == AXIS_PLAIN && (!nest->exprs->axis[i].samples || nest->exprs->axis[i].elements > 0);
    for (int i = 0; may && i < nest->exprs->count; i++)
        may = nest->exprs->all[i]->kind != X_RANDOM; /* it has parameters of its own */
    return may;
}

static bool updates_in_place(const Kernel *k)
{
    for (int i = 0; i < k->read_count; i++)
        if (k->reads[i]->kind == TENSOR_VARIABLE && tensor_place(k->writes, k->write_count, k->reads[i]) >= 0)
            return true;
    return false;
}

/* ---- a kernel */

void cuda_map_threads(Kernel *k, const Model *m, bool in_scan)
{
    bool small = is_by_element(k) && updates_in_place(k); /* so that one launch may contain small and large ones */
    for (int i = 0; i < k->nest_count; i++) {
        map_nest(&k->nests[i], most_samples(m), in_scan, k->nest_count > 1, small);
        place_partial(k, &k->nests[i]);
    }
    if (is_scatter(k))
        map_scatter(&k->nests[1], most_samples(m));
}

/* ---- launches */

enum { MOST_BLOCKS = 4096, FEW_BLOCKS = 64 /* of a kernel that is packed with others, besides those of partial results */ };

/* Counts the iterations of the axes as a launch does. */
static void count_iterations(const Nest *nest, bool reduction, mgpu_launch *l)
{
    const Exprs *x = nest->exprs;
    bool samples = false;
    int64_t count = 1;
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        bool lane = nest->mapping.vector > 1 && i == x->axis_count - 1;
        if (a->reduction != reduction || lane)
            continue;
        if (a->kind == AXIS_GROUPS)
            l->group = a->group;
        count *= a->extent;
        samples = samples || (a->samples && a->kind == AXIS_PLAIN) || a->kind == AXIS_GROUPS;
    }
    *(samples ? &l->iterations_per_sample : &l->iterations) = count;
}

static void nest_launch(const Nest *nest, mgpu_launch *l)
{
    const ThreadMapping *s = &nest->mapping;
    mgpu_launch reduction = {0};
    count_iterations(nest, true, &reduction);
    count_iterations(nest, false, l);
    if (s->kind == MAP_ROWS) {
        *l = (mgpu_launch){.iterations = 32 * s->owners * s->parts, .per_block = CUDA_THREADS, .most = MOST_BLOCKS};
        return;
    }
    l->per_block = s->kind == MAP_ITERATIONS ? CUDA_THREADS : s->kind == MAP_GROUPS ? CUDA_THREADS / s->lanes : s->lanes;
    l->most = MOST_BLOCKS;
    if (!s->slices)
        return;
    if (nest->row_sum_count) {
        l->per_block = s->slice;
        l->most = s->slices;
        return;
    }
    int64_t parallel = groups_of(l->iterations, l->per_block);
    l->iterations = parallel * reduction.iterations;
    l->iterations_per_sample = parallel * reduction.iterations_per_sample;
    l->per_block = s->slice;
    l->most = parallel * s->slices;
}

/* Returns the blocks of a nest without samples; 0: it has samples. */
static int64_t fixed_blocks(const Nest *nest)
{
    mgpu_launch l = {0};
    nest_launch(nest, &l);
    return l.iterations_per_sample ? 0 : groups_of(l.iterations, l.per_block);
}

/* Returns the blocks that add up partial results. */
static int64_t finish_blocks(const Nest *nest)
{
    return nest->partial || nest->row_sum_count ? groups_of(nest_result_iterations(nest), CUDA_FINISHED) : 0;
}

void cuda_map_blocks(Kernel *k)
{
    int64_t blocks = 0, finishing = 0;
    for (int i = 0; i < k->nest_count; i++) {
        ThreadMapping *s = &k->nests[i].mapping;
        s->blocks_before = is_scatter(k) ? 0 : (int)blocks;
        s->finish_before = (int)finishing;
        blocks = (blocks + fixed_blocks(&k->nests[i])) % MOST_BLOCKS;
        finishing = (finishing + finish_blocks(&k->nests[i])) % MOST_BLOCKS;
    }
}

/* Returns true if a launch for some samples has only their term of a result. */
static bool sums_samples(const Nest *nest)
{
    for (int i = 0; i < nest->exprs->axis_count; i++)
        if (nest->exprs->axis[i].reduction && nest->exprs->axis[i].samples)
            return true;
    return false;
}

bool cuda_is_small(const Kernel *k)
{
    int64_t blocks = 0;
    for (int i = 0; i < k->nest_count; i++) {
        int64_t own = fixed_blocks(&k->nests[i]);
        if (!own || k->nests[i].serial || (k->exact && sums_samples(&k->nests[i])))
            return false;
        blocks += k->nests[i].partial ? 0 : own;
    }
    return k->nest_count && blocks <= FEW_BLOCKS && !is_scatter(k);
}

bool cuda_may_join(const Kernel *k) { return is_by_element(k) && (k->nests[0].mapping.vector > 1 || !cuda_is_small(k)); }

/* Returns a grid for the largest nest; nests without samples have blocks of their own. */
static mgpu_launch common_launch(const Kernel *k)
{
    mgpu_launch most = {0};
    int64_t blocks = 0;
    for (int i = 0; i < k->nest_count; i++) {
        mgpu_launch own = {0};
        nest_launch(&k->nests[i], &own);
        blocks += fixed_blocks(&k->nests[i]);
        if (i == 0 || own.iterations_per_sample > most.iterations_per_sample)
            most = own;
    }
    if (!most.iterations_per_sample)
        most.iterations = blocks * most.per_block;
    if (k->nest_count > 1)
        most.most = MOST_BLOCKS;
    return most;
}

/* Returns the bytes of all that the kernel reads and writes, once. */
static double bytes_moved(const Kernel *k)
{
    double bytes = 0;
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *t = i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
        bytes += (double)tensor_bytes(t, t->has_samples && t->node ? model_samples(t->node->graph->model) : 1);
    }
    return bytes;
}

/* Returns true if it also stores the terms of its sums, element by element. */
static bool stores_terms(const Nest *nest)
{
    for (int i = 0; i < nest->store_count; i++)
        if (nest->mapping.kind == MAP_COLUMNS && !nest->stores[i].outer && !nest->stores[i].over_rows)
            return true;
    return false;
}

/* A kernel that waits for the one before it may begin early, which gains a microsecond or two. But its parameters are not
 * restrict, so no load may move before an earlier store. If a thread reads the next rows of its columns after each store, few
 * loads are in flight: on an H100, ResNet-50's largest such kernel takes 0.72 ms without waiting, 0.82 with it. Groups of
 * threads read a row several times; compilers keep it in registers only if restrict says that nothing writes it. Attention
 * would have no registers left (sm_100). */
bool cuda_waits(const Kernel *k)
{
    bool groups = k->attention != NULL, terms = false;
    for (int i = 0; i < k->nest_count; i++) {
        groups = groups || k->nests[i].mapping.kind == MAP_GROUPS || k->nests[i].mapping.kind == MAP_ROWS;
        terms = terms || stores_terms(&k->nests[i]);
    }
    return !groups && !(terms && bytes_moved(k) >= LONG_BYTES);
}

void cuda_launches_nests(const Kernel *k, mgpu_launch launch[2])
{
    if (is_scatter(k)) {
        nest_launch(&k->nests[0], &launch[0]);
        nest_launch(&k->nests[1], &launch[1]);
    } else {
        launch[0] = common_launch(k);
    }
    if (k->partial_bytes) {
        launch[1] = (mgpu_launch){.per_block = CUDA_FINISHED, .most = MOST_BLOCKS};
        for (int i = 0; i < k->nest_count; i++)
            launch[1].iterations += CUDA_FINISHED * finish_blocks(&k->nests[i]);
    }
    launch[0].function = k->name;
    launch[1].function = cuda_finishes(k) ? format("%s_finish", k->name) : NULL;
    launch[0].threads = launch[1].threads = CUDA_THREADS;
}
