/* predict.c: predicts a schedule's times on its machine: for `mgpuc plan`, and for the program, whose runs compare with them. */
#include "compiler/base/words.h"
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/durations.h"
#include "compiler/probe/probe.h"

#include <stdlib.h>
#include <string.h>

static const double PICTURE_BYTES = 110e3; /* of an ImageNet picture on disk: 138 GB for 1.28 million */

static bool reads_pictures(const Model *m)
{
    for (int i = 0; i < m->set_count; i++)
        if (strcmp(m->sets[i].name, "train") == 0 && m->sets[i].call_count && strcmp(m->sets[i].calls[0].name, "images") == 0)
            return true;
    return false;
}

SimulationInput simulation_input(const Program *p, const Plan *plan)
{
    bool pictures = reads_pictures(p->model);
    const Machine *machine = machine_of(p);
    double decode = machine->host.decode.value;
    return (SimulationInput){.schedule = plan->schedule,
                             .model = p->model,
                             .machine = machine,
                             .processor = processor_of(p),
                             .decode_us = pictures && decode > 0 ? 1e6 / decode : 0,
                             .disk_bytes = pictures ? PICTURE_BYTES : 0,
                             .measured = measured_factors(p, plan->nodes, plan->devices)};
}

const char *input_needs(const SimulationInput *in, const StepUse *use, int64_t batch)
{
    const Host *host = &in->machine->host;
    double a_second = (double)batch / in->schedule->nodes / (use->step_us - use->input_us) * 1e6,
           cores = a_second * in->decode_us / 1e6, bytes = a_second * in->disk_bytes;
    double of_cores = cores / host->cores.value, of_disk = host->disk.value > 0 ? bytes / host->disk.value : 0;
    if (of_cores <= 0 && of_disk <= 0)
        return "copying samples takes longer than computing with them";
    if (of_cores > of_disk)
        return format(
            "decoding pictures as fast as that trains needs %.3g cores, there are %.0f; smaller pictures on disk need fewer",
            cores, host->cores.value);
    return format("reading pictures as fast as that trains needs %.3g GB/s, the disk has %.3g; smaller pictures need less",
                  bytes / 1e9, host->disk.value / 1e9);
}

const char *planned_name(const Options *o, bool host)
{
    return o->machine ? o->machine : o->here ? "here" : host ? "host2" : "h100x8";
}

static const PhaseSchedule *find_step(const Schedule *s, bool partial)
{
    for (int i = 0; i < s->phase_count; i++)
        if (strcmp(s->phases[i].name, schedule_step(s, partial)) == 0)
            return &s->phases[i];
    return NULL;
}

static const PhaseSchedule *step_phase(const Schedule *s, bool partial)
{
    const PhaseSchedule *p = find_step(s, partial);
    if (!p)
        die("the schedule has no phase %s", schedule_step(s, partial));
    return p;
}

bool schedule_has_step(const Schedule *s) { return find_step(s, false) || find_step(s, true); }

/* Returns the lines of transfers that values of samples depend on. */
static Map lines_with_statistics(const Program *p)
{
    Map lines = {0};
    for (int i = 0; i < p->phase_count; i++) {
        const Graph *g = p->phases[i]->graph;
        bool *feeds = NEW_ARRAY(bool, g->node_count);
        for (int k = g->node_count - 1; k >= 0; k--) {
            Node *n = g->nodes[k];
            for (int j = 0; j < n->inputs; j++)
                feeds[n->in[j]->id] |= n->has_samples || feeds[k];
            if (op_is_transfer(n->op) && feeds[k] && p->phases[i]->kind == step_kind(p->predicts))
                map_set(&lines, format("%d", model_line(n->at)), n);
        }
    }
    return lines;
}

static bool is_all_reduce(int transfer) { return transfer == MGPU_TRANSFER_REDUCE || transfer == MGPU_TRANSFER_REDUCE_MOMENTS; }

MidStep transfers_in_midstep(const Program *p, const Plan *plan, bool partial_batch, const SimulatedDevice *s, int device)
{
    const PhaseSchedule *phase = step_phase(plan->schedule, partial_batch);
    const DeviceSchedule *d = &phase->devices[device];
    Map lines = lines_with_statistics(p);
    MidStep found = {0};
    int last = -1; /* the last call that some transfer waits for: later waits are for updates */
    bool *counted = NEW_ARRAY(bool, d->op_count);
    for (int i = 0; i < d->op_count; i++)
        for (int w = 0; w < d->ops[i].wait_count && mgpu_lane_transfers((int)d->ops[i].lane); w++)
            if (d->ops[i].waits[w].back == 0 && d->ops[d->ops[i].waits[w].op].lane == LANE_COMP && d->ops[i].waits[w].op > last)
                last = d->ops[i].waits[w].op;
    for (int i = 0; i < last; i++)
        for (int w = 0; w < d->ops[i].wait_count && d->ops[i].lane == LANE_COMP; w++) {
            int before = d->ops[i].waits[w].op;
            if (d->ops[i].waits[w].back || !mgpu_lane_transfers((int)d->ops[before].lane) || counted[before] ||
                !is_all_reduce(phase->collectives[d->ops[before].target].participants.transfer))
                continue;
            const Node *statistic = map_get(&lines, format("%d", d->ops[before].line));
            if (!statistic)
                continue;
            found.at = found.at ? found.at : statistic->at;
            counted[before] = true;
            found.count++;
            found.us += s->waited_us[before];
        }
    return found;
}

double updates_us(const Plan *plan, int device)
{
    const DeviceSchedule *d = &step_phase(plan->schedule, false)->devices[device];
    double us = 0;
    for (int i = 0; i < d->op_count; i++)
        us += d->ops[i].role && strcmp(d->ops[i].role, "update") == 0 ? d->ops[i].time_us : 0;
    return us;
}

/* Adds the times of its calls in a step. */
static void add_kernels(const Schedule *s, PhaseKind kind, int times, int device, bool measured, double *us)
{
    for (int i = 0; i < s->phase_count; i++) {
        const DeviceSchedule *d = &s->phases[i].devices[device];
        for (int k = 0; k < d->op_count && strcmp(s->phases[i].name, phase_name(kind, false)) == 0; k++)
            if (d->ops[k].verb == VERB_CALL)
                us[measured ? GROUND_RUN : d->ops[k].ground] += times * d->ops[k].time_us;
    }
}

static void scale_to(double *us, double sum)
{
    double all = 0;
    for (int i = 0; i < GROUNDS; i++)
        all += us[i];
    for (int i = 0; i < GROUNDS; i++)
        us[i] *= all > 0 ? sum / all : 0;
}

Grounds grounds_of(const Program *p, const Plan *plan, const StepUse *use, const SimulatedDevice *s)
{
    const DeviceSchedule *d = &step_phase(plan->schedule, false)->devices[use->device];
    bool measured = p->options->measured_rate > 0;
    double all = use->computing_us + use->exposed_us;
    Grounds g = {0};
    add_kernels(plan->schedule, step_kind(p->predicts), 1, use->device, measured, g.kernels);
    add_kernels(plan->schedule, PHASE_ACCUMULATE, plan->schedule->accumulate - 1, use->device, measured, g.kernels);
    for (int i = 0; i < d->op_count; i++)
        if (d->ops[i].verb == VERB_TRANSFER)
            g.transfers[d->ops[i].ground] += s->waited_us[i];
    scale_to(g.kernels, use->computing_us / all);
    scale_to(g.transfers, use->exposed_us / all);
    return g;
}

static const char *const KERNELS_FROM[GROUNDS] = {[GROUND_RUN] = "kernels that were measured",
                                                  [GROUND_RATES] = "kernels by rates measured on the machine",
                                                  [GROUND_SHARES] =
                                                      "kernels by data sheets and shares of them that were measured elsewhere",
                                                  [GROUND_SHEETS] = "kernels by data sheets and assumed shares of them",
                                                  [GROUND_ASSUMED] = "launches by latencies that nobody measured"};
static const char *const TRANSFERS_FROM[GROUNDS] = {[GROUND_RUN] = "transfers that were measured",
                                                    [GROUND_RATES] = "transfers by links that were measured",
                                                    [GROUND_SHARES] = "",
                                                    [GROUND_SHEETS] = "transfers by the rates of data sheets",
                                                    [GROUND_ASSUMED] = "transfers by latencies that nobody measured"};

static void add_from(const double *share, const char *const *from, int *count, Text *t)
{
    for (int g = 0; g < GROUNDS; g++)
        if (share[g] >= .005)
            text_add(t, "%s%.0f %% %s", (*count)++ ? ", " : "", 100 * share[g], from[g]);
}

const char *grounds_text(const Grounds *g)
{
    int count = 0;
    Text t = {0};
    add_from(g->kernels, KERNELS_FROM, &count, &t);
    add_from(g->transfers, TRANSFERS_FROM, &count, &t);
    return text_of(&t);
}

StatisticsSamples statistics_samples(int devices, int64_t least, int64_t most)
{
    enum { FEW = 8 }; /* samples that can have their own statistics */
    int64_t samples = least < FEW ? FEW : least;
    return (StatisticsSamples){samples, samples == most ? 0 : samples * devices};
}

/* ---- the predictions in the head of the schedule */
static bool alike(const SimulatedDevice *a, const SimulatedDevice *b)
{
    for (int l = 0; l < LANES; l++) {
        if (a->lanes[l].busy_us != b->lanes[l].busy_us)
            return false;
        for (int c = 0; c < CAUSES; c++)
            if (a->lanes[l].idle_us[c] != b->lanes[l].idle_us[c])
                return false;
    }
    return true;
}

static double six_digits(double v) { return strtod(format("%.6g", v), NULL); }

/* Sets what device 0 can do per second: bytes of its memory, operations, those of its matrix units. */
static void set_roofs(const SimulationInput *in, int each, StepRecord *to)
{
    Device d = machine_device(in->machine, in->processor, 0, each);
    Dtype type = F32;
    for (int i = F32; i < DTYPES; i++)
        type = strcmp(dtype_name((Dtype)i), in->schedule->precision) == 0 ? (Dtype)i : type;
    double plain = d.plain[type == F64 ? F64 : F32].value;
    to->bandwidth = six_digits(d.bandwidth.value);
    to->plain = six_digits(plain > 0 ? plain : d.plain[F32].value);
    to->matrix = six_digits(d.matrix[type].value);
}

static void add_lanes(const Simulation *s, int first, int last, StepRecord *to)
{
    for (int l = 0; l < LANES; l++) {
        LaneRecord lane = {first, last, (Lane)l, s->devices[first].lanes[l]};
        APPEND(to->lanes, to->lane_count, lane);
    }
}

static const char *end_text(const Machine *m, int end)
{
    const char *name = machine_end_name(m, end);
    return *name >= '0' && *name <= '9' ? format("device %s", name) : name;
}

static StepRecord step_record(const SimulationInput *in, const Simulation *s, const char *machine, const StepUse *use)
{
    StepRecord to = {.machine = machine, .bound = use->bound, .step_us = use->step_us};
    set_roofs(in, schedule_each(in->schedule), &to);
    for (int first = 0, d = 1; d <= s->device_count; d++)
        if (d == s->device_count || !alike(&s->devices[first], &s->devices[d])) {
            add_lanes(s, first, d - 1, &to);
            first = d;
        }
    for (int i = 0; i < 2 * in->machine->link_count; i++) {
        const Link *l = &in->machine->links[i / 2];
        double rate = l->rate[i % 2].value;
        if (s->link_bytes[i] <= 0 || rate <= 0 || s->step_us <= 0)
            continue;
        LinkRecord link = {format("%s to %s", end_text(in->machine, l->end[i % 2]), end_text(in->machine, l->end[1 - i % 2])),
                           s->link_bytes[i], s->link_bytes[i] / (rate / 1e6 * s->step_us)};
        APPEND(to.links, to.link_count, link);
    }
    return to;
}

void predict_plans(Program *p)
{
    const char *machine =
        machine_of(p) == p->options->here ? here_text(machine_of(p)) : planned_name(p->options, !p->target->own_memory);
    for (int i = 0; i < p->plan_count; i++) {
        Plan *plan = &p->plans[i];
        if (!schedule_has_step(plan->schedule))
            continue;
        Memory *own = memory_new(), *outer = memory_use(own);
        SimulationInput in = simulation_input(p, plan);
        const Simulation *s = simulate_step(&in);
        StepUse use = step_use(&in, s);
        Grounds from = grounds_of(p, plan, &use, &s->devices[use.device]);
        memory_use(outer);
        plan->schedule->step = step_record(&in, s, machine, &use);
        plan->predicted = (Prediction){machine, use.bound, grounds_text(&from), use.step_us, use.computing_us, use.transfer_us};
        memory_free(own);
    }
}
