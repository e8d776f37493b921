/* schedule_test.c: from random phases to schedules: shards, order, placement, waits, regions. The machine that runs schedules
 * (schedule_machine.h) shows that all conflicting accesses are ordered, that no wait is superfluous, and agrees with the
 * verifier about regions that were changed. */
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "tests/unit/schedule_machine.h"

#include <stdlib.h>

static int failures;

static void result(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failures += why != NULL;
}

/* some sequences of phases on which to run the machine: each phase alone, some mixed */
static const char *try_sequences(const Schedule *s, Random *r, int mixed)
{
    const char *why = NULL;
    for (int i = 0; i < s->phase_count + mixed && !why; i++) {
        int sequence[MOST_STEPS], steps = i < s->phase_count ? 4 : MOST_STEPS;
        for (int q = 0; q < steps; q++)
            sequence[q] = i < s->phase_count ? i : q && random_chance(r, 50) ? sequence[q - 1] : random_below(r, s->phase_count);
        why = try_sequence(s, sequence, steps, r, NULL);
    }
    return why;
}

static void make_large(Program *p, Random *r) /* samples of values: chunks become small */
{
    for (int i = 0; i < p->phase_count; i++)
        for (int k = 0; k < p->phases[i]->tensor_count; k++) {
            Tensor *x = p->phases[i]->tensors[k];
            if (x->kind == TENSOR_TEMPORARY && x->has_samples)
                x->shape.extent[x->shape.rank++] = 1 + random_below(r, 5000);
        }
}

static void test_races(int programs)
{
    const char *why = NULL;
    for (int seed = 0; seed < programs && !why; seed++) {
        Random r = {(uint64_t)seed + 1000};
        Program *p = random_program((uint64_t)seed, 16);
        if (seed % 4 == 3)
            make_large(p, &r);
        Plan *plan = random_plan(p, 1 + seed % 3);
        why = try_sequences(plan->schedule, &r, 4);
        if (why)
            why = format("program %d on %d devices: %s", seed, plan->devices, why);
    }
    result("conflicting accesses are ordered", why);
}

/* ---- regions */
static const char *check_region(const DeviceSchedule *d, int *calls, int *joined, int *local)
{
    for (int i = 0; i < d->buffer_count; i++)
        *local += d->buffers[i].kind == BUFFER_LOCAL && d->buffers[i].bytes < d->buffers[i].each * d->capacity;
    int region = -1;
    int64_t chunk = 0;
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (op->verb != VERB_CALL)
            continue;
        if (op->region != region && op->region != region + 1)
            return format("%s is in region %d, behind region %d", op->id, op->region, region);
        if (op->chunk < 0 || (op->region == region && op->chunk != chunk))
            return format("%s takes %lld samples at a time", op->id, (long long)op->chunk);
        *joined += op->region == region;
        ++*calls;
        region = op->region;
        chunk = op->chunk;
    }
    return NULL;
}

static void test_regions(int programs)
{
    const char *why = NULL;
    int calls = 0, joined = 0, local = 0;
    for (int seed = 0; seed < programs && !why; seed++) {
        Program *p = random_program((uint64_t)seed + 20000, 40);
        Options options = *p->options;
        options.no_reuse = seed % 5 == 0;
        p->options = &options;
        Random r = {(uint64_t)seed};
        if (seed % 2)
            make_large(p, &r);
        const Schedule *s = random_plan(p, 1 + seed % 4)->schedule;
        for (int i = 0; i < s->phase_count && !why; i++)
            for (int d = 0; d < s->devices && !why; d++)
                why = check_region(&s->phases[i].devices[d], &calls, &joined, &local);
        why = why ? why : verify(s);
        if (why)
            why = format("program %d: %s", seed, why);
    }
    if (!why && (joined * 5 < calls || local < programs / 10))
        why = format("of %d calls only %d are in a region with the one before, %d values are local to a chunk", calls, joined,
                     local);
    result("schedules with regions are proved", why);
}

static void change_regions(DeviceSchedule *d, Random *r) /* joins two regions, or takes `samples` from a call */
{
    if (!d->op_count)
        return;
    int at = random_below(r, d->op_count), before = at - 1;
    ScheduledOp *op = &d->ops[at];
    while (before >= 0 && d->ops[before].lane != LANE_COMP)
        before--;
    if (op->verb != VERB_CALL || before < 0)
        return;
    if (random_chance(r, 30)) {
        op->by_sample = false;
        return;
    }
    int region = op->region, by = region - d->ops[before].region;
    for (int i = 0; i < d->op_count; i++)
        if (d->ops[i].verb == VERB_CALL) {
            d->ops[i].region -= d->ops[i].region >= region ? by : 0;
            d->ops[i].chunk = 0; /* in all regions alike */
        }
}

/* regions that were changed: what the verifier accepts has no race and ends */
static void test_changed(int programs)
{
    const char *why = NULL;
    int accepted = 0, rejected = 0;
    for (int seed = 0; seed < programs && !why; seed++) {
        Random r = {(uint64_t)seed + 30000};
        Schedule *s = random_plan(random_program((uint64_t)seed + 30000, 12), 1 + seed % 2)->schedule;
        change_regions(&s->phases[random_below(&r, s->phase_count)].devices[random_below(&r, s->devices)], &r);
        bool good = !verify(s);
        accepted += good;
        rejected += !good;
        why = good ? try_sequences(s, &r, 2) : NULL;
        if (why)
            why = format("program %d: %s", seed, why);
    }
    if (!why && (accepted * 10 < programs || rejected * 10 < programs))
        why = format("%d accepted, %d rejected", accepted, rejected);
    result("regions that are proved have no race", why);
}

/* Without any one of its waits a phase has a race, alone or after another one. */
static bool is_needed(const Schedule *s, int phase, const Wait *wait, Random *r)
{
    int same[] = {phase, phase, phase, phase};
    if (try_sequence(s, same, 4, r, wait))
        return true;
    for (int other = 0; other < s->phase_count; other++) {
        int sequences[][5] = {{other, phase, phase, phase, phase},
                              {phase, other, phase, phase, phase},
                              {other, other, phase, phase, phase},
                              {phase, phase, other, phase, phase}};
        for (int i = 0; i < COUNT(sequences); i++)
            if (try_sequence(s, sequences[i], 5, r, wait))
                return true;
    }
    return false;
}

/* it sends other bytes than it receives: waits are those of the whole value, on all devices alike */
static bool is_partial(const ScheduledOp *op)
{
    return op->verb == VERB_TRANSFER && (op->reads[0].begin != op->writes[0].begin || op->reads[0].end != op->writes[0].end);
}

static void test_minimal(int programs)
{
    const char *why = NULL;
    int waits = 0, idle = 0;
    for (int seed = 0; seed < programs && !why; seed++) {
        Random r = {(uint64_t)seed};
        Plan *plan = random_plan(random_program((uint64_t)seed + 500, 8), 2);
        for (int i = 0; i < plan->schedule->phase_count && !why; i++) {
            const DeviceSchedule *d = &plan->schedule->phases[i].devices[0];
            for (int k = 0; k < d->op_count && !why; k++)
                for (int w = 0; w < d->ops[k].wait_count && !why; w++) {
                    const Wait *wait = &d->ops[k].waits[w];
                    if (is_partial(&d->ops[k]) || is_partial(&d->ops[wait->op]))
                        continue;
                    waits++;
                    if (is_needed(plan->schedule, i, wait, &r))
                        continue;
                    idle++;
                    /* between host and copy a wait may be implied by what all phases of this program happen to do */
                    if (wait->back == 0 || mgpu_lane_transfers((int)d->ops[k].lane))
                        why = format("program %d, %s: %s does not need %s@-%d", seed, plan->schedule->phases[i].name,
                                     d->ops[k].id, d->ops[wait->op].id, wait->back);
                }
        }
    }
    if (!why && idle * 10 > waits)
        why = format("%d of %d waits are superfluous", idle, waits);
    result("no wait is superfluous", why);
}

/* ---- order and memory: the operations of a device one by one, in the order of the list; who wrote each byte */
static const char *check_memory(const Program *p, const Phase *phase, const DeviceSchedule *d)
{
    int *owner = NEW_ARRAY(int, (int)d->arena_bytes), *summed = NEW_ARRAY(int, phase->tensor_count);
    Access *home = NEW_ARRAY(Access, phase->tensor_count);
    bool *known = NEW_ARRAY(bool, phase->tensor_count);
    for (int i = 0; i < d->op_count; i++) {
        const ScheduledOp *op = &d->ops[i];
        if (op->verb == VERB_TRANSFER) {
            const Access *a = op->reads, *all = op->writes;
            for (int t = 0; t < phase->tensor_count && all->end - all->begin > a->end - a->begin; t++) /* of all devices */
                for (int64_t at = all->begin; at < all->end && known[t] && home[t].buffer == all->buffer; at++)
                    owner[d->buffers[all->buffer].offset + at] = t + 1;
            for (int t = 0; t < phase->tensor_count; t++)
                if (known[t] && home[t].buffer == a->buffer &&
                    (is_partial(op) || (home[t].begin >= a->begin && home[t].end <= a->end)))
                    summed[t]++;
            continue;
        }
        if (op->verb != VERB_CALL)
            continue;
        const Task *task = random_task(p, op);
        for (int k = 0; k < task->read_count + task->write_count; k++) {
            bool write = k >= task->read_count;
            const Tensor *x = write ? task->writes[k - task->read_count] : task->reads[k];
            const Access *a = write ? &op->writes[k - task->read_count] : &op->reads[k];
            const Buffer *b = &d->buffers[a->buffer];
            if (a->end > b->bytes || b->offset + b->bytes > d->arena_bytes || b->offset % 64)
                return format("%s lies outside its buffer or the arena", x->name);
            int64_t samples = b->kind == BUFFER_LOCAL && op->chunk < d->capacity ? op->chunk : d->capacity;
            bool own = tensor_is_divided(x, task->elements);
            int64_t part = (op->own.end - op->own.begin) * dtype_bytes(x->dtype);
            if (a->end - a->begin != (own ? part : tensor_bytes(x, samples)) || (a->begin && a->begin % dtype_bytes(x->dtype)))
                return format("%s has the wrong bytes", x->name);
            if (x->kind == TENSOR_TEMPORARY && !write && x->partial && !summed[x->id] && a->end > a->begin &&
                b->kind == BUFFER_BUCKET)
                return format("%s reads %s before it is summed", op->id, x->name);
            for (int64_t at = b->offset + a->begin; at < b->offset + a->end && b->slots == 1; at++) {
                if (!write && x->kind == TENSOR_TEMPORARY && owner[at] != x->id + 1)
                    return format("%s reads %s, which something else has overwritten", op->id, x->name);
                if (write)
                    owner[at] = x->id + 1;
            }
            home[x->id] = *a;
            known[x->id] = true;
        }
        int arguments = task->write_count;
        if (task->workspace_bytes + task->workspace_bytes_per_sample > 0) {
            const Access *a = &op->writes[arguments++];
            for (int64_t at = 0; at < a->end; at++)
                owner[d->buffers[a->buffer].offset + at] = 0;
        }
        if (op->write_count != arguments || op->read_count != task->read_count + 1)
            return format("%s has %d arguments", op->id, op->read_count + op->write_count);
    }
    return NULL;
}

static int op_of_task(const Program *p, const DeviceSchedule *d, const Task *task)
{
    for (int i = 0; i < d->op_count; i++)
        if (d->ops[i].verb == VERB_CALL && p->kernels[d->ops[i].target] == task->kernel)
            return i;
    return -1;
}

/* every two tasks that conflict run in the order of the phase (the order of a lane is that of the list) */
static const char *check_order(const Program *p, const Phase *phase, const DeviceSchedule *d)
{
    int *at = NEW_ARRAY(int, phase->task_count), calls = 0;
    for (int i = 0; i < phase->task_count; i++) {
        at[i] = phase->tasks[i]->kind == TASK_KERNEL ? op_of_task(p, d, phase->tasks[i]) : -1;
        calls += at[i] >= 0;
        if (phase->tasks[i]->kind == TASK_KERNEL && at[i] < 0)
            return "a task is missing";
    }
    for (int i = 0; i < d->op_count; i++)
        calls -= d->ops[i].verb == VERB_CALL;
    if (calls)
        return "a task is called twice";
    for (int a = 0; a < phase->task_count; a++)
        for (int b = a + 1; b < phase->task_count; b++) {
            const Task *x = phase->tasks[a], *y = phase->tasks[b];
            if (at[a] < 0 || at[b] < 0 || at[a] < at[b])
                continue;
            for (int i = 0; i < x->write_count; i++) {
                for (int k = 0; k < y->read_count; k++)
                    if (x->writes[i] == y->reads[k])
                        return format("%s comes before it is made", x->writes[i]->name);
                for (int k = 0; k < y->write_count; k++)
                    if (x->writes[i] == y->writes[k])
                        return format("%s is written in the wrong order", x->writes[i]->name);
            }
            for (int i = 0; i < x->read_count; i++)
                for (int k = 0; k < y->write_count; k++)
                    if (x->reads[i] == y->writes[k])
                        return format("%s is written before it is read", x->reads[i]->name);
        }
    return NULL;
}

static void test_memory(int programs)
{
    const char *why = NULL, *larger = NULL;
    for (int seed = 0; seed < programs && !why; seed++) {
        Program *p = random_program((uint64_t)seed + 7000, 40);
        Schedule *reused = NULL;
        for (int no_reuse = 0; no_reuse < 2 && !why; no_reuse++) {
            Options options = *p->options;
            options.no_reuse = no_reuse;
            p->options = &options;
            Plan *plan = random_plan(p, 1 + seed % 4);
            for (int i = 0; i < p->phase_count && !why; i++)
                for (int d = 0; d < plan->devices && !why; d++) {
                    const DeviceSchedule *device = &plan->schedule->phases[i].devices[d];
                    why = check_memory(p, p->phases[i], device);
                    why = why ? why : check_order(p, p->phases[i], device);
                    for (int b = 0; b < device->buffer_count && no_reuse && !why; b++)
                        for (int c = 0; c < b; c++) {
                            const Buffer *x = &device->buffers[b], *y = &device->buffers[c];
                            if ((x->kind == BUFFER_STAGING) == (y->kind == BUFFER_STAGING) && x->offset < y->offset + y->bytes &&
                                y->offset < x->offset + x->bytes)
                                why = format("%s and %s share bytes", x->name, y->name);
                        }
                    if (no_reuse && device->arena_bytes < reused->phases[i].devices[d].arena_bytes)
                        larger = format("program %d", seed);
                    if (why)
                        why = format("program %d, %s: %s", seed, plan->schedule->phases[i].name, why);
                }
            reused = plan->schedule;
        }
    }
    result("no byte is overwritten while it is needed", why);
    result("placement needs no more than no reuse", larger);
}

/* ---- shards */
static void test_split(void)
{
    const char *why = NULL;
    for (int64_t batch = 1; batch <= 40 && !why; batch++)
        for (int64_t group = 1; group <= 5 && !why; group++)
            for (int64_t accumulate = 1; accumulate <= 4 && !why; accumulate++)
                for (int devices = 1; devices <= 9 && !why; devices++) {
                    Model model = {.batch = batch, .group = group, .accumulate = accumulate};
                    Program p = {.model = &model};
                    Plan plan = {.nodes = 1, .devices = devices};
                    split(&p, &plan);
                    int64_t next = 0, least = INT64_MAX, most = 0;
                    bool idle = false, falls = true;
                    for (int d = 0; d < devices; d++) {
                        const Shard *s = &plan.shards[d];
                        falls = falls && s->first == next && s->share % group == 0 && s->capacity == (s->share ? s->share : 1) &&
                                (d == 0 || s->share <= s[-1].share);
                        next += s->share;
                        least = s->share < least ? s->share : least;
                        most = s->share > most ? s->share : most;
                        idle |= s->share == 0;
                    }
                    int64_t exact = (batch + accumulate - 1) / accumulate;
                    if (!falls || next != plan.micro || most - least > group || idle != plan.always_partial ||
                        plan.micro != (exact + group - 1) / group * group)
                        why = format("batch %d, group %d, accumulate %d, %d devices", (int)batch, (int)group, (int)accumulate,
                                     devices);
                }
    result("shards", why);
}

/* ---- overlap: a chain of layers, as a network makes it */
static Program *chain(int layers, int64_t bucket_bytes)
{
    Program *p = NEW(Program);
    Options *options = NEW(Options);
    Model *m = p->model = NEW(Model);
    options->bucket_bytes = bucket_bytes;
    p->options = options;
    p->target = &host_target;
    *m = (Model){
        .name = "chain", .batch = 8, .accumulate = 1, .group = 1, .precision = F32, .input_count = 1, .variable_count = layers};
    m->inputs = NEW(Input);
    *m->inputs = (Input){.name = "x", .dtype = F32, .shape = SHAPE(64)};
    m->variables = NEW_ARRAY(Variable, layers);
    Random r = {1};
    RandomPhase b = {.whole = true, .r = &r, .program = p, .phase = NEW(Phase), .variables = NEW_ARRAY(Tensor *, layers)};
    b.phase->kind = PHASE_TRAIN;
    Tensor **activations = NEW_ARRAY(Tensor *, layers + 1), **gradients = NEW_ARRAY(Tensor *, layers);
    activations[0] = random_tensor(&b, TENSOR_INPUT, "in.x", 0, F32, SHAPE(64), true);
    for (int i = 0; i < layers; i++) {
        m->variables[i] = (Variable){.name = format("%d.weight", i), .dtype = F32, .shape = SHAPE(64, 64), .owner = -1};
        Task *t = random_add(&b, TASK_KERNEL);
        random_read(t, activations[i]);
        random_read(t, random_variable(&b, i));
        t->kernel->split = MGPU_SPLIT_SAMPLES;
        activations[i + 1] = random_temporary(&b, F32, SHAPE(64), true);
        random_write(t, activations[i + 1]);
    }
    Tensor *down = activations[layers];
    for (int i = layers - 1; i >= 0; i--) {
        Task *weight = random_add(&b, TASK_KERNEL), *input = random_add(&b, TASK_KERNEL);
        weight->backward = input->backward = true;
        weight->kernel->split = MGPU_SPLIT_RANGE;
        input->kernel->split = MGPU_SPLIT_SAMPLES;
        random_read(weight, activations[i]);
        random_read(weight, down);
        random_partial(&b, weight, F32, SHAPE(64, 64));
        gradients[i] = b.pending[0];
        random_read(input, down);
        random_read(input, random_variable(&b, i));
        down = random_temporary(&b, F32, SHAPE(64), true);
        random_write(input, down);
        random_reduce(&b, 0);
        random_update(&b, i, random_whole(&b, gradients[i]), NULL);
    }
    for (int i = 0; i < b.phase->task_count; i++)
        b.phase->tasks[i]->workspace_bytes = b.phase->tasks[i]->workspace_bytes_per_sample = 0;
    APPEND(p->phases, p->phase_count, b.phase);
    return p;
}

static void test_overlap(void)
{
    Program *p = chain(12, 2 * 64 * 64 * 4);
    Plan *plan = random_plan(p, 2);
    const PhaseSchedule *s = &plan->schedule->phases[0];
    const DeviceSchedule *d = &s->devices[1];
    const char *why = s->collective_count == 6 ? NULL : format("%d buckets", s->collective_count);
    int last_backward = -1, first_update = d->op_count;
    for (int i = 0; i < d->op_count; i++) {
        const Task *task = d->ops[i].verb == VERB_CALL ? random_task(p, &d->ops[i]) : NULL;
        if (task && task->backward)
            last_backward = i;
        if (task && task->update && i < first_update)
            first_update = i;
    }
    if (first_update < last_backward)
        why = "an update comes before backward is over";
    for (int c = 0; c < s->collective_count && !why; c++) {
        const ScheduledOp *op = &d->ops[s->collectives[c].ops[1]];
        const Task *producer = op->wait_count == 1 ? random_task(p, &d->ops[op->waits[0].op]) : NULL;
        if (!producer || op->waits[0].back || !producer->backward)
            why = format("%s does not wait for its last producer alone", op->id);
        int after = 0; /* kernels of backward that run meanwhile */
        for (int i = op->wait_count ? op->waits[0].op + 1 : 0; i < d->op_count; i++)
            after += d->ops[i].verb == VERB_CALL && random_task(p, &d->ops[i])->backward;
        for (int i = op->wait_count ? op->waits[0].op + 1 : 0; i < d->op_count && !why; i++)
            if (d->ops[i].verb == VERB_CALL && d->ops[i].region == d->ops[op->waits[0].op].region)
                why = format("%s is in the region that %s waits for", d->ops[i].id, op->id);
        if (!why && after != 4 * (s->collective_count - 1 - c) + 1)
            why = format("%d kernels of backward run beside %s", after, op->id);
    }
    int previous = -1;
    for (int i = first_update; i < d->op_count && !why; i++) /* in the order of the buckets, one wait each */
        for (int w = 0; w < d->ops[i].wait_count && !why; w++) {
            const ScheduledOp *on = &d->ops[d->ops[i].waits[w].op];
            if (on->verb != VERB_TRANSFER || on->target != ++previous)
                why = format("%s waits for %s", d->ops[i].id, on->id);
        }
    if (!why && previous != s->collective_count - 1)
        why = "a bucket is not waited for";
    result("reductions overlap backward", why);
}

static void test_tight(void) /* activations are freed in the reverse order: no byte need be lost */
{
    Program *p = chain(200, 1);
    const char *why = NULL;
    for (int devices = 1; devices <= 2; devices++) {
        const Schedule *s = random_plan(p, devices)->schedule;
        int64_t samples = 8 / devices, persistent = 0, weights = 200 * 64 * 64 * 4, one = samples * 64 * 4;
        for (int b = 0; b < s->phases[0].devices[0].buffer_count; b++) {
            const Buffer *x = &s->phases[0].devices[0].buffers[b];
            if (x->kind == BUFFER_VARIABLE || x->kind == BUFFER_INPUT || x->kind == BUFFER_STEP)
                persistent += (x->bytes + 63) / 64 * 64 * x->slots;
        }
        int64_t most = devices == 1 ? 201 * one + 64 * 64 * 4 : weights + 3 * one; /* activations; all gradients */
        int64_t transient = s->phases[0].devices[0].arena_bytes - persistent;
        if (transient > most + most / 20)
            why = format("%d devices: %lld bytes, not %lld", devices, (long long)transient, (long long)most);
    }
    result("placement is tight", why);
}

int main(int argc, char **argv)
{
    int scale = argc > 1 ? atoi(argv[1]) : 1; /* more of everything random */
    test_split();
    test_overlap();
    test_tight();
    test_memory(60 * scale);
    test_races(40 * scale);
    test_regions(100 * scale);
    test_changed(60 * scale);
    test_minimal(4 * scale);
    return failures != 0;
}
