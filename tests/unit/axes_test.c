/* axes_test: what each operation says of its axes (compiler/ir/axes.h): the rule as text, and against the interpreter: an
 * operation on equal parts of its operands gives the parts of its result, or what adds up to it. An operation without a case
 * fails. */
#include "compiler/ir/axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 6, SAMPLES = 6 };

typedef struct Case {
    Op op;
    const char *rule; /* an axis is a letter, a number behind it its unit, "." is needed whole; "N" in front: of each sample; "+":
                         added once */
    int inputs;
    Shape shape[MOST];
    int int_count;
    int64_t ints[20];
    const char *text;
    int index;   /* bits: inputs of whole numbers, 0 and 1 */
    int sharded; /* bits: inputs with a value for each sample */
    bool over;   /* it sums over the samples */
} Case;

#define S(...)                                                                                                                   \
    {                                                                                                                            \
        .rank = COUNT(((int64_t[]){__VA_ARGS__})), .extent = { __VA_ARGS__ }                                                     \
    }
#define INTS(...) .int_count = COUNT(((int64_t[]){__VA_ARGS__})), .ints = {__VA_ARGS__}
#define HALF 0x3fe0000000000000 /* 0.5 as a double: attention's scale */

static const Case CASES[] = {
    {OP_CAST, "ab -> ab", 1, {S(6, 4)}, INTS(F32)},
    {OP_ADD, "Nab,ab -> Nab", 2, .shape = {S(6, 4), S(6, 4)}, .sharded = 1},
    {OP_SUM, "abc -> ac", 1, {S(6, 4, 2)}, INTS(1)},
    {OP_SUM, "Nab -> b", 1, {S(6, 4)}, INTS(0), .sharded = 1, .over = true},
    {OP_MAX, "a. -> a", 1, {S(6, 4)}, INTS(1)},
    {OP_ARGMAX, "a.b -> ab", 1, {S(6, 4, 2)}, INTS(1)},
    {OP_CUMSUM, "a.b -> a.b", 1, {S(6, 4, 2)}, INTS(1, 0)},
    {OP_MOMENTS, "a., -> a.", 2, {S(6, 4), {0}}, INTS(1), .sharded = 3, .over = true},
    {OP_EINSUM, "ab,bc -> ac", 2, .shape = {S(6, 4), S(4, 9)}, .text = "ab,bc->ac"},
    {OP_EINSUM, "Na,abc -> Ncb", 2, .shape = {S(6), S(6, 2, 4)}, .text = "i,ijk->kj", .sharded = 1},
    {OP_EINSUM, "Na,Nb -> ba", 2, .shape = {S(6), S(4)}, .text = "i,o->oi", .sharded = 3, .over = true},
    {OP_CONVOLVE, "..a,ba.. -> ..b", 2, {S(7, 5, 4), S(6, 4, 3, 3)}, INTS(2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)},
    {OP_CONVOLVE, "Nabc,dc.. -> Nabd", 2, {S(6, 4, 4), S(6, 4, 1, 1)}, INTS(2, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1), .sharded = 1},
    {OP_CONVOLVE, ".a2,a3.. -> .a3", 2, {S(8, 8), S(12, 2, 3)}, INTS(1, 1, 0, 0, 1, 1, 4)},
    {OP_CONVOLVE,
     "...a,ba... -> ...b",
     2,
     {S(6, 6, 6, 4), S(6, 4, 1, 1, 1)},
     INTS(3, 1, 2, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 1)},
    {OP_CONVOLVE_WEIGHT, "..a,..b -> ba..", 2, {S(7, 5, 4), S(5, 3, 6)}, INTS(2, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 3, 3)},
    {OP_CONVOLVE_WEIGHT, "Nab,Nac -> cb.", 2, {S(6, 4), S(6, 2)}, INTS(1, 1, 0, 0, 1, 1, 1, 1), .sharded = 3, .over = true},
    {OP_CONVOLVE_WEIGHT, ".a2,.a3 -> a3..", 2, {S(8, 8), S(6, 12)}, INTS(1, 1, 0, 0, 1, 1, 4, 3)},
    {OP_ATTENTION, ".a2.,.a.,.a. -> .a2.", 3, {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5)}, INTS(1, 0, HALF, 0)},
    {OP_ATTENTION, "Nab2.,N.b.,N.b. -> Nab2.", 3, {S(6, 4, 3), S(6, 2, 3), S(6, 2, 5)}, INTS(0, 0, HALF, 0), .sharded = 7},
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
    {OP_RESHAPE, "ab64 -> ab.", 1, {S(6, 768)}, INTS(6, 12, 64)},
    {OP_RESHAPE, "abcd -> a.bcd", 1, {S(6, 4, 9, 5)}, INTS(6, 1, 4, 9, 5)},
    {OP_RESHAPE, "Na.. -> Na20", 1, {S(6, 4, 5)}, INTS(120), .sharded = 1},
    {OP_RESHAPE, "a..b -> a..b", 1, {S(6, 4, 6, 2)}, INTS(6, 6, 4, 2)},
    {OP_TRANSPOSE, "abc -> cab", 1, {S(6, 4, 2)}, INTS(2, 0, 1)},
    {OP_SLICE, "a.b. -> a.b.", 1, {S(6, 4, 2, 5)}, INTS(0, 1, 0, 4, 6, 3, 2, 5, 1, 1, 1, -1)},
    {OP_UNSLICE, "a.b -> a.b", 1, {S(6, 4, 2)}, INTS(0, 1, 0, 1, 2, 1, 6, 9, 2)},
    {OP_CONCAT, "a.b,a.b -> a.b", 2, {S(6, 4, 2), S(6, 3, 2)}, INTS(1)},
    {OP_PAD, "a. -> a.", 1, {S(6, 4)}, INTS(0, 1, 0, 2)},
    {OP_BROADCAST, "ab -> cab", 1, {S(4, 2)}, INTS(6, 4, 2)},
    {OP_BROADCAST, ".a -> bca", 1, {S(1, 2)}, INTS(6, 4, 2)},
    {OP_GATHER, "a.b,cd -> acdb", 2, {S(6, 5, 4), S(2, 3)}, INTS(1), .index = 2},
    {OP_GATHER, ".a,Nb -> Nba", 2, {S(5, 4), S(6)}, INTS(0), .index = 2, .sharded = 2},
    {OP_SCATTER_ADD, "+a.b,cd,acdb -> a.b", 3, {S(6, 5, 4), S(2, 3), S(6, 2, 3, 4)}, INTS(1), .index = 2},
    {OP_SCATTER_ADD, "+.a,Nb,Nba -> .a", 3, {S(5, 4), S(6), S(6, 4)}, INTS(0), .index = 2, .sharded = 6, .over = true},
    {OP_TOP_K, "a.b -> a.b", 1, {S(6, 5, 4)}, INTS(1, 2, 0)},
    {OP_GROUP_SUM, "ab -> ab", 1, {S(6, 4)}, INTS(0), .sharded = 1},
    {OP_STOP_GRADIENT, "Nab -> Nab", 1, .shape = {S(6, 4)}, .sharded = 1},
    {OP_OWN, "ab -> ab", 1, .shape = {S(6, 4)}},
};

/* ---- the rule as text */

/* letters in the order in which factors come */
static void add_value(Text *t, const AxisFactors *value, int rank, char *letter, char *next)
{
    text_add(t, "%s", value->factor[SAMPLES_AXIS] ? "N" : "");
    for (int i = 0; i < rank; i++) {
        char *own = &letter[value->factor[i]];
        if (value->factor[i] && !*own)
            *own = (*next)++;
        text_add(t, "%c%s", value->factor[i] ? *own : '.', value->unit[i] > 1 ? format("%lld", (long long)value->unit[i]) : "");
    }
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
    bool sharded;
    int64_t samples;
    double *data;
} Array;

static int64_t count_of(const Array *a) { return shape_count(&a->shape) * (a->sharded ? a->samples : 1); }

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
        operand[k] = in[k].sharded ? graph_input(g, k) : graph_variable(g, k);
        samples = in[k].sharded ? in[k].samples : samples;
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
    return (Array){n->shape, n->sharded, samples, once.values[n->id]};
}

/* part p of `parts` along an axis, of a copy; add: adds it to where it is in *to instead */
static Array part_of(const Array *a, int axis, int64_t p, int64_t parts, const Array *to)
{
    Array part = *a;
    bool samples = axis == SAMPLES_AXIS;
    const Array *whole = to ? to : a;
    int64_t extent = !samples ? whole->shape.extent[axis] : whole->sharded ? whole->samples : 1;
    int64_t own = extent / parts, outer = 1, inner = 1;
    for (int i = 0; i < whole->shape.rank; i++)
        if (samples || i > axis)
            inner *= whole->shape.extent[i];
        else if (i < axis)
            outer *= whole->shape.extent[i];
    outer *= !samples && whole->sharded ? whole->samples : 1;
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

static int axis_with(const AxisFactors *value, int factor)
{
    for (int i = 0; i <= MAX_RANK; i++)
        if (value->factor[i] == factor)
            return i;
    return -1;
}

/* the parts of the result, together, less the result */
static double difference(const Case *c, const Array *in, const Array *whole, const Node *n, const Factors *f, int factor,
                         int64_t parts)
{
    Array all = *whole;
    all.data = NEW_ARRAY(double, count_of(whole) + 1);
    for (int64_t p = 0; p < parts; p++) {
        Array own[MOST];
        int64_t ints[COUNT(c->ints)];
        for (int k = 0; k < c->inputs; k++) {
            own[k] = in[k];
            for (int i = 0; i <= MAX_RANK; i++)
                if (f->operand[k].factor[i] == factor)
                    own[k] = part_of(&own[k], i, p, parts, NULL);
            if (f->summed[factor] && f->added == k && p)
                own[k].data = NEW_ARRAY(double, count_of(&own[k]) + 1);
        }
        axes_part_ints(n, f, factor, parts, ints);
        Node *node;
        Array part = result_of(c, ints, own, &node);
        int axis = axis_with(&f->result, factor);
        if (f->summed[factor])
            part_of(&part, SAMPLES_AXIS, 0, 1, &all);
        else
            part_of(&part, axis, p, parts, &all);
    }
    double worst = 0;
    for (int64_t i = 0; i < count_of(whole); i++)
        worst = fmax(worst, fabs(all.data[i] - whole->data[i]) / fmax(1, fabs(whole->data[i])));
    return worst;
}

/* The operation with one more axis, the first, gives each of its results: what axes_more_ints() says. */
static bool has_more(const Case *c, int rank)
{
    enum { MORE = 3 };
    bool other = c->op == OP_EINSUM || c->op == OP_CONVOLVE || c->op == OP_CONVOLVE_WEIGHT || c->op == OP_MOMENTS ||
                 c->op == OP_GATHER || c->op == OP_SCATTER_ADD || c->op == OP_ATTENTION || c->op == OP_ATTENTION_GRADIENT ||
                 c->op == OP_REDUCE_MOMENTS || c->sharded;
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
        in[k] = (Array){c->shape[k], c->sharded >> k & 1, SAMPLES, NULL};
        in[k].data = NEW_ARRAY(double, count_of(&in[k]) + 1);
        for (int64_t i = 0; i < count_of(&in[k]); i++)
            in[k].data[i] = random_number(type_of(c, k) != F64);
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
    for (int factor = 1; factor <= f.count; factor++)
        for (int64_t parts = 2; parts <= 3; parts++) {
            if ((f.extent[factor] ? f.extent[factor] : SAMPLES) % parts)
                continue;
            double off = difference(c, in, &whole, n, &f, factor, parts);
            ways++;
            if (!(off < 1e-12)) {
                printf("not ok axes: %s: %s, factor %d in %lld parts: off by %g\n", OP_INFO[c->op].name, text, factor,
                       (long long)parts, off);
                right = false;
            }
        }
    if (right)
        printf("ok axes: %s: %s, cut in %d ways\n", OP_INFO[c->op].name, text, ways);
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
        bool transfer = op_is_transfer((Op)op) || op == OP_TOTAL, other = info->op_class == LEAF || info->op_class == REGION;
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
