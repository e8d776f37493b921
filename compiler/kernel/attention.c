/* attention.c: ATTENTION and its gradients as a table for runtime/abi/mgpu_attention.h.
 *
 * In: nodes, and the tensors of their operands and results. Out: an Attention, printed as a table and one call.
 *
 * Operands are read in place, through slices, transposes and reshapes: q, k and v are often parts of one contraction's result,
 * and their gradients parts of one value. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/attention.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/phase.h"
#include "compiler/machine/machine.h"

#include <string.h>

#include "runtime/abi/mgpu_attention.h"

enum { LEAST_ROWS = 16, MOST_VIEWS = 16 };

struct Attention {
    const Node *node;
    const Tensor *operand[ATTENTION_OPERANDS];
    const Tensor *result[ATTENTION_RESULTS];
    int operands, results;
    mgpu_attention table;
};

/* ---- views */

typedef struct StridedView {
    int64_t first, stride[MAX_RANK];
} StridedView; /* in elements of the stored value */

/* Computes the view of a reshape; false: it needs a copy. Axes of extent 1 may have any stride. */
static bool reshape_view(const Shape *from, const StridedView *in, const Shape *to, StridedView *out)
{
    int i = from->rank - 1, o = to->rank - 1;
    for (int k = 0; k <= o; k++)
        out->stride[k] = 1;
    for (;;) {
        while (i >= 0 && from->extent[i] == 1)
            i--;
        while (o >= 0 && to->extent[o] == 1)
            o--;
        if (i < 0 || o < 0)
            return i < 0 && o < 0;
        int64_t extent = from->extent[i], stride = in->stride[i], taken = 1;
        for (i--; i >= 0 && (from->extent[i] == 1 || in->stride[i] == extent * stride); i--)
            extent *= from->extent[i];
        for (; o >= 0 && taken < extent; o--) {
            if (extent / taken % to->extent[o])
                return false;
            out->stride[o] = taken * stride;
            taken *= to->extent[o];
        }
    }
}

/* Computes n as a view of `base`; false: it is not strided. */
static bool view_of(const Node *n, const Node *base, StridedView *view)
{
    *view = (StridedView){.first = 0};
    if (n == base) {
        int64_t step = 1;
        for (int i = n->shape.rank - 1; i >= 0; step *= n->shape.extent[i--])
            view->stride[i] = step;
        return true;
    }
    StridedView in;
    const Node *x = n->in[0];
    if (!view_of(x, base, &in))
        return false;
    view->first = in.first;
    switch (n->op) {
    case OP_STOP_GRADIENT: *view = in; return true;
    case OP_TRANSPOSE:
        for (int i = 0; i < n->shape.rank; i++)
            view->stride[i] = in.stride[n->ints[i]];
        return true;
    case OP_SLICE:
        for (int i = 0, r = n->shape.rank; i < r; i++) {
            view->first += n->ints[i] * in.stride[i];
            view->stride[i] = n->ints[2 * r + i] * in.stride[i];
        }
        return true;
    case OP_RESHAPE: return reshape_view(&x->shape, &in, &n->shape, view);
    default: return false;
    }
}

static bool is_strided(Op op) { return op == OP_STOP_GRADIENT || op == OP_TRANSPOSE || op == OP_SLICE || op == OP_RESHAPE; }

const Node *attention_operand(const Node *operand, bool (*stored)(const Node *))
{
    const Node *best = operand;
    StridedView view;
    const Node *n = operand;
    for (int i = 0; i < MOST_VIEWS && is_strided(n->op); i++, n = n->in[0]) {
        const Node *base = n->in[0];
        int last = operand->shape.rank - 1;
        if (stored(base) && view_of(operand, base, &view) && (view.stride[last] == 1 || operand->shape.extent[last] == 1))
            best = base;
    }
    return best;
}

/* ---- plans */

/* Returns the operand's table row: strides of a value [rows, heads, elements], or of softmax sums [heads, rows, 2]. */
static mgpu_attention_operand operand_of(const StridedView *view, bool sums, const Tensor *tensor, int argument)
{
    int64_t sample = tensor->has_samples ? tensor_pitch(tensor) : 0;
    return (mgpu_attention_operand){argument,           view->first,         sample,
                                    view->stride[sums], view->stride[!sums], half_of(tensor->dtype)};
}

/* Returns the table row of an operand that is part of a stored value. */
static mgpu_attention_operand place_of(const Node *n, bool sums, const Node *base, const Tensor *tensor, int argument)
{
    StridedView view;
    for (int i = 0; tensor->order && i < tensor->shape.rank; i++)
        if (tensor->order[i] != i)
            die("an operand of attention (node %d) in an order of its own", n->id);
    if (!view_of(n, base, &view))
        die("an operand of attention (node %d) is no view of node %d", n->id, base->id);
    return operand_of(&view, sums, tensor, argument);
}

/* Gradients of q, k and v in one value, [rows, 3, heads, elements], are addressed as [rows, heads, elements] with longer rows. */
static mgpu_attention_operand result_of(const Node *n, const Tensor *tensor, int argument)
{
    StridedView view;
    view_of(n, n, &view);
    mgpu_attention_operand own = operand_of(&view, n->op == OP_ATTENTION && n->ints[3] == 1, tensor, argument);
    own.head = n->shape.rank == 4 ? view.stride[2] : own.head;
    return own;
}

Attention *attention_plan(const Node *const *nodes, int count, const Node *const *base, const Tensor *const *tensor,
                          const Tensor *const *result)
{
    Attention *plan = NEW(Attention);
    const Node *n = plan->node = nodes[0];
    mgpu_attention *t = &plan->table;
    const Shape *q = &n->in[0]->shape, *k = &n->in[1]->shape, *v = &n->in[2]->shape;
    bool backward = n->op == OP_ATTENTION_GRADIENT, wide = tensor[0]->dtype == F64;
    *t = (mgpu_attention){.type = wide ? MGPU_F64 : MGPU_F32,
                          .backward = backward,
                          .causal = n->ints[0] != 0,
                          .queries = q->extent[0],
                          .keys = k->extent[0],
                          .heads = q->extent[1],
                          .groups = k->extent[1],
                          .d = q->extent[2],
                          .e = v->extent[2],
                          .window = n->ints[1],
                          .scale = node_attention_scale(n)};
    t->rows = CHIP[PROCESSOR_HOST].cache_bytes / 8 / (wide ? 8 : 4) / t->keys;
    t->rows = t->rows < LEAST_ROWS ? LEAST_ROWS : t->rows > MGPU_ATTENTION_ROWS ? MGPU_ATTENTION_ROWS : t->rows;
    t->rows = t->rows > t->queries ? t->queries : t->rows;
    mgpu_attention_operand *const in[] = {&t->q, &t->k, &t->v, &t->g, &t->y, &t->sums};
    plan->operands = n->inputs;
    t->g.argument = t->y.argument = t->sums.argument = t->dq.argument = t->dk.argument = t->dv.argument = -1;
    for (int i = 0; i < n->inputs; i++) {
        plan->operand[i] = tensor[i];
        *in[i] = place_of(n->in[i], in[i] == &t->sums, base[i], tensor[i], i);
    }
    plan->results = count;
    for (int i = 0; i < count; i++) {
        mgpu_attention_operand *const out[] = {&t->dq, &t->dk, &t->dv};
        mgpu_attention_operand own = result_of(nodes[i], result[i], n->inputs + i);
        plan->result[i] = result[i];
        if (!backward) {
            *(nodes[i]->ints[3] == 0 ? &t->y : &t->sums) = own;
        } else if (nodes[i]->ints[3] < 3) {
            *out[nodes[i]->ints[3]] = own;
        } else {
            for (int k3 = 0; k3 < 3; k3++) {
                *out[k3] = own;
                out[k3]->first = k3 * t->heads * t->d;
            }
        }
    }
    t->workspace = n->inputs + count;
    return plan;
}

const mgpu_attention *attention_table(const Attention *plan) { return &plan->table; }

uint8_t attention_split(const Attention *plan) { return plan->node->has_samples ? MGPU_SPLIT_SAMPLES : MGPU_SPLIT_NONE; }

int64_t attention_workspace(const Attention *plan)
{
    return mgpu_attention_layout(&plan->table).all * (plan->table.type == MGPU_F64 ? 8 : 4);
}

void attention_cost(const Attention *plan, double *flops, double *bytes, bool *samples)
{
    Node first = *plan->node;
    int64_t ints[4] = {first.ints[0], first.ints[1], first.ints[2], 0}; /* every gradient costs as much as that of q */
    if (first.op == OP_ATTENTION_GRADIENT)
        first.ints = ints;
    *flops = node_flops(&first);
    *bytes = 0;
    *samples = plan->node->has_samples;
    for (int i = 0; i < plan->operands; i++)
        *bytes += (double)tensor_bytes(plan->operand[i], 1) * (i > 0 && plan->operand[i] == plan->operand[i - 1] ? 0 : 1);
    for (int i = 0; i < plan->results; i++)
        *bytes += (double)tensor_bytes(plan->result[i], 1);
}

/* ---- printing */

static void print_operand(const char *field, const mgpu_attention_operand *o, Text *text)
{
    text_add(text, "    .%s = %s,\n", field,
             o->argument < 0 ? "{.argument = -1}"
                             : C_ROW({"argument", o->argument, o->argument ? NULL : "0"}, C_NUMBER("first", o->first),
                                     C_NUMBER("sample", o->sample), C_NUMBER("row", o->row), C_NUMBER("head", o->head),
                                     C_TEXT("half", o->half != MGPU_HALF_NOT ? half_text(o->half) : NULL)));
}

static void print_body(const Attention *plan, const char *name, Text *text)
{
    const mgpu_attention *t = &plan->table;
    text_add(text, "static const mgpu_attention %s_attention = {\n    .type = MGPU_%s, .backward = %s, .causal = %s,\n", name,
             t->type == MGPU_F64 ? "F64" : "F32", t->backward ? "true" : "false", t->causal ? "true" : "false");
    text_add(text, "    .queries = %lld, .keys = %lld, .heads = %lld, .groups = %lld, .d = %lld, .e = %lld, .window = %lld,\n",
             (long long)t->queries, (long long)t->keys, (long long)t->heads, (long long)t->groups, (long long)t->d,
             (long long)t->e, (long long)t->window);
    text_add(text, "    .scale = %.17g, .rows = %lld,\n    /* sample, row, head: strides */\n", t->scale, (long long)t->rows);
    const char *const field[] = {"q", "k", "v", "y", "sums", "g", "dq", "dk", "dv"};
    const mgpu_attention_operand *const operand[] = {&t->q, &t->k, &t->v, &t->y, &t->sums, &t->g, &t->dq, &t->dk, &t->dv};
    for (int i = 0; i < (t->backward ? COUNT(operand) : 5); i++)
        print_operand(field[i], operand[i], text);
    text_add(text,
             "    .workspace = %d};\nstatic void %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n"
             "    (void)step;\n    mgpu_attend(&%s_attention, argument, part);\n}\n",
             t->workspace, name, name);
}

void attention_print_comment(const Attention *plan, const char *more, Text *text)
{
    const mgpu_attention *t = &plan->table;
    const Place *at = users_place(plan->node->at);
    Text what = {0};
    if (plan->node->path && *plan->node->path)
        text_add(&what, "%s, ", plan->node->path);
    if (at && at->source)
        text_add(&what, "%s:%d: ", at->source->file, at->line);
    text_add(&what, "%sy = softmax(scale q k') v of", t->backward ? "gradients of " : "");
    for (int i = 0; i < plan->operands; i++)
        text_add(&what, "%s %s", i ? "," : "", tensor_text(plan->operand[i]));
    for (int i = 0; i < plan->results; i++)
        text_add(&what, "%s %s", i ? "," : " ->", tensor_text(plan->result[i]));
    const char *extents = format("%lld queries, %lld keys, %lld heads of %lld%s%s%s", (long long)t->queries, (long long)t->keys,
                                 (long long)t->heads, (long long)t->d,
                                 t->groups < t->heads ? format(", %lld of keys and values", (long long)t->groups) : "",
                                 t->causal ? ", causal" : "", more);
    text_add(text, "%s\n", c_comment_lines((const char *const[]){text_take(&what), extents}, 2));
}

void attention_print(const Attention *plan, const char *kernel_name, Text *text)
{
    attention_print_comment(plan, "", text);
    print_body(plan, kernel_name, text);
}

bool attention_is_tf32(const Attention *a) { return a->table.type == MGPU_F32 && a->node->graph->model->tf32; }

bool attention_is_aligned(const Attention *plan)
{
    bool aligned = true;
    for (int i = 0; i < plan->operands; i++)
        aligned = aligned && tensor_is_aligned(plan->operand[i]);
    for (int i = 0; i < plan->results; i++)
        aligned = aligned && tensor_is_aligned(plan->result[i]);
    return aligned;
}

/* ---- identity */

void attention_identity(const Attention *plan, Sha256 *sha)
{
    const mgpu_attention *t = &plan->table;
    const mgpu_attention_operand *const operands[] = {&t->q, &t->k, &t->v, &t->g, &t->y, &t->sums, &t->dq, &t->dk, &t->dv};
    IDENTITY_ADD(sha, t->type, t->backward, t->causal, t->queries, t->keys, t->heads, t->groups, t->d, t->e, t->window, t->rows,
                 t->workspace, attention_is_aligned(plan));
    identity_double(sha, t->scale);
    for (int i = 0; i < COUNT(operands); i++) {
        const mgpu_attention_operand *o = operands[i];
        IDENTITY_ADD(sha, o->argument, o->first, o->sample, o->row, o->head, o->half);
    }
}
