/* collective.h: what the ways of transfers between GPUs share. */
#ifndef MGPU_CUDA_COLLECTIVE_H
#define MGPU_CUDA_COLLECTIVE_H

#include "runtime/abi/mgpu_members.h"
#include "runtime/cuda/device_cuda.h"
#include "runtime/host/reduce.h"

enum { SUM_FUNCTIONS = 8, CODE_FUNCTIONS = 6 };
typedef struct CudaCollective CudaCollective;
typedef struct OneShot OneShot; /* one_shot.c */
typedef struct CudaLinks {
    int count, bad;
    bool reach;          /* each GPU can use the memory of all others */
    bool apart;          /* some is a slice of one that is divided, which reaches others through the host alone ("No GPU to GPU P2P", MIG User Guide) */
} CudaLinks;
typedef struct SumSlice { int64_t begin, end; size_t bytes; } SumSlice; /* elements of an operand that one member adds up */
struct CudaCollective {
    Collective collective;
    Machine *machine;
    CudaDevice **devices;
    int members, lane;           /* lane: whose transfers it makes */
    DeviceSpan own;              /* members of this process; the arrays below have nothing of others */
    Processes *processes;        /* NULL: all members are own */
    Reduction *reduction;
    void **memory;               /* [member]: page-locked, for the largest operand that goes through the host; NULL: none */
    /* by kernels of the GPUs */
    CUfunction (*sum)[SUM_FUNCTIONS];  /* [member] */
    CUfunction (*code)[CODE_FUNCTIONS]; /* [member] */
    CUevent *met[2];             /* [member]: of its meetings, in turn */
    int64_t *meetings;           /* [member]: so far; the same ones of all members */
    Operand *operand;            /* [member] */
    CUdeviceptr *scratch;        /* [member]: for copies of the others' operands; 0: none */
    int64_t scratch_bytes;       /* of each */
    OneShot *one_shot;           /* NULL: no transfer is made so */
    CUdeviceptr *codes;          /* [member]: for what all have sent, where each adds it up; NULL: nothing is */
    uint8_t made[MGPU_WAYS];     /* how what the plan wants in a way is made, MGPU_WAY_...; AUTO: no transfer is */
    CudaLinks links;
    bool barred[MGPU_WAYS];      /* ways that failed here */
    bool no_switches;            /* NCCL failed with NVLink's switches, and does without them */
    char *note, *names;
    void *nccl;                  /* cuda/nccl.c */
};

/* cuda/links.c: tries each GPU's link to the host, whose failure ends the program, and, if `peers`, every link between two
 * GPUs: bad ones are said. */
CudaLinks mgpu_cuda_links(const CudaCollective *, bool peers);
void mgpu_cuda_declare_share(const CudaCollective *, int member, const Operand *); /* what the member sends is read, what it receives written */
void mgpu_cuda_launch_sum(const CudaCollective *, int member, uint8_t dtype, const mgpu_members *, int64_t begin, int64_t end);

/* cuda/trial.c: every transfer of the plan, by the way that it is made in, with numbers whose sums are known. NULL; else what is wrong, for the caller
 * to free, and of which way. All processes have the same answer */
char *mgpu_cuda_try(CudaCollective *, const mgpu_plan *, uint8_t *way);

/* cuda/collective.c */
bool mgpu_cuda_exchange(Collective *, int member, const Operand *);
bool mgpu_cuda_adds(uint8_t dtype);                               /* kernels can */
Operand mgpu_cuda_codes_of(const CudaCollective *, int member, const Operand *, int64_t *parts); /* what of it is gathered; parts: [members + 1] */

int mgpu_sum_function(uint8_t dtype); /* of those by type; -1: none */

/* cuda/one_shot.c: exchanges by one kernel of each GPU. takes: transfers of this kind and size; bytes: of the largest value */
bool mgpu_one_shot_takes(uint8_t transfer, uint8_t dtype, int64_t count);
void mgpu_one_shot_open(CudaCollective *, int64_t bytes);
void mgpu_one_shot_close(CudaCollective *);
bool mgpu_one_shot_exchange(CudaCollective *, int member, const Operand *);

/* cuda/nccl.c: NULL, or why not, for the caller to free */
char *mgpu_nccl_open(CudaCollective *, bool shared);
char *mgpu_nccl_of_any(Processes *, char *why); /* why, or, if it is NULL and another process has a reason, that */
void mgpu_nccl_close(CudaCollective *);
void mgpu_nccl_drop(CudaCollective *); /* of one whose trial failed */
bool mgpu_nccl_has_switches(const CudaCollective *); /* one that is open may use NVLink's, so another trial without them is worth it */
void mgpu_nccl_say_again(const CudaCollective *, const char *why); /* that it is; rank 0 does */
const char *mgpu_nccl_cure(const char *why);         /* what helps, by words of NCCL's own message */
const char *mgpu_nccl_name(const CudaCollective *); /* "NCCL 2.27.3", of one that is open */
bool mgpu_nccl_is_captured(const CudaCollective *); /* this version is, with this driver */
bool mgpu_nccl_exchange(CudaCollective *, int member, const Operand *);
char *mgpu_nccl_try(CudaCollective *, const Operand *); /* [member], of own ones; before the lanes run: NULL, or why it failed */
bool mgpu_nccl_trouble(Collective *, int member, char text[400]);
bool mgpu_nccl_adds(uint8_t dtype);
#endif
