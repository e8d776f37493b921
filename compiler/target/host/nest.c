/* nest.c: a nest as C loops.
 *
 * Rows:     for parallel axes { accumulators; for reduction axes accumulate; results; ... }
 * Columns:  for parallel axes but the innermost, for tiles of the innermost { arrays of accumulators;
 *           for reduction axes, for the tile accumulate; ... for the tile store }
 *
 * A nest with partial sums ends by adding its accumulators to those of the thread; its OUTER stores are in the kernel's
 * end, after the sums over all threads. */
#include "compiler/machine/machine.h"
#include "compiler/target/c/marks.h"
#include "compiler/target/host/host.h"

#include <math.h>
#include <string.h>

enum { WIDEST_TILE = 2048, NARROWEST_TILE = 512, LONGEST_ROW = 4096, HEAVY_FLOPS = 8, UPDATE_TILE = 256, LEAST_UPDATE = 32768 };

/* ---- stores and accumulations */

void emit_store(Printer *p, const Store *s)
{
    const char *value = p->shown[s->value->id].text;
    const char *element = s->run ? format("%s[%s]", p->run[s - p->nest->stores], p->axis_name[p->nest->exprs->axis_count - 1])
                                 : emit_element(p, emit_argument(p, s->tensor), p->shown[s->offset->id].text);
    const char *statement = format("%s %s %s;", element, s->add ? "+=" : "=", value);
    const Expr *v = s->value;
    bool rounded = v->kind == X_OP && v->op == OP_CAST && dtype_is_half(v->dtype) && v->in[0]->dtype == F32;
    const char *type = dtype_name(s->tensor->dtype);
    if (dtype_is_half(s->tensor->dtype) && rounded && !s->add)
        statement = strncmp(value, "mgpu_round_", 11) ? format("%s = mgpu_exact_%s(%s);", element, type, emit_constants(p, value))
                                                      : format("%s = mgpu_to_%s(%s);", element, type, emit_constants(p, p->shown[v->in[0]->id].text));
    else if (dtype_is_half(s->tensor->dtype))
        statement = s->add ? format("%s = mgpu_to_%s(mgpu_from_%s(%s) + %s);", element, type, type, element,
                                    emit_constants(p, emit_operand(p, v, LEVEL_PRODUCT)))
                           : format("%s = mgpu_to_%s(%s);", element, type, emit_constants(p, value));
    if (s->guard) {
        emit_line(p, "if (%s)", p->shown[s->guard->id].text);
        emit_line(p, "    %s", statement);
    } else {
        emit_line(p, "%s", statement);
    }
}

const char *emit_start(const Reduction *r)
{
    return r->kind == REDUCE_SUM ? "0" : emit_literal(-INFINITY, r->value->dtype);
}

/* `where`: "" or "[c]": the lane */
void emit_accumulate(Printer *p, const Reduction *r, const char *name, const char *where)
{
    const char *value = p->shown[r->value->id].text, *own = format("%s%s", name, where);
    if (r->kind == REDUCE_SUM) {
        emit_line(p, "%s += %s;", own, value);
        return;
    }
    value = emit_constants(p, value);
    if (r->kind == REDUCE_MAX) {
        emit_line(p, "%s = mgpu_larger(%s, %s);", own, own, value);
    } else { /* name_best is the maximum so far */
        const char *best = format("%s_best%s", name, where);
        emit_line(p, "%s = mgpu_beats(%s, %s) ? %s : %s;", own, value, best, p->shown[r->place->id].text, own);
        emit_line(p, "%s = mgpu_larger(%s, %s);", best, best, value);
    }
}

/* the expressions that the FULL stores and the reductions of a pass consist of */
int emit_pass_roots(const Nest *nest, int pass, Expr **roots)
{
    int count = 0;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        roots[count++] = r->value;
        if (r->place)
            roots[count++] = r->place;
    }
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (s->outer || s->value->pass != pass)
            continue;
        roots[count++] = s->value;
        roots[count++] = s->offset;
        if (s->guard)
            roots[count++] = s->guard;
    }
    return count;
}

int emit_outer_roots(const Printer *p, Expr **roots)
{
    const Nest *nest = p->nest;
    int count = 0;
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        bool outer = store_is_outer(nest, s, p->finish);
        if (nest->merges ? !p->finish : outer)
            roots[count++] = s->value;
        if (outer)
            roots[count++] = s->offset;
    }
    return count;
}

/* the number of the parallel iteration */
static const char *parallel_place(const Printer *p, const int *parallel, int parallel_count)
{
    Text t = {0};
    if (p->nest->fold)
        return p->axis_name[parallel[0]];
    int64_t stride = nest_result_iterations(p->nest);
    for (int i = 0; i < parallel_count; i++) {
        stride /= p->nest->exprs->axis[parallel[i]].extent;
        text_add(&t, i ? " + " : "");
        if (stride != 1)
            text_add(&t, "%lld * ", (long long)stride);
        text_add(&t, "%s", p->axis_name[parallel[i]]);
    }
    return parallel_count ? text_of(&t) : "0";
}

/* place: the number of the parallel iteration. A call merges its moments into those of the thread, and the end stores those of all */
static void outer_stores(Printer *p, const char *place)
{
    const Nest *nest = p->nest;
    Text values = {0};
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (nest->merges && !p->finish) {
            text_add(&values, "%s, ", p->shown[s->value->id].text);
            continue;
        }
        if (nest->merges)
            p->shown[s->value->id] = (Shown){.text = format("%s[%s]", p->partial[i], place), .level = LEVEL_ATOM};
        if (s->outer)
            emit_store(p, s);
    }
    if (nest->merges && !p->finish)
        emit_line(p, "mgpu_merge_moments(%s + %s, %s + %s, %s + %s, %spart->first);", p->partial[MOMENT_COUNT], place, p->partial[MOMENT_MEAN], place,
                  p->partial[MOMENT_SQUARES], place, text_of(&values));
}

/* the sums of the lanes of the same result */
static void fold_lanes(Printer *p, int lane, const char *lanes)
{
    const Nest *nest = p->nest;
    const char *v = p->axis_name[lane];
    for (int i = 0; i < nest->reduction_count; i++) {
        const char *sum = p->result[i];
        p->result[i] = emit_own_name(p, "folded");
        emit_line(p, "%s %s[%lld] = {0};", C_TYPE[reduction_type(&nest->reductions[i])], p->result[i], (long long)nest->fold);
        emit_line(p, "for (int64_t %s = 0; %s < %s; %s++)", v, v, lanes, v);
        emit_line(p, "    %s[%s %% %lld] += %s[%s];", p->result[i], v, (long long)nest->fold, sum, v);
    }
}

/* this call's accumulators, `count` of them each, to those of the thread */
static void keep_partial(Printer *p, const char *place, const char *count, bool arrays)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        emit_line(p, "mgpu_%s_%s_part(%s%s, %s%s, %s, part->first);", r->kind == REDUCE_SUM ? "add" : "larger",
                  dtype_name(reduction_type(r)), p->partial[i], strcmp(place, "0") ? format(" + %s", place) : "", arrays ? "" : "&",
                  p->result[i], count);
    }
}

static void pass_statements(Printer *p, int pass, const char *where)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass)
            emit_accumulate(p, &nest->reductions[i], p->result[i], where);
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass == pass)
            emit_store(p, &nest->stores[i]);
}

/* rooms for the lanes of stores in runs */
static void declare_runs(Printer *p, const char *width)
{
    const Nest *nest = p->nest;
    p->run = NEW_ARRAY(const char *, nest->store_count);
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].run) {
            p->run[i] = emit_own_name(p, "row");
            emit_line(p, "%s %s[%s];", emit_element_type(nest->stores[i].tensor->dtype), p->run[i], width);
        }
}

/* after the loop over lanes */
static void store_runs(Printer *p, int lane)
{
    const Nest *nest = p->nest;
    const char *v = p->axis_name[lane];
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        if (!s->run)
            continue;
        emit_line(p, "for (int64_t %s = 0; %s < %lld; %s++)", v, v, (long long)(nest->exprs->axis[lane].extent / s->run), v);
        emit_line(p, "    memcpy(%s + %s + %lld * %s, %s + %lld * %s, %lld);", emit_argument(p, s->tensor),
                  emit_operand(p, s->offset, LEVEL_SUM), (long long)s->apart, v, p->run[i], (long long)s->run, v,
                  (long long)(s->run * dtype_bytes(s->tensor->dtype)));
    }
}

/* ---- nests */

const char *emit_result_name(Printer *p, const Reduction *r)
{
    static const char *const NAME[] = {"sum", "most", "at_most"};
    return r->node && r->node->name ? emit_name(p, r->node->name) : emit_own_name(p, NAME[r->kind]);
}

static void row_accumulators(Printer *p, int pass)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        p->result[i] = emit_result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            emit_line(p, "%s %s = 0;", C_TYPE[r->dtype], p->result[i]);
            emit_line(p, "%s %s_best = %s;", C_TYPE[r->value->dtype], p->result[i], emit_start(r));
        } else {
            emit_line(p, "%s %s = %s;", C_TYPE[reduction_type(r)], p->result[i], emit_start(r));
        }
    }
}

static void narrow_results(Printer *p, int pass)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass)
            p->result[i] = format("%s%s", emit_narrowing(r), p->result[i]);
    }
}

/* everything wanted by any pass that the parallel loops can know: for hoisting */
int emit_all_roots(const Printer *p, Expr **roots)
{
    int count = 0;
    for (int pass = 0; pass < p->nest->passes; pass++)
        count += emit_pass_roots(p->nest, pass, roots + count);
    return count + emit_outer_roots(p, roots + count);
}

static Expr **emit_root_room(const Nest *nest)
{
    return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count);
}

/* ---- rows that are kept: what is expensive to compute and used in several passes */

static bool is_heavy(const Expr *e)
{
    return (e->kind == X_RANDOM && !(e->other & 2)) || (e->kind == X_OP && OP_INFO[e->op].meaning && OP_INFO[e->op].flops >= HEAVY_FLOPS);
}

/* finds them, and declares their arrays */
static void keep_rows(Printer *p, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    const Exprs *x = nest->exprs;
    int64_t extent = 1;
    const char *place = "0";
    uint32_t mask = 0;
    for (int i = 0; i < reduction_axes_count; i++) {
        const Axis *a = &x->axis[reduction[i]];
        if (a->samples || a->kind != AXIS_PLAIN || extent * a->extent > LONGEST_ROW)
            return;
        place = i == 0 ? p->axis_name[reduction[i]] : format("%lld * (%s) + %s", (long long)a->extent, place, p->axis_name[reduction[i]]);
        extent *= a->extent;
        mask |= 1u << reduction[i];
    }
    Expr **roots = emit_root_room(nest);
    int *first = NEW_ARRAY(int, x->count); /* the first pass that needs it, + 1 */
    for (int pass = 0; pass < nest->passes && mask; pass++) {
        bool *needed = NEW_ARRAY(bool, x->count);
        int count = emit_pass_roots(nest, pass, roots);
        for (int i = 0; i < count; i++)
            needed[roots[i]->id] = true;
        for (int i = x->count - 1; i >= 0; i--) {
            const Expr *e = x->all[i];
            Shown *s = &p->shown[i];
            if (!needed[i])
                continue;
            if (is_heavy(e) && (e->axes & mask) == mask && first[i] && !s->row) {
                const char *name = emit_name(p, format("%s_row", e->kind == X_OP ? OP_INFO[e->op].name : "rand"));
                emit_line(p, "%s %s[%lld];", C_TYPE[e->dtype], name, (long long)extent);
                s->row = format("%s[%s]", name, place);
                s->row_pass = first[i] - 1;
            }
            if (!first[i])
                first[i] = pass + 1;
            for (int k = 0; k < e->count && !s->row; k++)
                needed[e->in[k]->id] = true;
        }
    }
}

/* a later pass takes them from their arrays; the earlier ones do not know of them */
static void use_rows(Printer *p, int pass)
{
    for (int i = 0; i < p->nest->exprs->count; i++) {
        Shown *s = &p->shown[i];
        if (s->row && s->row_pass < pass) {
            s->text = s->row;
            s->level = LEVEL_ATOM;
        }
    }
}

/* ---- updates in place */

/* what it stores at every iteration of the first axis has been read there */
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

/* an axis that the workers divide, and tensors that are changed along it */
static bool is_update(const Printer *p)
{
    const Nest *nest = p->nest;
    bool plain = nest->exprs->axis_count == 1 && nest->divided == 1 && !p->finish && !nest->serial && nest->reduction_count == 0 &&
                 nest->exprs->axis[0].kind == AXIS_PLAIN && !nest->exprs->axis[0].samples && nest->exprs->axis[0].extent >= LEAST_UPDATE;
    bool any = false;
    for (int i = 0; i < nest->store_count && plain; i++)
        any = any || changes_in_place(nest, &nest->stores[i]);
    return plain && any;
}

/* the loop over tiles: while one is calculated, the lines of the next are fetched to be written */
static void open_update(Printer *p)
{
    const Nest *nest = p->nest;
    p->tile_start = emit_own_name(p, "tile");
    p->tile_width = emit_own_name(p, "tile_end");
    const char *end = emit_to(p, 0);
    emit_line(p, "for (int64_t %s = %s; %s < %s; %s += %d) {", p->tile_start, emit_from(p, 0), p->tile_start, end, p->tile_start, UPDATE_TILE);
    p->indent++;
    emit_line(p, "const int64_t %s = %s + %d < %s ? %s + %d : %s;", p->tile_width, p->tile_start, UPDATE_TILE, end, p->tile_start,
              UPDATE_TILE, end);
    for (int i = 0; i < nest->store_count; i++)
        if (changes_in_place(nest, &nest->stores[i]))
            emit_line(p, "mgpu_prepare_stores(%s + %s, %d);", emit_argument(p, nest->stores[i].tensor), p->tile_width,
                      UPDATE_TILE * dtype_bytes(nest->stores[i].tensor->dtype));
}

/* also element-wise nests: no reduction axes, one pass, all loops are parallel */
static void print_rows(Printer *p, const int *parallel, int parallel_count, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    Expr **roots = emit_root_room(nest);
    p->loops = 0;
    for (int i = 0; i < parallel_count; i++)
        p->loop[p->loops++] = parallel[i];
    for (int i = 0; i < reduction_axes_count; i++)
        p->loop[p->loops++] = reduction[i];
    emit_find_wanted(p, roots, emit_all_roots(p, roots), p->loops);
    emit_define(p, 0, 0);
    int all = p->loops;
    p->loops = parallel_count;
    bool update = is_update(p);
    if (update)
        open_update(p);
    emit_open_loops(p, 0, 0, update, reduction_axes_count || nest->reduction_count ? -1 : 0);
    p->loops = all;
    keep_rows(p, reduction, reduction_axes_count);
    for (int pass = 0; pass < nest->passes; pass++) {
        int count = emit_pass_roots(nest, pass, roots);
        if (!count)
            continue;
        row_accumulators(p, pass);
        const char **saved = emit_saved_texts(p);
        use_rows(p, pass);
        emit_find_wanted(p, roots, count, p->loops);
        emit_open_loops(p, parallel_count, pass, false, pass);
        pass_statements(p, pass, "");
        emit_close_loops(p, parallel_count);
        emit_restore_texts(p, saved);
        if (nest->partial && !nest->merges) {
            keep_partial(p, parallel_place(p, parallel, parallel_count), "1", false);
            break;
        }
        narrow_results(p, pass);
        emit_find_wanted(p, roots, emit_all_roots(p, roots), p->loops);
        emit_define(p, parallel_count, pass + 1);
    }
    int count = emit_outer_roots(p, roots);
    if (count) {
        p->loops = parallel_count;
        emit_find_wanted(p, roots, count, p->loops);
        emit_define(p, parallel_count, nest->passes);
        outer_stores(p, parallel_place(p, parallel, parallel_count));
    }
    p->loops = parallel_count;
    emit_close_loops(p, 0);
    if (update)
        emit_close(p);
}

/* arrays of accumulators and their initial values */
static void column_accumulators(Printer *p, int pass, int lane, const char *width)
{
    const Nest *nest = p->nest;
    bool any = false;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        any = true;
        p->result[i] = emit_result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            emit_line(p, "%s %s[%s];", C_TYPE[r->dtype], p->result[i], width);
            emit_line(p, "%s %s_best[%s];", C_TYPE[r->value->dtype], p->result[i], width);
        } else {
            emit_line(p, "%s %s[%s];", C_TYPE[reduction_type(r)], p->result[i], width);
        }
    }
    if (!any)
        return;
    emit_line(p, "for (int64_t %s = 0; %s < %s; %s++) {", p->axis_name[lane], p->axis_name[lane], width, p->axis_name[lane]);
    p->indent++;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        if (r->kind == REDUCE_ARGMAX) {
            emit_line(p, "%s[%s] = 0;", p->result[i], p->axis_name[lane]);
            emit_line(p, "%s_best[%s] = %s;", p->result[i], p->axis_name[lane], emit_start(r));
        } else {
            emit_line(p, "%s[%s] = %s;", p->result[i], p->axis_name[lane], emit_start(r));
        }
    }
    emit_close(p);
}

static void column_results(Printer *p, int pass, int lane)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass)
            p->result[i] = format("%s%s[%s]", emit_narrowing(r), p->result[i], emit_lane(p, lane));
    }
}

/* lanes whose accumulators fit into the first cache beside what is read: long stretches of memory are read faster than
 * short ones; as many as nest_widen joins at least, whose sums are folded at once */
static int64_t widest_tile(const Nest *nest)
{
    int64_t bytes = 0, lanes = WIDEST_TILE;
    for (int i = 0; i < nest->reduction_count; i++)
        bytes += dtype_bytes(reduction_type(&nest->reductions[i]));
    while (lanes > NARROWEST_TILE && lanes * bytes > CHIP[PROCESSOR_HOST].first_cache_bytes / 2)
        lanes /= 2;
    return lanes;
}

static void print_columns(Printer *p, const int *parallel, int parallel_count, const int *reduction, int reduction_axes_count)
{
    const Nest *nest = p->nest;
    Expr **roots = emit_root_room(nest);
    int lane = parallel[parallel_count - 1], outer = parallel_count - 1;
    int64_t extent = nest->exprs->axis[lane].extent, widest = widest_tile(nest);
    bool samples = nest->exprs->axis[lane].samples, tiled = samples || extent > widest || nest->divided == lane + 1;
    p->loops = 0;
    for (int i = 0; i < outer; i++)
        p->loop[p->loops++] = parallel[i];
    for (int i = 0; i < reduction_axes_count; i++)
        p->loop[p->loops++] = reduction[i];
    p->loop[p->loops++] = lane;
    emit_find_wanted(p, roots, emit_all_roots(p, roots), p->loops);
    emit_define(p, 0, 0);
    int all = p->loops;
    p->loops = outer;
    emit_open_loops(p, 0, 0, false, -1);
    const char *width = format("%lld", (long long)(samples || extent > widest ? widest : extent));
    p->tile_start = p->tile_width = NULL;
    if (tiled) {
        p->tile_start = emit_own_name(p, "tile");
        p->tile_width = emit_own_name(p, "tile_end");
        const char *all_lanes = emit_to(p, lane);
        emit_line(p, "for (int64_t %s = %s; %s < %s; %s += %s) {", p->tile_start, emit_from(p, lane), p->tile_start, all_lanes,
                  p->tile_start, width);
        p->indent++;
        emit_line(p, "const int64_t %s = %s + %s < %s ? %s + %s : %s;", p->tile_width, p->tile_start, width, all_lanes, p->tile_start,
             width, all_lanes);
    }
    const char *where = format("[%s]", emit_lane(p, lane));
    for (int pass = 0; pass < nest->passes; pass++) {
        p->loops = all;
        int count = emit_pass_roots(nest, pass, roots);
        if (!count)
            continue;
        column_accumulators(p, pass, lane, width);
        const char **saved = emit_saved_texts(p);
        emit_find_wanted(p, roots, count, p->loops);
        declare_runs(p, width);
        emit_open_loops(p, outer, pass, true, -1);
        pass_statements(p, pass, where);
        emit_close(p);
        store_runs(p, lane);
        p->loops--;
        emit_close_loops(p, outer);
        emit_restore_texts(p, saved);
        if (nest->partial && !nest->merges)
            break;
        column_results(p, pass, lane);
    }
    int count = emit_outer_roots(p, roots);
    if (nest->partial && !nest->merges) {
        int64_t stride = extent;
        const char *place = p->tile_start ? p->tile_start : "0";
        for (int i = outer - 1; i >= 0; i--) {
            place = format("%lld * %s%s", (long long)stride, p->axis_name[parallel[i]], strcmp(place, "0") ? format(" + %s", place) : "");
            stride *= nest->exprs->axis[parallel[i]].extent;
        }
        if (nest->fold) {
            fold_lanes(p, lane, width);
            width = format("%lld", (long long)nest->fold);
        }
        keep_partial(p, place, tiled ? format("%s - %s", p->tile_width, p->tile_start) : width, true);
    }
    if (count) {
        p->loops = outer;
        p->loop[p->loops++] = lane;
        emit_find_wanted(p, roots, count, p->loops);
        emit_open_loops(p, outer, nest->passes, true, -1);
        outer_stores(p, parallel_place(p, parallel, parallel_count));
        emit_close_loops(p, outer);
    }
    if (tiled)
        emit_close(p);
    p->loops = outer;
    emit_close_loops(p, 0);
}

/* the sums over all threads, then the OUTER stores */
static void print_finish(Printer *p, const int *parallel, int parallel_count)
{
    const Nest *nest = p->nest;
    int64_t count = nest_result_iterations(nest);
    if (nest->merges)
        emit_line(p, "mgpu_moments_parts(%s, %s, %s, %lld, part);", p->partial[MOMENT_COUNT], p->partial[MOMENT_MEAN], p->partial[MOMENT_SQUARES], (long long)count);
    for (int i = 0; i < nest->reduction_count && !nest->merges; i++) {
        const Reduction *r = &nest->reductions[i];
        emit_line(p, "mgpu_%s_%s_parts(%s, %lld, part);", r->kind == REDUCE_SUM ? "add" : "larger", dtype_name(reduction_type(r)),
                  p->partial[i], (long long)count);
        p->result[i] = format("%s%s[%s]", emit_narrowing(r), p->partial[i], parallel_place(p, parallel, parallel_count));
    }
    Expr **roots = emit_root_room(nest);
    p->loops = 0;
    for (int i = 0; i < parallel_count; i++)
        p->loop[p->loops++] = parallel[i];
    emit_find_wanted(p, roots, emit_outer_roots(p, roots), p->loops);
    emit_define(p, 0, 1);
    emit_open_loops(p, 0, 1, false, nest->passes);
    outer_stores(p, parallel_place(p, parallel, parallel_count));
    emit_close_loops(p, 0);
}

/* where the partial sums are */
static void print_partial(Printer *p)
{
    static const char *const NAME[MOMENTS] = {"number", "mean", "squares"};
    const Nest *nest = p->nest;
    int64_t count = nest_result_iterations(nest);
    int all = nest->merges ? MOMENTS : nest->reduction_count;
    p->partial = NEW_ARRAY(const char *, all);
    for (int i = 0; i < all; i++) {
        const char *type = C_TYPE[nest->merges ? F64 : reduction_type(&nest->reductions[i])];
        int64_t at = nest->merges ? i * whole_lines(count * dtype_bytes(F64)) : nest->reductions[i].partial;
        p->partial[i] = emit_own_name(p, nest->merges ? NAME[i] : "partial");
        emit_line(p, "%s *restrict %s = (%s *)((char *)argument[%d] + %lld); %s", type, p->partial[i], type,
                  p->kernel->read_count + p->kernel->write_count, (long long)at, c_comment("[%lld]", (long long)count));
    }
    if (nest->merges && !p->finish) { /* a thread that has no samples is called once, too, and there is no first one to look at */
        emit_line(p, "if (begin == end) {");
        emit_line(p, "    for (int64_t k = 0; part->first && k < %lld; k++)", (long long)count);
        emit_line(p, "        %s[k] = 0;", p->partial[MOMENT_COUNT]);
        emit_line(p, "    return;");
        emit_line(p, "}");
    }
}

static void name_axes(Printer *p)
{
    static const char *const NAMES[] = {"j", "k", "l", "m", "o", "q", "r", "s", "u", "v", "w", "z"};
    const Exprs *x = p->nest->exprs;
    for (int i = 0, used = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        const char *wish = a->samples || a->kind == AXIS_IN_GROUP || x->axis_count == 1 ? "i" : NAMES[used++ % COUNT(NAMES)];
        if (a->kind == AXIS_GROUPS)
            wish = "group";
        if (p->nest->share.vector > 1 && i == x->axis_count - 1)
            wish = "v";
        p->axis_name[i] = emit_own_name(p, wish);
    }
}

void emit_begin_nest(Printer *p, const Nest *nest)
{
    p->nest = nest;
    p->shown = NEW_ARRAY(Shown, nest->exprs->count);
    p->result = NEW_ARRAY(const char *, nest->reduction_count);
    p->tile_start = p->tile_width = NULL;
    const Exprs *x = nest->exprs;
    bool *chosen = NEW_ARRAY(bool, x->count); /* it is in a choice: what is loaded there is loaded before, so that the */
    for (int i = x->count - 1; i >= 0; i--) { /* loop needs no masks */
        const Expr *e = x->all[i];
        for (int k = 0; k < e->count; k++)
            if (chosen[i] || (e->kind == X_OP && e->op == OP_WHERE && k > 0))
                chosen[e->in[k]->id] = true;
        p->shown[i].fixed = e == nest->row || (e->kind == X_LOAD && ((chosen[i] && e->count == 1) || emit_written(p->kernel, e->tensor)));
    }
    name_axes(p);
}

void emit_nest(Printer *p, const Nest *nest)
{
    emit_begin_nest(p, nest);
    const Exprs *x = nest->exprs;
    int parallel[MAX_AXES], parallel_count = 0, reduction[MAX_AXES], reduction_axes_count = 0;
    for (int i = 0; i < x->axis_count; i++) {
        if (x->axis[i].reduction)
            reduction[reduction_axes_count++] = i;
        else
            parallel[parallel_count++] = i;
    }
    if (nest->partial)
        print_partial(p);
    emit_part(p);
    if (p->finish)
        print_finish(p, parallel, parallel_count);
    else if (nest->columns)
        print_columns(p, parallel, parallel_count, reduction, reduction_axes_count);
    else
        print_rows(p, parallel, parallel_count, reduction, reduction_axes_count);
}
