/* nest.c: a nest as CUDA C.
 *
 * In: a nest, and how threads share it (cuda/share.c). Out: loops that go from a thread's own number, or a group's, in steps of
 * how many there are:
 *
 *   iterations   for parallel iterations (or vectors of them) { for reduction axes accumulate; stores }
 *   groups    for parallel iterations { for reduction iterations, in steps of the group, accumulate; join the group; the first thread stores }
 *   columns  for blocks of neighbouring parallel iterations { likewise, in steps of the rows of the block }
 *   across   for slices of the rows { for a few rows of each group { likewise; add each element to a sum of its own }; add these sums up }
 *   rows     for the warp's rows { for reduction iterations { for parallel iterations add to the row } }
 *
 * With partial results groups and columns take a slice of the reduction iterations, and the first thread stores what it has into the
 * workspace; `finish` adds the slices up and makes the OUTER stores. Sums across rows are such results, too, of a slice of the rows. One
 * number counts all parallel iterations, one all reduction ones; the axes are made of it by division. The lanes of a vector are the innermost loop: what is contiguous along it is
 * loaded before it and stored after it. */
#include "compiler/target/cuda/iterations.h"
#include "compiler/target/c/marks.h"

#include <string.h>

/* ---- accumulators */

/* the maximum of what the sum has the exponentials of, less that maximum; -1: it is no such sum */
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

/* Passes that are such sums alone are left out: the maximum's own pass computes them, in vectors of a row that is read again for each
 * pass. */
static void find_online(Loops *l)
{
    const Nest *nest = l->nest;
    const Share *s = &nest->share;
    int *online = NEW_ARRAY(int, nest->reduction_count);
    bool may = s->sharing == SHARE_GROUPS && !s->slices && !s->unrolled && l->lane >= 0 && !l->lane_parallel;
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

/* the pass in which a reduction is computed */
static int pass_of(const Loops *l, int reduction) { return l->nest->reductions[reduction].value->pass - (l->online[reduction] > 0); }

static bool makes_results(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (pass_of(l, i) == pass && !l->nest->reductions[i].across)
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

/* "{0, 0, 0, 0}" */
static const char *all_lanes(const Loops *l, const char *value)
{
    Text t = {0};
    if (!l->lane_parallel)
        return value;
    for (int i = 0; i < l->nest->share.vector; i++)
        text_add(&t, "%s%s", i ? ", " : "{", value);
    text_add(&t, "}");
    return text_of(&t);
}

static void declare_accumulators(const Loops *l, int pass)
{
    Printer *p = l->p;
    const char *lanes = l->lane_parallel ? format("[%d]", l->nest->share.vector) : "";
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (pass_of(l, i) != pass || r->across)
            continue;
        p->result[i] = emit_result_name(p, r);
        bool place = r->kind == REDUCE_ARGMAX;
        emit_line(p, "%s %s%s = %s;", C_TYPE[place ? r->dtype : reduction_type(r)], p->result[i], lanes, all_lanes(l, place ? "0" : emit_start(r)));
        if (place)
            emit_line(p, "%s %s_best%s = %s;", C_TYPE[r->value->dtype], p->result[i], lanes, all_lanes(l, emit_start(r)));
    }
}

/* every thread of the group, or of the column, gets the result of all */
static void join_accumulators(const Loops *l, int pass)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    for (int i = 0; i < l->nest->reduction_count && s->sharing != SHARE_ITERATIONS; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *own = p->result[i], *how = r->kind == REDUCE_SUM ? "add" : "larger";
        if (pass_of(l, i) != pass || r->across || cuda_online_sum(l, i) >= 0)
            continue;
        if (l->online[i])
            emit_line(p, "mgpu_group_online(%s, %s, %d);", p->result[l->online[i] - 1], own, s->lanes);
        else if (r->kind == REDUCE_ARGMAX)
            emit_line(p, "mgpu_%s_first(%s_best, %s, %d);", s->sharing == SHARE_GROUPS ? "group" : "columns", own, own, s->lanes);
        else if (s->sharing == SHARE_GROUPS)
            emit_line(p, "%s = mgpu_group_%s(%s, %d);", own, how, own, s->lanes);
        else
            emit_line(p, "mgpu_columns_%s(%s, %d);", how, own, s->lanes);
    }
}

/* from here on results are known by their values */
static void name_results(const Loops *l, int pass)
{
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (pass_of(l, i) == pass && !r->across)
            l->p->result[i] = format("%s%s%s", emit_narrowing(r), l->p->result[i],
                                     l->lane_parallel ? format("[%s]", l->p->axis_name[l->lane]) : "");
    }
}

/* the number of the parallel iteration, of its lane 0 */
static const char *parallel_place(const Loops *l)
{
    Text t = {0};
    int64_t stride = nest_result_iterations(l->nest);
    for (int i = 0; i < l->parallel_count; i++) {
        stride /= l->nest->exprs->axis[l->parallel[i]].extent;
        text_add(&t, stride == 1 ? "%s%s" : "%s%s * %s", i ? " + " : "", l->p->axis_name[l->parallel[i]], emit_count(l->p, stride));
    }
    return l->parallel_count ? text_of(&t) : "0";
}

static void store_partial(const Loops *l)
{
    Printer *p = l->p;
    const char *place = parallel_place(l);
    bool only = strcmp(place, "0") == 0;
    if (l->first) {
        emit_line(p, "if (%s) {", l->first);
        p->indent++;
    }
    if (l->lane_parallel)
        cuda_open_lanes(l);
    int64_t count = nest_result_iterations(l->nest);
    const char *slice = count == 1 ? l->slice : format("%s * %s%s%s", l->slice, emit_count(p, count), only ? "" : " + ", only ? "" : place);
    for (int i = 0; i < l->nest->reduction_count; i++)
        emit_line(p, "%s[%s%s] = %s%s;", p->partial[i], slice, l->lane_parallel ? format(" + %s", p->axis_name[l->lane]) : "", p->result[i],
                  l->lane_parallel ? format("[%s]", p->axis_name[l->lane]) : "");
    if (l->lane_parallel)
        emit_close(p);
    if (l->first)
        emit_close(p);
}

/* ---- sums of rows. Doubles are slow on most GPUs, and so is making some: f32 adds up a few rows, f64 these sums */

enum { ROWS_AT_ONCE = 8 };

static bool is_wide_sum(const Loops *l, int pass, int reduction)
{
    const Reduction *r = &l->nest->reductions[reduction];
    return r->kind == REDUCE_SUM && r->in_double && pass_of(l, reduction) == pass;
}

static bool sums_rows(const Loops *l, int pass)
{
    const Share *s = &l->nest->share;
    bool any = false, lanes = l->lane >= 0 && !l->lane_parallel; /* which are added up first */
    for (int i = 0; i < l->nest->reduction_count; i++)
        any = any || is_wide_sum(l, pass, i);
    return any && !lanes && l->reduction_axes_count && !s->unrolled && (s->sharing == SHARE_GROUPS || s->sharing == SHARE_COLUMNS);
}

static void open_row_sums(const Loops *l, int pass)
{
    const char *lanes = l->lane_parallel ? format("[%d]", l->nest->share.vector) : "";
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (is_wide_sum(l, pass, i)) {
            l->part[i] = emit_own_name(l->p, "rows");
            emit_line(l->p, "float %s%s = %s;", l->part[i], lanes, all_lanes(l, "0"));
        }
}

static void close_row_sums(const Loops *l)
{
    const char *lane = l->lane_parallel ? format("[%s]", l->p->axis_name[l->lane]) : "";
    if (l->lane_parallel)
        cuda_open_lanes(l);
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->part[i]) {
            emit_line(l->p, "%s%s += %s%s;", l->p->result[i], lane, l->part[i], lane);
            l->part[i] = NULL;
        }
    if (l->lane_parallel)
        emit_close(l->p);
}

/* so many rows at once as long as there are; then the others */
static void open_rows(Loops *l, int pass, const char *own, const char *reduction_iterations, const char *step)
{
    Printer *p = l->p;
    bool alone = l->reduction_axes_count == 1 && l->nest->exprs->axis[l->reduction[0]].kind == AXIS_PLAIN &&
                 !(l->nest->exprs->axis[l->reduction[0]].samples && p->block);
    if (l->rows_at_once > 1) {
        const char *turn = emit_own_name(p, "turn");
        l->number = alone ? p->axis_name[l->reduction[0]] : emit_own_name(p, "reduced");
        emit_line(p, "%s %s = %s;", alone ? l->type : l->count_type, l->number, own);
        emit_line(p, "for (; %s + %d * (%s) < %s;) {", l->number, l->rows_at_once - 1, step, reduction_iterations);
        p->indent++;
        open_row_sums(l, pass);
        emit_line(p, "for (int %s = 0; %s < %d; %s++, %s += %s) {", turn, turn, l->rows_at_once, turn, l->number, step);
    } else {
        open_row_sums(l, pass);
        emit_line(p, "for (; %s < %s; %s += %s) {", l->number, reduction_iterations, l->number, step);
    }
    p->indent++;
    if (!alone)
        cuda_define_axes(l, l->reduction, l->reduction_axes_count, l->number, true);
}

/* ---- loops */

/* the reduction axes; nothing is opened if there are none */
static int open_reduction(Loops *l, int pass, const char *reduction_iterations)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    int before = p->indent;
    if (s->sharing == SHARE_ITERATIONS) {
        for (int i = 0; i < l->reduction_axes_count; i++) {
            int axis = l->reduction[i];
            const char *v = p->axis_name[axis];
            const Axis *a = &l->nest->exprs->axis[axis];
            if (a->kind == AXIS_IN_GROUP)
                emit_line(p, "for (%s %s = %lld * %s; %s < %lld * %s + %s; %s++) {", l->type, v, (long long)a->group, p->axis_name[axis - 1],
                          v, (long long)a->group, p->axis_name[axis - 1], l->in_group, v);
            else
                emit_line(p, "for (%s %s = 0; %s < %s; %s++) {", l->type, v, v, emit_constants(p, cuda_iterations_text(l, cuda_axis_iterations(l, axis))), v);
            p->indent++;
        }
        return p->indent - before;
    }
    if (!l->reduction_axes_count)
        return 0;
    bool group = s->sharing == SHARE_GROUPS;
    int64_t side = group ? s->lanes : CUDA_THREADS / s->lanes;
    const char *own = group ? format("mgpu_lane(%d)", s->lanes) : l->row, *step = format("%lld", (long long)side);
    if (l->slice) {
        own = format("%s * %lld + %s", l->slice, (long long)side, own);
        step = format("%s * %lld", l->slices, (long long)side);
    }
    if (l->inside)
        own = format("%s ? %s : %s", l->inside, own, reduction_iterations);
    if (s->unrolled) {
        const char *turn = l->turn = emit_own_name(p, "turn"), *number = emit_own_name(p, "reduced");
        bool alone = l->reduction_axes_count == 1;
        if (alone)
            number = p->axis_name[l->reduction[0]];
        emit_line(p, "#pragma unroll");
        emit_line(p, "for (int %s = 0; %s < %d; %s++) {", turn, turn, s->unrolled, turn);
        p->indent++;
        emit_line(p, "const int %s = %s * %d + %s;", number, turn, s->lanes, own);
        if (cuda_all_iterations(l, l->reduction, l->reduction_axes_count).count % s->lanes) {
            emit_line(p, "if (%s < %s) {", number, reduction_iterations);
            p->indent++;
        }
        if (!alone)
            cuda_define_axes(l, l->reduction, l->reduction_axes_count, number, true);
        return p->indent - before;
    }
    if (s->ragged) {
        const char *v = p->axis_name[l->reduction[0]], *last = emit_count(p, l->nest->exprs->axis[l->reduction[0]].extent - 1);
        if (l->rest) {
            emit_line(p, "if (%s == %s) {", v, last);
        } else {
            emit_line(p, "%s %s = %s;", l->type, v, own);
            emit_line(p, "for (; %s < %s; %s += %s) {", v, last, v, step);
        }
        p->indent++;
        return p->indent - before;
    }
    if (l->rows_at_once)
        open_rows(l, pass, own, reduction_iterations, step);
    else
        cuda_open_iterations(l, l->reduction, l->reduction_axes_count, "reduced", own, reduction_iterations, step);
    return p->indent - before;
}

static void close(const Loops *l, int count)
{
    while (count-- > 0)
        emit_close(l->p);
}

static void set_loops(const Loops *l, bool reduction)
{
    Printer *p = l->p;
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
        emit_define(l->p, depth, pass);
}

static void outer_stores(Loops *l, Expr **roots)
{
    Printer *p = l->p;
    int count = emit_outer_roots(p, roots);
    if (!count)
        return;
    if (l->first) {
        emit_line(p, "if (%s) {", l->first);
        p->indent++;
    }
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count), reduction_lane = l->lane >= 0 && !l->lane_parallel;
    int lane = l->lane;
    set_loops(l, false);
    l->lane = reduction_lane ? -1 : lane;
    cuda_find_wanted(l, roots, count, used);
    define_parallel(l, l->nest->passes);
    cuda_print_iteration(l, -1, used);
    l->lane = lane;
    if (l->first)
        emit_close(p);
}

/* a pass through the reduction iterations, for its `count` roots */
static void print_reduction(Loops *l, int pass, const char *reduction_iterations, Expr **roots, int count)
{
    Printer *p = l->p;
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count);
    const char **saved = emit_saved_texts(p);
    cuda_find_wanted(l, roots, count, used);
    define_parallel(l, pass);
    int open = open_reduction(l, pass, reduction_iterations);
    for (int depth = l->parallel_count + 1; depth <= l->parallel_count + l->reduction_axes_count; depth++)
        emit_define(p, depth, pass);
    cuda_print_iteration(l, pass, used);
    if (l->rows_at_once) {
        emit_close(p);
        close_row_sums(l);
        open--;
    }
    close(l, open);
    emit_restore_texts(p, saved);
}

static void print_pass(Loops *l, int pass, const char *reduction_iterations, Expr **roots, int count)
{
    Printer *p = l->p;
    bool ragged = l->nest->share.ragged, rows = sums_rows(l, pass), twice = ragged || rows;
    bool bare = l->nest->passes > 1 && !l->reduction_axes_count && l->lane >= 0; /* a row is one vector: no loop holds what a pass loads */
    declare_accumulators(l, pass);
    if (twice || bare) {
        emit_line(p, "{");
        p->indent++;
    }
    l->rows_at_once = rows ? ROWS_AT_ONCE : 0;
    print_reduction(l, pass, reduction_iterations, roots, count);
    if (twice) {
        l->rest = ragged;
        l->rows_at_once = rows;
        print_reduction(l, pass, reduction_iterations, roots, emit_pass_roots(l->nest, pass, roots));
        l->rest = false;
    }
    if (twice || bare)
        emit_close(p);
    if (makes_results(l, pass))
        join_accumulators(l, pass);
}

/* everything at the parallel iterations, whose loop is open */
static void print_passes(Loops *l, const char *reduction_iterations)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Expr **roots = cuda_root_room(nest);
    set_loops(l, true);
    cuda_find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
    define_parallel(l, 0);
    for (int pass = 0; pass < nest->passes; pass++) {
        set_loops(l, true);
        int count = emit_pass_roots(nest, pass, roots);
        if (!count)
            continue;
        if (!is_left_out(l, pass))
            print_pass(l, pass, reduction_iterations, roots, count);
        if (nest->partial)
            break;
        name_results(l, pass);
        set_loops(l, true);
        cuda_find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
        define_parallel(l, pass + 1);
    }
    if (nest->partial)
        store_partial(l);
    else
        outer_stores(l, roots);
}

/* ---- iterations, groups, columns */

static void print_iterations(Loops *l)
{
    Printer *p = l->p;
    const char *all = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count));
    if (l->parallel_count) {
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", cuda_own_number(l, "thread", 0), all, cuda_own_number(l, "threads", 0));
    } else {
        emit_line(p, "if (%s == 0) {", cuda_own_number(l, "thread", 0));
        p->indent++;
    }
    print_passes(l, NULL);
    emit_close(p);
}

/* how many slices there are of the reduction iterations */
static void name_slices(Loops *l, Iterations reduction, const char *reduction_iterations)
{
    const Share *s = &l->nest->share;
    if (!s->slices)
        return;
    l->slice = "slice";
    if (!reduction.times) {
        int64_t slices = (reduction.count + s->slice - 1) / s->slice;
        l->slices = emit_count(l->p, slices > s->slices ? s->slices : slices);
        return;
    }
    l->slices = emit_own_name(l->p, "slices");
    emit_line(l->p, "const int %s = mgpu_slices(%s, %s, %s);", l->slices, reduction_iterations, emit_count(l->p, s->slice), emit_count(l->p, s->slices));
}

static void print_groups(Loops *l)
{
    Printer *p = l->p;
    int lanes = l->nest->share.lanes;
    const char *group = cuda_own_number(l, "group", lanes), *groups = cuda_own_number(l, "groups", lanes);
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    const char *parallel = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count));
    const char *reduction_iterations = l->in_group ? cuda_iterations_text(l, reduction) : cuda_name_iterations(l, reduction);
    name_slices(l, reduction, reduction_iterations);
    l->first = format("mgpu_lane(%d) == 0", lanes);
    if (l->slice) {
        l->slice = emit_own_name(p, "slice");
        const char *item = l->parallel_count ? emit_own_name(p, "item") : l->slice;
        emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, group, item,
                  l->parallel_count ? format("%s * %s", parallel, l->slices) : l->slices, item, groups);
        p->indent++;
        if (l->parallel_count)
            emit_line(p, "const int %s = %s / %s;", l->slice, item, emit_over(parallel));
        cuda_define_axes(l, l->parallel, l->parallel_count, item, false);
    } else if (l->parallel_count) {
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", group, parallel, groups);
    } else {
        emit_line(p, "if (%s == 0) {", group);
        p->indent++;
    }
    print_passes(l, reduction_iterations);
    emit_close(p);
}

static void print_columns(Loops *l)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    bool any = l->parallel_count > 0; /* else the vector is all that is parallel */
    int column_axis = any ? l->parallel[l->parallel_count - 1] : -1, outer = any ? l->parallel_count - 1 : 0;
    Iterations columns = any ? cuda_axis_iterations(l, column_axis) : (Iterations){1, NULL}, reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    bool whole = !columns.times && columns.count % s->lanes == 0;
    const char *reduction_iterations = l->in_group ? cuda_iterations_text(l, reduction) : cuda_name_iterations(l, reduction);
    const char *tiles = columns.times ? format("((%s + %d) / %d)", cuda_iterations_text(l, columns), s->lanes - 1, s->lanes)
                                      : emit_count(p, (columns.count + s->lanes - 1) / s->lanes);
    Iterations before = cuda_all_iterations(l, l->parallel, outer);
    name_slices(l, reduction, reduction_iterations);
    Iterations all = {before.count, before.times}; /* tiles of all rows */
    if (columns.times)
        all.times = before.times ? format("%s * %s", before.times, tiles) : tiles;
    else
        all.count *= (columns.count + s->lanes - 1) / s->lanes;
    bool one = !all.times && all.count == 1;
    const char *item = emit_own_name(p, l->slice && one ? "slice" : "item");
    l->row = emit_own_name(p, "row");
    emit_line(p, "const int %s = threadIdx.x / %d;", l->row, s->lanes);
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s) {", l->count_type, item, cuda_own_number(l, "group", CUDA_THREADS), item,
              !l->slice ? cuda_iterations_text(l, all) : one ? l->slices : format("%s * %s", cuda_iterations_text(l, all), l->slices), item,
              cuda_own_number(l, "groups", CUDA_THREADS));
    p->indent++;
    if (l->slice && !one) {
        l->slice = emit_own_name(p, "slice");
        emit_line(p, "const int %s = %s / %s;", l->slice, item, cuda_iterations_divisor(l, all));
    } else if (l->slice) {
        l->slice = item;
    }
    if (any) {
        const char *axis = p->axis_name[column_axis], *column = whole ? axis : emit_own_name(p, "column");
        emit_line(p, "const %s %s = %smgpu_lane(%d);", l->type, column,
                  strcmp(tiles, "1") ? format("%s %% %s * %d + ", item, emit_over(tiles), s->lanes) : "", s->lanes);
        if (!whole) {
            l->inside = emit_own_name(p, "inside");
            emit_line(p, "const bool %s = %s < %s;", l->inside, column, cuda_iterations_text(l, columns));
            emit_line(p, "const %s %s = %s ? %s : 0;", l->type, axis, l->inside, column);
        }
    }
    cuda_define_axes(l, l->parallel, outer, strcmp(tiles, "1") ? format("(%s / %s)", item, emit_over(tiles)) : item, !l->slice);
    l->first = format("%s == 0%s%s", l->row, l->inside ? " && " : "", l->inside ? l->inside : "");
    print_passes(l, reduction_iterations);
    emit_close(p);
}

/* ---- sums across rows. Each thread has one in f32 for each element of a row that it sees; f64 those of a few rows of all groups */

static void declare_across(const Loops *l)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->nest->reductions[i].across)
            emit_line(p, "%s %s[%d][%d] = {};", C_TYPE[l->nest->reductions[i].dtype], p->result[i] = emit_own_name(p, "across"), s->unrolled,
                      s->vector);
}

static void store_across(const Loops *l, const char *begins)
{
    Printer *p = l->p;
    const char *columns = emit_count(p, nest_result_iterations(l->nest));
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->nest->reductions[i].across)
            emit_line(p, "mgpu_add_across(%s, %s + %s * %s, %s, %d, %s);", p->result[i], p->partial[i], l->slice, columns, columns, l->nest->share.lanes,
                      begins);
}

static void print_across(Loops *l)
{
    Printer *p = l->p;
    int groups = CUDA_THREADS / l->nest->share.lanes;
    const char *rows = cuda_name_iterations(l, cuda_all_iterations(l, l->parallel, l->parallel_count));
    name_slices(l, cuda_all_iterations(l, l->parallel, l->parallel_count), rows);
    const char *first = emit_own_name(p, "from"), *turn = emit_own_name(p, "turn"), *point = emit_own_name(p, "point");
    const char *slice = emit_own_name(p, "slice"), *begin = format("%s * %d", slice, groups), *slices = l->slices;
    emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", slice, cuda_own_number(l, "group", CUDA_THREADS), slice, slices, slice,
              cuda_own_number(l, "groups", CUDA_THREADS));
    p->indent++;
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s * %d) {", l->count_type, first, begin, first, rows, first, slices, groups * ROWS_AT_ONCE);
    p->indent++;
    declare_across(l);
    emit_line(p, "for (int %s = 0; %s < %d; %s++) {", turn, turn, ROWS_AT_ONCE, turn);
    p->indent++;
    emit_line(p, "const %s %s = %s + %s * %s * %d + threadIdx.x / %d;", l->count_type, point, first, turn, slices, groups, l->nest->share.lanes);
    emit_line(p, "if (%s < %s) {", point, rows);
    p->indent++;
    l->first = format("mgpu_lane(%d) == 0", l->nest->share.lanes);
    cuda_define_axes(l, l->parallel, l->parallel_count, point, true);
    l->slice = NULL;
    const char *reduction_iterations = cuda_name_iterations(l, cuda_all_iterations(l, l->reduction, l->reduction_axes_count));
    print_passes(l, reduction_iterations);
    close(l, 2);
    l->slice = slice;
    store_across(l, format("%s == %s", first, begin));
    close(l, 2);
}

/* ---- sums into rows */

enum { LOOKS = 4 /* iterations that a lane looks at together, so that it waits for memory once */ };

/* Each lane looks at iterations; those whose rows the warp owns, all lanes add, one after the other. */
static void print_rows(Loops *l)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    const Share *s = &nest->share;
    Expr **roots = cuda_root_room(nest), *row = (Expr *)(uintptr_t)nest->row;
    bool *used = NEW_ARRAY(bool, nest->exprs->count);
    const char *item = emit_own_name(p, "item"), *own = emit_own_name(p, "own"), *first = emit_own_name(p, "from"),
               *at = emit_own_name(p, "at");
    const char *row_name = emit_own_name(p, "row"), *bits = emit_own_name(p, "bits"), *look = emit_own_name(p, "look"),
               *mine = emit_own_name(p, "mine");
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count), parallel = cuda_all_iterations(l, l->parallel, l->parallel_count);
    const char *reduction_iterations = cuda_name_iterations(l, reduction);
    emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, cuda_own_number(l, "group", 32), item, emit_count(p, s->owners * s->parts), item,
              cuda_own_number(l, "groups", 32));
    p->indent++;
    emit_line(p, "const int %s = %s;", own, s->parts > 1 ? format("%s / %s", item, emit_divisor(p, s->parts)) : item);
    emit_line(p, "for (%s %s = 0; %s < %s; %s += %d) {", l->type, first, first, reduction_iterations, first, 32 * LOOKS);
    p->indent++;
    emit_line(p, "int64_t %s[%d];", row_name, LOOKS);
    emit_line(p, "for (int %s = 0; %s < %d; %s++) {", look, look, LOOKS, look);
    p->indent++;
    emit_line(p, "const %s %s = %s + 32 * %s + mgpu_lane(32);", l->type, at, first, look);
    emit_line(p, "%s[%s] = -1;", row_name, look);
    emit_line(p, "if (%s < %s) {", at, reduction_iterations);
    p->indent++;
    const char **saved = emit_saved_texts(p);
    p->loops = 0;
    for (int i = 0; i < l->reduction_axes_count; i++)
        p->loop[p->loops++] = l->reduction[i];
    roots[0] = row;
    cuda_find_wanted(l, roots, 1, used);
    cuda_define_axes(l, l->reduction, l->reduction_axes_count, at, true);
    for (int depth = 0; depth <= p->loops; depth++)
        emit_define(p, depth, 0);
    emit_line(p, "%s[%s] = %s;", row_name, look, p->shown[row->id].text);
    close(l, 2);
    emit_restore_texts(p, saved);
    emit_line(p, "for (int %s = 0; %s < %d; %s++) {", look, look, LOOKS, look);
    p->indent++;
    emit_line(p, "const bool %s = 0 <= %s[%s] && %s[%s] < %s && (%s[%s] & %s) == %s;", mine, row_name, look, row_name, look,
              emit_count(p, row->constant), row_name, look, emit_count(p, s->owners - 1), own);
    emit_line(p, "for (uint32_t %s = __ballot_sync(0xffffffffu, %s); %s; %s &= %s - 1) {", bits, mine, bits, bits, bits);
    p->indent++;
    const char *hit = emit_own_name(p, "hit");
    emit_line(p, "const %s %s = %s + 32 * %s + __ffs((int)%s) - 1;", l->type, hit, first, look, bits);
    p->loops = 0;
    for (int i = 0; i < l->reduction_axes_count; i++)
        p->loop[p->loops++] = l->reduction[i];
    for (int i = 0; i < l->parallel_count; i++)
        p->loop[p->loops++] = l->parallel[i];
    if (l->lane >= 0)
        p->loop[p->loops++] = l->lane;
    memset(used, 0, sizeof *used * (size_t)nest->exprs->count);
    cuda_find_wanted(l, roots, emit_pass_roots(nest, 0, roots), used);
    cuda_define_axes(l, l->reduction, l->reduction_axes_count, hit, true);
    for (int depth = 0; depth <= l->reduction_axes_count; depth++)
        emit_define(p, depth, 0);
    const char *lane = s->parts > 1 ? format("%s %% %s * 32 + mgpu_lane(32)", item, emit_divisor(p, s->parts)) : "mgpu_lane(32)";
    if (l->parallel_count) {
        cuda_open_iterations(l, l->parallel, l->parallel_count, "point", lane, cuda_iterations_text(l, parallel), emit_count(p, 32 * s->parts));
    } else {
        emit_line(p, "if (mgpu_lane(32) == 0) {");
        p->indent++;
    }
    for (int depth = l->reduction_axes_count + 1; depth <= l->reduction_axes_count + l->parallel_count; depth++)
        emit_define(p, depth, 0);
    cuda_print_iteration(l, 0, used);
    close(l, 5);
}

/* ---- the sums of all slices, and what follows */

static void print_finish(Loops *l)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Iterations reduction = cuda_all_iterations(l, l->reduction, l->reduction_axes_count);
    int64_t count = nest_result_iterations(nest);
    int across = 1;
    while (across < CUDA_FINISHED && across < count)
        across *= 2;
    name_slices(l, reduction, cuda_iterations_text(l, reduction));
    const char *iteration = count == 1 ? "0" : emit_own_name(p, "point");
    bool loop = count > 1 || p->kernel->nest_count > 1;
    if (loop) {
        const char *item = emit_own_name(p, "item");
        emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, cuda_own_number(l, "group", CUDA_THREADS), item,
                  emit_count(p, (count + across - 1) / across), item, cuda_own_number(l, "groups", CUDA_THREADS));
        p->indent++;
        if (count > 1)
            emit_line(p, "const int %s = %s * %d + mgpu_lane(%d);", iteration, item, across, across);
    }
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (!p->partial[i])
            continue;
        const char *sum = emit_result_name(p, r);
        emit_line(p, "const %s %s = mgpu_slices_%s(%s, %s, %s, %s, %d);", C_TYPE[reduction_type(r)], sum,
                  r->kind == REDUCE_SUM ? "add" : "larger", p->partial[i], l->slices, emit_count(p, count), iteration, across);
        p->result[i] = format("%s%s", emit_narrowing(r), sum);
    }
    if (count == 1)
        emit_line(p, "if (%s == 0) {", loop ? "threadIdx.x" : "mgpu_grid_thread()");
    else if (count % across)
        emit_line(p, "if (threadIdx.x < %d && %s < %s) {", across, iteration, emit_count(p, count));
    else
        emit_line(p, "if (threadIdx.x < %d) {", across);
    p->indent++;
    if (l->lane_parallel) /* an axis like others */
        l->parallel[l->parallel_count++] = l->lane;
    l->lane = -1;
    l->lane_parallel = false;
    cuda_define_axes(l, l->parallel, l->parallel_count, iteration, true);
    outer_stores(l, cuda_root_room(nest));
    close(l, loop ? 2 : 1);
}

static void print_partial(const Loops *l)
{
    Printer *p = l->p;
    p->partial = NEW_ARRAY(const char *, l->nest->reduction_count);
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *type = C_TYPE[reduction_type(r)];
        if (l->nest->across && !r->across)
            continue;
        p->partial[i] = emit_own_name(p, "partial");
        emit_line(p, "%s *const %s = (%s *)%s; %s", type, p->partial[i], type,
                  r->partial ? format("(work + %s)", emit_count(p, r->partial)) : "work",
                  emit_remark(p, c_comment("[%d, %lld]", l->nest->share.slices, (long long)nest_result_iterations(l->nest))));
    }
}

void cuda_nest(Printer *p, const Nest *nest)
{
    const Exprs *x = nest->exprs;
    emit_begin_nest(p, nest);
    Loops l = {.p = p, .nest = nest, .lane = nest->share.vector > 1 ? x->axis_count - 1 : -1};
    l.lane_parallel = l.lane >= 0 && x->axis[l.lane].reduction == (nest->across && p->finish);
    l.type = nest->share.narrow ? "int" : "int64_t";
    l.count_type = nest->share.narrow ? "uint32_t" : "int64_t";
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        if (i == l.lane || (a->extent == 1 && !a->samples && a->kind == AXIS_PLAIN))
            continue;
        if (a->reduction != (nest->across && p->finish)) /* the end has an iteration for each sum across */
            l.reduction[l.reduction_axes_count++] = i;
        else
            l.parallel[l.parallel_count++] = i;
        if (a->kind == AXIS_IN_GROUP)
            l.in_group = emit_own_name(p, "in_group");
    }
    find_online(&l);
    l.part = NEW_ARRAY(const char *, nest->reduction_count);
    if (nest->partial || nest->across)
        print_partial(&l);
    if (!p->finish)
        cuda_name_vectors(&l);
    else
        l.vector = NEW_ARRAY(const char *, x->count);
    if (l.parallel_count + l.lane_parallel > 0 && nest->share.sharing != SHARE_ROWS) { /* else in the one iteration */
        Expr **roots = cuda_root_room(nest);
        set_loops(&l, !p->finish);
        cuda_find_wanted(&l, roots, p->finish ? emit_outer_roots(p, roots) : emit_all_roots(p, roots), NEW_ARRAY(bool, x->count));
        emit_define(p, 0, 0);
    }
    if (p->finish)
        print_finish(&l);
    else if (nest->share.sharing == SHARE_ITERATIONS)
        print_iterations(&l);
    else if (nest->across)
        print_across(&l);
    else if (nest->share.sharing == SHARE_GROUPS)
        print_groups(&l);
    else if (nest->share.sharing == SHARE_COLUMNS)
        print_columns(&l);
    else
        print_rows(&l);
}
