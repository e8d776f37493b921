/* nest.c: lowers a nest to loops for the host.
 *
 * Rows:     for parallel axes { accumulators; for reduction axes accumulate; results; ... }
 * Columns:  for parallel axes but the innermost, for tiles of the innermost { arrays of accumulators;
 *           for reduction axes, for the tile accumulate; ... for the tile store }
 *
 * A nest with partial sums adds its accumulators to those of the thread. Its OUTER stores are in the kernel's finishing function,
 * which adds up the sums of all threads first. */
#include "compiler/base/c_text.h"
#include "compiler/machine/machine.h"
#include "compiler/target/host/host.h"
#include "compiler/loops/lower.h"
#include "compiler/loops/vector.h"

#include <string.h>

enum { WIDEST_TILE = 2048, NARROWEST_TILE = 512, LONGEST_ROW = 4096, HEAVY_FLOPS = 8, UPDATE_TILE = 256, LEAST_UPDATE = 32768 };

/* Returns the linear index of the parallel iteration. */
static const Term *parallel_place(const Lowering *p, const int *parallel, int parallel_count)
{
    if (p->nest->fold)
        return p->axis_name[parallel[0]];
    const Term *place = NULL;
    int64_t stride = nest_result_iterations(p->nest);
    for (int i = 0; i < parallel_count; i++) {
        stride /= p->nest->exprs->axis[parallel[i]].extent;
        const Term *axis = p->axis_name[parallel[i]];
        axis = stride == 1 ? axis : term_times(term_whole(stride), axis);
        place = place ? term_add(place, axis) : axis;
    }
    return place ? place : term_word("0");
}

/* Emits a merge of the call's moments into those of the thread. */
static void merge_moments(Lowering *p, const Term *place)
{
    const Term *list[2 * MOMENTS + 1];
    for (int i = 0; i < MOMENTS; i++) {
        list[i] = term_add(p->partial[i], place);
        list[MOMENTS + i] = term_of(p, p->nest->stores[i].value);
    }
    list[2 * MOMENTS] = term_word("part->first");
    code_do(&p->to, term_call("mgpu_merge_moments", COUNT(list), list));
}

/* place: the linear index of the parallel iteration */
static void outer_stores(Lowering *p, const Term *place)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->store_count && !(nest->merges && !p->finish); i++) {
        const Store *s = &nest->stores[i];
        if (nest->merges)
            p->term_of[s->value->id] = (TermOfExpr){.term = p->vector ? vector_of_array(p, F64, term_add(p->partial[i], place))
                                                                      : term_element(p->partial[i], place)};
        if (s->outer)
            add_store(p, s);
    }
    if (nest->merges && !p->finish)
        merge_moments(p, place);
}

/* Adds up the lanes with the same result: lane i has result i mod fold. */
static void fold_lanes(Lowering *p, int lane, const Term *lanes)
{
    const Nest *nest = p->nest;
    const Term *v = p->axis_name[lane], *fold = term_whole(nest->fold), *zero[] = {term_word("0")};
    for (int i = 0; i < nest->reduction_count; i++) {
        const Term *sum = p->result[i];
        p->result[i] = fresh_name(p, "folded");
        code_array(&p->to, C_TYPE[reduction_type(&nest->reductions[i])], p->result[i], fold, term_list(1, zero));
        code_count(&p->to, "int64_t", v, zero[0], lanes, NULL);
        code_set(&p->to, term_element(p->result[i], term_binary(LEVEL_PRODUCT, v, "%", fold)), "+=", term_element(sum, v));
        code_bare(&p->to);
    }
}

/* Adds this call's accumulators, `count` per reduction, to those of the thread. */
static void keep_partial(Lowering *p, const Term *place, const Term *count, bool arrays)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        const char *add = format("mgpu_%s_%s_part", r->kind == REDUCE_SUM ? "add" : "larger", dtype_name(reduction_type(r)));
        code_do(&p->to, CALL(add, term_is_word(place, "0") ? p->partial[i] : term_add(p->partial[i], place),
                             arrays ? p->result[i] : term_unary("&", p->result[i]), count, term_word("part->first")));
    }
}

/* lane: columns: the index in the tile; else NULL */
static void pass_statements(Lowering *p, int pass, const Term *lane)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass)
            accumulate(p, &nest->reductions[i], p->result[i], lane);
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass == pass)
            add_store(p, &nest->stores[i]);
}

/* Declares local arrays for the lanes of stores with runs. */
static void declare_runs(Lowering *p, int64_t width)
{
    const Nest *nest = p->nest;
    p->run = NEW_ARRAY(const Term *, nest->store_count);
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].run)
            code_array(&p->to, element_type(nest->stores[i].tensor->dtype), p->run[i] = fresh_name(p, "row"), term_whole(width),
                       NULL);
}

/* After the loop over lanes: copies the runs to their tensors. */
static void store_runs(Lowering *p, int lane)
{
    const Nest *nest = p->nest;
    const Term *v = p->axis_name[lane];
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (!s->run)
            continue;
        code_count(&p->to, "int64_t", v, term_word("0"), term_whole(nest->exprs->axis[lane].extent / s->run), NULL);
        const Term *to = term_add(argument_of(p, s->tensor), term_of(p, s->offset));
        code_do(&p->to,
                CALL("memcpy", term_add(to, term_times(term_whole(s->apart), v)),
                     term_add(p->run[i], term_times(term_whole(s->run), v)), term_whole(s->run * dtype_bytes(s->tensor->dtype))));
        code_bare(&p->to);
    }
}

/* ---- nests */

/* bytes: lane size of the vectors (vector_bytes); 0: the accumulators are scalars */
static void row_accumulators(Lowering *p, int pass, int bytes)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        p->result[i] = result_name(p, r);
        bool place = r->kind == REDUCE_ARGMAX;
        if (bytes) {
            LaneType type = accumulator_type(r);
            p->wide = bytes == 8;
            code_declare(&p->to, vector_word(p, "", type), p->result[i], CALL(vector_word(p, "all", type), reduction_start(r)));
            continue;
        }
        code_declare(&p->to, C_TYPE[place ? r->dtype : reduction_type(r)], p->result[i],
                     place ? term_word("0") : reduction_start(r));
        if (place)
            code_declare(&p->to, C_TYPE[r->value->dtype], best_name(p->result[i]), reduction_start(r));
    }
}

/* Reduces accumulators that are vectors to scalars. */
static void sum_lanes(Lowering *p, int pass)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        const Term *lanes = p->result[i];
        p->result[i] = result_name(p, r);
        code_declare(&p->to, C_TYPE[reduction_type(r)], p->result[i], vector_sum(p, r, lanes));
    }
}

static void narrow_results(Lowering *p, int pass)
{
    for (int i = 0; i < p->nest->reduction_count; i++)
        if (p->nest->reductions[i].value->pass == pass)
            p->result[i] = narrowed(&p->nest->reductions[i], p->result[i]);
}

static Expr **new_root_list(const Nest *nest) { return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count); }

/* ---- local arrays for expensive values that several passes use */

static bool is_heavy(const Expr *e)
{
    return (e->kind == X_RANDOM && !(e->other & 2)) ||
           (e->kind == X_OP && OP_INFO[e->op].meaning && OP_INFO[e->op].flops >= HEAVY_FLOPS);
}

/* Finds such values, and declares their arrays. */
static void keep_rows(Lowering *p, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    const Exprs *x = nest->exprs;
    int64_t extent = 1;
    const Term *place = term_word("0");
    uint32_t mask = 0;
    for (int i = 0; i < reduction_axes_count; i++) {
        const Axis *a = &x->axis[reduction[i]];
        if (a->samples || a->kind != AXIS_PLAIN || extent * a->extent > LONGEST_ROW)
            return;
        place =
            i == 0 ? p->axis_name[reduction[i]] : term_add(term_times(term_whole(a->extent), place), p->axis_name[reduction[i]]);
        extent *= a->extent;
        mask |= 1u << reduction[i];
    }
    Expr **roots = new_root_list(nest);
    int *first = NEW_ARRAY(int, x->count); /* the first pass that needs it + 1; 0: none yet */
    for (int pass = 0; pass < nest->passes && mask; pass++) {
        bool *needed = NEW_ARRAY(bool, x->count);
        int count = pass_roots(nest, pass, roots);
        for (int i = 0; i < count; i++)
            needed[roots[i]->id] = true;
        for (int i = x->count - 1; i >= 0; i--) {
            const Expr *e = x->all[i];
            TermOfExpr *s = &p->term_of[i];
            if (!needed[i])
                continue;
            if (is_heavy(e) && (e->axes & mask) == mask && first[i] && !s->row) {
                const Term *name = name_like(p, format("%s_row", e->kind == X_OP ? OP_INFO[e->op].name : "rand"));
                code_array(&p->to, C_TYPE[e->dtype], name, term_whole(extent), NULL);
                s->row = term_element(name, place);
                s->row_pass = first[i] - 1;
            }
            if (!first[i])
                first[i] = pass + 1;
            for (int k = 0; k < e->count && !s->row; k++)
                needed[e->in[k]->id] = true;
        }
    }
}

/* Makes passes after the one that fills an array read it. */
static void use_rows(Lowering *p, int pass)
{
    for (int i = 0; i < p->nest->exprs->count; i++) {
        TermOfExpr *s = &p->term_of[i];
        if (s->row && s->row_pass < pass) {
            s->term = s->row;
        }
    }
}

/* ---- updates in place */

/* Returns true if the store goes along the first axis, to elements that the same iteration loads. */
static bool changes_in_place(const Nest *nest, const Store *s)
{
    bool along = !s->outer && s->offset->kind == X_AXIS && s->offset->constant == 0;
    for (int i = 0; i < nest->exprs->count && along; i++) {
        const Expr *e = nest->exprs->all[i];
        if (e->kind == X_LOAD && e->tensor->id == s->tensor->id && e->in[0] == s->offset)
            return true;
    }
    return false;
}

/* Returns true for an element-wise update in place along one long axis that workers divide. */
static bool is_update(const Lowering *p)
{
    const Nest *nest = p->nest;
    bool plain = nest->exprs->axis_count == 1 && nest->divided == 1 && !p->finish && !nest->serial &&
                 nest->reduction_count == 0 && nest->exprs->axis[0].kind == AXIS_PLAIN && !nest->exprs->axis[0].samples &&
                 nest->exprs->axis[0].extent >= LEAST_UPDATE;
    bool any = false;
    for (int i = 0; i < nest->store_count && plain; i++)
        any = any || changes_in_place(nest, &nest->stores[i]);
    return plain && any;
}

/* Opens a loop over tiles of `width` iterations of an axis. Sets p->tile_start and p->tile_width, the tile's end. */
static void open_tiles(Lowering *p, int axis, int64_t width)
{
    const Term *step = term_whole(width), *end = loop_to(p, axis);
    p->tile_start = fresh_name(p, "tile");
    p->tile_width = fresh_name(p, "tile_end");
    const Term *next = term_add(p->tile_start, step);
    code_count(&p->to, "int64_t", p->tile_start, loop_from(p, axis), end, step);
    code_declare(&p->to, "const int64_t", p->tile_width, term_choice(term_binary(LEVEL_LESS, next, "<", end), next, end));
}

/* Opens a loop over tiles, each of which prefetches the next one's cache lines for writing. */
static void open_update(Lowering *p)
{
    const Nest *nest = p->nest;
    open_tiles(p, 0, UPDATE_TILE);
    for (int i = 0; i < nest->store_count; i++)
        if (changes_in_place(nest, &nest->stores[i])) {
            const Tensor *t = nest->stores[i].tensor;
            code_do(&p->to, CALL("mgpu_prepare_stores", term_add(argument_of(p, t), p->tile_width),
                                 term_whole(UPDATE_TILE * dtype_bytes(t->dtype))));
        }
}

/* Also lowers element-wise nests, which have no reduction axes and one pass. */
static void lower_rows(Lowering *p, const int *parallel, int parallel_count, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    Expr **roots = new_root_list(nest);
    p->loops = 0;
    for (int i = 0; i < parallel_count; i++)
        p->loop[p->loops++] = parallel[i];
    for (int i = 0; i < reduction_axes_count; i++)
        p->loop[p->loops++] = reduction[i];
    find_wanted(p, roots, all_roots(p, roots), p->loops);
    define_wanted(p, 0, 0);
    int all = p->loops;
    p->loops = parallel_count;
    bool update = is_update(p);
    if (update)
        open_update(p);
    open_loops(p, 0, 0, update, reduction_axes_count || nest->reduction_count ? -1 : 0);
    p->loops = all;
    keep_rows(p, reduction, reduction_axes_count);
    for (int pass = 0; pass < nest->passes; pass++) {
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        const Term **saved = saved_terms(p);
        use_rows(p, pass);
        find_wanted(p, roots, count, p->loops);
        int bytes = reduction_axes_count ? innermost_bytes(p, p->loop[p->loops - 1], pass) : 0;
        row_accumulators(p, pass, bytes);
        open_loops(p, parallel_count, pass, false, pass);
        pass_statements(p, pass, NULL);
        close_loops(p, parallel_count);
        if (bytes)
            sum_lanes(p, pass);
        restore_terms(p, saved);
        if (nest->partial && !nest->merges) {
            keep_partial(p, parallel_place(p, parallel, parallel_count), term_word("1"), false);
            break;
        }
        narrow_results(p, pass);
        find_wanted(p, roots, all_roots(p, roots), p->loops);
        define_wanted(p, parallel_count, pass + 1);
    }
    int count = outer_roots(p, roots);
    if (count) {
        p->loops = parallel_count;
        find_wanted(p, roots, count, p->loops);
        define_wanted(p, parallel_count, nest->passes);
        outer_stores(p, parallel_place(p, parallel, parallel_count));
    }
    p->loops = parallel_count;
    close_loops(p, 0);
    if (update)
        code_close(&p->to);
}

/* Declares and initializes arrays of accumulators. */
static void column_accumulators(Lowering *p, int pass, int lane, const Term *width)
{
    const Nest *nest = p->nest;
    const Term *v = p->axis_name[lane];
    bool any = false;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        any = true;
        p->result[i] = result_name(p, r);
        bool place = r->kind == REDUCE_ARGMAX;
        code_array(&p->to, C_TYPE[place ? r->dtype : reduction_type(r)], p->result[i], width, NULL);
        if (place)
            code_array(&p->to, C_TYPE[r->value->dtype], best_name(p->result[i]), width, NULL);
    }
    if (!any)
        return;
    if (!p->kernel->small) {
        for (int i = 0; i < nest->reduction_count; i++) {
            const Reduction *r = &nest->reductions[i];
            bool place = r->kind == REDUCE_ARGMAX;
            if (r->value->pass != pass)
                continue;
            vector_fill(p, v, reduction_type(r), place ? best_name(p->result[i]) : p->result[i], width, reduction_start(r));
            if (place)
                vector_fill(p, v, r->dtype, p->result[i], width, term_word("0"));
        }
        return;
    }
    code_count(&p->to, "int64_t", v, term_word("0"), width, NULL);
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        bool place = r->kind == REDUCE_ARGMAX;
        code_set(&p->to, term_element(p->result[i], v), "=", place ? term_word("0") : reduction_start(r));
        if (place)
            code_set(&p->to, term_element(best_name(p->result[i]), v), "=", reduction_start(r));
    }
    code_close(&p->to);
}

static void column_results(Lowering *p, int pass, int lane)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass)
            p->result[i] = narrowed(r, term_element(p->result[i], lane_term(p, lane)));
    }
}

/* Returns the lanes of a tile, whose accumulators take at most half of the L1 cache: long contiguous reads are faster than short
 * ones. There are no fewer than nest_widen makes, since fold_lanes needs all of those in one tile. */
static int64_t widest_tile(const Nest *nest)
{
    int64_t bytes = 0, lanes = WIDEST_TILE;
    for (int i = 0; i < nest->reduction_count; i++)
        bytes += dtype_bytes(reduction_type(&nest->reductions[i]));
    while (lanes > NARROWEST_TILE && lanes * bytes > CHIP[PROCESSOR_HOST].first_cache_bytes / 2)
        lanes /= 2;
    return lanes;
}

static void lower_columns(Lowering *p, const int *parallel, int parallel_count, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    Expr **roots = new_root_list(nest);
    int lane = parallel[parallel_count - 1], outer = parallel_count - 1;
    int64_t extent = nest->exprs->axis[lane].extent, widest = widest_tile(nest);
    bool samples = nest->exprs->axis[lane].samples, tiled = samples || extent > widest || nest->divided == lane + 1;
    p->loops = 0;
    for (int i = 0; i < outer; i++)
        p->loop[p->loops++] = parallel[i];
    for (int i = 0; i < reduction_axes_count; i++)
        p->loop[p->loops++] = reduction[i];
    p->loop[p->loops++] = lane;
    find_wanted(p, roots, all_roots(p, roots), p->loops);
    define_wanted(p, 0, 0);
    int all = p->loops;
    p->loops = outer;
    open_loops(p, 0, 0, false, -1);
    int64_t lanes = samples || extent > widest ? widest : extent;
    const Term *width = term_whole(lanes);
    p->tile_start = p->tile_width = NULL;
    if (tiled)
        open_tiles(p, lane, lanes);
    const Term *where = lane_term(p, lane);
    for (int pass = 0; pass < nest->passes; pass++) {
        p->loops = all;
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        column_accumulators(p, pass, lane, width);
        const Term **saved = saved_terms(p);
        find_wanted(p, roots, count, p->loops);
        declare_runs(p, lanes);
        open_loops(p, outer, pass, true, -1);
        pass_statements(p, pass, where);
        close_innermost(p);
        store_runs(p, lane);
        p->loops--;
        close_loops(p, outer);
        restore_terms(p, saved);
        if (nest->partial && !nest->merges)
            break;
        column_results(p, pass, lane);
    }
    int count = outer_roots(p, roots);
    if (nest->partial && !nest->merges) {
        int64_t stride = extent;
        const Term *place = p->tile_start ? p->tile_start : term_word("0");
        for (int i = outer - 1; i >= 0; i--) {
            const Term *row = term_times(term_whole(stride), p->axis_name[parallel[i]]);
            place = term_is_word(place, "0") ? row : term_add(row, place);
            stride *= nest->exprs->axis[parallel[i]].extent;
        }
        if (nest->fold) {
            fold_lanes(p, lane, width);
            width = term_whole(nest->fold);
        }
        keep_partial(p, place, tiled ? term_binary(LEVEL_SUM, p->tile_width, "-", p->tile_start) : width, true);
    }
    if (count) {
        p->loops = outer;
        p->loop[p->loops++] = lane;
        find_wanted(p, roots, count, p->loops);
        open_loops(p, outer, nest->passes, true, -1);
        outer_stores(p, parallel_place(p, parallel, parallel_count));
        close_loops(p, outer);
    }
    if (tiled)
        code_close(&p->to);
    p->loops = outer;
    close_loops(p, 0);
}

static const Term *type_word(Dtype t) { return term_word(c_constant("MGPU_", dtype_name(t))); }

/* Emits the finishing function: the sums over all threads, then the OUTER stores. */
static void lower_finish(Lowering *p, const int *parallel, int parallel_count)
{
    const Nest *nest = p->nest;
    int64_t count = nest_result_iterations(nest);
    const Term *all = term_whole(count), *part = term_word("part");
    const bool exact = p->kernel->exact;
    if (nest->merges)
        code_do(&p->to, CALL(exact ? "mgpu_merge_shards" : "mgpu_moments_parts", p->partial[MOMENT_COUNT],
                             p->partial[MOMENT_MEAN], p->partial[MOMENT_SQUARES], all, part));
    for (int i = 0; i < nest->reduction_count && !nest->merges; i++) {
        const Reduction *r = &nest->reductions[i];
        const char *add = format("mgpu_%s_%s_parts", r->kind == REDUCE_SUM ? "add" : "larger", dtype_name(reduction_type(r)));
        if (exact && r->kind == REDUCE_SUM)
            code_do(&p->to, CALL("mgpu_add_shards", p->partial[i], all, type_word(reduction_type(r)), type_word(r->dtype), part));
        else
            code_do(&p->to, CALL(add, p->partial[i], all, part));
        p->result[i] = narrowed(r, term_element(p->partial[i], parallel_place(p, parallel, parallel_count)));
    }
    Expr **roots = new_root_list(nest);
    p->loops = 0;
    for (int i = 0; i < parallel_count; i++)
        p->loop[p->loops++] = parallel[i];
    find_wanted(p, roots, outer_roots(p, roots), p->loops);
    define_wanted(p, 0, 1);
    open_loops(p, 0, 1, false, nest->passes);
    outer_stores(p, parallel_place(p, parallel, parallel_count));
    close_loops(p, 0);
}

/* A thread without samples is called once, too. It has no first sample for the pivot, so it only sets its counts to 0. */
static void return_without_samples(Lowering *p, int64_t count)
{
    const Term *k = term_word("k"), *zero = term_word("0");
    code_if(&p->to, term_binary(LEVEL_EQUAL, term_word("begin"), "==", term_word("end")));
    Statement *loop =
        code_for(&p->to, "int64_t", k, zero,
                 term_binary(LEVEL_AND, term_word("part->first"), "&&", term_binary(LEVEL_LESS, k, "<", term_whole(count))));
    code_step(loop, k, "++", NULL);
    code_set(&p->to, term_element(p->partial[MOMENT_COUNT], k), "=", zero);
    code_bare(&p->to);
    code_do(&p->to, term_word("return"));
    code_close(&p->to);
}

/* Declares pointers to the thread's partial sums in its workspace. */
static void declare_partial(Lowering *p)
{
    static const char *const NAME[MOMENTS] = {"number", "mean", "squares"};
    const Nest *nest = p->nest;
    int64_t count = nest_result_iterations(nest);
    int all = nest->merges ? MOMENTS : nest->reduction_count;
    const Term *work = term_element(term_word("argument"), term_whole(p->kernel->read_count + p->kernel->write_count));
    p->partial = NEW_ARRAY(const Term *, all);
    for (int i = 0; i < all; i++) {
        const char *type = C_TYPE[nest->merges ? F64 : reduction_type(&nest->reductions[i])];
        int64_t at = nest->merges ? i * whole_lines(count * dtype_bytes(F64)) : nest->reductions[i].partial;
        p->partial[i] = fresh_name(p, nest->merges ? NAME[i] : "partial");
        code_array(&p->to, format("%s *restrict", type), p->partial[i], NULL,
                   term_cast(format("%s *", type), term_add(term_cast("char *", work), term_whole(at))))
            ->remark = c_comment("[%lld]", (long long)count);
    }
    if (nest->merges && !p->finish)
        return_without_samples(p, count);
}

void host_nest(Lowering *p, const Nest *nest)
{
    begin_nest(p, nest);
    const Exprs *x = nest->exprs;
    int parallel[MAX_AXES], parallel_count = 0, reduction[MAX_AXES], reduction_axes_count = 0;
    for (int i = 0; i < x->axis_count; i++) {
        if (x->axis[i].reduction)
            reduction[reduction_axes_count++] = i;
        else
            parallel[parallel_count++] = i;
    }
    if (nest->partial)
        declare_partial(p);
    declare_part(p);
    if (p->finish)
        lower_finish(p, parallel, parallel_count);
    else if (nest->columns)
        lower_columns(p, parallel, parallel_count, reduction, reduction_axes_count);
    else
        lower_rows(p, parallel, parallel_count, reduction, reduction_axes_count);
}
