/* update_launches.c: Order -> regions of a device whose calls are launches: updates that share one launch.
 *
 * In: the calls in order, and the collectives. Out: regions, and the order, in which an update may have moved up to an earlier
 * one. Each call is a region of its own, but up to target->together updates of one function share one, if
 *   - nothing between the first of them and the next one, nor one of them, accesses what this one writes, or the reverse;
 *   - the collectives that it needs are predicted to end before the first of them begins, so updates of early buckets run early;
 *   - it writes no large values except variables, since those would be in memory longer;
 *   - the launch is short, if a collective waits for what this one writes: a weight updated in parts is gathered meanwhile.
 * One pass over the calls and collectives keeps, for each tensor, the last accesses, and for each lane the time. */
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/schedule_internal.h"

/* saves three launches and more; with it, predicted steps of GPT-2 with --shard optimizer are as short as without joining */
static const double SHORT_US = 8;

typedef struct Launch {
    Task **calls;
    int count;
    double begin_us, us;
} Launch;

typedef struct Joining {
    const Program *program;
    const Members *members;
    Order *order;
    double samples; /* samples of a device */
    Device device;
    Launch *launches;
    int launch_count;
    int *open;                      /* by kernel: the last launch of that function + 1 */
    int *touched, *written;         /* by tensor: the last launch + 1 that does, or that precedes a collective which does */
    double *over_us;                /* by tensor: end of the last collective that moves it */
    bool *moved;                    /* by tensor: some collective moves it */
    double comp_us, transfer_us[2]; /* by lane: comp; comm and sync */
} Joining;

enum { SMALL_BYTES = 256 << 10 };

const Kernel *function_of_launch(const Program *p, const Task *t)
{
    const Target *target = p->target;
    bool several = t->update && target->calls_per_launch && target->calls_per_launch(t->kernel) > 1;
    for (int i = 0; i < t->write_count && several; i++)
        several = t->writes[i]->kind != TENSOR_TEMPORARY || tensor_bytes(t->writes[i], 1) <= SMALL_BYTES;
    return several ? kernel_function(t->kernel) : NULL;
}

static double later(double a, double b) { return a > b ? a : b; }

static bool may_do(const Joining *j, int launch, const Task *t)
{
    const Launch *l = &j->launches[launch];
    bool may = l->count < j->program->target->calls_per_launch(t->kernel);
    for (int i = 0; i < t->read_count && may; i++)
        may = j->written[t->reads[i]->id] <= launch && j->over_us[t->reads[i]->id] <= l->begin_us;
    for (int i = 0; i < t->write_count && may; i++)
        may = j->touched[t->writes[i]->id] <= launch && (l->us < SHORT_US || !j->moved[t->writes[i]->id]);
    return may;
}

static int new_launch(Joining *j, const Task *t)
{
    for (int i = 0; i < t->read_count; i++)
        j->comp_us = later(j->comp_us, j->over_us[t->reads[i]->id]);
    APPEND(j->launches, j->launch_count, ((Launch){.begin_us = j->comp_us}));
    j->comp_us += j->device.launch_us.value;
    return j->launch_count - 1;
}

static void add_to(Joining *j, int launch, Task *t)
{
    APPEND(j->launches[launch].calls, j->launches[launch].count, t);
    for (int i = 0; i < t->read_count; i++)
        if (j->touched[t->reads[i]->id] <= launch)
            j->touched[t->reads[i]->id] = launch + 1;
    for (int i = 0; i < t->write_count; i++)
        j->touched[t->writes[i]->id] = j->written[t->writes[i]->id] = launch + 1;
    double us =
        j->order->group_count ? time_of_task(j->program, &j->device, t, units_of_task(t, j->members->count, j->samples)) : 0;
    j->launches[launch].us += us;
    j->comp_us += us;
}

static void add_call(Joining *j, Task *t)
{
    const Kernel *function = function_of_launch(j->program, t);
    int launch = function ? j->open[function->number] - 1 : -1;
    if (launch < 0 || !may_do(j, launch, t))
        launch = new_launch(j, t);
    if (function)
        j->open[function->number] = launch + 1;
    add_to(j, launch, t);
}

/* Adds a collective, which runs after the launches so far and before all later ones. */
static void add_group(Joining *j, const Group *g)
{
    double *lane = &j->transfer_us[g->in_sync_lane];
    *lane = later(*lane, j->comp_us) + cost_of_transfer(j->members, g, (double)g->bytes).us;
    for (int i = 0; i < g->member_count; i++) {
        int x = g->members[i]->id;
        j->touched[x] = j->written[x] = j->launch_count;
        j->over_us[x] = *lane;
    }
}

/* Turns launches into calls and regions; after: the number of launches before each collective. */
static void lay_out(Joining *j, const int *after)
{
    Order *o = j->order;
    int *end = NEW_ARRAY(int, j->launch_count + 1), call = 0;
    for (int l = 0; l < j->launch_count; l++) {
        for (int i = 0; i < j->launches[l].count; i++, call++) {
            o->calls[call] = j->launches[l].calls[i];
            o->region[call] = l;
        }
        end[l + 1] = call;
    }
    for (int g = 0; g < o->group_count; g++)
        o->groups[g].after = end[after[g]] - 1;
}

void join_update_launches(const Program *p, const Phase *phase, const Members *members, double samples, Order *o)
{
    Joining j = {.program = p, .members = members, .order = o, .samples = samples, .device = member_device(members, 0)};
    int *after = NEW_ARRAY(int, o->group_count);
    j.open = NEW_ARRAY(int, p->kernel_count);
    j.touched = NEW_ARRAY(int, phase->tensor_count);
    j.written = NEW_ARRAY(int, phase->tensor_count);
    j.over_us = NEW_ARRAY(double, phase->tensor_count);
    j.moved = NEW_ARRAY(bool, phase->tensor_count);
    for (int g = 0; g < o->group_count; g++)
        for (int i = 0; i < o->groups[g].member_count; i++)
            j.moved[o->groups[g].members[i]->id] = true;
    o->region = NEW_ARRAY(int, o->call_count);
    o->chunk = NEW_ARRAY(int64_t, o->call_count);
    for (int call = -1, group = 0; call < o->call_count; call++) {
        if (call >= 0)
            add_call(&j, o->calls[call]);
        for (; group < o->group_count && o->groups[group].after == call; group++) {
            add_group(&j, &o->groups[group]);
            after[group] = j.launch_count;
        }
    }
    lay_out(&j, after);
}
