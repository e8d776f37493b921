/* roots.c: which values are computed by kernels of their own.
 *
 * In: a graph. Out: info[].root and the list of roots, in the order of their nodes, followed by the sinks (results that are
 * written into variables, outputs and the report).
 *
 * A value is a root if it cannot be an expression (reductions, contractions), if an operation needs it in memory (operands of
 * contractions, collectives), or if computing it wherever it is used costs more than storing it, because it is used more than
 * once, or for several elements of its users. Roots that end up in one kernel (fuse/merge.c) cost nothing: a root whose users are
 * all in its kernel is not stored. */
#include "compiler/ir/axes.h"
#include "compiler/ir/rebuild.h"
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"
#include "compiler/passes/compute_once.h"

#include <math.h>
#include <string.h>

enum {
    MOST_WEIGHT = 150,  /* expressions in an inlined value: bounds recursion and the size of kernels */
    CHEAP_EXPANDED = 4, /* flops that may be repeated for every element of a larger tensor */
    /* on a GPU, for a value that is the same for all samples, of which there are many: less than a division */
    CHEAP_FOR_ALL = 3,
    MANY_ELEMENTS = 8 << 20, /* so many divisions take longer than a launch */
    CHEAP_REPEATED = 8,      /* flops that may be repeated in every kernel that uses the value */
    FEW_BYTES = 32,          /* bytes of the innermost axis */
    MANY_SCALARS = 8,        /* operands of a scalar; one of more is stored once, not recomputed in every kernel that reads it */
    DOUBLE_FLOPS = 4,        /* flops of an operation in double, if the model's float is narrower */
    THREAD_FLOPS = 16,       /* that each thread of a GPU may repeat for a scalar */
    SHORT_RUN = 64,          /* neighbours that share a value: a vector loop over fewer is not worth its start */
    OFTEN = 16,              /* a shared value that is read so often is stored for each neighbour */
    ROW_BYTES = 16,          /* alignment of rows that matrix instructions and libraries require */
    LONG_ROW = 4,            /* only rows of at least so many times the padding unit are padded */
};

static const double ABOUT_ONE = 1.3; /* values read per element; up to here reading them is preferred to storing the element */

/* Operations that have their own kind of kernel; all others are nests. */
/* clang-format off */
static const struct { Op op; KernelKind kind; } KIND_OF[] = {
    {OP_EINSUM, KERNEL_CONTRACTION},    {OP_CONVOLVE, KERNEL_CONTRACTION},         {OP_CONVOLVE_WEIGHT, KERNEL_CONTRACTION},
    {OP_ATTENTION, KERNEL_ATTENTION},   {OP_ATTENTION_GRADIENT, KERNEL_ATTENTION}, {OP_TOP_K, KERNEL_ROWS},
    {OP_RESULT, KERNEL_SCAN},
};
/* clang-format on */

KernelKind fuse_kind(Op op)
{
    for (int i = 0; i < COUNT(KIND_OF); i++)
        if (KIND_OF[i].op == op)
            return KIND_OF[i].kind;
    return op_is_running(op) ? KERNEL_ROWS : KERNEL_NESTS;
}

bool is_attention(Op op) { return fuse_kind(op) == KERNEL_ATTENTION; }
static bool is_rows(Op op) { return fuse_kind(op) == KERNEL_ROWS; }

bool fuse_contracts(const Node *n)
{
    KernelKind kind = fuse_kind(n->op);
    if (n->op != OP_EINSUM)
        return kind != KERNEL_NESTS && kind != KERNEL_SCAN;
    if (n->inputs != 2)
        return false;
    Dtype t = n->in[0]->dtype;
    return (t == F32 || t == F64 || dtype_is_half(t)) && n->in[1]->dtype == t;
}

/* Returns the name that the model gave the value, else that of the library's layer that made it, else of the operation. */
const char *node_word(const Node *n)
{
    const char *layer = n->at && n->at->source && n->at->source->library ? n->at->layer : NULL;
    if (n->op == OP_RESULT && !n->name) /* the name in the body */
        return node_word(n->in[0]->body->results[n->ints[0]].value);
    const char *word = n->name ? n->name : layer ? layer : OP_INFO[n->op].name;
    return n->backward && !n->name ? format("d_%s", word) : word;
}

static bool leaf_in_memory(const Node *n) { return n->op == OP_INPUT || n->op == OP_VARIABLE || n->op == OP_ARG; }

static bool is_in_node_order(const Variable *v)
{
    for (int i = 0; i < v->shape.rank; i++)
        if (v->order[i] != i)
            return false;
    return true;
}

static bool identity_order(const Node *variable)
{
    return is_in_node_order(&variable->graph->model->variables[variable->ints[0]]);
}

/* Returns true for a value that costs almost nothing wherever it is used and is never in memory. */
static bool never_root(const Node *n)
{
    bool number = n->op == OP_CONSTANT || n->op == OP_RUN || n->op == OP_VALID || n->op == OP_BATCH_PLACE || n->op == OP_ARANGE;
    return number || n->op == OP_SCAN || leaf_in_memory(n);
}

static bool copies_split(const Node *n) { return n->op == OP_OWN && node_is_sharded(n->in[0], ELEMENTS_AXIS); }

static bool always_root(const Node *n)
{
    return fuse_contracts(n) || node_is_loop_reduction(n) || n->op == OP_SCATTER_ADD || op_is_transfer(n->op) ||
           n->op == OP_RESULT || copies_split(n);
}

/* Returns true for the WHERE of a requirement: its value is stored, so that the search for a NaN's cause finds the sample. */
static bool is_required(const Node *n) { return n->op == OP_WHERE && n->text && n->has_samples; }

static bool narrows(const Node *n)
{
    bool many = n->has_samples || shape_count(&n->shape) > 1;
    return n->op == OP_CAST && (dtype_is_half(n->dtype) || (many && n->dtype == F32 && n->in[0]->dtype == F64));
}

static bool is_view(const Node *n)
{
    return OP_INFO[n->op].op_class == VIEW || n->op == OP_STOP_GRADIENT || n->op == OP_GATHER ||
           (n->op == OP_CAST && !narrows(n));
}

/* Returns true if the value can be in memory, row-major. */
static bool may_be_stored(const Node *n)
{
    return n->op == OP_INPUT || n->op == OP_ARG || (n->op == OP_VARIABLE && identity_order(n)) || (!never_root(n) && !is_view(n));
}

/* Returns the stored value that a row-wise kernel reads, through a widening cast and views that keep elements in place. */
static const Node *rows_operand(const Node *o)
{
    if (o->op == OP_CAST && o->dtype == F32 && dtype_is_half(o->in[0]->dtype))
        o = o->in[0];
    const Node *best = o;
    for (int i = 0; i < MAX_CHAIN && (o->op == OP_RESHAPE || o->op == OP_STOP_GRADIENT); i++) {
        o = o->in[0];
        best = may_be_stored(o) ? o : best;
    }
    return best;
}

/* Returns true if the slice takes all elements, and some axes in reverse. */
static bool reverses(const Node *n)
{
    bool all = n->op == OP_SLICE;
    for (int i = 0, r = n->shape.rank; i < r && all; i++) {
        int64_t start = n->ints[i], step = n->ints[2 * r + i], extent = n->in[0]->shape.extent[i];
        all = n->shape.extent[i] == extent && (step == 1 ? start == 0 : step == -1 && start == extent - 1);
    }
    return all;
}

const Node *fuse_operand(const Fusion *f, const Node *n, int operand)
{
    const Node *o = n->in[operand];
    if (f->separate)
        return o;
    if (is_rows(n->op))
        return rows_operand(o);
    if (is_attention(n->op))
        return attention_operand(o, may_be_stored);
    if (n->op == OP_CONVOLVE && operand == 1) {
        bool reversed = f->program->target->reads_reversed;
        for (int i = 0; i < MAX_CHAIN && (o->op == OP_TRANSPOSE || (reversed && reverses(o))) && !o->has_samples; i++)
            o = o->in[0];
        return o;
    }
    while (n->op == OP_EINSUM && o->op == OP_TRANSPOSE)
        o = o->in[0];
    const Node *first = o;
    while (o->op == OP_RESHAPE || o->op == OP_STOP_GRADIENT)
        o = o->in[0];
    return o != first && o->op == OP_VARIABLE && !identity_order(o) ? first : o;
}

static double size_of(const Node *n) { return node_elements(n) * dtype_bytes(n->dtype); }

/* A body's result is computed in the caller's tensor; it is copied if there are several such tensors, or if it cannot be. */
static void find_place(const Fusion *f, const Result *result, Info *info)
{
    const Node *n = result->value;
    Tensor *place = result->role == ROLE_RESULT ? f->results[result->index] : NULL;
    bool apart = is_rows(n->op) && place && place->pitch; /* row-wise kernels write results without gaps */
    if (place && !apart && !info->result && !never_root(n) && n->has_samples == place->has_samples) {
        info->result = place;
        info->store = true;
    }
}

static void find_needed(Fusion *f)
{
    const Graph *g = f->graph;
    for (int i = 0; i < g->result_count; i++) {
        Info *info = &f->info[g->results[i].value->id];
        info->needed = true;
        find_place(f, &g->results[i], info);
    }
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; f->info[i].needed && k < g->nodes[i]->inputs; k++)
            f->info[g->nodes[i]->in[k]->id].needed = true;
}

static void set_computed_once(Fusion *f)
{
    int count = f->graph->node_count;
    bool *needed = NEW_ARRAY(bool, count), *same = NEW_ARRAY(bool, count), *extrema = NEW_ARRAY(bool, count);
    for (int i = 0; i < count; i++)
        needed[i] = f->info[i].needed;
    find_computed_once(f->graph, needed, same, extrema);
    for (int i = 0; i < count; i++)
        f->info[i].computed_once = same[i];
}

/* Returns how often an element of an input is computed per element of n if it is not stored: once, or for windows more often. */
static double repeats(const Node *n)
{
    if (OP_INFO[n->op].op_class != WINDOW)
        return 1;
    double taps = 1;
    int r = n->shape.rank;
    for (int i = 0; i < r; i++) {
        bool gradient = n->op == OP_WINDOW_MAX_GRADIENT || n->op == OP_WINDOW_SUM_GRADIENT;
        taps *= (double)(gradient ? (n->ints[i] + n->ints[r + i] - 1) / n->ints[r + i] : n->ints[i]);
    }
    return taps;
}

static double flops_of(const Node *n)
{
    bool wide = n->graph->model->precision != F64 && n->dtype == F64;
    if (n->op == OP_CAST)
        return wide != (n->in[0]->dtype == F64) && n->graph->model->precision != F64 ? DOUBLE_FLOPS : 0;
    double flops = OP_INFO[n->op].flops;
    if (OP_INFO[n->op].op_class == WINDOW) /* comparisons or additions of the inputs of an element */
        flops = 2 * repeats(n);
    return wide ? DOUBLE_FLOPS * flops : flops;
}

/* Estimates what computing a value where it is used costs, if only those inputs are stored that clearly should be. */
static void estimate(Fusion *f)
{
    const Graph *g = f->graph;
    int *users = NEW_ARRAY(int, g->node_count);
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; f->info[i].needed && k < g->nodes[i]->inputs; k++) {
            bool widens = g->nodes[i]->op == OP_CAST && dtype_is_half(g->nodes[i]->in[0]->dtype);
            users[g->nodes[i]->in[k]->id] += widens ? users[i] : 1;
        }
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed)
            continue;
        if (leaf_in_memory(n) || always_root(n) || n->op == OP_SCAN) {
            info->bytes = size_of(n) / node_elements(n);
            continue;
        }
        info->flops = flops_of(n);
        double times = repeats(n), own = node_elements(n);
        for (int k = 0; k < n->inputs; k++) {
            const Info *in = &f->info[n->in[k]->id];
            double share = node_elements(n->in[k]) < own ? node_elements(n->in[k]) / own : 1;
            info->flops += times * in->flops;
            info->bytes += times * in->bytes * share;
        }
        if (f->computed[i] ||
            (users[i] > 1 && info->flops > CHEAP_REPEATED && !is_view(n) && (n->has_samples || shape_count(&n->shape) > 1))) {
            info->flops = 0;
            info->bytes = size_of(n) / own;
            info->store = !f->computed[i];
        }
    }
}

/* A value that is gathered only for a variable is gathered in place: each device first writes its own range there. */
static void find_gathered(Fusion *f)
{
    const Graph *g = f->graph;
    for (int i = 0; i < g->result_count && !f->separate; i++) {
        const Result *r = &g->results[i];
        const Node *n = r->value;
        const Variable *v = r->role == ROLE_UPDATE ? &g->model->variables[r->index] : NULL;
        if (v && n->op == OP_ALL_GATHER && node_is_split(n->in[0]) && !variable_is_placed(v, OVER_ELEMENTS) &&
            v->dtype == n->dtype && is_in_node_order(v))
            f->info[n->id].gathered = f->variables[r->index];
    }
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            f->info[g->nodes[i]->in[k]->id].gathered = NULL;
    for (int i = 0; i < g->result_count; i++) { /* not if another result is the same value */
        const Result *r = &g->results[i];
        Info *info = &f->info[r->value->id];
        if (info->gathered && (r->role != ROLE_UPDATE || f->variables[r->index] != info->gathered))
            info->gathered = NULL;
    }
}

/* A row that is replaced in a variable, which nothing else reads, is written where it is, and the new value is read there
 * afterwards. */
static void find_replaced(Fusion *f)
{
    const Graph *g = f->graph;
    int *readers = NEW_ARRAY(int, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            readers[g->nodes[i]->in[k]->id]++;
    for (int i = 0; i < g->result_count; i++)
        readers[g->results[i].value->id]++;
    for (int i = 0; i < g->result_count && !f->separate; i++) {
        const Result *r = &g->results[i];
        const Node *n = r->value, *before = n->op == OP_INDEX_COPY ? n->in[0] : NULL;
        bool own = r->role == ROLE_UPDATE && before && before->op == OP_VARIABLE && before->ints[0] == r->index;
        if (own && readers[before->id] == 1 && n->has_samples == before->has_samples && identity_order(before) &&
            !variable_is_placed(&g->model->variables[r->index], OVER_ELEMENTS)) {
            f->info[n->id].replaced = f->variables[r->index];
            f->variables[r->index]->replaced = true;
            f->info[n->id].store = true;
        }
    }
}

static bool is_gathered_weight(const Node *n) { return n->op == OP_ALL_GATHER && n->in[0]->op == OP_VARIABLE; }

/* Samples that are computed from a gathered weight are stored: rematerializing them would need the weight again. */
static void store_of_gathered(Fusion *f, const Node *n)
{
    for (int k = 0; k < n->inputs && n->has_samples && OP_INFO[n->op].op_class == ELEMENTWISE && !is_view(n); k++) {
        const Node *x = n->in[k];
        while (is_view(x))
            x = x->in[0];
        f->info[n->id].store = f->info[n->id].store || is_gathered_weight(x);
    }
}

/* Returns true if all elements are equal. */
static bool is_uniform(const Node *n)
{
    while (n->op == OP_BROADCAST || n->op == OP_CAST)
        n = n->in[0];
    return shape_count(&n->shape) == 1 || (n->op == OP_CONSTANT && n->data_count == 1);
}

/* A device's own range of a value that it has completely is read from memory, because kernels of Split values know an element
 * only by its position in the range. Values that are computed element by element from such values may be computed there, too. */
static void use_in_parts(Fusion *f, const Node *n)
{
    if (node_is_sharded(n, ELEMENTS_AXIS) || is_uniform(n) || n->op == OP_VARIABLE)
        return;
    if (node_keeps_elements(n) || (n->op == OP_TRANSPOSE && n->in[0]->op == OP_VARIABLE))
        f->info[n->id].in_parts = true;
    else
        f->info[n->id].store = f->info[n->id].operand = true;
}

static void store_operands(Fusion *f, const Node *n)
{
    if (fuse_contracts(n)) {
        for (int k = 0; k < n->inputs; k++) {
            Info *operand = &f->info[fuse_operand(f, n, k)->id];
            operand->store = true;
            operand->operand = operand->operand || is_attention(n->op) || fuse_operand(f, n, k) != n->in[k];
            *(n->op == OP_EINSUM ? &operand->matrix : &operand->dense) = true;
        }
        *(n->op == OP_EINSUM ? &f->info[n->id].matrix : &f->info[n->id].dense) = true;
    } else if (n->op == OP_SCAN) {
        for (int k = 0; k < n->inputs; k++) {
            const Node *operand = fuse_scan_operand(f, n, k);
            if (operand)
                f->info[operand->id].store = f->info[operand->id].operand = true;
        }
    } else if (op_is_transfer(n->op) && !f->info[n->id].gathered) {
        f->info[n->in[0]->id].store = true;
        f->info[n->in[0]->id].operand =
            f->info[n->in[0]->id].operand || f->info[n->id].operand || mgpu_transfer_splits(transfer_of(n->op));
    } else if (node_keeps_elements(n) && (node_is_split(n) || (f->info[n->id].in_parts && !f->info[n->id].root))) {
        for (int k = 0; k < n->inputs; k++)
            use_in_parts(f, n->in[k]);
    }
}

static double elements_of_all(const Node *n)
{
    return (double)shape_count(&n->shape) * (n->has_samples ? (double)model_samples(n->graph->model) : 1);
}

/* Counts how n uses its inputs, and finds inputs whose elements are used several times. */
static void count_uses(Fusion *f, const Node *n)
{
    const Info *info = &f->info[n->id];
    bool here = info->root || op_is_transfer(n->op) || n->op == OP_SCAN; /* otherwise the users of n use its inputs */
    for (int k = 0; k < n->inputs; k++) {
        const Node *x = n->in[k];
        Info *in = &f->info[x->id];
        bool repeated = false; /* an input that is two operands is used once */
        for (int j = 0; j < k; j++)
            repeated = repeated || n->in[j] == x;
        in->uses += repeated ? 0 : here || info->uses < 1 ? 1 : is_view(n) || info->expanded ? info->uses : 1;
        if (n->op == OP_SCAN)
            continue;
        bool grows = node_elements(n) > node_elements(x) &&
                     (n->op == OP_BROADCAST || n->op == OP_GATHER || n->has_samples != x->has_samples ||
                      (n->op == OP_INDEX_COPY && !info->replaced));
        bool overlaps = OP_INFO[n->op].op_class == WINDOW && repeats(n) * node_elements(n) > node_elements(x);
        bool loops =
            node_is_loop_reduction(n) && n->op != OP_SUM && n->op != OP_MAX && n->op != OP_ARGMAX && n->op != OP_GROUP_SUM;
        in->expanded = in->expanded || grows || overlaps || loops || (!here && info->expanded);
        double around = !here && info->expanded ? info->around : 0;
        in->around = fmax(in->around, grows ? fmax(around, elements_of_all(n)) : around);
    }
}

/* Returns true if short runs of neighbours share a value, as the channels of a group share their mean, and a much larger value
 * reads it many times. Stored for every neighbour, it is loaded in vectors. */
static bool repeats_in_runs(const Fusion *f, const Node *n)
{
    const Node *x = n->in[0];
    if (n->op != OP_RESHAPE || x->op != OP_BROADCAST || !f->program->target->stores_runs)
        return false;
    int last = x->shape.rank - 1;
    bool runs = last > 0 && x->shape.extent[last] > 1 && x->shape.extent[last] < SHORT_RUN && x->in[0]->shape.extent[last] == 1;
    return runs && f->info[n->id].around >= OFTEN * elements_of_all(n);
}

/* Returns true for a cast of doubles that are not contiguous, such as a column of moments, which a much larger value reads as
 * floats. Stored floats are loaded in vectors. */
static bool narrows_a_column(const Fusion *f, const Node *n)
{
    return n->op == OP_CAST && n->in[0]->dtype == F64 && n->dtype != F64 && is_view(n->in[0]) &&
           f->program->target->stores_runs && f->info[n->id].around >= OFTEN * elements_of_all(n);
}

static bool worth_storing(const Fusion *f, const Node *n)
{
    const Info *info = &f->info[n->id];
    if (!n->has_samples && shape_count(&n->shape) == 1) { /* computed once per kernel, outside of all loops, or by each thread */
        bool by_all = f->program->target->scalars_by_thread && info->expanded && info->flops > THREAD_FLOPS && !is_view(n);
        return by_all || (info->uses > 1 && info->bytes > MANY_SCALARS * dtype_bytes(F64));
    }
    if (is_view(n)) /* its input is stored instead */
        return repeats_in_runs(f, n);
    bool for_all = f->program->target->scalars_by_thread && !n->has_samples && info->around >= MANY_ELEMENTS;
    if ((info->expanded && info->flops > (for_all ? CHEAP_FOR_ALL : CHEAP_EXPANDED)) || narrows_a_column(f, n))
        return true;
    if (info->uses < 2)
        return false;
    return info->flops > CHEAP_REPEATED || info->bytes > ABOUT_ONE * dtype_bytes(n->dtype);
}

static void choose(Fusion *f)
{
    const Graph *g = f->graph;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        f->info[r->value->id].uses++;
        if ((r->role == ROLE_UPDATE || r->role == ROLE_INIT) && variable_is_placed(&g->model->variables[r->index], OVER_ELEMENTS))
            use_in_parts(f, r->value);
    }
    for (int i = g->node_count - 1; i >= 0; i--) { /* users first */
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed)
            continue;
        store_of_gathered(f, n);
        bool moved = info->store && never_root(n) && !leaf_in_memory(n); /* a constant that a contraction reads */
        if (!never_root(n) || moved)
            info->root = always_root(n) || is_required(n) || info->store || info->computed_once || f->separate ||
                         (!f->computed[i] && worth_storing(f, n));
        store_operands(f, n);
        count_uses(f, n);
    }
    for (int i = 0; i < g->node_count; i++) { /* inputs first: values whose expressions would become too large */
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed)
            continue;
        double weight = 1;
        for (int k = 0; k < n->inputs; k++)
            weight += (f->info[n->in[k]->id].root ? 1 : f->info[n->in[k]->id].weight) * repeats(n);
        if (weight > MOST_WEIGHT && !never_root(n))
            info->root = true;
        info->weight = weight > 1e6 ? 1000000 : (int)weight;
    }
}

/* ---- early: what a step's first collectives need; update: what runs after the last collective */

static bool is_end(const Result *r) { return r->role == ROLE_UPDATE || r->role == ROLE_REPORT; }

typedef struct Times {
    bool *inputs_only, *early, *reduced, *used_before;
} Times;

static Times find_times(const Fusion *f)
{
    const Graph *g = f->graph;
    Times t = {NEW_ARRAY(bool, g->node_count), NEW_ARRAY(bool, g->node_count), NEW_ARRAY(bool, g->node_count),
               NEW_ARRAY(bool, g->node_count)};
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        t.inputs_only[i] = n->op != OP_VARIABLE;
        t.reduced[i] = op_is_transfer(n->op) && n->backward;
        for (int k = 0; k < n->inputs; k++) {
            t.inputs_only[i] = t.inputs_only[i] && t.inputs_only[n->in[k]->id];
            t.reduced[i] = t.reduced[i] || t.reduced[n->in[k]->id];
        }
    }
    for (int i = 0; i < g->result_count; i++)
        if (!is_end(&g->results[i]))
            t.used_before[g->results[i].value->id] = true;
    for (int i = g->node_count - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        if (!f->info[i].needed)
            continue;
        t.early[i] = t.early[i] || (op_is_transfer(n->op) && t.inputs_only[i]);
        for (int k = 0; k < n->inputs; k++) {
            int in = n->in[k]->id;
            t.early[in] = t.early[in] || t.early[i];
            if ((op_is_transfer(n->op) && n->op != OP_ALL_GATHER) || t.used_before[i] || !t.reduced[i])
                t.used_before[in] = true;
        }
    }
    return t;
}

static int64_t iterations(const FusionRoot *r, bool all)
{
    int64_t count = 1;
    for (int i = 0; i < r->axis_count; i++)
        if (all || !r->axes[i].reduction)
            count *= r->axes[i].extent;
    return count;
}

static bool target_is_split(const Node *n, const Tensor *target)
{
    return target->kind == TENSOR_VARIABLE && variable_is_placed(&n->graph->model->variables[target->index], OVER_ELEMENTS);
}

/* Writes the axes of a nest that computes each element by itself, and returns their number. */
static int axes_of_values(const Shape *s, bool samples, Axis *axes)
{
    int count = 0;
    if (samples)
        axes[count++] = (Axis){.extent = 1, .samples = true};
    for (int i = 0; i < s->rank; i++)
        axes[count++] = (Axis){.extent = s->extent[i]};
    return count;
}

FusionRoot *fuse_add_root(Fusion *f, const Node *n, Tensor *target)
{
    FusionRoot *r = NEW(FusionRoot);
    *r = (FusionRoot){.node = n, .shape = &n->shape, .target = target, .order = f->root_count, .at = n->at};
    if (target && (node_is_split(n) || target_is_split(n, target))) {
        r->axes[r->axis_count++] = axis_of_split(&n->shape);
    } else if (target) {
        r->axis_count = axes_of_values(&n->shape, target->has_samples, r->axes);
    } else if (f->info[n->id].replaced) {
        r->shape = &n->in[2]->shape;
        r->axis_count = axes_of_values(r->shape, n->has_samples, r->axes);
    } else {
        r->axis_count = node_axes(n, r->axes);
        r->reduces = node_is_loop_reduction(n);
    }
    for (int i = 0; i < r->axis_count; i++) {
        const Axis *a = &r->axes[i];
        r->elements = a->elements ? a->elements : r->elements;
        r->samples = r->samples || a->samples;
        r->reduces_samples = r->reduces_samples || (a->samples && a->reduction);
        r->grouped = r->grouped || a->kind != AXIS_PLAIN;
    }
    r->grouped = r->grouped || (!target && n->op == OP_GROUP_SUM);
    r->parallel_samples = r->samples && !r->reduces_samples;
    r->full = iterations(r, true);
    r->parallel = iterations(r, false);
    APPEND(f->roots, f->root_count, r);
    return r;
}

/* Returns the type in which a value is stored. The place of a maximum in its window fits into U8; but with few channels gcc does
 * not vectorize a loop with bytes and floats (measured with 6 channels: 2.5 ms instead of 0.3). */
static Dtype stored_type(const Node *n)
{
    double places = 1;
    for (int i = 0; n->op == OP_WINDOW_ARGMAX && i < n->shape.rank; i++)
        places *= (double)n->ints[i];
    bool wide = n->shape.rank && n->shape.extent[n->shape.rank - 1] >= FEW_BYTES;
    return n->op == OP_WINDOW_ARGMAX && places <= 256 && wide ? U8 : n->dtype;
}

/* A weight's gradient has the weight's order of axes in memory (layout.c), so that an update reads both in one order. */
static void order_of_gradient(const Node *n, int *order)
{
    for (int i = 0; i < n->shape.rank; i++)
        order[i] = i < n->shape.rank - 2 ? i + 2 : n->shape.rank - 1 - i;
}

/* The copy of a weight that is transposed for a convolution has the weight's order in memory, so that copying is sequential.
 * false: n is no such value. */
static bool order_of_transposed(const Node *n, int *order)
{
    const Node *chain[MAX_CHAIN], *from = n;
    int64_t stride[MAX_RANK] = {0}, step = 1;
    int count = 0, rank = n->shape.rank;
    for (; count < MAX_CHAIN && (from->op == OP_TRANSPOSE || from->op == OP_SLICE); from = from->in[0])
        chain[count++] = from;
    if (!count || from->op != OP_VARIABLE)
        return false;
    const Variable *v = &from->graph->model->variables[from->ints[0]];
    for (int i = rank - 1; i >= 0; i--) {
        stride[v->order[i]] = step;
        step *= v->shape.extent[v->order[i]];
    }
    while (count-- > 0) {
        int64_t old[MAX_RANK];
        memcpy(old, stride, sizeof old);
        for (int i = 0; i < rank && chain[count]->op == OP_TRANSPOSE; i++)
            stride[i] = old[chain[count]->ints[i]];
    }
    for (int i = 0; i < rank; i++) {
        int at = i;
        for (; at > 0 && stride[order[at - 1]] < stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return true;
}

static const int *order_of(const Fusion *f, const Node *n)
{
    if (n->has_samples || n->shape.rank < 3 || f->info[n->id].operand || f->separate)
        return NULL;
    int *order = NEW_ARRAY(int, MAX_RANK);
    if (n->op == OP_CONVOLVE_WEIGHT)
        order_of_gradient(n, order);
    else if (!order_of_transposed(n, order))
        return NULL;
    return order;
}

/* Pads the rows of a matmul's matrix of samples to a multiple of 16 bytes, if the target gains by it. What follows a row is never
 * used as a number. */
static void pad_rows(const Fusion *f, const Node *n, Shape *shape)
{
    const Info *info = &f->info[n->id];
    int64_t to = f->program->target->row_elements;
    bool alone = f->separate || f->around || !n->has_samples || n->op == OP_RESULT || n->op == OP_OWN || op_is_transfer(n->op);
    if (!to || alone || !info->matrix || info->dense || info->operand || shape->rank < 1)
        return;
    int64_t *row = &shape->extent[shape->rank - 1];
    if (*row >= LONG_ROW * to && *row * dtype_bytes(n->dtype) % ROW_BYTES)
        *row = (*row + to - 1) / to * to;
}

static Tensor *add_temporary(Fusion *f, Node *n, const char *label)
{
    const int *order = order_of(f, n);
    Shape shape = n->shape;
    for (int i = 0; order && i < shape.rank; i++)
        shape.extent[i] = n->shape.extent[order[i]];
    if (!order)
        pad_rows(f, n, &shape);
    Tensor *t = fuse_add_tensor(f, TENSOR_TEMPORARY, label, 0, stored_type(n), &shape, n->has_samples, n);
    if (order) {
        Memory *outer = fuse_use_program_memory(f);
        t->order = memcpy(NEW_ARRAY(int, MAX_RANK), order, sizeof *order * MAX_RANK);
        memory_use(outer);
    }
    return t;
}

/* "t12_relu" */
static const char *node_label(const Node *n) { return format("t%d_%s", n->id, node_word(n)); }

static bool is_large(const Node *n) { return shape_count(&n->shape) > (n->has_samples ? 16 : 4096); }

void fuse_find_roots(Fusion *f)
{
    const Graph *g = f->graph;
    find_needed(f);
    find_gathered(f);
    find_replaced(f);
    set_computed_once(f);
    estimate(f);
    choose(f);
    Times t = find_times(f);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed || !info->root)
            continue;
        const Node *summed = op_is_transfer(n->op) ? n->in[0] : NULL; /* what is transferred in place */
        FusionRoot *copy = NULL;
        Tensor *variable = info->gathered;
        if (summed && variable) {
            info->tensor = variable;
            copy = fuse_add_root(f, summed, variable);
            copy->weight = f->info[summed->id].root ? 2 : f->info[summed->id].weight + 1;
            copy->update = t.reduced[i] && !t.used_before[i];
        } else if (summed && (f->info[summed->id].uses > 1 || never_root(summed) || op_is_transfer(summed->op))) {
            info->tensor = fuse_add_tensor(f, TENSOR_TEMPORARY, node_label(n), 0, n->dtype, &n->shape, false, n->in[0]);
            copy = fuse_add_root(f, summed, info->tensor);
            copy->weight = 2;
            copy->early = t.early[i];
            copy->not_merged = is_gathered_weight(n);
        }
        FusionRoot *r = info->maker = fuse_add_root(f, n, NULL);
        r->copy = copy;
        if (copy)
            copy->copy_reader = r;
        if (!info->tensor)
            info->tensor = summed           ? f->info[summed->id].tensor
                           : info->result   ? info->result
                           : info->replaced ? info->replaced
                                            : add_temporary(f, g->nodes[i], node_label(n));
        info->tensor->partial = info->tensor->partial || (summed && !variable);
        r->kind = summed                              ? ROOT_REDUCE
                  : n->op == OP_SCATTER_ADD           ? ROOT_SCATTER
                  : n->op == OP_RESULT                ? ROOT_SCAN
                  : fuse_contracts(n)                 ? ROOT_CONTRACTION
                  : n->op == OP_CONCAT && is_large(n) ? ROOT_CONCAT
                                                      : ROOT_LOOPS;
        r->weight = info->weight < MOST_WEIGHT ? info->weight : MOST_WEIGHT;
        r->early = t.early[i];
        r->not_merged = copies_split(n) || n->op == OP_MOMENTS;
        r->update = t.reduced[i] && !t.used_before[i] && !summed && !copies_split(n);
        r->backward = n->backward && !r->update;
    }
    int report = 0, outputs = 0;
    for (int i = 0; i < g->result_count; i++) {
        const Result *result = &g->results[i];
        Node *n = result->value;
        const char *name = result->name ? result->name : "value";
        Tensor *target = NULL;
        int slot = 0;
        if (result->role == ROLE_UPDATE || result->role == ROLE_INIT) {
            target = f->variables[result->index];
            if (f->info[n->id].gathered == target || f->info[n->id].replaced == target)
                continue;
        } else if (result->role == ROLE_OUTPUT) {
            target = fuse_add_tensor(f, TENSOR_OUTPUT, format("out.%s", name), outputs++, n->dtype, &n->shape, n->has_samples, n);
        } else if (result->role == ROLE_RESULT) {
            target = f->results[result->index];
            if (f->info[n->id].result == target)
                continue;
        } else if (result->role == ROLE_REPORT) {
            target = f->report;
            slot = report++;
        } else {
            die("a result of role %d ('%s') has no place in a kernel", (int)result->role, name);
        }
        FusionRoot *r = fuse_add_root(f, n, target);
        r->slot = slot;
        r->at = result->at ? result->at : n->at;
        r->weight = f->info[n->id].root ? 2 : f->info[n->id].weight + 1;
        r->update = is_end(result) && t.reduced[n->id];
        r->early = result->role == ROLE_INIT && target_is_split(n, target); /* the whole value need not be stored */
        r->backward = false;
    }
}
