/* transfer_memory.c: the GPU memory that transfers need besides the arena, by the methods that the schedule chooses: the copies
 * that are added up, the codes of one-bit gradients, and the buffers of single-kernel exchanges. The memory of libraries is not
 * included. And that of exact programs for sums of virtual shards. In: a schedule whose phases have their operations. */
#include "compiler/plan/schedule.h"
#include "compiler/kernel/phase.h"
#include "compiler/plan/plan.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/target.h"
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_one_shot.h"
#include "runtime/abi/mgpu_rounds.h"

/* Transfers of a lane run one after the other, so they share one memory. */
static int64_t lane_bytes(const Schedule *s, Lane lane)
{
    int64_t slice = 0, most = 0, codes = 0, exchanged = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->phase_count; i++)
            for (int k = 0; k < s->phases[i].collective_count; k++) {
                const CollectiveRecord *c = &s->phases[i].collectives[k];
                if (c->lane != lane)
                    continue;
                int64_t bytes = pass ? mgpu_implementation_bytes(c->implementation, s->devices, slice)
                                     : mgpu_slice_bytes(&c->participants, c->count, dtype_bytes(c->dtype), s->devices);
                int64_t *to = pass ? &most : &slice,
                        coded = mgpu_codes_bytes(&c->participants, c->count, dtype_bytes(c->dtype), s->devices);
                *to = bytes > *to ? bytes : *to;
                codes = coded > codes ? coded : codes;
                int64_t value = c->count * dtype_bytes(c->dtype);
                bool by_kernel = c->implementation == MGPU_IMPLEMENTATION_ONE_SHOT &&
                                 mgpu_may_be_one_shot(c->participants.transfer, c->count, dtype_bytes(c->dtype));
                exchanged = by_kernel && value > exchanged ? value : exchanged;
            }
    return most + codes + mgpu_one_shot_bytes(exchanged, s->devices);
}

int64_t bytes_outside_arena(const Schedule *s)
{
    return s->devices > 1 ? lane_bytes(s, LANE_COMM) + lane_bytes(s, LANE_SYNC) : 0;
}

int64_t bytes_of_shard_terms(const Program *p, const Schedule *s)
{
    int64_t most = 0;
    for (int i = 0; i < s->phase_count && s->exact; i++)
        for (int d = 0; d < s->devices; d++) {
            const DeviceSchedule *device = &s->phases[i].devices[d];
            int64_t all = micro_shards(p->model),
                    shards = mgpu_first_shard(all, s->devices, d + 1) - mgpu_first_shard(all, s->devices, d);
            int64_t bytes = 0; /* of a region, whose calls have no order */
            for (int o = 0, region = -1; o < device->op_count; o++) {
                const ScheduledOp *op = &device->ops[o];
                const Kernel *k = op->verb == VERB_CALL ? p->kernels[op->target] : NULL;
                if (!k || !kernel_sums_shards(k) || (k->partial_bytes && !p->target->own_memory))
                    continue;
                bytes = op->region == region ? bytes : 0;
                region = op->region;
                for (int w = 0; w < k->write_count; w++)
                    bytes += k->writes[w]->has_samples ? 0 : mgpu_slot_bytes(op->writes[w].end - op->writes[w].begin);
                most = shards * bytes > most ? shards * bytes : most;
            }
        }
    return most;
}
