/* lane.c: the thread of a lane executes its operations, step after step, by the rules in engine.c. */
#include "runtime/base/base.h"
#include "runtime/engine/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mgpu_region_length(const mgpu_device_phase *p, const int *order, int left)
{
    const mgpu_op *op = &p->ops[order[0]];
    int count = 1;
    while (op->verb == MGPU_CALL && count < left && p->ops[order[count]].verb == MGPU_CALL &&
           p->ops[order[count]].region == op->region)
        count++;
    return count;
}

/* ---- failures */
void mgpu_place_of(const LaneThread *l, int64_t number, const mgpu_phase *phase, const mgpu_op *op, char *text, size_t capacity)
{
    Engine *e = l->engine;
    SafeText t = {text, capacity, 0};
    mgpu_add_text(&t, "device ");
    mgpu_add_number(&t, l->device);
    if (!phase) { /* the step that drains the engine has no phase and no number */
        mgpu_add_text(&t, ", between steps");
        return;
    }
    bool posted = number <= atomic_load(&e->posted.value);
    mgpu_add_text(&t, posted ? ", step " : ", before the first step");
    if (posted)
        mgpu_add_number(&t, atomic_load(&work_of(e, number)->step));
    mgpu_add_text(&t, ", phase ");
    mgpu_add_text(&t, phase->name);
    if (!op)
        return;
    const char *kernel = op->verb == MGPU_CALL ? mgpu_kernel_name(e->program, op->target) : "";
    mgpu_add_text(&t, ", operation ");
    mgpu_add_text(&t, op->id);
    mgpu_add_text(&t, *kernel ? " " : "");
    mgpu_add_text(&t, kernel);
    if (op->line <= 0)
        return;
    mgpu_add_text(&t, " (");
    mgpu_add_text(&t, e->program->model_file);
    mgpu_add_text(&t, ", line ");
    mgpu_add_number(&t, op->line);
    mgpu_add_text(&t, ")");
}

void mgpu_add_name(const Engine *e, const mgpu_phase *phase, const mgpu_op *op, FILE *to)
{
    if (op->verb == MGPU_TRANSFER) {
        fprintf(to, "the %s %s", mgpu_transfer_row(phase->collectives[op->target].participants.transfer)->kind,
                phase->collectives[op->target].name);
        return;
    }
    fprintf(to, "%s", op->id);
    if (op->verb == MGPU_CALL)
        fprintf(to, " %s", mgpu_kernel_name(e->program, op->target));
    if (op->line > 0)
        fprintf(to, " (line %d)", op->line);
}

static void describe(const LaneThread *l, const mgpu_op *op, char *text, size_t capacity)
{
    mgpu_place_of(l, l->number, op ? l->phase : phase_of(l->engine, l->number), op, text, capacity);
}

Whereabouts mgpu_engine_where(const void *engine, char *text, size_t capacity)
{
    Engine *e = (Engine *)engine; /* its counters are read atomically */
    const LaneThread *works = NULL, *sums = NULL;
    for (int i = e->first * MGPU_LANES; i < e->end * MGPU_LANES; i++) {
        const LaneThread *l = &e->lanes[i];
        int doing = atomic_load(&l->doing);
        works = !works && ((doing == DOING_WORK && l->op) || doing == DOING_READ) ? l : works;
        sums = !sums && doing == DOING_COLLECTIVE ? l : sums;
    }
    const LaneThread *first = works ? works : sums;
    if (first)
        describe(first, first->op, text, capacity);
    else
        snprintf(text, capacity, "after step %lld", (long long)posted_step(e));
    return works ? WHERE_WORKS : sums ? WHERE_WAITS : WHERE_AFTER;
}

_Noreturn void mgpu_fail_at(const LaneThread *l, const char *what)
{
    char place[400];
    describe(l, l->op, place, sizeof place);
    mgpu_fail(MGPU_MACHINE_FAILED, "%s: %s", place, what);
}

_Noreturn void mgpu_die_at(const LaneThread *l, const char *what)
{
    char place[400];
    describe(l, l->op, place, sizeof place);
    mgpu_die("%s: %s", place, what);
}

_Noreturn void mgpu_say_crash_at(const LaneThread *l, const mgpu_op *op, int signal)
{
    char place[400];
    while (atomic_exchange(&l->engine->crashed, true))
        pause();
    if (op)
        describe(l, op, place, sizeof place);
    else
        mgpu_add_number(&(SafeText){place, sizeof place, 0}, l->device);
    if (op)
        mgpu_end_crashed(": error: ", place, " failed: ", signal, "");
    mgpu_end_crashed(": internal error: device ", place, ", between operations: ", signal, MGPU_OUR_MISTAKE);
}

static void say_crash(void *context, int signal)
{
    const LaneThread *l = context;
    mgpu_say_crash_at(l, l->op && l->op->verb == MGPU_CALL ? l->now[0] : l->op, signal);
}

static void say_crash_of_worker(void *context, int signal)
{
    const Worker *w = context;
    mgpu_say_crash_at(w->lane, w->lane->now[w->thread], signal);
}

/* ---- one operation */
int64_t mgpu_access_offset(const mgpu_device_phase *p, const mgpu_access *a, int64_t number)
{
    const mgpu_buffer *b = &p->buffers[a->buffer];
    int64_t slot = b->slots > 1 ? (number + a->slot + b->slots) % b->slots : 0;
    return b->offset + slot * mgpu_slot_bytes(b->bytes) + a->begin;
}

static void add_ranges(const LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op, DeviceRange *ranges, int *count)
{
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        const mgpu_access *a = mgpu_access_of(op, i);
        int64_t begin = mgpu_access_offset(p, a, l->number);
        if (p->buffers[a->buffer].kind != MGPU_STAGING)
            ranges[(*count)++] = (DeviceRange){begin, begin + a->end - a->begin, i >= op->read_count, p->buffers[a->buffer].name};
    }
}

void mgpu_declare(LaneThread *l, const mgpu_device_phase *p, const int *order, int count)
{
    Engine *e = l->engine;
    const AsyncKind *ahead = e->kind->async;
    Device *device = e->devices[l->device];
    const mgpu_op *op = &p->ops[order[0]];
    if (!ahead || !ahead->checks(device))
        return;
    char name[200], others[40] = "";
    int most = 0, range_count = 0;
    for (int i = 0; i < count; i++)
        most += p->ops[order[i]].read_count + p->ops[order[i]].write_count;
    DeviceRange *ranges = mgpu_allocate((size_t)most, sizeof *ranges);
    for (int i = 0; i < count; i++)
        add_ranges(l, p, &p->ops[order[i]], ranges, &range_count);
    if (count > 1)
        snprintf(others, sizeof others, ", and %d more", count - 1);
    snprintf(name, sizeof name, "d%d.%s%s%s, line %d%s", l->device, op->id, op->verb == MGPU_CALL ? " " : "",
             op->verb == MGPU_CALL ? mgpu_kernel_name(e->program, op->target) : "", op->line, others);
    ahead->declare(device, op, name, ranges, range_count);
    free(ranges);
}

DeviceCall mgpu_call_of(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op, void **argument, int64_t *each,
                        const mgpu_step **step)
{
    Engine *e = l->engine;
    uint8_t *arena = e->kind->arena(e->devices[l->device]);
    DeviceCall call = {
        .kernel = e->kind->async ? NULL : &e->program->kernels[op->target], .op = op, .argument = argument, .each = each};
    const uint8_t *sums = e->kind->async ? e->program->gpu_kernels[op->target].sums : call.kernel->sums;
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        uint8_t *at = arena + mgpu_access_offset(p, mgpu_access_of(op, i), l->number);
        uint8_t kind = p->buffers[mgpu_access_of(op, i)->buffer].kind;
        if (kind == MGPU_STEP) {
            *step = (const void *)at;
            continue;
        }
        each[call.arguments] = kind == MGPU_WORKSPACE ? -1
                               : kind == MGPU_LOCAL   ? p->buffers[mgpu_access_of(op, i)->buffer].each
                                                      : 0;
        if (sums && p->buffers[mgpu_access_of(op, i)->buffer].each && each[call.arguments] == 0)
            each[call.arguments] = -1 - p->buffers[mgpu_access_of(op, i)->buffer].each;
        call.per_thread = call.per_thread || each[call.arguments] != 0;
        argument[call.arguments++] = at;
    }
    return call;
}

/* Returns the samples to compute of a step without padding samples: the valid ones, rounded up to whole groups, at least one
 * group. 0: all. */
static int64_t computed_samples(const LaneThread *l, const Work *work)
{
    int64_t valid = work->block[l->device].valid, group = l->engine->program->group > 1 ? l->engine->program->group : 1;
    if (!work->valid_only)
        return l->engine->single_threaded && l->phase->kind == MGPU_PHASE_PREDICT ? valid : 0;
    return valid > group ? (valid + group - 1) / group * group : group;
}

/* Runs operations order[0 .. count), the calls of a region. */
static void run_region(LaneThread *l, const mgpu_device_phase *p, const int *order, int count, const Work *work)
{
    Engine *e = l->engine;
    int64_t samples = computed_samples(l, work);
    DeviceRegion region = {.calls = l->calls,
                           .count = count,
                           .step = &work->block[l->device],
                           .launch_timed = work->timed,
                           .samples = samples,
                           .one_thread = samples && mgpu_is_small_region(l, p, order, count, samples),
                           .split_elements = p->ops[order[0]].elements ? mgpu_own_elements(&p->ops[order[0]]) + 1 : 0,
                           .chunk = p->ops[order[0]].chunk,
                           .audit = e->audit ? mgpu_audit_part : NULL,
                           .observe = mgpu_is_observed(l) ? mgpu_observe_part : NULL,
                           .context = l};
    int64_t *each = l->each;
    void **argument = l->argument, **library = e->phases[l->phase - e->plan->phases].library[l->device];
    for (int i = 0; i < count; i++) {
        l->calls[i] = mgpu_call_of(l, p, &p->ops[order[i]], argument, each, &region.step);
        l->calls[i].library = library[order[i]];
        argument += l->calls[i].arguments;
        each += l->calls[i].arguments;
    }
    double began = mgpu_slow_begin(&l->slow);
    e->kind->run(e->devices[l->device], &region, l->now);
    mgpu_slow_end(&l->slow, began);
    if (region.launch_timed)
        add_seconds(&times_of(l)->launching, region.launch_s);
    mgpu_observe_region(l, &region);
}

/* Evaluation and prediction use seed 0 and epoch 0: they read the same samples every time. */
static bool is_training(const mgpu_phase *phase) { return MGPU_EVERY_TRAIN_KIND >> phase->kind & 1; }

/* Reads samples into staging: those of this device, or all of the step if the staging buffer has that size. Missing samples of a
 * partial batch become copies of the first one. */
static void read_batch(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op, Work *work)
{
    Engine *e = l->engine;
    uint8_t *staging = e->kind->staging(e->devices[l->device]);
    const mgpu_shard *shard = &e->plan->device[l->device].shard;
    const mgpu_step *block = &work->block[l->device];
    int64_t first = shard->first, valid = block->valid, capacity = shard->capacity;
    uint8_t *to[e->program->input_count + 1];
    memset(to, 0, sizeof to);
    bool any = false;
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_access *a = &op->writes[i];
        int index = p->buffers[a->buffer].index;
        uint8_t *place = staging + mgpu_access_offset(p, a, l->number);
        if (index < 0)
            memcpy(place, block, sizeof *block);
        else
            to[index] = place;
        int64_t samples = index < 0 ? capacity : (a->end - a->begin) / mgpu_tensor_bytes(&e->program->inputs[index].tensor);
        if (samples != capacity) { /* the buffer is for the whole batch */
            first = valid = 0;
            capacity = samples;
            for (int d = 0; d < e->plan->devices; d++)
                if (work->block[d].valid)
                    valid = e->plan->device[d].shard.first + work->block[d].valid;
        }
        any = any || index >= 0;
    }
    if (!work->set || !any)
        return;
    bool training = is_training(l->phase);
    set_doing(l, DOING_READ, 0);
    double began = mgpu_slow_begin(&l->slow);
    mgpu_read_samples(work->set, to, valid ? work->index + first : work->index, valid ? valid : 1, training ? block->seed : 0,
                      training ? work->epoch : 0);
    mgpu_slow_end(&l->slow, began);
    set_doing(l, DOING_WORK, 0);
    for (int i = 0; i < e->program->input_count; i++) {
        int64_t bytes = mgpu_tensor_bytes(&e->program->inputs[i].tensor);
        for (int64_t s = valid ? valid : 1; to[i] && s < capacity; s++)
            memcpy(to[i] + s * bytes, to[i], (size_t)bytes);
    }
}

/* Every write copies the staging buffer of the same input. A step block that is not staged is copied from the step's record. */
static void upload(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op, Work *work)
{
    Engine *e = l->engine;
    Device *device = e->devices[l->device];
    int64_t sum = 0;
    double began = e->link_rate > 0 ? mgpu_seconds() : 0;
    for (int i = 0; i < op->write_count; i++) {
        const mgpu_access *a = &op->writes[i];
        const void *from = NULL;
        int64_t bytes = a->end - a->begin;
        for (int k = 0; k < op->read_count && !from; k++)
            if (p->buffers[mgpu_access_of(op, k)->buffer].index == p->buffers[a->buffer].index)
                from = e->kind->staging(device) + mgpu_access_offset(p, mgpu_access_of(op, k), l->number);
        if (!from) {
            from = &work->block[l->device];
            bytes = sizeof work->block[0];
        }
        if (e->kind->async)
            e->kind->async->upload(device, mgpu_access_offset(p, a, l->number), from, bytes);
        else
            e->kind->copy_in(device, mgpu_access_offset(p, a, l->number), from, bytes);
        sum += bytes;
    }
    if (e->link_rate > 0)
        mgpu_sleep_until(began + (double)sum / e->link_rate);
}

/* The time of a transfer counts from the arrival of the last member. */
static void add_transfer_time(LaneThread *l, const mgpu_op *op, double began)
{
    const Collective *c = l->engine->collective[l->lane];
    if (!c->arrival_time)
        return;
    double met = c->arrival_time(c, l->device), ended = mgpu_seconds();
    mgpu_observe(l, SPAN_BARRIER, op, began, met);
    mgpu_observe(l, SPAN_OP, op, met, ended);
}

static void transfer(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    const mgpu_collective *c = &l->phase->collectives[op->target];
    const mgpu_access *a = mgpu_access_of(op, 0); /* what the device sends, at its place in the whole value */
    int64_t before = mgpu_sent_by(&c->participants, c->count, l->device).begin * mgpu_dtype_bytes(c->dtype);
    Operand operand = {c->name,
                       p->buffers[a->buffer].name,
                       e->kind->arena(e->devices[l->device]) + mgpu_access_offset(p, a, l->number) - before,
                       c->count,
                       c->dtype,
                       c->participants,
                       l->number << PLACE_BITS | op->target,
                       c->implementation,
                       e->program->exact > 0};
    set_doing(l, DOING_COLLECTIVE, 0);
    double began = mgpu_seconds();
    Collective *collective = e->collective[l->lane];
    bool agreed = collective->transfer(collective, l->device, &operand);
    add_transfer_time(l, op, began);
    set_doing(l, DOING_WORK, 0);
    if (!agreed)
        mgpu_die_at(l, "the devices disagree about what they reduce");
}

static void report(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    if (e->phases[l->phase - e->plan->phases].reporter != l->device)
        return;
    Work *work = work_of(e, is_delayed(op) ? l->number - 1 : l->number);
    e->kind->copy_out(e->devices[l->device], l->lane, work->report, mgpu_access_offset(p, mgpu_access_of(op, 0), l->number),
                      l->phase->report_count * (int64_t)sizeof(double));
    atomic_store(&work->reported, true);
}

static void fetch(LaneThread *l, const mgpu_device_phase *p, const mgpu_op *op)
{
    Engine *e = l->engine;
    Work *work = work_of(e, is_delayed(op) ? l->number - 1 : l->number);
    if (!work->fetch || !work->fetch[op->target])
        return;
    int64_t bytes = mgpu_tensor_bytes(&e->program->outputs[op->target]);
    e->kind->copy_out(e->devices[l->device], l->lane, work->fetch[op->target] + e->plan->device[l->device].shard.first * bytes,
                      mgpu_access_offset(p, mgpu_access_of(op, 0), l->number), work->block[l->device].valid * bytes);
}

/* ---- one step of one lane */
/* Waits on a synchronous device. If the counter has the value already, no clock is read. */
static void wait_here(LaneThread *l, int other, Counter *progress, int64_t target)
{
    if (atomic_load(&progress->value) >= target)
        return;
    double began = l->lane == MGPU_COMP ? mgpu_seconds() : 0;
    set_doing(l, DOING_LANE, other);
    mgpu_counter_wait(progress, target);
    set_doing(l, DOING_WORK, 0);
    if (l->lane != MGPU_COMP)
        return;
    double seconds = mgpu_seconds() - began;
    l->waited += seconds;
    if (other != MGPU_HOST)
        add_seconds(other == MGPU_COPY ? &times_of(l)->input : &times_of(l)->communication, seconds);
}

static void wait_for(LaneThread *l, const mgpu_wait *wait, const mgpu_device_phase *p, const LaneTable *table)
{
    Engine *e = l->engine;
    if (e->kind->async) {
        mgpu_issue_wait(l, wait);
        return;
    }
    int64_t number = l->number - wait->back;
    if (number < 1 || wait->back > MGPU_STEPS_IN_FLIGHT)
        return;
    const mgpu_op *op = &p->ops[wait->op];
    Counter *progress = &lane_of(e, l->device, op->lane)->progress;
    int64_t target = phase_of(e, number) == l->phase ? (number << PLACE_BITS) + table->place[wait->op] + 1 : finished(number);
    wait_here(l, op->lane, progress, target);
}

static void wait_and_observe(LaneThread *l, const mgpu_wait *wait, const mgpu_device_phase *p, bool observed)
{
    double began = observed ? mgpu_seconds() : 0;
    wait_for(l, wait, p, lanes_of(l->engine, l->phase, l->device));
    if (observed)
        mgpu_observe(l, SPAN_WAIT, &p->ops[wait->op], began, mgpu_seconds());
}

void mgpu_execute(LaneThread *l, const mgpu_phase *phase, const int *order, int count)
{
    Engine *e = l->engine;
    const mgpu_device_phase *p = &phase->devices[l->device];
    const mgpu_op *op = &p->ops[order[0]];
    Work *work = work_of(e, l->number);
    set_phase(l, phase);
    set_op(l, op);
    bool issues = e->kind->async && l->lane != MGPU_HOST, observed = !issues && mgpu_is_observed(l);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < p->ops[order[k]].wait_count; i++)
            wait_and_observe(l, &p->ops[order[k]].waits[i], p, observed);
    bool audited = e->audit && (op->verb == MGPU_CALL || op->verb == MGPU_TRANSFER);
    bool host = l->lane == MGPU_HOST, copies = host && (op->verb == MGPU_REPORT || op->verb == MGPU_FETCH);
    if (host) /* an audit also declares and copies in the host lane's stream */
        mgpu_audit_lock(e);
    mgpu_declare(l, p, order, 1);
    if (host && !copies)
        mgpu_audit_unlock(e);
    for (int k = 0; k < count && audited; k++)
        mgpu_audit_before(l, p, &p->ops[order[k]]);
    if (issues)
        mgpu_issue_begin(l, order[0]);
    bool clocked = op->verb == MGPU_READ || (observed && op->verb != MGPU_CALL && op->verb != MGPU_TRANSFER);
    double began = clocked ? mgpu_seconds() : 0;
    switch (op->verb) {
    case MGPU_CALL: run_region(l, p, order, count, work); break;
    case MGPU_READ: read_batch(l, p, op, work); break;
    case MGPU_UPLOAD: upload(l, p, op, work); break;
    case MGPU_TRANSFER: transfer(l, p, op); break;
    case MGPU_REPORT: report(l, p, op); break;
    case MGPU_FETCH: fetch(l, p, op); break;
    default: mgpu_die_at(l, "there is no such operation");
    }
    if (clocked)
        mgpu_observe(l, SPAN_OP, op, began, mgpu_seconds());
    if (issues)
        mgpu_issue_end(l, order[0]);
    for (int k = 0; k < count && audited; k++)
        mgpu_audit_after(l, p, &p->ops[order[k]]);
    if (copies)
        mgpu_audit_unlock(e);
    set_op(l, NULL);
}

/* Executes the delayed operations of the previous step, which was of another phase. */
static void settle(LaneThread *l, const mgpu_phase *before)
{
    const LaneTable *t = lanes_of(l->engine, before, l->device);
    for (int i = t->begin[l->lane]; i < t->begin[l->lane + 1]; i++)
        if (is_delayed(&before->devices[l->device].ops[t->order[i]]))
            mgpu_execute(l, before, &t->order[i], 1);
}

void mgpu_prepare_phase(LaneThread *l, const mgpu_phase *phase)
{
    Engine *e = l->engine;
    const mgpu_device_phase *p = &phase->devices[l->device];
    PhaseTable *t = &e->phases[phase - e->plan->phases];
    const LaneTable *lanes = &t->device[l->device];
    void **library = mgpu_allocate((size_t)p->op_count + 1, sizeof *library);
    int begin = lanes->begin[MGPU_COMP], end = lanes->begin[MGPU_COMP + 1];
    const mgpu_op **ops = mgpu_allocate((size_t)(end - begin) + 1, sizeof *ops);
    void **found = mgpu_allocate((size_t)(end - begin) + 1, sizeof *found);
    for (int i = begin, count; i < end; i += count) {
        count = mgpu_region_length(p, lanes->order + i, end - i);
        for (int k = 0; k < count; k++)
            ops[k] = &p->ops[lanes->order[i + k]];
        memset(found, 0, (size_t)count * sizeof *found);
        if (ops[0]->verb == MGPU_CALL)
            e->kind->prepare(e->devices[l->device], e->program->kernels, ops, count, found);
        for (int k = 0; k < count; k++)
            library[lanes->order[i + k]] = found[k];
    }
    e->kind->ready(e->devices[l->device]);
    free(ops);
    free(found);
    t->library[l->device] = library;
}

static void run_step(LaneThread *l)
{
    Engine *e = l->engine;
    int64_t number = l->number;
    Work *work = work_of(e, number);
    const mgpu_phase *phase = work->phase, *before = phase_of(e, number - 1);
    bool changed = phase != before, pending = changed && before && l->lane == MGPU_HOST;
    for (int other = 0; changed && mgpu_lane_synchronizes(l->lane) && other < MGPU_LANES; other++)
        if (other != l->lane && mgpu_lane_synchronizes(other))
            wait_here(l, other, &lane_of(e, l->device, other)->progress, finished(number - 1));
    if (phase && l->lane == MGPU_COMP && !e->phases[phase - e->plan->phases].library[l->device])
        mgpu_prepare_phase(l, phase);
    if (phase) {
        const LaneTable *t = lanes_of(e, phase, l->device);
        for (int i = t->begin[l->lane], count; i < t->begin[l->lane + 1]; i += count) {
            count = mgpu_region_length(&phase->devices[l->device], t->order + i, t->begin[l->lane + 1] - i);
            if (!is_delayed(&phase->devices[l->device].ops[t->order[i]]) || !changed) {
                mgpu_execute(l, phase, &t->order[i], count);
            } else if (pending) {
                settle(l, before);
                pending = false;
            }
            publish(e, &l->progress, (number << PLACE_BITS) + (i + count - t->begin[l->lane]));
        }
    }
    if (pending)
        settle(l, before);
}

static void finish_step(LaneThread *l)
{
    Work *work = work_of(l->engine, l->number);
    if (mgpu_lane_synchronizes(l->lane)) {
        if (l->lane == MGPU_COMP)
            add_seconds(&times_of(l)->computing, mgpu_seconds() - l->began - l->waited);
        atomic_store(&work->finished_at, mgpu_seconds());
        atomic_fetch_sub(&work->unfinished, 1);
    }
    if (l->lane == MGPU_COMP && l->number == SETTLED)
        l->engine->kind->settled(l->engine->devices[l->device]);
    publish(l->engine, &l->progress, finished(l->number));
}

/* several host devices */
static bool must_share_cores(const Engine *e) { return !e->kind->async && e->plan->devices > 1; }

void *mgpu_drive_lane(void *argument)
{
    LaneThread *l = argument;
    static const char *const NAME[MGPU_LANES] = MGPU_LANE_NAMES;
    char name[16];
    snprintf(name, sizeof name, "d%d.%s", l->device % 100000, NAME[l->lane]);
    pthread_setname_np(pthread_self(), name);
    if (CPU_COUNT(&l->cores))
        pthread_setaffinity_np(pthread_self(), sizeof l->cores, &l->cores); /* may fail without harm */
    if (l->lane != MGPU_HOST && must_share_cores(l->engine))
        mgpu_set_priority(l->lane == MGPU_COMP);
    CrashGuard *guard = mgpu_guard_begin(say_crash, l);
    for (l->number = 1;; l->number++) {
        set_doing(l, DOING_REST, 0);
        wait_for_counter(l->engine, &l->engine->posted, l->number);
        set_doing(l, DOING_WORK, 0);
        if (atomic_load(&l->engine->closing))
            break;
        l->began = l->lane == MGPU_COMP ? mgpu_seconds() : 0;
        l->waited = 0;
        run_step(l);
        finish_step(l);
    }
    mgpu_guard_end(guard);
    return NULL;
}

void mgpu_enter_worker(void *context, int thread)
{
    LaneThread *l = context;
    Worker *w = &l->workers[thread];
    char name[16];
    snprintf(name, sizeof name, "d%d.comp%d", l->device % 10000, thread % 1000);
    pthread_setname_np(pthread_self(), name);
    if (must_share_cores(l->engine))
        mgpu_set_priority(true);
    *w = (Worker){.lane = l, .thread = thread};
    w->guard = mgpu_guard_begin(say_crash_of_worker, w);
}

void mgpu_leave_worker(void *context, int thread)
{
    const LaneThread *l = context;
    mgpu_guard_end(l->workers[thread].guard);
}
