/* exact.c: an exact program has the same bits on any number of devices (docs/exact.md).
 *
 * In: a schedule. Out: NULL, or what would let a sum depend on the devices:
 *   - a device's samples are whole virtual shards, those of its subtree (runtime/abi/mgpu_exact.h)
 *   - gradients are those of all samples of the step, as they are
 *   - transfers add by the tree, and not by an implementation that has an order of its own
 * That no call takes all samples at once is proved by verify/region.c; that kernels sum as they say is trusted. */
#include "compiler/plan/schedule.h"
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"
#include "runtime/abi/mgpu_exact.h"

static int64_t shards_of(const Schedule *s) { return s->exact / s->accumulate; }

static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static const char *check_head(const Schedule *s)
{
    look_at(s->model_line);
    if (!is_power_of_two(s->exact) || !is_power_of_two(s->accumulate) || s->exact % s->accumulate)
        return format("exact %lld and accumulate %d make no binary tree: these are powers of two, and accumulate divides exact",
                      (long long)s->exact, s->accumulate);
    if (shards_of(s) < s->devices)
        return format("a micro-batch has no virtual shard for each of %d devices: exact %lld, accumulate %d", s->devices,
                      (long long)s->exact, s->accumulate);
    const Policy *p = s->policy;
    look_at(s->plan_line);
    if (p && (p->order != ORDER_SYNCHRONOUS || p->gradients != GRADIENTS_EXACT || p->variables != VARIABLES_REPLICATED))
        return format("by the plan %s, gradients or variables of an exact program are not those of all samples of a step",
                      p->name);
    return NULL;
}

static const char *check_shares(const Schedule *s)
{
    const DeviceSchedule *last = &s->phases[0].devices[s->devices - 1];
    int64_t groups = (last->first + last->share) / s->group, shards = shards_of(s);
    for (int d = 0; d < s->devices; d++) {
        const DeviceSchedule *device = &s->phases[0].devices[d];
        int64_t begin = s->group * mgpu_shard_groups(groups, shards, mgpu_first_shard(shards, s->devices, d)),
                end = s->group * mgpu_shard_groups(groups, shards, mgpu_first_shard(shards, s->devices, d + 1));
        look_at(device->text_line);
        if (device->first != begin || device->share != end - begin)
            return format("device %d has samples %lld..%lld, but those of its virtual shards are %lld..%lld", d,
                          (long long)device->first, (long long)(device->first + device->share), (long long)begin, (long long)end);
    }
    return NULL;
}

static const char *check_sums(const PhaseSchedule *p)
{
    for (int i = 0; i < p->collective_count; i++) {
        const CollectiveRecord *c = &p->collectives[i];
        const mgpu_transfer *row = mgpu_transfer_row(c->participants.transfer);
        bool tree = c->implementation == MGPU_IMPLEMENTATION_AUTO || c->implementation == MGPU_IMPLEMENTATION_HOST ||
                    c->implementation == MGPU_IMPLEMENTATION_COPY || c->implementation == MGPU_IMPLEMENTATION_PEER;
        look_at(c->text_line);
        if (row->adds && (!tree || c->participants.transfer == MGPU_TRANSFER_REDUCE_BITS))
            return format("phase %s: %s %s by %s has an order of its own, but the program is exact", p->name, row->kind, c->name,
                          mgpu_implementation_name(c->implementation));
    }
    return NULL;
}

const char *verify_exact(const Schedule *s, int phase, int device)
{
    const char *why = NULL;
    if (!s->exact || device > 0)
        return NULL;
    if (phase == 0)
        why = check_head(s);
    if (phase == 0 && !why)
        why = check_shares(s);
    return why ? why : check_sums(&s->phases[phase]);
}
