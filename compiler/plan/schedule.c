/* schedule.c: Phases x Plan -> Schedule: operations on lanes, what each waits for, and when it should run.
 *
 * One step of a phase on a device, in an order in which it could run on one lane (the serial order):
 *
 *   host   READ              inputs -> staging
 *   host   REPORT, FETCH     what the previous step left in its slots (@-1)
 *   copy   UPLOAD            staging -> inputs, step block; after the previous step, if the plan does not prefetch
 *   comp   CALL ...          as ordered by bucket.c; every call also reads the step block
 *   comm   REDUCE ...        each after the call that completes its sum
 *   sync   REDUCE ...        likewise, where computing waits for them (bucket.c)
 *
 * A wait always leads backwards in this order or to an earlier step, on every device alike, so there can be no deadlock.
 *
 * Waits. Unroll slots + 1 steps. For every range of bytes that a lane other than comp ever accesses (comp is in order with
 * itself), keep the last read and the last write of each lane. An access must come after those that conflict with it, that is,
 * per lane after the latest of them. Of these candidates an operation waits only for those that are not implied by its lane's
 * order and its other waits. A vector clock per operation (for each lane the last operation known to have completed) finds these.
 * An earlier step may have been of any phase, so the waits of its operations imply nothing, except between comp, comm and sync:
 * at a change of phase these lanes wait for each other.
 *
 * Devices of equal capacity and rates form a class and have equal schedules. Times come from durations.c; every operation begins
 * as early as its lane, waits and collective allow.
 *
 * If the arena of a program does not fit into a GPU, the message proposes a batch. So find_arena_sizes also places the arena for
 * 1, 2, 4, 8 ... groups of samples and for the capacity of the devices, and keeps only its size. Between two of these sizes the
 * arena grows linearly, if nothing is lost by aligning buffers; space for that is added to each. This takes longer than the
 * schedule, so it is done only on request. */
#include "compiler/kernel/phase.h"
#include "compiler/plan/gather.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule.h"
#include "compiler/plan/schedule_internal.h"

#include "compiler/kernel/target.h"
#include "runtime/abi/mgpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- one phase for the devices of one capacity */
typedef struct DeviceClass {
    int device;              /* the first device of the class */
    int64_t capacity, micro; /* micro: as in place_phase */
    Persistent *persistent;
    int64_t arena_bytes, work_bytes; /* maximum over all phases; arena_bytes without the workspaces */
    int64_t least_arena, least_work; /* lower bounds for any offsets */
    int64_t align_bytes;             /* bytes that alignment of a phase's buffers may cost for some number of samples */
} DeviceClass;

typedef struct Builder {
    const Program *program;
    const Plan *plan;
    const Phase *phase;
    const Order *order;
    const DeviceClass *class;
    MemoryLayout *layout;
    const TaskDigest *digests;
    const Names *names;
    Members members;
    ScheduledOp *ops;
    int op_count;
    Memory *kept; /* memory of names, which become the schedule's */
    bool sizes;   /* only sizes are computed: no operations, no names */
} Builder;

typedef struct KernelNumber {
    const Kernel *kernel;
    int number;
} KernelNumber; /* sorted by address */

static int compare_kernels(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const KernelNumber *)a)->kernel, y = (uintptr_t)((const KernelNumber *)b)->kernel;
    return (x > y) - (x < y);
}

static KernelNumber *number_kernels(const Program *p)
{
    KernelNumber *numbers = NEW_ARRAY(KernelNumber, p->kernel_count);
    for (int i = 0; i < p->kernel_count; i++)
        numbers[i] = (KernelNumber){p->kernels[i], i};
    qsort(numbers, (size_t)p->kernel_count, sizeof *numbers, compare_kernels);
    return numbers;
}

static int kernel_number(const Program *p, const KernelNumber *numbers, const Kernel *kernel)
{
    KernelNumber key = {kernel, 0};
    const KernelNumber *found = bsearch(&key, numbers, (size_t)p->kernel_count, sizeof key, compare_kernels);
    if (!found)
        die("a task calls a kernel that is not in the program");
    return found->number;
}

/* ---- operations */
static ScheduledOp *add_op(Builder *b, const char *name, Lane lane, Verb verb, int target, const char *label)
{
    ScheduledOp *op = &b->ops[b->op_count++];
    Memory *outer = memory_use(b->kept);
    *op = (ScheduledOp){.id = copy_text(name, strlen(name)),
                        .lane = (uint8_t)lane,
                        .verb = (uint8_t)verb,
                        .target = target,
                        .label = copy_text(label, strlen(label)),
                        .region = -1};
    memory_use(outer);
    return op;
}

static void add_read(ScheduledOp *op, Access a) { APPEND(op->reads, op->read_count, a); }
static void add_write(ScheduledOp *op, Access a) { APPEND(op->writes, op->write_count, a); }

static Access step_access(const Builder *b)
{
    int step = b->class->persistent->step;
    return whole_buffer(step, b->layout->buffers[step].bytes);
}

static void add_input_ops(Builder *b) /* READ of this step, outstanding operations of the previous step, UPLOAD */
{
    const Phase *p = b->phase;
    const Persistent *a = b->class->persistent;
    ScheduledOp *read = NULL, *upload;
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        if (x->kind != TENSOR_INPUT || b->layout->tensor[i].buffer < 0)
            continue;
        if (!read)
            read = add_op(b, "read", LANE_HOST, VERB_READ, -1, "-");
        add_write(read, whole_buffer(a->staging[x->index], b->layout->buffers[a->staging[x->index]].bytes));
    }
    for (int i = 0; i < p->tensor_count; i++) {
        const Tensor *x = p->tensors[i];
        Access slot = b->layout->tensor[i];
        if ((x->kind != TENSOR_REPORT && x->kind != TENSOR_OUTPUT) || slot.buffer < 0)
            continue;
        slot.slot = -1;
        bool report = x->kind == TENSOR_REPORT;
        const char *label = !report && strncmp(x->name, "out.", 4) == 0 ? x->name + 4 : x->name;
        ScheduledOp *op = add_op(b, report ? "report" : name_of_fetch(x), LANE_HOST, report ? VERB_REPORT : VERB_FETCH,
                                 report ? -1 : x->index, report ? "-" : label);
        add_read(op, slot);
        op->time_us = cost_download(b->members.machine, b->members.processor, plan_place(b->plan, b->class->device),
                                    accessed_bytes(op->reads, 1))
                          .us;
    }
    upload = add_op(b, "upload", LANE_COPY, VERB_UPLOAD, -1, "-");
    for (int i = 0; read && i < read->write_count; i++) {
        Access from = read->writes[i];
        add_read(upload, from);
        from.buffer = a->input[b->layout->buffers[from.buffer].index];
        add_write(upload, from);
    }
    if (read)
        read->time_us = cost_upload(b->members.machine, PROCESSOR_HOST, 0, accessed_bytes(read->writes, read->write_count)).us;
    add_write(upload, step_access(b));
    upload->time_us = cost_upload(b->members.machine, b->members.processor, plan_place(b->plan, b->class->device),
                                  accessed_bytes(upload->writes, upload->write_count))
                          .us;
}

static const char *copy_of_text(Builder *b, const char *text) /* a copy that lives as long as the schedule */
{
    Memory *outer = memory_use(b->kept);
    const char *copy = text ? copy_text(text, strlen(text)) : NULL;
    memory_use(outer);
    return copy;
}

/* Returns the whole of a Split value; own_part (device_parts.c) selects the device's part. */
static Access argument_access(const Builder *b, const Task *t, const Tensor *x)
{
    Access a = b->layout->tensor[x->id];
    if (tensor_is_divided(x, t->elements) && !b->layout->buffers[a.buffer].elements)
        a.of = a.end - a.begin;
    return a;
}

static void add_call(Builder *b, const KernelNumber *kernels, int call)
{
    const Task *task = b->order->calls[call];
    int kernel = kernel_number(b->program, kernels, task->kernel);
    const TaskName *name = name_of_task(b->names, task);
    ScheduledOp *op = add_op(b, name->op, LANE_COMP, VERB_CALL, kernel, kernel_label(task->kernel));
    for (int i = 0; i < task->read_count; i++)
        add_read(op, argument_access(b, task, task->reads[i]));
    add_read(op, step_access(b));
    for (int i = 0; i < task->write_count; i++)
        add_write(op, argument_access(b, task, task->writes[i]));
    if (b->layout->work[call].buffer >= 0)
        add_write(op, b->layout->work[call]);
    Cost cost = cost_of_call(b->program, &b->members, b->order, call, b->class->device, (double)b->class->capacity);
    op->time_us = cost.us;
    op->ground = (int)cost.ground;
    op->region = b->order->region[call];
    op->chunk = b->order->chunk[call];
    op->elements = task->elements;
    op->by_sample = b->program->target->regions && task->kernel->split == MGPU_SPLIT_SAMPLES && !task->elements;
    op->line = model_line(task->at);
    op->layer = copy_of_text(b, name->layer);
    op->role = copy_of_text(b, name->role);
    op->other_pass = time_of_other_pass(b->program, &b->members, b->class->device, task, (double)b->class->capacity);
    double units = units_of_task(task, b->members.count, (double)b->class->capacity);
    op->flops = task_flops(task, units);
    op->bytes = task_bytes(task, units);
    op->digest = digest_of(b->digests, b->phase->task_count, task);
    op->nan_sources = task->nan_sources;
    op->nan_source_count = task->nan_source_count;
}

static Lane lane_of_group(const Group *g) { return g->in_sync_lane ? LANE_SYNC : LANE_COMM; }

/* Adds a transfer. A member reads and writes only its own part of the value (own_share in device_parts.c), but waits as if for
 * the whole value, the same on all devices. */
static void add_transfer(Builder *b, int group)
{
    ScheduledOp *op = add_op(b, b->names->transfer[group], lane_of_group(&b->order->groups[group]), VERB_TRANSFER, group,
                             b->names->group[group]);
    Access a = b->layout->group[group];
    add_read(op, a);
    add_write(op, a);
    Cost cost = cost_of_transfer(&b->members, &b->order->groups[group], accessed_bytes(&a, 1));
    op->time_us = cost.us;
    op->ground = (int)cost.ground;
    op->line = model_line(b->order->groups[group].at);
}

static void add_ops(Builder *b, const KernelNumber *kernels)
{
    int calls = b->order->call_count, groups = b->order->group_count;
    b->ops = NEW_ARRAY(ScheduledOp, calls + groups + b->phase->tensor_count + 2);
    if (calls)
        add_input_ops(b);
    for (int call = -1, group = 0; call < calls; call++) {
        if (call >= 0)
            add_call(b, kernels, call);
        while (group < groups && b->order->groups[group].after == call)
            add_transfer(b, group++);
    }
}

/* ---- waits */
typedef struct History {
    int64_t read[LANES], write[LANES];
} History; /* the last instances; -1: none */
typedef struct InstanceClock {
    int64_t over[LANES];
} InstanceClock; /* instance = unrolled step x op_count + operation */
static const InstanceClock NOTHING_OVER = {{-1, -1, -1, -1, -1}};
_Static_assert(LANES == 5, "NOTHING_OVER has a number for each lane");

typedef struct Waiting {
    Builder *b;
    int steps;            /* number of unrolled steps */
    int64_t staging_base; /* staging memory has addresses after the arena */
    int64_t *bounds;      /* sorted: bounds of all accesses by lanes other than comp */
    int bound_count;
    History *history;      /* of bytes [bounds[i], bounds[i + 1]) */
    InstanceClock *clocks; /* of the operations of the last step */
} Waiting;

static int64_t address_of(const Waiting *w, const Access *a, int step)
{
    const Buffer *b = &w->b->layout->buffers[a->buffer];
    int64_t slot = ((step + a->slot) % b->slots + b->slots) % b->slots;
    return (b->kind == BUFFER_STAGING ? w->staging_base : 0) + b->offset + slot * align_bytes(b->bytes) + a->begin;
}

static int compare_bounds(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void find_bounds(Waiting *w)
{
    int count = 0;
    for (int i = 0; i < w->b->op_count; i++) {
        const ScheduledOp *op = &w->b->ops[i];
        for (int k = 0; k < op->read_count + op->write_count && op->lane != LANE_COMP; k++)
            for (int step = 0; step < w->steps; step++) {
                const Access *a = k < op->read_count ? &op->reads[k] : &op->writes[k - op->read_count];
                int64_t begin = address_of(w, a, step), end = begin + a->end - a->begin;
                APPEND(w->bounds, count, begin);
                APPEND(w->bounds, count, end);
            }
    }
    if (count)
        qsort(w->bounds, (size_t)count, sizeof *w->bounds, compare_bounds);
    for (int i = 0; i < count; i++)
        if (i == 0 || w->bounds[i] != w->bounds[w->bound_count - 1])
            w->bounds[w->bound_count++] = w->bounds[i];
    w->history = NEW_ARRAY(History, w->bound_count);
    for (int i = 0; i < w->bound_count; i++)
        for (int lane = 0; lane < LANES; lane++)
            w->history[i].read[lane] = w->history[i].write[lane] = -1;
}

static int first_bound(const Waiting *w, int64_t address) /* the range that contains the address, or the first one */
{
    int low = 0, high = w->bound_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (w->bounds[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

/* Updates the candidates, per lane the latest instance that conflicts, or (record) adds the access to the history. */
static void visit(Waiting *w, const Access *a, int step, bool write, int64_t instance, Lane lane, InstanceClock *candidates,
                  bool record)
{
    int64_t begin = address_of(w, a, step), end = begin + a->end - a->begin;
    for (int i = first_bound(w, begin); i < w->bound_count && w->bounds[i] < end; i++) {
        if (i + 1 == w->bound_count || w->bounds[i + 1] <= begin)
            continue;
        History *h = &w->history[i];
        for (int l = 0; l < LANES && !record; l++) {
            if (h->write[l] > candidates->over[l])
                candidates->over[l] = h->write[l];
            if (write && h->read[l] > candidates->over[l])
                candidates->over[l] = h->read[l];
        }
        if (record)
            *(write ? &h->write[lane] : &h->read[lane]) = instance;
    }
}

/* Adds all that the devices compute and reduce in the step. */
static void wait_for_step(const Waiting *w, int step, InstanceClock *candidates)
{
    for (int i = 0; i < w->b->op_count; i++) {
        Lane lane = w->b->ops[i].lane;
        int64_t instance = (int64_t)step * w->b->op_count + i;
        if (mgpu_lane_synchronizes((int)lane) && instance > candidates->over[lane])
            candidates->over[lane] = instance;
    }
}

static InstanceClock find_candidates(Waiting *w, int step, int number)
{
    const ScheduledOp *op = &w->b->ops[number];
    InstanceClock candidates = NOTHING_OVER;
    int64_t instance = (int64_t)step * w->b->op_count + number;
    for (int record = 0; record < 2; record++) {
        for (int i = 0; i < op->read_count; i++)
            visit(w, &op->reads[i], step, false, instance, op->lane, &candidates, record);
        for (int i = 0; i < op->write_count; i++)
            visit(w, &op->writes[i], step, true, instance, op->lane, &candidates, record);
    }
    if (op->verb == VERB_UPLOAD && step > 0 && policy_of(w->b->program->options)->input != INPUT_AHEAD)
        wait_for_step(w, step - 1, &candidates);
    return candidates;
}

/* Chooses the waits of an operation. known: what has completed before the operation without its waits; becomes what has completed
 * after it. */
static void choose_waits(Waiting *w, int number, const InstanceClock *candidates, InstanceClock *known)
{
    ScheduledOp *op = &w->b->ops[number];
    int count = w->b->op_count;
    int64_t now = (int64_t)(w->steps - 1) * count;
    bool needed[LANES];
    for (int l = 0; l < LANES; l++)
        needed[l] = l != (int)op->lane && candidates->over[l] > known->over[l];
    for (int l = 0; l < LANES; l++)
        for (int other = 0; other < LANES && needed[l]; other++)
            if (other != l && needed[other] && candidates->over[other] >= now)
                needed[l] = w->clocks[candidates->over[other] - now].over[l] < candidates->over[l];
    op->waits = NULL;
    op->wait_count = 0;
    for (int l = 0; l < LANES; l++) {
        if (!needed[l])
            continue;
        int64_t instance = candidates->over[l];
        Wait wait = {(int)(instance % count), w->steps - 1 - (int)(instance / count)};
        APPEND(op->waits, op->wait_count, wait);
        if (instance > known->over[l])
            known->over[l] = instance;
        for (int k = 0; k < LANES && instance >= now; k++)
            if (w->clocks[instance - now].over[k] > known->over[k])
                known->over[k] = w->clocks[instance - now].over[k];
    }
    known->over[op->lane] = now + number;
    w->clocks[number] = *known;
}

static void find_waits(Builder *b)
{
    int slots = policy_of(b->program->options)->slots;
    Waiting w = {
        .b = b, .steps = (slots > SLOTS ? slots : SLOTS) + 1, .staging_base = b->layout->arena_bytes + b->layout->work_bytes};
    int count = b->op_count;
    InstanceClock *candidates = NEW_ARRAY(InstanceClock, count);
    w.clocks = NEW_ARRAY(InstanceClock, count);
    find_bounds(&w);
    for (int step = 0; step < w.steps; step++)
        for (int i = 0; i < count; i++)
            candidates[i] = find_candidates(&w, step, i);
    /* Twice: what comp, comm and sync know of each other at the end of a step, they know at the start of the next. */
    InstanceClock before[LANES];
    for (int lane = 0; lane < LANES; lane++)
        before[lane] = NOTHING_OVER;
    for (int round = 0; round < 2; round++) {
        InstanceClock known[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            known[lane] = before[lane];
            known[lane].over[lane] = (int64_t)(w.steps - 1) * count - 1;
        }
        for (int i = 0; i < count; i++)
            choose_waits(&w, i, &candidates[i], &known[b->ops[i].lane]);
        for (int lane = 0; lane < LANES; lane++)
            for (int other = 0; other < LANES; other++)
                if (mgpu_lane_synchronizes(lane) && mgpu_lane_synchronizes(other) && known[lane].over[other] >= count)
                    before[lane].over[other] = known[lane].over[other] - count;
    }
}

/* ---- times. Every class has the same operations in the same order; members of a collective begin together. */
void find_times(ScheduledOp *const *ops, int classes, int count)
{
    double(*free_us)[LANES] = allocate(sizeof *free_us * (size_t)classes);
    for (int i = 0; i < count; i++) {
        double latest = 0;
        for (int c = 0; c < classes; c++) {
            ScheduledOp *op = &ops[c][i];
            op->begin_us = free_us[c][op->lane];
            for (int k = 0; k < op->wait_count; k++) {
                const ScheduledOp *before = &ops[c][op->waits[k].op];
                if (op->waits[k].back == 0 && before->begin_us + before->time_us > op->begin_us)
                    op->begin_us = before->begin_us + before->time_us;
            }
            latest = op->begin_us > latest ? op->begin_us : latest;
        }
        for (int c = 0; c < classes; c++) {
            ScheduledOp *op = &ops[c][i];
            if (op->verb == VERB_TRANSFER)
                op->begin_us = latest;
            free_us[c][op->lane] = op->begin_us + op->time_us;
        }
    }
}

/* ---- the devices */
/* Copies the class's operations into memory that lives as long as the schedule. */
static ScheduledOp *copy_ops(const Builder *b)
{
    ScheduledOp *ops = copy_array(b->ops, sizeof *ops * (size_t)b->op_count);
    for (int i = 0; i < b->op_count; i++) {
        ops[i].reads = copy_array(ops[i].reads, sizeof(Access) * (size_t)ops[i].read_count);
        ops[i].writes = copy_array(ops[i].writes, sizeof(Access) * (size_t)ops[i].write_count);
        ops[i].waits = copy_array(ops[i].waits, sizeof(Wait) * (size_t)ops[i].wait_count);
    }
    return ops;
}

/* Plans of more devices than a program may have are only simulated: then devices have the parts of the first one in their
 * class. */
static void fill_device(PhaseSchedule *s, const Builder *b, const Shard *shard, Buffer *of_class, ScheduledOp *ops, int device)
{
    DeviceSchedule *d = &s->devices[device];
    if (b->plan->devices > MOST_DEVICES && device != b->class->device) {
        *d = s->devices[b->class->device];
        d->first = shard->first;
        d->share = shard->share;
        return;
    }
    bool whole = policy_of(b->program->options)->input == INPUT_WHOLE;
    Buffer *buffers = buffers_of_device(of_class, b->layout->buffer_count, b->plan->devices, device);
    *d = (DeviceSchedule){
        .name = b->plan->kind,
        .arena_bytes = b->layout->arena_bytes,
        .staging_bytes = b->class->persistent->staging_bytes,
        .first = shard->first,
        .share = shard->share,
        .capacity = shard->capacity,
        .buffers = buffers,
        .buffer_count = b->layout->buffer_count,
        .ops = ops_of_device(ops, b->op_count, b->order, buffers, b->plan->devices, device, whole ? shard->first : 0),
        .op_count = b->op_count,
    };
}

static CollectiveRecord collective_of(const Builder *b, int group)
{
    const Group *g = &b->order->groups[group];
    CollectiveRecord c = {.lane = (uint8_t)lane_of_group(g),
                          .count = g->bytes / dtype_bytes(g->dtype),
                          .dtype = (uint8_t)g->dtype,
                          .participants = g->participants,
                          .implementation = (uint8_t)implementation_of_transfer(b->program, &b->members, g)};
    if (g->participants.parts)
        c.participants.parts = copy_array(g->participants.parts, sizeof(int64_t) * (size_t)(b->plan->devices + 1));
    if (b->sizes)
        return c;
    c.why = reason_of_transfer(&b->members, g);
    c.of = names_of_group(b->names, g);
    c.of_count = g->member_count;
    return c;
}

static void list_collectives(PhaseSchedule *s, const Builder *b)
{
    s->collective_count = b->order->group_count;
    s->collectives = NEW_ARRAY(CollectiveRecord, s->collective_count);
    for (int i = 0; i < s->collective_count; i++)
        s->collectives[i] = collective_of(b, i);
    for (int i = 0; i < b->op_count; i++) {
        const ScheduledOp *op = &b->ops[i];
        if (op->verb != VERB_TRANSFER)
            continue;
        CollectiveRecord *c = &s->collectives[op->target];
        c->name = op->label;
        c->ops = NEW_ARRAY(int, b->plan->devices);
        for (int d = 0; d < b->plan->devices; d++)
            c->ops[d] = i;
    }
}

/* ---- the stage */
/* batch: samples of all devices */
static DeviceClass class_of_capacity(const Program *p, int devices, int device, Samples samples, int64_t micro, int64_t batch)
{
    Persistent *persistent = place_persistent(p, samples, policy_of(p->options)->input == INPUT_WHOLE ? batch : 0, devices);
    return (DeviceClass){device, samples.used, micro, persistent, persistent->common_bytes, 0, persistent->common_bytes, 0, 0};
}

static bool alike(const Program *p, int a, int b)
{
    return processor_of(p) == PROCESSOR_HOST || machine_alike(machine_of(p), a, b);
}

/* Returns the samples of all devices; a device without any has room for one. */
static int64_t whole_batch(const Plan *plan)
{
    int64_t end = 0;
    for (int d = 0; d < plan->devices; d++)
        end = plan->shards[d].first + plan->shards[d].capacity > end ? plan->shards[d].first + plan->shards[d].capacity : end;
    return end;
}

static int64_t least_capacity(const Plan *plan)
{
    int64_t least = plan_capacity(plan);
    for (int d = 0; d < plan->devices; d++)
        least = plan->shards[d].capacity < least ? plan->shards[d].capacity : least;
    return least;
}

static int find_classes(const Program *p, const Plan *plan, DeviceClass *classes, int *class_of)
{
    int count = 0;
    for (int d = 0; d < plan->devices; d++) {
        int c = 0;
        while (c < count && (classes[c].capacity != plan->shards[d].capacity ||
                             !alike(p, plan_place(plan, classes[c].device), plan_place(plan, d))))
            c++;
        if (c == count)
            classes[count++] = class_of_capacity(p, plan->devices, d,
                                                 (Samples){plan->shards[d].capacity, plan_capacity(plan), least_capacity(plan)},
                                                 0, whole_batch(plan));
        class_of[d] = c;
    }
    return count;
}

enum { ENOUGH = 64 };

static int find_trials(const Program *p, const Plan *plan, DeviceClass **trials)
{
    int64_t most = plan_capacity(plan), samples = p->model->group > 0 ? p->model->group : 1;
    int count = 0;
    if (!p->target->own_memory)
        return 0;
    for (; samples <= most / 2; samples *= 2)
        APPEND(*trials, count,
               class_of_capacity(p, plan->devices, 0, (Samples){samples, samples, samples}, samples * plan->devices,
                                 samples * plan->devices));
    APPEND(*trials, count, class_of_capacity(p, plan->devices, 0, (Samples){most, most, most}, plan->micro, whole_batch(plan)));
    for (samples = 2 * most; count == 1 || samples <= ENOUGH; samples *= 2) /* small arenas do not show how the arena grows */
        APPEND(*trials, count,
               class_of_capacity(p, plan->devices, 0, (Samples){samples, samples, samples}, samples * plan->devices,
                                 samples * plan->devices));
    return count;
}

static MemoryLayout *place_class(const Program *p, const Phase *phase, const Order *order, DeviceClass *class)
{
    MemoryLayout *l = place_phase(p, phase, order, class->persistent, class->micro);
    class->arena_bytes = l->arena_bytes > class->arena_bytes ? l->arena_bytes : class->arena_bytes;
    class->work_bytes = l->work_bytes > class->work_bytes ? l->work_bytes : class->work_bytes;
    class->least_arena = l->least_arena > class->least_arena ? l->least_arena : class->least_arena;
    class->least_work = l->least_work > class->least_work ? l->least_work : class->least_work;
    int64_t lost = workspace_alignment(p) - ALIGNMENT;
    for (int i = 0; i < l->buffer_count; i++)
        lost += l->buffers[i].each % ALIGNMENT != 0 && l->buffers[i].kind != BUFFER_STAGING ? l->buffers[i].slots * ALIGNMENT : 0;
    class->align_bytes = lost > class->align_bytes ? lost : class->align_bytes;
    return l;
}

static void mark_updated(const Phase *p, MemoryLayout *l) /* marks the variables that the phase's kernels write */
{
    for (int t = 0; t < p->task_count; t++)
        for (int i = 0; i < p->tasks[t]->write_count && p->tasks[t]->kind == TASK_KERNEL; i++)
            if (p->tasks[t]->writes[i]->kind == TENSOR_VARIABLE) {
                Buffer *b = &l->buffers[l->tensor[p->tasks[t]->writes[i]->id].buffer];
                b->updated = true;
                b->replaced = p->tasks[t]->writes[i]->replaced;
            }
}

/* Returns true for phases of a training step, if devices do not exchange gradients. */
static bool is_independent(const Program *p, const Phase *phase)
{
    return policy_of(p->options)->order == ORDER_NONE &&
           (phase->kind == PHASE_PROLOGUE || phase->kind == PHASE_ACCUMULATE || mgpu_is_train_kind((int)phase->kind));
}

Order *order_calls(const Program *p, const Phase *phase, const Members *members, int64_t capacity)
{
    Members alone = *members;
    alone.count = alone.nodes = 1;
    const Members *meeting = is_independent(p, phase) ? &alone : members;
    Order *order = order_phase(p, phase, meeting, (double)capacity);
    if (p->target->regions)
        cut_regions(phase, largest_shard(p->model), order);
    else
        join_update_launches(p, phase, meeting, (double)capacity, order);
    return order;
}

static const Phase *with_gathers_reused(const Program *p, const Plan *plan, Phase *phase)
{
    return p->reused_gather_share > 0 && plan->devices > 1 ? reuse_gathered(phase, p->reused_gather_share) : phase;
}

static void build_ops(Builder *b, const KernelNumber *kernels)
{
    name_buffers(b->names, b->phase, b->order, b->layout);
    add_ops(b, kernels);
    find_waits(b);
}

/* Copies the names of buffers that are not common to all phases. */
static void keep_names(const Builder *b)
{
    for (int i = b->class->persistent->common_count; i < b->layout->buffer_count; i++)
        b->layout->buffers[i].name = copy_text(b->layout->buffers[i].name, strlen(b->layout->buffers[i].name));
}

static PhaseDigest digest_of_tasks(const char *name, const Phase *phase, const TaskDigest *digests)
{
    PhaseDigest whole = {name, digest_phase(name)};
    for (int t = 0; t < phase->task_count; t++)
        if (phase->tasks[t]->kind == TASK_KERNEL)
            whole.digest = digest_of_phase(whole.digest, digest_of(digests, phase->task_count, phase->tasks[t]));
    return whole;
}

/* Schedules a phase. of: what all phases share. Returns true if the calls have kept their order. */
static bool schedule_phase(PhaseSchedule *s, PhaseDigest *whole, const Builder *of, Phase *given, DeviceClass *classes,
                           int class_count, const int *class_of, const KernelNumber *kernels)
{
    const Program *p = of->program;
    const Plan *plan = of->plan;
    Memory *own = memory_new(), *kept = memory_use(own);
    const Phase *phase = with_gathers_reused(p, plan, given);
    if (phase != given)
        check_same_values(given, phase, plan->devices);
    Order *order = order_calls(p, phase, &of->members, plan->shards[0].capacity);
    TaskDigest *digests = of->sizes ? NULL : digest_tasks(phase, is_independent(p, phase) ? 1 : plan->devices);
    const Names *names = of->sizes ? NULL : name_phase(phase, order);
    Builder *builders = NEW_ARRAY(Builder, class_count);
    ScheduledOp **ops = NEW_ARRAY(ScheduledOp *, class_count);
    for (int c = 0; c < class_count; c++) {
        Builder *b = &builders[c];
        *b = *of;
        b->phase = phase, b->order = order, b->class = &classes[c], b->kept = kept, b->digests = digests, b->names = names;
        b->layout = place_class(p, phase, order, &classes[c]);
        mark_updated(phase, b->layout);
        if (!b->sizes)
            build_ops(b, kernels);
        ops[c] = b->ops;
    }
    find_times(ops, class_count, builders[0].op_count);
    memory_use(kept);
    s->name = phase_name(phase->kind, phase->partial_batch);
    s->kind = (uint8_t)phase->kind;
    s->partial_batch = phase->partial_batch;
    s->reports = given->reports;
    s->report_count = given->report_count;
    if (!of->sizes)
        *whole = digest_of_tasks(s->name, phase, digests);
    s->devices = NEW_ARRAY(DeviceSchedule, plan->devices);
    Buffer **buffers = NEW_ARRAY(Buffer *, class_count);
    for (int c = 0; c < class_count; c++) {
        if (!of->sizes)
            keep_names(&builders[c]);
        buffers[c] = copy_array(builders[c].layout->buffers, sizeof(Buffer) * (size_t)builders[c].layout->buffer_count);
        ops[c] = copy_ops(&builders[c]);
    }
    for (int d = 0; d < plan->devices; d++)
        fill_device(s, &builders[class_of[d]], &plan->shards[d], buffers[class_of[d]], ops[class_of[d]], d);
    list_collectives(s, &builders[0]);
    bool filled = order->filled;
    memory_free(own);
    return !filled;
}

/* The arena has the size of the largest phase; the workspaces of all phases are at its end. */
static void end_arena(DeviceSchedule *d, const DeviceClass *c, bool own)
{
    for (int i = 0; i < d->buffer_count && own; i++) /* otherwise the buffers are those of an earlier device */
        if (d->buffers[i].kind == BUFFER_WORKSPACE || d->buffers[i].kind == BUFFER_LOCAL)
            d->buffers[i].offset = add_bytes(d->buffers[i].offset, c->arena_bytes - d->arena_bytes);
    d->arena_bytes = add_bytes(c->arena_bytes, c->work_bytes);
    d->work_bytes = c->work_bytes;
    d->least_bytes = add_bytes(c->least_arena, c->least_work);
}

static Schedule *make_schedule(const Program *p, const Plan *plan, bool sizes)
{
    const Model *m = p->model;
    Schedule *s = NEW(Schedule);
    *s = (Schedule){.model = m->name,
                    .precision = dtype_name(m->precision),
                    .batch = m->batch,
                    .accumulate = (int)(m->accumulate > 0 ? m->accumulate : 1),
                    .nodes = plan->nodes,
                    .devices = plan->devices,
                    .exact = m->exact,
                    .group = m->exact && m->group > 0 ? m->group : 1,
                    .phase_count = p->phase_count,
                    .predicts = p->predicts,
                    .reused_gather_share = p->reused_gather_share,
                    .early_gather_share = p->early_gather_share};
    s->policy = policy_is_auto(policy_of(p->options)) ? NULL : policy_of(p->options);
    s->phases = NEW_ARRAY(PhaseSchedule, p->phase_count);
    s->phase_digests = NEW_ARRAY(PhaseDigest, p->phase_count);
    s->phase_digest_count = p->phase_count;
    DeviceClass *classes = NEW_ARRAY(DeviceClass, plan->devices);
    int *class_of = NEW_ARRAY(int, plan->devices);
    int class_count = find_classes(p, plan, classes, class_of);
    KernelNumber *kernels = number_kernels(p);
    const Builder of = {.program = p, .plan = plan, .members = members_of_plan(p, plan), .sizes = sizes};
    s->signatures = list_signatures(p, &s->signature_count);
    s->in_order = true;
    for (int i = 0; i < p->phase_count; i++)
        s->in_order &=
            schedule_phase(&s->phases[i], &s->phase_digests[i], &of, p->phases[i], classes, class_count, class_of, kernels);
    for (int i = 0; i < p->phase_count; i++)
        for (int d = 0; d < plan->devices; d++)
            end_arena(&s->phases[i].devices[d], &classes[class_of[d]],
                      classes[class_of[d]].device == d ||
                          s->phases[i].devices[d].buffers != s->phases[i].devices[classes[class_of[d]].device].buffers);
    s->outside_arena_bytes = (p->target->own_memory ? bytes_outside_arena(s) : 0) + bytes_of_shard_terms(p, s);
    return s;
}

Schedule *schedule(const Program *p, const Plan *plan) { return make_schedule(p, plan, false); }
Schedule *schedule_sizes(const Program *p, const Plan *plan) { return make_schedule(p, plan, true); }

static ArenaSize *arena_sizes_of(const Program *given, const Plan *plan, DeviceClass *trials, int count)
{
    Program program = *given;
    program.reused_gather_share = plan->schedule->reused_gather_share;
    program.early_gather_share = plan->schedule->early_gather_share;
    program.in_order = plan->schedule->in_order;
    const Program *p = &program;
    Members members = members_of_plan(p, plan);
    for (int i = 0; i < p->phase_count && count; i++) {
        Memory *own = memory_new(), *outer = memory_use(own);
        const Phase *phase = with_gathers_reused(p, plan, p->phases[i]);
        for (int c = 0; c < count; c++)
            place_class(p, phase, order_calls(p, phase, &members, trials[c].capacity), &trials[c]);
        memory_use(outer);
        memory_free(own);
    }
    ArenaSize *rooms = NEW_ARRAY(ArenaSize, count);
    for (int c = 0; c < count; c++)
        rooms[c] = (ArenaSize){trials[c].capacity, add_bytes(trials[c].arena_bytes, trials[c].align_bytes), trials[c].work_bytes};
    return rooms;
}

ArenaSize *find_arena_sizes(const Program *p, const Plan *plan, int *count)
{
    DeviceClass *trials = NULL;
    *count = find_trials(p, plan, &trials);
    return arena_sizes_of(p, plan, trials, *count);
}

ArenaSize find_arena_size(const Program *p, const Plan *plan, int64_t samples)
{
    DeviceClass trial = class_of_capacity(p, plan->devices, 0, (Samples){samples, samples, samples}, samples * plan->devices,
                                          samples * plan->devices);
    return *arena_sizes_of(p, plan, &trial, 1);
}
