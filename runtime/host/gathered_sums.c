/* gathered_sums.c: transfers in which every member receives what all have sent and sums it by itself, in the members' order:
 * one-bit gradients, and moments; between processes also the sums of exact programs, as a process may have devices that are no
 * subtree. */
#include "runtime/abi/mgpu_exact.h"
#include "runtime/abi/mgpu_moments.h"
#include "runtime/abi/mgpu_rounds.h"
#include "runtime/host/reduce.h"

#include <string.h>

int64_t mgpu_sent_bytes(const Operand *o)
{
    return mgpu_gathered_bytes(o->participants.transfer, o->count, mgpu_dtype_bytes(o->dtype));
}

bool mgpu_put_sent(const Operand *o, void *sent)
{
    if (o->participants.transfer == MGPU_TRANSFER_REDUCE_BITS)
        return mgpu_encode(sent, o->data, o->count, o->dtype);
    if (o->count > 0)
        memcpy(sent, o->data, (size_t)mgpu_sent_bytes(o));
    return true;
}

static void merge_moments(const void *const *sent, int members, double *all, int64_t count)
{
    for (int d = 0; d < members; d++) {
        const double *own = sent[d];
        for (int64_t i = 0; i < count; i += 3)
            mgpu_merge_moments(&all[i], &all[i + 1], &all[i + 2], own[i], own[i + 1], own[i + 2], d == 0);
    }
}

void mgpu_add_sent(const void *const *sent, int members, const Operand *o, mgpu_range own)
{
    if (o->participants.transfer == MGPU_TRANSFER_REDUCE_BITS)
        mgpu_add_codes(sent, members, o->data, o->count, o->dtype);
    else if (!mgpu_gathers(o->participants.transfer))
        mgpu_add_tree(o->data, sent, members, o->dtype, own.begin, own.end);
    else if (o->exact)
        mgpu_merge_tree(o->data, (const double *const *)sent, members, o->count);
    else
        merge_moments(sent, members, o->data, o->count);
}
