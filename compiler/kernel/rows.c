/* rows.c: running operations and TOP_K as a table for runtime/abi/mgpu_rows.h.
 *
 * In: nodes, and the tensors of their operand and results. Out: a Rows, printed as a table and one call.
 *
 * The operand may have another order of axes (a variable's); results are row-major. All axes but the one along which elements are
 * combined or searched count the rows. Axes that are contiguous in both the operand and the results are joined. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/phase.h"
#include "compiler/kernel/rows.h"
#include "compiler/machine/machine.h"

#include "runtime/abi/mgpu_rows.h"

#include <math.h>

struct Rows {
    const Node *node;
    const Tensor *operand, *result[2];
    int results;
    bool samples;
    mgpu_rows table;
};

static const uint8_t TYPE[DTYPES] = {
    [BOOL] = MGPU_BOOL, [U8] = MGPU_U8,   [I8] = MGPU_I8,   [U16] = MGPU_U16,   [I16] = MGPU_I16, [U32] = MGPU_U32,
    [I32] = MGPU_I32,   [I64] = MGPU_I64, [F16] = MGPU_F16, [BF16] = MGPU_BF16, [F32] = MGPU_F32, [F64] = MGPU_F64};
static const char *const TYPE_NAME[DTYPES] = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "I64", "F16", "BF16", "F32", "F64"};

/* Writes the strides of the node's axes in its tensor. */
static void strides_of(const Shape *shape, const int *order, int64_t *stride)
{
    int64_t step = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        int axis = order ? order[i] : i;
        stride[axis] = step;
        step *= shape->extent[axis];
    }
}

static void count_rows(mgpu_rows *t, const Shape *x, int axis, const int64_t *operand, const int64_t *result)
{
    t->rows = 1;
    for (int i = 0; i < x->rank; i++) {
        if (i == axis || x->extent[i] == 1)
            continue;
        mgpu_row_axis own = {x->extent[i], operand[i], result[i]}, *last = t->axes ? &t->axis[t->axes - 1] : NULL;
        t->rows *= own.extent;
        if (last && last->operand == own.extent * own.operand && last->result == own.extent * own.result) {
            own.extent *= last->extent;
            *last = own;
        } else {
            t->axis[t->axes++] = own;
        }
    }
}

Rows *rows_plan(const Node *const *nodes, int count, const Tensor *operand, const Tensor *const *result, bool alone)
{
    Rows *plan = NEW(Rows);
    const Node *n = plan->node = nodes[0], *x = n->in[0];
    mgpu_rows *t = &plan->table;
    int axis = (int)n->ints[0];
    int64_t from[MAX_RANK], to[MAX_RANK];
    bool running = op_is_running(n->op);
    if (dtype_is_half(x->dtype))
        die("%s of %s", OP_INFO[n->op].name, dtype_name(x->dtype));
    strides_of(&x->shape, operand->order, from);
    strides_of(&n->shape, NULL, to);
    *t = (mgpu_rows){.type = TYPE[x->dtype],
                     .half = half_of(operand->dtype),
                     .backwards = running && n->ints[1] != 0,
                     .along = {x->shape.extent[axis], from[axis], to[axis]},
                     .k = running ? 0 : n->ints[1],
                     .operand_sample = operand->has_samples ? tensor_pitch(operand) : 0,
                     .result_sample = n->has_samples ? shape_count(&n->shape) : 0,
                     .operand = 0,
                     .values = -1,
                     .places = -1,
                     .workspace = running ? -1 : 1 + count};
    count_rows(t, &x->shape, axis, from, to);
    plan->operand = operand;
    plan->results = count;
    plan->samples = n->has_samples;
    for (int i = 0; i < count; i++) {
        plan->result[i] = result[i];
        if (!running && nodes[i]->ints[2])
            t->places = 1 + i;
        else
            t->values = 1 + i;
    }
    int64_t extent, grain;
    t->by_row = !alone && rows_split(plan, &extent, &grain) == MGPU_SPLIT_RANGE;
    return plan;
}

uint8_t rows_split(const Rows *plan, int64_t *extent, int64_t *grain)
{
    const mgpu_rows *t = &plan->table;
    *extent = *grain = 0;
    if (plan->samples)
        return MGPU_SPLIT_SAMPLES;
    int64_t part = CHIP[PROCESSOR_HOST].part_iterations;
    int64_t least = t->along.extent > 0 ? (part + t->along.extent - 1) / t->along.extent : t->rows;
    *extent = t->rows;
    *grain = whole_lines(least);
    if (t->along.extent >= part && t->along.operand == 1) /* long rows, which share no cache lines */
        *grain = 1;
    return *grain < t->rows ? MGPU_SPLIT_RANGE : MGPU_SPLIT_NONE;
}

int64_t rows_workspace(const Rows *plan)
{
    return plan->node->op == OP_TOP_K ? mgpu_top_k_workspace(plan->table.type, plan->table.along.extent, plan->table.k) : 0;
}

/* Returns the cost of a row of TOP_K, in additions of a running sum. Blocks in which an element may be among the k largest are
 * searched, and each such element is inserted into a heap (runtime/host/rows.c). Fitted to k of 8, 64 and 500 of 1,000 random
 * numbers, on one core. */
static double top_k_operations(int64_t extent, int64_t k)
{
    enum { BLOCK = 32, LOOK = 28, LEVEL = 16, SORT = 60 };
    double n = (double)extent, likely = (double)(BLOCK * k);
    if (extent < 1 || k < 1)
        return 0;
    if (mgpu_top_k_sorts(extent, k))
        return SORT * n;
    double looked = n > likely ? likely * (1 + log(n / likely)) : n, inserted = (double)k * (1 + log(n / (double)k));
    return n + LOOK * looked + LEVEL * (log2((double)k) + 1) * inserted;
}

void rows_cost(const Rows *plan, double *flops, double *bytes, bool *samples)
{
    *flops = node_flops(plan->node);
    if (plan->node->op == OP_TOP_K)
        *flops *= top_k_operations(plan->table.along.extent, plan->table.k) /
                  (double)(plan->table.along.extent ? plan->table.along.extent : 1);
    *bytes = (double)tensor_bytes(plan->operand, 1);
    *samples = plan->samples;
    for (int i = 0; i < plan->results; i++)
        *bytes += (double)tensor_bytes(plan->result[i], 1);
}

/* ---- printing */

static void print_axis(const mgpu_row_axis *a, Text *text)
{
    text_add(text, "%s", C_ROW(C_NUMBER("extent", a->extent), C_NUMBER("operand", a->operand), C_NUMBER("result", a->result)));
}

static void print_body(const Rows *plan, const char *name, Text *text)
{
    const mgpu_rows *t = &plan->table;
    bool running = op_is_running(plan->node->op);
    text_add(text, "static const mgpu_rows %s_rows = {\n    .type = MGPU_%s, .half = %s, ", name,
             TYPE_NAME[plan->node->in[0]->dtype], half_text(t->half));
    if (running)
        text_add(text, ".backwards = %s,\n", t->backwards ? "true" : "false");
    else
        text_add(text, ".k = %lld,\n", (long long)t->k);
    text_add(text, "    /* operand, result: strides */\n    .along = ");
    print_axis(&t->along, text);
    text_add(text, ", .axes = %d", t->axes);
    for (int i = 0; i < t->axes; i++) {
        text_add(text, "%s", i ? ", " : ", .axis = {");
        print_axis(&t->axis[i], text);
    }
    text_add(text, "%s,\n    .rows = %lld, .operand_sample = %lld, .result_sample = %lld, .by_row = %s,\n", t->axes ? "}" : "",
             (long long)t->rows, (long long)t->operand_sample, (long long)t->result_sample, t->by_row ? "true" : "false");
    text_add(text, "    .operand = %d, .values = %d, .places = %d, .workspace = %d};\n", t->operand, t->values, t->places,
             t->workspace);
    text_add(text,
             "static void %s(void *const *argument, const mgpu_step *step, const mgpu_part *part)\n{\n"
             "    (void)step;\n    mgpu_%s(&%s_rows, argument, part);\n}\n",
             name, OP_INFO[plan->node->op].name, name);
}

void rows_print_comment(const Rows *plan, Text *text)
{
    const Node *n = plan->node;
    const Place *at = users_place(n->at);
    Text what = {0};
    if (n->path && *n->path)
        text_add(&what, "%s, ", n->path);
    if (at && at->source)
        text_add(&what, "%s:%d: ", at->source->file, at->line);
    if (op_is_running(n->op))
        text_add(&what, "%s%s along axis %lld of %s ->", running_plural(n->op), plan->table.backwards ? " from the end" : "",
                 (long long)n->ints[0], tensor_text(plan->operand));
    else
        text_add(&what, "the %lld largest along axis %lld of %s ->", (long long)n->ints[1], (long long)n->ints[0],
                 tensor_text(plan->operand));
    for (int i = 0; i < plan->results; i++)
        text_add(&what, "%s %s", i ? "," : "", tensor_text(plan->result[i]));
    text_add(text, "%s\n", c_comment("%s", text_take(&what)));
}

void rows_print(const Rows *plan, const char *kernel_name, Text *text)
{
    rows_print_comment(plan, text);
    print_body(plan, kernel_name, text);
}

const mgpu_rows *rows_table(const Rows *plan) { return &plan->table; }

Op rows_operation(const Rows *plan) { return plan->node->op; }

int64_t rows_samples(const Rows *plan)
{
    return plan->samples && plan->node->graph->model->batch > 0 ? plan->node->graph->model->batch : 1;
}

/* ---- identity */

static void add_axis(Sha256 *sha, const mgpu_row_axis *a) { IDENTITY_ADD(sha, a->extent, a->operand, a->result); }

void rows_identity(const Rows *plan, Sha256 *sha)
{
    const mgpu_rows *t = &plan->table;
    IDENTITY_ADD(sha, plan->node->op, t->type, t->half, t->backwards, t->k, t->axes, t->rows, t->operand_sample, t->result_sample,
                 t->by_row, t->operand, t->values, t->places, t->workspace);
    add_axis(sha, &t->along);
    for (int i = 0; i < t->axes; i++)
        add_axis(sha, &t->axis[i]);
}
