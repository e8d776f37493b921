/* machine.h: what tests of passes stand on: reporting, a machine of several devices that interprets a graph (a REDUCE is
 * the sum over the devices), and a model to play with. */
#ifndef MGPU_TEST_MACHINE_H
#define MGPU_TEST_MACHINE_H

#include "compiler/passes/composite.h"
#include "compiler/ir/rebuild.h"
#include "compiler/passes/stages.h"
#include "runtime/abi/mgpu_moments.h"

#include <math.h>
#include <stdlib.h>

/* ---- reporting */

static int failures;

static inline void check(bool good, const char *name, const char *why)
{
    if (good) {
        printf("ok %s\n", name);
    } else {
        printf("not ok %s: %s\n", name, why);
        failures++;
    }
}

static uint64_t random_state;
static inline int draw(int n) /* 0 .. n - 1 */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

/* ---- the machine: devices, their samples, and the values of leaves */

enum { MOST_DEVICES = 4 };

typedef struct Machine {
    const Model *model;
    int devices;
    int64_t first[MOST_DEVICES], valid[MOST_DEVICES], capacity[MOST_DEVICES];
    int64_t begin;                /* the first sample of the whole step */
    int64_t samples, micro, step; /* of the whole step; number of the micro-batch */
    double **variables[MOST_DEVICES];
    double **reduced; /* what the k-th transfer gives each device: [k x MOST_DEVICES + device] */
    int variable_count, device;
    bool exact;   /* BF16 is not rounded, either */
    double noise; /* as in Interpretation */
    uint64_t noise_seed;
    bool f32_range;
    double (*input)(const Model *, int input, int64_t sample, int64_t element); /* NULL: numbers in (-1, 1) */
    const double *run;      /* by RunScalar, of those that this struct does not know; NULL: a quarter each */
    const double *settings; /* by number; NULL: NaN */
} Machine;

static inline double number_of(uint64_t a, uint64_t b, uint64_t c) /* in (-1, 1), never 0 */
{
    uint64_t key[3] = {a, b, c};
    return ((double)(hash_bytes(7, key, sizeof key) >> 12) + 0.5) * 0x1p-51 - 1;
}

static inline bool machine_leaf(void *context, const Node *n, double *out, int64_t count)
{
    const Machine *m = context;
    int64_t elements = shape_count(&n->shape), valid = m->valid[m->device], first = m->first[m->device];
    switch (n->op) {
    case OP_INPUT:
        for (int64_t i = 0; i < count; i++) {
            int64_t s = i / (elements ? elements : 1), real = s < valid ? s : valid ? valid - 1 : 0;
            if (m->input) {
                out[i] = m->input(m->model, (int)n->ints[0], first + real, i - s * elements);
                continue;
            }
            double v = number_of((uint64_t)n->ints[0], (uint64_t)(first + real), (uint64_t)(i - s * elements));
            int64_t classes = m->model->inputs[n->ints[0]].classes;
            out[i] = classes ? floor((v + 1) / 2 * (double)classes) : v;
        }
        return true;
    case OP_VARIABLE:
        for (int64_t i = 0; i < count; i++)
            out[i] = n->ints[0] >= m->variable_count ? m->reduced[(n->ints[0] - m->variable_count) * MOST_DEVICES + m->device][i]
                                                     : m->variables[m->device][n->ints[0]][i];
        return true;
    case OP_RUN:
        *out = n->ints[0] == RUN_SAMPLES   ? (double)m->samples
               : n->ints[0] == RUN_MICRO   ? (double)m->micro
               : n->ints[0] == RUN_STEP    ? (double)m->step
               : n->ints[0] == RUN_SETTING ? m->settings ? m->settings[n->ints[1]] : NAN
               : m->run                    ? m->run[n->ints[0]]
                                           : 0.25;
        return true;
    case OP_VALID:
        for (int64_t i = 0; i < count; i++)
            out[i] = i < valid;
        return true;
    case OP_GRADIENT:
        for (int64_t i = 0; i < count; i++)
            out[i] = number_of(99, (uint64_t)n->ints[0], (uint64_t)i);
        return true;
    default: return false;
    }
}

/* one device, all samples valid (or `valid` of them) */
static inline Machine machine_of(const Model *model, int64_t valid, int64_t capacity)
{
    Machine m = {.model = model, .devices = 1, .valid = {valid}, .capacity = {capacity}, .samples = valid, .step = 3};
    return m;
}

static inline void share_samples(Machine *m, int devices, int64_t from, int64_t to)
{
    int64_t total = to - from, at = from;
    m->devices = devices;
    for (int d = 0; d < devices; d++) {
        m->first[d] = at;
        m->valid[d] = total / devices + (d < total % devices);
        m->capacity[d] = m->valid[d] + d % 3 ? m->valid[d] + d % 3 : 1; /* some devices have missing samples */
        at += m->valid[d];
    }
}

static inline void set_variables(Machine *m)
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

typedef struct Outcome {
    double **values;
} Outcome; /* of each result, on each device: [device * results + result] */

/* element i of moments, merged in the devices' order */
static inline double merged(const Machine *m, int64_t i, double ***values, int node)
{
    double all[MOMENTS] = {0};
    for (int d = 0; d < m->devices; d++) {
        const double *own = values[d][node] + i / MOMENTS * MOMENTS;
        mgpu_merge_moments(&all[MOMENT_COUNT], &all[MOMENT_MEAN], &all[MOMENT_SQUARES], own[MOMENT_COUNT], own[MOMENT_MEAN],
                           own[MOMENT_SQUARES], d == 0);
    }
    return all[i % MOMENTS];
}

/* what element i of a transfer is on a device, given what each has: mgpu_transfers.h */
static inline double transferred(const Machine *m, const mgpu_participants *p, int64_t count, int device, int64_t i,
                                 double ***values, int node)
{
    mgpu_range received = mgpu_received_by(p, count, device);
    double result = i < received.begin || i >= received.end ? values[device][node][i] : 0;
    for (int d = 0; d < m->devices && i >= received.begin && i < received.end; d++) {
        mgpu_range sent = mgpu_sent_by(p, count, d);
        result += i >= sent.begin && i < sent.end ? values[d][node][i] : 0;
    }
    return result;
}

/* Runs a graph on all devices. A transfer gives them what its row says of its input on all of them: rounds until all have been
 * seen. Split values are cut into equal parts, unless the node says how. */
static inline Outcome machine_run(Machine *m, Graph *g, bool update)
{
    Outcome y = {NEW_ARRAY(double *, m->devices *(g->result_count + 1))};
    int reduces = 0;
    Node **reduce = NEW_ARRAY(Node *, g->node_count), *before = NEW_ARRAY(Node, g->node_count);
    mgpu_participants *parties = NEW_ARRAY(mgpu_participants, g->node_count);
    for (int i = 0; i < g->node_count; i++)
        if (op_is_transfer(g->nodes[i]->op)) {
            Node *n = g->nodes[i];
            int64_t *parts = NEW_ARRAY(int64_t, m->devices + 1);
            for (int d = 0; d <= m->devices; d++)
                parts[d] = shape_count(&n->shape) * d / m->devices;
            parties[reduces] = transfer_participants(n);
            parties[reduces].parts = parties[reduces].parts ? parties[reduces].parts : parts;
            before[reduces] = *n;
            reduce[reduces] = n;
            n->op = OP_VARIABLE;
            n->inputs = 0;
            n->ints = NEW(int64_t);
            n->ints[0] = m->variable_count + reduces++;
        }
    m->reduced = NEW_ARRAY(double *, reduces *MOST_DEVICES);
    for (int k = 0; k < reduces * MOST_DEVICES; k++)
        m->reduced[k] = NEW_ARRAY(double, shape_count(&reduce[k / MOST_DEVICES]->shape));
    double ***values = NEW_ARRAY(double **, m->devices);
    bool changed = true;
    for (int round = 0; changed && round <= reduces + 1; round++) {
        changed = false;
        for (int d = 0; d < m->devices; d++) {
            m->device = d;
            Interpretation run = {.exact = m->exact,
                                  .samples = m->capacity[d],
                                  .first_sample = m->first[d],
                                  .first_place = m->first[d] - m->begin,
                                  .step = m->step,
                                  .seed = 11,
                                  .noise = m->noise,
                                  .noise_seed = m->noise_seed,
                                  .f32_range = m->f32_range,
                                  .leaf = machine_leaf,
                                  .context = m,
                                  .values = values[d]};
            interpret(g, &run);
            values[d] = run.values;
        }
        for (int k = 0; k < reduces * m->devices; k++)
            for (int64_t i = 0, count = shape_count(&reduce[k / m->devices]->shape); i < count; i++) {
                int number = k / m->devices, d = k % m->devices;
                int from = before[number].in[0]->id;
                double value = before[number].op == OP_REDUCE_MOMENTS
                                   ? merged(m, i, values, from)
                                   : transferred(m, &parties[number], count, d, i, values, from);
                double *known = &m->reduced[number * MOST_DEVICES + d][i];
                changed = changed || (value != *known && (value == value || *known == *known));
                *known = value;
            }
    }
    for (int k = 0; k < reduces; k++)
        *reduce[k] = before[k];
    for (int d = 0; d < m->devices; d++) {
        for (int i = 0; i < g->result_count; i++) {
            const Node *n = g->results[i].value;
            int64_t count = shape_count(&n->shape) * (n->has_samples ? m->capacity[d] : 1);
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
static inline int find_result(const Graph *g, Role role, const char *name, int index)
{
    for (int i = 0; i < g->result_count; i++)
        if (g->results[i].role == role && (name ? strcmp(g->results[i].name, name) == 0 : g->results[i].index == index))
            return i;
    return -1;
}

static inline bool near(double a, double b, double tolerance)
{
    return (a != a && b != b) || a == b || fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b));
}

/* ---- a model to play with */

static inline Model *toy_model(void)
{
    Model *m = NEW(Model);
    m->name = "toy";
    m->batch = 11;
    m->accumulate = m->group = 1;
    m->precision = F32;
    static const struct {
        const char *name;
        Dtype type;
        Shape shape;
        int64_t classes;
    } INPUTS[] = {
        {"x", F32, {2, {3, 4}}, 0}, {"v", F32, {1, {4}}, 0}, {"label", U8, {0, {0}}, 4}, {"image", F32, {3, {5, 4, 2}}, 0}};
    m->inputs = NEW_ARRAY(Input, COUNT(INPUTS));
    m->input_count = COUNT(INPUTS);
    for (int i = 0; i < COUNT(INPUTS); i++)
        m->inputs[i] = (Input){.name = INPUTS[i].name,
                               .dtype = INPUTS[i].type,
                               .shape = INPUTS[i].shape,
                               .classes = INPUTS[i].classes,
                               .ignore = -1,
                               .other = -1};
    return m;
}

static inline int add_variable(Model *m, const char *name, VariableKind kind, Shape shape)
{
    Variable v = {.name = name, .kind = kind, .dtype = F32, .shape = shape, .trained = kind == WEIGHT, .owner = -1};
    APPEND(m->variables, m->variable_count, v);
    return m->variable_count - 1;
}

static inline Node *all_of(Graph *g, Node *x)
{
    int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return graph_sum(g, x, axes, x->shape.rank);
}

static inline Node *tamed(Graph *g, Node *x) { return graph_unary(g, OP_TANH, x); }

static inline int count_op(const Graph *g, Op op)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == op;
    return count;
}
#endif
