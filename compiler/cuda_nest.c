/* cuda_nest.c: a nest as CUDA C.
 *
 * In: a nest, and how threads share it (cuda_share.c). Out: loops that go from a thread's own number, or a team's, in steps of
 * how many there are:
 *
 *   points   for kept points (or vectors of them) { for reduced axes accumulate; stores }
 *   teams    for kept points { for reduced points, in steps of the team, accumulate; join the team; the first thread stores }
 *   columns  for blocks of neighbouring kept points { likewise, in steps of the rows of the block }
 *   rows     for the warp's rows { for reduced points { for kept points add to the row } }
 *
 * With partial results teams and columns take a slice of the reduced points, and the first thread stores what it has into the
 * workspace; `finish` adds the slices up and makes the OUTER stores. One number counts all kept points, one all reduced
 * ones; the axes are made of it by division. The lanes of a vector are the innermost loop: what is contiguous along it is
 * loaded before it and stored behind it. */
#include "compiler/cuda.h"

#include <math.h>
#include <string.h>

typedef struct Loops {
    Printer *p;
    const Nest *nest;
    int kept[MAX_AXES], kept_count, reduced[MAX_AXES], reduced_count; /* without the lane */
    int lane;              /* the axis of the vector's lanes; -1: none */
    bool lane_kept;
    const char *type, *count_type; /* of an axis, of a number of points */
    const char *in_group;  /* how many samples the group has */
    const char *first;     /* true for the thread that stores what all have; NULL: every one does */
    const char *inside;    /* columns: false where the thread has none; NULL: all have */
    const char *row, *rows;/* columns: the thread's row of the block, and how many there are */
    const char *slice, *slices;
    const char **vector;   /* by expression: the vector that it is a lane of */
} Loops;

/* ---- counts of points */

typedef struct Points { int64_t count; const char *times; } Points; /* times: NULL, or how many there are of `count` */

static Points axis_points(const Loops *l, int axis)
{
    const Axis *a = &l->nest->exprs->axis[axis];
    if (a->kind == AXIS_GROUPS)
        return (Points){1, format("((n + %lld) / %lld)", (long long)a->group - 1, (long long)a->group)};
    if (a->kind == AXIS_IN_GROUP)
        return (Points){1, l->in_group};
    return (Points){a->extent, !a->samples ? NULL : l->p->block ? "(end - begin)" : "n"};
}

static Points all_points(const Loops *l, const int *axes, int count)
{
    Points all = {1, NULL};
    for (int i = 0; i < count; i++) {
        Points own = axis_points(l, axes[i]);
        all.count *= own.count;
        all.times = !all.times ? own.times : own.times ? format("%s * %s", all.times, own.times) : all.times;
    }
    return all;
}

static const char *points_text(Points p)
{
    if (!p.times)
        return format("%lld", (long long)p.count);
    return p.count == 1 ? p.times : format("%lld * %s", (long long)p.count, p.times);
}

/* the same as an operand of a product */
static const char *points_factor(Points p) { return p.times && p.count != 1 ? format("(%s)", points_text(p)) : points_text(p); }

/* the number of points, by name if it has to be computed */
static const char *name_points(const Loops *l, Points all)
{
    if (!all.times || strcmp(points_text(all), "n") == 0)
        return points_text(all);
    const char *name = emit_name(l->p, "points");
    emit_line(l->p, "const %s %s = %s;", l->count_type, name, points_text(all));
    return name;
}

/* "mgpu_grid_thread()", or of a block; where a kernel has several nests, each begins with other blocks */
static const char *own_number(const Loops *l, const char *what, int lanes)
{
    const char *text = lanes ? format("%d", lanes) : "";
    if (l->nest->share.blocks_before && !l->p->block && what[strlen(what) - 1] != 's')
        text = format("%s%s%d", text, lanes ? ", " : "", l->nest->share.blocks_before);
    return format("mgpu_%s_%s(%s)", l->p->block ? "block" : "grid", what, text);
}

/* ---- axes */

static const char *axis_value(const Loops *l, const int *axes, int count, int i, const char *number, bool outermost)
{
    const Axis *a = &l->nest->exprs->axis[axes[i]];
    Points behind = all_points(l, axes + i + 1, count - i - 1), own = axis_points(l, axes[i]);
    const char *value = number;
    behind.count += behind.count == 0; /* no point at all */
    own.count += own.count == 0;
    if (behind.times || behind.count != 1)
        value = format("%s / %s", value, points_factor(behind));
    if (i > 0 || !outermost)
        value = format("%s %% %s", value, points_factor(own));
    if (a->kind == AXIS_IN_GROUP)
        value = format("%lld * %s + %s", (long long)a->group, l->p->axis_name[axes[i] - 1], value);
    if (a->samples && l->p->block)
        value = a->extent == 1 ? format("begin + %s", value) : format("%lld * begin + %s", (long long)a->extent, value);
    return value;
}

static bool is_wanted(const Loops *l, int axis)
{
    const Exprs *x = l->nest->exprs;
    if (x->axis[axis].kind == AXIS_GROUPS || (l->nest->partial && !x->axis[axis].reduced)) /* for other reasons */
        return true;
    for (int i = 0; i < x->count; i++)
        if (x->all[i]->kind == X_AXIS && x->all[i]->constant == axis && l->p->shown[i].wanted)
            return true;
    return false;
}

/* the axes of the point with this number, those that are wanted; outermost: there is nothing beyond the first of them */
static void define_axes(const Loops *l, const int *axes, int count, const char *number, bool outermost)
{
    Text t = {0};
    for (int i = 0; i < count; i++)
        if (is_wanted(l, axes[i]))
            text_add(&t, "%s%s = %s", t.length ? ", " : "", l->p->axis_name[axes[i]], axis_value(l, axes, count, i, number, outermost));
    if (t.length)
        emit_line(l->p, "const %s %s;", l->type, text_of(&t));
    for (int i = 0; i < count; i++) {
        const Axis *a = &l->nest->exprs->axis[axes[i]];
        if (a->kind == AXIS_GROUPS && l->nest->exprs->axis[axes[i] + 1].reduced)
            emit_line(l->p, "const int %s = n - %lld * %s < %lld ? (int)(n - %lld * %s) : %lld;", l->in_group, (long long)a->group,
                      l->p->axis_name[axes[i]], (long long)a->group, (long long)a->group, l->p->axis_name[axes[i]], (long long)a->group);
    }
}

/* "for (int i = FROM; i < TO; i += STEP) {", and the axes; one axis counts itself */
static void open_points(const Loops *l, const int *axes, int count, const char *wish, const char *from, const char *to, const char *step)
{
    Printer *p = l->p;
    const Axis *a = &l->nest->exprs->axis[axes[0]];
    bool alone = count == 1 && a->kind == AXIS_PLAIN && !(a->samples && p->block);
    const char *number = alone ? p->axis_name[axes[0]] : emit_name(p, wish);
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s) {", alone ? l->type : l->count_type, number, from, number, to, number, step);
    p->indent++;
    if (!alone)
        define_axes(l, axes, count, number, true);
}

/* ---- what is wanted */

/* where the vector begins; NULL: it is none */
static const Expr *vector_of(const Loops *l, const Expr *e) { return l->lane < 0 ? NULL : cuda_vector(l->nest, e); }
static const Expr *stored_vector(const Loops *l, const Store *s) { return l->lane < 0 ? NULL : cuda_stored_vector(l->nest, s); }

static const char *lane_text(const Loops *l, const char *vector) { return format("%s.at[%s]", vector, l->p->axis_name[l->lane]); }

static void name_vectors(Loops *l)
{
    const Exprs *x = l->nest->exprs;
    l->vector = NEW_ARRAY(const char *, x->count);
    for (int i = 0; i < x->count && l->lane >= 0; i++) {
        const Expr *e = x->all[i];
        if (!vector_of(l, e) || !l->p->needed[l->nest - l->p->kernel->nests][i])
            continue;
        Shown *s = &l->p->shown[i];
        l->vector[i] = emit_name_of(l->p, e);
        s->text = lane_text(l, l->vector[i]);
        s->level = LEVEL_ATOM;
        if (e->kind == X_LOAD && e->tensor->dtype == BOOL) {
            s->text = format("%s != 0", s->text);
            s->level = LEVEL_EQUAL;
        }
    }
}

/* what the roots use of the lanes of vectors, whose beginnings are roots, too */
static int add_bases(const Loops *l, Expr **roots, int count, bool *used)
{
    const Exprs *x = l->nest->exprs;
    for (int i = 0; i < count; i++)
        used[roots[i]->id] = true;
    for (int i = x->count - 1; i >= 0; i--)
        for (int k = 0; used[i] && k < x->all[i]->count && !l->vector[i]; k++)
            used[x->all[i]->in[k]->id] = true;
    for (int i = 0; i < x->count; i++) {
        used[i] = used[i] && l->vector[i];
        if (used[i])
            roots[count++] = (Expr *)(uintptr_t)vector_of(l, x->all[i]);
        if (used[i] && x->all[i]->kind == X_RANDOM && x->all[i]->other & 1)
            roots[count++] = x->all[i]->in[1];
    }
    return count;
}

static Expr **root_room(const Nest *nest)
{
    return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count + 2 * nest->exprs->count);
}

/* their offsets are those of their beginnings */
static int replace_offsets(const Loops *l, Expr **roots, int count)
{
    for (int k = 0; k < l->nest->store_count; k++) {
        const Store *s = &l->nest->stores[k];
        const Expr *base = stored_vector(l, s);
        bool scalar = false; /* another store needs the offset itself */
        for (int j = 0; j < l->nest->store_count; j++)
            scalar = scalar || (l->nest->stores[j].offset == s->offset && !stored_vector(l, &l->nest->stores[j]));
        for (int i = 0; i < count; i++)
            if (base && roots[i] == s->offset)
                roots[scalar ? count++ : i] = (Expr *)(uintptr_t)base;
    }
    return count;
}

/* finds what the roots need; `used`: the vectors */
static void find_wanted(const Loops *l, Expr **roots, int count, bool *used)
{
    count = add_bases(l, roots, replace_offsets(l, roots, count), used);
    emit_find_wanted(l->p, roots, count, l->p->loops);
}

/* ---- vectors */

static const char *vector_type(Dtype t) { return dtype_is_half(t) ? "f32" : t == BOOL ? "u8" : dtype_name(t); }
static const char *stored_type(Dtype t) { return t == BOOL ? "u8" : dtype_name(t); }

static void load_vectors(const Loops *l, const bool *used)
{
    Printer *p = l->p;
    const Exprs *x = l->nest->exprs;
    int count = l->nest->share.vector;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (!used[i])
            continue;
        const Expr *base = vector_of(l, e);
        if (e->kind == X_RANDOM)
            emit_line(p, "const mgpu_%sx%d %s = mgpu_draw_%sx%d(%s, %s, %s);", dtype_name(e->dtype), count, l->vector[i],
                      dtype_name(e->dtype), count, emit_key(p, e), emit_operand(p, base, LEVEL_CHOICE), emit_draw_place(p, e));
        else
            emit_line(p, "const mgpu_%sx%d %s = mgpu_load_%sx%d(&%s[%s]);", vector_type(e->tensor->dtype), count, l->vector[i],
                      stored_type(e->tensor->dtype), count, emit_argument(p, e->tensor), p->shown[base->id].text);
    }
}

static bool in_pass(const Store *s, int pass) { return pass < 0 ? s->outer : !s->outer && s->value->pass == pass; }

/* stores of a pass, or OUTER ones if it is -1; `open`: before the loop over lanes, `close`: behind it */
static void open_stores(const Loops *l, int pass, const char **name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(s, pass) || !stored_vector(l, s))
            continue;
        name[i] = emit_name(l->p, format("new_%s", kernel_argument_name(s->tensor)));
        emit_line(l->p, "mgpu_%sx%d %s;", vector_type(s->tensor->dtype), l->nest->share.vector, name[i]);
    }
}

static void close_stores(const Loops *l, int pass, const char *const *name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(s, pass) || !name[i])
            continue;
        if (s->guard)
            emit_line(l->p, "if (%s)", l->p->shown[s->guard->id].text);
        emit_line(l->p, "%smgpu_%s_%sx%d(&%s[%s], %s);", s->guard ? "    " : "", s->add ? "add" : "store", stored_type(s->tensor->dtype),
                  l->nest->share.vector, emit_argument(l->p, s->tensor), l->p->shown[stored_vector(l, s)->id].text, name[i]);
    }
}

static void print_stores(const Loops *l, int pass, const char *const *name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(s, pass))
            continue;
        if (!name[i]) {
            emit_store(l->p, s);
            continue;
        }
        const Expr *v = s->value;
        const char *value = l->p->shown[v->id].text;
        if (strncmp(value, "mgpu_round_", 11) == 0) /* it is rounded when it is stored */
            value = l->p->shown[v->in[0]->id].text;
        emit_line(l->p, "%s = %s;", lane_text(l, name[i]), value);
    }
}

/* ---- statements of a point */

static void open_lanes(const Loops *l)
{
    const char *v = l->p->axis_name[l->lane];
    emit_line(l->p, "for (int %s = 0; %s < %d; %s++) {", v, v, l->nest->share.vector, v);
    l->p->indent++;
}

/* what is to be done at every point of a pass, or of OUTER stores (-1), with the loop over lanes around it */
static void print_point(const Loops *l, int pass, const bool *used)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    const char **name = NEW_ARRAY(const char *, nest->store_count);
    if (l->lane >= 0) {
        load_vectors(l, used);
        open_stores(l, pass, name);
        open_lanes(l);
        emit_define(p, p->loops, pass < 0 ? nest->passes : pass);
    }
    for (int i = 0; i < nest->reduction_count && pass >= 0; i++)
        if (nest->reductions[i].value->pass == pass)
            emit_accumulate(p, &nest->reductions[i], p->result[i], l->lane_kept ? format("[%s]", p->axis_name[l->lane]) : "");
    print_stores(l, pass, name);
    if (l->lane >= 0) {
        emit_close(p);
        close_stores(l, pass, name);
    }
}

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

/* every thread of the team, or of the column, gets the result of all */
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
            emit_line(p, "mgpu_%s_first(%s_best, %s, %d);", s->sharing == SHARE_TEAMS ? "team" : "columns", own, own, s->lanes);
        else if (s->sharing == SHARE_TEAMS)
            emit_line(p, "%s = mgpu_team_%s(%s, %d);", own, how, own, s->lanes);
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
        text_add(&t, stride == 1 ? "%s%s" : "%s%s * %lld", i ? " + " : "", l->p->axis_name[l->kept[i]], (long long)stride);
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
        open_lanes(l);
    int64_t count = nest_kept_points(l->nest);
    const char *slice = count == 1 ? l->slice : format("%s * %lld%s%s", l->slice, (long long)count, only ? "" : " + ", only ? "" : place);
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
                emit_line(p, "for (%s %s = 0; %s < %s; %s++) {", l->type, v, v, points_text(axis_points(l, axis)), v);
            p->indent++;
        }
        return p->indent - before;
    }
    if (!l->reduced_count)
        return 0;
    bool team = s->sharing == SHARE_TEAMS;
    int64_t side = team ? s->lanes : CUDA_THREADS / s->lanes;
    const char *own = team ? format("mgpu_lane(%d)", s->lanes) : l->row, *step = format("%lld", (long long)side);
    if (l->slice) {
        own = format("%s * %lld + %s", l->slice, (long long)side, own);
        step = format("%s * %lld", l->slices, (long long)side);
    }
    if (l->inside)
        own = format("%s ? %s : %s", l->inside, own, reduced_points);
    if (s->unrolled) {
        const char *turn = emit_name(p, "turn"), *number = emit_name(p, "reduced");
        bool alone = l->reduced_count == 1;
        if (alone)
            number = p->axis_name[l->reduced[0]];
        emit_line(p, "#pragma unroll");
        emit_line(p, "for (int %s = 0; %s < %d; %s++) {", turn, turn, s->unrolled, turn);
        p->indent++;
        emit_line(p, "const int %s = %s * %d + %s;", number, turn, s->lanes, own);
        if (all_points(l, l->reduced, l->reduced_count).count % s->lanes) {
            emit_line(p, "if (%s < %s) {", number, reduced_points);
            p->indent++;
        }
        if (!alone)
            define_axes(l, l->reduced, l->reduced_count, number, true);
        return p->indent - before;
    }
    open_points(l, l->reduced, l->reduced_count, "reduced", own, reduced_points, step);
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
    find_wanted(l, roots, count, used);
    define_kept(l, l->nest->passes);
    print_point(l, -1, used);
    l->lane = lane;
    if (l->first)
        emit_close(p);
}

/* everything at the kept points, whose loop is open */
static void print_passes(Loops *l, const char *reduced_points)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Expr **roots = root_room(nest);
    set_loops(l, true);
    find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
    define_kept(l, 0);
    for (int pass = 0; pass < nest->passes; pass++) {
        set_loops(l, true);
        int count = emit_pass_roots(nest, pass, roots);
        if (!count)
            continue;
        bool results = makes_results(nest, pass), *used = NEW_ARRAY(bool, nest->exprs->count);
        declare_accumulators(l, pass);
        const char **saved = emit_saved_texts(p);
        find_wanted(l, roots, count, used);
        define_kept(l, pass);
        int open = open_reduced(l, reduced_points);
        for (int depth = l->kept_count + 1; depth <= l->kept_count + l->reduced_count; depth++)
            emit_define(p, depth, pass);
        print_point(l, pass, used);
        close(l, open);
        emit_restore_texts(p, saved);
        if (results)
            join_accumulators(l, pass);
        if (nest->partial)
            break;
        name_results(l, pass);
        set_loops(l, true);
        find_wanted(l, roots, emit_all_roots(p, roots), NEW_ARRAY(bool, nest->exprs->count));
        define_kept(l, pass + 1);
    }
    if (nest->partial)
        store_partial(l);
    else
        outer_stores(l, roots);
}

/* ---- points, teams, columns */

static void print_points(Loops *l)
{
    Printer *p = l->p;
    const char *all = name_points(l, all_points(l, l->kept, l->kept_count));
    if (l->kept_count) {
        open_points(l, l->kept, l->kept_count, "point", own_number(l, "thread", 0), all, own_number(l, "threads", 0));
    } else {
        emit_line(p, "if (%s == 0) {", own_number(l, "thread", 0));
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
        l->slices = format("%lld", (long long)(slices > s->slices ? s->slices : slices));
        return;
    }
    l->slices = emit_name(l->p, "slices");
    emit_line(l->p, "const int %s = mgpu_slices(%s, %lld, %d);", l->slices, reduced_points, (long long)s->slice, s->slices);
}

static void print_teams(Loops *l)
{
    Printer *p = l->p;
    int lanes = l->nest->share.lanes;
    const char *team = own_number(l, "team", lanes), *teams = own_number(l, "teams", lanes);
    Points reduced = all_points(l, l->reduced, l->reduced_count);
    const char *kept = name_points(l, all_points(l, l->kept, l->kept_count));
    const char *reduced_points = l->in_group ? points_text(reduced) : name_points(l, reduced);
    name_slices(l, reduced, reduced_points);
    l->first = format("mgpu_lane(%d) == 0", lanes);
    if (l->slice) {
        l->slice = emit_name(p, "slice");
        const char *item = l->kept_count ? emit_name(p, "item") : l->slice;
        emit_line(p, "for (int %s = %s; %s < %s; %s += %s) {", item, team, item,
                  l->kept_count ? format("%s * %s", kept, l->slices) : l->slices, item, teams);
        p->indent++;
        if (l->kept_count)
            emit_line(p, "const int %s = %s / %s;", l->slice, item, kept);
        define_axes(l, l->kept, l->kept_count, item, false);
    } else if (l->kept_count) {
        open_points(l, l->kept, l->kept_count, "point", team, kept, teams);
    } else {
        emit_line(p, "if (%s == 0) {", team);
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
    Points columns = any ? axis_points(l, column_axis) : (Points){1, NULL}, reduced = all_points(l, l->reduced, l->reduced_count);
    bool whole = !columns.times && columns.count % s->lanes == 0;
    const char *reduced_points = l->in_group ? points_text(reduced) : name_points(l, reduced);
    const char *tiles = columns.times ? format("((%s + %d) / %d)", points_text(columns), s->lanes - 1, s->lanes)
                                      : format("%lld", (long long)((columns.count + s->lanes - 1) / s->lanes));
    Points before = all_points(l, l->kept, outer);
    name_slices(l, reduced, reduced_points);
    Points all = {before.count, before.times}; /* tiles of all rows */
    if (columns.times)
        all.times = before.times ? format("%s * %s", before.times, tiles) : tiles;
    else
        all.count *= (columns.count + s->lanes - 1) / s->lanes;
    bool one = !all.times && all.count == 1;
    const char *item = emit_name(p, l->slice && one ? "slice" : "item");
    l->row = emit_name(p, "row");
    emit_line(p, "const int %s = threadIdx.x / %d;", l->row, s->lanes);
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s) {", l->count_type, item, own_number(l, "team", CUDA_THREADS), item,
              !l->slice ? points_text(all) : one ? l->slices : format("%s * %s", points_text(all), l->slices), item,
              own_number(l, "teams", CUDA_THREADS));
    p->indent++;
    if (l->slice && !one) {
        l->slice = emit_name(p, "slice");
        emit_line(p, "const int %s = %s / %s;", l->slice, item, points_factor(all));
    } else if (l->slice) {
        l->slice = item;
    }
    if (any) {
        const char *axis = p->axis_name[column_axis], *column = whole ? axis : emit_name(p, "column");
        emit_line(p, "const %s %s = %smgpu_lane(%d);", l->type, column,
                  strcmp(tiles, "1") ? format("%s %% %s * %d + ", item, tiles, s->lanes) : "", s->lanes);
        if (!whole) {
            l->inside = emit_name(p, "inside");
            emit_line(p, "const bool %s = %s < %s;", l->inside, column, points_text(columns));
            emit_line(p, "const %s %s = %s ? %s : 0;", l->type, axis, l->inside, column);
        }
    }
    define_axes(l, l->kept, outer, strcmp(tiles, "1") ? format("(%s / %s)", item, tiles) : item, !l->slice);
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
    Expr **roots = root_room(nest), *row = (Expr *)(uintptr_t)nest->row;
    bool *used = NEW_ARRAY(bool, nest->exprs->count);
    const char *item = emit_name(p, "item"), *own = emit_name(p, "own"), *first = emit_name(p, "from"), *at = emit_name(p, "at");
    const char *row_name = emit_name(p, "row"), *bits = emit_name(p, "bits"), *look = emit_name(p, "look"), *mine = emit_name(p, "mine");
    Points reduced = all_points(l, l->reduced, l->reduced_count), kept = all_points(l, l->kept, l->kept_count);
    const char *reduced_points = name_points(l, reduced);
    emit_line(p, "for (int %s = %s; %s < %d; %s += %s) {", item, own_number(l, "team", 32), item, s->owners * s->parts, item,
              own_number(l, "teams", 32));
    p->indent++;
    emit_line(p, "const int %s = %s;", own, s->parts > 1 ? format("%s / %d", item, s->parts) : item);
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
    find_wanted(l, roots, 1, used);
    define_axes(l, l->reduced, l->reduced_count, at, true);
    for (int depth = 0; depth <= p->loops; depth++)
        emit_define(p, depth, 0);
    emit_line(p, "%s[%s] = %s;", row_name, look, p->shown[row->id].text);
    close(l, 2);
    emit_restore_texts(p, saved);
    emit_line(p, "for (int %s = 0; %s < %d; %s++) {", look, look, LOOKS, look);
    p->indent++;
    emit_line(p, "const bool %s = 0 <= %s[%s] && %s[%s] < %lld && (%s[%s] & %d) == %s;", mine, row_name, look, row_name, look,
              (long long)row->constant, row_name, look, s->owners - 1, own);
    emit_line(p, "for (uint32_t %s = __ballot_sync(0xffffffffu, %s); %s; %s &= %s - 1) {", bits, mine, bits, bits, bits);
    p->indent++;
    const char *hit = emit_name(p, "hit");
    emit_line(p, "const %s %s = %s + 32 * %s + __ffs((int)%s) - 1;", l->type, hit, first, look, bits);
    p->loops = 0;
    for (int i = 0; i < l->reduced_count; i++)
        p->loop[p->loops++] = l->reduced[i];
    for (int i = 0; i < l->kept_count; i++)
        p->loop[p->loops++] = l->kept[i];
    if (l->lane >= 0)
        p->loop[p->loops++] = l->lane;
    memset(used, 0, sizeof *used * (size_t)nest->exprs->count);
    find_wanted(l, roots, emit_pass_roots(nest, 0, roots), used);
    define_axes(l, l->reduced, l->reduced_count, hit, true);
    for (int depth = 0; depth <= l->reduced_count; depth++)
        emit_define(p, depth, 0);
    const char *lane = s->parts > 1 ? format("%s %% %d * 32 + mgpu_lane(32)", item, s->parts) : "mgpu_lane(32)";
    if (l->kept_count) {
        open_points(l, l->kept, l->kept_count, "point", lane, points_text(kept), format("%d", 32 * s->parts));
    } else {
        emit_line(p, "if (mgpu_lane(32) == 0) {");
        p->indent++;
    }
    for (int depth = l->reduced_count + 1; depth <= l->reduced_count + l->kept_count; depth++)
        emit_define(p, depth, 0);
    print_point(l, 0, used);
    close(l, 5);
}

/* ---- the sums of all slices, and what follows */

static void print_finish(Loops *l)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    Points reduced = all_points(l, l->reduced, l->reduced_count);
    int64_t count = nest_kept_points(nest);
    int across = 1;
    while (across < 32 && across < count)
        across *= 2;
    name_slices(l, reduced, points_text(reduced));
    const char *point = count == 1 ? "0" : emit_name(p, "point");
    if (count > 1) {
        const char *item = emit_name(p, "item");
        emit_line(p, "for (int %s = mgpu_grid_team(%d); %s < %lld; %s += mgpu_grid_teams(%d)) {", item, CUDA_THREADS, item,
                  (long long)((count + across - 1) / across), item, CUDA_THREADS);
        p->indent++;
        emit_line(p, "const int %s = %s * %d + mgpu_lane(%d);", point, item, across, across);
    }
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        const char *sum = emit_result_name(p, r);
        emit_line(p, "const %s %s = mgpu_slices_%s(%s, %s, %lld, %s, %d);", C_TYPE[reduction_type(r)], sum,
                  r->kind == REDUCE_SUM ? "add" : "larger", p->partial[i], l->slices, (long long)count, point, across);
        p->result[i] = r->wide ? format("(float)%s", sum) : sum;
    }
    if (count == 1)
        emit_line(p, "if (mgpu_grid_thread() == 0) {");
    else if (count % across)
        emit_line(p, "if (threadIdx.x < %d && %s < %lld) {", across, point, (long long)count);
    else
        emit_line(p, "if (threadIdx.x < %d) {", across);
    p->indent++;
    if (l->lane_kept) /* an axis like others */
        l->kept[l->kept_count++] = l->lane;
    l->lane = -1;
    l->lane_kept = false;
    define_axes(l, l->kept, l->kept_count, point, true);
    outer_stores(l, root_room(nest));
    close(l, count == 1 ? 1 : 2);
}

static void print_partial(const Loops *l)
{
    Printer *p = l->p;
    p->partial = NEW_ARRAY(const char *, l->nest->reduction_count);
    for (int i = 0; i < l->nest->reduction_count; i++) {
        const Reduction *r = &l->nest->reductions[i];
        const char *type = C_TYPE[reduction_type(r)];
        p->partial[i] = emit_name(p, "partial");
        emit_line(p, "%s *const %s = (%s *)%s; /* [%d, %lld] */", type, p->partial[i], type,
                  r->partial ? format("(work + %lld)", (long long)r->partial) : "work", l->nest->share.slices,
                  (long long)nest_kept_points(l->nest));
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
            l.in_group = emit_name(p, "in_group");
    }
    if (nest->partial)
        print_partial(&l);
    if (!p->finish)
        name_vectors(&l);
    else
        l.vector = NEW_ARRAY(const char *, x->count);
    if (l.kept_count + l.lane_kept > 0 && nest->share.sharing != SHARE_ROWS) { /* else in the one point */
        Expr **roots = root_room(nest);
        set_loops(&l, !p->finish);
        find_wanted(&l, roots, p->finish ? emit_outer_roots(p, roots) : emit_all_roots(p, roots), NEW_ARRAY(bool, x->count));
        emit_define(p, 0, 0);
    }
    if (p->finish)
        print_finish(&l);
    else if (nest->share.sharing == SHARE_POINTS)
        print_points(&l);
    else if (nest->share.sharing == SHARE_TEAMS)
        print_teams(&l);
    else if (nest->share.sharing == SHARE_COLUMNS)
        print_columns(&l);
    else
        print_rows(&l);
}
