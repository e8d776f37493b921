/* linear_program.h: a program written by hand for tests of the runtime: linear regression on one-hot labels in f64 with
 * momentum, its tables built as the compiler would emit them, for 1 to 4 devices of any number of threads, with and
 * without micro-batches. */
#ifndef LINEAR_PROGRAM_H
#define LINEAR_PROGRAM_H

#include "runtime/base/base.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN = 3, OUT = 5, SAMPLES = 21, VALID = 10, SLOTS = 2, CHUNK = 2 };
enum { W, M, SUMS, EVAL_SUMS, GRADIENT, COUNT, STEPS, VARIABLES }; /* variables; W and M: [OUT, IN], in memory [IN, OUT] */
enum { X, LABEL, INPUTS };

/* ---- kernels: arguments are reads, writes, in the order of the tables below, then the workspace. They are divided among
 * threads in all ways that there are. */
static double output_of(const double *w, const double *x, int o)
{
    double y = 0;
    for (int i = 0; i < IN; i++)
        y += w[i * OUT + o] * x[i];
    return y;
}

static double first_weight(int o, int i) { return 0.1 * sin(3 * o + i); }

/* -> w, m; the threads take the outputs in turn */
static void k_init(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    double *w = a[0], *m = a[1];
    for (int o = part->thread; o < OUT; o += part->threads)
        for (int i = 0; i < IN; i++)
            w[i * OUT + o] = first_weight(o, i), m[i * OUT + o] = 0;
}

/* label -> COUNT: the valid samples of this device, over the micro-batches */
static void k_count(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)part;
    double *count = a[2];
    *count = (step->micro ? *(const double *)a[1] : 0) + (double)step->valid;
}

/* Of a sample: the errors of the outputs, its loss, whether the largest output is the right one. A thread has them for one
 * chunk. */
enum { LOSS = OUT, RIGHT, ERRORS };

/* x, label, w -> errors; sample by sample */
static void k_errors(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    const double *w = a[2];
    const uint8_t *label = a[1];
    for (int64_t s = part->begin; s < part->end; s++) {
        const double *x = (const double *)a[0] + s * IN;
        double *e = (double *)a[3] + s * ERRORS;
        int best = 0;
        e[LOSS] = 0;
        for (int o = 0; o < OUT; o++) {
            double y = output_of(w, x, o);
            e[o] = y - (label[s] == o);
            e[LOSS] += e[o] * e[o];
            best = y > output_of(w, x, best) ? o : best;
        }
        e[RIGHT] = best == label[s];
    }
}

/* The partial sums of a thread: gradient [IN * OUT], loss, right ones, samples */
enum { SUM_LOSS = IN * OUT, SUM_RIGHT, SUM_SAMPLES, PARTIAL };

static void add_samples(const double *x, const double *errors, double *sums, const mgpu_step *step, const mgpu_part *part)
{
    if (part->first)
        memset(sums, 0, PARTIAL * sizeof *sums);
    for (int64_t s = part->begin; s < part->end && s < step->valid; s++) {
        const double *e = errors + s * ERRORS;
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++)
                sums[i * OUT + o] += 2 * e[o] * x[s * IN + i];
        sums[SUM_LOSS] += e[LOSS];
        sums[SUM_RIGHT] += e[RIGHT];
        sums[SUM_SAMPLES] += 1;
    }
}

static void add_partial(const double *workspace, const mgpu_part *part, double *sums)
{
    for (int i = 0; i < PARTIAL; i++)
        for (int t = 0; t < part->threads; t++)
            sums[i] += workspace[i + t * part->stride / (int64_t)sizeof *workspace];
}

static void *hold_locks(void *held)
{
    flockfile(stdout);
    flockfile(stderr);
    atomic_store((_Atomic bool *)held, true);
    for (;; pause())
        if (!held)
            return NULL;
}

/* a crash while another thread prints, which never ends */
static void crash_among_locks(void)
{
    static _Atomic bool held;
    pthread_t thread;
    alarm(20);
    pthread_create(&thread, NULL, hold_locks, &held);
    while (!atomic_load(&held))
        usleep(1000);
    raise(SIGSEGV);
}

/* x, errors, GRADIENT, SUMS, COUNT -> bucket, SUMS; bucket = gradient [IN * OUT], loss, not yet divided by the count; count */
static void k_gradient(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    if (step->setting[1] == 2 && step->step == 3)
        crash_among_locks();
    if (step->setting[1] == 1 && step->step == 3 && part->thread == part->threads - 1)
        raise(SIGSEGV); /* as a wrong pointer would */
    add_samples(a[0], a[1], a[7], step, part);
}

static void add_gradient(double *bucket, const double *before, double *report, const double *workspace, const mgpu_step *step,
                         const mgpu_part *part)
{
    double sums[PARTIAL] = {0};
    add_partial(workspace, part, sums);
    for (int i = 0; i <= IN * OUT; i++)
        bucket[i] = (step->micro ? before[i] : 0) + sums[i];
    for (int i = 0; i < 3; i++)
        report[i] += sums[SUM_LOSS + i];
}

static void k_gradient_finish(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    double *bucket = a[5];
    add_gradient(bucket, a[2], a[6], a[7], step, part);
    bucket[IN * OUT + 1] = step->micro ? *(const double *)a[4] : (double)step->valid;
}

/* x, errors, GRADIENT, SUMS -> GRADIENT, SUMS */
static void k_accumulate(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    add_samples(a[0], a[1], a[6], step, part);
}

static void k_accumulate_finish(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    add_gradient(a[4], a[2], a[5], a[6], step, part);
}

static const double LR = 0.05, MOMENTUM = 0.9;

/* bucket, w, m, STEPS -> w, m, report, STEPS; a range of the weights, who has the first of them does the rest */
static void k_update(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    const double *bucket = a[0];
    double *w = a[4], *m = a[5], *report = a[6], count = bucket[IN * OUT + 1];
    double lr = isnan(step->setting[0]) ? LR : step->setting[0];
    for (int64_t i = part->begin; i < part->end; i++) {
        m[i] = MOMENTUM * m[i] + bucket[i] / count;
        w[i] -= lr * m[i];
    }
    if (part->begin != 0)
        return;
    report[0] = bucket[IN * OUT] / count;
    report[1] = lr;
    report[2] = step->epoch;
    *(double *)a[7] += 1;
}

/* x, errors, SUMS -> SUMS */
static void k_eval(void *const *a, const mgpu_step *step, const mgpu_part *part) { add_samples(a[0], a[1], a[4], step, part); }

static void k_eval_finish(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    double sums[PARTIAL] = {0}, *report = a[3];
    add_partial(a[4], part, sums);
    for (int i = 0; i < 3; i++)
        report[i] += sums[SUM_LOSS + i];
}

static void k_predict(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step;
    const double *x = a[0];
    double *y = a[2];
    for (int64_t s = part->begin; s < part->end; s++)
        for (int o = 0; o < OUT; o++)
            y[s * OUT + o] = output_of(a[1], x + s * IN, o);
}

static void k_take_sums(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step, (void)part;
    memcpy(a[1], a[0], 3 * sizeof(double));
    memset(a[2], 0, 3 * sizeof(double));
}

static void k_report(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    (void)step, (void)part;
    const double *sums = a[0];
    double *report = a[1];
    report[0] = sums[0] / sums[2];
    report[1] = sums[1] / sums[2];
}

/* bucket, STEPS -> report, STEPS */
static void k_report_train(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    k_report((void *const[]){a[0], a[2]}, step, part);
    ((double *)a[2])[2] = *(const double *)a[1];
    *(double *)a[3] = 0;
}

enum { K_INIT, K_COUNT, K_ERRORS, K_ACCUMULATE, K_GRADIENT, K_UPDATE, K_EVAL, K_PREDICT, K_TAKE_SUMS, K_REPORT, K_REPORT_TRAIN };
static const mgpu_kernel KERNELS[] = {
    {.name = "init", .run = k_init, .line = 1, .split = MGPU_SPLIT_WORKERS},
    {.name = "count", .run = k_count, .line = 2, .split = MGPU_SPLIT_NONE},
    {.name = "errors", .run = k_errors, .line = 3, .split = MGPU_SPLIT_SAMPLES},
    {.name = "accumulate", .run = k_accumulate, .finish = k_accumulate_finish, .line = 3, .split = MGPU_SPLIT_SAMPLES},
    {.name = "gradient", .run = k_gradient, .finish = k_gradient_finish, .line = 4, .split = MGPU_SPLIT_SAMPLES},
    {.name = "update", .run = k_update, .line = 5, .split = MGPU_SPLIT_RANGE, .extent = IN * OUT, .grain = 4},
    {.name = "eval", .run = k_eval, .finish = k_eval_finish, .line = 6, .split = MGPU_SPLIT_SAMPLES},
    {.name = "predict", .run = k_predict, .line = 7, .split = MGPU_SPLIT_SAMPLES},
    {.name = "take_sums", .run = k_take_sums, .line = 8, .split = MGPU_SPLIT_NONE},
    {.name = "report", .run = k_report, .line = 9, .split = MGPU_SPLIT_NONE},
    {.name = "report_train", .run = k_report_train, .line = 10, .split = MGPU_SPLIT_NONE},
};

/* ---- tables */
static const mgpu_variable VARIABLE[VARIABLES] = {
    [W] = {{"fc.weight", MGPU_F64, 2, {OUT, IN}}, {1, 0}, MGPU_WEIGHT, false, false, NULL, false},
    [M] = {{"fc.weight.velocity", MGPU_F64, 2, {OUT, IN}}, {1, 0}, MGPU_OPTIMIZER_STATE, false, false, NULL, false},
    [SUMS] = {{"train.sums", MGPU_F64, 1, {3}}, {0}, MGPU_ACCUMULATOR, true, false, NULL, false},
    [EVAL_SUMS] = {{"eval.sums", MGPU_F64, 1, {3}}, {0}, MGPU_ACCUMULATOR, true, false, NULL, false},
    [GRADIENT] = {{"gradient", MGPU_F64, 1, {IN * OUT + 1}}, {0}, MGPU_ACCUMULATOR, true, false, NULL, false},
    [COUNT] = {{"count", MGPU_F64, 0, {0}}, {0}, MGPU_ACCUMULATOR, true, false, NULL, false},
    [STEPS] = {{"train.steps", MGPU_F64, 0, {0}}, {0}, MGPU_ACCUMULATOR, false, false, NULL, false},
};
static const mgpu_input INPUT[INPUTS] = {[X] = {{"x", MGPU_F64, 2, {IN, 1}}, 0, MGPU_NO_LABEL, MGPU_NO_LABEL, NULL, 0, 0, false},
                                         [LABEL] = {{"label", MGPU_U8, 0, {0}}, OUT, -1, -1, NULL, 0, 0, false}};
static const mgpu_tensor OUTPUT[] = {{"y", MGPU_F64, 1, {OUT}}};
#define FILE_NAME(name) (const char *const[]){name}, 1
static const mgpu_column TRAIN_COLUMNS[] = {{"x", X, FILE_NAME("train-x.idx"), 20},
                                            {"label", LABEL, FILE_NAME("train-label.idx"), 21}};
static const mgpu_column VALID_COLUMNS[] = {{"x", X, FILE_NAME("valid-x.idx"), 22},
                                            {"label", LABEL, FILE_NAME("valid-label.idx"), 23}};
static const mgpu_call IDX = {"idx", NULL, 0, 19};
static const mgpu_set SETS[] = {{"train", TRAIN_COLUMNS, 2, &IDX, 1}, {"valid", VALID_COLUMNS, 2, &IDX, 1}};
static const mgpu_setting SETTINGS[] = {{"lr", 0.05, false}, {"crash", 0, false}};
static const char *const FIXED[] = {"batch", "width"};
static const char *const TRAIN_REPORTS[] = {"loss", "lr", "epoch"};
static const char *const METRICS[] = {"loss", "accuracy", "steps"}; /* the last of training only */

/* buffers of every phase, by number */
/* clang-format off */
enum { B_STAGE_X, B_STAGE_LABEL, B_STEP, B_X, B_LABEL, B_REPORT, B_OUTPUT, B_VARIABLE, B_BUCKET = B_VARIABLE + VARIABLES, B_ERRORS,
       B_WORK, BUFFERS };
/* clang-format on */

static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t add_buffer(mgpu_buffer *b, const char *name, uint8_t kind, int64_t bytes, int slots, int index, int64_t offset)
{
    *b = (mgpu_buffer){.name = name,
                       .kind = kind,
                       .offset = offset,
                       .bytes = bytes,
                       .slots = slots,
                       .index = index,
                       .type = kind == MGPU_STEP ? 0 : 1 + MGPU_F64};
    return offset + aligned(bytes) * slots;
}

static mgpu_buffer *make_buffers(mgpu_device *device, int64_t *offsets, bool gpu)
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
        at = add_buffer(&b[B_VARIABLE + i], VARIABLE[i].tensor.name, MGPU_VARIABLE, mgpu_tensor_bytes(&VARIABLE[i].tensor), 1, i,
                        at);
    }
    int64_t work = add_buffer(&b[B_BUCKET], "bucket0", MGPU_BUCKET, (IN * OUT + 2) * 8, 1, -1, at);
    at = add_buffer(&b[B_ERRORS], "errors", gpu ? MGPU_TEMPORARY : MGPU_LOCAL, (gpu || n < CHUNK ? n : CHUNK) * ERRORS * 8, 1, -1,
                    work);
    b[B_ERRORS].each = gpu ? 0 : ERRORS * 8;
    work = gpu ? at : work;
    device->arena_bytes = add_buffer(&b[B_WORK], "work", MGPU_WORKSPACE, PARTIAL * 8, 1, -1, at);
    device->work_bytes = device->arena_bytes - work;
    device->variable_offset = offsets;
    return b;
}

typedef struct Builder {
    mgpu_op ops[16];
    int count, regions;
    const mgpu_buffer *buffers;
    bool gpu;
} Builder;

/* reads and writes: buffers, -1 ends; a report or output that is read is that of the step before */
static void add_op(Builder *b, uint8_t lane, uint8_t verb, int target, const int *reads, const int *writes)
{
    mgpu_op *op = &b->ops[b->count];
    mgpu_access *access = mgpu_allocate(32, sizeof *access);
    char *id = mgpu_format("%c%d", "cumh"[lane], b -> count);
    *op = (mgpu_op){.id = id,
                    .lane = lane,
                    .verb = verb,
                    .target = target,
                    .reads = access,
                    .writes = access + 16,
                    .line = 100 + b->count,
                    .region = verb == MGPU_CALL ? b->regions++ : -1};
    for (; reads && *reads >= 0; reads++)
        access[op->read_count++] = (mgpu_access){*reads, lane == MGPU_HOST ? -1 : 0, 0, b->buffers[*reads].bytes, 0};
    for (; writes && *writes >= 0; writes++)
        op->writes[op->write_count++] = (mgpu_access){*writes, 0, 0, b->buffers[*writes].bytes, 0};
    if (verb == MGPU_TRANSFER)
        access[0] = op->writes[0];
    b->count++;
}
#define LIST(...) ((const int[]){__VA_ARGS__, -1})

static void add_call(Builder *b, int kernel, const int *reads, const int *writes)
{
    add_op(b, MGPU_COMP, MGPU_CALL, kernel, reads, writes);
}

/* on the host the last two calls become one region, in which a thread takes CHUNK samples at a time */
static void join_calls(Builder *b)
{
    mgpu_op *op = &b->ops[b->count - 2];
    if (b->gpu)
        return;
    op[1].region = op[0].region;
    op[0].chunk = op[1].chunk = CHUNK;
}

static bool conflict(const mgpu_op *a, const mgpu_op *b, int back, const mgpu_buffer *buffers) /* b is `back` steps before a */
{
    for (int i = 0; i < a->read_count + a->write_count; i++)
        for (int k = 0; k < b->read_count + b->write_count; k++) {
            int slots = buffers[mgpu_access_of(a, i)->buffer].slots;
            if (mgpu_access_of(a, i)->buffer == mgpu_access_of(b, k)->buffer && (i >= a->read_count || k >= b->read_count) &&
                (mgpu_access_of(a, i)->slot - mgpu_access_of(b, k)->slot + back) % slots == 0)
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
    if (kind == MGPU_PHASE_ACCUMULATE || kind == MGPU_PHASE_TRAIN || kind == MGPU_PHASE_EVAL)
        add_call(b, K_ERRORS, LIST(B_X, B_LABEL, w, B_STEP), LIST(B_ERRORS));
    switch (kind) {
    case MGPU_PHASE_INIT: add_call(b, K_INIT, LIST(B_STEP), LIST(w, m)); break;
    case MGPU_PHASE_PROLOGUE: add_call(b, K_COUNT, LIST(B_LABEL, B_STEP, count), LIST(count)); break;
    case MGPU_PHASE_ACCUMULATE:
        add_call(b, K_ACCUMULATE, LIST(B_STEP, B_X, B_ERRORS, g, sums), LIST(g, sums, B_WORK));
        join_calls(b);
        break;
    case MGPU_PHASE_TRAIN:
        add_call(b, K_GRADIENT, LIST(B_X, B_ERRORS, g, sums, count, B_STEP), LIST(B_BUCKET, sums, B_WORK));
        join_calls(b);
        add_op(b, MGPU_COMM, MGPU_TRANSFER, 0, LIST(B_BUCKET), LIST(B_BUCKET));
        add_call(b, K_UPDATE, LIST(B_BUCKET, w, m, B_STEP, steps), LIST(w, m, B_REPORT, steps));
        break;
    case MGPU_PHASE_EVAL:
        add_call(b, K_EVAL, LIST(B_X, B_ERRORS, eval, B_STEP), LIST(eval, B_WORK));
        join_calls(b);
        break;
    case MGPU_PHASE_PREDICT: add_call(b, K_PREDICT, LIST(B_X, w, B_STEP), LIST(B_OUTPUT)); break;
    default: {
        int which = kind == MGPU_PHASE_REPORT_TRAIN ? sums : eval;
        add_call(b, K_TAKE_SUMS, LIST(which, B_STEP), LIST(B_BUCKET, which));
        add_op(b, MGPU_COMM, MGPU_TRANSFER, 0, LIST(B_BUCKET), LIST(B_BUCKET));
        if (kind == MGPU_PHASE_REPORT_TRAIN)
            add_call(b, K_REPORT_TRAIN, LIST(B_BUCKET, steps, B_STEP), LIST(B_REPORT, steps));
        else
            add_call(b, K_REPORT, LIST(B_BUCKET, B_STEP), LIST(B_REPORT));
    }
    }
    add_waits(b);
}

static const struct {
    const char *name;
    int kind;
    bool partial_batch;
} PHASES[] = {{"init", MGPU_PHASE_INIT, false},
              {"prologue.partial", MGPU_PHASE_PROLOGUE, true},
              {"accumulate.full", MGPU_PHASE_ACCUMULATE, false},
              {"accumulate.partial", MGPU_PHASE_ACCUMULATE, true},
              {"train.full", MGPU_PHASE_TRAIN, false},
              {"train.partial", MGPU_PHASE_TRAIN, true},
              {"eval.full", MGPU_PHASE_EVAL, false},
              {"eval.partial", MGPU_PHASE_EVAL, true},
              {"predict.full", MGPU_PHASE_PREDICT, false},
              {"predict.partial", MGPU_PHASE_PREDICT, true},
              {"report_train", MGPU_PHASE_REPORT_TRAIN, false},
              {"report_eval", MGPU_PHASE_REPORT_EVAL, false}};

static void make_rooms(mgpu_device *device)
{
    mgpu_room *rooms = mgpu_allocate((size_t)device->shard.capacity + 1, sizeof *rooms);
    device->rooms = rooms;
    for (int64_t samples = 1; samples <= device->shard.capacity; samples *= 2) {
        int64_t offsets[VARIABLES];
        mgpu_device smaller = {.shard = {0, samples, samples}};
        free(make_buffers(&smaller, offsets, true));
        rooms[device->room_count++] = (mgpu_room){samples, smaller.arena_bytes, 0};
    }
}

static void make_plan(mgpu_plan *plan, const char *kind, int devices, int64_t micro)
{
    int count = MGPU_COUNT(PHASES);
    mgpu_device *device = mgpu_allocate((size_t)devices, sizeof *device);
    const mgpu_buffer *buffers[8];
    int64_t first = 0;
    bool gpu = strcmp(kind, "cuda") == 0;
    *plan = (mgpu_plan){.kind = kind, .devices = devices, .micro = micro, .device = device, .phase_count = count};
    for (int d = 0; d < devices; d++) {
        int64_t share = micro / devices + (d < micro % devices);
        device[d].shard = (mgpu_shard){first, share, share ? share : 1};
        first += share;
        plan->always_partial = plan->always_partial || !share;
        buffers[d] = make_buffers(&device[d], mgpu_allocate(VARIABLES, sizeof(int64_t)), gpu);
        make_rooms(&device[d]);
    }
    mgpu_phase *phases = mgpu_allocate((size_t)count, sizeof *phases);
    static mgpu_collective REDUCE_TRAIN = {.name = "r0", .count = IN * OUT + 2, .dtype = MGPU_F64, .lane = MGPU_COMM};
    for (int k = 0; k < count; k++) {
        mgpu_device_phase *per_device = mgpu_allocate((size_t)devices, sizeof *per_device);
        for (int d = 0; d < devices; d++) {
            Builder *b = mgpu_allocate(1, sizeof *b);
            b->buffers = buffers[d];
            b->gpu = gpu;
            make_ops(b, PHASES[k].kind);
            per_device[d] = (mgpu_device_phase){
                .buffers = (mgpu_buffer *)(uintptr_t)buffers[d], .buffer_count = BUFFERS, .ops = b->ops, .op_count = b->count};
        }
        bool train = PHASES[k].kind == MGPU_PHASE_TRAIN, report = PHASES[k].kind >= MGPU_PHASE_REPORT_TRAIN;
        phases[k] = (mgpu_phase){.name = PHASES[k].name,
                                 .kind = (uint8_t)PHASES[k].kind,
                                 .partial_batch = PHASES[k].partial_batch,
                                 .devices = per_device,
                                 .collectives = &REDUCE_TRAIN,
                                 .collective_count = 1,
                                 .reports = train ? TRAIN_REPORTS : METRICS,
                                 .report_count = train || PHASES[k].kind == MGPU_PHASE_REPORT_TRAIN ? 3
                                                 : report                                           ? 2
                                                                                                    : 0};
    }
    plan->phases = phases;
}

static mgpu_program make_program_of(const char *kind, int64_t batch, int64_t accumulate)
{
    mgpu_plan *plans = mgpu_allocate(4, sizeof *plans);
    for (int i = 0; i < 4; i++)
        make_plan(&plans[i], kind, i + 1, (batch + accumulate - 1) / accumulate);
    return (mgpu_program){.interface = MGPU_INTERFACE,
                          .name = "linear",
                          .model_file = "linear.net",
                          .command = "mgpuc linear.net -o train",
                          .precision = "f64",
                          .parameters = IN * OUT,
                          .batch = batch,
                          .accumulate = accumulate,
                          .epochs = 3,
                          .group = 1,
                          .seed = 7,
                          .kernels = KERNELS,
                          .kernel_count = MGPU_COUNT(KERNELS),
                          .variables = VARIABLE,
                          .variable_count = VARIABLES,
                          .inputs = INPUT,
                          .input_count = INPUTS,
                          .outputs = OUTPUT,
                          .output_count = 1,
                          .sets = SETS,
                          .set_count = 2,
                          .settings = SETTINGS,
                          .setting_count = 2,
                          .fixed_settings = FIXED,
                          .fixed_setting_count = 2,
                          .plans = plans,
                          .plan_count = 4};
}

#endif
