/* fuse_roots.c: which values are made by kernels of their own.
 *
 * In: a graph. Out: info[].root and the list of roots, in the order of their nodes, then the sinks (results that are
 * written into variables, outputs and the report).
 *
 * A value is a root if it cannot be an expression (reductions, contractions), if somebody needs it in memory (operands of
 * contractions, collectives), or if computing it wherever it is used would cost more than storing it: it is used more
 * than once, or for several elements of its users. Being generous with roots costs nothing where they end up in one
 * kernel (fuse_merge.c): a root whose users are all in its kernel is not stored. */
#include "compiler/fuse.h"

#include <string.h>

enum {
    MOST_WEIGHT = 150,     /* expressions in an inlined value: bounds recursion and the size of kernels */
    CHEAP_EXPANDED = 4,    /* flops that may be repeated for every element of a larger tensor */
    CHEAP_REPEATED = 8,    /* flops that may be repeated in every kernel that uses the value */
    SAMPLES_GUESS = 64,    /* of a device, to weigh a value for every sample against one for all */
    RANDOM_FLOPS = 40,
};

bool fuse_contracts(const Node *n)
{
    if (n->op == OP_CONVOLVE || n->op == OP_CONVOLVE_WEIGHT)
        return true;
    return n->op == OP_EINSUM && n->inputs == 2 && (n->dtype == F32 || n->dtype == F64) && n->in[0]->dtype == n->dtype &&
           n->in[1]->dtype == n->dtype;
}

/* of the variable that the model assigned it to, else of the library's layer that made it, else of the operation */
const char *node_word(const Node *n)
{
    const char *layer = n->at && n->at->source && n->at->source->library ? n->at->layer : NULL;
    const char *word = n->name ? n->name : layer ? layer : OP_INFO[n->op].name;
    return n->backward && !n->name ? format("d_%s", word) : word;
}

static bool leaf_in_memory(const Node *n) { return n->op == OP_INPUT || n->op == OP_VARIABLE; }

static bool identity_order(const Node *variable)
{
    const Variable *v = &variable->graph->model->variables[variable->ints[0]];
    for (int i = 0; i < v->shape.rank; i++)
        if (v->order[i] != i)
            return false;
    return true;
}

const Node *fuse_operand(const Fusion *f, const Node *n, int operand)
{
    const Node *o = n->in[operand];
    while (n->op == OP_EINSUM && o->op == OP_TRANSPOSE && !f->separate)
        o = o->in[0];
    const Node *first = o;
    while ((o->op == OP_RESHAPE || o->op == OP_STOP_GRADIENT) && !f->separate)
        o = o->in[0];
    return o != first && o->op == OP_VARIABLE && !identity_order(o) ? first : o;
}

/* a value that costs next to nothing wherever it is used and has no place in memory */
static bool never_root(const Node *n)
{
    return n->op == OP_CONSTANT || n->op == OP_RUN || n->op == OP_ALIVE || n->op == OP_ARANGE || leaf_in_memory(n);
}

static bool always_root(const Node *n)
{
    return fuse_contracts(n) || node_is_loop_reduction(n) || n->op == OP_SCATTER_ADD || n->op == OP_REDUCE;
}

static bool is_view(const Node *n)
{
    return OP_INFO[n->op].op_class == VIEW || n->op == OP_STOP_GRADIENT || n->op == OP_GATHER || n->op == OP_CAST;
}

static double size_of(const Node *n)
{
    return (double)shape_count(&n->shape) * dtype_bytes(n->dtype) * (n->sharded ? SAMPLES_GUESS : 1);
}

static double elements_of(const Node *n)
{
    return (double)shape_count(&n->shape) * (n->sharded ? SAMPLES_GUESS : 1);
}

/* how often one element of input k is computed for an element of n, if it is not stored: 1, or more for windows */
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

static void find_needed(Fusion *f)
{
    const Graph *g = f->graph;
    for (int i = 0; i < g->result_count; i++)
        f->info[g->results[i].value->id].needed = true;
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; f->info[i].needed && k < g->nodes[i]->inputs; k++)
            f->info[g->nodes[i]->in[k]->id].needed = true;
}

/* what computing a value where it is used costs, if everything below it is that is not clearly worth storing */
static void estimate(Fusion *f)
{
    const Graph *g = f->graph;
    int *users = NEW_ARRAY(int, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; f->info[i].needed && k < g->nodes[i]->inputs; k++)
            users[g->nodes[i]->in[k]->id]++;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed)
            continue;
        if (leaf_in_memory(n) || always_root(n)) {
            info->bytes = size_of(n) / elements_of(n);
            continue;
        }
        info->flops = n->op == OP_RANDOM ? RANDOM_FLOPS : n->op == OP_CAST ? 0 : OP_INFO[n->op].flops;
        double times = repeats(n), own = elements_of(n);
        for (int k = 0; k < n->inputs; k++) {
            const Info *in = &f->info[n->in[k]->id];
            double share = elements_of(n->in[k]) < own ? elements_of(n->in[k]) / own : 1;
            info->flops += times * in->flops;
            info->bytes += times * in->bytes * share;
        }
        if (users[i] > 1 && info->flops > CHEAP_REPEATED && !is_view(n) && (n->sharded || shape_count(&n->shape) > 1)) {
            info->flops = 0;
            info->bytes = size_of(n) / own;
            info->store = true;
        }
    }
}

static void store_operands(Fusion *f, const Node *n)
{
    if (fuse_contracts(n))
        for (int k = 0; k < n->inputs; k++)
            f->info[fuse_operand(f, n, k)->id].store = true;
    else if (n->op == OP_REDUCE)
        f->info[n->in[0]->id].store = true;
}

/* how n uses its inputs: counts uses, and whether elements are used several times */
static void count_uses(Fusion *f, const Node *n)
{
    const Info *info = &f->info[n->id];
    bool here = info->root || n->op == OP_REDUCE; /* else whoever uses n uses its inputs */
    for (int k = 0; k < n->inputs; k++) {
        const Node *x = n->in[k];
        Info *in = &f->info[x->id];
        bool repeated = false; /* one input for two operands is one use */
        for (int j = 0; j < k; j++)
            repeated = repeated || n->in[j] == x;
        in->uses += repeated ? 0 : here || info->uses < 1 ? 1 : is_view(n) || info->expanded ? info->uses : 1;
        bool grows = elements_of(n) > elements_of(x) && (n->op == OP_BROADCAST || n->op == OP_GATHER || n->sharded != x->sharded);
        bool overlaps = OP_INFO[n->op].op_class == WINDOW && repeats(n) * elements_of(n) > elements_of(x);
        bool loops = node_is_loop_reduction(n) && n->op != OP_SUM && n->op != OP_MAX && n->op != OP_ARGMAX && n->op != OP_GROUP_SUM;
        in->expanded = in->expanded || grows || overlaps || loops || (!here && info->expanded);
    }
}

static bool worth_storing(const Fusion *f, const Node *n)
{
    const Info *info = &f->info[n->id];
    if (!n->sharded && shape_count(&n->shape) == 1)
        return false; /* computed once per kernel, outside of all loops */
    if (is_view(n))
        return false; /* rather what it shows */
    if (info->expanded && info->flops > CHEAP_EXPANDED)
        return true;
    if (info->uses < 2)
        return false;
    return info->flops > CHEAP_REPEATED || info->bytes > 1.01 * dtype_bytes(n->dtype);
}

static void choose(Fusion *f)
{
    const Graph *g = f->graph;
    for (int i = 0; i < g->result_count; i++)
        f->info[g->results[i].value->id].uses++;
    for (int i = g->node_count - 1; i >= 0; i--) { /* users first */
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed)
            continue;
        if (!never_root(n))
            info->root = always_root(n) || info->store || f->separate || worth_storing(f, n);
        store_operands(f, n);
        count_uses(f, n);
    }
    for (int i = 0; i < g->node_count; i++) { /* inputs first: values that would become too large an expression */
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

/* ---- early: what a step's first collectives need; update: what stands behind the last */

static bool is_end(const Result *r) { return r->role == ROLE_UPDATE || r->role == ROLE_REPORT; }

typedef struct Times { bool *inputs_only, *early, *reduced, *used_before; } Times;

static Times find_times(const Fusion *f)
{
    const Graph *g = f->graph;
    Times t = {NEW_ARRAY(bool, g->node_count), NEW_ARRAY(bool, g->node_count), NEW_ARRAY(bool, g->node_count),
               NEW_ARRAY(bool, g->node_count)};
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        t.inputs_only[i] = n->op != OP_VARIABLE;
        t.reduced[i] = n->op == OP_REDUCE && n->backward;
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
        t.early[i] = t.early[i] || (n->op == OP_REDUCE && t.inputs_only[i]);
        for (int k = 0; k < n->inputs; k++) {
            int in = n->in[k]->id;
            t.early[in] = t.early[in] || t.early[i];
            if (n->op == OP_REDUCE || t.used_before[i] || !t.reduced[i])
                t.used_before[in] = true;
        }
    }
    return t;
}

static int64_t points(const Root *r, bool all)
{
    int64_t count = 1;
    for (int i = 0; i < r->axis_count; i++)
        if (all || !r->axes[i].reduced)
            count *= r->axes[i].extent;
    return count;
}

Root *fuse_add_root(Fusion *f, const Node *n, Tensor *target)
{
    Root *r = NEW(Root);
    *r = (Root){.node = n, .target = target, .order = f->root_count, .at = n->at};
    if (target) {
        if (n->sharded)
            r->axes[r->axis_count++] = (Axis){.extent = 1, .samples = true};
        for (int i = 0; i < n->shape.rank; i++)
            r->axes[r->axis_count++] = (Axis){.extent = n->shape.extent[i]};
    } else {
        r->axis_count = node_axes(n, r->axes);
        r->reduces = node_is_loop_reduction(n);
    }
    for (int i = 0; i < r->axis_count; i++) {
        const Axis *a = &r->axes[i];
        r->samples = r->samples || a->samples;
        r->reduces_samples = r->reduces_samples || (a->samples && a->reduced);
        r->grouped = r->grouped || a->kind != AXIS_PLAIN;
    }
    r->grouped = r->grouped || (!target && n->op == OP_GROUP_SUM);
    r->kept_samples = r->samples && !r->reduces_samples;
    r->full = points(r, true);
    r->kept = points(r, false);
    APPEND(f->roots, f->root_count, r);
    return r;
}

/* "t12_relu" */
static const char *node_label(const Node *n) { return format("t%d_%s", n->id, node_word(n)); }

static bool is_large(const Node *n) { return shape_count(&n->shape) > (n->sharded ? 16 : 4096); }

void fuse_find_roots(Fusion *f)
{
    const Graph *g = f->graph;
    find_needed(f);
    estimate(f);
    choose(f);
    Times t = find_times(f);
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        Info *info = &f->info[i];
        if (!info->needed || !info->root)
            continue;
        const Node *summed = n->op == OP_REDUCE ? n->in[0] : NULL;
        Root *copy = NULL;
        if (summed && (f->info[summed->id].uses > 1 || never_root(summed))) {
            info->tensor = fuse_add_tensor(f, TENSOR_TEMPORARY, node_label(n), 0, n->dtype, &n->shape, false, n->in[0]);
            copy = fuse_add_root(f, summed, info->tensor);
            copy->weight = 2;
            copy->early = t.early[i];
        }
        Root *r = info->maker = fuse_add_root(f, n, NULL);
        r->copy = copy;
        if (copy)
            copy->copy_reader = r;
        if (!info->tensor)
            info->tensor = summed ? f->info[summed->id].tensor
                                  : fuse_add_tensor(f, TENSOR_TEMPORARY, node_label(n), 0, n->dtype, &n->shape, n->sharded,
                                                    g->nodes[i]);
        info->tensor->partial = info->tensor->partial || summed;
        r->kind = n->op == OP_REDUCE ? ROOT_REDUCE : n->op == OP_SCATTER_ADD ? ROOT_SCATTER
                : fuse_contracts(n) ? ROOT_CONTRACTION : n->op == OP_CONCAT && is_large(n) ? ROOT_CONCAT : ROOT_LOOPS;
        r->weight = info->weight < MOST_WEIGHT ? info->weight : MOST_WEIGHT;
        r->early = t.early[i];
        r->update = t.reduced[i] && !t.used_before[i] && n->op != OP_REDUCE;
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
        } else if (result->role == ROLE_OUTPUT) {
            target = fuse_add_tensor(f, TENSOR_OUTPUT, format("out.%s", name), outputs++, n->dtype, &n->shape, n->sharded, n);
        } else if (result->role == ROLE_REPORT) {
            target = f->report;
            slot = report++;
        } else {
            die("a result of role %d ('%s') has no place in a kernel", (int)result->role, name);
        }
        Root *r = fuse_add_root(f, n, target);
        r->slot = slot;
        r->at = result->at ? result->at : n->at;
        r->weight = f->info[n->id].root ? 2 : f->info[n->id].weight + 1;
        r->update = is_end(result) && t.reduced[n->id];
        r->backward = false;
    }
}
