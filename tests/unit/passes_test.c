/* passes_test.c: every pass from graph to graph keeps the meaning, by the interpreter: random graphs before and after, on
 * one device and on several; time in proportion to depth. steps_test.c has whole
 * steps, tests/passes what passes make of graphs of few lines. */
#include "compiler/ir/placement.h"
#include "compiler/passes/stages.h"
#include "tests/unit/machine.h"

#include <time.h>

/* ---- random graphs */

static Node *pick(Node **pool, int count) { return pool[draw(count)]; }

static Node *random_view(Graph *g, Node *x)
{
    int r = x->shape.rank, order[MAX_RANK];
    int64_t a[MAX_RANK], b[MAX_RANK], c[MAX_RANK];
    switch (draw(7)) {
    case 0:
        for (int i = 0; i < r; i++)
            order[i] = i;
        for (int i = 0; i < r; i++) {
            int k = draw(r), t = order[i];
            order[i] = order[k];
            order[k] = t;
        }
        return graph_transpose(g, x, order);
    case 1: {
        Shape s = {.rank = 1, .extent = {shape_count(&x->shape)}};
        if (draw(2) && s.extent[0] % 2 == 0)
            s = SHAPE(2, s.extent[0] / 2);
        return graph_reshape(g, x, s);
    }
    case 2:
        for (int i = 0; i < r; i++) {
            bool back = draw(3) == 0;
            int64_t e = x->shape.extent[i], step = 1 + draw(2), from = draw((int)e);
            a[i] = from;
            b[i] = back ? from / step + 1 : (e - from + step - 1) / step;
            c[i] = back ? -step : step;
        }
        return graph_slice(g, x, a, b, c);
    case 3:
        for (int i = 0; i < r; i++)
            a[i] = draw(2), b[i] = draw(2);
        return shape_count(&x->shape) > 60 ? x : graph_pad(g, x, a, b, draw(2));
    case 4: {
        Shape s = x->shape;
        if (r > 2 || shape_count(&s) > 60)
            return x;
        for (int i = r; i > 0; i--)
            s.extent[i] = s.extent[i - 1];
        s.extent[0] = 1 + draw(3);
        s.rank++;
        return graph_broadcast(g, x, s);
    }
    case 5: return r ? graph_concat(g, (Node *[]){x, graph_negate(g, x)}, shape_count(&x->shape) < 60 ? 2 : 1, draw(r)) : x;
    default: {
        Shape s = x->shape;
        if (r > 3)
            return x;
        int at = draw(r + 1);
        for (int i = r; i > at; i--)
            s.extent[i] = s.extent[i - 1];
        s.extent[at] = 1;
        s.rank++;
        return graph_reshape(g, x, s);
    }
    }
}

static Node *random_einsum(Graph *g, Node *a, Node *b)
{
    int ra = a->shape.rank, rb = b->shape.rank;
    char letters_a[MAX_RANK + 1] = "", letters_b[MAX_RANK + 1] = "", result[MAX_RANK + 1] = "";
    int kept = 0;
    for (int i = 0; i < ra; i++)
        letters_a[i] = (char)('a' + i);
    for (int i = 0; i < rb; i++) {
        letters_b[i] = (char)('p' + i);
        for (int k = 0; k < ra && draw(4); k++)
            if (a->shape.extent[k] == b->shape.extent[i] && !strchr(letters_b, letters_a[k])) {
                letters_b[i] = letters_a[k];
                break;
            }
    }
    double count = 1;
    for (int i = 0; i < ra + rb; i++) {
        char c = i < rb ? letters_b[i] : letters_a[i - rb];
        double e = (double)(i < rb ? b->shape.extent[i] : a->shape.extent[i - rb]);
        if (!strchr(result, c) && kept < 4 && count * e < 80 && draw(3)) {
            result[kept++] = c;
            count *= e;
        }
    }
    bool over = (a->has_samples || b->has_samples) && draw(4) == 0;
    if (over) /* as all sums over samples do */
        *(a->has_samples ? &a : &b) = select_valid(g, a->has_samples ? a : b);
    if (draw(3)) {
        Node *in[] = {a, b};
        return graph_einsum(g, format("%s,%s->%s", letters_a, letters_b, result), in, 2, over);
    }
    Node *in[] = {a, b, a};
    return graph_einsum(g, format("%s,%s,%s->%s", letters_a, letters_b, letters_a, result), in, 3, over);
}

static bool fit_together(const Node *a, const Node *b)
{
    double count = 1;
    for (int i = 1; i <= a->shape.rank || i <= b->shape.rank; i++) {
        int64_t x = i <= a->shape.rank ? a->shape.extent[a->shape.rank - i] : 1;
        int64_t y = i <= b->shape.rank ? b->shape.extent[b->shape.rank - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        count *= (double)(x == 1 ? y : x);
    }
    return count < 200;
}

static bool many_sums; /* over samples, and much that is linear in them */
static bool many_products;

static Node *random_node(Graph *g, Node **pool, int count)
{
    static const Op BINARY[] = {OP_ADD, OP_SUB, OP_MUL, OP_MINIMUM, OP_MAXIMUM};
    Node *a = pick(pool, count), *b = pick(pool, count);
    int axes[MAX_RANK], n = 0;
    switch (many_sums && draw(3) == 0 ? (draw(3) ? 10 : 0) : many_products && draw(2) ? 13 : draw(14)) {
    case 0:
    case 1: return fit_together(a, b) ? graph_binary(g, BINARY[draw(COUNT(BINARY))], a, b) : a;
    case 2: return graph_binary(g, BINARY[draw(3)], a, graph_weak(g, draw(3) - 1));
    case 3: return graph_where(g, graph_binary(g, OP_LE, a, graph_weak(g, 0)), graph_weak(g, 0), a);
    case 4: return fit_together(a, b) ? graph_where(g, graph_unary(g, OP_NOT, graph_binary(g, OP_LT, a, b)), a, b) : b;
    case 5: return tamed(g, graph_binary(g, OP_POW, a, graph_weak(g, draw(4))));
    case 6: return graph_negate(g, a);
    case 7:
    case 8:
    case 9: return random_view(g, a);
    case 10:
        for (int i = 0; i < a->shape.rank; i++)
            if (draw(2))
                axes[n++] = i;
        return a->has_samples && (many_sums || draw(3) == 0) ? graph_sum_samples(g, select_valid(g, a), axes, n)
                                                             : graph_sum(g, a, axes, n);
    case 11: return graph_cast(g, graph_cast(g, a, F64), F32);
    case 12: return select_valid(g, a);
    default: return tamed(g, random_einsum(g, a, b));
    }
}

static Graph *random_graph(Model *m, uint64_t seed, int size)
{
    random_state = seed * 77 + 1;
    Graph *g = graph_new(m, "random", NULL);
    Node **pool = NULL;
    int count = 0;
    Node *begin[] = {graph_input(g, 0),
                     graph_input(g, 1),
                     graph_cast(g, graph_input(g, 2), F32),
                     graph_variable(g, 0),
                     graph_variable(g, 1),
                     graph_fill(g, 1, SHAPE(3, 4), F32),
                     graph_number(g, 2, F32),
                     graph_constant(g, (double[]){1, 0, -1, 2}, SHAPE(4), F32),
                     graph_cast(g, graph_arange(g, 4), F32),
                     graph_strong(g, graph_run(g, RUN_SAMPLES, 0), F32),
                     graph_random(g, SHAPE(3, 4), "r", true)};
    for (int i = 0; i < COUNT(begin); i++)
        APPEND(pool, count, begin[i]);
    while (count < size) {
        Node *x = random_node(g, pool, count);
        if (shape_count(&x->shape) > 200 || x->shape.rank > 5)
            continue;
        if (x->op == OP_MUL || x->op == OP_SUM || x->op == OP_ADD || x->op == OP_SUB)
            x = draw(many_sums && !x->has_samples ? 6 : 2) ? x : tamed(g, x);
        APPEND(pool, count, x);
    }
    for (int i = 0; i < 6; i++) {
        Node *x = pool[count - 1 - i * 3];
        graph_result(g, ROLE_OUTPUT, format("o%d", i), i, tamed(g, x), NULL);
    }
    return g;
}

static const char *compare_results(Machine *m, Graph *a, Graph *b, double tolerance)
{
    Outcome x = machine_run(m, a, false), y = machine_run(m, b, false);
    for (int i = 0; i < a->result_count; i++) {
        const Node *p = a->results[i].value, *q = b->results[i].value;
        if (p->has_samples != q->has_samples || !shape_equal(&p->shape, &q->shape) || p->dtype != q->dtype)
            return format("result %d is another kind of value", i);
        int64_t each = shape_count(&p->shape), samples = p->has_samples ? m->valid[0] : 1;
        for (int64_t k = 0; k < each * samples; k++)
            if (!near(x.values[i][k], y.values[i][k], tolerance))
                return format("result %d, element %lld: %.17g and %.17g", i, (long long)k, x.values[i][k], y.values[i][k]);
    }
    return NULL;
}

static bool two_operands(const Graph *g)
{
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_EINSUM && g->nodes[i]->inputs != 2)
            return false;
    return true;
}

static void test_simplify(int seeds)
{
    Model *m = toy_model();
    add_variable(m, "w", WEIGHT, SHAPE(3, 4));
    add_variable(m, "u", WEIGHT, SHAPE(4));
    const char *why = NULL, *why_full = NULL, *why_twice = NULL, *why_einsum = NULL, *why_f64 = NULL;
    int before = 0, after = 0;
    for (int seed = 0; seed < seeds && !why && !why_full; seed++) {
        m->precision = F32;
        m->accumulate = 1 + seed % 3 / 2;
        m->variables[0].dtype = m->variables[1].dtype = F32;
        Graph *g = random_graph(m, (uint64_t)seed, 60), *s = simplify(g);
        before += g->node_count;
        after += s->node_count;
        Machine partial_batch = machine_of(m, 4, 6), full = machine_of(m, 11, 11);
        set_variables(&partial_batch);
        set_variables(&full);
        why = compare_results(&partial_batch, g, s, 1e-9);
        if (!two_operands(s))
            why_einsum = format("seed %d has an einsum that is no pair", seed);
        Graph *f = specialise(s, false);
        why_full = compare_results(&full, g, f, 1e-9);
        Graph *again = simplify(s);
        if (again->node_count > s->node_count)
            why_twice = format("seed %d: %d nodes, then %d", seed, s->node_count, again->node_count);
        if (why || why_full)
            fprintf(stderr, "seed %d\n", seed);
        m->precision = F64;
        Graph *wide = choose_precision(s);
        for (int i = 0; i < wide->node_count; i++)
            if (wide->nodes[i]->dtype == F32 && OP_INFO[wide->nodes[i]->op].op_class != LEAF)
                why_f64 = format("seed %d: %s is still f32", seed, OP_INFO[wide->nodes[i]->op].name);
        for (int i = 0; i < s->result_count; i++)
            wide->results[i].value = graph_cast(wide, wide->results[i].value, F32);
        if (!why_f64)
            why_f64 = compare_results(&partial_batch, s, wide, 1e-12);
    }
    check(!why, "simplify.random", why);
    check(!why_full, "specialise.random", why_full);
    check(!why_einsum, "simplify.einsum_pairs", why_einsum);
    check(!why_twice, "simplify.twice", why_twice);
    check(!why_f64, "precision.f64", why_f64);
    check(after < before, "simplify.smaller", format("%d nodes became %d", before, after));
}

/* ---- transfers: in place of all-reduces, and distributed again */

static Node *transfer(Graph *g, Op op, Node *x, int from, int to)
{
    return graph_node(g, op, &x, 1, (int64_t[]){from, to}, mgpu_transfer_row(transfer_of(op))->ends, NULL);
}

static Node *sum_by_transfers(Graph *g, Node *partial, int devices)
{
    Node *y = partial;
    switch (draw(5)) {
    case 4: /* one value for a transfer and for an all-reduce */
        y = transfer(g, OP_ALL_GATHER, transfer(g, OP_REDUCE_SCATTER, partial, 0, 0), 0, 0);
        return graph_binary(g, OP_MUL, graph_binary(g, OP_ADD, y, graph_reduce(g, partial)),
                            graph_fill(g, 0.5, y->shape, y->dtype));
    case 0: /* the own part, doubled and halved */
        y = transfer(g, OP_REDUCE_SCATTER, partial, 0, 0);
        y = graph_binary(g, OP_ADD, y, y);
        return graph_binary(g, OP_MUL, transfer(g, OP_ALL_GATHER, y, 0, 0), graph_fill(g, 0.5, y->shape, y->dtype));
    case 1: /* what each device has to all of them */
        y = transfer(g, OP_BROADCAST_FROM, partial, 0, 0);
        for (int d = 1; d < devices; d++)
            y = graph_binary(g, OP_ADD, y, transfer(g, OP_BROADCAST_FROM, partial, d, 0));
        return y;
    case 2: /* from each to the next, the last one to all */
        for (int d = 0; d < devices - 1; d++)
            y = graph_binary(g, OP_ADD, partial, transfer(g, OP_SEND, y, d, d + 1));
        return transfer(g, OP_BROADCAST_FROM, y, devices - 1, 0);
    default: return graph_reduce(g, partial);
    }
}

static Graph *with_transfers(Graph *g, int devices)
{
    Graph *target = graph_new(g->model, g->name, NULL);
    for (int i = 0; i < g->node_count; i++) {
        Node *n = g->nodes[i], **in = NEW_ARRAY(Node *, n->inputs);
        for (int k = 0; k < n->inputs; k++)
            in[k] = n->in[k]->mapped;
        n->mapped = n->op == OP_REDUCE && dtype_is_float(n->dtype) ? sum_by_transfers(target, in[0], devices)
                                                                   : graph_rebuild(target, n, in);
    }
    graph_copy_results(target, g);
    return target;
}

/* ---- bf16 */

static double to_bf16(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = f == f ? (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u : bits;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* what products read is what the masters are */
static void make_copies(Machine *m)
{
    for (int d = 0; d < MOST_DEVICES; d++)
        for (int v = 0; v < m->variable_count; v++) {
            const Variable *x = &m->model->variables[v];
            for (int64_t i = 0; i < shape_count(&x->shape) && x->kind == ROUNDED; i++)
                m->variables[d][v][i] = m->exact ? m->variables[d][x->owner][i] : to_bf16(m->variables[d][x->owner][i]);
        }
}

static bool multiplies(const Node *n)
{
    bool pair = n->op == OP_CONVOLVE || n->op == OP_CONVOLVE_WEIGHT || (n->op == OP_EINSUM && n->inputs == 2);
    return pair && (n->in[0]->has_samples || n->in[1]->has_samples);
}

/* Products of samples take BF16; what they make is BF16, or F32 if it is a sum over samples; nothing else calculates in
 * BF16, nothing is pending in it, and what is rounded is used in no other precision if it was computed. */
static const char *wrong_types(const Graph *g, int *products)
{
    int *uses = NEW_ARRAY(int, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->inputs; k++)
            uses[g->nodes[i]->in[k]->id]++;
    for (int i = 0; i < g->result_count; i++)
        uses[g->results[i].value->id]++;
    for (int i = 0; i < g->node_count; i++) {
        const Node *n = g->nodes[i];
        const char *name = OP_INFO[n->op].name;
        bool view = OP_INFO[n->op].op_class == VIEW;
        if (n->dtype == BF16 && node_is_placed(n, PARTIAL))
            return format("%s (node %d) is pending in bf16", name, i);
        if (multiplies(n)) {
            (*products)++;
            if (n->in[0]->dtype != BF16 || n->in[1]->dtype != BF16 || n->dtype != (n->has_samples ? BF16 : F32))
                return format("%s (node %d) multiplies %s and %s into %s", name, i, dtype_name(n->in[0]->dtype),
                              dtype_name(n->in[1]->dtype), dtype_name(n->dtype));
            continue;
        }
        for (int k = 0; k < n->inputs; k++)
            if (n->in[k]->dtype == BF16 && !view && n->op != OP_CAST)
                return format("%s (node %d) calculates in bf16", name, i);
        if (n->op == OP_CAST && n->in[0]->dtype == BF16 && !n->has_samples)
            return format("a value that is no sample's (node %d) is rounded for more than products", n->in[0]->id);
        if (n->op != OP_CAST || n->dtype != BF16)
            continue;
        if (n->in[0]->op == OP_VARIABLE && g->results[0].role != ROLE_INIT)
            return format("a variable is rounded at its use (node %d)", i);
        OpClass of = OP_INFO[n->in[0]->op].op_class;
        if (n->in[0]->dtype == F32 && n->has_samples && (of == ELEMENTWISE || of == WINDOW) && uses[n->in[0]->id] > 1)
            return format("%s (node %d) is there in f32 and in bf16", OP_INFO[n->in[0]->op].name, n->in[0]->id);
    }
    return NULL;
}

/* The interpreter rounds as hardware does. */
static void test_rounding(void)
{
    Model *m = toy_model();
    enum { NUMBERS = 4096 };
    double *numbers = NEW_ARRAY(double, NUMBERS);
    random_state = 5;
    for (int i = 0; i < NUMBERS; i++) {
        uint32_t bits = ((uint32_t)draw(65536) << 16) | (uint32_t)(i % 3 ? draw(65536) : i % 2 ? 0x8000 : 0x7fff);
        float f;
        memcpy(&f, &bits, sizeof f);
        numbers[i] = f;
    }
    Graph *g = graph_new(m, "rounding", NULL);
    Node *x = graph_cast(g, graph_constant(g, numbers, SHAPE(NUMBERS), F32), BF16);
    graph_result(g, ROLE_OUTPUT, "y", 0, x, NULL);
    Machine machine = machine_of(m, 1, 1);
    set_variables(&machine);
    Outcome y = machine_run(&machine, g, false);
    const char *why = NULL;
    for (int i = 0; i < NUMBERS; i++) {
        double is = y.values[0][i], expected = to_bf16(numbers[i]);
        if (!(is == expected || (is != is && expected != expected)))
            why = format("%a became %a, not %a", numbers[i], is, expected);
    }
    check(!why, "precision.rounding", why);
}

/* Casts alone: without rounding, the graph means what it meant; so it does after the passes that follow. */
static void test_bf16(int seeds)
{
    const char *why = NULL, *why_types = NULL;
    int products = 0;
    for (int seed = 0; seed < seeds && !why && !why_types; seed++) {
        Model *m = toy_model();
        add_variable(m, "w", WEIGHT, SHAPE(3, 4));
        add_variable(m, "u", WEIGHT, SHAPE(4));
        m->precision = BF16;
        many_products = true;
        Graph *d = distribute(simplify(random_graph(m, (uint64_t)seed + 300000, 60)));
        many_products = false;
        find_rounded_variables(m, &d, 1);
        Graph *narrow = choose_precision(d), *later = distribute(specialise(narrow, true));
        why_types = wrong_types(narrow, &products);
        if (!why_types)
            why_types = wrong_types(later, &products);
        Machine machine = machine_of(m, 4, 6);
        machine.exact = true;
        set_variables(&machine);
        make_copies(&machine);
        why = compare_results(&machine, d, narrow, 1e-9);
        if (!why)
            why = compare_results(&machine, d, later, 1e-9);
        if (why || why_types)
            fprintf(stderr, "seed %d\n", seed);
    }
    check(!why, "precision.bf16_is_casts", why);
    check(!why_types, "precision.bf16_types", why_types);
    check(products > seeds / 3, "precision.bf16_products", format("only %d products", products));
}

enum { CONV, OUT, HIDDEN, BIAS, TABLE, CNN_VARIABLES };

/* convolution, residual, pooling, a table's rows, softmax; every weight follows its gradient */
static Graph *cnn_graph(Model *m)
{
    Graph *g = graph_new(m, "train", NULL);
    add_variable(m, "conv.weight", WEIGHT, SHAPE(6, 2, 3, 3));
    add_variable(m, "out.weight", WEIGHT, SHAPE(4, 6));
    add_variable(m, "hidden.weight", WEIGHT, SHAPE(6, 6));
    add_variable(m, "hidden.bias", WEIGHT, SHAPE(6));
    add_variable(m, "table", WEIGHT, SHAPE(4, 6));
    int64_t convolve[] = {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, pool[] = {3, 2, 1, 2, 2, 1, 1, 0, 0, 1, 0, 0};
    Node *zero = graph_weak(g, 0), *label = graph_cast(g, graph_input(g, 2), I32);
    Node *x = NODE(g, OP_CONVOLVE, convolve, 12, NULL, graph_input(g, 3), graph_variable(g, CONV));
    Node *more = graph_einsum(g, "hwc,oc->hwo", (Node *[]){x, graph_variable(g, HIDDEN)}, 2, false);
    x = graph_binary(g, OP_ADD, graph_binary(g, OP_ADD, more, graph_variable(g, BIAS)), x);
    x = graph_where(g, graph_binary(g, OP_LE, x, zero), zero, x);
    x = NODE(g, OP_WINDOW_MAX, pool, 12, NULL, x);
    x = graph_sum(g, x, (int[]){0, 1}, 2);
    x = graph_binary(g, OP_ADD, x, NODE(g, OP_GATHER, &(int64_t){0}, 1, NULL, graph_variable(g, TABLE), label));
    Node *made = tamed(g, graph_variable(g, OUT)); /* no variable: rounded for the product alone */
    Node *logits = graph_einsum(g, "c,oc->o", (Node *[]){x, made}, 2, false);
    Node *e = graph_unary(
        g, OP_EXP, graph_binary(g, OP_SUB, logits, graph_reshape(g, all_of(g, graph_max(g, logits, (int[]){0}, 1)), SHAPE(1))));
    Node *p = graph_binary(g, OP_DIV, e, graph_reshape(g, all_of(g, e), SHAPE(1)));
    Node *right = graph_binary(g, OP_EQ, graph_reshape(g, label, SHAPE(1)), graph_arange(g, 4));
    Node *loss = graph_negate(g, graph_unary(g, OP_LOG, all_of(g, graph_where(g, right, p, zero))));
    graph_result(g, ROLE_LOSS, "loss", 0, loss, NULL);
    for (int v = 0; v < CNN_VARIABLES; v++) {
        Node *step = graph_binary(g, OP_MUL, graph_gradient(g, v), graph_weak(g, 0.1));
        graph_result(g, ROLE_UPDATE, NULL, v, graph_binary(g, OP_SUB, graph_variable(g, v), step), NULL);
    }
    return g;
}

/* A whole step, on one device and on three: near the step without rounding. tests/passes/precision_bf16 shows its types. */
static void test_bf16_step(void)
{
    Model *m = toy_model();
    Graph *init = graph_new(m, "init", NULL), *g = cnn_graph(m), *eval = graph_new(m, "eval", NULL), *reports[2];
    for (int v = 0; v < CNN_VARIABLES; v++)
        graph_result(init, ROLE_INIT, NULL, v, graph_random(init, m->variables[v].shape, format("init %d", v), false), NULL);
    Graph *train = simplify(differentiate(simplify(g)));
    make_reports(m, &train, 1, &eval, &reports[0], &reports[1]);
    train = distribute(simplify(update(train, 0, NULL)));
    m->precision = BF16;
    find_rounded_variables(m, (Graph *[]){init, train}, 2);
    Graph *narrow = choose_precision(train);

    Machine machine = machine_of(m, 11, 12);
    machine.exact = true;
    set_variables(&machine);
    make_copies(&machine);
    Outcome exact = machine_run(&machine, train, false), same = machine_run(&machine, narrow, false);
    machine.exact = false;
    make_copies(&machine);
    Outcome one = machine_run(&machine, narrow, false);
    share_samples(&machine, 3, 0, 11);
    Outcome three = machine_run(&machine, narrow, false);
    const char *why_same = NULL, *why_near = NULL, *why_devices = NULL;
    double change = 0, error = 0, spread = 0;
    for (int i = 0; i < train->result_count; i++) {
        const Result *r = &train->results[i];
        int64_t count = shape_count(&r->value->shape);
        for (int64_t k = 0; k < count; k++) {
            double a = exact.values[i][k], b = one.values[i][k], c = three.values[i][k];
            if (!near(a, same.values[i][k], 1e-9))
                why_same = format("result %d: %g and %g", i, a, same.values[i][k]);
            if (r->role == ROLE_UPDATE && r->index < CNN_VARIABLES) {
                double before = machine.variables[0][r->index][k];
                change += (a - before) * (a - before);
                error += (a - b) * (a - b);
                spread += (c - b) * (c - b);
            } else if (!near(a, b, 1e-2)) {
                why_near = format("result %d: %g and %g", i, a, b);
            }
        }
    }
    if (sqrt(error) > 0.02 * sqrt(change) || error == 0)
        why_near = format("the steps differ by %g of %g", sqrt(error), sqrt(change));
    if (sqrt(spread) > 1e-6 * sqrt(change))
        why_devices = format("one device and three differ by %g of %g", sqrt(spread), sqrt(change));
    check(!why_same, "precision.bf16_step_is_casts", why_same);
    check(!why_near, "precision.bf16_step", why_near);
    check(!why_devices, "precision.bf16_devices", why_devices);
}

/* random graphs on several devices against one */
static void test_distribute(int seeds)
{
    Model *m = toy_model();
    add_variable(m, "w", WEIGHT, SHAPE(3, 4));
    add_variable(m, "u", WEIGHT, SHAPE(4));
    const char *why = NULL;
    int partial = 0;
    for (int seed = 0; seed < seeds && !why; seed++) {
        many_sums = true;
        Graph *g = random_graph(m, (uint64_t)seed + 100000, 70);
        many_sums = false;
        for (int i = 0; i < g->result_count; i++) {
            Result *r = &g->results[i];
            r->role = ROLE_REPORT;
            r->value = r->value->has_samples ? sum_everything(g, select_valid(g, r->value)) : all_of(g, r->value);
        }
        Machine one = machine_of(m, 11, 11), many = machine_of(m, 11, 11);
        set_variables(&one);
        set_variables(&many);
        Outcome x = machine_run(&one, g, false);
        for (int variant = 0; variant < 4 && !why; variant++) {
            Graph *d = distribute(variant ? simplify(g) : g);
            if (variant == 2)
                d = distribute(simplify(distribute(d)));
            if (variant == 3)
                d = distribute(simplify(distribute(with_transfers(d, 1 + seed % MOST_DEVICES))));
            for (int i = 0; i < d->node_count; i++)
                partial += node_is_placed(d->nodes[i], PARTIAL) && !node_sums_samples(d->nodes[i]);
            share_samples(&many, 1 + seed % MOST_DEVICES, 0, 11);
            Outcome y = machine_run(&many, d, false);
            for (int k = 0; k < many.devices; k++)
                for (int i = 0; i < g->result_count && !why; i++)
                    if (!near(x.values[i][0], y.values[k * g->result_count + i][0], 1e-9))
                        why = format("seed %d, variant %d, device %d of %d, result %d: %.17g, %.17g expected", seed, variant, k,
                                     many.devices, i, y.values[k * g->result_count + i][0], x.values[i][0]);
        }
    }
    check(!why, "distribute.random", why);
    check(partial > seeds / 4, "distribute.linear", format("only %d nodes pass a partial value on", partial));
}

/* ---- depth */

static double seconds_for(int layers)
{
    clock_t begin;
    Model *m = toy_model();
    Graph *g = graph_new(m, "deep", NULL);
    Node *x = graph_input(g, 1);
    for (int i = 0; i < layers; i++) {
        int w = add_variable(m, format("fc_%d.weight", i), WEIGHT, SHAPE(4, 4));
        Node *t = graph_transpose(g, graph_variable(g, w), (int[]){1, 0});
        x = graph_einsum(g, "c,co->o", (Node *[]){x, t}, 2, false);
        x = graph_where(g, graph_binary(g, OP_LE, x, graph_weak(g, 0)), graph_weak(g, 0), x);
        graph_result(g, ROLE_UPDATE, NULL, w, graph_binary(g, OP_SUB, graph_variable(g, w), graph_gradient(g, w)), NULL);
    }
    graph_result(g, ROLE_LOSS, "loss", 0, x, NULL);
    graph_result(g, ROLE_METRIC, "x", 0, x, NULL);
    m->clip_kind = CLIP_GLOBAL_NORM;
    m->clip = 1;
    m->precision = F64;
    m->accumulate = 2;
    begin = clock();
    Graph *train = simplify(differentiate(simplify(g))), *eval = graph_new(m, "eval", NULL), *reports[2], *last, *acc, *pro;
    make_reports(m, &train, 1, &eval, &reports[0], &reports[1]);
    train = distribute(simplify(update(train, 0, NULL)));
    split_micro_batches(m, train, &last, &acc, &pro);
    last = choose_precision(last);
    acc = choose_precision(acc);
    choose_layout(m, (Graph *[]){last, acc}, 2);
    last = distribute(specialise(last, false));
    acc = distribute(specialise(acc, false));
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void test_depth(void)
{
    double small = seconds_for(300), large = seconds_for(3000);
    check(large < 30 * small + 0.5, "depth.linear", format("300 layers take %.3f s, 3000 take %.3f s", small, large));
}

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 300;
    test_simplify(seeds);
    test_rounding();
    test_bf16(seeds);
    test_bf16_step();
    test_distribute(seeds);
    test_depth();
    return failures > 0;
}
