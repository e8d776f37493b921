/* plans.c: unpacks the schedules of a program's plans for the engine. An unpacked plan is used again. */
#include "runtime/base/options.h"
#include "runtime/run/commands.h"
#include "runtime/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct OpenPlan {
    const mgpu_plan *of; /* entry of the program's table */
    mgpu_plan plan;
    struct OpenPlan *before;
} OpenPlan;
typedef struct OpenPlans {
    mgpu_block *memory; /* for all plans */
    OpenPlan *last;
} OpenPlans;

OpenPlans *mgpu_no_plans(void) { return mgpu_allocate(1, sizeof(OpenPlans)); }

void mgpu_close_plans(RunOptions *o)
{
    mgpu_free_memory(&o->plans->memory);
    free(o->plans);
    o->plans = NULL;
}

static void find_offsets(const DeviceSchedule *d, int64_t *offsets)
{
    for (int i = 0; i < d->buffer_count; i++)
        if (d->buffers[i].kind == BUFFER_VARIABLE && d->buffers[i].index >= 0)
            offsets[d->buffers[i].index] = d->buffers[i].offset;
}

static int count_variables(const Schedule *s)
{
    int count = 0;
    for (int k = 0; k < s->phase_count; k++)
        for (int d = 0; d < s->devices; d++)
            for (int i = 0; s->phases[k].devices[d].as == d && i < s->phases[k].devices[d].buffer_count; i++) {
                const Buffer *b = &s->phases[k].devices[d].buffers[i];
                count = b->kind == BUFFER_VARIABLE && b->index >= count ? b->index + 1 : count;
            }
    return count;
}

/* Makes the plan's table of devices. All phases use the same arena of a device, in which a variable has one place. */
static mgpu_device *list_devices(const Schedule *s, const mgpu_plan *plan, mgpu_reader *r)
{
    mgpu_device *devices = r->allocate(r->memory, (size_t)s->devices * sizeof *devices);
    int variables = count_variables(s);
    for (int d = 0; d < s->devices; d++) {
        int64_t *offsets = r->allocate(r->memory, (size_t)(variables + 1) * sizeof *offsets);
        const DeviceSchedule *first = &s->phases[0].devices[d];
        devices[d] = (mgpu_device){
            .shard = {first->first, first->share, first->capacity}, .variable_offset = offsets, .rooms = plan->rooms};
        while (plan->rooms && plan->rooms[devices[d].room_count].samples)
            devices[d].room_count++;
        for (int k = 0; k < s->phase_count; k++) {
            const DeviceSchedule *own = &s->phases[k].devices[d];
            find_offsets(own, offsets);
            devices[d].arena_bytes = own->arena_bytes > devices[d].arena_bytes ? own->arena_bytes : devices[d].arena_bytes;
            devices[d].staging_bytes =
                own->staging_bytes > devices[d].staging_bytes ? own->staging_bytes : devices[d].staging_bytes;
            devices[d].work_bytes = own->work_bytes > devices[d].work_bytes ? own->work_bytes : devices[d].work_bytes;
        }
    }
    return devices;
}

/* Replaces missing layers and roles by "". in_one_memory: devices share the host's memory, so the implementation of collectives
 * that the schedule names is not used. */
static void settle_phase(PhaseSchedule *p, int devices, bool in_one_memory)
{
    for (int d = 0; d < devices; d++)
        for (int i = 0; p->devices[d].as == d && i < p->devices[d].op_count; i++) {
            ScheduledOp *op = &p->devices[d].ops[i];
            op->layer = op->layer ? op->layer : "";
            op->role = op->role ? op->role : "";
        }
    for (int k = 0; k < p->collective_count && in_one_memory; k++)
        p->collectives[k].implementation = MGPU_IMPLEMENTATION_AUTO;
}

const mgpu_plan *mgpu_open_plan(const RunOptions *o, const mgpu_plan *of)
{
    if (!of->image)
        return of;
    for (OpenPlan *p = o->plans->last; p; p = p->before)
        if (p->of == of)
            return &p->plan;
    mgpu_reader r = {.wrong = mgpu_wrong_image, .allocate = mgpu_take_memory, .memory = &o->plans->memory};
    Schedule *s = mgpu_schedule_unpack(&r, of->image);
    OpenPlan *p = r.allocate(r.memory, sizeof *p);
    if (!s->phase_count || s->devices != of->devices)
        mgpu_die("the schedule of the plan for %d devices is one of %d devices with %d phases", of->devices, s->devices,
                 s->phase_count);
    for (int k = 0; k < s->phase_count; k++)
        settle_phase(&s->phases[k], s->devices, strcmp(of->kind, "host") == 0);
    *p = (OpenPlan){of, *of, o->plans->last};
    p->plan.device = list_devices(s, of, &r);
    p->plan.phases = s->phases;
    p->plan.phase_count = s->phase_count;
    o->plans->last = p;
    return &p->plan;
}
