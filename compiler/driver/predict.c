/* predict.c: what a schedule is predicted to do on its machine: for `mgpuc plan`, and for the program, whose runs compare. */
#include "compiler/driver/plan.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/times.h"

#include <string.h>

static const double PICTURE_BYTES = 110e3; /* of an ImageNet picture, as it lies on disk: 138 GB are 1.28 million */

bool reads_pictures(const Model *m)
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
    return (SimulationInput){.schedule = plan->schedule, .machine = machine, .processor = processor_of(p),
                             .decode_us = pictures && decode > 0 ? 1e6 / decode : 0, .disk_bytes = pictures ? PICTURE_BYTES : 0};
}

const char *planned_name(const Options *o, bool host) { return o->machine ? o->machine : host ? "host2" : "h100x8"; }

static bool trains(const Schedule *s)
{
    for (int i = 0; i < s->phase_count; i++)
        if (strncmp(s->phases[i].name, "train.", strlen("train.")) == 0)
            return true;
    return false;
}

void predict_plans(Program *p)
{
    for (int i = 0; i < p->plan_count; i++) {
        Plan *plan = &p->plans[i];
        if (!trains(plan->schedule))
            continue;
        Memory *own = memory_new(), *outer = memory_use(own);
        SimulationInput in = simulation_input(p, plan);
        const Simulation *s = simulate_step(&in);
        StepUse use = step_use(&in, s);
        plan->predicted = (Prediction){planned_name(p->options, !p->target->own_memory), use.bound, use.step_us, use.computing_us, use.transfer_us};
        memory_use(outer);
        memory_free(own);
    }
}
