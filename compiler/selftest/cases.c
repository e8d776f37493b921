/* cases.c: compare the kernels of a graph with the interpreter.
 *
 * A graph is compiled with fused kernels, and also with a kernel for each operation. Inputs and variables are filled with random
 * values, and all other tensors with NaN, because what is read must have been written. A runner calls the kernels (at once, or in
 * a program of its own); then every output, updated variable and reported number must agree with the interpreter. */
#include "compiler/selftest/cases.h"
#include "compiler/ir/rebuild.h"
#include "compiler/kernel/contraction_internal.h"
#include "compiler/kernel/kernel.h"
#include "runtime/abi/mgpu_half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

void seed_random(uint64_t seed) { random_state = seed; }

int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state >> 8) % below;
}

double uniform(void) { return (double)draw(1 << 24) / (1 << 23) - 1; }

/* ---- models */

Model *new_model(int64_t batch)
{
    Model *m = NEW(Model);
    m->batch = batch;
    m->name = "test";
    m->source = NEW(Source);
    m->source->file = "test.net";
    m->source->text = "";
    m->seed = SEED;
    return m;
}

Graph *new_graph(Model *m)
{
    Graph *g = graph_new(m, "test", NULL);
    Place *at = NEW(Place);
    *at = (Place){.source = m->source, .line = 1, .column = 1};
    g->at = at;
    g->path = "";
    return g;
}

Node *new_input(Graph *g, Dtype dtype, Shape shape, int64_t classes)
{
    Model *m = g->model;
    Input input = {.name = format("x%d", m->input_count), .dtype = dtype, .shape = shape, .classes = classes};
    APPEND(m->inputs, m->input_count, input);
    return graph_input(g, m->input_count - 1);
}

Node *new_variable(Graph *g, Dtype dtype, Shape shape)
{
    Model *m = g->model;
    Variable v = {.name = format("layer.w%d", m->variable_count), .dtype = dtype, .shape = shape, .kind = STATE, .owner = -1};
    for (int i = 0; i < shape.rank; i++)
        v.order[i] = i;
    for (int i = shape.rank - 1; i > 0; i--) {
        int k = (int)draw(i + 1), t = v.order[i];
        v.order[i] = v.order[k];
        v.order[k] = t;
    }
    APPEND(m->variables, m->variable_count, v);
    return graph_variable(g, m->variable_count - 1);
}

/* ---- cases */

Case new_case(const char *name, Graph *g, Program *program, bool separate)
{
    static const Options FUSE = {0}, SEPARATE = {.no_fuse = true};
    Case c = {.name = name, .graph = g, .values = random_state, .tolerance = 1e-12};
    program->model = g->model;
    program->options = &FUSE;
    c.separate = c.fused = fuse(program, g, PHASE_TRAIN, true);
    if (separate) {
        program->options = &SEPARATE;
        c.separate = fuse(program, g, PHASE_TRAIN, true);
        program->options = &FUSE;
    }
    return c;
}

/* ---- values */

static mgpu_step step_block(void)
{
    return (mgpu_step){.step = STEP,
                       .sample = FIRST_SAMPLE,
                       .batch = FIRST_SAMPLE - FIRST_PLACE,
                       .valid = SAMPLES - 2,
                       .samples = 9,
                       .total_steps = 100,
                       .epoch = 0.25,
                       .progress = 0.5,
                       .total_epochs = 4,
                       .seed = SEED};
}

static double value_of_run(const Node *n)
{
    mgpu_step s = step_block();
    switch (n->ints[0]) {
    case RUN_STEP: return (double)s.step;
    case RUN_PROGRESS: return s.progress;
    case RUN_EPOCH: return s.epoch;
    default: return (double)s.samples;
    }
}

static bool leaf(void *context, const Node *n, double *out, int64_t count)
{
    const CaseValues *v = context;
    for (int64_t i = 0; i < count; i++)
        switch (n->op) {
        case OP_INPUT: out[i] = v->input[n->ints[0]][i]; break;
        case OP_VARIABLE: out[i] = v->variable[n->ints[0]][i]; break;
        case OP_RUN: out[i] = value_of_run(n); break;
        case OP_VALID: out[i] = i < step_block().valid; break;
        default: return false;
        }
    return true;
}

/* Turns a number in [-1, 1) into one that the type represents exactly. */
static double fit(Dtype t, double v, int64_t classes)
{
    if (t == BOOL)
        return v > 0;
    if (dtype_is_float(t))
        return dtype_is_half(t) ? floor(v * 64) / 64 : t == F32 ? (double)(float)v : v;
    return classes ? floor((v + 1) / 2 * (double)classes) : floor((v + 1) * 4);
}

static double *draw_values(int64_t count, Dtype t, int64_t classes)
{
    double *values = NEW_ARRAY(double, count);
    for (int64_t k = 0; k < count; k++)
        values[k] = fit(t, uniform(), classes);
    return values;
}

static double **interpret_case(CaseValues *v, double noise, uint64_t noise_seed)
{
    const Case *c = v->c;
    Interpretation in = {.samples = SAMPLES,
                         .first_sample = FIRST_SAMPLE,
                         .first_place = FIRST_PLACE,
                         .step = STEP,
                         .seed = SEED,
                         .leaf = leaf,
                         .context = v,
                         .f32_range = true,
                         .noise = noise,
                         .noise_seed = noise_seed};
    in.values = NEW_ARRAY(double *, c->graph->node_count);
    interpret(c->graph, &in);
    return in.values;
}

static int64_t result_elements(const Node *n) { return shape_count(&n->shape) * (n->has_samples ? SAMPLES : 1); }

/* Computes how much noise changes each result: the largest change of several tries. Every second try has AS_MUCH times the noise,
 * for results that jump when a number is near an integer or two numbers are nearly equal. Where noise turns a number into NaN or
 * back, any result is allowed. */
enum { AS_MUCH = 16, FEW = 4, MANY = 128 };

static void add_slack(CaseValues *v, int tries)
{
    const Graph *g = v->c->graph;
    if (!v->slack)
        v->slack = NEW_ARRAY(double *, g->result_count);
    for (int i = 0; i < g->result_count && v->tries == 0; i++)
        v->slack[i] = NEW_ARRAY(double, result_elements(g->results[i].value));
    for (int k = v->tries + 1; k <= tries; k++) {
        double much = k % 2 ? 1 : AS_MUCH, **noisy = interpret_case(v, v->c->noise * much, (uint64_t)k);
        for (int i = 0; i < g->result_count; i++) {
            const Node *n = g->results[i].value;
            for (int64_t e = 0; e < result_elements(n); e++) {
                double change = fabs(noisy[n->id][e] - v->node[n->id][e]) / much, *most = &v->slack[i][e];
                if (noisy[n->id][e] != v->node[n->id][e] &&
                    (noisy[n->id][e] == noisy[n->id][e] || v->node[n->id][e] == v->node[n->id][e]))
                    *most = !(change < INFINITY) ? INFINITY : change > *most ? change : *most;
            }
        }
        for (int i = 0; i < g->node_count; i++)
            free(noisy[i]);
    }
    v->tries = tries;
}

CaseValues case_values(const Case *c)
{
    const Model *m = c->graph->model;
    CaseValues v = {.c = c, .input = NEW_ARRAY(double *, m->input_count), .variable = NEW_ARRAY(double *, m->variable_count)};
    random_state = c->values;
    for (int i = 0; i < m->input_count; i++)
        v.input[i] = draw_values(SAMPLES * shape_count(&m->inputs[i].shape), m->inputs[i].dtype, m->inputs[i].classes);
    for (int i = 0; i < m->variable_count; i++)
        v.variable[i] = draw_values(shape_count(&m->variables[i].shape), m->variables[i].dtype, 0);
    v.node = interpret_case(&v, 0, 0);
    if (c->noise > 0)
        add_slack(&v, FEW);
    return v;
}

void case_values_free(CaseValues *v)
{
    for (int i = 0; i < v->c->graph->node_count; i++)
        free(v->node[i]);
}

/* ---- tensors in memory */

static void put(Dtype t, char *to, int64_t i, double v)
{
    switch (t) {
    case BOOL: ((bool *)to)[i] = v != 0; break;
    case U8: ((uint8_t *)to)[i] = (uint8_t)v; break;
    case I8: ((int8_t *)to)[i] = (int8_t)v; break;
    case U16: ((uint16_t *)to)[i] = (uint16_t)v; break;
    case I16: ((int16_t *)to)[i] = (int16_t)v; break;
    case U32: ((uint32_t *)to)[i] = (uint32_t)v; break;
    case I32: ((int32_t *)to)[i] = (int32_t)v; break;
    case I64: ((int64_t *)to)[i] = (int64_t)v; break;
    case F16: ((mgpu_f16 *)to)[i] = mgpu_to_f16((float)v); break;
    case BF16: ((mgpu_bf16 *)to)[i] = mgpu_to_bf16((float)v); break;
    case F32: ((float *)to)[i] = (float)v; break;
    default: ((double *)to)[i] = v; break;
    }
}

static double get(Dtype t, const char *from, int64_t i)
{
    switch (t) {
    case BOOL: return ((const uint8_t *)from)[i]; /* only 0 and 1 are right */
    case U8: return ((const uint8_t *)from)[i];
    case I8: return ((const int8_t *)from)[i];
    case U16: return ((const uint16_t *)from)[i];
    case I16: return ((const int16_t *)from)[i];
    case U32: return ((const uint32_t *)from)[i];
    case I32: return ((const int32_t *)from)[i];
    case I64: return (double)((const int64_t *)from)[i];
    case F16: return (double)mgpu_from_f16(((const mgpu_f16 *)from)[i]);
    case BF16: return (double)mgpu_from_bf16(((const mgpu_bf16 *)from)[i]);
    case F32: return (double)((const float *)from)[i];
    default: return ((const double *)from)[i];
    }
}

/* Returns the place in memory of element i of a variable. */
static int64_t in_memory(const Variable *v, int64_t i)
{
    int64_t index[MAX_RANK] = {0}, at = 0;
    for (int k = v->shape.rank - 1; k >= 0; k--) {
        index[k] = i % v->shape.extent[k];
        i /= v->shape.extent[k];
    }
    for (int k = 0; k < v->shape.rank; k++)
        at = at * v->shape.extent[v->order[k]] + index[v->order[k]];
    return at;
}

static char *fill(const CaseValues *v, const Tensor *t, CaseRunner *runner)
{
    const Model *m = v->c->graph->model;
    int64_t bytes = tensor_bytes(t, SAMPLES);
    char *memory = runner->memory(runner, bytes);
    memset(memory, 0xFF, (size_t)bytes);
    if (t->kind == TENSOR_INPUT)
        for (int64_t i = 0; i < SAMPLES * shape_count(&t->shape); i++)
            put(t->dtype, memory, i, v->input[t->index][i]);
    if (t->kind == TENSOR_VARIABLE)
        for (int64_t i = 0; i < shape_count(&t->shape); i++)
            put(t->dtype, memory, in_memory(&m->variables[t->index], i), v->variable[t->index][i]);
    return memory;
}

/* ---- running */

enum { GUARD_BYTES = 4096 }; /* bytes after a workspace that kernels must not write */

const char *case_start(const CaseValues *v, const Phase *p, int threads, CaseRunner *runner, CaseRun *run)
{
    *run = (CaseRun){p, NEW_ARRAY(char *, p->tensor_count), NEW_ARRAY(char *, p->task_count)};
    for (int i = 0; i < p->tensor_count; i++)
        run->memory[i] = fill(v, p->tensors[i], runner);
    for (int i = 0; i < p->task_count; i++) {
        const Task *t = p->tasks[i];
        if (t->kind != TASK_KERNEL)
            continue;
        const Kernel *k = t->kernel;
        Trial trial = {.threads = threads,
                       .samples = SAMPLES,
                       .step = step_block(),
                       .arguments = NEW_ARRAY(void *, t->read_count + t->write_count + 1),
                       .random = (uint64_t)draw(INT32_MAX) + 1,
                       .shared = k->contraction && k->contraction->workers_share};
        for (int r = 0; r < k->read_count; r++) /* a task that a library may do with a matmul has more than its kernel */
            trial.arguments[trial.work_argument++] = run->memory[t->reads[r]->id];
        for (int w = 0; w < k->write_count; w++)
            trial.arguments[trial.work_argument++] = run->memory[t->writes[w]->id];
        int64_t bytes =
            runner->workspace ? runner->workspace(k, t) : t->workspace_bytes + SAMPLES * t->workspace_bytes_per_sample;
        if (k->epilogue)
            bytes = k->partial_bytes;
        trial.stride = (bytes + 63) / 64 * 64;
        trial.work = runner->memory(runner, threads * trial.stride + GUARD_BYTES);
        run->guard[i] = memset(trial.work + threads * trial.stride, 0x55, GUARD_BYTES);
        const char *wrong = runner->call(runner, k, &trial);
        if (wrong)
            return format("kernel %s: %s", k->name, wrong);
    }
    return NULL;
}

static bool close_enough(double got, double want, double allowed)
{
    if (got != got || want != want)
        return (got != got && want != want) || allowed == INFINITY;
    return got == want || fabs(got - want) <= allowed;
}

/* The relative error of one rounding when the type is stored. */
static double stored_exactly_to(Dtype t) { return t == BF16 ? 0x1p-7 : t == F16 ? 0x1p-10 : 0; }

static const char *compare(const CaseValues *v, int result, const Tensor *t, const char *memory, const Variable *variable,
                           int64_t first)
{
    const Node *n = v->c->graph->results[result].value;
    const double *want = v->node[n->id];
    for (int64_t i = 0; i < result_elements(n); i++) {
        double got = get(t->dtype, memory, first + (variable ? in_memory(variable, i) : i));
        double allowed = fmax(v->c->tolerance, v->c->noise > 0 ? stored_exactly_to(t->dtype) : 0) * fmax(1, fabs(want[i])) +
                         (v->slack ? AS_MUCH * v->slack[result][i] : 0);
        if (!close_enough(got, want[i], allowed))
            return format("element %lld of %s is %.17g, %.17g expected (node %d, %s)", (long long)i, t->name, got, want[i], n->id,
                          OP_INFO[n->op].name);
    }
    return NULL;
}

static const Tensor *find(const Phase *p, TensorKind kind, int index)
{
    for (int i = 0; i < p->tensor_count; i++)
        if (p->tensors[i]->kind == kind && p->tensors[i]->index == index)
            return p->tensors[i];
    return NULL;
}

/* Describes the last kernel that writes the tensor. */
static const char *writer(const Phase *p, const Tensor *t)
{
    for (int i = p->task_count - 1; i >= 0; i--)
        for (int w = 0; w < p->tasks[i]->write_count && p->tasks[i]->kind == TASK_KERNEL; w++)
            if (p->tasks[i]->writes[w] == t)
                return format("kernel %s (%s)", p->tasks[i]->kernel->name, p->tasks[i]->kernel->title);
    return "no kernel";
}

static const char *compare_all(const CaseValues *v, const CaseRun *run, uint64_t *bits)
{
    const Phase *p = run->phase;
    const Graph *g = v->c->graph;
    int reports = 0, outputs = 0;
    for (int i = 0; i < g->result_count; i++) {
        const Result *r = &g->results[i];
        const Tensor *t = r->role == ROLE_UPDATE   ? find(p, TENSOR_VARIABLE, r->index)
                          : r->role == ROLE_OUTPUT ? find(p, TENSOR_OUTPUT, outputs++)
                                                   : find(p, TENSOR_REPORT, 0);
        if (!t)
            return format("result %d is not written", i);
        const char *wrong = compare(v, i, t, run->memory[t->id], r->role == ROLE_UPDATE ? &g->model->variables[r->index] : NULL,
                                    r->role == ROLE_REPORT ? reports++ : 0);
        if (wrong)
            return format("%s: %s", writer(p, t), wrong);
        *bits = hash_bytes(*bits, run->memory[t->id], (size_t)tensor_bytes(t, SAMPLES));
    }
    return NULL;
}

const char *case_end(CaseValues *v, const CaseRun *run, uint64_t *bits)
{
    const Phase *p = run->phase;
    for (int i = 0; i < p->task_count; i++)
        for (int k = 0; run->guard[i] && k < GUARD_BYTES; k++)
            if (run->guard[i][k] != 0x55)
                return format("kernel %s (%s): it writes behind its workspace", p->tasks[i]->kernel->name,
                              p->tasks[i]->kernel->title);
    const char *wrong = compare_all(v, run, bits);
    if (!wrong || v->c->noise == 0 || v->tries == MANY)
        return wrong;
    add_slack(v, MANY); /* few tries may have missed a jump */
    return compare_all(v, run, bits);
}
