/* nccl.h: the part of NCCL (libnccl.so.2) that is used, declared here. Names and numbers are those of nccl.h, which are stable
 * (https://docs.nvidia.com/deeplearning/nccl/). NCCL_FUNCTIONS and NCCL_LATER list all functions. */
#ifndef MGPU_NCCL_H
#define MGPU_NCCL_H

#include "runtime/cuda/driver.h"

typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInProgress = 7 };
/* clang-format off */
enum { ncclInt8 = 0, ncclUint8 = 1, ncclInt32 = 2, ncclUint32 = 3, ncclInt64 = 4, ncclUint64 = 5, ncclFloat16 = 6, ncclFloat32 = 7,
       ncclFloat64 = 8, ncclBfloat16 = 9 };
/* clang-format on */
enum { ncclSum = 0 };

/* X(result, symbol in the library, field of the table, parameters). NCCL_LATER: present in 2.19, missing in older versions. */
/* clang-format off */
#define NCCL_FUNCTIONS(X)                                                                                              \
    X(ncclResult_t, ncclGetVersion, get_version, (int *version))                                                       \
    X(const char *, ncclGetErrorString, get_error_string, (ncclResult_t result))                                       \
    X(ncclResult_t, ncclCommInitAll, comm_init_all, (ncclComm_t *comms, int count, const int *devices))                \
    X(ncclResult_t, ncclGetUniqueId, get_unique_id, (ncclUniqueId *id))                                                \
    X(ncclResult_t, ncclCommInitRank, comm_init_rank, (ncclComm_t *comm, int count, ncclUniqueId id, int rank))        \
    X(ncclResult_t, ncclCommDestroy, comm_destroy, (ncclComm_t comm))                                                  \
    X(ncclResult_t, ncclCommGetAsyncError, comm_get_async_error, (ncclComm_t comm, ncclResult_t *error))               \
    X(ncclResult_t, ncclAllReduce, all_reduce,                                                                         \
      (const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream))            \
    X(ncclResult_t, ncclReduceScatter, reduce_scatter,                                                                 \
      (const void *send, void *receive, size_t count, int dtype, int op, ncclComm_t comm, CUstream stream))            \
    X(ncclResult_t, ncclReduce, reduce,                                                                                \
      (const void *send, void *receive, size_t count, int dtype, int op, int root, ncclComm_t comm, CUstream stream))  \
    X(ncclResult_t, ncclAllGather, all_gather,                                                                         \
      (const void *send, void *receive, size_t count, int dtype, ncclComm_t comm, CUstream stream))                    \
    X(ncclResult_t, ncclBroadcast, broadcast,                                                                          \
      (const void *send, void *receive, size_t count, int dtype, int root, ncclComm_t comm, CUstream stream))          \
    X(ncclResult_t, ncclSend, send, (const void *send, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)) \
    X(ncclResult_t, ncclRecv, receive, (void *receive, size_t count, int dtype, int peer, ncclComm_t comm, CUstream stream)) \
    X(ncclResult_t, ncclGroupStart, group_start, (void))                                                               \
    X(ncclResult_t, ncclGroupEnd, group_end, (void))
#define NCCL_LATER(X)                                                                                                  \
    X(const char *, ncclGetLastError, get_last_error, (ncclComm_t comm))                                               \
    X(ncclResult_t, ncclCommAbort, comm_abort, (ncclComm_t comm))                                                      \
    X(ncclResult_t, ncclCommRegister, comm_register, (const ncclComm_t comm, void *memory, size_t bytes, void **handle)) \
    X(ncclResult_t, ncclCommDeregister, comm_deregister, (const ncclComm_t comm, void *handle))                        \
    X(ncclResult_t, ncclMemAlloc, mem_alloc, (void **memory, size_t bytes))                                            \
    X(ncclResult_t, ncclMemFree, mem_free, (void *memory))
/* clang-format on */
#endif
