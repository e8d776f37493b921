/* nest.c: what targets share of a nest as code: stores, accumulations, what passes consist of, names of axes; and of a function:
 * which expressions it computes, its constants, its title. */
#include "compiler/loops/lower.h"
#include "compiler/loops/vector.h"
#include "runtime/abi/mgpu.h"

#include <math.h>

/* ---- stores and accumulations */

/* a value of F32 that is rounded to the tensor's type */
static bool is_rounded(const Expr *v)
{
    return v->kind == X_OP && v->op == OP_CAST && dtype_is_half(v->dtype) && v->in[0]->dtype == F32;
}

const Term *unrounded_value(const Lowering *p, const Expr *v)
{
    const Term *value = term_of(p, v);
    /* else it has a name, or its row an element */
    return is_rounded(v) && value->kind == TERM_CALL ? term_of(p, v->in[0]) : value;
}

/* the value as the tensor holds it; element: what is there */
static const Term *stored_value(const Lowering *p, const Store *s, const Term *element)
{
    const Expr *v = s->value;
    const Term *value = term_of(p, v);
    const char *type = dtype_name(s->tensor->dtype);
    if (!dtype_is_half(s->tensor->dtype))
        return value;
    if (s->add) {
        const Term *sum = term_add(CALL(format("mgpu_from_%s", type), element), term_fixed(value));
        return CALL(format("mgpu_to_%s", type), sum);
    }
    if (!is_rounded(v))
        return term_fixed(CALL(format("mgpu_to_%s", type), value));
    const Term *before = unrounded_value(p, v);
    return term_fixed(CALL(format(before != value ? "mgpu_to_%s" : "mgpu_exact_%s", type), before));
}

void add_store(Lowering *p, const Store *s)
{
    if (p->vector) {
        vector_store(p, s);
        return;
    }
    const Term *element = s->run ? term_element(p->run[s - p->nest->stores], p->axis_name[p->nest->exprs->axis_count - 1])
                                 : term_element(argument_of(p, s->tensor), term_of(p, s->offset));
    bool half = dtype_is_half(s->tensor->dtype);
    if (s->guard)
        code_if(&p->to, term_of(p, s->guard));
    code_set(&p->to, element, s->add && !half ? "+=" : "=", stored_value(p, s, element));
    if (s->guard)
        code_bare(&p->to);
}

const Term *reduction_start(const Reduction *r)
{
    return r->kind == REDUCE_SUM ? term_word("0") : literal_term(-INFINITY, r->value->dtype);
}

const Term *narrowed(const Reduction *r, const Term *result)
{
    return r->in_double && r->dtype != F64 ? term_cast("float", result) : result;
}
const Term *best_name(const Term *result) { return term_name(format("%s_best", result->word)); }

static const Term *larger(const Term *a, const Term *b) { return CALL("mgpu_larger", a, term_fixed(b)); }

void accumulate(Lowering *p, const Reduction *r, const Term *name, const Term *lane)
{
    if (p->vector) {
        vector_accumulate(p, r, name, lane ? term_element(name, lane) : NULL);
        return;
    }
    const Term *value = term_of(p, r->value), *own = lane ? term_element(name, lane) : name;
    const Term *product = p->cuda ? NULL : accumulated_product(p, r, own);
    if (r->kind == REDUCE_SUM) {
        code_set(&p->to, own, product ? "=" : "+=", product ? product : value);
        return;
    }
    if (r->kind == REDUCE_MAX) {
        code_set(&p->to, own, "=", larger(own, value));
        return;
    }
    const Term *best = lane ? term_element(best_name(name), lane) : best_name(name);
    code_set(&p->to, own, "=", term_choice(CALL("mgpu_beats", term_fixed(value), best), term_of(p, r->place), own));
    code_set(&p->to, best, "=", larger(best, value));
}

/* the expressions that the FULL stores and the reductions of a pass consist of */
int pass_roots(const Nest *nest, int pass, Expr **roots)
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

int outer_roots(const Lowering *p, Expr **roots)
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
        if (outer && s->guard)
            roots[count++] = s->guard;
    }
    return count;
}

/* ---- results */

const Term *result_name(Lowering *p, const Reduction *r)
{
    static const char *const NAME[] = {"sum", "most", "at_most"};
    return r->node && r->node->name ? name_like(p, r->node->name) : fresh_name(p, NAME[r->kind]);
}

/* everything wanted by any pass that the parallel loops can know: for hoisting */
int all_roots(const Lowering *p, Expr **roots)
{
    int count = 0;
    for (int pass = 0; pass < p->nest->passes; pass++)
        count += pass_roots(p->nest, pass, roots + count);
    return count + outer_roots(p, roots + count);
}

/* ---- the beginning */

static void name_axes(Lowering *p)
{
    static const char *const NAMES[] = {"j", "k", "l", "m", "o", "q", "r", "s", "u", "v", "w", "z"};
    const Exprs *x = p->nest->exprs;
    for (int i = 0, used = 0; i < x->axis_count; i++) {
        const Axis *a = &x->axis[i];
        const char *wish = a->samples || a->kind == AXIS_IN_GROUP || x->axis_count == 1 ? "i" : NAMES[used++ % COUNT(NAMES)];
        if (a->kind == AXIS_GROUPS)
            wish = "group";
        if (p->nest->mapping.vector > 1 && i == x->axis_count - 1)
            wish = "v";
        p->axis_name[i] = fresh_name(p, wish);
    }
}

void begin_nest(Lowering *p, const Nest *nest)
{
    p->nest = nest;
    p->term_of = NEW_ARRAY(TermOfExpr, nest->exprs->count);
    p->result = NEW_ARRAY(const Term *, nest->reduction_count);
    p->tile_start = p->tile_width = NULL;
    const Exprs *x = nest->exprs;
    bool *chosen = NEW_ARRAY(bool, x->count); /* it is in a choice: what is loaded there is loaded before, so that the */
    for (int i = x->count - 1; i >= 0; i--) { /* loop needs no masks */
        const Expr *e = x->all[i];
        for (int k = 0; k < e->count; k++)
            if (chosen[i] || (e->kind == X_OP && e->op == OP_WHERE && k > 0))
                chosen[e->in[k]->id] = true;
        p->term_of[i].fixed =
            e == nest->row || (e->kind == X_LOAD && ((chosen[i] && e->count == 1) || kernel_writes(p->kernel, e->tensor)));
    }
    name_axes(p);
}

/* ---- what a function needs */

/* the expressions that the function computes: of a kernel with partial sums, its end makes the OUTER stores, or those across */
const bool *needed_expressions(const Nest *nest, bool finish)
{
    const Exprs *x = nest->exprs;
    bool *needed = NEW_ARRAY(bool, x->count);
    for (int i = 0; i < nest->reduction_count && !finish; i++) {
        needed[nest->reductions[i].value->id] = true;
        if (nest->reductions[i].place)
            needed[nest->reductions[i].place->id] = true;
    }
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        bool at_end = nest->row_sum_count ? s->over_rows : s->outer;
        if (nest->merges) { /* values of each call, and where those of all go */
            needed[(finish ? s->offset : s->value)->id] = true;
            continue;
        }
        if ((nest->partial || nest->row_sum_count) && at_end != finish)
            continue;
        needed[s->value->id] = needed[s->offset->id] = true;
        if (s->guard)
            needed[s->guard->id] = true;
    }
    for (int i = x->count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < x->all[i]->count; k++)
            needed[x->all[i]->in[k]->id] = true;
    return needed;
}

static void declare_key(Lowering *p, const Expr *random)
{
    const char *id = format("%llx", (unsigned long long)random->hash);
    if (map_get(&p->keys, id))
        return;
    const Term *name = fresh_name(p, "key");
    map_set(&p->keys, id, (void *)(uintptr_t)name);
    code_declare(&p->to, "const uint64_t", name, CALL("mgpu_random_key", term_word("step->seed"), term_path(random->hash)));
}

static void declare_table(Lowering *p, const Node *node)
{
    for (int j = 0; j < p->table_count; j++)
        if (p->table[j] == node)
            return;
    const Term *name = node->name ? name_like(p, node->name) : fresh_name(p, "constant");
    int count = p->table_count;
    APPEND(p->table, p->table_count, node);
    APPEND(p->table_name, count, name);
    Statement *s = code_add(&p->to, CODE_TABLE);
    s->type = C_TYPE[node->dtype], s->to = name, s->dtype = node->dtype, s->constants = node->data,
    s->constant_count = node->data_count;
}

void declare_tables(Lowering *p)
{
    for (int k = 0; k < p->kernel->nest_count; k++) {
        const Exprs *x = p->kernel->nests[k].exprs;
        for (int i = 0; i < x->count; i++) {
            const Expr *e = x->all[i];
            if (p->needed[k][i] && e->kind == X_RANDOM)
                declare_key(p, e);
            else if (p->needed[k][i] && e->kind == X_TABLE)
                declare_table(p, e->node);
        }
    }
}

void emit_kernel_title(const Kernel *k, Text *t)
{
    const Place *user = users_place(k->at);
    if (k->nest_count || k->scan)
        text_add(t, "%s\n",
                 c_comment("%s: %s%s", k->name, k->title,
                           user && user->source ? format("  %s:%d", user->source->file, user->line) : ""));
}
