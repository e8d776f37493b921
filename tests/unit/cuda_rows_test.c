/* cuda_rows_test: running sums and the k largest as CUDA C (compiler/target/cuda/rows.c, runtime/abi/mgpu_device_rows.h) on the
 * virtual GPU, against those of the host (runtime/host/rows.c): along every axis, of every type, with ties, NaN, infinities and
 * zeros of both signs. Each runs twice, with different grids and orders of threads: the same bits. */
#include "compiler/kernel/phase.h"
#include "tests/unit/cuda_module.h"

#include <math.h>

#include "compiler/target/cuda/tiles.h"
#include "runtime/abi/mgpu_rows.h"

double mgpu_to_double(const void *data, uint8_t dtype, int64_t index);
void mgpu_from_double(void *data, uint8_t dtype, int64_t index, double value);

enum { MODULES = 6, SAMPLES = 3 };

#define RUNNING_OP(NAME, name, ...) {OP_##NAME, mgpu_##name},
static const struct {
    Op op;
    void (*compute)(const mgpu_rows *, void *const *, const mgpu_part *);
} RUNNING_OPS[] = {MGPU_RUNNING_TABLE(RUNNING_OP)};

typedef struct Job {
    Rows *plan;
    Tensor operand, result[2];
    int results;
    const char *name, *what;
} Job;
static Job *jobs;
static int job_count, failures;
static uint64_t random_state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state % (uint64_t)below);
}

/* ---- jobs: nodes of x, of a type, stored as it is or as a half */

static Node *new_operand(Dtype type, Shape shape, bool has_samples, int turned)
{
    static const Source source = {.file = "test.net", .text = "", .length = 0};
    Model *model = NEW(Model);
    model->name = "test";
    model->batch = 64;
    model->source = NEW(Source);
    *model->source = source;
    model->inputs = NEW_ARRAY(Input, 1);
    model->variables = NEW_ARRAY(Variable, 1);
    Graph *g = graph_new(model, "train", NULL);
    if (has_samples) {
        model->inputs[model->input_count++] =
            (Input){.name = "x", .dtype = type, .shape = shape, .ignore = NO_LABEL, .other = NO_LABEL};
        return graph_input(g, 0);
    }
    model->variables[model->variable_count++] = (Variable){.name = "x", .dtype = type, .shape = shape, .owner = -1};
    for (int i = 0; i < shape.rank; i++)
        model->variables[0].order[i] = (i + turned) % shape.rank;
    return graph_variable(g, 0);
}

static void add_job(Node *x, Dtype stored, Node *const *nodes, int count, const char *what)
{
    APPEND(jobs, job_count, (Job){0});
    Job *j = &jobs[job_count - 1];
    const Tensor *result[2];
    const Node *made[2];
    j->operand = (Tensor){
        .kind = TENSOR_TEMPORARY, .name = "x", .dtype = stored, .shape = x->shape, .has_samples = x->has_samples, .node = x};
    if (!x->has_samples) {
        int *order = x->graph->model->variables[0].order;
        j->operand.order = order;
        for (int i = 0; i < x->shape.rank; i++)
            j->operand.shape.extent[i] = x->shape.extent[order[i]];
    }
    j->results = count;
    for (int i = 0; i < count; i++) {
        j->result[i] = (Tensor){.kind = TENSOR_TEMPORARY,
                                .name = "y",
                                .dtype = nodes[i]->dtype,
                                .shape = nodes[i]->shape,
                                .has_samples = nodes[i]->has_samples};
        result[i] = &j->result[i];
        made[i] = nodes[i];
    }
    j->plan = rows_plan(made, count, &j->operand, result, true);
    j->name = format("k%d", job_count - 1);
    j->what = format("%s of %s %s%s, stored as %s", what, dtype_name(x->dtype), shape_text(&x->shape),
                     x->has_samples ? " of each sample" : "", dtype_name(stored));
}

static void add_jobs(Dtype type, Dtype stored, Shape shape, bool has_samples, bool sums)
{
    Node *x = new_operand(type, shape, has_samples, job_count % 3);
    bool sum_type = type == I32 || type == U32 || type == I64 || type == F32 || type == F64;
    for (int axis = 0; axis < shape.rank; axis++) {
        int64_t extent = shape.extent[axis], k[] = {1, extent / 2 + 1, extent};
        for (int back = 0; back < 2 && sums && sum_type; back++)
            for (int i = 0; i < COUNT(RUNNING_OPS); i++) {
                Node *y = NODE(x->graph, RUNNING_OPS[i].op, ((int64_t[]){axis, back}), 2, NULL, x);
                add_job(x, stored, &y, 1, format("%s%s along axis %d", running_plural(y->op), back ? " from the end" : "", axis));
            }
        for (int i = (axis + job_count) % 3; i < 3 && extent > 0 && !sums; i += 2) {
            Node *both[2];
            for (int places = 0; places < 2; places++)
                both[places] = NODE(x->graph, OP_TOP_K, ((int64_t[]){axis, k[i], places}), 3, NULL, x);
            int some = job_count % 4; /* values, places, both */
            add_job(x, stored, some == 1 ? both + 1 : both, some < 2 ? 1 : 2,
                    format("the %lld largest along axis %d", (long long)k[i], axis));
        }
    }
}

static void make_jobs(bool full)
{
    static const Shape shapes[] = {{1, {7}},    {3, {3, 5, 4}}, {3, {2, 70, 3}}, {2, {33, 130}},
                                   {2, {1, 1}}, {2, {0, 3}},    {2, {3, 0}},     {2, {600, 12}}};
    static const Dtype numbers[] = {F64, F32, I32, U32, I64}, others[] = {BOOL, U8, I8, U16, I16, U32, I32, I64, F32, F64};
    for (int i = 0; i < COUNT(shapes); i++)
        for (int sums = 0; sums < 2; sums++)
            for (int t = 0; t < (full ? COUNT(numbers) : 1); t++)
                add_jobs(numbers[(i + t) % 2], numbers[(i + t) % 2], shapes[i], (i + sums) % 2, sums);
    for (int t = 0; t < COUNT(numbers); t++)
        add_jobs(numbers[t], numbers[t], SHAPE(5, 40), true, true);
    for (int t = 0; t < COUNT(others); t++)
        add_jobs(others[t], others[t], SHAPE(300), t % 2, false);
    add_jobs(F32, BF16, SHAPE(70, 9), true, true);
    add_jobs(F32, F16, SHAPE(70, 9), true, false);
    add_jobs(F32, F32, SHAPE(3, 3000), false, true);
    add_jobs(F32, F32, SHAPE(2, 3000), false, false);
    add_jobs(F64, F64, SHAPE(9000), false, false);
    add_jobs(F32, F32, SCALAR, true, true);
}

/* ---- running them */

static uint8_t type_of(Dtype t)
{
    static const uint8_t types[] = {
        [BOOL] = MGPU_BOOL, [U8] = MGPU_U8,   [I8] = MGPU_I8,   [U16] = MGPU_U16,   [I16] = MGPU_I16, [U32] = MGPU_U32,
        [I32] = MGPU_I32,   [I64] = MGPU_I64, [F16] = MGPU_F16, [BF16] = MGPU_BF16, [F32] = MGPU_F32, [F64] = MGPU_F64};
    return types[t];
}

static void fill(const Job *j, void *memory, int64_t count)
{
    Dtype t = j->operand.dtype;
    bool special = !op_is_running(rows_operation(j->plan)) && dtype_is_float(t);
    for (int64_t i = 0; i < count; i++) {
        int64_t kind = draw(20), few = draw(9) - 4;
        double v = t == BOOL ? (double)(few > 0) : t == U8 || t == U16 || t == U32 ? (double)(few + 4) : (double)few;
        if (dtype_is_float(t) && kind < 10)
            v = (double)draw(1 << 20) / (1 << 19) - 1;
        if (special && kind > 16)
            v = kind == 17 ? (double)NAN : kind == 18 ? -INFINITY : -0.0;
        mgpu_from_double(memory, type_of(t), i, v);
    }
}

static int64_t bytes_of(const Tensor *t)
{
    return shape_count(&t->shape) * (t->has_samples ? SAMPLES : 1) * dtype_bytes(t->dtype);
}

static const char *compare(const Job *j, int number, const void *result, const void *expected)
{
    const Tensor *t = &j->result[number];
    double limit = t->dtype == F32 ? 1e-6 : 1e-13;
    for (int64_t i = 0; i < bytes_of(t) / dtype_bytes(t->dtype); i++) {
        double a = mgpu_to_double(result, type_of(t->dtype), i), b = mgpu_to_double(expected, type_of(t->dtype), i);
        bool same = a == b || (isnan(a) && isnan(b));
        if (!same &&
            !(op_is_running(rows_operation(j->plan)) && dtype_is_float(t->dtype) && fabs(a - b) <= limit * (1 + fabs(b))))
            return format("result %d, element %lld is %.17g, not %.17g", number, (long long)i, a, b);
    }
    return NULL;
}

static const char *run_job(const Job *j, void *module, CheckedGpu *gpu)
{
    Guarded memory[4], expected[4];
    void *arguments[5], *host[5];
    int64_t work = cuda_rows_workspace(j->plan), bytes[5];
    for (int i = 0; i <= j->results; i++) {
        bytes[i] = bytes_of(i == 0 ? &j->operand : &j->result[i - 1]);
        memory[i] = guarded(bytes[i]);
        expected[i] = guarded(bytes[i]);
        arguments[i] = memory[i].begin;
        host[i] = i == 0 ? memory[0].begin : expected[i].begin;
    }
    fill(j, memory[0].begin, bytes[0] / dtype_bytes(j->operand.dtype));
    Guarded room = guarded(work);
    arguments[j->results + 1] = room.begin;
    host[j->results + 1] = malloc((size_t)rows_workspace(j->plan) + 1);
    const mgpu_part part = {.samples = SAMPLES, .end = j->operand.has_samples ? SAMPLES : 1, .threads = 1};
    void (*compute)(const mgpu_rows *, void *const *, const mgpu_part *) = mgpu_top_k;
    for (int i = 0; i < COUNT(RUNNING_OPS); i++)
        compute = rows_operation(j->plan) == RUNNING_OPS[i].op ? RUNNING_OPS[i].compute : compute;
    compute(rows_table(j->plan), host, &part);
    mgpu_launch launch[2];
    cuda_launches_rows(j->plan, j->name, launch);
    const char *wrong = NULL;
    void *first[2] = {NULL, NULL};
    for (int turn = 0; turn < 2 && !wrong; turn++) {
        for (int i = 1; i <= j->results; i++)
            memset(arguments[i], 0xff, (size_t)bytes[i]);
        wrong = run_launches(module, launch, arguments, j->results + 1 + (work > 0), SAMPLES, turn ? 1 + draw(3) : 0,
                             (uint64_t)turn * 31);
        for (int i = 0; i < j->results && !wrong; i++) {
            wrong = compare(j, i, arguments[i + 1], host[i + 1]);
            if (turn == 0)
                first[i] = memcpy(malloc((size_t)bytes[i + 1] + 1), arguments[i + 1], (size_t)bytes[i + 1]);
            else if (memcmp(first[i], arguments[i + 1], (size_t)bytes[i + 1]) != 0)
                wrong = "other results with another grid";
        }
    }
    bytes[j->results + 1] = work;
    if (gpu && !wrong)
        wrong = run_checked(gpu, launch, arguments, bytes, 1, j->results + 1 + (work > 0), SAMPLES);
    for (int i = 0; i <= j->results; i++) {
        give_back(&memory[i]);
        give_back(&expected[i]);
    }
    give_back(&room);
    return wrong;
}

static void run_jobs(void *const *modules, CheckedGpu *gpu)
{
    int bad = 0;
    for (int i = 0; i < job_count; i++) {
        const char *wrong = run_job(&jobs[i], modules[i % MODULES], i % MODULES == MODULES - 1 ? gpu : NULL);
        if (wrong)
            printf("not ok %s: %s\n", jobs[i].what, wrong);
        bad += wrong != NULL;
    }
    if (bad == 0)
        printf("ok running sums and the k largest on the virtual GPU, %d kernels\n", job_count);
    failures += bad;
}

static void compile_jobs(bool full)
{
    Nvrtc nvrtc;
    Text text = {0};
    if (!open_nvrtc(&nvrtc)) {
        printf("skip NVRTC: it is not installed\n");
        return;
    }
    text_add(&text, "%s", MODULE_HEAD);
    for (int i = 0; i < job_count; i++)
        if (full || i % 15 == 0)
            cuda_print_rows(jobs[i].plan, jobs[i].name, &text);
    const char *wrong = wrong_with_nvrtc(&nvrtc, &text, "sm_90");
    printf(wrong ? "not ok NVRTC: %s\n" : "ok NVRTC: no warning, no spilled register\n", wrong);
    failures += wrong != NULL;
}

static const char *open_all(const char *folder, void *modules[MODULES])
{
    for (int m = 0; m < MODULES; m++) {
        Text text = {0};
        text_add(&text, "%s", MODULE_HEAD);
        for (int i = m; i < job_count; i += MODULES)
            cuda_print_rows(jobs[i].plan, jobs[i].name, &text);
        if (!write_text(format("%s/module%d.cu", folder, m), &text))
            return "a text cannot be written";
    }
    const char *wrong = build_modules(folder, "qqqqqc");
    return wrong ? wrong : open_modules(folder, MODULES, modules);
}

int main(void)
{
    char folder[] = "/tmp/cuda_rows_test.XXXXXX";
    void *modules[MODULES];
    const char *all = getenv("MGPU_FULL");
    bool full = all && *all;
    if (!mkdtemp(folder)) {
        printf("skip rows for GPUs: no folder for kernels\n");
        return 0;
    }
    make_jobs(full);
    compile_jobs(full);
    const char *wrong = open_all(folder, modules);
    if (wrong) {
        printf("not ok build of the kernels: %s\n", wrong);
        failures++;
    } else {
        CheckedGpu gpu = {0}, *checked = checked_gpu(&gpu, folder, MODULES - 1, &failures);
        run_jobs(modules, checked);
    }
    if (!getenv("KEEP") && system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
