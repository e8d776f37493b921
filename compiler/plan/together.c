/* together.c: Order -> regions of a device whose calls are launches: updates that one launch does.
 *
 * In: the calls in their order, and the collectives. Out: the order, in which an update may have moved up to an earlier one; and regions. Each call
 * is a region of its own, but updates of one function (target->together) are one, as many as a launch does, if
 *   - nothing between the first of them and the next one, nor one of them, touches what this writes or writes what it touches;
 *   - it needs no collective that calls up to the first of them do not need: the updates of a bucket of gradients that is
 *     complete early come early.
 * One walk over the calls and collectives: of each tensor the last who touches and the last who writes it is known. */
#include "compiler/ir/program.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "compiler/plan/schedule_internal.h"

typedef struct Launch {
    Task **calls; int count;
    const Kernel *function; /* NULL: of one call */
} Launch;

typedef struct Joining {
    const Target *target;
    Order *order;
    Launch *launches; int launch_count;
    int *open;                /* by kernel: the last launch of that function + 1 */
    int *touched, *written;   /* by tensor: the last launch that does, or that a collective which does comes after, + 1 */
    int *group;               /* by tensor: the last collective that moves it + 1 */
    int *waited;              /* by collective: the first launch that needs it + 1; 0: none so far */
} Joining;

static const Kernel *function_of(const Joining *j, const Task *t)
{
    bool several = t->update && j->target->together && j->target->together(t->kernel) > 1;
    return !several ? NULL : t->kernel->canonical ? t->kernel->canonical : t->kernel;
}

static int later(int a, int b) { return a > b ? a : b; }

/* a launch with this number + 1 or a later one may do the call: what it needs is before that */
static int least_launch(const Joining *j, const Task *t)
{
    int least = 0;
    for (int i = 0; i < t->read_count; i++) {
        int group = j->group[t->reads[i]->id] - 1;
        least = later(least, j->written[t->reads[i]->id] + 1);
        if (group >= 0) /* nobody waits for it so far: a new launch */
            least = later(least, j->waited[group] ? j->waited[group] : j->launch_count + 1);
    }
    for (int i = 0; i < t->write_count; i++)
        least = later(least, j->touched[t->writes[i]->id] + 1);
    return least;
}

static void add_to(Joining *j, int launch, Task *t)
{
    Launch *l = &j->launches[launch];
    APPEND(l->calls, l->count, t);
    for (int i = 0; i < t->read_count; i++) {
        int x = t->reads[i]->id, group = j->group[x] - 1;
        j->touched[x] = later(j->touched[x], launch + 1);
        if (group >= 0 && !j->waited[group])
            j->waited[group] = launch + 1;
    }
    for (int i = 0; i < t->write_count; i++)
        j->touched[t->writes[i]->id] = j->written[t->writes[i]->id] = launch + 1;
}

static void add_call(Joining *j, Task *t)
{
    const Kernel *function = function_of(j, t);
    int launch = function ? j->open[function->number] - 1 : -1;
    if (launch < 0 || launch + 1 < least_launch(j, t) || j->launches[launch].count == j->target->together(t->kernel)) {
        launch = j->launch_count;
        APPEND(j->launches, j->launch_count, ((Launch){.function = function}));
    }
    if (function)
        j->open[function->number] = launch + 1;
    add_to(j, launch, t);
}

/* it comes after the launches so far, before all others */
static void add_group(Joining *j, int number)
{
    const Group *g = &j->order->groups[number];
    for (int i = 0; i < g->member_count; i++) {
        int x = g->members[i]->id;
        j->touched[x] = j->written[x] = j->launch_count;
        j->group[x] = number + 1;
    }
}

/* launches -> calls and regions; after: of each collective, the launch before it */
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

void join_updates(const Program *p, const Phase *phase, Order *o)
{
    Joining j = {.target = p->target, .order = o};
    int *after = NEW_ARRAY(int, o->group_count);
    j.open = NEW_ARRAY(int, p->kernel_count);
    j.touched = NEW_ARRAY(int, phase->tensor_count);
    j.written = NEW_ARRAY(int, phase->tensor_count);
    j.group = NEW_ARRAY(int, phase->tensor_count);
    j.waited = NEW_ARRAY(int, o->group_count);
    o->region = NEW_ARRAY(int, o->call_count);
    o->chunk = NEW_ARRAY(int64_t, o->call_count);
    for (int call = -1, group = 0; call < o->call_count; call++) {
        if (call >= 0)
            add_call(&j, o->calls[call]);
        for (; group < o->group_count && o->groups[group].after == call; group++) {
            add_group(&j, group);
            after[group] = j.launch_count;
        }
    }
    lay_out(&j, after);
}
