/* iterations.c: what a thread does at the iterations of a nest, as CUDA C; which iterations are its own, cuda/nest.c says.
 *
 * In: a nest's loops. Out: how many iterations there are, the axes of the iteration with a number, the vectors that are loaded before
 * the lanes' loop and stored after it, and the statements in it. */
#include "compiler/target/cuda/iterations.h"
#include "compiler/target/c/marks.h"

#include <string.h>

/* ---- counts of iterations */

Iterations cuda_axis_iterations(const Loops *l, int axis)
{
    const Axis *a = &l->nest->exprs->axis[axis];
    if (a->kind == AXIS_GROUPS)
        return (Iterations){1, format("((n + %s) / %s)", emit_count(l->p, a->group - 1), emit_divisor(l->p, a->group))};
    if (a->kind == AXIS_IN_GROUP)
        return (Iterations){1, l->in_group};
    return (Iterations){a->extent, !a->samples ? NULL : l->p->block ? "(end - begin)" : "n"};
}

Iterations cuda_all_iterations(const Loops *l, const int *axes, int count)
{
    Iterations all = {1, NULL};
    for (int i = 0; i < count; i++) {
        Iterations own = cuda_axis_iterations(l, axes[i]);
        all.count *= own.count;
        all.times = !all.times ? own.times : own.times ? format("%s * %s", all.times, own.times) : all.times;
    }
    return all;
}

const char *cuda_iterations_text(const Loops *l, Iterations p)
{
    if (!p.times)
        return emit_count(l->p, p.count);
    return p.count == 1 ? p.times : format("%s * %s", emit_count(l->p, p.count), p.times);
}

/* the same after / or % */
const char *cuda_iterations_divisor(const Loops *l, Iterations p)
{
    const char *text = cuda_iterations_text(l, p);
    return p.times && p.count != 1 ? format("(%s)", text) : emit_over(text);
}

/* the number of iterations, by name if it has to be computed */
const char *cuda_name_iterations(const Loops *l, Iterations all)
{
    if (!all.times || strcmp(cuda_iterations_text(l, all), "n") == 0)
        return cuda_iterations_text(l, all);
    const char *name = emit_own_name(l->p, "points");
    emit_line(l->p, "const %s %s = %s;", l->count_type, name, cuda_iterations_text(l, all));
    return name;
}

/* "mgpu_grid_thread()", or of a block; where a kernel has several nests, each begins with other blocks */
const char *cuda_own_number(const Loops *l, const char *what, int lanes)
{
    const char *text = lanes ? format("%d", lanes) : "";
    int before = l->p->finish ? l->nest->share.finish_before : l->nest->share.blocks_before;
    if (before && !l->p->block && what[strlen(what) - 1] != 's')
        text = format("%s%s%s", text, lanes ? ", " : "", emit_count(l->p, before));
    return format("%s%s(%s)", l->p->block ? "mgpu_block_" : emit_grid(l->p), what, text);
}

/* ---- axes */

static const char *axis_value(const Loops *l, const int *axes, int count, int i, const char *number, bool outermost)
{
    const Axis *a = &l->nest->exprs->axis[axes[i]];
    Iterations inner = cuda_all_iterations(l, axes + i + 1, count - i - 1), own = cuda_axis_iterations(l, axes[i]);
    const char *value = number;
    inner.count += inner.count == 0; /* no iteration at all */
    own.count += own.count == 0;
    if (inner.times || inner.count != 1)
        value = format("%s / %s", value, cuda_iterations_divisor(l, inner));
    if (i > 0 || !outermost)
        value = format("%s %% %s", value, cuda_iterations_divisor(l, own));
    if (a->kind == AXIS_IN_GROUP)
        value = format("%s * %s + %s", emit_count(l->p, a->group), l->p->axis_name[axes[i] - 1], value);
    if (a->samples && l->p->block)
        value = a->extent == 1 ? format("begin + %s", value) : format("%lld * begin + %s", (long long)a->extent, value);
    return value;
}

static bool is_wanted(const Loops *l, int axis)
{
    const Exprs *x = l->nest->exprs;
    bool result = l->nest->partial ? !x->axis[axis].reduction : l->nest->across && l->p->finish; /* its place among the results */
    if (x->axis[axis].kind == AXIS_GROUPS || result)
        return true;
    for (int i = 0; i < x->count; i++)
        if (x->all[i]->kind == X_AXIS && x->all[i]->constant == axis && l->p->shown[i].wanted)
            return true;
    return false;
}

/* the axes of the iteration with this number, those that are wanted; outermost: there is nothing beyond the first of them */
void cuda_define_axes(const Loops *l, const int *axes, int count, const char *number, bool outermost)
{
    Text t = {0};
    for (int i = 0; i < count; i++)
        if (is_wanted(l, axes[i]))
            text_add(&t, "%s%s = %s", t.length ? ", " : "", l->p->axis_name[axes[i]], axis_value(l, axes, count, i, number, outermost));
    if (t.length)
        emit_line(l->p, "const %s %s;", l->type, text_of(&t));
    for (int i = 0; i < count; i++) {
        const Axis *a = &l->nest->exprs->axis[axes[i]];
        if (a->kind == AXIS_GROUPS && l->nest->exprs->axis[axes[i] + 1].reduction) {
            const char *group = emit_count(l->p, a->group), *number_of = l->p->axis_name[axes[i]];
            emit_line(l->p, "const int %s = n - %s * %s < %s ? (int)(n - %s * %s) : %s;", l->in_group, group, number_of, group, group, number_of,
                      group);
        }
    }
}

/* "for (int i = FROM; i < TO; i += STEP) {", and the axes; one axis counts itself */
void cuda_open_iterations(const Loops *l, const int *axes, int count, const char *wish, const char *from, const char *to, const char *step)
{
    Printer *p = l->p;
    const Axis *a = &l->nest->exprs->axis[axes[0]];
    bool alone = count == 1 && a->kind == AXIS_PLAIN && !(a->samples && p->block);
    const char *number = alone ? p->axis_name[axes[0]] : emit_own_name(p, wish);
    emit_line(p, "for (%s %s = %s; %s < %s; %s += %s) {", alone ? l->type : l->count_type, number, from, number, to, number, step);
    p->indent++;
    if (!alone)
        cuda_define_axes(l, axes, count, number, true);
}

/* ---- what is wanted */

/* where the vector begins; NULL: it is none */
static const Expr *vector_of(const Loops *l, const Expr *e) { return l->lane < 0 ? NULL : cuda_vector(l->nest, e); }
static const Expr *stored_vector(const Loops *l, const Store *s) { return l->lane < 0 ? NULL : cuda_stored_vector(l->nest, s); }

static const char *lane_text(const Loops *l, const char *vector) { return format("%s.at[%s]", vector, l->p->axis_name[l->lane]); }
static const char *lane_of(const Loops *l, const char *array) { return format("%s[%s]", array, l->p->axis_name[l->lane]); }

void cuda_name_vectors(Loops *l)
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

Expr **cuda_root_room(const Nest *nest)
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
        bool there = !base || base == s->offset; /* among the roots */
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

/* finds what the roots need; `used`: the vectors */
void cuda_find_wanted(const Loops *l, Expr **roots, int count, bool *used)
{
    count = add_bases(l, roots, replace_offsets(l, roots, count), used);
    emit_find_wanted(l->p, roots, count, l->p->loops);
}

/* ---- vectors */

static const char *vector_type(Dtype t) { return dtype_is_half(t) ? "f32" : t == BOOL ? "u8" : dtype_name(t); }
static const char *stored_type(Dtype t) { return t == BOOL ? "u8" : dtype_name(t); }

/* ", ELEMENTS" that there are of a vector that is not whole */
static const char *left_of(const Loops *l) { return l->rest ? format(", %d", l->nest->share.ragged) : ""; }

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
            emit_line(p, "const mgpu_%sx%d %s = mgpu_rand_%sx%d(%s, %s, %s);", dtype_name(e->dtype), count, l->vector[i],
                      dtype_name(e->dtype), count, emit_key(p, e), emit_operand(p, base, LEVEL_CHOICE), emit_random_place(p, e));
        else
            emit_line(p, "const mgpu_%sx%d %s = mgpu_load_%sx%d(&%s%s);", vector_type(e->tensor->dtype), count, l->vector[i],
                      stored_type(e->tensor->dtype), count, emit_element(p, emit_argument(p, e->tensor), p->shown[base->id].text), left_of(l));
    }
}

static bool in_pass(const Loops *l, const Store *s, int pass)
{
    return pass < 0 ? store_is_outer(l->nest, s, l->p->finish) : !s->outer && s->value->pass == pass;
}

/* stores of a pass, or OUTER ones if it is -1; `open`: before the loop over lanes, `close`: after it */
static void open_stores(const Loops *l, int pass, const char **name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass) || !stored_vector(l, s))
            continue;
        name[i] = emit_name(l->p, format("new_%s", kernel_argument_name(s->tensor)));
        emit_line(l->p, "mgpu_%sx%d %s;", vector_type(s->tensor->dtype), l->nest->share.vector, name[i]);
    }
}

static void close_stores(const Loops *l, int pass, const char *const *name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass) || !name[i])
            continue;
        if (s->guard)
            emit_line(l->p, "if (%s)", l->p->shown[s->guard->id].text);
        emit_line(l->p, "%smgpu_%s_%sx%d(&%s, %s%s);", s->guard ? "    " : "", s->add ? "add" : "store", stored_type(s->tensor->dtype),
                  l->nest->share.vector, emit_element(l->p, emit_argument(l->p, s->tensor), l->p->shown[stored_vector(l, s)->id].text), name[i],
                  left_of(l));
    }
}

static void print_stores(const Loops *l, int pass, const char *const *name)
{
    for (int i = 0; i < l->nest->store_count; i++) {
        const Store *s = &l->nest->stores[i];
        if (!in_pass(l, s, pass))
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

/* the sum that is computed with this maximum; -1: none */
int cuda_online_sum(const Loops *l, int maximum)
{
    for (int i = 0; i < l->nest->reduction_count; i++)
        if (l->online[i] == maximum + 1)
            return i;
    return -1;
}

/* Sums of floats in f64 along a vector: f32 adds up its lanes. Doubles are slow on most GPUs, and so is making some. A maximum and
 * its sum take the lanes together. */
static void open_sums(const Loops *l, int pass, const char **sum)
{
    for (int i = 0; i < l->nest->reduction_count && pass >= 0 && !l->lane_parallel; i++) {
        const Reduction *r = &l->nest->reductions[i];
        if (r->value->pass == pass && cuda_online_sum(l, i) >= 0) {
            sum[i] = emit_own_name(l->p, "row");
            emit_line(l->p, "%s %s[%d];", C_TYPE[r->value->dtype], sum[i], l->rest ? l->nest->share.ragged : l->nest->share.vector);
        }
        if (r->value->pass != pass || !r->in_double || r->across)
            continue;
        sum[i] = emit_own_name(l->p, "lanes");
        emit_line(l->p, "float %s = 0;", sum[i]);
    }
}

/* ---- statements of an iteration */

/* a thread has a sum across for each element of its row */
static void accumulate(const Loops *l, int reduction, const char *lanes)
{
    const Reduction *r = &l->nest->reductions[reduction];
    Printer *p = l->p;
    if (r->across)
        emit_accumulate(p, r, format("%s[%s]", p->result[reduction], l->turn), l->lane >= 0 ? format("[%s]", p->axis_name[l->lane]) : "[0]");
    else
        emit_accumulate(p, r, lanes ? lanes : l->part[reduction] ? l->part[reduction] : p->result[reduction],
                        l->lane_parallel ? format("[%s]", p->axis_name[l->lane]) : "");
}

void cuda_open_lanes(const Loops *l)
{
    const char *v = l->p->axis_name[l->lane];
    emit_line(l->p, "for (int %s = 0; %s < %d; %s++) {", v, v, l->rest ? l->nest->share.ragged : l->nest->share.vector, v);
    l->p->indent++;
}

/* what is to be done at every iteration of a pass, or of OUTER stores (-1), with the loop over lanes around it */
void cuda_print_iteration(const Loops *l, int pass, const bool *used)
{
    Printer *p = l->p;
    const Nest *nest = l->nest;
    const char **name = NEW_ARRAY(const char *, nest->store_count);
    const char **sum = NEW_ARRAY(const char *, nest->reduction_count);
    if (l->lane >= 0) {
        load_vectors(l, used);
        open_stores(l, pass, name);
        open_sums(l, pass, sum);
        cuda_open_lanes(l);
        emit_define(p, p->loops, pass < 0 ? nest->passes : pass);
    }
    for (int i = 0; i < nest->reduction_count && pass >= 0; i++)
        if (nest->reductions[i].value->pass == pass && sum[i] && cuda_online_sum(l, i) >= 0)
            emit_line(p, "%s = %s;", lane_of(l, sum[i]), emit_constants(p, p->shown[nest->reductions[i].value->id].text));
        else if (nest->reductions[i].value->pass == pass)
            accumulate(l, i, sum[i]);
    print_stores(l, pass, name);
    if (l->lane >= 0) {
        emit_close(p);
        for (int i = 0; i < nest->reduction_count; i++) {
            int with = sum[i] ? cuda_online_sum(l, i) : -1;
            if (with >= 0)
                emit_line(p, "mgpu_online(%s, %s, %s);", p->result[i], p->result[with], sum[i]);
            else if (sum[i])
                emit_line(p, "%s += %s;", p->result[i], sum[i]);
        }
        close_stores(l, pass, name);
    }
}
