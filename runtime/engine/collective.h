/* collective.h: one interface for all implementations of transfers between the devices of a plan (mgpu_transfers.h). Devices that
 * receive the same value receive the same bits. Sums are formed in the order of the devices, except by NCCL, rings and trees,
 * which have orders of their own. */
#ifndef MGPU_COLLECTIVE_H
#define MGPU_COLLECTIVE_H

#include "runtime/abi/mgpu.h"

typedef struct Operand {
    const char *name, *buffer; /* of the collective and of the buffer, for messages */
    void *data;                /* the whole value in the member's device memory; it sends its part from its place there */
    int64_t count;             /* elements of the whole value */
    uint8_t dtype;
    mgpu_participants participants;
    int64_t tag;            /* identifies the collective; the same for all members */
    uint8_t implementation; /* MGPU_IMPLEMENTATION_...: the implementation that the plan asks for; the same for all members */
    bool exact;             /* sums are formed as the tree of mgpu_exact.h, by no other implementation */
} Operand;
typedef struct Collective Collective;
struct Collective {
    const char *name;   /* "host", or "NCCL 2.27.3, peer" if there are several */
    const char *remark; /* a remark for the start report, or NULL */
    /* Every member calls it on its lane's thread, with the same count, dtype, participants and tag. The result has arrived when
     * it returns; on an asynchronous device, before anything that is issued to the lane later. Returns false if the members
     * disagree. */
    bool (*transfer)(Collective *, int member, const Operand *);
    /* Returns the name of the implementation used for this `implementation`. NULL: there is only one, `name`. */
    const char *(*made_by)(const Collective *, uint8_t implementation);
    /* Returns true if a graph may contain this collective (asynchronous devices). NULL: no graph may. */
    bool (*may_be_captured)(const Collective *, const mgpu_collective *);
    void (*close)(Collective *);
    /* Returns when the last member arrived at the member's last transfer (mgpu_seconds). NULL: the host does not know it. */
    double (*arrival_time)(const Collective *, int member);
    /* Writes an error of the member that no call has returned, if there is one. Any thread may call it while lanes run. NULL:
     * there are no such errors. */
    bool (*trouble)(Collective *, int member, char text[400]);
};

static inline const char *mgpu_made_by(const Collective *c, uint8_t implementation)
{
    return c->made_by ? c->made_by(c, implementation) : c->name;
}

/* Transfers between devices whose arenas are host memory (reduce.c). beside: the collective whose simulated links it shares;
 * NULL: it has its own. */
Collective *mgpu_collective_in_memory(int members, Collective *beside);
#endif
