/* collective.h: sums over the devices of a plan, behind one interface for all ways to make them. Every device gets the same
 * bits. The sum of an element is formed in the order of the devices, but by NCCL, which has an order of its own. */
#ifndef MGPU_COLLECTIVE_H
#define MGPU_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Operand {
    const char *name, *buffer; /* of the sum, and of the buffer, for messages */
    void *data;          /* of the member's device, as its kernels see it: is replaced by the sum */
    int64_t count;       /* elements */
    uint8_t dtype;
    int64_t tag;         /* the same for all members of one sum */
} Operand;
typedef struct Collective Collective;
struct Collective {
    const char *name;    /* "host" */
    const char *note;    /* what else to say of it at the start; NULL: nothing */
    /* Every member calls it, on the thread of its lane comm, with the same count, dtype and tag. The sum is there when it
     * returns, or, of a device that runs ahead, for what its lane comm is issued behind it. false: the members disagree. */
    bool (*sum)(Collective *, int member, const Operand *);
    void (*close)(Collective *);
    /* Of any thread, while the lanes run: an error of the member that no call has returned. NULL: this way has none. */
    bool (*trouble)(Collective *, int member, char text[400]);
};

Collective *mgpu_collective_in_memory(int members); /* of devices whose arenas are host memory (reduce.c) */
#endif
