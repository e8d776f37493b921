/* trace.c: a target that prints what kernels say: no threads, no language, nothing that is run.
 *
 *   k1: add  [n, 8] f32 (a0 = t3_einsum, a1 = w.v1, a2 = t8_add)
 *     for i0 < 1 n, i1 < 8
 *       e2 = 8 i0 + 1 i1
 *       e3 = a0[e2]
 *       e4 = a1[i1]
 *       e5 = add e3 e4 : f32
 *       a2[e2] = e5
 *
 * Expressions have the numbers that fusion gives them; those that a nest does not use are left out. */
#include "compiler/target/trace/trace.h"

enum { LANE = 16 };

static int64_t lane(int64_t extent) { return extent < LANE ? extent : LANE; }
static void map_threads(Kernel *k, const Model *m, bool in_scan) { (void)k, (void)m, (void)in_scan; }
static bool finishes(const Kernel *k) { return (void)k, false; }

static int64_t workspace(const Kernel *k, const char *archs, bool in_scan, int64_t *per_sample)
{
    (void)archs, (void)in_scan, (void)per_sample;
    return k->scan ? k->scan->work_bytes : 0;
}

/* ---- expressions */

static int argument(const Kernel *k, const Tensor *t)
{
    for (int i = 0; i < k->write_count; i++)
        if (k->writes[i]->id == t->id)
            return k->read_count + i;
    for (int i = 0; i < k->read_count; i++)
        if (k->reads[i]->id == t->id)
            return i;
    return -1;
}

static const char *value(const Expr *e)
{
    return e->kind == X_AXIS               ? format("i%lld", (long long)e->constant)
           : e->kind == X_NUMBER           ? format("%.17g", e->number)
           : e->kind == X_RESULT           ? format("r%lld", (long long)e->constant)
           : e->kind == X_SUM && !e->count ? format("%lld", (long long)e->constant)
                                           : format("e%d", e->id);
}

static bool has_line(const Expr *e)
{
    return e->kind != X_AXIS && e->kind != X_NUMBER && e->kind != X_RESULT && (e->kind != X_SUM || e->count);
}

static void print_expression(const Kernel *k, const Expr *e, Text *t)
{
    static const char *const WORD[] = {
        [X_DIV] = "quotient",   [X_MOD] = "remainder", [X_INDEX_OF] = "index", [X_SAFE] = "safe", [X_FIRST] = "first",
        [X_PLACE] = "place",    [X_COUNT] = "count",   [X_RANGE] = "range",    [X_AND] = "both",  [X_VALID] = "valid",
        [X_VALUE_OF] = "value", [X_RUN] = "run",       [X_RANDOM] = "random",  [X_LOAD] = "",     [X_OP] = ""};
    text_add(t, "    e%d = ", e->id);
    if (e->kind == X_SUM) {
        for (int i = 0; i < e->count; i++)
            text_add(t, "%s%lld %s", i ? " + " : "", (long long)e->factor[i], value(e->in[i]));
        text_add(t, e->constant ? " + %lld\n" : "\n", (long long)e->constant);
        return;
    }
    if (e->kind == X_LOAD || e->kind == X_TABLE) {
        text_add(t, e->kind == X_LOAD ? "a%d" : "table%d", e->kind == X_LOAD ? argument(k, e->tensor) : e->node->id);
        text_add(t, e->count > 1 ? "[%s] if %s\n" : "[%s]\n", value(e->in[0]), e->count > 1 ? value(e->in[1]) : "");
        return;
    }
    text_add(t, "%s", e->kind == X_OP ? OP_INFO[e->op].name : WORD[e->kind]);
    for (int i = 0; i < e->count; i++)
        text_add(t, " %s", value(e->in[i]));
    if (e->kind != X_OP)
        text_add(t, " %lld %lld", (long long)e->constant, (long long)e->other);
    text_add(t, " : %s\n", dtype_name(e->dtype));
}

/* ---- nests */

static void want(const Expr *e, bool *wanted)
{
    if (!e || wanted[e->id])
        return;
    wanted[e->id] = true;
    for (int i = 0; i < e->count; i++)
        want(e->in[i], wanted);
}

static void print_nest(const Kernel *k, const Nest *nest, Text *t)
{
    static const char *const REDUCED[] = {[REDUCE_SUM] = "sum", [REDUCE_MAX] = "max", [REDUCE_ARGMAX] = "argmax"};
    const Exprs *x = nest->exprs;
    bool *wanted = NEW_ARRAY(bool, x->count);
    text_add(t, "  for");
    for (int i = 0; i < x->axis_count; i++)
        text_add(t, "%s %si%d < %lld%s", i ? "," : "", x->axis[i].reduction ? "all " : "", i, (long long)x->axis[i].extent,
                 x->axis[i].samples || x->axis[i].kind != AXIS_PLAIN ? " n" : "");
    text_add(t, "\n");
    for (int i = 0; i < nest->reduction_count; i++) {
        want(nest->reductions[i].value, wanted);
        want(nest->reductions[i].place, wanted);
    }
    for (int i = 0; i < nest->store_count; i++) {
        want(nest->stores[i].value, wanted);
        want(nest->stores[i].offset, wanted);
        want(nest->stores[i].guard, wanted);
    }
    for (int i = 0; i < x->count; i++)
        if (wanted[i] && has_line(x->all[i]))
            print_expression(k, x->all[i], t);
    for (int i = 0; i < nest->reduction_count; i++)
        text_add(t, "    r%d = %s %s : %s\n", i, REDUCED[nest->reductions[i].kind], value(nest->reductions[i].value),
                 dtype_name(nest->reductions[i].dtype));
    for (int i = 0; i < nest->store_count; i++) {
        const Store *s = &nest->stores[i];
        text_add(t, "    %sa%d[%s] %s= %s%s%s\n", s->outer ? "at last " : "", argument(k, s->tensor), value(s->offset),
                 s->add ? "+" : "", value(s->value), s->guard ? " if " : "", s->guard ? value(s->guard) : "");
    }
}

static void print_nests(const Kernel *k, Text *t)
{
    for (int i = 0; i < k->nest_count; i++)
        print_nest(k, &k->nests[i], t);
}

/* ---- kinds of kernels */

static void print_contraction(const Kernel *k, Text *t)
{
    text_add(t, "  contraction\n"), contraction_print_table(k->contraction, "kernel", t);
}
static void print_attention(const Kernel *k, Text *t)
{
    text_add(t, "  attention\n"), attention_print(k->attention, "kernel", t);
}
static void print_rows(const Kernel *k, Text *t) { text_add(t, "  rows\n"), rows_print(k->rows, "kernel", t); }

static void print_scan(const Kernel *k, Text *t);
static void (*const BODY[KERNEL_KINDS])(const Kernel *, Text *) = {
    [KERNEL_NESTS] = print_nests,         [KERNEL_CONTRACTION] = print_contraction,
    [KERNEL_ATTENTION] = print_attention, [KERNEL_ROWS] = print_rows,
    [KERNEL_SCAN] = print_scan,
};

static void print_body(const Kernel *k, Text *t) { BODY[k->kind](k, t); }

static void print_scan(const Kernel *k, Text *t)
{
    text_add(t, "  scan, %lld steps\n", (long long)k->scan->steps);
    for (int i = 0; i < k->scan->call_count; i++)
        print_body(k->scan->calls[i].kernel, t);
}

static void prepare_scan(Kernel *k)
{
    Text t = {0};
    print_scan(k, &t);
    k->text = text_take(&t);
}

/* ---- the file */

static void print(const Kernel *k, Text *t)
{
    text_add(t, "%s: %s (", k->name, k->title);
    for (int i = 0; i < k->read_count + k->write_count; i++)
        text_add(t, "%sa%d = %s", i ? ", " : "", i, (i < k->read_count ? k->reads[i] : k->writes[i - k->read_count])->name);
    text_add(t, ")\n");
    if (k->text)
        text_add(t, "%s", k->text);
    else
        print_body(k, t);
}

static void print_all(const Program *p, Text *t)
{
    for (int i = 0; i < p->kernel_count; i++)
        print(p->kernels[i], t);
}

const Target trace_target = {
    .least_group = 1,
    .name = "trace",
    .suffix = "txt",
    .transfers = MGPU_IMPLEMENTATION_AUTO,
    .workspace_alignment = 64,
    .flops_of_byte = FLOPS_OF_BYTE,
    .lane = lane,
    .map_threads = map_threads,
    .workspace = workspace,
    .lower_scan = prepare_scan,
    .finishes = finishes,
    .print = print,
    .print_all = print_all,
};
