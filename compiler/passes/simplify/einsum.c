/* einsum.c: every EINSUM becomes a form that the emitters of contractions know: two operands that share at least one summed axis
 * (the samples count as one), each with axes of its own or shared ones.
 *
 *   1  transposed operands are read without the transpose; along a broadcast axis that another operand has too, before it
 *   2  letters that only one operand has and the result lacks are summed first, over the samples too if only it has them
 *   3  operands without letters are factors
 *   4  one operand: a sum and a transpose; more than two: pairs, in the order of the fewest multiplications
 *   5  nothing summed, or no operand with letters of its own: element-wise products, then sums */
#include "compiler/passes/simplify/rules.h"

enum { MANY = 8 }; /* of more operands, the two at the left are contracted until so many are left */

typedef struct EinsumOperand {
    Node *node;
    char letters[MAX_RANK + 1];
} EinsumOperand;

typedef struct Einsum {
    EinsumOperand *operand;
    int count;
    char result[MAX_RANK + 1];
    int64_t extent[128]; /* by letter */
    bool over;           /* sums over the samples */
    Dtype dtype;
} Einsum;

static bool has(const char *letters, char c) { return strchr(letters, c) != NULL; }

static bool has_twice(const char *letters)
{
    for (; *letters; letters++)
        if (has(letters + 1, *letters))
            return true;
    return false;
}

/* Returns true if an operand other than `but` has the letter. */
static bool elsewhere(const Einsum *p, int but, char c)
{
    for (int i = 0; i < p->count; i++)
        if (i != but && has(p->operand[i].letters, c))
            return true;
    return false;
}

static Shape shape_of_letters(const Einsum *p, const char *letters)
{
    Shape s = {.rank = (int)strlen(letters)};
    for (int i = 0; i < s.rank; i++)
        s.extent[i] = p->extent[(unsigned char)letters[i]];
    return s;
}

/* false: a diagonal, which stays as it is */
static bool read_einsum(const Node *n, Einsum *p)
{
    *p = (Einsum){
        .count = n->inputs, .operand = NEW_ARRAY(EinsumOperand, n->inputs), .over = node_sums_samples(n), .dtype = n->dtype};
    const char *t = n->text;
    for (int i = 0; i < n->inputs; i++, t++) {
        EinsumOperand *o = &p->operand[i];
        o->node = n->in[i];
        int k = 0;
        for (; *t && *t != ',' && *t != '-'; t++, k++) {
            o->letters[k] = *t;
            p->extent[(unsigned char)*t] = n->in[i]->shape.extent[k];
        }
        if (has_twice(o->letters))
            return false;
    }
    memcpy(p->result, t + 1, strlen(t + 1)); /* after "->" */
    return true;
}

/* ---- 1: views of operands */

static bool read_through_transpose(EinsumOperand *o)
{
    if (o->node->op != OP_TRANSPOSE)
        return false;
    char letters[MAX_RANK + 1] = "";
    for (int i = 0; i < o->node->shape.rank; i++)
        letters[o->node->ints[i]] = o->letters[i];
    memcpy(o->letters, letters, sizeof letters);
    o->node = o->node->in[0];
    return true;
}

/* Drops broadcast axes whose letter another operand has; the others stay. */
static bool read_through_broadcast(Simplifier *s, Einsum *p, int which)
{
    EinsumOperand *o = &p->operand[which];
    Node *broad = o->node, *x = broad->op == OP_BROADCAST ? broad->in[0] : NULL;
    double value;
    bool splat = node_is_constant(broad, &value);
    if (!x && !splat)
        return false;
    int more = splat ? broad->shape.rank : broad->shape.rank - x->shape.rank, kept = 0, narrow = 0;
    char letters[MAX_RANK + 1] = "";
    int64_t before[MAX_RANK];
    for (int i = 0; i < broad->shape.rank; i++) {
        bool stretched = i < more || x->shape.extent[i - more] != broad->shape.extent[i];
        if (stretched && elsewhere(p, which, o->letters[i]))
            continue;
        letters[kept++] = o->letters[i];
        before[narrow++] = i < more ? 1 : x->shape.extent[i - more];
    }
    if (kept == broad->shape.rank)
        return false;
    Shape shape = shape_of_letters(p, letters);
    if (splat)
        o->node = graph_fill(s->target, value, shape, broad->dtype);
    else {
        o->node = simplify_node(s, graph_reshape(s->target, x, shape_of(narrow, before)));
        o->node = simplify_node(s, graph_broadcast(s->target, o->node, shape));
    }
    memcpy(o->letters, letters, sizeof letters);
    return true;
}

/* ---- 2: letters of one operand */

static bool sum_lonely_letters(Simplifier *s, Einsum *p, int which)
{
    EinsumOperand *o = &p->operand[which];
    int axes[MAX_RANK], count = 0, kept = 0;
    char letters[MAX_RANK + 1] = "";
    bool over = p->over && o->node->has_samples;
    for (int i = 0; i < p->count && over; i++)
        over = i == which || !p->operand[i].node->has_samples;
    for (int i = 0; o->letters[i]; i++) {
        if (has(p->result, o->letters[i]) || elsewhere(p, which, o->letters[i]))
            letters[kept++] = o->letters[i];
        else
            axes[count++] = i;
    }
    if (!count && !over)
        return false;
    Graph *g = s->target;
    o->node = simplify_node(s, over ? graph_sum_samples(g, o->node, axes, count) : graph_sum(g, o->node, axes, count));
    memcpy(o->letters, letters, sizeof letters);
    p->over = p->over && !over;
    return true;
}

/* ---- as element-wise operations */

/* Returns the operand with the axes of `letters`, in their order; these include its own axes. */
static Node *along(Simplifier *s, const Einsum *p, const EinsumOperand *o, const char *letters)
{
    int order[MAX_RANK], rank = 0, broad = 0;
    int64_t extent[MAX_RANK];
    for (int i = 0; letters[i]; i++) {
        const char *at = strchr(o->letters, letters[i]);
        if (at)
            order[rank++] = (int)(at - o->letters);
        extent[broad++] = at ? p->extent[(unsigned char)letters[i]] : 1;
    }
    Node *x = simplify_node(s, graph_transpose(s->target, o->node, order));
    x = simplify_node(s, graph_reshape(s->target, x, shape_of(broad, extent)));
    return simplify_node(s, graph_broadcast(s->target, x, shape_of_letters(p, letters)));
}

static Node *multiply(Simplifier *s, const Einsum *p, const EinsumOperand *a, const EinsumOperand *b, const char *letters)
{
    return SIMPLE(s, OP_MUL, along(s, p, a, letters), along(s, p, b, letters));
}

/* ---- 4: pairs */

typedef struct Pairing {
    Einsum *einsum;
    double cost[1 << MANY];
    int half[1 << MANY]; /* of the best way to split the set */
    double samples;
} Pairing;

static bool in_set(const Einsum *p, int set, char c)
{
    for (int i = 0; i < p->count; i++)
        if (set >> i & 1 && has(p->operand[i].letters, c))
            return true;
    return false;
}

static bool set_sharded(const Einsum *p, int set)
{
    for (int i = 0; i < p->count; i++)
        if (set >> i & 1 && p->operand[i].node->has_samples)
            return true;
    return false;
}

/* Finds the letters that the contraction of a set must keep. */
static void letters_of_set(const Einsum *p, int set, char *letters)
{
    int all = (1 << p->count) - 1, count = 0;
    for (int c = 'A'; c <= 'z'; c++)
        if (in_set(p, set, (char)c) && (has(p->result, (char)c) || in_set(p, all & ~set, (char)c))) {
            if (count < MAX_RANK)
                letters[count] = (char)c;
            count++;
        }
    letters[count < MAX_RANK ? count : MAX_RANK] = 0;
    if (count > MAX_RANK)
        letters[0] = '?'; /* more axes than a node may have: this set is never contracted */
}

static double pair_cost(const Pairing *q, int a, int b)
{
    const Einsum *p = q->einsum;
    double cost = set_sharded(p, a | b) ? q->samples : 1;
    char kept_a[MAX_RANK + 1], kept_b[MAX_RANK + 1];
    letters_of_set(p, a, kept_a);
    letters_of_set(p, b, kept_b);
    if (*kept_a == '?' || *kept_b == '?')
        return 1e300;
    for (int c = 'A'; c <= 'z'; c++)
        if (has(kept_a, (char)c) || has(kept_b, (char)c))
            cost *= (double)p->extent[c];
    return cost;
}

static Node *contract(Simplifier *s, const Pairing *q, int set)
{
    const Einsum *p = q->einsum;
    if ((set & (set - 1)) == 0)
        return p->operand[__builtin_ctz((unsigned)set)].node;
    int all = (1 << p->count) - 1, half[2] = {q->half[set], set & ~q->half[set]};
    Node *in[2];
    Text spec = {0};
    char letters[MAX_RANK + 1];
    for (int k = 0; k < 2; k++) {
        in[k] = contract(s, q, half[k]);
        if ((half[k] & (half[k] - 1)) == 0)
            memcpy(letters, p->operand[__builtin_ctz((unsigned)half[k])].letters, sizeof letters);
        else
            letters_of_set(p, half[k], letters);
        text_add(&spec, "%s%s", k ? "," : "", letters);
    }
    if (set == all)
        memcpy(letters, p->result, sizeof letters);
    else
        letters_of_set(p, set, letters);
    text_add(&spec, "->%s", letters);
    bool over = p->over && (in[0]->has_samples || in[1]->has_samples) && !set_sharded(p, all & ~set);
    return simplify_node(s, graph_einsum(s->target, text_of(&spec), in, 2, over));
}

static Node *contract_in_pairs(Simplifier *s, Einsum *p)
{
    while (p->count > MANY) { /* the two at the left */
        Einsum two = *p, rest = *p;
        two.count = 2;
        rest.operand = p->operand + 2;
        rest.count = p->count - 2;
        EinsumOperand *first = &p->operand[0];
        Text spec = {0};
        char letters[MAX_RANK + 1] = "";
        int count = 0;
        for (int c = 'A'; c <= 'z'; c++)
            if (in_set(&two, 3, (char)c) && (has(p->result, (char)c) || elsewhere(&rest, -1, (char)c))) {
                if (count == MAX_RANK)
                    return NULL;
                letters[count++] = (char)c;
            }
        text_add(&spec, "%s,%s->%s", first->letters, p->operand[1].letters, letters);
        bool over = p->over && (first->node->has_samples || p->operand[1].node->has_samples);
        for (int i = 0; i < rest.count; i++)
            over = over && !rest.operand[i].node->has_samples;
        Node *in[] = {first->node, p->operand[1].node};
        p->operand++;
        p->count--;
        p->operand[0].node = simplify_node(s, graph_einsum(s->target, text_of(&spec), in, 2, over));
        memcpy(p->operand[0].letters, letters, sizeof letters);
        p->over = p->over && !over;
    }
    Pairing *q = NEW(Pairing);
    q->einsum = p;
    q->samples = s->target->model && s->target->model->batch > 0 ? (double)s->target->model->batch : SOME_SAMPLES;
    for (int set = 1; set < 1 << p->count; set++) {
        if ((set & (set - 1)) == 0)
            continue;
        q->cost[set] = 1e301;
        for (int half = (set - 1) & set; half; half = (half - 1) & set) {
            double cost = q->cost[half] + q->cost[set & ~half] + pair_cost(q, half, set & ~half);
            /* only halves with the first operand, so each split occurs once */
            if (half & (set & -set) && cost < q->cost[set]) {
                q->cost[set] = cost;
                q->half[set] = half;
            }
        }
    }
    int all = (1 << p->count) - 1;
    return q->cost[all] < 1e300 ? contract(s, q, all) : NULL;
}

/* ---- 5: two operands */

/* Renames letters to a, b, ... in order of appearance, so that equal contractions are equal nodes. */
static void append_renamed(Text *spec, const char *letters, char *name, char *next)
{
    for (; *letters; letters++) {
        if (!name[(unsigned char)*letters])
            name[(unsigned char)*letters] = (*next)++;
        text_add(spec, "%c", name[(unsigned char)*letters]);
    }
}

static Node *contract_two(Simplifier *s, const Einsum *p)
{
    const EinsumOperand *a = &p->operand[0], *b = &p->operand[1];
    bool own = false, summed = p->over;
    for (const char *c = a->letters; *c; c++) {
        own = own || !has(b->letters, *c);
        summed = summed || !has(p->result, *c);
    }
    for (const char *c = b->letters; *c; c++)
        own = own || !has(a->letters, *c);
    if (!summed)
        return multiply(s, p, a, b, p->result);
    if (!own) {
        Einsum sum = *p;
        EinsumOperand product = {multiply(s, p, a, b, a->letters), ""};
        memcpy(product.letters, a->letters, sizeof product.letters);
        sum.operand = &product;
        sum.count = 1;
        sum_lonely_letters(s, &sum, 0);
        return along(s, &sum, &product, p->result);
    }
    Text spec = {0};
    char name[128] = "", next = 'a';
    append_renamed(&spec, a->letters, name, &next);
    text_add(&spec, ",");
    append_renamed(&spec, b->letters, name, &next);
    text_add(&spec, "->");
    append_renamed(&spec, p->result, name, &next);
    return graph_einsum(s->target, text_take(&spec), (Node *[]){a->node, b->node}, 2, p->over);
}

/* ---- 3: factors */

/* Removes an operand without letters; returns it, or NULL if it was multiplied into another operand. */
static Node *take_factor(Simplifier *s, Einsum *p, int which)
{
    Node *factor = p->operand[which].node;
    memmove(&p->operand[which], &p->operand[which + 1], sizeof(EinsumOperand) * (size_t)(p->count - which - 1));
    p->count--;
    if (!p->over || !factor->has_samples)
        return factor;
    /* it belongs to its sample, so it is applied before the sum */
    int to = 0;
    while (to + 1 < p->count && !p->operand[to].node->has_samples)
        to++;
    Node *x = p->operand[to].node;
    p->operand[to].node = SIMPLE(s, OP_MUL, x, simplify_node(s, graph_broadcast(s->target, factor, x->shape)));
    return NULL;
}

Node *rule_einsum(Simplifier *s, Node *n)
{
    Einsum p;
    if (dtype_is_half(n->in[0]->dtype)) /* it was simplified before `precision`, and rounds where it is */
        return NULL;
    if (!read_einsum(n, &p))
        return fold_by_interpreter(s, n);
    for (int i = 0; i < p.count; i++)
        if (p.operand[i].node->dtype != p.dtype)
            p.operand[i].node = simplify_node(s, graph_cast(s->target, p.operand[i].node, p.dtype));
    bool more = true;
    while (more) {
        more = false;
        for (int i = 0; i < p.count; i++) {
            more = read_through_transpose(&p.operand[i]) || more;
            more = read_through_broadcast(s, &p, i) || more;
            more = sum_lonely_letters(s, &p, i) || more;
        }
    }
    Node *factor = NULL;
    for (int i = p.count - 1; i >= 0; i--)
        if (p.count > 1 && !p.operand[i].letters[0]) {
            Node *f = take_factor(s, &p, i);
            factor = !f ? factor : factor ? SIMPLE(s, OP_MUL, factor, f) : f;
        }
    Node *y;
    if (p.count == 1) {
        sum_lonely_letters(s, &p, 0); /* the samples, after a factor was multiplied in */
        y = along(s, &p, &p.operand[0], p.result);
    } else {
        y = p.count == 2 ? contract_two(s, &p) : contract_in_pairs(s, &p);
    }
    if (!y)
        return NULL;
    if (factor)
        y = SIMPLE(s, OP_MUL, y, simplify_node(s, graph_broadcast(s->target, factor, y->shape)));
    return y == n ? fold_by_interpreter(s, n) : y;
}
