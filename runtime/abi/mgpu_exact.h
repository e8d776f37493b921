/* mgpu_exact.h: virtual shards, which make the bits of a step independent of devices and threads (docs/exact.md).
 *
 * A step is cut into a fixed number of virtual shards, a power of two; a micro-batch has a subtree of the binary tree over them.
 * Of its shards each device has a contiguous run, which is a subtree again: as even as such runs can be, the smaller ones first.
 * Sums over samples are formed in each shard by itself, rounded to the type of the value, and added by the tree: within a device,
 * then between devices, then between micro-batches (compiler/passes/accumulate.c). */
#ifndef MGPU_EXACT_H
#define MGPU_EXACT_H

#include "mgpu.h"

/* The tree over `terms` terms that are the runs of so many devices (or shards of one device): first the leading terms are added
 * in pairs, so many that a power of two is left, then neighbours until one is left. */
static inline int64_t mgpu_tree_width(int64_t terms)
{
    int64_t width = 1;
    while (2 * width <= terms)
        width *= 2;
    return width;
}
static inline int64_t mgpu_tree_pairs(int64_t terms) { return terms - mgpu_tree_width(terms); }

/* Returns the first virtual shard of device d of `devices`; of device `devices`, the number of shards. shards >= devices. */
static inline int64_t mgpu_first_shard(int64_t shards, int64_t devices, int64_t d)
{
    int64_t width = mgpu_tree_width(devices), pairs = mgpu_tree_pairs(devices);
    return d < 2 * pairs ? shards / width / 2 * d : shards / width * (d - pairs);
}

/* Returns the first of `groups` groups of samples that virtual shard k has. */
static inline int64_t mgpu_shard_groups(int64_t groups, int64_t shards, int64_t k)
{
    return groups / shards * k + groups % shards * k / shards;
}

/* Returns the virtual shards of a micro-batch. */
static inline int64_t mgpu_micro_shards(const mgpu_program *p) { return p->exact / (p->accumulate > 1 ? p->accumulate : 1); }

/* Sets first[0 .. n] to the first samples, from the device's own first one on, of the n virtual shards of device d, and to the
 * end of the last one. Returns n. */
static inline int64_t mgpu_device_shards(const mgpu_program *p, const mgpu_plan *plan, int d, int64_t *first)
{
    int64_t group = p->group > 1 ? p->group : 1, groups = plan->micro / group, all = mgpu_micro_shards(p);
    int64_t begin = mgpu_first_shard(all, plan->devices, d), shards = mgpu_first_shard(all, plan->devices, d + 1) - begin;
    for (int64_t k = 0; k <= shards; k++)
        first[k] = group * (mgpu_shard_groups(groups, all, begin + k) - mgpu_shard_groups(groups, all, begin));
    return shards;
}

/* Adds terms [0, count) of `from`, elements [begin, end), by the tree, to `to`, which may be one of them. Every sum is rounded to
 * the type. */
void mgpu_add_tree(void *to, const void *const *from, int64_t count, uint8_t dtype, int64_t begin, int64_t end);
/* For the partial sums of a kernel's calls, part->stride bytes apart, part->threads of them: rounds each to the value's type and
 * adds them by the tree; the sum stands in the first, in the type `held`: MGPU_F64, or that of the value. */
void mgpu_add_shards(void *partial, int64_t count, uint8_t held, uint8_t value, const mgpu_part *part);
/* Likewise for moments: number, mean and squares are those of the first. */
void mgpu_merge_shards(double *number, double *mean, double *squares, int64_t count, const mgpu_part *part);
/* Merges `terms` lists of moments of so many numbers by the tree to `all`. */
void mgpu_merge_tree(double *all, const double *const *terms, int64_t count, int64_t numbers);
#endif
