/* bound.c: what bounds a training step: what takes most of the time of the device that computes longest. */
#include "compiler/simulate/simulate.h"

#include <string.h>

static int slowest_device(const Simulation *s)
{
    int slowest = 0;
    for (int d = 1; d < s->device_count; d++)
        if (s->devices[d].lanes[LANE_COMP].busy_us > s->devices[slowest].lanes[LANE_COMP].busy_us)
            slowest = d;
    return slowest;
}

/* Returns the launch time of the calls of a full step, or of a partial one if some device has no samples. */
static double launch_us(const SimulationInput *in, int device)
{
    bool partial = false;
    for (int k = 0; in->schedule->phase_count && k < in->schedule->devices; k++)
        partial |= in->schedule->phases[0].devices[k].share == 0;
    Device d = machine_device(in->machine, in->processor, device % schedule_each(in->schedule), schedule_each(in->schedule));
    double sum = d.step_us.value, each = d.launch_us.value;
    for (int i = 0; i < in->schedule->phase_count; i++) {
        const PhaseSchedule *p = &in->schedule->phases[i];
        for (int k = 0; strcmp(p->name, schedule_step(in->schedule, partial)) == 0 && k < p->devices[device].op_count; k++)
            sum += p->devices[device].ops[k].lane == LANE_COMP ? each : 0;
    }
    return sum;
}

/* A lane that is always busy is the bound: all others wait for it, directly or not. */
static const char *bound_of(const StepUse *use, const LaneUse *lanes)
{
    const double ALWAYS = .99 * use->step_us;
    if (use->computing_us < ALWAYS && (lanes[LANE_HOST].busy_us > ALWAYS || lanes[LANE_COPY].busy_us > ALWAYS))
        return lanes[LANE_HOST].busy_us > ALWAYS ? "input" : "upload";
    const struct {
        double us;
        const char *name;
    } PARTS[] = {
        {use->computing_us, use->launch_us > .5 * use->computing_us ? "launches" : "computation"},
        {use->exposed_us, "communication"},
        {use->upload_us, "upload"},
        {use->input_us, "input"},
        {use->devices_us, "other devices"},
    };
    int most = 0;
    for (int i = 1; i < COUNT(PARTS); i++)
        if (PARTS[i].us > PARTS[most].us)
            most = i;
    return PARTS[most].name;
}

StepUse step_use(const SimulationInput *in, const Simulation *s)
{
    int slow = slowest_device(s);
    const LaneUse *lanes = s->devices[slow].lanes, *comp = &lanes[LANE_COMP];
    StepUse use = {.device = slow,
                   .step_us = s->step_us,
                   .computing_us = comp->busy_us,
                   .launch_us = launch_us(in, slow),
                   .longer_us = s->devices[slow].longer_us,
                   .exposed_us = comp->idle_us[CAUSE_COMMUNICATION],
                   .between_us = s->devices[slow].between_us,
                   .upload_us = comp->idle_us[CAUSE_UPLOAD],
                   .input_us = comp->idle_us[CAUSE_INPUT],
                   .devices_us = comp->idle_us[CAUSE_DEVICE],
                   .transfer_us = lanes[LANE_COMM].busy_us + lanes[LANE_SYNC].busy_us};
    use.bound = bound_of(&use, lanes);
    return use;
}
