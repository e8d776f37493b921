/* nest.c: a nest as CUDA C.
 *
 * In: a nest, and how threads share it (cuda/share.c). Out: loops that go from a thread's own number, or a group's, in steps of
 * how many there are:
 *
 *   points   for kept points (or vectors of them) { for reduced axes accumulate; stores }
 *   groups    for kept points { for reduced points, in steps of the group, accumulate; join the group; the first thread stores }
 *   columns  for blocks of neighbouring kept points { likewise, in steps of the rows of the block }
 *   rows     for the warp's rows { for reduced points { for kept points add to the row } }
 *
 * With partial results groups and columns take a slice of the reduced points, and the first thread stores what it has into the
 * workspace; `finish` adds the slices up and makes the OUTER stores. One number counts all kept points, one all reduced
 * ones; the axes are made of it by division. The lanes of a vector are the innermost loop: what is contiguous along it is
 * loaded before it and stored after it. */
#include "compiler/target/cuda/points.h"
#include "compiler/target/c/marks.h"

#include <string.h>

/* ---- accumulators */

static bool makes_results(const Nest *nest, int pass)
{
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass)
            return true;
    return false;
}

/* "{0, 0, 0, 0}" */
static const char *all_lanes(const Loops *l, const char *value)
{
    Text t = {0};
    if (!l->lane_kept)
        return value;
    for (int i = 0; i < l->nest->share.vector; i++)
        text_add(&t, "%s%s", i ? ", " : "{", value);
    text_add(&t, "}");
    return text_of(&t);
}

static void declare_accumulators(const Loops *l, int pass)
{
    Printer *p = l->p;
    const char *lanes = l->lane_kept ? format("[%d]", l->nest->share.vector) : "";
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (r->value->pass != pass)
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
    for (int i = 0; i < l->nest->reduction_count && s->sharing != SHARE_POINTS; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *own = p->result[i], *how = r->kind == REDUCE_SUM ? "add" : "larger";
        if (r->value->pass != pass)
            continue;
        if (r->kind == REDUCE_ARGMAX)
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
        if (r->value->pass == pass)
            l->p->result[i] = format("%s%s%s", r->wide ? "(float)" : "", l->p->result[i],
                                     l->lane_kept ? format("[%s]", l->p->axis_name[l->lane]) : "");
    }
}

/* the number of the kept point, of its lane 0 */
static const char *kept_place(const Loops *l)
{
    Text t = {0};
    int64_t stride = nest_kept_points(l->nest);
    for (int i = 0; i < l->kept_count; i++) {
        stride /= l->nest->exprs->axis[l->kept[i]].extent;
        text_add(&t, stride == 1 ? "%s%s" : "%s%s * %s", i ? " + " : "", l->p->axis_name[l->kept[i]], emit_count(l->p, stride));
    }
    return l->kept_count ? text_of(&t) : "0";
}

static void store_partial(const Loops *l)
{
    Printer *p = l->p;
    const char *place = kept_place(l);
    bool only = strcmp(place, "0") == 0;
    if (l->first) {
        emit_line(p, "if (%s) {", l->first);
        p->indent++;
    }
    if (l->lane_kept)
        cuda_open_lanes(l);
    int64_t count = nest_kept_points(l->nest);
    const char *slice = count == 1 ? l->slice : format("%s * %s%s%s", l->slice, emit_count(p, count), only ? "" : " + ", only ? "" : place);
    for (int i = 0; i < l->nest->reduction_count; i++)
        emit_line(p, "%s[%s%s] = %s%s;", p->partial[i], slice, l->lane_kept ? format(" + %s", p->axis_name[l->lane]) : "", p->result[i],
                  l->lane_kept ? format("[%s]", p->axis_name[l->lane]) : "");
    if (l->lane_kept)
        emit_close(p);
    if (l->first)
        emit_close(p);
}

/* ---- loops */

/* the reduced axes; nothing is opened if there are none */
static int open_reduced(const Loops *l, const char *reduced_points)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    int before = p->indent;
    if (s->sharing == SHARE_POINTS) {
        for (int i = 0; i < l->reduced_count; i++) {
            int axis = l->reduced[i];
            const char *v = p->axis_name[axis];
            const Axis *a = &l->nest->exprs->axis[axis];
            if (a->kind == AXIS_IN_GROUP)
                emit_line(p, "for (%s %s = %lld * %s; %s < %lld * %s + %s; %s++) {", l->type, v, (long long)a->group, p->axis_name[axis - 1],
                          v, (long long)a->group, p->axis_name[axis - 1], l->in_group, v);
            else
                emit_line(p, "for (%s %s = 0; %s < %s; %s++) {", l->type, v, v, emit_constants(p, cuda_points_text(l, cuda_axis_points(l, axis))), v);
            p->indent++;
        }
        return p->indent - before;
    }
    if (!l->reduced_count)
        return 0;
    bool group = s->sharing == SHARE_GROUPS;
    int64_t side = group ? s->lanes : CUDA_THREADS / s->lanes;
    const char *own = group ? format("mgpu_lane(%d)", s->lanes) : l->row, *step = format("%lld", (long long)side);
    if (l->slice) {
        own = format("%s * %lld + %s", l->slice, (long long)side, own);
        step = format("%s * %lld", l->slices, (long long)side);
    }
    if (l->inside)
        own = format("%s ? %s : %s", l->inside, own, reduced_points);
    if (s->unrolled) {
        const char *turn = emit_own_name(p, "turn"), *number = emit_own_name(p, "reduced");
        bool alone = l->reduced_count == 1;
        if (alone)
            number = p->axis_name[l->reduced[0]];
        emit_line(p, "#pragma unroll");
        emit_line(p, "for (int %s = 0; %s < %d; %s++) {", turn, turn, s->unrolled, turn);
        p->indent++;
        emit_line(p, "const int %s = %s * %d + %s;", number, turn, s->lanes, own);
        if (cuda_all_points(l, l->reduced, l->reduced_count).count % s->lanes) {
            emit_line(p, "if (%s < %s) {", number, reduced_points);
            p->indent++;
        }
        if (!alone)
            cuda_define_axes(l, l->reduced, l->reduced_count, number, true);
        return p->indent - before;
    }
    cuda_open_points(l, l->reduced, l->reduced_count, "reduced", own, reduced_points, step);
    return p->indent - before;
}

static void close(const Loops *l, int count)
{
    while (count-- > 0)
        emit_close(l->p);
}

static void set_loops(const Loops *l, bool reduced)
{
    Printer *p = l->p;
    p->loops = 0;
    for (int i = 0; i < l->kept_count; i++)
        p->loop[p->loops++] = l->kept[i];
    for (int i = 0; i < l->reduced_count && reduced; i++)
        p->loop[p->loops++] = l->reduced[i];
    if (l->lane >= 0 && (reduced || l->lane_kept))
        p->loop[p->loops++] = l->lane;
}

static void define_kept(const Loops *l, int pass)
{
    for (int depth = 0; depth <= l->kept_count; depth++)
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
    bool *used = NEW_ARRAY(bool, l->nest->exprs->count), reduced_lane = l->lane >= 0 && !l->lane_kept;
    int lane = l->lane;
    set_loops(l, false);
    l->lane = reduced_lane ? -1 : lane;
    cuda_find_wanted(l, roots, count, used);
    define_kept(l, l->nest->passes);
    cuda_print_point(l, -1, used);
    l->lane = lane;
    if (l->first)
        emit_close(p);
}

/* everything at the kept points, whose loop is open */
static void print_passes(Loops *l, const char *reduced_points)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Expr **roots = cuda_root_room(nest);
    set_loops(l, true);
    cuda_find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
    define_kept(l, 0);
    for (int pass = 0; pass < nest->passes; pass++) {
        set_loops(l, true);
        int count = emit_pass_roots(nest, pass, roots);
        if (!count)
            continue;
        bool results = makes_results(nest, pass), *used = NEW_ARRAY(bool, nest->exprs->count);
        declare_accumulators(l, pass);
        const char **saved = emit_saved_texts(p);
        cuda_find_wanted(l, roots, count, used);
        define_kept(l, pass);
        int open = open_reduced(l, reduced_points);
        for (int depth = l->kept_count + 1; depth <= l->kept_count + l->reduced_count; depth++)
            emit_define(p, depth, pass);
        cuda_print_point(l, pass, used);
        close(l, open);
        emit_restore_texts(p, saved);
        if (results)
            join_accumulators(l, pass);
        if (nest->partial)
            break;
        name_results(l, pass);
        set_loops(l, true);
        cuda_find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
        define_kept(l, pass + 1);
    }
    if (nest->partial)
        store_partial(l);
    else
        outer_stores(l, roots);
}

/* ---- points, groups, columns */

static void print_points(Loops *l)
{
    Printer *p = l->p;
    const char *all = cuda_name_points(l, cuda_all_points(l, l->kept, l->kept_count));
    if (l->kept_count) {
        cuda_open_points(l, l->kept, l->kept_count, "point", cuda_own_number(l, "thread", 0), all, cuda_own_number(l, "threads", 0));
    } else {
        emit_line(p, "if (%s == 0) {", cuda_own_number(l, "thread", 0));
        p->indent++;
    }
    print_passes(l, NULL);
    emit_close(p);
}

/* how many slices there are of the reduced points */
static void name_slices(Loops *l, Points reduced, const char *reduced_points)
{
    const Share *s = &l->nest->share;
    if (!s->slices)
        return;
    l->slice = "slice";
    if (!reduced.times) {
        int64_t slices = (reduced.count + s->slice - 1) / s->slice;
        l->slices = emit_count(l->p, slices > s->slices ? s->slices : slices);
        return;
    }
    l->slices = emit_own_name(l->p, "slices");
    emit_line(l->p, "const int %s = mgpu_slices(%s, %s, %s);", l->slices, reduced_points, emit_count(l->p, s->slice), emit_count(l->p, s->slices));
}

static void print_groups(Loops *l)
{
    Printer *p = l->p;
    int lanes = l->nest->share.lanes;
    const char *group = cuda_own_number(l, "group", lanes), *groups = cuda_own_number(l, "groups", lanes);
    Points reduced = cuda_all_points(l, l->reduced, l->reduced_count);
    const char *kept = cuda_name_points(l, cuda_all_points(l, l->kept, l->kept_count));
    const char *reduced_points = l->in_group ? cuda_points_text(l, reduced) : cuda_name_points(l, reduced);
    name_slices(l, reduced, reduced_points);
    l->first = format("mgpu_lane(%d) == 0", lanes);
    if (l->slice) {
        l->slice = emit_own_name(p, "slice");
        const char *item = l->kept_count ? emit_own_name(p, "item") : l->slice;
        emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, group, item,
                  l->kept_count ? format("%s * %s", kept, l->slices) : l->slices, item, groups);
        p->indent++;
        if (l->kept_count)
            emit_line(p, "const int %s = %s / %s;", l->slice, item, emit_over(kept));
        cuda_define_axes(l, l->kept, l->kept_count, item, false);
    } else if (l->kept_count) {
        cuda_open_points(l, l->kept, l->kept_count, "point", group, kept, groups);
    } else {
        emit_line(p, "if (%s == 0) {", group);
        p->indent++;
    }
    print_passes(l, reduced_points);
    emit_close(p);
}

static void print_columns(Loops *l)
{
    Printer *p = l->p;
    const Share *s = &l->nest->share;
    bool any = l->kept_count > 0; /* else the vector is all that is kept */
    int column_axis = any ? l->kept[l->kept_count - 1] : -1, outer = any ? l->kept_count - 1 : 0;
    Points columns = any ? cuda_axis_points(l, column_axis) : (Points){1, NULL}, reduced = cuda_all_points(l, l->reduced, l->reduced_count);
    bool whole = !columns.times && columns.count % s->lanes == 0;
    const char *reduced_points = l->in_group ? cuda_points_text(l, reduced) : cuda_name_points(l, reduced);
    const char *tiles = columns.times ? format("((%s + %d) / %d)", cuda_points_text(l, columns), s->lanes - 1, s->lanes)
                                      : emit_count(p, (columns.count + s->lanes - 1) / s->lanes);
    Points before = cuda_all_points(l, l->kept, outer);
    name_slices(l, reduced, reduced_points);
    Points all = {before.count, before.times}; /* tiles of all rows */
    if (columns.times)
        all.times = before.times ? format("%s * %s", before.times, tiles) : tiles;
    else
        all.count *= (columns.count + s->lanes - 1) / s->lanes;
    bool one = !all.times && all.count == 1;
    const char *item = emit_own_name(p, l->slice && one ? "slice" : "item");
    l->row = emit_own_name(p, "row");
    emit_line(p, "const int %s = threadIdx.x / %d;", l->row, s->lanes);
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s) {", l->count_type, item, cuda_own_number(l, "group", CUDA_THREADS), item,
              !l->slice ? cuda_points_text(l, all) : one ? l->slices : format("%s * %s", cuda_points_text(l, all), l->slices), item,
              cuda_own_number(l, "groups", CUDA_THREADS));
    p->indent++;
    if (l->slice && !one) {
        l->slice = emit_own_name(p, "slice");
        emit_line(p, "const int %s = %s / %s;", l->slice, item, cuda_points_divisor(l, all));
    } else if (l->slice) {
        l->slice = item;
    }
    if (any) {
        const char *axis = p->axis_name[column_axis], *column = whole ? axis : emit_own_name(p, "column");
        emit_line(p, "const %s %s = %smgpu_lane(%d);", l->type, column,
                  strcmp(tiles, "1") ? format("%s %% %s * %d + ", item, emit_over(tiles), s->lanes) : "", s->lanes);
        if (!whole) {
            l->inside = emit_own_name(p, "inside");
            emit_line(p, "const bool %s = %s < %s;", l->inside, column, cuda_points_text(l, columns));
            emit_line(p, "const %s %s = %s ? %s : 0;", l->type, axis, l->inside, column);
        }
    }
    cuda_define_axes(l, l->kept, outer, strcmp(tiles, "1") ? format("(%s / %s)", item, emit_over(tiles)) : item, !l->slice);
    l->first = format("%s == 0%s%s", l->row, l->inside ? " && " : "", l->inside ? l->inside : "");
    print_passes(l, reduced_points);
    emit_close(p);
}

/* ---- sums into rows */

enum { LOOKS = 4 /* points that a lane looks at together, so that it waits for memory once */ };

/* Each lane looks at points; those whose rows the warp owns, all lanes add, one after the other. */
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
    Points reduced = cuda_all_points(l, l->reduced, l->reduced_count), kept = cuda_all_points(l, l->kept, l->kept_count);
    const char *reduced_points = cuda_name_points(l, reduced);
    emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, cuda_own_number(l, "group", 32), item, emit_count(p, s->owners * s->parts), item,
              cuda_own_number(l, "groups", 32));
    p->indent++;
    emit_line(p, "const int %s = %s;", own, s->parts > 1 ? format("%s / %s", item, emit_divisor(p, s->parts)) : item);
    emit_line(p, "for (%s %s = 0; %s < %s; %s += %d) {", l->type, first, first, reduced_points, first, 32 * LOOKS);
    p->indent++;
    emit_line(p, "int64_t %s[%d];", row_name, LOOKS);
    emit_line(p, "for (int %s = 0; %s < %d; %s++) {", look, look, LOOKS, look);
    p->indent++;
    emit_line(p, "const %s %s = %s + 32 * %s + mgpu_lane(32);", l->type, at, first, look);
    emit_line(p, "%s[%s] = -1;", row_name, look);
    emit_line(p, "if (%s < %s) {", at, reduced_points);
    p->indent++;
    const char **saved = emit_saved_texts(p);
    p->loops = 0;
    for (int i = 0; i < l->reduced_count; i++)
        p->loop[p->loops++] = l->reduced[i];
    roots[0] = row;
    cuda_find_wanted(l, roots, 1, used);
    cuda_define_axes(l, l->reduced, l->reduced_count, at, true);
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
    for (int i = 0; i < l->reduced_count; i++)
        p->loop[p->loops++] = l->reduced[i];
    for (int i = 0; i < l->kept_count; i++)
        p->loop[p->loops++] = l->kept[i];
    if (l->lane >= 0)
        p->loop[p->loops++] = l->lane;
    memset(used, 0, sizeof *used * (size_t)nest->exprs->count);
    cuda_find_wanted(l, roots, emit_pass_roots(nest, 0, roots), used);
    cuda_define_axes(l, l->reduced, l->reduced_count, hit, true);
    for (int depth = 0; depth <= l->reduced_count; depth++)
        emit_define(p, depth, 0);
    const char *lane = s->parts > 1 ? format("%s %% %s * 32 + mgpu_lane(32)", item, emit_divisor(p, s->parts)) : "mgpu_lane(32)";
    if (l->kept_count) {
        cuda_open_points(l, l->kept, l->kept_count, "point", lane, cuda_points_text(l, kept), emit_count(p, 32 * s->parts));
    } else {
        emit_line(p, "if (mgpu_lane(32) == 0) {");
        p->indent++;
    }
    for (int depth = l->reduced_count + 1; depth <= l->reduced_count + l->kept_count; depth++)
        emit_define(p, depth, 0);
    cuda_print_point(l, 0, used);
    close(l, 5);
}

/* ---- the sums of all slices, and what follows */

static void print_finish(Loops *l)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Points reduced = cuda_all_points(l, l->reduced, l->reduced_count);
    int64_t count = nest_kept_points(nest);
    int across = 1;
    while (across < 32 && across < count)
        across *= 2;
    name_slices(l, reduced, cuda_points_text(l, reduced));
    const char *point = count == 1 ? "0" : emit_own_name(p, "point");
    if (count > 1) {
        const char *item = emit_own_name(p, "item");
        emit_line(p, "for (int %s = mgpu_grid_group(%d); %s < %s; %s += mgpu_grid_groups(%d)) {", item, CUDA_THREADS, item,
                  emit_count(p, (count + across - 1) / across), item, CUDA_THREADS);
        p->indent++;
        emit_line(p, "const int %s = %s * %d + mgpu_lane(%d);", point, item, across, across);
    }
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        const char *sum = emit_result_name(p, r);
        emit_line(p, "const %s %s = mgpu_slices_%s(%s, %s, %s, %s, %d);", C_TYPE[reduction_type(r)], sum,
                  r->kind == REDUCE_SUM ? "add" : "larger", p->partial[i], l->slices, emit_count(p, count), point, across);
        p->result[i] = r->wide ? format("(float)%s", sum) : sum;
    }
    if (count == 1)
        emit_line(p, "if (mgpu_grid_thread() == 0) {");
    else if (count % across)
        emit_line(p, "if (threadIdx.x < %d && %s < %s) {", across, point, emit_count(p, count));
    else
        emit_line(p, "if (threadIdx.x < %d) {", across);
    p->indent++;
    if (l->lane_kept) /* an axis like others */
        l->kept[l->kept_count++] = l->lane;
    l->lane = -1;
    l->lane_kept = false;
    cuda_define_axes(l, l->kept, l->kept_count, point, true);
    outer_stores(l, cuda_root_room(nest));
    close(l, count == 1 ? 1 : 2);
}

static void print_partial(const Loops *l)
{
    Printer *p = l->p;
    p->partial = NEW_ARRAY(const char *, l->nest->reduction_count);
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *type = C_TYPE[reduction_type(r)];
        p->partial[i] = emit_own_name(p, "partial");
        emit_line(p, "%s *const %s = (%s *)%s; %s", type, p->partial[i], type,
                  r->partial ? format("(work + %s)", emit_count(p, r->partial)) : "work",
                  emit_remark(p, c_comment("[%d, %lld]", l->nest->share.slices, (long long)nest_kept_points(l->nest))));
    }
}

void cuda_nest(Printer *p, const Nest *nest)
{
    const Exprs *x = nest->exprs;
    emit_begin_nest(p, nest);
    Loops l = {.p = p, .nest = nest, .lane = nest->share.vector > 1 ? x->axis_count - 1 : -1};
    l.lane_kept = l.lane >= 0 && !x->axis[l.lane].reduced;
    l.type = nest->share.narrow ? "int" : "int64_t";
    l.count_type = nest->share.narrow ? "uint32_t" : "int64_t";
    for (int i = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        if (i == l.lane || (a->extent == 1 && !a->samples && a->kind == AXIS_PLAIN))
            continue;
        if (a->reduced)
            l.reduced[l.reduced_count++] = i;
        else
            l.kept[l.kept_count++] = i;
        if (a->kind == AXIS_IN_GROUP)
            l.in_group = emit_own_name(p, "in_group");
    }
    if (nest->partial)
        print_partial(&l);
    if (!p->finish)
        cuda_name_vectors(&l);
    else
        l.vector = NEW_ARRAY(const char *, x->count);
    if (l.kept_count + l.lane_kept > 0 && nest->share.sharing != SHARE_ROWS) { /* else in the one point */
        Expr **roots = cuda_root_room(nest);
        set_loops(&l, !p->finish);
        cuda_find_wanted(&l, roots, p->finish ? emit_outer_roots(p, roots) : emit_all_roots(p, roots), NEW_ARRAY(bool, x->count));
        emit_define(p, 0, 0);
    }
    if (p->finish)
        print_finish(&l);
    else if (nest->share.sharing == SHARE_POINTS)
        print_points(&l);
    else if (nest->share.sharing == SHARE_GROUPS)
        print_groups(&l);
    else if (nest->share.sharing == SHARE_COLUMNS)
        print_columns(&l);
    else
        print_rows(&l);
}
