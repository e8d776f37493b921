/* emit_nest.c: a nest as C loops.
 *
 * In each loop stands first what is new there: an expression stands in the outermost loop in which all that it depends on
 * is known; it gets a name if it is used twice or in a deeper loop, else it is written where it is used. Then come the
 * accumulations and stores.
 *
 * Rows:     for kept axes { accumulators; for reduced axes accumulate; results; ... }
 * Columns:  for kept axes but the innermost, for tiles of the innermost { arrays of accumulators;
 *           for reduced axes, for the tile accumulate; ... for the tile store }
 * The loops that a C compiler is to vectorise carry `omp simd`. */
#include "compiler/emit.h"

#include <math.h>
#include <string.h>

enum { WIDEST_TILE = 512, LONGEST_TEXT = 76, SHORT_TEXT = 16, SHORT_LOOP = 4, LONGEST_ROW = 4096, HEAVY_FLOPS = 8 };

/* ---- what is computed where */

static bool is_plain(const Expr *e)
{
    return e->kind == X_NUMBER || e->kind == X_AXIS || e->kind == X_RESULT || e->kind == X_SUM || e->kind == X_RUN ||
           e->kind == X_VALUE_OF;
}

static int depth_of(const Printer *p, const Expr *e)
{
    int depth = 0;
    for (int i = 0; i < p->loops; i++)
        if (e->axes >> p->loop[i] & 1)
            depth = i + 1;
    return depth;
}

static void want(Printer *p, const Expr *e, int depth)
{
    Shown *s = &p->shown[e->id];
    s->uses++;
    s->deep = s->deep || depth > s->depth;
    s->wanted = true;
}

/* finds what the expressions in `roots`, used at `depth`, need and do not have yet */
static void find_wanted(Printer *p, Expr *const *roots, int root_count, int depth)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        Shown *s = &p->shown[i];
        s->wanted = s->deep = false;
        s->uses = 0;
        s->depth = depth_of(p, x->all[i]);
    }
    for (int i = 0; i < root_count; i++)
        want(p, roots[i], depth);
    for (int i = x->count - 1; i >= 0; i--) {
        const Shown *s = &p->shown[i];
        if (!s->wanted || s->text)
            continue;
        const Expr *e = x->all[i];
        for (int k = 0; k < e->count; k++)
            want(p, e->in[k], s->depth);
        /* what is written where it is used, uses its operands there */
        if (is_plain(e) && s->deep)
            for (int k = 0; k < e->count; k++)
                p->shown[e->in[k]->id].deep = true;
    }
}

/* names or writes down everything that is wanted, can be computed at this depth and in this pass, and has no text */
static void define(Printer *p, int depth, int pass)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        Shown *s = &p->shown[i];
        if (!s->wanted || s->text || s->depth != depth || e->pass > pass || (e->kind == X_RESULT && !p->result[e->constant]))
            continue;
        s->text = emit_expr(p, e, &s->level);
        bool named = s->uses > 1 || s->deep || s->fixed || strlen(s->text) > LONGEST_TEXT;
        if (is_plain(e)) /* offsets that are long and used again and again */
            named = e->kind == X_SUM && s->uses > 2 && strlen(s->text) > SHORT_TEXT;
        if (!named && !s->row)
            continue;
        const char *name = emit_name_of(p, e);
        emit_line(p, "const %s %s = %s;", C_TYPE[e->dtype], name, s->text);
        s->text = name;
        s->level = LEVEL_ATOM;
        if (s->row)
            emit_line(p, "%s = %s;", s->row, name);
    }
}

/* before the innermost loop: the random numbers that follow each other in it */
static void draw_rows(Printer *p, int axis)
{
    const Exprs *x = p->nest->exprs;
    const Axis *a = &x->axis[axis];
    if (axis != x->axis_count - 1 || a->samples || a->extent > LONGEST_DRAW)
        return;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        Shown *s = &p->shown[i];
        if (e->kind != X_RANDOM || !(e->other & 2) || !s->wanted || s->text)
            continue;
        const char *name = emit_name(p, "draw");
        emit_line(p, "%s %s[%lld];", C_TYPE[e->dtype], name, (long long)a->extent);
        emit_line(p, "mgpu_draw_row%s(%s, %lld, %s, %s, %s);", e->dtype == F32 ? "f" : "", name, (long long)a->extent, emit_key(p, e),
             emit_operand(p, e->in[e->count - 1], LEVEL_CHOICE), emit_draw_place(p, e));
        s->text = format("%s[%s]", name, p->axis_name[axis]);
        s->level = LEVEL_ATOM;
    }
}

static const char **saved_texts(const Printer *p)
{
    const char **saved = NEW_ARRAY(const char *, p->nest->exprs->count);
    for (int i = 0; i < p->nest->exprs->count; i++)
        saved[i] = p->shown[i].text;
    return saved;
}

/* forgets what was named since */
static void restore_texts(Printer *p, const char **saved)
{
    for (int i = 0; i < p->nest->exprs->count; i++)
        p->shown[i].text = saved[i];
}

/* ---- loops */

static const char *extent_text(const Axis *a)
{
    if (!a->samples)
        return format("%lld", (long long)a->extent);
    return a->extent == 1 ? "n" : format("%lld * n", (long long)a->extent);
}

static void open_loop(Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    const char *v = p->axis_name[axis];
    if (a->kind == AXIS_GROUPS)
        emit_line(p, "for (int64_t %s = 0; %lld * %s < n; %s++) {", v, (long long)a->group, v, v);
    else if (a->kind == AXIS_IN_GROUP)
        emit_line(p, "for (int64_t %s = %lld * %s; %s < n && %s < %lld * %s + %lld; %s++) {", v, (long long)a->group,
             p->axis_name[axis - 1], v, v, (long long)a->group, p->axis_name[axis - 1], (long long)a->group, v);
    else
        emit_line(p, "for (int64_t %s = 0; %s < %s; %s++) {", v, v, extent_text(a), v);
    p->indent++;
}

/* the innermost loop of columns: over the tile */
static void open_tile_loop(Printer *p, int axis)
{
    const char *v = p->axis_name[axis];
    emit_line(p, "#pragma omp simd");
    if (p->tile_start)
        emit_line(p, "for (int64_t %s = %s; %s < %s; %s++) {", v, p->tile_start, v, p->tile_width, v);
    else
        emit_line(p, "for (int64_t %s = 0; %s < %s; %s++) {", v, v, extent_text(&p->nest->exprs->axis[axis]), v);
    p->indent++;
}

static const char *lane_text(const Printer *p, int axis)
{
    return p->tile_start ? format("%s - %s", p->axis_name[axis], p->tile_start) : p->axis_name[axis];
}

static bool vectorises(const Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    return a->kind == AXIS_PLAIN && !p->nest->serial && (a->samples || a->extent > SHORT_LOOP);
}

/* ---- stores and accumulations */

static void print_store(Printer *p, const Store *s)
{
    const char *value = p->shown[s->value->id].text;
    const char *statement = format("%s[%s] %s %s;", emit_argument(p, s->tensor), p->shown[s->offset->id].text, s->add ? "+=" : "=", value);
    if (s->guard) {
        emit_line(p, "if (%s)", p->shown[s->guard->id].text);
        emit_line(p, "    %s", statement);
    } else {
        emit_line(p, "%s", statement);
    }
}

static Dtype accumulator_type(const Reduction *r)
{
    return r->wide ? F64 : r->kind == REDUCE_ARGMAX ? r->value->dtype : r->dtype;
}

static const char *start_of(const Reduction *r)
{
    return r->kind == REDUCE_SUM ? "0" : emit_literal(-INFINITY, r->value->dtype);
}

/* `where`: "" or "[c]": the lane */
static void accumulate(Printer *p, const Reduction *r, const char *name, const char *where)
{
    const char *value = p->shown[r->value->id].text, *own = format("%s%s", name, where);
    if (r->kind == REDUCE_SUM) {
        emit_line(p, "%s += %s;", own, value);
    } else if (r->kind == REDUCE_MAX) {
        emit_line(p, "%s = mgpu_larger(%s, %s);", own, own, value);
    } else { /* name_best is the maximum so far */
        const char *best = format("%s_best%s", name, where);
        emit_line(p, "%s = mgpu_beats(%s, %s) ? %s : %s;", own, value, best, p->shown[r->place->id].text, own);
        emit_line(p, "%s = mgpu_larger(%s, %s);", best, best, value);
    }
}

/* the expressions that the FULL stores and the reductions of a pass consist of */
static int pass_roots(const Nest *nest, int pass, Expr **roots)
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

static int outer_roots(const Nest *nest, Expr **roots)
{
    int count = 0;
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].outer) {
            roots[count++] = nest->stores[i].value;
            roots[count++] = nest->stores[i].offset;
        }
    return count;
}

static void pass_statements(Printer *p, int pass, const char *where)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass)
            accumulate(p, &nest->reductions[i], p->result[i], where);
    for (int i = 0; i < nest->store_count; i++)
        if (!nest->stores[i].outer && nest->stores[i].value->pass == pass)
            print_store(p, &nest->stores[i]);
}

/* "#pragma omp simd reduction(+ : sum) reduction(mgpu_larger : max)" before the innermost loop of a pass of rows */
static void print_simd(Printer *p, int pass)
{
    const Nest *nest = p->nest;
    Text t = {0};
    for (int kind = REDUCE_SUM; kind <= REDUCE_ARGMAX; kind++) {
        bool any = false;
        for (int i = 0; i < nest->reduction_count; i++) {
            const Reduction *r = &nest->reductions[i];
            if (r->value->pass != pass || r->kind != (ReductionKind)kind)
                continue;
            if (kind == REDUCE_ARGMAX)
                return; /* the first maximum: in order */
            text_add(&t, any ? ", %s" : kind == REDUCE_SUM ? " reduction(+ : %s" : " reduction(mgpu_larger : %s", p->result[i]);
            any = true;
        }
        if (any)
            text_add(&t, ")");
    }
    emit_line(p, "#pragma omp simd%s", text_of(&t));
}

/* the loops p->loop[from ...], with what each needs; then `inner` */
static void open_loops(Printer *p, int from, int pass, bool tile, int simd_pass)
{
    for (int depth = from; depth < p->loops; depth++) {
        int axis = p->loop[depth];
        bool innermost = depth == p->loops - 1;
        if (innermost && !p->tile_start)
            draw_rows(p, axis);
        if (innermost && tile) {
            open_tile_loop(p, axis);
        } else {
            if (innermost && simd_pass >= 0 && vectorises(p, axis))
                print_simd(p, simd_pass);
            open_loop(p, axis);
        }
        define(p, depth + 1, pass);
    }
}

static void close_loops(Printer *p, int from)
{
    for (int depth = from; depth < p->loops; depth++)
        emit_close(p);
}

/* ---- nests */

static const char *result_name(Printer *p, const Reduction *r)
{
    static const char *const NAME[] = {"sum", "most", "at_most"};
    return emit_name(p, r->node && r->node->name ? r->node->name : NAME[r->kind]);
}

static void row_accumulators(Printer *p, int pass)
{
    const Nest *nest = p->nest;
    for (int i = 0; i < nest->reduction_count; i++) {
        const Reduction *r = &nest->reductions[i];
        if (r->value->pass != pass)
            continue;
        p->result[i] = result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            emit_line(p, "%s %s = 0;", C_TYPE[r->dtype], p->result[i]);
            emit_line(p, "%s %s_best = %s;", C_TYPE[r->value->dtype], p->result[i], start_of(r));
        } else {
            emit_line(p, "%s %s = %s;", C_TYPE[accumulator_type(r)], p->result[i], start_of(r));
        }
    }
}

static void narrow_results(Printer *p, int pass)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass && r->wide)
            p->result[i] = format("(float)%s", p->result[i]);
    }
}

/* everything wanted by any pass that the kept loops can know: for hoisting */
static int all_roots(const Nest *nest, Expr **roots)
{
    int count = 0;
    for (int pass = 0; pass < nest->passes; pass++)
        count += pass_roots(nest, pass, roots + count);
    return count + outer_roots(nest, roots + count);
}

static Expr **root_room(const Nest *nest)
{
    return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count);
}

/* ---- rows that are kept: what is dear to compute and used in several passes */

static bool is_heavy(const Expr *e)
{
    return (e->kind == X_RANDOM && !(e->other & 2)) || (e->kind == X_OP && OP_INFO[e->op].meaning && OP_INFO[e->op].flops >= HEAVY_FLOPS);
}

/* finds them, and declares their arrays */
static void keep_rows(Printer *p, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    const Exprs *x = nest->exprs;
    int64_t extent = 1;
    const char *place = "0";
    uint32_t mask = 0;
    for (int i = 0; i < reduced_count; i++) {
        const Axis *a = &x->axis[reduced[i]];
        if (a->samples || a->kind != AXIS_PLAIN || extent * a->extent > LONGEST_ROW)
            return;
        place = i == 0 ? p->axis_name[reduced[i]] : format("%lld * (%s) + %s", (long long)a->extent, place, p->axis_name[reduced[i]]);
        extent *= a->extent;
        mask |= 1u << reduced[i];
    }
    Expr **roots = root_room(nest);
    int *first = NEW_ARRAY(int, x->count); /* the first pass that needs it, + 1 */
    for (int pass = 0; pass < nest->passes && mask; pass++) {
        bool *needed = NEW_ARRAY(bool, x->count);
        int count = pass_roots(nest, pass, roots);
        for (int i = 0; i < count; i++)
            needed[roots[i]->id] = true;
        for (int i = x->count - 1; i >= 0; i--) {
            const Expr *e = x->all[i];
            Shown *s = &p->shown[i];
            if (!needed[i])
                continue;
            if (is_heavy(e) && (e->axes & mask) == mask && first[i] && !s->row) {
                const char *name = emit_name(p, format("%s_row", e->kind == X_OP ? OP_INFO[e->op].name : "draw"));
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

/* also element-wise nests: no reduced axes, one pass, all loops are "kept" */
static void print_rows(Printer *p, const int *kept, int kept_count, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    Expr **roots = root_room(nest);
    p->loops = 0;
    for (int i = 0; i < kept_count; i++)
        p->loop[p->loops++] = kept[i];
    for (int i = 0; i < reduced_count; i++)
        p->loop[p->loops++] = reduced[i];
    find_wanted(p, roots, all_roots(nest, roots), p->loops);
    define(p, 0, 0);
    int all = p->loops;
    p->loops = kept_count;
    open_loops(p, 0, 0, false, reduced_count || nest->reduction_count ? -1 : 0);
    p->loops = all;
    keep_rows(p, reduced, reduced_count);
    for (int pass = 0; pass < nest->passes; pass++) {
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        row_accumulators(p, pass);
        const char **saved = saved_texts(p);
        use_rows(p, pass);
        find_wanted(p, roots, count, p->loops);
        open_loops(p, kept_count, pass, false, pass);
        pass_statements(p, pass, "");
        close_loops(p, kept_count);
        restore_texts(p, saved);
        narrow_results(p, pass);
        find_wanted(p, roots, all_roots(nest, roots), p->loops);
        define(p, kept_count, pass + 1);
    }
    int count = outer_roots(nest, roots);
    if (count) {
        p->loops = kept_count;
        find_wanted(p, roots, count, p->loops);
        define(p, kept_count, nest->passes);
        for (int i = 0; i < nest->store_count; i++)
            if (nest->stores[i].outer)
                print_store(p, &nest->stores[i]);
    }
    p->loops = kept_count;
    close_loops(p, 0);
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
        p->result[i] = result_name(p, r);
        if (r->kind == REDUCE_ARGMAX) {
            emit_line(p, "%s %s[%s];", C_TYPE[r->dtype], p->result[i], width);
            emit_line(p, "%s %s_best[%s];", C_TYPE[r->value->dtype], p->result[i], width);
        } else {
            emit_line(p, "%s %s[%s];", C_TYPE[accumulator_type(r)], p->result[i], width);
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
            emit_line(p, "%s_best[%s] = %s;", p->result[i], p->axis_name[lane], start_of(r));
        } else {
            emit_line(p, "%s[%s] = %s;", p->result[i], p->axis_name[lane], start_of(r));
        }
    }
    emit_close(p);
}

static void column_results(Printer *p, int pass, int lane)
{
    for (int i = 0; i < p->nest->reduction_count; i++) {
        const Reduction *r = &p->nest->reductions[i];
        if (r->value->pass == pass)
            p->result[i] = format("%s%s[%s]", r->wide ? "(float)" : "", p->result[i], lane_text(p, lane));
    }
}

static void print_columns(Printer *p, const int *kept, int kept_count, const int *reduced, int reduced_count)
{
    const Nest *nest = p->nest;
    Expr **roots = root_room(nest);
    int lane = kept[kept_count - 1], outer = kept_count - 1;
    int64_t extent = nest->exprs->axis[lane].extent;
    bool samples = nest->exprs->axis[lane].samples, tiled = samples || extent > WIDEST_TILE;
    p->loops = 0;
    for (int i = 0; i < outer; i++)
        p->loop[p->loops++] = kept[i];
    for (int i = 0; i < reduced_count; i++)
        p->loop[p->loops++] = reduced[i];
    p->loop[p->loops++] = lane;
    find_wanted(p, roots, all_roots(nest, roots), p->loops);
    define(p, 0, 0);
    int all = p->loops;
    p->loops = outer;
    open_loops(p, 0, 0, false, -1);
    const char *width = format("%lld", (long long)(tiled ? WIDEST_TILE : extent));
    p->tile_start = p->tile_width = NULL;
    if (tiled) {
        p->tile_start = emit_name(p, "first");
        p->tile_width = emit_name(p, "end");
        const char *all_lanes = extent_text(&nest->exprs->axis[lane]);
        emit_line(p, "for (int64_t %s = 0; %s < %s; %s += %s) {", p->tile_start, p->tile_start, all_lanes, p->tile_start, width);
        p->indent++;
        emit_line(p, "const int64_t %s = %s + %s < %s ? %s + %s : %s;", p->tile_width, p->tile_start, width, all_lanes, p->tile_start,
             width, all_lanes);
    }
    const char *where = format("[%s]", lane_text(p, lane));
    for (int pass = 0; pass < nest->passes; pass++) {
        p->loops = all;
        int count = pass_roots(nest, pass, roots);
        if (!count)
            continue;
        column_accumulators(p, pass, lane, width);
        const char **saved = saved_texts(p);
        find_wanted(p, roots, count, p->loops);
        open_loops(p, outer, pass, true, -1);
        pass_statements(p, pass, where);
        close_loops(p, outer);
        restore_texts(p, saved);
        column_results(p, pass, lane);
    }
    int count = outer_roots(nest, roots);
    if (count) {
        p->loops = outer;
        p->loop[p->loops++] = lane;
        find_wanted(p, roots, count, p->loops);
        open_loops(p, outer, nest->passes, true, -1);
        for (int i = 0; i < nest->store_count; i++)
            if (nest->stores[i].outer)
                print_store(p, &nest->stores[i]);
        close_loops(p, outer);
    }
    if (tiled)
        emit_close(p);
    p->loops = outer;
    close_loops(p, 0);
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
        bool canonical = p->canonical;
        p->canonical = false;
        p->axis_name[i] = emit_name(p, wish);
        p->canonical = canonical;
    }
}

void emit_nest(Printer *p, const Nest *nest)
{
    p->nest = nest;
    p->shown = NEW_ARRAY(Shown, nest->exprs->count);
    p->result = NEW_ARRAY(const char *, nest->reduction_count);
    p->tile_start = p->tile_width = NULL;
    const Exprs *x = nest->exprs;
    for (int i = 0; i < x->count; i++)
        p->shown[i].fixed = x->all[i]->kind == X_LOAD && emit_written(p->kernel, x->all[i]->tensor);
    for (int i = 0; i < x->count; i++) /* what is chosen is loaded before, so that the loop needs no masks */
        for (int k = 1; x->all[i]->kind == X_OP && x->all[i]->op == OP_WHERE && k < 3; k++)
            if (x->all[i]->in[k]->kind == X_LOAD && x->all[i]->in[k]->count == 1)
                p->shown[x->all[i]->in[k]->id].fixed = true;
    name_axes(p);
    int kept[MAX_AXES], kept_count = 0, reduced[MAX_AXES], reduced_count = 0;
    for (int i = 0; i < x->axis_count; i++) {
        if (x->axis[i].reduced)
            reduced[reduced_count++] = i;
        else
            kept[kept_count++] = i;
    }
    if (nest->columns)
        print_columns(p, kept, kept_count, reduced, reduced_count);
    else
        print_rows(p, kept, kept_count, reduced, reduced_count);
}
