/* nest.c: a nest for GPUs.
 *
 * In: a nest, and how threads share it (cuda/map_threads.c). Out: loops that begin at the number of a thread or group, with the
 * number of all of them as step:
 *
 *   iterations  for parallel iterations (or vectors of them) { for reduction axes accumulate; stores }
 *   groups      for parallel iterations { for reduction iterations, in steps of the group, accumulate; join the group; the first
 *               thread stores }
 *   columns     for blocks of neighbouring parallel iterations { likewise, in steps of the rows of the block }
 *   across      for slices of the rows { for a few rows of each group { likewise; add each element to a sum of its own }; add
 *               these sums up }
 *   rows        for the warp's rows { for reduction iterations { for parallel iterations add to the row } }
 *
 * With partial results, groups and columns take a slice of the reduction iterations, and the first thread stores its result
 * into the workspace. The finishing function adds the slices up and executes the OUTER stores. Sums across rows are such
 * results, too, of a slice of the rows. One number counts all parallel iterations, and one all reduction iterations; axes are
 * computed from it by division. The lanes of a vector are the innermost loop: what is contiguous along it is loaded before it
 * and stored after it. */
#include "compiler/target/cuda/iterations.h"

#include <string.h>

/* ---- accumulators */

/* Returns the maximum m of a sum of exp(x - m), where m is the maximum of x; -1: it is another sum. */
static int maximum_of(const Nest *nest, const Reduction *sum)
{
    const Expr *e = sum->value;
    if (sum->kind != REDUCE_SUM || e->kind != X_OP || e->op != OP_EXP || e->in[0]->kind != X_OP || e->in[0]->op != OP_SUB ||
        e->in[0]->in[1]->kind != X_RESULT)
        return -1;
    int maximum = (int)e->in[0]->in[1]->constant;
    const Reduction *r = &nest->reductions[maximum];
    return r->kind == REDUCE_MAX && r->value == e->in[0]->in[0] && r->value->pass + 1 == e->pass ? maximum : -1;
}

/* Finds passes that only compute such sums. They are left out: the maximum's own pass computes the sums, in vectors of a row that
 * would otherwise be read again. */
static void find_online(Loops *l)
{
    const Nest *nest = l->nest;
    const ThreadMapping *s = &nest->mapping;
    int *online = NEW_ARRAY(int, nest->reduction_count);
    bool may = s->kind == MAP_GROUPS && !s->slices && !s->unrolled && l->lane >= 0 && !l->lane_parallel;
    l->online = online;
    for (int pass = 1; may && pass < nest->passes; pass++) {
        int own = -1, all = 0;
        for (int i = 0; i < nest->reduction_count; i++)
            if (nest->reductions[i].value->pass == pass) {
                own = i;
                all++;
            }
        for (int i = 0; i < nest->store_count; i++)
            all += !nest->stores[i].outer && nest->stores[i].value->pass == pass;
        if (own >= 0 && all == 1)
            online[own] = maximum_of(nest, &nest->reductions[own]) + 1;
    }
}

/* Returns the pass in which a reduction is computed. */
static int pass_of(const Loops *l, int reduction)
{
    return l->nest->reductions[reduction].value->pass - (l->online[reduction] > 0);
}

static bool makes_results(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (pass_of(l, i) == pass && !l->nest->reductions[i].over_rows)
            return true;
    return false;
}

static bool is_left_out(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->online[i] && l->nest->reductions[i].value->pass == pass)
            return true;
    return false;
}

/* returns {0, 0, 0, 0} */
static const Term *all_lanes(const Loops *l, const Term *value)
{
    if (!l->lane_parallel)
        return value;
    const Term **list = NEW_ARRAY(const Term *, l->nest->mapping.vector);
    for (int i = 0; i < l->nest->mapping.vector; i++)
        list[i] = value;
    return term_list(l->nest->mapping.vector, list);
}

/* Declares a variable; an array, if the lanes of a vector are parallel. */
static void declare_lanes(const Loops *l, const char *type, const Term *name, const Term *value)
{
    code_array(&l->p->to, type, name, l->lane_parallel ? term_whole(l->nest->mapping.vector) : NULL, all_lanes(l, value));
}

static const Term *lane_of(const Loops *l, const Term *array)
{
    return l->lane_parallel ? term_element(array, l->p->axis_name[l->lane]) : array;
}

static void declare_accumulators(const Loops *l, int pass)
{
    Lowering *p = l->p;
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (pass_of(l, i) != pass || r->over_rows)
            continue;
        p->result[i] = result_name(p, r);
        bool place = r->kind == REDUCE_ARGMAX;
        declare_lanes(l, C_TYPE[place ? r->dtype : reduction_type(r)], p->result[i], place ? term_word("0") : reduction_start(r));
        if (place)
            declare_lanes(l, C_TYPE[r->value->dtype], best_name(p->result[i]), reduction_start(r));
    }
}

/* Gives every thread of the group, or of the column, the combined result. */
static void join_accumulators(const Loops *l, int pass)
{
    Lowering *p = l->p;
    const ThreadMapping *s = &l->nest->mapping;
    const Term *lanes = term_whole(s->lanes);
    for (int i = 0; i < l->nest->reduction_count && s->kind != MAP_ITERATIONS; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const Term *own = p->result[i];
        const char *how = r->kind == REDUCE_SUM ? "add" : "larger";
        if (pass_of(l, i) != pass || r->over_rows || cuda_online_sum(l, i) >= 0)
            continue;
        if (l->online[i])
            code_do(&p->to, CALL("mgpu_group_online", p->result[l->online[i] - 1], own, lanes));
        else if (r->kind == REDUCE_ARGMAX)
            code_do(&p->to, CALL(s->kind == MAP_GROUPS ? "mgpu_group_first" : "mgpu_columns_first", best_name(own), own, lanes));
        else if (s->kind == MAP_GROUPS)
            code_set(&p->to, own, "=", CALL(format("mgpu_group_%s", how), own, lanes));
        else
            code_do(&p->to, CALL(format("mgpu_columns_%s", how), own, lanes));
    }
}

/* After the pass, results are known by their final values. */
static void name_results(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (pass_of(l, i) == pass && !r->over_rows)
            l->p->result[i] = narrowed(r, lane_of(l, l->p->result[i]));
    }
}

/* Returns the number of the parallel iteration, of its lane 0. */
static const Term *parallel_place(const Loops *l)
{
    const Term *place = NULL;
    int64_t stride = nest_result_iterations(l->nest);
    for (int i = 0; i < l->parallel_count; i++) {
        const Term *axis = l->p->axis_name[l->parallel[i]];
        stride /= l->nest->exprs->axis[l->parallel[i]].extent;
        axis = stride == 1 ? axis : term_times(axis, count_term(stride));
        place = place ? term_add(place, axis) : axis;
    }
    return place ? place : term_word("0");
}

static void open_first(const Loops *l)
{
    if (l->first)
        code_if(&l->p->to, l->first);
}

static void store_partial(const Loops *l)
{
    Lowering *p = l->p;
    const Term *place = parallel_place(l), *slice = l->slice;
    int64_t count = nest_result_iterations(l->nest);
    int depth = p->to.depth;
    open_first(l);
    if (l->lane_parallel)
        cuda_open_lanes(l);
    if (count != 1)
        slice = term_times(slice, count_term(count));
    if (count != 1 && !term_is_word(place, "0"))
        slice = term_add(slice, place);
    if (l->lane_parallel)
        slice = term_add(slice, p->axis_name[l->lane]);
    for (int i = 0; i < l->nest->reduction_count; i++)
        code_set(&p->to, term_element(p->partial[i], slice), "=", lane_of(l, p->result[i]));
    code_close_to(&p->to, depth);
}

/* ---- sums of rows: a few rows are added in f32, and these sums in f64, because f64 is slow on most GPUs, conversions too */

enum { ROWS_AT_ONCE = 8 };

static bool is_wide_sum(const Loops *l, int pass, int reduction)
{
    const Reduction *r = &l->nest->reductions[reduction];
    return r->kind == REDUCE_SUM && r->in_double && pass_of(l, reduction) == pass;
}

static bool sums_rows(const Loops *l, int pass)
{
    const ThreadMapping *s = &l->nest->mapping;
    bool any = false, lanes = l->lane >= 0 && !l->lane_parallel; /* lanes, which are added up first */
    for (int i = 0; i < l->nest->reduction_count; i++)
        any = any || is_wide_sum(l, pass, i);
    return any && !lanes && l->reduction_axes_count && !s->unrolled && (s->kind == MAP_GROUPS || s->kind == MAP_COLUMNS);
}

static void open_row_sums(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (is_wide_sum(l, pass, i))
            declare_lanes(l, "float", l->f32_sum[i] = fresh_name(l->p, "rows"), term_word("0"));
}

static void close_row_sums(const Loops *l)
{
    int depth = l->p->to.depth;
    if (l->lane_parallel)
        cuda_open_lanes(l);
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->f32_sum[i]) {
            code_set(&l->p->to, lane_of(l, l->p->result[i]), "+=", lane_of(l, l->f32_sum[i]));
            l->f32_sum[i] = NULL;
        }
    code_close_to(&l->p->to, depth);
}

static const Term *less(const Term *a, const Term *b) { return term_binary(LEVEL_LESS, a, "<", b); }

/* Opens a loop over groups of ROWS_AT_ONCE rows; the remaining rows follow. */
static void open_rows(Loops *l, int pass, const Term *own, const Term *reduction_iterations, const Term *step)
{
    Lowering *p = l->p;
    bool alone = l->reduction_axes_count == 1 && l->nest->exprs->axis[l->reduction[0]].kind == AXIS_PLAIN &&
                 !(l->nest->exprs->axis[l->reduction[0]].samples && p->block);
    if (l->rows_at_once > 1) {
        const Term *turn = fresh_name(p, "turn");
        l->number = alone ? p->axis_name[l->reduction[0]] : fresh_name(p, "reduced");
        code_declare(&p->to, alone ? l->type : l->count_type, l->number, own);
        code_for(&p->to, NULL, l->number, NULL,
                 less(term_add(l->number, term_times(term_whole(l->rows_at_once - 1), step)), reduction_iterations));
        open_row_sums(l, pass);
        code_step(code_count(&p->to, "int", turn, term_word("0"), term_whole(l->rows_at_once), NULL), l->number, "+=", step);
    } else {
        open_row_sums(l, pass);
        code_step(code_for(&p->to, NULL, l->number, NULL, less(l->number, reduction_iterations)), l->number, "+=", step);
    }
    if (!alone)
        cuda_define_axes(l, l->reduction, l->reduction_axes_count, l->number, true);
}

/* ---- loops */

/* With a thread per iteration, the thread executes all reduction axes. */
static void open_reduction_axes(const Loops *l)
{
    Lowering *p = l->p;
    for (int i = 0; i < l->reduction_axes_count; i++) {
        int axis = l->reduction[i];
        const Axis *a = &l->nest->exprs->axis[axis];
        const Term *v = p->axis_name[axis], *from = term_word("0"),
                   *to = term_fixed(cuda_iterations_term(cuda_axis_iterations(l, axis)));
        if (a->kind == AXIS_IN_GROUP) {
            from = term_times(term_whole(a->group), p->axis_name[axis - 1]);
            to = term_add(from, l->in_group);
        }
        code_count(&p->to, l->type, v, from, to, NULL);
    }
}

/* Opens the loop over a row that a thread keeps in registers between passes. */
static void open_unrolled(Loops *l, const Term *own, const Term *reduction_iterations)
{
    Lowering *p = l->p;
    const ThreadMapping *s = &l->nest->mapping;
    bool alone = l->reduction_axes_count == 1;
    l->register_step = fresh_name(p, "turn");
    const Term *number = fresh_name(p, "reduced");
    if (alone)
        number = p->axis_name[l->reduction[0]];
    code_count(&p->to, "int", l->register_step, term_word("0"), term_whole(s->unrolled), NULL)->unrolled = true;
    code_declare(&p->to, "const int", number, term_add(term_times(l->register_step, term_whole(s->lanes)), own));
    if (cuda_all_iterations(l, l->reduction, l->reduction_axes_count).count % s->lanes)
        code_if(&p->to, less(number, reduction_iterations));
    if (!alone)
        cuda_define_axes(l, l->reduction, l->reduction_axes_count, number, true);
}

static void open_tail(Loops *l, const Term *own, const Term *step)
{
    Lowering *p = l->p;
    const Term *v = p->axis_name[l->reduction[0]], *last = count_term(l->nest->exprs->axis[l->reduction[0]].extent - 1);
    if (l->rest) {
        code_if(&p->to, term_binary(LEVEL_EQUAL, v, "==", last));
        return;
    }
    code_declare(&p->to, l->type, v, own);
    code_step(code_for(&p->to, NULL, v, NULL, less(v, last)), v, "+=", step);
}

/* Opens the loops over reduction axes, if there are any. */
static void open_reduction(Loops *l, int pass, const Term *reduction_iterations)
{
    const ThreadMapping *s = &l->nest->mapping;
    if (s->kind == MAP_ITERATIONS) {
        open_reduction_axes(l);
        return;
    }
    if (!l->reduction_axes_count)
        return;
    bool group = s->kind == MAP_GROUPS;
    const Term *side = term_whole(group ? s->lanes : CUDA_THREADS / s->lanes), *step = side;
    const Term *own = group ? CALL("mgpu_lane", term_whole(s->lanes)) : l->row;
    if (l->slice) {
        own = term_add(term_times(l->slice, side), own);
        step = term_times(l->slices, side);
    }
    if (l->inside)
        own = term_choice(l->inside, own, reduction_iterations);
    if (s->unrolled)
        open_unrolled(l, own, reduction_iterations);
    else if (s->tail_lanes)
        open_tail(l, own, step);
    else if (l->rows_at_once)
        open_rows(l, pass, own, reduction_iterations, step);
    else
        cuda_open_iterations(l, l->reduction, l->reduction_axes_count, "reduced", own, reduction_iterations, step);
}

static void set_loops(const Loops *l, bool reduction)
{
    Lowering *p = l->p;
    p->loops = 0;
    for (int i = 0; i < l->parallel_count; i++)
        p->loop[p->loops++] = l->parallel[i];
    for (int i = 0; i < l->reduction_axes_count && reduction; i++)
        p->loop[p->loops++] = l->reduction[i];
    if (l->lane >= 0 && (reduction || l->lane_parallel))
        p->loop[p->loops++] = l->lane;
}

static void define_parallel(const Loops *l, int pass)
{
    for (int depth = 0; depth <= l->parallel_count; depth++)
        define_wanted(l->p, depth, pass);
}

static void add_outer_stores(Loops *l, Expr **roots)
{
    Lowering *p = l->p;
    int count = outer_roots(p, roots), depth = p->to.depth;
    if (!count)
        return;
    open_first(l);
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count), reduction_lane = l->lane >= 0 && !l->lane_parallel;
    int lane = l->lane;
    set_loops(l, false);
    l->lane = reduction_lane ? -1 : lane;
    cuda_find_wanted(l, roots, count, used);
    define_parallel(l, l->nest->passes);
    cuda_add_iteration(l, -1, used);
    l->lane = lane;
    code_close_to(&p->to, depth);
}

/* Adds a pass over the reduction iterations, for its `count` roots. */
static void reduce(Loops *l, int pass, const Term *reduction_iterations, Expr **roots, int count)
{
    Lowering *p = l->p;
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count);
    const Term **saved = saved_terms(p);
    cuda_find_wanted(l, roots, count, used);
    define_parallel(l, pass);
    int depth = p->to.depth;
    open_reduction(l, pass, reduction_iterations);
    for (int i = l->parallel_count + 1; i <= l->parallel_count + l->reduction_axes_count; i++)
        define_wanted(p, i, pass);
    cuda_add_iteration(l, pass, used);
    if (l->rows_at_once) {
        code_close(&p->to);
        close_row_sums(l);
    }
    code_close_to(&p->to, depth);
    restore_terms(p, saved);
}

static void add_pass(Loops *l, int pass, const Term *reduction_iterations, Expr **roots, int count)
{
    Lowering *p = l->p;
    bool ragged = l->nest->mapping.tail_lanes, rows = sums_rows(l, pass), twice = ragged || rows;
    bool bare = l->nest->passes > 1 && !l->reduction_axes_count &&
                l->lane >= 0; /* a row is one vector: no loop encloses what a pass loads */
    int depth = p->to.depth;
    declare_accumulators(l, pass);
    if (twice || bare)
        code_block(&p->to);
    l->rows_at_once = rows ? ROWS_AT_ONCE : 0;
    reduce(l, pass, reduction_iterations, roots, count);
    if (twice) {
        l->rest = ragged;
        l->rows_at_once = rows;
        reduce(l, pass, reduction_iterations, roots, pass_roots(l->nest, pass, roots));
        l->rest = false;
    }
    code_close_to(&p->to, depth);
    if (makes_results(l, pass))
        join_accumulators(l, pass);
}

/* Adds everything at the parallel iterations, whose loop is open. */
static void add_passes(Loops *l, const Term *reduction_iterations)
{
    Lowering *p = l->p;
    const Nest *nest = l->nest;
    Expr **roots = cuda_new_root_list(nest);
    set_loops(l, true);
    cuda_find_wanted(l, roots, all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
    define_parallel(l, 0);
    for (int pass = 0; pass < nest->passes; pass++) {
        set_loops(l, true);
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        if (!is_left_out(l, pass))
            add_pass(l, pass, reduction_iterations, roots, count);
        if (nest->partial)
            break;
        name_results(l, pass);
        set_loops(l, true);
        cuda_find_wanted(l, roots, all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
        define_parallel(l, pass + 1);
    }
    if (nest->partial)
        store_partial(l);
    else
        add_outer_stores(l, roots);
}

/* ---- iterations, groups, columns */

/* The only iteration belongs to the first thread, or group. */
static void open_single(const Loops *l, const Term *number)
{
    code_if(&l->p->to, term_binary(LEVEL_EQUAL, number, "==", term_word("0")));
}

static void add_iterations(Loops *l)
{
    Lowering *p = l->p;
    const Term *all = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count));
    if (l->parallel_count)
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", cuda_nest_number(l, "thread", 0), all,
                             cuda_nest_number(l, "threads", 0));
    else
        open_single(l, cuda_nest_number(l, "thread", 0));
    add_passes(l, NULL);
    code_close(&p->to);
}

/* Declares the number of slices of the reduction iterations. */
static void name_slices(Loops *l, Iterations reduction, const Term *reduction_iterations)
{
    const ThreadMapping *s = &l->nest->mapping;
    if (!s->slices)
        return;
    l->slice = term_name("slice");
    if (!reduction.times) {
        int64_t slices = (reduction.count + s->slice - 1) / s->slice;
        l->slices = count_term(slices > s->slices ? s->slices : slices);
        return;
    }
    l->slices = fresh_name(l->p, "slices");
    code_declare(&l->p->to, "const int", l->slices,
                 CALL("mgpu_slices", reduction_iterations, count_term(s->slice), count_term(s->slices)));
}

static const Term *quotient(const Term *a, const Term *b) { return term_binary(LEVEL_PRODUCT, a, "/", b); }

static void add_groups(Loops *l)
{
    Lowering *p = l->p;
    int lanes = l->nest->mapping.lanes;
    const Term *group = cuda_nest_number(l, "group", lanes), *groups = cuda_nest_number(l, "groups", lanes),
               *zero = term_word("0");
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    const Term *parallel = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count));
    const Term *reduction_iterations = l->in_group ? cuda_iterations_term(reduction) : cuda_name_iterations(l, reduction);
    name_slices(l, reduction, reduction_iterations);
    l->first = term_binary(LEVEL_EQUAL, CALL("mgpu_lane", term_whole(lanes)), "==", zero);
    if (l->slice) {
        l->slice = fresh_name(p, "slice");
        const Term *item = l->parallel_count ? fresh_name(p, "item") : l->slice;
        code_count(&p->to, "int", item, group, l->parallel_count ? term_times(parallel, l->slices) : l->slices, groups);
        if (l->parallel_count)
            code_declare(&p->to, "const int", l->slice, quotient(item, term_divisor(parallel)));
        cuda_define_axes(l, l->parallel, l->parallel_count, item, false);
    } else if (l->parallel_count) {
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", group, parallel, groups);
    } else {
        open_single(l, group);
    }
    add_passes(l, reduction_iterations);
    code_close(&p->to);
}

/* Defines the thread's column of a tile of columns; `inside` is false if it has none. */
static void define_column(Loops *l, int axis, const Term *item, const Term *tiles, Iterations columns, bool whole)
{
    Lowering *p = l->p;
    const Term *own = p->axis_name[axis], *column = whole ? own : fresh_name(p, "column"),
               *lanes = term_whole(l->nest->mapping.lanes);
    const Term *lane = CALL("mgpu_lane", lanes), *tile = term_binary(LEVEL_PRODUCT, item, "%", term_divisor(tiles));
    code_declare(&p->to, format("const %s", l->type), column,
                 term_is_word(tiles, "1") ? lane : term_add(term_times(tile, lanes), lane));
    if (whole)
        return;
    l->inside = fresh_name(p, "inside");
    code_declare(&p->to, "const bool", l->inside, less(column, cuda_iterations_term(columns)));
    code_declare(&p->to, format("const %s", l->type), own, term_choice(l->inside, column, term_word("0")));
}

static void add_columns(Loops *l)
{
    Lowering *p = l->p;
    const ThreadMapping *s = &l->nest->mapping;
    bool any = l->parallel_count > 0; /* otherwise only the vector is parallel */
    int column_axis = any ? l->parallel[l->parallel_count - 1] : -1, outer = any ? l->parallel_count - 1 : 0;
    Iterations columns = any ? cuda_axis_iterations(l, column_axis) : (Iterations){1, NULL},
               reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    bool whole = !columns.times && columns.count % s->lanes == 0;
    const Term *reduction_iterations = l->in_group ? cuda_iterations_term(reduction) : cuda_name_iterations(l, reduction);
    const Term *lanes = term_whole(s->lanes), *tiles = count_term((columns.count + s->lanes - 1) / s->lanes);
    if (columns.times)
        tiles = quotient(term_add(cuda_iterations_term(columns), term_whole(s->lanes - 1)), lanes);
    Iterations before = cuda_all_iterations(l, l->parallel, outer);
    name_slices(l, reduction, reduction_iterations);
    Iterations all = {before.count, before.times}; /* tiles of all rows */
    if (columns.times)
        all.times = before.times ? term_times(before.times, tiles) : tiles;
    else
        all.count *= (columns.count + s->lanes - 1) / s->lanes;
    bool one = !all.times && all.count == 1;
    const Term *item = fresh_name(p, l->slice && one ? "slice" : "item"), *every = cuda_iterations_term(all);
    l->row = fresh_name(p, "row");
    code_declare(&p->to, "const int", l->row, quotient(term_word("threadIdx.x"), lanes));
    code_count(&p->to, l->count_type, item, cuda_nest_number(l, "group", CUDA_THREADS),
               !l->slice ? every
               : one     ? l->slices
                         : term_times(every, l->slices),
               cuda_nest_number(l, "groups", CUDA_THREADS));
    if (l->slice && !one) {
        l->slice = fresh_name(p, "slice");
        code_declare(&p->to, "const int", l->slice, quotient(item, cuda_iterations_divisor(all)));
    } else if (l->slice) {
        l->slice = item;
    }
    if (any)
        define_column(l, column_axis, item, tiles, columns, whole);
    cuda_define_axes(l, l->parallel, outer, term_is_word(tiles, "1") ? item : quotient(item, term_divisor(tiles)), !l->slice);
    l->first = term_binary(LEVEL_EQUAL, l->row, "==", term_word("0"));
    if (l->inside)
        l->first = term_binary(LEVEL_AND, l->first, "&&", l->inside);
    add_passes(l, reduction_iterations);
    code_close(&p->to);
}

/* ---- sums across rows. Each thread has one in f32 for each element of a row that it reads; f64 adds those of a few rows of all
 * groups. */

static void declare_row_sums(const Loops *l)
{
    Lowering *p = l->p;
    const ThreadMapping *s = &l->nest->mapping;
    for (int i = 0; i < l->nest->reduction_count; i++) {
        if (!l->nest->reductions[i].over_rows)
            continue;
        p->result[i] = fresh_name(p, "across");
        Statement *array =
            code_array(&p->to, C_TYPE[l->nest->reductions[i].dtype], p->result[i], term_whole(s->unrolled), term_list(0, NULL));
        APPEND(array->extent, array->extent_count, term_whole(s->vector));
    }
}

static void store_row_sums(const Loops *l, const Term *begins)
{
    Lowering *p = l->p;
    const Term *columns = count_term(nest_result_iterations(l->nest));
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->nest->reductions[i].over_rows)
            code_do(&p->to, CALL("mgpu_add_across", p->result[i], term_add(p->partial[i], term_times(l->slice, columns)), columns,
                                 term_whole(l->nest->mapping.lanes), begins));
}

static void add_row_sums(Loops *l)
{
    Lowering *p = l->p;
    int groups = CUDA_THREADS / l->nest->mapping.lanes;
    const Term *rows = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count)), *zero = term_word("0");
    name_slices(l, cuda_all_iterations(l, l->parallel, l->parallel_count), rows);
    const Term *first = fresh_name(p, "from"), *turn = fresh_name(p, "turn"), *point = fresh_name(p, "point");
    const Term *slice = fresh_name(p, "slice"), *begin = term_times(slice, term_whole(groups)), *slices = l->slices,
               *lanes = term_whole(l->nest->mapping.lanes);
    code_count(&p->to, "int", slice, cuda_nest_number(l, "group", CUDA_THREADS), slices,
               cuda_nest_number(l, "groups", CUDA_THREADS));
    code_count(&p->to, l->count_type, first, begin, rows, term_times(slices, term_whole(groups * ROWS_AT_ONCE)));
    int depth = p->to.depth;
    declare_row_sums(l);
    code_count(&p->to, "int", turn, zero, term_whole(ROWS_AT_ONCE), NULL);
    const Term *own = term_add(first, term_times(term_times(turn, slices), term_whole(groups)));
    code_declare(&p->to, format("const %s", l->count_type), point, term_add(own, quotient(term_word("threadIdx.x"), lanes)));
    code_if(&p->to, less(point, rows));
    l->first = term_binary(LEVEL_EQUAL, CALL("mgpu_lane", lanes), "==", zero);
    cuda_define_axes(l, l->parallel, l->parallel_count, point, true);
    l->slice = NULL;
    const Term *reduction_iterations = cuda_name_iterations(l, cuda_all_iterations(l, l->reduction, l->reduction_axes_count));
    add_passes(l, reduction_iterations);
    code_close_to(&p->to, depth);
    l->slice = slice;
    store_row_sums(l, term_binary(LEVEL_EQUAL, first, "==", begin));
    code_close_to(&p->to, depth - 2);
}

/* ---- sums into rows */

enum { ITERATIONS_AT_ONCE = 4 /* iterations that a lane reads together, so that it waits for memory once */ };

/* Loads the rows of the iterations that this lane reads; -1: none. */
static void find_rows(Loops *l, const Term *found, const Term *look, const Term *first, const Term *reduction_iterations)
{
    Lowering *p = l->p;
    Expr **roots = cuda_new_root_list(l->nest);
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count);
    const Term *at = fresh_name(p, "at"), *lane = CALL("mgpu_lane", term_word("32")), *own = term_element(found, look);
    int depth = p->to.depth;
    code_count(&p->to, "int", look, term_word("0"), term_whole(ITERATIONS_AT_ONCE), NULL);
    code_declare(&p->to, format("const %s", l->type), at, term_add(term_add(first, term_times(term_word("32"), look)), lane));
    code_set(&p->to, own, "=", term_whole(-1));
    code_if(&p->to, less(at, reduction_iterations));
    const Term **saved = saved_terms(p);
    p->loops = 0;
    for (int i = 0; i < l->reduction_axes_count; i++)
        p->loop[p->loops++] = l->reduction[i];
    roots[0] = (Expr *)(uintptr_t)l->nest->row;
    cuda_find_wanted(l, roots, 1, used);
    cuda_define_axes(l, l->reduction, l->reduction_axes_count, at, true);
    for (int i = 0; i <= p->loops; i++)
        define_wanted(p, i, 0);
    code_set(&p->to, own, "=", term_of(p, l->nest->row));
    code_close_to(&p->to, depth);
    restore_terms(p, saved);
}

/* Opens the loop over iterations whose row the warp owns; returns the iteration. */
static const Term *open_hits(Loops *l, const Term *found, const Term *look, const Term *first, const Term *warp)
{
    Lowering *p = l->p;
    const ThreadMapping *s = &l->nest->mapping;
    const Term *bits = fresh_name(p, "bits"), *mine = fresh_name(p, "mine"), *hit, *zero = term_word("0"),
               *row = term_element(found, look);
    code_count(&p->to, "int", look, zero, term_whole(ITERATIONS_AT_ONCE), NULL);
    const Term *there =
        term_binary(LEVEL_AND, term_binary(LEVEL_LESS, zero, "<=", row), "&&", less(row, count_term(l->nest->row->constant)));
    const Term *owner = term_binary(LEVEL_BITS, row, "&", count_term(s->owners - 1));
    code_declare(&p->to, "const bool", mine, term_binary(LEVEL_AND, there, "&&", term_binary(LEVEL_EQUAL, owner, "==", warp)));
    Statement *loop = code_for(&p->to, "uint32_t", bits, CALL("__ballot_sync", term_word("0xffffffffu"), mine), bits);
    code_step(loop, bits, "&=", term_binary(LEVEL_SUM, bits, "-", term_word("1")));
    hit = fresh_name(p, "hit");
    const Term *place = term_add(first, term_times(term_word("32"), look)), *bit = CALL("__ffs", term_cast("int", bits));
    code_declare(&p->to, format("const %s", l->type), hit, term_binary(LEVEL_SUM, term_add(place, bit), "-", term_word("1")));
    return hit;
}

/* Each lane reads the rows of some iterations; those that the warp owns are then added by all lanes, one after the other. */
static void add_rows(Loops *l)
{
    Lowering *p = l->p;
    const Nest *nest = l->nest;
    const ThreadMapping *s = &nest->mapping;
    Expr **roots = cuda_new_root_list(nest);
    bool *used = NEW_ARRAY(bool, nest->exprs->count);
    const Term *item = fresh_name(p, "item"), *own = fresh_name(p, "own"), *first = fresh_name(p, "from"),
               *found = fresh_name(p, "row"), *look = fresh_name(p, "look");
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count),
               parallel = cuda_all_iterations(l, l->parallel, l->parallel_count);
    const Term *reduction_iterations = cuda_name_iterations(l, reduction), *lane = CALL("mgpu_lane", term_word("32")),
               *parts = divisor_term(s->parts);
    int depth = p->to.depth;
    code_count(&p->to, "int", item, cuda_nest_number(l, "group", 32), count_term(s->owners * s->parts),
               cuda_nest_number(l, "groups", 32));
    code_declare(&p->to, "const int", own, s->parts > 1 ? quotient(item, parts) : item);
    code_count(&p->to, l->type, first, term_word("0"), reduction_iterations, term_whole(32 * ITERATIONS_AT_ONCE));
    code_array(&p->to, "int64_t", found, term_whole(ITERATIONS_AT_ONCE), NULL);
    find_rows(l, found, look, first, reduction_iterations);
    const Term *hit = open_hits(l, found, look, first, own);
    p->loops = 0;
    for (int i = 0; i < l->reduction_axes_count; i++)
        p->loop[p->loops++] = l->reduction[i];
    for (int i = 0; i < l->parallel_count; i++)
        p->loop[p->loops++] = l->parallel[i];
    if (l->lane >= 0)
        p->loop[p->loops++] = l->lane;
    cuda_find_wanted(l, roots, pass_roots(nest, 0, roots), used);
    cuda_define_axes(l, l->reduction, l->reduction_axes_count, hit, true);
    for (int i = 0; i <= l->reduction_axes_count; i++)
        define_wanted(p, i, 0);
    if (s->parts > 1)
        lane = term_add(term_times(term_binary(LEVEL_PRODUCT, item, "%", parts), term_word("32")), lane);
    if (l->parallel_count)
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", lane, cuda_iterations_term(parallel),
                             count_term(32 * s->parts));
    else
        open_single(l, lane);
    for (int i = l->reduction_axes_count + 1; i <= l->reduction_axes_count + l->parallel_count; i++)
        define_wanted(p, i, 0);
    cuda_add_iteration(l, 0, used);
    code_close_to(&p->to, depth);
}

/* ---- the finishing function: sums of all slices, and what depends on them */

static void add_finish(Loops *l)
{
    Lowering *p = l->p;
    const Nest *nest = l->nest;
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    int64_t count = nest_result_iterations(nest);
    int across = 1, depth = p->to.depth;
    while (across < CUDA_FINISHED && across < count)
        across *= 2;
    name_slices(l, reduction, cuda_iterations_term(reduction));
    const Term *zero = term_word("0"), *iteration = count == 1 ? zero : fresh_name(p, "point"), *side = term_whole(across),
               *thread = term_word("threadIdx.x");
    bool loop = count > 1 || p->kernel->nest_count > 1;
    if (loop) {
        const Term *item = fresh_name(p, "item");
        code_count(&p->to, "int", item, cuda_nest_number(l, "group", CUDA_THREADS), count_term((count + across - 1) / across),
                   cuda_nest_number(l, "groups", CUDA_THREADS));
        if (count > 1)
            code_declare(&p->to, "const int", iteration, term_add(term_times(item, side), CALL("mgpu_lane", side)));
    }
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (!p->partial[i])
            continue;
        const Term *sum = result_name(p, r);
        code_declare(&p->to, format("const %s", C_TYPE[reduction_type(r)]), sum,
                     CALL(r->kind == REDUCE_SUM ? "mgpu_slices_add" : "mgpu_slices_larger", p->partial[i], l->slices,
                          count_term(count), iteration, side));
        p->result[i] = narrowed(r, sum);
    }
    if (count == 1)
        open_single(l, loop ? thread : term_grid("thread", 0, NULL));
    else if (count % across)
        code_if(&p->to, term_binary(LEVEL_AND, less(thread, side), "&&", less(iteration, count_term(count))));
    else
        code_if(&p->to, less(thread, side));
    if (l->lane_parallel) /* an axis like the others */
        l->parallel[l->parallel_count++] = l->lane;
    l->lane = -1;
    l->lane_parallel = false;
    cuda_define_axes(l, l->parallel, l->parallel_count, iteration, true);
    add_outer_stores(l, cuda_new_root_list(nest));
    code_close_to(&p->to, depth);
}

static void declare_partial(const Loops *l)
{
    Lowering *p = l->p;
    const Term *work = term_word("work");
    p->partial = NEW_ARRAY(const Term *, l->nest->reduction_count);
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *type = C_TYPE[reduction_type(r)];
        if (l->nest->row_sum_count && !r->over_rows)
            continue;
        p->partial[i] = fresh_name(p, "partial");
        const Term *at = term_cast(format("%s *", type), r->partial ? term_add(work, count_term(r->partial)) : work);
        code_array(&p->to, format("%s *const", type), p->partial[i], NULL, at)->remark =
            c_comment("[%d, %lld]", l->nest->mapping.slices, (long long)nest_result_iterations(l->nest));
    }
}

void cuda_nest(Lowering *p, const Nest *nest)
{
    const Exprs *x = nest->exprs;
    begin_nest(p, nest);
    Loops l = {.p = p, .nest = nest, .lane = nest->mapping.vector > 1 ? x->axis_count - 1 : -1};
    l.lane_parallel = l.lane >= 0 && x->axis[l.lane].reduction == (nest->row_sum_count && p->finish);
    l.type = nest->mapping.narrow ? "int" : "int64_t";
    l.count_type = nest->mapping.narrow ? "uint32_t" : "int64_t";
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        if (i == l.lane || (a->extent == 1 && !a->samples && a->kind == AXIS_PLAIN))
            continue;
        /* the finishing function has an iteration for each sum across */
        if (a->reduction != (nest->row_sum_count && p->finish))
            l.reduction[l.reduction_axes_count++] = i;
        else
            l.parallel[l.parallel_count++] = i;
        if (a->kind == AXIS_IN_GROUP)
            l.in_group = fresh_name(p, "in_group");
    }
    find_online(&l);
    l.f32_sum = NEW_ARRAY(const Term *, nest->reduction_count);
    if (nest->partial || nest->row_sum_count)
        declare_partial(&l);
    if (!p->finish)
        cuda_name_vectors(&l);
    else
        l.vector = NEW_ARRAY(const Term *, x->count);
    if (l.parallel_count + l.lane_parallel > 0 && nest->mapping.kind != MAP_ROWS) { /* otherwise it is in the one iteration */
        Expr **roots = cuda_new_root_list(nest);
        set_loops(&l, !p->finish);
        cuda_find_wanted(&l, roots, p->finish ? outer_roots(p, roots) : all_roots(p, roots), NEW_ARRAY(bool, x->count));
        define_wanted(p, 0, 0);
    }
    if (p->finish)
        add_finish(&l);
    else if (nest->mapping.kind == MAP_ITERATIONS)
        add_iterations(&l);
    else if (nest->row_sum_count)
        add_row_sums(&l);
    else if (nest->mapping.kind == MAP_GROUPS)
        add_groups(&l);
    else if (nest->mapping.kind == MAP_COLUMNS)
        add_columns(&l);
    else
        add_rows(&l);
}
