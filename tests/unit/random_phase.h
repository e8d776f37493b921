/* random_phase.h: random but legal programs for tests of what comes after `fuse`: a Model with inputs and variables, and
 * Phases of tasks over them. Kernels are stand-ins: every task has one of its own, so a call's number leads back to its
 * task (random_task). Most kernels that may work sample by sample do.
 *
 * Legal means: a temporary, output or report is written once, before it is read; what is partial is summed by a REDUCE
 * before it is read; a variable is read only before the task that updates it; an accumulator is summed ahead of that.
 *
 *   Program *p = random_program(seed, 30);      about 30 tasks in a train phase
 *   Plan *plan = random_plan(p, 3);             3 devices: split and scheduled */
#ifndef MGPU_RANDOM_PHASE_H
#define MGPU_RANDOM_PHASE_H

#include "compiler/ir/placement.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/target/target.h"
#include "runtime/abi/mgpu.h"

#include <string.h>

typedef struct Random {
    uint64_t state;
} Random;

static inline uint64_t random_bits(Random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static inline int random_below(Random *r, int n) { return n > 0 ? (int)(random_bits(r) % (uint64_t)n) : 0; }
static inline bool random_chance(Random *r, int percent) { return random_below(r, 100) < percent; }

/* a value that was split, and what is read in its place */
typedef struct RandomParts {
    const Tensor *scattered;
    Tensor *whole;
} RandomParts;
typedef struct RandomPhase {
    Random *r;
    Program *program;
    Phase *phase;
    Tensor **inputs, **variables; /* by index; NULL: not used yet */
    Tensor **ready;
    int ready_count; /* may be read */
    Tensor **pending;
    int pending_count; /* partial: to be summed before anybody reads them */
    RandomParts *gathered;
    int gathered_count;
    bool whole; /* nothing is split */
    int temporaries;
} RandomPhase;

static inline Shape random_shape(Random *r)
{
    Shape s = {.rank = random_below(r, 4)};
    for (int i = 0; i < s.rank; i++)
        s.extent[i] = random_chance(r, 3) ? 0 : 1 + random_below(r, random_chance(r, 20) ? 16 : 4);
    return s;
}

static inline Tensor *random_tensor(RandomPhase *b, TensorKind kind, const char *name, int index, Dtype dtype, Shape shape,
                                    bool has_samples)
{
    Tensor *x = NEW(Tensor);
    *x = (Tensor){.id = b->phase->tensor_count,
                  .kind = kind,
                  .name = name,
                  .index = index,
                  .dtype = dtype,
                  .shape = shape,
                  .has_samples = has_samples};
    APPEND(b->phase->tensors, b->phase->tensor_count, x);
    return x;
}

static inline Task *random_add(RandomPhase *b, TaskKind kind)
{
    Task *t = NEW(Task);
    t->kind = kind;
    APPEND(b->phase->tasks, b->phase->task_count, t);
    if (kind == TASK_TRANSFER)
        return t;
    t->kernel = NEW(Kernel); /* its `split`, its number and how much it reads are looked at */
    t->kernel->number = b->program->kernel_count;
    APPEND(b->program->kernels, b->program->kernel_count, t->kernel);
    t->flops_per_sample = random_below(b->r, 1000000);
    t->bytes = random_below(b->r, 10000);
    t->workspace_bytes = random_chance(b->r, 20) ? random_below(b->r, 300) : 0;
    t->workspace_bytes_per_sample = random_chance(b->r, 10) ? random_below(b->r, 40) : 0;
    return t;
}

static inline void random_read(Task *t, Tensor *x)
{
    for (int i = 0; i < t->read_count; i++)
        if (t->reads[i] == x)
            return;
    APPEND(t->reads, t->read_count, x);
    if (t->kernel)
        t->kernel->read_count = t->read_count; /* no epilogues */
}

static inline void random_write(Task *t, Tensor *x) { APPEND(t->writes, t->write_count, x); }

static inline void random_forget(RandomPhase *b, const Tensor *x) /* nobody may read it from here on */
{
    int kept = 0;
    for (int i = 0; i < b->ready_count; i++)
        if (b->ready[i] != x)
            b->ready[kept++] = b->ready[i];
    Tensor **list = NULL;
    int count = 0;
    for (int i = 0; i < kept; i++)
        APPEND(list, count, b->ready[i]);
    b->ready = list;
    b->ready_count = count;
}

static inline Tensor *random_variable(RandomPhase *b, int index)
{
    const Variable *v = &b->program->model->variables[index];
    if (!b->variables[index])
        b->variables[index] = random_tensor(b, TENSOR_VARIABLE, format("w.%s", v->name), index, v->dtype, v->shape, false);
    return b->variables[index];
}

static inline Tensor *random_temporary(RandomPhase *b, Dtype dtype, Shape shape, bool has_samples)
{
    return random_tensor(b, TENSOR_TEMPORARY, format("t%d", b->temporaries++), -1, dtype, shape, has_samples);
}

static inline void random_transfer(RandomPhase *b, Tensor *x, uint8_t transfer)
{
    Task *t = random_add(b, TASK_TRANSFER);
    t->participants.transfer = transfer;
    random_read(t, x);
    random_write(t, x);
}

/* each device has its own part of x, computes that of another value, which is gathered */
static inline Tensor *random_parts(RandomPhase *b, Tensor *x)
{
    Tensor *y = random_temporary(b, x->dtype, x->shape, false);
    random_transfer(b, x, MGPU_TRANSFER_REDUCE_SCATTER);
    Task *t = random_add(b, TASK_KERNEL);
    t->elements = shape_count(&x->shape);
    random_read(t, x);
    random_write(t, y);
    y->partial = true;
    random_transfer(b, y, MGPU_TRANSFER_ALL_GATHER);
    RandomParts pair = {x, y};
    APPEND(b->gathered, b->gathered_count, pair);
    return y;
}

/* sums one that is pending, or takes it to other devices otherwise */
static inline void random_reduce(RandomPhase *b, int which)
{
    Tensor *x = b->pending[which];
    bool other = random_chance(b->r, 20),
         parts = other && !b->whole && random_chance(b->r, 70) && x->kind == TENSOR_TEMPORARY && shape_count(&x->shape) > 1;
    b->pending[which] = b->pending[--b->pending_count];
    Tensor **list = NULL;
    int count = 0;
    for (int i = 0; i < b->pending_count; i++)
        APPEND(list, count, b->pending[i]);
    b->pending = list;
    if (parts)
        x = random_parts(b, x);
    else
        random_transfer(b, x, other ? MGPU_TRANSFER_BROADCAST_FROM /* 0 */ : MGPU_TRANSFER_REDUCE);
    APPEND(b->ready, b->ready_count, x);
}

static inline Tensor *random_whole(const RandomPhase *b, Tensor *x)
{
    for (int i = 0; i < b->gathered_count; i++)
        if (b->gathered[i].scattered == x)
            return b->gathered[i].whole;
    return x;
}

static inline Task *random_kernel(RandomPhase *b) /* that reads something */
{
    Task *t = random_add(b, TASK_KERNEL);
    for (int reads = random_below(b->r, 4); reads > 0 && b->ready_count; reads--) { /* rather what is new */
        int among = random_chance(b->r, 60) && b->ready_count > 4 ? 4 : b->ready_count;
        random_read(t, b->ready[b->ready_count - 1 - random_below(b->r, among)]);
    }
    return t;
}

static inline void random_partial(RandomPhase *b, Task *t, Dtype dtype, Shape shape)
{
    Tensor *x = random_temporary(b, dtype, shape, false);
    x->partial = true;
    random_write(t, x);
    APPEND(b->pending, b->pending_count, x);
}

static inline void random_body(RandomPhase *b, int tasks, int partial_percent)
{
    Dtype dtype = b->program->model->precision;
    for (int i = 0; i < tasks; i++) {
        Task *t = random_kernel(b);
        t->backward = i > tasks / 2;
        for (int writes = 1 + random_chance(b->r, 20); writes > 0; writes--) {
            if (random_chance(b->r, partial_percent)) {
                random_partial(b, t, random_chance(b->r, 20) ? F64 : dtype, random_shape(b->r));
            } else {
                Tensor *x =
                    random_temporary(b, random_chance(b->r, 20) ? U8 : dtype, random_shape(b->r), random_chance(b->r, 70));
                random_write(t, x);
                APPEND(b->ready, b->ready_count, x);
            }
        }
        while (b->pending_count && random_chance(b->r, 50))
            random_reduce(b, random_below(b->r, b->pending_count));
    }
    while (b->pending_count)
        random_reduce(b, random_below(b->r, b->pending_count));
}

static inline void random_update(RandomPhase *b, int variable, Tensor *value, Tensor *norm)
{
    Tensor *v = random_variable(b, variable);
    Task *t = random_add(b, TASK_KERNEL);
    bool parts =
        !b->whole && random_chance(b->r, 20) && !(value && value->has_samples) && !v->partial && shape_count(&v->shape) > 1;
    t->update = true;
    t->elements = parts ? shape_count(&v->shape) : 0;
    if (value)
        random_read(t, value);
    if (random_chance(b->r, 80))
        random_read(t, v);
    if (norm)
        random_read(t, norm);
    random_write(t, v);
    if (parts)
        random_transfer(b, v, MGPU_TRANSFER_ALL_GATHER);
    random_forget(b, v);
}

static inline void random_report(RandomPhase *b, int count)
{
    Task *t = random_kernel(b);
    Tensor *x = random_tensor(b, TENSOR_REPORT, "report", -1, F64, SHAPE(count), false);
    random_write(t, x);
    for (int i = 0; i < count; i++)
        APPEND(b->phase->reports, b->phase->report_count, format("number%d", i));
}

static inline void random_open(RandomPhase *b, PhaseKind kind)
{
    const Model *m = b->program->model;
    for (int i = 0; i < m->input_count; i++)
        if (random_chance(b->r, 80)) {
            const Input *in = &m->inputs[i];
            b->inputs[i] = random_tensor(b, TENSOR_INPUT, format("in.%s", in->name), i, in->dtype, in->shape, true);
            APPEND(b->ready, b->ready_count, b->inputs[i]);
        }
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind != ACCUMULATOR && random_chance(b->r, kind == PHASE_TRAIN ? 90 : 60)) {
            Tensor *v = random_variable(b, i);
            APPEND(b->ready, b->ready_count, v);
        }
}

static inline void random_train(RandomPhase *b, int tasks)
{
    const Model *m = b->program->model;
    random_open(b, PHASE_TRAIN);
    random_body(b, tasks / 2, 15);
    Tensor **gradients = NEW_ARRAY(Tensor *, m->variable_count);
    for (int i = m->variable_count - 1; i >= 0; i--) {
        const Variable *v = &m->variables[i];
        if (v->kind != WEIGHT)
            continue;
        Task *t = random_kernel(b);
        t->backward = true;
        random_partial(b, t, v->dtype, v->shape);
        gradients[i] = b->pending[b->pending_count - 1];
        if (random_chance(b->r, 60))
            random_reduce(b, random_below(b->r, b->pending_count));
        if (random_chance(b->r, 30)) { /* on the way to the next gradient */
            Task *between = random_kernel(b);
            Tensor *x = random_temporary(b, m->precision, random_shape(b->r), true);
            random_write(between, x);
            APPEND(b->ready, b->ready_count, x);
        }
    }
    while (b->pending_count)
        random_reduce(b, random_below(b->r, b->pending_count));
    Tensor *norm = NULL;
    if (random_chance(b->r, 30)) { /* clipping: all updates wait for all gradients */
        Task *t = random_add(b, TASK_KERNEL);
        t->update = true;
        for (int i = 0; i < m->variable_count; i++)
            if (gradients[i])
                random_read(t, random_whole(b, gradients[i]));
        norm = random_temporary(b, F64, SCALAR, false);
        random_write(t, norm);
    }
    if (random_chance(b->r, 80))
        random_report(b, 1 + random_below(b->r, 3));
    for (int i = 0; i < m->variable_count; i++)
        if (gradients[i] || random_chance(b->r, 50)) {
            random_update(b, i, gradients[i] ? random_whole(b, gradients[i]) : NULL, gradients[i] ? norm : NULL);
        }
}

static inline void random_eval(RandomPhase *b, int tasks, bool predict)
{
    const Model *m = b->program->model;
    random_open(b, predict ? PHASE_PREDICT : PHASE_EVAL);
    random_body(b, tasks / 3, 5);
    for (int i = 0; i < m->variable_count && !predict; i++)
        if (m->variables[i].kind == ACCUMULATOR)
            random_update(b, i, b->ready_count ? b->ready[random_below(b->r, b->ready_count)] : NULL, NULL);
    for (int i = 0; i < 2 && predict; i++) {
        Task *t = random_kernel(b);
        random_write(t, random_tensor(b, TENSOR_OUTPUT, format("out.column%d", i), i, m->precision, SHAPE(1 + i), true));
    }
}

static inline void random_reports(RandomPhase *b)
{
    const Model *m = b->program->model;
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == ACCUMULATOR) {
            Tensor *v = random_variable(b, i);
            v->partial = true;
            if (random_chance(b->r, 70)) { /* the sum in place, or of a copy */
                APPEND(b->pending, b->pending_count, v);
            } else {
                Task *t = random_add(b, TASK_KERNEL);
                random_read(t, v);
                random_partial(b, t, v->dtype, v->shape);
            }
            random_reduce(b, b->pending_count - 1);
        }
    random_body(b, 2, 0);
    random_report(b, 2);
    for (int i = 0; i < m->variable_count; i++)
        if (m->variables[i].kind == ACCUMULATOR)
            random_update(b, i, NULL, NULL);
}

/* What touches samples may work by sample: sums of them are partial until it is finished. */
static inline void random_split(RandomPhase *b, const Task *t)
{
    static const uint8_t OTHER[] = {MGPU_SPLIT_NONE, MGPU_SPLIT_RANGE, MGPU_SPLIT_WORKERS};
    bool samples = false;
    for (int i = 0; i < t->read_count; i++)
        samples |= t->reads[i]->has_samples;
    for (int i = 0; i < t->write_count; i++)
        samples |= t->writes[i]->has_samples;
    t->kernel->split = samples && random_chance(b->r, 75) ? MGPU_SPLIT_SAMPLES : OTHER[random_below(b->r, COUNT(OTHER))];
}

static inline Phase *random_phase(Program *p, Random *r, PhaseKind kind, bool partial_batch, int tasks)
{
    RandomPhase b = {.r = r, .program = p, .phase = NEW(Phase)};
    b.inputs = NEW_ARRAY(Tensor *, p->model->input_count);
    b.variables = NEW_ARRAY(Tensor *, p->model->variable_count);
    b.phase->kind = kind;
    b.phase->partial_batch = partial_batch;
    switch (kind) {
    case PHASE_INIT:
        for (int i = 0; i < p->model->variable_count; i++)
            if (p->model->variables[i].kind != ACCUMULATOR)
                random_update(&b, i, NULL, NULL);
        break;
    case PHASE_TRAIN: random_train(&b, tasks); break;
    case PHASE_EVAL: random_eval(&b, tasks, false); break;
    case PHASE_PREDICT: random_eval(&b, tasks, true); break;
    case PHASE_REPORT_TRAIN:
    case PHASE_REPORT_EVAL: random_reports(&b); break;
    default: random_open(&b, kind), random_body(&b, tasks, 20); break;
    }
    for (int i = 0; i < b.phase->task_count; i++)
        if (b.phase->tasks[i]->kind == TASK_KERNEL)
            random_split(&b, b.phase->tasks[i]);
    return b.phase;
}

static inline Model *random_model(Random *r)
{
    Model *m = NEW(Model);
    *m = (Model){.name = "random",
                 .file = "random.net",
                 .batch = 1 + random_below(r, 24),
                 .accumulate = 1,
                 .group = 1,
                 .precision = random_chance(r, 50) ? F64 : F32};
    if (random_chance(r, 20))
        m->group = 1 + random_below(r, 4);
    if (random_chance(r, 20))
        m->accumulate = 1 + random_below(r, 3);
    m->input_count = random_below(r, 4);
    m->inputs = NEW_ARRAY(Input, m->input_count);
    for (int i = 0; i < m->input_count; i++)
        m->inputs[i] = (Input){.name = format("input%d", i), .dtype = random_chance(r, 50) ? U8 : F32, .shape = random_shape(r)};
    m->variable_count = 2 + random_below(r, 7);
    m->variables = NEW_ARRAY(Variable, m->variable_count);
    for (int i = 0; i < m->variable_count; i++) {
        VariableKind kind = i == 0 ? ACCUMULATOR : random_chance(r, 70) ? WEIGHT : (VariableKind)random_below(r, 4);
        m->variables[i] = (Variable){.name = format("layer%d.weight", i),
                                     .kind = kind,
                                     .trained = kind == WEIGHT,
                                     .owner = -1,
                                     .dtype = kind == ACCUMULATOR ? F64 : m->precision,
                                     .shape = random_shape(r),
                                     .placement = {{kind == ACCUMULATOR ? IS_PARTIAL : IS_REPLICATED}}};
    }
    return m;
}

static inline Program *random_program(uint64_t seed, int tasks)
{
    static const struct {
        PhaseKind kind;
        bool partial_batch;
    } PHASES[] = {{PHASE_INIT, false}, {PHASE_TRAIN, false},   {PHASE_TRAIN, true},         {PHASE_EVAL, false},
                  {PHASE_EVAL, true},  {PHASE_PREDICT, false}, {PHASE_REPORT_TRAIN, false}, {PHASE_REPORT_EVAL, false}};
    Random r = {seed};
    Program *p = NEW(Program);
    Options *options = NEW(Options);
    options->bucket_bytes = random_below(&r, 4000);
    Policy *policy = NEW(Policy);
    *policy = PRESETS[0];
    policy->waited = random_chance(&r, 50) ? WAITED_SYNC : WAITED_COMM;
    options->policy = policy;
    p->model = random_model(&r);
    p->options = options;
    p->target = &host_target;
    for (int i = 0; i < COUNT(PHASES); i++) {
        Phase *phase = random_phase(p, &r, PHASES[i].kind, PHASES[i].partial_batch, 1 + random_below(&r, tasks));
        APPEND(p->phases, p->phase_count, phase);
    }
    return p;
}

static inline Plan *random_plan(Program *p, int devices)
{
    Plan *plan = NEW(Plan);
    plan->nodes = 1;
    plan->devices = devices;
    plan->kind = "host";
    split(p, plan);
    plan->schedule = schedule(p, plan);
    return plan;
}

static inline const Task *random_task(const Program *p, const ScheduledOp *call) /* the task that a CALL came from */
{
    for (int i = 0; i < p->phase_count; i++)
        for (int k = 0; k < p->phases[i]->task_count; k++)
            if (p->phases[i]->tasks[k]->kernel == p->kernels[call->target] && p->phases[i]->tasks[k]->kind == TASK_KERNEL)
                return p->phases[i]->tasks[k];
    return NULL;
}
#endif
