/* device_cuda.h: what device_cuda.c, image.c, the libraries and the collectives of GPUs share. */
#ifndef MGPU_DEVICE_CUDA_H
#define MGPU_DEVICE_CUDA_H

#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpus.h"
#include "runtime/engine/collective.h"
#include "runtime/engine/device.h"
#include "runtime/engine/processes.h"

#include <pthread.h>

extern const DeviceKind mgpu_device_cuda;

struct DeviceSet {
    const CudaDriver *cuda;
    GpuList list;
    int count;            /* devices of all processes */
    DeviceSpan local;     /* devices of this process; the arrays below are for these only */
    const Gpu **gpu;      /* [device]; devices that share a GPU have the same pointer */
    CUcontext *context;   /* [device]: the primary context of its GPU */
    bool shared;          /* some GPU has two devices */
    int version;          /* of the driver: 12040 is 12.4 */
    const char *achieved; /* what the program has achieved, for messages, or NULL */
    int (*nccl_allocate)(void **memory, size_t bytes), (*nccl_free)(void *memory); /* of NCCL; NULL: not used */
};

typedef struct Cublaslt Cublaslt;     /* cublaslt.c */
typedef struct Cudnn Cudnn;           /* cudnn.c */
typedef struct Tuning Tuning;         /* tuning.c */
typedef struct CudaShards CudaShards; /* exact.c */
typedef struct CudaDevice {
    const CudaDriver *cuda;
    const Gpu *gpu;
    CUcontext context;
    const mgpu_program *program;
    const mgpu_plan *plan;
    const DeviceSet *machine;
    CUstream stream[MGPU_LANES]; /* stream of the lane host: copies to the host */
    CUmodule *modules;
    int module_count, last_module; /* last_module: the module of the last function found */
    const mgpu_image **images;     /* [module]: what it was loaded from */
    CUfunction (*function)[2];     /* [kernel]; NULL: none */
    int *instead;                  /* [kernel]: the kernel that --tune chose in its place; NULL: no --tune */
    int most_shared;               /* most bytes of shared memory of a block, static and dynamic */
    const mgpu_gpu_kernel *kernels;
    int kernel_count;
    CUdeviceptr arena;
    bool nccl_arena; /* the arena was allocated by NCCL */
    int64_t arena_bytes, samples;
    int64_t outside_arena_bytes; /* bytes allocated outside the arena for collectives and cuDNN's workspace */
    uint8_t *staging;
    uint8_t *bounce; /* page-locked, for copies from and to pageable memory */
    CUevent *events;
    int event_count;
    _Atomic uint32_t *written_step; /* [event], page-locked; NULL: the driver cannot write to it from a stream */
    struct {
        CUevent *events;
        int count;
    } clocks[MGPU_LANES];
    void **parameters;
    int most_parameters;
    Cublaslt *library;                   /* NULL: kernels compute all matmuls */
    Cudnn *cudnn;                        /* NULL: kernels compute all convolutions */
    CudaShards *exact;                   /* of an exact program; else NULL */
    _Atomic int64_t launches, launch_ns; /* graphs and calls issued, and the host's time in that */
    bool overlaps, after_kernel;         /* programmatic dependent launch may be used; comp's last work was our kernel */
    bool captures, captures_transfers;   /* lane comp is being captured; lane comm, too; for the issuing thread only */
    /* events by which lanes comp and comm fork and join around a graph with transfers; NULL: not created yet */
    CUevent fork_events[2];
    CUdeviceptr launched;         /* the number that such graphs copy to the host, written before each launch; 0: none */
    pthread_mutex_t *serial_lock; /* MGPU_GRAPHS=wait: held by the thread whose operation is executing */
    int number;
    char description[400];
    __attribute__((noreturn)) void (*fail)(void *context, int lane, const char *what);
    void (*fail_async)(void *context, const char *error, const char *call);
    void (*stage)(void *context, const char *what); /* as in DevicePlan */
    void *owner;
    _Atomic int64_t *returned; /* as in DevicePlan */
    bool tries_transfer; /* what fails is a part of a transfer that is tried (trial.c); changes while no thread uses the device */
} CudaDevice;

static inline CudaDevice *cuda_device(Device *d) { return (CudaDevice *)d; }

/* ---- calls.c */
/* Ends the program if the call failed. lane: the lane whose operation it belongs to, or -1. */
void mgpu_cuda_check(const CudaDevice *, int lane, CUresult, const char *call);
const char *mgpu_cuda_error_text(const CudaDevice *, CUresult, const char *call, char text[400]); /* describes a failed call */
void mgpu_cuda_serialize_on(const CudaDevice *);    /* MGPU_GRAPHS=wait: the caller's operation runs there; NULL: none */
void mgpu_cuda_enter(const CudaDevice *, int lane); /* makes the device's context current */
/* Ends the program because a call of a library failed. status: the library's word for it; variable: the environment variable that
 * turns the library off. */
__attribute__((noreturn)) void mgpu_cuda_library_failed(const CudaDevice *, int lane, const char *call, const char *status,
                                                        const char *variable);

/* Declares to a checking driver (the virtual GPU) that work issued to the lane from now on belongs to `operation` and touches
 * these bytes; count -1: unknown. */
void mgpu_cuda_declare(const CudaDevice *, int lane, const char *operation, const CudaRange *, int count);

/* Returns the address of an argument of a call, in slot 0; the step block is not counted. mgpu_cuda_workspace returns the bytes
 * of its last argument. */
void *mgpu_cuda_argument(const CudaDevice *, const mgpu_device_phase *, const mgpu_op *, int argument);
int64_t mgpu_cuda_workspace(const mgpu_op *);

/* memory.c: Allocates device memory, which is not zeroed. If there is not enough, ends the program with advice. outside_arena:
 * bytes that a device needs outside its arena, including this; what: the beginning of a sentence, such as "its arena takes". */
CUdeviceptr mgpu_cuda_allocate(const CudaDevice *, int64_t bytes, int64_t outside_arena, const char *what);

/* image.c: loads the image for the device's GPU, and the functions of all kernels in it. */
char *mgpu_image_archs(const mgpu_image *);                         /* "sm_90, compute_90", each once; the caller frees it */
void mgpu_cuda_load(CudaDevice *, const mgpu_program *, bool tune); /* tune: also the alternative tiles of contractions */
CUfunction mgpu_cuda_function(CudaDevice *, const char *name);

/* cublaslt.c: matmuls by cuBLASLt. Returns NULL if it is not there or not wanted; description: its name, or the reason. */
Cublaslt *mgpu_cublaslt_open(const CudaDevice *, int kernels, char *description, size_t capacity);
void mgpu_cublaslt_close(const CudaDevice *, Cublaslt *);
/* Called before the first step: chooses the calls that the library computes, and appends a remark to `description`. tuning:
 * choose what is measured to be faster than kernels, and the fastest algorithms; NULL: everything that it supports, by its own
 * heuristics. */
void mgpu_cublaslt_prepare(const CudaDevice *, Cublaslt *, Tuning *, char *description, size_t capacity);
/* Issues to the lane comp what the library computes of a call. Returns the number of its matmuls; 0 if the next call computes
 * this one, too; -1 if the library does not compute it. */
int mgpu_cublaslt_run(const CudaDevice *, const Cublaslt *, const DeviceCall *);

/* tiles.c: called before libraries are asked; chooses the fastest tiles of our own contractions. */
void mgpu_cuda_tune_tiles(CudaDevice *, Tuning *);
/* Returns the kernel to launch for calls of `kernel`. */
static inline int mgpu_cuda_row(const CudaDevice *d, int kernel) { return d->instead ? d->instead[kernel] : kernel; }

/* launch.c: Launches the call's own kernel. argument: all but the step block; follows: only a kernel of the program precedes it
 * in the stream. Returns how many functions are launched. */
int mgpu_cuda_launch(const CudaDevice *, const mgpu_op *, void *const *argument, int arguments, int64_t samples,
                     const mgpu_step *, bool follows);
/* Returns the samples, or elements of split values, that the operation processes. */
static inline int64_t mgpu_cuda_samples(const CudaDevice *d, const mgpu_op *op)
{
    return op->elements ? mgpu_own_elements(op) : d->samples;
}
/* with a table */
int mgpu_cuda_launch_table(const CudaDevice *, const DeviceCall *, int count, const mgpu_step *, bool follows);
/* Launches with the buffers' first slots, to be timed. */
void mgpu_cuda_launch_first(const CudaDevice *, const mgpu_device_phase *, const mgpu_op *);

/* exact.c: virtual shards (mgpu_exact.h) of exact programs. d->exact is NULL for others. */
void mgpu_cuda_open_shards(CudaDevice *);
void mgpu_cuda_close_shards(CudaDevice *);
/* Returns true if the call sums samples. A copy of a device's part that is gathered has elements of its own, and no terms. */
static inline bool mgpu_cuda_sums(const CudaDevice *d, const mgpu_op *op)
{
    return op->verb == MGPU_CALL && d->kernels[op->target].sums && !op->elements;
}
CudaRange mgpu_cuda_terms(const CudaDevice *); /* memory that calls of kernels with `sums` write */
/* Launches the kernel for each virtual shard of the device, and adds the sums by the tree. Returns how many functions are
 * launched. */
int mgpu_cuda_sum_shards(const CudaDevice *, const DeviceCall *, const mgpu_step *);
/* Kernels that add terms by the tree. type: of an element, or MGPU_MOMENTS */
enum { TREE_FUNCTIONS = 9 };
int mgpu_tree_function(uint8_t type);
const char *mgpu_tree_name(int function);

/* cudnn.c: convolutions by cuDNN, likewise. mgpu_cudnn_run returns how many kernels it issues in place of a call; 0: it does not
 * compute it. */
bool mgpu_cudnn_wanted(const CudaDevice *, bool tuned);
/* outside_arena: bytes for collectives */
Cudnn *mgpu_cudnn_open(CudaDevice *, int kernels, int64_t outside_arena, char *description, size_t capacity);
void mgpu_cudnn_close(const CudaDevice *, Cudnn *);
CudaRange mgpu_cudnn_workspace(const Cudnn *); /* that its calls write */
void mgpu_cudnn_prepare(const CudaDevice *, Cudnn *, Tuning *, char *description, size_t capacity);
int mgpu_cudnn_run(const CudaDevice *, const Cudnn *, const DeviceCall *);

/* nccl.c: Finds and uses NCCL's allocator, whose memory it can register for all transports, including NVLink's switches. Returns
 * 0 if there is none. Memory is freed by nccl_free. */
void mgpu_nccl_find_memory(DeviceSet *, const mgpu_program *);
CUdeviceptr mgpu_nccl_allocate(const CudaDevice *, int64_t bytes);

/* process_gpus.c: Sets m->own and m->gpu to the GPUs of this process, of those in m->list. named: the value of --devices. */
void mgpu_choose_gpus(DeviceSet *m, const DeviceList *named, Processes *);

/* collective.c, connect.c */
bool mgpu_cuda_may_use_nccl(const DeviceSet *, const mgpu_plan *); /* provided that it is installed */
Collective *mgpu_cuda_connect(DeviceSet *, Device **, const mgpu_plan *, Processes *, Collective *beside);
int64_t mgpu_cuda_scratch(const mgpu_plan *); /* bytes that collectives allocate outside a device's arena */
#endif
