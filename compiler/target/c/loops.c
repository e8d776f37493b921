/* loops.c: the loops of a nest, and what is computed in which of them.
 *
 * In each loop is first what is new there: an expression is in the outermost loop in which all that it depends on
 * is known; it gets a name if it is used twice or in a deeper loop, else it is written where it is used.
 * The loops that a C compiler is to vectorise carry `omp simd`. The axis that the workers divide runs over a part. */
#include "compiler/target/c/marks.h"
#include "runtime/abi/mgpu.h"

enum { LONGEST_TEXT = 86, SHORT_TEXT = 16, SHORT_LOOP = 4, LONGEST_UNROLLED = 32 };

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
void emit_find_wanted(Printer *p, Expr *const *roots, int root_count, int depth)
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
void emit_define(Printer *p, int depth, int pass)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        Shown *s = &p->shown[i];
        if (!s->wanted || s->text || s->depth != depth || e->pass > pass || (e->kind == X_RESULT && !p->result[e->constant]))
            continue;
        s->text = emit_expr(p, e, &s->level);
        bool named = s->uses > 1 || s->deep || s->fixed || emit_length(s->text) > LONGEST_TEXT;
        if (is_plain(e)) /* offsets that are long and used again and again */
            named = e->kind == X_SUM && s->uses > 2 && emit_length(s->text) > SHORT_TEXT;
        if (!named && !s->row)
            continue;
        const char *name = emit_name_of(p, e);
        emit_line(p, "const %s %s = %s;", emit_type(p, e), name, s->text);
        s->text = name;
        s->level = LEVEL_ATOM;
        if (s->row)
            emit_line(p, "%s = %s;", s->row, name);
    }
}

/* the workers divide its iterations */
static bool is_divided(const Printer *p, int axis) { return p->nest->divided == axis + 1 && !p->finish; }

/* the thread owns some of its iterations */
static bool is_owned(const Printer *p, int axis) { return p->nest->owned == axis + 1 && p->own; }

/* before the innermost loop: the random numbers that follow each other in it */
static void random_rows(Printer *p, int axis)
{
    const Exprs *x = p->nest->exprs;
    const Axis *a = &x->axis[axis];
    if (axis != x->axis_count - 1 || a->samples || a->extent > LONGEST_RANDOM || is_divided(p, axis))
        return;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        Shown *s = &p->shown[i];
        if (e->kind != X_RANDOM || !(e->other & 2) || !s->wanted || s->text)
            continue;
        const char *name = emit_own_name(p, "rand");
        emit_line(p, "%s %s[%lld];", C_TYPE[e->dtype], name, (long long)a->extent);
        emit_line(p, "mgpu_rand_row%s(%s, %lld, %s, %s, %s);", e->dtype == F64 ? "" : "f", name, (long long)a->extent, emit_key(p, e),
             emit_operand(p, e->in[e->count - 1], LEVEL_CHOICE), emit_random_place(p, e));
        s->text = format("%s[%s]", name, p->axis_name[axis]);
        s->level = LEVEL_ATOM;
    }
}

const char **emit_saved_texts(const Printer *p)
{
    const char **saved = NEW_ARRAY(const char *, p->nest->exprs->count);
    for (int i = 0; i < p->nest->exprs->count; i++)
        saved[i] = p->shown[i].text;
    return saved;
}

/* forgets what was named since */
void emit_restore_texts(Printer *p, const char **saved)
{
    for (int i = 0; i < p->nest->exprs->count; i++)
        p->shown[i].text = saved[i];
}

/* ---- loops */

static const char *times(int64_t factor, const char *what)
{
    return factor == 1 ? what : format("%lld * %s", (long long)factor, what);
}

/* where the loop over the axis begins and ends */
const char *emit_from(const Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    if (is_owned(p, axis))
        return times(p->nest->owned_iterations, format("%s.row", p->own));
    return is_divided(p, axis) ? times(a->samples && a->kind == AXIS_PLAIN ? a->extent : 1, p->begin) : "0";
}

const char *emit_to(const Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    if (is_owned(p, axis))
        return times(p->nest->owned_iterations, format("%s.row_end", p->own));
    if (is_divided(p, axis))
        return times(a->samples && a->kind == AXIS_PLAIN ? a->extent : 1, p->end);
    if (a->kind == AXIS_GROUPS)
        return format("(n + %lld) / %lld", (long long)a->group - 1, (long long)a->group);
    if (p->finish && p->nest->fold)
        return format("%lld", (long long)p->nest->fold);
    return a->samples ? times(a->extent, "n") : format("%lld", (long long)a->extent);
}

/* the part of the axis that the calling thread takes */
void emit_part(Printer *p)
{
    int axis = p->nest->divided - 1;
    p->begin = "begin", p->end = "end";
    if (axis < 0 || p->kernel->split != MGPU_SPLIT_WORKERS)
        return;
    if (p->own) {
        p->begin = format("%s.column", p->own);
        p->end = format("%s.column_end", p->own);
        return;
    }
    const Axis *a = &p->nest->exprs->axis[axis];
    const char *extent = a->kind == AXIS_GROUPS ? format("(n + %lld) / %lld", (long long)a->group - 1, (long long)a->group)
                                                : format("%lld", (long long)a->extent);
    p->begin = emit_own_name(p, "from");
    p->end = emit_own_name(p, "to");
    emit_line(p, "const int64_t %s = mgpu_share(%s, %lld, part->thread, part->threads);", p->begin, extent, (long long)p->nest->grain);
    emit_line(p, "const int64_t %s = mgpu_share(%s, %lld, part->thread + 1, part->threads);", p->end, extent, (long long)p->nest->grain);
}

static void open_loop(Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    const char *v = p->axis_name[axis];
    if (a->kind == AXIS_IN_GROUP)
        emit_line(p, "for (int64_t %s = %lld * %s; %s < n && %s < %lld * %s + %lld; %s++) {", v, (long long)a->group,
             p->axis_name[axis - 1], v, v, (long long)a->group, p->axis_name[axis - 1], (long long)a->group, v);
    else
        emit_line(p, "for (int64_t %s = %s; %s < %s; %s++) {", v, emit_from(p, axis), v, emit_to(p, axis), v);
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
        emit_line(p, "for (int64_t %s = 0; %s < %s; %s++) {", v, v, emit_to(p, axis), v);
    p->indent++;
}

const char *emit_lane(const Printer *p, int axis)
{
    return p->tile_start ? format("%s - %s", p->axis_name[axis], p->tile_start) : p->axis_name[axis];
}

static bool vectorises(const Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    return a->kind == AXIS_PLAIN && !p->nest->serial && (a->samples || a->extent > SHORT_LOOP);
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

/* of a scatter whose threads own rows: iterations of other rows, or of none, are passed over */
static void skip_others(Printer *p, int depth)
{
    const Expr *row = p->nest->row;
    if (!row || !p->own || depth_of(p, row) != depth)
        return;
    emit_line(p, "if (%s < %s.row || %s >= %s.row_end)", p->shown[row->id].text, p->own, p->shown[row->id].text, p->own);
    emit_line(p, "    continue;");
}

/* Loads along the axis do not simply follow each other forwards. */
static bool is_permuted(const Exprs *x, int axis)
{
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (e->kind == X_SUM && expr_factor(e, axis) < 0)
            return true;
        if ((e->kind == X_DIV || e->kind == X_MOD) && e->in[0]->axes >> axis & 1)
            return true;
    }
    return false;
}

/* A short loop that sums in order is not to be unrolled: where gcc unrolls it whole and loads pairs the other way round, it
 * adds one of them twice (GCC PR 110381: 11.1 to 11.4, 12.1 to 12.3, 13.1). */
static void keep_rolled(Printer *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    if (a->reduction && a->kind == AXIS_PLAIN && !a->samples && a->extent <= LONGEST_UNROLLED && is_permuted(p->nest->exprs, axis))
        emit_line(p, "#pragma GCC unroll 1");
}

/* the loops p->loop[from ...], with what each needs; then `inner` */
void emit_open_loops(Printer *p, int from, int pass, bool tile, int simd_pass)
{
    for (int depth = from; depth < p->loops; depth++) {
        int axis = p->loop[depth];
        bool innermost = depth == p->loops - 1;
        if (innermost && !p->tile_start)
            random_rows(p, axis);
        if (innermost && tile) {
            open_tile_loop(p, axis);
        } else {
            if (innermost && simd_pass >= 0 && vectorises(p, axis))
                print_simd(p, simd_pass);
            else
                keep_rolled(p, axis);
            open_loop(p, axis);
        }
        emit_define(p, depth + 1, pass);
        skip_others(p, depth + 1);
    }
}

void emit_close_loops(Printer *p, int from)
{
    for (int depth = from; depth < p->loops; depth++)
        emit_close(p);
}

