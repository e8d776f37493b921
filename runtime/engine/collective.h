/* collective.h: transfers between the devices of a plan (mgpu_transfers.h), after one interface for all ways to make them. Of what
 * several devices get, all have the same bits. The sum of an element is formed in the order of the devices, but by NCCL, which has
 * an order of its own. */
#ifndef MGPU_COLLECTIVE_H
#define MGPU_COLLECTIVE_H

#include "runtime/abi/mgpu.h"

typedef struct Operand {
    const char *name, *buffer; /* of the collective, and of the buffer, for messages */
    void *data;          /* of the member's device, as its kernels see it: room for the whole value, of which it sends from there */
    int64_t count;       /* elements, of the whole value */
    uint8_t dtype;
    mgpu_parties parties;
    int64_t tag;         /* the same for all members of one collective */
    uint8_t way;         /* MGPU_WAY_...: that the plan wants; the same for all members */
} Operand;
typedef struct Collective Collective;
struct Collective {
    const char *name;    /* "host"; "NCCL 2.27.3, peer": of several ways */
    const char *note;    /* what else to say of it at the start; NULL: nothing */
    /* Every member calls it, on the thread of the lane, with the same count, dtype, parties and tag. What it receives is there
     * when it returns, or, of a device that runs ahead, for what the lane is issued after it. false: the members disagree. */
    bool (*transfer)(Collective *, int member, const Operand *);
    /* the name of how it is made if the plan wants it in this way; NULL: all are made in one way, `name` */
    const char *(*made_by)(const Collective *, uint8_t way);
    /* whether a segment may keep it, for members that run ahead; NULL: it may keep none */
    bool (*may_be_kept)(const Collective *, const mgpu_collective *);
    void (*close)(Collective *);
    /* when all members of the member's last transfer were there (mgpu_seconds). NULL: not known to the host */
    double (*met)(const Collective *, int member);
    /* Of any thread, while the lanes run: an error of the member that no call has returned. NULL: this way has none. */
    bool (*trouble)(Collective *, int member, char text[400]);
};

static inline const char *mgpu_made_by(const Collective *c, uint8_t way) { return c->made_by ? c->made_by(c, way) : c->name; }

/* of devices whose arenas are host memory (reduce.c); beside: whose links it shares; NULL: it has its own */
Collective *mgpu_collective_in_memory(int members, Collective *beside);
#endif
