/* passes_test.c: every pass from graph to graph keeps the meaning, by the interpreter: random graphs, a batchnorm against
 * its library body, whole training steps on several devices and in micro-batches with missing samples. */
#include "compiler/composite.h"
#include "compiler/passes.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* ---- reporting */

static int failures;

static void check(bool good, const char *name, const char *why)
{
    if (good) {
        printf("ok %s\n", name);
    } else {
        printf("not ok %s: %s\n", name, why);
        failures++;
    }
}

static uint64_t random_state;
static int draw(int n) /* 0 .. n - 1 */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

/* ---- the machine: devices, their samples, and the values of leaves */

enum { MOST_DEVICES = 4 };

typedef struct Machine {
    const Model *model;
    int devices;
    int64_t first[MOST_DEVICES], alive[MOST_DEVICES], capacity[MOST_DEVICES];
    int64_t samples, micro, step;   /* of the whole step; number of the micro-batch */
    double **variables[MOST_DEVICES];
    double **reduced;               /* what the k-th REDUCE gives */
    int variable_count, device;
} Machine;

static double number_of(uint64_t a, uint64_t b, uint64_t c) /* in (-1, 1), never 0 */
{
    uint64_t key[3] = {a, b, c};
    return ((double)(hash_bytes(7, key, sizeof key) >> 12) + 0.5) * 0x1p-51 - 1;
}

static bool machine_leaf(void *context, const Node *n, double *out, int64_t count)
{
    const Machine *m = context;
    int64_t elements = shape_count(&n->shape), alive = m->alive[m->device], first = m->first[m->device];
    switch (n->op) {
    case OP_INPUT:
        for (int64_t i = 0; i < count; i++) {
            int64_t s = i / (elements ? elements : 1), real = s < alive ? s : alive ? alive - 1 : 0;
            double v = number_of((uint64_t)n->ints[0], (uint64_t)(first + real), (uint64_t)(i - s * elements));
            int64_t classes = m->model->inputs[n->ints[0]].classes;
            out[i] = classes ? floor((v + 1) / 2 * (double)classes) : v;
        }
        return true;
    case OP_VARIABLE:
        for (int64_t i = 0; i < count; i++)
            out[i] = n->ints[0] >= m->variable_count ? m->reduced[n->ints[0] - m->variable_count][i]
                                                     : m->variables[m->device][n->ints[0]][i];
        return true;
    case OP_RUN:
        *out = n->ints[0] == RUN_SAMPLES ? (double)m->samples
               : n->ints[0] == RUN_MICRO ? (double)m->micro
               : n->ints[0] == RUN_STEP  ? (double)m->step
               : n->ints[0] == RUN_SETTING ? NAN : 0.25;
        return true;
    case OP_ALIVE:
        for (int64_t i = 0; i < count; i++)
            out[i] = i < alive;
        return true;
    case OP_GRADIENT:
        for (int64_t i = 0; i < count; i++)
            out[i] = number_of(99, (uint64_t)n->ints[0], (uint64_t)i);
        return true;
    default:
        return false;
    }
}

/* one device, all samples alive (or `alive` of them) */
static Machine machine_of(const Model *model, int64_t alive, int64_t capacity)
{
    Machine m = {.model = model, .devices = 1, .alive = {alive}, .capacity = {capacity}, .samples = alive, .step = 3};
    return m;
}

static void share_samples(Machine *m, int devices, int64_t from, int64_t to)
{
    int64_t total = to - from, at = from;
    m->devices = devices;
    for (int d = 0; d < devices; d++) {
        m->first[d] = at;
        m->alive[d] = total / devices + (d < total % devices);
        m->capacity[d] = m->alive[d] + d % 3 ? m->alive[d] + d % 3 : 1; /* some devices have missing samples */
        at += m->alive[d];
    }
}

static void set_variables(Machine *m)
{
    m->variable_count = m->model->variable_count;
    for (int d = 0; d < MOST_DEVICES; d++) {
        m->variables[d] = NEW_ARRAY(double *, m->variable_count);
        for (int v = 0; v < m->variable_count; v++) {
            const Variable *x = &m->model->variables[v];
            m->variables[d][v] = NEW_ARRAY(double, shape_count(&x->shape));
            for (int64_t i = 0; i < shape_count(&x->shape) && x->kind != ACCUMULATOR; i++)
                m->variables[d][v][i] = 0.5 * number_of(5, (uint64_t)v, (uint64_t)i) + (strstr(x->name, "_var") ? 1 : 0);
        }
    }
}

typedef struct Outcome { double **values; } Outcome; /* of each result, on each device: [device * results + result] */

/* Runs a graph on all devices. A REDUCE is the sum of its input over the devices: rounds until all have been seen. */
static Outcome machine_run(Machine *m, Graph *g, bool update)
{
    Outcome y = {NEW_ARRAY(double *, m->devices * (g->result_count + 1))};
    int reduces = 0;
    Node **reduce = NEW_ARRAY(Node *, g->node_count), *before = NEW_ARRAY(Node, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == OP_REDUCE) {
            Node *n = g->nodes[i];
            before[reduces] = *n;
            reduce[reduces] = n;
            n->op = OP_VARIABLE;
            n->inputs = 0;
            n->ints = NEW(int64_t);
            n->ints[0] = m->variable_count + reduces++;
        }
    m->reduced = NEW_ARRAY(double *, reduces);
    for (int k = 0; k < reduces; k++)
        m->reduced[k] = NEW_ARRAY(double, shape_count(&reduce[k]->shape));
    double ***values = NEW_ARRAY(double **, m->devices);
    bool changed = true;
    for (int round = 0; changed && round <= reduces + 1; round++) {
        changed = false;
        for (int d = 0; d < m->devices; d++) {
            m->device = d;
            Interpretation run = {.samples = m->capacity[d], .first_sample = m->first[d], .step = m->step, .seed = 11,
                                  .leaf = machine_leaf, .context = m, .values = values[d]};
            interpret(g, &run);
            values[d] = run.values;
        }
        for (int k = 0; k < reduces; k++)
            for (int64_t i = 0; i < shape_count(&reduce[k]->shape); i++) {
                double sum = 0;
                for (int d = 0; d < m->devices; d++)
                    sum += values[d][before[k].in[0]->id][i];
                changed = changed || (sum != m->reduced[k][i] && (sum == sum || m->reduced[k][i] == m->reduced[k][i]));
                m->reduced[k][i] = sum;
            }
    }
    for (int k = 0; k < reduces; k++)
        *reduce[k] = before[k];
    for (int d = 0; d < m->devices; d++) {
        for (int i = 0; i < g->result_count; i++) {
            const Node *n = g->results[i].value;
            int64_t count = shape_count(&n->shape) * (n->sharded ? m->capacity[d] : 1);
            double *copy = y.values[d * g->result_count + i] = NEW_ARRAY(double, count);
            memcpy(copy, values[d][n->id], (size_t)count * sizeof *copy);
        }
        for (int i = 0; i < g->result_count && update; i++)
            if (g->results[i].role == ROLE_UPDATE)
                m->variables[d][g->results[i].index] = y.values[d * g->result_count + i];
        for (int i = 0; i < g->node_count; i++)
            free(values[d][i]);
        free(values[d]);
    }
    return y;
}

/* the place of a report (by name) or of an update, gradient (by index) among the results; -1 */
static int find_result(const Graph *g, Role role, const char *name, int index)
{
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == role && (name ? strcmp(g->results[i].name, name) == 0 : g->results[i].index == index))
            return i;
    return -1;
}

static bool near(double a, double b, double tolerance)
{
    return (a != a && b != b) || a == b || fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b));
}

/* ---- a model to play with */

static Model *toy_model(void)
{
    Model *m = NEW(Model);
    m->name = "toy";
    m->batch = 11;
    m->accumulate = m->group = 1;
    m->precision = F32;
    static const struct { const char *name; Dtype type; Shape shape; int64_t classes; } INPUTS[] = {
        {"x", F32, {2, {3, 4}}, 0}, {"v", F32, {1, {4}}, 0}, {"label", U8, {0, {0}}, 4}, {"image", F32, {3, {5, 4, 2}}, 0}};
    m->inputs = NEW_ARRAY(Input, COUNT(INPUTS));
    m->input_count = COUNT(INPUTS);
    for (int i = 0; i < COUNT(INPUTS); i++)
        m->inputs[i] = (Input){INPUTS[i].name, INPUTS[i].type, INPUTS[i].shape, INPUTS[i].classes, -1, -1, NULL};
    return m;
}

static int add_variable(Model *m, const char *name, VariableKind kind, Shape shape)
{
    Variable v = {.name = name, .kind = kind, .dtype = F32, .shape = shape, .trained = kind == WEIGHT, .owner = -1};
    APPEND(m->variables, m->variable_count, v);
    return m->variable_count - 1;
}

static Node *all_of(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_sum(g, x, axes, x->shape.rank);
}

static Node *tamed(Graph *g, Node *x) { return graph_unary(g, OP_TANH, x); }

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
    case 5:
        return r ? graph_concat(g, (Node *[]){x, graph_negate(g, x)}, shape_count(&x->shape) < 60 ? 2 : 1, draw(r)) : x;
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
    bool over = (a->sharded || b->sharded) && draw(4) == 0;
    if (over) /* as all sums over samples do */
        *(a->sharded ? &a : &b) = select_alive(g, a->sharded ? a : b);
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

static Node *random_node(Graph *g, Node **pool, int count)
{
    static const Op BINARY[] = {OP_ADD, OP_SUB, OP_MUL, OP_MINIMUM, OP_MAXIMUM};
    Node *a = pick(pool, count), *b = pick(pool, count);
    int axes[MAX_RANK], n = 0;
    switch (many_sums && draw(3) == 0 ? (draw(3) ? 10 : 0) : draw(14)) {
    case 0: case 1:
        return fit_together(a, b) ? graph_binary(g, BINARY[draw(COUNT(BINARY))], a, b) : a;
    case 2:
        return graph_binary(g, BINARY[draw(3)], a, graph_weak(g, draw(3) - 1));
    case 3:
        return graph_where(g, graph_binary(g, OP_LE, a, graph_weak(g, 0)), graph_weak(g, 0), a);
    case 4:
        return fit_together(a, b) ? graph_where(g, graph_unary(g, OP_NOT, graph_binary(g, OP_LT, a, b)), a, b) : b;
    case 5:
        return tamed(g, graph_binary(g, OP_POW, a, graph_weak(g, draw(4))));
    case 6:
        return graph_negate(g, a);
    case 7: case 8: case 9:
        return random_view(g, a);
    case 10:
        for (int i = 0; i < a->shape.rank; i++)
            if (draw(2))
                axes[n++] = i;
        return a->sharded && (many_sums || draw(3) == 0) ? graph_sum_samples(g, select_alive(g, a), axes, n)
                                          : graph_sum(g, a, axes, n);
    case 11:
        return graph_cast(g, graph_cast(g, a, F64), F32);
    case 12:
        return select_alive(g, a);
    default:
        return tamed(g, random_einsum(g, a, b));
    }
}

static Graph *random_graph(Model *m, uint64_t seed, int size)
{
    random_state = seed * 77 + 1;
    Graph *g = graph_new(m, "random", NULL);
    Node **pool = NULL;
    int count = 0;
    Node *begin[] = {graph_input(g, 0), graph_input(g, 1), graph_cast(g, graph_input(g, 2), F32), graph_variable(g, 0),
                     graph_variable(g, 1), graph_fill(g, 1, SHAPE(3, 4), F32), graph_number(g, 2, F32),
                     graph_constant(g, (double[]){1, 0, -1, 2}, SHAPE(4), F32), graph_cast(g, graph_arange(g, 4), F32),
                     graph_strong(g, graph_run(g, RUN_SAMPLES, 0), F32), graph_random(g, SHAPE(3, 4), "r", true)};
    for (int i = 0; i < COUNT(begin); i++)
        APPEND(pool, count, begin[i]);
    while (count < size) {
        Node *x = random_node(g, pool, count);
        if (shape_count(&x->shape) > 200 || x->shape.rank > 5)
            continue;
        if (x->op == OP_MUL || x->op == OP_SUM || x->op == OP_ADD || x->op == OP_SUB)
            x = draw(many_sums && !x->sharded ? 6 : 2) ? x : tamed(g, x);
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
        if (p->sharded != q->sharded || !shape_equal(&p->shape, &q->shape) || p->dtype != q->dtype)
            return format("result %d is another kind of value", i);
        int64_t each = shape_count(&p->shape), samples = p->sharded ? m->alive[0] : 1;
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
        Machine ragged = machine_of(m, 4, 6), full = machine_of(m, 11, 11);
        set_variables(&ragged);
        set_variables(&full);
        why = compare_results(&ragged, g, s, 1e-9);
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
            why_f64 = compare_results(&ragged, s, wide, 1e-12);
    }
    check(!why, "simplify.random", why);
    check(!why_full, "specialise.random", why_full);
    check(!why_einsum, "simplify.einsum_pairs", why_einsum);
    check(!why_twice, "simplify.twice", why_twice);
    check(!why_f64, "precision.f64", why_f64);
    check(after < before, "simplify.smaller", format("%d nodes became %d", before, after));
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
            r->value = r->value->sharded ? sum_everything(g, select_alive(g, r->value)) : all_of(g, r->value);
        }
        Machine one = machine_of(m, 11, 11), many = machine_of(m, 11, 11);
        set_variables(&one);
        set_variables(&many);
        Outcome x = machine_run(&one, g, false);
        for (int variant = 0; variant < 3 && !why; variant++) {
            Graph *d = distribute(variant ? simplify(g) : g);
            if (variant == 2)
                d = distribute(simplify(distribute(d)));
            for (int i = 0; i < d->node_count; i++)
                partial += d->nodes[i]->distribution == PARTIAL && !node_sums_samples(d->nodes[i]);
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

/* ---- what simplify must find */

static int count_op(const Graph *g, Op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == op;
    return count;
}

static void test_rules(void)
{
    Model *m = toy_model();
    add_variable(m, "w", WEIGHT, SHAPE(4, 3));
    Graph *g = graph_new(m, "rules", NULL);
    /* the mean of ones over the living samples is a number */
    Node *ones = select_alive(g, graph_fill(g, 1, SHAPE(3, 4), F32));
    Node *count = graph_sum_samples(g, ones, (int[]){0, 1}, 2);
    graph_result(g, ROLE_REPORT, "count", 0, count, NULL);
    Graph *s = simplify(g);
    check(count_op(s, OP_SUM) == 0 && count_op(s, OP_ALIVE) == 0, "simplify.count_is_samples", "a sum is left");
    m->accumulate = 2;
    check(count_op(simplify(g), OP_SUM) == 1, "simplify.count_of_micro_batch", "the sum over a part of the step went");
    m->accumulate = 1;
    check(specialise(s, false)->node_count == 1, "specialise.count", "the number of samples is not folded");

    /* relu: backward asks the result */
    g = graph_new(m, "relu", NULL);
    Node *x = graph_input(g, 0), *zero = graph_fill(g, 0, x->shape, F32), *c = NODE(g, OP_LE, NULL, 0, NULL, x, zero);
    Node *y = graph_where(g, c, zero, x), *back = graph_where(g, c, zero, graph_unary(g, OP_EXP, y));
    graph_result(g, ROLE_OUTPUT, "y", 0, back, NULL);
    s = simplify(g);
    const Node *z = s->results[0].value;
    check(z->op == OP_WHERE && z->in[0]->op == OP_LE && z->in[0]->in[0]->op == OP_WHERE, "simplify.relu", "x is kept");

    /* a dense layer: no transpose is left, forward or backward */
    g = graph_new(m, "dense", NULL);
    x = graph_input(g, 1);
    Node *w = graph_transpose(g, graph_variable(g, 0), (int[]){1, 0});
    graph_result(g, ROLE_OUTPUT, "y", 0, graph_einsum(g, "c,oc->o", (Node *[]){x, w}, 2, false), NULL);
    check(count_op(simplify(g), OP_TRANSPOSE) == 0, "simplify.transpose_in_einsum", "a transpose is left");

    /* the divisor of an average pool with padding stays small */
    g = graph_new(m, "pool", NULL);
    int64_t ints[] = {3, 3, 1, 2, 2, 1, 1, 1, 0, 1, 1, 0};
    Node *divisor = NODE(g, OP_WINDOW_SUM, ints, 12, NULL, graph_fill(g, 1, SHAPE(500, 500, 64), F32));
    graph_result(g, ROLE_REPORT, "d", 0, divisor, NULL);
    s = simplify(g);
    check(count_op(s, OP_WINDOW_SUM) == 0 || s->nodes[0]->data_count <= 1, "simplify.pool", "a table of ones was summed");

    /* three operands in the cheaper order: (u w) x, not u (w x) */
    m->batch = 1;
    g = graph_new(m, "chain", NULL);
    Node *in[] = {graph_reshape(g, graph_input(g, 0), SHAPE(12)), graph_variable(g, 0), graph_input(g, 1)};
    graph_result(g, ROLE_OUTPUT, "y", 0, graph_einsum(g, "k,ab,a->kb", in, 3, false), NULL);
    s = simplify(g);
    double flops = 0;
    for (int i = 0; i < s->node_count; i++)
        flops += node_flops(s->nodes[i]);
    check(flops < 100, "simplify.order_of_pairs", format("%.0f operations", flops));
    m->batch = 11;
}

/* ---- a model that trains: batchnorm, dropout, two losses, a shared weight, metrics */

enum { W_IN, W_OUT, NORM_WEIGHT, NORM_BIAS, RUNNING_MEAN, RUNNING_VAR, VELOCITY, NET_VARIABLES };

static Node *sum_batch(Graph *g, Node *x, int64_t group)
{
    x = select_alive(g, graph_strong(g, x, F32));
    return group ? graph_group_sum(g, x, group < 0 ? 0 : group) : graph_sum_samples(g, x, NULL, 0);
}

static Node *lerp(Graph *g, Node *a, Node *b, double t)
{
    return graph_binary(g, OP_ADD, a, graph_binary(g, OP_MUL, graph_weak(g, t), graph_binary(g, OP_SUB, b, a)));
}

static Node *batch_mean(Graph *g, Node *x)
{
    return graph_binary(g, OP_DIV, sum_batch(g, x, 0), sum_batch(g, graph_number(g, 1, F32), 0));
}

/* as the library says it; out: y, running_mean, running_var */
static void batchnorm(Graph *top, Node *x, int64_t group, Node **out)
{
    Graph *g = graph_open_region(top, "batchnorm");
    Node *weight = graph_variable(top, NORM_WEIGHT), *bias = graph_variable(top, NORM_BIAS);
    Node *mean = graph_variable(top, RUNNING_MEAN), *var = graph_variable(top, RUNNING_VAR);
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, count = x->shape.rank - 1;
    double elements = (double)(shape_count(&x->shape) / x->shape.extent[count]);
    Node *n = sum_batch(g, graph_number(g, elements, F32), group);
    n = graph_binary(g, OP_MAXIMUM, n, graph_weak(g, 1)); /* a group of missing samples only */
    Node *m = graph_binary(g, OP_DIV, sum_batch(g, graph_sum(g, graph_binary(g, OP_SUB, x, graph_number(g, 0, F32)), axes, count), group), n);
    Node *d = graph_binary(g, OP_SUB, x, m), *square = graph_binary(g, OP_POW, d, graph_weak(g, 2));
    Node *v = graph_binary(g, OP_DIV, sum_batch(g, graph_sum(g, square, axes, count), group), n);
    Node *less = graph_binary(g, OP_MAXIMUM, graph_binary(g, OP_SUB, n, graph_weak(g, 1)), graph_weak(g, 1));
    Node *unbiased = graph_binary(g, OP_DIV, graph_binary(g, OP_MUL, v, n), less);
    Node *deviation = graph_unary(g, OP_SQRT, graph_binary(g, OP_ADD, v, graph_weak(g, 1e-5)));
    Node *y = graph_binary(g, OP_MUL, graph_binary(g, OP_DIV, d, deviation), weight);
    Node *results[] = {graph_binary(g, OP_ADD, y, bias), lerp(g, mean, batch_mean(g, m), 0.1),
                       lerp(g, var, batch_mean(g, unbiased), 0.1)};
    graph_close_region(g, OP_COMPOSITE, "batchnorm", NULL, 0, (double[]){0.1, 1e-5, (double)group}, 3, results, 3, out);
}

static Node *log_softmax(Graph *g, Node *x)
{
    int axis = x->shape.rank - 1;
    Shape keep = x->shape;
    keep.extent[axis] = 1;
    Node *most = graph_reshape(g, graph_max(g, x, &axis, 1), keep);
    Node *shifted = graph_binary(g, OP_SUB, x, NODE(g, OP_STOP_GRADIENT, NULL, 0, NULL, most));
    Node *sum = graph_reshape(g, graph_sum(g, graph_unary(g, OP_EXP, shifted), &axis, 1), keep);
    return graph_binary(g, OP_SUB, shifted, graph_unary(g, OP_LOG, sum));
}

static Model *net_model(int64_t batch, int64_t group)
{
    Model *m = toy_model();
    m->batch = batch;
    m->group = group > 0 ? group : 1;
    add_variable(m, "in.weight", WEIGHT, SHAPE(5, 4));
    add_variable(m, "out.weight", WEIGHT, SHAPE(4, 5));
    add_variable(m, "norm.weight", WEIGHT, SHAPE(5));
    add_variable(m, "norm.bias", WEIGHT, SHAPE(5));
    add_variable(m, "norm.running_mean", STATE, SHAPE(5));
    add_variable(m, "norm.running_var", STATE, SHAPE(5));
    add_variable(m, "in.weight.velocity", OPTIMIZER_STATE, SHAPE(5, 4));
    m->variables[VELOCITY].owner = W_IN;
    return m;
}

static Node *one_hot(Graph *g, Node *label, int64_t n)
{
    return graph_binary(g, OP_EQ, graph_reshape(g, label, SHAPE(1)), graph_arange(g, n));
}

static Graph *net_graph(Model *m, int64_t group, bool training)
{
    Graph *g = graph_new(m, training ? "train" : "eval", NULL);
    Node *x = graph_input(g, 0), *v = graph_input(g, 1), *label = graph_input(g, 2), *zero = graph_weak(g, 0);
    Node *w_out = graph_variable(g, W_OUT), *norm[3];
    Node *w_in = graph_transpose(g, graph_variable(g, W_IN), (int[]){1, 0});
    Node *h = graph_einsum(g, "tc,co->to", (Node *[]){x, w_in}, 2, false);
    if (training)
        batchnorm(g, h, group, norm);
    else
        norm[0] = graph_binary(g, OP_SUB, h, graph_variable(g, RUNNING_MEAN));
    h = graph_where(g, graph_binary(g, OP_LE, norm[0], zero), zero, norm[0]);
    if (training)
        h = graph_where(g, graph_binary(g, OP_LT, graph_random(g, h->shape, "drop", true), graph_weak(g, 0.3)), zero, h);
    Node *features = graph_binary(g, OP_DIV, graph_sum(g, h, (int[]){0}, 1), graph_weak(g, 3));
    Node *logits = graph_einsum(g, "c,oc->o", (Node *[]){features, w_out}, 2, false);
    Node *logp = log_softmax(g, logits), *right = one_hot(g, label, 4);
    Node *entropy = graph_negate(g, graph_sum(g, graph_where(g, right, logp, zero), (int[]){0}, 1));
    graph_result(g, ROLE_LOSS, "entropy", 0, entropy,
                 graph_cast(g, graph_unary(g, OP_NOT, graph_binary(g, OP_EQ, label, graph_weak(g, 3))), F32));
    /* the weight of the output a second time */
    Node *again = tamed(g, graph_einsum(g, "tc,oc->to", (Node *[]){h, w_out}, 2, false));
    Node *error = graph_binary(g, OP_POW, graph_binary(g, OP_SUB, again, v), graph_weak(g, 2));
    graph_result(g, ROLE_LOSS, "error", 0, graph_binary(g, OP_MUL, error, graph_weak(g, 0.5)), NULL);
    Node *size = graph_binary(g, OP_MUL, graph_unary(g, OP_ABS, w_out), graph_weak(g, 1e-2));
    graph_result(g, ROLE_LOSS, "size", 0, all_of(g, size), NULL);

    Node *hit = graph_binary(g, OP_EQ, NODE(g, OP_ARGMAX, &(int64_t){0}, 1, NULL, logits), graph_cast(g, label, I32));
    graph_result(g, ROLE_METRIC, "accuracy", 0, graph_cast(g, hit, F32), NULL);
    graph_result(g, ROLE_METRIC, "weighted", 1, error, graph_binary(g, OP_MAXIMUM, v, zero));
    graph_result(g, ROLE_METRIC, "constant", 2, graph_number(g, 3, F32), NULL);
    Node *picked = graph_cast(g, graph_binary(g, OP_LT, zero, logits), F32);
    Node *table = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_einsum(g, "i,j->ij", (Node *[]){graph_cast(g, right, F32), picked}, 2, false));
    Node *every = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_sum(g, picked, (int[]){0}, 1));
    Node *number = NODE(g, OP_TOTAL, NULL, 0, NULL, graph_number(g, 1, F32));
    graph_result(g, ROLE_METRIC, "table", 3, table, NULL);
    graph_result(g, ROLE_METRIC, "share", 4, graph_binary(g, OP_DIV, every, graph_binary(g, OP_MAXIMUM, graph_weak(g, 1), number)), NULL);
    if (!training) {
        graph_result(g, ROLE_OUTPUT, "logits", 0, logits, NULL);
        return g;
    }
    Node *lr = graph_binary(g, OP_MUL, graph_weak(g, 0.1), graph_binary(g, OP_POW, graph_weak(g, 0.9), graph_run(g, RUN_STEP, 0)));
    graph_result(g, ROLE_UPDATE, NULL, RUNNING_MEAN, norm[1], NULL);
    graph_result(g, ROLE_UPDATE, NULL, RUNNING_VAR, norm[2], NULL);
    for (int k = 0; k < 4; k++) {
        Node *w = graph_variable(g, k), *step = graph_gradient(g, k);
        if (k == W_IN) {
            step = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, graph_variable(g, VELOCITY), graph_weak(g, 0.9)), step);
            graph_result(g, ROLE_UPDATE, NULL, VELOCITY, step, NULL);
        }
        graph_result(g, ROLE_UPDATE, NULL, k, graph_binary(g, OP_SUB, w, graph_binary(g, OP_MUL, lr, step)), NULL);
    }
    graph_result(g, ROLE_REPORT, "lr", 0, lr, NULL);
    return g;
}

/* ---- batchnorm: the table against the library body */

static void test_batchnorm(void)
{
    static const int64_t GROUPS[] = {0, 4, -1, 1};
    for (int k = 0; k < COUNT(GROUPS); k++) {
        Model *m = net_model(11, GROUPS[k]);
        Graph *g = net_graph(m, GROUPS[k], true);
        const char *why = NULL;
        Graph *body = differentiate(inline_bodies(g)), *table = differentiate(g);
        if (count_op(table, OP_COMPOSITE) || count_op(body, OP_COMPOSITE))
            why = "a composite is left";
        Graph *graphs[] = {table, simplify(table), simplify(body)};
        for (int which = 0; which < 3 && !why; which++)
            for (int64_t alive = 11; alive > 2 && !why; alive -= 3) {
                Machine machine = machine_of(m, alive, 11);
                set_variables(&machine);
                Graph *other = graphs[which];
                Outcome x = machine_run(&machine, body, false), y = machine_run(&machine, other, false);
                for (int i = 0; i < body->result_count && !why; i++) {
                    const Result *r = &body->results[i];
                    if (r->role == ROLE_METRIC)
                        continue;
                    for (int64_t e = 0; e < shape_count(&r->value->shape) && !why; e++)
                        if (!near(x.values[i][e], y.values[i][e], 1e-12))
                            why = format("graph %d, %lld of 11 alive, %s %s %d [%lld]: %.17g, %.17g expected", which,
                                         (long long)alive, r->role == ROLE_GRADIENT ? "gradient" : "result",
                                         r->name ? r->name : "", r->index, (long long)e, y.values[i][e], x.values[i][e]);
                }
            }
        check(!why, format("batchnorm.group_%lld", (long long)GROUPS[k]), why);
    }
}

/* ---- whole steps */

typedef struct Net {
    Model *m;
    Graph *train, *eval, *report_train, *report_eval, *accumulate, *prologue;
} Net;

static Net compile_net(int64_t batch, int64_t group, int64_t micro_batches, int clip_kind)
{
    Net n = {.m = net_model(batch, group)};
    n.m->accumulate = micro_batches;
    n.m->clip_kind = clip_kind == 1 ? CLIP_GLOBAL_NORM : clip_kind == 2 ? CLIP_NORM : clip_kind == 3 ? CLIP_VALUE : CLIP_NONE;
    n.m->clip = clip_kind == 3 ? 0.01 : 0.05;
    n.train = simplify(differentiate(simplify(net_graph(n.m, group, true))));
    n.eval = simplify(net_graph(n.m, group, false));
    make_reports(n.m, &n.train, &n.eval, &n.report_train, &n.report_eval);
    Graph **all[] = {&n.train, &n.eval, &n.report_train, &n.report_eval};
    n.train = update(n.train);
    for (int i = 0; i < COUNT(all); i++)
        *all[i] = distribute(simplify(*all[i]));
    split_micro_batches(n.m, n.train, &n.train, &n.accumulate, &n.prologue);
    return n;
}

static void finish(Graph **g, bool ragged)
{
    if (*g)
        *g = distribute(specialise(*g, ragged));
}

static void finish_net(Net *n, bool ragged)
{
    finish(&n->train, ragged);
    finish(&n->accumulate, ragged);
    finish(&n->prologue, ragged);
    finish(&n->eval, ragged);
    finish(&n->report_train, false);
    finish(&n->report_eval, false);
}

/* shares of samples [from, to), multiples of the group; missing samples if ragged */
static void share(Machine *m, const Model *model, int devices, int64_t from, int64_t to, bool ragged)
{
    share_samples(m, devices, from, to);
    int64_t at = from, groups = (to - from + model->group - 1) / model->group;
    for (int d = 0; d < devices; d++) {
        int64_t mine = (groups / devices + (d < groups % devices)) * model->group;
        m->first[d] = at;
        m->alive[d] = at + mine < to ? mine : to - at;
        m->capacity[d] = m->alive[d] + (ragged ? d % 3 * model->group : 0);
        if (m->capacity[d] < 1)
            m->capacity[d] = 1;
        at += m->alive[d];
    }
}

/* three steps; values after them, and the reports, go into `out` */
static void train_net(Net *n, Machine *m, int devices, int64_t samples, bool ragged, double *out, int *count)
{
    const Model *model = n->m;
    set_variables(m);
    *count = 0;
    int64_t a = model->accumulate, micro = (samples + a - 1) / a;
    micro = (micro + model->group - 1) / model->group * model->group;
    int last = (int)((samples + micro - 1) / micro) - 1;
    for (m->step = 1; m->step <= 3; m->step++) {
        m->samples = samples;
        for (int phase = n->prologue ? 0 : 1; phase < 2; phase++)
            for (int k = 0; k <= last; k++) {
                int64_t from = k * micro, to = from + micro < samples ? from + micro : samples;
                m->micro = k;
                share(m, model, devices, from, to, ragged);
                Graph *g = phase == 0 ? n->prologue : k < last ? n->accumulate : n->train;
                Outcome y = machine_run(m, g, true);
                if (g == n->train)
                    for (int i = 0; i < g->result_count; i++)
                        if (g->results[i].role == ROLE_REPORT)
                            out[(*count)++] = y.values[i][0];
            }
    }
    for (int v = 0; v < NET_VARIABLES; v++)
        for (int64_t i = 0; i < shape_count(&model->variables[v].shape); i++)
            out[(*count)++] = m->variables[0][v][i];
    Graph *reports[] = {n->report_train, n->report_eval};
    share(m, model, devices, 0, samples, ragged);
    m->samples = samples;
    if (model->accumulate == 1)
        machine_run(m, n->eval, true);
    for (int k = 0; k < (model->accumulate == 1 ? 2 : 1); k++) {
        Outcome y = machine_run(m, reports[k], true);
        for (int i = 0; i < reports[k]->result_count; i++)
            if (reports[k]->results[i].role == ROLE_REPORT)
                out[(*count)++] = y.values[i][0];
    }
}

static const char *compare_numbers(const double *a, int count_a, const double *b, int count_b, double tolerance)
{
    if (count_a > count_b)
        return format("%d numbers and %d", count_a, count_b);
    for (int i = 0; i < count_a; i++)
        if (!near(a[i], b[i], tolerance) || a[i] != a[i])
            return format("number %d is %.17g, %.17g expected", i, a[i], b[i]);
    return NULL;
}

static void test_steps(void)
{
    static double expected[4096], found[4096];
    static const int64_t GROUPS[] = {0, 4};
    int count, other;
    for (int k = 0; k < COUNT(GROUPS); k++)
        for (int clip = 0; clip < 4; clip++) {
            Machine m = {.model = NULL};
            Net one = compile_net(11, GROUPS[k], 1, clip);
            m.model = one.m;
            train_net(&one, &m, 1, 11, false, expected, &count);
            const char *why = NULL;
            for (int devices = 1; devices <= MOST_DEVICES && !why; devices++)
                for (int ragged = 0; ragged < 2 && !why; ragged++) {
                    Net n = compile_net(11, GROUPS[k], 1, clip);
                    finish_net(&n, ragged);
                    m.model = n.m;
                    if (!ragged && devices > 2 && GROUPS[k])
                        continue; /* a device without samples is always ragged */
                    train_net(&n, &m, devices, 11, ragged, found, &other);
                    why = compare_numbers(expected, count, found, other, 1e-10);
                    if (why || count != other)
                        why = format("%d devices, %s: %s", devices, ragged ? "ragged" : "full", why ? why : "another count");
                }
            check(!why, format("steps.devices.group_%lld.clip_%d", (long long)GROUPS[k], clip), why);
        }
    /* a short last batch: the number of samples is known at run time only */
    Machine m = {.model = NULL};
    Net short_one = compile_net(11, 0, 1, 0), short_two = compile_net(11, 0, 1, 0);
    m.model = short_one.m;
    train_net(&short_one, &m, 1, 7, false, expected, &count);
    finish_net(&short_two, true);
    m.model = short_two.m;
    train_net(&short_two, &m, 3, 7, true, found, &other);
    const char *why = compare_numbers(expected, count, found, other, 1e-10);
    check(!why, "steps.short_batch", why);
    /* micro-batches */
    for (int64_t a = 2; a <= 4; a++)
        for (int ragged = 0; ragged < 2; ragged++) {
            Net whole = compile_net(12, 2, 1, 1), parts = compile_net(12, 2, a, 1);
            m.model = whole.m;
            train_net(&whole, &m, 1, ragged ? 11 : 12, false, expected, &count);
            finish_net(&parts, ragged);
            m.model = parts.m;
            train_net(&parts, &m, ragged ? 2 : 1, ragged ? 11 : 12, ragged, found, &other);
            why = compare_numbers(found, other, expected, count, 1e-10);
            check(!why, format("steps.accumulate_%lld.%s", (long long)a, ragged ? "ragged" : "full"), why);
        }
}

static void test_reductions(void)
{
    Net n = compile_net(11, 0, 1, 0);
    int reduces = 0, norm = 0, weights = 0;
    for (int i = 0; i < n.train->node_count; i++) {
        const Node *r = n.train->nodes[i];
        if (r->op != OP_REDUCE)
            continue;
        reduces++;
        norm += r->shape.rank == 1 && r->shape.extent[0] == 10;
        weights += r->shape.rank == 2;
    }
    check(norm == 2, "batchnorm.two_reductions", format("%d reductions of its sums", norm));
    check(weights == 2, "distribute.one_reduction_per_weight", format("%d", weights));
    /* besides: the weights of the first loss, and the two losses of samples that are reported */
    check(reduces <= 2 + 2 + 1 + 2, "distribute.few_reductions", format("%d reductions", reduces));
}

/* ---- what reports say, by hand */

static void test_reports(void)
{
    Net n = compile_net(11, 0, 1, 0);
    finish_net(&n, false);
    Machine m = machine_of(n.m, 11, 11);
    set_variables(&m);
    Outcome y[3];
    for (int k = 0; k < 3; k++) { /* eval over samples 0 .. 10, 11 .. 21, and the first 4 of the next */
        m.first[0] = 11 * k;
        m.samples = m.alive[0] = m.capacity[0] = 11;
        Graph *plain = simplify(net_graph(n.m, 0, false));
        Machine raw = m;
        y[k] = machine_run(&raw, plain, false);
        machine_run(&m, n.eval, true);
    }
    Graph *plain = simplify(net_graph(n.m, 0, false));
    Outcome report = machine_run(&m, n.report_eval, true);
    double hits = 0, table[16] = {0}, num = 0, den = 0;
    int accuracy = -1, weighted = -1;
    for (int i = 0; i < plain->result_count; i++)
        if (plain->results[i].role == ROLE_METRIC) {
            accuracy = plain->results[i].index == 0 ? i : accuracy;
            weighted = plain->results[i].index == 1 ? i : weighted;
        }
    int logits = find_result(plain, ROLE_OUTPUT, "logits", 0);
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 11; s++) {
            hits += y[k].values[accuracy][s];
            double label = floor((number_of(2, (uint64_t)(11 * k + s), 0) + 1) / 2 * 4);
            for (int j = 0; j < 4; j++)
                table[(int)label * 4 + j] += y[k].values[logits][s * 4 + j] > 0;
            for (int e = 0; e < 12; e++) {
                double w = number_of(1, (uint64_t)(11 * k + s), (uint64_t)(e % 4));
                num += w > 0 ? w * y[k].values[weighted][s * 12 + e] : 0;
                den += w > 0 ? w : 0;
            }
        }
    Graph *g = n.report_eval;
    double a = report.values[find_result(g, ROLE_REPORT, "accuracy", 0)][0];
    check(near(a, hits / 33, 1e-12), "report.mean", format("%g, %g expected", a, hits / 33));
    double w = report.values[find_result(g, ROLE_REPORT, "weighted", 0)][0];
    check(near(w, num / den, 1e-12), "report.weighted", format("%g, %g expected", w, num / den));
    const char *why = NULL;
    double all = 0;
    for (int i = 0; i < 16; i++) {
        const char *name = format("table[%d,%d]", i / 4, i % 4);
        int at = find_result(g, ROLE_REPORT, name, 0);
        all += table[i];
        if (at < 0 || report.values[at][0] != table[i])
            why = format("%s is not %g", name, table[i]);
    }
    check(!why, "report.table", why);
    double share_of = report.values[find_result(g, ROLE_REPORT, "share", 0)][0];
    check(near(share_of, all / 33, 1e-12), "report.totals", format("%g, %g expected", share_of, all / 33));
    check(near(report.values[find_result(g, ROLE_REPORT, "constant", 0)][0], 3, 1e-12), "report.constant", "not 3");
    check(find_result(g, ROLE_REPORT, "loss", 0) >= 0 && find_result(g, ROLE_REPORT, "loss.entropy", 0) >= 0, "report.losses",
          "a loss is missing");
    double after = 0;
    for (int v = NET_VARIABLES; v < n.m->variable_count; v++)
        for (int64_t i = 0; i < shape_count(&n.m->variables[v].shape); i++)
            after += fabs(m.variables[0][v][i]);
    check(after == 0, "report.reset", "accumulators are not zero");
    check(count_op(g, OP_REDUCE) == 1, "report.one_collective", format("%d collectives", count_op(g, OP_REDUCE)));
}

/* ---- layout */

static void test_layout(void)
{
    Model *m = toy_model();
    int w = add_variable(m, "conv.weight", WEIGHT, SHAPE(6, 2, 3, 3)), d = add_variable(m, "fc.weight", WEIGHT, SHAPE(5, 6));
    int v = add_variable(m, "conv.weight.velocity", OPTIMIZER_STATE, SHAPE(6, 2, 3, 3));
    m->variables[v].owner = w;
    Graph *g = graph_new(m, "train", NULL);
    int64_t ints[] = {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    Node *y = NODE(g, OP_CONVOLVE, ints, 12, NULL, graph_input(g, 3), graph_variable(g, w));
    y = graph_einsum(g, "hwc,oc->o", (Node *[]){y, graph_variable(g, d)}, 2, false);
    graph_result(g, ROLE_OUTPUT, "y", 0, y, NULL);
    choose_layout(m, &g, 1);
    const int conv[] = {2, 3, 1, 0}, plain[] = {0, 1};
    check(!memcmp(m->variables[w].order, conv, sizeof conv), "layout.convolution", "channels out are not innermost");
    check(!memcmp(m->variables[v].order, conv, sizeof conv), "layout.optimizer_state", "it does not follow its weight");
    check(!memcmp(m->variables[d].order, plain, sizeof plain), "layout.dense", "its order changed");
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
    make_reports(m, &train, &eval, &reports[0], &reports[1]);
    train = distribute(simplify(update(train)));
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
    test_rules();
    test_simplify(argc > 1 ? atoi(argv[1]) : 300);
    test_distribute(argc > 1 ? atoi(argv[1]) : 300);
    test_batchnorm();
    test_steps();
    test_reductions();
    test_reports();
    test_layout();
    test_depth();
    return failures > 0;
}
