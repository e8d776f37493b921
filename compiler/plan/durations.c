/* durations.c: the time of a call and of a transfer, by the machine's cost model. */
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "compiler/machine/cost.h"
#include "compiler/plan/measured_times.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/policy.h"
#include "compiler/plan/schedule_internal.h"

#include <math.h>
#include <string.h>

Processor processor_of(const Program *p) { return p->target->own_memory ? PROCESSOR_CUDA : PROCESSOR_HOST; }

const Machine *machine_of(const Program *p) { return p->machine ? p->machine : machine_default(processor_of(p)); }

/* A worker of a host device has whole samples; workers with fewer than others wait. */
static double samples_of_workers(const Program *p, const Device *d, const Task *t, double samples)
{
    bool divided = p->target->regions && t->kernel->split == MGPU_SPLIT_SAMPLES && d->units.value > 1;
    return divided ? ceil(samples / d->units.value) * d->units.value : samples;
}

static Work work_of(const Program *p, const Device *d, const Task *t, double its_samples)
{
    const Model *m = p->model;
    double samples = samples_of_workers(p, d, t, its_samples);
    double flops = task_flops(t, samples);
    Work w = {.kind = t->work, .type = m->precision, .tf32 = m->tf32, .wide = m->precision == F64};
    w.contractions = kernel_contraction_flops(t->kernel, t->flops_per_sample) * samples;
    if (!t->kernel->scan)
        w.contractions += kernel_contraction_flops(t->kernel, t->flops);
    w.operations = flops > w.contractions ? flops - w.contractions : 0;
    w.functions = task_functions(t, samples);
    w.row_sums = task_row_sums(t, samples);
    w.bytes = task_bytes(t, samples);
    w.steps = t->kernel->scan ? (double)t->kernel->scan->steps : 0;
    return w;
}

/* Returns how many virtual shards (mgpu_exact.h) a call sums, each to a term of its own; else 1. */
static double shards_of_call(const Program *p, const Task *t, double samples)
{
    bool terms = kernel_sums_shards(t->kernel) && (!t->kernel->partial_bytes || p->target->own_memory);
    int64_t shard = largest_shard(p->model);
    return terms && shard > 0 && samples > (double)shard ? ceil(samples / (double)shard) : 1;
}

/* Terms are stored, and then added in a pass. A GPU has a launch for each. */
static Cost cost_of_model(const Program *p, const Device *d, const Task *t, double samples, bool joins)
{
    double shards = shards_of_call(p, t, samples), launches = p->target->own_memory ? shards : 1;
    Work w = work_of(p, d, t, samples / launches), adds = {.kind = WORK_ELEMENTWISE, .joins = true};
    for (int i = 0; i < t->write_count && shards > 1; i++)
        if (!t->writes[i]->has_samples) {
            w.bytes += (shards / launches - 1) * (double)tensor_bytes(t->writes[i], 1);
            adds.bytes += (shards + 1) * (double)tensor_bytes(t->writes[i], 1);
        }
    w.joins = joins;
    Cost c = cost_kernel(d, &w);
    c.us = launches * c.us + (launches - 1) * d->launch_us.value;
    if (shards > 1)
        c.us += cost_kernel(d, &adds).us;
    return c;
}

/* Scales a measured time from other samples, or another number of active devices, by the cost model, unless the ratio is large or
 * launch latency dominates. 0: no measurement can be used. */
static double measured_time(const Program *p, const Task *t, double samples, Cost model)
{
    const double MOST = 8;
    const MeasuredKernel *m = measured_kernel(p->measured, t->kernel->digest, samples);
    if (!m)
        return 0;
    Device device = machine_device(machine_of(p), processor_of(p), 0, measured_devices(p->measured));
    Cost before = cost_of_model(p, &device, t, (double)m->samples, false);
    if (before.us == model.us)
        return m->us;
    double ratio = model.us / before.us;
    bool justified = before.bound != BOUND_LAUNCH && model.bound != BOUND_LAUNCH && ratio < MOST && ratio > 1 / MOST;
    return justified ? m->us * ratio : 0;
}

double units_of_task(const Task *t, int devices, double samples)
{
    return t->elements ? (double)mgpu_even_part(t->elements, devices, 1) : samples;
}

static Cost cost_of_work(const Program *p, const Device *d, const Task *t, double samples, bool joins)
{
    Cost model = cost_of_model(p, d, t, samples, joins);
    double measured = p->measured ? measured_time(p, t, samples, model) : 0;
    return measured > 0 ? (Cost){.us = measured, .bound = model.bound, .ground = GROUND_RUN} : model;
}

static double time_of_work(const Program *p, const Device *d, const Task *t, double samples, bool joins)
{
    return cost_of_work(p, d, t, samples, joins).us;
}

double time_of_task(const Program *p, const Device *d, const Task *t, double samples)
{
    return time_of_work(p, d, t, samples, false);
}

/* calls in one launch */
static int calls_per_launch(const Program *p, const Task *t)
{
    return t->update && p->target->calls_per_launch ? p->target->calls_per_launch(t->kernel) : 1;
}

double time_of_launch(const Program *p, const Device *d, const Task *t, double samples)
{
    int calls = calls_per_launch(p, t);
    double first = time_of_task(p, d, t, samples) + d->launch_us.value;
    return calls > 1 ? (first + (calls - 1) * time_in_joint_launch(p, d, t, samples)) / calls : first;
}

double time_in_joint_launch(const Program *p, const Device *d, const Task *t, double samples)
{
    return time_of_work(p, d, t, samples, !p->target->regions);
}

double kernels_us(const Program *p, const Plan *plan, int64_t micro_batches)
{
    Members members = members_of_plan(p, plan);
    Device d = member_device(&members, 0);
    double us = 0, samples = ceil((double)p->model->batch / (double)(micro_batches * plan->devices));
    for (int i = 0; i < p->phase_count; i++) {
        const Phase *phase = p->phases[i];
        bool more = phase->kind == PHASE_ACCUMULATE;
        if (phase->partial_batch || (phase->kind != PHASE_TRAIN && !more))
            continue;
        for (int t = 0; t < phase->task_count; t++)
            if (phase->tasks[t]->kind == TASK_KERNEL && !phase->tasks[t]->rematerialized)
                us += (more ? (double)micro_batches - 1 : 1) *
                      time_of_launch(p, &d, phase->tasks[t], units_of_task(phase->tasks[t], plan->devices, samples));
    }
    return us;
}

/* Workers of a host device have a barrier between regions; on a GPU launches follow each other. */
Cost cost_of_call(const Program *p, const Members *members, const Order *o, int call, int device, double samples)
{
    Device d = member_device(members, device);
    bool first = call == 0 || o->region[call] != o->region[call - 1];
    Cost c = cost_of_work(p, &d, o->calls[call], units_of_task(o->calls[call], members->count, samples),
                          !first && !p->target->regions);
    c.us += first ? d.launch_us.value : 0;
    return c;
}

double time_of_other_pass(const Program *p, const Members *members, int device, const Task *t, double samples)
{
    if (!t->own_pass)
        return 0;
    Device d = member_device(members, device);
    Task own = *t->own_pass;
    own.kernel = t->kernel;
    double units = units_of_task(t, members->count, samples);
    Work all = work_of(p, &d, t, units), without = work_of(p, &d, &own, units);
    double part = 1 - cost_kernel(&d, &without).us / cost_kernel(&d, &all).us;
    return part > 0 ? round(part * 1000) / 1000 : 0;
}

Collect collect_of(int transfer)
{
    static const Collect COLLECT[MGPU_TRANSFERS] = {
        [MGPU_TRANSFER_REDUCE] = COLLECT_ALL_REDUCE,      [MGPU_TRANSFER_REDUCE_BITS] = COLLECT_BITS,
        [MGPU_TRANSFER_REDUCE_MOMENTS] = COLLECT_MOMENTS, [MGPU_TRANSFER_REDUCE_SCATTER] = COLLECT_REDUCE_SCATTER,
        [MGPU_TRANSFER_ALL_GATHER] = COLLECT_ALL_GATHER,  [MGPU_TRANSFER_BROADCAST_FROM] = COLLECT_BROADCAST,
        [MGPU_TRANSFER_SEND] = COLLECT_BROADCAST,
    };
    return COLLECT[transfer];
}

static bool collect_named(const char *kind, Collect *what)
{
    for (int t = 0; t < MGPU_TRANSFERS; t++)
        if (strcmp(mgpu_transfer_row(t)->kind, kind) == 0) {
            *what = collect_of(t);
            return true;
        }
    return false;
}

const TransferFactors *measured_factors(const Program *p, int nodes, int devices)
{
    if (!p->measured || nodes > 1 || devices != measured_devices(p->measured))
        return NULL;
    int count;
    const MeasuredTransfer *all = measured_transfers(p->measured, &count);
    Members g = members_of(machine_of(p), processor_of(p), 1, devices);
    TransferFactors *f = NEW(TransferFactors);
    for (int i = 0; i < count; i++) {
        TransferFactor x = {.bytes = (double)all[i].bytes};
        Method method;
        if (!collect_named(all[i].kind, &x.what))
            continue;
        x.factor = all[i].us / cost_cheapest(&g, ~0u, x.what, x.bytes, &method).us;
        APPEND(f->each, f->count, x);
    }
    return f->count ? f : NULL;
}

/* Without --machine a program may run on any machine: the methods of its transfers are chosen at run time. */
bool names_machine(const Program *p) { return p->options && p->options->machine; }

Members members_of_plan(const Program *p, const Plan *plan)
{
    Members g = members_of(machine_of(p), processor_of(p), plan->nodes, plan->devices);
    if (p->target->transfers == MGPU_IMPLEMENTATION_AUTO && !names_machine(p))
        g.methods = methods_of_implementation(&g, MGPU_IMPLEMENTATION_AUTO);
    g.exact = p->model->exact > 0;
    if (g.exact) /* others add in orders of their own */
        g.methods = methods_of_small_transfers(&g);
    int implementation = policy_implementation(policy_of(p->options));
    if (p->target->transfers != MGPU_IMPLEMENTATION_AUTO)
        g.methods = methods_of_implementation(&g, p->target->transfers);
    if (implementation != MGPU_IMPLEMENTATION_AUTO)
        g.gradients = methods_of_implementation(&g, implementation);
    g.measured = measured_factors(p, plan->nodes, plan->devices);
    return g;
}

static unsigned methods_of_engines(const Members *g)
{
    unsigned copies = methods_of_implementation(g, MGPU_IMPLEMENTATION_COPY);
    return g->exact ? copies
                    : copies | methods_of_implementation(g, MGPU_IMPLEMENTATION_RING) |
                          methods_of_implementation(g, MGPU_IMPLEMENTATION_TREE);
}

unsigned engine_methods(const Program *p, const Members *g)
{
    bool may = names_machine(p) && p->target->transfers == MGPU_IMPLEMENTATION_AUTO &&
               policy_implementation(policy_of(p->options)) == MGPU_IMPLEMENTATION_AUTO;
    return may ? methods_of_engines(g) : 0;
}

bool reduces_gradients(const Group *g)
{
    return g->final &&
           (g->participants.transfer == MGPU_TRANSFER_REDUCE || g->participants.transfer == MGPU_TRANSFER_REDUCE_BITS);
}

/* The plan chooses the methods for gradients; sums that computing waits for at once, such as batch statistics, by cost. */
static unsigned methods_of_group(const Members *g, const Group *group)
{
    if (group->in_sync_lane)
        return methods_of_small_transfers(g);
    if (group->engines)
        return methods_of_engines(g);
    return reduces_gradients(group) && g->gradients ? g->gradients : g->methods;
}

Cost cost_of_transfer(const Members *members, const Group *g, double bytes)
{
    Method method;
    Cost c = cost_cheapest(members, methods_of_group(members, g), collect_of(g->participants.transfer), bytes, &method);
    c.taken = g->engines ? 0 : c.taken;
    return c;
}

/* Returns "4 tensors; ring 35.1 us, copy 80.2 us": the chosen method, and the best other one. */
const char *reason_of_transfer(const Members *members, const Group *g)
{
    Method method, other;
    Collect what = collect_of(g->participants.transfer);
    double bytes = (double)g->bytes;
    Cost cost = cost_cheapest(members, methods_of_group(members, g), what, bytes, &method);
    unsigned rest = 0;
    for (int k = 0; k < METHODS; k++)
        rest |= (unsigned)(method_works(members, (Method)k) &&
                           implementation_of_method(members, (Method)k) != implementation_of_method(members, method) &&
                           isfinite(cost_collective(members, what, (Method)k, bytes).us))
                << k;
    rest &= methods_of_group(members, g);
    bool ahead = g->final || g->participants.transfer == MGPU_TRANSFER_ALL_GATHER; /* of a weight */
    Text t = {0};
    text_add(&t, "%d tensor%s%s; %s %.1f us", g->member_count, g->member_count == 1 ? "" : "s",
             ahead ? "" : ", waited for at once", METHOD_NAME[method], cost.us);
    if (cost.between_us > 0)
        text_add(&t, " (%.1f us between nodes)", cost.between_us);
    if (g->participants.transfer == MGPU_TRANSFER_REDUCE_BITS)
        text_add(&t, ", %lld of %lld bytes sent",
                 (long long)mgpu_coded_bytes(g->bytes / dtype_bytes(g->dtype), dtype_bytes(g->dtype)), (long long)g->bytes);
    if (rest) {
        cost = cost_cheapest(members, rest, what, bytes, &other);
        text_add(&t, ", %s %.1f us", METHOD_NAME[other], cost.us);
    }
    if (g->gathered_once)
        text_add(&t, "; kept for the next use, which would wait for another gather");
    if (g->saved_us > 0)
        text_add(&t, "; %s, which saves %.1f us of a step",
                 g->engines ? "copy engines leave all SMs to kernels" : "beside the buckets", g->saved_us);
    return text_of(&t);
}

int implementation_of_transfer(const Program *p, const Members *members, const Group *g)
{
    Method method;
    int implementation = policy_implementation(policy_of(p->options)), usual = p->target->transfers;
    /* in one memory, copies, peers and libraries all mean the same */
    bool takes = usual == MGPU_IMPLEMENTATION_AUTO || implementation >= MGPU_IMPLEMENTATION_RING;
    if (reduces_gradients(g) && implementation != MGPU_IMPLEMENTATION_AUTO)
        return takes ? implementation : usual;
    if (p->target->transfers != MGPU_IMPLEMENTATION_AUTO || !names_machine(p))
        return p->target->transfers;
    cost_cheapest(members, methods_of_group(members, g), collect_of(g->participants.transfer), (double)g->bytes, &method);
    implementation = implementation_of_method(members, method);
    return g->engines && implementation == MGPU_IMPLEMENTATION_PEER ? MGPU_IMPLEMENTATION_COPY : implementation;
}
