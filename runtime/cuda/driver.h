/* driver.h: the part of NVIDIA's driver API (libcuda.so.1) that is used, declared here: no CUDA header is needed to build, and
 * programs start on machines without a driver. Names and numbers are those of cuda.h, which are stable
 * (https://docs.nvidia.com/cuda/cuda-driver-api/). All of CUDA_FUNCTIONS exist since CUDA 11.4 (drivers 470 and newer).
 *
 * CUDA_FUNCTIONS and CUDA_LATER list all functions: the table of pointers, the names that are looked up, and what a stand-in for
 * the library must have are made of them. */
#ifndef MGPU_CUDA_DRIVER_H
#define MGPU_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuuid {
    char bytes[16];
} CUuuid;

enum { /* CUresult */
       CUDA_SUCCESS = 0,
       CUDA_ERROR_INVALID_VALUE = 1,
       CUDA_ERROR_OUT_OF_MEMORY = 2,
       CUDA_ERROR_NOT_INITIALIZED = 3,
       CUDA_ERROR_NO_DEVICE = 100,
       CUDA_ERROR_INVALID_DEVICE = 101,
       CUDA_ERROR_INVALID_IMAGE = 200,
       CUDA_ERROR_INVALID_CONTEXT = 201,
       CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
       CUDA_ERROR_ECC_UNCORRECTABLE = 214,
       CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
       CUDA_ERROR_INVALID_PTX = 218,
       CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
       CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
       CUDA_ERROR_CONTAINED = 226,
       CUDA_ERROR_INVALID_HANDLE = 400,
       CUDA_ERROR_NOT_FOUND = 500,
       CUDA_ERROR_NOT_READY = 600,
       CUDA_ERROR_ILLEGAL_ADDRESS = 700,
       CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
       CUDA_ERROR_LAUNCH_TIMEOUT = 702,
       CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
       CUDA_ERROR_ASSERT = 710,
       CUDA_ERROR_TOO_MANY_PEERS = 711,
       CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
       CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
       CUDA_ERROR_MISALIGNED_ADDRESS = 716,
       CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
       CUDA_ERROR_INVALID_PC = 718,
       CUDA_ERROR_LAUNCH_FAILED = 719,
       CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
       CUDA_ERROR_NOT_PERMITTED = 800,
       CUDA_ERROR_NOT_SUPPORTED = 801,
       CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
       CUDA_ERROR_EXTERNAL_DEVICE = 911,
       CUDA_ERROR_UNKNOWN = 999
};
enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1 };
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_EVENT_RECORD_DEFAULT = 0, CU_EVENT_RECORD_EXTERNAL = 1 };
enum { CU_STREAM_WRITE_VALUE_DEFAULT = 0 };
enum { CU_EVENT_WAIT_DEFAULT = 0, CU_EVENT_WAIT_EXTERNAL = 1 };
enum { CU_LAUNCH_ATTRIBUTE_IGNORE = 0, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

typedef struct CUlaunchAttribute {
    int id;
    int reserved;
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* A stand-in for the driver that checks accesses (docs/vgpu.md) has three more functions. vgpuDeclare: work issued to `stream`
 * from now on belongs to `operation` and touches only these bytes of device memory; count < 0: unknown. All arguments are copied.
 * vgpuTell, vgpuHear: host threads synchronize by a counter; the first is called just before it is raised, the second just after
 * it has been waited for. What the raising thread has waited for has then also completed for the waiting one. */
enum { CUDA_READS, CUDA_WRITES, CUDA_EXCHANGES /* words accessed by kernels of several GPUs, relaxed, system scope */ };
typedef struct CudaRange {
    uint64_t begin, end;
    int writes;       /* CUDA_... */
    const char *name; /* of the buffer */
} CudaRange;
typedef void CudaDeclare(void *stream, const char *operation, const CudaRange *, int count);
typedef void CudaCounterCall(const void *counter, int64_t value);

/* X(symbol in the library, field of CudaDriver, parameters) */
/* clang-format off */
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cuInit, init, (unsigned flags))                                                                                  \
    X(cuDriverGetVersion, driver_get_version, (int *version))                                                          \
    X(cuGetErrorName, get_error_name, (CUresult error, const char **text))                                             \
    X(cuGetErrorString, get_error_string, (CUresult error, const char **text))                                         \
    X(cuDeviceGetCount, device_get_count, (int *count))                                                                \
    X(cuDeviceGet, device_get, (CUdevice *device, int ordinal))                                                        \
    X(cuDeviceGetName, device_get_name, (char *name, int capacity, CUdevice device))                                       \
    X(cuDeviceGetUuid_v2, device_get_uuid, (CUuuid *uuid, CUdevice device))                                            \
    X(cuDeviceGetPCIBusId, device_get_pci_bus_id, (char *text, int capacity, CUdevice device))                             \
    X(cuDeviceGetAttribute, device_get_attribute, (int *value, int attribute, CUdevice device))                        \
    X(cuDeviceTotalMem_v2, device_total_mem, (size_t *bytes, CUdevice device))                                         \
    X(cuDevicePrimaryCtxRetain, device_primary_ctx_retain, (CUcontext *context, CUdevice device))                      \
    X(cuDevicePrimaryCtxRelease_v2, device_primary_ctx_release, (CUdevice device))                                     \
    X(cuCtxSetCurrent, ctx_set_current, (CUcontext context))                                                           \
    X(cuDeviceCanAccessPeer, device_can_access_peer, (int *can, CUdevice device, CUdevice peer))                       \
    X(cuCtxEnablePeerAccess, ctx_enable_peer_access, (CUcontext peer, unsigned flags))                                 \
    X(cuCtxDisablePeerAccess, ctx_disable_peer_access, (CUcontext peer))                                               \
    X(cuMemGetInfo_v2, mem_get_info, (size_t *free_bytes, size_t *total_bytes))                                        \
    X(cuMemAlloc_v2, mem_alloc, (CUdeviceptr *memory, size_t bytes))                                                   \
    X(cuMemFree_v2, mem_free, (CUdeviceptr memory))                                                                    \
    X(cuMemHostAlloc, mem_host_alloc, (void **memory, size_t bytes, unsigned flags))                                   \
    X(cuMemFreeHost, mem_free_host, (void *memory))                                                                    \
    X(cuMemcpyHtoDAsync_v2, memcpy_htod_async, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))      \
    X(cuMemcpyDtoHAsync_v2, memcpy_dtoh_async, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(cuMemcpyDtoDAsync_v2, memcpy_dtod_async, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
    X(cuMemcpyPeerAsync, memcpy_peer_async,                                                                            \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(cuMemsetD8Async, memset_d8_async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))          \
    X(cuStreamCreateWithPriority, stream_create_with_priority, (CUstream *stream, unsigned flags, int priority))       \
    X(cuStreamDestroy_v2, stream_destroy, (CUstream stream))                                                           \
    X(cuStreamSynchronize, stream_synchronize, (CUstream stream))                                                      \
    X(cuLaunchHostFunc, launch_host_func, (CUstream stream, void (*function)(void *), void *context))                  \
    X(cuStreamWaitEvent, stream_wait_event, (CUstream stream, CUevent event, unsigned flags))                          \
    X(cuStreamBeginCapture_v2, stream_begin_capture, (CUstream stream, int mode))                                      \
    X(cuStreamEndCapture, stream_end_capture, (CUstream stream, CUgraph *graph))                                       \
    X(cuGraphInstantiateWithFlags, graph_instantiate, (CUgraphExec *exec, CUgraph graph, unsigned long long flags))    \
    X(cuGraphUpload, graph_upload, (CUgraphExec exec, CUstream stream))                                                \
    X(cuGraphLaunch, graph_launch, (CUgraphExec exec, CUstream stream))                                                \
    X(cuGraphExecDestroy, graph_exec_destroy, (CUgraphExec exec))                                                      \
    X(cuGraphDestroy, graph_destroy, (CUgraph graph))                                                                  \
    X(cuEventCreate, event_create, (CUevent *event, unsigned flags))                                                   \
    X(cuEventDestroy_v2, event_destroy, (CUevent event))                                                               \
    X(cuEventRecord, event_record, (CUevent event, CUstream stream))                                                   \
    X(cuEventRecordWithFlags, event_record_with_flags, (CUevent event, CUstream stream, unsigned flags))               \
    X(cuEventSynchronize, event_synchronize, (CUevent event))                                                          \
    X(cuEventElapsedTime, event_elapsed_time, (float *milliseconds, CUevent begin, CUevent end))                       \
    X(cuModuleLoadDataEx, module_load_data, (CUmodule *module, const void *image, unsigned option_count, int *options, void **values)) \
    X(cuModuleUnload, module_unload, (CUmodule module))                                                                \
    X(cuModuleGetFunction, module_get_function, (CUfunction *function, CUmodule module, const char *name))             \
    X(cuFuncGetAttribute, func_get_attribute, (int *value, int attribute, CUfunction function))                        \
    X(cuFuncSetAttribute, func_set_attribute, (CUfunction function, int attribute, int value))                         \
    X(cuLaunchKernel, launch_kernel,                                                                                   \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))
/* clang-format on */

/* Likewise, present since CUDA 11.8; NULL if the driver is older. */
#define CUDA_LATER(X)                                                                                                            \
    X(cuDeviceGetUuid, device_get_whole_uuid, (CUuuid * uuid, CUdevice device))                                                  \
    X(cuStreamWriteValue32_v2, stream_write_value, (CUstream stream, CUdeviceptr to, uint32_t value, unsigned flags))            \
    X(cuLaunchKernelEx, launch_kernel_ex, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))

#define CUDA_FIELD(symbol, field, parameters) CUresult(*field) parameters;
typedef struct CudaDriver {
    CUDA_FUNCTIONS(CUDA_FIELD)
    CUDA_LATER(CUDA_FIELD)
    CudaDeclare *declare; /* checking stand-ins only; else NULL */
    CudaCounterCall *publish, *waited_for;
} CudaDriver;
#undef CUDA_FIELD

/* Looks up all functions and calls cuInit, once per process. If it returns NULL, *why says what is missing and what to
 * install. */
const CudaDriver *mgpu_cuda_driver(const char **why);
bool mgpu_cuda_is_virtual(void); /* the opened library is a checking stand-in */
/* Returns the latest CUDA version that the driver supports (12040 is 12.4), or 0 if there is no driver. Does not initialize
 * it. */
int mgpu_cuda_driver_version(void);
/* Returns "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered". */
const char *mgpu_cuda_error(const CudaDriver *, CUresult, char text[200]);
#endif
