/* split.c: Program, Plan with a number of devices -> the plan's shards: which samples of a micro-batch each device has.
 *
 * A micro-batch is the batch over the number of micro-batches, rounded up to whole groups (a group is what batchnorm
 * must not cut). Groups are dealt out evenly; the first devices get the one more that is left over, so a short step,
 * which fills devices from the first, leaves the fewest of them idle. A device without a share keeps one sample of
 * room: it runs along with a copy of a real one. Whether a step fills its shards is known at run time only. */
#include "compiler/ir/program.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule.h"

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

void split(const Program *p, Plan *plan)
{
    const Model *m = p->model;
    int64_t group = m->group > 0 ? m->group : 1, accumulate = m->accumulate > 0 ? m->accumulate : 1;
    int64_t groups = divide_up(divide_up(m->batch, accumulate), group);
    if (plan->devices < 1)
        die("a plan for %d devices", plan->devices);
    if (__builtin_mul_overflow(groups, group, &plan->micro))
        die("a batch of %lld in groups of %lld samples", (long long)m->batch, (long long)group);
    plan->shards = NEW_ARRAY(Shard, plan->devices);
    plan->always_partial = false;
    int64_t first = 0;
    for (int d = 0; d < plan->devices; d++) {
        int64_t share = group * (groups / plan->devices + (d < groups % plan->devices));
        plan->shards[d] = (Shard){first, share, share > 0 ? share : 1};
        plan->always_partial |= share == 0;
        first += share;
    }
}
