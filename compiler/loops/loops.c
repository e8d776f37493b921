/* loops.c: the loops of a nest, and the loop in which each expression is computed.
 *
 * An expression is computed in the outermost loop in which all its operands are known. It gets a name if it is used twice or in a
 * deeper loop, else it is written where it is used. On hosts the innermost loop is SIMD code if possible (loops/vector.h), else
 * scalar. The loop over the axis that workers divide has a thread's range. */
#include "compiler/loops/lower.h"
#include "compiler/loops/vector.h"
#include "runtime/abi/mgpu.h"

enum { LONGEST_TEXT = 86, SHORT_TEXT = 16, SHORT_LOOP = 4 };

/* ---- what is computed where */

static bool is_plain(const Expr *e)
{
    return e->kind == X_NUMBER || e->kind == X_AXIS || e->kind == X_RESULT || e->kind == X_SUM || e->kind == X_RUN ||
           e->kind == X_VALUE_OF;
}

static int depth_of(const Lowering *p, const Expr *e)
{
    int depth = 0;
    for (int i = 0; i < p->loops; i++)
        if (e->axes >> p->loop[i] & 1)
            depth = i + 1;
    return depth;
}

static void want(Lowering *p, const Expr *e, int depth)
{
    TermOfExpr *s = &p->term_of[e->id];
    s->uses++;
    s->deep = s->deep || depth > s->depth;
    s->wanted = true;
}

void find_wanted(Lowering *p, Expr *const *roots, int root_count, int depth)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        TermOfExpr *s = &p->term_of[i];
        s->wanted = s->deep = false;
        s->uses = 0;
        s->depth = depth_of(p, x->all[i]);
    }
    for (int i = 0; i < root_count; i++)
        want(p, roots[i], depth);
    for (int i = x->count - 1; i >= 0; i--) {
        const TermOfExpr *s = &p->term_of[i];
        if (!s->wanted || s->term)
            continue;
        const Expr *e = x->all[i];
        for (int k = 0; k < e->count; k++)
            want(p, e->in[k], s->depth);
        /* Such an expression is written where it is used, so its operands are used there, too. */
        if (is_plain(e) && s->deep)
            for (int k = 0; k < e->count; k++)
                p->term_of[e->in[k]->id].deep = true;
    }
}

static bool is_named(const TermOfExpr *s, const Expr *e)
{
    if (is_plain(e)) /* only long offsets that are used several times */
        return e->kind == X_SUM && s->uses > 2 && term_length(s->term) > SHORT_TEXT;
    return s->uses > 1 || s->deep || s->fixed || term_length(s->term) > LONGEST_TEXT;
}

void define_wanted(Lowering *p, int depth, int pass)
{
    const Exprs *x = p->nest->exprs;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        TermOfExpr *s = &p->term_of[i];
        if (!s->wanted || s->term || s->depth != depth || e->pass > pass || (e->kind == X_RESULT && !p->result[e->constant]))
            continue;
        bool vector = varies(p, e);
        s->term = vector ? vector_value(p, e) : NULL;
        s->term = s->term ? s->term : value_term(p, e);
        if (!is_named(s, e) && !s->row)
            continue;
        const Term *name = expression_name(p, e);
        code_declare(&p->to, format("const %s", vector ? vector_type(p, e) : type_of(p, e)), name, s->term);
        s->term = name;
        if (s->row && vector)
            vector_keep(p, held_type(e->dtype), element_pointer(s->row), name);
        else if (s->row)
            code_set(&p->to, s->row, "=", name);
    }
}

/* Returns true if workers divide the axis. */
static bool is_divided(const Lowering *p, int axis) { return p->nest->divided == axis + 1 && !p->finish; }

/* Returns true if threads own rows along the axis. */
static bool is_owned(const Lowering *p, int axis) { return p->nest->owned == axis + 1 && p->owned_part; }

/* Before the innermost loop: generates the consecutive random numbers that it uses. */
static void random_rows(Lowering *p, int axis)
{
    const Exprs *x = p->nest->exprs;
    const Axis *a = &x->axis[axis];
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        TermOfExpr *s = &p->term_of[i];
        if (!has_random_row(p, e, axis) || !s->wanted || s->term)
            continue;
        const Term *name = fresh_name(p, "rand"), *place[2];
        random_place(p, e, place);
        code_array(&p->to, C_TYPE[e->dtype], name, term_whole(a->extent), NULL);
        code_do(&p->to, CALL(e->dtype == F64 ? "mgpu_rand_row" : "mgpu_rand_rowf", name, term_whole(a->extent), random_key(p, e),
                             term_of(p, e->in[e->count - 1]), place[0], place[1]));
        s->term = term_element(name, p->axis_name[axis]);
    }
}

const Term **saved_terms(const Lowering *p)
{
    const Term **saved = NEW_ARRAY(const Term *, p->nest->exprs->count);
    for (int i = 0; i < p->nest->exprs->count; i++)
        saved[i] = p->term_of[i].term;
    return saved;
}

void restore_terms(Lowering *p, const Term **saved)
{
    for (int i = 0; i < p->nest->exprs->count; i++)
        p->term_of[i].term = saved[i];
}

/* ---- loops */

static const Term *times(int64_t factor, const Term *what) { return factor == 1 ? what : term_times(term_whole(factor), what); }

/* (n + group - 1) / group */
static const Term *groups_of(const Axis *a)
{
    return term_binary(LEVEL_PRODUCT, term_add(term_word("n"), term_whole(a->group - 1)), "/", term_whole(a->group));
}

/* Returns a bound of the thread's range of the axis (a member of its rows, or `part`), or of the whole axis. */
static const Term *bound(const Lowering *p, int axis, const char *row, const Term *part, const Term *all)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    if (is_owned(p, axis))
        return times(p->nest->owned_iterations, term_member(p->owned_part, row));
    return is_divided(p, axis) ? times(a->samples && a->kind == AXIS_PLAIN ? a->extent : 1, part) : all;
}

const Term *loop_from(const Lowering *p, int axis) { return bound(p, axis, "row", p->begin, term_word("0")); }

const Term *loop_to(const Lowering *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    const Term *all = a->kind == AXIS_GROUPS       ? groups_of(a)
                      : p->finish && p->nest->fold ? term_whole(p->nest->fold)
                      : a->samples                 ? times(a->extent, term_word("n"))
                                                   : term_whole(a->extent);
    return bound(p, axis, "row_end", p->end, all);
}

void declare_part(Lowering *p)
{
    int axis = p->nest->divided - 1;
    p->begin = term_word("begin"), p->end = term_word("end");
    if (axis < 0 || p->kernel->split != MGPU_SPLIT_WORKERS)
        return;
    if (p->owned_part) {
        p->begin = term_member(p->owned_part, "column");
        p->end = term_member(p->owned_part, "column_end");
        return;
    }
    const Axis *a = &p->nest->exprs->axis[axis];
    const Term *extent = a->kind == AXIS_GROUPS ? groups_of(a) : term_whole(a->extent), *grain = term_whole(p->nest->grain);
    const Term *thread = term_word("part->thread"), *threads = term_word("part->threads");
    p->begin = fresh_name(p, "from");
    p->end = fresh_name(p, "to");
    code_declare(&p->to, "const int64_t", p->begin, CALL("mgpu_share", extent, grain, thread, threads));
    code_declare(&p->to, "const int64_t", p->end, CALL("mgpu_share", extent, grain, term_add(thread, term_word("1")), threads));
}

static Statement *open_loop(Lowering *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    const Term *v = p->axis_name[axis];
    if (a->kind != AXIS_IN_GROUP)
        return code_count(&p->to, "int64_t", v, loop_from(p, axis), loop_to(p, axis), NULL);
    const Term *first = term_times(term_whole(a->group), p->axis_name[axis - 1]);
    const Term *there = term_binary(LEVEL_LESS, v, "<", term_word("n")),
               *inside = term_binary(LEVEL_LESS, v, "<", term_add(first, term_whole(a->group)));
    Statement *loop = code_for(&p->to, "int64_t", v, first, term_binary(LEVEL_AND, there, "&&", inside));
    code_step(loop, v, "++", NULL);
    return loop;
}

static void open_tile_loop(Lowering *p, int axis)
{
    const Term *from = p->tile_start ? p->tile_start : term_word("0"), *to = p->tile_start ? p->tile_width : loop_to(p, axis);
    code_count(&p->to, "int64_t", p->axis_name[axis], from, to, NULL);
}

const Term *lane_term(const Lowering *p, int axis)
{
    return p->tile_start ? term_binary(LEVEL_SUM, p->axis_name[axis], "-", p->tile_start) : p->axis_name[axis];
}

static bool vectorises(const Lowering *p, int axis)
{
    const Axis *a = &p->nest->exprs->axis[axis];
    return a->kind == AXIS_PLAIN && !p->nest->serial && (a->samples || a->extent > SHORT_LOOP);
}

bool is_in_order(const Nest *nest, int pass)
{
    for (int i = 0; i < nest->reduction_count; i++)
        if (nest->reductions[i].value->pass == pass && nest->reductions[i].kind == REDUCE_ARGMAX)
            return true;
    return false;
}

/* In a scatter whose threads own rows: skips iterations whose row the thread does not own. */
static void skip_others(Lowering *p, int depth)
{
    const Expr *row = p->nest->row;
    if (!row || !p->owned_part || depth_of(p, row) != depth)
        return;
    const Term *at = term_of(p, row), *before = term_binary(LEVEL_LESS, at, "<", term_member(p->owned_part, "row"));
    code_if(&p->to,
            term_binary(LEVEL_OR, before, "||", term_binary(LEVEL_LESS, at, ">=", term_member(p->owned_part, "row_end"))));
    code_do(&p->to, term_word("continue"));
    code_bare(&p->to);
}

int innermost_bytes(Lowering *p, int axis, int pass)
{
    return vectorises(p, axis) && !is_in_order(p->nest, pass) ? vector_bytes(p, axis, pass) : 0;
}

/* Opens the innermost loop, as SIMD code if possible. vector_pass: as in open_loops. */
static void open_innermost(Lowering *p, int axis, int pass, bool tile, int vector_pass)
{
    bool merges = p->nest->merges && !p->finish && pass >= p->nest->passes; /* mgpu_merge_moments is called once per iteration */
    int bytes = merges ? 0 : tile ? vector_bytes(p, axis, pass) : vector_pass >= 0 ? innermost_bytes(p, axis, vector_pass) : 0;
    if (bytes && tile && p->tile_start)
        open_vector_loop(p, axis, bytes, p->tile_start, p->tile_width);
    else if (bytes)
        open_vector_loop(p, axis, bytes, loop_from(p, axis), loop_to(p, axis));
    else if (tile)
        open_tile_loop(p, axis);
    else
        open_loop(p, axis);
}

void open_loops(Lowering *p, int from, int pass, bool tile, int vector_pass)
{
    for (int depth = from; depth < p->loops; depth++) {
        int axis = p->loop[depth];
        if (depth == p->loops - 1) {
            random_rows(p, axis);
            open_innermost(p, axis, pass, tile, vector_pass);
        } else {
            open_loop(p, axis);
        }
        define_wanted(p, depth + 1, pass);
        skip_others(p, depth + 1);
    }
}

void close_innermost(Lowering *p)
{
    if (p->vector)
        close_vector_loop(p);
    else
        code_close(&p->to);
}

void close_loops(Lowering *p, int from)
{
    for (int depth = p->loops; depth > from; depth--)
        close_innermost(p);
}
