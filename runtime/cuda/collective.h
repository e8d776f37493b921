/* collective.h: what the implementations of transfers between GPUs share. */
#ifndef MGPU_CUDA_COLLECTIVE_H
#define MGPU_CUDA_COLLECTIVE_H

#include "runtime/abi/mgpu_members.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/host/reduce.h"

enum { ADD_FUNCTIONS = 8, CODE_FUNCTIONS = 6 };
typedef struct CudaCollective CudaCollective;
typedef struct OneShot OneShot; /* one_shot.c */
typedef struct CudaLinks {
    int count, bad;
    bool peer_access; /* each GPU can access the memory of all others */
    /* some device is a MIG slice, which reaches others only through the host ("No GPU to GPU P2P", MIG User Guide) */
    bool apart;
} CudaLinks;
typedef struct AddedSlice {
    int64_t begin, end;
    size_t bytes;
} AddedSlice; /* elements of an operand that one member sums */
struct CudaCollective {
    Collective collective;
    DeviceSet *machine;
    CudaDevice **devices;
    int members, lane;    /* lane: whose transfers it makes */
    bool exact;           /* sums are formed by the tree of mgpu_exact.h */
    DeviceSpan local;     /* members of this process; the arrays below are for these only */
    Processes *processes; /* NULL: this process has all members */
    Reduction *reduction;
    void **memory; /* [member]: page-locked, for the largest operand that goes through the host; NULL: none */
    /* kernels of the GPUs */
    CUfunction (*add_function)[ADD_FUNCTIONS]; /* [member] */
    CUfunction (*code)[CODE_FUNCTIONS];        /* [member] */
    CUfunction *merge;                         /* [member]: of exact programs, in place of that which merges moments in turn */
    CUevent *arrival_events[2];                /* [member]: events at which members wait for each other, used alternately */
    int64_t *barriers;                         /* [member]: how often it has waited so; equal for all members between transfers */
    Operand *operand;                          /* [member] */
    CUdeviceptr *scratch;                      /* [member]: for copies of the others' operands; 0: none */
    int64_t scratch_bytes;                     /* per member */
    OneShot *one_shot;                         /* NULL: no transfer is made by one_shot.c */
    CUdeviceptr *codes;                        /* [member]: what all members send, where each one sums it; NULL: not needed */
    /* [implementation of the plan]: the implementation used for it; AUTO: the plan has no such transfer */
    uint8_t made[MGPU_IMPLEMENTATIONS];
    CudaLinks links;
    bool barred[MGPU_IMPLEMENTATIONS]; /* implementations that have failed here */
    bool no_switches;                  /* NCCL failed with NVLink's switches and is used without them */
    char *remark, *names;
    void *nccl;      /* nccl.c */
    uint8_t *window; /* of trials, page-locked. A failed one leaves it: to free it waits for transfers, which may never end */
};

/* links.c: Tests each GPU's link to the host, whose failure ends the program, and, if `peers`, every link between two GPUs. Warns
 * of bad ones. */
CudaLinks mgpu_cuda_links(const CudaCollective *, bool peers);
void mgpu_cuda_declare_ranges(const CudaCollective *, int member, const Operand *); /* what it sends and receives */
void mgpu_cuda_launch_add(const CudaCollective *, int member, uint8_t dtype, const mgpu_members *, int64_t begin, int64_t end);

/* trial.c: Tries every transfer of the plan by its implementation, with values whose sums are known. Returns NULL, or what is
 * wrong, which the caller frees, with *way set to the implementation. All processes get the same answer. */
char *mgpu_cuda_try(CudaCollective *, const mgpu_plan *, uint8_t *implementation);

/* collective.c */
bool mgpu_cuda_exchange(Collective *, int member, const Operand *);
bool mgpu_cuda_adds(uint8_t dtype);                                                              /* kernels can add this type */
Operand mgpu_cuda_codes_of(const CudaCollective *, int member, const Operand *, int64_t *parts); /* parts: [members + 1] */

int mgpu_add_function(uint8_t dtype); /* index of the type's function; -1: none */

/* one_shot.c: exchanges by a single kernel per GPU. takes: true for transfers of this kind and size; bytes: of the largest
 * value. */
bool mgpu_one_shot_takes(uint8_t transfer, uint8_t dtype, int64_t count);
void mgpu_one_shot_open(CudaCollective *, int64_t bytes);
void mgpu_one_shot_close(CudaCollective *);
bool mgpu_one_shot_exchange(CudaCollective *, int member, const Operand *);

/* nccl.c: Returns NULL, or why NCCL cannot be used, which the caller frees. */
char *mgpu_nccl_open(CudaCollective *, bool shared);
char *mgpu_nccl_of_any(Processes *, char *why); /* returns `why`, or, if it is NULL, the reason of another process */
void mgpu_nccl_close(CudaCollective *);
void mgpu_nccl_drop(CudaCollective *);                           /* abandons a communicator whose trial failed */
bool mgpu_nccl_has_switches(const CudaCollective *);             /* it may use NVLink's switches */
void mgpu_nccl_explain(const CudaCollective *, const char *why); /* warns, on rank 0, that NCCL is tried again */
const char *mgpu_nccl_cure(const char *why);                     /* what to do, by the words of NCCL's message */
const char *mgpu_nccl_name(const CudaCollective *);              /* "NCCL 2.27.3"; it must be open */
bool mgpu_nccl_is_captured(const CudaCollective *);              /* this version can be captured with this driver */
bool mgpu_nccl_exchange(CudaCollective *, int member, const Operand *);
char *mgpu_nccl_try(CudaCollective *, const Operand *); /* operands: [member]; NULL, or why it failed */
bool mgpu_nccl_trouble(Collective *, int member, char text[400]);
bool mgpu_nccl_adds(uint8_t dtype);
#endif
