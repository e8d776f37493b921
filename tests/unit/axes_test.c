/* axes_test: what each operation says of its axes (compiler/ir/axes.h): the rule as text, and, by the placements that follow from
 * it (compiler/ir/placement.h), against the interpreter: each of some devices has its range of sharded operands, its term of
 * partial ones, and all of the others. What they compute, joined as the placement of the result says, is the result. An axis that
 * the rule does not have must not be sharded. An operation without a case fails. */
#include "compiler/ir/axes.h"
#include "compiler/ir/placement.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 6, SAMPLES = 6 };

typedef struct Case {
    Op op;
    const char
        *rule; /* an axis is a letter, a number behind it its unit, "." is needed whole; "N" in front: of each sample, "N3" in
                         groups of 3; "+": added once; an "E" behind: all elements together */
    int inputs;
    Shape shape[MOST];
    int int_count;
    int64_t ints[20];
    const char *text;
    int index;       /* bits: inputs of whole numbers, 0 and 1 */
    int has_samples; /* bits: inputs with a value for each sample */
    bool over;       /* it sums over the samples */
    int zero;        /* bits: inputs that are 0 */
} Case;

#define S(...)                                                                                                                   \
    {                                                                                                                            \
        .rank = COUNT(((int64_t[]){__VA_ARGS__})), .extent = { __VA_ARGS__ }                                                     \
    }
#define INTS(...) .int_count = COUNT(((int64_t[]){__VA_ARGS__})), .ints = {__VA_ARGS__}
#define HALF 0x3fe0000000000000 /* 0.5 as a double: attention's scale */

static const Case CASES[] = {
    {OP_CAST, "abE -> abE", 1, {S(6, 4)}, INTS(F32)},
    {OP_ADD, "NabE,abE -> NabE", 2, .shape = {S(6, 4), S(6, 4)}, .has_samples = 1},
    {OP_SUM, "abc -> ac", 1, {S(6, 4, 2)}, INTS(1)},
    {OP_SUM, "Nab -> b", 1, {S(6, 4)}, INTS(0), .has_samples = 1, .over = true},
    {OP_SUM, "NabE -> N", 1, {S(6, 4)}, INTS(0, 1), .has_samples = 1},
    {OP_MAX, "a. -> a", 1, {S(6, 4)}, INTS(1)},
    {OP_ARGMAX, "a.b -> ab", 1, {S(6, 4, 2)}, INTS(1)},
    {OP_CUMSUM, "a.b -> a.b", 1, {S(6, 4, 2)}, INTS(1, 0)},
    {OP_MOMENTS, "Na.,N -> a.", 2, {S(6, 4), {0}}, INTS(1), .has_samples = 3, .over = true},
    {OP_EINSUM, "ab,bc -> ac", 2, .shape = {S(6, 4), S(4, 9)}, .text = "ab,bc->ac"},
    {OP_EINSUM, "Na,abc -> Ncb", 2, .shape = {S(6), S(6, 2, 4)}, .text = "i,ijk->kj", .has_samples = 1},
    {OP_EINSUM, "Na,Nb -> ba", 2, .shape = {S(6), S(4)}, .text = "i,o->oi", .has_samples = 3, .over = true},
    {OP_CONVOLVE, "..a,ba.. -> ..b", 2, {S(7, 5, 4), S(6, 4, 3, 3)}, INTS(2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)},
    {OP_CONVOLVE,
     "Nabc,dc.. -> Nabd",
     2,
     {S(6, 4, 4), S(6, 4, 1, 1)},
     INTS(2, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1),
     .has_samples = 1},
    {OP_CONVOLVE, ".a2,a3.. -> .a3", 2, {S(8, 8), S(12, 2, 3)}, INTS(1, 1, 0, 0, 1, 1, 4)},
    {OP_CONVOLVE,
     "...a,ba... -> ...b",
     2,
     {S(6, 6, 6, 4), S(6, 4, 1, 1, 1)},
     INTS(3, 1, 2, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 1)},
    {OP_CONVOLVE_WEIGHT, "..a,..b -> ba..", 2, {S(7, 5, 4), S(5, 3, 6)}, INTS(2, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 3, 3)},
    {OP_CONVOLVE_WEIGHT, "Nab,Nac -> cb.", 2, {S(6, 4), S(6, 2)}, INTS(1, 1, 0, 0, 1, 1, 1, 1), .has_samples = 3, .over = true},
    {OP_CONVOLVE_WEIGHT, ".a2,.a3 -> a3..", 2, {S(8, 8), S(6, 12)}, INTS(1, 1, 0, 0, 1, 1, 4, 3)},
    {OP_ATTENTION, ".a2.,.a.,.a. -> .a2.", 3, {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5)}, INTS(1, 0, HALF, 0)},
    {OP_ATTENTION, "Nab2.,N.b.,N.b. -> Nab2.", 3, {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5)}, INTS(0, 0, HALF, 0), .has_samples = 7},
    {OP_ATTENTION, "ab2.,.b.,.b. -> b2a.", 3, {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5)}, INTS(0, 0, HALF, 1)},
    {OP_ATTENTION_GRADIENT,
     "ab2.,.b.,.b.,ab2.,ab2.,b2a. -> ab2.",
     6,
     {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5), S(6, 4, 5), S(6, 4, 5), S(4, 6, 2)},
     INTS(0, 0, HALF, 0)},
    {OP_ATTENTION_GRADIENT,
     "ab2.,.b.,.b.,ab2.,ab2.,b2a. -> .b.",
     6,
     {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5), S(6, 4, 5), S(6, 4, 5), S(4, 6, 2)},
     INTS(0, 0, HALF, 1)},
    {OP_ATTENTION_GRADIENT,
     ".a2.,.a.,.a.,.a2.,.a2.,a2.. -> .a.",
     6,
     {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5), S(6, 4, 5), S(6, 4, 5), S(4, 6, 2)},
     INTS(1, 0, HALF, 2)},
    {OP_ATTENTION_GRADIENT,
     ".a.,.a.,.a.,.a.,.a.,a.. -> ..a.",
     6,
     {S(6, 4, 3), S(6, 4, 3), S(6, 4, 3), S(6, 4, 3), S(6, 4, 3), S(4, 6, 2)},
     INTS(0, 0, HALF, 3)},
    {OP_WINDOW_MAX, "a.b -> a.b", 1, {S(6, 7, 4)}, INTS(1, 3, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0)},
    {OP_WINDOW_SUM, "a.b -> a.b", 1, {S(6, 7, 4)}, INTS(1, 3, 1, 1, 2, 1, 0, 1, 0, 0, 1, 0)},
    {OP_WINDOW_SUM,
     "... -> ...",
     1,
     {S(6, 6, 6)},
     INTS(1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 1, 0)}, /* one element, but after padding, before it, every other */
    {OP_WINDOW_ARGMAX, "a.b -> a.b", 1, {S(6, 7, 4)}, INTS(1, 3, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0)},
    {OP_WINDOW_MAX_GRADIENT,
     "a.b,a.b -> a.b",
     2,
     {S(6, 3, 4), S(6, 3, 4)},
     INTS(1, 3, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 6, 7, 4),
     .index = 1},
    {OP_WINDOW_SUM_GRADIENT, "a.b -> a.b", 1, {S(6, 3, 4)}, INTS(1, 3, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 6, 7, 4)},
    {OP_RESHAPE, "ab64E -> ab.E", 1, {S(6, 768)}, INTS(6, 12, 64)},
    {OP_RESHAPE, "abcdE -> a.bcdE", 1, {S(6, 4, 9, 5)}, INTS(6, 1, 4, 9, 5)},
    {OP_RESHAPE, "Na..E -> Na20E", 1, {S(6, 4, 5)}, INTS(120), .has_samples = 1},
    {OP_RESHAPE, "a..bE -> a..bE", 1, {S(6, 4, 6, 2)}, INTS(6, 6, 4, 2)},
    {OP_TRANSPOSE, "abc -> cab", 1, {S(6, 4, 2)}, INTS(2, 0, 1)},
    {OP_SLICE, "a.b. -> a.b.", 1, {S(6, 4, 2, 5)}, INTS(0, 1, 0, 4, 6, 3, 2, 5, 1, 1, 1, -1)},
    {OP_UNSLICE, "a.b -> a.b", 1, {S(6, 4, 2)}, INTS(0, 1, 0, 1, 2, 1, 6, 9, 2)},
    {OP_CONCAT, "a.b,a.b -> a.b", 2, {S(6, 4, 2), S(6, 3, 2)}, INTS(1)},
    {OP_PAD, "a. -> a.", 1, {S(6, 4)}, INTS(0, 1, 0, 2)},
    {OP_BROADCAST, "ab -> cab", 1, {S(4, 2)}, INTS(6, 4, 2)},
    {OP_BROADCAST, ".a -> bca", 1, {S(1, 2)}, INTS(6, 4, 2)},
    {OP_GATHER, "a.b,cd -> acdb", 2, {S(6, 5, 4), S(2, 3)}, INTS(1), .index = 2},
    {OP_GATHER, ".a,Nb -> Nba", 2, {S(5, 4), S(6)}, INTS(0), .index = 2, .has_samples = 2},
    {OP_SCATTER_ADD, "+a.b,cd,acdb -> a.b", 3, {S(6, 5, 4), S(2, 3), S(6, 2, 3, 4)}, INTS(1), .index = 2},
    {OP_SCATTER_ADD, "+.a,Nb,Nba -> .a", 3, {S(5, 4), S(6), S(6, 4)}, INTS(0), .index = 2, .has_samples = 6, .over = true},
    {OP_SCATTER_ADD,
     "+.a,Nb,Nba -> .a",
     3,
     {S(5, 4), S(6), S(6, 4)},
     INTS(0),
     .index = 2,
     .has_samples = 6,
     .over = true,
     .zero = 1},
    {OP_INDEX_COPY, "a.b,.,a.b -> a.b", 3, {S(6, 5, 4), S(1), S(6, 1, 4)}, INTS(1), .index = 2},
    {OP_INDEX_COPY, "N.a,N,Na -> N.a", 3, {S(5, 4), {0}, S(4)}, INTS(0), .index = 2, .has_samples = 7},
    {OP_TOP_K, "a.b -> a.b", 1, {S(6, 5, 4)}, INTS(1, 2, 0)},
    {OP_GROUP_SUM, "N3ab -> N3ab", 1, {S(6, 4)}, INTS(3), .has_samples = 1},
    {OP_GROUP_SUM, "N0ab -> N0ab", 1, {S(6, 4)}, INTS(0), .has_samples = 1},
    {OP_GROUP_SUM, "ab -> N3ab", 1, {S(6, 4)}, INTS(3)},
    {OP_STOP_GRADIENT, "NabE -> NabE", 1, .shape = {S(6, 4)}, .has_samples = 1},
    {OP_OWN, "abE -> abE", 1, .shape = {S(6, 4)}},
};

/* ---- the rule as text */

/* letters in the order in which factors come */
static void add_value(Text *t, const AxisFactors *value, int rank, char *letter, char *next)
{
    if (value->factor[SAMPLES_AXIS])
        text_add(t, "N%s", value->unit[SAMPLES_AXIS] == 1 ? "" : format("%lld", (long long)value->unit[SAMPLES_AXIS]));
    for (int i = 0; i < rank; i++) {
        char *own = &letter[value->factor[i]];
        if (value->factor[i] && !*own)
            *own = (*next)++;
        text_add(t, "%c%s", value->factor[i] ? *own : '.', value->unit[i] > 1 ? format("%lld", (long long)value->unit[i]) : "");
    }
    text_add(t, "%s", value->factor[ELEMENTS_AXIS] ? "E" : "");
}

static const char *rule_text(const Node *n, const Factors *f)
{
    Text t = {0};
    char letter[MOST_FACTORS + 1] = {0}, next = 'a';
    text_add(&t, "%s", f->added >= 0 ? "+" : "");
    for (int k = 0; k < n->inputs; k++) {
        text_add(&t, "%s", k ? "," : "");
        add_value(&t, &f->operand[k], n->in[k]->shape.rank, letter, &next);
    }
    text_add(&t, " -> ");
    add_value(&t, &f->result, n->shape.rank, letter, &next);
    return text_of(&t);
}

/* ---- operations on given numbers */

typedef struct Array {
    Shape shape;
    bool has_samples;
    int64_t samples;
    double *data;
} Array;

static int64_t count_of(const Array *a) { return shape_count(&a->shape) * (a->has_samples ? a->samples : 1); }

static const Array *given; /* the operands of the operation that is interpreted */

static bool give_leaf(void *context, const Node *n, double *out, int64_t count)
{
    (void)context;
    if (n->op != OP_VARIABLE && n->op != OP_INPUT)
        return false;
    memcpy(out, given[n->ints[0]].data, (size_t)count * sizeof *out);
    return true;
}

static Dtype type_of(const Case *c, int input)
{
    bool bits = c->op == OP_QUOTIENT || (c->op >= OP_BIT_AND && c->op <= OP_SHIFT_RIGHT),
         logic = c->op == OP_AND || c->op == OP_OR || c->op == OP_NOT;
    bool condition = (c->op == OP_WHERE && input == 0) || (c->op == OP_MOMENTS && input == 1);
    return logic || condition ? BOOL : bits || c->index >> input & 1 ? I32 : F64;
}

/* the operation on these operands; its node in *node */
static Array result_of(const Case *c, const int64_t *ints, const Array *in, Node **node)
{
    Variable variables[MOST] = {{0}};
    Input inputs[MOST] = {{0}};
    static Model model; /* of the nodes, which outlive this */
    model = (Model){
        .variables = variables, .variable_count = c->inputs, .inputs = inputs, .input_count = c->inputs, .precision = F64};
    Graph *g = graph_new(&model, "train", NULL);
    Node *operand[MOST];
    static const double ZERO;
    int64_t samples = 1;
    for (int k = 0; k < c->inputs; k++) {
        variables[k] = (Variable){.name = format("v%d", k), .dtype = type_of(c, k), .shape = in[k].shape};
        inputs[k] = (Input){.name = format("i%d", k), .dtype = type_of(c, k), .shape = in[k].shape};
        operand[k] = c->zero >> k & 1    ? graph_fill(g, 0, in[k].shape, type_of(c, k))
                     : in[k].has_samples ? graph_input(g, k)
                                         : graph_variable(g, k);
        samples = in[k].has_samples ? in[k].samples : samples;
    }
    Node like = {.op = c->op,
                 .in = operand,
                 .inputs = c->inputs,
                 .ints = (int64_t *)(uintptr_t)ints,
                 .int_count = c->int_count,
                 .text = c->text,
                 .data = c->op == OP_PAD ? (double *)(uintptr_t)&ZERO : NULL,
                 .data_count = c->op == OP_PAD};
    Node *n = graph_make(g, &like, c->over);
    given = in;
    Interpretation once = {.samples = samples, .exact = true, .leaf = give_leaf};
    interpret(g, &once);
    *node = n;
    return (Array){n->shape, n->has_samples, samples, once.values[n->id]};
}

/* part p of `parts` along an axis, of a copy; add: adds it to where it is in *to instead */
static Array part_of(const Array *a, int axis, int64_t p, int64_t parts, const Array *to)
{
    Array part = *a;
    bool samples = axis == SAMPLES_AXIS;
    const Array *whole = to ? to : a;
    int64_t extent = !samples ? whole->shape.extent[axis] : whole->has_samples ? whole->samples : 1;
    int64_t own = extent / parts, outer = 1, inner = 1;
    for (int i = 0; i < whole->shape.rank; i++)
        if (samples || i > axis)
            inner *= whole->shape.extent[i];
        else if (i < axis)
            outer *= whole->shape.extent[i];
    outer *= !samples && whole->has_samples ? whole->samples : 1;
    if (!to) {
        *(samples ? &part.samples : &part.shape.extent[axis]) = own;
        part.data = NEW_ARRAY(double, count_of(&part) + 1);
    }
    for (int64_t i = 0; i < outer; i++)
        for (int64_t k = 0; k < own * inner; k++)
            if (to)
                to->data[(i * extent + p * own) * inner + k] += a->data[i * own * inner + k];
            else
                part.data[i * own * inner + k] = a->data[(i * extent + p * own) * inner + k];
    return part;
}

static uint64_t random_state = 1;
static double random_number(bool whole)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return whole ? (double)(random_state >> 40 & 1) : 0.25 + (double)(random_state >> 11) * 0x1p-53;
}

/* ---- operations on devices */

typedef struct Devices { /* how the operands are placed on them, and what the rule says of that */
    int64_t count;
    int factor; /* that is sharded; 0: none */
    AxisPlacement from[MOST], is;
    bool reduce[MOST];
    const char *wrong;
} Devices;

static void ask(Devices *d, const Node *n) { d->is = placement_by_rule(n, MESH_DATA, n->in, d->from, d->reduce, &d->wrong); }

static int axis_with(const AxisFactors *value, int factor)
{
    for (int i = 0; i < VALUE_AXES; i++)
        if (value->factor[i] == factor)
            return i;
    return -1;
}

static Array copy_of_array(const Array *a)
{
    Array copy = *a;
    copy.data = NEW_ARRAY(double, count_of(a) + 1);
    memcpy(copy.data, a->data, (size_t)count_of(a) * sizeof *a->data);
    return copy;
}

static Array flat(Array a)
{
    a.shape = SHAPE(shape_count(&a.shape));
    return a;
}

/* the term of device p of a partial sum */
static Array term_of(const Array *a, int64_t p, int64_t count)
{
    Array term = copy_of_array(a);
    for (int64_t i = 0; i < count_of(a); i++) {
        double each = 0.25 * a->data[i] + 0.1 * (double)(i % 5);
        term.data[i] = p + 1 < count ? each : a->data[i] - each * (double)(count - 1);
    }
    return term;
}

/* what device p has of operand k; elements: the values are flat */
static Array operand_of(const Devices *d, const Factors *f, const Array *in, int k, int64_t p, bool elements)
{
    Array own = d->from[k].kind == PARTIAL && !d->reduce[k] ? term_of(in, p, d->count) : *in;
    for (int i = 0; i < VALUE_AXES && d->factor; i++)
        if (f->operand[k].factor[i] == d->factor)
            own = part_of(&own, elements ? 0 : i, p, d->count, NULL);
    return own;
}

/* Adds moments: numbers of elements, means, sums of squared distances from them. */
static void merge_moments(Array *to, const Array *from)
{
    for (int64_t i = 0; i < count_of(to); i += MOMENTS) {
        double *a = to->data + i, *b = from->data + i, all = a[0] + b[0], apart = b[1] - a[1];
        if (all == 0)
            continue;
        a[2] += b[2] + apart * apart * a[0] * b[0] / all;
        a[1] += apart * b[0] / all;
        a[0] = all;
    }
}

static double difference(const Array *a, const Array *b)
{
    double worst = 0;
    for (int64_t i = 0; i < count_of(b); i++)
        worst = fmax(worst, fabs(a->data[i] - b->data[i]) / fmax(1, fabs(b->data[i])));
    return worst;
}

/* what the devices compute, joined, less the result */
static double off_on_devices(const Devices *d, const Case *c, const Array *in, const Array *whole, const Node *n,
                             const Factors *f)
{
    bool elements = d->is.kind == SHARDED && d->is.axis == ELEMENTS_AXIS;
    Case own = *c;
    double worst = 0;
    Array all = *whole;
    for (int k = 0; k < c->inputs; k++)
        elements = elements || (d->from[k].kind == SHARDED && d->from[k].axis == ELEMENTS_AXIS);
    all.data = NEW_ARRAY(double, count_of(whole) + 1);
    for (int64_t p = 0; p < d->count; p++) {
        Array operand[MOST];
        int64_t ints[COUNT(c->ints)];
        for (int k = 0; k < c->inputs; k++) {
            Array value = elements ? flat(in[k]) : in[k];
            operand[k] = operand_of(d, f, &value, k, p, elements);
        }
        axes_part_ints(n, f, d->factor, d->factor ? d->count : 1, ints);
        if (elements && (c->op == OP_RESHAPE || c->op == OP_SUM)) {
            ints[0] = c->op == OP_SUM ? 0 : shape_count(&operand[0].shape);
            own.int_count = 1;
        }
        Node *node;
        Array part = result_of(&own, ints, operand, &node);
        if (d->is.kind == REPLICATED)
            worst = fmax(worst, difference(&part, whole));
        else if (d->is.kind == PARTIAL && c->op == OP_MOMENTS)
            merge_moments(&all, &part);
        else if (d->is.kind == PARTIAL)
            part_of(&part, SAMPLES_AXIS, 0, 1, &all);
        else if (elements) {
            Array flat_all = flat(all);
            part_of(&part, 0, p, d->count, &flat_all);
        } else
            part_of(&part, d->is.axis, p, d->count, &all);
    }
    return d->is.kind == REPLICATED ? worst : difference(&all, whole);
}

/* Tries each way in which the operands may be placed on so many devices: those with the factor sharded (0: none), the others
 * replicated or partial. Adds the number of ways to *ways; returns false if one is wrong. */
static bool try_ways(const Case *c, const Array *in, const Array *whole, const Node *n, const Factors *f, int factor,
                     int64_t count, int *ways)
{
    bool right = true;
    for (int partial = 0; partial < 1 << c->inputs; partial++) {
        Devices d = {.count = count, .factor = factor};
        bool possible = partial || factor, any = false;
        for (int k = 0; k < c->inputs; k++) {
            d.from[k] = partial >> k & 1 ? IS_PARTIAL : IS_REPLICATED;
            possible = possible && !(partial >> k & 1 && (type_of(c, k) != F64 || in[k].has_samples));
            int axis = factor ? axis_with(&f->operand[k], factor) : -1;
            if (axis >= 0) {
                possible = possible && !(partial >> k & 1);
                d.from[k] = (AxisPlacement){SHARDED, axis};
                any = true;
            }
            if (in[k].has_samples && !(d.from[k].kind == SHARDED && d.from[k].axis == SAMPLES_AXIS))
                possible = false; /* on this axis of the mesh, samples are sharded */
        }
        bool made = factor && !any; /* each device may compute its range of an axis that no operand has */
        if (!possible || (made && partial) || (n->has_samples && !c->has_samples))
            continue;
        ask(&d, n);
        if (made)
            d.is = (AxisPlacement){SHARDED, axis_with(&f->result, factor)};
        if (d.is.kind == LOCAL) /* each device's is another value */
            continue;
        if (f->summed[factor] && f->added >= 0 && d.from[f->added].kind == REPLICATED &&
            !c->zero) { /* it is added once, after the sum */
            right = right && d.is.kind == REPLICATED;
            continue;
        }
        double off = d.wrong ? INFINITY : off_on_devices(&d, c, in, whole, n, f);
        ++*ways;
        if (!(off < 1e-12)) {
            printf("not ok axes: %s: factor %d, %lld devices, partial operands %x: %s%s, off by %g\n", OP_INFO[c->op].name,
                   factor, (long long)count, (unsigned)partial, placement_word(d.is), d.wrong ? d.wrong : "", off);
            right = false;
        }
    }
    return right;
}

/* Axes without a factor must not be sharded. */
static bool refuses_others(const Case *c, const Array *in, const Node *n, const Factors *f)
{
    bool right = true;
    for (int k = 0; k < c->inputs; k++)
        for (int axis = 0; axis < VALUE_AXES; axis++) {
            bool has = axis == SAMPLES_AXIS ? in[k].has_samples : axis == ELEMENTS_AXIS || axis < in[k].shape.rank;
            Devices d = {.count = 2};
            if (!has || f->operand[k].factor[axis])
                continue;
            for (int i = 0; i < c->inputs; i++)
                d.from[i] = i == k ? (AxisPlacement){SHARDED, axis} : IS_REPLICATED;
            ask(&d, n);
            if (!d.wrong || d.is.kind != UNPLACED) {
                printf("not ok axes: %s: operand %d may be sharded along axis %d\n", OP_INFO[c->op].name, k, axis);
                right = false;
            }
        }
    return right;
}

/* The operation with one more axis, the first, gives each of its results: what axes_more_ints() says. */
static bool has_more(const Case *c, int rank)
{
    enum { MORE = 3 };
    bool other = c->op == OP_EINSUM || c->op == OP_CONVOLVE || c->op == OP_CONVOLVE_WEIGHT || c->op == OP_MOMENTS ||
                 c->op == OP_GATHER || c->op == OP_SCATTER_ADD || c->op == OP_INDEX_COPY || c->op == OP_ATTENTION ||
                 c->op == OP_ATTENTION_GRADIENT || c->op == OP_REDUCE_MOMENTS || c->has_samples;
    Array all[MOST], one[MORE][MOST], y[MORE];
    Node *n;
    for (int k = 0; k < c->inputs && !other; k++) {
        int ones = c->op == OP_BROADCAST ? rank - c->shape[k].rank : 0;
        all[k] = (Array){.shape = {.rank = 1 + ones + c->shape[k].rank, .extent = {MORE, 1, 1, 1}}};
        memcpy(all[k].shape.extent + 1 + ones, c->shape[k].extent, (size_t)c->shape[k].rank * sizeof(int64_t));
        all[k].data = NEW_ARRAY(double, count_of(&all[k]) + 1);
        for (int64_t i = 0; i < count_of(&all[k]); i++)
            all[k].data[i] = random_number(type_of(c, k) != F64);
        for (int t = 0; t < MORE; t++)
            one[t][k] = (Array){c->shape[k], .data = all[k].data + t * count_of(&all[k]) / MORE};
    }
    for (int t = 0; t < MORE && !other; t++)
        y[t] = result_of(c, c->ints, one[t], &n);
    if (other)
        return true;
    int64_t ints[COUNT(c->ints) + MAX_RANK], count = count_of(&y[0]);
    Case more = *c;
    more.int_count = axes_more_ints(n, MORE, ints);
    Array whole = result_of(&more, ints, all, &n);
    bool right = count_of(&whole) == MORE * count && whole.shape.extent[0] == MORE;
    for (int64_t i = 0; i < MORE * count && right; i++)
        right = !(fabs(whole.data[i] - y[i / count].data[i % count]) > 1e-12);
    if (!right)
        printf("not ok axes: %s with one more axis is %s, and not %d of the result\n", OP_INFO[c->op].name,
               shape_text(&whole.shape), MORE);
    return right;
}

static bool run(const Case *c)
{
    Array in[MOST];
    for (int k = 0; k < c->inputs; k++) {
        in[k] = (Array){c->shape[k], c->has_samples >> k & 1, SAMPLES, NULL};
        in[k].data = NEW_ARRAY(double, count_of(&in[k]) + 1);
        for (int64_t i = 0; i < count_of(&in[k]); i++)
            in[k].data[i] = c->zero >> k & 1 ? 0 : random_number(type_of(c, k) != F64);
    }
    Node *n;
    Array whole = result_of(c, c->ints, in, &n);
    Factors f = node_factors(n);
    const char *text = rule_text(n, &f);
    bool right = !c->rule || strcmp(text, c->rule) == 0;
    if (!right)
        printf("not ok axes: %s: the rule is %s, not %s\n", OP_INFO[c->op].name, text, c->rule);
    right = has_more(c, n->shape.rank) && right;
    int ways = 0;
    for (int factor = 0; factor <= f.count; factor++)
        for (int64_t devices = 2; devices <= 3; devices++) {
            bool samples = factor && f.extent[factor] == 0;
            int64_t unit = samples && f.result.factor[SAMPLES_AXIS] ? f.result.unit[SAMPLES_AXIS] : 1;
            if (factor && (unit == 0 || (samples && !c->has_samples) || (samples ? SAMPLES / unit : f.extent[factor]) % devices))
                continue;
            right = try_ways(c, in, &whole, n, &f, factor, devices, &ways) && right;
        }
    right = refuses_others(c, in, n, &f) && right;
    if (right)
        printf("ok axes: %s: %s, on devices in %d ways\n", OP_INFO[c->op].name, text, ways);
    return right;
}

int main(void)
{
    int failed = 0;
    bool tried[OPS] = {false};
    for (int i = 0; i < COUNT(CASES); i++) {
        failed += !run(&CASES[i]);
        tried[CASES[i].op] = true;
    }
    for (int op = 0; op < OPS; op++) {
        const OpInfo *info = &OP_INFO[op];
        bool transfer = op_is_transfer((Op)op) || op == OP_TOTAL || op == OP_GRAD || op == OP_SUBSTITUTE,
             other = info->op_class == LEAF || info->op_class == REGION;
        if (tried[op] || transfer || other)
            continue;
        if (info->op_class == ELEMENTWISE) {
            Case c = {.op = (Op)op, .inputs = info->inputs, .shape = {S(6, 4), S(6, 4), S(6, 4)}};
            failed += !run(&c);
        } else {
            printf("not ok axes: %s has no case\n", info->name);
            failed++;
        }
    }
    return failed > 0;
}
