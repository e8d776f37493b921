/* axes.c: each operation's rule for its axes (ir/axes.h). tests/unit/axes_test.c compares all rules with the interpreter. */
#include "compiler/ir/axes.h"
#include "runtime/abi/mgpu_tables.h"

#include <ctype.h>
#include <string.h>

/* What the attributes of an operation say about its axes, a letter each. A digit or n: a list with a number per axis, which is
 * this digit (n: the axis's extent) for an axis that the operation does not change. r: the number of axes of the lists after it.
 * -: a number. a: an axis. A: axes. t: the axes in their new order. Attributes after these do not concern axes. */
static const char *const ATTRIBUTES[OPS] = {
    [OP_SUM] = "A",
    [OP_MAX] = "A",
    [OP_ARGMAX] = "a",
#define RUNNING_AXIS(NAME, ...) [OP_##NAME] = "a",
    MGPU_RUNNING_TABLE(RUNNING_AXIS)[OP_TOP_K] = "a",
    [OP_CONCAT] = "a",
    [OP_CONVOLVE] = "r10011-",
    [OP_CONVOLVE_WEIGHT] = "r10011-1",
    [OP_WINDOW_MAX] = "1100",
    [OP_WINDOW_SUM] = "1100",
    [OP_WINDOW_ARGMAX] = "1100",
    [OP_WINDOW_MAX_GRADIENT] = "1100n",
    [OP_WINDOW_SUM_GRADIENT] = "1100n",
    [OP_RESHAPE] = "n",
    [OP_TRANSPOSE] = "t",
    [OP_SLICE] = "0n1",
    [OP_UNSLICE] = "01n",
    [OP_PAD] = "00",
    [OP_BROADCAST] = "n",
};

/* ---- how rules are made: factors, and the axes that have them */

static int new_factor(Factors *f, int64_t extent)
{
    if (f->count == MOST_FACTORS)
        die("an operation of more than %d axes", MOST_FACTORS);
    f->extent[++f->count] = extent;
    return f->count;
}

/* Gives the axis the factor. An axis with a larger extent has several elements per element of the factor. */
static void has(const Factors *f, AxisFactors *value, int axis, int factor, int64_t extent)
{
    value->factor[axis] = (uint8_t)factor;
    value->unit[axis] = f->extent[factor] ? extent / f->extent[factor] : 1;
}

static void operand_has(Factors *f, const Node *n, int k, int axis, int factor)
{
    has(f, &f->operand[k], axis, factor, n->in[k]->shape.extent[axis]);
}

static void result_has(Factors *f, const Node *n, int axis, int factor)
{
    has(f, &f->result, axis, factor, n->shape.extent[axis]);
}

/* Gives the axis of operand k the factor of the result's axis. */
static void kept(Factors *f, const Node *n, int k, int from, int to)
{
    if (!f->result.factor[to])
        result_has(f, n, to, new_factor(f, n->shape.extent[to]));
    operand_has(f, n, k, from, f->result.factor[to]);
}

static int summed_factor(Factors *f, int64_t extent)
{
    int factor = new_factor(f, extent);
    f->summed[factor] = true;
    return factor;
}

/* Adds the factor of the samples, which the result has, or which is summed. TOTAL has none; GROUP_SUM and loops may make
 * samples. */
static void add_samples(Factors *f, const Node *n)
{
    bool sums = node_sums_samples(n) && (OP_INFO[n->op].linear != NOT_LINEAR || n->op == OP_MOMENTS);
    if (!n->has_samples && !sums && OP_INFO[n->op].op_class != REGION)
        return;
    int factor = sums ? summed_factor(f, 0) : new_factor(f, 0);
    for (int k = 0; k <= n->inputs; k++) {
        AxisFactors *value = k < n->inputs ? &f->operand[k] : &f->result;
        if (!(k < n->inputs ? n->in[k] : n)->has_samples)
            continue;
        has(f, value, SAMPLES_AXIS, factor, 0);
        value->unit[SAMPLES_AXIS] = n->op == OP_GROUP_SUM ? n->ints[0] : 1;
    }
}

bool node_keeps_elements(const Node *n)
{
    return OP_INFO[n->op].op_class == ELEMENTWISE || n->op == OP_RESHAPE || n->op == OP_STOP_GRADIENT || n->op == OP_OWN;
}

bool node_sums_all(const Node *n) { return n->op == OP_SUM && n->int_count > 0 && n->int_count == n->in[0]->shape.rank; }

static void add_elements(Factors *f, const Node *n)
{
    bool sums = node_sums_all(n);
    if (!sums && !node_keeps_elements(n))
        return;
    int64_t count = shape_count(&n->in[0]->shape);
    int factor = sums ? summed_factor(f, count) : new_factor(f, count);
    for (int k = 0; k < n->inputs; k++)
        has(f, &f->operand[k], ELEMENTS_AXIS, factor, count);
    if (!sums)
        has(f, &f->result, ELEMENTS_AXIS, factor, count);
}

/* ---- the rules */

/* Operands of the result's rank have its axes. */
static void same_axes(Factors *f, const Node *n)
{
    for (int k = 0; k < n->inputs; k++)
        for (int i = 0; i < n->shape.rank && n->in[k]->shape.rank == n->shape.rank; i++)
            kept(f, n, k, i, i);
}

/* The axes ints[0 .. count) are reduced: the result lacks them, or (`stay`) its elements depend on the whole axis. */
static void reduced_axes(Factors *f, const Node *n, int count, bool stay, bool sums)
{
    const Node *x = n->in[0];
    for (int i = 0, to = 0; i < x->shape.rank; i++) {
        bool reduced = false;
        for (int k = 0; k < count; k++)
            reduced = reduced || n->ints[k] == i;
        if (!reduced)
            kept(f, n, 0, i, to);
        else if (sums)
            operand_has(f, n, 0, i, summed_factor(f, x->shape.extent[i]));
        to += !reduced || stay;
    }
}

static void einsum_axes(Factors *f, const Node *n)
{
    int letter[128] = {0};
    const char *out = strstr(n->text, "->") + 2, *p = n->text;
    for (int i = 0; out[i]; i++) {
        letter[(unsigned char)out[i]] = new_factor(f, n->shape.extent[i]);
        result_has(f, n, i, letter[(unsigned char)out[i]]);
    }
    for (int k = 0; k < n->inputs; k++, p++)
        for (int i = 0; *p != ',' && *p != '-'; p++, i++) {
            int *factor = &letter[(unsigned char)*p];
            if (!*factor)
                *factor = summed_factor(f, n->in[k]->shape.extent[i]);
            operand_has(f, n, k, i, *factor);
        }
}

/* Returns true for a window of one element at each element. */
static bool is_plain(int64_t size, int64_t stride, int64_t low, int64_t high)
{
    return size == 1 && stride == 1 && low == 0 && high == 0;
}

/* CONVOLVE and CONVOLVE_WEIGHT: the axes are positions, input channels and output channels of three values, x, the weight and y,
 * one of which is the result. */
static void convolution_axes(Factors *f, const Node *n)
{
    bool weight = n->op == OP_CONVOLVE_WEIGHT;
    const int64_t *v = n->ints;
    int r = (int)v[0];
    int64_t groups = v[1 + 5 * r];
    const Shape *x = &n->in[0]->shape, *w = weight ? &n->shape : &n->in[1]->shape, *y = weight ? &n->in[1]->shape : &n->shape;
    AxisFactors *of_x = &f->operand[0], *of_w = weight ? &f->result : &f->operand[1],
                *of_y = weight ? &f->operand[1] : &f->result;
    for (int i = 0; i < r; i++)
        if (is_plain(w->extent[2 + i], v[1 + i], v[1 + r + i], v[1 + 2 * r + i]) && v[1 + 4 * r + i] == 1) {
            int place = weight ? summed_factor(f, x->extent[i]) : new_factor(f, x->extent[i]);
            has(f, of_x, i, place, x->extent[i]);
            has(f, of_y, i, place, y->extent[i]);
        }
    if (groups > 1) {
        int group = new_factor(f, groups);
        has(f, of_x, r, group, x->extent[r]);
        has(f, of_w, 0, group, w->extent[0]);
        has(f, of_y, r, group, y->extent[r]);
        return;
    }
    int in = weight ? new_factor(f, x->extent[r]) : summed_factor(f, x->extent[r]), out = new_factor(f, w->extent[0]);
    has(f, of_x, r, in, x->extent[r]);
    has(f, of_w, 1, in, w->extent[1]);
    has(f, of_w, 0, out, w->extent[0]);
    has(f, of_y, r, out, y->extent[r]);
}

/* q, y and its gradient [t, h, .]; k and v [s, groups of heads, .]; sums [h, t, 2]; all gradients in one value [t, 3, h, d].
 * Heads are independent, and so are queries, unless a mask depends on their positions. */
static void attention_axes(Factors *f, const Node *n)
{
    const Node *q = n->in[0], *key = n->in[1];
    bool gradient = n->op == OP_ATTENTION_GRADIENT, places = n->ints[0] || n->ints[1] > 0;
    int which = (int)n->ints[3], head = new_factor(f, key->shape.extent[1]);
    for (int k = 0; k < n->inputs; k++)
        operand_has(f, n, k, k == 5 ? 0 : 1, head);
    result_has(f, n, !gradient && which == 1 ? 0 : which == 3 ? 2 : 1, head);
    if (places || (gradient && which == 3))
        return;
    int query = gradient && which ? summed_factor(f, q->shape.extent[0]) : new_factor(f, q->shape.extent[0]);
    for (int k = 0; k < n->inputs; k++)
        if (k == 0 || k > 2)
            operand_has(f, n, k, k == 5 ? 1 : 0, query);
    if (!f->summed[query])
        result_has(f, n, !gradient && which == 1 ? 1 : 0, query);
}

/* Divides the axes of x and y into groups of equally many elements. The first axes of a group have a factor if the extent of one
 * divides that of the other, because parts are then contiguous. */
static void reshaped_axes(Factors *f, const Node *n)
{
    const Shape *x = &n->in[0]->shape, *y = &n->shape;
    if (shape_count(y) == 0)
        return;
    for (int i = 0, j = 0; i < x->rank && j < y->rank;) {
        int64_t a = x->extent[i], b = y->extent[j];
        if (a == 1 || b == 1) { /* an axis of extent 1 has a factor only if it meets another of extent 1 */
            bool both = a == b;
            if (both)
                kept(f, n, 0, i, j);
            i += a == 1;
            j += b == 1;
            continue;
        }
        if (a % b == 0 || b % a == 0) {
            int factor = new_factor(f, a < b ? a : b);
            operand_has(f, n, 0, i, factor);
            result_has(f, n, j, factor);
        }
        for (i++, j++; a != b;)
            if (a < b)
                a *= x->extent[i++];
            else
                b *= y->extent[j++];
    }
}

static void broadcast_axes(Factors *f, const Node *n)
{
    const Shape *x = &n->in[0]->shape;
    for (int i = 0, more = n->shape.rank - x->rank; i < n->shape.rank; i++)
        if (i >= more && x->extent[i - more] == n->shape.extent[i])
            kept(f, n, 0, i - more, i);
        else
            result_has(f, n, i, new_factor(f, n->shape.extent[i]));
}

/* For WINDOW_*, SLICE, PAD, UNSLICE and CONCAT: returns true if the operation does not change this axis. */
static bool stays(const Node *n, int axis)
{
    int r = n->shape.rank;
    if (n->op == OP_CONCAT)
        return axis != n->ints[0];
    bool same = n->in[0]->shape.extent[axis] == n->shape.extent[axis];
    for (int k = 0; ATTRIBUTES[n->op][k] && same; k++)
        same = n->ints[k * r + axis] == (ATTRIBUTES[n->op][k] == 'n' ? n->shape.extent[axis] : ATTRIBUTES[n->op][k] - '0');
    return same;
}

static void moved_axes(Factors *f, const Node *n)
{
    int r = n->shape.rank;
    switch (n->op) {
    case OP_RESHAPE: reshaped_axes(f, n); return;
    case OP_BROADCAST: broadcast_axes(f, n); return;
    case OP_TRANSPOSE:
        for (int i = 0; i < r; i++)
            kept(f, n, 0, (int)n->ints[i], i);
        return;
    default:
        for (int i = 0; i < r; i++)
            for (int k = 0; k < n->inputs && stays(n, i); k++)
                kept(f, n, k, i, i);
    }
}

/* GATHER: table, index -> rows; SCATTER_ADD, INDEX_COPY: table, index, rows -> table. The indexed axis of the table is needed
 * whole, and so is an index that chooses rows to be replaced. */
static void indexed_axes(Factors *f, const Node *n)
{
    bool stores = n->op != OP_GATHER, adds = n->op == OP_SCATTER_ADD;
    const Shape *table = &n->in[0]->shape, *index = &n->in[1]->shape;
    int axis = (int)n->ints[0];
    for (int i = 0; i < table->rank; i++) {
        int row = i < axis ? i : i + index->rank - 1;
        if (i == axis)
            continue;
        kept(f, n, 0, i, stores ? i : row);
        if (stores)
            operand_has(f, n, 2, row, f->result.factor[i]);
    }
    for (int i = 0; i < index->rank && n->op != OP_INDEX_COPY; i++) {
        if (!adds) {
            kept(f, n, 1, i, axis + i);
            continue;
        }
        int factor = summed_factor(f, index->extent[i]);
        operand_has(f, n, 1, i, factor);
        operand_has(f, n, 2, axis + i, factor);
    }
    f->added = adds ? 0 : -1;
}

/* The result has all axes of operand 0, and one of them is needed whole. */
static void axes_but(Factors *f, const Node *n, int axis)
{
    for (int i = 0; i < n->shape.rank; i++)
        if (i != axis)
            kept(f, n, 0, i, i);
}

static void add_axes(Factors *f, const Node *n)
{
    switch (n->op) {
    case OP_SUM: reduced_axes(f, n, n->int_count, false, true); return;
    case OP_MAX:
    case OP_MOMENTS: reduced_axes(f, n, n->int_count, false, false); return;
    case OP_ARGMAX: reduced_axes(f, n, 1, false, false); return;
    case OP_EINSUM: einsum_axes(f, n); return;
    case OP_CONVOLVE:
    case OP_CONVOLVE_WEIGHT: convolution_axes(f, n); return;
    case OP_ATTENTION:
    case OP_ATTENTION_GRADIENT: attention_axes(f, n); return;
    case OP_GATHER:
    case OP_SCATTER_ADD:
    case OP_INDEX_COPY: indexed_axes(f, n); return;
    case OP_TOP_K: axes_but(f, n, (int)n->ints[0]); return;
    case OP_REDUCE_MOMENTS: axes_but(f, n, n->shape.rank - 1); return;
    case OP_REDUCE_BITS: return; /* its axes are segments of a flat range */
    default: break;
    }
    switch (OP_INFO[n->op].op_class) {
    case ELEMENTWISE:
    case MARK: same_axes(f, n); return;
    case RUNNING: reduced_axes(f, n, 1, true, false); return;
    case WINDOW:
    case VIEW: moved_axes(f, n); return;
    default: return; /* leaves are not computed from operands; of a region only the samples are known */
    }
}

Factors node_factors(const Node *n)
{
    Factors f = {.added = -1, .operand = NEW_ARRAY(AxisFactors, n->inputs + 1)};
    add_axes(&f, n);
    add_samples(&f, n);
    add_elements(&f, n);
    return f;
}

int axis_of_operand(const Node *n, int k, int axis)
{
    Factors f = node_factors(n);
    int factor = f.result.factor[axis];
    for (int i = 0; i < VALUE_AXES && factor; i++)
        if (f.operand[k].factor[i] == factor && f.operand[k].unit[i] == 1 && f.result.unit[axis] == 1)
            return i;
    return -1;
}

/* ---- attributes of a part */

void axes_part_ints(const Node *n, const Factors *f, int factor, int64_t parts, int64_t *ints)
{
    int r = n->shape.rank;
    if (n->int_count)
        memcpy(ints, n->ints, (size_t)n->int_count * sizeof *ints);
    if (n->op == OP_CONVOLVE || n->op == OP_CONVOLVE_WEIGHT) {
        bool grouped = ints[1 + 5 * ints[0]] > 1 && f->operand[0].factor[ints[0]] == factor;
        ints[1 + 5 * ints[0]] /= grouped ? parts : 1;
        return;
    }
    const char *list = ATTRIBUTES[n->op] ? strchr(ATTRIBUTES[n->op], 'n') : NULL;
    for (int i = 0; i < r && list && f->extent[factor]; i++)
        if (f->result.factor[i] == factor)
            ints[(list - ATTRIBUTES[n->op]) * r + i] /= parts;
}

int axes_more_ints(const Node *n, int64_t extent, int64_t *ints)
{
    int count = 0, from = 0, rank = n->shape.rank, all = n->int_count;
    for (const char *l = ATTRIBUTES[n->op]; l && *l; l++) {
        int list = isdigit((unsigned char)*l) || *l == 'n' ? rank
                   : *l == 'A' || *l == 't'                ? all
                                                           : 1,
            more = strchr("raAt", *l) ? 1 : 0;
        if (*l == 'r')
            rank = (int)n->ints[from];
        if (*l == 't' || *l == 'n' || isdigit((unsigned char)*l))
            ints[count++] = *l == 't' ? 0 : *l == 'n' ? extent : *l - '0';
        for (int i = 0; i < list; i++)
            ints[count++] = n->ints[from++] + more;
    }
    while (from < all)
        ints[count++] = n->ints[from++];
    return count;
}

void axes_keep(const Node *n, int axis, int64_t extent, int64_t *ints)
{
    const char *list = ATTRIBUTES[n->op];
    for (int k = 0; list[k]; k++)
        ints[k * n->shape.rank + axis] = list[k] == 'n' ? extent : list[k] - '0';
}
