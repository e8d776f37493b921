/* kinds.c: the identity and the cost of each kind of kernel. */
#include "compiler/kernel/identity.h"
#include "compiler/kernel/kinds.h"

/* ---- identities */

static void identify_contraction(Sha256 *sha, const Kernel *k) { contraction_identity(k->contraction, sha); }
static void identify_attention(Sha256 *sha, const Kernel *k) { attention_identity(k->attention, sha); }
static void identify_rows(Sha256 *sha, const Kernel *k) { rows_identity(k->rows, sha); }

/* ---- costs */

static void add_cost(Task *t, double flops, double bytes, bool samples)
{
    if (samples) {
        t->flops_per_sample += flops;
        t->bytes_per_sample += bytes;
    } else {
        t->flops += flops;
        t->bytes += bytes;
    }
}

/* An operation of so many flops counts as a function. A power takes POWER times as long as others for its flops, because it is
 * computed in double. */
enum { FUNCTION_FLOPS = 10, POWER = 4 };

/* Returns the number of iterations, per sample if the nest has samples: of all axes, or of the parallel ones. */
static double nest_iterations(const Nest *nest, bool parallel)
{
    double count = 1;
    for (int i = 0; i < nest->exprs->axis_count; i++) {
        const Axis *a = &nest->exprs->axis[i];
        count *= a->kind != AXIS_PLAIN || (parallel && a->reduction) ? 1 : (double)a->extent;
    }
    return count;
}

static void nest_cost(Task *t, const Nest *nest)
{
    const Exprs *x = nest->exprs;
    /* [0]: at all axes; [1]: at parallel axes only */
    double iterations[2] = {nest_iterations(nest, false), nest_iterations(nest, true)}, flops[2] = {0, 0}, functions[2] = {0, 0};
    bool samples = false;
    for (int i = 0; i < x->axis_count; i++)
        samples = samples || x->axis[i].samples || x->axis[i].kind != AXIS_PLAIN;
    for (int i = 0; i < x->count; i++) {
        const Expr *e = x->all[i];
        bool full = false;
        for (int k = 0; k < x->axis_count; k++)
            full = full || (x->axis[k].reduction && e->axes >> k & 1);
        if (e->kind == X_OP && e->axes)
            flops[!full] += e->op == OP_MAX || e->op == OP_WINDOW_MAX ? 1 : OP_INFO[e->op].flops;
        if (e->kind == X_OP && e->axes && OP_INFO[e->op].flops >= FUNCTION_FLOPS)
            functions[!full] += OP_INFO[e->op].flops * (e->op == OP_POW ? POWER : 1);
        if (e->kind == X_RANDOM)
            flops[!full] += OP_INFO[OP_RANDOM].flops;
    }
    flops[0] += nest->reduction_count;
    add_cost(t, flops[0] * iterations[0] + flops[1] * iterations[1], 0, samples);
    if (!nest->columns)
        *(samples ? &t->row_sums_per_sample : &t->row_sums) += nest->reduction_count * iterations[0];
    *(samples ? &t->functions_per_sample : &t->functions) += functions[0] * iterations[0] + functions[1] * iterations[1];
}

static bool is_replaced_in_part(const Kernel *k, const Tensor *x)
{
    for (int i = 0; i < k->nest_count; i++)
        for (int j = 0; j < k->nests[i].store_count; j++)
            if (k->nests[i].stores[j].part && k->nests[i].stores[j].tensor == x)
                return true;
    return false;
}

static bool depends_on_index(const Expr *offset)
{
    bool depends = offset->kind == X_INDEX_OF;
    for (int i = 0; i < offset->count && !depends; i++)
        depends = depends_on_index(offset->in[i]);
    return depends;
}

static bool indexes(const Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++)
        for (int j = 0; j < k->nests[i].exprs->count; j++)
            if (k->nests[i].exprs->all[j]->kind == X_INDEX_OF)
                return true;
    return false;
}

/* Returns how many elements the nest reads of a tensor, if it finds all of them by an index: per sample, if it has samples. */
static double gathered_elements(const Nest *nest, const Tensor *x, bool *samples, bool *gathers)
{
    const Exprs *all = nest->exprs;
    const bool *needed = nest_needed(nest);
    double elements = 0;
    for (int i = 0; i < all->count; i++) {
        const Expr *e = all->all[i];
        double own = 1;
        if (!needed[i] || e->kind != X_LOAD || e->tensor != x)
            continue;
        *gathers = *gathers && depends_on_index(e->in[0]);
        for (int k = 0; k < all->axis_count; k++) {
            const Axis *a = &all->axis[k];
            bool on = e->axes >> k & 1;
            *samples = *samples || (on && (a->samples || a->kind != AXIS_PLAIN));
            own *= on && a->kind == AXIS_PLAIN ? (double)a->extent : 1;
        }
        elements += own;
    }
    return elements;
}

/* Adds the elements that are read of a tensor, if an index finds all of them and they are fewer than the tensor has. Returns
 * false if the whole tensor counts. */
static bool add_gathered(Task *t, const Kernel *k, const Tensor *x)
{
    bool samples = false, gathers = true;
    double elements = 0;
    for (int i = 0; i < k->nest_count && gathers; i++)
        elements += gathered_elements(&k->nests[i], x, &samples, &gathers);
    bool by_sample = samples && !x->has_samples;
    if (!gathers || elements == 0 || (by_sample && !x->node)) /* a step's value in a scan has no node, which knows the model */
        return false;
    double calls = by_sample ? (double)model_samples(x->node->graph->model) : 1;
    if (elements * calls >= (double)shape_count(&x->shape))
        return false;
    add_cost(t, 0, elements * dtype_bytes(x->dtype), samples);
    return true;
}

/* Every argument is read or written once; of what is replaced in part, and of a table from which few rows are gathered, only
 * that part. */
static void argument_cost(Task *t, const Kernel *k)
{
    bool gathers = indexes(k);
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *x = i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
        bool own = tensor_is_divided(x, t->elements);
        if (!is_replaced_in_part(k, x) && !(gathers && i < k->read_count && add_gathered(t, k, x)))
            add_cost(t, 0, own ? dtype_bytes(x->dtype) : (double)tensor_bytes(x, 1), own || x->has_samples);
    }
    for (int i = 0; i < k->nest_count; i++)
        for (int j = 0; j < k->nests[i].store_count; j++) {
            const Store *s = &k->nests[i].stores[j];
            if (s->part)
                add_cost(t, 0, nest_iterations(&k->nests[i], s->outer) * dtype_bytes(s->tensor->dtype), s->tensor->has_samples);
        }
}

static void nests_cost(Task *t, Kernel *k)
{
    for (int i = 0; i < k->nest_count; i++) {
        nest_cost(t, &k->nests[i]);
        t->work = k->owned_rows ? WORK_SCATTER : k->nests[i].reduction_count && t->work == WORK_ELEMENTWISE ? WORK_SUMS : t->work;
    }
    argument_cost(t, k);
}

static void cost_of_contraction(Task *t, Kernel *k)
{
    k->split = contraction_split(k->contraction);
    t->work = contraction_work(k->contraction);
    contraction_cost(k->contraction, &t->flops, &t->flops_per_sample, &t->bytes, &t->bytes_per_sample);
}

static void cost_of_attention(Task *t, Kernel *k)
{
    double flops, bytes;
    bool samples;
    k->split = attention_split(k->attention);
    t->work = WORK_ATTENTION;
    attention_cost(k->attention, &flops, &bytes, &samples);
    add_cost(t, flops, bytes, samples);
}

static void cost_of_rows(Task *t, Kernel *k)
{
    double flops, bytes;
    bool samples;
    k->split = rows_split(k->rows, &k->extent, &k->grain);
    t->work = WORK_ROWS;
    rows_cost(k->rows, &flops, &bytes, &samples);
    add_cost(t, flops, bytes, samples);
}

static void scan_cost(Task *t, Kernel *k)
{
    t->work = WORK_SCAN;
    t->flops = k->scan->flops;
    t->flops_per_sample = k->scan->flops_per_sample;
    argument_cost(t, k);
}

/* ---- the table */

const KernelKindInfo KERNEL_KIND[KERNEL_KINDS] = {
    [KERNEL_NESTS] = {nests_identity, nests_cost},
    [KERNEL_CONTRACTION] = {identify_contraction, cost_of_contraction},
    [KERNEL_ATTENTION] = {identify_attention, cost_of_attention},
    [KERNEL_ROWS] = {identify_rows, cost_of_rows},
    [KERNEL_SCAN] = {scan_identity, scan_cost},
};
