/* cuda_collective.h: what the ways to sum over GPUs share. */
#ifndef MGPU_CUDA_COLLECTIVE_H
#define MGPU_CUDA_COLLECTIVE_H

#include "runtime/device_cuda.h"
#include "runtime/internal.h"
#include "runtime/mgpu_members.h"

enum { SUM_FUNCTIONS = 6 };
typedef struct CudaCollective CudaCollective;
struct CudaCollective {
    Collective collective;
    Machine *machine;
    CudaDevice **devices;
    int members;
    Reduction *reduction;
    void **memory;               /* [member]: page-locked, for the largest operand */
    /* by kernels of the GPUs */
    CUfunction (*sum)[SUM_FUNCTIONS];  /* [member] */
    CUevent *ready, *over;       /* [member]: its operand is complete; its part of the sum is */
    Operand *operand;            /* [member] */
    CUdeviceptr *scratch;        /* [member]: for copies of the others' operands; 0: none */
    void (*add)(CudaCollective *, int member, int64_t begin, int64_t end);
    void *nccl;                  /* cuda_nccl.c */
};

/* cuda_links.c: tries every link between two GPUs. *reach: each can use the memory of all others. false: one of them changes
 * what it carries, which has been said. */
bool mgpu_cuda_links(const CudaCollective *, bool *reach);
int mgpu_cuda_ranges(const Operand *, int64_t begin, int64_t end, CudaRange *); /* two: these elements are read and written */
void mgpu_cuda_launch_sum(const CudaCollective *, int member, uint8_t dtype, const mgpu_members *, int64_t begin, int64_t end);

/* cuda_nccl.c: NULL, or why not, for the caller to free */
char *mgpu_nccl_open(CudaCollective *, bool shared);
void mgpu_nccl_close(CudaCollective *);
bool mgpu_nccl_sum(CudaCollective *, int member, const Operand *);
bool mgpu_nccl_adds(uint8_t dtype);
#endif
