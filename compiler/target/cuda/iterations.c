/* iterations.c: what a thread does at the iterations of a nest; cuda/nest.c decides which iterations these are.
 *
 * In: a nest's loops. Out: the numbers of iterations, the axes of the iteration with a number, the vectors that are loaded before
 * the loop over lanes and stored after it, and the statements in it. */
#include "compiler/target/cuda/iterations.h"

#include <string.h>

/* ---- counts of iterations */

Iterations cuda_axis_iterations(const Loops *l, int axis)
{
    const Axis *a = &l->nest->exprs->axis[axis];
    const Term *n = term_word("n");
    if (a->kind == AXIS_GROUPS)
        return (Iterations){1, term_binary(LEVEL_PRODUCT, term_add(n, count_term(a->group - 1)), "/", divisor_term(a->group))};
    if (a->kind == AXIS_IN_GROUP)
        return (Iterations){1, l->in_group};
    return (Iterations){a->extent, !a->samples   ? NULL
                                   : l->p->block ? term_binary(LEVEL_SUM, term_word("end"), "-", term_word("begin"))
                                                 : n};
}

Iterations cuda_all_iterations(const Loops *l, const int *axes, int count)
{
    Iterations all = {1, NULL};
    for (int i = 0; i < count; i++) {
        Iterations own = cuda_axis_iterations(l, axes[i]);
        all.count *= own.count;
        all.times = !all.times ? own.times : own.times ? term_times(all.times, own.times) : all.times;
    }
    return all;
}

const Term *cuda_iterations_term(Iterations p)
{
    if (!p.times)
        return count_term(p.count);
    return p.count == 1 ? p.times : term_times(count_term(p.count), p.times);
}

const Term *cuda_iterations_divisor(Iterations p) { return term_divisor(cuda_iterations_term(p)); }

const Term *cuda_name_iterations(const Loops *l, Iterations all)
{
    const Term *term = cuda_iterations_term(all);
    if (!all.times || term_is_word(term, "n"))
        return term;
    const Term *name = fresh_name(l->p, "points");
    code_declare(&l->p->to, format("const %s", l->count_type), name, term);
    return name;
}

const Term *cuda_nest_number(const Loops *l, const char *what, int lanes)
{
    const Term *list[2];
    int count = 0, before = l->p->finish ? l->nest->mapping.finish_before : l->nest->mapping.blocks_before;
    if (lanes)
        list[count++] = term_whole(lanes);
    if (before && !l->p->block && what[strlen(what) - 1] != 's')
        list[count++] = count_term(before);
    return l->p->block ? term_call(format("mgpu_block_%s", what), count, list) : term_grid(what, count, list);
}

/* ---- axes */

static const Term *axis_value(const Loops *l, const int *axes, int count, int i, const Term *number, bool outermost)
{
    const Axis *a = &l->nest->exprs->axis[axes[i]];
    Iterations inner = cuda_all_iterations(l, axes + i + 1, count - i - 1), own = cuda_axis_iterations(l, axes[i]);
    const Term *value = number;
    inner.count += inner.count == 0; /* there is no iteration at all */
    own.count += own.count == 0;
    if (inner.times || inner.count != 1)
        value = term_binary(LEVEL_PRODUCT, value, "/", cuda_iterations_divisor(inner));
    if (i > 0 || !outermost)
        value = term_binary(LEVEL_PRODUCT, value, "%", cuda_iterations_divisor(own));
    if (a->kind == AXIS_IN_GROUP)
        value = term_add(term_times(count_term(a->group), l->p->axis_name[axes[i] - 1]), value);
    if (a->samples && l->p->block)
        value = term_add(a->extent == 1 ? term_word("begin") : term_times(term_whole(a->extent), term_word("begin")), value);
    return value;
}

static bool is_wanted(const Loops *l, int axis)
{
    const Exprs *x = l->nest->exprs;
    /* its place among the results */
    bool result = l->nest->partial ? !x->axis[axis].reduction : l->nest->row_sum_count && l->p->finish;
    if (x->axis[axis].kind == AXIS_GROUPS || result)
        return true;
    for (int i = 0; i < x->count; i++)
        if (x->all[i]->kind == X_AXIS && x->all[i]->constant == axis && l->p->term_of[i].wanted)
            return true;
    return false;
}

void cuda_define_axes(const Loops *l, const int *axes, int count, const Term *number, bool outermost)
{
    Lowering *p = l->p;
    bool any = false;
    for (int i = 0; i < count; i++) {
        if (!is_wanted(l, axes[i]))
            continue;
        const Term *value = axis_value(l, axes, count, i, number, outermost);
        if (any)
            code_declare_too(&p->to, p->axis_name[axes[i]], value);
        else
            code_declare(&p->to, format("const %s", l->type), p->axis_name[axes[i]], value);
        any = true;
    }
    for (int i = 0; i < count; i++) {
        const Axis *a = &l->nest->exprs->axis[axes[i]];
        if (a->kind != AXIS_GROUPS || !l->nest->exprs->axis[axes[i] + 1].reduction)
            continue;
        const Term *group = count_term(a->group),
                   *rest = term_binary(LEVEL_SUM, term_word("n"), "-", term_times(group, p->axis_name[axes[i]]));
        code_declare(&p->to, "const int", l->in_group,
                     term_choice(term_binary(LEVEL_LESS, rest, "<", group), term_cast("int", rest), group));
    }
}

void cuda_open_iterations(const Loops *l, const int *axes, int count, const char *wish, const Term *from, const Term *to,
                          const Term *step)
{
    Lowering *p = l->p;
    const Axis *a = &l->nest->exprs->axis[axes[0]];
    bool alone = count == 1 && a->kind == AXIS_PLAIN && !(a->samples && p->block);
    const Term *number = alone ? p->axis_name[axes[0]] : fresh_name(p, wish);
    code_count(&p->to, alone ? l->type : l->count_type, number, from, to, step);
    if (!alone)
        cuda_define_axes(l, axes, count, number, true);
}

/* ---- what is wanted */

/* Returns the index of the vector's first element; NULL: it is no vector. */
static const Expr *vector_of(const Loops *l, const Expr *e) { return l->lane < 0 ? NULL : cuda_vector(l->nest, e); }
static const Expr *stored_vector(const Loops *l, const Store *s) { return l->lane < 0 ? NULL : cuda_stored_vector(l->nest, s); }

static const Term *lane_of(const Loops *l, const Term *array) { return term_element(array, l->p->axis_name[l->lane]); }
static const Term *vector_lane(const Loops *l, const Term *vector) { return lane_of(l, term_member(vector, "at")); }

void cuda_name_vectors(Loops *l)
{
    const Exprs *x = l->nest->exprs;
    l->vector = NEW_ARRAY(const Term *, x->count);
    for (int i = 0; i < x->count && l->lane >= 0; i++) {
        const Expr *e = x->all[i];
        if (!vector_of(l, e) || !l->p->needed[l->nest - l->p->kernel->nests][i])
            continue;
        l->vector[i] = expression_name(l->p, e);
        const Term *lane = vector_lane(l, l->vector[i]);
        l->p->term_of[i].term =
            e->kind == X_LOAD && e->tensor->dtype == BOOL ? term_binary(LEVEL_EQUAL, lane, "!=", term_word("0")) : lane;
    }
}

/* Marks what the roots use of vectors, and adds the beginnings of these vectors to the roots. */
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

Expr **cuda_new_root_list(const Nest *nest)
{
    return NEW_ARRAY(Expr *, 2 * nest->reduction_count + 3 * nest->store_count + 2 * nest->exprs->count);
}

/* Replaces the offsets of stored vectors among the roots by those of their first elements. */
static int replace_offsets(const Loops *l, Expr **roots, int count)
{
    for (int k = 0; k < l->nest->store_count; k++) {
        const Store *s = &l->nest->stores[k];
        const Expr *base = stored_vector(l, s);
        bool scalar = false; /* another store needs the offset itself */
        for (int j = 0; j < l->nest->store_count; j++)
            scalar = scalar || (l->nest->stores[j].offset == s->offset && !stored_vector(l, &l->nest->stores[j]));
        bool there = !base || base == s->offset; /* already among the roots */
        for (int i = 0; i < count; i++)
            there = there || roots[i] == base;
        for (int i = 0; i < count && scalar && !there; i++)
            if (roots[i] == s->offset) {
                roots[count++] = (Expr *)(uintptr_t)base;
                there = true;
            }
        for (int i = 0; i < count && base && !scalar; i++)
            if (roots[i] == s->offset)
                roots[i] = (Expr *)(uintptr_t)base;
    }
    return count;
}

void cuda_find_wanted(const Loops *l, Expr **roots, int count, bool *used)
{
    count = add_bases(l, roots, replace_offsets(l, roots, count), used);
    find_wanted(l->p, roots, count, l->p->loops);
}

/* ---- vectors */

static const char *vector_type(Dtype t) { return dtype_is_half(t) ? "f32" : t == BOOL ? "u8" : dtype_name(t); }
static const char *stored_type(Dtype t) { return t == BOOL ? "u8" : dtype_name(t); }

/* Calls a vector function, with the number of elements if the vector is not whole. */
static const Term *call_vector(const Loops *l, const char *function, const Term *pointer, const Term *vector)
{
    const Term *list[3];
    int count = 0;
    list[count++] = term_unary("&", pointer);
    if (vector)
        list[count++] = vector;
    if (l->rest)
        list[count++] = term_whole(l->nest->mapping.tail_lanes);
    return term_call(function, count, list);
}

static void load_vectors(const Loops *l, const bool *used)
{
    Lowering *p = l->p;
    const Exprs *x = l->nest->exprs;
    int count = l->nest->mapping.vector;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        if (!used[i])
            continue;
        const Term *base = term_of(p, vector_of(l, e)), *place[2], *value;
        const char *type;
        if (e->kind == X_RANDOM) {
            type = format("%sx%d", dtype_name(e->dtype), count);
            random_place(p, e, place);
            value = CALL(format("mgpu_rand_%s", type), random_key(p, e), base, place[0], place[1]);
        } else {
            type = format("%sx%d", vector_type(e->tensor->dtype), count);
            value = call_vector(l, format("mgpu_load_%sx%d", stored_type(e->tensor->dtype), count),
                                term_element(argument_of(p, e->tensor), base), NULL);
        }
        code_declare(&p->to, format("const mgpu_%s", type), l->vector[i], value);
    }
}

static bool in_pass(const Loops *l, const Store *s, int pass)
{
    return pass < 0 ? store_is_outer(l->nest, s, l->p->finish) : !s->outer && s->value->pass == pass;
}

/* Stores of a pass, or OUTER ones if it is -1: open_stores declares vectors before the loop over lanes, close_stores stores them
 * after it. */
static void open_stores(const Loops *l, int pass, const Term **name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass) || !stored_vector(l, s))
            continue;
        name[i] = name_like(l->p, format("new_%s", argument_name(l->p, s->tensor)));
        code_declare(&l->p->to, format("mgpu_%sx%d", vector_type(s->tensor->dtype), l->nest->mapping.vector), name[i], NULL);
    }
}

static void close_stores(const Loops *l, int pass, const Term *const *name)
{
    Lowering *p = l->p;
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass) || !name[i])
            continue;
        if (s->guard)
            code_if(&p->to, term_of(p, s->guard));
        const Term *at = term_element(argument_of(p, s->tensor), term_of(p, stored_vector(l, s)));
        code_do(&p->to,
                call_vector(
                    l, format("mgpu_%s_%sx%d", s->add ? "add" : "store", stored_type(s->tensor->dtype), l->nest->mapping.vector),
                    at, name[i]));
        if (s->guard)
            code_bare(&p->to);
    }
}

static void add_stores(const Loops *l, int pass, const Term *const *name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass))
            continue;
        if (name[i])
            code_set(&l->p->to, vector_lane(l, name[i]), "=",
                     unrounded_value(l->p, s->value)); /* rounded when the vector is stored */
        else
            add_store(l->p, s);
    }
}

int cuda_online_sum(const Loops *l, int maximum)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->online[i] == maximum + 1)
            return i;
    return -1;
}

/* Sums of floats in f64: f32 adds up the lanes of a vector first, because f64 is slow on most GPUs, conversions too. A maximum
 * and its sum use all lanes together. */
static void open_sums(const Loops *l, int pass, const Term **sum)
{
    CodeBuilder *to = &l->p->to;
    for (int i = 0; i < l->nest->reduction_count && pass >= 0 && !l->lane_parallel; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (r->value->pass == pass && cuda_online_sum(l, i) >= 0) {
            sum[i] = fresh_name(l->p, "row");
            code_array(to, C_TYPE[r->value->dtype], sum[i],
                       term_whole(l->rest ? l->nest->mapping.tail_lanes : l->nest->mapping.vector), NULL);
        }
        if (r->value->pass != pass || !r->in_double || r->over_rows)
            continue;
        sum[i] = fresh_name(l->p, "lanes");
        code_declare(to, "float", sum[i], term_word("0"));
    }
}

/* ---- statements of an iteration */

/* A thread has a sum across for each element of its row. */
static void accumulate_lane(const Loops *l, int reduction, const Term *lanes)
{
    const Reduction *r = &l->nest->reductions[reduction];
    Lowering *p = l->p;
    const Term *lane = l->lane >= 0 ? p->axis_name[l->lane] : term_word("0");
    if (r->over_rows)
        accumulate(p, r, term_element(p->result[reduction], l->register_step), lane);
    else
        accumulate(p, r,
                   lanes                   ? lanes
                   : l->f32_sum[reduction] ? l->f32_sum[reduction]
                                           : p->result[reduction],
                   l->lane_parallel ? lane : NULL);
}

void cuda_open_lanes(const Loops *l)
{
    code_count(&l->p->to, "int", l->p->axis_name[l->lane], term_word("0"),
               term_whole(l->rest ? l->nest->mapping.tail_lanes : l->nest->mapping.vector), NULL);
}

void cuda_add_iteration(const Loops *l, int pass, const bool *used)
{
    Lowering *p = l->p;
    const Nest *nest = l->nest;
    const Term **name = NEW_ARRAY(const Term *, nest->store_count);
    const Term **sum = NEW_ARRAY(const Term *, nest->reduction_count);
    if (l->lane >= 0) {
        load_vectors(l, used);
        open_stores(l, pass, name);
        open_sums(l, pass, sum);
        cuda_open_lanes(l);
        define_wanted(p, p->loops, pass < 0 ? nest->passes : pass);
    }
    for (int i = 0; i < nest->reduction_count && pass >= 0; i++)
        if (nest->reductions[i].value->pass == pass && sum[i] && cuda_online_sum(l, i) >= 0)
            code_set(&p->to, lane_of(l, sum[i]), "=", term_fixed(term_of(p, nest->reductions[i].value)));
        else if (nest->reductions[i].value->pass == pass)
            accumulate_lane(l, i, sum[i]);
    add_stores(l, pass, name);
    if (l->lane >= 0) {
        code_close(&p->to);
        for (int i = 0; i < nest->reduction_count; i++) {
            int with = sum[i] ? cuda_online_sum(l, i) : -1;
            if (with >= 0)
                code_do(&p->to, CALL("mgpu_online", p->result[i], p->result[with], sum[i]));
            else if (sum[i])
                code_set(&p->to, p->result[i], "+=", sum[i]);
        }
        close_stores(l, pass, name);
    }
}
