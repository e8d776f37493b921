/* kernel_machine.h: cases, graphs whose kernels are run beside the interpreter. TEST is the test's name, a text.
 *
 * A case is fused and left separate (add_case); all kernels are printed into one file, compiled once by the C compiler and
 * loaded; each kernel is then called as a runtime may do it, by 1 to 7 threads in parts of any size, and every output, updated
 * variable and number of the report must agree with the interpreter. */
#ifndef KERNEL_MACHINE_H
#define KERNEL_MACHINE_H

#include "compiler/ir/program.h"
#include "compiler/kernel/fuse/fuse.h"
#include "compiler/kernel/phase.h"
#include "compiler/ir/rebuild.h"
#include "compiler/plan/schedule.h"
#include "compiler/target/target.h"
#include "runtime/abi/mgpu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MGPU_SOURCE
#define MGPU_SOURCE "."
#endif
#ifndef MGPU_BINARY
#define MGPU_BINARY "build"
#endif

enum { SAMPLES = 5, FIRST_SAMPLE = 40, STEP = 3, SEED = 11 };

static uint64_t random_state;

static int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state >> 8) % below;
}

static double uniform(void) { return (double)draw(1 << 24) / (1 << 23) - 1; }

/* ---- models */

static int64_t model_batch; /* that the next model says; 0: none */

static Model *new_model(void)
{
    Model *m = NEW(Model);
    m->batch = model_batch;
    m->name = "test";
    m->source = NEW(Source);
    m->source->file = "test.net";
    m->source->text = "";
    m->seed = SEED;
    m->inputs = NEW_ARRAY(Input, 64);
    m->variables = NEW_ARRAY(Variable, 4100);
    return m;
}

static const Place *place_of(Model *m)
{
    Place *at = NEW(Place);
    *at = (Place){.source = m->source, .line = 1, .column = 1};
    return at;
}

static Graph *new_graph(Model *m)
{
    Graph *g = graph_new(m, "test", NULL);
    g->at = place_of(m);
    g->path = "";
    return g;
}

static Node *new_input(Graph *g, Dtype dtype, Shape shape, int64_t classes)
{
    Model *m = g->model;
    m->inputs[m->input_count] = (Input){.name = format("x%d", m->input_count), .dtype = dtype, .shape = shape, .classes = classes};
    return graph_input(g, m->input_count++);
}

static Node *new_variable(Graph *g, Dtype dtype, Shape shape)
{
    Model *m = g->model;
    Variable *v = &m->variables[m->variable_count];
    *v = (Variable){.name = format("layer.w%d", m->variable_count), .dtype = dtype, .shape = shape, .kind = STATE, .owner = -1};
    for (int i = 0; i < shape.rank; i++)
        v->order[i] = i;
    for (int i = shape.rank - 1; i > 0; i--) {
        int k = (int)draw(i + 1), t = v->order[i];
        v->order[i] = v->order[k];
        v->order[k] = t;
    }
    return graph_variable(g, m->variable_count++);
}

/* ---- cases */

typedef struct Case {
    const char *name;
    double tolerance;
    bool same_bits;             /* whatever the number of threads */
    bool fewer;                 /* in short runs not in one block */
    Graph *graph;
    Phase *fused, *separate;
    double **input, **variable; /* values, row-major */
    uint64_t values;            /* seed of them */
} Case;

static Case *cases;
static int case_count;
static Program program = {.target = &host_target};
static Options fuse_them, keep_separate = {.no_fuse = true};

static void add_fused_case(const char *name, Graph *g)
{
    Case c = {.name = name, .graph = g, .values = random_state, .tolerance = 1e-12};
    program.model = g->model;
    program.options = &fuse_them;
    c.separate = c.fused = fuse(&program, g, PHASE_TRAIN, true);
    APPEND(cases, case_count, c);
}

static void add_case(const char *name, Graph *g)
{
    add_fused_case(name, g);
    program.options = &keep_separate;
    cases[case_count - 1].separate = fuse(&program, g, PHASE_TRAIN, true);
}

/* ---- running */

static int failed;

static void report(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s: %s\n", TEST, name, why);
    else
        printf("ok %s: %s\n", TEST, name);
    failed += why != NULL;
}

static mgpu_step step_block(void)
{
    return (mgpu_step){.step = STEP,
                       .sample = FIRST_SAMPLE,
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
    const Case *c = context;
    for (int64_t i = 0; i < count; i++)
        switch (n->op) {
        case OP_INPUT: out[i] = c->input[n->ints[0]][i]; break;
        case OP_VARIABLE: out[i] = c->variable[n->ints[0]][i]; break;
        case OP_RUN: out[i] = value_of_run(n); break;
        case OP_VALID: out[i] = i < step_block().valid; break;
        default: return false;
        }
    return true;
}

static double fit(Dtype t, double v, int64_t classes)
{
    if (t == BOOL)
        return v > 0;
    if (dtype_is_float(t))
        return t == BF16 ? floor(v * 64) / 64 : v; /* exact */
    return classes ? floor((v + 1) / 2 * (double)classes) : floor((v + 1) * 4);
}

static void draw_values(Case *c)
{
    const Model *m = c->graph->model;
    random_state = c->values;
    c->input = NEW_ARRAY(double *, m->input_count);
    c->variable = NEW_ARRAY(double *, m->variable_count);
    for (int i = 0; i < m->input_count; i++) {
        int64_t count = SAMPLES * shape_count(&m->inputs[i].shape);
        c->input[i] = NEW_ARRAY(double, count);
        for (int64_t k = 0; k < count; k++)
            c->input[i][k] = fit(m->inputs[i].dtype, uniform(), m->inputs[i].classes);
    }
    for (int i = 0; i < m->variable_count; i++) {
        int64_t count = shape_count(&m->variables[i].shape);
        c->variable[i] = NEW_ARRAY(double, count);
        for (int64_t k = 0; k < count; k++)
            c->variable[i][k] = fit(m->variables[i].dtype, uniform(), 0);
    }
}

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
    case BF16: ((uint16_t *)to)[i] = (uint16_t)((union { float f; uint32_t bits; }){.f = (float)v}.bits >> 16); break;
    case F32: ((float *)to)[i] = (float)v; break;
    default: ((double *)to)[i] = v; break;
    }
}

static double get(Dtype t, const char *from, int64_t i)
{
    switch (t) {
    case BOOL: return ((const bool *)from)[i];
    case U8: return ((const uint8_t *)from)[i];
    case I8: return ((const int8_t *)from)[i];
    case U16: return ((const uint16_t *)from)[i];
    case I16: return ((const int16_t *)from)[i];
    case U32: return ((const uint32_t *)from)[i];
    case I32: return ((const int32_t *)from)[i];
    case I64: return (double)((const int64_t *)from)[i];
    case BF16: return (double)(union { uint32_t bits; float f; }){.bits = (uint32_t)((const uint16_t *)from)[i] << 16}.f;
    case F32: return (double)((const float *)from)[i];
    default: return ((const double *)from)[i];
    }
}

/* place in memory order of element i of a variable */
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

static char *fill(const Case *c, const Tensor *t)
{
    const Model *m = c->graph->model;
    int64_t bytes = tensor_bytes(t, SAMPLES);
    char *memory = aligned_alloc(64, ((size_t)bytes + 8 + 63) / 64 * 64); /* as in an arena */
    memset(memory, 0xFF, (size_t)bytes); /* NaN: what is read must have been written */
    if (t->kind == TENSOR_INPUT)
        for (int64_t i = 0; i < SAMPLES * shape_count(&t->shape); i++)
            put(t->dtype, memory, i, c->input[t->index][i]);
    if (t->kind == TENSOR_VARIABLE)
        for (int64_t i = 0; i < shape_count(&t->shape); i++)
            put(t->dtype, memory, in_memory(&m->variables[t->index], i), c->variable[t->index][i]);
    return memory;
}

static bool close_enough(double got, double want, double tolerance)
{
    if (got != got || want != want)
        return got != got && want != want;
    if (isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

static const char *compare(const Tensor *t, const char *memory, const Variable *v, const Node *n, const double *want, int64_t first,
                           double tolerance)
{
    int64_t count = shape_count(&n->shape) * (n->sharded ? SAMPLES : 1);
    for (int64_t i = 0; i < count; i++) {
        double got = get(t->dtype, memory, first + (v ? in_memory(v, i) : i));
        if (!close_enough(got, want[i], tolerance))
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

/* ---- workers: what a runtime may do with a kernel, one thread after the other */

enum { MOST_THREADS = 7 };
typedef struct Workers {
    int threads;
    char *work;            /* of all threads: `stride` bytes each */
    int64_t stride;
    void **arguments;
    int work_argument;
    mgpu_step step;
    bool called[MOST_THREADS];
} Workers;

static void call(Workers *workers, const mgpu_kernel *k, int thread, int64_t begin, int64_t end)
{
    mgpu_part part = {.samples = SAMPLES, .begin = begin, .end = end, .thread = thread, .threads = workers->threads,
                      .first = !workers->called[thread], .stride = workers->stride};
    workers->called[thread] = true;
    workers->arguments[workers->work_argument] = workers->work + thread * workers->stride;
    k->run(workers->arguments, &workers->step, &part);
}

/* parts of [0, extent) of random sizes, the last first, to random threads */
static void call_parts(Workers *workers, const mgpu_kernel *k, int64_t extent, int64_t grain)
{
    int64_t bound[8] = {0};
    int parts = 0, most = workers->threads == 1 ? 1 : 1 + (int)draw(COUNT(bound) - 1);
    while (bound[parts] < extent) {
        int64_t left = extent - bound[parts], size = grain * (1 + draw((left + grain - 1) / grain));
        bound[parts + 1] = bound[parts] + (parts + 1 == most || size > left ? left : size);
        parts++;
    }
    for (int i = parts - 1; i >= 0; i--)
        call(workers, k, (int)draw(workers->threads), bound[i], bound[i + 1]);
    for (int t = 0; t < workers->threads && k->finish; t++) /* every thread calls at least once */
        if (!workers->called[t])
            call(workers, k, t, 0, 0);
}

static const char *run_kernel(Workers *workers, const mgpu_kernel *k)
{
    memset(workers->called, 0, sizeof workers->called);
    memset(workers->work, 0xFF, (size_t)(workers->stride * workers->threads));
    if (k->split == MGPU_SPLIT_SAMPLES) {
        call_parts(workers, k, SAMPLES, 1);
    } else if (k->split == MGPU_SPLIT_RANGE) {
        if (k->extent < 1 || k->grain < 1)
            return format("%s has extent %lld and grain %lld", k->name, (long long)k->extent, (long long)k->grain);
        call_parts(workers, k, k->extent, k->grain);
    } else if (k->split == MGPU_SPLIT_WORKERS) {
        for (int t = workers->threads - 1; t >= 0; t--)
            call(workers, k, t, 0, 1);
    } else {
        call(workers, k, 0, 0, 1);
    }
    if (k->finish) {
        mgpu_part part = {.samples = SAMPLES, .end = 1, .threads = workers->threads, .stride = workers->stride};
        workers->arguments[workers->work_argument] = workers->work;
        k->finish(workers->arguments, &workers->step, &part);
    }
    return NULL;
}

/* Runs kernels of nests and scans in place of run_kernel; NULL: there is none. The number of threads then says in which way; all
 * others run with one. */
static const char *(*run_gpu)(const Workers *, const Kernel *, int way);

static bool is_gpu_kernel(const Kernel *k) { return k->nest_count || k->scan; }

/* bits: of all results, as one number */
static const char *run(const Case *c, const Phase *p, const mgpu_kernel *kernels, double *const *want, double tolerance, int threads,
                       uint64_t *bits)
{
    char **memory = NEW_ARRAY(char *, p->tensor_count);
    for (int i = 0; i < p->tensor_count; i++)
        memory[i] = fill(c, p->tensors[i]);
    for (int i = 0; i < p->task_count; i++) {
        const Task *t = p->tasks[i];
        if (t->kind != TASK_KERNEL)
            continue;
        void **arguments = NEW_ARRAY(void *, t->read_count + t->write_count + 1);
        int count = 0; /* a task that a library may do with a product has more after its kernel's */
        for (int k = 0; k < t->kernel->read_count; k++)
            arguments[count++] = memory[t->reads[k]->id];
        for (int k = 0; k < t->kernel->write_count; k++)
            arguments[count++] = memory[t->writes[k]->id];
        Workers workers = {
            .threads = run_gpu ? 1 : threads, .step = step_block(), .arguments = arguments, .work_argument = count};
        int64_t each = 0, bytes = t->workspace_bytes + SAMPLES * t->workspace_bytes_per_sample;
        if (run_gpu && !is_gpu_kernel(t->kernel)) /* it is run as on the host */
            bytes = t->kernel->contraction ? contraction_workspace(t->kernel->contraction, &each)
                    : t->kernel->attention ? attention_workspace(t->kernel->attention) : rows_workspace(t->kernel->rows);
        if (t->kernel->epilogue)
            bytes = t->kernel->partial_bytes;
        workers.stride = (bytes + 63) / 64 * 64;
        enum { BEHIND = 4096 }; /* bytes that nobody may touch */
        char *work = malloc((size_t)(workers.threads * workers.stride) + BEHIND + 64), *behind;
        workers.work = (char *)(((uintptr_t)work + 63) & ~(uintptr_t)63);
        behind = memset(workers.work + workers.threads * workers.stride, 0x55, BEHIND);
        const char *wrong = run_gpu && is_gpu_kernel(t->kernel) ? run_gpu(&workers, t->kernel, threads)
                                                                : run_kernel(&workers, &kernels[t->kernel->number]);
        for (int k = 0; k < BEHIND && !wrong; k++)
            if (behind[k] != 0x55)
                wrong = format("%s writes behind its workspace", t->kernel->name);
        free(work);
        if (wrong)
            return wrong;
    }
    const Graph *g = c->graph;
    const char *wrong = NULL;
    int reports = 0, outputs = 0;
    for (int i = 0; i < g->result_count && !wrong; i++) {
        const Result *r = &g->results[i];
        const double *values = want[r->value->id];
        const Tensor *t = r->role == ROLE_UPDATE ? find(p, TENSOR_VARIABLE, r->index)
                        : r->role == ROLE_OUTPUT ? find(p, TENSOR_OUTPUT, outputs++) : find(p, TENSOR_REPORT, 0);
        if (!t)
            return format("result %d is not written", i);
        wrong = compare(t, memory[t->id], r->role == ROLE_UPDATE ? &g->model->variables[r->index] : NULL, r->value, values,
                        r->role == ROLE_REPORT ? reports++ : 0, tolerance);
        *bits = hash_bytes(*bits, memory[t->id], (size_t)tensor_bytes(t, SAMPLES));
    }
    for (int i = 0; i < p->tensor_count; i++)
        free(memory[i]);
    return wrong;
}

/* ---- building */

/* the text, compiled by `command` and its two files, loaded; NULL: it was reported */
static void *build(const char *what, const Text *t, const char *command, const char *suffix, const char *libraries)
{
    const char *folder = getenv("TMPDIR"), *name = format("%s_test_%d", TEST, (int)getpid());
    folder = folder && *folder ? folder : "/tmp";
    const char *source = format("%s/%s.%s", folder, name, suffix), *library = format("%s.so", source);
    FILE *f = fopen(source, "wb");
    if (!f || fwrite(text_of(t), 1, t->length, f) != t->length || fclose(f))
        die("%s cannot be written", source);
    const char *object = format("%s.o", source); /* apart from linking, which compilers that are done soonest leave to others */
    const char *line = format("%s -I%s/runtime/abi -c %s -o %s && %s -shared %s %s -o %s -lm", command, MGPU_SOURCE, source, object, command, object, libraries, library);
    int status = system(line);
    unlink(object);
    if (status != 0) {
        report(format("the %s compiler takes the kernels", what), line);
        return NULL;
    }
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        die("%s", dlerror());
    if (!getenv("MGPU_KEEP"))
        unlink(source);
    unlink(library);
    report(format("the %s compiler takes the kernels", what), NULL);
    return handle;
}

/* Host C; the arguments, if any, are the compiler and its flags. In short runs QUICK_CC of tests/run: optimising would take most of
 * the time. */
static void *build_host(const Text *t, int argc, char **argv)
{
    const char *all = getenv("MGPU_FULL"), *compiler = getenv(all && *all ? "CC" : "QUICK_CC");
    Text command = {0};
    if (argc < 2)
        text_add(&command, "%s -std=gnu11 %s", compiler && *compiler ? compiler : "cc", all && *all ? "-O1" : "");
    for (int i = 1; i < argc; i++)
        text_add(&command, "%s ", argv[i]);
    text_add(&command, " -fopenmp-simd -fno-math-errno -fno-trapping-math -w -fPIC");
    return build("C", t, text_of(&command), "c", format("%s/lib/mgpuc/libmgpu.a", MGPU_BINARY));
}

static void check_case(Case *c, const mgpu_kernel *kernels, int *good)
{
    draw_values(c);
    Interpretation in = {.samples = SAMPLES, .first_sample = FIRST_SAMPLE, .step = STEP, .seed = SEED, .leaf = leaf, .context = c};
    in.values = NEW_ARRAY(double *, c->graph->node_count);
    interpret(c->graph, &in);
    static const int THREADS_OF[] = {1, 2, 5, 3, MOST_THREADS}; /* GPUs: as planned, one block, three blocks in another order of threads, other orders */
    const char *full = getenv("MGPU_FULL");
    int ways = run_gpu && !(full && *full) ? 3 : COUNT(THREADS_OF);
    uint64_t one_thread[2] = {0};
    bool all = true;
    for (int i = 0; i < 2 * ways && all; i++) {
        int threads = THREADS_OF[i / 2];
        if ((i % 2 && c->separate == c->fused) || (i / 2 == 1 && c->fewer))
            continue;
        uint64_t bits = 0;
        const char *wrong = run(c, i % 2 ? c->separate : c->fused, kernels, in.values, c->tolerance, threads, &bits);
        if (i < 2)
            one_thread[i] = bits;
        if (!wrong && c->same_bits && bits != one_thread[i % 2])
            wrong = "not the bits that one thread makes";
        if (wrong)
            report(format("%s, %s, %d threads", c->name, i % 2 ? "separate" : "fused", threads), wrong);
        all = all && !wrong;
    }
    *good += all;
    for (int i = 0; i < c->graph->node_count; i++)
        free(in.values[i]);
}
#endif
