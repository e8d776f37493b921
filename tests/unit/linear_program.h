/* linear_program.h: a program written by hand for tests of the runtime: linear regression on one-hot labels in f64 with
 * momentum, its tables built as the compiler would emit them, for 1 to 4 devices, with and without micro-batches. */
#ifndef LINEAR_PROGRAM_H
#define LINEAR_PROGRAM_H

#include "runtime/internal.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum { IN = 3, OUT = 5, SAMPLES = 21, VALID = 10, SLOTS = 2 };
enum { W, M, SUMS, EVAL_SUMS, GRADIENT, COUNT, STEPS, VARIABLES }; /* variables; W and M: [OUT, IN], in memory [IN, OUT] */
enum { X, LABEL, INPUTS };

/* ---- kernels: arguments are reads, writes, in the order of the tables below */
static double output_of(const double *w, const double *x, int o)
{
    double y = 0;
    for (int i = 0; i < IN; i++)
        y += w[i * OUT + o] * x[i];
    return y;
}

static double first_weight(int o, int i)
{
    return 0.1 * sin(3 * o + i);
}

static void k_init(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)step, (void)n;
    double *w = a[0], *m = a[1];
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++)
            w[i * OUT + o] = first_weight(o, i), m[i * OUT + o] = 0;
}

/* label -> COUNT: the living samples of this device, over the micro-batches */
static void k_count(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)n;
    double *count = a[2];
    *count = (step->micro ? *(const double *)a[1] : 0) + (double)step->alive;
}

/* x, label, w, GRADIENT, SUMS -> bucket, SUMS; bucket = gradient [IN * OUT], loss; not yet divided by the count */
static void gradient(const double *x, const uint8_t *label, const double *w, double *sums, double *bucket, const mgpu_step *step)
{
    for (int64_t s = 0; s < step->alive; s++) {
        int best = 0;
        double loss = 0;
        for (int o = 0; o < OUT; o++) {
            double y = output_of(w, x + s * IN, o), e = y - (label[s] == o);
            loss += e * e;
            best = y > output_of(w, x + s * IN, best) ? o : best;
            for (int i = 0; i < IN; i++)
                bucket[i * OUT + o] += 2 * e * x[s * IN + i];
        }
        bucket[IN * OUT] += loss;
        sums[0] += loss;
        sums[1] += best == label[s];
        sums[2] += 1;
    }
}

static void k_accumulate(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)n;
    double *bucket = a[5];
    if (step->micro == 0)
        memset(bucket, 0, (IN * OUT + 1) * sizeof *bucket);
    gradient(a[0], a[1], a[2], a[6], bucket, step);
}

static void k_gradient(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)n;
    double *bucket = a[5];
    if (step->micro == 0)
        memset(bucket, 0, (IN * OUT + 2) * sizeof *bucket);
    else
        memcpy(bucket, a[3], (IN * OUT + 1) * sizeof *bucket);
    bucket[IN * OUT + 1] = step->micro ? *(const double *)a[7] : (double)step->alive;
    if (step->setting[1] == 1 && step->step == 3)
        raise(SIGSEGV); /* as a wrong pointer would */
    gradient(a[0], a[1], a[2], a[6], bucket, step);
}

static const double LR = 0.05, MOMENTUM = 0.9;

/* bucket, w, m, STEPS -> w, m, report, STEPS */
static void k_update(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)n;
    const double *bucket = a[0];
    double *w = a[4], *m = a[5], *report = a[6], count = bucket[IN * OUT + 1];
    double lr = isnan(step->setting[0]) ? LR : step->setting[0];
    for (int i = 0; i < IN * OUT; i++) {
        m[i] = MOMENTUM * m[i] + bucket[i] / count;
        w[i] -= lr * m[i];
    }
    report[0] = bucket[IN * OUT] / count;
    report[1] = lr;
    report[2] = step->epoch;
    *(double *)a[7] += 1;
}

static void k_eval(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)n;
    double unused[IN * OUT + 1] = {0};
    gradient(a[0], a[1], a[2], a[4], unused, step);
}

static void k_predict(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)step;
    const double *x = a[0];
    double *y = a[2];
    for (int64_t s = 0; s < n; s++)
        for (int o = 0; o < OUT; o++)
            y[s * OUT + o] = output_of(a[1], x + s * IN, o);
}

static void k_take_sums(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)step, (void)n;
    memcpy(a[1], a[0], 3 * sizeof(double));
    memset(a[2], 0, 3 * sizeof(double));
}

static void k_report(void *const *a, const mgpu_step *step, int64_t n)
{
    (void)step, (void)n;
    const double *sums = a[0];
    double *report = a[1];
    report[0] = sums[0] / sums[2];
    report[1] = sums[1] / sums[2];
}

/* bucket, STEPS -> report, STEPS */
static void k_report_train(void *const *a, const mgpu_step *step, int64_t n)
{
    k_report((void *const[]){a[0], a[2]}, step, n);
    ((double *)a[2])[2] = *(const double *)a[1];
    *(double *)a[3] = 0;
}

enum { K_INIT, K_COUNT, K_ACCUMULATE, K_GRADIENT, K_UPDATE, K_EVAL, K_PREDICT, K_TAKE_SUMS, K_REPORT, K_REPORT_TRAIN };
static const mgpu_kernel KERNELS[] = {{"init", k_init, 1},       {"count", k_count, 2},     {"accumulate", k_accumulate, 3},
                                      {"gradient", k_gradient, 4}, {"update", k_update, 5},   {"eval", k_eval, 6},
                                      {"predict", k_predict, 7}, {"take_sums", k_take_sums, 8}, {"report", k_report, 9},
                                      {"report_train", k_report_train, 10}};

/* ---- tables */
static const mgpu_variable VARIABLE[VARIABLES] = {
    [W] = {{"fc.weight", MGPU_F64, 2, {OUT, IN}}, {1, 0}, MGPU_WEIGHT, false},
    [M] = {{"fc.weight.velocity", MGPU_F64, 2, {OUT, IN}}, {1, 0}, MGPU_OPTIMIZER_STATE, false},
    [SUMS] = {{"train.sums", MGPU_F64, 1, {3}}, {0}, MGPU_ACCUMULATOR, false},
    [EVAL_SUMS] = {{"eval.sums", MGPU_F64, 1, {3}}, {0}, MGPU_ACCUMULATOR, false},
    [GRADIENT] = {{"gradient", MGPU_F64, 1, {IN * OUT + 1}}, {0}, MGPU_ACCUMULATOR, false},
    [COUNT] = {{"count", MGPU_F64, 0, {0}}, {0}, MGPU_ACCUMULATOR, false},
    [STEPS] = {{"train.steps", MGPU_F64, 0, {0}}, {0}, MGPU_ACCUMULATOR, true},
};
static const mgpu_input INPUT[INPUTS] = {[X] = {{"x", MGPU_F64, 2, {IN, 1}}, 0, -1, -1},
                                         [LABEL] = {{"label", MGPU_U8, 0, {0}}, OUT, -1, -1}};
static const mgpu_tensor OUTPUT[] = {{"y", MGPU_F64, 1, {OUT}}};
static const mgpu_column TRAIN_COLUMNS[] = {{X, "train-x.idx", 20}, {LABEL, "train-label.idx", 21}};
static const mgpu_column VALID_COLUMNS[] = {{X, "valid-x.idx", 22}, {LABEL, "valid-label.idx", 23}};
static const mgpu_set SETS[] = {{"train", "idx", TRAIN_COLUMNS, 2}, {"valid", "idx", VALID_COLUMNS, 2}};
static const mgpu_setting SETTINGS[] = {{"lr", 0.05}, {"crash", 0}};
static const char *const FIXED[] = {"batch", "width"};
static const char *const TRAIN_REPORTS[] = {"loss", "lr", "epoch"};
static const char *const METRICS[] = {"loss", "accuracy", "steps"}; /* the last of training only */

/* buffers of every phase, by number */
enum { B_STAGE_X, B_STAGE_LABEL, B_STEP, B_X, B_LABEL, B_REPORT, B_OUTPUT, B_VARIABLE, B_BUCKET = B_VARIABLE + VARIABLES, BUFFERS };

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t add_buffer(mgpu_buffer *b, const char *name, uint8_t kind, int64_t bytes, int slots, int index, int64_t offset)
{
    *b = (mgpu_buffer){name, kind, offset, bytes, aligned(bytes), slots, index};
    return offset + aligned(bytes) * slots;
}

static mgpu_buffer *make_buffers(mgpu_device *device, int64_t *offsets)
{
    mgpu_buffer *b = mgpu_allocate(BUFFERS, sizeof *b);
    int64_t n = device->shard.capacity, at = 0;
    at = add_buffer(&b[B_STAGE_X], "stage.x", MGPU_STAGING, n * IN * 8, SLOTS, X, at);
    device->staging_bytes = add_buffer(&b[B_STAGE_LABEL], "stage.label", MGPU_STAGING, n, SLOTS, LABEL, at);
    at = add_buffer(&b[B_STEP], "step", MGPU_STEP, sizeof(mgpu_step), SLOTS, -1, 0);
    at = add_buffer(&b[B_X], "in.x", MGPU_INPUT, n * IN * 8, SLOTS, X, at);
    at = add_buffer(&b[B_LABEL], "in.label", MGPU_INPUT, n, SLOTS, LABEL, at);
    at = add_buffer(&b[B_REPORT], "report", MGPU_REPORT_BUFFER, 3 * 8, SLOTS, -1, at);
    at = add_buffer(&b[B_OUTPUT], "out.y", MGPU_OUTPUT, n * OUT * 8, SLOTS, 0, at);
    for (int i = 0; i < VARIABLES; i++) {
        offsets[i] = at;
        at = add_buffer(&b[B_VARIABLE + i], VARIABLE[i].tensor.name, MGPU_VARIABLE, mgpu_tensor_bytes(&VARIABLE[i].tensor), 1, i, at);
    }
    device->arena_bytes = add_buffer(&b[B_BUCKET], "bucket0", MGPU_BUCKET, (IN * OUT + 2) * 8, 1, -1, at);
    device->variable_offset = offsets;
    return b;
}

typedef struct Builder { mgpu_op ops[16]; int count; const mgpu_buffer *buffers; } Builder;

/* reads and writes: buffers, -1 ends; a report or output that is read is that of the step before */
static void add_op(Builder *b, uint8_t lane, uint8_t verb, int target, const int *reads, const int *writes)
{
    mgpu_op *op = &b->ops[b->count];
    mgpu_access *access = mgpu_allocate(16, sizeof *access);
    char *id = mgpu_format("%c%d", "cumh"[lane], b->count);
    *op = (mgpu_op){.id = id, .lane = lane, .verb = verb, .target = target, .access = access, .line = 100 + b->count};
    for (; reads && *reads >= 0; reads++)
        access[op->read_count++] = (mgpu_access){*reads, lane == MGPU_HOST ? -1 : 0, 0, b->buffers[*reads].bytes};
    for (; writes && *writes >= 0; writes++)
        access[op->read_count + op->write_count++] = (mgpu_access){*writes, 0, 0, b->buffers[*writes].bytes};
    if (verb == MGPU_REDUCE)
        access[0] = access[op->read_count];
    b->count++;
}
#define LIST(...) ((const int[]){__VA_ARGS__, -1})

static bool conflict(const mgpu_op *a, const mgpu_op *b, int back, const mgpu_buffer *buffers) /* b is `back` steps before a */
{
    for (int i = 0; i < a->read_count + a->write_count; i++)
        for (int k = 0; k < b->read_count + b->write_count; k++) {
            int slots = buffers[a->access[i].buffer].slots;
            if (a->access[i].buffer == b->access[k].buffer && (i >= a->read_count || k >= b->read_count) &&
                (a->access[i].slot - b->access[k].slot + back) % slots == 0)
                return true;
        }
    return false;
}

static void add_waits(Builder *b)
{
    for (int i = 0; i < b->count; i++) {
        mgpu_wait *waits = mgpu_allocate(64, sizeof *waits);
        b->ops[i].waits = waits;
        for (int k = 0; k < b->count; k++)
            for (int back = k < i ? 0 : 1; back <= SLOTS; back++)
                if (b->ops[k].lane != b->ops[i].lane && conflict(&b->ops[i], &b->ops[k], back, b->buffers))
                    waits[b->ops[i].wait_count++] = (mgpu_wait){k, back};
    }
}

static void make_ops(Builder *b, int kind)
{
    bool samples = kind >= MGPU_PHASE_PROLOGUE && kind <= MGPU_PHASE_PREDICT, label = samples && kind != MGPU_PHASE_PREDICT;
    bool x = samples && kind != MGPU_PHASE_PROLOGUE;
    int stage[3] = {-1, -1, -1}, input[4] = {-1, -1, -1, -1}, n = 0;
    if (x)
        stage[n] = B_STAGE_X, input[n++] = B_X;
    if (label)
        stage[n] = B_STAGE_LABEL, input[n++] = B_LABEL;
    input[n] = B_STEP;
    if (samples)
        add_op(b, MGPU_HOST, MGPU_READ, -1, NULL, stage);
    if (kind == MGPU_PHASE_TRAIN || kind >= MGPU_PHASE_REPORT_TRAIN)
        add_op(b, MGPU_HOST, MGPU_REPORT, -1, LIST(B_REPORT), NULL);
    if (kind == MGPU_PHASE_PREDICT)
        add_op(b, MGPU_HOST, MGPU_FETCH, 0, LIST(B_OUTPUT), NULL);
    add_op(b, MGPU_COPY, MGPU_UPLOAD, -1, stage, input);
    int w = B_VARIABLE + W, m = B_VARIABLE + M, sums = B_VARIABLE + SUMS, eval = B_VARIABLE + EVAL_SUMS;
    int g = B_VARIABLE + GRADIENT, count = B_VARIABLE + COUNT, steps = B_VARIABLE + STEPS;
    switch (kind) {
    case MGPU_PHASE_INIT: add_op(b, MGPU_COMP, MGPU_CALL, K_INIT, LIST(B_STEP), LIST(w, m)); break;
    case MGPU_PHASE_PROLOGUE: add_op(b, MGPU_COMP, MGPU_CALL, K_COUNT, LIST(B_LABEL, B_STEP, count), LIST(count)); break;
    case MGPU_PHASE_ACCUMULATE:
        add_op(b, MGPU_COMP, MGPU_CALL, K_ACCUMULATE, LIST(B_STEP, B_X, B_LABEL, w, g, sums), LIST(g, sums));
        break;
    case MGPU_PHASE_TRAIN:
        add_op(b, MGPU_COMP, MGPU_CALL, K_GRADIENT, LIST(B_X, B_LABEL, w, g, sums, B_STEP), LIST(B_BUCKET, sums, count));
        add_op(b, MGPU_COMM, MGPU_REDUCE, 0, LIST(B_BUCKET), LIST(B_BUCKET));
        add_op(b, MGPU_COMP, MGPU_CALL, K_UPDATE, LIST(B_BUCKET, w, m, B_STEP, steps), LIST(w, m, B_REPORT, steps));
        break;
    case MGPU_PHASE_EVAL: add_op(b, MGPU_COMP, MGPU_CALL, K_EVAL, LIST(B_X, B_LABEL, w, eval, B_STEP), LIST(eval)); break;
    case MGPU_PHASE_PREDICT: add_op(b, MGPU_COMP, MGPU_CALL, K_PREDICT, LIST(B_X, w, B_STEP), LIST(B_OUTPUT)); break;
    default: {
        int which = kind == MGPU_PHASE_REPORT_TRAIN ? sums : eval;
        add_op(b, MGPU_COMP, MGPU_CALL, K_TAKE_SUMS, LIST(which, B_STEP), LIST(B_BUCKET, which));
        add_op(b, MGPU_COMM, MGPU_REDUCE, 0, LIST(B_BUCKET), LIST(B_BUCKET));
        if (kind == MGPU_PHASE_REPORT_TRAIN)
            add_op(b, MGPU_COMP, MGPU_CALL, K_REPORT_TRAIN, LIST(B_BUCKET, steps, B_STEP), LIST(B_REPORT, steps));
        else
            add_op(b, MGPU_COMP, MGPU_CALL, K_REPORT, LIST(B_BUCKET, B_STEP), LIST(B_REPORT));
    }
    }
    add_waits(b);
}

static const struct { const char *name; int kind; bool ragged; } PHASES[] = {
    {"init", MGPU_PHASE_INIT, false}, {"prologue.ragged", MGPU_PHASE_PROLOGUE, true}, {"accumulate.full", MGPU_PHASE_ACCUMULATE, false},
    {"accumulate.ragged", MGPU_PHASE_ACCUMULATE, true}, {"train.full", MGPU_PHASE_TRAIN, false}, {"train.ragged", MGPU_PHASE_TRAIN, true},
    {"eval.full", MGPU_PHASE_EVAL, false}, {"eval.ragged", MGPU_PHASE_EVAL, true}, {"predict.full", MGPU_PHASE_PREDICT, false},
    {"predict.ragged", MGPU_PHASE_PREDICT, true}, {"report_train", MGPU_PHASE_REPORT_TRAIN, false},
    {"report_eval", MGPU_PHASE_REPORT_EVAL, false}};

static void make_plan(mgpu_plan *plan, int devices, int64_t micro)
{
    int count = MGPU_COUNT(PHASES);
    mgpu_device *device = mgpu_allocate((size_t)devices, sizeof *device);
    const mgpu_buffer *buffers[8];
    int64_t first = 0;
    *plan = (mgpu_plan){.kind = "host", .devices = devices, .micro = micro, .device = device, .phase_count = count, .schedule = "text\n"};
    for (int d = 0; d < devices; d++) {
        int64_t share = micro / devices + (d < micro % devices);
        device[d].shard = (mgpu_shard){first, share, share ? share : 1};
        first += share;
        plan->always_ragged = plan->always_ragged || !share;
        buffers[d] = make_buffers(&device[d], mgpu_allocate(VARIABLES, sizeof(int64_t)));
    }
    mgpu_phase *phases = mgpu_allocate((size_t)count, sizeof *phases);
    static const mgpu_collective REDUCE_TRAIN = {"r0", IN * OUT + 2, MGPU_F64};
    for (int k = 0; k < count; k++) {
        mgpu_device_phase *per_device = mgpu_allocate((size_t)devices, sizeof *per_device);
        for (int d = 0; d < devices; d++) {
            Builder *b = mgpu_allocate(1, sizeof *b);
            b->buffers = buffers[d];
            make_ops(b, PHASES[k].kind);
            per_device[d] = (mgpu_device_phase){buffers[d], BUFFERS, b->ops, b->count};
        }
        bool train = PHASES[k].kind == MGPU_PHASE_TRAIN, report = PHASES[k].kind >= MGPU_PHASE_REPORT_TRAIN;
        phases[k] = (mgpu_phase){PHASES[k].name, (uint8_t)PHASES[k].kind, PHASES[k].ragged, per_device, &REDUCE_TRAIN, 1,
                                 train ? TRAIN_REPORTS : METRICS,
                                 train || PHASES[k].kind == MGPU_PHASE_REPORT_TRAIN ? 3 : report ? 2 : 0};
    }
    plan->phases = phases;
}

static mgpu_program make_program(int64_t batch, int64_t accumulate)
{
    mgpu_plan *plans = mgpu_allocate(4, sizeof *plans);
    for (int i = 0; i < 4; i++)
        make_plan(&plans[i], i + 1, (batch + accumulate - 1) / accumulate);
    return (mgpu_program){.interface = MGPU_INTERFACE, .name = "linear", .model_file = "linear.net", .command = "mgpuc linear.net -o train",
                          .precision = "f64", .parameters = IN * OUT, .batch = batch, .accumulate = accumulate, .epochs = 3, .group = 1,
                          .seed = 7, .kernels = KERNELS, .kernel_count = MGPU_COUNT(KERNELS), .variables = VARIABLE,
                          .variable_count = VARIABLES, .inputs = INPUT, .input_count = INPUTS, .outputs = OUTPUT, .output_count = 1,
                          .sets = SETS, .set_count = 2, .settings = SETTINGS, .setting_count = 2, .fixed_settings = FIXED,
                          .fixed_setting_count = 2, .plans = plans, .plan_count = 4};
}

#endif
